//! What threads ask of a replayed channel, and what they may be answered.

use std::time::Instant;

use super::world::ChanKey;
use crate::identity::ChannelId;
use crate::tag::Tag;

/// One operation of a selection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arm {
    /// Its position as the log numbers it.
    pub(crate) index: usize,
    pub(crate) chan: ChanKey,
    pub(crate) id: ChannelId,
    /// The message's tag if this sends, `None` if it receives.
    pub(crate) send: Option<Tag>,
}

/// How the operation behaves where no log applies.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Native {
    Block,
    Try,
    Until(Instant),
}

/// What came of an arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Got {
    Message(Tag),
    Tick(Instant),
    Disconnected,
    Sent,
    /// Sent, as recorded, and by now there is nobody to receive it.
    Lost,
    Refused,
    /// The arm would not block; nothing was done.
    Ready,
}

/// The arm that was taken, by position in the arms given, and what came of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pick {
    pub(crate) position: usize,
    pub(crate) got: Got,
}

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// Whatever arm can be taken.
    Any,
    /// Exactly this outcome, of this arm.
    Exactly(usize, Need),
    /// Only for time to pass, or to be released.
    Nothing,
}

/// The outcome that an arm must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Message(Tag),
    Tick,
    Disconnected,
    /// A place in the channel: the recorded one, if that is known.
    Slot(Option<u64>),
    Refused,
    Ready,
}

/// What the log says about an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    /// Nothing: the thread is live.
    Native,
    /// It has this outcome; `logged` if that is an event to move past.
    Outcome {
        position: usize,
        need: Need,
        logged: bool,
    },
    /// It finds nothing.
    Nothing,
    /// It finds nothing until its deadline.
    Expire,
    /// The log ends here, and it is unknown whether the thread did.
    EndOfLog,
}
