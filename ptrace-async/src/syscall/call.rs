//! A syscall by its number.

use super::model::{Effects, Spec, Support};
use super::table;
use crate::invocation::Invocation;

/// A syscall as its number names it.
#[derive(Debug, Clone, Copy)]
pub enum Syscall {
    /// A call that the table describes.
    Known(&'static Spec),
    /// A number that the table does not have: a newer kernel's, one of the x32
    /// interface, or nonsense.
    Unknown(u64),
}

impl Syscall {
    /// The syscall with this number.
    ///
    /// ```
    /// use ptrace_async::syscall::Syscall;
    ///
    /// assert_eq!(Syscall::of(257).name(), "openat");
    /// assert!(Syscall::of(9999).spec().is_none());
    /// ```
    #[must_use]
    pub fn of(number: u64) -> Self {
        table::lookup(number).map_or(Self::Unknown(number), Self::Known)
    }

    /// The row of the table; `None` for an unknown number.
    #[must_use]
    pub fn spec(self) -> Option<&'static Spec> {
        match self {
            Self::Known(spec) => Some(spec),
            Self::Unknown(_) => None,
        }
    }

    /// Its name; `"unknown"` for numbers without one.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.spec().map_or("unknown", |spec| spec.name)
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> u64 {
        match self {
            Self::Known(spec) => u64::from(spec.number),
            Self::Unknown(number) => number,
        }
    }

    /// Whether a tool may rely on the row, and if not, why.
    #[must_use]
    pub fn support(self) -> Support {
        match self {
            Self::Known(spec) => match (spec.support, spec.effects) {
                (Support::Modelled, Effects::Unmodelled(reason)) => Support::Unsupported(reason),
                (support, _) => support,
            },
            Self::Unknown(_) => Support::Unsupported("the syscall table does not know this number"),
        }
    }
}

impl Invocation {
    /// The syscall that is called.
    #[must_use]
    pub fn syscall(&self) -> Syscall {
        Syscall::of(self.nr)
    }
}
