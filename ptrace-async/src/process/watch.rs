//! The syscalls that a tracer must stop so that the process model stays true.
//!
//! A stop costs ten times as much as a syscall, so calls without new information pass.
//! These calls pass although they observe something:
//!
//! - `read` and its kin on descriptors 3 to 5 and 255 ([`reads_unseen`]). A program's own
//!   files mostly have these numbers (255: the script of a bash), and their opening was
//!   seen. So a file that is inherited there must count as read from the start, and a file
//!   that is duplicated there is reported as read then.
//! - `pread64`, `preadv` and mappings of descriptors from 3 up: they fail on
//!   pipes, sockets and terminals. An inherited file must count as read.
//! - `lseek` on anything but 0, 1 and 2: files opened by the process have no
//!   position that matters to others. The positions of other inherited
//!   descriptors are to be compared at the end.
//! - `TCGETS`, `TCGETS2` and `TIOCGWINSZ` (isatty, window size) on descriptors
//!   other than 0, 1 and 2: C libraries ask them of every file they open.
//! - Other mappings that are not shared, or are executable and not writable. A shared
//!   one that `mprotect` makes writable later needs a description opened for reading
//!   and writing, which counts as a write from the start.
//! - Waiting (`epoll_wait`, `wait4`, `futex`, `nanosleep`): a watched call registered or
//!   created the awaited object. Timers only concern the process that set them.
//! - CPU-time clocks, `getrusage`, `times`, `getitimer`, `mincore`: the time that the
//!   process itself took is noise to every tool.
//! - State that a child inherits and a tool knows from its start: ids, limits, signal
//!   masks, `getcwd`, the process group.
//!
//! These calls stop only because they may fail for a reason that a later run does not meet
//! ([`Failure`](crate::syscall::Failure)): locks, `fork` and its kin, `fsync` and its kin.
//!
//! A test compares this list with the loads and stores of the [syscall
//! table](crate::syscall).

use super::commands::{FIONREAD, HARMLESS_FCNTL, PR_SET_VMA, TCGETS, TCGETS2, TIOCGWINSZ};
use super::nr;
use crate::filter::{Compare, Fault, Filter, Rule, Test};
use crate::unstopped::{NEEDED, PERFORMED};

/// How a filter must treat a syscall so that the model stays true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// Let it pass.
    Never,
    /// Stop at its entry; the exit is not needed.
    Entry,
    /// Stop at its entry, and at its exit if the [`Entry`](super::Entry) asks for it.
    Exit,
    /// As [`Exit`](Self::Exit) when the condition holds, else let it pass.
    If(Condition),
}

impl Watch {
    /// Whether a call with these arguments must stop.
    #[must_use]
    pub fn stops(&self, args: &[u64; 6]) -> bool {
        match self {
            Self::Never => false,
            Self::Entry | Self::Exit => true,
            Self::If(condition) => condition.holds(args),
        }
    }

    /// The same for a [filter](crate::filter).
    #[must_use]
    pub fn rule(&self) -> Rule {
        match self {
            Self::Never => Rule::Allow,
            Self::Entry | Self::Exit => Rule::Trace,
            Self::If(condition) => {
                Rule::TraceIf(condition.any.iter().map(|row| row.to_vec()).collect())
            }
        }
    }
}

/// A condition over the low halves of arguments, which is what a filter can
/// test: it holds when all tests of at least one row do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    /// The rows.
    pub any: &'static [&'static [Test]],
}

impl Condition {
    /// Evaluates the condition.
    #[must_use]
    pub fn holds(&self, args: &[u64; 6]) -> bool {
        let row = |row: &&[Test]| row.iter().all(|test| test.holds(args));
        self.any.iter().any(row)
    }
}

const fn all_bits(argument: u8, compare: Compare, value: u32) -> Test {
    Test {
        argument,
        mask: u32::MAX,
        compare,
        value,
    }
}

const fn equal(argument: u8, value: u32) -> Test {
    all_bits(argument, Compare::Equal, value)
}

const fn differs(argument: u8, value: u32) -> Test {
    all_bits(argument, Compare::NotEqual, value)
}

