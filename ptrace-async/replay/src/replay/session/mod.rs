//! State that all tasks of a replay share.

pub(super) mod printer;
pub(super) mod record_queue;

use std::cell::{Cell, RefCell};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};

use ptrace_async::event::Tid;
use ptrace_async::runtime::Observer;
use rustc_hash::FxHashMap;

use super::address_space::AddressSpace;
use super::divergence::Divergence;
use super::remote_calls::HelperProgram;
use super::session::printer::{Output, Position, Printer};
use super::session::record_queue::RecordQueue;
use super::snapshot::{FileSnapshots, FrozenProcess, RestoredTask, SharedWrites, TaskDescription};
use crate::platform::os;
use crate::trace::event::{Ending, ExecutionPoint, FileChanged, FileNumber};
use crate::trace::{Directory, Error, Task};
use crate::tracee::ticker::Ticker;

/// State of a new recorded task; by default, of the first one.
#[derive(Debug, Default)]
pub(super) struct SpawnedTask {
    pub(super) task: Task,
    pub(super) space: Rc<AddressSpace>,
}

/// The kind of a task that appears.
pub(super) enum NewTask {
    /// One that was recorded.
    Spawned(SpawnedTask),
    /// A copy of one, which is not to run.
    Frozen(Rc<FrozenProcess>),
    /// One that goes on from a checkpoint.
    Restored(Box<RestoredTask>),
}

/// A task of the present.
struct LiveTask {
    observer: Rc<Observer>,
    /// How many records of it have been replayed.
    events: u64,
    /// Whether it is about to end.
    exits: bool,
}

/// A copy of a file that is nowhere.
fn copy(original: &Path) -> std::io::Result<File> {
    let mut from = File::open(original)?;
    let mut to = os::memory(c"reprise copy")?;
    std::io::copy(&mut from, &mut to)?;
    Ok(to)
}

/// The state of a replay.
pub(super) struct ReplaySession {
    pub(super) records: RecordQueue,
    pub(super) helper: HelperProgram,
    pub(super) printer: RefCell<Printer>,
    directory: Directory,
    located: RefCell<FxHashMap<FileNumber, PathBuf>>,
    /// Files that change while they are mapped: copies of our own.
    copies: RefCell<FxHashMap<FileNumber, Rc<File>>>,
    /// Checkpoints' snapshots that may restore the copies.
    kept: RefCell<Vec<Weak<FileSnapshots>>>,
    new_tasks: RefCell<FxHashMap<Tid, NewTask>>,
    live: RefCell<BTreeMap<Task, LiveTask>>,
    /// Descriptions that tasks at rest were asked for.
    pub(super) described: RefCell<Vec<TaskDescription>>,
    /// Writes that a task at rest was asked for.
    pub(super) shared_writes: RefCell<Option<SharedWrites>>,
    /// The last points that tasks have come to.
    points: RefCell<VecDeque<ReachedPoint>>,
    /// How many visits were like a point and are not it, of the points where there are any.
    mistaken: RefCell<FxHashMap<u64, u64>>,
    /// The last point that was come to but for what was in memory.
    pub(super) differs_in_memory: Cell<Option<u64>>,
    /// From which record on memory is not compared at points.
    pub(super) ignores_memory_from: Cell<Option<u64>>,
    pub(super) ticker: Ticker,
    /// How many tasks have run for too long.
    pub(super) ran_on: Cell<u32>,
    /// The point that a task at rest was asked to go on from.
    pub(super) retried: RefCell<Option<ReachedPoint>>,
    /// The process ids that tasks had.
    pids: RefCell<FxHashMap<Task, i32>>,
    /// The number of tasks that have been requested and have not appeared yet.
    expected: Cell<usize>,
    divergence: RefCell<Option<Divergence>>,
    error: RefCell<Option<Error>>,
    /// The first error of a process that could not be made.
    failure: RefCell<Option<std::io::Error>>,
    ending: Cell<Option<Ending>>,
    digests: Cell<u64>,
}

/// How many points are remembered.
const POINTS: usize = 8;

/// A point that a task has come to.
#[derive(Clone)]
pub(super) struct ReachedPoint {
    /// The record.
    pub(super) number: u64,
    pub(super) task: Task,
    pub(super) point: Rc<ExecutionPoint>,
    /// Whether memory was compared.
    pub(super) is_verified: bool,
}

