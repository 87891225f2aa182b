#![expect(
    unsafe_code,
    reason = "a scope of std's is lent under this crate's type"
)]
//! Scoped threads.
//!
//! A scope must be lent for exactly `'scope`, which only [`std::thread::scope`] can
//! do; a wrapper made inside the closure would not live long enough. So [`Scope`] is
//! a view: the same value at the same address under another type.
//!
//! **Safety** rests on: `Scope` is `repr(transparent)` over the type it views.

use super::{ScopedJoinHandle, next_child};

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
