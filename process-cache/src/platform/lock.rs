//! Locks that ignore poison: the work of a panicked thread is repeated or missed.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Locks a mutex.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a condition variable.
pub fn wait<'m, T>(condition: &Condvar, guard: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
    condition
        .wait(guard)
        .unwrap_or_else(PoisonError::into_inner)
}
