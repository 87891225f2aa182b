//! The end of a unit: preconditions, postconditions, and their storing.
//!
//! [`preconditions`] runs over each resource's events once and keeps the
//! observations that nothing in the tree had made; [`capture`] runs over them
//! again and reads off the world what the tree made of each name.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use ptrace_async::event::Tid;
use rustc_hash::FxHashMap;
use rustix::fs::{FileType, Stat};

use crate::defect::{Defect, planted};
use crate::fact::{Answer, Fact, Query, TimeUse};
use crate::hit::effect_path;
use crate::key::status_flags;
use crate::locate::{is_directory, is_link};
use crate::outcome::{Effect, Ending, Outcome, StreamChunk, StreamData, Time};
use crate::path::FilePath;
use crate::recorder::{open_flags, position};
use crate::session::Session;
use crate::store::{FileKey, Store, WeakKey};
use crate::tracer::OUTSIDE;
use crate::unit::{
    Change, Chunks, Inherited, Listing, Observation, Observed, TimeState, Unit, UnitId,
};
use crate::world::World;

/// A stream's bytes are kept in the outcome itself up to this length.
const INLINE: usize = 4096;

/// A unit whose process is about to be gone: all that a worker needs to store
/// it.
#[derive(Debug)]
pub struct Finished {
    /// Where it goes.
    pub key: WeakKey,
    /// What it observed that it had not made, in order.
    pub facts: Vec<(Query, Observed)>,
    /// What it changed.
    pub changes: Vec<(FilePath, Change)>,
    /// What it wrote into inherited descriptors.
    pub stream: Chunks,
    /// Positions of inherited files it read from.
    pub positions: Vec<(i32, u64)>,
    /// Status flags of inherited descriptions that changed.
    pub flags: Vec<(i32, i32)>,
    /// How it ended.
    pub ending: Ending,
    /// Random names made in the tree.
    pub names: Vec<FilePath>,
    /// CPU and wall time in µs.
    pub spent: (u64, u64),
    /// Units in the tree.
    pub units: u32,
}

/// The changes of a tree, by directory, as far as a listing needs them.
#[derive(Default)]
struct Shape<'c> {
    by_directory: FxHashMap<&'c [u8], Vec<(&'c [u8], &'c Change)>>,
}

impl<'c> Shape<'c> {
    fn of(changes: &'c FxHashMap<FilePath, Change>) -> Self {
        let mut by_directory: FxHashMap<_, Vec<_>> = FxHashMap::default();
        for (path, change) in changes {
            if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
                by_directory
                    .entry(parent.as_os_str().as_bytes())
                    .or_default()
                    .push((name.as_bytes(), change));
            }
        }
        Self { by_directory }
    }

    /// What a directory listed at `seq` looked like before the tree began.
    fn without(&self, directory: &FilePath, names: &Listing, seq: u64) -> Listing {
        let mut names = names.clone();
        let changes = self.by_directory.get(directory.as_bytes());
        for (name, change) in changes.into_iter().flatten() {
            if change.content.is_some_and(|at| at < seq) {
                match change.initial.as_deref() {
                    None => {
                        names.remove(*name);
                    }
                    Some(stat) => {
                        names.insert(name.to_vec(), directory_type(stat));
                    }
                }
            }
        }
        names
    }
}

fn directory_type(stat: &Stat) -> u8 {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => libc::DT_DIR,
        FileType::Symlink => libc::DT_LNK,
        FileType::RegularFile => libc::DT_REG,
        FileType::Fifo => libc::DT_FIFO,
        FileType::Socket => libc::DT_SOCK,
        FileType::CharacterDevice => libc::DT_CHR,
        FileType::BlockDevice => libc::DT_BLK,
        FileType::Unknown => libc::DT_UNKNOWN,
    }
}

