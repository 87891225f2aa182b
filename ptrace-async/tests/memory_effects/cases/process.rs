//! Memory, processes, identity, scheduling, signals.
#![expect(unsafe_code, reason = "a set-up gives a descriptor away")]

use super::{CWD, Case, args, case, file, interrupt_soon, sys};

const SELF: u64 = 0;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = memory();
    cases.extend(processes());
    cases.extend(identity());
    cases.extend(scheduling());
    cases.extend(signals());
    cases
}

fn memory() -> Vec<Case> {
    const ANONYMOUS: u64 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    vec![
        case("mmap", |_| args([0, 4096, 3, ANONYMOUS, u64::MAX, 0])),
        case("mprotect", |a| args([a.pages(1), 4096, 3])),
        case("munmap", |_| {
            args([sys("mmap", [0, 4096, 3, ANONYMOUS, u64::MAX, 0]), 4096])
        }),
        case("mremap", |_| {
            args([
                sys("mmap", [0, 4096, 3, ANONYMOUS, u64::MAX, 0]),
                4096,
                8192,
                1,
            ])
        }),
        case("brk", |_| args([0])),
        case("msync", |a| args([a.pages(1), 4096, libc::MS_ASYNC as u64])),
        case("mincore", |a| args([a.pages(3), 3 * 4096, a.out(3)])),
        case("madvise", |a| {
            args([a.pages(2), 4096, libc::MADV_DONTNEED as u64])
        })
        .note("MADV_DONTNEED"),
        case("madvise", |a| {
            args([a.pages(1), 4096, libc::MADV_NORMAL as u64])
        })
        .note("MADV_NORMAL"),
        case("mlock", |a| args([a.pages(1), 4096])),
        case("mlock2", |a| args([a.pages(1), 4096, 0])),
        case("munlock", |a| args([a.pages(1), 4096])),
        case("mlockall", |_| args([2])).anything(),
        case("munlockall", |_| args([])),
        case("mbind", |a| args([a.pages(1), 4096, 0, 0, 0, 0])),
        case("set_mempolicy", |_| args([0, 0, 0])),
        case("set_mempolicy_home_node", |a| {
            args([a.pages(1), 4096, 0, 0])
        })
        .anything(),
        case("get_mempolicy", |a| {
            args([a.out(4), a.out(128), 1024, 0, 0])
        }),
        case("migrate_pages", |a| {
            args([0, 64, a.words(&[1]), a.words(&[1])])
        })
        .anything(),
        case("move_pages", |a| {
            let page = a.pages(1);
            args([0, 1, a.words(&[page]), 0, a.out(4), 0])
        }),
        case("memfd_create", |a| args([a.text("name"), 0])),
        case("pkey_alloc", |_| args([0, 0])).anything(),
        case("pkey_free", |_| args([15])).anything(),
        case("pkey_mprotect", |a| args([a.pages(1), 4096, 3, u64::MAX])),
        case("mseal", |_| {
            args([sys("mmap", [0, 4096, 3, ANONYMOUS, u64::MAX, 0]), 4096, 0])
        }),
    ]
}

