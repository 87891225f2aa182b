#![expect(unsafe_code, reason = "defines functions of the C library")]
//! Clocks: what the program reads is logged, and shown again in a replay.
//!
//! As with `pthread_create` (see [`interpose`](crate::engine::interpose)), a definition in the
//! program comes before the C library's. `Instant` and `SystemTime` come from `clock_gettime`.
//! Reads are not events: code that is not recorded may read clocks more or less often in a replay.
//! A read is logged with the thread's position in its log, and a replay shows it to a thread that
//! has come to that position. If the thread reads more than the recording has there, time goes on
//! from the last read at its usual pace, but not beyond the next one.
//!
//! So in a replay the program has its own time, which is [behind](behind) the real one. Absolute
//! deadlines that it gives to the system are moved to the real time: those of futex(2), which the
//! locks of `std` wait with, and of the functions that this module defines.
//!
//! Reads of the main thread before its first use of this crate are logged at that first use. Until
//! then the main thread may be a test harness, whose reads are not recorded.
//!
//! **Safety** rests on: the signatures are the C library's. Pointers are the caller's, and used as
//! the C library would, or passed on.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_int, c_long, c_void};
use std::sync::atomic::{AtomicI64, AtomicPtr, Ordering::Relaxed};
use std::time::{Duration, Instant};

use libc::{clockid_t, timespec};
use rr_channel_log::Clock;

use crate::engine::clock_sites::{self, From};
use crate::engine::context;
use crate::engine::executor;
use crate::engine::fork;
use crate::engine::replay::Shown;
use crate::engine::session::{Session, session};
use crate::engine::system_calls::{fail, is_of_interest};

/// The time that the calling thread was shown last.
#[derive(Debug, Clone, Copy)]
struct Last {
    shown: i64,
    /// How far that was behind the real time.
    behind: i64,
}

/// No thread was shown a clock by now.
const UNKNOWN: i64 = i64::MIN;
/// The reads of the main thread that are kept for its first use of this crate, at most.
const MOST_EARLIER: usize = 1 << 16;

thread_local! {
    static LAST: [Cell<Option<Last>>; Clock::COUNT] = const { [const { Cell::new(None) }; Clock::COUNT] };
    /// The reads of the main thread before its first use of this crate.
    static EARLIER: RefCell<Vec<(Clock, u64, i64)>> = const { RefCell::new(Vec::new()) };
}

/// How far behind the real time the thread was that was shown a clock last.
static BEHIND: [AtomicI64; Clock::COUNT] = [const { AtomicI64::new(UNKNOWN) }; Clock::COUNT];

/// Makes sure that the linker takes these definitions: references to them.
pub fn link() {
    let definitions = [
        clock_gettime as *const (),
        gettimeofday as *const (),
        time as *const (),
        clock_nanosleep as *const (),
        pthread_cond_timedwait as *const (),
        pthread_cond_clockwait as *const (),
        pthread_mutex_timedlock as *const (),
        sem_timedwait as *const (),
        sem_clockwait as *const (),
        timerfd_settime as *const (),
    ];
    std::hint::black_box(definitions.map(|definition| definition as usize));
}

/// A session begins that records or replays.
pub fn learn() {
    clock_sites::learn();
}

/// A replay begins, whose recording showed these clocks first.
pub fn begin(first: [Option<i64>; Clock::COUNT]) {
    for (number, first) in first.into_iter().enumerate() {
        let clock = Clock::new(number as i32);
        if let (Some(clock), Some(first)) = (clock, first)
            && let Some(real) = real(clock)
        {
            BEHIND[number].store(real.wrapping_sub(first), Relaxed);
        }
    }
}

/// Logs the main thread's reads so far, now that it uses this crate.
pub fn log_earlier() {
    let earlier = EARLIER.try_with(RefCell::take);
    for (clock, site, nanoseconds) in earlier.into_iter().flatten() {
        context::reads_clock(clock, site, |_| nanoseconds);
    }
}

