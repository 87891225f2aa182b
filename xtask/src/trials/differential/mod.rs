//! The differential test of pcache: random projects, random edits, and each
//! step taken twice, plainly and under pcache.
//!
//! A [`Case`] is a starting tree and a list of steps; [`generate`] makes one
//! from a seed, [`check`] takes its steps on both sides and compares the trees
//! ([`crate::tree`]), the streams, the exit status and what the build tool
//! concludes ([`conclude`]) after each. Before a step others may [disturb] one on pcache's side,
//! whose results must not show in the step. Both sides run at one absolute path
//! ([`crate::support::tree::arena`]). A case that fails is [shrunk](shrink) and stored in the
//! [`corpus`], which is replayed first in each run.
//!
//! **Invariant:** a difference is reported only when the same case, run
//! plainly on both sides, shows none; a case that does is the generator's
//! fault, counted and named as *unsound*; more than a few of those fail the
//! run as well, because they test nothing.

mod case;
mod check;
mod conclude;
mod corpus;
pub(crate) mod dice;
mod disturb;
mod edit;
mod execute;
mod generate;
mod hang;
mod plant;
mod select;
mod shrink;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail, ensure};

use crate::support::descriptors;
use crate::support::pcache::{self, Build, Tested};
use crate::support::workers::{self, in_parallel};

use crate::support::tree::arena::{Arena, Side};
use case::Case;
use check::{Difference, Pcache, Subject, Tally, check};
use generate::Tools;
use select::{Selection, Trouble};

/// Options of `cargo xtask differential`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// How many cases to generate.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// Steps per case.
    #[arg(long, default_value_t = 10)]
    steps: usize,
    /// The first seed; chosen by the clock, and printed, when absent.
    #[arg(long)]
    seed: Option<u64>,
    /// Cases that run at the same time.
    #[arg(long)]
    jobs: Option<usize>,
    #[command(flatten)]
    tested: Tested,
    /// Also store failing cases, as generated, and the trees they left here.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Where shrunk cases are stored, and replayed from.
    #[arg(long, value_name = "DIR")]
    corpus: Option<PathBuf>,
    /// Replay this stored case only.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Do not replay the corpus.
    #[arg(long)]
    no_corpus: bool,
    /// Do not shrink, and store nothing in the corpus.
    #[arg(long)]
    no_shrink: bool,
    /// Longest time to shrink one case, in seconds.
    #[arg(long, default_value_t = 90)]
    shrink_time: u64,
    /// Longest time for one run of a command, in seconds.
    #[arg(long, default_value_t = 30)]
    deadline: u64,
    /// How pcache sees lookups (its `--interception`): `auto` or `stops`.
    #[arg(long, value_name = "HOW", default_value = "auto")]
    interception: String,
    /// Programs in this directory are found before those of the system: ones that are
    /// linked statically, say.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Move the trees to another place before each step, and make their place a root.
    #[arg(long)]
    moving: bool,
    /// Generate cases with these kinds of trouble only.
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    only: Vec<Trouble>,
    /// Generate no cases with these kinds of trouble.
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    without: Vec<Trouble>,
    /// Stop after this many failing cases.
    #[arg(long, default_value_t = 10)]
    failures: usize,
    /// Look for planted defects, `all` or one by name, instead: each must be
    /// found. Needs a pcache built with `--features planted-defects`.
    #[arg(long, value_name = "NAME")]
    plant: Option<String>,
}

/// The kinds of trouble in the brief form.
const BRIEF: &[Trouble] = &[
    Trouble::Projects,
    Trouble::Namespaces,
    Trouble::Outsiders,
    Trouble::Errors,
    Trouble::Injected,
    Trouble::Locks,
    Trouble::Disks,
    Trouble::Places,
    Trouble::Signals,
    Trouble::Calls,
    Trouble::Attributes,
    Trouble::Times,
    Trouble::Appends,
    Trouble::Opens,
    Trouble::Transfers,
    Trouble::Mounts,
];

