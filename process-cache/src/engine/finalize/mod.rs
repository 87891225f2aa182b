//! Finalizes a unit that has ended: computes preconditions and postconditions, and stores the
//! result.
//!
//! [`preconditions()`] goes through the events of each resource and keeps the observations of
//! state that the tree itself had not made. `capture` goes through them again and reads from the
//! file system what the tree made of each name.

mod capture;
mod directory_times;
mod interference;
mod outputs;
mod preconditions;
mod verify;

use crate::engine::linked::Linked;
use crate::engine::outsiders::Expected;
use crate::engine::session::Session;
use crate::engine::unit::{Change, Observed, Unit};
use crate::engine::unit::{OUTSIDE, TOO_SHORT};
use crate::key::status_flags;
use crate::model::fact::{Answer, Fact, Part, Query};
use crate::model::inherited::Inherited;
use crate::model::outcome::{Effect, Ending, Outcome, StreamChunk, StreamData};
use crate::model::path::FilePath;
use crate::model::unit_id::UnitId;
use crate::model::weak_key::WeakKey;
use crate::platform::clock;
use crate::platform::defect::{Defect, planted};
use crate::platform::proc_files::{open_flags, position};
use crate::policy::Streams;
use crate::policy::config::Config;
use crate::relocation::relocatable::Moved;
use crate::relocation::{CommitTicket, Relocation};
use crate::remote::Remote;
use crate::store::Store;
use crate::world::World;
use crate::world::locate::{is_directory, is_regular};
use crate::world::pending_digest::PendingDigest;
use ptrace_async::event::Tid;
use rustc_hash::FxHashMap;
use rustix::fs::Stat;
use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use self::capture::capture;
use self::directory_times::DirectoryTimes;
use self::outputs::forget_outputs;
use self::preconditions::answer;
pub use self::preconditions::preconditions;

/// A stream's bytes are kept in the outcome itself up to this length.
const INLINE: usize = 4096;

/// A unit whose process is about to exit: all that a worker needs to store it.
#[derive(Debug)]
pub struct Finished {
    /// The weak key under which the result is stored.
    pub key: WeakKey,
    /// Observations of state that the unit had not made itself, in order.
    pub facts: Vec<(Query, Observed)>,
    /// Its changes.
    pub changes: Vec<(FilePath, Change)>,
    /// The state in which it left each of them.
    left: Vec<Expected>,
    /// The times of the directories in which it changed names.
    directories: DirectoryTimes,
    /// Files that were there before and that it gave another name.
    linked: Linked,
    /// The bytes that it wrote to inherited descriptors.
    pub stream: Vec<Piece>,
    /// Final positions of inherited files that it read from.
    pub positions: Vec<(i32, u64)>,
    /// Changed status flags of inherited descriptions.
    pub flags: Vec<(i32, i32)>,
    /// How it ended.
    pub ending: Ending,
    /// Random names of temporary files made in the tree.
    pub names: Vec<FilePath>,
    /// Its duration, and its duration if no child had been skipped, in µs.
    pub spent: (u64, u64),
    /// Number of units in the tree.
    pub units: u32,
    /// Whether no assumptions are made, whatever is configured.
    pub strict: bool,
    /// The user's configuration.
    pub config: Arc<Config>,
    /// Properties that decide whether its result can move to another directory.
    pub moved: Moved,
    /// Whether it is compared with the stored result.
    pub verified: bool,
    /// When it ended ([`clock::running`]).
    pub ended: u64,
}

impl Finished {
    /// The names that the unit changed.
    fn changed(&self) -> HashSet<&FilePath> {
        self.changes.iter().map(|(path, _)| path).collect()
    }
}

/// Bytes of a stream.
#[derive(Debug)]
pub struct Piece {
    /// The descriptor.
    fd: i32,
    bytes: Vec<u8>,
    /// Whether it is a directory message of make.
    of_place: bool,
}

/// A unit that was stored.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    /// Serial number of the result.
    pub serial: u64,
    /// Why the result does not hit in other directories, if base directories are configured.
    pub bound: Option<String>,
    /// Differences from the result stored before, if a comparison was asked for and there was such
    /// a result.
    pub differences: Option<Vec<String>>,
}

