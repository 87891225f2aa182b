//! A replayed channel and its messages.
//!
//! A send whose turn it is puts its message into the channel, and a receive takes the one that its
//! log names. Neither looks further where no thread waits. With other threads they share the
//! sender's [queue](super::sender_queues), and receivers also share the lock of the [early
//! messages](super::early_messages).

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rr_channel_log::identity::ChannelId;
use rr_channel_log::{Event, Op, Outcome};
use rustc_hash::FxHashMap;

use super::early_messages::EarlyMessages;
use super::flow::Flow;
use super::operation::{Change, Messages};
use super::sender_queues::SenderQueues;
use super::{Arm, ChanKey, Got, Native, Pick, engine, follow};
use crate::engine::context;
use crate::engine::shown;
use crate::platform::backoff::retry_before_sleep;
use crate::platform::discard::discard;
use crate::platform::lock::lock;
use crate::platform::spin_lock::{SpinGuard, SpinLock};
use crate::recorder::tag::Tag;

/// One channel of a replay, shared by its handles.
#[derive(Debug)]
pub(crate) struct Chan<T> {
    key: ChanKey,
    id: ChannelId,
    capacity: Option<usize>,
    leftover: Leftover,
    flow: Arc<Flow>,
    content: Content<T>,
}

/// The fate of a queue's messages when the last receiver goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leftover {
    /// They go with it.
    Goes,
    /// They go with the last handle.
    Stays,
}

/// The storage of a channel's messages.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "most channels are queues, and these are to be reached quickly"
)]
enum Content<T> {
    Queue(Queue<T>),
    Meeting(Meeting<T>),
    /// They are made of their time.
    Timer(fn(Instant) -> T),
}

/// In the channel.
#[derive(Debug)]
struct Queue<T> {
    flow: Arc<Flow>,
    queues: Arc<SenderQueues<T>>,
    early_messages: Padded<SpinLock<EarlyMessages<T>>>,
    /// The messages that were there when the last receiver went, if they [stay](Leftover::Stays).
    left: Mutex<Vec<T>>,
}

/// On cache lines of its own: receivers write here, and senders read the fields beside it.
#[derive(Debug)]
#[repr(align(128))]
struct Padded<T>(T);

/// Nowhere: senders and receivers meet. Here from just before the world hears of them
/// until they are taken.
#[derive(Debug)]
struct Meeting<T> {
    messages: Mutex<FxHashMap<Tag, T>>,
    /// Signalled when a message arrives that was announced before it was made.
    made: Condvar,
}

/// Why a message was not sent.
pub enum NotSent {
    /// There was no room, in the time there was.
    NoRoom,
    /// There was no receiver.
    Refused,
}

impl<T> Queue<T> {
    #[inline(always)]
    fn early_messages(&self) -> SpinGuard<'_, EarlyMessages<T>> {
        self.early_messages.0.take()
    }
}

impl<T> Messages for Queue<T> {
    fn set_aside(&self, tag: Option<Tag>) -> Option<Tag> {
        let mut early_messages = self.early_messages();
        let (tag, value) = match tag {
            Some(tag) => (tag, early_messages.take(tag)?),
            None => early_messages.take_oldest()?,
        };
        self.flow.count_out();
        early_messages.set_aside(tag, value);
        Some(tag)
    }

    fn len(&self) -> usize {
        self.early_messages().len()
    }
}

impl<T> Meeting<T> {
    fn put(&self, tag: Tag, message: T) {
        // A thread beyond the numbering's limit may repeat a tag; the older message
        // goes, outside of the lock.
        let old = lock(&self.messages).insert(tag, message);
        drop(old);
    }

    /// Takes a message that the world says is there, or is being made.
    fn take(&self, tag: Tag) -> T {
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

    fn take_back(&self, tag: Tag) -> Option<T> {
        lock(&self.messages).remove(&tag)
    }
}

/// How a message is sent.
#[derive(Debug, Clone, Copy)]
struct Sending {
    op: Op,
    tag: Tag,
    native: Native,
}

impl<T> Chan<T> {
    /// A queue for `capacity` messages, or any number.
    pub(crate) fn queue(capacity: Option<usize>, leftover: Leftover) -> Self {
        let flow = Arc::new(Flow::new(capacity));
        let content = if capacity == Some(0) {
            Content::Meeting(Meeting {
                messages: Mutex::default(),
                made: Condvar::new(),
            })
        } else {
            let queues = Arc::new(SenderQueues::new());
            Content::Queue(Queue {
                flow: Arc::clone(&flow),
                early_messages: Padded(SpinLock::new(EarlyMessages::new(Arc::clone(&queues)))),
                queues,
                left: Mutex::default(),
            })
        };
        Chan::open(flow, None, capacity, leftover, content)
    }

