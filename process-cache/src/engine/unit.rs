//! Exec-units: observations and changes of one program run.
//!
//! A unit collects *observations* (query, answer, sequence number) and *changes* (per file, from
//! the first to the last). The sequence numbers of the session order those of a unit and its
//! descendants. An observation is a precondition exactly if no earlier change of the same tree
//! made the observed state. [`crate::engine::finalize`] runs this state machine over the events of
//! each resource twice: once for the state before (preconditions), once for the state after
//! (postconditions).
//!
//! **Invariant:** no decision while the unit runs depends on later events; parallel children may
//! report in any order.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use ptrace_async::event::{OfdId, OpenFile, Tid};
use rustc_hash::FxHashMap;
use rustix::fs::Stat;
use smallvec::SmallVec;

use super::linked::Linked;
use super::moved_away::MovedAway;
use crate::key::{Ids, Known, LeftOut};
use crate::model::abbreviate;
use crate::model::fact::{Answer, Fact, Parts, Query, TimeUse};
use crate::model::inherited::Inherited;
use crate::model::miss::Missed;
use crate::model::path::FilePath;
use crate::model::unit_id::UnitId;
use crate::model::weak_key::WeakKey;
use crate::policy::Policy;
use crate::policy::programs::PathUse;
use crate::policy::script::{Found, Scripts};
use crate::relocation::relocatable::Moved;
use crate::world::locate::modified;
use crate::world::pending_digest::PendingDigest;

/// The unit that represents all processes outside the command.
pub const OUTSIDE: UnitId = UnitId(0);

/// Why a unit is not stored if it takes less time than a lookup.
pub const TOO_SHORT: &str = "ran for less than --min-time";
/// Why a unit is neither looked up nor stored by itself: its arguments contain a random name, and
/// the arguments of its parent do not.
pub const INTERNAL: &str = "gets a temporary file of the program that started it";

/// Why a unit is not stored if a write failed with `EPIPE`.
pub(crate) const UNHEARD: &str = "writes to a pipe whose readers have gone";

/// Names and types (`d_type`) of directory entries.
pub type Listing = BTreeMap<Vec<u8>, u8>;

/// An observed answer; some are completed at the unit's end.
#[derive(Debug, Clone)]
pub enum Observed {
    /// Complete.
    Answer(Answer),
    /// The content of a regular file, perhaps still being digested.
    Content(Arc<PendingDigest>),
    /// Metadata, with the content if that counts, and the raw modification time for ranking.
    Metadata {
        /// The result of stat.
        stat: Box<Stat>,
        /// The content, if it counts instead of the time.
        content: Option<Arc<PendingDigest>>,
    },
    /// A directory listing.
    Listing(Arc<Listing>),
}

impl Observed {
    /// Whether two answers to one query differ for sure.
    pub fn differs(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Answer(a), Self::Answer(b)) => a != b,
            (Self::Content(a), Self::Content(b)) => !a.is_same_as(b),
            (Self::Metadata { stat: a, .. }, Self::Metadata { stat: b, .. }) => {
                a.st_ino != b.st_ino
                    || a.st_size != b.st_size
                    || a.st_mode != b.st_mode
                    || (a.st_mtime, a.st_mtime_nsec) != (b.st_mtime, b.st_mtime_nsec)
            }
            (Self::Listing(a), Self::Listing(b)) => a != b,
            // A file that was absent and appeared, or the other way round.
            (Self::Answer(Answer::Error(_)), _) | (_, Self::Answer(Answer::Error(_))) => true,
            // A hit's stored answer against a fresh one: compared at the end, when both are
            // complete.
            _ => false,
        }
    }
}

/// One observation.
#[derive(Debug, Clone)]
pub struct Observation {
    /// Its sequence number.
    pub seq: u64,
    /// The answer.
    pub observed: Observed,
    /// The canonical path of the file.
    pub resource: FilePath,
    /// Whether it was noted because a moved file keeps its time, not because the program asked.
    pub carried: bool,
    /// A later, different answer to the same query, with its sequence number.
    pub later: Option<Box<(u64, Observed)>>,
}

/// The state of a file's timestamps after the unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeState {
    /// Unchanged.
    Kept,
    /// Set by writing.
    Present,
    /// Set explicitly: (accessed, modified) in ns, absent ones to the present.
    Set(Option<i128>, Option<i128>),
}

