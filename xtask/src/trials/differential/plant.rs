//! Showing that the differential test can see.
//!
//! A pcache built with `--features planted-defects` lists, for
//! `--list-defects`, names of facts and effects that it leaves out when
//! `PCACHE_DEFECT` says so. Each must be found within the budget: by a case of
//! the corpus, which has some for what random cases rarely meet, or, with
//! `--no-corpus`, by random cases alone.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, ensure};

use super::check::Pcache;
use super::{Args, Cases, campaign};

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
        let cases = Cases::new(&args, first)?;
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