impl Session {
    /// Ends a unit: its parent absorbs it, and the data needed to store it is returned. A unit
    /// that took less than `min_us` is not stored by itself.
    ///
    /// # Errors
    /// Returns the reason why the unit cannot be stored.
    pub fn conclude(&mut self, id: UnitId, status: i32, min_us: u64) -> Result<Finished, String> {
        let ending = if status & 0x7f == 0 {
            Ending::Exited(if planted(Defect::ExitStatus) {
                0
            } else {
                (status >> 8) & 0xff
            })
        } else {
            Ending::Killed(status & 0x7f)
        };
        self.lookups.forget(id);
        self.compare_outputs(id);
        let now = self.tick();
        let unit = self.unit(id);
        unit.recall_moved();
        unit.ended = (unit.alive == 1).then_some(now);
        forget_outputs(unit);
        if unit.alive > 1 {
            unit.mark_uncacheable("leaves processes running", false);
        }
        if let Some(interference) = self.find_interference(id) {
            self.mark_uncacheable(id, interference.reason, !interference.traced);
        }
        if self.may_be_handed_chance(id) {
            self.mark_uncacheable(
                id,
                "may pass a script that uses $RANDOM through a pipe",
                true,
            );
        }
        if !self.settings.config.stores(ending) {
            self.mark_uncacheable(id, "fails, and `store_failures` is false", false);
        }
        let result = self.conclusion(id, ending, min_us);
        if let Err(reason) = &result {
            self.unit(id).mark_uncacheable(reason.clone(), false);
        }
        self.give_to_parent(id);
        self.unit(id).open_elsewhere = smallvec::SmallVec::new();
        result
    }

    fn conclusion(&mut self, id: UnitId, ending: Ending, min_us: u64) -> Result<Finished, String> {
        let spent = {
            let unit = self.unit(id);
            let wall = unit.clock.elapsed().as_micros() as u64;
            (wall, wall.saturating_add(unit.skipped_us))
        };
        let unit = self.unit(id);
        if unit.policy.names {
            let made: Vec<FilePath> = unit
                .changes
                .iter()
                .filter(|(_, c)| c.was_absent())
                .map(|(p, _)| p.clone())
                .collect();
            let reason = "makes a random name";
            unit.mark_uncacheable(reason, made.is_empty());
            unit.names.extend(made);
        }
        let unit = &self.units[id.0 as usize];
        if let Some(doubt) = unit.uncacheable_reasons.first() {
            return Err(doubt.reason.clone());
        }
        let Some(key) = unit.key else {
            return Err("its key could not be computed".to_owned());
        };
        if unit.units == 1 && spent.0 < min_us && id.0 != 1 {
            return Err(TOO_SHORT.to_owned());
        }
        self.check_limits(id)?;
        expect_only_names(self.unit(id))?;
        let directories = self.directory_times(id);
        let unit = &self.units[id.0 as usize];
        self.check_conflicts(unit)?;
        let mut facts = preconditions(unit)?;
        look_at_what_is_gone(unit, &mut facts);
        let stream = self.stream(unit)?;
        let positions = self.positions(unit)?;
        let flags = self.flags(unit);
        let mut changes: Vec<(FilePath, Change)> = unit
            .changes
            .iter()
            .map(|(path, change)| (path.clone(), change.clone()))
            .collect();
        changes.sort_by(|a, b| (a.1.last, &a.0).cmp(&(b.1.last, &b.0)));
        let left = changes.iter().map(|(path, _)| self.left_at(path)).collect();
        let mut uses = unit.uses;
        if !stream.is_empty() {
            uses.insert(Part::Output);
        }
        if !positions.is_empty() {
            uses.insert(Part::Input);
            uses.insert(Part::Output);
        }
        if unit.policy.streams != Streams::Observed && !flags.is_empty() {
            return Err("changes flags of an inherited descriptor".to_owned());
        }
        let left_out = unit.left_out.facts(uses);
        let left_out = left_out.map(|(query, answer)| (query, Observed::Answer(answer)));
        facts.splice(0..0, left_out);
        Ok(Finished {
            key,
            facts,
            changes,
            left,
            directories,
            linked: unit.linked.clone(),
            stream,
            positions,
            flags,
            ending,
            names: unit.names.clone(),
            spent,
            units: unit.units,
            strict: self.settings.strict,
            config: self.settings.config.clone(),
            moved: unit.moved.clone(),
            verified: self.settings.verify,
            ended: clock::running(),
        })
    }

