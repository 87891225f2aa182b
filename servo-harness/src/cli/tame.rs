//! `servo-harness tame`: records intermittent tests and reports their replays.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::{RunOptions, Work, is_resumable, print, print_json};
use crate::campaign::runs::{self, AsTheyAre, Ended, in_words};
use crate::campaign::suspects;
use crate::campaign::tame::{self, Attempt, Recorder, Wanted, verify};
use crate::engine::{self, Choice, Engine, Processes};
use crate::model::outcome::Outcome;
use crate::platform::lock::lock;
use crate::report::summary::{Row, Summary};
use crate::source::{Source, Test};
use crate::store::artefact::Artefact;
use crate::store::journal::{Phase, Record, Tamed, Tried, beside, counts};

/// Options of everything that has to do with recordings.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Recordings")]
pub(super) struct RecordingOptions {
    /// Directory of the recordings, to be checked in
    #[arg(long, value_name = "DIR", default_value = "tests/recordings")]
    pub(super) recordings: PathBuf,
    /// Stop recording a test after this many runs without a wanted one
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub(super) at_most: u32,
}

/// Options of taming.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The engine that records and replays
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    engine: Choice,
    /// Record and replay every test that passed at least once, stable ones too
    #[arg(long)]
    all: bool,
    /// Which outcome to keep
    #[arg(long, value_name = "OUTCOME", default_value = "expected")]
    keep: Keep,
    #[command(flatten)]
    kept: RecordingOptions,
    #[command(flatten)]
    options: RunOptions,
    #[command(flatten)]
    source: Source,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Keep {
    /// A run with the expected outcome
    Expected,
    /// A run with another outcome, to look into it
    Unexpected,
}

/// Surveys the tests as far as that is not done, and tames those that are intermittent.
///
/// # Errors
/// If tests or recordings cannot be made, run or written.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let work = Work::open(&args.options)?;
    let tests = work.plain_tests(&args.source)?;
    let load = work.load();
    let ended = runs::run(
        &tests,
        Phase::Plain,
        &AsTheyAre,
        &work.settings,
        &work.campaign_context(),
    )?;
    drop(load);
    if ended == Ended::Interrupted {
        return Ok(work.status(ended, false));
    }
    let surveyed = summary(&work, &tests, true);
    let is_wanted = |row: &&Row| row.plain.is_flaky() || args.all && row.plain.expected > 0;
    let flaky = surveyed.flaky().map(|row| row.test.clone()).collect();
    let rows = surveyed.tests.iter().filter(is_wanted);
    let wanted = rows.map(|row| (row.test.clone(), Vec::new()));
    let wanted: BTreeMap<String, Vec<Tried>> = wanted.collect();
    if wanted.is_empty() {
        tell!("servo-harness: no test is intermittent, so there is nothing to tame");
        return show(args, &work, &surveyed);
    }
    let ended = in_turn(args, &work, &tests, wanted, &flaky)?;
    let summary = summary(&work, &tests, ended == Ended::Whole);
    let status = show(args, &work, &summary)?;
    if ended == Ended::Interrupted {
        return Ok(work.status(ended, false));
    }
    Ok(status)
}

