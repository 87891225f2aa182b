//! A drop-in for [`parking_lot`](https://docs.rs/parking_lot/0.13) 0.13.
//!
//! The raw locks are recorded, so all that [`lock_api`] makes of them is: guards, mapped
//! guards, reentrant mutexes, condition variables. Names, signatures and guarantees are
//! upstream's, whose documentation applies, but there is no detection of deadlocks.
//!
//! What [`Condvar::notify_one`] and [`Condvar::notify_all`] return is recorded, as is what
//! `is_locked` does.
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

/// A mutual exclusion primitive.
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;
/// Holds a [`Mutex`] until it is dropped.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;
/// A [`MutexGuard`] of a part of what is guarded.
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

/// A mutual exclusion primitive that always lets the thread have it that waited longest.
pub type FairMutex<T> = lock_api::Mutex<RawFairMutex, T>;
/// Holds a [`FairMutex`] until it is dropped.
pub type FairMutexGuard<'a, T> = lock_api::MutexGuard<'a, RawFairMutex, T>;
/// A [`FairMutexGuard`] of a part of what is guarded.
pub type MappedFairMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawFairMutex, T>;

/// A mutual exclusion primitive that its owner can acquire again.
pub type ReentrantMutex<T> = lock_api::ReentrantMutex<RawMutex, RawThreadId, T>;
/// Holds a [`ReentrantMutex`] until it is dropped.
pub type ReentrantMutexGuard<'a, T> = lock_api::ReentrantMutexGuard<'a, RawMutex, RawThreadId, T>;
/// A [`ReentrantMutexGuard`] of a part of what is guarded.
pub type MappedReentrantMutexGuard<'a, T> =
    lock_api::MappedReentrantMutexGuard<'a, RawMutex, RawThreadId, T>;

/// A condition variable.
pub type Condvar = lock_api::Condvar<RawCondvar>;

/// A lock for many readers or one writer.
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
/// Holds an [`RwLock`] for reading until it is dropped.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;
/// Holds an [`RwLock`] for writing until it is dropped.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;
/// Holds an [`RwLock`] for reading, and perhaps writing later, until it is dropped.
pub type RwLockUpgradableReadGuard<'a, T> = lock_api::RwLockUpgradableReadGuard<'a, RawRwLock, T>;
/// An [`RwLockReadGuard`] of a part of what is guarded.
pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;
/// An [`RwLockWriteGuard`] of a part of what is guarded.
pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;

/// A lock for many readers or one writer, which lets readers in who read already.
pub type RecursiveRwLock<T> = lock_api::RwLock<RawRwLockRecursive, T>;
/// Holds a [`RecursiveRwLock`] for reading until it is dropped.
pub type RecursiveRwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLockRecursive, T>;
/// Holds a [`RecursiveRwLock`] for writing until it is dropped.
pub type RecursiveRwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLockRecursive, T>;
/// Holds a [`RecursiveRwLock`] for reading, and perhaps writing later, until it is dropped.
pub type RecursiveRwLockUpgradableReadGuard<'a, T> =
    lock_api::RwLockUpgradableReadGuard<'a, RawRwLockRecursive, T>;
/// A [`RecursiveRwLockReadGuard`] of a part of what is guarded.
pub type MappedRecursiveRwLockReadGuard<'a, T> =
    lock_api::MappedRwLockReadGuard<'a, RawRwLockRecursive, T>;
/// A [`RecursiveRwLockWriteGuard`] of a part of what is guarded.
pub type MappedRecursiveRwLockWriteGuard<'a, T> =
    lock_api::MappedRwLockWriteGuard<'a, RawRwLockRecursive, T>;