/// The reason of a unit that moves a file whose time it may have set, or not.
pub(crate) fn moves_left_alone(from: &FilePath) -> String {
    let from = from.display();
    format!("moves {from}, which it opened for writing and left as it was")
}

/// The reason of a unit that changes a file which was there before and has a new name.
pub(crate) fn changes_linked(path: &FilePath) -> String {
    format!("changes {}, which it gave another name", path.display())
}

/// All changes of a tree of units to one name.
#[derive(Debug, Clone)]
pub struct Change {
    /// Sequence number at which the first change began. The change happened at an unknown moment
    /// between this and its own number.
    pub begun: u64,
    /// First change of content or existence (sequence number).
    pub content: Option<u64>,
    /// First change of metadata alone (sequence number).
    pub meta: Option<u64>,
    /// Last change (sequence number).
    pub last: u64,
    /// Metadata before the first change; `None` if the file was absent.
    pub initial: Option<Box<Stat>>,
    /// The content before an append, or before a write in place.
    pub initial_content: Option<Arc<PendingDigest>>,
    /// Whether the name has a new inode.
    pub fresh: bool,
    /// When the name got its new inode (sequence number): before, the file was written in place.
    pub fresh_from: u64,
    /// Whether the inode is new because the program would have removed an existing file.
    pub would_remove: bool,
    /// The initial length, if the file was only appended to.
    pub appended_from: Option<u64>,
    /// The first change that was no append, after appends (sequence number).
    pub appended_until: Option<u64>,
    /// The change of its times.
    pub time: TimeState,
    /// Whether it was given the present time explicitly, not only by writing.
    pub dated: bool,
    /// Whether permission bits were set.
    pub mode_set: bool,
    /// The names of extended attributes that were set or removed.
    pub attributes: Vec<Vec<u8>>,
    /// Permission bits of its creation.
    pub create_mode: Option<u32>,
    /// The name to which it was made a hard link.
    pub linked_to: Option<FilePath>,
    /// The earlier name, from which it keeps its time.
    pub moved_from: Option<FilePath>,
    /// Whether the unit removed the name, or moved the file away.
    pub gone: bool,
}

impl Change {
    /// Creates a change that begins now.
    pub fn new(seq: u64, initial: Option<Box<Stat>>) -> Self {
        Self {
            content: None,
            begun: seq,
            meta: None,
            last: seq,
            initial,
            initial_content: None,
            fresh: false,
            fresh_from: 0,
            would_remove: false,
            appended_from: None,
            appended_until: None,
            time: TimeState::Kept,
            dated: false,
            mode_set: false,
            attributes: Vec::new(),
            create_mode: None,
            linked_to: None,
            moved_from: None,
            gone: false,
        }
    }

    /// Notes that the name has a new inode from now on.
    pub fn freshen(&mut self, seq: u64) {
        if !self.fresh {
            self.fresh = true;
            self.fresh_from = seq;
        }
    }

    /// Notes that the name was made, replaced or removed, and that it has this time now.
    pub fn remake(&mut self, seq: u64, time: TimeState) {
        self.content.get_or_insert(seq);
        self.freshen(seq);
        self.end_append(seq);
        self.linked_to = None;
        self.moved_from = None;
        self.mode_set = false;
        self.gone = false;
        self.time = time;
    }

    /// Whether the metadata of the file that was there before changed, and the name was then
    /// replaced or removed.
    pub fn left_changed(&self) -> bool {
        self.fresh
            && self.initial.is_some()
            && self.meta.is_some_and(|meta| self.content > Some(meta))
    }

    /// Whether the name had a new inode at `seq`.
    pub fn was_fresh(&self, seq: u64) -> bool {
        self.fresh && self.fresh_from < seq
    }

    /// Notes a change that is no append.
    pub fn end_append(&mut self, seq: u64) {
        if self.appended_from.take().is_some() {
            self.appended_until.get_or_insert(seq);
        }
    }

    /// Whether the content at `seq` still had what was in the file before.
    pub fn had_appends_only(&self, seq: u64) -> bool {
        self.appended_from.is_some() || self.appended_until.is_some_and(|until| seq <= until)
    }

    /// Notes that an extended attribute was set or removed.
    pub fn set_attribute(&mut self, name: &[u8]) {
        if !self.attributes.iter().any(|known| known == name) {
            self.attributes.push(name.to_vec());
        }
    }

