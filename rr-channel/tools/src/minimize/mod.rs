//! Finds the few decisions that make the difference between a run that passes and one that
//! fails.
//!
//! Both runs are recordings of the same program. Their differences are split into changes
//! ([`change`]): a message goes to another thread, or comes earlier or later; an operation
//! finds nothing, or its time is up; a lock is acquired in another order; a clock shows another
//! time. The passing run with
//! a set of these changes is a recording that no run made ([`compose`]). A replay of this
//! candidate shows its outcome ([`trial`]). The search finds a small set that fails
//! ([`search`]). The change of each message and lock is then undone as far as the test still
//! fails, and the rest is described in words ([`describe`]).
//!
//! A replay follows the candidate as long as the program does. A thread that does something
//! else runs natively from there. If that happens before the thread's last change, the replay
//! is no evidence. Outside the changes, the candidate keeps the decisions of the passing run to
//! the end. They hold as long as the program behaves as before; where it does not, only that
//! thread runs natively.
//!
//! **Invariant:** a set is an answer only if it fails in each of several replays.

mod change;
mod clocks;
mod compose;
mod describe;
mod run;
mod search;
mod sites;
mod trial;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use rr_channel_log::{write_processes, write_recording};
use serde::{Deserialize, Serialize};

use self::change::{Change, Differences, compare};
use self::compose::{Candidate, Chosen, Composer};
pub use self::describe::Decision;
use self::run::{Key, Numbers, Run};
use self::search::Tries;
use self::sites::Sites;
use self::trial::{Evidence, Finding, decide};

/// The outcome of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It ended as the passing run.
    Passes,
    /// It ended as the failing run.
    Fails,
    /// It ended otherwise, or did not do what was asked.
    Unresolved,
}

/// A replay of a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// How it ended.
    pub verdict: Verdict,
    /// Threads that left their logs, and at which event.
    pub left: Vec<(String, u64)>,
}

/// How to search.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// The program that was recorded: its debug information has the lines that read clocks.
    pub program: Option<&'a Path>,
    /// The most candidates that are replayed.
    pub tries: u32,
    /// How often the answer is replayed, to see whether it holds.
    pub confirm: u32,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Minimum {
    /// The number of changes between the two runs.
    pub differences: usize,
    /// The changes that are left, in words; all of them together make the test fail.
    pub decisions: Vec<Decision>,
    /// How many changes these are.
    pub changes: usize,
    /// How many candidates were replayed.
    pub tries: u32,
    /// Whether the search came to its end, and did not just run out of tries.
    pub complete: bool,
    /// How often the answer was replayed, and how often that failed.
    pub confirmed: (u32, u32),
}

