//! One replayed channel: the tags of its messages, its handles, those who wait.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::identity::ThreadId;
use crate::tag::Tag;

#[derive(Debug, Clone, Copy)]
pub(super) struct Timer {
    pub(super) due: Option<Instant>,
    pub(super) period: Option<Duration>,
}

#[derive(Debug, Default)]
pub(super) struct Chan {
    pub(super) capacity: Option<usize>,
    pub(super) timer: Option<Timer>,
    /// Messages by sender, each with its order of arrival.
    pub(super) queues: FxHashMap<ThreadId, VecDeque<(Tag, u64)>>,
    pub(super) len: usize,
    pub(super) arrivals: u64,
    /// Whether anything was ever received from it.
    pub(super) taken: bool,
    pub(super) senders: usize,
    pub(super) receivers: usize,
    pub(super) waiters: Vec<ThreadId>,
}

impl Chan {
    pub(super) fn push(&mut self, tag: Tag) {
        self.queues
            .entry(tag.sender())
            .or_default()
            .push_back((tag, self.arrivals));
        self.arrivals += 1;
        self.len += 1;
    }

    pub(super) fn take(&mut self, tag: Tag) -> bool {
        let Some(queue) = self.queues.get_mut(&tag.sender()) else {
            return false;
        };
        let Some(at) = queue.iter().position(|(t, _)| *t == tag) else {
            return false;
        };
        queue.remove(at);
        shrink(queue);
        self.len -= 1;
        self.taken = true;
        true
    }

    pub(super) fn take_oldest(&mut self) -> Option<Tag> {
        let queue = self
            .queues
            .values_mut()
            .filter(|queue| !queue.is_empty())
            .min_by_key(|queue| queue.front().map(|(_, arrival)| *arrival))?;
        let (tag, _) = queue.pop_front()?;
        shrink(queue);
        self.len -= 1;
        self.taken = true;
        Some(tag)
    }

    /// Takes all messages, oldest first.
    pub(super) fn take_all(&mut self) -> Vec<Tag> {
        let mut all: Vec<_> = self.queues.drain().flat_map(|(_, queue)| queue).collect();
        all.sort_unstable_by_key(|(_, arrival)| *arrival);
        self.len = 0;
        all.into_iter().map(|(tag, _)| tag).collect()
    }

    pub(super) fn has_room(&self) -> bool {
        self.capacity.is_none_or(|capacity| self.len < capacity)
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.timer
            .is_some_and(|timer| timer.due.is_some_and(|due| due <= now))
    }
}

/// Gives memory back that a burst of messages needed.
fn shrink<T>(queue: &mut VecDeque<T>) {
    if queue.capacity() > 1024 && queue.len() < queue.capacity() / 8 {
        queue.shrink_to(queue.len() * 2);
    }
}
