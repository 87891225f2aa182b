//! The result of a replay: desynchronisations, and how much of each log was used.

use std::fmt;
use std::time::Duration;

use rr_channel_log::identity::{ChannelId, Dti};
use rr_channel_log::{Event, Op, fmt_operation};

/// An operation that a thread performed in a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// The attempted operation.
    pub op: Op,
    /// The channel it was on, or the lock, as far as that is known by then; `None` for
    /// selections.
    pub channel: Option<ChannelId>,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_operation(f, self.op, self.channel)
    }
}

/// How a thread left its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// It did something other than the next event.
    Mismatch {
        /// The next event of its log.
        expected: Event,
        /// The operation that it attempted instead.
        actual: Attempt,
    },
    /// It went on after the last thing that it did in the recording.
    Beyond {
        /// The operation that it attempted.
        actual: Attempt,
    },
    /// Its next event cannot come about: no thread that could bring it about can move.
    Stalled {
        /// The next event of its log.
        expected: Event,
    },
    /// Its next event did not come about in time: threads sleep, wait for the outside world
    /// or compute, and no log has moved for so long.
    Late {
        /// The next event of its log.
        expected: Event,
        /// For how long.
        after: Duration,
    },
    /// Its turn at a lock has passed: other threads, which had left their logs, were there before.
    Missed {
        /// The next event of its log.
        expected: Event,
    },
    /// It ended with events left in its log.
    EndedEarly {
        /// The next event of its log.
        expected: Event,
    },
}

/// A thread did something its recording did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desync {
    /// The thread.
    pub thread: Dti,
    /// The number of the event at which it left its log, from 0.
    pub event: u64,
    /// How it left.
    pub cause: Cause,
}

impl fmt::Display for Desync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "thread {} desynchronised at event {}: ",
            self.thread, self.event
        )?;
        match &self.cause {
            Cause::Mismatch { expected, actual } => {
                write!(f, "recorded `{expected}`, replayed `{actual}`")
            }
            Cause::Beyond { actual } => {
                write!(f, "its recording ends here, replayed `{actual}`")
            }
            Cause::Stalled { expected } => {
                write!(
                    f,
                    "recorded `{expected}`, which no thread is left to bring about"
                )
            }
            Cause::Late { expected, after } => {
                write!(
                    f,
                    "recorded `{expected}`, and no recorded event came about for {:.1} s",
                    after.as_secs_f64()
                )
            }
            Cause::Missed { expected } => {
                write!(f, "recorded `{expected}`, but others came before it")
            }
            Cause::EndedEarly { expected } => {
                write!(f, "recorded `{expected}`, but the thread ended")
            }
        }
    }
}

/// How far one thread of a replay got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The thread.
    pub thread: Dti,
    /// The events of its log that came about again.
    pub consumed: u64,
    /// All events of its log.
    pub total: u64,
    /// Whether it runs natively by now, because it left its log or because an
    /// unfinished log came to its end.
    pub live: bool,
}

/// The state of this process's replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Every desynchronisation so far, in the order in which they were found: the
    /// first is where to look.
    pub desyncs: Vec<Desync>,
    /// Every thread that the recording or the replay has seen, by name.
    pub threads: Vec<Progress>,
}

impl Report {
    /// Whether nothing desynchronised and every recorded event came about again.
    pub fn is_faithful(&self) -> bool {
        self.desyncs.is_empty() && self.threads.iter().all(|t| t.consumed == t.total)
    }
}
