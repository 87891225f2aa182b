//! Asking for the calls that tracees made without a stop.

use std::rc::{Rc, Weak};

use super::in_process::UnstoppedCalls;
use super::shared::Handle;
use super::slot::Slot;
use super::space::Space;
use crate::event::Tid;

/// How long to wait for a call that is being made (in rounds): most take less
/// than a microsecond, unless their task is not running.
const PATIENCE: u32 = 300;

impl Handle {
    /// What the address space of `tid`, which is stopped or has ended, has
    /// logged since it was asked last.
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

    /// What all address spaces have logged, with a task of each: every lookup
    /// that had its answer before this was called. One that has just begun may
    /// have its answer too, and be logged later; it then says so by `mark`
    /// ([`UnstoppedCall::mark`]).
    pub fn all_unstopped_calls(&self, mark: u64) -> Vec<(Tid, UnstoppedCalls)> {
        let spaces = self.shared.patched.borrow();
        let mut all = Vec::new();
        for space in spaces.iter().filter_map(Weak::upgrade) {
            let mut mapped = space.in_process.mapped.borrow_mut();
            let Some(mapped) = &mut *mapped else { continue };
            let mut rounds = 0;
            // What was being made the last time is likely to wait for something.
            let patience = if mapped.in_flight_mark.is_none() {
                PATIENCE
            } else {
                0
            };
            while mapped.log.is_in_flight() && rounds < patience {
                std::hint::spin_loop();
                rounds += 1;
            }
            // Asked before what is logged is taken: what ends in between is.
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

    /// `last`, or another task of this space if that one has ended.
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
