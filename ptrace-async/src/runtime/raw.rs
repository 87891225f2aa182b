//! Stops as the executor routes them, before a function receives them.

use crate::event::Tid;
use crate::sys::Waited;

/// The kind of call that created a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpawnKind {
    /// fork, or clone with `SIGCHLD` and nothing shared.
    Fork,
    /// The parent sleeps until the child executes or exits.
    Vfork,
    /// Any other clone, threads included.
    Clone,
}

/// A stop before its function receives it.
#[derive(Debug, Clone, Copy)]
pub(super) enum RawStop {
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

impl RawStop {
    /// The end of a task as waitid reported it.
    pub(super) fn end(waited: Waited) -> Self {
        match waited.code {
            libc::CLD_EXITED => Self::Exited(waited.status),
            code => Self::Killed(waited.status, code == libc::CLD_DUMPED),
        }
    }
}
