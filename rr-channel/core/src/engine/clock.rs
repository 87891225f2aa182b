#![expect(unsafe_code, reason = "defines functions of the C library")]
//! Clocks: what the program reads is logged, and shown again in a replay.
//!
//! As with `pthread_create` (see [`interpose`](crate::engine::interpose)), a definition in the
//! program comes before the C library's. `Instant` and `SystemTime` come from `clock_gettime`, which
//! this module defines. Other callers than `std` are shown the real time: an allocator reads clocks
//! while it holds its locks, and C code waits with deadlines that are not seen here.
//!
//! Reads are not events: code that is not recorded may read clocks more or less often in a replay.
//! A read is logged with the thread's position in its log, and a replay shows it to a thread that
//! has come to that position. If the thread reads more than the recording has there, time goes on
//! from the last read at its usual pace, but not beyond the next one.
//!
//! So in a replay the program has its own time, which is [behind](crate::engine::shown::behind) the real one. `std` waits
//! until an absolute deadline, by futex(2), and reads the clock just before. That deadline is moved
//! by as much as that read was.
//!
//! Reads of the main thread before its first use of this crate are logged at that first use. Until
//! then the main thread may be a test harness, whose reads are not recorded.
//!
//! **Safety** rests on: the signatures are the C library's. Pointers are the caller's, and used as
//! the C library would, or passed on.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_long, c_void};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use libc::{clockid_t, timespec};
use rr_channel_log::Clock;

use crate::engine::clock_sites::{self, From};
use crate::engine::context;
use crate::engine::executor;
use crate::engine::session::{Session, session};
use crate::engine::shown::{self, Shown};
use crate::engine::system_calls::{self, Mode, fail};
use crate::platform::apart::is_apart;
use crate::platform::sys;

/// The reads of the main thread that are kept for its first use of this crate, at most.
const MOST_EARLIER: usize = 1 << 16;

thread_local! {
    /// How far the thread's last read of each clock was behind the real time, if anything.
    static MOVED: [Cell<i64>; Clock::COUNT] = const { [const { Cell::new(0) }; Clock::COUNT] };
    /// The reads of the main thread before its first use of this crate.
    static EARLIER: RefCell<Vec<(Clock, u64, i64)>> = const { RefCell::new(Vec::new()) };
}

/// Makes sure that the linker takes this definition: a reference to it.
pub(crate) fn link() {
    std::hint::black_box(clock_gettime as *const () as usize);
}

/// A session begins that records or replays.
pub(crate) fn learn() {
    clock_sites::learn();
}

/// A replay begins, whose recording showed these clocks first.
pub(crate) fn begin(first: [Option<i64>; Clock::COUNT]) {
    for (clock, first) in Clock::ALL.into_iter().zip(first) {
        if let Some(first) = first
            && let Some(real) = real(clock)
        {
            shown::begin(clock, real.wrapping_sub(first));
        }
    }
}

/// Logs the main thread's reads so far, now that it uses this crate.
pub(crate) fn log_earlier() {
    let earlier = EARLIER.try_with(RefCell::take);
    for (clock, site, nanoseconds) in earlier.into_iter().flatten() {
        context::log_clock(clock, site, nanoseconds);
    }
}

/// Whether a read is the program's own, and of a process that records or replays.
#[inline]
fn is_of_program(from: From) -> bool {
    match system_calls::mode() {
        Mode::Off => false,
        Mode::On => from.is_of_std() && !is_apart(),
        Mode::Unknown => {
            if !system_calls::is_asked_for() || is_apart() {
                return false;
            }
            clock_sites::learn_reader();
            from.is_of_std() && system_calls::is_on()
        }
    }
}

/// The time that the program is to be shown, which reads a clock now.
#[inline]
fn read(clock: Clock, from: From, real: i64) -> i64 {
    if from.note() || !is_of_program(from) {
        if matches!(system_calls::mode(), Mode::On) && !is_apart() {
            moved_by(clock, 0);
        }
        return real;
    }
    let mut real = real;
    let time = read_in_session(clock, from, &mut real);
    moved_by(clock, real.wrapping_sub(time));
    time
}

/// The same in a session; `real` becomes the time that was read last.
#[inline]
fn read_in_session(clock: Clock, from: From, real: &mut i64) -> i64 {
    // An executor's own reads are not the program's. A forked child begins no session for this.
    if sys::is_forked() || executor::is_serving() {
        return real.wrapping_sub(shown::behind(clock));
    }
    if context::is_unused_main() {
        return read_early(clock, from.site(), *real);
    }
    let show = |shown: Option<Shown>, is_first: bool| {
        if is_first {
            // A time that the thread measures begins when all is prepared.
            *real = self::real(clock).unwrap_or(*real);
        }
        shown.map_or(*real, |shown| shown::show(clock, *real, shown))
    };
    let shown = context::reads_clock(clock, from.site(), show);
    shown.unwrap_or(*real)
}

/// Notes by how much the calling thread's read of a clock was moved.
#[inline]
fn moved_by(clock: Clock, by: i64) {
    let _ = MOVED.try_with(|moved| moved[clock.number()].set(by));
}

/// A read of the main thread, before its first use of this crate.
#[cold]
fn read_early(clock: Clock, site: u64, real: i64) -> i64 {
    let shown = match session() {
        Session::Replay(engine) => engine.shown_early(clock, site),
        _ => None,
    };
    let nanoseconds = shown.map_or(real, |shown| shown::show(clock, real, shown));
    let _ = EARLIER.try_with(|earlier| {
        if let Ok(mut earlier) = earlier.try_borrow_mut()
            && earlier.len() < MOST_EARLIER
        {
            earlier.push((clock, site, nanoseconds));
        }
    });
    nanoseconds
}

// The C library's function.

type ClockGettime = unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int;

/// Reads a clock itself, by the C library's function.
///
/// # Safety
/// As that function.
#[inline]
unsafe fn ask(clock: clockid_t, time: *mut timespec) -> c_int {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let mut next = NEXT.load(Relaxed);
    if next.is_null() {
        // SAFETY: a valid C string.
        next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"clock_gettime".as_ptr()) };
        NEXT.store(next, Relaxed);
    }
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

// The functions that the program calls.

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
    // SAFETY: as the caller promised.
    let result = unsafe { ask(clock, time) };
    if result == 0
        && let Some(clock) = Clock::new(clock)
    {
        let from = From {
            address,
            frame,
            stack,
        };
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

/// A deadline that a caller has passed, as the system knows it: moved by as much as the thread's
/// last read of the clock.
///
/// # Safety
/// `until` is null or points to a time.
unsafe fn deadline_at(clock: Clock, until: *const timespec) -> Option<timespec> {
    // SAFETY: as the caller promised.
    let until = *unsafe { until.as_ref() }?;
    // Those that the system refuses, and those beyond what nanoseconds can count, stay.
    let is_normal =
        (0..1_000_000_000).contains(&until.tv_nsec) && (0..1 << 32).contains(&until.tv_sec);
    let moved = MOVED.try_with(|moved| moved[clock.number()].get());
    Some(match moved {
        Err(_) | Ok(0) => until,
        Ok(_) if !is_normal || is_apart() => until,
        Ok(by) => to_timespec(nanoseconds(&until).saturating_add(by).max(0)),
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
            Clock::Realtime
        } else {
            Clock::Monotonic
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
