//! Tells a replay that is stuck from one that is slow.
//!
//! Threads that wait in the [world](super::world) wait for each other. Whether any of them can
//! ever go on depends on the process's other threads, which the kernel knows. A thread that runs,
//! or is about to, will do something. A thread that sleeps on a futex without a deadline will not,
//! unless another wakes it. If no thread can move, and over several looks none has run at all, the
//! replay is stuck, and one thread must leave the log. (State alone is not enough: of two threads
//! that wake each other in turn, each may be asleep just when it is looked at. Their context
//! switches show that they run.)
//!
//! A thread that [listens](super::listen) for events of other threads of this process
//! ([`Source::Here`]) counts as waiting for them once it has looked in vain after they all had
//! come to rest. (Its sleep says less: it may have been woken, and still not run for long if the
//! hypervisor does not let its processor run.)
//!
//! Time decides ([`Patience`]) in four cases: a thread waits for the outside world (a read, a
//! child process), sleeps until a deadline again and again, computes without end, or has left its
//! log and looks for something that never comes. The log says how long the recorded run took, and
//! patience grows with that: an operation may take longer in the replay of a longer run. Time in
//! which the machine itself stands still is not counted.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::Engine;
use super::stall::Waiting;
use super::world::Source;
use crate::engine::context;
use crate::engine::seats::without_seats;
use crate::platform::apart::apart;
use crate::platform::clock;
use crate::platform::sys;
use crate::recorder::process::complain;

/// A wait as long as this has the search begin.
pub(super) const FIRST: Duration = Duration::from_millis(100);
/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(10);
/// The most that counts of the time between two looks: during the rest of it, no thread ran.
const LONGEST: Duration = Duration::from_millis(100);
/// Consecutive looks that must find no thread able to move.
const LOOKS: u32 = 4;
/// How long ago the last vain search of a live thread may have been.
const SPIN: Duration = Duration::from_secs(1);

/// How long a replay may go on without an event where nothing is certain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// While nothing happens at all, and a thread waits for the outside world; and while a live
    /// thread looks again and again for an event that only others can cause.
    idle: Duration,
    /// While threads do something at intervals.
    slow: Duration,
    /// While threads compute.
    busy: Duration,
}

impl Patience {
    /// The least that is left of it when it has run out several times.
    const LEAST: Duration = Duration::from_millis(300);

    /// For a recorded run that took so long; `factor` times as long as usual.
    pub(super) fn new(recorded: Duration, factor: f64) -> Self {
        let patience = |seconds, times| {
            let usual = Duration::from_secs(seconds).saturating_add(recorded.saturating_mul(times));
            Duration::try_from_secs_f64(usual.as_secs_f64() * factor).unwrap_or(Duration::MAX)
        };
        Patience {
            idle: patience(10, 2),
            slow: patience(20, 3),
            busy: patience(120, 10),
        }
    }

    /// The patience that remains once it has run out: from then on the run is no faithful replay.
    fn shorter(self) -> Self {
        let shorter = |patience: Duration| (patience / 8).max(Self::LEAST);
        Patience {
            idle: shorter(self.idle),
            slow: shorter(self.slow),
            busy: shorter(self.busy),
        }
    }
}

/// The possible next step of a thread outside of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Motion {
    /// Nothing, unless another thread wakes it.
    Blocked,
    /// Something, at a deadline or if the world outside the process lets it.
    Outside,
    /// Something, when it is due: it waits in the world until then at most.
    Due,
    /// Something, now.
    Moving,
}

/// The findings of one look.
#[derive(Debug, Clone, Copy)]
struct Look {
    motion: Motion,
    /// How often the threads outside of the world have been switched to or from.
    switches: u64,
    /// The number of changes in the world.
    steps: u64,
    /// How often a live thread looked for something that is not there.
    spins: u64,
    /// Events of logs that came about.
    events: u64,
}

/// The result of all looks so far.
#[derive(Debug)]
struct Seen {
    patience: Patience,
    last: Look,
    /// Looks that found no thread moving, in a row; and none that could move without another.
    still: u32,
    blocked: u32,
    /// How long nothing has happened, or nothing but vain searches.
    still_for: Duration,
    /// How long ago the last vain search was.
    spun: Option<Duration>,
    /// How long no log has moved; the looks since then, and those of them that found a thread
    /// running.
    halted_for: Duration,
    looks: u64,
    running: u64,
}

/// The action to take after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Nothing.
    Patience,
    /// A thread must leave the log: no thread can move.
    Stuck,
    /// A thread must leave the log: for so long no event came of all that moved.
    Late(Duration),
}

