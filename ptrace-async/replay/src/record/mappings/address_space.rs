//! An address space: the files that are mapped there, its tasks, and hints about its code.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

use ptrace_async::event::Tid;
use ptrace_async::memory::Memory;
use rustc_hash::FxHashSet;

use crate::buffer;
use crate::record::descriptors::{self, FileKey};
use crate::record::scheduler::{self, Scheduler};
use crate::record::search::PointHints;
use crate::record::sites::{MappingChange, Sites};
use crate::trace::Task;

const PAGE: u64 = 4096;

/// The memory of a process: which files it is of, and what is known of its code.
#[derive(Debug)]
pub(in crate::record) struct AddressSpace {
    scheduler: Rc<Scheduler>,
    sites: Rc<Sites>,
    /// Its tasks, and of what process each is.
    tasks: RefCell<Vec<(Task, Tid, Tid)>>,
    areas: RefCell<Vec<Area>>,
    /// Files that calls are about to map.
    coming: RefCell<Vec<FileKey>>,
    /// Files that it may write through mappings. They stay live as long as it is there: who
    /// maps a file piece by piece does not have it stored again for each.
    written: RefCell<FxHashSet<FileKey>>,
    /// Hints for execution points in its code.
    point_hints: RefCell<PointHints>,
    /// The dumpable setting that its tasks see.
    is_dumpable: Cell<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Area {
    start: u64,
    end: u64,
    key: FileKey,
}

impl AddressSpace {
    /// One without files.
    pub(in crate::record) fn new(scheduler: Rc<Scheduler>, sites: Rc<Sites>) -> Self {
        Self {
            scheduler,
            sites,
            tasks: RefCell::default(),
            areas: RefCell::default(),
            coming: RefCell::default(),
            written: RefCell::default(),
            point_hints: RefCell::default(),
            is_dumpable: Cell::new(true),
        }
    }

    /// The address space of a forked child.
    pub(in crate::record) fn copy(&self, scheduler: Rc<Scheduler>, sites: Rc<Sites>) -> Self {
        Self {
            scheduler,
            sites,
            tasks: RefCell::default(),
            areas: self.areas.clone(),
            coming: RefCell::default(),
            written: self.written.clone(),
            point_hints: self.point_hints.clone(),
            is_dumpable: self.is_dumpable.clone(),
        }
    }

    /// Hints for execution points in its code.
    pub(in crate::record) fn point_hints(&self) -> &RefCell<PointHints> {
        &self.point_hints
    }

    /// The dumpable setting that its tasks see.
    pub(in crate::record) fn is_dumpable(&self) -> bool {
        self.is_dumpable.get()
    }

    /// Changes the dumpable setting.
    pub(in crate::record) fn set_dumpable(&self, affinities: bool) {
        self.is_dumpable.set(affinities);
    }

    /// A task enters.
    pub(in crate::record) fn enter(&self, task: Task, process: Tid, tid: Tid) {
        let mut tasks = self.tasks.borrow_mut();
        tasks.retain(|(other, ..)| *other != task);
        tasks.push((task, process, tid));
    }

    /// A task leaves.
    pub(in crate::record) fn leave(&self, task: Task) {
        self.tasks.borrow_mut().retain(|(other, ..)| *other != task);
    }

    /// Its memory, if tasks other than this one are left, by each of them.
    pub(in crate::record) fn memory_for_others_than(&self, task: Task) -> Vec<(Tid, TaskMemory)> {
        let tasks = self.tasks.borrow();
        let others = tasks.iter().filter(|(other, ..)| *other != task);
        others
            .filter_map(|&(.., tid)| Some((tid, TaskMemory::open(tid).ok()?)))
            .collect()
    }

    /// A call is about to map a file, which counts from here on: others must not take it for
    /// nobody's meanwhile.
    pub(in crate::record) fn expect(&self, key: FileKey) {
        self.coming.borrow_mut().push(key);
    }

    /// A call has mapped a file, or has failed.
    pub(in crate::record) fn expected(&self, key: FileKey) {
        let mut coming = self.coming.borrow_mut();
        if let Some(at) = coming.iter().position(|other| *other == key) {
            coming.swap_remove(at);
        }
    }

    /// Adds a mapping of a file.
    pub(in crate::record) fn add(&self, start: u64, length: u64, key: FileKey) {
        let end = page_up(start.saturating_add(length));
        self.areas.borrow_mut().push(Area { start, end, key });
    }

