//! Syscalls that do not stop: performed and logged by code in the recorded process, and
//! answered from the log by code at the same place in the replayed one.
//!
//! Where a program has come by a few times, `mov $number, %eax; syscall` becomes a jump in
//! place of the `mov`. It leads over a *trampoline* near by (a jump reaches 2 GiB) to the
//! *stub*, which lies at a fixed address in every process. Recording, the stub performs the
//! call and appends an *entry* to the process's log: the result, and the memory that it
//! changed. What it does not want to decide it leaves to the `syscall` that still stands
//! there, and says so by an entry: whether a call stops is a matter of the log. Replaying,
//! another stub takes entry after entry.
//!
//! Nothing of the program's is used: no stack, and of the registers those that a syscall
//! destroys. Flags, RCX and R11 are left the same by both stubs. All tasks that share
//! memory share the log, since one of them runs at a time; the recorder takes what is in
//! it at every stop of the one that has the turn, whose it is (others may be killed
//! meanwhile). While several share it, calls that may wait stop as ever, since who waits must not keep the turn; but not those
//! on descriptors that are known to be *quick* (files, and whatever does not block), and to
//! wait for events is tried without waiting first. Whoever has taken the turn often and alone
//! may wait in the stub all the same: the recorder stops it when somebody else wants the turn.
//!
//! Calls that shape memory are performed as well, and logged with their arguments. A replay
//! makes them again: its stub does, by entries that say how; those of files stop for it.
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
/// All of it.
pub(crate) const LENGTH: u64 = 2 * PAGE + LOG_LENGTH;
/// All of it in a replay, which may have to take several logs at once.
pub(crate) const REPLAYED_LENGTH: u64 = 2 * PAGE + 8 * LOG_LENGTH;
/// Entries begin before this address; behind it is room for one that says "stopped".
const LIMIT: u64 = LOG + LOG_LENGTH - 64;

/// Words of the data.
#[derive(Clone, Copy)]
enum Word {
    /// Where the next entry goes, or comes from.
    Cursor = 0,
    /// What is not performed at the moment: [`WAITS`], [`TRUNCATES`].
    Closed = 1,
    /// Where the call returns to.
    Return = 3,
    /// The call's number and result.
    Number = 4,
    Result = 5,
    /// Where the call writes, and how much ([`BY_RESULT`], or if it succeeds).
    Target = 6,
    Size = 7,
    /// What is in RSI and RDI.
    Rsi = 8,
    Rdi = 9,
    /// How many bytes of arguments are logged.
    Arguments = 10,
    /// The library that was mapped last: from where, up to where, by which descriptor.
    LibraryStart = 11,
    LibraryEnd = 12,
    LibraryFd = 13,
    /// What is in other registers.
    Rdx = 14,
    R10 = 15,
    R8 = 16,
    R9 = 17,
}

/// Calls that may wait stop.
pub(crate) const WAITS: u64 = 1;
/// Files that are there are not opened with O_TRUNC.
pub(crate) const TRUNCATES: u64 = 2;

/// The address of a word of the data.
pub(crate) fn cursor() -> u64 {
    DATA
}

/// The address of the word that says what is not performed.
pub(crate) fn closed() -> u64 {
    DATA + 8
}

/// What is known of descriptors: a byte for each, from here on in the data.
const TABLE: u64 = 1024;
/// How many descriptors the table has.
pub(crate) const DESCRIPTORS: u64 = 1024;
/// What is written there is nobody's output, and no file that somebody has mapped.
pub(crate) const HIDDEN: u8 = 1;
/// Calls on it do not wait, or not for long.
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
