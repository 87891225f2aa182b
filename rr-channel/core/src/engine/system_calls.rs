#![expect(unsafe_code, reason = "defines a function of the C library")]
//! System calls that programs make through the C library's `syscall`.
//!
//! Random bytes go the way of the C library's function for them, and waits with a deadline are
//! [moved](crate::engine::clock); all others are made as they are.
//!
//! **Safety** rests on: `syscall` passes on registers as they came and leaves the stack alone, as
//! the C library's does, so each call has the same effect. The functions that it hands calls to
//! take what the kernel would.

use std::arch::naked_asm;
use std::ffi::{CStr, c_int, c_long};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use rr_channel_log::Clock;

use crate::engine::clock;
use crate::engine::random;
use crate::engine::session::{Session, session};
use crate::platform::apart::{apart, is_apart};

/// Makes sure that the linker takes these definitions: references to them.
pub(crate) fn link() {
    std::hint::black_box(syscall as *const () as usize);
    random::link();
    clock::link();
}

/// A replay begins, whose recording showed these clocks first.
pub(crate) fn replay_begins(first: [Option<i64>; Clock::COUNT]) {
    clock::begin(first);
}

/// Logs what the main thread has drawn and read so far, now that it uses this crate.
pub(crate) fn log_earlier() {
    random::log_earlier();
    clock::log_earlier();
}

/// A number that differs from run to run, and not from a recording to its replays.
pub(crate) fn salt() -> u64 {
    random::salt()
}

/// Makes a system call. See syscall(2).
///
/// # Safety
/// As the function of the C library.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn syscall() {
    // Nothing is kept on the stack: some calls return twice.
    naked_asm!(
        "cmp rdi, {futex}",
        "je 4f",
        "cmp rdi, {getrandom}",
        "je 2f",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 3f",
        "ret",
        "2:",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "jmp {random}",
        "4:",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov rcx, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "jmp {wait}",
        "3:",
        "mov rdi, rax",
        "neg rdi",
        "jmp {fail}",
        futex = const libc::SYS_futex,
        getrandom = const libc::SYS_getrandom,
        random = sym random::getrandom,
        wait = sym clock::futex,
        fail = sym fail,
    )
}

/// Sets the calling thread's `errno`, and returns what the C library's functions then return.
pub(super) extern "C" fn fail(code: c_int) -> c_long {
    // SAFETY: the calling thread's own, always there.
    unsafe { *libc::__errno_location() = code };
    -1
}

/// Whether the process records or replays: unknown, no, or yes.
static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

/// Whether the process records or replays.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mode {
    /// No session has begun.
    Unknown,
    Off,
    On,
}

/// Whether the process records or replays.
#[inline]
pub(super) fn mode() -> Mode {
    match MODE.load(Relaxed) {
        OFF => Mode::Off,
        ON => Mode::On,
        _ => Mode::Unknown,
    }
}

/// A session begins.
pub(crate) fn begun(session: &Session) {
    let mode = match session {
        Session::Off => OFF,
        Session::Record(recorder) if recorder.sink.is_none() => OFF,
        _ => {
            clock::learn();
            ON
        }
    };
    MODE.store(mode, Relaxed);
}

/// Whether the process records or replays, and the calling thread works for the program. If the
/// process does neither, this function has no effects: memory allocators ask for random bytes
/// before anything can be allocated.
#[inline]
pub(super) fn is_of_interest() -> bool {
    match MODE.load(Relaxed) {
        OFF => false,
        UNKNOWN if !is_asked_for() => false,
        _ => !is_apart() && is_on(),
    }
}

/// Whether the environment asks for a session that records or replays.
#[cold]
pub(super) fn is_asked_for() -> bool {
    const MODES: [&CStr; 2] = [c"record", c"replay"];
    // SAFETY: a string with an end; the result is one too, or null.
    let mode = unsafe { libc::getenv(c"RR_CHANNEL".as_ptr()) };
    if mode.is_null() {
        return false;
    }
    // SAFETY: see above; programs that change their environment while others read it have
    // no defined behaviour, with or without this.
    MODES.contains(&unsafe { CStr::from_ptr(mode) })
}

/// Begins the session if it has not begun. What that draws and reads is its own.
#[inline]
pub(super) fn is_on() -> bool {
    MODE.load(Relaxed) == ON || {
        apart(session);
        MODE.load(Relaxed) == ON
    }
}
