//! Command numbers and flags that both the watch list and the decoders use, from the
//! kernel's uapi headers (asm-generic/ioctls.h, linux/fcntl.h, linux/fs.h, linux/sched.h).

pub(super) const TCGETS: u32 = 0x5401;
pub(super) const TCGETS2: u32 = 0x802c_542a;
pub(super) const TIOCGWINSZ: u32 = 0x5413;
pub(super) const FIONREAD: u32 = 0x541b;
pub(super) const FIONBIO: u32 = 0x5421;
pub(super) const FIONCLEX: u32 = 0x5450;
pub(super) const FIOCLEX: u32 = 0x5451;
pub(super) const FICLONE: u32 = 0x4004_9409;
pub(super) const FICLONERANGE: u32 = 0x4020_940d;

// fcntl commands that libc does not name.
pub(super) const F_DUPFD_QUERY: i32 = 1027;
pub(super) const F_CREATED_QUERY: i32 = 1028;
pub(super) const F_GET_RW_HINT: i32 = 1035;
pub(super) const F_SET_FILE_RW_HINT: i32 = 1038;
pub(super) const F_GETOWNER_UIDS: i32 = 17;

/// fcntl commands that return facts that the process knows already, and that need not be
/// watched.
pub(super) const HARMLESS_FCNTL: [i32; 11] = [
    libc::F_GETFD,
    libc::F_GETFL,
    libc::F_GETOWN,
    11, // F_GETSIG
    16, // F_GETOWN_EX
    F_GETOWNER_UIDS,
    libc::F_GETLEASE,
    libc::F_GETPIPE_SZ,
    libc::F_GET_SEALS,
    F_DUPFD_QUERY,
    F_CREATED_QUERY,
];

/// Every `CLONE_NEW*`, `CLONE_NEWTIME` (which only clone3 and unshare know) apart.
pub(super) const NEW_NAMESPACES: u32 = 0x7e02_0000;

/// `PR_SET_VMA` of linux/prctl.h.
pub(super) const PR_SET_VMA: u32 = 0x5356_4d41;
