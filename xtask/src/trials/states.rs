//! Each call on a name in each state of the name, after all other states.
//!
//! A program makes one call on the name `m`, and another that looks at the result. It runs under
//! pcache with the name in one state after the other, with one store, once in this order and, with
//! a new store, once in the reverse order. Each run must show and leave the same as a plain one. So
//! nothing that was recorded in one state may be repeated in another where the call does something
//! else. And since nothing disturbs these runs, what is stored is skipped when it comes again, and
//! no reason says that something changed meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::support::pcache::{self, Build, Report, Tested};
use crate::support::seen::{CALL, Seen};
use crate::support::tree;
use crate::support::workers::{self, in_parallel};

/// Options of `cargo xtask states`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    tested: Tested,
    /// Calls at the same time.
    #[arg(long)]
    jobs: Option<usize>,
    /// Only every so many trials.
    #[arg(long, value_name = "N", default_value_t = 1)]
    every: usize,
    /// Two calls that change something in a row, instead of a call and a look at its result: all
    /// pairs take about an hour on two processors.
    #[arg(long)]
    pairs: bool,
    /// Only calls whose words begin with this.
    #[arg(long, value_name = "WORDS", default_value = "")]
    only: String,
    /// How pcache sees lookups: `auto` or `stops`.
    #[arg(long, value_name = "HOW", default_value = "auto")]
    interception: String,
}

