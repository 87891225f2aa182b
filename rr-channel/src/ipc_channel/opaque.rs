//! Ends of channels whose type is forgotten.

use std::cell::RefCell;
use std::fmt;

use ::ipc_channel::ipc as raw;
use rr_channel_log::identity::ChannelId;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::handle::handles;
use super::inbox::{self, Inbox};
use super::new_id;
use super::typed::{IpcReceiver, IpcSender};
use super::wire::{Handle, Kind, Packet, Read, other_kind, read_handle, write_handle};

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

handles!(OpaqueIpcSender as Sender, OpaqueIpcReceiver as Receiver);
