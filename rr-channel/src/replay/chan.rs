#![expect(unsafe_code, reason = "drops messages whose type is not known")]
//! A replayed channel and its messages.
//!
//! A send whose turn it is puts its message into the channel, a receive takes the one
//! that its log names, and neither looks further where nobody waits: what they have in
//! common with other threads is the sender's [lane](super::lanes), and for receivers the lock
//! of the [stash](super::stash).
//!
//! Messages are [words](super::words) here: as many as they take, or somewhat more.
//!
//! **Safety** rests on: each message that is sent is moved from one place to the next, and then
//! handed out or discarded, as one of the type that the channel was made for.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::flow::Flow;
use super::lanes::Lanes;
use super::operation::{Change, Messages};
use super::stash::Stash;
use super::words::{Discard, MOST, Piece, Words};
use super::{Arm, ChanKey, Got, Native, Pick, engine, follow, soon};
use crate::chaos;
use crate::context;
use crate::identity::ChannelId;
use crate::latch::{Held, Latch};
use crate::log::{Event, Op, Outcome};
use crate::tag::Tag;

/// A channel of a replay, whatever its messages are.
pub(super) trait AnyChan: fmt::Debug + Send + Sync {
    fn capacity(&self) -> Option<usize>;
    fn cloned(&self, sends: bool);
    /// A handle is dropped.
    fn dropped(&self, sends: bool);
    fn arm(&self, index: usize, send: Option<Tag>) -> Arm<'_>;
    /// Takes the message over, unless this is an error.
    fn send(&self, op: Op, message: &Words, native: Native) -> Result<(), NotSent>;
    /// Whether it took the message over.
    fn finish_send(&self, pick: Pick, tag: Tag, message: &Words) -> bool;
    /// Puts what it found into `message`, if it is one.
    fn recv(&self, op: Op, native: Native, message: &mut Words) -> Option<Found>;
    fn finish_recv(&self, pick: Pick, message: &mut Words) -> Found;
    fn len(&self) -> usize;
    fn is_empty(&self) -> bool;
    fn is_full(&self) -> bool;
}

/// A queue for `capacity` messages, or any number, of so many words, which are `discard`ed if
/// nobody receives them.
pub(super) fn queue(capacity: Option<usize>, words: usize, discard: Discard) -> Arc<dyn AnyChan> {
    match words {
        0..=1 => Arc::new(Chan::<1>::queue(capacity, discard)),
        2..=4 => Arc::new(Chan::<4>::queue(capacity, discard)),
        _ => Arc::new(Chan::<MOST>::queue(capacity, discard)),
    }
}

/// A timer that fires at `due` (never, if `None`) and every `period` after that.
pub(super) fn timer(due: Option<Instant>, period: Option<Duration>) -> Arc<dyn AnyChan> {
    let flow = Arc::new(Flow::new(Some(1)));
    let timer = Some((due, period));
    Arc::new(Chan::<1>::open(flow, timer, Some(1), Content::Timer))
}

/// One channel, shared by its handles.
#[derive(Debug)]
struct Chan<const N: usize> {
    key: ChanKey,
    id: ChannelId,
    capacity: Option<usize>,
    flow: Arc<Flow>,
    content: Content<N>,
}

/// Where a channel's messages are.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "most channels are queues, and these are to be reached quickly"
)]
enum Content<const N: usize> {
    Queue(Queue<N>),
    Meeting(Meeting<N>),
    /// They are made of their time.
    Timer,
}

/// In the channel.
#[derive(Debug)]
struct Queue<const N: usize> {
    flow: Arc<Flow>,
    lanes: Arc<Lanes<Piece<N>>>,
    stash: Padded<Latch<Stash<Piece<N>>>>,
    discard: Discard,
}

/// On cache lines of its own: receivers write here, and senders read what is beside.
#[derive(Debug)]
#[repr(align(128))]
struct Padded<T>(T);

/// Nowhere: senders and receivers meet. Here from just before the world hears of them
/// until they are taken.
#[derive(Debug)]
struct Meeting<const N: usize> {
    messages: Mutex<FxHashMap<Tag, Piece<N>>>,
    /// Signalled when a message arrives that was announced before it was made.
    made: Condvar,
    discard: Discard,
}

