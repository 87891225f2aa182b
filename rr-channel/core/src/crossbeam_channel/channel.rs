//! Senders, receivers, and what makes them.

use std::fmt;
use std::hint;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::crossbeam_channel as raw;
use raw::{RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError};
use rr_channel_log::Op;

use super::iter::{Iter, TryIter};
use super::record::{self, NotSent};
use super::waiting::{Block, Try, Until, Waiting};
use crate::engine::replay::{self, Chan, Leftover, Native};
use crate::engine::session::{Session, session};
use crate::engine::shown;
use crate::platform::clock as real_clock;

/// The sending side of a channel.
pub struct Sender<T>(pub(super) SenderKind<T>);

pub(super) enum SenderKind<T> {
    Raw(raw::Sender<T>),
    Recorded(record::Sender<T>),
    Replayed(Arc<Chan<T>>),
}

/// The receiving side of a channel.
pub struct Receiver<T>(pub(super) ReceiverKind<T>);

pub(super) enum ReceiverKind<T> {
    /// Also what [`never()`] makes, in every mode.
    Raw(raw::Receiver<T>),
    Recorded(record::Receiver<T>),
    Timer(record::Timer<T>),
    Replayed(Arc<Chan<T>>),
}

use ReceiverKind as R;
use SenderKind as S;

/// Creates a channel of unbounded capacity.
///
/// ```
/// let (s, r) = rr_channel::crossbeam_channel::unbounded();
/// s.send(1).unwrap();
/// assert_eq!(r.recv(), Ok(1));
/// ```
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    match session() {
        Session::Off => {
            let (s, r) = raw::unbounded();
            (Sender(S::Raw(s)), Receiver(R::Raw(r)))
        }
        Session::Record(_) => {
            let (s, r) = record::unbounded();
            (Sender(S::Recorded(s)), Receiver(R::Recorded(r)))
        }
        Session::Replay(_) => replayed(None, Leftover::Goes),
    }
}

/// Creates a channel of bounded capacity; zero makes senders and receivers meet.
///
/// ```
/// let (s, r) = rr_channel::crossbeam_channel::bounded(1);
/// s.send(1).unwrap();
/// assert!(s.try_send(2).is_err());
/// assert_eq!(r.recv(), Ok(1));
/// ```
pub fn bounded<T>(cap: usize) -> (Sender<T>, Receiver<T>) {
    // Upstream's other channels discard messages when the last receiver goes.
    bounded_with(cap, Leftover::Stays)
}

/// The same, where a replay treats messages as `leftover` says. Otherwise they stay until the
/// receiver [discards](Receiver::discard) them.
pub(crate) fn bounded_with<T>(cap: usize, leftover: Leftover) -> (Sender<T>, Receiver<T>) {
    match session() {
        Session::Off => {
            let (s, r) = raw::bounded(cap);
            (Sender(S::Raw(s)), Receiver(R::Raw(r)))
        }
        Session::Record(_) => {
            let (s, r) = record::bounded(cap);
            (Sender(S::Recorded(s)), Receiver(R::Recorded(r)))
        }
        Session::Replay(_) => replayed(Some(cap), leftover),
    }
}

fn replayed<T>(capacity: Option<usize>, leftover: Leftover) -> (Sender<T>, Receiver<T>) {
    let chan = Arc::new(Chan::queue(capacity, leftover));
    (
        Sender(S::Replayed(Arc::clone(&chan))),
        Receiver(R::Replayed(chan)),
    )
}

/// Creates a receiver that delivers one message, the time of delivery, after `duration`.
pub fn after(duration: Duration) -> Receiver<Instant> {
    timer(real_clock::now().checked_add(duration), None, || {
        raw::after(duration)
    })
}

/// Creates a receiver that delivers one message, the time of delivery, at `when`.
pub fn at(when: Instant) -> Receiver<Instant> {
    timer(Some(shown::to_real(when)), None, || raw::at(when))
}

/// Creates a receiver that delivers messages, the time of delivery, every `duration`.
pub fn tick(duration: Duration) -> Receiver<Instant> {
    timer(
        real_clock::now().checked_add(duration),
        Some(duration),
        || raw::tick(duration),
    )
}

