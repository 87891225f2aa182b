//! Addresses and lengths of the code, its tables and the logs, in a tracee and in the file
//! that it maps. Also the header of a log.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64};

use crate::unstopped::{CODE, PASSING};

/// Where the code is mapped.
pub(crate) const BASE: u64 = CODE;
pub(crate) const PAGE: u64 = 4096;
/// Room for the code and its tables, which tracees map read-only.
pub(crate) const CODE_LEN: u64 = 2 * PAGE;
/// The table of call classes: a byte for each number below
/// [`COUNT`](crate::unstopped::COUNT).
pub(crate) const CLASSES: u64 = BASE + PASSING + 1024;
/// The table of libraries with patched copies; zeros follow the last.
pub(crate) const LIBRARIES: u64 = BASE + PASSING + 2048;
/// The length of an entry in bytes, and the number of entries at most.
pub(crate) const LIBRARY_LEN: u64 = 128;
pub(crate) const MAX_LIBRARIES: u64 = 8;
/// The secret token at the end of the code.
pub(crate) const TOKEN: u64 = BASE + CODE_LEN - 8;
/// The word that holds the address of the log. Its page is private to each address space.
pub(crate) const LOG: u64 = BASE + CODE_LEN;
/// The address of the first log, which means that nothing is logged.
pub(crate) const LOGS: u64 = BASE + CODE_LEN + PAGE;
/// The length in words of the block that a fresh program starts with (see
/// `tracee/start.rs`).
pub(crate) const START_WORDS: u64 = 16;

/// The offset of the entries in a log.
pub(crate) const DATA: usize = 704;
/// The offset of the path, or of the written bytes, in an entry.
pub(crate) const ENTRY: usize = 56;
/// The length of a log in bytes, header included.
pub(crate) const LEN: usize = 64 << 10;
/// The number of logs. The first has no owner, and nothing is logged in it.
pub(crate) const LOG_COUNT: usize = 128;
/// The length of all logs.
pub(crate) const ARENA_LEN: usize = LOG_COUNT * LEN;
/// The offset of the logs in the file that tracees map.
pub(crate) const LOGS_AT: u64 = LOGS - BASE;
/// The length of that file before texts of loaders are appended.
pub(crate) const FILE_LEN: u64 = LOGS_AT + ARENA_LEN as u64;

/// The number of descriptors of which something is known.
pub(crate) const DESCRIPTORS: usize = 256;
// The bits of `Header::known`.
/// The process opened its file without a stop: neither reads nor metadata say anything new.
pub(crate) const OWN: u8 = 1;
/// Reads say nothing new.
pub(crate) const READS: u8 = 2;
/// It leads to a file that the process made: what is written does not matter.
pub(crate) const OUTPUTS: u8 = 4;
/// The bit of an entry's number that says that the written bytes are not in it.
pub(crate) const WITHOUT_BYTES: u32 = 1 << 30;

/// The number of counters of clock reads.
pub(crate) const CLOCKS: usize = 13;

/// The header of a log.
#[repr(C)]
pub(crate) struct Header {
    pub(crate) lock: AtomicU32,
    /// A `Sharing` (see `log`).
    pub(crate) sharing: AtomicU32,
    /// The offset of the next entry from the first.
    pub(crate) head: AtomicU64,
    /// The last offset that leaves room for the longest entry.
    pub(crate) limit: AtomicU64,
    /// The origin of the call. The code saves this and the following words while it holds
    /// the lock.
    pub(crate) from: AtomicU64,
    pub(crate) nr: AtomicU64,
    pub(crate) rdi: AtomicU64,
    pub(crate) rsi: AtomicU64,
    pub(crate) rdx: AtomicU64,
    pub(crate) value: AtomicU64,
    /// The address of the call's result, for calls that have a path too.
    pub(crate) result: AtomicU64,
    /// The call's class.
    pub(crate) class: AtomicU32,
    /// Whether it is an open of the loader's.
    pub(crate) loader: AtomicU32,
    /// The table entry of the library that it opened.
    pub(crate) found: AtomicU64,
    /// A descriptor of the copy.
    pub(crate) spare: AtomicU64,
    /// A `struct stat`.
    pub(crate) stat: [AtomicU64; 18],
    /// The value of `clock` when the call began.
    pub(crate) stamp: AtomicU64,
    /// Not zero if the log holds an observation that must be handled before the process
    /// writes.
    pub(crate) observed: AtomicU32,
    /// In the first log: the counter of all calls.
    pub(crate) clock: AtomicU64,
    /// The descriptor that a call in flight closes, plus one.
    pub(crate) closing: AtomicU32,
    /// Not zero if calls that only look at something are not to be logged.
    pub(crate) unneeded: AtomicU32,
    /// The clock reads through the vdso (see `vdso`), by clock.
    pub(crate) clocks: [AtomicU32; CLOCKS],
    /// The bits of the call's descriptor in `known`.
    pub(crate) known_here: AtomicU32,
    /// When the log was made: nanoseconds of `CLOCK_REALTIME_COARSE`, which gives files their
    /// times.
    pub(crate) begun: AtomicI64,
    /// The change time of the directory that is listed.
    pub(crate) changed: AtomicU64,
    /// The knowledge of each descriptor.
    pub(crate) known: [AtomicU8; DESCRIPTORS],
}

const _: () = assert!(size_of::<Header>() <= DATA);
const _: () = assert!(size_of::<libc::stat>() <= 18 * 8);
