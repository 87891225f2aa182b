//! Polls of asynchronous operations: an operation is ready when that is the next event of its task.
//!
//! An operation whose turn has not come is *parked* in the world, with the waker of its task. It is
//! woken when the task's log comes to an event of its object, when the ticket of that event has
//! come, or when the task leaves its log. A task may have several parked operations.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

use rr_channel_log::identity::{ChannelId, ThreadId};
use rr_channel_log::{Event, Op, Outcome};

use super::follow::{self, Next as Planned};
use super::lock_order::{Next, Reach};
use super::operation::Want;
use super::parked::Parked;
use super::report::{Attempt, Cause};
use super::world::{Wait, Watch, World};
use super::{Engine, waiter_counts};
use crate::engine::context;
use crate::engine::order::Order;
use crate::platform::lock::lock;

/// A poll of an operation.
#[derive(Debug, Clone, Copy)]
pub struct Polled<'a> {
    /// That of the object.
    pub order: &'a Order,
    /// Which of several operations of a task on the object it is.
    pub operation: u32,
    pub waker: &'a Waker,
    /// Whether it cannot be polled again. Then it waits for what its log has next.
    pub is_attempt: bool,
}

/// The log's entry for the poll of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollTurn {
    /// It is ready now.
    Now(Event),
    /// It is not ready; its task is woken when that may have changed.
    Later,
    /// Nothing: the task is live.
    Live,
}

impl Polled<'_> {
    fn parked(self, watch: Option<(Watch, u64)>, expected: Option<Event>) -> Parked {
        let name = self.order.name();
        Parked {
            name: name.map(|name| name.with_operation(self.operation)),
            watch,
            expected,
            waker: self.waker.clone(),
        }
    }
}

thread_local! {
    /// How often the calling thread has locked the world; and whether its log came to an event that
    /// may wake one of its parked operations meanwhile.
    static LOCKED: Cell<u32> = const { Cell::new(0) };
    static HAS_COME: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread locks the world.
pub(super) fn locks() {
    let _ = LOCKED.try_with(|locked| locked.set(locked.get() + 1));
}

/// The calling thread has unlocked the world, in which `woken` are to be woken.
pub(super) fn unlocked(woken: Vec<Waker>) {
    let locked = LOCKED.try_with(|locked| {
        locked.set(locked.get().saturating_sub(1));
        locked.get()
    });
    for waker in woken {
        waker.wake();
    }
    if locked == Ok(0) && HAS_COME.try_with(Cell::take) == Ok(true) {
        super::engine().wake_parked();
    }
}

/// The log of the calling thread, which has parked operations, came to another event.
pub(super) fn came() {
    match LOCKED.try_with(Cell::get) {
        Ok(0) => super::engine().wake_parked(),
        _ => {
            let _ = HAS_COME.try_with(|has_come| has_come.set(true));
        }
    }
}

/// The calling thread's next event, the poll of an operation that needs no turn, came about.
pub fn polled() {
    follow::advance();
}

/// The calling thread's next event, if its log has one.
pub fn next_event() -> Option<Event> {
    match follow::next() {
        Planned::Event(event) => Some(event),
        _ => None,
    }
}

/// Wakes a thread that waits until an operation is ready.
struct Flag(AtomicU64);

impl Flag {
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        let count = self.0.fetch_add(1, SeqCst) + 1;
        if waiter_counts::is_watched(self.address()) {
            let mut world = super::engine().lock();
            world.step();
            world.touch(Watch::Object(self.address()), count);
        }
    }
}

impl Engine {
    /// How many events have happened.
    pub fn steps(&self) -> u64 {
        self.lock().steps
    }

    /// Returns the log's entry for the poll of an operation. The object is named by its first event.
    pub fn poll_turn(&self, polled: Polled<'_>) -> PollTurn {
        self.poll_turn_of(polled, |outcome| !matches!(outcome, Outcome::Woken { .. }))
    }

    fn poll_turn_of(&self, polled: Polled<'_>, fits: impl FnOnce(Outcome) -> bool) -> PollTurn {
        let order = polled.order;
        let id = context::thread_or_last();
        let event = match follow::next() {
            Planned::Live => return PollTurn::Live,
            Planned::End | Planned::Beyond => return self.park(id, polled, None),
            Planned::Event(event) => event,
        };
        if !event.op.is_poll() || !is_of(&event, order, polled.operation) || !fits(event.outcome) {
            return self.park(id, polled, None);
        }
        let Outcome::Turn { ticket } = event.outcome else {
            return self.now(order, event);
        };
        let now = order.ticket();
        if now == ticket {
            return self.now(order, event);
        }
        if now > ticket {
            self.desync(id, Cause::Missed { expected: event });
            return PollTurn::Live;
        }
        if event.op == Op::Poll || polled.is_attempt {
            if let Some(name) = event.channel {
                order.learn(name);
            }
            return match self.await_turn(id, Some(event), order) {
                true => PollTurn::Now(event),
                false => PollTurn::Live,
            };
        }
        match self.park(id, polled, Some(ticket)) {
            PollTurn::Now(_) => self.now(order, event),
            other => other,
        }
    }

