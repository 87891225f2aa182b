//! One channel as all threads see it without a lock: its handles, its fill level, and the events
//! that its waiting threads wait for.
//!
//! Messages go through a channel without the world's knowledge. A thread that cannot go on
//! registers with the world, announces here what it waits for, and only then looks a last time. A
//! thread that changes the channel looks here afterwards, and notifies the world if a thread waits
//! for the change. So one of the two sees the other. Where no thread waits, no thread takes the
//! world's lock.
//!
//! Between the two steps lies a fence on both sides, or a lock. A thread that puts a message into
//! a [queue](super::sender_queues), or takes one from the [early messages](super::early_messages),
//! looks here after it has held their lock. A thread that waits for the message holds that lock
//! when it looks a last time. The later of the two sees the change of the earlier one.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize, fence};

use crate::recorder::tag::Tag;

/// A channel's counts.
#[derive(Debug)]
pub(super) struct Flow {
    capacity: Option<u64>,
    senders: AtomicUsize,
    receivers: AtomicUsize,
    /// The message that receivers wait for, as [`Awaited::message`].
    message: AtomicU64,
    /// The place that senders wait for, as [`Awaited::slot`].
    slot: AtomicU64,
    entry: Entry,
    exit: Exit,
}

/// The senders' counters, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Entry {
    /// Places taken so far, in a channel with a bound.
    arrivals: AtomicU64,
    /// The number of messages taken out, as a sender saw it last.
    left: AtomicU64,
}

/// The receivers' counters.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Exit {
    /// Messages taken out so far.
    left: AtomicU64,
}

/// The message and the slot that threads at a channel wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Awaited {
    /// [`NO_MESSAGE`], [`ANY_MESSAGE`], or the one message, by its tag.
    message: u64,
    /// The first place that a sender waits for: 0 if a thread waits for any change, [`NO_SLOT`] if
    /// none waits.
    slot: u64,
}

// Tags that no message has: a thread that is given the last number sends less.
const NO_MESSAGE: u64 = u64::MAX;
const ANY_MESSAGE: u64 = u64::MAX - 1;
const NO_SLOT: u64 = u64::MAX;

impl Awaited {
    /// No thread waits.
    pub(super) const NOTHING: Awaited = Awaited {
        message: NO_MESSAGE,
        slot: NO_SLOT,
    };
    /// A thread waits for any message.
    pub(super) const ARRIVAL: Awaited = Awaited {
        message: ANY_MESSAGE,
        slot: NO_SLOT,
    };
    /// A thread waits for any change.
    pub(super) const CHANGE: Awaited = Awaited {
        message: ANY_MESSAGE,
        slot: 0,
    };

    /// A thread waits for this message.
    pub(super) const fn message(tag: Tag) -> Awaited {
        Awaited {
            message: tag.bits(),
            slot: NO_SLOT,
        }
    }

    /// A sender waits to take this place.
    pub(super) const fn slot(slot: u64) -> Awaited {
        Awaited {
            message: NO_MESSAGE,
            slot,
        }
    }

    /// Both is waited for.
    pub(super) fn and(self, other: Awaited) -> Awaited {
        let message = match (self.message, other.message) {
            (NO_MESSAGE, message) | (message, NO_MESSAGE) => message,
            (one, another) if one == another => one,
            _ => ANY_MESSAGE,
        };
        Awaited {
            message,
            slot: self.slot.min(other.slot),
        }
    }
}

impl Flow {
    /// A channel with one handle on each side.
    pub(super) fn new(capacity: Option<usize>) -> Flow {
        Flow {
            capacity: capacity.map(|capacity| capacity as u64),
            senders: AtomicUsize::new(1),
            receivers: AtomicUsize::new(1),
            message: AtomicU64::new(NO_MESSAGE),
            slot: AtomicU64::new(NO_SLOT),
            entry: Entry::default(),
            exit: Exit::default(),
        }
    }

    /// Whether messages meet their receivers, instead of being put into the channel.
    pub(super) const fn is_meeting(&self) -> bool {
        matches!(self.capacity, Some(0))
    }

    pub(super) const fn is_bounded(&self) -> bool {
        self.capacity.is_some()
    }

    // Handles.

    const fn side(&self, sends: bool) -> &AtomicUsize {
        if sends {
            &self.senders
        } else {
            &self.receivers
        }
    }

    /// A handle was cloned.
    pub(super) fn cloned(&self, sends: bool) {
        self.side(sends).fetch_add(1, Relaxed);
    }

