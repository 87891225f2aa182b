//! `cargo xtask docs`: the pages of the repository.
//!
//! A page is no longer than its kind allows ([`size`]), its links lead somewhere ([`links`]),
//! the source paths that it names exist ([`paths`]), and what is generated is fresh
//! ([`crate::generate`]).

mod links;
mod markdown;
mod paths;
mod size;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use crate::generate;
use crate::support::workspace;

/// Options of `cargo xtask docs`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Write the generated pages first.
    #[arg(long)]
    write: bool,
    /// Show how many words each page has and may have.
    #[arg(long)]
    sizes: bool,
}

/// All pages by their path in the repository.
type Pages = BTreeMap<PathBuf, String>;

/// Checks all pages and prints each violation.
///
/// # Errors
///
/// When a page cannot be read, or a generated one cannot be made.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let root = workspace::root();
    let mut violations = stale(&root, args.write)?;
    let pages = read(&root)?;
    if args.sizes {
        size::print(&pages);
    }
    violations.extend(size::violations(&pages));
    violations.extend(links::violations(&root, &pages));
    violations.extend(paths::violations(&root, &pages));
    for violation in &violations {
        println!("{violation}");
    }
    if violations.is_empty() {
        println!("docs: {} pages ok", pages.len());
        return Ok(ExitCode::SUCCESS);
    }
    println!("docs: {} violations", violations.len());
    Ok(ExitCode::FAILURE)
}

/// The generated pages that are not as they would be made now, unless they are to be written.
fn stale(root: &Path, is_written: bool) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for page in generate::PAGES {
        let path = root.join(page.path);
        let text = (page.make)().with_context(|| format!("making {}", page.path))?;
        if fs::read_to_string(&path).is_ok_and(|present| present == text) {
            continue;
        }
        if is_written {
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            println!("wrote {}", page.path);
        } else {
            found.push(format!(
                "{}: stale, run `cargo xtask docs --write`",
                page.path
            ));
        }
    }
    Ok(found)
}

/// Reads every page of the repository.
fn read(root: &Path) -> anyhow::Result<Pages> {
    let mut pages = Pages::new();
    for path in workspace::files(root, "md")? {
        let text = fs::read_to_string(root.join(&path))
            .with_context(|| format!("reading {}", path.display()))?;
        pages.insert(path, text);
    }
    Ok(pages)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Pages of `(path, text)`.
    pub(in crate::checks::docs) fn pages(pages: &[(&str, &str)]) -> Pages {
        pages
            .iter()
            .map(|(path, text)| (PathBuf::from(path), (*text).to_owned()))
            .collect()
    }
}