    fn now(&self, order: &Order, event: Event) -> PollTurn {
        if let Some(name) = event.channel {
            order.learn(name);
        }
        PollTurn::Now(event)
    }

    /// As [`poll_turn`](Engine::poll_turn), of an operation that is ready when its task has been
    /// notified: by the notification that the event names.
    pub fn poll_notified(&self, polled: Polled<'_>) -> PollTurn {
        let turn = self.poll_turn_of(polled, |outcome| matches!(outcome, Outcome::Woken { .. }));
        let PollTurn::Now(event) = turn else {
            return turn;
        };
        let Outcome::Woken { sender, number } = event.outcome else {
            return turn;
        };
        let has_happened = || lock(&self.signals).get(&sender).copied().unwrap_or(0) >= number;
        self.poll_happened(
            polled,
            event,
            (Watch::Signals(sender), number),
            has_happened,
        )
    }

    /// The log's entry for the poll of an operation, which is `event`, is that it finds the object
    /// closed: it is ready when that `is_closed`.
    pub fn poll_closed(
        &self,
        polled: Polled<'_>,
        event: Event,
        is_closed: impl Fn() -> bool,
    ) -> PollTurn {
        let watch = (Watch::Object(polled.order.address()), u64::MAX);
        self.poll_happened(polled, event, watch, is_closed)
    }

    /// As [`poll_turn`](Engine::poll_turn), of an operation whose event is next, and which is ready
    /// when something `has_happened` that touches what is watched.
    fn poll_happened(
        &self,
        polled: Polled<'_>,
        event: Event,
        watch: (Watch, u64),
        has_happened: impl Fn() -> bool,
    ) -> PollTurn {
        let id = context::thread_or_last();
        let turn = PollTurn::Now(event);
        if has_happened() {
            return turn;
        }
        if event.op == Op::Poll || polled.is_attempt {
            let reach = || {
                if has_happened() {
                    Reach::Now
                } else {
                    Reach::Later
                }
            };
            return match self.await_event(id, watch, Some(event), reach) {
                true => turn,
                false => PollTurn::Live,
            };
        }
        let parked = polled.parked(Some(watch), Some(event));
        let mut world = self.lock();
        world.park(id, parked);
        if has_happened() {
            world.unpark(id, None);
            return turn;
        }
        drop(world);
        self.has_parked();
        PollTurn::Later
    }

    /// Parks an operation; it is ready now if its ticket has come.
    fn park(&self, id: ThreadId, polled: Polled<'_>, ticket: Option<u64>) -> PollTurn {
        let order = polled.order;
        let watch = ticket.map(|ticket| (Watch::Object(order.address()), ticket));
        let parked = polled.parked(watch, next_event());
        let mut world = self.lock();
        world.park(id, parked);
        // Asked again after others can see that it is awaited.
        if ticket.is_some_and(|ticket| order.ticket() >= ticket) {
            world.unpark(id, None);
            return PollTurn::Now(Event {
                op: Op::PollAgain,
                channel: None,
                outcome: Outcome::Done,
            });
        }
        drop(world);
        self.has_parked();
        PollTurn::Later
    }

    fn has_parked(&self) {
        follow::has_parked();
        self.start_watch();
        self.someone_waits(&self.lock());
    }

    /// Wakes the parked operations of the calling thread that may be ready now.
    fn wake_parked(&self) {
        let id = context::thread_or_last();
        let next = match follow::next() {
            Planned::Event(event) if event.op.is_poll() => event.channel,
            Planned::Live => None,
            _ => return follow::has_parked(),
        };
        let mut world = self.lock();
        if world.unpark(id, next) {
            follow::has_parked();
        }
    }

