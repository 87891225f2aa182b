//! Executors, whose tasks are polled again and again, by any of their threads: names for the
//! tasks, and threads in place of those that wait.
//!
//! Used by the crate that `cargo reprise` puts in place of `tokio`, and by nothing else; not
//! a stable interface.
//!
//! **Names.** The operations of a task belong to the task alone. Its name is its position in the
//! tree of spawned tasks, as for a [job](crate::engine::pool). Its identity (its log, the numbers
//! of its messages) goes from thread to thread with it. The log does not say how often it is
//! polled, or where: that depends on what wakes it.
//!
//! **Waits.** In a replay a task may wait where the recorded one did not: for a message that comes
//! later this time, or for its turn at a lock. The executor then loses the waiting thread, and
//! other tasks may need it to go on. So before a task waits, its thread hands over [its other
//! work](worker).

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rr_channel_log::Op;

use crate::engine::fork;
use crate::engine::objects;
use crate::engine::pool::{self, Kept, Pool, is_on};
use crate::engine::replay;
use crate::engine::seats;
use crate::engine::session::{Session, session};
use crate::platform::clock;
use crate::platform::lock::lock;

/// Runs its argument, and what the calling thread would do otherwise, at the same time.
pub type Meanwhile = fn(&mut dyn FnMut());

thread_local! {
    /// Whether tasks that the calling thread spawns have no name.
    static NAMELESS: Cell<bool> = const { Cell::new(false) };
    static MEANWHILE: Cell<Option<Meanwhile>> = const { Cell::new(None) };
    /// Whether the calling thread is an executor's own.
    static SERVES: Cell<bool> = const { Cell::new(false) };
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
}

/// Sets a thread's `cell` until this is dropped.
struct Set<T: Copy + 'static> {
    cell: &'static std::thread::LocalKey<Cell<T>>,
    before: T,
}

impl<T: Copy> Set<T> {
    fn to(cell: &'static std::thread::LocalKey<Cell<T>>, value: T) -> Self {
        let before = cell.replace(value);
        Set { cell, before }
    }
}

impl<T: Copy> Drop for Set<T> {
    fn drop(&mut self) {
        let _ = self.cell.try_with(|cell| cell.set(self.before));
    }
}

/// Runs `f`; threads and tasks that it spawns serve the executor, and have no name.
pub fn nameless<R>(f: impl FnOnce() -> R) -> R {
    let _set = Set::to(&NAMELESS, true);
    f()
}

/// Whether what the calling thread makes has no name.
pub fn is_nameless() -> bool {
    NAMELESS.try_with(Cell::get) == Ok(true)
}

/// Runs `f`, which creates a thread that serves the executor: it is no child of the calling
/// thread.
pub fn thread<R>(f: impl FnOnce() -> R) -> R {
    seats::without_seats(f)
}

/// The calling thread is one that the executor created. How many of these there are differs
/// from run to run.
pub fn serve() {
    SERVES.set(true);
}

/// Runs `f`, which the executor does for itself: it reads the clock to find out which timers are
/// due, as often as its thread wakes.
pub fn own<R>(f: impl FnOnce() -> R) -> R {
    let _set = Set::to(&IS_OWN, true);
    f()
}

/// Whether the calling thread works for the executor now, and for no task.
pub fn is_serving() -> bool {
    if IS_OWN.try_with(Cell::get) == Ok(true) {
        return true;
    }
    SERVES.try_with(Cell::get) == Ok(true) && !pool::is_in_task()
}

/// Runs `f`, the calling thread's part of the executor. While it waits for what its log says,
/// `meanwhile` has another one take that part.
pub fn worker<R>(meanwhile: Meanwhile, f: impl FnOnce() -> R) -> R {
    let _set = Set::to(&MEANWHILE, Some(meanwhile));
    f()
}

/// Whether another thread takes the calling thread's part while it waits.
pub fn has_part() -> bool {
    matches!(MEANWHILE.try_with(Cell::get), Ok(Some(_)))
}

/// Runs `wait`, and has another thread take the calling thread's part meanwhile.
pub fn hand_over(wait: &mut dyn FnMut()) {
    match MEANWHILE.try_with(Cell::get) {
        Ok(Some(meanwhile)) => {
            // Not twice: what waits while it waits is no part.
            let _no_part = Set::to(&MEANWHILE, None);
            nameless(|| meanwhile(wait));
        }
        _ => wait(),
    }
}

