//! The process model: who has which files open, where everyone stands in the
//! tree, and what each syscall means in those terms.
//!
//! [`Processes`] is a state machine without ptrace. A tracer tells it of new
//! tasks, executions and ends, and shows it each syscall at its entry and, when
//! asked to, at its exit. In return it gets [`IoEvent`]s with resolved objects.
//! [`watch`] says which syscalls must be shown for the model to stay true.
//!
//! Numbers become files through descriptor tables that threads share; strings
//! become absolute paths through the working directory and the paths by which
//! directories were opened. `/proc` is read when a process is taken in and when
//! something rare happens (a change of directory, a descriptor out of nowhere),
//! never on the way of `open`, `stat` or `readlink`.
//!
//! Two threads that race on one descriptor number (one closes it while the
//! other's `dup2` onto it has not returned) can leave the table with the loser's
//! entry, because a tracer sees stops in another order than the kernel acted.
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
//! **Invariants:** nothing here panics, whatever a tracee passes; for every
//! syscall outside the documented exceptions of [`watch`] a table equals
//! `/proc/PID/fd` between syscalls ([`Processes::verify`], held by tests); the
//! only files read are those of `/proc` and the target of a renamed directory.

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
pub use self::proc::{read_proc, read_record};
pub use self::verify::Mismatch;
pub use self::watch::{Condition, Watch, reads_unseen, watch, watching};
pub use crate::invocation::Invocation;
