//! A plan of the tree at each step, on top of the existing tree.
//!
//! Only kinds matter: the prepare phase has to know whether a directory will exist at each step,
//! and whether a name is free, a file, or in the way.

use std::path::{Path, PathBuf};

use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::{Access, AtFlags, CWD, FileType, Stat};
use rustix::io::Errno;

use super::{RestoreError, Result};
use crate::model::outcome::Effect;
use crate::model::path::FilePath;
use crate::world::attributes;

/// The kind of file at a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Absent,
    File,
    Directory,
    Symlink,
    /// A device, FIFO or socket.
    Special,
}

/// Whether, and from when, entries can be made in an existing directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writable {
    Already,
    /// After an effect has set its permissions.
    Then,
    Never,
}

#[derive(Default)]
pub(super) struct PlannedTree {
    /// Names that the planned effects have changed.
    changed: FxHashMap<PathBuf, Kind>,
    /// Existing directories, with their writability.
    writable: FxHashMap<PathBuf, Writable>,
    /// Files with several names that were written through one of them.
    written: FxHashSet<(u64, u64)>,
    /// Existing files with several names that are changed, each with the name that an effect has.
    several: FxHashMap<(u64, u64), FilePath>,
}

impl PlannedTree {
    /// Returns the kind of file that will be at a path, and its metadata if it exists now.
    fn look(&self, path: &FilePath) -> Result<(Kind, Option<Stat>)> {
        if let Some(&kind) = self.changed.get(path.as_path()) {
            return Ok((kind, None));
        }
        // A directory that was made or removed has only the entries in `changed`; the kernel would
        // look through the present file.
        let parent = path.parent();
        if parent.is_some_and(|parent| self.changed.contains_key(parent)) {
            return Ok((Kind::Absent, None));
        }
        match rustix::fs::lstat(path.as_path()) {
            Ok(stat) => {
                let kind = match FileType::from_raw_mode(stat.st_mode) {
                    FileType::RegularFile => Kind::File,
                    FileType::Directory => Kind::Directory,
                    FileType::Symlink => Kind::Symlink,
                    _ => Kind::Special,
                };
                Ok((kind, Some(stat)))
            }
            Err(Errno::NOENT | Errno::NOTDIR) => Ok((Kind::Absent, None)),
            Err(error) => Err(RestoreError::io("look at", path)(error)),
        }
    }

    /// Checks that the directory of `path` will exist and be writable. Returns whether it is
    /// writable now.
    fn check_parent(&mut self, path: &FilePath) -> Result<bool> {
        let Some(parent) = path.parent() else {
            return Err(RestoreError::obstacle(path, "has no directory"));
        };
        if let Some(kind) = self.changed.get(parent) {
            return match kind {
                Kind::Directory => Ok(false),
                _ => Err(RestoreError::obstacle(path, "has no directory by then")),
            };
        }
        match self.writable(parent) {
            Writable::Already => Ok(true),
            Writable::Then => Ok(false),
            Writable::Never => Err(RestoreError::obstacle(
                path,
                "is not in a directory that can be written",
            )),
        }
    }

    fn writable(&mut self, dir: &Path) -> Writable {
        if let Some(&writable) = self.writable.get(dir) {
            return writable;
        }
        let writable = match is_writable_dir(dir) {
            true => Writable::Already,
            false => Writable::Never,
        };
        self.writable.insert(dir.to_owned(), writable);
        writable
    }

    /// Checks that the permissions of a directory can be set. Afterwards its owner can create
    /// entries if the mode permits it.
    fn chmod_dir(&mut self, path: &FilePath, stat: Option<&Stat>, mode: u32) -> Result<()> {
        let Some(stat) = stat.filter(|stat| stat.st_mode & 0o7777 != mode & 0o7777) else {
            return Ok(());
        };
        check_owned(path, stat)?;
        let wanted = libc::S_IWUSR | libc::S_IXUSR;
        if self.writable(path) == Writable::Never && mode & wanted == wanted {
            self.writable.insert(path.to_path_buf(), Writable::Then);
        }
        Ok(())
    }