impl Seen {
    const fn new(patience: Patience) -> Self {
        Seen {
            patience,
            // The first look is not like this one, so the kernel is not asked for it.
            last: Look {
                motion: Motion::Moving,
                switches: 0,
                steps: u64::MAX,
                spins: 0,
                events: 0,
            },
            still: 0,
            blocked: 0,
            still_for: Duration::ZERO,
            spun: None,
            halted_for: Duration::ZERO,
            looks: 0,
            running: 0,
        }
    }

    /// Forgets how long nothing has happened.
    const fn begin(&mut self) {
        (self.still, self.blocked) = (0, 0);
        self.still_for = Duration::ZERO;
        self.halted_for = Duration::ZERO;
        (self.looks, self.running) = (0, 0);
    }

    /// Whether the kernel is to be asked. While events happen it is not: its answers are
    /// expensive, and more so when the threads end that it was asked about.
    const fn is_still(&self, steps: u64) -> bool {
        self.last.steps == steps
    }

    /// A look, so long after the last one.
    fn judge(&mut self, look: Look, passed: Duration) -> Verdict {
        let passed = passed.min(LONGEST);
        let stands = look.steps == self.last.steps;
        let moves = look.motion >= Motion::Due || !stands || look.switches != self.last.switches;
        self.spun = if look.spins == self.last.spins {
            self.spun.map(|spun| spun + passed)
        } else {
            Some(Duration::ZERO)
        };
        let spins = stands && self.spun.is_some_and(|spun| spun < SPIN);
        self.still = if moves { 0 } else { self.still + 1 };
        self.blocked = match look.motion {
            Motion::Blocked if !moves => self.blocked + 1,
            _ => 0,
        };
        self.still_for = if moves && !spins {
            Duration::ZERO
        } else {
            self.still_for + passed
        };
        if look.events == self.last.events {
            self.halted_for += passed;
            self.looks += 1;
            self.running += u64::from(look.motion == Motion::Moving);
        } else {
            self.halted_for = Duration::ZERO;
            (self.looks, self.running) = (0, 0);
        }
        self.last = look;
        let patience = &self.patience;
        let halted = if self.running > self.looks / 2 {
            patience.busy
        } else {
            patience.slow
        };
        let verdict = if self.blocked >= LOOKS {
            Verdict::Stuck
        } else if (spins || look.motion == Motion::Outside) && self.still_for >= patience.idle {
            Verdict::Late(self.still_for)
        } else if self.halted_for >= halted {
            Verdict::Late(self.halted_for)
        } else {
            return Verdict::Patience;
        };
        if let Verdict::Late(_) = verdict {
            self.patience = patience.shorter();
        }
        self.begin();
        verdict
    }
}

/// Starts the search for stalls, in a thread of its own.
pub(super) fn start(engine: &Engine) {
    let patience = engine.patience;
    let builder = thread::Builder::new().name("rr-channel".to_owned());
    let spawned =
        without_seats(|| builder.spawn(move || apart(|| watch(super::engine(), patience))));
    if let Err(error) = spawned {
        complain(&format_args!(
            "cannot look for stalls, a stuck replay will hang: {error}"
        ));
    }
}

fn watch(engine: &Engine, patience: Patience) {
    let own = sys::tid();
    let mut seen = Seen::new(patience);
    let mut looked = clock::now();
    loop {
        let mut world = engine.lock();
        while !world.has_waiting() {
            world.is_watch_idle = true;
            world = world.sleep(&engine.waits, None);
            world.is_watch_idle = false;
            seen.begin();
            looked = clock::now();
        }
        let steps = world.steps();
        let (motion, switches) = if seen.is_still(steps) {
            motion_of_all(&world.waiting(), own)
        } else {
            (Motion::Moving, 0)
        };
        let look = Look {
            motion,
            switches,
            steps,
            spins: world.spins(),
            events: world.events(),
        };
        let now = clock::now();
        let verdict = seen.judge(look, now - looked);
        looked = now;
        let late = match verdict {
            Verdict::Patience => None,
            Verdict::Stuck => Some(None),
            Verdict::Late(after) => Some(Some(after)),
        };
        if seen.still == 0 {
            world.moves += 1;
        }
        if let Some(late) = late {
            let known = world.desyncs().len();
            world.resolve_stall(late);
            super::announce(&world, known);
        }
        drop(world);
        thread::sleep(PERIOD);
    }
}

