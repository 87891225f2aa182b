//! The command line.

mod check;
mod explain;
mod report;
mod run;
mod survey;
mod tame;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, Subcommand, ValueEnum};
use serde::Serialize;

use crate::campaign::runs::{CampaignContext, Ended, Results, Settings};
use crate::engine::NotWritten;
use crate::platform::interrupt::{Interrupt, Interrupted};
use crate::platform::load::{Load, processors};
use crate::sandbox::{self, Isolation, Scratch};
use crate::source;
use crate::source::{Search, Source, Test};
use crate::store::journal::{Journal, JournalError};

/// Finds the intermittent tests of a suite, measures how often they fail, and replays a good run.
#[derive(Debug, Parser)]
#[command(name = "servo-harness", version, after_help = STATUS)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The exit statuses, for the help.
const STATUS: &str = "\
Exit status: 0 on success; 1 if tests are intermittent or fail; 2 for a wrong command line; \
3 if it stopped early (a full disk, for instance) and the same command can continue; 125 if it \
could not start; 128 plus the signal number if it was interrupted, and the same command can \
continue. The status of `run` is that of the command; 124 after the time limit, 125 if its \
supervisor was killed, 127 if it could not be started.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run every test many times and list the intermittent ones
    Survey(survey::Args),
    /// Record the intermittent tests and measure their replays
    Tame(tame::Args),
    /// Replay the recordings that are kept with the tests
    Check(check::Args),
    /// Find the decisions that make an intermittent test pass or fail
    Explain(explain::Args),
    /// Write the results as an HTML page, as JUnit XML or as JSON
    Report(report::Args),
    /// Run one command in a sandbox: for cargo's runner and nextest's wrapper scripts
    Run(run::Args),
}

/// The exit status where there are intermittent tests, or such that fail.
const ODD: u8 = 1;
/// Where it stopped before its end, and can be resumed.
const STOPPED: u8 = 3;
/// Where it could not begin.
const FAILED: u8 = 125;

/// Runs the command line, or what the harness has called this program for.
pub fn main() -> ExitCode {
    if let Some(code) = sandbox::inside::enter() {
        return code;
    }
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|arg| arg == source::COLLECT) {
        return source::collect(args);
    }
    let result = match &Cli::parse().command {
        Command::Survey(args) => survey::run(args),
        Command::Tame(args) => tame::run(args),
        Command::Check(args) => check::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Report(args) => report::run(args),
        Command::Run(args) => run::run(args),
    };
    result.unwrap_or_else(|error| {
        if let Some(stop) = error.downcast_ref::<Interrupted>() {
            return interrupted(stop.signal);
        }
        tell!("servo-harness: {error:#}");
        let is_resumable = is_resumable(&error);
        if is_resumable {
            tell!("servo-harness: finished results are kept; run the same command to continue");
        }
        ExitCode::from(if is_resumable { STOPPED } else { FAILED })
    })
}

/// Whether the same command can go on from here, perhaps when there is room again.
fn is_resumable(error: &anyhow::Error) -> bool {
    let is_of_room = |error: &std::io::Error| {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
    };
    error.chain().any(|cause| {
        let journal = cause.downcast_ref::<JournalError>();
        cause.is::<NotWritten>()
            || journal.is_some_and(
                |error| matches!(error, JournalError::Io { what, .. } if *what == "write to"),
            )
            || cause.downcast_ref().is_some_and(is_of_room)
    })
}

/// Options of everything that runs tests.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Runs")]
struct RunOptions {
    /// Runs of each test, at most
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    runs: u64,
    /// Stop when the 95 % interval of the rate is no wider than this; 0: never
    #[arg(long, value_name = "WIDTH", default_value_t = 0.05)]
    precision: f64,
    /// Runs at the same time [default: the number of processors]
    #[arg(short, long, value_name = "N")]
    jobs: Option<usize>,
    /// Threads that keep processors busy meanwhile, for tests that fail on busy machines
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=1024))]
    load: u16,
    /// Time limit of a run, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = duration)]
    timeout: f64,
    /// How the processes of a run are kept together
    #[arg(long, value_name = "HOW", default_value = "auto")]
    isolation: Isolate,
    /// Directory of the results
    #[arg(
        long,
        value_name = "DIR",
        env = "SERVO_HARNESS_STATE",
        default_value = "target/servo-harness"
    )]
    state: PathBuf,
    /// Discard earlier results
    #[arg(long)]
    fresh: bool,
    /// Write JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Isolate {
    /// A namespace of processes where the machine allows it
    Auto,
    /// A namespace of processes
    Namespace,
    /// That, and a network of its own: ports of tests do not collide, other machines are out of reach
    Network,
    /// A process group; what leaves it is adopted
    Group,
}

impl Isolate {
    /// The isolation that is possible here.
    fn choose(self, scratch: &Scratch) -> anyhow::Result<Isolation> {
        let best = match self {
            Isolate::Group => Isolation::Group,
            Isolate::Auto | Isolate::Namespace => Isolation::best(scratch)?,
            Isolate::Network => {
                anyhow::ensure!(
                    Isolation::Network.is_possible(scratch)?,
                    "this machine does not allow namespaces of the network"
                );
                Isolation::Network
            }
        };
        if self == Isolate::Namespace && best != Isolation::Namespace {
            anyhow::bail!(
                "this machine does not allow process namespaces: use `--isolation group`"
            );
        }
        Ok(best)
    }
}

