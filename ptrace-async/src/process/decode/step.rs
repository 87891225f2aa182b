//! The work that a syscall's entry leaves for its exit.

use std::path::PathBuf;
use std::rc::Rc;

use smallvec::SmallVec;

use crate::event::{FileKind, IoEvent, OpenFile, OpenMode, PathRef, Tid};
use crate::process::model::NewDescription;
use crate::process::{paths, proc};

/// The result of handling an entry stop.
#[derive(Debug)]
#[must_use]
pub struct Entry {
    /// Set when the exit must be shown: pass it to [`Processes::exit`](crate::process::Processes::exit).
    pub pending: Option<Pending>,
    /// The files that this call will change, create, move or remove if it succeeds. They
    /// are reported before the kernel acts, so that a pending copy or digest of their
    /// content can be finished. Opening for writing counts; later writes through that
    /// descriptor are not listed again.
    pub about_to_change: SmallVec<[PathRef; 2]>,
}

/// The model's state between a syscall's entry and its exit.
#[derive(Debug)]
pub struct Pending {
    pub(super) nr: u64,
    pub(super) step: ExitStep,
}

impl Pending {
    /// The description that this call writes to, if it is a write.
    #[must_use]
    pub fn writes_to(&self) -> Option<Rc<OpenFile>> {
        match &self.step {
            ExitStep::Write(transfer) => Some(Rc::clone(&transfer.file)),
            _ => None,
        }
    }
}

/// The work that is left for the exit.
#[derive(Debug)]
pub(super) enum ExitStep {
    /// Show the result to the tool, which looks for failures.
    Result,
    /// Push the event if the call succeeded.
    Report(IoEvent),
    /// Push the event if the call succeeded, else [`IoEvent::Failed`].
    Change(IoEvent),
    /// A path was opened.
    Open(Box<Opening>),
    /// A program is executed; only a failure is reported at the exit.
    Exec { path: PathRef },
    /// The result is a copy of a descriptor.
    Duplicate { old: i32, cloexec: bool },
    /// The result is a new descriptor.
    Create(Box<Create>),
    /// The result is a descriptor that only `/proc` can describe.
    Fetch(Report),
    /// Two descriptors are stored at `address`.
    Pair {
        address: u64,
        flags: i32,
        /// The address family; `None` for a pipe.
        family: Option<i32>,
    },
    /// The clone's pidfd is stored at this address.
    ClonePidfd { address: u64 },
    /// The working directory changed; the path is the argument.
    ChangeDir { path: Option<PathRef> },
    /// The root changed.
    ChangeRoot { path: PathRef },
    /// A namespace or the root mount changed.
    Relocated { what: &'static str, everyone: bool },
    /// `unshare` with these flags.
    Unshare { flags: u64 },
    /// Bytes went through a descriptor.
    Write(Box<PendingWrite>),
    /// `O_APPEND` and `O_NONBLOCK` were set (`None`: left as it is).
    StatusFlags {
        file: Rc<OpenFile>,
        append: Option<bool>,
        nonblocking: Option<bool>,
    },
    /// Messages with control data arrived: `count` headers at `address`
    /// (`None`: a single one, from recvmsg).
    Messages { address: u64, many: bool },
    /// A local socket connected to a path, or failed to.
    Connect {
        path: PathRef,
        file: Option<Rc<OpenFile>>,
    },
}

/// A descriptor that the exit creates.
pub(super) struct Create {
    pub(super) new: NewDescription,
    pub(super) cloexec: bool,
    pub(super) report: Report,
}

impl std::fmt::Debug for Create {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Create").field(&self.new.kind).finish()
    }
}

/// The event that a new descriptor causes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Report {
    Nothing,
    Network(&'static str),
    Received,
    SharedMemory(&'static str),
    Unsupported(&'static str),
}

/// A write; its length is known at the exit.
#[derive(Debug)]
pub(super) struct PendingWrite {
    pub(super) fd: i32,
    pub(super) file: Rc<OpenFile>,
    pub(super) positioned: bool,
    pub(super) source: Option<Rc<OpenFile>>,
    pub(super) buffers: Buffers,
    /// The length, for requests whose result is not one.
    pub(super) length: Option<u64>,
}

/// The memory that a write took its bytes from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Buffers {
    None,
    One(u64),
    Vector(u64, u64),
}

/// An open between its entry and its exit.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) path: PathRef,
    pub(super) mode: OpenMode,
    pub(super) flags: i32,
    /// The description behind a path such as `/dev/stdin`. The new description refers to
    /// the same object.
    pub(super) origin: Option<Rc<OpenFile>>,
}

impl Opening {
    /// An open of a path for reading that names no descriptor.
    pub(super) fn to_read(path: PathBuf, flags: i32) -> Self {
        Self {
            path: PathRef::followed(path),
            mode: open_mode(flags, 0),
            flags,
            origin: None,
        }
    }

    /// The new description, once its number `fd` is known.
    pub(super) fn describe(&self, tid: Tid, fd: i32) -> NewDescription {
        let mode = &self.mode;
        let (kind, mut path) = match &self.origin {
            Some(origin) => (origin.kind.clone(), origin.path.clone()),
            // The path of an O_TMPFILE is the directory; the file has no name.
            None if mode.tmpfile => (FileKind::Opened, None),
            None => (FileKind::Opened, Some(self.path.path.clone())),
        };
        // `rm -r` opens `..` from a directory that it then removes.
        let lasting = mode.directory || mode.path_only || mode.write;
        if lasting && path.as_deref().is_some_and(paths::has_dot_dot) {
            path = proc::descriptor_path(tid, fd).or(path);
        }
        NewDescription {
            kind,
            path,
            readable: mode.read,
            writable: mode.write,
            path_only: mode.path_only,
            append: mode.append,
            nonblocking: !mode.path_only && self.flags & libc::O_NONBLOCK != 0,
        }
    }
}

/// Translates the flags of an open.
pub(super) fn open_mode(flags: i32, mode: u32) -> OpenMode {
    let has = |flag: i32| flags & flag == flag;
    let path_only = has(libc::O_PATH);
    let tmpfile = !path_only && has(libc::O_TMPFILE);
    let access = flags & libc::O_ACCMODE;
    OpenMode {
        // Access mode 3 (ioctl only) asks for both permissions.
        read: !path_only && access != libc::O_WRONLY,
        write: !path_only && access != libc::O_RDONLY,
        create: (!path_only && (has(libc::O_CREAT) || tmpfile)).then_some(mode & 0o7777),
        exclusive: !path_only && has(libc::O_EXCL),
        truncate: !path_only && has(libc::O_TRUNC),
        append: !path_only && has(libc::O_APPEND),
        directory: has(libc::O_DIRECTORY),
        path_only,
        tmpfile,
        no_access_time: !path_only && has(libc::O_NOATIME),
    }
}
