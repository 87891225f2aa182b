//! Tracees as async functions, one syscall model, and cheap interception.
//!
//! Under ptrace(2) the stops of all tracees arrive in any order. A usual tracer is
//! therefore a state machine that remembers how far it is with each tracee. Here one async
//! function follows each task instead: it waits for a stop, inspects the task, resumes it,
//! and waits for the next stop. The design is that of libptrace (Navarro Leija, 2022,
//! section 5.2.2).
//!
//! | module | holds |
//! |---|---|
//! | [`runtime`] | starting, attaching, stops, and operations on a stopped task |
//! | [`filter`] | seccomp programs that stop only the calls a tool asks for |
//! | [`syscall`] | one table of all x86-64 syscalls; decoding and printing |
//! | [`event`], [`process`] | events with resolved objects, the same for every syscall that has an effect |
//! | [`memory`], [`invocation`] | a tracee's memory, a call as its registers hold it |
//!
//! # Layers
//!
//! From the ground up; a module imports only from rows above its own in this table.
//!
//! | layer | modules | purpose |
//! |---|---|---|
//! | 1 | `event`, `invocation`, `memory`, `unstopped` | the vocabulary: events, calls, memory of tracees, calls that do not stop |
//! | 2 | `filter`, `syscall`, `sys` | seccomp programs, the syscall table, system calls of our own |
//! | 3 | `process`, `runtime` | the process model; tracees as async functions |
//!
//! # Example
//!
//! This program collects the files that a command fails to open. Only `openat` stops, and
//! its exit is asked for each time.
//!
//! ```
//! use std::cell::RefCell;
//! use std::rc::Rc;
//!
//! use ptrace_async::filter::{Filter, Rule};
//! use ptrace_async::memory::Memory;
//! use ptrace_async::runtime::{Interception, Options, Program, Runtime, Started, Stop, Tracee};
//! use ptrace_async::syscall::error_of;
//!
//! async fn follow(tracee: Tracee<Started>, missing: Rc<RefCell<Vec<Vec<u8>>>>) {
//!     let mut running = tracee.resume();
//!     loop {
//!         let mut stop = running.stop().await;
//!         if let Stop::Prehook(call) = stop {
//!             let path = call.read_c_string(call.invocation().args[1], 4096);
//!             // Other tasks run on while this one is inside its call.
//!             stop = match call.posthook().await {
//!                 Ok(done) => {
//!                     if error_of(done.value()) == Some(libc::ENOENT) {
//!                         missing.borrow_mut().extend(path);
//!                     }
//!                     Stop::Posthook(done)
//!                 }
//!                 Err(other) => other,
//!             };
//!         }
//!         match stop.resume() {
//!             Some(next) => running = next,
//!             None => return,
//!         }
//!     }
//! }
//!
//! # fn main() -> std::io::Result<()> {
//! let filter = Filter::build(512, |nr| match i64::from(nr) {
//!     libc::SYS_openat => Rule::Trace,
//!     _ => Rule::Allow,
//! });
//! let runtime = Runtime::new(Options {
//!     interception: Interception::Seccomp(filter),
//!     exit_kill: true,
//! });
//! runtime.spawn(&Program::new(&["cat", "/no/such/file"])?)?;
//! let missing = Rc::new(RefCell::new(Vec::new()));
//! let found = missing.clone();
//! runtime.run(move |tracee| follow(tracee, found.clone()))?;
//! assert!(missing.borrow().contains(&b"/no/such/file".to_vec()));
//! # Ok(())
//! # }
//! ```
//!
//! `examples/strace.rs` prints every call of a command and its children.
//! `examples/handle_unlink.rs` injects a call into a tracee before the tracee's own.

pub mod event;
pub mod filter;
pub mod invocation;
pub mod memory;
pub mod process;
pub mod runtime;
mod sys;
pub mod syscall;
mod unstopped;

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
