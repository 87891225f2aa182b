//! Lookups that tracees made without a stop.
//!
//! They are applied before anything else is done about a stop of their task,
//! and before and after any change of a name, so that they come before the
//! changes that they came before. One that came shortly after a change may be
//! taken for one before it; what is found while a call makes it is told from
//! what was there by [`Change::made`](crate::unit::Change::made).
//!
//! A lookup that found nothing is believed. What another found is looked at
//! when it is applied; if nothing is there then, or if it was changed in between
//! so that nobody can tell what the lookup has seen, the unit is in doubt.

use ptrace_async::event::{IoEvent, Tid};
use ptrace_async::runtime::{Calls, Logged, Prehook, Stop, Tracee};
use smallvec::SmallVec;

use crate::session::{Before, Session};
use crate::tracer::Tracer;

impl Tracer {
    /// Lets a task perform its lookups without stops, if it makes many.
    pub(crate) async fn hasten(&self, tracee: Tracee<Prehook>) -> Result<Tracee<Prehook>, Stop> {
        let skipped = {
            let session = self.session.borrow();
            session.settings.stops_only
                || session
                    .tasks
                    .get(&tracee.tid())
                    .is_none_or(|task| task.skipped)
        };
        if skipped {
            return Ok(tracee);
        }
        tracee.perform_in_process().await
    }

    /// Applies what a task has done without stops.
    pub(crate) fn catch_up(&self, tid: Tid) {
        let calls = self.handle.logged(tid);
        self.session.borrow_mut().looked_up(tid, calls);
    }

    /// Applies what all tasks have done without stops.
    pub(crate) fn catch_up_all(&self) {
        let now = self.session.borrow().now();
        for (tid, calls) in self.handle.logged_everywhere(now) {
            self.session.borrow_mut().looked_up(tid, calls);
        }
    }
}

impl Session {
    fn looked_up(&mut self, tid: Tid, calls: Calls) {
        match calls {
            Calls::Made(calls) => {
                self.jobs.hold();
                for call in calls {
                    self.apply_logged(tid, &call);
                }
                self.jobs.let_go();
            }
            Calls::Lost => {
                if let Some(unit) = self.unit_of(tid) {
                    self.doubt(unit, "overwrites the log of its system calls", true);
                }
            }
        }
    }

    fn apply_logged(&mut self, tid: Tid, call: &Logged) {
        if self.tasks.get(&tid).is_none_or(|task| task.skipped) {
            return;
        }
        let mut events: SmallVec<[IoEvent; 2]> = SmallVec::new();
        let entry = self.model.entry(tid, &call.invocation(), call, &mut events);
        if let Some(pending) = entry.pending {
            self.model
                .exit(tid, pending, call.value(), call, &mut events);
        }
        self.told = Some(call.value());
        self.looking_back = call.mark();
        for event in events {
            self.apply(tid, &Before::new(), event, &|_| Vec::new());
        }
        self.told = None;
        self.looking_back = None;
    }
}
