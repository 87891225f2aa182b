//! Messages that come through the kernel, and not through the world.
//!
//! The world learns of such a message only when a thread reads it. A thread whose log names a
//! message reads its channel until that message is there, and keeps messages that come too early.
//! Meanwhile it waits in the kernel, where it [listens](super::listen).

use std::time::Instant;

use rr_channel_log::identity::ChannelId;
use rr_channel_log::{Event, Op};

use super::lock_order::Next;
use super::report::Cause;
use super::{Engine, follow};
use crate::engine::context;
use crate::recorder::tag::Tag;

/// The next entry of the calling thread's log.
#[derive(Debug, Clone, Copy)]
pub enum Expected {
    /// Nothing: the thread is live.
    Live,
    /// It ends here, and it is unknown whether the thread did.
    End,
    Event(Event),
}

impl Engine {
    /// Returns the log's entry for `op`; the thread desynchronises if the entry is for another
    /// operation.
    pub fn expect(&self, op: Op, channel: Option<ChannelId>) -> Expected {
        match self.next_event(context::thread_or_last(), op, channel) {
            Next::Live => Expected::Live,
            Next::End => Expected::End,
            Next::Event(event) => Expected::Event(event),
        }
    }

    /// Whether the log goes on with something else than `op`.
    pub fn goes_on_without(&self, op: Op) -> bool {
        matches!(follow::next(), follow::Next::Event(event) if event.op != op)
    }

    /// The event that was expected came about.
    pub fn came_about(&self) {
        follow::advance();
        self.lock().step();
    }

    /// The event that was expected cannot come about any more.
    pub fn give_up(&self, expected: Event) {
        if !follow::is_live() {
            self.desync(context::thread_or_last(), Cause::Stalled { expected });
        }
    }

    /// Waits for a recorded timeout, and moves past it.
    pub fn expire(&self, event: Event, deadline: Option<Instant>) {
        match deadline {
            Some(deadline) => self.sleep(context::thread_or_last(), Some(event), deadline),
            None => follow::advance(),
        }
    }

    /// Whether the log says that the message `tag`, just sent, was refused; `None` if the
    /// thread is live. Sends that are not refused are not logged.
    pub fn was_refused(&self, channel: ChannelId, tag: Tag) -> Option<bool> {
        if follow::is_live() {
            return None;
        }
        let refused = follow::refuses(Op::Send, channel, tag);
        if refused {
            follow::advance();
        }
        Some(refused)
    }
}
