//! Recordings that are killed: whatever is killed when, what has been written is a trace.
//!
//! Programs are recorded, and at a random moment the recorder, one of the recorded
//! processes, or both get SIGKILL. Afterwards nothing of them may be left; the trace can be
//! looked at; a replay prints what was printed up to where the trace ends, says that it ends
//! there, and ends with a status of its own; and where only a program was killed, the trace
//! is whole and replayed as such.
//!
//! The seed says who is killed in which run and after which part of its time. What the
//! programs have done by then is up to the machine, so a failure's trace is kept.

mod process;
mod scenario;
mod trial;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;

use self::trial::{Left, Stage, Victim};
use crate::trials::corpus;
use crate::trials::differential::dice::Dice;

/// Options of `cargo xtask kills`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many runs are killed.
    #[arg(long, default_value_t = 1000)]
    kills: u32,
    /// The seed that decides which process is killed and when.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only these programs; may be given again.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// After how many seconds a run counts as one that hangs.
    #[arg(long, default_value_t = 60)]
    patience: u64,
    /// Keep what is left of runs that fail in this directory.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// This `reprise`, and not the workspace's own.
    #[arg(long, value_name = "PROGRAM")]
    reprise: Option<PathBuf>,
}

/// A few kills, always the same ones; what went wrong in those that failed.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_briefly() -> anyhow::Result<Vec<String>> {
    kill_all(&Args {
        kills: 20,
        seed: 1,
        only: Vec::new(),
        patience: 60,
        keep: None,
        reprise: None,
    })
}

/// Kills recordings.
///
/// # Errors
/// When `reprise` does not build, or a program cannot be recorded when nobody is killed.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    Ok(if kill_all(args)?.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The failures, one for each kill that failed.
fn kill_all(args: &Args) -> anyhow::Result<Vec<String>> {
    let temporary = tempfile::tempdir().context("making a directory")?;
    let base = temporary.path();
    let stage = Stage {
        reprise: match &args.reprise {
            Some(path) => fs::canonicalize(path)?,
            None => corpus::build_reprise(false)?,
        },
        patience: Duration::from_secs(args.patience),
    };
    let scratch = match &args.keep {
        Some(keep) => {
            fs::create_dir_all(keep)?;
            fs::canonicalize(keep)?
        }
        None => base.to_owned(),
    };
    let mut scenarios = scenario::all(base)?;
    scenarios.retain(|scenario| {
        args.only.is_empty() || args.only.iter().any(|only| only == scenario.name)
    });
    let mut dice = Dice::new(args.seed);
    let mut times = Vec::new();
    for scenario in &scenarios {
        let own = base.join("whole");
        let start = Instant::now();
        let hour = Duration::from_secs(3600);
        let left = stage.trial(scenario, Victim::Nobody, hour, &mut dice, &own);
        let left = left.with_context(|| format!("{}, without a kill", scenario.name))?;
        anyhow::ensure!(left == Left::All, "{} left {left:?}", scenario.name);
        // Recording and looking at it, and replaying.
        times.push(start.elapsed() / 2);
        fs::remove_dir_all(&own)?;
    }
    let start = Instant::now();
    let mut counts: BTreeMap<(&str, Victim, Left), u32> = BTreeMap::new();
    let mut failures = Vec::new();
    for number in 0..args.kills {
        let index = number as usize % scenarios.len();
        let (scenario, time) = (&scenarios[index], times[index]);
        let victim = dice.weighted(&[
            (5, Victim::Recorder),
            (4, Victim::Tracee),
            (1, Victim::Both),
        ]);
        let after = time.mul_f64(dice.below(1000) as f64 / 1000.0);
        let own = scratch.join(format!("{}-{number}-{}", args.seed, scenario.name));
        match stage.trial(scenario, victim, after, &mut dice, &own) {
            Ok(left) => *counts.entry((scenario.name, victim, left)).or_default() += 1,
            Err(error) => {
                let failure = format!(
                    "kill {number} of seed {}: {} after {after:?} of {}: {error:#}",
                    args.seed,
                    victim.name(),
                    scenario.name
                );
                println!("{failure}");
                failures.push(failure);
                if args.keep.is_some() {
                    continue;
                }
            }
        }
        fs::remove_dir_all(&own)?;
    }
    report(&counts);
    println!(
        "{} kills in {:.0} s, {} failures",
        args.kills,
        start.elapsed().as_secs_f64(),
        failures.len()
    );
    Ok(failures)
}

impl Victim {
    fn name(self) -> &'static str {
        match self {
            Self::Nobody => "nobody is killed",
            Self::Recorder => "the recorder is killed",
            Self::Tracee => "a process is killed",
            Self::Both => "a process and the recorder are killed",
        }
    }
}

fn report(counts: &BTreeMap<(&str, Victim, Left), u32>) {
    println!(
        "{:<10} {:<38} {:>8} {:>6} {:>9} {:>6}",
        "program", "", "no trace", "empty", "cut short", "whole"
    );
    let mut rows: BTreeMap<(&str, Victim), [u32; 4]> = BTreeMap::new();
    for (&(name, victim, left), count) in counts {
        rows.entry((name, victim)).or_default()[left as usize] += count;
    }
    for ((name, victim), [none, empty, cut, whole]) in rows {
        println!(
            "{name:<10} {:<38} {none:>8} {empty:>6} {cut:>9} {whole:>6}",
            victim.name()
        );
    }
}
