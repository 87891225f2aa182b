//! Where the tracer runs.
//!
//! A stop costs about 9 µs when tracer and tracee share a CPU and 35 to 55 µs
//! when the scheduler keeps them apart, and it does keep them apart: whichever
//! of the two wakes the other finds the other CPU idle and picks that one.
//! Pinning the tracer alone does not help (the tracee is then woken
//! elsewhere), and a tracee's affinity may not change under its eyes.
//!
//! So: while stops come in runs of one task ("solo"), the tracer pins *itself*
//! to a CPU, and narrows the affinity of whoever stops to that CPU
//! just for the moment of its wake-up, while it is stopped and cannot look. A
//! shell and its children take turns, and stay on that CPU: who they are does
//! not matter, but how often the next stop is another task's. When that is
//! often (a parallel build), the tracer is free again and the scheduler
//! decides.
//!
//! The woken task may run before it is widened again, the call that it was
//! stopped at included. A task that asks for its affinity or opens a file of
//! `/proc` is therefore never narrowed from then on (and the policy is off
//! unless the filter names sched_getaffinity and sched_setaffinity); and because
//! a narrowed task can fork, each child's affinity is compared with its parent's
//! at its first stop. A task that sets an affinity ends the phase, so that
//! nothing but what it set is ever restored.
//!
//! A task that executes a program is narrowed until its next stop, which comes
//! before the program runs: the kernel looks for a better CPU at an execve, and
//! the way to it takes 130 µs. While there is a task that may look at the affinity
//! of others, none is narrowed so.
//!
//! What lost: being free again at every stop of another task (in a `configure`,
//! a fifth of the tracer's time went into finding CPUs and pinning anew); always pinning the tracer (55 µs a stop), narrowing in parallel
//! phases too (serialises two busy tracees on one CPU until the next balance).
//! In parallel phases, measured with `benches`' `stops` on two CPUs of a busy
//! machine (two loops at a time, 18 to 25 µs a call of each): asking with `WNOHANG` 2, 5 or 30
//! times before blocking was within the noise and burns up to 10 µs a stop;
//! yielding before asking (23 to 35 µs) and `SCHED_BATCH` for the tracer (24 to
//! 33 µs, and up to 20 instead of 13 alone) were worse; `SCHED_IDLE` no better.
//! Emptying the kernel's list before blocking has nothing to gain: a wait that
//! finds a stop does not block.
#![expect(unsafe_code, reason = "sched_getaffinity and sched_setaffinity")]

use std::cell::RefCell;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::slot::Peeked;
use crate::event::Tid;
use crate::filter::{ARCH_X86_64, Filter};

/// The unit of [`Inner::turns`].
const ALWAYS: u32 = 1 << 16;
/// Of how many stops that is the mean, about.
const MEMORY: u32 = 32;
/// Solo begins when fewer stops than these are another task's...
const PIN_BELOW: u32 = ALWAYS / 4;
/// ... and ends when more than these are. Two busy tasks come near a half.
const FREE_ABOVE: u32 = ALWAYS * 3 / 8;
/// Where the count begins: a single task is alone from its second stop on. Until
/// then it sets itself up, and so does the tracer.
const FIRST: u32 = PIN_BELOW - ALWAYS / 48;

/// A set of CPUs as the kernel passes it.
#[derive(Clone, Copy)]
struct Cpus(libc::cpu_set_t);

impl Cpus {
    fn of(tid: Tid) -> Option<Self> {
        // SAFETY: cpu_set_t is plain bits; zero is the empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes at most the size given.
        let ok = unsafe { libc::sched_getaffinity(tid, size_of_val(&set), &raw mut set) } == 0;
        ok.then_some(Self(set))
    }

    fn only(cpu: usize) -> Self {
        // SAFETY: as above; CPU_SET stays within the set for cpu < 1024.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        if cpu < libc::CPU_SETSIZE as usize {
            // SAFETY: `cpu` was checked.
            unsafe { libc::CPU_SET(cpu, &mut set) };
        }
        Self(set)
    }

    fn without(mut self, cpu: usize) -> Self {
        if self.contains(cpu) {
            // SAFETY: CPU_CLR stays within the set, for the CPU was checked.
            unsafe { libc::CPU_CLR(cpu, &mut self.0) };
        }
        self
    }

    fn contains(&self, cpu: usize) -> bool {
        // SAFETY: CPU_ISSET stays within the set, for the CPU was checked.
        cpu < libc::CPU_SETSIZE as usize && unsafe { libc::CPU_ISSET(cpu, &self.0) }
    }

    fn equals(&self, other: &Self) -> bool {
        // SAFETY: compares the sets' bits.
        unsafe { libc::CPU_EQUAL(&self.0, &other.0) }
    }

    fn count(&self) -> i32 {
        // SAFETY: reads the set.
        unsafe { libc::CPU_COUNT(&self.0) }
    }

    fn apply(&self, tid: Tid) -> bool {
        // SAFETY: the kernel reads at most the size given.
        unsafe { libc::sched_setaffinity(tid, size_of_val(&self.0), &raw const self.0) == 0 }
    }
}

