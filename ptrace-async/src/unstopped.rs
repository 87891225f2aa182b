//! Which calls tracees perform and log without a stop, what is done about each, and where the
//! code lies that performs them.

/// Where the code is mapped: below all that the kernel maps by itself, by some
/// hundred GiB, and where sanitizers take mappings for the program's own
/// (ThreadSanitizer refuses to run with any in other places).
pub(crate) const CODE: u64 = 0x7e90_0000_0000;
/// From this much of the code calls pass the filter.
pub(crate) const PASSING: u64 = 4096;
/// The longest path that the kernel takes, with its NUL.
pub(crate) const PATH_MAX: usize = 4096;

/// How many numbers of calls are looked at.
pub(crate) const COUNT: u64 = 512;

// What is done about a call.
/// Where it has a path: nowhere, in its first or in its second argument.
pub(crate) const PATH_IN: u8 = 3;
/// Only where there are no other threads: it gives descriptors back, or may wait.
pub(crate) const ALONE: u8 = 4;
/// It has a result in memory, behind its path in the list of arguments.
pub(crate) const RESULT: u8 = 8;
/// What is logged of it: one of the following.
pub(crate) const KIND: u8 = 0xf0;
/// A link or permissions.
const LINK: u8 = 0x10;
/// Opening, only for reading.
pub(crate) const OPEN: u8 = 0x20;
/// Metadata of a path...
pub(crate) const METADATA: u8 = 0x30;
/// ... or of a descriptor.
pub(crate) const METADATA_AT: u8 = 0x40;
/// Whatever it returns.
pub(crate) const WHATEVER: u8 = 0x50;
/// The same, of some commands: those that change descriptors, and the question
/// whether a standard stream is a terminal.
pub(crate) const COMMAND: u8 = 0x60;
/// Two descriptors, which are logged as its fourth argument.
pub(crate) const PAIR: u8 = 0x70;
/// That it reads, of some descriptors.
pub(crate) const READ: u8 = 0x80;
/// What it writes, with its bytes.
pub(crate) const WRITE: u8 = 0x90;
/// A position in a standard stream.
pub(crate) const SEEK: u8 = 0xa0;

/// Most bytes of a write that is performed: what there is room for in the log.
pub(crate) const MOST_WRITTEN: usize = PATH_MAX;

/// The calls that are performed, and what is done about them.
const PERFORMED_AS: [(i64, u8); 29] = [
    (libc::SYS_read, READ | ALONE),
    (libc::SYS_write, WRITE | ALONE),
    (libc::SYS_lseek, SEEK),
    (libc::SYS_open, OPEN | 1),
    (libc::SYS_openat, OPEN | 2),
    (libc::SYS_close, WHATEVER | ALONE),
    (libc::SYS_readlink, LINK | RESULT | 1),
    (libc::SYS_readlinkat, LINK | RESULT | 2),
    (libc::SYS_access, LINK | 1),
    (libc::SYS_faccessat, LINK | 2),
    (libc::SYS_faccessat2, LINK | 2),
    (libc::SYS_stat, METADATA | RESULT | 1),
    (libc::SYS_lstat, METADATA | RESULT | 1),
    (libc::SYS_newfstatat, METADATA_AT | RESULT | 2),
    (libc::SYS_fstat, METADATA),
    (libc::SYS_statfs, LINK | RESULT | 1),
    (libc::SYS_dup, WHATEVER),
    (libc::SYS_dup2, WHATEVER | ALONE),
    (libc::SYS_dup3, WHATEVER | ALONE),
    (libc::SYS_fcntl, COMMAND),
    (libc::SYS_ioctl, COMMAND),
    (libc::SYS_pipe, PAIR),
    (libc::SYS_pipe2, PAIR),
    (libc::SYS_umask, WHATEVER),
    (libc::SYS_uname, WHATEVER),
    (libc::SYS_sysinfo, WHATEVER),
    (libc::SYS_time, WHATEVER),
    (libc::SYS_gettimeofday, WHATEVER),
    (libc::SYS_getrandom, WHATEVER),
];

/// The calls that are performed: what a filter must let pass from there.
pub(crate) const PERFORMED: [i64; PERFORMED_AS.len()] = {
    let mut numbers = [0; PERFORMED_AS.len()];
    let mut index = 0;
    while index < numbers.len() {
        numbers[index] = PERFORMED_AS[index].0;
        index += 1;
    }
    numbers
};

/// What else the code calls for its own ends.
pub(crate) const NEEDED: [i64; 1] = [libc::SYS_mmap];

/// Whether a site that makes this call is worth a patch.
pub(crate) fn handles(nr: u64) -> bool {
    class(nr).is_some()
}

fn class(nr: u64) -> Option<u8> {
    let mut known = PERFORMED_AS.iter();
    known.find_map(|(number, class)| (number.cast_unsigned() == nr).then_some(*class))
}

/// Which argument of a call is its path.
pub(crate) fn path_argument(nr: u64) -> Option<usize> {
    let path = class(nr)? & PATH_IN;
    usize::from(path).checked_sub(1)
}

/// Whether a call that was made, and returned this, must not be made again.
pub(crate) fn must_not_repeat(nr: u64, value: i64) -> bool {
    match class(nr).map(|class| class & KIND) {
        Some(WHATEVER | COMMAND | READ | WRITE) => true,
        Some(OPEN) => value >= 0 || value == i64::from(-libc::EINTR),
        Some(PAIR) => value == 0,
        _ => false,
    }
}

/// Whether the fourth argument of a logged call is two descriptors.
pub(crate) fn makes_pair(nr: u64) -> bool {
    class(nr).is_some_and(|class| class & KIND == PAIR)
}

/// Whether a call writes bytes, which are logged with it.
pub(crate) fn writes(nr: u64) -> bool {
    class(nr).is_some_and(|class| class & KIND == WRITE)
}

/// The table of what is done about each call, as tracees have it.
pub(crate) fn classes() -> [u8; COUNT as usize] {
    let mut table = [0; COUNT as usize];
    for (nr, class) in PERFORMED_AS {
        table[nr as usize] = class;
    }
    table
}
