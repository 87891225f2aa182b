//! Sets of receivers; one selection takes all messages that are there.
//!
//! The log of a selection is the number of its results, and each of them. A set's messages become
//! values only when the program names their type. Until then a message that this process sent is a
//! [`Packet`], and any other stays as upstream has read it.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Mutex;
use std::time::Duration;

use ::ipc_channel::ipc as raw;
use ::ipc_channel::{SerDeError, TrySelectError};
use rr_channel_log::identity::ChannelId;
use rr_channel_log::{Event, Op, Outcome};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use super::inbox::{STEP, failed, failure};
use super::now::{Foreign, Now, log, message, now, source};
use super::opaque::OpaqueIpcReceiver;
use super::typed::{IpcReceiver, until};
use super::wire::{Arrival, Packet, Untyped};
use rr_channel_core::engine::chaos;
use rr_channel_core::engine::replay::{Engine, Expected, Listening, Native, Source};
use rr_channel_core::platform::lock::lock;

/// The channels into which threads of this process have sent. Messages of other processes that
/// arrive there at a set must hold no handles. Without a stamp, the number of handles is unknown
/// before the type is known, and upstream shows the stamp only to the code that takes the message.
static SENT_HERE: Mutex<Option<FxHashSet<ChannelId>>> = Mutex::new(None);

fn sent_here<R>(f: impl FnOnce(&mut FxHashSet<ChannelId>) -> R) -> R {
    let mut channels = lock(&SENT_HERE);
    f(channels.get_or_insert_default())
}

/// The calling thread is about to send into the channel `id`.
pub(super) fn sends_here(id: ChannelId) {
    sent_here(|channels| channels.insert(id));
}

/// A set of receivers.
pub struct IpcReceiverSet {
    raw: raw::IpcReceiverSet,
    members: FxHashMap<u64, Member>,
    /// Results that a replay has come by before their turn.
    early: VecDeque<(u64, Outcome, Option<IpcMessage>)>,
}

struct Member {
    id: ChannelId,
    foreign: Foreign,
}

/// A result of a selection.
#[derive(Debug)]
pub enum IpcSelectionResult {
    /// A message of the receiver with this number.
    MessageReceived(u64, IpcMessage),
    /// The receiver with this number has no sender any more, and is no longer in the set.
    ChannelClosed(u64),
}

impl IpcSelectionResult {
    /// The receiver's number and the message.
    ///
    /// # Panics
    /// If the channel was closed.
    pub fn unwrap(self) -> (u64, IpcMessage) {
        match self {
            IpcSelectionResult::MessageReceived(id, message) => (id, message),
            IpcSelectionResult::ChannelClosed(id) => {
                panic!("IpcSelectionResult::unwrap(): channel {id} closed")
            }
        }
    }
}

/// A message of any type.
pub struct IpcMessage(Content);

enum Content {
    Whole(raw::IpcMessage),
    Packet(Packet),
}

impl IpcMessage {
    /// A message of these bytes, without handles.
    pub fn from_data(data: Vec<u8>) -> Self {
        IpcMessage(Content::Whole(raw::IpcMessage::from_data(data)))
    }

    /// The value.
    ///
    /// # Errors
    /// If the message is not one of that type.
    pub fn to<T>(self) -> Result<T, SerDeError>
    where
        T: for<'de> Deserialize<'de> + Serialize,
    {
        match self.0 {
            Content::Packet(packet) => packet.open(),
            Content::Whole(message) => message.to::<Arrival<T>>()?.value(),
        }
    }
}

impl fmt::Debug for IpcMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Content::Whole(message) => message.fmt(f),
            Content::Packet(packet) => raw::IpcMessage::from_data(packet.data.clone()).fmt(f),
        }
    }
}

impl IpcReceiverSet {
    /// A set without receivers.
    ///
    /// # Errors
    /// If the system cannot create one.
    pub fn new() -> Result<IpcReceiverSet, io::Error> {
        Ok(IpcReceiverSet {
            raw: raw::IpcReceiverSet::new()?,
            members: FxHashMap::default(),
            early: VecDeque::new(),
        })
    }

    /// Adds a receiver, and returns its number.
    ///
    /// # Errors
    /// If the system cannot watch it.
    pub fn add<T>(&mut self, receiver: IpcReceiver<T>) -> Result<u64, io::Error>
    where
        T: for<'de> Deserialize<'de> + Serialize,
    {
        self.add_opaque(receiver.to_opaque())
    }