fn timer(
    due: Option<Instant>,
    period: Option<Duration>,
    raw: impl FnOnce() -> raw::Receiver<Instant>,
) -> Receiver<Instant> {
    Receiver(match session() {
        Session::Off => R::Raw(raw()),
        Session::Record(_) => R::Timer(record::timer(raw(), |when| when)),
        Session::Replay(_) => R::Replayed(Arc::new(Chan::timer(due, period))),
    })
}

/// Creates a receiver that never delivers messages.
///
/// ```
/// use rr_channel::crossbeam_channel::{Receiver, never};
///
/// static NEVER: Receiver<i32> = never();
/// assert!(NEVER.try_recv().is_err());
/// ```
#[cfg(feature = "upstream-0.5.16")]
pub const fn never<T>() -> Receiver<T> {
    Receiver(R::Raw(raw::never()))
}

/// Creates a receiver that never delivers messages.
#[cfg(not(feature = "upstream-0.5.16"))]
pub fn never<T>() -> Receiver<T> {
    Receiver(R::Raw(raw::never()))
}

impl<T> Sender<T> {
    /// Attempts to send a message without blocking.
    ///
    /// # Errors
    /// If the channel is full or disconnected; the error holds the message.
    #[inline]
    #[track_caller]
    pub fn try_send(&self, msg: T) -> Result<(), TrySendError<T>> {
        match &self.0 {
            S::Raw(raw) => raw.try_send(msg),
            _ => self
                .send_as(Op::TrySend, msg, Try)
                .map_err(|error| match error {
                    NotSent::NoRoom(msg) => TrySendError::Full(msg),
                    NotSent::Refused(msg) => TrySendError::Disconnected(msg),
                }),
        }
    }

    /// Blocks until the message is sent or the channel is disconnected.
    ///
    /// # Errors
    /// If the channel is disconnected; the error holds the message.
    #[inline(always)]
    #[track_caller]
    pub fn send(&self, msg: T) -> Result<(), SendError<T>> {
        match &self.0 {
            S::Raw(raw) => return raw.send(msg),
            // Says which of the ways the compiler is to make the straight one.
            _ => hint::cold_path(),
        }
        match &self.0 {
            S::Raw(raw) => raw.send(msg),
            S::Recorded(recorded) if recorded.is_silent() => recorded.send_silently(msg),
            S::Replayed(chan) => chan
                .send(Op::Send, msg, Native::Block)
                .map_err(|(_, msg)| SendError(msg)),
            S::Recorded(recorded) => {
                recorded
                    .send(Op::Send, msg, Block)
                    .map_err(|error| match error {
                        NotSent::NoRoom(msg) | NotSent::Refused(msg) => SendError(msg),
                    })
            }
        }
    }

    /// Waits for room for a limited time.
    ///
    /// # Errors
    /// If the time is up or the channel is disconnected; the error holds the message.
    #[track_caller]
    pub fn send_timeout(&self, msg: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        match &self.0 {
            S::Raw(raw) => raw.send_timeout(msg, timeout),
            _ => self.send_until(msg, Until::after(timeout)),
        }
    }

    /// Waits for room until an instant.
    ///
    /// # Errors
    /// If the instant has passed or the channel is disconnected; the error holds the
    /// message.
    #[track_caller]
    pub fn send_deadline(&self, msg: T, deadline: Instant) -> Result<(), SendTimeoutError<T>> {
        match &self.0 {
            S::Raw(raw) => raw.send_deadline(msg, deadline),
            _ => self.send_until(msg, Until(Some(shown::to_real(deadline)))),
        }
    }

    #[track_caller]
    fn send_until(&self, msg: T, until: Until) -> Result<(), SendTimeoutError<T>> {
        self.send_as(Op::SendDeadline, msg, until)
            .map_err(|error| match error {
                NotSent::NoRoom(msg) => SendTimeoutError::Timeout(msg),
                NotSent::Refused(msg) => SendTimeoutError::Disconnected(msg),
            })
    }

    #[track_caller]
    fn send_as(&self, op: Op, msg: T, waiting: impl Waiting) -> Result<(), NotSent<T>> {
        match &self.0 {
            S::Recorded(recorded) => recorded.send(op, msg, waiting),
            S::Replayed(chan) => {
                let sent = chan.send(op, msg, waiting.native());
                sent.map_err(|(why, msg)| match why {
                    replay::NotSent::NoRoom => NotSent::NoRoom(msg),
                    replay::NotSent::Refused => NotSent::Refused(msg),
                })
            }
            S::Raw(raw) => waiting.send(raw, msg),
        }
    }

