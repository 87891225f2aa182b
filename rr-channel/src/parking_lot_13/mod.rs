//! A drop-in for [`parking_lot`](https://docs.rs/parking_lot/0.13) 0.13.
//!
//! The raw locks are recorded, so all that [`lock_api`] makes of them is: guards, mapped
//! guards, reentrant mutexes, condition variables. Names, signatures and guarantees are
//! upstream's, whose documentation applies, but there is no detection of deadlocks.
//!
//! The return values of [`Condvar::notify_one`] and [`Condvar::notify_all`] are recorded, as is
//! that of `is_locked`.
//!
//! ```
//! use rr_channel::parking_lot_13::{Condvar, Mutex};
//! use rr_channel::thread;
//!
//! static READY: Mutex<bool> = Mutex::new(false);
//! static CHANGED: Condvar = Condvar::new();
//!
//! thread::spawn(|| {
//!     *READY.lock() = true;
//!     CHANGED.notify_one();
//! });
//! let mut ready = READY.lock();
//! CHANGED.wait_while(&mut ready, |ready| !*ready);
//! ```

mod condvar;
mod mutex;
mod once;
mod rwlock;

pub use ::lock_api_5 as lock_api;
pub use ::parking_lot_13::{OnceState, RawThreadId, WaitTimeoutResult};

pub use self::condvar::RawCondvar;
pub use self::mutex::{RawFairMutex, RawMutex};
pub use self::once::Once;
pub use self::rwlock::{RawRwLock, RawRwLockRecursive};

use crate::raw_locks::lock_aliases;

lock_aliases!();

/// A condition variable.
pub type Condvar = lock_api::Condvar<RawCondvar>;

/// A lock for many readers or one writer, which admits threads again that read already.
pub type RecursiveRwLock<T> = lock_api::RwLock<RawRwLockRecursive, T>;
/// Holds a [`RecursiveRwLock`] for reading until it is dropped.
pub type RecursiveRwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLockRecursive, T>;
/// Holds a [`RecursiveRwLock`] for writing until it is dropped.
pub type RecursiveRwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLockRecursive, T>;
/// Holds a [`RecursiveRwLock`] for reading, and perhaps writing later, until it is dropped.
pub type RecursiveRwLockUpgradableReadGuard<'a, T> =
    lock_api::RwLockUpgradableReadGuard<'a, RawRwLockRecursive, T>;
/// A [`RecursiveRwLockReadGuard`] of a part of the guarded value.
pub type MappedRecursiveRwLockReadGuard<'a, T> =
    lock_api::MappedRwLockReadGuard<'a, RawRwLockRecursive, T>;
/// A [`RecursiveRwLockWriteGuard`] of a part of the guarded value.
pub type MappedRecursiveRwLockWriteGuard<'a, T> =
    lock_api::MappedRwLockWriteGuard<'a, RawRwLockRecursive, T>;