    /// Waits until the calling thread's next event, the poll of an operation that was ready at once,
    /// can come about. Returns what `poll` found; `None` if the thread goes live instead.
    pub fn wait_until_ready<T>(
        &self,
        event: Event,
        poll: &mut dyn FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Option<T> {
        poll_until_ready(poll, |id, watch, is_woken| {
            let reach = || match is_woken() {
                true => Reach::Now,
                false => Reach::Later,
            };
            self.await_event(id, watch, Some(event), reach)
        })
    }

    /// As [`wait_until_ready`](Engine::wait_until_ready), of a thread whose turn it is.
    pub fn wait_in_turn<T>(&self, poll: &mut dyn FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
        poll_until_ready(poll, |id, watch, is_woken| {
            self.await_change(id, watch, is_woken)
        })
    }

    /// Waits until `is_there`; `false` if the thread is live.
    fn await_change(&self, id: ThreadId, watch: (Watch, u64), is_there: impl Fn() -> bool) -> bool {
        let mut world = self.lock();
        while !is_there() {
            if world.is_live(id) {
                return false;
            }
            let mut wait = Wait::new(Want::Nothing);
            wait.watch = Some(watch);
            (world, _, _) = self.wait(world, id, wait, None, |_| is_there().then_some(()));
        }
        true
    }

    /// The calling thread's operation came about in its turn, by its next event.
    pub fn polled_in_turn(&self, op: Op, order: &Order) {
        follow::claim();
        self.taken(op, order);
    }

    /// The calling thread's operation came to something else than its next event.
    pub fn polled_otherwise(&self, expected: Event) {
        let actual = Attempt {
            op: expected.op,
            channel: expected.channel,
        };
        self.desync(
            context::thread_or_last(),
            Cause::Mismatch { expected, actual },
        );
    }

    /// How many things the operation on this object, which comes next, got at once.
    pub fn several(&self, order: &Order) -> Option<u64> {
        match follow::next() {
            Planned::Event(event) if event.op.is_poll() && is_of(&event, order, 0) => {
                match event.outcome {
                    Outcome::Value(count) => Some(count),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The recorded failure of an attempt on this object, if it failed.
    pub fn recall_failure(&self, order: &Order) -> Option<u64> {
        match follow::next() {
            Planned::Event(Event {
                op: Op::TryInTurn,
                outcome: Outcome::Value(code),
                channel,
            }) if is_named(channel, order) => {
                follow::advance();
                Some(code)
            }
            _ => None,
        }
    }

    /// The recorded answer to an observation of this object; `None` if there is none.
    pub fn recall_look(&self, order: &Order) -> Option<u64> {
        let id = context::thread_or_last();
        let Next::Event(event) = self.next_event(id, Op::Look, order.name()) else {
            return None;
        };
        if let Some(name) = event.channel {
            order.learn(name);
        }
        follow::advance();
        match event.outcome {
            Outcome::Value(value) => Some(value),
            // The log of a program that did something else.
            _ => Some(0),
        }
    }
}

/// Whether an event with this name may be one of the object.
fn is_named(name: Option<ChannelId>, order: &Order) -> bool {
    match (name, order.name()) {
        (Some(event), Some(order)) => event.object() == order,
        _ => true,
    }
}

/// Polls until the operation is ready. After each poll in vain `wait` waits until the waker was
/// called; `None` if it does not.
fn poll_until_ready<T>(
    poll: &mut dyn FnMut(&mut Context<'_>) -> Poll<T>,
    wait: impl Fn(ThreadId, (Watch, u64), &dyn Fn() -> bool) -> bool,
) -> Option<T> {
    let id = context::thread_or_last();
    let flag = Arc::new(Flag(AtomicU64::new(0)));
    let waker = Waker::from(Arc::clone(&flag));
    loop {
        let seen = flag.0.load(SeqCst);
        if let Poll::Ready(value) = poll(&mut Context::from_waker(&waker)) {
            return Some(value);
        }
        let watch = (Watch::Object(flag.address()), seen + 1);
        if !wait(id, watch, &|| flag.0.load(SeqCst) > seen) {
            return None;
        }
    }
}

/// Whether this may be an event of an operation on the object.
fn is_of(event: &Event, order: &Order, operation: u32) -> bool {
    match (event.channel, order.name()) {
        (Some(event), _) if event.operation() != operation => false,
        (Some(event), Some(order)) => event.object() == order,
        // It is named by its first event, and counted with locks.
        (Some(event), None) => {
            event.object().number < ChannelId::FIRST_OBJECT && order.ticket() == 0
        }
        (None, order) => order.is_none(),
    }
}

impl World {
    /// The task waits for an operation that is not ready.
    fn park(&mut self, id: ThreadId, new: Parked) {
        self.parked.add(id, new);
    }

    /// Wakes the parked operations of a task, all of them if there is no name; whether it has more.
    pub(super) fn unpark(&mut self, id: ThreadId, name: Option<ChannelId>) -> bool {
        self.parked.remove(id, name, &mut self.woken)
    }
}
