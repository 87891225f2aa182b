//! Receiving: a found message is logged, and in a replay a logged message is waited for.
//!
//! In a replay, too, messages come through the kernel. Only so there is one order of events for
//! messages of this process's threads and of other processes, descriptors travel as ever, and a
//! sender meets the same limits. (Depositing messages in the replay's world, as the drop-in for
//! crossbeam-channel does, would lose all of that as soon as one end is in another process.) A
//! receiver reads on until it finds the message that its log names. Messages that it reads before
//! wait in its [`Inbox`], which moves with the receiver.
//!
//! Reading ahead keeps a sender from waiting for room in the channel that is being read, and not
//! in others. A sender that comes later there than in its recording may find no room, and its
//! message does not come. The search for stalls ends that, by a desynchronisation.
//!
//! **Invariant:** no lock and no inbox is held while upstream reads a message, which may
//! run the program's code.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::sync::Mutex;
use std::time::Duration;

use ::ipc_channel::ipc as raw;
use ::ipc_channel::{IpcError, TryRecvError};
use rr_channel_log::identity::ChannelId;
use rr_channel_log::{Event, Op, Outcome};
use rustc_hash::FxHashMap;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::now::{Foreign, Now, log, message, now, source};
use super::wire::{Arrival, Packet};
use rr_channel_core::engine::chaos;
use rr_channel_core::engine::replay::{Engine, Expected, Native, Source};
use rr_channel_core::platform::clock;
use rr_channel_core::platform::lock::lock;
use rr_channel_core::recorder::tag::Tag;

/// How long a replay waits in the kernel before it looks whether it may go on waiting.
pub(super) const STEP: Duration = Duration::from_millis(20);

/// Upstream's end of a channel.
pub(super) trait Receive {
    type Item;

    fn block(&self) -> Result<Self::Item, IpcError>;
    fn poll(&self) -> Result<Self::Item, TryRecvError>;
    fn poll_for(&self, timeout: Duration) -> Result<Self::Item, TryRecvError>;
    fn tag(item: &Self::Item) -> Option<Tag>;
}

impl<T: DeserializeOwned + Serialize> Receive for raw::IpcReceiver<Arrival<T>> {
    type Item = Arrival<T>;

    fn block(&self) -> Result<Arrival<T>, IpcError> {
        self.recv()
    }

    fn poll(&self) -> Result<Arrival<T>, TryRecvError> {
        self.try_recv()
    }

    fn poll_for(&self, timeout: Duration) -> Result<Arrival<T>, TryRecvError> {
        self.try_recv_timeout(timeout)
    }

    fn tag(item: &Arrival<T>) -> Option<Tag> {
        item.tag()
    }
}

impl Receive for raw::IpcBytesReceiver {
    type Item = Packet;

    fn block(&self) -> Result<Packet, IpcError> {
        self.recv().map(Packet::of_bytes)
    }

    fn poll(&self) -> Result<Packet, TryRecvError> {
        self.try_recv().map(Packet::of_bytes)
    }

    fn poll_for(&self, timeout: Duration) -> Result<Packet, TryRecvError> {
        // Upstream has no timed receive of bytes.
        let until = clock::now() + timeout;
        loop {
            match self.poll() {
                Err(TryRecvError::Empty) if clock::now() < until => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                found => return found,
            }
        }
    }

    fn tag(item: &Packet) -> Option<Tag> {
        item.tag
    }
}

/// Messages that a receiver has read before their turn.
#[derive(Debug)]
pub(super) struct Inbox<M> {
    pub(super) early: VecDeque<(Tag, M)>,
    pub(super) foreign: Foreign,
}

impl<M> Default for Inbox<M> {
    fn default() -> Self {
        Inbox {
            early: VecDeque::new(),
            foreign: Foreign::default(),
        }
    }
}

