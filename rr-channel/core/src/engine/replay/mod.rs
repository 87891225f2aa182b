//! Replay: every operation returns its logged outcome, or its thread leaves the log.
//!
//! A replay invents no outcome. It waits for a logged message until it is really there, for a
//! logged disconnection until the last handle is really gone, and for a logged tick until it is
//! due. Messages that arrive early stay in the channel. Only the outcome "nothing there" is
//! returned at once, and a timeout at its deadline. Readiness, which reserves nothing, is returned
//! even after other threads have used it up. Locks are acquired in the recorded order
//! ([`lock_order`]).
//!
//! A thread that can go on asks no other thread. It walks its own log ([`follow`]), and messages
//! go from sender to receiver in any order ([`chan`], [`sender_queues`], [`early_messages`]). The
//! progress that threads must know of each other is counted at the channel ([`flow`]) or at the
//! lock. Only a thread that has to wait registers where all waits are known ([`world`]). Only a
//! thread that finds a waiter for its change goes there to notify it.
//!
//! A wait that cannot end is told from a slow one by looking at whether any thread can still move
//! ([`progress`]), not by a timeout. A machine under load is slow, and a replay that gives up then
//! would itself be a flaky test. A thread that leaves its log is *live*: it goes on natively,
//! while the others stay in replay as long as their logs hold. Each such event is a [`Desync`], a
//! value.

mod arrivals;
mod attempt;
mod chan;
mod clocks;
mod cursor;
mod draws;
mod early_messages;
#[cfg(debug_assertions)]
mod erased;
mod flow;
mod follow;
mod jobs;
mod listen;
mod lock_order;
mod locked;
mod operation;
mod parked;
mod plan;
mod polls;
mod progress;
mod queue;
mod recall;
mod report;
mod report_file;
mod sender_queues;
mod stall;
#[cfg(debug_assertions)]
mod typed;
mod unsent;
mod waiter_counts;
mod world;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, Once, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::platform::backoff::retry_before_sleep;
pub use arrivals::Expected;
#[cfg(not(debug_assertions))]
pub(crate) use chan::Chan;
pub use chan::{Disconnected, Leftover, NotSent};
pub use clocks::{ClockCursor, Clocks};
pub use cursor::Cursor;
pub use draws::Draws;
use flow::Flow;
use follow::{Next, Place};
pub use follow::{
    Saved as SavedLog, forget as forget_log, position, restore as restore_log, save as save_log,
    sync as sync_log,
};
pub use jobs::{Asks, NextJob, job_event, took};
pub use listen::Wake;
pub use lock_order::{Once as OnceTurn, Turn, Woken};
use locked::Locked;
pub use operation::{Arm, Got, Native, Pick};
use operation::{Change, Need, Plan, Want};
pub use polls::{PollTurn, Polled, next_event, polled};
use progress::Patience;
pub use report::{Attempt, Cause, Desync, Progress, Report};
pub use report_file::ReportFile;
use rr_channel_log::identity::{ChannelId, Dti, ThreadId};
use rr_channel_log::{Clock, Event, Op, Outcome, ThreadLog};
use rustc_hash::FxHashMap;
use rustc_hash::FxHashSet;
#[cfg(debug_assertions)]
pub(crate) use typed::Chan;
pub use unsent::Unsent;
pub use world::ChanKey;
use world::{Wait, Watched, World};
pub use {listen::Listening, world::Source};

use crate::engine::context;
use crate::engine::executor;
use crate::engine::shown::Shown;
use crate::platform::clock;
use crate::platform::current::Current;
use crate::platform::lock::lock;
use crate::platform::sys;
use crate::recorder::Recorder;
use crate::recorder::names::Names;
use crate::recorder::names::Who;
use crate::recorder::process::complain;
use crate::recorder::tag::Tag;

