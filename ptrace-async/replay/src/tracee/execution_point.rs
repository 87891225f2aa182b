//! Execution points: places between two syscalls, identified by registers and memory.

use ptrace_async::memory::Memory;
use ptrace_async::runtime::{Stopped, Tracee};
use xxhash_rust::xxh3::Xxh3;

use crate::code::registers::Registers;
use crate::memory::digest;
use crate::memory::maps::{self, Area};
use crate::trace::event::ExecutionPoint;

/// Bits of the flags that stepping and trapping leave behind (trap, resume).
const TRACES: u64 = 1 << 8 | 1 << 16;
/// Where the flags, and the number of the last syscall, are in [`Registers`].
const FLAGS: usize = 18;
const ORIG_RAX: usize = 15;
/// Where the stack pointer is.
const SP: usize = 19;

/// The registers without what tells how they were read.
pub(crate) fn plain(registers: &Registers) -> Registers {
    let mut plain = *registers;
    plain.0[FLAGS] &= !TRACES;
    plain.0[ORIG_RAX] = 0;
    plain
}

/// A digest of the floating-point and vector registers: the parts of the XSAVE area that
/// hold values of theirs.
pub(crate) fn extended(state: &[u8]) -> u64 {
    let mut hasher = Xxh3::new();
    for range in [32..416, 576..832] {
        hasher.update(state.get(range).unwrap_or_default());
    }
    hasher.digest()
}

/// Where what is compared of the stack begins.
fn top(sp: u64) -> u64 {
    sp.saturating_sub(128)
}

/// The frames next to the stack pointer.
pub(crate) fn stack<S: Stopped>(tracee: &Tracee<S>, sp: u64) -> Vec<u8> {
    let mut bytes = vec![0_u8; 2048];
    let got = tracee.read(top(sp), &mut bytes);
    bytes.truncate(got);
    bytes
}

impl ExecutionPoint {
    /// Whether a task is at this point; its registers are given, because its instruction
    /// pointer may stand elsewhere for the moment.
    pub(crate) fn is_at<S: Stopped>(&self, tracee: &Tracee<S>, registers: &Registers) -> bool {
        plain(registers) == self.registers
            && self
                .words
                .iter()
                .all(|&(address, value)| tracee.read_u64(address) == Ok(value))
            && stack(tracee, registers.0[SP]) == self.stack
            && tracee
                .extended_state()
                .is_ok_and(|state| extended(&state) == self.extended)
    }

    /// Whether memory is what it was, as far as that is known.
    pub(crate) fn has_contents<S: Stopped>(&self, tracee: &Tracee<S>) -> bool {
        let Some(contents) = &self.contents else {
            return true;
        };
        let digest =
            |areas: Vec<Area>| digest::contents(tracee, tracee.tgid(), &areas, &contents.stacks);
        let areas = maps::read(tracee.tgid()).ok();
        // Where it cannot be looked at nothing is known.
        areas
            .and_then(digest)
            .is_none_or(|now| now == contents.digest)
    }

    /// Words that tell the point from where a task is, of those that are known and of the stack,
    /// at most `most`: their addresses, and what they are at the point. The stack pointer is
    /// the point's.
    pub(crate) fn telling_words<S: Stopped>(
        &self,
        tracee: &Tracee<S>,
        most: usize,
    ) -> Vec<(u64, u64)> {
        let sp = self.registers.0[SP];
        let other = stack(tracee, sp);
        let words = |bytes: &[u8]| {
            bytes
                .as_chunks()
                .0
                .iter()
                .map(|word| u64::from_le_bytes(*word))
                .collect::<Vec<_>>()
        };
        let known = self
            .words
            .iter()
            .copied()
            .filter(|&(address, value)| tracee.read_u64(address).is_ok_and(|now| now != value));
        let pairs = words(&self.stack).into_iter().zip(words(&other));
        let of_stack = (top(sp)..)
            .step_by(8)
            .zip(pairs)
            .filter(|(_, (here, there))| here != there)
            .map(|(address, (here, _))| (address, here));
        known.chain(of_stack).take(most).collect()
    }
}
