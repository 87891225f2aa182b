//! Symbolic names of flag words and enumerated arguments.

use std::fmt;

/// The names of the values and bits of one kind of argument.
///
/// A word can hold a value in some bits and flags in the others, as the flags
/// of `open` do (access mode and bits) or those of `clone` (signal and bits).
#[derive(Debug)]
pub struct FlagSet {
    /// The bits that hold an enumerated value.
    pub mask: u64,
    /// Names of values under the mask.
    pub values: &'static [(u64, &'static str)],
    /// Names of bits outside of the mask. A name that covers several bits
    /// comes before those that cover some of them.
    pub bits: &'static [(u64, &'static str)],
}

impl FlagSet {
    /// Writes `word` symbolically; bits without a name follow in hexadecimal.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, word: u64, out: &mut dyn fmt::Write) -> fmt::Result {
        let mut rest = word & !self.mask;
        let value = word & self.mask;
        let mut first = true;
        if let Some((_, name)) = self.values.iter().find(|(known, _)| *known == value) {
            out.write_str(name)?;
            first = false;
        } else {
            rest |= value;
        }
        for &(bits, name) in self.bits {
            if bits != 0 && rest & bits == bits {
                rest &= !bits;
                if !first {
                    out.write_char('|')?;
                }
                out.write_str(name)?;
                first = false;
            }
        }
        if rest != 0 || first {
            if !first {
                out.write_char('|')?;
            }
            if rest == 0 {
                out.write_char('0')?;
            } else {
                write!(out, "{rest:#x}")?;
            }
        }
        Ok(())
    }

    /// [`FlagSet::write`] into a string.
    #[must_use]
    pub fn format(&self, word: u64) -> String {
        let mut out = String::new();
        let _ = self.write(word, &mut out);
        out
    }
}

/// A list of (value, name); a name that the `libc` crate lacks carries its value.
macro_rules! names {
    ([$($done:tt)*]) => { &[$($done)*] };
    ([$($done:tt)*] $name:ident = $value:expr $(, $($rest:tt)*)?) => {
        names!([$($done)* ($value, stringify!($name)),] $($($rest)*)?)
    };
    ([$($done:tt)*] $name:ident $(, $($rest:tt)*)?) => {
        names!([$($done)* (libc::$name as u64, stringify!($name)),] $($($rest)*)?)
    };
}

