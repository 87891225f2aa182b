//! The command line of `cargo xtask`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::checks::{deps, syscall_table};
use crate::ci;
use crate::generate::syscalls;
use crate::measure::{cost, growth, profile, recordings, workloads};
use crate::trials::{
    conformance, corpus, differential, fidelity, flaky, kills, pcache_kills, servo, subject,
    tantivy,
};

/// Development tasks of the workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run everything that continuous integration runs.
    Ci(ci::Args),
    /// Run the published tests of the crates that rr-channel replaces, in each mode.
    Conformance,
    /// Record and replay the programs of reprise's corpus.
    Corpus(corpus::Args),
    /// Measure what rr-channel's drop-ins cost, beside the raw ones.
    Cost(cost::Args),
    /// Check the direction of dependencies between crates and inside them.
    Deps(deps::Args),
    /// Compare random runs under pcache with the same runs without it.
    Differential(Box<differential::Args>),
    /// Replay the programs of rr-channel's tests many times.
    Fidelity(fidelity::Args),
    /// Tame flaky tests of published crates, as far as they can be.
    Flaky(flaky::Args),
    /// Measure what a unit costs when there are many, and the tracer's memory.
    Growth(growth::Args),
    /// Kill recordings at random moments, and replay what is left.
    Kills(kills::Args),
    /// Sort pcache's own time by what it is for, and draw a flame graph (needs perf).
    Profile(profile::Args),
    /// Record and replay real programs, compare and measure.
    Recordings(recordings::Args),
    /// Record and replay the tests of a crate of Servo's.
    Servo(servo::Args),
    /// Tame the suite of the small browser engine, and tell what holds.
    Subject(subject::Args),
    /// Write the page about what reprise does with each syscall.
    SyscallDocs(syscalls::Args),
    /// Kill pcache at any moment, fill its disk, run many at once, and compare.
    PcacheKills(pcache_kills::Args),
    /// Compare the syscall table with the kernel's own list.
    SyscallTable,
    /// Record and replay a flaky test of a published crate.
    Tantivy(tantivy::Args),
    /// Build real projects plainly and under pcache, compare and measure.
    Workloads(workloads::Args),
}

/// Parses the command line and runs the task it names.
///
/// # Errors
///
/// Returns what stopped the task; a check that merely found something to
/// object to has printed it, and answers with a failing exit code.
pub fn run() -> anyhow::Result<ExitCode> {
    match Cli::parse().task {
        Task::Ci(args) => ci::run(&args),
        Task::Conformance => conformance::run(),
        Task::Corpus(args) => corpus::run(&args),
        Task::Cost(args) => cost::run(&args),
        Task::Deps(args) => deps::run(&args),
        Task::Differential(args) => differential::run(&args),
        Task::Fidelity(args) => fidelity::run(&args),
        Task::Flaky(args) => flaky::run(&args),
        Task::Growth(args) => growth::run(&args),
        Task::Kills(args) => kills::run(&args),
        Task::Profile(args) => profile::run(&args),
        Task::Recordings(args) => recordings::run(&args),
        Task::Servo(args) => servo::run(&args),
        Task::Subject(args) => subject::run(&args),
        Task::SyscallDocs(args) => syscalls::run(&args),
        Task::PcacheKills(args) => pcache_kills::run(&args),
        Task::Tantivy(args) => tantivy::run(&args),
        Task::Workloads(args) => workloads::run(&args),
        Task::SyscallTable => {
            syscall_table::check()?;
            println!("syscall table: ok");
            Ok(ExitCode::SUCCESS)
        }
    }
}
