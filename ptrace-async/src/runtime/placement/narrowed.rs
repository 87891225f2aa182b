//! Tasks that are narrowed to the tracer's CPU, and the thread that widens them.
//!
//! A task that stays narrowed between stops is cheapest: narrowing and widening at each
//! stop takes two calls. The scheduler also moves a widened task when it forks, executes a
//! program or finds the other CPU idle; each of its stops then crosses CPUs. This holds for
//! a shell, its children and its pipelines together, but not where two tasks have work for
//! long. No stop reports some wake-ups, such as that of a parent whose child has ended. So
//! a thread looks at the tasks every few milliseconds. It widens tasks that have not
//! stopped for [`LONGEST`], and reports contention.

use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::cpus::{Cpus, is_running, widen_self};
use crate::event::Tid;
use crate::runtime::lock::lock;

/// How long a running task stays narrowed. The thread that looks may add as much again.
const LONGEST: Duration = Duration::from_millis(4);
/// How long contention is assumed to last once it was found.
const CONTENDED: Duration = Duration::from_millis(100);
/// The interval between two looks during contention.
const SELDOM: Duration = Duration::from_millis(20);
/// In how many looks in a row two tasks must run to count as contention.
const OFTEN: u32 = 2;
/// The number of tasks that one look examines at most.
const MOST: usize = 16;
/// After so many looks without a task the thread parks until it is called.
const PATIENCE: u32 = 2;
/// After so many looks without contention the thread looks half as often.
const QUIET: u32 = 8;
/// The interval is doubled at most so many times. A look takes 40 µs, mostly for sleeping
/// and waking.
const RAREST: u32 = 2;

struct Task {
    tid: Tid,
    /// Its own affinity.
    allowed: Cpus,
    /// When it was woken; `None` while it is stopped.
    woken: Option<Instant>,
}

#[derive(Default)]
struct Watched {
    tasks: Vec<Task>,
    /// Tasks that were woken to run their own code and have not stopped since, with the
    /// time. Tasks that wait for something else are removed.
    awake: FxHashMap<Tid, Instant>,
    contended: Option<Instant>,
    /// The thread that looks at the tasks.
    watch: Option<Thread>,
    /// Whether that thread is parked.
    parked: bool,
    over: bool,
}

impl Watched {
    fn position(&self, tid: Tid) -> Option<usize> {
        self.tasks.iter().position(|task| task.tid == tid)
    }

    fn take(&mut self, tid: Tid) -> Option<Task> {
        Some(self.tasks.swap_remove(self.position(tid)?))
    }

    fn widen_all(&mut self) {
        for task in self.tasks.drain(..) {
            task.allowed.apply(task.tid);
        }
    }

    fn call(&mut self) {
        if std::mem::take(&mut self.parked)
            && let Some(watch) = &self.watch
        {
            watch.unpark();
        }
    }
}

/// The tasks that are narrowed to the tracer's CPU, with their own affinities.
#[derive(Default)]
pub(super) struct NarrowedTasks(Arc<Mutex<Watched>>);

