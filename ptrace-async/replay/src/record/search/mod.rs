//! Search for an execution point, starting wherever a task was stopped.
//!
//! The task single-steps until it reaches an instruction for the second time that can carry a
//! check, and then for some rounds more. If registers repeat from earlier visits, memory
//! distinguishes the visits: words that differ from all earlier visits, and words that the
//! loop reads, since a word may differ between two visits of one round and still be the same
//! in all rounds. In a pure waiting loop nothing differs, and every visit is equivalent. If
//! registers do not repeat, they distinguish the visits. A task that reaches no instruction
//! twice within [`STEPS`] is in no small loop, and its registers suffice.
//!
//! A replay stops at each visit of an instruction without room for a check. So the search
//! continues for a while to find one with room.

mod visits;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ptrace_async::memory::Memory;
use ptrace_async::runtime::{Parked, Signal, Stop, Tracee};
use rustc_hash::FxHashMap;

use super::search::visits::{Candidates, ChosenCandidate, Reads, Visit, Writes};
use crate::code::registers::Registers;
use crate::memory::digest;
use crate::memory::maps::{self, Area};
use crate::trace::event::{Contents, ExecutionPoint};
use crate::tracee::execution_point::{extended, plain, stack};
use crate::tracee::step::step;
use crate::{buffer, code};

/// After so many steps (17 to 50 µs each) the next visit of a place that was found will do,
/// or any place with room for a check.
const STEPS: usize = 2000;
/// After so many any instruction will do.
const MOST: usize = STEPS + STEPS / 2;
/// A loop that took some steps until a place came again is followed for so many times as
/// many, and [`A_LITTLE`], for registers that come again.
const TIMES: usize = 32;
const A_LITTLE: usize = 200;
/// To look closely takes at most such a part of the time.
const PART: u32 = 8;
/// To look at memory takes at most such a part, where the search has taken less.
const SMALL_PART: u32 = 32;
/// So many of the words that told the visits of a place are tried at others, those of the last
/// four places.
const FIRST: usize = 2;
const RECENT: usize = 4 * FIRST;
/// Where the stack pointer is in [`Registers`].
const SP: usize = 19;

/// Hints on instructions: the registers and words that distinguished earlier visits.
#[derive(Debug, Clone, Default)]
pub(super) struct PointHints {
    places: FxHashMap<u64, PointHint>,
    /// The words that told most, of whatever place, the last ones first.
    recent: VecDeque<u64>,
    /// When a close look ended, and how long it took.
    last: Option<(Instant, Duration)>,
    took: Duration,
    /// When memory was last looked at, and how long that took.
    digested: Option<(Instant, Duration)>,
}

#[derive(Debug, Clone)]
struct PointHint {
    telling: Vec<u8>,
    addresses: Vec<u64>,
}

impl PointHints {
    /// Whether there is time for a close search.
    fn allow(&self) -> bool {
        self.last
            .is_none_or(|(ended, took)| ended.elapsed() >= took * PART)
    }

    /// A digest of the memory of a task, if there is time for it: about as long as the search
    /// took, or a small part of all time.
    pub(super) fn contents(&mut self, tracee: &Tracee<Parked>) -> Option<Contents> {
        let has_time = |(ended, took): (Instant, Duration)| {
            took <= self.took || ended.elapsed() >= took * SMALL_PART
        };
        if !self.digested.is_none_or(has_time) {
            return None;
        }
        let begun = Instant::now();
        let mut stacks = digest::stacks(tracee.tgid());
        let own = tracee.registers().ok()?.rsp;
        if !stacks.contains(&own) {
            stacks.push(own);
        }
        let areas = maps::read(tracee.tgid()).ok()?;
        let digest = digest::contents(tracee, tracee.tgid(), &areas, &stacks);
        self.digested = Some((Instant::now(), begun.elapsed()));
        digest.map(|digest| Contents { digest, stacks })
    }

    /// How long the last search took.
    pub(super) fn took(&self) -> Duration {
        self.took
    }

