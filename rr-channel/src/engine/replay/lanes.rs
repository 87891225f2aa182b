//! The ways into a replayed channel.
//!
//! Each sender has one, unless there are many, so what a receiver asks for, the next message of
//! some sender, is mostly the first one there; and threads that send at the same time meet
//! nowhere but at the count of arrivals. Who receives takes all that there is at once.
//!
//! **Arrivals.** Within a lane messages are numbered in their order, under the lane's lock. A
//! message that was sent after another one had been sent has a greater number, wherever
//! the two are. Whoever looks for the oldest one looks into all lanes twice: what was sent before
//! something that it saw the first time it sees the second time at the latest. If it sees nothing
//! the first time, there is nothing for it: of what comes by the second time, nothing is known.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, SeqCst};
use std::sync::atomic::{AtomicU64, fence};

use rr_channel_log::identity::ThreadId;

use crate::platform::spin_lock::SpinLock;
use crate::recorder::tag::Tag;

/// How many senders have a lane of their own.
pub(super) const LANES: usize = 8;
/// A message on its way through a replayed channel.
#[derive(Debug)]
pub(super) struct Deposit<T> {
    pub(super) tag: Tag,
    pub(super) value: T,
    /// Its number among those that came into the channel.
    pub(super) arrival: u64,
}

/// All ways into a channel.
#[derive(Debug)]
pub(super) struct Lanes<T> {
    arrivals: AtomicU64,
    /// Made for the first message; none if the channel was closed before that.
    lanes: [OnceLock<Option<Box<Lane<T>>>>; LANES],
}

/// On cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Lane<T>(SpinLock<Inbox<T>>);

#[derive(Debug)]
struct Inbox<T> {
    messages: VecDeque<Deposit<T>>,
    is_closed: bool,
}

/// Which lane `sender` has.
#[inline(always)]
pub(super) const fn lane_of(sender: ThreadId) -> usize {
    sender.0 as usize % LANES
}

impl<T> Lanes<T> {
    pub(super) const fn new() -> Self {
        Lanes {
            arrivals: AtomicU64::new(0),
            lanes: [const { OnceLock::new() }; LANES],
        }
    }

    /// A lane to send into, unless it was closed before there was one.
    #[inline]
    fn lane(&self, lane: usize) -> Option<&Lane<T>> {
        let place = &self.lanes[lane];
        match place.get() {
            Some(lane) => lane.as_deref(),
            None => Self::make(place),
        }
    }

    #[cold]
    fn make(place: &OnceLock<Option<Box<Lane<T>>>>) -> Option<&Lane<T>> {
        let lane = place.get_or_init(|| {
            Some(Box::new(Lane(SpinLock::new(Inbox {
                messages: VecDeque::new(),
                is_closed: false,
            }))))
        });
        // Whoever saw no lane has said before what it waits for, and then put a fence, too.
        fence(SeqCst);
        lane.as_deref()
    }

    /// A lane that something may have been sent into.
    #[inline]
    fn used(&self, lane: usize) -> Option<&Lane<T>> {
        self.lanes[lane].get()?.as_deref()
    }

    /// Leaves a message; gives it back if the lanes are closed.
    #[inline]
    pub(super) fn put(&self, tag: Tag, value: T) -> Result<(), T> {
        let Some(lane) = self.lane(lane_of(tag.sender())) else {
            return Err(value);
        };
        let mut inbox = lane.0.take();
        if inbox.is_closed {
            return Err(value);
        }
        let arrival = self.arrivals.fetch_add(1, AcqRel);
        inbox.messages.push_back(Deposit {
            tag,
            value,
            arrival,
        });
        Ok(())
    }

    /// Moves all that is in `lane` into `empty`, which is; its room is for what comes next.
    #[inline]
    pub(super) fn take_all(&self, lane: usize, empty: &mut VecDeque<Deposit<T>>) {
        if let Some(lane) = self.used(lane) {
            std::mem::swap(empty, &mut lane.0.take().messages);
        }
    }

    /// Moves all that is in `lane` behind what is in `messages`.
    pub(super) fn append(&self, lane: usize, messages: &mut VecDeque<Deposit<T>>) {
        if messages.is_empty() {
            self.take_all(lane, messages);
        } else if let Some(lane) = self.used(lane) {
            messages.append(&mut lane.0.take().messages);
        }
    }

    /// How many messages are there.
    pub(super) fn len(&self) -> usize {
        let lanes = (0..LANES).filter_map(|lane| self.used(lane));
        lanes.map(|lane| lane.0.take().messages.len()).sum()
    }

    /// Takes no more.
    pub(super) fn close(&self) {
        for place in &self.lanes {
            if let Some(lane) = place.get_or_init(|| None) {
                lane.0.take().is_closed = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn tag(sender: u32, number: u64) -> Tag {
        Tag::new(ThreadId(sender), number)
    }

    #[test]
    fn each_sender_is_first_in_first_out_and_nothing_is_lost() {
        let count = if cfg!(miri) { 20 } else { 10_000 };
        let lanes = Lanes::new();
        // The last one shares the first one's lane.
        let senders = [1, 2, 1 + LANES as u32];
        thread::scope(|scope| {
            let lanes = &lanes;
            for sender in senders {
                scope.spawn(move || {
                    for number in 0..count {
                        lanes.put(tag(sender, number), number).unwrap();
                    }
                });
            }
            let mut next = [0; 2 + LANES];
            let mut last = [None; LANES];
            let mut taken = VecDeque::new();
            while next.iter().sum::<u64>() < 3 * count {
                for (lane, last) in last.iter_mut().enumerate() {
                    lanes.take_all(lane, &mut taken);
                    for message in taken.drain(..) {
                        let sender = message.tag.sender();
                        assert_eq!(message.value, next[sender.0 as usize]);
                        next[sender.0 as usize] += 1;
                        assert!(last.replace(message.arrival) < Some(message.arrival));
                    }
                }
                thread::yield_now();
            }
        });
        assert_eq!(lanes.len(), 0);
    }

    #[test]
    fn a_closed_one_refuses_everybody() {
        let lanes = Lanes::new();
        lanes.put(tag(1, 0), "kept").unwrap();
        lanes.close();
        assert_eq!(lanes.put(tag(1, 1), "late"), Err("late"));
        assert_eq!(lanes.put(tag(2, 0), "new"), Err("new"));
        assert_eq!(lanes.len(), 1);
    }
}
