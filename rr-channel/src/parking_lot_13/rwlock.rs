#![expect(unsafe_code, reason = "lock_api's traits are unsafe to implement")]
//! A raw lock for many readers or one writer.
//!
//! A replay lets readers in one after the other, in the recorded order; once in, they share
//! the lock. Downgrading lets others in and waits for nobody, so it is not recorded.
//!
//! **Safety** rests on: each lock and unlock is exactly one of upstream's raw lock, whose
//! guarantees these are; what is recorded around it has no part in them. The state of an
//! acquisition is upstream's, which has none: all its values are alike.

use std::cell::Cell;
use std::fmt;
use std::mem;
use std::time::{Duration, Instant};

use ::parking_lot_13 as raw;
use lock_api_5 as lock_api;
use lock_api_5::{RawRwLock as _, RawRwLockUpgrade as _};
use rr_channel_log::Op;

use super::mutex::Guard;
use crate::acquire::{Count, acquire, attempt, observe};
use crate::engine::order::Order;
use crate::engine::session::{Session, session};

/// A raw lock, of which [`RwLock`](super::RwLock) is made.
pub struct RawRwLock<const RECURSIVE: bool = false> {
    order: Order,
    raw: raw::RawRwLock<RECURSIVE>,
}

/// A raw lock, of which [`RecursiveRwLock`](super::RecursiveRwLock) is made.
pub type RawRwLockRecursive = RawRwLock<true>;

impl<const RECURSIVE: bool> RawRwLock<RECURSIVE> {
    #[track_caller]
    fn attempt_shared(
        &self,
        op: Op,
        deadline: Option<Instant>,
        try_lock: impl FnOnce() -> Option<Guard>,
    ) -> Option<Guard> {
        let lock = || self.raw.lock_shared();
        attempt(&self.order, op, Count::Shared, deadline, try_lock, lock)
    }

    #[track_caller]
    fn attempt_exclusive(
        &self,
        op: Op,
        deadline: Option<Instant>,
        try_lock: impl FnOnce() -> Option<Guard>,
    ) -> Option<Guard> {
        let lock = || self.raw.lock_exclusive();
        attempt(&self.order, op, Count::Took, deadline, try_lock, lock)
    }

    #[track_caller]
    fn attempt_upgradable(
        &self,
        op: Op,
        deadline: Option<Instant>,
        try_lock: impl FnOnce() -> Option<Guard>,
    ) -> Option<Guard> {
        let lock = || self.raw.lock_upgradable();
        attempt(&self.order, op, Count::Shared, deadline, try_lock, lock)
    }

    /// # Safety
    /// The caller holds the lock, and can upgrade.
    #[track_caller]
    unsafe fn attempt_upgrade(
        &self,
        op: Op,
        deadline: Option<Instant>,
        guard: Guard,
        try_upgrade: impl FnOnce(Guard) -> Result<Guard, Guard>,
    ) -> Result<Guard, Guard> {
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

    /// Lets go of the lock and acquires it again, so that what comes next is an acquisition.
    fn bump(
        guard: &mut Guard,
        raw: impl FnOnce(&mut Guard),
        unlock: impl FnOnce(Guard),
        lock: impl FnOnce() -> Guard,
    ) {
        match session() {
            Session::Off => raw(guard),
            _ => {
                unlock(mem::take(guard));
                *guard = lock();
            }
        }
    }
}

fn after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

// SAFETY: as the raw lock, which is locked and unlocked whenever this is.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLock for RawRwLock<RECURSIVE> {
    const INIT: Self = RawRwLock {
        order: Order::new(),
        raw: raw::RawRwLock::INIT,
    };

    type SharedGuard = Guard;
    type ExclusiveGuard = Guard;

    #[inline]
    #[track_caller]
    fn lock_shared(&self) -> Guard {
        acquire(&self.order, Op::Read, Count::Shared, || {
            self.raw.lock_shared()
        })
    }

    #[inline]
    #[track_caller]
    fn try_lock_shared(&self) -> Option<Guard> {
        self.attempt_shared(Op::TryRead, None, || self.raw.try_lock_shared())
    }

