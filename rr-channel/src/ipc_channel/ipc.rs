//! Senders, receivers, and what makes them. See
//! [`ipc_channel::ipc`](https://docs.rs/ipc-channel/0.23/ipc_channel/ipc/).

pub use super::bytes::{IpcBytesReceiver, IpcBytesSender, bytes_channel};
pub use super::memory::IpcSharedMemory;
pub use super::opaque::{OpaqueIpcReceiver, OpaqueIpcSender};
pub use super::server::IpcOneShotServer;
pub use super::set::{IpcMessage, IpcReceiverSet, IpcSelectionResult};
pub use super::typed::{IpcReceiver, IpcSender, channel};
