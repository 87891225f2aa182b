//! An interrupt from a signal or an error, which threads can wait for.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::lock::lock;

/// Whether to stop. Once set it stays so.
#[derive(Debug, Clone)]
pub struct Interrupt(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    /// The signal; 0 while there is none, -1 for another reason.
    why: AtomicI32,
    /// Readable, at its end, when it is set.
    wait: UnixStream,
    hold: Mutex<Option<UnixStream>>,
}

/// The user wants to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted {
    /// The signal that said so, if one did.
    pub signal: Option<i32>,
}

impl Interrupt {
    /// One that is never set.
    pub const fn never() -> Interrupt {
        Interrupt(None)
    }

    /// One that is set by [`set`](Interrupt::set) only.
    ///
    /// # Errors
    /// If there are no file descriptors left.
    pub fn new() -> io::Result<Interrupt> {
        let (wait, hold) = UnixStream::pair()?;
        Ok(Interrupt(Some(Arc::new(Inner {
            why: AtomicI32::new(0),
            wait,
            hold: Mutex::new(Some(hold)),
        }))))
    }

    /// One that SIGINT, SIGTERM and SIGHUP set. The second of them ends this process at
    /// once.
    ///
    /// # Errors
    /// If the handlers cannot be installed.
    pub fn by_signals() -> io::Result<Interrupt> {
        let interrupt = Interrupt::new()?;
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let set = interrupt.clone();
        thread::spawn(move || {
            for signal in signals.forever() {
                if set.is_set() {
                    std::process::exit(128 + signal);
                }
                set.stop(signal);
            }
        });
        Ok(interrupt)
    }

    /// Sets it, for another reason than a signal.
    pub fn set(&self) {
        self.stop(-1);
    }

    fn stop(&self, why: i32) {
        if let Some(inner) = &self.0 {
            let _ = inner
                .why
                .compare_exchange(0, why, Ordering::SeqCst, Ordering::SeqCst);
            *lock(&inner.hold) = None;
        }
    }

    /// Whether it is set.
    pub fn is_set(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|inner| inner.why.load(Ordering::SeqCst) != 0)
    }

    /// The signal that set it, if one did.
    pub fn signal(&self) -> Option<i32> {
        let why = self.0.as_ref()?.why.load(Ordering::SeqCst);
        (why > 0).then_some(why)
    }

    /// Goes on unless it is set.
    ///
    /// # Errors
    /// If it is.
    pub fn check(&self) -> Result<(), Interrupted> {
        match self.is_set() {
            false => Ok(()),
            true => Err(Interrupted {
                signal: self.signal(),
            }),
        }
    }

    /// A descriptor that becomes readable when it is set.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(|inner| inner.wait.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn an_interrupt_can_be_waited_for() {
        let interrupt = Interrupt::new().unwrap();
        assert!(!interrupt.is_set());
        assert_eq!(interrupt.check(), Ok(()));
        let setter = interrupt.clone();
        let thread = thread::spawn(move || setter.set());
        let mut wait = &interrupt.0.as_ref().unwrap().wait;
        assert_eq!(wait.read(&mut [0]).unwrap(), 0);
        assert!(interrupt.is_set());
        assert_eq!(interrupt.signal(), None);
        assert_eq!(interrupt.check(), Err(Interrupted { signal: None }));
        thread.join().unwrap();
    }
}
