//! Replay: every operation returns what the log says, or its thread leaves the log.
//!
//! Nothing is invented. A logged message is waited for until it is really there,
//! a logged disconnection until the last handle is really gone, a logged tick until
//! it is due; messages that arrive early stay where they are, in the channel. Only
//! "nothing there" is returned at once, and a timeout at its deadline; and readiness,
//! which reserves nothing, also after others have used it up. Locks are acquired in
//! the recorded order ([`turns`]).
//!
//! A wait that cannot end is told from one that is only slow by looking at whether
//! anybody can still move ([`progress`]), not by a timeout: a machine under load is
//! slow, and a replay that gives up then would be a flaky test of its own making.
//! A thread that leaves its log is *live*: it goes on natively, while the others
//! stay in replay as long as their logs hold. Each leaving is a [`Desync`], a value.

#[cfg(feature = "ipc_channel")]
mod arrivals;
mod attempt;
mod chan;
mod cursor;
mod operation;
mod plan;
mod progress;
mod queue;
mod report;
mod report_file;
mod stall;
mod turns;
mod world;

use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError, TryLockError};
use std::time::{Duration, Instant};

#[cfg(feature = "ipc_channel")]
pub(crate) use arrivals::{Expected, Listening};
pub(crate) use chan::{Chan, Disconnected, NotSent};
use cursor::Cursor;
pub(crate) use operation::{Arm, Got, Native, Pick};
use operation::{Plan, Want};
pub use report::{Attempt, Cause, Desync, Progress, Report};
pub(crate) use report_file::report_to;
use rustc_hash::FxHashMap;
pub(crate) use turns::{Once as OnceTurn, Turn, Woken};
pub(crate) use world::ChanKey;
#[cfg(feature = "ipc_channel")]
pub(crate) use world::Source;
use world::{Wait, World};

use crate::context;
use crate::identity::{ChannelId, Dti, ThreadId};
use crate::log::{Op, ThreadLog};
use crate::session::{Names, Session, Who, complain, session};
use crate::sys;
use crate::tag::Tag;

/// The replaying side of a session.
#[derive(Debug)]
pub(crate) struct Engine {
    names: Mutex<Names>,
    world: Mutex<World>,
    /// Signalled when a thread starts to wait, for the search for stalls.
    waits: Condvar,
    watch: Once,
}

/// The engine of this process's replay.
///
/// # Panics
/// If this process does not replay; replayed channels exist only where one does.
pub(crate) fn engine() -> &'static Engine {
    match session() {
        Session::Replay(engine) => engine,
        _ => unreachable!("a replayed channel outside of a replay"),
    }
}

