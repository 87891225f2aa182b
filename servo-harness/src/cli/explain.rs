//! `servo-harness explain`: finds the decisions that make an intermittent test pass or fail.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use rr_channel_tools::log_tool;
use rr_channel_tools::minimize::{self, Minimum, Options, Verdict};
use serde::Serialize;

use super::{ODD, RunOptions, Work, is_resumable, print, print_json};
use crate::campaign::runs::{CampaignContext, Ended};
use crate::campaign::tame::{Attempt, Recorded, Recorder, Wanted, remove};
use crate::engine::{self, Choice, Engine, Messages, Processes, messages};
use crate::platform::interrupt::Interrupted;
use crate::sandbox::{Ending, Sandbox};
use crate::source::{Source, Test};
use crate::store::artefact::Artefact;
use crate::store::journal::Tried;

/// Options of an explanation.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of the test, or a part of it that no other test has
    test: String,
    /// Replay at most this many edited recordings
    #[arg(long, value_name = "N", default_value_t = 300)]
    tries: u32,
    /// The engine that records and replays
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    engine: Choice,
    /// Stop after this many runs without one that passes, or one that fails
    #[arg(long, value_name = "N", default_value_t = 300)]
    at_most: u32,
    #[command(flatten)]
    options: RunOptions,
    #[command(flatten)]
    source: Source,
}

/// The explanation of a test.
#[derive(Debug, Default, Serialize)]
struct Explained {
    test: String,
    /// The engine whose recordings show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<&'static str>,
    /// The decisions that make it fail, if they are messages' and locks'.
    #[serde(skip_serializing_if = "Option::is_none")]
    minimum: Option<Minimum>,
    /// The engines that explain nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tried: Vec<Tried>,
    /// The page that draws a run that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeline: Option<PathBuf>,
    /// The trace of a run that failed, whose replays fail, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<PathBuf>,
    /// Other inputs that may decide.
    suspects: Vec<String>,
    /// Whether messages were looked at.
    #[serde(skip)]
    has_messages: bool,
}

/// Looks for what decides.
///
/// # Errors
/// If there is no such test, or it cannot be recorded.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let work = Work::open(&args.options)?;
    let mut explained = Explained::default();
    for choice in args.engine.in_turn(&args.source) {
        work.interrupt.check()?;
        match explain(*choice, args, &work, &mut explained) {
            Ok(Ended::Whole) => {}
            Ok(Ended::Interrupted) => return Ok(work.status(Ended::Interrupted, false)),
            Err(error) if args.engine != Choice::Auto || is_final(&error) => return Err(error),
            Err(error) => explained.tried.push(Tried {
                engine: choice.name().to_owned(),
                why: engine::why_unusable(&error),
            }),
        }
        if explained.minimum.is_some() {
            break;
        }
    }
    if explained.test.is_empty() {
        work.interrupt.check()?;
        let why = explained.tried.into_iter().map(|tried| tried.why).next();
        bail!(why.unwrap_or_default());
    }
    if args.options.json {
        print_json(&explained)?;
    } else {
        print(|out| explained.text(out))?;
    }
    Ok(match explained.minimum {
        Some(_) => ExitCode::SUCCESS,
        None => ExitCode::from(ODD),
    })
}

/// Whether another engine would end with the same error, or must not be tried.
fn is_final(error: &anyhow::Error) -> bool {
    error.is::<Interrupted>() || error.is::<NotOne>() || is_resumable(error)
}

/// The name is not that of one test.
#[derive(Debug, thiserror::Error)]
enum NotOne {
    #[error("there is no test {0}")]
    None(String),
    #[error("the name is ambiguous: {0}, {1} and perhaps others have it")]
    Several(String, String),
}

/// Looks for what decides with one engine.
fn explain(
    choice: Choice,
    args: &Args,
    work: &Work,
    explained: &mut Explained,
) -> anyhow::Result<Ended> {
    let mut by_messages = |records_std| {
        let engine = Messages::of(&args.source, records_std)?;
        // A project that uses rr-channel by itself is recorded in one way.
        let mut tried = explained.tried.iter();
        if tried.any(|tried| tried.engine == engine.name()) {
            return Ok(Ended::Whole);
        }
        let tests = engine.tests(&args.source, work.search())?;
        let test = pick(&tests, &args.test)?;
        let _load = work.load();
        let explaining = Explaining { args, work, test };
        explaining.by_messages(&engine, explained)
    };
    match choice {
        Choice::Auto | Choice::RrChannel => by_messages(false),
        Choice::RrChannelStd => by_messages(true),
        Choice::Reprise => {
            let engine = Processes::find()?;
            let tests = engine.tests(&args.source, work.search())?;
            let test = pick(&tests, &args.test)?;
            let _load = work.load();
            let explaining = Explaining { args, work, test };
            explaining.by_processes(&engine, explained)
        }
    }
}

