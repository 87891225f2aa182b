//! Everything continuous integration runs, in the order of how much it says.
//!
//! Every check runs even when an earlier one failed, so one run shows all
//! there is to mend. The tests are started by exactly the command that the
//! README names ([`TEST_COMMAND`]).

use std::io::{BufRead, BufReader};
use std::process::{ExitCode, Stdio};
use std::time::Instant;

use anyhow::Context;

use crate::checks::deps;
use crate::checks::syscall_table;
use crate::support::cargo;
use crate::support::totals::Totals;
use crate::trials::corpus;
use crate::trials::differential;
use crate::trials::kills;
use crate::trials::pcache_kills;
use crate::trials::subject;

/// Options of `cargo xtask ci`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Leave out the tests, which the caller has run already.
    #[arg(long)]
    skip_tests: bool,
}

/// Runs all checks and says which of them failed.
///
/// # Errors
///
/// When a check could not be started at all.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut failed = Vec::new();
    let mut totals = Totals::default();
    let mut step = |name: &'static str, check: &mut dyn FnMut() -> anyhow::Result<bool>| {
        println!("== {name}");
        let start = Instant::now();
        let ok = check().with_context(|| format!("check `{name}`"))?;
        println!(
            "== {name}: {} ({:.1} s)",
            if ok { "ok" } else { "FAILED" },
            start.elapsed().as_secs_f64()
        );
        if !ok {
            failed.push(name);
        }
        anyhow::Ok(())
    };

    if !args.skip_tests {
        step("tests", &mut || cargo_counting(cargo::TESTS, &mut totals))?;
    }
    step("formatting", &mut || {
        run_cargo(&["fmt", "--all", "--check"], &[])
    })?;
    step("clippy", &mut || {
        run_cargo(
            &[
                "clippy",
                "--workspace",
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ],
            &[],
        )
    })?;
    step("documentation", &mut || {
        run_cargo(
            &["doc", "--workspace", "--no-deps"],
            &[("RUSTDOCFLAGS", "-Dwarnings")],
        )
    })?;
    step("dependency direction", &mut || {
        Ok(deps::run(&deps::Args::default())? == ExitCode::SUCCESS)
    })?;

    step("syscall table", &mut || {
        Ok(syscall_table::check()
            .inspect_err(|error| println!("{error:#}"))
            .is_ok())
    })?;

    // The tests are unoptimized, and replayed channels are others in optimized programs.
    step("replayed channels of optimized programs", &mut || {
        let profile = "profile.dev.package.rr-channel.debug-assertions=false";
        run_cargo(
            &[
                "test",
                "--quiet",
                // As the tests were built, so that all else is there.
                "--workspace",
                "--test",
                "fidelity",
                "--config",
                profile,
            ],
            &[],
        )
    })?;

    step("differential", &mut || {
        Ok(differential::run_briefly()? == ExitCode::SUCCESS)
    })?;

    step("pcache under bad circumstances", &mut || {
        Ok(pcache_kills::run_briefly()? == ExitCode::SUCCESS)
    })?;

    let mut told = Vec::new();
    let mut without = |name: &str, failures: Vec<String>| {
        let is_ok = failures.is_empty();
        told.extend(
            failures
                .into_iter()
                .map(|failure| format!("{name}: {failure}")),
        );
        is_ok
    };
    step("corpus", &mut || {
        Ok(without("corpus", corpus::run_briefly()?))
    })?;

    step("kills", &mut || Ok(without("kills", kills::run_briefly()?)))?;

    step("pages", &mut || {
        Ok(subject::run_briefly()? == ExitCode::SUCCESS)
    })?;

    if !failed.is_empty() {
        println!("failed checks: {}", failed.join(", "));
        // Once more: what is kept of a long output is mostly its end.
        for failure in told {
            println!("{failure}");
        }
    }
    if !args.skip_tests {
        println!("{totals}");
    }
    Ok(if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn run_cargo(args: &[&str], env: &[(&str, &str)]) -> anyhow::Result<bool> {
    let status = cargo::command()
        .args(args)
        .envs(env.iter().copied())
        .status()
        .with_context(|| format!("starting `cargo {}`", args.join(" ")))?;
    Ok(status.success())
}

/// Runs cargo, passes its output on, and counts the tests in it.
fn cargo_counting(args: &[&str], totals: &mut Totals) -> anyhow::Result<bool> {
    let mut child = cargo::command()
        .args(args)
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting `cargo {}`", args.join(" ")))?;
    let stdout = child.stdout.take().context("the child's standard output")?;
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.context("reading the output of the tests")?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        totals.add_line(&line);
    }
    Ok(child.wait().context("waiting for the tests")?.success())
}