/// The replaying side of a session.
#[derive(Debug)]
pub struct Engine {
    names: Mutex<Names>,
    /// Recorded threads of other processes.
    elsewhere: FxHashSet<ThreadId>,
    /// Messages that this process still has to send to others before it exits.
    unsent: Unsent,
    /// The threads of other processes of which this run has seen something.
    met: Mutex<FxHashSet<ThreadId>>,
    world: Mutex<World>,
    /// The last notification of each thread.
    signals: Mutex<FxHashMap<ThreadId, u64>>,
    /// Signalled when a thread starts to wait, for the search for stalls.
    waits: Condvar,
    /// The remaining random bytes.
    draws: Mutex<Draws>,
    /// The reads of clocks of threads that have not appeared.
    clocks: Mutex<Clocks>,
    watch: Once,
    /// How long the search for stalls waits where nothing is certain.
    patience: Patience,
    /// The recorder of this replay's own events.
    recorder: Option<Recorder>,
    report: Option<ReportFile>,
}

/// The engine of this process's replay, and how a child made by fork(2) gets its own.
static CURRENT: Current<Engine> = Current::none();
static BEGIN_IN_CHILD: OnceLock<fn()> = OnceLock::new();

/// The session hands in its engine. In a child made by fork(2) that has none of its own yet,
/// `begin_in_child` hands that in.
pub fn hand_in(engine: Engine, begin_in_child: fn()) -> &'static Engine {
    BEGIN_IN_CHILD.get_or_init(|| begin_in_child);
    CURRENT.set(engine)
}

/// The engine of this process's replay.
///
/// # Panics
/// If this process does not replay; replayed channels exist only where one does.
pub fn engine() -> &'static Engine {
    if sys::is_forked()
        && let Some(begin_in_child) = BEGIN_IN_CHILD.get()
    {
        begin_in_child();
    }
    match CURRENT.get() {
        Some(engine) => engine,
        None => unreachable!("a replayed channel outside of a replay"),
    }
}

impl Engine {
    /// An engine that replays `logs` of threads with these `names`, each with its number of events
    /// but those that are `draws`, and what they read from `clocks`. `recorder` records the replay's own events. Where nothing is
    /// certain the engine waits `patience` times as long as usual.
    pub fn new(
        names: Names,
        logs: Vec<(ThreadLog, u64)>,
        draws: Draws,
        clocks: Clocks,
        patience: f64,
        recorder: Option<Recorder>,
    ) -> Self {
        let lasted = logs.iter().map(|(log, _)| log.lasted()).max();
        let mut recorded: FxHashMap<ThreadId, (Dti, Cursor)> = FxHashMap::default();
        for (log, total) in logs {
            recorded.insert(log.thread(), (log.dti().clone(), Cursor::new(&log, total)));
        }
        let recorded = recorded
            .into_iter()
            .map(|(id, (dti, cursor))| (id, dti, cursor));
        Engine {
            elsewhere: names.elsewhere(),
            met: Mutex::default(),
            unsent: Unsent::default(),
            names: Mutex::new(names),
            world: Mutex::new(World::new(recorded)),
            signals: Mutex::default(),
            waits: Condvar::new(),
            draws: Mutex::new(draws),
            clocks: Mutex::new(clocks),
            watch: Once::new(),
            patience: Patience::new(lasted.unwrap_or_default(), patience),
            recorder,
            report: None,
        }
    }

    /// Sets the file to which desynchronisations and the end of the replay are reported.
    pub fn report_to(&mut self, file: Option<ReportFile>) {
        self.report = file;
    }

