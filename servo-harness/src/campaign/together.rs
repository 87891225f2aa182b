//! Finds tests that disturb each other: they pass alone, and fail in one process with others.
//!
//! `cargo test` runs the tests of an executable in one process, a few at the same time. They share
//! statics, the environment, the working directory, files and ports. So the whole executable is run
//! several times, with few threads and many, in the order of names and in random ones. Where a test
//! fails that always passes alone, others beside which it fails are looked for: fewer and fewer
//! (delta debugging: Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Context as _;
use serde::Deserialize;

use super::runs::{CampaignContext, Ended, Settings};
use crate::model::outcome::Outcome;
use crate::platform::load::processors;
use crate::platform::lock::lock;
use crate::sandbox::{Ending, Job, Sandbox};
use crate::source::{Executable, Test};
use crate::store::journal::{Disturbed, Order, Phase, Record, Together, counts};

/// So much of the output is kept, in bytes from each end: some hundred for each test.
const OUTPUT: usize = 16 << 20;
/// Runs for one question, as a failure does not come each time; with one thread only the order
/// differs.
const TRIES: u64 = 6;
/// Runs for one test, at most.
const MOST_RUNS: u64 = 150;
/// Tests of an executable for which others are looked for, at most.
const MOST_TESTS: usize = 8;

/// Runs executables of these tests that many times each, and looks into what fails.
///
/// # Errors
/// If a run cannot be made or not be written down.
pub(crate) fn run(
    tests: &[Test],
    times: u64,
    settings: &Settings,
    context: &CampaignContext<'_>,
) -> anyhow::Result<Ended> {
    let mut groups: BTreeMap<&str, Vec<Member<'_>>> = BTreeMap::new();
    for test in tests {
        if let Some(executable) = &test.executable {
            let group = groups.entry(&executable.subject).or_default();
            group.push(Member { test, executable });
        }
    }
    for members in groups.into_values().filter(|group| group.len() > 1) {
        let group = Group {
            subject: digest(&members),
            members,
            settings,
            context,
        };
        if group.run(times)? == Ended::Interrupted {
            return Ok(Ended::Interrupted);
        }
    }
    Ok(Ended::Whole)
}

/// A test, and its executable.
#[derive(Debug, Clone, Copy)]
struct Member<'a> {
    test: &'a Test,
    executable: &'a Executable,
}

