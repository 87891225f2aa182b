//! Records intermittent tests and measures how their recordings replay.
//!
//! Runs are recorded until one has the wanted outcome, the later ones under chaos if the engine
//! supports it. A recording is kept if a few replays follow it. If no recording of a test does,
//! the result says why. Replays are then measured as plain runs were: on a quiet machine, on
//! one whose processors are all busy and where chaos delays threads, and at a low priority on a
//! busy one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::Context;

use super::runs::{self, AsTheyAre, CampaignContext, Ended, Runs, Settings};
use crate::engine::{Engine, NotWritten, RecordOptions, Replayed};
use crate::model::outcome::Outcome;
use crate::platform::load::{Load, processors};
use crate::platform::lock::lock;
use crate::sandbox::{Ending, Job, Ran, Sandbox};
use crate::source::Test;
use crate::store::journal::Phase;

/// Recordings that are tried before a test counts as one that cannot be replayed.
const RECORDINGS: u32 = 3;
/// Replays that a recording has to survive to be one.
pub(crate) const FIRST: u64 = 5;
/// Text about tests whose replays keep to the recording and end otherwise.
pub(crate) const SOMETHING_ELSE: &str = "something else than its messages decides";
/// Beginning of the text about tests of which no wanted run came.
pub(crate) const NONE_CAME: &str = "none of ";
/// How often plain runs and replays take turns.
const TURNS: u64 = 25;

/// A run that was recorded.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// Its directory.
    pub(crate) dir: PathBuf,
    pub(crate) ending: Ending,
    pub(crate) events: u64,
    pub(crate) attempts: u32,
}

/// The result of recording a test.
#[derive(Debug)]
pub(crate) enum Attempt {
    Recorded(Recorded),
    /// Why there is no recording, and after how many runs.
    Failed(String, u32),
    Interrupted,
}

/// The run that is wanted, and its directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// A run as expected, or one that is not.
    pub(crate) is_expected: bool,
    pub(crate) at_most: u32,
    pub(crate) places: bool,
    /// An empty directory, or none yet.
    pub(crate) into: &'a Path,
}

impl Wanted<'_> {
    /// A run like this, without places.
    pub(crate) const fn new(is_expected: bool, at_most: u32, into: &Path) -> Wanted<'_> {
        Wanted {
            is_expected,
            at_most,
            places: false,
            into,
        }
    }

    fn is(&self, outcome: Outcome) -> bool {
        self.is_expected == (outcome == Outcome::Expected)
    }

    const fn name(&self) -> &'static str {
        match self.is_expected {
            true => "as expected",
            false => "unexpected",
        }
    }
}

/// Runs single jobs for a test.
pub(crate) struct Recorder<'a> {
    pub(crate) engine: &'a dyn Engine,
    pub(crate) settings: &'a Settings,
    pub(crate) context: &'a CampaignContext<'a>,
}

impl Recorder<'_> {
    fn sandbox(&self, test: &Test) -> anyhow::Result<Sandbox> {
        Ok(Sandbox {
            isolation: self.settings.isolation,
            limit: self.settings.limit * test.patience,
            scratch: self.context.scratch.slot(0)?,
            number: 0,
        })
    }

    /// Records runs until one is wanted and can be replayed.
    pub(crate) fn record(&self, test: &Test, wanted: &Wanted<'_>) -> anyhow::Result<Attempt> {
        let mut attempts = 0;
        let mut why = String::new();
        for _ in 0..RECORDINGS {
            let recorded = match self.until(test, wanted, &mut attempts)? {
                Attempt::Recorded(recorded) => recorded,
                other => return Ok(other),
            };
            let mut problem = None;
            for _ in 0..FIRST {
                let (ending, replayed) = self.replay(test, wanted.into)?;
                if ending == Ending::Interrupted {
                    return Ok(Attempt::Interrupted);
                }
                if !replayed.is_faithful || ending != recorded.ending {
                    problem = Some(problem_of(&recorded.ending, &ending, &replayed));
                    break;
                }
            }
            match problem {
                None => return Ok(Attempt::Recorded(recorded)),
                Some(problem) => why = problem,
            }
        }
        Ok(Attempt::Failed(why, attempts))
    }

    /// Records runs until one is wanted.
    fn until(
        &self,
        test: &Test,
        wanted: &Wanted<'_>,
        attempts: &mut u32,
    ) -> anyhow::Result<Attempt> {
        let first = *attempts;
        while *attempts - first < wanted.at_most {
            *attempts += 1;
            remove(wanted.into)?;
            fs::create_dir_all(wanted.into)
                .with_context(|| format!("cannot make {}", wanted.into.display()))?;
            let tried = *attempts - first;
            let how = RecordOptions {
                // Where it does not come by itself, rare orders may bring it.
                chaos: (tried > 10 && tried.is_multiple_of(2)).then_some(u64::from(*attempts)),
                places: wanted.places,
            };
            let job = self.engine.record(test, wanted.into, how);
            let ran = self.sandbox(test)?.run(&job, self.context.interrupt)?;
            if let Some(why) = self.engine.lost(&ran) {
                let test = test.name.clone();
                return Err(NotWritten { test, why }.into());
            }
            if let Some(why) = self.engine.refused(&ran) {
                return Ok(Attempt::Failed(why, *attempts));
            }
            match test.expected.outcome_of(&ran.ending) {
                _ if ran.ending == Ending::Interrupted => return Ok(Attempt::Interrupted),
                None => anyhow::bail!("{} cannot be recorded: {:?}", test.name, ran.ending),
                Some(outcome) if !wanted.is(outcome) => {}
                Some(_) => {
                    let Some(events) = self.engine.events(wanted.into)? else {
                        let why = "it uses nothing that this engine records".to_owned();
                        return Ok(Attempt::Failed(why, *attempts));
                    };
                    return Ok(Attempt::Recorded(Recorded {
                        dir: wanted.into.to_owned(),
                        ending: ran.ending,
                        events,
                        attempts: *attempts,
                    }));
                }
            }
        }
        let why = format!("{NONE_CAME}{} runs was {}", wanted.at_most, wanted.name());
        Ok(Attempt::Failed(why, *attempts))
    }

    /// Records one run, however it ends; whether it ended by itself.
    pub(crate) fn once(&self, test: &Test, into: &Path) -> anyhow::Result<bool> {
        remove(into)?;
        fs::create_dir_all(into).with_context(|| format!("cannot make {}", into.display()))?;
        let job = self.engine.record(test, into, RecordOptions::default());
        let ran = self.sandbox(test)?.run(&job, self.context.interrupt)?;
        Ok(matches!(ran.ending, Ending::Exit(_) | Ending::Signal(_)))
    }

    /// Replays a recording once.
    pub(crate) fn replay(
        &self,
        test: &Test,
        recording: &Path,
    ) -> anyhow::Result<(Ending, Replayed)> {
        let sandbox = self.sandbox(test)?;
        let job = self.engine.replay(test, recording, &sandbox.scratch);
        let ran = sandbox.run(&job, self.context.interrupt)?;
        let replayed = self.engine.replayed(&ran, &sandbox.scratch);
        Ok((ran.ending, replayed))
    }
}

