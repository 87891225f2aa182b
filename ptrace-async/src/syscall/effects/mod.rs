//! The memory of the caller that a syscall reads and writes.
//!
//! Most of it follows from the argument types in the table (`typed`). Calls whose arguments
//! change their meaning with a command have a rule (`rules`, `ioctl`).
//!
//! [`writes`] returns the ranges that a recorder must save after a call and a replay must
//! restore. A changed byte outside of these ranges is a defect of the table. The ranges are
//! as tight as the result allows; a byte in a range need not have changed. [`reads`] is an
//! upper bound of the memory that the kernel read. [`outputs()`] lists, before a call, the
//! ranges that it may write, and the words that hold their addresses.
//!
//! Deliberately absent:
//! * changes of the mappings (`mmap`, `execve`, …): see [`Object::AddressSpace`];
//! * writes of the kernel after the call ([`Later`]): the child's thread id at exit,
//!   `rseq`, pages given up with `MADV_FREE`;
//! * writes of a failed call before it failed (`EFAULT` in the middle of a transfer), and
//!   the block that a direct read may overwrite beyond its result at the end of a file;
//! * descriptions of buffers (`struct iovec`, `struct msghdr`) that the call
//!   itself overwrites with data.
//!
//! **Invariant:** no input makes these functions panic or allocate without
//! bound.
//!
//! [`Object::AddressSpace`]: super::Object::AddressSpace
//! [`Later`]: super::Later

mod before;
mod ioctl;
mod outputs;
mod pass;
pub(super) mod range;
mod rules;
mod typed;

pub use before::Before;
pub use outputs::{Output, Pointer, outputs};
pub use pass::Unmodelled;
pub use range::Range;

use self::pass::Pass;
use super::model::{Extent, When};
use crate::invocation::Invocation;
use crate::memory::Memory;

/// The ranges that the kernel wrote on behalf of a call that returned `result`,
/// with `memory` as it is after the call.
///
/// Without the lengths at entry ([`writes_since`]), a range can be longer than the kernel's
/// write. This concerns values that the kernel cut to the buffer (socket addresses, control
/// data).
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

/// Whether a call with this result has written outputs of this kind.
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
