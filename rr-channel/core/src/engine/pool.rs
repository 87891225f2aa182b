//! Thread pools that hand pieces of work around: names for the work, and a log of the jobs that
//! each thread performed.
//!
//! Used by the crate that `cargo reprise` puts in place of `rayon-core`, and by nothing
//! else; not a stable interface.
//!
//! **Names.** The operations of a [`Job`] (messages, locks, channels) belong to its *task*. A
//! task's name is its path in the tree in which work was handed out ([`Dti::task`]). The name does
//! not depend on the thread that performs the task; during that time the thread has the task's
//! identity only. The half of a fork that its thread keeps is part of the work that forks.
//!
//! **Order.** Jobs move among a pool's threads as messages do: each has a sender and a number. A
//! thread logs which jobs it took, when it got back the job that it had put aside, and when a wait
//! was over. All that is in the thread's own log, not in those of the tasks. So a replay has the
//! same tree even where idle threads decided it, and needs no more threads than there were. Each
//! thread takes the same jobs in the same order, and waits for jobs that have not been made yet.
//! These waits have no cycle, because the recorded run was one such order.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rr_channel_log::identity::{Dti, ThreadId};
use rr_channel_log::{Event, Op, Outcome};
use rustc_hash::FxHashMap;

use crate::engine::context::{self, Suspended};
use crate::engine::fork;
use crate::engine::replay::{Asks, NextJob, Wake, job_event, took};
use crate::engine::session::{Session, session};
use crate::platform::lock::lock;
use crate::recorder::tag::Tag;

/// A piece of work, or a pool, in the tree of names.
#[derive(Debug)]
enum Node {
    /// A pool that belongs to no thread.
    Root(Dti),
    /// A child of a thread.
    OfThread(Dti, u32),
    OfTask(Arc<Task>, u32),
}

#[derive(Debug)]
pub struct Task {
    node: Node,
    children: AtomicU32,
    /// How many jobs it has handed out as [the task that it performs](BASE).
    jobs: AtomicU64,
}

impl Task {
    const fn new(node: Node) -> Task {
        Task {
            node,
            children: AtomicU32::new(0),
            jobs: AtomicU64::new(0),
        }
    }

    /// The next child of the calling thread's current identity.
    pub fn next() -> Task {
        let parent = TASK.try_with(|task| task.borrow().clone()).ok().flatten();
        Task::new(match parent {
            Some(parent) => {
                let number = parent.children.fetch_add(1, Ordering::Relaxed) + 1;
                Node::OfTask(parent, number)
            }
            None => {
                let number = TASKS.get() + 1;
                TASKS.set(number);
                Node::OfThread(context::dti().unwrap_or_else(Dti::main), number)
            }
        })
    }

    fn dti(&self) -> Dti {
        // From the root on: trees may be deep.
        let mut numbers = Vec::new();
        let mut task = self;
        let root = loop {
            match &task.node {
                Node::Root(dti) => break dti.clone(),
                Node::OfThread(dti, number) => break dti.task(*number),
                Node::OfTask(parent, number) => {
                    numbers.push(*number);
                    task = parent;
                }
            }
        };
        numbers.iter().rev().fold(root, |dti, n| dti.task(*n))
    }
}

/// The identity of a thread before it performed a task, and the task that it performed then.
struct Layer {
    who: Suspended,
    task: Option<Arc<Task>>,
}

thread_local! {
    /// The innermost task that the calling thread performs.
    static TASK: RefCell<Option<Arc<Task>>> = const { RefCell::new(None) };
    /// Its earlier identities, outermost first; `None` for the current one.
    static LAYERS: RefCell<Vec<Option<Layer>>> = const { RefCell::new(Vec::new()) };
    /// The number of tasks that it has handed out outside of any task.
    static TASKS: Cell<u32> = const { Cell::new(0) };
    /// The number of its next job, and its own.
    static JOBS: Cell<u64> = const { Cell::new(0) };
    static SELF: Cell<Option<ThreadId>> = const { Cell::new(None) };
    /// Whether it is a pool's.
    static IS_POOLS: Cell<bool> = const { Cell::new(false) };
    /// The task of an executor that it performs, and the layer that is put off when the task
    /// performs something itself. For pools, this task hands out the jobs: the log does not say
    /// which thread polls the task.
    static BASE: RefCell<Option<(Arc<Task>, usize)>> = const { RefCell::new(None) };
    /// Whether a new pool belongs to no thread.
    static GLOBAL: Cell<bool> = const { Cell::new(false) };
}

