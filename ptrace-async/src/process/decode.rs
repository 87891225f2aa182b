//! From a syscall at its entry to events: the dispatch, and what all decoders
//! share.
//!
//! A decoder pushes what is certain before the kernel acts (lookups, reads,
//! clocks), notes the paths that are about to change, and returns the [`Step`]
//! that remains for the exit, if any.

use std::rc::Rc;

use smallvec::SmallVec;

use super::decode_open::Opening;
use super::paths::{self, Text};
use super::watch::{Watch, watch};
use super::{Invocation, New, Processes, nr, proc};
use crate::event::{IoEvent, OpenFile, PathRef, Place, Tid};
use crate::memory::Memory;

pub(super) const AT_FDCWD: i32 = libc::AT_FDCWD;

/// What follows from an entry stop.
#[derive(Debug)]
#[must_use]
pub struct Entry {
    /// Set when the exit must be shown: pass it to [`Processes::exit`].
    pub pending: Option<Pending>,
    /// Files that this call is about to change, create, move or remove if it
    /// succeeds, told before the kernel acts so that a pending copy or digest of
    /// their content can be secured. Opening for writing counts, later writes
    /// through that descriptor are not announced again.
    pub about_to_change: SmallVec<[PathRef; 2]>,
}

impl Entry {
    /// Whether the exit stop must be shown.
    #[must_use]
    pub fn needs_exit(&self) -> bool {
        self.pending.is_some()
    }
}

/// What the model keeps between the entry and the exit of a syscall.
#[derive(Debug)]
pub struct Pending {
    pub(super) nr: u64,
    pub(super) step: Step,
}

impl Pending {
    /// The description that this call writes to, if it is a write.
    #[must_use]
    pub fn writes_to(&self) -> Option<Rc<OpenFile>> {
        match &self.step {
            Step::Write(transfer) => Some(Rc::clone(&transfer.file)),
            _ => None,
        }
    }
}

/// What remains to be done at the exit.
#[derive(Debug)]
pub(super) enum Step {
    /// Push the event if the call succeeded.
    Report(IoEvent),
    /// Push the event if the call succeeded, else say that it failed.
    Change(IoEvent),
    /// A path was opened.
    Open(Box<Opening>),
    /// A program is executed; only a failure comes here with news.
    Exec { path: PathRef },
    /// The result is a copy of a descriptor.
    Duplicate { old: i32, cloexec: bool },
    /// The result is a new descriptor.
    Create(Box<Create>),
    /// The result is a descriptor that only `/proc` can describe.
    Fetch(Announce),
    /// Two descriptors are stored at `address`.
    Pair {
        address: u64,
        flags: i32,
        /// The address family; `None` for a pipe.
        family: Option<i32>,
    },
    /// The clone's pidfd is stored at this address.
    ClonePidfd { address: u64 },
    /// The working directory changed, to this path as it was given.
    ChangeDir { path: Option<PathRef> },
    /// The root changed.
    ChangeRoot { path: PathRef },
    /// A namespace or the root mount changed.
    Relocated { what: &'static str, everyone: bool },
    /// `unshare` with these flags.
    Unshare { flags: u64 },
    /// Bytes went through a descriptor.
    Write(Box<Transfer>),
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

/// A descriptor to be made at the exit.
pub(super) struct Create {
    pub(super) new: New,
    pub(super) cloexec: bool,
    pub(super) announce: Announce,
}

impl std::fmt::Debug for Create {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Create").field(&self.new.kind).finish()
    }
}

/// What to report of a new descriptor.
#[derive(Debug, Clone, Copy)]
pub(super) enum Announce {
    Nothing,
    Network(&'static str),
    Received,
    SharedMemory(&'static str),
    Unsupported(&'static str),
}

/// A write whose length the exit tells.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) fd: i32,
    pub(super) file: Rc<OpenFile>,
    pub(super) positioned: bool,
    pub(super) source: Option<Rc<OpenFile>>,
    pub(super) buffers: Buffers,
    /// Set for requests whose result is not a length.
    pub(super) length: Option<u64>,
}

/// Where a write took its bytes from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Buffers {
    None,
    One(u64),
    Vector(u64, u64),
}

/// What a path argument turned out to be.
enum Named {
    Path(PathRef),
    /// The empty string, or NULL.
    Empty,
    /// The call will fail whatever the world is like.
    Hopeless,
    /// Relative to a descriptor whose path is not known.
    NoBase,
}

/// One syscall at its entry.
pub(super) struct Context<'a> {
    pub(super) model: &'a mut Processes,
    pub(super) tid: Tid,
    pub(super) nr: u64,
    pub(super) args: [u64; 6],
    pub(super) memory: &'a dyn Memory,
    pub(super) out: &'a mut SmallVec<[IoEvent; 2]>,
    pub(super) about_to_change: SmallVec<[PathRef; 2]>,
}

pub(super) fn entry(
    model: &mut Processes,
    tid: Tid,
    call: &Invocation,
    memory: &dyn Memory,
    out: &mut SmallVec<[IoEvent; 2]>,
) -> Entry {
    let known = model.ensure(tid);
    let mut context = Context {
        model,
        tid,
        nr: call.nr,
        args: call.args,
        memory,
        out,
        about_to_change: SmallVec::new(),
    };
    let step = if known {
        context.dispatch()
    } else {
        context.unsupported("the task is not known and cannot be looked at")
    };
    Entry {
        pending: step.map(|step| Pending { nr: call.nr, step }),
        about_to_change: context.about_to_change,
    }
}

impl Context<'_> {
    /// An argument that is a C `int`.
    pub(super) fn int(&self, index: usize) -> i32 {
        self.args[index] as i32
    }

