//! The cost of `rr-channel`'s drop-ins beside the raw ones: its own benchmark, and those that
//! crossbeam-channel publishes.
//!
//! The published benchmarks need an unstable compiler. So their source, taken from where cargo
//! keeps it, is made two modules of a scratch package, one on the raw channels and one on
//! ours, and is run by a few lines of a stable harness ([`HARNESS`]), rounds of both in turn.
//! Nothing of it is kept in this repository.
//!
//! Where a program's code happens to lie makes a loop that threads contend for faster or slower
//! by a third, the raw one too: what a benchmark says of one build is chance. So the repository's
//! own is built several times, each with other padding before its code. One run of one build,
//! whose memory lies where it happens to lie, is one sample: the median of its rounds.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, ensure};

use crate::support::cargo;
use crate::support::median::{interval, median};
use crate::support::workspace;

/// Options of `cargo xtask cost`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only in these modes; in all three, if none is given. A replay needs the recording.
    #[arg(value_parser = ["off", "record", "replay"])]
    modes: Vec<String>,
    /// How often each is run.
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// How many builds there are of the repository's own benchmark, with the code at other places.
    #[arg(long, default_value_t = 8)]
    layouts: usize,
    /// Those builds are there already, from before.
    #[arg(long)]
    built: bool,
    /// Only benchmarks with this in their names.
    #[arg(long)]
    filter: Option<String>,
    /// Only crossbeam-channel's benchmarks, or only those of this repository.
    #[arg(long, value_parser = ["published", "own"])]
    only: Option<String>,
}

const MANIFEST: &str = r#"
[package]
name = "published-benches"
version = "0.0.0"
edition = "2021"

[dependencies]
crossbeam-channel = "0.5"
crossbeam-utils = "0.8"
num_cpus = "1"

[profile.release]
debug = 1

[workspace]
"#;

/// A replacement for the unstable harness. A number of iterations that depended on time
/// would not be the same in a replay.
const HARNESS: &str = r#"
use std::time::Instant;

pub struct Bencher {
    iterations: u32,
    nanoseconds: f64,
}

impl Bencher {
    pub fn iter<R>(&mut self, mut f: impl FnMut() -> R) {
        let start = Instant::now();
        for _ in 0..self.iterations {
            std::hint::black_box(f());
        }
        self.nanoseconds = start.elapsed().as_secs_f64() * 1e9 / f64::from(self.iterations);
    }
}

fn time(bench: fn(&mut Bencher), iterations: u32) -> f64 {
    let mut bencher = Bencher { iterations, nanoseconds: 0.0 };
    bench(&mut bencher);
    bencher.nanoseconds
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    for (name, raw, ours) in BENCHES.iter().filter(|(name, _, _)| name.contains(&filter)) {
        let is_short = ["create", "oneshot", "inout"].iter().any(|s| name.ends_with(&format!("::{s}")));
        let iterations = if is_short { 20_000 } else { 1 };
        let rounds = if name.starts_with("bounded_0") || name.starts_with("bounded_1") { 5 } else { 15 };
        let mut times = Vec::new();
        for round in 0..=rounds {
            let these = [time(*raw, iterations), time(*ours, iterations), time(*raw, iterations)];
            if round > 0 {
                times.push(these);
            }
        }
        println!(
            "{name:24} raw {:12.1} ns  ours {:12.1} ns  ratio {:5.2}  raw to raw {:5.2}",
            median(times.iter().map(|t| (t[0] + t[2]) / 2.0)),
            median(times.iter().map(|t| t[1])),
            median(times.iter().map(|t| t[1] / ((t[0] + t[2]) / 2.0))),
            median(times.iter().map(|t| t[2] / t[0])),
        );
    }
}
"#;