/// Tames the tests that are `wanted`: the first engine all, each other one those that are `flaky`
/// and that the ones before it do not cure.
fn in_turn(
    args: &Args,
    work: &Work,
    plain: &[Test],
    mut wanted: BTreeMap<String, Vec<Tried>>,
    flaky: &BTreeSet<String>,
) -> anyhow::Result<Ended> {
    let choices = args.engine.in_turn(&args.source);
    let mut name_before = None;
    for (at, choice) in choices.iter().enumerate() {
        work.interrupt.check()?;
        let found = recordable(*choice, args, work, name_before);
        work.interrupt.check()?;
        let (engine, tests) = match found {
            Ok(Some(found)) => found,
            Ok(None) => continue,
            Err(error) => {
                let is_only = at + 1 == choices.len() && name_before.is_none();
                if is_only || is_resumable(&error) {
                    return Err(error);
                }
                add_unusable(*choice, &error, &mut wanted);
                continue;
            }
        };
        name_before = Some(engine.name());
        if at > 0 {
            announce(&*engine, &wanted);
        }
        let is_wanted = |test: &Test| wanted.contains_key(&test.name);
        let tests: Vec<Test> = tests.into_iter().filter(is_wanted).collect();
        let taming = Taming {
            args,
            work,
            engine: &*engine,
            plain,
            tried: &wanted,
        };
        let load = work.load();
        let ended = taming.all(&tests)?;
        drop(load);
        if ended == Ended::Interrupted {
            return Ok(ended);
        }
        let results = tests.iter().filter_map(|test| taming.known(test));
        let results = results.map(|known| (known.test.clone(), known)).collect();
        remove_cured(&mut wanted, &*engine, results, flaky);
        if wanted.is_empty() {
            break;
        }
    }
    note_unusable(work, &wanted)?;
    Ok(Ended::Whole)
}

/// An engine, and the tests as it needs them, perhaps built otherwise.
type Recordable = (Box<dyn Engine>, Vec<Test>);

/// The engine of this choice, with its tests; `None` if it is the one of
/// this name: a project that uses rr-channel by itself is recorded in one way.
fn recordable(
    choice: Choice,
    args: &Args,
    work: &Work,
    name_before: Option<&str>,
) -> anyhow::Result<Option<Recordable>> {
    let engine = choice.engine(&args.source)?;
    if name_before == Some(engine.name()) {
        return Ok(None);
    }
    for line in engine.uncovered() {
        tell!("servo-harness: {line}");
    }
    let tests = engine.tests(&args.source, work.search())?;
    Ok(Some((engine, tests)))
}

/// Adds to what was tried for each test an engine that cannot be used here.
fn add_unusable(choice: Choice, error: &anyhow::Error, wanted: &mut BTreeMap<String, Vec<Tried>>) {
    let name = choice.name();
    tell!("servo-harness: the engine {name} cannot be used: {error:#}");
    for tried in wanted.values_mut() {
        tried.push(Tried {
            engine: name.to_owned(),
            why: engine::why_unusable(error),
        });
    }
}

/// Tells which engine is tried now, for which tests.
fn announce(engine: &dyn Engine, wanted: &BTreeMap<String, Vec<Tried>>) {
    let names: Vec<&str> = wanted.keys().map(String::as_str).collect();
    let of = match names.as_slice() {
        [] | [_] | [_, _] | [_, _, _] => names.join(", "),
        _ => format!("{} tests", names.len()),
    };
    let engine = engine.name();
    tell!("servo-harness: trying the engine {engine} for {of}");
}

/// Removes the tests that this engine has cured, and those that are not `flaky`. For each other one,
/// adds its result to what was tried.
fn remove_cured(
    wanted: &mut BTreeMap<String, Vec<Tried>>,
    engine: &dyn Engine,
    mut results: BTreeMap<String, Tamed>,
    flaky: &BTreeSet<String>,
) {
    wanted.retain(|test, tried| {
        let known = results.remove(test);
        let is_cured = known.as_ref().is_some_and(|known| known.artefact.is_some());
        let why = known.and_then(|known| known.problem);
        tried.push(Tried {
            engine: engine.name().to_owned(),
            why: why.unwrap_or_else(|| "it has no such test".to_owned()),
        });
        !is_cured && flaky.contains(test)
    });
}

/// The last result of taming a test, of those that are meant.
fn last_result(records: &[Record], test: &str, is_meant: impl Fn(&Tamed) -> bool) -> Option<Tamed> {
    records.iter().rev().find_map(|record| match record {
        Record::Tamed(tamed) if tamed.test == test && is_meant(tamed) => Some(tamed.clone()),
        _ => None,
    })
}

