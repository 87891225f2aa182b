//! State that all tasks of a recording share.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::time::Instant;

use ptrace_async::event::Tid;
use rustc_hash::FxHashMap;

use super::Options;
use super::descriptors::{self, FileKey};
use super::loss::{self, Loss};
use super::mappings::address_space::AddressSpace;
use super::mappings::live_files::{LiveFiles, OutsideChange};
use super::scheduler::Scheduler;
use super::scheduler::chaos::Chaos;
use super::sites::Sites;
use super::sites::hints::HintStore;
use super::sites::known::KnownSites;
use super::sites::random::RandomInstructions;
use super::stdio::Stdio;
use crate::buffer::{self, Stub};
use crate::platform::os;
use crate::trace::event::{Ending, FileNumber, Identity};
use crate::trace::files::{Files, is_of_the_system};
use crate::trace::{Directory, Error, Event, Record, Task, Writer};
use crate::tracee::ticker::Ticker;

/// The numbers of the processors in a mask.
fn processors(mask: &[u8]) -> Vec<u32> {
    (0..mask.len() as u32 * 8)
        .filter(|&cpu| mask[cpu as usize / 8] >> (cpu % 8) & 1 != 0)
        .collect()
}

/// State that a new task inherits from its maker.
pub(super) struct NewTask {
    pub(super) task: Task,
    pub(super) scheduler: Rc<Scheduler>,
    pub(super) clear_tid: u64,
    pub(super) sites: Rc<Sites>,
    pub(super) space: Rc<AddressSpace>,
    /// Addresses in shared memory where the kernel has written the id for the maker.
    pub(super) tid_addresses: Vec<u64>,
}

/// The state of a recording.
pub(super) struct Session {
    pub(super) directory: Directory,
    begun: Instant,
    pub(super) digests: bool,
    pub(super) stdio: Stdio,
    pub(super) ticker: Ticker,
    /// The stub that performs unstopped calls; `None` where every call stops.
    stub: Option<Stub>,
    pub(super) known_sites: KnownSites,
    pub(super) random_instructions: RandomInstructions,
    hints: HintStore,
    pub(super) outputs: Cell<u64>,
    /// The turn to write to the recorder's streams, so that the order of outputs is known.
    pub(super) output: Rc<Scheduler>,
    writer: RefCell<Option<Writer>>,
    files: RefCell<Files>,
    next_task: Cell<u32>,
    next_group: Cell<u32>,
    schedulers: RefCell<Vec<Weak<Scheduler>>>,
    processors: Vec<u32>,
    /// The processors that programs may use, and the affinities that they have set.
    allowed: Vec<u8>,
    affinities: RefCell<FxHashMap<Tid, Vec<u8>>>,
    new_tasks: RefCell<FxHashMap<Tid, NewTask>>,
    pub(super) live_files: LiveFiles,
    outside_changes: RefCell<BTreeSet<PathBuf>>,
    /// Calls that were not performed, and why.
    refused: RefCell<BTreeMap<(&'static str, &'static str), u64>>,
    /// The first process.
    pub(super) first: Cell<Tid>,
    ending: Cell<Option<Ending>>,
    pub(super) loss: Loss,
    /// The random scheduler, if any; then all tasks of all processes take turns.
    pub(super) chaos: Option<Rc<Chaos>>,
}

impl Session {
    pub(super) fn new(
        directory: Directory,
        writer: Writer,
        ticker: Ticker,
        options: Options,
    ) -> Self {
        let allowed = os::allowed_processors();
        Self {
            directory,
            begun: Instant::now(),
            digests: options.digests,
            // An error is a defect of this crate, which its tests find; stops do as well.
            stub: buffer::recording().ok().filter(|_| !options.stops),
            known_sites: KnownSites::default(),
            random_instructions: RandomInstructions::default(),
            hints: HintStore::new(options.hints_directory),
            stdio: Stdio::new(),
            ticker,
            outputs: Cell::new(0),
            output: Rc::default(),
            writer: RefCell::new(Some(writer)),
            files: RefCell::default(),
            next_task: Cell::new(0),
            next_group: Cell::new(0),
            schedulers: RefCell::default(),
            processors: processors(&allowed),
            allowed,
            affinities: RefCell::default(),
            new_tasks: RefCell::default(),
            live_files: LiveFiles::default(),
            outside_changes: RefCell::default(),
            refused: RefCell::default(),
            first: Cell::new(0),
            ending: Cell::new(None),
            loss: Loss::new(options.on_loss),
            chaos: options.chaos.map(|seed| Rc::new(Chaos::new(seed))),
        }
    }

