//! A replay in steps: it advances to a record, can be inspected, and can be restored.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::rc::Rc;

use ptrace_async::filter::{Filter, Rule};
use ptrace_async::runtime::{Interception, Observer, Options as RuntimeOptions, Program, Runtime};

use super::address_space::AddressSpace;
use super::checkpoint::Checkpoint;
use super::divergence::Divergence;
use super::remote_calls::{self, HelperProgram};
use super::session::printer::Printed;
use super::session::record_queue::{QueuePosition, RecordQueue, Request};
use super::session::{ReachedPoint, ReplaySession, SessionState};
use super::snapshot::{
    self, CopyRequest, FrozenCopy, RestoredTask, SharedMemory, SpaceSnapshot, TaskDescription,
    TaskSnapshot,
};
use super::{Options, Outcome, task};
use crate::buffer;
use crate::code::registers::Registers;
use crate::memory::digest;
use crate::memory::maps::{self, Area};
use crate::trace::{self, Directory, Reader, Task};
use crate::tracee::ticker::Ticker;

/// How many points are retried when a replay has diverged, and how many visits are tried.
const POINTS: usize = 3;
const VISITS: usize = 1000;
/// How many of those visits may be ones from which a task runs on and on.
const RUNS_ON: u32 = 10;

/// The result of trying later visits of an execution point.
enum Tried {
    /// The replay has passed the record.
    Passed,
    /// The replay has passed the record, and diverged later.
    Further(Box<Divergence>),
    InVain,
}

/// The reason why a replay could not go on or back.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program did something else than was recorded. The replay has ended there; it can be
    /// brought back to a checkpoint.
    #[error(transparent)]
    Diverged(Box<Divergence>),
    /// Something is wrong with the trace.
    #[error(transparent)]
    Trace(#[from] trace::Error),
    /// A process could not be traced, made, or copied.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The replay has ended before, by an error.
    #[error("the replay has ended with an error: restore a checkpoint to go on")]
    Over,
    /// Several processes share memory, of which more than one has several threads.
    #[error(
        "no checkpoint can be taken here: several processes with threads share the memory of {0}"
    )]
    Crowded(Task),
    /// A file that was mapped has been shorter since the checkpoint was taken, which has lost
    /// private copies of its pages.
    #[error("a mapped file has been truncated since this checkpoint, whose pages of it are lost")]
    Truncated,
    /// The checkpoint is of another replay.
    #[error("this checkpoint belongs to another replay")]
    Foreign,
    /// Something has ended a process of the checkpoint.
    #[error("a process of this checkpoint is gone: something outside the replay ended it")]
    Gone,
}

/// Position and registers of a replayed task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskStatus {
    /// The task, as the trace calls it.
    pub task: Task,
    /// The process or thread id that it had when it was recorded. Of a task that was made, it
    /// is known when the call that made it has returned to its maker.
    pub pid: Option<i32>,
    /// How many of its records have been replayed; the next one has this number among its own.
    pub events: u64,
    /// Its registers: at a [`Call`](crate::trace::Event::Call) those of its entry, with the
    /// call's number in `orig_rax`.
    pub registers: Registers,
}

/// A replay that advances as far as it is told.
///
/// It is at rest between two records of the trace: all before [`position`](Self::position)
/// have been replayed by the tasks that they happened to, none of the others has, and each task
/// stands still where its last record left it. What is not in order in the trace has no order
/// here: tasks that share nothing run side by side up to where the replay is told to rest.
///
/// ```no_run
/// use reprise::replay::{Options, Replayer};
/// use reprise::trace::Directory;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (directory, _) = Directory::open("trace")?;
/// let mut replayer = Replayer::open(directory, Options::default())?;
/// replayer.run_to(100)?;
/// let checkpoint = replayer.checkpoint()?;
/// replayer.run_to_end()?;
/// replayer.restore(&checkpoint)?;
/// for task in replayer.tasks() {
///     println!("{} is at {:#x}", task.task, task.registers.ip());
/// }
/// # Ok(())
/// # }
/// ```
///
/// The processes that it replays in end with it. It belongs to the thread that has made it,
/// which alone may make requests of ptrace(2).
pub struct Replayer {
    runtime: Runtime,
    session: Rc<ReplaySession>,
    directory: Directory,
    program: Program,
    /// Before the first record.
    start: Option<(QueuePosition, SessionState)>,
    /// It has been brought to a checkpoint, since when more may have been learnt of the points
    /// before that.
    restored: bool,
    over: bool,
}

