//! The session of a process that records and replays, and the drop-ins for `std` and
//! `crossbeam-channel`.
//!
//! `rr-channel` re-exports the drop-ins, adds those for other crates, and has the documentation.
//! A process has one copy of this crate, because a copy is a session: what stands in for `std` and
//! the drop-ins for other crates share it. Modules that are hidden here are for these drop-ins,
//! and change with any release.
//!
//! # Layers
//!
//! From the ground up; a module imports only from rows above its own in this table.
//!
//! | layer | modules | purpose |
//! |---|---|---|
//! | 1 | `platform`, `log` | system calls, locks, a value of the process; what recordings are read with |
//! | 2 | `recorder` | processes, names of threads, tags of messages, the files of a recording |
//! | 3 | `engine` | the session: record, replay or nothing, and each thread in it |
//! | 4 | `crossbeam_channel`, `thread` | drop-ins for channels and threads |
//! | 5 | `mpsc` | drop-in for `std::sync::mpsc` |
//! | 6 | `sync` | drop-ins for the locks of `std` |

// A crate with such calls, compiled with unwinding, links into no program that aborts on panics.
#![cfg_attr(target_arch = "x86_64", deny(ffi_unwind_calls))]

// Otherwise a replay would confuse threads, without a visible cause.
#[cfg(all(
    feature = "interpose",
    any(target_feature = "crt-static", not(target_env = "gnu")),
    not(miri)
))]
compile_error!(
    "rr-channel cannot tell the threads of a static executable apart: build it dynamically \
     (a target of glibc, without `-C target-feature=+crt-static`), or turn off the feature \
     `interpose`, and threads that nobody has named may be mixed up in a replay"
);

pub mod crossbeam_channel;
pub mod mpsc;
pub mod sync;
pub mod thread;

#[doc(hidden)]
pub mod engine;
#[doc(hidden)]
pub mod platform;
#[doc(hidden)]
pub mod recorder;

pub use engine::replay::{Attempt, Cause, Desync, Progress, Report};
pub use engine::session::{Mode, mode, replay_report};
#[doc(hidden)]
pub use engine::{executor, objects, pool};
pub use rr_channel_log::identity;

/// The log of one thread's nondeterministic outcomes: its model and its bytes.
pub mod log {
    pub use rr_channel_log::{
        Content, EditedThread, Event, Events, FORMAT_VERSION, LogError, Op, Outcome, Payload,
        RecordedThread, Recording, RecordingError, StartedProcess, Step, ThreadLog,
        write_processes, write_recording,
    };
}
