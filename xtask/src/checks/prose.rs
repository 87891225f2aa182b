//! `cargo xtask prose`: how summary lines of documentation begin.
//!
//! A summary says what a thing is or does. One that begins with "Who" or "What" is a clause
//! that never becomes a sentence.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use crate::support::workspace;

/// The words that no summary begins with.
const CLAUSES: [&str; 5] = ["Who", "What", "Whose", "Whoever", "Whatever"];

/// The most such summaries in each crate. A crate that is not here has none.
const AT_MOST: &[(&str, usize)] = &[("rr-channel/tools", 4), ("servo-harness", 1)];

/// Options of `cargo xtask prose`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Show each line in files whose path begins so.
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
}

/// Counts the summaries for each crate; fails where there are more than [`AT_MOST`].
///
/// # Errors
///
/// When a source file cannot be read.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let root = workspace::root();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for path in workspace::files(&root, "rs")? {
        let text = fs::read_to_string(root.join(&path))
            .with_context(|| format!("reading {}", path.display()))?;
        let found = violations(&text);
        if found.is_empty() {
            continue;
        }
        *counts.entry(crate_of(&path)).or_default() += found.len();
        let shown = path.display().to_string();
        if args.paths.iter().any(|wanted| shown.starts_with(wanted)) {
            for (line, summary) in found {
                println!("{shown}:{line}: {summary}");
            }
        }
    }
    let mut is_ok = true;
    for (name, count) in &counts {
        let most = AT_MOST.iter().find(|(known, _)| known == name);
        let most = most.map_or(0, |(_, most)| *most);
        println!("{name}: {count} summaries begin with a clause, at most {most} may");
        is_ok &= *count <= most;
    }
    Ok(if is_ok {
        println!("prose: ok");
        ExitCode::SUCCESS
    } else {
        println!("prose: `cargo xtask prose PATH` shows the lines of a crate");
        ExitCode::FAILURE
    })
}

/// The directories before `src`, `tests` and the like.
fn crate_of(path: &Path) -> String {
    let of_sources = ["src", "tests", "examples", "benches", "fuzz"];
    let parts: Vec<_> = path
        .iter()
        .map(|part| part.to_string_lossy())
        .enumerate()
        .take_while(|(index, part)| *index == 0 || !of_sources.contains(&part.as_ref()))
        .map(|(_, part)| part)
        .collect();
    parts.join("/")
}

/// The summaries that begin with a clause, with their lines from 1.
fn violations(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut before = None;
    for (line, number) in text.lines().zip(1..) {
        let documentation = ["///", "//!"].into_iter().find_map(|mark| {
            let text = line.trim_start().strip_prefix(mark)?;
            Some((mark, text.trim()))
        });
        let mark = documentation.map(|(mark, _)| mark);
        if let Some((_, summary)) = documentation
            && mark != before
            && begins_with_clause(summary)
        {
            found.push((number, summary));
        }
        before = mark;
    }
    found
}

fn begins_with_clause(summary: &str) -> bool {
    let word = summary
        .split(|letter: char| !letter.is_alphabetic())
        .next()
        .unwrap_or_default();
    CLAUSES.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_line_of_a_documentation_counts() {
        let text = [
            "//! What this is.",
            "//! What follows.",
            "",
            "/// Whether it holds.",
            "/// What it holds.",
            "fn a() {}",
            "    /// Who's there.",
            "    b: u8,",
            "    // What a comment may say.",
        ]
        .join("\n");
        assert_eq!(
            violations(&text),
            [(1, "What this is."), (7, "Who's there.")]
        );
    }

    #[test]
    fn files_belong_to_the_crate_whose_directories_hold_them() {
        assert_eq!(
            crate_of(Path::new("rr-channel/tools/src/bin/a.rs")),
            "rr-channel/tools"
        );
        assert_eq!(
            crate_of(Path::new("examples/flaky/src/lib.rs")),
            "examples/flaky"
        );
    }
}
