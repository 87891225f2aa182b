#![expect(unsafe_code, reason = "gives messages their type back")]
//! The typed face of a replayed channel.
//!
//! There is little here: this is made for each type of messages.
//!
//! **Safety** rests on: a channel is made for one type and reached through handles of this
//! type only; what it hands out is what it was given, once ([`chan`](super::chan)).

use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::chan::{self, AnyChan, Disconnected, Found, NotSent};
use super::words::Words;
use super::{Arm, Native, Pick};
use crate::latch::Latch;
use crate::log::Op;
use crate::tag::Tag;

/// One channel of a replay, of which there are several handles.
pub(crate) struct Chan<T> {
    any: Arc<dyn AnyChan>,
    /// Makes the messages of a timer.
    make: Option<fn(Instant) -> T>,
    /// It has messages, each of which one thread has at a time.
    messages: PhantomData<Latch<T>>,
}

impl<T> Chan<T> {
    /// A queue for `capacity` messages, or any number.
    pub(crate) fn queue(capacity: Option<usize>) -> Self {
        Chan {
            any: chan::queue(capacity, Words::count_of::<T>(), Words::discard::<T>),
            make: None,
            messages: PhantomData,
        }
    }

    /// A timer that fires at `due` (never, if `None`) and every `period` after that.
    pub(crate) fn timer(
        due: Option<Instant>,
        period: Option<Duration>,
        make: fn(Instant) -> T,
    ) -> Self {
        Chan {
            any: chan::timer(due, period),
            make: Some(make),
            messages: PhantomData,
        }
    }

    pub(crate) fn capacity(&self) -> Option<usize> {
        self.any.capacity()
    }

    /// Another handle.
    pub(crate) fn handle(&self, sends: bool) -> Self {
        self.any.cloned(sends);
        self.same()
    }

    /// The same channel.
    pub(crate) fn same(&self) -> Self {
        Chan {
            any: Arc::clone(&self.any),
            make: self.make,
            messages: PhantomData,
        }
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        ptr::addr_eq(Arc::as_ptr(&self.any), Arc::as_ptr(&other.any))
    }

    /// A handle is dropped. The last receiver takes the messages in the channel with it
    /// (not those that senders still wait with).
    pub(crate) fn dropped(&self, sends: bool) {
        self.any.dropped(sends);
    }

    /// This channel as an arm of a selection.
    pub(crate) fn arm(&self, index: usize, send: Option<Tag>) -> Arm<'_> {
        self.any.arm(index, send)
    }

    /// Performs a plain send.
    pub(crate) fn send(&self, op: Op, message: T, native: Native) -> Result<(), (NotSent, T)> {
        let message = Words::of(message);
        match self.any.send(op, &message, native) {
            Ok(()) => Ok(()),
            // SAFETY: of a `T`, just now, and it was not sent.
            Err(why) => Err((why, unsafe { message.into() })),
        }
    }

    /// Completes a selection that picked this channel for sending.
    pub(crate) fn finish_send(&self, pick: Pick, tag: Tag, message: T) -> Result<(), T> {
        let message = Words::of(message);
        match self.any.finish_send(pick, tag, &message) {
            true => Ok(()),
            // SAFETY: as above.
            false => Err(unsafe { message.into() }),
        }
    }

    /// Performs a plain receive; `None` if there was nothing in the time there was.
    pub(crate) fn recv(&self, op: Op, native: Native) -> Option<Result<T, Disconnected>> {
        let mut message = Words::new();
        match self.any.recv(op, native, &mut message) {
            Some(found) => Some(self.open(found, message)),
            None => None,
        }
    }

    /// Completes a selection that picked this channel for receiving.
    pub(crate) fn finish_recv(&self, pick: Pick) -> Result<T, Disconnected> {
        let mut message = Words::new();
        let found = self.any.finish_recv(pick, &mut message);
        self.open(found, message)
    }

    fn open(&self, found: Found, message: Words) -> Result<T, Disconnected> {
        match (found, self.make) {
            // SAFETY: a message of this channel, so of a `T`, that it has no more.
            (Found::Message, _) => Ok(unsafe { message.into() }),
            (Found::Tick(when), Some(make)) => Ok(make(when)),
            (Found::Tick(_), None) | (Found::Disconnected, _) => Err(Disconnected),
        }
    }

    /// The number of messages, as recorded or as it is.
    pub(crate) fn len(&self) -> usize {
        self.any.len()
    }

    /// Whether there are no messages, as recorded or as it is.
    pub(crate) fn is_empty(&self) -> bool {
        self.any.is_empty()
    }

    /// Whether there is no room, as recorded or as it is.
    pub(crate) fn is_full(&self) -> bool {
        self.any.is_full()
    }
}

impl<T> fmt::Debug for Chan<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.any, f)
    }
}
