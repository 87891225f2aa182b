//! The runtime: one async function for each traced task.
//!
//! From the ground up: options and stops (`options`, `raw`), address spaces and tasks
//! (`in_process`, `space`, `slot`, `new_tasks`), the shared state (`shared`,
//! `resume`), the operations on a tracee (`tracee`), wait statuses (`events`), and
//! the loop (`executor`).

mod events;
mod executor;
mod in_process;
mod launch;
mod lock;
mod nested;
mod new_tasks;
mod options;
mod placement;
mod pool;
mod raw;
mod remote;
mod resume;
mod shared;
mod slot;
mod space;
mod tracee;
mod unstopped;

pub use self::executor::Runtime;
#[cfg(test)]
pub(crate) use self::in_process::performed_at;
pub use self::in_process::{COPIES_VERSION, UnstoppedCall, UnstoppedCalls};
pub use self::launch::{Program, SETUP_FAILED};
pub use self::options::{Interception, Options};
pub use self::placement::{HostThread, HostThreads};
pub use self::raw::SpawnKind;
pub use self::shared::Handle;
pub use self::tracee::{
    Emulation, Exec, GroupStop, Interrupter, Observer, Parked, Plain, Posthook, PreExit, Prehook,
    Running, Scratch, Signal, Spawned, Started, Stop, Stopped, SyscallEntry, SyscallExit, Tracee,
    TraceeState,
};
pub use crate::unstopped::handles as performs_in_process;
