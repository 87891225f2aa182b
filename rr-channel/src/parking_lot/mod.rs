//! A drop-in for [`parking_lot`](https://docs.rs/parking_lot/0.12) 0.12.
//!
//! The raw locks are recorded, and so are all types that [`lock_api`] makes of them: guards,
//! mapped guards, reentrant mutexes. Names, signatures and guarantees are upstream's, whose
//! documentation applies, with three exceptions. A [`Condvar`] that is used with several mutexes
//! at once does not panic, [`WaitTimeoutResult`] is a type of our own, and there is no detection
//! of deadlocks.
//!
//! The return values of [`Condvar::notify_one`] and [`Condvar::notify_all`] are recorded, as is
//! that of `is_locked`.
//!
//! ```
//! use rr_channel::parking_lot::{Condvar, Mutex, const_mutex};
//! use rr_channel::thread;
//!
//! static READY: Mutex<bool> = const_mutex(false);
//! static CHANGED: Condvar = Condvar::new();
//!
//! thread::spawn(|| {
//!     *READY.lock() = true;
//!     CHANGED.notify_one();
//! });
//! let mut ready = READY.lock();
//! CHANGED.wait_while(&mut ready, |ready| !*ready);
//! ```

mod attempt;
mod condvar;
mod mutex;
mod once;
mod rwlock;

pub use ::lock_api;
pub use ::parking_lot::{OnceState, RawThreadId};

pub use self::condvar::{Condvar, WaitTimeoutResult};
pub use self::mutex::{RawFairMutex, RawMutex};
pub use self::once::Once;
pub use self::rwlock::RawRwLock;
use lock_api::RawMutex as _;
use lock_api::RawRwLock as _;

use crate::raw_locks::lock_aliases;

lock_aliases!();

// By the name that older versions of lock_api have for it, which projects may have locked.

/// Creates an unlocked mutex, also in a constant.
pub const fn const_mutex<T>(value: T) -> Mutex<T> {
    Mutex::const_new(RawMutex::INIT, value)
}

/// Creates an unlocked fair mutex, also in a constant.
pub const fn const_fair_mutex<T>(value: T) -> FairMutex<T> {
    FairMutex::const_new(RawFairMutex::INIT, value)
}

/// Creates an unlocked reentrant mutex, also in a constant.
pub const fn const_reentrant_mutex<T>(value: T) -> ReentrantMutex<T> {
    ReentrantMutex::const_new(
        RawMutex::INIT,
        <RawThreadId as lock_api::GetThreadId>::INIT,
        value,
    )
}

/// Creates an unlocked lock for readers and writers, also in a constant.
pub const fn const_rwlock<T>(value: T) -> RwLock<T> {
    RwLock::const_new(RawRwLock::INIT, value)
}
