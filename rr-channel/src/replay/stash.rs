//! The messages in a replayed channel.
//!
//! Senders put them into one of upstream's channels and never look here. Who receives
//! takes from there until the message that its log names comes by; what comes too early
//! is kept here, by sender, in the order of arrival.

use std::collections::VecDeque;

use ::crossbeam_channel as raw;
use rustc_hash::FxHashMap;

use crate::identity::ThreadId;
use crate::tag::Tag;

/// A message on its way through a replayed channel.
///
/// No `Stamped`, though the same: what the compiler makes of upstream's channels for
/// recordings would not be as fast if they had callers here too.
#[derive(Debug)]
pub(super) struct Deposit<T> {
    pub(super) tag: Tag,
    pub(super) value: T,
}

/// The receiving end of a channel, and what was taken from it too early.
#[derive(Debug)]
pub(super) struct Stash<T> {
    /// `None` once nobody is left to receive: sends are refused from then on.
    raw: Option<raw::Receiver<Deposit<T>>>,
    early: FxHashMap<ThreadId, VecDeque<Early<T>>>,
    len: usize,
    arrivals: u64,
    /// Messages that were selected, and will be asked for soon.
    aside: Vec<Deposit<T>>,
}

/// A message that came before it was asked for.
#[derive(Debug)]
struct Early<T> {
    arrival: u64,
    message: Deposit<T>,
}

impl<T> Stash<T> {
    pub(super) fn new(raw: raw::Receiver<Deposit<T>>) -> Self {
        Stash {
            raw: Some(raw),
            early: FxHashMap::default(),
            len: 0,
            arrivals: 0,
            aside: Vec::new(),
        }
    }

    /// Takes the message `tag`, if it is there.
    #[inline(always)]
    pub(super) fn take(&mut self, tag: Tag) -> Option<T> {
        if self.len == 0 {
            let message = self.try_recv()?;
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
            let message = self.try_recv()?;
            if message.tag == tag {
                return Some(message.value);
            }
            self.keep(message);
        }
    }

    /// Takes the message that has been there for longest.
    pub(super) fn take_oldest(&mut self) -> Option<Deposit<T>> {
        if self.len == 0 {
            return self.try_recv();
        }
        let arrival = |queue: &VecDeque<Early<T>>| queue.front().map(|early| early.arrival);
        let queue = self
            .early
            .values_mut()
            .filter(|queue| !queue.is_empty())
            .min_by_key(|queue| arrival(queue))?;
        let early = queue.pop_front()?;
        shrink(queue);
        self.len -= 1;
        Some(early.message)
    }

    /// The number of messages.
    pub(super) fn len(&self) -> usize {
        self.len + self.raw.as_ref().map_or(0, raw::Receiver::len)
    }

    /// Puts a message that was taken aside, for the thread that selected it.
    pub(super) fn set_aside(&mut self, message: Deposit<T>) {
        self.aside.push(message);
    }

    /// Takes what was put aside.
    pub(super) fn take_aside(&mut self, tag: Tag) -> Option<T> {
        let at = self.aside.iter().position(|message| message.tag == tag)?;
        Some(self.aside.swap_remove(at).value)
    }

    /// Nobody receives any more: hands out all messages, oldest first, to be dropped
    /// where no lock is held, and then what refuses further ones.
    pub(super) fn close(&mut self) -> (Vec<T>, Option<raw::Receiver<Deposit<T>>>) {
        while let Some(message) = self.try_recv() {
            self.keep(message);
        }
        let aside = std::mem::take(&mut self.aside).into_iter();
        let early = std::mem::take(&mut self.early);
        let mut all: Vec<_> = early.into_values().flatten().collect();
        all.sort_unstable_by_key(|early| early.arrival);
        self.len = 0;
        let messages = aside.chain(all.into_iter().map(|early| early.message));
        (
            messages.map(|message| message.value).collect(),
            self.raw.take(),
        )
    }

    #[inline(always)]
    fn try_recv(&mut self) -> Option<Deposit<T>> {
        self.raw.as_ref()?.try_recv().ok()
    }

    fn keep(&mut self, message: Deposit<T>) {
        let arrival = self.arrivals;
        self.early
            .entry(message.tag.sender())
            .or_default()
            .push_back(Early { arrival, message });
        self.arrivals += 1;
        self.len += 1;
    }

    fn take_early(&mut self, tag: Tag) -> Option<T> {
        let queue = self.early.get_mut(&tag.sender())?;
        // Mostly the first one: several consumers may disagree.
        let at = queue.iter().position(|early| early.message.tag == tag)?;
        let early = queue.remove(at)?;
        shrink(queue);
        self.len -= 1;
        Some(early.message.value)
    }
}

/// Gives memory back that a burst of messages needed.
fn shrink<T>(queue: &mut VecDeque<T>) {
    if queue.capacity() > 1024 && queue.len() < queue.capacity() / 8 {
        queue.shrink_to(queue.len() * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(sender: u32, number: u64) -> Tag {
        Tag::new(ThreadId(sender), number)
    }

    fn stash(messages: &[(u32, u64)]) -> (raw::Sender<Deposit<String>>, Stash<String>) {
        let (s, r) = raw::unbounded();
        for (sender, number) in messages {
            let value = format!("{sender}.{number}");
            let tag = tag(*sender, *number);
            s.send(Deposit { tag, value }).unwrap();
        }
        (s, Stash::new(r))
    }

    #[test]
    fn a_message_is_found_wherever_it_is() {
        let (_s, mut stash) = stash(&[(1, 0), (2, 0), (1, 1), (2, 1)]);
        assert_eq!(stash.take(tag(1, 1)).as_deref(), Some("1.1"));
        assert_eq!(stash.take(tag(1, 1)), None);
        assert_eq!(stash.len(), 3);
        assert_eq!(stash.take(tag(2, 1)).as_deref(), Some("2.1"));
        assert_eq!(stash.take(tag(2, 0)).as_deref(), Some("2.0"));
        assert_eq!(stash.take(tag(1, 0)).as_deref(), Some("1.0"));
        assert_eq!(stash.len(), 0);
    }

    #[test]
    fn the_oldest_is_the_one_that_arrived_first() {
        let (_s, mut stash) = stash(&[(2, 5), (1, 0), (2, 6), (3, 0)]);
        assert!(stash.take(tag(2, 6)).is_some());
        let rest = std::iter::from_fn(|| stash.take_oldest());
        let rest: Vec<_> = rest.map(|message| message.value).collect();
        assert_eq!(rest, ["2.5", "1.0", "3.0"]);
    }

    #[test]
    fn a_closed_stash_gives_all_and_refuses_more() {
        let (s, mut stash) = stash(&[(2, 5), (1, 0), (2, 6)]);
        assert!(stash.take(tag(1, 0)).is_some());
        let (messages, refuser) = stash.close();
        assert_eq!(messages, ["2.5", "2.6"]);
        drop(refuser);
        let tag = tag(1, 1);
        let value = String::new();
        assert!(s.send(Deposit { tag, value }).is_err());
    }
}
