//! Showing that the differential test can see.
//!
//! A pcache built with `--features planted-defects` lists, for
//! `--list-defects`, names of facts and effects that it leaves out when
//! `PCACHE_DEFECT` says so. Each must be found within the budget: by a case of
//! the corpus, which has some for what random cases rarely meet, or, with
//! `--no-corpus`, by random cases alone.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, ensure};

use super::check::Pcache;
use super::select::Trouble;
use super::{Args, Cases, campaign};

/// The kinds of trouble that find a defect; [`Trouble::Projects`] finds those that are not named.
const FOUND_BY: &[(&str, &[Trouble])] = &[
    ("trust-outsiders", &[Trouble::Outsiders]),
    ("skip-in-namespaces", &[Trouble::Namespaces]),
    ("trust-killed", &[Trouble::Signals]),
    (
        "trust-moment-failures",
        &[
            Trouble::Errors,
            Trouble::Injected,
            Trouble::Locks,
            Trouble::Disks,
        ],
    ),
    ("drop-truncate-fact", &[Trouble::Calls]),
    (
        "take-links-for-their-targets",
        &[Trouble::Calls, Trouble::Projects],
    ),
    ("ignore-default-acl", &[Trouble::Attributes]),
    ("drop-attributes", &[Trouble::Attributes, Trouble::Calls]),
    ("drop-link-times", &[Trouble::Times]),
    ("outputs-as-old-as-sources", &[Trouble::Times]),
    ("drop-mount-fact", &[Trouble::Places]),
    ("ignore-appended-content", &[Trouble::Appends]),
    ("ignore-appended-size", &[Trouble::Appends]),
    ("trust-failing-flags", &[Trouble::Opens]),
    ("trust-short-transfers", &[Trouble::Transfers]),
    ("trust-places-of-directories", &[Trouble::Mounts]),
    ("trust-places-of-inherited-files", &[Trouble::Mounts]),
];

/// The kinds of trouble among which a defect is looked for: those of `chosen` that find it, or all
/// that find it.
fn kinds(defect: &str, chosen: &[Trouble]) -> Vec<Trouble> {
    let named = FOUND_BY.iter().find(|(name, _)| *name == defect);
    let finding = named.map_or(&[Trouble::Projects][..], |(_, kinds)| kinds);
    let chosen: BTreeSet<&Trouble> = chosen.iter().collect();
    let both = finding.iter().filter(|kind| chosen.contains(kind));
    let both: Vec<Trouble> = both.copied().collect();
    match (both.is_empty(), chosen.is_empty()) {
        (false, _) => both,
        (true, true) => finding.to_vec(),
        // Somebody wants to know whether these find it, too.
        (true, false) => chosen.into_iter().copied().collect(),
    }
}

/// Looks for the defect `name`, or for all of them.
///
/// # Errors
///
/// When pcache knows no planted defects, or the machinery fails.
pub(crate) fn run(
    args: &Args,
    pcache: &Pcache,
    name: &str,
    first: u64,
    scratch: &Path,
) -> anyhow::Result<ExitCode> {
    let known = list(&pcache.program)?;
    let wanted: Vec<&String> = known
        .iter()
        .filter(|known| name == "all" || known.as_str() == name)
        .collect();
    ensure!(
        !wanted.is_empty(),
        "no planted defect is called `{name}`; there are {}",
        known.join(", ")
    );
    println!(
        "planted defects: first seed {first}, at most {} cases of {} steps each",
        args.seeds, args.steps
    );
    let args = Args {
        no_shrink: true,
        keep: None,
        ..args.clone()
    };
    let mut missed = Vec::new();
    for defect in wanted {
        let start = Instant::now();
        let args = Args {
            only: kinds(defect, &args.only),
            ..args.clone()
        };
        let cases = Cases::new(&args, pcache, first)?;
        let planted = Pcache {
            defect: Some(defect.clone()),
            ..pcache.clone()
        };
        let summary = campaign(&args, &planted, &cases, 1, scratch)?;
        let found = summary.failed.first();
        println!(
            "{defect}: {} ({} steps, {:.1} s)",
            found.map_or_else(|| "NOT FOUND".to_owned(), |name| format!("found by {name}")),
            summary.tally.steps,
            start.elapsed().as_secs_f64()
        );
        if found.is_none() {
            missed.push(defect.as_str());
        }
    }
    if missed.is_empty() {
        println!("all planted defects were found");
        return Ok(ExitCode::SUCCESS);
    }
    println!("not found: {}", missed.join(", "));
    Ok(ExitCode::FAILURE)
}

fn list(program: &Path) -> anyhow::Result<Vec<String>> {
    let output = Command::new(program)
        .arg("--list-defects")
        .output()
        .context("starting pcache")?;
    let names: Vec<String> = String::from_utf8_lossy(&output.stdout)
        .split_whitespace()
        .map(String::from)
        .collect();
    ensure!(
        output.status.success() && !names.is_empty(),
        "this pcache knows no planted defects; build it with `--features planted-defects`"
    );
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_defect_is_looked_for_among_the_kinds_that_find_it() {
        assert_eq!(kinds("drop-list-fact", &[]), [Trouble::Projects]);
        assert_eq!(kinds("trust-killed", &[]), [Trouble::Signals]);
        let chosen = [Trouble::Calls, Trouble::Times];
        assert_eq!(kinds("drop-attributes", &chosen), [Trouble::Calls]);
        assert_eq!(kinds("trust-killed", &chosen), chosen);
    }
}
