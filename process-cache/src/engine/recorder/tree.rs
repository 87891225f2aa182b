//! Records changes of the file tree: names that are made, moved and removed, lengths, permission
//! bits, owners and times.

use super::{ns, ref_path};
use crate::engine::session::Before;
use crate::engine::session::Session;
use crate::engine::unit::{Change, Observed, TimeState, changes_linked, moves_left_alone};
use crate::model::fact::{Answer, Query, TimeUse};
use crate::model::path::FilePath;
use crate::model::unit_id::UnitId;
use crate::platform::defect::{Defect, planted};
use crate::world::World;
use crate::world::locate::{is_directory, is_link, is_regular};
use ptrace_async::event::{AttributeChange, FileRef, PathRef, TimeChange};
use rustix::fs::Stat;
use std::path::PathBuf;

impl Session {
    /// Records that an extended attribute was set or removed.
    pub(super) fn set_attribute(
        &mut self,
        unit: UnitId,
        before: &Before,
        file: &FileRef,
        name: &[u8],
        how: AttributeChange,
    ) {
        let is_list = name.starts_with(b"system.posix_acl");
        let Some(change) = self.meta_change(unit, before, file) else {
            return;
        };
        change.set_attribute(name);
        // An access list that equals the permission bits is stored as permission bits.
        change.mode_set |= is_list;
        let (is_soft, seq) = (change.was_absent() && !change.fresh, change.begun);
        let was_made = change.fresh || change.was_absent();
        let Some((path, _)) = before.first() else {
            return;
        };
        if is_soft {
            // An existing file would keep attributes of its own.
            self.note_kind(seq, unit, path, None);
        }
        if was_made || is_list {
            return;
        }
        if name.starts_with(b"user.") {
            // Setting them needs the permission to write (xattr(7)).
            self.note_writable(seq, unit, path);
        }
        match how {
            AttributeChange::Set => {}
            AttributeChange::Create => {
                let absent = Observed::Answer(Answer::Error(libc::ENODATA));
                let (path, name) = (path.clone(), name.to_vec());
                let query = Query::Xattr {
                    path: path.clone(),
                    follow: false,
                    name,
                };
                self.unit(unit).observe(seq, query, absent, path);
            }
            AttributeChange::Replace | AttributeChange::Remove => {
                let (path, name) = (path.display(), String::from_utf8_lossy(name));
                let text = format!("replaces or removes the attribute {name} of {path}");
                self.mark_uncacheable(unit, text, true);
            }
        }
    }

    /// Notes what a new name gets from its directory: a group and an access list.
    pub(super) fn expect_inherited(&mut self, unit: UnitId, path: &FilePath) {
        let Some(directory) = path.parent().map(FilePath::from) else {
            return;
        };
        let query = Query::Inherited(directory.clone());
        let of_unit = self.unit(unit);
        // A directory that the unit made passes on what it got itself.
        let was_made = of_unit
            .changes
            .get(&directory)
            .is_some_and(|change| change.was_absent() && change.content.is_some());
        if was_made || of_unit.observations.contains_key(&query) || planted(Defect::DefaultAclFact)
        {
            return;
        }
        let observed = Observed::Answer(self.world.ask(&query));
        let seq = self.at_beginning();
        self.unit(unit).observe(seq, query, observed, directory);
    }

    /// Records a new directory, link or special file.
    pub(super) fn made_name(&mut self, unit: UnitId, before: &Before) {
        if let Some((path, initial)) = before.first() {
            self.expect_kind(unit, path, initial.as_deref());
            self.expect_inherited(unit, path);
            self.remade(unit, path, initial.clone(), TimeState::Present);
        }
    }

    /// Records the removal of a name.
    pub(super) fn removed_name(&mut self, unit: UnitId, before: &Before) {
        if let Some((path, initial)) = before.first() {
            let shape = initial
                .as_deref()
                .is_some_and(|s| is_link(s) || is_directory(s));
            if shape {
                self.locator.forget();
            }
            self.outputs.watch.removed(path);
            self.expect_kind(unit, path, initial.as_deref());
            let change = self.remade(unit, path, initial.clone(), TimeState::Present);
            change.gone = true;
        }
    }

