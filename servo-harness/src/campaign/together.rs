//! Finds tests that disturb each other: they pass alone, and fail in one process with others.
//!
//! `cargo test` runs the tests of an executable in one process, a few at the same time. They share
//! statics, the environment, the working directory, files and ports. So the whole executable is run
//! several times, with few threads and many, in the order of names and in random ones. Where a test
//! fails that always passes alone, others beside which it fails are looked for: fewer and fewer
//! (delta debugging: Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Deserialize;

use super::runs::{CampaignContext, Ended, Settings};
use crate::model::fisher::{Split, fisher_exact};
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
/// Runs for the question whether one of few others is needed.
const MANY_TRIES: u64 = 20;
/// Runs alone and beside others, at most, until it is proven that the others matter.
const MOST_PROOFS: u64 = 40;
/// The search for one test ends after so many runs, or when it has taken so long.
const MOST_RUNS: u64 = 150;
const LONGEST: Duration = Duration::from_secs(600);
/// More others than this are no answer.
const MOST_OTHERS: usize = 4;
/// Why nothing is known of further tests; the next survey looks at them.
const NOT_LOOKED_FOR: &str = "others are looked for when this is run again";
/// Tests of an executable for which others are looked for, at most.
const MOST_TESTS: usize = 8;
/// The error probability (Fisher's test) below which a difference is no chance: it is looked at
/// after each run.
const SIGNIFICANT: f64 = 0.01;

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
            seconds: seconds(&members, &lock(context.results).records),
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

/// The last record of such failures of a test as it is.
fn last_known<'a>(records: &'a [Record], member: &Member<'_>) -> Option<&'a Disturbed> {
    let last = records.iter().rev().find_map(|record| match record {
        Record::Disturbed(known) if known.test == member.test.name => Some(known),
        _ => None,
    });
    last.filter(|known| known.subject == member.test.subject)
}