/// The part of a session that a checkpoint keeps.
pub(super) struct SessionState {
    printer: Position,
    pids: FxHashMap<Task, i32>,
    ending: Option<Ending>,
    digests: u64,
}

impl ReplaySession {
    pub(super) fn new(
        directory: Directory,
        records: RecordQueue,
        helper: HelperProgram,
        ticker: Ticker,
        output: Output,
    ) -> Self {
        Self {
            records,
            helper,
            printer: Printer::new(output).into(),
            directory,
            located: RefCell::default(),
            copies: RefCell::default(),
            kept: RefCell::default(),
            new_tasks: RefCell::default(),
            live: RefCell::default(),
            described: RefCell::default(),
            shared_writes: RefCell::default(),
            points: RefCell::default(),
            mistaken: RefCell::default(),
            differs_in_memory: Cell::new(None),
            ignores_memory_from: Cell::new(None),
            ticker,
            ran_on: Cell::new(0),
            retried: RefCell::default(),
            pids: RefCell::default(),
            // The first one.
            expected: Cell::new(1),
            divergence: RefCell::default(),
            error: RefCell::default(),
            failure: RefCell::default(),
            ending: Cell::new(None),
            digests: Cell::new(0),
        }
    }

    pub(super) fn add_new_task(&self, child: Tid, new_task: NewTask) {
        self.new_tasks.borrow_mut().insert(child, new_task);
    }

    pub(super) fn take_new_task(&self, child: Tid) -> Option<NewTask> {
        self.new_tasks.borrow_mut().remove(&child)
    }

    /// The first task appears; false if it has before.
    pub(super) fn begins(&self) -> bool {
        self.expected.get() > 0 && self.live.borrow().is_empty() && self.records.read() == 0
    }

    /// So many more tasks are going to appear.
    pub(super) fn expect(&self, tasks: usize) {
        self.expected.set(self.expected.get() + tasks);
    }

    /// So many have appeared, or will not.
    pub(super) fn appeared(&self, tasks: usize) {
        self.expected.set(self.expected.get().saturating_sub(tasks));
    }

    pub(super) fn enter(&self, task: Task, observer: Rc<Observer>) {
        self.appeared(1);
        let live = LiveTask {
            observer,
            events: 0,
            exits: false,
        };
        self.live.borrow_mut().insert(task, live);
    }

    pub(super) fn leave(&self, task: Task, observer: &Rc<Observer>) {
        let mut live = self.live.borrow_mut();
        let is_this = |live: &LiveTask| Rc::ptr_eq(&live.observer, observer);
        if live.get(&task).is_some_and(is_this) {
            live.remove(&task);
        }
    }

    pub(super) fn counted(&self, task: Task, events: u64) {
        if let Some(live) = self.live.borrow_mut().get_mut(&task) {
            live.events = events;
        }
    }

    pub(super) fn exits(&self, task: Task) {
        if let Some(live) = self.live.borrow_mut().get_mut(&task) {
            live.exits = true;
        }
    }

    /// The tasks that have not come to their end, and how many records of theirs have been
    /// replayed.
    pub(super) fn tasks(&self) -> Vec<(Task, u64)> {
        let live = self.live.borrow();
        let lasting = live.iter().filter(|(_, live)| !live.exits);
        lasting.map(|(task, live)| (*task, live.events)).collect()
    }

    pub(super) fn observer(&self, task: Task) -> Option<Rc<Observer>> {
        let live = self.live.borrow();
        let live = live.get(&task).filter(|live| !live.exits)?;
        Some(live.observer.clone())
    }

    /// A task had this process id.
    pub(super) fn is_called(&self, task: Task, pid: i32) {
        self.pids.borrow_mut().insert(task, pid);
    }

    pub(super) fn pid(&self, task: Task) -> Option<i32> {
        self.pids.borrow().get(&task).copied()
    }

    /// Whether nobody is about anything: all is as records before the limit left it, or all
    /// tasks have ended, or they wait for something that does not come.
    pub(super) fn is_at_rest(&self) -> bool {
        if self.expected.get() > 0 && !self.records.is_over() || !self.new_tasks.borrow().is_empty()
        {
            return false;
        }
        let lasting = self.tasks().len();
        let is_quiet =
            || lasting > 0 && !self.records.is_over() && self.records.is_at_rest(lasting);
        self.is_deserted() || is_quiet()
    }

