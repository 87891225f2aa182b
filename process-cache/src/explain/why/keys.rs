//! Compares weak keys: finds the nearest earlier unit and the differences.

use rustc_hash::{FxHashMap, FxHashSet};

use super::reason::{Kind, Reason};
use super::{Explainer, Place};
use crate::journal::{Entry, Run, secrets};
use crate::model::abbreviate;

/// Number of earlier runs that are searched.
const RUNS: usize = 64;
/// Minimal share of common words of two commands, in percent.
const ALIKE: usize = 50;

/// Common words, whether the directory is the same, whether the unit belongs to the state before
/// the run, the run, an inverse count of differences, and the unit's number. Higher is better.
type Score = (usize, bool, bool, usize, usize, u32);

/// Finds the earlier unit that is most like this one. It has the same program and the most common
/// words in its arguments. Units of the state before the run are preferred, and among these the
/// one whose key differs least. Units with the same arguments that ran again in the same run are
/// excluded.
pub fn nearest(all: &Explainer<'_>, place: Place, run: &Run, unit: &Entry) -> Option<Place> {
    let program = run.text(unit.program);
    let argv = run.argv(unit);
    let words = words(&argv);
    let again: FxHashSet<(&[u8], Vec<Vec<u8>>)> = run
        .units
        .iter()
        .map(|other| (run.text(other.program), run.argv(other)))
        .filter(|other| other.1 != argv)
        .collect();
    let before = all.before(place.0);
    let first = place.0.saturating_sub(RUNS);
    let mut best: Option<(Score, Place)> = None;
    for (at, earlier) in all
        .history
        .runs
        .iter()
        .enumerate()
        .take(place.0)
        .skip(first)
    {
        for (number, other) in earlier.numbered() {
            if earlier.text(other.program) != program || other.key.is_none() {
                continue;
            }
            let their_argv = earlier.argv(other);
            let (common, alike) = likeness(&words, &their_argv);
            if alike < ALIKE || best.as_ref().is_some_and(|(score, _)| common < score.0) {
                continue;
            }
            let key = (program, their_argv);
            if again.contains(&key) {
                continue;
            }
            let there = (at, number);
            let same_place = earlier.text(other.cwd) == run.text(unit.cwd);
            let count = differences((earlier, other), (run, unit)).len();
            let was_there = before.contains(&there);
            let score = (
                common,
                same_place,
                was_there,
                at,
                usize::MAX - count,
                number,
            );
            if best.as_ref().is_none_or(|(known, _)| score > *known) {
                best = Some((score, there));
            }
        }
    }
    best.map(|(_, there)| there)
}

/// Returns the words of arguments, with their numbers of occurrences.
fn words(argv: &[Vec<u8>]) -> FxHashMap<Vec<u8>, usize> {
    let mut words: FxHashMap<Vec<u8>, usize> = FxHashMap::default();
    for word in argv
        .iter()
        .flat_map(|arg| arg.split(u8::is_ascii_whitespace))
    {
        *words.entry(word.to_vec()).or_default() += 1;
    }
    words
}

/// Returns the number of common words, and its percentage of all words.
fn likeness(ours: &FxHashMap<Vec<u8>, usize>, theirs: &[Vec<u8>]) -> (usize, usize) {
    let theirs = words(theirs);
    let common: usize = ours
        .iter()
        .map(|(word, count)| (*count).min(theirs.get(word).copied().unwrap_or(0)))
        .sum();
    let all: usize = ours.values().sum::<usize>() + theirs.values().sum::<usize>();
    (common, (200 * common).checked_div(all).unwrap_or(0))
}

