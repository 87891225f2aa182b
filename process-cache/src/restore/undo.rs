//! Undoes established effects before one that fails.
//!
//! After a refused restore, the program must find the tree as it was. So replaced and removed
//! files are moved aside, under temporary names, until all effects are established. The old
//! content of a file that is written in place is kept in memory if it is short. A long one is
//! lost, and the error reports this ([`RestoreError::is_clean`]).

use std::collections::HashSet;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use rustix::fs::{AtFlags, CWD, FileType, RenameFlags, Timespec, Timestamps, UTIME_OMIT};
use tempfile::TempPath;

use super::files::{BUDGET, SMALL, names, open_for_writing, set_attribute, timestamps};
use super::{RestoreError, Result};
use crate::model::outcome::{Effect, Time};
use crate::model::path::FilePath;
use crate::world::attributes;

/// Undoes the effects so far.
pub(super) struct Undo<'a> {
    steps: Vec<Step>,
    times: DirTimes,
    /// Directories that effects remove: no file may be moved aside in them.
    removed: HashSet<&'a Path>,
    /// Bytes kept in memory.
    saved: u64,
    /// Whether everything can be undone.
    is_whole: bool,
}

enum Step {
    /// The name was free.
    Made(FilePath),
    /// The former file has this temporary name.
    Aside(FilePath, TempPath),
    /// The name was a directory.
    Removed(FilePath, Metadata),
    /// The same file had this attribute, or had none of this name.
    Attribute(FilePath, Vec<u8>, Option<Vec<u8>>),
    /// The same file had other metadata and this content.
    Changed(FilePath, Metadata, Before),
}

/// The former content of a changed file.
pub(super) enum Before {
    /// The content does not change.
    Same,
    /// The present content up to the former length.
    Start,
    /// In memory.
    Bytes(Vec<u8>),
}

impl<'a> Undo<'a> {
    /// Creates an undo log for effects that remove these directories. `times` are the times of
    /// directories before temporary files were made in them.
    pub(super) fn new(removed: HashSet<&'a Path>, times: DirTimes) -> Self {
        Self {
            steps: Vec::new(),
            times,
            removed,
            saved: 0,
            is_whole: true,
        }
    }

    /// Notes the state of a path that is about to change.
    pub(super) fn look(&mut self, path: &FilePath) -> Option<Metadata> {
        if let Some(parent) = path.parent() {
            self.times.remember(parent);
        }
        let found = fs::symlink_metadata(path).ok()?;
        if found.is_dir() {
            self.times.remember(path);
        }
        Some(found)
    }

    /// Notes a new file; the replaced one was moved aside.
    pub(super) fn made(
        &mut self,
        path: &FilePath,
        before: Option<&Metadata>,
        old: Option<TempPath>,
    ) {
        match (before, old) {
            // The file moved aside would prevent the removal of its directory.
            (_, Some(_)) if self.is_removed(path) => self.is_whole = false,
            (_, Some(old)) => self.steps.push(Step::Aside(path.clone(), old)),
            (None, None) => self.steps.push(Step::Made(path.clone())),
            (Some(_), None) => self.is_whole = false,
        }
    }

    /// Notes a change that keeps the inode.
    pub(super) fn change(&mut self, path: &FilePath, before: &Metadata, content: Before) {
        let (path, before) = (path.clone(), before.clone());
        self.steps.push(Step::Changed(path, before, content));
    }

    /// Notes that an attribute of this file is about to change.
    pub(super) fn attribute(&mut self, path: &FilePath, name: &[u8]) -> Result<()> {
        let old = attributes::value(path, name)
            .map_err(RestoreError::io("read an attribute of", path))?;
        let step = Step::Attribute(path.clone(), name.to_vec(), old);
        self.steps.push(step);
        Ok(())
    }

    /// Notes that this file is about to be written in place.
    pub(super) fn overwrite(&mut self, path: &FilePath, before: &Metadata) {
        let length = before.len();
        let mut bytes = Vec::new();
        if length > SMALL || self.saved + length > BUDGET {
            self.is_whole = false;
            return;
        }
        let mut options = File::options();
        options
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let mut read = || options.open(path)?.take(length).read_to_end(&mut bytes);
        if length > 0 && !read().is_ok_and(|count| count as u64 == length) {
            self.is_whole = false;
            return;
        }
        self.saved += length;
        self.change(path, before, Before::Bytes(bytes));
    }

    /// Removes a name that is no directory.
    pub(super) fn remove(&mut self, path: &FilePath, before: Option<&Metadata>) -> Result<()> {
        if before.is_some_and(|found| !found.is_dir())
            && let Some(aside) = self.aside(path)
        {
            self.steps.push(Step::Aside(path.clone(), aside));
            return Ok(());
        }
        gone(fs::remove_file(path.as_path())).map_err(RestoreError::io("remove", path))?;
        self.is_whole &= before.is_none();
        Ok(())
    }

