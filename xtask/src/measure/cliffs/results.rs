//! Measurements of a run, as JSON and as tables.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::Args;
use crate::support::machine::Machine;
use crate::support::median::median;

/// The most nanoseconds that a call which programs make often may take longer.
pub(crate) const MOST_MORE: f64 = 1000.0;
/// The most that a command may take, as a multiple of its plain time.
pub(crate) const MOST_TIMES: f64 = 1.3;
/// The time that a command may take beyond that, in seconds.
pub(crate) const MOST_START: f64 = 0.005;

/// All that a run of the task found.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Results {
    /// The day, as `2026-01-31` (UTC).
    pub(crate) date: String,
    pub(crate) machine: Machine,
    pub(crate) rounds: usize,
    pub(crate) calls: Vec<CallCost>,
    pub(crate) commands: Vec<CommandCost>,
    /// Loops and commands that were not measured, with the reasons.
    pub(crate) absent: Vec<(String, String)>,
}

/// The cost of the calls of a loop.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CallCost {
    /// The loop.
    pub(crate) name: String,
    /// Whether programs make these calls often.
    pub(crate) often: bool,
    /// Whether the process had a second thread.
    pub(crate) threads: bool,
    /// Calls in one round of the loop.
    pub(crate) calls: usize,
    /// Of the plain run, the errno of each call that failed.
    pub(crate) errors: Vec<i32>,
    /// Whether a call failed otherwise under pcache.
    pub(crate) differs: bool,
    /// Nanoseconds for each call, of each measurement.
    pub(crate) plain: Vec<f64>,
    /// The same under pcache.
    pub(crate) pcache: Vec<f64>,
}

/// The cost of a command.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CommandCost {
    pub(crate) name: String,
    /// Whether it is a program of an ecosystem, and not a common command.
    pub(crate) ecosystem: bool,
    /// Seconds of wall time, of each measurement.
    pub(crate) plain: Vec<f64>,
    /// The same under pcache.
    pub(crate) pcache: Vec<f64>,
    /// Seconds of CPU time.
    pub(crate) plain_cpu: Vec<f64>,
    /// The same under pcache.
    pub(crate) pcache_cpu: Vec<f64>,
}

impl CallCost {
    /// Nanoseconds that a call takes longer under pcache: the median of the rounds' differences.
    pub(crate) fn more(&self) -> f64 {
        differences(&self.plain, &self.pcache)
    }

    /// Whether it is above the goal.
    pub(crate) fn is_above(&self) -> bool {
        self.often && self.more() > MOST_MORE
    }
}

impl CommandCost {
    /// The median of the rounds' ratios.
    pub(crate) fn ratio(&self) -> f64 {
        let pairs = self.plain.iter().zip(&self.pcache);
        median(pairs.map(|(plain, pcache)| pcache / plain).collect())
    }

    /// Seconds that it takes longer: the median of the rounds' differences.
    pub(crate) fn more(&self) -> f64 {
        differences(&self.plain, &self.pcache)
    }

    /// Whether it is above the goal.
    pub(crate) fn is_above(&self) -> bool {
        median(self.pcache.clone()) > MOST_TIMES * median(self.plain.clone()) + MOST_START
    }
}

fn differences(plain: &[f64], pcache: &[f64]) -> f64 {
    let pairs = plain.iter().zip(pcache);
    median(pairs.map(|(plain, pcache)| pcache - plain).collect())
}

impl Results {
    /// Nothing yet, about this machine and the checked-out commit.
    pub(super) fn new(args: &Args) -> Self {
        Self {
            date: crate::support::machine::today(),
            machine: Machine::here(),
            rounds: args.rounds,
            calls: Vec::new(),
            commands: Vec::new(),
            absent: Vec::new(),
        }
    }

    /// The most expensive first.
    pub(super) fn sort(&mut self) {
        self.calls.sort_by(|a, b| b.more().total_cmp(&a.more()));
        self.commands
            .sort_by(|a, b| b.ratio().total_cmp(&a.ratio()));
    }

    /// Reads what was written.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display()))
    }

    /// Writes the file.
    ///
    /// # Errors
    ///
    /// When that fails.
    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let mut text = serde_json::to_string(self)?;
        // A line for each entry, so that two files can be compared.
        text = text.replace("},{", "},\n{").replace(":[{", ":[\n{") + "\n";
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// The tables and what is above the goals, for the terminal.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        if !self.calls.is_empty() {
            text.push_str("ns more  ns plain  often  threads  calls\n");
        }
        for call in &self.calls {
            let _ = writeln!(
                text,
                "{:7.0} {:9.0}  {:5}  {:7}  {}{}{}",
                call.more(),
                median(call.plain.clone()),
                if call.often { "often" } else { "" },
                if call.threads { "threads" } else { "" },
                call.name,
                match call.errors.iter().find(|error| **error != 0) {
                    Some(error) => format!(" (errno {error})"),
                    None => String::new(),
                },
                if call.differs {
                    ", OTHER RESULT UNDER PCACHE"
                } else {
                    ""
                },
            );
        }
        if !self.commands.is_empty() {
            text.push_str("\nratio  CPU    s plain  s more  command\n");
        }
        for command in &self.commands {
            let cpu = median(command.pcache_cpu.clone()) / median(command.plain_cpu.clone());
            let _ = writeln!(
                text,
                "{:5.2} {cpu:5.2} {:9.3} {:7.3}  {}{}",
                command.ratio(),
                median(command.plain.clone()),
                command.more(),
                command.name,
                if command.is_above() {
                    "  (above the goal)"
                } else {
                    ""
                },
            );
        }
        for (name, why) in &self.absent {
            let _ = writeln!(text, "not measured: {name}: {why}");
        }
        let above = self.calls.iter().filter(|call| call.is_above()).count();
        let often = self.calls.iter().filter(|call| call.often).count();
        let _ = writeln!(
            text,
            "{above} of {often} loops of calls that programs make often take over {MOST_MORE} ns more for a call"
        );
        let above = self.commands.iter().filter(|one| one.is_above()).count();
        let all = self.commands.len();
        let _ = writeln!(
            text,
            "{above} of {all} commands take over {MOST_TIMES}x and {MOST_START} s"
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_above_the_goal_by_its_ratio_beyond_the_start() {
        let command = |plain, pcache| CommandCost {
            name: String::new(),
            ecosystem: false,
            plain: vec![plain],
            pcache: vec![pcache],
            plain_cpu: vec![plain],
            pcache_cpu: vec![pcache],
        };
        assert!(!command(0.1, 0.134).is_above());
        assert!(command(0.1, 0.136).is_above());
        assert!(!command(0.001, 0.006).is_above());
    }

    #[test]
    fn the_difference_is_that_of_runs_of_one_round() {
        // The machine became slower meanwhile.
        assert_eq!(differences(&[1.0, 10.0, 2.0], &[2.0, 11.0, 3.0]), 1.0);
    }
}
