//! Those that are written for one kind of processor: they make system calls themselves.

pub mod clock;
mod clock_sites;
pub(crate) mod random;
pub(crate) mod system_calls;