    /// Moves a file aside, to a temporary name in a directory that is not removed.
    fn aside(&self, path: &FilePath) -> Option<TempPath> {
        let last = path.ancestors().filter(|dir| self.removed.contains(dir));
        let dir = last.last().unwrap_or(path).parent()?;
        let rename = |name: &Path| {
            let flags = RenameFlags::NOREPLACE;
            Ok(rustix::fs::renameat_with(
                CWD,
                path.as_path(),
                CWD,
                name,
                flags,
            )?)
        };
        let named = names().make_in(dir, rename).ok()?;
        Some(named.into_temp_path())
    }

    fn is_removed(&self, path: &Path) -> bool {
        !self.removed.is_empty()
            && path
                .ancestors()
                .skip(1)
                .any(|dir| self.removed.contains(dir))
    }

    /// Removes an empty directory.
    pub(super) fn remove_dir(&mut self, path: &FilePath, before: Option<&Metadata>) -> Result<()> {
        gone(fs::remove_dir(path.as_path())).map_err(RestoreError::io("remove", path))?;
        if let Some(before) = before {
            let step = Step::Removed(path.clone(), before.clone());
            self.steps.push(step);
        }
        Ok(())
    }

    /// Removes files moved aside: afterwards, not everything can be undone.
    pub(super) fn settle(&mut self) {
        let is_aside = |step: &Step| matches!(step, Step::Aside(..));
        self.is_whole &= !self.steps.iter().any(is_aside);
        self.steps.retain(|step| !is_aside(step));
    }

    /// Undoes all that can be undone, the last first. Returns whether that is everything.
    pub(super) fn take_back(mut self) -> bool {
        for step in self.steps.drain(..).rev() {
            self.is_whole &= step.take_back().is_ok();
        }
        self.times.restore();
        self.is_whole
    }
}

impl Step {
    fn take_back(self) -> io::Result<()> {
        match self {
            Self::Made(path) => match fs::symlink_metadata(&path)?.is_dir() {
                true => fs::remove_dir(path.as_path()),
                false => fs::remove_file(path.as_path()),
            },
            Self::Aside(path, old) => {
                let renamed = fs::rename(&old, path.as_path());
                if renamed.is_err() {
                    // A file under the temporary name is better than a lost file.
                    let _ = old.keep();
                }
                renamed
            }
            Self::Removed(path, before) => {
                fs::create_dir(path.as_path())?;
                fs::set_permissions(path.as_path(), before.permissions())
            }
            Self::Attribute(path, name, value) => {
                set_attribute(&path, &name, value.as_deref()).map_err(io::Error::other)
            }
            Self::Changed(path, before, content) => take_back_change(&path, &before, &content),
        }
    }
}

fn take_back_change(path: &FilePath, before: &Metadata, content: &Before) -> io::Result<()> {
    let open = || open_for_writing(path, true).map_err(io::Error::other);
    match content {
        Before::Same => {}
        Before::Start => open()?.set_len(before.len())?,
        Before::Bytes(bytes) => {
            let mut file = open()?;
            file.write_all(bytes)?;
            file.set_len(before.len())?;
        }
    }
    let mode = before.mode();
    if !before.is_symlink() && fs::symlink_metadata(path)?.mode() != mode {
        fs::set_permissions(path.as_path(), fs::Permissions::from_mode(mode & 0o7777))?;
    }
    if before.is_dir() {
        // Later undo steps change the times again: they are set last.
        return Ok(());
    }
    let ns = |s: i64, ns: i64| Some(i128::from(s) * 1_000_000_000 + i128::from(ns));
    let accessed = ns(before.atime(), before.atime_nsec());
    let times = timestamps(Time::Set(accessed, ns(before.mtime(), before.mtime_nsec())));
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    Ok(rustix::fs::utimensat(CWD, path.as_path(), &times, flags)?)
}

/// Directories whose entries change, with their earlier times.
#[derive(Default)]
pub(super) struct DirTimes(FxHashMap<PathBuf, Timestamps>);

impl DirTimes {
    /// Stores the present time of a directory, unless it is stored already.
    pub(super) fn remember(&mut self, dir: &Path) {
        if !self.0.contains_key(dir)
            && let Ok(stat) = rustix::fs::stat(dir)
            && FileType::from_raw_mode(stat.st_mode) == FileType::Directory
        {
            let times = Timestamps {
                last_access: Timespec {
                    tv_sec: 0,
                    tv_nsec: UTIME_OMIT,
                },
                last_modification: Timespec {
                    tv_sec: stat.st_mtime,
                    tv_nsec: stat.st_mtime_nsec as _,
                },
            };
            self.0.insert(dir.to_owned(), times);
        }
    }

    /// Restores the times of the directories.
    pub(super) fn restore(&self) {
        for (dir, times) in &self.0 {
            let _ = rustix::fs::utimensat(CWD, dir, times, AtFlags::empty());
        }
    }
}

/// Returns the directories that effects remove.
pub(super) fn removed_dirs(effects: &[Effect]) -> HashSet<&Path> {
    let removed = effects.iter().filter_map(|effect| match effect {
        Effect::RemoveDir { path } => Some(path.as_path()),
        _ => None,
    });
    removed.collect()
}

fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(())
        }
        result => result,
    }
}
