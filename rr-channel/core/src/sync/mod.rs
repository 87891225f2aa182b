//! A drop-in for [`std::sync`]: locks whose order records and replays.
//!
//! Names, guarantees, poisoning and panics are `std`'s, whose documentation applies;
//! errors, the guards of [`RwLock`] and all else that is re-exported here *are*
//! `std`'s. Everything can be made in a constant. Where nothing is recorded or
//! replayed, a lock is `std`'s behind one branch.
//!
//! A replay acquires each lock in the recorded order. It ends each wait for a condition variable,
//! barrier or initialization when the event that ended it in the recording has happened. Not
//! there: items that are unstable in `std`. Not recorded: [`Mutex::clear_poison`] by a thread that
//! does not hold the lock, and the output of `Debug`.
//!
//! ```
//! use rr_channel::sync::{Condvar, Mutex};
//! use rr_channel::thread;
//!
//! static QUEUE: Mutex<Vec<&str>> = Mutex::new(Vec::new());
//! static FILLED: Condvar = Condvar::new();
//!
//! for who in ["left", "right"] {
//!     thread::spawn(move || {
//!         QUEUE.lock().unwrap().push(who);
//!         FILLED.notify_one();
//!     });
//! }
//! let queue = QUEUE.lock().unwrap();
//! // Left first or right first: recorded, and the same in replay.
//! let queue = FILLED.wait_while(queue, |queue| queue.len() < 2).unwrap();
//! assert_eq!(queue.len(), 2);
//! ```

mod barrier;
mod condvar;
mod lazy_lock;
mod mutex;
mod once;
mod once_calls;
mod once_lock;
mod rwlock;

pub use std::sync::{
    Arc, LockResult, OnceState, PoisonError, RwLockReadGuard, RwLockWriteGuard, TryLockError,
    TryLockResult, WaitTimeoutResult, Weak, atomic,
};

pub use self::barrier::{Barrier, BarrierWaitResult};
pub use self::condvar::Condvar;
pub use self::lazy_lock::LazyLock;
pub use self::mutex::{Mutex, MutexGuard};
#[doc(hidden)]
pub use self::once::Attempts;
pub use self::once::Once;
pub use self::once_lock::OnceLock;
pub use self::rwlock::RwLock;
pub use crate::mpsc;

use rr_channel_log::{Event, Op, Outcome};

use crate::engine::context;

/// Logs an outcome that needs no name.
#[track_caller]
fn log(op: Op, outcome: Outcome) {
    context::log(Event {
        op,
        channel: None,
        outcome,
    });
}

/// Logs an observation, and returns it.
#[track_caller]
fn observed(op: Op, value: bool) -> bool {
    log(op, Outcome::Value(value.into()));
    value
}

/// The same result with another guard.
fn map<G, H>(result: LockResult<G>, f: impl FnOnce(G) -> H) -> LockResult<H> {
    match result {
        Ok(guard) => Ok(f(guard)),
        Err(error) => Err(PoisonError::new(f(error.into_inner()))),
    }
}

/// As [`map`], for attempts.
fn try_map<G, H>(result: TryLockResult<G>, f: impl FnOnce(G) -> H) -> TryLockResult<H> {
    match result {
        Ok(guard) => Ok(f(guard)),
        Err(TryLockError::Poisoned(error)) => Err(TryLockError::Poisoned(PoisonError::new(f(
            error.into_inner(),
        )))),
        Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
    }
}

/// Logs how an attempt came out, `acquired` if it was successful.
#[track_caller]
fn attempted<G>(result: &TryLockResult<G>, op: Op, acquired: impl FnOnce()) {
    match result {
        Err(TryLockError::WouldBlock) => log(op, Outcome::Busy),
        _ => acquired(),
    }
}