const fn below(argument: u8, value: u32) -> Test {
    all_bits(argument, Compare::Below, value)
}

const fn at_least(argument: u8, value: u32) -> Test {
    all_bits(argument, Compare::AtLeast, value)
}

/// At least one bit of the mask is set.
const fn any_of(argument: u8, mask: u32) -> Test {
    Test {
        argument,
        mask,
        compare: Compare::NotEqual,
        value: 0,
    }
}

/// No bit of the mask is set.
const fn none_of(argument: u8, mask: u32) -> Test {
    Test {
        argument,
        mask,
        compare: Compare::Equal,
        value: 0,
    }
}

// The low half of a pointer is enough to recognise NULL: the pointers that programs pass
// are no multiples of 4 GiB.

/// Whether reads on this descriptor pass.
pub fn reads_unseen(fd: i32) -> bool {
    matches!(fd, 3..=5 | 255)
}

/// The descriptor in argument 0 is none of [`reads_unseen`].
const READS: Condition = Condition {
    any: &[&[below(0, 3)], &[at_least(0, 6), differs(0, 255)]],
};
const READS_AT_POSITION: Condition = Condition {
    any: &[
        &[below(0, 3)],
        &[equal(3, u32::MAX), at_least(0, 6), differs(0, 255)],
    ],
};
const STANDARD_STREAMS: Condition = Condition {
    any: &[&[below(0, 3)]],
};
const MAPS: Condition = Condition {
    any: &[
        &[
            any_of(2, libc::PROT_WRITE as u32),
            any_of(3, libc::MAP_SHARED as u32),
            none_of(3, libc::MAP_ANONYMOUS as u32),
            below(4, 1 << 31),
        ],
        &[
            none_of(2, libc::PROT_EXEC as u32),
            any_of(3, libc::MAP_SHARED as u32),
            none_of(3, libc::MAP_ANONYMOUS as u32),
            below(4, 1 << 31),
        ],
        &[none_of(3, libc::MAP_ANONYMOUS as u32), below(4, 3)],
    ],
};
const POLLS: Condition = Condition {
    any: &[&[differs(1, 0)]],
};
const SELECTS: Condition = Condition {
    any: &[
        &[differs(0, 0), differs(1, 0)],
        &[differs(0, 0), differs(3, 0)],
    ],
};
const EPOLL_REGISTERS: Condition = Condition {
    any: &[&[differs(1, libc::EPOLL_CTL_DEL as u32)]],
};
const CONTROLS: Condition = Condition {
    any: &[
        &[
            differs(1, TCGETS),
            differs(1, TCGETS2),
            differs(1, TIOCGWINSZ),
            differs(1, FIONREAD),
        ],
        &[below(0, 3)],
        &[equal(1, TIOCGWINSZ)],
        &[equal(1, FIONREAD), at_least(0, 6)],
    ],
};
const FCNTLS: Condition = Condition {
    any: &[&{
        let mut row = [differs(1, 0); HARMLESS_FCNTL.len()];
        let mut index = 0;
        while index < row.len() {
            row[index] = differs(1, HARMLESS_FCNTL[index] as u32);
            index += 1;
        }
        row
    }],
};
const CLOCKS: Condition = Condition {
    any: &[&[
        differs(0, libc::CLOCK_PROCESS_CPUTIME_ID as u32),
        differs(0, libc::CLOCK_THREAD_CPUTIME_ID as u32),
    ]],
};
const SETS_LIMIT: Condition = Condition {
    // A new limit, or somebody else's.
    any: &[&[differs(2, 0)], &[differs(0, 0)]],
};
const PRCTLS: Condition = Condition {
    any: &[&[
        differs(0, libc::PR_SET_NAME as u32),
        differs(0, libc::PR_GET_NAME as u32),
        differs(0, PR_SET_VMA),
    ]],
};
const PERSONALITIES: Condition = Condition {
    any: &[&[differs(0, u32::MAX)]],
};
const OTHERS_MEMORY: Condition = Condition {
    any: &[&[differs(0, 0)]],
};

