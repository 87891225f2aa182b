//! Decides whether a result is the same in other directories.
//!
//! Everything a unit could know of its location is in its key or its facts, with names of base
//! directories. It remains to show that its effects do not depend on the paths of these here:
//!
//! - No file that it read mentions a base directory: such a mention could name files here,
//!   wherever the same bytes are read.
//! - No effect mentions a base directory, except in a compiler's dependency file
//!   (`dependency_files.rs`) and in directory messages of make (`make_output.rs`).
//! - If it looked at or wrote a file outside a base directory, but below an ancestor of the base
//!   directory, the path may derive from the base directory or not. So this ancestor has to be the
//!   same directory.
//! - Programs that may split paths must not have left a component in their output, or the
//!   component has to be the same.
//! - The result of an unknown program has to be seen twice, in different directories. It is then
//!   assumed to depend on nothing in which these differ.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::path_occurrences::{is_packed, is_part_in};
use super::{
    CommitTicket, Condition, Relocation, effect_paths, is_note, leads_out, note, waiting,
    with_paths,
};
use crate::model::fact::{Answer, Digest, Fact, Query};
use crate::model::outcome::{Effect, Outcome, StreamData};
use crate::model::path::FilePath;
use crate::model::weak_key::WeakKey;
use crate::platform::lock::lock;
use crate::policy::base_dirs::BaseDir;
use crate::policy::programs::PathUse;
use crate::store::Store;

/// Longer contents are not searched, in bytes.
const LONGEST: u64 = 512 << 20;
/// The maximal number of results of one key that wait for an equal result.
const WAITING: usize = 16;

/// Properties of a unit beside its result that decide whether it can move.
#[derive(Debug, Clone, Default)]
pub struct Moved {
    /// Its key with the names of base directories.
    pub key: Option<WeakKey>,
    /// The files from which it was started.
    pub images: Vec<(FilePath, Digest)>,
    /// The worst path use of its programs.
    pub path_use: PathUse,
    /// Conditions of skipped units below it.
    pub conditions: Vec<Fact>,
    /// If it is make: the options that replace a base directory, as given.
    pub maps: Vec<Vec<u8>>,
}

/// A result with names of base directories.
#[derive(Debug, Clone)]
pub struct Named {
    /// Facts on which it depends.
    pub facts: Vec<Vec<Fact>>,
    /// Its outcome.
    pub outcome: Outcome,
}

impl Relocation {
    /// Stores a result for other directories if it is movable, and returns it in its stored form.
    ///
    /// # Errors
    /// The reason why it is not movable.
    pub fn record(
        &self,
        store: &Store,
        moved: &Moved,
        batches: &[Vec<Fact>],
        outcome: &Outcome,
        turn: &CommitTicket,
    ) -> Result<Named, String> {
        let key = moved
            .key
            .ok_or("it its key could not be computed for other places")?;
        let batches = &self.without_walks(batches);
        let facts = || batches.iter().flatten();
        let images = moved.images.iter().map(|(path, digest)| (path, *digest));
        self.reads_nothing_of_it(&batches.concat(), images)?;
        let mut conditions: BTreeSet<(usize, Condition)> = BTreeSet::new();
        self.outside(facts(), outcome, &mut conditions)?;
        let mut named = self.name(batches, outcome)?;
        let mut parts = BTreeSet::new();
        let lists = self.left(store, facts(), outcome, (moved.path_use, turn), &mut parts)?;
        for (index, template) in lists {
            Self::keep_template(store, &mut named.outcome.effects[index], &template)?;
        }
        let told = |conditions: BTreeSet<(usize, Condition)>| {
            let conditions = conditions.into_iter();
            conditions.map(|(root, condition)| self.fact(condition, &self.base_dirs.all()[root]))
        };
        let mut conditions: Vec<Fact> = told(conditions).collect();
        conditions.extend(moved.conditions.iter().cloned());
        match moved.path_use {
            PathUse::Whole => {
                let made = contents(outcome).map(|(digest, _)| digest);
                self.lock_settled().extend(made);
                self.put(store, &key, named, conditions, moved.path_use)
            }
            PathUse::Parts => {
                if !parts.is_empty() {
                    // Another directory may leave the same words; then the results are compared
                    // there.
                    let _ = self.witness(store, &key, &named, conditions.clone());
                }
                conditions.extend(told(parts));
                self.put(store, &key, named, conditions, moved.path_use)
            }
            PathUse::Any => self.witness(store, &key, &named, conditions),
        }
    }

