//! Chaos: orders that are rare, made likely.
//!
//! Probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010): each thread has a
//! random priority, which changes at a few random points, and a thread is held back
//! before its operations while one of higher priority could run. Most bugs of order need
//! one or two such changes at the right places, and a run finds them with a chance that
//! falls with the number of operations, instead of hardly ever.
//!
//! In that work the scheduler owns every thread. Here threads are the system's: they wait for
//! locks that this crate does not wrap, sleep, compute, or spin until a thread that is held back
//! does something. So *could run* is the kernel's answer about a thread when one below it asks,
//! and holding back is bounded. A thread that keeps others waiting for [`PATIENCE`], or for
//! [`SPINS`] operations, goes below all of them. After [`AT_MOST`] a thread goes on in any case.
//! No delay here can make a program wait for ever.
//!
//! **What a seed promises.** A thread's priority before its `n`th operation is a function of the
//! seed, the thread's name and `n` (until it was put below the others): the same seed asks for the
//! same priorities. The machine decides how the kernel schedules them, when a thread is seen
//! blocked, and where patience ends. So a seed makes a run likelier and does not repeat it. A
//! recording does.
//!
//! For most seeds an operation changes its thread's priority with a chance of one in the *length*.
//! The length should be about the number of operations of a thread, so that there is about one
//! change in each. Where it is not known beforehand, a seed decides on one. For the other seeds
//! the chance is one in `n` for the `n`th operation: most bugs lie near the beginning of some
//! thread.
//!
//! **In a replay** the order is decided already. There, chaos only [delays threads](shake) where
//! they begin and at each event of their logs, so that other threads are faster than they were.
//! (Sends that are not logged have no time for that.) So a check whether a recording holds does
//! not have to wait for a machine that is busy in that way.

use std::cell::Cell;
use std::fs::File;
use std::num::ParseIntError;
use std::os::unix::fs::FileExt as _;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rr_channel_log::identity::Dti;
use rustc_hash::FxHashMap;

use crate::engine::context;
use crate::engine::fork;
use crate::platform::clock as real_clock;
use crate::platform::lock::lock;
use crate::platform::sys;

/// How long a thread may keep another one from going on.
const PATIENCE: Duration = Duration::from_millis(10);
/// How many operations it may perform meanwhile.
const SPINS: u64 = 1000;
/// How long a thread is held back before one operation at most.
const AT_MOST: Duration = Duration::from_millis(200);
/// How long a thread that was created is expected to start.
const START: Duration = Duration::from_millis(5);
/// Looks at the others before the first pause between looks.
const EAGER: u32 = 8;
/// The shortest and the longest pause between looks.
const PAUSES: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));

/// Initial priorities are from here on, those after a change are from half of that on, and threads
/// that exceeded the others' patience are below.
const INITIAL: u64 = 1 << 63;
const CHANGED: u64 = INITIAL / 2;

static ON: AtomicBool = AtomicBool::new(false);
static CHAOS: OnceLock<Chaos> = OnceLock::new();

thread_local! {
    static PLACE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The requested chaos: `SEED`, or `SEED:LENGTH`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    seed: u64,
    /// About how many operations a thread performs.
    length: Option<u64>,
}

impl FromStr for Choice {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let (seed, length) = match text.split_once(':') {
            None => (text, None),
            Some((seed, length)) => (seed, Some(length.parse()?)),
        };
        Ok(Choice {
            seed: seed.parse()?,
            length,
        })
    }
}

#[derive(Debug)]
struct Chaos {
    seed: u64,
    /// One in so many operations changes its thread's priority; `None` if the `n`th does
    /// with a chance of one in `n`.
    length: Option<u64>,
    table: Mutex<Table>,
}

/// The threads of the process, as far as they are known.
#[derive(Debug, Default)]
struct Table {
    slots: Vec<Slot>,
    /// Threads that were announced and have not come yet, by the hash of their names.
    expected: FxHashMap<u64, usize>,
    /// How many were put below all others.
    demoted: u64,
}

#[derive(Debug)]
struct Slot {
    /// The hash of the thread's name, and of the seed.
    name: u64,
    priority: u64,
    operations: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Created, at this time, and not seen since.
    Starting(Instant),
    /// In the program, or in the kernel: this file knows.
    Somewhere(File),
    /// Held back: it would go on.
    Held(File),
    Gone,
}

/// From now on threads are held back, as `seed` says.
pub fn start(choice: Choice) {
    let chaos = Chaos::new(choice);
    if CHAOS.set(chaos).is_ok() {
        ON.store(true, Ordering::Relaxed);
    }
}

