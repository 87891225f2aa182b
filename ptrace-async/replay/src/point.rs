//! Places between two syscalls, known by their state.

use ptrace_async::memory::Memory;
use ptrace_async::runtime::{Stopped, Tracee};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::trace::event::{Point, Registers};

/// Bits of the flags that stepping and trapping leave behind (trap, resume).
const TRACES: u64 = 1 << 8 | 1 << 16;
/// Where the flags, and the number of the last syscall, are in [`Registers`].
const FLAGS: usize = 18;
const ORIG_RAX: usize = 15;

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

/// A digest of the frames next to the stack pointer.
pub(crate) fn stack<S: Stopped>(tracee: &Tracee<S>, sp: u64) -> u64 {
    let mut bytes = [0_u8; 2048];
    let got = tracee.read(sp.saturating_sub(128), &mut bytes);
    xxh3_64(&bytes[..got])
}

impl Point {
    /// Whether a task is at this point; its registers are given, because its instruction
    /// pointer may stand elsewhere for the moment.
    pub(crate) fn is_at<S: Stopped>(&self, tracee: &Tracee<S>, registers: &Registers) -> bool {
        plain(registers) == self.registers
            && self
                .words
                .iter()
                .all(|&(address, value)| tracee.read_u64(address) == Ok(value))
            && stack(tracee, registers.0[19]) == self.stack
            && tracee
                .extended_state()
                .is_ok_and(|state| extended(&state) == self.extended)
    }
}
