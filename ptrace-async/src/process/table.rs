//! Descriptor tables.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::event::OpenFile;

/// The file behind a descriptor number, and its close-on-exec flag.
#[derive(Debug, Clone)]
pub(super) struct TableEntry {
    pub(super) file: Rc<OpenFile>,
    pub(super) cloexec: bool,
}

/// The descriptors of one process, in order. A tree and not an array: a single
/// `dup2(fd, 1_000_000)` must stay cheap, and tables are copied at every fork.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    slots: BTreeMap<i32, TableEntry>,
}

impl Table {
    pub(super) fn get(&self, fd: i32) -> Option<&TableEntry> {
        self.slots.get(&fd)
    }

    /// Puts a file at `fd`, closing what was there.
    pub(super) fn set(&mut self, fd: i32, file: Rc<OpenFile>, cloexec: bool) {
        self.slots.insert(fd, TableEntry { file, cloexec });
    }

    pub(super) fn close(&mut self, fd: i32) {
        self.slots.remove(&fd);
    }

    pub(super) fn set_cloexec(&mut self, fd: i32, cloexec: bool) {
        if let Some(slot) = self.slots.get_mut(&fd) {
            slot.cloexec = cloexec;
        }
    }

    /// `close_range` over `first..=last`, as unsigned numbers.
    pub(super) fn close_range(&mut self, first: u32, last: u32, only_mark: bool) {
        let inside = |fd: i32| u32::try_from(fd).is_ok_and(|fd| (first..=last).contains(&fd));
        if only_mark {
            for (fd, slot) in &mut self.slots {
                slot.cloexec |= inside(*fd);
            }
        } else {
            self.slots.retain(|fd, _| !inside(*fd));
        }
    }

    /// Closes the descriptors that a successful execve closes.
    pub(super) fn close_on_exec(&mut self) {
        self.slots.retain(|_, slot| !slot.cloexec);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (i32, &TableEntry)> {
        self.slots.iter().map(|(fd, slot)| (*fd, slot))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (i32, &mut TableEntry)> {
        self.slots.iter_mut().map(|(fd, slot)| (*fd, slot))
    }
}
