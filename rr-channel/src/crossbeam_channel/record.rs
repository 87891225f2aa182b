//! Recording: upstream's channels, with tags on the messages and a log of outcomes.
//!
//! A receiver's log names the messages that it got, which for a channel without a
//! bound, or without capacity, says all there is to know about order. In a bounded
//! channel senders wait for room, and which of them gets it first is an outcome too
//! (a `bounded(1)` channel makes a mutex); so a send there takes its number in the
//! channel's order, under a lock that it holds for one attempt and never while it
//! waits. Handing out numbers without the lock would log an order that the channel
//! itself may not have had.

use std::hint;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use ::crossbeam_channel as raw;
use raw::{RecvError, RecvTimeoutError, SendError, TryRecvError};

use crate::chaos;
use crate::context;
use crate::identity::ChannelId;
use crate::log::{Event, Op, Outcome};
use crate::payload;
use crate::places;
use crate::replay::Native;
use crate::tag::{Stamped, Tag};

/// What the handles of a recorded channel share besides the channel.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) id: ChannelId,
    /// The number of the next message, in a channel where senders wait for room.
    slots: Option<Slots>,
    /// Whether sends have nothing to log but refusals, and nothing else to do.
    silent: bool,
}

/// On cache lines of its own: senders write here, and receivers read what is beside.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Slots(Mutex<u64>);

impl Shared {
    /// Of a channel of `T`.
    pub(super) fn new<T>(capacity: Option<usize>) -> Arc<Self> {
        let slots = capacity
            .filter(|capacity| *capacity > 0)
            .map(|_| Slots::default());
        Arc::new(Shared {
            id: places::channel_of::<T>(),
            slots,
            // Under chaos, also these sends are held back; and they may have places.
            silent: capacity.is_none() && !chaos::is_on() && !places::is_on(),
        })
    }

    /// Holds off other sends while one is attempted; `None` where order is no issue.
    pub(super) fn order(&self) -> Option<MutexGuard<'_, u64>> {
        self.slots
            .as_ref()
            .map(|slots| slots.0.lock().unwrap_or_else(PoisonError::into_inner))
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
}

/// The receiving half of a recorded channel.
#[derive(Debug)]
pub(super) struct Receiver<T> {
    pub(super) raw: raw::Receiver<Stamped<T>>,
    pub(super) shared: Arc<Shared>,
}

/// The receiving half of a recorded timer.
#[derive(Debug)]
pub(super) struct Timer<T> {
    pub(super) raw: raw::Receiver<T>,
    pub(super) shared: Arc<Shared>,
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
    pub(super) fn send(&self, op: Op, value: T, native: Native) -> Result<(), NotSent<T>> {
        chaos::point();
        let tag = context::next_tag();
        context::sends(op, self.shared.id, tag);
        payload::of_value(tag, &value);
        let stamped = Stamped { tag, value };
        let sent = if self.shared.is_ordered() {
            self.send_in_order(op, stamped, native)
        } else {
            self.send_plainly(op, stamped, native)
        };
        sent.map_err(|error| match error {
            NotSent::NoRoom(stamped) => {
                let nothing = if op == Op::TrySend {
                    Outcome::Full
                } else {
                    Outcome::Timeout
                };
                self.shared.log(op, nothing);
                NotSent::NoRoom(stamped.value)
            }
            NotSent::Refused(stamped) => {
                self.shared.log(
                    op,
                    Outcome::Refused {
                        number: tag.number(),
                    },
                );
                NotSent::Refused(stamped.value)
            }
        })
    }

    #[track_caller]
    fn send_plainly(
        &self,
        op: Op,
        stamped: Stamped<T>,
        native: Native,
    ) -> Result<(), NotSent<Stamped<T>>> {
        match native {
            Native::Block => self
                .raw
                .send(stamped)
                .map_err(|error| NotSent::Refused(error.into_inner())),
            Native::Try => self.raw.try_send(stamped).map_err(|error| match error {
                raw::TrySendError::Full(stamped) => NotSent::NoRoom(stamped),
                raw::TrySendError::Disconnected(stamped) => NotSent::Refused(stamped),
            }),
            Native::Until(deadline) => {
                self.raw
                    .send_deadline(stamped, deadline)
                    .map_err(|error| match error {
                        raw::SendTimeoutError::Timeout(stamped) => NotSent::NoRoom(stamped),
                        raw::SendTimeoutError::Disconnected(stamped) => NotSent::Refused(stamped),
                    })
            }
        }?;
        if self.raw.capacity() == Some(0) {
            self.shared.log(op, Outcome::Sent { slot: 0 });
        }
        Ok(())
    }

