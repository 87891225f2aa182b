//! Relocation: reuses results in another directory.
//!
//! A user names base directories (`--root`), such as the checkout. A result that was recorded in
//! one checkout is then found in another one. Such a result is *movable*. It is stored a second
//! time, under a key and with facts and effects in which the base directory's name replaces its
//! path: `/\0NAME/src/x.c`, which is no path of any file. A lookup replaces the name by the path
//! of its own base directory.
//!
//! Inputs that mention a location (arguments, variables, directories, descriptors) are replaced
//! only where they are whole paths ([`BaseDirs::text`]). Any other mention stays, and then the
//! keys of two directories differ. Further conditions decide whether a result is stored as movable
//! ([`relocatable`]). Neither the files that the unit read nor those that it made may mention a
//! base directory in any form ([`path_occurrences`]). Its programs must use paths in a known way
//! ([`path_use`]), or two runs in different directories must have left the same result
//! ([`relocatable`]).
//!
//! A property that holds only in some directories is stored as a [`Condition`]: a fact about a
//! base directory, queried like any other fact.

mod commit_order;
mod dependency_files;
pub(crate) mod make_output;
pub mod path_occurrences;
pub mod path_use;
pub mod relocatable;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rustc_hash::{FxHashMap, FxHashSet};

pub use self::commit_order::CommitTicket;
use self::path_occurrences::PathOccurrences;
use crate::key::Keyed;
use crate::model::fact::{Answer, Digest, Fact, Query};
use crate::model::miss::Miss;
use crate::model::outcome::{Effect, Outcome, StreamData};
use crate::model::path::FilePath;
use crate::model::weak_key::WeakKey;
use crate::platform::lock::lock;
use crate::policy::base_dirs::{BaseDir, BaseDirs, MARK};
use crate::store::{Lookup, Store, StoreError};
use crate::world::World;

/// Finds results of other directories, and stores results for them.
#[derive(Debug)]
pub struct Relocation {
    base_dirs: Arc<BaseDirs>,
    mention: PathOccurrences,
    /// Whether contents mention a base directory, as far as known.
    known: Mutex<FxHashMap<Digest, bool>>,
    /// Contents in `known` that the store knows already.
    kept: Mutex<FxHashSet<Digest>>,
    /// Digests of outputs that are known not to depend on the directory.
    settled: Mutex<FxHashSet<Digest>>,
    turns: Arc<commit_order::CommitOrder>,
}

/// A condition on a base directory for a result to hold there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// The number of its components.
    Depth,
    /// Its length in bytes.
    Length,
    /// A component, counted from the last one.
    Part(usize),
    /// A component, counted from the first one.
    Head(usize),
    /// The directory so many levels above it.
    Up(usize),
}

impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Depth => f.write_str("depth"),
            Self::Length => f.write_str("length"),
            Self::Part(0) => f.write_str("name"),
            Self::Part(at) => write!(f, "name {at} levels up"),
            Self::Head(at) => write!(f, "component {}", at + 1),
            Self::Up(levels) => write!(f, "place {levels} levels up"),
        }
    }
}

impl Relocation {
    /// For results below these directories.
    pub fn new(base_dirs: BaseDirs) -> Self {
        Self {
            mention: PathOccurrences::new(base_dirs.all().iter().map(|dir| dir.parts().collect())),
            base_dirs: Arc::new(base_dirs),
            known: Mutex::default(),
            kept: Mutex::default(),
            settled: Mutex::default(),
            turns: Arc::default(),
        }
    }

    /// Returns the base directories.
    pub fn base_dirs(&self) -> &Arc<BaseDirs> {
        &self.base_dirs
    }

    /// Takes the commit ticket of a unit that has ended: see [`CommitTicket`].
    pub fn turn(&self) -> CommitTicket {
        CommitTicket::take(self.turns.clone())
    }

    /// Loads the contents that earlier runs found free of base directories.
    pub fn recall(&self, store: &Store) {
        let clean = store.clean_contents(&self.signature());
        let mut kept = lock(&self.kept);
        let mut known = lock(&self.known);
        known.extend(clean.iter().map(|digest| (*digest, false)));
        kept.extend(clean);
    }

