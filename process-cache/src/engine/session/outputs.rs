//! The state in which the units of a session left each name that they changed.
//!
//! A name is *unsettled* from a change by the session until its state is read. A settled name is
//! found in another state only if an outsider changed it, or if a write is in flight.

use std::cell::Cell;

use ptrace_async::event::Tid;
use rustc_hash::FxHashMap;
use rustix::fs::{FileType, Stat};

use super::write_watch::WriteWatch;
use crate::model::path::FilePath;
use crate::world::attributes;
use crate::world::locate::modified;

/// The identity and state of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileState {
    /// Device and inode.
    pub(crate) inode: (u64, u64),
    mode: u32,
    owner: (u32, u32),
    links: u64,
    size: i64,
    modified: i128,
    changed: i128,
    /// A hash of extended attributes and access lists: the change time does not always count.
    attributes: u64,
}

/// How much of two states is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compared {
    /// Everything.
    All,
    /// Everything but the change time, which the session itself may have changed: a name of the
    /// file was made or removed.
    ExceptChangeTime,
    /// Identity, length and permissions: the file system sets times later.
    ExceptTimes,
    /// Identity and permissions: the content is being written.
    Identity,
}

impl FileState {
    fn of(stat: &Stat, attributes: u64) -> Self {
        Self {
            inode: (stat.st_dev, stat.st_ino),
            mode: stat.st_mode,
            owner: (stat.st_uid, stat.st_gid),
            links: stat.st_nlink,
            size: stat.st_size,
            modified: modified(stat),
            changed: i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec),
            attributes,
        }
    }

    /// Reads the state of a name; `None` if there is no such file, or it cannot be examined.
    pub(crate) fn read(path: &FilePath) -> Option<Self> {
        let stat = rustix::fs::lstat(path.as_path()).ok()?;
        Some(Self::of(&stat, attributes::hash(path.as_path())))
    }

    fn has_content(&self) -> bool {
        matches!(
            FileType::from_raw_mode(self.mode),
            FileType::RegularFile | FileType::Symlink
        )
    }

    /// Whether two states may be those of one unchanged file. Entries of a directory change its
    /// times, and are names of their own. Devices change theirs when they are used.
    pub(crate) fn is_same(&self, other: &Self, compared: Compared) -> bool {
        let identity = |it: &Self| (it.inode, it.mode, it.owner, it.attributes);
        if identity(self) != identity(other) {
            return false;
        }
        if !self.has_content() || compared == Compared::Identity {
            return true;
        }
        if self.size != other.size || compared == Compared::ExceptTimes {
            return self.size == other.size;
        }
        // A hard link that somebody made or removed changes the change time alone.
        let is_linked = compared == Compared::ExceptChangeTime || self.links != other.links;
        self.modified == other.modified && (is_linked || self.changed == other.changed)
    }
}

/// Same as [`FileState::is_same`] for states of names.
pub(crate) fn is_same(
    one: Option<&FileState>,
    other: Option<&FileState>,
    compared: Compared,
) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => one.is_same(other, compared),
        _ => false,
    }
}

/// The state in which a name was left.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Left {
    /// The state, `None` for an absent file.
    pub(crate) state: Option<FileState>,
    /// Whether the session changed it after that.
    pub(crate) unsettled: bool,
    /// Whether the session has only written to the file after that.
    pub(crate) only_written: bool,
    /// Sequence number at which it was found in another state while a write may have been in
    /// flight.
    pub(crate) suspected: Option<u64>,
}

/// All names that the session changed.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    left: FxHashMap<FilePath, Left>,
    unsettled: Vec<FilePath>,
    /// Writes that a task makes until its next stop.
    in_flight: Vec<(Tid, FilePath)>,
    /// Closes of these files.
    pub(crate) watch: WriteWatch,
    /// Open files that were chosen to be compared.
    compared: Cell<usize>,
}

