//! New tasks between their parent's event and their own first stop.
//!
//! The kernel reports the two in any order, and each may be missing. A child can be killed
//! before its first stop, and a parent before its event was read.
//!
//! A child that reports first waits until its parent announces it. When no task that could
//! have created it is inside a clone any more, the event is lost: the parent was killed, or
//! another thread's execve ended it. The child then starts without an announcement.

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::space::Space;
use crate::event::Tid;
use crate::sys::Waited;

/// The origin of a task.
#[derive(Debug, Clone, Default)]
pub(super) struct NewTask {
    /// The parent.
    pub(super) parent: Option<Tid>,
    /// The state that it inherits, if the parent's event was seen.
    pub(super) inherited: Option<InheritedState>,
    /// Its process, where that does not follow from its parent.
    pub(super) tgid: Option<Tid>,
    /// The `CLONE_*` flags that made it.
    pub(super) flags: u64,
}

/// The state that a task inherits from its parent.
#[derive(Debug, Clone)]
pub(super) struct InheritedState {
    /// The address space that it shares or copies.
    pub(super) space: Rc<Space>,
    /// It shares memory, but not descriptors and directories as a thread does.
    pub(super) partial_sharer: bool,
    pub(super) confined: bool,
}

/// Tasks of which only the announcement or only the first stop was seen.
#[derive(Debug, Default)]
pub(super) struct NewTasks {
    /// Announced, but not stopped yet.
    expected: RefCell<FxHashMap<Tid, NewTask>>,
    /// The first stop (or the end) of tasks that were not announced.
    held: RefCell<FxHashMap<Tid, Waited>>,
}

impl NewTasks {
    pub(super) fn is_expected(&self, tid: Tid) -> bool {
        self.expected.borrow().contains_key(&tid)
    }

    pub(super) fn expect(&self, tid: Tid, new_task: NewTask) {
        self.expected.borrow_mut().insert(tid, new_task);
    }

    /// The ids of all that are known and not started.
    pub(super) fn unseen(&self) -> Vec<Tid> {
        let held = self.held.borrow();
        let alive = held.values().filter(|first| !first.is_end());
        let expected = self.expected.borrow();
        expected
            .keys()
            .copied()
            .chain(alive.map(|first| first.tid))
            .collect()
    }

    /// Forgets all: no tracee is left.
    pub(super) fn forget(&self) {
        self.expected.borrow_mut().clear();
        self.held.borrow_mut().clear();
    }

    /// A parent announced a task; returns what the task has reported already.
    pub(super) fn announced(&self, tid: Tid, new_task: &NewTask) -> Option<Waited> {
        let held = self.held.borrow_mut().remove(&tid);
        // An end without an announcement may belong to a former owner of this id.
        let held = held.filter(|first| !first.is_end() || !exists(tid));
        if held.is_none() {
            self.expect(tid, new_task.clone());
        }
        held
    }

    /// An unknown task reports; returns its origin if it was announced.
    pub(super) fn reported(&self, waited: Waited) -> Option<NewTask> {
        let new_task = self.expected.borrow_mut().remove(&waited.tid);
        if new_task.is_none() {
            self.held.borrow_mut().insert(waited.tid, waited);
        }
        new_task
    }

    /// Whether no living task waits for its announcement.
    pub(super) fn nobody_waits(&self) -> bool {
        self.held.borrow().values().all(Waited::is_end)
    }

    /// Removes and returns the tasks that cannot be announced any more. `running` lists the
    /// tasks that are not in a stop, with their processes.
    pub(super) fn lost(&self, running: &[(Tid, Tid)]) -> Vec<(Waited, NewTask)> {
        let waiting: Vec<Waited> = {
            let held = self.held.borrow();
            held.values()
                .filter(|first| !first.is_end())
                .copied()
                .collect()
        };
        let mut lost = Vec::new();
        for first in waiting {
            let (tgid, ppid) = family(first.tid);
            let announced_later = running.iter().any(|&(tid, process)| {
                let related = if tgid == first.tid {
                    // A sibling may have made it with CLONE_PARENT.
                    process == ppid || family(process).1 == ppid
                } else {
                    process == tgid
                };
                related && may_be_cloning(tid)
            });
            if !announced_later {
                self.held.borrow_mut().remove(&first.tid);
                let thread = tgid != first.tid;
                let new_task = NewTask {
                    parent: Some(if thread { tgid } else { ppid }),
                    inherited: None,
                    tgid: Some(tgid),
                    flags: if thread { libc::CLONE_THREAD as u64 } else { 0 },
                };
                lost.push((first, new_task));
            }
        }
        lost
    }
}

/// Whether a task is, or may be, inside a call that creates tasks.
fn may_be_cloning(tid: Tid) -> bool {
    // "running", "-1 SP PC", or a number with its arguments (proc(5)).
    let Ok(text) = std::fs::read_to_string(format!("/proc/{tid}/syscall")) else {
        return exists(tid);
    };
    match text.split_whitespace().next().map(str::parse::<i64>) {
        Some(Ok(nr)) => matches!(
            nr,
            libc::SYS_clone | libc::SYS_clone3 | libc::SYS_fork | libc::SYS_vfork
        ),
        _ => true,
    }
}

fn exists(tid: Tid) -> bool {
    std::fs::exists(format!("/proc/{tid}")).unwrap_or(false)
}

/// The process of a task and the parent of that process, from `/proc`. Returns the task
/// itself and 0 when the task has ended.
fn family(tid: Tid) -> (Tid, Tid) {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .and_then(|value| value.trim().parse().ok())
    };
    (field("Tgid:").unwrap_or(tid), field("PPid:").unwrap_or(0))
}
