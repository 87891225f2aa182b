//! Causes other than messages that may decide a test, found in the system calls that it makes.
//!
//! A replay of messages fixes neither how long sleeps take, the order of files, the network, nor
//! other processes. A recording of the whole process (by `reprise`, if it is installed) has all
//! system calls. An input is suspected if the test uses it more than every test that replays
//! well. If there is none, each input is suspected that not all of those use. Where there is no
//! test to compare with, none is suspected. A suspicion is no proof: it says where to look.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::tame::{Recorder, remove};
use crate::engine::Processes;
use crate::source::Test;

/// Inputs that no message carries: their name, the name of their uses, the calls.
const SOURCES: [(&str, &str, &[&str]); 4] = [
    (
        "how long it sleeps",
        "sleeps",
        &["nanosleep", "clock_nanosleep"],
    ),
    (
        "the order of files in directories",
        "lists",
        &["getdents64"],
    ),
    (
        "the network",
        "connections",
        &["connect", "accept", "accept4"],
    ),
    ("other processes", "programs", &["execve"]),
];

/// How often each source is used.
type Uses = [u64; SOURCES.len()];

/// Counts the calls in what `reprise dump` says.
fn uses(dump: &str) -> Uses {
    let mut words: BTreeMap<&str, u64> = BTreeMap::new();
    for line in dump.lines() {
        let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        for word in line.split(|letter| !is_word(letter)) {
            *words.entry(word).or_default() += 1;
        }
    }
    SOURCES.map(|(_, _, calls)| calls.iter().filter_map(|call| words.get(call)).sum())
}

/// The suspected inputs of a test, compared with the uses of tests that replay well.
fn suspected(own: &Uses, others: &[Uses]) -> Option<String> {
    if others.is_empty() {
        return None;
    }
    let most = |index: usize| others.iter().map(|uses| uses[index]).max().unwrap_or(0);
    let least = |index: usize| others.iter().map(|uses| uses[index]).min().unwrap_or(0);
    let above = |bound: &dyn Fn(usize) -> u64| -> Vec<String> {
        let found = (0..own.len()).filter(|index| own[*index] > bound(*index));
        let in_words = found.map(|index| {
            let (name, uses, _) = SOURCES[index];
            format!(
                "{name} ({} {uses}, elsewhere {} to {})",
                own[index],
                least(index),
                most(index)
            )
        });
        in_words.collect()
    };
    let (more, some) = (above(&most), above(&least));
    let found = if more.is_empty() { some } else { more };
    (!found.is_empty()).then(|| found.join(", "))
}

/// Looks at tests whose replays are not as they should be, and at others: what is suspected
/// of each of the former, by name. Nothing, where there is no `reprise`.
///
/// # Errors
/// If a test cannot be run.
pub(crate) fn find(
    odd: &[&Test],
    others: &[&Test],
    recorder: &Recorder<'_>,
    engine: &Processes,
    into: &Path,
) -> anyhow::Result<BTreeMap<String, String>> {
    let look = |test: &Test| -> anyhow::Result<Option<Uses>> {
        if !recorder.once(test, into)? {
            return Ok(None);
        }
        let dump = Command::new(&engine.program)
            .arg("dump")
            .arg(into.join("trace"))
            .output()?;
        Ok(Some(uses(&String::from_utf8_lossy(&dump.stdout))))
    };
    let mut known = Vec::new();
    for test in others {
        known.extend(look(test)?);
    }
    let mut found = BTreeMap::new();
    for test in odd {
        if let Some(text) = look(test)?.and_then(|own| suspected(&own, &known)) {
            found.insert(test.name.clone(), text);
        }
    }
    remove(into)?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_with_and_without_stops() {
        let dump = "1 0 clock_nanosleep(0x0, 0x7f) at 0x1\n2 0   = 0\n\
                    3 0 without stops: getdents64 = 0, nanosleep = 0, close = 0\n\
                    4 0 connect(0x3) at 0x2\n5 0 execve(0x0) at 0x3\n";
        assert_eq!(uses(dump), [2, 1, 1, 1]);
    }

    #[test]
    fn inputs_used_more_than_elsewhere_are_suspected() {
        let others = [[3, 20, 0, 0], [3, 22, 4, 0]];
        let check = |own, expected: Option<&str>| {
            assert_eq!(suspected(&own, &others).as_deref(), expected);
        };
        check(
            [4, 22, 0, 0],
            Some("how long it sleeps (4 sleeps, elsewhere 3 to 3)"),
        );
        check(
            [3, 20, 4, 0],
            Some("the network (4 connections, elsewhere 0 to 4)"),
        );
        check([3, 20, 0, 0], None);
        assert_eq!(suspected(&[4, 22, 0, 0], &[]), None);
    }
}
