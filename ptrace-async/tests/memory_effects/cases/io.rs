//! Transfers of data, waiting for descriptors, notification, timers.

use super::{Case, args, case, file, file_named, interrupt_soon, pipe, sockets, sys};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = transfers();
    cases.extend(waiting());
    cases.extend(clocks());
    cases
}

fn transfers() -> Vec<Case> {
    vec![
        case("read", |a| args([file(b"hello, world"), a.out(64), 64])),
        case("read", |a| args([file(b""), a.out(64), 64])).note("end of file"),
        case("read", |a| args([9999, a.out(64), 64]))
            .note("bad")
            .fails(libc::EBADF),
        case("write", |a| args([file(b""), a.bytes(b"hello"), 5])),
        case("pread64", |a| args([file(b"0123456789"), a.out(64), 4, 2])),
        case("pwrite64", |a| {
            args([file(b"0123456789"), a.bytes(b"xy"), 2, 2])
        }),
        case("readv", |a| {
            let (one, two) = (a.out(4), a.out(64));
            args([file(b"hello, world"), a.words(&[one, 4, two, 64]), 2])
        }),
        case("writev", |a| {
            let (one, two) = (a.bytes(b"hell"), a.bytes(b"o"));
            args([file(b""), a.words(&[one, 4, two, 1]), 2])
        }),
        case("preadv", |a| {
            let (one, two) = (a.out(4), a.out(64));
            args([file(b"hello, world"), a.words(&[one, 4, two, 64]), 2, 1, 0])
        }),
        case("pwritev", |a| {
            let one = a.bytes(b"hell");
            args([file(b""), a.words(&[one, 4]), 1, 1, 0])
        }),
        case("preadv2", |a| {
            let (one, two) = (a.out(4), a.out(64));
            args([
                file(b"hello, world"),
                a.words(&[one, 4, two, 64]),
                2,
                1,
                0,
                0,
            ])
        }),
        case("pwritev2", |a| {
            let one = a.bytes(b"hell");
            args([file(b""), a.words(&[one, 4]), 1, 1, 0, 0])
        }),
        case("sendfile", |a| {
            let (_, writer) = pipe(a, b"");
            args([writer, file(b"0123456789"), a.words(&[2]), 4])
        }),
        case("copy_file_range", |a| {
            let (from, to) = (file(b"0123456789"), file_named("g", b""));
            args([from, a.words(&[2]), to, a.words(&[0]), 4, 0])
        }),
        case("splice", |a| {
            let (_, writer) = pipe(a, b"");
            args([file(b"0123456789"), a.words(&[2]), writer, 0, 4, 0])
        }),
        case("tee", |a| {
            let (reader, _) = pipe(a, b"hello");
            let (_, writer) = pipe(a, b"");
            args([reader, writer, 5, 0])
        }),
    ]
}

fn waiting() -> Vec<Case> {
    const IN: u64 = libc::POLLIN as u64;
    vec![
        case("poll", |a| {
            let (reader, writer) = pipe(a, b"x");
            let fds = a.words(&[
                reader | IN << 32 | 0x7777 << 48,
                writer | 4 << 32 | 0x7777 << 48,
            ]);
            args([fds, 2, 0])
        }),
        case("poll", |a| {
            interrupt_soon();
            let (reader, _) = pipe(a, b"");
            args([a.words(&[reader | IN << 32 | 0x7777 << 48]), 1, 5000])
        })
        .note("interrupted")
        .fails(libc::EINTR),
        case("ppoll", |a| {
            let (reader, _) = pipe(a, b"x");
            let fds = a.words(&[reader | IN << 32 | 0x7777 << 48]);
            args([fds, 1, a.words(&[5, 0]), a.words(&[0]), 8])
        }),
        case("select", |a| {
            let (reader, _) = pipe(a, b"x");
            let set = a.words(&[1 << reader | 3, 0]);
            args([reader + 1, set, 0, a.words(&[0]), a.words(&[5, 0])])
        }),
        case("select", |a| {
            interrupt_soon();
            let (reader, _) = pipe(a, b"");
            args([reader + 1, a.words(&[1 << reader]), 0, 0, a.words(&[5, 0])])
        })
        .note("interrupted")
        .fails(libc::EINTR),
        case("pselect6", |a| {
            let (reader, _) = pipe(a, b"x");
            let mask = a.words(&[0]);
            let pack = a.words(&[mask, 8]);
            args([
                reader + 1,
                a.words(&[1 << reader]),
                0,
                0,
                a.words(&[5, 0]),
                pack,
            ])
        }),
        case("epoll_create", |_| args([1])),
        case("epoll_create1", |_| args([0])),
        case("epoll_ctl", |a| {
            let (reader, _) = pipe(a, b"x");
            let event = a.ints(&[1, 7, 7]);
            args([sys("epoll_create1", [0]), 1, reader, event])
        }),
        case("epoll_wait", |a| args([ready_epoll(a), a.out(48), 4, 0])),
        case("epoll_pwait", |a| {
            args([ready_epoll(a), a.out(48), 4, 0, a.words(&[0]), 8])
        }),
        case("epoll_pwait2", |a| {
            args([
                ready_epoll(a),
                a.out(48),
                4,
                a.words(&[1, 0]),
                a.words(&[0]),
                8,
            ])
        }),
        case("eventfd", |_| args([3])),
        case("eventfd2", |_| args([3, 0])),
        case("inotify_init", |_| args([])),
        case("inotify_init1", |_| args([0])),
        case("inotify_add_watch", |a| {
            args([sys("inotify_init1", [0]), a.text("."), 2])
        }),
        case("inotify_rm_watch", |a| {
            let fd = sys("inotify_init1", [0]);
            args([fd, sys("inotify_add_watch", [fd, a.text("."), 2])])
        }),
        case("fanotify_init", |_| args([0, 0])),
        case("signalfd", |a| args([u64::MAX, a.words(&[1 << 9]), 8])),
        case("signalfd4", |a| args([u64::MAX, a.words(&[1 << 9]), 8, 0])),
        case("shutdown", |a| args([sockets(a, libc::SOCK_STREAM).0, 2])),
    ]
}

