//! A replayed task: runs to the place of its next record, and applies the record.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use ptrace_async::event::Tid;
use ptrace_async::runtime::{Observer, Parked, Prehook, Signal, Started, Stop, Stopped, Tracee};

use super::address_space::AddressSpace;
use super::backtrace;
use super::divergence::Divergence;
use super::remote_calls::RemoteCalls;
use super::session::record_queue::NextStep;
use super::session::{NewTask, ReplaySession, SpawnedTask};
use super::task::watch::{OFTEN, RunTimer};
use crate::code::registers::Registers;
use crate::trace::Task;
use crate::trace::event::{Call, Event, Exit, RegisterState, Write};
use crate::tracee::trapped::{check, is_fault};

mod buffered;
mod calls;
mod describe;
mod frozen;
mod image;
mod points;
mod restored;
mod spawned;
mod watch;

/// The reason why a task cannot be replayed further.
enum Failure {
    /// The task has ended, by itself or from outside.
    Gone,
    /// The replay has been ended.
    Stopped,
    /// The task did something else than was recorded.
    Diverged(String, String),
    /// The task has used this much processor time, and was recorded to reach its next record
    /// within that time.
    RunsOn(Duration, Duration),
}

impl Failure {
    /// Descriptions of the recorded and of the replayed behaviour.
    fn describe(self) -> (String, String) {
        match self {
            Self::Diverged(recorded, replayed) => (recorded, replayed),
            Self::RunsOn(took, recorded) => (
                format!(
                    "to reach this record within {:.3} s",
                    recorded.as_secs_f64()
                ),
                format!(
                    "the task has used {:.1} s of processor time, and runs on",
                    took.as_secs_f64()
                ),
            ),
            Self::Gone | Self::Stopped => {
                let gone = "the task is gone: something outside the replay ended it";
                ("the task goes on".to_owned(), gone.to_owned())
            }
        }
    }
}

