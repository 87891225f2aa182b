//! The process's part of a recording: the process's identity, names of its threads, tags of its
//! messages, places in its source.

pub mod callers;
pub mod names;
pub mod places;
pub mod process;
mod recording;
pub mod start_error;
pub mod tag;

pub use recording::Recorder;
