//! A drop-in for [`std::thread`]: each spawned thread is known by its position in the tree of
//! threads.
//!
//! Ids, errors and all other re-exported items are `std`'s own. A thread made by [`spawn`],
//! [`Builder::spawn`] or [`Scope::spawn`] is named after its parent and its position among the
//! parent's children, in every run the same. The notification that ended a [`park`] is recorded,
//! if the thread was unparked through a [`Thread`] of this module. Not there: what is unstable in
//! `std`.
//!
//! ```
//! use rr_channel::thread;
//!
//! let handle = thread::spawn(|| 6 * 7);
//! assert_eq!(handle.join().unwrap(), 42);
//! ```

mod handle;
mod scope;

use std::io;

pub use std::thread::{
    AccessError, LocalKey, Result, ThreadId, available_parallelism, panicking, sleep, yield_now,
};

pub use self::handle::{JoinHandle, ScopedJoinHandle, Thread, current, park, park_timeout};
pub use self::scope::{Scope, scope};
use rr_channel_log::identity::Dti;

use crate::engine::chaos;
use crate::engine::context;
use crate::engine::seats::without_seats;
use crate::engine::session::{Session, session};
use crate::engine::signal::LastSignal;

/// The data of a new thread, shared with the threads that may join it.
#[derive(Clone)]
struct Child {
    /// Its name, where names matter.
    dti: Option<Dti>,
    unparked: Option<&'static LastSignal>,
}

/// The calling thread's next child.
fn next_child() -> Child {
    Child {
        dti: match session() {
            Session::Off => None,
            _ => context::next_child(),
        },
        unparked: handle::new_unparked(),
    }
}

impl Child {
    /// Has `spawn` spawn a thread that runs `f` and knows its identity.
    fn spawn<F, R>(self, f: F, spawn: impl FnOnce(Told<F>) -> R) -> (R, Child) {
        if let Some(dti) = &self.dti {
            chaos::expect(dti);
        }
        let told = Told {
            child: self.clone(),
            f,
        };
        let made = without_seats(|| spawn(told));
        chaos::created();
        (made, self)
    }
}

/// A thread's first function, with the data that it is told.
struct Told<F> {
    child: Child,
    f: F,
}

impl<F: FnOnce() -> T, T> Told<F> {
    fn run(self) -> T {
        if let Some(dti) = self.child.dti {
            context::adopt(dti);
        }
        handle::adopt(self.child.unparked);
        (self.f)()
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
    let (handle, child) = next_child().spawn(f, |told| std::thread::spawn(move || told.run()));
    JoinHandle::new(handle, child)
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
        let (handle, child) = next_child().spawn(f, |told| self.0.spawn(move || told.run()));
        Ok(JoinHandle::new(handle?, child))
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
        let (handle, child) = next_child().spawn(f, |told| {
            self.0.spawn_scoped(scope.inner(), move || told.run())
        });
        Ok(ScopedJoinHandle::new(handle?, child))
    }
}
