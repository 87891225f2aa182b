//! Absorbs a skipped child: its facts become observations of the parent, its effects changes of
//! the parent.

use std::sync::Arc;

use ptrace_async::event::Tid;
use rustix::fs::Stat;

use crate::engine::session::Session;
use crate::engine::unit::{Change, Observed, TimeState, Written};
use crate::model::fact::{Answer, Query, TimeUse};
use crate::model::outcome::{Effect, Outcome, StreamData, Time};
use crate::model::path::FilePath;
use crate::model::unit_id::UnitId;
use crate::world::locate::{is_directory, is_link, is_regular};

impl Session {
    /// Lets a unit absorb a skipped child: the facts on which the child depends and its effects.
    pub(crate) fn absorb_child(
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
            if !bytes.is_empty() {
                self.go_on_writing(file, seq);
            }
            // The stand-in writes it later.
            if let Some(path) = self.descriptions.resource(file) {
                self.outputs.begin_write(tid, path.clone());
            }
            self.hand_on(&description, bytes);
            if self.descriptions.owner(file) == Some(unit) {
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
            if self.descriptions.owner(file) != Some(unit)
                && !self.unit(unit).consumed.contains(&file)
            {
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
            let (path_use, conditions) = relocation.path_requirements(outcome);
            self.unit(unit).depend(path_use, &conditions);
        }
    }

    /// Records an effect of a skipped child as a change by `unit`; `initial` is the metadata
    /// before.
    pub(crate) fn take_over(
        &mut self,
        unit: UnitId,
        path: &FilePath,
        initial: Option<&Stat>,
        effect: &Effect,
    ) {
        if effect.follows_from_others() {
            // A consequence of other effects, which is computed again at the unit's end.
            return;
        }
        let seq = self.tick();
        let present = matches!(effect, Effect::SetTimes { time, .. } if *time == Time::Present);
        if present && initial.is_some_and(is_directory) {
            // A temporary file was made and removed there.
            self.touch_names(unit, seq, path.as_path());
        } else {
            self.touch(unit, seq, path, true);
        }
        self.reshape(effect, initial);
        self.locator.forget_content(path, initial);
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
            self.unit(unit).links_to(to);
        }
        let change = self.change(unit, seq, path, initial.map(|stat| Box::new(*stat)));
        establish(change, seq, effect, initial_content);
    }

    /// Invalidates lookups of paths that the effect may have redirected; `initial` is the metadata
    /// before.
    fn reshape(&mut self, effect: &Effect, initial: Option<&Stat>) {
        let is_way = initial.is_some_and(|stat| is_link(stat) || is_directory(stat));
        match effect {
            Effect::Symlink { .. } | Effect::RemoveDir { .. } => self.locator.forget(),
            Effect::Chmod { .. } | Effect::SetTimes { .. } | Effect::Attribute { .. } => {}
            _ if is_way => self.locator.forget(),
            Effect::MakeDir { .. } => self.locator.forget_absent(),
            Effect::HardLink { .. } => {
                self.locator.forget_missing();
                self.locator.forget_contents();
            }
            Effect::Write { .. } | Effect::Append { .. } | Effect::Remove { .. } => {
                self.locator.forget_missing();
            }
        }
    }

