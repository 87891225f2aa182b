//! Every error of every call that pcache watches, injected once.
//!
//! A small program makes one call and prints how it ended. It runs under pcache while the call
//! fails with an error that the [syscall table](ptrace_async::syscall::table) names for it, and
//! then again undisturbed, with the same store. The second run must leave and print the same as a
//! plain one. So nothing that came of an error may be kept, unless the error is there again.
//!
//! pcache injects the error itself (`PCACHE_INJECT`). Errors that a kernel gives each time for the
//! same arguments and rights are not injected ([`reason_against`](calls::reason_against)).
//!
//! A call is made in each way of interception, and with calls that are performed in process also
//! by a program that has been patched.

mod calls;
mod trial;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, ensure};
use ptrace_async::syscall::{Failure, errno, table};

use crate::support::pcache::{self, Build, Tested};
use crate::support::workers::{self, in_parallel};
use calls::{Call, NEVER_MADE, reason_against};
use trial::{Place, Subject, Verdict};

/// Options of `cargo xtask errors`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    tested: Tested,
    /// Calls at the same time.
    #[arg(long)]
    jobs: Option<usize>,
    /// Only these calls.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Of the errors of a call that have the same meaning, only one.
    #[arg(long)]
    brief: bool,
    /// Only this way of interception: `auto` or `stops`.
    #[arg(long, value_name = "HOW")]
    interception: Option<String>,
    /// A planted defect to switch on.
    #[arg(long, value_name = "NAME")]
    defect: Option<String>,
    /// Name each pair that cannot be injected.
    #[arg(long)]
    list: bool,
}

/// The errors of a call that can be injected, but for those after which programs try again.
///
/// # Panics
///
/// When the syscall table has no such call.
pub(crate) fn injectable(call: &str) -> Vec<&'static str> {
    let spec = table::by_name(call).expect("a call of the table");
    let errors = spec.errors().into_iter();
    errors
        .filter(|error| spec.failure(*error) != Failure::Retried)
        .map(name)
        .filter(|error| reason_against(spec, error).is_none())
        .collect()
}

/// Runs a part of the pairs, as continuous integration does.
///
/// # Errors
///
/// Those of [`run`].
pub(crate) fn run_briefly() -> anyhow::Result<ExitCode> {
    run(&Args {
        tested: Tested::new(pcache::build(Build::Test)?),
        jobs: None,
        only: Vec::new(),
        brief: true,
        interception: None,
        defect: None,
        list: false,
    })
}

/// One pair: a call, one of its errors, and how it is seen.
#[derive(Debug, Clone, Copy)]
struct Pair<'a> {
    call: &'a Call,
    error: i32,
    way: Way,
}

/// How a call is intercepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Way {
    /// `auto`, by a program of few calls.
    Auto,
    /// `auto`, by a program that has been patched.
    Patched,
    /// `stops`.
    Stops,
}

impl Way {
    fn interception(self) -> &'static str {
        match self {
            Self::Auto | Self::Patched => "auto",
            Self::Stops => "stops",
        }
    }
}

#[derive(Debug, Default)]
struct Summary {
    same: usize,
    /// Failing pairs.
    failed: usize,
    /// Pairs whose call did not fail as asked, by call.
    unseen: BTreeMap<String, Vec<String>>,
}