    /// Records explicitly set times of a file.
    pub(super) fn set_times(
        &mut self,
        unit: UnitId,
        before: &Before,
        file: &FileRef,
        (accessed, modified): (TimeChange, TimeChange),
    ) {
        let time = match modified {
            TimeChange::Keep => {
                if let Some((path, initial)) = before.first() {
                    self.expect_kind(unit, path, initial.as_deref());
                    // The change time is another one now.
                    let seq = self.tick();
                    self.touch(unit, seq, path, false);
                }
                return;
            }
            TimeChange::Now => TimeState::Present,
            TimeChange::At(s, n) => {
                let accessed = match accessed {
                    TimeChange::At(s, n) => Some(ns(s, n)),
                    _ => None,
                };
                TimeState::Set(accessed, Some(ns(s, n)))
            }
        };
        // Times do not count for this unit, so their source is unknown.
        let of_unit = self.unit(unit);
        if matches!(time, TimeState::Set(..))
            && matches!(of_unit.policy.time, TimeUse::None | TimeUse::Order)
            && !of_unit.policy.sets_given_times
        {
            of_unit.mark_uncacheable(
                "sets a file time that is not the present and not in its arguments",
                true,
            );
        }
        if let Some(change) = self.meta_change(unit, before, file) {
            change.time = time;
            change.dated |= time == TimeState::Present;
        }
    }

    /// Records that a name was created, replaced or removed.
    pub(super) fn remade(
        &mut self,
        unit: UnitId,
        path: &FilePath,
        initial: Option<Box<Stat>>,
        time: TimeState,
    ) -> &mut Change {
        let seq = self.tick();
        if let Some(stat) = initial.as_deref() {
            self.contents.forget(stat);
        }
        self.touch(unit, seq, path, true);
        let change = self.change(unit, seq, path, initial);
        change.remake(seq, time);
        change
    }

    pub(super) fn renamed(&mut self, unit: UnitId, before: &Before, exchange: bool) {
        let plain = |stat: &Option<Box<Stat>>| stat.as_deref().is_none_or(is_regular);
        if before.len() == 2 && before.iter().all(|(_, stat)| plain(stat)) {
            self.locator.forget_missing();
        } else {
            self.locator.forget();
        }
        let [(from, source), (to, target)] = before.as_slice() else {
            return;
        };
        if exchange {
            self.mark_uncacheable(unit, "exchanges two files", true);
            return;
        }
        if from == to {
            self.expect_kind(unit, from, source.as_deref());
            return;
        }
        let Some(stat) = source.as_deref() else {
            return;
        };
        if let Some(target) = target.as_deref()
            && (target.st_ino, target.st_dev) == (stat.st_ino, stat.st_dev)
        {
            // Rename does nothing then, which no fact about one of the names tells.
            let (from, to) = (from.display(), to.display());
            let text = format!("renames {from} to {to}, another name of the same file");
            self.mark_uncacheable(unit, text, true);
            return;
        }
        self.joined(unit, [from, to]);
        self.expect_kind(unit, from, Some(stat));
        self.expect_kind(unit, to, target.as_deref());
        // The file keeps its group and list, and a hit makes it anew.
        self.expect_inherited(unit, to);
        let made = self
            .unit(unit)
            .changes
            .get(from)
            .filter(|c| c.content.is_some())
            .cloned();
        if is_directory(stat) {
            self.renamed_directory(unit, from, to, made.as_ref(), target.clone());
            return;
        }
        // A file that was only written keeps owner, permissions and attributes under its new name.
        let kept = made.as_ref().filter(|change| !change.fresh);
        if let Some((Some(seq), Some(initial))) =
            kept.map(|change| (change.content, change.initial.clone()))
        {
            let permissions = Observed::Answer(World::permissions_of(&initial));
            let query = Query::Permissions(from.clone());
            let of_unit = self.unit(unit);
            of_unit.observe(seq, query, permissions, from.clone());
            // Another name of the file would still name it.
            let target = Query::Target(from.clone());
            let writable = Observed::Answer(Answer::Writable);
            of_unit.observe(seq, target, writable, from.clone());
            self.keeps_attributes(unit, from, to, Some(seq));
        }
        if made.as_ref().is_some_and(|change| change.left_alone(stat)) {
            self.mark_uncacheable(unit, moves_left_alone(from), true);
        }
        let time = match &made {
            Some(change) => change.time,
            None => {
                self.carried(unit, from, to, stat);
                if stat.st_nlink > 1 {
                    self.mark_uncacheable(
                        unit,
                        format!("moves {}, which has several names", from.display()),
                        true,
                    );
                }
                TimeState::Set(
                    Some(ns(stat.st_atime, stat.st_atime_nsec as i64)),
                    Some(ns(stat.st_mtime, stat.st_mtime_nsec as i64)),
                )
            }
        };
        let linked = made.as_ref().and_then(|change| change.linked_to.clone());
        // A file that gets its first name back is no link to it.
        let linked = linked.filter(|target| target != to);
        let moved = match &made {
            Some(change) => change.moved_from.clone(),
            None => Some(from.clone()),
        };
        self.outputs.watch.renamed(from, to);
        let left = self.remade(unit, from, source.clone(), TimeState::Present);
        left.gone = true;
        let change = self.remade(unit, to, target.clone(), time);
        change.mode_set = true;
        change.linked_to = linked;
        change.moved_from = moved;
    }

