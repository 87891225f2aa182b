//! Reads where a replay left its recording, from the report (`RR_CHANNEL_REPORT`).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

/// The file in which `cargo reprise replay` keeps what the last replay reported that left
/// its recording.
pub(crate) const REPORT: &str = "desynchronised";

/// The text of a report about a thread that waited in vain.
const STALLED: [&str; 2] = [
    "which no thread is left to bring about",
    "and no recorded event came about for",
];

/// A thread that left its log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Left {
    /// The number of its event, from 0, without those that are apart from the others.
    pub(super) event: u64,
    /// How many threads left theirs before.
    pub(super) rank: usize,
    /// Whether it waited for what nobody could bring about, or nobody did.
    pub(super) stalled: bool,
    pub(super) text: String,
}

/// The threads that left their logs, by name.
pub(super) type Replayed = BTreeMap<String, Left>;

/// Reads a report.
///
/// # Errors
/// If it cannot be read.
pub(super) fn read(path: &Path) -> anyhow::Result<Replayed> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(parse(&text))
}

fn parse(text: &str) -> Replayed {
    let mut found = Replayed::new();
    for line in text.lines() {
        let left = || {
            let (name, rest) = line
                .strip_prefix("desync thread ")?
                .split_once(" desynchronised at event ")?;
            let (event, text) = rest.split_once(": ")?;
            Some((name.to_owned(), event.parse().ok()?, text.to_owned()))
        };
        if let Some((name, event, text)) = left() {
            let rank = found.len();
            found.entry(name).or_insert(Left {
                event,
                rank,
                stalled: STALLED.iter().any(|stalled| text.contains(stalled)),
                text,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_leaving_of_each_thread_is_read() {
        let found = parse(
            "desync thread main/~2 desynchronised at event 3: recorded `recv on t0.c1: empty`, \
             which no thread is left to bring about\n\
             desync thread main desynchronised at event 0: its recording ends here\n\
             desync thread main desynchronised at event 9: again\n\
             left main/~2 5 of 8\nend 5 of 8\nnonsense\n",
        );
        let read: Vec<_> = found
            .iter()
            .map(|(name, left)| (name.as_str(), left.event, left.rank, left.stalled))
            .collect();
        assert_eq!(read, [("main", 0, 1, false), ("main/~2", 3, 0, true)]);
    }
}
