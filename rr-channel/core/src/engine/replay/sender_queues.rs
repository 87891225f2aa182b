//! The queues of a replayed channel, by sender.
//!
//! Each sender has a queue, unless there are many senders. So the next message of a sender, for
//! which a receiver asks, is mostly the first one in a queue, and threads that send at the same
//! time share only the count of arrivals. A receiver takes all messages of a queue at once.
//!
//! **Arrivals.** Within a queue messages are numbered in their order, under the queue's lock. A
//! message that was sent after another one had been sent has a greater number, also across queues.
//! A thread that looks for the oldest message looks into all queues twice. Any message that was
//! sent before one that it saw the first time is visible the second time at the latest. If it sees
//! no message the first time, there is none for it: the order of messages that come by the second
//! time is unknown.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, SeqCst};
use std::sync::atomic::{AtomicU64, fence};

use rr_channel_log::identity::ThreadId;

use crate::platform::spin_lock::SpinLock;
use crate::recorder::tag::Tag;

/// How many senders have a queue of their own.
pub(super) const QUEUES: usize = 8;
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
pub(super) struct SenderQueues<T> {
    arrivals: AtomicU64,
    /// Made for the first message; none if the channel was closed before that.
    queues: [OnceLock<Option<Box<SenderQueue<T>>>>; QUEUES],
}

/// On cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct SenderQueue<T>(SpinLock<Inbox<T>>);

#[derive(Debug)]
struct Inbox<T> {
    messages: VecDeque<Deposit<T>>,
    is_closed: bool,
}

/// Which queue `sender` has.
#[inline(always)]
pub(super) const fn queue_of(sender: ThreadId) -> usize {
    sender.0 as usize % QUEUES
}

impl<T> SenderQueues<T> {
    pub(super) const fn new() -> Self {
        SenderQueues {
            arrivals: AtomicU64::new(0),
            queues: [const { OnceLock::new() }; QUEUES],
        }
    }

    /// A queue to send into, unless it was closed before there was one.
    #[inline]
    fn queue(&self, queue: usize) -> Option<&SenderQueue<T>> {
        let place = &self.queues[queue];
        match place.get() {
            Some(queue) => queue.as_deref(),
            None => Self::make(place),
        }
    }

    #[cold]
    fn make(place: &OnceLock<Option<Box<SenderQueue<T>>>>) -> Option<&SenderQueue<T>> {
        let queue = place.get_or_init(|| {
            Some(Box::new(SenderQueue(SpinLock::new(Inbox {
                messages: VecDeque::new(),
                is_closed: false,
            }))))
        });
        // A thread that saw no queue has announced before what it waits for, and then put a fence,
        // too.
        fence(SeqCst);
        queue.as_deref()
    }

    /// A queue that something may have been sent into.
    #[inline]
    fn used(&self, queue: usize) -> Option<&SenderQueue<T>> {
        self.queues[queue].get()?.as_deref()
    }

    /// Leaves a message; gives it back if the queues are closed.
    #[inline]
    pub(super) fn put(&self, tag: Tag, value: T) -> Result<(), T> {
        let Some(queue) = self.queue(queue_of(tag.sender())) else {
            return Err(value);
        };
        let mut inbox = queue.0.take();
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

    /// Moves all messages of `queue` into `empty`, which has none; its capacity serves the next
    /// messages.
    #[inline]
    pub(super) fn take_all(&self, queue: usize, empty: &mut VecDeque<Deposit<T>>) {
        if let Some(queue) = self.used(queue) {
            std::mem::swap(empty, &mut queue.0.take().messages);
        }
    }

    /// Moves all messages of `queue` behind those in `messages`.
    pub(super) fn append(&self, queue: usize, messages: &mut VecDeque<Deposit<T>>) {
        if messages.is_empty() {
            self.take_all(queue, messages);
        } else if let Some(queue) = self.used(queue) {
            messages.append(&mut queue.0.take().messages);
        }
    }

    /// How many messages are there.
    pub(super) fn len(&self) -> usize {
        let queues = (0..QUEUES).filter_map(|queue| self.used(queue));
        queues.map(|queue| queue.0.take().messages.len()).sum()
    }

    /// Takes no more.
    pub(super) fn close(&self) {
        for place in &self.queues {
            if let Some(queue) = place.get_or_init(|| None) {
                queue.0.take().is_closed = true;
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
        let queues = SenderQueues::new();
        // The last one shares the first one's queue.
        let senders = [1, 2, 1 + QUEUES as u32];
        thread::scope(|scope| {
            let queues = &queues;
            for sender in senders {
                scope.spawn(move || {
                    for number in 0..count {
                        queues.put(tag(sender, number), number).unwrap();
                    }
                });
            }
            let mut next = [0; 2 + QUEUES];
            let mut last = [None; QUEUES];
            let mut taken = VecDeque::new();
            while next.iter().sum::<u64>() < 3 * count {
                for (queue, last) in last.iter_mut().enumerate() {
                    queues.take_all(queue, &mut taken);
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
        assert_eq!(queues.len(), 0);
    }

    #[test]
    fn a_closed_queue_refuses_all_senders() {
        let queues = SenderQueues::new();
        queues.put(tag(1, 0), "kept").unwrap();
        queues.close();
        assert_eq!(queues.put(tag(1, 1), "late"), Err("late"));
        assert_eq!(queues.put(tag(2, 0), "new"), Err("new"));
        assert_eq!(queues.len(), 1);
    }
}