/// Runs some of the trials, as continuous integration does.
///
/// # Errors
///
/// Those of [`run`].
pub(crate) fn run_briefly() -> anyhow::Result<ExitCode> {
    let args = Args {
        tested: Tested::new(pcache::build(Build::Test)?),
        jobs: None,
        every: 29,
        pairs: false,
        only: String::new(),
        interception: "auto".to_owned(),
    };
    let pairs = Args {
        every: 229,
        pairs: true,
        ..args.clone()
    };
    let results = [run(&args)?, run(&pairs)?];
    let is_failed = |result: &ExitCode| *result != ExitCode::SUCCESS;
    Ok(match results.iter().any(is_failed) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// States of the name `m`, as the shell makes them. Beside it are the file `s` and the directory
/// `e`.
const STATES: &[&str] = &[
    ":",
    ": > m",
    "echo hello > m",
    "head -c 20000 /dev/zero > m",
    "truncate -s 20000 m",
    "echo hello > m; chmod 400 m",
    "echo hello > m; chmod 4755 m",
    "echo hello > m; ln m other",
    "echo hello > m; perl call.pl 'setxattr m user.a one 0' > /dev/null",
    "mkdir m",
    "mkdir m; echo x > m/x",
    "mkdir m; chmod 500 m",
    "ln -s nowhere m",
    "ln -s s m",
    "ln -s e m",
    "ln -s e/ m",
    "ln -s m m",
    "mkfifo m",
    "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un(\"m\"))'",
];

/// Calls on the name `m`, as `call.pl` takes them. Those that change something come first.
const CALLS: &[&str] = &[
    "truncate m 3",
    "truncate m 0",
    "ftruncate m 3",
    "append m xy",
    "append-existing m xy",
    "write-at m 1 zz",
    "write-made m 1 zz",
    "overwrite m xy",
    "exclusive m xy",
    "create m",
    "open-truncate m",
    "read-truncate m",
    "fallocate m 0 0 10",
    "copy-range s m 5",
    "copy-range m k 5",
    "sendfile s m 5",
    "sendfile-append s m 5",
    "rename m k",
    "rename s m",
    "rename e m",
    "rename2 m k 1",
    "rename2 s m 1",
    "rename2 s m 2",
    "link m k",
    "link s m",
    "link-follow m k",
    "symlink s m",
    "relink s m",
    "access m 0",
    "access m 2",
    "access m 1",
    "unlink m",
    "rmdir m",
    "unlinkat-dir m",
    "mkdir m 755",
    "mkfifo m",
    "mknod m",
    "chmod m 640",
    "chmod-nofollow m 640",
    "fchmod m 640",
    "chown m 1 1",
    "lchown m 1 1",
    "fchown m 1 1",
    "setxattr m user.a two 0",
    "setxattr m user.a two 1",
    "setxattr m user.a two 2",
    "lsetxattr m user.a two 0",
    "removexattr m user.a",
    "getxattr m user.a",
    "listxattr m",
    "utimens m 1000000000 1000000000 0",
    "utimens m 1000000000 omit 256",
    "utimens-null m",
    "futimens m 1000000000",
    "tmpfile-link m k",
    "tmpfile-link . m",
    "readlink m",
    "list m",
    "read m",
    "size m",
    "mode m",
    "mkdir m/x 755",
    "overwrite m/x ab",
    "append m/x ab",
    "unlink m/x",
    "rename m/x k",
    "rename s m/x",
    "symlink a m/x",
    "rmdir m/x",
    "read m/x",
    "mode m/x",
];

/// Calls that look at the name afterwards.
const LOOKS: &[&str] = &[
    "",
    "read m",
    "size m",
    "mode m",
    "access m 2",
    "listxattr m",
    "list .",
    "readlink m",
    "overwrite m new",
    "unlink m",
];

/// One trial: the calls that a program makes, and the order of the states.
#[derive(Debug, Clone)]
struct Trial {
    calls: Vec<String>,
    is_reversed: bool,
}

/// The first words of the calls that change nothing.
const QUESTIONS: &[&str] = &[
    "access",
    "getxattr",
    "listxattr",
    "readlink",
    "list",
    "read",
    "size",
    "mode",
];

fn trials(args: &Args) -> Vec<Trial> {
    let calls = CALLS.iter().filter(|call| call.starts_with(&args.only));
    let programs: Vec<Vec<String>> = match args.pairs {
        false => calls.flat_map(|call| with_looks(call)).collect(),
        true => calls.flat_map(|call| with_changes(call)).collect(),
    };
    let both = programs.into_iter().flat_map(|calls| {
        [false, true].map(|is_reversed| Trial {
            calls: calls.clone(),
            is_reversed,
        })
    });
    both.step_by(args.every.max(1)).collect()
}

/// Returns a call with each of the looks at its result, and the same with a slash behind the name.
fn with_looks(call: &str) -> Vec<Vec<String>> {
    let slashed = with_names(call, &[("m", "m/")]);
    let spelled = [Some(call.to_owned()), Some(slashed).filter(|it| it != call)];
    let mut programs = Vec::new();
    for call in spelled.into_iter().flatten() {
        for look in LOOKS {
            let look = Some((*look).to_owned()).filter(|look| !look.is_empty());
            programs.push([Some(call.clone()), look].into_iter().flatten().collect());
        }
    }
    programs
}

/// Returns a call that changes something with each other one after it: on the same name, and on the
/// name that it made or replaced.
fn with_changes(call: &str) -> Vec<Vec<String>> {
    if !is_change(call) {
        return Vec::new();
    }
    let mut programs = Vec::new();
    for later in CALLS.iter().filter(|later| is_change(later)) {
        programs.push(vec![call.to_owned(), (*later).to_owned()]);
        if call.ends_with(" k") {
            let on_new = with_names(later, &[("m", "k"), ("k", "j"), ("m/x", "k/x")]);
            programs.push(vec![call.to_owned(), on_new]);
        }
    }
    programs
}

/// Whether a call may change something.
fn is_change(call: &str) -> bool {
    let name = call.split(' ').next().unwrap_or_default();
    !QUESTIONS.contains(&name)
}

/// Replaces names in the words of a call.
fn with_names(call: &str, names: &[(&str, &str)]) -> String {
    let new = |word| names.iter().find(|(old, _)| *old == word);
    let words = call
        .split(' ')
        .map(|word| new(word).map_or(word, |it| it.1));
    words.collect::<Vec<_>>().join(" ")
}

/// Where a worker runs its trials.
struct Place {
    tree: PathBuf,
    store: PathBuf,
    program: PathBuf,
}

impl Place {
    fn new(base: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(base)?;
        let program = base.join("call.pl");
        fs::write(&program, CALL)?;
        Ok(Self {
            tree: base.join("tree"),
            store: base.join("store"),
            program,
        })
    }

    /// Makes the tree anew, with the name in this state, and all files old.
    fn reset(&self, state: &str) -> anyhow::Result<()> {
        tree::remove(&self.tree)?;
        fs::create_dir_all(&self.tree)?;
        let script = format!(
            "mkdir e; echo source > s; {}; touch -h -d @1000000000 ./* e . m/* 2> /dev/null; :",
            state.replace("call.pl", "../call.pl")
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(&self.tree);
        let status = command.status().context("starting sh")?;
        ensure!(status.success(), "the state {state:?} cannot be made");
        Ok(())
    }

    fn run(&self, mut command: Command, trial: &Trial, state: &str) -> anyhow::Result<Seen> {
        self.reset(state)?;
        command.arg(&self.program).args(&trial.calls);
        Seen::of(command, &self.tree)
    }

    /// Runs a trial; returns how often something was skipped, and what differs.
    fn attempt(
        &self,
        trial: &Trial,
        pcache: &Path,
        interception: &str,
    ) -> anyhow::Result<(usize, Option<String>)> {
        tree::remove(&self.store)?;
        let mut states = STATES.to_vec();
        if trial.is_reversed {
            states.reverse();
        }
        let report = self.store.with_extension("json");
        let mut hits = 0;
        for (index, state) in states.iter().enumerate() {
            let plain = self.run(Command::new("perl"), trial, state)?;
            let mut is_stored = false;
            // The second time, it may be skipped.
            for round in ["first", "second"] {
                let mut command = Command::new(pcache);
                command.args(["--quiet", "--min-time", "0", "--interception", interception]);
                command.arg("--json").arg(&report).args(["--", "perl"]);
                command.env("PCACHE_DIR", &self.store);
                let seen = self.run(command, trial, state)?;
                let report = Report::read(&report);
                hits += usize::from(report.hits > 0);
                let found = plain
                    .difference(&seen)
                    .or_else(|| is_stored.then(|| missed(trial, &report)).flatten())
                    .or_else(|| disturbed(trial, state, &report));
                if let Some(found) = found {
                    let before = states[..index].join("`, `");
                    let text = format!("after `{before}`, the {round} run: {found}");
                    return Ok((hits, Some(format!("where `{state}` was done, {text}"))));
                }
                is_stored = report.not_stored.is_none();
            }
        }
        Ok((hits, None))
    }
}

/// Why a command that only asks was not skipped, although the same one was stored before. One that
/// changes something may see a state of its own making, such as the time of a directory.
fn missed(trial: &Trial, report: &Report) -> Option<String> {
    let reason = report.missed.as_ref().filter(|_| report.hits == 0)?;
    let only_asks = trial.calls.iter().all(|call| !is_change(call));
    only_asks.then(|| format!("is stored, and not skipped: {reason}"))
}

/// The reason of a command that was not stored because others changed something, which nobody did.
/// A change of a file with several names changes the times under all of them, and a write by a
/// user takes set-uid rights from a file.
fn disturbed(trial: &Trial, state: &str, report: &Report) -> Option<String> {
    let reason = report.not_stored.as_ref()?;
    let links = trial.calls.iter().any(|call| call.contains("link"));
    let is_known = links || state.contains("chmod 4755");
    let is_disturbed =
        reason.contains(" changed while ") || !is_known && reason.contains("outside of pcache");
    is_disturbed.then(|| format!("is not stored: {reason}"))
}

#[derive(Debug, Default)]
struct Summary {
    hits: usize,
    /// Findings by calls.
    found: BTreeMap<String, String>,
}

/// Runs all trials.
///
/// # Errors
///
/// When the machinery fails; differences are printed and answered with a failing exit code.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let program = args.tested.program(Build::Release)?;
    let scratch = args.tested.scratch("states-")?;
    let trials = trials(args);
    println!("states: {} trials of {} states", trials.len(), STATES.len());
    let start = Instant::now();
    let (next, summary) = (AtomicUsize::new(0), Mutex::new(Summary::default()));
    let jobs = workers::jobs(args.jobs);
    in_parallel(jobs, |worker| {
        let place = Place::new(&scratch.path().join(format!("w{worker}")))?;
        while let Some(trial) = trials.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (hits, found) = place.attempt(trial, &program, &args.interception)?;
            let mut summary = summary
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            summary.hits += hits;
            if let Some(found) = found {
                let calls = trial.calls.join("; ");
                println!("{calls}: {found}");
                summary.found.insert(calls, found);
            }
        }
        Ok(())
    })?;
    let summary = summary
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let runs = trials.len() * STATES.len() * 2;
    println!(
        "{runs} runs in {:.1} s, {} skipped something",
        start.elapsed().as_secs_f64(),
        summary.hits
    );
    if summary.found.is_empty() {
        println!("no difference");
        return Ok(ExitCode::SUCCESS);
    }
    println!("{} differ", summary.found.len());
    Ok(ExitCode::FAILURE)
}
