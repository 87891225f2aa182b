#![expect(unsafe_code, reason = "defines functions of the C library")]
//! Random bytes from the system: logged, and the same again in a replay.
//!
//! The seeds of `HashMap`s, of `thread_rng`s and the like come from getrandom(2). As with
//! `pthread_create` (see [`interpose`](crate::engine::interpose)), a definition in the program
//! comes before the C library's. This module defines `getrandom`, which `std` and newer crates
//! call, and `syscall`, through which others ask the kernel themselves. The bytes are in the
//! calling thread's log. A replay gives them to a thread that asks in the same way, the same
//! thread first.
//!
//! Draws of the main thread before its first use of this crate are logged at that first use. Until
//! then the main thread may be a test harness, whose numbers are not recorded.
//!
//! **Safety** rests on: the signatures are the C library's. `syscall` passes on registers as they
//! came and leaves the stack alone, as the C library's does, so each call has the same effect.
//! Buffers are written only through the kernel, or within the length that the caller has given.

use std::arch::{asm, naked_asm};
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_int, c_long, c_uint, c_void};
use std::slice;

use rr_channel_log::Op;

use crate::engine::context;
use crate::engine::fixed::{self, Fixed};
use crate::engine::session::{Session, session};

thread_local! {
    static APART: Cell<bool> = const { Cell::new(false) };
    /// The draws of the main thread before its first use of this crate.
    static EARLIER: RefCell<Vec<(Op, Fixed)>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f`, in which random bytes are neither recorded nor replayed.
pub fn apart<T>(f: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            let _ = APART.try_with(|apart| apart.set(self.0));
        }
    }
    let before = APART.try_with(|apart| apart.replace(true));
    let _restore = Restore(before.unwrap_or(true));
    f()
}

/// Makes sure that the linker takes these definitions: references to them.
pub fn link() {
    std::hint::black_box(getrandom as *const () as usize);
    std::hint::black_box(syscall as *const () as usize);
}

/// Fills `buffer` with random bytes. See getrandom(2).
///
/// # Safety
/// As the function of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut c_void, length: usize, flags: c_uint) -> isize {
    // SAFETY: as the caller promised.
    match unsafe { fill(buffer, length, flags) } {
        Ok(count) => count as isize,
        Err(code) => fail(code) as isize,
    }
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
        "cmp rdi, {number}",
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
        "3:",
        "mov rdi, rax",
        "neg rdi",
        "jmp {fail}",
        number = const libc::SYS_getrandom,
        random = sym getrandom,
        fail = sym fail,
    )
}

extern "C" fn fail(code: c_int) -> c_long {
    // SAFETY: the calling thread's own, always there.
    unsafe { *libc::__errno_location() = code };
    -1
}

/// Asks the kernel itself for random bytes.
///
/// # Safety
/// `buffer` may be written to for `length` bytes, or the kernel refuses to.
unsafe fn ask(buffer: *mut c_void, length: usize, flags: c_uint) -> Result<usize, c_int> {
    let mut result = libc::SYS_getrandom as isize;
    // SAFETY: getrandom(2) writes to the buffer only, which it checks; the registers that
    // system calls destroy are named.
    unsafe {
        asm!(
            "syscall",
            inout("rax") result,
            in("rdi") buffer,
            in("rsi") length,
            in("rdx") flags as usize,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    usize::try_from(result).map_err(|_| -result as c_int)
}

/// `GRND_INSECURE` of getrandom(2), which old versions of the crate do not have.
const INSECURE: c_uint = 4;

/// # Safety
/// As [`ask`].
unsafe fn fill(buffer: *mut c_void, length: usize, flags: c_uint) -> Result<usize, c_int> {
    // To ask for no bytes is to ask whether there is such a call.
    if length == 0 || !is_of_interest() {
        // SAFETY: as the caller promised.
        return unsafe { ask(buffer, length, flags) };
    }
    let op = if flags & INSECURE == 0 {
        Op::Random
    } else {
        Op::RandomSeed
    };
    let is_early = context::is_unused_main();
    let result = match fixed::draw(op, length, is_early) {
        Some(Ok(bytes)) => {
            let count = bytes.len().min(length);
            // SAFETY: the buffer has room for `length` bytes, and is elsewhere.
            unsafe { slice::from_raw_parts_mut(buffer.cast(), count) }
                .copy_from_slice(&bytes[..count]);
            Ok(count)
        }
        Some(Err(code)) => Err(code as c_int),
        // SAFETY: as the caller promised.
        None => unsafe { ask(buffer, length, flags) },
    };
    let bytes = result.map_err(|code| code as u64).map(|count| {
        // SAFETY: these have just been written.
        unsafe { slice::from_raw_parts(buffer.cast::<u8>(), count) }
    });
    if is_early {
        let _ = EARLIER.try_with(|earlier| {
            earlier.borrow_mut().push((op, bytes.map(<[u8]>::to_vec)));
        });
    } else {
        fixed::log(op, bytes);
    }
    result
}

/// Logs the main thread's draws so far, now that it uses this crate.
pub fn log_earlier() {
    let earlier = EARLIER.try_with(RefCell::take);
    for (op, fixed) in earlier.into_iter().flatten() {
        fixed::log(op, fixed.as_deref().map_err(|code| *code));
    }
}

/// Whether the process records or replays. If it does neither, this function must have no effects:
/// memory allocators ask for random bytes before anything can be allocated.
fn is_of_interest() -> bool {
    const MODES: [&CStr; 2] = [c"record", c"replay"];
    // SAFETY: a string with an end; the result is one too, or null.
    let mode = unsafe { libc::getenv(c"RR_CHANNEL".as_ptr()) };
    if mode.is_null() {
        return false;
    }
    // SAFETY: see above; programs that change their environment while others read it have
    // no defined behaviour, with or without this.
    let mode = unsafe { CStr::from_ptr(mode) };
    if !MODES.contains(&mode) || APART.try_with(Cell::get) != Ok(false) {
        return false;
    }
    // Draws of the session itself while it starts are its own.
    !matches!(apart(session), Session::Off)
}
