//! One walk over the arguments of a call: the ranges found so far, and what the rules ask.

use super::before::Before;
use super::range::{Range, read_u32};
use crate::invocation::Invocation;
use crate::memory::Memory;
use crate::syscall::errno::error_of;
use crate::syscall::model::{Effects, Rule, Spec};

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

/// One walk over the arguments of a call.
pub(super) struct Pass<'a> {
    pub(super) invocation: &'a Invocation,
    pub(super) result: Option<i64>,
    pub(super) memory: &'a dyn Memory,
    pub(super) before: &'a Before,
    pub(super) ranges: Vec<Range>,
}

pub(super) type RuleFn = fn(&mut Pass<'_>, Rule) -> Result<(), &'static str>;

impl Pass<'_> {
    pub(super) fn run(
        &mut self,
        typed: fn(&mut Self, &'static Spec),
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
    pub(super) fn push(&mut self, start: u64, len: u64) {
        let len = len.min(u64::MAX - start);
        if start != 0 && len != 0 {
            self.ranges.push(Range { start, len });
        }
    }

    pub(super) fn arg(&self, index: usize) -> u64 {
        self.invocation.args[index]
    }

    pub(super) fn succeeded(&self) -> bool {
        self.result.is_some_and(|result| error_of(result).is_none())
    }

    pub(super) fn failed_with(&self, error: i32) -> bool {
        self.result.and_then(error_of) == Some(error)
    }

    pub(super) fn u32_at(&self, address: u64) -> Option<u32> {
        read_u32(self.memory, address)
    }

    pub(super) fn u64_at(&self, address: u64) -> Option<u64> {
        self.memory.read_u64(address).ok()
    }
}