/// The real instant at which the program's time is `shown`.
pub fn to_real(shown: Instant) -> Instant {
    moved(shown, |behind| behind)
}

/// The instant that the program is to be shown at the instant `real`.
pub fn to_shown(real: Instant) -> Instant {
    moved(real, i64::wrapping_neg)
}

fn moved(instant: Instant, by: impl FnOnce(i64) -> i64) -> Instant {
    let by = match Clock::new(libc::CLOCK_MONOTONIC).map(behind) {
        None | Some(0) => return instant,
        Some(behind) => by(behind),
    };
    let distance = Duration::from_nanos(by.unsigned_abs());
    let moved = if by < 0 {
        instant.checked_sub(distance)
    } else {
        instant.checked_add(distance)
    };
    moved.unwrap_or(instant)
}

/// How far the calling thread's time is behind the real one, in nanoseconds.
fn behind(clock: Clock) -> i64 {
    let number = clock.number();
    let own = LAST.try_with(|last| last[number].get()).ok().flatten();
    let behind = own.map_or_else(|| BEHIND[number].load(Relaxed), |last| last.behind);
    if behind == UNKNOWN { 0 } else { behind }
}

/// The time that the program is to be shown, which reads a clock now.
#[inline]
fn read(clock: Clock, from: From, real: i64) -> i64 {
    if !is_of_interest() {
        from.note();
        return real;
    }
    if context::is_unused_main() {
        return read_early(clock, from.site(), real);
    }
    // An executor's own reads are not the program's.
    if fork::is_fork() || executor::is_serving() {
        return real.wrapping_sub(behind(clock));
    }
    context::reads_clock(clock, from.site(), |shown| match shown {
        Some(shown) => show(clock, real, shown),
        None => real,
    })
    .unwrap_or(real)
}

/// A read of the main thread, before its first use of this crate.
#[cold]
fn read_early(clock: Clock, site: u64, real: i64) -> i64 {
    let shown = match session() {
        Session::Replay(engine) => engine.shown_early(clock, site),
        _ => None,
    };
    let nanoseconds = shown.map_or(real, |shown| show(clock, real, shown));
    let _ = EARLIER.try_with(|earlier| {
        if let Ok(mut earlier) = earlier.try_borrow_mut()
            && earlier.len() < MOST_EARLIER
        {
            earlier.push((clock, site, nanoseconds));
        }
    });
    nanoseconds
}

/// Shows the calling thread what the recording has, or what follows from it.
fn show(clock: Clock, real: i64, shown: Shown) -> i64 {
    let number = clock.number();
    let last = LAST.try_with(|last| last[number].get()).ok().flatten();
    let (mut time, is_recorded) = match shown {
        Shown::Recorded(time) => (time, true),
        Shown::Between { passed, next } => {
            let mut time = real.wrapping_sub(behind(clock));
            if let Some(passed) = passed {
                time = time.max(passed);
            }
            (next.map_or(time, |next| time.min(next)), false)
        }
    };
    // What is made up does not go back. What is recorded may: the last read may have been that of
    // another task, or of a library's own.
    if let Some(last) = last
        && !clock.is_of_day()
        && !is_recorded
    {
        time = time.max(last.shown);
    }
    let behind = real.wrapping_sub(time);
    let now = Last {
        shown: time,
        behind,
    };
    let _ = LAST.try_with(|last| last[number].set(Some(now)));
    BEHIND[number].store(behind, Relaxed);
    time
}

// What the C library has.

