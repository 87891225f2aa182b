//! Tasks that run on: after a place was taken for another a replay may never come to what is
//! recorded, and a loop that waits has no end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

use ptrace_async::event::Tid;
use ptrace_async::process::read_proc;

use crate::trace::Task;

/// How often tasks that run are looked at.
const OFTEN: Duration = Duration::from_secs(1);
/// A task that was to come to its next record has run for too long after so much of the
/// processor's time, and so many times what was recorded: checks in a loop of few
/// instructions, and stops at each visit of a place, cost a multiple.
const ENOUGH: Duration = Duration::from_secs(3);
const TIMES: u32 = 100;

#[derive(Default)]
struct Shared {
    /// Who runs, and what wakes its function.
    running: Mutex<(Vec<(Task, Waker)>, bool)>,
    over: Condvar,
    ticks: AtomicU64,
}

/// A thread that has tasks looked at which run for long.
pub(super) struct Watch(Arc<Shared>);

impl Watch {
    /// # Errors
    /// When no thread can be made.
    pub(super) fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        std::thread::Builder::new()
            .name("watch".to_owned())
            .spawn(move || {
                let mut state = theirs.lock();
                while !state.1 {
                    let waited = theirs.over.wait_timeout(state, OFTEN);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                    theirs.ticks.fetch_add(1, Ordering::Relaxed);
                    for (_, waker) in state.0.drain(..) {
                        waker.wake();
                    }
                }
            })?;
        Ok(Self(shared))
    }

    /// A task is about to run.
    pub(super) fn add(&self, task: Task, waker: &Waker) {
        let running = &mut self.0.lock().0;
        if !running.iter().any(|(other, _)| *other == task) {
            running.push((task, waker.clone()));
        }
    }

    /// It has stopped.
    pub(super) fn remove(&self, task: Task) {
        self.0.lock().0.retain(|(other, _)| *other != task);
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, (Vec<(Task, Waker)>, bool)> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.lock().1 = true;
        self.0.over.notify_one();
    }
}

/// The processor time that a task has used (proc(5), `stat`).
fn processor_time(tid: Tid) -> Option<Duration> {
    /// `USER_HZ` of x86-64 is 100.
    const TICK: Duration = Duration::from_millis(10);
    let text = read_proc(format!("/proc/{tid}/stat")).ok()?;
    // The name before may have anything in it.
    let name = text.iter().rposition(|&byte| byte == b')')?;
    let fields = String::from_utf8_lossy(&text[name + 1..]).into_owned();
    let mut ticks = fields.split_whitespace().skip(11).map(str::parse::<u32>);
    let (user, system) = (ticks.next()?.ok()?, ticks.next()?.ok()?);
    Some(TICK * user.saturating_add(system))
}

/// How long a task has run since its last record.
#[derive(Default)]
pub(super) struct Run {
    /// How long that took when it was recorded, at most.
    recorded: Duration,
    /// When it was last looked at, and what it had used of the processor when that first was.
    ticks: u64,
    before: Option<Duration>,
}

impl Run {
    pub(super) fn begin(&mut self, recorded: Duration) {
        self.recorded = recorded;
        self.before = None;
    }

    pub(super) fn again(&mut self) {
        self.before = None;
    }

    pub(super) fn recorded(&self) -> Duration {
        self.recorded
    }

    /// How long it has run, if that is too long.
    pub(super) fn too_long(&mut self, watch: &Watch, tid: Tid) -> Option<Duration> {
        let ticks = watch.0.ticks.load(Ordering::Relaxed);
        if ticks == self.ticks {
            return None;
        }
        self.ticks = ticks;
        let now = processor_time(tid)?;
        let took = now.saturating_sub(*self.before.get_or_insert(now));
        (took > ENOUGH + self.recorded * TIMES).then_some(took)
    }
}