/// The state of this process's replay so far; `None` if it is not one.
///
/// Threads that have not ended may still go on, so the end of `main` is a good
/// place to ask.
///
/// ```
/// // Documentation examples run without `RR_CHANNEL`.
/// assert_eq!(rr_channel::replay_report(), None);
/// ```
pub fn replay_report() -> Option<Report> {
    match session() {
        Session::Replay(engine) => Some(engine.lock().report()),
        _ => None,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// An engine that replays `logs`, each with its number of events.
    pub(crate) fn new(logs: Vec<(ThreadLog, u64)>) -> Self {
        let mut names = Names::default();
        let mut recorded: FxHashMap<ThreadId, (Dti, Cursor)> = FxHashMap::default();
        for (log, total) in logs {
            names.preset(log.thread(), log.dti().clone());
            recorded.insert(log.thread(), (log.dti().clone(), Cursor::new(&log, total)));
        }
        let recorded = recorded
            .into_iter()
            .map(|(id, (dti, cursor))| (id, dti, cursor));
        Engine {
            names: Mutex::new(names),
            world: Mutex::new(World::new(recorded)),
            waits: Condvar::new(),
            watch: Once::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    /// The report, where it can be had soon.
    fn try_report(&self) -> Option<Report> {
        match self.world.try_lock() {
            Ok(world) => Some(world.report()),
            Err(TryLockError::Poisoned(world)) => Some(world.into_inner().report()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The calling thread appears.
    pub(crate) fn register(&self, who: Who) -> (ThreadId, Dti) {
        let (id, dti) = lock(&self.names).intern(who);
        self.lock().thread_started(id, dti.clone(), sys::tid());
        (id, dti)
    }

    /// The calling thread ends.
    pub(crate) fn thread_ended(&self, id: ThreadId) {
        let mut world = self.lock();
        let known = world.desyncs().len();
        world.thread_ended(id);
        announce(&world, known);
    }

    /// Opens a channel in the world: a queue, or a timer.
    pub(crate) fn open(
        &self,
        capacity: Option<usize>,
        timer: Option<(Option<Instant>, Option<Duration>)>,
    ) -> ChanKey {
        self.lock().open(capacity, timer)
    }

    pub(crate) fn cloned(&self, key: ChanKey, sends: bool) {
        self.lock().cloned(key, sends);
    }

    /// A handle is dropped, and with it these messages.
    pub(crate) fn dropped(&self, key: ChanKey, sends: bool) -> Vec<Tag> {
        self.lock().dropped(key, sends)
    }

    pub(crate) fn is_orphaned(&self, key: ChanKey) -> bool {
        self.lock().is_orphaned(key)
    }

    pub(crate) fn close(&self, key: ChanKey) {
        self.lock().close(key);
    }

    /// Performs `op` on `arms`: as logged, or natively once the thread is live.
    ///
    /// `None` if no arm was taken: none could be, or the deadline passed. A biased
    /// choice takes the first arm that can be taken, an unbiased one begins anywhere.
    pub(crate) fn perform(
        &self,
        op: Op,
        arms: &[Arm],
        native: Native,
        biased: bool,
    ) -> Option<Pick> {
        let id = context::thread_or_last();
        let probe = matches!(op, Op::Ready | Op::TryReady | Op::ReadyDeadline);
        let mut world = self.lock();
        let known = world.desyncs().len();
        let mut plan = world.plan(id, op, arms);
        let first = match arms.len() {
            0 => 0,
            _ if biased => 0,
            n => world.steps() as usize % n,
        };
        announce(&world, known);
        // To ask for the time is a good part of what an operation costs.
        let timed = matches!(native, Native::Until(_)) || world.has_timer(arms);
        loop {
            let now = timed.then(Instant::now);
            let want = match plan {
                Plan::Native => Want::Any,
                Plan::Outcome { position, need, .. } => Want::Exactly(position, need),
                Plan::Nothing => {
                    world.advance(id);
                    return None;
                }
                Plan::Expire | Plan::EndOfLog => Want::Nothing,
            };
            if let Some(pick) = world.attempt(id, arms, want, probe, first, now) {
                move_past(&mut world, id, plan);
                return Some(pick);
            }
            let deadline = match (plan, native) {
                (Plan::Native, Native::Try) => return None,
                (Plan::Native | Plan::Expire, Native::Until(deadline))
                    if now.is_some_and(|now| deadline <= now) =>
                {
                    if plan == Plan::Expire {
                        world.advance(id);
                    }
                    return None;
                }
                (Plan::Native | Plan::Expire, Native::Until(deadline)) => Some(deadline),
                _ => None,
            };
            let due = world.next_due(arms, want);
            let until = [deadline, due].into_iter().flatten().min();
            let mut wait = Wait::new(want);
            wait.arms = arms.to_vec();
            wait.probe = probe;
            wait.end_of_log = plan == Plan::EndOfLog;
            let pick;
            (world, pick) = self.wait(world, id, wait, until);
            if let Some(pick) = pick {
                move_past(&mut world, id, plan);
                return Some(pick);
            }
            if world.is_live(id) {
                plan = Plan::Native;
            }
        }
    }

    /// Waits for a notification, or until `until`.
    fn wait<'a>(
        &self,
        mut world: MutexGuard<'a, World>,
        id: ThreadId,
        mut wait: Wait,
        until: Option<Instant>,
    ) -> (MutexGuard<'a, World>, Option<Pick>) {
        self.watch.call_once(|| progress::start(self));
        wait.timed = until.is_some();
        let wake = world.begin_wait(id, wait);
        self.waits.notify_one();
        while !world.is_notified(id) {
            match until {
                None => world = wake.wait(world).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let Some(left) = until.checked_duration_since(Instant::now()) else {
                        break;
                    };
                    if left.is_zero() {
                        break;
                    }
                    (world, _) = wake
                        .wait_timeout(world, left)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        let pick = world.end_wait(id);
        (world, pick)
    }

    /// The recorded answer to an observation, or the present one.
    pub(crate) fn observe(
        &self,
        op: Op,
        id: ChannelId,
        key: ChanKey,
        live: impl FnOnce(usize) -> u64,
    ) -> u64 {
        let thread = context::thread_or_last();
        let mut world = self.lock();
        let known = world.desyncs().len();
        let recorded = world.recall(thread, op, id);
        announce(&world, known);
        recorded.unwrap_or_else(|| live(world.len(key, Instant::now())))
    }

    /// The calling thread completes a selection.
    pub(crate) fn complete(&self, op: Op, id: ChannelId) {
        let thread = context::thread_or_last();
        let mut world = self.lock();
        let known = world.desyncs().len();
        world.complete(thread, op, id);
        announce(&world, known);
    }
}

/// An operation came about as planned.
fn move_past(world: &mut World, id: ThreadId, plan: Plan) {
    if matches!(plan, Plan::Outcome { logged: true, .. }) {
        world.advance(id);
    }
}

/// Says on standard error, and in the report's file, what desynchronised since there
/// were `known`.
fn announce(world: &World, known: usize) {
    for desync in &world.desyncs()[known..] {
        complain(desync);
        report_file::desynchronised(desync);
    }
}
