//! A project: what it consists of, how cargo is called for it, and what of it is recorded.

pub(super) mod cargo;
pub(super) mod coverage;
mod fixed;
mod metadata;
mod std_names;
