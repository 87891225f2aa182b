#![expect(unsafe_code, reason = "lock_api's traits are unsafe to implement")]
//! Raw mutexes.
//!
//! **Safety** rests on: each lock and unlock is exactly one of upstream's raw mutex, whose
//! guarantees these are; what is recorded around it has no part in them. The state of an
//! acquisition is upstream's, which has none: all its values are alike.

use std::fmt;
use std::mem;
use std::time::{Duration, Instant};

use ::parking_lot_13 as raw;
use lock_api_5 as lock_api;
use lock_api_5::{RawMutex as _, RawMutexFair as _};
use rr_channel_log::Op;

use crate::acquire::{Count, acquire, attempt, observe};
use crate::engine::order::Order;
use crate::engine::session::{Session, session};

/// What whoever holds a mutex has.
pub(super) type Guard = <raw::RawMutex as lock_api::RawMutex>::Guard;

/// A raw mutex, of which [`Mutex`](super::Mutex) is made.
pub struct RawMutex {
    pub(super) order: Order,
    pub(super) raw: raw::RawMutex,
}

impl RawMutex {
    #[track_caller]
    fn attempt(
        &self,
        op: Op,
        deadline: Option<Instant>,
        try_lock: impl FnOnce() -> Option<Guard>,
    ) -> Option<Guard> {
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

    type Guard = Guard;

    #[inline]
    #[track_caller]
    fn lock(&self) -> Guard {
        acquire(&self.order, Op::Lock, Count::Took, || self.raw.lock())
    }

    #[inline]
    #[track_caller]
    fn try_lock(&self) -> Option<Guard> {
        self.attempt(Op::TryLock, None, || self.raw.try_lock())
    }

    #[inline]
    unsafe fn unlock(&self, guard: Guard) {
        // SAFETY: the caller holds this lock, so it holds the raw one.
        unsafe { self.raw.unlock(guard) };
    }

    #[track_caller]
    fn is_locked(&self) -> bool {
        observe(Op::IsLocked, || self.raw.is_locked().into()) != 0
    }
}

// SAFETY: as the raw mutex.
unsafe impl lock_api::RawMutexFair for RawMutex {
    #[inline]
    unsafe fn unlock_fair(&self, guard: Guard) {
        // SAFETY: the caller holds this lock, so it holds the raw one.
        unsafe { self.raw.unlock_fair(guard) };
    }

    unsafe fn bump(&self, guard: &mut Guard) {
        match session() {
            // SAFETY: as above.
            Session::Off => unsafe { self.raw.bump(guard) },
            _ => {
                // Always lets go, so that what comes next is an acquisition.
                // SAFETY: as above; the lock is held again in the end.
                unsafe { self.raw.unlock_fair(mem::take(guard)) };
                *guard = self.lock();
            }
        }
    }
}

// SAFETY: as the raw mutex.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    #[track_caller]
    fn try_lock_for(&self, timeout: Duration) -> Option<Guard> {
        let deadline = Instant::now().checked_add(timeout);
        self.attempt(Op::LockDeadline, deadline, || {
            self.raw.try_lock_for(timeout)
        })
    }

    #[track_caller]
    fn try_lock_until(&self, timeout: Instant) -> Option<Guard> {
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

    type Guard = Guard;

    #[inline]
    #[track_caller]
    fn lock(&self) -> Guard {
        self.0.lock()
    }

    #[inline]
    #[track_caller]
    fn try_lock(&self) -> Option<Guard> {
        self.0.try_lock()
    }

    #[inline]
    unsafe fn unlock(&self, guard: Guard) {
        // SAFETY: the caller holds this lock, so it holds the one inside.
        unsafe { self.0.unlock_fair(guard) };
    }

    #[track_caller]
    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

// SAFETY: as the mutex inside.
unsafe impl lock_api::RawMutexFair for RawFairMutex {
    #[inline]
    unsafe fn unlock_fair(&self, guard: Guard) {
        // SAFETY: the caller holds this lock, so it holds the one inside.
        unsafe { self.0.unlock_fair(guard) };
    }

    unsafe fn bump(&self, guard: &mut Guard) {
        // SAFETY: as above.
        unsafe { self.0.bump(guard) };
    }
}

// SAFETY: as the mutex inside.
unsafe impl lock_api::RawMutexTimed for RawFairMutex {
    type Duration = Duration;
    type Instant = Instant;

    #[track_caller]
    fn try_lock_for(&self, timeout: Duration) -> Option<Guard> {
        self.0.try_lock_for(timeout)
    }

    #[track_caller]
    fn try_lock_until(&self, timeout: Instant) -> Option<Guard> {
        self.0.try_lock_until(timeout)
    }
}
