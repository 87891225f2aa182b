//! Names and metadata.

use super::{CWD, Case, args, case, directory, file, sys};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = names();
    cases.extend(attributes());
    cases
}

fn names() -> Vec<Case> {
    vec![
        case("stat", |a| args([a.text("."), a.out(144)])),
        case("stat", |a| args([a.text("absent"), a.out(144)]))
            .note("absent")
            .fails(libc::ENOENT),
        case("lstat", |a| args([a.text("."), a.out(144)])),
        case("newfstatat", |a| args([CWD, a.text("."), a.out(144), 0])),
        case("statx", |a| args([CWD, a.text("."), 0, 0xfff, a.out(256)])),
        case("statfs", |a| args([a.text("."), a.out(120)])),
        case("ustat", |a| {
            use std::os::unix::fs::MetadataExt as _;
            args([std::fs::metadata(".").unwrap().dev(), a.out(32)])
        }),
        case("access", |a| args([a.text("."), 0])),
        case("faccessat", |a| args([CWD, a.text("."), 0])),
        case("faccessat2", |a| args([CWD, a.text("."), 0, 0x200])),
        case("getcwd", |a| args([a.out(4096), 4096])),
        case("getcwd", |a| args([a.out(2), 2]))
            .note("short")
            .fails(libc::ERANGE),
        case("chdir", |a| args([a.text("/")])),
        case("chroot", |a| args([a.text(".")])),
        case("umask", |_| args([0o22])),
        case("mkdir", |a| args([a.text("d"), 0o700])),
        case("mkdirat", |a| args([CWD, a.text("d"), 0o700])),
        case("rmdir", |a| {
            std::fs::create_dir("d").unwrap();
            args([a.text("d")])
        }),
        case("mknod", |a| {
            args([a.text("fifo"), u64::from(libc::S_IFIFO | 0o600), 0])
        }),
        case("mknodat", |a| {
            args([CWD, a.text("fifo"), u64::from(libc::S_IFIFO | 0o600), 0])
        }),
        case("rename", |a| {
            file(b"");
            args([a.text("f"), a.text("g")])
        }),
        case("renameat", |a| {
            file(b"");
            args([CWD, a.text("f"), CWD, a.text("g")])
        }),
        case("renameat2", |a| {
            file(b"");
            args([CWD, a.text("f"), CWD, a.text("g"), 0])
        }),
        case("link", |a| {
            file(b"");
            args([a.text("f"), a.text("g")])
        }),
        case("linkat", |a| {
            file(b"");
            args([CWD, a.text("f"), CWD, a.text("g"), 0])
        }),
        case("unlink", |a| {
            file(b"");
            args([a.text("f")])
        }),
        case("unlinkat", |a| {
            file(b"");
            args([CWD, a.text("f"), 0])
        }),
        case("symlink", |a| args([a.text("target"), a.text("l")])),
        case("symlinkat", |a| args([a.text("target"), CWD, a.text("l")])),
        case("readlink", |a| {
            std::os::unix::fs::symlink("target", "l").unwrap();
            args([a.text("l"), a.out(64), 64])
        }),
        case("readlink", |a| {
            std::os::unix::fs::symlink("target", "l").unwrap();
            args([a.text("l"), a.out(3), 3])
        })
        .note("cut"),
        case("readlinkat", |a| {
            std::os::unix::fs::symlink("target", "l").unwrap();
            args([CWD, a.text("l"), a.out(64), 64])
        }),
        case("name_to_handle_at", |a| {
            let handle = a.bytes(&[&[128, 0, 0, 0, 0, 0, 0, 0][..], &[1; 128]].concat());
            args([CWD, a.text("."), handle, a.out(8), 0])
        }),
        case("name_to_handle_at", |a| {
            args([CWD, a.text("."), a.words(&[0]), a.out(8), 0])
        })
        .note("too short")
        .fails(libc::EOVERFLOW),
        case("open_by_handle_at", |a| args([CWD, a.words(&[4, 0]), 0])).anything(),
        case("open_tree", |a| args([CWD, a.text("."), 0])),
        case("fspick", |a| args([CWD, a.text("/"), 0])).anything(),
        case("sysfs", |a| args([2, 0, a.out(64)])).anything(),
        case("sysfs", |_| args([3])).note("count").anything(),
    ]
}

fn attributes() -> Vec<Case> {
    vec![
        case("chmod", |a| {
            file(b"");
            args([a.text("f"), 0o600])
        }),
        case("fchmodat", |a| {
            file(b"");
            args([CWD, a.text("f"), 0o600])
        }),
        case("fchmodat2", |a| {
            file(b"");
            args([CWD, a.text("f"), 0o600, 0])
        }),
        case("chown", |a| args([a.text("."), u64::MAX, u64::MAX])),
        case("lchown", |a| args([a.text("."), u64::MAX, u64::MAX])),
        case("fchownat", |a| {
            args([CWD, a.text("."), u64::MAX, u64::MAX, 0])
        }),
        case("utime", |a| args([a.text("."), a.words(&[1, 2])])),
        case("utimes", |a| args([a.text("."), a.words(&[1, 2, 3, 4])])),
        case("futimesat", |a| {
            args([CWD, a.text("."), a.words(&[1, 2, 3, 4])])
        }),
        case("utimensat", |a| {
            args([CWD, a.text("."), a.words(&[1, 2, 3, 4]), 0])
        }),
        case("setxattr", |a| {
            file(b"");
            args([a.text("f"), a.text("user.x"), a.bytes(b"value"), 5, 0])
        }),
        case("lsetxattr", |a| {
            file(b"");
            args([a.text("f"), a.text("user.x"), a.bytes(b"value"), 5, 0])
        }),
        case("getxattr", |a| {
            args([attributed(a), a.text("user.x"), a.out(64), 64])
        }),
        case("getxattr", |a| {
            args([attributed(a), a.text("user.x"), a.out(64), 2])
        })
        .note("short")
        .fails(libc::ERANGE),
        case("lgetxattr", |a| {
            args([attributed(a), a.text("user.x"), a.out(64), 64])
        }),
        case("listxattr", |a| args([attributed(a), a.out(64), 64])),
        case("llistxattr", |a| args([attributed(a), a.out(64), 64])),
        case("removexattr", |a| args([attributed(a), a.text("user.x")])),
        case("lremovexattr", |a| args([attributed(a), a.text("user.x")])),
        case("setxattrat", |a| {
            file(b"");
            let value = a.bytes(b"value");
            args([
                CWD,
                a.text("f"),
                0,
                a.text("user.x"),
                a.words(&[value, 5]),
                16,
            ])
        }),
        case("getxattrat", |a| {
            let path = attributed(a);
            let value = a.out(64);
            args([CWD, path, 0, a.text("user.x"), a.words(&[value, 64]), 16])
        }),
        case("listxattrat", |a| {
            args([CWD, attributed(a), 0, a.out(64), 64])
        }),
        case("removexattrat", |a| {
            args([CWD, attributed(a), 0, a.text("user.x")])
        }),
        case("file_getattr", |a| {
            file(b"");
            args([directory(), a.text("f"), a.out(24), 24, 0])
        })
        .anything(),
    ]
}

/// The path of a file with the attribute `user.x`.
fn attributed(arena: &mut super::Arena) -> u64 {
    let fd = file(b"");
    let name = arena.text("user.x");
    sys("fsetxattr", [fd, name, arena.bytes(b"value"), 5, 0]);
    arena.text("f")
}