    /// An argument that is a C `unsigned int`.
    pub(super) fn uint(&self, index: usize) -> u32 {
        self.args[index] as u32
    }

    pub(super) fn push(&mut self, event: IoEvent) {
        self.out.push(event);
    }

    /// Reports a syscall that cannot be followed; there is nothing to do at its
    /// exit.
    pub(super) fn unsupported(&mut self, reason: &'static str) -> Option<Step> {
        self.push(IoEvent::Unsupported {
            number: self.nr,
            name: nr::name(self.nr),
            reason,
        });
        None
    }

    /// The description behind a descriptor; a number that the model does not
    /// know is looked up. `None` is certain to give `EBADF`.
    pub(super) fn file(&mut self, fd: i32) -> Option<Rc<OpenFile>> {
        if let Some(file) = self.model.file(self.tid, fd) {
            return Some(Rc::clone(file));
        }
        self.model.look_up(self.tid, fd)
    }

    fn named(&mut self, dirfd: i32, address: u64, follow: bool) -> Named {
        let Ok(text) = Text::read(self.memory, address) else {
            return Named::Hopeless;
        };
        if text.is_empty() {
            return Named::Empty;
        }
        let base = if text.starts_with(b"/") {
            self.model.root(self.tid)
        } else if dirfd == AT_FDCWD {
            self.model.cwd(self.tid)
        } else {
            let Some(mut file) = self.file(dirfd) else {
                return Named::Hopeless;
            };
            if file.path.as_deref().is_some_and(paths::climbs) {
                file = self.climbed(dirfd, file);
            }
            return match &file.path {
                Some(base) => Named::Path(paths::join(base, &text, follow)),
                None => Named::NoBase,
            };
        };
        match base {
            Some(base) => Named::Path(paths::join(base, &text, follow)),
            None => Named::NoBase,
        }
    }

    /// The same directory under the kernel's name, where that can be had.
    fn climbed(&mut self, fd: i32, file: Rc<OpenFile>) -> Rc<OpenFile> {
        let Some(path) = proc::descriptor_path(self.tid, fd) else {
            return file;
        };
        self.model.repath(file.id, &path);
        self.file(fd).unwrap_or(file)
    }

    /// The path argument at `address`, relative to `dirfd`. `None` when the call
    /// is bound to fail, or (reported) when the base is not known.
    pub(super) fn path(&mut self, dirfd: i32, address: u64, follow: bool) -> Option<PathRef> {
        match self.named(dirfd, address, follow) {
            Named::Path(path) => Some(path),
            Named::Empty | Named::Hopeless => None,
            Named::NoBase => {
                self.unsupported("a path relative to a descriptor whose own path is not known");
                None
            }
        }
    }

