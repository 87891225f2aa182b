//! The syscall model: one table, from which every tool takes its columns.
//!
//! [`Syscall::of`] looks a number up. A [`Spec`] describes the call: arguments, memory
//! effects, kernel objects, determinism, replay. A number outside of the table is a value,
//! too ([`Syscall::Unknown`]): the kernel may be newer than this library, and a tool must
//! report that instead of guessing.
//!
//! A new tool adds a column to [`model`], not a second list of syscalls.
//!
//! | question | answer |
//! |---|---|
//! | what is number 257? | [`Syscall::of`] |
//! | what does it touch, wait for, answer? | the columns of [`Spec`] |
//! | which memory did it read and write? | [`effects::reads`], [`effects::writes`] |
//! | which bytes of which file? | [`spans::spans`] |
//! | does a later call meet the same error? | [`Spec::failure`] |
//! | what was it given, how is it printed? | [`Decoded`] |
//!
//! To add a syscall, write one row in a file of [`table`] and a case in the
//! `memory_effects` test, which fails for a row without one. A row with unknown effects is
//! marked ([`Effects::Unmodelled`]), and tools refuse to guess ([`Syscall::support`]).

pub mod call;
pub mod decode;
pub mod effects;
pub mod errno;
pub mod failure;
pub mod fields;
pub mod flags;
pub mod layout;
pub mod model;
mod print;
pub mod spans;
pub mod table;

pub use crate::invocation::Invocation;
pub use call::Syscall;
pub use decode::{Decoded, Value};
pub use errno::error_of;
pub use failure::Failure;
pub use model::{
    Arg, Deterministic, Effects, Extent, Later, Length, Object, Replay, Return, Spec, Support,
    Type, When,
};