/// The name of the piece of work that the calling thread performs, if it performs one.
pub fn task() -> Option<Dti> {
    let task = TASK.try_with(|task| task.borrow().clone()).ok().flatten()?;
    Some(task.dti())
}

/// Whether the calling thread performs a piece of work.
pub fn is_in_task() -> bool {
    TASK.try_with(|task| task.borrow().is_some()) == Ok(true)
}

fn put_off() -> Layer {
    Layer {
        who: context::suspend(),
        task: TASK.try_with(RefCell::take).ok().flatten(),
    }
}

fn take_up(layer: Layer) {
    // The ending context still has the identity of the task.
    context::resume(layer.who);
    let _ = TASK.try_with(|task| *task.borrow_mut() = layer.task);
}

/// The identity of a task that is performed in parts, between two of them.
pub type Kept = Mutex<Option<Suspended>>;

/// Runs `f` as `task`, which ends with it.
pub fn perform<R>(task: &Arc<Task>, f: impl FnOnce() -> R) -> R {
    perform_part(task, None, f)
}

/// Runs `f` as `task`, whose identity is `kept` before and afterwards; without `kept`, the task
/// ends.
pub fn perform_part<R>(task: &Arc<Task>, kept: Option<&Kept>, f: impl FnOnce() -> R) -> R {
    struct Leave<'a> {
        kept: Option<&'a Kept>,
        is_base: bool,
    }
    impl Drop for Leave<'_> {
        fn drop(&mut self) {
            if let Some(kept) = self.kept {
                let who = context::suspend();
                *lock(kept) = Some(who);
            }
            if self.is_base {
                let _ = BASE.try_with(RefCell::take);
            }
            let layer = LAYERS.try_with(|layers| layers.borrow_mut().pop());
            if let Ok(Some(Some(layer))) = layer {
                take_up(layer);
            }
        }
    }
    // A thread that is being torn down keeps its identity.
    if LAYERS.try_with(|_| ()).is_err() || TASK.try_with(|_| ()).is_err() {
        return f();
    }
    let layer = put_off();
    let depth = LAYERS.try_with(|layers| {
        let mut layers = layers.borrow_mut();
        layers.push(Some(layer));
        layers.len()
    });
    let is_base = kept.is_some() && !IS_POOLS.get() && {
        let base = BASE.try_with(|base| {
            let mut base = base.borrow_mut();
            let is_first = base.is_none();
            if is_first {
                *base = Some((Arc::clone(task), depth.unwrap_or_default()));
            }
            is_first
        });
        base == Ok(true)
    };
    let _ = TASK.try_with(|current| *current.borrow_mut() = Some(Arc::clone(task)));
    let before = kept.and_then(|kept| {
        let mut kept = lock(kept);
        kept.take()
    });
    if let Some(before) = before {
        context::resume(before);
    }
    let _leave = Leave { kept, is_base };
    f()
}

/// Runs `f` as the thread itself, or as the executor's task that it performs, whatever that
/// performs; `f` does not unwind.
fn as_thread<R>(f: impl FnOnce() -> R) -> R {
    let place = BASE
        .try_with(|base| base.borrow().as_ref().map_or(0, |(_, place)| *place))
        .unwrap_or_default();
    let base = LAYERS.try_with(|layers| {
        let mut layers = layers.borrow_mut();
        layers.get_mut(place).and_then(Option::take)
    });
    let Ok(Some(thread)) = base else {
        return f();
    };
    let task = put_off();
    take_up(thread);
    let result = f();
    let thread = put_off();
    let _ = LAYERS.try_with(|layers| {
        if let Some(layer) = layers.borrow_mut().get_mut(place) {
            *layer = Some(thread);
        }
    });
    take_up(task);
    result
}

