//! Turns: of the tasks that share memory, one runs at a time.
//!
//! What two threads do to common memory at once no log can tell, so they do not. A
//! task has the turn while its program runs; it gives it away where it may wait for
//! another, and takes it again before its program goes on.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use ptrace_async::runtime::{Stopped, Tracee};

use crate::trace::Task;
use crate::trace::event::Group as Number;

/// How long a task keeps the turn, at most, while others wait for it (it gives it away
/// at a syscall only).
pub(super) const SLICE: Duration = Duration::from_millis(5);

/// Tasks that take turns.
#[derive(Debug, Default)]
pub(super) struct Group {
    number: Number,
    /// The processor that all its tasks run on.
    cpu: Cell<u32>,
    inner: RefCell<Inner>,
    /// This group has become part of that one.
    merged: RefCell<Option<Rc<Self>>>,
    /// Children made by fork are going to share memory with their parents.
    shares: Cell<bool>,
}

#[derive(Debug, Default)]
struct Inner {
    holder: Option<Task>,
    since: Option<Instant>,
    waiting: VecDeque<(Task, Waker)>,
    members: usize,
}

/// The group that stands for this one.
pub(super) fn root(group: &Rc<Group>) -> Rc<Group> {
    let mut group = group.clone();
    loop {
        let next = group.merged.borrow().clone();
        match next {
            Some(next) => group = next,
            None => return group,
        }
    }
}

impl Group {
    /// A group of one task, which has the turn.
    pub(super) fn of(task: Task, number: Number, cpu: u32) -> Rc<Self> {
        let inner = Inner {
            holder: Some(task),
            since: Some(Instant::now()),
            waiting: VecDeque::new(),
            members: 1,
        };
        Rc::new(Self {
            number,
            cpu: cpu.into(),
            inner: inner.into(),
            ..Self::default()
        })
    }

    /// The processor of its tasks. One at a time runs, so one is enough; and what
    /// programs learn of the processor by instructions is the same in a replay that
    /// keeps to it.
    pub(super) fn cpu(&self) -> u32 {
        self.cpu.get()
    }

    /// Whether one of its tasks runs, as far as is known.
    pub(super) fn is_busy(&self) -> bool {
        self.inner.borrow().holder.is_some()
    }

    /// What traces call it.
    pub(super) fn number(&self) -> Number {
        self.number
    }

    pub(super) fn join(&self) {
        self.inner.borrow_mut().members += 1;
    }

    /// A task is no member any more.
    pub(super) fn leave(&self, task: Task) {
        self.release(task);
        let mut inner = self.inner.borrow_mut();
        inner.members -= 1;
        inner.waiting.retain(|(other, _)| *other != task);
    }

    /// Whether somebody else might want the turn.
    pub(super) fn is_shared(&self) -> bool {
        self.inner.borrow().members > 1
    }

    pub(super) fn note_shared_memory(&self) {
        self.shares.set(true);
    }

    pub(super) fn shares_memory(&self) -> bool {
        self.shares.get()
    }

    /// Gives the turn to who has waited for it longest.
    pub(super) fn release(&self, task: Task) {
        let mut inner = self.inner.borrow_mut();
        if inner.holder != Some(task) {
            return;
        }
        inner.since = Some(Instant::now());
        inner.holder = inner.waiting.pop_front().map(|(next, waker)| {
            waker.wake();
            next
        });
    }

    /// Whether others have waited for as long as a task may run.
    pub(super) fn is_due(&self, task: Task) -> bool {
        self.is_due_after(task, SLICE)
    }

    /// Whether others wait, and it has been a task's turn for so long.
    pub(super) fn is_due_after(&self, task: Task, slice: Duration) -> bool {
        let inner = self.inner.borrow();
        inner.holder == Some(task)
            && !inner.waiting.is_empty()
            && inner.since.is_none_or(|since| since.elapsed() > slice)
    }

    /// Waits for the turn; without it when the task is being killed.
    pub(super) async fn take<S: Stopped>(self: &Rc<Self>, task: Task, tracee: &Tracee<S>) {
        poll_fn(|context| {
            let group = root(self);
            let mut inner = group.inner.borrow_mut();
            if inner.holder == Some(task) {
                return Poll::Ready(());
            }
            if tracee.has_news() {
                inner.waiting.retain(|(other, _)| *other != task);
                return Poll::Ready(());
            }
            if inner.holder.is_none() {
                inner.holder = Some(task);
                inner.since = Some(Instant::now());
                return Poll::Ready(());
            }
            if !inner.waiting.iter().any(|(other, _)| *other == task) {
                inner.waiting.push_back((task, context.waker().clone()));
            }
            Poll::Pending
        })
        .await;
    }

    /// Makes one group of two; `task`, which has the turn of this one, waits for that of
    /// the other from now on.
    pub(super) fn merge(self: &Rc<Self>, other: &Rc<Self>, task: Task) {
        let mut mine = self.inner.borrow_mut();
        let mut theirs = other.inner.borrow_mut();
        theirs.members += mine.members;
        theirs.waiting.append(&mut mine.waiting);
        if theirs.holder.is_none() && mine.holder == Some(task) {
            theirs.holder = Some(task);
        }
        mine.holder = None;
        other.shares.set(true);
        *self.merged.borrow_mut() = Some(other.clone());
    }
}
