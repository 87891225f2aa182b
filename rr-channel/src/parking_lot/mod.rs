//! A drop-in for [`parking_lot`](https://docs.rs/parking_lot/0.12) 0.12.
//!
//! The raw locks are recorded, so all that [`lock_api`] makes of them is: guards, mapped
//! guards, reentrant mutexes. Names, signatures and guarantees are upstream's, whose
//! documentation applies, but for these: a [`Condvar`] that is used with several mutexes at
//! once does not panic, [`WaitTimeoutResult`] is a type of our own, and there is no
//! detection of deadlocks.
//!
//! What [`Condvar::notify_one`] and [`Condvar::notify_all`] return is recorded, as is what
//! `is_locked` does.
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
use std::time::Instant;

use lock_api::RawMutex as _;
use lock_api::RawRwLock as _;
use rr_channel_log::Op;

use crate::acquire::{self, Count};
use crate::engine::order::Order;

/// As [`acquire::attempt`], where a lock is held without a value that says so; whether it was.
#[inline]
#[track_caller]
fn attempt(
    order: &Order,
    op: Op,
    count: Count,
    deadline: Option<Instant>,
    try_lock: impl FnOnce() -> bool,
    lock: impl FnOnce(),
) -> bool {
    let try_lock = || try_lock().then_some(());
    acquire::attempt(order, op, count, deadline, try_lock, lock).is_some()
}

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