fn duration(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e9 => Ok(seconds),
        Ok(_) => Err("it has to be more than 0, and at most a billion".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The state of a command: the journal, and how runs are made.
struct Work {
    results: Mutex<Results>,
    settings: Settings,
    scratch: Scratch,
    interrupt: Interrupt,
    state: PathBuf,
    /// Threads that compute while tests run.
    load: usize,
}

impl Work {
    fn open(options: &RunOptions) -> anyhow::Result<Work> {
        let interrupt = Interrupt::by_signals().context("cannot wait for signals")?;
        std::fs::create_dir_all(&options.state)
            .with_context(|| format!("cannot make {}", options.state.display()))?;
        let state = options
            .state
            .canonicalize()
            .with_context(|| format!("cannot find {}", options.state.display()))?;
        let path = state.join("journal");
        let (journal, found) = match Journal::open(&path) {
            Err(JournalError::Foreign { .. }) if options.fresh => begin_anew(&path)?,
            opened => {
                let (journal, found) = opened?;
                if options.fresh {
                    drop(journal);
                    begin_anew(&path)?
                } else {
                    (journal, found)
                }
            }
        };
        if found.damaged > 0 {
            tell!(
                "servo-harness: {} damaged lines of {} are ignored",
                found.damaged,
                path.display()
            );
        }
        // Nobody else works for this state: the journal is locked.
        let scratch = Scratch::of(&state).context("cannot make a directory for temporary files")?;
        let best = options.isolation.choose(&scratch)?;
        if options.isolation == Isolate::Auto && best == Isolation::Group {
            tell!(
                "servo-harness: this machine does not allow process namespaces: a test that kills \
                 its supervisor may leave processes behind"
            );
        }
        Ok(Work {
            results: Mutex::new(Results::new(journal, found.records)),
            settings: Settings {
                runs: options.runs,
                precision: options.precision,
                jobs: options.jobs.unwrap_or_else(processors),
                limit: Duration::from_secs_f64(options.timeout),
                isolation: best,
            },
            scratch,
            interrupt,
            state,
            load: usize::from(options.load),
        })
    }

    /// The tests as they are to be run plain: under another load, or with another network, other
    /// runs count.
    fn plain_tests(&self, source: &Source) -> anyhow::Result<Vec<Test>> {
        let mut tests = source.tests(self.search())?;
        if self.load > 0 {
            for test in &mut tests {
                test.subject += &format!("-load{}", self.load);
            }
        }
        if self.settings.isolation == Isolation::Network {
            for test in &mut tests {
                test.subject += "-network";
            }
        }
        Ok(tests)
    }

    /// How tests are looked for.
    fn search(&self) -> Search<'_> {
        Search {
            scratch: &self.state,
            interrupt: &self.interrupt,
        }
    }

    /// Keeps processors busy while tests run, until it is dropped.
    fn load(&self) -> Load {
        Load::of(self.load)
    }

    const fn campaign_context(&self) -> CampaignContext<'_> {
        CampaignContext {
            scratch: &self.scratch,
            interrupt: &self.interrupt,
            results: &self.results,
        }
    }

    fn is_isolated(&self) -> bool {
        self.settings.isolation != Isolation::Group
    }

    /// The exit status of work that ended like this.
    fn status(&self, ended: Ended, is_odd: bool) -> ExitCode {
        match (ended, self.interrupt.signal()) {
            (Ended::Interrupted, signal) => interrupted(signal),
            (Ended::Whole, _) => ExitCode::from(if is_odd { ODD } else { 0 }),
        }
    }
}

/// The exit status where the user wants to stop.
fn interrupted(signal: Option<i32>) -> ExitCode {
    tell!("servo-harness: interrupted; run the same command to continue");
    ExitCode::from(signal.map_or(STOPPED, |signal| {
        u8::try_from(128 + signal).unwrap_or(STOPPED)
    }))
}

fn begin_anew(path: &Path) -> anyhow::Result<(Journal, crate::store::journal::JournalContents)> {
    std::fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
    Ok(Journal::open(path)?)
}

/// Writes to standard output, where nobody may want to read any more.
fn print(write: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("writing to standard output")
        }
        _ => Ok(()),
    }
}

fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    print(|out| writeln!(out, "{text}"))
}

/// Says something where GitHub's pages of a run show it, if this is one.
fn annotate(level: &str, title: &str, message: &str) {
    if std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true") {
        tell!("{}", annotation(level, title, message));
    }
}

fn annotation(level: &str, title: &str, message: &str) -> String {
    let escape = |text: &str| {
        let text = text.replace('%', "%25").replace('\r', "%0D");
        text.replace('\n', "%0A")
    };
    let title = escape(title).replace(':', "%3A").replace(',', "%2C");
    format!("::{level} title={title}::{}", escape(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_one_line_each() {
        assert_eq!(
            annotation("error", "a::b,c", "50 %\nof it"),
            "::error title=a%3A%3Ab%2Cc::50 %25%0Aof it"
        );
    }

    #[test]
    fn the_command_line_is_sound() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }
}
