//! Skipping: what happens instead of running a program.

use std::sync::Arc;
use std::time::Instant;

use ptrace_async::event::{PathRef, Tid};
use ptrace_async::runtime::{Prehook, Stop, Tracee};
use rustix::fs::Stat;

use crate::engine::session::Session;
use crate::engine::standin::Script;
use crate::engine::tracer::{Tracer, redirect};
use crate::engine::unit::{Change, Chunks, Observed, TimeState, Written};
use crate::journal::Begun;
use crate::key::Keyed;
use crate::model::abbreviate;
use crate::model::fact::{Answer, Fact, Query, TimeUse};
use crate::model::fate::{Fate, Line};
use crate::model::miss::Missed;
use crate::model::outcome::{Effect, Outcome, StreamData, Time};
use crate::model::path::FilePath;
use crate::model::unit_id::UnitId;
use crate::policy::Policy;
use crate::restore;
use crate::store::Store;
use crate::world::locate::{is_directory, is_link, is_regular};

/// What became of an attempt to skip.
pub enum Applied {
    /// The stand-in was executed: the stop that followed.
    Skipped(Stop),
    /// Nothing was changed, for this reason; the program must run.
    Refused(Tracee<Prehook>, String),
}

/// What is put in the place of a program.
pub struct Skipped<'a> {
    /// What it left behind.
    pub outcome: Outcome,
    /// Its arguments.
    pub argv: &'a [Vec<u8>],
    /// Its key.
    pub keyed: Option<&'a Keyed>,
    /// When it was about to begin.
    pub asked: Instant,
}

/// The process that sent a signal.
pub fn sender(info: &libc::siginfo_t) -> Tid {
    // SI_USER, SI_QUEUE and SI_TKILL carry the sender's id in the same place.
    crate::platform::os::signal_sender(info)
}

/// The bytes of an outcome's stream, chunk by chunk.
///
/// # Errors
/// When the store has lost some.
pub fn stream(store: &Store, outcome: &Outcome) -> Result<Chunks, String> {
    outcome
        .stream
        .iter()
        .map(|chunk| {
            let bytes = match &chunk.data {
                StreamData::Inline(bytes) | StreamData::Place(bytes) => bytes.clone(),
                StreamData::Stored(digest, _) => {
                    store.get_bytes(digest).map_err(|error| error.to_string())?
                }
            };
            Ok((chunk.fd, bytes.into()))
        })
        .collect()
}