/// The liveliest motion of any thread of the process but `own`, and how often
/// those that do not wait in the world have been switched to or from.
fn motion_of_all(waiting: &[Waiting], own: i32) -> (Motion, u64) {
    if waiting.iter().any(|thread| thread.is_notified) {
        return (Motion::Moving, 0);
    }
    if waiting.iter().any(|thread| thread.is_timed) {
        return (Motion::Due, 0);
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
        if tid == own || waits.is_some_and(|thread| thread.listens.is_none()) {
            continue;
        }
        let idle_harness = u32::try_from(tid) == Ok(main) && !context::is_used_by_main();
        let (motion, switches) = motion_of_task(&task.path(), waits, idle_harness);
        all = (all.0.max(motion), all.1.wrapping_add(switches));
    }
    all
}

/// The motion of one thread, and how often it has been switched to or from, from its
/// directory in `/proc`; `listens` if it waits elsewhere.
fn motion_of_task(task: &Path, listens: Option<&Waiting>, idle_harness: bool) -> (Motion, u64) {
    // The kernel does not say, or the thread is gone: ask again.
    let motion = fs::read_to_string(task.join("syscall"))
        .map_or(Motion::Outside, |text| motion_of(&text, idle_harness));
    let motion = match listens {
        _ if motion == Motion::Moving => motion,
        Some(thread) if thread.listens == Some(Source::Here) && thread.heard_nothing => {
            Motion::Blocked
        }
        // Wherever it sleeps, be it for the world, which is locked while this is asked.
        Some(_) => Motion::Outside,
        None => motion,
    };
    match fs::read_to_string(task.join("status")) {
        Ok(status) if is_awake(&status) => (Motion::Moving, 0),
        // A listening thread wakes at intervals for nothing; a message that it receives is a step.
        Ok(_) if listens.is_some() => (motion, 0),
        Ok(status) => (motion, context_switches(&status)),
        Err(_) => (Motion::Outside, 0),
    }
}

/// Whether a thread runs or is about to, by its `status` file. For a thread that was woken and has
/// not run yet, the `syscall` file still says where it slept. That may last long if a virtual
/// processor is not let run.
fn is_awake(status: &str) -> bool {
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_some_and(|state| state.trim_start().starts_with('R'))
}

