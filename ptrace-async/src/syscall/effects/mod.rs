//! Which memory of the caller a syscall reads and writes.
//!
//! The typed columns of the table say most of it ([`typed`]); calls whose
//! arguments change their meaning with a command have a rule ([`rules`],
//! [`ioctl`]).
//!
//! [`writes`] is what a recorder must save after a call and what a replay must
//! put back: a changed byte outside of these ranges is a defect of the table.
//! The ranges are as tight as the result allows; a byte in a range need not
//! have changed. [`reads`] is an upper bound: what the kernel may have looked at.
//! [`outputs`] says before a call where it may write, and has its addresses from.
//!
//! Deliberately absent:
//! * changes of the mappings (`mmap`, `execve`, …): see [`Object::AddressSpace`];
//! * what the kernel writes after the call ([`Later`]): the child's thread id at
//!   exit, `rseq`, pages given up with `MADV_FREE`;
//! * what a failed call left behind before it failed (`EFAULT` in the middle of
//!   a transfer), and the block that a direct read may overwrite beyond its
//!   result at the end of a file;
//! * descriptions of buffers (`struct iovec`, `struct msghdr`) that the call
//!   itself overwrites with data.
//!
//! **Invariant:** no input makes these functions panic or allocate without
//! bound.
//!
//! [`Object::AddressSpace`]: super::Object::AddressSpace
//! [`Later`]: super::Later

mod ioctl;
mod outputs;
mod rules;
mod typed;

pub use outputs::{Output, Pointer, outputs};
pub(super) use typed::{count_of, read_vectors};

use smallvec::SmallVec;

use super::model::{Effects, Extent, Length, Rule, Type, When};
use super::{Invocation, Syscall, error_of};
use crate::memory::Memory;

/// A range of a tracee's memory; never empty, never beyond the address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Range {
    /// The first address.
    pub start: u64,
    /// The number of bytes.
    pub len: u64,
}

impl Range {
    /// The first address behind the range.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.len)
    }

    /// Whether `address` lies in the range.
    #[must_use]
    pub fn contains(&self, address: u64) -> bool {
        self.start <= address && address < self.end()
    }
}

/// The memory effects of a call are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("memory effects of syscall {number} ({name}) are not modelled: {reason}")]
pub struct Unmodelled {
    /// The syscall number.
    pub number: u64,
    /// The syscall's name.
    pub name: &'static str,
    /// Why they are not modelled.
    pub reason: &'static str,
}

/// Lengths that a call may overwrite, as they were when it began.
///
/// `recvfrom` reports the length of an address that it may have cut to the
/// buffer; only the length at entry tells how much was written. Capturing costs
/// a read of memory only for the calls that need it ([`Before::is_needed`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Before {
    words: SmallVec<[(u64, u32); 2]>,
}

impl Before {
    /// Whether a call of this syscall has such lengths.
    #[must_use]
    pub fn is_needed(syscall: Syscall) -> bool {
        syscall.spec().is_some_and(|spec| {
            spec.effects == Effects::Rule(Rule::FileHandle)
                || spec.args.iter().any(|arg| match arg.ty {
                    Type::Out(extent) | Type::OutWhen(_, extent) => matches!(
                        extent,
                        Extent::Message
                            | Extent::Messages(_)
                            | Extent::Bytes(Length::Pointed(_))
                            | Extent::Sized(_, Length::Pointed(_))
                    ),
                    _ => false,
                })
        })
    }

    /// Reads them. Call it while the tracee is stopped at the entry of the call.
    #[must_use]
    pub fn capture(invocation: &Invocation, memory: &dyn Memory) -> Self {
        let mut before = Self::default();
        if !Self::is_needed(invocation.syscall()) {
            return before;
        }
        let mut keep = |address: u64| {
            if let Some(word) = read_u32(memory, address) {
                before.words.push((address, word));
            }
        };
        for address in typed::lengths(invocation) {
            keep(address);
        }
        before
    }

    /// The word at `address` at entry.
    fn word(&self, address: u64) -> Option<u32> {
        self.words
            .iter()
            .find(|(at, _)| *at == address)
            .map(|(_, word)| *word)
    }
}

/// The ranges that the kernel wrote on behalf of a call that returned `result`,
/// with `memory` as it is after the call.
///
/// Without the lengths at entry ([`writes_since`]), ranges of values that the
/// kernel cut to the buffer (socket addresses, control data) can be longer than
/// what was written.
///
/// # Errors
/// [`Unmodelled`] when the effects are not known, also for unknown numbers.
///
/// ```
/// use ptrace_async::memory::Memory;
/// use ptrace_async::syscall::{Invocation, effects};
///
/// struct Nothing;
/// impl Memory for Nothing {
///     fn read(&self, _: u64, _: &mut [u8]) -> usize {
///         0
///     }
/// }
///
/// let read = Invocation { nr: 0, args: [3, 0x1000, 512, 0, 0, 0] };
/// let ranges = effects::writes(&read, 100, &Nothing).unwrap();
/// assert_eq!((ranges[0].start, ranges[0].len), (0x1000, 100));
/// ```
pub fn writes(
    invocation: &Invocation,
    result: i64,
    memory: &dyn Memory,
) -> Result<Vec<Range>, Unmodelled> {
    writes_since(&Before::default(), invocation, result, memory)
}