/// The digest of an executable, of these of its tests, and of how many run at the same time.
fn digest(members: &[Member<'_>]) -> String {
    let mut hasher = blake3::Hasher::new();
    for member in members {
        hasher.update(member.test.subject.as_bytes());
        let threads = member.executable.threads.unwrap_or(0) as u64;
        hasher.update(&threads.to_le_bytes());
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

/// The longest plain run of each of these tests, by its name, in seconds.
fn seconds(members: &[Member<'_>], records: &[Record]) -> BTreeMap<String, f64> {
    let names: BTreeSet<&str> = members.iter().map(|it| it.test.name.as_str()).collect();
    let mut longest: BTreeMap<String, f64> = BTreeMap::new();
    for record in records {
        if let Record::Run(run) = record
            && run.phase == Phase::Plain
            && names.contains(run.test.as_str())
        {
            let time = longest.entry(run.test.clone()).or_default();
            *time = time.max(run.seconds);
        }
    }
    longest
}

/// A report of an executable about a test.
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
    /// The digest of all that.
    subject: String,
    /// The longest plain run of each test alone, by its name, in seconds.
    seconds: BTreeMap<String, f64>,
    settings: &'a Settings,
    context: &'a CampaignContext<'a>,
}

impl<'a> Group<'a> {
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
                // Not Rust's own test harness, or an older one.
                break;
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
            let failed = (orders.len() as u64, known.len() as u64);
            if !self.passes_alone(member) || self.is_known(member, failed) {
                continue;
            }
            let found = match orders.iter().min_by_key(|order| order.threads) {
                Some(_) if looked_for == MOST_TESTS => Found::Nothing(NOT_LOOKED_FOR.to_owned()),
                Some(order) => {
                    looked_for += 1;
                    self.disturbers(member, *order)?
                }
                // It did, in another form of these tests.
                None => Found::Nothing(String::new()),
            };
            let mut disturbed = Disturbed {
                test: member.test.name.clone(),
                subject: member.test.subject.clone(),
                group: self.subject.clone(),
                failed,
                beside: Vec::new(),
                why: None,
                command: None,
            };
            match found {
                Found::Interrupted => return Ok(Ended::Interrupted),
                Found::Nothing(why) => disturbed.why = Some(why),
                Found::Beside(others, order) => {
                    let names = others.iter().map(|other| other.test.name.clone());
                    disturbed.beside = names.collect();
                    let all: Vec<Member<'_>> = others.into_iter().chain([*member]).collect();
                    disturbed.command = Some(command(&all, order));
                }
            }
            let mut results = lock(self.context.results);
            if last_known(&results.records, member) != Some(&disturbed) {
                results.add(Record::Disturbed(disturbed))?;
            }
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

    /// Whether it is written down already what is known of a test that failed so often.
    fn is_known(&self, member: &Member<'_>, failed: (u64, u64)) -> bool {
        let results = lock(self.context.results);
        last_known(&results.records, member).map_or(failed.0 == 0, |known| {
            let is_same = known.group == self.subject;
            // More runs do not disprove it.
            let is_proven = is_same && !known.beside.is_empty();
            let is_looked_for = known.why.as_deref() != Some(NOT_LOOKED_FOR);
            is_proven || is_same && known.failed == failed && is_looked_for
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

    /// The time that these tests take one after the other, in seconds.
    fn seconds(&self, members: &[Member<'_>]) -> f64 {
        let times = members.iter();
        times
            .filter_map(|member| self.seconds.get(&member.test.name))
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

    /// Looks for few other tests beside which a test fails.
    fn disturbers(&self, member: &Member<'a>, order: Order) -> anyhow::Result<Found<'a>> {
        let others = self.members.iter();
        let others: Vec<Member<'_>> = others
            .filter(|other| other.test.name != member.test.name)
            .copied()
            .collect();
        let mut search = Search {
            group: self,
            member,
            order,
            runs: 0,
            until: Instant::now() + LONGEST,
        };
        let Some(others) = search.narrowed(others)? else {
            return Ok(Found::Interrupted);
        };
        match others {
            Narrowed::Never => {
                let tries = 2 * TRIES;
                Ok(Found::Nothing(format!("and in none of {tries} later ones")))
            }
            Narrowed::To(others, order) if others.len() <= MOST_OTHERS => {
                search.order = order;
                match search.needed(others)? {
                    Some(others) => search.proof(others),
                    None => Ok(Found::Interrupted),
                }
            }
            Narrowed::To(others, _) => {
                let count = others.len();
                Ok(Found::Nothing(format!(
                    "beside {count} others, which could not be narrowed down"
                )))
            }
        }
    }
}

/// The result of a search for the others beside which a test fails.
enum Found<'a> {
    /// These others, and the order in which it fails beside them.
    Beside(Vec<Member<'a>>, Order),
    /// No proof, and what is known.
    Nothing(String),
    Interrupted,
}

/// Others beside which a test failed.
enum Narrowed<'a> {
    To(Vec<Member<'a>>, Order),
    /// It did not fail again beside all of them.
    Never,
}

struct Search<'a, 'm> {
    group: &'m Group<'a>,
    member: &'m Member<'a>,
    order: Order,
    /// Runs so far.
    runs: u64,
    /// When the search ends.
    until: Instant,
}

impl<'a> Search<'a, '_> {
    /// Fewer and fewer of these others beside which the test fails in some of the runs; `None` if it
    /// was interrupted.
    fn narrowed(&mut self, mut others: Vec<Member<'a>>) -> anyhow::Result<Option<Narrowed<'a>>> {
        let mut fails_in = match self.fails(&others, 2 * TRIES)? {
            None => return Ok(None),
            Some(None) => return Ok(Some(Narrowed::Never)),
            Some(Some(order)) => order,
        };
        let mut parts = 2;
        while others.len() > 1 {
            let mut smaller = None;
            for (part, then) in candidates(&others, parts) {
                if self.is_over() {
                    break;
                }
                match self.fails(&part, TRIES)? {
                    None => return Ok(None),
                    Some(None) => {}
                    Some(Some(order)) => {
                        smaller = Some((part, then, order));
                        break;
                    }
                }
            }
            match smaller {
                Some((part, then, order)) => (others, parts, fails_in) = (part, then, order),
                None if parts >= others.len() || self.is_over() => break,
                None => parts = (2 * parts).min(others.len()),
            }
        }
        Ok(Some(Narrowed::To(others, fails_in)))
    }

    /// Those of few others without which it does not fail in many runs; `None` if it was interrupted.
    fn needed(&mut self, mut others: Vec<Member<'a>>) -> anyhow::Result<Option<Vec<Member<'a>>>> {
        let mut at = 0;
        while others.len() > 1 && at < others.len() && !self.is_over() {
            let left_out = others.remove(at);
            match self.fails(&others, MANY_TRIES)? {
                None => return Ok(None),
                Some(None) => {
                    others.insert(at, left_out);
                    at += 1;
                }
                Some(Some(order)) => {
                    self.order = order;
                    at = 0;
                }
            }
        }
        Ok(Some(others))
    }

    fn is_over(&self) -> bool {
        self.runs >= MOST_RUNS || Instant::now() >= self.until
    }

    /// Runs the test alone and beside these others in turn, until it is proven that it fails more
    /// often beside them, or has to be given up.
    fn proof(&mut self, others: Vec<Member<'a>>) -> anyhow::Result<Found<'a>> {
        let (mut alone, mut beside) = (Split { yes: 0, no: 0 }, Split { yes: 0, no: 0 });
        for _ in 0..MOST_PROOFS {
            if Instant::now() >= self.until {
                break;
            }
            for (split, others) in [(&mut alone, &[][..]), (&mut beside, &others[..])] {
                match self.fails(others, 1)? {
                    None => return Ok(Found::Interrupted),
                    Some(None) => split.no += 1,
                    Some(Some(_)) => split.yes += 1,
                }
            }
            let is_more = beside.yes > alone.yes;
            if is_more && fisher_exact(alone, beside) < SIGNIFICANT {
                return Ok(Found::Beside(others, self.order));
            }
        }
        let names: Vec<&str> = others
            .iter()
            .map(|other| other.test.name.as_str())
            .collect();
        let runs = alone.yes + alone.no;
        let (alone, beside) = (alone.yes, beside.yes);
        Ok(Found::Nothing(format!(
            "later it failed in {alone} of {runs} runs alone, and in {beside} beside {}",
            names.join(" and ")
        )))
    }

    /// The order in which the test fails beside these others in one of so many runs, if it does;
    /// `None` if it was interrupted.
    fn fails(
        &mut self,
        others: &[Member<'a>],
        tries: u64,
    ) -> anyhow::Result<Option<Option<Order>>> {
        let members: Vec<Member<'_>> = others.iter().copied().chain([*self.member]).collect();
        for number in 0..tries {
            if Instant::now() >= self.until {
                break;
            }
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

/// Each of so many parts of these tests, and all but each, with the number of parts to go on with.
fn candidates<'a>(others: &[Member<'a>], parts: usize) -> Vec<(Vec<Member<'a>>, usize)> {
    let size = others.len().div_ceil(parts);
    let chunks = || others.chunks(size).enumerate();
    let all_but = |left_out: usize| {
        let kept = chunks().filter(|(at, _)| *at != left_out);
        kept.flat_map(|(_, chunk)| chunk.iter().copied()).collect()
    };
    let ones = chunks().map(|(_, chunk)| (chunk.to_vec(), 2));
    // Of two parts, each is what the other leaves.
    let rests = chunks().filter(|_| parts > 2);
    let rests = rests.map(|(at, _)| (all_but(at), (parts - 1).max(2)));
    ones.chain(rests).collect()
}

/// The command for people that runs these tests.
fn command(members: &[Member<'_>], order: Order) -> String {
    let Some(member) = members.first() else {
        return String::new();
    };
    let job = &member.executable.job;
    let mut words = Vec::new();
    words.push(job.program.display().to_string());
    words.extend(
        job.args
            .iter()
            .map(|arg| arg.to_string_lossy().into_owned()),
    );
    words.push("--exact".to_owned());
    let names = members.iter().map(|member| member.executable.name.clone());
    words.extend(names);
    words.push(format!("--test-threads={}", order.threads));
    if let Some(seed) = order.seed {
        words.push("-Zunstable-options".to_owned());
        words.push(format!("--shuffle-seed={seed}"));
    }
    let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let mut line = quoted.join(" ");
    let is_needed = |name: &str| name == "CARGO_MANIFEST_DIR" || !name.starts_with("CARGO");
    for (name, value) in job.env.iter().rev() {
        let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
        if is_needed(&name) {
            line = format!("{name}={} {line}", self::quoted(&value));
        }
    }
    if order.seed.is_some() {
        line = format!("RUSTC_BOOTSTRAP=1 {line}");
    }
    match &job.dir {
        Some(dir) => format!("cd {} && {line}", quoted_path(dir)),
        None => line,
    }
}

fn quoted_path(path: &Path) -> String {
    quoted(&path.display().to_string())
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,+@%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Threads and order of a run by its number, from 0. `threads` is what the user wants, if anything.
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
