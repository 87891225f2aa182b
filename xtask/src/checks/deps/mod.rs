//! `cargo xtask deps`: the direction of dependencies, between crates and inside them.
//!
//! Between crates, [`crates`] holds a table of the workspace's directories. Inside a crate,
//! the table of layers in the documentation of its `lib.rs` is the contract ([`table`]);
//! [`source`] finds which module refers to which, and [`modules`] compares the two.
//!
//! The check reads tokens, not types: a method call names no module, so it is no import.
//! Code that only tests compile is left out.

mod crates;
mod graph;
mod modules;
mod resolve;
mod source;
mod table;
mod tokens;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use cargo_metadata::{Metadata, MetadataCommand, Package, TargetKind};

/// Crates whose table of layers is not complete yet: their violations are printed and
/// do not fail the check.
const PENDING: &[&str] = &[];

/// Options of `cargo xtask deps`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Check the modules of these crates only, and fail also where a table is pending.
    #[arg(value_name = "CRATE")]
    crates: Vec<String>,
}

/// Checks the workspace of the current directory and prints each violation.
///
/// # Errors
///
/// When `cargo metadata` fails, or a source file cannot be read.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let metadata = metadata()?;
    let mut failures = print(&crates::violations(&metadata));
    for package in metadata.workspace_packages() {
        let name = package.name.as_str();
        if !args.crates.is_empty() && !args.crates.iter().any(|wanted| wanted == name) {
            continue;
        }
        let violations = violations_in(package)?;
        let is_pending = args.crates.is_empty() && PENDING.contains(&name);
        if is_pending && !violations.is_empty() {
            println!("{name}: pending, {} violations", violations.len());
        } else {
            failures += print(&violations);
        }
    }
    if failures == 0 {
        println!("dependency direction: ok");
        return Ok(ExitCode::SUCCESS);
    }
    println!("dependency direction: {failures} violations");
    Ok(ExitCode::FAILURE)
}

fn print(violations: &[String]) -> usize {
    for violation in violations {
        println!("{violation}");
    }
    violations.len()
}

fn metadata() -> anyhow::Result<Metadata> {
    MetadataCommand::new()
        .no_deps()
        .exec()
        .context("running `cargo metadata`")
}

/// The violations among the modules of one crate's library, if it has one.
fn violations_in(package: &Package) -> anyhow::Result<Vec<String>> {
    let is_library = |kinds: &[TargetKind]| {
        kinds.iter().any(|kind| {
            matches!(
                kind,
                TargetKind::Lib | TargetKind::RLib | TargetKind::CDyLib
            )
        })
    };
    let Some(library) = package
        .targets
        .iter()
        .find(|target| is_library(&target.kind))
    else {
        return Ok(Vec::new());
    };
    let root = library.src_path.as_std_path();
    let shown = package.manifest_path.parent().map_or_else(
        || Path::new("").to_owned(),
        |dir| {
            let workspace = std::env::current_dir().unwrap_or_default();
            let dir = dir.as_std_path();
            dir.strip_prefix(&workspace).unwrap_or(dir).to_owned()
        },
    );
    let tree = source::read(root)?;
    Ok(modules::violations(&package.name, &shown, &tree))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_workspace_keeps_the_direction() {
        assert_eq!(
            crates::violations(&metadata().unwrap()),
            Vec::<String>::new()
        );
    }

    #[test]
    fn crates_whose_table_is_complete_keep_their_layers() {
        for package in metadata().unwrap().workspace_packages() {
            if !PENDING.contains(&package.name.as_str()) {
                assert_eq!(violations_in(package).unwrap(), Vec::<String>::new());
            }
        }
    }
}
