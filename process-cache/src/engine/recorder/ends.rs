//! Ends of processes: which units explain the signal that ended one of their processes.
//!
//! A fatal signal stops its target before it acts, and [`Tracer`](crate::engine::tracer::Tracer)
//! then looks at its sender. SIGKILL does not stop. So the recorder remembers each SIGKILL that a
//! traced process sends. An end by SIGKILL without a traced sender has a reason outside of the
//! command: the machine ran out of memory, a limit was reached, or somebody sent the signal.
//!
//! **Invariant:** a unit is stored only if the unit itself sent each signal that ended one of its
//! processes, or the process brought the signal on itself.

use ptrace_async::event::Tid;
use ptrace_async::invocation::Invocation;

use crate::engine::session::{Kill, Session};
use crate::model::outcome::Ending;
use crate::model::unit_id::UnitId;
use crate::platform::defect::{Defect, planted};
use crate::platform::os;

/// The bit of a wait status that says that the process dumped core (wait(2), `WCOREDUMP`).
const CORE_DUMPED: i32 = 0x80;

impl Session {
    /// Notes a signal that a task is about to send.
    pub(crate) fn note_kill(&mut self, tid: Tid, target: i32, signal: i32) {
        let (Some(sender), libc::SIGKILL) = (self.unit_of(tid), signal) else {
            return;
        };
        let target = match target {
            0 => os::process_group(tid).map_or(-1, |group| -group),
            target => target,
        };
        self.kills.push(Kill { sender, target });
    }

    /// Notes a signal that a task is about to send to its own process, for which there is no event.
    pub(crate) fn note_suicide(&mut self, tid: Tid, call: &Invocation) {
        let (target, signal) = match call.nr.cast_signed() {
            libc::SYS_kill | libc::SYS_tkill | libc::SYS_rt_sigqueueinfo => {
                (call.args[0], call.args[1])
            }
            libc::SYS_tgkill | libc::SYS_rt_tgsigqueueinfo => (call.args[0], call.args[2]),
            _ => return,
        };
        let own = self.tasks.get(tid).map(|task| task.process);
        let target = self.tasks.get(target as Tid).map(|task| task.process);
        if let (Some(process), true) = (own, own == target) {
            self.note_kill(tid, process, signal as i32);
        }
    }

    /// Notes that a task ends with this wait status. A signal that the unit does not explain makes
    /// it uncacheable, and the units above it as well.
    pub(crate) fn note_end(&mut self, tid: Tid, status: i32) {
        let signal = status & 0x7f;
        let Some((unit, process)) = self.tasks.get(tid).map(|task| (task.unit, task.process))
        else {
            return;
        };
        if status & CORE_DUMPED != 0 {
            // The kernel writes it, or starts a program that does, without a call.
            self.mark_uncacheable(unit, "a process dumped core", true);
        }
        let Some(entry) = self.tasks.process(process) else {
            return;
        };
        // A filter of the program itself ends a process by SIGSYS without a stop.
        let was_seen = signal == 0
            || signal == libc::SIGSYS
            || entry.seen_signals & (1 << signal) != 0
            || entry.stand_in == Some(Ending::Killed(signal));
        if was_seen || planted(Defect::KilledOutside) {
            return;
        }
        let group = os::process_group(process);
        let kills = self.kills.iter();
        let senders: Vec<UnitId> = kills
            .filter(|kill| signal == libc::SIGKILL && kill.hits(process, group))
            .map(|kill| kill.sender)
            .collect();
        let reason = match senders.is_empty() {
            true => format!(
                "a process was ended from outside by {} (out of memory, a limit, or kill)",
                name(signal)
            ),
            false => format!("received signal {signal} from another process"),
        };
        let mut at = Some(unit);
        while let Some(id) = at {
            if senders.iter().any(|sender| self.is_within(*sender, id)) {
                break;
            }
            self.unit(id).mark_uncacheable(reason.as_str(), true);
            at = self.unit(id).parent;
        }
    }

    /// Forgets the signals that were sent to a process that has ended: its id may be used again.
    pub(crate) fn forget_kills(&mut self, process: Tid) {
        self.kills.retain(|kill| kill.target != process);
    }
}

/// Returns the name of a signal that ends processes without a stop.
fn name(signal: i32) -> String {
    match signal {
        libc::SIGKILL => "SIGKILL".to_owned(),
        libc::SIGSEGV => "SIGSEGV".to_owned(),
        _ => format!("signal {signal}"),
    }
}