    /// Renames all entries of a directory that the unit made.
    pub(super) fn renamed_directory(
        &mut self,
        unit: UnitId,
        from: &FilePath,
        to: &FilePath,
        made: Option<&Change>,
        target: Option<Box<Stat>>,
    ) {
        if !made.is_some_and(Change::was_absent) {
            self.mark_uncacheable(
                unit,
                format!("moves the directory {}", from.display()),
                true,
            );
            return;
        }
        self.outputs.watch.renamed_directory(from, to);
        self.remade(unit, from, None, TimeState::Present).gone = true;
        self.remade(unit, to, target, TimeState::Present);
        let seq = self.tick();
        let mut listed: Option<PathBuf> = None;
        for (path, before) in self.unit(unit).take_below(from, seq) {
            let Some(new) = path.moved(from, to) else {
                continue;
            };
            self.shared_files.change(unit, seq, new.clone());
            if let Some(parent) = new.parent().filter(|it| Some(*it) != listed.as_deref()) {
                self.touch_names(unit, seq, parent);
                listed = Some(parent.to_owned());
            }
            self.outputs.moved(&path, &new);
            let change = self.change(unit, seq, &new, None);
            change.remake(seq, before.time);
            change.mode_set = before.mode_set;
            let linked_to = before.linked_to;
            change.linked_to = linked_to.map(|name| name.moved(from, to).unwrap_or(name));
            change.moved_from = before.moved_from;
        }
        // Names that only other units have changed.
        self.outputs.touch_below(from);
    }

    /// Carries over content and times of a renamed file: it had the name `from`, and is now `now`.
    fn carried(&mut self, unit: UnitId, from: &FilePath, now: &FilePath, stat: &Stat) {
        if is_regular(stat) {
            let content = self.content(now, stat);
            let observed = Observed::Content(content);
            self.note(unit, Query::Content(from.clone()), observed, from.clone());
        } else if let Ok(target) = std::fs::read_link(now) {
            let answer = Observed::Answer(Answer::Path(FilePath::from(target)));
            self.note(unit, Query::Link(from.clone()), answer, from.clone());
        }
        let query = Query::Stat {
            path: from.clone(),
            follow: false,
            time: TimeUse::Modified,
        };
        let observed = Observed::Metadata {
            stat: Box::new(*stat),
            content: None,
        };
        self.keeps_attributes(unit, from, now, None);
        let seen = self.unit(unit).observations.contains_key(&query);
        self.note(unit, query.clone(), observed, from.clone());
        if let Some(noted) = self.unit(unit).observations.get_mut(&query) {
            noted.carried = !seen;
        }
    }

