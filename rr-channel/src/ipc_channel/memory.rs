#![expect(
    unsafe_code,
    reason = "upstream's `deref_mut` is unsafe, and so is this"
)]
//! Shared memory, which is upstream's: writes to it are not recorded.
//!
//! **Safety** rests on: callers keep upstream's contract.

use std::fmt;
use std::ops::Deref;

use ::ipc_channel::ipc as raw;
use rr_channel_log::identity::{ChannelId, ThreadId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::wire::{Handle, Kind, Read, other_kind, read_handle, write_handle};

/// Memory that is shared with its receivers.
#[derive(Clone, PartialEq)]
pub struct IpcSharedMemory(raw::IpcSharedMemory);

impl IpcSharedMemory {
    /// Shared memory with these bytes.
    pub fn from_bytes(bytes: &[u8]) -> IpcSharedMemory {
        IpcSharedMemory(raw::IpcSharedMemory::from_bytes(bytes))
    }

    /// Shared memory that is filled with a byte.
    pub fn from_byte(byte: u8, length: usize) -> IpcSharedMemory {
        IpcSharedMemory(raw::IpcSharedMemory::from_byte(byte, length))
    }

    /// The bytes; perhaps a copy of them.
    pub fn take(self) -> Option<Vec<u8>> {
        self.0.take()
    }

    /// The bytes, to be changed.
    ///
    /// # Safety
    /// As upstream's: no other code reads or writes them meanwhile, also in other processes.
    pub unsafe fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the caller's promise is the one that upstream wants.
        unsafe { self.0.deref_mut() }
    }
}

impl Deref for IpcSharedMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for IpcSharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for IpcSharedMemory {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let no_channel = ChannelId {
            creator: ThreadId(0),
            number: 0,
        };
        write_handle(&self.0, Kind::Memory, no_channel, serializer)
    }
}

impl<'de> Deserialize<'de> for IpcSharedMemory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match read_handle(Kind::Memory, deserializer)? {
            Read::Packed(Handle::Memory(raw), _) | Read::Plain(raw) => Ok(IpcSharedMemory(raw)),
            Read::Packed(..) => Err(other_kind()),
        }
    }
}