    /// Whether the file was absent before.
    pub fn was_absent(&self) -> bool {
        self.initial.is_none()
    }

    /// Whether the name has a file that the unit made.
    pub fn is_new(&self) -> bool {
        self.content.is_some() && (self.fresh || self.was_absent())
    }

    /// Whether the file was opened to be written and still is, in the state `now`, as it was
    /// before.
    pub(crate) fn left_alone(&self, now: &Stat) -> bool {
        let before = self.initial.as_deref();
        matches!(self.time, TimeState::Present)
            && before.is_some_and(|before| {
                modified(before) == modified(now) && before.st_size == now.st_size
            })
    }

    /// Whether this change made the state `observed` under this name at `seq`. A file found while
    /// the call that makes it runs counts as made by the call.
    pub fn made(&self, seq: u64, observed: &Observed) -> bool {
        let missing = matches!(observed, Observed::Answer(Answer::Error(_)));
        let found_early = self.was_absent() && self.begun < seq && !missing;
        self.content.is_some_and(|at| at < seq || found_early)
    }

    /// Absorbs a later change of the same name by a child.
    fn absorb(&mut self, other: &Self) {
        let begins = |c: &Self| {
            c.content
                .into_iter()
                .chain(c.meta)
                .min()
                .unwrap_or(u64::MAX)
        };
        let (earlier, later) = if begins(self) <= begins(other) {
            (&*self, other)
        } else {
            (other, &*self)
        };
        let min = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        let appended_from = match (earlier.content, later.content) {
            (Some(_), Some(_)) => earlier
                .appended_from
                .filter(|_| later.appended_from.is_some()),
            (Some(_), None) => earlier.appended_from,
            (None, _) => later.appended_from,
        };
        let appended_until = match (earlier.appended_from, later.content) {
            (Some(_), Some(at)) if appended_from.is_none() => {
                Some(later.appended_until.unwrap_or(at))
            }
            _ => earlier
                .appended_until
                .or_else(|| later.appended_until.filter(|_| earlier.content.is_none())),
        };
        let others_time = other.time != TimeState::Kept && other.last >= self.last;
        let time = match self.time {
            mine if mine != TimeState::Kept && !others_time => mine,
            _ => other.time,
        };
        let linked_to = if other.last >= self.last && other.fresh {
            other.linked_to.clone()
        } else {
            self.linked_to.clone()
        };
        let moved_from = if others_time {
            other.moved_from.clone()
        } else {
            self.moved_from.clone()
        };
        let mut attributes = self.attributes.clone();
        for name in &other.attributes {
            if !attributes.contains(name) {
                attributes.push(name.clone());
            }
        }
        let gone = match other.last >= self.last {
            true => other.gone,
            false => self.gone,
        };
        *self = Self {
            moved_from,
            gone,
            begun: self.begun.min(other.begun),
            content: min(self.content, other.content),
            meta: min(self.meta, other.meta),
            last: self.last.max(other.last),
            initial: earlier.initial.clone(),
            initial_content: earlier.initial_content.clone().or_else(|| {
                later
                    .initial_content
                    .clone()
                    .filter(|_| earlier.content.is_none())
            }),
            fresh: self.fresh || other.fresh,
            fresh_from: match (self.fresh, other.fresh) {
                (true, true) => self.fresh_from.min(other.fresh_from),
                (true, false) => self.fresh_from,
                (false, _) => other.fresh_from,
            },
            would_remove: self.would_remove || other.would_remove,
            appended_from,
            appended_until,
            time,
            dated: self.dated || other.dated,
            mode_set: self.mode_set || other.mode_set,
            attributes,
            create_mode: earlier.create_mode.or(later.create_mode),
            linked_to,
        };
    }
}

/// Why a unit cannot be skipped in future.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UncacheableReason {
    /// In words.
    pub reason: String,
    /// Whether ancestors are affected as well.
    pub leaks: bool,
}

/// Bytes written into an inherited description.
#[derive(Debug, Clone)]
pub struct Written {
    /// Its sequence number.
    pub seq: u64,
    /// The description.
    pub file: OfdId,
    /// The bytes.
    pub bytes: Arc<[u8]>,
    /// Whether it is a directory message of make ([`crate::model::outcome::StreamData::Place`]).
    pub of_place: bool,
}

