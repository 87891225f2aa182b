//! Runs many tests many times, a few at a time, and writes down each run that has ended.
//!
//! Tests alternate: no test has its second run before every test had its first. So the results
//! are equally complete for all tests at any moment. A test needs no more runs when its Wilson
//! interval is as narrow as was asked for.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;

use super::progress::Progress;
use crate::model::outcome::{Counts, Outcome};
use crate::model::wilson::Confidence;
use crate::platform::interrupt::Interrupt;
use crate::platform::lock::lock;
use crate::sandbox::{Ending, Isolation, Job, Ran, Sandbox, Scratch};
use crate::source::Test;
use crate::store::journal::{Journal, JournalError, Phase, Record, Run, counts};

/// Of so many runs of a test that are not as expected the output is kept.
const OUTPUTS: u64 = 3;
/// So much of it.
const OUTPUT: usize = 4 * 1024;

/// How many runs, and how.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Runs of each test, at most.
    pub runs: u64,
    /// A test whose interval (95 %) is no wider than this is settled; 0: none is.
    pub precision: f64,
    /// Runs at the same time.
    pub jobs: usize,
    /// How long a run may take.
    pub limit: Duration,
    /// The isolation of a run's processes.
    pub isolation: Isolation,
}

/// The journal, and all that is in it.
#[derive(Debug)]
pub struct Results {
    journal: Journal,
    /// Everything that was found out, in its order.
    pub records: Vec<Record>,
}

impl Results {
    /// A journal with what was found in it.
    pub const fn new(journal: Journal, records: Vec<Record>) -> Results {
        Results { journal, records }
    }

    /// Writes down what was found out.
    ///
    /// # Errors
    /// If it could not be written; then nothing changes.
    pub fn add(&mut self, record: Record) -> Result<(), JournalError> {
        self.journal.append(&record)?;
        self.records.push(record);
        Ok(())
    }
}

/// A campaign came to its end, or did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every test has its runs.
    Whole,
    /// It was interrupted.
    Interrupted,
}

/// The environment of a campaign.
#[derive(Debug)]
pub struct CampaignContext<'a> {
    /// Where temporary files go.
    pub scratch: &'a Scratch,
    /// The wish to stop it.
    pub interrupt: &'a Interrupt,
    /// The results so far.
    pub results: &'a Mutex<Results>,
}

/// How a test is run in a phase, and what the run says of a replay.
pub trait Runs: Sync {
    /// The command, for a run that has this directory for itself.
    ///
    /// # Errors
    /// If it cannot be made.
    fn job(&self, test: &Test, sandbox: &Sandbox) -> anyhow::Result<Job>;

    /// Whether a replay went the recorded way; `None` if it was none.
    fn faithful(&self, test: &Test, sandbox: &Sandbox, ran: &Ran) -> Option<bool>;
}

/// Tests as they are.
#[derive(Debug, Clone, Copy)]
pub struct AsTheyAre;

impl Runs for AsTheyAre {
    fn job(&self, test: &Test, _: &Sandbox) -> anyhow::Result<Job> {
        Ok(test.job.clone())
    }

    fn faithful(&self, _: &Test, _: &Sandbox, _: &Ran) -> Option<bool> {
        None
    }
}

/// A test's runs so far.
#[derive(Debug, Clone, Copy)]
struct Progressed {
    counts: Counts,
    /// Runs that have begun and not ended.
    open: u64,
}

impl Progressed {
    fn wants_more(&self, settings: &Settings) -> bool {
        let begun = self.counts.total() + self.open;
        begun < settings.runs && !is_settled(&self.counts, settings.precision)
    }

    fn left(&self, settings: &Settings) -> u64 {
        if is_settled(&self.counts, settings.precision) {
            self.open
        } else {
            settings.runs.saturating_sub(self.counts.total())
        }
    }
}

/// Whether the rate of expected runs is known well enough.
fn is_settled(counts: &Counts, precision: f64) -> bool {
    counts
        .expected_rate(Confidence::P95)
        .is_some_and(|interval| interval.high - interval.low <= precision)
}

struct Shared {
    tests: Vec<Progressed>,
    failed: Option<anyhow::Error>,
}

/// Runs tests in a phase until each has its runs; those in the journal count.
///
/// # Errors
/// If a run could not be made at all or not be written down. What was written stays.
pub fn run(
    tests: &[Test],
    phase: Phase,
    runs: &dyn Runs,
    settings: &Settings,
    context: &CampaignContext<'_>,
) -> anyhow::Result<Ended> {
    let begun = lock(context.results);
    let progressed = tests.iter().map(|test| Progressed {
        counts: counts(&begun.records, &test.name, &test.subject, phase),
        open: 0,
    });
    let shared = Mutex::new(Shared {
        tests: progressed.collect(),
        failed: None,
    });
    drop(begun);
    let left: u64 = lock(&shared)
        .tests
        .iter()
        .map(|test| test.left(settings))
        .sum();
    let progress = Progress::new(left, phase);
    let campaign = Campaign {
        tests,
        phase,
        runs,
        settings,
        context,
        shared: &shared,
        progress: &progress,
    };
    thread::scope(|scope| {
        for number in 0..settings.jobs.max(1) {
            let campaign = &campaign;
            scope.spawn(move || campaign.work(number));
        }
    });
    progress.finish();
    let shared = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    match shared.failed {
        Some(error) => Err(error),
        None if context.interrupt.is_set() => Ok(Ended::Interrupted),
        None => Ok(Ended::Whole),
    }
}