    /// The recorder of this replay's own events, if there is one.
    pub const fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_ref()
    }

    /// The number of the thread's `count`th process.
    pub fn starts(&self, thread: ThreadId, count: u32) -> u32 {
        let number = lock(&self.names).intern_process(thread, count);
        if let Some(recorder) = &self.recorder {
            // Without it, that process is in no order with this one's others.
            let _ = recorder.started(number, thread, count);
        }
        number
    }

    /// The number of a thread of another process.
    pub fn elsewhere(&self, dti: Dti) -> ThreadId {
        let (id, _) = lock(&self.names).intern_new(dti.clone());
        if let Some(recorder) = &self.recorder
            && lock(&self.met).insert(id)
        {
            recorder.appeared_elsewhere(id, &dti);
        }
        id
    }

    /// Whether a recorded message of this sender is from another process.
    pub fn is_elsewhere(&self, sender: ThreadId) -> bool {
        self.elsewhere.contains(&sender)
    }

    /// The exit of the process waits until it has sent these messages.
    pub fn waits_for(&mut self, unsent: Unsent) {
        static AT_EXIT: Once = Once::new();
        AT_EXIT.call_once(|| sys::at_exit(unsent::wait_at_exit));
        self.unsent = unsent;
    }

    /// The message `tag` was sent, perhaps to another process.
    pub fn has_sent(&self, tag: Tag) {
        self.unsent.sent(tag);
    }

    /// Calls `f`, which makes a copy of this process, while no thread is in the middle of a
    /// change.
    pub fn holding_still<R>(&self, f: impl FnOnce() -> R) -> R {
        let _names = lock(&self.names);
        let _world = self.lock();
        f()
    }

    /// Takes over the channels of the engine that this process's parent had when it forked. No
    /// thread waits there.
    pub fn take_over(&mut self, parent: &Engine) {
        let world = self.world.get_mut().unwrap_or_else(PoisonError::into_inner);
        world.take_over(&mut parent.lock());
    }

    fn lock(&self) -> Locked<'_> {
        Locked::new(&self.world)
    }

    /// Starts the search for stalls.
    fn start_watch(&self) {
        self.watch.call_once(|| progress::start(self));
    }

    /// A thread waits, which the search for stalls may wait for.
    fn someone_waits(&self, world: &World) {
        if world.is_watch_idle {
            self.waits.notify_one();
        }
    }

    /// The state of the replay so far.
    pub fn report(&self) -> Report {
        self.lock().report()
    }

    /// The report, where it can be had soon.
    fn try_report(&self) -> Option<Report> {
        match self.world.try_lock() {
            Ok(world) => Some(world.report()),
            Err(TryLockError::Poisoned(world)) => Some(world.into_inner().report()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The time for the main thread before it has registered, which it may never do. `None` if the recording's main thread read none.
    pub fn shown_early(&self, clock: Clock, site: u64) -> Option<Shown> {
        let (id, _) = lock(&self.names).intern(Who::Known(Dti::main()));
        lock(&self.clocks).read_early(id, clock, site)
    }

    /// The recorded reads of clocks of the thread with the number `id`, which appears.
    pub fn clocks_of(&self, id: ThreadId) -> Option<ClockCursor> {
        lock(&self.clocks).of(id)
    }

    /// The calling thread appears. Whether what it does can be recorded; and its log, if it
    /// has one, of which it has begun to follow the first events.
    pub fn register(&self, who: Who) -> (ThreadId, Dti, bool, Option<Cursor>) {
        let (id, dti) = lock(&self.names).intern(who);
        let (place, mut cursor) = self.lock().thread_started(id, dti.clone(), sys::tid());
        let is_recorded = self
            .recorder
            .as_ref()
            .is_some_and(|recorder| recorder.appeared(id, &dti));
        follow::begin(place, cursor.as_mut(), is_recorded);
        (id, dti, is_recorded, cursor)
    }

    /// The calling thread ends.
    pub fn thread_ended(&self, id: ThreadId) {
        let left = follow::end();
        let mut world = self.lock();
        let known = world.desyncs().len();
        world.thread_ended(id, left);
        announce(&world, known);
    }

    /// The calling thread leaves its log.
    fn desync(&self, id: ThreadId, cause: Cause) {
        {
            let mut world = self.lock();
            let known = world.desyncs().len();
            world.desync(id, cause);
            world.unpark(id, None);
            announce(&world, known);
        }
        follow::sync();
    }

    /// Opens a channel in the world: a queue, or a timer.
    fn open(&self, flow: Arc<Flow>, timer: Option<(Option<Instant>, Option<Duration>)>) -> ChanKey {
        self.lock().open(flow, timer)
    }

    fn close(&self, key: ChanKey) {
        self.lock().close(key);
    }

    fn changed(&self, key: ChanKey, change: Change) {
        let mut world = self.lock();
        world.step();
        world.changed(key, change);
    }

    /// Performs `op` on `arms`: as logged, or natively once the thread is live.
    ///
    /// `None` if no arm was taken: none could be, or the deadline passed. A biased
    /// choice takes the first arm that can be taken, an unbiased one begins anywhere.
    ///
    /// [`Got::Sent`] is a place in the channel, where there are places: the caller puts
    /// the message there.
    pub fn perform(&self, op: Op, arms: &[Arm<'_>], native: Native, biased: bool) -> Option<Pick> {
        self.perform_as(op, arms, native, biased, true)
    }

    /// As [`perform`](Engine::perform), of an operation with one arm that was attempted for
    /// a while already.
    fn perform_at_last(&self, op: Op, arms: &[Arm<'_>], native: Native) -> Option<Pick> {
        self.perform_as(op, arms, native, true, false)
    }

    fn perform_as(
        &self,
        op: Op,
        arms: &[Arm<'_>],
        native: Native,
        biased: bool,
        wait: bool,
    ) -> Option<Pick> {
        let id = context::thread_or_last();
        let probe = matches!(op, Op::Ready | Op::TryReady | Op::ReadyDeadline);
        let first = if biased {
            0
        } else {
            follow::choose(arms.len())
        };
        let plan = self.plan(id, op, arms);
        let alone = match plan {
            Plan::Nothing => {
                follow::advance();
                return None;
            }
            Plan::Native => {
                let wait = wait && !native.is_try();
                self.perform_alone(arms, Want::Any, probe, first, wait)
            }
            Plan::Outcome { position, need, .. } => {
                let want = Want::Exactly(position, need);
                self.perform_alone(arms, want, probe, first, wait)
            }
            Plan::Expire(_) | Plan::EndOfLog => None,
        };
        let (plan, pick) = match alone {
            Some(pick) => {
                move_past(plan);
                (plan, Some(pick))
            }
            None => self.perform_in_world(id, arms, plan, native, probe, first),
        };
        let is_unlogged = matches!(plan, Plan::Outcome { event: None, .. })
            && arms.iter().all(|arm| arm.flow.is_bounded());
        if plan == Plan::Native || is_unlogged {
            note(op, arms, pick);
        }
        pick
    }

    /// Takes an arm as `want` says, if that needs no look at the world and is possible soon: at
    /// once, or, if it is worth waiting for, within about the time that going to sleep would take.
    fn perform_alone(
        &self,
        arms: &[Arm<'_>],
        want: Want,
        probe: bool,
        first: usize,
        wait: bool,
    ) -> Option<Pick> {
        let attempt = || attempt::attempt_alone(arms, want, probe, first);
        let (pick, change) = attempt().or_else(|| {
            let alone = match want {
                Want::Exactly(position, _) => {
                    arms.get(position).is_some_and(|arm| arm.messages.is_some())
                }
                Want::Any => arms.iter().all(|arm| arm.messages.is_some()),
                Want::Nothing => false,
            };
            if wait && alone {
                retry_before_sleep(attempt)
            } else {
                None
            }
        })?;
        let arm = &arms[pick.position];
        let is_awaited = match change {
            None | Some(Change::Arrived(_) | Change::Abandoned) => false,
            Some(Change::Entered) => arm.flow.awaits_place(),
            Some(Change::Left) => arm.flow.awaits_room(),
        };
        if let (true, Some(change)) = (is_awaited, change) {
            self.changed(arm.chan, change);
        }
        Some(pick)
    }

    fn perform_in_world(
        &self,
        id: ThreadId,
        arms: &[Arm<'_>],
        mut plan: Plan,
        native: Native,
        probe: bool,
        first: usize,
    ) -> (Plan, Option<Pick>) {
        let mut world = self.lock();
        // To ask for the time is a good part of what an operation costs.
        let timed = native.is_until() || world.has_timer(arms);
        loop {
            if let (Plan::EndOfLog, [arm]) = (plan, arms)
                && arm
                    .send
                    .is_some_and(|tag| world.awaits_message(arm.chan, tag))
            {
                // Only this: what the thread did then, if anything, is as unknown as before.
                plan = Plan::Outcome {
                    position: 0,
                    need: Need::Slot(None),
                    event: None,
                };
            }
            let now = timed.then(clock::now);
            let (want, expected) = match plan {
                Plan::Native => (Want::Any, None),
                Plan::Outcome {
                    position,
                    need,
                    event,
                } => (Want::Exactly(position, need), event),
                Plan::Expire(event) => (Want::Nothing, Some(event)),
                Plan::Nothing | Plan::EndOfLog => (Want::Nothing, None),
            };
            if let Some(pick) = world.attempt(id, arms, want, probe, first, now) {
                move_past(plan);
                return (plan, Some(pick));
            }
            let deadline = match (plan, native) {
                (Plan::Native, Native::Try) => {
                    world.found_nothing();
                    return (plan, None);
                }
                (Plan::Native | Plan::Expire(_), Native::Until(deadline))
                    if now.is_some_and(|now| deadline <= now)
                        || matches!(plan, Plan::Expire(_)) && is_fast() =>
                {
                    if let Plan::Expire(_) = plan {
                        follow::advance();
                    }
                    return (plan, None);
                }
                (Plan::Native | Plan::Expire(_), Native::Until(deadline)) => Some(deadline),
                _ => None,
            };
            let due = world.next_due(arms, want);
            let until = [deadline, due].into_iter().flatten().min();
            let mut wait = Wait::new(want);
            wait.arms = arms
                .iter()
                .map(|arm| Watched {
                    chan: arm.chan,
                    send: arm.send,
                })
                .collect();
            wait.probe = probe;
            wait.expected = expected;
            wait.end_of_log = matches!(plan, Plan::EndOfLog);
            let (mut pick, settled);
            (world, pick, settled) = self.wait(world, id, wait, until, |world| {
                world.attempt(id, arms, want, probe, first, now)
            });
            pick = pick.or(settled);
            if pick.is_some() {
                move_past(plan);
                return (plan, pick);
            }
            if world.is_live(id) {
                plan = Plan::Native;
            }
        }
    }

    /// Waits for a notification, or until `until`. Does not wait if `attempt` finds the awaited
    /// event after it is known that the thread waits. Returns the result of `attempt`, and the
    /// outcome that a partner brought about for the thread meanwhile.
    fn wait<'a, R>(
        &'a self,
        mut world: Locked<'a>,
        id: ThreadId,
        mut wait: Wait,
        until: Option<Instant>,
        attempt: impl FnOnce(&mut World) -> Option<R>,
    ) -> (Locked<'a>, Option<R>, Option<Pick>) {
        wait.timed = until.is_some();
        // A task may wait in another thread than before.
        world.thread(id).tid = sys::tid();
        let wake = world.begin_wait(id, wait);
        let found = attempt(&mut world);
        if found.is_none() {
            self.someone_waits(&world);
            if executor::has_part() {
                // The code that takes the part makes threads, which call this.
                drop(world);
                executor::hand_over(&mut || drop(self.sleep_in(self.lock(), id, &wake, until)));
                world = self.lock();
            } else {
                world = self.sleep_in(world, id, &wake, until);
            }
        }
        let settled = world.end_wait(id);
        // A waiting thread may be released from its log.
        follow::sync();
        (world, found, settled)
    }

    /// Waits until the thread, which `wake` wakes, is notified, or until `until`.
    ///
    /// Most waits are short, and so are whole replays: stalls are looked for from the first
    /// wait on that is not.
    fn sleep_in<'a>(
        &'a self,
        mut world: Locked<'a>,
        id: ThreadId,
        wake: &Condvar,
        until: Option<Instant>,
    ) -> Locked<'a> {
        let is_watched = self.watch.is_completed();
        let mut short = (!is_watched).then(|| clock::now() + progress::FIRST);
        while !world.is_notified(id) {
            let first = [until, short].into_iter().flatten().min();
            let left = first.map(|first| first.saturating_duration_since(clock::now()));
            if left.is_none_or(|left| !left.is_zero()) {
                world = world.sleep(wake, left);
            } else if short.is_some_and(|short| until.is_none_or(|until| short < until)) {
                short = None;
                // A thread is made, for which no other needs to wait.
                drop(world);
                self.start_watch();
                world = self.lock();
            } else {
                break;
            }
        }
        world
    }

    /// The recorded answer to an observation, or the present one.
    fn observe(&self, op: Op, id: ChannelId, live: impl FnOnce() -> u64) -> u64 {
        let thread = context::thread_or_last();
        self.recall_value(thread, op, id).unwrap_or_else(|| {
            let value = live();
            context::log(Event {
                op,
                channel: Some(id),
                outcome: Outcome::Value(value),
            });
            value
        })
    }

    /// The number of messages that a timer has: one, if it is due.
    fn due(&self, key: ChanKey) -> usize {
        self.lock().len(key, clock::now())
    }

    /// The calling thread completes a selection with that outcome: it moves past that
    /// event.
    fn complete(&self, op: Op, channel: ChannelId, got: Got, tag: Option<Tag>) {
        let id = context::thread_or_last();
        if let Next::Event(expected) = follow::next() {
            if expected.op == op && expected.channel == Some(channel) {
                return follow::advance();
            }
            let actual = Attempt {
                op,
                channel: Some(channel),
            };
            self.desync(id, Cause::Mismatch { expected, actual });
        }
        if let Some(outcome) = outcome_of(got, tag)
            && follow::is_live()
        {
            context::log(Event {
                op,
                channel: Some(channel),
                outcome,
            });
        }
    }
}

/// An operation came about as planned.
fn move_past(plan: Plan) {
    if matches!(plan, Plan::Outcome { event: Some(_), .. }) {
        follow::advance();
    }
}

/// Logs the outcome of an operation of a thread that is live.
fn note(op: Op, arms: &[Arm<'_>], pick: Option<Pick>) {
    let outcome = match (pick, op, arms) {
        (
            Some(pick),
            Op::Select
            | Op::TrySelect
            | Op::SelectDeadline
            | Op::Ready
            | Op::TryReady
            | Op::ReadyDeadline,
            _,
        ) => Some(Outcome::Arm(arms[pick.position].index as u32)),
        (Some(pick), _, [arm, ..]) => match pick.got {
            Got::Sent(_) if !arm.flow.is_bounded() => None,
            got => outcome_of(got, arm.send),
        },
        (Some(_), _, []) => None,
        (None, Op::TrySelect | Op::TryReady, _) => Some(Outcome::NoArm),
        (None, Op::TrySend, _) => Some(Outcome::Full),
        (None, Op::TryRecv, _) => Some(Outcome::Empty),
        (None, ..) => Some(Outcome::Timeout),
    };
    if let Some(outcome) = outcome {
        context::log(Event {
            op,
            channel: plan::channel_of(op, arms),
            outcome,
        });
    }
}

/// The outcome of an operation that sent `tag`, or received.
const fn outcome_of(got: Got, tag: Option<Tag>) -> Option<Outcome> {
    match (got, tag) {
        (Got::Message(tag), _) => Some(Outcome::Message {
            sender: tag.sender(),
            number: tag.number(),
        }),
        (Got::Tick(_), _) => Some(Outcome::Tick),
        (Got::Disconnected, _) => Some(Outcome::Disconnected),
        (Got::Sent(slot), _) => Some(Outcome::Sent { slot }),
        (Got::Lost, _) => Some(Outcome::Sent { slot: 0 }),
        (Got::Refused, Some(tag)) => Some(Outcome::Refused {
            number: tag.number(),
        }),
        (Got::Refused, None) | (Got::Ready, _) => None,
    }
}

/// Says on standard error, and in the report's file, what desynchronised since there
/// were `known`.
fn announce(world: &World, known: usize) {
    for desync in &world.desyncs()[known..] {
        complain(desync);
        report_file::desynchronised(desync);
    }
    if world.desyncs().len() > known && STOPS.load(Relaxed) {
        report_file::ended(&world.report());
        sys::exit_now(STOPPED);
    }
}

static FAST: AtomicBool = AtomicBool::new(false);

/// From here on, a wait that timed out in the recording does so at once.
pub fn time_out_at_once() {
    FAST.store(true, Relaxed);
}

/// Whether waits that timed out are over [at once](time_out_at_once).
pub fn is_fast() -> bool {
    FAST.load(Relaxed)
}

static STOPS: AtomicBool = AtomicBool::new(false);
/// How a process ends that is not to go on without its log.
const STOPPED: i32 = 86;

/// From here on, the process ends as soon as a thread leaves its log.
pub fn stop_at_desync() {
    STOPS.store(true, Relaxed);
}