impl From<Stop> for Failure {
    fn from(stop: Stop) -> Self {
        match stop.park() {
            // A stop where none was to be expected.
            Some(tracee) => Self::Diverged(
                "the end of a call".to_owned(),
                format!("another stop of thread {}", tracee.tid()),
            ),
            None => Self::Gone,
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(_: std::io::Error) -> Self {
        Self::Gone
    }
}

struct ReplayedTask {
    session: Rc<ReplaySession>,
    task: Task,
    observer: Rc<Observer>,
    /// How many records of it have been replayed.
    events: u64,
    /// The registers at the entry of the current call.
    entry: Option<libc::user_regs_struct>,
    call: Option<Call>,
    /// The result of the last call, if nothing has happened since.
    returned: Option<i64>,
    /// Where the entries begin that it was given, if nothing has happened since.
    given: Option<u64>,
    /// The task that the current call has made.
    child: Option<Task>,
    space: Rc<AddressSpace>,
    /// How long it has run for the present record.
    run: RunTimer,
}

/// Follows a task to its end.
pub(super) async fn follow(tracee: Tracee<Started>, session: Rc<ReplaySession>) {
    let observer = Rc::new(tracee.observer());
    match session.take_new_task(tracee.tid()) {
        Some(NewTask::Spawned(spawned)) => {
            let replayed = ReplayedTask::new(session, spawned, observer);
            replayed.follow(tracee.park()).await;
        }
        Some(NewTask::Frozen(frozen)) => frozen::follow(tracee.park(), frozen, session).await,
        Some(NewTask::Restored(restored)) => {
            restored::follow(tracee.park(), *restored, session).await
        }
        None if session.begins() => {
            let process = tracee.tgid();
            match first(tracee).await {
                Some(tracee) => {
                    let replayed = ReplayedTask::new(session, SpawnedTask::default(), observer);
                    replayed.follow(tracee).await;
                }
                None => {
                    session.records.end();
                    kill(process);
                }
            }
        }
        // Not a task of this replay.
        None => kill(tracee.tgid()),
    }
}

/// From the launch to the helper.
async fn first(tracee: Tracee<Started>) -> Option<Tracee<Parked>> {
    let mut stop = tracee.resume().stop().await;
    loop {
        if let Stop::Exec(tracee) = stop {
            return Some(tracee.park());
        }
        stop = stop.resume()?.stop().await;
    }
}

/// Ends a process of the replay: nothing of it is to run on.
fn kill(process: Tid) {
    if let Some(pid) = rustix::process::Pid::from_raw(process) {
        // It may have ended.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

impl ReplayedTask {
    fn new(session: Rc<ReplaySession>, spawned: SpawnedTask, observer: Rc<Observer>) -> Self {
        Self {
            session,
            task: spawned.task,
            observer,
            events: 0,
            entry: None,
            call: None,
            returned: None,
            given: None,
            child: None,
            space: spawned.space,
            run: RunTimer::new(Duration::ZERO),
        }
    }

    async fn follow(mut self, tracee: Tracee<Parked>) {
        let process = tracee.tgid();
        self.session.enter(self.task, self.observer.clone());
        let left = self.play(tracee).await;
        self.session.records.pass(self.task);
        if left {
            kill(process);
        }
        self.session.leave(self.task, &self.observer);
    }

    /// Whether the task is there when there is nothing more to be replayed.
    async fn play(&mut self, mut tracee: Tracee<Parked>) -> bool {
        loop {
            self.session.counted(self.task, self.events);
            let (number, event) = match self.session.records.next(self.task).await {
                None => return true,
                Some(NextStep::Record(number, event, took)) => {
                    self.run = RunTimer::new(took);
                    (number, event)
                }
                Some(NextStep::Request(request)) => {
                    self.run = RunTimer::new(self.run.recorded);
                    tracee = match self.answer(tracee, request).await {
                        Some(tracee) => tracee,
                        None => return true,
                    };
                    continue;
                }
            };
            self.events += 1;
            if let Event::Exit(exit) = event {
                self.exit(tracee, exit).await;
                return false;
            }
            tracee = match self.event(tracee, number, event).await {
                Ok(tracee) => tracee,
                Err(failure) => {
                    self.report_divergence(number, failure);
                    return true;
                }
            };
        }
    }

    /// The task has not come to a record.
    fn report_divergence(&self, number: u64, failure: Failure) {
        // What comes of a replay that has ended says nothing.
        if matches!(failure, Failure::Stopped) || self.session.records.is_over() {
            return;
        }
        if matches!(failure, Failure::RunsOn(..)) {
            self.session.ran_on.update(|count| count + 1);
        }
        let (recorded, replayed) = failure.describe();
        self.session.diverge(Divergence::new(
            (self.task, number),
            recorded,
            replayed,
            backtrace::Here {
                task: &self.observer,
                recorded_path: &|path| self.session.recorded_path(path),
            },
        ));
    }

    async fn event(
        &mut self,
        tracee: Tracee<Parked>,
        number: u64,
        event: Event,
    ) -> Result<Tracee<Parked>, Failure> {
        if !matches!(event, Event::Buffered(_)) {
            self.given = None;
        }
        match event {
            Event::Image(image) => self.image(tracee, &image).await,
            Event::Call(call) => self.call(tracee, call).await,
            Event::Return(done) => self.done(tracee, done).await,
            Event::Patched(patched) => self.patched(tracee, &patched).await,
            Event::Buffered(buffered) => self.buffered(tracee, &buffered).await,
            Event::Spawned(spawned) => self.spawned(tracee, spawned).await,
            Event::Started(started) => {
                tracee.bind(started.cpu);
                put(&tracee, &started.registers)?;
                write(&tracee, &started.writes);
                Ok(tracee)
            }
            Event::Signal(signal) => self.signal(tracee, &signal).await,
            Event::Point(point) => self.point(tracee, number, *point).await,
            Event::Instruction(answer) => self.instruction(tracee, answer).await,
            Event::Digest(digest) => self.digest(tracee, digest),
            Event::FileChanged(changed) => {
                self.session.change(&changed);
                Ok(tracee)
            }
            Event::Written(writes) => {
                write(&tracee, &writes);
                Ok(tracee)
            }
            Event::Exit(_)
            | Event::File(_)
            | Event::Joined(_)
            | Event::Ended(_)
            | Event::ChangedOutside(_) => Ok(tracee),
        }
    }

    /// Lets the program run to its next stop.
    async fn run(&mut self, tracee: Tracee<Parked>) -> Result<Stop, Failure> {
        if let Some(value) = self.returned.take()
            && let Some(call) = self.call
            && let Ok(mut regs) = tracee.registers()
        {
            // No handler came in between, so the kernel has made the call again
            // (arch_do_signal_or_restart).
            let number = match value {
                -516 => Some(libc::SYS_restart_syscall as u64),
                -514..=-512 => Some(call.nr),
                _ => None,
            };
            if let Some(number) = number {
                regs.rax = number;
                regs.rip -= 2;
                tracee.set_registers(&regs)?;
            }
        }
        let mut tracee = tracee;
        loop {
            let (stop, too_long) = self.stop(tracee).await;
            tracee = match stop {
                Stop::Signal(tracee) if !of_its_own(&tracee) => tracee.park(),
                Stop::Interrupted(_) if let Some(took) = too_long => {
                    return Err(Failure::RunsOn(took, self.run.recorded));
                }
                Stop::GroupStop(tracee) => tracee.park(),
                Stop::Interrupted(tracee) => tracee.park(),
                Stop::PreExit(tracee) => tracee.park(),
                Stop::Exited(_) | Stop::Killed { .. } | Stop::Superseded => {
                    return Err(Failure::Gone);
                }
                other => return Ok(other),
            };
        }
    }

    /// Lets it run to its next stop of any kind, and stops it when that takes too long: how long
    /// it has run then.
    async fn stop(&mut self, tracee: Tracee<Parked>) -> (Stop, Option<Duration>) {
        let tid = tracee.tid();
        let running = tracee.resume();
        let interrupter = running.interrupter();
        let mut stop = pin!(running.stop());
        let mut too_long = None;
        let stop = poll_fn(|context| {
            let stop = stop.as_mut().poll(context);
            if stop.is_pending() && too_long.is_none() {
                too_long = self.run.too_long(tid);
                match too_long {
                    Some(_) => interrupter.interrupt(),
                    None => self.session.ticker.watch(self.task, context.waker(), OFTEN),
                }
            }
            stop
        })
        .await;
        self.session.ticker.forget(self.task);
        (stop, too_long)
    }

    /// Has a task that the helper has used in the middle of a call look as if it were there.
    fn stand(&self, tracee: &Tracee<Parked>) -> std::io::Result<()> {
        match &self.entry {
            Some(entry) => tracee.set_registers(entry),
            None => Ok(()),
        }
    }

    /// Ends the task. Its turn lasts until it cannot be seen any more.
    async fn exit(&self, tracee: Tracee<Parked>, exit: Exit) {
        self.session.exits(self.task);
        self.take_back(&tracee);
        write(&tracee, &exit.writes);
        if self.task == Task(0) {
            self.session.end(exit.ending);
        }
        let mut batch = RemoteCalls::default();
        batch.call(libc::SYS_exit, [0; 6]);
        batch.begin(&tracee);
        let leads = tracee.tid() == tracee.tgid();
        let mut stop = tracee.resume().stop().await;
        loop {
            if leads && matches!(stop, Stop::PreExit(_)) {
                // It is reported when its threads have ended.
                self.session.records.pass(self.task);
            }
            let Some(tracee) = stop.park() else { return };
            stop = tracee.resume().stop().await;
        }
    }
}

/// The call that a task has come to.
fn this_call(tracee: &Tracee<Prehook>) -> Result<Call, Failure> {
    Ok(Call {
        nr: tracee.invocation().nr,
        args: tracee.invocation().args,
        ip: tracee.instruction_pointer(),
        sp: tracee.stack_pointer(),
        check: check(&tracee.registers()?),
    })
}

fn put<S: Stopped>(tracee: &Tracee<S>, registers: &Registers) -> std::io::Result<()> {
    let mut regs = tracee.registers()?;
    registers.store(&mut regs);
    regs.orig_rax = u64::MAX;
    tracee.set_registers(&regs)
}

fn put_state<S: Stopped>(tracee: &Tracee<S>, state: &RegisterState) -> Result<(), Failure> {
    put(tracee, &state.registers)?;
    tracee.set_extended_state(&state.extended)?;
    Ok(())
}

fn write<S: Stopped>(tracee: &Tracee<S>, writes: &[Write]) {
    for one in writes {
        // What cannot be written is noticed by what the program does with it.
        let _ = tracee.write(one.address, &one.bytes);
    }
}

/// Whether a signal comes from what the program itself does.
fn of_its_own(tracee: &Tracee<Signal>) -> bool {
    tracee.info().is_ok_and(|info| is_fault(&info))
}
