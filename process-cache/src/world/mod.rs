//! Answers queries: from a [`Query`] to its [`Answer`].
//!
//! The world asks the kernel the same question as the program, by the same path, so that symbolic
//! links, mounts and permissions have the same effect. Answers depend on the rights and root
//! directory of the asking process, which are expected to equal the program's.
//!
//! A query without a reliable answer (a file that keeps changing, or a path such as `/proc/self`
//! that has another meaning in each process) gives [`Answer::Unknown`], which equals no stored
//! answer.

pub(crate) mod attributes;
mod content;
mod devices;
pub mod executable;
mod listing;
pub mod locate;
pub mod lookup_cache;
mod metadata;
mod mounts;
pub mod pending_digest;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Mutex;

use rustc_hash::FxHashMap;
use rustix::fs::{Access, AtFlags, CWD, FileType, Stat};
use rustix::io::Errno;

use crate::model::fact::{Answer, Digest, Metadata, Query, TimeUse};
use crate::model::file_key::FileKey;
use crate::model::path::FilePath;
use crate::platform::lock::lock;
use crate::platform::proc_files::GROUP;
use crate::store::{DigestTable, Trust};
use executable::Format;

use content::Need;
pub use content::Scanner;
use devices::Devices;

/// Answers queries, and caches digests of files in a [`DigestTable`]. Threads share it by
/// reference.
#[derive(Debug)]
pub struct World {
    table: DigestTable,
    scanner: Option<Scanner>,
    devices: Devices,
    /// Executable formats, by content.
    formats: Mutex<FxHashMap<Digest, Format>>,
    /// Files that were executable under these paths.
    executables: Mutex<FxHashMap<FilePath, (FileKey, [u32; 3])>>,
}

impl World {
    /// Creates a world whose known digests are in `table`.
    pub fn new(table: DigestTable) -> Self {
        Self {
            table,
            scanner: None,
            devices: Devices::default(),
            formats: Mutex::default(),
            executables: Mutex::default(),
        }
    }

    /// Creates a world that also scans the bytes it hashes: see [`Scanner`] and
    /// [`World::digest_and_flags`].
    pub fn with_scanner(table: DigestTable, scanner: Scanner) -> Self {
        Self {
            scanner: Some(scanner),
            ..Self::new(table)
        }
    }

    /// Returns the table of known digests; flush it at the end of a run.
    pub fn table(&self) -> &DigestTable {
        &self.table
    }

    /// Returns the executable format of a content, if [`World::learn_format`] has stored it.
    pub fn format(&self, content: &Digest) -> Option<Format> {
        let formats = lock(&self.formats);
        formats.get(content).cloned()
    }

    /// Stores the executable format of a content.
    pub fn learn_format(&self, content: Digest, format: &Format) {
        let mut formats = lock(&self.formats);
        formats.insert(content, format.clone());
    }

    /// Whether a file with this metadata was executable under this path before.
    pub fn could_be_executed(&self, path: &FilePath, stat: &Stat) -> bool {
        let known = lock(&self.executables);
        known
            .get(path)
            .is_some_and(|known| state_of(stat).as_ref() == Some(known))
    }

    /// Notes that the file may be executed.
    pub fn learn_executable(&self, path: &FilePath, stat: &Stat) {
        if let Some(state) = state_of(stat) {
            let mut known = lock(&self.executables);
            known.insert(path.clone(), state);
        }
    }

    /// Answers one query.
    pub fn ask(&self, query: &Query) -> Answer {
        let answer = match query {
            Query::Content(path) => self.content(path),
            Query::Stat { path, follow, time } => self.stat(path, *follow, *time),
            Query::Access {
                path,
                mode,
                effective,
                follow,
            } => access(path, *mode, *effective, *follow),
            Query::Link(path) => link(path),
            Query::List(path) => listing::list(path, &BTreeSet::new(), &BTreeMap::new()),
            Query::RealPath(path) => real_path(path),
            Query::Target(path) => target(path),
            Query::Replaced(path) => replaced(path),
            Query::Kind { path, follow } => kind(path, *follow),
            Query::Inode { path, follow } => inode(path, *follow),
            Query::Permissions(path) => permissions(path),
            Query::Order(paths) => Ok(metadata::order(paths)),
            Query::StatFs(path) => metadata::file_system(path),
            Query::Xattr { path, follow, name } => metadata::xattr(path, *follow, name),
            Query::Inherited(path) => attributes::inherited(path),
            Query::Attributes(path) => attributes::all(path),
            Query::OneMount { paths, device } => mounts::are_one(paths, *device),
            Query::LeftOut(_) => Ok(Answer::Unknown("no program begins".to_owned())),
        };
        answer.unwrap_or_else(|error| Answer::Error(error.raw_os_error()))
    }