/// Writes down which engines could not be used for tests that are not cured.
fn note_unusable(work: &Work, wanted: &BTreeMap<String, Vec<Tried>>) -> anyhow::Result<()> {
    let mut results = lock(&work.results);
    for (test, tried) in wanted {
        let last = last_result(&results.records, test, |_| true);
        let Some(mut last) = last.filter(|last| last.artefact.is_none()) else {
            continue;
        };
        let is_new = |tried: &&Tried| {
            let mut known = last.tried.iter();
            tried.engine != last.engine && known.all(|known| known.engine != tried.engine)
        };
        let new: Vec<Tried> = tried.iter().filter(is_new).cloned().collect();
        if !new.is_empty() {
            last.tried.extend(new);
            results.add(Record::Tamed(last))?;
        }
    }
    Ok(())
}

fn summary(work: &Work, tests: &[Test], complete: bool) -> Summary {
    let results = lock(&work.results);
    Summary::of_tests(tests, &results.records, work.is_isolated(), complete)
}

fn show(args: &Args, work: &Work, summary: &Summary) -> anyhow::Result<ExitCode> {
    if args.options.json {
        print_json(summary)?;
    } else {
        print(|out| summary.text(out))?;
    }
    let is_odd = !summary.tests.iter().all(Row::is_settled);
    Ok(work.status(Ended::Whole, is_odd))
}

/// Takes a recording that was kept as it is now, if it is the one that is known.
fn unpack(known: &Tamed, dir: &Path) -> anyhow::Result<bool> {
    let Some(toml) = known.artefact.as_deref().map(Artefact::description) else {
        return Ok(false);
    };
    let Ok(artefact) = Artefact::read(&toml) else {
        return Ok(false);
    };
    if artefact.pack != known.recording {
        return Ok(false);
    }
    tame::remove(dir)?;
    match artefact.unpack(&toml, dir) {
        Err(error) if is_resumable(&error) => Err(error),
        unpacked => Ok(unpacked.is_ok()),
    }
}

struct Taming<'a> {
    args: &'a Args,
    work: &'a Work,
    engine: &'a dyn Engine,
    plain: &'a [Test],
    /// The engines that were tried before, for each test.
    tried: &'a BTreeMap<String, Vec<Tried>>,
}

