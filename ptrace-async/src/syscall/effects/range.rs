//! Ranges of a tracee's memory, and the arguments that say how long they are.

use crate::invocation::Invocation;
use crate::memory::Memory;
use crate::syscall::model::{Spec, Type};

/// The kernel takes at most so many `struct iovec` (`UIO_MAXIOV`), and so many
/// messages in one call.
pub(super) const IOV_MAX: u64 = 1024;

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

/// The value of an argument that counts bytes or items, as wide as its type.
pub(crate) fn count_of(spec: &Spec, invocation: &Invocation, index: u8) -> u64 {
    let index = usize::from(index);
    let raw = invocation.args.get(index).copied().unwrap_or(0);
    match spec.args.get(index).map(|arg| arg.ty) {
        Some(Type::Int) => u64::try_from(raw as i32).unwrap_or(0),
        Some(Type::UInt) => raw & 0xffff_ffff,
        Some(Type::Long) => u64::try_from(raw.cast_signed()).unwrap_or(0),
        _ => raw,
    }
}

/// The entries of an array of `struct iovec`, as far as it can be read.
pub(crate) fn read_vectors(memory: &dyn Memory, address: u64, count: u64) -> Vec<Range> {
    let count = count.min(IOV_MAX) as usize;
    if address == 0 || count == 0 {
        return Vec::new();
    }
    let mut bytes = vec![0; count * 16];
    let got = memory.read(address, &mut bytes).min(bytes.len());
    let word = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0_u64, |word, byte| (word << 8) | u64::from(*byte))
    };
    bytes[..got]
        .chunks_exact(16)
        .map(|entry| Range {
            start: word(&entry[..8]),
            len: word(&entry[8..]),
        })
        .collect()
}

pub(super) fn read_u32(memory: &dyn Memory, address: u64) -> Option<u32> {
    memory.read_i32(address).ok().map(i32::cast_unsigned)
}
