//! Files in the memory of programs, and who changes them.
//!
//! A mapping shows what its file has *now*; one that is private, where its program has not
//! written to the page itself. So whoever changes a file changes the memory of all that have
//! mapped it. As long as somebody has, a file is *live*: it has one number, is kept open, and
//! each call that changes it is performed while its task has the turn of the one group that
//! all who have mapped it belong to by then; what has changed is logged right behind it.
//!
//! Of calls that do not stop, none changes a live file: the stub writes to descriptors only
//! that are known not to be of one. When a file becomes live, that is forgotten of all
//! descriptors that it has, while nobody who has one of them runs. It opens files that are
//! there with O_TRUNC only while nobody has anything mapped, and there is one process.
//!
//! Files of the system are none of these: nobody changes them in place.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::rc::{Rc, Weak};

use ptrace_async::event::Tid;
use ptrace_async::memory::Memory;
use ptrace_async::process::read_proc;
use rustc_hash::{FxHashMap, FxHashSet};

use super::scheduler::{self, Group};
use super::search::Lessons;
use super::sites::Sites;
use crate::buffer;
use crate::trace::Task;
use crate::trace::event::{FileNumber, Identity};

const PAGE: u64 = 4096;

/// What tells a file from others, while it is open somewhere: device and inode.
pub(super) type Key = (u64, u64);

/// The key of a file with this metadata, if it is one that has content.
pub(super) fn key(metadata: &fs::Metadata) -> Option<Key> {
    metadata.is_file().then(|| (metadata.dev(), metadata.ino()))
}

/// The memory of a process: which files it is of, and what is known of its code.
#[derive(Debug)]
pub(super) struct Space {
    group: Rc<Group>,
    sites: Rc<Sites>,
    /// Its tasks, and of what process each is.
    tasks: RefCell<Vec<(Task, Tid, Tid)>>,
    areas: RefCell<Vec<Area>>,
    /// Files that calls are about to map.
    coming: RefCell<Vec<Key>>,
    /// Files that it may write through mappings. They stay live as long as it is there: who
    /// maps a file piece by piece does not have it stored again for each.
    written: RefCell<FxHashSet<Key>>,
    /// What its tasks have learnt of places in its code.
    lessons: RefCell<Lessons>,
    /// Its tasks think that it can be dumped.
    is_dumpable: Cell<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Area {
    start: u64,
    end: u64,
    key: Key,
}

impl Space {
    /// One without files.
    pub(super) fn new(group: Rc<Group>, sites: Rc<Sites>) -> Self {
        Self {
            group,
            sites,
            tasks: RefCell::default(),
            areas: RefCell::default(),
            coming: RefCell::default(),
            written: RefCell::default(),
            lessons: RefCell::default(),
            is_dumpable: Cell::new(true),
        }
    }

    /// That of a child.
    pub(super) fn copy(&self, group: Rc<Group>, sites: Rc<Sites>) -> Self {
        Self {
            group,
            sites,
            tasks: RefCell::default(),
            areas: self.areas.clone(),
            coming: RefCell::default(),
            written: self.written.clone(),
            lessons: self.lessons.clone(),
            is_dumpable: self.is_dumpable.clone(),
        }
    }

    /// What is known of places in its code.
    pub(super) fn lessons(&self) -> &RefCell<Lessons> {
        &self.lessons
    }

    /// Whether its tasks think that it can be dumped.
    pub(super) fn is_dumpable(&self) -> bool {
        self.is_dumpable.get()
    }

    /// One of them chooses so.
    pub(super) fn choose_dumpable(&self, chosen: bool) {
        self.is_dumpable.set(chosen);
    }

    /// A task is there.
    pub(super) fn enter(&self, task: Task, process: Tid, tid: Tid) {
        let mut tasks = self.tasks.borrow_mut();
        tasks.retain(|(other, ..)| *other != task);
        tasks.push((task, process, tid));
    }

    /// It is not.
    pub(super) fn leave(&self, task: Task) {
        self.tasks.borrow_mut().retain(|(other, ..)| *other != task);
    }

    /// Its memory, if tasks other than this one are left, by each of them.
    pub(super) fn memory_for_others_than(&self, task: Task) -> Vec<(Tid, MemoryOf)> {
        let tasks = self.tasks.borrow();
        let others = tasks.iter().filter(|(other, ..)| *other != task);
        others
            .filter_map(|&(.., tid)| Some((tid, MemoryOf::open(tid).ok()?)))
            .collect()
    }