    /// Stores which contents do not mention a base directory.
    pub fn keep(&self, store: &Store) {
        let mut kept = lock(&self.kept);
        let known = lock(&self.known);
        let clean = known.iter().filter(|(_, mentions)| !**mentions);
        let fresh: Vec<Digest> = clean
            .map(|(digest, _)| *digest)
            .filter(|digest| !kept.contains(digest))
            .collect();
        // On failure, the contents are read again.
        if store.add_clean_contents(&self.signature(), &fresh).is_ok() {
            kept.extend(fresh);
        }
    }

    /// Identifies the base directories and the search method.
    fn signature(&self) -> Digest {
        let mut hasher = blake3::Hasher::new_derive_key("pcache mentions 1");
        for root in self.base_dirs.all() {
            hasher.update(&root.path);
            hasher.update(b"\0");
        }
        Digest(*hasher.finalize().as_bytes())
    }

    /// Answers a query that contains names of base directories.
    pub(crate) fn ask(&self, query: &Query, ask: &mut dyn FnMut(&Query) -> Answer) -> Answer {
        if is_note(query) {
            return match self.condition(query) {
                Some((condition, root)) => self.holds(condition, root),
                None if *query == relocatable::whole().query => Answer::Granted,
                None => Answer::Unknown("a root is missing".to_owned()),
            };
        }
        match with_paths(query, &mut |path| self.base_dirs.here(path)) {
            Some(here) => {
                let answer = ask(&here);
                self.answer(&here, &answer).unwrap_or(answer)
            }
            None => Answer::Unknown("a root is missing".to_owned()),
        }
    }

    /// Puts names of base directories into an answer; `None` if it leads from outside into a base
    /// directory, or from one into another.
    fn answer(&self, here: &Query, answer: &Answer) -> Option<Answer> {
        let Answer::Path(path) = answer else {
            return Some(answer.clone());
        };
        let Some((root, _)) = self.base_dirs.dir_of(path.as_bytes()) else {
            return Some(answer.clone());
        };
        let mut from = here
            .paths()
            .iter()
            .map(|path| self.base_dirs.dir_of(path.as_bytes()));
        from.all(|from| from.is_some_and(|(from, _)| from == root))
            .then(|| Answer::Path(self.base_dirs.named(path)))
    }

    /// Parses a query about a base directory.
    fn condition(&self, query: &Query) -> Option<(Condition, &BaseDir)> {
        let Query::Link(path) = query else {
            return None;
        };
        let rest = path.as_bytes().strip_prefix(MARK)?.strip_prefix(b"\0")?;
        let (what, name) = std::str::from_utf8(rest).ok()?.split_once('\0')?;
        let split = what
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(what.len());
        let number = what[split..].parse().ok();
        let condition = match (&what[..split], number) {
            ("depth", None) => Condition::Depth,
            ("length", None) => Condition::Length,
            ("part", Some(number)) => Condition::Part(number),
            ("head", Some(number)) => Condition::Head(number),
            ("up", Some(number)) => Condition::Up(number),
            _ => return None,
        };
        let root = self.base_dirs.all().iter().find(|root| root.name == name)?;
        Some((condition, root))
    }

    /// Returns the answer of a base directory to a condition.
    fn holds(&self, condition: Condition, root: &BaseDir) -> Answer {
        let part = |part: Option<&[u8]>| {
            part.map_or(Answer::Error(libc::ENOENT), |part| {
                Answer::Path(FilePath::from(part))
            })
        };
        let number = |number: usize| Answer::Path(FilePath::from(number.to_string().as_str()));
        match condition {
            Condition::Depth => number(root.depth()),
            Condition::Length => number(root.path.len()),
            Condition::Part(at) => part(root.parts().nth_back(at)),
            Condition::Head(at) => part(root.parts().nth(at)),
            Condition::Up(levels) => {
                let path = Path::new(std::ffi::OsStr::from_bytes(&root.path));
                match path.ancestors().nth(levels) {
                    Some(above) => Answer::Path(self.base_dirs.named(&above.into())),
                    None => Answer::Error(libc::ENOENT),
                }
            }
        }
    }

