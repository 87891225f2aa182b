//! The waiting threads, the choice of the thread that leaves its log when no thread can move, and
//! the report.

use std::time::Duration;

use rr_channel_log::identity::ThreadId;

use super::operation::{Need, Want};
use super::report::{Cause, Desync, Progress, Report};
use super::world::{Source, Thread, Wait, Watch, World};

/// A thread that waits in the world, as the search for stalls sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) tid: i32,
    /// It was told to go on.
    pub(super) is_notified: bool,
    /// It has a deadline, and goes on then.
    pub(super) is_timed: bool,
    /// It waits elsewhere, for this.
    pub(super) listens: Option<Source>,
    /// There was nothing for it there since anything was last seen to move: it looked, or
    /// would have been woken.
    pub(super) heard_nothing: bool,
}

impl World {
    /// Counts everything that happens: if it stands still, so does the replay.
    pub(super) const fn steps(&self) -> u64 {
        self.steps
    }

    /// Counts repeated actions of a live thread that waits for others without going to sleep.
    pub(super) const fn spins(&self) -> u64 {
        self.spins
    }

    /// Counts the events of logs that came about.
    pub(super) fn events(&self) -> u64 {
        let consumed = self.threads.values().map(|thread| thread.place.consumed());
        consumed.sum()
    }

    /// The threads that wait here.
    pub(super) fn waiting(&self) -> Vec<Waiting> {
        let waiting = |thread: &Thread| {
            let wait = thread.wait.as_ref()?;
            Some(Waiting {
                tid: thread.tid,
                is_notified: wait.notified,
                is_timed: wait.timed,
                listens: wait.listens,
                heard_nothing: wait.wake.is_some() || wait.looked_in_vain == Some(self.moves),
            })
        };
        self.threads.values().filter_map(waiting).collect()
    }

    /// Whether any thread waits here, or any task has an operation that is not ready.
    pub(super) fn has_waiting(&self) -> bool {
        self.waiting > 0 || !self.parked.is_empty()
    }

    /// Lets a thread leave the log, because no thread can move, or because no event has happened
    /// for as long as `late` says. `false` if no thread is left that follows a log.
    ///
    /// Threads at the end of a log that a crash cut short go first: the recorded
    /// run went on there, unseen. Of the others one is chosen, preferably one that
    /// waits for a thread that has ended or has itself left its log.
    pub(super) fn resolve_stall(&mut self, late: Option<Duration>) -> bool {
        self.steps += 1;
        let mut at_end: Vec<_> = self
            .threads
            .iter()
            .filter(|(_, t)| {
                !t.place.is_live() && t.wait.as_ref().is_some_and(|wait| wait.end_of_log)
            })
            .map(|(id, _)| *id)
            .collect();
        if at_end.is_empty() {
            let stuck = self.stuck();
            let Some(first) = stuck.first() else {
                return false;
            };
            at_end.push(*first);
            if self.parked.has(*first) {
                // To find out each by itself would take as long again.
                let parked = stuck[1..].iter().filter(|id| self.parked.has(**id));
                at_end.extend(parked);
            }
            for id in &at_end {
                self.leave_stalled(*id, late);
            }
        }
        // Tasks whose logs have ended may wait for what is there by now.
        let ended = self.parked.tasks();
        let ended = ended.filter(|id| self.parked.next_of(*id).is_none());
        at_end.extend(ended);
        for id in at_end {
            let thread = self.thread(id);
            thread.place.go_live();
            if let Some(wake) = thread.wait.as_ref().and_then(|wait| wait.wake.as_ref()) {
                wake.wake();
            }
            self.tell(id);
            self.unpark(id, None);
        }
        true
    }

    /// The threads and tasks that wait for the next events of their logs, those first that are to
    /// leave them first.
    fn stuck(&self) -> Vec<ThreadId> {
        let waits = |id: &ThreadId, thread: &Thread| match &thread.wait {
            Some(wait) => !wait.stays,
            None => self.parked.has(*id),
        };
        let stuck = self.threads.iter();
        let mut stuck: Vec<_> = stuck
            .filter(|(id, thread)| !thread.place.is_live() && waits(id, thread))
            .map(|(id, thread)| {
                // A task whose log has ended waits as it did in the recorded run.
                let has_ended = thread.wait.is_none() && self.parked.next_of(*id).is_none();
                (has_ended, !self.is_hopeless(thread), &thread.dti, *id)
            })
            .collect();
        stuck.sort();
        stuck.into_iter().map(|(_, _, _, id)| id).collect()
    }

    /// A thread or task leaves its log, because its next event does not come about.
    fn leave_stalled(&mut self, id: ThreadId, late: Option<Duration>) {
        let expected = match &self.thread(id).wait {
            Some(wait) => wait.expected,
            None => self.parked.next_of(id),
        };
        if let Some(expected) = expected {
            let cause = match late {
                None => Cause::Stalled { expected },
                Some(after) => Cause::Late { expected, after },
            };
            self.desync(id, cause);
        }
    }

    fn is_hopeless(&self, thread: &Thread) -> bool {
        let awaited = match thread.wait {
            Some(Wait {
                want: Want::Exactly(_, Need::Message(tag)),
                ..
            }) => tag.sender(),
            Some(Wait {
                watch: Some((Watch::Signals(sender), _)),
                ..
            }) => sender,
            _ => return false,
        };
        self.threads
            .get(&awaited)
            .is_some_and(|thread| thread.ended || thread.place.is_live())
    }

    // Reports.

    /// The desynchronisations found so far.
    pub(super) fn desyncs(&self) -> &[Desync] {
        &self.desyncs
    }

    /// The state of the replay.
    pub(super) fn report(&self) -> Report {
        let seen = self.threads.values().map(|thread| Progress {
            thread: thread.dti.clone(),
            consumed: thread.place.consumed(),
            total: thread.place.total,
            live: thread.place.is_live(),
        });
        let absent = self.absent.values().map(|(dti, cursor)| Progress {
            thread: dti.clone(),
            consumed: 0,
            total: cursor.total(),
            live: false,
        });
        let mut threads: Vec<_> = seen.chain(absent).collect();
        threads.sort_by(|a, b| a.thread.cmp(&b.thread));
        Report {
            desyncs: self.desyncs.clone(),
            threads,
        }
    }
}
