//! A mutual exclusion primitive.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::Duration;

use rr_channel_log::Op;

use super::{LockResult, TryLockError, TryLockResult, attempted, map, observed, try_map};
use crate::engine::allocator::session_for;
use crate::engine::chaos;
use crate::engine::order::Order;
use crate::engine::replay::{Engine, Turn};
use crate::engine::session::Session;
use crate::platform::clock;

/// A mutual exclusion primitive. See [`std::sync::Mutex`].
///
/// ```
/// use rr_channel::sync::Mutex;
///
/// static COUNT: Mutex<i32> = Mutex::new(0);
/// *COUNT.lock().unwrap() += 1;
/// assert_eq!(*COUNT.try_lock().unwrap(), 1);
/// ```
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    order: Order,
    raw: std::sync::Mutex<T>,
}

/// Holds a [`Mutex`] until it is dropped.
#[must_use = "if unused the Mutex will immediately unlock"]
pub struct MutexGuard<'a, T: ?Sized> {
    pub(super) lock: &'a Mutex<T>,
    pub(super) raw: std::sync::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    /// Creates an unlocked mutex.
    #[inline]
    pub const fn new(value: T) -> Self {
        Mutex {
            order: Order::new(),
            raw: std::sync::Mutex::new(value),
        }
    }

    /// Consumes the mutex and returns its content.
    ///
    /// # Errors
    /// If the mutex is poisoned; the error holds the content.
    pub fn into_inner(self) -> LockResult<T> {
        self.raw.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Acquires the mutex, blocking until it is free.
    ///
    /// # Errors
    /// If a thread panicked while it held the mutex; the error holds the guard.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        match session_for(&self.order) {
            Session::Off => self.guard(self.raw.lock()),
            Session::Record(_) => {
                chaos::point();
                let raw = self.raw.lock();
                self.order.took(Op::Lock);
                self.guard(raw)
            }
            Session::Replay(engine) => self.lock_in_turn(engine, Op::Lock),
        }
    }

    /// Attempts to acquire the mutex, without blocking.
    ///
    /// # Errors
    /// If the mutex is not free; or if it is poisoned, where the error holds the guard.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let guard = |raw| MutexGuard { lock: self, raw };
        match session_for(&self.order) {
            Session::Off => try_map(self.raw.try_lock(), guard),
            Session::Record(_) => {
                chaos::point();
                let raw = self.raw.try_lock();
                attempted(&raw, Op::TryLock, || self.order.took(Op::TryLock));
                try_map(raw, guard)
            }
            Session::Replay(engine) => match engine.turn(Op::TryLock, &self.order) {
                Turn::Mine => Ok(self.take(engine, Op::TryLock)?),
                Turn::Busy => Err(TryLockError::WouldBlock),
                Turn::Live => {
                    let raw = self.raw.try_lock();
                    attempted(&raw, Op::TryLock, || engine.taken(Op::TryLock, &self.order));
                    try_map(raw, guard)
                }
            },
        }
    }

    /// Attempts to acquire the mutex for a limited time; poisoned is as good.
    pub fn try_lock_for(&self, patience: Duration) -> Option<MutexGuard<'_, T>> {
        let attempt = || {
            let start = clock::now();
            loop {
                match self.raw.try_lock() {
                    Err(TryLockError::WouldBlock) if clock::elapsed(start) < patience => {
                        std::thread::sleep(Duration::from_micros(100));
                    }
                    tried => return tried,
                }
            }
        };
        let guard = |raw| match raw {
            Ok(raw) => Some(MutexGuard { lock: self, raw }),
            Err(TryLockError::Poisoned(error)) => Some(MutexGuard {
                lock: self,
                raw: error.into_inner(),
            }),
            Err(TryLockError::WouldBlock) => None,
        };
        match session_for(&self.order) {
            Session::Off => guard(attempt()),
            Session::Record(_) => {
                chaos::point();
                let raw = attempt();
                attempted(&raw, Op::TryLock, || self.order.took(Op::TryLock));
                guard(raw)
            }
            Session::Replay(engine) => match engine.turn(Op::TryLock, &self.order) {
                Turn::Mine => {
                    let taken = self.take(engine, Op::TryLock);
                    Some(taken.unwrap_or_else(PoisonError::into_inner))
                }
                Turn::Busy => None,
                Turn::Live => {
                    let raw = attempt();
                    attempted(&raw, Op::TryLock, || engine.taken(Op::TryLock, &self.order));
                    guard(raw)
                }
            },
        }
    }

    /// Whether the mutex is poisoned.
    #[track_caller]
    pub fn is_poisoned(&self) -> bool {
        match session_for(&self.order) {
            Session::Off => self.raw.is_poisoned(),
            Session::Record(_) => observed(Op::IsPoisoned, self.raw.is_poisoned()),
            Session::Replay(engine) => engine
                .recall(Op::IsPoisoned, &self.order, None)
                .unwrap_or_else(|| observed(Op::IsPoisoned, self.raw.is_poisoned())),
        }
    }

    /// Clears the poisoned state.
    pub fn clear_poison(&self) {
        self.raw.clear_poison();
    }

    /// Returns the content, to which no other reference exists.
    ///
    /// # Errors
    /// If the mutex is poisoned; the error holds the reference.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.raw.get_mut()
    }

    pub(super) fn guard<'a>(
        &'a self,
        raw: LockResult<std::sync::MutexGuard<'a, T>>,
    ) -> LockResult<MutexGuard<'a, T>> {
        map(raw, |raw| MutexGuard { lock: self, raw })
    }

    pub(super) const fn order(&self) -> &Order {
        &self.order
    }

    /// Acquires the mutex when the log says so.
    #[track_caller]
    pub(super) fn lock_in_turn(&self, engine: &Engine, op: Op) -> LockResult<MutexGuard<'_, T>> {
        engine.turn(op, &self.order);
        self.take(engine, op)
    }

    #[track_caller]
    fn take(&self, engine: &Engine, op: Op) -> LockResult<MutexGuard<'_, T>> {
        let raw = self.raw.lock();
        engine.taken(op, &self.order);
        self.guard(raw)
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Mutex::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.raw
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.raw
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
