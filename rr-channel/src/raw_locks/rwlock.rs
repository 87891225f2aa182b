//! A raw lock for many readers or one writer.

/// Implements the traits of `$lock`, which has the order and upstream's lock, and a method
/// `attempt_upgrade`.
///
/// A replay lets readers in one after the other, in the recorded order; once in, they share the
/// lock. Downgrading lets other threads in and waits for none, so it is not recorded.
///
/// **Safety** rests on: each lock and unlock is exactly one of upstream's raw lock, whose
/// guarantees these are; the recording around it has no part in them.
macro_rules! raw_rwlock {
    (
        impl [$($generics:tt)*] $lock:ty,
        guard: [$($guard:ident)?],
        types: { $($types:tt)* },
        upgradable: { $($upgradable:tt)* }
    ) => {
        impl $($generics)* $lock {
            #[track_caller]
            fn attempt_shared(
                &self,
                op: Op,
                deadline: Option<Instant>,
                try_lock: impl FnOnce() -> Attempted,
            ) -> Attempted {
                let lock = || self.raw.lock_shared();
                attempt(&self.order, op, Count::Shared, deadline, try_lock, lock)
            }

            #[track_caller]
            fn attempt_exclusive(
                &self,
                op: Op,
                deadline: Option<Instant>,
                try_lock: impl FnOnce() -> Attempted,
            ) -> Attempted {
                let lock = || self.raw.lock_exclusive();
                attempt(&self.order, op, Count::Took, deadline, try_lock, lock)
            }

            #[track_caller]
            fn attempt_upgradable(
                &self,
                op: Op,
                deadline: Option<Instant>,
                try_lock: impl FnOnce() -> Attempted,
            ) -> Attempted {
                let lock = || self.raw.lock_upgradable();
                attempt(&self.order, op, Count::Shared, deadline, try_lock, lock)
            }
        }

        // SAFETY: as the raw lock, which is locked and unlocked whenever this is.
        unsafe impl $($generics)* lock_api::RawRwLock for $lock {
            const INIT: Self = Self {
                order: Order::new(),
                raw: raw::RawRwLock::INIT,
            };

            $($types)*

            #[inline]
            #[track_caller]
            fn lock_shared(&self) -> Acquired {
                acquire(&self.order, Op::Read, Count::Shared, || {
                    self.raw.lock_shared()
                })
            }

            #[inline]
            #[track_caller]
            fn try_lock_shared(&self) -> Attempted {
                self.attempt_shared(Op::TryRead, None, || self.raw.try_lock_shared())
            }

            #[inline]
            unsafe fn unlock_shared(&self $(, $guard: Acquired)?) {
                // SAFETY: the caller holds this lock, so it holds the raw one.
                unsafe { self.raw.unlock_shared($($guard)?) };
            }

            #[inline]
            #[track_caller]
            fn lock_exclusive(&self) -> Acquired {
                acquire(&self.order, Op::Write, Count::Took, || {
                    self.raw.lock_exclusive()
                })
            }

            #[inline]
            #[track_caller]
            fn try_lock_exclusive(&self) -> Attempted {
                self.attempt_exclusive(Op::TryWrite, None, || self.raw.try_lock_exclusive())
            }

            #[inline]
            unsafe fn unlock_exclusive(&self $(, $guard: Acquired)?) {
                // SAFETY: the caller holds this lock, so it holds the raw one.
                unsafe { self.raw.unlock_exclusive($($guard)?) };
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
        unsafe impl $($generics)* lock_api::RawRwLockFair for $lock {
            unsafe fn unlock_shared_fair(&self $(, $guard: Acquired)?) {
                // SAFETY: the caller holds this lock, so it holds the raw one.
                unsafe { self.raw.unlock_shared_fair($($guard)?) };
            }

            unsafe fn unlock_exclusive_fair(&self $(, $guard: Acquired)?) {
                // SAFETY: as above.
                unsafe { self.raw.unlock_exclusive_fair($($guard)?) };
            }

            #[track_caller]
            unsafe fn bump_shared(&self $(, $guard: &mut Acquired)?) {
                match session() {
                    // SAFETY: as above.
                    Session::Off => unsafe { self.raw.bump_shared($($guard)?) },
                    _ => {
                        // Always unlocks, so that the next event is an acquisition. SAFETY: as
                        // above; the lock is held again in the end.
                        unsafe { self.raw.unlock_shared_fair($(std::mem::take($guard))?) };
                        $(*$guard =)? self.lock_shared();
                    }
                }
            }

            #[track_caller]
            unsafe fn bump_exclusive(&self $(, $guard: &mut Acquired)?) {
                match session() {
                    // SAFETY: as above.
                    Session::Off => unsafe { self.raw.bump_exclusive($($guard)?) },
                    _ => {
                        // Always unlocks, so that the next event is an acquisition. SAFETY: as
                        // above; the lock is held again in the end.
                        unsafe { self.raw.unlock_exclusive_fair($(std::mem::take($guard))?) };
                        $(*$guard =)? self.lock_exclusive();
                    }
                }
            }
        }

        // SAFETY: as the raw lock.
        unsafe impl $($generics)* lock_api::RawRwLockDowngrade for $lock {
            unsafe fn downgrade(&self $(, $guard: Acquired)?) -> Acquired {
                // SAFETY: the caller holds this lock exclusively, so it holds the raw one so.
                unsafe { self.raw.downgrade($($guard)?) }
            }
        }

        // SAFETY: as the raw lock.
        unsafe impl $($generics)* lock_api::RawRwLockTimed for $lock {
            type Duration = Duration;
            type Instant = Instant;

            #[track_caller]
            fn try_lock_shared_for(&self, timeout: Duration) -> Attempted {
                self.attempt_shared(Op::ReadDeadline, after(timeout), || {
                    self.raw.try_lock_shared_for(timeout)
                })
            }

            #[track_caller]
            fn try_lock_shared_until(&self, timeout: Instant) -> Attempted {
                self.attempt_shared(Op::ReadDeadline, Some(timeout), || {
                    self.raw.try_lock_shared_until(timeout)
                })
            }

            #[track_caller]
            fn try_lock_exclusive_for(&self, timeout: Duration) -> Attempted {
                self.attempt_exclusive(Op::WriteDeadline, after(timeout), || {
                    self.raw.try_lock_exclusive_for(timeout)
                })
            }

            #[track_caller]
            fn try_lock_exclusive_until(&self, timeout: Instant) -> Attempted {
                self.attempt_exclusive(Op::WriteDeadline, Some(timeout), || {
                    self.raw.try_lock_exclusive_until(timeout)
                })
            }
        }

        // SAFETY: as the raw lock.
        unsafe impl $($generics)* lock_api::RawRwLockUpgrade for $lock {
            $($upgradable)*

            #[track_caller]
            fn lock_upgradable(&self) -> Acquired {
                // Others may be reading.
                acquire(&self.order, Op::Upgradable, Count::Shared, || {
                    self.raw.lock_upgradable()
                })
            }

            #[track_caller]
            fn try_lock_upgradable(&self) -> Attempted {
                self.attempt_upgradable(Op::TryUpgradable, None, || self.raw.try_lock_upgradable())
            }

            unsafe fn unlock_upgradable(&self $(, $guard: Acquired)?) {
                // SAFETY: the caller holds this lock so, and the raw one too.
                unsafe { self.raw.unlock_upgradable($($guard)?) };
            }

            #[track_caller]
            unsafe fn upgrade(&self $(, $guard: Acquired)?) -> Acquired {
                acquire(&self.order, Op::Upgrade, Count::Took, || {
                    // SAFETY: as above.
                    unsafe { self.raw.upgrade($($guard)?) }
                })
            }

            #[track_caller]
            unsafe fn try_upgrade(&self $(, $guard: Acquired)?) -> Upgraded {
                // SAFETY: as above; the closure is called at most once.
                unsafe {
                    self.attempt_upgrade(Op::TryUpgrade, None, $($guard,)? |$($guard)?| {
                        self.raw.try_upgrade($($guard)?)
                    })
                }
            }
        }

        // SAFETY: as the raw lock.
        unsafe impl $($generics)* lock_api::RawRwLockUpgradeFair for $lock {
            unsafe fn unlock_upgradable_fair(&self $(, $guard: Acquired)?) {
                // SAFETY: the caller holds this lock so, and the raw one too.
                unsafe { self.raw.unlock_upgradable_fair($($guard)?) };
            }

            #[track_caller]
            unsafe fn bump_upgradable(&self $(, $guard: &mut Acquired)?) {
                match session() {
                    // SAFETY: as above.
                    Session::Off => unsafe { self.raw.bump_upgradable($($guard)?) },
                    _ => {
                        // Always unlocks, so that the next event is an acquisition. SAFETY: as
                        // above; the lock is held again in the end.
                        unsafe { self.raw.unlock_upgradable_fair($(std::mem::take($guard))?) };
                        $(*$guard =)? self.lock_upgradable();
                    }
                }
            }
        }

        // SAFETY: as the raw lock.
        unsafe impl $($generics)* lock_api::RawRwLockUpgradeDowngrade for $lock {
            unsafe fn downgrade_upgradable(&self $(, $guard: Acquired)?) -> Acquired {
                // SAFETY: the caller holds this lock so, and the raw one too.
                unsafe { self.raw.downgrade_upgradable($($guard)?) }
            }

            unsafe fn downgrade_to_upgradable(&self $(, $guard: Acquired)?) -> Acquired {
                // SAFETY: as above.
                unsafe { self.raw.downgrade_to_upgradable($($guard)?) }
            }
        }

        // SAFETY: as the raw lock.
        unsafe impl $($generics)* lock_api::RawRwLockUpgradeTimed for $lock {
            #[track_caller]
            fn try_lock_upgradable_for(&self, timeout: Duration) -> Attempted {
                self.attempt_upgradable(Op::UpgradableDeadline, after(timeout), || {
                    self.raw.try_lock_upgradable_for(timeout)
                })
            }

            #[track_caller]
            fn try_lock_upgradable_until(&self, timeout: Instant) -> Attempted {
                self.attempt_upgradable(Op::UpgradableDeadline, Some(timeout), || {
                    self.raw.try_lock_upgradable_until(timeout)
                })
            }

            #[track_caller]
            unsafe fn try_upgrade_for(&self, $($guard: Acquired,)? timeout: Duration) -> Upgraded {
                // SAFETY: the caller holds this lock so, and the raw one too; the closure is
                // called at most once.
                unsafe {
                    self.attempt_upgrade(Op::UpgradeDeadline, after(timeout), $($guard,)? |$($guard)?| {
                        self.raw.try_upgrade_for($($guard,)? timeout)
                    })
                }
            }

            #[track_caller]
            unsafe fn try_upgrade_until(&self, $($guard: Acquired,)? timeout: Instant) -> Upgraded {
                // SAFETY: as above.
                unsafe {
                    self.attempt_upgrade(Op::UpgradeDeadline, Some(timeout), $($guard,)? |$($guard)?| {
                        self.raw.try_upgrade_until($($guard,)? timeout)
                    })
                }
            }
        }

        impl $($generics)* fmt::Debug for $lock {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct("RawRwLock").finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use raw_rwlock;
