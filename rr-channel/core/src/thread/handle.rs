//! Handles to threads, and parking.
//!
//! A thread that unparks another one leaves the number of that notification for it, in a place
//! that all handles to the thread share. So handles are not `std`'s own.

use std::cell::Cell;
use std::fmt;
use std::os::unix::thread::{JoinHandleExt, RawPthread};
use std::time::Duration;

use rr_channel_log::identity::Dti;
use rr_channel_log::{Event, Op, Outcome};

use super::{Child, Result, ThreadId};
use crate::engine::chaos;
use crate::engine::context;
use crate::engine::replay::Native;
use crate::engine::session::{Session, session};
use crate::engine::signal::{LastSignal, Signal};
use crate::platform::apart::apart;
use crate::platform::clock as real_clock;
use crate::platform::sys;

thread_local! {
    /// The notifications of threads that unpark this one.
    static UNPARKED: Cell<Option<&'static LastSignal>> = const { Cell::new(None) };
    /// The notification that this thread woke from last.
    static SEEN: Cell<Signal> = const { Cell::new(Signal::NONE) };
}

/// A handle to a thread. See [`std::thread::Thread`].
#[derive(Clone)]
pub struct Thread {
    raw: std::thread::Thread,
    unparked: Option<&'static LastSignal>,
}

impl Thread {
    pub(super) const fn new(
        raw: std::thread::Thread,
        unparked: Option<&'static LastSignal>,
    ) -> Self {
        Thread { raw, unparked }
    }

    /// Makes the thread's current or next [`park`] return.
    pub fn unpark(&self) {
        match session() {
            Session::Off => {}
            Session::Record(_) => {
                chaos::point();
                if let Some(unparked) = &self.unparked {
                    unparked.set(Signal::next());
                }
            }
            Session::Replay(engine) => {
                let signal = engine.signal();
                if let Some(unparked) = &self.unparked {
                    unparked.set(signal);
                }
            }
        }
        self.raw.unpark();
    }

    /// The thread's id: `std`'s, which differs from run to run.
    #[must_use]
    pub fn id(&self) -> ThreadId {
        self.raw.id()
    }

    /// The thread's name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.raw.name()
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

/// A place for a new thread's notifications, from threads that unpark it. It is kept for good: a
/// memory allocator may ask for its thread, which then must not be allocated for.
pub(super) fn new_unparked() -> Option<&'static LastSignal> {
    session().recorder()?;
    sys::keep(LastSignal::new())
}

/// Makes `unparked` the calling thread's, which is new.
pub(super) fn adopt(unparked: Option<&'static LastSignal>) {
    UNPARKED.set(unparked);
}

fn own_unparked() -> Option<&'static LastSignal> {
    UNPARKED.get().or_else(|| {
        let new = new_unparked();
        UNPARKED.set(new);
        new
    })
}

/// A handle to the calling thread. See [`std::thread::current`].
#[must_use]
pub fn current() -> Thread {
    Thread::new(std::thread::current(), own_unparked())
}

/// Blocks until the calling thread is unparked; may return for no reason. See
/// [`std::thread::park`].
///
/// ```
/// use rr_channel::thread;
///
/// let main = thread::current();
/// thread::spawn(move || main.unpark());
/// thread::park();
/// ```
#[track_caller]
pub fn park() {
    match session() {
        Session::Off => std::thread::park(),
        Session::Record(_) => {
            chaos::point();
            std::thread::park();
            woken(Op::Park, false);
        }
        Session::Replay(engine) => match engine.waking(Op::Park) {
            Some(waking) => {
                engine.wake(waking, Native::Block);
                seen();
            }
            None => {
                std::thread::park();
                woken(Op::Park, false);
            }
        },
    }
}

