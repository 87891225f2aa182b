//! The log of one thread's nondeterministic outcomes: its model and its bytes.
//!
//! A recording is a directory: one file for each thread that had something to log,
//! `thread-N.rrlog`, and a `session` file that names the program and all threads. A
//! thread appends to its own file only, through a shared mapping, so that what it
//! logged outlives the process however that dies; the machine losing power is another
//! matter. Where places are recorded, `thread-N.places` has them, in the same format.
//!
//! **Model.** What a thread sees is mostly what it saw before. An [`Event`] is a
//! *symbol* (operation, channel, kind of outcome, sender or arm) and for some
//! symbols a number (the message's, the slot's). Each symbol remembers which one
//! follows it (changing its mind when another one does twice) and by how much its
//! number last grew; an event that this predicts only counts a run, and any other costs
//! a few bytes. Reader and writer
//! share [`Model`](model::Model), so they cannot disagree on what was predictable.
//!
//! **File**, version 3, all integers little-endian:
//!
//! | bytes | content |
//! |---|---|
//! | 0..8 | `RRCHLOG` and the version as one byte |
//! | 8..12 | the thread's number |
//! | 12..16 | length of the thread's name, in bytes |
//! | 16..24 | **state**: body length in the upper 40 bits, open run in the lower 24 |
//! | 24..32 | checksum of the body (FNV-1a); valid if sealed |
//! | 32..36 | flags: 1 sealed (the thread ended and closed its log), 2 incomplete (recording stopped early) |
//! | 36..40 | zero |
//! | 40..48 | how long the run had lasted when this was last noted, in milliseconds; 0 if unknown |
//! | 48..64 | zero |
//! | 64.. | the thread's name (its [`Dti`](crate::identity::Dti)), then the body |
//!
//! The state is one word, written by one store after the bytes that it covers:
//! whenever the process dies, the file holds a whole number of events. The body
//! is a sequence of LEB128 tokens: odd, a run of `token >> 1` predicted events;
//! even, the symbol `token >> 1`, preceded by its definition if it is new, followed
//! by the zigzag difference between the number and its prediction if it has one.

mod ahead;
mod edit;
mod event;
mod hot;
mod mapping;
mod model;
mod payload;
mod reader;
mod recording;
mod ring;
mod writer;

pub(crate) use ahead::Ahead;
pub use edit::{EditedThread, write_processes, write_recording};
pub use event::{Event, Op, Outcome};
pub(crate) use event::{Symbol, on};
pub(crate) use hot::Hot;
pub use payload::{Content, Payload};
pub(crate) use payload::{PAYLOADS_FILE, PAYLOADS_TITLE};
pub use reader::{Events, LogError, ThreadLog};
pub use recording::{RecordedThread, Recording, RecordingError, StartedProcess, Step};
pub(crate) use recording::{SESSION_FILE, file_name, places_name, process_line, session_header};
pub(crate) use writer::Writer;

/// The version of the file format that this crate writes and reads.
pub const FORMAT_VERSION: u8 = 3;
/// The oldest version that it reads. Version 2 knew neither bytes nor jobs, and is
/// otherwise the same.
const OLDEST_VERSION: u8 = 2;

const MAGIC: [u8; 7] = *b"RRCHLOG";
const HEADER_LEN: usize = 64;
const STATE_AT: usize = 16;
const CHECKSUM_AT: usize = 24;
const FLAGS_AT: usize = 32;
const LASTED_AT: usize = 40;
const SEALED: u32 = 1;
const INCOMPLETE: u32 = 2;

/// The longest run that the state word can hold.
const MAX_RUN: u64 = (1 << 24) - 1;
/// The longest body that the state word can hold.
const MAX_BODY: u64 = (1 << 40) - 1;

/// FNV-1a, 64 bits: guards against bit rot and truncation, not against malice.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
