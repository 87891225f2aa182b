//! What the tasks of a replay share.

use std::cell::{Cell, RefCell};
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
    let mut to = os::memory(c"reprise shared")?;
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
    /// Files that the programs write through mappings: copies of our own.
    shared: RefCell<FxHashMap<FileNumber, File>>,
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
            shared: RefCell::default(),
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

    /// Where a copy of a file is that programs may write.
    pub(super) fn locate_shared(&self, number: FileNumber) -> Option<PathBuf> {
        if !self.shared.borrow().contains_key(&number) {
            let original = self.locate(number)?;
            match copy(&original) {
                Ok(file) => {
                    self.shared.borrow_mut().insert(number, file);
                }
                Err(error) => {
                    let path = original;
                    self.error
                        .borrow_mut()
                        .get_or_insert(Error::Io { path, error });
                    self.feed.end();
                    return None;
                }
            }
        }
        let shared = self.shared.borrow();
        let file = shared.get(&number)?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        Some(PathBuf::from(path))
    }

    /// A call has changed such a file.
    pub(super) fn change(&self, changed: &FileChanged) {
        let shared = self.shared.borrow();
        if let Some(file) = shared.get(&changed.number) {
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
