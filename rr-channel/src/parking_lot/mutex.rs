#![expect(unsafe_code, reason = "lock_api's traits are unsafe to implement")]
//! Raw mutexes.
//!
//! **Safety** rests on: each lock and unlock is exactly one of upstream's raw mutex, whose
//! guarantees these are; what is recorded around it has no part in them.

use std::fmt;
use std::time::{Duration, Instant};

use ::parking_lot as raw;
use lock_api::{RawMutex as _, RawMutexFair as _};
use rr_channel_log::Op;

use super::attempt;
use crate::acquire::{Count, acquire, observe};
use crate::engine::order::Order;
use crate::engine::session::{Session, session};

/// A raw mutex, of which [`Mutex`](super::Mutex) is made.
pub struct RawMutex {
    pub(super) order: Order,
    pub(super) raw: raw::RawMutex,
}

impl RawMutex {
    #[track_caller]
    fn attempt(&self, op: Op, deadline: Option<Instant>, try_lock: impl FnOnce() -> bool) -> bool {
        let lock = || self.raw.lock();
        attempt(&self.order, op, Count::Took, deadline, try_lock, lock)
    }
}

// SAFETY: as the raw mutex, which is locked and unlocked whenever this is.
unsafe impl lock_api::RawMutex for RawMutex {
    const INIT: Self = RawMutex {
        order: Order::new(),
        raw: raw::RawMutex::INIT,
    };

    type GuardMarker = <raw::RawMutex as lock_api::RawMutex>::GuardMarker;

    #[inline]
    #[track_caller]
    fn lock(&self) {
        acquire(&self.order, Op::Lock, Count::Took, || self.raw.lock());
    }

    #[inline]
    #[track_caller]
    fn try_lock(&self) -> bool {
        self.attempt(Op::TryLock, None, || self.raw.try_lock())
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller holds this lock, so it holds the raw one.
        unsafe { self.raw.unlock() };
    }

    #[track_caller]
    fn is_locked(&self) -> bool {
        observe(Op::IsLocked, || self.raw.is_locked().into()) != 0
    }
}

// SAFETY: as the raw mutex.
unsafe impl lock_api::RawMutexFair for RawMutex {
    #[inline]
    unsafe fn unlock_fair(&self) {
        // SAFETY: the caller holds this lock, so it holds the raw one.
        unsafe { self.raw.unlock_fair() };
    }

    unsafe fn bump(&self) {
        match session() {
            // SAFETY: as above.
            Session::Off => unsafe { self.raw.bump() },
            _ => {
                // Always lets go, so that what comes next is an acquisition.
                // SAFETY: as above; the lock is held again in the end.
                unsafe { self.raw.unlock_fair() };
                self.lock();
            }
        }
    }
}

// SAFETY: as the raw mutex.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    #[track_caller]
    fn try_lock_for(&self, timeout: Duration) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        self.attempt(Op::LockDeadline, deadline, || {
            self.raw.try_lock_for(timeout)
        })
    }

    #[track_caller]
    fn try_lock_until(&self, timeout: Instant) -> bool {
        self.attempt(Op::LockDeadline, Some(timeout), || {
            self.raw.try_lock_until(timeout)
        })
    }
}

impl fmt::Debug for RawMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawMutex").finish_non_exhaustive()
    }
}

/// A raw mutex, of which [`FairMutex`](super::FairMutex) is made.
#[derive(Debug)]
pub struct RawFairMutex(RawMutex);

// SAFETY: as the mutex inside.
unsafe impl lock_api::RawMutex for RawFairMutex {
    const INIT: Self = RawFairMutex(RawMutex::INIT);

    type GuardMarker = <RawMutex as lock_api::RawMutex>::GuardMarker;

    #[inline]
    #[track_caller]
    fn lock(&self) {
        self.0.lock();
    }

    #[inline]
    #[track_caller]
    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller holds this lock, so it holds the one inside.
        unsafe { self.0.unlock_fair() };
    }

    #[track_caller]
    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

// SAFETY: as the mutex inside.
unsafe impl lock_api::RawMutexFair for RawFairMutex {
    #[inline]
    unsafe fn unlock_fair(&self) {
        // SAFETY: the caller holds this lock, so it holds the one inside.
        unsafe { self.0.unlock_fair() };
    }

    unsafe fn bump(&self) {
        // SAFETY: as above.
        unsafe { self.0.bump() };
    }
}

// SAFETY: as the mutex inside.
unsafe impl lock_api::RawMutexTimed for RawFairMutex {
    type Duration = Duration;
    type Instant = Instant;

    #[track_caller]
    fn try_lock_for(&self, timeout: Duration) -> bool {
        self.0.try_lock_for(timeout)
    }

    #[track_caller]
    fn try_lock_until(&self, timeout: Instant) -> bool {
        self.0.try_lock_until(timeout)
    }
}