/// What must have been true before the tree for its observations to come out
/// as they did.
///
/// # Errors
/// Why that cannot be said.
pub fn preconditions(unit: &Unit) -> Result<Vec<(Query, Observed)>, String> {
    let shape = if unit
        .observations
        .keys()
        .any(|query| matches!(query, Query::List(_)))
    {
        Shape::of(&unit.changes)
    } else {
        Shape::default()
    };
    let mut facts: Vec<(u64, Query, Observed)> = Vec::with_capacity(unit.observations.len());
    for (query, observation) in &unit.observations {
        if dropped(query, &observation.observed) {
            continue;
        }
        match precondition(unit, &shape, query, observation)? {
            Precondition::Holds(observed) => {
                facts.push((observation.seq, query.clone(), observed));
            }
            Precondition::Made(promoted) => {
                facts.extend(
                    promoted
                        .into_iter()
                        .map(|(query, o)| (observation.seq, query, o)),
                );
            }
        }
    }
    facts.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    let mut seen = std::collections::HashSet::with_capacity(facts.len());
    facts.retain(|(_, query, _)| seen.insert(query.clone()));
    let mut facts: Vec<(Query, Observed)> = facts
        .into_iter()
        .map(|(_, query, observed)| (query, observed))
        .collect();
    if let Some(order) = order(&facts)? {
        facts.push(order);
    }
    Ok(facts)
}

enum Precondition {
    /// The observation itself.
    Holds(Observed),
    /// The tree made what it saw; these facts about the state before may
    /// matter to that.
    Made(Vec<(Query, Observed)>),
}

fn precondition(
    unit: &Unit,
    shape: &Shape<'_>,
    query: &Query,
    observation: &Observation,
) -> Result<Precondition, String> {
    let resource = &observation.resource;
    let change = unit.changes.get(resource);
    let made = |seq: u64| change.is_some_and(|c| c.content.is_some_and(|at| at < seq));
    if let Some(change) = change.filter(|_| made(observation.seq)) {
        if let (Query::Stat { time, .. }, Observed::Metadata { .. }) =
            (query, &observation.observed)
            && *time >= TimeUse::Modified
            && change.time == TimeState::Present
            && !observation.carried
        {
            return Err(format!(
                "looks at the time of {}, which it made",
                resource.display()
            ));
        }
        if matches!(query, Query::Inode { .. }) {
            return Err(format!(
                "shows the inode number of {}, which it made",
                resource.display()
            ));
        }
        let mut promoted = Vec::new();
        let removed = matches!(observation.observed, Observed::Answer(Answer::Error(_)));
        if let (Some(initial), false) = (change.initial.as_deref(), removed) {
            if let Some(content) = &change.initial_content {
                let content = Observed::Content(content.clone());
                promoted.push((Query::Content(resource.clone()), content));
            }
            if !change.fresh && !matches!(query, Query::Content(_)) {
                let answer = Observed::Answer(World::permissions_of(initial));
                promoted.push((Query::Permissions(resource.clone()), answer));
            }
        }
        // Made without looking whether something stood there: what was seen of
        // it afterwards would have been different then.
        let soft = change.was_absent() && !change.fresh && !removed;
        if soft && (change.appended_from.is_some() || !matches!(query, Query::Content(_))) {
            let absent = Observed::Answer(Answer::Error(libc::ENOENT));
            promoted.push((
                Query::Kind {
                    path: resource.clone(),
                    follow: false,
                },
                absent,
            ));
        }
        return Ok(Precondition::Made(promoted));
    }
    // In a directory that the tree made nothing stood before.
    if matches!(query, Query::Target(_)) {
        let made_above = resource.parent().is_some_and(|parent| {
            let above = unit.changes.get(&FilePath::from(parent));
            above
                .is_some_and(|c| c.was_absent() && c.content.is_some_and(|at| at < observation.seq))
        });
        if made_above {
            return Ok(Precondition::Made(Vec::new()));
        }
    }
    let before = |seq: u64, observed: &Observed| match (query, observed) {
        (Query::List(_), Observed::Listing(names)) => {
            Observed::Listing(Arc::new(shape.without(resource, names, seq)))
        }
        (Query::Stat { .. }, Observed::Metadata { content, .. }) => {
            let touched = change.filter(|c| c.meta.is_some_and(|at| at < seq));
            match touched.and_then(|c| c.initial.clone()) {
                Some(stat) => Observed::Metadata {
                    stat,
                    content: content.clone(),
                },
                None => observed.clone(),
            }
        }
        _ => observed.clone(),
    };
    let first = before(observation.seq, &observation.observed);
    if let Some((seq, later)) = &observation.later {
        let explained = made(*seq)
            || change.is_some_and(|c| c.meta.is_some_and(|at| at < *seq))
            // Entries come and go in a directory; its own times follow.
            || matches!(
                later,
                Observed::Metadata { stat, .. } if is_directory(stat)
            );
        if !explained && first.differs(&before(*seq, later)) {
            return Err(format!("{} changed while it ran", resource.display()));
        }
    }
    Ok(Precondition::Holds(first))
}