    /// As [`path`](Self::path), for calls that take `AT_SYMLINK_NOFOLLOW` and
    /// `AT_EMPTY_PATH` in `flags`.
    pub(super) fn place(&mut self, dirfd: i32, address: u64, flags: i32) -> Option<Place> {
        let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
        if flags & libc::AT_EMPTY_PATH != 0 {
            // NULL has meant the empty string since Linux 6.11.
            if address == 0 || matches!(self.named(dirfd, address, follow), Named::Empty) {
                return self.descriptor(dirfd);
            }
        }
        self.path(dirfd, address, follow).map(Place::Path)
    }

    /// The place that a descriptor (or `AT_FDCWD`) itself stands for.
    pub(super) fn descriptor(&mut self, fd: i32) -> Option<Place> {
        if fd == AT_FDCWD {
            let path = self.model.cwd(self.tid)?.to_owned();
            return Some(Place::Path(PathRef { path, follow: true }));
        }
        self.file(fd).map(Place::File)
    }

    /// A call that changes the tree: tells what is about to change, and leaves
    /// the event for the exit.
    pub(super) fn change(&mut self, event: IoEvent) -> Option<Step> {
        self.about_to_change.extend(changed_paths(&event));
        Some(Step::Change(event))
    }

    /// Leaves a new descriptor without a path to the exit.
    pub(super) fn create(&mut self, new: New, cloexec: bool, announce: Announce) -> Option<Step> {
        Some(Step::Create(Box::new(Create {
            new,
            cloexec,
            announce,
        })))
    }
}

/// The paths that an event is about, for `about_to_change` and
/// [`IoEvent::Failed`].
pub(super) fn changed_paths(event: &IoEvent) -> SmallVec<[PathRef; 2]> {
    let mut paths = SmallVec::new();
    let mut place = |place: &Place| match place {
        Place::Path(path) => paths.push(path.clone()),
        Place::File(file) => {
            paths.extend(file.path.clone().map(|path| PathRef { path, follow: true }))
        }
    };
    match event {
        IoEvent::XattrWrite { place: at, .. }
        | IoEvent::Truncate { place: at, .. }
        | IoEvent::Chmod { place: at, .. }
        | IoEvent::Chown { place: at }
        | IoEvent::SetTimes { place: at, .. } => place(at),
        IoEvent::Link { from, to } => {
            place(from);
            paths.push(to.clone());
        }
        IoEvent::Rename { from, to, .. } => {
            paths.push(from.clone());
            paths.push(to.clone());
        }
        IoEvent::MakeDir { path, .. }
        | IoEvent::MakeNode { path, .. }
        | IoEvent::Unlink { path }
        | IoEvent::RemoveDir { path }
        | IoEvent::Symlink { path, .. } => paths.push(path.clone()),
        _ => {}
    }
    paths
}