/// Where the tracer is pinned.
#[derive(Clone, Copy)]
struct Pin {
    cpu: usize,
    only: Cpus,
}

/// The threads of a host that work while its tracees run.
///
/// In phases in which one tracee is busy at a time the tracer keeps it on its
/// own CPU; these threads keep off that CPU meanwhile. Left to the scheduler
/// they would often be woken there, and stand in the tracee's way: to a guest a
/// CPU that its host has put to sleep looks taken.
#[derive(Clone, Default)]
pub struct Background(Arc<Mutex<Aside>>);

#[derive(Default)]
struct Aside {
    threads: Vec<Tid>,
    /// What the threads are allowed, if the runtime decides.
    cpus: Option<Cpus>,
}

impl Background {
    /// The calling thread is one of them until the guard is dropped.
    pub fn enter(&self) -> Working {
        // SAFETY: gettid has no arguments and cannot fail.
        let tid = unsafe { libc::gettid() };
        let mut aside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match aside.cpus {
            Some(cpus) => {
                cpus.apply(tid);
            }
            None => widen_self(),
        }
        aside.threads.push(tid);
        Working(self.clone(), tid)
    }

    /// How many CPUs there are for them and the runtime together: those that the
    /// thread was allowed that made the first runtime, or else the calling one.
    pub fn available() -> usize {
        let initial = INITIAL.get().copied().or_else(|| Cpus::of(0));
        initial.map_or(1, |cpus| cpus.count().unsigned_abs() as usize)
    }

    /// How many CPUs they may use now, if the runtime decides.
    pub fn cpus(&self) -> Option<usize> {
        let aside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        aside.cpus.map(|cpus| cpus.count().unsigned_abs() as usize)
    }

    /// Nothing but them is left to do: they may run anywhere.
    pub fn anywhere(&self) {
        if let Some(cpus) = INITIAL.get() {
            self.allow(*cpus);
        }
    }

    fn allow(&self, cpus: Cpus) {
        let mut aside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        aside.cpus = Some(cpus);
        for tid in &aside.threads {
            cpus.apply(*tid);
        }
    }
}

impl std::fmt::Debug for Background {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Background").finish_non_exhaustive()
    }
}

/// That a thread is one of the [`Background`].
#[derive(Debug)]
pub struct Working(Background, Tid);

impl Drop for Working {
    fn drop(&mut self) {
        let mut aside = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        aside.threads.retain(|tid| *tid != self.1);
    }
}

struct Inner {
    /// Who stopped last.
    last: Tid,
    /// What that one is allowed, if it may be narrowed.
    wide: Option<Cpus>,
    /// How many stops are not of the task that stopped before, of [`ALWAYS`].
    turns: u32,
    /// What the tracer is allowed; `None`: the policy is off.
    own: Option<Cpus>,
    pin: Option<Pin>,
    /// Tasks that are narrowed until they stop, and what they are allowed.
    held: Vec<(Tid, Cpus)>,
    /// Children that have not stopped yet, and what their parents were allowed.
    born: Vec<(Tid, Cpus)>,
    background: Background,
}

impl Inner {
    /// Gives a task that is held, if it is, what it is allowed.
    fn release(&mut self, tid: Tid) {
        if let Some(at) = self.held.iter().position(|(held, _)| *held == tid) {
            let (_, wide) = self.held.swap_remove(at);
            wide.apply(tid);
        }
    }

    fn free(&mut self) {
        self.wide = None;
        if let (Some(_), Some(own)) = (self.pin.take(), self.own) {
            own.apply(0);
            self.background.allow(own);
        }
    }
}

/// What the first runtime's thread was allowed before any was pinned.
static INITIAL: OnceLock<Cpus> = OnceLock::new();

/// Takes from the calling thread what it inherited of a pinned tracer.
pub(super) fn widen_self() {
    if let Some(cpus) = INITIAL.get() {
        cpus.apply(0);
    }
}