/// Blocks until the calling thread is unparked, or for as long as `dur`; may return for
/// no reason. See [`std::thread::park_timeout`].
#[track_caller]
pub fn park_timeout(dur: Duration) {
    match session() {
        Session::Off => std::thread::park_timeout(dur),
        Session::Record(_) => {
            chaos::point();
            woken(Op::ParkTimeout, parked_for(dur));
        }
        Session::Replay(engine) => match engine.waking(Op::ParkTimeout) {
            Some(waking) => {
                let until = real_clock::now()
                    .checked_add(dur)
                    .map_or(Native::Block, Native::Until);
                engine.wake(waking, until);
                seen();
            }
            None => {
                woken(Op::ParkTimeout, parked_for(dur));
            }
        },
    }
}

/// Parks the calling thread; whether that was for all of `dur`.
fn parked_for(dur: Duration) -> bool {
    let start = real_clock::now();
    apart(|| std::thread::park_timeout(dur));
    real_clock::elapsed(start) >= dur
}

/// The calling thread has woken; the notification before, and the last one by now.
fn seen() -> (Signal, Signal) {
    let signal = own_unparked().map_or(Signal::NONE, |unparked| unparked.get());
    (SEEN.replace(signal), signal)
}

/// Logs the notification that woke the calling thread: no new one means its deadline, if that is
/// over. If it is not, a notification came in two steps, of which an earlier wait saw the first, or
/// not through a handle of ours.
#[track_caller]
fn woken(op: Op, is_over: bool) {
    let (seen, signal) = seen();
    let outcome = if is_over && signal == seen {
        Outcome::Timeout
    } else {
        signal.outcome()
    };
    context::log(Event {
        op,
        channel: None,
        outcome,
    });
}

#[track_caller]
fn finished(thread: Option<&Dti>, is_finished: impl Fn() -> bool) -> bool {
    match (session(), thread) {
        (Session::Off, _) | (_, None) => is_finished(),
        (Session::Record(_), _) => {
            chaos::point();
            seen_finished(is_finished())
        }
        (Session::Replay(engine), Some(thread)) => engine
            .recall_finished(thread, &is_finished)
            .unwrap_or_else(|| seen_finished(is_finished())),
    }
}

/// Logs an observation, and returns it.
fn seen_finished(finished: bool) -> bool {
    context::log(Event {
        op: Op::IsFinished,
        channel: None,
        outcome: Outcome::Value(finished.into()),
    });
    finished
}

macro_rules! join_handle {
    ($(#[$doc:meta])* $name:ident, $($lifetime:lifetime)?) => {
        $(#[$doc])*
        pub struct $name<$($lifetime,)? T> {
            raw: std::thread::$name<$($lifetime,)? T>,
            thread: Thread,
            /// Its name, where names matter.
            dti: Option<Dti>,
        }

        impl<$($lifetime,)? T> $name<$($lifetime,)? T> {
            pub(super) fn new(
                raw: std::thread::$name<$($lifetime,)? T>,
                Child { dti, unparked }: Child,
            ) -> Self {
                let thread = Thread::new(raw.thread().clone(), unparked);
                $name { raw, thread, dti }
            }

            /// The thread.
            #[must_use]
            pub const fn thread(&self) -> &Thread {
                &self.thread
            }

            /// Waits for the thread to end; returns its result.
            ///
            /// # Errors
            /// If it panicked; the error is the panic's payload.
            pub fn join(self) -> Result<T> {
                self.raw.join()
            }

            /// Whether the thread has ended.
            ///
            /// A replay in which it has, as recorded, waits until it really has.
            #[must_use]
            #[track_caller]
            pub fn is_finished(&self) -> bool {
                finished(self.dti.as_ref(), || self.raw.is_finished())
            }
        }

        impl<$($lifetime,)? T> fmt::Debug for $name<$($lifetime,)? T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.raw.fmt(f)
            }
        }
    };
}

join_handle! {
    /// The right to join a thread. See [`std::thread::JoinHandle`].
    JoinHandle,
}

join_handle! {
    /// The right to join a scoped thread. See [`std::thread::ScopedJoinHandle`].
    ScopedJoinHandle, 'scope
}

impl<T> JoinHandleExt for JoinHandle<T> {
    fn as_pthread_t(&self) -> RawPthread {
        self.raw.as_pthread_t()
    }

    fn into_pthread_t(self) -> RawPthread {
        self.raw.into_pthread_t()
    }
}