/// One exec-unit.
#[derive(Debug)]
pub struct Unit {
    /// Its identity.
    pub id: UnitId,
    /// The unit that executed it.
    pub parent: Option<UnitId>,
    /// The process whose exit ends the unit.
    pub process: Tid,
    /// The sequence number at its beginning.
    pub started: u64,
    /// When it began.
    pub clock: std::time::Instant,
    /// The beginning in ns since the epoch, in terms of change times of files. Files changed later
    /// have a time not before the first value; files changed earlier have a time not after the
    /// second.
    pub window: (i64, i64),
    /// The key under which its result is stored.
    pub key: Option<WeakKey>,
    /// Its arguments, for messages.
    pub argv: Vec<Vec<u8>>,
    /// The executable.
    pub program: FilePath,
    /// The assumptions about the program.
    pub policy: Policy,
    /// The parts that its key leaves out.
    pub left_out: LeftOut,
    /// Parts that its key omits.
    pub uses: Parts,
    /// Parts outside its key on which it depends.
    pub observations: FxHashMap<Query, Observation>,
    /// Changes by canonical path.
    pub changes: FxHashMap<FilePath, Change>,
    /// Names that it made and that are not among the changes any more.
    pub(crate) moved_away: Vec<MovedAway>,
    /// The reasons why it is uncacheable.
    pub uncacheable_reasons: Vec<UncacheableReason>,
    /// Inherited descriptors.
    pub inherited: Vec<Inherited>,
    /// User and group of its processes, if known.
    pub ids: Ids,
    /// Source of the limits in its key, if they were queried earlier.
    pub limits: Option<Known>,
    /// Bytes written to inherited descriptors.
    pub written: Vec<Written>,
    /// Descriptions of inherited regular files that were read.
    pub consumed: Vec<OfdId>,
    /// Inherited writable files whose position was queried or moved.
    pub sought: Vec<OfdId>,
    /// Bytes held in `written`.
    pub written_bytes: u64,
    /// Number of position queries and seeks on the descriptors 0, 1 and 2.
    pub seeks: [u8; 3],
    /// Number of requests for random bytes (per process image).
    pub random_requests: u32,
    /// The names of host and kernel when it asked for them last. The same answer is no new fact.
    pub host_names: Option<Vec<u8>>,
    /// Whether it queried the bounds of its stack.
    pub knows_stack: bool,
    /// Whether it checked for a terminal, which bash does when it starts.
    pub knows_terminal: bool,
    /// Number of clock reads.
    pub clock_reads: u32,
    /// Whether it queried its own name, which Perl does right before it compiles a script.
    pub knows_itself: bool,
    /// Whether data sent through its pipes names `$RANDOM`, or may do so: a bash that reads there
    /// may use it.
    pub names_chance: bool,
    /// Whether it is a bash, or a unit below it was one.
    pub ran_bash: bool,
    /// Random names of temporary files that were made in the tree.
    pub names: Vec<FilePath>,
    /// Number of living processes of the subtree.
    pub alive: u32,
    /// Number of units in the subtree, including this one.
    pub units: u32,
    /// Additional time if no units of the subtree had been skipped, one after the other, in µs.
    pub skipped_us: u64,
    /// Why the lookup at its beginning failed.
    pub miss: Missed,
    /// Its number in the journal.
    pub record: u32,
    /// Properties that decide whether its result can move to another directory.
    pub moved: Moved,
    /// Sequence number of its end; `None` while it has processes.
    pub ended: Option<u64>,
    /// Files that outside tasks had open for writing when it began.
    pub open_elsewhere: SmallVec<[Rc<OpenFile>; 2]>,
    /// The earliest and the latest modification time that it set explicitly (ns since the epoch,
    /// as `touch -r` does) and that a program compared.
    pub compared: Option<(i128, i128)>,
    /// Answers to [`Query::OneMount`].
    pub mounts: BTreeMap<Query, Answer>,
    /// Files that were there before and that it gave another name.
    pub linked: Linked,
}