/// The placement policy of one runtime.
pub(super) struct Placement {
    inner: RefCell<Inner>,
}

impl Placement {
    pub(super) fn new(filter: &Filter) -> Self {
        let seen = |nr: i64| filter.stops(ARCH_X86_64, nr.cast_unsigned(), &[0; 6]);
        let hidden = seen(libc::SYS_sched_getaffinity) && seen(libc::SYS_sched_setaffinity);
        if let Some(cpus) = Cpus::of(0) {
            INITIAL.get_or_init(|| cpus);
        }
        // With a single CPU there is nothing to decide.
        let own = Cpus::of(0).filter(|cpus| hidden && cpus.count() > 1);
        Self {
            inner: RefCell::new(Inner {
                last: 0,
                wide: None,
                turns: FIRST,
                own,
                pin: None,
                held: Vec::new(),
                born: Vec::new(),
                background: Background::default(),
            }),
        }
    }

    /// The host's own threads.
    pub(super) fn background(&self) -> Background {
        self.inner.borrow().background.clone()
    }

    /// A stop of `tid` arrived.
    pub(super) fn stopped(&self, tid: Tid) {
        let mut inner = self.inner.borrow_mut();
        let Some(own) = inner.own else { return };
        inner.release(tid);
        inner.turns -= inner.turns / MEMORY;
        if inner.last != tid {
            inner.last = tid;
            inner.wide = None;
            inner.turns += ALWAYS / MEMORY;
        }
        if inner.pin.is_none() && inner.turns < PIN_BELOW {
            // A task with one CPU needs no help with staying there, but the
            // tracer should still come to it.
            // It comes to the tracer if it may, which costs nothing when it wakes;
            // the way of one that runs takes 50 µs.
            let its = Cpus::of(tid);
            let here = own_cpu().filter(|cpu| its.is_some_and(|its| its.contains(*cpu)));
            let cpu = here.or_else(|| cpu_of(tid));
            inner.pin = cpu
                .filter(|cpu| own.contains(*cpu))
                .map(|cpu| Pin {
                    cpu,
                    only: Cpus::only(cpu),
                })
                .filter(|pin| pin.only.apply(0));
            if let Some(pin) = inner.pin {
                inner.background.allow(own.without(pin.cpu));
            }
        }
        let Some(pin) = inner.pin else { return };
        if inner.turns > FREE_ABOVE {
            inner.free();
        } else if inner.wide.is_none() {
            match Cpus::of(tid) {
                Some(wide) if wide.contains(pin.cpu) => inner.wide = Some(wide),
                // It may not come to us.
                _ => inner.free(),
            }
        }
    }

    /// Runs `resume`, which wakes `tid`, so that it wakes on our CPU if alone.
    pub(super) fn wake<T>(&self, tid: Tid, resume: impl FnOnce() -> T) -> T {
        let inner = self.inner.borrow();
        match (&inner.pin, &inner.wide) {
            (Some(pin), Some(wide)) if inner.last == tid && wide.count() > 1 => {
                let narrowed = pin.only.apply(tid);
                let result = resume();
                if narrowed {
                    wide.apply(tid);
                }
                result
            }
            _ => resume(),
        }
    }

    /// As [`Placement::wake`], of a task that is going to stop again before it runs
    /// anything of its own: it stays narrowed until then.
    pub(super) fn wake_until_stop<T>(&self, tid: Tid, resume: impl FnOnce() -> T) -> T {
        let mut inner = self.inner.borrow_mut();
        if let (Some(pin), Some(wide)) = (inner.pin, inner.wide)
            && inner.last == tid
            && wide.count() > 1
            && pin.only.apply(tid)
        {
            inner.held.push((tid, wide));
        }
        drop(inner);
        resume()
    }

    /// A task is going to look at its affinity, or at that of others.
    pub(super) fn exposed(&self) {
        for (tid, wide) in std::mem::take(&mut self.inner.borrow_mut().held) {
            wide.apply(tid);
        }
    }

    /// A task has ended.
    pub(super) fn ended(&self, tid: Tid) {
        let mut inner = self.inner.borrow_mut();
        inner.held.retain(|(held, _)| *held != tid);
        inner.born.retain(|(child, _)| *child != tid);
    }

