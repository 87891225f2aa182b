//! A drop-in for [`crossbeam-channel`](https://docs.rs/crossbeam-channel/0.5).
//!
//! Names, signatures, guarantees and panics are upstream's, whose documentation
//! applies; error types *are* upstream's. Where nothing is recorded or replayed, a
//! channel is upstream's channel behind one branch.
//!
//! ```
//! use rr_channel::crossbeam_channel::{select, unbounded};
//!
//! let (s, r) = unbounded();
//! s.send("hello").unwrap();
//! select! {
//!     recv(r) -> msg => assert_eq!(msg, Ok("hello")),
//!     default => unreachable!(),
//! }
//! ```

mod channel;
mod gather;
mod iter;
mod record;
mod select;
mod select_macro;
mod waiting;

pub use ::crossbeam_channel::{
    ReadyTimeoutError, RecvError, RecvTimeoutError, SelectTimeoutError, SendError,
    SendTimeoutError, TryReadyError, TryRecvError, TrySelectError, TrySendError,
};

pub(crate) use self::channel::bounded_with;
pub use self::channel::{Receiver, Sender, after, at, bounded, never, tick, unbounded};
pub use self::iter::{IntoIter, Iter, TryIter};
pub use self::select::{Select, SelectedOperation};
#[doc(hidden)]
pub use crate::crossbeam_channel_internal;
pub use crate::select;
#[cfg(feature = "upstream-0.5.14")]
pub use crate::select_biased;
