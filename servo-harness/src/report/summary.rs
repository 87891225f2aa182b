//! The results of each test: the table that every report is made of.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::model::fisher::{Split, fisher_exact};
use crate::model::outcome::{Counts, Outcome};
use crate::model::wilson::Confidence;
use crate::source::Test;
use crate::store::journal::{Disturbed, Phase, Record, Run, Tamed, beside};

/// A test's runs in a phase, or several.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// All of them.
    pub runs: u64,
    /// Those that came to what was expected.
    pub expected: u64,
    /// Those that came to something else.
    pub unexpected: u64,
    /// Those that crashed.
    pub crash: u64,
    /// Those that did not end in time.
    pub timeout: u64,
    /// The lower bound of the rate of expected ones (Wilson, 95 %).
    pub low: f64,
    /// The upper bound.
    pub high: f64,
    /// The time of the median run in seconds, among those as expected, if there are any; of
    /// replays those on a quiet machine only.
    pub median_seconds: f64,
    /// Runs that left processes behind.
    pub with_leftovers: u64,
    /// Replays that did not go the recorded way.
    pub unfaithful: u64,
}

impl Stats {
    fn of<'a>(runs: impl IntoIterator<Item = &'a Run>) -> Stats {
        let mut counts = Counts::default();
        let (mut times, mut others) = (Vec::new(), Vec::new());
        let mut stats = Stats::default();
        for run in runs {
            counts.add(run.outcome);
            let is_quiet = run.phase.is_plain() || run.phase == Phase::Replay;
            match run.outcome == Outcome::Expected && is_quiet {
                true => times.push(run.seconds),
                false => others.push(run.seconds),
            }
            stats.with_leftovers += u64::from(run.left > 0);
            stats.unfaithful += u64::from(run.faithful == Some(false));
        }
        let interval = counts.expected_rate(Confidence::P95);
        Stats {
            runs: counts.total(),
            expected: counts.of(Outcome::Expected),
            unexpected: counts.of(Outcome::Unexpected),
            crash: counts.of(Outcome::Crash),
            timeout: counts.of(Outcome::Timeout),
            low: interval.map_or(0.0, |interval| interval.low),
            high: interval.map_or(1.0, |interval| interval.high),
            median_seconds: median(if times.is_empty() { others } else { times }),
            ..stats
        }
    }

    /// The rate of expected runs; 0 without runs.
    pub fn rate(&self) -> f64 {
        if self.runs == 0 {
            0.0
        } else {
            self.expected as f64 / self.runs as f64
        }
    }

    /// Whether some of its runs are as expected, and some are not.
    pub fn is_flaky(&self) -> bool {
        (1..self.runs).contains(&self.expected)
    }

    const fn split(&self) -> Split {
        Split {
            yes: self.expected,
            no: self.runs - self.expected,
        }
    }
}

/// The middle value; 0 for none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        len if len % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// A test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub test: String,
    /// As it is.
    pub plain: Stats,
    /// In replays, under whatever circumstances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Stats>,
    /// The time of the median plain run in seconds, among those that took turns with replays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside_seconds: Option<f64>,
    /// Before against after (Fisher, two-sided), times the number of tests (Holm).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// The recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tamed: Option<Tamed>,
    /// Its failures in one process with others, if it passes alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbed: Option<Disturbed>,
    /// The output of the first runs that were not as expected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
}

impl Row {
    /// The time of a replay over that of a plain run at about the same time, if there were
    /// such; `None` if either is unknown.
    pub fn slowdown(&self) -> Option<f64> {
        let replay = self.replay.as_ref().filter(|replay| replay.runs > 0)?;
        let plain = self.beside_seconds.unwrap_or(self.plain.median_seconds);
        (plain > 0.0).then(|| replay.median_seconds / plain)
    }

    /// Whether replays differ from plain runs by more than chance would have it.
    fn is_significant(&self) -> bool {
        self.p.is_some_and(|p| p < 0.05)
    }

    /// Whether no run of the test is unexpected: plain ones, or replays where there are some. Runs
    /// in one process with other tests do not count.
    pub fn is_settled(&self) -> bool {
        matches!(
            self.verdict(),
            "stable" | "cured" | "perhaps cured" | "fails beside others"
        )
    }

    /// Whether it failed as somebody else used the port that it wants (`EADDRINUSE`).
    fn misses_its_port(&self) -> bool {
        let mut outputs = self.outputs.iter();
        outputs
            .any(|output| output.contains("Address already in use") || output.contains("AddrInUse"))
    }