impl Unit {
    /// Creates an empty unit.
    pub fn new(id: UnitId, parent: Option<UnitId>, process: Tid, started: u64) -> Self {
        Self {
            id,
            parent,
            process,
            started,
            clock: std::time::Instant::now(),
            window: crate::platform::clock::window(),
            key: None,
            argv: Vec::new(),
            program: FilePath::from("/"),
            policy: Policy::STRICT,
            left_out: LeftOut::default(),
            uses: Parts::default(),
            observations: FxHashMap::default(),
            changes: FxHashMap::default(),
            moved_away: Vec::new(),
            uncacheable_reasons: Vec::new(),
            inherited: Vec::new(),
            ids: Ids::default(),
            limits: None,
            written: Vec::new(),
            consumed: Vec::new(),
            sought: Vec::new(),
            seeks: [0; 3],
            written_bytes: 0,
            random_requests: 0,
            host_names: None,
            knows_stack: false,
            knows_terminal: false,
            clock_reads: 0,
            knows_itself: false,
            names_chance: false,
            ran_bash: false,
            names: Vec::new(),
            alive: 1,
            units: 1,
            skipped_us: 0,
            miss: Missed::NotLookedUp,
            record: 0,
            moved: Moved::default(),
            ended: None,
            open_elsewhere: SmallVec::new(),
            compared: None,
            mounts: BTreeMap::new(),
            linked: Linked::default(),
        }
    }

    /// Notes an answer to [`Query::OneMount`].
    pub fn note_mounts(&mut self, query: Query, answer: Answer) {
        let known = self.mounts.entry(query).or_insert_with(|| answer.clone());
        if *known != answer {
            self.mark_uncacheable("a file system was mounted or unmounted while it ran", true);
        }
    }

    /// Notes that times set on its files are compared with others.
    pub fn compare(&mut self, (first, last): (i128, i128)) {
        let (earliest, latest) = self.compared.unwrap_or((first, last));
        self.compared = Some((earliest.min(first), latest.max(last)));
    }

    /// Whether a compared time was set explicitly to before the unit's beginning, or to the
    /// future.
    pub fn compares_with_constants(&self) -> bool {
        self.compared.is_some_and(|(earliest, latest)| {
            earliest < i128::from(self.window.0)
                || latest > i128::from(crate::platform::clock::window().1)
        })
    }

    /// Notes an observation.
    pub fn observe(&mut self, seq: u64, query: Query, observed: Observed, resource: FilePath) {
        match self.observations.entry(query) {
            std::collections::hash_map::Entry::Vacant(entry) => {
                let carried = false;
                entry.insert(Observation {
                    seq,
                    observed,
                    resource,
                    carried,
                    later: None,
                });
            }
            std::collections::hash_map::Entry::Occupied(mut entry) => {
                entry.get_mut().carried = false;
                entry.get_mut().merge(seq, observed, &resource);
            }
        }
    }

    /// Drops the time from a directory's metadata, if they were first queried after `since`, only
    /// to list the directory.
    pub fn forget_time(&mut self, path: &Path, since: u64) {
        for follow in [true, false] {
            let ask = |time| Query::Stat {
                path: path.into(),
                follow,
                time,
            };
            let compared = ask(TimeUse::Order);
            let first = self
                .observations
                .get(&compared)
                .is_some_and(|seen| seen.seq > since && seen.later.is_none());
            if first && let Some(seen) = self.observations.remove(&compared) {
                self.observations.entry(ask(TimeUse::None)).or_insert(seen);
            }
        }
    }

    /// Notes properties of its script. A shell other than bash draws no random numbers itself.
    pub fn found_in_script(&mut self, found: Found) {
        match found.uncacheable {
            Some(_) if self.policy.scripts == Scripts::Shell => self.names_chance = true,
            Some(reason) => self.mark_uncacheable(reason, true),
            None => {}
        }
        self.policy.ignores_directory_times &= !found.compares_times;
        self.policy.inodes |= found.compares_inodes;
        self.policy.compares_own_inode |= found.compares_own_inode;
    }

    /// Marks the unit as uncacheable (each reason once).
    pub fn mark_uncacheable(&mut self, reason: impl Into<String>, leaks: bool) {
        let doubt = UncacheableReason {
            reason: reason.into(),
            leaks,
        };
        if !self.uncacheable_reasons.contains(&doubt) && self.uncacheable_reasons.len() < 32 {
            self.uncacheable_reasons.push(doubt);
        }
    }

    /// Whether it is certainly uncacheable.
    pub fn is_doubtful(&self) -> bool {
        !self.uncacheable_reasons.is_empty()
    }