    /// A file is mapped that is written through the mapping.
    pub(super) fn note_written(&self, key: FileKey) {
        self.written.borrow_mut().insert(key);
    }

    /// Removes a range: the files of which nothing is left.
    pub(in crate::record) fn forget(&self, start: u64, length: u64) -> Vec<FileKey> {
        let end = page_up(start.saturating_add(length));
        let mut areas = self.areas.borrow_mut();
        let is_there = |area: &Area| area.start < end && start < area.end;
        if length == 0 || !areas.iter().any(is_there) {
            return Vec::new();
        }
        let mut gone = Vec::new();
        let mut left = Vec::with_capacity(areas.len() + 1);
        for area in areas.drain(..) {
            if !is_there(&area) {
                left.push(area);
                continue;
            }
            gone.push(area.key);
            if area.start < start {
                let end = start;
                left.push(Area { end, ..area });
            }
            if end < area.end {
                let start = end;
                left.push(Area { start, ..area });
            }
        }
        *areas = left;
        drop(areas);
        gone.sort_unstable();
        gone.dedup();
        gone.retain(|key| !self.has(*key));
        gone
    }

    /// Follows changes that calls without a stop have made: the files of which nothing is left
    /// at the time of each.
    pub(in crate::record) fn apply(&self, changes: &[MappingChange]) -> Vec<FileKey> {
        let mut gone = Vec::new();
        for &MappingChange { start, length, key } in changes {
            gone.append(&mut self.forget(start, length));
            if let Some(key) = key {
                self.add(start, length, key);
            }
        }
        gone
    }

    /// A mapping was moved, or changed its length (mremap(2)): the files of which there is
    /// nothing left.
    pub(in crate::record) fn moved(&self, args: &[u64; 6], to: u64) -> Vec<FileKey> {
        let [from, old, new, flags, ..] = *args;
        let piece = {
            let areas = self.areas.borrow();
            let here = |area: &&Area| (area.start..area.end).contains(&from);
            areas.iter().find(here).copied()
        };
        let stays = flags as i32 & libc::MREMAP_DONTUNMAP != 0;
        let mut gone = Vec::new();
        if !stays {
            gone.extend(self.forget(from, old));
        }
        gone.extend(self.forget(to, new));
        if let Some(piece) = piece {
            self.add(to, new, piece.key);
            gone.retain(|key| *key != piece.key);
        }
        gone
    }

    /// Whether files are mapped there.
    pub(in crate::record) fn has_files(&self, start: u64, length: u64) -> bool {
        let end = start.saturating_add(length);
        let areas = self.areas.borrow();
        areas
            .iter()
            .any(|area| area.start < end && start < area.end)
    }

    pub(super) fn has(&self, key: FileKey) -> bool {
        self.written.borrow().contains(&key)
            || self.coming.borrow().contains(&key)
            || self.areas.borrow().iter().any(|area| area.key == key)
    }

    /// Takes all files of an address space that no task runs in any more.
    pub(super) fn take(&self) -> Vec<FileKey> {
        let areas = self.areas.take();
        let mut keys: Vec<FileKey> = areas.iter().map(|area| area.key).collect();
        keys.extend(self.written.take());
        keys.extend(self.coming.take());
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    pub(super) fn scheduler(&self) -> Rc<Scheduler> {
        scheduler::root(&self.scheduler)
    }

    /// A task of each of its processes.
    fn processes(&self) -> Vec<Tid> {
        let mut tasks = self.tasks.borrow().clone();
        tasks.sort_by_key(|(_, process, _)| *process);
        tasks.dedup_by_key(|(_, process, _)| *process);
        tasks.into_iter().map(|(.., tid)| tid).collect()
    }

    /// Whether it has a descriptor by which the file can be written.
    pub(super) fn may_write(&self, key: FileKey) -> bool {
        self.processes().into_iter().any(|task| {
            let Ok(open) = fs::read_dir(format!("/proc/{task}/fd")) else {
                return false;
            };
            open.filter_map(Result::ok).any(|entry| {
                let name = entry.file_name();
                let fd = name.to_str().and_then(|name| name.parse().ok());
                let flags = fd.and_then(|fd| descriptors::flags(task, fd));
                is_of(&entry.path(), key)
                    && flags.is_none_or(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY)
            })
        })
    }

    /// Its stub takes the file for one that it may write to no more.
    pub(super) fn forget_hidden(&self, key: FileKey) {
        if !self.sites.has_stub() {
            return;
        }
        for task in self.processes() {
            let Ok(memory) = TaskMemory::open(task) else {
                continue;
            };
            let mut table = [0; buffer::DESCRIPTORS as usize];
            if memory
                .read_exact(buffer::descriptors(), &mut table)
                .is_err()
            {
                continue;
            }
            for (fd, known) in table.iter().enumerate() {
                let path = format!("/proc/{task}/fd/{fd}");
                if known & buffer::HIDDEN != 0 && is_of(Path::new(&path), key) {
                    let at = buffer::descriptors() + fd as u64;
                    let _ = memory.write(at, &[known & !buffer::HIDDEN]);
                }
            }
        }
    }
}

/// The memory of a task that may run.
pub(in crate::record) struct TaskMemory(fs::File);

impl TaskMemory {
    fn open(tid: Tid) -> io::Result<Self> {
        let mut options = fs::File::options();
        let file = options.read(true).write(true);
        Ok(Self(file.open(format!("/proc/{tid}/mem"))?))
    }

