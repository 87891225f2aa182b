//! Channels of bytes.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::time::Duration;

use ::ipc_channel::ipc as raw;
use ::ipc_channel::{IpcError, TryRecvError};
use rr_channel_log::Op;
use rr_channel_log::identity::ChannelId;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::handle::handles;
use super::inbox::{self, Inbox, Place};
use super::now::{Now, now};
use super::typed::{blocking, send};
use super::wire::{self, Handle, Kind, Packet, Read, other_kind, read_handle, write_handle};
use super::{new_id, new_id_of};
use rr_channel_core::engine::replay::Native;

/// The sending end of a channel of bytes.
#[derive(Clone)]
pub struct IpcBytesSender {
    raw: raw::IpcBytesSender,
    id: ChannelId,
}

/// The receiving end of a channel of bytes.
pub struct IpcBytesReceiver {
    raw: raw::IpcBytesReceiver,
    id: ChannelId,
    inbox: RefCell<Inbox<Packet>>,
}

/// Creates a channel of bytes.
///
/// ```
/// use rr_channel::ipc_channel::ipc;
///
/// let (tx, rx) = ipc::bytes_channel().unwrap();
/// tx.send(b"bytes").unwrap();
/// assert_eq!(rx.recv().unwrap(), b"bytes");
/// ```
///
/// # Errors
/// If the system cannot create one.
pub fn bytes_channel() -> Result<(IpcBytesSender, IpcBytesReceiver), io::Error> {
    let id = new_id_of::<Vec<u8>>();
    let (tx, rx) = raw::bytes_channel()?;
    let inbox = RefCell::default();
    Ok((
        IpcBytesSender { raw: tx, id },
        IpcBytesReceiver { raw: rx, id, inbox },
    ))
}

impl IpcBytesSender {
    /// Sends bytes.
    ///
    /// # Errors
    /// If the receiver is gone.
    #[track_caller]
    pub fn send(&self, data: &[u8]) -> Result<(), io::Error> {
        let sent = send(self.id, |tag| {
            match tag {
                None => self.raw.send(data),
                Some(tag) => self.raw.send(&wire::stamped_bytes(data, tag)),
            }
            .map_err(IpcError::Io)
        });
        sent.map_err(|error| match error {
            IpcError::Io(error) => error,
            error => io::Error::other(error),
        })
    }
}

impl IpcBytesReceiver {
    #[track_caller]
    fn receive(&self, op: Op, native: Native) -> Result<Vec<u8>, TryRecvError> {
        let place = Place {
            raw: &self.raw,
            id: self.id,
            inbox: &self.inbox,
        };
        place
            .receive(op, native, Duration::ZERO)
            .map(|packet| packet.data)
    }

    /// Waits for bytes.
    ///
    /// # Errors
    /// If there are none and no sender.
    #[track_caller]
    pub fn recv(&self) -> Result<Vec<u8>, IpcError> {
        if let Now::Off = now() {
            return self.raw.recv().map(wire::plain_bytes);
        }
        blocking(self.receive(Op::Recv, Native::Block))
    }

    /// Attempts to receive bytes without blocking.
    ///
    /// # Errors
    /// If there are none.
    #[track_caller]
    pub fn try_recv(&self) -> Result<Vec<u8>, TryRecvError> {
        if let Now::Off = now() {
            return self.raw.try_recv().map(wire::plain_bytes);
        }
        self.receive(Op::TryRecv, Native::Try)
    }
}

handles!(
    IpcBytesSender as BytesSender,
    IpcBytesReceiver as BytesReceiver
);
