//! Locks, wake-ups and initializations: an event happens only after the events that it followed in
//! the recording.
//!
//! A lock is acquired in two steps. The thread waits here for its turn, then takes the real lock;
//! only then the acquisition [counts](Engine::taken), so that the next thread cannot overtake.
//! Between the two steps a thread waits at most for threads that hold the lock by right.
//!
//! A wake-up names a notification that had happened by then, and is over once that has happened
//! again. It does not matter which thread the notification itself wakes this time. All conditions
//! here, once true, stay true, or can be seen never to become true.
//!
//! A child made by fork(2) has none of the threads that its world knows, and perhaps a
//! copy of a world that was locked: it never looks there, and runs natively.

use std::time::Instant;

use rr_channel_log::identity::{ChannelId, Dti, ThreadId};
use rr_channel_log::{Event, Op, Outcome};

use super::follow::{self, Next as Planned};
use super::operation::{Native, Want};
use super::report::{Attempt, Cause};
use super::world::{Wait, Watch};
use super::{Engine, is_fast, waiter_counts};
use crate::engine::context;
use crate::engine::fork;
use crate::engine::order::{Order, Word};
use crate::engine::signal::Signal;
use crate::platform::backoff::retry_before_sleep;
use crate::platform::lock::lock;
use crate::recorder::names::Who;

/// The log's entry for the acquisition of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It is the calling thread's turn.
    Mine,
    /// It was not free.
    Busy,
    /// Nothing: the thread is live.
    Live,
}

/// The log's entry for an initialization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Once {
    /// The calling thread performs it.
    Mine,
    /// It has been done.
    Done,
    /// An earlier attempt has panicked.
    Poisoned,
    /// Nothing: the thread is live.
    Live,
}

/// A wait to be woken, as the log has it.
#[derive(Debug)]
pub struct Waking {
    id: ThreadId,
    op: Op,
    /// `None` at the end of an unfinished log.
    event: Option<Event>,
}

/// How such a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// By a notification, or for no reason.
    Notified,
    /// By its deadline.
    TimedOut,
}

/// Whether the awaited event has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    Now,
    Later,
    Never,
}

/// A watched object, an answer, and whether the answer is given by now.
type Lasting<'a> = (Watch, u64, &'a dyn Fn() -> bool);

/// The next entry of a thread's log.
pub(super) enum Next {
    Event(Event),
    /// It ends here, and it is unknown whether the thread did.
    End,
    /// The thread is live.
    Live,
}

impl Engine {
    /// The calling thread's next event, if it is one of `op`; else the thread
    /// desynchronises.
    pub(super) fn next_event(&self, id: ThreadId, op: Op, name: Option<ChannelId>) -> Next {
        let actual = Attempt { op, channel: name };
        let cause = match follow::next() {
            Planned::Live => return Next::Live,
            Planned::End => return Next::End,
            Planned::Event(event)
                if event.op == op
                    && (event.channel.is_none() || name.is_none() || event.channel == name) =>
            {
                return Next::Event(event);
            }
            Planned::Event(expected) => Cause::Mismatch { expected, actual },
            Planned::Beyond => Cause::Beyond { actual },
        };
        self.desync(id, cause);
        Next::Live
    }

    /// Waits until `reach` is [`Reach::Now`]; the caller moves past the event. `false` if the
    /// thread goes live instead.
    pub(super) fn await_event(
        &self,
        id: ThreadId,
        watch: (Watch, u64),
        event: Option<Event>,
        reach: impl Fn() -> Reach,
    ) -> bool {
        let there = || Some(reach()).filter(|reach| *reach != Reach::Later);
        let reached = event.and_then(|_| there().or_else(|| retry_before_sleep(there)));
        let reached = reached.or_else(|| {
            let mut world = self.lock();
            loop {
                let mut wait = Wait::new(Want::Nothing);
                wait.watch = Some(watch);
                wait.expected = event;
                wait.end_of_log = event.is_none();
                let found;
                (world, found, _) = self.wait(world, id, wait, None, |_| event.and(there()));
                if found.is_some() {
                    return found;
                }
                if world.is_live(id) {
                    return None;
                }
            }
        });
        match (reached, event) {
            (Some(Reach::Now), _) => true,
            (Some(Reach::Never), Some(expected)) => {
                self.desync(id, Cause::Missed { expected });
                false
            }
            _ => false,
        }
    }

    /// Waits for the calling thread's turn at a lock.
    #[inline]
    pub fn turn(&self, op: Op, order: &Order) -> Turn {
        // Mostly a thread acquires the lock that it had last. If this is expected there is a log
        // to follow, so this is no child made by fork.
        if follow::shows(&again(op)) && order.owner() == Some(context::thread_by_now()) {
            follow::claim();
            return Turn::Mine;
        }
        self.turn_of_another(op, order)
    }

