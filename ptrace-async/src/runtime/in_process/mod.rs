//! Unstopped calls: lookups, reads and writes that a tracee performs and logs by itself,
//! without a stop.
//!
//! A stop costs ten times as much as a lookup, and builds make tens of thousands of
//! lookups. So code and a log are mapped into tracees (`code`, `log`), and call sites jump
//! to the code. They are patched in three ways. A program can start with copies of the
//! loader and the C library in which all sites are patched (`patch`, `copies`). The sites of
//! static programs and of Go programs are patched in their memory before they begin
//! (`program`). In an address space that has stopped often for lookups, each site is patched
//! where it stops (`site`): its syscall instruction becomes a jump to a trampoline.
//!
//! A tool asks for the log at each stop of the task (`Handle::unstopped_calls`), and for
//! all logs at any time (`Handle::all_unstopped_calls`). So it can handle all lookups that
//! came before a change before it lets the change happen. The calls of different tasks have
//! an order ([`UnstoppedCall::stamp`]).
//!
//! Nothing depends on it: sites that are not patched stop, and so do calls that the code
//! does not handle.
//!
//! **Why it is safe to patch.** A site is patched before its program begins, or while its
//! task is stopped right there and no other task shares its memory. So no task runs the
//! bytes that change. A signal handler
//! may return into them. The addresses that handlers will return to are therefore noted
//! ([`InProcess::handler_returns_to`]), and a site that contains one is not patched. No
//! handler is entered from the code (`leave_code`). A forked child has a copy of the code
//! and maps all logs. Before it runs, its copy gets the address of a log of its own
//! ([`InProcess::fork`]). If none is free, the child gets the original bytes back
//! ([`InProcess::restore`]), except where they are no patch any more because the library
//! was unmapped. An execve removes everything.
//!
//! **Closes.** When a thread closes a descriptor, another one may get it, and stop with it,
//! before the close is in the log. The log therefore names the descriptor while its close is
//! in flight, and the tracer reports that close at once. Nothing else may use a descriptor
//! during its close, so it does no harm that the close is reported early.
//!
//! **Known descriptors.** The log has a table of what is known of each descriptor. A file that was
//! opened without a stop is known: its reads and its metadata are not logged. The tool adds
//! descriptors whose reads it needs no more, or whose written bytes. An entry is cleared before
//! its descriptor is closed or replaced in the code, and all are cleared where such a call stops.
//! A forked child begins with an empty table, because descriptors may have changed since the fork.
//!
//! **Listings.** The names in a directory are asked for when the log is read. So a listing is
//! performed only if the directory has not changed since the log was made, by a clock that is
//! never ahead of the directory's change time, and the log has that time: the tool compares it.
//!
//! **Attribution.** Threads share memory, descriptors and directories, so it does not
//! matter which of them made a call; the lock in the log separates their calls. A *partial
//! sharer* shares the memory but not the rest, as a vfork child does until its execve.
//! While there is one, nothing is logged, and older entries belong to the other tasks. A
//! task that restricts its own calls (seccomp(2)) is not patched from then on, because its
//! filter may test where calls come from.

mod assembly;
mod call;
pub(crate) mod code;
mod copies;
mod files;
mod jumps;
pub(crate) mod layout;
mod leave_code;
mod log;
mod patch;
pub(crate) mod program;
mod progress;
pub(crate) mod site;
mod state;
mod vdso;

pub use self::call::UnstoppedCall;
#[cfg(test)]
pub(crate) use self::code::performed_at;
pub use self::copies::VERSION as COPIES_VERSION;
pub(crate) use self::files::path_of;
pub(crate) use self::jumps::jumped_into;
pub(crate) use self::layout::{OUTPUTS, OWN, READS};
pub(crate) use self::log::{Log, LogMemory};
pub(crate) use self::patch::{BEFORE, may_be_patched};
pub use self::state::UnstoppedCalls;
pub(crate) use self::state::{InProcess, Mapped, Starting, Trampolines, disable_logging};
pub(crate) use self::vdso::VdsoEntry;
