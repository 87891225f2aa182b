//! Detects interference: changes by others to a unit's inputs while it runs.
//!
//! An observation may be applied some time after the call that made it: an unstopped call has read
//! the file by then. The content found later is the content that was read only if no process
//! changed the file in between. Traced changes carry sequence numbers. All other changes are recognised by
//! the kernel's timestamps: a file that was changed before a unit began has an earlier change
//! time.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use ptrace_async::event::{OpenFile, Tid};
use rustix::fs::Stat;
use smallvec::SmallVec;

use super::preconditions::{Shape, earliest};
use crate::engine::session::{Session, named_file, names_in};
use crate::engine::unit::{Observation, Observed, Unit};
use crate::model::fact::{Answer, Query};
use crate::model::file_key::FileKey;
use crate::model::path::{Asked, FilePath};
use crate::model::unit_id::UnitId;
use crate::platform::defect::{Defect, planted};
use crate::world::locate::is_directory;

/// Times of the last change of a file, in ns since the epoch.
#[derive(Clone, Copy)]
struct Changed {
    /// Last change of its content, names or metadata.
    any: i64,
    /// Last change of its content (modification time), unless a program set that time.
    content: i64,
}

impl Changed {
    fn of(stat: &Stat) -> Option<Self> {
        FileKey::of(stat).map(|key| Self::from(&key))
    }
}

impl From<&FileKey> for Changed {
    fn from(key: &FileKey) -> Self {
        Self {
            any: key.changed,
            content: key.modified,
        }
    }
}

impl Session {
    /// Checks that nothing outside the unit changed its inputs or outputs while it ran.
    pub(super) fn check_conflicts(&self, unit: &Unit) -> Result<(), String> {
        if self.shared_files.is_unchanged() {
            return Ok(());
        }
        let outsider = |path: &FilePath| self.was_changed_by_traced(unit, path);
        let reasons = unit.observations.iter().filter_map(|(query, observation)| {
            let path = observation.resource.display();
            let reason = if outsider(&observation.resource) {
                format!("{path} was changed by another unit while it ran")
            } else if matches!(query, Query::List(_))
                && outsider(&names_in(observation.resource.as_path()))
            {
                format!("names in {path} changed while it ran")
            } else {
                return None;
            };
            Some(((observation.seq, query), reason))
        });
        if let Some(reason) = earliest(reasons) {
            return Err(reason);
        }
        match unit.changes.keys().filter(|path| outsider(path)).min() {
            None => Ok(()),
            Some(path) => {
                let path = path.display();
                Err(format!("{path} was changed by another unit while it ran"))
            }
        }
    }

    /// Looks for interference: another process changed an observed file while the unit ran, or in
    /// the clock tick before.
    pub(super) fn find_interference(&self, id: UnitId) -> Option<Interference> {
        let unit = &self.units[id.0 as usize];
        if unit.is_doubtful() {
            return None;
        }
        let mut shape = None;
        let mut by_traced = Vec::new();
        let by_others = unit.observations.iter().filter_map(|(query, observation)| {
            let path = observation.resource.display();
            let at = (observation.seq, query);
            if let (Query::List(given), Observed::Listing(_)) = (query, &observation.observed) {
                let shape = shape.get_or_insert_with(|| Shape::of(&unit.changes));
                let traced = self.relisted(unit, given, observation, shape)?;
                let reason = format!("names in {path} changed while it ran");
                if !traced {
                    return Some((at, reason));
                }
                by_traced.push((at, reason));
                return None;
            }
            let differs = match time_of(query, observation) {
                None => self.answers_differ(unit, query, observation),
                Some((changed, inode)) => {
                    if self.was_mapped(unit, inode) {
                        let who = "was mapped for writing by another unit while it ran";
                        return Some((at, format!("{path} {who}")));
                    }
                    let changed = match self.shared_files.is_relinked(inode) {
                        true => changed.content,
                        false => changed.any,
                    };
                    self.changed_by_others(unit, &observation.resource, changed)
                }
            };
            // An outsider that changed it too is found where the change of the other unit is.
            if differs && self.is_changed_by_traced(unit, &observation.resource) {
                by_traced.push((
                    at,
                    format!("{path} was changed by another unit while it ran"),
                ));
                return None;
            }
            differs.then(|| {
                let who = "was changed by a process outside of pcache while it ran";
                (at, format!("{path} {who}"))
            })
        });
        let by_others = earliest(by_others);
        let traced = by_others.is_none();
        let reason = by_others.or_else(|| earliest(by_traced))?;
        Some(Interference { reason, traced })
    }

