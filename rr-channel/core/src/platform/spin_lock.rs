#![expect(unsafe_code, reason = "a lock lends its value")]
//! A lock for a few instructions: taken by one exchange, given back by a store.
//!
//! Replays take two of these locks for each message, recordings one for each send into a channel
//! with a bound. `std`'s mutex takes two exchanges, with which it knows of threads that sleep.
//! With two exchanges, receiving a message takes half as long again. Here no thread sleeps to be
//! woken. A thread that finds the lock taken spins, like upstream's channels where a message is
//! being written. Then it yields, and at last sleeps for a moment each time, so that a holder of
//! lower priority can run as well.
//!
//! **Safety** rests on: the value is reached through [`SpinGuard`] only, which exists while
//! `taken` is set by its maker, and clears it when it goes.

use std::cell::UnsafeCell;
use std::hint;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;
use std::time::Duration;

/// A value for one thread at a time.
#[derive(Debug, Default)]
pub struct SpinLock<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is lent to one thread at a time, and what one did happens before the
// next one takes it.
unsafe impl<T: Send> Sync for SpinLock<T> {}

/// Lends a [`SpinLock`]'s value, until it is dropped.
#[derive(Debug)]
pub struct SpinGuard<'a, T> {
    lock: &'a SpinLock<T>,
    /// May be shared if a `&mut T` may: the lock may be shared more often.
    lent: PhantomData<&'a mut T>,
}

impl<T> SpinLock<T> {
    pub const fn new(value: T) -> Self {
        SpinLock {
            taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the value.
    #[inline(always)]
    pub fn take(&self) -> SpinGuard<'_, T> {
        if self.taken.swap(true, Acquire) {
            self.take_later();
        }
        SpinGuard {
            lock: self,
            lent: PhantomData,
        }
    }

    #[cold]
    fn take_later(&self) {
        let mut looks = 0_u32;
        while self.taken.load(Relaxed) || self.taken.swap(true, Acquire) {
            match looks {
                0..=6 => (0..1 << looks).for_each(|_| hint::spin_loop()),
                7..=100 => thread::yield_now(),
                _ => thread::sleep(Duration::from_micros(100)),
            }
            looks = looks.saturating_add(1);
        }
    }
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: no other thread reaches the value while this exists, and it is borrowed only
        // through this.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and this is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.taken.store(false, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_update_is_lost_between_threads() {
        let count = if cfg!(miri) { 20 } else { 20_000 };
        let lock = SpinLock::new((0, vec![0]));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..count {
                        let mut guard = lock.take();
                        guard.0 += 1;
                        let last = guard.0;
                        guard.1.push(last);
                    }
                });
            }
        });
        let guard = lock.take();
        assert_eq!(guard.0, 3 * count);
        assert!(guard.1.iter().copied().eq(0..=3 * count));
    }

    #[test]
    fn a_panic_gives_the_value_back() {
        let lock = SpinLock::new(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut guard = lock.take();
            *guard = 2;
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert_eq!(*lock.take(), 2);
    }
}
