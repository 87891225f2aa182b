#![expect(unsafe_code, reason = "defines a function of the C library")]
//! Names for threads that were not spawned through this crate.
//!
//! In a dynamically linked executable a definition of `pthread_create` in the program comes before
//! the C library's. So every thread that `std`, a test harness or a pool creates passes through
//! here. The thread gets a position below its creator, under a number of a separate kind
//! ([`Dti::foreign_child`](rr_channel_log::identity::Dti::foreign_child)). A pool that starts a
//! thread more or less therefore does not shift the names of the program's threads.
//!
//! A creator that is the main thread and never used this crate itself is taken for a test harness.
//! A harness starts its tests in any order, so its threads are named by their thread names, where
//! they have one.
//!
//! A thread may end by `pthread_exit`, which unwinds its stack. So the wrapper of a start routine
//! leaves no frame: it jumps there. A call that may unwind would also keep programs from linking
//! that abort where they panic.
//!
//! **Safety** rests on: the signature is that of pthread_create(3), which does not unwind.
//! Arguments are passed on as they came, except that the start routine is wrapped. The wrapper's
//! data travel in a box that exactly one of the two sides frees.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use crate::engine::allocator::at_work;
use crate::engine::chaos;
use crate::engine::context;
use crate::engine::interpose_processes;
use crate::engine::seats::{self, Seat};

/// Never called from here, or it would say that it may unwind.
type Start = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type PthreadCreate = unsafe extern "C" fn(
    *mut libc::pthread_t,
    *const libc::pthread_attr_t,
    Start,
    *mut c_void,
) -> c_int;

/// Makes sure that the linker takes these definitions: references to them.
pub(crate) fn link() {
    std::hint::black_box(pthread_create as *const () as usize);
    interpose_processes::link();
}

struct Parcel {
    start: Start,
    argument: *mut c_void,
    seat: Seat,
}

/// Creates a thread, which knows its place. See pthread_create(3).
///
/// # Safety
/// As the function of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    let Some(create) = next_definition() else {
        return libc::EAGAIN;
    };
    let seat = if seats::are_passed_over() {
        None
    } else {
        context::next_seat()
    };
    let Some(seat) = seat else {
        // SAFETY: the caller's arguments, to the function that it called.
        return unsafe { create(thread, attributes, start, argument) };
    };
    if !seat.name_wins {
        chaos::expect(&seat.dti);
    }
    let parcel = Box::into_raw(Box::new(Parcel {
        start,
        argument,
        seat,
    }));
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the same function; the C library lets it unwind.
    let unpack = unsafe {
        std::mem::transmute::<unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void, Start>(
            unpack_unwinding,
        )
    };
    // SAFETY: as above, but that `unpack` takes over the parcel and calls `start`.
    let result = unsafe { create(thread, attributes, unpack, parcel.cast()) };
    if result != 0 {
        // SAFETY: from `into_raw` above; no thread was created that could own it.
        drop(unsafe { Box::from_raw(parcel) });
        return result;
    }
    chaos::created();
    result
}

/// A new thread's first function: takes its seat, and starts.
///
/// # Safety
/// As [`open`].
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn unpack(parcel: *mut c_void) -> *mut c_void {
    // The call needs an aligned stack; its result is in two registers.
    std::arch::naked_asm!(
        "sub rsp, 8",
        "call {open}",
        "add rsp, 8",
        "mov rdi, rdx",
        "jmp rax",
        open = sym open,
    )
}

/// A new thread's first function: takes its seat, and starts.
///
/// # Safety
/// As [`open`].
#[cfg(not(target_arch = "x86_64"))]
unsafe extern "C-unwind" fn unpack_unwinding(parcel: *mut c_void) -> *mut c_void {
    // SAFETY: the caller's promise.
    let Routine { start, argument } = unsafe { open(parcel) };
    // SAFETY: the same function, which may unwind.
    let start = unsafe {
        std::mem::transmute::<Start, unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void>(start)
    };
    // SAFETY: what `pthread_create`'s caller wanted called. Nothing is left in this
    // frame that an unwinding `pthread_exit` would skip.
    unsafe { start(argument) }
}

/// The function that a new thread is to call.
#[repr(C)]
struct Routine {
    start: Start,
    argument: *mut c_void,
}

/// The calling thread, which is new, takes its seat. Returns what it is to call.
///
/// # Safety
/// `parcel` is from `pthread_create`, which passes it to exactly one new thread.
unsafe extern "C" fn open(parcel: *mut c_void) -> Routine {
    at_work(|| {
        // SAFETY: the caller's promise.
        let Parcel {
            start,
            argument,
            seat,
        } = *unsafe { Box::from_raw(parcel.cast()) };
        if !seat.name_wins {
            chaos::arrive(&seat.dti);
        }
        seats::take(seat);
        Routine { start, argument }
    })
}

/// The C library's own function; `None` if there is none to be found.
fn next_definition() -> Option<PthreadCreate> {
    static NEXT: OnceLock<Option<PthreadCreate>> = OnceLock::new();
    *NEXT.get_or_init(|| {
        // SAFETY: a valid C string; the result is checked.
        let symbol = unsafe { libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr()) };
        // SAFETY: the C library's `pthread_create` has this signature, and a null
        // pointer becomes `None`.
        unsafe { std::mem::transmute::<*mut c_void, Option<PthreadCreate>>(symbol) }
    })
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use rr_channel_log::identity::Dti;

    use super::*;

    unsafe extern "C" fn exit(argument: *mut c_void) -> *mut c_void {
        // SAFETY: no frame of the thread has anything to clean up.
        unsafe { libc::pthread_exit(argument) }
    }

    unsafe extern "C" fn come_back(argument: *mut c_void) -> *mut c_void {
        argument
    }

    #[test]
    fn a_wrapped_thread_returns_or_exits_with_its_result() {
        for start in [come_back as Start, exit] {
            let result = ptr::without_provenance_mut::<c_void>(42);
            let parcel = Box::into_raw(Box::new(Parcel {
                start,
                argument: result,
                seat: Seat {
                    dti: Dti::main(),
                    name_wins: true,
                },
            }));
            let create = next_definition().unwrap();
            let (mut thread, mut got) = (0, ptr::null_mut());
            // SAFETY: `unpack` gets the parcel, and the thread is joined.
            unsafe {
                let attributes = ptr::null();
                assert_eq!(
                    create(&raw mut thread, attributes, unpack, parcel.cast()),
                    0
                );
                assert_eq!(libc::pthread_join(thread, &raw mut got), 0);
            }
            assert_eq!(got, result);
        }
    }
}
