//! Channels, threads and locks that record and replay.
//!
//! A concurrent test that fails once in a while takes a different order of messages
//! each time it runs. This crate is a drop-in for the channels, threads and locks that
//! such a test uses: run it with `RR_CHANNEL=record`, and the order of that run is logged;
//! run it with `RR_CHANNEL=replay`, and every thread sees again what it saw then.
//! Without the variable, channels and locks are the plain ones behind one branch.
//!
//! ```
//! use rr_channel::crossbeam_channel::unbounded;
//! use rr_channel::thread;
//!
//! let (s, r) = unbounded();
//! for who in ["left", "right"] {
//!     let s = s.clone();
//!     thread::spawn(move || s.send(who));
//! }
//! drop(s);
//! // Left first or right first: recorded, and the same in replay.
//! let order: Vec<_> = r.iter().collect();
//! assert_eq!(order.len(), 2);
//! ```
//!
//! | variable | value |
//! |---|---|
//! | `RR_CHANNEL` | `record`, `replay`, or `off` (the same as unset) |
//! | `RR_CHANNEL_LOG` | the recording's directory; `rr-channel-log` if unset. A recording is never overwritten. What a process does that a recorded one starts is in `process-N` below it |
//! | `RR_CHANNEL_CHAOS` | `SEED`, or `SEED:LENGTH`: perturbs a run that is recorded, or one that is not, so that rare orders become likely; in a replay it only delays threads (see below) |
//! | `RR_CHANNEL_PLACES` | `1`: a recording also says where in the source each operation is, each event names its lock, and each channel the type of its messages. Slower |
//! | `RR_CHANNEL_PAYLOAD` | with places: `bytes` or `hash`: a recording also has what messages held, or a hash of it, as far as that can be told: the bytes of ipc-channel's as they are received; of others the memory of values that have nothing to drop |
//! | `RR_CHANNEL_NEW_LOG` | of a replay: a directory for a new recording, of what happens in the replay. If nothing desynchronises it is the same as the first; if something does, it has what was done instead |
//! | `RR_CHANNEL_PATIENCE` | of a replay: so many times as long as usual it waits, where only time can tell, before a thread leaves its log (usual: 10 s and twice the time of the recorded run while nothing happens; 20 s and three times while threads do something now and then, 120 s and ten times while they compute, and nothing that was recorded comes about) |
//! | `RR_CHANNEL_DESYNC` | of a replay: `go-on`, as if unset, or `stop`: the process ends with status 86 as soon as a thread leaves its log |
//! | `RR_CHANNEL_FAST_TIMEOUTS` | of a replay: `1`: a wait that timed out in the recording does so at once, and not at its deadline. A program that looks whether its deadline has come may desynchronise |
//! | `RR_CHANNEL_REPORT` | of a replay: a file to which desynchronisations are appended, and at exit the numbers of events that came about again; `FILE.N` of the `N`th process that is started |
//! | `RR_CHANNEL_PROCESS` | if set, by whoever starts a process: its id, or which one of a recording it is. A process for which it does not hold (one that a shell started, say) runs as if off |
//!
//! # What a replay promises
//!
//! Each operation of a thread has the outcome that its log names: the same message
//! of the same sender, the same arm, the same timeout. A thread that does something
//! else has *desynchronised*: it goes on natively from there, the others stay in
//! replay as long as they can, a line on standard error says what was expected and
//! what came, and [`replay_report`] has it as a value. A replay that is stuck finds
//! out by looking at whether anybody can still move, and lets someone go live.
//!
//! **Chaos** gives threads random priorities that change at few points, and holds a thread
//! back before its operations while one of higher priority could run (probabilistic
//! concurrency testing, Burckhardt et al. 2010), and lets any arm of a selection win that
//! is ready. What it makes happen could have happened without it. A seed decides on the
//! priorities; it does not repeat a run, since the threads are still the system's. A run
//! that was recorded in chaos is replayed like any other. A replay in chaos delays its threads
//! at random, and comes to the same: that is a test of the recording. `LENGTH` is about how
//! many operations a thread performs, if that is known.
//!
//! The method of recording is that of Tivo (Navarro Leija 2022, chapter 4), with its gaps closed
//! where the table says so.
//!
//! # Covered, and not
//!
//! | source of nondeterminism | |
//! |---|---|
//! | crossbeam-channel 0.5: all types, functions and methods; several consumers, bounded and zero capacity, timed operations, timers, `never`, `Select`, `select!`, `select_biased!` | covered |
//! | threads from [`thread`]: spawn, `Builder`, scoped | covered: named by their place in the tree |
//! | threads created otherwise (`std`, scoped, pools), in a dynamically linked executable | covered: named by their creator and its count of them, tests by the test's name |
//! | the same without the feature `interpose` (on by default; to be turned off where a sanitizer defines `pthread_create`, and for static executables, where nothing can be defined in place of the C library's: with it they are refused when they are built), or in a library that is loaded at run time | recorded; told apart by name, else by the order of their first use of this crate, so a replay may mix them up |
//! | crashes, `SIGKILL`, `process::exit` during recording | covered: the log holds all events but at most the last of each thread |
//! | destructors of thread-locals | covered where the thread is from [`thread`]; else depends on the order in which the thread first used things |
//! | processes that a recorded one starts by `std`'s `Command`, posix_spawn(3), fork(2) or exec(3), in a dynamically linked executable, with the feature `interpose` | covered, if they use this crate: each has a part of the recording of its own, and is named by who started it and which of that thread's processes it is |
//! | processes that are started in another way (by a shell or any other program that does not use this crate, `system`, clone(2) itself), or are given no `RR_CHANNEL`, or another `RR_CHANNEL_LOG`; deeper than 64 below each other | run as if off, or as they are told |
//! | fork without exec, by the only thread that uses this crate | covered: the child goes on with the channels and locks that it has. If other threads were in the middle of using them, its replay may desynchronise, and as without this crate there may be locks that nobody is left to release |
//! | signals, exit statuses, pipes and files between processes | not covered |
//! | a process that exits while its other threads still send to others | in a replay it waits until they have sent what is known to have been received, where up to 32 processes are recorded; for a second at most |
//! | `std::sync::mpsc`, as [`mpsc`] | covered |
//! | locks, condition variables, barriers and `Once` of `std::sync`, as [`sync`], also in statics: the order of acquisition, what `try_` forms found, which wait timed out, who leads, who initializes | covered |
//! | [`thread::park`] and `park_timeout`, unparked through a [`thread::Thread`]; `is_finished` of a [`thread::JoinHandle`] | covered |
//! | the same through a handle of `std`'s; `clear_poison` without the lock; what `Debug` shows of a lock | not covered |
//! | waits for a condition variable that end for no reason | covered; a program that looks at what no lock guards may desynchronise there |
//! | parking_lot 0.12, as `parking_lot` (feature `parking_lot`): mutexes, reentrant ones, locks for readers, writers and upgraders, condition variables, `Once` | covered |
//! | parking_lot 0.13, as `parking_lot_13` (feature `parking_lot_13`) | covered in the same way |
//! | parking_lot 0.11, through `cargo reprise` | covered in the same way; of several versions in one project, the newest of these |
//! | ipc-channel 0.23 between threads of one process, as `ipc_channel` (feature `ipc_channel`): typed, opaque and bytes channels, also sent in messages; receiver sets, the router, servers for one connection | covered |
//! | ipc-channel between processes of one recording | covered: a message is known by the process and the thread that sent it |
//! | ipc-channel to and from others | their messages are told apart by their order in each channel; in a replay they must be sent again, and such an order among several of them is not replayed. Messages of several threads *to* another process come in the recorded order, in channels whose sender came from there |
//! | messages of processes that are not recorded, if they hold handles, at a receiver set, in a channel into which this process sends too | not covered: while recording or replaying their handles are lost (and upstream's debug assertions notice); off, as ever |
//! | room in a channel of ipc-channel (some hundred messages) | not covered: a sender that waits for it longer than in the recording may desynchronise a replay, after ten seconds and twice the time of the recorded run |
//! | when a send into a channel of ipc-channel is refused | covered, but not that the receiver is gone by then |
//! | shared memory of ipc-channel | its content is not covered |
//! | ipc-channel's feature `async`: streams of messages (feature `ipc_channel_async`) | what a poll finds is covered, in the thread that polls; an executor of several threads that share tasks desynchronises (see tokio) |
//! | ipc-channel's module `platform` | not there |
//! | ipc-channel 0.23 in a project or its dependencies, through `cargo reprise` | covered |
//! | random bytes from the system (the seeds of `HashMap`s, `thread_rng`), asked for by `getrandom` or `syscall`, in a dynamically linked executable on x86-64 | covered with the feature `interpose`, for each thread. Names that were chosen at random are chosen again, also those of temporary files, so a file that the recorded run left behind is in the way |
//! | random bytes from `/dev/urandom`, or by a system call of a program's own | not covered |
//! | whatever the program fixes by [`value`] | covered |
//! | rayon, through `cargo reprise` (rayon-core 1.12 and 1.13): `join`, `scope`, `spawn`, `broadcast`, pools of the program's own, `yield_now`, parallel iterators; their number of threads and which thread performs what | covered: what work does is done by its place in the tree of forks, and not by the thread |
//! | what rayon's iterators decide by atomics or locks of `std`: `par_bridge`, `find_any` and other searches that stop early, `try_for_each`, `panic_fuse` | not covered |
//! | the tasks of tokio 1.53 and 1.54, on several threads or one, through `cargo reprise`: what they do with the channels and locks here, and have rayon's pools do; their number of threads | covered: what a task does is done by its place in the tree of who spawned whom, and not by the thread. In a replay other threads take the place of those that wait |
//! | work for tokio's blocking threads (`spawn_blocking`) | covered in the same way; how many such threads there are is not replayed, and does not shift the names of others |
//! | tokio's own: `tokio::sync`, `select!` (which of several ready branches), timers, I/O, aborted tasks, when a task is woken and how often it is polled; tasks that are no `Send` (`LocalSet`, `LocalRuntime`), and have to wait for each other in a replay | not covered: a program whose tasks do something else with the channels here because of that desynchronises |
//! | other versions of tokio, other executors | not covered; what tasks do is taken for what the threads do |
//! | futures-channel, flume, async-channel, kanal and the like | not covered; `cargo reprise coverage` names them where it finds them |
//! | locks and channels of `std` itself, in a project or its dependencies, through `cargo reprise` | not covered; `cargo reprise coverage` says which packages name them |
//! | time, file and network order | not covered, but for [`value`]; a program that depends on them may desynchronise |
//! | which live thread gets which message or lock, after a desynchronisation | not reserved for threads that still replay |
//!
//! Recording adds a nanosecond or so to a lock and up to ten to a message, where memory is at hand
//! (`cargo bench -p rr-channel --bench paired` measures it), and creates a file for
//! each thread that has anything to log.
//!
//! Linux only. A timer's message in replay is the present time, never before it is
//! due. In a replay a message or a lock takes about as long as while recording, and up
//! to half as long again (the same benchmark on its recording measures it); timers, channels without
//! capacity, and whatever has to be waited for, take more.
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
//! | 4 | `crossbeam_channel`, `thread`, `value` | drop-ins for channels and threads; values that are recorded |
//! | 5 | `mpsc` | drop-in for `std::sync::mpsc` |
//! | 6 | `sync` | drop-ins for the locks of `std` |
//! | 7 | `ipc_channel`, `raw_locks` | drop-in for channels between processes; what the locks of parking_lot have in common |
//! | 8 | `parking_lot`, `parking_lot_13` | drop-ins for the locks of parking_lot |

// Otherwise a replay would take threads for each other, and nobody would know why.
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
#[cfg(feature = "ipc_channel")]
pub mod ipc_channel;
pub mod mpsc;
#[cfg(feature = "parking_lot")]
pub mod parking_lot;
#[cfg(feature = "parking_lot_13")]
pub mod parking_lot_13;
pub mod sync;
pub mod thread;

mod engine;
mod platform;
#[cfg(any(feature = "parking_lot", feature = "parking_lot_13"))]
mod raw_locks;
mod recorder;
#[cfg(feature = "value")]
mod value;

pub use engine::replay::{Attempt, Cause, Desync, Progress, Report};
pub use engine::session::{Mode, mode, replay_report};
#[doc(hidden)]
pub use engine::{executor, pool};
pub use rr_channel_log::identity;
#[cfg(feature = "value")]
pub use value::value;

/// The log of one thread's nondeterministic outcomes: its model and its bytes.
pub mod log {
    pub use rr_channel_log::{
        Content, EditedThread, Event, Events, FORMAT_VERSION, LogError, Op, Outcome, Payload,
        RecordedThread, Recording, RecordingError, StartedProcess, Step, ThreadLog,
        write_processes, write_recording,
    };
}