    /// Adds a receiver, and returns its number.
    ///
    /// # Errors
    /// If the system cannot watch it.
    pub fn add_opaque(&mut self, receiver: OpaqueIpcReceiver) -> Result<u64, io::Error> {
        let OpaqueIpcReceiver { raw, id, inbox } = receiver;
        let number = self.raw.add_opaque(raw)?;
        if let Now::Off = now() {
            return Ok(number);
        }
        let inbox = inbox.into_inner();
        for (tag, packet) in inbox.early {
            let content = Some(IpcMessage(Content::Packet(packet)));
            self.early.push_back((number, message(tag), content));
        }
        let foreign = inbox.foreign;
        self.members.insert(number, Member { id, foreign });
        Ok(number)
    }

    /// Waits until there is something to be returned.
    ///
    /// # Errors
    /// If the system refuses to wait.
    #[track_caller]
    pub fn select(&mut self) -> Result<Vec<IpcSelectionResult>, io::Error> {
        self.selection(Op::SetSelect, Native::Block, Duration::ZERO)
            .map_err(|error| match error {
                TrySelectError::IoError(error) => error,
                TrySelectError::Empty => unreachable!("a blocking selection waits"),
            })
    }

    /// Returns the available results.
    ///
    /// # Errors
    /// If there is nothing.
    #[track_caller]
    pub fn try_select(&mut self) -> Result<Vec<IpcSelectionResult>, TrySelectError> {
        self.selection(Op::TrySetSelect, Native::Try, Duration::ZERO)
    }

    /// Waits for a limited time until there is something to be returned.
    ///
    /// # Errors
    /// If there is nothing in that time.
    #[track_caller]
    pub fn try_select_timeout(
        &mut self,
        duration: Duration,
    ) -> Result<Vec<IpcSelectionResult>, TrySelectError> {
        self.selection(Op::SetSelectDeadline, until(duration), duration)
    }

    #[track_caller]
    fn selection(
        &mut self,
        op: Op,
        native: Native,
        timeout: Duration,
    ) -> Result<Vec<IpcSelectionResult>, TrySelectError> {
        match now() {
            Now::Off => {
                let found = self.natively(native, timeout)?;
                Ok(found.into_iter().map(plain).collect())
            }
            Now::Record => {
                chaos::point();
                self.record(op, native, timeout)
            }
            Now::Replay(engine) => self.replay(engine, op, native, timeout),
        }
    }

    fn natively(
        &mut self,
        native: Native,
        timeout: Duration,
    ) -> Result<Vec<raw::IpcSelectionResult>, TrySelectError> {
        match native {
            Native::Block => self.raw.select().map_err(TrySelectError::IoError),
            Native::Try => self.raw.try_select(),
            Native::Until(_) => self.raw.try_select_timeout(timeout),
        }
    }

