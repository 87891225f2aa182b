//! From syscalls to events: decoders read the arguments at the entry, and leave an
//! [`ExitStep`](self::step::ExitStep) for the exit.

mod context;
mod descriptors;
mod dispatch;
mod exit;
mod files;
mod io;
mod network;
mod open;
mod process;
mod state;
mod step;

use std::path::PathBuf;

use smallvec::SmallVec;

use self::step::Opening;
pub use self::step::{Entry, Pending};
use super::model::Processes;
use crate::event::{IoEvent, OfdId, Tid};
use crate::invocation::Invocation;
use crate::memory::Memory;

impl Processes {
    /// Handles a syscall at its entry stop. Pushes the events that are certain already, and
    /// returns whether the exit must be shown, too.
    pub fn entry(
        &mut self,
        tid: Tid,
        call: &Invocation,
        memory: &dyn Memory,
        out: &mut SmallVec<[IoEvent; 2]>,
    ) -> Entry {
        dispatch::entry(self, tid, call, memory, out)
    }

    /// Handles the exit stop of a syscall whose [`Entry`] asked for it. `result` is the
    /// return value (a negative errno on failure).
    pub fn exit(
        &mut self,
        tid: Tid,
        pending: Pending,
        result: i64,
        memory: &dyn Memory,
        out: &mut SmallVec<[IoEvent; 2]>,
    ) {
        exit::exit(self, tid, pending, result, memory, out);
    }

    /// A task has opened the file at `path` for reading and got the descriptor `fd`. `path`
    /// is absolute, as [`Processes::find`] returns it, and names no descriptor. The effect
    /// is that of [`Processes::entry`] and [`Processes::exit`] for an open(2) with these
    /// flags.
    pub fn opened_to_read(&mut self, tid: Tid, fd: i32, path: PathBuf, flags: i32) -> OfdId {
        let new = Opening::to_read(path, flags).describe(tid, fd);
        self.create(tid, fd, new, flags & libc::O_CLOEXEC != 0).id
    }
}