    #[inline(never)]
    fn turn_of_another(&self, op: Op, order: &Order) -> Turn {
        if fork::is_fork() {
            return Turn::Live;
        }
        let id = context::thread_or_last();
        let event = match self.next_event(id, op, order.name()) {
            Next::Live => return Turn::Live,
            Next::End => None,
            Next::Event(event) if event.outcome == Outcome::Busy => {
                follow::advance();
                return Turn::Busy;
            }
            Next::Event(event) => Some(event),
        };
        if self.await_turn(id, event, order) {
            follow::claim();
            Turn::Mine
        } else {
            Turn::Live
        }
    }

    pub(super) fn await_turn(&self, id: ThreadId, event: Option<Event>, order: &Order) -> bool {
        if let Some(name) = event.and_then(|event| event.channel) {
            order.learn(name);
        }
        let ticket = match event.map(|event| event.outcome) {
            Some(Outcome::Turn { ticket }) => Some(ticket),
            Some(Outcome::First) => Some(0),
            _ => None,
        };
        let watch = (Watch::Object(order.address()), ticket.unwrap_or(0));
        self.await_event(id, watch, event, || match ticket {
            Some(ticket) if order.ticket() < ticket => Reach::Later,
            Some(ticket) if order.ticket() == ticket => Reach::Now,
            None if order.owner() == Some(id) => Reach::Now,
            _ => Reach::Never,
        })
    }

    /// The calling thread has acquired a lock by `op`. Acquisitions of a thread that has ended do
    /// not count: they were not recorded.
    #[inline]
    pub fn taken(&self, op: Op, order: &Order) {
        if fork::is_fork() || follow::has_ended() {
            return;
        }
        let before = order.count(context::thread_by_now());
        if follow::is_recorded() {
            record(op, order, before);
        }
        if waiter_counts::is_watched(order.address()) {
            self.tell_of(order);
        }
    }

    #[cold]
    fn tell_of(&self, order: &Order) {
        let mut world = self.lock();
        world.step();
        world.touch(Watch::Object(order.address()), order.ticket());
    }

    /// The calling thread has come to a place where threads wait for each other, as one
    /// of so many.
    pub fn arrived(&self, order: &Order) -> u64 {
        let before = order.count(context::thread_or_last());
        if follow::is_recorded() {
            record(Op::Arrive, order, before);
        }
        self.tell_of(order);
        before.ticket() + 1
    }

    /// Something else about the object changed for which threads may wait.
    pub fn touched(&self, order: &Order) {
        if fork::is_fork() {
            return;
        }
        let mut world = self.lock();
        world.step();
        world.touch(Watch::Object(order.address()), u64::MAX);
    }

    /// Waits until `target` acquisitions of `order` have happened: for the program's own sake, and
    /// independent of logs.
    pub fn await_count(&self, order: &Order, target: u64) {
        let id = context::thread_or_last();
        let mut world = self.lock();
        while order.ticket() < target {
            let mut wait = Wait::new(Want::Nothing);
            wait.watch = Some((Watch::Object(order.address()), target));
            wait.stays = true;
            (world, _, _) = self.wait(world, id, wait, None, |_| {
                (order.ticket() >= target).then_some(())
            });
        }
    }

    /// Waits until an initialization may do as the log says.
    pub fn once(
        &self,
        op: Op,
        order: &Order,
        is_done: impl Fn() -> bool,
        has_failed: impl Fn() -> bool,
    ) -> Once {
        if fork::is_fork() {
            return Once::Live;
        }
        let id = context::thread_or_last();
        let event = match self.next_event(id, op, order.name()) {
            Next::Live => return Once::Live,
            Next::End => None,
            Next::Event(event) => Some(event),
        };
        let watch = (Watch::Object(order.address()), 0);
        let when = |there| if there { Reach::Now } else { Reach::Later };
        let (followed, once) = match event.map(|event| event.outcome) {
            Some(Outcome::Done) => {
                let done = self.await_event(id, watch, event, || when(is_done()));
                (done, Once::Done)
            }
            Some(Outcome::Poisoned) => {
                let failed = self.await_event(id, watch, event, || when(has_failed()));
                (failed, Once::Poisoned)
            }
            _ => (self.await_turn(id, event, order), Once::Mine),
        };
        match (followed, once) {
            (false, _) => return Once::Live,
            (true, Once::Mine) => follow::claim(),
            (true, _) => follow::advance(),
        }
        once
    }

    /// The calling thread, whose turn it was, found that another one had performed the
    /// initialization. Whether that has to be recorded.
    pub fn came_too_late() -> bool {
        follow::claimed().is_some()
    }

    /// The recorded answer to an observation; `None` if there is none. If the answer is `true` and
    /// stays so once it is given, this waits for it.
    pub fn recall(
        &self,
        op: Op,
        order: &Order,
        lasting: Option<&dyn Fn() -> bool>,
    ) -> Option<bool> {
        let watch = Watch::Object(order.address());
        let lasting = lasting.map(|is_true| (watch, 1, is_true));
        Some(self.recall_lasting(op, lasting)? == 1)
    }

