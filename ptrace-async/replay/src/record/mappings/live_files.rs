//! Live files: the files that at least one process has mapped, and their changes.

use std::cell::RefCell;
use std::fs;
use std::rc::{Rc, Weak};

use rustc_hash::FxHashMap;

use super::address_space::AddressSpace;
use crate::record::descriptors::FileKey;
use crate::record::scheduler::{self, Scheduler};
use crate::trace::event::{FileNumber, Identity};

/// A file that a process has mapped.
#[derive(Debug)]
struct Entry {
    /// Its number; and others, of programs that have begun with it since it had changed.
    numbers: Vec<FileNumber>,
    file: fs::File,
    /// Its identity at the last check.
    seen: Identity,
    /// Whether it has changed while mapped, or may change through a mapping.
    changes: bool,
    /// Whether it may be written through a mapping.
    is_written: bool,
}

/// The live files of a recording.
#[derive(Debug, Default)]
pub(in crate::record) struct LiveFiles {
    live: RefCell<FxHashMap<FileKey, Entry>>,
    spaces: RefCell<Vec<Weak<AddressSpace>>>,
    /// Files that are being changed by calls that have no descriptor of them, and by whom.
    changing: RefCell<Vec<(FileKey, Rc<Scheduler>)>>,
}

/// Number and state of a live file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::record) struct LiveFile {
    pub(in crate::record) number: FileNumber,
    /// Whether its content differs, or may come to differ, from the one that has its number.
    pub(in crate::record) changes: bool,
}

impl LiveFiles {
    /// There is a process with this memory.
    pub(in crate::record) fn begin(&self, space: &Rc<AddressSpace>) {
        let mut spaces = self.spaces.borrow_mut();
        spaces.retain(|space| space.strong_count() > 0);
        spaces.push(Rc::downgrade(space));
    }

