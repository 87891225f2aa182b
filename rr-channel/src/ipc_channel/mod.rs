//! A drop-in for [`ipc-channel`](https://docs.rs/ipc-channel/0.23).
//!
//! Names, signatures, guarantees and panics are upstream's, whose documentation applies; error
//! types *are* upstream's. Without recording or replay, a channel is upstream's channel behind one
//! branch, and its messages are upstream's to the byte. While recording, a message carries a
//! stamp, which a plain receiver does not see. (Bytes channels are the exception: there the
//! receiver must be of this crate, in any mode.)
//!
//! Only events between the threads of one process are replayed, and the order in which they send
//! to other processes, into channels whose senders came from there. Messages of other processes
//! arrive as ever, and are told apart by their order in their channel. In a replay, the other
//! processes must run again.
//!
//! Upstream's feature `async` is the feature `ipc_channel_async` here. Not there: the module
//! `platform`.
//!
//! ```
//! use rr_channel::ipc_channel::ipc;
//!
//! let (tx, rx) = ipc::channel().unwrap();
//! tx.send("hello".to_owned()).unwrap();
//! assert_eq!(rx.recv().unwrap(), "hello");
//! ```

#[cfg(feature = "ipc_channel_async")]
pub mod asynch;
pub mod ipc;
pub mod router;

mod bytes;
mod handle;
mod inbox;
mod memory;
mod now;
mod opaque;
mod outward;
mod server;
mod set;
mod typed;
mod wire;

pub use ::ipc_channel::{IpcError, SerDeError, TryRecvError, TrySelectError};

use self::now::{new_id, new_id_of};
