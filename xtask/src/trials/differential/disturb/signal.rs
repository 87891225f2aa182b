//! Signals to processes of a run.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::Pid;
use serde::{Deserialize, Serialize};

/// A signal from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Signal {
    /// `SIGKILL`, as the out-of-memory killer sends it.
    Kill,
    /// `SIGTERM`.
    Terminate,
    /// `SIGINT`.
    Interrupt,
    /// `SIGSEGV`.
    Segment,
    /// `SIGUSR1`.
    User,
    /// `SIGSTOP`, and `SIGCONT` once the process has stopped.
    Pause,
}

impl Signal {
    /// Sends it; a process that is gone gets none.
    pub(super) fn send(self, process: i32) {
        let Some(pid) = Pid::from_raw(process) else {
            return;
        };
        // One that ended meanwhile needs no signal.
        let send = |signal| rustix::process::kill_process(pid, signal).unwrap_or_default();
        match self {
            Self::Kill => send(rustix::process::Signal::KILL),
            Self::Terminate => send(rustix::process::Signal::TERM),
            Self::Interrupt => send(rustix::process::Signal::INT),
            Self::Segment => send(rustix::process::Signal::SEGV),
            Self::User => send(rustix::process::Signal::USR1),
            Self::Pause => {
                send(rustix::process::Signal::STOP);
                // A process that never shows as stopped is continued as well.
                for _ in 0..100 {
                    if matches!(state(process), None | Some('T' | 't')) {
                        break;
                    }
                    std::thread::sleep(Duration::from_micros(200));
                }
                send(rustix::process::Signal::CONT);
            }
        }
    }
}

/// The process `generations` above `process`, or the last one on the way that is below `leader` and
/// not of the program under test. A program under test may become the command: then `process` is
/// `leader`, and above it is this program.
pub(super) fn above(process: i32, generations: usize, leader: i32, pcache: &Path) -> i32 {
    let mut current = process;
    for _ in 0..generations {
        match parent(current).filter(|_| current != leader) {
            Some(parent) if parent > 1 && parent != leader && !is_program(parent, pcache) => {
                current = parent;
            }
            _ => break,
        }
    }
    current
}

/// Whether the process executes this program.
pub(super) fn is_program(process: i32, program: &Path) -> bool {
    fs::read_link(format!("/proc/{process}/exe")).is_ok_and(|path| path == program)
}

fn state(process: i32) -> Option<char> {
    field(process, 0)?.chars().next()
}

fn parent(process: i32) -> Option<i32> {
    field(process, 1)?.parse().ok()
}

/// A field of `/proc/PID/stat` after the name, from 0.
fn field(process: i32, index: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, after) = stat.rsplit_once(')')?;
    Some(after.split_whitespace().nth(index)?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_end_at_the_leader() {
        let own = i32::try_from(std::process::id()).unwrap();
        let parent = parent(own).unwrap();
        let nowhere = Path::new("/nowhere");
        assert_eq!(above(own, 0, 0, nowhere), own);
        assert_eq!(above(own, 1, parent, nowhere), own);
        // In a PID namespace of a test's own, the parent may be its init.
        let first = if parent > 1 { parent } else { own };
        assert_eq!(above(own, 1, 0, nowhere), first);
        assert_eq!(above(own, 3, own, nowhere), own, "it is the leader itself");
    }
}