/// Finds the decisions of the run in `failing` that make the run in `passing` fail. Both
/// should have places: without them, the order of locks is not understood.
/// Candidates are written below `scratch`, where that of the answer is left in `minimum`;
/// `replay` replays one.
///
/// # Errors
/// If a recording cannot be read; if the passing run does not pass in a replay, or does not
/// fail with all decisions of the failing one; or those of `replay`.
pub fn minimize(
    passing: &Path,
    failing: &Path,
    scratch: &Path,
    options: Options<'_>,
    replay: &mut dyn FnMut(&Path) -> anyhow::Result<Replayed>,
) -> anyhow::Result<Minimum> {
    let mut numbers = Numbers::default();
    let mut passing = Run::read(passing, &mut numbers)?;
    let mut failing = Run::read(failing, &mut numbers)?;
    failing.name_locks_as(&passing);
    let differences = compare(&mut passing, &failing);
    let composer = Composer::new(&passing, &failing, &differences);
    let mut bench = Bench {
        composer: &composer,
        scratch,
        replay,
    };
    let count = differences.changes.len();
    ensure!(count > 0, "the two recordings do not differ");
    let nothing = bench.settle(&Chosen::new())?;
    ensure!(
        nothing == Finding::Passes,
        "a replay of the passing run does not pass: what decides was not recorded"
    );
    let is_clock = |change: &usize| matches!(differences.changes[*change], Change::Clock { .. });
    let mut all: Vec<usize> = (0..count).filter(|change| !is_clock(change)).collect();
    let mut fails = !all.is_empty() && bench.settle(&whole(&all))? == Finding::Fails;
    // No two runs read the same times: these are looked at only where they are needed.
    if !fails && all.len() < count {
        all = (0..count).collect();
        fails = bench.settle(&whole(&all))? == Finding::Fails;
    }
    let count = all.len();
    ensure!(
        fails,
        "a replay with all decisions of the failing run does not fail: what decides was not \
         recorded"
    );

    let mut tries = Tries::new(options.tries, |set: &[usize]| bench.decide(&whole(set)));
    let minimum = tries.minimize(
        all,
        &[
            &|changes| by_thread(&differences, changes),
            &|changes| by_sender(&differences, changes),
            &one_by_one,
        ],
    )?;
    let is_over = tries.is_over();
    let mut left = tries.left;
    let mut chosen = whole(&minimum);
    if chosen.len() <= NARROWED {
        for change in minimum {
            narrow(&mut bench, &mut chosen, change, &mut left)?;
        }
    }

    let answer = scratch.join("minimum");
    let mut confirmed = (0, 0);
    for _ in 0..options.confirm {
        confirmed.0 += 1;
        confirmed.1 += u32::from(bench.settle(&chosen)? == Finding::Fails);
    }
    let candidate = composer.compose(&chosen);
    let has_clocks = chosen.keys().any(is_clock);
    let sites = options.program.filter(|_| has_clocks).and_then(Sites::of);
    if let Some(candidate) = &candidate {
        write(candidate, &passing, &answer)?;
    }
    Ok(Minimum {
        differences: count,
        decisions: describe::decisions(&composer, &chosen, sites.as_ref()),
        changes: chosen.len(),
        tries: options.tries - left,
        complete: left > 0 && !is_over,
        confirmed,
    })
}

/// These changes, as far as the failing run has them.
fn whole(changes: &[usize]) -> Chosen {
    changes.iter().map(|change| (*change, 0)).collect()
}

/// How often a candidate is decided of which nothing becomes known and on which the whole
/// answer depends.
const ATTEMPTS: u32 = 3;
/// Threads' changes of clocks are told from their others by numbers beyond those of threads.
const CLOCKS: usize = 1 << 32;
/// Beyond so many changes, it is not asked how far each has to go.
const NARROWED: usize = 16;

/// Replays candidates.
struct Bench<'a> {
    composer: &'a Composer<'a>,
    scratch: &'a Path,
    replay: &'a mut dyn FnMut(&Path) -> anyhow::Result<Replayed>,
}

impl Bench<'_> {
    /// The finding on a set of changes.
    fn decide(&mut self, chosen: &Chosen) -> anyhow::Result<Finding> {
        let Some(candidate) = self.composer.compose(chosen) else {
            return Ok(Finding::Contradiction);
        };
        let dir = self.scratch.join("candidate");
        if dir.exists() {
            fs::remove_dir_all(&dir).with_context(|| format!("removing {}", dir.display()))?;
        }
        write(&candidate, self.composer.passing, &dir)?;
        let finding = decide(|| self.once(&candidate, &dir))?;
        fs::remove_dir_all(&dir).with_context(|| format!("removing {}", dir.display()))?;
        Ok(finding)
    }

    /// The finding on a set of changes, asked for more than once as long as it is unknown.
    fn settle(&mut self, chosen: &Chosen) -> anyhow::Result<Finding> {
        let mut finding = Finding::Unknown;
        for _ in 0..ATTEMPTS {
            if finding == Finding::Unknown {
                finding = self.decide(chosen)?;
            }
        }
        Ok(finding)
    }

    fn once(&mut self, candidate: &Candidate, dir: &Path) -> anyhow::Result<Evidence> {
        let replayed = (self.replay)(dir)?;
        let needed: HashMap<String, u64> = candidate
            .threads
            .iter()
            .zip(&candidate.needed)
            .map(|(thread, needed)| (thread.dti.to_string(), *needed))
            .collect();
        let is_too_early = replayed
            .left
            .iter()
            .any(|(thread, event)| needed.get(thread).is_some_and(|needed| event < needed));
        Ok(match replayed.verdict {
            Verdict::Passes if !is_too_early => Evidence::Passes,
            Verdict::Fails if !is_too_early => Evidence::Fails,
            _ => Evidence::Strayed(replayed.left),
        })
    }
}