/// Whether threads are held back.
#[inline(always)]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// From here on, no thread is held back: the others are threads of another process.
pub fn stop() {
    ON.store(false, Ordering::Relaxed);
}

/// The calling thread is about to perform an operation.
#[inline(always)]
pub fn point() {
    if is_on() {
        hold_back();
    }
}

/// The calling thread is about to create the thread `dti`.
pub fn expect(dti: &Dti) {
    if let Some((chaos, mut table)) = table() {
        let slot = chaos.slot(dti, State::Starting(real_clock::now()));
        let name = slot.name;
        let at = table.insert(slot);
        table.expected.insert(name, at);
    }
}

/// The calling thread has created a thread.
pub fn created() {
    // A thread that has not used this crate yet is not registered by this.
    if is_on() && matches!(PLACE.try_with(Cell::get), Ok(Some(_))) {
        hold_back();
    }
}

/// The calling thread is `dti`, and new.
pub fn arrive(dti: &Dti) {
    let Some((chaos, mut table)) = table() else {
        return;
    };
    if PLACE.try_with(Cell::get).ok().flatten().is_some() {
        return;
    }
    // If the kernel does not say what threads do, the thread takes no part.
    let Ok(stat) = File::open(format!("/proc/self/task/{}/stat", sys::tid())) else {
        return;
    };
    let new = chaos.slot(dti, State::Somewhere(stat));
    let at = match table.expected.remove(&new.name) {
        Some(at) if table.slots[at].name == new.name => {
            table.slots[at] = new;
            at
        }
        _ => table.insert(new),
    };
    let _ = PLACE.try_with(|place| place.set(Some(at)));
}

/// The calling thread ends; it is not held back any more.
pub fn leave() {
    if let Ok(Some(at)) = PLACE.try_with(Cell::take)
        && let Some((_, mut table)) = table()
    {
        table.slots[at].state = State::Gone;
    }
}

/// A random number for the calling thread's present operation.
pub fn dice() -> u64 {
    let place = PLACE.try_with(Cell::get).ok().flatten();
    match (table(), place) {
        (Some((_, table)), Some(at)) => {
            let slot = &table.slots[at];
            mix(slot.name ^ mix(slot.operations.wrapping_add(1 << 60)))
        }
        _ => 0,
    }
}

/// In a replay, how long threads are delayed at most, in microseconds.
const DELAY: u64 = 500;
/// How long all threads together are delayed before delays become rare. So a long replay ends,
/// also on a busy machine, where a thread that yields gets the processor back after milliseconds.
const OFTEN: Duration = Duration::from_secs(2);

static SHAKES: AtomicBool = AtomicBool::new(false);
/// The input from which the next delay is computed.
static THROWS: AtomicU64 = AtomicU64::new(0);
/// How long threads were delayed, in nanoseconds.
static DELAYED: AtomicU64 = AtomicU64::new(0);

/// From now on the threads of a replay are delayed.
pub fn start_shaking(choice: Choice) {
    THROWS.store(mix(choice.seed), Ordering::Relaxed);
    SHAKES.store(true, Ordering::Relaxed);
}

/// Whether the threads of a replay are delayed.
#[inline(always)]
pub fn shakes() -> bool {
    SHAKES.load(Ordering::Relaxed)
}

/// Perhaps delays the calling thread of a replay, which may hold a lock, and looks to others
/// like one that computes.
#[inline(always)]
pub fn shake() {
    if shakes() {
        delay();
    }
}

#[cold]
#[inline(never)]
fn delay() {
    let throw = mix(THROWS.fetch_add(1, Ordering::Relaxed));
    let delayed = Duration::from_nanos(DELAYED.load(Ordering::Relaxed));
    let rare = if delayed < OFTEN { 1 } else { 256 };
    let yields = throw.is_multiple_of(4 * rare);
    let delay = match (throw / 4).is_multiple_of(16 * rare) {
        true => Duration::from_micros((throw >> 32) % DELAY),
        false => Duration::ZERO,
    };
    if !yields && delay.is_zero() {
        return;
    }
    let since = real_clock::now();
    loop {
        thread::yield_now();
        if real_clock::elapsed(since) >= delay {
            break;
        }
    }
    DELAYED.fetch_add(
        real_clock::elapsed(since).as_nanos() as u64,
        Ordering::Relaxed,
    );
}

fn table() -> Option<(&'static Chaos, MutexGuard<'static, Table>)> {
    if !is_on() || fork::is_fork() {
        return None;
    }
    let chaos = CHAOS.get()?;
    Some((chaos, chaos.lock()))
}

