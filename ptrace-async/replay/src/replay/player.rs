//! What the tasks of a replay share.

use std::cell::{Cell, RefCell};
use std::collections::hash_map::Entry;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ptrace_async::event::Tid;
use rustc_hash::FxHashMap;

use super::Divergence;
use super::agent::Executable;
use super::feed::Feed;
use super::printer::Printer;
use crate::os;
use crate::trace::event::{Ending, FileChanged, FileNumber};
use crate::trace::{Directory, Error, Task};

/// What a task that was made is going to know of itself.
pub(super) struct Birth {
    pub(super) task: Task,
    pub(super) program_break: Rc<Cell<u64>>,
    pub(super) loaded: Rc<Cell<u64>>,
}

/// A copy of a file that is nowhere.
fn copy(original: &Path) -> std::io::Result<File> {
    let mut from = File::open(original)?;
    let mut to = os::memory(c"reprise copy")?;
    std::io::copy(&mut from, &mut to)?;
    Ok(to)
}

/// The state of a replay.
pub(super) struct Player {
    pub(super) feed: Feed,
    pub(super) agent: Executable,
    pub(super) printer: RefCell<Printer>,
    directory: Directory,
    located: RefCell<FxHashMap<FileNumber, PathBuf>>,
    /// Files that change while they are mapped: copies of our own.
    copies: RefCell<FxHashMap<FileNumber, File>>,
    births: RefCell<FxHashMap<Tid, Birth>>,
    divergence: RefCell<Option<Divergence>>,
    error: RefCell<Option<Error>>,
    ending: Cell<Option<Ending>>,
    digests: Cell<u64>,
}

impl Player {
    pub(super) fn new(directory: Directory, feed: Feed, agent: Executable, quiet: bool) -> Self {
        Self {
            feed,
            agent,
            printer: Printer::new(quiet).into(),
            directory,
            located: RefCell::default(),
            copies: RefCell::default(),
            births: RefCell::default(),
            divergence: RefCell::default(),
            error: RefCell::default(),
            ending: Cell::new(None),
            digests: Cell::new(0),
        }
    }

    pub(super) fn bear(&self, child: Tid, birth: Birth) {
        self.births.borrow_mut().insert(child, birth);
    }

    pub(super) fn birth(&self, child: Tid) -> Option<Birth> {
        self.births.borrow_mut().remove(&child)
    }

    /// Where a file is now.
    pub(super) fn locate(&self, number: FileNumber) -> Option<PathBuf> {
        if let Some(path) = self.located.borrow().get(&number) {
            return Some(path.clone());
        }
        let located = match self.feed.file(number) {
            Some(file) => file.locate(&self.directory),
            None => Err(Error::NotATrace {
                path: self.directory.path().to_owned(),
                reason: format!("it does not say what file {} is", number.0),
            }),
        };
        match located {
            Ok(path) => {
                self.located.borrow_mut().insert(number, path.clone());
                Some(path)
            }
            Err(error) => {
                self.error.borrow_mut().get_or_insert(error);
                self.feed.end();
                None
            }
        }
    }

    /// What a file was called when it was recorded, if it has been located here.
    pub(super) fn recorded_path(&self, here: &Path) -> Option<PathBuf> {
        let located = self.located.borrow();
        let is_here = |path: &Path| std::fs::canonicalize(path).is_ok_and(|path| path == here);
        let (number, _) = located.iter().find(|(_, path)| is_here(path))?;
        let file = self.feed.file(*number)?;
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
        copies: &'a mut FxHashMap<FileNumber, File>,
        number: FileNumber,
    ) -> Option<&'a File> {
        let entry = match copies.entry(number) {
            Entry::Occupied(entry) => return Some(entry.into_mut()),
            Entry::Vacant(entry) => entry,
        };
        let path = self.locate(number)?;
        match copy(&path) {
            Ok(file) => Some(entry.insert(file)),
            Err(error) => {
                let error = Error::Io { path, error };
                self.error.borrow_mut().get_or_insert(error);
                self.feed.end();
                None
            }
        }
    }

    /// A call has changed a file.
    pub(super) fn change(&self, changed: &FileChanged) {
        let mut copies = self.copies.borrow_mut();
        if let Some(file) = self.copied(&mut copies, changed.number) {
            // An error is noticed by what the programs do with the content.
            let _ = file.set_len(changed.size);
            let _ = file.write_all_at(&changed.bytes, changed.offset);
        }
    }

    /// A task does not do what it did: the replay ends.
    pub(super) fn diverge(&self, divergence: Divergence) {
        self.divergence.borrow_mut().get_or_insert(divergence);
        self.feed.end();
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
