//! Compares the facts of two results.

use rustc_hash::{FxHashMap, FxHashSet};

use super::reason::{Kind, Reason};
use crate::model::fact::{Answer, Fact, Metadata, Part, Query};
use crate::model::outcome::Effect;
use crate::model::path::FilePath;
use crate::store::Recorded;

/// Returns the differences between the result `serial` and the result `last` among `results`.
/// Without `last`, this compares with the nearest earlier result. Also returns the serial number
/// of the compared result.
pub fn against(results: &[Recorded], serial: u64, last: Option<u64>) -> Option<(u64, Vec<Reason>)> {
    let new = results.iter().find(|result| result.serial == serial)?;
    let earlier = results.iter().filter(|result| result.serial < serial);
    let compared = earlier.map(|old| (old.serial, differences(old, new)));
    let mut compared: Vec<(u64, Vec<Reason>)> = compared.collect();
    if let Some(at) = compared
        .iter()
        .position(|(serial, _)| Some(*serial) == last)
    {
        let (serial, mut list) = compared.swap_remove(at);
        // Without another difference it is the order of times, now compared with those of other
        // files.
        if list.is_empty() && is_ordered(new) {
            list.push(ordered());
        }
        if !list.is_empty() {
            return Some((serial, list));
        }
    }
    compared.into_iter().min_by_key(|(serial, list)| {
        let real = list.iter().filter(|reason| !reason.own_product).count();
        (
            list.is_empty(),
            real,
            list.len(),
            std::cmp::Reverse(*serial),
        )
    })
}

/// Returns the differences between the facts of two results, one reason for each path.
///
/// Only queries of both results count: a query of only one of them follows from an earlier
/// difference.
pub fn differences(old: &Recorded, new: &Recorded) -> Vec<Reason> {
    let known: FxHashMap<&Query, &Answer> = old
        .facts
        .iter()
        .map(|Fact { query, answer }| (query, answer))
        .collect();
    let outcomes = [&old.outcome, &new.outcome].into_iter().flatten();
    let own: FxHashSet<&FilePath> = outcomes
        .flat_map(|outcome| &outcome.effects)
        .map(Effect::path)
        .collect();
    let mut reasons: Vec<Reason> = Vec::new();
    let mut places: FxHashMap<String, usize> = FxHashMap::default();
    for Fact { query, answer } in &new.facts {
        let Some(before) = known.get(query).filter(|before| **before != answer) else {
            continue;
        };
        let mut reason = reason(query, before, answer);
        reason.own_product = query.paths().iter().any(|path| own.contains(path));
        match places.get(&reason.subject) {
            Some(&at) if reasons[at].rank() <= reason.rank() => {}
            Some(&at) => reasons[at] = reason,
            None => {
                places.insert(reason.subject.clone(), reasons.len());
                reasons.push(reason);
            }
        }
    }
    // Differences of a listing follow from files that appeared in the directory.
    let appeared: FxHashSet<String> = reasons
        .iter()
        .filter(|reason| matches!(reason.kind, Kind::Appeared | Kind::Gone))
        .filter_map(|reason| Some(reason.subject.rsplit_once('/')?.0.to_owned()))
        .collect();
    reasons.retain(|reason| {
        !(matches!(reason.kind, Kind::Listing | Kind::Metadata)
            && appeared.contains(&reason.subject))
    });
    reasons
}

/// Whether a unit compared times of files.
fn is_ordered(result: &Recorded) -> bool {
    let mut facts = result.facts.iter();
    facts.any(|fact| matches!(fact.query, Query::Order(_)))
}

fn ordered() -> Reason {
    Reason::new(Kind::Order, "the order of modification times differs")
}