    /// Whether another process changed a file of which a unit has a plain answer, and the answer is
    /// another one now.
    fn answers_differ(&self, unit: &Unit, query: &Query, observation: &Observation) -> bool {
        let Observed::Answer(answer) = &observation.observed else {
            return false;
        };
        let resource = &observation.resource;
        is_asked_again(query)
            && rustix::fs::lstat(resource.as_path())
                .ok()
                .and_then(|stat| Changed::of(&stat))
                .is_some_and(|changed| self.changed_by_others(unit, resource, changed.any))
            && self.world.ask(query) != *answer
    }

    /// Whether another process changed a file at time `changed`, so late that the unit may have
    /// seen the earlier state.
    fn changed_by_others(&self, unit: &Unit, resource: &FilePath, changed: i64) -> bool {
        let (earliest, latest) = unit.window;
        if changed < earliest {
            return false;
        }
        let touched = self.shared_files.changes(resource);
        let own = touched.iter().any(|(_, who)| self.is_within(*who, unit.id));
        if own || self.world.is_made_up(resource) {
            return false;
        }
        // The change may have been before or after the start of the unit, within one clock tick.
        let unclear = changed <= latest && !touched.is_empty();
        !unclear || self.is_being_changed(unit, resource)
    }

    /// Whether a task outside the unit may have changed a file after the unit began, or is about
    /// to. A task that opened the file later is known by its sequence number.
    fn is_being_changed(&self, unit: &Unit, resource: &FilePath) -> bool {
        let held = unit.open_elsewhere.iter().any(|file| {
            let path = named_file(file).and_then(|path| path.canonicalize().ok());
            self.descriptions.resource(file.id) == Some(resource)
                || path.is_some_and(|path| FilePath::from(path) == *resource)
        });
        held || self.is_pending_outside(unit, resource)
    }

    /// Whether another unit may have written to a file through mapped memory after the unit began.
    /// A write to a page that is already dirty changes no time of the file.
    fn was_mapped(&self, unit: &Unit, inode: (u64, u64)) -> bool {
        let who = self.shared_files.mapped_by(inode);
        who.iter().any(|&who| {
            let until = self.units[who.0 as usize].ended.unwrap_or(u64::MAX);
            until > unit.started && !self.is_within(who, unit.id)
        })
    }

    /// Returns the files that tasks other than this one have open for writing.
    pub fn open_elsewhere(&self, tid: Tid) -> SmallVec<[Rc<OpenFile>; 2]> {
        let mut found: SmallVec<[Rc<OpenFile>; 2]> = SmallVec::new();
        for other in self.model.tasks().filter(|&other| other != tid) {
            for (_, file, _) in self.model.descriptors(other) {
                if file.writable
                    && named_file(file).is_some()
                    && found.iter().all(|known| known.id != file.id)
                {
                    found.push(Rc::clone(file));
                }
            }
        }
        found
    }

    /// Whether another unit has changed a file since this unit began, or is about to.
    fn is_changed_by_traced(&self, unit: &Unit, path: &FilePath) -> bool {
        self.was_changed_by_traced(unit, path) || self.is_pending_outside(unit, path)
    }

    /// Whether a unit outside of this one has changed a file, or names in a directory
    /// ([`names_in`]), since this unit began.
    pub(super) fn was_changed_by_traced(&self, unit: &Unit, path: &FilePath) -> bool {
        let mut changes = self.shared_files.changes(path).iter();
        changes.any(|&(seq, who)| seq > unit.started && !self.is_within(who, unit.id))
    }

    /// Whether a task outside the unit is about to change the target of this path.
    fn is_pending_outside(&self, unit: &Unit, path: &FilePath) -> bool {
        self.tasks.iter().any(|task| {
            let pending = task.pending.as_ref();
            !self.is_within(task.unit, unit.id)
                && pending.is_some_and(|call| call.before.iter().any(|(p, _)| p == path))
        })
    }