fn ready_epoll(arena: &mut super::Arena) -> u64 {
    let (reader, _) = pipe(arena, b"x");
    let epoll = sys("epoll_create1", [0]);
    sys("epoll_ctl", [epoll, 1, reader, arena.ints(&[1, 7, 7])]);
    epoll
}

fn clocks() -> Vec<Case> {
    const MONOTONIC: u64 = libc::CLOCK_MONOTONIC as u64;
    vec![
        case("nanosleep", |a| args([a.words(&[0, 1000]), a.out(16)])),
        case("nanosleep", |a| {
            interrupt_soon();
            args([a.words(&[5, 0]), a.out(16)])
        })
        .note("interrupted")
        .fails(libc::EINTR),
        case("clock_nanosleep", |a| {
            args([MONOTONIC, 0, a.words(&[0, 1000]), a.out(16)])
        }),
        case("clock_nanosleep", |a| {
            interrupt_soon();
            args([MONOTONIC, 0, a.words(&[5, 0]), a.out(16)])
        })
        .note("interrupted")
        .fails(libc::EINTR),
        case("clock_gettime", |a| args([MONOTONIC, a.out(16)])),
        case("clock_gettime", |a| args([999, a.out(16)]))
            .note("bad")
            .fails(libc::EINVAL),
        case("clock_getres", |a| args([MONOTONIC, a.out(16)])),
        case("clock_adjtime", |a| args([0, a.bytes(&[0; 208])])),
        case("adjtimex", |a| args([a.bytes(&[0; 208])])),
        case("gettimeofday", |a| args([a.out(16), a.out(8)])),
        case("time", |a| args([a.out(8)])),
        case("times", |a| args([a.out(32)])),
        case("alarm", |_| args([100])),
        case("getitimer", |a| args([0, a.out(32)])),
        case("setitimer", |a| {
            args([0, a.words(&[0, 0, 100, 0]), a.out(32)])
        }),
        case("timer_create", |a| {
            let event = a.bytes(&{
                let mut event = [0; 64];
                event[12] = 1; // SIGEV_NONE
                event
            });
            args([MONOTONIC, event, a.out(4)])
        }),
        case("timer_settime", |a| {
            let timer = timer(a);
            args([timer, 0, a.words(&[0, 0, 100, 0]), a.out(32)])
        }),
        case("timer_gettime", |a| args([timer(a), a.out(32)])),
        case("timer_getoverrun", |a| args([timer(a)])),
        case("timer_delete", |a| args([timer(a)])),
        case("timerfd_create", |_| args([MONOTONIC, 0])),
        case("timerfd_settime", |a| {
            let timer = sys("timerfd_create", [MONOTONIC, 0]);
            args([timer, 0, a.words(&[0, 0, 100, 0]), a.out(32)])
        }),
        case("timerfd_gettime", |a| {
            args([sys("timerfd_create", [MONOTONIC, 0]), a.out(32)])
        }),
    ]
}

fn timer(arena: &mut super::Arena) -> u64 {
    let mut event = [0; 64];
    event[12] = 1; // SIGEV_NONE
    let event = arena.bytes(&event);
    let id = arena.words(&[0]);
    sys("timer_create", [libc::CLOCK_MONOTONIC as u64, event, id]);
    arena.read_word(id)
}