/// Runs the stored cases and a few fixed seeds, as continuous integration does.
///
/// # Errors
///
/// Those of [`run`].
pub(crate) fn run_briefly() -> anyhow::Result<ExitCode> {
    run(&Args {
        seeds: 60,
        steps: 6,
        seed: Some(1),
        jobs: None,
        tested: Tested::new(pcache::build(Build::Test)?),
        keep: None,
        corpus: None,
        replay: None,
        no_corpus: false,
        no_shrink: true,
        shrink_time: 0,
        deadline: 60,
        failures: 10,
        interception: "auto".to_owned(),
        programs: None,
        moving: false,
        only: BRIEF.to_vec(),
        without: Vec::new(),
        plant: None,
    })
}

/// Runs the test.
///
/// # Errors
///
/// When the machinery fails; differences are printed and answered with a
/// failing exit code.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let build = if args.plant.is_some() {
        Build::Planted
    } else {
        Build::Release
    };
    let program = args.tested.program(build)?;
    if let Some(programs) = &args.programs {
        let programs = programs
            .canonicalize()
            .with_context(|| format!("looking for {}", programs.display()))?;
        check::search_before(&programs);
    }
    let pcache = Pcache {
        program,
        interception: args.interception.clone(),
        defect: None,
        deadline: Duration::from_secs(args.deadline),
    };
    let scratch = args.tested.scratch("differential-")?;
    // Cases that need it are left out without it.
    if let Err(reason) = descriptors::compile(scratch.path()) {
        println!("calls on descriptors: {reason:#}");
    }
    let first = args.seed.unwrap_or_else(|| {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |time| time.as_nanos() as u64 % 1_000_000_000)
    });
    if let Some(name) = &args.plant {
        return plant::run(args, &pcache, name, first, scratch.path());
    }
    let cases = Cases::new(args, &pcache, first)?;
    println!(
        "differential: {} cases, first seed {first}, {} steps each",
        cases.len(),
        args.steps
    );
    let start = Instant::now();
    let summary = campaign(args, &pcache, &cases, args.failures, scratch.path())?;
    summary.print(start.elapsed());
    Ok(if summary.failed.is_empty() && summary.mostly_sound() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The cases of a run, generated when their turn comes.
struct Cases {
    stored: Vec<(String, Case)>,
    first: u64,
    seeds: u64,
    steps: usize,
    tools: Tools,
    selection: Selection,
}

impl Cases {
    fn new(args: &Args, pcache: &Pcache, first: u64) -> anyhow::Result<Self> {
        let tools = Tools::find();
        let selection = selection(args, pcache, tools)?;
        if let Some(path) = &args.replay {
            let json =
                std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
            let name = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let case = serde_json::from_slice(&json)
                .with_context(|| format!("reading {}", path.display()))?;
            return Ok(Self {
                stored: vec![(name, case)],
                first,
                seeds: 0,
                steps: 0,
                tools,
                selection,
            });
        }
        let stored = if args.no_corpus {
            Vec::new()
        } else {
            corpus::load(&corpus_directory(args))?
        };
        Ok(Self {
            stored,
            first,
            seeds: args.seeds,
            steps: args.steps,
            tools,
            selection,
        })
    }

    fn len(&self) -> u64 {
        self.stored.len() as u64 + self.seeds
    }

    fn get(&self, index: u64) -> Option<(String, Case)> {
        if let Some(stored) = self.stored.get(usize::try_from(index).ok()?) {
            return Some(stored.clone());
        }
        let index = index - self.stored.len() as u64;
        let seed = self.first.wrapping_add(index);
        (index < self.seeds).then(|| {
            (
                format!("seed-{seed}"),
                generate::case(seed, self.steps, self.tools, &self.selection),
            )
        })
    }
}

/// The kinds of trouble that are chosen and possible.
fn selection(args: &Args, pcache: &Pcache, tools: Tools) -> anyhow::Result<Selection> {
    let mut selection = Selection::new(&args.only, &args.without);
    if selection.has(Trouble::Injected) && !pcache.injects_errors()? {
        selection.skip(Trouble::Injected, "this pcache injects no errors");
    }
    if !tools.namespaces {
        selection.skip(Trouble::Namespaces, "`unshare -r` is not possible here");
    }
    if descriptors::program().is_none() {
        for kind in [
            Trouble::Appends,
            Trouble::Opens,
            Trouble::Transfers,
            Trouble::Mounts,
        ] {
            selection.skip(kind, "there is no C compiler");
        }
    }
    if !tools.perl {
        for kind in [
            Trouble::Outsiders,
            Trouble::Signals,
            Trouble::Locks,
            Trouble::Calls,
        ] {
            selection.skip(kind, "there is no perl");
        }
    }
    if !tools.mounts {
        for kind in [
            Trouble::Disks,
            Trouble::Places,
            Trouble::Transfers,
            Trouble::Mounts,
        ] {
            selection.skip(
                kind,
                "mounts in a namespace of a thread are not possible here",
            );
        }
    }
    ensure!(
        !selection.is_empty(),
        "no kind of trouble is left to generate"
    );
    Ok(selection)
}

/// Gives this thread, and all that it starts, mounts of their own: they end with it.
fn mount_apart() -> nix::Result<()> {
    use nix::mount::{MsFlags, mount};
    let none = None::<&str>;
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS)?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
}

