//! Source paths that pages name in backticks.

use std::path::Path;

use super::{Pages, markdown};

/// The pages whose paths are checked: they lead newcomers through the sources.
const PAGES: [&str; 2] = ["ARCHITECTURE.md", "CONTRIBUTING.md"];

/// The paths that do not exist.
pub(super) fn violations(root: &Path, pages: &Pages) -> Vec<String> {
    let mut found = Vec::new();
    for page in PAGES {
        let Some(text) = pages.get(Path::new(page)) else {
            continue;
        };
        for code in markdown::code(text) {
            for path in alternatives(&code.text) {
                if is_source_path(root, &path) && !root.join(&path).exists() {
                    found.push(format!("{page}:{}: no {path}", code.line));
                }
            }
        }
    }
    found
}

/// Whether the text is a path that begins in a directory of the repository.
fn is_source_path(root: &Path, text: &str) -> bool {
    let is_of_path = |letter: char| letter.is_ascii_alphanumeric() || "/._-".contains(letter);
    let Some((first, _)) = text.split_once('/') else {
        return false;
    };
    text.chars().all(is_of_path) && !first.is_empty() && root.join(first).is_dir()
}

/// `a/{b,c}.rs` names two paths.
fn alternatives(text: &str) -> Vec<String> {
    if let Some((before, rest)) = text.split_once('{')
        && let Some((inside, after)) = rest.split_once('}')
    {
        return inside
            .split(',')
            .map(|part| format!("{before}{}{after}", part.trim()))
            .collect();
    }
    vec![text.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::super::tests::pages;
    use super::*;
    use crate::support::workspace;

    #[test]
    fn a_path_that_does_not_exist_is_named() {
        let text = "`xtask/src/lib.rs`, `xtask/src/{main,moved}.rs` and `store/`, `a/b`";
        assert_eq!(
            violations(&workspace::root(), &pages(&[("CONTRIBUTING.md", text)])),
            ["CONTRIBUTING.md:1: no xtask/src/moved.rs"]
        );
    }
}