    /// Whether the part that made this content, a part of the unit with this ticket, is known not
    /// to depend on the directory.
    pub(super) fn is_settled(&self, digest: &Digest, turn: &CommitTicket) -> bool {
        self.lock_settled().contains(digest) || {
            turn.wait();
            self.lock_settled().contains(digest)
        }
    }

    pub(super) fn lock_settled(&self) -> std::sync::MutexGuard<'_, rustc_hash::FxHashSet<Digest>> {
        lock(&self.settled)
    }

    /// Removes facts of realpath(3) about ancestors of a base directory. That none of them is a
    /// link holds for every base directory, as its path is given without links.
    fn without_walks(&self, batches: &[Vec<Fact>]) -> Vec<Vec<Fact>> {
        let is_no_link = |fact: &&Fact| fact.answer == Answer::Error(libc::EINVAL);
        let facts = batches.iter().flatten().filter(is_no_link);
        let looked: std::collections::HashSet<&[u8]> = facts
            .filter_map(|fact| match &fact.query {
                Query::Link(path) => Some(path.as_bytes()),
                _ => None,
            })
            .collect();
        // A program that resolves a base directory this way looks at all its ancestors.
        let above: std::collections::HashSet<&[u8]> = self
            .base_dirs
            .all()
            .iter()
            .map(|root| root.above().collect::<Vec<&[u8]>>())
            .filter(|above| above.iter().all(|path| looked.contains(path)))
            .flatten()
            .filter(|path| !is_temporary(path))
            .collect();
        let stays = |fact: &&Fact| {
            let Query::Link(path) = &fact.query else {
                return true;
            };
            !(is_no_link(fact) && above.contains(path.as_bytes()))
        };
        batches
            .iter()
            .map(|batch| batch.iter().filter(stays).cloned().collect())
            .collect()
    }

    /// Returns conditions that follow from paths outside base directories, and from answers that
    /// lead there.
    fn outside<'f>(
        &self,
        facts: impl Iterator<Item = &'f Fact>,
        outcome: &Outcome,
        conditions: &mut BTreeSet<(usize, Condition)>,
    ) -> Result<(), String> {
        for fact in facts {
            for path in fact.query.paths() {
                self.outside_path(path, conditions)?;
            }
            if let Answer::Path(path) = &fact.answer {
                if self.answer(&fact.query, &fact.answer).is_none() {
                    let from = fact.query.paths().first();
                    let from = from.map(|from| from.display().to_string());
                    return Err(format!("{} leads into a root", from.unwrap_or_default()));
                }
                // The text of a link may lead anywhere; its target is a fact.
                if path.is_absolute() {
                    self.outside_path(path, conditions)?;
                } else if self.mention.is_in(path.as_bytes()) {
                    return Err(format!("the link {} mentions a root", path.display()));
                }
            }
        }
        for effect in &outcome.effects {
            let path = effect.path();
            self.outside_path(path, conditions)?;
            // The path is canonical, in whatever way the program reached it.
            if self.base_dirs.dir_of(path.as_bytes()).is_none() && !is_temporary(path.as_bytes()) {
                conditions
                    .extend((0..self.base_dirs.all().len()).map(|root| (root, Condition::Depth)));
            }
            if let Effect::HardLink { to, .. } = effect {
                self.outside_path(to, conditions)?;
            }
        }
        // Holds if the ancestors are the same.
        for (index, root) in self.base_dirs.all().iter().enumerate() {
            if root.depth() == 1 {
                conditions.insert((index, Condition::Depth));
            }
        }
        Ok(())
    }

    fn outside_path(
        &self,
        path: &FilePath,
        conditions: &mut BTreeSet<(usize, Condition)>,
    ) -> Result<(), String> {
        let plain = plain(path);
        let inside = self.base_dirs.dir_of(path.as_bytes());
        let rest = inside.map_or(plain.as_slice(), |(_, rest)| rest);
        if self.mention.is_in(rest) {
            return Err(format!("{} mentions a root", path.display()));
        }
        let is_out = inside.is_none_or(|(_, rest)| leads_out(rest));
        // A program that knows the name of the base directory can construct this path.
        if is_out && self.base_dirs.dir_of(&plain).is_some() {
            return Err(format!("{} leads into a root", path.display()));
        }
        if is_out && inside.is_some() {
            conditions.extend((0..self.base_dirs.all().len()).map(|root| (root, Condition::Depth)));
        }
        for (index, root) in self.base_dirs.all().iter().enumerate() {
            if root.below(&plain).is_some() || is_temporary(&plain) {
                continue;
            }
            let shared = common(root, &plain);
            if shared == 0 {
                continue;
            }
            conditions.insert((index, Condition::Up(root.depth() - shared)));
            // A name beside the base directory may derive from the base directory's name.
            let beside: Vec<&[u8]> = components(&plain).skip(shared).collect();
            for (at, part) in root.parts().rev().enumerate().take(root.depth() - shared) {
                if beside.iter().any(|beside| is_part_in(part, beside)) {
                    conditions.insert((index, Condition::Part(at)));
                }
            }
        }
        Ok(())
    }

    /// Replaces paths of base directories by names in a result.
    fn name(&self, batches: &[Vec<Fact>], outcome: &Outcome) -> Result<Named, String> {
        let mut named = |path: &FilePath| Some(self.base_dirs.named(path));
        let lost = || "a path has no name".to_owned();
        let mut facts = Vec::with_capacity(batches.len() + 1);
        for batch in batches.iter().filter(|batch| !batch.is_empty()) {
            let mut here = Vec::with_capacity(batch.len());
            for fact in batch {
                here.push(Fact {
                    query: with_paths(&fact.query, &mut named).ok_or_else(lost)?,
                    answer: self.answer(&fact.query, &fact.answer).ok_or_else(lost)?,
                });
            }
            facts.push(here);
        }
        let mut outcome = outcome.clone();
        for effect in &mut outcome.effects {
            effect_paths(effect, &mut named).ok_or_else(lost)?;
        }
        for chunk in &mut outcome.stream {
            if let StreamData::Place(said) = &mut chunk.data
                && let Some(named) = self.with_names(said)
            {
                *said = named;
            }
        }
        Ok(Named { facts, outcome })
    }

    /// Checks that no effect mentions a base directory, or may do so undetected. Excepted effects
    /// are returned by their number, with templates of their contents.
    fn left<'f>(
        &self,
        store: &Store,
        facts: impl Iterator<Item = &'f Fact>,
        outcome: &Outcome,
        (path_use, turn): (PathUse, &CommitTicket),
        conditions: &mut BTreeSet<(usize, Condition)>,
    ) -> Result<Vec<(usize, Vec<u8>)>, String> {
        let mut lists = Vec::new();
        let read: std::collections::HashSet<Digest> = facts
            .filter_map(|fact| match (&fact.query, &fact.answer) {
                (Query::Content(_), Answer::File(digest)) => Some(*digest),
                _ => None,
            })
            .collect();
        let mut texts: Vec<Vec<u8>> = Vec::new();
        for chunk in &outcome.stream {
            let bytes = match &chunk.data {
                StreamData::Place(said) if self.with_names(said).is_some() => {
                    self.without_directories(said)
                }
                StreamData::Place(said) => said.clone(),
                StreamData::Inline(bytes) => bytes.clone(),
                StreamData::Stored(digest, _) => {
                    store.get_bytes(digest).map_err(|error| error.to_string())?
                }
            };
            if self.mention.is_in(&bytes) {
                return Err("its output mentions a root".to_owned());
            }
            texts.push(bytes);
        }
        for effect in &outcome.effects {
            if let Effect::Symlink { target, path } = effect {
                if self.mention.is_in(target.as_bytes()) {
                    return Err(format!("{} leads to a root", path.display()));
                }
                texts.push(target.as_bytes().to_vec());
            }
            let path = effect.path().as_bytes();
            let rest = self.base_dirs.dir_of(path).map_or(path, |(_, rest)| rest);
            if !is_temporary(path) {
                texts.push(rest.to_vec());
            }
        }
        for (index, effect) in outcome.effects.iter().enumerate() {
            let Some((effect, digest, length)) = content(effect) else {
                continue;
            };
            // A copied content is the same in all directories.
            if read.contains(&digest) {
                continue;
            }
            let shown = effect.path().display();
            if length > LONGEST {
                return Err(format!("{shown} is too long to be looked through"));
            }
            let bytes = store
                .get_bytes(&digest)
                .map_err(|error| error.to_string())?;
            if self.contains_paths(&digest, &bytes) {
                let is_compilers = path_use == PathUse::Whole || self.is_settled(&digest, turn);
                let is_list = effect.path().as_bytes().ends_with(b".d");
                if is_compilers
                    && is_list
                    && let Some(template) = self.template(&bytes)
                {
                    lists.push((index, template));
                    continue;
                }
                return Err(format!("{shown} mentions a root"));
            }
            if self.is_settled(&digest, turn) {
                continue;
            }
            if path_use != PathUse::Any && is_packed(&bytes) {
                return Err(format!("{shown} is packed, and may mention a root"));
            }
            if path_use == PathUse::Parts {
                texts.push(bytes);
            }
        }
        if path_use == PathUse::Parts {
            for (index, root) in self.base_dirs.all().iter().enumerate() {
                for (at, part) in root.parts().rev().enumerate() {
                    if texts.iter().any(|text| is_part_in(part, text)) {
                        conditions.insert((index, Condition::Part(at)));
                    }
                }
            }
        }
        Ok(lists)
    }

    fn put(
        &self,
        store: &Store,
        key: &WeakKey,
        named: Named,
        conditions: Vec<Fact>,
        path_use: PathUse,
    ) -> Result<Named, String> {
        let mut first = conditions;
        if path_use == PathUse::Whole {
            first.push(whole());
        }
        first.sort_by(|a, b| a.query.cmp(&b.query));
        first.dedup();
        let mut named = named;
        if !first.is_empty() {
            named.facts.insert(0, first);
        }
        store
            .record(key, named.facts.clone(), &named.outcome)
            .map_err(|error| error.to_string())?;
        Ok(named)
    }

    /// Stores the result of an unknown program, if another directory has seen the same.
    fn witness(
        &self,
        store: &Store,
        key: &WeakKey,
        named: &Named,
        conditions: Vec<Fact>,
    ) -> Result<Named, String> {
        let place = waiting(key);
        let others = store.results(&place).map_err(|error| error.to_string())?;
        let here: Vec<Fact> = self.base_dirs.all().iter().map(place_of).collect();
        let all = |facts: &mut dyn Iterator<Item = &Fact>| {
            let mut facts: Vec<Fact> = facts
                .filter(|fact| !is_note(&fact.query))
                .cloned()
                .collect();
            facts.sort_by(|a, b| a.query.cmp(&b.query));
            facts.dedup();
            facts
        };
        let ours = all(&mut named.facts.iter().flatten());
        let mut is_known = false;
        let is_full = others.len() >= WAITING;
        for other in others {
            let Some(outcome) = &other.outcome else {
                continue;
            };
            if !same(outcome, &named.outcome) || all(&mut other.facts.iter()) != ours {
                continue;
            }
            let notes = other.facts.iter().filter(|fact| is_note(&fact.query));
            let there: Vec<Fact> = notes.cloned().collect();
            if here.iter().all(|fact| there.contains(fact)) {
                is_known = true;
                continue;
            }
            let agreed = self.agreed(&there)?;
            let conditions = conditions.into_iter().chain(agreed).collect();
            return self.put(store, key, named.clone(), conditions, PathUse::Any);
        }
        if !is_known && !is_full {
            let mut facts = named.facts.clone();
            facts.insert(0, here);
            store
                .record(&place, facts, &named.outcome)
                .map_err(|error| error.to_string())?;
        }
        Err("nobody knows whether it is the same elsewhere until it has run elsewhere".to_owned())
    }

    /// Returns facts on which two directories agree, as the result may depend on them.
    fn agreed(&self, there: &[Fact]) -> Result<Vec<Fact>, String> {
        let mut agreed = Vec::new();
        for root in self.base_dirs.all() {
            let wanted = place_of(root).query;
            let other = there.iter().find(|fact| fact.query == wanted);
            let Some(Answer::Path(path)) = other.map(|fact| &fact.answer) else {
                return Err("it has other roots elsewhere".to_owned());
            };
            let other = BaseDir {
                name: root.name.clone(),
                path: path.as_bytes().to_vec(),
            };
            let parts = root.depth();
            let candidates = [Condition::Depth, Condition::Length]
                .into_iter()
                .chain((0..parts).map(Condition::Part))
                .chain((0..parts).map(Condition::Head));
            for condition in candidates {
                if self.holds(condition, root) == self.holds(condition, &other) {
                    agreed.push(self.fact(condition, root));
                }
            }
        }
        Ok(agreed)
    }

    /// Returns the conditions and path use that a skipped unit adds to its parent. `None` is a
    /// result of this directory.
    pub fn path_requirements(&self, outcome: &Outcome) -> (PathUse, Vec<Fact>) {
        let Some(conditions) = &outcome.conditions else {
            return (PathUse::Any, Vec::new());
        };
        let whole = whole();
        let is_whole = conditions.contains(&whole);
        if is_whole {
            let made = contents(outcome).map(|(digest, _)| digest);
            self.lock_settled().extend(made);
        }
        let path_use = if is_whole {
            PathUse::Whole
        } else {
            PathUse::Parts
        };
        let conditions = conditions.iter().filter(|fact| **fact != whole).cloned();
        (path_use, conditions.collect())
    }
}

