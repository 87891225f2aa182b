//! Loops of calls on processes, threads and signals.

use super::Arg::{Fd, Gid, Got, Handler, N, Pid, Room, Text, Uid, Words};
use super::Thing::Pidfd;
use super::{Arg, Loop, c, close, n, often, program, seldom, through};

const SAME: Arg = N(-1);
const SIGNAL: Arg = N(libc::SIGUSR1 as i64);
/// `sigset_t` of the kernel.
const NO_SIGNALS: Arg = Words(&[0; 16]);

pub(super) const LOOPS: &[Loop] = &[
    // Processes and threads as programs make them.
    program("fork, exit, wait", &["clone", "exit_group", "wait4"]),
    program("fork, exit, wait: by its own number", &["fork"]),
    program("start of /bin/true, wait", &["execve", "vfork"]),
    program("thread, join", &["clone3", "exit"]),
    program("hand-off between threads: a channel", &[]),
    program("hand-off between threads: a pipe", &[]),
    program("hand-off between processes: pipes", &[]),
    often(
        "execve: a missing program",
        &[c("execve", &[Text("missing"), Words(&[0]), Words(&[0])])],
    ),
    seldom(
        "execveat: a missing program",
        &[n(
            "execveat",
            &[
                N(libc::AT_FDCWD as i64),
                Text("missing"),
                Words(&[0]),
                Words(&[0]),
                N(0),
            ],
        )],
    ),
    often(
        "wait4: no child",
        &[through("waitpid", "wait4", &[N(-1), Room(8), N(1)])],
    ),
    often(
        "waitid: no child",
        &[c("waitid", &[N(0), N(0), Room(128), N(5)])],
    ),
    // Identity.
    often("getpid", &[c("getpid", &[])]),
    often("getppid", &[c("getppid", &[])]),
    often("gettid", &[c("gettid", &[])]),
    often(
        "getuid, geteuid, getgid, getegid",
        &[
            c("getuid", &[]),
            c("geteuid", &[]),
            c("getgid", &[]),
            c("getegid", &[]),
        ],
    ),
    seldom("getresuid", &[c("getresuid", &[Room(8), Room(8), Room(8)])]),
    seldom("getresgid", &[c("getresgid", &[Room(8), Room(8), Room(8)])]),
    seldom("getgroups", &[c("getgroups", &[N(64), Room(256)])]),
    seldom(
        "getpgrp, getpgid",
        &[c("getpgrp", &[]), c("getpgid", &[N(0)])],
    ),
    seldom("getsid", &[c("getsid", &[N(0)])]),
    seldom("setuid: the same", &[n("setuid", &[Uid])]),
    seldom("setgid: the same", &[n("setgid", &[Gid])]),
    seldom("setreuid: the same", &[n("setreuid", &[SAME, SAME])]),
    seldom("setregid: the same", &[n("setregid", &[SAME, SAME])]),
    seldom(
        "setresuid: the same",
        &[n("setresuid", &[SAME, SAME, SAME])],
    ),
    seldom(
        "setresgid: the same",
        &[n("setresgid", &[SAME, SAME, SAME])],
    ),
    seldom("setfsuid: the same", &[n("setfsuid", &[SAME])]),
    seldom("setfsgid: the same", &[n("setfsgid", &[SAME])]),
    seldom("setpgid", &[c("setpgid", &[N(0), N(0)])]),
    seldom("setsid", &[c("setsid", &[])]),
    seldom("capget", &[n("capget", &[Words(&[0x2008_0522]), Room(24)])]),
    seldom(
        "capset: no version (EINVAL)",
        &[n("capset", &[Words(&[0]), Room(24)])],
    ),
    seldom(
        "kcmp: the same descriptor",
        &[n("kcmp", &[Pid, Pid, N(0), N(0), N(0)])],
    ),
    seldom(
        "pidfd_open, close",
        &[n("pidfd_open", &[Pid, N(0)]), close(&[Got(0)])],
    ),
    seldom(
        "pidfd_getfd, close",
        &[n("pidfd_getfd", &[Fd(Pidfd), N(1), N(0)]), close(&[Got(0)])],
    ),
    // Limits, scheduling, settings.
    often(
        "getrlimit",
        &[through("getrlimit", "prlimit64", &[N(7), Room(16)])],
    ),
    seldom(
        "getrlimit: by its own number",
        &[n("getrlimit", &[N(7), Room(16)])],
    ),
    seldom(
        "setrlimit: no such limit (EINVAL)",
        &[n("setrlimit", &[N(99), Words(&[0, 0])])],
    ),
    often("getrusage", &[c("getrusage", &[N(0), Room(256)])]),
    often("sched_yield", &[c("sched_yield", &[])]),
    often(
        "sched_getaffinity",
        &[c("sched_getaffinity", &[N(0), N(128), Room(128)])],
    ),
    seldom(
        "sched_setaffinity: all",
        &[c("sched_setaffinity", &[N(0), N(8), Words(&[-1])])],
    ),
    seldom("getpriority", &[c("getpriority", &[N(0), N(0)])]),
    seldom(
        "setpriority: of nothing (EINVAL)",
        &[c("setpriority", &[N(99), N(0), N(0)])],
    ),
    seldom("ioprio_get", &[n("ioprio_get", &[N(1), N(0)])]),
    seldom(
        "ioprio_set: of nothing (EINVAL)",
        &[n("ioprio_set", &[N(99), N(0), N(0)])],
    ),
    seldom("sched_getparam", &[c("sched_getparam", &[N(0), Room(8)])]),
    seldom(
        "sched_setparam: the same",
        &[c("sched_setparam", &[N(0), Words(&[0])])],
    ),
    seldom("sched_getscheduler", &[c("sched_getscheduler", &[N(0)])]),
    seldom(
        "sched_setscheduler: the same",
        &[c("sched_setscheduler", &[N(0), N(0), Words(&[0])])],
    ),
    seldom(
        "sched_getattr",
        &[n("sched_getattr", &[N(0), Room(64), N(56), N(0)])],
    ),
    seldom(
        "sched_setattr: flags (EINVAL)",
        &[n("sched_setattr", &[N(0), Room(64), N(1)])],
    ),
    seldom(
        "sched_get_priority_max",
        &[c("sched_get_priority_max", &[N(1)])],
    ),
    seldom(
        "sched_get_priority_min",
        &[c("sched_get_priority_min", &[N(1)])],
    ),
    seldom(
        "sched_rr_get_interval",
        &[c("sched_rr_get_interval", &[N(0), Room(16)])],
    ),
    seldom("personality", &[c("personality", &[N(0xffff_ffff)])]),
    often(
        "prctl: PR_SET_NAME",
        &[c("prctl", &[N(15), Text("x"), N(0), N(0), N(0)])],
    ),
    seldom(
        "prctl: PR_GET_DUMPABLE",
        &[c("prctl", &[N(3), N(0), N(0), N(0), N(0)])],
    ),
    seldom(
        "seccomp: SECCOMP_GET_ACTION_AVAIL",
        &[n("seccomp", &[N(2), N(0), Words(&[0])])],
    ),
    seldom("set_tid_address", &[n("set_tid_address", &[Room(8)])]),
    seldom(
        "get_robust_list",
        &[n("get_robust_list", &[N(0), Room(8), Room(8)])],
    ),
    seldom(
        "set_robust_list",
        &[n("set_robust_list", &[Room(24), N(24)])],
    ),
    seldom(
        "rseq: a second one (EINVAL)",
        &[n("rseq", &[Words(&[0; 4]), N(32), N(0), N(0)])],
    ),
    seldom("unshare: nothing", &[c("unshare", &[N(0)])]),
    seldom(
        "setns: no descriptor (EBADF)",
        &[c("setns", &[N(-1), N(0)])],
    ),
    // Signals.
    often(
        "rt_sigaction",
        &[through(
            "sigaction",
            "rt_sigaction",
            &[SIGNAL, N(0), Room(256)],
        )],
    ),
    often(
        "rt_sigprocmask",
        &[through(
            "sigprocmask",
            "rt_sigprocmask",
            &[N(0), NO_SIGNALS, Room(128)],
        )],
    ),
    often(
        "tgkill, rt_sigreturn: a handler",
        &[through("raise", "tgkill", &[SIGNAL])],
    )
    .after(&[through("signal", "rt_sigaction", &[SIGNAL, Handler])])
    .also(&["rt_sigreturn"]),
    often("kill: signal 0 to itself", &[c("kill", &[Pid, N(0)])]),
    seldom("tkill: signal 0 to itself", &[n("tkill", &[Pid, N(0)])]),
    seldom(
        "pidfd_send_signal: signal 0 to itself",
        &[n("pidfd_send_signal", &[Fd(Pidfd), N(0), N(0), N(0)])],
    ),
    seldom(
        "rt_sigqueueinfo: to itself",
        &[n(
            "rt_sigqueueinfo",
            &[
                Pid,
                N(libc::SIGURG as i64),
                Words(&[
                    libc::SIGURG as i64,
                    -1,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                ]),
            ],
        )],
    ),
    seldom(
        "rt_tgsigqueueinfo: to itself",
        &[n(
            "rt_tgsigqueueinfo",
            &[
                Pid,
                Pid,
                N(libc::SIGURG as i64),
                Words(&[
                    libc::SIGURG as i64,
                    -1,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                ]),
            ],
        )],
    ),
    seldom("rt_sigpending", &[n("rt_sigpending", &[Room(8), N(8)])]),
    seldom(
        "rt_sigtimedwait: none there",
        &[n(
            "rt_sigtimedwait",
            &[Words(&[0x200]), N(0), Words(&[0, 0]), N(8)],
        )],
    ),
    often("sigaltstack", &[c("sigaltstack", &[N(0), Room(64)])]),
    seldom(
        "signalfd, close",
        &[
            n("signalfd", &[N(-1), Words(&[0x200]), N(8)]),
            close(&[Got(0)]),
        ],
    ),
    seldom(
        "signalfd4, close",
        &[
            n("signalfd4", &[N(-1), Words(&[0x200]), N(8), N(0)]),
            close(&[Got(0)]),
        ],
    ),
];