/// The digest of an executable and of these of its tests.
fn digest(members: &[Member<'_>]) -> String {
    let mut hasher = blake3::Hasher::new();
    for member in members {
        hasher.update(member.test.subject.as_bytes());
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

/// What an executable says of a test.
#[derive(Debug, Deserialize)]
struct Said {
    #[serde(rename = "type")]
    of: String,
    event: String,
    #[serde(default)]
    name: String,
}

/// Tests that began in a run, and those of them that succeeded.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    begun: BTreeSet<String>,
    succeeded: BTreeSet<String>,
}

impl Seen {
    /// Reads the executable's reports. Tests may write between them, even in their lines.
    fn of(text: &str) -> Seen {
        let mut seen = Seen::default();
        let lines = text.lines().filter_map(|line| {
            let start = line.rfind("{ \"type\": \"test\"")?;
            serde_json::from_str::<Said>(&line[start..]).ok()
        });
        for said in lines.filter(|said| said.of == "test") {
            match said.event.as_str() {
                "started" => seen.begun.insert(said.name),
                "ok" | "ignored" => seen.succeeded.insert(said.name),
                _ => false,
            };
        }
        seen
    }

    fn failed(&self) -> impl Iterator<Item = &String> {
        self.begun.difference(&self.succeeded)
    }
}

/// The tests of an executable.
struct Group<'a> {
    members: Vec<Member<'a>>,
    /// The digest of the executable and the tests.
    subject: String,
    settings: &'a Settings,
    context: &'a CampaignContext<'a>,
}

impl Group<'_> {
    fn run(&self, times: u64) -> anyhow::Result<Ended> {
        let mut known = self.known();
        for number in known.len() as u64..times {
            let threads = self
                .members
                .first()
                .and_then(|member| member.executable.threads);
            let order = order(number, threads);
            let Some(seen) = self.once(&self.members, order)? else {
                return Ok(Ended::Interrupted);
            };
            if seen.begun.is_empty() {
                // Not Rust's own test harness.
                return Ok(Ended::Whole);
            }
            let together = Together {
                subject: self.subject.clone(),
                order,
                failed: seen.failed().cloned().collect(),
            };
            lock(self.context.results).add(Record::Together(together.clone()))?;
            known.push(together);
        }
        let mut looked_for = 0;
        for member in &self.members {
            let name = &member.executable.name;
            let failed = known.iter().filter(|run| run.failed.contains(name));
            let orders: Vec<Order> = failed.map(|run| run.order).collect();
            let Some(order) = orders.iter().min_by_key(|order| order.threads) else {
                continue;
            };
            if !self.passes_alone(member) || self.is_explained(member, orders.len(), known.len()) {
                continue;
            }
            looked_for += 1;
            let found = match looked_for <= MOST_TESTS {
                true => self.disturbers(member, *order)?,
                false => Found::Nothing("others were not looked for".to_owned(), *order),
            };
            let (beside, why, order) = match found {
                Found::Interrupted => return Ok(Ended::Interrupted),
                Found::Alone => continue,
                Found::Beside(beside, order) => (beside, None, order),
                Found::Nothing(why, order) => (Vec::new(), Some(why), order),
            };
            let all = match beside.is_empty() {
                true => self.members.clone(),
                false => beside.iter().copied().chain([*member]).collect(),
            };
            let disturbed = Disturbed {
                test: member.test.name.clone(),
                subject: member.test.subject.clone(),
                failed: (orders.len() as u64, known.len() as u64),
                beside: beside.iter().map(|other| other.test.name.clone()).collect(),
                why,
                command: self.command(&all, order),
            };
            lock(self.context.results).add(Record::Disturbed(disturbed))?;
        }
        Ok(Ended::Whole)
    }

    /// The runs of all that are written down.
    fn known(&self) -> Vec<Together> {
        let results = lock(self.context.results);
        let runs = results.records.iter().filter_map(|record| match record {
            Record::Together(run) if run.subject == self.subject => Some(run.clone()),
            _ => None,
        });
        runs.collect()
    }

    /// Whether each of the plain runs of a test was as expected, and there were some.
    fn passes_alone(&self, member: &Member<'_>) -> bool {
        let test = member.test;
        let results = lock(self.context.results);
        let counts = counts(&results.records, &test.name, &test.subject, Phase::Plain);
        counts.total() > 0 && counts.of(Outcome::Expected) == counts.total()
    }

    /// Whether it is written down already what is known of a test.
    fn is_explained(&self, member: &Member<'_>, failed: usize, runs: usize) -> bool {
        let results = lock(self.context.results);
        results.records.iter().any(|record| match record {
            Record::Disturbed(known) => {
                known.test == member.test.name
                    && known.subject == member.test.subject
                    && known.failed == (failed as u64, runs as u64)
            }
            _ => false,
        })
    }

    /// Runs these tests in one process; `None` if it was interrupted.
    fn once(&self, members: &[Member<'_>], order: Order) -> anyhow::Result<Option<Seen>> {
        let Some(job) = self.job(members, order) else {
            return Ok(Some(Seen::default()));
        };
        let limit = self.settings.limit;
        let sandbox = Sandbox {
            isolation: self.settings.isolation,
            limit: limit + Duration::from_secs_f64(2.0 * self.seconds(members)),
            scratch: self.context.scratch.slot(0)?,
            number: 0,
        };
        let ran = sandbox
            .run_keeping(&job, self.context.interrupt, OUTPUT)
            .with_context(|| format!("running {}", job.program.display()))?;
        Ok(match &ran.ending {
            Ending::Interrupted => None,
            Ending::NotStarted(why) => {
                anyhow::bail!("{} cannot be started: {why}", job.program.display())
            }
            _ => Some(Seen::of(&ran.stdout.text())),
        })
    }

    /// The time that the tests take one after the other, in seconds.
    fn seconds(&self, members: &[Member<'_>]) -> f64 {
        let mut longest: BTreeMap<&str, f64> = BTreeMap::new();
        let results = lock(self.context.results);
        for record in &results.records {
            if let Record::Run(run) = record
                && run.phase == Phase::Plain
            {
                let time = longest.entry(&run.test).or_default();
                *time = time.max(run.seconds);
            }
        }
        let times = members.iter();
        times
            .filter_map(|member| longest.get(member.test.name.as_str()))
            .sum()
    }

    /// The command that runs these tests.
    fn job(&self, members: &[Member<'_>], order: Order) -> Option<Job> {
        let mut job = members.first()?.executable.job.clone();
        job.args.push("--exact".into());
        let names = members.iter().map(|member| &member.executable.name);
        job.args.extend(names.map(Into::into));
        job.args
            .push(format!("--test-threads={}", order.threads).into());
        job.args
            .extend(["-Zunstable-options", "--format=json"].map(Into::into));
        if let Some(seed) = order.seed {
            job.args.push(format!("--shuffle-seed={seed}").into());
        }
        // Only so do stable harnesses know these options.
        Some(job.with("RUSTC_BOOTSTRAP", "1"))
    }

    /// The command for people that runs these tests.
    fn command(&self, members: &[Member<'_>], order: Order) -> String {
        let Some(member) = members.first() else {
            return String::new();
        };
        let job = &member.executable.job;
        let mut words = Vec::new();
        if order.seed.is_some() {
            words.push("RUSTC_BOOTSTRAP=1".to_owned());
        }
        words.push(job.program.display().to_string());
        words.extend(
            job.args
                .iter()
                .map(|arg| arg.to_string_lossy().into_owned()),
        );
        if members.len() < self.members.len() {
            words.push("--exact".to_owned());
            words.extend(members.iter().map(|member| member.executable.name.clone()));
        }
        words.push(format!("--test-threads={}", order.threads));
        if let Some(seed) = order.seed {
            words.extend([
                "-Zunstable-options".to_owned(),
                format!("--shuffle-seed={seed}"),
            ]);
        }
        words.join(" ")
    }

    /// Looks for few other tests beside which a test fails.
    fn disturbers(&self, member: &Member<'_>, order: Order) -> anyhow::Result<Found<'_>> {
        let mut search = Search {
            group: self,
            member,
            order,
            runs: 0,
        };
        match search.fails(&[], 2 * TRIES)? {
            None => return Ok(Found::Interrupted),
            Some(None) => {}
            Some(Some(_)) => return Ok(Found::Alone),
        }
        let others = self.members.iter();
        let mut others: Vec<Member<'_>> = others
            .filter(|other| other.test.name != member.test.name)
            .copied()
            .collect();
        let mut fails_in = match search.fails(&others, 2 * TRIES)? {
            None => return Ok(Found::Interrupted),
            Some(Some(order)) => order,
            Some(None) => {
                let why = format!("it did not fail again in {} runs", 2 * TRIES);
                return Ok(Found::Nothing(why, order));
            }
        };
        let mut parts = 2;
        while others.len() > 1 && search.runs < MOST_RUNS {
            let size = others.len().div_ceil(parts);
            let chunks = others.chunks(size).enumerate();
            let rest = |at: usize| {
                let kept = others
                    .chunks(size)
                    .enumerate()
                    .filter(|(other, _)| *other != at);
                kept.flat_map(|(_, chunk)| chunk.iter().copied()).collect()
            };
            let ones = others.chunks(size).map(<[_]>::to_vec);
            // Of two parts, each is what the other leaves.
            let all_but_one = chunks.map(|(at, _)| rest(at)).filter(|_| parts > 2);
            let candidates: Vec<(Vec<Member<'_>>, usize)> = ones
                .map(|part| (part, 2))
                .chain(all_but_one.map(|part| (part, (parts - 1).max(2))))
                .collect();
            let mut smaller = None;
            for (part, then) in candidates {
                match search.fails(&part, TRIES)? {
                    None => return Ok(Found::Interrupted),
                    Some(None) => {}
                    Some(Some(order)) => {
                        smaller = Some((part, then, order));
                        break;
                    }
                }
            }
            match smaller {
                Some((part, then, order)) => (others, parts, fails_in) = (part, then, order),
                None if parts >= others.len() => break,
                None => parts = (2 * parts).min(others.len()),
            }
        }
        Ok(Found::Beside(others, fails_in))
    }
}

/// What was found about a test that fails beside others.
enum Found<'a> {
    /// These others, and the order in which it fails beside them.
    Beside(Vec<Member<'a>>, Order),
    /// It fails without them, too.
    Alone,
    /// Nothing, and why.
    Nothing(String, Order),
    Interrupted,
}

struct Search<'a> {
    group: &'a Group<'a>,
    member: &'a Member<'a>,
    order: Order,
    /// Runs so far.
    runs: u64,
}

impl Search<'_> {
    /// The order in which the test fails beside these others in one of so many runs, if it does;
    /// `None` if it was interrupted.
    fn fails(
        &mut self,
        others: &[Member<'_>],
        tries: u64,
    ) -> anyhow::Result<Option<Option<Order>>> {
        let members: Vec<Member<'_>> = others.iter().copied().chain([*self.member]).collect();
        for number in 0..tries {
            self.runs += 1;
            // Fewer tests are in another order, also with the same seed.
            let seed = match (self.order.seed, number) {
                (seed, 0) => seed,
                (None, 1..) if self.order.threads > 1 => None,
                (seed, _) => Some(seed.unwrap_or(0) + number),
            };
            let order = Order { seed, ..self.order };
            let Some(seen) = self.group.once(&members, order)? else {
                return Ok(None);
            };
            let name = &self.member.executable.name;
            if seen.failed().any(|failed| failed == name) {
                return Ok(Some(Some(order)));
            }
        }
        Ok(Some(None))
    }
}

/// How the tests are run for the time of this number, from 0, if the user wants so many threads.
fn order(number: u64, threads: Option<usize>) -> Order {
    let usual = match number % 3 {
        0 => processors().max(2),
        1 => 1,
        _ => 2 * processors().max(2),
    };
    Order {
        threads: threads.unwrap_or(usual),
        // The first of each kind as cargo does it.
        seed: (number >= 3).then_some(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read_between_what_tests_write() {
        let text = r#"{ "type": "suite", "event": "started", "test_count": 3 }
{ "type": "test", "event": "started", "name": "a" }
odd { "type": "test", "event": "started", "name": "b" }
{ "type": "test", "name": "a", "event": "ok" }
{ "type": "test", "name": "b", "event": "failed", "stdout": "{ \"type\": 3 }" }
{ "type": "test", "event": "started", "name": "c" }
{ "type": "test", "#;
        let seen = Seen::of(text);
        let failed: Vec<_> = seen.failed().collect();
        assert_eq!(failed, ["b", "c"]);
        assert_eq!(Seen::of("running 3 tests\n"), Seen::default());
    }
}
