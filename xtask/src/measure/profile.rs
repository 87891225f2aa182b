//! Where pcache's time goes.
//!
//! A command is run under a pcache that keeps frame pointers, with an empty store, while
//! perf(1) takes a sample of who runs whenever a quarter of a millisecond of CPU time has
//! passed. The samples of pcache's own threads are sorted by what they are for, and drawn as
//! a flame graph. Sampling takes time itself, so the shares are what counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, ensure};
use inferno::flamegraph::{self, Options};

use crate::support::pcache::{Build, Report, build};

/// Options of `cargo xtask profile`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Draw a flame graph into this file (SVG).
    #[arg(long, value_name = "FILE")]
    flame: Option<PathBuf>,
    /// The pcache to look at, built with frame pointers; built from the workspace when absent.
    #[arg(long, value_name = "PATH")]
    pcache: Option<PathBuf>,
    /// Where it is run.
    #[arg(long, value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// The command to run; a shell that starts a program a thousand times when absent.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// CPU time between two samples (µs).
const PERIOD: u32 = 250;

/// The command if none is named.
const STARTS: &str = "i=0; while [ $i -lt 1000 ]; do i=$((i+1)); /bin/true $i -; done";

/// A stack that one of the tracer's threads was seen with.
#[derive(Debug, PartialEq, Eq)]
struct Sample {
    process: u32,
    thread: String,
    /// The functions, the outermost first.
    frames: Vec<String>,
}

/// The purposes of the tracer's main thread, each with a function that only that leads through. Where
/// several fit, the first one counts.
const PARTS: [(&str, &[&str]); 9] = [
    (
        "calls that were made without a stop, applied",
        &[
            "apply_logged",
            "Session>::looked_up",
            "Tracer>::apply_all",
            "Tracer>::catch_up",
            "Slot>::logged",
        ],
    ),
    (
        "units that end: conditions, results",
        &["Session>::conclude", "Tracer>::left"],
    ),
    (
        "programs that begin: our code, their files",
        &["Tracer>::executed"],
    ),
    (
        "programs that are asked for: key, lookup",
        &["Tracer>::execution"],
    ),
    (
        "other calls, applied",
        &[
            "Session>::apply",
            "Session>::before",
            "Processes::entry",
            "Processes::exit",
        ],
    ),
    ("waiting for stops", &["waitid"]),
    ("what a stop is", &["::interpret"]),
    ("letting tasks go on", &["::resume"]),
    ("other work at stops", &["run::serve"]),
];

/// The name for samples in no part.
const REST: &str = "starting, ending, and what cannot be told";

impl Sample {
    fn is_in(&self, function: &str) -> bool {
        self.frames.iter().any(|frame| frame.contains(function))
    }

    /// The purpose: a part, or another thread's name.
    fn part(&self) -> &str {
        if !self.thread.starts_with("pcache") {
            return self
                .thread
                .trim_end_matches(|c: char| c == '-' || c.is_ascii_digit());
        }
        PARTS
            .iter()
            .find(|(_, functions)| functions.iter().any(|function| self.is_in(function)))
            .map_or(REST, |(part, _)| part)
    }

    /// Whether the kernel was at work.
    fn is_kernel(&self) -> bool {
        self.is_in("entry_SYSCALL") || self.is_in("asm_")
    }

    /// As flame graphs want it.
    fn folded(&self) -> String {
        let frames = self.frames.iter().map(|frame| frame.replace(';', ","));
        let all: Vec<String> = std::iter::once(self.thread.clone()).chain(frames).collect();
        format!("{} 1", all.join(";"))
    }
}

/// Reads what `perf script -F comm,pid,tid,ip,sym` prints.
fn samples(text: &str) -> Vec<Sample> {
    let mut samples = Vec::new();
    for record in text.split("\n\n") {
        let mut lines = record.lines().filter(|line| !line.is_empty());
        // Names may hold blanks: what comes last are the numbers.
        let Some((thread, ids)) = lines.next().and_then(|line| line.trim().rsplit_once(' ')) else {
            continue;
        };
        let Some(Ok(process)) = ids.split('/').next().map(str::parse) else {
            continue;
        };
        let frames = lines.map(|line| {
            let name = line
                .trim()
                .split_once(' ')
                .map_or("", |(_, name)| name.trim());
            name.to_owned()
        });
        let mut frames: Vec<String> = frames.collect();
        frames.reverse();
        samples.push(Sample {
            process,
            thread: thread.trim().to_owned(),
            frames,
        });
    }
    samples
}

/// Those of processes that trace.
fn of_tracers(mut samples: Vec<Sample>) -> Vec<Sample> {
    let tracers: BTreeSet<u32> = samples
        .iter()
        .filter(|sample| sample.is_in("process_cache::engine::run::serve"))
        .map(|sample| sample.process)
        .collect();
    samples.retain(|sample| tracers.contains(&sample.process));
    samples
}