impl Chaos {
    fn new(choice: Choice) -> Chaos {
        let dice = mix(mix(choice.seed) ^ 1);
        let length = match (dice % 4, choice.length) {
            (0, _) | (1, None) => None,
            (1, Some(length)) => Some(length / 4),
            (_, Some(length)) => Some(length),
            (_, None) => Some(4 << (dice / 4 % 10)),
        };
        Chaos {
            seed: choice.seed,
            length: length.map(|length| length.max(2)),
            table: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    fn slot(&self, dti: &Dti, state: State) -> Slot {
        let hash = |hash: u64, byte: &u8| mix(hash ^ u64::from(*byte));
        let name = dti.to_string().as_bytes().iter().fold(mix(self.seed), hash);
        Slot {
            name,
            priority: INITIAL | name,
            operations: 0,
            state,
        }
    }
}

#[cold]
#[inline(never)]
fn hold_back() {
    // A thread is announced when its context is made.
    context::thread_or_last();
    let Ok(Some(me)) = PLACE.try_with(Cell::get) else {
        return;
    };
    let Some((chaos, mut table)) = table() else {
        return;
    };
    table.slots[me].step(chaos.length);
    let mut hold: Option<Hold> = None;
    while let Some(above) = table.above(me) {
        let operations = table.slots[above].operations;
        let now = real_clock::now();
        let hold = hold.get_or_insert_with(|| Hold::new(now, above, operations));
        if now - hold.since > AT_MOST {
            break;
        }
        // A place may have another thread by now, which has done less.
        if hold.above != above || operations < hold.operations {
            (hold.above, hold.above_since, hold.operations) = (above, now, operations);
        }
        if now - hold.above_since > PATIENCE || operations - hold.operations > SPINS {
            table.demote(above);
            continue;
        }
        table.slots[me].hold();
        drop(table);
        hold.pause();
        table = chaos.lock();
    }
    table.slots[me].go_on();
}

/// How a thread is held back.
#[derive(Debug)]
struct Hold {
    since: Instant,
    /// By whom, since when, and how many operations that one had performed then.
    above: usize,
    above_since: Instant,
    operations: u64,
    looks: u32,
}

impl Hold {
    const fn new(now: Instant, above: usize, operations: u64) -> Hold {
        Hold {
            since: now,
            above,
            above_since: now,
            operations,
            looks: 0,
        }
    }

    fn pause(&mut self) {
        self.looks += 1;
        match self.looks.checked_sub(EAGER) {
            None => thread::yield_now(),
            Some(n) => thread::sleep((PAUSES.0 * (1 << n.min(10))).min(PAUSES.1)),
        }
    }
}

impl Table {
    /// The thread's slot from now on: that of a thread that is gone, if there is one.
    fn insert(&mut self, slot: Slot) -> usize {
        let gone = |slot: &Slot| matches!(slot.state, State::Gone);
        match self.slots.iter().position(gone) {
            Some(at) => {
                self.slots[at] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        }
    }

    /// The thread of highest priority among those that could run, if it has a higher one
    /// than the thread at `me`.
    fn above(&mut self, me: usize) -> Option<usize> {
        let mut bound = self.slots[me].priority;
        let mut found = None;
        for at in 0..self.slots.len() {
            if self.slots[at].priority > bound && self.slots[at].could_run() {
                (bound, found) = (self.slots[at].priority, Some(at));
            }
        }
        found
    }

    /// The thread at `at` comes after all others from here on.
    fn demote(&mut self, at: usize) {
        self.demoted += 1;
        self.slots[at].priority = CHANGED - self.demoted;
    }
}

impl Slot {
    /// One more operation, before which the priority may change.
    fn step(&mut self, length: Option<u64>) {
        self.operations += 1;
        let roll = mix(self.name ^ mix(self.operations));
        let one_in = length.unwrap_or(self.operations);
        if one_in > 1 && roll <= u64::MAX / one_in {
            self.priority = CHANGED | (mix(roll) >> 2);
        }
    }

    fn could_run(&mut self) -> bool {
        let could = match &self.state {
            State::Held(_) => Some(true),
            State::Starting(since) => (real_clock::elapsed(*since) < START).then_some(true),
            State::Somewhere(stat) => is_running(stat),
            State::Gone => return false,
        };
        if could.is_none() {
            self.state = State::Gone;
        }
        could.unwrap_or(false)
    }

    fn hold(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Gone) {
            State::Somewhere(stat) => State::Held(stat),
            other => other,
        };
    }

    fn go_on(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Gone) {
            State::Held(stat) => State::Somewhere(stat),
            other => other,
        };
    }
}

/// Whether a thread runs or is about to, from its `stat` file (proc_pid_stat(5)); `None`
/// if it is gone.
fn is_running(stat: &File) -> Option<bool> {
    let mut text = [0; 128];
    let len = stat.read_at(&mut text, 0).ok()?;
    // The state comes after the name, which is in parentheses and may hold some.
    let at = text[..len].iter().rposition(|byte| *byte == b')')?;
    Some(text.get(at + 2) == Some(&b'R'))
}

/// The finalizer of SplitMix64.
const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(seed: u64, dti: &Dti) -> Slot {
        let choice = Choice { seed, length: None };
        Chaos::new(choice).slot(dti, State::Gone)
    }