impl std::fmt::Debug for Replayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replayer")
            .field("directory", &self.directory)
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}

impl Replayer {
    /// Starts the replay of a trace, at rest before its first record.
    ///
    /// # Errors
    /// [`Error::Io`] when nothing can be traced here, [`Error::Trace`] when the trace cannot be
    /// opened.
    pub fn open(directory: Directory, options: Options) -> Result<Self, Error> {
        let filter = Filter::build(512, |_| {
            let other = Rule::UnlessFrom(buffer::BASE, Box::new(Rule::Trace));
            Rule::UnlessFrom(remote_calls::CODE, Box::new(other))
        });
        let runtime = Runtime::new(RuntimeOptions {
            interception: Interception::Seccomp(filter),
            exit_kill: true,
        });
        let background = runtime.handle().host_threads();
        let reader = Reader::open(&directory)?.ahead(move || {
            std::mem::forget(background.enter());
        })?;
        let helper = HelperProgram::new()?;
        let mut program = Program::new(&["reprise"])?;
        program.candidates = vec![std::ffi::CString::new(helper.path()).map_err(io::Error::from)?];
        program.envp = Vec::new();
        let session = Rc::new(ReplaySession::new(
            directory.clone(),
            RecordQueue::new(reader),
            helper,
            Ticker::start(|| ())?,
            options.output,
        ));
        runtime.spawn(&program)?;
        let mut replayer = Self {
            runtime,
            session,
            directory,
            program,
            start: None,
            restored: false,
            over: false,
        };
        replayer.rest()?;
        let records = replayer.session.records.position()?;
        replayer.start = Some((records, replayer.session.state()));
        Ok(replayer)
    }

    /// The path of the trace.
    pub fn trace(&self) -> &Path {
        self.directory.path()
    }

    /// The number of the record that comes next, counted from 0: how many have been replayed.
    pub fn position(&self) -> u64 {
        self.session.records.read()
    }

    /// Whether all records have been replayed, and that is known.
    pub fn is_at_end(&self) -> bool {
        self.session.records.is_empty()
    }

    /// Replays the next record; false if there is none.
    ///
    /// A record that says what a file is, or how the first process ended, is a step as well, in
    /// which nothing moves.
    ///
    /// # Errors
    /// As [`run_to`](Self::run_to).
    pub fn step(&mut self) -> Result<bool, Error> {
        self.run_to(self.position() + 1)
    }

    /// Replays up to before this record, which is the next one then; false if the trace ends
    /// before that. Nothing moves if the replay is behind it: see
    /// [`restore`](Self::restore).
    ///
    /// # Errors
    /// [`Error::Diverged`] when a program did something else, [`Error::Trace`] when the trace
    /// is damaged, or needs a file that has changed; [`Error::Over`] after one of these.
    pub fn run_to(&mut self, record: u64) -> Result<bool, Error> {
        loop {
            match self.go_to(record) {
                Err(Error::Diverged(divergence)) => self.reconsider(divergence)?,
                other => return other,
            }
        }
    }

    fn go_to(&mut self, record: u64) -> Result<bool, Error> {
        if self.over {
            return Err(Error::Over);
        }
        let records = &self.session.records;
        if record <= records.read() && self.session.is_at_rest() {
            return Ok(true);
        }
        records.limit(record);
        self.rest()?;
        let records = &self.session.records;
        if self.session.is_deserted() {
            // The remaining records belong to no task.
            records.drain();
            self.check().inspect_err(|_| self.over = true)?;
        }
        let records = &self.session.records;
        if let Some((number, task)) = records.left() {
            self.over = true;
            records.end();
            let reason = format!(
                "record {number} belongs to {task}, which does not exist: check the trace with `reprise fsck`"
            );
            let path = self.directory.path().to_owned();
            return Err(trace::Error::NotATrace { path, reason }.into());
        }
        Ok(records.read() >= record)
    }

    /// Replays up to and including the record of a task that has `skipped` others of the same
    /// task before it; false if there is none, and nothing has moved.
    ///
    /// # Errors
    /// As [`run_to`](Self::run_to).
    pub fn run_to_event_of(&mut self, task: Task, skipped: u64) -> Result<bool, Error> {
        match self.session.records.find(task, skipped)? {
            Some(record) => self.run_to(record + 1),
            None => Ok(false),
        }
    }

