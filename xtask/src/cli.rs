//! The command line of `cargo xtask`.

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::checks::{deps, docs, prose, spelling, syscall_table};
use crate::ci;
use crate::measure::cliffs::{self, looping};
use crate::measure::{cost, growth, profile, recordings, workloads};
use crate::trials::{
    conformance, corpus, differential, errors, fidelity, flaky, kills, pcache_kills, servo, states,
    subject, survey, tantivy,
};

/// Development tasks of the workspace.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    subcommand_required = true
)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Check formatting, lints, layers, pages, spelling, and run the unit tests.
    Quick,
    /// Run everything that continuous integration runs.
    #[command(alias = "ci")]
    Full(ci::Args),

    /// Check the direction of dependencies between crates and inside them.
    Deps(deps::Args),
    /// Check the pages (size, links, paths, freshness); --write makes the generated ones.
    Docs(docs::Args),
    /// Count summary lines of documentation that begin with a clause.
    Prose(prose::Args),
    /// Look for misspellings with typos.
    Spelling,
    /// Compare the syscall table with the kernel's own list.
    SyscallTable,

    /// Run the published tests of the crates that rr-channel replaces, in each mode.
    Conformance,
    /// Record and replay the programs of reprise's corpus.
    Corpus(corpus::Args),
    /// Compare random runs under pcache with the same runs without it.
    Differential(Box<differential::Args>),
    /// Inject every error of every call that pcache watches, and run again without.
    Errors(errors::Args),
    /// Replay the programs of rr-channel's tests many times.
    Fidelity(fidelity::Args),
    /// Tame flaky tests of published crates, as far as they can be.
    Flaky(flaky::Args),
    /// Kill recordings at random moments, and replay what is left.
    Kills(kills::Args),
    /// Kill pcache at any moment, fill its disk, run many at once, and compare.
    PcacheKills(pcache_kills::Args),
    /// Record and replay the tests of a crate of Servo's.
    Servo(servo::Args),
    /// Tame the suite of the small browser engine, and tell what holds.
    Subject(subject::Args),
    /// Make each call on a name in each of its states, after all other states.
    States(states::Args),
    /// Run the workspace's own tests many times, on a busy machine (about ten hours).
    Survey(survey::Args),
    /// Record and replay a flaky test of a published crate.
    Tantivy(tantivy::Args),

    /// Measure what pcache costs programs that do one thing often.
    Cliffs(cliffs::Args),
    /// Make the calls of one of its loops.
    #[command(hide = true)]
    MakeCalls(looping::Args),
    /// Measure what rr-channel's drop-ins cost, beside the raw ones.
    Cost(cost::Args),
    /// Measure what a unit costs when there are many, and the tracer's memory.
    Growth(growth::Args),
    /// Sort pcache's own time by what it is for, and draw a flame graph (needs perf).
    Profile(profile::Args),
    /// Record and replay real programs, compare and measure.
    Recordings(recordings::Args),
    /// Build real projects plainly and under pcache, compare and measure.
    Workloads(workloads::Args),
}

/// The tasks as the help shows them.
const GROUPS: &[(&str, &[&str])] = &[
    ("Before a commit", &["quick", "full"]),
    (
        "Checks (seconds)",
        &["deps", "docs", "prose", "spelling", "syscall-table"],
    ),
    (
        "Long checks (minutes to hours)",
        &[
            "differential",
            "errors",
            "states",
            "pcache-kills",
            "corpus",
            "kills",
            "fidelity",
            "conformance",
            "survey",
            "subject",
            "flaky",
            "tantivy",
            "servo",
        ],
    ),
    (
        "Measurements (minutes to hours)",
        &[
            "workloads",
            "recordings",
            "cliffs",
            "cost",
            "growth",
            "profile",
        ],
    ),
];

/// Parses the command line and runs the task it names.
///
/// # Errors
///
/// Returns what stopped the task; a check that merely found something to
/// object to has printed it, and answers with a failing exit code.
pub fn run() -> anyhow::Result<ExitCode> {
    let matches = command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match cli.task {
        Task::Quick => ci::quick(),
        Task::Full(args) => ci::full(&args),
        Task::Deps(args) => deps::run(&args),
        Task::Docs(args) => docs::run(&args),
        Task::Prose(args) => prose::run(&args),
        Task::Spelling => spelling::run(),
        Task::SyscallTable => {
            syscall_table::check()?;
            println!("syscall table: ok");
            Ok(ExitCode::SUCCESS)
        }
        Task::Conformance => conformance::run(),
        Task::Corpus(args) => corpus::run(&args),
        Task::Differential(args) => differential::run(&args),
        Task::Errors(args) => errors::run(&args),
        Task::States(args) => states::run(&args),
        Task::Fidelity(args) => fidelity::run(&args),
        Task::Flaky(args) => flaky::run(&args),
        Task::Kills(args) => kills::run(&args),
        Task::PcacheKills(args) => pcache_kills::run(&args),
        Task::Servo(args) => servo::run(&args),
        Task::Subject(args) => subject::run(&args),
        Task::Survey(args) => survey::run(&args),
        Task::Tantivy(args) => tantivy::run(&args),
        Task::Cliffs(args) => cliffs::run(&args),
        Task::MakeCalls(args) => looping::run(&args),
        Task::Cost(args) => cost::run(&args),
        Task::Growth(args) => growth::run(&args),
        Task::Profile(args) => profile::run(&args),
        Task::Recordings(args) => recordings::run(&args),
        Task::Workloads(args) => workloads::run(&args),
    }
}

/// The command line with its tasks in groups: clap itself has one list only.
fn command() -> clap::Command {
    let command = Cli::command();
    let groups = groups(&command);
    command
        .help_template("{about}\n\n{usage-heading} {usage}{after-help}\n\nOptions:\n{options}")
        .after_help(groups)
}

fn groups(command: &clap::Command) -> String {
    let mut help = String::new();
    for (heading, names) in GROUPS {
        let blank = if help.is_empty() { "" } else { "\n" };
        help.push_str(&format!("{blank}{heading}:\n"));
        for name in *names {
            let about = command
                .find_subcommand(name)
                .and_then(clap::Command::get_about)
                .map(ToString::to_string)
                .unwrap_or_default();
            help.push_str(&format!("  {name:<14} {about}\n"));
        }
    }
    help.truncate(help.trim_end().len());
    help
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_task_is_in_one_group_of_the_help() {
        let command = Cli::command();
        let tasks: BTreeSet<&str> = command
            .get_subcommands()
            .filter(|task| !task.is_hide_set())
            .map(clap::Command::get_name)
            .collect();
        let listed: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| names.iter().copied())
            .collect();
        assert_eq!(listed.len(), tasks.len());
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), tasks);
    }
}
