//! Scratch memory for calls that write while other tasks of their scheduler run.
//!
//! No log can tell when the kernel writes: other tasks might see the data early, or pass it to
//! a child that they create. So a call that may wait writes to scratch memory. The data is
//! copied to its destination when the task has the turn again (rr calls these scratch
//! buffers).

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use ptrace_async::memory::Memory;
use ptrace_async::runtime::{Prehook, Stop, Stopped, Tracee};
use ptrace_async::syscall::effects::{self, Output, Pointer};
use ptrace_async::syscall::{Invocation, error_of};

/// Where it is, in each process that needs it; see `memory` for the range.
const BASE: u64 = 0x7eaa_0000_0000;
const LENGTH: u64 = 16 << 20;
/// Most bytes for a single call.
const MOST: u64 = 1 << 20;
const ALIGNMENT: u64 = 64;

/// The memory of one address space.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    mapped: Cell<bool>,
    /// In order.
    used: RefCell<Vec<Range<u64>>>,
}

/// A call that writes elsewhere.
#[derive(Debug)]
pub(super) struct Redirected {
    scratch: Rc<Scratch>,
    all: Range<u64>,
    parts: Vec<Part>,
}

/// One of its output ranges.
#[derive(Debug)]
struct Part {
    place: Range<u64>,
    /// The scratch address.
    elsewhere: u64,
    /// The old content, if the call reads it. Addresses in it point to other parts.
    before: Option<Vec<u8>>,
}

impl Scratch {
    /// The scratch memory of a forked child, in which no call is pending.
    pub(super) fn copy(&self) -> Self {
        Self {
            mapped: self.mapped.clone(),
            used: RefCell::default(),
        }
    }

    fn allocate(&self, length: u64) -> Option<Range<u64>> {
        let mut used = self.used.borrow_mut();
        let mut start = BASE;
        let mut index = 0;
        for range in used.iter() {
            if range.start - start >= length {
                break;
            }
            start = range.end;
            index += 1;
        }
        let range = start..start + length;
        if range.end > BASE + LENGTH {
            return None;
        }
        used.insert(index, range.clone());
        Some(range)
    }

    fn free(&self, range: &Range<u64>) {
        self.used.borrow_mut().retain(|other| other != range);
    }

    async fn map(&self, tracee: Tracee<Prehook>) -> Result<Tracee<Prehook>, Stop> {
        if self.mapped.get() {
            return Ok(tracee);
        }
        let flags = libc::MAP_PRIVATE
            | libc::MAP_ANONYMOUS
            | libc::MAP_NORESERVE
            | libc::MAP_FIXED_NOREPLACE;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let call = Invocation {
            nr: libc::SYS_mmap as u64,
            args: [BASE, LENGTH, prot as u64, flags as u64, u64::MAX, 0],
        };
        let (tracee, mapped) = tracee.inject(call).await?;
        self.mapped.set(error_of(mapped).is_none());
        Ok(tracee)
    }
}

/// Has a call write elsewhere that is about to be made: what it is made of instead. It stays
/// as it is where that is impossible: what it writes to is not there, or large.
///
/// # Errors
/// The stop that came instead.
pub(super) async fn redirect(
    scratch: &Rc<Scratch>,
    mut tracee: Tracee<Prehook>,
    call: &Invocation,
) -> Result<(Tracee<Prehook>, Option<Redirected>), Stop> {
    let outputs = effects::outputs(call, &tracee);
    let is_there = |output: &Output| {
        let last = output.range.end() - 1;
        let mut byte = [0];
        tracee.read(output.range.start, &mut byte) == 1 && tracee.read(last, &mut byte) == 1
    };
    if outputs.is_empty() || !outputs.iter().all(is_there) {
        return Ok((tracee, None));
    }
    let length = outputs.iter().fold(0_u64, |sum, output| {
        sum.saturating_add(padded(output.range.len))
    });
    if length > MOST {
        return Ok((tracee, None));
    }
    tracee = scratch.map(tracee).await?;
    if !scratch.mapped.get() {
        return Ok((tracee, None));
    }
    let Some(all) = scratch.allocate(length) else {
        return Ok((tracee, None));
    };
    let mut redirected = Redirected {
        scratch: scratch.clone(),
        all,
        parts: Vec::new(),
    };
    let other = redirected.fill(&tracee, call, &outputs);
    let redirected = other
        .filter(|other| tracee.modify(*other).is_ok())
        .map(|_| redirected);
    Ok((tracee, redirected))
}

