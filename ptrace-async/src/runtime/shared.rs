//! The state that the runtime, its handles and its tracees share.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Waker;

use rustc_hash::FxHashMap;

use super::in_process::LogMemory;
use super::launch::Launches;
use super::new_tasks::NewTasks;
use super::options::Options;
use super::placement::{HostThreads, Placement};
use super::pool::Pool;
use super::remote::Remote;
use super::slot::Slot;
use super::space::Space;
use crate::event::Tid;

pub(super) type Function = Pin<Box<dyn Future<Output = ()>>>;

/// A function, its task, and what wakes it.
pub(super) type FollowedTask = (Function, Rc<Slot>, Waker);

/// Shared between the runtime and the tracees it handed out.
pub(crate) struct Shared {
    pub(super) options: Options,
    pub(super) slots: RefCell<FxHashMap<Tid, Rc<Slot>>>,
    pub(super) functions: RefCell<FxHashMap<u64, FollowedTask>>,
    pub(super) new_tasks: NewTasks,
    pub(super) next_key: Cell<u64>,
    pub(super) launches: Launches,
    pub(super) remote: Arc<Remote>,
    pub(super) pool: RefCell<Option<Pool>>,
    pub(super) stops: Cell<u64>,
    pub(super) placement: Placement,
    /// Tasks that may look at the affinity of others; some may have ended.
    pub(super) affinity_observers: RefCell<Vec<Weak<Slot>>>,
    /// Address spaces that log calls.
    pub(super) patched: RefCell<Vec<Weak<Space>>>,
    /// The memory of all logs, created for the first address space.
    pub(super) arena: RefCell<Option<Rc<LogMemory>>>,
    /// The directory of patched copies of libraries.
    pub(super) copies: RefCell<Option<PathBuf>>,
}

impl Shared {
    /// The memory of all logs.
    pub(super) fn arena(&self) -> io::Result<Rc<LogMemory>> {
        let mut arena = self.arena.borrow_mut();
        if let Some(arena) = &*arena {
            return Ok(arena.clone());
        }
        let token = self.options.interception.filter().token();
        let new = LogMemory::new(token.unwrap_or(0))?;
        new.images.borrow_mut().dir = self.copies.borrow().clone();
        Ok(arena.insert(new).clone())
    }

    /// Notes that an address space logs calls from now on.
    pub(super) fn note_patched(&self, space: &Rc<Space>) {
        let mut patched = self.patched.borrow_mut();
        patched.retain(|space| space.strong_count() > 0);
        patched.push(Rc::downgrade(space));
    }
}

/// Access to the runtime from within tracee functions.
#[derive(Clone)]
pub struct Handle {
    pub(super) shared: Rc<Shared>,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl Handle {
    /// Runs `work` on a worker thread. The calling function sleeps until it is done; other
    /// tracees run on.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let receiver = {
            let mut pool = self.shared.pool.borrow_mut();
            pool.get_or_insert_with(Pool::new).submit(work)
        };
        receiver.await
    }

    /// The registry in which the host's own threads enter themselves.
    pub fn host_threads(&self) -> HostThreads {
        self.shared.placement.host_threads()
    }

    /// The number of stops handled so far.
    pub fn stops(&self) -> u64 {
        self.shared.stops.get()
    }
}
