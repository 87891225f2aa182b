//! The measurements, as JSON and as tables.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Serialize;

use super::measure::Cost;
use super::scenario::{ALL, Scenario};
use crate::support::machine::{Machine, today};
use crate::support::median::median;

/// The tool that a measurement ran under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Runner {
    /// Nothing.
    Plain,
    /// The thing under test.
    Pcache,
    /// The compiler cache that people use today.
    Ccache,
}

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct Measurement {
    /// Name of the workload.
    pub(super) workload: &'static str,
    /// The change before the run.
    pub(super) scenario: Scenario,
    /// Which repetition.
    pub(super) round: usize,
    /// The tool that it ran under.
    pub(super) runner: Runner,
    /// Its times.
    #[serde(flatten)]
    pub(super) cost: Cost,
    /// Exec-units that pcache reported.
    pub(super) units: u64,
    /// Of them, those it skipped.
    pub(super) hits: u64,
    /// Why pcache did not store the command as a whole, if it did not.
    pub(super) not_stored: Option<String>,
    /// The summary of pcache's remote cache.
    pub(super) remote: Option<serde_json::Value>,
}

/// Whether a run under pcache left what the plain one left.
#[derive(Debug, Serialize)]
pub(super) struct Verdict {
    /// Name of the workload.
    pub(super) workload: &'static str,
    /// The change before the run.
    pub(super) scenario: Scenario,
    /// Which repetition.
    pub(super) round: usize,
    /// The differences; empty when the trees are equal.
    pub(super) differences: Vec<String>,
    /// The files that differ between plain builds too: their contents are not compared.
    pub(super) unstable: Vec<String>,
}

/// Everything a run of the workloads found.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The day, as `2026-01-31` (UTC).
    date: String,
    machine: Machine,
    rounds: usize,
    pub(super) measurements: Vec<Measurement>,
    pub(super) verdicts: Vec<Verdict>,
    /// Workloads that could not run here, and why.
    pub(super) skipped: Vec<(String, String)>,
    /// Workloads that could not be fetched or built, and why.
    pub(super) failed: Vec<(String, String)>,
}

impl Report {
    /// An empty report about this machine and the checked-out commit.
    pub(super) fn new(rounds: usize) -> Self {
        Self {
            date: today(),
            machine: Machine::here(),
            rounds,
            measurements: Vec::new(),
            verdicts: Vec::new(),
            skipped: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Notes that a workload came to nothing.
    pub(super) fn failed(&mut self, workload: &str, error: &anyhow::Error) {
        let why = format!("{error:#}");
        eprintln!("{workload} failed: {why}");
        self.failed.push((workload.to_owned(), why));
    }

    /// Whether everything was built, and every tree was equal.
    pub(super) fn all_equal(&self) -> bool {
        self.failed.is_empty()
            && self
                .verdicts
                .iter()
                .all(|verdict| verdict.differences.is_empty())
    }

    /// The tables, as Markdown.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!(
            "{}, {} x {}, Linux {}, commit {}; medians of {} rounds, wall and CPU seconds plainly, otherwise ratios to the plain run of the same round\n\n",
            self.date,
            self.machine.processors,
            self.machine.processor,
            self.machine.kernel,
            self.machine.commit,
            self.rounds
        );
        self.overview(&mut text);
        self.scenarios(&mut text);
        for (name, why) in &self.skipped {
            let _ = writeln!(text, "skipped {name}: {why}");
        }
        for (name, why) in &self.failed {
            let _ = writeln!(text, "FAILED {name}: {why}");
        }
        text
    }