/// Runs, prints a table, and draws.
///
/// # Errors
///
/// When perf is not there or must not look, or something else does not run.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let pcache = match &args.pcache {
        Some(pcache) => pcache.canonicalize().context("looking for pcache")?,
        None => build(Build::Profiled)?,
    };
    let dir = tempfile::tempdir().context("a directory")?;
    let (data, json) = (dir.path().join("perf.data"), dir.path().join("report"));
    let mut command: Vec<&str> = args.command.iter().map(String::as_str).collect();
    if command.is_empty() {
        command = vec!["sh", "-c", STARTS];
    }
    let recorded = perf(
        dir.path(),
        &["record", "--quiet", "--no-buildid", "--no-buildid-cache"],
    )
    .args(["--call-graph", "fp", "--event", "cpu-clock"])
    .args(["--count", &(1000 * PERIOD).to_string(), "--output"])
    .arg(&data)
    .arg("--")
    .arg(&pcache)
    .arg("--cache-dir")
    .arg(dir.path().join("store"))
    .arg("--json")
    .arg(&json)
    .args(["--quiet", "--"])
    .args(&command)
    .current_dir(&args.directory)
    .stdin(Stdio::null())
    .stdout(Stdio::null())
    .status()
    .context("starting perf")?;
    ensure!(recorded.success(), "perf, or what it looked at, failed");
    let script = perf(
        dir.path(),
        &["script", "--fields", "comm,pid,tid,ip,sym", "--input"],
    )
    .arg(&data)
    .stderr(Stdio::null())
    .output()
    .context("starting perf")?;
    ensure!(script.status.success(), "perf script failed");
    let samples = of_tracers(samples(&String::from_utf8_lossy(&script.stdout)));
    ensure!(!samples.is_empty(), "perf saw nothing of pcache");
    print(&samples, Report::read(&json).units);
    if let Some(path) = &args.flame {
        draw(path, &samples)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A call of perf(1) that keeps what it copies in this directory: else it would leave links to
/// libraries, which then have several names.
fn perf(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("perf");
    command.arg("--buildid-dir").arg(dir).args(arguments);
    command
}

fn print(samples: &[Sample], units: u64) {
    let mut parts: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for sample in samples {
        let (all, kernel) = parts.entry(sample.part()).or_default();
        *all += 1;
        *kernel += u64::from(sample.is_kernel());
    }
    let mut parts: Vec<_> = parts.into_iter().collect();
    parts.sort_by_key(|(_, (all, _))| std::cmp::Reverse(*all));
    let each = |count: u64| count as f64 * f64::from(PERIOD) / units.max(1) as f64;
    let total = samples.len() as u64;
    println!(
        "{units} exec-units, {:.0} µs of pcache's CPU time for each",
        each(total)
    );
    println!();
    println!("| what for | µs for each unit | share | of it in the kernel |");
    println!("|---|---|---|---|");
    for (part, (all, kernel)) in parts {
        println!(
            "| {part} | {:.1} | {:.1} % | {:.0} % |",
            each(all),
            100.0 * all as f64 / total as f64,
            100.0 * kernel as f64 / all as f64
        );
    }
}

/// A flame graph of all samples.
fn draw(path: &Path, samples: &[Sample]) -> anyhow::Result<()> {
    let mut folded: Vec<String> = samples.iter().map(Sample::folded).collect();
    folded.sort_unstable();
    let mut options = Options::default();
    "pcache's own threads".clone_into(&mut options.title);
    let file = File::create(path).with_context(|| format!("making {}", path.display()))?;
    flamegraph::from_lines(
        &mut options,
        folded.iter().map(String::as_str),
        BufWriter::new(file),
    )
    .with_context(|| format!("drawing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "\
pcache 10/10 
\tffffffff8100 do_wait
\tffffffff8101 entry_SYSCALL_64_after_hwframe
\t    55550001 ptrace_async_waitid_end
\t    55550002 process_cache::engine::run::serve
\t    55550003 main

digest 10/12 
\t    55550004 blake3::Hasher::update

Web Content 11/11 
\t    7fff0001 [unknown]

pcache 9/9 
\t    55550005 main

pcache 10/10 
\t    55550006 <process_cache::engine::session::Session>::apply_logged
\t    55550007 <process_cache::engine::tracer::Tracer>::executed
\t    55550002 process_cache::engine::run::serve
";

    #[test]
    fn what_perf_prints_is_read() {
        let all = samples(SCRIPT);
        assert_eq!(all.len(), 5);
        assert_eq!(
            (all[2].process, all[2].thread.as_str()),
            (11, "Web Content")
        );
        assert_eq!(all[0].frames.first().map(String::as_str), Some("main"));
        assert_eq!(all[1].folded(), "digest;blake3::Hasher::update 1");
    }

    #[test]
    fn samples_are_told_by_what_they_are_for() {
        let own = of_tracers(samples(SCRIPT));
        let parts: Vec<_> = own.iter().map(Sample::part).collect();
        assert_eq!(parts, ["waiting for stops", "digest", PARTS[0].0]);
        let kernel: Vec<_> = own.iter().map(Sample::is_kernel).collect();
        assert_eq!(kernel, [true, false, false]);
    }
}