/// A function of the C library, looked up once.
struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Next {
        Next {
            name,
            found: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Its address; null if there is none.
    #[inline]
    fn get(&self) -> *mut c_void {
        let found = self.found.load(Relaxed);
        if found.is_null() {
            self.look_up()
        } else {
            found
        }
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        // SAFETY: a valid C string.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Relaxed);
        found
    }
}

type ClockGettime = unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int;

/// Reads a clock itself, by the C library's function.
///
/// # Safety
/// As that function.
#[inline]
unsafe fn ask(clock: clockid_t, time: *mut timespec) -> c_int {
    static NEXT: Next = Next::new(c"clock_gettime");
    let next = NEXT.get();
    if next.is_null() {
        return fail(libc::ENOSYS) as c_int;
    }
    // SAFETY: the C library's function of that name has this signature.
    let next = unsafe { std::mem::transmute::<*mut c_void, ClockGettime>(next) };
    // SAFETY: as the caller promised.
    unsafe { next(clock, time) }
}

/// The time that a clock shows, in nanoseconds.
fn real(clock: Clock) -> Option<i64> {
    let mut time = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure is there.
    let result = unsafe { ask(clock.number() as clockid_t, &raw mut time) };
    (result == 0).then(|| nanoseconds(&time))
}

#[inline]
const fn nanoseconds(time: &timespec) -> i64 {
    time.tv_sec
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec)
}

#[inline]
const fn to_timespec(nanoseconds: i64) -> timespec {
    timespec {
        tv_sec: nanoseconds.div_euclid(1_000_000_000),
        tv_nsec: nanoseconds.rem_euclid(1_000_000_000),
    }
}

// What the program calls.

/// Reads a clock. See clock_gettime(2).
///
/// # Safety
/// As the function of the C library.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    std::arch::naked_asm!(
        "mov rdx, [rsp]",
        "mov rcx, rbp",
        "mov r8, rsp",
        "jmp {from}",
        from = sym clock_gettime_from,
    )
}

/// [`clock_gettime`] of a caller that returns to `address`.
///
/// # Safety
/// As that. `frame` is what the caller has in the register for the address of its frame, and
/// `stack` is the address of the top of the stack.
unsafe extern "C" fn clock_gettime_from(
    clock: clockid_t,
    time: *mut timespec,
    address: usize,
    frame: usize,
    stack: usize,
) -> c_int {
    let from = From {
        address,
        frame,
        stack,
    };
    // SAFETY: as the caller promised.
    unsafe { clock_gettime_of(clock, time, from) }
}

/// # Safety
/// As [`clock_gettime`].
#[inline]
unsafe fn clock_gettime_of(clock: clockid_t, time: *mut timespec, from: From) -> c_int {
    // SAFETY: as the caller promised.
    let result = unsafe { ask(clock, time) };
    if result == 0
        && let Some(clock) = Clock::new(clock)
    {
        // SAFETY: the C library has just written there.
        let time = unsafe { &mut *time };
        let real = nanoseconds(time);
        let shown = read(clock, from, real);
        if shown != real {
            *time = to_timespec(shown);
        }
    }
    result
}

/// [`clock_gettime`] as a system call returns.
///
/// # Safety
/// As that.
pub(super) unsafe extern "C" fn clock_gettime_long(
    clock: clockid_t,
    time: *mut timespec,
) -> c_long {
    // SAFETY: as the caller promised.
    unsafe { clock_gettime_of(clock, time, From::NOWHERE) }.into()
}

/// The time of day. See gettimeofday(2).
///
/// # Safety
/// As the function of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn gettimeofday(to: *mut libc::timeval, zone: *mut c_void) -> c_int {
    let mut now = to_timespec(0);
    // SAFETY: the structure is there.
    if unsafe { clock_gettime_of(libc::CLOCK_REALTIME, &raw mut now, From::NOWHERE) } != 0 {
        return -1;
    }
    if !zone.is_null() {
        // The C library's does the same, whatever the time zone.
        // SAFETY: the caller has a structure there.
        unsafe { zone.cast::<[c_int; 2]>().write([0; 2]) };
    }
    if !to.is_null() {
        // SAFETY: the caller has a structure there.
        unsafe {
            to.write(libc::timeval {
                tv_sec: now.tv_sec,
                tv_usec: now.tv_nsec / 1000,
            });
        }
    }
    0
}