fn padded(length: u64) -> u64 {
    length.saturating_add(ALIGNMENT - 1) & !(ALIGNMENT - 1)
}

impl Redirected {
    /// Makes the parts: the call that writes to them.
    fn fill(
        &mut self,
        tracee: &Tracee<Prehook>,
        call: &Invocation,
        outputs: &[Output],
    ) -> Option<Invocation> {
        let mut other = *call;
        let mut next = self.all.start;
        for output in outputs {
            let elsewhere = next;
            next += padded(output.range.len);
            match output.pointer {
                Pointer::Argument(index) => other.args[usize::from(index)] = elsewhere,
                Pointer::Word(address) => {
                    let (part, at) = self.parts.iter_mut().find_map(|part| part.find(address))?;
                    let word = part.before.as_mut()?.get_mut(at..at + 8)?;
                    word.copy_from_slice(&elsewhere.to_le_bytes());
                }
            }
            let before = if output.is_read {
                let mut bytes = vec![0; output.range.len as usize];
                tracee.read_exact(output.range.start, &mut bytes).ok()?;
                Some(bytes)
            } else {
                None
            };
            self.parts.push(Part {
                place: output.range.start..output.range.end(),
                elsewhere,
                before,
            });
        }
        for part in &self.parts {
            if let Some(bytes) = &part.before {
                tracee.write(part.elsewhere, bytes).ok()?;
            }
        }
        Some(other)
    }

    /// Brings what the call has changed of what it read to its place.
    pub(super) fn bring_changes<S: Stopped>(&self, tracee: &Tracee<S>) {
        for part in &self.parts {
            let Some(before) = &part.before else { continue };
            let mut after = vec![0; before.len()];
            if tracee.read_exact(part.elsewhere, &mut after).is_err() {
                continue;
            }
            let mut at = 0;
            let pairs: Vec<bool> = before.iter().zip(&after).map(|(a, b)| a != b).collect();
            for run in pairs.chunk_by(|a, b| a == b) {
                if run[0] {
                    let address = part.place.start + at as u64;
                    let _ = tracee.write_writable(address, &after[at..at + run.len()]);
                }
                at += run.len();
            }
        }
    }

    /// Brings what the call has written to this range; whether it could be.
    pub(super) fn bring<S: Stopped>(&self, tracee: &Tracee<S>, range: &effects::Range) -> bool {
        let part = self
            .parts
            .iter()
            .find(|part| part.place.contains(&range.start) && range.end() <= part.place.end);
        let Some(part) = part.filter(|part| part.before.is_none()) else {
            return true;
        };
        let mut bytes = vec![0; range.len as usize];
        let elsewhere = part.elsewhere + (range.start - part.place.start);
        tracee.read_exact(elsewhere, &mut bytes).is_ok()
            && tracee
                .write_writable(range.start, &bytes)
                .is_ok_and(|written| written == bytes.len())
    }
}

impl Drop for Redirected {
    fn drop(&mut self) {
        self.scratch.free(&self.all);
    }
}

impl Part {
    /// Itself and where in it an address is, if it is.
    fn find(&mut self, address: u64) -> Option<(&mut Self, usize)> {
        let at = address.checked_sub(self.place.start)?;
        self.place.contains(&address).then_some((self, at as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_scratch_memory_is_reused() {
        let scratch = Scratch::default();
        let first = scratch.allocate(128).unwrap();
        let second = scratch.allocate(64).unwrap();
        assert_eq!((first.start, second.start), (BASE, BASE + 128));
        scratch.free(&first);
        assert_eq!(scratch.allocate(64).unwrap().start, BASE);
        assert_eq!(scratch.allocate(128).unwrap().start, second.end);
        assert_eq!(scratch.allocate(64).unwrap().start, BASE + 64);
        assert_eq!(scratch.allocate(LENGTH), None);
        assert!(scratch.copy().allocate(LENGTH).is_some());
    }
}
