//! Channels of values.

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::time::Duration;

use ::ipc_channel::ipc as raw;
use ::ipc_channel::{IpcError, TryRecvError};
use rr_channel_log::identity::ChannelId;
use rr_channel_log::{Op, Outcome};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::inbox::{self, Inbox, Place};
use super::now::{Now, log, now};
use super::opaque::{OpaqueIpcReceiver, OpaqueIpcSender};
use super::outward;
use super::set;
use super::wire::{Arrival, Handle, Kind, Outgoing, Packet, Read, other_kind};
use super::wire::{read_handle, write_handle};
use super::{new_id, new_id_of};
use rr_channel_core::engine::chaos;
use rr_channel_core::engine::context;
use rr_channel_core::engine::replay::Native;
use rr_channel_core::platform::clock;
use rr_channel_core::recorder::tag::Tag;

/// The sending end of a channel of values.
pub struct IpcSender<T> {
    raw: raw::OpaqueIpcSender,
    id: ChannelId,
    values: PhantomData<T>,
}

/// The receiving end of a channel of values.
pub struct IpcReceiver<T> {
    /// Upstream's receiver, until its type is needed.
    untyped: Cell<Option<raw::OpaqueIpcReceiver>>,
    typed: OnceCell<raw::IpcReceiver<Arrival<T>>>,
    id: ChannelId,
    inbox: RefCell<Inbox<Arrival<T>>>,
}

/// Creates a channel of values.
///
/// # Errors
/// If the system cannot create one.
pub fn channel<T>() -> Result<(IpcSender<T>, IpcReceiver<T>), io::Error>
where
    T: for<'de> Deserialize<'de> + Serialize,
{
    let id = new_id_of::<T>();
    // Upstream's two ends are of one type; ours are not.
    let (tx, rx) = raw::channel::<Outgoing<T>>()?;
    Ok((
        IpcSender::new(tx.to_opaque(), id),
        IpcReceiver::untyped(rx.to_opaque(), id, Inbox::default()),
    ))
}

/// Sends by `send`, which is told the message's tag if it is to be stamped.
#[track_caller]
pub(super) fn send(
    id: ChannelId,
    send: impl FnOnce(Option<Tag>) -> Result<(), IpcError>,
) -> Result<(), IpcError> {
    let now = now();
    if let Now::Off = now {
        return send(None);
    }
    chaos::point();
    let tag = context::next_tag();
    context::sends(Op::Send, id, tag);
    set::sends_here(id);
    let result = outward::in_turn(id, || send(Some(tag)));
    if let Now::Replay(engine) = now {
        engine.has_sent(tag);
    }
    match now {
        Now::Replay(engine) => match engine.was_refused(id, tag) {
            Some(true) if !is_refused(&result) => {
                Err(IpcError::Io(inbox::failure(libc::EPIPE as u64)))
            }
            // As recorded, it found a receiver; that there is none by now is nothing
            // that its sender may see.
            Some(false) if is_refused(&result) => Ok(()),
            Some(_) => result,
            None => logged(id, tag, result),
        },
        _ => logged(id, tag, result),
    }
}

const fn is_refused(result: &Result<(), IpcError>) -> bool {
    matches!(result, Err(IpcError::Io(_) | IpcError::Disconnected))
}

/// Logs the outcome of a send.
#[track_caller]
fn logged(id: ChannelId, tag: Tag, result: Result<(), IpcError>) -> Result<(), IpcError> {
    if is_refused(&result) {
        let number = tag.number();
        log(Op::Send, Some(id), Outcome::Refused { number });
    }
    result
}

impl<T: Serialize> IpcSender<T> {
    /// Creates a sender to the server of that name.
    ///
    /// # Errors
    /// If there is no such server.
    pub fn connect(name: String) -> Result<IpcSender<T>, io::Error> {
        let raw = raw::IpcSender::<Outgoing<T>>::connect(name)?;
        Ok(IpcSender::new(raw.to_opaque(), outward::new_name()))
    }

    /// Sends a value.
    ///
    /// # Errors
    /// If the value cannot be serialized, or the receiver is gone.
    #[inline]
    #[track_caller]
    pub fn send(&self, data: T) -> Result<(), IpcError> {
        // Another reference to the same descriptor.
        let raw = self.raw.clone().to();
        send(self.id, |tag| raw.send(Outgoing::new(data, tag)))
    }

    /// Forgets the type of the values.
    pub fn to_opaque(self) -> OpaqueIpcSender {
        OpaqueIpcSender {
            raw: self.raw,
            id: self.id,
        }
    }
}

impl<T> IpcSender<T> {
    pub(super) const fn new(raw: raw::OpaqueIpcSender, id: ChannelId) -> Self {
        IpcSender {
            raw,
            id,
            values: PhantomData,
        }
    }
}

impl<T> IpcReceiver<T> {
    pub(super) fn untyped(
        raw: raw::OpaqueIpcReceiver,
        id: ChannelId,
        inbox: Inbox<Packet>,
    ) -> Self {
        let packed = |(tag, packet)| Some((tag, Arrival::Packet(packet)));
        IpcReceiver {
            untyped: Cell::new(Some(raw)),
            typed: OnceCell::new(),
            id,
            inbox: RefCell::new(inbox.map(packed)),
        }
    }

    pub(super) fn typed(raw: raw::IpcReceiver<Arrival<T>>, id: ChannelId) -> Self {
        IpcReceiver {
            untyped: Cell::new(None),
            typed: OnceCell::from(raw),
            id,
            inbox: RefCell::default(),
        }
    }

