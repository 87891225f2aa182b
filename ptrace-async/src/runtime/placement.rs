//! Where the tracer runs.
//!
//! A stop costs about 9 µs when tracer and tracee share a CPU and 35 to 55 µs
//! when the scheduler keeps them apart, and it does keep them apart: whichever
//! of the two wakes the other finds the other CPU idle and picks that one.
//! Pinning the tracer alone does not help (the tracee is then woken
//! elsewhere), and a tracee's affinity may not change under its eyes.
//!
//! So: the tracer pins *itself* to a CPU, and narrows the affinity of whoever it wakes to that
//! CPU, where it cannot look. A shell, its children and the programs of its pipelines take
//! turns, and stay there together. Where two tasks have work for long they are in each other's
//! way: then all have what they are allowed, nobody is narrowed while another is awake, and
//! after some stops of that the tracer is free again and the scheduler decides. Who finds that
//! out, and lets go of a task that runs on and on, is in `held`.
//!
//! A task that asks for its affinity or opens a file of `/proc` is given what it is allowed
//! before it does, and never narrowed from then on (and the policy is off unless the filter
//! names sched_getaffinity and sched_setaffinity). While there is one that may look at the
//! affinity of others, these are narrowed for the moment of their wake-up only, while they are
//! stopped. Children inherit; each child's affinity is compared with its parent's at its first
//! stop. A task that sets an affinity ends the phase, so that nothing but what it set is ever
//! restored. Hosts find a task with all that it is allowed where it is about to execute a
//! program, and not where it stops otherwise.
//!
//! A task that executes a program is narrowed whoever is awake: it stops before the program
//! runs, and the kernel looks for a better CPU at an execve, and the way to it takes 130 µs.
//!
//! Measured with `./configure` of xz (3,300 processes, most of them one after another) on two
//! CPUs, five rounds side by side: plain 8.06 s of CPU time, 10.40 s with tasks narrowed for
//! the moment of each wake-up (6,000 migrations), 9.49 s with tasks held (1,900; plain 1,600).
//!
//! What lost: being free again at every stop of another task (in a `configure`,
//! a fifth of the tracer's time went into finding CPUs and pinning anew); always pinning the tracer (55 µs a stop), narrowing in parallel
//! phases too (serialises two busy tracees on one CPU until the next balance); telling parallel
//! phases by how often the next stop is another task's (two compilers that stop now and then
//! look like one task that takes turns, a shell and its children like two), or by who was woken
//! and has not stopped since (a shell waits, and its pipelines' programs wait for each other).
//! In parallel phases, measured with `benches`' `stops` on two CPUs of a busy
//! machine (two loops at a time, 18 to 25 µs a call of each): asking with `WNOHANG` 2, 5 or 30
//! times before blocking was within the noise and burns up to 10 µs a stop;
//! yielding before asking (23 to 35 µs) and `SCHED_BATCH` for the tracer (24 to
//! 33 µs, and up to 20 instead of 13 alone) were worse; `SCHED_IDLE` no better.
//! Emptying the kernel's list before blocking has nothing to gain: a wait that
//! finds a stop does not block.
#![expect(unsafe_code, reason = "sched_getaffinity and sched_setaffinity")]

mod held;

use std::cell::RefCell;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use self::held::Holder;
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
    held: Holder,
    /// Children that have not stopped yet, and what their parents were allowed.
    born: Vec<(Tid, Cpus)>,
    /// Whether what was narrowed can be widened whatever it has become.
    may_hold: bool,
    /// A host has bound tasks to CPUs: each has one.
    is_bound: bool,
    background: Background,
}

impl Inner {
    fn free(&mut self) {
        self.wide = None;
        self.held.release_all();
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
                held: Holder::default(),
                born: Vec::new(),
                may_hold: !is_limited_root(),
                is_bound: false,
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
        let kept = inner.held.stopped(tid);
        inner.turns -= inner.turns / MEMORY;
        let is_another = inner.last != tid;
        if is_another {
            inner.last = tid;
            inner.wide = None;
        }
        let is_parallel = match inner.is_bound {
            true => is_another,
            false => inner.held.is_contended(tid),
        };
        if is_parallel {
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
                .filter(|pin| inner.held.is_watched() && pin.only.apply(0));
            if let Some(pin) = inner.pin {
                inner.background.allow(own.without(pin.cpu));
            }
        }
        let Some(pin) = inner.pin else { return };
        if inner.turns > FREE_ABOVE {
            inner.free();
        } else if inner.wide.is_none() {
            match kept.or_else(|| Cpus::of(tid)) {
                Some(wide) if wide.contains(pin.cpu) => inner.wide = Some(wide),
                // It may not come to us.
                _ => inner.free(),
            }
        }
    }

