//! The arguments with which each call is made.
//!
//! A call of a file's name or content gets files of a small tree, where it succeeds. Calls that
//! would change the machine get arguments that no kernel accepts: absent files, bad descriptors
//! and numbers.

use ptrace_async::process::{Watch, watch};
use ptrace_async::syscall::{Object, Spec, Type, table};

/// One call with its arguments, in the forms of `call.c`.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) spec: &'static Spec,
    pub(super) arguments: Vec<&'static str>,
}

/// Calls that are never made, with the reason.
pub(super) const NEVER_MADE: &[(&str, &str)] = &[(
    "vhangup",
    "it has no arguments, and ends the terminal's session",
)];

/// The arguments of calls that are made in earnest.
const ARGUMENTS: &[(&str, &str)] = &[
    ("open", "=f 2 0"),
    ("open", "=new 66 0600"),
    ("open", "=new 193 0600"),
    ("open", "=d 0x10000"),
    ("open", "=f 0x200000"),
    ("creat", "=new 0644"),
    ("openat", "-100 =f 0 0"),
    ("openat", "-100 =new 577 0644"),
    ("openat2", "-100 =f #24 24"),
    ("open_tree", "-100 =f 0"),
    ("stat", "=f #256"),
    ("lstat", "=l #256"),
    ("fstat", "@f #256"),
    ("newfstatat", "-100 =f #256 0"),
    ("newfstatat", "-100 =absent #256 0"),
    ("statx", "-100 =f 0 0xfff #512"),
    ("access", "=f 4"),
    ("access", "=f 1"),
    ("faccessat", "-100 =f 4"),
    ("faccessat2", "-100 =f 4 0"),
    ("readlink", "=l #256 256"),
    ("readlinkat", "-100 =l #256 256"),
    ("getdents", "@e #1024 1024"),
    ("getdents64", "@e #1024 1024"),
    ("statfs", "=f #256"),
    ("fstatfs", "@f #256"),
    ("getxattr", "=f =user.a #64 64"),
    ("lgetxattr", "=f =user.a #64 64"),
    ("fgetxattr", "@f =user.a #64 64"),
    ("listxattr", "=f #256 256"),
    ("llistxattr", "=f #256 256"),
    ("flistxattr", "@f #256 256"),
    ("setxattr", "=f =user.b =v 1 0"),
    ("lsetxattr", "=f =user.b =v 1 0"),
    ("fsetxattr", "@f =user.b =v 1 0"),
    ("removexattr", "=f =user.a"),
    ("lremovexattr", "=f =user.a"),
    ("fremovexattr", "@f =user.a"),
    ("setxattrat", "-100 =f 0 =user.b X1 16"),
    ("getxattrat", "-100 =f 0 =user.a X64 16"),
    ("listxattrat", "-100 =f 0 #256 256"),
    ("removexattrat", "-100 =f 0 =user.a"),
    ("open_tree_attr", "-100 =f 0 #32 32"),
    ("mkdir", "=new 0755"),
    ("mkdir", "=d 0755"),
    ("mkdirat", "-100 =new 0755"),
    ("mknod", "=new 0100644 0"),
    ("mknodat", "-100 =new 0100644 0"),
    ("unlink", "=f"),
    ("unlink", "=absent"),
    ("unlinkat", "-100 =f 0"),
    ("unlinkat", "-100 =d 0x200"),
    ("rmdir", "=d"),
    ("rename", "=f =new"),
    ("rename", "=f =g"),
    ("rename", "=f =d/new"),
    ("renameat", "-100 =f -100 =new"),
    ("renameat2", "-100 =f -100 =new 0"),
    ("renameat2", "-100 =f -100 =new 1"),
    ("link", "=f =new"),
    ("link", "=f =d/new"),
    ("linkat", "-100 =f -100 =new 0"),
    ("symlink", "=f =new"),
    ("symlinkat", "=f -100 =new"),
    ("truncate", "=f 3"),
    ("ftruncate", "@f 3"),
    ("fallocate", "@f 0 0 100"),
    ("chmod", "=f 0600"),
    ("fchmod", "@f 0600"),
    ("fchmodat", "-100 =f 0600"),
    ("fchmodat2", "-100 =f 0600 0"),
    ("chown", "=f U G"),
    ("lchown", "=f U G"),
    ("fchown", "@f U G"),
    ("fchownat", "-100 =f U G 0"),
    ("utime", "=f #16"),
    ("utimes", "=f #32"),
    ("futimesat", "-100 =f #32"),
    ("utimensat", "-100 =f #32 0"),
    ("read", "@f #64 64"),
    ("readv", "@f ? 1"),
    ("pread64", "0 #64 64 0"),
    ("preadv", "0 ? 1 0 0"),
    ("preadv2", "@f ? 1 -1 -1 0"),
    ("write", "@f =data 4"),
    ("writev", "@f & 1"),
    ("pwrite64", "@f =data 4 0"),
    ("pwritev", "@f & 1 0 0"),
    ("pwritev2", "@f & 1 0 0 0"),
    ("sendfile", "@g @f 0 4"),
    ("splice", "< 0 @g 0 4 0"),
    ("tee", "< > 4 0"),
    ("vmsplice", "> & 1 0"),
    ("copy_file_range", "@f 0 @g 0 4 0"),
    ("lseek", "0 0 1"),
    ("poll", "#8 1 0"),
    ("ppoll", "#8 1 #16 0 8"),
    ("select", "1 #128 0 0 #16"),
    ("pselect6", "1 #128 0 0 #16 0"),
    ("epoll_create", "1"),
    ("epoll_create1", "0"),
    ("epoll_ctl", "E 1 0 #12"),
    ("mmap", "0 4096 3 1 @f 0"),
    ("ioctl", "@f 0x80086601 #8"),
    ("ioctl", "@g 0x40049409 @f"),
    ("fcntl", "@f 1030 10"),
    ("fcntl", "@f 6 #64"),
    ("flock", "@f 2"),
    ("close", "@f"),
    ("dup", "@f"),
    ("dup2", "@f 20"),
    ("dup3", "@f 20 0"),
    ("pipe", "#8"),
    ("pipe2", "#8 0"),
    ("socketpair", "1 1 0 #8"),
    ("eventfd", "0"),
    ("eventfd2", "0 0"),
    ("timerfd_create", "1 0"),
    ("signalfd", "-1 #8 8"),
    ("signalfd4", "-1 #8 8 0"),
    ("inotify_init", ""),
    ("inotify_init1", "0"),
    ("memfd_create", "=m 0"),
    ("memfd_secret", "0"),
    ("pidfd_open", "$ 0"),
    ("socket", "1 1 0"),
    ("connect", "S #2 2"),
    ("bind", "S #2 2"),
    ("listen", "S 1"),
    ("accept", "S 0 0"),
    ("accept4", "S 0 0 0"),
    ("shutdown", "s 2"),
    ("sendto", "s =data 4 0 0 0"),
    ("recvfrom", "s #64 64 64 0 0"),
    ("getsockname", "s #128 n128"),
    ("getpeername", "s #128 n128"),
    ("setsockopt", "s 1 7 n4096 4"),
    ("getsockopt", "s 1 7 #8 n8"),
    ("execve", "=/bin/true ! 0"),
    ("execveat", "-100 =/bin/true ! 0 0"),
    ("fork", ""),
    ("vfork", ""),
    ("clone", "17 0 0 0 0"),
    ("clone3", "C 88"),
    ("unshare", "0x200"),
    ("chdir", "=d"),
    ("fchdir", "@d"),
    ("chroot", "=d"),
    ("umask", "18"),
    ("kill", "$ 0"),
    ("tkill", "$ 0"),
    ("tgkill", "$ $ 0"),
    ("prctl", "38 1 0 0 0"),
    ("personality", "0"),
    ("setrlimit", "4 #16"),
    ("prlimit64", "0 4 #16 0"),
    ("clock_gettime", "0 #16"),
    ("gettimeofday", "#16 0"),
    ("time", "0"),
    ("getrandom", "#8 8 1"),
    ("uname", "#512"),
    ("sysinfo", "#512"),
    ("getcpu", "#4 #4"),
    ("sched_getaffinity", "0 128 #128"),
    ("getpriority", "0 0"),
    ("setuid", "U"),
    ("setgid", "G"),
    ("setsid", ""),
    ("setpgid", "0 0"),
    ("fsync", "@f"),
    ("fdatasync", "@f"),
    ("syncfs", "@f"),
    ("sync_file_range", "@f 0 0 0"),
    // Arguments without sense would make objects that stay.
    ("shmget", "0x7fffffff 0 0"),
    ("semget", "0x7fffffff 0 0"),
    ("msgget", "0x7fffffff 0"),
];

