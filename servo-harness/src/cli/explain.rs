//! `servo-harness explain`: finds the decisions that make an intermittent test pass or fail.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use rr_channel_tools::log_tool;
use rr_channel_tools::minimize::{self, Minimum, Options, Verdict};
use serde::Serialize;

use super::{ODD, RunOptions, Work, print, print_json};
use crate::campaign::runs::{CampaignContext, Ended};
use crate::campaign::tame::{Attempt, Recorded, Recorder, Wanted, remove};
use crate::engine::{Engine as _, Messages, Processes, messages};
use crate::sandbox::{Ending, Sandbox};
use crate::source::{Source, Test};
use crate::store::artefact::Artefact;

/// Options of an explanation.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of the test, or a part of it that no other test has
    test: String,
    /// Replay at most this many edited recordings
    #[arg(long, value_name = "N", default_value_t = 300)]
    tries: u32,
    /// Stop after this many runs without one that passes, or one that fails
    #[arg(long, value_name = "N", default_value_t = 300)]
    at_most: u32,
    #[command(flatten)]
    options: RunOptions,
    #[command(flatten)]
    source: Source,
}

/// The explanation of a test.
#[derive(Debug, Serialize)]
struct Explained {
    test: String,
    /// The decisions that make it fail, if they are messages' and locks'.
    #[serde(skip_serializing_if = "Option::is_none")]
    minimum: Option<Minimum>,
    /// Why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// The page that draws a run that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeline: Option<PathBuf>,
    /// Other inputs that may decide.
    suspects: Vec<String>,
}

/// Looks for what decides.
///
/// # Errors
/// If there is no such test, or it cannot be recorded.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let work = Work::open(&args.options)?;
    let engine = Messages::of(&args.source)?;
    let tests = engine.tests(&args.source, work.search())?;
    let test = pick(&tests, &args.test)?;
    let explaining = Explaining {
        args,
        work: &work,
        engine: &engine,
        test,
    };
    let _load = work.load();
    let Some(explained) = explaining.run()? else {
        return Ok(work.status(Ended::Interrupted, false));
    };
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

fn pick<'a>(tests: &'a [Test], name: &str) -> anyhow::Result<&'a Test> {
    if let Some(test) = tests.iter().find(|test| test.name == name) {
        return Ok(test);
    }
    let found: Vec<&Test> = tests
        .iter()
        .filter(|test| test.name.contains(name))
        .collect();
    match found.as_slice() {
        [test] => Ok(test),
        [] => bail!("there is no test {name}"),
        [first, second, ..] => {
            bail!(
                "the name is ambiguous: {}, {} and perhaps others have it",
                first.name,
                second.name
            )
        }
    }
}

struct Explaining<'a> {
    args: &'a Args,
    work: &'a Work,
    engine: &'a Messages,
    test: &'a Test,
}

impl Explaining<'_> {
    /// Searches for the decisions; `None` if it was interrupted.
    fn run(&self) -> anyhow::Result<Option<Explained>> {
        let dir = Artefact::place(&self.work.state.join("explain"), &self.test.name);
        remove(&dir)?;
        let mut explained = Explained {
            test: self.test.name.clone(),
            minimum: None,
            problem: None,
            timeline: None,
            suspects: Vec::new(),
        };
        let (pass, fail) = (dir.join("passing"), dir.join("failing"));
        let mut recorded = Vec::new();
        let context = self.work.campaign_context();
        for (is_expected, into) in [(true, &pass), (false, &fail)] {
            let wanted = Wanted::new(is_expected, self.args.at_most, into);
            let wanted = Wanted {
                places: true,
                ..wanted
            };
            let recorder = Recorder {
                engine: self.engine,
                settings: &self.work.settings,
                context: &context,
            };
            match recorder.record(self.test, &wanted)? {
                Attempt::Interrupted => return Ok(None),
                Attempt::Failed(why, _) => {
                    explained.problem.get_or_insert(why);
                }
                Attempt::Recorded(run) => recorded.push(run),
            }
        }
        if fail.join("log/session").exists() {
            let page = dir.join("timeline.html");
            explained.timeline = draw(&fail, &page).ok().map(|()| page);
        }
        if let [passed, failed] = recorded.as_slice() {
            match self.minimize(&context, &dir, passed, failed) {
                _ if self.work.interrupt.is_set() => return Ok(None),
                Ok(minimum) => explained.minimum = Some(minimum),
                Err(error) => explained.problem = Some(format!("{error:#}")),
            }
        }
        if explained.minimum.is_none() {
            explained.suspects = self.suspects(&context, &dir)?;
        }
        Ok(Some(explained))
    }

    fn sandbox(&self, context: &CampaignContext<'_>) -> anyhow::Result<Sandbox> {
        Ok(Sandbox {
            isolation: self.work.settings.isolation,
            limit: self.work.settings.limit,
            scratch: context.scratch.slot(0)?,
            number: 0,
        })
    }

    fn minimize(
        &self,
        context: &CampaignContext<'_>,
        dir: &Path,
        passed: &Recorded,
        failed: &Recorded,
    ) -> anyhow::Result<Minimum> {
        let mut replay = |log: &Path| {
            let sandbox = self.sandbox(context)?;
            let job = self.engine.replay_log(self.test, log, &sandbox.scratch);
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
            tries: self.args.tries,
            confirm: 5,
        };
        let logs = [passed, failed].map(|recorded| recorded.dir.join("log"));
        minimize::minimize(&logs[0], &logs[1], &dir.join("tries"), options, &mut replay)
    }

    /// The inputs that the test uses besides messages and locks.
    fn suspects(&self, context: &CampaignContext<'_>, dir: &Path) -> anyhow::Result<Vec<String>> {
        let mut suspects = self.engine.uncovered();
        let Ok(processes) = Processes::find() else {
            suspects.push("system calls are unknown: `reprise` is not installed".to_owned());
            return Ok(suspects);
        };
        let into = dir.join("calls");
        std::fs::create_dir_all(&into)?;
        let job = processes.record(self.test, &into, crate::engine::RecordOptions::default());
        let ran = self.sandbox(context)?.run(&job, context.interrupt)?;
        if ran.ending == Ending::Interrupted {
            return Ok(suspects);
        }
        suspects.extend(asked_for(&processes.in_words(&into)?));
        remove(&into)?;
        Ok(suspects)
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
        if let Some(problem) = &self.problem {
            writeln!(
                out,
                "{}: the order of messages does not explain it: {problem}",
                self.test
            )?;
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
