//! Tracees and their stops: a value whose type says which operations a stop allows.

mod auxiliary;
mod events;
mod nested;
mod patching;
mod scratch;
mod start;
mod states;
mod stop;
mod stopped;
mod syscalls;

pub use self::nested::Emulation;
pub use self::scratch::Scratch;
pub use self::states::{
    Exec, GroupStop, Observer, Parked, Posthook, PreExit, Prehook, Running, Signal, Spawned,
    Started, Stopped, SyscallEntry, SyscallExit, Tracee, TraceeState,
};
pub use self::stop::{Interrupter, Stop};
pub use self::stopped::Plain;
