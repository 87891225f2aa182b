//! When tasks are narrowed to the tracer's CPU, and when the tracer is pinned.

use std::cell::RefCell;

use super::cpus::{Cpus, INITIAL, cpu_of, is_limited_root, own_cpu};
use super::host_threads::HostThreads;
use super::narrowed::NarrowedTasks;
use crate::event::Tid;
use crate::filter::{ARCH_X86_64, Filter};

/// The unit of [`Inner::interleaving`].
const EVERY_STOP: u32 = 1 << 16;
/// The number of stops that the mean covers, about.
const STOPS_AVERAGED: u32 = 32;
/// The tracer is pinned when fewer stops than this are another task's.
const PIN_BELOW: u32 = EVERY_STOP / 4;
/// It is unpinned when more are. Two busy tasks come near a half.
const FREE_ABOVE: u32 = EVERY_STOP * 3 / 8;
/// The initial value: with a single task the tracer is pinned from its second stop on.
/// Before that, both are still starting.
const INITIAL_INTERLEAVING: u32 = PIN_BELOW - EVERY_STOP / 48;

/// Where the tracer is pinned.
#[derive(Clone, Copy)]
struct Pin {
    cpu: usize,
    only: Cpus,
}

struct Inner {
    /// The task that stopped last.
    last: Tid,
    /// The own affinity of that task, if it may be narrowed.
    allowed: Option<Cpus>,
    /// The share of stops of another task than the one before, of [`EVERY_STOP`].
    interleaving: u32,
    /// The tracer's own affinity; `None` turns the policy off.
    tracer_allowed: Option<Cpus>,
    pin: Option<Pin>,
    narrowed: NarrowedTasks,
    /// Children that have not stopped yet, with the affinity of their parents.
    children: Vec<(Tid, Cpus)>,
    /// Whether a narrowed task can be widened even if it becomes another user.
    can_always_widen: bool,
    /// The host has bound each task to a CPU.
    is_bound: bool,
    host_threads: HostThreads,
}

impl Inner {
    fn free(&mut self) {
        self.allowed = None;
        self.narrowed.widen_all();
        if let (Some(_), Some(own)) = (self.pin.take(), self.tracer_allowed) {
            own.apply(0);
            self.host_threads.allow(own);
        }
    }
}

/// The placement policy of one runtime.
pub(crate) struct Placement {
    inner: RefCell<Inner>,
}

impl Placement {
    pub(crate) fn new(filter: &Filter) -> Self {
        let seen = |nr: i64| filter.stops(ARCH_X86_64, nr.cast_unsigned(), &[0; 6]);
        let hidden = seen(libc::SYS_sched_getaffinity) && seen(libc::SYS_sched_setaffinity);
        if let Some(cpus) = Cpus::of(0) {
            INITIAL.get_or_init(|| cpus);
        }
        // With a single CPU there is nothing to decide.
        let tracer_allowed = Cpus::of(0).filter(|cpus| hidden && cpus.count() > 1);
        Self {
            inner: RefCell::new(Inner {
                last: 0,
                allowed: None,
                interleaving: INITIAL_INTERLEAVING,
                tracer_allowed,
                pin: None,
                narrowed: NarrowedTasks::default(),
                children: Vec::new(),
                can_always_widen: !is_limited_root(),
                is_bound: false,
                host_threads: HostThreads::default(),
            }),
        }
    }

    /// The host's own threads.
    pub(crate) fn host_threads(&self) -> HostThreads {
        self.inner.borrow().host_threads.clone()
    }

    /// A stop of `tid` arrived.
    pub(crate) fn stopped(&self, tid: Tid) {
        let mut inner = self.inner.borrow_mut();
        let Some(own) = inner.tracer_allowed else {
            return;
        };
        let kept = inner.narrowed.stopped(tid);
        inner.interleaving -= inner.interleaving / STOPS_AVERAGED;
        let is_another = inner.last != tid;
        if is_another {
            inner.last = tid;
            inner.allowed = None;
        }
        let is_parallel = match inner.is_bound {
            true => is_another,
            false => inner.narrowed.is_contended(tid),
        };
        if is_parallel {
            inner.interleaving += EVERY_STOP / STOPS_AVERAGED;
        }
        if inner.pin.is_none() && inner.interleaving < PIN_BELOW {
            // The task comes to the tracer's CPU if its affinity allows that, which costs
            // nothing when it wakes. Moving the running tracer takes 50 µs. For a task that
            // is bound to another CPU the tracer still moves.
            let its = Cpus::of(tid);
            let here = own_cpu().filter(|cpu| its.is_some_and(|its| its.contains(*cpu)));
            let cpu = here.or_else(|| cpu_of(tid));
            inner.pin = cpu
                .filter(|cpu| own.contains(*cpu))
                .map(|cpu| Pin {
                    cpu,
                    only: Cpus::only(cpu),
                })
                .filter(|pin| inner.narrowed.is_watched() && pin.only.apply(0));
            if let Some(pin) = inner.pin {
                inner.host_threads.allow(own.without(pin.cpu));
            }
        }
        let Some(pin) = inner.pin else { return };
        if inner.interleaving > FREE_ABOVE {
            inner.free();
        } else if inner.allowed.is_none() {
            match kept.or_else(|| Cpus::of(tid)) {
                Some(allowed) if allowed.contains(pin.cpu) => inner.allowed = Some(allowed),
                // Its affinity excludes the tracer's CPU.
                _ => inner.free(),
            }
        }
    }

