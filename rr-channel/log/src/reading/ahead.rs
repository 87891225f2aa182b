//! The events that come next in a log that is being replayed, at hand without a look
//! into it.
//!
//! A run of predicted events is unpacked at once: its content follows from its start. So a thread
//! that repeats the same events compares and counts, as it does while recording
//! ([`Hot`](crate::Hot)).

use std::cell::Cell;
use std::iter;

use super::thread_log::Events;
use crate::event::{Event, Op, Outcome, Symbol};
use crate::identity::{ChannelId, ThreadId};
use crate::prediction::Ring;

/// The next events of a log, as many as were unpacked.
#[derive(Debug, Clone)]
pub struct Ahead {
    ring: Ring,
    /// How many events the ring stands for; if there are none, it is cold.
    left: Cell<u64>,
}

impl Default for Ahead {
    fn default() -> Self {
        Ahead::new()
    }
}

impl Ahead {
    /// No events.
    pub const fn new() -> Ahead {
        Ahead {
            ring: Ring::new(),
            left: Cell::new(0),
        }
    }

    /// Which message comes next, if `op` on `channel` gets one next.
    #[inline(always)]
    pub fn message(&self, op: Op, channel: ChannelId) -> Option<(ThreadId, u64)> {
        let outcome = Outcome::Message {
            sender: ThreadId(0),
            number: 0,
        };
        let (sender, number) = self.number(op, channel, outcome)?;
        Some((ThreadId(sender), number))
    }

    /// Which place a message takes, if `op` sends one into `channel` next.
    #[inline(always)]
    pub fn slot(&self, op: Op, channel: ChannelId) -> Option<u64> {
        let (_, slot) = self.number(op, channel, Outcome::Sent { slot: 0 })?;
        Some(slot)
    }

    #[inline(always)]
    fn number(&self, op: Op, channel: ChannelId, outcome: Outcome) -> Option<(u32, u64)> {
        let (symbol, _) = Symbol::split(&Event {
            op,
            channel: Some(channel),
            outcome,
        });
        self.ring.expected(symbol)
    }

    /// Whether `event` comes next.
    #[inline(always)]
    pub fn shows(&self, event: &Event) -> bool {
        let (symbol, number) = Symbol::split(event);
        self.ring.expects(symbol, number)
    }

    /// Whether there are none.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.left.get() == 0
    }

    /// The event that comes next, if one was unpacked.
    #[inline]
    pub fn event(&self) -> Option<Event> {
        self.ring.event()
    }

    /// All events that were unpacked.
    pub fn events(&self) -> impl Iterator<Item = Event> {
        let ahead = self.clone();
        iter::from_fn(move || {
            let event = ahead.event()?;
            let _ = ahead.step();
            Some(event)
        })
    }

    /// Moves past the event that comes next, which there is; `false` if the one after it
    /// has to be unpacked.
    #[inline(always)]
    #[must_use]
    pub fn step(&self) -> bool {
        self.ring.turn();
        let left = self.left.get() - 1;
        self.left.set(left);
        if left == 0 {
            self.ring.cool();
        }
        left > 0
    }

    /// Unpacks the next of `events`; only for logs that have been read through without an
    /// error, and when nothing is left.
    pub fn unpack(&self, events: &mut Events) {
        self.left.set(events.unpack_into(&self.ring));
    }

    /// Takes `event` as the only one.
    #[inline]
    pub fn show(&self, event: &Event) {
        let (symbol, number) = Symbol::split(event);
        self.ring.expect(0, symbol, number, 0, 0);
        self.ring.begin();
        self.left.set(1);
    }

    /// Takes over what `other` has.
    #[inline]
    pub fn copy(&self, other: &Ahead) {
        self.ring.copy(&other.ring);
        self.left.set(other.left.get());
    }

    /// Forgets all.
    #[inline]
    pub fn clear(&self) {
        self.ring.cool();
        self.left.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::ThreadLog;
    use crate::writing::tests::{events, written};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn unpacked_runs_equal_events_read_one_by_one(
            events in events(),
            looks in prop::collection::vec(any::<bool>(), 1..9),
        ) {
            let log = ThreadLog::from_bytes(&written(&events, false)).unwrap();
            let mut unread = log.events();
            let ahead = Ahead::new();
            ahead.unpack(&mut unread);
            let together = events.iter().filter(|event| !event.op.is_apart());
            for (event, look) in together.zip(looks.iter().cycle()) {
                prop_assert_eq!(ahead.event(), Some(*event));
                prop_assert!(ahead.shows(event));
                if *look {
                    let shown: Vec<_> = ahead.events().collect();
                    prop_assert_eq!(shown.first(), Some(event));
                    prop_assert_eq!(shown.len() as u64, ahead.left.get());
                }
                if !ahead.step() {
                    ahead.unpack(&mut unread);
                }
            }
            prop_assert_eq!(ahead.event(), None);
            prop_assert!(unread.next().is_none());
        }
    }
}
