//! Signals and processors of the machine.

pub mod interrupt;
pub(crate) mod load;
