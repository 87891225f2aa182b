//! Threads of the host that work while its tracees run.
#![expect(unsafe_code, reason = "gettid")]

use std::sync::{Arc, Mutex, PoisonError};

use super::cpus::{Cpus, INITIAL, widen_self};
use crate::event::Tid;

/// The threads of a host that work while its tracees run.
///
/// In phases in which one tracee is busy at a time the tracer keeps it on its
/// own CPU; these threads keep off that CPU meanwhile. Left to the scheduler
/// they would often be woken there, and stand in the tracee's way: to a guest a
/// CPU that its host has put to sleep looks taken.
#[derive(Clone, Default)]
pub struct HostThreads(Arc<Mutex<HostThreadList>>);

#[derive(Default)]
struct HostThreadList {
    threads: Vec<Tid>,
    /// What the threads are allowed, if the runtime decides.
    cpus: Option<Cpus>,
}

impl HostThreads {
    /// The calling thread is one of them until the guard is dropped.
    pub fn enter(&self) -> HostThread {
        // SAFETY: gettid has no arguments and cannot fail.
        let tid = unsafe { libc::gettid() };
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match list.cpus {
            Some(cpus) => {
                cpus.apply(tid);
            }
            None => widen_self(),
        }
        list.threads.push(tid);
        HostThread(self.clone(), tid)
    }

    /// How many CPUs there are for them and the runtime together: those that the
    /// thread was allowed that made the first runtime, or else the calling one.
    pub fn available() -> usize {
        let initial = INITIAL.get().copied().or_else(|| Cpus::of(0));
        initial.map_or(1, |cpus| cpus.count().unsigned_abs() as usize)
    }

    /// How many CPUs they may use now, if the runtime decides.
    pub fn cpus(&self) -> Option<usize> {
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.cpus.map(|cpus| cpus.count().unsigned_abs() as usize)
    }

    /// Nothing but them is left to do: they may run anywhere.
    pub fn anywhere(&self) {
        if let Some(cpus) = INITIAL.get() {
            self.allow(*cpus);
        }
    }

    pub(super) fn allow(&self, cpus: Cpus) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.cpus = Some(cpus);
        for tid in &list.threads {
            cpus.apply(*tid);
        }
    }
}

impl std::fmt::Debug for HostThreads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostThreads").finish_non_exhaustive()
    }
}

/// That a thread is one of the [`HostThreads`].
#[derive(Debug)]
pub struct HostThread(HostThreads, Tid);

impl Drop for HostThread {
    fn drop(&mut self) {
        let mut list = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.threads.retain(|tid| *tid != self.1);
    }
}