    /// As [`recall`](Engine::recall), of an initialization that is `is_done` for good where
    /// the answer is `done`.
    pub fn recall_once(
        &self,
        op: Op,
        order: &Order,
        done: u64,
        is_done: &dyn Fn() -> bool,
    ) -> Option<u64> {
        let watch = Watch::Object(order.address());
        self.recall_lasting(op, Some((watch, done, is_done)))
    }

    /// The recorded answer to whether a thread has finished; one that was waits until
    /// it is, as `is_finished` says. `None` if there is none.
    pub fn recall_finished(&self, thread: &Dti, is_finished: &dyn Fn() -> bool) -> Option<bool> {
        if fork::is_fork() {
            return None;
        }
        let (id, _) = lock(&self.names).intern(Who::Known(thread.clone()));
        // It is finished before the last of its destructors runs, which tells of its end.
        let lasting = (Watch::End(id), 1, is_finished);
        Some(self.recall_lasting(Op::IsFinished, Some(lasting))? == 1)
    }

    /// The recorded answer to an observation that is a number; `None` if there is none.
    pub fn recall_number(&self, op: Op) -> Option<u64> {
        self.recall_lasting(op, None)
    }

    /// The recorded answer to an observation; `None` if there is none. `lasting` is an answer that
    /// stays the same once it is given: the watched object, the answer, and whether it is given by
    /// now. If it is the recorded answer, this waits for it.
    fn recall_lasting(&self, op: Op, lasting: Option<Lasting<'_>>) -> Option<u64> {
        if fork::is_fork() {
            return None;
        }
        let id = context::thread_or_last();
        // At the end of an unfinished log, observing is harmless: no waiting.
        let Next::Event(event) = self.next_event(id, op, None) else {
            return None;
        };
        let Outcome::Value(value) = event.outcome else {
            // The log of a program that did something else; its entry is used as it is.
            follow::advance();
            return Some(0);
        };
        let Some((watch, _, is_given)) = lasting.filter(|(_, answer, _)| *answer == value) else {
            follow::advance();
            return Some(value);
        };
        let followed = self.await_event(id, (watch, 1), Some(event), || {
            if is_given() { Reach::Now } else { Reach::Later }
        });
        followed.then(|| {
            follow::advance();
            value
        })
    }

    /// The calling thread notifies others, or unparks one.
    pub fn signal(&self) -> Signal {
        if fork::is_fork() {
            return Signal::NONE;
        }
        let (id, number) = context::next_signal();
        lock(&self.signals).insert(id, number);
        let mut world = self.lock();
        world.step();
        world.touch(Watch::Signals(id), number);
        Signal::new(id, number)
    }

    /// Returns the log's entry for the wait that is about to begin; `None` if the thread is live,
    /// and waits natively.
    pub fn waking(&self, op: Op) -> Option<Waking> {
        if fork::is_fork() {
            return None;
        }
        let id = context::thread_or_last();
        let event = match self.next_event(id, op, None) {
            Next::Live => return None,
            Next::End => None,
            Next::Event(event) => Some(event),
        };
        Some(Waking { id, op, event })
    }

    /// Waits until the wait is over. If its thread goes live meanwhile, it is over for
    /// no reason, as waits may be.
    pub fn wake(&self, Waking { id, op, event }: Waking, native: Native) -> Woken {
        let outcome = event.map(|event| event.outcome);
        if let (Some(Outcome::Timeout), Native::Until(deadline)) = (outcome, native) {
            self.sleep(id, event, deadline);
            return Woken::TimedOut;
        }
        let (sender, number) = match outcome {
            Some(Outcome::Woken { sender, number }) => (sender, number),
            _ => (id, 0),
        };
        let watch = (Watch::Signals(sender), number);
        let followed = self.await_event(id, watch, event, || {
            let last = lock(&self.signals).get(&sender).copied();
            if last.unwrap_or(0) >= number {
                Reach::Now
            } else {
                Reach::Later
            }
        });
        if followed {
            follow::advance();
        } else {
            context::log(Event {
                op,
                channel: None,
                outcome: Signal::NONE.outcome(),
            });
        }
        Woken::Notified
    }

    /// Waits for a recorded timeout, until it is due, and moves past it.
    pub(super) fn sleep(&self, id: ThreadId, event: Option<Event>, deadline: Instant) {
        if is_fast() {
            return follow::advance();
        }
        let mut wait = Wait::new(Want::Nothing);
        wait.expected = event;
        drop(self.wait(self.lock(), id, wait, Some(deadline), |_| None::<()>));
        if !follow::is_live() {
            follow::advance();
        }
    }
}

/// Records an acquisition by the calling thread after `before`: as in the log that it
/// follows, unless a thread that is live came in between.
#[inline(never)]
fn record(op: Op, order: &Order, before: Word) {
    match follow::claimed() {
        Some(event) if before.agrees(event.outcome, context::thread_by_now()) => {
            context::log(event);
        }
        _ => order.log(op, before),
    }
}

/// The acquisition of a lock that the thread had last.
const fn again(op: Op) -> Event {
    Event {
        op,
        channel: None,
        outcome: Outcome::Again,
    }
}