    fn overview(&self, text: &mut String) {
        text.push_str("| workload | plain wall | plain CPU | cold wall | cold CPU | warm wall | warm CPU | nothing to do | again | ccache cold wall | ccache cold CPU | ccache warm wall | ccache warm CPU |\n");
        text.push_str("|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
        for workload in self.workloads() {
            let plain = self.cost(workload, Scenario::Cold, Runner::Plain);
            let _ = write!(
                text,
                "| {workload} | {} | {} |",
                seconds(plain.map(|c| c.wall)),
                seconds(plain.map(|c| c.cpu))
            );
            for runner in [Runner::Pcache, Runner::Ccache] {
                let of = |scenario, part| self.ratio(workload, scenario, runner, part);
                let _ = write!(
                    text,
                    " {} | {} | {} | {} |",
                    ratio(of(Scenario::Cold, |c| c.wall)),
                    ratio(of(Scenario::Cold, |c| c.cpu)),
                    speedup(of(Scenario::Warm, |c| c.wall)),
                    speedup(of(Scenario::Warm, |c| c.cpu)),
                );
                if runner == Runner::Pcache {
                    for nothing in [Scenario::Nothing, Scenario::NothingAgain] {
                        let _ = write!(text, " {} |", ratio(of(nothing, |c| c.wall)));
                    }
                }
            }
            text.push('\n');
        }
        text.push('\n');
    }

    fn scenarios(&self, text: &mut String) {
        text.push_str(
            "| workload | scenario | plain wall | pcache wall | ratio | hits of units | tree |\n",
        );
        text.push_str("|---|---|---|---|---|---|---|\n");
        for workload in self.workloads() {
            for scenario in ALL {
                let plain = self.cost(workload, scenario, Runner::Plain);
                let cached = self.cost(workload, scenario, Runner::Pcache);
                if plain.is_none() && cached.is_none() {
                    continue;
                }
                let last = self.runs(workload, scenario, Runner::Pcache).last();
                let verdicts = self
                    .verdicts
                    .iter()
                    .filter(|v| v.workload == workload && v.scenario == scenario);
                let name = clap::ValueEnum::to_possible_value(&scenario)
                    .map_or_else(String::new, |v| v.get_name().to_owned());
                let _ = writeln!(
                    text,
                    "| {workload} | {name} | {} | {} | {} | {} | {} |",
                    seconds(plain.map(|c| c.wall)),
                    seconds(cached.map(|c| c.wall)),
                    ratio(self.ratio(workload, scenario, Runner::Pcache, |c| c.wall)),
                    last.map_or_else(String::new, |run| format!("{} of {}", run.hits, run.units)),
                    tree(verdicts),
                );
            }
        }
        text.push('\n');
        for workload in self.workloads() {
            let verdicts = self.verdicts.iter().filter(|v| v.workload == workload);
            let paths: BTreeSet<_> = verdicts.flat_map(|v| &v.unstable).collect();
            if !paths.is_empty() {
                let paths: Vec<_> = paths.into_iter().map(String::as_str).collect();
                let _ = writeln!(
                    text,
                    "{workload}: these differ between plain builds too: {}",
                    paths.join(", ")
                );
            }
        }
        for verdict in self
            .verdicts
            .iter()
            .filter(|verdict| !verdict.differences.is_empty())
        {
            let _ = writeln!(
                text,
                "{} {:?}, round {}:",
                verdict.workload, verdict.scenario, verdict.round
            );
            for line in verdict.differences.iter().take(10) {
                let _ = writeln!(text, "    {line}");
            }
        }
    }

    fn workloads(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.measurements.iter().map(|run| run.workload).collect();
        names.dedup();
        names
    }

    fn runs(
        &self,
        workload: &str,
        scenario: Scenario,
        runner: Runner,
    ) -> impl Iterator<Item = &Measurement> {
        self.measurements.iter().filter(move |run| {
            run.workload == workload && run.scenario == scenario && run.runner == runner
        })
    }

    fn cost(&self, workload: &str, scenario: Scenario, runner: Runner) -> Option<Cost> {
        self.runs(workload, scenario, runner).next()?;
        let of = |part: fn(&Cost) -> f64| {
            median(
                self.runs(workload, scenario, runner)
                    .map(|run| part(&run.cost))
                    .collect(),
            )
        };
        Some(Cost {
            wall: of(|cost| cost.wall),
            cpu: of(|cost| cost.cpu),
        })
    }

    /// The cost of a runner, compared with the plain run of the same round.
    fn ratio(
        &self,
        workload: &str,
        scenario: Scenario,
        runner: Runner,
        part: fn(&Cost) -> f64,
    ) -> Option<f64> {
        let of = |runner| {
            let runs = self.runs(workload, scenario, runner);
            runs.map(|run| part(&run.cost)).collect()
        };
        middle_ratio(of(runner), of(Runner::Plain))
    }
}

/// The verdict on the trees of a scenario, in a word or two.
fn tree<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> String {
    let (mut different, mut unstable) = (false, 0);
    for verdict in verdicts {
        different |= !verdict.differences.is_empty();
        unstable = unstable.max(verdict.unstable.len());
    }
    match (different, unstable) {
        (true, _) => "DIFFERS".into(),
        (false, 0) => "equal".into(),
        (false, n) => format!("equal but for {n} that differ plainly too"),
    }
}

/// The middle of the rounds' ratios: the two of a round follow each other, so
/// that a machine that is slower for a while is so for both.
fn middle_ratio(values: Vec<f64>, to: Vec<f64>) -> Option<f64> {
    let pairs = values.into_iter().zip(to).filter(|(_, to)| *to > 0.0);
    let ratios: Vec<f64> = pairs.map(|(value, to)| value / to).collect();
    (!ratios.is_empty()).then(|| median(ratios))
}

fn seconds(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.3}"))
}

fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.2}"))
}

fn speedup(ratio: Option<f64>) -> String {
    match ratio.filter(|ratio| *ratio > 0.0) {
        Some(ratio) => format!("{:.1}x faster", 1.0 / ratio),
        None => "-".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_within_rounds() {
        // The second round was slow, for both.
        let found = middle_ratio(vec![2.0, 20.0, 3.0], vec![1.0, 10.0, 1.0]);
        assert_eq!(found, Some(2.0));
        assert_eq!(middle_ratio(vec![1.0], vec![]), None);
        assert_eq!(middle_ratio(vec![1.0], vec![0.0]), None);
    }

    #[test]
    fn what_was_not_compared_is_told() {
        let verdict = |differences: &[&str], unstable: &[&str]| {
            let owned = |lines: &[&str]| lines.iter().map(|line| (*line).into()).collect();
            Verdict {
                workload: "w",
                scenario: Scenario::Cold,
                round: 1,
                differences: owned(differences),
                unstable: owned(unstable),
            }
        };
        let told = |verdicts: &[Verdict]| tree(verdicts.iter());
        assert_eq!(told(&[verdict(&[], &[])]), "equal");
        assert_eq!(
            told(&[verdict(&[], &["a", "b"]), verdict(&[], &[])]),
            "equal but for 2 that differ plainly too"
        );
        assert_eq!(
            told(&[verdict(&["c"], &["a"]), verdict(&[], &[])]),
            "DIFFERS"
        );
    }
}