/// Errors that are not injected: of which calls (all, if none is named), and the reason.
const NOT_INJECTED: &[(&[&str], &[&str], &str)] = &[
    (
        &[],
        &[
            "EBADF",
            "EFAULT",
            "EINVAL",
            "ENAMETOOLONG",
            "E2BIG",
            "ENOSYS",
            "ERANGE",
            "EFBIG",
            "EOVERFLOW",
        ],
        "follows from the arguments, what was noted, and the limits in the key",
    ),
    (
        &["mmap", "msync", "lseek"],
        &["EPERM", "EACCES", "EEXIST", "ENOMEM", "ENXIO", "ESPIPE"],
        "follows from the arguments and the kind of the file",
    ),
    (
        &[],
        &["EPIPE", "ENOTCONN"],
        "the other end of the pipe or socket is seen",
    ),
    (
        &["epoll_ctl"],
        &["ENOENT", "EEXIST", "ELOOP", "EPERM"],
        "follows from descriptors of the process itself",
    ),
    (
        &["mmap", "socket", "ioctl", "copy_file_range"],
        &[
            "ENODEV",
            "EOPNOTSUPP",
            "ENOTTY",
            "EAFNOSUPPORT",
            "EPROTONOSUPPORT",
        ],
        "the kernel or the file system never has the feature",
    ),
];