    /// The answer to [`Query::List`] as if a unit had not added `own_added` to the directory nor
    /// removed `own_removed` (names with their `d_type`) from it.
    pub fn list_answer(
        &self,
        path: &Path,
        own_added: &BTreeSet<OsString>,
        own_removed: &BTreeMap<OsString, u8>,
    ) -> Answer {
        listing::list(path, own_added, own_removed)
            .unwrap_or_else(|error| Answer::Error(error.raw_os_error()))
    }

    /// Returns the names in a directory with their types.
    ///
    /// # Errors
    /// The system error of opening or reading it.
    pub fn listing(&self, path: &Path) -> Result<BTreeMap<Vec<u8>, u8>, Errno> {
        Ok(listing::read(path)?.into_iter().collect())
    }

    /// The answer to [`Query::List`] for a directory with these names.
    pub fn listing_answer(names: &BTreeMap<Vec<u8>, u8>) -> Answer {
        listing::summary(names.iter().map(|(name, kind)| (name.as_slice(), *kind)))
    }

    /// The answer to [`Query::Stat`] for a file with this metadata (without the content that
    /// [`TimeUse::Order`] adds).
    pub fn metadata(stat: &Stat, time: TimeUse) -> Metadata {
        metadata::of(stat, time)
    }

    /// The answer to [`Query::Kind`] for a file with this metadata.
    pub fn kind_of(stat: &Stat) -> Answer {
        kind_of(stat)
    }

    /// The answer to [`Query::Inode`] for a file with this metadata.
    pub fn inode_of(stat: &Stat) -> Answer {
        inode_of(stat)
    }

    /// Returns the answer to [`Query::Target`] for a regular file in this state.
    pub fn target_of(stat: &Stat, is_writable: bool) -> Answer {
        if stat.st_nlink == 1 && is_writable {
            Answer::Writable
        } else {
            Answer::Metadata(Box::new(metadata::of(stat, TimeUse::None)))
        }
    }

    /// The answer to [`Query::Permissions`] for a file with this metadata.
    pub fn permissions_of(stat: &Stat) -> Answer {
        permissions_of(stat)
    }

    /// The answer to [`Query::Order`] for these modification times (ns since the epoch, or errno)
    /// of its paths.
    pub fn order_answer(times: &[Result<i128, i32>]) -> Answer {
        metadata::ranking(times)
    }

    /// Returns the digest of a regular file and the file state to which it belongs.
    ///
    /// # Errors
    /// Same as [`World::digest_file`].
    pub fn digest_with_key(&self, path: &Path) -> io::Result<(Digest, Option<FileKey>)> {
        let (digest, _, stat) = self.digest_path(path, Need::Digest)?;
        Ok((digest, FileKey::of(&stat)))
    }

    /// Returns the digest of a regular file and its metadata (with [`TimeUse::Exact`]).
    ///
    /// # Errors
    /// `InvalidInput` for anything but a regular file, `ResourceBusy` for one that keeps changing,
    /// and errors of the system calls.
    pub fn digest_file(&self, path: &Path) -> io::Result<(Digest, Metadata)> {
        let (digest, _, stat) = self.digest_path(path, Need::Digest)?;
        Ok((digest, metadata::of(&stat, TimeUse::Exact)))
    }

    /// Same as [`World::digest_file`], for an open file (readable; its position stays).
    ///
    /// # Errors
    /// Same as [`World::digest_file`].
    pub fn digest_open(&self, file: &File) -> io::Result<(Digest, Metadata)> {
        let (digest, _, stat) = self.digest_fd(file, Need::Digest)?;
        Ok((digest, metadata::of(&stat, TimeUse::Exact)))
    }

    /// Returns the digest of a regular file and the flags of the [`Scanner`] (0 without one).
    ///
    /// # Errors
    /// Same as [`World::digest_file`].
    pub fn digest_and_flags(&self, path: &Path) -> io::Result<(Digest, u8)> {
        let (digest, flags, _) = self.digest_path(path, Need::Flags)?;
        Ok((digest, flags))
    }

    /// Returns the digest of the regular file at `path` with this metadata, if it is known without
    /// reading the file.
    pub fn known(&self, path: &Path, stat: &Stat) -> Option<Digest> {
        if self.is_volatile(stat, || rustix::fs::statfs(path)) {
            return None;
        }
        self.table
            .get(&FileKey::of(stat)?)
            .map(|(digest, _)| digest)
    }