/// Builds, measures, and shows the tables.
///
/// # Errors
///
/// When something cannot be built or run.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let is_asked = |what| args.only.as_deref().is_none_or(|only| only == what);
    let modes: Vec<_> = match &args.modes[..] {
        [] => vec!["off", "record", "replay"],
        some => some.iter().map(String::as_str).collect(),
    };
    if is_asked("own") {
        own(args, &modes)?;
    }
    if is_asked("published") {
        let dir = lay_out()?;
        let mut published = cargo::command();
        published
            .args(["build", "--release"])
            .current_dir(&dir)
            .env("CARGO_TARGET_DIR", dir.join("target"));
        let program = build(&mut published, "published-benches")?;
        for _ in 0..args.rounds {
            for mode in &modes {
                println!("{mode}:");
                let status = in_mode(&program, mode)?.args(&args.filter).status();
                let status = status.with_context(|| format!("starting {}", program.display()))?;
                ensure!(status.success(), "{} failed: {status}", program.display());
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A run of `program`, with a recording of its own.
fn in_mode(program: &Path, mode: &str) -> anyhow::Result<Command> {
    let log = program.with_extension("recording");
    if mode == "record" {
        crate::support::tree::remove(&log)?;
    }
    let mut command = Command::new(program);
    command.env("RR_CHANNEL", mode).env("RR_CHANNEL_LOG", &log);
    Ok(command)
}

/// The nanoseconds of a round: raw, ours, raw again.
type Round = [f64; 3];

/// The rounds of a benchmark, those of each run apart.
type Runs = Vec<Vec<Round>>;

/// Where the build of a layout is kept: beside this program.
fn place(layout: usize) -> anyhow::Result<PathBuf> {
    let here = std::env::current_exe().context("asking where this program is")?;
    Ok(here.with_file_name(format!("paired-layout-{layout}")))
}

/// Builds the repository's own benchmark, with its code at several places.
fn build_layouts(layouts: usize) -> anyhow::Result<Vec<PathBuf>> {
    let one = |layout: usize| {
        let mut bench = cargo::command();
        bench
            .args(["bench", "--package", "rr-channel", "--bench", "paired"])
            .arg("--no-run")
            .env("RR_CHANNEL_BENCH_PADDING", (layout * PADDING).to_string());
        let built = build(&mut bench, "paired")?;
        let program = place(layout)?;
        fs::copy(&built, &program)
            .with_context(|| format!("copying {} to {}", built.display(), program.display()))?;
        Ok(program)
    };
    (0..layouts).map(one).collect()
}

/// The repository's own benchmark, in all its builds.
fn own(args: &Args, modes: &[&str]) -> anyhow::Result<()> {
    let programs = if args.built {
        (0..args.layouts).map(place).collect::<Result<_, _>>()?
    } else {
        build_layouts(args.layouts)?
    };
    let mut names = Vec::new();
    let mut all: BTreeMap<(&str, String), Runs> = BTreeMap::new();
    for _ in 0..args.rounds {
        for program in &programs {
            for mode in modes {
                let mut command = in_mode(program, mode)?;
                let output = command
                    .args(&args.filter)
                    .arg("--samples")
                    .stderr(Stdio::inherit())
                    .output()
                    .with_context(|| format!("starting {}", program.display()))?;
                ensure!(
                    output.status.success(),
                    "{} failed: {}",
                    program.display(),
                    output.status
                );
                let mut run: BTreeMap<String, Vec<Round>> = BTreeMap::new();
                for line in String::from_utf8_lossy(&output.stdout).lines() {
                    let (name, round) =
                        sample(line).with_context(|| format!("no sample: {line}"))?;
                    if !names.contains(&name) {
                        names.push(name.clone());
                    }
                    run.entry(name).or_default().push(round);
                }
                for (name, rounds) in run {
                    all.entry((mode, name)).or_default().push(rounds);
                }
            }
        }
    }
    let ours = |runs: &Runs| of(runs, |times| times[1]).0;
    for mode in modes {
        println!("{mode}:");
        for name in &names {
            let Some(runs) = all.get(&(*mode, name.clone())) else {
                continue;
            };
            print!("{}", row(name, runs));
            if *mode == "replay"
                && let Some(recorded) = all.get(&("record", name.clone()))
            {
                print!("  to recording {:.2}", ours(runs) / ours(recorded));
            }
            println!();
        }
    }
    Ok(())
}

/// By how much the code of one build is moved from that of the one before: another place in a
/// cache line, and another line.
const PADDING: usize = 5 * 64 + 16;

/// A line of the benchmark: a name and a round.
fn sample(line: &str) -> Option<(String, Round)> {
    let mut parts = line.split('\t');
    let name = parts.next()?.to_owned();
    let times: Vec<f64> = parts.map(str::parse).collect::<Result<_, _>>().ok()?;
    Some((name, times.try_into().ok()?))
}

/// The median of what the runs are at, each by the median of its rounds, and between which of
/// the runs it lies with 95 % certainty.
fn of(runs: &Runs, what: impl Fn(&Round) -> f64) -> (f64, [f64; 2]) {
    let medians = runs
        .iter()
        .map(|rounds| median(rounds.iter().map(&what).collect()));
    let medians: Vec<f64> = medians.collect();
    let interval = interval(medians.clone()).unwrap_or_default();
    (median(medians), interval)
}

/// A line of the table.
fn row(name: &str, runs: &Runs) -> String {
    let raw = |times: &Round| f64::midpoint(times[0], times[2]);
    let (added, [least, most]) = of(runs, |times| times[1] - raw(times));
    let (ratio, [low, high]) = of(runs, |times| times[1] / raw(times));
    format!(
        "{name:24} raw {:6.1} ns  ours {:6.1} ns  added {added:+6.1} ns ({least:+.1} to {most:+.1})  \
         ratio {ratio:.2} ({low:.2} to {high:.2})  raw to raw {:.2}",
        of(runs, raw).0,
        of(runs, |times| times[1]).0,
        of(runs, |times| times[2] / times[0]).0,
    )
}

/// Runs a command of cargo's: the executable of the target `name`.
fn build(command: &mut Command, name: &str) -> anyhow::Result<PathBuf> {
    let output = command
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .context("starting cargo")?;
    ensure!(output.status.success(), "{name} does not build");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .with_context(|| format!("cargo named no executable of {name}"))
}

/// The scratch package.
fn lay_out() -> anyhow::Result<PathBuf> {
    let metadata = cargo::metadata(&workspace::root())?;
    let source = cargo::source_of(&metadata, "crossbeam-channel")?.join("benches/crossbeam.rs");
    let source =
        fs::read_to_string(&source).with_context(|| format!("reading {}", source.display()))?;
    let root = metadata.workspace_root.as_std_path();
    let dir = metadata.target_directory.as_std_path();
    let dir = dir.join("published-benches");
    fs::create_dir_all(dir.join("src"))?;
    let ours = format!("rr-channel = {{ path = {:?} }}\n", root.join("rr-channel"));
    let manifest = MANIFEST.replace("[dependencies]\n", &format!("[dependencies]\n{ours}"));
    fs::write(dir.join("Cargo.toml"), manifest)?;
    let (text, names) = stable(&source);
    ensure!(
        !names.is_empty(),
        "crossbeam-channel publishes no benchmarks any more"
    );
    for (module, channels) in [
        ("raw", "crossbeam_channel"),
        ("ours", "rr_channel::crossbeam_channel"),
    ] {
        let head = format!("use {channels}::{{bounded, unbounded}};\nuse crate::Bencher;\n");
        fs::write(
            dir.join("src").join(module).with_extension("rs"),
            head + &text,
        )?;
    }
    let entries: String = names
        .iter()
        .map(|name| format!("    ({name:?}, raw::{name}, ours::{name}),\n"))
        .collect();
    let main = format!(
        "mod ours;\nmod raw;\n{HARNESS}\n\
         const BENCHES: &[(&str, fn(&mut Bencher), fn(&mut Bencher))] = &[\n{entries}];\n"
    );
    fs::write(dir.join("src/main.rs"), main)?;
    Ok(dir)
}

/// The source without what is unstable in it, and the paths of its benchmarks.
fn stable(source: &str) -> (String, Vec<String>) {
    let (mut text, mut names) = (String::new(), Vec::new());
    let (mut module, mut is_bench) = (String::new(), false);
    for line in source.lines() {
        let plain = line.trim();
        if plain == "#[bench]" {
            is_bench = true;
            continue;
        }
        let unstable = [
            "#![feature(test)]",
            "extern crate test",
            "use test::",
            "use crossbeam_channel::",
        ];
        if unstable.iter().any(|start| plain.starts_with(start)) {
            continue;
        }
        if let Some(name) = line
            .strip_prefix("mod ")
            .and_then(|rest| rest.strip_suffix(" {"))
        {
            module = name.to_owned();
            text += "pub ";
        }
        if let Some(rest) = plain.strip_prefix("fn ").filter(|_| is_bench) {
            let name = rest.split('(').next().unwrap_or_default();
            names.push(format!("{module}::{name}"));
            text += "pub ";
            is_bench = false;
        }
        text += line;
        text += "\n";
    }
    (text, names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_one_sample() {
        let run = |ours: f64| vec![[1.0, ours, 1.0]; 100];
        let runs = vec![run(2.0), run(3.0), run(9.0)];
        assert_eq!(of(&runs, |times| times[1]), (3.0, [2.0, 9.0]));
    }

    #[test]
    fn benchmarks_are_found_and_made_stable() {
        let source = "#![feature(test)]\nextern crate test;\nuse test::Bencher;\n\
                      mod a {\n    #[bench]\n    fn b(b: &mut Bencher) {\n    }\n    fn c() {}\n}\n";
        let (text, names) = stable(source);
        assert_eq!(names, ["a::b"]);
        assert_eq!(
            text,
            "pub mod a {\npub     fn b(b: &mut Bencher) {\n    }\n    fn c() {}\n}\n"
        );
    }
}