    /// The tag of the first message, which came with its connection.
    pub(super) fn was_first(&self, tag: Option<Tag>) -> Tag {
        if tag.is_some() {
            // The sender's name for the channel is another one.
            set::sends_here(self.id);
        }
        self.inbox.borrow_mut().foreign.tag(tag)
    }
}

/// The messages of an inbox, of any type; foreign ones that have been made values already are
/// lost.
pub(super) fn untyped<T>(inbox: Inbox<Arrival<T>>) -> Inbox<Packet> {
    inbox.map(|(tag, arrival)| match arrival {
        Arrival::Packet(packet) => Some((tag, packet)),
        Arrival::Value(_) => None,
    })
}

impl<T> IpcReceiver<T>
where
    T: for<'de> Deserialize<'de> + Serialize,
{
    fn raw(&self) -> &raw::IpcReceiver<Arrival<T>> {
        self.typed.get_or_init(|| match self.untyped.take() {
            Some(raw) => raw.to(),
            // Upstream would use a descriptor that is none.
            None => panic!("a receiver was used after it had been sent"),
        })
    }

    #[track_caller]
    fn receive(
        &self,
        op: Op,
        native: Native,
        timeout: Duration,
    ) -> Result<Arrival<T>, TryRecvError> {
        let place = Place {
            raw: self.raw(),
            id: self.id,
            inbox: &self.inbox,
        };
        place.receive(op, native, timeout)
    }

    /// The message that was the first one in the recording; `first` came with the
    /// connection.
    #[track_caller]
    pub(super) fn first_as_recorded(&self, first: Arrival<T>) -> Result<Arrival<T>, IpcError> {
        let tag = self.was_first(first.tag());
        self.inbox.borrow_mut().early.push_back((tag, first));
        blocking(self.receive(Op::Accept, Native::Block, Duration::ZERO))
    }

    /// Waits for a value.
    ///
    /// # Errors
    /// If there is none and no sender, or it cannot be deserialized.
    #[track_caller]
    pub fn recv(&self) -> Result<T, IpcError> {
        blocking(self.receive(Op::Recv, Native::Block, Duration::ZERO))?.open()
    }

    /// Attempts to receive a value without blocking.
    ///
    /// # Errors
    /// If there is none, or it cannot be deserialized.
    #[track_caller]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let arrival = self.receive(Op::TryRecv, Native::Try, Duration::ZERO)?;
        arrival.open().map_err(TryRecvError::IpcError)
    }

    /// Waits for a value for a limited time, or somewhat longer.
    ///
    /// # Errors
    /// If there is none in that time, or it cannot be deserialized.
    #[track_caller]
    pub fn try_recv_timeout(&self, duration: Duration) -> Result<T, TryRecvError> {
        let arrival = self.receive(Op::RecvDeadline, until(duration), duration)?;
        arrival.open().map_err(TryRecvError::IpcError)
    }

    /// Forgets the type of the values.
    pub fn to_opaque(self) -> OpaqueIpcReceiver {
        self.raw();
        let raw = match self.typed.into_inner() {
            Some(raw) => raw.to_opaque(),
            None => unreachable!("it was typed just now"),
        };
        OpaqueIpcReceiver {
            raw,
            id: self.id,
            inbox: RefCell::new(untyped(self.inbox.into_inner())),
        }
    }
}

/// The result of a receive that waits without a deadline.
pub(super) fn blocking<M>(found: Result<M, TryRecvError>) -> Result<M, IpcError> {
    found.map_err(|error| match error {
        TryRecvError::IpcError(error) => error,
        TryRecvError::Empty => unreachable!("a blocking receive waits"),
    })
}

/// The deadline of a timeout, if there is such an instant.
pub(super) fn until(timeout: Duration) -> Native {
    clock::now()
        .checked_add(timeout)
        .map_or(Native::Block, Native::Until)
}

impl<T: Serialize> Clone for IpcSender<T> {
    fn clone(&self) -> Self {
        IpcSender {
            raw: self.raw.clone(),
            id: self.id,
            values: PhantomData,
        }
    }
}

impl<T> fmt::Debug for IpcSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IpcSender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for IpcReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IpcReceiver").finish_non_exhaustive()
    }
}

impl<T> Serialize for IpcSender<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write_handle(&self.raw, Kind::Sender, self.id, serializer)
    }
}

impl<T> Serialize for IpcReceiver<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        inbox::leave(self.id, untyped(self.inbox.take()));
        match (self.typed.get(), self.untyped.take()) {
            (Some(raw), _) => write_handle(raw, Kind::Receiver, self.id, serializer),
            (None, Some(raw)) => write_handle(&raw, Kind::Receiver, self.id, serializer),
            (None, None) => Err(S::Error::custom("the receiver has been sent already")),
        }
    }
}

impl<'de, T> Deserialize<'de> for IpcSender<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (raw, id) = match read_handle(Kind::Sender, deserializer)? {
            Read::Packed(Handle::Sender(raw), id) => (raw, id),
            Read::Packed(..) => return Err(other_kind()),
            Read::Plain(raw) => (raw, outward::new_name()),
        };
        Ok(IpcSender::new(raw, id))
    }
}

impl<'de, T> Deserialize<'de> for IpcReceiver<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (raw, id) = match read_handle(Kind::Receiver, deserializer)? {
            Read::Packed(Handle::Receiver(raw), id) => (raw, id),
            Read::Packed(..) => return Err(other_kind()),
            Read::Plain(raw) => (raw, new_id()),
        };
        Ok(IpcReceiver::untyped(raw, id, inbox::arrive(id)))
    }
}
