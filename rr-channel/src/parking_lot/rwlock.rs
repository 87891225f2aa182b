#![expect(unsafe_code, reason = "lock_api's traits are unsafe to implement")]
//! A raw lock for many readers or one writer.
//!
//! A replay lets readers in one after the other, in the recorded order; once in, they share
//! the lock. Downgrading lets others in and waits for nobody, so it is not recorded.
//!
//! **Safety** rests on: each lock and unlock is exactly one of upstream's raw lock, whose
//! guarantees these are; what is recorded around it has no part in them.

use std::fmt;
use std::time::{Duration, Instant};

use ::parking_lot as raw;
use lock_api::{RawRwLock as _, RawRwLockRecursive as _, RawRwLockUpgrade as _};
use rr_channel_log::Op;

use super::attempt;
use crate::acquire::{Count, acquire, observe};
use crate::engine::order::Order;
use crate::engine::session::{Session, session};

/// A raw lock, of which [`RwLock`](super::RwLock) is made.
pub struct RawRwLock {
    order: Order,
    raw: raw::RawRwLock,
}

impl RawRwLock {
    #[track_caller]
    fn attempt_shared(
        &self,
        op: Op,
        deadline: Option<Instant>,
        try_lock: impl FnOnce() -> bool,
    ) -> bool {
        let lock = || self.raw.lock_shared();
        attempt(&self.order, op, Count::Shared, deadline, try_lock, lock)
    }

    #[track_caller]
    fn attempt_exclusive(
        &self,
        op: Op,
        deadline: Option<Instant>,
        try_lock: impl FnOnce() -> bool,
    ) -> bool {
        let lock = || self.raw.lock_exclusive();
        attempt(&self.order, op, Count::Took, deadline, try_lock, lock)
    }

    #[track_caller]
    fn attempt_upgradable(
        &self,
        op: Op,
        deadline: Option<Instant>,
        try_lock: impl FnOnce() -> bool,
    ) -> bool {
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
        try_upgrade: impl FnOnce() -> bool,
    ) -> bool {
        // SAFETY: the caller's promise; it is called at most once, in place of
        // `try_upgrade`.
        let upgrade = || unsafe { self.raw.upgrade() };
        attempt(&self.order, op, Count::Took, deadline, try_upgrade, upgrade)
    }

    /// Lets go of the lock and acquires it again, so that what comes next is an acquisition.
    fn bump(&self, raw: impl FnOnce(), unlock: impl FnOnce(), lock: impl FnOnce()) {
        match session() {
            Session::Off => raw(),
            _ => {
                unlock();
                lock();
            }
        }
    }
}

fn after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

// SAFETY: as the raw lock, which is locked and unlocked whenever this is.
unsafe impl lock_api::RawRwLock for RawRwLock {
    const INIT: Self = RawRwLock {
        order: Order::new(),
        raw: raw::RawRwLock::INIT,
    };

    type GuardMarker = <raw::RawRwLock as lock_api::RawRwLock>::GuardMarker;

    #[inline]
    #[track_caller]
    fn lock_shared(&self) {
        acquire(&self.order, Op::Read, Count::Shared, || {
            self.raw.lock_shared();
        });
    }

    #[inline]
    #[track_caller]
    fn try_lock_shared(&self) -> bool {
        self.attempt_shared(Op::TryRead, None, || self.raw.try_lock_shared())
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        // SAFETY: the caller holds this lock, so it holds the raw one.
        unsafe { self.raw.unlock_shared() };
    }

    #[inline]
    #[track_caller]
    fn lock_exclusive(&self) {
        acquire(&self.order, Op::Write, Count::Took, || {
            self.raw.lock_exclusive();
        });
    }

    #[inline]
    #[track_caller]
    fn try_lock_exclusive(&self) -> bool {
        self.attempt_exclusive(Op::TryWrite, None, || self.raw.try_lock_exclusive())
    }