/// The ranking of all times that were only compared.
fn order(facts: &[(Query, Observed)]) -> Result<Option<(Query, Observed)>, String> {
    let mut times: Vec<(FilePath, i128)> = facts
        .iter()
        .filter_map(|(query, observed)| match (query, observed) {
            (
                Query::Stat {
                    path,
                    time: TimeUse::Order,
                    ..
                },
                Observed::Metadata { stat, .. },
            ) if !is_link(stat) => Some((path.clone(), modified(stat))),
            _ => None,
        })
        .collect();
    if times.is_empty() || planted(Defect::OrderFact) {
        return Ok(None);
    }
    times.sort();
    times.dedup_by(|a, b| a.0 == b.0);
    let ranks: Vec<Result<i128, i32>> = times.iter().map(|(_, time)| Ok(*time)).collect();
    let answer = World::order_answer(&ranks);
    if let Answer::Unknown(reason) = answer {
        return Err(reason);
    }
    let paths = times.into_iter().map(|(path, _)| path).collect();
    Ok(Some((Query::Order(paths), Observed::Answer(answer))))
}

fn modified(stat: &Stat) -> i128 {
    i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec)
}

/// Facts that a planted defect forgets.
fn dropped(query: &Query, observed: &Observed) -> bool {
    let absent = matches!(observed, Observed::Answer(Answer::Error(_)));
    match query {
        _ if absent && planted(Defect::AbsenceFact) => true,
        Query::Content(_) => planted(Defect::ContentFact) && !absent,
        Query::Stat { .. } => planted(Defect::StatFact) && !absent,
        Query::List(_) => planted(Defect::ListFact),
        Query::Link(_) => planted(Defect::LinkFact),
        Query::Access { .. } => planted(Defect::AccessFact),
        _ => false,
    }
}

/// Completes an answer.
fn answer(query: &Query, observed: &Observed) -> Answer {
    match observed {
        Observed::Answer(answer) => answer.clone(),
        Observed::Content(content) => content.answer(),
        Observed::Listing(names) => World::listing_answer(names),
        Observed::Metadata { stat, content } => {
            let time = match query {
                Query::Stat { time, .. } => *time,
                _ => TimeUse::Exact,
            };
            let mut metadata = World::metadata(stat, time);
            if let Some(content) = content {
                match content.answer() {
                    Answer::File(digest) => metadata.content = Some(digest),
                    // It can be looked at without being readable.
                    _ if stat.st_mode & 0o444 != 0o444 => {}
                    other => return other,
                }
            }
            Answer::Metadata(metadata)
        }
    }
}

impl Session {
    /// Ends a unit: its parent takes it in, and what is needed to store it is
    /// returned.
    ///
    /// # Errors
    /// Why it cannot be stored.
    pub fn conclude(&mut self, id: UnitId, status: i32) -> Result<Finished, String> {
        let ending = if status & 0x7f == 0 {
            Ending::Exited(if planted(Defect::ExitStatus) {
                0
            } else {
                (status >> 8) & 0xff
            })
        } else {
            Ending::Killed(status & 0x7f)
        };
        let unit = self.unit(id);
        unit.ended = true;
        if unit.alive > 1 {
            unit.doubt("leaves processes behind", false);
        }
        let result = self.conclusion(id, ending);
        if let Err(reason) = &result {
            self.unit(id).doubt(reason.clone(), false);
        }
        self.give_to_parent(id);
        result
    }

