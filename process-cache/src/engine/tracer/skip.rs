//! Skips a program: restores its effects and executes a stand-in.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Instant;

use ptrace_async::event::{PathRef, Tid};
use ptrace_async::invocation::Invocation;
use ptrace_async::runtime::{Prehook, Stop, Tracee};

use super::Tracer;
use crate::engine::session::Session;
use crate::engine::standin::Script;
use crate::journal::Begun;
use crate::key::Keyed;
use crate::model::abbreviate;
use crate::model::fact::{Fact, Query};
use crate::model::fate::{Fate, Line};
use crate::model::miss::Missed;
use crate::model::outcome::Outcome;
use crate::model::unit_id::UnitId;
use crate::policy::Policy;
use crate::restore;
use crate::store::Store;
use crate::store::stream::{Chunks, stream};
use crate::world::World;

/// The result of an attempt to skip.
pub(super) enum Applied {
    /// The stand-in was executed; the stop that followed.
    Skipped(Stop),
    /// Nothing was changed for this reason, and the program must run.
    Refused(Tracee<Prehook>, String),
}

/// A program to skip.
pub(super) struct Skipped<'a> {
    /// Its recorded outcome.
    pub outcome: Outcome,
    /// Its path, as the execve names it if possible.
    pub path: Vec<u8>,
    /// Its arguments.
    pub argv: &'a [Vec<u8>],
    /// Its key.
    pub keyed: Option<&'a Keyed>,
    /// The time of its execve.
    pub asked: Instant,
}

impl Tracer {
    /// Establishes an outcome and lets a stand-in run in place of the program.
    pub(super) async fn skip(
        &self,
        mut tracee: Tracee<Prehook>,
        unit: UnitId,
        skipped: Skipped<'_>,
    ) -> Applied {
        let Skipped {
            outcome,
            path,
            argv,
            keyed,
            asked,
        } = skipped;
        let tid = tracee.tid();
        self.catch_up_all();
        let outcome = Arc::new(outcome);
        let (began, wait, before, world, results) = {
            let mut session = self.session.borrow_mut();
            let paths: Vec<PathRef> = outcome
                .effects
                .iter()
                .map(|effect| PathRef {
                    follow: false,
                    ..PathRef::followed(effect.path().to_path_buf())
                })
                .collect();
            session.inherit_facts(tid, unit, &outcome, keyed);
            let began = session.tick();
            session.lookups.begin_change(tid, began);
            let (before, wait) = session.before(unit, &paths);
            (
                began,
                wait,
                before,
                session.world.clone(),
                session.store.clone(),
            )
        };
        let job = outcome.clone();
        let prepared = self
            .handle
            .blocking(move || {
                for content in wait {
                    let _ = content.wait();
                }
                establish(&results, &world, &job, &path)
            })
            .await;
        self.catch_up_all();
        self.session.borrow_mut().lookups.end_change(tid);
        let (file, stream) = match prepared {
            Ok(prepared) => prepared,
            Err(reason) => return Applied::Refused(tracee, reason),
        };
        if let Err(error) = redirect(&mut tracee, &file) {
            // The files are already restored; running the program makes them again.
            return Applied::Refused(tracee, format!("cannot be redirected: {error}"));
        }
        {
            let mut session = self.session.borrow_mut();
            session.call.set_began(began);
            session.absorb_child(tid, unit, &outcome, &before, &stream);
            for (path, _) in &before {
                // Restoring has written or replaced it.
                session.outputs.watch.forget(path);
                session.outputs.watch.removed(path);
            }
            session.settle_outputs();
            if let Some(task) = session.tasks.get_mut(tid) {
                task.skipped = true;
            }
            if let Some(process) = session.tasks.process_of_mut(tid) {
                process.stand_in = Some(outcome.ending);
            }
            session.report_skipped((tid, unit), &outcome, (argv, keyed), asked, &stream);
        }
        let stop = tracee.resume_to_exit().stop().await;
        // The process keeps the image alive.
        drop(file);
        if let Stop::Posthook(_) = &stop {
            // The stand-in could not be executed, and the program cannot be told why its call
            // failed.
            let mut session = self.session.borrow_mut();
            if let Some(task) = session.tasks.get_mut(tid) {
                task.skipped = false;
            }
            session.mark_uncacheable(unit, "its stand-in could not be executed", true);
        }
        Applied::Skipped(stop)
    }
}