    #[inline]
    unsafe fn unlock_shared(&self, guard: Guard) {
        // SAFETY: the caller holds this lock, so it holds the raw one.
        unsafe { self.raw.unlock_shared(guard) };
    }

    #[inline]
    #[track_caller]
    fn lock_exclusive(&self) -> Guard {
        acquire(&self.order, Op::Write, Count::Took, || {
            self.raw.lock_exclusive()
        })
    }

    #[inline]
    #[track_caller]
    fn try_lock_exclusive(&self) -> Option<Guard> {
        self.attempt_exclusive(Op::TryWrite, None, || self.raw.try_lock_exclusive())
    }

    #[inline]
    unsafe fn unlock_exclusive(&self, guard: Guard) {
        // SAFETY: the caller holds this lock, so it holds the raw one.
        unsafe { self.raw.unlock_exclusive(guard) };
    }

    #[track_caller]
    fn is_locked(&self) -> bool {
        observe(Op::IsLocked, || self.raw.is_locked().into()) != 0
    }

    #[track_caller]
    fn is_locked_exclusive(&self) -> bool {
        observe(Op::IsLocked, || self.raw.is_locked_exclusive().into()) != 0
    }
}

// SAFETY: as the raw lock.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLockFair for RawRwLock<RECURSIVE> {
    unsafe fn unlock_shared_fair(&self, guard: Guard) {
        // SAFETY: the caller holds this lock, so it holds the raw one.
        unsafe { self.raw.unlock_shared_fair(guard) };
    }

    unsafe fn unlock_exclusive_fair(&self, guard: Guard) {
        // SAFETY: as above.
        unsafe { self.raw.unlock_exclusive_fair(guard) };
    }

    #[track_caller]
    unsafe fn bump_shared(&self, guard: &mut Guard) {
        Self::bump(
            guard,
            // SAFETY: as above.
            |guard| unsafe { self.raw.bump_shared(guard) },
            // SAFETY: as above; the lock is held again in the end.
            |guard| unsafe { self.raw.unlock_shared_fair(guard) },
            || self.lock_shared(),
        );
    }

    #[track_caller]
    unsafe fn bump_exclusive(&self, guard: &mut Guard) {
        Self::bump(
            guard,
            // SAFETY: as above.
            |guard| unsafe { self.raw.bump_exclusive(guard) },
            // SAFETY: as above; the lock is held again in the end.
            |guard| unsafe { self.raw.unlock_exclusive_fair(guard) },
            || self.lock_exclusive(),
        );
    }
}

// SAFETY: as the raw lock.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLockDowngrade for RawRwLock<RECURSIVE> {
    unsafe fn downgrade(&self, guard: Guard) -> Guard {
        // SAFETY: the caller holds this lock exclusively, so it holds the raw one so.
        unsafe { self.raw.downgrade(guard) }
    }
}

// SAFETY: as the raw lock.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLockTimed for RawRwLock<RECURSIVE> {
    type Duration = Duration;
    type Instant = Instant;

    #[track_caller]
    fn try_lock_shared_for(&self, timeout: Duration) -> Option<Guard> {
        self.attempt_shared(Op::ReadDeadline, after(timeout), || {
            self.raw.try_lock_shared_for(timeout)
        })
    }

    #[track_caller]
    fn try_lock_shared_until(&self, timeout: Instant) -> Option<Guard> {
        self.attempt_shared(Op::ReadDeadline, Some(timeout), || {
            self.raw.try_lock_shared_until(timeout)
        })
    }

    #[track_caller]
    fn try_lock_exclusive_for(&self, timeout: Duration) -> Option<Guard> {
        self.attempt_exclusive(Op::WriteDeadline, after(timeout), || {
            self.raw.try_lock_exclusive_for(timeout)
        })
    }

    #[track_caller]
    fn try_lock_exclusive_until(&self, timeout: Instant) -> Option<Guard> {
        self.attempt_exclusive(Op::WriteDeadline, Some(timeout), || {
            self.raw.try_lock_exclusive_until(timeout)
        })
    }
}

