//! The fields of the kernel's structures that printing shows.

use super::flags;
use super::layout::Layout;
use super::model::Type;

/// A field of a structure, as far as it is worth printing.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// The name in the C structure.
    pub name: &'static str,
    /// Where it begins.
    pub offset: u8,
    /// Its size in bytes: 1, 2, 4 or 8.
    pub width: u8,
    /// Its type.
    pub ty: Type,
}

/// Fields as (name, offset, width, type).
macro_rules! fields {
    ($(($name:literal, $offset:literal, $width:literal, $ty:expr)),* $(,)?) => {
        &[$(Field { name: $name, offset: $offset, width: $width, ty: $ty }),*]
    };
}

impl Layout {
    /// The fields in the order of the structure. Empty for integers, for
    /// structures with a form of their own, and for those that are printed as
    /// bytes.
    #[must_use]
    pub const fn fields(self) -> &'static [Field] {
        use Type::{Address, Fd, Flags, Gid, Int, Long, Mode, Pid, Signal, Size, UInt, Uid, Word};
        match self {
            Self::Timespec => fields![("tv_sec", 0, 8, Long), ("tv_nsec", 8, 8, Long)],
            Self::Timeval => fields![("tv_sec", 0, 8, Long), ("tv_usec", 8, 8, Long)],
            Self::Timezone => fields![("tz_minuteswest", 0, 4, Int), ("tz_dsttime", 4, 4, Int),],
            Self::Itimerspec => fields![
                ("it_interval.tv_sec", 0, 8, Long),
                ("it_interval.tv_nsec", 8, 8, Long),
                ("it_value.tv_sec", 16, 8, Long),
                ("it_value.tv_nsec", 24, 8, Long),
            ],
            Self::Itimerval => fields![
                ("it_interval.tv_sec", 0, 8, Long),
                ("it_interval.tv_usec", 8, 8, Long),
                ("it_value.tv_sec", 16, 8, Long),
                ("it_value.tv_usec", 24, 8, Long),
            ],
            Self::Tms => fields![
                ("tms_utime", 0, 8, Long),
                ("tms_stime", 8, 8, Long),
                ("tms_cutime", 16, 8, Long),
                ("tms_cstime", 24, 8, Long),
            ],
            Self::Utimbuf => fields![("actime", 0, 8, Long), ("modtime", 8, 8, Long)],
            Self::Stat => fields![
                ("st_ino", 8, 8, Size),
                ("st_nlink", 16, 8, Size),
                ("st_mode", 24, 4, Mode),
                ("st_uid", 28, 4, Uid),
                ("st_gid", 32, 4, Gid),
                ("st_size", 48, 8, Long),
                ("st_mtime", 88, 8, Long),
            ],
            Self::Statx => fields![
                ("stx_mask", 0, 4, Flags(flags::STATX)),
                ("stx_nlink", 16, 4, UInt),
                ("stx_mode", 28, 2, Mode),
                ("stx_ino", 32, 8, Size),
                ("stx_size", 40, 8, Size),
                ("stx_mtime", 112, 8, Long),
            ],
            Self::Statfs => fields![
                ("f_type", 0, 8, Word),
                ("f_bsize", 8, 8, Long),
                ("f_blocks", 16, 8, Size),
                ("f_bfree", 24, 8, Size),
            ],
            Self::Sysinfo => fields![
                ("uptime", 0, 8, Long),
                ("totalram", 32, 8, Size),
                ("freeram", 40, 8, Size),
                ("procs", 80, 2, UInt),
            ],
            Self::Rusage => fields![
                ("ru_utime.tv_sec", 0, 8, Long),
                ("ru_utime.tv_usec", 8, 8, Long),
                ("ru_stime.tv_sec", 16, 8, Long),
                ("ru_stime.tv_usec", 24, 8, Long),
                ("ru_maxrss", 32, 8, Long),
            ],
            Self::Rlimit => fields![("rlim_cur", 0, 8, Size), ("rlim_max", 8, 8, Size)],
            Self::Siginfo => fields![
                ("si_signo", 0, 4, Signal),
                ("si_errno", 4, 4, Int),
                ("si_code", 8, 4, Int),
                ("si_pid", 16, 4, Pid),
                ("si_uid", 20, 4, Uid),
            ],
            Self::Sigevent => fields![
                ("sigev_value", 0, 8, Word),
                ("sigev_signo", 8, 4, Signal),
                ("sigev_notify", 12, 4, Int),
            ],
            Self::Stack => fields![
                ("ss_sp", 0, 8, Address),
                ("ss_flags", 8, 4, Int),
                ("ss_size", 16, 8, Size),
            ],
            Self::Sigaction => fields![
                ("sa_handler", 0, 8, Address),
                ("sa_flags", 8, 8, Flags(flags::SIG_ACTION)),
                ("sa_restorer", 16, 8, Address),
                ("sa_mask", 24, 8, Word),
            ],
            Self::SigsetPack => fields![("ss", 0, 8, Address), ("ss_len", 8, 8, Size)],
            Self::Iovec => fields![("iov_base", 0, 8, Address), ("iov_len", 8, 8, Size),],
            Self::Pollfd => fields![
                ("fd", 0, 4, Fd),
                ("events", 4, 2, Flags(flags::POLL_EVENTS)),
                ("revents", 6, 2, Flags(flags::POLL_EVENTS)),
            ],
            Self::EpollEvent => fields![
                ("events", 0, 4, Flags(flags::EPOLL_EVENTS)),
                ("data", 4, 8, Word),
            ],
            Self::Flock => fields![
                ("l_type", 0, 2, Int),
                ("l_whence", 2, 2, Int),
                ("l_start", 8, 8, Long),
                ("l_len", 16, 8, Long),
                ("l_pid", 24, 4, Pid),
            ],
            Self::SchedParam => fields![("sched_priority", 0, 4, Int)],
            Self::SchedAttr => fields![
                ("size", 0, 4, UInt),
                ("sched_policy", 4, 4, Flags(flags::SCHED)),
                ("sched_flags", 8, 8, Word),
                ("sched_nice", 16, 4, Int),
                ("sched_priority", 20, 4, UInt),
            ],
            Self::CloneArgs => fields![
                ("flags", 0, 8, Flags(flags::UNSHARE)),
                ("pidfd", 8, 8, Address),
                ("child_tid", 16, 8, Address),
                ("parent_tid", 24, 8, Address),
                ("exit_signal", 32, 8, Signal),
                ("stack", 40, 8, Address),
                ("stack_size", 48, 8, Size),
                ("tls", 56, 8, Address),
            ],
            Self::OpenHow => fields![
                ("flags", 0, 8, Flags(flags::OPEN)),
                ("mode", 8, 8, Mode),
                ("resolve", 16, 8, Word),
            ],
            Self::MountAttr => fields![
                ("attr_set", 0, 8, Word),
                ("attr_clr", 8, 8, Word),
                ("propagation", 16, 8, Word),
                ("userns_fd", 24, 8, Fd),
            ],
            Self::XattrArgs => fields![
                ("value", 0, 8, Address),
                ("size", 8, 4, UInt),
                ("flags", 12, 4, Flags(flags::XATTR)),
            ],
            Self::CapHeader => fields![("version", 0, 4, Word), ("pid", 4, 4, Pid)],
            Self::Sembuf => fields![
                ("sem_num", 0, 2, UInt),
                ("sem_op", 2, 2, Int),
                ("sem_flg", 4, 2, Flags(flags::IPC_CREATE)),
            ],
            Self::MqAttr => fields![
                ("mq_flags", 0, 8, Flags(flags::OPEN)),
                ("mq_maxmsg", 8, 8, Long),
                ("mq_msgsize", 16, 8, Long),
                ("mq_curmsgs", 24, 8, Long),
            ],
            Self::FutexWaitv => fields![
                ("val", 0, 8, Word),
                ("uaddr", 8, 8, Address),
                ("flags", 16, 4, Flags(flags::FUTEX2)),
            ],
            Self::CachestatRange => fields![("off", 0, 8, Size), ("len", 8, 8, Size)],
            Self::Cachestat => fields![
                ("nr_cache", 0, 8, Size),
                ("nr_dirty", 8, 8, Size),
                ("nr_writeback", 16, 8, Size),
                ("nr_evicted", 24, 8, Size),
                ("nr_recently_evicted", 32, 8, Size),
            ],
            _ => &[],
        }
    }
}
