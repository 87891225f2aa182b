//! Walks through a recording, takes a checkpoint in its middle, and comes back to it.
//!
//! ```text
//! reprise record -o /tmp/trace -- sh -c 'date; ls | wc -l'
//! cargo run --example step -- /tmp/trace
//! ```

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use reprise::replay::{Error, Options, Output, Replayer};
use reprise::trace::Directory;

/// Where the tasks are after each record, and what the second half prints when it is replayed
/// once more.
///
/// # Errors
/// When it cannot be replayed.
pub(crate) fn walk(trace: PathBuf) -> Result<(String, Vec<u8>), Error> {
    let (directory, _) = Directory::open(trace)?;
    let output = Output::Keep;
    let mut replayer = Replayer::open(directory, Options { output })?;
    let mut text = String::new();
    while replayer.step()? {
        let _ = write!(text, "{:>6}", replayer.position());
        for task in replayer.tasks() {
            let pid = task.pid.map_or("?".to_owned(), |pid| pid.to_string());
            let _ = write!(text, "  {pid} at {:#x}", task.registers.ip());
        }
        let _ = writeln!(text);
    }
    // It has ended; another one begins.
    let records = replayer.position();
    let (directory, _) = Directory::open(replayer.trace())?;
    let mut replayer = Replayer::open(directory, Options { output })?;
    replayer.run_to(records / 2)?;
    let checkpoint = replayer.checkpoint()?;
    replayer.run_to_end()?;
    replayer.restore(&checkpoint)?;
    replayer.run_to_end()?;
    let printed = replayer.take_output();
    Ok((
        text,
        printed.into_iter().flat_map(|some| some.bytes).collect(),
    ))
}

/// How long it takes to take a checkpoint in the middle of a recording of so many records, and
/// to come back to it: medians of 21.
///
/// # Errors
/// When it cannot be replayed.
pub(crate) fn cost(trace: &Path, records: u64) -> Result<(Duration, Duration), Error> {
    let (directory, _) = Directory::open(trace)?;
    let output = Output::Discard;
    let mut replayer = Replayer::open(directory, Options { output })?;
    replayer.run_to(records / 2)?;
    let (mut taken, mut restored) = (Vec::new(), Vec::new());
    for _ in 0..21 {
        let start = Instant::now();
        let checkpoint = replayer.checkpoint()?;
        taken.push(start.elapsed());
        let start = Instant::now();
        replayer.restore(&checkpoint)?;
        restored.push(start.elapsed());
    }
    taken.sort();
    restored.sort();
    Ok((taken[10], restored[10]))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let trace = std::env::args_os().nth(1).ok_or("usage: step TRACE")?;
    let trace = PathBuf::from(trace);
    let (text, printed) = walk(trace.clone())?;
    print!("{text}");
    let (taken, restored) = cost(&trace, text.lines().count() as u64)?;
    println!("a checkpoint takes {taken:?}, coming back {restored:?}");
    println!(
        "its second half prints {:?}",
        String::from_utf8_lossy(&printed)
    );
    Ok(())
}
