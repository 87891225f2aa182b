//! Clocks, sleeping, timers.

use libc::{EAGAIN, EINVAL, ENOMEM, EPERM};

use super::prelude::*;

pub(super) const CALLS: &[Spec] = &[
    sys!(35 nanosleep(
        req: In(One(Timespec)), rem: OutWhen(When::Interrupted, One(Timespec))
    ) -> Zero)
    .blocks()
    .loads(&[Clock])
    .world(World::Clock),
    sys!(36 getitimer(which: Flags(flags::ITIMER), curr_value: Out(One(Itimerval))) -> Zero)
        .loads(&[Timers, Clock])
        .world(World::Clock),
    sys!(37 alarm(seconds: UInt) -> Value)
        .loads(&[Timers, Clock])
        .stores(&[Timers])
        .world(World::Clock),
    sys!(38 setitimer(
        which: Flags(flags::ITIMER), new_value: In(One(Itimerval)), old_value: Out(One(Itimerval))
    ) -> Zero)
    .loads(&[Timers, Clock])
    .stores(&[Timers])
    .world(World::Clock),
    sys!(96 gettimeofday(tv: Out(One(Timeval)), tz: Out(One(Timezone))) -> Zero)
        .loads(&[Clock])
        .world(World::Clock),
    sys!(100 times(buf: Out(One(Tms))) -> Value)
        .loads(&[Clock, Usage])
        .world(World::Clock),
    sys!(159 adjtimex(buf: InOutWhen(When::Always, One(Timex))) -> Value)
        .loads(&[Clock])
        .stores(&[Clock])
        .fails(&[EPERM])
        .world(World::Clock),
    sys!(164 settimeofday(tv: In(One(Timeval)), tz: In(One(Timezone))) -> Zero)
        .stores(&[Clock])
        .fails(&[EPERM])
        .world(World::Refuse),
    sys!(201 time(tloc: Out(One(I64))) -> Value)
        .loads(&[Clock])
        .world(World::Clock),
    sys!(222 timer_create(
        clockid: Flags(flags::CLOCK), sevp: In(One(Sigevent)), timerid: Out(One(I32))
    ) -> Zero)
    .stores(&[Timers])
    .fails(&[EAGAIN, EINVAL, ENOMEM])
    .means(&[(EAGAIN, Failure::Resource)]),
    sys!(223 timer_settime(
        timerid: Int, flags: Flags(flags::TIMER), new_value: In(One(Itimerspec)),
        old_value: Out(One(Itimerspec))
    ) -> Zero)
    .loads(&[Timers, Clock])
    .stores(&[Timers])
    .world(World::Clock),
    sys!(224 timer_gettime(timerid: Int, curr_value: Out(One(Itimerspec))) -> Zero)
        .loads(&[Timers, Clock])
        .world(World::Clock),
    sys!(225 timer_getoverrun(timerid: Int) -> Value)
        .loads(&[Timers, Clock])
        .world(World::Schedule),
    sys!(226 timer_delete(timerid: Int) -> Zero)
        .loads(&[Timers])
        .stores(&[Timers]),
    sys!(227 clock_settime(clockid: Flags(flags::CLOCK), tp: In(One(Timespec))) -> Zero)
        .stores(&[Clock])
        .fails(&[EPERM])
        .world(World::Refuse),
    sys!(228 clock_gettime(clockid: Flags(flags::CLOCK), tp: Out(One(Timespec))) -> Zero)
        .loads(&[Clock])
        .world(World::Clock),
    sys!(229 clock_getres(clockid: Flags(flags::CLOCK), res: Out(One(Timespec))) -> Zero)
        .loads(&[Machine])
        .world(World::Machine),
    sys!(230 clock_nanosleep(
        clockid: Flags(flags::CLOCK), flags: Flags(flags::TIMER), req: In(One(Timespec)),
        rem: OutWhen(When::Interrupted, One(Timespec))
    ) -> Zero)
    .blocks()
    .loads(&[Clock])
    .world(World::Clock),
    sys!(283 timerfd_create(clockid: Flags(flags::CLOCK), flags: Flags(flags::TIMERFD)) -> Fd)
        .stores(&[FdTable]),
    sys!(286 timerfd_settime(
        fd: Fd, flags: Flags(flags::TIMERFD_SET), new_value: In(One(Itimerspec)),
        old_value: Out(One(Itimerspec))
    ) -> Zero)
    .loads(&[FdTable, Content(0), Clock])
    .stores(&[Content(0)])
    .world(World::Clock),
    sys!(287 timerfd_gettime(fd: Fd, curr_value: Out(One(Itimerspec))) -> Zero)
        .loads(&[FdTable, Content(0), Clock])
        .world(World::Clock),
    sys!(305 clock_adjtime(clockid: Flags(flags::CLOCK), buf: InOut(One(Timex))) -> Value)
        .loads(&[Clock])
        .stores(&[Clock])
        .fails(&[EPERM])
        .world(World::Clock),
];
