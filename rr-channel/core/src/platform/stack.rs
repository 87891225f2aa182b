#![expect(unsafe_code, reason = "the unwinder has no safe interface")]
//! The calling thread's stack.
//!
//! **Safety** rests on: `_Unwind_Backtrace` calls the function that it is passed with the argument
//! that it is passed, once for each frame, and returns before its caller does.

use std::ffi::c_void;
use std::hash::Hasher as _;

use rustc_hash::FxHasher;

/// The frames that are looked at. A task of a debug build of tokio that awaits through five
/// functions has the first of these within 20 frames.
const FRAMES: usize = 64;

/// A frame, as the unwinder knows it.
enum Frame {}

unsafe extern "C" {
    /// Itanium C++ ABI: Exception Handling, 1.6 (libgcc and libunwind both have it).
    fn _Unwind_Backtrace(
        visit: unsafe extern "C" fn(*mut Frame, *mut c_void) -> i32,
        argument: *mut c_void,
    ) -> i32;
    fn _Unwind_GetIP(frame: *mut Frame) -> usize;
}

/// The results of `visit` that the unwinder knows.
const GO_ON: i32 = 0;
const END: i32 = 4;

struct Walk {
    left: usize,
    hash: FxHasher,
}

/// A number that stands for the return addresses on the stack, as far as these are looked at.
pub fn digest() -> u64 {
    unsafe extern "C" fn visit(frame: *mut Frame, walk: *mut c_void) -> i32 {
        // SAFETY: it is the walk of `digest`, which nothing else uses meanwhile.
        let walk = unsafe { &mut *walk.cast::<Walk>() };
        // SAFETY: the unwinder passes a frame.
        walk.hash.write_usize(unsafe { _Unwind_GetIP(frame) });
        walk.left -= 1;
        if walk.left == 0 { END } else { GO_ON }
    }
    let mut walk = Walk {
        left: FRAMES,
        hash: FxHasher::default(),
    };
    // SAFETY: `visit` takes what it is passed, and the walk is there until the end.
    unsafe { _Unwind_Backtrace(visit, (&raw mut walk).cast()) };
    walk.hash.finish()
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[inline(never)]
    fn deeper() -> u64 {
        std::hint::black_box(digest())
    }

    #[test]
    fn the_digest_tells_calls_apart() {
        let digests: Vec<_> = (0..2).map(|_| deeper()).collect();
        assert_eq!(digests[0], digests[1]);
        assert_ne!(deeper(), digests[0]);
    }
}
