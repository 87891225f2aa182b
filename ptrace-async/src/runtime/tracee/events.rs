//! Operations on a task in an exec, spawn, exit, signal or group stop.

use std::io;

use super::states::{Exec, GroupStop, PreExit, Running, Signal, Spawned, Tracee};
use crate::event::Tid;
use crate::runtime::raw::SpawnKind;
use crate::sys::{self, Resume};

impl Tracee<Exec> {
    /// The id of the thread that executed the program, where it was another
    /// one than the leader.
    pub fn former(&self) -> Tid {
        self.state.former
    }
}

impl Tracee<Spawned> {
    /// The kind of call that created the child.
    pub fn kind(&self) -> SpawnKind {
        self.state.kind
    }

    /// The new task.
    pub fn child(&self) -> Tid {
        self.state.child
    }

    /// The `CLONE_*` flags that made it.
    pub fn flags(&self) -> u64 {
        self.state.flags
    }
}

impl Tracee<PreExit> {
    /// The status as wait(2) will report it.
    pub fn status(&self) -> i32 {
        self.state.status
    }
}

impl Tracee<Signal> {
    /// Which signal.
    pub fn signal(&self) -> i32 {
        self.state.signal
    }

    /// The signal's `siginfo_t`.
    ///
    /// # Errors
    /// `ESRCH` when the task was killed in its stop.
    pub fn info(&self) -> io::Result<libc::siginfo_t> {
        sys::signal_info(self.living()?)
    }

    /// Changes the `siginfo_t` that the handler receives.
    ///
    /// # Errors
    /// `ESRCH` when the task was killed in its stop; `EINVAL` for another signal.
    pub fn set_info(&self, info: &libc::siginfo_t) -> io::Result<()> {
        sys::set_signal_info(self.living()?, info)
    }

    /// Delivers the signal, and stops again ([`Stop::Signal`](super::Stop::Signal) with `SIGTRAP`) before the
    /// first instruction of its handler, when its frame is there. Without a handler an
    /// instruction of the program runs first.
    pub fn deliver_and_step(self) -> Tracee<Running> {
        let signal = self.state.signal;
        self.go(Resume::Step, signal)
    }

    /// Delivers the signal.
    pub fn deliver(self) -> Tracee<Running> {
        self.note_handler_return();
        let (how, signal) = (self.shared.usual_resume(), self.state.signal);
        self.go(how, signal)
    }
}

impl Tracee<GroupStop> {
    /// The stopping signal.
    pub fn signal(&self) -> i32 {
        self.state.signal
    }

    /// Leaves the task in its group stop, as job control wants it; SIGCONT
    /// ends it with [`Stop::Interrupted`](super::Stop::Interrupted).
    pub fn listen(self) -> Tracee<Running> {
        self.go(Resume::Listen, 0)
    }
}
