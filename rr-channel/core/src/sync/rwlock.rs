//! A lock for many readers or one writer.

use std::fmt;

use rr_channel_log::Op;

use super::{
    LockResult, RwLockReadGuard, RwLockWriteGuard, TryLockError, TryLockResult, attempted, observed,
};
use crate::engine::allocator::session_for;
use crate::engine::chaos;
use crate::engine::order::Order;
use crate::engine::replay::{Engine, Turn};
use crate::engine::session::Session;

/// A lock for many readers or one writer. See [`std::sync::RwLock`].
///
/// A replay lets readers in one after the other, in the recorded order; once in, they
/// share the lock.
///
/// ```
/// use rr_channel::sync::RwLock;
///
/// let lock = RwLock::new(5);
/// assert_eq!(*lock.read().unwrap() + *lock.read().unwrap(), 10);
/// *lock.write().unwrap() = 6;
/// assert_eq!(lock.into_inner().unwrap(), 6);
/// ```
#[derive(Default)]
pub struct RwLock<T: ?Sized> {
    order: Order,
    raw: std::sync::RwLock<T>,
}

impl<T> RwLock<T> {
    /// Creates an unlocked lock.
    #[inline]
    pub const fn new(value: T) -> Self {
        RwLock {
            order: Order::new(),
            raw: std::sync::RwLock::new(value),
        }
    }

    /// Consumes the lock and returns its content.
    ///
    /// # Errors
    /// If the lock is poisoned; the error holds the content.
    pub fn into_inner(self) -> LockResult<T> {
        self.raw.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Acquires the lock for reading, blocking until no writer holds it.
    ///
    /// # Errors
    /// If a writer panicked; the error holds the guard.
    ///
    /// # Panics
    /// As `std`'s, if there are too many readers.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        match session_for(&self.order) {
            Session::Off => self.raw.read(),
            Session::Record(_) => {
                chaos::point();
                let guard = self.raw.read();
                self.order.shared(Op::Read);
                guard
            }
            Session::Replay(engine) => {
                engine.turn(Op::Read, &self.order);
                self.take(engine, Op::Read, || self.raw.read())
            }
        }
    }

    /// Attempts to acquire the lock for reading, without blocking.
    ///
    /// # Errors
    /// If a writer holds the lock; or if it is poisoned, where the error holds the guard.
    #[track_caller]
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        match session_for(&self.order) {
            Session::Off => self.raw.try_read(),
            Session::Record(_) => {
                chaos::point();
                let guard = self.raw.try_read();
                attempted(&guard, Op::TryRead, || self.order.shared(Op::TryRead));
                guard
            }
            Session::Replay(engine) => self.attempt(
                engine,
                Op::TryRead,
                || self.raw.read(),
                || self.raw.try_read(),
            ),
        }
    }

    /// Acquires the lock for writing, blocking until no thread holds it.
    ///
    /// # Errors
    /// If a writer panicked; the error holds the guard.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        match session_for(&self.order) {
            Session::Off => self.raw.write(),
            Session::Record(_) => {
                chaos::point();
                let guard = self.raw.write();
                self.order.took(Op::Write);
                guard
            }
            Session::Replay(engine) => {
                engine.turn(Op::Write, &self.order);
                self.take(engine, Op::Write, || self.raw.write())
            }
        }
    }

    /// Attempts to acquire the lock for writing, without blocking.
    ///
    /// # Errors
    /// If a thread holds the lock; or if it is poisoned, where the error holds the guard.
    #[track_caller]
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        match session_for(&self.order) {
            Session::Off => self.raw.try_write(),
            Session::Record(_) => {
                chaos::point();
                let guard = self.raw.try_write();
                attempted(&guard, Op::TryWrite, || self.order.took(Op::TryWrite));
                guard
            }
            Session::Replay(engine) => self.attempt(
                engine,
                Op::TryWrite,
                || self.raw.write(),
                || self.raw.try_write(),
            ),
        }
    }

    #[track_caller]
    fn take<G>(
        &self,
        engine: &Engine,
        op: Op,
        lock: impl FnOnce() -> LockResult<G>,
    ) -> LockResult<G> {
        let guard = lock();
        engine.taken(op, &self.order);
        guard
    }

    #[track_caller]
    fn attempt<G>(
        &self,
        engine: &Engine,
        op: Op,
        lock: impl FnOnce() -> LockResult<G>,
        try_lock: impl FnOnce() -> TryLockResult<G>,
    ) -> TryLockResult<G> {
        match engine.turn(op, &self.order) {
            Turn::Mine => Ok(self.take(engine, op, lock)?),
            Turn::Busy => Err(TryLockError::WouldBlock),
            Turn::Live => {
                let guard = try_lock();
                attempted(&guard, op, || engine.taken(op, &self.order));
                guard
            }
        }
    }

    /// Whether the lock is poisoned.
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
    /// If the lock is poisoned; the error holds the reference.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.raw.get_mut()
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        RwLock::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}