// SAFETY: as the raw lock.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLockUpgrade for RawRwLock<RECURSIVE> {
    type UpgradableGuard = Guard;

    #[track_caller]
    fn lock_upgradable(&self) -> Guard {
        // Others may be reading.
        acquire(&self.order, Op::Upgradable, Count::Shared, || {
            self.raw.lock_upgradable()
        })
    }

    #[track_caller]
    fn try_lock_upgradable(&self) -> Option<Guard> {
        self.attempt_upgradable(Op::TryUpgradable, None, || self.raw.try_lock_upgradable())
    }

    unsafe fn unlock_upgradable(&self, guard: Guard) {
        // SAFETY: the caller holds this lock so, and the raw one too.
        unsafe { self.raw.unlock_upgradable(guard) };
    }

    #[track_caller]
    unsafe fn upgrade(&self, guard: Guard) -> Guard {
        acquire(&self.order, Op::Upgrade, Count::Took, || {
            // SAFETY: as above.
            unsafe { self.raw.upgrade(guard) }
        })
    }

    #[track_caller]
    unsafe fn try_upgrade(&self, guard: Guard) -> Result<Guard, Guard> {
        // SAFETY: as above; the closure is called at most once.
        unsafe {
            self.attempt_upgrade(Op::TryUpgrade, None, guard, |guard| {
                self.raw.try_upgrade(guard)
            })
        }
    }
}

// SAFETY: as the raw lock.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLockUpgradeFair for RawRwLock<RECURSIVE> {
    unsafe fn unlock_upgradable_fair(&self, guard: Guard) {
        // SAFETY: the caller holds this lock so, and the raw one too.
        unsafe { self.raw.unlock_upgradable_fair(guard) };
    }

    #[track_caller]
    unsafe fn bump_upgradable(&self, guard: &mut Guard) {
        Self::bump(
            guard,
            // SAFETY: as above.
            |guard| unsafe { self.raw.bump_upgradable(guard) },
            // SAFETY: as above; the lock is held again in the end.
            |guard| unsafe { self.raw.unlock_upgradable_fair(guard) },
            || self.lock_upgradable(),
        );
    }
}

// SAFETY: as the raw lock.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLockUpgradeDowngrade for RawRwLock<RECURSIVE> {
    unsafe fn downgrade_upgradable(&self, guard: Guard) -> Guard {
        // SAFETY: the caller holds this lock so, and the raw one too.
        unsafe { self.raw.downgrade_upgradable(guard) }
    }

    unsafe fn downgrade_to_upgradable(&self, guard: Guard) -> Guard {
        // SAFETY: as above.
        unsafe { self.raw.downgrade_to_upgradable(guard) }
    }
}

// SAFETY: as the raw lock.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLockUpgradeTimed for RawRwLock<RECURSIVE> {
    #[track_caller]
    fn try_lock_upgradable_for(&self, timeout: Duration) -> Option<Guard> {
        self.attempt_upgradable(Op::UpgradableDeadline, after(timeout), || {
            self.raw.try_lock_upgradable_for(timeout)
        })
    }

    #[track_caller]
    fn try_lock_upgradable_until(&self, timeout: Instant) -> Option<Guard> {
        self.attempt_upgradable(Op::UpgradableDeadline, Some(timeout), || {
            self.raw.try_lock_upgradable_until(timeout)
        })
    }

    #[track_caller]
    unsafe fn try_upgrade_for(&self, guard: Guard, timeout: Duration) -> Result<Guard, Guard> {
        // SAFETY: the caller holds this lock so, and the raw one too; the closure is
        // called at most once.
        unsafe {
            self.attempt_upgrade(Op::UpgradeDeadline, after(timeout), guard, |guard| {
                self.raw.try_upgrade_for(guard, timeout)
            })
        }
    }

    #[track_caller]
    unsafe fn try_upgrade_until(&self, guard: Guard, timeout: Instant) -> Result<Guard, Guard> {
        // SAFETY: as above.
        unsafe {
            self.attempt_upgrade(Op::UpgradeDeadline, Some(timeout), guard, |guard| {
                self.raw.try_upgrade_until(guard, timeout)
            })
        }
    }
}

impl<const RECURSIVE: bool> fmt::Debug for RawRwLock<RECURSIVE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawRwLock").finish_non_exhaustive()
    }
}
