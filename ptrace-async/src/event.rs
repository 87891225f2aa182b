//! What a tracee did to the world, the same whichever syscall caused it.
//!
//! A program may create a file with `open`, `openat`, `openat2` or `creat`; a
//! tool wants to hear "created". [`IoEvent`] is that level (libptrace, section
//! 5.2): every event names resolved objects ([`PathRef`], [`OpenFile`]) instead
//! of descriptor numbers and strings relative to something else.
//!
//! **Invariant:** a syscall that touches the world in a way this list cannot
//! express becomes [`IoEvent::Unsupported`] with its reason; it is never
//! dropped.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

/// A Linux task (thread) id.
pub type Tid = i32;

/// A path as a syscall named it, made absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRef {
    /// The base directory (working directory or the descriptor's directory)
    /// joined with the given string; `//` and `/./` are collapsed, `..` is
    /// kept because a symlink before it may matter.
    pub path: PathBuf,
    /// Whether the syscall follows a symlink in the last component.
    pub follow: bool,
}

/// Identifies one open file description for the life of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OfdId(pub u64);

/// What an open file description refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileKind {
    /// Opened by path during the session; its type was not asked for.
    Opened,
    /// A regular file that was already open when tracing began.
    Regular,
    /// A directory that was already open when tracing began.
    Directory,
    /// One end of a pipe; both ends carry the same number (the pipe's inode
    /// for a pipe older than the session, otherwise a fresh number with the
    /// top bit set).
    Pipe {
        /// Which pipe.
        pipe: u64,
    },
    /// A terminal.
    Terminal,
    /// A character device other than a terminal, with its device number.
    CharDevice(u64),
    /// A socket of the given address family (`AF_*`), -1 where unknown.
    Socket(i32),
    /// `memfd_create` memory.
    MemFd,
    /// Event, timer, signal, inotify, epoll, pidfd and similar descriptors.
    Anon(&'static str),
    /// Anything else, described as `/proc/PID/fd` does.
    Other(String),
}

/// An open file description: what `dup` and `fork` share.
#[derive(Debug)]
pub struct OpenFile {
    /// Its identity within the session.
    pub id: OfdId,
    /// What it refers to.
    pub kind: FileKind,
    /// The path it was opened by (absolute), where it has one.
    pub path: Option<PathBuf>,
    /// Whether reading is allowed by its access mode.
    pub readable: bool,
    /// Whether writing is allowed by its access mode.
    pub writable: bool,
    /// `O_PATH`: names a place in the tree and nothing else.
    pub path_only: bool,
    /// `O_APPEND` at present (`fcntl(F_SETFL)` can change it).
    pub append: Cell<bool>,
    /// `O_NONBLOCK` at present.
    pub nonblocking: Cell<bool>,
    /// The task that created it; `None` when it is older than the session.
    pub creator: Option<Tid>,
}

/// A change of a timestamp as `utimensat` expresses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeChange {
    /// Left as it is (`UTIME_OMIT`).
    Keep,
    /// Set to the present (`UTIME_NOW`).
    Now,
    /// Set to seconds and nanoseconds since the epoch.
    At(i64, i64),
}

/// A file named by path or by an open description.
#[derive(Debug, Clone)]
pub enum Place {
    /// By path.
    Path(PathRef),
    /// By descriptor.
    File(Rc<OpenFile>),
}

/// How a file was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenMode {
    /// Opened for reading.
    pub read: bool,
    /// Opened for writing.
    pub write: bool,
    /// `O_CREAT`, with the mode asked for (before the umask).
    pub create: Option<u32>,
    /// `O_EXCL`.
    pub exclusive: bool,
    /// `O_TRUNC`.
    pub truncate: bool,
    /// `O_APPEND`.
    pub append: bool,
    /// `O_DIRECTORY`.
    pub directory: bool,
    /// `O_PATH`.
    pub path_only: bool,
    /// `O_TMPFILE`.
    pub tmpfile: bool,
}

