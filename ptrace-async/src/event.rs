//! Events: the effects of syscalls, described the same for every syscall that has them.
//!
//! A program may create a file with `open`, `openat`, `openat2` or `creat`; a
//! tool wants to hear "created". [`IoEvent`] is that level (libptrace, section
//! 5.2): every event names resolved objects ([`PathRef`], [`OpenFile`]) instead
//! of descriptor numbers and strings relative to something else.
//!
//! **Invariant:** a syscall that touches the world in a way this list cannot
//! express becomes [`IoEvent::Unsupported`] with its reason; it is never
//! dropped.

#![warn(missing_docs)]

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

use smallvec::SmallVec;

/// A Linux task (thread) id.
pub type Tid = i32;

/// A path as a syscall named it, made absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRef {
    /// The base directory (working directory or the descriptor's directory) joined with the
    /// given string; `//` and `/./` are collapsed, `..` is kept because a symlink before it
    /// may matter. A final `/` or `/.` is dropped too and makes `follow` and `as_directory`
    /// true.
    pub path: PathBuf,
    /// Whether the syscall follows a symlink in the last component.
    pub follow: bool,
    /// Whether it ended with `/` or `/.`: then the kernel demands a directory. Calls that change
    /// the name itself, as rename(2) and rmdir(2) do, do not follow a link then, but fail.
    pub as_directory: bool,
}

impl PathRef {
    /// The path of a file that has been found: links are followed.
    pub fn followed(path: PathBuf) -> Self {
        Self {
            path,
            follow: true,
            as_directory: false,
        }
    }
}

/// Identifies one open file description for the life of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OfdId(pub u64);

/// The object behind an open file description.
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
///
/// Compare `id`, not addresses: when the file (or a directory above it) is
/// renamed, the descriptor tables get a new `OpenFile` with the same `id` and
/// the new `path`.
#[derive(Debug)]
pub struct OpenFile {
    /// Its identity within the session.
    pub id: OfdId,
    /// The object that it refers to.
    pub kind: FileKind,
    /// The path it was opened by (absolute), where it has one; for a directory
    /// that was opened through `..`, and after renames, the kernel's.
    pub path: Option<PathBuf>,
    /// Whether reading is allowed by its access mode.
    pub readable: bool,
    /// Whether writing is allowed by its access mode.
    pub writable: bool,
    /// `O_PATH`: the description only names a file.
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

/// How a call changes an extended attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttributeChange {
    /// Sets it, whether or not the file has it.
    Set,
    /// Sets it only if the file does not have it (`XATTR_CREATE`).
    Create,
    /// Sets it only if the file has it (`XATTR_REPLACE`).
    Replace,
    /// Removes it.
    Remove,
}

/// A file, named by a path or by an open description.
#[derive(Debug, Clone)]
pub enum FileRef {
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
    /// `O_NOATIME`, which only the file's owner may ask for.
    pub no_access_time: bool,
}

