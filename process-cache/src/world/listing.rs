//! Directory listings.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;

use super::private;
use crate::model::fact::{Answer, Digest};
use crate::model::path::FilePath;

/// Summarises a directory without `added` and with `removed`: sorted names with their types. The
/// kernel's order does not count.
pub(super) fn list(
    path: &Path,
    added: &BTreeSet<OsString>,
    removed: &BTreeMap<OsString, u8>,
) -> Result<Answer, Errno> {
    if let Some(reason) = private(&FilePath::from(path)) {
        return Ok(reason);
    }
    let mut names = read(path)?;
    names.retain(|(name, _)| {
        let name = OsStr::from_bytes(name);
        !added.contains(name) && !removed.contains_key(name)
    });
    let removed = removed
        .iter()
        .map(|(name, &kind)| (name.as_bytes().to_vec(), kind));
    names.extend(removed);
    names.sort_unstable();
    Ok(summary(
        names.iter().map(|(name, kind)| (name.as_slice(), *kind)),
    ))
}

/// Returns the answer for sorted names with types.
pub(super) fn summary<'a>(names: impl Iterator<Item = (&'a [u8], u8)>) -> Answer {
    let mut bytes = Vec::with_capacity(1024);
    for (name, kind) in names {
        bytes.extend_from_slice(&(name.len() as u32).to_le_bytes());
        bytes.extend_from_slice(name);
        bytes.push(kind);
    }
    Answer::Summary(Digest(*blake3::hash(&bytes).as_bytes()))
}

/// Reads names (without `.` and `..`) and types as in `d_type`.
pub(super) fn read(path: &Path) -> Result<Vec<(Vec<u8>, u8)>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(path, flags, Mode::empty())?;
    let mut buffer = [const { MaybeUninit::<u8>::uninit() }; 16 * 1024];
    let mut entries = RawDir::new(&dir, &mut buffer);
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => match rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error),
            },
            kind => kind,
        };
        names.push((name.to_bytes().to_vec(), d_type(kind)));
    }
    Ok(names)
}

/// Returns the type as in readdir(3).
fn d_type(kind: FileType) -> u8 {
    match kind {
        FileType::Fifo => libc::DT_FIFO,
        FileType::CharacterDevice => libc::DT_CHR,
        FileType::Directory => libc::DT_DIR,
        FileType::BlockDevice => libc::DT_BLK,
        FileType::RegularFile => libc::DT_REG,
        FileType::Symlink => libc::DT_LNK,
        FileType::Socket => libc::DT_SOCK,
        FileType::Unknown => libc::DT_UNKNOWN,
    }
}