impl NarrowedTasks {
    fn lock(&self) -> MutexGuard<'_, Watched> {
        lock(&self.0)
    }

    /// Starts the thread that looks, if it does not run; returns whether it runs.
    pub(super) fn is_watched(&self) -> bool {
        let mut watched = self.lock();
        if watched.watch.is_none() {
            let shared = self.0.clone();
            let watch = thread::Builder::new().name("placement".into());
            watched.watch = watch
                .spawn(move || watch_over(&shared))
                .ok()
                .map(|handle| handle.thread().clone());
        }
        watched.watch.is_some()
    }

    /// A task has stopped and stays narrowed. Returns its own affinity if it is narrowed.
    pub(super) fn stopped(&self, tid: Tid) -> Option<Cpus> {
        let mut watched = self.lock();
        watched.awake.remove(&tid);
        let at = watched.position(tid)?;
        watched.tasks[at].woken = None;
        Some(watched.tasks[at].allowed)
    }

    /// A task is about to be woken, to run code of its own.
    pub(super) fn woken(&self, tid: Tid) {
        let mut watched = self.lock();
        watched.awake.insert(tid, Instant::now());
        watched.call();
    }

    /// Whether there is contention, and another task than this one is awake.
    pub(super) fn is_contended(&self, tid: Tid) -> bool {
        let watched = self.lock();
        watched
            .contended
            .is_some_and(|until| Instant::now() < until)
            && watched.awake.len() > usize::from(watched.awake.contains_key(&tid))
    }

    /// The own affinity of a task, if it is narrowed.
    pub(super) fn allowed(&self, tid: Tid) -> Option<Cpus> {
        let watched = self.lock();
        watched.position(tid).map(|at| watched.tasks[at].allowed)
    }

    /// Narrows a stopped task that is about to be woken, unless it is narrowed already. If
    /// that fails, the task keeps its affinity.
    pub(super) fn narrow(&self, tid: Tid, allowed: Cpus, only: &Cpus) {
        let mut watched = self.lock();
        let woken = Some(Instant::now());
        if let Some(at) = watched.position(tid) {
            watched.tasks[at].woken = woken;
        } else if watched.watch.is_some() && only.apply(tid) {
            watched.tasks.push(Task {
                tid,
                allowed,
                woken,
            });
        }
        watched.call();
    }

    /// A stopped child has inherited the narrowed affinity of its parent.
    pub(super) fn add_narrowed(&self, tid: Tid, allowed: Cpus) {
        let woken = None;
        self.lock().tasks.push(Task {
            tid,
            allowed,
            woken,
        });
    }

    /// Gives a narrowed task its own affinity back.
    pub(super) fn widen(&self, tid: Tid) {
        if let Some(task) = self.lock().take(tid) {
            task.allowed.apply(tid);
        }
    }

    /// Widens all narrowed tasks.
    pub(super) fn widen_all(&self) {
        self.lock().widen_all();
    }

    /// A thread gets the id of its leader, which has ended.
    pub(super) fn replaced(&self, former: Tid, leader: Tid) {
        let mut watched = self.lock();
        watched.awake.remove(&former);
        watched.awake.remove(&leader);
        watched.take(leader);
        if let Some(task) = watched.take(former) {
            task.allowed.apply(leader);
        }
    }

    /// A task has ended.
    pub(super) fn ended(&self, tid: Tid) {
        let mut watched = self.lock();
        watched.awake.remove(&tid);
        watched.take(tid);
    }
}

impl Drop for NarrowedTasks {
    fn drop(&mut self) {
        let mut watched = self.lock();
        watched.over = true;
        if let Some(watch) = &watched.watch {
            watch.unpark();
        }
    }
}

/// Looks at the tasks until the runtime is dropped.
fn watch_over(shared: &Mutex<Watched>) {
    // The tracer that started this thread was pinned.
    widen_self();
    let (mut idle, mut found, mut quiet) = (0, 0, 0);
    loop {
        let watched = lock(shared);
        if watched.over {
            return;
        }
        let now = Instant::now();
        let mut is_contended = watched.contended.is_some_and(|until| now < until);
        let awake: Vec<(Tid, Instant)> = match watched.awake.len() {
            0 | 1 => Vec::new(),
            _ => watched
                .awake
                .iter()
                .map(|(tid, woken)| (*tid, *woken))
                .collect(),
        };
        drop(watched);
        let (are_two_running, waiting) = look(&awake);
        let mut watched = lock(shared);
        for (tid, woken) in waiting {
            let is_old = now.saturating_duration_since(woken) >= LONGEST;
            if is_old && watched.awake.get(&tid) == Some(&woken) {
                watched.awake.remove(&tid);
            }
        }
        found = match are_two_running {
            true => (found + 1).min(OFTEN),
            false => u32::saturating_sub(found, 1),
        };
        quiet = if are_two_running { 0 } else { quiet + 1 };
        if are_two_running && (is_contended || found == OFTEN) {
            is_contended = true;
            watched.contended = Some(now + CONTENDED);
            watched.widen_all();
        }
        watched.tasks.retain(|task| {
            let lasts = |woken| now.saturating_duration_since(woken) < LONGEST;
            let keeps = task.woken.is_none_or(lasts);
            // Widened under the lock: afterwards the id may belong to another task.
            if !keeps {
                task.allowed.apply(task.tid);
            }
            keeps
        });
        idle = if watched.tasks.is_empty() && watched.awake.len() < 2 {
            idle + 1
        } else {
            0
        };
        watched.parked = idle > PATIENCE;
        let parked = watched.parked;
        let is_slow = is_contended && watched.tasks.is_empty();
        drop(watched);
        if parked {
            thread::park();
            (idle, found, quiet) = (0, 0, 0);
        } else {
            let rarer = (quiet / QUIET).min(RAREST);
            thread::sleep(if is_slow {
                SELDOM
            } else {
                LONGEST * (1 << rarer)
            });
        }
    }
}

/// Whether two of these tasks are running, and the tasks that were found waiting.
fn look(awake: &[(Tid, Instant)]) -> (bool, Vec<(Tid, Instant)>) {
    let (mut running, mut waiting) = (0, Vec::new());
    for (tid, woken) in awake.iter().take(MOST) {
        if is_running(*tid) {
            running += 1;
        } else {
            waiting.push((*tid, *woken));
        }
        if running == 2 {
            break;
        }
    }
    (running == 2, waiting)
}
