//! The structures that syscalls read and write, and their sizes on x86-64.

/// A structure of the kernel's binary interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(
    missing_docs,
    reason = "each variant is the C structure or integer of that name"
)]
pub enum Layout {
    I32,
    U32,
    I64,
    U64,
    U16,
    Timespec,
    Timeval,
    Timezone,
    Itimerspec,
    Itimerval,
    Timex,
    Tms,
    Utimbuf,
    Stat,
    Statx,
    Statfs,
    Ustat,
    Utsname,
    Sysinfo,
    Rusage,
    Rlimit,
    Sigset,
    SigsetPack,
    Sigaction,
    Siginfo,
    Sigevent,
    Stack,
    Iovec,
    Pollfd,
    EpollEvent,
    Sockaddr,
    Flock,
    SchedParam,
    SchedAttr,
    CloneArgs,
    OpenHow,
    MountAttr,
    XattrArgs,
    FileAttr,
    CapHeader,
    Sembuf,
    MqAttr,
    IoEvent,
    Iocb,
    IoUringParams,
    FutexWaitv,
    CachestatRange,
    Cachestat,
    KexecSegment,
    RobustList,
    MntIdReq,
    NsIdReq,
    Statmount,
    PerfAttr,
    FdPair,
    WaitStatus,
}

impl Layout {
    /// The size in bytes. For structures whose size varies: of their first
    /// version (0 for socket addresses).
    #[must_use]
    pub const fn size(self) -> u32 {
        match self {
            Self::U16 => 2,
            Self::I32 | Self::U32 | Self::SchedParam | Self::WaitStatus => 4,
            Self::Sembuf => 6,
            Self::I64
            | Self::U64
            | Self::Sigset
            | Self::Timezone
            | Self::Pollfd
            | Self::CapHeader
            | Self::FdPair => 8,
            Self::EpollEvent => 12,
            Self::Timespec
            | Self::Timeval
            | Self::Utimbuf
            | Self::Rlimit
            | Self::SigsetPack
            | Self::Iovec
            | Self::XattrArgs
            | Self::CachestatRange => 16,
            Self::Stack
            | Self::OpenHow
            | Self::FutexWaitv
            | Self::RobustList
            | Self::FileAttr
            | Self::MntIdReq => 24,
            Self::Itimerspec
            | Self::Itimerval
            | Self::Tms
            | Self::Sigaction
            | Self::Flock
            | Self::Ustat
            | Self::MountAttr
            | Self::IoEvent
            | Self::KexecSegment
            | Self::NsIdReq => 32,
            Self::Cachestat => 40,
            Self::SchedAttr => 48,
            Self::Sigevent | Self::CloneArgs | Self::MqAttr | Self::Iocb | Self::PerfAttr => 64,
            Self::Sysinfo => 112,
            Self::Statfs | Self::IoUringParams => 120,
            Self::Siginfo => 128,
            Self::Stat | Self::Rusage => 144,
            Self::Timex => 208,
            Self::Statx => 256,
            Self::Utsname => 390,
            Self::Statmount => 512,
            Self::Sockaddr => 0,
        }
    }
}
