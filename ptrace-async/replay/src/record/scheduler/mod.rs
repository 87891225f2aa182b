//! Scheduler turns: of the tasks that share memory, one runs at a time.
//!
//! No log can tell what two threads do to shared memory at the same time. A task has the turn
//! while its program runs. It gives the turn away where it may wait for another task, and
//! takes it again before its program goes on.

pub(super) mod chaos;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use ptrace_async::runtime::{Stopped, Tracee};

use super::scheduler::chaos::Chaos;
use crate::trace::Task;
use crate::trace::event::Group as GroupNumber;

/// How long a task keeps the turn, at most, while others wait for it (it gives it away
/// at a syscall only).
pub(super) const SLICE: Duration = Duration::from_millis(5);
/// How long a task may run before it is looked after.
pub(super) const LONG: Duration = Duration::from_millis(3);
/// A task that has taken the turn so many times in a row may keep it while it waits.
const UNCONTENDED: u32 = 16;

/// Gives turns to the tasks that share memory.
#[derive(Debug, Default)]
pub(super) struct Scheduler {
    number: GroupNumber,
    /// The processor that all its tasks run on.
    cpu: Cell<u32>,
    turns: RefCell<Turns>,
    /// The scheduler that this one was merged into.
    merged: RefCell<Option<Rc<Self>>>,
    /// The one whose task has made the first task of this one.
    parent: Weak<Self>,
    /// Children made by fork are going to share memory with their parents.
    shares: Cell<bool>,
    /// The random choice of the next task, instead of the one that has waited longest.
    chaos: Option<Rc<Chaos>>,
}

#[derive(Debug, Default)]
struct Turns {
    holder: Option<Task>,
    since: Option<Instant>,
    /// How long the holder's turn may last, if it is not [`SLICE`].
    slice: Option<Duration>,
    waiting: VecDeque<(Task, Waker)>,
    /// The waker of the task that has the turn, woken when another task wants it.
    watching: Option<Waker>,
    members: usize,
    /// The task that had the turn last, and how often it has taken it in a row.
    last: Option<Task>,
    turns_in_a_row: u32,
}

/// The scheduler that this one was merged into, or itself.
pub(super) fn root(scheduler: &Rc<Scheduler>) -> Rc<Scheduler> {
    let mut scheduler = scheduler.clone();
    loop {
        let next = scheduler.merged.borrow().clone();
        match next {
            Some(next) => scheduler = next,
            None => return scheduler,
        }
    }
}

impl Scheduler {
    /// A group of one task, which has the turn.
    pub(super) fn of(
        task: Task,
        number: GroupNumber,
        cpu: u32,
        parent: Weak<Self>,
        chaos: Option<Rc<Chaos>>,
    ) -> Rc<Self> {
        let turns = Turns {
            members: 1,
            ..Turns::default()
        };
        let scheduler = Self {
            number,
            cpu: cpu.into(),
            parent,
            turns: turns.into(),
            chaos,
            ..Self::default()
        };
        scheduler.begin(&mut scheduler.turns.borrow_mut(), task);
        Rc::new(scheduler)
    }

    /// The turn of a task begins.
    fn begin(&self, turns: &mut Turns, task: Task) {
        turns.turns_in_a_row = match turns.last.replace(task) {
            Some(last) if last == task => turns.turns_in_a_row.saturating_add(1),
            _ => 0,
        };
        turns.holder = Some(task);
        turns.since = Some(Instant::now());
        turns.slice = self.chaos.as_ref().map(|chaos| chaos.slice());
    }

    /// The processor of its tasks. One at a time runs, so one is enough; and what
    /// programs learn of the processor by instructions is the same in a replay that
    /// keeps to it.
    pub(super) fn cpu(&self) -> u32 {
        self.cpu.get()
    }

    /// Whether one of its tasks runs, as far as is known.
    pub(super) fn is_busy(&self) -> bool {
        self.turns.borrow().holder.is_some()
    }

    /// Whether it is this task's turn.
    pub(super) fn is_turn_of(&self, task: Task) -> bool {
        self.turns.borrow().holder == Some(task)
    }

    /// This scheduler and those of its ancestors.
    pub(super) fn ancestors(self: &Rc<Self>) -> impl Iterator<Item = Rc<Self>> {
        std::iter::successors(Some(self.clone()), |scheduler| scheduler.parent.upgrade())
    }

    /// Its number in traces.
    pub(super) fn number(&self) -> GroupNumber {
        self.number
    }

    pub(super) fn add_member(&self) {
        self.turns.borrow_mut().members += 1;
    }

    /// Removes a task.
    pub(super) fn leave(&self, task: Task) {
        self.release_turn(task);
        let mut turns = self.turns.borrow_mut();
        turns.members -= 1;
        turns.waiting.retain(|(other, _)| *other != task);
        if let Some(chaos) = &self.chaos {
            chaos.forget(task);
        }
    }

