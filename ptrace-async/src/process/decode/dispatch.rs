//! From a syscall's number to the decoder of its arguments.

use smallvec::SmallVec;

use super::context::{AT_FDCWD, EntryContext};
use super::step::{Buffers, Entry, ExitStep, Pending, Report};
use crate::event::{AttributeChange, Identity, IoEvent, Tid};
use crate::invocation::Invocation;
use crate::memory::Memory;
use crate::process::model::Processes;
use crate::process::nr;
use crate::process::watch::{Watch, watch};

/// Decodes a syscall at its entry; see [`Processes::entry`].
pub(super) fn entry(
    model: &mut Processes,
    tid: Tid,
    call: &Invocation,
    memory: &dyn Memory,
    out: &mut SmallVec<[IoEvent; 2]>,
) -> Entry {
    let known = model.ensure(tid);
    let mut context = EntryContext {
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
        context.unsupported("the task is unknown, and /proc does not show it")
    };
    Entry {
        pending: step.map(|step| Pending { nr: call.nr, step }),
        about_to_change: context.about_to_change,
    }
}

impl EntryContext<'_> {
    /// One arm per syscall; what is not listed is either none of the model's
    /// business (`Watch::Never`) or not modelled.
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn dispatch(&mut self) -> Option<ExitStep> {
        let a = self.args;
        match self.nr {
            // Opening.
            nr::open => self.open(AT_FDCWD, a[0], self.int(1), self.uint(2)),
            nr::creat => self.creat(),
            nr::openat => self.open(self.int(0), a[1], self.int(2), self.uint(3)),
            nr::openat2 => self.openat2(),
            nr::open_by_handle_at => {
                self.unsupported("a file opened by handle has no name to observe");
                Some(ExitStep::Fetch(Report::Nothing))
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
            nr::setxattr => self.xattr_write(Self::by_path, 1, self.attribute_change()),
            nr::lsetxattr => self.xattr_write(Self::by_link, 1, self.attribute_change()),
            nr::fsetxattr => self.xattr_write(Self::by_descriptor, 1, self.attribute_change()),
            // Its flags are in memory.
            nr::setxattrat => self.xattr_write(Self::by_at, 3, AttributeChange::Replace),
            nr::removexattr => self.xattr_write(Self::by_path, 1, AttributeChange::Remove),
            nr::lremovexattr => self.xattr_write(Self::by_link, 1, AttributeChange::Remove),
            nr::fremovexattr => self.xattr_write(Self::by_descriptor, 1, AttributeChange::Remove),
            nr::removexattrat => self.xattr_write(Self::by_at, 3, AttributeChange::Remove),
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
            nr::fsync | nr::fdatasync | nr::syncfs | nr::sync_file_range | nr::msync => {
                Some(ExitStep::Result)
            }
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
            nr::pidfd_getfd => Some(ExitStep::Fetch(Report::Received)),
            nr::io_uring_setup => self.fetch("operations through io_uring are not seen"),
            nr::userfaultfd => self.fetch("the program answers page faults itself"),
            nr::perf_event_open => self.fetch("performance counters are not modelled"),
            nr::fanotify_init => self.fetch("fanotify watches files of other processes"),
            nr::bpf => self.fetch("BPF programs and maps are not modelled"),
            nr::landlock_create_ruleset if self.uint(2) != 0 => None,
            nr::landlock_create_ruleset => Some(ExitStep::Fetch(Report::Nothing)),
            nr::fsopen | nr::fspick | nr::fsmount => self.fetch("mounts are not modelled"),
            nr::mq_open => Some(ExitStep::Fetch(Report::SharedMemory("POSIX message queue"))),

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
    pub(super) fn not_decoded(&mut self) -> Option<ExitStep> {
        match watch(self.nr) {
            Watch::Never => None,
            _ => self.unsupported("not modelled"),
        }
    }

    #[expect(clippy::too_many_lines, reason = "a table")]
    pub(super) fn dispatch_process(&mut self) -> Option<ExitStep> {
        let a = self.args;
        match self.nr {
            nr::execve => self.exec(AT_FDCWD, a[0], (a[1], a[2]), 0),
            nr::execveat => self.exec(self.int(0), a[1], (a[2], a[3]), self.int(4)),
            nr::clone => self.clone(self.args[0] & 0xffff_ff00, a[2]),
            nr::clone3 => self.clone3(),
            // `Processes::spawned` announces the child.
            nr::fork | nr::vfork => None,
            nr::unshare => Some(ExitStep::Unshare { flags: a[0] }),
            nr::setns => Some(ExitStep::Relocated {
                what: "namespaces",
                everyone: false,
            }),

            nr::chdir => self.chdir(),
            nr::fchdir => self.fchdir(),
            nr::chroot => self.chroot(),
            nr::pivot_root => Some(ExitStep::Relocated {
                what: "mounts",
                everyone: true,
            }),
            nr::umask => self.umask(),

            nr::clock_gettime => self.clock(self.int(0)),
            nr::gettimeofday | nr::time => self.clock(-1),
            nr::getrandom => self.random(),
            nr::uname => self.identity(Identity::Uname),
            nr::sched_getaffinity => self.identity(Identity::Affinity),
            nr::getcpu => self.identity(Identity::Cpu),
            nr::sysinfo => self.identity(Identity::Sysinfo),
            nr::getpriority
            | nr::ioprio_get
            | nr::sched_getscheduler
            | nr::sched_getparam
            | nr::sched_getattr
            | nr::sched_rr_get_interval => self.identity(Identity::Scheduling),
            nr::kcmp => self.identity(Identity::OtherProcess),
            nr::process_vm_readv if self.is_own_process(self.int(0)) => None,
            nr::process_vm_readv => self.identity(Identity::OtherProcess),

            nr::kill => self.kill(self.int(0), self.int(1)),
            nr::tgkill => self.kill(self.int(0), self.int(2)),
            nr::tkill => self.tkill(),
            nr::rt_sigqueueinfo => self.kill(self.int(0), self.int(1)),
            nr::rt_tgsigqueueinfo => self.kill(self.int(0), self.int(2)),
            nr::pidfd_send_signal => self.pidfd_send_signal(),

            nr::setrlimit => self.limit(),
            nr::prlimit64 if a[2] != 0 => self.limit_of(),
            nr::prlimit64 if self.int(0) == 0 || self.is_own_process(self.int(0)) => None,
            nr::prlimit64 => self.identity(Identity::OtherProcess),
            nr::prctl => self.prctl(),
            nr::personality if self.uint(0) == u32::MAX => None,
            nr::personality => self.state("personality"),
            nr::seccomp => self.seccomp(),
            nr::landlock_restrict_self => self.state("landlock restrictions"),
            nr::landlock_add_rule => None,

            nr::setuid
            | nr::setgid
            | nr::setreuid
            | nr::setregid
            | nr::setresuid
            | nr::setresgid
            | nr::setfsuid
            | nr::setfsgid
            | nr::setgroups => self.state("credentials"),
            nr::capset => self.state("capabilities"),
            nr::setpgid => self.state("process group"),
            nr::setsid => self.state("session"),
            nr::setpriority => self.state("priority"),
            nr::ioprio_set => self.state("input and output priority"),
            nr::sched_setscheduler | nr::sched_setparam | nr::sched_setattr => {
                self.state("scheduling policy")
            }
            nr::sched_setaffinity => self.state("processor affinity"),
            nr::mount | nr::umount2 | nr::move_mount | nr::mount_setattr | nr::fsconfig => {
                self.state("mounts")
            }
            nr::swapon | nr::swapoff => self.state("swap space"),
            nr::sethostname | nr::setdomainname => self.state("host name"),
            nr::clock_settime | nr::settimeofday | nr::adjtimex | nr::clock_adjtime => {
                self.state("system clock")
            }
            nr::reboot | nr::kexec_load | nr::kexec_file_load => self.state("the machine"),
            nr::init_module | nr::finit_module | nr::delete_module => self.state("kernel modules"),
            nr::acct | nr::quotactl | nr::quotactl_fd => self.state("accounting and quotas"),
            nr::iopl | nr::ioperm => self.state("port permissions"),
            nr::vhangup => self.state("terminal"),
            nr::lsm_set_self_attr => self.state("security attributes"),

            nr::shmget | nr::shmat | nr::shmctl => self.shared("System V shared memory"),
            nr::semget | nr::semop | nr::semtimedop | nr::semctl => {
                self.shared("System V semaphore")
            }
            nr::msgget | nr::msgsnd | nr::msgrcv | nr::msgctl => {
                self.shared("System V message queue")
            }
            nr::mq_unlink
            | nr::mq_timedsend
            | nr::mq_timedreceive
            | nr::mq_notify
            | nr::mq_getsetattr => self.shared("POSIX message queue"),

            nr::ptrace => self.unsupported("a traced program cannot trace another one"),
            nr::process_vm_writev => self.unsupported("memory of another process is written"),
            nr::process_madvise | nr::process_mrelease => {
                self.unsupported("memory of another process is managed")
            }
            nr::move_pages | nr::migrate_pages if self.int(0) == 0 => None,
            nr::move_pages | nr::migrate_pages => {
                self.unsupported("memory of another process is managed")
            }
            nr::io_submit => self.unsupported("asynchronous input and output is not followed"),
            nr::io_uring_enter | nr::io_uring_register => {
                self.unsupported("operations through io_uring are not seen")
            }
            nr::fanotify_mark => self.unsupported("fanotify watches files of other processes"),
            nr::name_to_handle_at => self.unsupported("file handles are not modelled"),
            nr::add_key | nr::request_key | nr::keyctl => {
                self.unsupported("key rings are not modelled")
            }
            nr::syslog => self.unsupported("the kernel's log is not modelled"),
            nr::ustat | nr::sysfs => self.unsupported("file system tables are not modelled"),
            nr::statmount | nr::listmount | nr::listns => {
                self.unsupported("mount and namespace tables are not modelled")
            }
            nr::file_getattr | nr::file_setattr => self.unsupported("inode flags are not modelled"),
            nr::cachestat => self.unsupported("the state of the page cache is not modelled"),
            nr::lsm_get_self_attr | nr::lsm_list_modules => {
                self.unsupported("security modules are not modelled")
            }
            nr::uretprobe | nr::uprobe => self.unsupported("a kernel probe watches the program"),
            nr::lookup_dcookie
            | nr::uselib
            | nr::_sysctl
            | nr::nfsservctl
            | nr::getpmsg
            | nr::putpmsg
            | nr::afs_syscall
            | nr::tuxcall
            | nr::security
            | nr::vserver
            | nr::epoll_ctl_old
            | nr::epoll_wait_old
            | nr::create_module
            | nr::get_kernel_syms
            | nr::query_module => self.unsupported("the kernel does not implement it"),

            _ => self.not_decoded(),
        }
    }
}
