#![expect(
    unsafe_code,
    reason = "a scope of std's is lent under this crate's type, and a promise is passed on"
)]
//! Threads that borrow: scoped ones, and those whose creator promises to keep what they borrow.
//!
//! A scope must be lent for exactly `'scope`, which only [`std::thread::scope`] can
//! do; a wrapper made inside the closure would not live long enough. So [`Scope`] is
//! a view: the same value at the same address under another type.
//!
//! **Safety** rests on: `Scope` is `repr(transparent)` over the type it views.

use std::io;

use super::{Builder, JoinHandle, ScopedJoinHandle, next_child};

/// A scope to spawn threads in. See [`std::thread::Scope`].
#[derive(Debug)]
#[repr(transparent)]
pub struct Scope<'scope, 'env>(std::thread::Scope<'scope, 'env>);

/// Creates a scope for spawning threads, which all end before it does. See
/// [`std::thread::scope`].
///
/// ```
/// use rr_channel::thread;
///
/// let mut words = vec!["no", "clones"];
/// thread::scope(|s| {
///     s.spawn(|| words.push("needed"));
/// });
/// assert_eq!(words.len(), 3);
/// ```
///
/// # Panics
/// If a thread of the scope panicked and was not joined.
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    std::thread::scope(|inner| f(view(inner)))
}

const fn view<'scope, 'env>(
    inner: &'scope std::thread::Scope<'scope, 'env>,
) -> &'scope Scope<'scope, 'env> {
    // SAFETY: `Scope` is `repr(transparent)` over the pointee, with the same
    // lifetimes; the reference keeps its own.
    unsafe { &*std::ptr::from_ref(inner).cast() }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Spawns a new thread within the scope.
    ///
    /// # Panics
    /// If the system cannot create a thread.
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let (handle, child) = next_child().spawn(f, |told| self.0.spawn(move || told.run()));
        ScopedJoinHandle::new(handle, child)
    }

    pub(super) const fn inner(&'scope self) -> &'scope std::thread::Scope<'scope, 'env> {
        &self.0
    }
}

impl Builder {
    /// Spawns the thread, which may borrow. One that could not be created still counts as a child.
    ///
    /// # Errors
    /// If the system cannot create a thread.
    ///
    /// # Safety
    /// As [`std::thread::Builder::spawn_unchecked`]: the thread ends before what it borrows does.
    pub unsafe fn spawn_unchecked<F, T>(self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        let (handle, child) = next_child().spawn(f, |told| {
            // SAFETY: the caller's promise; all else that the thread is given is its own.
            unsafe { self.0.spawn_unchecked(move || told.run()) }
        });
        Ok(JoinHandle::new(handle?, child))
    }
}
