//! One kill, and what is left after it.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustix::process::Signal;

use super::process::{Ended, Tree, descendants, kill};
use super::scenario::Scenario;
use crate::trials::differential::dice::Dice;

/// The exit status of `reprise replay` where the recording was cut short.
const CUT_SHORT: i32 = 123;

/// Where and how trials are made.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) reprise: PathBuf,
    pub(super) patience: Duration,
}

/// The process that is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Victim {
    Nobody,
    Recorder,
    Tracee,
    /// First a tracee, and then the recorder.
    Both,
}

/// How a trial went that found nothing wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Left {
    /// The recorder was killed before there was a trace.
    Nothing,
    /// ... or before there was a block in it.
    Empty,
    /// A trace that was cut short: replayed up to there.
    Beginning,
    /// A whole trace, replayed to its end.
    All,
}

impl Stage {
    /// Records, kills, looks at the trace, and replays it.
    ///
    /// # Errors
    /// What is wrong.
    pub(super) fn trial(
        &self,
        scenario: &Scenario,
        victim: Victim,
        after: Duration,
        dice: &mut Dice,
        own: &Path,
    ) -> anyhow::Result<Left> {
        let trace = own.join("trace");
        let work = own.join("work");
        fs::create_dir_all(&work)?;
        let mut words = vec![self.reprise.clone()];
        words.extend(["record", "--quiet", "--output"].map(PathBuf::from));
        words.extend([trace.clone(), "--".into()]);
        words.extend(scenario.command.iter().map(PathBuf::from));
        let tree = Tree::start(&words, &work)?;
        let printed = tree.run_for(after);
        let was_killed = printed.is_none() && strike(tree.id(), victim, dice, after);
        let recorded = tree
            .end(printed, self.patience, &work)
            .context("recording")?;
        sane(&recorded).context("recording")?;
        if !trace.join("trace.json").exists() {
            // The command's process before it executed it, perhaps.
            let is_early = recorded.status.signal() == Some(Signal::KILL.as_raw());
            ensure!(
                was_killed || is_early,
                "there is no trace: {}",
                recorded.stderr
            );
            return Ok(Left::Nothing);
        }
        // All that is needed of what the programs made is in the trace.
        fs::remove_dir_all(&work)?;
        self.look(&trace, &["fsck"])?;
        self.look(&trace, &["dump"])?;
        let stats = self.look(&trace, &["stats", "--json"])?;
        let stats: serde_json::Value = serde_json::from_slice(&stats)?;
        let whole = stats["whole"].as_bool() == Some(true);
        ensure!(
            whole || was_killed,
            "the recorder was not killed, and the trace is not whole: {}",
            recorded.stderr
        );
        let replayed = self.replay(&trace, own)?;
        if whole {
            ensure!(
                replayed.status == recorded.status || was_killed,
                "recorded {}, replayed {}: {}",
                recorded.status,
                replayed.status,
                replayed.stderr
            );
            if replayed.stdout != recorded.stdout {
                fs::write(own.join("recorded.out"), &recorded.stdout)?;
                fs::write(own.join("replayed.out"), &replayed.stdout)?;
                bail!("the output differs");
            }
            return Ok(Left::All);
        }
        ensure!(
            replayed.status.code() == Some(CUT_SHORT),
            "the trace was cut short, and its replay ends with {}: {}",
            replayed.status,
            replayed.stderr
        );
        ensure!(
            replayed.stderr.contains("the recording ends here"),
            "it is not said that the recording ends: {}",
            replayed.stderr
        );
        ensure!(
            recorded.stdout.starts_with(&replayed.stdout),
            "the replay printed something else than the recorded run"
        );
        Ok(if stats["blocks"] == 0 {
            Left::Empty
        } else {
            Left::Beginning
        })
    }

    fn replay(&self, trace: &Path, own: &Path) -> anyhow::Result<Ended> {
        let directory = own.join("replay");
        fs::create_dir_all(&directory)?;
        let mut words = vec![self.reprise.clone()];
        words.extend(["replay", "--quiet"].map(PathBuf::from));
        words.push(trace.to_owned());
        let replayed = Tree::start(&words, &directory)?
            .end(None, self.patience, &directory)
            .context("replaying")?;
        sane(&replayed).context("replaying")?;
        Ok(replayed)
    }

    /// A command that looks at the trace, and must be content with it.
    fn look(&self, trace: &Path, words: &[&str]) -> anyhow::Result<Vec<u8>> {
        let output = Command::new(&self.reprise)
            .args(words)
            .arg(trace)
            .output()
            .context("starting reprise")?;
        if !output.status.success() {
            bail!(
                "`reprise {}` ends with {}: {}{}",
                words.join(" "),
                output.status,
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(output.stdout)
    }
}

/// Kills; whether it was the recorder.
fn strike(recorder: u32, victim: Victim, dice: &mut Dice, after: Duration) -> bool {
    if matches!(victim, Victim::Tracee | Victim::Both) {
        let tracees: Vec<u32> = descendants(recorder).into_keys().collect();
        if !tracees.is_empty() {
            kill(*dice.pick(&tracees));
        }
    }
    if victim == Victim::Both {
        // Sometimes at once, sometimes when it has dealt with that.
        std::thread::sleep(after / 8 * dice.below(2) as u32);
    }
    matches!(victim, Victim::Recorder | Victim::Both) && kill(recorder)
}

/// Fails if the run panicked.
fn sane(run: &Ended) -> anyhow::Result<()> {
    ensure!(
        !run.stderr.contains("panicked"),
        "it panics: {}",
        run.stderr
    );
    Ok(())
}
