//! New files that are complete before they get their names.
//!
//! A file without a name (open(2), `O_TMPFILE`) vanishes when the process is killed, and does not
//! change its directory early. If the file system does not support it, or many wait already (each
//! holds a descriptor), the file has a temporary name in the same directory.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use super::files::{has, names, put_over, remove_list, temporary, timestamps};
use super::{RestoreError, Result};
use crate::model::outcome::Time;
use crate::model::path::FilePath;
use crate::world::attributes::ACCESS_LIST;

/// Maximal number of unnamed files at a time: a process may have few descriptors.
const UNNAMED: usize = 64;
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// A new file without its final name.
pub(super) enum NewFile {
    /// It has no name.
    Unnamed(Unnamed),
    /// It has a temporary name in the same directory.
    Named(tempfile::NamedTempFile),
    /// The same, with its descriptor closed.
    Closed(tempfile::TempPath),
}

/// An unnamed file, counted.
pub(super) struct Unnamed(File);

impl Drop for Unnamed {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Unnamed {
    fn new(dir: &Path) -> Option<Self> {
        if WAITING.fetch_add(1, Ordering::Relaxed) >= UNNAMED {
            WAITING.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => Some(Self(file.into())),
            Err(_) => {
                WAITING.fetch_sub(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// Gives the file its name, or a temporary one if the name exists.
    fn finish(self, path: &FilePath, mode: u32, time: Time) -> Result<Option<tempfile::TempPath>> {
        // The directory may have passed on an access list.
        let mut list = [0_u8; 4];
        if has(rustix::fs::fgetxattr(&self.0, ACCESS_LIST, &mut list[..])) {
            rustix::fs::fremovexattr(&self.0, ACCESS_LIST)
                .map_err(RestoreError::io("set the permissions of", path))?;
        }
        self.0
            .set_permissions(fs::Permissions::from_mode(mode & 0o7777))
            .map_err(RestoreError::io("set the permissions of", path))?;
        rustix::fs::futimens(&self.0, &timestamps(time))
            .map_err(RestoreError::io("set the times of", path))?;
        match self.link(path) {
            Ok(()) => return Ok(None),
            Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(RestoreError::io("create", path)(error)),
        }
        let dir = path.parent().unwrap_or(Path::new("/"));
        let named = names()
            .make_in(dir, |name| Ok(self.link(name)?))
            .map_err(RestoreError::io("create", path))?;
        Ok(Some(named.into_temp_path()))
    }

    /// Gives the file an unused name.
    fn link(&self, path: &Path) -> rustix::io::Result<()> {
        let own = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        rustix::fs::linkat(CWD, own, CWD, path, AtFlags::SYMLINK_FOLLOW)
    }
}

impl NewFile {
    /// Creates a new file that will become `path`.
    pub(super) fn new(path: &FilePath) -> Result<Self> {
        let dir = path.parent().unwrap_or(Path::new("/"));
        match Unnamed::new(dir) {
            Some(unnamed) => Ok(Self::Unnamed(unnamed)),
            None => temporary(path).map(Self::Named),
        }
    }

    /// Returns the file for writing.
    pub(super) fn file(&mut self) -> Option<&mut File> {
        match self {
            Self::Unnamed(unnamed) => Some(&mut unnamed.0),
            Self::Named(file) => Some(file.as_file_mut()),
            Self::Closed(_) => None,
        }
    }

    /// Closes the descriptor, if the file has a name, until it is placed.
    pub(super) fn close_until_placed(self) -> Self {
        match self {
            Self::Named(file) => Self::Closed(file.into_temp_path()),
            other => other,
        }
    }

    /// Renames the file to `path`; returns the replaced file under a temporary name.
    pub(super) fn place(
        self,
        path: &FilePath,
        mode: u32,
        time: Time,
    ) -> Result<Option<tempfile::TempPath>> {
        let temporary = match self {
            Self::Unnamed(unnamed) => match unnamed.finish(path, mode, time)? {
                Some(temporary) => temporary,
                None => return Ok(None),
            },
            Self::Named(file) => set_attributes(file.into_temp_path(), path, mode, time)?,
            Self::Closed(name) => set_attributes(name, path, mode, time)?,
        };
        put_over(temporary, path).map_err(RestoreError::io("create", path))
    }
}

/// Sets permissions and times of a file with a temporary name.
fn set_attributes(
    temporary: tempfile::TempPath,
    path: &FilePath,
    mode: u32,
    time: Time,
) -> Result<tempfile::TempPath> {
    remove_list(&temporary, ACCESS_LIST)
        .map_err(RestoreError::io("set the permissions of", path))?;
    fs::set_permissions(&temporary, fs::Permissions::from_mode(mode & 0o7777))
        .map_err(RestoreError::io("set the permissions of", path))?;
    let (times, flags) = (timestamps(time), AtFlags::SYMLINK_NOFOLLOW);
    rustix::fs::utimensat(CWD, &*temporary, &times, flags)
        .map_err(RestoreError::io("set the times of", path))?;
    Ok(temporary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn drafts_are_invisible_until_linked_and_replace_existing_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = FilePath::from(dir.path().join("f").as_path());
        for text in ["one", "two"] {
            let before = names(dir.path());
            let mut draft = NewFile::new(&path).unwrap();
            let is_unnamed = matches!(draft, NewFile::Unnamed(_));
            draft.file().unwrap().write_all(text.as_bytes()).unwrap();
            if is_unnamed {
                assert_eq!(names(dir.path()), before);
            }
            draft
                .close_until_placed()
                .place(&path, 0o640, Time::Present)
                .unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert_eq!(names(dir.path()), ["f"]);
        }
    }

    #[test]
    fn many_drafts_need_few_descriptors() {
        let dir = tempfile::tempdir().unwrap();
        let path = |n: usize| FilePath::from(dir.path().join(n.to_string()).as_path());
        let drafts: Vec<NewFile> = (0..2 * UNNAMED)
            .map(|n| NewFile::new(&path(n)).unwrap().close_until_placed())
            .collect();
        let unnamed = drafts
            .iter()
            .filter(|draft| matches!(draft, NewFile::Unnamed(_)))
            .count();
        assert!(unnamed <= UNNAMED);
        for (n, draft) in drafts.into_iter().enumerate() {
            draft.place(&path(n), 0o600, Time::Present).unwrap();
        }
        assert_eq!(names(dir.path()).len(), 2 * UNNAMED);
    }
}