    fn conclusion(&mut self, id: UnitId, ending: Ending) -> Result<Finished, String> {
        let spent = {
            let unit = self.unit(id);
            let wall = unit.clock.elapsed().as_micros() as u64;
            (wall, wall)
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
            unit.doubt(reason, made.is_empty());
            unit.names.extend(made);
        }
        let unit = &self.units[id.0 as usize];
        if let Some(doubt) = unit.doubts.first() {
            return Err(doubt.reason.clone());
        }
        let Some(key) = unit.key else {
            return Err("has no key".to_owned());
        };
        self.check_conflicts(unit)?;
        let facts = preconditions(unit)?;
        let stream = self.stream(unit)?;
        let positions = self.positions(unit)?;
        let flags = self.flags(unit);
        let mut changes: Vec<(FilePath, Change)> = unit
            .changes
            .iter()
            .map(|(path, change)| (path.clone(), change.clone()))
            .collect();
        changes.sort_by(|a, b| (a.1.last, &a.0).cmp(&(b.1.last, &b.0)));
        Ok(Finished {
            key,
            facts,
            changes,
            stream,
            positions,
            flags,
            ending,
            names: unit.names.clone(),
            spent,
            units: unit.units,
        })
    }

    /// Whether somebody outside the unit changed what it saw or made, while it
    /// ran.
    fn check_conflicts(&self, unit: &Unit) -> Result<(), String> {
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

    /// What went into inherited descriptors, in order.
    fn stream(&self, unit: &Unit) -> Result<Chunks, String> {
        let mut written: Vec<_> = unit.written.iter().collect();
        if planted(Defect::StreamOrder) {
            written.sort_by_key(|written| (written.file, written.seq));
        } else {
            written.sort_by_key(|written| written.seq);
        }
        let mut stream: Vec<(i32, Vec<u8>)> = Vec::new();
        for written in written {
            let Some(inherited) = unit.inherited.iter().find(|i| i.file == written.file) else {
                return Err("writes to a descriptor that it did not inherit".to_owned());
            };
            match stream.last_mut() {
                Some((fd, bytes)) if *fd == inherited.fd => bytes.extend_from_slice(&written.bytes),
                _ => stream.push((inherited.fd, written.bytes.to_vec())),
            }
        }
        Ok(stream
            .into_iter()
            .map(|(fd, bytes)| (fd, bytes.into()))
            .collect())
    }

    /// A process that still holds an inherited description, with its descriptor
    /// and the status flags: it can tell what became of the description. If
    /// nobody holds it, nobody can notice.
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
            // What the command itself inherited, its front holds, and probably
            // whoever started that.
            let first = unit.parent == Some(OUTSIDE);
            let flags = first
                .then(|| open_flags(self.front, inherited.fd))
                .flatten()?;
            let append = flags & libc::O_APPEND != 0;
            let nonblocking = flags & libc::O_NONBLOCK != 0;
            Some((self.front, inherited.fd, status_flags(append, nonblocking)))
        })
    }

    /// How far inherited regular files were read; and a check that positions
    /// of files that were written moved by what was written.
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
                return Err("asks for its position in an inherited file".to_owned());
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
                    return Err("reads and writes one inherited file".to_owned());
                }
                let moved = end.checked_sub(start);
                positions.push((inherited.fd, moved.ok_or("moves backwards in its input")?));
            } else if !append {
                let bytes: usize = unit
                    .written
                    .iter()
                    .filter(|written| written.file == inherited.file)
                    .map(|written| written.bytes.len())
                    .sum();
                if end != start + bytes as u64 {
                    return Err("moves the position of an inherited file".to_owned());
                }
            }
        }
        Ok(positions)
    }

    /// Status flags that the unit leaves changed in what it inherited.
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

    /// The unit above takes in what this one saw, did and wrote.
    fn give_to_parent(&mut self, id: UnitId) {
        let Some(parent) = self.unit(id).parent else {
            return;
        };
        let child = std::mem::replace(&mut self.units[id.0 as usize], placeholder(id, parent));
        let above = &mut self.units[parent.0 as usize];
        above.absorb(&child);
        above.names.extend(child.names.iter().cloned());
        for written in &child.written {
            if self.owners.get(&written.file) != Some(&parent) {
                above.written_bytes += written.bytes.len() as u64;
                above.written.push(written.clone());
            }
        }
        for (mine, theirs) in [
            (&mut above.consumed, &child.consumed),
            (&mut above.sought, &child.sought),
        ] {
            for file in theirs {
                if self.owners.get(file) != Some(&parent) && !mine.contains(file) {
                    mine.push(*file);
                }
            }
        }
        let mut child = child;
        child.observations = FxHashMap::default();
        child.changes = FxHashMap::default();
        child.written = Vec::new();
        self.units[id.0 as usize] = child;
    }
}

