#![expect(
    unsafe_code,
    reason = "thread ids, fork handlers and mappings have no safe interface"
)]
//! The few things asked of the system directly.
//!
//! **Safety** rests on: each call takes no pointers but to a `'static` function, to a mapping
//! of its own, or to memory that the caller lends. Memory that is kept is never freed.

use std::alloc::{GlobalAlloc as _, Layout, System};
use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// The kernel's id of the calling thread.
pub fn tid() -> i32 {
    // By its number, as the C library's function is not in every version of the crate.
    // SAFETY: no arguments, cannot fail.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) };
    // Threads' ids are ints.
    tid as i32
}

/// Whether the calling thread runs `main`: the kernel gives it the process's id.
pub fn is_main_thread() -> bool {
    u32::try_from(tid()) == Ok(std::process::id())
}

static FORKED: AtomicBool = AtomicBool::new(false);

/// Whether this process is a fork of the one that called [`watch_forks`], and has no session of
/// its own.
#[inline(always)]
pub fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// From here on this process has a session of its own.
pub fn is_no_fork() {
    FORKED.store(false, Ordering::Relaxed);
}

/// The bytes of a value, with those between its fields; `None` if the system does not say.
pub fn memory_of<T>(value: &T) -> Option<Vec<u8>> {
    let mut bytes = vec![0; size_of::<T>()];
    let to = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let from = libc::iovec {
        iov_base: std::ptr::from_ref(value).cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let pid = std::process::id() as i32;
    // By the kernel, since bytes between fields must not be read here.
    // SAFETY: writes `bytes`, which are so many, and reads a value that is there.
    let copied = unsafe { libc::process_vm_readv(pid, &raw const to, 1, &raw const from, 1, 0) };
    (usize::try_from(copied) == Ok(bytes.len())).then_some(bytes)
}

/// Memory for an array of pointers, straight from the kernel: to be had where nothing may be
/// allocated.
#[derive(Debug)]
pub struct Pages<T> {
    start: *mut *const T,
    bytes: usize,
}

impl<T> Pages<T> {
    /// Room for so many pointers; `None` if there is none.
    pub fn of(count: usize) -> Option<Self> {
        let bytes = count.checked_mul(size_of::<*const T>())?;
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new mapping, wherever there is room.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
        (start != libc::MAP_FAILED).then_some(Pages {
            start: start.cast(),
            bytes,
        })
    }

    /// Good for reading and writing so many pointers, until this is dropped.
    pub const fn start(&self) -> *mut *const T {
        self.start
    }
}

impl<T> Drop for Pages<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping that `of` made; it is not used after this.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

/// Keeps `value` for as long as the process lives, in memory that is not the program's allocator's:
/// to be had while that is at work. `None` if there is none.
pub fn keep<T: Send + Sync>(value: T) -> Option<&'static T> {
    let layout = Layout::new::<T>();
    assert!(layout.size() > 0, "there is nothing to keep");
    // SAFETY: the layout's size is not zero, see above.
    let place = unsafe { System.alloc(layout) }.cast::<T>();
    if place.is_null() {
        return None;
    }
    // SAFETY: new memory of this layout, which nobody else has and nobody frees.
    unsafe {
        place.write(value);
        Some(&*place)
    }
}

/// The id of the process's parent.
pub fn parent() -> u32 {
    std::os::unix::process::parent_id()
}

/// Whether there is a process with this id.
pub fn exists(pid: u32) -> bool {
    let Ok(pid) = i32::try_from(pid) else {
        return false;
    };
    // SAFETY: takes numbers, and sends nothing.
    let answer = unsafe { libc::kill(pid, 0) };
    answer == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Calls `f` when the process exits in an orderly way, with its other threads still
/// running. If there is no memory to note this, it is not called.
pub fn at_exit(f: extern "C" fn()) {
    // SAFETY: the function lives as long as the program.
    unsafe { libc::atexit(f) };
}

/// Ends the process here and now: no handler or destructor runs any more.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: takes a number, and does not return.
    unsafe { libc::_exit(status) }
}

/// From here on, children made by fork(2) know that they are, and call `in_child`. Only the first
/// caller's is registered. It does only what is safe after a fork in a threaded process.
pub fn watch_forks(in_child: extern "C" fn()) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handlers live as long as the program; the first only stores to an
        // atomic. Failure means no memory for one list entry; a fork would then log into
        // its parent's log.
        unsafe {
            libc::pthread_atfork(None, None, Some(note_fork));
            libc::pthread_atfork(None, None, Some(in_child));
        };
    });
}

extern "C" fn note_fork() {
    FORKED.store(true, Ordering::Relaxed);
}
