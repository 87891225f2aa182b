#![expect(
    unsafe_code,
    reason = "selections may move between threads, as upstream's"
)]
//! Operations on a replayed channel, and their possible outcomes.
//!
//! **Safety** rests on: an [`Arm`] refers to a channel of messages of any type, and so does not
//! know whether they may be sent to other threads. But through an arm messages only move within
//! memory that a lock guards.

use std::time::Instant;

use rr_channel_log::Event;
use rr_channel_log::identity::ChannelId;

use super::flow::Flow;
use super::world::ChanKey;
use crate::recorder::tag::Tag;

/// A channel's messages, of any type. They are moved; this module does not drop, clone or compare
/// one, or hand one out.
pub(super) trait Messages {
    /// Takes the message `tag`, or the oldest, and puts it aside; `None` if it is not
    /// there.
    fn set_aside(&self, tag: Option<Tag>) -> Option<Tag>;

    /// The number of messages, except for those put aside. All earlier changes of the channel are
    /// visible afterwards.
    fn len(&self) -> usize;
}

/// One operation of a selection.
#[derive(Clone, Copy)]
pub struct Arm<'a> {
    /// Its position as the log numbers it.
    pub index: usize,
    pub(super) chan: ChanKey,
    pub(super) id: ChannelId,
    pub(super) flow: &'a Flow,
    /// `None` where they are not in the channel: messages meet their receivers, or are
    /// made by a timer.
    pub(super) messages: Option<&'a dyn Messages>,
    /// The message's tag if this sends, `None` if it receives.
    pub send: Option<Tag>,
}

// SAFETY: `Messages` moves messages between containers under their lock, and does not
// touch them otherwise, so it does not matter on which thread that happens. All else that
// an arm refers to may be used by any thread. What a message is handed out by (the typed
// channel) is not reached through an arm.
unsafe impl Send for Arm<'_> {}
// SAFETY: as above.
unsafe impl Sync for Arm<'_> {}

/// How the operation behaves where no log applies.
#[derive(Debug, Clone, Copy)]
pub enum Native {
    Block,
    Try,
    Until(Instant),
}

impl Native {
    pub(super) const fn is_try(self) -> bool {
        matches!(self, Native::Try)
    }

    pub(super) const fn is_until(self) -> bool {
        matches!(self, Native::Until(_))
    }
}

/// The outcome of an arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Got {
    Message(Tag),
    Tick(Instant),
    Disconnected,
    /// Sent, at that place of a channel with a bound.
    Sent(u64),
    /// Sent, as recorded, and by now there is no receiver for it.
    Lost,
    Refused,
    /// The arm would not block; nothing was done.
    Ready,
}

/// The taken arm, by position in the arms given, and its outcome.
#[derive(Debug, Clone, Copy)]
pub struct Pick {
    pub position: usize,
    pub got: Got,
}

/// The condition that a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// Any arm that can be taken.
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

/// A change of a channel, for threads that wait there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// This message was put into it.
    Arrived(Tag),
    /// A place in it was taken, by a message yet to be made.
    Entered,
    /// A message was taken out.
    Left,
    /// The last handle of one side is gone.
    Abandoned,
}

/// The log's entry for an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    /// Nothing: the thread is live.
    Native,
    /// It has this outcome.
    Outcome {
        position: usize,
        need: Need,
        /// The event that says so, unless it is one that is not logged.
        event: Option<Event>,
    },
    /// It finds nothing.
    Nothing,
    /// It finds nothing until its deadline.
    Expire(Event),
    /// The log ends here, and it is unknown whether the thread did.
    EndOfLog,
}
