//! Notifications of tasks: see [`objects`](crate::engine::objects).

use std::task::{Poll, Waker};

use rr_channel_log::Op;

use crate::engine::chaos;
use crate::engine::objects::{Mode, Object, Operation, is_attempt};
use crate::engine::replay::{self, PollTurn, Polled};
use crate::engine::signal::{LastSignal, Signal};
use crate::platform::spin_lock::SpinLock;

/// The next action of a task that waits for a notification.
#[derive(Debug, Clone, Copy)]
pub enum Notice {
    /// Look whether it came.
    Poll,
    /// Note that it came.
    Came,
}

/// An object whose tasks are notified.
#[derive(Debug)]
pub struct Notified {
    object: Object,
    /// While recording: the last notification.
    last: LastSignal,
    /// In a replay: tasks that polled in vain.
    waiting: SpinLock<Vec<Waker>>,
}

impl Default for Notified {
    fn default() -> Self {
        Notified::new()
    }
}

impl Notified {
    /// See [`Object::new`].
    pub fn new() -> Self {
        Notified {
            object: Object::new(),
            last: LastSignal::new(),
            waiting: SpinLock::new(Vec::new()),
        }
    }

    /// See [`Object::lazy`].
    pub const fn lazy() -> Self {
        Notified {
            object: Object::lazy(),
            last: LastSignal::new(),
            waiting: SpinLock::new(Vec::new()),
        }
    }

    /// See [`Object::unrecorded`].
    pub const fn unrecorded() -> Self {
        Notified {
            object: Object::unrecorded(),
            last: LastSignal::new(),
            waiting: SpinLock::new(Vec::new()),
        }
    }

    /// The calling thread is about to notify tasks.
    pub fn notifies(&self) {
        match self.object.mode() {
            Mode::Off => {}
            Mode::Record => {
                chaos::point();
                self.last.set(Signal::next());
            }
            Mode::Replay(engine) => {
                self.last.set(engine.signal());
                let woken = std::mem::take(&mut *self.waiting.take());
                woken.into_iter().for_each(Waker::wake);
            }
        }
    }

    /// In a replay, the task of `waker` polled in vain. It is woken by each notification: what it
    /// looks at before it polls, which is not recorded, may have changed.
    fn wait(&self, waker: &Waker) {
        let mut waiting = self.waiting.take();
        if !waiting.iter().any(|known| known.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }

    /// Polls whether the task was notified, by `poll`. There is no `waker` if it does not wait.
    #[track_caller]
    pub fn poll(
        &self,
        operation: &Operation,
        waker: Option<&Waker>,
        mut poll: impl FnMut(Notice) -> Poll<()>,
    ) -> Poll<()> {
        let mode = self.object.mode();
        let pended = match mode {
            Mode::Off => &operation.0,
            _ => operation.begin(&self.object.order),
        };
        match mode {
            Mode::Off => poll(Notice::Poll),
            Mode::Record => {
                chaos::point();
                let polled = poll(Notice::Poll);
                match polled {
                    Poll::Ready(()) => self.log(pended.op(), pended.number()),
                    Poll::Pending => {
                        if is_attempt(waker) {
                            self.object.look_at(Op::TryInTurn, 0);
                        }
                        pended.set();
                    }
                }
                polled
            }
            Mode::Replay(engine) => {
                let order = &self.object.order;
                let is_attempt = is_attempt(waker);
                if is_attempt && engine.recall_failure(order).is_some() {
                    return Poll::Pending;
                }
                let waker = waker.unwrap_or(Waker::noop());
                let polled = Polled {
                    order,
                    operation: pended.number(),
                    waker,
                    is_attempt,
                };
                match engine.poll_notified(polled) {
                    PollTurn::Live => {
                        let polled = poll(Notice::Poll);
                        if polled.is_ready() {
                            self.log(Op::PollAgain, pended.number());
                        }
                        polled
                    }
                    PollTurn::Later => {
                        self.wait(waker);
                        Poll::Pending
                    }
                    PollTurn::Now(_) => {
                        let _ = poll(Notice::Came);
                        replay::polled();
                        Poll::Ready(())
                    }
                }
            }
        }
    }

    #[track_caller]
    fn log(&self, op: Op, number: u32) {
        let outcome = self.last.get().outcome();
        self.object.order.named(op, number, outcome);
    }
}
