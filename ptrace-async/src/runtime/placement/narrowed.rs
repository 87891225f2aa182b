//! Tasks that are kept on the tracer's CPU, and who decides that they share it no longer.
//!
//! A task is best left where the tracer is: to narrow and widen it at each stop takes two calls,
//! and one that is wide is moved where it forks, where it executes a program and wherever the
//! other CPU has nothing to do, and then each of its stops goes from CPU to CPU. That holds for
//! a shell, its children and its pipelines together. It does not where two tasks have work for
//! long; and somebody may have woken of whom no stop tells (a parent whose child has ended). So
//! a thread looks at them every few milliseconds: it gives back what a task is allowed that has
//! not stopped for [`LONGEST`], and says when tasks are in each other's way.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::cpus::{Cpus, is_running, widen_self};
use crate::event::Tid;

/// How long a task that runs is held, at most twice that, or as long as it takes until
/// somebody looks.
const LONGEST: Duration = Duration::from_millis(4);
/// For how long tasks are thought to be in each other's way, once they were.
const CONTENDED: Duration = Duration::from_millis(100);
/// How often they are looked at meanwhile.
const SELDOM: Duration = Duration::from_millis(20);
/// How often in a row two tasks must be found running before that.
const OFTEN: u32 = 2;
/// At so many of them at a time.
const MOST: usize = 16;
/// After so many times of finding nobody the thread waits to be called.
const PATIENCE: u32 = 2;
/// After so many times of finding nobody in another's way it looks half as often...
const QUIET: u32 = 8;
/// ... and, for each further time so many, half as often again, to a quarter: a look takes
/// 40 µs, most of which is to sleep and to wake.
const RAREST: u32 = 2;

struct Task {
    tid: Tid,
    /// What it is allowed.
    allowed: Cpus,
    /// When it was woken; `None` while it is stopped.
    woken: Option<Instant>,
}

#[derive(Default)]
struct Watched {
    tasks: Vec<Task>,
    /// Who was woken to run code of its own, when, and has not stopped since. Who waits
    /// for something else is forgotten.
    awake: FxHashMap<Tid, Instant>,
    contended: Option<Instant>,
    /// The thread that looks.
    watch: Option<Thread>,
    /// Whether it waits to be called.
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

/// The tasks that are narrowed to the tracer's CPU, and what they are allowed.
#[derive(Default)]
pub(super) struct NarrowedTasks(Arc<Mutex<Watched>>);

impl NarrowedTasks {
    fn lock(&self) -> MutexGuard<'_, Watched> {
        lock(&self.0)
    }

    /// Has somebody look from now on; whether that is possible.
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

    /// A task has stopped, and stays where it is; what it is allowed, if it is held.
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

    /// Whether tasks are in each other's way, and another than this one is awake.
    pub(super) fn is_contended(&self, tid: Tid) -> bool {
        let watched = self.lock();
        watched
            .contended
            .is_some_and(|until| Instant::now() < until)
            && watched.awake.len() > usize::from(watched.awake.contains_key(&tid))
    }

    /// What a task is allowed, if it is held.
    pub(super) fn allowed(&self, tid: Tid) -> Option<Cpus> {
        let watched = self.lock();
        watched.position(tid).map(|at| watched.tasks[at].allowed)
    }

    /// Narrows a stopped task that is about to be woken, unless it is held already. If that is
    /// impossible, it wakes as it is.
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

    /// A stopped task has inherited that its parent was held.
    pub(super) fn add_narrowed(&self, tid: Tid, allowed: Cpus) {
        let woken = None;
        self.lock().tasks.push(Task {
            tid,
            allowed,
            woken,
        });
    }

    /// Gives a task what it is allowed, if it is held.
    pub(super) fn widen(&self, tid: Tid) {
        if let Some(task) = self.lock().take(tid) {
            task.allowed.apply(tid);
        }
    }

    /// As [`NarrowedTasks::widen`], all.
    pub(super) fn widen_all(&self) {
        self.lock().widen_all();
    }

    /// A thread goes on under the number of its leader, which is gone.
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

fn lock(watched: &Mutex<Watched>) -> MutexGuard<'_, Watched> {
    watched.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks at the tasks until there is no runtime any more.
fn watch_over(shared: &Mutex<Watched>) {
    // It was started by a tracer that is pinned.
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
            // Under the lock: afterwards its number may be another's.
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

/// Whether two of these tasks are running, and who was found not to.
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