    fn is_disturbed(&self) -> bool {
        let disturbed = self.disturbed.as_ref();
        disturbed.is_some_and(|disturbed| !disturbed.beside.is_empty())
    }

    /// The engines that do not cure the test, with the reason, and the one that does if it was
    /// not the first: a line for each.
    pub fn engines(&self) -> Vec<String> {
        let Some(tamed) = &self.tamed else {
            return Vec::new();
        };
        let tried = tamed.tried.iter().map(|tried| (&tried.engine, &tried.why));
        let last = tamed.problem.iter().map(|why| (&tamed.engine, why));
        let failed = tried.chain(last.filter(|_| tamed.artefact.is_none()));
        let mut lines: Vec<String> = failed
            .map(|(engine, why)| format!("not cured by {engine}: {why}"))
            .collect();
        if tamed.artefact.is_some() && !tamed.tried.is_empty() {
            lines.push(format!("replayed by {}", tamed.engine));
        }
        lines
    }

    /// The verdict on the test.
    pub fn verdict(&self) -> &'static str {
        let plain = &self.plain;
        match &self.replay {
            Some(replay) if replay.runs > 0 => match (replay.rate(), plain.rate()) {
                _ if replay.expected == replay.runs
                    && replay.unfaithful == 0
                    && plain.expected == plain.runs =>
                {
                    "stable"
                }
                _ if replay.expected == replay.runs && replay.unfaithful == 0 => {
                    if self.is_significant() {
                        "cured"
                    } else {
                        "perhaps cured"
                    }
                }
                (after, before) if after > before && self.is_significant() => "better",
                (after, before) if after < before && self.is_significant() => "worse",
                _ => "not cured",
            },
            _ if plain.runs == 0 => "not run",
            _ if plain.is_flaky() => "intermittent",
            _ if plain.expected == plain.runs && self.is_disturbed() => "fails beside others",
            _ if plain.expected == plain.runs => "stable",
            _ => "always fails",
        }
    }
}

/// The tests of a suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// In the order of the suite.
    pub tests: Vec<Row>,
    /// Whether the processes of each run were in a namespace of their own.
    pub isolated: bool,
    /// Whether it came to its end.
    pub complete: bool,
}