/// Stands in a unit's place while it is moved.
fn placeholder(id: UnitId, parent: UnitId) -> Unit {
    Unit::new(id, Some(parent), 0, 0)
}

/// Establishes whether the world still says what was observed (apart from what
/// the tree itself changed), captures what the tree made, and stores the unit.
/// Runs on a worker. `secured` is called as soon as the contents are safe.
///
/// # Errors
/// Why it was not stored.
pub fn store(
    store: &Store,
    world: &World,
    finished: &Finished,
    secured: impl FnOnce(),
) -> Result<(), String> {
    let result = capture(store, world, &finished.changes).and_then(|effects| {
        let stream = stream_chunks(store, &finished.stream)?;
        Ok((effects, stream))
    });
    secured();
    let (effects, stream) = result?;
    check_names(store, finished, &effects)?;
    let mut batches: Vec<Vec<Fact>> = Vec::new();
    let mut batch = Vec::new();
    let mut size = 32;
    let changed: std::collections::HashSet<&FilePath> =
        finished.changes.iter().map(|(path, _)| path).collect();
    for (query, observed) in &finished.facts {
        let answer = answer(query, observed);
        if let Answer::Unknown(reason) = answer {
            return Err(reason);
        }
        unchanged(query, observed, &changed)?;
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
        facts: Vec::new(),
        cpu_us: finished.spent.0,
        wall_us: finished.spent.1,
        units: finished.units,
    };
    store
        .record(&finished.key, batches, &outcome)
        .map_err(|error| error.to_string())
}

