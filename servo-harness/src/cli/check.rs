//! `servo-harness check`: replays the recordings that are kept with the tests.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use super::tame::RecordingOptions;
use super::{RunOptions, Work, annotate, print, print_json};
use crate::campaign::runs::{Ended, from_words, in_words};
use crate::campaign::tame::{Attempt, FIRST, Recorder, Wanted, remove};
use crate::engine::{Choice, Engine};
use crate::model::outcome::Outcome;
use crate::sandbox::Ending;
use crate::source::{Source, Test};
use crate::store::artefact::Artefact;

/// Options of a check.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Replays of each recording
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    times: u32,
    /// Do not renew recordings that no longer apply
    #[arg(long)]
    locked: bool,
    #[command(flatten)]
    kept: RecordingOptions,
    #[command(flatten)]
    options: RunOptions,
    #[command(flatten)]
    source: Source,
}

/// The result of checking a recording.
#[derive(Debug, Serialize)]
struct Checked {
    test: String,
    recording: PathBuf,
    verdict: Verdict,
    /// Whether the program is another one than that of the recording.
    rebuilt: bool,
    /// Behaviour that was seen and not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// The differences of the new recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// Each replay went the recorded way and ended as recorded.
    Holds,
    /// Replays went the recorded way, and one ended otherwise: the code does something else.
    Differs,
    /// It does not apply any more, and was made again.
    Renewed,
    /// It does not apply any more.
    Stale,
    /// There is no such test any more.
    Gone,
}

impl Verdict {
    const fn is_good(self) -> bool {
        matches!(self, Verdict::Holds | Verdict::Renewed)
    }

    const fn as_str(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Differs => "differs",
            Verdict::Renewed => "renewed",
            Verdict::Stale => "stale",
            Verdict::Gone => "gone",
        }
    }
}

/// Replays what is kept.
///
/// # Errors
/// If recordings cannot be read, or tests not be built or run.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let kept = Artefact::all(&args.kept.recordings)?;
    if kept.is_empty() {
        anyhow::bail!(
            "{} contains no recordings: run `servo-harness tame` first",
            args.kept.recordings.display()
        );
    }
    let work = Work::open(&args.options)?;
    let mut engines: BTreeMap<String, (Box<dyn Engine>, Vec<Test>)> = BTreeMap::new();
    for (_, artefact) in &kept {
        if !engines.contains_key(&artefact.engine) {
            let engine = Choice::named(&artefact.engine)?.engine(&args.source)?;
            let tests = engine.tests(&args.source, work.search())?;
            engines.insert(artefact.engine.clone(), (engine, tests));
        }
    }
    let _load = work.load();
    let mut all = Vec::new();
    let mut ended = Ended::Whole;
    for (path, artefact) in &kept {
        let Some((engine, tests)) = engines.get(&artefact.engine) else {
            continue;
        };
        let check = Check {
            args,
            work: &work,
            engine: &**engine,
            path,
            artefact,
        };
        match check.of(tests)? {
            Some(checked) => {
                checked.annotate();
                if !args.options.json {
                    print(|out| checked.text(out))?;
                }
                all.push(checked);
            }
            None => {
                ended = Ended::Interrupted;
                break;
            }
        }
    }
    if args.options.json {
        print_json(&all)?;
    }
    let is_odd = all.iter().any(|checked| !checked.verdict.is_good());
    Ok(work.status(ended, is_odd))
}

struct Check<'a> {
    args: &'a Args,
    work: &'a Work,
    engine: &'a dyn Engine,
    path: &'a Path,
    artefact: &'a Artefact,
}