pub(crate) fn remove(dir: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", dir.display()))
        }
        _ => Ok(()),
    }
}

fn problem_of(recorded: &Ending, ending: &Ending, replayed: &Replayed) -> String {
    match replayed.why.first() {
        Some(why) => why.clone(),
        None => format!(
            "recorded it ended with {}, replayed with {}: {SOMETHING_ELSE}",
            runs::in_words(recorded),
            runs::in_words(ending)
        ),
    }
}

/// Runs of replays.
pub(crate) struct Replays<'a> {
    pub(crate) engine: &'a dyn Engine,
    /// Recordings, by test.
    pub(crate) recordings: &'a BTreeMap<String, PathBuf>,
    pub(crate) phase: Phase,
    /// The first thing that went wrong with each test.
    pub(crate) problems: &'a Mutex<BTreeMap<String, String>>,
}

impl Runs for Replays<'_> {
    fn job(&self, test: &Test, sandbox: &Sandbox) -> anyhow::Result<Job> {
        let recording = self
            .recordings
            .get(&test.name)
            .with_context(|| format!("{} has no recording", test.name))?;
        let job = self.engine.replay(test, recording, &sandbox.scratch);
        Ok(match self.phase {
            Phase::Loaded => self.engine.disturbed(job),
            Phase::Squeezed => job.behind_others(),
            _ => job,
        })
    }

    fn faithful(&self, test: &Test, sandbox: &Sandbox, ran: &Ran) -> Option<bool> {
        let replayed = self.engine.replayed(ran, &sandbox.scratch);
        if let Some(why) = replayed.why.first() {
            lock(self.problems)
                .entry(test.name.clone())
                .or_insert_with(|| why.clone());
        }
        Some(replayed.is_faithful)
    }
}

/// Replays the recordings of tests: half of them as is, in turn with plain runs, the others
/// under pressure.
///
/// # Errors
/// If they cannot be run or written down.
pub(crate) fn verify(
    tests: &[Test],
    plain: &[Test],
    engine: &dyn Engine,
    recordings: &BTreeMap<String, PathBuf>,
    settings: &Settings,
    context: &CampaignContext<'_>,
) -> anyhow::Result<(Ended, BTreeMap<String, String>)> {
    let problems = Mutex::new(BTreeMap::new());
    let quarter = settings.runs / 4;
    let quiet = settings.runs - 2 * quarter;
    let turns = (1..=TURNS).flat_map(|turn| {
        let runs = quiet * turn / TURNS;
        [(Phase::Beside, runs), (Phase::Replay, runs)]
    });
    for (phase, runs) in turns.chain([(Phase::Loaded, quarter), (Phase::Squeezed, quarter)]) {
        let settings = Settings {
            runs,
            precision: 0.0,
            ..*settings
        };
        let replays = Replays {
            engine,
            recordings,
            phase,
            problems: &problems,
        };
        let (tests, how): (&[Test], &dyn Runs) = match phase {
            Phase::Beside => (plain, &AsTheyAre),
            _ => (tests, &replays),
        };
        let is_busy = matches!(phase, Phase::Loaded | Phase::Squeezed);
        let _load = is_busy.then(|| Load::of(processors()));
        if runs::run(tests, phase, how, &settings, context)? == Ended::Interrupted {
            return Ok((Ended::Interrupted, BTreeMap::new()));
        }
    }
    let problems = problems.into_inner().unwrap_or_default();
    Ok((Ended::Whole, problems))
}
