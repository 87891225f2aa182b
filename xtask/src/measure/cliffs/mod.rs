//! The cost of pcache for programs that do one thing often.
//!
//! Each call of the syscall table that a program can make in a loop is made in one (`catalog`),
//! plainly and under a pcache with an empty store, by a process with one thread and by one
//! with two. The loop takes its own time, so starting a program does not count. Then common
//! commands and programs of some ecosystems run in both ways.
//!
//! The goals are those of [`results`]. Nothing fails when one is missed: times are measured
//! here, and never asserted.

mod bodies;
mod calls;
mod catalog;
mod commands;
mod functions;
pub(crate) mod looping;
pub(crate) mod results;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use self::calls::Programs;
pub(crate) use self::catalog::Reason;
use self::results::Results;
use crate::support::pcache::{Build, build};

/// Options of `cargo xtask cliffs`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only loops and commands with this in their names; may be given many times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Only the calls.
    #[arg(long, conflicts_with = "commands")]
    calls: bool,
    /// Only the commands.
    #[arg(long)]
    commands: bool,
    /// How many rounds, of a plain run and one under pcache.
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// Only calls that programs make often.
    #[arg(long)]
    often: bool,
    /// Write all measurements to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The pcache to measure; built from the workspace when absent.
    #[arg(long, value_name = "PATH")]
    pcache: Option<PathBuf>,
    /// The program that makes the calls, when it is not this one: an xtask linked statically.
    #[arg(long, value_name = "PATH")]
    caller: Option<PathBuf>,
    /// List the loops, and the calls without one.
    #[arg(long)]
    list: bool,
}

/// Measures, and prints tables.
///
/// # Errors
///
/// When pcache cannot be built, or files cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.list {
        list();
        return Ok(ExitCode::SUCCESS);
    }
    let programs = Programs {
        pcache: match &args.pcache {
            Some(path) => path.canonicalize().context("finding pcache")?,
            None => build(Build::Release)?,
        },
        caller: match &args.caller {
            Some(path) => path.canonicalize().context("finding the caller")?,
            None => std::env::current_exe().context("finding this program")?,
        },
    };
    let is_asked =
        |name: &str| args.only.is_empty() || args.only.iter().any(|only| name.contains(only));
    let dir = tempfile::tempdir().context("a directory")?;
    let mut results = Results::new(args);
    if !args.commands {
        let loops = catalog::loops().filter(|one| is_asked(one.name));
        for one in loops.filter(|one| one.often || !args.often) {
            for threads in [false, true] {
                match calls::measure(&programs, dir.path(), one, threads, args.rounds) {
                    Ok(cost) => results.calls.push(cost),
                    Err(error) => results.absent.push((one.name.into(), format!("{error:#}"))),
                }
            }
            eprint!(".");
        }
        eprintln!();
    }
    if !args.calls {
        commands::measure(
            &programs.pcache,
            dir.path(),
            args.rounds,
            is_asked,
            &mut results,
        )?;
    }
    results.sort();
    print!("{}", results.text());
    if let Some(path) = &args.json {
        results.write(path)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn list() {
    for one in catalog::loops() {
        let often = if one.often { "often " } else { "seldom" };
        println!("{often} {}: {}", one.name, one.calls().join(" "));
    }
    for (call, reason) in catalog::LEFT_OUT {
        println!("none   {call}: {}", reason.words());
    }
}

/// The calls without a loop, with the reason of each.
pub(crate) fn left_out() -> &'static [(&'static str, Reason)] {
    catalog::LEFT_OUT
}