/// How a syscall must be treated, for every number. A number that is not modelled stops at
/// its entry and is reported as
/// [`IoEvent::Unsupported`](crate::event::IoEvent::Unsupported).
///
/// The source file of this function lists the calls that pass although they observe
/// something.
#[must_use]
pub fn watch(nr: u64) -> Watch {
    match nr {
        // Through a descriptor.
        nr::read | nr::readv => Watch::If(READS),
        nr::preadv2 => Watch::If(READS_AT_POSITION),
        nr::pread64 | nr::preadv => Watch::If(STANDARD_STREAMS),
        nr::write | nr::writev | nr::pwrite64 | nr::pwritev | nr::pwritev2 => Watch::Exit,
        nr::sendfile | nr::splice | nr::tee | nr::vmsplice | nr::copy_file_range => Watch::Exit,
        nr::lseek => Watch::If(STANDARD_STREAMS),
        nr::poll | nr::ppoll => Watch::If(POLLS),
        nr::select | nr::pselect6 => Watch::If(SELECTS),
        nr::epoll_ctl => Watch::If(EPOLL_REGISTERS),
        nr::mmap => Watch::If(MAPS),
        nr::ioctl => Watch::If(CONTROLS),
        nr::fcntl => Watch::If(FCNTLS),
        nr::flock => Watch::Exit,

        // Lookups.
        nr::stat | nr::lstat | nr::fstat | nr::newfstatat | nr::statx => Watch::Entry,
        nr::access | nr::faccessat | nr::faccessat2 => Watch::Entry,
        nr::readlink | nr::readlinkat => Watch::Entry,
        nr::getdents | nr::getdents64 => Watch::Entry,
        nr::statfs | nr::fstatfs => Watch::Entry,
        nr::getxattr | nr::lgetxattr | nr::fgetxattr | nr::getxattrat => Watch::Entry,
        nr::listxattr | nr::llistxattr | nr::flistxattr | nr::listxattrat => Watch::Entry,

        // Changes of the tree.
        nr::open | nr::creat | nr::openat | nr::openat2 | nr::open_by_handle_at => Watch::Exit,
        nr::open_tree | nr::open_tree_attr => Watch::Exit,
        nr::setxattr | nr::lsetxattr | nr::fsetxattr | nr::setxattrat => Watch::Exit,
        nr::removexattr | nr::lremovexattr | nr::fremovexattr | nr::removexattrat => Watch::Exit,
        nr::mkdir | nr::mkdirat | nr::mknod | nr::mknodat => Watch::Exit,
        nr::unlink | nr::unlinkat | nr::rmdir => Watch::Exit,
        nr::rename | nr::renameat | nr::renameat2 => Watch::Exit,
        nr::link | nr::linkat | nr::symlink | nr::symlinkat => Watch::Exit,
        nr::truncate | nr::ftruncate | nr::fallocate => Watch::Exit,
        nr::chmod | nr::fchmod | nr::fchmodat | nr::fchmodat2 => Watch::Exit,
        nr::chown | nr::lchown | nr::fchown | nr::fchownat => Watch::Exit,
        nr::utime | nr::utimes | nr::futimesat | nr::utimensat => Watch::Exit,

        // Descriptors.
        nr::close => Watch::Exit,
        nr::close_range => Watch::Entry,
        nr::dup | nr::dup2 | nr::dup3 => Watch::Exit,
        nr::pipe | nr::pipe2 | nr::socketpair => Watch::Exit,
        nr::epoll_create | nr::epoll_create1 | nr::eventfd | nr::eventfd2 => Watch::Exit,
        nr::timerfd_create | nr::signalfd | nr::signalfd4 => Watch::Exit,
        nr::inotify_init | nr::inotify_init1 => Watch::Exit,
        nr::inotify_add_watch | nr::inotify_rm_watch => Watch::Never,
        nr::memfd_create | nr::memfd_secret => Watch::Exit,
        nr::pidfd_open | nr::pidfd_getfd => Watch::Exit,
        nr::io_uring_setup | nr::userfaultfd | nr::perf_event_open => Watch::Exit,
        nr::fanotify_init | nr::bpf | nr::landlock_create_ruleset => Watch::Exit,
        nr::fsopen | nr::fspick | nr::fsmount | nr::mq_open => Watch::Exit,

        // Sockets.
        nr::socket | nr::accept | nr::accept4 | nr::connect | nr::bind => Watch::Exit,
        nr::recvmsg | nr::recvmmsg => Watch::Exit,
        nr::listen | nr::shutdown | nr::sendto | nr::sendmsg | nr::sendmmsg => Watch::Entry,
        nr::recvfrom | nr::getsockname | nr::getpeername => Watch::Entry,
        nr::setsockopt | nr::getsockopt => Watch::Entry,

        // Processes and places.
        nr::execve | nr::execveat => Watch::Exit,
        nr::fork | nr::vfork | nr::clone | nr::clone3 => Watch::Exit,
        nr::unshare | nr::setns => Watch::Exit,
        nr::chdir | nr::fchdir | nr::chroot | nr::pivot_root => Watch::Exit,
        nr::umask => Watch::Entry,
        nr::kill | nr::tkill | nr::tgkill | nr::pidfd_send_signal => Watch::Entry,
        nr::rt_sigqueueinfo | nr::rt_tgsigqueueinfo => Watch::Entry,
        nr::prctl => Watch::If(PRCTLS),
        nr::seccomp => Watch::Exit,
        nr::landlock_restrict_self => Watch::Exit,
        nr::landlock_add_rule => Watch::Never,
        nr::personality => Watch::If(PERSONALITIES),
        nr::setrlimit => Watch::Exit,
        nr::prlimit64 => Watch::If(SETS_LIMIT),

        // Time, chance, identity.
        nr::clock_gettime => Watch::If(CLOCKS),
        nr::gettimeofday | nr::time | nr::getrandom => Watch::Entry,
        nr::uname | nr::sched_getaffinity | nr::getcpu | nr::sysinfo => Watch::Entry,
        nr::getpriority | nr::ioprio_get | nr::sched_getscheduler => Watch::Entry,
        nr::sched_getparam | nr::sched_getattr | nr::sched_rr_get_interval => Watch::Entry,
        nr::kcmp | nr::process_vm_readv => Watch::Entry,
        nr::move_pages | nr::migrate_pages => Watch::If(OTHERS_MEMORY),

        // State that outlives the call.
        nr::setuid | nr::setgid | nr::setreuid | nr::setregid | nr::setresuid => Watch::Exit,
        nr::setresgid | nr::setfsuid | nr::setfsgid | nr::setgroups | nr::capset => Watch::Exit,
        nr::setpgid | nr::setsid | nr::setpriority | nr::ioprio_set => Watch::Exit,
        nr::sched_setscheduler | nr::sched_setparam | nr::sched_setattr => Watch::Exit,
        nr::sched_setaffinity => Watch::Exit,
        nr::mount | nr::umount2 | nr::move_mount | nr::mount_setattr | nr::fsconfig => Watch::Exit,
        nr::swapon | nr::swapoff | nr::sethostname | nr::setdomainname => Watch::Exit,
        nr::clock_settime | nr::settimeofday | nr::adjtimex | nr::clock_adjtime => Watch::Exit,
        nr::reboot | nr::kexec_load | nr::kexec_file_load => Watch::Exit,
        nr::init_module | nr::finit_module | nr::delete_module => Watch::Exit,
        nr::acct | nr::quotactl | nr::quotactl_fd => Watch::Exit,
        nr::iopl | nr::ioperm | nr::vhangup | nr::lsm_set_self_attr => Watch::Exit,

        // Memory of the process, and how it runs.
        nr::brk | nr::munmap | nr::mremap | nr::mprotect | nr::madvise => Watch::Never,
        nr::remap_file_pages | nr::mincore | nr::mseal => Watch::Never,
        nr::mlock | nr::mlock2 | nr::munlock | nr::mlockall | nr::munlockall => Watch::Never,
        nr::pkey_mprotect | nr::pkey_alloc | nr::pkey_free => Watch::Never,
        nr::mbind | nr::set_mempolicy | nr::get_mempolicy => Watch::Never,
        nr::set_mempolicy_home_node | nr::map_shadow_stack | nr::membarrier => Watch::Never,
        nr::modify_ldt | nr::arch_prctl | nr::set_thread_area => Watch::Never,
        nr::get_thread_area | nr::set_tid_address | nr::rseq => Watch::Never,
        nr::set_robust_list | nr::get_robust_list => Watch::Never,
        nr::futex | nr::futex_waitv | nr::futex_wake => Watch::Never,
        nr::futex_wait | nr::futex_requeue | nr::sched_yield => Watch::Never,
        nr::sched_get_priority_max | nr::sched_get_priority_min => Watch::Never,
        nr::shmdt => Watch::Never,
        nr::io_setup | nr::io_destroy | nr::io_cancel => Watch::Never,
        nr::io_getevents | nr::io_pgetevents => Watch::Never,

        // Signals and waiting.
        nr::rt_sigaction | nr::rt_sigprocmask | nr::rt_sigreturn | nr::rt_sigpending => {
            Watch::Never
        }
        nr::rt_sigtimedwait | nr::rt_sigsuspend | nr::sigaltstack | nr::pause => Watch::Never,
        nr::wait4 | nr::waitid | nr::exit | nr::exit_group | nr::restart_syscall => Watch::Never,
        nr::epoll_wait | nr::epoll_pwait | nr::epoll_pwait2 => Watch::Never,
        nr::nanosleep | nr::clock_nanosleep | nr::alarm => Watch::Never,
        nr::getitimer | nr::setitimer => Watch::Never,
        nr::timer_create | nr::timer_settime | nr::timer_gettime => Watch::Never,
        nr::timer_getoverrun | nr::timer_delete => Watch::Never,
        nr::timerfd_settime | nr::timerfd_gettime => Watch::Never,

        // Values that are known from the start, or noise.
        nr::getpid | nr::getppid | nr::gettid | nr::getpgrp | nr::getpgid => Watch::Never,
        nr::getsid | nr::getuid | nr::geteuid | nr::getgid | nr::getegid => Watch::Never,
        nr::getresuid | nr::getresgid | nr::getgroups | nr::capget => Watch::Never,
        nr::getcwd | nr::getrlimit | nr::getrusage | nr::times => Watch::Never,
        nr::clock_getres => Watch::Never,

        // Durability and hints.
        nr::msync | nr::syncfs | nr::fsync | nr::fdatasync | nr::sync_file_range => Watch::Exit,
        nr::sync | nr::readahead | nr::fadvise64 => Watch::Never,

        // Cannot be followed, reported with its reason.
        nr::ptrace | nr::process_vm_writev | nr::process_madvise => Watch::Entry,
        nr::process_mrelease | nr::io_submit | nr::io_uring_enter => Watch::Entry,
        nr::io_uring_register | nr::fanotify_mark | nr::name_to_handle_at => Watch::Entry,
        nr::add_key | nr::request_key | nr::keyctl | nr::syslog => Watch::Entry,
        nr::ustat | nr::sysfs | nr::statmount | nr::listmount | nr::listns => Watch::Entry,
        nr::file_getattr | nr::file_setattr | nr::cachestat => Watch::Entry,
        nr::lsm_get_self_attr | nr::lsm_list_modules => Watch::Entry,
        nr::uretprobe | nr::uprobe => Watch::Entry,

        // Shared with outsiders.
        nr::shmget | nr::shmat | nr::shmctl | nr::semget | nr::semop => Watch::Entry,
        nr::semtimedop | nr::semctl | nr::msgget | nr::msgsnd | nr::msgrcv => Watch::Entry,
        nr::msgctl | nr::mq_unlink | nr::mq_timedsend | nr::mq_timedreceive => Watch::Entry,
        nr::mq_notify | nr::mq_getsetattr => Watch::Entry,

        // Kernels have no longer, or never had, more than the number.
        nr::lookup_dcookie | nr::uselib | nr::_sysctl | nr::nfsservctl => Watch::Entry,
        nr::getpmsg | nr::putpmsg | nr::afs_syscall | nr::tuxcall | nr::security => Watch::Entry,
        nr::vserver | nr::epoll_ctl_old | nr::epoll_wait_old => Watch::Entry,
        nr::create_module | nr::get_kernel_syms | nr::query_module => Watch::Entry,

        _ => Watch::Entry,
    }
}