/// Returns the differences between the inputs of two keys.
pub fn differences(old: (&Run, &Entry), new: (&Run, &Entry)) -> Vec<Reason> {
    let mut reasons = Vec::new();
    arguments(&old.0.argv(old.1), &new.0.argv(new.1), &mut reasons);
    let (mut was, mut is) = (environment(old), environment(new));
    let below = |variables: &FxHashMap<Vec<u8>, Vec<u8>>, (run, unit): (&Run, &Entry)| {
        let above = variables.get(&b"PWD"[..])?.strip_prefix(b"PWD=")?;
        run.text(unit.cwd).strip_prefix(above).map(<[u8]>::to_vec)
    };
    // The difference follows from that of the directory.
    if below(&was, old).is_some_and(|rest| below(&is, new) == Some(rest)) {
        was.remove(&b"PWD"[..]);
        is.remove(&b"PWD"[..]);
    }
    environments(&was, &is, &mut reasons);
    let text = |(run, _): (&Run, &Entry), number| secrets::show(run.text(number));
    let (before, now) = (text(old, old.1.cwd), text(new, new.1.cwd));
    if before != now {
        let reason = Reason::new(Kind::Directory, "working directory");
        reasons.push(reason.values(Some(before), Some(now)));
    }
    let before: FxHashMap<String, [u8; 8]> = images(old);
    for (path, digest) in images(new) {
        match before.get(&path) {
            Some(known) if *known == digest => {}
            // The same content at another path, as an earlier difference says.
            None if !reasons.is_empty() && before.values().any(|known| *known == digest) => {}
            known => {
                let short = |digest: &[u8; 8]| {
                    let hex: String = digest[..4].iter().map(|b| format!("{b:02x}")).collect();
                    format!("content {hex}")
                };
                let reason = Reason::new(Kind::Program, path);
                reasons.push(reason.values(known.map(short), Some(short(&digest))));
            }
        }
    }
    if old.1.machine != new.1.machine {
        let what = "the machine is another one (processor, personality or user ids)";
        reasons.push(Reason::new(Kind::Machine, what));
    }
    process(
        &text(old, old.1.process),
        &text(new, new.1.process),
        &mut reasons,
    );
    limits(
        &text(old, old.1.limits),
        &text(new, new.1.limits),
        &mut reasons,
    );
    let descriptors = |(run, unit): (&Run, &Entry)| -> Vec<String> {
        let text = |number: &u32| secrets::show(run.text(*number));
        unit.descriptors.iter().map(text).collect()
    };
    descriptors_differ(&descriptors(old), &descriptors(new), &mut reasons);
    reasons
}

fn arguments(old: &[Vec<u8>], new: &[Vec<u8>], reasons: &mut Vec<Reason>) {
    if old == new {
        return;
    }
    let without = |all: &[Vec<u8>], others: &[Vec<u8>]| {
        let mut others = others.to_vec();
        let mut rest = Vec::new();
        for arg in all {
            match others.iter().position(|other| other == arg) {
                Some(at) => drop(others.swap_remove(at)),
                None => rest.push(abbreviate::value(&secrets::show(arg))),
            }
        }
        rest
    };
    let (gone, come) = (without(old, new), without(new, old));
    if gone.is_empty() && come.is_empty() {
        let all: Vec<String> = new.iter().map(|arg| secrets::show(arg)).collect();
        reasons.push(Reason::new(
            Kind::Argument,
            abbreviate::value(&all.join(" ")),
        ));
    }
    for at in 0..gone.len().max(come.len()) {
        let (old, new) = (gone.get(at).cloned(), come.get(at).cloned());
        let subject = new.clone().or_else(|| old.clone()).unwrap_or_default();
        reasons.push(Reason::new(Kind::Argument, subject).values(old, new));
    }
}

fn environment((run, unit): (&Run, &Entry)) -> FxHashMap<Vec<u8>, Vec<u8>> {
    let set = run.environments.get(unit.environment as usize);
    let texts = set.into_iter().flatten().map(|number| run.text(*number));
    texts
        .map(|text| {
            let end = text.iter().position(|byte| *byte == b'=' || *byte == 0);
            (text[..end.unwrap_or(text.len())].to_vec(), text.to_vec())
        })
        .collect()
}

fn environments(
    old: &FxHashMap<Vec<u8>, Vec<u8>>,
    new: &FxHashMap<Vec<u8>, Vec<u8>>,
    reasons: &mut Vec<Reason>,
) {
    let value = |text: &Vec<u8>| {
        let shown = secrets::show(text);
        let value = shown.split_once('=').map_or("", |(_, value)| value);
        format!("{value:?}")
    };
    let mut names: Vec<&Vec<u8>> = old.keys().chain(new.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let (before, now) = (old.get(name), new.get(name));
        if before != now {
            let mut values = match (before.map(value), now.map(value)) {
                (Some(before), Some(now)) => {
                    let (before, now) = abbreviate::values(&before, &now);
                    (Some(before), Some(now))
                }
                (before, now) => (
                    before.as_deref().map(abbreviate::value),
                    now.as_deref().map(abbreviate::value),
                ),
            };
            if [before, now]
                .into_iter()
                .flatten()
                .any(|text| secrets::name_of_masked(text).is_some())
            {
                let hidden = |text: Option<&Vec<u8>>| text.map(|_| "(not shown)".to_owned());
                values = (hidden(before), hidden(now));
            }
            let name = String::from_utf8_lossy(name);
            reasons.push(Reason::new(Kind::Variable, name).values(values.0, values.1));
        }
    }
}