    /// The bytes written to inherited descriptors, in order.
    fn stream(&self, unit: &Unit) -> Result<Vec<Piece>, String> {
        let mut written: Vec<_> = unit.written.iter().collect();
        if planted(Defect::StreamOrder) {
            written.sort_by_key(|written| (written.file, written.seq));
        } else {
            written.sort_by_key(|written| written.seq);
        }
        let mut stream: Vec<Piece> = Vec::new();
        for written in written {
            let Some(inherited) = unit.inherited.iter().find(|i| i.file == written.file) else {
                return Err("writes to a descriptor that it did not inherit".to_owned());
            };
            let fd = inherited.written_as;
            match stream.last_mut() {
                Some(last) if last.fd == fd && !last.of_place && !written.of_place => {
                    last.bytes.extend_from_slice(&written.bytes);
                }
                _ => stream.push(Piece {
                    fd,
                    bytes: written.bytes.to_vec(),
                    of_place: written.of_place,
                }),
            }
        }
        Ok(stream)
    }

    /// Finds a process that still holds an inherited description, with its descriptor and status
    /// flags, from which the final state of the description is read. If no process holds it, no
    /// process can notice a change.
    fn holder(&self, unit: &Unit, inherited: &Inherited) -> Option<(Tid, i32, i32)> {
        let traced = self.model.tasks().find_map(|task| {
            let found = self
                .model
                .descriptors(task)
                .find(|(_, file, _)| file.id == inherited.file);
            found.map(|(fd, file, _)| {
                (
                    task,
                    fd,
                    status_flags(file.append.get(), file.nonblocking.get()),
                )
            })
        });
        traced.or_else(|| {
            // The front process, and probably its parent, hold what the command itself inherited.
            let first = unit.parent == Some(OUTSIDE);
            let flags = first
                .then(|| open_flags(self.front, inherited.fd))
                .flatten()?;
            let append = flags & libc::O_APPEND != 0;
            let nonblocking = flags & libc::O_NONBLOCK != 0;
            Some((self.front, inherited.fd, status_flags(append, nonblocking)))
        })
    }

    /// Returns how far inherited regular files were read. Checks that the positions of written
    /// files moved by the number of bytes written.
    fn positions(&self, unit: &Unit) -> Result<Vec<(i32, u64)>, String> {
        let mut positions = Vec::new();
        for inherited in &unit.inherited {
            let Some(start) = inherited.position else {
                continue;
            };
            let read = unit.consumed.contains(&inherited.file);
            let wrote = unit
                .written
                .iter()
                .any(|written| written.file == inherited.file);
            let sought = unit.sought.contains(&inherited.file);
            if sought && start != 0 {
                return Err("asks for the offset of an inherited file".to_owned());
            }
            if !read && !wrote && !sought {
                continue;
            }
            let Some((holder, fd, flags)) = self.holder(unit, inherited) else {
                continue;
            };
            let append = flags & libc::O_APPEND != 0;
            let Some(end) = position(holder, fd) else {
                continue;
            };
            if read {
                if wrote {
                    return Err("reads and writes the same inherited file".to_owned());
                }
                let moved = end.checked_sub(start);
                positions.push((inherited.fd, moved.ok_or("seeks backwards in its input")?));
            } else if !append {
                let bytes: usize = unit
                    .written
                    .iter()
                    .filter(|written| written.file == inherited.file)
                    .map(|written| written.bytes.len())
                    .sum();
                if end != start + bytes as u64 {
                    return Err("changes the offset of an inherited file".to_owned());
                }
            }
        }
        Ok(positions)
    }