/// One effect or observation of a tracee, at the level at which tools reason.
///
/// Unless a variant says otherwise, an event is reported after the syscall returned, and
/// only when it succeeded. Lookups (`Open`, `Stat`, `Access`, `ReadLink`, `StatFs`,
/// `Xattr`, `Exec`) are also reported when they failed, because a failed lookup is an
/// observation. `Stat`, `StatFile`, `Access`, `ReadLink`, `List`, `StatFs`, `XattrRead`,
/// `Read`, `Seek`, `Lock`, `Ioctl`, `Clock`, `Random`, `Identity`, `SignalSent`,
/// `SharedMemory` and `ExecAttempt` come at entry, before the kernel acts. A call that
/// changes the file tree and fails becomes [`IoEvent::Failed`].
#[derive(Debug, Clone)]
pub enum IoEvent {
    /// A file was opened, or an attempt failed with `error` (an errno).
    Open {
        /// The path that was named.
        path: PathRef,
        /// How.
        mode: OpenMode,
        /// The new description.
        file: Option<Rc<OpenFile>>,
        /// Why there is none.
        error: Option<i32>,
    },
    /// Metadata was asked for by path.
    Stat {
        /// The path that was named.
        path: PathRef,
    },
    /// A path was resolved, and the call shows only that the file has the needed type: a
    /// directory for `chdir`, a socket for `connect`.
    Find {
        /// The path that was named.
        path: PathRef,
    },
    /// Metadata was asked for through a descriptor.
    StatFile {
        /// The description.
        file: Rc<OpenFile>,
    },
    /// Permission was asked for (`mode` as in access(2)); `effective` is
    /// `AT_EACCESS`.
    Access {
        /// The path that was named.
        path: PathRef,
        /// As in access(2).
        mode: i32,
        /// `AT_EACCESS`: checked with the effective ids.
        effective: bool,
    },
    /// A link target was asked for.
    ReadLink {
        /// The path that was named.
        path: PathRef,
    },
    /// A directory was listed.
    List {
        /// The description.
        file: Rc<OpenFile>,
    },
    /// File system statistics were asked for.
    StatFs {
        /// The file.
        file: FileRef,
    },
    /// Extended attributes were read; no `name` means they were listed.
    XattrRead {
        /// The file.
        file: FileRef,
        /// The attribute.
        name: Option<Vec<u8>>,
    },
    /// Extended attributes were changed.
    XattrWrite {
        /// The file.
        file: FileRef,
        /// The attribute.
        name: Vec<u8>,
        /// On which state of the attribute the call depended.
        how: AttributeChange,
    },
    /// A directory was made.
    MakeDir {
        /// The path that was named.
        path: PathRef,
        /// The permission bits.
        mode: u32,
    },
    /// A device, FIFO or socket node (or a plain file through mknod) was made.
    MakeNode {
        /// The path that was named.
        path: PathRef,
        /// The permission bits.
        mode: u32,
        /// The device number.
        device: u64,
    },
    /// A name that is not a directory was removed.
    Unlink {
        /// The path that was named.
        path: PathRef,
    },
    /// A directory was removed.
    RemoveDir {
        /// The path that was named.
        path: PathRef,
    },
    /// A name moved; `exchange` is `RENAME_EXCHANGE`.
    Rename {
        /// The old name.
        from: PathRef,
        /// The new name.
        to: PathRef,
        /// `RENAME_EXCHANGE`.
        exchange: bool,
    },
    /// A hard link was made.
    Link {
        /// The old name.
        from: FileRef,
        /// The new name.
        to: PathRef,
    },
    /// A symbolic link was made.
    Symlink {
        /// The link's target.
        target: Vec<u8>,
        /// The path that was named.
        path: PathRef,
    },
    /// A length was set (truncate, ftruncate, fallocate).
    Truncate {
        /// The file.
        file: FileRef,
        /// The length, or for fallocate the end of the range.
        length: u64,
    },
    /// Permission bits were set.
    Chmod {
        /// The file.
        file: FileRef,
        /// The permission bits.
        mode: u32,
    },
    /// Ownership was set.
    Chown {
        /// The file.
        file: FileRef,
    },
    /// Timestamps were set.
    SetTimes {
        /// The file.
        file: FileRef,
        /// The access time.
        accessed: TimeChange,
        /// The modification time.
        modified: TimeChange,
    },
    /// Bytes went into a description through `fd` (reported after; `length`
    /// is what the kernel took). `positioned` is set for pwrite and for copies
    /// with an explicit offset; `source` names where in-kernel copies
    /// (sendfile, splice, copy_file_range, tee) took the bytes from. For
    /// plain write and writev, `buffers` are the tracee's (address, length)
    /// pairs, cut to `length`.
    Write {
        /// The descriptor.
        fd: i32,
        /// The description.
        file: Rc<OpenFile>,
        /// How many bytes.
        length: u64,
        /// With an explicit offset; the position stays.
        positioned: bool,
        /// Where an in-kernel copy took the bytes from.
        source: Option<Rc<OpenFile>>,
        /// The tracee's memory, as (address, length).
        buffers: Vec<(u64, u64)>,
    },
    /// Bytes were read through `fd` (or its readiness was asked for).
    Read {
        /// The descriptor.
        fd: i32,
        /// The description.
        file: Rc<OpenFile>,
        /// With an explicit offset; the position stays.
        positioned: bool,
    },
    /// A position was set or asked for with lseek.
    Seek {
        /// The descriptor.
        fd: i32,
        /// The description.
        file: Rc<OpenFile>,
        /// Relative to the end, or to data or a hole: the result tells about the length.
        measures: bool,
    },
    /// A description that can be written was mapped shared: stores to the mapping change
    /// the file, now or after an mprotect(2).
    MapShared {
        /// The description.
        file: Rc<OpenFile>,
    },
    /// A lock was taken or released (flock, fcntl).
    Lock {
        /// The description.
        file: Rc<OpenFile>,
    },
    /// A device control request.
    Ioctl {
        /// The description.
        file: Rc<OpenFile>,
        /// The request number.
        request: u64,
    },
    /// The working directory changed to the (kernel's canonical) path.
    ChangeDir {
        /// The path that was named.
        path: PathRef,
        /// The errno, when it failed.
        error: Option<i32>,
    },
    /// The root changed.
    ChangeRoot {
        /// The path that was named.
        path: PathRef,
    },
    /// The file-creation mask changed.
    Umask {
        /// The new mask.
        mask: u32,
    },
    /// A child task was made; `thread` shares the address space and the
    /// descriptor table, `vfork` suspends the parent.
    Spawn {
        /// The new task.
        child: Tid,
        /// It is a thread of the same process.
        thread: bool,
        /// The parent waits until the child has executed or ended.
        vfork: bool,
    },
    /// A program is about to be executed (reported at entry).
    ExecAttempt {
        /// The path that was named.
        path: PathRef,
        /// Address of the arguments.
        argv: u64,
        /// Address of the environment.
        envp: u64,
    },
    /// An execution failed with this errno.
    ExecFailed {
        /// The path that was named.
        path: PathRef,
        /// The errno, when it failed.
        error: i32,
    },
    /// A clock was read (`CLOCK_*`; -1 for time(2)/gettimeofday).
    Clock {
        /// `CLOCK_*`, or -1.
        clock: i32,
    },
    /// Random bytes were asked for.
    Random {
        /// How many bytes.
        length: u64,
        /// `GRND_*`.
        flags: u32,
    },
    /// Something that belongs to the machine or the process was asked for.
    Identity {
        /// A description of the operation.
        what: Identity,
    },
    /// A resource limit was changed.
    SetLimit {
        /// `RLIMIT_*`.
        resource: i32,
    },
    /// Credentials, capabilities, namespaces, mounts, priorities, or another
    /// piece of process or system state changed in a way that outlives the
    /// call.
    StateChange {
        /// A description of the operation.
        what: &'static str,
    },
    /// A signal was sent to another process (`target` as given to kill).
    SignalSent {
        /// As given to kill: a process, 0, -1, or minus a group.
        target: i32,
        /// Which signal.
        signal: i32,
    },
    /// A network or local socket operation.
    Network {
        /// A description of the operation.
        what: &'static str,
        /// The description.
        file: Option<Rc<OpenFile>>,
    },
    /// A pipe or socket pair was made.
    Channel {
        /// The end that is read.
        read: Rc<OpenFile>,
        /// The end that is written.
        write: Rc<OpenFile>,
    },
    /// A descriptor arrived through a socket or `pidfd_getfd`, and its object
    /// is not known.
    Received {
        /// The descriptor.
        fd: i32,
    },
    /// System V or POSIX IPC, shared memory with outsiders.
    SharedMemory {
        /// A description of the operation.
        what: &'static str,
    },
    /// A call that would have changed the file tree failed. Its error is an observation:
    /// the directory existed (`mkdir`), the name was absent (`unlink`), or the directory
    /// was not empty (`rmdir`).
    Failed {
        /// The syscall's name.
        call: &'static str,
        /// The paths it named.
        paths: SmallVec<[PathRef; 2]>,
        /// Why it failed.
        error: i32,
    },
    /// A syscall that is not modelled, or that a tool cannot follow.
    Unsupported {
        /// The syscall.
        number: u64,
        /// Its name.
        name: &'static str,
        /// Why it cannot be expressed.
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
    /// Priority, scheduling policy or I/O priority.
    Scheduling,
}