/// A note that all programs of the result leave paths unchanged.
pub(super) fn whole() -> Fact {
    Fact {
        query: note("whole"),
        answer: Answer::Granted,
    }
}

/// A fact with the path of a base directory.
fn place_of(root: &BaseDir) -> Fact {
    Fact {
        query: note(&format!("at\0{}", root.name)),
        answer: Answer::Path(FilePath::from(root.path.as_slice())),
    }
}

/// Whether two runs left the same result, regardless of time.
fn same(one: &Outcome, other: &Outcome) -> bool {
    let timeless = |outcome: &Outcome| {
        let mut outcome = outcome.clone();
        let effects = &mut outcome.effects;
        effects.retain(|effect| !effect.follows_from_others());
        Outcome {
            ages: Vec::new(),
            facts: Vec::new(),
            conditions: None,
            cpu_us: 0,
            wall_us: 0,
            ..outcome
        }
    };
    timeless(one) == timeless(other)
}

/// Whether programs use this path regardless of the base directory: a directory for temporary
/// files, or a file that a compiler makes there.
fn is_temporary(path: &[u8]) -> bool {
    let Some(rest) = [&b"/tmp"[..], b"/var/tmp"]
        .iter()
        .find_map(|dir| path.strip_prefix(*dir))
    else {
        return false;
    };
    let is_compilers = |name: &[u8]| {
        let (random, end) = name.split_at_checked(6).unwrap_or_default();
        let letters = random.iter().all(u8::is_ascii_alphanumeric);
        let is_end = |byte: &u8| byte.is_ascii_lowercase() || *byte == b'.';
        letters && end.starts_with(b".") && end.iter().all(is_end)
    };
    rest.is_empty() || rest.strip_prefix(b"/cc").is_some_and(is_compilers)
}

