//! The `ioctl` requests whose memory effects are known.
//!
//! The direction and size that a request number encodes are not relied on: old
//! requests encode nothing, and drivers take liberties. A request outside of
//! this list is unmodelled.

/// Which way the memory behind an argument goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transfer {
    /// It is not memory.
    None,
    /// The kernel reads it.
    In,
    /// The kernel writes it, on success.
    Out,
    /// Both.
    InOut,
}

/// The transfer of a request, and its size in bytes.
pub(super) fn effect(request: u32) -> Option<(Transfer, u32)> {
    use Transfer::{In, InOut, None as Nothing, Out};
    Some(match u64::from(request) {
        // Terminals. The kernel's struct termios has 36 bytes, termios2 44.
        libc::TCGETS => (Out, 36),
        libc::TCSETS | libc::TCSETSW | libc::TCSETSF => (In, 36),
        libc::TCGETS2 => (Out, 44),
        libc::TCSETS2 | libc::TCSETSW2 | libc::TCSETSF2 => (In, 44),
        libc::TCGETA => (Out, 18),
        libc::TCSETA | libc::TCSETAW | libc::TCSETAF => (In, 18),
        libc::TIOCGWINSZ => (Out, 8),
        libc::TIOCSWINSZ => (In, 8),
        libc::TIOCGPGRP | libc::TIOCGSID | libc::TIOCOUTQ | libc::FIONREAD => (Out, 4),
        libc::TIOCSPGRP | libc::TIOCSPTLCK | libc::TIOCMBIS | libc::TIOCMBIC => (In, 4),
        libc::TIOCGPTN | libc::TIOCMGET | libc::TIOCGSOFTCAR | libc::TIOCGEXCL => (Out, 4),
        libc::TIOCMSET | libc::TIOCSSOFTCAR | libc::TIOCPKT => (In, 4),
        libc::TIOCGETD => (Out, 4),
        libc::TIOCSETD => (In, 4),
        libc::TIOCSTI => (In, 1),
        libc::TCSBRK | libc::TCXONC | libc::TCFLSH | libc::TIOCEXCL | libc::TIOCNXCL => {
            (Nothing, 0)
        }
        libc::TIOCSCTTY | libc::TIOCNOTTY | libc::TIOCSBRK | libc::TIOCCBRK => (Nothing, 0),
        libc::TIOCGPTPEER | TCSBRKP => (Nothing, 0),
        // Any descriptor.
        libc::FIOCLEX | libc::FIONCLEX => (Nothing, 0),
        libc::FIONBIO | libc::FIOASYNC => (In, 4),
        FIOQSIZE => (Out, 8),
        FIGETBSZ => (Out, 4),
        // Files. The flags are declared as long and transferred as int.
        FS_IOC_GETFLAGS | FS_IOC_GETVERSION => (Out, 4),
        FS_IOC_SETFLAGS | FS_IOC_SETVERSION => (In, 4),
        FS_IOC_FSGETXATTR => (Out, 28),
        FS_IOC_FSSETXATTR => (In, 28),
        FICLONE => (Nothing, 0),
        FICLONERANGE => (In, 32),
        // Block devices.
        BLKGETSIZE64 | BLKGETSIZE => (Out, 8),
        BLKSSZGET | BLKROGET | BLKPBSZGET => (Out, 4),
        // Sockets: struct ifreq has 40 bytes.
        SIOCATMARK => (Out, 4),
        SIOCGIFNAME | SIOCGIFINDEX => (InOut, 40),
        // From flags to hardware address, the odd requests ask and the even set.
        SIOCGIFFLAGS..=SIOCGIFHWADDR if request % 2 == 1 => (InOut, 40),
        SIOCGIFFLAGS..=SIOCGIFHWADDR => (In, 40),
        _ => return None,
    })
}

const TCSBRKP: u64 = 0x5425;
const FIOQSIZE: u64 = 0x5460;
const FIGETBSZ: u64 = 2;
const FS_IOC_GETFLAGS: u64 = 0x8008_6601;
const FS_IOC_SETFLAGS: u64 = 0x4008_6602;
const FS_IOC_GETVERSION: u64 = 0x8008_7601;
const FS_IOC_SETVERSION: u64 = 0x4008_7602;
const FS_IOC_FSGETXATTR: u64 = 0x801c_581f;
const FS_IOC_FSSETXATTR: u64 = 0x401c_5820;
const FICLONE: u64 = 0x4004_9409;
const FICLONERANGE: u64 = 0x4020_940d;
const BLKGETSIZE: u64 = 0x1260;
const BLKGETSIZE64: u64 = 0x8008_1272;
const BLKSSZGET: u64 = 0x1268;
const BLKROGET: u64 = 0x125e;
const BLKPBSZGET: u64 = 0x127b;
const SIOCATMARK: u64 = 0x8905;
const SIOCGIFNAME: u64 = 0x8910;
const SIOCGIFFLAGS: u64 = 0x8913;
const SIOCGIFHWADDR: u64 = 0x8927;
const SIOCGIFINDEX: u64 = 0x8933;