    /// Does so natively, and logs the outcome.
    #[track_caller]
    fn record(
        &mut self,
        op: Op,
        native: Native,
        timeout: Duration,
    ) -> Result<Vec<IpcSelectionResult>, TrySelectError> {
        let found = self.natively(native, timeout);
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                let outcome = match (&error, native) {
                    (TrySelectError::IoError(error), _) => failed(error),
                    (TrySelectError::Empty, Native::Until(_)) => Outcome::Timeout,
                    (TrySelectError::Empty, _) => Outcome::Empty,
                };
                log(op, None, outcome);
                return Err(error);
            }
        };
        log(op, None, Outcome::Value(found.len() as u64));
        let mut results = Vec::with_capacity(found.len());
        for result in found {
            let (number, outcome, content) = self.look_at(result);
            log(Op::SetRecv, self.id(number), outcome);
            results.push(self.deliver(number, content));
        }
        Ok(results)
    }

    #[track_caller]
    fn replay(
        &mut self,
        engine: &'static Engine,
        op: Op,
        native: Native,
        timeout: Duration,
    ) -> Result<Vec<IpcSelectionResult>, TrySelectError> {
        match engine.expect(op, None) {
            Expected::Live => {}
            Expected::End => self.read_until(engine, Source::Anywhere, None, |_| false),
            Expected::Event(event) => match event.outcome {
                Outcome::Value(count) => {
                    engine.came_about();
                    let results: Vec<_> =
                        (0..count).map_while(|_| self.next_result(engine)).collect();
                    // Fewer if the thread went live meanwhile, or did so when this was
                    // recorded in a replay; and if none, it selected again.
                    if count == 0 || !results.is_empty() {
                        return Ok(results);
                    }
                    return self.replay(engine, op, native, timeout);
                }
                Outcome::Timeout => {
                    let deadline = match native {
                        Native::Until(deadline) => Some(deadline),
                        _ => None,
                    };
                    engine.expire(event, deadline);
                    return Err(TrySelectError::Empty);
                }
                Outcome::Failed { code } => {
                    engine.came_about();
                    return Err(TrySelectError::IoError(failure(code)));
                }
                _ => {
                    engine.came_about();
                    return Err(TrySelectError::Empty);
                }
            },
        }
        self.live(op, native, timeout)
    }

    /// The next result of a recorded selection; `None` if the thread goes live instead, or
    /// there is none.
    fn next_result(&mut self, engine: &'static Engine) -> Option<IpcSelectionResult> {
        if engine.goes_on_without(Op::SetRecv) {
            return None;
        }
        let event = match engine.expect(Op::SetRecv, None) {
            Expected::Live => return None,
            Expected::End => {
                self.read_until(engine, Source::Anywhere, None, |_| false);
                return None;
            }
            Expected::Event(event) => event,
        };
        let source = match event.outcome {
            Outcome::Message { sender, .. } => source(engine, sender),
            _ => Source::Anywhere,
        };
        self.read_until(engine, source, Some(event), |set| {
            set.place_of(event).is_some()
        });
        let at = self.place_of(event)?;
        let (number, _, content) = self.early.remove(at)?;
        engine.came_about();
        Some(self.deliver(number, content))
    }

    /// The position of the result that `event` names, if it is there.
    fn place_of(&self, event: Event) -> Option<usize> {
        self.early.iter().position(|(number, outcome, _)| {
            *outcome == event.outcome && self.id(*number) == event.channel
        })
    }

    /// Reads until `done`, or until the thread goes live.
    fn read_until(
        &mut self,
        engine: &'static Engine,
        source: Source,
        expected: Option<Event>,
        done: impl Fn(&Self) -> bool,
    ) {
        let mut listening: Option<Listening> = None;
        while !done(self) {
            let found = match &listening {
                None => self.raw.try_select(),
                Some(_) => self.raw.try_select_timeout(STEP),
            };
            if let Ok(found) = found {
                for result in found {
                    let looked_at = self.look_at(result);
                    self.early.push_back(looked_at);
                }
                if let Some(listening) = &listening {
                    listening.heard();
                }
                continue;
            }
            let listening = listening.get_or_insert_with(|| engine.listen(source, expected, None));
            if listening.is_released() {
                return;
            }
        }
    }

    /// Returns the available results: first those that were read before.
    #[track_caller]
    fn live(
        &mut self,
        op: Op,
        native: Native,
        timeout: Duration,
    ) -> Result<Vec<IpcSelectionResult>, TrySelectError> {
        if self.early.is_empty() {
            return self.record(op, native, timeout);
        }
        let early = std::mem::take(&mut self.early);
        log(op, None, Outcome::Value(early.len() as u64));
        let mut results = Vec::with_capacity(early.len());
        for (number, outcome, content) in early {
            log(Op::SetRecv, self.id(number), outcome);
            results.push(self.deliver(number, content));
        }
        Ok(results)
    }

    fn id(&self, number: u64) -> Option<ChannelId> {
        self.members.get(&number).map(|member| member.id)
    }

    /// Splits upstream's result into the receiver's number, the outcome to log, and the message.
    fn look_at(&mut self, result: raw::IpcSelectionResult) -> (u64, Outcome, Option<IpcMessage>) {
        let (number, content) = match result {
            raw::IpcSelectionResult::ChannelClosed(number) => {
                return (number, Outcome::Disconnected, None);
            }
            raw::IpcSelectionResult::MessageReceived(number, content) => (number, content),
        };
        let Some(member) = self.members.get_mut(&number) else {
            // Added before this process began to record; there is no such time.
            let content = IpcMessage(Content::Whole(content));
            return (number, Outcome::Empty, Some(content));
        };
        let (tag, content) = if sent_here(|channels| channels.contains(&member.id)) {
            match content.to::<Untyped>() {
                Ok(Untyped(packet)) => (packet.tag, Content::Packet(packet)),
                // A stamp that lists handles which are not there: this crate did not write it.
                Err(_) => (None, Content::Packet(Packet::of_bytes(Vec::new()))),
            }
        } else {
            (None, Content::Whole(content))
        };
        let outcome = message(member.foreign.tag(tag));
        (number, outcome, Some(IpcMessage(content)))
    }

    fn deliver(&mut self, number: u64, content: Option<IpcMessage>) -> IpcSelectionResult {
        match content {
            Some(content) => IpcSelectionResult::MessageReceived(number, content),
            None => {
                self.members.remove(&number);
                IpcSelectionResult::ChannelClosed(number)
            }
        }
    }
}

fn plain(result: raw::IpcSelectionResult) -> IpcSelectionResult {
    match result {
        raw::IpcSelectionResult::MessageReceived(number, content) => {
            IpcSelectionResult::MessageReceived(number, IpcMessage(Content::Whole(content)))
        }
        raw::IpcSelectionResult::ChannelClosed(number) => IpcSelectionResult::ChannelClosed(number),
    }
}