/// Why a message was not sent.
pub(crate) enum NotSent {
    /// There was no room, in the time there was.
    NoRoom,
    /// There was no receiver.
    Refused,
}

/// What a receive found.
#[derive(Debug, Clone, Copy)]
pub(super) enum Found {
    Message,
    Tick(Instant),
    /// There was no message, and no sender.
    Disconnected,
}

/// Discards a message of a channel that was made with `discard`.
fn discard<const N: usize>(discard: Discard, message: Piece<N>) {
    let mut words = Words::new();
    words.put(message);
    // SAFETY: a message is of the type that its channel was made for, and whoever discards it
    // had it.
    unsafe { discard(words) };
}

impl<const N: usize> Queue<N> {
    #[inline(always)]
    fn stash(&self) -> Held<'_, Stash<Piece<N>>> {
        self.stash.0.take()
    }
}

impl<const N: usize> Messages for Queue<N> {
    fn set_aside(&self, tag: Option<Tag>) -> Option<Tag> {
        let mut stash = self.stash();
        let (tag, value) = match tag {
            Some(tag) => (tag, stash.take(tag)?),
            None => stash.take_oldest()?,
        };
        self.flow.count_out();
        stash.set_aside(tag, value);
        Some(tag)
    }

    fn len(&self) -> usize {
        self.stash().len()
    }
}

impl<const N: usize> Meeting<N> {
    fn put(&self, tag: Tag, message: Piece<N>) {
        // A thread beyond the numbering's limit may repeat a tag; the older message
        // goes, outside of the lock.
        let old = lock(&self.messages).insert(tag, message);
        if let Some(old) = old {
            discard(self.discard, old);
        }
    }

