//! What a recording is made of, on the side of the process: which process that is, names of its
//! threads, tags of its messages, places in its source.

pub(crate) mod names;
pub(crate) mod places;
pub(crate) mod process;
mod recording;
pub(crate) mod start_error;
pub(crate) mod tag;

pub(crate) use recording::Recorder;
