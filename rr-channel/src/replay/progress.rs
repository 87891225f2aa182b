//! Tells a replay that is stuck from one that is slow.
//!
//! Threads that wait in the [world](super::world) wait for each other; whether any
//! of them can ever go on depends on the process's other threads, which the kernel
//! knows: a thread that runs, or is about to, will do something; one that sleeps
//! on a futex without a deadline will not, unless another wakes it. If no thread
//! can move, and over several looks none has run at all, the replay is stuck, and
//! someone must leave the log. (State alone is not enough: of two threads that
//! wake each other in turn, each may be asleep just when it is looked at; their
//! context switches give them away.)
//!
//! A thread that [listens](super::listen) for what others of this process do
//! ([`Source::Here`]) can be seen to run as soon as that is done, so it counts as waiting
//! for the others.
//!
//! A thread that waits for the outside world (a read, a child process) may move or
//! may not; so may one that sleeps until a deadline, again and again, and never
//! touches a channel. Only then does [`PATIENCE`] decide, and where a thread that has left its
//! log looks for something again and again which never comes: it runs, and does nothing.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::Engine;
use super::stall::Waiting;
use super::world::Source;
use crate::context;
use crate::interpose::without_seats;
use crate::session::complain;
use crate::sys;

/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(10);
/// Consecutive looks that must find nobody able to move.
const LOOKS: u32 = 4;
/// How long everything may stand still while someone waits for the outside world.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same, once it is known that someone looks again and again for what only others bring.
const KNOWN_PATIENCE: Duration = Duration::from_millis(300);
/// How long ago the last such look may have been.
const SPIN: Duration = Duration::from_secs(1);

/// What a thread outside of the world may do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Motion {
    /// Nothing, unless another thread wakes it.
    Blocked,
    /// Something, at a deadline or if the world outside the process lets it.
    Outside,
    /// Something, now.
    Moving,
}

/// Starts the search for stalls, in a thread of its own.
pub(super) fn start(_: &Engine) {
    let builder = thread::Builder::new().name("rr-channel".to_owned());
    let spawned = without_seats(|| builder.spawn(|| watch(super::engine())));
    if let Err(error) = spawned {
        complain(&format_args!(
            "cannot look for stalls, a stuck replay will hang: {error}"
        ));
    }
}

fn watch(engine: &Engine) {
    let own = sys::tid();
    let mut seen = (0, 0);
    let mut since = Instant::now();
    let mut still = 0;
    let (mut spins, mut spun, mut patience) = (0, None::<Instant>, PATIENCE);
    loop {
        let mut world = engine.lock();
        while !world.has_waiting() {
            world = engine
                .waits
                .wait(world)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        let steps = world.steps();
        // Where something happens nobody need be asked: the kernel's answers are dear, and
        // more so when the threads end that it was asked about.
        let (motion, switches) = if steps == seen.0 {
            motion_of_all(&world.waiting(), own)
        } else {
            (Motion::Moving, 0)
        };
        let now = (steps, switches);
        if world.spins() != spins {
            spins = world.spins();
            spun = Some(Instant::now());
        }
        let spinning = steps == seen.0 && spun.is_some_and(|spun| spun.elapsed() < SPIN);
        let moves = motion == Motion::Moving || now != seen;
        if moves && spinning {
            still = 0;
        } else if moves {
            seen = now;
            since = Instant::now();
            still = 0;
        } else {
            still += 1;
        }
        let stuck = match motion {
            _ if spinning && since.elapsed() >= patience => true,
            Motion::Blocked => still >= LOOKS,
            Motion::Outside => since.elapsed() >= PATIENCE,
            Motion::Moving => false,
        };
        if stuck {
            if spinning {
                (since, patience) = (Instant::now(), KNOWN_PATIENCE);
            }
            let known = world.desyncs().len();
            world.resolve_stall();
            super::announce(&world, known);
            still = 0;
        }
        drop(world);
        thread::sleep(PERIOD);
    }
}

/// The liveliest motion of any thread of the process but `own`, and how often
/// those that do not wait in the world have been switched to or from.
fn motion_of_all(waiting: &[Waiting], own: i32) -> (Motion, u64) {
    if waiting.iter().any(|thread| thread.will_move) {
        return (Motion::Moving, 0);
    }
    let Ok(tasks) = fs::read_dir("/proc/self/task") else {
        return (Motion::Outside, 0);
    };
    let main = std::process::id();
    let mut all = (Motion::Blocked, 0_u64);
    for task in tasks.flatten() {
        let Some(tid) = task
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<i32>().ok())
        else {
            continue;
        };
        let waits = waiting.iter().find(|thread| thread.tid == tid);
        let listens = waits.and_then(|thread| thread.listens);
        if tid == own || (waits.is_some() && listens.is_none()) {
            continue;
        }
        let idle_harness = u32::try_from(tid) == Ok(main) && !context::is_used_by_main();
        // Where the kernel does not say, or the thread is gone: ask again.
        let motion = fs::read_to_string(task.path().join("syscall"))
            .map_or(Motion::Outside, |text| motion_of(&text, idle_harness));
        let motion = match (listens, motion) {
            (Some(Source::Here), Motion::Outside) => Motion::Blocked,
            (_, motion) => motion,
        };
        // Who listens wakes now and then for nothing; what it hears is a step.
        let switches = match listens {
            Some(_) => 0,
            None => fs::read_to_string(task.path().join("status"))
                .map_or(0, |text| context_switches(&text)),
        };
        all = (all.0.max(motion), all.1.wrapping_add(switches));
    }
    all
}