    /// Returns the change record of a name, created if needed with `initial`.
    pub fn change(&mut self, seq: u64, path: &FilePath, initial: Option<Box<Stat>>) -> &mut Change {
        let change = self
            .changes
            .entry(path.clone())
            .or_insert_with(|| Change::new(seq, initial));
        change.last = seq;
        change
    }

    /// Whether inode numbers that a child with this policy queried do not count for this unit.
    pub fn leaves_inodes_out(&self, below: &Policy) -> bool {
        self.policy.compares_own_inode && below.shows_own_inode
    }

    /// Absorbs the observations and changes of a finished child, which are removed from the child.
    pub fn absorb(&mut self, child: &mut Self) {
        if self.leaves_inodes_out(&child.policy) {
            let asked = &mut child.observations;
            asked.retain(|query, _| !matches!(query, Query::Inode { .. }));
        }
        // The merge is symmetric: the smaller map is added to the larger.
        if self.observations.len() < child.observations.len() {
            std::mem::swap(&mut self.observations, &mut child.observations);
        }
        for (query, observation) in child.observations.drain() {
            match self.observations.entry(query) {
                std::collections::hash_map::Entry::Vacant(entry) => {
                    entry.insert(observation);
                }
                std::collections::hash_map::Entry::Occupied(mut entry) => {
                    let mine = entry.get_mut();
                    mine.carried &= observation.carried;
                    mine.merge(observation.seq, observation.observed, &observation.resource);
                    if let Some(later) = observation.later {
                        mine.merge(later.0, later.1, &observation.resource);
                    }
                }
            }
        }
        let left_alone = child.changes.values().find_map(|change| {
            let from = change.moved_from.as_ref()?;
            let now = child.changes.get(from)?.initial.as_deref()?;
            self.changes
                .get(from)?
                .left_alone(now)
                .then(|| from.clone())
        });
        if let Some(from) = left_alone {
            self.mark_uncacheable(moves_left_alone(&from), true);
        }
        // A moved file has the time that it got here, if it was made here.
        for change in child.changes.values_mut() {
            if let Some(from) = &change.moved_from
                && let Some(made) = self.changes.get(from)
                && made.content.is_some()
            {
                change.time = made.time;
                change.moved_from = made.moved_from.clone();
            }
        }
        self.moved_away.append(&mut child.moved_away);
        let linked = std::mem::take(&mut child.linked);
        let is_new = |path: &FilePath| self.changes.get(path).is_some_and(Change::is_new);
        self.linked.absorb(linked, is_new);
        for (path, mut change) in child.changes.drain() {
            match self.changes.entry(path) {
                std::collections::hash_map::Entry::Vacant(entry) => {
                    entry.insert(change);
                }
                std::collections::hash_map::Entry::Occupied(mut entry) => {
                    // Opened for appending, and left with the time that it was given here.
                    if matches!(entry.get().time, TimeState::Set(..))
                        && rustix::fs::lstat(entry.key().as_path())
                            .is_ok_and(|now| change.left_alone(&now))
                    {
                        change.time = TimeState::Kept;
                    }
                    entry.get_mut().absorb(&change);
                }
            }
        }
        for doubt in child.uncacheable_reasons.iter().filter(|doubt| doubt.leaks) {
            self.mark_uncacheable(doubt.reason.clone(), true);
        }
        for (query, answer) in std::mem::take(&mut child.mounts) {
            self.note_mounts(query, answer);
        }
        if let Some(times) = child.compared {
            self.compare(times);
        }
        self.units += child.units;
        self.skipped_us = self.skipped_us.saturating_add(child.skipped_us);
        self.depend(child.moved.path_use, &child.moved.conditions);
    }

    /// Adds a child's path use and conditions for other base directories.
    pub fn depend(&mut self, path_use: PathUse, conditions: &[Fact]) {
        self.moved.path_use = self.moved.path_use.max(path_use);
        for condition in conditions {
            if !self.moved.conditions.contains(condition) {
                self.moved.conditions.push(condition.clone());
            }
        }
    }

    /// Notes that a file just got another name than this one.
    pub(crate) fn links_to(&mut self, source: &FilePath) {
        let change = self.changes.get(source);
        if change.is_some_and(Change::is_new) {
            return;
        }
        let is_written = change.is_some_and(|change| change.content.is_some());
        if let Ok(stat) = rustix::fs::lstat(source.as_path()) {
            self.linked.add(source, &stat, is_written);
        }
    }

