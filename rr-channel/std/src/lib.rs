//! A `std` whose locks, channels and threads record and replay.
//!
//! A crate that is compiled with `--extern std=` and this crate has it for its `std`, without an
//! edit. The types of `std::sync` and `std::thread` by which threads wait for each other are those
//! of `rr_channel_core`; all else is `std` itself.
//!
//! Each replaced name is listed, because a name that came through two globs would be `std`'s. What
//! a later compiler adds comes through the globs, and is not recorded.
//!
//! A crate that builds locks or channels of its own out of atomics, and parks threads, needs the
//! real `std`: what its operations return depends on more than the order of what it uses of these.
//!
//! # Layers
//!
//! | layer | modules | purpose |
//! |---|---|---|
//! | 1 | `sync`, `thread` | the names that are replaced |

#![no_std]

extern crate std as real;

pub use real::*;

/// Locks and channels.
pub mod sync {
    pub use real::sync::*;
    #[doc(inline)]
    pub use rr_channel_core::sync::{
        Barrier, BarrierWaitResult, Condvar, LazyLock, Mutex, MutexGuard, Once, OnceLock, RwLock,
    };

    /// The value of a [`Once`] that has not run.
    #[expect(
        clippy::declare_interior_mutable_const,
        reason = "programs use it to initialize a static, as they use std's"
    )]
    #[deprecated(note = "the `Once::new()` function is now preferred")]
    pub const ONCE_INIT: Once = Once::new();

    /// Channels.
    pub mod mpsc {
        pub use real::sync::mpsc::*;
        #[doc(inline)]
        pub use rr_channel_core::mpsc::{
            IntoIter, Iter, Receiver, Sender, SyncSender, TryIter, channel, sync_channel,
        };
    }
}

/// Threads.
pub mod thread {
    pub use real::thread::*;
    #[doc(inline)]
    pub use rr_channel_core::thread::{
        Builder, JoinHandle, Scope, ScopedJoinHandle, Thread, current, park, park_timeout, scope,
        spawn,
    };

    /// As [`park_timeout`], in milliseconds.
    #[deprecated(note = "replaced by `std::thread::park_timeout`")]
    #[track_caller]
    pub fn park_timeout_ms(ms: u32) {
        park_timeout(real::time::Duration::from_millis(ms.into()));
    }
}