    /// A timer that fires at `due` (never, if `None`) and every `period` after that.
    pub(crate) fn timer(due: Option<Instant>, period: Option<Duration>) -> Self
    where
        T: From<Instant>,
    {
        let flow = Arc::new(Flow::new(Some(1)));
        Chan::open(
            flow,
            Some((due, period)),
            Some(1),
            Leftover::Goes,
            Content::Timer(T::from),
        )
    }

    fn open(
        flow: Arc<Flow>,
        timer: Option<(Option<Instant>, Option<Duration>)>,
        capacity: Option<usize>,
        leftover: Leftover,
        content: Content<T>,
    ) -> Self {
        let id = context::next_channel();
        let key = engine().open(Arc::clone(&flow), timer);
        Chan {
            key,
            id,
            capacity,
            leftover,
            flow,
            content,
        }
    }

    pub(crate) const fn capacity(&self) -> Option<usize> {
        self.capacity
    }

    pub(crate) fn cloned(&self, sends: bool) {
        self.flow.cloned(sends);
    }

    /// A handle is dropped. The last receiver perhaps takes the messages in the channel with it
    /// (not those that senders still wait with).
    pub(crate) fn dropped(&self, sends: bool) {
        if !self.flow.dropped(sends) {
            return;
        }
        let discarded = match &self.content {
            Content::Queue(queue) if !sends => queue.early_messages().close(),
            _ => Vec::new(),
        };
        engine().changed(self.key, Change::Abandoned);
        match &self.content {
            Content::Queue(queue) if self.leftover == Leftover::Stays => {
                lock(&queue.left).extend(discarded);
            }
            _ => discard(discarded),
        }
    }

    /// This channel as an arm of a selection.
    pub(crate) fn arm(&self, index: usize, send: Option<Tag>) -> Arm<'_> {
        let messages: Option<&dyn Messages> = match &self.content {
            Content::Queue(queue) => Some(queue),
            Content::Meeting(_) | Content::Timer(_) => None,
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

    // Sending.

    /// Performs a plain send.
    #[inline(never)]
    pub(crate) fn send(&self, op: Op, message: T, native: Native) -> Result<(), (NotSent, T)> {
        let sending = Sending {
            op,
            tag: context::next_tag(),
            native,
        };
        match &self.content {
            Content::Queue(queue) => self.send_into(queue, sending, message),
            Content::Meeting(meeting) => self.send_to(meeting, sending, message),
            Content::Timer(_) => Err((NotSent::Refused, message)),
        }
    }

    #[inline(always)]
    fn send_into(
        &self,
        queue: &Queue<T>,
        sending: Sending,
        message: T,
    ) -> Result<(), (NotSent, T)> {
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
                Err(message) if follow::is_live() => {
                    let number = tag.number();
                    context::log(Event {
                        op,
                        channel: Some(self.id),
                        outcome: Outcome::Refused { number },
                    });
                    Err((NotSent::Refused, message))
                }
                Err(_) => Ok(()),
            };
        }
        self.send_as_planned(queue, sending, message)
    }

    #[inline(never)]
    fn send_as_planned(
        &self,
        queue: &Queue<T>,
        sending: Sending,
        message: T,
    ) -> Result<(), (NotSent, T)> {
        let Sending { op, tag, native } = sending;
        let pick = engine().perform(op, &[self.arm(0, Some(tag))], native, true);
        match pick.map(|pick| pick.got) {
            Some(Got::Sent(_)) => {
                // If no receiver is left by now, the message is lost.
                drop(self.put(queue, tag, message));
                Ok(())
            }
            Some(Got::Lost) => {
                drop(message);
                Ok(())
            }
            None => Err((NotSent::NoRoom, message)),
            Some(_) => Err((NotSent::Refused, message)),
        }
    }

    /// Puts a message where its place is; gives it back if no receiver is left.
    #[inline]
    fn put(&self, queue: &Queue<T>, tag: Tag, message: T) -> Result<(), T> {
        queue.queues.put(tag, message)?;
        if self.flow.awaits_message(tag) {
            engine().changed(self.key, Change::Arrived(tag));
        }
        Ok(())
    }

    fn send_to(
        &self,
        meeting: &Meeting<T>,
        sending: Sending,
        message: T,
    ) -> Result<(), (NotSent, T)> {
        let Sending { op, tag, native } = sending;
        meeting.put(tag, message);
        let pick = engine().perform(op, &[self.arm(0, Some(tag))], native, true);
        match pick.map(|pick| pick.got) {
            Some(Got::Sent(_)) => Ok(()),
            Some(Got::Lost) => {
                drop(meeting.take_back(tag));
                Ok(())
            }
            None => Err((NotSent::NoRoom, meeting.take(tag))),
            Some(_) => Err((NotSent::Refused, meeting.take(tag))),
        }
    }

