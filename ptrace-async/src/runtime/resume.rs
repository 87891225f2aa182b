//! Resuming stopped tasks.

use std::rc::{Rc, Weak};

use super::options::Interception;
use super::shared::Shared;
use super::slot::{PathPrefix, Slot, StopPoint};
use crate::sys::{self, Resume};

impl Shared {
    /// How a task is resumed when its function asks for no particular stop.
    pub(super) fn usual_resume(&self) -> Resume {
        match self.options.interception {
            Interception::Seccomp(_) => Resume::Continue,
            Interception::Ptrace(_) => Resume::ToSyscall,
        }
    }

    /// Resumes a task that is in a stop.
    pub(super) fn resume(&self, slot: &Slot, how: Resume, signal: i32) {
        slot.stopped.set(false);
        slot.stop_point.set(StopPoint::Other);
        slot.path_prefix.set(PathPrefix::NOTHING);
        slot.registers.set(None);
        let tid = slot.tid.get();
        if slot.killed.get() && how != Resume::Detach {
            // The task runs already. Its next stop is its last one (PTRACE_EVENT_EXIT).
            // That stop may have come but not been reported, and resuming would skip it.
            return;
        }
        let how = match how {
            // Its `wait4` must stop even if the filter does not name it.
            Resume::Continue if slot.nested.has_attached() => Resume::ToSyscall,
            how => how,
        };
        let resume = || sys::resume(tid, how, signal);
        let executes = slot.executing.replace(false) && how == Resume::ToSyscall;
        // ESRCH: the task was killed in its stop; its death is reported.
        let _ = if slot.exposed.get() {
            resume()
        } else if executes && !self.may_affinity_be_observed() {
            self.placement.wake_until_stop(tid, resume)
        } else {
            let hidden = !self.may_affinity_be_observed();
            self.placement
                .wake(tid, how == Resume::ToSyscall, hidden, resume)
        };
    }

    /// Whether a task may be looking at the affinity of others.
    fn may_affinity_be_observed(&self) -> bool {
        let mut affinity_observers = self.affinity_observers.borrow_mut();
        let is_there = |slot: &Weak<Slot>| slot.upgrade().is_some_and(|slot| !slot.gone.get());
        affinity_observers.retain(is_there);
        !affinity_observers.is_empty()
    }

    /// A task can look at affinities from now on.
    pub(super) fn expose(&self, slot: &Rc<Slot>) {
        if !slot.exposed.replace(true) {
            self.affinity_observers
                .borrow_mut()
                .push(Rc::downgrade(slot));
        }
        self.placement.restore_all_affinities();
    }
}
