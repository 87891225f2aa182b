//! New tasks between their parent's event and their own first stop.
//!
//! The kernel reports the two in any order, and each may be missing: a child
//! can be killed before its first stop, a parent before its event was seen.
//!
//! A child that comes first is held until its parent announces it. When no task
//! that could have made it is on its way through a clone any more, the event is
//! lost (its parent was killed, or another thread's execve ended it), and the
//! child is let go.

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::space::Space;
use crate::event::Tid;
use crate::sys::Waited;

/// Where a task comes from.
#[derive(Debug, Clone, Default)]
pub(super) struct NewTask {
    /// The task that made it.
    pub(super) parent: Option<Tid>,
    /// What that task was at that moment, if it was seen.
    pub(super) inherited: Option<InheritedState>,
    /// Its process, where that does not follow from its parent.
    pub(super) tgid: Option<Tid>,
    /// The `CLONE_*` flags that made it.
    pub(super) flags: u64,
}

/// What a task has from the one that made it.
#[derive(Debug, Clone)]
pub(super) struct InheritedState {
    /// The memory that it shares, or has a copy of.
    pub(super) space: Rc<Space>,
    /// It shares the memory, and not all else.
    pub(super) partial_sharer: bool,
    pub(super) confined: bool,
}

/// Tasks of which only one half was seen.
#[derive(Debug, Default)]
pub(super) struct NewTasks {
    /// Announced, not yet seen.
    expected: RefCell<FxHashMap<Tid, NewTask>>,
    /// First stop, or end, of tasks that nobody has announced.
    held: RefCell<FxHashMap<Tid, Waited>>,
}

impl NewTasks {
    pub(super) fn is_expected(&self, tid: Tid) -> bool {
        self.expected.borrow().contains_key(&tid)
    }

    pub(super) fn expect(&self, tid: Tid, new_task: NewTask) {
        self.expected.borrow_mut().insert(tid, new_task);
    }

    /// All that are known by name and were not started.
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

    /// None of them will come any more.
    pub(super) fn forget(&self) {
        self.expected.borrow_mut().clear();
        self.held.borrow_mut().clear();
    }

    /// A task was announced; what it has reported already.
    pub(super) fn announced(&self, tid: Tid, new_task: &NewTask) -> Option<Waited> {
        let held = self.held.borrow_mut().remove(&tid);
        // An end that was never announced may be that of a former owner of
        // this id.
        let held = held.filter(|first| !first.is_end() || !exists(tid));
        if held.is_none() {
            self.expect(tid, new_task.clone());
        }
        held
    }

    /// A task that is not known reports; how it came to be, if that is known.
    pub(super) fn reported(&self, waited: Waited) -> Option<NewTask> {
        let new_task = self.expected.borrow_mut().remove(&waited.tid);
        if new_task.is_none() {
            self.held.borrow_mut().insert(waited.tid, waited);
        }
        new_task
    }

    /// Whether nobody is held that still lives.
    pub(super) fn nobody_waits(&self) -> bool {
        self.held.borrow().values().all(Waited::is_end)
    }

    /// Takes those whose announcement cannot come any more. `running` are the
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

/// Whether a task is inside a call that makes tasks, or may be.
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

/// The process a task belongs to and that one's parent, from `/proc`; the task
/// itself and 0 when it is gone.
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