fn processes() -> Vec<Case> {
    const CHILD: u64 = libc::SIGCHLD as u64;
    vec![
        case("fork", |_| args([])),
        case("vfork", |_| args([])),
        case("clone", |_| args([CHILD])),
        case("clone", |a| {
            let flags = CHILD | (libc::CLONE_PARENT_SETTID | libc::CLONE_CHILD_SETTID) as u64;
            args([flags, 0, a.out(4), a.out(4)])
        })
        .note("thread ids"),
        case("clone", |a| {
            let flags = libc::CLONE_VM
                | libc::CLONE_VFORK
                | libc::CLONE_PARENT_SETTID
                | libc::CLONE_CHILD_SETTID;
            args([CHILD | flags as u64, 0, a.out(4), a.out(4)])
        })
        .note("thread ids in shared memory"),
        case("clone3", |a| {
            let flags = (libc::CLONE_PIDFD | libc::CLONE_PARENT_SETTID) as u64;
            let (pidfd, tid) = (a.out(4), a.out(4));
            args([a.words(&[flags, pidfd, 0, tid, CHILD, 0, 0, 0]), 64])
        }),
        case("wait4", |a| {
            let child = child();
            args([child, a.out(4), 0, a.out(144)])
        }),
        case("wait4", |a| args([u64::MAX, a.out(4), 0, a.out(144)]))
            .note("none")
            .fails(libc::ECHILD),
        case("wait4", |a| {
            let child = sleeper(a);
            args([child, a.out(4), libc::WNOHANG as u64, a.out(144)])
        })
        .note("not yet"),
        case("waitid", |a| {
            args([1, child(), a.out(128), libc::WEXITED as u64, a.out(144)])
        }),
        case("waitid", |a| {
            args([0, 0, a.out(128), libc::WEXITED as u64, a.out(144)])
        })
        .note("none")
        .fails(libc::ECHILD),
        case("waitid", |a| {
            let child = sleeper(a);
            args([
                1,
                child,
                a.out(128),
                (libc::WEXITED | libc::WNOHANG) as u64,
                a.out(144),
            ])
        })
        .note("not yet"),
        case("execve", |a| {
            args([a.text("absent"), a.words(&[0]), a.words(&[0])])
        })
        .fails(libc::ENOENT),
        case("execveat", |a| {
            args([CWD, a.text("absent"), a.words(&[0]), a.words(&[0]), 0])
        })
        .fails(libc::ENOENT),
        case("set_tid_address", |a| args([a.out(4)])),
        case("set_robust_list", |a| args([a.bytes(&[0; 24]), 24])),
        case("get_robust_list", |a| args([SELF, a.out(8), a.out(8)])),
        case("rseq", |a| args([a.out(32), 32, 0, 0])).anything(),
        case("membarrier", |_| args([0, 0, 0])),
        case("unshare", |_| args([libc::CLONE_FS as u64])),
        case("personality", |_| args([0xffff_ffff])),
        case("prctl", |a| args([libc::PR_GET_NAME as u64, a.out(32)])).note("PR_GET_NAME"),
        case("prctl", |a| {
            args([libc::PR_SET_NAME as u64, a.text("name")])
        })
        .note("PR_SET_NAME"),
        case("prctl", |a| args([libc::PR_GET_PDEATHSIG as u64, a.out(4)])).note("PR_GET_PDEATHSIG"),
        case("prctl", |a| {
            args([libc::PR_GET_CHILD_SUBREAPER as u64, a.out(4)])
        })
        .note("PR_GET_CHILD_SUBREAPER"),
        case("prctl", |a| {
            args([libc::PR_GET_TID_ADDRESS as u64, a.out(8)])
        })
        .note("PR_GET_TID_ADDRESS")
        .anything(),
        case("prctl", |a| args([libc::PR_GET_TSC as u64, a.out(4)])).note("PR_GET_TSC"),
        case("prctl", |_| args([libc::PR_GET_DUMPABLE as u64])).note("PR_GET_DUMPABLE"),
        case("prctl", |a| args([0x4155_5856, a.out(64), 64]))
            .note("PR_GET_AUXV")
            .anything(),
        case("arch_prctl", |a| args([0x1003, a.out(8)])).note("ARCH_GET_FS"),
        case("arch_prctl", |a| args([0x1021, a.out(8)]))
            .note("ARCH_GET_XCOMP_SUPP")
            .anything(),
        case("pidfd_open", |_| args([sys("getpid", []), 0])),
        case("pidfd_getfd", |_| {
            args([sys("pidfd_open", [sys("getpid", []), 0]), file(b""), 0])
        }),
        case("process_vm_readv", |a| {
            let (from, to) = (a.bytes(b"0123456789"), a.out(64));
            let (local, remote) = (a.words(&[to, 64]), a.words(&[from, 10]));
            args([sys("getpid", []), local, 1, remote, 1, 0])
        }),
    ]
}