struct Campaign<'a> {
    tests: &'a [Test],
    phase: Phase,
    runs: &'a dyn Runs,
    settings: &'a Settings,
    context: &'a CampaignContext<'a>,
    shared: &'a Mutex<Shared>,
    progress: &'a Progress,
}

impl Campaign<'_> {
    /// Takes one run after the other, until there is none left.
    fn work(&self, number: usize) {
        while let Some(index) = self.take() {
            let done = self.one(&self.tests[index], number);
            let mut shared = lock(self.shared);
            shared.tests[index].open -= 1;
            match done {
                Ok(Some(outcome)) => shared.tests[index].counts.add(outcome),
                Ok(None) => {}
                Err(error) => {
                    shared.failed.get_or_insert(error);
                }
            }
            let left = shared
                .tests
                .iter()
                .map(|test| test.left(self.settings))
                .sum();
            let flaky = shared
                .tests
                .iter()
                .filter(|test| test.counts.is_flaky())
                .count();
            self.progress.ran(left, flaky);
        }
    }

    /// The test that has the fewest runs; one that is running already only if there is no
    /// other, so that a test that hangs does not take all places.
    fn take(&self) -> Option<usize> {
        if self.context.interrupt.is_set() {
            return None;
        }
        let mut shared = lock(self.shared);
        if shared.failed.is_some() {
            return None;
        }
        let next = shared.tests.iter().enumerate();
        let (index, _) = next
            .filter(|(_, test)| test.wants_more(self.settings))
            .min_by_key(|(_, test)| (test.open, test.counts.total()))?;
        shared.tests[index].open += 1;
        Some(index)
    }

    /// Runs a test once and writes down what it came to; `None` if it was interrupted.
    fn one(&self, test: &Test, number: usize) -> anyhow::Result<Option<Outcome>> {
        let sandbox = Sandbox {
            isolation: self.settings.isolation,
            limit: self.settings.limit * test.patience,
            scratch: self.context.scratch.slot(number)?,
            number: u32::try_from(number).unwrap_or(0),
        };
        let job = self.runs.job(test, &sandbox)?;
        let ran = sandbox
            .run(&job, self.context.interrupt)
            .with_context(|| format!("running {}", test.name))?;
        if let Ending::NotStarted(why) = &ran.ending {
            anyhow::bail!("{} cannot be started: {why}", job.program.display());
        }
        let Some(outcome) = test.expected.outcome_of(&ran.ending) else {
            return Ok(None);
        };
        let faithful = self.runs.faithful(test, &sandbox, &ran);
        let mut results = lock(self.context.results);
        let before = counts(&results.records, &test.name, &test.subject, self.phase);
        let odd = before.total() - before.of(Outcome::Expected);
        let wants_output = outcome != Outcome::Expected && odd < OUTPUTS;
        results.add(Record::Run(Run {
            test: test.name.clone(),
            subject: test.subject.clone(),
            phase: self.phase,
            outcome,
            ending: in_words(&ran.ending),
            seconds: ran.time.as_secs_f64(),
            left: ran.left,
            faithful,
            output: wants_output.then(|| output(&ran)),
        }))?;
        Ok(Some(outcome))
    }
}

/// The last thing that a run wrote.
fn output(ran: &Ran) -> String {
    let text = ran.stdout.text() + &ran.stderr.text();
    let mut from = text.len().saturating_sub(OUTPUT);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text[from..].to_owned()
}

pub(crate) fn in_words(ending: &Ending) -> String {
    match ending {
        Ending::Exit(code) => format!("exit status {code}"),
        Ending::Signal(number) => format!("signal {number}"),
        Ending::TimedOut => "its time was up".to_owned(),
        Ending::Interrupted => "interrupted".to_owned(),
        Ending::NotStarted(why) => format!("not started: {why}"),
        Ending::Lost => "what looks after it was killed".to_owned(),
    }
}

/// The ending that these words are about, if they are some.
pub(crate) fn from_words(words: &str) -> Option<Ending> {
    if let Some(code) = words.strip_prefix("exit status ") {
        return code.parse().ok().map(Ending::Exit);
    }
    if let Some(number) = words.strip_prefix("signal ") {
        return number.parse().ok().map(Ending::Signal);
    }
    let others = [Ending::TimedOut, Ending::Interrupted, Ending::Lost];
    others.into_iter().find(|ending| in_words(ending) == words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_read_back() {
        let endings = [
            Ending::Exit(101),
            Ending::Signal(6),
            Ending::TimedOut,
            Ending::Interrupted,
            Ending::Lost,
        ];
        for ending in endings {
            assert_eq!(from_words(&in_words(&ending)), Some(ending));
        }
        assert_eq!(from_words("exit status x"), None);
        assert_eq!(from_words("odd"), None);
    }

    #[test]
    fn a_rate_is_settled_when_its_interval_is_narrow() {
        let counts = |expected, unexpected| -> Counts {
            let expected = std::iter::repeat_n(Outcome::Expected, expected);
            expected
                .chain(std::iter::repeat_n(Outcome::Unexpected, unexpected))
                .collect()
        };
        assert!(!is_settled(&Counts::default(), 0.05));
        assert!(!is_settled(&counts(72, 0), 0.05));
        assert!(is_settled(&counts(73, 0), 0.05));
        assert!(!is_settled(&counts(50, 50), 0.05));
        assert!(!is_settled(&counts(1000, 0), 0.0));
    }
}
