//! Paths that differ each time a command runs by itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How much of a path differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// The content of a file, or the target of a link.
    Content,
    /// Whether it is there, what it is, its mode or its links.
    More,
}

/// Paths that differ between trees that should be equal, and how much.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Unstable {
    paths: BTreeMap<PathBuf, Part>,
}

impl Unstable {
    /// How much of `path` differs, if it does.
    pub(crate) fn part(&self, path: &Path) -> Option<Part> {
        self.paths.get(path).copied()
    }

    /// Whether nothing does.
    pub(crate) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Adds what differs between two other trees.
    pub(crate) fn add(&mut self, other: &Self) {
        for (path, &part) in &other.paths {
            let known = self.paths.entry(path.clone()).or_insert(part);
            *known = part.max(*known);
        }
    }

    /// Whether all of `other` is in it.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let mut paths = other.paths.iter();
        paths.all(|(path, part)| self.part(path).is_some_and(|known| known >= *part))
    }

    /// One line for each path.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |(path, part): (&PathBuf, &Part)| match part {
            Part::Content => path.display().to_string(),
            Part::More => format!("{} (not only its content)", path.display()),
        };
        self.paths.iter().map(line).collect()
    }
}

impl FromIterator<(PathBuf, Part)> for Unstable {
    fn from_iter<I: IntoIterator<Item = (PathBuf, Part)>>(paths: I) -> Self {
        let paths = paths.into_iter().collect();
        Self { paths }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unstable(paths: &[(&str, Part)]) -> Unstable {
        paths
            .iter()
            .map(|(path, part)| (path.into(), *part))
            .collect()
    }

    #[test]
    fn a_file_that_is_missing_is_not_covered_by_one_with_another_content() {
        let content = unstable(&[("a", Part::Content)]);
        let more = unstable(&[("a", Part::More)]);
        assert!(more.covers(&content));
        assert!(more.covers(&more));
        assert!(!content.covers(&more));
        assert!(!more.covers(&unstable(&[("b", Part::Content)])));
    }

    #[test]
    fn what_is_added_never_makes_less_of_what_was_there() {
        let mut all = unstable(&[("a", Part::More), ("b", Part::Content)]);
        all.add(&unstable(&[
            ("a", Part::Content),
            ("b", Part::More),
            ("c", Part::Content),
        ]));
        assert_eq!(
            all.lines(),
            ["a (not only its content)", "b (not only its content)", "c"]
        );
    }
}