impl Session {
    /// Adds the facts of a skipped child to its parent.
    fn inherit_facts(&mut self, tid: Tid, unit: UnitId, outcome: &Outcome, keyed: Option<&Keyed>) {
        // The child depends on the state before its own effects.
        self.locator.revalidate_directories();
        let policy = keyed.map_or(Policy::STRICT, |keyed| keyed.policy);
        self.use_for(tid, unit, &policy);
        let without_inodes = self.unit(unit).leaves_inodes_out(&policy);
        for Fact { query, answer } in &outcome.facts {
            if !(without_inodes && matches!(query, Query::Inode { .. })) {
                self.inherit(tid, unit, query, answer);
            }
        }
    }

    /// Reports a skipped child, and notes it in the journal.
    fn report_skipped(
        &mut self,
        (tid, unit): (Tid, UnitId),
        outcome: &Outcome,
        (argv, keyed): (&[Vec<u8>], Option<&Keyed>),
        asked: Instant,
        stream: &Chunks,
    ) {
        let depth = self.depth(unit) + 1;
        let id = self.skipped_id();
        let above = self.unit(unit).record;
        let wall_us = asked.elapsed().as_micros() as u64;
        let above_unit = self.unit(unit);
        above_unit.skipped_us = above_unit
            .skipped_us
            .saturating_add(outcome.wall_us.saturating_sub(wall_us));
        let record = {
            let mut journal = self.report.journal();
            let begun = Begun { path: None, keyed };
            let record = journal.begin(above, argv, begun, Missed::Not);
            journal.backdate(record, wall_us);
            let own = outcome.effects.iter();
            for effect in own.filter(|effect| !effect.follows_from_others()) {
                journal.output(record, effect.path());
            }
            for (fd, _) in stream {
                let file = self.model.file(tid, *fd).map(|file| file.id);
                if let Some(path) = file.and_then(|file| self.descriptions.resource(file)) {
                    journal.output(record, path);
                }
            }
            record
        };
        self.report.add(Line {
            unit: id,
            depth,
            command: abbreviate::command(argv, 100),
            miss: String::new(),
            fate: Fate::Hit {
                recorded_us: outcome.wall_us,
                took_us: wall_us,
                units: outcome.units,
            },
            wall_us,
            record,
            serial: 0,
            bound: None,
            differences: None,
        });
    }
}

/// Establishes the effects of an outcome, and makes a stand-in that writes its stream.
fn establish(
    results: &Store,
    world: &World,
    job: &Outcome,
    path: &[u8],
) -> Result<(std::fs::File, Chunks), String> {
    let stream = stream(results, job)?;
    let mut script = Script::new(path);
    for (fd, bytes) in &stream {
        script.write(*fd, bytes);
    }
    for (fd, by) in &job.positions {
        script.advance(*fd, *by);
    }
    for (fd, flags) in &job.flags {
        script.set_flags(*fd, *flags);
    }
    script.end(job.ending);
    let file = script
        .build()
        .map_err(|error| format!("no stand-in: {error}"))?;
    let options = restore::Options {
        world: Some(world),
        progress: None,
        ages: &job.ages,
        inputs: &job.facts,
    };
    restore::apply_with(results, &job.effects, options).map_err(|error| {
        match error.is_clean() {
            true => error.to_string(),
            false => format!("{error}; what was done before stays"),
        }
    })?;
    Ok((file, stream))
}

/// Redirects an execve: the call's path becomes `/proc/PID/fd/N`, written to unused memory below
/// the stack pointer.
///
/// # Errors
/// When the tracee's stack cannot be written.
fn redirect(tracee: &mut Tracee<Prehook>, file: &std::fs::File) -> std::io::Result<()> {
    let path = format!("/proc/{}/fd/{}\0", std::process::id(), file.as_raw_fd());
    // The 128 bytes below the stack pointer belong to the running function.
    let address = (tracee.stack_pointer() - 128 - path.len() as u64) & !15;
    tracee.write(address, path.as_bytes())?;
    let call = tracee.invocation();
    let args = if call.nr == libc::SYS_execveat as u64 {
        [
            libc::AT_FDCWD as u64,
            address,
            call.args[2],
            call.args[3],
            0,
            0,
        ]
    } else {
        [address, call.args[1], call.args[2], 0, 0, 0]
    };
    tracee.modify(Invocation { nr: call.nr, args })
}