impl<M> Inbox<M> {
    fn take(&mut self, tag: Tag) -> Option<M> {
        let at = self.early.iter().position(|(t, _)| *t == tag)?;
        self.early.remove(at).map(|(_, message)| message)
    }

    fn take_oldest(&mut self) -> Option<(Tag, M)> {
        self.early.pop_front()
    }

    pub(super) fn map<N>(self, f: impl FnMut((Tag, M)) -> Option<(Tag, N)>) -> Inbox<N> {
        Inbox {
            early: self.early.into_iter().filter_map(f).collect(),
            foreign: self.foreign,
        }
    }
}

/// Inboxes of receivers that are in messages.
static TRAVELLING: Mutex<Option<FxHashMap<ChannelId, Inbox<Packet>>>> = Mutex::new(None);

fn travelling<R>(f: impl FnOnce(&mut FxHashMap<ChannelId, Inbox<Packet>>) -> R) -> R {
    let mut inboxes = lock(&TRAVELLING);
    f(inboxes.get_or_insert_default())
}

/// The receiver of the channel `id` leaves, in a message.
pub(super) fn leave(id: ChannelId, inbox: Inbox<Packet>) {
    if !matches!(now(), Now::Off) {
        let old = travelling(|inboxes| inboxes.insert(id, inbox));
        drop(old);
    }
}

/// The receiver of the channel `id` arrives, in a message.
pub(super) fn arrive(id: ChannelId) -> Inbox<Packet> {
    travelling(|inboxes| inboxes.remove(&id)).unwrap_or_default()
}

/// The outcome of an attempt in which upstream found no message.
fn outcome(error: &TryRecvError, native: Native) -> Outcome {
    match error {
        TryRecvError::Empty if matches!(native, Native::Until(_)) => Outcome::Timeout,
        TryRecvError::Empty => Outcome::Empty,
        TryRecvError::IpcError(IpcError::Disconnected) => Outcome::Disconnected,
        TryRecvError::IpcError(IpcError::Io(error)) => failed(error),
        TryRecvError::IpcError(IpcError::SerializationError(_)) => Outcome::Failed { code: 0 },
    }
}

pub(super) fn failed(error: &io::Error) -> Outcome {
    Outcome::Failed {
        code: error.raw_os_error().unwrap_or(0) as u64,
    }
}

/// Upstream's error for a recorded failure.
pub(super) fn failure(code: u64) -> io::Error {
    io::Error::from_raw_os_error(code as i32)
}

/// How a receive ends, as upstream says it.
const fn disconnected() -> TryRecvError {
    TryRecvError::IpcError(IpcError::Disconnected)
}

/// A channel's end in this process.
pub(super) struct Place<'a, R: Receive> {
    pub(super) raw: &'a R,
    pub(super) id: ChannelId,
    pub(super) inbox: &'a RefCell<Inbox<R::Item>>,
}