impl Context<'_> {
    /// One arm per syscall; what is not listed is either none of the model's
    /// business (`Watch::Never`) or not modelled.
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn dispatch(&mut self) -> Option<Step> {
        let a = self.args;
        match self.nr {
            // Opening.
            nr::open => self.open(AT_FDCWD, a[0], self.int(1), self.uint(2)),
            nr::creat => self.creat(),
            nr::openat => self.open(self.int(0), a[1], self.int(2), self.uint(3)),
            nr::openat2 => self.openat2(),
            nr::open_by_handle_at => {
                self.unsupported("a file opened by handle has no name to observe");
                Some(Step::Fetch(Announce::Nothing))
            }
            nr::open_tree | nr::open_tree_attr => self.open_tree(),

            // Looking.
            nr::stat => self.stat(AT_FDCWD, a[0], 0),
            nr::lstat => self.stat(AT_FDCWD, a[0], libc::AT_SYMLINK_NOFOLLOW),
            nr::fstat => self.fstat(),
            nr::newfstatat => self.stat(self.int(0), a[1], self.int(3)),
            nr::statx => self.stat(self.int(0), a[1], self.int(2)),
            nr::access => self.access(AT_FDCWD, a[0], self.int(1), 0),
            nr::faccessat => self.access(self.int(0), a[1], self.int(2), 0),
            nr::faccessat2 => self.access(self.int(0), a[1], self.int(2), self.int(3)),
            nr::readlink => self.readlink(AT_FDCWD, a[0], self.int(2)),
            nr::readlinkat => self.readlink(self.int(0), a[1], self.int(3)),
            nr::getdents | nr::getdents64 => self.list(),
            nr::statfs => self.statfs(),
            nr::fstatfs => self.fstatfs(),
            nr::getxattr => self.xattr_read(Self::by_path, Some(1)),
            nr::lgetxattr => self.xattr_read(Self::by_link, Some(1)),
            nr::fgetxattr => self.xattr_read(Self::by_descriptor, Some(1)),
            nr::getxattrat => self.xattr_read(Self::by_at, Some(3)),
            nr::listxattr => self.xattr_read(Self::by_path, None),
            nr::llistxattr => self.xattr_read(Self::by_link, None),
            nr::flistxattr => self.xattr_read(Self::by_descriptor, None),
            nr::listxattrat => self.xattr_read(Self::by_at, None),

            // Changing the tree.
            nr::setxattr | nr::removexattr => self.xattr_write(Self::by_path, 1),
            nr::lsetxattr | nr::lremovexattr => self.xattr_write(Self::by_link, 1),
            nr::fsetxattr | nr::fremovexattr => self.xattr_write(Self::by_descriptor, 1),
            nr::setxattrat | nr::removexattrat => self.xattr_write(Self::by_at, 3),
            nr::mkdir => self.mkdir(AT_FDCWD, a[0], self.uint(1)),
            nr::mkdirat => self.mkdir(self.int(0), a[1], self.uint(2)),
            nr::mknod => self.mknod(AT_FDCWD, a[0], self.uint(1), a[2]),
            nr::mknodat => self.mknod(self.int(0), a[1], self.uint(2), a[3]),
            nr::unlink => self.unlink(AT_FDCWD, a[0], 0),
            nr::rmdir => self.unlink(AT_FDCWD, a[0], libc::AT_REMOVEDIR),
            nr::unlinkat => self.unlink(self.int(0), a[1], self.int(2)),
            nr::rename => self.rename((AT_FDCWD, a[0]), (AT_FDCWD, a[1]), 0),
            nr::renameat => self.rename((self.int(0), a[1]), (self.int(2), a[3]), 0),
            nr::renameat2 => self.rename((self.int(0), a[1]), (self.int(2), a[3]), self.uint(4)),
            nr::link => self.link((AT_FDCWD, a[0]), (AT_FDCWD, a[1]), 0),
            nr::linkat => self.link((self.int(0), a[1]), (self.int(2), a[3]), self.int(4)),
            nr::symlink => self.symlink(a[0], AT_FDCWD, a[1]),
            nr::symlinkat => self.symlink(a[0], self.int(1), a[2]),
            nr::truncate => self.truncate(),
            nr::ftruncate => self.ftruncate(a[1]),
            nr::fallocate => self.ftruncate(a[2].saturating_add(a[3])),
            nr::chmod => self.chmod(AT_FDCWD, a[0], self.uint(1), 0),
            nr::fchmod => self.fchmod(),
            nr::fchmodat => self.chmod(self.int(0), a[1], self.uint(2), 0),
            nr::fchmodat2 => self.chmod(self.int(0), a[1], self.uint(2), self.int(3)),
            nr::chown => self.chown(AT_FDCWD, a[0], 0),
            nr::lchown => self.chown(AT_FDCWD, a[0], libc::AT_SYMLINK_NOFOLLOW),
            nr::fchown => self.fchown(),
            nr::fchownat => self.chown(self.int(0), a[1], self.int(4)),
            nr::utime => self.utime(),
            nr::utimes => self.utimes(AT_FDCWD, a[0], a[1]),
            nr::futimesat => self.utimes(self.int(0), a[1], a[2]),
            nr::utimensat => self.utimensat(),

            // Bytes.
            nr::read | nr::readv => self.read(false),
            nr::pread64 | nr::preadv => self.read(true),
            nr::preadv2 => self.read(a[3] != u64::MAX),
            nr::write => self.write(Buffers::One(a[1]), false),
            nr::writev => self.write(Buffers::Vector(a[1], a[2]), false),
            nr::pwrite64 | nr::pwritev => self.write(Buffers::None, true),
            nr::pwritev2 if a[3] != u64::MAX => self.write(Buffers::None, true),
            nr::pwritev2 => self.write(Buffers::Vector(a[1], a[2]), false),
            nr::sendfile => self.transfer((self.int(1), a[2] != 0), (self.int(0), false)),
            nr::splice | nr::copy_file_range => {
                self.transfer((self.int(0), a[1] != 0), (self.int(2), a[3] != 0))
            }
            nr::tee => self.transfer((self.int(0), false), (self.int(1), false)),
            nr::vmsplice => self.vmsplice(),
            nr::lseek => self.lseek(),
            nr::poll | nr::ppoll => self.poll(),
            nr::select | nr::pselect6 => self.select(),
            nr::epoll_ctl => self.epoll_ctl(),
            nr::mmap => self.mmap(),
            nr::flock => self.lock(),
            nr::ioctl => self.ioctl(),

            // Descriptors.
            nr::close => self.close(),
            nr::close_range => self.close_range(),
            nr::dup => self.duplicate(self.int(0), false),
            nr::dup2 => self.duplicate_onto(0),
            nr::dup3 => self.duplicate_onto(self.int(2)),
            nr::fcntl => self.fcntl(),
            nr::pipe => self.pair(a[0], 0, None),
            nr::pipe2 => self.pair(a[0], self.int(1), None),
            nr::socketpair => self.pair(a[3], self.int(1), Some(self.int(0))),
            nr::epoll_create => self.anonymous("epoll", 0),
            nr::epoll_create1 => self.anonymous("epoll", self.int(0)),
            nr::eventfd => self.anonymous("eventfd", 0),
            nr::eventfd2 => self.anonymous("eventfd", self.int(1)),
            nr::timerfd_create => self.anonymous("timerfd", self.int(1)),
            nr::signalfd if self.int(0) == -1 => self.anonymous("signalfd", 0),
            nr::signalfd4 if self.int(0) == -1 => self.anonymous("signalfd", self.int(3)),
            nr::signalfd | nr::signalfd4 => None,
            nr::inotify_init => self.inotify(0),
            nr::inotify_init1 => self.inotify(self.int(0)),
            nr::inotify_add_watch | nr::inotify_rm_watch => None,
            nr::memfd_create => self.memfd(self.uint(1) & libc::MFD_CLOEXEC != 0),
            nr::memfd_secret => self.memfd(self.int(0) & libc::O_CLOEXEC != 0),
            nr::pidfd_open => self.pidfd_open(),
            nr::pidfd_getfd => Some(Step::Fetch(Announce::Received)),
            nr::io_uring_setup => self.fetch("operations through io_uring are not seen"),
            nr::userfaultfd => self.fetch("page faults are answered by the program"),
            nr::perf_event_open => self.fetch("performance counters"),
            nr::fanotify_init => self.fetch("fanotify watches files of other processes"),
            nr::bpf => self.fetch("BPF programs and maps"),
            nr::landlock_create_ruleset if self.uint(2) != 0 => None,
            nr::landlock_create_ruleset => Some(Step::Fetch(Announce::Nothing)),
            nr::fsopen | nr::fspick | nr::fsmount => self.fetch("mounts are not modelled"),
            nr::mq_open => Some(Step::Fetch(Announce::SharedMemory("POSIX message queue"))),

            // Sockets.
            nr::socket => self.socket(),
            nr::connect => self.connect(),
            nr::bind => self.bind(),
            nr::accept => self.accept(0),
            nr::accept4 => self.accept(self.int(3)),
            nr::recvmsg => self.receive_messages(false),
            nr::recvmmsg => self.receive_messages(true),
            nr::listen
            | nr::shutdown
            | nr::sendto
            | nr::sendmsg
            | nr::sendmmsg
            | nr::recvfrom
            | nr::getsockname
            | nr::getpeername
            | nr::setsockopt
            | nr::getsockopt => self.network(),

            _ => self.dispatch_process(),
        }
    }

    /// A syscall that no decoder claims.
    pub(super) fn unclaimed(&mut self) -> Option<Step> {
        match watch(self.nr) {
            Watch::Never => None,
            _ => self.unsupported("not modelled"),
        }
    }
}