    fn learn(&mut self, point: &ExecutionPoint) {
        let first = point.words.iter().take(FIRST).map(|word| word.0);
        for address in first {
            self.recent.retain(|recent| *recent != address);
            self.recent.push_front(address);
        }
        self.recent.truncate(RECENT);
        if point.code.is_empty() {
            let hint = PointHint {
                telling: point.telling.clone(),
                addresses: point.words.iter().map(|word| word.0).collect(),
            };
            self.places.insert(point.registers.ip(), hint);
        }
    }
}

/// Memory accesses of a task since the search began.
#[derive(Default)]
struct Log {
    writes: Writes,
    reads: Reads,
}

impl Log {
    /// Notes the memory accesses of the instruction that comes next.
    fn note(&mut self, tracee: &Tracee<Parked>, code: &[u8], registers: &Registers) {
        for access in code::accesses(code, registers.ip(), registers) {
            if access.writes {
                let read = |address| tracee.read_u64(address).ok();
                self.writes.note(access.address, access.length, &read);
            } else {
                self.reads.note(access.address);
            }
        }
    }
}

/// The result of a search.
pub(super) enum Outcome {
    /// The task is at this execution point.
    Point(Tracee<Parked>, Box<ExecutionPoint>),
    /// The task reached a syscall, or another stop that marks its position.
    Stopped(Stop),
    /// The task is about to make a syscall.
    AtSyscall(Tracee<Parked>),
}

/// Looks for a place from here on. A task that waits for others in a loop is stopped often,
/// and does not look `closely`, nor does one that has just done so: it takes the next place that
/// comes again, and what it has learnt of it. Signals that come meanwhile are no reason to
/// end the search if `defers` keeps them: a timer may be faster than it.
pub(super) async fn search(
    tracee: Tracee<Parked>,
    closely: bool,
    point_hints: &RefCell<PointHints>,
    defers: impl FnMut(&Tracee<Signal>) -> bool,
) -> Outcome {
    let closely = closely && point_hints.borrow().allow();
    let begun = Instant::now();
    let found = look(tracee, closely, point_hints, defers).await;
    let took = begun.elapsed();
    let mut point_hints = point_hints.borrow_mut();
    point_hints.took = took;
    if closely {
        point_hints.last = Some((Instant::now(), took));
    }
    found
}

