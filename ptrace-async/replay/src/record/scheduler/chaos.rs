//! Random scheduling, to provoke failures that depend on the order of tasks.
//!
//! The method is that of rr's chaos mode and of probabilistic concurrency testing. Each task
//! has a random priority, and the waiting task with the highest one gets the turn. At a few
//! random points the highest priority becomes the lowest, or all are drawn again. A task may
//! starve while others have work, which a busy machine does to it once in a thousand runs.

use std::cell::RefCell;
use std::time::Duration;

use fastrand::Rng;
use rustc_hash::FxHashMap;

use crate::trace::Task;

/// A turn may end after so long, in microseconds.
const SHORTEST: f64 = 20.0;
const LONGEST: f64 = 20_000.0;
/// The lowest priorities.
const LOW: u32 = 1 << 16;
/// After so many decisions, at most, priorities change.
const FEW: u32 = 25;

/// The state of the random scheduler.
#[derive(Debug)]
pub(in crate::record) struct Chaos {
    state: RefCell<Priorities>,
}

#[derive(Debug)]
struct Priorities {
    rng: Rng,
    priorities: FxHashMap<Task, u32>,
    /// Decisions until priorities change.
    left: u32,
}

impl Chaos {
    pub(in crate::record) fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let left = rng.u32(1..=FEW);
        Self {
            state: RefCell::new(Priorities {
                rng,
                priorities: FxHashMap::default(),
                left,
            }),
        }
    }

    /// Which of those who wait gets the turn.
    pub(in crate::record) fn choose(&self, waiting: impl Iterator<Item = Task>) -> Option<usize> {
        let mut state = self.state.borrow_mut();
        let best = waiting
            .enumerate()
            .max_by_key(|(_, task)| state.priority(*task));
        let (index, task) = best?;
        state.left -= 1;
        if state.left == 0 {
            state.left = state.rng.u32(1..=FEW);
            if state.rng.bool() {
                state.priorities.clear();
            } else {
                let low = state.rng.u32(..LOW);
                state.priorities.insert(task, low);
            }
        }
        Some(index)
    }

    /// Whether a task goes before another.
    pub(in crate::record) fn is_before(&self, task: Task, other: Task) -> bool {
        let mut state = self.state.borrow_mut();
        state.priority(task) > state.priority(other)
    }

    /// How long the turn that begins may last.
    pub(in crate::record) fn slice(&self) -> Duration {
        let factor = (LONGEST / SHORTEST).powf(self.state.borrow_mut().rng.f64());
        Duration::from_micros((SHORTEST * factor) as u64)
    }

    pub(in crate::record) fn forget(&self, task: Task) {
        self.state.borrow_mut().priorities.remove(&task);
    }
}

impl Priorities {
    fn priority(&mut self, task: Task) -> u32 {
        let rng = &mut self.rng;
        *self.priorities.entry(task).or_insert_with(|| rng.u32(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_waiting_task_may_be_next() {
        let first = |seed| {
            let chaos = Chaos::new(seed);
            chaos.choose((0..3).map(Task)).unwrap()
        };
        for index in 0..3 {
            assert!((0..200).any(|seed| first(seed) == index), "{index}");
        }
    }

    #[test]
    fn no_task_stays_last_for_ever() {
        let chaos = Chaos::new(7);
        let mut turns = [0; 3];
        for _ in 0..10_000 {
            turns[chaos.choose((0..3).map(Task)).unwrap()] += 1;
        }
        assert!(turns.iter().all(|&count| count > 100), "{turns:?}");
    }
}