    /// Stores, for this run only, that the file has this content now. The caller has just written
    /// it or secured its copy, and knows that no other process writes it.
    pub fn learn(&self, path: &Path, digest: Digest) {
        if let Ok(stat) = rustix::fs::lstat(path)
            && is(&stat, FileType::RegularFile)
            && let Some(key) = FileKey::of(&stat)
        {
            self.table.insert(&key, digest, 0, Trust::ThisRun);
        }
    }

    /// Whether the regular file at `path` with this metadata has this content.
    pub(crate) fn has_content(&self, path: &Path, stat: &Stat, digest: &Digest) -> bool {
        self.digest_at(path, stat, Need::Digest)
            .is_ok_and(|(found, _, _)| found == *digest)
    }

    fn content(&self, path: &FilePath) -> Result<Answer, Errno> {
        if let Some(reason) = private(path) {
            return Ok(reason);
        }
        let stat = rustix::fs::stat(path.as_path())?;
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                // The error that an open would return.
                readable(path, &stat, 0o555)?;
                Answer::Directory
            }
            FileType::RegularFile => match self.digest_at(path, &stat, Need::Digest) {
                Ok((digest, _, _)) => Answer::File(digest),
                Err(error) => from_io(&error, path)?,
            },
            FileType::CharacterDevice | FileType::BlockDevice => Answer::Special {
                kind: stat.st_mode & libc::S_IFMT,
                device: stat.st_rdev,
            },
            _ => Answer::Special {
                kind: stat.st_mode & libc::S_IFMT,
                device: 0,
            },
        })
    }

    fn stat(&self, path: &FilePath, follow: bool, time: TimeUse) -> Result<Answer, Errno> {
        if let Some(reason) = private(path) {
            return Ok(reason);
        }
        let stat = if follow {
            rustix::fs::stat(path.as_path())?
        } else {
            rustix::fs::lstat(path.as_path())?
        };
        let mut answer = metadata::of(&stat, time);
        if time == TimeUse::Order && is(&stat, FileType::RegularFile) {
            match self.digest_at(path, &stat, Need::Digest) {
                Ok((digest, _, _)) => answer.content = Some(digest),
                // A file can be examined without read permission.
                Err(error) if error.raw_os_error() == Some(libc::EACCES) => {}
                Err(error) => return from_io(&error, path),
            }
        }
        Ok(Answer::Metadata(Box::new(answer)))
    }
}

/// Returns a file's state, with mode and owners.
fn state_of(stat: &Stat) -> Option<(FileKey, [u32; 3])> {
    FileKey::of(stat).map(|key| (key, [stat.st_mode, stat.st_uid, stat.st_gid]))
}

/// Whether a file is of this type.
fn is(stat: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(stat.st_mode) == kind
}

/// Checks the read permission unless the mode grants it to all users. (The table may contain
/// digests of files that were readable before.)
fn readable(path: &Path, stat: &Stat, everybody: u32) -> Result<(), Errno> {
    if stat.st_mode & 0o444 == everybody & 0o444 {
        return Ok(());
    }
    rustix::fs::accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS)
}

fn from_io(error: &io::Error, path: &FilePath) -> Result<Answer, Errno> {
    match Errno::from_io_error(error) {
        Some(errno) => Err(errno),
        None => Ok(Answer::Unknown(format!("{}: {error}", path.display()))),
    }
}

/// Refuses to answer about a path that has another meaning in each process.
fn private(path: &FilePath) -> Option<Answer> {
    let bytes = path.as_bytes();
    if bytes == GROUP.as_bytes() {
        return None;
    }
    let rest = bytes.strip_prefix(b"/proc/");
    let of_process = rest.is_some_and(|rest| {
        let name = rest.split(|&byte| byte == b'/').next().unwrap_or_default();
        name == b"self"
            || name == b"thread-self"
            || (!name.is_empty() && name.iter().all(u8::is_ascii_digit))
    });
    let of_descriptor = [
        &b"/dev/fd"[..],
        b"/dev/stdin",
        b"/dev/stdout",
        b"/dev/stderr",
    ]
    .iter()
    .any(|name| {
        bytes
            .strip_prefix(*name)
            .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    });
    (of_process || of_descriptor)
        .then(|| Answer::Unknown(format!("{} differs among processes", path.display())))
}

