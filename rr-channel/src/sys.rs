#![expect(
    unsafe_code,
    reason = "thread ids and fork handlers have no safe interface"
)]
//! The few things asked of the system directly.
//!
//! **Safety** rests on: each call takes no pointers but to a `'static` function.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::context;

/// The kernel's id of the calling thread.
pub(crate) fn tid() -> i32 {
    // By its number, as the C library's function is not in every version of the crate.
    // SAFETY: no arguments, cannot fail.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) };
    // Threads' ids are ints.
    tid as i32
}

/// Whether the calling thread runs `main`: the kernel gives it the process's id.
pub(crate) fn is_main_thread() -> bool {
    u32::try_from(tid()) == Ok(std::process::id())
}

static FORKED: AtomicBool = AtomicBool::new(false);

/// Whether this process is a fork of the one that called [`watch_forks`]: its
/// log mappings are its parent's, and must be left alone.
pub(crate) fn is_fork() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Calls `f` when the process exits in an orderly way, with its other threads still
/// running. If there is no memory to note this, it is not called.
pub(crate) fn at_exit(f: extern "C" fn()) {
    // SAFETY: the function lives as long as the program.
    unsafe { libc::atexit(f) };
}

/// Ends the process here and now: no handler or destructor runs any more.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: takes a number, and does not return.
    unsafe { libc::_exit(status) }
}

/// From here on, children made by fork(2) know that they are.
pub(crate) fn watch_forks() {
    extern "C" fn in_child() {
        FORKED.store(true, Ordering::Relaxed);
        context::forget_log();
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler lives as long as the program and only stores to an
        // atomic and to plain thread-locals of its thread, which is safe after a fork in a threaded process. Failure means
        // no memory for one list entry; a fork would then log into its parent's log.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}
