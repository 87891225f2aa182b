//! Single operations on files: temporary names, permissions and times.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, RenameFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, XattrFlags,
};
use tempfile::TempPath;

use super::{RestoreError, Result};
use crate::model::outcome::Time;
use crate::model::path::FilePath;

/// Contents up to this length are prepared in memory (bytes).
pub(super) const SMALL: u64 = 256 * 1024;
/// Total size of contents prepared in memory (bytes).
pub(super) const BUDGET: u64 = 32 << 20;

/// Creates a temporary file in the directory of `path`.
pub(super) fn temporary(path: &FilePath) -> Result<tempfile::NamedTempFile> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    names()
        .tempfile_in(dir)
        .map_err(RestoreError::io("create a file next to", path))
}

/// Generates temporary names.
pub(super) fn names() -> tempfile::Builder<'static, 'static> {
    let mut names = tempfile::Builder::new();
    names.prefix(".pcache-").rand_bytes(8);
    names
}

/// Renames a temporary file to `path`. An existing file gets the temporary name, if it could be
/// kept.
pub(super) fn put_over(temporary: TempPath, path: &FilePath) -> io::Result<Option<TempPath>> {
    let flags = RenameFlags::EXCHANGE;
    if rustix::fs::renameat_with(CWD, &*temporary, CWD, path.as_path(), flags).is_ok() {
        return Ok(Some(temporary));
    }
    // There is no file to exchange with, or the file system cannot exchange.
    fs::rename(&temporary, path.as_path())?;
    // The guard finds no file to remove, or another link of the same file.
    Ok(None)
}

/// Opens an existing file.
pub(super) fn open_for_writing(path: &FilePath, may_chmod: bool) -> Result<File> {
    let mut options = File::options();
    options
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    match options.open(path.as_path()) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied && may_chmod => {
            chmod(path, 0o600)?;
            options.open(path.as_path())
        }
        opened => opened,
    }
    .map_err(RestoreError::io("write", path))
}

pub(super) fn chmod(path: &FilePath, mode: u32) -> Result<()> {
    fs::set_permissions(path.as_path(), fs::Permissions::from_mode(mode & 0o7777))
        .map_err(RestoreError::io("set the permissions of", path))
}

/// Whether a lookup found an attribute.
pub(super) fn has(found: rustix::io::Result<usize>) -> bool {
    matches!(found, Ok(_) | Err(rustix::io::Errno::RANGE))
}

/// Removes an access list of a new file, if its directory passed one on.
pub(super) fn remove_list(path: &Path, name: &[u8]) -> rustix::io::Result<()> {
    let mut list = [0_u8; 4];
    match has(rustix::fs::lgetxattr(path, name, &mut list[..])) {
        true => rustix::fs::lremovexattr(path, name),
        false => Ok(()),
    }
}

/// Sets or removes an extended attribute. The owner of a read-only file grants himself the right.
pub(super) fn set_attribute(path: &FilePath, name: &[u8], value: Option<&[u8]>) -> Result<()> {
    let set = || match value {
        Some(value) => rustix::fs::lsetxattr(path.as_path(), name, value, XattrFlags::empty()),
        None => match rustix::fs::lremovexattr(path.as_path(), name) {
            Err(rustix::io::Errno::NODATA | rustix::io::Errno::OPNOTSUPP) => Ok(()),
            result => result,
        },
    };
    let mut result = set();
    if result == Err(rustix::io::Errno::ACCESS)
        && let Ok(before) = fs::symlink_metadata(path)
    {
        chmod(path, before.permissions().mode() | 0o200)?;
        result = set();
        chmod(path, before.permissions().mode())?;
    }
    result.map_err(RestoreError::io("set an attribute of", path))
}

pub(super) fn set_times(path: &FilePath, time: Time) -> Result<()> {
    if matches!(time, Time::Kept | Time::WithNames) {
        return Ok(());
    }
    rustix::fs::utimensat(
        CWD,
        path.as_path(),
        &timestamps(time),
        AtFlags::SYMLINK_NOFOLLOW,
    )
    .map_err(RestoreError::io("set the times of", path))
}

pub(super) fn timestamps(time: Time) -> Timestamps {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    let exact = |time: Option<i128>| match time {
        None => special(UTIME_NOW),
        Some(ns) => timespec(ns),
    };
    match time {
        Time::Set(accessed, modified) => Timestamps {
            last_access: exact(accessed),
            last_modification: exact(modified),
        },
        Time::Present => Timestamps {
            last_access: special(UTIME_NOW),
            last_modification: special(UTIME_NOW),
        },
        Time::Kept | Time::WithNames => Timestamps {
            last_access: special(UTIME_OMIT),
            last_modification: special(UTIME_OMIT),
        },
    }
}

pub(super) fn timespec(ns: i128) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(ns.div_euclid(1_000_000_000)).unwrap_or(i64::MAX),
        tv_nsec: ns.rem_euclid(1_000_000_000) as _,
    }
}