    #[track_caller]
    fn send_in_order(
        &self,
        op: Op,
        mut stamped: Stamped<T>,
        native: Native,
    ) -> Result<(), NotSent<Stamped<T>>> {
        loop {
            if matches!(native, Native::Block) {
                self.spin_while_full();
            }
            let mut slot = self.shared.order();
            stamped = match self.raw.try_send(stamped) {
                Ok(()) => {
                    let sent = slot.as_deref_mut().map_or(0, next);
                    drop(slot);
                    self.shared.log(op, Outcome::Sent { slot: sent });
                    return Ok(());
                }
                Err(raw::TrySendError::Disconnected(stamped)) => {
                    return Err(NotSent::Refused(stamped));
                }
                Err(raw::TrySendError::Full(stamped)) => stamped,
            };
            drop(slot);
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
    /// before it goes to sleep: outside of the lock, and without a futile attempt.
    fn spin_while_full(&self) {
        for step in 0..=10 {
            if !self.raw.is_full() {
                return;
            }
            if step <= 6 {
                (0..1 << step).for_each(|_| hint::spin_loop());
            } else {
                thread::yield_now();
            }
        }
    }

    /// Waits for room, or for the channel to be disconnected; `false` if that was too long.
    fn wait_for_room(&self, deadline: Option<Instant>) -> bool {
        let mut room = raw::Select::new();
        room.send(&self.raw);
        match deadline {
            Some(deadline) => room.ready_deadline(deadline).is_ok(),
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

/// The three ways to receive, on upstream's receiver of `M`.
fn receive<M>(raw: &raw::Receiver<M>, native: Native) -> Result<M, (TryRecvError, Outcome)> {
    let disconnected = (TryRecvError::Disconnected, Outcome::Disconnected);
    match native {
        Native::Block => raw.recv().map_err(|RecvError| disconnected),
        Native::Try => raw.try_recv().map_err(|error| match error {
            TryRecvError::Empty => (TryRecvError::Empty, Outcome::Empty),
            TryRecvError::Disconnected => disconnected,
        }),
        Native::Until(deadline) => raw.recv_deadline(deadline).map_err(|error| match error {
            RecvTimeoutError::Timeout => (TryRecvError::Empty, Outcome::Timeout),
            RecvTimeoutError::Disconnected => disconnected,
        }),
    }
}

/// As [`receive`]; under chaos, of several receivers that wait for a message the one may
/// have it that may run, and not the one that has waited for longest.
#[track_caller]
fn receive_in_chaos<M>(
    raw: &raw::Receiver<M>,
    native: Native,
) -> Result<M, (TryRecvError, Outcome)> {
    chaos::point();
    // Without capacity, nobody meets a receiver that only looks.
    if !chaos::is_on() || raw.capacity() == Some(0) {
        return receive(raw, native);
    }
    loop {
        let found = receive(raw, Native::Try);
        if !matches!(found, Err((TryRecvError::Empty, _))) || matches!(native, Native::Try) {
            return found;
        }
        let mut ready = raw::Select::new();
        ready.recv(raw);
        match native {
            Native::Until(deadline) if ready.ready_deadline(deadline).is_err() => {
                return receive(raw, native);
            }
            Native::Until(_) => {}
            Native::Block | Native::Try => {
                ready.ready();
            }
        }
        chaos::point();
    }
}

impl<T> Receiver<T> {
    /// A blocking receive.
    #[inline(always)]
    #[track_caller]
    pub(super) fn recv_blocking(&self) -> Result<T, RecvError> {
        if chaos::is_on() {
            return self.recv(Op::Recv, Native::Block).map_err(|_| RecvError);
        }
        match self.raw.recv() {
            Ok(Stamped { tag, value }) => {
                self.shared.log_message(Op::Recv, tag);
                Ok(value)
            }
            Err(RecvError) => {
                self.shared.log(Op::Recv, Outcome::Disconnected);
                Err(RecvError)
            }
        }
    }

    #[inline]
    #[track_caller]
    pub(super) fn recv(&self, op: Op, native: Native) -> Result<T, TryRecvError> {
        match receive_in_chaos(&self.raw, native) {
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
}

impl<T> Timer<T> {
    #[track_caller]
    pub(super) fn recv(&self, op: Op, native: Native) -> Result<T, TryRecvError> {
        match receive_in_chaos(&self.raw, native) {
            Ok(when) => {
                self.shared.log(op, Outcome::Tick);
                Ok(when)
            }
            Err((error, outcome)) => {
                self.shared.log(op, outcome);
                Err(error)
            }
        }
    }
}

/// The recorded form of a deadline: upstream's, which treats an instant that cannot
/// be represented as no deadline at all.
pub(super) fn deadline_after(timeout: std::time::Duration) -> Native {
    Instant::now()
        .checked_add(timeout)
        .map_or(Native::Block, Native::Until)
}