/// One thing a tracee did or asked, at the level tools reason about.
///
/// Unless a variant says otherwise it is reported after the syscall returned
/// and only when it succeeded; lookups (`Open`, `Stat`, `Access`, `ReadLink`,
/// `StatFs`, `Xattr`, `Exec`) are reported also when they failed, because a
/// failed lookup is an observation.
#[derive(Debug, Clone)]
pub enum IoEvent {
    /// A file was opened, or an attempt failed with `error` (an errno).
    Open {
        path: PathRef,
        mode: OpenMode,
        file: Option<Rc<OpenFile>>,
        error: Option<i32>,
    },
    /// Metadata was asked for by path.
    Stat { path: PathRef },
    /// Metadata was asked for through a descriptor.
    StatFile { file: Rc<OpenFile> },
    /// Permission was asked for (`mode` as in access(2)); `effective` is
    /// `AT_EACCESS`.
    Access {
        path: PathRef,
        mode: i32,
        effective: bool,
    },
    /// A link target was asked for.
    ReadLink { path: PathRef },
    /// A directory was listed.
    List { file: Rc<OpenFile> },
    /// File system statistics were asked for.
    StatFs { place: Place },
    /// Extended attributes were read; no `name` means they were listed.
    XattrRead { place: Place, name: Option<Vec<u8>> },
    /// Extended attributes were changed.
    XattrWrite { place: Place, name: Vec<u8> },
    /// A directory was made.
    MakeDir { path: PathRef, mode: u32 },
    /// A device, FIFO or socket node (or a plain file through mknod) was made.
    MakeNode {
        path: PathRef,
        mode: u32,
        device: u64,
    },
    /// A name that is not a directory was removed.
    Unlink { path: PathRef },
    /// A directory was removed.
    RemoveDir { path: PathRef },
    /// A name moved; `exchange` is `RENAME_EXCHANGE`.
    Rename {
        from: PathRef,
        to: PathRef,
        exchange: bool,
    },
    /// A hard link was made.
    Link { from: Place, to: PathRef },
    /// A symbolic link was made.
    Symlink { target: Vec<u8>, path: PathRef },
    /// A length was set (truncate, ftruncate, fallocate).
    Truncate { place: Place, length: u64 },
    /// Permission bits were set.
    Chmod { place: Place, mode: u32 },
    /// Ownership was set.
    Chown { place: Place },
    /// Timestamps were set.
    SetTimes {
        place: Place,
        accessed: TimeChange,
        modified: TimeChange,
    },
    /// Bytes went into a description through `fd` (reported after; `length`
    /// is what the kernel took). `positioned` is set for pwrite and for copies
    /// with an explicit offset; `source` names where in-kernel copies
    /// (sendfile, splice, copy_file_range, tee) took the bytes from. For
    /// plain write and writev, `buffers` are the tracee's (address, length)
    /// pairs, cut to `length`.
    Write {
        fd: i32,
        file: Rc<OpenFile>,
        length: u64,
        positioned: bool,
        source: Option<Rc<OpenFile>>,
        buffers: Vec<(u64, u64)>,
    },
    /// Bytes were read through `fd` (or its readiness was asked for).
    Read {
        fd: i32,
        file: Rc<OpenFile>,
        positioned: bool,
    },
    /// A position was set or asked for with lseek.
    Seek { fd: i32, file: Rc<OpenFile> },
    /// A description was mapped shared and writable.
    MapShared { file: Rc<OpenFile> },
    /// A lock was taken or released (flock, fcntl).
    Lock { file: Rc<OpenFile> },
    /// A device control request.
    Ioctl { file: Rc<OpenFile>, request: u64 },
    /// The working directory changed to the (kernel's canonical) path.
    ChangeDir { path: PathRef, error: Option<i32> },
    /// The root changed.
    ChangeRoot { path: PathRef },
    /// The file-creation mask changed.
    Umask { mask: u32 },
    /// A child task was made; `thread` shares the address space and the
    /// descriptor table, `vfork` suspends the parent.
    Spawn {
        child: Tid,
        thread: bool,
        vfork: bool,
    },
    /// A program is about to be executed (reported at entry).
    ExecAttempt { path: PathRef, argv: u64, envp: u64 },
    /// An execution failed with this errno.
    ExecFailed { path: PathRef, error: i32 },
    /// A clock was read (`CLOCK_*`; -1 for time(2)/gettimeofday).
    Clock { clock: i32 },
    /// Random bytes were asked for.
    Random { length: u64, flags: u32 },
    /// Something that belongs to the machine or the process was asked for.
    Identity { what: Identity },
    /// A resource limit was changed.
    SetLimit { resource: i32 },
    /// Credentials, capabilities, namespaces, mounts, priorities, or another
    /// piece of process or system state changed in a way that outlives the
    /// call.
    StateChange { what: &'static str },
    /// A signal was sent to another process (`target` as given to kill).
    SignalSent { target: i32, signal: i32 },
    /// A network or local socket operation.
    Network {
        what: &'static str,
        file: Option<Rc<OpenFile>>,
    },
    /// A pipe or socket pair was made.
    Channel {
        read: Rc<OpenFile>,
        write: Rc<OpenFile>,
    },
    /// A descriptor arrived through a socket or `pidfd_getfd`, and its object
    /// is not known.
    Received { fd: i32 },
    /// System V or POSIX IPC, shared memory with outsiders.
    SharedMemory { what: &'static str },
    /// A syscall nobody modelled, or one that a tool cannot follow.
    Unsupported {
        number: u64,
        name: &'static str,
        reason: &'static str,
    },
}

/// Facts about the machine or the process that a syscall reveals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Identity {
    /// `uname`, `gethostname`.
    Uname,
    /// `sched_getaffinity`.
    Affinity,
    /// `getcpu`.
    Cpu,
    /// `sysinfo` (uptime, free memory, load).
    Sysinfo,
    /// Resource usage and times of processes.
    Usage,
    /// A process looked at another one (ptrace, process_vm_readv, pidfd).
    OtherProcess,
}
