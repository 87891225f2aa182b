//! Handing out the calls that tracees made without a stop.

use std::rc::{Rc, Weak};

use super::in_process::{OUTPUTS, OWN, READS, UnstoppedCalls};
use super::shared::Handle;
use super::slot::Slot;
use super::space::Space;
use crate::event::Tid;

/// How many rounds to spin for a call in flight. Most calls take less than a microsecond,
/// unless their task is not running.
const PATIENCE: u32 = 300;

impl Handle {
    /// Returns the calls that the address space of `tid` has logged since the last request.
    /// The task must be stopped or have ended.
    pub fn unstopped_calls(&self, tid: Tid) -> UnstoppedCalls {
        let slot = self.shared.slots.borrow().get(&tid).cloned();
        match slot {
            Some(slot) => {
                if let Some(calls) = slot.calls_before_exec.borrow_mut().take() {
                    return calls;
                }
                slot.unstopped_calls()
            }
            None => UnstoppedCalls::Made(Vec::new()),
        }
    }

    /// Needs no more reports of calls of the program of `tid` that only look at something: links,
    /// permissions, metadata, facts of the machine, random bytes. Without a stop they are
    /// performed and not logged, until the program executes another one. Those of children
    /// are logged.
    pub fn forgo_lookups(&self, tid: Tid) {
        let slot = self.shared.slots.borrow().get(&tid).cloned();
        if let Some(slot) = slot.filter(|slot| !slot.partial_sharer.get())
            && let Some(mapped) = &*slot.space.borrow().in_process.mapped.borrow()
        {
            mapped.log.forgo_lookups();
        }
    }

    /// Needs no more reports of reads of this descriptor: its file is known. Without a stop they
    /// are performed and not logged, until the descriptor is closed or replaced.
    pub fn forgo_reads(&self, tid: Tid, descriptor: i32) {
        self.know(tid, descriptor, READS, false);
    }

    /// Needs no bytes of writes to this descriptor, which the task has just made, and no reads of
    /// it: the process made its file, and no other name leads there. Writes of any length are then
    /// performed without a stop and logged without the bytes, until the descriptor is closed or
    /// replaced.
    pub fn forgo_written_bytes(&self, tid: Tid, descriptor: i32) {
        self.know(tid, descriptor, OWN | OUTPUTS, true);
    }

    fn know(&self, tid: Tid, descriptor: i32, what: u8, new: bool) {
        let slot = self.shared.slots.borrow().get(&tid).cloned();
        if let Some(slot) = slot.filter(|slot| !slot.partial_sharer.get()) {
            slot.space.borrow().in_process.know(descriptor, what, new);
        }
    }

    /// Needs all reads and written bytes again, of all tasks.
    pub fn report_all_transfers(&self) {
        for space in self
            .shared
            .patched
            .borrow()
            .iter()
            .filter_map(Weak::upgrade)
        {
            space.in_process.forget_descriptors();
        }
    }

    /// Returns the calls that all address spaces have logged, each with one of its tasks.
    /// Every call that ended before this request is included. A call in flight may have its
    /// answer already and be logged later; it then carries `mark`
    /// ([`UnstoppedCall::mark`](super::UnstoppedCall::mark)).
    pub fn all_unstopped_calls(&self, mark: u64) -> Vec<(Tid, UnstoppedCalls)> {
        let spaces = self.shared.patched.borrow();
        let mut all = Vec::new();
        for space in spaces.iter().filter_map(Weak::upgrade) {
            let mut mapped = space.in_process.mapped.borrow_mut();
            let Some(mapped) = &mut *mapped else { continue };
            let mut rounds = 0;
            // A call that was in flight the last time is likely to block.
            let patience = if mapped.in_flight_mark.is_none() {
                PATIENCE
            } else {
                0
            };
            while mapped.log.is_in_flight() && rounds < patience {
                std::hint::spin_loop();
                rounds += 1;
            }
            // Read before the log, so that a call that ends in between is found in the log.
            let in_flight_mark = mapped.log.is_in_flight();
            let calls = mapped.take();
            if calls != UnstoppedCalls::Made(Vec::new()) {
                mapped.last = self.living(space.as_ref(), mapped.last);
                all.push((mapped.last, calls));
            }
            if in_flight_mark && mapped.in_flight_mark.is_none() {
                mapped.in_flight_mark = Some(mark);
            }
        }
        all
    }

    /// `last`, or another task of this address space if `last` has ended.
    fn living(&self, space: &Space, last: Tid) -> Tid {
        let slots = self.shared.slots.borrow();
        let is_here = |slot: &&Rc<Slot>| {
            std::ptr::eq(&**slot.space.borrow(), space) && !slot.partial_sharer.get()
        };
        if slots.get(&last).as_ref().is_some_and(is_here) {
            return last;
        }
        let other = slots.values().find(is_here);
        other.map_or(last, |slot| slot.tid.get())
    }
}