    /// A handle is dropped; whether it was the last one of its side.
    pub(super) fn dropped(&self, sends: bool) -> bool {
        self.side(sends).fetch_sub(1, AcqRel) == 1
    }

    /// Whether no sender is left. All sent messages are there by then.
    pub(super) fn has_no_senders(&self) -> bool {
        self.senders.load(Acquire) == 0
    }

    /// Whether no receiver is left.
    pub(super) fn has_no_receivers(&self) -> bool {
        self.receivers.load(Acquire) == 0
    }

    // Places.

    /// Takes a place in the channel: `slot`, if that is given, once it is its turn; any,
    /// if not. `None` if there is none. A channel without a bound does not count.
    #[inline]
    pub(super) fn enter(&self, slot: Option<u64>) -> Option<u64> {
        let Some(capacity) = self.capacity else {
            return Some(0);
        };
        let arrivals = &self.entry.arrivals;
        let mut at = arrivals.load(Relaxed);
        loop {
            if slot.is_some_and(|slot| slot != at) || !self.has_room_for(at, capacity) {
                return None;
            }
            match arrivals.compare_exchange_weak(at, at + 1, SeqCst, Relaxed) {
                Ok(_) => return Some(at),
                Err(now) => at = now,
            }
        }
    }

    /// Whether one more fits behind `at` messages. More room may come, but none goes unless a
    /// sender [enters](Flow::enter).
    #[inline]
    fn has_room_for(&self, at: u64, capacity: u64) -> bool {
        let seen = &self.entry.left;
        if at < seen.load(Relaxed).saturating_add(capacity) {
            return true;
        }
        let left = self.exit.left.load(Acquire);
        seen.store(left, Relaxed);
        at < left.saturating_add(capacity)
    }

    /// Whether there is room.
    pub(super) fn has_room(&self) -> bool {
        self.capacity
            .is_none_or(|capacity| self.has_room_for(self.arrivals(), capacity))
    }

    /// Places taken so far.
    pub(super) fn arrivals(&self) -> u64 {
        self.entry.arrivals.load(Relaxed)
    }

    /// A message was taken out; the caller has locked the early messages, or the world, since. (If
    /// it had not, a sender might look for room in between, find none, and wait where no thread
    /// notifies it.)
    #[inline]
    pub(super) fn count_out(&self) {
        let left = &self.exit.left;
        left.store(left.load(Relaxed) + 1, Release);
    }

    /// Whether any message was ever taken out.
    pub(super) fn was_used(&self) -> bool {
        self.exit.left.load(Relaxed) > 0
    }

    // Waiting.

    /// Announces the awaited message and slot. The caller holds the world's lock, and checks
    /// afterwards whether they are there.
    pub(super) fn announce(&self, awaited: Awaited) {
        self.message.store(awaited.message, SeqCst);
        self.slot.store(awaited.slot, SeqCst);
        fence(SeqCst);
    }

    /// Whether a thread waits for the message that was just put into the channel, or for the place
    /// behind it.
    ///
    /// No fence: for the one, the sender has held its [queue](super::sender_queues) since, for the other
    /// it took its place by a sequentially consistent exchange.
    #[inline]
    pub(super) fn awaits_message(&self, tag: Tag) -> bool {
        let message = self.message.load(SeqCst);
        message == tag.bits() || message == ANY_MESSAGE || self.awaits_count()
    }

    /// Whether a thread waits for the place behind the one that was just taken, or one that was
    /// taken since.
    pub(super) fn awaits_place(&self) -> bool {
        fence(SeqCst);
        self.awaits_count()
    }

    /// Whether a thread waits for the message to be taken out that the caller has taken from the
    /// early messages.
    #[inline]
    pub(super) fn awaits_room(&self) -> bool {
        self.awaits_count()
    }

    #[inline]
    fn awaits_count(&self) -> bool {
        let slot = self.slot.load(SeqCst);
        slot != NO_SLOT && slot <= self.arrivals()
    }
}

#[cfg(test)]
mod tests {
    use super::super::early_messages::EarlyMessages;
    use super::super::sender_queues::SenderQueues;
    use super::*;
    use crate::platform::spin_lock::SpinLock;
    use rr_channel_log::identity::ThreadId;
    use std::sync::{Arc, Condvar, Mutex};
    use std::thread;

