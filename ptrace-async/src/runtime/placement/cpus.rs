//! Sets of CPUs, and where tasks run.
#![expect(unsafe_code, reason = "sched_getaffinity and sched_setaffinity")]

use std::sync::OnceLock;

use crate::event::Tid;

/// A set of CPUs as the kernel passes it.
#[derive(Clone, Copy)]
pub(super) struct Cpus(libc::cpu_set_t);

impl Cpus {
    pub(super) fn of(tid: Tid) -> Option<Self> {
        // SAFETY: cpu_set_t is plain bits; zero is the empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes at most the size given.
        let ok = unsafe { libc::sched_getaffinity(tid, size_of_val(&set), &raw mut set) } == 0;
        ok.then_some(Self(set))
    }

    pub(super) fn only(cpu: usize) -> Self {
        // SAFETY: as above; CPU_SET stays within the set for cpu < 1024.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        if cpu < libc::CPU_SETSIZE as usize {
            // SAFETY: `cpu` was checked.
            unsafe { libc::CPU_SET(cpu, &mut set) };
        }
        Self(set)
    }

    pub(super) fn without(mut self, cpu: usize) -> Self {
        if self.contains(cpu) {
            // SAFETY: CPU_CLR stays within the set, for the CPU was checked.
            unsafe { libc::CPU_CLR(cpu, &mut self.0) };
        }
        self
    }

    pub(super) fn contains(&self, cpu: usize) -> bool {
        // SAFETY: CPU_ISSET stays within the set, for the CPU was checked.
        cpu < libc::CPU_SETSIZE as usize && unsafe { libc::CPU_ISSET(cpu, &self.0) }
    }

    pub(super) fn equals(&self, other: &Self) -> bool {
        // SAFETY: compares the sets' bits.
        unsafe { libc::CPU_EQUAL(&self.0, &other.0) }
    }

    pub(super) fn count(&self) -> i32 {
        // SAFETY: reads the set.
        unsafe { libc::CPU_COUNT(&self.0) }
    }

    pub(super) fn apply(&self, tid: Tid) -> bool {
        // SAFETY: the kernel reads at most the size given.
        unsafe { libc::sched_setaffinity(tid, size_of_val(&self.0), &raw const self.0) == 0 }
    }
}

/// The affinity of the first runtime's thread before any tracer was pinned.
pub(super) static INITIAL: OnceLock<Cpus> = OnceLock::new();

/// Undoes the pinning that the calling thread inherited from a tracer.
pub(crate) fn widen_self() {
    if let Some(cpus) = INITIAL.get() {
        cpus.apply(0);
    }
}

/// Whether we are root without the right to set the affinity of other users' tasks. A task
/// that changes its user could then not be widened any more (sched_setaffinity(2)).
pub(super) fn is_limited_root() -> bool {
    const SYS_NICE: u64 = 1 << 23;
    // SAFETY: geteuid has no arguments and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let mut lines = status.lines();
    let rights = lines
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|rights| u64::from_str_radix(rights.trim(), 16).ok());
    is_root && rights.is_none_or(|rights| rights & SYS_NICE == 0)
}

/// The CPU that this thread runs on.
pub(super) fn own_cpu() -> Option<usize> {
    // SAFETY: sched_getcpu has no arguments.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// The CPU a task last ran on (field 39 of `/proc/TID/stat`).
pub(super) fn cpu_of(tid: Tid) -> Option<usize> {
    field(tid, 39)?.parse().ok()
}

/// Whether a task runs or could (field 3 of `/proc/TID/stat`).
pub(super) fn is_running(tid: Tid) -> bool {
    field(tid, 3).is_some_and(|state| state == "R")
}

/// A field of `/proc/TID/stat`, of those behind the name: 3 is the first.
fn field(tid: Tid, number: usize) -> Option<String> {
    let stat = std::fs::read(format!("/proc/{tid}/stat")).ok()?;
    let end = stat.iter().rposition(|&b| b == b')')?;
    let fields = std::str::from_utf8(&stat[end..]).ok()?;
    fields.split(' ').nth(number - 2).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_tasks_are_distinguished_from_waiting_ones() {
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let waiter = std::thread::spawn(move || {
            // SAFETY: gettid has no arguments and cannot fail.
            tell.send(unsafe { libc::gettid() }).unwrap();
            held.recv()
        });
        let waits = told.recv().unwrap();
        // SAFETY: as above.
        assert!(is_running(unsafe { libc::gettid() }));
        assert!(cpu_of(waits).is_some());
        while is_running(waits) {
            std::thread::yield_now();
        }
        drop(hold);
        assert!(waiter.join().unwrap().is_err());
        assert!(!is_running(0));
    }
}
