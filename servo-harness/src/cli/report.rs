//! `servo-harness report`: writes the results as files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};

use super::{annotate, print, print_json};
use crate::report::summary::Summary;
use crate::report::{junit, page};
use crate::store::journal::{self, Phase, Record};

/// Options of a report.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Directory of the results
    #[arg(
        long,
        value_name = "DIR",
        env = "SERVO_HARNESS_STATE",
        default_value = "target/servo-harness"
    )]
    state: PathBuf,
    /// Write the HTML page to this file
    #[arg(
        long,
        value_name = "FILE",
        default_value = "target/servo-harness/report.html"
    )]
    html: PathBuf,
    /// Write JUnit XML to this file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// The title
    #[arg(long, default_value = "Intermittent tests")]
    title: String,
    /// Print all numbers as JSON
    #[arg(long)]
    json: bool,
}

/// Writes the page, and what else was asked for.
///
/// # Errors
/// If nothing was found out yet, or a file cannot be read or written.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let summary = summary(&args.state)?;
    let html = page(&args.title, &summary).map_err(anyhow::Error::msg)?;
    write(&args.html, &html)?;
    if let Some(path) = &args.junit {
        write(path, &junit(&args.title, &summary)?)?;
    }
    for row in summary.flaky().filter(|row| !row.is_settled()) {
        let plain = &row.plain;
        let text = format!("{} of {} runs were as expected", plain.expected, plain.runs);
        annotate("warning", &row.test, &format!("{}: {text}", row.verdict()));
    }
    if args.json {
        print_json(&summary)?;
    } else {
        print(|out| summary.text(out))?;
        tell!("servo-harness: {}", args.html.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// All that a journal knows, without locking it. Of a test that has changed, what was run
/// last counts.
fn summary(state: &Path) -> anyhow::Result<Summary> {
    let path = state.join("journal");
    let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let (found, _) = journal::read(&bytes)
        .map_err(|found| anyhow::anyhow!("{} is not a journal: {found}", path.display()))?;
    let mut names: Vec<(&str, &str)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for record in &found.records {
        let Record::Run(run) = record else { continue };
        if run.phase != Phase::Plain {
            continue;
        }
        let place = *places.entry(run.test.as_str()).or_insert_with(|| {
            names.push((&run.test, &run.subject));
            names.len() - 1
        });
        names[place].1 = &run.subject;
    }
    ensure!(
        !names.is_empty(),
        "there are no results yet: run `servo-harness survey` first"
    );
    names.sort_unstable();
    let names = names
        .into_iter()
        .map(|(name, subject)| (name, Some(subject)));
    Ok(Summary::of(names, &found.records, true, true))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
