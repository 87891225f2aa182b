//! Counts how often files were closed after having been open for writing, by any process.
//!
//! The kernel's change times tell that a file changed, but not whether one of two changes in a row
//! was somebody else's. inotify(7) reports each close of a description that could write. More
//! closes than the traced processes made are closes by others.
//!
//! Equal events in a row are reported once. So the directory is watched too: each close is reported
//! for the directory and for the file, in turn, and no two events in a row are equal. Where the
//! directory cannot be watched, the count may be too low; it is never too high.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

use crate::model::path::FilePath;

/// Counts closes of watched files.
#[derive(Debug, Default)]
pub(crate) struct WriteWatch {
    /// The queue of events, once it was asked for.
    queue: Option<OwnedFd>,
    /// Whether no queue can be had, or events were lost.
    blind: bool,
    files: FxHashMap<i32, Watched>,
    /// The watch of each name.
    names: FxHashMap<FilePath, i32>,
    /// Directories that are watched, or cannot be.
    directories: FxHashSet<FilePath>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Watched {
    /// Times that the session opened it for writing.
    opened: u32,
    /// Closes by anybody.
    closed: u32,
    /// Whether the session opened it in a way that was not counted.
    uncounted: bool,
    /// Whether it has lost its last name.
    gone: bool,
}

impl WriteWatch {
    /// Notes that a traced process has just opened a file for writing.
    pub(crate) fn opened(&mut self, path: &FilePath) {
        if self.blind {
            return;
        }
        if self.queue.is_none() {
            self.queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        }
        let Some(queue) = &self.queue else {
            self.blind = true;
            return;
        };
        let events = WatchFlags::CLOSE_WRITE;
        if let Some(directory) = path.parent().map(FilePath::from)
            && !self.directories.contains(&directory)
        {
            let _ = inotify::add_watch(queue, directory.as_path(), events);
            self.directories.insert(directory);
        }
        match inotify::add_watch(queue, path.as_path(), events) {
            Ok(watch) => {
                self.drain();
                self.files.entry(watch).or_default().opened += 1;
                self.names.insert(path.clone(), watch);
            }
            // Its opens are unknown from now on.
            Err(_) => self.forget(path),
        }
    }

    /// Notes that the session itself may have opened a file in a way that is not counted.
    pub(crate) fn forget(&mut self, path: &FilePath) {
        if let Some(watch) = self.names.get(path) {
            self.files.entry(*watch).or_default().uncounted = true;
        }
    }

    /// Notes that a traced process has given a file another name.
    pub(crate) fn renamed(&mut self, from: &FilePath, to: &FilePath) {
        self.names.remove(to);
        if let Some(watch) = self.names.remove(from) {
            self.names.insert(to.clone(), watch);
        }
    }

    /// Notes that a traced process has given a directory another name.
    pub(crate) fn renamed_directory(&mut self, from: &FilePath, to: &FilePath) {
        let moved: Vec<(FilePath, i32)> = self
            .names
            .extract_if(|path, _| path.is_below(from))
            .collect();
        for (path, watch) in moved {
            if let Some(new) = path.moved(from, to) {
                self.names.insert(new, watch);
            }
        }
    }

    /// Notes that a traced process has removed a name.
    pub(crate) fn removed(&mut self, path: &FilePath) {
        self.names.remove(path);
    }

    /// Gives up: the session opened an unknown file.
    pub(crate) fn give_up(&mut self) {
        *self = Self {
            blind: true,
            ..Self::default()
        };
    }

    /// Whether somebody else has closed this file after it was open for writing, or has removed it,
    /// perhaps to make another one with the same inode number; `held` is the number of descriptions
    /// that the session still has open for writing.
    pub(crate) fn closed_by_others(&mut self, path: &FilePath, held: u32) -> bool {
        let Some(watch) = self.names.get(path).copied() else {
            return false;
        };
        self.drain();
        let file = self.files.get(&watch).copied().unwrap_or_default();
        let closed = !file.uncounted && file.closed > file.opened.saturating_sub(held);
        !self.blind && (closed || file.gone)
    }

    /// Reads all events.
    pub(crate) fn drain(&mut self) {
        let Some(queue) = &self.queue else { return };
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut events = Reader::new(queue, &mut buffer);
        let mut lost = false;
        while let Ok(event) = events.next() {
            let what = event.events();
            lost |= what.contains(ReadFlags::QUEUE_OVERFLOW);
            if let Some(file) = self.files.get_mut(&event.wd()) {
                file.closed += u32::from(what.contains(ReadFlags::CLOSE_WRITE));
                // The watch ended with the file.
                file.gone |= what.contains(ReadFlags::IGNORED);
            }
        }
        if lost {
            self.give_up();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use super::*;

    fn writes(path: &FilePath) -> std::fs::File {
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(b"x").unwrap();
        file
    }

    #[test]
    fn a_close_by_somebody_else_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = FilePath::from(directory.path().join("f"));
        std::fs::write(&path, "").unwrap();
        let mut watch = WriteWatch::default();
        let mut own = writes(&path);
        watch.opened(&path);
        assert!(!watch.closed_by_others(&path, 1));
        drop(writes(&path));
        assert!(watch.closed_by_others(&path, 1));
        // Right before the own close, and without a write in between.
        own.write_all(b"y").unwrap();
        drop(own);
        assert!(watch.closed_by_others(&path, 0));
        watch.forget(&path);
        assert!(!watch.closed_by_others(&path, 0));
    }

    #[test]
    fn a_file_that_somebody_else_removed_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = FilePath::from(directory.path().join("f"));
        let other = FilePath::from(directory.path().join("g"));
        let mut watch = WriteWatch::default();
        std::fs::write(&path, "").unwrap();
        drop(writes(&path));
        watch.opened(&path);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        assert!(watch.closed_by_others(&path, 0));
        // The session removed it itself, under another name.
        watch.renamed(&path, &other);
        watch.removed(&other);
        assert!(!watch.closed_by_others(&path, 0));
        assert!(!watch.closed_by_others(&other, 0));
    }

    #[test]
    fn own_closes_and_readers_are_nobody_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = FilePath::from(directory.path().join("f"));
        std::fs::write(&path, "").unwrap();
        let mut watch = WriteWatch::default();
        for _ in 0..3 {
            let own = writes(&path);
            watch.opened(&path);
            std::fs::read(&path).unwrap();
            drop(own);
            assert!(!watch.closed_by_others(&path, 0));
        }
    }
}
