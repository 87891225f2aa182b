//! Engines, which record a run of a test and replay it: one interface for all.
//!
//! An engine makes commands. The harness runs them as it runs tests, in sandboxes with time
//! limits, and asks the engine for the result of a replay that has ended.

mod large_pieces;
pub(crate) mod messages;
mod processes;

use std::path::Path;

use anyhow::Context as _;
use rr_channel_tools::reprise::NothingToRecord;

pub(crate) use self::messages::Messages;
pub(crate) use self::processes::Processes;
use crate::sandbox::{Job, Ran};
use crate::source::{Search, Source, Test};

/// How to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordOptions {
    /// Make rare orders likely, with this seed.
    pub chaos: Option<u64>,
    /// Record where in the source things happen.
    pub places: bool,
}

/// The result of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// Whether it went the recorded way.
    pub is_faithful: bool,
    /// Where it did not, in words.
    pub why: Vec<String>,
    /// How many events came about again, of how many that are recorded, where that is known.
    pub came: Option<(u64, u64)>,
}

/// A recording could not be written, which says nothing about the test.
#[derive(Debug, thiserror::Error)]
#[error("a run of {test} was not recorded as a whole: {why}")]
pub struct NotWritten {
    /// The test's name.
    pub test: String,
    /// Why, in the engine's words.
    pub why: String,
}

/// Records and replays tests.
pub trait Engine: Sync {
    /// Its name, as users and artefacts have it.
    fn name(&self) -> &'static str;

    /// The tests in the form in which they can be recorded.
    ///
    /// # Errors
    /// If the project cannot be built so.
    fn tests(&self, source: &Source, search: Search<'_>) -> anyhow::Result<Vec<Test>>;

    /// Has plain runs of these tests take no longer than they need to beside replays: what is
    /// done to the executables that [`tests`](Engine::tests) built is done to theirs, if they
    /// are others.
    ///
    /// # Errors
    /// If that cannot be done.
    fn even(&self, plain: &[Test]) -> anyhow::Result<()>;

    /// The command that records a run into the empty directory `into`.
    fn record(&self, test: &Test, into: &Path, how: RecordOptions) -> Job;

    /// The reason why the recording of a run is not whole: it could not be written,
    /// for instance because the disk is full.
    fn lost(&self, ran: &Ran) -> Option<String>;

    /// The reason why the engine cannot record this test at all.
    fn refused(&self, _: &Ran) -> Option<String> {
        None
    }

    /// The command that replays it, and may report into the directory `scratch`.
    fn replay(&self, test: &Test, recording: &Path, scratch: &Path) -> Job;

    /// The same replay, whose threads are delayed at random, if there is such a thing. It comes
    /// to the same.
    fn disturbed(&self, replay: Job) -> Job {
        replay
    }

    /// The result of a replay that has ended.
    fn replayed(&self, ran: &Ran, scratch: &Path) -> Replayed;

    /// How many events a recording has; `None` if there is nothing to replay in it.
    ///
    /// # Errors
    /// If it cannot be read.
    fn events(&self, recording: &Path) -> anyhow::Result<Option<u64>>;

    /// A recording for people, or its beginning.
    ///
    /// # Errors
    /// If it cannot be read.
    fn in_words(&self, recording: &Path) -> anyhow::Result<String>;

    /// Where two recordings part.
    ///
    /// # Errors
    /// If one cannot be read.
    fn difference(&self, old: &Path, new: &Path) -> anyhow::Result<String>;

    /// Inputs that the tests are known to use and that are not recorded.
    fn uncovered(&self) -> Vec<String>;
}

/// The reason why an engine cannot be used, in short.
pub(crate) fn why_unusable(error: &anyhow::Error) -> String {
    if error.chain().any(|cause| cause.is::<NothingToRecord>()) {
        return "it replaces none of the crates that the project uses".to_owned();
    }
    format!("{error:#}")
}

/// Which engine to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Choice {
    /// Each of the others in turn, for the tests that those before it do not cure
    Auto,
    /// Messages, locks and clocks
    RrChannel,
    /// The same, and the locks, channels and threads of std
    RrChannelStd,
    /// Whole processes, by `reprise`
    Reprise,
}

impl Choice {
    /// The engines to try, in this order.
    pub fn in_turn(self, source: &Source) -> &'static [Choice] {
        match self {
            Choice::Auto if !source.is_of_cargo() => &[Choice::RrChannel, Choice::Reprise],
            Choice::Auto if source.records_std() => &[Choice::RrChannelStd, Choice::Reprise],
            Choice::Auto => &[Choice::RrChannel, Choice::RrChannelStd, Choice::Reprise],
            Choice::RrChannel if source.records_std() => &[Choice::RrChannelStd],
            Choice::RrChannel => &[Choice::RrChannel],
            Choice::RrChannelStd => &[Choice::RrChannelStd],
            Choice::Reprise => &[Choice::Reprise],
        }
    }

    /// The engine for tests of this source.
    ///
    /// # Errors
    /// If it cannot be used here.
    pub fn engine(self, source: &Source) -> anyhow::Result<Box<dyn Engine>> {
        Ok(match self {
            Choice::Auto | Choice::RrChannel => {
                Box::new(Messages::of(source, source.records_std())?)
            }
            Choice::RrChannelStd => Box::new(Messages::of(source, true)?),
            Choice::Reprise => Box::new(Processes::find()?),
        })
    }

    /// The name of its engine.
    pub const fn name(self) -> &'static str {
        match self {
            Choice::Auto | Choice::RrChannel => messages::NAME,
            Choice::RrChannelStd => messages::NAME_WITH_STD,
            Choice::Reprise => processes::NAME,
        }
    }

    /// The engine of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(name: &str) -> anyhow::Result<Choice> {
        let known = [Choice::RrChannel, Choice::RrChannelStd, Choice::Reprise];
        let found = known.into_iter().find(|choice| choice.name() == name);
        found.with_context(|| format!("there is no engine `{name}`"))
    }
}
