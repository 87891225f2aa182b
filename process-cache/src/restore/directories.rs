//! Makes directories, and sets their permissions and times.
//!
//! Creating entries in a directory may need rights that its final mode does not grant (`cp -r` of
//! a read-only one). So each directory is open to its owner until all entries exist, and gets its
//! own permissions last.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};

use super::files::{chmod, set_times};
use super::undo::{Before, Undo};
use super::{RestoreError, Result};
use crate::model::outcome::Time;
use crate::model::path::FilePath;
use crate::world::attributes::{self, ACCESS_LIST, DEFAULT_LIST};

/// Permissions that the owner needs to create a name in a directory.
const OPEN: u32 = 0o700;
/// Inherited by new directories from their parent, by the kernel.
const SET_GID: u32 = libc::S_ISGID;

/// Modes and times that directories get after all files are in place.
#[derive(Default)]
pub(super) struct Directories {
    modes: BTreeMap<FilePath, u32>,
    times: Vec<(FilePath, Time)>,
}

impl Directories {
    /// Makes a directory, or gives an existing one these permissions. `list` returns an access list
    /// that it is to have: a list that it got from its parent stays if it is this one. Each change
    /// of the access list or the permissions takes the set-group-ID bit away if this user is not in
    /// the group.
    pub(super) fn make<'l>(
        &mut self,
        path: &FilePath,
        mode: u32,
        before: Option<&Metadata>,
        list: &dyn Fn(&[u8]) -> Option<&'l [u8]>,
        undo: &mut Undo<'_>,
    ) -> Result<()> {
        match DirBuilder::new().mode((mode | OPEN) & 0o777).create(path) {
            Ok(()) => undo.made(path, None, None),
            Err(error) => match before {
                Some(before) if before.is_dir() => return self.chmod(path, mode, before, undo),
                _ => return Err(RestoreError::io("create", path)(error)),
            },
        }
        for name in [ACCESS_LIST, DEFAULT_LIST] {
            let error = |error| RestoreError::io("set the permissions of", path)(error);
            let inherited = attributes::value(path, name).map_err(error)?;
            if inherited.is_some() && inherited.as_deref() != list(name) {
                rustix::fs::lremovexattr(path.as_path(), name).map_err(error)?;
            }
        }
        let found = fs::symlink_metadata(path).map_err(RestoreError::io("look at", path))?;
        // The inherited bit depends on the parent, and the kernel may refuse to set it again.
        let mode = mode & 0o7777 | found.mode() & SET_GID;
        self.open(path, mode, &found)
    }

    /// Sets the permissions of an existing directory.
    pub(super) fn chmod(
        &mut self,
        path: &FilePath,
        mode: u32,
        before: &Metadata,
        undo: &mut Undo<'_>,
    ) -> Result<()> {
        if before.mode() & 0o7777 == mode & 0o7777 {
            self.modes.remove(path);
            return Ok(());
        }
        undo.change(path, before, Before::Same);
        self.open(path, mode & 0o7777, before)
    }

    /// Sets the permissions of a directory, with all rights of its owner for now.
    fn open(&mut self, path: &FilePath, mode: u32, found: &Metadata) -> Result<()> {
        if found.mode() & 0o7777 != mode | OPEN {
            set_mode(path, mode | OPEN)?;
        }
        if mode & OPEN == OPEN {
            self.modes.remove(path);
        } else {
            self.modes.insert(path.clone(), mode);
        }
        Ok(())
    }

    /// Sets a directory's time after the last change of it.
    pub(super) fn date(&mut self, path: &FilePath, time: Time) {
        self.times.push((path.clone(), time));
    }

    /// Forgets a removed directory.
    pub(super) fn forget(&mut self, path: &FilePath) {
        self.modes.remove(path);
        self.times.retain(|(dated, _)| dated != path);
    }

    /// Sets the postponed times and permissions.
    pub(super) fn finish(&self) -> Result<()> {
        for (path, time) in &self.times {
            if is_dir(path) {
                set_times(path, *time)?;
            }
        }
        // Subdirectories come before their parent, which may have to be searched.
        for (path, mode) in self.modes.iter().rev() {
            if is_dir(path) {
                set_mode(path, *mode)?;
            }
        }
        Ok(())
    }

    /// Makes directories writable again, to undo changes in them.
    pub(super) fn reopen(&self) {
        for (path, mode) in &self.modes {
            if is_dir(path) {
                // The undo itself reports what is wrong.
                let _ = chmod(path, mode | OPEN);
            }
        }
    }
}

/// Sets the permissions of a directory. The kernel leaves the set-group-ID bit out, without an
/// error, for a user who is not in the group.
fn set_mode(path: &FilePath, mode: u32) -> Result<()> {
    chmod(path, mode)?;
    let is_set = || fs::symlink_metadata(path).is_ok_and(|found| found.mode() & SET_GID != 0);
    if mode & SET_GID != 0 && !is_set() {
        let error = std::io::Error::from_raw_os_error(libc::EPERM);
        return Err(RestoreError::io("set the permissions of", path)(error));
    }
    Ok(())
}

fn is_dir(path: &FilePath) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}
