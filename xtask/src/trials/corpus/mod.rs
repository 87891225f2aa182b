//! The corpus of `reprise`: small programs of one behaviour each, recorded and replayed.
//!
//! Each program is run plainly, recorded with digests of its memory, and replayed a
//! number of times in an empty directory. A replay must print what was recorded, end as
//! was recorded, come to the same memory, and leave nothing. The programs check for
//! themselves that what they show happens; where they can, they print what differs from
//! run to run, so that a replay that merely ran them again would be found out.
//!
//! What is known to fail is in `known-gaps.txt`, and a case that is there and passes is
//! an objection too.

mod build;
mod case;
pub(crate) mod coverage;
mod gaps;
mod play;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use self::build::Tools;
use self::case::Case;
use self::gaps::Gap;
use self::play::{Outcome, Stage};
use crate::support::cargo;

/// Where the cases are.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../ptrace-async/replay/corpus");
/// After how many seconds a run hangs: the longest replay takes 9 s by itself, unoptimized, and
/// several times that on a machine that has other things to do.
const PATIENCE: u64 = 90;

/// Options of `cargo xtask corpus`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often each recording is replayed.
    #[arg(long, default_value_t = 20)]
    replays: u32,
    /// Only the cases with this in their names; may be given again.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Write what came of each case to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// How many cases are played at a time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// After how many seconds a run counts as one that hangs.
    #[arg(long, default_value_t = PATIENCE)]
    patience: u64,
    /// Run everything as nobody, without a privilege (must be started by root).
    #[arg(long)]
    unprivileged: bool,
    /// Write which cases cover which syscalls to this file.
    #[arg(long, value_name = "FILE")]
    coverage: Option<PathBuf>,
    /// Keep the traces and outputs of cases that fail in this directory.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// This `reprise`, and not the workspace's own.
    #[arg(long, value_name = "PROGRAM")]
    reprise: Option<PathBuf>,
}

/// One line of the report.
#[derive(Debug, serde::Serialize)]
struct Row {
    name: String,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// Whether it printed something else recorded than plainly.
    differs: bool,
    seconds: f64,
    /// The syscalls that it made, if it passed.
    #[serde(skip)]
    calls: Vec<String>,
    /// Whether it is as it is known to be.
    expected: bool,
}

/// The names of all cases.
///
/// # Errors
/// When the corpus cannot be read.
pub(crate) fn names() -> anyhow::Result<Vec<String>> {
    let cases = case::all(&fs::canonicalize(ROOT).context("finding the corpus")?)?;
    Ok(cases.into_iter().map(|case| case.name).collect())
}

/// Plays all cases once, each replayed twice. Returns those that are not as they are known
/// to be, and what is wrong with each.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_briefly() -> anyhow::Result<Vec<String>> {
    let rows = play_all(&Args {
        replays: 2,
        only: Vec::new(),
        json: None,
        coverage: None,
        jobs: 2,
        patience: PATIENCE,
        unprivileged: false,
        keep: None,
        reprise: None,
    })?;
    let unexpected = rows.into_iter().filter(|row| !row.expected);
    let told = |row: Row| format!("{}: {}", row.name, row.detail.unwrap_or_default());
    Ok(unexpected.map(told).collect())
}

/// Plays the cases.
///
/// # Errors
/// When the corpus cannot be read, `reprise` does not build, or something cannot be
/// started; a case that fails is in the table.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    Ok(if play_all(args)?.iter().all(|row| row.expected) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn play_all(args: &Args) -> anyhow::Result<Vec<Row>> {
    let root = fs::canonicalize(ROOT).context("finding the corpus")?;
    let gaps = gaps::read(&root.join("known-gaps.txt"))?;
    let cases = case::all(&root)?;
    for name in gaps.keys() {
        ensure!(
            cases.iter().any(|case| case.name == *name),
            "known-gaps.txt: there is no case {name}"
        );
    }
    let wanted =
        |case: &Case| args.only.is_empty() || args.only.iter().any(|only| case.name.contains(only));
    let cases: Vec<Case> = cases.into_iter().filter(wanted).collect();
    ensure!(!cases.is_empty(), "no case has such a name");

    let temporary = tempfile::tempdir().context("making a directory")?;
    let base = temporary.path();
    open(base)?;
    let programs = base.join("programs");
    let scratch = match &args.keep {
        Some(keep) => {
            fs::create_dir_all(keep)?;
            fs::canonicalize(keep)?
        }
        None => base.join("scratch"),
    };
    for directory in [&programs, &scratch] {
        fs::create_dir_all(directory)?;
        open(directory)?;
    }
    let built = match &args.reprise {
        Some(path) => path.clone(),
        None => build_reprise(false)?,
    };
    let reprise = base.join("reprise");
    fs::copy(&built, &reprise).with_context(|| format!("copying {}", built.display()))?;
    let stage = Stage {
        reprise,
        programs,
        scratch,
        replays: args.replays,
        patience: Duration::from_secs(args.patience),
        unprivileged: args.unprivileged,
    };

    let start = Instant::now();
    let tools = Tools::find();
    let compiled = each(&cases, args.jobs, |case| {
        compile(&tools, case, &root, &stage)
    })?;
    let compiling = start.elapsed();
    let start = Instant::now();
    let both: Vec<(&Case, Option<Outcome>)> = cases.iter().zip(compiled).collect();
    let rows = each(&both, args.jobs, |(case, already)| {
        play(&stage, case, already.clone(), gaps.get(&case.name))
    })?;

    report(&rows, &gaps);
    println!(
        "compiled in {:.1} s, recorded once and replayed {} times in {:.1} s",
        compiling.as_secs_f64(),
        args.replays,
        start.elapsed().as_secs_f64()
    );
    if let Some(path) = &args.json {
        let text = serde_json::to_vec_pretty(&rows)?;
        fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    if let Some(path) = &args.coverage {
        let cases = rows.iter().map(|row| (row.name.as_str(), &row.calls[..]));
        coverage::Coverage::of(cases).write(path)?;
    }
    Ok(rows)
}