/// Calls that the table does not show to be about the system or other processes.
const OF_SYSTEM: &[&str] = &[
    "quotactl",
    "quotactl_fd",
    "fsopen",
    "fspick",
    "fsmount",
    "fsconfig",
    "perf_event_open",
    "pidfd_getfd",
    "landlock_restrict_self",
];

/// Why an error of a call is not injected, if it is not.
pub(super) fn reason_against(spec: &Spec, error: &str) -> Option<&'static str> {
    let row = NOT_INJECTED.iter().find(|(calls, errors, _)| {
        (calls.is_empty() || calls.contains(&spec.name)) && errors.contains(&error)
    });
    if let Some((_, _, reason)) = row {
        return Some(reason);
    }
    let mut arguments = spec.args.iter();
    let names_file =
        arguments.any(|argument| matches!(argument.ty, Type::Path | Type::Fd | Type::DirFd));
    let of_system = spec.stores.iter().any(|object| {
        matches!(
            object,
            Object::Mounts
                | Object::Machine
                | Object::Root
                | Object::Namespaces
                | Object::Ipc
                | Object::Keys
        )
    }) || OF_SYSTEM.contains(&spec.name);
    let of_rights = matches!(error, "EPERM" | "ESRCH") && of_system
        || !names_file && matches!(error, "EPERM" | "EACCES" | "ESRCH");
    // Without privileges, rights decide who may own a file, and whether a program may be executed.
    let of_user = error == "EPERM"
        && !rustix::process::geteuid().is_root()
        && (spec.name.contains("chown") || spec.name.starts_with("execve"));
    // A new task is permitted but for special demands.
    ((of_rights || of_user) && !matches!(spec.name, "fork" | "vfork" | "clone" | "clone3"))
        .then_some("follows from the rights in the key, or from the process that is named")
}

/// All calls that pcache watches, with arguments.
pub(super) fn all() -> Vec<Call> {
    let watched = table::all().filter(|spec| watch(u64::from(spec.number)) != Watch::Never);
    let made = watched.filter(|spec| !NEVER_MADE.iter().any(|(name, _)| *name == spec.name));
    made.flat_map(|spec| {
        let rows = ARGUMENTS.iter().filter(|(name, _)| *name == spec.name);
        let mut calls: Vec<Call> = rows
            .map(|(_, text)| Call {
                spec,
                arguments: text.split_whitespace().collect(),
            })
            .collect();
        if calls.is_empty() {
            calls.push(Call {
                spec,
                arguments: nonsense(spec),
            });
        }
        calls
    })
    .collect()
}

/// Arguments that no kernel accepts.
fn nonsense(spec: &Spec) -> Vec<&'static str> {
    let arguments = spec.args.iter().map(|argument| match argument.ty {
        Type::Path => "=absent",
        Type::Address
        | Type::Text
        | Type::Strings
        | Type::In(_)
        | Type::Out(_)
        | Type::InOut(_)
        | Type::OutWhen(..)
        | Type::InOutWhen(..) => "0",
        _ => "-1",
    });
    arguments.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_arguments_is_about_a_watched_call() {
        let all = all();
        for (name, text) in ARGUMENTS {
            let arguments: Vec<_> = text.split_whitespace().collect();
            let known = all
                .iter()
                .any(|call| call.spec.name == *name && call.arguments == arguments);
            assert!(known, "{name} {text}");
        }
    }

    #[test]
    fn a_call_that_is_marked_has_no_sixth_argument() {
        for call in all() {
            let is_marked = call.arguments.len() < 6;
            assert!(!is_marked || call.spec.args.len() < 6, "{}", call.spec.name);
        }
    }
}
