//! Source positions of operations: recorded if `RR_CHANNEL_PLACES` asks for it.
//!
//! Beside a thread's log lies another one in the same format. It has an event for each event of
//! the log, in their order, and between them one for each message that the thread sends, most of
//! which log nothing. This module defines the meaning of these events; places are numbered in the
//! `session` file.
//!
//! With places, the `session` file says of each channel which type it carries. Each acquisition of
//! a lock is logged with the lock's name and its ticket, even where a replay does not need them:
//! an edited recording does.

use std::sync::atomic::{AtomicBool, Ordering};

use rr_channel_log::identity::{ChannelId, ThreadId};
use rr_channel_log::{Event, Op, Outcome};

static ON: AtomicBool = AtomicBool::new(false);

/// From here on, places are recorded.
pub fn start() {
    ON.store(true, Ordering::Relaxed);
}

/// Whether places are recorded.
#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// The entry of a logged event: its place.
pub const fn of_event(op: Op, place: u32) -> Event {
    Event {
        op,
        channel: None,
        outcome: Outcome::Arm(place),
    }
}

/// The entry of a message: its number, and its place.
pub const fn of_message(op: Op, channel: ChannelId, number: u64, place: u32) -> Event {
    Event {
        op,
        channel: Some(channel),
        outcome: Outcome::Message {
            sender: ThreadId(place),
            number,
        },
    }
}
