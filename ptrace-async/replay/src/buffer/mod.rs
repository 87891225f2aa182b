//! The syscall buffer: calls that code in the process performs and logs without a stop.
//!
//! After a few visits, `mov $number, %eax; syscall` becomes a jump in place of the `mov`. It
//! leads to a *trampoline* near by (a jump reaches 2 GiB) and from there to the *stub*, at a
//! fixed address in every process. In a recording the stub performs the call and appends an
//! *entry* to the log: the result, and the memory that it changed. A call that the stub does
//! not handle is left to the `syscall`, which still stands there, and an entry says so: the
//! log decides whether a call stops. In a replay another stub consumes the entries.
//!
//! The stubs use no stack of the program, and only registers that a syscall destroys. Both
//! leave the same flags, RCX and R11. Tasks that share memory share the log, since one of them
//! runs at a time. The recorder takes the entries at every stop of the task that has the turn;
//! they are that task's, since others may be killed meanwhile. While several tasks share the
//! log, calls that may wait stop, because a waiting task must not keep the turn. Exceptions
//! are calls on descriptors that are marked as *quick* (files, and descriptors that do not
//! block), and waits for events, which are tried without waiting first. A task that has taken
//! the turn often without competition may wait in the stub: the recorder stops it when another
//! task wants the turn.
//!
//! Calls that shape memory are performed, too, and logged with their arguments. A replay
//! repeats them: its stub follows entries that say how. Mappings of files stop for it.
//!
//! **Invariant:** the log is not touched from outside while a task is in the stub, if the task
//! may go on there.

mod calls;
mod entry;
mod site;
mod stub;

pub(crate) use calls::performs;
pub use entry::{Entry, entries};
pub(crate) use entry::{made, stopped};
pub(crate) use site::{BEFORE, BEHIND, Site, TRAMPOLINE, is_free, reaches, sites};
pub(crate) use stub::{Stub, recording, replaying};

/// The stub's code, then its data, then the log. See `memory` for the range.
pub(crate) const BASE: u64 = 0x7ea9_0000_0000;
const PAGE: u64 = 4096;
/// The data: the first word is where the next entry goes.
pub(crate) const DATA: u64 = BASE + PAGE;
/// The log.
pub(crate) const LOG: u64 = DATA + PAGE;
const LOG_LENGTH: u64 = 128 << 10;
/// The length of code, data and log.
pub(crate) const LENGTH: u64 = 2 * PAGE + LOG_LENGTH;
/// The length in a replay, which may have to take several logs at once.
pub(crate) const REPLAYED_LENGTH: u64 = 2 * PAGE + 8 * LOG_LENGTH;
/// Entries begin before this address; behind it is room for one that says "stopped".
const LIMIT: u64 = LOG + LOG_LENGTH - 64;

/// Words of the data.
#[derive(Clone, Copy)]
enum Word {
    /// Where the next entry goes, or comes from.
    Cursor = 0,
    /// Calls that are disabled at the moment: [`WAITS`], [`TRUNCATES`], [`WAKES`].
    Closed = 1,
    /// Where the call returns to.
    Return = 3,
    /// The call's number and result.
    Number = 4,
    Result = 5,
    /// Address that the call writes to, and the number of bytes (`stub::BY_RESULT`: its
    /// result).
    Target = 6,
    Size = 7,
    /// Saved RSI and RDI.
    Rsi = 8,
    Rdi = 9,
    /// How many bytes of arguments are logged.
    Arguments = 10,
    /// The library that was mapped last: from where, up to where, by which descriptor.
    LibraryStart = 11,
    LibraryEnd = 12,
    LibraryFd = 13,
    /// Saved other registers.
    Rdx = 14,
    R10 = 15,
    R8 = 16,
    R9 = 17,
}

/// Calls that may wait stop.
pub(crate) const WAITS: u64 = 1;
/// Files that are there are not opened with O_TRUNC.
pub(crate) const TRUNCATES: u64 = 2;

/// Calls that wake others stop.
pub(crate) const WAKES: u64 = 4;

/// The address of a word of the data.
pub(crate) fn cursor() -> u64 {
    DATA
}

/// The address of the word that says what is not performed.
pub(crate) fn closed() -> u64 {
    DATA + 8
}

/// Offset of the descriptor table: a byte of marks for each.
const TABLE: u64 = 1024;
/// How many descriptors the table has.
pub(crate) const DESCRIPTORS: u64 = 1024;
/// Mark: data written there is neither output of the recorder nor of a live file.
pub(crate) const HIDDEN: u8 = 1;
/// Mark: calls on it do not wait, or not for long.
pub(crate) const QUICK: u8 = 2;

/// The address of what is known of descriptor 0.
pub(crate) fn descriptors() -> u64 {
    DATA + TABLE
}

/// The address of the three words that say what library is being mapped.
pub(crate) fn library() -> u64 {
    DATA + 8 * Word::LibraryStart as u64
}

/// The address of the word that says where the stub returns to.
pub(crate) fn returns_to() -> u64 {
    DATA + 8 * Word::Return as u64
}

/// The length of the code's and the data's pages.
pub(crate) const CODE_LENGTH: u64 = PAGE;

/// Whether an address is in the stub.
pub(crate) fn contains(ip: u64) -> bool {
    (BASE..DATA).contains(&ip)
}