/// Whether jobs have names: whether this process records or replays.
#[inline]
pub fn is_on() -> bool {
    !matches!(session(), Session::Off) && !fork::is_fork()
}

/// The name of a job; empty if jobs [have no names](is_on).
#[derive(Clone)]
pub struct Job(Option<Arc<Named>>);

struct Named {
    tag: Tag,
    task: Arc<Task>,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("Job"),
            Some(named) => write!(f, "Job({})", named.task.dti()),
        }
    }
}

impl Default for Job {
    fn default() -> Self {
        Job::new()
    }
}

impl Job {
    /// The calling thread's next job.
    pub fn new() -> Job {
        if !is_on() {
            return Job(None);
        }
        let base = BASE.try_with(|base| {
            let base = base.borrow();
            let (task, _) = base.as_ref()?;
            Some(task.jobs.fetch_add(1, Ordering::Relaxed))
        });
        let (sender, number) = match base.ok().flatten() {
            Some(number) => (as_thread(context::thread_or_last), number),
            None => {
                let sender = SELF.get().unwrap_or_else(|| {
                    let sender = as_thread(context::thread_or_last);
                    SELF.set(Some(sender));
                    sender
                });
                (sender, JOBS.replace(JOBS.get() + 1))
            }
        };
        Job(Some(Arc::new(Named {
            tag: Tag::new(sender, number),
            task: Arc::new(Task::next()),
        })))
    }

    /// Performs the job: what `f` does is done by it.
    pub fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        match &self.0 {
            None => f(),
            Some(named) => perform(&named.task, f),
        }
    }
}

/// The next step of a thread of a pool.
#[derive(Debug)]
pub enum Next<J> {
    /// Perform this job.
    Job(J),
    /// Perform the half of a fork that it has put aside.
    Own,
    /// Go on, once the awaited result is there: see [`Pool::await_done`].
    Done,
    /// Find that there is nothing to do.
    Nothing,
    /// The thread decides for itself and reports its choice.
    Unknown,
}

/// A pool of threads that perform jobs.
#[derive(Debug)]
pub struct Pool<J> {
    task: Option<Arc<Task>>,
    threads: usize,
    /// In a replay, the jobs that no thread has taken yet.
    ready: Mutex<FxHashMap<Tag, J>>,
}

/// Runs `f`, which makes a pool that belongs to the whole program: its name does not depend on the
/// thread that needs it first.
pub fn global<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            GLOBAL.set(self.0);
        }
    }
    let _restore = Restore(GLOBAL.replace(true));
    f()
}

impl<J> Pool<J> {
    /// A pool that is to have so many `threads`; in a replay it has as many as were recorded.
    pub fn new(threads: usize) -> Self {
        let mut pool = Pool {
            task: None,
            threads,
            ready: Mutex::default(),
        };
        if is_on() {
            let task = Arc::new(if GLOBAL.get() {
                Task::new(Node::Root(Dti::foreign("rayon".to_owned(), 1)))
            } else {
                Task::next()
            });
            pool.threads = perform(&task, || recorded_threads(threads));
            pool.task = Some(task);
        }
        pool
    }

    /// How many threads it has.
    pub const fn threads(&self) -> usize {
        self.threads
    }

    /// The calling thread is the pool's, the one with this `index`.
    pub fn enter(&self, index: usize) {
        IS_POOLS.set(true);
        if let Some(task) = &self.task {
            let number = u32::try_from(index).unwrap_or(u32::MAX).saturating_add(1);
            context::adopt(task.dti().foreign_child(number));
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(&self.ready).addr()
    }

    fn ready(&self) -> MutexGuard<'_, FxHashMap<Tag, J>> {
        lock(&self.ready)
    }

    /// In a replay, keeps `job` for the thread that is to take it; otherwise gives it back, to be
    /// queued as ever.
    pub fn post(&self, name: &Job, job: J) -> Option<J> {
        let (Session::Replay(engine), Some(named), false) = (session(), &name.0, fork::is_fork())
        else {
            return Some(job);
        };
        self.ready().insert(named.tag, job);
        engine.job_came(self.address());
        None
    }

