//! `servo-harness run`: runs one command in a sandbox, for other tools that start tests.
//!
//! The command has a process namespace (or a group) and a `TMPDIR` of its own, no standard
//! input, and the output of this process. Processes that it leaves behind are killed. A machine
//! without namespaces causes no message here: it would appear for each test.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use rr_channel_tools::end_by;

use super::{FAILED, Isolate, duration};
use crate::platform::interrupt::Interrupt;
use crate::sandbox::{Ending, Job, Sandbox, Scratch};

/// Options of a run.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Time limit, in seconds [default: none]
    #[arg(long, value_name = "SECONDS", value_parser = duration)]
    timeout: Option<f64>,
    /// How its processes are kept together
    #[arg(long, value_name = "HOW", default_value = "auto")]
    isolation: Isolate,
    /// The command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<PathBuf>,
}

/// The exit status of a command whose time was up, as `timeout` has it.
const TIMED_OUT: u8 = 124;
/// Of one that could not be started, as shells have it.
const NOT_STARTED: u8 = 127;
/// How long a run may take that has no limit.
const FOR_EVER: Duration = Duration::from_secs(1_000_000_000);

/// Runs a command.
///
/// # Errors
/// If the processes around it cannot be started.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::by_signals().context("cannot wait for signals")?;
    let scratch = Scratch::new().context("cannot make a directory for temporary files")?;
    let sandbox = Sandbox {
        isolation: args.isolation.choose(&scratch)?,
        limit: args.timeout.map_or(FOR_EVER, Duration::from_secs_f64),
        scratch: scratch.slot(0)?,
        number: std::process::id(),
    };
    let (program, rest) = args.command.split_first().context("there is no command")?;
    let ran = sandbox.run_in_sight(&Job::new(program, rest), &interrupt)?;
    let program = program.display();
    if ran.left > 0 {
        tell!(
            "servo-harness: {program} left {} processes behind, which were killed",
            ran.left
        );
    }
    let status = match ran.ending {
        Ending::Exit(code) => u8::try_from(code).unwrap_or(FAILED),
        Ending::Signal(number) => {
            // The directory is removed before.
            drop(scratch);
            end_by(number)
        }
        Ending::TimedOut => {
            tell!("servo-harness: {program} reached its time limit and was killed");
            TIMED_OUT
        }
        Ending::Interrupted => {
            let signal = interrupt.signal().unwrap_or(0);
            u8::try_from(128 + signal).unwrap_or(FAILED)
        }
        Ending::NotStarted(why) => {
            tell!("servo-harness: {program} cannot be started: {why}");
            NOT_STARTED
        }
        Ending::Lost => {
            tell!("servo-harness: the supervisor of {program} was killed");
            FAILED
        }
    };
    Ok(ExitCode::from(status))
}