/// The filter that keeps the process model true. It stops the calls that [`watch`] asks
/// for, and every unknown number.
pub fn watching() -> Filter {
    watching_with(None)
}

/// The same filter, with a fault to inject.
#[must_use]
pub fn watching_with(fault: Option<Fault>) -> Filter {
    Filter::build(512, |number| match fault {
        Some(fault) if fault.number == number => Rule::Fails(fault, Box::new(rule_of_call(number))),
        _ => rule_of_call(number),
    })
}

fn rule_of_call(nr: u32) -> Rule {
    let rule = watch(u64::from(nr)).rule();
    let nr = i64::from(nr);
    let from_code = PERFORMED.contains(&nr) || NEEDED.contains(&nr);
    if rule == Rule::Allow || !from_code {
        return rule;
    }
    let rule = Rule::UnlessInProcess(Box::new(rule));
    // A program that starts in process makes these calls before the code is mapped.
    if nr == libc::SYS_openat || nr == libc::SYS_close {
        Rule::UnlessStarting(Box::new(rule))
    } else {
        rule
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{ARCH_X86_64, Filter};
    use crate::syscall::{Object, Return, Syscall};

    #[track_caller]
    fn check(nr: u64, args: [u64; 6], expected: bool) {
        assert_eq!(
            watch(nr).stops(&args),
            expected,
            "{} {args:?}",
            nr::name(nr)
        );
    }

    #[test]
    fn reads_stop_on_the_standard_streams_and_from_six_on() {
        for fd in [0, 2, 3, 5, 6, 254, 255, 256] {
            let stops = !reads_unseen(fd);
            let fd = fd as u64;
            check(nr::read, [fd, 0, 0, 0, 0, 0], stops);
            check(nr::readv, [fd, 0, 0, 0, 0, 0], stops);
            check(nr::preadv2, [fd, 0, 0, u64::MAX, 0, 0], stops);
            check(nr::preadv2, [fd, 0, 0, 8, 0, 0], fd < 3);
            check(nr::pread64, [fd, 0, 0, 8, 0, 0], fd < 3);
        }
        check(nr::read, [u64::MAX, 0, 0, 0, 0, 0], true);
    }

    #[test]
    fn only_shared_mappings_and_those_of_standard_streams_stop() {
        let map = |protection: i32, flags: i32, fd: i64, stops| {
            let args = [0, 4096, protection as u64, flags as u64, fd as u64, 0];
            check(nr::mmap, args, stops);
        };
        let (read, write) = (libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE);
        map(write, libc::MAP_SHARED, 3, true);
        map(write, libc::MAP_SHARED_VALIDATE, 3, true);
        map(read, libc::MAP_SHARED, 3, true);
        map(read | libc::PROT_EXEC, libc::MAP_SHARED, 3, false);
        map(write | libc::PROT_EXEC, libc::MAP_SHARED, 3, true);
        map(write, libc::MAP_PRIVATE, 3, false);
        map(read, libc::MAP_PRIVATE, 0, true);
        map(read, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, 0, false);
        map(write, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, false);
    }

    #[test]
    fn harmless_requests_pass_and_the_rest_stops() {
        let fcntl = |command: i32, stops| check(nr::fcntl, [3, command as u64, 0, 0, 0, 0], stops);
        fcntl(libc::F_GETFD, false);
        fcntl(libc::F_GETFL, false);
        fcntl(libc::F_DUPFD, true);
        fcntl(libc::F_SETFD, true);
        fcntl(libc::F_OFD_SETLKW, true);
        fcntl(4711, true);
        check(nr::ioctl, [3, u64::from(TCGETS), 0, 0, 0, 0], false);
        check(nr::ioctl, [1, u64::from(TCGETS), 0, 0, 0, 0], true);
        check(nr::ioctl, [3, 0x5451, 0, 0, 0, 0], true);
        check(nr::prctl, [u64::from(PR_SET_VMA), 0, 0, 0, 0, 0], false);
        check(nr::clock_gettime, [2, 0, 0, 0, 0, 0], false);
        check(nr::clock_gettime, [0, 0, 0, 0, 0, 0], true);
        check(nr::prlimit64, [0, 7, 0, 0x1000, 0, 0], false);
        check(nr::prlimit64, [0, 7, 0x1000, 0, 0, 0], true);
    }

    /// The calls for which the documentation of this module gives reasons.
    const LET_THROUGH: &[u64] = &[
        // Waiting.
        nr::nanosleep,
        nr::clock_nanosleep,
        nr::rt_sigtimedwait,
        nr::futex,
        nr::futex_wait,
        nr::futex_waitv,
        nr::io_getevents,
        nr::io_pgetevents,
        nr::epoll_wait,
        nr::epoll_pwait,
        nr::epoll_pwait2,
        nr::restart_syscall,
        // Timers of the process itself.
        nr::alarm,
        nr::getitimer,
        nr::setitimer,
        nr::timer_settime,
        nr::timer_gettime,
        nr::timer_getoverrun,
        nr::timerfd_settime,
        nr::timerfd_gettime,
        nr::times,
        // `Processes::exited` reports the end.
        nr::exit,
        nr::exit_group,
        // Reported when their descriptor or segment was made or attached.
        nr::inotify_add_watch,
        nr::inotify_rm_watch,
        nr::landlock_add_rule,
        nr::shmdt,
        // Constants of the machine, and the state of its caches.
        nr::clock_getres,
        nr::pkey_alloc,
        nr::mincore,
        // Known from the start.
        nr::getcwd,
    ];

    #[test]
    fn calls_with_visible_effects_in_the_syscall_table_are_watched() {
        use Object as O;
        let changes = |object: &O| {
            matches!(
                object,
                O::FdTable
                    | O::File(_)
                    | O::Content(_)
                    | O::Name(_)
                    | O::Node(_)
                    | O::Cwd
                    | O::Root
                    | O::Umask
                    | O::Mounts
                    | O::Namespaces
                    | O::Groups
                    | O::Credentials
                    | O::Limits
                    | O::Scheduling
                    | O::Network
                    | O::Ipc
                    | O::Keys
                    | O::Machine
            )
        };
        let observes = |object: &O| {
            matches!(
                object,
                O::Name(_)
                    | O::Node(_)
                    | O::Mounts
                    | O::Clock
                    | O::Random
                    | O::Network
                    | O::Ipc
                    | O::Keys
                    | O::Machine
            )
        };
        let mut missed = Vec::new();
        for number in 0..nr::END {
            let Some(spec) = Syscall::of(number).spec() else {
                continue;
            };
            let visible = spec.stores.iter().any(changes)
                || spec.loads.iter().any(observes)
                || spec.returns == Return::Fd;
            if visible && watch(number) == Watch::Never && !LET_THROUGH.contains(&number) {
                missed.push(format!("{} {:?} {:?}", spec.name, spec.loads, spec.stores));
            }
        }
        assert_eq!(missed, Vec::<String>::new());
    }

    #[test]
    fn a_filter_stops_exactly_what_the_conditions_say() {
        let filter = Filter::build(nr::END as u32, |number| watch(number.into()).rule());
        let values = [0, 1, 2, 3, 5, 6, 15, 1030, 0x5401, u64::MAX, 0x1_0000_0000];
        for number in 0..nr::END + 2 {
            for first in values {
                for second in values {
                    let args = [first, second, first, second, 3, 0];
                    let stops = watch(number).stops(&args);
                    assert_eq!(filter.stops(ARCH_X86_64, number, &args), stops);
                }
            }
        }
    }

    #[test]
    fn unassigned_numbers_stop() {
        for nr in [400, nr::END, 0x4000_0000, u64::MAX] {
            assert_eq!(watch(nr), Watch::Entry);
            assert_eq!(nr::name(nr), "unknown");
        }
    }
}