    /// Completes a selection that picked this channel for sending.
    pub(crate) fn finish_send(&self, pick: Pick, tag: Tag, message: T) -> Result<(), T> {
        engine().complete(Op::SelectedSend, self.id, pick.got, Some(tag));
        match (pick.got, &self.content) {
            (Got::Sent(_), Content::Queue(queue)) => {
                // If the last receiver left between selection and completion, it is lost.
                drop(self.put(queue, tag, message));
                Ok(())
            }
            (Got::Sent(_), Content::Meeting(meeting)) => {
                meeting.put(tag, message);
                meeting.made.notify_all();
                if self.flow.has_no_receivers() {
                    drop(meeting.take_back(tag));
                }
                Ok(())
            }
            (Got::Lost, _) => Ok(()),
            _ => Err(message),
        }
    }

    // Receiving.

    /// Performs a plain receive; `None` if there was nothing in the time there was.
    #[inline(never)]
    pub(crate) fn recv(&self, op: Op, native: Native) -> Option<Result<T, Disconnected>> {
        if let Content::Queue(queue) = &self.content
            && let Some(tag) = follow::message(op, self.id)
            && let Some(message) = self.take(queue, tag)
        {
            follow::advance();
            return Some(Ok(message));
        }
        self.recv_as_planned(op, native)
    }

    #[inline(never)]
    fn recv_as_planned(&self, op: Op, native: Native) -> Option<Result<T, Disconnected>> {
        let arms = [self.arm(0, None)];
        if let Content::Queue(queue) = &self.content
            && let Some(tag) = follow::message(op, self.id)
        {
            if let Some(message) = retry_before_sleep(|| self.take(queue, tag)) {
                follow::advance();
                return Some(Ok(message));
            }
            let pick = engine().perform_at_last(op, &arms, native)?;
            return Some(self.receive(pick));
        }
        let pick = engine().perform(op, &arms, native, true)?;
        Some(self.receive(pick))
    }

    /// Takes the message `tag`, if it is there.
    #[inline(always)]
    fn take(&self, queue: &Queue<T>, tag: Tag) -> Option<T> {
        let mut early_messages = queue.early_messages();
        let message = early_messages.take(tag)?;
        self.flow.count_out();
        drop(early_messages);
        if self.flow.awaits_room() {
            engine().changed(self.key, Change::Left);
        }
        Some(message)
    }

    fn receive(&self, pick: Pick) -> Result<T, Disconnected> {
        match (pick.got, &self.content) {
            (Got::Message(tag), Content::Queue(queue)) => {
                queue.early_messages().take_aside(tag).ok_or(Disconnected)
            }
            (Got::Message(tag), Content::Meeting(meeting)) => Ok(meeting.take(tag)),
            (Got::Tick(when), Content::Timer(make)) => Ok(make(shown::to_shown(when))),
            _ => Err(Disconnected),
        }
    }

    /// Completes a selection that picked this channel for receiving.
    pub(crate) fn finish_recv(&self, pick: Pick) -> Result<T, Disconnected> {
        engine().complete(Op::SelectedRecv, self.id, pick.got, None);
        self.receive(pick)
    }

    // Observing.

    /// The number of messages in the channel.
    fn count(&self) -> usize {
        match &self.content {
            Content::Queue(queue) => queue.len(),
            Content::Meeting(_) => 0,
            Content::Timer(_) => engine().due(self.key),
        }
    }

    /// The number of messages, as recorded or as it is.
    pub(crate) fn len(&self) -> usize {
        engine().observe(Op::Len, self.id, || self.count() as u64) as usize
    }

    /// Whether there are no messages, as recorded or as it is.
    pub(crate) fn is_empty(&self) -> bool {
        engine().observe(Op::IsEmpty, self.id, || u64::from(self.count() == 0)) != 0
    }

    /// Whether there is no room, as recorded or as it is.
    pub(crate) fn is_full(&self) -> bool {
        let is_full = || match &self.content {
            Content::Queue(_) => !self.flow.has_room(),
            Content::Meeting(_) => true,
            Content::Timer(_) => self.count() == 1,
        };
        engine().observe(Op::IsFull, self.id, || u64::from(is_full())) != 0
    }
}

impl<T> Drop for Chan<T> {
    fn drop(&mut self) {
        engine().close(self.key);
    }
}

/// A receive found no message and no sender.
#[derive(Debug)]
pub struct Disconnected;