/// Returns a differing fact as a reason.
pub fn reason(query: &Query, old: &Answer, new: &Answer) -> Reason {
    if let Query::Order(_) = query {
        return ordered();
    }
    let path = query.paths().first();
    let path = path.map_or_else(String::new, |path| path.display().to_string());
    let missing = |answer: &Answer| matches!(answer, Answer::Error(libc::ENOENT | libc::ENOTDIR));
    match (missing(old), missing(new)) {
        (true, false) => return Reason::new(Kind::Appeared, path).values(None, thing(new)),
        (false, true) => return Reason::new(Kind::Gone, path).values(thing(old), None),
        _ => {}
    }
    let values = |reason: Reason| reason.values(thing(old), thing(new));
    match (query, old, new) {
        (Query::Inode { .. }, Answer::Metadata(was), Answer::Metadata(is)) => {
            let number = |data: &Metadata| Some(data.inode.1.to_string());
            let words = crate::model::miss::change(query, old, new);
            Reason::new(Kind::Other, words).values(number(was), number(is))
        }
        (_, Answer::Metadata(old), Answer::Metadata(new)) => metadata(path, old, new),
        (Query::Content(_), ..) => values(Reason::new(Kind::Content, path)),
        (Query::Link(_), ..) => values(Reason::new(Kind::Link, path)),
        (Query::List(_), ..) => Reason::new(Kind::Listing, path),
        (Query::Access { .. } | Query::Permissions(_), ..) => {
            values(Reason::new(Kind::Permission, path))
        }
        (Query::LeftOut(part), ..) => {
            let kind = match part {
                Part::Input | Part::Output | Part::Size => Kind::Descriptor,
                Part::Nesting => Kind::Variable,
            };
            Reason::new(kind, crate::model::miss::change(query, old, new))
        }
        (Query::Stat { .. } | Query::Inode { .. }, ..) => values(Reason::new(Kind::Metadata, path)),
        _ => values(Reason::new(
            Kind::Other,
            crate::model::miss::change(query, old, new),
        )),
    }
}

/// Returns differing metadata as a reason: the content, if it counts instead of the time.
fn metadata(path: String, old: &Metadata, new: &Metadata) -> Reason {
    if old.content != new.content
        && let (Some(old), Some(new)) = (old.content, new.content)
    {
        let thing = |digest| thing(&Answer::File(digest));
        return Reason::new(Kind::Content, path).values(thing(old), thing(new));
    }
    type Field = (&'static str, fn(&Metadata) -> String);
    let plain: [Field; 5] = [
        ("mode", |data| format!("{:o}", data.mode)),
        ("size", |data| data.size.to_string()),
        ("owner", |data| format!("{}:{}", data.uid, data.gid)),
        ("links", |data| data.links.to_string()),
        ("modified", |data| time(data.modified)),
    ];
    // These change together with the others.
    let hidden: [Field; 2] = [
        ("changed", |data| time(data.changed)),
        ("inode", |data| data.inode.1.to_string()),
    ];
    let differing = |fields: &[Field]| -> [Vec<String>; 2] {
        let fields = fields.iter().filter(|(_, value)| value(old) != value(new));
        let words = |data: &Metadata| {
            let word = |(name, value): &Field| format!("{name} {}", value(data));
            fields.clone().map(word).collect()
        };
        [words(old), words(new)]
    };
    let mut words = differing(&plain);
    if words[0].is_empty() {
        words = differing(&hidden);
    }
    let only_mode = old.mode != new.mode && words[0].len() == 1;
    let kind = if only_mode {
        Kind::Permission
    } else {
        Kind::Metadata
    };
    let [old, new] = words.map(|list| (!list.is_empty()).then(|| list.join(", ")));
    Reason::new(kind, path).values(old, new)
}

fn time(ns: i128) -> String {
    let us = u64::try_from(ns / 1000).unwrap_or(0);
    let rest = ns.rem_euclid(1_000_000_000);
    format!("{}.{rest:09}", crate::platform::clock::local(us))
}

/// Describes an answer in words.
fn thing(answer: &Answer) -> Option<String> {
    Some(match answer {
        Answer::Error(errno) => std::io::Error::from_raw_os_error(*errno).to_string(),
        Answer::File(digest) => format!("content {}", &digest.to_string()[..8]),
        Answer::Directory => "a directory".to_owned(),
        Answer::Special { .. } => "a file".to_owned(),
        Answer::Metadata(data) => format!("mode {:o}, {} bytes", data.mode, data.size),
        Answer::Granted => "granted".to_owned(),
        Answer::Path(path) => path.display().to_string(),
        Answer::Writable => "a plain file or nothing".to_owned(),
        Answer::Summary(_) | Answer::Unknown(_) => return None,
    })
}
