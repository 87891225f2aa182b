//! The calls that tracees perform and log without a stop, how each is treated, and where
//! the code lies that performs them.
//!
//! The seccomp filter, the process model and the runtime agree on these constants.

/// Where the code is mapped: some hundred GiB below everything that the kernel maps by
/// itself, and where sanitizers accept mappings. ThreadSanitizer refuses to run with
/// mappings in other places.
pub(crate) const CODE: u64 = 0x7e90_0000_0000;
/// Calls pass the filter from this many bytes at the beginning of the code.
pub(crate) const PASSING: u64 = 4096;
/// The kernel's limit of a path, its NUL included (`PATH_MAX` of linux/limits.h).
pub(crate) const PATH_MAX: usize = 4096;

/// The length of the table by syscall number; higher numbers always stop.
pub(crate) const COUNT: u64 = 512;

// The bits of a call's class.
/// The path argument: none (0), the first (1) or the second (2).
pub(crate) const PATH_IN: u8 = 3;
/// The call may block. Where there are threads, it is performed only if it does not.
pub(crate) const MAY_WAIT: u8 = 4;
/// The call writes a result to memory, at the argument after its path.
pub(crate) const RESULT: u8 = 8;
/// The bits of the kind, which says how the call is logged. It is one of the following.
pub(crate) const KIND: u8 = 0xf0;
/// Reads a link or checks permissions.
pub(crate) const LINK: u8 = 0x10;
/// Opens a file for reading only.
pub(crate) const OPEN: u8 = 0x20;
/// Reads metadata of a path.
pub(crate) const METADATA: u8 = 0x30;
/// Reads metadata relative to a descriptor.
pub(crate) const METADATA_AT: u8 = 0x40;
/// Logged with every result.
pub(crate) const WHATEVER: u8 = 0x50;
/// Logged with every result, for commands that change descriptors and for `isatty` on a
/// standard stream.
pub(crate) const COMMAND: u8 = 0x60;
/// Makes two descriptors, which are logged as the fourth argument.
pub(crate) const PAIR: u8 = 0x70;
/// Reads from a descriptor.
pub(crate) const READ: u8 = 0x80;
/// Writes; the bytes are logged.
pub(crate) const WRITE: u8 = 0x90;
/// Moves or reads the position of a standard stream.
pub(crate) const SEEK: u8 = 0xa0;

/// Reads a fact of the machine, a clock or random bytes. Logged with every result.
pub(crate) const FACT: u8 = 0xb0;
/// Reads extended metadata relative to a descriptor.
pub(crate) const STATX: u8 = 0xc0;

/// Registers a descriptor with epoll(7), which fails for files and directories.
pub(crate) const EPOLL: u8 = 0xd0;

/// Writes in another way than write(2). Performed only to files that the process made, and logged
/// without the bytes.
pub(crate) const OUTPUT: u8 = 0xe0;
/// Asks for an extended attribute. Logged, with its name, if there is none.
pub(crate) const ATTRIBUTE: u8 = 0xf0;

/// The longest write in bytes that is performed: the room of one log entry.
pub(crate) const MOST_WRITTEN: usize = 4 * PATH_MAX;
/// The room of an attribute's name with its NUL (`XATTR_NAME_MAX` of linux/limits.h).
pub(crate) const MOST_NAMED: usize = 256;

