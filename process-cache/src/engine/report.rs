//! The report of a run.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::journal::Collector;
use crate::model::fate::{Fate, Line, Summary};
use crate::platform::lock::lock;
use crate::remote::Remote;

/// All contents of a report.
#[derive(Debug, Clone, Default)]
pub struct Report {
    lines: Arc<Mutex<Vec<Line>>>,
    journal: Arc<Mutex<Collector>>,
    remote: Option<Arc<Remote>>,
}

impl Report {
    /// The journal of the run.
    pub fn journal(&self) -> MutexGuard<'_, Collector> {
        lock(&self.journal)
    }

    /// Creates a report that includes a remote cache.
    pub fn with(remote: Option<Arc<Remote>>) -> Self {
        Self {
            remote,
            ..Self::default()
        }
    }

    /// Returns the remote cache of this report.
    pub fn remote(&self) -> Option<&Remote> {
        self.remote.as_deref()
    }

    /// Adds a line.
    pub fn add(&self, line: Line) {
        self.journal()
            .end(line.record, line.wall_us, line.fate.clone(), line.serial);
        lock(&self.lines).push(line);
    }

    /// Returns the lines so far, by unit.
    pub fn lines(&self) -> Vec<Line> {
        let mut lines = lock(&self.lines).clone();
        lines.sort_by_key(|line| line.unit);
        lines
    }

    /// Returns the totals.
    pub fn summary(&self) -> Summary {
        let mut sum = Summary::default();
        for line in lock(&self.lines).iter() {
            sum.units += 1;
            match &line.fate {
                Fate::Hit {
                    recorded_us,
                    took_us,
                    units,
                } => {
                    sum.hits += 1;
                    sum.skipped_units += u64::from(*units);
                    sum.saved_us += *recorded_us as i64 - *took_us as i64;
                }
                Fate::Stored => sum.stored += 1,
                Fate::NotStored { .. } => sum.not_stored += 1,
            }
        }
        sum
    }

    /// Returns the summary line for the end of a run.
    pub fn one_line(&self) -> String {
        let sum = self.summary();
        let mut out = String::from("pcache: ");
        if sum.units == 1 && sum.hits == 1 {
            let _ = write!(out, "skipped ({} unchanged)", units(sum.skipped_units));
        } else {
            let _ = write!(out, "{}, {} skipped", units(sum.units), sum.hits);
        }
        if sum.hits > 0 {
            if sum.saved_us >= 0 {
                let _ = write!(out, ", saved {}", seconds(sum.saved_us));
            } else {
                let _ = write!(out, ", lost {}", seconds(-sum.saved_us));
            }
        }
        if let Some(remote) = self.remote() {
            let summary = remote.summary();
            let (hits, stored) = (summary.hits, summary.stored);
            let _ = write!(out, "; remote: {hits} found, {stored} stored");
        }
        if let Some(reason) = self.why_not_the_whole() {
            let _ = write!(out, "; the command is not cached: {reason}");
        }
        out
    }

    /// Names a command that shows more, if some units ran and others did not.
    pub fn hint(&self) -> Option<&'static str> {
        let sum = self.summary();
        (sum.hits > 0 && sum.stored > 0).then_some("; `pcache why` says why the others ran")
    }

    /// Returns why the command as a whole was not stored. Uncacheable units below a stored unit do
    /// not matter here.
    fn why_not_the_whole(&self) -> Option<String> {
        let lines = lock(&self.lines);
        lines.iter().find_map(|line| match &line.fate {
            Fate::NotStored { reason } if line.unit == 1 => Some(reason.clone()),
            _ => None,
        })
    }

    /// Returns the output of `pcache verify`.
    pub fn verified(&self) -> String {
        let lines = self.lines();
        let compared = lines.iter().filter(|line| line.differences.is_some());
        let differ = |line: &&Line| line.differences.as_ref().is_some_and(|d| !d.is_empty());
        let different: Vec<&Line> = lines.iter().filter(differ).collect();
        let mut out = format!(
            "pcache: {} ran again with unchanged inputs, {} with different results\n",
            units(compared.count() as u64),
            different.len()
        );
        for line in different {
            let _ = writeln!(out, "  {}", line.command);
            for what in line.differences.iter().flatten().take(10) {
                let _ = writeln!(out, "    {what}");
            }
        }
        out
    }

    /// Returns the output of `--explain`.
    pub fn explain(&self) -> String {
        let mut out = String::new();
        for line in self.lines() {
            let indent = "  ".repeat(line.depth as usize);
            let (mark, text) = match &line.fate {
                Fate::Hit {
                    recorded_us, units, ..
                } => (
                    "hit ",
                    format!(
                        "{units} units, {} when it ran",
                        seconds(*recorded_us as i64)
                    ),
                ),
                Fate::Stored => ("miss", line.miss.clone()),
                Fate::NotStored { reason } => ("run ", format!("not cached: {reason}")),
            };
            let bound = line
                .bound
                .as_ref()
                .map(|why| format!("; this directory only: {why}"));
            let bound = bound.unwrap_or_default();
            let _ = writeln!(out, "{mark} {indent}{}  ({text}{bound})", line.command);
        }
        out
    }
}

fn units(count: u64) -> String {
    format!("{count} unit{}", if count == 1 { "" } else { "s" })
}

/// Formats a duration.
pub fn seconds(us: i64) -> String {
    match us {
        0..=999 => format!("{us} µs"),
        1_000..=999_999 => format!("{:.0} ms", us as f64 / 1e3),
        1_000_000..=59_999_999 => format!("{:.2} s", us as f64 / 1e6),
        _ => format!("{} min {} s", us / 60_000_000, us / 1_000_000 % 60),
    }
}