    /// Returns a condition with its answer here.
    fn fact(&self, condition: Condition, root: &BaseDir) -> Fact {
        let what = match condition {
            Condition::Depth => "depth".to_owned(),
            Condition::Length => "length".to_owned(),
            Condition::Part(at) => format!("part{at}"),
            Condition::Head(at) => format!("head{at}"),
            Condition::Up(levels) => format!("up{levels}"),
        };
        Fact {
            query: note(&format!("{what}\0{}", root.name)),
            answer: self.holds(condition, root),
        }
    }

    /// Whether a content mentions a base directory.
    fn contains_paths(&self, digest: &Digest, bytes: &[u8]) -> bool {
        if let Some(known) = lock(&self.known).get(digest) {
            return *known;
        }
        let found = self.mention.is_in(bytes);
        lock(&self.known).insert(*digest, found);
        found
    }

    /// Whether the content of a file mentions a base directory, or does not have this digest.
    fn file_contains_paths(&self, path: &Path, digest: &Digest) -> bool {
        let known = lock(&self.known);
        if let Some(known) = known.get(digest) {
            return *known;
        }
        drop(known);
        match std::fs::read(path) {
            Ok(bytes) if blake3::hash(&bytes).as_bytes() == &digest.0 => {
                self.contains_paths(digest, &bytes)
            }
            _ => true,
        }
    }

    /// Looks up a result of another directory that holds here, or the reason of the miss.
    ///
    /// # Errors
    /// As [`Store::lookup`].
    pub fn lookup(
        &self,
        store: &Store,
        keyed: &Keyed,
        ask: &mut dyn FnMut(&Query) -> Answer,
    ) -> Result<Lookup, StoreError> {
        let Some(key) = &keyed.moved else {
            return Ok(Lookup::Miss(Miss::NoEntry));
        };
        let found = store.lookup(key, &mut |query| self.ask(query, ask))?;
        Ok(match found {
            Lookup::Hit(outcome) => match self.admit(store, *outcome, keyed) {
                Ok(outcome) => Lookup::Hit(Box::new(outcome)),
                Err(reason) => Lookup::Miss(Miss::Incomplete(reason)),
            },
            Lookup::Miss(Miss::Changed {
                query,
                recorded,
                found,
            }) => Lookup::Miss(if let Some((condition, root)) = self.condition(&query) {
                let name = &root.name;
                Miss::Incomplete(match (condition, recorded) {
                    (Condition::Up(levels), Answer::Path(path)) => {
                        let path = path.display();
                        format!("root {name} is not {levels} levels below {path}, as there")
                    }
                    _ => format!("root {name} has another {condition}"),
                })
            } else if let Some(query) = with_paths(&query, &mut |path| self.base_dirs.here(path)) {
                Miss::Changed {
                    query,
                    recorded,
                    found,
                }
            } else {
                Miss::NoEntry
            }),
            miss => miss,
        })
    }

    /// Whether a quick check shows that no result of another directory holds.
    pub fn misses_at_once(&self, store: &Store, keyed: &Keyed, world: &World) -> bool {
        keyed.moved.is_none_or(|key| {
            let mut ask = |query: &Query| world.ask(query);
            store
                .miss_at_once(&key, &mut |query| self.ask(query, &mut ask))
                .is_some()
        })
    }

    /// Converts a result of another directory, unless a file on which it depends mentions this
    /// one.
    pub(crate) fn admit(
        &self,
        store: &Store,
        outcome: Outcome,
        keyed: &Keyed,
    ) -> Result<Outcome, String> {
        let missing = || "a root is missing".to_owned();
        let mut here = self.effects_here(&outcome)?;
        self.write_lists(store, &outcome.effects, &mut here.effects)?;
        here.facts = outcome.facts;
        let mut conditions = Vec::new();
        let mut facts = Vec::with_capacity(here.facts.len());
        for fact in std::mem::take(&mut here.facts) {
            if is_note(&fact.query) {
                conditions.push(fact);
                continue;
            }
            let query = with_paths(&fact.query, &mut |path| self.base_dirs.here(path))
                .ok_or_else(missing)?;
            let answer = match &fact.answer {
                Answer::Path(path) => Answer::Path(self.base_dirs.here(path).ok_or_else(missing)?),
                answer => answer.clone(),
            };
            facts.push(Fact { query, answer });
        }
        self.reads_nothing_of_it(&facts, keyed.read())?;
        here.facts = facts;
        here.conditions = Some(conditions);
        Ok(here)
    }

