//! A value that is made when it is first used.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync;

use super::{OnceLock, PoisonError};

/// A value that is made when it is first used. See [`std::sync::LazyLock`].
///
/// ```
/// use rr_channel::sync::LazyLock;
///
/// static WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| "to be or not".split(' ').collect());
/// assert_eq!(WORDS.len(), 4);
/// ```
pub struct LazyLock<T, F = fn() -> T> {
    value: OnceLock<T>,
    /// The function that makes the value; gone once it was called, also if it panicked.
    init: sync::Mutex<Option<F>>,
}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// A value that `f` will make.
    #[inline]
    pub const fn new(f: F) -> Self {
        LazyLock {
            value: OnceLock::new(),
            init: sync::Mutex::new(Some(f)),
        }
    }

    /// The value, made if this is its first use.
    ///
    /// # Panics
    /// If making it panics, or did so before.
    #[inline]
    #[track_caller]
    pub fn force(this: &Self) -> &T {
        this.value.get_or_init(|| {
            let init = this
                .init
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            match init {
                Some(init) => init(),
                None => panic!("LazyLock instance has previously been poisoned"),
            }
        })
    }

    /// The value, made if this is its first use.
    ///
    /// # Panics
    /// If making it panics, or did so before.
    #[track_caller]
    pub fn force_mut(this: &mut Self) -> &mut T {
        LazyLock::force(this);
        match this.value.get_mut() {
            Some(value) => value,
            None => unreachable!("it was made just now, and the reference is unique"),
        }
    }
}

impl<T, F> LazyLock<T, F> {
    /// The value, if it has been made.
    pub fn get(this: &Self) -> Option<&T> {
        this.value.get()
    }

    /// The value, if it has been made.
    pub fn get_mut(this: &mut Self) -> Option<&mut T> {
        this.value.get_mut()
    }
}

impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;

    #[inline]
    #[track_caller]
    fn deref(&self) -> &T {
        LazyLock::force(self)
    }
}

impl<T, F: FnOnce() -> T> DerefMut for LazyLock<T, F> {
    #[track_caller]
    fn deref_mut(&mut self) -> &mut T {
        LazyLock::force_mut(self)
    }
}

impl<T: Default> Default for LazyLock<T> {
    fn default() -> Self {
        LazyLock::new(T::default)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for LazyLock<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = f.debug_tuple("LazyLock");
        match self.value.raw() {
            Some(value) => tuple.field(value),
            None => tuple.field(&format_args!("<uninit>")),
        };
        tuple.finish()
    }
}
