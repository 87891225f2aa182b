//! The recordings of `rr-channel`: their format, how they are written and read, and the names
//! of threads, channels and processes in them.
//!
//! It defines no operation of a program, so that tools which only read recordings use this crate
//! and not `rr-channel`.
//!
//! # The log of a thread
//!
//! A recording is a directory: one file for each thread that had something to log,
//! `thread-N.rrlog`, and a `session` file that names the program and all threads. A thread appends
//! to its own file only, through a shared mapping. So its log outlives the process in any case
//! except a loss of power. If places are recorded, `thread-N.places` has them, in the same format.
//!
//! **Model.** Mostly a thread's events repeat. An [`Event`] is a *symbol* (operation, channel,
//! kind of outcome, sender or arm) and for some symbols a number (the message's, the slot's). Each
//! symbol remembers its successor (replaced when another one follows twice) and by how much its
//! number last grew. An event that this predicts only counts a run, and any other costs a few
//! bytes. Reader and writer share [`Model`](prediction::Model), so they cannot disagree on which
//! events are predictable.
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
//! | 64.. | the thread's name (its [`Dti`](identity::Dti)), then the body |
//!
//! The state is one word, written by one store after the bytes that it covers: whenever the
//! process dies, the file holds a whole number of events. The body is a sequence of LEB128 tokens.
//! An odd one is a run of `token >> 1` predicted events. An even one is the symbol `token >> 1`,
//! preceded by its definition if it is new, and followed by the zigzag difference between the
//! number and its prediction if it has one.
//!
//! **Clocks** are in a file of their own (`thread-N.clocks`, version 1) for each thread that reads
//! one. Its header is as above, but with `RRCHCLK`, without a name, and with an open run of 0. The
//! body has LEB128 numbers for each read: `gap << 5 | elsewhere << 4 | clock`, with the number of
//! events since the last read and the number of the clock (clock_gettime(2)); if `elsewhere` is
//! set, the site, which otherwise is that of the last read; and the zigzag difference in nanoseconds
//! from the thread's last read of that clock. A site is an offset into the program's code.
//!
//! # Layers
//!
//! From the ground up; a module imports only from rows above its own in this table.
//!
//! | layer | modules | purpose |
//! |---|---|---|
//! | 1 | `clock`, `format`, `identity` | reads of clocks; the layout of files; names of threads, channels and processes |
//! | 2 | `event`, `payload` | an operation and what came of it; what messages held |
//! | 3 | `prediction` | which event comes next |
//! | 4 | `reading`, `writing` | the log of one thread |
//! | 5 | `recording` | the directory of a recording |

pub mod identity;

mod clock;
mod event;
mod format;
mod payload;
mod prediction;
mod reading;
mod recording;
mod writing;

pub use clock::{Clock, ClockRead};
pub use event::{Event, Op, Outcome, Symbol, fmt_operation};
pub use format::{CLOCKS_VERSION, FORMAT_VERSION, OLDEST_VERSION as OLDEST_FORMAT_VERSION};
pub use payload::{Content, PAYLOADS_FILE, PAYLOADS_TITLE, Payload};
pub use reading::{Ahead, ClockLog, ClockReads, Events, LogError, ThreadLog};
pub use recording::{
    EditedThread, OLDEST_RECORDING_VERSION, RECORDING_VERSION, RecordedThread, Recording,
    RecordingError, SESSION_FILE, StartedProcess, Step, clocks_name, dir_name, file_name,
    places_name, process_line, session_header, write_processes, write_recording,
};
pub use writing::{ClockWriter, Hot, Writer, may_be_as_long};
