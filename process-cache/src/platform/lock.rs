//! Locks whose poison is ignored: what a thread that panicked was doing is redone or missed.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Locks a mutex.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until a condition variable is told.
pub fn wait<'m, T>(condition: &Condvar, guard: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
    condition
        .wait(guard)
        .unwrap_or_else(PoisonError::into_inner)
}