    /// Whether more than one task takes turns.
    pub(super) fn is_shared(&self) -> bool {
        self.turns.borrow().members > 1
    }

    /// Wakes the task that has the turn when another task wants it, or might from now on.
    pub(super) fn watch(&self, waker: &Waker) {
        let mut turns = self.turns.borrow_mut();
        let old = turns.watching.as_ref();
        if !old.is_some_and(|old| old.will_wake(waker)) {
            turns.watching = Some(waker.clone());
        }
    }

    /// Whether only the task that has the turn has wanted it for a while.
    pub(super) fn is_uncontended(&self) -> bool {
        let turns = self.turns.borrow();
        self.chaos.is_none() && turns.turns_in_a_row >= UNCONTENDED && turns.waiting.is_empty()
    }

    /// Whether a task waits for the turn.
    pub(super) fn is_wanted(&self) -> bool {
        !self.turns.borrow().waiting.is_empty()
    }

    pub(super) fn note_shared_memory(&self) {
        self.shares.set(true);
    }

    pub(super) fn shares_memory(&self) -> bool {
        self.shares.get()
    }

    /// Gives the turn to the task that has waited longest, or to a random one.
    pub(super) fn release_turn(&self, task: Task) {
        let mut turns = self.turns.borrow_mut();
        if turns.holder != Some(task) {
            return;
        }
        turns.holder = None;
        let next = match &self.chaos {
            Some(chaos) => chaos.choose(turns.waiting.iter().map(|(task, _)| *task)),
            None => Some(0),
        };
        if let Some((next, waker)) = next.and_then(|next| turns.waiting.remove(next)) {
            waker.wake();
            self.begin(&mut turns, next);
        }
    }

    /// Whether a task that comes to a syscall gives the turn away there.
    pub(super) fn is_due(&self, task: Task) -> bool {
        let is_behind = self.chaos.as_ref().is_some_and(|chaos| {
            let turns = self.turns.borrow();
            let mut waiting = turns.waiting.iter();
            turns.holder == Some(task) && waiting.any(|(other, _)| chaos.is_before(*other, task))
        });
        is_behind || self.is_over(task, self.slice())
    }

    /// Whether a task has to be stopped between syscalls, since others wait. It may go on for
    /// as long as a turn lasts, or for a part of that: the fraction of 2 to the power of
    /// `less`. To find a place to stop takes its time, so that is no short one.
    pub(super) fn is_overdue(&self, task: Task, less: u32) -> bool {
        self.is_over(task, self.slice().max(LONG) / (1 << less))
    }

    fn is_over(&self, task: Task, slice: Duration) -> bool {
        let turns = self.turns.borrow();
        turns.holder == Some(task)
            && !turns.waiting.is_empty()
            && turns.since.is_none_or(|since| since.elapsed() > slice)
    }

    /// How long the present turn may last.
    fn slice(&self) -> Duration {
        self.turns.borrow().slice.unwrap_or(SLICE)
    }

    /// Waits for the turn; without it when the task is being killed.
    pub(super) async fn take_turn<S: Stopped>(self: &Rc<Self>, task: Task, tracee: &Tracee<S>) {
        poll_fn(|context| {
            let scheduler = root(self);
            let mut turns = scheduler.turns.borrow_mut();
            if turns.holder == Some(task) {
                return Poll::Ready(());
            }
            if tracee.has_pending_stop() {
                turns.waiting.retain(|(other, _)| *other != task);
                return Poll::Ready(());
            }
            if turns.holder.is_none() {
                turns.waiting.retain(|(other, _)| *other != task);
                scheduler.begin(&mut turns, task);
                return Poll::Ready(());
            }
            if !turns.waiting.iter().any(|(other, _)| *other == task) {
                turns.waiting.push_back((task, context.waker().clone()));
                if let Some(watching) = turns.watching.take() {
                    watching.wake();
                }
            }
            Poll::Pending
        })
        .await;
    }

    /// Makes one group of two; `task`, which has the turn of this one, waits for that of
    /// the other from now on.
    pub(super) fn merge(self: &Rc<Self>, other: &Rc<Self>, task: Task) {
        let mut mine = self.turns.borrow_mut();
        let mut theirs = other.turns.borrow_mut();
        theirs.members += mine.members;
        theirs.waiting.append(&mut mine.waiting);
        if theirs.holder.is_none() && mine.holder == Some(task) {
            theirs.holder = Some(task);
        }
        mine.holder = None;
        if let Some(waker) = theirs.watching.take() {
            waker.wake();
        }
        other.shares.set(other.shares.get() || self.shares.get());
        *self.merged.borrow_mut() = Some(other.clone());
    }
}
