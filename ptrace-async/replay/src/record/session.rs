//! What the tasks of a recording share.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::{Rc, Weak};

use ptrace_async::event::Tid;
use rustc_hash::FxHashMap;

use super::Options;
use super::chaos::Chaos;
use super::group::Group;
use super::known::Known;
use super::loss::{self, Loss};
use super::random::Unseen;
use super::sites::Sites;
use super::stdio::Stdio;
use super::ticker::Ticker;
use crate::buffer::{self, Stub};
use crate::os;
use crate::trace::event::{Ending, FileChanged, FileNumber};
use crate::trace::files::Files;
use crate::trace::{Directory, Error, Event, Record, Task, Writer};

/// The numbers of the processors in a mask.
fn processors(mask: &[u8]) -> Vec<u32> {
    (0..mask.len() as u32 * 8)
        .filter(|&cpu| mask[cpu as usize / 8] >> (cpu % 8) & 1 != 0)
        .collect()
}

/// What a task that was made is going to know of itself.
pub(super) struct Birth {
    pub(super) task: Task,
    pub(super) group: Rc<Group>,
    pub(super) clear_tid: u64,
    pub(super) sites: Rc<Sites>,
    /// Where the kernel has told the maker of the task, in memory that both have.
    pub(super) told: Vec<u64>,
}

/// The state of a recording.
pub(super) struct Session {
    pub(super) directory: Directory,
    pub(super) digests: bool,
    pub(super) stdio: Stdio,
    pub(super) ticker: Ticker,
    /// What performs calls in programs; nothing where every call is to stop.
    stub: Option<Stub>,
    pub(super) known: Known,
    pub(super) unseen: Unseen,
    pub(super) outputs: Cell<u64>,
    /// Who writes to the recorder's streams: one at a time, so that the order is known.
    pub(super) output: Rc<Group>,
    writer: RefCell<Option<Writer>>,
    files: RefCell<Files>,
    next_task: Cell<u32>,
    next_group: Cell<u32>,
    groups: RefCell<Vec<Weak<Group>>>,
    processors: Vec<u32>,
    /// The processors that programs are told they may use, and what they have chosen.
    allowed: Vec<u8>,
    chosen: RefCell<FxHashMap<Tid, Vec<u8>>>,
    births: RefCell<FxHashMap<Tid, Birth>>,
    /// Who maps a file that is shared, or has: who maps it next comes after them.
    sharers: RefCell<FxHashMap<FileNumber, Rc<Group>>>,
    /// Calls that were not performed, and why.
    refused: RefCell<BTreeMap<(&'static str, &'static str), u64>>,
    /// The first process.
    pub(super) first: Cell<Tid>,
    ending: Cell<Option<Ending>>,
    pub(super) loss: Loss,
    /// What gives turns; then all tasks take turns, of whatever process.
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
            digests: options.digests,
            // An error is a defect of this crate, which its tests find; stops do as well.
            stub: buffer::recording().ok().filter(|_| !options.stops),
            known: Known::default(),
            unseen: Unseen::default(),
            stdio: Stdio::new(),
            ticker,
            outputs: Cell::new(0),
            output: Rc::default(),
            writer: RefCell::new(Some(writer)),
            files: RefCell::default(),
            next_task: Cell::new(0),
            next_group: Cell::new(0),
            groups: RefCell::default(),
            processors: processors(&allowed),
            allowed,
            chosen: RefCell::default(),
            births: RefCell::default(),
            sharers: RefCell::default(),
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
    /// is going on, if possible that of the group it comes from.
    pub(super) fn new_group(&self, task: Task, from: Option<&Group>) -> Rc<Group> {
        let number = crate::trace::event::Group(self.next_group.get());
        self.next_group.set(number.0 + 1);
        let mut groups = self.groups.borrow_mut();
        groups.retain(|group| group.strong_count() > 0);
        let load = |cpu: u32| {
            let here = groups.iter().filter_map(Weak::upgrade);
            here.filter(|group| group.cpu() == cpu && group.is_busy())
                .filter(|group| from.is_none_or(|from| !std::ptr::eq(from, &raw const **group)))
                .count()
        };
        let preferred = from.map(Group::cpu);
        let cpu = self
            .processors
            .iter()
            .copied()
            .min_by_key(|&cpu| (load(cpu), Some(cpu) != preferred))
            .unwrap_or(0);
        let group = Group::of(task, number, cpu, self.chaos.clone());
        groups.push(Rc::downgrade(&group));
        group
    }

