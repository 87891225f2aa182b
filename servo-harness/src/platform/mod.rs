//! Signals, processors and locks.

pub mod interrupt;
pub(crate) mod load;
pub(crate) mod lock;