impl Summary {
    /// Sums up what is known of these tests.
    pub fn of<'a>(
        tests: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
        records: &[Record],
        isolated: bool,
        complete: bool,
    ) -> Summary {
        let mut by_test: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
        let mut tamed: BTreeMap<&str, &Tamed> = BTreeMap::new();
        let mut disturbed: BTreeMap<&str, &Disturbed> = BTreeMap::new();
        for record in records {
            match record {
                Record::Run(run) => by_test.entry(&run.test).or_default().push(run),
                Record::Tamed(found) => {
                    tamed.insert(&found.test, found);
                }
                Record::Disturbed(found) => {
                    disturbed.insert(&found.test, found);
                }
                Record::Journal { .. } | Record::Together(_) => {}
            }
        }
        let row = |(name, subject): (&str, Option<&str>)| {
            let all = by_test.get(name).map_or(&[][..], Vec::as_slice);
            let tamed = tamed.get(name).copied();
            let of = |phase| {
                move |run: &&&Run| {
                    run.phase == phase && subject.is_none_or(|subject| run.subject == subject)
                }
            };
            let plain = of(Phase::Plain);
            let replay = |run: &&&Run| {
                !run.phase.is_plain() && tamed.is_some_and(|tamed| run.subject == tamed.recording)
            };
            let replays = Stats::of(all.iter().filter(replay).copied());
            let own = subject.zip(tamed);
            let own = own.map(|(subject, tamed)| beside(subject, &tamed.engine));
            let is_beside = |run: &&&Run| {
                run.phase == Phase::Beside && own.as_ref().is_none_or(|own| run.subject == *own)
            };
            let beside = Stats::of(all.iter().filter(is_beside).copied());
            let outputs = all
                .iter()
                .filter(&plain)
                .filter_map(|run| run.output.clone());
            Row {
                test: name.to_owned(),
                plain: Stats::of(all.iter().filter(&plain).copied()),
                replay: (replays.runs > 0).then_some(replays),
                beside_seconds: (beside.runs > 0).then_some(beside.median_seconds),
                p: None,
                outputs: outputs.collect(),
                disturbed: disturbed
                    .get(name)
                    .filter(|found| subject.is_none_or(|subject| found.subject == subject))
                    .filter(|found| found.failed.0 > 0)
                    .map(|found| Disturbed::clone(found)),
                tamed: tamed.cloned(),
            }
        };
        let mut rows: Vec<Row> = tests.into_iter().map(row).collect();
        holm(&mut rows);
        Summary {
            tests: rows,
            isolated,
            complete,
        }
    }

    /// Sums up a survey of these tests.
    pub fn of_tests(tests: &[Test], records: &[Record], isolated: bool, complete: bool) -> Summary {
        let names = tests
            .iter()
            .map(|test| (test.name.as_str(), Some(test.subject.as_str())));
        Summary::of(names, records, isolated, complete)
    }

    /// The tests whose runs disagree.
    pub fn flaky(&self) -> impl Iterator<Item = &Row> {
        self.tests.iter().filter(|row| row.plain.is_flaky())
    }

    /// Writes the table for people: tests that are stable are only counted.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let odd: Vec<&Row> = self
            .tests
            .iter()
            .filter(|row| row.verdict() != "stable")
            .collect();
        let width = odd.iter().map(|row| row.test.len()).max().unwrap_or(0);
        let width = width.max("    in replay".len());
        if !odd.is_empty() {
            writeln!(
                out,
                "{:width$}  {:>13}  {:>12}  {:>10}  {:>5}  {:>7}  {:>8}  verdict",
                "test", "expected", "95 %", "unexpected", "crash", "timeout", "median"
            )?;
        }
        for row in odd {
            line(out, width, &row.test, &row.plain, row.verdict())?;
            if let Some(replay) = &row.replay {
                let p = row.p.map_or_else(String::new, |p| format!("p = {p:.2e}"));
                line(out, width, "    in replay", replay, &p)?;
            }
            if row.is_disturbed() {
                for line in row.disturbed.iter().flat_map(Disturbed::lines) {
                    writeln!(out, "    {line}")?;
                }
            }
            for line in row.engines() {
                writeln!(out, "    {line}")?;
            }
        }
        let stable = self
            .tests
            .iter()
            .filter(|row| row.verdict() == "stable")
            .count();
        let flaky = self.flaky().count();
        let litter = |row: &&Row| row.plain.with_leftovers > 0;
        for row in self.tests.iter().filter(litter) {
            let (some, all) = (row.plain.with_leftovers, row.plain.runs);
            writeln!(
                out,
                "{}: {some} of {all} runs left processes behind",
                row.test
            )?;
        }
        for row in self.flaky().filter(|row| row.misses_its_port()) {
            writeln!(
                out,
                "{}: an address was in use, perhaps by another run: try `--isolation network`",
                row.test
            )?;
        }
        for row in self.tests.iter().filter(|row| !row.is_disturbed()) {
            for line in row.disturbed.iter().flat_map(Disturbed::lines) {
                writeln!(out, "{}: {line}", row.test)?;
            }
        }
        writeln!(
            out,
            "{} tests: {stable} stable, {flaky} intermittent, {} other",
            self.tests.len(),
            self.tests.len() - stable - flaky
        )
    }
}

fn line(
    out: &mut dyn Write,
    width: usize,
    name: &str,
    stats: &Stats,
    verdict: &str,
) -> io::Result<()> {
    writeln!(
        out,
        "{name:width$}  {:>13}  {:>12}  {:>10}  {:>5}  {:>7}  {:>8}  {verdict}",
        format!("{} of {}", stats.expected, stats.runs),
        format!("{:.1}-{:.1}", stats.low * 100.0, stats.high * 100.0),
        stats.unexpected,
        stats.crash,
        stats.timeout,
        seconds(stats.median_seconds),
    )
}

/// A time, short.
pub(crate) fn seconds(seconds: f64) -> String {
    match seconds {
        ..0.001 => format!("{:.0} µs", seconds * 1e6),
        ..1.0 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{seconds:.1} s"),
    }
}

