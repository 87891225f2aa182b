//! Stops: the points where a tracee waits for the tracer.

use super::tracee::{
    Exec, GroupStop, Parked, Posthook, PreExit, Prehook, Running, Signal, Spawned, Started, Tracee,
};
use crate::event::Tid;
use crate::sys::Waited;

/// How a task came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpawnKind {
    /// fork, or clone with `SIGCHLD` and nothing shared.
    Fork,
    /// The parent sleeps until the child executes or exits.
    Vfork,
    /// Any other clone, threads included.
    Clone,
}

/// A stop before it is given to its function.
#[derive(Debug, Clone, Copy)]
pub(super) enum Raw {
    Prehook {
        arch: u32,
        nr: u64,
        args: [u64; 6],
        ip: u64,
        sp: u64,
    },
    Posthook(i64),
    Exec {
        former: Tid,
    },
    Spawned {
        kind: SpawnKind,
        child: Tid,
        flags: u64,
    },
    PreExit(i32),
    Signal(i32),
    GroupStop(i32),
    Interrupted,
    Exited(i32),
    Killed(i32, bool),
    Superseded,
}

impl Raw {
    /// The end that was waited for.
    pub(super) fn end(waited: Waited) -> Self {
        match waited.code {
            libc::CLD_EXITED => Self::Exited(waited.status),
            code => Self::Killed(waited.status, code == libc::CLD_DUMPED),
        }
    }
}

/// Where a tracee stands.
#[derive(Debug)]
pub enum Stop {
    /// Before a syscall that the filter names.
    Prehook(Tracee<Prehook>),
    /// After a syscall whose exit was asked for.
    Posthook(Tracee<Posthook>),
    /// After a successful execve, before the first instruction of the program.
    Exec(Tracee<Exec>),
    /// A child task was made; its function starts after this stop was seen.
    Spawned(Tracee<Spawned>),
    /// Before the task goes; memory and descriptors are still there.
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
    /// The stop without its kind; `None` when the task is gone.
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

    /// Lets the task go on as if nobody had looked: a syscall runs, a signal is
    /// delivered, a group stop lasts. `None` when the task is gone.
    ///
    /// What a tool does with stops that it does not care about.
    pub fn go_on(self) -> Option<Tracee<Running>> {
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