fn access(path: &FilePath, mode: i32, effective: bool, follow: bool) -> Result<Answer, Errno> {
    if let Some(reason) = private(path) {
        return Ok(reason);
    }
    let mut flags = AtFlags::empty();
    flags.set(AtFlags::EACCESS, effective);
    flags.set(AtFlags::SYMLINK_NOFOLLOW, !follow);
    let mode = u32::try_from(mode).map_err(|_| Errno::INVAL)?;
    let mode = Access::from_bits(mode).ok_or(Errno::INVAL)?;
    rustix::fs::accessat(CWD, path.as_path(), mode, flags)?;
    if mode.contains(Access::WRITE_OK) && attributes::is_append_only(path, follow) {
        let path = path.display();
        return Ok(Answer::Unknown(format!("{path} can only be appended to")));
    }
    Ok(Answer::Granted)
}

fn link(path: &FilePath) -> Result<Answer, Errno> {
    if let Some(reason) = private(path) {
        return Ok(reason);
    }
    let target = rustix::fs::readlink(path.as_path(), Vec::new())?;
    Ok(Answer::Path(FilePath::from(target.as_bytes())))
}

fn real_path(path: &FilePath) -> Result<Answer, Errno> {
    if let Some(reason) = private(path) {
        return Ok(reason);
    }
    match std::fs::canonicalize(path.as_path()) {
        Ok(real) => Ok(Answer::Path(FilePath::from(real))),
        Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
    }
}

fn kind(path: &FilePath, follow: bool) -> Result<Answer, Errno> {
    if let Some(reason) = private(path) {
        return Ok(reason);
    }
    let stat = if follow {
        rustix::fs::stat(path.as_path())
    } else {
        rustix::fs::lstat(path.as_path())
    };
    Ok(kind_of(&stat?))
}

fn kind_of(stat: &Stat) -> Answer {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Answer::Directory,
        _ => Answer::Special {
            kind: stat.st_mode & libc::S_IFMT,
            device: 0,
        },
    }
}

fn inode(path: &FilePath, follow: bool) -> Result<Answer, Errno> {
    if let Some(reason) = private(path) {
        return Ok(reason);
    }
    let stat = if follow {
        rustix::fs::stat(path.as_path())
    } else {
        rustix::fs::lstat(path.as_path())
    };
    Ok(inode_of(&stat?))
}

fn inode_of(stat: &Stat) -> Answer {
    Answer::Metadata(Box::new(Metadata {
        mode: 0,
        uid: 0,
        gid: 0,
        inode: (stat.st_ino, stat.st_dev),
        ..rights_of(stat)
    }))
}

fn permissions(path: &FilePath) -> Result<Answer, Errno> {
    if let Some(reason) = private(path) {
        return Ok(reason);
    }
    Ok(permissions_of(&rustix::fs::lstat(path.as_path())?))
}

fn permissions_of(stat: &Stat) -> Answer {
    Answer::Metadata(Box::new(rights_of(stat)))
}

fn rights_of(stat: &Stat) -> Metadata {
    Metadata {
        mode: stat.st_mode,
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: 0,
        links: 0,
        modified: 0,
        changed: 0,
        inode: (0, 0),
        content: None,
    }
}

/// Answers a write by a program that first removes a non-empty file.
fn replaced(path: &FilePath) -> Result<Answer, Errno> {
    let answer = target(path)?;
    let is_empty = || {
        let stat = rustix::fs::lstat(path.as_path());
        stat.is_ok_and(|stat| is(&stat, FileType::RegularFile) && stat.st_size == 0)
    };
    Ok(if answer == Answer::Writable && is_empty() {
        Answer::Special {
            kind: libc::S_IFREG,
            device: 0,
        }
    } else {
        answer
    })
}

/// Answers a write without an earlier lookup.
fn target(path: &FilePath) -> Result<Answer, Errno> {
    if let Some(reason) = private(path) {
        return Ok(reason);
    }
    let stat = match rustix::fs::lstat(path.as_path()) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => {
            let parent = path.parent().unwrap_or(path);
            let rights = Access::WRITE_OK | Access::EXEC_OK;
            rustix::fs::accessat(CWD, parent, rights, AtFlags::EACCESS)?;
            if is(&rustix::fs::stat(parent)?, FileType::Directory) {
                return Ok(Answer::Writable);
            }
            return Err(Errno::NOTDIR);
        }
        Err(error) => return Err(error),
    };
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            let writable =
                rustix::fs::accessat(CWD, path.as_path(), Access::WRITE_OK, AtFlags::EACCESS);
            World::target_of(&stat, writable.is_ok())
        }
        FileType::Directory => Answer::Directory,
        FileType::Symlink => return link(path),
        FileType::CharacterDevice | FileType::BlockDevice => Answer::Special {
            kind: stat.st_mode & libc::S_IFMT,
            device: stat.st_rdev,
        },
        _ => Answer::Special {
            kind: stat.st_mode & libc::S_IFMT,
            device: 0,
        },
    })
}

#[cfg(test)]
mod tests;
