//! The table of checks.

use std::io::{BufRead, BufReader};
use std::process::{ExitCode, Stdio};

use anyhow::Context;

use crate::checks::{deps, docs, prose, spelling, syscall_table};
use crate::support::cargo;
use crate::support::totals::Totals;
use crate::trials::{corpus, differential, errors, kills, pcache_kills, states, subject};

/// One check.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) when: When,
    /// Whether it passed; it has printed what is wrong.
    pub(super) run: fn(&mut Notes) -> anyhow::Result<bool>,
}

/// The commands that run a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// `full`, unless the caller has run the tests.
    Tests,
    /// `full` only.
    Full,
    /// `quick` only.
    Quick,
    /// Both.
    Always,
}

/// Notes of the steps for the end of the output.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Set once tests have run.
    pub(super) totals: Option<Totals>,
    /// Failures of steps whose output is long.
    pub(super) failures: Vec<String>,
}

/// All checks, in the order in which they run.
pub(super) const STEPS: &[Step] = &[
    Step {
        name: "tests",
        when: When::Tests,
        run: |notes| test_counting(cargo::TESTS, notes),
    },
    Step {
        name: "formatting",
        when: When::Always,
        run: |_| run_cargo(&["fmt", "--all", "--check"], &[]),
    },
    Step {
        name: "dependency direction",
        when: When::Always,
        run: |_| Ok(is_ok(deps::run(&deps::Args::default())?)),
    },
    Step {
        name: "docs",
        when: When::Always,
        run: |_| Ok(is_ok(docs::run(&docs::Args::default())?)),
    },
    Step {
        name: "prose",
        when: When::Always,
        run: |_| Ok(is_ok(prose::run(&prose::Args::default())?)),
    },
    Step {
        name: "spelling",
        when: When::Always,
        run: |_| Ok(is_ok(spelling::run()?)),
    },
    Step {
        name: "syscall table",
        when: When::Always,
        run: |_| {
            Ok(syscall_table::check()
                .inspect_err(|error| println!("{error:#}"))
                .is_ok())
        },
    },
    Step {
        name: "clippy",
        when: When::Always,
        run: |_| run_cargo(CLIPPY, &[]),
    },
    Step {
        name: "unit tests",
        when: When::Quick,
        run: |notes| test_counting(&["test", "--workspace", "--lib"], notes),
    },
    Step {
        name: "documentation of the code",
        when: When::Full,
        run: |_| {
            run_cargo(
                &["doc", "--workspace", "--no-deps"],
                &[("RUSTDOCFLAGS", "-Dwarnings")],
            )
        },
    },
    Step {
        name: "replayed channels of optimized programs",
        when: When::Full,
        run: |_| run_cargo(OPTIMIZED_CHANNELS, &[]),
    },
    Step {
        name: "differential",
        when: When::Full,
        run: |_| Ok(is_ok(differential::run_briefly()?)),
    },
    Step {
        name: "errors of system calls",
        when: When::Full,
        run: |_| Ok(is_ok(errors::run_briefly()?)),
    },
    Step {
        name: "states of names",
        when: When::Full,
        run: |_| Ok(is_ok(states::run_briefly()?)),
    },
    Step {
        name: "pcache under bad circumstances",
        when: When::Full,
        run: |_| Ok(is_ok(pcache_kills::run_briefly()?)),
    },
    Step {
        name: "corpus",
        when: When::Full,
        run: |notes| Ok(notes.keep("corpus", corpus::run_briefly()?)),
    },
    Step {
        name: "kills",
        when: When::Full,
        run: |notes| Ok(notes.keep("kills", kills::run_briefly()?)),
    },
    Step {
        name: "example suite",
        when: When::Full,
        run: |_| Ok(is_ok(subject::run_briefly()?)),
    },
];

const CLIPPY: &[&str] = &[
    "clippy",
    "--workspace",
    "--all-targets",
    "--",
    "-D",
    "warnings",
];

/// The other tests are unoptimized, and replayed channels behave differently in optimized
/// programs. Built as the tests are, so that nothing else is built anew.
const OPTIMIZED_CHANNELS: &[&str] = &[
    "test",
    "--quiet",
    "--workspace",
    "--test",
    "fidelity",
    "--config",
    "profile.dev.package.rr-channel-core.debug-assertions=false",
];

impl Notes {
    /// Keeps the failures for the end; whether there are none.
    fn keep(&mut self, name: &str, failures: Vec<String>) -> bool {
        let is_ok = failures.is_empty();
        let failures = failures.into_iter();
        self.failures
            .extend(failures.map(|failure| format!("{name}: {failure}")));
        is_ok
    }
}

fn is_ok(code: ExitCode) -> bool {
    code == ExitCode::SUCCESS
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
fn test_counting(args: &[&str], notes: &mut Notes) -> anyhow::Result<bool> {
    let totals = notes.totals.get_or_insert_default();
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
