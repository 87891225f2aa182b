//! Loops of calls about time, events and messages.

use super::Arg::{Fd, Got, IntIn, Message, N, Room, Shared, Text, WordIn, Words, Zeroed};
use super::Thing::{Epoll, Inotify, Lone, Peer, PipeOut, Socket, Timer};
use super::{Arg, Loop, c, close, n, often, program, seldom};

const NOW: Arg = Words(&[0, 0]);
const TINY: Arg = Words(&[0, 1]);
const MONOTONIC: Arg = N(libc::CLOCK_MONOTONIC as i64);
const BYTE: Arg = Room(8);

pub(super) const LOOPS: &[Loop] = &[
    // Time.
    often(
        "clock_gettime: CLOCK_MONOTONIC",
        &[c("clock_gettime", &[MONOTONIC, Room(16)])],
    ),
    often(
        "clock_gettime: CLOCK_REALTIME",
        &[c("clock_gettime", &[N(0), Room(16)])],
    ),
    often(
        "clock_gettime: CLOCK_MONOTONIC_COARSE",
        &[c("clock_gettime", &[N(6), Room(16)])],
    ),
    often(
        "clock_gettime: CLOCK_THREAD_CPUTIME_ID",
        &[c("clock_gettime", &[N(3), Room(16)])],
    ),
    seldom(
        "clock_gettime: by syscall(2)",
        &[n("clock_gettime", &[MONOTONIC, Room(16)])],
    ),
    often("gettimeofday", &[c("gettimeofday", &[Room(16), N(0)])]),
    often("time", &[c("time", &[N(0)])]),
    seldom("time: by syscall(2)", &[n("time", &[N(0)])]),
    seldom("clock_getres", &[c("clock_getres", &[MONOTONIC, Room(16)])]),
    seldom("times", &[c("times", &[Room(64)])]),
    often("nanosleep: a nanosecond", &[c("nanosleep", &[TINY, N(0)])]),
    often(
        "clock_nanosleep: a nanosecond",
        &[c("clock_nanosleep", &[MONOTONIC, N(0), TINY, N(0)])],
    ),
    seldom("alarm: off", &[c("alarm", &[N(0)])]),
    seldom("getitimer", &[c("getitimer", &[N(0), Room(32)])]),
    seldom(
        "setitimer: off",
        &[c("setitimer", &[N(0), Words(&[0, 0, 0, 0]), N(0)])],
    ),
    seldom("adjtimex: read", &[n("adjtimex", &[Room(256)])]),
    seldom(
        "clock_adjtime: read",
        &[n("clock_adjtime", &[N(0), Room(256)])],
    ),
    seldom(
        "timer_create, timer_settime, timer_gettime, timer_getoverrun, timer_delete",
        &[
            n("timer_create", &[MONOTONIC, N(0), Shared(0)]),
            n(
                "timer_settime",
                &[IntIn(0, 0), N(0), Words(&[0, 0, 0, 0]), N(0)],
            ),
            n("timer_gettime", &[IntIn(0, 0), Room(32)]),
            n("timer_getoverrun", &[IntIn(0, 0)]),
            n("timer_delete", &[IntIn(0, 0)]),
        ],
    ),
    seldom(
        "timerfd_create, close",
        &[c("timerfd_create", &[MONOTONIC, N(0)]), close(&[Got(0)])],
    ),
    seldom(
        "timerfd_settime, timerfd_gettime",
        &[
            c(
                "timerfd_settime",
                &[Fd(Timer), N(0), Words(&[0, 0, 0, 0]), N(0)],
            ),
            c("timerfd_gettime", &[Fd(Timer), Room(32)]),
        ],
    ),
    // Events.
    often(
        "epoll_wait: nothing there",
        &[c("epoll_wait", &[Fd(Epoll), Room(64), N(4), N(0)])],
    ),
    often(
        "epoll_pwait: nothing there",
        &[c("epoll_pwait", &[Fd(Epoll), Room(64), N(4), N(0), N(0)])],
    ),
    seldom(
        "epoll_pwait2: nothing there",
        &[n(
            "epoll_pwait2",
            &[Fd(Epoll), Room(64), N(4), NOW, N(0), N(8)],
        )],
    ),
    often(
        "epoll_ctl: add, modify, delete",
        &[
            c("epoll_ctl", &[Fd(Epoll), N(1), Fd(PipeOut), Words(&[1, 0])]),
            c("epoll_ctl", &[Fd(Epoll), N(3), Fd(PipeOut), Words(&[1, 0])]),
            c("epoll_ctl", &[Fd(Epoll), N(2), Fd(PipeOut), N(0)]),
        ],
    ),
    seldom(
        "epoll_create1, close",
        &[c("epoll_create1", &[N(0)]), close(&[Got(0)])],
    ),
    seldom(
        "epoll_create, close",
        &[n("epoll_create", &[N(1)]), close(&[Got(0)])],
    ),
    seldom(
        "eventfd2, close",
        &[n("eventfd2", &[N(0), N(0)]), close(&[Got(0)])],
    ),
    seldom("eventfd, close", &[n("eventfd", &[N(0)]), close(&[Got(0)])]),
    seldom(
        "inotify_init1, close",
        &[n("inotify_init1", &[N(0)]), close(&[Got(0)])],
    ),
    seldom(
        "inotify_init, close",
        &[n("inotify_init", &[]), close(&[Got(0)])],
    ),
    seldom(
        "inotify_add_watch, inotify_rm_watch",
        &[
            c("inotify_add_watch", &[Fd(Inotify), Text("dir"), N(2)]),
            c("inotify_rm_watch", &[Fd(Inotify), Got(0)]),
        ],
    ),
    seldom(
        "io_setup, io_getevents, io_pgetevents, io_submit, io_cancel, io_destroy",
        &[
            n("io_setup", &[N(1), Zeroed(1)]),
            n("io_getevents", &[WordIn(1), N(0), N(1), Room(64), NOW]),
            n(
                "io_pgetevents",
                &[WordIn(1), N(0), N(1), Room(64), NOW, N(0)],
            ),
            n("io_submit", &[WordIn(1), N(0), Room(8)]),
            n("io_cancel", &[WordIn(1), Room(64), Room(64)]),
            n("io_destroy", &[WordIn(1)]),
        ],
    ),
    seldom(
        "io_uring_setup, close",
        &[n("io_uring_setup", &[N(1), Room(256)]), close(&[Got(0)])],
    ),
    seldom(
        "io_uring_enter: no descriptor (EBADF)",
        &[n("io_uring_enter", &[N(-1), N(0), N(0), N(0)])],
    ),
    seldom(
        "io_uring_register: no descriptor (EBADF)",
        &[n("io_uring_register", &[N(-1), N(0), N(0), N(0)])],
    ),
    // Sockets.
    program("request and answer: TCP on the loopback", &[]),
    often(
        "sendto, recvfrom: a byte",
        &[
            c("sendto", &[Fd(Socket), BYTE, N(1), N(0), N(0), N(0)]),
            c("recvfrom", &[Fd(Peer), BYTE, N(1), N(0), N(0), N(0)]),
        ],
    ),
    often(
        "sendmsg, recvmsg: a byte",
        &[
            c("sendmsg", &[Fd(Socket), Message, N(0)]),
            c("recvmsg", &[Fd(Peer), Message, N(0)]),
        ],
    ),
    seldom(
        "sendmmsg, recvmmsg: a byte",
        &[
            c("sendmmsg", &[Fd(Socket), Message, N(1), N(0)]),
            c("recvmmsg", &[Fd(Peer), Message, N(1), N(0), N(0)]),
        ],
    ),
    often(
        "socket, close",
        &[c("socket", &[N(1), N(1), N(0)]), close(&[Got(0)])],
    ),
    seldom(
        "socketpair, close, close",
        &[
            c("socketpair", &[N(1), N(1), N(0), Shared(0)]),
            close(&[IntIn(0, 0)]),
            close(&[IntIn(0, 1)]),
        ],
    ),
    seldom(
        "connect: nobody there",
        &[c("connect", &[Fd(Lone), Words(&[0x0078_0001]), N(8)])],
    ),
    seldom(
        "bind: no address (EINVAL)",
        &[c("bind", &[Fd(Lone), Room(16), N(1)])],
    ),
    seldom(
        "listen: no address (EINVAL)",
        &[c("listen", &[Fd(Lone), N(1)])],
    ),
    seldom(
        "accept: nobody listens (EINVAL)",
        &[c("accept", &[Fd(Lone), N(0), N(0)])],
    ),
    seldom(
        "accept4: nobody listens (EINVAL)",
        &[c("accept4", &[Fd(Lone), N(0), N(0), N(0)])],
    ),
    seldom(
        "shutdown: not connected (ENOTCONN)",
        &[c("shutdown", &[Fd(Lone), N(2)])],
    ),
    seldom(
        "getsockname",
        &[c("getsockname", &[Fd(Socket), Room(128), Words(&[128])])],
    ),
    seldom(
        "getpeername",
        &[c("getpeername", &[Fd(Socket), Room(128), Words(&[128])])],
    ),
    seldom(
        "getsockopt",
        &[c(
            "getsockopt",
            &[Fd(Socket), N(1), N(3), Room(8), Words(&[8])],
        )],
    ),
    seldom(
        "setsockopt",
        &[c(
            "setsockopt",
            &[Fd(Socket), N(1), N(16), Words(&[0]), N(4)],
        )],
    ),
    // System V and POSIX objects.
    seldom(
        "shmget, shmat, shmdt, shmctl",
        &[
            c("shmget", &[N(0), N(4096), N(0o600)]),
            c("shmat", &[Got(0), N(0), N(0)]),
            c("shmdt", &[Got(1)]),
            c("shmctl", &[Got(0), N(0), N(0)]),
        ],
    ),
    seldom(
        "semget, semop, semtimedop, semctl",
        &[
            c("semget", &[N(0), N(1), N(0o600)]),
            c("semop", &[Got(0), Words(&[0x1_0000]), N(1)]),
            n("semtimedop", &[Got(0), Words(&[0x1_0000]), N(1), NOW]),
            c("semctl", &[Got(0), N(0), N(0)]),
        ],
    ),
    seldom(
        "msgget, msgsnd, msgrcv, msgctl",
        &[
            c("msgget", &[N(0), N(0o600)]),
            c("msgsnd", &[Got(0), Words(&[1, 0]), N(1), N(0)]),
            c("msgrcv", &[Got(0), Room(16), N(1), N(0), N(0)]),
            c("msgctl", &[Got(0), N(0), N(0)]),
        ],
    ),
    seldom(
        "mq_open: a missing queue, mq_unlink",
        &[
            n("mq_open", &[Text("reprise-none"), N(0), N(0), N(0)]),
            n("mq_unlink", &[Text("reprise-none")]),
        ],
    ),
    seldom(
        "mq_getsetattr, mq_timedsend, mq_timedreceive, mq_notify: no descriptor (EBADF)",
        &[
            n("mq_getsetattr", &[N(-1), N(0), N(0)]),
            n("mq_timedsend", &[N(-1), BYTE, N(1), N(0), N(0)]),
            n("mq_timedreceive", &[N(-1), BYTE, N(1), N(0), N(0)]),
            n("mq_notify", &[N(-1), N(0)]),
        ],
    ),
    seldom(
        "keyctl: the session's keyring",
        &[n("keyctl", &[N(0), N(-3), N(0)])],
    ),
];