/// Lets everybody in.
fn open(directory: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("opening {}", directory.display()))
}

/// Builds `reprise`, optimised or as the tests build it, which is quick, and returns the
/// program's path.
pub(crate) fn build_reprise(is_optimised: bool) -> anyhow::Result<PathBuf> {
    if !is_optimised {
        return cargo::program_of_tests("reprise");
    }
    let mut command = cargo::building("build");
    command.args(["--package", "reprise", "--release"]);
    cargo::built(&mut command, "reprise")
}

/// Does something for each of many, some at a time; the results are in the same order.
fn each<T: Sync, R: Send>(
    items: &[T],
    jobs: usize,
    work: impl Fn(&T) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = work(item);
                    if let Ok(mut results) = results.lock() {
                        results.insert(index, result);
                    }
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_default();
    results.into_values().collect()
}

/// Compiles a case: what comes of it, if it cannot be played.
fn compile(
    tools: &Tools,
    case: &Case,
    root: &Path,
    stage: &Stage,
) -> anyhow::Result<Option<Outcome>> {
    if let Some(missing) = tools.missing(case) {
        return Ok(Some(Outcome::Skipped(missing)));
    }
    let to = stage.programs.join(&case.name);
    if let Some(family) = to.parent() {
        fs::create_dir_all(family)?;
        open(family)?;
    }
    let error = tools.compile(case, root, &to).err();
    Ok(error.map(|error| Outcome::Failed(format!("{error:#}"))))
}

fn play(
    stage: &Stage,
    case: &Case,
    already: Option<Outcome>,
    gap: Option<&Gap>,
) -> anyhow::Result<Row> {
    let start = Instant::now();
    let outcome = match already {
        Some(outcome) => outcome,
        None => stage.play(case)?,
    };
    let expected = match &outcome {
        Outcome::Skipped(_) => true,
        Outcome::Passed { .. } => gap.is_none_or(|gap| gap.sometimes),
        Outcome::Failed(_) => gap.is_some(),
    };
    let differs = matches!(outcome, Outcome::Passed { differs: true, .. });
    let (outcome, detail, calls) = match outcome {
        Outcome::Passed { calls, .. } => ("passed", None, calls),
        Outcome::Skipped(why) => ("skipped", Some(why), Vec::new()),
        Outcome::Failed(what) => ("failed", Some(what), Vec::new()),
    };
    Ok(Row {
        name: case.name.clone(),
        outcome,
        detail,
        differs,
        seconds: start.elapsed().as_secs_f64(),
        calls,
        expected,
    })
}

/// Prints what is not a matter of course, and a table; whether all is as is known.
fn report(rows: &[Row], gaps: &BTreeMap<String, Gap>) {
    for row in rows {
        let detail = row.detail.as_deref().unwrap_or_default();
        let name = &row.name;
        match (row.outcome, row.expected) {
            ("failed", true) => println!("gap      {name}: {}", gaps[name].reason),
            ("failed", false) => println!("FAILED   {name}: {detail}"),
            ("passed", false) => println!("PASSED   {name}, which known-gaps.txt lists"),
            ("skipped", _) => println!("skipped  {name}: {detail}"),
            _ => {}
        }
    }
    println!(
        "{:<12} {:>6} {:>7} {:>5} {:>8}",
        "family", "passed", "differ", "gaps", "failures"
    );
    let mut families: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    for row in rows {
        let family = row.name.split('/').next().unwrap_or_default();
        for name in [family, "~"] {
            let counts = families.entry(name).or_default();
            counts[0] += usize::from(row.outcome == "passed");
            counts[1] += usize::from(row.differs);
            counts[2] += usize::from(row.outcome == "failed" && row.expected);
            counts[3] += usize::from(!row.expected);
        }
    }
    for (family, [passed, differ, gaps, failures]) in families {
        // It comes last.
        let family = if family == "~" { "all" } else { family };
        println!("{family:<12} {passed:>6} {differ:>7} {gaps:>5} {failures:>8}");
    }
}