    /// Notes the attributes of a file that keeps them under another name: it had the name `from`
    /// (at `seq`), and is now `now`.
    fn keeps_attributes(
        &mut self,
        unit: UnitId,
        from: &FilePath,
        now: &FilePath,
        seq: Option<u64>,
    ) {
        if planted(Defect::AttributeFact) {
            return;
        }
        let answer = Observed::Answer(self.world.ask(&Query::Attributes(now.clone())));
        let query = Query::Attributes(from.clone());
        match seq {
            Some(seq) => self.unit(unit).observe(seq, query, answer, from.clone()),
            None => self.note(unit, query, answer, from.clone()),
        }
    }

    pub(super) fn linked(&mut self, unit: UnitId, before: &Before, from: &FileRef, to: &PathRef) {
        let Some((target, initial)) = before.last().cloned() else {
            return;
        };
        let source = match from {
            FileRef::Path(path) => Some(self.look(unit, &path.path, path.follow).resource),
            FileRef::File(file) => file.path.as_deref().map(|path| self.locator.name(path)),
        };
        let _ = to;
        if let Some(source) = &source {
            self.joined(unit, [source, &target]);
        }
        self.expect_kind(unit, &target, initial.as_deref());
        let source = source.filter(|source| *source != target);
        if let Some(source) = &source {
            self.relink(source);
            self.compare_output(source);
            self.unit(unit).links_to(source);
            let made = self
                .unit(unit)
                .changes
                .get(source)
                .is_some_and(|c| c.content.is_some());
            if !made {
                let stat = rustix::fs::lstat(source.as_path()).ok();
                let seq = self.tick();
                self.note_kind(seq, unit, source, stat.as_ref());
                // It can be examined under its new name. The call has just added one.
                if let Some(mut stat) = stat.filter(|stat| is_regular(stat) || is_link(stat)) {
                    stat.st_nlink = stat.st_nlink.saturating_sub(1).max(1);
                    self.carried(unit, source, source, &stat);
                }
            }
        }
        if source.is_none() {
            self.expect_inherited(unit, &target);
        }
        let change = self.remade(unit, &target, initial, TimeState::Kept);
        change.linked_to = source;
        if change.linked_to.is_none() {
            change.time = TimeState::Present;
        }
    }

    pub(super) fn truncated(
        &mut self,
        unit: UnitId,
        before: &Before,
        target: &FileRef,
        length: u64,
    ) {
        if let FileRef::File(file) = target
            && !self.is_own(unit, file)
        {
            self.mark_uncacheable(unit, "changes the length of an inherited file", true);
            return;
        }
        let Some((path, initial)) = before.first().cloned() else {
            return;
        };
        self.mark_linked(unit, &path, initial.as_deref());
        let change = self.unit(unit).changes.get(&path);
        let known = change.is_some_and(|change| change.content.is_some());
        // An append did not depend on the bytes before it; a shorter or longer file does.
        let appended = change
            .filter(|change| change.appended_from.is_some() && length > 0)
            .and_then(|change| Some((change.content?, change.initial_content.clone())));
        match appended {
            Some((seq, Some(content))) => {
                let (query, observed) = (Query::Content(path.clone()), Observed::Content(content));
                self.unit(unit).observe(seq, query, observed, path.clone());
            }
            Some((seq, None)) => self.note_kind(seq, unit, &path, None),
            None => {}
        }
        // Some file systems leave the times of a file that has this length already (tmpfs, if it
        // is empty, and only by a name); others set them.
        let now = rustix::fs::lstat(path.as_path()).ok();
        let unchanged = initial.as_deref().zip(now).is_some_and(|(before, now)| {
            let times = |stat: &Stat| {
                let modified = (stat.st_mtime, stat.st_mtime_nsec);
                (modified, stat.st_ctime, stat.st_ctime_nsec)
            };
            before.st_size == now.st_size && times(before) == times(&now)
        });
        let mut initial_content = None;
        if let (Some(stat), false) = (initial.as_deref(), known) {
            // Another name of the file would be cut, too.
            self.expect_target(unit, &path, Some(stat));
            if !planted(Defect::TruncateFact) {
                // The call makes no file, and keeps the time of one that has this length already.
                self.expect_kind(unit, &path, Some(stat));
                let content = self.content(&path, stat);
                let observed = Observed::Content(content.clone());
                self.note(unit, Query::Content(path.clone()), observed, path.clone());
                initial_content = Some(content);
            }
            if stat.st_nlink > 1 && !unchanged {
                self.mark_uncacheable(
                    unit,
                    format!("cuts {}, which has several names", path.display()),
                    true,
                );
            }
        }
        if unchanged {
            return;
        }
        if let Some(stat) = initial.as_deref() {
            self.contents.forget(stat);
        }
        let seq = self.tick();
        self.touch(unit, seq, &path, false);
        let change = self.change(unit, seq, &path, initial);
        if change.content.is_none() {
            change.content = Some(seq);
            change.initial_content = initial_content;
        }
        change.end_append(seq);
        change.time = TimeState::Present;
    }