    fn set(&mut self, path: &FilePath, kind: Kind) {
        self.changed.insert(path.to_path_buf(), kind);
    }

    /// Notes that an existing file is written, which changes it under all its names. Clears its
    /// metadata if it was written before.
    fn write(&mut self, path: &FilePath, stat: &mut Option<Stat>) {
        self.set(path, Kind::File);
        if let Some(found) = stat
            && !self.written.insert((found.st_dev, found.st_ino))
        {
            *stat = None;
        }
    }

    /// Checks that effects change an existing file under one name only. The unit may have changed
    /// two files, each as a whole, which are now one.
    fn check_only_name(&mut self, path: &FilePath, stat: Option<&Stat>) -> Result<()> {
        let Some(stat) = stat.filter(|stat| stat.st_nlink > 1) else {
            return Ok(());
        };
        let name = self.several.entry((stat.st_dev, stat.st_ino));
        match name.or_insert_with(|| path.clone()) == path {
            true => Ok(()),
            false => Err(RestoreError::obstacle(
                path,
                "is another name of a file that changes too",
            )),
        }
    }

    /// Whether a directory will have entries.
    fn has_entries(&self, path: &FilePath) -> Result<bool> {
        let changed = self
            .changed
            .iter()
            .any(|(name, kind)| *kind != Kind::Absent && name.parent() == Some(path.as_path()));
        if changed {
            return Ok(true);
        }
        if self.changed.contains_key(path.as_path()) {
            // An effect makes it.
            return Ok(false);
        }
        for entry in std::fs::read_dir(path.as_path()).map_err(RestoreError::io("list", path))? {
            let entry = entry.map_err(RestoreError::io("list", path))?;
            if self.changed.get(&path.join(entry.file_name())) != Some(&Kind::Absent) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Checks an effect against the plan and updates the plan. Returns the previous state of the
    /// path, and whether its directory is ready.
    pub(super) fn step(&mut self, effect: &Effect) -> Result<Step> {
        let path = effect.path();
        let (before, mut stat) = self.look(path)?;
        let wrong = |found| Err(RestoreError::obstacle(path, found));
        let mut parent_ready = true;
        if before == Kind::File
            && let Effect::Write { fresh: false, .. }
            | Effect::Append { .. }
            | Effect::Chmod { .. }
            | Effect::SetTimes { .. }
            | Effect::Attribute { .. } = effect
        {
            self.check_only_name(path, stat.as_ref())?;
        }
        match (effect, before) {
            (
                Effect::Write { .. }
                | Effect::Append { .. }
                | Effect::Symlink { .. }
                | Effect::HardLink { .. }
                | Effect::Remove { .. },
                Kind::Directory,
            ) => return wrong("is a directory"),
            (
                Effect::Write {
                    fresh: false, mode, ..
                },
                Kind::File,
            ) => {
                check_writable(path, stat.as_ref(), mode.is_some())?;
                self.write(path, &mut stat);
            }
            (Effect::Append { .. }, Kind::File) => {
                check_writable(path, stat.as_ref(), false)?;
                self.write(path, &mut stat);
            }
            (
                Effect::Write { fresh: false, .. } | Effect::Append { .. },
                Kind::Symlink | Kind::Special,
            ) => return wrong("is not a regular file"),
            (Effect::Write { .. } | Effect::Append { .. }, _) => {
                parent_ready = self.check_parent(path)?;
                self.set(path, Kind::File);
            }
            (Effect::MakeDir { .. }, Kind::Absent) => {
                self.check_parent(path)?;
                self.set(path, Kind::Directory);
            }
            (Effect::MakeDir { mode, .. }, Kind::Directory) => {
                self.chmod_dir(path, stat.as_ref(), *mode)?;
            }
            (Effect::MakeDir { .. }, _) => return wrong("is not a directory"),
            (Effect::Symlink { .. }, _) => {
                self.check_parent(path)?;
                self.set(path, Kind::Symlink);
            }
            (Effect::HardLink { to, .. }, _) => {
                self.check_parent(path)?;
                let (kind, mut target) = self.look(to)?;
                match kind {
                    Kind::Absent => return Err(RestoreError::obstacle(to, "is not there")),
                    Kind::Directory => return Err(RestoreError::obstacle(to, "is a directory")),
                    kind => self.set(path, kind),
                }
                if kind == Kind::File {
                    // From now on it may be written through another name.
                    self.write(to, &mut target);
                }
            }
            (Effect::Remove { .. }, Kind::Absent) | (Effect::RemoveDir { .. }, Kind::Absent) => {}
            (Effect::Remove { .. }, _) => {
                self.check_parent(path)?;
                self.set(path, Kind::Absent);
            }
            (Effect::RemoveDir { .. }, Kind::Directory) => {
                if self.has_entries(path)? {
                    return wrong("is not empty");
                }
                self.check_parent(path)?;
                self.set(path, Kind::Absent);
            }
            (Effect::RemoveDir { .. }, _) => return wrong("is not a directory"),
            (effect, _) if effect.follows_from_others() => {}
            (
                Effect::Chmod { .. } | Effect::SetTimes { .. } | Effect::Attribute { .. },
                Kind::Absent,
            ) => {
                return wrong("is not there");
            }
            (Effect::Chmod { .. } | Effect::Attribute { .. }, Kind::Symlink) => {
                return wrong("is a symbolic link");
            }
            // The entries of the directory stay.
            (Effect::Chmod { mode, .. }, Kind::Directory) => {
                self.chmod_dir(path, stat.as_ref(), *mode)?;
            }
            // Its earlier writability no longer counts.
            (Effect::Chmod { .. }, _) => {
                stat.iter().try_for_each(|stat| check_owned(path, stat))?;
                self.set(path, before);
            }
            (Effect::Attribute { name, .. }, _) => {
                if !name.starts_with(b"user.") {
                    stat.iter().try_for_each(|stat| check_owned(path, stat))?;
                }
            }
            (Effect::SetTimes { .. }, Kind::File) if attributes::is_append_only(path, false) => {
                return wrong("can only be appended to");
            }
            (Effect::SetTimes { time, .. }, _) => {
                if super::is_explicit(*time) {
                    stat.iter().try_for_each(|stat| check_owned(path, stat))?;
                }
            }
        }
        Ok(Step {
            before,
            stat,
            parent_ready,
        })
    }
}

/// The state before an effect.
pub(super) struct Step {
    pub(super) before: Kind,
    /// Metadata of the existing file, if no effect has changed it.
    pub(super) stat: Option<Stat>,
    /// Whether its directory exists and is writable before the commit.
    pub(super) parent_ready: bool,
}

fn is_writable_dir(path: &Path) -> bool {
    let rights = Access::WRITE_OK | Access::EXEC_OK;
    rustix::fs::lstat(path)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
        && rustix::fs::accessat(CWD, path, rights, AtFlags::EACCESS).is_ok()
        // A temporary name could not be removed there.
        && !attributes::is_append_only(path, false)
}

/// Checks that permissions and times can be set.
fn check_owned(path: &FilePath, stat: &Stat) -> Result<()> {
    let user = rustix::process::geteuid();
    if user.is_root() || user.as_raw() == stat.st_uid {
        Ok(())
    } else {
        Err(RestoreError::obstacle(path, "belongs to somebody else"))
    }
}

/// Checks that an existing file can be written. If the effect sets the permission bits anyway, its
/// owner can grant himself the right.
fn check_writable(path: &FilePath, stat: Option<&Stat>, sets_mode: bool) -> Result<()> {
    let Some(stat) = stat else {
        return Ok(());
    };
    let allowed = rustix::fs::accessat(CWD, path.as_path(), Access::WRITE_OK, AtFlags::EACCESS);
    let owned = sets_mode && stat.st_uid == rustix::process::geteuid().as_raw();
    match allowed {
        Ok(()) => Ok(()),
        Err(Errno::ACCESS) if owned => Ok(()),
        Err(error) => Err(RestoreError::io("write", path)(error)),
    }
}
