//! Waking the tracer from other threads.
//!
//! **Invariant:** after [`Remote::push`] the tracer polls the function, even if it was
//! about to enter the kernel. The flag is set before the signal is sent; the tracer's wait
//! looks at the flag, and a signal between that look and the kernel makes it turn back (see
//! `sys::install_wake_handler`).

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::lock::lock;
use crate::event::Tid;
use crate::sys;

/// The state that other threads may touch.
pub(super) struct Remote {
    tracer: Tid,
    /// Not zero while there is something in `woken`.
    pub(super) flag: AtomicU32,
    woken: Mutex<Vec<u64>>,
    ready: Condvar,
}

impl Remote {
    pub(super) fn new() -> Self {
        Self {
            tracer: sys::own_tid(),
            flag: AtomicU32::new(0),
            woken: Mutex::default(),
            ready: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u64>> {
        lock(&self.woken)
    }

    /// Has the function `key` polled.
    pub(super) fn push(&self, key: u64) {
        let mut woken = self.lock();
        woken.push(key);
        self.flag.store(1, Ordering::SeqCst);
        drop(woken);
        self.ready.notify_one();
        if sys::own_tid() != self.tracer {
            sys::wake(self.tracer);
        }
    }

    /// Takes what was pushed.
    pub(super) fn take(&self) -> Vec<u64> {
        if self.flag.load(Ordering::SeqCst) == 0 {
            return Vec::new();
        }
        let mut woken = self.lock();
        self.flag.store(0, Ordering::SeqCst);
        std::mem::take(&mut *woken)
    }

    /// Sleeps until something was pushed.
    pub(super) fn wait(&self) {
        let mut woken = self.lock();
        while woken.is_empty() {
            woken = self
                .ready
                .wait(woken)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Wakes one function.
pub(super) struct TaskWaker {
    pub(super) key: u64,
    pub(super) remote: Arc<Remote>,
}

impl std::task::Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.remote.push(self.key);
    }
}
