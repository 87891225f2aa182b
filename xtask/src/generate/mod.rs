//! Pages of the documentation that are made from code and data.

pub(crate) mod syscalls;
