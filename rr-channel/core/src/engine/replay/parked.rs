//! The operations of tasks that are not ready, each with the waker of its task.

use std::task::Waker;

use rr_channel_log::Event;
use rr_channel_log::identity::{ChannelId, ThreadId};
use rustc_hash::FxHashMap;

use super::waiter_counts;
use super::world::Watch;

/// An operation that is not ready.
#[derive(Debug)]
pub(super) struct Parked {
    /// The name of its object, if that has one yet.
    pub(super) name: Option<ChannelId>,
    /// The object, and the count that it has to reach, if the event is the task's next.
    pub(super) watch: Option<(Watch, u64)>,
    /// The next event of the task, if its log has one.
    pub(super) expected: Option<Event>,
    pub(super) waker: Waker,
}

/// All parked operations.
#[derive(Debug, Default)]
pub(super) struct ParkedOperations {
    of_tasks: FxHashMap<ThreadId, Vec<Parked>>,
    /// The tasks of the operations that watch an object, each once for each operation.
    watchers: FxHashMap<Watch, Vec<ThreadId>>,
}

impl ParkedOperations {
    pub(super) fn is_empty(&self) -> bool {
        self.of_tasks.is_empty()
    }

    pub(super) fn has(&self, task: ThreadId) -> bool {
        self.of_tasks.contains_key(&task)
    }

    /// The tasks that have parked operations.
    pub(super) fn tasks(&self) -> impl Iterator<Item = ThreadId> {
        self.of_tasks.keys().copied()
    }

    /// The next event of a task that has parked operations.
    pub(super) fn next_of(&self, task: ThreadId) -> Option<Event> {
        self.of_tasks.get(&task)?.first()?.expected
    }

    pub(super) fn add(&mut self, task: ThreadId, new: Parked) {
        let parked = self.of_tasks.entry(task).or_default();
        let is_same = |parked: &&mut Parked| {
            parked.name == new.name
                && parked.watch == new.watch
                && parked.waker.will_wake(&new.waker)
        };
        if let Some(same) = parked.iter_mut().find(is_same) {
            same.expected = new.expected;
            return;
        }
        if let Some((watch, _)) = new.watch {
            waiter_counts::begin(watch);
            self.watchers.entry(watch).or_default().push(task);
        }
        parked.push(new);
    }

    /// Removes the operations of a task on the object of this name, all of them if there is no
    /// name, and puts their wakers into `woken`; whether it has more.
    pub(super) fn remove(
        &mut self,
        task: ThreadId,
        name: Option<ChannelId>,
        woken: &mut Vec<Waker>,
    ) -> bool {
        self.extract(task, woken, |parked| {
            name.is_none() || parked.name.is_none_or(|own| Some(own) == name)
        })
    }

    /// Removes the operations that wait until the watched object has come to `reached`, and puts
    /// their wakers into `woken`.
    pub(super) fn remove_reached(&mut self, watch: Watch, reached: u64, woken: &mut Vec<Waker>) {
        let Some(tasks) = self.watchers.get(&watch).cloned() else {
            return;
        };
        for task in tasks {
            self.extract(task, woken, |parked| {
                parked
                    .watch
                    .is_some_and(|(at, from)| at == watch && from <= reached)
            });
        }
    }

    /// As [`remove`](ParkedOperations::remove), of the operations that are `meant`.
    fn extract(
        &mut self,
        task: ThreadId,
        woken: &mut Vec<Waker>,
        meant: impl Fn(&Parked) -> bool,
    ) -> bool {
        let Some(parked) = self.of_tasks.get_mut(&task) else {
            return false;
        };
        for parked in parked.extract_if(.., |parked| meant(parked)) {
            if let Some((watch, _)) = parked.watch {
                waiter_counts::end(watch);
                forget_watcher(&mut self.watchers, watch, task);
            }
            woken.push(parked.waker);
        }
        let has_more = !parked.is_empty();
        if !has_more {
            self.of_tasks.remove(&task);
        }
        has_more
    }
}

/// An operation of the task watches the object no longer.
fn forget_watcher(watchers: &mut FxHashMap<Watch, Vec<ThreadId>>, watch: Watch, task: ThreadId) {
    let Some(tasks) = watchers.get_mut(&watch) else {
        return;
    };
    if let Some(at) = tasks.iter().position(|known| *known == task) {
        tasks.swap_remove(at);
    }
    if tasks.is_empty() {
        watchers.remove(&watch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parked(watch: Option<(Watch, u64)>) -> Parked {
        Parked {
            name: None,
            watch,
            expected: None,
            waker: Waker::noop().clone(),
        }
    }

    #[test]
    fn operations_are_woken_when_their_object_has_come_far_enough() {
        let mut operations = ParkedOperations::default();
        let watch = Watch::End(ThreadId(9));
        for (task, from) in [(1, 3), (1, 5), (2, 4)] {
            operations.add(ThreadId(task), parked(Some((watch, from))));
        }
        operations.add(ThreadId(2), parked(None));
        let mut reach = |watch, reached| {
            let mut woken = Vec::new();
            operations.remove_reached(watch, reached, &mut woken);
            woken.len()
        };
        assert_eq!(reach(Watch::End(ThreadId(8)), 9), 0);
        assert_eq!(reach(watch, 2), 0);
        assert_eq!(reach(watch, 4), 2);
        assert_eq!(reach(watch, 5), 1);
        assert_eq!(reach(watch, 9), 0);
        assert!(operations.watchers.is_empty());
        assert_eq!(operations.tasks().collect::<Vec<_>>(), [ThreadId(2)]);
    }
}
