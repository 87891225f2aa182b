//! Waiting for descriptors, notification, asynchronous input and output.

use libc::{EAGAIN, EEXIST, EINVAL, ELOOP, ENOENT, ENOMEM, ENOSPC, EPERM};

use super::prelude::*;

const ASYNCHRONOUS: &str = "the kernel writes results while the program runs";

pub(super) const CALLS: &[Spec] = &[
    sys!(7 poll(fds: In(Many(Pollfd, Arg(1))), nfds: UInt, timeout: Int) -> Count)
        .blocks()
        .loads(&[FdTable, Clock])
        .world(World::Schedule)
        .rule(Rule::Poll),
    sys!(23 select(
        nfds: Int, readfds: InOut(BitSet(0)), writefds: InOut(BitSet(0)),
        exceptfds: InOut(BitSet(0)), timeout: InOutWhen(When::SuccessOrInterrupted, One(Timeval))
    ) -> Count)
    .blocks()
    .loads(&[FdTable, Clock])
    .world(World::Schedule),
    sys!(206 io_setup(nr_events: UInt, ctx_idp: InOut(One(U64))) -> Zero)
        .stores(&[AddressSpace])
        .world(World::Address)
        .later(Later::Anytime)
        .unsupported(ASYNCHRONOUS)
        .fails(&[EAGAIN, EINVAL, ENOMEM])
        .means(&[(EAGAIN, Failure::Resource)]),
    sys!(207 io_destroy(ctx_id: Address) -> Zero)
        .blocks()
        .stores(&[AddressSpace])
        .unsupported(ASYNCHRONOUS),
    sys!(208 io_getevents(
        ctx_id: Address, min_nr: Long, nr: Long, events: Out(Many(IoEvent, Returned(2))),
        timeout: In(One(Timespec))
    ) -> Count)
    .blocks()
    .loads(&[AddressSpace, Clock])
    .world(World::Schedule)
    .unsupported(ASYNCHRONOUS),
    sys!(209 io_submit(ctx_id: Address, nr: Long, iocbpp: In(Many(U64, Arg(1)))) -> Count)
        .blocks()
        .loads(&[FdTable])
        .stores(&[FileSystems])
        .fails(&[EAGAIN])
        .later(Later::Anytime)
        .unmodelled("buffers are written when the requests complete")
        .unsupported(ASYNCHRONOUS),
    sys!(210 io_cancel(ctx_id: Address, iocb: In(One(Iocb)), result: Out(One(IoEvent))) -> Zero)
        .fails(&[EAGAIN])
        .world(World::Schedule)
        .unsupported(ASYNCHRONOUS),
    sys!(213 epoll_create(size: Int) -> Fd).stores(&[FdTable]),
    sys!(214 epoll_ctl_old() -> NoSys),
    sys!(215 epoll_wait_old() -> NoSys),
    sys!(232 epoll_wait(
        epfd: Fd, events: Out(Many(EpollEvent, Returned(2))), maxevents: Int, timeout: Int
    ) -> Count)
    .blocks()
    .loads(&[FdTable, Content(0), Clock])
    .stores(&[Content(0)])
    .world(World::Schedule),
    sys!(233 epoll_ctl(
        epfd: Fd, op: Flags(flags::EPOLL_OP), fd: Fd, event: In(One(EpollEvent))
    ) -> Zero)
    .loads(&[FdTable])
    .stores(&[Content(0)])
    .fails(&[EEXIST, EINVAL, ELOOP, ENOENT, ENOMEM, ENOSPC, EPERM]),
    sys!(253 inotify_init() -> Fd).stores(&[FdTable]),
    sys!(254 inotify_add_watch(
        fd: Fd, pathname: Path, mask: Flags(flags::INOTIFY_MASK)
    ) -> Value)
    .loads(&[FdTable, Name(1), Node(1), Cwd, Root])
    .stores(&[Content(0)])
    .fails(&[ENOSPC]),
    sys!(255 inotify_rm_watch(fd: Fd, wd: Int) -> Zero)
        .loads(&[FdTable])
        .stores(&[Content(0)]),
    sys!(270 pselect6(
        nfds: Int, readfds: InOut(BitSet(0)), writefds: InOut(BitSet(0)),
        exceptfds: InOut(BitSet(0)), timeout: InOutWhen(When::SuccessOrInterrupted, One(Timespec)),
        sigmask: In(One(SigsetPack))
    ) -> Count)
    .blocks()
    .loads(&[FdTable, Clock, PendingSignals])
    .world(World::Schedule)
    .rule(Rule::Pselect),
    sys!(271 ppoll(
        fds: In(Many(Pollfd, Arg(1))), nfds: UInt,
        tmo_p: InOutWhen(When::SuccessOrInterrupted, One(Timespec)), sigmask: In(One(Sigset)),
        sigsetsize: Size
    ) -> Count)
    .blocks()
    .loads(&[FdTable, Clock, PendingSignals])
    .world(World::Schedule)
    .rule(Rule::Poll),
    sys!(281 epoll_pwait(
        epfd: Fd, events: Out(Many(EpollEvent, Returned(2))), maxevents: Int, timeout: Int,
        sigmask: In(One(Sigset)), sigsetsize: Size
    ) -> Count)
    .blocks()
    .loads(&[FdTable, Content(0), Clock, PendingSignals])
    .stores(&[Content(0)])
    .world(World::Schedule),
    sys!(284 eventfd(initval: UInt) -> Fd).stores(&[FdTable]),
    sys!(290 eventfd2(initval: UInt, flags: Flags(flags::EVENTFD)) -> Fd).stores(&[FdTable]),
    sys!(291 epoll_create1(flags: Flags(flags::EPOLL)) -> Fd).stores(&[FdTable]),
    sys!(294 inotify_init1(flags: Flags(flags::INOTIFY)) -> Fd).stores(&[FdTable]),
    sys!(300 fanotify_init(flags: UInt, event_f_flags: Flags(flags::OPEN)) -> Fd)
        .stores(&[FdTable]),
    sys!(301 fanotify_mark(
        fanotify_fd: Fd, flags: UInt, mask: Word, dirfd: DirFd, pathname: Path
    ) -> Zero)
    .loads(&[FdTable, Name(4), Node(4), Cwd, Root])
    .stores(&[Content(0)])
    .fails(&[ENOSPC]),
    sys!(333 io_pgetevents(
        ctx_id: Address, min_nr: Long, nr: Long, events: Out(Many(IoEvent, Returned(2))),
        timeout: In(One(Timespec)), usig: In(One(SigsetPack))
    ) -> Count)
    .blocks()
    .loads(&[AddressSpace, Clock])
    .world(World::Schedule)
    .rule(Rule::Pselect)
    .unsupported(ASYNCHRONOUS),
    sys!(425 io_uring_setup(entries: UInt, params: InOut(One(IoUringParams))) -> Fd)
        .stores(&[FdTable])
        .later(Later::Anytime)
        .unsupported(ASYNCHRONOUS),
    sys!(426 io_uring_enter(
        fd: Fd, to_submit: UInt, min_complete: UInt, flags: UInt, argp: Address, argsz: Size
    ) -> Count)
    .blocks()
    .loads(&[FdTable, FileSystems])
    .stores(&[FileSystems])
    .world(World::Refuse)
    .later(Later::Anytime)
    .unmodelled("requests are in memory shared with the kernel")
    .unsupported(ASYNCHRONOUS),
    sys!(427 io_uring_register(fd: Fd, opcode: UInt, arg: Address, nr_args: UInt) -> Value)
        .loads(&[FdTable])
        .stores(&[Content(0)])
        .world(World::Refuse)
        .later(Later::Anytime)
        .unmodelled("its operations have shapes of their own")
        .unsupported(ASYNCHRONOUS),
    sys!(441 epoll_pwait2(
        epfd: Fd, events: Out(Many(EpollEvent, Returned(2))), maxevents: Int,
        timeout: In(One(Timespec)), sigmask: In(One(Sigset)), sigsetsize: Size
    ) -> Count)
    .blocks()
    .loads(&[FdTable, Content(0), Clock, PendingSignals])
    .stores(&[Content(0)])
    .world(World::Schedule),
];
