//! The process model: the open files and directories of each process, and the meaning of
//! each syscall in terms of these.
//!
//! [`Processes`] is a state machine without ptrace. A tracer reports new tasks, executions
//! and ends, and shows each syscall at its entry and, when asked to, at its exit. In return
//! it gets [`IoEvent`](crate::event::IoEvent)s with resolved objects. [`watch()`] lists the
//! syscalls that must be shown for the model to stay true.
//!
//! Descriptor tables, which threads share, turn numbers into files. The working directory
//! and the paths of open directories turn strings into absolute paths. `/proc` is read when
//! a process is adopted and for rare events (a change of directory, an unknown descriptor),
//! never for an ordinary `open`, `stat` or `readlink`.
//!
//! Two threads can race on one descriptor number: one closes it while the other's `dup2`
//! onto it has not returned. The table may then keep the wrong entry, because a tracer sees
//! stops in another order than the kernel acted.
//!
//! ```
//! use ptrace_async::process::{Processes, Watch, watch};
//!
//! let own = std::process::id() as i32;
//! let mut processes = Processes::new();
//! processes.adopt(own, own)?;
//! let cwd = std::env::current_dir()?;
//! assert_eq!(processes.cwd(own), Some(cwd.as_path()));
//!
//! let (openat, getpid) = (257, 39);
//! assert_eq!(watch(openat), Watch::Exit);
//! assert_eq!(watch(getpid), Watch::Never);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! **Invariants:** no argument of a tracee causes a panic. For every syscall outside of the
//! documented exceptions of [`watch()`], a table equals `/proc/PID/fd` between syscalls
//! ([`Processes::verify`], held by tests). The only files read are those of `/proc` and the
//! target of a renamed directory.

#![warn(missing_docs)]

mod arena;
mod commands;
mod decode;
mod model;
mod nr;
mod paths;
mod proc;
#[cfg(test)]
mod properties;
mod renames;
mod table;
#[cfg(test)]
mod testing;
mod verify;
mod watch;

pub use self::decode::{Entry, Pending};
pub use self::model::Processes;
pub use self::nr::clone_flags;
pub use self::paths::proc_number;
pub use self::proc::{FdInfo, read_proc, read_record};
pub use self::verify::Mismatch;
pub use self::watch::{Condition, Watch, reads_unseen, watch, watching, watching_with};
pub use crate::invocation::Invocation;