    /// Whether this tree made the name or wrote its content before `seq`.
    pub fn made_before(&self, path: &FilePath, seq: u64) -> Option<&Change> {
        self.changes
            .get(path)
            .filter(|change| change.content.is_some_and(|at| at < seq))
    }

    /// Returns a short name for messages.
    pub fn name(&self) -> String {
        abbreviate::command(&self.argv, 60)
    }
}

impl Observation {
    /// Merges an answer from another time. The first answer stays with its resource, and so does
    /// the first differing one.
    fn merge(&mut self, seq: u64, observed: Observed, resource: &FilePath) {
        let (seq, observed) = if seq < self.seq {
            self.resource = resource.clone();
            let former = std::mem::replace(&mut self.observed, observed);
            (std::mem::replace(&mut self.seq, seq), former)
        } else {
            (seq, observed)
        };
        let earlier = self
            .later
            .as_deref()
            .is_none_or(|(at, other)| seq < *at || !self.observed.differs(other));
        if earlier && self.observed.differs(&observed) {
            self.later = Some(Box::new((seq, observed)));
        }
    }
}

/// Splits a path into parent directory and last component.
pub fn split(path: &Path) -> Option<(&Path, &[u8])> {
    Some((path.parent()?, path.file_name()?.as_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A unit that got these answers to one query, about these files.
    fn unit(answers: &[(u64, i32)], about: impl Fn(u64) -> FilePath) -> Unit {
        let mut unit = Unit::new(UnitId(1), None, 1, 0);
        for &(seq, answer) in answers {
            let query = Query::Link(FilePath::from("/x"));
            let answer = Observed::Answer(Answer::Error(answer));
            unit.observe(seq, query, answer, about(seq));
        }
        // Adds other queries, so that either map may be the larger one.
        for n in 0..answers.len() % 3 {
            let path = FilePath::from(format!("/{n}").as_str());
            let answer = Observed::Answer(Answer::Error(0));
            unit.observe(100, Query::Link(path.clone()), answer, path);
        }
        unit
    }

    /// A different file for each.
    fn resource(seq: u64) -> FilePath {
        FilePath::from(format!("/at/{seq}").as_str())
    }

    /// One of two files.
    fn shared(seq: u64) -> FilePath {
        resource(seq % 2)
    }

    #[test]
    fn presence_and_absence_are_different_answers() {
        let stat = Box::new(rustix::fs::stat("/").unwrap());
        let there = [
            Observed::Metadata {
                stat,
                content: None,
            },
            Observed::Listing(Arc::default()),
            Observed::Answer(Answer::Granted),
        ];
        let absent = Observed::Answer(Answer::Error(libc::ENOENT));
        for there in there {
            assert!(
                there.differs(&absent) && absent.differs(&there),
                "{there:?}"
            );
        }
        assert!(!absent.differs(&absent.clone()));
    }

    proptest! {
        #[test]
        fn the_first_answer_stays_and_the_first_that_differs(
            answers in prop::collection::vec((0..3_i32, 0..4_u8), 1..16),
            is_shared in any::<bool>(),
            order in Just([1, 2, 3]).prop_shuffle(),
        ) {
            let about = if is_shared { shared } else { resource };
            let numbered = || (1_u64..).zip(&answers);
            let of = |whose: u8| -> Unit {
                let its = numbered().filter(|(_, (_, who))| *who == whose);
                let its: Vec<(u64, i32)> = its.map(|(seq, (answer, _))| (seq, *answer)).collect();
                unit(&its, about)
            };
            let mut parent = of(0);
            for whose in order {
                parent.absorb(&mut of(whose));
            }
            let seen = &parent.observations[&Query::Link("/x".into())];
            let first = answers[0].0;
            prop_assert_eq!(seen.seq, 1);
            prop_assert_eq!(&seen.resource, &about(1));
            prop_assert!(!seen.observed.differs(&Observed::Answer(Answer::Error(first))));
            let differing = numbered().find(|(_, (answer, _))| *answer != first);
            let later = seen
                .later
                .as_deref()
                .filter(|(_, later)| seen.observed.differs(later));
            // Of a unit's own answers, only the first differing one is known.
            prop_assert_eq!(later.is_some(), differing.is_some());
            if let (Some((at, _)), Some((first, _))) = (later, differing) {
                prop_assert_eq!(*at, first);
            }
        }
    }
}
