//! When tasks are narrowed to the tracer's CPU, and when the tracer is pinned.

use std::cell::RefCell;

use super::cpus::{Cpus, INITIAL, cpu_of, is_limited_root, own_cpu};
use super::host_threads::HostThreads;
use super::narrowed::NarrowedTasks;
use crate::event::Tid;
use crate::filter::{ARCH_X86_64, Filter};

/// The unit of [`Inner::interleaving`].
const EVERY_STOP: u32 = 1 << 16;
/// Of how many stops that is the mean, about.
const STOPS_AVERAGED: u32 = 32;
/// Solo begins when fewer stops than these are another task's...
const PIN_BELOW: u32 = EVERY_STOP / 4;
/// ... and ends when more than these are. Two busy tasks come near a half.
const FREE_ABOVE: u32 = EVERY_STOP * 3 / 8;
/// Where the count begins: a single task is alone from its second stop on. Until
/// then it sets itself up, and so does the tracer.
const INITIAL_INTERLEAVING: u32 = PIN_BELOW - EVERY_STOP / 48;

/// Where the tracer is pinned.
#[derive(Clone, Copy)]
struct Pin {
    cpu: usize,
    only: Cpus,
}

struct Inner {
    /// Who stopped last.
    last: Tid,
    /// What that one is allowed, if it may be narrowed.
    allowed: Option<Cpus>,
    /// How many stops are not of the task that stopped before, of [`EVERY_STOP`].
    interleaving: u32,
    /// What the tracer is allowed; `None`: the policy is off.
    tracer_allowed: Option<Cpus>,
    pin: Option<Pin>,
    narrowed: NarrowedTasks,
    /// Children that have not stopped yet, and what their parents were allowed.
    children: Vec<(Tid, Cpus)>,
    /// Whether what was narrowed can be widened whatever it has become.
    can_always_widen: bool,
    /// A host has bound tasks to CPUs: each has one.
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
                // It may not come to us.
                _ => inner.free(),
            }
        }
    }

    /// Runs `resume`, which wakes `tid`, so that it wakes on our CPU if alone. `in_call`:
    /// it stops again at the end of the call that it is in. `hidden`: nobody may look at the
    /// affinity of others, and so it can be held.
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

    /// As [`Placement::wake`], of a task that is going to stop again before it runs
    /// anything of its own, whoever else is awake.
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

    /// A stopped task may be looked at, or resumed by others: it has what it is allowed.
    pub(crate) fn restore_affinity(&self, tid: Tid) {
        self.inner.borrow().narrowed.widen(tid);
    }

    /// A task is going to look at its affinity, or at that of others.
    pub(crate) fn restore_all_affinities(&self) {
        self.inner.borrow().narrowed.widen_all();
    }

    /// A thread has executed a program and goes on as its leader, which is gone.
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

    /// A task is about to choose an affinity, or nobody is traced any more: what
    /// we know of any is stale, and the tracer is free again.
    pub(crate) fn reset(&self) {
        self.restore_all_affinities();
        let mut inner = self.inner.borrow_mut();
        (inner.last, inner.interleaving) = (0, EVERY_STOP);
        inner.free();
    }

    /// Keeps a stopped task on one CPU from now on; whether that is possible.
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

    /// A task is stopped that has just made this child.
    pub(crate) fn child_created(&self, parent: Tid, child: Tid) {
        let mut inner = self.inner.borrow_mut();
        if inner.tracer_allowed.is_none() {
            return;
        }
        if let Some(allowed) = inner.allowed.or_else(|| Cpus::of(parent)) {
            inner.children.push((child, allowed));
        }
    }

    /// A child made its first stop. If its parent was woken narrowed and made
    /// it before we could widen the parent again, it has inherited that: it
    /// gets what the parent had when it was asked, stopped. Meanwhile that may have
    /// ended, or be executing a program.
    pub(crate) fn started(&self, parent: Tid, child: Tid) {
        let mut inner = self.inner.borrow_mut();
        if inner.tracer_allowed.is_none() {
            return;
        }
        let children = inner.children.iter().position(|(tid, _)| *tid == child);
        let children = children.map(|at| inner.children.swap_remove(at).1);
        let Some(its) = Cpus::of(child) else { return };
        let is_narrowed = inner.pin.is_some_and(|pin| its.equals(&pin.only));
        // Who has lost its parent may have got this process for one.
        let is_ours = parent.cast_unsigned() == std::process::id();
        let theirs = match children {
            Some(theirs) => Some(theirs),
            None if is_ours && is_narrowed => inner.tracer_allowed,
            None => inner
                .narrowed
                .allowed(parent)
                .or_else(|| Cpus::of(parent))
                // The parent has ended meanwhile.
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