    /// Converts the effects and output of a result of another directory, without its facts.
    pub(crate) fn effects_here(&self, outcome: &Outcome) -> Result<Outcome, String> {
        let mut here = Outcome {
            facts: Vec::new(),
            ..outcome.clone()
        };
        for effect in &mut here.effects {
            effect_paths(effect, &mut |path| self.base_dirs.here(path))
                .ok_or_else(|| "a root is missing".to_owned())?;
        }
        for chunk in &mut here.stream {
            if let StreamData::Place(said) = &mut chunk.data {
                let here = self.with_local_directories(said);
                *said = here.ok_or("what make said of its place cannot be said here")?;
            }
        }
        Ok(here)
    }

    /// Checks that no file that was read mentions a base directory.
    fn reads_nothing_of_it<'f>(
        &self,
        facts: &'f [Fact],
        images: impl Iterator<Item = (&'f FilePath, Digest)>,
    ) -> Result<(), String> {
        let contents = facts
            .iter()
            .filter_map(|fact| match (&fact.query, &fact.answer) {
                (Query::Content(path), Answer::File(digest)) => Some((path, *digest)),
                _ => None,
            });
        for (path, digest) in contents.chain(images) {
            if self.file_contains_paths(path, &digest) {
                return Err(format!("{} mentions a root", path.display()));
            }
        }
        Ok(())
    }
}

/// Encodes a note about a result as a query that no file answers.
fn note(what: &str) -> Query {
    let mut path = MARK.to_vec();
    path.push(0);
    path.extend_from_slice(what.as_bytes());
    Query::Link(FilePath::from(path.as_slice()))
}

pub(crate) fn is_note(query: &Query) -> bool {
    matches!(query, Query::Link(path) if path.as_bytes().starts_with(b"/\0\0"))
}

/// Applies a function to the paths of a query.
fn with_paths(
    query: &Query,
    other: &mut dyn FnMut(&FilePath) -> Option<FilePath>,
) -> Option<Query> {
    let mut query = query.clone();
    for path in query.paths_mut() {
        *path = other(path)?;
    }
    Some(query)
}

/// Applies a function to the paths of an effect. The target of a symbolic link is no path of an
/// effect.
fn effect_paths(
    effect: &mut Effect,
    other: &mut dyn FnMut(&FilePath) -> Option<FilePath>,
) -> Option<()> {
    match effect {
        Effect::HardLink { path, to } => {
            *path = other(path)?;
            *to = other(to)?;
        }
        Effect::Write { path, .. }
        | Effect::Append { path, .. }
        | Effect::MakeDir { path, .. }
        | Effect::Symlink { path, .. }
        | Effect::Remove { path }
        | Effect::RemoveDir { path }
        | Effect::Chmod { path, .. }
        | Effect::SetTimes { path, .. }
        | Effect::Attribute { path, .. } => *path = other(path)?,
    }
    Some(())
}

/// Whether the text of a relative path leads out of its starting directory.
fn leads_out(path: &[u8]) -> bool {
    let mut depth = 0_usize;
    path.split(|&byte| byte == b'/').any(|part| match part {
        b"" | b"." => false,
        b".." if depth == 0 => true,
        b".." => {
            depth -= 1;
            false
        }
        _ => {
            depth += 1;
            false
        }
    })
}

/// Returns the key under which results wait for an equal result of another directory.
fn waiting(key: &WeakKey) -> WeakKey {
    let mut hasher = blake3::Hasher::new_derive_key("pcache result of one place");
    hasher.update(&key.0.0);
    WeakKey(Digest(*hasher.finalize().as_bytes()))
}

#[cfg(test)]
mod tests;
