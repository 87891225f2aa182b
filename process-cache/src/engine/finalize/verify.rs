//! Compares the result of a unit that ran again with the stored result.
//!
//! Two runs with equal facts may leave different results. Then the program depends on something
//! unobserved (random numbers, addresses, thread order), or a result is wrong. Ages of files are
//! not compared: they depend on the clock's ticks.

use std::collections::BTreeMap;

use crate::model::fact::{Digest, Fact};
use crate::model::outcome::{Effect, Outcome};
use crate::model::path::FilePath;
use crate::model::weak_key::WeakKey;
use crate::store::Store;
use crate::store::stream::stream;

/// Describes each difference between a run and the newest stored result with the same facts;
/// `None` if there is no such result.
pub(super) fn differences(
    store: &Store,
    key: &WeakKey,
    facts: &[Vec<Fact>],
    outcome: &Outcome,
) -> Option<Vec<String>> {
    let sorted = |facts: &mut dyn Iterator<Item = &Fact>| {
        let mut facts: Vec<Fact> = facts.cloned().collect();
        facts.sort_by(|a, b| a.query.cmp(&b.query));
        facts.dedup();
        facts
    };
    let ours = sorted(&mut facts.iter().flatten());
    let stored = store.results(key).unwrap_or_default();
    let stored = stored.into_iter().rev().find_map(|result| {
        let is_same = sorted(&mut result.facts.iter()) == ours;
        result.outcome.filter(|_| is_same)
    })?;
    Some(compare(store, &stored, outcome))
}

fn compare(store: &Store, stored: &Outcome, now: &Outcome) -> Vec<String> {
    let mut found = Vec::new();
    if stored.ending != now.ending {
        found.push(format!("ended {:?}, not {:?}", now.ending, stored.ending));
    }
    let written = |outcome: &Outcome| {
        let mut written: BTreeMap<i32, Vec<u8>> = BTreeMap::new();
        for (fd, bytes) in stream(store, outcome).unwrap_or_default() {
            written.entry(fd).or_default().extend_from_slice(&bytes);
        }
        written
    };
    let (before, after) = (written(stored), written(now));
    let nothing = Vec::new();
    for fd in before
        .keys()
        .chain(after.keys().filter(|fd| !before.contains_key(fd)))
    {
        let texts = [&before, &after].map(|all| all.get(fd).unwrap_or(&nothing));
        if let Some(at) = first_difference(texts) {
            found.push(format!(
                "output on descriptor {fd} differs from byte {at} on"
            ));
        }
    }
    let by_path = |outcome: &Outcome| {
        let mut effects: BTreeMap<FilePath, Vec<Effect>> = BTreeMap::new();
        let own = outcome.effects.iter();
        for effect in own.filter(|effect| !effect.follows_from_others()) {
            let mut effect = effect.clone();
            if let Effect::Write { holes, .. } = &mut effect {
                *holes = false;
            }
            effects
                .entry(effect.path().clone())
                .or_default()
                .push(effect);
        }
        effects
    };
    let (before, mut after) = (by_path(stored), by_path(now));
    for (path, effects) in before {
        let shown = path.display();
        match after.remove(&path) {
            None => found.push(format!("{shown} was not touched this time")),
            Some(others) if others != effects => {
                let contents = [content(&effects), content(&others)];
                let bytes = contents.map(|digest| store.get_bytes(&digest?).ok());
                let at = match &bytes {
                    [Some(one), Some(other)] => first_difference([one, other]),
                    _ => None,
                };
                found.push(match at {
                    Some(at) => format!("{shown} differs from byte {at} on"),
                    None => format!("{shown} was changed in another way"),
                });
            }
            Some(_) => {}
        }
    }
    let more = after.keys().map(|path| path.display().to_string());
    found.extend(more.map(|path| format!("{path} was not touched before")));
    found
}

/// Returns the position of the first difference of two byte strings.
fn first_difference([one, other]: [&Vec<u8>; 2]) -> Option<usize> {
    let common = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    (one.len() != other.len() || common < one.len()).then_some(common)
}

/// Returns the last content among these effects.
fn content(effects: &[Effect]) -> Option<Digest> {
    effects.iter().rev().find_map(|effect| match effect {
        Effect::Write { content, .. } => Some(*content),
        Effect::Append { data, .. } => Some(*data),
        _ => None,
    })
}