async fn look(
    mut tracee: Tracee<Parked>,
    closely: bool,
    point_hints: &RefCell<PointHints>,
    mut defers: impl FnMut(&Tracee<Signal>) -> bool,
) -> Outcome {
    let mut places = Candidates::default();
    let mut log = Log::default();
    let mut chosen: Option<(ChosenCandidate, usize)> = None;
    let mut jumped: Vec<u64> = Vec::new();
    let mut expected = 0;
    let areas = maps::read(tracee.tgid()).unwrap_or_default();
    let is_made = |ip: u64| !is_of_a_file(&areas, ip);
    for steps in 0.. {
        let Ok(regs) = tracee.registers() else {
            return Outcome::AtSyscall(tracee);
        };
        if buffer::contains(regs.rip) {
            // In the middle of a call that is going to be logged.
            match step(tracee).await {
                Stop::Signal(next) if is_step(&next) => tracee = next.park(),
                stop => return Outcome::Stopped(stop),
            }
            continue;
        }
        let registers = plain(&Registers::from(&regs));
        let mut bytes = [0_u8; 256];
        let got = tracee.read(regs.rip, &mut bytes);
        let bytes = &bytes[..got];
        if code::is_syscall(bytes) {
            return Outcome::AtSyscall(tracee);
        }
        if let Some(length) = code::repeats(bytes) {
            match past(tracee, regs.rip + length as u64).await {
                Ok(next) => tracee = next,
                Err(stop) => return Outcome::Stopped(stop),
            }
            continue;
        }
        if regs.rip != expected && steps > 0 {
            jumped.push(regs.rip);
        }
        let visit = log.writes.visit(registers);
        let room = || room_for_jump(&tracee, bytes, (regs.rip, is_made(regs.rip)), &jumped);
        let code = |room: usize| {
            let length = room.max(code::length(bytes));
            let code = is_made(regs.rip).then(|| bytes[..length].to_vec());
            code.unwrap_or_default()
        };
        if chosen.as_ref().is_none_or(|(place, _)| place.room == 0)
            && let Some(place) = places.visit(regs.rip, visit.clone(), room)
            && (place.room > 0 || chosen.is_none())
        {
            let more = TIMES * steps + A_LITTLE;
            let limit = if closely { steps + more } else { steps };
            chosen = Some((place, limit.min(STEPS)));
        }
        if let Some((place, limit)) = chosen.as_mut().filter(|(place, _)| place.ip == regs.rip) {
            let twins = place.twins(&registers);
            let read = |address| tracee.read_u64(address).ok();
            // All is as it was: what follows is as well.
            let repeats = twins
                .last()
                .is_some_and(|twin| log.writes.is_as_at(twin, &read));
            if repeats || steps >= *limit {
                let mut point = point(&tracee, registers, &twins, Some(place), (&log, &areas));
                point.code = code(place.room);
                if closely {
                    point_hints.borrow_mut().learn(&point);
                } else {
                    point_hints.borrow().add_to(&mut point, &read);
                }
                return Outcome::Point(tracee, Box::new(point));
            }
            place.push(visit);
        }
        if steps >= MOST || (steps >= STEPS && chosen.is_none()) {
            let room = room().unwrap_or(0);
            if room > 0 || steps >= MOST {
                let mut point = point(&tracee, registers, &[], None, (&log, &areas));
                point.room = room as u8;
                point.code = code(room);
                return Outcome::Point(tracee, Box::new(point));
            }
        }
        log.note(&tracee, bytes, &registers);
        expected = regs.rip + code::length(bytes) as u64;
        tracee = match step_deferring(tracee, &mut defers).await {
            Ok(next) => next,
            Err(stop) => return Outcome::Stopped(stop),
        };
    }
    unreachable!("the number of steps is bounded")
}

/// Steps over one instruction; signals that come before it are deferred, if `defers` keeps
/// them.
async fn step_deferring(
    mut tracee: Tracee<Parked>,
    defers: &mut impl FnMut(&Tracee<Signal>) -> bool,
) -> Result<Tracee<Parked>, Stop> {
    loop {
        match step(tracee).await {
            Stop::Signal(next) if is_step(&next) => return Ok(next.park()),
            Stop::Signal(next) if defers(&next) => tracee = next.park(),
            stop => return Err(stop),
        }
    }
}

/// Bytes of code at `ip` that a jump can replace, if there are enough. Generated code
/// (`is_made`) may be entered anywhere, by tables that the program has made as well.
fn room_for_jump(
    tracee: &Tracee<Parked>,
    code: &[u8],
    (ip, is_made): (u64, bool),
    jumped: &[u64],
) -> Option<usize> {
    let mut targets = around(tracee, ip);
    targets.extend_from_slice(jumped);
    code::room(code, ip, &|address| is_made || targets.contains(&address))
}

fn is_of_a_file(areas: &[Area], ip: u64) -> bool {
    areas
        .iter()
        .any(|area| (area.start..area.end).contains(&ip) && area.inode != 0)
}

/// Lets the task come to `end`, which it does without a jump, a syscall or a call.
async fn past(tracee: Tracee<Parked>, end: u64) -> Result<Tracee<Parked>, Stop> {
    let mut original = [0];
    let is_set =
        tracee.read_exact(end, &mut original).is_ok() && tracee.write(end, &[0xcc]).is_ok();
    let stop = if is_set {
        tracee.resume().stop().await
    } else {
        step(tracee).await
    };
    match stop {
        Stop::Signal(next) if !is_set && is_step(&next) => Ok(next.park()),
        stop if !is_set => Err(stop),
        Stop::Signal(next) => {
            // An error means that the task is gone.
            let _ = next.write(end, &original);
            match next.registers() {
                Ok(mut regs) if next.signal() == libc::SIGTRAP && regs.rip == end + 1 => {
                    regs.rip = end;
                    let _ = next.set_registers(&regs);
                    Ok(next.park())
                }
                _ => Err(Stop::Signal(next)),
            }
        }
        Stop::GroupStop(next) => {
            let _ = next.write(end, &original);
            Err(Stop::GroupStop(next))
        }
        // Nothing else happens in an instruction but the task's end.
        stop => Err(stop),
    }
}

