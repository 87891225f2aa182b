//! The replay: runs the recorded programs on their recorded inputs, without effects outside.
//!
//! Each recorded task has a replayed one, whose program runs natively from record to record.
//! Its calls are not performed, except those that shape its own memory, which are repeated at
//! the recorded addresses. Results, memory, signals and answers come from the trace. Tasks of
//! one group take turns as recorded; groups run side by side.
//!
//! [`replay`] replays a whole trace. A [`Replayer`] advances as far as it is told, can be
//! inspected there, and can be restored to a [`Checkpoint`].
//!
//! # Layers
//!
//! | layer | modules | purpose |
//! |---|---|---|
//! | 1 | `address_space`, `backtrace`, `remote_calls` | parts: facts per address space, injected calls, stack frames |
//! | 2 | `divergence`, `execution_points`, `mappings`, `snapshot` | reports, in-process checks, memory calls, copies of processes |
//! | 3 | `session` | what the tasks of a replay share |
//! | 4 | `checkpoint`, `task` | a whole state to come back to; a replayed task |
//! | 5 | `replayer` | the replay, step by step |

mod address_space;
mod backtrace;
mod checkpoint;
mod divergence;
mod execution_points;
mod mappings;
mod remote_calls;
mod replayer;
mod session;
mod snapshot;
mod task;

use std::io;

pub use self::backtrace::Frame;
pub use self::checkpoint::Checkpoint;
pub use self::divergence::Divergence;
pub use self::replayer::{Error, Replayer, TaskStatus};
pub use self::session::printer::{Output, Printed};
use crate::trace::event::Ending;
use crate::trace::{self, Directory, Tail};

/// Options of a replay.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Treatment of the output of the replayed programs.
    pub output: Output,
}

/// The result of a replay.
#[derive(Debug)]
pub struct Outcome {
    /// How the first process ended, if it did.
    pub ending: Option<Ending>,
    /// The divergence, if there is one.
    pub divergence: Option<Divergence>,
    /// The error of the trace, if there is one.
    pub error: Option<trace::Error>,
    /// How the trace ends, if it was read to its end.
    pub tail: Option<Tail>,
    /// How many records were read.
    pub records: u64,
    /// How many digests of memory were compared.
    pub digests: u64,
    /// How many visits were taken for a place between two calls that were not it, which came out
    /// later, and was put right.
    pub mistaken: u64,
    /// Why not all that was printed could be printed again, but because nobody reads it any
    /// more.
    pub unprinted: Option<io::Error>,
}

/// Replays a trace from its beginning to its end; [`Replayer`] does so step by step.
///
/// # Errors
/// When nothing can be traced here, or the trace cannot be opened.
pub fn replay(directory: Directory, options: Options) -> io::Result<Outcome> {
    let replayed = Replayer::open(directory, options).and_then(|mut replayer| {
        let ended = replayer.run_to_end();
        let mut outcome = replayer.finish();
        match ended {
            Ok(()) => {}
            Err(Error::Diverged(divergence)) => outcome.divergence = Some(*divergence),
            Err(Error::Trace(error)) => outcome.error = Some(error),
            Err(other) => return Err(other),
        }
        Ok(outcome)
    });
    replayed.map_err(|error| match error {
        Error::Io(error) => error,
        other => io::Error::other(other),
    })
}
