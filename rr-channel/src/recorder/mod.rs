//! The process's part of a recording: the process's identity, names of its threads, tags of its
//! messages, places in its source.

pub(crate) mod names;
pub(crate) mod places;
pub(crate) mod process;
mod recording;
pub(crate) mod start_error;
pub(crate) mod tag;

pub(crate) use recording::Recorder;