/// The time of day in seconds. See time(2).
///
/// # Safety
/// As the function of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn time(to: *mut libc::time_t) -> libc::time_t {
    let mut now = to_timespec(0);
    // As the C library's, which takes the time of the last tick.
    // SAFETY: the structure is there.
    if unsafe { clock_gettime_of(libc::CLOCK_REALTIME_COARSE, &raw mut now, From::NOWHERE) } != 0 {
        return -1;
    }
    if !to.is_null() {
        // SAFETY: the caller has a place there.
        unsafe { to.write(now.tv_sec) };
    }
    now.tv_sec
}

/// The deadline `until` of the program's time, as the system knows it.
fn deadline(clock: clockid_t, until: timespec) -> timespec {
    if !is_of_interest() {
        return until;
    }
    match Clock::new(clock).map(behind) {
        None | Some(0) => until,
        Some(behind) => {
            let moved = nanoseconds(&until).saturating_add(behind);
            to_timespec(moved.max(0))
        }
    }
}

/// A deadline that a caller has passed, as the system knows it.
///
/// # Safety
/// `until` is null or points to a time.
unsafe fn deadline_at(clock: clockid_t, until: *const timespec) -> Option<timespec> {
    // SAFETY: as the caller promised.
    let until = unsafe { until.as_ref() }?;
    // Those that the system refuses, and those beyond what nanoseconds can count, stay.
    let is_normal =
        (0..1_000_000_000).contains(&until.tv_nsec) && (0..1 << 32).contains(&until.tv_sec);
    Some(if is_normal {
        deadline(clock, *until)
    } else {
        *until
    })
}

fn address(deadline: &Option<timespec>) -> *const timespec {
    deadline
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref)
}

/// Waits, or does something else with a futex. See futex(2).
///
/// # Safety
/// As the system call.
pub(super) unsafe extern "C" fn futex(
    word: *mut u32,
    op: c_int,
    value: u32,
    timeout: *const timespec,
    other: *mut u32,
    value3: u32,
) -> c_long {
    let moved;
    let mut timeout = timeout;
    let kind = op & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
    let is_absolute = matches!(
        kind,
        libc::FUTEX_WAIT_BITSET | libc::FUTEX_LOCK_PI | FUTEX_LOCK_PI2
    );
    if is_absolute && !timeout.is_null() {
        let of_day = op & libc::FUTEX_CLOCK_REALTIME != 0 || kind == libc::FUTEX_LOCK_PI;
        let clock = if of_day {
            libc::CLOCK_REALTIME
        } else {
            libc::CLOCK_MONOTONIC
        };
        // SAFETY: as the caller promised.
        moved = unsafe { deadline_at(clock, timeout) };
        timeout = address(&moved);
    }
    let mut result = libc::SYS_futex as isize;
    // SAFETY: the caller's arguments, or a copy of its timeout; the registers that system calls
    // destroy are named.
    unsafe {
        std::arch::asm!(
            "syscall",
            inout("rax") result,
            in("rdi") word,
            in("rsi") op as isize,
            in("rdx") value as usize,
            in("r10") timeout,
            in("r8") other,
            in("r9") value3 as usize,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    if result < 0 {
        fail(-result as c_int)
    } else {
        result as c_long
    }
}

/// Of linux/futex.h since Linux 5.14; not in every version of the crate.
const FUTEX_LOCK_PI2: c_int = 13;

/// Defines functions of the C library that wait until `until` on `clock`, which are among their
/// arguments, or have a clock of their own.
macro_rules! waits {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($argument:ident: $type:ty),*) until $until:ident on $clock:expr;
    )*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// As the function of the C library.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
                type Function = unsafe extern "C-unwind" fn($($type),*) -> c_int;
                static NEXT: Next = Next::new(
                    match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => c"",
                    },
                );
                let next = NEXT.get();
                if next.is_null() {
                    return libc::ENOSYS;
                }
                // SAFETY: the C library's function of that name has this signature.
                let next = unsafe { std::mem::transmute::<*mut c_void, Function>(next) };
                // SAFETY: as the caller promised.
                let moved = unsafe { deadline_at($clock, $until) };
                let $until = address(&moved);
                // SAFETY: the caller's arguments, or a copy of its deadline.
                unsafe { next($($argument),*) }
            }
        )*
    };
}