    /// Begins or continues a change of metadata.
    pub(super) fn meta_change(
        &mut self,
        unit: UnitId,
        before: &Before,
        target: &FileRef,
    ) -> Option<&mut Change> {
        if let FileRef::File(file) = target
            && file.path.is_none()
        {
            // A file without a name (or a pipe) ends with its descriptor.
            return None;
        }
        let (path, initial) = before.first().cloned()?;
        let known = self.unit(unit).changes.contains_key(&path);
        if !known {
            self.expect_kind(unit, &path, initial.as_deref());
        }
        self.mark_linked(unit, &path, initial.as_deref());
        let seq = self.tick();
        self.touch(unit, seq, &path, false);
        let change = self.change(unit, seq, &path, initial);
        change.meta.get_or_insert(seq);
        Some(change)
    }

    /// Marks a unit that changes a file which was there before and which it gave another name: that
    /// name shows the change, too.
    pub(super) fn mark_linked(&mut self, unit: UnitId, path: &FilePath, stat: Option<&Stat>) {
        if stat.is_some_and(|stat| self.unit(unit).linked.must_stay(stat)) {
            self.mark_uncacheable(unit, changes_linked(path), true);
            return;
        }
        if stat.is_none_or(|stat| stat.st_nlink < 2 || is_directory(stat)) {
            return;
        }
        let changes = &self.unit(unit).changes;
        let source = |path: &FilePath| changes.get(path)?.linked_to.as_ref();
        // Links to links, as far as a path may lead through symbolic ones.
        let names = std::iter::successors(Some(path), |path| source(path)).take(40);
        let is_made = names.last().is_some_and(|first| {
            let change = changes.get(first);
            change.is_some_and(|change| change.content.is_some())
        });
        let leads_here = |change: &Change| change.linked_to.as_ref() == Some(path);
        if !is_made && (source(path).is_some() || changes.values().any(leads_here)) {
            self.mark_uncacheable(unit, changes_linked(path), true);
        }
    }

    pub(super) fn owned(&mut self, unit: UnitId, before: &Before, target: &FileRef) {
        let Some((path, initial)) = before.first() else {
            if ref_path(target).is_none() {
                return;
            }
            self.mark_uncacheable(unit, "changes the owner of a file", true);
            return;
        };
        let (uid, gid) = match initial.as_deref() {
            Some(stat) => (stat.st_uid, stat.st_gid),
            None => self.ids,
        };
        let same = rustix::fs::lstat(path.as_path())
            .is_ok_and(|now| (now.st_uid, now.st_gid) == (uid, gid));
        if same {
            let initial = initial.clone();
            let Some(change) = self.meta_change(unit, before, target) else {
                return;
            };
            // The call takes set-user-ID and set-group-ID bits away.
            change.mode_set |= initial.is_some();
            let (path, seq) = (path.clone(), change.begun);
            match (change.initial.clone(), change.fresh) {
                (_, true) => {}
                (Some(stat), false) => {
                    let permissions = Observed::Answer(World::permissions_of(&stat));
                    let query = Query::Permissions(path.clone());
                    self.unit(unit).observe(seq, query, permissions, path);
                }
                // An existing file would have an owner of its own.
                (None, false) => self.note_kind(seq, unit, &path, None),
            }
        } else {
            let text = format!("changes the owner of {}", path.display());
            self.mark_uncacheable(unit, text, true);
        }
    }
}
