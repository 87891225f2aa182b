//! Where the code, its tables and the logs lie in a tracee and in the file that it maps, and the
//! header of a log.

use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::unstopped::{CODE, PASSING};

/// Where the code is mapped.
pub(crate) const BASE: u64 = CODE;
pub(crate) const PAGE: u64 = 4096;
/// Room for the code and its tables, which tracees map read-only.
pub(crate) const CODE_LEN: u64 = 2 * PAGE;
/// What is done about each call: a byte for each number below [`COUNT`].
pub(crate) const CLASSES: u64 = BASE + PASSING + 1024;
/// Libraries that there are patched copies of; the last is followed by zeros.
pub(crate) const LIBRARIES: u64 = BASE + PASSING + 2048;
/// Room for one of them, and how many there may be.
pub(crate) const LIBRARY_LEN: u64 = 128;
pub(crate) const MAX_LIBRARIES: u64 = 8;
/// A number that only this code has at its end.
pub(crate) const TOKEN: u64 = BASE + CODE_LEN - 8;
/// Where the address space has the address of its log: in a page of its own.
pub(crate) const LOG: u64 = BASE + CODE_LEN;
/// Where the logs begin. What the first of them holds says that nothing is logged.
pub(crate) const LOGS: u64 = BASE + CODE_LEN + PAGE;
/// What a fresh program starts with, in words: see [`super::start`].
pub(crate) const START_WORDS: u64 = 16;

/// Where the entries begin, from the header.
pub(crate) const DATA: usize = 384;
/// Where an entry's path, or what it wrote, begins.
pub(crate) const ENTRY: usize = 56;
/// The length of a log with its header.
pub(crate) const LEN: usize = 64 << 10;
/// How many logs there are. The first belongs to nobody: nothing is logged in it.
pub(crate) const LOG_COUNT: usize = 128;
/// The length of all logs.
pub(crate) const ARENA_LEN: usize = LOG_COUNT * LEN;
/// Where they begin in the file that tracees map.
pub(crate) const LOGS_AT: u64 = LOGS - BASE;
/// The length of that file, before copies of loaders are appended.
pub(crate) const FILE_LEN: u64 = LOGS_AT + ARENA_LEN as u64;

/// What lies before the entries.
#[repr(C)]
pub(crate) struct Header {
    pub(crate) lock: AtomicU32,
    /// A `Sharing` (see `log`).
    pub(crate) sharing: AtomicU32,
    /// Where the next entry goes, from the first.
    pub(crate) head: AtomicU64,
    /// Beyond this there is no room for the longest entry.
    pub(crate) limit: AtomicU64,
    /// What the code in the tracee remembers while it holds the lock.
    pub(crate) from: AtomicU64,
    pub(crate) nr: AtomicU64,
    pub(crate) rdi: AtomicU64,
    pub(crate) rsi: AtomicU64,
    pub(crate) rdx: AtomicU64,
    pub(crate) value: AtomicU64,
    /// Where the call puts a result, if it has a path too.
    pub(crate) result: AtomicU64,
    /// What is done about the call.
    pub(crate) class: AtomicU32,
    /// Whether it is an open of the loader's.
    pub(crate) loader: AtomicU32,
    /// The library that it opened, in the table.
    pub(crate) found: AtomicU64,
    /// A descriptor of the copy.
    pub(crate) spare: AtomicU64,
    /// Room for a `struct stat`.
    pub(crate) stat: [AtomicU64; 18],
    /// When the call began, by `clock`.
    pub(crate) stamp: AtomicU64,
    /// Something is in the log that must be told before the process writes.
    pub(crate) observed: AtomicU32,
    /// In the log that belongs to nobody: counts the calls of all.
    pub(crate) clock: AtomicU64,
}

const _: () = assert!(size_of::<Header>() <= DATA);
const _: () = assert!(size_of::<libc::stat>() <= 18 * 8);