    /// Replays all that is left.
    ///
    /// # Errors
    /// As [`run_to`](Self::run_to).
    pub fn run_to_end(&mut self) -> Result<(), Error> {
        self.run_to(u64::MAX).map(drop)
    }

    /// The tasks that are there, in the order of their numbers.
    pub fn tasks(&self) -> Vec<TaskStatus> {
        let tasks = self.session.tasks().into_iter();
        tasks
            .filter_map(|(task, events)| {
                let registers = self.session.observer(task)?.registers().ok()?;
                Some(TaskStatus {
                    task,
                    pid: self.session.pid(task),
                    events,
                    registers: (&registers).into(),
                })
            })
            .collect()
    }

    /// The memory of a task, to be read by [`ptrace_async::memory::Memory`]; nothing if the
    /// task is not there. It reads nothing any more once the replay has moved on and the task
    /// has ended.
    pub fn memory(&self, task: Task) -> Option<Rc<Observer>> {
        self.session.observer(task)
    }

    /// The mappings of a task, without those of the replay itself. A file that was stored in
    /// the trace appears under its name there.
    ///
    /// # Errors
    /// [`Error::Gone`] if the task is not there.
    pub fn mappings(&self, task: Task) -> Result<Vec<Area>, Error> {
        let observer = self.session.observer(task).ok_or(Error::Gone)?;
        let mut areas = maps::read(observer.tgid())?;
        areas.retain(|area| !digest::is_ours(area) && !area.is_kernels());
        Ok(areas)
    }

    /// A digest of the memory of a task, from its stack pointer on upwards where that points;
    /// nothing if the task is not there.
    pub fn digest(&self, task: Task) -> Option<u64> {
        let observer = self.session.observer(task)?;
        let areas = maps::read(observer.tgid()).ok()?;
        let registers = observer.registers().ok()?;
        Some(digest::digest(observer.as_ref(), &areas, registers.rsp))
    }

    /// Takes what programs have printed since it was asked for, or since the replay was brought
    /// to a checkpoint, if that is kept ([`Output::Keep`](super::Output::Keep)).
    pub fn take_output(&mut self) -> Vec<Printed> {
        self.session.printer.borrow_mut().take()
    }

    /// Keeps the present state, to come back to it.
    ///
    /// # Errors
    /// [`Error::Io`] when a process cannot be copied, [`Error::Crowded`] where that is not
    /// enough, [`Error::Over`] when the replay has ended by an error. In the first two cases it
    /// can go on.
    pub fn checkpoint(&mut self) -> Result<Checkpoint, Error> {
        if self.over {
            return Err(Error::Over);
        }
        self.rest()?;
        let tasks = self.session.records.waiting();
        let mut memories: BTreeMap<usize, (Rc<AddressSpace>, Vec<TaskSnapshot>)> = BTreeMap::new();
        for described in self.ask(&tasks, Request::Describe)? {
            let memory = memories
                .entry(Rc::as_ptr(&described.space).addr())
                .or_insert_with(|| (described.space.clone(), Vec::new()));
            memory.1.push(described.kept);
        }
        for (_, tasks) in memories.values_mut() {
            snapshot::arrange(tasks).map_err(|()| Error::Crowded(tasks[0].task))?;
        }
        let firsts: Vec<Task> = memories.values().map(|(_, tasks)| tasks[0].task).collect();
        let mut copies: BTreeMap<Task, FrozenCopy> = BTreeMap::new();
        for described in self.ask(&firsts, Request::Freeze)? {
            if let Some(copy) = described.copy {
                copies.insert(described.kept.task, copy);
            }
        }
        let mut spaces = Vec::new();
        for (space, mut tasks) in memories.into_values() {
            let first = tasks.remove(0);
            let Some(copy) = copies.remove(&first.task) else {
                return Err(Error::Gone);
            };
            spaces.push(SpaceSnapshot {
                copy,
                space: space.copy(),
                first,
                others: tasks,
            });
        }
        let observers: Vec<(Task, Rc<Observer>)> = firsts
            .iter()
            .filter_map(|task| Some((*task, self.session.observer(*task)?)))
            .collect();
        Ok(Checkpoint {
            session: self.session.clone(),
            records: self.session.records.position()?,
            state: self.session.state(),
            spaces,
            files: self.session.files()?,
            shared: snapshot::shared(&observers)?,
            position: self.position(),
        })
    }