/// Before against after for each test with both, corrected for their number (Holm 1979).
fn holm(rows: &mut [Row]) {
    let p = |row: &Row| {
        let replay = row.replay.as_ref()?;
        (row.plain.runs > 0).then(|| fisher_exact(row.plain.split(), replay.split()))
    };
    let mut found: Vec<(usize, f64)> = rows
        .iter()
        .enumerate()
        .filter_map(|(index, row)| Some((index, p(row)?)))
        .collect();
    found.sort_by(|a, b| a.1.total_cmp(&b.1));
    let count = found.len();
    let mut at_least = 0.0_f64;
    for (rank, (index, p)) in found.into_iter().enumerate() {
        at_least = at_least.max((p * (count - rank) as f64).min(1.0));
        rows[index].p = Some(at_least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(test: &str, phase: Phase, outcome: Outcome) -> Record {
        Record::Run(Run {
            test: test.to_owned(),
            subject: if phase == Phase::Plain { "s" } else { "r" }.to_owned(),
            phase,
            outcome,
            ending: String::new(),
            seconds: 0.25,
            left: 0,
            faithful: (phase != Phase::Plain).then_some(true),
            output: None,
        })
    }

    fn runs(test: &str, phase: Phase, expected: usize, odd: usize) -> Vec<Record> {
        let one = |outcome| run(test, phase, outcome);
        let expected = std::iter::repeat_n(one(Outcome::Expected), expected);
        expected
            .chain(std::iter::repeat_n(one(Outcome::Crash), odd))
            .collect()
    }

    fn tamed(test: &str) -> Record {
        Record::Tamed(Tamed {
            test: test.to_owned(),
            subject: "s".to_owned(),
            engine: "e".to_owned(),
            recording: "r".to_owned(),
            artefact: None,
            bytes: 0,
            events: 0,
            attempts: 1,
            of_expected: true,
            problem: None,
            tried: Vec::new(),
        })
    }

    #[test]
    fn runs_are_summed_up_by_test_and_phase() {
        let mut records = runs("a", Phase::Plain, 60, 40);
        records.extend(runs("b", Phase::Plain, 100, 0));
        records.push(tamed("a"));
        records.extend(runs("a", Phase::Replay, 50, 0));
        records.extend(runs("a", Phase::Loaded, 50, 0));
        let names = [("a", None), ("b", None), ("c", None)];
        let summary = Summary::of(names, &records, true, true);
        let verdicts: Vec<_> = summary.tests.iter().map(Row::verdict).collect();
        assert_eq!(verdicts, ["cured", "stable", "not run"]);
        assert!(summary.tests[0].p.unwrap() < 1e-9);
        assert_eq!(summary.tests[0].slowdown(), Some(1.0));
        assert_eq!(summary.flaky().count(), 1);
        let mut text = Vec::new();
        summary.text(&mut text).unwrap();
        insta::assert_snapshot!(String::from_utf8(text).unwrap(), @r"
        test                expected          95 %  unexpected  crash  timeout    median  verdict
        a                  60 of 100     50.2-69.1           0     40        0  250.0 ms  cured
            in replay     100 of 100    96.3-100.0           0      0        0  250.0 ms  p = 1.34e-14
        c                     0 of 0     0.0-100.0           0      0        0      0 µs  not run
        3 tests: 1 stable, 1 intermittent, 1 other
        ");
    }

    #[test]
    fn a_difference_that_may_be_chance_is_no_cure() {
        let mut records = runs("a", Phase::Plain, 59, 1);
        records.push(tamed("a"));
        records.extend(runs("a", Phase::Replay, 40, 0));
        let summary = Summary::of([("a", None)], &records, true, true);
        let row = &summary.tests[0];
        assert_eq!((row.verdict(), row.is_settled()), ("perhaps cured", true));
    }

    #[test]
    fn a_test_that_never_passes_always_fails_in_whatever_way() {
        let mut records = runs("a", Phase::Plain, 0, 3);
        records.push(run("a", Phase::Plain, Outcome::Timeout));
        let summary = Summary::of([("a", None)], &records, true, true);
        assert_eq!(summary.tests[0].verdict(), "always fails");
    }

    #[test]
    fn runs_of_what_has_changed_since_do_not_count() {
        let records = runs("a", Phase::Plain, 3, 1);
        let summary = Summary::of([("a", Some("other"))], &records, true, true);
        assert_eq!(summary.tests[0].plain.runs, 0);
    }

    #[test]
    fn p_values_are_corrected_for_the_number_of_tests() {
        let mut records = Vec::new();
        for test in ["a", "b"] {
            records.extend(runs(test, Phase::Plain, 92, 8));
            records.push(tamed(test));
            records.extend(runs(test, Phase::Replay, 100, 0));
        }
        let one = Summary::of([("a", None)], &records, true, true);
        let two = Summary::of([("a", None), ("b", None)], &records, true, true);
        let [one, two] = [one, two].map(|summary| summary.tests[0].p.unwrap());
        assert!((two - 2.0 * one).abs() < 1e-12);
    }
}