    #[inline]
    #[track_caller]
    unsafe fn unlock_exclusive(&self) {
        // SAFETY: the caller holds this lock, so it holds the raw one.
        unsafe { self.raw.unlock_exclusive() };
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
unsafe impl lock_api::RawRwLockFair for RawRwLock {
    #[track_caller]
    unsafe fn unlock_shared_fair(&self) {
        // SAFETY: the caller holds this lock, so it holds the raw one.
        unsafe { self.raw.unlock_shared_fair() };
    }

    #[track_caller]
    unsafe fn unlock_exclusive_fair(&self) {
        // SAFETY: as above.
        unsafe { self.raw.unlock_exclusive_fair() };
    }

    #[track_caller]
    unsafe fn bump_shared(&self) {
        self.bump(
            // SAFETY: as above.
            || unsafe { self.raw.bump_shared() },
            // SAFETY: as above; the lock is held again in the end.
            || unsafe { self.raw.unlock_shared_fair() },
            || self.lock_shared(),
        );
    }

    #[track_caller]
    unsafe fn bump_exclusive(&self) {
        self.bump(
            // SAFETY: as above.
            || unsafe { self.raw.bump_exclusive() },
            // SAFETY: as above; the lock is held again in the end.
            || unsafe { self.raw.unlock_exclusive_fair() },
            || self.lock_exclusive(),
        );
    }
}

// SAFETY: as the raw lock.
unsafe impl lock_api::RawRwLockDowngrade for RawRwLock {
    unsafe fn downgrade(&self) {
        // SAFETY: the caller holds this lock exclusively, so it holds the raw one so.
        unsafe { self.raw.downgrade() };
    }
}

// SAFETY: as the raw lock.
unsafe impl lock_api::RawRwLockTimed for RawRwLock {
    type Duration = Duration;
    type Instant = Instant;

    #[track_caller]
    fn try_lock_shared_for(&self, timeout: Duration) -> bool {
        self.attempt_shared(Op::ReadDeadline, after(timeout), || {
            self.raw.try_lock_shared_for(timeout)
        })
    }

    #[track_caller]
    fn try_lock_shared_until(&self, timeout: Instant) -> bool {
        self.attempt_shared(Op::ReadDeadline, Some(timeout), || {
            self.raw.try_lock_shared_until(timeout)
        })
    }

    #[track_caller]
    fn try_lock_exclusive_for(&self, timeout: Duration) -> bool {
        self.attempt_exclusive(Op::WriteDeadline, after(timeout), || {
            self.raw.try_lock_exclusive_for(timeout)
        })
    }

    #[track_caller]
    fn try_lock_exclusive_until(&self, timeout: Instant) -> bool {
        self.attempt_exclusive(Op::WriteDeadline, Some(timeout), || {
            self.raw.try_lock_exclusive_until(timeout)
        })
    }
}

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

// SAFETY: as the raw lock.
unsafe impl lock_api::RawRwLockUpgrade for RawRwLock {
    #[track_caller]
    fn lock_upgradable(&self) {
        // Others may be reading.
        acquire(&self.order, Op::Upgradable, Count::Shared, || {
            self.raw.lock_upgradable();
        });
    }

    #[track_caller]
    fn try_lock_upgradable(&self) -> bool {
        self.attempt_upgradable(Op::TryUpgradable, None, || self.raw.try_lock_upgradable())
    }

    #[track_caller]
    unsafe fn unlock_upgradable(&self) {
        // SAFETY: the caller holds this lock so, and the raw one too.
        unsafe { self.raw.unlock_upgradable() };
    }

    #[track_caller]
    unsafe fn upgrade(&self) {
        acquire(&self.order, Op::Upgrade, Count::Took, || {
            // SAFETY: as above.
            unsafe { self.raw.upgrade() };
        });
    }

    #[track_caller]
    unsafe fn try_upgrade(&self) -> bool {
        // SAFETY: as above; the closure is called at most once.
        unsafe { self.attempt_upgrade(Op::TryUpgrade, None, || self.raw.try_upgrade()) }
    }
}

// SAFETY: as the raw lock.
unsafe impl lock_api::RawRwLockUpgradeFair for RawRwLock {
    #[track_caller]
    unsafe fn unlock_upgradable_fair(&self) {
        // SAFETY: the caller holds this lock so, and the raw one too.
        unsafe { self.raw.unlock_upgradable_fair() };
    }

    #[track_caller]
    unsafe fn bump_upgradable(&self) {
        self.bump(
            // SAFETY: as above.
            || unsafe { self.raw.bump_upgradable() },
            // SAFETY: as above; the lock is held again in the end.
            || unsafe { self.raw.unlock_upgradable_fair() },
            || self.lock_upgradable(),
        );
    }
}

// SAFETY: as the raw lock.
unsafe impl lock_api::RawRwLockUpgradeDowngrade for RawRwLock {
    #[track_caller]
    unsafe fn downgrade_upgradable(&self) {
        // SAFETY: the caller holds this lock so, and the raw one too.
        unsafe { self.raw.downgrade_upgradable() };
    }

    #[track_caller]
    unsafe fn downgrade_to_upgradable(&self) {
        // SAFETY: as above.
        unsafe { self.raw.downgrade_to_upgradable() };
    }
}

// SAFETY: as the raw lock.
unsafe impl lock_api::RawRwLockUpgradeTimed for RawRwLock {
    #[track_caller]
    fn try_lock_upgradable_for(&self, timeout: Duration) -> bool {
        self.attempt_upgradable(Op::UpgradableDeadline, after(timeout), || {
            self.raw.try_lock_upgradable_for(timeout)
        })
    }

    #[track_caller]
    fn try_lock_upgradable_until(&self, timeout: Instant) -> bool {
        self.attempt_upgradable(Op::UpgradableDeadline, Some(timeout), || {
            self.raw.try_lock_upgradable_until(timeout)
        })
    }

    #[track_caller]
    unsafe fn try_upgrade_for(&self, timeout: Duration) -> bool {
        // SAFETY: the caller holds this lock so, and the raw one too; the closure is
        // called at most once.
        unsafe {
            self.attempt_upgrade(Op::UpgradeDeadline, after(timeout), || {
                self.raw.try_upgrade_for(timeout)
            })
        }
    }

    #[track_caller]
    unsafe fn try_upgrade_until(&self, timeout: Instant) -> bool {
        // SAFETY: as above.
        unsafe {
            self.attempt_upgrade(Op::UpgradeDeadline, Some(timeout), || {
                self.raw.try_upgrade_until(timeout)
            })
        }
    }
}

impl fmt::Debug for RawRwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawRwLock").finish_non_exhaustive()
    }
}