    /// Whether no task is left.
    pub(super) fn is_deserted(&self) -> bool {
        self.live.borrow().is_empty()
    }

    /// Whether what is in memory tells a point, too.
    pub(super) fn compares_memory(&self, number: u64) -> bool {
        self.ignores_memory_from
            .get()
            .is_none_or(|from| number < from)
    }

    pub(super) fn note_point(&self, found: ReachedPoint) {
        let mut points = self.points.borrow_mut();
        points.truncate(POINTS - 1);
        points.push_front(found);
    }

    /// The points before a record that a task, or one that takes turns with it, has come to,
    /// those first at which memory was not compared, and of these the latest.
    pub(super) fn points(&self, before: u64, task: Task) -> Vec<ReachedPoint> {
        let points = self.points.borrow();
        let mut points: Vec<ReachedPoint> = points
            .iter()
            .filter(|found| found.number < before && self.records.are_together(found.task, task))
            .cloned()
            .collect();
        points.sort_by_key(|found| (found.is_verified, std::cmp::Reverse(found.number)));
        points
    }

    /// The number of visits that were wrongly taken for an execution point.
    pub(super) fn mistaken(&self, number: u64) -> u64 {
        self.mistaken.borrow().get(&number).copied().unwrap_or(0)
    }

    pub(super) fn mistake(&self, number: u64, visits: u64) {
        self.mistaken.borrow_mut().insert(number, visits);
    }

    /// The sum over all execution points.
    pub(super) fn mistakes(&self) -> u64 {
        self.mistaken.borrow().values().sum()
    }

    /// Something that was to be made could not be.
    pub(super) fn fail(&self, error: std::io::Error) {
        self.failure.borrow_mut().get_or_insert(error);
    }

    pub(super) fn failure(&self) -> Option<std::io::Error> {
        self.failure.borrow_mut().take()
    }

    /// The part of the session that a checkpoint keeps.
    pub(super) fn state(&self) -> SessionState {
        SessionState {
            printer: self.printer.borrow().position(),
            pids: self.pids.borrow().clone(),
            ending: self.ending.get(),
            digests: self.digests.get(),
        }
    }

    /// Goes back to what it was, with the next record that one. No task of the present is left.
    /// What was printed is printed again if that is wanted.
    pub(super) fn go_back(&self, state: &SessionState, next: u64, prints: bool) {
        self.printer.borrow_mut().go_to(&state.printer, prints);
        self.points.borrow_mut().retain(|found| found.number < next);
        self.pids.borrow_mut().clone_from(&state.pids);
        self.ending.set(state.ending);
        self.digests.set(state.digests);
        self.expected.set(0);
        self.new_tasks.borrow_mut().clear();
        *self.divergence.borrow_mut() = None;
        *self.error.borrow_mut() = None;
        *self.failure.borrow_mut() = None;
    }