fn pick<'a>(tests: &'a [Test], name: &str) -> Result<&'a Test, NotOne> {
    if let Some(test) = tests.iter().find(|test| test.name == name) {
        return Ok(test);
    }
    let found: Vec<&Test> = tests
        .iter()
        .filter(|test| test.name.contains(name))
        .collect();
    match found.as_slice() {
        [test] => Ok(test),
        [] => Err(NotOne::None(name.to_owned())),
        [first, second, ..] => Err(NotOne::Several(first.name.clone(), second.name.clone())),
    }
}

/// Directories of recorded runs.
const PASSING: &str = "passing";
const FAILING: &str = "failing";

struct Explaining<'a> {
    args: &'a Args,
    work: &'a Work,
    test: &'a Test,
}

impl Explaining<'_> {
    /// Searches for the decisions.
    fn by_messages(&self, engine: &Messages, explained: &mut Explained) -> anyhow::Result<Ended> {
        explained.has_messages = true;
        let dir = self.directory(explained)?;
        let context = self.work.campaign_context();
        let both = [(true, PASSING), (false, FAILING)];
        let Some((recorded, mut problem)) = self.record(engine, &dir, &both)? else {
            return Ok(Ended::Interrupted);
        };
        let failed = recorded.iter().find(|run| run.dir.ends_with(FAILING));
        if failed.is_some() {
            let page = dir.join("timeline.html");
            explained.timeline = draw(&dir.join(FAILING), &page).ok().map(|()| page);
        }
        if let [passed, failed] = recorded.as_slice() {
            match self.minimize(engine, &context, &dir, passed, failed) {
                _ if self.work.interrupt.is_set() => return Ok(Ended::Interrupted),
                Ok(minimum) => {
                    explained.engine = Some(engine.name());
                    explained.minimum = Some(minimum);
                    explained.suspects.clear();
                }
                Err(error) => problem = Some(format!("{error:#}")),
            }
        }
        if explained.minimum.is_none() {
            explained.suspects = engine.uncovered();
            explained.tried.extend(problem.map(|why| Tried {
                engine: engine.name().to_owned(),
                why,
            }));
        }
        Ok(Ended::Whole)
    }

    /// Keeps a run that fails, and says what the test asks the system.
    fn by_processes(&self, engine: &Processes, explained: &mut Explained) -> anyhow::Result<Ended> {
        let dir = self.directory(explained)?.join("processes");
        let Some((_, problem)) = self.record(engine, &dir, &[(false, FAILING)])? else {
            return Ok(Ended::Interrupted);
        };
        let last = dir.join(FAILING);
        match problem {
            None => {
                explained.engine = Some(engine.name());
                explained.trace = Some(last.join("trace"));
            }
            Some(why) => explained.tried.push(Tried {
                engine: engine.name().to_owned(),
                why,
            }),
        }
        // However it ended.
        if last.join("trace").exists() {
            explained
                .suspects
                .extend(asked_for(&engine.in_words(&last)?));
        }
        Ok(Ended::Whole)
    }

    /// The directory of what is known of the test, empty at first.
    fn directory(&self, explained: &mut Explained) -> anyhow::Result<PathBuf> {
        let dir = Artefact::place(&self.work.state.join("explain"), &self.test.name);
        if explained.test.is_empty() {
            remove(&dir)?;
            explained.test.clone_from(&self.test.name);
        }
        Ok(dir)
    }

    /// Records runs below `dir`, each as expected or not in a directory of this name, and why one
    /// is missing; `None` if it was interrupted.
    fn record(
        &self,
        engine: &dyn Engine,
        dir: &Path,
        runs: &[(bool, &str)],
    ) -> anyhow::Result<Option<(Vec<Recorded>, Option<String>)>> {
        let context = self.work.campaign_context();
        let (mut recorded, mut problem) = (Vec::new(), None);
        for (is_expected, name) in runs.iter().copied() {
            let into = dir.join(name);
            let wanted = Wanted {
                places: true,
                ..Wanted::new(is_expected, self.args.at_most, &into)
            };
            let recorder = Recorder {
                engine,
                settings: &self.work.settings,
                context: &context,
            };
            match recorder.record(self.test, &wanted)? {
                Attempt::Interrupted => return Ok(None),
                Attempt::Failed(why, _) => {
                    problem.get_or_insert(why);
                }
                Attempt::Recorded(run) => recorded.push(run),
            }
        }
        Ok(Some((recorded, problem)))
    }

    fn sandbox(&self, context: &CampaignContext<'_>) -> anyhow::Result<Sandbox> {
        Ok(Sandbox {
            isolation: self.work.settings.isolation,
            limit: self.work.settings.limit * self.test.patience,
            scratch: context.scratch.slot(0)?,
            number: 0,
        })
    }

    fn minimize(
        &self,
        engine: &Messages,
        context: &CampaignContext<'_>,
        dir: &Path,
        passed: &Recorded,
        failed: &Recorded,
    ) -> anyhow::Result<Minimum> {
        let mut replay = |log: &Path| {
            let sandbox = self.sandbox(context)?;
            let job = engine.replay_log(self.test, log, &sandbox.scratch);
            let ran = sandbox.run(&job, context.interrupt)?;
            if ran.ending == Ending::Interrupted {
                bail!("interrupted");
            }
            Ok(minimize::Replayed {
                verdict: match &ran.ending {
                    ending if *ending == passed.ending => Verdict::Passes,
                    ending if *ending == failed.ending => Verdict::Fails,
                    _ => Verdict::Unresolved,
                },
                left: messages::reported(&sandbox.scratch).left(),
            })
        };
        let options = Options {
            program: Some(&self.test.job.program),
            tries: self.args.tries,
            confirm: 5,
        };
        let logs = [passed, failed].map(|recorded| recorded.dir.join("log"));
        minimize::minimize(&logs[0], &logs[1], &dir.join("tries"), options, &mut replay)
    }
}