    /// Runs `resume`, which wakes `tid`, so that the task wakes on the tracer's CPU unless
    /// others contend. `in_call`: the task stops again at the end of its call. `hidden`: no
    /// task can look at the affinity of others, so that this one may stay narrowed.
    pub(crate) fn wake<T>(
        &self,
        tid: Tid,
        in_call: bool,
        hidden: bool,
        resume: impl FnOnce() -> T,
    ) -> T {
        let inner = self.inner.borrow();
        if inner.tracer_allowed.is_none() {
            return resume();
        }
        if !in_call && !inner.is_bound {
            inner.narrowed.woken(tid);
        }
        let both = match (inner.pin, inner.allowed) {
            (Some(pin), Some(allowed)) if inner.last == tid && allowed.count() > 1 => {
                Some((pin, allowed))
            }
            _ => None,
        };
        let Some((pin, allowed)) = both else {
            inner.narrowed.widen(tid);
            return resume();
        };
        if inner.narrowed.is_contended(tid) {
            inner.narrowed.widen_all();
            return resume();
        }
        if hidden && inner.can_always_widen {
            inner.narrowed.narrow(tid, allowed, &pin.only);
            return resume();
        }
        inner.narrowed.widen(tid);
        let narrowed = pin.only.apply(tid);
        let result = resume();
        if narrowed {
            allowed.apply(tid);
        }
        result
    }

    /// As [`Placement::wake`], for a task that stops again before it runs code of its own.
    /// It is narrowed even while other tasks are awake.
    pub(crate) fn wake_until_stop<T>(&self, tid: Tid, resume: impl FnOnce() -> T) -> T {
        let inner = self.inner.borrow_mut();
        if let (Some(pin), Some(allowed)) = (inner.pin, inner.allowed)
            && inner.last == tid
            && allowed.count() > 1
        {
            inner.narrowed.narrow(tid, allowed, &pin.only);
        }
        resume()
    }

    /// A stopped task may be looked at or resumed by others: it gets its own affinity back.
    pub(crate) fn restore_affinity(&self, tid: Tid) {
        self.inner.borrow().narrowed.widen(tid);
    }

    /// A task is about to look at affinities: all tasks get their own back.
    pub(crate) fn restore_all_affinities(&self) {
        self.inner.borrow().narrowed.widen_all();
    }

    /// A thread has executed a program and has the id of its leader now.
    pub(crate) fn replaced(&self, former: Tid, leader: Tid) {
        let mut inner = self.inner.borrow_mut();
        inner.narrowed.replaced(former, leader);
        (inner.last, inner.allowed) = (0, None);
    }

    /// A task has ended.
    pub(crate) fn ended(&self, tid: Tid) {
        let mut inner = self.inner.borrow_mut();
        inner.narrowed.ended(tid);
        inner.children.retain(|(child, _)| *child != tid);
    }

    /// A task is about to set an affinity, or no tracee is left: all known affinities are
    /// stale, and the tracer is unpinned.
    pub(crate) fn reset(&self) {
        self.restore_all_affinities();
        let mut inner = self.inner.borrow_mut();
        (inner.last, inner.interleaving) = (0, EVERY_STOP);
        inner.free();
    }

    /// Binds a stopped task to one CPU; returns whether that succeeded.
    pub(crate) fn bind(&self, tid: Tid, cpu: usize) -> bool {
        let mut inner = self.inner.borrow_mut();
        inner.narrowed.widen(tid);
        let only = Cpus::only(cpu);
        if !only.apply(tid) {
            return false;
        }
        inner.is_bound = true;
        if inner.last == tid {
            inner.allowed = Some(only);
        }
        true
    }

    /// A stopped task has just created this child.
    pub(crate) fn child_created(&self, parent: Tid, child: Tid) {
        let mut inner = self.inner.borrow_mut();
        if inner.tracer_allowed.is_none() {
            return;
        }
        if let Some(allowed) = inner.allowed.or_else(|| Cpus::of(parent)) {
            inner.children.push((child, allowed));
        }
    }

    /// A child made its first stop. If it inherited a narrowed affinity, it gets the one
    /// that its parent had at the fork event. The parent may have ended since, or may be
    /// executing a program.
    pub(crate) fn started(&self, parent: Tid, child: Tid) {
        let mut inner = self.inner.borrow_mut();
        if inner.tracer_allowed.is_none() {
            return;
        }
        let children = inner.children.iter().position(|(tid, _)| *tid == child);
        let children = children.map(|at| inner.children.swap_remove(at).1);
        let Some(its) = Cpus::of(child) else { return };
        let is_narrowed = inner.pin.is_some_and(|pin| its.equals(&pin.only));
        // A child whose parent has ended may have this process as its new parent.
        let is_ours = parent.cast_unsigned() == std::process::id();
        let theirs = match children {
            Some(theirs) => Some(theirs),
            None if is_ours && is_narrowed => inner.tracer_allowed,
            None => inner
                .narrowed
                .allowed(parent)
                .or_else(|| Cpus::of(parent))
                // The parent has ended since.
                .or(inner.tracer_allowed.filter(|_| is_narrowed)),
        };
        match theirs {
            Some(theirs) if its.equals(&theirs) => {}
            Some(theirs) if is_narrowed => inner.narrowed.add_narrowed(child, theirs),
            Some(theirs) => {
                theirs.apply(child);
            }
            None => {}
        }
    }
}
