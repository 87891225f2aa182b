#![expect(unsafe_code, reason = "defines functions of the C library")]
//! Random bytes from the system: logged, and the same again in a replay.
//!
//! The seeds of `HashMap`s, of `thread_rng`s and the like come from getrandom(2). As with
//! `pthread_create` (see [`interpose`](crate::engine::interpose)), a definition in the program
//! comes before the C library's. This module defines `getrandom`, which `std` and newer crates
//! call; others ask the kernel themselves through [`syscall`](crate::engine::system_calls). The
//! bytes are in the calling thread's log. A replay gives them to a thread that asks in the same
//! way, the same thread first.
//!
//! Draws of the main thread before its first use of this crate are logged at that first use. Until
//! then the main thread may be a test harness, whose numbers are not recorded.
//!
//! **Safety** rests on: the signature is the C library's. Buffers are written only through the
//! kernel, or within the length that the caller has given.

use std::arch::asm;
use std::cell::RefCell;
use std::ffi::{c_int, c_uint, c_void};
use std::slice;

use rr_channel_log::Op;

use crate::engine::context;
use crate::engine::fixed::{self, Fixed};
use crate::engine::system_calls::{fail, is_of_interest};

thread_local! {
    /// The draws of the main thread before its first use of this crate.
    static EARLIER: RefCell<Vec<(Op, Fixed)>> = const { RefCell::new(Vec::new()) };
}

/// Makes sure that the linker takes this definition: a reference to it.
pub(crate) fn link() {
    std::hint::black_box(getrandom as *const () as usize);
}

/// Fills `buffer` with random bytes. See getrandom(2).
///
/// # Safety
/// As the function of the C library.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn getrandom(
    buffer: *mut c_void,
    length: usize,
    flags: c_uint,
) -> isize {
    // SAFETY: as the caller promised.
    match unsafe { fill(buffer, length, flags) } {
        Ok(count) => count as isize,
        Err(code) => fail(code) as isize,
    }
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

/// The length of a draw that nobody else makes: in a replay, whichever thread makes it gets the
/// recorded bytes.
const SALT_BYTES: usize = 27;

/// A number that differs from run to run, and not from a recording to its replays.
pub(crate) fn salt() -> u64 {
    let mut bytes = [0; SALT_BYTES];
    // SAFETY: the buffer is that long. Without random bytes it stays as it is.
    let _ = unsafe { fill(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    let mut salt = [0; 8];
    salt.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(salt)
}

/// Logs the main thread's draws so far, now that it uses this crate.
pub(crate) fn log_earlier() {
    let earlier = EARLIER.try_with(RefCell::take);
    for (op, fixed) in earlier.into_iter().flatten() {
        fixed::log(op, fixed.as_deref().map_err(|code| *code));
    }
}
