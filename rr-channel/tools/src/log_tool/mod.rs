//! `rr-channel`: shows recordings.
//!
//! ```console
//! $ rr-channel stats rr-channel-log        # counts events by kind
//! $ rr-channel dump rr-channel-log         # lists every event, equal ones in one line
//! $ rr-channel topology rr-channel-log     # lists senders, receivers and channels
//! $ rr-channel diff passing failing        # shows where two runs start to differ
//! $ rr-channel timeline rr-channel-log -o page.html   # draws a page for a browser
//! ```
//!
//! The argument is the directory of a recording, one of `cargo reprise`, or the log of a
//! single thread. A damaged recording is shown as far as it can be read; the damage is
//! reported on standard error, and the exit status is 1.
//!
//! **Invariant:** no file content makes the tool panic, and memory is bounded for logs of
//! any length; `timeline` holds at most `--limit` events of each thread.
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

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use source::Source;

/// Runs the command line. What is wrong is said on standard error.
pub fn main() -> ExitCode {
    cli::run()
}

/// Writes every event of a recording, runs of events in one line.
///
/// # Errors
/// If it cannot be read or written. What is damaged is left out.
pub fn dump(recording: &Path, out: &mut dyn Write) -> anyhow::Result<()> {
    dump::text(&mut Source::open(recording)?, out)
}

/// Writes the events of a recording so that those of two can be compared as text: threads by
/// their names instead of their numbers, which are others in each recording, and without
/// random bytes.
///
/// # Errors
/// As [`dump`].
pub fn dump_by_name(recording: &Path, out: &mut dyn Write) -> anyhow::Result<()> {
    dump::text_by_name(&mut Source::open(recording)?, out)
}

/// Writes where two recordings part.
///
/// # Errors
/// As [`dump`].
pub fn diff(first: &Path, second: &Path, out: &mut dyn Write) -> anyhow::Result<()> {
    diff::Diff::of(&mut Source::open(first)?, &mut Source::open(second)?).text(out)
}

/// Writes a page that draws a recording, with up to `limit` events of each thread.
///
/// # Errors
/// As [`dump`].
pub fn timeline(recording: &Path, limit: u64, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut source = Source::open(recording)?;
    timeline::Timeline::of(&mut source, limit, replayed::Replayed::new())?.page(out)
}