    /// In a replay, takes back the [posted](Pool::post) job, if no thread has taken it.
    pub fn reclaim(&self, name: &Job) -> Option<J> {
        let named = name.0.as_ref()?;
        self.ready().remove(&named.tag)
    }

    /// In a replay, takes any job, for a thread that is live.
    pub fn take_any(&self) -> Option<J> {
        let mut ready = self.ready();
        let tag = ready.keys().copied().min_by_key(|tag| tag.bits())?;
        ready.remove(&tag)
    }

    /// Whether there is a job to [take](Pool::take_any).
    pub fn has_any(&self) -> bool {
        !self.ready().is_empty()
    }

    /// Returns the next step of the calling thread, one of the pool's, while it waits for
    /// something.
    pub fn next_waiting(&self) -> Next<J> {
        self.next(Asks::Waits, || false)
    }

    /// Returns its next step while it waits for the half of a fork that it has put aside under
    /// this `name`.
    pub fn next_joining(&self, name: &Job) -> Next<J> {
        self.next(Asks::Joins, || self.reclaim(name).is_some())
    }

    /// Returns its next step where it lets others run.
    pub fn next_yielding(&self) -> Next<J> {
        self.next(Asks::Yields, || false)
    }

    fn next(&self, asks: Asks, reclaim: impl FnOnce() -> bool) -> Next<J> {
        let (Session::Replay(engine), false) = (session(), fork::is_fork()) else {
            return Next::Unknown;
        };
        let taken = Cell::new(None);
        let take = |tag| {
            let job = self.ready().remove(&tag);
            let there = job.is_some();
            taken.set(job);
            there
        };
        let next = as_thread(|| engine.next_job(self.address(), asks, take, reclaim));
        match next {
            NextJob::Take(_) => taken.take().map_or(Next::Unknown, Next::Job),
            NextJob::Own => Next::Own,
            NextJob::Done => Next::Done,
            NextJob::Nothing => Next::Nothing,
            NextJob::Live => Next::Unknown,
        }
    }

    /// Waits for the result that the calling thread [waits for](Next::Done), by `sleep`. `sleep`
    /// returns whether the result is there. It returns earlier if its argument says that the
    /// thread has left its log; `wake` wakes it for that. `false` if the thread has left its log:
    /// then it must ask for its [next](Next::Unknown) step.
    pub fn await_done(
        &self,
        wake: impl Fn() + Send + 'static,
        sleep: impl FnOnce(&dyn Fn() -> bool) -> bool,
    ) -> bool {
        let (Session::Replay(engine), false) = (session(), fork::is_fork()) else {
            return false;
        };
        as_thread(|| engine.await_done(Wake::new(wake), sleep))
    }

    /// The calling thread took a job.
    pub fn took(&self, name: &Job) {
        if let Some(named) = &name.0 {
            log(took(named.tag));
        }
    }

    /// It performs the half of a fork that it had put aside.
    pub fn own(&self) {
        log(job_event(Outcome::Again));
    }

    /// Logs that the awaited result is there.
    pub fn done(&self) {
        log(job_event(Outcome::Done));
    }

    /// It found nothing to do.
    pub fn nothing(&self) {
        log(job_event(Outcome::Empty));
    }
}

fn log(event: Event) {
    if is_on() {
        as_thread(|| context::log(event));
    }
}

/// How many threads a pool has, as its own first event says.
fn recorded_threads(threads: usize) -> usize {
    let recorded = match session() {
        Session::Replay(engine) => engine.recall_number(Op::Threads),
        _ => None,
    };
    if let Some(recorded) = recorded.and_then(|n| usize::try_from(n).ok()) {
        // The log of another program must not make thousands of them.
        return recorded.clamp(1, 1 << 16);
    }
    context::log(Event {
        op: Op::Threads,
        channel: None,
        outcome: Outcome::Value(threads as u64),
    });
    threads
}
