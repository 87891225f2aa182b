//! Channels, threads and locks that record and replay.
//!
//! A concurrent test that fails once in a while takes a different order of messages each time it
//! runs. This crate is a drop-in for the channels, threads and locks that such a test uses. Run it
//! with `RR_CHANNEL=record`, and the order of that run is logged. Run it with `RR_CHANNEL=replay`,
//! and every thread sees the same events again. Without the variable, channels and locks are the
//! plain ones behind one branch.
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
//! | `RR_CHANNEL_LOG` | the recording's directory; `rr-channel-log` if unset. A recording is never overwritten. Each process that a recorded one starts has its part in `process-N` below it |
//! | `RR_CHANNEL_CHAOS` | `SEED`, or `SEED:LENGTH`: perturbs a run, recorded or not, so that rare orders become likely; in a replay it only delays threads (see below) |
//! | `RR_CHANNEL_PLACES` | `1`: the recording also has the source position of each operation, the lock of each event and the message type of each channel. Recording is slower |
//! | `RR_CHANNEL_PROJECT` | with places: a list of paths, as in `PATH`: the project's directory, and those in it with the source of others. The position of an operation in others' source begins with the line of the project that led there |
//! | `RR_CHANNEL_PAYLOAD` | with places: `bytes` or `hash`: the recording also has the content of messages, or its hash: the received bytes of ipc-channel's messages; of other messages the memory of values that need no drop |
//! | `RR_CHANNEL_NEW_LOG` | of a replay: a directory for a new recording of the replay. Without a desynchronisation it equals the first recording; otherwise it has what was done instead |
//! | `RR_CHANNEL_PATIENCE` | of a replay: a factor for the time after which a stuck thread leaves its log, where only time can tell. By default the replay waits 10 s plus twice the recorded run's time while nothing happens; 20 s plus three times while threads act now and then; 120 s plus ten times while threads compute and no recorded event comes about |
//! | `RR_CHANNEL_DESYNC` | of a replay: `go-on` (the same as unset), or `stop`: the process ends with status 86 when a thread leaves its log |
//! | `RR_CHANNEL_FAST_TIMEOUTS` | of a replay: `1`: a wait that timed out in the recording times out at once instead of at its deadline. A program that checks its deadline may desynchronise |
//! | `RR_CHANNEL_REPORT` | of a replay: a file to which the replay appends desynchronisations and, at exit, the numbers of events that were replayed; the `N`th started process uses `FILE.N` |
//! | `RR_CHANNEL_PROCESS` | set by the starter of a process: the process's id, or its place in the recording. A process that it does not name (one that a shell started, say) runs as if off |
//!
//! # What a replay promises
//!
//! Each operation of a thread has the outcome that its log names: the same message of the same
//! sender, the same arm, the same timeout. A thread that does something else has *desynchronised*:
//! it goes on natively from there, and the others stay in replay as long as they can. A line on
//! standard error says what was expected and what came, and [`replay_report`] has it as a value. A
//! replay detects that it is stuck by looking at whether any thread can still move, and lets one
//! go live.
//!
//! **Chaos** gives threads random priorities that change at few points, and holds a thread back
//! before its operations while one of higher priority could run (probabilistic concurrency
//! testing, Burckhardt et al. 2010). It lets any ready arm of a selection win. Each order that it
//! causes could have happened without it. A seed decides on the priorities; it does not repeat a
//! run, since the threads are still the system's. A run that was recorded in chaos is replayed
//! like any other. A replay in chaos delays its threads at random, and has the same result: that
//! is a test of the recording. `LENGTH` is the approximate number of operations of a thread, if
//! that is known.
//!
//! The method of recording is that of Tivo (Navarro Leija 2022, chapter 4), with its gaps closed
//! where the table says so.
//!
//! # Covered, and not
//!
//! | source of nondeterminism | |
//! |---|---|
//! | crossbeam-channel 0.5: all types, functions and methods; several consumers, bounded and zero capacity, timed operations, timers, `never`, `Select`, `select!`, `select_biased!` | covered |
//! | threads from [`thread`]: spawn, `Builder`, scoped | covered: a thread is named by its position in the tree of threads |
//! | threads created otherwise (`std`, scoped, pools), in a dynamically linked executable | covered: a thread is named by its creator and a count; a test's thread by the test |
//! | the same without the feature `interpose`, or in a library that is loaded at run time. (The feature is on by default. Turn it off where a sanitizer defines `pthread_create`, and for static executables, which the build refuses with it.) | recorded; threads are told apart by name, or else by the order of their first use of this crate, so a replay may confuse them |
//! | crashes, `SIGKILL`, `process::exit` during recording | covered: the log holds all events except, at most, the last one of each thread |
//! | destructors of thread-locals | covered for threads from [`thread`]; for others it depends on the order in which the thread first used its thread-locals |
//! | processes that a recorded one starts by `std`'s `Command`, posix_spawn(3), fork(2) or exec(3), in a dynamically linked executable, with the feature `interpose` | covered, if the process uses this crate: it has its own part of the recording, and is named by the thread that started it and a count |
//! | processes that are started in another way (by a shell or any other program that does not use this crate, `system`, clone(2) itself), or are given no `RR_CHANNEL`, or another `RR_CHANNEL_LOG`; deeper than 64 below each other | not covered: they run as if off, or as their own environment says |
//! | fork without exec, by the only thread that uses this crate | covered: the child keeps the channels and locks that it has. If other threads were using them at the fork, its replay may desynchronise; as without this crate, such locks may stay locked |
//! | signals, exit statuses, pipes and files between processes | not covered |
//! | a process that exits while its other threads still send to others | a replay of up to 32 processes delays the exit, for a second at most, until the threads have sent all messages that were received in the recording |
//! | `std::sync::mpsc`, as [`mpsc`] | covered |
//! | locks, condition variables, barriers and `Once` of `std::sync`, as [`sync`], also in statics: the order of acquisition, the results of `try_` forms, which wait timed out, which thread leads, which thread initializes | covered |
//! | [`thread::park`] and `park_timeout`, unparked through a [`thread::Thread`]; `is_finished` of a [`thread::JoinHandle`] | covered |
//! | the same through a handle of `std`; `clear_poison` without the lock; the `Debug` output of a lock | not covered |
//! | spurious wake-ups of a condition variable | covered; a program that reads unguarded state there may desynchronise |
//! | parking_lot 0.12, as `parking_lot` (feature `parking_lot`): mutexes, reentrant ones, locks for readers, writers and upgraders, condition variables, `Once` | covered |
//! | parking_lot 0.13, as `parking_lot_13` (feature `parking_lot_13`) | covered in the same way |
//! | parking_lot 0.11, through `cargo reprise` | covered in the same way; if a project has several versions, only the newest of them is covered |
//! | ipc-channel 0.23 between threads of one process, as `ipc_channel` (feature `ipc_channel`): typed, opaque and bytes channels, also sent in messages; receiver sets, the router, servers for one connection | covered |
//! | ipc-channel between processes of one recording | covered: a message is identified by the process and the thread that sent it |
//! | ipc-channel to and from unrecorded processes | partly covered: their messages are identified by their order in each channel. In a replay they must be sent again, and the order among several such processes is not replayed. Messages of several threads *to* another process keep the recorded order in channels whose sender came from that process |
//! | messages with handles from unrecorded processes, at a receiver set, in a channel into which this process sends too | not covered: recording and replaying lose the handles (upstream's debug assertions notice); with `RR_CHANNEL` off they arrive |
//! | room in a channel of ipc-channel (some hundred messages) | not covered: a sender that waits longer than in the recording may desynchronise a replay, after ten seconds plus twice the recorded run's time |
//! | a refused send into a channel of ipc-channel | covered; that the receiver is gone by then is not |
//! | shared memory of ipc-channel | its content is not covered |
//! | ipc-channel's feature `async`: streams of messages (feature `ipc_channel_async`) | the result of a poll is covered, in the thread that polls; an executor whose threads share tasks desynchronises (see tokio) |
//! | ipc-channel's module `platform` | not provided |
//! | ipc-channel 0.23 in a project or its dependencies, through `cargo reprise` | covered |
//! | random bytes from the system (the seeds of `HashMap`s, `thread_rng`), asked for by `getrandom` or `syscall`, in a dynamically linked executable on x86-64 | covered with the feature `interpose`, for each thread. A replay chooses the same random names, also for temporary files, so it may meet files that the recorded run left behind |
//! | random bytes from `/dev/urandom`, or by a system call of a program's own | not covered |
//! | clocks, read by `Instant` and `SystemTime`, in a dynamically linked executable on x86-64 | covered with the feature `interpose`, for each thread: a replay shows what was read between the same two events of the thread. A thread that reads more often sees the time go on until the next recorded read. Deadlines that the program computes are moved to the present |
//! | clocks that a program reads in another way (`libc`, `rustix`, C code, the processor's counter); how long sleeps take | not covered |
//! | values that the program passes through [`value`] | covered |
//! | rayon, through `cargo reprise` (rayon-core 1.12 and 1.13): `join`, `scope`, `spawn`, `broadcast`, pools of the program's own, `yield_now`, parallel iterators; their number of threads and which thread performs which job | covered: an operation belongs to the job's position in the tree of forks, not to the thread |
//! | decisions of rayon's iterators by atomics or locks of `std`: `par_bridge`, `find_any` and other searches that stop early, `try_for_each`, `panic_fuse` | not covered |
//! | the tasks of tokio 1.53 and 1.54, on several threads or one, through `cargo reprise`: `tokio::sync` but for `OnceCell` and `SetOnce`, timers, `JoinHandle`s and `JoinSet`s, the branch that `select!` polls first, aborts; their operations on the channels and locks here, and jobs that they give to rayon's pools; their number of threads | covered: an operation belongs to the task's position in the tree of spawns, not to the thread. In a replay other threads replace those that wait |
//! | work for tokio's blocking threads (`spawn_blocking`) | covered in the same way; the number of such threads is not replayed, and does not change the names of other threads |
//! | tokio's I/O, `OnceCell`, `SetOnce`; when a task is woken and how often it is polled, where the program sees that; tasks that are not `Send` (`LocalSet`, `LocalRuntime`) and have to wait for each other in a replay | not covered: a program desynchronises if its tasks act differently because of that |
//! | other versions of tokio, other executors | not covered; the operations of a task are attributed to the thread |
//! | futures-channel, flume, async-channel, kanal and the like | not covered; `cargo reprise coverage` names them where it finds them |
//! | locks, channels and threads of `std` itself, in a project or its dependencies, through `cargo reprise test --std` | covered, but for crates that make locks or executors of their own; `cargo reprise coverage --std` lists these |
//! | the order of file and network operations | not covered, except through [`value`]; a program that depends on it may desynchronise |
//! | messages and locks after a desynchronisation | not covered: a live thread may take what a replaying thread needs |
//!
//! Recording adds a nanosecond or so to a lock and up to ten to a message, if memory is at hand
//! (`cargo bench -p rr-channel --bench paired` measures it). It creates a file for each thread
//! that has anything to log.
//!
//! Linux only. A timer's message in replay is the present time, never before it is
//! due. In a replay a message or a lock takes about as long as while recording, and up
//! to half as long again (the same benchmark on its recording measures it); timers, channels without
//! capacity, and operations that have to wait take more.
//!
//! # Layers
//!
//! From the ground up; a module imports only from rows above its own in this table.
//!
//! | layer | modules | purpose |
//! |---|---|---|
//! | 1 | `ipc_channel`, `raw_locks`, `value` | drop-in for channels between processes; what the locks of parking_lot have in common; values that are recorded |
//! | 2 | `parking_lot`, `parking_lot_13` | drop-ins for the locks of parking_lot |
//!
//! All else is in [`rr_channel_core`], which this crate re-exports.

#[cfg(feature = "ipc_channel")]
pub mod ipc_channel;
#[cfg(feature = "parking_lot")]
pub mod parking_lot;
#[cfg(feature = "parking_lot_13")]
pub mod parking_lot_13;

#[cfg(any(feature = "parking_lot", feature = "parking_lot_13"))]
mod raw_locks;
#[cfg(feature = "value")]
mod value;

pub use rr_channel_core::{
    Attempt, Cause, Desync, Mode, Progress, Report, crossbeam_channel, identity, log, mode, mpsc,
    replay_report, sync, thread,
};
#[doc(hidden)]
pub use rr_channel_core::{executor, objects, pool};
#[cfg(feature = "value")]
pub use value::value;
