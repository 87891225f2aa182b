//! Handles the end of a task, of its process, and of the units that end with it.

use std::sync::mpsc::channel;

use ptrace_async::event::Tid;
use ptrace_async::runtime::{PreExit, Running, Tracee};

use super::{Notice, Tracer};
use crate::engine::finalize::{Recorded, captured, record};
use crate::model::abbreviate;
use crate::model::fate::{Fate, Line};
use crate::model::outcome::Ending;
use crate::model::unit_id::UnitId;

/// A unit that reads at least this many files is stored later, in a batch with units that may have
/// read the same files.
const SHARED: usize = 16;

impl Tracer {
    /// Handles the exit of a task; with the last task of a process, units end.
    pub(super) async fn leaving(&self, tracee: Tracee<PreExit>) -> Tracee<Running> {
        let (tid, status) = (tracee.tid(), tracee.status());
        self.left(tid, status).await;
        tracee.resume()
    }

    async fn left(&self, tid: Tid, status: i32) {
        let ended = {
            let mut session = self.session.borrow_mut();
            let session = &mut *session;
            let Some(task) = session.tasks.get_mut(tid) else {
                return;
            };
            if std::mem::replace(&mut task.left, true) {
                return;
            }
            let (process, unit) = (task.process, task.unit);
            session.note_end(tid, status);
            let Some(entry) = session.tasks.process_mut(process) else {
                return;
            };
            entry.threads = entry.threads.saturating_sub(1);
            session.outputs.end_writes(tid);
            let (first, other) = &mut entry.statuses;
            if tid == process {
                *first = Some(status);
            } else if status != 0 {
                *other = Some(status);
            }
            if entry.threads > 0 {
                return;
            }
            // Threads exit in any order, and a returned thread has status 0.
            let status = first.or(*other).unwrap_or(status);
            let unclear = other.is_some_and(|other| other != status);
            let units = std::mem::take(&mut entry.units);
            session.check_directories_at_end(tid);
            session.check_offsets_at_end(tid);
            session.tasks.remove_process(process);
            session.forget_kills(process);
            if unclear && let Some(id) = units.last() {
                session.mark_uncacheable(
                    *id,
                    "ended with several exit statuses at once (one for each thread)",
                    true,
                );
            }
            (units, unit, process, status)
        };
        let (units, unit, process, status) = ended;
        if !units.is_empty() {
            // Changes by other tasks come first.
            self.catch_up_all();
        }
        for id in units.iter().rev() {
            self.conclude(*id, status).await;
        }
        // The innermost unit's own count ends with it.
        let mut session = self.session.borrow_mut();
        session.count_alive(unit, -1);
        let is_command = session
            .units
            .get(1)
            .is_some_and(|root| root.process == process)
            && units.contains(&UnitId(1));
        drop(session);
        if is_command {
            self.session.borrow_mut().command_left = true;
        }
    }

    async fn conclude(&self, id: UnitId, status: i32) {
        let (finished, line, saving) = {
            let mut session = self.session.borrow_mut();
            session.note_redirected(id);
            let finished = session.conclude(id, status, self.min_us);
            let saving = !session.settings.read_only;
            let depth = session.depth(id);
            let unit = session.unit(id);
            let wall_us = unit.clock.elapsed().as_micros() as u64;
            let line = Line {
                unit: id.0,
                depth,
                command: abbreviate::command(&unit.argv, 100),
                miss: unit.miss.to_string(),
                fate: Fate::Stored,
                wall_us,
                record: unit.record,
                serial: 0,
                bound: None,
                differences: None,
            };
            (finished, line, saving)
        };
        let report = self.session.borrow().report.clone();
        let finished = match finished {
            Ok(finished) if saving => finished,
            Ok(_) => {
                report.add(Line {
                    fate: Fate::NotStored {
                        reason: "the store is read-only".to_owned(),
                    },
                    ..line
                });
                return;
            }
            Err(reason) => {
                report.add(Line {
                    fate: Fate::NotStored { reason },
                    ..line
                });
                return;
            }
        };
        let changes = !finished.changes.is_empty();
        let (sender, secured) = channel::<()>();
        {
            let mut session = self.session.borrow_mut();
            let (results, world) = (session.store.clone(), session.world.clone());
            let remote = session.remote.clone();
            let relocation = session.settings.relocation.clone();
            let turn = relocation.map(|relocation| (relocation.turn(), relocation));
            let later = session.jobs.later();
            session.jobs.submit(move || {
                let tell = move |told: Result<Recorded, String>| {
                    let (fate, stored) = match told {
                        Ok(stored) => (Fate::Stored, Some(stored)),
                        Err(reason) => (Fate::NotStored { reason }, None),
                    };
                    let stored = stored.unwrap_or_default();
                    report.add(Line {
                        fate,
                        serial: stored.serial,
                        bound: stored.bound,
                        differences: stored.differences,
                        ..line
                    });
                };
                let captured = captured(&results, &world, &finished, || {
                    // The receiver may be gone.
                    let _ = sender.send(());
                });
                let captured = match captured {
                    Ok(captured) => captured,
                    Err(reason) => return tell(Err(reason)),
                };
                // Later commits wait for a unit that has a commit ticket.
                let is_shared = turn.is_none() && captured.read.len() >= SHARED;
                let key = finished.key;
                let store = move || {
                    let (remote, turn) = (remote.as_deref(), turn.as_ref());
                    tell(record(&results, &finished, captured, remote, turn));
                };
                match is_shared {
                    true => later.submit(key.0.0, store),
                    false => store(),
                }
            });
        }
        if changes {
            // A process that waits for this one must not see its exit before its results are safe.
            self.handle.blocking(move || secured.recv()).await.ok();
        }
    }

    /// Handles the end of a task.
    pub(super) async fn gone(&self, tid: Tid, status: i32) {
        let killed_at_once = {
            let mut session = self.session.borrow_mut();
            let session = &mut *session;
            match session.tasks.get(tid) {
                // An end by a signal is judged by `left`.
                Some(task) if !task.left => {
                    let unit = task.unit;
                    if status & 0x7f == 0 {
                        session.mark_uncacheable_upwards(unit, "a process ended without a trace");
                    }
                    true
                }
                _ => false,
            }
        };
        if killed_at_once {
            self.left(tid, status).await;
        }
        let ended = {
            let mut session = self.session.borrow_mut();
            session.model.exited(tid);
            session.lookups.end_change(tid);
            session.tasks.remove(tid);
            let root = session
                .units
                .get(1)
                .map_or(session.first, |unit| unit.process);
            let left = std::mem::take(&mut session.command_left);
            // Or it never executed a program.
            let ended = root == tid && (left || session.units.len() <= 1);
            session.command_left = left && !ended;
            ended.then(|| Ending::from_wait(status))
        };
        if let Some(ending) = ended {
            let (wait, is_last) = {
                let session = self.session.borrow();
                (session.jobs.drained(), session.tasks.is_empty())
            };
            match wait {
                // No other process is delayed by the wait.
                Some(wait) if is_last => wait(),
                Some(wait) => self.handle.blocking(wait).await,
                None => {}
            }
            self.continue_front();
            (self.notify)(Notice::Ended(ending));
        }
    }
}
