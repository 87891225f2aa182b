//! The text of the code that performs calls inside a tracee (see [`code`](super::code)).
//!
//! The files are assembled one after the other, in the order below. A file that does not end
//! with a jump goes on in the next one. From `enter` to `result`, `r11` points to the header of
//! the log and `rcx` is free, as the kernel destroys both in a call.
//!
//! | file | what it does |
//! |---|---|
//! | `enter.s` | finds the log, locks it, saves registers |
//! | `question.s` | asks the kernel whether the call would wait, and what a descriptor is |
//! | `refuse.s` | orders the call, and refuses arguments that the log cannot describe |
//! | `perform.s` | makes the call |
//! | `result.s` | decides by the result whether the call needs an entry |
//! | `entry.s` | writes the entry |
//! | `libraries.s` | gives the loader patched copies of libraries |
//! | `leave.s` | goes back to the program |
//! | `start.s`, `first.s` | start a fresh program with the code |
//! | `stop.s` | makes a call that stops |
#![expect(unsafe_code, reason = "assembly")]

use super::layout::{
    ARENA_LEN, CLASSES, CODE_LEN, DATA, DESCRIPTORS, ENTRY, Header, LIBRARIES, LIBRARY_LEN, LOG,
    LOGS, OUTPUTS, OWN, PAGE, READS, START_WORDS, WITHOUT_BYTES,
};
use crate::unstopped::{
    ATTRIBUTE, COMMAND, COUNT, EPOLL, FACT, KIND, LINK, MAY_WAIT, METADATA, METADATA_AT,
    MOST_NAMED, MOST_WRITTEN, OPEN, OUTPUT, PAIR, PASSING, PATH_IN, PATH_MAX, READ, RESULT, SEEK,
    STATX, WHATEVER, WRITE,
};

/// How often the lock is tried.
const ATTEMPTS: u32 = 16;

/// Flags of an open that does more than read the file behind a path.
const NOT_PLAIN: i32 =
    libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_PATH | 0x40_0000; // __O_TMPFILE

std::arch::global_asm!(
    include_str!("enter.s"),
    include_str!("question.s"),
    include_str!("refuse.s"),
    include_str!("perform.s"),
    include_str!("result.s"),
    include_str!("entry.s"),
    include_str!("libraries.s"),
    include_str!("leave.s"),
    include_str!("start.s"),
    include_str!("stop.s"),
    include_str!("first.s"),
    log = const LOG,
    logs = const LOGS,
    classes = const CLASSES,
    libraries = const LIBRARIES,
    library = const LIBRARY_LEN,
    count = const COUNT,
    page = const PAGE,
    passing = const PASSING,
    code_len = const CODE_LEN,
    arena_len = const ARENA_LEN,
    read_write = const libc::PROT_READ | libc::PROT_WRITE,
    read_execute = const libc::PROT_READ | libc::PROT_EXEC,
    private = const libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE,
    shared = const libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE,
    replacing = const libc::MAP_PRIVATE | libc::MAP_FIXED,
    start_words = const START_WORDS,
    path_in = const PATH_IN,
    may_wait = const MAY_WAIT,
    attempts = const ATTEMPTS << 16,
    pollin = const libc::POLLIN,
    pollout = const libc::POLLOUT,
    closing = const std::mem::offset_of!(Header, closing),
    read_kind = const READ,
    write_kind = const WRITE,
    seek_kind = const SEEK,
    most_written = const MOST_WRITTEN,
    clock = const LOGS as usize + std::mem::offset_of!(Header, clock),
    regular = const libc::S_IFREG,
    directory = const libc::S_IFDIR,
    only_directories = const libc::O_DIRECTORY,
    epoll = const EPOLL,
    format = const libc::S_IFMT,
    mode_at = const std::mem::offset_of!(libc::stat, st_mode),
    kind = const KIND,
    has_result = const RESULT,
    nobodys = const LOGS as u32,
    stat_len = const size_of::<libc::stat>(),
    open = const OPEN,
    metadata = const METADATA,
    link = const LINK,
    fact = const FACT,
    statx = const STATX,
    statx_nr = const libc::SYS_statx,
    statx_len = const size_of::<libc::statx>(),
    statx_mode_at = const std::mem::offset_of!(libc::statx, stx_mode),
    unneeded = const std::mem::offset_of!(Header, unneeded),
    metadata_at = const METADATA_AT,
    whatever = const WHATEVER,
    command = const COMMAND,
    pair = const PAIR,
    set_fd = const libc::F_SETFD,
    set_fl = const libc::F_SETFL,
    dup_fd_cloexec = const libc::F_DUPFD_CLOEXEC,
    tcgets = const libc::TCGETS,
    winsize = const libc::TIOCGWINSZ,
    getpgrp = const libc::TIOCGPGRP,
    lock = const std::mem::offset_of!(Header, lock),
    sharing = const std::mem::offset_of!(Header, sharing),
    head = const std::mem::offset_of!(Header, head),
    limit = const std::mem::offset_of!(Header, limit),
    from = const std::mem::offset_of!(Header, from),
    nr = const std::mem::offset_of!(Header, nr),
    rdi = const std::mem::offset_of!(Header, rdi),
    rsi = const std::mem::offset_of!(Header, rsi),
    rdx = const std::mem::offset_of!(Header, rdx),
    value = const std::mem::offset_of!(Header, value),
    result = const std::mem::offset_of!(Header, result),
    class = const std::mem::offset_of!(Header, class),
    loader = const std::mem::offset_of!(Header, loader),
    found = const std::mem::offset_of!(Header, found),
    spare = const std::mem::offset_of!(Header, spare),
    stat = const std::mem::offset_of!(Header, stat),
    stamp = const std::mem::offset_of!(Header, stamp),
    observed = const std::mem::offset_of!(Header, observed),
    known = const std::mem::offset_of!(Header, known),
    known_here = const std::mem::offset_of!(Header, known_here),
    begun = const std::mem::offset_of!(Header, begun),
    changed = const std::mem::offset_of!(Header, changed),
    changed_at = const std::mem::offset_of!(libc::stat, st_ctime),
    descriptors = const DESCRIPTORS,
    own = const OWN,
    reads = const READS,
    own_or_reads = const OWN | READS,
    outputs = const OUTPUTS,
    output = const OUTPUT,
    attribute = const ATTRIBUTE,
    most_named = const MOST_NAMED,
    without_bytes = const WITHOUT_BYTES,
    getdents_nr = const libc::SYS_getdents64,
    readv_nr = const libc::SYS_readv,
    writev_nr = const libc::SYS_writev,
    dup3_nr = const libc::SYS_dup3,
    fcntl_nr = const libc::SYS_fcntl,
    data = const DATA,
    path = const ENTRY,
    path_max = const PATH_MAX,
    not_plain = const NOT_PLAIN,
    options(att_syntax)
);