impl Check<'_> {
    /// Checks one recording; `None` if it was interrupted.
    fn of(&self, tests: &[Test]) -> anyhow::Result<Option<Checked>> {
        let checked = |verdict, why| Checked {
            test: self.artefact.test.clone(),
            recording: self.path.to_owned(),
            verdict,
            rebuilt: false,
            why,
            difference: None,
        };
        let Some(test) = tests.iter().find(|test| test.name == self.artefact.test) else {
            let why = "remove its recording, or tame what it is called now".to_owned();
            return Ok(Some(checked(Verdict::Gone, Some(why))));
        };
        let rebuilt = test.subject != self.artefact.subject;
        let old = self.work.state.join("check/old");
        remove(&old)?;
        self.artefact.unpack(self.path, &old)?;
        let context = self.work.campaign_context();
        let recorder = Recorder {
            engine: self.engine,
            settings: &self.work.settings,
            context: &context,
        };
        let mut different = None;
        let mut most = None;
        for _ in 0..self.args.times {
            let (ending, replayed) = recorder.replay(test, &old)?;
            if ending == Ending::Interrupted {
                return Ok(None);
            }
            most = most.max(replayed.came);
            let is_empty = matches!(replayed.came, Some((0, 1..)));
            if !replayed.is_faithful || is_empty {
                let empty = || "nothing of what was recorded came about".to_owned();
                let why = replayed.why.into_iter().next();
                let why = why.or_else(|| is_empty.then(empty));
                let stale = Checked {
                    rebuilt,
                    ..checked(Verdict::Stale, why)
                };
                if self.args.locked {
                    return Ok(Some(stale));
                }
                return self.renew(&recorder, test, &old, stale);
            }
            if in_words(&ending) != self.artefact.ending {
                different.get_or_insert(ending);
            }
        }
        let verdict = if different.is_some() {
            Verdict::Differs
        } else {
            Verdict::Holds
        };
        let why = different.map(|ending| {
            let (was, is) = (&self.artefact.ending, in_words(&ending));
            format!("recorded it ended with {was}, replayed with {is}")
        });
        // Threads that nobody waits for may be cut off, and others have nothing to do any more.
        let part = most.filter(|(came, all)| rebuilt && came < all);
        let part = part.map(|(came, all)| {
            format!(
                "of {all} recorded events {came} came about: perhaps the test does less than it did"
            )
        });
        let why = why.or(part);
        Ok(Some(Checked {
            rebuilt,
            ..checked(verdict, why)
        }))
    }

    /// Records the test anew, and says what has changed.
    fn renew(
        &self,
        recorder: &Recorder<'_>,
        test: &Test,
        old: &Path,
        stale: Checked,
    ) -> anyhow::Result<Option<Checked>> {
        let new = self.work.state.join("check/new");
        let ending = from_words(&self.artefact.ending);
        let outcome = ending.and_then(|ending| test.expected.outcome_of(&ending));
        let is_expected = outcome == Some(Outcome::Expected);
        let wanted = Wanted::new(is_expected, self.args.kept.at_most, &new);
        Ok(Some(match recorder.record(test, &wanted)? {
            Attempt::Interrupted => return Ok(None),
            Attempt::Failed(why, _) => Checked {
                why: Some(format!(
                    "{}; recording it anew: {why}",
                    stale.why.as_deref().unwrap_or("it went another way")
                )),
                ..stale
            },
            // Engines that count nothing count nothing before, either.
            Attempt::Recorded(recorded) if recorded.events == 0 && self.artefact.events > 0 => {
                let why = stale.why.as_deref().unwrap_or("it went another way");
                Checked {
                    why: Some(format!(
                        "{why}; recording it anew: it uses nothing any more that this engine records"
                    )),
                    ..stale
                }
            }
            Attempt::Recorded(recorded) => {
                let difference = self.engine.difference(old, &new)?;
                let artefact = Artefact {
                    ending: in_words(&recorded.ending),
                    subject: test.subject.clone(),
                    events: recorded.events,
                    // It counts because these replays ended as it did.
                    after: (if is_expected { FIRST } else { 0 }, FIRST),
                    recording: Artefact::shown(&self.engine.in_words(&new)?),
                    ..self.artefact.clone()
                };
                artefact.store(&self.path.with_extension(""), &new)?;
                Checked {
                    verdict: Verdict::Renewed,
                    difference: Some(difference),
                    ..stale
                }
            }
        }))
    }
}

impl Checked {
    fn text(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let rebuilt = if self.rebuilt { " (another build)" } else { "" };
        writeln!(out, "{:8}{}{rebuilt}", self.verdict.as_str(), self.test)?;
        if let Some(why) = &self.why {
            writeln!(out, "        {why}")?;
        }
        if let Some(difference) = &self.difference {
            writeln!(out, "        the old recording (<) and the new one (>):")?;
            for line in difference.lines() {
                writeln!(out, "{}", format!("        {line}").trim_end())?;
            }
        }
        Ok(())
    }

    fn annotate(&self) {
        let what = match self.verdict {
            Verdict::Holds if self.why.is_none() => return,
            Verdict::Holds => "its recording applies in part",
            Verdict::Renewed => "its recording no longer applied and was renewed",
            Verdict::Stale => "its recording no longer applies",
            Verdict::Differs => "it ends differently in the recorded order",
            Verdict::Gone => "it has a recording, and the test is gone",
        };
        let why = self.why.as_deref().unwrap_or_default();
        let level = if self.verdict.is_good() {
            "warning"
        } else {
            "error"
        };
        annotate(level, &self.test, &format!("{what}. {why}"));
    }
}
