//! Objects of an executor: locks, channels, timers and tasks whose operations are asynchronous.
//!
//! Used by the crate that `cargo reprise` puts in place of `tokio`, and by nothing else; not
//! a stable interface.
//!
//! **Polls.** How often an operation is polled before it is ready depends on what wakes its task,
//! and is not recorded. The log has only the poll that found it ready, with the object's name, and
//! whether the task had polled it before since its last event. In a replay an operation is ready
//! only when that is the next event of its task. Until then it is *parked*: its real poll is not
//! made, and the task is woken when its log comes to it. So of several operations that a task waits
//! for, the recorded one is ready first.
//!
//! A poll that was ready at once, without another one before it, makes its thread wait in a replay:
//! the task did nothing else meanwhile. One that was ready later leaves the thread to others, as it
//! did in the recorded run, when the task may have done something that is not recorded.
//!
//! **Turns.** Operations that compete (for a permit, or for a place in a queue) have tickets, as
//! [locks](crate::engine::order) do. What only makes others ready (giving a permit back, closing a
//! channel) has none: it is never waited for but by those that it makes ready.

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};
use std::task::{Context, Poll, Waker};

use rr_channel_log::identity::ThreadId;
use rr_channel_log::{Event, Op, Outcome};

use crate::engine::chaos;
use crate::engine::context;
use crate::engine::executor;
use crate::engine::fork;
use crate::engine::object_names::{self, ObjectNames};
use crate::engine::order::{Order, Word};
use crate::engine::pool;
use crate::engine::replay::{self, Engine, PollTurn, Polled, Turn};
use crate::engine::session::{Session, session};
use crate::platform::spin_lock::SpinLock;

pub use crate::engine::choices::choose;
pub use crate::engine::notifications::{Notice, Notified};
pub use crate::engine::timers::Timer;

/// The things that a poll found ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// Something for which several compete.
    InTurn,
    /// Something that only this operation waits for.
    Done,
    /// So many things at once.
    Several(u64),
    /// Nothing will ever come.
    Closed,
}

impl Ready {
    fn agrees(self, outcome: Outcome) -> bool {
        match (self, outcome) {
            (Ready::InTurn, Outcome::Turn { .. })
            | (Ready::Done, Outcome::Done)
            | (Ready::Closed, Outcome::Disconnected) => true,
            (Ready::Several(count), Outcome::Value(recorded)) => count == recorded,
            _ => false,
        }
    }
}

/// Where its task last polled an operation in vain, and which of several on its object it is.
#[derive(Debug, Default)]
pub struct Pended {
    place: AtomicU64,
    /// The object's address; 0 if it is the only operation.
    object: AtomicUsize,
    /// The thread that began it, and its number.
    begun: AtomicU64,
}

impl Pended {
    /// It was not polled in vain yet.
    pub const fn new() -> Self {
        Pended {
            place: AtomicU64::new(0),
            object: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
        }
    }

    /// The position of the calling thread, or task, in the log that it writes.
    fn here() -> u64 {
        let id = u64::from(context::thread_or_last().0);
        let logged = context::logged().unwrap_or_default();
        (id << 40 | (logged & ((1 << 40) - 1))) + 1
    }

    pub(super) fn set(&self) {
        self.place.store(Pended::here(), Relaxed);
    }

    /// The operation, which is ready now.
    pub(super) fn op(&self) -> Op {
        let last = self.place.load(Relaxed);
        if last != 0 && last == Pended::here() {
            Op::PollAgain
        } else {
            Op::Poll
        }
    }

    /// Which of several operations on the object it is.
    pub(super) fn number(&self) -> u32 {
        self.begun.load(Relaxed) as u32
    }
}

/// One of several operations that a task may poll on an object at the same time.
#[derive(Debug, Default)]
pub struct Operation(pub(super) Pended);

impl Operation {
    /// It has not begun yet.
    pub const fn new() -> Self {
        Operation(Pended::new())
    }

    /// It is polled on this object.
    pub(super) fn begin(&self, order: &Order) -> &Pended {
        let pended = &self.0;
        if pended.object.load(Relaxed) == 0
            && let Some((thread, number)) =
                context::with_object_names(|names| names.begin_operation(order.address()))
        {
            pended.object.store(order.address(), Relaxed);
            let begun = u64::from(thread.0) << 32 | u64::from(number);
            pended.begun.store(begun, Relaxed);
        }
        pended
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        let object = *self.0.object.get_mut();
        if object != 0 {
            let begun = *self.0.begun.get_mut();
            let thread = ThreadId((begun >> 32) as u32);
            context::with_object_names_of(thread, |names| {
                names.end_operation(object, begun as u32)
            });
        }
    }
}