    pub(in crate::record) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, address)
    }
}

impl Memory for TaskMemory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> usize {
        self.0.read_at(buffer, address).unwrap_or(0)
    }
}

fn page_up(address: u64) -> u64 {
    address.saturating_add(PAGE - 1) & !(PAGE - 1)
}

fn is_of(path: &Path, file: FileKey) -> bool {
    fs::metadata(path).is_ok_and(|metadata| descriptors::key(&metadata) == Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: FileKey = (1, 1);
    const TWO: FileKey = (1, 2);

    fn space(areas: &[(u64, u64, FileKey)]) -> AddressSpace {
        let space = AddressSpace::new(Rc::default(), Rc::default());
        for &(page, pages, key) in areas {
            space.add(page * PAGE, pages * PAGE, key);
        }
        space
    }

    fn pages(space: &AddressSpace) -> Vec<(u64, u64, FileKey)> {
        let areas = space.areas.borrow();
        let mut pages: Vec<_> = areas
            .iter()
            .map(|area| (area.start / PAGE, (area.end - area.start) / PAGE, area.key))
            .collect();
        pages.sort_unstable();
        pages
    }

    #[test]
    fn a_file_is_mapped_until_its_last_piece_is_unmapped() {
        let space = space(&[(0x10, 8, ONE)]);
        assert!(space.forget(0x12 * PAGE, 1).is_empty());
        assert_eq!(pages(&space), [(0x10, 2, ONE), (0x13, 5, ONE)]);
        assert!(space.forget(0x13 * PAGE, 9 * PAGE).is_empty());
        assert_eq!(space.forget(0, 0x100 * PAGE), [ONE]);
        assert!(!space.has(ONE));
    }

    #[test]
    fn a_file_that_is_about_to_be_mapped_counts_as_mapped() {
        let space = space(&[]);
        space.expect((1, 1));
        space.expect((1, 1));
        space.expected((1, 1));
        assert!(space.has((1, 1)));
        space.expected((1, 1));
        assert!(!space.has((1, 1)));
    }

    #[test]
    fn a_file_written_through_a_mapping_stays_live() {
        let space = space(&[(0x10, 1, ONE), (0x11, 1, TWO)]);
        space.note_written(ONE);
        assert_eq!(space.forget(0, 0x100 * PAGE), [TWO]);
        assert!(space.has(ONE));
        assert_eq!(space.take(), [ONE]);
    }

    #[test]
    fn a_moved_mapping_has_a_new_address() {
        let move_to = |flags: i32, old: u64, new: u64| {
            let space = space(&[(0x10, 2, ONE), (0x40, 1, TWO)]);
            let args = [0x10 * PAGE, old * PAGE, new * PAGE, flags as u64, 0, 0];
            let gone = space.moved(&args, 0x40 * PAGE);
            (gone, pages(&space))
        };
        let (gone, left) = move_to(libc::MREMAP_MAYMOVE, 2, 4);
        assert_eq!((gone, left), (vec![TWO], vec![(0x40, 4, ONE)]));
        let (_, left) = move_to(libc::MREMAP_DONTUNMAP, 2, 2);
        assert_eq!(left, [(0x10, 2, ONE), (0x40, 2, ONE)]);
        // A second mapping of what is shared.
        let (_, left) = move_to(libc::MREMAP_MAYMOVE, 0, 2);
        assert_eq!(left, [(0x10, 2, ONE), (0x40, 2, ONE)]);
    }
}
