//! Which cases of the corpus make which syscalls, as their traces say.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

/// How many cases are named for each call.
const NAMED: usize = 3;

/// Coverage by the names of the calls.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Coverage(pub(crate) BTreeMap<String, Covered>);

/// The cases that make a call and pass.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Covered {
    /// How many there are.
    pub(crate) cases: usize,
    /// Those that say most about it: named after it, or with few other calls.
    pub(crate) named: Vec<String>,
}

impl Coverage {
    /// From the cases and their calls.
    pub(super) fn of<'a>(cases: impl Iterator<Item = (&'a str, &'a [String])>) -> Self {
        let mut by_call: BTreeMap<&str, Vec<(bool, usize, &str)>> = BTreeMap::new();
        for (case, calls) in cases {
            let own = case.rsplit('/').next().unwrap_or(case);
            for call in calls {
                let is_named = own.split('_').any(|word| word == call) || own == call;
                by_call
                    .entry(call)
                    .or_default()
                    .push((!is_named, calls.len(), case));
            }
        }
        let covered = by_call.into_iter().map(|(call, mut cases)| {
            cases.sort_unstable();
            let named = cases
                .iter()
                .take(NAMED)
                .map(|(.., case)| (*case).to_owned());
            let covered = Covered {
                cases: cases.len(),
                named: named.collect(),
            };
            (call.to_owned(), covered)
        });
        Self(covered.collect())
    }

    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// Reads a file that [`Self::write`] wrote.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("in {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_telling_cases_are_named() {
        let calls =
            |names: &[&str]| -> Vec<String> { names.iter().map(|&name| name.to_owned()).collect() };
        let cases = [
            ("a/many", calls(&["read", "pipe", "mmap"])),
            ("a/few", calls(&["read"])),
            ("b/big_read", calls(&["read", "pipe", "mmap", "brk"])),
            ("c/some", calls(&["read", "brk"])),
        ];
        let coverage = Coverage::of(cases.iter().map(|(name, calls)| (*name, &calls[..])));
        assert_eq!(coverage.0["read"].cases, 4);
        assert_eq!(coverage.0["read"].named, ["b/big_read", "a/few", "c/some"]);
        assert_eq!(coverage.0["pipe"].named, ["a/many", "b/big_read"]);
    }
}