impl<R: Receive> Place<'_, R> {
    /// Receives a message, as recorded or as it comes; `timeout` goes with `native`.
    #[track_caller]
    pub(super) fn receive(
        &self,
        op: Op,
        native: Native,
        timeout: Duration,
    ) -> Result<R::Item, TryRecvError> {
        match now() {
            Now::Off => self.natively(native, timeout),
            Now::Record => {
                chaos::point();
                self.record(op, native, timeout)
            }
            Now::Replay(engine) => self.replay(engine, op, native, timeout),
        }
    }

    fn natively(&self, native: Native, timeout: Duration) -> Result<R::Item, TryRecvError> {
        match native {
            Native::Block => self.raw.block().map_err(TryRecvError::IpcError),
            Native::Try => self.raw.poll(),
            Native::Until(_) => self.raw.poll_for(timeout),
        }
    }

    /// Does so natively, and logs the outcome.
    #[track_caller]
    fn record(&self, op: Op, native: Native, timeout: Duration) -> Result<R::Item, TryRecvError> {
        let found = self.natively(native, timeout);
        let outcome = match &found {
            Ok(item) => message(self.inbox.borrow_mut().foreign.tag(R::tag(item))),
            Err(error) => outcome(error, native),
        };
        log(op, Some(self.id), outcome);
        found
    }

    #[track_caller]
    fn replay(
        &self,
        engine: &'static Engine,
        op: Op,
        native: Native,
        timeout: Duration,
    ) -> Result<R::Item, TryRecvError> {
        let event = match engine.expect(op, Some(self.id)) {
            Expected::Live => return self.live(op, native, timeout),
            Expected::End => {
                self.read_until(engine, Source::Anywhere, None, |_| None::<()>);
                return self.live(op, native, timeout);
            }
            Expected::Event(event) => event,
        };
        match event.outcome {
            Outcome::Message { sender, number } => {
                let tag = Tag::new(sender, number);
                let source = source(engine, sender);
                let take = |closed: bool| match self.inbox.borrow_mut().take(tag) {
                    Some(item) => Some(Some(item)),
                    None => closed.then_some(None),
                };
                match self.read_until(engine, source, Some(event), take) {
                    Some(Some(item)) => {
                        engine.came_about();
                        return Ok(item);
                    }
                    Some(None) => engine.give_up(event),
                    None => {}
                }
            }
            Outcome::Disconnected => {
                let is_closed = |closed: bool| closed.then_some(());
                if self
                    .read_until(engine, Source::Anywhere, Some(event), is_closed)
                    .is_some()
                {
                    engine.came_about();
                    return Err(disconnected());
                }
            }
            Outcome::Timeout => {
                let deadline = match native {
                    Native::Until(deadline) => Some(deadline),
                    _ => None,
                };
                engine.expire(event, deadline);
                return Err(TryRecvError::Empty);
            }
            Outcome::Failed { code } => {
                engine.came_about();
                return Err(IpcError::Io(failure(code)).into());
            }
            _ => {
                engine.came_about();
                return Err(TryRecvError::Empty);
            }
        }
        self.live(op, native, timeout)
    }

    /// Reads messages into the inbox until `done`, which is told whether the channel has
    /// been closed. `None` if the thread goes live instead.
    fn read_until<B>(
        &self,
        engine: &'static Engine,
        source: Source,
        expected: Option<Event>,
        mut done: impl FnMut(bool) -> Option<B>,
    ) -> Option<B> {
        let mut closed = false;
        let mut listening = None;
        loop {
            if let Some(done) = done(closed) {
                return Some(done);
            }
            let found = match &listening {
                None => self.raw.poll(),
                // Nothing else is to come: only to be released.
                Some(_) if closed => {
                    std::thread::sleep(STEP);
                    Err(TryRecvError::Empty)
                }
                Some(_) => self.raw.poll_for(STEP),
            };
            match found {
                Ok(item) => {
                    let mut inbox = self.inbox.borrow_mut();
                    let tag = inbox.foreign.tag(R::tag(&item));
                    inbox.early.push_back((tag, item));
                }
                Err(TryRecvError::IpcError(IpcError::Disconnected)) if !closed => closed = true,
                Err(error) => {
                    if !matches!(error, TryRecvError::Empty) {
                        // It may pass; if not, the search for stalls ends the wait.
                        std::thread::sleep(STEP);
                    }
                    let listening =
                        listening.get_or_insert_with(|| engine.listen(source, expected, None));
                    if listening.is_released() {
                        return None;
                    }
                    continue;
                }
            }
            if let Some(listening) = &listening {
                listening.heard();
            }
        }
    }

    /// Receives an available message: first one that was read before.
    #[track_caller]
    fn live(&self, op: Op, native: Native, timeout: Duration) -> Result<R::Item, TryRecvError> {
        let early = self.inbox.borrow_mut().take_oldest();
        match early {
            Some((tag, item)) => {
                log(op, Some(self.id), message(tag));
                Ok(item)
            }
            None => self.record(op, native, timeout),
        }
    }
}