/// Runs `f`, in which the calling thread blocks until a pool has done something. In a replay the
/// pool may need the results of other tasks first, so another thread takes the calling thread's
/// part.
pub fn block(f: impl FnOnce()) {
    let mut f = Some(f);
    let mut wait = || {
        if let Some(f) = f.take() {
            f();
        }
    };
    match session() {
        Session::Replay(_) if !fork::is_fork() => hand_over(&mut wait),
        _ => wait(),
    }
}

/// How many threads an executor is to have by itself, where it would have `threads`; in a
/// replay as many as were recorded.
pub fn threads(threads: usize) -> usize {
    Pool::<()>::new(threads).threads()
}

/// How many threads an executor may have that would have `limit` at most: in a replay, where
/// some wait, as many as it needs.
pub fn thread_limit(limit: usize) -> usize {
    match session() {
        Session::Replay(_) => usize::MAX / 2,
        _ => limit,
    }
}

/// A task of an executor; nothing where none [has a name](crate::engine::pool::is_on). Its clones
/// are the same task.
///
/// **Cancellation.** Where an executor drops a task that has not completed, the task's own log says
/// so. In a replay, a request to do that is only noted until that event is the task's next.
#[derive(Clone)]
pub struct Task(Option<Arc<Polled>>);

struct Polled {
    task: Arc<pool::Task>,
    state: Mutex<State>,
    kept: Kept,
    /// Whether it was performed.
    has_begun: AtomicBool,
    /// In a replay: whether somebody asked for it to be cancelled, and whether that is its next
    /// event.
    is_asked: AtomicBool,
    is_due: AtomicBool,
    /// In a replay: the tasks among which it counts while it has more to do.
    among: OnceLock<Tasks>,
    counts: AtomicBool,
}

/// The tasks of an executor. When it ends, it drops those that have not completed; in a replay not
/// before they have done what they did in the recorded run.
#[derive(Debug, Clone, Default)]
pub struct Tasks(Arc<AtomicUsize>);

impl Tasks {
    /// No tasks.
    pub fn new() -> Tasks {
        Tasks::default()
    }

    /// Begins to wait, at the executor's end, for what its tasks have to do.
    pub fn run_on(&self) -> RunOn {
        RunOn {
            tasks: self.clone(),
            steps: None,
            since: clock::now(),
        }
    }
}

/// See [`Tasks::run_on`].
#[derive(Debug)]
pub struct RunOn {
    tasks: Tasks,
    /// The events of the process so far, and when the last one was seen.
    steps: Option<u64>,
    since: Instant,
}

/// How long the last tasks of an executor may do nothing that is recorded.
const PATIENCE: Duration = Duration::from_secs(10);

impl RunOn {
    /// Whether the tasks have more to do, and go on.
    pub fn goes_on(&mut self) -> bool {
        let Session::Replay(engine) = session() else {
            return false;
        };
        if self.tasks.0.load(SeqCst) == 0 || fork::is_fork() {
            return false;
        }
        let steps = Some(engine.steps());
        if steps != self.steps {
            (self.steps, self.since) = (steps, clock::now());
        }
        clock::elapsed(self.since) < PATIENCE
    }

    /// Waits until they do not.
    pub fn wait(mut self) {
        while self.goes_on() {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Running,
    Ended,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Task")
    }
}

impl Default for Task {
    fn default() -> Self {
        Task::new()
    }
}

impl Task {
    /// The next one that the calling thread, or task, spawns.
    pub fn new() -> Task {
        if !is_on() || NAMELESS.get() {
            return Task(None);
        }
        Task(Some(Arc::new(Polled {
            task: Arc::new(pool::Task::next()),
            state: Mutex::new(State::Idle),
            kept: Kept::default(),
            has_begun: AtomicBool::new(false),
            is_asked: AtomicBool::new(false),
            is_due: AtomicBool::new(false),
            among: OnceLock::new(),
            counts: AtomicBool::new(false),
        })))
    }

    /// One without a name.
    pub const fn nameless() -> Task {
        Task(None)
    }