    fn spaces(&self) -> Vec<Rc<AddressSpace>> {
        self.spaces
            .borrow()
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// Whether no file is live, and there is one memory only.
    pub(in crate::record) fn is_empty(&self) -> bool {
        let spaces = self.spaces.borrow();
        let there = spaces.iter().filter(|space| space.strong_count() > 0);
        self.live.borrow().is_empty() && there.take(2).count() == 1
    }

    /// The file, if it is live.
    pub(in crate::record) fn find(&self, key: FileKey) -> Option<LiveFile> {
        let live = self.live.borrow();
        let live = live.get(&key)?;
        Some(LiveFile {
            number: *live.numbers.first()?,
            changes: live.changes,
        })
    }

    /// Another group than this one that has mapped the file.
    pub(in crate::record) fn another(
        &self,
        key: FileKey,
        than: &Rc<Scheduler>,
    ) -> Option<Rc<Scheduler>> {
        self.spaces()
            .iter()
            .filter(|space| space.has(key))
            .map(|space| space.scheduler())
            .find(|scheduler| !Rc::ptr_eq(scheduler, than))
    }

    /// Another group than this one that may write the file at this moment.
    pub(in crate::record) fn writer(
        &self,
        key: FileKey,
        than: &Rc<Scheduler>,
    ) -> Option<Rc<Scheduler>> {
        let changing = self.changing.borrow();
        let changing = changing.iter().filter(|(changed, _)| *changed == key);
        let mut changing = changing.map(|(_, scheduler)| scheduler::root(scheduler));
        changing
            .find(|scheduler| !Rc::ptr_eq(scheduler, than))
            .or_else(|| {
                self.spaces()
                    .iter()
                    .map(|space| (space, space.scheduler()))
                    .filter(|(_, scheduler)| !Rc::ptr_eq(scheduler, than))
                    .find(|(space, _)| space.may_write(key))
                    .map(|(_, scheduler)| scheduler)
            })
    }

    /// A call is going to change a file by its name.
    pub(in crate::record) fn begin_change(&self, key: FileKey, scheduler: Rc<Scheduler>) {
        self.changing.borrow_mut().push((key, scheduler));
    }

    /// A call has changed a file by its name.
    pub(in crate::record) fn end_change(&self, key: FileKey) {
        let mut changing = self.changing.borrow_mut();
        if let Some(at) = changing.iter().position(|(other, _)| *other == key) {
            changing.swap_remove(at);
        }
    }

    /// From now on no descriptor of the file is written to without a stop.
    pub(in crate::record) fn forget_hidden(&self, key: FileKey) {
        for space in self.spaces() {
            space.forget_hidden(key);
        }
    }

    /// A file becomes live, which is open.
    pub(in crate::record) fn add(
        &self,
        key: FileKey,
        number: FileNumber,
        file: fs::File,
        seen: Identity,
    ) {
        let live = Entry {
            numbers: vec![number],
            file,
            seen,
            changes: false,
            is_written: false,
        };
        self.live.borrow_mut().insert(key, live);
    }

    /// A live file has another number as well, which means what it is now.
    pub(in crate::record) fn add_number(&self, key: FileKey, number: FileNumber) {
        if let Some(live) = self.live.borrow_mut().get_mut(&key)
            && !live.numbers.contains(&number)
        {
            live.numbers.push(number);
        }
    }

    /// A live file is mapped by `space`, to be written.
    pub(in crate::record) fn note_written(&self, key: FileKey, space: &AddressSpace) {
        if let Some(live) = self.live.borrow_mut().get_mut(&key) {
            live.is_written = true;
        }
        space.note_written(key);
    }

    /// A live file changes from now on: the numbers of which that is new.
    pub(in crate::record) fn note_changes(&self, key: FileKey) -> Vec<FileNumber> {
        let mut live = self.live.borrow_mut();
        let Some(live) = live.get_mut(&key) else {
            return Vec::new();
        };
        if std::mem::replace(&mut live.changes, true) {
            return Vec::new();
        }
        live.numbers.clone()
    }

    /// How large a live file was when it was last looked at.
    pub(in crate::record) fn size(&self, key: FileKey) -> u64 {
        self.live
            .borrow()
            .get(&key)
            .map_or(0, |live| live.seen.size)
    }

    /// Looks at a live file: its numbers, itself, and how large it is.
    pub(in crate::record) fn look(&self, key: FileKey) -> Option<(Vec<FileNumber>, fs::File, u64)> {
        let mut live = self.live.borrow_mut();
        let live = live.get_mut(&key)?;
        live.seen = Identity::of(&live.file.metadata().ok()?);
        Some((
            live.numbers.clone(),
            live.file.try_clone().ok()?,
            live.seen.size,
        ))
    }

    /// Ends the live file if no process maps it any more; the change, if a process outside the
    /// recording has changed it.
    pub(in crate::record) fn release_unmapped(&self, key: FileKey) -> Option<OutsideChange> {
        if self.spaces().iter().any(|space| space.has(key)) {
            return None;
        }
        let live = self.live.borrow_mut().remove(&key)?;
        live.outside()
    }

    /// `space` has no tasks any more.
    pub(in crate::record) fn end(&self, space: &AddressSpace) -> Vec<OutsideChange> {
        let keys = space.take();
        keys.into_iter()
            .filter_map(|key| self.release_unmapped(key))
            .collect()
    }
}

/// A live file that a process outside the recording has changed.
#[derive(Debug)]
pub(in crate::record) struct OutsideChange {
    pub(in crate::record) number: FileNumber,
    pub(in crate::record) file: fs::File,
    /// Its content may be what it was all the same.
    pub(in crate::record) may_be_same: bool,
}

impl Entry {
    fn outside(self) -> Option<OutsideChange> {
        let now = Identity::of(&self.file.metadata().ok()?);
        let is_same = now.size == self.seen.size
            // Who writes through a mapping changes the time whenever the kernel notices.
            && (self.is_written || now.modified == self.seen.modified);
        if is_same {
            return None;
        }
        Some(OutsideChange {
            number: *self.numbers.first()?,
            may_be_same: now.size == self.seen.size && !self.changes,
            file: self.file,
        })
    }
}
