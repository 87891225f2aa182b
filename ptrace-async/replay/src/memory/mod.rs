//! The memory of a traced process, as `/proc/PID` shows it.

pub(crate) mod digest;
pub(crate) mod maps;
mod pages;
pub(crate) mod task_position;
