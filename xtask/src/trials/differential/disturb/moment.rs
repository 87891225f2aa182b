//! Moments of a run, as events.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::super::hang;
use super::{Scene, inside, signal};

/// An event in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Moment {
    /// A process of the run waits for the lock of this file. It waits until the act is done.
    Gate(String),
    /// A process of the run executes a program of this name.
    Program(String),
}

/// A moment that is waited for.
#[derive(Debug)]
pub(super) enum Watched {
    /// The test holds the lock of this file until this is dropped.
    Gate {
        _lock: File,
        inode: u64,
    },
    Program(String),
}

impl Moment {
    /// Begins to wait for it; `None` where that is not possible.
    pub(super) fn watch(&self, scene: &Scene<'_>) -> Option<Watched> {
        match self {
            Self::Gate(path) => {
                let file = File::open(inside(scene.tree, path)?).ok()?;
                rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
                let inode = file.metadata().ok()?.ino();
                Some(Watched::Gate { _lock: file, inode })
            }
            Self::Program(name) => Some(Watched::Program(name.clone())),
        }
    }
}

impl Watched {
    /// The process that the moment is about, once it has come.
    pub(super) fn come(&self, leader: i32, pcache: &Path) -> Option<i32> {
        match self {
            Self::Gate { inode, .. } => {
                waiting_for(&fs::read_to_string("/proc/locks").ok()?, *inode)
            }
            Self::Program(name) => hang::family(leader)
                .iter()
                .map(|member| member.pid)
                .find(|&pid| *pid_name(pid) == **name && !signal::is_program(pid, pcache)),
        }
    }
}

fn pid_name(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm"))
        .unwrap_or_default()
        .trim_end()
        .to_owned()
}

/// The process that waits for a lock of the file, from `/proc/locks` (proc_locks(5)): lines
/// of waiting ones have an arrow.
fn waiting_for(locks: &str, inode: u64) -> Option<i32> {
    locks.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let process = fields.by_ref().skip_while(|field| *field != "->").nth(4)?;
        let file = fields.next()?;
        (file.rsplit(':').next()?.parse() == Ok(inode)).then(|| process.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_waiting_process_has_come_to_a_gate() {
        let locks = "\
1: FLOCK  ADVISORY  WRITE 4242 fe:00:77 0 EOF
1: -> FLOCK  ADVISORY  WRITE 4250 fe:00:77 0 EOF
2: POSIX  ADVISORY  READ 12 fe:00:78 0 EOF
";
        assert_eq!(waiting_for(locks, 77), Some(4250));
        assert_eq!(waiting_for(locks, 78), None);
    }
}
