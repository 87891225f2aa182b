//! Detection of tasks that run on: after a wrong visit was taken for an execution point, a
//! waiting loop may never reach its next record.

use std::time::{Duration, Instant};

use ptrace_async::event::Tid;
use ptrace_async::process::read_proc;

/// How often a task that runs is looked at.
pub(in crate::replay) const OFTEN: Duration = Duration::from_secs(1);
/// A task that was to come to its next record has run for too long after so much of the
/// processor's time, and so many times what was recorded: checks in a loop of few
/// instructions, and stops at each visit of a place, cost a multiple.
const ENOUGH: Duration = Duration::from_secs(3);
const TIMES: u32 = 100;

/// How long a task has run for a record.
pub(in crate::replay) struct RunTimer {
    /// How long that took when it was recorded, at most.
    pub(in crate::replay) recorded: Duration,
    /// When it was last looked at, or began.
    last: Instant,
    /// The processor time that it had used at the first check.
    before: Option<Duration>,
}

impl RunTimer {
    /// For a record that took so long.
    pub(in crate::replay) fn new(recorded: Duration) -> Self {
        Self {
            recorded,
            last: Instant::now(),
            before: None,
        }
    }

    /// How long it has run, if that is too long.
    pub(in crate::replay) fn too_long(&mut self, tid: Tid) -> Option<Duration> {
        if self.last.elapsed() < OFTEN {
            return None;
        }
        self.last = Instant::now();
        let now = processor_time(tid)?;
        let took = now.saturating_sub(*self.before.get_or_insert(now));
        let most = ENOUGH.saturating_add(self.recorded.saturating_mul(TIMES));
        (took > most).then_some(took)
    }
}

/// The processor time that a task has used (proc(5), `stat`).
fn processor_time(tid: Tid) -> Option<Duration> {
    /// `USER_HZ` of x86-64 is 100.
    const TICK: Duration = Duration::from_millis(10);
    let text = read_proc(format!("/proc/{tid}/stat")).ok()?;
    // The name before may have anything in it.
    let name = text.iter().rposition(|&byte| byte == b')')?;
    let fields = std::str::from_utf8(&text[name + 1..]).ok()?;
    let mut ticks = fields.split_whitespace().skip(11).map(str::parse::<u32>);
    let (user, system) = (ticks.next()?.ok()?, ticks.next()?.ok()?);
    Some(TICK * user.saturating_add(system))
}
