//! Reads a thread's log: its events one by one, or the next few at once.

mod ahead;
mod thread_log;

pub use ahead::Ahead;
pub(crate) use thread_log::read;
pub use thread_log::{Events, LogError, ThreadLog};