    /// Adds a fact of a skipped child, which holds now, to the observations of `unit`.
    pub(crate) fn inherit(&mut self, tid: Tid, unit: UnitId, query: &Query, answer: &Answer) {
        let (path, follow) = match query {
            Query::Content(path)
            | Query::StatFs(path)
            | Query::Inherited(path)
            | Query::List(path) => (path, true),
            Query::Stat { path, follow, .. }
            | Query::Access { path, follow, .. }
            | Query::Kind { path, follow }
            | Query::Inode { path, follow }
            | Query::Xattr { path, follow, .. } => (path, *follow),
            Query::Link(path)
            | Query::Permissions(path)
            | Query::Attributes(path)
            | Query::Target(path)
            | Query::Replaced(path) => (path, false),
            Query::RealPath(path) => {
                if self
                    .note_made_links(unit, (path, path), true, true)
                    .is_some()
                {
                    return;
                }
                let observed = Observed::Answer(answer.clone());
                self.note(unit, query.clone(), observed, path.clone());
                return;
            }
            // Computed again at the unit's end from the times of the paths.
            Query::Order(_) => return,
            Query::OneMount { .. } => {
                self.unit(unit).note_mounts(query.clone(), answer.clone());
                return;
            }
            Query::LeftOut(part) => {
                self.use_part_of(tid, unit, *part);
                return;
            }
        };
        if let Query::Content(path) = query
            && let Some(it) = self.locator.cached_open(path.as_path().into())
        {
            self.note_cached_open(unit, it);
            return;
        }
        // A lookup that found nothing is trusted if the same lookup found nothing before.
        let nothing = *answer == Answer::Error(libc::ENOENT);
        let vacant = nothing.then(|| self.locator.absent_plain(path.as_path().into()));
        let vacant = vacant.flatten();
        if let Some(located) = vacant.filter(|it| !self.shared_files.is_changed(&it.resource)) {
            self.note_missing(unit, query, located);
            return;
        }
        let located = self.look(unit, path, follow);
        self.mark_process_link(unit);
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
        self.note(
            unit,
            query.about(&located.given),
            observed,
            located.resource,
        );
    }
}

/// Records an effect of a skipped child as a change by the parent unit.
fn establish(
    change: &mut Change,
    seq: u64,
    effect: &Effect,
    initial_content: Option<Arc<crate::world::pending_digest::PendingDigest>>,
) {
    let time_state = |time: &Time| match time {
        Time::Present => TimeState::Present,
        Time::Set(a, m) => TimeState::Set(*a, *m),
        Time::Kept | Time::WithNames => TimeState::Kept,
    };
    let gone = matches!(effect, Effect::Remove { .. } | Effect::RemoveDir { .. });
    match effect {
        Effect::Write {
            fresh,
            mode,
            create_mode,
            time,
            ..
        } => {
            if change.content.is_none() {
                change.create_mode = Some(*create_mode);
            }
            if *fresh {
                change.remake(seq, time_state(time));
            } else {
                change.content.get_or_insert(seq);
                change.end_append(seq);
            }
            change.mode_set |= mode.is_some();
            if *time != Time::Kept {
                change.time = time_state(time);
            }
        }
        Effect::Append {
            length,
            create_mode,
            time,
            ..
        } => {
            let first = change.content.is_none();
            change.content.get_or_insert(seq);
            if first {
                change.create_mode = Some(*create_mode);
                change.initial_content = initial_content;
                let before = change.initial.as_deref().map(|stat| stat.st_size as u64);
                change.appended_from = Some(before.unwrap_or(0));
            }
            change.time = match time {
                // It was only created.
                Time::Kept if first && change.was_absent() => TimeState::Present,
                // It keeps the time that it has, or that the tree gave it before.
                Time::Kept => change.time,
                _ => time_state(time),
            };
            change.dated |= *length == 0 && *time == Time::Present;
        }
        Effect::MakeDir { time, .. } => change.remake(seq, time_state(time)),
        Effect::Symlink { .. } | Effect::Remove { .. } | Effect::RemoveDir { .. } => {
            change.remake(seq, TimeState::Present);
        }
        Effect::HardLink { to, .. } => {
            change.remake(seq, TimeState::Kept);
            change.linked_to = Some(to.clone());
        }
        Effect::Chmod { .. } => {
            change.meta.get_or_insert(seq);
            change.mode_set = true;
        }
        Effect::Attribute { name, .. } => {
            change.meta.get_or_insert(seq);
            change.set_attribute(name);
        }
        Effect::SetTimes { time, .. } => {
            change.meta.get_or_insert(seq);
            change.time = time_state(time);
            change.dated |= *time == Time::Present;
        }
    }
    change.gone = gone;
}