/// Runs all pairs.
///
/// # Errors
///
/// When the machinery fails; differences are printed and answered with a failing exit code.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let program = args.tested.program(Build::Test)?;
    ensure!(
        pcache::injects_errors(&program)?,
        "{} injects no errors: it is not built for tests",
        program.display()
    );
    let scratch = args.tested.scratch("errors-")?;
    let helper = compile(scratch.path())?;
    let mut calls = calls::all();
    if !args.only.is_empty() {
        calls.retain(|call| args.only.iter().any(|name| name == call.spec.name));
    }
    let (pairs, left_out) = pairs(&calls, args);
    println!("errors: {} pairs of {} calls", pairs.len(), calls.len());
    let start = Instant::now();
    let summary = all(args, &program, &helper, &calls, &pairs, scratch.path())?;
    println!(
        "{} pairs in {:.1} s: the run after the error equals a plain one",
        summary.same,
        start.elapsed().as_secs_f64()
    );
    for (reason, count) in &left_out {
        println!("{count} errors are not injected: {reason}");
    }
    for (name, reason) in NEVER_MADE {
        println!("{name} is not made: {reason}");
    }
    let unseen: usize = summary.unseen.values().map(Vec::len).sum();
    println!("{unseen} pairs could not be injected: the call passes without a stop");
    if args.list {
        for (call, errors) in &summary.unseen {
            println!("    {call}: {}", errors.join(" "));
        }
    }
    match summary.failed {
        0 => println!("no difference"),
        count => println!("{count} pairs differ"),
    }
    Ok(if summary.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Returns the pairs to run, and the numbers of errors that are left out, by reason.
fn pairs<'a>(calls: &'a [Call], args: &Args) -> (Vec<Pair<'a>>, BTreeMap<&'static str, usize>) {
    let mut pairs = Vec::new();
    let mut chosen = HashSet::new();
    let mut left_out = BTreeMap::new();
    let mut before = "";
    for (index, call) in calls.iter().enumerate() {
        let is_first = before != call.spec.name;
        before = call.spec.name;
        for error in call.spec.errors() {
            if let Some(reason) = reason_against(call.spec, name(error)) {
                *left_out.entry(reason).or_default() += usize::from(is_first);
                continue;
            }
            let failure = call.spec.failure(error);
            let is_patched = ptrace_async::runtime::performs_in_process(call.spec.number.into());
            for way in [Way::Auto, Way::Patched, Way::Stops] {
                let is_chosen = args
                    .interception
                    .as_ref()
                    .is_none_or(|name| name == way.interception());
                let is_chosen = is_chosen && (way != Way::Patched || is_patched);
                if is_chosen && (!args.brief || chosen.insert((index, failure, way))) {
                    pairs.push(Pair { call, error, way });
                }
            }
        }
    }
    (pairs, left_out)
}

fn all(
    args: &Args,
    program: &Path,
    helper: &Path,
    calls: &[Call],
    pairs: &[Pair<'_>],
    scratch: &Path,
) -> anyhow::Result<Summary> {
    let jobs = workers::jobs(args.jobs);
    let next = AtomicUsize::new(0);
    let summary = Mutex::new(Summary::default());
    in_parallel(jobs, |worker| {
        let place = Place::new(&scratch.join(format!("w{worker}")), helper)?;
        // All pairs of a call at one place, where it runs plainly once.
        while let Some(call) = calls.get(next.fetch_add(1, Ordering::Relaxed)) {
            let of_call = pairs.iter().filter(|pair| std::ptr::eq(pair.call, call));
            let mut plain = BTreeMap::new();
            for pair in of_call {
                let is_warm = pair.way == Way::Patched;
                let plain = match plain.entry(is_warm) {
                    Entry::Occupied(entry) => entry.into_mut(),
                    Entry::Vacant(entry) => entry.insert(place.plain(call, is_warm)?),
                };
                let subject = Subject {
                    pcache: program.to_owned(),
                    interception: pair.way.interception().to_owned(),
                    defect: args.defect.clone(),
                };
                let verdict = place
                    .attempt(&subject, call, pair.error, is_warm, plain)
                    .with_context(|| describe(pair))?;
                note(&summary, pair, verdict);
            }
        }
        Ok(())
    })?;
    Ok(summary
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner))
}

fn note(summary: &Mutex<Summary>, pair: &Pair<'_>, verdict: Verdict) {
    let mut summary = summary
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    match verdict {
        Verdict::Same => summary.same += 1,
        Verdict::Unseen => {
            let call = words(pair.call);
            let error = format!("{} ({:?})", name(pair.error), pair.way);
            summary.unseen.entry(call).or_default().push(error);
        }
        Verdict::Differs(finding) => {
            println!("{}: {finding}", describe(pair));
            summary.failed += 1;
        }
    }
}

fn name(error: i32) -> &'static str {
    errno::name(error).unwrap_or("?")
}

fn words(call: &Call) -> String {
    format!("{} {}", call.spec.name, call.arguments.join(" "))
}

fn describe(pair: &Pair<'_>) -> String {
    let error = name(pair.error);
    format!("{}, {error} ({:?})", words(pair.call), pair.way)
}

/// Compiles the program that makes the calls.
fn compile(scratch: &Path) -> anyhow::Result<PathBuf> {
    let (source, helper) = (scratch.join("call.c"), scratch.join("call"));
    std::fs::write(&source, include_str!("call.c"))?;
    let output = Command::new("cc")
        .args(["-O1", "-Wall", "-o"])
        .arg(&helper)
        .arg(&source)
        .output()
        .context("starting cc")?;
    ensure!(
        output.status.success(),
        "the helper does not compile: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(helper)
}
