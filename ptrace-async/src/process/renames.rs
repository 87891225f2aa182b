//! Keeping stored paths true when files and directories move.
//!
//! Descriptions and working directories are stored by path. Stored paths at or below a
//! renamed name are found by comparing names. A directory that was reached through a
//! symbolic link is found by asking the kernel, which is only done after a directory moved.
//! A directory that was renamed by a path through itself (`../here`) leaves no path to it;
//! then the kernel is asked about all directories.

use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::model::Processes;
use super::table::Table;
use super::{paths, proc};
use crate::event::{OfdId, OpenFile, PathRef};

impl Processes {
    /// Gives a description another path in all tables.
    pub(super) fn repath(&mut self, id: OfdId, path: &Path) {
        self.replace_paths(|_, file| (file.id == id).then(|| path.to_owned()));
    }

    /// After a successful rename: the stored paths at and below the names move.
    pub(super) fn renamed(&mut self, from: &PathRef, to: &PathRef, exchange: bool) {
        let (from, to) = (from.path.as_path(), to.path.as_path());
        let new_path = |path: &Path| {
            let there = paths::moved(path, from, to);
            there.or_else(|| exchange.then(|| paths::moved(path, to, from)).flatten())
        };
        self.replace_paths(|_, file| new_path(file.path.as_deref()?));
        for location in self.locations.values_mut() {
            for path in [&mut location.cwd, &mut location.root] {
                if let Some(moved) = new_path(path) {
                    *path = moved;
                }
            }
        }
        // A directory may also have been opened by another name, through a
        // link: only the kernel knows whether it lies below this one.
        let is_directory = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_dir());
        if is_directory(to) || exchange && is_directory(from) {
            self.follow_moves(to);
            if exchange {
                self.follow_moves(from);
            }
        } else if (leads_upwards(from) || leads_upwards(to)) && to.symlink_metadata().is_err() {
            self.follow_all_moves();
        }
    }

    /// Takes from `/proc` the paths of directories and files that are not at the known ones.
    fn follow_all_moves(&mut self) {
        let mut moved: FxHashMap<OfdId, PathBuf> = FxHashMap::default();
        for (tid, task) in &self.tasks {
            let table = self.tables.get(task.files);
            for (fd, slot) in table.into_iter().flat_map(Table::iter) {
                let (id, known) = (slot.file.id, slot.file.path.as_deref());
                let link = format!("/proc/{tid}/fd/{fd}");
                if !moved.contains_key(&id)
                    && known.is_some_and(|known| proc::is_elsewhere(&link, known))
                    && let Some(now) = proc::descriptor_path(*tid, fd)
                {
                    moved.insert(id, now);
                }
            }
            if let Some(location) = self.locations.get_mut(task.location)
                && proc::is_elsewhere(&format!("/proc/{tid}/cwd"), &location.cwd)
                && let Ok(now) = proc::cwd(*tid)
                && !proc::is_deleted(&now)
            {
                location.cwd = now;
            }
        }
        self.replace_paths(|_, file| moved.get(&file.id).cloned());
    }

    /// Takes from `/proc` the paths that now lie below the directory `to`.
    fn follow_moves(&mut self, to: &Path) {
        let Ok(to) = to.canonicalize() else { return };
        let mut moved: FxHashMap<OfdId, PathBuf> = FxHashMap::default();
        for (tid, task) in &self.tasks {
            let table = self.tables.get(task.files);
            for (fd, slot) in table.into_iter().flat_map(Table::iter) {
                let (id, known) = (slot.file.id, slot.file.path.as_deref());
                if moved.contains_key(&id) || known.is_none_or(|path| path.starts_with(&to)) {
                    continue;
                }
                let now = proc::descriptor_path(*tid, fd);
                if let Some(now) = now.filter(|now| now.starts_with(&to)) {
                    moved.insert(id, now);
                }
            }
            if let Some(location) = self.locations.get_mut(task.location)
                && let Ok(now) = proc::cwd(*tid)
                && now.starts_with(&to)
                && !proc::is_deleted(&now)
            {
                location.cwd = now;
            }
        }
        self.replace_paths(|_, file| moved.get(&file.id).cloned());
    }

    /// Replaces descriptions whose path changes; `new_path` sees each one.
    fn replace_paths(&mut self, mut new_path: impl FnMut(i32, &OpenFile) -> Option<PathBuf>) {
        let mut replaced: FxHashMap<OfdId, Rc<OpenFile>> = FxHashMap::default();
        for table in self.tables.values_mut() {
            for (fd, slot) in table.iter_mut() {
                if let Some(file) = replaced.get(&slot.file.id) {
                    slot.file = Rc::clone(file);
                } else if let Some(path) = new_path(fd, &slot.file) {
                    let old = &slot.file;
                    let file = Rc::new(OpenFile {
                        id: old.id,
                        kind: old.kind.clone(),
                        path: Some(path),
                        readable: old.readable,
                        writable: old.writable,
                        path_only: old.path_only,
                        append: old.append.clone(),
                        nonblocking: old.nonblocking.clone(),
                        creator: old.creator,
                    });
                    replaced.insert(old.id, Rc::clone(&file));
                    slot.file = file;
                }
            }
        }
    }
}

/// Whether a path has a component `..`, which may lead through the renamed directory itself.
fn leads_upwards(path: &Path) -> bool {
    path.components().any(|part| part == Component::ParentDir)
}
