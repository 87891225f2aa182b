//! From wherever a task was stopped to a place that a replay can find again.
//!
//! The task goes on by single steps, until it comes a second time to an instruction that can
//! carry a check: what differs between the two visits tells visits apart. In a loop that
//! does nothing but wait, nothing differs, and one visit is as good as another. A task that
//! comes nowhere twice within [`STEPS`] is in no small loop, and its registers will do.

use ptrace_async::memory::Memory;
use ptrace_async::runtime::{Parked, Stop, Tracee};
use rustc_hash::FxHashMap;

use crate::maps::{self, Area};
use crate::point::{extended, plain, stack};
use crate::step::step;
use crate::trace::event::{Point, Registers};
use crate::{buffer, code};

/// At most so many steps (17 to 50 µs each).
const STEPS: usize = 2000;
/// Where the stack pointer is in [`Registers`].
const SP: usize = 19;
/// How many words a point is told by, at most.
const WORDS: usize = 8;

struct Visit {
    registers: Registers,
    /// The words that had been written by then.
    words: Vec<(u64, u64)>,
    room: Option<usize>,
    times: u32,
}

/// What was found.
pub(super) enum Found {
    /// The task is at this point.
    Point(Tracee<Parked>, Box<Point>),
    /// The task came to a syscall or to something else that marks its place.
    Mark(Stop),
    /// It is about to.
    Soon(Tracee<Parked>),
}

/// Looks for a place from here on.
pub(super) async fn search(mut tracee: Tracee<Parked>) -> Found {
    let mut visits: FxHashMap<u64, Visit> = FxHashMap::default();
    let mut written: Vec<u64> = Vec::new();
    let mut jumped: Vec<u64> = Vec::new();
    let mut expected = 0;
    let areas = maps::read(tracee.tgid()).unwrap_or_default();
    for steps in 0.. {
        let Ok(regs) = tracee.registers() else {
            return Found::Soon(tracee);
        };
        if buffer::contains(regs.rip) {
            // In the middle of a call that is going to be logged.
            match step(tracee).await {
                Stop::Signal(next) if is_step(&next) => tracee = next.park(),
                stop => return Found::Mark(stop),
            }
            continue;
        }
        let registers = plain(&Registers::from(&regs));
        let mut bytes = [0_u8; 256];
        let got = tracee.read(regs.rip, &mut bytes);
        let bytes = &bytes[..got];
        if code::is_syscall(bytes) {
            return Found::Soon(tracee);
        }
        if let Some(length) = code::repeats(bytes) {
            match past(tracee, regs.rip + length as u64).await {
                Ok(next) => tracee = next,
                Err(stop) => return Found::Mark(stop),
            }
            continue;
        }
        if regs.rip != expected && steps > 0 {
            jumped.push(regs.rip);
        }
        let words = read(&tracee, &written);
        let before = visits.get_mut(&regs.rip);
        let is_again = before.is_some_and(|visit| {
            visit.times += 1;
            // Another instruction of the loop may have room.
            visit.room.is_some() || visit.times > 2
        });
        let before = visits.get(&regs.rip);
        if is_again || steps >= STEPS {
            let point = point(&tracee, registers, before, words);
            return Found::Point(tracee, Box::new(point));
        }
        if before.is_none() {
            let mut targets = around(&tracee, regs.rip);
            targets.extend_from_slice(&jumped);
            // Code that a program has made may be entered anywhere, by tables that it has
            // made as well.
            let is_made = !is_of_a_file(&areas, regs.rip);
            let room = code::room(bytes, regs.rip, &|address| {
                is_made || targets.contains(&address)
            });
            let visit = Visit {
                registers,
                words,
                room,
                times: 1,
            };
            visits.insert(regs.rip, visit);
        }
        for address in code::written(bytes, regs.rip, &registers) {
            if !written.contains(&address) && written.len() < 64 {
                written.push(address);
            }
        }
        expected = regs.rip + code::length(bytes) as u64;
        match step(tracee).await {
            Stop::Signal(next) if is_step(&next) => tracee = next.park(),
            stop => return Found::Mark(stop),
        }
    }
    unreachable!("the number of steps is bounded")
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

fn read(tracee: &Tracee<Parked>, addresses: &[u64]) -> Vec<(u64, u64)> {
    addresses
        .iter()
        .filter_map(|&address| Some((address, tracee.read_u64(address).ok()?)))
        .collect()
}

fn point(
    tracee: &Tracee<Parked>,
    registers: Registers,
    before: Option<&Visit>,
    words: Vec<(u64, u64)>,
) -> Point {
    let telling = (0..registers.0.len() as u8)
        .filter(|&index| {
            let index = usize::from(index);
            before.is_some_and(|visit| visit.registers.0[index] != registers.0[index])
        })
        .collect();
    // Those that have changed, or of which it is not known.
    let mut words: Vec<(u64, u64)> = words
        .into_iter()
        .filter(|word| before.is_none_or(|visit| !visit.words.contains(word)))
        .collect();
    words.truncate(WORDS);
    Point {
        registers,
        extended: tracee.extended_state().map_or(0, |state| extended(&state)),
        stack: stack(tracee, registers.0[SP]),
        words,
        telling,
        room: before.and_then(|visit| visit.room).unwrap_or(0) as u8,
    }
}

/// Whether a signal reports a step.
fn is_step(tracee: &Tracee<ptrace_async::runtime::Signal>) -> bool {
    /// `TRAP_BRKPT` (behind a syscall) and `TRAP_TRACE` of sigaction(2).
    const STEPS: std::ops::RangeInclusive<i32> = 1..=2;
    tracee.signal() == libc::SIGTRAP
        && tracee
            .info()
            .is_ok_and(|info| STEPS.contains(&info.si_code))
}
