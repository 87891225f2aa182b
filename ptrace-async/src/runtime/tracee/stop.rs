//! Stops: the points where a tracee waits for the tracer.

use std::future::poll_fn;
use std::io;
use std::marker::PhantomData;
use std::rc::Rc;
use std::task::Poll;

use super::states::{
    Exec, GroupStop, Parked, Posthook, PreExit, Prehook, Running, Signal, Spawned, Started, Tracee,
};
use crate::invocation::Invocation;
use crate::runtime::raw::RawStop;
use crate::runtime::slot::Slot;
use crate::sys;

/// The stop that a tracee is in.
#[derive(Debug)]
pub enum Stop {
    /// Syscall entry (prehook): before a call that the filter names.
    Prehook(Tracee<Prehook>),
    /// Syscall exit (posthook): after a call whose exit was asked for.
    Posthook(Tracee<Posthook>),
    /// After a successful execve, before the first instruction of the program.
    Exec(Tracee<Exec>),
    /// A child task was created. Its function starts after this stop was received.
    Spawned(Tracee<Spawned>),
    /// Before the task ends; its memory and descriptors are still there.
    PreExit(Tracee<PreExit>),
    /// A signal is about to be delivered.
    Signal(Tracee<Signal>),
    /// The whole process is stopped by SIGSTOP, SIGTSTP, SIGTTIN or SIGTTOU.
    GroupStop(Tracee<GroupStop>),
    /// Stopped by the tracer's own request, or a group stop ended.
    Interrupted(Tracee<Started>),
    /// The task exited with this status.
    Exited(i32),
    /// The task was killed by this signal (and dumped core).
    Killed {
        /// The signal.
        signal: i32,
        /// Whether a core was written.
        core: bool,
    },
    /// Another thread of the process executed a program; this task (the former
    /// leader) is gone, and its id belongs to that thread now.
    Superseded,
}

impl Stop {
    /// The stop without its kind; `None` when the task has ended.
    pub fn park(self) -> Option<Tracee<Parked>> {
        Some(match self {
            Self::Prehook(tracee) => tracee.park(),
            Self::Posthook(tracee) => tracee.park(),
            Self::Exec(tracee) => tracee.park(),
            Self::Spawned(tracee) => tracee.park(),
            Self::PreExit(tracee) => tracee.park(),
            Self::Interrupted(tracee) => tracee.park(),
            Self::Signal(tracee) => tracee.park(),
            Self::GroupStop(tracee) => tracee.park(),
            Self::Exited(_) | Self::Killed { .. } | Self::Superseded => return None,
        })
    }

    /// Resumes the task as if it were not traced: a syscall runs, a signal is delivered, a
    /// group stop lasts. `None` when the task has ended.
    ///
    /// Use it for stops that a tool does not handle.
    pub fn resume(self) -> Option<Tracee<Running>> {
        Some(match self {
            Self::Prehook(tracee) => tracee.resume(),
            Self::Posthook(tracee) => tracee.resume(),
            Self::Exec(tracee) => tracee.resume(),
            Self::Spawned(tracee) => tracee.resume(),
            Self::PreExit(tracee) => tracee.resume(),
            Self::Interrupted(tracee) => tracee.resume(),
            Self::Signal(tracee) => tracee.deliver(),
            Self::GroupStop(tracee) => tracee.listen(),
            Self::Exited(_) | Self::Killed { .. } | Self::Superseded => return None,
        })
    }
}

impl Tracee<Running> {
    /// Waits for the next stop.
    pub async fn stop(self) -> Stop {
        let slot = self.slot.clone();
        let raw = poll_fn(|_| match slot.mailbox.borrow_mut().pop_front() {
            Some(raw) => Poll::Ready(raw),
            // The executor polls the function after each delivery, so no waker is kept.
            None => Poll::Pending,
        })
        .await;
        match raw {
            RawStop::Prehook {
                arch,
                nr,
                args,
                ip,
                sp,
            } => Stop::Prehook(self.with(Prehook {
                arch,
                call: Invocation { nr, args },
                ip,
                sp,
            })),
            RawStop::Posthook(value) => Stop::Posthook(self.with(Posthook { value })),
            RawStop::Exec { former } => Stop::Exec(self.with(Exec { former })),
            RawStop::Spawned { kind, child, flags } => {
                Stop::Spawned(self.with(Spawned { kind, child, flags }))
            }
            RawStop::PreExit(status) => Stop::PreExit(self.with(PreExit { status })),
            RawStop::Signal(signal) => Stop::Signal(self.with(Signal { signal })),
            RawStop::GroupStop(signal) => Stop::GroupStop(self.with(GroupStop { signal })),
            RawStop::Interrupted => Stop::Interrupted(self.with(Started)),
            RawStop::Exited(status) => Stop::Exited(status),
            RawStop::Killed(signal, core) => Stop::Killed { signal, core },
            RawStop::Superseded => Stop::Superseded,
        }
    }

    /// Asks the task to stop (`PTRACE_INTERRUPT`); it reports
    /// [`Stop::Interrupted`] unless another stop comes first.
    ///
    /// # Errors
    /// `ESRCH` when it is gone.
    pub fn interrupt(&self) -> io::Result<()> {
        sys::interrupt(self.living()?)
    }

    /// A value that can interrupt the task while its next stop is awaited.
    pub fn interrupter(&self) -> Interrupter {
        Interrupter {
            slot: self.slot.clone(),
            thread: PhantomData,
        }
    }
}

/// Interrupts a running task.
#[derive(Debug)]
pub struct Interrupter {
    slot: Rc<Slot>,
    thread: PhantomData<*const ()>,
}

impl Interrupter {
    /// As [`Tracee::interrupt`]; nothing when the task is stopped or gone.
    pub fn interrupt(&self) {
        if !self.slot.gone.get() && !self.slot.stopped.get() {
            // ESRCH: it is ending.
            let _ = sys::interrupt(self.slot.tid.get());
        }
    }
}
