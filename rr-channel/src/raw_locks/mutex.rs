//! Raw mutexes.

/// Defines `RawMutex` and `RawFairMutex`, made of upstream's, which is called `raw`.
///
/// **Safety** rests on: each lock and unlock is exactly one of upstream's raw mutex, whose
/// guarantees these are; the recording around it has no part in them.
macro_rules! raw_mutexes {
    (guard: [$($guard:ident)?], types: { $($types:tt)* }) => {
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
                try_lock: impl FnOnce() -> Attempted,
            ) -> Attempted {
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

            $($types)*

            #[inline]
            #[track_caller]
            fn lock(&self) -> Acquired {
                acquire(&self.order, Op::Lock, Count::Took, || self.raw.lock())
            }

            #[inline]
            #[track_caller]
            fn try_lock(&self) -> Attempted {
                self.attempt(Op::TryLock, None, || self.raw.try_lock())
            }

            #[inline]
            unsafe fn unlock(&self $(, $guard: Acquired)?) {
                // SAFETY: the caller holds this lock, so it holds the raw one.
                unsafe { self.raw.unlock($($guard)?) };
            }

            #[track_caller]
            fn is_locked(&self) -> bool {
                observe(Op::IsLocked, || self.raw.is_locked().into()) != 0
            }
        }

        // SAFETY: as the raw mutex.
        unsafe impl lock_api::RawMutexFair for RawMutex {
            #[inline]
            unsafe fn unlock_fair(&self $(, $guard: Acquired)?) {
                // SAFETY: the caller holds this lock, so it holds the raw one.
                unsafe { self.raw.unlock_fair($($guard)?) };
            }

            unsafe fn bump(&self $(, $guard: &mut Acquired)?) {
                match session() {
                    // SAFETY: as above.
                    Session::Off => unsafe { self.raw.bump($($guard)?) },
                    _ => {
                        // Always unlocks, so that the next event is an acquisition. SAFETY: as
                        // above; the lock is held again in the end.
                        unsafe { self.raw.unlock_fair($(std::mem::take($guard))?) };
                        $(*$guard =)? self.lock();
                    }
                }
            }
        }

        // SAFETY: as the raw mutex.
        unsafe impl lock_api::RawMutexTimed for RawMutex {
            type Duration = Duration;
            type Instant = Instant;

            #[track_caller]
            fn try_lock_for(&self, timeout: Duration) -> Attempted {
                self.attempt(Op::LockDeadline, after(timeout), || {
                    self.raw.try_lock_for(timeout)
                })
            }

            #[track_caller]
            fn try_lock_until(&self, timeout: Instant) -> Attempted {
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

            $($types)*

            #[inline]
            #[track_caller]
            fn lock(&self) -> Acquired {
                self.0.lock()
            }

            #[inline]
            #[track_caller]
            fn try_lock(&self) -> Attempted {
                self.0.try_lock()
            }

            #[inline]
            unsafe fn unlock(&self $(, $guard: Acquired)?) {
                // SAFETY: the caller holds this lock, so it holds the one inside.
                unsafe { self.0.unlock_fair($($guard)?) };
            }

            #[track_caller]
            fn is_locked(&self) -> bool {
                self.0.is_locked()
            }
        }

        // SAFETY: as the mutex inside.
        unsafe impl lock_api::RawMutexFair for RawFairMutex {
            #[inline]
            unsafe fn unlock_fair(&self $(, $guard: Acquired)?) {
                // SAFETY: the caller holds this lock, so it holds the one inside.
                unsafe { self.0.unlock_fair($($guard)?) };
            }

            unsafe fn bump(&self $(, $guard: &mut Acquired)?) {
                // SAFETY: as above.
                unsafe { self.0.bump($($guard)?) };
            }
        }

        // SAFETY: as the mutex inside.
        unsafe impl lock_api::RawMutexTimed for RawFairMutex {
            type Duration = Duration;
            type Instant = Instant;

            #[track_caller]
            fn try_lock_for(&self, timeout: Duration) -> Attempted {
                self.0.try_lock_for(timeout)
            }

            #[track_caller]
            fn try_lock_until(&self, timeout: Instant) -> Attempted {
                self.0.try_lock_until(timeout)
            }
        }
    };
}

pub(crate) use raw_mutexes;