fn images((run, unit): (&Run, &Entry)) -> FxHashMap<String, [u8; 8]> {
    let path = |number: u32| String::from_utf8_lossy(run.text(number)).into_owned();
    unit.images
        .iter()
        .map(|(number, digest)| (path(*number), *digest))
        .collect()
}

/// Compares lines of `/proc/PID/status`.
fn process(old: &str, new: &str, reasons: &mut Vec<Reason>) {
    if old == new {
        return;
    }
    let what = |line: &str| match line.split(':').next().unwrap_or_default() {
        "Umask" => "file-creation mask",
        "Uid" | "Gid" | "Groups" => "user or groups",
        "SigBlk" => "blocked signals",
        "Cpus_allowed" => "processors it may use",
        name if name.starts_with("Cap") => "capabilities",
        _ => "ignored signals",
    };
    let split = |text: &str| -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for word in text.split_ascii_whitespace() {
            match lines.last_mut() {
                // Ignored signals have no label and follow the blocked ones.
                Some(line) if line.starts_with("SigBlk: ") && !word.ends_with(':') => {
                    lines.push(format!("SigIgn: {word}"));
                }
                Some(line) if !word.ends_with(':') && line.contains(':') => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
        lines
    };
    let (old, new) = (split(old), split(new));
    for (old, new) in old.iter().zip(&new) {
        if old != new {
            let reason = Reason::new(Kind::Process, format!("{} changed", what(new)));
            reasons.push(reason.values(Some(old.clone()), Some(new.clone())));
        }
    }
}

/// Names of limits in the order of their numbers.
const LIMITS: [&str; 16] = [
    "CPU time",
    "file size",
    "data size",
    "stack size",
    "core size",
    "resident set",
    "processes",
    "open files",
    "locked memory",
    "address space",
    "file locks",
    "pending signals",
    "message queues",
    "nice",
    "real-time priority",
    "real-time timeout",
];

fn limits(old: &str, new: &str, reasons: &mut Vec<Reason>) {
    let pairs = |text: &str| -> Vec<String> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        words.chunks(2).map(|pair| pair.join("/")).collect()
    };
    for (at, (old, new)) in pairs(old).into_iter().zip(pairs(new)).enumerate() {
        if old != new {
            let name = LIMITS.get(at).copied().unwrap_or("another resource");
            let reason = Reason::new(Kind::Process, format!("limit of {name} changed"));
            let shown = |text: String| text.replace(&u64::MAX.to_string(), "unlimited");
            reasons.push(reason.values(Some(shown(old)), Some(shown(new))));
        }
    }
}

