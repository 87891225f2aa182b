//! `rr-channel`: shows what recordings hold.
//!
//! ```console
//! $ rr-channel stats rr-channel-log        # how much of what
//! $ rr-channel dump rr-channel-log         # every event, runs of events in one line
//! $ rr-channel topology rr-channel-log     # who sends to whom, through which channel
//! $ rr-channel diff passing failing        # where two runs part
//! $ rr-channel timeline rr-channel-log -o page.html   # a picture of all that, for a browser
//! ```
//!
//! Takes the directory of a recording, one of `cargo reprise`'s, or a single thread's
//! log. Of a damaged recording as much is shown as can be read; what is wrong is said on
//! standard error, and the exit status is 1. Nothing that is in a file makes the tool
//! panic, and it holds a bounded part of a log in memory, however long that is: `timeline`
//! as many events of each thread as its `--limit`.
//!
//! Threads are numbered (`t3`) as in the recording, channels (`t3.c1`) and locks (`t3.l1`)
//! after the thread that made or first named them; the names of the threads come first.

mod cli;
mod diff;
mod dump;
mod fold;
pub(crate) mod replayed;
mod source;
mod stats;
mod timeline;
mod topology;

use std::process::ExitCode;

/// Runs the command line. What is wrong is said on standard error.
pub fn main() -> ExitCode {
    cli::run()
}
