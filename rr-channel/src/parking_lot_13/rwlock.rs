#![expect(unsafe_code, reason = "lock_api's traits are unsafe to implement")]
//! A raw lock for many readers or one writer.
//!
//! **Safety** rests on what [`raw_rwlock`] says. The state of an acquisition is upstream's,
//! which has none: all its values are alike.

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

use ::parking_lot_13 as raw;
use lock_api_5 as lock_api;
use lock_api_5::{RawRwLock as _, RawRwLockUpgrade as _};
use rr_channel_log::Op;

use super::mutex::Acquired;
use crate::raw_locks::{Count, acquire, after, attempt, observe, raw_rwlock};
use rr_channel_core::engine::order::Order;
use rr_channel_core::engine::session::{Session, session};

type Attempted = Option<Acquired>;
type Upgraded = Result<Acquired, Acquired>;

/// A raw lock, of which [`RwLock`](super::RwLock) is made.
pub struct RawRwLock<const RECURSIVE: bool = false> {
    order: Order,
    raw: raw::RawRwLock<RECURSIVE>,
}

/// A raw lock, of which [`RecursiveRwLock`](super::RecursiveRwLock) is made.
pub type RawRwLockRecursive = RawRwLock<true>;

impl<const RECURSIVE: bool> RawRwLock<RECURSIVE> {
    /// # Safety
    /// The caller holds the lock, and can upgrade.
    #[track_caller]
    unsafe fn attempt_upgrade(
        &self,
        op: Op,
        deadline: Option<Instant>,
        guard: Acquired,
        try_upgrade: impl FnOnce(Acquired) -> Upgraded,
    ) -> Upgraded {
        // One of the two closures is called.
        let guard = Cell::new(guard);
        let attempted = || match try_upgrade(guard.take()) {
            Ok(upgraded) => Some(upgraded),
            Err(kept) => {
                guard.set(kept);
                None
            }
        };
        // SAFETY: the caller's promise; it is called at most once, in place of
        // `try_upgrade`.
        let upgrade = || unsafe { self.raw.upgrade(guard.take()) };
        attempt(&self.order, op, Count::Took, deadline, attempted, upgrade)
            .ok_or_else(|| guard.take())
    }
}

raw_rwlock!(
    impl [<const RECURSIVE: bool>] RawRwLock<RECURSIVE>,
    guard: [guard],
    types: {
        type SharedGuard = Acquired;
        type ExclusiveGuard = Acquired;
    },
    upgradable: { type UpgradableGuard = Acquired; }
);