/// A child that ends at once; the case waits for it.
#[expect(clippy::zombie_processes, reason = "waiting is the call under test")]
fn child() -> u64 {
    let child = std::process::Command::new("/bin/true")
        .spawn()
        .expect("a child");
    u64::from(child.id())
}

/// A child that runs until its standard input ends, which is when this process
/// does.
#[expect(clippy::zombie_processes, reason = "waiting is the call under test")]
fn sleeper(arena: &mut super::Arena) -> u64 {
    use std::os::fd::FromRawFd as _;
    let (reader, _) = super::pipe(arena, b"");
    sys(
        "fcntl",
        [reader + 1, libc::F_SETFD as u64, libc::FD_CLOEXEC as u64],
    );
    // SAFETY: the descriptor was made by this set-up, which gives it away here.
    let input = unsafe { std::fs::File::from_raw_fd(reader as i32) };
    let child = std::process::Command::new("/bin/cat")
        .stdin(input)
        .spawn()
        .expect("a child");
    u64::from(child.id())
}

fn identity() -> Vec<Case> {
    const KEEP: u64 = u64::MAX;
    vec![
        case("getpid", |_| args([])),
        case("gettid", |_| args([])),
        case("getppid", |_| args([])),
        case("getuid", |_| args([])),
        case("geteuid", |_| args([])),
        case("getgid", |_| args([])),
        case("getegid", |_| args([])),
        case("getpgrp", |_| args([])),
        case("getpgid", |_| args([SELF])),
        case("setpgid", |_| args([0, 0])),
        case("getsid", |_| args([SELF])),
        case("setsid", |_| args([])),
        case("setuid", |_| args([sys("getuid", [])])),
        case("setgid", |_| args([sys("getgid", [])])),
        case("setreuid", |_| args([KEEP, KEEP])),
        case("setregid", |_| args([KEEP, KEEP])),
        case("setresuid", |_| args([KEEP, KEEP, KEEP])),
        case("setresgid", |_| args([KEEP, KEEP, KEEP])),
        case("setfsuid", |_| args([KEEP])),
        case("setfsgid", |_| args([KEEP])),
        case("getresuid", |a| args([a.out(4), a.out(4), a.out(4)])),
        case("getresgid", |a| args([a.out(4), a.out(4), a.out(4)])),
        case("getgroups", |a| args([64, a.out(256)])),
        case("getgroups", |a| args([0, a.out(256)])).note("count only"),
        case("setgroups", |a| args([1, a.ints(&[0])])),
        case("capget", |a| args([a.ints(&[0x2008_0522, 0]), a.out(24)])),
        case("capget", |a| args([a.ints(&[0x1998_0330, 0]), a.out(24)])).note("version 1"),
        case("capget", |a| args([a.ints(&[1, 0]), 0])).note("version"),
        case("capset", |a| {
            let (header, data) = (a.ints(&[0x2008_0522, 0]), a.words(&[0, 0, 0]));
            sys("capget", [header, data]);
            args([header, data])
        }),
        case("getrlimit", |a| args([7, a.out(16)])),
        case("setrlimit", |a| {
            let limit = a.words(&[0, 0]);
            sys("getrlimit", [7, limit]);
            args([7, limit])
        }),
        case("kcmp", |_| {
            args([sys("getpid", []), sys("getpid", []), 1, 0, 0])
        }),
        case("kcmp", |a| {
            let (reader, _) = super::pipe(a, b"");
            let epoll = sys("epoll_create1", [0]);
            sys("epoll_ctl", [epoll, 1, reader, a.ints(&[1, 7, 7])]);
            let slot = a.ints(&[epoll as u32, reader as u32, 0]);
            let me = sys("getpid", []);
            args([me, me, 7, reader, slot])
        })
        .note("KCMP_EPOLL_TFD"),
        case("prlimit64", |a| args([0, 7, 0, a.out(16)])),
        case("getrusage", |a| args([0, a.out(144)])),
    ]
}

