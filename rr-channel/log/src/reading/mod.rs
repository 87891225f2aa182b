//! Reads a thread's log: its events one by one, or the next few at once; and what it read
//! from clocks.

mod ahead;
mod clocks;
mod error;
mod header;
mod thread_log;

pub use ahead::Ahead;
pub use clocks::{ClockLog, ClockReads};
pub use error::LogError;
pub(crate) use thread_log::read;
pub use thread_log::{Events, ThreadLog};
