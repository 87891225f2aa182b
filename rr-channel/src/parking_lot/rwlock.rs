#![expect(unsafe_code, reason = "lock_api's traits are unsafe to implement")]
//! A raw lock for many readers or one writer.
//!
//! **Safety** rests on what [`raw_rwlock`] says.

use std::fmt;
use std::time::{Duration, Instant};

use ::parking_lot as raw;
use lock_api::{RawRwLock as _, RawRwLockRecursive as _, RawRwLockUpgrade as _};
use rr_channel_log::Op;

use super::attempt::attempt;
use crate::raw_locks::{Count, acquire, after, observe, raw_rwlock};
use rr_channel_core::engine::order::Order;
use rr_channel_core::engine::session::{Session, session};

type Acquired = ();
type Attempted = bool;
type Upgraded = bool;

/// A raw lock, of which [`RwLock`](super::RwLock) is made.
pub struct RawRwLock {
    order: Order,
    raw: raw::RawRwLock,
}

impl RawRwLock {
    /// # Safety
    /// The caller holds the lock, and can upgrade.
    #[track_caller]
    unsafe fn attempt_upgrade(
        &self,
        op: Op,
        deadline: Option<Instant>,
        try_upgrade: impl FnOnce() -> bool,
    ) -> bool {
        // SAFETY: the caller's promise; it is called at most once, in place of
        // `try_upgrade`.
        let upgrade = || unsafe { self.raw.upgrade() };
        attempt(&self.order, op, Count::Took, deadline, try_upgrade, upgrade)
    }
}

raw_rwlock!(
    impl [] RawRwLock,
    guard: [],
    types: { type GuardMarker = <raw::RawRwLock as lock_api::RawRwLock>::GuardMarker; },
    upgradable: {}
);

// SAFETY: as the raw lock.
unsafe impl lock_api::RawRwLockRecursive for RawRwLock {
    #[track_caller]
    fn lock_shared_recursive(&self) {
        acquire(&self.order, Op::Read, Count::Shared, || {
            self.raw.lock_shared_recursive();
        });
    }

    #[track_caller]
    fn try_lock_shared_recursive(&self) -> bool {
        attempt(
            &self.order,
            Op::TryRead,
            Count::Shared,
            None,
            || self.raw.try_lock_shared_recursive(),
            || self.raw.lock_shared_recursive(),
        )
    }
}

// SAFETY: as the raw lock.
unsafe impl lock_api::RawRwLockRecursiveTimed for RawRwLock {
    #[track_caller]
    fn try_lock_shared_recursive_for(&self, timeout: Duration) -> bool {
        attempt(
            &self.order,
            Op::ReadDeadline,
            Count::Shared,
            after(timeout),
            || self.raw.try_lock_shared_recursive_for(timeout),
            || self.raw.lock_shared_recursive(),
        )
    }

    #[track_caller]
    fn try_lock_shared_recursive_until(&self, timeout: Instant) -> bool {
        attempt(
            &self.order,
            Op::ReadDeadline,
            Count::Shared,
            Some(timeout),
            || self.raw.try_lock_shared_recursive_until(timeout),
            || self.raw.lock_shared_recursive(),
        )
    }
}