    /// A thread's priority before each of its first operations.
    fn priorities(seed: u64, dti: &Dti, count: usize) -> Vec<u64> {
        let mut slot = slot(seed, dti);
        let mut next = || {
            slot.step(Some(1000));
            slot.priority
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn a_seed_asks_for_the_same_priorities_again() {
        let dti = Dti::main().child(3);
        assert_eq!(priorities(7, &dti, 1000), priorities(7, &dti, 1000));
        assert_ne!(priorities(7, &dti, 1000), priorities(8, &dti, 1000));
        assert_ne!(priorities(7, &dti, 1), priorities(7, &Dti::main(), 1));
    }

    #[test]
    fn priorities_change_at_few_points_and_downwards_from_the_first() {
        let mut changes = 0;
        for seed in 0..100 {
            let mut last = INITIAL;
            for (at, now) in priorities(seed, &Dti::main(), 1000).into_iter().enumerate() {
                if at > 0 && now != last {
                    assert!((CHANGED..INITIAL).contains(&now));
                    changes += 1;
                }
                last = now;
            }
        }
        assert!((60..140).contains(&changes), "{changes} in 100 runs");
    }

    #[test]
    fn a_length_that_is_known_is_not_exceeded() {
        let lengths = |length| {
            let of = |seed| Chaos::new(Choice { seed, length }).length;
            (0..1000).map(of).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(
            Vec::from_iter(lengths(Some(160))),
            [None, Some(40), Some(160)]
        );
        assert_eq!(Vec::from_iter(lengths(Some(0))), [None, Some(2)]);
        let unknown: Vec<_> = (2..12).map(|log| Some(1 << log)).collect();
        assert_eq!(Vec::from_iter(lengths(None))[1..], unknown);
    }

    #[test]
    fn a_choice_is_a_seed_and_perhaps_a_length() {
        let choice = |seed, length| Ok(Choice { seed, length });
        assert_eq!("7".parse(), choice(7, None));
        assert_eq!("7:100".parse(), choice(7, Some(100)));
        for text in ["", "x", "7:", ":7", "-1", "7:1:2"] {
            assert!(text.parse::<Choice>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_thread_that_exceeds_the_patience_comes_after_all_others() {
        let mut table = Table::default();
        let later = real_clock::now() + Duration::from_secs(3600);
        for number in 1..4 {
            let mut slot = slot(1, &Dti::main().child(number));
            slot.state = State::Starting(later);
            table.insert(slot);
        }
        let mut last = slot(1, &Dti::main());
        (last.priority, last.state) = (0, State::Starting(later));
        let me = table.insert(last);
        let mut order = Vec::new();
        for _ in 0..3 {
            let top = table.above(me).unwrap();
            table.demote(top);
            order.push(top);
        }
        let mut all = order.clone();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2], "each was on top once: {order:?}");
        assert_eq!(table.above(order[0]), None);
        assert_eq!(table.above(order[2]), Some(order[0]));
    }

    #[test]
    fn places_of_threads_that_are_gone_are_used_again() {
        let mut table = Table::default();
        let (first, second) = (slot(1, &Dti::main()), slot(2, &Dti::main()));
        assert_eq!((table.insert(first), table.insert(second)), (0, 0));
    }

    #[test]
    fn the_kernel_reports_running_threads() {
        let own = File::open("/proc/thread-self/stat").unwrap();
        assert_eq!(is_running(&own), Some(true));
        let (tell, told) = std::sync::mpsc::channel();
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let sleeper = thread::spawn(move || {
            tell.send(sys::tid()).unwrap();
            wait.recv().unwrap_err();
        });
        let stat = File::open(format!("/proc/self/task/{}/stat", told.recv().unwrap())).unwrap();
        while is_running(&stat) != Some(false) {
            thread::yield_now();
        }
        drop(release);
        sleeper.join().unwrap();
        // The kernel may still be at taking the thread apart.
        while is_running(&stat).is_some() {
            thread::yield_now();
        }
    }
}
