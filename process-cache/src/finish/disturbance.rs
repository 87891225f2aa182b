//! What others do to a unit's inputs while it runs.
//!
//! An observation may be applied some time after the call that made it: where calls
//! are logged without stops, the program has read the file by then. What is found is
//! what was read only if nobody changed it in between. Changes that are traced carry
//! sequence numbers. Of all others the kernel's times tell: what was changed before a
//! unit began has an earlier change time.

use std::os::unix::ffi::OsStrExt;

use rustix::fs::Stat;

use super::preconditions::Shape;
use crate::fact::{Answer, Query};
use crate::locate::is_directory;
use crate::path::FilePath;
use crate::session::Session;
use crate::store::FileKey;
use crate::unit::{Observation, Observed, Unit, UnitId};

/// When somebody changed a file, in ns since the epoch.
#[derive(Clone, Copy)]
struct Changed {
    /// Its content, name or metadata.
    any: i64,
    /// Its content, as far as nobody set that.
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
    /// Whether somebody outside the unit changed what it saw or made, while it
    /// ran.
    pub(super) fn check_conflicts(&self, unit: &Unit) -> Result<(), String> {
        if self.touched.is_empty() {
            return Ok(());
        }
        let outsider = |path: &FilePath| {
            self.touched.get(path).is_some_and(|list| {
                list.iter()
                    .any(|&(seq, who)| seq > unit.started && !self.is_within(who, unit.id))
            })
        };
        for (query, observation) in &unit.observations {
            if outsider(&observation.resource) {
                let path = observation.resource.display();
                return Err(format!("{path} was changed by another unit while it ran"));
            }
            if matches!(query, Query::List(_)) {
                let mut key = observation.resource.as_bytes().to_vec();
                key.extend_from_slice(b"/.");
                let key = FilePath::from(std::path::Path::new(std::ffi::OsStr::from_bytes(&key)));
                if outsider(&key) {
                    let path = observation.resource.display();
                    return Err(format!("names in {path} changed while it ran"));
                }
            }
        }
        for path in unit.changes.keys() {
            if outsider(path) {
                let path = path.display();
                return Err(format!("{path} was changed by another unit while it ran"));
            }
        }
        Ok(())
    }

    /// Why what was observed may not be what the unit saw: somebody who is not traced
    /// changed it while the unit ran, or in the moment before.
    pub(super) fn disturbed(&self, id: UnitId) -> Option<String> {
        let unit = &self.units[id.0 as usize];
        if unit.is_doubtful() {
            return None;
        }
        let mut shape = None;
        unit.observations.iter().find_map(|(query, observation)| {
            let path = observation.resource.display();
            if let (Query::List(given), Observed::Listing(_)) = (query, &observation.observed) {
                let shape = shape.get_or_insert_with(|| Shape::of(&unit.changes));
                return self
                    .relisted(unit, given, observation, shape)
                    .then(|| format!("names in {path} changed while it ran"));
            }
            let (changed, inode) = time_of(query, observation)?;
            let changed = match self.relinked.contains(&inode) {
                true => changed.content,
                false => changed.any,
            };
            self.changed_by_others(unit, &observation.resource, changed)
                .then(|| format!("{path} was changed while it ran, by somebody outside"))
        })
    }

    /// Whether somebody else changed a file at this time so late that the unit may have
    /// seen it before that.
    fn changed_by_others(&self, unit: &Unit, resource: &FilePath, changed: i64) -> bool {
        let (earliest, latest) = unit.window;
        if changed < earliest {
            return false;
        }
        let touched = self.touched.get(resource).map_or(&[][..], |list| list);
        let own = touched.iter().any(|(_, who)| self.is_within(*who, unit.id));
        if own || self.world.is_made_up(resource) {
            return false;
        }
        // Before the unit began or after that, within one tick of the clock.
        let unclear = changed <= latest && !touched.is_empty();
        !unclear || self.is_being_changed(unit, resource)
    }

    /// Whether a task that does not belong to the unit may be about to change a file.
    fn is_being_changed(&self, unit: &Unit, resource: &FilePath) -> bool {
        let outside = |tid: &_| {
            let task = self.tasks.get(tid);
            task.is_some_and(|task| !self.is_within(task.unit, unit.id))
        };
        let mut tasks = self.model.tasks().filter(outside);
        tasks.any(|tid| {
            let pending = self.tasks.get(&tid).and_then(|task| task.pending.as_ref());
            let renames =
                pending.is_some_and(|(_, before)| before.iter().any(|(path, _)| path == resource));
            renames
                || self.model.descriptors(tid).any(|(_, file, _)| {
                    file.writable && self.written_path(file).as_ref() == Some(resource)
                })
        })
    }

    /// Whether the names in a directory are others than those that were observed and
    /// what the unit made of them.
    fn relisted(
        &self,
        unit: &Unit,
        given: &FilePath,
        observation: &Observation,
        shape: &Shape<'_>,
    ) -> bool {
        let Observed::Listing(names) = &observation.observed else {
            return false;
        };
        let directory = &observation.resource;
        match rustix::fs::stat(given.as_path()) {
            Ok(stat) if Changed::of(&stat).is_some_and(|at| at.any < unit.window.0) => false,
            Ok(_) => match self.world.listing(given) {
                Ok(now) => {
                    shape.without(directory, &now, u64::MAX)
                        != shape.without(directory, names, observation.seq)
                }
                Err(_) => true,
            },
            // It is gone, or what leads there: by its own doing?
            Err(_) => !directory
                .ancestors()
                .any(|above| unit.changes.contains_key(above.as_os_str().as_bytes())),
        }
    }
}

/// When what was observed was changed last, and its inode; `None` where that does not
/// matter.
fn time_of(query: &Query, observation: &Observation) -> Option<(Changed, (u64, u64))> {
    let of = |stat: &Stat| Some((Changed::of(stat)?, (stat.st_dev, stat.st_ino)));
    match (query, &observation.observed) {
        (_, Observed::Content(content)) => {
            let key = content.key()?;
            Some((Changed::from(key), (key.device, key.inode)))
        }
        // Entries come and go in a directory.
        (_, Observed::Metadata { stat, .. }) if !is_directory(stat) => of(stat),
        (Query::Link(path), Observed::Answer(Answer::Path(_))) => {
            of(&rustix::fs::lstat(path.as_path()).ok()?)
        }
        _ => None,
    }
}
