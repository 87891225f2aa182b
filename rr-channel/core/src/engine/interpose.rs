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
//! **Safety** rests on: the signature is that of pthread_create(3). Arguments are passed on as
//! they came, except that the start routine is wrapped. The wrapper's data travel in a box that
//! exactly one of the two sides frees.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use crate::engine::allocator::at_work;
use crate::engine::chaos;
use crate::engine::context;
use crate::engine::interpose_processes;
use crate::engine::seats::{self, Seat};

type Start = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;
type PthreadCreate = unsafe extern "C-unwind" fn(
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
unsafe extern "C-unwind" fn pthread_create(
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
unsafe extern "C-unwind" fn unpack(parcel: *mut c_void) -> *mut c_void {
    let (start, argument) = at_work(|| {
        // SAFETY: `pthread_create` passes its parcel to exactly one new thread.
        let Parcel {
            start,
            argument,
            seat,
        } = *unsafe { Box::from_raw(parcel.cast()) };
        if !seat.name_wins {
            chaos::arrive(&seat.dti);
        }
        seats::take(seat);
        (start, argument)
    });
    // SAFETY: what `pthread_create`'s caller wanted called. Nothing is left in this
    // frame that an unwinding `pthread_exit` would skip.
    unsafe { start(argument) }
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
