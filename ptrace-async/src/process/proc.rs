//! Reading `/proc`: once when a process is adopted, and for the few descriptors that the
//! model did not see being created.

use std::cell::Cell;
use std::fs;
use std::io::{self, Read as _};
use std::os::linux::fs::MetadataExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::event::{FileKind, OfdId, OpenFile, Tid};

/// Reads a file of `/proc` with few calls. Such files are usually shorter than a page, and
/// the kernel reports no length for them.
///
/// # Errors
/// As open(2) and read(2).
pub fn read_proc(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    read(path.as_ref(), false)
}

/// As [`read_proc`], for a file that is one record, such as `status`. The kernel returns
/// all of it at once if the buffer is large enough, so no second read looks for more.
///
/// # Errors
/// As open(2) and read(2).
pub fn read_record(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    read(path.as_ref(), true)
}

fn read(path: &Path, is_record: bool) -> io::Result<Vec<u8>> {
    const PAGE: usize = 4096;
    let mut file = fs::File::open(path)?;
    let mut bytes = vec![0; PAGE];
    let mut length = 0;
    loop {
        match file.read(&mut bytes[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        if length == bytes.len() {
            bytes.resize(2 * length, 0);
        } else if is_record {
            break;
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read_proc(path)?).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// The text of `/proc/TID/fdinfo/FD` (proc(5)).
///
/// It is read for each adopted descriptor and during some calls, so it stays text and only the
/// asked field is parsed. (The `procfs` crate parses every field into maps.)
#[derive(Debug, Clone)]
pub struct FdInfo(String);

impl FdInfo {
    /// Reads the file of a descriptor.
    ///
    /// # Errors
    /// As open(2) and read(2), mostly because the descriptor or the task is gone.
    pub fn read(tid: Tid, fd: i32) -> io::Result<Self> {
        read_text(format!("/proc/{tid}/fdinfo/{fd}")).map(Self)
    }

    /// The status flags (`O_*`), close-on-exec included.
    #[must_use]
    pub fn flags(&self) -> Option<i32> {
        i32::from_str_radix(field(&self.0, "flags:")?, 8).ok()
    }

    /// The file position.
    #[must_use]
    pub fn position(&self) -> Option<u64> {
        field(&self.0, "pos:")?.parse().ok()
    }

    /// The process of a pidfd.
    pub(super) fn pid(&self) -> Option<Tid> {
        field(&self.0, "Pid:")?.parse().ok()
    }
}

/// A descriptor as `/proc` shows it.
#[derive(Debug, Clone)]
pub(super) struct Descriptor {
    pub(super) kind: FileKind,
    pub(super) path: Option<PathBuf>,
    pub(super) flags: i32,
    pub(super) position: u64,
    pub(super) cloexec: bool,
    /// Device and inode.
    pub(super) inode: (u64, u64),
}

impl Descriptor {
    /// Reads `/proc/TID/fd/N` and `/proc/TID/fdinfo/N`.
    pub(super) fn read(tid: Tid, fd: i32) -> io::Result<Self> {
        let link = format!("/proc/{tid}/fd/{fd}");
        let target = fs::read_link(&link)?;
        let info = FdInfo::read(tid, fd)?;
        // Through the link: works for deleted files, pipes and sockets as well.
        let metadata = fs::metadata(&link)?;
        let flags = info.flags().unwrap_or(0);
        let (kind, path) = classify(target, &metadata);
        Ok(Self {
            kind,
            path,
            flags,
            position: info.position().unwrap_or(0),
            cloexec: flags & libc::O_CLOEXEC != 0,
            inode: (metadata.st_dev(), metadata.st_ino()),
        })
    }

    /// Whether two descriptors of one process look like the same description. `/proc` does
    /// not show that. Equal objects, flags and positions are the best guess without another
    /// syscall (see `Processes::adopt_comparing`).
    pub(super) fn resembles(&self, other: &Self) -> bool {
        let status = !libc::O_CLOEXEC;
        self.inode == other.inode
            && self.flags & status == other.flags & status
            && self.position == other.position
    }

    /// The description, as something older than the session.
    pub(super) fn into_file(self, id: OfdId) -> OpenFile {
        let access = self.flags & libc::O_ACCMODE;
        let path_only = self.flags & libc::O_PATH != 0;
        OpenFile {
            id,
            kind: self.kind,
            path: self.path,
            readable: !path_only && access != libc::O_WRONLY,
            writable: !path_only && access != libc::O_RDONLY,
            path_only,
            append: Cell::new(self.flags & libc::O_APPEND != 0),
            nonblocking: Cell::new(self.flags & libc::O_NONBLOCK != 0),
            creator: None,
        }
    }
}

fn classify(target: PathBuf, metadata: &fs::Metadata) -> (FileKind, Option<PathBuf>) {
    let text = target.to_string_lossy().into_owned();
    if let Some(name) = text.strip_prefix("anon_inode:") {
        let kind = match anonymous(name) {
            Some(name) => FileKind::Anon(name),
            None => FileKind::Other(text),
        };
        return (kind, None);
    }
    if text.starts_with("/memfd:") || text.starts_with("/secretmem") {
        return (FileKind::MemFd, None);
    }
    let kind = match metadata.st_mode() & libc::S_IFMT {
        libc::S_IFIFO => FileKind::Pipe {
            pipe: metadata.st_ino(),
        },
        libc::S_IFSOCK => FileKind::Socket(-1),
        libc::S_IFREG => FileKind::Regular,
        libc::S_IFDIR => FileKind::Directory,
        libc::S_IFCHR if is_terminal(metadata.st_rdev()) => FileKind::Terminal,
        libc::S_IFCHR => FileKind::CharDevice(metadata.st_rdev()),
        _ => FileKind::Other(text),
    };
    // A removed file has no name any more.
    let named = target.is_absolute() && !is_deleted(&target);
    (kind, named.then_some(target))
}

/// The names of anonymous inodes that the model uses itself.
fn anonymous(name: &str) -> Option<&'static str> {
    let name = name.trim_start_matches('[').trim_end_matches(']');
    Some(match name {
        "eventpoll" => "epoll",
        "eventfd" => "eventfd",
        "timerfd" => "timerfd",
        "signalfd" => "signalfd",
        "inotify" => "inotify",
        "fanotify" => "fanotify",
        "pidfd" => "pidfd",
        "io_uring" => "io_uring",
        "perf_event" => "perf_event",
        "userfaultfd" => "userfaultfd",
        _ => return None,
    })
}

/// Whether a character device number belongs to a terminal: virtual consoles,
/// serial lines, `/dev/tty`, `/dev/console`, and pseudo-terminals.
fn is_terminal(device: u64) -> bool {
    match libc::major(device) {
        4 | 204 | 229 | 136..=143 => true,
        5 => libc::minor(device) <= 1,
        _ => false,
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim())
}

/// The numbers of the open descriptors.
pub(super) fn descriptors(tid: Tid) -> io::Result<Vec<i32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(format!("/proc/{tid}/fd"))? {
        let name = entry?.file_name();
        found.extend(name.to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    found.sort_unstable();
    Ok(found)
}

/// The working directory as the kernel spells it.
pub(super) fn cwd(tid: Tid) -> io::Result<PathBuf> {
    fs::read_link(format!("/proc/{tid}/cwd"))
}

/// The root directory as the kernel spells it.
pub(super) fn root(tid: Tid) -> io::Result<PathBuf> {
    fs::read_link(format!("/proc/{tid}/root"))
}

/// The present path of a descriptor, if it has one.
pub(super) fn descriptor_path(tid: Tid, fd: i32) -> Option<PathBuf> {
    let target = fs::read_link(format!("/proc/{tid}/fd/{fd}")).ok()?;
    (target.is_absolute() && !is_deleted(&target)).then_some(target)
}

/// Whether the kernel marks a link of `/proc` as pointing to a removed file.
pub(super) fn is_deleted(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b" (deleted)")
}

/// Whether a link of `/proc` leads to an object other than a path does.
pub(super) fn is_elsewhere(link: &str, path: &Path) -> bool {
    let object = |path: &Path| {
        let found = fs::metadata(path).ok()?;
        Some((found.st_dev(), found.st_ino()))
    };
    let now = object(link.as_ref());
    now.is_some() && now != object(path)
}

/// The file-creation mask.
pub(super) fn umask(tid: Tid) -> io::Result<u32> {
    let status = read_text(format!("/proc/{tid}/status"))?;
    let mask = field(&status, "Umask:").and_then(|text| u32::from_str_radix(text, 8).ok());
    Ok(mask.unwrap_or(0o022))
}

/// The thread group of a task.
pub(super) fn tgid(tid: Tid) -> Option<Tid> {
    let status = read_text(format!("/proc/{tid}/status")).ok()?;
    field(&status, "Tgid:")?.parse().ok()
}

/// The process that a pidfd refers to.
pub(super) fn pidfd_target(tid: Tid, fd: i32) -> Option<Tid> {
    FdInfo::read(tid, fd).ok()?.pid()
}

/// The size of the file behind a descriptor.
pub(super) fn size(tid: Tid, fd: i32) -> Option<u64> {
    let metadata = fs::metadata(format!("/proc/{tid}/fd/{fd}")).ok()?;
    Some(metadata.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_any_length_are_read_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for length in [0, 1, 4095, 4096, 4097, 8192, 100_000] {
            let bytes: Vec<u8> = (0..length).map(|n| n as u8).collect();
            fs::write(&path, &bytes).unwrap();
            assert_eq!(read_proc(&path).unwrap(), bytes, "{length}");
            assert_eq!(read_record(&path).unwrap(), bytes, "{length}");
        }
        assert!(
            read_proc("/proc/self/status")
                .unwrap()
                .starts_with(b"Name:")
        );
        assert!(read_proc(dir.path().join("none")).is_err());
    }
}
