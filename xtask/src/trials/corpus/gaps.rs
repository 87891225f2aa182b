//! Cases that are known not to pass, each with its reason.
//!
//! A line of the file is `NAME: REASON`, or `NAME (sometimes): REASON` for a case that
//! fails in some runs only, which is then not held against anybody.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};

/// A gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gap {
    /// Whether the case passes in other runs.
    pub(super) sometimes: bool,
    /// Why it does not pass.
    pub(super) reason: String,
}

/// The gaps by the names of their cases.
///
/// # Errors
/// When the file cannot be read, or a line has another form.
pub(super) fn read(path: &Path) -> anyhow::Result<BTreeMap<String, Gap>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    parse(&text).with_context(|| format!("in {}", path.display()))
}

fn parse(text: &str) -> anyhow::Result<BTreeMap<String, Gap>> {
    let mut gaps = BTreeMap::new();
    for line in text.lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, reason)) = line.split_once(": ") else {
            bail!("`{line}` gives no reason");
        };
        let (name, sometimes) = match name.strip_suffix(" (sometimes)") {
            Some(name) => (name, true),
            None => (name, false),
        };
        let gap = Gap {
            sometimes,
            reason: reason.to_owned(),
        };
        if gaps.insert(name.to_owned(), gap).is_some() {
            bail!("`{name}` is there twice");
        }
    }
    Ok(gaps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_has_a_reason() {
        let gaps = parse("# All.\n\na/b: it spins\nc/d (sometimes): a race\n").unwrap();
        assert!(!gaps["a/b"].sometimes);
        assert!(gaps["c/d"].sometimes);
        assert_eq!(gaps["c/d"].reason, "a race");
        assert!(parse("a/b\n").is_err());
        assert!(parse("a/b: one\na/b: two\n").is_err());
    }
}
