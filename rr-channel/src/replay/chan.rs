//! A replayed channel's messages, which the world knows only by their tags.

use std::mem::ManuallyDrop;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::{Arm, ChanKey, Got, Native, Pick, engine};
use crate::context;
use crate::identity::ChannelId;
use crate::log::Op;
use crate::tag::Tag;

/// One channel of a replay, shared by its handles.
#[derive(Debug)]
pub(crate) struct Chan<T> {
    key: ChanKey,
    id: ChannelId,
    capacity: Option<usize>,
    /// Makes a timer's message of its time.
    make: Option<fn(Instant) -> T>,
    /// Messages from just before the world hears of them until they are taken.
    messages: Mutex<FxHashMap<Tag, T>>,
    /// Signalled when a message arrives that was announced before it was made.
    made: Condvar,
}

/// Why a message was not sent.
pub(crate) enum NotSent {
    /// There was no room, in the time there was.
    NoRoom,
    /// There was no receiver.
    Refused,
}

impl<T> Chan<T> {
    /// A queue for `capacity` messages, or any number.
    pub(crate) fn queue(capacity: Option<usize>) -> Self {
        Chan::open(capacity, None, None)
    }

    /// A timer that fires at `due` (never, if `None`) and every `period` after that.
    pub(crate) fn timer(
        due: Option<Instant>,
        period: Option<Duration>,
        make: fn(Instant) -> T,
    ) -> Self {
        Chan::open(Some(1), Some((due, period)), Some(make))
    }

    fn open(
        capacity: Option<usize>,
        timer: Option<(Option<Instant>, Option<Duration>)>,
        make: Option<fn(Instant) -> T>,
    ) -> Self {
        let id = context::next_channel();
        let key = engine().open(capacity, timer);
        Chan {
            key,
            id,
            capacity,
            make,
            messages: Mutex::default(),
            made: Condvar::new(),
        }
    }

    pub(crate) const fn capacity(&self) -> Option<usize> {
        self.capacity
    }

    pub(crate) fn cloned(&self, sends: bool) {
        engine().cloned(self.key, sends);
    }

    /// A handle is dropped. The last receiver takes all messages with it.
    pub(crate) fn dropped(&self, sends: bool) {
        let discarded = engine().dropped(self.key, sends);
        if discarded.is_empty() {
            return;
        }
        let messages: Vec<_> = {
            let mut messages = self.lock();
            discarded
                .iter()
                .filter_map(|tag| messages.remove(tag))
                .collect()
        };
        // Outside of every lock: a message's destructor may use channels. If one
        // panics, the messages after it leak, as upstream's do: a second panic
        // would end the process.
        let mut messages = ManuallyDrop::new(messages.into_iter());
        messages.by_ref().for_each(drop);
        drop(ManuallyDrop::into_inner(messages));
    }

    /// This channel as an arm of a selection.
    pub(crate) const fn arm(&self, index: usize, send: Option<Tag>) -> Arm {
        Arm {
            index,
            chan: self.key,
            id: self.id,
            send,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FxHashMap<Tag, T>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, tag: Tag, message: T) {
        // A thread beyond the numbering's limit may repeat a tag; the older message
        // goes, outside of the lock.
        let old = self.lock().insert(tag, message);
        drop(old);
    }

    /// Takes a message that the world says is there, or is being made.
    fn take(&self, tag: Tag) -> T {
        let mut messages = self.lock();
        loop {
            if let Some(message) = messages.remove(&tag) {
                if messages.capacity() > 1024 && messages.len() < messages.capacity() / 8 {
                    let len = messages.len();
                    messages.shrink_to(len * 2);
                }
                return message;
            }
            messages = self
                .made
                .wait(messages)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Performs a plain send.
    pub(crate) fn send(&self, op: Op, message: T, native: Native) -> Result<(), (NotSent, T)> {
        let tag = context::next_tag();
        self.put(tag, message);
        let pick = engine().perform(op, &[self.arm(0, Some(tag))], native, true);
        match pick.map(|pick| pick.got) {
            Some(Got::Sent) => Ok(()),
            Some(Got::Lost) => {
                drop(self.take_back(tag));
                Ok(())
            }
            None => Err((NotSent::NoRoom, self.take(tag))),
            Some(_) => Err((NotSent::Refused, self.take(tag))),
        }
    }

    fn take_back(&self, tag: Tag) -> Option<T> {
        self.lock().remove(&tag)
    }

    /// Performs a plain receive; `None` if there was nothing in the time there was.
    pub(crate) fn recv(&self, op: Op, native: Native) -> Option<Result<T, Disconnected>> {
        let pick = engine().perform(op, &[self.arm(0, None)], native, true)?;
        Some(self.receive(pick))
    }

    fn receive(&self, pick: Pick) -> Result<T, Disconnected> {
        match (pick.got, self.make) {
            (Got::Message(tag), _) => Ok(self.take(tag)),
            (Got::Tick(when), Some(make)) => Ok(make(when)),
            _ => Err(Disconnected),
        }
    }

    /// Completes a selection that picked this channel for sending.
    pub(crate) fn finish_send(&self, pick: Pick, tag: Tag, message: T) -> Result<(), T> {
        engine().complete(Op::SelectedSend, self.id);
        match pick.got {
            Got::Sent => {
                self.put(tag, message);
                self.made.notify_all();
                if engine().is_orphaned(self.key) {
                    // The last receiver left between selection and completion.
                    drop(self.take_back(tag));
                }
                Ok(())
            }
            Got::Lost => Ok(()),
            _ => Err(message),
        }
    }

    /// Completes a selection that picked this channel for receiving.
    pub(crate) fn finish_recv(&self, pick: Pick) -> Result<T, Disconnected> {
        engine().complete(Op::SelectedRecv, self.id);
        self.receive(pick)
    }

    /// The number of messages, as recorded or as it is.
    pub(crate) fn len(&self) -> usize {
        engine().observe(Op::Len, self.id, self.key, |len| len as u64) as usize
    }

    /// Whether there are no messages, as recorded or as it is.
    pub(crate) fn is_empty(&self) -> bool {
        engine().observe(Op::IsEmpty, self.id, self.key, |len| u64::from(len == 0)) != 0
    }

    /// Whether there is no room, as recorded or as it is.
    pub(crate) fn is_full(&self) -> bool {
        let capacity = self.capacity;
        let full = |len| u64::from(capacity.is_some_and(|capacity| len >= capacity));
        engine().observe(Op::IsFull, self.id, self.key, full) != 0
    }
}

impl<T> Drop for Chan<T> {
    fn drop(&mut self) {
        engine().close(self.key);
    }
}

/// A receive found no message and no sender.
#[derive(Debug)]
pub(crate) struct Disconnected;
