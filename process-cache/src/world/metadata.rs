//! Metadata that count, the order of times, attributes, and file system statistics.

use std::path::Path;

use rustix::buffer::spare_capacity;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::private;
use crate::model::fact::{Answer, Digest, Metadata, TimeUse};
use crate::model::path::FilePath;
use crate::world::locate;

/// Returns the metadata on which a reader with this use of times may depend. For a device, the
/// size is its number, which stat returns as well.
pub(super) fn of(stat: &Stat, time: TimeUse) -> Metadata {
    let kind = FileType::from_raw_mode(stat.st_mode);
    let directory = kind == FileType::Directory;
    let modified = time >= TimeUse::Modified;
    let exact = time >= TimeUse::Exact;
    Metadata {
        mode: stat.st_mode,
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: match kind {
            FileType::Directory => 0,
            FileType::CharacterDevice | FileType::BlockDevice => stat.st_rdev,
            _ => u64::try_from(stat.st_size).unwrap_or_default(),
        },
        links: if directory { 0 } else { stat.st_nlink },
        modified: if modified { locate::modified(stat) } else { 0 },
        changed: if exact {
            i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec)
        } else {
            0
        },
        inode: if exact {
            (stat.st_ino, stat.st_dev)
        } else {
            (0, 0)
        },
        content: None,
    }
}

/// The ranking of some paths by modification time: see [`ranking`].
pub(super) fn order(paths: &[FilePath]) -> Answer {
    let mut times = Vec::with_capacity(paths.len());
    for path in paths {
        if let Some(reason) = private(path) {
            return reason;
        }
        let time = rustix::fs::stat(path.as_path()).map(|stat| locate::modified(&stat));
        times.push(time.map_err(Errno::raw_os_error));
    }
    ranking(&times)
}

/// Ranks modification times: equal times have equal ranks, and a file that cannot be examined has
/// its error instead. The rank of a future time among times of new files is not permanent, so the
/// answer is unknown then.
pub(super) fn ranking(times: &[Result<i128, i32>]) -> Answer {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as i128);
    if times.iter().any(|time| time.is_ok_and(|time| time > now)) {
        return Answer::Unknown("a modification time lies in the future".to_owned());
    }
    let mut sorted: Vec<i128> = times.iter().filter_map(|time| time.ok()).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let mut bytes = Vec::with_capacity(times.len() * 8);
    for time in times {
        let place = match time {
            Ok(time) => sorted.binary_search(time).map_or(0, |rank| rank as i64),
            Err(error) => -i64::from(*error),
        };
        bytes.extend_from_slice(&place.to_le_bytes());
    }
    Answer::Summary(Digest(*blake3::hash(&bytes).as_bytes()))
}

/// Returns all statistics, including the free space: a program may print it.
pub(super) fn file_system(path: &FilePath) -> Result<Answer, Errno> {
    if let Some(reason) = private(path) {
        return Ok(reason);
    }
    let found = rustix::fs::statfs(path.as_path())?;
    let mut hasher = blake3::Hasher::new();
    for number in [
        found.f_type as u64,
        found.f_bsize as u64,
        found.f_blocks,
        found.f_bfree,
        found.f_bavail,
        found.f_files,
        found.f_ffree,
        found.f_namelen as u64,
        found.f_frsize as u64,
        found.f_flags as u64,
    ] {
        hasher.update(&number.to_le_bytes());
    }
    Ok(Answer::Summary(Digest(*hasher.finalize().as_bytes())))
}

/// Returns the value of an attribute, or the names of all of them.
pub(super) fn xattr(path: &FilePath, follow: bool, name: &[u8]) -> Result<Answer, Errno> {
    if let Some(reason) = private(path) {
        return Ok(reason);
    }
    let path: &Path = path;
    // 64 KiB is the kernel's limit for a value and for a list.
    let mut value: Vec<u8> = Vec::with_capacity(64 * 1024);
    match (name.is_empty(), follow) {
        (true, true) => rustix::fs::listxattr(path, spare_capacity(&mut value)),
        (true, false) => rustix::fs::llistxattr(path, spare_capacity(&mut value)),
        (false, true) => rustix::fs::getxattr(path, name, spare_capacity(&mut value)),
        (false, false) => rustix::fs::lgetxattr(path, name, spare_capacity(&mut value)),
    }?;
    Ok(Answer::Summary(Digest(*blake3::hash(&value).as_bytes())))
}
