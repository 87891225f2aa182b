//! Descriptors of a recorded task, as `/proc/TID/fd` and `/proc/TID/fdinfo` show them (proc(5)).

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use ptrace_async::event::Tid;
use ptrace_async::process::FdInfo;

/// Device and inode: they identify a file while it is open somewhere.
pub(super) type FileKey = (u64, u64);

/// The key of a file with this metadata, if it is one that has content.
pub(super) fn key(metadata: &Metadata) -> Option<FileKey> {
    metadata.is_file().then(|| (metadata.dev(), metadata.ino()))
}

/// A path that leads to what a descriptor of a task refers to.
pub(super) fn path(tid: Tid, fd: u64) -> PathBuf {
    PathBuf::from(format!("/proc/{tid}/fd/{}", fd as i32))
}

/// Whether it is `/dev/zero`, whose mappings have no file.
pub(super) fn is_zeros(open: &Path) -> bool {
    std::fs::metadata(open).is_ok_and(|metadata| {
        metadata.file_type().is_char_device() && metadata.rdev() == libc::makedev(1, 5)
    })
}

/// The status flags of a descriptor (`O_*`), where they are known.
pub(super) fn flags(tid: Tid, fd: u64) -> Option<i32> {
    FdInfo::read(tid, fd as i32).ok()?.flags()
}

/// The position of a descriptor in its file; 0 if it is unknown.
pub(super) fn position(tid: Tid, fd: u64) -> u64 {
    let info = FdInfo::read(tid, fd as i32);
    info.ok().and_then(|info| info.position()).unwrap_or(0)
}