/// Writes a candidate. The processes that are started do as in the passing run.
fn write(candidate: &Candidate, passing: &Run, dir: &Path) -> anyhow::Result<()> {
    let failed = || format!("writing {}", dir.display());
    write_recording(dir, &passing.program, &candidate.threads).with_context(failed)?;
    let processes: Vec<_> = passing
        .processes
        .iter()
        .map(|(process, _)| *process)
        .collect();
    write_processes(dir, &processes).with_context(failed)?;
    for part in passing.processes.iter().filter_map(|(_, dir)| dir.as_ref()) {
        copy_all(part, &dir.join(part.file_name().unwrap_or_default())).with_context(failed)?;
    }
    Ok(())
}

/// Copies a directory with all that is in it.
fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

/// Some of the changes, in groups that are likely to be needed together, or not at all.
fn groups<T: Ord>(changes: &[usize], of: impl Fn(usize) -> T) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<T, Vec<usize>> = BTreeMap::new();
    for &change in changes {
        groups.entry(of(change)).or_default().push(change);
    }
    groups.into_values().collect()
}

/// By the thread that has other outcomes, or the object with other turns.
fn by_thread(differences: &Differences, changes: &[usize]) -> Vec<Vec<usize>> {
    groups(changes, |change| match &differences.changes[change] {
        Change::Message { from, .. } => (false, from.0),
        Change::Outcomes { thread, .. } => (false, *thread),
        Change::Turn { object, .. } => (true, *object),
        Change::Clock { thread, .. } => (false, CLOCKS + *thread),
    })
}

/// By who has sent the message, or whose turn it is: a sender's messages keep their order,
/// so that they often move together.
fn by_sender(differences: &Differences, changes: &[usize]) -> Vec<Vec<usize>> {
    groups(changes, |change| match &differences.changes[change] {
        Change::Message {
            key: Key::Message(sender, _),
            to,
            ..
        } => (0, sender.0 as usize, to.0),
        Change::Message { from, to, .. } => (1, from.0, to.0),
        Change::Outcomes { thread, .. } => (2, *thread, change),
        Change::Turn { object, element } => (3, *object, element.thread),
        Change::Clock { thread, unit } => (4, *thread, *unit),
    })
}

fn one_by_one(changes: &[usize]) -> Vec<Vec<usize>> {
    changes.iter().map(|change| vec![*change]).collect()
}

