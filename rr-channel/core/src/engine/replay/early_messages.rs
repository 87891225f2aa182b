//! The messages in a replayed channel.
//!
//! Senders put messages into the channel's [queues](super::sender_queues) and never look here. A
//! receiver takes messages from the queue of the sender that its log names, until it finds the
//! message. Messages that came too early are kept here, by sender, in the order of arrival.

use std::collections::VecDeque;
use std::sync::Arc;

use rr_channel_log::identity::ThreadId;
use rustc_hash::FxHashMap;

use super::sender_queues::{Deposit, QUEUES, SenderQueues, queue_of};
use crate::recorder::tag::Tag;

/// So much room is kept when it is not needed any more, in messages.
const BURST: usize = 1 << 10;

/// The receiving end of a channel, and the messages that were taken from it too early.
#[derive(Debug)]
pub(super) struct EarlyMessages<T> {
    queues: Arc<SenderQueues<T>>,
    /// Messages that were taken out of each queue, and not looked at.
    taken: [VecDeque<Deposit<T>>; QUEUES],
    early: FxHashMap<ThreadId, VecDeque<Deposit<T>>>,
    /// How many are early.
    len: usize,
    /// Messages that were selected, and will be asked for soon.
    aside: Vec<(Tag, T)>,
}

impl<T> EarlyMessages<T> {
    pub(super) fn new(queues: Arc<SenderQueues<T>>) -> Self {
        EarlyMessages {
            queues,
            taken: [const { VecDeque::new() }; QUEUES],
            early: FxHashMap::default(),
            len: 0,
            aside: Vec::new(),
        }
    }

    /// Takes the message `tag`, if it is there.
    #[inline(always)]
    pub(super) fn take(&mut self, tag: Tag) -> Option<T> {
        if self.len == 0 {
            let message = self.next(queue_of(tag.sender()))?;
            if message.tag == tag {
                return Some(message.value);
            }
            self.keep(message);
        }
        self.take_in_disorder(tag)
    }

    #[inline(never)]
    fn take_in_disorder(&mut self, tag: Tag) -> Option<T> {
        if let Some(message) = self.take_early(tag) {
            return Some(message);
        }
        loop {
            let message = self.next(queue_of(tag.sender()))?;
            if message.tag == tag {
                return Some(message.value);
            }
            self.keep(message);
        }
    }

    /// Takes the message that has been there for longest.
    pub(super) fn take_oldest(&mut self) -> Option<(Tag, T)> {
        self.take_all();
        if self.len == 0 && self.taken.iter().all(VecDeque::is_empty) {
            // All queues were empty when the first one was looked into. A message seen from here
            // on may have come after another one in a queue that was looked into before.
            return None;
        }
        // See there: what was sent before any of these.
        self.take_all();
        let arrival = |queue: &VecDeque<Deposit<T>>| queue.front().map(|first| first.arrival);
        let early = self.early.values_mut();
        let early = early.min_by_key(|queue| arrival(queue).unwrap_or(u64::MAX));
        let first_early = early.as_deref().and_then(arrival);
        let taken = self.taken.iter_mut();
        let taken = taken.min_by_key(|queue| arrival(queue).unwrap_or(u64::MAX));
        let first_taken = taken.as_deref().and_then(arrival);
        let queue = match (first_early, first_taken) {
            (Some(early), Some(taken)) if early > taken => None,
            (Some(_), _) => early,
            (None, _) => None,
        };
        if let Some(queue) = queue {
            let message = queue.pop_front()?;
            shrink(queue);
            self.len -= 1;
            return Some((message.tag, message.value));
        }
        let taken = taken?;
        let message = taken.pop_front()?;
        shrink(taken);
        Some((message.tag, message.value))
    }

    /// The number of messages.
    pub(super) fn len(&self) -> usize {
        let taken = self.taken.iter().map(VecDeque::len).sum::<usize>();
        self.len + taken + self.queues.len()
    }

    /// Puts a message that was taken aside, for the thread that selected it.
    pub(super) fn set_aside(&mut self, tag: Tag, value: T) {
        self.aside.push((tag, value));
    }

    /// Takes the messages that were put aside.
    pub(super) fn take_aside(&mut self, tag: Tag) -> Option<T> {
        let at = self.aside.iter().position(|(aside, _)| *aside == tag)?;
        Some(self.aside.swap_remove(at).1)
    }

    /// Refuses sends from now on, because no receiver is left. Hands out all messages, oldest
    /// first, to be dropped where no lock is held.
    pub(super) fn close(&mut self) -> Vec<T> {
        self.queues.close();
        self.take_all();
        let early = std::mem::take(&mut self.early).into_values().flatten();
        let taken = self.taken.iter_mut().flat_map(std::mem::take);
        let mut all: Vec<_> = early.chain(taken).collect();
        all.sort_unstable_by_key(|message| message.arrival);
        self.len = 0;
        let aside = std::mem::take(&mut self.aside).into_iter();
        let aside = aside.map(|(_, value)| value);
        aside
            .chain(all.into_iter().map(|message| message.value))
            .collect()
    }

    /// The next message of `queue`.
    #[inline(always)]
    fn next(&mut self, queue: usize) -> Option<Deposit<T>> {
        let taken = &mut self.taken[queue];
        if taken.is_empty() {
            self.queues.take_all(queue, taken);
        }
        let next = taken.pop_front();
        if taken.is_empty() && taken.capacity() > BURST {
            *taken = VecDeque::new();
        }
        next
    }