    /// Compares the names in a directory with the observed ones and the unit's own changes. If
    /// they differ, tells whether other traced units made or removed all that differ.
    fn relisted(
        &self,
        unit: &Unit,
        given: &FilePath,
        observation: &Observation,
        shape: &Shape<'_>,
    ) -> Option<bool> {
        let Observed::Listing(names) = &observation.observed else {
            return None;
        };
        let directory = &observation.resource;
        match rustix::fs::stat(given.as_path()) {
            Ok(stat) if Changed::of(&stat).is_some_and(|at| at.any < unit.window.0) => None,
            Ok(_) => match self.world.listing(given) {
                Ok(now) => {
                    let now = shape.without(directory, &now, u64::MAX);
                    let then = shape.without(directory, names, observation.seq);
                    // Everything in a directory that the unit made is its own.
                    let made = unit.made_before(directory, observation.seq);
                    let made =
                        made.is_some_and(|change| change.fresh) && !planted(Defect::OutsiderOutput);
                    let differs = |name: &&Vec<u8>| made || now.get(*name) != then.get(*name);
                    let mut others = now.keys().chain(then.keys()).filter(differs).peekable();
                    let traced = |name: &Vec<u8>| {
                        let path = directory.join(OsStr::from_bytes(name));
                        self.is_changed_by_traced(unit, &FilePath::from(path))
                    };
                    others.peek()?;
                    Some(others.all(traced))
                }
                Err(_) => Some(false),
            },
            // The directory or a link to it is gone: did the unit itself remove it?
            Err(_) => {
                let own = directory
                    .ancestors()
                    .any(|above| unit.changes.contains_key(Asked::from(above).key()));
                (!own).then_some(false)
            }
        }
    }
}

/// Interference: what a unit observed may not be what it saw.
pub(super) struct Interference {
    pub(super) reason: String,
    /// Only traced units caused it, so that an ancestor that absorbs both is not affected.
    pub(super) traced: bool,
}

/// Whether the answer to a query changes with the rights or attributes of its file.
fn is_asked_again(query: &Query) -> bool {
    matches!(
        query,
        Query::Access { .. }
            | Query::Xattr { .. }
            | Query::Attributes(_)
            | Query::Permissions(_)
            | Query::Inherited(_)
    )
}

