//! Descriptors that a unit inherits.

use ptrace_async::event::OfdId;

use crate::model::path::FilePath;

/// An inherited descriptor at the unit's beginning.
#[derive(Debug, Clone)]
pub struct Inherited {
    /// The lowest descriptor number of this description.
    pub fd: i32,
    /// The descriptor number under which writes are stored. It is the lowest, or 1 or 2 if the key
    /// does not contain that it equals the lowest.
    pub written_as: i32,
    /// Its open file description.
    pub file: OfdId,
    /// The position of a regular file.
    pub position: Option<u64>,
    /// The path, for regular files.
    pub path: Option<FilePath>,
    /// Device and inode number of a regular file.
    pub inode: Option<(u64, u64)>,
    /// The number of a character device that was opened by a path.
    pub device: Option<u64>,
    /// The path, for regular files that can be written.
    pub output: Option<FilePath>,
    /// `O_APPEND` and `O_NONBLOCK` as they were.
    pub flags: i32,
}