fn scheduling() -> Vec<Case> {
    vec![
        case("sched_yield", |_| args([])),
        case("sched_getparam", |a| args([SELF, a.out(4)])),
        case("sched_setparam", |a| args([SELF, a.ints(&[0])])),
        case("sched_getscheduler", |_| args([SELF])),
        case("sched_setscheduler", |a| args([SELF, 0, a.ints(&[0])])),
        case("sched_get_priority_max", |_| args([1])),
        case("sched_get_priority_min", |_| args([1])),
        case("sched_rr_get_interval", |a| args([SELF, a.out(16)])),
        case("sched_getaffinity", |a| args([SELF, 1024, a.out(1024)])),
        case("sched_setaffinity", |a| {
            let mask = a.bytes(&[0; 128]);
            sys("sched_getaffinity", [SELF, 128, mask]);
            args([SELF, 128, mask])
        }),
        case("sched_getattr", |a| args([SELF, a.out(64), 56, 0])),
        case("sched_setattr", |a| {
            args([SELF, a.words(&[48, 0, 0, 0, 0, 0]), 0])
        }),
        case("sched_setattr", |a| {
            args([SELF, a.words(&[64, 0, 0, 0, 0, 0, 0, 1]), 0])
        })
        .note("from the future")
        .fails(libc::E2BIG),
        case("getpriority", |_| args([0, SELF])),
        case("setpriority", |_| args([0, SELF, 0])).anything(),
        case("ioprio_get", |_| args([1, SELF])),
        case("ioprio_set", |_| args([1, SELF, 2 << 13 | 4])),
        case("getcpu", |a| args([a.out(4), a.out(4), 0])),
    ]
}

fn signals() -> Vec<Case> {
    const USR1: u64 = libc::SIGUSR1 as u64;
    const BIT: u64 = 1 << (libc::SIGUSR1 - 1);
    vec![
        case("rt_sigaction", |a| {
            args([USR1, a.bytes(&[0; 32]), a.out(32), 8])
        }),
        case("rt_sigaction", |a| args([USR1, 0, a.out(32), 8])).note("query"),
        case("rt_sigprocmask", |a| {
            args([0, a.words(&[BIT]), a.out(8), 8])
        }),
        case("rt_sigpending", |a| args([a.out(8), 8])),
        case("rt_sigtimedwait", |a| {
            let set = a.words(&[BIT]);
            sys("rt_sigprocmask", [0, set, 0, 8]);
            sys("kill", [sys("getpid", []), USR1]);
            args([set, a.out(128), a.words(&[5, 0]), 8])
        }),
        case("rt_sigtimedwait", |a| {
            args([a.words(&[BIT]), a.out(128), a.words(&[0, 1000]), 8])
        })
        .note("none")
        .fails(libc::EAGAIN),
        case("rt_sigsuspend", |a| {
            interrupt_soon();
            args([a.words(&[0]), 8])
        })
        .fails(libc::EINTR),
        case("pause", |_| {
            interrupt_soon();
            args([])
        })
        .fails(libc::EINTR),
        case("sigaltstack", |a| args([0, a.out(24)])),
        case("kill", |_| args([sys("getpid", []), 0])),
        case("tkill", |_| args([sys("gettid", []), 0])),
        case("tgkill", |_| {
            args([sys("getpid", []), sys("gettid", []), 0])
        }),
        case("rt_sigqueueinfo", |a| {
            sys("rt_sigprocmask", [0, a.words(&[BIT]), 0, 8]);
            let info = info(a);
            args([sys("getpid", []), USR1, info])
        }),
        case("rt_tgsigqueueinfo", |a| {
            sys("rt_sigprocmask", [0, a.words(&[BIT]), 0, 8]);
            let info = info(a);
            args([sys("getpid", []), sys("gettid", []), USR1, info])
        }),
        case("pidfd_send_signal", |_| {
            args([sys("pidfd_open", [sys("getpid", []), 0]), 0, 0, 0])
        }),
    ]
}

/// A `siginfo_t` as `sigqueue` makes it.
fn info(arena: &mut super::Arena) -> u64 {
    let mut info = [0_u8; 128];
    info[0] = libc::SIGUSR1 as u8;
    info[8..12].copy_from_slice(&(-1_i32).to_le_bytes());
    arena.bytes(&info)
}
