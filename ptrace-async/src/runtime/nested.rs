//! Stops of tasks that another tracee has attached to, and how those tasks are resumed.
//!
//! The calls of the attaching task are answered in `tracee/nested.rs`.

use std::rc::Rc;

use super::shared::Shared;
use super::slot::Slot;
use crate::sys::{self, Waited};

impl Shared {
    /// Whether a stop belongs to a nested tracer only. If so, it is handled here.
    pub(super) fn is_nested_stop(&self, slot: &Slot, waited: Waited) -> bool {
        let Some(tracer) = slot.nested.tracer.get() else {
            return false;
        };
        if waited.status != libc::PTRACE_EVENT_STOP << 8 | libc::SIGTRAP
            || !slot.nested.interrupt_pending.replace(false)
        {
            return false;
        }
        slot.stopped.set(true);
        slot.nested.is_stopped_for.set(true);
        self.remote.push(tracer);
        true
    }

    /// A task has ended: its targets are resumed, and its nested tracer is woken.
    pub(super) fn end_nested(&self, slot: &Slot) {
        if let Some(tracer) = slot.nested.tracer.take() {
            self.remote.push(tracer);
        }
        if slot.nested.has_attached() {
            let held: Vec<Rc<Slot>> = self
                .slots
                .borrow()
                .values()
                .filter(|target| target.nested.tracer.get() == Some(slot.key))
                .cloned()
                .collect();
            for target in held {
                self.resume_target(&target);
            }
        }
    }

    pub(super) fn resume_target(&self, target: &Slot) {
        target.nested.tracer.set(None);
        target.nested.is_stop_reported.set(false);
        if target.nested.is_stopped_for.replace(false) {
            let how = if target.wants_exit.get() {
                sys::Resume::ToSyscall
            } else {
                self.usual_resume()
            };
            self.resume(target, how, 0);
        }
    }
}