/// Takes a change back as far as the test still fails: what is left is the one decision
/// that has to be another one.
fn narrow(
    bench: &mut Bench<'_>,
    chosen: &mut Chosen,
    change: usize,
    left: &mut u32,
) -> anyhow::Result<()> {
    let distance = bench.composer.distance(change, chosen);
    // With `good` places to go the test fails; with `bad`, it is as if nothing was changed.
    let (mut good, mut bad) = (0, distance);
    while bad - good > 1 && *left > 0 {
        let middle = good + (bad - good) / 2;
        let mut tried = chosen.clone();
        tried.insert(change, middle);
        *left -= 1;
        if bench.settle(&tried)? == Finding::Fails {
            good = middle;
        } else {
            bad = middle;
        }
    }
    chosen.insert(change, good);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rr_channel_log::identity::{ChannelId, Dti, ThreadId};
    use rr_channel_log::{Clock, ClockRead, EditedThread, Event, Op, Outcome};
    use std::time::Duration;

    fn on(number: u32, op: Op, outcome: Outcome) -> Event {
        let creator = ThreadId(0);
        let channel = Some(ChannelId { creator, number });
        Event {
            op,
            channel,
            outcome,
        }
    }

    /// Events by their first letters: `r31` receives message 1 of thread 3, `s4` sends into
    /// slot 4, `l2` has the second turn at a lock, `t` runs out of time, `d` is at the end.
    fn events(text: &str) -> Vec<Event> {
        let event = |word: &str| {
            let digit = |at: usize| u64::from(word.as_bytes()[at] - b'0');
            match word.as_bytes()[0] {
                b'r' => {
                    let sender = ThreadId(digit(1) as u32);
                    let number = digit(2);
                    on(1, Op::Recv, Outcome::Message { sender, number })
                }
                b's' => on(2, Op::Send, Outcome::Sent { slot: digit(1) }),
                b'l' => on(3, Op::Lock, Outcome::Turn { ticket: digit(1) }),
                b't' => on(1, Op::RecvDeadline, Outcome::Timeout),
                _ => on(1, Op::Recv, Outcome::Disconnected),
            }
        };
        text.split_whitespace().map(event).collect()
    }

    fn run(threads: &[Vec<Event>], numbers: &mut Numbers) -> Run {
        timed(threads, &[], numbers)
    }

    /// The same, with the reads of each thread.
    fn timed(threads: &[Vec<Event>], clocks: &[&[(u64, u64, i64)]], numbers: &mut Numbers) -> Run {
        let dir = tempfile::tempdir().unwrap();
        let read = |&(position, site, nanoseconds): &(u64, u64, i64)| ClockRead {
            position,
            clock: Clock::Monotonic,
            site,
            nanoseconds,
        };
        let clocks = clocks.iter().map(|reads| reads.iter().map(read).collect());
        let threads: Vec<_> = threads
            .iter()
            .zip(clocks.chain(std::iter::repeat(Vec::new())))
            .zip(0..)
            .map(|((events, clocks), id)| EditedThread {
                id: ThreadId(id),
                dti: Dti::main().child(id + 1),
                events: events.clone(),
                ended: true,
                clocks,
                lasted: Duration::ZERO,
            })
            .collect();
        write_recording(dir.path(), "p", &threads).unwrap();
        Run::read(dir.path(), numbers).unwrap()
    }

    fn composed(composer: &Composer<'_>, chosen: &Chosen) -> Option<Vec<Vec<Event>>> {
        let candidate = composer.compose(chosen)?;
        let events = candidate.threads.into_iter().map(|thread| thread.events);
        Some(events.collect())
    }

    fn all(texts: &[&str]) -> Vec<Vec<Event>> {
        texts.iter().map(|text| events(text)).collect()
    }

    #[track_caller]
    fn check(passing: &[&str], failing: &[&str]) -> usize {
        check_runs(&all(passing), &all(failing))
    }

    /// Without changes it is the passing run, with all of them the failing one; how many
    /// changes there are.
    #[track_caller]
    fn check_runs(passing: &[Vec<Event>], failing: &[Vec<Event>]) -> usize {
        let mut numbers = Numbers::default();
        let mut first = run(passing, &mut numbers);
        let mut second = run(failing, &mut numbers);
        second.name_locks_as(&first);
        let differences = compare(&mut first, &second);
        let composer = Composer::new(&first, &second, &differences);
        let expected = |threads: &[Vec<Event>]| {
            let mut all = threads.to_vec();
            all.resize(first.threads.len(), Vec::new());
            all
        };
        assert_eq!(
            composed(&composer, &Chosen::new()),
            Some(expected(passing)),
            "without changes"
        );
        let all = (0..differences.changes.len()).map(|change| (change, 0));
        assert_eq!(
            composed(&composer, &all.collect()),
            Some(expected(failing)),
            "with all changes"
        );
        differences.changes.len()
    }

    #[test]
    fn from_no_changes_to_all_of_them_is_from_one_run_to_the_other() {
        assert_eq!(check(&["r10 r11 r20"], &["r10 r11 r20"]), 0);
        // Order, consumer, and both.
        assert_eq!(check(&["r10 r11 r20"], &["r20 r10 r11"]), 1);
        assert_eq!(check(&["r20 d", "r21 d"], &["d", "r20 r21 d"]), 1);
        assert_eq!(check(&["r20 r30 d", "r21 d"], &["r30 d", "r20 r21 d"]), 1);
        // Time, and the end.
        assert_eq!(check(&["r10"], &["t"]), 1);
        assert_eq!(check(&["r10 d"], &["t r10 d"]), 1);
        // Turns.
        assert_eq!(check(&["l0 l1", "l2 l3"], &["l0 l3", "l1 l2"]), 1);
        assert_eq!(check(&["s0 s1", "s2"], &["s1 s2", "s0"]), 1);
        // A thread that only one of them has: it begins, too.
        assert_eq!(check(&["r10 r11 d"], &["r10 d", "r11"]), 2);
    }

    #[test]
    fn a_change_that_contradicts_what_stays_is_none() {
        let mut numbers = Numbers::default();
        let mut passing = run(&all(&["l0 l1 l2", "l3 l4"]), &mut numbers);
        let failing = run(&all(&["l2 l3 l4", "l0 l1"]), &mut numbers);
        let differences = compare(&mut passing, &failing);
        let composer = Composer::new(&passing, &failing, &differences);
        let set = |changes: &[usize]| changes.iter().map(|change| (*change, 0)).collect();
        assert_eq!(differences.changes.len(), 2);
        // The other thread's first turn before all of them; its second one, with it.
        let only = |change| composed(&composer, &set(&[change]));
        let expected = |texts: [&str; 2]| Some(texts.map(events).to_vec());
        assert_eq!(only(0), expected(["l1 l2 l3", "l0 l4"]));
        assert_eq!(only(1), expected(["l2 l3 l4", "l0 l1"]));
    }

    #[test]
    fn a_message_that_another_thread_receives_comes_before_the_end_of_its_channel() {
        let mut numbers = Numbers::default();
        let mut passing = run(&all(&["r20 r30 d", "r21 d"]), &mut numbers);
        // The process ends before the second thread meets the end.
        let failing = run(&all(&["r20 d", "r21 r30"]), &mut numbers);
        let differences = compare(&mut passing, &failing);
        let composer = Composer::new(&passing, &failing, &differences);
        let moved = differences
            .changes
            .iter()
            .position(|change| matches!(change, Change::Message { .. }));
        let only = composed(&composer, &Chosen::from([(moved.unwrap(), 0)]));
        let expected = ["r20 d", "r21 r30 d"].map(events);
        assert_eq!(only, Some(expected.to_vec()));
    }

    /// Reads of a clock: after how many events, by which code, and what.
    type Reads<'a> = &'a [(u64, u64, i64)];

    /// The reads of the first thread in the candidate with some of the changes.
    #[track_caller]
    fn check_clocks(
        events: [&str; 2],
        passing: Reads<'_>,
        failing: Reads<'_>,
        expected: &[(&[usize], Reads<'_>)],
    ) {
        let mut numbers = Numbers::default();
        let [first, second] = events.map(|events| all(&[events]));
        let mut passing = timed(&first, &[passing], &mut numbers);
        let failing = timed(&second, &[failing], &mut numbers);
        let differences = compare(&mut passing, &failing);
        let composer = Composer::new(&passing, &failing, &differences);
        for (chosen, reads) in expected {
            let candidate = composer.compose(&whole(chosen)).unwrap();
            let clocks = candidate.threads[0].clocks.iter();
            let clocks = clocks.map(|read| (read.position, read.site, read.nanoseconds));
            assert_eq!(clocks.collect::<Vec<_>>(), *reads, "with {chosen:?}");
        }
    }

    #[test]
    fn a_changed_time_passes_as_in_the_failing_run_and_later_ones_move_along() {
        check_clocks(
            ["l0 l1", "l0 l1"],
            &[(0, 1, 100), (1, 2, 110), (2, 3, 130)],
            &[(0, 1, 1000), (1, 2, 1500), (2, 3, 1520)],
            &[
                (&[], &[(0, 1, 100), (1, 2, 110), (2, 3, 130)]),
                (&[0], &[(0, 1, 100), (1, 2, 600), (2, 3, 620)]),
            ],
        );
    }

    #[test]
    fn reads_in_a_row_change_together_however_many_they_are() {
        check_clocks(
            ["l0", "l0"],
            &[(0, 1, 100), (0, 2, 110), (0, 2, 120), (0, 3, 130)],
            &[(0, 1, 0), (0, 2, 1), (0, 2, 2), (0, 2, 3), (0, 3, 13)],
            &[
                (&[], &[(0, 1, 100), (0, 2, 110), (0, 2, 120), (0, 3, 130)]),
                (
                    &[0],
                    &[
                        (0, 1, 100),
                        (0, 2, 101),
                        (0, 2, 102),
                        (0, 2, 103),
                        (0, 3, 113),
                    ],
                ),
            ],
        );
    }

    #[test]
    fn what_a_thread_does_after_it_has_read_a_clock_changes_with_that() {
        // In the failing run it acquires the lock once more, for the time that it read.
        let mut numbers = Numbers::default();
        let first = [events("r10 l0 r11 l1")];
        let second = [events("r10 l0 l1 r11 l2")];
        let mut passing = timed(&first, &[&[(1, 1, 100), (3, 1, 120)]], &mut numbers);
        let failing = timed(
            &second,
            &[&[(1, 1, 0), (2, 2, 50), (4, 1, 70)]],
            &mut numbers,
        );
        let differences = compare(&mut passing, &failing);
        let composer = Composer::new(&passing, &failing, &differences);
        let count = differences.changes.len();
        assert_eq!(count, 1, "{:?}", differences.changes);
        assert_eq!(composed(&composer, &whole(&[])), Some(first.to_vec()));
        let candidate = composer.compose(&whole(&[0])).unwrap();
        assert_eq!(candidate.threads[0].events, second[0]);
        let clocks = candidate.threads[0].clocks.iter();
        let clocks: Vec<_> = clocks
            .map(|read| (read.position, read.nanoseconds))
            .collect();
        assert_eq!(clocks, [(1, 100), (2, 150), (4, 170)]);
    }

    #[test]
    fn reads_come_and_go_with_the_outcome_before_them() {
        // The time is up in the failing run, and a clock is read that the passing one never reads.
        check_clocks(
            ["r10 d", "t r10 d"],
            &[(0, 1, 100), (1, 2, 110), (2, 3, 130)],
            &[(0, 1, 0), (1, 9, 50), (2, 2, 65), (3, 3, 80)],
            &[
                (&[], &[(0, 1, 100), (1, 2, 110), (2, 3, 130)]),
                (&[0], &[(0, 1, 100), (1, 9, 150), (2, 2, 150), (3, 3, 150)]),
                (
                    &[0, 1],
                    &[(0, 1, 100), (1, 9, 150), (2, 2, 165), (3, 3, 185)],
                ),
                (
                    &[0, 1, 2],
                    &[(0, 1, 100), (1, 9, 150), (2, 2, 165), (3, 3, 180)],
                ),
            ],
        );
    }

    /// What comes of threads that acquire these locks, if each of the numbers says who is
    /// next.
    fn locked(program: &[Vec<u32>], schedule: &[usize]) -> Vec<Vec<Event>> {
        let mut threads: Vec<_> = program.iter().map(|locks| locks.iter()).collect();
        let mut events = vec![Vec::new(); threads.len()];
        let mut tickets = [0; 3];
        let rest = (0..threads.len()).flat_map(|thread| [thread].repeat(8));
        for thread in schedule.iter().copied().chain(rest) {
            let thread = thread % threads.len();
            let Some(&lock) = threads[thread].next() else {
                continue;
            };
            let ticket = tickets[lock as usize];
            tickets[lock as usize] += 1;
            events[thread].push(on(10 + lock, Op::Lock, Outcome::Turn { ticket }));
        }
        events
    }

    proptest! {
        #[test]
        fn from_one_order_of_locks_to_another(
            program in prop::collection::vec(prop::collection::vec(0..3_u32, 1..8), 1..4),
            passing in prop::collection::vec(0..3_usize, 0..24),
            failing in prop::collection::vec(0..3_usize, 0..24),
        ) {
            check_runs(&locked(&program, &passing), &locked(&program, &failing));
        }
    }
}
