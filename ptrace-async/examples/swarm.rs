//! Many short-lived processes, all of which must be seen to begin and to end.
//!
//! ```text
//! cargo run --release --example swarm -- 10000
//! ```

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Instant;

use ptrace_async::filter::{Filter, Rule};
use ptrace_async::runtime::{Interception, Options, Program, Runtime, Started, Tracee};

/// Has a shell make so many processes; how many began, and how many ended.
///
/// # Errors
/// When it cannot be traced.
pub(crate) fn swarm(processes: u32) -> io::Result<(u32, u32)> {
    let runtime = Runtime::new(Options {
        interception: Interception::Seccomp(Filter::build(512, |_| Rule::Allow)),
        exit_kill: true,
    });
    // Ten at a time, so that they meet.
    let script = "n=0; while [ $n -lt $0 ]; do \
                  (:)& (:)& (:)& (:)& (:)& (:)& (:)& (:)& (:)& (:)& \
                  wait; n=$((n + 10)); done";
    let count = processes.to_string();
    runtime.spawn(&Program::new(&["sh", "-c", script, &count])?)?;
    let (begun, ended) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let counters = (begun.clone(), ended.clone());
    runtime.run(move |tracee| follow(tracee, counters.clone()))?;
    Ok((begun.get(), ended.get()))
}

async fn follow(tracee: Tracee<Started>, (begun, ended): (Rc<Cell<u32>>, Rc<Cell<u32>>)) {
    begun.set(begun.get() + 1);
    let mut running = tracee.resume();
    while let Some(next) = running.stop().await.resume() {
        running = next;
    }
    ended.set(ended.get() + 1);
}

fn main() -> io::Result<()> {
    let processes = std::env::args().nth(1).and_then(|word| word.parse().ok());
    let start = Instant::now();
    let (begun, ended) = swarm(processes.unwrap_or(10_000))?;
    println!(
        "{begun} processes began, {ended} ended, in {:.2} s",
        start.elapsed().as_secs_f64()
    );
    assert_eq!(begun, ended, "every process that began has ended");
    Ok(())
}
