//! Threads of the host that work while its tracees run.
#![expect(unsafe_code, reason = "gettid")]

use std::sync::{Arc, Mutex};

use super::cpus::{Cpus, INITIAL, widen_self};
use crate::event::Tid;
use crate::runtime::lock::lock;

/// The threads of a host that work while its tracees run.
///
/// While one tracee at a time is busy, the tracer keeps it on its own CPU, and these
/// threads run on the others. The scheduler alone would often wake them on the tracer's
/// CPU: in a virtual machine, a CPU that the hypervisor has put to sleep looks busy.
#[derive(Clone, Default)]
pub struct HostThreads(Arc<Mutex<HostThreadList>>);

#[derive(Default)]
struct HostThreadList {
    threads: Vec<Tid>,
    /// The affinity of the threads, if the runtime decides it.
    cpus: Option<Cpus>,
}

impl HostThreads {
    /// Adds the calling thread until the guard is dropped.
    pub fn enter(&self) -> HostThread {
        // SAFETY: gettid has no arguments and cannot fail.
        let tid = unsafe { libc::gettid() };
        let mut list = lock(&self.0);
        match list.cpus {
            Some(cpus) => {
                cpus.apply(tid);
            }
            None => widen_self(),
        }
        list.threads.push(tid);
        HostThread(self.clone(), tid)
    }

    /// The number of CPUs for these threads and the runtime together: the affinity of the
    /// thread that made the first runtime, or of the calling thread if there is none.
    pub fn available() -> usize {
        let initial = INITIAL.get().copied().or_else(|| Cpus::of(0));
        initial.map_or(1, |cpus| cpus.count().unsigned_abs() as usize)
    }

    /// The number of CPUs that they may use now, if the runtime decides it.
    pub fn cpus(&self) -> Option<usize> {
        let list = lock(&self.0);
        list.cpus.map(|cpus| cpus.count().unsigned_abs() as usize)
    }

    /// Lets them run on all CPUs, because only their work is left.
    pub fn anywhere(&self) {
        if let Some(cpus) = INITIAL.get() {
            self.allow(*cpus);
        }
    }

    pub(super) fn allow(&self, cpus: Cpus) {
        let mut list = lock(&self.0);
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

/// Membership of one thread in [`HostThreads`]; dropping it removes the thread.
#[derive(Debug)]
pub struct HostThread(HostThreads, Tid);

impl Drop for HostThread {
    fn drop(&mut self) {
        let mut list = lock(&self.0.0);
        list.threads.retain(|tid| *tid != self.1);
    }
}
