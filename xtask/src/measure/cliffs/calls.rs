//! Runs of the loops, plainly and under pcache.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::catalog::Loop;
use super::looping::{self, Made};
use super::results::CallCost;

/// After this time, a loop has stuck.
const STUCK: Duration = Duration::from_secs(60);

/// The programs that take part.
pub(super) struct Programs {
    pub(super) pcache: PathBuf,
    /// Makes the calls.
    pub(super) caller: PathBuf,
}

/// Measures a loop in rounds: plainly, then under a pcache with an empty store.
///
/// # Errors
///
/// When a run does not end well.
pub(super) fn measure(
    programs: &Programs,
    dir: &Path,
    one: &Loop,
    threads: bool,
    rounds: usize,
) -> anyhow::Result<CallCost> {
    let mut cost = CallCost {
        name: one.name.to_owned(),
        often: one.often,
        threads,
        calls: one.len(),
        errors: Vec::new(),
        differs: false,
        plain: Vec::new(),
        pcache: Vec::new(),
    };
    for _ in 0..rounds {
        let plain = run(dir, caller(programs, one, threads))?;
        let mut command = Command::new(&programs.pcache);
        command.arg("--cache-dir").arg(dir.join("store"));
        command.args(["--quiet", "--"]);
        let called = caller(programs, one, threads);
        command.arg(called.get_program()).args(called.get_args());
        let pcache = run(dir, command)?;
        let each = |made: &Made| made.nanoseconds / one.len() as f64;
        cost.plain.push(each(&plain));
        cost.pcache.push(each(&pcache));
        cost.differs |= pcache.errors != plain.errors;
        cost.errors = plain.errors;
    }
    Ok(cost)
}

fn caller(programs: &Programs, one: &Loop, threads: bool) -> Command {
    let mut command = Command::new(&programs.caller);
    command.args(["make-calls", one.name]);
    if threads {
        command.arg("--threads");
    }
    command
}

/// One run in a fresh directory, with files as standard streams.
fn run(dir: &Path, mut command: Command) -> anyhow::Result<Made> {
    let work = dir.join("work");
    crate::support::tree::remove(&work)?;
    crate::support::tree::remove(&dir.join("store"))?;
    looping::lay_out(&work).context("laying out files")?;
    let errors = dir.join("errors");
    let mut child = command
        .current_dir(&work)
        .stdin(std::fs::File::open(work.join("input"))?)
        .stdout(std::fs::File::create(dir.join("output"))?)
        .stderr(Stdio::from(std::fs::File::create(&errors)?))
        .spawn()
        .with_context(|| format!("starting {:?}", command.get_program()))?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > STUCK {
            child.kill()?;
            child.wait()?;
            bail!("it did not end within {STUCK:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let text = std::fs::read_to_string(&errors)?;
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last).with_context(|| format!("it ended with {status}: {text}"))
}