    /// A task is about to choose an affinity, or nobody is traced any more: what
    /// we know of any is stale, and the tracer is free again.
    pub(super) fn disturbed(&self) {
        self.exposed();
        let mut inner = self.inner.borrow_mut();
        (inner.last, inner.turns) = (0, ALWAYS);
        inner.free();
    }

    /// Keeps a stopped task on one CPU from now on; whether that is possible.
    pub(super) fn bind(&self, tid: Tid, cpu: usize) -> bool {
        let mut inner = self.inner.borrow_mut();
        inner.held.retain(|(held, _)| *held != tid);
        let only = Cpus::only(cpu);
        if !only.apply(tid) {
            return false;
        }
        if inner.last == tid {
            inner.wide = Some(only);
        }
        true
    }

    /// A task is stopped that has just made this child.
    pub(super) fn bore(&self, parent: Tid, child: Tid) {
        let mut inner = self.inner.borrow_mut();
        if inner.own.is_some()
            && let Some(wide) = inner.wide.or_else(|| Cpus::of(parent))
        {
            inner.born.push((child, wide));
        }
    }

    /// A child made its first stop. If its parent was woken narrowed and made
    /// it before we could widen the parent again, it has inherited that: it
    /// gets what the parent had when it was asked, stopped. Meanwhile that may have
    /// ended, or be executing a program.
    pub(super) fn started(&self, parent: Tid, child: Tid) {
        let mut inner = self.inner.borrow_mut();
        if inner.own.is_none() {
            return;
        }
        let at = |list: &[(Tid, Cpus)], of: Tid| list.iter().position(|(tid, _)| *tid == of);
        let theirs = match (at(&inner.born, child), at(&inner.held, parent)) {
            (Some(at), _) => Some(inner.born.swap_remove(at).1),
            (None, Some(at)) => Some(inner.held[at].1),
            (None, None) => Cpus::of(parent),
        };
        if let (Some(theirs), Some(its)) = (theirs, Cpus::of(child))
            && !its.equals(&theirs)
        {
            theirs.apply(child);
            if inner.last == child && inner.wide.is_some() {
                inner.wide = Some(theirs);
            }
        }
    }
}

/// Whether a call can show the task its affinity, at once or later.
pub(super) enum Exposure {
    None,
    Certain,
    /// If the path at this address is in `/proc`.
    OfPath(u64),
}

/// Whether a task asks for its affinity, or opens what may be a file of `/proc`.
pub(super) fn exposure(nr: u64, args: &[u64; 6]) -> Exposure {
    match nr.cast_signed() {
        libc::SYS_sched_getaffinity => Exposure::Certain,
        libc::SYS_open => Exposure::OfPath(args[0]),
        libc::SYS_openat | libc::SYS_openat2 => Exposure::OfPath(args[1]),
        // What an open that does not stop says of such a file (see `in_process`).
        libc::SYS_dup2 if args[0] as u32 == args[1] as u32 => Exposure::Certain,
        _ => Exposure::None,
    }
}

/// Whether what is at a path, which begins so, may show an affinity: what is in `/proc`,
/// but for two files that programs read as they start, the list of file systems (the only
/// name there with this beginning; libselinux reads it) and where their own memory is.
pub(super) fn may_show(path: &Peeked) -> bool {
    let harmless = path.starts_with(b"/proc/fi") || path.starts_with(b"/proc/self/maps");
    path.starts_with(b"/proc") && !harmless
}

/// The CPU that this thread runs on.
fn own_cpu() -> Option<usize> {
    // SAFETY: sched_getcpu has no arguments.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// The CPU a task last ran on (field 39 of `/proc/TID/stat`).
fn cpu_of(tid: Tid) -> Option<usize> {
    let stat = std::fs::read(format!("/proc/{tid}/stat")).ok()?;
    let end = stat.iter().rposition(|&b| b == b')')?;
    std::str::from_utf8(&stat[end..])
        .ok()?
        .split(' ')
        .nth(37)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_read_as_they_start_shows_no_affinity() {
        let own = std::process::id().cast_signed();
        let may_show = |path: &std::ffi::CStr| may_show(&Peeked::read(own, path.as_ptr() as u64));
        for shows in [
            c"/proc",
            c"/proc/self/status",
            c"/proc/self/map_files",
            c"/proc/1/stat",
        ] {
            assert!(may_show(shows), "{shows:?}");
        }
        for shows_not in [
            c"/proc/filesystems",
            c"/proc/self/maps",
            c"/etc/passwd",
            c"",
        ] {
            assert!(!may_show(shows_not), "{shows_not:?}");
        }
    }
}