/// Where the code around an address may jump to.
fn around(tracee: &Tracee<Parked>, ip: u64) -> Vec<u64> {
    /// A function, and more.
    const REACH: u64 = 4096;
    let mut bytes = vec![0; 2 * REACH as usize];
    let mut start = ip.saturating_sub(REACH);
    let mut got = tracee.read(start, &mut bytes);
    if got < REACH as usize {
        // What lies before it is not mapped.
        start = ip & !(REACH - 1);
        got = tracee.read(start, &mut bytes);
    }
    code::targets(&bytes[..got], start).collect()
}

/// The point where the task is, at a place or nowhere in particular. Its `twins` are visits of
/// it with the same registers.
fn point(
    tracee: &Tracee<Parked>,
    registers: Registers,
    twins: &[&Visit],
    place: Option<&ChosenCandidate>,
    (log, areas): (&Log, &[Area]),
) -> ExecutionPoint {
    let differs = |visit: &Visit, index: u8| {
        let index = usize::from(index);
        visit.registers.0[index] != registers.0[index]
    };
    let telling = place
        .filter(|_| twins.is_empty())
        .into_iter()
        .flat_map(|place| (0..registers.0.len() as u8).filter(|i| differs(place.last(), *i)));
    let sp = registers.0[SP];
    let read = |address| tracee.read_u64(address).ok();
    let mut words = if twins.is_empty() {
        log.writes
            .since(place.map(ChosenCandidate::first), sp, &read)
    } else {
        log.writes.telling(twins, sp, &read)
    };
    let may_change = |address: u64| {
        let area = areas
            .iter()
            .find(|area| (area.start..area.end).contains(&address));
        area.is_some_and(|area| i32::from(area.prot) & libc::PROT_WRITE != 0 && !area.shared)
            && !words.iter().any(|word| word.0 == address)
    };
    let read_words = log.reads.words(&may_change, &read);
    words.extend(read_words);
    ExecutionPoint {
        registers,
        extended: tracee.extended_state().map_or(0, |state| extended(&state)),
        stack: stack(tracee, sp),
        words,
        telling: telling.collect(),
        room: place.map_or(0, |place| place.room as u8),
        code: Vec::new(),
        contents: None,
    }
}

impl PointHints {
    /// A point is told by what told its place's visits as well, and what told those of other
    /// places in the rounds of what may be the same loop.
    fn add_to(&self, point: &mut ExecutionPoint, read: &dyn Fn(u64) -> Option<u64>) {
        let hint = self.places.get(&point.registers.ip());
        let of_place = hint.map_or(&[][..], |hint| &hint.addresses);
        let mut added: Vec<(u64, u64)> = Vec::new();
        for &address in self.recent.iter().chain(of_place) {
            let is_new = point
                .words
                .iter()
                .chain(&added)
                .all(|word| word.0 != address);
            if is_new && let Some(value) = read(address) {
                added.push((address, value));
            }
        }
        // What was learnt in many steps tells more than what was written in a few.
        point.words.splice(0..0, added);
        for &index in hint.map_or(&[][..], |hint| &hint.telling) {
            if !point.telling.contains(&index) {
                point.telling.push(index);
            }
        }
    }
}

/// Whether a signal reports a single step.
fn is_step(tracee: &Tracee<Signal>) -> bool {
    /// `TRAP_BRKPT` (behind a syscall) and `TRAP_TRACE` of sigaction(2).
    const STEPS: std::ops::RangeInclusive<i32> = 1..=2;
    tracee.signal() == libc::SIGTRAP
        && tracee
            .info()
            .is_ok_and(|info| STEPS.contains(&info.si_code))
}