    /// Returns changed status flags of inherited descriptions.
    fn flags(&self, unit: &Unit) -> Vec<(i32, i32)> {
        let mut changed = Vec::new();
        for inherited in &unit.inherited {
            let now = self.holder(unit, inherited).map(|(_, _, flags)| flags);
            if let Some(now) = now.filter(|now| *now != inherited.flags) {
                changed.push((inherited.fd, now));
            }
        }
        changed
    }

    /// Moves the observations, changes and bytes of this unit to its parent.
    fn give_to_parent(&mut self, id: UnitId) {
        let Some(parent) = self.unit(id).parent else {
            return;
        };
        let mut child = std::mem::replace(&mut self.units[id.0 as usize], placeholder(id, parent));
        let above = &mut self.units[parent.0 as usize];
        above.absorb(&mut child);
        above.names.extend(child.names.iter().cloned());
        above.ran_bash |= child.ran_bash;
        for written in &child.written {
            if self.descriptions.owner(written.file) != Some(parent) {
                above.written_bytes += written.bytes.len() as u64;
                above.written.push(written.clone());
            }
        }
        for (mine, theirs) in [
            (&mut above.consumed, &child.consumed),
            (&mut above.sought, &child.sought),
        ] {
            for file in theirs {
                if self.descriptions.owner(*file) != Some(parent) && !mine.contains(file) {
                    mine.push(*file);
                }
            }
        }
        child.observations = FxHashMap::default();
        child.changes = FxHashMap::default();
        child.written = Vec::new();
        self.units[id.0 as usize] = child;
    }
}

/// Adds a fact for each file that was written without a lookup and is gone at the end. Whether it
/// existed before counts: removing an existing file changes the time of its directory, and so does
/// making it first, but doing nothing does not. Another name of it would have the new content.
fn look_at_what_is_gone(unit: &Unit, facts: &mut Vec<(Query, Observed)>) {
    let mut looked = FxHashMap::default();
    let mut written = Vec::new();
    for (query, observed) in facts.iter_mut() {
        if let Query::Target(path) | Query::Replaced(path) = &*query
            && let Some(change) = unit.changes.get(path)
            && rustix::fs::lstat(path.as_path()).is_err()
        {
            let initial = change.initial.as_deref();
            if initial.is_some() && matches!(query, Query::Target(_)) {
                written.push((query.clone(), observed.clone()));
            }
            let answer = initial.map_or(Answer::Error(libc::ENOENT), World::kind_of);
            let path = path.clone();
            *observed = Observed::Answer(answer);
            *query = Query::Kind {
                path,
                follow: false,
            };
            looked.insert(query.clone(), 0);
        }
    }
    // An earlier lookup may have asked it.
    facts.retain(|(query, _)| {
        looked.get_mut(query).is_none_or(|times| {
            *times += 1;
            *times == 1
        })
    });
    facts.append(&mut written);
}

/// Notes that each file of which the unit changed the metadata, before it replaced or removed the
/// name, had only that name: another one would keep the change.
fn expect_only_names(unit: &mut Unit) -> Result<(), String> {
    let left = unit
        .changes
        .iter()
        .filter(|(_, change)| change.left_changed());
    let left: Vec<_> = left
        .filter_map(|(path, change)| Some((path.clone(), *change.initial.clone()?, change.begun)))
        .filter(|(_, initial, _)| !is_directory(initial))
        .collect();
    for (path, initial, seq) in left {
        let is_moved = |change: &Change| change.moved_from.as_ref() == Some(&path);
        if !is_regular(&initial) || initial.st_nlink > 1 || unit.changes.values().any(is_moved) {
            let path = path.display();
            return Err(format!(
                "changes {path} and moves or removes it: another name of the file would keep the change"
            ));
        }
        let answer = World::target_of(&initial, may_write(&initial));
        let observed = Observed::Answer(answer);
        unit.observe(seq, Query::Target(path.clone()), observed, path);
    }
    Ok(())
}

/// Whether the permission bits let this process write to a file. Access lists do not count: the
/// answer is a fact that may not hold again then.
fn may_write(stat: &Stat) -> bool {
    let user = rustix::process::geteuid();
    let is_owner = stat.st_uid == user.as_raw();
    user.is_root() || stat.st_mode & if is_owner { 0o200 } else { 0o002 } != 0
}

