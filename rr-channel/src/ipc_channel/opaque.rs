//! Ends of channels whose type is forgotten.

use std::cell::RefCell;
use std::fmt;

use ::ipc_channel::ipc as raw;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::inbox::{self, Inbox};
use super::new_id;
use super::typed::{IpcReceiver, IpcSender};
use super::wire::{Handle, Kind, Packet, Read, other_kind, read_handle, write_handle};
use crate::identity::ChannelId;

/// A sender that does not know the type of its values.
#[derive(Clone)]
pub struct OpaqueIpcSender {
    pub(super) raw: raw::OpaqueIpcSender,
    pub(super) id: ChannelId,
}

/// A receiver that does not know the type of its values.
pub struct OpaqueIpcReceiver {
    pub(super) raw: raw::OpaqueIpcReceiver,
    pub(super) id: ChannelId,
    pub(super) inbox: RefCell<Inbox<Packet>>,
}

impl OpaqueIpcSender {
    /// The sender of values of that type.
    pub fn to<'de, T>(self) -> IpcSender<T>
    where
        T: Deserialize<'de> + Serialize,
    {
        IpcSender::new(self.raw, self.id)
    }
}

impl OpaqueIpcReceiver {
    /// The receiver of values of that type.
    pub fn to<'de, T>(self) -> IpcReceiver<T>
    where
        T: Deserialize<'de> + Serialize,
    {
        IpcReceiver::untyped(self.raw, self.id, self.inbox.into_inner())
    }
}

impl fmt::Debug for OpaqueIpcSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

impl fmt::Debug for OpaqueIpcReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

impl Serialize for OpaqueIpcSender {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write_handle(&self.raw, Kind::Sender, self.id, serializer)
    }
}

impl Serialize for OpaqueIpcReceiver {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        inbox::leave(self.id, self.inbox.take());
        write_handle(&self.raw, Kind::Receiver, self.id, serializer)
    }
}

impl<'de> Deserialize<'de> for OpaqueIpcSender {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (raw, id) = match read_handle(Kind::Sender, deserializer)? {
            Read::Packed(Handle::Sender(raw), id) => (raw, id),
            Read::Packed(..) => return Err(other_kind()),
            Read::Plain(raw) => (raw, new_id()),
        };
        Ok(OpaqueIpcSender { raw, id })
    }
}

impl<'de> Deserialize<'de> for OpaqueIpcReceiver {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (raw, id) = match read_handle(Kind::Receiver, deserializer)? {
            Read::Packed(Handle::Receiver(raw), id) => (raw, id),
            Read::Packed(..) => return Err(other_kind()),
            Read::Plain(raw) => (raw, new_id()),
        };
        Ok(OpaqueIpcReceiver {
            raw,
            id,
            inbox: RefCell::new(inbox::arrive(id)),
        })
    }
}
