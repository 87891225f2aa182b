//! Opening, positions, duplication, metadata of descriptors.

use super::{CWD, Case, args, case, directory, file, file_named, pipe};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case("open", |a| {
            file(b"x");
            args([a.text("f"), libc::O_RDONLY as u64])
        }),
        case("open", |a| args([a.text("absent"), 0]))
            .note("absent")
            .fails(libc::ENOENT),
        case("openat", |a| {
            args([
                CWD,
                a.text("new"),
                (libc::O_CREAT | libc::O_WRONLY) as u64,
                0o600,
            ])
        }),
        case("openat2", |a| {
            file(b"x");
            args([CWD, a.text("f"), a.words(&[0, 0, 0]), 24])
        }),
        case("creat", |a| args([a.text("new"), 0o600])),
        case("close", |_| args([file(b"")])),
        case("close", |_| args([9999]))
            .note("bad")
            .fails(libc::EBADF),
        case("close_range", |_| args([900, 1000, 0])),
        case("lseek", |_| {
            args([file(b"0123456789"), 3, libc::SEEK_SET as u64])
        }),
        case("dup", |_| args([file(b"")])),
        case("dup2", |_| args([file(b""), 200])),
        case("dup3", |_| args([file(b""), 200, libc::O_CLOEXEC as u64])),
        case("pipe", |a| args([a.out(8)])),
        case("pipe2", |a| args([a.out(8), libc::O_CLOEXEC as u64])),
        case("fcntl", |_| args([file(b""), libc::F_GETFL as u64])).note("F_GETFL"),
        case("fcntl", |_| args([file(b""), libc::F_DUPFD as u64, 100])).note("F_DUPFD"),
        case("fcntl", |a| {
            let lock = a.words(&[libc::F_WRLCK as u64, 0, 10, 0]);
            args([file(b""), libc::F_GETLK as u64, lock])
        })
        .note("F_GETLK"),
        case("fcntl", |a| {
            let lock = a.words(&[libc::F_WRLCK as u64, 0, 10, 0]);
            args([file(b""), libc::F_SETLK as u64, lock])
        })
        .note("F_SETLK"),
        case("fcntl", |a| args([file(b""), 16, a.out(8)])).note("F_GETOWN_EX"),
        case("fcntl", |a| args([file(b""), 17, a.out(8)]))
            .note("F_GETOWNER_UIDS")
            .anything(),
        case("fcntl", |a| args([file(b""), 1035, a.out(8)])).note("F_GET_RW_HINT"),
        case("fcntl", |a| args([file(b""), 1036, a.words(&[2])])).note("F_SET_RW_HINT"),
        case("flock", |_| args([file(b""), libc::LOCK_EX as u64])),
        case("fsync", |_| args([file(b"x")])),
        case("fdatasync", |_| args([file(b"x")])),
        case("syncfs", |_| {
            args([super::sys("memfd_create", [c"m".as_ptr() as u64, 0])])
        }),
        case("sync_file_range", |_| args([file(b"x"), 0, 1, 2])),
        case("ftruncate", |_| args([file(b"0123"), 2])),
        case("truncate", |a| {
            file(b"0123");
            args([a.text("f"), 2])
        }),
        case("fallocate", |_| args([file(b""), 0, 0, 4096])),
        case("fadvise64", |_| args([file(b"x"), 0, 1, 0])),
        case("readahead", |_| args([file(b"x"), 0, 1])),
        case("fchdir", |_| args([directory()])),
        case("fchmod", |_| args([file(b""), 0o600])),
        case("fchown", |_| args([file(b""), u64::MAX, u64::MAX])),
        case("fstat", |a| args([file(b"x"), a.out(144)])),
        case("fstat", |a| args([9999, a.out(144)]))
            .note("bad")
            .fails(libc::EBADF),
        case("fstatfs", |a| args([file(b"x"), a.out(120)])),
        case("getdents", |a| {
            file_named("one", b"");
            args([directory(), a.out(512), 512])
        }),
        case("getdents64", |a| {
            file_named("one", b"");
            args([directory(), a.out(512), 512])
        }),
        case("fsetxattr", |a| {
            args([file(b""), a.text("user.x"), a.bytes(b"value"), 5, 0])
        }),
        case("fgetxattr", |a| {
            let fd = file(b"");
            let name = a.text("user.x");
            super::sys("fsetxattr", [fd, name, a.bytes(b"value"), 5, 0]);
            args([fd, name, a.out(64), 64])
        }),
        case("flistxattr", |a| {
            let fd = file(b"");
            super::sys("fsetxattr", [fd, a.text("user.x"), a.bytes(b"value"), 5, 0]);
            args([fd, a.out(64), 64])
        }),
        case("flistxattr", |a| {
            let fd = file(b"");
            super::sys("fsetxattr", [fd, a.text("user.x"), a.bytes(b"value"), 5, 0]);
            args([fd, a.out(64), 0])
        })
        .note("size only"),
        case("fremovexattr", |a| {
            let fd = file(b"");
            let name = a.text("user.x");
            super::sys("fsetxattr", [fd, name, a.bytes(b"value"), 5, 0]);
            args([fd, name])
        }),
        case("cachestat", |a| {
            args([file(b"x"), a.words(&[0, 4096]), a.out(40), 0])
        }),
        case("ioctl", |a| {
            let (reader, _) = pipe(a, b"hello");
            args([reader, libc::FIONREAD, a.out(4)])
        })
        .note("FIONREAD"),
        case("ioctl", |a| args([file(b""), libc::FIONBIO, a.ints(&[1])])).note("FIONBIO"),
        case("ioctl", |_| args([file(b""), libc::FIOCLEX, 0])).note("FIOCLEX"),
        case("ioctl", |a| args([file(b""), libc::TCGETS, a.out(64)]))
            .note("TCGETS")
            .fails(libc::ENOTTY),
        case("ioctl", |a| args([terminal(a), libc::TCGETS, a.out(64)])).note("TCGETS, terminal"),
        case("ioctl", |a| args([terminal(a), libc::TCGETS2, a.out(64)])).note("TCGETS2, terminal"),
        case("ioctl", |a| {
            args([terminal(a), libc::TIOCGWINSZ, a.out(16)])
        })
        .note("TIOCGWINSZ"),
        case("ioctl", |a| {
            args([terminal(a), libc::TIOCSWINSZ, a.words(&[0x0050_0019])])
        })
        .note("TIOCSWINSZ"),
        case("ioctl", |a| args([terminal(a), libc::TIOCGPTN, a.out(4)])).note("TIOCGPTN"),
        case("ioctl", |a| args([terminal(a), libc::TIOCOUTQ, a.out(4)])).note("TIOCOUTQ"),
        case("ioctl", |a| args([file(b""), 0x8008_6601, a.out(8)]))
            .note("FS_IOC_GETFLAGS")
            .anything(),
        case("ioctl", |a| args([file(b""), 2, a.out(8)])).note("FIGETBSZ"),
        case("ioctl", |a| {
            let socket = super::sys("socket", [libc::AF_INET as u64, libc::SOCK_DGRAM as u64, 0]);
            let mut request = [0; 40];
            request[..2].copy_from_slice(b"lo");
            args([socket, libc::SIOCGIFFLAGS, a.bytes(&request)])
        })
        .note("SIOCGIFFLAGS")
        .anything(),
    ]
}

/// A new pseudo-terminal's controlling side.
fn terminal(arena: &mut super::Arena) -> u64 {
    super::sys(
        "open",
        [
            arena.text("/dev/ptmx"),
            (libc::O_RDWR | libc::O_NOCTTY) as u64,
        ],
    )
}