    /// Runs `resume`, which wakes `tid`, so that it wakes on our CPU if alone. `in_call`:
    /// it stops again at the end of the call that it is in. `hidden`: nobody may look at the
    /// affinity of others, and so it can be held.
    pub(super) fn wake<T>(
        &self,
        tid: Tid,
        in_call: bool,
        hidden: bool,
        resume: impl FnOnce() -> T,
    ) -> T {
        let inner = self.inner.borrow();
        if inner.own.is_none() {
            return resume();
        }
        if !in_call && !inner.is_bound {
            inner.held.woken(tid);
        }
        let both = match (inner.pin, inner.wide) {
            (Some(pin), Some(wide)) if inner.last == tid && wide.count() > 1 => Some((pin, wide)),
            _ => None,
        };
        let Some((pin, wide)) = both else {
            inner.held.release(tid);
            return resume();
        };
        if inner.held.is_contended(tid) {
            inner.held.release_all();
            return resume();
        }
        if hidden && inner.may_hold {
            inner.held.hold(tid, wide, &pin.only);
            return resume();
        }
        inner.held.release(tid);
        let narrowed = pin.only.apply(tid);
        let result = resume();
        if narrowed {
            wide.apply(tid);
        }
        result
    }

    /// As [`Placement::wake`], of a task that is going to stop again before it runs
    /// anything of its own, whoever else is awake.
    pub(super) fn wake_until_stop<T>(&self, tid: Tid, resume: impl FnOnce() -> T) -> T {
        let inner = self.inner.borrow_mut();
        if let (Some(pin), Some(wide)) = (inner.pin, inner.wide)
            && inner.last == tid
            && wide.count() > 1
        {
            inner.held.hold(tid, wide, &pin.only);
        }
        resume()
    }

    /// A stopped task may be looked at, or resumed by others: it has what it is allowed.
    pub(super) fn shown(&self, tid: Tid) {
        self.inner.borrow().held.release(tid);
    }

    /// A task is going to look at its affinity, or at that of others.
    pub(super) fn exposed(&self) {
        self.inner.borrow().held.release_all();
    }

    /// A thread has executed a program and goes on as its leader, which is gone.
    pub(super) fn replaced(&self, former: Tid, leader: Tid) {
        let mut inner = self.inner.borrow_mut();
        inner.held.replaced(former, leader);
        (inner.last, inner.wide) = (0, None);
    }

    /// A task has ended.
    pub(super) fn ended(&self, tid: Tid) {
        let mut inner = self.inner.borrow_mut();
        inner.held.ended(tid);
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
        inner.held.release(tid);
        let only = Cpus::only(cpu);
        if !only.apply(tid) {
            return false;
        }
        inner.is_bound = true;
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
        let born = inner.born.iter().position(|(tid, _)| *tid == child);
        let born = born.map(|at| inner.born.swap_remove(at).1);
        let Some(its) = Cpus::of(child) else { return };
        let is_held = inner.pin.is_some_and(|pin| its.equals(&pin.only));
        // Who has lost its parent may have got this process for one.
        let is_ours = parent.cast_unsigned() == std::process::id();
        let theirs = match born {
            Some(theirs) => Some(theirs),
            None if is_ours && is_held => inner.own,
            None => inner
                .held
                .wide(parent)
                .or_else(|| Cpus::of(parent))
                // The parent has ended meanwhile.
                .or(inner.own.filter(|_| is_held)),
        };
        match theirs {
            Some(theirs) if its.equals(&theirs) => {}
            Some(theirs) if is_held => inner.held.inherited(child, theirs),
            Some(theirs) => {
                theirs.apply(child);
            }
            None => {}
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

/// Whether a task asks for its affinity, or opens what may be a file of `/proc`, or goes there
/// (if the filter names chdir).
pub(super) fn exposure(nr: u64, args: &[u64; 6]) -> Exposure {
    match nr.cast_signed() {
        libc::SYS_sched_getaffinity => Exposure::Certain,
        libc::SYS_open | libc::SYS_chdir => Exposure::OfPath(args[0]),
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

/// Whether we are root without the right to choose the affinity of others: what becomes another
/// user could not be widened any more (sched_setaffinity(2)).
fn is_limited_root() -> bool {
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