/// The sum of a thread's context switches, from its `status` file (proc_pid_status(5)).
fn context_switches(status: &str) -> u64 {
    status
        .lines()
        .filter_map(|line| line.split_once("voluntary_ctxt_switches:"))
        .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
        .fold(0, u64::wrapping_add)
}

/// Reads what `/proc/PID/task/TID/syscall` says (proc_pid_syscall(5)).
///
/// The main thread of a test harness waits for its tests with a timeout that only
/// makes it print a warning: a deadline does not count for it (`idle_harness`).
fn motion_of(text: &str, idle_harness: bool) -> Motion {
    let mut words = text.split_whitespace();
    // "running", or "-1 ..." for a thread that is blocked outside of a system call.
    let Some(number) = words.next().and_then(|word| word.parse::<i64>().ok()) else {
        return Motion::Moving;
    };
    let argument = |n| {
        let word: &str = words.clone().nth(n)?;
        u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
    };
    match number {
        libc::SYS_futex => {
            let wakes_itself = argument(3) != Some(0);
            if wakes_itself && !idle_harness {
                Motion::Outside
            } else {
                Motion::Blocked
            }
        }
        0.. => Motion::Outside,
        _ => Motion::Moving,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_futex_without_a_timeout_is_blocked() {
        let text = "202 0x7f00 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd 0x7f01\n";
        assert_eq!(motion_of(text, false), Motion::Blocked);
    }

    #[test]
    fn a_futex_with_a_timeout_may_move_by_itself() {
        let text = "202 0x7f00 0x189 0x0 0x7ffd10 0x0 0xffffffff 0x7ffd 0x7f01\n";
        assert_eq!(motion_of(text, false), Motion::Outside);
        assert_eq!(motion_of(text, true), Motion::Blocked);
    }

    #[test]
    fn a_running_thread_moves() {
        assert_eq!(motion_of("running\n", false), Motion::Moving);
        assert_eq!(motion_of("-1 0x7ffd 0x7f01\n", false), Motion::Moving);
        assert_eq!(motion_of("", false), Motion::Moving);
    }

    #[test]
    fn both_kinds_of_context_switches_count() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t2\n";
        assert_eq!(context_switches(status), 7);
    }

    #[test]
    fn a_read_waits_for_the_outside_world() {
        assert_eq!(
            motion_of("0 0x0 0x7f00 0x10 0x0 0x0 0x0 0x7f 0x7f\n", false),
            Motion::Outside
        );
    }
}