/// [`writes`], with the lengths that were captured at entry.
///
/// # Errors
/// As [`writes`].
pub fn writes_since(
    before: &Before,
    invocation: &Invocation,
    result: i64,
    memory: &dyn Memory,
) -> Result<Vec<Range>, Unmodelled> {
    let mut pass = Pass {
        invocation,
        result: Some(result),
        memory,
        before,
        ranges: Vec::new(),
    };
    pass.run(Pass::typed_writes, rules::writes)
}

/// The ranges that the kernel reads on behalf of a call: everything it may
/// look at before the call (`result` is `None`), or what it looked at to arrive
/// at `result`. An upper bound in both cases.
///
/// # Errors
/// [`Unmodelled`] when the effects are not known, also for unknown numbers.
pub fn reads(
    invocation: &Invocation,
    result: Option<i64>,
    memory: &dyn Memory,
) -> Result<Vec<Range>, Unmodelled> {
    let before = Before::default();
    let mut pass = Pass {
        invocation,
        result,
        memory,
        before: &before,
        ranges: Vec::new(),
    };
    pass.run(Pass::typed_reads, rules::reads)
}

/// The size in bytes of what an argument of a call points to, before the call
/// (`result` is `None`) or after it.
pub(super) fn size(
    invocation: &Invocation,
    result: Option<i64>,
    memory: &dyn Memory,
    extent: Extent,
    address: u64,
) -> u64 {
    let before = Before::default();
    let pass = Pass {
        invocation,
        result,
        memory,
        before: &before,
        ranges: Vec::new(),
    };
    invocation
        .syscall()
        .spec()
        .map_or(0, |spec| pass.size(spec, extent, address))
}

/// Whether a call with this result has written an output of that kind.
pub(super) fn is_written(invocation: &Invocation, result: i64, when: When) -> bool {
    let before = Before::default();
    let memory = &NoMemory;
    let pass = Pass {
        invocation,
        result: Some(result),
        memory,
        before: &before,
        ranges: Vec::new(),
    };
    pass.writes_when(when)
}

struct NoMemory;

impl Memory for NoMemory {
    fn read(&self, _: u64, _: &mut [u8]) -> usize {
        0
    }
}

/// One walk over the arguments of a call.
struct Pass<'a> {
    invocation: &'a Invocation,
    result: Option<i64>,
    memory: &'a dyn Memory,
    before: &'a Before,
    ranges: Vec<Range>,
}

type RuleFn = fn(&mut Pass<'_>, Rule) -> Result<(), &'static str>;

impl Pass<'_> {
    fn run(
        &mut self,
        typed: fn(&mut Self, &'static super::Spec),
        rule: RuleFn,
    ) -> Result<Vec<Range>, Unmodelled> {
        let number = self.invocation.nr;
        let Some(spec) = self.invocation.syscall().spec() else {
            let reason = "the syscall table does not know this number";
            return Err(Unmodelled {
                number,
                name: "unknown",
                reason,
            });
        };
        let known = match spec.effects {
            Effects::Typed => Ok(()),
            Effects::Rule(which) => rule(self, which),
            Effects::Unmodelled(reason) => Err(reason),
        };
        known.map_err(|reason| Unmodelled {
            number,
            name: spec.name,
            reason,
        })?;
        typed(self, spec);
        Ok(std::mem::take(&mut self.ranges))
    }

    /// Adds a range; a null pointer names none.
    fn push(&mut self, start: u64, len: u64) {
        let len = len.min(u64::MAX - start);
        if start != 0 && len != 0 {
            self.ranges.push(Range { start, len });
        }
    }

    fn arg(&self, index: usize) -> u64 {
        self.invocation.args[index]
    }

    fn succeeded(&self) -> bool {
        self.result.is_some_and(|result| error_of(result).is_none())
    }

    fn failed_with(&self, error: i32) -> bool {
        self.result.and_then(error_of) == Some(error)
    }

    fn u32_at(&self, address: u64) -> Option<u32> {
        read_u32(self.memory, address)
    }

    fn u64_at(&self, address: u64) -> Option<u64> {
        self.memory.read_u64(address).ok()
    }
}

fn read_u32(memory: &dyn Memory, address: u64) -> Option<u32> {
    memory.read_i32(address).ok().map(i32::cast_unsigned)
}