fn corpus_directory(args: &Args) -> PathBuf {
    args.corpus.clone().unwrap_or_else(corpus::directory)
}

/// The findings of a run over many cases.
#[derive(Debug, Default)]
struct Summary {
    cases: u64,
    tally: Tally,
    /// Names of failing cases.
    failed: Vec<String>,
    /// Names of cases that differ from themselves.
    unsound: Vec<String>,
}

impl Summary {
    /// Whether at most one case in fifty was no test of anything.
    fn mostly_sound(&self) -> bool {
        self.unsound.len() as u64 * 50 <= self.cases
    }

    fn print(&self, time: Duration) {
        let Tally {
            steps,
            steps_with_hits,
            units,
            hits,
        } = self.tally;
        println!(
            "{} cases, {steps} steps in {:.1} s",
            self.cases,
            time.as_secs_f64()
        );
        if units > 0 {
            println!("{hits} of {units} units were hits; {steps_with_hits} steps had at least one");
        } else {
            println!("pcache reported no units: whether anything was skipped is unknown");
        }
        if !self.unsound.is_empty() {
            println!(
                "not deterministic by themselves: {}",
                self.unsound.join(", ")
            );
        }
        match self.failed.len() {
            0 => println!("no difference"),
            n => println!("{n} failing cases: {}", self.failed.join(", ")),
        }
    }
}

/// Checks cases on all workers until they are done or enough have failed.
fn campaign(
    args: &Args,
    pcache: &Pcache,
    cases: &Cases,
    most_failures: usize,
    scratch: &Path,
) -> anyhow::Result<Summary> {
    let jobs = workers::jobs(args.jobs);
    let next = AtomicU64::new(0);
    let summary = Mutex::new(Summary::default());
    in_parallel(jobs, |worker| {
        let mut arena = Arena::new(scratch.join(format!("w{worker}")))?.moving(args.moving);
        if cases.tools.mounts && cases.selection.mounts() {
            mount_apart().context("mounting for this thread alone")?;
            arena = arena.with_small_disk()?;
        }
        while let Some((name, case)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            if lock(&summary).failed.len() >= most_failures {
                break;
            }
            one_case(args, pcache, &arena, &name, &case, &summary)
                .with_context(|| format!("checking {name}"))?;
        }
        Ok(())
    })?;
    Ok(summary
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner))
}