    /// Returns `true` if the channel is empty; zero-capacity channels always are.
    #[track_caller]
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            S::Raw(raw) => raw.is_empty(),
            S::Recorded(s) => s.shared.observed(Op::IsEmpty, s.raw.is_empty().into()) != 0,
            S::Replayed(chan) => chan.is_empty(),
        }
    }

    /// Returns `true` if the channel is full; zero-capacity channels always are.
    #[track_caller]
    pub fn is_full(&self) -> bool {
        match &self.0 {
            S::Raw(raw) => raw.is_full(),
            S::Recorded(s) => s.shared.observed(Op::IsFull, s.raw.is_full().into()) != 0,
            S::Replayed(chan) => chan.is_full(),
        }
    }

    /// Returns the number of messages in the channel.
    #[track_caller]
    pub fn len(&self) -> usize {
        match &self.0 {
            S::Raw(raw) => raw.len(),
            S::Recorded(s) => s.shared.observed(Op::Len, s.raw.len() as u64) as usize,
            S::Replayed(chan) => chan.len(),
        }
    }

    /// Returns the capacity of a bounded channel.
    pub fn capacity(&self) -> Option<usize> {
        match &self.0 {
            S::Raw(raw) => raw.capacity(),
            S::Recorded(s) => s.raw.capacity(),
            S::Replayed(chan) => chan.capacity(),
        }
    }

    /// Returns `true` if senders belong to the same channel.
    pub fn same_channel(&self, other: &Sender<T>) -> bool {
        match (&self.0, &other.0) {
            (S::Raw(a), S::Raw(b)) => a.same_channel(b),
            (S::Recorded(a), S::Recorded(b)) => a.raw.same_channel(&b.raw),
            (S::Replayed(a), S::Replayed(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl<T> Receiver<T> {
    /// Attempts to receive a message without blocking.
    ///
    /// # Errors
    /// If the channel is empty, or empty and disconnected.
    #[inline]
    #[track_caller]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        match &self.0 {
            R::Raw(raw) => raw.try_recv(),
            _ => self.recv_as(Op::TryRecv, Try),
        }
    }

    /// Blocks until a message is received or the channel is empty and disconnected.
    ///
    /// # Errors
    /// If the channel is empty and disconnected.
    #[inline(always)]
    #[track_caller]
    pub fn recv(&self) -> Result<T, RecvError> {
        match &self.0 {
            R::Raw(raw) => raw.recv(),
            R::Recorded(recorded) => recorded.recv(Op::Recv, Block).map_err(|_| RecvError),
            R::Replayed(chan) => match chan.recv(Op::Recv, Native::Block) {
                Some(Ok(msg)) => Ok(msg),
                _ => Err(RecvError),
            },
            R::Timer(timer) => timer.recv(Op::Recv, Native::Block).map_err(|_| RecvError),
        }
    }

    /// Waits for a message for a limited time.
    ///
    /// # Errors
    /// If the time is up, or the channel is empty and disconnected.
    #[track_caller]
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        match &self.0 {
            R::Raw(raw) => raw.recv_timeout(timeout),
            _ => self.recv_until(Until::after(timeout)),
        }
    }

    /// Waits for a message until an instant.
    ///
    /// # Errors
    /// If the instant has passed, or the channel is empty and disconnected.
    #[track_caller]
    pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        match &self.0 {
            R::Raw(raw) => raw.recv_deadline(deadline),
            _ => self.recv_until(Until(Some(shown::to_real(deadline)))),
        }
    }

    #[track_caller]
    fn recv_until(&self, until: Until) -> Result<T, RecvTimeoutError> {
        self.recv_as(Op::RecvDeadline, until)
            .map_err(|error| match error {
                TryRecvError::Empty => RecvTimeoutError::Timeout,
                TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            })
    }

    #[inline]
    #[track_caller]
    fn recv_as(&self, op: Op, waiting: impl Waiting) -> Result<T, TryRecvError> {
        match &self.0 {
            R::Recorded(recorded) => recorded.recv(op, waiting),
            R::Timer(timer) => timer.recv(op, waiting.native()),
            R::Replayed(chan) => match chan.recv(op, waiting.native()) {
                Some(Ok(msg)) => Ok(msg),
                Some(Err(replay::Disconnected)) => Err(TryRecvError::Disconnected),
                None => Err(TryRecvError::Empty),
            },
            R::Raw(raw) => waiting.recv(raw).map_err(|(error, _)| error),
        }
    }

    /// Returns `true` if the channel is empty; zero-capacity channels always are.
    #[track_caller]
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            R::Raw(raw) => raw.is_empty(),
            R::Recorded(r) => r.shared.observed(Op::IsEmpty, r.raw.is_empty().into()) != 0,
            R::Timer(r) => r.shared.observed(Op::IsEmpty, r.raw.is_empty().into()) != 0,
            R::Replayed(chan) => chan.is_empty(),
        }
    }

    /// Returns `true` if the channel is full; zero-capacity channels always are.
    #[track_caller]
    pub fn is_full(&self) -> bool {
        match &self.0 {
            R::Raw(raw) => raw.is_full(),
            R::Recorded(r) => r.shared.observed(Op::IsFull, r.raw.is_full().into()) != 0,
            R::Timer(r) => r.shared.observed(Op::IsFull, r.raw.is_full().into()) != 0,
            R::Replayed(chan) => chan.is_full(),
        }
    }

    /// Returns the number of messages in the channel.
    #[track_caller]
    pub fn len(&self) -> usize {
        match &self.0 {
            R::Raw(raw) => raw.len(),
            R::Recorded(r) => r.shared.observed(Op::Len, r.raw.len() as u64) as usize,
            R::Timer(r) => r.shared.observed(Op::Len, r.raw.len() as u64) as usize,
            R::Replayed(chan) => chan.len(),
        }
    }

    /// Returns the capacity of a bounded channel.
    pub fn capacity(&self) -> Option<usize> {
        match &self.0 {
            R::Raw(raw) => raw.capacity(),
            R::Recorded(r) => r.raw.capacity(),
            R::Timer(r) => r.raw.capacity(),
            R::Replayed(chan) => chan.capacity(),
        }
    }

    /// A blocking iterator over messages, which ends when the channel is empty and
    /// disconnected.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// A non-blocking iterator over messages, which ends when there is none.
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }

    /// Discards the messages of a channel with a bound that is recorded, of which this is the only
    /// receiver, and disconnects it.
    pub(crate) fn discard(&mut self) {
        if let R::Recorded(recorded) = &mut self.0 {
            recorded.discard();
        }
    }

    /// Returns `true` if receivers belong to the same channel.
    pub fn same_channel(&self, other: &Receiver<T>) -> bool {
        match (&self.0, &other.0) {
            (R::Raw(a), R::Raw(b)) => a.same_channel(b),
            (R::Recorded(a), R::Recorded(b)) => a.raw.same_channel(&b.raw),
            (R::Timer(a), R::Timer(b)) => a.raw.same_channel(&b.raw),
            (R::Replayed(a), R::Replayed(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Sender(match &self.0 {
            S::Raw(raw) => S::Raw(raw.clone()),
            S::Recorded(sender) => S::Recorded(sender.clone()),
            S::Replayed(chan) => {
                chan.cloned(true);
                S::Replayed(Arc::clone(chan))
            }
        })
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Receiver(match &self.0 {
            R::Raw(raw) => R::Raw(raw.clone()),
            R::Recorded(receiver) => R::Recorded(receiver.clone()),
            R::Timer(timer) => R::Timer(timer.clone()),
            R::Replayed(chan) => {
                chan.cloned(false);
                R::Replayed(Arc::clone(chan))
            }
        })
    }
}

impl<T> Drop for SenderKind<T> {
    fn drop(&mut self) {
        if let S::Replayed(chan) = self {
            chan.dropped(true);
        }
    }
}

impl<T> Drop for ReceiverKind<T> {
    fn drop(&mut self) {
        if let R::Replayed(chan) = self {
            chan.dropped(false);
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Sender { .. }")
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Receiver { .. }")
    }
}

impl<T> UnwindSafe for Sender<T> {}
impl<T> RefUnwindSafe for Sender<T> {}
impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}