    /// Runs `f` as the task, if that has not [ended](Task::end).
    pub fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        match &self.0 {
            Some(polled) if polled.go(State::Running) => {
                let _idle = Idle(polled);
                // Threads and tasks that it spawns belong to it.
                let _set = Set::to(&NAMELESS, false);
                polled.has_begun.store(true, SeqCst);
                pool::perform_part(&polled.task, Some(&polled.kept), || {
                    let result = f();
                    polled.look_ahead();
                    result
                })
            }
            _ => f(),
        }
    }

    /// It is one of these tasks.
    pub fn join(&self, tasks: &Tasks) {
        if let Some(polled) = self.replayed()
            && polled.among.set(tasks.clone()).is_ok()
        {
            polled.count(true);
        }
    }

    /// Somebody asks for it to be cancelled. Whether it is to be cancelled now.
    pub fn ask(&self) -> bool {
        let Some(polled) = self.replayed() else {
            return true;
        };
        polled.is_asked.store(true, SeqCst);
        Task::is_next(polled)
    }

    /// Whether its cancellation is its next event, in a replay, and was asked for. Where nothing is
    /// replayed, the executor itself knows what was asked for.
    pub fn must_end(&self) -> bool {
        self.replayed()
            .is_some_and(|polled| polled.is_asked.load(SeqCst) && Task::is_next(polled))
    }

    /// Whether it must not be polled, in a replay, as it was cancelled before its first poll.
    pub fn is_due_unbegun(&self) -> bool {
        self.replayed()
            .is_some_and(|polled| !polled.has_begun.load(SeqCst) && Task::is_next(polled))
    }

    /// Whether its cancellation is its next event, in a replay.
    pub fn is_due(&self) -> bool {
        self.replayed().is_some_and(Task::is_next)
    }

    fn replayed(&self) -> Option<&Polled> {
        match session() {
            Session::Replay(_) if !fork::is_fork() => self.0.as_deref(),
            _ => None,
        }
    }

    /// Whether the cancellation of the task is its next event.
    fn is_next(polled: &Polled) -> bool {
        if !polled.has_begun.load(SeqCst) {
            // Nobody begins it meanwhile.
            let state = lock(&polled.state);
            if *state == State::Idle && !polled.has_begun.load(SeqCst) {
                pool::perform_part(&polled.task, Some(&polled.kept), || polled.look_ahead());
            }
        }
        polled.is_due.load(SeqCst)
    }

    /// The executor cancels it: its future is about to be dropped.
    pub fn cancel(&self) {
        if let Some(polled) = &self.0
            && polled.go(State::Running)
        {
            let _idle = Idle(polled);
            let has_begun = polled.has_begun.load(SeqCst);
            pool::perform_part(&polled.task, Some(&polled.kept), || {
                objects::cancelled(has_begun);
            });
        }
    }

    /// The task does nothing any more, except perhaps to drop its remaining values.
    pub fn end(&self) {
        if let Some(polled) = &self.0
            && polled.go(State::Ended)
        {
            polled.count(false);
            let kept = lock(&polled.kept).take();
            if let Some(kept) = kept {
                pool::perform(&polled.task, || crate::engine::context::resume(kept));
            }
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.end();
    }
}

impl Polled {
    /// Notes whether its cancellation is its next event, in a replay; the calling thread performs
    /// it.
    fn look_ahead(&self) {
        if let Session::Replay(_) = session() {
            let next = replay::next_event();
            let is_due = next.is_some_and(|event| event.op == Op::Cancel);
            self.is_due.store(is_due, SeqCst);
            self.count(next.is_some() && !is_due);
        }
    }

    /// It has more to do, or has not.
    fn count(&self, has_more: bool) {
        let Some(Tasks(count)) = self.among.get() else {
            return;
        };
        match (self.counts.swap(has_more, SeqCst), has_more) {
            (false, true) => {
                count.fetch_add(1, SeqCst);
            }
            (true, false) => {
                count.fetch_sub(1, SeqCst);
            }
            _ => {}
        }
    }

    /// From idle to `state`; `false` if it is not idle.
    fn go(&self, state: State) -> bool {
        let mut now = lock(&self.state);
        let is_idle = *now == State::Idle;
        if is_idle {
            *now = state;
        }
        is_idle
    }
}

/// Makes a task idle when this is dropped.
struct Idle<'a>(&'a Polled);

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        *lock(&self.0.state) = State::Idle;
    }
}
