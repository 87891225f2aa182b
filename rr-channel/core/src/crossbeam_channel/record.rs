//! Recording: upstream's channels, with tags on the messages and a log of outcomes.
//!
//! A receiver's log names the messages that it got. For a channel without a bound, or without
//! capacity, that determines the whole order. In a bounded channel senders wait for room, and the
//! order in which they get it is an outcome too (a `bounded(1)` channel makes a mutex). So a send
//! there takes its number in the channel's order under a lock, which it holds for one attempt and
//! never while it waits. Numbers handed out without the lock would log an order that the channel
//! itself may not have had.

use std::hint;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use ::crossbeam_channel as raw;
use raw::{SendError, TryRecvError};
use rr_channel_log::identity::ChannelId;
use rr_channel_log::{Event, Op, Outcome};

use super::gather::Gathering;
use super::waiting::{Block, NoMessage, Try, Until, Waiting};

use crate::engine::chaos;
use crate::engine::context;
use crate::engine::payload;
use crate::engine::replay::Native;
use crate::platform::apart::apart;
use crate::platform::discard::discard;
use crate::platform::spin_lock::{SpinGuard, SpinLock};
use crate::recorder::places;
use crate::recorder::tag::{Stamped, Tag};

/// The state that all handles of a recorded channel share, besides the channel itself.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) id: ChannelId,
    /// The number of the next message, in a channel where senders wait for room.
    slots: Option<Slots>,
    /// Whether there is neither chaos, nor are there places to be logged.
    is_plain: bool,
    /// Whether sends have nothing to log but refusals, and nothing else to do.
    silent: bool,
    /// Rings for each message, under chaos.
    rings: Option<raw::Receiver<()>>,
}

/// On cache lines of its own: senders write here, and receivers read the fields beside it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Slots(SpinLock<u64>);

impl Shared {
    fn new<T>(capacity: Option<usize>, rings: Option<raw::Receiver<()>>) -> Arc<Self> {
        let slots = capacity
            .filter(|capacity| *capacity > 0)
            .map(|_| Slots::default());
        let is_plain = !chaos::is_on() && !places::is_on();
        Arc::new(Shared {
            id: context::channel_of::<T>(),
            slots,
            is_plain,
            // Under chaos, also these sends are held back; and they may have places.
            silent: capacity.is_none() && is_plain,
            rings,
        })
    }

    /// Holds off other sends while one is attempted; `None` where order is no issue.
    pub(super) fn order(&self) -> Option<SpinGuard<'_, u64>> {
        self.slots.as_ref().map(|slots| slots.0.take())
    }

    pub(super) const fn is_ordered(&self) -> bool {
        self.slots.is_some()
    }

    #[inline(always)]
    #[track_caller]
    pub(super) fn log(&self, op: Op, outcome: Outcome) {
        context::log(Event {
            op,
            channel: Some(self.id),
            outcome,
        });
    }

    #[inline(always)]
    #[track_caller]
    pub(super) fn log_message(&self, op: Op, tag: Tag) {
        self.log(
            op,
            Outcome::Message {
                sender: tag.sender(),
                number: tag.number(),
            },
        );
    }

    /// Logs an observation, and returns it.
    #[track_caller]
    pub(super) fn observed(&self, op: Op, value: u64) -> u64 {
        self.log(op, Outcome::Value(value));
        value
    }
}

/// The sending half of a recorded channel.
#[derive(Debug)]
pub(super) struct Sender<T> {
    pub(super) raw: raw::Sender<Stamped<T>>,
    pub(super) shared: Arc<Shared>,
    /// How to send, where order among senders is an issue.
    in_order: Option<InOrder<T>>,
    /// Signals each message, under chaos; dropped after the channel's own sender.
    bell: Option<Box<raw::Sender<()>>>,
}

/// Sends in the channel's order; the message's place in it. A pointer, so that programs without
/// such channels do not have that made for their messages (see [`Waiting`]).
type InOrder<T> = fn(&Sender<T>, Stamped<T>, Native) -> Result<u64, NotSent<Stamped<T>>>;

/// The receiving half of a recorded channel.
#[derive(Debug)]
pub(super) struct Receiver<T> {
    pub(super) raw: raw::Receiver<Stamped<T>>,
    pub(super) shared: Arc<Shared>,
    gathering: Gathering,
}

/// The receiving half of a recorded timer, which makes `T`s of instants.
#[derive(Debug)]
pub(super) struct Timer<T> {
    pub(super) raw: raw::Receiver<Instant>,
    pub(super) shared: Arc<Shared>,
    pub(super) deliver: fn(Instant) -> T,
}

/// A channel without a bound.
pub(super) fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    halves(raw::unbounded(), None, None)
}

/// A channel with a bound, perhaps zero.
pub(super) fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let in_order: Option<InOrder<T>> = (capacity > 0).then_some(Sender::send_in_order);
    halves(raw::bounded(capacity), Some(capacity), in_order)
}

