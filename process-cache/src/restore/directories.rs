//! Directories: made, given permissions and times.
//!
//! Who puts something into a directory needs rights that it may not have in the
//! end (`cp -r` of one that is read-only). So each is open to its owner until all
//! that goes into it is there, and gets its own permissions last.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};

use super::files::{chmod, set_times};
use super::undo::{Before, Undo};
use super::{RestoreError, Result};
use crate::model::outcome::Time;
use crate::model::path::FilePath;

/// Permissions that the owner needs to create a name in a directory.
const OPEN: u32 = 0o700;
/// Handed down by the kernel to directories that are made.
const SET_GID: u32 = libc::S_ISGID;

/// Modes and times that directories get after all files are in place.
#[derive(Default)]
pub(super) struct Directories {
    modes: BTreeMap<FilePath, u32>,
    times: Vec<(FilePath, Time)>,
}

impl Directories {
    /// Makes a directory, or gives one that is there these permissions.
    pub(super) fn make(
        &mut self,
        path: &FilePath,
        mode: u32,
        before: Option<&Metadata>,
        undo: &mut Undo<'_>,
    ) -> Result<()> {
        match DirBuilder::new().mode((mode | OPEN) & 0o777).create(path) {
            Ok(()) => undo.made(path, None, None),
            Err(error) => match before {
                Some(before) if before.is_dir() => return self.chmod(path, mode, before, undo),
                _ => return Err(RestoreError::io("create", path)(error)),
            },
        }
        let found = fs::symlink_metadata(path).map_err(RestoreError::io("look at", path))?;
        // What the kernel handed down is the parent's business, and the kernel
        // may refuse to give it a second time.
        let mode = mode & 0o7777 | found.mode() & SET_GID;
        self.open(path, mode, &found)
    }

    /// Gives a directory that is there permissions.
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

    /// Gives a directory permissions, for now with all rights of its owner.
    fn open(&mut self, path: &FilePath, mode: u32, found: &Metadata) -> Result<()> {
        if found.mode() & 0o7777 != mode | OPEN {
            chmod(path, mode | OPEN)?;
        }
        if mode & OPEN == OPEN {
            self.modes.remove(path);
        } else {
            self.modes.insert(path.clone(), mode);
        }
        Ok(())
    }

    /// Gives a directory a time when nothing changes it any more.
    pub(super) fn date(&mut self, path: &FilePath, time: Time) {
        self.times.push((path.clone(), time));
    }

    /// It has been removed.
    pub(super) fn forget(&mut self, path: &FilePath) {
        self.modes.remove(path);
        self.times.retain(|(dated, _)| dated != path);
    }

    /// Sets the times and permissions that came too early.
    pub(super) fn finish(&self) -> Result<()> {
        for (path, time) in &self.times {
            if is_dir(path) {
                set_times(path, *time)?;
            }
        }
        // What is in a directory comes before it: it may have to be searched.
        for (path, mode) in self.modes.iter().rev() {
            if is_dir(path) {
                chmod(path, *mode)?;
            }
        }
        Ok(())
    }

    /// Lets what is in directories be changed again, to be taken back.
    pub(super) fn reopen(&self) {
        for (path, mode) in &self.modes {
            if is_dir(path) {
                // Taking back tells what is wrong.
                let _ = chmod(path, mode | OPEN);
            }
        }
    }
}

fn is_dir(path: &FilePath) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}
