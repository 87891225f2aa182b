//! Operations on a stopped tracee that the recorder and the replay share.

pub(crate) mod execution_point;
pub(crate) mod output;
pub(crate) mod repeated_calls;
pub(crate) mod step;
pub(crate) mod ticker;
pub(crate) mod trapped;
