#![expect(unsafe_code, reason = "gives messages their type back")]
//! A replayed channel, in programs that are built without optimization.
//!
//! The compiler makes the code of a generic channel anew for each type of messages, with the
//! program's optimization level. That is dozens of unoptimized functions, each touched about once,
//! which is half of the additional cost of a replay of a short test over a plain run. So this
//! module has the code of one channel for all types, whose messages are [`Words`]; `cargo reprise`
//! builds it optimized. The code for each type is as small as possible. Optimized programs use
//! [`chan`](super::chan) as it is, which is faster for those that send millions of messages.
//!
//! **Safety** rests on: a channel is reached through [`Chan`] only, so its messages are of the
//! one type of this.

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use rr_channel_log::Op;

use super::chan::{self, Disconnected, NotSent};
use super::erased::Words;
use super::{Arm, Leftover, Native, Pick};
use crate::platform::spin_lock::SpinLock;
use crate::recorder::tag::Tag;

/// One channel of a replay, shared by its handles.
#[derive(Debug)]
pub(crate) struct Chan<T> {
    untyped: Untyped,
    /// It has messages, each of which one thread has at a time.
    messages: PhantomData<SpinLock<T>>,
}

/// The same of any type.
#[derive(Debug)]
struct Untyped(chan::Chan<Words>);

impl<T> Chan<T> {
    /// As [`chan::Chan::queue`].
    pub(crate) fn queue(capacity: Option<usize>, leftover: Leftover) -> Self {
        Chan {
            untyped: Untyped::queue(capacity, leftover),
            messages: PhantomData,
        }
    }

    pub(crate) fn capacity(&self) -> Option<usize> {
        self.untyped.0.capacity()
    }

    pub(crate) fn cloned(&self, sends: bool) {
        self.untyped.cloned(sends);
    }

    /// As [`chan::Chan::dropped`].
    pub(crate) fn dropped(&self, sends: bool) {
        self.untyped.dropped(sends);
    }

    /// As [`chan::Chan::arm`].
    pub(crate) fn arm(&self, index: usize, send: Option<Tag>) -> Arm<'_> {
        self.untyped.arm(index, send)
    }

    /// As [`chan::Chan::send`].
    pub(crate) fn send(&self, op: Op, message: T, native: Native) -> Result<(), (NotSent, T)> {
        match self.untyped.send(op, Words::of(message), native) {
            Ok(()) => Ok(()),
            // SAFETY: it is of a `T`.
            Err((why, message)) => Err((why, unsafe { message.value() })),
        }
    }

    /// As [`chan::Chan::finish_send`].
    pub(crate) fn finish_send(&self, pick: Pick, tag: Tag, message: T) -> Result<(), T> {
        match self.untyped.finish_send(pick, tag, Words::of(message)) {
            Ok(()) => Ok(()),
            // SAFETY: it is of a `T`.
            Err(message) => Err(unsafe { message.value() }),
        }
    }

    /// As [`chan::Chan::recv`].
    pub(crate) fn recv(&self, op: Op, native: Native) -> Option<Result<T, Disconnected>> {
        match self.untyped.recv(op, native) {
            // SAFETY: all messages of this channel are of a `T`.
            Some(Ok(message)) => Some(Ok(unsafe { message.value() })),
            Some(Err(gone)) => Some(Err(gone)),
            None => None,
        }
    }

    /// As [`chan::Chan::finish_recv`].
    pub(crate) fn finish_recv(&self, pick: Pick) -> Result<T, Disconnected> {
        match self.untyped.finish_recv(pick) {
            // SAFETY: all messages of this channel are of a `T`.
            Ok(message) => Ok(unsafe { message.value() }),
            Err(gone) => Err(gone),
        }
    }

    /// As [`chan::Chan::len`].
    pub(crate) fn len(&self) -> usize {
        self.untyped.len()
    }

    /// As [`chan::Chan::is_empty`].
    pub(crate) fn is_empty(&self) -> bool {
        self.untyped.is_empty()
    }

    /// As [`chan::Chan::is_full`].
    pub(crate) fn is_full(&self) -> bool {
        self.untyped.is_full()
    }
}

impl Chan<Instant> {
    /// As [`chan::Chan::timer`].
    pub(crate) fn timer(due: Option<Instant>, period: Option<Duration>) -> Self {
        Chan {
            untyped: Untyped::timer(due, period),
            messages: PhantomData,
        }
    }
}

impl<T> Drop for Chan<T> {
    /// Remaining messages are dropped after this, so values that they borrow must live until then:
    /// a type that implements `Drop` says so.
    fn drop(&mut self) {}
}

// None of these may become part of what calls it, which is in the program.
impl Untyped {
    #[inline(never)]
    fn queue(capacity: Option<usize>, leftover: Leftover) -> Self {
        Untyped(chan::Chan::queue(capacity, leftover))
    }

    #[inline(never)]
    fn timer(due: Option<Instant>, period: Option<Duration>) -> Self {
        Untyped(chan::Chan::timer(due, period))
    }

    #[inline(never)]
    fn cloned(&self, sends: bool) {
        self.0.cloned(sends);
    }

    #[inline(never)]
    fn dropped(&self, sends: bool) {
        self.0.dropped(sends);
    }

    #[inline(never)]
    fn arm(&self, index: usize, send: Option<Tag>) -> Arm<'_> {
        self.0.arm(index, send)
    }

    #[inline(never)]
    fn send(&self, op: Op, message: Words, native: Native) -> Result<(), (NotSent, Words)> {
        self.0.send(op, message, native)
    }

    #[inline(never)]
    fn finish_send(&self, pick: Pick, tag: Tag, message: Words) -> Result<(), Words> {
        self.0.finish_send(pick, tag, message)
    }

    #[inline(never)]
    fn recv(&self, op: Op, native: Native) -> Option<Result<Words, Disconnected>> {
        self.0.recv(op, native)
    }

    #[inline(never)]
    fn finish_recv(&self, pick: Pick) -> Result<Words, Disconnected> {
        self.0.finish_recv(pick)
    }

    #[inline(never)]
    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline(never)]
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline(never)]
    fn is_full(&self) -> bool {
        self.0.is_full()
    }
}
