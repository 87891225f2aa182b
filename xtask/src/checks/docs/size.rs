//! The words that a page may have.

use std::path::Path;

use super::Pages;
use crate::generate;

/// The most words of the page at this path; `None` for pages without a limit.
fn limit(path: &Path) -> Option<usize> {
    let text = path.to_str()?;
    let dir = path.parent()?.to_str()?;
    match (dir, path.file_name()?.to_str()?) {
        ("", "README.md") => Some(700),
        ("", "CONTRIBUTING.md") => Some(900),
        ("", "ARCHITECTURE.md") => Some(4_000),
        ("docs", "glossary.md") => Some(600),
        ("docs", _) => Some(1_500),
        // The index.
        ("docs/decisions", "README.md") => None,
        ("docs/decisions", _) => Some(250),
        (_, "README.md") if !text.starts_with("docs/") => Some(200),
        _ => None,
    }
}

/// Words as `wc -w` counts them: whatever stands between white space, in tables and in
/// blocks of code as well. Generated parts do not count.
fn words(text: &str) -> usize {
    let mut is_generated = false;
    let written = text.lines().filter(|line| {
        is_generated |= line.starts_with(generate::PART);
        let counts = !is_generated;
        is_generated &= *line != generate::END_OF_PART;
        counts
    });
    written.map(|line| line.split_whitespace().count()).sum()
}

/// The pages that are too long. Generated ones may have any length.
pub(super) fn violations(pages: &Pages) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in pages {
        if let Some(limit) = limit(path)
            && !generate::is_generated(text)
            && words(text) > limit
        {
            found.push(format!(
                "{}: {} words, at most {limit}",
                path.display(),
                words(text)
            ));
        }
    }
    found
}

/// Prints the words of each page that has a limit.
pub(super) fn print(pages: &Pages) {
    for (path, text) in pages {
        if let Some(limit) = limit(path) {
            let generated = match generate::is_generated(text) {
                true => ", generated",
                false => "",
            };
            println!(
                "{:5} of {limit}{generated}: {}",
                words(text),
                path.display()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::pages;
    use super::*;

    #[test]
    fn a_page_over_its_limit_is_named() {
        let long = "word ".repeat(701);
        let generated = format!("{}\n{}", generate::MARK, "word ".repeat(2_000));
        let in_part = format!(
            "a b\n{} x -->\n{}\n{}\nc",
            generate::PART,
            "word ".repeat(2_000),
            generate::END_OF_PART
        );
        assert_eq!(words(&in_part), 3);
        let found = violations(&pages(&[
            ("README.md", &long),
            ("docs/guide.md", &long),
            ("docs/made.md", &generated),
            ("docs/decisions/0001-a.md", &long),
            ("docs/decisions/README.md", &long),
            ("CHANGELOG.md", &long),
        ]));
        assert_eq!(
            found,
            [
                "README.md: 701 words, at most 700",
                "docs/decisions/0001-a.md: 701 words, at most 250",
            ]
        );
    }
}