    pub(super) fn bear(&self, child: Tid, birth: Birth) {
        self.births.borrow_mut().insert(child, birth);
    }

    pub(super) fn birth(&self, child: Tid) -> Option<Birth> {
        self.births.borrow_mut().remove(&child)
    }

    pub(super) fn log(&self, task: Task, event: Event) {
        if let Some(writer) = self.writer.borrow_mut().as_mut() {
            writer.append(&Record { task, event });
            if let Some(failure) = writer.failure() {
                self.loss.note(failure);
            }
        }
    }

    /// The number of a file that is open at `open`, and whether it belongs to the system,
    /// so that nobody writes it. `None` when it cannot be recorded, or `tid` is gone.
    pub(super) fn file(
        &self,
        task: Task,
        tid: Tid,
        open: &Path,
        path: &[u8],
        shared: bool,
    ) -> Option<(FileNumber, bool)> {
        let mut files = self.files.borrow_mut();
        let numbered = if shared {
            files.shared(&self.directory, open, path)
        } else {
            files.number(&self.directory, open, path)
        };
        match numbered {
            Ok(numbered) => {
                if let Some(file) = numbered.new {
                    self.unseen.look_through(numbered.number, open);
                    self.log(task, Event::File(Box::new(file)));
                }
                Some((numbered.number, numbered.is_of_the_system))
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

    /// Whether files are mapped by those who share them.
    pub(super) fn has_shared_files(&self) -> bool {
        self.files.borrow().has_shared()
    }

    /// What a call may have changed of a file that is mapped by those who share it: all
    /// that is there from `offset` on, `length` bytes.
    pub(super) fn file_changed(&self, task: Task, open: &Path, offset: u64, length: u64) {
        use std::os::unix::fs::FileExt;
        let files = self.files.borrow();
        let Some((number, file)) = files.find_shared(open) else {
            return;
        };
        let size = file.metadata().map_or(0, |metadata| metadata.len());
        let mut bytes = vec![0; length.min(size.saturating_sub(offset)) as usize];
        if file.read_exact_at(&mut bytes, offset).is_ok() {
            let changed = FileChanged {
                number,
                size,
                offset,
                bytes,
            };
            self.log(task, Event::FileChanged(changed));
        }
    }

    /// The group of those who have mapped this file before, shared; from now on also
    /// `group`.
    pub(super) fn sharer(&self, file: FileNumber, group: &Rc<Group>) -> Option<Rc<Group>> {
        let mut sharers = self.sharers.borrow_mut();
        let before = sharers.insert(file, group.clone());
        let before = before.map(|group| super::group::root(&group));
        before.filter(|other| !Rc::ptr_eq(other, group))
    }

    /// A task has chosen its processors: what the call returns.
    pub(super) fn choose(&self, tid: Tid, mask: Vec<u8>) -> i64 {
        let mask: Vec<u8> = mask
            .iter()
            .zip(&self.allowed)
            .map(|(wanted, allowed)| wanted & allowed)
            .collect();
        if mask.iter().all(|&byte| byte == 0) {
            return -i64::from(libc::EINVAL);
        }
        self.chosen.borrow_mut().insert(tid, mask);
        0
    }

    /// The processors that a task thinks it may use.
    pub(super) fn chosen(&self, tid: Tid) -> Vec<u8> {
        let chosen = self.chosen.borrow().get(&tid).cloned();
        let mut mask = chosen.unwrap_or_else(|| self.allowed.clone());
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
        match self.writer.borrow_mut().take() {
            Some(writer) => writer.finish(),
            None => Ok(0),
        }
    }
}