    /// A call is about to map a file, which counts from here on: others must not take it for
    /// nobody's meanwhile.
    pub(super) fn expect(&self, key: Key) {
        self.coming.borrow_mut().push(key);
    }

    /// It has, or has failed.
    pub(super) fn expected(&self, key: Key) {
        let mut coming = self.coming.borrow_mut();
        if let Some(at) = coming.iter().position(|other| *other == key) {
            coming.swap_remove(at);
        }
    }

    /// A file is mapped there.
    pub(super) fn add(&self, start: u64, length: u64, key: Key) {
        let end = page_up(start.saturating_add(length));
        self.areas.borrow_mut().push(Area { start, end, key });
    }

    /// A file is mapped that is written through the mapping.
    fn note_written(&self, key: Key) {
        self.written.borrow_mut().insert(key);
    }

    /// Nothing is mapped there any more: the files of which there is nothing left.
    pub(super) fn forget(&self, start: u64, length: u64) -> Vec<Key> {
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

    /// A mapping was moved, or changed its length (mremap(2)): the files of which there is
    /// nothing left.
    pub(super) fn moved(&self, args: &[u64; 6], to: u64) -> Vec<Key> {
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
    pub(super) fn has_files(&self, start: u64, length: u64) -> bool {
        let end = start.saturating_add(length);
        let areas = self.areas.borrow();
        areas
            .iter()
            .any(|area| area.start < end && start < area.end)
    }

    fn has(&self, key: Key) -> bool {
        self.written.borrow().contains(&key)
            || self.coming.borrow().contains(&key)
            || self.areas.borrow().iter().any(|area| area.key == key)
    }

    /// Nobody runs in it any more: its files.
    fn take(&self) -> Vec<Key> {
        let areas = self.areas.take();
        let mut keys: Vec<Key> = areas.iter().map(|area| area.key).collect();
        keys.extend(self.written.take());
        keys.extend(self.coming.take());
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    fn group(&self) -> Rc<Group> {
        scheduler::root(&self.group)
    }

    /// A task of each of its processes.
    fn processes(&self) -> Vec<Tid> {
        let mut tasks = self.tasks.borrow().clone();
        tasks.sort_by_key(|(_, process, _)| *process);
        tasks.dedup_by_key(|(_, process, _)| *process);
        tasks.into_iter().map(|(.., tid)| tid).collect()
    }

    /// Whether it has a descriptor by which the file can be written.
    fn may_write(&self, key: Key) -> bool {
        self.processes().into_iter().any(|task| {
            let Ok(open) = fs::read_dir(format!("/proc/{task}/fd")) else {
                return false;
            };
            open.filter_map(Result::ok).any(|entry| {
                let name = entry.file_name();
                is_of(&entry.path(), key)
                    && name
                        .to_str()
                        .is_none_or(|fd| flags(task, fd) & libc::O_ACCMODE != libc::O_RDONLY)
            })
        })
    }

    /// Its stub takes the file for one that it may write to no more.
    fn doubt(&self, key: Key) {
        if !self.sites.has_stub() {
            return;
        }
        for task in self.processes() {
            let Ok(memory) = MemoryOf::open(task) else {
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
pub(super) struct MemoryOf(fs::File);

impl MemoryOf {
    fn open(tid: Tid) -> io::Result<Self> {
        let mut options = fs::File::options();
        let file = options.read(true).write(true);
        Ok(Self(file.open(format!("/proc/{tid}/mem"))?))
    }

    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, address)
    }
}

impl Memory for MemoryOf {
    fn read(&self, address: u64, buffer: &mut [u8]) -> usize {
        self.0.read_at(buffer, address).unwrap_or(0)
    }
}

fn page_up(address: u64) -> u64 {
    address.saturating_add(PAGE - 1) & !(PAGE - 1)
}

fn is_of(path: &Path, file: Key) -> bool {
    fs::metadata(path).is_ok_and(|metadata| key(&metadata) == Some(file))
}

/// The flags of a descriptor (proc(5)); those of one that can do all, where they are not
/// known.
pub(super) fn flags(task: Tid, fd: &str) -> i32 {
    let text = read_proc(format!("/proc/{task}/fdinfo/{fd}")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    flags
        .and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok())
        .unwrap_or(libc::O_RDWR)
}

/// A file that somebody has mapped.
#[derive(Debug)]
struct Live {
    /// Its number; and others, of programs that have begun with it since it had changed.
    numbers: Vec<FileNumber>,
    file: fs::File,
    /// What it was when it was last looked at.
    seen: Identity,
    /// It has changed while it was mapped, or may through a mapping.
    changes: bool,
    /// It may be written through a mapping.
    is_written: bool,
}

/// The live files of a recording.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    live: RefCell<FxHashMap<Key, Live>>,
    spaces: RefCell<Vec<Weak<Space>>>,
    /// Files that are being changed by calls that have no descriptor of them, and by whom.
    changing: RefCell<Vec<(Key, Rc<Group>)>>,
}

/// How a live file is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) number: FileNumber,
    /// It does not have what it had when it got its number, or will not have.
    pub(super) changes: bool,
}

impl Mapped {
    /// There is a process with this memory.
    pub(super) fn begin(&self, space: &Rc<Space>) {
        let mut spaces = self.spaces.borrow_mut();
        spaces.retain(|space| space.strong_count() > 0);
        spaces.push(Rc::downgrade(space));
    }

    fn spaces(&self) -> Vec<Rc<Space>> {
        self.spaces
            .borrow()
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// Whether no file is live, and there is one memory only.
    pub(super) fn is_nothing(&self) -> bool {
        let spaces = self.spaces.borrow();
        let there = spaces.iter().filter(|space| space.strong_count() > 0);
        self.live.borrow().is_empty() && there.take(2).count() == 1
    }

    /// The file, if it is live.
    pub(super) fn find(&self, key: Key) -> Option<Known> {
        let live = self.live.borrow();
        let live = live.get(&key)?;
        Some(Known {
            number: *live.numbers.first()?,
            changes: live.changes,
        })
    }

    /// Another group than this one that has mapped the file.
    pub(super) fn another(&self, key: Key, than: &Rc<Group>) -> Option<Rc<Group>> {
        self.spaces()
            .iter()
            .filter(|space| space.has(key))
            .map(|space| space.group())
            .find(|group| !Rc::ptr_eq(group, than))
    }

    /// Another group than this one that may write the file at this moment.
    pub(super) fn writer(&self, key: Key, than: &Rc<Group>) -> Option<Rc<Group>> {
        let changing = self.changing.borrow();
        let changing = changing.iter().filter(|(changed, _)| *changed == key);
        let mut changing = changing.map(|(_, group)| scheduler::root(group));
        changing.find(|group| !Rc::ptr_eq(group, than)).or_else(|| {
            self.spaces()
                .iter()
                .map(|space| (space, space.group()))
                .filter(|(_, group)| !Rc::ptr_eq(group, than))
                .find(|(space, _)| space.may_write(key))
                .map(|(_, group)| group)
        })
    }

    /// A call is going to change a file by its name.
    pub(super) fn begin_change(&self, key: Key, group: Rc<Group>) {
        self.changing.borrow_mut().push((key, group));
    }

    /// It has.
    pub(super) fn end_change(&self, key: Key) {
        let mut changing = self.changing.borrow_mut();
        if let Some(at) = changing.iter().position(|(other, _)| *other == key) {
            changing.swap_remove(at);
        }
    }

    /// From now on no descriptor of the file is written to without a stop.
    pub(super) fn doubt(&self, key: Key) {
        for space in self.spaces() {
            space.doubt(key);
        }
    }

    /// A file becomes live, which is open.
    pub(super) fn add(&self, key: Key, number: FileNumber, file: fs::File, seen: Identity) {
        let live = Live {
            numbers: vec![number],
            file,
            seen,
            changes: false,
            is_written: false,
        };
        self.live.borrow_mut().insert(key, live);
    }

    /// A live file has another number as well, which means what it is now.
    pub(super) fn add_number(&self, key: Key, number: FileNumber) {
        if let Some(live) = self.live.borrow_mut().get_mut(&key)
            && !live.numbers.contains(&number)
        {
            live.numbers.push(number);
        }
    }

    /// A live file is mapped by `space`, to be written.
    pub(super) fn note_written(&self, key: Key, space: &Space) {
        if let Some(live) = self.live.borrow_mut().get_mut(&key) {
            live.is_written = true;
        }
        space.note_written(key);
    }

    /// A live file changes from now on: the numbers of which that is new.
    pub(super) fn note_changes(&self, key: Key) -> Vec<FileNumber> {
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
    pub(super) fn size(&self, key: Key) -> u64 {
        self.live
            .borrow()
            .get(&key)
            .map_or(0, |live| live.seen.size)
    }

    /// Looks at a live file: its numbers, itself, and how large it is.
    pub(super) fn look(&self, key: Key) -> Option<(Vec<FileNumber>, fs::File, u64)> {
        let mut live = self.live.borrow_mut();
        let live = live.get_mut(&key)?;
        live.seen = Identity::of(&live.file.metadata().ok()?);
        Some((
            live.numbers.clone(),
            live.file.try_clone().ok()?,
            live.seen.size,
        ))
    }

    /// Nobody may have the file mapped any more: then it is not live, and its numbers are
    /// told if somebody has changed it who is not recorded.
    pub(super) fn settle(&self, key: Key) -> Option<Outside> {
        if self.spaces().iter().any(|space| space.has(key)) {
            return None;
        }
        let live = self.live.borrow_mut().remove(&key)?;
        live.outside()
    }

    /// `space` has no tasks any more.
    pub(super) fn end(&self, space: &Space) -> Vec<Outside> {
        let keys = space.take();
        keys.into_iter()
            .filter_map(|key| self.settle(key))
            .collect()
    }
}

/// A live file that is not as those who are recorded left it.
#[derive(Debug)]
pub(super) struct Outside {
    pub(super) number: FileNumber,
    pub(super) file: fs::File,
    /// Its content may be what it was all the same.
    pub(super) may_be_same: bool,
}

impl Live {
    fn outside(self) -> Option<Outside> {
        let now = Identity::of(&self.file.metadata().ok()?);
        let is_same = now.size == self.seen.size
            // Who writes through a mapping changes the time whenever the kernel notices.
            && (self.is_written || now.modified == self.seen.modified);
        if is_same {
            return None;
        }
        Some(Outside {
            number: *self.numbers.first()?,
            may_be_same: now.size == self.seen.size && !self.changes,
            file: self.file,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Key = (1, 1);
    const TWO: Key = (1, 2);

    fn space(areas: &[(u64, u64, Key)]) -> Space {
        let space = Space::new(Rc::default(), Rc::default());
        for &(page, pages, key) in areas {
            space.add(page * PAGE, pages * PAGE, key);
        }
        space
    }

    fn pages(space: &Space) -> Vec<(u64, u64, Key)> {
        let areas = space.areas.borrow();
        let mut pages: Vec<_> = areas
            .iter()
            .map(|area| (area.start / PAGE, (area.end - area.start) / PAGE, area.key))
            .collect();
        pages.sort_unstable();
        pages
    }

    #[test]
    fn a_file_is_there_until_its_last_piece_is_gone() {
        let space = space(&[(0x10, 8, ONE)]);
        assert!(space.forget(0x12 * PAGE, 1).is_empty());
        assert_eq!(pages(&space), [(0x10, 2, ONE), (0x13, 5, ONE)]);
        assert!(space.forget(0x13 * PAGE, 9 * PAGE).is_empty());
        assert_eq!(space.forget(0, 0x100 * PAGE), [ONE]);
        assert!(!space.has(ONE));
    }

    #[test]
    fn a_file_that_is_about_to_be_mapped_is_somebodys() {
        let space = space(&[]);
        space.expect((1, 1));
        space.expect((1, 1));
        space.expected((1, 1));
        assert!(space.has((1, 1)));
        space.expected((1, 1));
        assert!(!space.has((1, 1)));
    }

    #[test]
    fn what_is_written_through_a_mapping_stays() {
        let space = space(&[(0x10, 1, ONE), (0x11, 1, TWO)]);
        space.note_written(ONE);
        assert_eq!(space.forget(0, 0x100 * PAGE), [TWO]);
        assert!(space.has(ONE));
        assert_eq!(space.take(), [ONE]);
    }

    #[test]
    fn what_is_moved_is_somewhere_else() {
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