/// Returns the last change of the observed file and its inode; `None` where changes do not matter.
fn time_of(query: &Query, observation: &Observation) -> Option<(Changed, (u64, u64))> {
    let of = |stat: &Stat| Some((Changed::of(stat)?, (stat.st_dev, stat.st_ino)));
    match (query, &observation.observed) {
        (_, Observed::Content(content)) => {
            let key = content.key()?;
            Some((Changed::from(key), (key.device, key.inode)))
        }
        // The time of a directory changes with each new or removed entry.
        (_, Observed::Metadata { stat, .. }) if !is_directory(stat) => of(stat),
        (Query::Link(path), Observed::Answer(Answer::Path(_))) => {
            of(&rustix::fs::lstat(path.as_path()).ok()?)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::Path;
    use std::sync::Arc;

    use ptrace_async::event::{FileKind, OfdId};

    use super::*;
    use crate::engine::session::Settings;
    use crate::model::outcome::{Effect, Time};
    use crate::model::unit_id::UnitId;
    use crate::store::{DigestTable, Store};
    use crate::world::World;

    const WRITER: UnitId = UnitId(2);
    const READER: UnitId = UnitId(3);

    /// A writer touched the input before a reader began; both have the same parent.
    fn session(directory: &Path) -> Session {
        let store = Store::open(directory.join("store")).unwrap();
        let world = World::new(DigestTable::in_memory());
        let mut session = Session::new(Settings::default(), Arc::new(store), Arc::new(world));
        for (id, parent) in [(0, None), (1, Some(0)), (2, Some(1)), (3, Some(1))] {
            let parent = parent.map(UnitId);
            let started = session.tick();
            let unit = Unit::new(UnitId(id), parent, id as Tid, started);
            session.units.push(unit);
        }
        let seq = session.tick();
        session.touch(WRITER, seq, &input(directory), false);
        let reader = session.tick();
        session.unit(READER).started = reader;
        session.unit(READER).window = (100, 200);
        session
    }

    fn input(directory: &Path) -> FilePath {
        FilePath::from(directory.join("input").as_path())
    }

    fn open(path: &Path) -> OpenFile {
        OpenFile {
            id: OfdId(7),
            kind: FileKind::Opened,
            path: Some(path.to_owned()),
            readable: true,
            writable: true,
            path_only: false,
            append: Cell::new(false),
            nonblocking: Cell::new(false),
            creator: None,
        }
    }

    #[test]
    fn a_writer_at_the_start_of_a_unit_interferes_within_the_same_tick() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        let mut session = session(&path);
        std::fs::write(path.join("input"), "x").unwrap();
        let changed =
            |session: &Session, at| session.changed_by_others(&session.units[3], &input(&path), at);
        assert!(!changed(&session, 99));
        assert!(!changed(&session, 100));
        assert!(!changed(&session, 200));
        assert!(changed(&session, 201));
        // The result is the same whether or not the writer has ended since.
        session
            .unit(READER)
            .open_elsewhere
            .push(Rc::new(open(&path.join("input"))));
        assert!(!changed(&session, 99));
        assert!(changed(&session, 100));
        assert!(changed(&session, 200));
    }

    #[test]
    fn a_right_changed_from_outside_interferes() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        let mut session = session(&path);
        let file = FilePath::from(path.join("other").as_path());
        std::fs::write(&file, "x").unwrap();
        let query = Query::Access {
            path: file.clone(),
            mode: libc::X_OK,
            effective: true,
            follow: true,
        };
        let refused = Observed::Answer(Answer::Error(libc::EACCES));
        session.note(READER, query, refused, file.clone());
        assert!(session.find_interference(READER).is_none());
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let found = session.find_interference(READER).expect("it differs");
        let reason = format!(
            "{} was changed by a process outside of pcache while it ran",
            file.display()
        );
        assert_eq!((found.reason, found.traced), (reason, false));
    }

    /// The unit looked for a directory that another unit made afterwards, or is making.
    #[test]
    fn a_name_made_by_another_unit_is_no_change_from_outside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        let mut session = session(&path);
        let made = FilePath::from(path.join("made").as_path());
        let query = Query::Access {
            path: made.clone(),
            mode: libc::W_OK,
            effective: true,
            follow: true,
        };
        let absent = Observed::Answer(Answer::Error(libc::ENOENT));
        session.note(READER, query, absent, made.clone());
        std::fs::create_dir(&made).unwrap();
        let traced = |session: &Session| session.find_interference(READER).map(|it| it.traced);
        assert_eq!(traced(&session), Some(false));
        let seq = session.tick();
        session.touch(WRITER, seq, &made, true);
        assert_eq!(traced(&session), Some(true));
    }

    /// A skipped unit made and removed a file in it.
    #[test]
    fn a_temporary_file_does_not_interfere_with_a_directory_lookup() {
        let directory = tempfile::tempdir().unwrap();
        let mut session = session(directory.path());
        let path = FilePath::from(directory.path());
        let stat = rustix::fs::stat(directory.path()).unwrap();
        session.note(
            READER,
            Query::Kind {
                path: path.clone(),
                follow: true,
            },
            Observed::Metadata {
                stat: Box::new(stat),
                content: None,
            },
            path.clone(),
        );
        let passing = Effect::SetTimes {
            path: path.clone(),
            time: Time::Present,
        };
        session.take_over(WRITER, &path, Some(&stat), &passing);
        assert_eq!(session.check_conflicts(&session.units[3]), Ok(()));
        let mode = Effect::Chmod {
            path: path.clone(),
            mode: 0o700,
        };
        session.take_over(WRITER, &path, Some(&stat), &mode);
        assert!(session.check_conflicts(&session.units[3]).is_err());
    }

    #[test]
    fn a_name_made_by_a_traced_unit_differs_from_one_made_outside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        let mut session = session(&path);
        session.unit(READER).window = (0, 0);
        let names = session.world.listing(&path).unwrap();
        let listed = FilePath::from(path.as_path());
        session.note(
            READER,
            Query::List(listed.clone()),
            Observed::Listing(Arc::new(names)),
            listed,
        );
        let traced = |session: &Session| session.find_interference(READER).map(|it| it.traced);
        assert_eq!(traced(&session), None);
        std::fs::write(path.join("made"), "x").unwrap();
        assert_eq!(traced(&session), Some(false));
        let seq = session.tick();
        let made = FilePath::from(path.join("made"));
        session.touch(WRITER, seq, &made, true);
        assert_eq!(traced(&session), Some(true));
        assert!(session.check_conflicts(&session.units[3]).is_err());
        std::fs::write(path.join("foreign"), "x").unwrap();
        assert_eq!(traced(&session), Some(false));
    }

    #[test]
    fn a_mapping_counts_until_the_unit_that_made_it_has_ended() {
        let directory = tempfile::tempdir().unwrap();
        let mut session = session(directory.path());
        session.shared_files.map((1, 2), WRITER);
        let mapped = |session: &Session, inode| session.was_mapped(&session.units[3], inode);
        assert!(mapped(&session, (1, 2)));
        assert!(!mapped(&session, (1, 3)));
        let began = session.units[3].started;
        session.unit(WRITER).ended = Some(began + 1);
        assert!(mapped(&session, (1, 2)));
        session.unit(WRITER).ended = Some(began - 1);
        assert!(!mapped(&session, (1, 2)));
        // A mapping of the reader itself.
        session.shared_files.map((1, 4), READER);
        assert!(!mapped(&session, (1, 4)));
    }
}