/// Calls whose answers differ from run to run.
const CALLS: [(&str, &[&str]); 6] = [
    ("the clock", &["clock_gettime", "gettimeofday", "time"]),
    (
        "time to pass",
        &[
            "nanosleep",
            "clock_nanosleep",
            "timerfd_settime",
            "setitimer",
        ],
    ),
    ("listings of directories", &["getdents64", "getdents"]),
    ("random bytes", &["getrandom"]),
    (
        "the network",
        &["connect", "accept", "accept4", "recvfrom", "sendto", "bind"],
    ),
    (
        "events of files and descriptors",
        &[
            "epoll_wait",
            "epoll_pwait",
            "poll",
            "ppoll",
            "select",
            "pselect6",
        ],
    ),
];

/// The suspicious ones among counted calls, `COUNT NAME` each.
fn asked_for(stats: &str) -> Vec<String> {
    let counted: Vec<(u64, &str)> = stats
        .lines()
        .filter_map(|line| {
            let (count, name) = line.trim().split_once(' ')?;
            Some((count.parse().ok()?, name.trim()))
        })
        .collect();
    let suspicious = |(what, calls): &(&str, &[&str])| {
        let found: Vec<String> = counted
            .iter()
            .filter(|(_, name)| calls.contains(name))
            .map(|(count, name)| format!("{name}, {count} times"))
            .collect();
        (!found.is_empty()).then(|| format!("{what} ({})", found.join("; ")))
    };
    CALLS.iter().filter_map(suspicious).collect()
}

fn draw(recording: &Path, page: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}", page.display());
    let mut out = BufWriter::new(File::create(page).with_context(failed)?);
    log_tool::timeline(&recording.join("log"), 20_000, &mut out)?;
    out.flush().with_context(failed)
}

impl Explained {
    fn text(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        if let Some(minimum) = &self.minimum {
            writeln!(out, "{} fails when", self.test)?;
            for (at, decision) in minimum.decisions.iter().enumerate() {
                let and = if at == 0 { "    " } else { "and " };
                writeln!(out, "  {and}{}", decision.text)?;
            }
            let (replays, failures) = minimum.confirmed;
            writeln!(
                out,
                "needed: {} of {} differences, found in {} tries; {failures} of {replays} replays with only those fail",
                minimum.changes, minimum.differences, minimum.tries
            )?;
        }
        if self.minimum.is_none() && self.has_messages {
            writeln!(
                out,
                "{}: the order of messages does not explain it",
                self.test
            )?;
        }
        for tried in &self.tried {
            writeln!(out, "    not explained by {}: {}", tried.engine, tried.why)?;
        }
        if !self.suspects.is_empty() {
            writeln!(out, "other inputs that may differ between runs:")?;
            for suspect in &self.suspects {
                writeln!(out, "    {suspect}")?;
            }
        }
        if let Some(page) = &self.timeline {
            writeln!(out, "timeline of a failing run: {}", page.display())?;
        }
        if let Some(trace) = &self.trace {
            writeln!(
                out,
                "a failing run, which replays as it was: reprise replay {}",
                trace.display()
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspicious_calls_are_named_with_their_number() {
        let stats =
            "  363 records\n  12 clock_gettime\n  1 gettimeofday\n   9 write\n  3 getdents64\n";
        assert_eq!(
            asked_for(stats),
            [
                "the clock (clock_gettime, 12 times; gettimeofday, 1 times)",
                "listings of directories (getdents64, 3 times)"
            ]
        );
    }
}
