//! Lookups, reads and writes that the tracee performs and logs by itself, without a
//! stop.
//!
//! A stop costs ten times what a lookup does, and builds make tens of thousands
//! of them. So code and a log are mapped into tracees (`code`, `log`), and sites
//! that make lookups jump there: in copies of the loader and the C library that
//! a program starts with (`patch`, `start`), or, in an address space that has
//! stopped often enough for lookups, each where it stops (`site`): its syscall
//! instruction becomes a jump to a trampoline. What the log holds is handed out
//! before anything else is done about a stop of the task ([`Handle::unstopped_calls`]),
//! and on request at any time ([`Handle::all_unstopped_calls`]), so a tool can see
//! all lookups that came before a change before it lets the change happen. What
//! different tasks did has an order ([`UnstoppedCall::stamp`]).
//!
//! Nothing depends on it: what is not patched, and what the code does not want
//! to decide, stops.
//!
//! **Why it is safe to patch.** A site is patched while its only task is
//! stopped right there, and no other task shares its memory; so nobody runs
//! the bytes that change. A signal handler may return into them: addresses
//! that handlers will return to are noted ([`InProcess::handler_returns_to`]), and a site
//! that holds one is left alone; none is entered from our code (`leave_code`). A
//! forked child has a copy of the code, and maps all logs: before it runs, its
//! copy is told of a log of its own ([`InProcess::fork`]), or, if there is
//! none, it gets the original bytes back ([`InProcess::restore`]); if what is there
//! is not our patch any more (the library was unmapped), it is left. An execve
//! ends it all.
//!
//! **Whose calls they are.** Threads share the memory, the descriptors and the
//! directories, so it does not matter which of them made a call; the lock in
//! the log keeps them apart. While there are others with the same memory
//! (between a vfork and its execve, say), nothing is logged, and what was is
//! the owner's. A task that restricts its own calls (seccomp(2)) is left alone
//! from then on, because its filter may look at where calls come from.

mod call;
pub(crate) mod code;
mod copies;
mod files;
pub(crate) mod layout;
mod leave_code;
mod log;
mod patch;
mod progress;
pub(crate) mod site;
mod state;

pub use self::call::UnstoppedCall;
#[cfg(test)]
pub(crate) use self::code::performed_at;
pub(crate) use self::files::path_of;
pub(crate) use self::log::{Log, LogMemory};
pub(crate) use self::patch::{BEFORE, may_be_patched};
pub use self::state::UnstoppedCalls;
pub(crate) use self::state::{InProcess, Mapped, Starting, disable_logging};
