//! Loops of calls on paths.

use super::Arg::{Fd, Gid, Got, N, Room, Text, Uid, Words};
use super::Thing::{Dir, File, Out};
use super::{Arg, Loop, Step, c, close, n, often, seldom, through};

const CWD: Arg = N(libc::AT_FDCWD as i64);
const STAT: Arg = Room(256);
const FILE: Arg = Text("file");
const MISSING: Arg = Text("missing");
const UNLINK: Step = c("unlink", &[Text("new")]);
const NOBODY: Arg = N(-1);
const NAME: Arg = Text("user.note");

pub(super) const LOOPS: &[Loop] = &[
    // Lookups.
    often(
        "stat: a file",
        &[through("stat", "newfstatat", &[FILE, STAT])],
    ),
    often(
        "stat: a missing file",
        &[through("stat", "newfstatat", &[MISSING, STAT])],
    ),
    often(
        "stat: a directory below the root",
        &[through("stat", "newfstatat", &[Text("/usr/lib"), STAT])],
    ),
    often(
        "lstat: a link",
        &[through("lstat", "newfstatat", &[Text("link"), STAT])],
    ),
    often(
        "fstatat: a name in a directory",
        &[through(
            "fstatat",
            "newfstatat",
            &[Fd(Dir), Text("entry-1"), STAT, N(0)],
        )],
    ),
    often("statx", &[c("statx", &[CWD, FILE, N(0), N(0xfff), STAT])]),
    seldom("stat: by its own number", &[n("stat", &[FILE, STAT])]),
    seldom("lstat: by its own number", &[n("lstat", &[FILE, STAT])]),
    seldom("fstat: by its own number", &[n("fstat", &[Fd(File), STAT])]),
    often("access: a file", &[c("access", &[FILE, N(4)])]),
    often("access: a missing file", &[c("access", &[MISSING, N(0)])]),
    often("faccessat", &[c("faccessat", &[CWD, FILE, N(4), N(0)])]),
    seldom(
        "faccessat2",
        &[n("faccessat2", &[CWD, FILE, N(4), N(0x200)])],
    ),
    often(
        "readlink: a link",
        &[c("readlink", &[Text("link"), Room(256), N(256)])],
    ),
    often(
        "readlink: no link (EINVAL)",
        &[c("readlink", &[FILE, Room(256), N(256)])],
    ),
    often(
        "readlinkat",
        &[c("readlinkat", &[CWD, Text("link"), Room(256), N(256)])],
    ),
    often("getcwd", &[c("getcwd", &[Room(4096), N(4096)])]),
    often("statfs", &[c("statfs", &[Text("."), STAT])]),
    seldom("fstatfs", &[c("fstatfs", &[Fd(File), STAT])]),
    often(
        "getxattr: an absent attribute",
        &[c("getxattr", &[FILE, NAME, Room(64), N(64)])],
    ),
    often(
        "lgetxattr: an absent attribute",
        &[c("lgetxattr", &[FILE, NAME, Room(64), N(64)])],
    ),
    seldom(
        "fgetxattr: an absent attribute",
        &[c("fgetxattr", &[Fd(File), NAME, Room(64), N(64)])],
    ),
    seldom(
        "getxattrat: an absent attribute",
        &[n(
            "getxattrat",
            &[CWD, FILE, N(0), NAME, Words(&[0, 0]), N(16)],
        )],
    ),
    seldom("listxattr", &[c("listxattr", &[FILE, Room(64), N(64)])]),
    seldom("llistxattr", &[c("llistxattr", &[FILE, Room(64), N(64)])]),
    seldom(
        "flistxattr",
        &[c("flistxattr", &[Fd(File), Room(64), N(64)])],
    ),
    seldom(
        "listxattrat",
        &[n("listxattrat", &[CWD, FILE, N(0), Room(64), N(64)])],
    ),
    seldom(
        "name_to_handle_at",
        &[n(
            "name_to_handle_at",
            &[CWD, FILE, Words(&[16, 0, 0, 0]), Room(8), N(0)],
        )],
    ),
    seldom(
        "file_getattr",
        &[n("file_getattr", &[CWD, FILE, Room(64), N(24), N(0)])],
    ),
    seldom(
        "file_setattr: no attributes (EINVAL)",
        &[n("file_setattr", &[CWD, FILE, Room(64), N(0), N(0)])],
    ),
    // Changes of names.
    often("chdir: the same directory", &[c("chdir", &[Text(".")])]),
    often(
        "mkdir, rmdir",
        &[
            c("mkdir", &[Text("new"), N(0o755)]),
            c("rmdir", &[Text("new")]),
        ],
    ),
    often(
        "mkdir: a directory that is there",
        &[c("mkdir", &[Text("dir"), N(0o755)])],
    ),
    often(
        "rename: there and back",
        &[
            c("rename", &[Text("moved"), Text("away")]),
            c("rename", &[Text("away"), Text("moved")]),
        ],
    ),
    often(
        "creat, close, unlink",
        &[
            c("creat", &[Text("new"), N(0o644)]),
            close(&[Got(0)]),
            UNLINK,
        ],
    ),
    often("unlink: a missing file", &[c("unlink", &[MISSING])]),
    often(
        "symlink, unlink",
        &[c("symlink", &[FILE, Text("new")]), UNLINK],
    ),
    often("link, unlink", &[c("link", &[FILE, Text("new")]), UNLINK]),
    seldom(
        "mkdirat, unlinkat",
        &[
            c("mkdirat", &[Fd(Dir), Text("new"), N(0o755)]),
            c(
                "unlinkat",
                &[Fd(Dir), Text("new"), N(libc::AT_REMOVEDIR as i64)],
            ),
        ],
    ),
    seldom(
        "renameat, renameat2",
        &[
            c("renameat", &[CWD, Text("moved"), CWD, Text("away")]),
            c("renameat2", &[CWD, Text("away"), CWD, Text("moved"), N(1)]),
        ],
    ),
    seldom(
        "linkat, unlink",
        &[c("linkat", &[CWD, FILE, CWD, Text("new"), N(0)]), UNLINK],
    ),
    seldom(
        "symlinkat, unlink",
        &[c("symlinkat", &[FILE, CWD, Text("new")]), UNLINK],
    ),
    seldom(
        "mknod, unlink: a named pipe",
        &[n("mknod", &[Text("new"), N(0o10_644), N(0)]), UNLINK],
    ),
    seldom(
        "mknodat, unlink: a named pipe",
        &[n("mknodat", &[CWD, Text("new"), N(0o10_644), N(0)]), UNLINK],
    ),
    // Changes of files.
    seldom("truncate", &[c("truncate", &[Text("out"), N(16)])]),
    often("chmod", &[c("chmod", &[Text("out"), N(0o644)])]),
    seldom("fchmod", &[c("fchmod", &[Fd(Out), N(0o644)])]),
    seldom("fchmodat", &[n("fchmodat", &[CWD, Text("out"), N(0o644)])]),
    seldom(
        "fchmodat2",
        &[n("fchmodat2", &[CWD, Text("out"), N(0o644), N(0)])],
    ),
    often(
        "chown: to the same owner",
        &[c("chown", &[Text("out"), Uid, Gid])],
    ),
    seldom(
        "lchown: to nobody else",
        &[c("lchown", &[Text("out"), NOBODY, NOBODY])],
    ),
    seldom(
        "fchown: to nobody else",
        &[c("fchown", &[Fd(Out), NOBODY, NOBODY])],
    ),
    seldom(
        "fchownat: to nobody else",
        &[c("fchownat", &[CWD, Text("out"), NOBODY, NOBODY, N(0)])],
    ),
    often(
        "utimensat",
        &[c(
            "utimensat",
            &[CWD, Text("out"), Words(&[1, 0, 1, 0]), N(0)],
        )],
    ),
    seldom("utime", &[n("utime", &[Text("out"), Words(&[1, 1])])]),
    seldom(
        "utimes",
        &[n("utimes", &[Text("out"), Words(&[1, 0, 1, 0])])],
    ),
    seldom(
        "futimesat",
        &[n("futimesat", &[CWD, Text("out"), Words(&[1, 0, 1, 0])])],
    ),
    often("umask", &[c("umask", &[N(0o22)])]),
    seldom(
        "setxattr, removexattr",
        &[
            c("setxattr", &[Text("out"), NAME, Text("x"), N(1), N(0)]),
            c("removexattr", &[Text("out"), NAME]),
        ],
    ),
    seldom(
        "lsetxattr, lremovexattr",
        &[
            c("lsetxattr", &[Text("out"), NAME, Text("x"), N(1), N(0)]),
            c("lremovexattr", &[Text("out"), NAME]),
        ],
    ),
    seldom(
        "fsetxattr, fremovexattr",
        &[
            c("fsetxattr", &[Fd(Out), NAME, Text("x"), N(1), N(0)]),
            c("fremovexattr", &[Fd(Out), NAME]),
        ],
    ),
    seldom(
        "setxattrat: no value (EINVAL), removexattrat",
        &[
            n(
                "setxattrat",
                &[CWD, Text("out"), N(0), NAME, Words(&[0, 0]), N(0)],
            ),
            n("removexattrat", &[CWD, Text("out"), N(0), NAME]),
        ],
    ),
];