fn halves<T>(
    (send, receive): (raw::Sender<Stamped<T>>, raw::Receiver<Stamped<T>>),
    capacity: Option<usize>,
    in_order: Option<InOrder<T>>,
) -> (Sender<T>, Receiver<T>) {
    // Without capacity, no partner meets a receiver that only looks.
    let (bell, rings) = (chaos::is_on() && capacity != Some(0))
        .then(raw::unbounded)
        .unzip();
    let shared = Shared::new::<T>(capacity, rings);
    let sender = Sender {
        raw: send,
        shared: Arc::clone(&shared),
        in_order,
        bell: bell.map(Box::new),
    };
    let receiver = Receiver {
        raw: receive,
        shared,
        gathering: Gathering::new(capacity),
    };
    (sender, receiver)
}

/// A timer.
pub(super) fn timer<T>(raw: raw::Receiver<Instant>, deliver: fn(Instant) -> T) -> Timer<T> {
    Timer {
        raw,
        shared: Shared::new::<Instant>(None, None),
        deliver,
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Sender {
            raw: self.raw.clone(),
            shared: Arc::clone(&self.shared),
            in_order: self.in_order,
            bell: self.bell.clone(),
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Receiver {
            raw: self.raw.clone(),
            shared: Arc::clone(&self.shared),
            gathering: Gathering::new(self.raw.capacity()),
        }
    }
}

impl<T> Clone for Timer<T> {
    fn clone(&self) -> Self {
        Timer {
            raw: self.raw.clone(),
            shared: Arc::clone(&self.shared),
            deliver: self.deliver,
        }
    }
}

/// Why a message was not sent.
pub(super) enum NotSent<T> {
    NoRoom(T),
    Refused(T),
}

impl<T> Sender<T> {
    /// Whether sends have nothing to log but refusals, and nothing else to do.
    #[inline]
    pub(super) fn is_silent(&self) -> bool {
        self.shared.silent
    }

    /// A blocking send into a channel where sends have nothing to log.
    #[inline(always)]
    #[track_caller]
    pub(super) fn send_silently(&self, value: T) -> Result<(), SendError<T>> {
        let tag = context::next_tag();
        self.raw.send(Stamped { tag, value }).map_err(|error| {
            let number = tag.number();
            self.shared.log(Op::Send, Outcome::Refused { number });
            SendError(error.into_inner().value)
        })
    }

    #[track_caller]
    pub(super) fn send(&self, op: Op, value: T, waiting: impl Waiting) -> Result<(), NotSent<T>> {
        chaos::point();
        let tag = context::next_tag();
        if !self.shared.is_plain {
            context::sends(op, self.shared.id, tag);
            payload::of_value(tag, &value);
        }
        let stamped = Stamped { tag, value };
        let sent = match self.in_order {
            Some(in_order) => in_order(self, stamped, waiting.native()).map(Some),
            None => waiting
                .send(&self.raw, stamped)
                .map(|()| (self.raw.capacity() == Some(0)).then_some(0)),
        };
        match sent {
            Ok(slot) => {
                if let Some(slot) = slot {
                    self.shared.log(op, Outcome::Sent { slot });
                }
                self.ring();
                Ok(())
            }
            Err(NotSent::NoRoom(stamped)) => {
                let nothing = if op == Op::TrySend {
                    Outcome::Full
                } else {
                    Outcome::Timeout
                };
                self.shared.log(op, nothing);
                Err(NotSent::NoRoom(stamped.value))
            }
            Err(NotSent::Refused(stamped)) => {
                let number = tag.number();
                self.shared.log(op, Outcome::Refused { number });
                Err(NotSent::Refused(stamped.value))
            }
        }
    }

    /// There is one more message.
    pub(super) fn ring(&self) {
        if let Some(bell) = &self.bell {
            let _ = bell.send(());
        }
    }

    fn send_in_order(
        &self,
        mut stamped: Stamped<T>,
        native: Native,
    ) -> Result<u64, NotSent<Stamped<T>>> {
        loop {
            let mut slot = self.shared.order();
            stamped = match Try.send(&self.raw, stamped) {
                Ok(()) => return Ok(slot.as_deref_mut().map_or(0, next)),
                Err(NotSent::Refused(stamped)) => return Err(NotSent::Refused(stamped)),
                Err(NotSent::NoRoom(stamped)) => stamped,
            };
            drop(slot);
            if matches!(native, Native::Block) && self.spin_while_full() {
                continue;
            }
            let waited = match native {
                Native::Try => false,
                Native::Block => self.wait_for_room(None),
                Native::Until(deadline) => self.wait_for_room(Some(deadline)),
            };
            if !waited {
                return Err(NotSent::NoRoom(stamped));
            }
        }
    }
}

impl<T> Sender<T> {
    /// Waits a little while the channel is full, as upstream does in a blocking send
    /// before it goes to sleep: outside of the lock. A receiver on another processor makes room
    /// for several messages meanwhile (see [`gather`](super::gather)). It lets others run
    /// sooner than upstream, after some microseconds: a receiver on this processor makes no room
    /// as long as this spins. Whether there is room.
    fn spin_while_full(&self) -> bool {
        let capacity = self.raw.capacity().unwrap_or(0);
        let enough = capacity - (capacity / 4).max(1);
        for step in 0..=10 {
            let spins = step <= 5;
            if spins {
                (0..1 << step).for_each(|_| hint::spin_loop());
            } else {
                thread::yield_now();
            }
            if self.raw.len() <= if spins { enough } else { capacity - 1 } {
                return true;
            }
        }
        false
    }

    /// Waits for room, or for the channel to be disconnected; `false` if that was too long.
    fn wait_for_room(&self, deadline: Option<Instant>) -> bool {
        let mut room = raw::Select::new();
        room.send(&self.raw);
        match deadline {
            Some(deadline) => apart(|| room.ready_deadline(deadline)).is_ok(),
            None => {
                room.ready();
                true
            }
        }
    }
}

/// The number, counted up.
pub(super) fn next(slot: &mut u64) -> u64 {
    let this = *slot;
    *slot += 1;
    this
}

impl<T> Receiver<T> {
    /// Disconnects the channel, of which this is the only receiver, and discards its messages, if
    /// it has a bound and they would stay.
    pub(super) fn discard(&mut self) {
        if !self.shared.is_ordered() {
            return;
        }
        let raw = std::mem::replace(&mut self.raw, raw::never());
        let mut messages = Vec::with_capacity(raw.len());
        // No send comes between: waiting ones find the channel disconnected.
        let order = self.shared.order();
        messages.extend(raw.try_iter());
        drop(raw);
        drop(order);
        discard(messages);
    }

    #[inline(always)]
    #[track_caller]
    pub(super) fn recv(&self, op: Op, waiting: impl Waiting) -> Result<T, TryRecvError> {
        if !self.shared.is_plain {
            self.listen(waiting.native());
        }
        if matches!(waiting.native(), Native::Block) {
            self.gathering.pause(|| self.raw.len());
        }
        match waiting.recv(&self.raw) {
            Ok(Stamped { tag, value }) => {
                self.shared.log_message(op, tag);
                Ok(value)
            }
            Err((error, outcome)) => {
                self.shared.log(op, outcome);
                Err(error)
            }
        }
    }

    /// Under chaos: returns when the thread may run and there is a message, or when there is
    /// none that is worth to be waited for. Of several receivers that wait for one, the one may
    /// have it that may run, and not the one that has waited for longest.
    ///
    /// Each message rings once. A receiver that takes a message has heard one ring at most. A
    /// receiver that has heard one looks for a message after that, and takes it if there is one.
    /// So a receiver hears of each message that is left. Surplus rings are listened to in vain.
    #[cold]
    #[track_caller]
    fn listen(&self, native: Native) {
        let Some(rings) = &self.shared.rings else {
            // In a channel without capacity, a thread cannot look first.
            chaos::point();
            return;
        };
        let mut has_heard = false;
        loop {
            chaos::point();
            if !self.raw.is_empty() || matches!(native, Native::Try) || !chaos::is_on() {
                break;
            }
            has_heard = match native {
                Native::Until(deadline) => apart(|| rings.recv_deadline(deadline)).is_ok(),
                Native::Block | Native::Try => rings.recv().is_ok(),
            };
            if !has_heard {
                // It is too late, or no sender is left: upstream says so.
                break;
            }
        }
        if !has_heard {
            self.shared.hear();
        }
    }
}

impl Shared {
    /// Hears a ring, if there is one: for a receiver that is about to look for a message, and has
    /// heard none. (Not for a receiver that has taken a message: the ring may be another message's
    /// by then, which no other receiver would hear of.)
    pub(super) fn hear(&self) {
        if let Some(rings) = &self.rings {
            let _ = rings.try_recv();
        }
    }
}

impl<T> Timer<T> {
    #[track_caller]
    pub(super) fn recv(&self, op: Op, native: Native) -> Result<T, TryRecvError> {
        match receive_in_chaos(&self.raw, native) {
            Ok(when) => {
                self.shared.log(op, Outcome::Tick);
                Ok((self.deliver)(when))
            }
            Err((error, outcome)) => {
                self.shared.log(op, outcome);
                Err(error)
            }
        }
    }
}

/// Receives; under chaos, of several receivers that wait for a tick the one may have it that
/// may run, and not the one that has waited for longest.
#[track_caller]
fn receive_in_chaos(raw: &raw::Receiver<Instant>, native: Native) -> Result<Instant, NoMessage> {
    let receive = |native| match native {
        Native::Block => Block.recv(raw),
        Native::Try => Try.recv(raw),
        Native::Until(deadline) => Until(Some(deadline)).recv(raw),
    };
    chaos::point();
    if !chaos::is_on() {
        return receive(native);
    }
    loop {
        let found = receive(Native::Try);
        if !matches!(found, Err((TryRecvError::Empty, _))) || matches!(native, Native::Try) {
            return found;
        }
        let mut ready = raw::Select::new();
        ready.recv(raw);
        match native {
            Native::Until(deadline) if apart(|| ready.ready_deadline(deadline)).is_err() => {
                return receive(native);
            }
            Native::Until(_) => {}
            Native::Block | Native::Try => {
                ready.ready();
            }
        }
        chaos::point();
    }
}