impl Outputs {
    /// Whether no name was changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Chooses `most` of `count` open files to be compared now: others each time, in turn.
    pub(crate) fn choose(&self, count: usize, most: usize) -> impl Iterator<Item = usize> {
        let most = most.min(count);
        let first = self.compared.get();
        self.compared.set(first.wrapping_add(most));
        (first..).take(most).map(move |index| index % count)
    }

    /// Returns the state in which a name was left.
    pub(crate) fn left(&self, path: &FilePath) -> Option<&Left> {
        self.left.get(path)
    }

    /// Returns the state in which a name was left.
    pub(crate) fn left_mut(&mut self, path: &FilePath) -> Option<&mut Left> {
        self.left.get_mut(path)
    }

    /// Notes that the session has changed a name, or writes to it. `mark` belongs to a call that
    /// was in flight earlier.
    pub(crate) fn touch(&mut self, path: &FilePath, is_write: bool, mark: Option<u64>) {
        if !self.left.contains_key(path) {
            self.left.insert(path.clone(), Left::default());
        }
        let Some(left) = self.left.get_mut(path) else {
            return;
        };
        let known = left.state.is_some() || left.unsettled;
        left.only_written = is_write && known && (left.only_written || !left.unsettled);
        // The write had begun when the file was found changed.
        if is_write
            && left
                .suspected
                .zip(mark)
                .is_some_and(|(at, began)| began <= at)
        {
            left.suspected = None;
        }
        if !std::mem::replace(&mut left.unsettled, true) {
            self.unsettled.push(path.clone());
        }
    }

    /// Whether the session left a file in this state under another name.
    pub(crate) fn is_left_elsewhere(&self, path: &FilePath, state: &FileState) -> bool {
        let mut left = self.left.iter();
        state.links > 1
            && left.any(|(other, left)| {
                let same = left
                    .state
                    .as_ref()
                    .is_some_and(|it| it.inode == state.inode);
                same && other != path && (left.unsettled || left.state.as_ref() == Some(state))
            })
    }

    /// Notes that a name has moved with a directory above it, which changed nothing of its file.
    pub(crate) fn moved(&mut self, from: &FilePath, to: &FilePath) {
        let Some(left) = self.left.remove(from) else {
            return;
        };
        if left.unsettled {
            self.unsettled.push(to.clone());
        }
        self.left.insert(to.clone(), left);
        for (_, written) in &mut self.in_flight {
            if written == from {
                *written = to.clone();
            }
        }
    }

    /// Notes that everything below a directory has moved.
    pub(crate) fn touch_below(&mut self, directory: &FilePath) {
        let there = self.left.iter();
        let there = there.filter(|(_, left)| left.state.is_some() || left.unsettled);
        let below = there.filter(|(path, _)| path.is_below(directory));
        let paths: Vec<FilePath> = below.map(|(path, _)| path.clone()).collect();
        for path in paths {
            self.touch(&path, false, None);
        }
    }

    /// Notes that a task writes to a name until its next stop.
    pub(crate) fn begin_write(&mut self, tid: Tid, path: FilePath) {
        self.in_flight.push((tid, path));
    }

    /// Notes that a task makes no write now.
    pub(crate) fn end_writes(&mut self, tid: Tid) {
        self.in_flight.retain(|(writer, _)| *writer != tid);
    }

    /// Whether a task may be writing to a name.
    pub(crate) fn is_in_flight(&self, path: &FilePath) -> bool {
        self.in_flight.iter().any(|(_, written)| written == path)
    }

    /// Takes the names that are to be settled.
    pub(crate) fn take_unsettled(&mut self) -> Vec<FilePath> {
        let (later, now) = std::mem::take(&mut self.unsettled)
            .into_iter()
            .partition(|path| self.is_in_flight(path));
        self.unsettled = later;
        now
    }

    /// Whether no name is to be settled.
    pub(crate) fn is_settled(&self) -> bool {
        self.unsettled.is_empty()
    }
}
