//! Loops of calls on descriptors.

use super::Arg::{Fd, Got, IntIn, N, Poll, Room, Shared, Text, Vector, Words};
use super::Thing::{Dir, Event, File, LowFile, Null, Out, PipeIn, PipeOut, Zero};
use super::{Loop, c, close, n, often, seldom, through};

const CWD: super::Arg = N(libc::AT_FDCWD as i64);
const START: super::Arg = N(0);
const CREATE: i64 = (libc::O_CREAT | libc::O_TRUNC | libc::O_WRONLY) as i64;

pub(super) const LOOPS: &[Loop] = &[
    // Reads and writes.
    often("read: a byte", &[c("read", &[Fd(File), Room(8), N(1)])]),
    often(
        "read: a byte, low descriptor",
        &[c("read", &[Fd(LowFile), Room(8), N(1)])],
    ),
    often(
        "read: a byte of standard input",
        &[c("read", &[N(0), Room(8), N(1)])],
    ),
    often(
        "read: a byte of /dev/zero",
        &[c("read", &[Fd(Zero), Room(8), N(1)])],
    ),
    often(
        "read: 4 KiB, lseek",
        &[
            c("read", &[Fd(File), Room(4096), N(4096)]),
            c("lseek", &[Fd(File), START, N(0)]),
        ],
    ),
    often("write: a byte", &[c("write", &[Fd(Out), Room(8), N(1)])]),
    often(
        "write: a byte to standard output",
        &[c("write", &[N(1), Text("x"), N(1)])],
    ),
    often(
        "write: a byte to /dev/null",
        &[c("write", &[Fd(Null), Room(8), N(1)])],
    ),
    often(
        "write: 4 KiB, lseek",
        &[
            c("write", &[Fd(Out), Room(4096), N(4096)]),
            c("lseek", &[Fd(Out), START, N(0)]),
        ],
    ),
    often(
        "write: 64 KiB, lseek",
        &[
            c("write", &[Fd(Out), Room(65536), N(65536)]),
            c("lseek", &[Fd(Out), START, N(0)]),
        ],
    ),
    often(
        "write, read: a byte through a pipe",
        &[
            c("write", &[Fd(PipeIn), Room(8), N(1)]),
            c("read", &[Fd(PipeOut), Room(8), N(1)]),
        ],
    ),
    often(
        "write, read: an eventfd",
        &[
            c("write", &[Fd(Event), Words(&[1]), N(8)]),
            c("read", &[Fd(Event), Room(8), N(8)]),
        ],
    ),
    often("readv", &[c("readv", &[Fd(File), Vector(1), N(1)])]),
    often("writev", &[c("writev", &[Fd(Out), Vector(1), N(1)])]),
    often(
        "pread64",
        &[through(
            "pread",
            "pread64",
            &[Fd(File), Room(64), N(64), START],
        )],
    ),
    often(
        "pwrite64",
        &[through(
            "pwrite",
            "pwrite64",
            &[Fd(Out), Room(64), N(64), START],
        )],
    ),
    seldom(
        "preadv",
        &[c("preadv", &[Fd(File), Vector(1), N(1), START])],
    ),
    seldom(
        "pwritev",
        &[c("pwritev", &[Fd(Out), Vector(1), N(1), START])],
    ),
    seldom(
        "preadv2",
        &[c("preadv2", &[Fd(File), Vector(1), N(1), START, N(0)])],
    ),
    seldom(
        "pwritev2",
        &[c("pwritev2", &[Fd(Out), Vector(1), N(1), START, N(0)])],
    ),
    often("lseek", &[c("lseek", &[Fd(File), START, N(0)])]),
    often("lseek: standard input", &[c("lseek", &[N(0), START, N(1)])]),
    seldom(
        "sendfile",
        &[c("sendfile", &[Fd(Null), Fd(File), Words(&[0]), N(16)])],
    ),
    seldom(
        "splice: a pipe",
        &[
            c("write", &[Fd(PipeIn), Room(8), N(1)]),
            c("splice", &[Fd(PipeOut), N(0), Fd(Null), N(0), N(1), N(0)]),
        ],
    ),
    seldom(
        "tee: into the same pipe (EINVAL)",
        &[c("tee", &[Fd(PipeOut), Fd(PipeIn), N(1), N(0)])],
    ),
    seldom(
        "vmsplice",
        &[
            c("vmsplice", &[Fd(PipeIn), Vector(1), N(1), N(0)]),
            c("read", &[Fd(PipeOut), Room(8), N(1)]),
        ],
    ),
    seldom(
        "copy_file_range",
        &[c(
            "copy_file_range",
            &[Fd(File), Words(&[0]), Fd(Out), Words(&[0]), N(16), N(0)],
        )],
    ),
    // Opening.
    often(
        "openat, close: a file",
        &[
            through("open", "openat", &[Text("file"), N(libc::O_RDONLY as i64)]),
            close(&[Got(0)]),
        ],
    ),
    often(
        "openat, fstat, read, close: a file",
        &[
            through("open", "openat", &[Text("file"), N(libc::O_CLOEXEC as i64)]),
            through("fstat", "newfstatat", &[Got(0), Room(256)]),
            c("read", &[Got(0), Room(4096), N(4096)]),
            close(&[Got(0)]),
        ],
    ),
    often(
        "openat, close: a file to write",
        &[
            through("open", "openat", &[Text("out"), N(libc::O_RDWR as i64)]),
            close(&[Got(0)]),
        ],
    ),
    often(
        "openat, write, close: a file made anew",
        &[
            through("open", "openat", &[Text("new"), N(CREATE), N(0o644)]),
            c("write", &[Got(0), Text("x"), N(1)]),
            close(&[Got(0)]),
        ],
    ),
    often(
        "openat: a missing file",
        &[through("open", "openat", &[Text("missing"), N(0)])],
    ),
    often(
        "openat, getdents64, getdents64, close: a directory",
        &[
            through(
                "open",
                "openat",
                &[Text("dir"), N(libc::O_DIRECTORY as i64)],
            ),
            n("getdents64", &[Got(0), Room(4096), N(4096)]),
            n("getdents64", &[Got(0), Room(4096), N(4096)]),
            close(&[Got(0)]),
        ],
    ),
    seldom(
        "open, close: by its own number",
        &[n("open", &[Text("file"), N(0)]), close(&[Got(0)])],
    ),
    seldom(
        "openat2, close",
        &[
            n("openat2", &[CWD, Text("file"), Words(&[0, 0, 0]), N(24)]),
            close(&[Got(0)]),
        ],
    ),
    seldom(
        "getdents, lseek",
        &[
            n("getdents", &[Fd(Dir), Room(4096), N(4096)]),
            c("lseek", &[Fd(Dir), START, N(0)]),
        ],
    ),
    often("close: no descriptor (EBADF)", &[close(&[N(1000)])]),
    often(
        "close_range: none",
        &[n("close_range", &[N(1000), N(1010), N(0)])],
    ),
    // Copies of descriptors.
    often("dup, close", &[c("dup", &[Fd(File)]), close(&[Got(0)])]),
    often(
        "dup2, close",
        &[c("dup2", &[Fd(File), N(40)]), close(&[N(40)])],
    ),
    seldom(
        "dup3, close",
        &[c("dup3", &[Fd(File), N(40), N(0)]), close(&[N(40)])],
    ),
    often(
        "pipe2, close, close",
        &[
            c("pipe2", &[Shared(0), N(libc::O_CLOEXEC as i64)]),
            close(&[IntIn(0, 0)]),
            close(&[IntIn(0, 1)]),
        ],
    ),
    seldom(
        "pipe, close, close: by its own number",
        &[
            n("pipe", &[Shared(0)]),
            close(&[IntIn(0, 0)]),
            close(&[IntIn(0, 1)]),
        ],
    ),
    often("fcntl: F_GETFD", &[c("fcntl", &[Fd(File), N(1), N(0)])]),
    often("fcntl: F_GETFL", &[c("fcntl", &[Fd(File), N(3), N(0)])]),
    often("fcntl: F_SETFD", &[c("fcntl", &[Fd(File), N(2), N(1)])]),
    often("fcntl: F_SETFL", &[c("fcntl", &[Fd(PipeOut), N(4), N(0)])]),
    often(
        "fcntl: F_DUPFD_CLOEXEC, close",
        &[c("fcntl", &[Fd(File), N(1030), N(0)]), close(&[Got(0)])],
    ),
    seldom(
        "fcntl: F_SETLK",
        &[
            c("fcntl", &[Fd(Out), N(6), Words(&[1, 0, 0, 0])]),
            c("fcntl", &[Fd(Out), N(6), Words(&[2, 0, 0, 0])]),
        ],
    ),
    seldom(
        "flock",
        &[c("flock", &[Fd(Out), N(2)]), c("flock", &[Fd(Out), N(8)])],
    ),
    often(
        "ioctl: TCGETS of a file (isatty)",
        &[c("ioctl", &[Fd(File), N(0x5401), Room(64)])],
    ),
    often(
        "ioctl: TCGETS of standard output (isatty)",
        &[c("ioctl", &[N(1), N(0x5401), Room(64)])],
    ),
    seldom(
        "ioctl: FIONREAD of a pipe",
        &[c("ioctl", &[Fd(PipeOut), N(0x541b), Room(8)])],
    ),
    seldom(
        "ioctl: FIOCLEX",
        &[c("ioctl", &[Fd(File), N(0x5451), N(0)])],
    ),
    // Files as a whole.
    often(
        "fstat",
        &[through("fstat", "newfstatat", &[Fd(File), Room(256)])],
    ),
    often("ftruncate", &[c("ftruncate", &[Fd(Out), N(16)])]),
    seldom(
        "fallocate",
        &[c("fallocate", &[Fd(Out), N(0), N(0), N(16)])],
    ),
    seldom("fsync: nothing to write", &[c("fsync", &[Fd(File)])]),
    seldom(
        "fdatasync: nothing to write",
        &[c("fdatasync", &[Fd(File)])],
    ),
    seldom(
        "sync_file_range: nothing to write",
        &[c("sync_file_range", &[Fd(File), N(0), N(16), N(0)])],
    ),
    often(
        "fadvise64",
        &[through(
            "posix_fadvise",
            "fadvise64",
            &[Fd(File), N(0), N(0), N(2)],
        )],
    ),
    seldom("readahead", &[c("readahead", &[Fd(File), N(0), N(16)])]),
    seldom(
        "fchdir",
        &[c("fchdir", &[Fd(Dir)]), c("chdir", &[Text("..")])],
    ),
    seldom(
        "cachestat",
        &[n("cachestat", &[Fd(File), Words(&[0, 16]), Room(64), N(0)])],
    ),
    // Waiting for descriptors.
    often(
        "poll: nothing there",
        &[c("poll", &[Poll(PipeOut), N(1), N(0)])],
    ),
    often("poll: no descriptor", &[c("poll", &[N(0), N(0), N(0)])]),
    seldom(
        "ppoll: nothing there",
        &[c("ppoll", &[Poll(PipeOut), N(1), Words(&[0, 0]), N(0)])],
    ),
    often(
        "select: no descriptor",
        &[through(
            "select",
            "select",
            &[N(0), N(0), N(0), N(0), Words(&[0, 0])],
        )],
    ),
    seldom(
        "select: standard input",
        &[n(
            "select",
            &[N(1), Words(&[1]), N(0), N(0), Words(&[0, 0])],
        )],
    ),
    seldom(
        "pselect6: no descriptor",
        &[n(
            "pselect6",
            &[N(0), N(0), N(0), N(0), Words(&[0, 0]), Words(&[0, 8])],
        )],
    ),
];