impl Tracer {
    /// Establishes an outcome and lets a stand-in take the program's place.
    pub(crate) async fn skip(
        &self,
        mut tracee: Tracee<Prehook>,
        unit: UnitId,
        skipped: Skipped<'_>,
    ) -> Applied {
        let Skipped {
            outcome,
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
                    path: effect.path().to_path_buf(),
                    follow: false,
                })
                .collect();
            // What it depends on is what was there before it did anything.
            session.locator.look_again();
            let policy = keyed.map_or(Policy::STRICT, |keyed| keyed.policy);
            session.use_for(tid, unit, &policy);
            let without_inodes = session.unit(unit).leaves_inodes_out(&policy);
            for Fact { query, answer } in &outcome.facts {
                if !(without_inodes && matches!(query, Query::Inode { .. })) {
                    session.inherit(tid, unit, query, answer);
                }
            }
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
                let stream = stream(&results, &job)?;
                let mut script = Script::default();
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
                    world: Some(&world),
                    progress: None,
                    ages: &job.ages,
                };
                restore::apply_with(&results, &job.effects, options).map_err(
                    |error| match error.is_clean() {
                        true => error.to_string(),
                        false => format!("{error}; what was done before stays"),
                    },
                )?;
                Ok::<_, String>((file, stream))
            })
            .await;
        self.catch_up_all();
        self.session.borrow_mut().lookups.end_change(tid);
        let (file, stream) = match prepared {
            Ok(prepared) => prepared,
            Err(reason) => return Applied::Refused(tracee, reason),
        };
        if let Err(error) = redirect(&mut tracee, &file) {
            // The files are as they would be; running the program makes them
            // again.
            return Applied::Refused(tracee, format!("cannot be redirected: {error}"));
        }
        {
            let mut session = self.session.borrow_mut();
            session.began = Some(began);
            session.take_in(tid, unit, &outcome, &before, &stream);
            if let Some(task) = session.tasks.get_mut(&tid) {
                task.skipped = true;
            }
            let depth = session.depth(unit) + 1;
            let id = session.skipped_id();
            let above = session.unit(unit).record;
            let wall_us = asked.elapsed().as_micros() as u64;
            let above_unit = session.unit(unit);
            above_unit.skipped_us = above_unit
                .skipped_us
                .saturating_add(outcome.wall_us.saturating_sub(wall_us));
            let record = {
                let mut journal = session.report.journal();
                let begun = Begun { path: None, keyed };
                let record = journal.begin(above, argv, begun, Missed::Not);
                journal.backdate(record, wall_us);
                for effect in &outcome.effects {
                    journal.output(record, effect.path());
                }
                for (fd, _) in &stream {
                    let file = session.model.file(tid, *fd).map(|file| file.id);
                    if let Some(path) = file.and_then(|file| session.resources.get(&file)) {
                        journal.output(record, path);
                    }
                }
                record
            };
            session.report.add(Line {
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
        let stop = tracee.resume_to_exit().stop().await;
        // The image lives on in the process.
        drop(file);
        if let Stop::Posthook(_) = &stop {
            // The stand-in could not be executed, and the program cannot be
            // told why its call failed.
            let mut session = self.session.borrow_mut();
            if let Some(task) = session.tasks.get_mut(&tid) {
                task.skipped = false;
            }
            session.doubt(unit, "its stand-in could not be executed", true);
        }
        Applied::Skipped(stop)
    }
}

impl Session {
    /// A unit takes in a child that was skipped: what it depends on and what
    /// it did.
    fn take_in(
        &mut self,
        tid: Tid,
        unit: UnitId,
        outcome: &Outcome,
        before: &[(FilePath, Option<Box<Stat>>)],
        stream: &[(i32, Arc<[u8]>)],
    ) {
        for ((path, initial), effect) in before.iter().zip(&outcome.effects) {
            self.take_over(unit, path, initial.as_deref(), effect);
        }
        for ((fd, bytes), chunk) in stream.iter().zip(&outcome.stream) {
            let Some(description) = self.model.file(tid, *fd).cloned() else {
                continue;
            };
            let file = description.id;
            let seq = self.tick();
            self.touch_inherited(unit, seq, &description);
            self.hand_on(&description, bytes);
            if self.owners.get(file) == Some(unit) {
                continue;
            }
            let above = self.unit(unit);
            above.written_bytes += bytes.len() as u64;
            above.written.push(Written {
                seq,
                file,
                bytes: bytes.clone(),
                of_place: matches!(chunk.data, StreamData::Place(_)),
            });
        }
        for (fd, _) in &outcome.positions {
            let Some(file) = self.model.file(tid, *fd).map(|file| file.id) else {
                continue;
            };
            if self.owners.get(file) != Some(unit) && !self.unit(unit).consumed.contains(&file) {
                self.unit(unit).consumed.push(file);
            }
        }
        for &(fd, flags) in &outcome.flags {
            if let Some(file) = self.model.file(tid, fd) {
                file.append.set(flags & libc::O_APPEND != 0);
                file.nonblocking.set(flags & libc::O_NONBLOCK != 0);
            }
        }
        self.unit(unit).units += outcome.units;
        if let Some(relocation) = &self.settings.relocation {
            let (path_use, conditions) = relocation.taken_in(outcome);
            self.unit(unit).depend(path_use, &conditions);
        }
    }

    /// A unit has done this, by a child that was skipped, where `initial` was.
    pub(crate) fn take_over(
        &mut self,
        unit: UnitId,
        path: &FilePath,
        initial: Option<&Stat>,
        effect: &Effect,
    ) {
        let seq = self.tick();
        let present = matches!(effect, Effect::SetTimes { time, .. } if *time == Time::Present);
        if present && initial.is_some_and(is_directory) {
            // What came and went there, as a temporary file.
            self.touch_names(unit, seq, path.as_path());
        } else {
            self.touch(unit, seq, path, true);
        }
        self.reshape(effect, initial);
        self.locator.disbelieve(path, initial);
        let initial_content = match (effect, initial) {
            (Effect::Append { .. }, Some(stat)) if is_regular(stat) => {
                Some(self.content(path, stat))
            }
            _ => None,
        };
        if let Some(stat) = initial {
            self.contents.forget(stat);
        }
        if let Effect::HardLink { to, .. } = effect {
            self.relink(to);
        }
        let change = self.change(unit, seq, path, initial.map(|stat| Box::new(*stat)));
        establish(change, seq, effect, initial_content);
    }

    /// Paths may lead elsewhere after this effect, where `initial` was.
    fn reshape(&mut self, effect: &Effect, initial: Option<&Stat>) {
        let is_way = initial.is_some_and(|stat| is_link(stat) || is_directory(stat));
        match effect {
            Effect::Symlink { .. } | Effect::RemoveDir { .. } => self.locator.forget(),
            Effect::Chmod { .. } | Effect::SetTimes { .. } => {}
            _ if is_way => self.locator.forget(),
            Effect::MakeDir { .. } => self.locator.forget_absent(),
            Effect::HardLink { .. } => {
                self.locator.forget_missing();
                self.locator.disbelieve_all();
            }
            Effect::Write { .. } | Effect::Append { .. } | Effect::Remove { .. } => {
                self.locator.forget_missing();
            }
        }
    }

    /// A fact of a skipped child, which holds now.
    fn inherit(&mut self, tid: Tid, unit: UnitId, query: &Query, answer: &Answer) {
        let (path, follow) = match query {
            Query::Content(path)
            | Query::StatFs(path)
            | Query::Target(path)
            | Query::Replaced(path)
            | Query::List(path) => (path, true),
            Query::Stat { path, follow, .. }
            | Query::Access { path, follow, .. }
            | Query::Kind { path, follow }
            | Query::Inode { path, follow }
            | Query::Xattr { path, follow, .. } => (path, *follow),
            Query::Link(path) | Query::Permissions(path) => (path, false),
            Query::RealPath(path) => {
                let observed = Observed::Answer(answer.clone());
                self.note(unit, query.clone(), observed, path.clone());
                return;
            }
            // Made again from the times of the paths at the unit's end.
            Query::Order(_) => return,
            Query::LeftOut(part) => {
                self.use_part_of(tid, unit, *part);
                return;
            }
        };
        if let Query::Content(path) = query
            && let Some(it) = self.locator.believed(path.as_path().into())
        {
            self.note_believed(unit, it);
            return;
        }
        // Who has just found nothing is believed where nothing was before.
        let nothing = *answer == Answer::Error(libc::ENOENT);
        let vacant = nothing.then(|| self.locator.plainly_vacant(path.as_path().into()));
        let vacant = vacant.flatten();
        if let Some(located) = vacant.filter(|it| !self.touched.contains_key(&it.resource)) {
            self.note_missing(unit, query.clone(), located);
            return;
        }
        let located = self.look(unit, path, follow);
        let observed = match (query, &located.stat) {
            (Query::Stat { time, .. }, Ok(stat)) => {
                let content =
                    (*time == TimeUse::Order && is_regular(stat)).then(|| self.content(path, stat));
                Observed::Metadata {
                    stat: Box::new(*stat),
                    content,
                }
            }
            (Query::Content(_), Ok(stat)) if is_regular(stat) => {
                Observed::Content(self.content_to_believe(path, &located, stat))
            }
            (Query::List(_), Ok(_)) => match self.world.listing(path) {
                Ok(names) => Observed::Listing(Arc::new(names)),
                Err(error) => Observed::Answer(Answer::Error(error.raw_os_error())),
            },
            _ => Observed::Answer(answer.clone()),
        };
        self.note(unit, query.clone(), observed, located.resource);
    }
}

/// Records an effect as the change it is to the unit above.
fn establish(
    change: &mut Change,
    seq: u64,
    effect: &Effect,
    initial_content: Option<Arc<crate::world::pending_digest::Content>>,
) {
    let time_state = |time: &Time| match time {
        Time::Present => TimeState::Present,
        Time::Set(a, m) => TimeState::Set(*a, *m),
        Time::Kept => TimeState::Kept,
    };
    let made = |change: &mut Change| {
        change.content.get_or_insert(seq);
    };
    match effect {
        Effect::Write {
            fresh,
            mode,
            create_mode,
            time,
            ..
        } => {
            let first = change.content.is_none();
            made(change);
            change.appended_from = None;
            change.fresh |= *fresh;
            change.mode_set |= mode.is_some();
            if first {
                change.create_mode = Some(*create_mode);
            }
            if *fresh {
                change.linked_to = None;
            }
            change.time = time_state(time);
        }
        Effect::Append {
            length,
            create_mode,
            time,
            ..
        } => {
            let first = change.content.is_none();
            made(change);
            if first {
                change.create_mode = Some(*create_mode);
                change.initial_content = initial_content;
                let before = change.initial.as_deref().map(|stat| stat.st_size as u64);
                change.appended_from = Some(before.unwrap_or(0));
            }
            change.time = match time {
                // It was only created.
                Time::Kept if change.was_absent() => TimeState::Present,
                _ => time_state(time),
            };
            change.dated |= *length == 0 && *time == Time::Present;
        }
        Effect::MakeDir { time, .. } => {
            made(change);
            change.fresh = true;
            change.time = time_state(time);
        }
        Effect::Symlink { .. } | Effect::Remove { .. } | Effect::RemoveDir { .. } => {
            made(change);
            change.fresh = true;
            change.appended_from = None;
            change.linked_to = None;
            change.time = TimeState::Present;
        }
        Effect::HardLink { to, .. } => {
            made(change);
            change.fresh = true;
            change.linked_to = Some(to.clone());
        }
        Effect::Chmod { .. } => {
            change.meta.get_or_insert(seq);
            change.mode_set = true;
        }
        Effect::SetTimes { time, .. } => {
            change.meta.get_or_insert(seq);
            change.time = time_state(time);
            change.dated |= *time == Time::Present;
        }
    }
}