    /// Brings the replay to a checkpoint, which stays as it is. The processes of the present
    /// end, also where the replay has ended by an error.
    ///
    /// # Errors
    /// [`Error::Foreign`], and nothing has happened; [`Error::Truncated`], likewise.
    /// [`Error::Gone`] and [`Error::Io`] when processes could not be made; the replay is over
    /// then, and may be brought to a checkpoint again.
    pub fn restore(&mut self, checkpoint: &Checkpoint) -> Result<(), Error> {
        if !Rc::ptr_eq(&self.session, &checkpoint.session) {
            return Err(Error::Foreign);
        }
        self.restored = true;
        self.bring(checkpoint, true)
    }

    fn bring(&mut self, checkpoint: &Checkpoint, prints: bool) -> Result<(), Error> {
        if checkpoint.files.is_truncated.get() {
            return Err(Error::Truncated);
        }
        self.end()?;
        let is_there = |memory: &SpaceSnapshot| memory.copy.frozen().is_there.get();
        if !checkpoint.spaces.iter().all(is_there) {
            return Err(Error::Gone);
        }
        let next = checkpoint.position;
        self.session.go_back(&checkpoint.state, next, prints);
        self.session.records.go_to(&checkpoint.records)?;
        for memory in &checkpoint.spaces {
            self.session.expect(1 + memory.others.len());
            let frozen = memory.copy.frozen();
            let fork_advice = frozen.fork_advice.borrow().clone();
            frozen.order(CopyRequest::Restore(Box::new(RestoredTask {
                kept: memory.first.clone(),
                space: Rc::new(memory.space.copy()),
                others: memory.others.clone(),
                fork_advice,
            })));
        }
        self.turn()?;
        let put_back = || -> Result<(), Error> {
            self.check()?;
            self.session.put_files(&checkpoint.files)?;
            self.put_shared(&checkpoint.shared)
        };
        if let Err(error) = put_back() {
            self.session.records.end();
            return Err(error);
        }
        self.over = false;
        Ok(())
    }

    /// The outcome, if the replay has not ended with an error. The remaining processes end.
    pub fn finish(self) -> Outcome {
        let session = &self.session;
        let unprinted = session.printer.borrow_mut().finish();
        let ended = session.records.ended();
        Outcome {
            ending: session.ending().map(|ending| ended.unwrap_or(ending)),
            divergence: None,
            error: None,
            tail: session.records.tail(),
            records: session.records.read(),
            digests: session.digests(),
            mistaken: session.mistakes(),
            unprinted,
        }
    }

    /// Ends all processes of the present.
    fn end(&mut self) -> Result<(), Error> {
        self.session.records.end();
        self.over = true;
        self.turn()?;
        Ok(())
    }

    /// Begins again before the first record.
    fn restart(&mut self) -> Result<(), Error> {
        self.end()?;
        self.restored = false;
        let Some((records, state)) = &self.start else {
            return Err(Error::Over);
        };
        self.session.go_back(state, 0, false);
        self.session.records.go_to(records)?;
        self.session.forget_files();
        self.session.expect(1);
        self.runtime.spawn(&self.program)?;
        self.over = false;
        self.rest()
    }

    /// After a divergence: looks whether a point before it was found too early, at a visit that
    /// was like the recorded one in all that is compared. If so, the replay has passed the
    /// record that it diverged at, and keeps to what it has learnt.
    ///
    /// Nothing tells which visit is the right one but what comes after it. So one after the
    /// other is tried, each from a checkpoint at the one before.
    fn reconsider(&mut self, mut divergence: Box<Divergence>) -> Result<(), Error> {
        if self.restored {
            self.restart()?;
            match self.go_to(divergence.record + 1) {
                Ok(_) => return Ok(()),
                Err(Error::Diverged(other)) => divergence = other,
                Err(other) => return Err(other),
            }
        }
        if self.session.differs_in_memory.get() == Some(divergence.record)
            && self.session.compares_memory(divergence.record)
        {
            // What is in memory there differs from run to run.
            self.session
                .ignores_memory_from
                .set(Some(divergence.record));
            self.restart()?;
            match self.go_to(divergence.record + 1) {
                Ok(_) => return Ok(()),
                Err(Error::Diverged(_)) => self.session.ignores_memory_from.set(None),
                Err(other) => return Err(other),
            }
        }
        let mut points = self.session.points(divergence.record, divergence.task);
        points.truncate(POINTS);
        let mut points = points.into_iter();
        while let Some(found) = points.next() {
            let before = self.session.mistaken(found.number);
            match self.try_visits(&found, divergence.record) {
                Ok(Tried::Passed) => return Ok(()),
                Ok(Tried::Further(other)) => {
                    let mut later = self.session.points(other.record, other.task);
                    later.truncate(POINTS);
                    (divergence, points) = (other, later.into_iter());
                    continue;
                }
                // The divergence says more than that.
                Ok(Tried::InVain) | Err(Error::Crowded(_) | Error::Truncated | Error::Gone) => {}
                Err(other) => return Err(other),
            }
            self.session.mistake(found.number, before);
        }
        self.end()?;
        Err(Error::Diverged(divergence))
    }