    /// Takes a message that the world says is there, or is being made.
    fn take(&self, tag: Tag) -> Piece<N> {
        let mut messages = lock(&self.messages);
        loop {
            if let Some(message) = messages.remove(&tag) {
                return message;
            }
            messages = self
                .made
                .wait(messages)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Forgets a message, which is its sender's again.
    fn give_back(&self, tag: Tag) {
        lock(&self.messages).remove(&tag);
    }

    /// Discards a message, if it is there still.
    fn lose(&self, tag: Tag) {
        let lost = lock(&self.messages).remove(&tag);
        if let Some(lost) = lost {
            discard(self.discard, lost);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a message is sent.
#[derive(Debug, Clone, Copy)]
struct Sending {
    op: Op,
    tag: Tag,
    native: Native,
}

impl<const N: usize> Chan<N> {
    fn queue(capacity: Option<usize>, discard: Discard) -> Self {
        let flow = Arc::new(Flow::new(capacity));
        let content = if capacity == Some(0) {
            Content::Meeting(Meeting {
                messages: Mutex::default(),
                made: Condvar::new(),
                discard,
            })
        } else {
            let lanes = Arc::new(Lanes::new());
            Content::Queue(Queue {
                flow: Arc::clone(&flow),
                stash: Padded(Latch::new(Stash::new(Arc::clone(&lanes)))),
                lanes,
                discard,
            })
        };
        Chan::open(flow, None, capacity, content)
    }

    fn open(
        flow: Arc<Flow>,
        timer: Option<(Option<Instant>, Option<Duration>)>,
        capacity: Option<usize>,
        content: Content<N>,
    ) -> Self {
        let id = context::next_channel();
        let key = engine().open(Arc::clone(&flow), timer);
        Chan {
            key,
            id,
            capacity,
            flow,
            content,
        }
    }

    // Sending.

    #[inline(always)]
    fn send_into(
        &self,
        queue: &Queue<N>,
        sending: Sending,
        message: Piece<N>,
    ) -> Result<(), NotSent> {
        let Sending { op, tag, .. } = sending;
        let enters = match self.capacity {
            // That such a send succeeds is not logged.
            None => !follow::refuses(op, self.id, tag),
            Some(_) => follow::slot(op, self.id)
                .and_then(|slot| self.flow.enter(Some(slot)))
                .inspect(|_| follow::advance())
                .is_some(),
        };
        if enters {
            return match self.put(queue, tag, message) {
                Ok(()) => Ok(()),
                // It was not refused then, and is now.
                Err(_) if follow::is_live() => {
                    let number = tag.number();
                    context::log(Event {
                        op,
                        channel: Some(self.id),
                        outcome: Outcome::Refused { number },
                    });
                    Err(NotSent::Refused)
                }
                Err(message) => {
                    discard(queue.discard, message);
                    Ok(())
                }
            };
        }
        self.send_as_planned(queue, sending, message)
    }

    #[inline(never)]
    fn send_as_planned(
        &self,
        queue: &Queue<N>,
        sending: Sending,
        message: Piece<N>,
    ) -> Result<(), NotSent> {
        let Sending { op, tag, native } = sending;
        let pick = engine().perform(op, &[self.arm(0, Some(tag))], native, true);
        match pick.map(|pick| pick.got) {
            Some(Got::Sent(_)) => {
                self.put_or_lose(queue, tag, message);
                Ok(())
            }
            Some(Got::Lost) => {
                discard(queue.discard, message);
                Ok(())
            }
            None => Err(NotSent::NoRoom),
            Some(_) => Err(NotSent::Refused),
        }
    }

    /// Puts a message where its place is; gives it back if nobody is left to receive it.
    #[inline]
    fn put(&self, queue: &Queue<N>, tag: Tag, message: Piece<N>) -> Result<(), Piece<N>> {
        queue.lanes.put(tag, message)?;
        if self.flow.awaits_message(tag) {
            engine().changed(self.key, Change::Arrived(tag));
        }
        Ok(())
    }

    /// Puts a message where its place is. If nobody is left to receive it by now, it is lost.
    fn put_or_lose(&self, queue: &Queue<N>, tag: Tag, message: Piece<N>) {
        if let Err(message) = self.put(queue, tag, message) {
            discard(queue.discard, message);
        }
    }

    fn send_to(
        &self,
        meeting: &Meeting<N>,
        sending: Sending,
        message: Piece<N>,
    ) -> Result<(), NotSent> {
        let Sending { op, tag, native } = sending;
        meeting.put(tag, message);
        let pick = engine().perform(op, &[self.arm(0, Some(tag))], native, true);
        match pick.map(|pick| pick.got) {
            Some(Got::Sent(_)) => Ok(()),
            Some(Got::Lost) => {
                meeting.lose(tag);
                Ok(())
            }
            None => {
                meeting.give_back(tag);
                Err(NotSent::NoRoom)
            }
            Some(_) => {
                meeting.give_back(tag);
                Err(NotSent::Refused)
            }
        }
    }

    // Receiving.

    #[inline(never)]
    fn recv_as_planned(&self, op: Op, native: Native, message: &mut Words) -> Option<Found> {
        let arms = [self.arm(0, None)];
        if let Content::Queue(queue) = &self.content
            && let Some(tag) = follow::message(op, self.id)
        {
            if let Some(found) = soon(|| self.take(queue, tag)) {
                follow::advance();
                message.put(found);
                return Some(Found::Message);
            }
            let pick = engine().perform_at_last(op, &arms, native)?;
            return Some(self.receive(pick, message));
        }
        let pick = engine().perform(op, &arms, native, true)?;
        Some(self.receive(pick, message))
    }

    /// Takes the message `tag`, if it is there.
    #[inline(always)]
    fn take(&self, queue: &Queue<N>, tag: Tag) -> Option<Piece<N>> {
        let mut stash = queue.stash();
        let message = stash.take(tag)?;
        self.flow.count_out();
        drop(stash);
        if self.flow.awaits_room() {
            engine().changed(self.key, Change::Left);
        }
        Some(message)
    }

    fn receive(&self, pick: Pick, message: &mut Words) -> Found {
        let found = match (pick.got, &self.content) {
            (Got::Message(tag), Content::Queue(queue)) => queue.stash().take_aside(tag),
            (Got::Message(tag), Content::Meeting(meeting)) => Some(meeting.take(tag)),
            (Got::Tick(when), Content::Timer) => return Found::Tick(when),
            _ => None,
        };
        match found {
            Some(found) => {
                message.put(found);
                Found::Message
            }
            None => Found::Disconnected,
        }
    }

    /// The number of messages.
    fn count(&self) -> usize {
        match &self.content {
            Content::Queue(queue) => queue.len(),
            Content::Meeting(_) => 0,
            Content::Timer => engine().due(self.key),
        }
    }
}

impl<const N: usize> AnyChan for Chan<N> {
    fn capacity(&self) -> Option<usize> {
        self.capacity
    }

    fn cloned(&self, sends: bool) {
        self.flow.cloned(sends);
    }

    fn dropped(&self, sends: bool) {
        if !self.flow.dropped(sends) {
            return;
        }
        let discarded = match &self.content {
            Content::Queue(queue) if !sends => Some((queue.stash().close(), queue.discard)),
            _ => None,
        };
        engine().changed(self.key, Change::Abandoned);
        // Outside of every lock: a message's destructor may use channels. If one
        // panics, the messages after it leak, as upstream's do.
        if let Some((messages, how)) = discarded {
            messages
                .into_iter()
                .for_each(|message| discard(how, message));
        }
    }

    fn arm(&self, index: usize, send: Option<Tag>) -> Arm<'_> {
        let messages: Option<&dyn Messages> = match &self.content {
            Content::Queue(queue) => Some(queue),
            Content::Meeting(_) | Content::Timer => None,
        };
        Arm {
            index,
            chan: self.key,
            id: self.id,
            flow: &self.flow,
            messages,
            send,
        }
    }

    fn send(&self, op: Op, message: &Words, native: Native) -> Result<(), NotSent> {
        chaos::shake();
        let sending = Sending {
            op,
            tag: context::next_tag(),
            native,
        };
        match &self.content {
            Content::Queue(queue) => self.send_into(queue, sending, message.piece()),
            Content::Meeting(meeting) => self.send_to(meeting, sending, message.piece()),
            Content::Timer => Err(NotSent::Refused),
        }
    }

    fn finish_send(&self, pick: Pick, tag: Tag, message: &Words) -> bool {
        engine().complete(Op::SelectedSend, self.id, pick.got, Some(tag));
        match (pick.got, &self.content) {
            (Got::Sent(_), Content::Queue(queue)) => {
                self.put_or_lose(queue, tag, message.piece());
                true
            }
            (Got::Sent(_), Content::Meeting(meeting)) => {
                meeting.put(tag, message.piece());
                meeting.made.notify_all();
                if self.flow.has_no_receivers() {
                    meeting.lose(tag);
                }
                true
            }
            (
                Got::Lost,
                Content::Queue(Queue { discard: how, .. })
                | Content::Meeting(Meeting { discard: how, .. }),
            ) => {
                discard::<N>(*how, message.piece());
                true
            }
            _ => false,
        }
    }

    fn recv(&self, op: Op, native: Native, message: &mut Words) -> Option<Found> {
        if let Content::Queue(queue) = &self.content
            && let Some(tag) = follow::message(op, self.id)
            && let Some(found) = self.take(queue, tag)
        {
            follow::advance();
            message.put(found);
            return Some(Found::Message);
        }
        self.recv_as_planned(op, native, message)
    }

    fn finish_recv(&self, pick: Pick, message: &mut Words) -> Found {
        engine().complete(Op::SelectedRecv, self.id, pick.got, None);
        self.receive(pick, message)
    }

    // Observing.

    fn len(&self) -> usize {
        engine().observe(Op::Len, self.id, || self.count() as u64) as usize
    }

    fn is_empty(&self) -> bool {
        engine().observe(Op::IsEmpty, self.id, || u64::from(self.count() == 0)) != 0
    }

    fn is_full(&self) -> bool {
        let is_full = || match &self.content {
            Content::Queue(_) => !self.flow.has_room(),
            Content::Meeting(_) => true,
            Content::Timer => self.count() == 1,
        };
        engine().observe(Op::IsFull, self.id, || u64::from(is_full())) != 0
    }
}

impl<const N: usize> Drop for Chan<N> {
    fn drop(&mut self) {
        engine().close(self.key);
        // What is still there nobody can have any more.
        match &mut self.content {
            Content::Queue(queue) => {
                let left = queue.stash().close();
                let how = queue.discard;
                left.into_iter().for_each(|message| discard(how, message));
            }
            Content::Meeting(meeting) => {
                let left = std::mem::take(&mut *lock(&meeting.messages));
                let how = meeting.discard;
                left.into_values().for_each(|message| discard(how, message));
            }
            Content::Timer => {}
        }
    }
}

/// A receive found no message and no sender.
#[derive(Debug)]
pub(crate) struct Disconnected;