    #[test]
    fn a_place_is_taken_in_turn_and_where_there_is_room() {
        let flow = Flow::new(Some(1));
        assert_eq!(flow.enter(Some(1)), None);
        assert_eq!(flow.enter(Some(0)), Some(0));
        assert!(!flow.has_room());
        assert_eq!(flow.enter(Some(1)), None);
        flow.count_out();
        assert!(flow.has_room());
        assert_eq!(flow.enter(Some(0)), None);
        assert_eq!(flow.enter(None), Some(1));
        assert_eq!(flow.enter(None), None);
    }

    #[test]
    fn a_waiting_thread_is_notified_of_the_awaited_message() {
        let flow = Flow::new(Some(4));
        let tag = |number| Tag::new(ThreadId(1), number);
        assert!(!flow.awaits_message(tag(0)));

        flow.announce(Awaited::message(tag(3)));
        assert!(!flow.awaits_message(tag(2)));
        assert!(flow.awaits_message(tag(3)));
        assert!(!flow.awaits_room());

        flow.announce(Awaited::message(tag(3)).and(Awaited::slot(1)));
        assert!(!flow.awaits_message(tag(2)));
        assert!(!flow.awaits_place() && !flow.awaits_room());
        flow.enter(None);
        assert!(flow.awaits_message(tag(2)));
        assert!(flow.awaits_place() && flow.awaits_room());

        flow.announce(Awaited::message(tag(3)).and(Awaited::message(tag(4))));
        assert!(flow.awaits_message(tag(2)));
        flow.announce(Awaited::CHANGE);
        assert!(flow.awaits_place() && flow.awaits_room());
        flow.announce(Awaited::NOTHING);
        assert!(!flow.awaits_message(tag(3)) && !flow.awaits_place() && !flow.awaits_room());
    }

    const SENDER: usize = 0;
    const RECEIVER: usize = 1;

    /// A channel between two threads, and a world for the two.
    struct Pair {
        flow: Flow,
        early_messages: SpinLock<EarlyMessages<u64>>,
        world: Mutex<[Option<Awaited>; 2]>,
        told: Condvar,
    }

    impl Pair {
        fn announce(&self, waiting: &[Option<Awaited>; 2]) {
            let all = waiting.iter().flatten().copied();
            self.flow.announce(all.fold(Awaited::NOTHING, Awaited::and));
        }

        /// Attempts until it succeeds; after a failure, only when told.
        fn wait<R>(&self, who: usize, awaited: Awaited, attempt: impl Fn() -> Option<R>) -> R {
            loop {
                if let Some(done) = attempt() {
                    return done;
                }
                let mut world = self.world.lock().unwrap();
                world[who] = Some(awaited);
                self.announce(&world);
                let done = attempt();
                while done.is_none() && world[who].is_some() {
                    world = self.told.wait(world).unwrap();
                }
                world[who] = None;
                self.announce(&world);
                if let Some(done) = done {
                    return done;
                }
            }
        }

        fn tell(&self) {
            *self.world.lock().unwrap() = [None; 2];
            self.told.notify_all();
        }
    }

    /// If one of the two is not told, this does not end; miri finds it.
    #[test]
    fn threads_that_wait_for_each_other_in_turn_are_notified() {
        let count = if cfg!(miri) { 6 } else { 2000 };
        let tag = |number| Tag::new(ThreadId(1), number);
        for capacity in [1, 2] {
            let queues = &Arc::new(SenderQueues::new());
            let pair = &Pair {
                flow: Flow::new(Some(capacity)),
                early_messages: SpinLock::new(EarlyMessages::new(Arc::clone(queues))),
                world: Mutex::default(),
                told: Condvar::new(),
            };
            let flow = &pair.flow;
            thread::scope(|scope| {
                scope.spawn(move || {
                    for number in 0..count {
                        pair.wait(SENDER, Awaited::slot(number), || {
                            pair.early_messages.take().len();
                            flow.enter(Some(number))
                        });
                        queues.put(tag(number), number).unwrap();
                        if flow.awaits_message(tag(number)) {
                            pair.tell();
                        }
                    }
                });
                for number in 0..count {
                    let value = pair.wait(RECEIVER, Awaited::message(tag(number)), || {
                        let mut early_messages = pair.early_messages.take();
                        let value = early_messages.take(tag(number))?;
                        flow.count_out();
                        Some(value)
                    });
                    assert_eq!(value, number);
                    if flow.awaits_room() {
                        pair.tell();
                    }
                }
            });
        }
    }
}