/// A random name must be gone, and must not be left in what the tree made.
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
            .any(|(_, bytes)| finder.find(bytes).is_some());
        let in_files = effects.iter().any(|effect| match effect {
            Effect::Write { content, .. } | Effect::Append { data: content, .. } => {
                // What cannot be looked at might hold it.
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

/// A file that somebody outside changed after it was looked at says nothing
/// reliable about what the program read.
fn unchanged(
    query: &Query,
    observed: &Observed,
    changed: &std::collections::HashSet<&FilePath>,
) -> Result<(), String> {
    let (Query::Content(path), Observed::Content(content)) = (query, observed) else {
        return Ok(());
    };
    if changed.contains(path) {
        return Ok(());
    }
    let Ok(canonical) = std::fs::canonicalize(path) else {
        return Ok(());
    };
    if changed.contains(&FilePath::from(canonical)) {
        return Ok(());
    }
    match rustix::fs::stat(path.as_path()) {
        Ok(stat) if FileKey::of(&stat).as_ref() == content.key() => Ok(()),
        _ => Err(format!(
            "{} was changed by somebody else meanwhile",
            path.display()
        )),
    }
}

fn stream_chunks(store: &Store, stream: &[(i32, Arc<[u8]>)]) -> Result<Vec<StreamChunk>, String> {
    stream
        .iter()
        .map(|(fd, bytes)| {
            let data = if bytes.len() <= INLINE {
                StreamData::Inline(bytes.to_vec())
            } else {
                let digest = store.put_bytes(bytes).map_err(|error| error.to_string())?;
                StreamData::Stored(digest, bytes.len() as u64)
            };
            Ok(StreamChunk { fd: *fd, data })
        })
        .collect()
}

/// Reads off the world what became of each changed name.
fn capture(
    store: &Store,
    world: &World,
    changes: &[(FilePath, Change)],
) -> Result<Vec<Effect>, String> {
    let mut effects: Vec<(u64, Effect)> = Vec::new();
    let mut links: Vec<Effect> = Vec::new();
    let mut passing: Vec<(u64, FilePath)> = Vec::new();
    for (path, change) in changes {
        let now = match rustix::fs::lstat(path.as_path()) {
            Ok(stat) => Some(stat),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => None,
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let Some(stat) = now else {
            match change.initial.as_deref() {
                Some(initial) if is_directory(initial) => {
                    if !planted(Defect::RemoveEffect) {
                        effects.push((change.last, Effect::RemoveDir { path: path.clone() }));
                    }
                }
                Some(_) => {
                    if !planted(Defect::RemoveEffect) {
                        effects.push((change.last, Effect::Remove { path: path.clone() }));
                    }
                }
                None => {
                    // It came and went: that is seen in its directory's time.
                    if let Some(parent) = path.parent() {
                        passing.push((change.last, FilePath::from(parent)));
                    }
                }
            }
            continue;
        };
        let attributes = || {
            let mut buffer = [0_u8; 64];
            !matches!(rustix::fs::llistxattr(path.as_path(), &mut buffer), Ok(0))
        };
        if change.attributes && attributes() {
            return Err(format!("sets extended attributes of {}", path.display()));
        }
        if change.content.is_none() {
            metadata_effects(path, change, &stat, &mut effects);
            continue;
        }
        // Another kind of thing stood there: it goes first.
        if let Some(initial) = change.initial.as_deref()
            && FileType::from_raw_mode(initial.st_mode) != FileType::from_raw_mode(stat.st_mode)
        {
            let first = change.content.unwrap_or(change.last);
            let effect = if is_directory(initial) {
                Effect::RemoveDir { path: path.clone() }
            } else {
                Effect::Remove { path: path.clone() }
            };
            effects.push((first, effect));
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                if let Some(target) = &change.linked_to
                    && let Ok(other) = rustix::fs::lstat(target.as_path())
                    && (other.st_ino, other.st_dev) == (stat.st_ino, stat.st_dev)
                {
                    if let Some(parent) = path.parent() {
                        passing.push((change.last, FilePath::from(parent)));
                    }
                    links.push(Effect::HardLink {
                        path: path.clone(),
                        to: target.clone(),
                    });
                    continue;
                }
                if let Some(effect) = file_effect(store, world, path, change, &stat)? {
                    effects.push((change.last, effect));
                }
            }
            FileType::Symlink => {
                let target =
                    std::fs::read_link(path).map_err(|e| format!("{}: {e}", path.display()))?;
                if !planted(Defect::SymlinkEffect) {
                    let target = FilePath::from(target);
                    effects.push((
                        change.last,
                        Effect::Symlink {
                            path: path.clone(),
                            target,
                        },
                    ));
                }
                if let TimeState::Set(..) = change.time {
                    let (path, time) = (path.clone(), time_of(change));
                    effects.push((change.last, Effect::SetTimes { path, time }));
                }
            }
            FileType::Directory => {
                if !planted(Defect::DirectoryEffect) {
                    // Removed and made again, it is another directory.
                    let again = change
                        .initial
                        .as_deref()
                        .is_some_and(|initial| is_directory(initial) && change.fresh);
                    if again {
                        let first = change.content.unwrap_or(change.last);
                        effects.push((first, Effect::RemoveDir { path: path.clone() }));
                    }
                    let effect = Effect::MakeDir {
                        path: path.clone(),
                        mode: stat.st_mode & 0o7777,
                        time: match change.time {
                            TimeState::Set(a, m) => Time::Set(a, m),
                            _ => Time::Present,
                        },
                    };
                    effects.push((change.content.unwrap_or(change.last), effect));
                }
            }
            _ => return Err(format!("{} is no plain file", path.display())),
        }
    }
    // What certainly changes the directory's time by itself.
    let shaped = |directory: &FilePath| {
        effects.iter().any(|(_, effect)| {
            effect_path(effect).parent() == Some(directory.as_path())
                && matches!(
                    effect,
                    Effect::MakeDir { .. }
                        | Effect::Symlink { .. }
                        | Effect::Remove { .. }
                        | Effect::RemoveDir { .. }
                        | Effect::Write { fresh: true, .. }
                )
        })
    };
    passing.sort_by(|a, b| (&a.1, b.0).cmp(&(&b.1, a.0)));
    passing.dedup_by(|a, b| a.1 == b.1);
    passing.retain(|(_, directory)| {
        !shaped(directory)
            && rustix::fs::lstat(directory.as_path())
                .is_ok_and(|stat| stat.st_uid == rustix::process::geteuid().as_raw())
    });
    for (seq, path) in passing {
        effects.push((
            seq,
            Effect::SetTimes {
                path,
                time: Time::Present,
            },
        ));
    }
    effects.sort_by_key(|(seq, _)| *seq);
    let mut effects: Vec<Effect> = effects.into_iter().map(|(_, effect)| effect).collect();
    effects.append(&mut links);
    Ok(effects)
}

fn time_of(change: &Change) -> Time {
    if planted(Defect::TimeEffect) {
        return Time::Present;
    }
    match change.time {
        TimeState::Kept => Time::Kept,
        TimeState::Present => Time::Present,
        TimeState::Set(accessed, modified) => Time::Set(accessed, modified),
    }
}

/// Effects of a change that left the content alone.
fn metadata_effects(
    path: &FilePath,
    change: &Change,
    stat: &Stat,
    effects: &mut Vec<(u64, Effect)>,
) {
    if change.mode_set && !is_link(stat) && !planted(Defect::ModeEffect) {
        let mode = stat.st_mode & 0o7777;
        effects.push((
            change.last,
            Effect::Chmod {
                path: path.clone(),
                mode,
            },
        ));
    }
    if change.time != TimeState::Kept {
        let time = time_of(change);
        effects.push((
            change.last,
            Effect::SetTimes {
                path: path.clone(),
                time,
            },
        ));
    }
}

/// The effect of a change of a regular file's content.
fn file_effect(
    store: &Store,
    world: &World,
    path: &FilePath,
    change: &Change,
    stat: &Stat,
) -> Result<Option<Effect>, String> {
    let shown = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let length = stat.st_size as u64;
    let permissions = stat.st_mode & 0o7777;
    let create_mode = if change.was_absent() || change.mode_set {
        permissions
    } else {
        change.create_mode.unwrap_or(permissions)
    };
    let initial = change.initial.as_deref();
    let opened_only = !change.fresh
        && initial.is_some_and(|initial| {
            initial.st_size == stat.st_size
                && initial.st_ino == stat.st_ino
                && modified(initial) == modified(stat)
        });
    if opened_only && change.time == TimeState::Present && !change.mode_set {
        return Ok(None);
    }
    if planted(Defect::WriteEffect) && !change.fresh && initial.is_some() {
        return Ok(None);
    }
    let file = std::fs::File::open(path).map_err(|error| shown(&error))?;
    if let Some(from) = change.appended_from.filter(|from| *from <= length)
        && !planted(Defect::AppendEffect)
    {
        let data = store
            .put_range(&file, from, length - from)
            .map_err(|error| shown(&error))?;
        let (length, time) = (length - from, time_of(change));
        let path = path.clone();
        return Ok(Some(Effect::Append {
            path,
            data,
            length,
            create_mode,
            time,
        }));
    }
    let content = store
        .put_file(&file, length)
        .map_err(|error| shown(&error))?;
    world.table().resume(stat.st_dev, stat.st_ino);
    world.learn(path, content);
    let mode = (change.fresh || change.mode_set).then_some(permissions);
    Ok(Some(Effect::Write {
        path: path.clone(),
        content,
        length,
        mode: if planted(Defect::ModeEffect) {
            None
        } else {
            mode
        },
        create_mode: if planted(Defect::ModeEffect) {
            0o644
        } else {
            create_mode
        },
        fresh: change.fresh,
        time: time_of(change),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Contents;

    fn regular(path: &str) -> Box<Stat> {
        let mut stat = rustix::fs::stat("/").expect("the root exists");
        stat.st_mode = libc::S_IFREG | 0o644;
        stat.st_ino = path.len() as u64;
        Box::new(stat)
    }

    fn unit() -> Unit {
        Unit::new(UnitId(0), None, 0, 0)
    }

    fn queries(unit: &Unit) -> Vec<Query> {
        preconditions(unit)
            .expect("preconditions")
            .into_iter()
            .map(|(query, _)| query)
            .collect()
    }

    #[test]
    fn what_was_read_before_it_was_written_is_a_precondition() {
        let mut unit = unit();
        let path = FilePath::from("/w/x");
        let absent = || Observed::Answer(Answer::Error(libc::ENOENT));
        unit.observe(1, Query::Content(path.clone()), absent(), path.clone());
        unit.change(2, &path, None).content = Some(2);
        assert_eq!(queries(&unit), [Query::Content(path)]);
    }

    #[test]
    fn what_was_written_before_it_was_read_is_none() {
        let mut unit = unit();
        let path = FilePath::from("/w/x");
        unit.change(1, &path, None).content = Some(1);
        let seen = Observed::Answer(Answer::Directory);
        unit.observe(2, Query::Content(path.clone()), seen, path);
        assert_eq!(queries(&unit), []);
    }

    #[test]
    fn reading_after_an_append_needs_the_content_before() {
        let mut unit = unit();
        let path = FilePath::from("/w/log");
        let table = crate::store::DigestTable::in_memory();
        let world = World::new(table);
        let stat = regular("/w/log");
        let (content, _) = Contents::default().get(&world, &path, &stat);
        content.compute(&world);
        let change = unit.change(1, &path, Some(stat));
        change.content = Some(1);
        change.appended_from = Some(10);
        change.initial_content = Some(content);
        let seen = Observed::Answer(Answer::Directory);
        unit.observe(2, Query::Content(path.clone()), seen, path.clone());
        assert_eq!(queries(&unit), [Query::Content(path)]);
    }

    #[test]
    fn a_listing_is_taken_back_to_before_the_units_own_changes() {
        let mut unit = unit();
        let (made, gone) = (FilePath::from("/w/made"), FilePath::from("/w/gone"));
        let change = unit.change(1, &made, None);
        change.content = Some(1);
        let change = unit.change(2, &gone, Some(regular("/w/gone")));
        change.content = Some(2);
        let names = Listing::from([
            (b"made".to_vec(), libc::DT_REG),
            (b"old".to_vec(), libc::DT_REG),
        ]);
        let directory = FilePath::from("/w");
        unit.observe(
            3,
            Query::List(directory.clone()),
            Observed::Listing(Arc::new(names)),
            directory,
        );
        let facts = preconditions(&unit).expect("preconditions");
        let [(_, Observed::Listing(names))] = facts.as_slice() else {
            panic!("one listing, not {facts:?}")
        };
        let names: Vec<_> = names
            .keys()
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect();
        assert_eq!(names, ["gone", "old"]);
    }

    #[test]
    fn two_answers_to_one_question_make_a_doubt() {
        let mut unit = unit();
        let path = FilePath::from("/w/x");
        let query = Query::Link(path.clone());
        unit.observe(
            1,
            query.clone(),
            Observed::Answer(Answer::Path("a".into())),
            path.clone(),
        );
        unit.observe(2, query, Observed::Answer(Answer::Path("b".into())), path);
        assert!(preconditions(&unit).is_err());
    }
}