/// Returns an effect's content with its length.
fn content(effect: &Effect) -> Option<(&Effect, Digest, u64)> {
    match effect {
        Effect::Write {
            content, length, ..
        } => Some((effect, *content, *length)),
        Effect::Append { data, length, .. } => Some((effect, *data, *length)),
        _ => None,
    }
}

fn contents(outcome: &Outcome) -> impl Iterator<Item = (Digest, u64)> + '_ {
    let effects = outcome.effects.iter().filter_map(content);
    effects.map(|(_, digest, length)| (digest, length))
}

/// Removes `..` components from a path by its text. Links on the way are separate facts.
fn plain(path: &Path) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in components(path.as_os_str().as_bytes()) {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let mut plain = Vec::new();
    for part in parts {
        plain.push(b'/');
        plain.extend_from_slice(part);
    }
    if plain.is_empty() {
        plain.push(b'/');
    }
    plain
}

fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').skip(1)
}

/// Returns how many leading components a path has in common with a base directory.
fn common(root: &BaseDir, plain: &[u8]) -> usize {
    let both = root.parts().zip(components(plain));
    both.take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_for_temporary_files_are_recognised() {
        for path in [
            "/tmp",
            "/var/tmp",
            "/tmp/ccjN5XKa.s",
            "/tmp/ccjN5XKa.cdtor.o",
        ] {
            assert!(is_temporary(path.as_bytes()), "{path}");
        }
        for path in [
            "/tmp2",
            "/tmp/x",
            "/tmp/cc.s",
            "/tmp/ccjN5XKa",
            "/tmp/ccjN5X/a.s",
            "/tmp/cc/ab/c.s",
        ] {
            assert!(!is_temporary(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn texts_of_paths_become_plain() {
        for (path, expected) in [
            ("/a/./b//c/", "/a/b/c"),
            ("/a/../b", "/b"),
            ("/../a", "/a"),
            ("/a/..", "/"),
        ] {
            assert_eq!(plain(Path::new(path)), expected.as_bytes(), "{path}");
        }
    }
}
