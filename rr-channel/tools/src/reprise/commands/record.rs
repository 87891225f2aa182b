//! `cargo reprise test` and `run`: call cargo and keep the recording.

use std::env;
use std::fs;

use anyhow::{Context, ensure};

use crate::plural::counted;
use crate::reprise::project::cargo::{EXCEPT, Project, STD, Shared};
use crate::reprise::runner::{self, Mode, Payload, RunnerOptions};
use crate::reprise::store::chaos::{Chaos, Seeds};
use crate::reprise::store::{Call, Ending, Size, Store};

/// Options of a recording.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Repeat the run until one ends like this, and keep only that one
    #[arg(long, value_name = "OUTCOME")]
    until: Option<Until>,
    /// Stop after this many runs, with --until
    #[arg(long, value_name = "N", default_value_t = 1000)]
    at_most: u32,
    /// Make rare orders likely; each run has a seed of its own, or the next one
    #[arg(
        long,
        value_name = "SEED",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    chaos: Option<Seeds>,
    /// Record the source line of each event, which `minimize` needs; slower
    #[arg(long)]
    places: bool,
    /// Record the content of messages, or a hash of it, where their type allows it; implies
    /// `--places`
    #[arg(long, value_name = "WHAT")]
    payload: Option<Payload>,
    /// Do not replace this crate, for instance where code relies on the size of its types;
    /// may be given again
    #[arg(long, value_name = "CRATE")]
    except: Vec<String>,
    /// Also record the locks, channels and threads of std. All crates of the project are built
    /// against a std that records, but for those that make locks or executors of their own
    #[arg(long)]
    std: bool,
    /// Options of cargo, and of the program after `--`
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CARGO OPTIONS"
    )]
    pub(crate) cargo: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Until {
    Success,
    Failure,
}

impl Until {
    fn is(self, ending: Ending) -> bool {
        (ending == Ending::Exit(0)) == (self == Until::Success)
    }
}

/// Records a call of cargo's `subcommand`.
///
/// # Errors
/// If the project cannot be patched, nothing was recorded, or no run ended as wanted.
pub(crate) fn run(subcommand: &str, args: &Args) -> anyhow::Result<Ending> {
    let except = args.except.iter().map(|name| format!("{EXCEPT}={name}"));
    let std = args.std.then(|| STD.to_owned());
    let given = except.chain(std).chain(args.cargo.iter().cloned());
    let given: Vec<String> = given.collect();
    let mut rest = given.clone();
    let project = Project::find(Shared::take(&mut rest))?;
    let patched = project.patch()?;
    for line in patched.coverage.summary() {
        eprintln!("reprise: {line}");
    }
    let store = Store::below(&project.dir);
    let mut runs = 0;
    let mut length = None;
    loop {
        runs += 1;
        let chaos = args.chaos.map(|seeds| seeds.nth(runs, length));
        let entry = store.create()?;
        let mut call = Call {
            subcommand: subcommand.to_owned(),
            args: given.clone(),
            dir: env::current_dir().context("cannot find the current directory")?,
            chaos,
            edited: false,
            ending: None,
            size: None,
        };
        entry.set_call(&call)?;
        let has_places = args.places || args.payload.is_some();
        let source = project.source();
        let how = RunnerOptions {
            chaos,
            places: has_places.then_some(&source),
            payload: args.payload,
            ..RunnerOptions::default()
        };
        let scratch = entry.dir.join("scratch");
        fs::create_dir(&scratch)?;
        let runner = runner::arguments(Mode::Record, &entry.dir, &scratch, 1, how)?;
        let status = project.run(&patched, subcommand, &rest, &runner)?.status();
        let ending = runner::end(status)?;
        fs::remove_dir_all(&scratch)?;
        call.ending = Some(ending);
        let size = entry.size()?;
        call.size = Some(size);
        entry.set_call(&call)?;

        if entry.processes()?.is_empty() {
            fs::remove_dir_all(&entry.dir)?;
            ensure!(
                ending != Ending::Exit(0),
                "cargo ran no executable, so nothing was recorded"
            );
            // Cargo has said why.
            return Ok(ending);
        }
        match args.until {
            Some(until) if !until.is(ending) => {
                if chaos.is_some() {
                    length = Some(size.most);
                }
                fs::remove_dir_all(&entry.dir)?;
                ensure!(
                    runs < args.at_most,
                    "none of {runs} runs was a {}",
                    if until == Until::Success {
                        "success"
                    } else {
                        "failure"
                    }
                );
            }
            _ => {
                tell(entry.number, size, ending, runs, chaos);
                return Ok(ending);
            }
        }
    }
}

fn tell(number: u32, size: Size, ending: Ending, runs: u32, chaos: Option<Chaos>) {
    let of_runs = if runs > 1 {
        format!(" (the last of {runs} runs)")
    } else {
        String::new()
    };
    let in_chaos = chaos.map_or_else(String::new, |chaos| format!(" (chaos {chaos})"));
    if size.processes == 0 {
        eprintln!(
            "reprise: recording {number}{of_runs}{in_chaos}: {ending}; no process used a channel or \
             a lock, so there is nothing to replay"
        );
    } else {
        eprintln!(
            "reprise: recording {number}{of_runs}{in_chaos}: {ending}; {} of {} in {}; \
             `cargo reprise replay {number}` replays it",
            counted(size.events, "event"),
            counted(size.threads, "thread"),
            counted(size.bytes, "byte")
        );
    }
}
