//! Lengths at the entry of a call, which the call itself may overwrite.

use smallvec::SmallVec;

use super::range::{IOV_MAX, count_of, read_u32};
use crate::invocation::Invocation;
use crate::memory::Memory;
use crate::syscall::call::Syscall;
use crate::syscall::model::{Effects, Extent, Length, Rule, Type};

/// Lengths that a call may overwrite, as they were at its entry.
///
/// `recvfrom` reports the length of an address that it may have cut to the buffer, so that
/// the written length follows from the length at entry. Capturing reads memory only for the
/// calls that need it ([`Before::is_needed`]).
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
        for address in lengths(invocation) {
            keep(address);
        }
        before
    }

    /// The word at `address` at entry.
    pub(super) fn word(&self, address: u64) -> Option<u32> {
        self.words
            .iter()
            .find(|(at, _)| *at == address)
            .map(|(_, word)| *word)
    }
}

/// Where the lengths are that a call may overwrite.
fn lengths(invocation: &Invocation) -> Vec<u64> {
    let Some(spec) = invocation.syscall().spec() else {
        return Vec::new();
    };
    let mut addresses = Vec::new();
    for (index, arg) in spec.args.iter().enumerate() {
        let (Type::Out(extent) | Type::OutWhen(_, extent)) = arg.ty else {
            continue;
        };
        let address = invocation.args[index];
        match extent {
            Extent::Message => addresses.extend([8, 40].map(|at| address.saturating_add(at))),
            Extent::Messages(count) => {
                for message in 0..count_of(spec, invocation, count).min(IOV_MAX) {
                    let header = address.saturating_add(message * 64);
                    addresses.extend([8, 40].map(|at| header.saturating_add(at)));
                }
            }
            Extent::Bytes(Length::Pointed(at)) | Extent::Sized(_, Length::Pointed(at)) => {
                addresses.push(invocation.args[usize::from(at)]);
            }
            _ => {}
        }
    }
    if let Some(handle) = spec.position("handle") {
        addresses.push(invocation.args[handle]);
    }
    addresses
}