macro_rules! flag_sets {
    ($($(#[$doc:meta])* $set:ident { $(values $mask:literal [$($values:tt)*])? $(bits [$($bits:tt)*])? })*) => {
        $(
            $(#[$doc])*
            pub const $set: &FlagSet = &FlagSet {
                mask: 0 $(| $mask)?,
                values: names!([] $($($values)*)?),
                bits: names!([] $($($bits)*)?),
            };
        )*
    };
}

flag_sets! {
    /// Flags without names.
    PLAIN { bits [] }
    /// `open`, `openat`.
    OPEN {
        values 0x3 [O_RDONLY, O_WRONLY, O_RDWR]
        bits [
            O_TMPFILE, O_CREAT, O_EXCL, O_NOCTTY, O_TRUNC, O_APPEND, O_NONBLOCK, O_SYNC, O_DSYNC,
            O_ASYNC, O_DIRECT, O_LARGEFILE = 0o10_0000, O_DIRECTORY, O_NOFOLLOW, O_NOATIME,
            O_CLOEXEC, O_PATH
        ]
    }
    /// `pipe2`, `dup3`, `userfaultfd`: bits of `open` without an access mode.
    PIPE { bits [O_CLOEXEC, O_NONBLOCK, O_DIRECT, O_NOTIFICATION_PIPE = 0o200] }
    /// The `AT_*` flags.
    AT {
        bits [
            AT_SYMLINK_NOFOLLOW, AT_REMOVEDIR, AT_SYMLINK_FOLLOW, AT_NO_AUTOMOUNT, AT_EMPTY_PATH,
            AT_STATX_FORCE_SYNC = 0x2000, AT_STATX_DONT_SYNC = 0x4000, AT_RECURSIVE
        ]
    }
    /// `faccessat2`, whose 0x200 is not `AT_REMOVEDIR`.
    AT_ACCESS { bits [AT_SYMLINK_NOFOLLOW, AT_EACCESS, AT_EMPTY_PATH] }
    /// `access`.
    ACCESS { bits [R_OK, W_OK, X_OK] }
    /// `lseek`.
    WHENCE { values 0xffff_ffff [SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA, SEEK_HOLE] }
    /// `renameat2`.
    RENAME { bits [RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT] }
    /// `preadv2`, `pwritev2`.
    RWF { bits [RWF_HIPRI, RWF_DSYNC, RWF_SYNC, RWF_NOWAIT, RWF_APPEND, RWF_NOAPPEND = 0x20, RWF_ATOMIC = 0x40, RWF_DONTCACHE = 0x80] }
    /// `flock`.
    FLOCK { values 0xf [LOCK_SH, LOCK_EX, LOCK_UN] bits [LOCK_NB] }
    /// `fcntl` commands.
    FCNTL {
        values 0xffff_ffff [
            F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_SETLKW, F_SETOWN,
            F_GETOWN, F_SETSIG = 10, F_GETSIG = 11, F_SETOWN_EX = 15, F_GETOWN_EX = 16,
            F_GETOWNER_UIDS = 17, F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_SETLEASE, F_GETLEASE,
            F_NOTIFY, F_DUPFD_QUERY = 1027, F_CREATED_QUERY = 1028, F_CANCELLK = 1029,
            F_DUPFD_CLOEXEC, F_SETPIPE_SZ, F_GETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS,
            F_GET_RW_HINT = 1035, F_SET_RW_HINT = 1036, F_GET_FILE_RW_HINT = 1037,
            F_SET_FILE_RW_HINT = 1038
        ]
    }
    /// `ioctl` requests.
    IOCTL {
        values 0xffff_ffff [
            TCGETS, TCSETS, TCSETSW, TCSETSF, TCGETA, TCSETA, TCSBRK, TCXONC, TCFLSH, TCGETS2,
            TCSETS2, TIOCEXCL, TIOCNXCL, TIOCSCTTY, TIOCGPGRP, TIOCSPGRP, TIOCOUTQ, TIOCGWINSZ,
            TIOCSWINSZ, FIONREAD, TIOCNOTTY, TIOCGSID, TIOCGPTN, TIOCSPTLCK, TIOCGPTPEER, FIONBIO,
            FIONCLEX, FIOCLEX, FIOASYNC, FICLONE, FICLONERANGE, FS_IOC_GETFLAGS, FS_IOC_SETFLAGS,
            BLKGETSIZE64 = 0x8008_1272, BLKSSZGET, FS_IOC_FIEMAP = 0xc020_660b, TIOCSTI,
            SIOCGIFCONF, SIOCGIFFLAGS, SIOCGIFADDR, SIOCGIFINDEX
        ]
    }
    /// `fallocate`.
    FALLOCATE {
        bits [
            FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, FALLOC_FL_COLLAPSE_RANGE,
            FALLOC_FL_ZERO_RANGE, FALLOC_FL_INSERT_RANGE, FALLOC_FL_UNSHARE_RANGE
        ]
    }
    /// `fadvise64`.
    FADVISE {
        values 0xffff_ffff [
            POSIX_FADV_NORMAL, POSIX_FADV_RANDOM, POSIX_FADV_SEQUENTIAL, POSIX_FADV_WILLNEED,
            POSIX_FADV_DONTNEED, POSIX_FADV_NOREUSE
        ]
    }
    /// `splice`, `tee`, `vmsplice`.
    SPLICE { bits [SPLICE_F_MOVE, SPLICE_F_NONBLOCK, SPLICE_F_MORE, SPLICE_F_GIFT] }
    /// `sync_file_range`.
    SYNC_RANGE {
        bits [SYNC_FILE_RANGE_WAIT_BEFORE, SYNC_FILE_RANGE_WRITE, SYNC_FILE_RANGE_WAIT_AFTER]
    }
    /// `close_range`.
    CLOSE_RANGE { bits [CLOSE_RANGE_UNSHARE = 2, CLOSE_RANGE_CLOEXEC = 4] }
    /// The mask of `statx`.
    STATX {
        bits [
            STATX_ALL = 0xfff, STATX_BASIC_STATS = 0x7ff, STATX_TYPE, STATX_MODE, STATX_NLINK,
            STATX_UID, STATX_GID, STATX_ATIME, STATX_MTIME, STATX_CTIME, STATX_INO, STATX_SIZE,
            STATX_BLOCKS, STATX_BTIME, STATX_MNT_ID, STATX_DIOALIGN = 0x2000,
            STATX_MNT_ID_UNIQUE = 0x4000, STATX_SUBVOL = 0x8000, STATX_WRITE_ATOMIC = 0x1_0000
        ]
    }
    /// `setxattr`.
    XATTR { bits [XATTR_CREATE = 1, XATTR_REPLACE = 2] }
    /// Protection of a mapping.
    PROT {
        values 0xf [PROT_NONE]
        bits [
            PROT_READ, PROT_WRITE, PROT_EXEC, PROT_SEM = 8, PROT_GROWSDOWN = 0x100_0000,
            PROT_GROWSUP = 0x200_0000
        ]
    }
    /// `mmap`.
    MMAP {
        values 0xf [MAP_SHARED, MAP_PRIVATE, MAP_SHARED_VALIDATE]
        bits [
            MAP_FIXED, MAP_ANONYMOUS, MAP_32BIT, MAP_GROWSDOWN, MAP_DENYWRITE, MAP_EXECUTABLE,
            MAP_LOCKED, MAP_NORESERVE, MAP_POPULATE, MAP_NONBLOCK, MAP_STACK, MAP_HUGETLB,
            MAP_SYNC, MAP_FIXED_NOREPLACE
        ]
    }
    /// `mremap`.
    MREMAP { bits [MREMAP_MAYMOVE, MREMAP_FIXED, MREMAP_DONTUNMAP] }
    /// `msync`.
    MSYNC { bits [MS_ASYNC, MS_INVALIDATE, MS_SYNC] }
    /// `mlockall`.
    MLOCKALL { bits [MCL_CURRENT, MCL_FUTURE, MCL_ONFAULT] }
    /// `mlock2`.
    MLOCK { bits [MLOCK_ONFAULT = 1] }
    /// `madvise`.
    MADVISE {
        values 0xffff_ffff [
            MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DONTNEED, MADV_FREE,
            MADV_REMOVE, MADV_DONTFORK, MADV_DOFORK, MADV_MERGEABLE, MADV_UNMERGEABLE,
            MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_DONTDUMP, MADV_DODUMP, MADV_WIPEONFORK,
            MADV_KEEPONFORK, MADV_COLD = 20, MADV_PAGEOUT = 21, MADV_POPULATE_READ = 22,
            MADV_POPULATE_WRITE = 23, MADV_DONTNEED_LOCKED = 24, MADV_COLLAPSE = 25,
            MADV_HWPOISON = 100, MADV_SOFT_OFFLINE = 101, MADV_GUARD_INSTALL = 102,
            MADV_GUARD_REMOVE = 103
        ]
    }
    /// `memfd_create`.
    MEMFD {
        bits [MFD_CLOEXEC, MFD_ALLOW_SEALING, MFD_HUGETLB, MFD_NOEXEC_SEAL = 8, MFD_EXEC = 16]
    }
    /// `clone`: the low byte is the signal sent at exit.
    CLONE {
        values 0xff [SIGCHLD]
        bits [
            CLONE_VM, CLONE_FS, CLONE_FILES, CLONE_SIGHAND, CLONE_PIDFD, CLONE_PTRACE, CLONE_VFORK,
            CLONE_PARENT, CLONE_THREAD, CLONE_NEWNS, CLONE_SYSVSEM, CLONE_SETTLS,
            CLONE_PARENT_SETTID, CLONE_CHILD_CLEARTID, CLONE_DETACHED, CLONE_UNTRACED,
            CLONE_CHILD_SETTID, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER,
            CLONE_NEWPID, CLONE_NEWNET, CLONE_IO, CLONE_CLEAR_SIGHAND = 0x1_0000_0000,
            CLONE_INTO_CGROUP = 0x2_0000_0000
        ]
    }
    /// `unshare`, `setns`, `clone3`: the bits of `clone` without a signal.
    UNSHARE {
        bits [
            CLONE_NEWTIME = 0x80, CLONE_VM, CLONE_FS, CLONE_FILES, CLONE_SIGHAND, CLONE_PIDFD,
            CLONE_PTRACE, CLONE_VFORK, CLONE_PARENT, CLONE_THREAD, CLONE_NEWNS, CLONE_SYSVSEM,
            CLONE_SETTLS, CLONE_PARENT_SETTID, CLONE_CHILD_CLEARTID, CLONE_UNTRACED,
            CLONE_CHILD_SETTID, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER,
            CLONE_NEWPID, CLONE_NEWNET, CLONE_IO, CLONE_CLEAR_SIGHAND = 0x1_0000_0000,
            CLONE_INTO_CGROUP = 0x2_0000_0000
        ]
    }
    /// `wait4`, `waitid`.
    WAIT {
        bits [
            WNOHANG, WSTOPPED, WEXITED, WCONTINUED, WNOWAIT, __WNOTHREAD, __WALL, __WCLONE
        ]
    }
    /// The first argument of `waitid`.
    WAIT_WHICH { values 0xffff_ffff [P_ALL, P_PID, P_PGID, P_PIDFD] }
    /// `getrusage`.
    RUSAGE_WHO {
        values 0xffff_ffff [
            RUSAGE_SELF, RUSAGE_CHILDREN = 0xffff_ffff, RUSAGE_THREAD
        ]
    }
    /// `getpriority`.
    PRIORITY_WHICH { values 0xffff_ffff [PRIO_PROCESS, PRIO_PGRP, PRIO_USER] }
    /// `getrlimit`, `prlimit64`.
    RLIMIT {
        values 0xffff_ffff [
            RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_DATA, RLIMIT_STACK, RLIMIT_CORE, RLIMIT_RSS,
            RLIMIT_NPROC, RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_AS, RLIMIT_LOCKS,
            RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE, RLIMIT_NICE, RLIMIT_RTPRIO, RLIMIT_RTTIME
        ]
    }
    /// Scheduling policies.
    SCHED {
        values 0xffff [SCHED_OTHER, SCHED_FIFO, SCHED_RR, SCHED_BATCH, SCHED_IDLE, SCHED_DEADLINE, SCHED_EXT = 7]
        bits [SCHED_RESET_ON_FORK]
    }
    /// `prctl` options.
    PRCTL {
        values 0xffff_ffff [
            PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_DUMPABLE, PR_GET_KEEPCAPS,
            PR_SET_KEEPCAPS, PR_SET_NAME, PR_GET_NAME, PR_GET_SECCOMP, PR_SET_SECCOMP,
            PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_GET_TSC, PR_SET_TSC, PR_GET_SECUREBITS,
            PR_SET_SECUREBITS, PR_SET_TIMERSLACK, PR_GET_TIMERSLACK, PR_SET_MM,
            PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS,
            PR_GET_NO_NEW_PRIVS, PR_GET_TID_ADDRESS, PR_SET_THP_DISABLE, PR_GET_THP_DISABLE,
            PR_CAP_AMBIENT, PR_GET_SPECULATION_CTRL, PR_SET_SPECULATION_CTRL,
            PR_SET_SYSCALL_USER_DISPATCH = 59, PR_SCHED_CORE, PR_SET_MDWE, PR_GET_MDWE,
            PR_SET_VMA, PR_SET_PTRACER, PR_GET_AUXV = 0x4155_5856
        ]
    }
    /// `arch_prctl` codes.
    ARCH_PRCTL {
        values 0xffff_ffff [
            ARCH_SET_GS = 0x1001, ARCH_SET_FS = 0x1002, ARCH_GET_FS = 0x1003,
            ARCH_GET_GS = 0x1004, ARCH_GET_CPUID = 0x1011, ARCH_SET_CPUID = 0x1012,
            ARCH_GET_XCOMP_SUPP = 0x1021, ARCH_GET_XCOMP_PERM = 0x1022,
            ARCH_REQ_XCOMP_PERM = 0x1023, ARCH_GET_XCOMP_GUEST_PERM = 0x1024,
            ARCH_REQ_XCOMP_GUEST_PERM = 0x1025, ARCH_MAP_VDSO_X32 = 0x2001,
            ARCH_MAP_VDSO_32 = 0x2002, ARCH_MAP_VDSO_64 = 0x2003, ARCH_GET_UNTAG_MASK = 0x4001,
            ARCH_ENABLE_TAGGED_ADDR = 0x4002, ARCH_GET_MAX_TAG_BITS = 0x4003,
            ARCH_SHSTK_ENABLE = 0x5001, ARCH_SHSTK_DISABLE = 0x5002, ARCH_SHSTK_LOCK = 0x5003,
            ARCH_SHSTK_UNLOCK = 0x5004, ARCH_SHSTK_STATUS = 0x5005
        ]
    }
    /// `rt_sigprocmask`.
    SIG_HOW { values 0xffff_ffff [SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK] }
    /// `sigaction` flags.
    SIG_ACTION {
        bits [
            SA_NOCLDSTOP, SA_NOCLDWAIT, SA_SIGINFO, SA_RESTORER = 0x0400_0000, SA_ONSTACK,
            SA_RESTART, SA_NODEFER, SA_RESETHAND, SA_UNSUPPORTED = 0x400,
            SA_EXPOSE_TAGBITS = 0x800
        ]
    }
    /// Clocks.
    CLOCK {
        values 0xffff_ffff [
            CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID,
            CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME,
            CLOCK_REALTIME_ALARM, CLOCK_BOOTTIME_ALARM, CLOCK_TAI
        ]
    }
    /// `clock_nanosleep`, `timer_settime`.
    TIMER { bits [TIMER_ABSTIME] }
    /// `timerfd_settime`.
    TIMERFD_SET { bits [TFD_TIMER_ABSTIME, TFD_TIMER_CANCEL_ON_SET] }
    /// `timerfd_create`.
    TIMERFD { bits [TFD_CLOEXEC, TFD_NONBLOCK] }
    /// `getitimer`.
    ITIMER { values 0xffff_ffff [ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF] }
    /// `getrandom`.
    GRND { bits [GRND_NONBLOCK, GRND_RANDOM, GRND_INSECURE] }
    /// `eventfd2`.
    EVENTFD { bits [EFD_SEMAPHORE, EFD_CLOEXEC, EFD_NONBLOCK] }
    /// `signalfd4`.
    SIGNALFD { bits [SFD_CLOEXEC, SFD_NONBLOCK] }
    /// `epoll_create1`.
    EPOLL { bits [EPOLL_CLOEXEC] }
    /// `epoll_ctl`.
    EPOLL_OP { values 0xffff_ffff [EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD] }
    /// Events of epoll.
    EPOLL_EVENTS {
        bits [
            EPOLLIN, EPOLLPRI, EPOLLOUT, EPOLLERR, EPOLLHUP, EPOLLRDNORM, EPOLLRDBAND, EPOLLWRNORM,
            EPOLLWRBAND, EPOLLMSG, EPOLLRDHUP, EPOLLEXCLUSIVE = 1 << 28, EPOLLWAKEUP = 1 << 29,
            EPOLLONESHOT = 1 << 30, EPOLLET = 1 << 31
        ]
    }
    /// Events of poll.
    POLL_EVENTS {
        bits [
            POLLIN, POLLPRI, POLLOUT, POLLERR, POLLHUP, POLLNVAL, POLLRDNORM, POLLRDBAND,
            POLLWRNORM, POLLWRBAND, POLLMSG = 0x400, POLLREMOVE = 0x1000, POLLRDHUP
        ]
    }
    /// `inotify_init1`.
    INOTIFY { bits [IN_CLOEXEC, IN_NONBLOCK] }
    /// The mask of `inotify_add_watch`.
    INOTIFY_MASK {
        bits [
            IN_ACCESS, IN_MODIFY, IN_ATTRIB, IN_CLOSE_WRITE, IN_CLOSE_NOWRITE, IN_OPEN,
            IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE, IN_DELETE_SELF, IN_MOVE_SELF,
            IN_ONLYDIR, IN_DONT_FOLLOW, IN_EXCL_UNLINK, IN_MASK_CREATE = 0x1000_0000,
            IN_MASK_ADD, IN_ISDIR, IN_ONESHOT
        ]
    }
    /// Address families.
    AF {
        values 0xffff_ffff [
            AF_UNSPEC, AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_ALG = 38, AF_VSOCK = 40,
            AF_BLUETOOTH = 31, AF_CAN = 29, AF_KEY = 15, AF_XDP = 44
        ]
    }
    /// The type argument of `socket`.
    SOCK {
        values 0xf [SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_RDM, SOCK_SEQPACKET]
        bits [SOCK_CLOEXEC, SOCK_NONBLOCK]
    }
    /// `accept4`.
    ACCEPT { bits [SOCK_CLOEXEC, SOCK_NONBLOCK] }
    /// `sendmsg`, `recvmsg`.
    MSG {
        bits [
            MSG_OOB, MSG_PEEK, MSG_DONTROUTE, MSG_CTRUNC, MSG_TRUNC, MSG_DONTWAIT, MSG_EOR,
            MSG_WAITALL, MSG_CONFIRM, MSG_ERRQUEUE, MSG_NOSIGNAL, MSG_MORE, MSG_WAITFORONE,
            MSG_ZEROCOPY, MSG_FASTOPEN, MSG_CMSG_CLOEXEC
        ]
    }
    /// `shutdown`.
    SHUTDOWN { values 0xffff_ffff [SHUT_RD, SHUT_WR, SHUT_RDWR] }
    /// Levels of `getsockopt`.
    SOL {
        values 0xffff_ffff [
            SOL_IP = 0, SOL_SOCKET, SOL_TCP = 6, SOL_UDP = 17, SOL_IPV6 = 41, SOL_PACKET = 263,
            SOL_NETLINK = 270
        ]
    }
    /// Creation flags of System V IPC.
    IPC_CREATE { bits [IPC_CREAT, IPC_EXCL, IPC_NOWAIT] }
    /// Commands of `semctl`, `shmctl` and `msgctl`.
    IPC_CONTROL {
        values 0xffff_ffff [
            IPC_RMID, IPC_SET, IPC_STAT, IPC_INFO = 3, GETPID = 11, GETVAL = 12, GETALL = 13,
            GETNCNT = 14, GETZCNT = 15, SETVAL = 16, SETALL = 17, SEM_STAT = 18, SEM_INFO = 19,
            SEM_STAT_ANY = 20
        ]
    }
    /// Flags of `shmat`.
    SHMAT { bits [SHM_RDONLY, SHM_RND, SHM_REMAP, SHM_EXEC] }
    /// `futex` operations.
    FUTEX {
        values 0x7f [
            FUTEX_WAIT, FUTEX_WAKE, FUTEX_FD, FUTEX_REQUEUE, FUTEX_CMP_REQUEUE, FUTEX_WAKE_OP,
            FUTEX_LOCK_PI, FUTEX_UNLOCK_PI, FUTEX_TRYLOCK_PI, FUTEX_WAIT_BITSET,
            FUTEX_WAKE_BITSET, FUTEX_WAIT_REQUEUE_PI, FUTEX_CMP_REQUEUE_PI, FUTEX_LOCK_PI2 = 13
        ]
        bits [FUTEX_PRIVATE_FLAG, FUTEX_CLOCK_REALTIME]
    }
    /// Flags of the newer futex calls.
    FUTEX2 {
        values 0x3 [FUTEX2_SIZE_U8 = 0, FUTEX2_SIZE_U16 = 1, FUTEX2_SIZE_U32 = 2, FUTEX2_SIZE_U64 = 3]
        bits [FUTEX2_NUMA = 4, FUTEX2_MPOL = 8, FUTEX2_PRIVATE = 128]
    }
    /// `mount`.
    MOUNT {
        bits [
            MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_SYNCHRONOUS, MS_REMOUNT, MS_MANDLOCK,
            MS_DIRSYNC, MS_NOSYMFOLLOW = 0x100, MS_NOATIME, MS_NODIRATIME, MS_BIND, MS_MOVE,
            MS_REC, MS_SILENT, MS_POSIXACL, MS_UNBINDABLE, MS_PRIVATE, MS_SLAVE, MS_SHARED,
            MS_RELATIME, MS_STRICTATIME, MS_LAZYTIME
        ]
    }
    /// `umount2`.
    UMOUNT { bits [MNT_FORCE, MNT_DETACH, MNT_EXPIRE, UMOUNT_NOFOLLOW] }
    /// `open_tree`.
    OPEN_TREE {
        bits [
            OPEN_TREE_CLONE = 1, AT_SYMLINK_NOFOLLOW, AT_NO_AUTOMOUNT, AT_EMPTY_PATH,
            AT_RECURSIVE, OPEN_TREE_CLOEXEC = 0o200_0000
        ]
    }
    /// `seccomp` operations.
    SECCOMP {
        values 0xffff_ffff [
            SECCOMP_SET_MODE_STRICT, SECCOMP_SET_MODE_FILTER, SECCOMP_GET_ACTION_AVAIL,
            SECCOMP_GET_NOTIF_SIZES
        ]
    }
    /// `membarrier` commands.
    MEMBARRIER {
        values 0xffff_ffff [
            MEMBARRIER_CMD_QUERY = 0, MEMBARRIER_CMD_GLOBAL = 1,
            MEMBARRIER_CMD_GLOBAL_EXPEDITED = 2, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED = 4,
            MEMBARRIER_CMD_PRIVATE_EXPEDITED = 8,
            MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED = 16,
            MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE = 32,
            MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE = 64,
            MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ = 128,
            MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ = 256,
            MEMBARRIER_CMD_GET_REGISTRATIONS = 512
        ]
    }
    /// `pidfd_open`.
    PIDFD { bits [PIDFD_NONBLOCK = 0o4000, PIDFD_THREAD = 0o200] }
    /// `kcmp`.
    KCMP {
        values 0xffff_ffff [
            KCMP_FILE = 0, KCMP_VM = 1, KCMP_FILES = 2, KCMP_FS = 3, KCMP_SIGHAND = 4,
            KCMP_IO = 5, KCMP_SYSVSEM = 6, KCMP_EPOLL_TFD = 7
        ]
    }
    /// `ptrace` requests.
    PTRACE {
        values 0xffff_ffff [
            PTRACE_TRACEME, PTRACE_PEEKTEXT, PTRACE_PEEKDATA, PTRACE_PEEKUSER, PTRACE_POKETEXT,
            PTRACE_POKEDATA, PTRACE_POKEUSER, PTRACE_CONT, PTRACE_KILL, PTRACE_SINGLESTEP,
            PTRACE_GETREGS, PTRACE_SETREGS, PTRACE_ATTACH, PTRACE_DETACH, PTRACE_SYSCALL,
            PTRACE_SETOPTIONS, PTRACE_GETEVENTMSG, PTRACE_GETSIGINFO, PTRACE_SETSIGINFO,
            PTRACE_GETREGSET, PTRACE_SETREGSET, PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_LISTEN
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_flags_name_the_access_mode_and_the_bits() {
        let flags = (libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC) as u64;
        assert_eq!(OPEN.format(flags), "O_WRONLY|O_CREAT|O_CLOEXEC");
        assert_eq!(OPEN.format(0), "O_RDONLY");
        assert_eq!(OPEN.format(3), "0x3");
    }

    #[test]
    fn a_name_of_several_bits_wins_over_its_parts() {
        assert_eq!(OPEN.format(libc::O_TMPFILE as u64), "O_RDONLY|O_TMPFILE");
        assert_eq!(
            OPEN.format(libc::O_DIRECTORY as u64),
            "O_RDONLY|O_DIRECTORY"
        );
    }

    #[test]
    fn bits_without_a_name_are_kept_in_hexadecimal() {
        assert_eq!(SOCK.format(0x1_0000 | 1), "SOCK_STREAM|0x10000");
        assert_eq!(PLAIN.format(0), "0");
        assert_eq!(PLAIN.format(5), "0x5");
    }
}
