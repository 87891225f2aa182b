//! Reads of clocks, as changes between two runs.
//!
//! The times of two runs never agree, and few of them matter. Reads are compared in groups: those
//! that one piece of code makes in a row after one outcome, however many a loop makes. A change
//! replaces a group of the passing run by that of the failing one. It keeps how much time passed
//! since the thread's read before; the thread's later reads move along.
//!
//! Reads of other threads stay: a clock that one thread passes to another may show less than
//! before. Whether the candidate fails, its replays tell.

use rr_channel_log::{Clock, ClockRead};

use super::run::{Action, Item, Thread};

/// Reads in a row of one clock by one piece of code, as a range of the thread's reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) from: usize,
    pub(super) to: usize,
}

impl Group {
    pub(super) fn reads(&self) -> std::ops::Range<usize> {
        self.from..self.to
    }
}

/// A place of the reads of a unit that both runs have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) passing: Option<Group>,
    pub(super) failing: Option<Group>,
    /// The change that takes the failing run's.
    pub(super) change: Option<usize>,
}

/// The thread's reads after the outcome of a unit and before that of the next one.
pub(super) fn of_unit(thread: &Thread, unit: usize) -> std::ops::Range<usize> {
    let first = |position: u64| {
        thread
            .clocks
            .partition_point(|read| read.position < position)
    };
    let from = match unit {
        0 => 0,
        _ => first(position(thread, thread.units[unit].from) + 1),
    };
    let to = match thread.units.get(unit + 1) {
        Some(next) => first(position(thread, next.from) + 1),
        None => thread.clocks.len(),
    };
    from..to.max(from)
}

/// The number of events before an item that count for positions.
pub(super) fn position(thread: &Thread, item: usize) -> u64 {
    counted(&thread.items[..item])
}

/// The number of these that count for positions.
pub(super) fn counted(items: &[Item]) -> u64 {
    let counts = |item: &&Item| matches!(item.action, Action::Event(event) if !event.op.is_apart());
    items.iter().filter(counts).count() as u64
}

/// The groups of some of a thread's reads.
pub(super) fn groups(thread: &Thread, unit: usize) -> Vec<Group> {
    let range = of_unit(thread, unit);
    let same = |a: &ClockRead, b: &ClockRead| key(a) == key(b);
    let mut at = range.start;
    let groups = thread.clocks[range].chunk_by(same).map(|reads| {
        let from = at;
        at += reads.len();
        Group { from, to: at }
    });
    groups.collect()
}

/// Groups from the first to the last of these; `None` of none.
pub(super) fn all<'a>(groups: impl Iterator<Item = &'a Group>) -> Option<Group> {
    let ends = |group: &Group| (group.from, group.to);
    let (from, to) = groups.map(ends).reduce(|(from, _), (_, to)| (from, to))?;
    Some(Group { from, to })
}

const fn key(read: &ClockRead) -> (Clock, u64) {
    (read.clock, read.site)
}

/// The key by which a group of one run is found in the other.
pub(super) fn key_of(thread: &Thread, group: &Group) -> (Clock, u64) {
    key(&thread.clocks[group.from])
}

/// The time between the read of the same clock before `read` and that one, of one thread, in
/// nanoseconds.
pub(super) fn passed(thread: &Thread, read: usize) -> Option<i64> {
    let this = &thread.clocks[read];
    let before = before(thread, read)?;
    Some(this.nanoseconds.wrapping_sub(before.nanoseconds))
}

/// The thread's read of the same clock before `read`.
pub(super) fn before(thread: &Thread, read: usize) -> Option<&ClockRead> {
    let clock = thread.clocks[read].clock;
    let mut before = thread.clocks[..read].iter();
    before.rfind(|before| before.clock == clock)
}

/// A group of a thread, of a run that began then.
pub(super) type Of<'a> = (&'a Thread, &'a Group, Base);

/// Whether a group takes as long in both runs.
pub(super) fn is_equal(passing: Of<'_>, failing: Of<'_>) -> bool {
    let times = |(thread, group, base): Of<'_>| -> Vec<i64> {
        let time = |read: usize| {
            let this = &thread.clocks[read];
            passed(thread, read)
                .unwrap_or_else(|| this.nanoseconds.wrapping_sub(base.get(this.clock)))
        };
        group.reads().map(time).collect()
    };
    times(passing) == times(failing)
}

/// The first time that each clock shows in a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Base([i64; Clock::COUNT]);

impl Base {
    pub(super) fn of(threads: &[Thread]) -> Base {
        Base(Clock::ALL.map(|clock| {
            let reads = threads.iter().flat_map(|thread| &thread.clocks);
            let of_clock = reads.filter(|read| read.clock == clock);
            of_clock.map(|read| read.nanoseconds).min().unwrap_or(0)
        }))
    }

    const fn get(self, clock: Clock) -> i64 {
        self.0[clock.number()]
    }
}

/// Writes the reads of a thread of a candidate, one group after the other.
#[derive(Debug)]
pub(super) struct Writer {
    bases: [Base; 2],
    /// How much later than in the passing run it is.
    later: [i64; Clock::COUNT],
    last: [Option<i64>; Clock::COUNT],
    pub(super) reads: Vec<ClockRead>,
}

impl Writer {
    /// For two runs that began at these times, the passing one first.
    pub(super) const fn new(bases: [Base; 2]) -> Self {
        Writer {
            bases,
            later: [0; Clock::COUNT],
            last: [None; Clock::COUNT],
            reads: Vec::new(),
        }
    }

    /// A read of the passing run, at a position of the candidate.
    pub(super) fn keep(&mut self, read: ClockRead, position: u64) {
        let at = read.clock.number();
        let time = read.nanoseconds.wrapping_add(self.later[at]);
        self.push(read, position, time);
    }

    /// A read of the failing run's.
    pub(super) fn take(&mut self, thread: &Thread, read: usize, position: u64) {
        let this = thread.clocks[read];
        let at = this.clock.number();
        let time = match (self.last[at], passed(thread, read)) {
            (Some(last), Some(passed)) => last.wrapping_add(passed),
            _ => {
                let since = this.nanoseconds.wrapping_sub(self.bases[1].get(this.clock));
                self.bases[0].get(this.clock).wrapping_add(since)
            }
        };
        self.push(this, position, time);
    }

    /// The time goes on from the last read as it did in the passing run from `read`.
    pub(super) fn go_on_from(&mut self, read: &ClockRead) {
        let at = read.clock.number();
        if let Some(last) = self.last[at] {
            self.later[at] = last.wrapping_sub(read.nanoseconds);
        }
    }

    fn push(&mut self, read: ClockRead, position: u64, time: i64) {
        let at = read.clock.number();
        // Units that were put in between took their time.
        let time = match read.clock {
            Clock::Monotonic => self.last[at].map_or(time, |last| last.max(time)),
            Clock::Realtime => time,
        };
        self.last[at] = Some(time);
        self.reads.push(ClockRead {
            position,
            nanoseconds: time,
            ..read
        });
    }
}