impl Taming<'_> {
    fn all(&self, tests: &[Test]) -> anyhow::Result<Ended> {
        Artefact::tidy(&self.args.kept.recordings)?;
        let mut recordings = BTreeMap::new();
        for test in tests {
            if self.work.interrupt.is_set() {
                return Ok(Ended::Interrupted);
            }
            let dir = self.recording_of(test);
            let known = self.known(test);
            let is_there = known.as_ref().map(|known| unpack(known, &dir));
            if is_there.transpose()?.unwrap_or(false) {
                recordings.insert(test.name.clone(), dir);
                if let Some(known) = known.filter(|_| !self.is_last(test)) {
                    // Another engine was tried since; this is what counts now.
                    lock(&self.work.results).add(Record::Tamed(known))?;
                }
            } else if known.is_none_or(|known| self.is_to_be_recorded_again(&known)) {
                match self.record(test, &dir)? {
                    Some(true) => {
                        recordings.insert(test.name.clone(), dir);
                    }
                    Some(false) => {}
                    None => return Ok(Ended::Interrupted),
                }
            }
        }
        let recorded = || {
            let tests = tests.iter();
            tests.filter(|test| recordings.contains_key(&test.name))
        };
        // What is replayed is the recording.
        let of_recording = |test: &Test| {
            let mut replayed = test.clone();
            replayed.subject = self.known(test)?.recording;
            Some(replayed)
        };
        let replayed: Vec<Test> = recorded().filter_map(of_recording).collect();
        let plain = self.plain.iter();
        let mut plain: Vec<Test> = plain
            .filter(|test| recordings.contains_key(&test.name))
            .cloned()
            .collect();
        // Each engine's replays have plain runs beside them.
        for test in &mut plain {
            test.subject = beside(&test.subject, self.engine.name());
        }
        if let Err(error) = self.engine.even(&plain) {
            tell!("servo-harness: the times of plain runs may be too long: {error:#}");
        }
        let (ended, problems) = verify(
            &replayed,
            &plain,
            self.engine,
            &recordings,
            &self.work.settings,
            &self.work.campaign_context(),
        )?;
        if ended == Ended::Whole {
            for test in recorded() {
                self.conclude(test, &recordings[&test.name], problems.get(&test.name))?;
            }
            self.suspect(tests)?;
        }
        Ok(ended)
    }

    /// Says of tests that messages do not decide what else may.
    fn suspect(&self, tests: &[Test]) -> anyhow::Result<()> {
        let is_odd = |known: &Tamed| {
            let problem = known.problem.as_deref();
            problem.is_some_and(|problem| problem.ends_with(tame::SOMETHING_ELSE))
        };
        let of_name = |test: &Test| self.plain.iter().find(|plain| plain.name == test.name);
        let odd: Vec<Tamed> = tests
            .iter()
            .filter(|test| self.is_last(test))
            .filter_map(|test| self.known(test))
            .filter(is_odd)
            .collect();
        let engine = match Processes::find() {
            Ok(engine) if !odd.is_empty() && self.engine.name() != engine.name() => engine,
            _ => return Ok(()),
        };
        let is_named = |test: &&Test| odd.iter().any(|odd| odd.test == test.name);
        let (named, others): (Vec<&Test>, Vec<&Test>) =
            tests.iter().filter_map(of_name).partition(is_named);
        let context = self.work.campaign_context();
        let recorder = Recorder {
            engine: &engine,
            settings: &self.work.settings,
            context: &context,
        };
        let into = self.work.state.join("suspects");
        let found = suspects::find(&named, &others, &recorder, &engine, &into)?;
        for tamed in odd {
            if let Some(suspected) = found.get(&tamed.test) {
                let problem = tamed.problem.unwrap_or_default();
                let problem = format!("{problem}, perhaps {suspected}");
                tell!("servo-harness: {}: possible cause: {suspected}", tamed.test);
                lock(&self.work.results).add(Record::Tamed(Tamed {
                    problem: Some(problem),
                    ..tamed
                }))?;
            }
        }
        Ok(())
    }

    /// Where the recording is while it is worked with.
    fn recording_of(&self, test: &Test) -> PathBuf {
        Artefact::place(&self.work.state.join("recordings"), &test.name)
    }

    /// The engine's result of the last time, if it is the same test.
    fn known(&self, test: &Test) -> Option<Tamed> {
        let name = self.engine.name();
        let wants_expected = self.wants_expected();
        let found = self.last(test, |tamed| {
            tamed.engine == name && tamed.of_expected == wants_expected
        });
        found.filter(|tamed| tamed.subject == test.subject)
    }

    /// Whether a recording is gone, or more runs may be made than were.
    fn is_to_be_recorded_again(&self, known: &Tamed) -> bool {
        let may_come = known
            .problem
            .as_ref()
            .is_some_and(|why| why.starts_with(tame::NONE_CAME));
        known.artefact.is_some() || may_come && known.attempts < self.args.kept.at_most
    }

    /// Whether no other engine was tried since, and no other outcome was wanted.
    fn is_last(&self, test: &Test) -> bool {
        let last = self.last(test, |_| true);
        last.is_some_and(|tamed| {
            tamed.engine == self.engine.name() && tamed.of_expected == self.wants_expected()
        })
    }

    fn wants_expected(&self) -> bool {
        self.args.keep == Keep::Expected
    }

    fn last(&self, test: &Test, is_meant: impl Fn(&Tamed) -> bool) -> Option<Tamed> {
        last_result(&lock(&self.work.results).records, &test.name, is_meant)
    }

    /// Records the test; whether there is a recording, `None` if it was interrupted.
    fn record(&self, test: &Test, dir: &Path) -> anyhow::Result<Option<bool>> {
        let context = self.work.campaign_context();
        let recorder = Recorder {
            engine: self.engine,
            settings: &self.work.settings,
            context: &context,
        };
        let wanted = Wanted::new(self.wants_expected(), self.args.kept.at_most, dir);
        let mut tamed = Tamed {
            test: test.name.clone(),
            subject: test.subject.clone(),
            engine: self.engine.name().to_owned(),
            recording: String::new(),
            artefact: None,
            bytes: 0,
            events: 0,
            attempts: 0,
            of_expected: self.wants_expected(),
            problem: None,
            tried: self.tried.get(&test.name).cloned().unwrap_or_default(),
        };
        match recorder.record(test, &wanted)? {
            Attempt::Interrupted => return Ok(None),
            Attempt::Failed(why, attempts) => {
                tell!("servo-harness: {}: {why}", test.name);
                tamed.attempts = attempts;
                tamed.problem = Some(why);
            }
            Attempt::Recorded(recorded) => {
                tamed.attempts = recorded.attempts;
                tamed.events = recorded.events;
                let place = Artefact::place(&self.args.kept.recordings, &test.name);
                let (before, after) = (self.before(test), (0, 0));
                let artefact = self.artefact(
                    test,
                    &in_words(&recorded.ending),
                    recorded.events,
                    before,
                    after,
                    dir,
                )?;
                let stored = artefact.store(&place, &recorded.dir)?;
                tamed.bytes = stored.bytes;
                tamed.recording = stored.pack;
                tamed.artefact = Some(place);
            }
        }
        let has_recording = tamed.artefact.is_some();
        lock(&self.work.results).add(Record::Tamed(tamed))?;
        Ok(Some(has_recording))
    }

    fn artefact(
        &self,
        test: &Test,
        ending: &str,
        events: u64,
        before: (u64, u64),
        after: (u64, u64),
        dir: &Path,
    ) -> anyhow::Result<Artefact> {
        Ok(Artefact {
            version: 0,
            test: test.name.clone(),
            engine: self.engine.name().to_owned(),
            ending: ending.to_owned(),
            subject: test.subject.clone(),
            events,
            before,
            after,
            pack: String::new(),
            recording: Artefact::shown(&self.engine.in_words(dir)?),
        })
    }

    /// Plain runs as expected, and all.
    fn before(&self, test: &Test) -> (u64, u64) {
        let subject = self.plain.iter().find(|plain| plain.name == test.name);
        let subject = subject.map_or("", |plain| plain.subject.as_str());
        let results = lock(&self.work.results);
        let counts = counts(&results.records, &test.name, subject, Phase::Plain);
        (counts.of(Outcome::Expected), counts.total())
    }

    /// Writes down what replays have shown of a recording.
    fn conclude(&self, test: &Test, dir: &Path, problem: Option<&String>) -> anyhow::Result<()> {
        let Some(known) = self.known(test) else {
            return Ok(());
        };
        let (mut after, mut unfaithful) = ((0, 0), 0);
        for record in &lock(&self.work.results).records {
            if let Record::Run(run) = record
                && run.test == test.name
                && run.subject == known.recording
                && !run.phase.is_plain()
            {
                after.0 += u64::from(run.outcome == Outcome::Expected);
                after.1 += 1;
                unfaithful += u64::from(run.faithful == Some(false));
            }
        }
        let as_recorded = match self.args.keep {
            Keep::Expected => after.0,
            Keep::Unexpected => after.1 - after.0,
        };
        let place = Artefact::place(&self.args.kept.recordings, &test.name);
        if as_recorded < after.1 || unfaithful > 0 {
            let other = after.1 - as_recorded;
            let why = problem.map_or(tame::SOMETHING_ELSE, String::as_str);
            let why = format!(
                "{other} of {} replays did not end as recorded, and {unfaithful} desynchronised: {why}",
                after.1
            );
            tell!("servo-harness: {}: {why}", test.name);
            Artefact::remove(&place)?;
            lock(&self.work.results).add(Record::Tamed(Tamed {
                artefact: None,
                problem: Some(why),
                ..known
            }))?;
            return Ok(());
        }
        let ending = Artefact::read(&Artefact::description(&place))?.ending;
        let artefact = self.artefact(test, &ending, known.events, self.before(test), after, dir)?;
        artefact.store(&place, dir)?;
        Ok(())
    }
}