/// The calls that are performed, with their classes.
const PERFORMED_AS: [(i64, u8); 37] = [
    (libc::SYS_read, READ | MAY_WAIT),
    (libc::SYS_write, WRITE | MAY_WAIT),
    (libc::SYS_readv, READ | MAY_WAIT),
    (libc::SYS_writev, OUTPUT),
    (libc::SYS_pwrite64, OUTPUT),
    (libc::SYS_getdents64, READ),
    (libc::SYS_lseek, SEEK),
    (libc::SYS_open, OPEN | 1),
    (libc::SYS_openat, OPEN | 2),
    (libc::SYS_close, WHATEVER),
    (libc::SYS_readlink, LINK | RESULT | 1),
    (libc::SYS_readlinkat, LINK | RESULT | 2),
    (libc::SYS_access, LINK | 1),
    (libc::SYS_faccessat, LINK | 2),
    (libc::SYS_faccessat2, LINK | 2),
    (libc::SYS_stat, METADATA | RESULT | 1),
    (libc::SYS_lstat, METADATA | RESULT | 1),
    (libc::SYS_newfstatat, METADATA_AT | RESULT | 2),
    (libc::SYS_statx, STATX | RESULT | 2),
    (libc::SYS_fstat, METADATA),
    (libc::SYS_statfs, LINK | RESULT | 1),
    (libc::SYS_getxattr, ATTRIBUTE | 1),
    (libc::SYS_lgetxattr, ATTRIBUTE | 1),
    (libc::SYS_dup, WHATEVER),
    (libc::SYS_dup2, WHATEVER),
    (libc::SYS_dup3, WHATEVER),
    (libc::SYS_fcntl, COMMAND),
    (libc::SYS_ioctl, COMMAND),
    (libc::SYS_epoll_ctl, EPOLL),
    (libc::SYS_pipe, PAIR),
    (libc::SYS_pipe2, PAIR),
    (libc::SYS_umask, WHATEVER),
    (libc::SYS_uname, FACT),
    (libc::SYS_sysinfo, FACT),
    (libc::SYS_time, FACT),
    (libc::SYS_gettimeofday, FACT),
    (libc::SYS_getrandom, FACT),
];

/// The calls that are performed, and that a filter must let pass from the code.
pub(crate) const PERFORMED: [i64; PERFORMED_AS.len()] = {
    let mut numbers = [0; PERFORMED_AS.len()];
    let mut index = 0;
    while index < numbers.len() {
        numbers[index] = PERFORMED_AS[index].0;
        index += 1;
    }
    numbers
};

/// Calls that the code makes for its own purposes.
pub(crate) const NEEDED: [i64; 2] = [libc::SYS_mmap, libc::SYS_poll];

/// Whether the code that the runtime maps into tracees performs this call, so that a site that
/// makes it can be patched.
#[must_use]
pub fn handles(nr: u64) -> bool {
    class(nr).is_some()
}

fn class(nr: u64) -> Option<u8> {
    let mut known = PERFORMED_AS.iter();
    known.find_map(|(number, class)| (number.cast_unsigned() == nr).then_some(*class))
}

/// The index of a call's path argument.
pub(crate) fn path_argument(nr: u64) -> Option<usize> {
    let path = class(nr)? & PATH_IN;
    usize::from(path).checked_sub(1)
}

/// Whether a call that returned this value must not be made again.
pub(crate) fn must_not_repeat(nr: u64, value: i64) -> bool {
    match class(nr).map(|class| class & KIND) {
        Some(WHATEVER | FACT | COMMAND | READ | WRITE | OUTPUT) => true,
        Some(OPEN) => value >= 0 || value == i64::from(-libc::EINTR),
        Some(PAIR) => value == 0,
        _ => false,
    }
}

/// Whether the fourth argument of a logged call holds two descriptors.
pub(crate) fn makes_pair(nr: u64) -> bool {
    class(nr).is_some_and(|class| class & KIND == PAIR)
}

/// Whether a call writes bytes, which are logged with it.
pub(crate) fn writes(nr: u64) -> bool {
    class(nr).is_some_and(|class| class & KIND == WRITE)
}

/// Whether a call may close descriptors, or make some lead elsewhere.
pub(crate) fn replaces_descriptors(nr: u64) -> bool {
    matches!(
        nr.cast_signed(),
        libc::SYS_close
            | libc::SYS_close_range
            | libc::SYS_dup
            | libc::SYS_dup2
            | libc::SYS_dup3
            | libc::SYS_fcntl
            | libc::SYS_unshare
    )
}

/// Whether a call lists a directory. Its fourth argument is then the directory's change time.
pub(crate) fn lists(nr: u64) -> bool {
    nr == libc::SYS_getdents64.cast_unsigned()
}

/// Whether the name of an attribute is logged after the path.
pub(crate) fn names_attribute(nr: u64) -> bool {
    class(nr).is_some_and(|class| class & KIND == ATTRIBUTE)
}

/// The class of each call by number, as tracees map it.
pub(crate) fn classes() -> [u8; COUNT as usize] {
    let mut table = [0; COUNT as usize];
    for (nr, class) in PERFORMED_AS {
        table[nr as usize] = class;
    }
    table
}