/// Returns an empty unit that takes the slot of a unit while that is moved.
fn placeholder(id: UnitId, parent: UnitId) -> Unit {
    Unit::new(id, Some(parent), 0, 0)
}

/// A unit whose contents are in the store, but whose result is not yet.
#[derive(Debug)]
pub struct Captured {
    /// Its effects and its stream.
    outcome: Outcome,
    /// The facts that it depends on.
    batches: Vec<Vec<Fact>>,
    /// Whether a fact about these is assumed to be constant.
    assumes: bool,
    /// Files that the unit read and that no traced process changed. Changes by untraced processes
    /// are searched later, for many units at once.
    pub read: Vec<(FilePath, Arc<PendingDigest>)>,
}

/// Checks that the world still gives the observed answers, apart from changes by the tree itself,
/// and captures the effects of the tree. Runs on a worker thread. `secured` is called as soon as
/// the contents are stored safely.
///
/// # Errors
/// Returns the reason why the unit cannot be stored.
pub fn captured(
    store: &Store,
    world: &World,
    finished: &Finished,
    secured: impl FnOnce(),
) -> Result<Captured, String> {
    let captured = capture(store, world, finished);
    let result = captured.and_then(|captured| {
        let stream = stream_chunks(store, &finished.stream)?;
        Ok((captured, stream))
    });
    secured();
    let ((effects, ages), stream) = result?;
    check_names(store, finished, &effects)?;
    let mut batches: Vec<Vec<Fact>> = Vec::new();
    let mut batch = Vec::new();
    let mut size = 32;
    let changed = finished.changed();
    let mut assumes = false;
    let mut read = Vec::new();
    for (query, observed) in &finished.facts {
        if !finished.strict && finished.config.is_constant(query) {
            assumes = true;
            continue;
        }
        let answer = answer(query, observed);
        if let Answer::Unknown(reason) = answer {
            return Err(reason);
        }
        if let (Query::Content(path), Observed::Content(content)) = (query, observed) {
            match content.is_assumed_unchanged() && !changed.contains(path) {
                true => read.push((path.clone(), content.clone())),
                false => unchanged(path, content, finished.ended, &changed)?,
            }
        }
        batch.push(Fact {
            query: query.clone(),
            answer,
        });
        if batch.len() == size {
            batches.push(std::mem::take(&mut batch));
            size *= 2;
        }
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    let outcome = Outcome {
        ending: finished.ending,
        stream,
        positions: finished.positions.clone(),
        flags: finished.flags.clone(),
        effects,
        ages,
        facts: Vec::new(),
        conditions: None,
        cpu_us: finished.spent.0,
        wall_us: finished.spent.1,
        units: finished.units,
    };
    Ok(Captured {
        outcome,
        batches,
        assumes,
        read,
    })
}

/// Stores the result of a unit locally and in `remote`. With base directories, this waits for
/// earlier commits.
///
/// # Errors
/// Returns the reason why the result was not stored.
pub fn record(
    store: &Store,
    finished: &Finished,
    captured: Captured,
    remote: Option<&Remote>,
    relocation: Option<&(CommitTicket, Arc<Relocation>)>,
) -> Result<Recorded, String> {
    let Captured {
        outcome,
        batches,
        assumes,
        read,
    } = captured;
    if !read.is_empty() {
        let changed = finished.changed();
        for (path, content) in &read {
            unchanged(path, content, finished.ended, &changed)?;
        }
    }
    let differences = finished
        .verified
        .then(|| verify::differences(store, &finished.key, &batches, &outcome))
        .flatten();
    let remote = remote.filter(|remote| remote.writes());
    let copy = remote.map(|remote| (remote, batches.clone()));
    let moved = relocation.map(|(turn, relocation)| match assumes {
        true => Err("it assumes that inputs stay constant".to_owned()),
        false => relocation.record(store, &finished.moved, &batches, &outcome, turn),
    });
    let serial = store
        .record(&finished.key, batches, &outcome)
        .map_err(|error| error.to_string())?;
    if let Some((remote, batches)) = copy {
        match (&moved, &finished.moved.key) {
            (Some(Ok(named)), Some(key)) => remote.publish(key, &named.facts, &named.outcome),
            _ => remote.publish(&finished.key, &batches, &outcome),
        }
    }
    let bound = moved.and_then(Result::err);
    Ok(Recorded {
        serial,
        bound,
        differences,
    })
}

/// Checks that random names are gone and do not occur in files that the tree made.
fn check_names(store: &Store, finished: &Finished, effects: &[Effect]) -> Result<(), String> {
    for path in &finished.names {
        if rustix::fs::lstat(path.as_path()).is_ok() {
            return Err(format!(
                "leaves {}, which has a random name",
                path.display()
            ));
        }
        let Some(name) = path.file_name() else {
            continue;
        };
        let finder = memchr::memmem::Finder::new(name.as_bytes());
        let in_stream = finished
            .stream
            .iter()
            .any(|piece| finder.find(&piece.bytes).is_some());
        let in_files = effects.iter().any(|effect| match effect {
            Effect::Write { content, .. } | Effect::Append { data: content, .. } => {
                // A file that cannot be read might contain the name.
                store
                    .get_bytes(content)
                    .map_or(true, |bytes| finder.find(&bytes).is_some())
            }
            Effect::Symlink { target, .. } => finder.find(target.as_bytes()).is_some(),
            _ => false,
        });
        if in_stream || in_files {
            return Err(format!("shows the random name {}", path.display()));
        }
    }
    Ok(())
}

/// Checks that no untraced process changed a file after it was examined. `ended` is the time at
/// which the program read it at the latest.
fn unchanged(
    path: &FilePath,
    content: &PendingDigest,
    ended: u64,
    changed: &HashSet<&FilePath>,
) -> Result<(), String> {
    if !content.is_invalidated() {
        if changed.contains(path)
            || content.was_unchanged_since(path, ended)
            || is_own(path, changed)
        {
            return Ok(());
        }
        if content.is_assumed_unchanged() {
            // Other units may rely on the same cached content.
            content.invalidate();
        }
    }
    let path = path.display();
    Err(format!(
        "{path} was changed by a process outside of pcache meanwhile"
    ))
}

/// Whether a path is another name of something that the unit changed itself. A missing file has no
/// canonical name, but the remaining part of its directory path has.
fn is_own(path: &FilePath, changed: &HashSet<&FilePath>) -> bool {
    let found = path
        .ancestors()
        .find_map(|above| Some((above, above.canonicalize().ok()?)));
    let Some((above, canonical)) = found else {
        return false;
    };
    let Ok(rest) = path.strip_prefix(above) else {
        return false;
    };
    // The file was removed together with its directories.
    let mut at = canonical;
    if rest.as_os_str().is_empty() {
        return changed.contains(&FilePath::from(at.as_path()));
    }
    rest.components().any(|part| {
        at.push(part);
        changed.contains(&FilePath::from(at.as_path()))
    })
}

fn stream_chunks(store: &Store, stream: &[Piece]) -> Result<Vec<StreamChunk>, String> {
    stream
        .iter()
        .map(
            |Piece {
                 fd,
                 bytes,
                 of_place,
             }| {
                let data = if *of_place {
                    StreamData::Place(bytes.clone())
                } else if bytes.len() <= INLINE {
                    StreamData::Inline(bytes.to_vec())
                } else {
                    let digest = store.put_bytes(bytes).map_err(|error| error.to_string())?;
                    StreamData::Stored(digest, bytes.len() as u64)
                };
                Ok(StreamChunk { fd: *fd, data })
            },
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_file_is_an_own_removal_only_if_the_unit_changed_that_name() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        let path = |name: &str| FilePath::from(root.join(name).as_path());
        let own = |asked: &str, changed: &[&str]| {
            let changed: Vec<FilePath> = changed.iter().map(|name| path(name)).collect();
            is_own(&path(asked), &changed.iter().collect())
        };
        assert!(own("link/x", &["real/x"]));
        assert!(own("gone/sub/x", &["gone"]));
        assert!(!own("real/x", &[]));
        // A change of the directory does not imply a change of the file.
        assert!(!own("real/x", &["real"]));
        assert!(!own("real/x", &["real/y"]));
    }
}