waits! {
    /// Waits for a condition variable, by the time of day. See pthread_cond_timedwait(3).
    fn pthread_cond_timedwait(
        condition: *mut libc::pthread_cond_t,
        mutex: *mut libc::pthread_mutex_t,
        until: *const timespec
    ) until until on libc::CLOCK_REALTIME;
    /// Waits for a condition variable, by a clock. See pthread_cond_clockwait(3).
    fn pthread_cond_clockwait(
        condition: *mut libc::pthread_cond_t,
        mutex: *mut libc::pthread_mutex_t,
        clock: clockid_t,
        until: *const timespec
    ) until until on clock;
    /// Locks a mutex until a time of day. See pthread_mutex_timedlock(3).
    fn pthread_mutex_timedlock(
        mutex: *mut libc::pthread_mutex_t,
        until: *const timespec
    ) until until on libc::CLOCK_REALTIME;
    /// Waits for a semaphore until a time of day. See sem_timedwait(3).
    fn sem_timedwait(
        semaphore: *mut libc::sem_t,
        until: *const timespec
    ) until until on libc::CLOCK_REALTIME;
    /// Waits for a semaphore, by a clock. See sem_clockwait(3).
    fn sem_clockwait(
        semaphore: *mut libc::sem_t,
        clock: clockid_t,
        until: *const timespec
    ) until until on clock;
}

/// Sleeps. See clock_nanosleep(2).
///
/// # Safety
/// As the function of the C library.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    duration: *const timespec,
    left: *mut timespec,
) -> c_int {
    type Function =
        unsafe extern "C-unwind" fn(clockid_t, c_int, *const timespec, *mut timespec) -> c_int;
    static NEXT: Next = Next::new(c"clock_nanosleep");
    let next = NEXT.get();
    if next.is_null() {
        return libc::ENOSYS;
    }
    // SAFETY: the C library's function of that name has this signature.
    let next = unsafe { std::mem::transmute::<*mut c_void, Function>(next) };
    if flags & libc::TIMER_ABSTIME == 0 {
        // SAFETY: as the caller promised.
        return unsafe { next(clock, flags, duration, left) };
    }
    // SAFETY: as the caller promised.
    let moved = unsafe { deadline_at(clock, duration) };
    // SAFETY: as the caller promised, or a copy of its deadline.
    unsafe { next(clock, flags, address(&moved), left) }
}

/// Sets a timer. See timerfd_settime(2).
///
/// # Safety
/// As the function of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn timerfd_settime(
    timer: c_int,
    flags: c_int,
    new: *const libc::itimerspec,
    old: *mut libc::itimerspec,
) -> c_int {
    type Function =
        unsafe extern "C" fn(c_int, c_int, *const libc::itimerspec, *mut libc::itimerspec) -> c_int;
    static NEXT: Next = Next::new(c"timerfd_settime");
    let next = NEXT.get();
    if next.is_null() {
        return fail(libc::ENOSYS) as c_int;
    }
    // SAFETY: the C library's function of that name has this signature.
    let next = unsafe { std::mem::transmute::<*mut c_void, Function>(next) };
    // SAFETY: as the caller promised.
    let given = unsafe { new.as_ref() };
    let mut moved = given.copied();
    if let Some(moved) = &mut moved
        && flags & libc::TFD_TIMER_ABSTIME != 0
        // Zero disarms it.
        && nanoseconds(&moved.it_value) != 0
    {
        // Which clock it has is not known here; that of the day is rare.
        // SAFETY: a reference.
        let deadline = unsafe { deadline_at(libc::CLOCK_MONOTONIC, &raw const moved.it_value) };
        if let Some(deadline) = deadline {
            moved.it_value = deadline;
        }
    }
    let new = moved.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: as the caller promised, or a copy of its setting.
    unsafe { next(timer, flags, new, old) }
}