    /// Whether a later visit like a point leads beyond a record.
    fn try_visits(&mut self, found: &ReachedPoint, beyond: u64) -> Result<Tried, Error> {
        self.restart()?;
        match self.go_to(found.number + 1) {
            Ok(true) => {}
            Ok(false) | Err(Error::Diverged(_)) => return Ok(Tried::InVain),
            Err(other) => return Err(other),
        }
        let most = self.session.ran_on.get() + RUNS_ON;
        for _ in 0..VISITS {
            if self.session.ran_on.get() >= most {
                break;
            }
            *self.session.retried.borrow_mut() = Some(found.clone());
            self.session.records.request(found.task, Request::GoOn);
            match self.rest() {
                Ok(()) => {}
                // There is no other.
                Err(Error::Diverged(_)) => return Ok(Tried::InVain),
                Err(other) => return Err(other),
            }
            let mistaken = self.session.mistaken(found.number) + 1;
            self.session.mistake(found.number, mistaken);
            let checkpoint = self.checkpoint()?;
            match self.go_to(beyond + 1) {
                Ok(_) => return Ok(Tried::Passed),
                Err(Error::Diverged(other)) if other.record > beyond => {
                    return Ok(Tried::Further(other));
                }
                Err(Error::Diverged(_)) => self.bring(&checkpoint, false)?,
                Err(other) => return Err(other),
            }
        }
        Ok(Tried::InVain)
    }

    /// Has tasks at rest say how they are, and more.
    fn ask(&self, tasks: &[Task], request: Request) -> Result<Vec<TaskDescription>, Error> {
        for task in tasks {
            self.session.records.request(*task, request);
        }
        self.turn()?;
        let described = std::mem::take(&mut *self.session.described.borrow_mut());
        self.check()?;
        if described.len() < tasks.len() {
            return Err(Error::Gone);
        }
        Ok(described)
    }

    /// Restores the content of shared memory.
    fn put_shared(&self, shared: &[SharedMemory]) -> Result<(), Error> {
        for part in shared {
            let observer = self.session.observer(part.task).ok_or(Error::Gone)?;
            let writes = part.differing(observer.as_ref());
            if writes.is_empty() {
                continue;
            }
            *self.session.shared_writes.borrow_mut() = Some(part.with(writes));
            self.session
                .records
                .request(part.task, Request::WriteShared);
            self.turn()?;
            self.check()?;
        }
        Ok(())
    }

    /// Has the tasks do what they may, until they wait.
    fn turn(&self) -> io::Result<()> {
        let session = self.session.clone();
        let follow = move |tracee| task::follow(tracee, session.clone());
        let is_at_rest = || self.session.is_at_rest();
        self.runtime.run_until(&follow, is_at_rest).map(drop)
    }

    /// Runs the tasks until they rest. An error ends the replay.
    fn rest(&mut self) -> Result<(), Error> {
        let rested = self.turn().map_err(Error::from);
        rested
            .and_then(|()| self.check())
            .inspect_err(|_| self.over = true)
    }

    /// The error of the session, if there is one.
    fn check(&self) -> Result<(), Error> {
        if let Some(error) = self.session.failure() {
            return Err(error.into());
        }
        if let Some(error) = self
            .session
            .error()
            .or_else(|| self.session.records.error())
        {
            return Err(error.into());
        }
        match self.session.divergence() {
            Some(mut divergence) => {
                divergence.add_history(&self.directory);
                Err(Error::Diverged(Box::new(divergence)))
            }
            None => Ok(()),
        }
    }
}
