//! The syscall model: one table, from which every tool takes its columns.
//!
//! [`Syscall::of`] looks a number up; a [`Spec`] holds what is known about the
//! call (arguments, memory effects, kernel objects, determinism, replay). A
//! number that the table does not know is a value, [`Syscall::Unknown`]: the
//! kernel may be newer than this library, and a tool must say so instead of
//! guessing.
//!
//! A new tool adds a column to [`model`], not a second list of syscalls.
//!
//! | question | answer |
//! |---|---|
//! | what is number 257? | [`Syscall::of`] |
//! | what does it touch, wait for, answer? | the columns of [`Spec`] |
//! | which memory did it read and write? | [`effects::reads`], [`effects::writes`] |
//! | which bytes of which file? | [`spans::spans`] |
//! | what was it given, how is it printed? | [`Decoded`] |
//!
//! A new syscall of the kernel is one row in a file of [`table`], and a case in
//! the `memory_effects` test, which fails for a row without one. A row whose
//! effects nobody has worked out says so ([`Effects::Unmodelled`]), and tools
//! refuse to guess ([`Syscall::support`]).

pub mod decode;
pub mod effects;
pub mod errno;
pub mod flags;
pub mod layout;
pub mod model;
mod print;
pub mod spans;
pub mod table;

pub use crate::invocation::Invocation;
pub use decode::{Decoded, Value};
pub use model::{
    Arg, Deterministic, Effects, Extent, Later, Length, Object, Replay, Return, Spec, Support,
    Type, When,
};

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

    /// What the table says about it.
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

    /// Whether a tool may rely on what the table says, and if not, why.
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

/// The error number in a raw result, if it is an error.
///
/// At a ptrace stop a result can also be one of the kernel's internal restart
/// codes (512 to 516); they count as errors.
#[must_use]
pub fn error_of(result: i64) -> Option<i32> {
    (-4095..0).contains(&result).then(|| -result as i32)
}