    pub(super) fn new_task(&self) -> Task {
        let task = self.next_task.get();
        self.next_task.set(task + 1);
        Task(task)
    }

    /// A group of this task alone, which has the turn. It gets the processor where least
    /// is going on, or where the fewest are that may go on, if possible that of the group it
    /// comes from. Those in that line wait for it, as a rule, and do not count.
    pub(super) fn new_scheduler(&self, task: Task, from: Option<&Rc<Scheduler>>) -> Rc<Scheduler> {
        let number = crate::trace::event::Group(self.next_group.get());
        self.next_group.set(number.0 + 1);
        let mut schedulers = self.schedulers.borrow_mut();
        schedulers.retain(|scheduler| scheduler.strong_count() > 0);
        let ancestors: Vec<Rc<Scheduler>> =
            from.into_iter().flat_map(Scheduler::ancestors).collect();
        let others: Vec<Rc<Scheduler>> = schedulers
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|scheduler| !ancestors.iter().any(|other| Rc::ptr_eq(scheduler, other)))
            .collect();
        let load = |cpu: u32| {
            let here = || others.iter().filter(|scheduler| scheduler.cpu() == cpu);
            (
                here().filter(|scheduler| scheduler.is_busy()).count(),
                here().count(),
            )
        };
        let preferred = from.map(|from| from.cpu());
        let cpu = self
            .processors
            .iter()
            .copied()
            .min_by_key(|&cpu| (load(cpu), Some(cpu) != preferred))
            .unwrap_or(0);
        let parent = from.map(Rc::downgrade).unwrap_or_default();
        let scheduler = Scheduler::of(task, number, cpu, parent, self.chaos.clone());
        schedulers.push(Rc::downgrade(&scheduler));
        scheduler
    }

    pub(super) fn add_new_task(&self, child: Tid, new_task: NewTask) {
        self.new_tasks.borrow_mut().insert(child, new_task);
    }

    pub(super) fn take_new_task(&self, child: Tid) -> Option<NewTask> {
        self.new_tasks.borrow_mut().remove(&child)
    }

    pub(super) fn log(&self, task: Task, event: Event) {
        if let Some(writer) = self.writer.borrow_mut().as_mut() {
            let time = self.begun.elapsed().as_millis() as u64;
            writer.append(&Record { task, time, event });
            if let Some(failure) = writer.failure() {
                self.loss.note(failure);
            }
        }
    }

    /// The number of a file that is open at `open`, as it is now. `None` when it cannot be
    /// recorded, or `tid` is gone.
    pub(super) fn file(
        &self,
        task: Task,
        tid: Tid,
        open: &Path,
        path: &[u8],
    ) -> Option<FileNumber> {
        let numbered = self.files.borrow_mut().number(&self.directory, open, path);
        match numbered {
            Ok(numbered) => {
                if let Some(file) = numbered.new {
                    self.hints.load_or_scan(
                        &file,
                        open,
                        &self.known_sites,
                        &self.random_instructions,
                    );
                    self.log(task, Event::File(Box::new(file)));
                }
                Some(numbered.number)
            }
            Err(error) => {
                self.fail(tid, error);
                None
            }
        }
    }

    pub(super) fn stub(&self) -> Option<&Stub> {
        self.stub.as_ref()
    }

    /// Makes a file live that is going to be mapped: its number. No call changes it meanwhile.
    pub(super) fn make_live(
        &self,
        task: Task,
        tid: Tid,
        open: &Path,
        path: &[u8],
        key: FileKey,
    ) -> Option<FileNumber> {
        self.live_files.forget_hidden(key);
        let opened = fs::File::open(open).and_then(|file| Ok((file.metadata()?, file)));
        match opened {
            Ok((metadata, file)) => {
                let number = self.file(task, tid, open, path)?;
                let seen = Identity::of(&metadata);
                self.live_files.add(key, number, file, seen);
                Some(number)
            }
            Err(error) => {
                self.fail(
                    tid,
                    Error::Io {
                        path: open.to_owned(),
                        error,
                    },
                );
                None
            }
        }
    }

    /// The number of a file that a program has begun with, and what tells it from others if it
    /// can change. Its program nobody can write meanwhile; its loader nobody does.
    pub(super) fn fresh_file(
        &self,
        task: Task,
        tid: Tid,
        open: &Path,
        path: &[u8],
    ) -> Option<(FileNumber, Option<FileKey>)> {
        let key = fs::metadata(open)
            .ok()
            .filter(|metadata| !is_of_the_system(metadata, path))
            .and_then(|metadata| descriptors::key(&metadata));
        let Some(key) = key else {
            return Some((self.file(task, tid, open, path)?, None));
        };
        let number = match self.live_files.find(key) {
            None => self.make_live(task, tid, open, path, key)?,
            Some(known) if !known.changes => known.number,
            Some(_) => {
                // What it is now has a number of its own: the program has no order yet with
                // those who change it.
                let number = self.file(task, tid, open, path)?;
                self.files.borrow_mut().forget(number);
                if let Err(error) = self.directory.note_changing(number) {
                    self.fail(tid, error);
                }
                self.live_files.add_number(key, number);
                number
            }
        };
        Some((number, Some(key)))
    }

    /// A live file changes from now on.
    pub(super) fn note_changes(&self, tid: Tid, key: FileKey) {
        for number in self.live_files.note_changes(key) {
            self.files.borrow_mut().forget(number);
            if let Err(error) = self.directory.note_changing(number) {
                self.fail(tid, error);
            }
        }
    }

    /// Ends live files that no process maps any more.
    pub(super) fn release_unmapped(&self, task: Task, keys: Vec<FileKey>) {
        let outside = keys
            .into_iter()
            .filter_map(|key| self.live_files.release_unmapped(key));
        outside.for_each(|outside| self.outside(task, &outside));
    }

    /// Ends an address space.
    pub(super) fn end_space(&self, task: Task, space: &AddressSpace) {
        let outside = self.live_files.end(space);
        outside
            .iter()
            .for_each(|outside| self.outside(task, outside));
    }

    /// Records that an unrecorded process has changed a file.
    fn outside(&self, task: Task, outside: &OutsideChange) {
        if outside.may_be_same
            && self
                .files
                .borrow()
                .is_what_it_was(outside.number, &outside.file)
        {
            return;
        }
        self.log(task, Event::ChangedOutside(outside.number));
        let name = format!("/proc/self/fd/{}", outside.file.as_raw_fd());
        let name = fs::read_link(name).unwrap_or_default();
        self.outside_changes.borrow_mut().insert(name);
    }

    /// Mapped files that unrecorded processes have changed.
    pub(super) fn outside_changes(&self) -> BTreeSet<PathBuf> {
        self.outside_changes.borrow().clone()
    }

    /// A task has chosen its processors: what the call returns.
    pub(super) fn set_affinity(&self, tid: Tid, mask: Vec<u8>) -> i64 {
        let mask: Vec<u8> = mask
            .iter()
            .zip(&self.allowed)
            .map(|(wanted, allowed)| wanted & allowed)
            .collect();
        if mask.iter().all(|&byte| byte == 0) {
            return -i64::from(libc::EINVAL);
        }
        self.affinities.borrow_mut().insert(tid, mask);
        0
    }

    /// The processors that a task thinks it may use.
    pub(super) fn affinity(&self, tid: Tid) -> Vec<u8> {
        let affinities = self.affinities.borrow().get(&tid).cloned();
        let mut mask = affinities.unwrap_or_else(|| self.allowed.clone());
        mask.resize(self.allowed.len(), 0);
        mask
    }

    pub(super) fn refuse(&self, name: &'static str, reason: &'static str) {
        let mut refused = self.refused.borrow_mut();
        *refused.entry((name, reason)).or_default() += 1;
    }

    pub(super) fn refused(&self) -> BTreeMap<(&'static str, &'static str), u64> {
        self.refused.borrow().clone()
    }

    /// Something of the recording is missing, which ends here, if it is not because the
    /// task is gone.
    pub(super) fn fail(&self, tid: Tid, error: Error) {
        if loss::is_gone(tid) {
            return;
        }
        if let Some(writer) = self.writer.borrow_mut().take() {
            // The first error is the one that counts.
            let _ = writer.abandon();
            self.loss.note(&error.to_string());
        }
    }

    /// Ends the recording: a live file was changed in an unknown order with other accesses.
    pub(super) fn fail_unordered_change(&self, tid: Tid) {
        let reason = "a call changed it in an unknown order with the accesses of others";
        let error = std::io::Error::other(reason);
        self.fail(tid, Error::io(Path::new("a file that is mapped"))(error));
    }

    /// Whether a program has been executed.
    pub(super) fn has_begun(&self) -> bool {
        self.next_group.get() > 1
    }

    /// The first process has ended.
    pub(super) fn end(&self, ending: Ending) {
        self.ending.set(Some(ending));
    }

    pub(super) fn ending(&self) -> Option<Ending> {
        self.ending.get()
    }

    /// Writes the rest: how many bytes there are.
    pub(super) fn finish(&self) -> Result<u64, Error> {
        self.hints.keep(&self.known_sites);
        match self.writer.borrow_mut().take() {
            Some(writer) => writer.finish(),
            None => Ok(0),
        }
    }
}