thread_local! {
    /// The object on which the calling thread performs an operation that is recorded, by its
    /// address, and the turn that it has had there.
    static OPERATION: Cell<(usize, Option<Word>)> = const { Cell::new((0, None)) };
}

/// An object that tasks wait for.
pub struct Object {
    pub(super) order: Order,
    is_recorded: bool,
    /// Held while something gets its place among others.
    places: SpinLock<()>,
    pub(super) pended: Pended,
    /// Whether it was closed, and whether nobody receives from it any more.
    closed: AtomicU8,
}

/// The states of an object that can be closed.
const OPEN: u8 = 0;
const CLOSED: u8 = 1;
const GONE: u8 = 2;

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Object")
    }
}

impl Default for Object {
    fn default() -> Self {
        Object::new()
    }
}

impl Object {
    const fn with(is_recorded: bool) -> Self {
        Object {
            order: Order::new(),
            is_recorded,
            places: SpinLock::new(()),
            pended: Pended::new(),
            closed: AtomicU8::new(OPEN),
        }
    }

    /// An object that the calling thread or task makes.
    pub fn new() -> Self {
        if matches!(session(), Session::Off) || fork::is_fork() {
            return Object::lazy();
        }
        if executor::is_nameless() || executor::is_serving() {
            return Object::unrecorded();
        }
        let object = Object::lazy();
        if let Some(name) = context::with_object_names(ObjectNames::next_object) {
            object.order.learn(name);
        }
        object
    }

    /// An object in a `static`. It gets its name from its first user.
    pub const fn lazy() -> Self {
        Object::with(true)
    }

    /// An object of the executor's own, whose operations are part of others.
    pub const fn unrecorded() -> Self {
        Object::with(false)
    }

    /// Where an operation is polled that only one task performs at a time.
    pub const fn pended(&self) -> &Pended {
        &self.pended
    }

    /// The mode in which the calling thread uses it now.
    pub(super) fn mode(&self) -> Mode {
        if !self.is_recorded {
            return Mode::Off;
        }
        let mode = match session() {
            Session::Off => return Mode::Off,
            Session::Record(_) => Mode::Record,
            Session::Replay(engine) => {
                // A thread that does not wait may have been released from its log, too, if it has
                // operations that are not ready.
                replay::sync_log();
                Mode::Replay(engine)
            }
        };
        if fork::is_fork() || executor::is_serving() {
            return Mode::Off;
        }
        if self.order.name().is_none()
            && let Some(name) = object_names::name_of_static(self.order.address())
        {
            self.order.learn(name);
        }
        mode
    }

    /// Polls one of several operations: see [`poll`](Object::poll).
    #[track_caller]
    pub fn poll_one<T>(
        &self,
        operation: &Operation,
        cx: &mut Context<'_>,
        poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
        ready: impl Fn(&T) -> Ready,
        lost: impl FnOnce() -> Option<T>,
    ) -> Poll<T> {
        let pended = self.begin(operation);
        let which = Which::Operation(pended.number());
        self.poll_which(which, pended, cx, poll, ready, lost)
    }

    /// As [`poll_one`](Object::poll_one), of an operation that finds the object closed only after
    /// [`close`](Object::close), and may succeed before that.
    #[track_caller]
    pub fn poll_entry<T>(
        &self,
        operation: &Operation,
        cx: &mut Context<'_>,
        poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
        ready: impl Fn(&T) -> Ready,
        lost: impl FnOnce() -> Option<T>,
    ) -> Poll<T> {
        let pended = self.begin(operation);
        let which = Which::Entry(pended.number());
        self.poll_which(which, pended, cx, poll, ready, lost)
    }