/// The sum of a thread's context switches, from its `status` file (proc_pid_status(5)).
fn context_switches(status: &str) -> u64 {
    status
        .lines()
        .map(|line| line.strip_prefix("non").unwrap_or(line))
        .filter_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
        .filter_map(|count| count.trim().parse::<u64>().ok())
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
    use std::sync::{Mutex, mpsc};

    use super::*;

    /// The verdict on looks that are all alike, and how long it takes.
    #[track_caller]
    fn verdict(patience: Patience, mut look: impl FnMut(u64) -> Look) -> (Verdict, Duration) {
        let mut seen = Seen::new(patience);
        for number in 0..10_000_000 {
            let verdict = seen.judge(look(number), PERIOD);
            if verdict != Verdict::Patience {
                return (verdict, PERIOD * number as u32);
            }
        }
        panic!("there is none");
    }

    const STILL: Look = Look {
        motion: Motion::Blocked,
        switches: 7,
        steps: 7,
        spins: 0,
        events: 7,
    };

    fn usual() -> Patience {
        Patience::new(Duration::from_secs(3), 1.0)
    }

    #[test]
    fn a_replay_that_cannot_move_is_stuck_at_once() {
        let (verdict, after) = verdict(usual(), |_| STILL);
        assert_eq!(verdict, Verdict::Stuck);
        assert!(after < Duration::from_millis(100), "{after:?}");
    }

    #[test]
    fn occasional_waits_for_the_outside_are_not_stuck() {
        let (verdict, _) = verdict(usual(), |number| Look {
            motion: match number % u64::from(LOOKS) {
                0 => Motion::Outside,
                _ => Motion::Blocked,
            },
            ..STILL
        });
        assert!(matches!(verdict, Verdict::Late(_)), "{verdict:?}");
    }

    #[test]
    fn a_thread_that_wakes_occasionally_is_not_stuck() {
        let mut seen = Seen::new(Patience::new(Duration::MAX, 1.0));
        for switches in 0..100_000 {
            let look = Look { switches, ..STILL };
            assert_eq!(seen.judge(look, PERIOD), Verdict::Patience);
        }
    }

    #[test]
    fn patience_depends_on_what_still_moves() {
        #[track_caller]
        fn check(look: impl FnMut(u64) -> Look, seconds: u64) {
            let (verdict, after) = verdict(usual(), look);
            assert!(matches!(verdict, Verdict::Late(_)), "{verdict:?}");
            assert_eq!(after.as_secs(), seconds);
        }
        let outside = |number| Look {
            motion: Motion::Outside,
            switches: number / 10,
            ..STILL
        };
        // The outside world; with a tick; live threads that search, and do something.
        check(|_| outside(0), 10 + 2 * 3);
        check(outside, 20 + 3 * 3);
        let searching = |number| Look {
            motion: Motion::Moving,
            spins: number,
            ..STILL
        };
        check(searching, 10 + 2 * 3);
        let live = |number| Look {
            motion: Motion::Moving,
            steps: number,
            ..STILL
        };
        check(live, 120 + 10 * 3);
        // A deadline in the world; a thread that computes.
        let due = |_| Look {
            motion: Motion::Due,
            ..STILL
        };
        check(due, 20 + 3 * 3);
        let computing = |_| Look {
            motion: Motion::Moving,
            ..STILL
        };
        check(computing, 120 + 10 * 3);
    }

    #[test]
    fn a_thread_that_follows_its_log_is_waited_for() {
        let mut seen = Seen::new(usual());
        for number in 0..1_000_000 {
            let look = Look {
                motion: Motion::Outside,
                switches: number / 10,
                // One event in 15 s.
                events: number / 1500,
                ..STILL
            };
            assert_eq!(seen.judge(look, PERIOD), Verdict::Patience);
        }
    }

    #[test]
    fn a_machine_that_stands_still_does_not_count() {
        let mut seen = Seen::new(usual());
        let look = Look {
            motion: Motion::Outside,
            ..STILL
        };
        for _ in 0..100 {
            let verdict = seen.judge(look, Duration::from_secs(3600));
            assert_eq!(verdict, Verdict::Patience);
        }
    }

    #[test]
    fn repeated_late_verdicts_come_sooner() {
        let mut seen = Seen::new(usual());
        let look = Look {
            motion: Motion::Outside,
            ..STILL
        };
        let mut lates = Vec::new();
        while lates.len() < 5 {
            if let Verdict::Late(after) = seen.judge(look, PERIOD) {
                lates.push(after.as_millis());
            }
        }
        assert_eq!(lates, [16_000, 2_000, 300, 300, 300]);
    }

    #[test]
    fn a_factor_stretches_patience() {
        let patience = Patience::new(Duration::from_secs(5), 0.5);
        assert_eq!(patience.idle, Duration::from_secs(10));
        let endless = Patience::new(Duration::from_secs(5), f64::INFINITY);
        assert_eq!(endless.busy, Duration::MAX);
    }

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
    fn a_woken_thread_is_awake() {
        assert!(is_awake("Name:\tx\nState:\tR (running)\nTgid:\t5\n"));
        assert!(!is_awake("Name:\tR\nState:\tS (sleeping)\nTgid:\t5\n"));
        assert!(!is_awake("Name:\tx\n"));
    }

    fn listening(tid: i32, source: Source, heard_nothing: bool) -> Waiting {
        Waiting {
            tid,
            is_notified: false,
            is_timed: false,
            listens: Some(source),
            heard_nothing,
        }
    }

    /// Of a thread that sleeps until a deadline.
    #[test]
    fn a_listening_thread_is_blocked_after_a_vain_look() {
        let (tell, told) = mpsc::channel();
        let (stop, stopped) = mpsc::channel::<()>();
        let sleeper = thread::spawn(move || {
            tell.send(sys::tid()).unwrap();
            let _ = stopped.recv_timeout(Duration::from_secs(1000));
        });
        let tid = told.recv().unwrap();
        let task = format!("/proc/self/task/{tid}");
        let motion = |heard_nothing| {
            let waiting = listening(tid, Source::Here, heard_nothing);
            motion_of_task(Path::new(&task), Some(&waiting), false)
        };
        while motion(false).0 != Motion::Outside {
            thread::yield_now();
        }
        assert_eq!(motion(true), (Motion::Blocked, 0));
        drop(stop);
        sleeper.join().unwrap();
    }

    /// As one does that finds the world locked, which it is during a look.
    #[test]
    fn a_listening_thread_asleep_at_a_lock_can_go_on() {
        let lock = Mutex::new(());
        let held = lock.lock().unwrap();
        let (tell, told) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                tell.send(sys::tid()).unwrap();
                drop(lock.lock());
            });
            let tid = told.recv().unwrap();
            let task = format!("/proc/self/task/{tid}");
            let motion =
                |listens: Option<&Waiting>| motion_of_task(Path::new(&task), listens, false);
            while motion(None).0 != Motion::Blocked {
                thread::yield_now();
            }
            for source in [Source::Here, Source::Anywhere] {
                let waiting = listening(tid, source, false);
                assert_eq!(motion(Some(&waiting)), (Motion::Outside, 0));
            }
            drop(held);
        });
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
