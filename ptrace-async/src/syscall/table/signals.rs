//! Signals.

use libc::{EAGAIN, EPERM};

use super::prelude::*;

pub(super) const CALLS: &[Spec] = &[
    sys!(13 rt_sigaction(
        signum: Signal, act: In(One(Sigaction)), oldact: Out(One(Sigaction)), sigsetsize: Size
    ) -> Zero)
    .loads(&[SignalActions])
    .stores(&[SignalActions])
    .reexecuted(),
    sys!(14 rt_sigprocmask(
        how: Flags(flags::SIG_HOW), set: In(One(Sigset)), oldset: Out(One(Sigset)),
        sigsetsize: Size
    ) -> Zero)
    .loads(&[SignalMask])
    .stores(&[SignalMask])
    .reexecuted(),
    sys!(15 rt_sigreturn() -> Never)
        .stores(&[SignalMask, Myself])
        .special(),
    sys!(34 pause() -> Never)
        .blocks()
        .loads(&[PendingSignals])
        .world(World::Schedule),
    sys!(62 kill(pid: Pid, sig: Signal) -> Zero)
        .loads(&[Credentials])
        .stores(&[Process(0), PendingSignals])
        .fails(&[EPERM]),
    sys!(127 rt_sigpending(set: Out(Bytes(Arg(1))), sigsetsize: Size) -> Zero)
        .loads(&[PendingSignals])
        .world(World::Schedule),
    sys!(128 rt_sigtimedwait(
        set: In(One(Sigset)), info: OutWhen(When::Positive, One(Siginfo)),
        timeout: In(One(Timespec)), sigsetsize: Size
    ) -> Value)
    .blocks()
    .loads(&[PendingSignals, Clock])
    .stores(&[PendingSignals])
    .world(World::Schedule)
    .fails(&[EAGAIN])
    .means(&[(EAGAIN, Failure::Retried)]),
    sys!(129 rt_sigqueueinfo(tgid: Pid, sig: Signal, info: In(One(Siginfo))) -> Zero)
        .stores(&[Process(0), PendingSignals])
        .fails(&[EAGAIN, EPERM])
        .means(&[(EAGAIN, Failure::Resource)]),
    sys!(130 rt_sigsuspend(mask: In(One(Sigset)), sigsetsize: Size) -> Never)
        .blocks()
        .loads(&[PendingSignals])
        .stores(&[SignalMask])
        .world(World::Schedule)
        .special(),
    sys!(131 sigaltstack(ss: In(One(Stack)), old_ss: Out(One(Stack))) -> Zero)
        .loads(&[SignalMask])
        .stores(&[SignalMask])
        .reexecuted(),
    sys!(200 tkill(tid: Pid, sig: Signal) -> Zero)
        .stores(&[Process(0), PendingSignals])
        .fails(&[EAGAIN, EPERM]),
    sys!(219 restart_syscall() -> Value)
        .blocks()
        .loads(&[Clock])
        .world(World::Schedule)
        .special()
        .unmodelled("it finishes an earlier call, with the effects of that call"),
    sys!(234 tgkill(tgid: Pid, tid: Pid, sig: Signal) -> Zero)
        .stores(&[Process(1), PendingSignals])
        .fails(&[EAGAIN, EPERM]),
    sys!(282 signalfd(fd: Fd, mask: In(One(Sigset)), sizemask: Size) -> Fd)
        .stores(&[FdTable, File(0)]),
    sys!(289 signalfd4(
        fd: Fd, mask: In(One(Sigset)), sizemask: Size, flags: Flags(flags::SIGNALFD)
    ) -> Fd)
    .stores(&[FdTable, File(0)]),
    sys!(297 rt_tgsigqueueinfo(
        tgid: Pid, tid: Pid, sig: Signal, info: In(One(Siginfo))
    ) -> Zero)
    .stores(&[Process(1), PendingSignals])
    .fails(&[EAGAIN, EPERM])
    .means(&[(EAGAIN, Failure::Resource)]),
    sys!(424 pidfd_send_signal(
        pidfd: Fd, sig: Signal, info: In(One(Siginfo)), flags: Flags(flags::PLAIN)
    ) -> Zero)
    .loads(&[FdTable])
    .stores(&[Process(0), PendingSignals])
    .fails(&[EPERM]),
];
