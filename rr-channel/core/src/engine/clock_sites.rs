#![expect(unsafe_code, reason = "reads the callers of a function from the stack")]
//! Which code of the program reads a clock.
//!
//! Libraries read clocks for purposes of their own, more or less often from run to run: a lock that
//! is contended, a wait with a deadline. A read that a replay makes more often than the recording
//! must not take the time of another one. So a read is known by its site, the address to which it
//! returns in the program's code. `std` reads clocks in a function of its own, and code of `std` has
//! frame pointers, so the site of such a read is that of the caller of `Instant::now`, say.
//!
//! How `std` does it is found out by reads whose callers are known ([`learn`]). If that does not
//! turn out as expected, sites are those of the function in `std`, and tell less.
//!
//! **Safety** rests on: frames are followed only from the function in `std` that was found to have
//! frame pointers, and only upwards within a few hundred bytes of the stack. So far up there is
//! always more of it: what the kernel passes to a program, or the C library's data of a thread. The
//! result is a number, and is never used as an address.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Instant, SystemTime};

use crate::platform::apart::apart;
use crate::platform::segments;

/// The position of a call in the code and on the stack.
#[derive(Debug, Clone, Copy)]
pub(super) struct From {
    /// The address to which it returns.
    pub(super) address: usize,
    /// The caller's register for the address of its frame.
    pub(super) frame: usize,
    /// The top of the stack.
    pub(super) stack: usize,
}

/// A call, as it was seen while [`learn`] was at work.
#[derive(Debug, Clone, Copy)]
struct Call {
    /// The address to which it returned.
    address: usize,
    /// Those to which its callers returned.
    callers: [usize; 2],
    /// The address that its site stands for.
    #[cfg_attr(not(test), expect(dead_code, reason = "for tests"))]
    site: usize,
}

/// The longest frame that is followed, in bytes.
const LONGEST: usize = 512;

/// The program's code: its first address, and its length.
static CODE: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
/// The return address in the function of `std` that reads clocks; 0 if it is unknown.
static READER: AtomicUsize = AtomicUsize::new(0);
/// Whether that function is known to have a frame pointer.
static HAS_FRAMES: AtomicBool = AtomicBool::new(false);
/// Return addresses of that function in other functions of `std`.
static BETWEEN: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Whether some thread looks at how clocks are read.
static LOOKING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The calling thread's last call that was made meanwhile.
    static SEEN: Cell<Option<Call>> = const { Cell::new(None) };
}

impl From {
    /// The site: an offset into the program's code, or 0.
    #[inline]
    pub(super) fn site(self) -> u64 {
        let start = CODE[0].load(Relaxed);
        let offset = self.caller().wrapping_sub(start);
        if offset < CODE[1].load(Relaxed) {
            offset as u64
        } else {
            0
        }
    }

    #[inline]
    fn caller(self) -> usize {
        if !HAS_FRAMES.load(Relaxed) {
            return self.address;
        }
        let (caller, frame) = above(self.frame, self.stack);
        if BETWEEN
            .iter()
            .all(|between| between.load(Relaxed) != caller)
        {
            return caller;
        }
        above(frame, self.frame).0
    }

    /// Whether `std` makes the call.
    #[inline]
    pub(super) fn is_of_std(self) -> bool {
        self.address == READER.load(Relaxed)
    }

    /// Notes the call, if [`learn`] is at work. Whether it is.
    #[inline]
    pub(super) fn note(self) -> bool {
        let is_looking = LOOKING.load(Relaxed);
        if is_looking {
            let (first, frame) = above(self.frame, self.stack);
            let call = Call {
                address: self.address,
                callers: [first, above(frame, self.frame).0],
                site: self.caller(),
            };
            let _ = SEEN.try_with(|seen| seen.set(Some(call)));
        }
        is_looking
    }
}

/// The return address and the caller's frame of the function whose frame is at `frame`, a little
/// above `below`; zeros if it is not.
#[inline]
fn above(frame: usize, below: usize) -> (usize, usize) {
    let is_near = frame.is_multiple_of(8) && frame > below && frame - below < LONGEST;
    if !is_near {
        return (0, 0);
    }
    let place = std::ptr::with_exposed_provenance::<[usize; 2]>(frame);
    // SAFETY: within the calling thread's stack, see above.
    let [frame, address] = unsafe { place.read() };
    (address, frame)
}

/// Finds out which function of `std` reads clocks, if that is not known. Allocates nothing.
pub(super) fn learn_reader() {
    if READER.load(Relaxed) == 0 {
        look_at_both();
    }
}

/// Two callers of the same function, which frames tell apart, if they are of the same function
/// indeed.
fn look_at_both() -> Option<[Call; 2]> {
    let (first, second) = (look(one)?, look(other)?);
    let is_same = first.address == second.address;
    is_same.then(|| {
        READER.store(first.address, Relaxed);
        [first, second]
    })
}

/// Finds out where the program's code is, and how `std` reads clocks.
pub(super) fn learn() {
    if let Some(code) = segments::of_program(libc::PF_X) {
        CODE[0].store(code.start, Relaxed);
        CODE[1].store(code.len(), Relaxed);
    }
    let Some([first, second]) = look_at_both() else {
        return;
    };
    let is_as_expected = is_within(first.callers[0], one as fn() as usize)
        && is_within(second.callers[0], other as fn() as usize);
    if !is_as_expected {
        return;
    }
    HAS_FRAMES.store(true, Relaxed);
    for (between, elapsed) in BETWEEN.iter().zip([elapsed, elapsed_of_day]) {
        // It may be the caller itself, where `std` is compiled in another way.
        if let Some(call) = look(elapsed)
            && call.address == first.address
            && is_within(call.callers[1], elapsed as fn() as usize)
        {
            between.store(call.callers[0], Relaxed);
        }
    }
}

/// Whether an address is in the short function that begins at `start`.
const fn is_within(address: usize, start: usize) -> bool {
    address.wrapping_sub(start) < 256
}

#[inline(never)]
fn one() {
    black_box(Instant::now());
    black_box(1);
}

#[inline(never)]
fn other() {
    black_box(Instant::now());
    black_box(2);
}

#[inline(never)]
fn elapsed() {
    black_box(black_box(Instant::now()).elapsed());
    black_box(3);
}

#[inline(never)]
fn elapsed_of_day() {
    let _ = black_box(SystemTime::UNIX_EPOCH.elapsed());
    black_box(4);
}

/// The last call by which `read` reads a clock.
fn look(read: fn()) -> Option<Call> {
    SEEN.set(None);
    LOOKING.store(true, Relaxed);
    apart(read);
    LOOKING.store(false, Relaxed);
    SEEN.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn time_of_day() {
        black_box(SystemTime::now());
        black_box(5);
    }

    #[test]
    fn callers_of_std_are_told_apart() {
        let _ = crate::engine::session::session();
        learn();
        for read in [one, other, elapsed, elapsed_of_day, time_of_day] {
            let call = look(read).unwrap();
            assert!(is_within(call.site, read as usize), "{call:?}");
        }
    }
}