fn lock(summary: &Mutex<Summary>) -> std::sync::MutexGuard<'_, Summary> {
    summary
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn one_case(
    args: &Args,
    pcache: &Pcache,
    arena: &Arena,
    name: &str,
    case: &Case,
    summary: &Mutex<Summary>,
) -> anyhow::Result<()> {
    let mut tally = Tally::default();
    let found = check(arena, case, Subject::Pcache(pcache), &mut tally)?;
    {
        let mut summary = lock(summary);
        summary.cases += 1;
        summary.tally.add(tally);
    }
    let Some(difference) = found else {
        return Ok(());
    };
    // Judged several times: timing may hide what makes a case unsound. Whether two files have
    // times in the same tick, as a tool sees that compares them, is decided by chance, and so is
    // which of two processes of a pipeline complains first. What a planted defect does, it does
    // nearly always.
    let times = if pcache.defect.is_some() { 3 } else { 12 };
    for _ in 0..times {
        if let Some(own) = check(arena, case, Subject::Plain, &mut Tally::default())? {
            println!(
                "{name} ({}) is not deterministic by itself:\n{}",
                case.kind,
                describe(case, &own)
            );
            lock(summary).unsound.push(name.to_owned());
            return Ok(());
        }
    }
    if pcache.defect.is_some() {
        // Found only what is wrong without the planted defect, too?
        let unplanted = Pcache {
            defect: None,
            ..pcache.clone()
        };
        let subject = Subject::Pcache(&unplanted);
        if check(arena, case, subject, &mut Tally::default())?.is_some() {
            println!("{name} differs without the planted defect as well");
            return Ok(());
        }
    }
    println!(
        "{name} ({}) differs under pcache:\n{}",
        case.kind,
        describe(case, &difference)
    );
    lock(summary).failed.push(name.to_owned());
    if let Some(keep) = &args.keep {
        keep_case(keep, arena, name, case, pcache)?;
    }
    if !args.no_shrink && args.replay.is_none() {
        let limit = Duration::from_secs(args.shrink_time);
        let (small, small_difference) = shrink::shrink(arena, case, &difference, pcache, limit)?;
        let path = corpus::store(&corpus_directory(args), name, &small)?;
        println!(
            "{name}, shrunk and stored in {}:\n{}",
            path.display(),
            describe(&small, &small_difference)
        );
    }
    Ok(())
}

/// A difference with the step that led to it.
fn describe(case: &Case, difference: &Difference) -> String {
    let mut text = format!(
        "  after step {} of {}",
        difference.step + 1,
        case.steps.len()
    );
    if let Some(step) = case.steps.get(difference.step) {
        if !step.edits.is_empty() {
            text += &format!("\n  edits {:?}", step.edits);
        }
        for disturbance in &step.disturbances {
            text += &format!("\n  disturbed by {disturbance:?}");
        }
        text += &format!("\n  run {:?}", step.run.argv);
    }
    for line in difference.lines.iter().take(8) {
        text += &format!("\n    {line}");
    }
    text
}

/// Fails the case once more and stores it with both trees and the store.
fn keep_case(
    keep: &Path,
    arena: &Arena,
    name: &str,
    case: &Case,
    pcache: &Pcache,
) -> anyhow::Result<()> {
    let again = check(arena, case, Subject::Pcache(pcache), &mut Tally::default())?;
    if again.is_none() {
        println!("{name} did not fail again when it was to be kept");
    }
    corpus::store(keep, name, case)?;
    for side in [Side::Plain, Side::Cached] {
        let parked = arena.parked(side);
        let to = keep.join(format!("{name}-{side:?}").to_lowercase());
        copy(&parked, &to)?;
    }
    copy(&arena.store(), &keep.join(format!("{name}-store")))
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let mut command = std::process::Command::new("cp");
    command.arg("-a").arg("-T").arg(from).arg(to);
    let status = execute::start(&mut command)
        .and_then(|mut cp| cp.wait())
        .context("starting cp")?;
    if !status.success() {
        bail!("copying {} to {} failed", from.display(), to.display());
    }
    Ok(())
}
