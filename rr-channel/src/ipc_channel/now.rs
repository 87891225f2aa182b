//! The treatment of a message by the calling thread.

use rr_channel_log::identity::{ChannelId, Dti, ThreadId};
use rr_channel_log::{Event, Op, Outcome};

use rr_channel_core::engine::context;
use rr_channel_core::engine::fork;
use rr_channel_core::engine::replay::{Engine, Source};
use rr_channel_core::engine::session::{Session, session};
use rr_channel_core::recorder::tag::Tag;

/// The current mode of this process; a fork of a recording process is off.
#[derive(Debug, Clone, Copy)]
pub(super) enum Now {
    Off,
    Record,
    Replay(&'static Engine),
}

#[inline]
pub(super) fn now() -> Now {
    match session() {
        Session::Off => Now::Off,
        _ if fork::is_fork() => Now::Off,
        Session::Record(_) => Now::Record,
        Session::Replay(engine) => Now::Replay(engine),
    }
}

/// A name for a channel of `T` that this process makes.
pub(super) fn new_id_of<T>() -> ChannelId {
    match now() {
        Now::Off => new_id(),
        _ => context::channel_of::<T>(),
    }
}

/// A name for a channel that is new to this process.
pub(super) fn new_id() -> ChannelId {
    match now() {
        Now::Off => ChannelId {
            creator: ThreadId(0),
            number: 0,
        },
        _ => context::next_channel(),
    }
}

#[track_caller]
pub(super) fn log(op: Op, channel: Option<ChannelId>, outcome: Outcome) {
    context::log(Event {
        op,
        channel,
        outcome,
    });
}

/// The sender of messages that no thread of this session has sent.
const ELSEWHERE: ThreadId = ThreadId(ThreadId::LIMIT - 1);

/// The number in this session of a thread of another process.
pub(super) fn elsewhere(dti: Dti) -> Option<ThreadId> {
    match now() {
        Now::Off => None,
        Now::Record => Some(session().recorder()?.elsewhere(dti)),
        Now::Replay(engine) => Some(engine.elsewhere(dti)),
    }
}

/// The source of a recorded message of this sender.
pub(super) fn source(engine: &Engine, sender: ThreadId) -> Source {
    if sender == ELSEWHERE || engine.is_elsewhere(sender) {
        Source::Anywhere
    } else {
        Source::Here
    }
}

/// Numbers the foreign messages of a channel.
#[derive(Debug, Default)]
pub(super) struct Foreign(u64);

impl Foreign {
    /// The tag of a message that arrived with `tag`, or with none.
    pub(super) fn tag(&mut self, tag: Option<Tag>) -> Tag {
        tag.unwrap_or_else(|| {
            self.0 += 1;
            Tag::new(ELSEWHERE, self.0)
        })
    }
}

pub(super) const fn message(tag: Tag) -> Outcome {
    Outcome::Message {
        sender: tag.sender(),
        number: tag.number(),
    }
}
