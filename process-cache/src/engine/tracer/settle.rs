//! Looks at a stopped task's outputs before its stop is handled.

use ptrace_async::event::Tid;
use ptrace_async::runtime::Stop;

use super::Tracer;

impl Tracer {
    /// Handles a stop of a task with all its calls applied: its writes have ended. Looks for
    /// changes by others to the files that it has open for writing.
    pub(super) fn settle(&self, tid: Tid, stop: &Stop) {
        let used = match stop {
            Stop::Prehook(tracee) => Some(tracee.invocation().args[0] as i32),
            _ => None,
        };
        let differ = {
            let mut session = self.session.borrow_mut();
            match session.tasks.get(tid) {
                // A stand-in writes until it ends.
                Some(task) if !task.skipped => {}
                _ => return,
            }
            session.outputs.end_writes(tid);
            session.settle_outputs();
            // The file may have been changed by the call that is about to be reported.
            let task = session.tasks.get(tid);
            let pending = task.map(|task| {
                let call = task.pending.as_ref();
                call.is_some_and(|call| call.pending.is_some())
            });
            match pending {
                Some(false) => session.changed_in_hand(tid, used),
                _ => return,
            }
        };
        if differ.is_empty() {
            return;
        }
        // The calls that ended before the files were examined explain what was found.
        self.catch_up_all();
        let mut session = self.session.borrow_mut();
        session.settle_outputs();
        for file in &differ {
            session.suspect(tid, file);
        }
    }
}
