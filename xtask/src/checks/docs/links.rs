//! Links that lead nowhere, and pages that nothing leads to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::{Pages, markdown};

/// The table of contents of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// The dead links, and the pages of the book that its table of contents does not reach.
pub(super) fn violations(root: &Path, pages: &Pages) -> Vec<String> {
    let anchors: BTreeMap<&Path, Vec<String>> = pages
        .iter()
        .map(|(path, text)| (path.as_path(), markdown::anchors(text)))
        .collect();
    let mut leads_to: BTreeMap<&Path, BTreeSet<PathBuf>> = BTreeMap::new();
    let mut found = Vec::new();
    for (path, text) in pages {
        for link in markdown::links(text) {
            if is_elsewhere(&link.text) {
                continue;
            }
            let (file, anchor) = link
                .text
                .split_once('#')
                .map_or((link.text.as_str(), None), |(file, anchor)| {
                    (file, Some(anchor))
                });
            let target = match file {
                "" => path.clone(),
                _ => normalized(&path.parent().unwrap_or(Path::new("")).join(file)),
            };
            let place = format!("{}:{}", path.display(), link.line);
            if !pages.contains_key(&target) && !root.join(&target).exists() {
                found.push(format!("{place}: no file {}", target.display()));
            } else if let Some(anchor) = anchor
                && let Some(anchors) = anchors.get(target.as_path())
                && !anchors.iter().any(|known| known == anchor)
            {
                found.push(format!(
                    "{place}: no heading #{anchor} in {}",
                    target.display()
                ));
            }
            leads_to.entry(path).or_default().insert(target);
        }
    }
    found.extend(unreached(pages, &leads_to));
    found
}

fn is_elsewhere(link: &str) -> bool {
    link.contains("://") || link.starts_with("mailto:")
}

/// Without `.` and `..`.
fn normalized(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

fn unreached(pages: &Pages, leads_to: &BTreeMap<&Path, BTreeSet<PathBuf>>) -> Vec<String> {
    let in_book = |path: &Path| path.starts_with("docs");
    let mut reached = BTreeSet::from([PathBuf::from(SUMMARY)]);
    let mut open = vec![PathBuf::from(SUMMARY)];
    while let Some(page) = open.pop() {
        for target in leads_to.get(page.as_path()).into_iter().flatten() {
            if in_book(target) && reached.insert(target.clone()) {
                open.push(target.clone());
            }
        }
    }
    pages
        .keys()
        .filter(|path| in_book(path) && !reached.contains(*path))
        .map(|path| format!("{}: not reachable from {SUMMARY}", path.display()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::pages;
    use super::*;

    #[test]
    fn dead_links_and_lost_pages_are_named() {
        let found = violations(
            Path::new("/nonexistent"),
            &pages(&[
                (
                    "README.md",
                    "[a](docs/a.md#here) [b](docs/b.md) [c](https://x.invalid/)",
                ),
                ("docs/SUMMARY.md", "[a](a.md)"),
                ("docs/a.md", "# Here\n[up](../README.md#gone) [own](#here)"),
                ("docs/lost.md", ""),
            ]),
        );
        assert_eq!(
            found,
            [
                "README.md:1: no file docs/b.md",
                "docs/a.md:2: no heading #gone in README.md",
                "docs/lost.md: not reachable from docs/SUMMARY.md",
            ]
        );
    }
}
