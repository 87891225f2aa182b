#![expect(unsafe_code, reason = "a reference kept in an atomic pointer")]
//! A value of the whole process, which a child made by fork(2) replaces by its own.
//!
//! A caller that asked before the fork may still hold the parent's value, so that value stays.
//!
//! **Safety** rests on: a pointer that is not null came from a box that was leaked by
//! [`Current::set_boxed`], so what it points to lives as long as the process.

use std::fmt;
use std::ptr;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Release};

pub struct Current<T: 'static>(AtomicPtr<T>);

impl<T> fmt::Debug for Current<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Current")
    }
}

impl<T: Send + Sync> Current<T> {
    /// There is none yet.
    pub const fn none() -> Self {
        Current(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline(always)]
    pub fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or leaked by `set`; `T` is `Sync`.
        unsafe { self.0.load(Acquire).as_ref() }
    }

    /// From here on, this is it.
    pub fn set(&self, value: T) -> &'static T {
        self.set_boxed(Box::new(value))
    }

    /// The same. Does nothing that is not safe after a fork in a threaded process.
    pub fn set_boxed(&self, value: Box<T>) -> &'static T {
        let value = Box::leak(value);
        self.0.store(value, Release);
        value
    }

    /// This one becomes what `other` was, which has none from here on. Does nothing that
    /// is not safe after a fork in a threaded process.
    pub fn take_from(&self, other: &Self) {
        self.0
            .store(other.0.swap(ptr::null_mut(), Acquire), Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_moves_and_stays() {
        static NOW: Current<u32> = Current::none();
        static BEFORE: Current<u32> = Current::none();
        assert_eq!(NOW.get(), None);
        let first = NOW.set(1);
        BEFORE.take_from(&NOW);
        assert_eq!((NOW.get(), BEFORE.get()), (None, Some(&1)));
        NOW.set(2);
        assert_eq!((NOW.get(), *first), (Some(&2), 1));
    }
}
