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
//! decides. Nobody is moved to that CPU while another task is thought to use it: one
//! that was woken to run code of its own, has not stopped since, and has no children that
//! it may be waiting for. After a while of that its state is looked up. (Two compilers
//! that stop now and then look like one task that takes turns; with the one that stopped
//! moved to the CPU of the other, the second CPU was idle for up to a tick.)
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
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

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

/// For how long a task that was woken is thought to run.
const AWAKE: Duration = Duration::from_millis(20);

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
    /// Tasks that were woken to run code of their own and have not stopped since, and
    /// when they were known to run.
    awake: Vec<(Tid, Instant)>,
    /// Of each task that lives, its parent, and how many children it has.
    parents: FxHashMap<Tid, Tid>,
    children: FxHashMap<Tid, u32>,
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

    /// Whether a task other than this one seems to run.
    fn is_another_awake(&mut self, tid: Tid) -> bool {
        if self.awake.is_empty() {
            return false;
        }
        let now = Instant::now();
        let Self {
            awake, children, ..
        } = self;
        let mut found = false;
        awake.retain_mut(|(other, since)| {
            if *other == tid || children.contains_key(other) {
                return true;
            }
            if now.duration_since(*since) > AWAKE {
                if !is_running(*other) {
                    return false;
                }
                *since = now;
            }
            found = true;
            true
        });
        found
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
                awake: Vec::new(),
                parents: FxHashMap::default(),
                children: FxHashMap::default(),
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
        inner.awake.retain(|(awake, _)| *awake != tid);
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

    /// Runs `resume`, which wakes `tid`, so that it wakes on our CPU if alone. `in_call`:
    /// it stops again at the end of the call that it is in.
    pub(super) fn wake<T>(&self, tid: Tid, in_call: bool, resume: impl FnOnce() -> T) -> T {
        let mut inner = self.inner.borrow_mut();
        if !in_call && inner.own.is_some() {
            inner.awake.push((tid, Instant::now()));
        }
        match (inner.pin, inner.wide) {
            (Some(pin), Some(wide))
                if inner.last == tid && wide.count() > 1 && !inner.is_another_awake(tid) =>
            {
                drop(inner);
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
        inner.awake.retain(|(awake, _)| *awake != tid);
        inner.children.remove(&tid);
        if let Some(parent) = inner.parents.remove(&tid)
            && let Some(children) = inner.children.get_mut(&parent)
        {
            *children -= 1;
            if *children == 0 {
                inner.children.remove(&parent);
            }
        }
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
        if inner.own.is_none() {
            return;
        }
        inner.parents.insert(child, parent);
        *inner.children.entry(parent).or_default() += 1;
        if let Some(wide) = inner.wide.or_else(|| Cpus::of(parent)) {
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
    field(tid, 39)?.parse().ok()
}

/// Whether a task runs or could (field 3 of `/proc/TID/stat`).
fn is_running(tid: Tid) -> bool {
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

    #[test]
    fn who_runs_is_told_from_who_waits() {
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