    /// A snapshot of the files that change.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) fn files(&self) -> std::io::Result<Rc<FileSnapshots>> {
        let mut contents = FxHashMap::default();
        for (number, file) in &*self.copies.borrow() {
            let mut bytes = vec![0; file.metadata()?.len() as usize];
            file.read_exact_at(&mut bytes, 0)?;
            contents.insert(*number, (file.clone(), bytes));
        }
        let files = Rc::new(FileSnapshots {
            contents,
            is_truncated: Cell::new(false),
        });
        let mut kept = self.kept.borrow_mut();
        kept.retain(|files| files.strong_count() > 0);
        kept.push(Rc::downgrade(&files));
        Ok(files)
    }

    /// Restores the content of the copies.
    ///
    /// # Errors
    /// When they cannot be written.
    pub(super) fn put_files(&self, files: &FileSnapshots) -> std::io::Result<()> {
        let mut copies = self.copies.borrow_mut();
        // Others of the same content may have come in their place.
        copies.clear();
        for (number, (file, bytes)) in &files.contents {
            copies.insert(*number, file.clone());
            self.resize(file, bytes.len() as u64)?;
            file.write_all_at(bytes, 0)?;
        }
        Ok(())
    }

    /// Copies of files are made anew.
    pub(super) fn forget_files(&self) {
        self.copies.borrow_mut().clear();
    }

    /// Gives a file of ours another size. What was mapped of it behind its new end is lost,
    /// also to those who had copies of pages there.
    fn resize(&self, file: &Rc<File>, size: u64) -> std::io::Result<()> {
        for files in self.kept.borrow().iter().filter_map(Weak::upgrade) {
            let mut contents = files.contents.values();
            if contents.any(|(other, bytes)| Rc::ptr_eq(other, file) && bytes.len() as u64 > size) {
                files.is_truncated.set(true);
            }
        }
        file.set_len(size)
    }

    /// Where a file is now.
    pub(super) fn locate(&self, number: FileNumber) -> Option<PathBuf> {
        if let Some(path) = self.located.borrow().get(&number) {
            return Some(path.clone());
        }
        let located = match self.records.file(number) {
            Some(file) => file.locate(&self.directory),
            None => Err(Error::NotATrace {
                path: self.directory.path().to_owned(),
                reason: format!("no record describes file {}", number.0),
            }),
        };
        match located {
            Ok(path) => {
                self.located.borrow_mut().insert(number, path.clone());
                Some(path)
            }
            Err(error) => {
                self.error.borrow_mut().get_or_insert(error);
                self.records.end();
                None
            }
        }
    }

    /// The recorded path of a file that has been located here.
    pub(super) fn recorded_path(&self, here: &Path) -> Option<PathBuf> {
        let located = self.located.borrow();
        let is_here = |path: &Path| std::fs::canonicalize(path).is_ok_and(|path| path == here);
        let (number, _) = located.iter().find(|(_, path)| is_here(path))?;
        let file = self.records.file(*number)?;
        Some(PathBuf::from(std::ffi::OsString::from_vec(file.path)))
    }

    /// Where a file is that is going to be mapped, and whether it is a copy of our own: of one
    /// that changes.
    pub(super) fn locate_mapped(&self, number: FileNumber) -> Option<(PathBuf, bool)> {
        if !self.directory.is_changing(number) {
            return Some((self.locate(number)?, false));
        }
        let mut copies = self.copies.borrow_mut();
        let file = self.copied(&mut copies, number)?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        Some((PathBuf::from(path), true))
    }

    /// Our copy of a file.
    fn copied<'a>(
        &self,
        copies: &'a mut FxHashMap<FileNumber, Rc<File>>,
        number: FileNumber,
    ) -> Option<&'a Rc<File>> {
        let entry = match copies.entry(number) {
            Entry::Occupied(entry) => return Some(&*entry.into_mut()),
            Entry::Vacant(entry) => entry,
        };
        let path = self.locate(number)?;
        match copy(&path) {
            Ok(file) => Some(&*entry.insert(Rc::new(file))),
            Err(error) => {
                let error = Error::Io { path, error };
                self.error.borrow_mut().get_or_insert(error);
                self.records.end();
                None
            }
        }
    }

    /// A call has changed a file.
    pub(super) fn change(&self, changed: &FileChanged) {
        let mut copies = self.copies.borrow_mut();
        if let Some(file) = self.copied(&mut copies, changed.number) {
            // An error is noticed by what the programs do with the content.
            let _ = self.resize(file, changed.size);
            let _ = file.write_all_at(&changed.bytes, changed.offset);
        }
    }

    /// A task does not do what it did: the replay ends.
    pub(super) fn diverge(&self, divergence: Divergence) {
        self.divergence.borrow_mut().get_or_insert(divergence);
        self.records.end();
    }

    pub(super) fn divergence(&self) -> Option<Divergence> {
        self.divergence.borrow_mut().take()
    }

    pub(super) fn error(&self) -> Option<Error> {
        self.error.borrow_mut().take()
    }

    pub(super) fn end(&self, ending: Ending) {
        self.ending.set(Some(ending));
    }

    pub(super) fn ending(&self) -> Option<Ending> {
        self.ending.get()
    }

    pub(super) fn digested(&self) {
        self.digests.set(self.digests.get() + 1);
    }

    pub(super) fn digests(&self) -> u64 {
        self.digests.get()
    }
}