    fn begin<'a>(&self, operation: &'a Operation) -> &'a Pended {
        match self.mode() {
            Mode::Off => &operation.0,
            _ => operation.begin(&self.order),
        }
    }

    /// Polls an operation by `poll`. `ready` says what a result is. In a replay, `lost` makes the
    /// recorded result where the object was closed too early, if there is such a thing.
    #[track_caller]
    pub fn poll<T>(
        &self,
        pended: &Pended,
        cx: &mut Context<'_>,
        poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
        ready: impl Fn(&T) -> Ready,
        lost: impl FnOnce() -> Option<T>,
    ) -> Poll<T> {
        let which = Which::Operation(pended.number());
        self.poll_which(which, pended, cx, poll, ready, lost)
    }

    #[track_caller]
    pub(super) fn poll_which<T>(
        &self,
        which: Which,
        pended: &Pended,
        cx: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
        ready: impl Fn(&T) -> Ready,
        lost: impl FnOnce() -> Option<T>,
    ) -> Poll<T> {
        match self.mode() {
            Mode::Off => poll(cx),
            Mode::Record => {
                chaos::point();
                let (polled, drawn) = self.drawing(|| poll(cx));
                match (&polled, drawn) {
                    (Poll::Ready(_), Some(drawn)) => {
                        self.order.drawn(pended.op(), pended.number(), drawn);
                    }
                    (Poll::Ready(value), None) => {
                        self.log(pended.op(), pended.number(), ready(value));
                    }
                    (Poll::Pending, _) => {
                        if is_attempt(Some(cx.waker())) {
                            self.look_at(Op::TryInTurn, 0);
                        }
                        pended.set();
                    }
                }
                polled
            }
            Mode::Replay(engine) => {
                if is_attempt(Some(cx.waker())) && engine.recall_failure(&self.order).is_some() {
                    return Poll::Pending;
                }
                self.replay(engine, which, cx, &mut poll, &ready, lost)
            }
        }
    }

    #[track_caller]
    fn replay<T>(
        &self,
        engine: &Engine,
        which: Which,
        cx: &mut Context<'_>,
        poll: &mut dyn FnMut(&mut Context<'_>) -> Poll<T>,
        ready: &dyn Fn(&T) -> Ready,
        lost: impl FnOnce() -> Option<T>,
    ) -> Poll<T> {
        let number = match which {
            Which::Operation(number) | Which::Entry(number) => number,
            Which::Timer => 0,
        };
        let is_attempt = is_attempt(Some(cx.waker()));
        let polled = Polled {
            order: &self.order,
            operation: number,
            waker: cx.waker(),
            is_attempt,
        };
        let mut turn = engine.poll_turn(polled);
        if let PollTurn::Now(event) = turn
            && event.outcome == Outcome::Disconnected
            && let Which::Entry(_) = which
        {
            turn = engine.poll_closed(polled, event, || self.closed.load(SeqCst) != OPEN);
        }
        let event = match turn {
            PollTurn::Live => return self.poll_live(engine, number, cx, poll, ready),
            PollTurn::Later => {
                if which == Which::Timer {
                    let _ = poll(cx);
                }
                return Poll::Pending;
            }
            PollTurn::Now(event) => event,
        };
        let mut polled = poll(cx);
        if polled.is_pending() && (event.op == Op::Poll || is_attempt) {
            polled = match engine.wait_until_ready(event, poll) {
                Some(value) => Poll::Ready(value),
                None => return self.poll_live(engine, number, cx, poll, ready),
            };
        }
        let Poll::Ready(value) = polled else {
            // Its turn, but not ready: the task is woken when it is.
            return Poll::Pending;
        };
        let found = ready(&value);
        let (value, followed) = match found {
            _ if found.agrees(event.outcome) => (value, true),
            Ready::Closed if event.outcome != Outcome::Disconnected => match lost() {
                Some(lost) => (lost, true),
                None => (value, false),
            },
            _ => (value, false),
        };
        if !followed {
            engine.polled_otherwise(event);
            self.log_live(engine, event.op, number, found);
        } else if let Outcome::Turn { .. } = event.outcome {
            engine.polled_in_turn(event.op, &self.order);
        } else {
            replay::polled();
        }
        Poll::Ready(value)
    }

    /// Polls an operation of a thread that is live.
    #[track_caller]
    fn poll_live<T>(
        &self,
        engine: &Engine,
        number: u32,
        cx: &mut Context<'_>,
        poll: &mut dyn FnMut(&mut Context<'_>) -> Poll<T>,
        ready: &dyn Fn(&T) -> Ready,
    ) -> Poll<T> {
        let polled = poll(cx);
        if let Poll::Ready(value) = &polled {
            self.log_live(engine, Op::PollAgain, number, ready(value));
        }
        polled
    }

    #[track_caller]
    fn log_live(&self, engine: &Engine, op: Op, number: u32, ready: Ready) {
        match ready {
            Ready::InTurn => engine.taken(op, &self.order),
            other => self.log(op, number, other),
        }
    }

    #[track_caller]
    fn log(&self, op: Op, number: u32, ready: Ready) {
        let outcome = match ready {
            Ready::InTurn => return self.order.numbered(op, number),
            Ready::Done => Outcome::Done,
            Ready::Several(count) => Outcome::Value(count),
            Ready::Closed => Outcome::Disconnected,
        };
        self.order.named(op, number, outcome);
    }

    /// Performs `operation`, which may [draw](Object::draw).
    fn drawing<T>(&self, operation: impl FnOnce() -> T) -> (T, Option<Word>) {
        let before = OPERATION.try_with(|it| it.replace((self.order.address(), None)));
        let result = operation();
        let drawn = OPERATION.try_with(|it| it.replace(before.unwrap_or_default()));
        (result, drawn.ok().and_then(|(_, drawn)| drawn))
    }

    /// An operation, which holds what makes others wait, comes to its place among these. What only
    /// looks like such an operation, and is part of none, has no place.
    pub fn draw(&self) {
        if matches!(session(), Session::Record(_)) {
            let _ = OPERATION.try_with(|it| {
                if let (at, None) = it.get()
                    && at == self.order.address()
                {
                    let before = self.order.count(context::thread_or_last());
                    it.set((at, Some(before)));
                }
            });
        }
    }

    /// Performs `step`, which has its place among those of other threads. It calls no code of the
    /// program, or [draws](Object::draw).
    #[track_caller]
    pub fn in_turn<T>(&self, step: impl FnOnce() -> T) -> T {
        match self.mode() {
            Mode::Off => step(),
            Mode::Record => {
                chaos::point();
                let (result, drawn) = self.drawing(step);
                self.took(Op::InTurn, drawn);
                result
            }
            Mode::Replay(engine) => {
                engine.turn(Op::InTurn, &self.order);
                let result = step();
                engine.taken(Op::InTurn, &self.order);
                result
            }
        }
    }

    /// Performs `step`, which calls no code of the program and has its place among others.
    #[track_caller]
    pub fn in_place<T>(&self, step: impl FnOnce() -> T) -> T {
        self.in_turn(|| self.placed(step, |_| true))
    }

    /// Closes it by `close`, in its turn among the operations that succeed before.
    #[track_caller]
    pub fn close(&self, close: impl FnOnce()) {
        self.in_turn(close);
        self.has_closed(CLOSED);
    }

    /// As [`close`](Object::close), by what calls no code of the program, in a place among others.
    #[track_caller]
    pub fn close_in_place(&self, close: impl FnOnce()) {
        self.in_place(close);
        self.has_closed(CLOSED);
    }

    /// Closes it by `close`, because nobody receives from it any more. That has no turn.
    pub fn close_at_end(&self, close: impl FnOnce()) {
        close();
        // Values are put into it before or after.
        let _place = self.places.take();
        self.has_closed(GONE);
    }

    fn has_closed(&self, how: u8) {
        if let Mode::Replay(engine) = self.mode() {
            self.closed.fetch_max(how, SeqCst);
            engine.touched(&self.order);
        }
    }

    /// Puts a value into it by `put`, which calls no code of the program, in a place among others.
    /// In a replay, a value that comes when nobody receives any more is dropped, as it was when the
    /// receiver went.
    #[track_caller]
    pub fn put<T>(&self, value: T, put: impl FnOnce(T)) {
        self.in_place(|| {
            if !is_replayed() {
                return put(value);
            }
            let place = self.places.take();
            if self.closed.load(SeqCst) == GONE {
                drop(place);
                drop(value);
            } else {
                put(value);
            }
        });
    }

    /// If an operation on the object is recorded now, gives `step`, which is part of it, its place
    /// among others if its result `counts`.
    fn placed<T>(&self, step: impl FnOnce() -> T, counts: impl FnOnce(&T) -> bool) -> T {
        let drawing = OPERATION.try_with(|it| it.get().0).unwrap_or_default();
        if drawing != self.order.address() {
            return step();
        }
        let _place = self.places.take();
        let result = step();
        if counts(&result) {
            self.draw();
        }
        result
    }

    #[track_caller]
    fn took(&self, op: Op, drawn: Option<Word>) {
        match drawn {
            Some(drawn) => self.order.log(op, drawn),
            None => self.order.took(op),
        }
    }

    /// As [`offer`](Object::offer), in a place among others; `offer` calls no code of the program.
    ///
    /// # Errors
    /// If nobody wants it; the error is the value.
    #[track_caller]
    pub fn offer_in_place<T, R>(
        &self,
        value: T,
        offer: impl FnOnce(T) -> Result<R, T>,
        lost: impl FnOnce() -> R,
    ) -> Result<R, T> {
        let offer = |value| self.placed(|| offer(value), Result::is_ok);
        self.offer(value, offer, lost)
    }

    /// How many things the operation on it, which the calling thread is to perform now, got at once
    /// in the recorded run.
    pub fn several(&self) -> Option<u64> {
        match self.mode() {
            Mode::Replay(engine) => engine.several(&self.order),
            _ => None,
        }
    }

    /// Offers a value by `offer`, which returns it where nobody wants it. In a replay, `lost` is the
    /// result where those who want it have gone too early.
    ///
    /// # Errors
    /// If nobody wants it; the error is the value.
    #[track_caller]
    pub fn offer<T, R>(
        &self,
        value: T,
        offer: impl FnOnce(T) -> Result<R, T>,
        lost: impl FnOnce() -> R,
    ) -> Result<R, T> {
        match self.mode() {
            Mode::Off => offer(value),
            Mode::Record => {
                chaos::point();
                let (result, drawn) = self.drawing(|| offer(value));
                match &result {
                    Ok(_) => self.took(Op::TryInTurn, drawn),
                    Err(_) => self.look_at(Op::TryInTurn, 0),
                }
                result
            }
            Mode::Replay(engine) => {
                if engine.recall_failure(&self.order).is_some() {
                    return Err(value);
                }
                let turn = engine.turn(Op::TryInTurn, &self.order);
                let result = match (offer(value), turn) {
                    (Err(_), Turn::Mine) => Ok(lost()),
                    (result, _) => result,
                };
                match &result {
                    Ok(_) => engine.taken(Op::TryInTurn, &self.order),
                    Err(_) => self.look_at(Op::TryInTurn, 0),
                }
                result
            }
        }
    }

    /// Acquires a lock by `lock`, which may wait.
    #[track_caller]
    pub fn acquire<T>(&self, lock: impl FnOnce() -> T) -> T {
        self.in_turn(lock)
    }

    /// Acquires a lock that others may share, by `lock`.
    #[track_caller]
    pub fn share<T>(&self, lock: impl FnOnce() -> T) -> T {
        match self.mode() {
            Mode::Record => {
                chaos::point();
                let guard = lock();
                self.order.shared(Op::InTurn);
                guard
            }
            _ => self.acquire(lock),
        }
    }

    /// Attempts something by `attempt`, which does not wait. `code` tells a failure apart from
    /// others, and `failure` makes it. In a replay, `poll` is called instead where it succeeded: it
    /// is ready when a success is possible, and brings it about. There is none where this is
    /// possible in its turn.
    ///
    /// # Errors
    /// If the attempt fails, or failed in the recorded run.
    #[track_caller]
    pub fn attempt<T, E>(
        &self,
        attempt: impl FnOnce() -> Result<T, E>,
        code: impl Fn(&E) -> u64,
        failure: impl FnOnce(u64) -> E,
        poll: Option<impl FnMut(&mut Context<'_>) -> Poll<Result<T, E>>>,
    ) -> Result<T, E> {
        let engine = match self.mode() {
            Mode::Off => return attempt(),
            Mode::Record => {
                chaos::point();
                let (result, drawn) = self.drawing(attempt);
                match &result {
                    Ok(_) => self.took(Op::TryInTurn, drawn),
                    Err(error) => self.look_at(Op::TryInTurn, code(error)),
                }
                return result;
            }
            Mode::Replay(engine) => engine,
        };
        if let Some(code) = engine.recall_failure(&self.order) {
            return Err(failure(code));
        }
        let expected = replay::next_event();
        let turn = engine.turn(Op::TryInTurn, &self.order);
        let waited = poll
            .filter(|_| turn == Turn::Mine)
            .and_then(|mut poll| engine.wait_in_turn(&mut poll));
        let result = waited.unwrap_or_else(attempt);
        match &result {
            Ok(_) => engine.taken(Op::TryInTurn, &self.order),
            Err(error) => {
                if let (Turn::Mine, Some(expected)) = (turn, expected) {
                    engine.polled_otherwise(expected);
                }
                self.look_at(Op::TryInTurn, code(error));
            }
        }
        result
    }

    /// Attempts, on `target`, what other objects record where it succeeds: their operations, polled
    /// until one is ready. Only a failure is recorded. In a replay, `poll` is called where the
    /// attempt succeeded, until it is ready.
    #[track_caller]
    pub fn attempt_polled<S, T>(
        &self,
        target: &mut S,
        attempt: impl FnOnce(&mut S) -> Option<T>,
        mut poll: impl FnMut(&mut S, &mut Context<'_>) -> Poll<Option<T>>,
    ) -> Option<T> {
        let result = match self.mode() {
            Mode::Off => return attempt(target),
            Mode::Record => {
                chaos::point();
                attempt(target)
            }
            Mode::Replay(engine) => {
                if engine.recall_failure(&self.order).is_some() {
                    return None;
                }
                let is_polled = replay::next_event().is_some_and(|next| next.op.is_poll());
                let polled = is_polled.then(|| engine.wait_in_turn(&mut |cx| poll(target, cx)));
                polled.flatten().unwrap_or_else(|| attempt(target))
            }
        };
        if result.is_none() {
            self.look_at(Op::TryInTurn, 0);
        }
        result
    }

    /// Observes a number.
    #[track_caller]
    pub fn look(&self, look: impl Fn() -> u64) -> u64 {
        match self.mode() {
            Mode::Off => look(),
            Mode::Record => {
                chaos::point();
                let value = look();
                self.look_at(Op::Look, value);
                value
            }
            Mode::Replay(engine) => engine.recall_look(&self.order).unwrap_or_else(|| {
                let value = look();
                self.look_at(Op::Look, value);
                value
            }),
        }
    }

    #[track_caller]
    pub(super) fn look_at(&self, op: Op, value: u64) {
        self.order.named(op, 0, Outcome::Value(value));
    }
}

/// An operation that is polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// The one of this number, of several on the object.
    Operation(u32),
    /// As `Operation`; see [`Object::poll_entry`].
    Entry(u32),
    /// That of a timer.
    Timer,
}

/// The ways in which a thread uses an object.
pub(super) enum Mode {
    Off,
    Record,
    Replay(&'static Engine),
}

/// Whether a poll with this waker is an attempt, whose failure the program sees: nothing is woken
/// by such a waker. Those of `std` and `futures` that do nothing have no data.
pub(super) fn is_attempt(waker: Option<&Waker>) -> bool {
    waker.is_none_or(|waker| waker.data().is_null())
}

/// The task that the calling thread performs is cancelled, after its first poll or before.
pub(super) fn cancelled(has_begun: bool) {
    let cancelled = Event {
        op: Op::Cancel,
        channel: None,
        outcome: Outcome::Value(has_begun.into()),
    };
    match session() {
        Session::Replay(_) if replay::next_event().is_some_and(|next| next.op == Op::Cancel) => {
            replay::polled();
        }
        _ => context::log(cancelled),
    }
}

/// Stands for objects that have no names, where the program observes them.
static ANYTHING: Object = Object::lazy();

/// See [`Object::look`], of an object that has no name.
#[track_caller]
pub fn look(look: impl Fn() -> u64) -> u64 {
    ANYTHING.look(look)
}

/// Polls whether an attempt can succeed.
pub type Later<T, E> = fn(&mut Context<'_>) -> Poll<Result<T, E>>;

/// An attempt that needs no wait in a replay: see [`Object::attempt`].
pub const fn at_once<T, E>() -> Option<Later<T, E>> {
    None
}

/// Awaits `future`, which is an operation on an object: there is nothing to tell about its result.
pub async fn operation<F: Future>(object: &Object, future: F) -> F::Output {
    let operation = Operation::new();
    let mut future = pin!(future);
    poll_fn(|cx| {
        object.poll_one(
            &operation,
            cx,
            |cx| future.as_mut().poll(cx),
            |_| Ready::Done,
            || None,
        )
    })
    .await
}

/// Polls an operation on `object` by `poll`. All that it uses is part of the operation.
pub fn poll_own(
    object: &Object,
    operation: &Operation,
    cx: &mut Context<'_>,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<()>,
) -> Poll<()> {
    let poll = |cx: &mut Context<'_>| executor::own(|| poll(cx));
    object.poll_one(operation, cx, poll, |()| Ready::Done, || None)
}

/// Whether this process records or replays.
pub fn is_on() -> bool {
    pool::is_on()
}

/// Whether this process replays.
pub fn is_replayed() -> bool {
    matches!(session(), Session::Replay(_))
}
