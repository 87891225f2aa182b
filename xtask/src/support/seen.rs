//! The visible result of a run: its output, its end and the tree that it leaves.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;

use super::tree::clock::Nanos;
use super::tree::snapshot::{Snapshot, Story};

/// A program of Perl that makes the calls that its arguments name, and prints how each ended.
pub(crate) const CALL: &str = include_str!("call.pl");

/// The visible result of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) status: Option<i32>,
    pub(crate) tree: Snapshot,
}

impl Seen {
    /// Runs a command in `tree`, whose files must be older than a second.
    ///
    /// # Errors
    ///
    /// When the command cannot be started, or the tree not be read.
    pub(crate) fn of(mut command: Command, tree: &Path) -> anyhow::Result<Self> {
        command.current_dir(tree).stdin(Stdio::null());
        command.env("LC_ALL", "C.UTF-8");
        let mut story = Story::default();
        story.begin(clock_now());
        let output = command.output().context("starting the command")?;
        Ok(Self {
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            status: output.status.code(),
            tree: Snapshot::take(tree, &story, clock_now())?,
        })
    }

    /// Returns the first difference to a later run, if there is one.
    pub(crate) fn difference(&self, later: &Self) -> Option<String> {
        if self.out != later.out {
            return Some(format!(
                "prints {:?} plainly, {:?} in the run after it",
                self.out, later.out
            ));
        }
        if self.status != later.status || self.err != later.err {
            return Some(format!(
                "ends with {:?} and {:?} plainly, with {:?} and {:?} in the run after it",
                self.status, self.err, later.status, later.err
            ));
        }
        let differences = self.tree.differences(&later.tree);
        differences.first().map(|(_, line)| line.clone())
    }
}

/// A time between that of the old files and that of files that are written now.
fn clock_now() -> Nanos {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    // Files get the time of the last tick of the clock.
    now.map_or(0, |time| time.as_nanos() as Nanos) - 1_000_000_000
}