fn descriptors_differ(old: &[String], new: &[String], reasons: &mut Vec<Reason>) {
    let number = |text: &String| text.split(' ').next().unwrap_or_default().to_owned();
    let mut numbers: Vec<String> = old.iter().chain(new).map(number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    for fd in numbers {
        let find = |all: &[String]| all.iter().find(|text| number(text) == fd).cloned();
        let (before, now) = (find(old), find(new));
        if before != now {
            let words = |text: Option<String>| {
                text.map(|text| {
                    let mut parts = text.split(' ').skip(1);
                    match parts.clone().count() {
                        0..=4 => parts.collect::<Vec<_>>().join(" "),
                        // The first four words are access modes.
                        _ => parts.by_ref().skip(4).collect::<Vec<_>>().join(" "),
                    }
                })
            };
            let name = match fd.as_str() {
                "0" => "standard input".to_owned(),
                "1" => "standard output".to_owned(),
                "2" => "standard error".to_owned(),
                fd => format!("descriptor {fd}"),
            };
            let (before, now) = (words(before), words(now));
            if let (Some(before), Some(now)) = (within(&before), within(&now))
                && before != now
            {
                let what = format!("{name} has another offset in its file");
                reasons.push(Reason::new(Kind::Descriptor, what).values(Some(before), Some(now)));
                continue;
            }
            let how = match (&before, &now) {
                (None, _) => "is open",
                (_, None) => "is closed",
                (one, other) if one == other => "is open in another mode",
                _ => "is something else",
            };
            let is_same = before == now;
            let [before, now] = [(before, find(old)), (now, find(new))].map(|(words, whole)| {
                let thing = thing(words.as_deref()?);
                Some(match whole.filter(|_| is_same) {
                    Some(whole) => format!("{thing}, {}", manner(&whole)),
                    None => thing,
                })
            });
            let reason = Reason::new(Kind::Descriptor, format!("{name} {how}"));
            reasons.push(reason.values(before, now));
        }
    }
}

/// Describes how a descriptor is open, from its description in a key.
fn manner(words: &str) -> String {
    let modes = ["for reading", "for writing", "to append", "without waiting"];
    let set = words.split(' ').skip(1).zip(modes);
    let set: Vec<&str> = set
        .filter(|(word, _)| *word == "1")
        .map(|(_, mode)| mode)
        .collect();
    set.join(" and ")
}

/// Returns the kind of a descriptor, from its description in a key.
fn thing(words: &str) -> String {
    let (kind, rest) = words.split_once(' ').unwrap_or((words, ""));
    match (kind, rest.parse::<u64>().ok()) {
        ("terminal", _) => "a terminal".to_owned(),
        ("device", Some(number)) if number == rustix::fs::makedev(1, 3) => "/dev/null".to_owned(),
        ("device", Some(number)) => {
            let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
            format!("device {major}:{minor}")
        }
        ("file", Some(0)) => "a file, at its beginning".to_owned(),
        ("file", Some(u64::MAX)) => "a file".to_owned(),
        ("file", Some(_)) => "a file, further on".to_owned(),
        ("pipe", _) => "a pipe".to_owned(),
        ("socket", _) => "a socket".to_owned(),
        ("memory", _) => "memory".to_owned(),
        ("place", _) => rest.to_owned(),
        ("nothing", _) => "nothing to read".to_owned(),
        ("jobserver", _) => "make's jobserver".to_owned(),
        ("same", Some(fd)) => format!("the same as descriptor {fd}"),
        _ => words.to_owned(),
    }
}

/// Returns a descriptor's position in its file, if it has one. For output, keys only contain
/// whether it is at the beginning.
fn within(words: &Option<String>) -> Option<String> {
    let position = words.as_deref()?.strip_prefix("file ")?;
    Some(match position {
        "0" => "its beginning".to_owned(),
        "1" => "further on".to_owned(),
        position => format!("byte {position}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Describes how a descriptor changed.
    fn said(old: &str, new: &str) -> Vec<String> {
        let mut reasons = Vec::new();
        let list = |text: &str| vec![text.to_owned()];
        descriptors_differ(&list(old), &list(new), &mut reasons);
        let text = |reason: &Reason| {
            let detail = reason.detail().unwrap_or_default();
            format!("{} ({detail})", reason.headline(""))
        };
        reasons.iter().map(text).collect()
    }

    #[test]
    fn descriptors_have_their_usual_names() {
        assert_eq!(
            said("1 0 1 0 0 terminal", "1 0 1 0 0 pipe"),
            ["standard output is something else (a terminal → a pipe)"]
        );
        assert_eq!(
            said("0 nothing", "0 1 0 0 0 device 259"),
            ["standard input is something else (nothing to read → /dev/null)"]
        );
        assert_eq!(
            said("2 same 1", "2 0 1 0 0 file 0"),
            [
                "standard error is something else (the same as descriptor 1 → a file, at its \
                 beginning)"
            ]
        );
        assert_eq!(
            said("1 0 1 0 0 file 0", "1 0 1 1 0 file 0"),
            [
                "standard output is open in another mode (a file, at its beginning, for writing → \
                 a file, at its beginning, for writing and to append)"
            ]
        );
        assert_eq!(
            said("1 0 1 0 0 file 0", "1 0 1 0 0 file 1"),
            ["standard output has another offset in its file (its beginning → further on)"]
        );
    }
}
