//! A drop-in for [`std::thread`]: what it spawns is known by its place in the tree.
//!
//! Handles, ids, errors and everything else are `std`'s own. The one difference is
//! that a thread made by [`spawn`], [`Builder::spawn`] or [`Scope::spawn`] is named
//! after its parent and its position among the parent's children, in every run the
//! same. Not there: `Builder::spawn_unchecked`.
//!
//! ```
//! use rr_channel::thread;
//!
//! let handle = thread::spawn(|| 6 * 7);
//! assert_eq!(handle.join().unwrap(), 42);
//! ```

mod scope;

use std::io;

pub use std::thread::{
    AccessError, JoinHandle, LocalKey, Result, ScopedJoinHandle, Thread, ThreadId,
    available_parallelism, current, panicking, park, park_timeout, sleep, yield_now,
};

pub use self::scope::{Scope, scope};
use crate::context;
use crate::identity::Dti;
use crate::interpose::without_seats;
use crate::session::{Session, session};

/// The name of the calling thread's next child, where names matter.
fn next_child() -> Option<Dti> {
    match session() {
        Session::Off => None,
        _ => context::next_child(),
    }
}

/// `f`, run by a thread that knows its name.
fn as_child<T>(child: Option<Dti>, f: impl FnOnce() -> T) -> impl FnOnce() -> T {
    move || {
        if let Some(dti) = child {
            context::adopt(dti);
        }
        f()
    }
}

/// Spawns a new thread. See [`std::thread::spawn`].
///
/// # Panics
/// If the system cannot create a thread.
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let f = as_child(next_child(), f);
    without_seats(|| std::thread::spawn(f))
}

/// Thread factory, to configure a new thread. See [`std::thread::Builder`].
///
/// ```
/// use rr_channel::thread;
///
/// let handle = thread::Builder::new()
///     .name("worker".into())
///     .spawn(|| thread::current().name().map(str::to_owned))
///     .unwrap();
/// assert_eq!(handle.join().unwrap().as_deref(), Some("worker"));
/// ```
#[derive(Debug)]
pub struct Builder(std::thread::Builder);

impl Builder {
    /// A factory of threads as [`spawn`] makes them.
    #[expect(clippy::new_without_default, reason = "std's has no Default either")]
    pub fn new() -> Self {
        Builder(std::thread::Builder::new())
    }

    /// Names the thread-to-be. The name plays no part in its identity.
    #[must_use]
    pub fn name(self, name: String) -> Self {
        Builder(self.0.name(name))
    }

    /// Sets the size of the stack, in bytes, of the thread-to-be.
    #[must_use]
    pub fn stack_size(self, size: usize) -> Self {
        Builder(self.0.stack_size(size))
    }

    /// Spawns the thread. One that could not be created still counts as a child.
    ///
    /// # Errors
    /// If the system cannot create a thread.
    pub fn spawn<F, T>(self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let f = as_child(next_child(), f);
        without_seats(|| self.0.spawn(f))
    }

    /// Spawns the thread in a scope. One that could not be created still counts as a
    /// child.
    ///
    /// # Errors
    /// If the system cannot create a thread.
    pub fn spawn_scoped<'scope, 'env, F, T>(
        self,
        scope: &'scope Scope<'scope, 'env>,
        f: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.0
            .spawn_scoped(scope.inner(), as_child(next_child(), f))
    }
}