    /// Takes all messages out of all queues.
    fn take_all(&mut self) {
        for (queue, taken) in self.taken.iter_mut().enumerate() {
            self.queues.append(queue, taken);
        }
    }

    fn keep(&mut self, message: Deposit<T>) {
        self.early
            .entry(message.tag.sender())
            .or_default()
            .push_back(message);
        self.len += 1;
    }

    fn take_early(&mut self, tag: Tag) -> Option<T> {
        let queue = self.early.get_mut(&tag.sender())?;
        // Mostly the first one: several consumers may disagree.
        let at = queue.iter().position(|early| early.tag == tag)?;
        let early = queue.remove(at)?;
        shrink(queue);
        self.len -= 1;
        Some(early.value)
    }
}

/// Gives memory back that a burst of messages needed.
fn shrink<T>(queue: &mut VecDeque<T>) {
    if queue.capacity() > BURST && queue.len() < queue.capacity() / 8 {
        queue.shrink_to(queue.len() * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::thread;

    fn tag(sender: u32, number: u64) -> Tag {
        Tag::new(ThreadId(sender), number)
    }

    fn early_messages(
        messages: &[(u32, u64)],
    ) -> (Arc<SenderQueues<String>>, EarlyMessages<String>) {
        let queues = Arc::new(SenderQueues::new());
        for (sender, number) in messages {
            let value = format!("{sender}.{number}");
            queues.put(tag(*sender, *number), value).unwrap();
        }
        (Arc::clone(&queues), EarlyMessages::new(queues))
    }

    #[test]
    fn a_message_is_found_wherever_it_is() {
        // In queues of their own, and in one.
        for other in [2, 1 + QUEUES as u32] {
            let (_queues, mut early_messages) =
                early_messages(&[(1, 0), (other, 0), (1, 1), (other, 1)]);
            let mut take = |sender, number| {
                let found = early_messages.take(tag(sender, number));
                (found, early_messages.len())
            };
            assert_eq!(take(1, 1), (Some("1.1".to_owned()), 3));
            assert_eq!(take(1, 1), (None, 3));
            assert_eq!(take(other, 1), (Some(format!("{other}.1")), 2));
            assert_eq!(take(other, 0), (Some(format!("{other}.0")), 1));
            assert_eq!(take(1, 0), (Some("1.0".to_owned()), 0));
        }
    }

    #[test]
    fn the_oldest_is_the_one_that_arrived_first() {
        let (_queues, mut early_messages) = early_messages(&[(2, 5), (1, 0), (2, 6), (3, 0)]);
        assert!(early_messages.take(tag(2, 6)).is_some());
        let rest = std::iter::from_fn(|| early_messages.take_oldest());
        let rest: Vec<_> = rest.map(|(_, value)| value).collect();
        assert_eq!(rest, ["2.5", "1.0", "3.0"]);
    }

    #[test]
    fn no_message_overtakes_an_earlier_one() {
        let count = if cfg!(miri) { 20 } else { 20_000 };
        let queues = QUEUES as u32;
        // All queues are there, so it takes some time to look into them.
        let (way, mut early_messages) =
            early_messages(&Vec::from_iter((0..queues).map(|queue| (queue, 0))));
        while early_messages.take_oldest().is_some() {}
        let received = AtomicU64::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in (0..count).step_by(2) {
                    // Looked into first, and last.
                    for sender in [0, queues - 1] {
                        let number = number + u64::from(sender != 0);
                        way.put(tag(sender, number), String::new()).unwrap();
                    }
                    // There is nothing when the next one comes.
                    while received.load(Relaxed) < number + 2 {
                        thread::yield_now();
                    }
                }
            });
            let mut order = Vec::new();
            while order.len() < count as usize {
                if let Some((tag, _)) = early_messages.take_oldest() {
                    order.push(tag.number());
                    received.store(order.len() as u64, Relaxed);
                }
            }
            assert!(
                order.is_sorted(),
                "{:?}",
                order.windows(2).find(|two| two[0] > two[1])
            );
        });
    }

    #[test]
    fn a_burst_leaves_no_room_behind() {
        let count = 10 * BURST as u64;
        let takes: [fn(&mut EarlyMessages<String>, u64) -> bool; 2] = [
            |early_messages, number| early_messages.take(tag(1, number)).is_some(),
            |early_messages, _| early_messages.take_oldest().is_some(),
        ];
        for take in takes {
            let (_, mut early_messages) =
                early_messages(&Vec::from_iter((0..count).map(|number| (1, number))));
            assert!((0..count).all(|number| take(&mut early_messages, number)));
            let mut of_queue = VecDeque::new();
            early_messages.queues.take_all(1, &mut of_queue);
            for queue in [&early_messages.taken[1], &of_queue] {
                assert!(queue.is_empty() && queue.capacity() <= BURST);
            }
        }
    }

    #[test]
    fn a_closed_queue_yields_all_messages_and_refuses_more() {
        let (queues, mut early_messages) =
            early_messages(&[(2, 5), (1, 0), (3, 0), (2, 6), (2, 7)]);
        assert!(early_messages.take(tag(1, 0)).is_some());
        assert!(early_messages.take(tag(2, 6)).is_some());
        assert_eq!(early_messages.close(), ["2.5", "3.0", "2.7"]);
        assert!(queues.put(tag(1, 1), String::new()).is_err());
        assert!(early_messages.take(tag(1, 1)).is_none());
        assert_eq!(early_messages.len(), 0);
    }
}
