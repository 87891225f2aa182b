//! What `rr-channel`'s drop-ins cost, beside the raw ones: its own benchmark, and those that
//! crossbeam-channel publishes.
//!
//! The published benchmarks need an unstable compiler. So their source, taken from where cargo
//! keeps it, is made two modules of a scratch package, one on the raw channels and one on
//! ours, and is run by a few lines of a stable harness ([`HARNESS`]), rounds of both in turn.
//! Nothing of it is kept in this repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, ensure};

use crate::cargo;

/// Options of `cargo xtask cost`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only in these modes; in all three, if none is given. A replay needs the recording.
    #[arg(value_parser = ["off", "record", "replay"])]
    modes: Vec<String>,
    /// Only what takes place, not how it is built: how often in turn.
    #[arg(long, default_value_t = 1)]
    rounds: u32,
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

/// What stands in for the unstable harness. A number of iterations that depended on time
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
    for (name, raw, ours) in BENCHES {
        let is_short = ["create", "oneshot", "inout"].iter().any(|s| name.ends_with(&format!("::{s}")));
        let iterations = if is_short { 20_000 } else { 1 };
        let rounds = if name.starts_with("bounded_0") { 5 } else { 15 };
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
    let mut programs = Vec::new();
    if is_asked("own") {
        let mut bench = cargo::command();
        bench.args(["bench", "--package", "rr-channel", "--bench", "paired"]);
        programs.push(build(bench.args(["--no-run"]), "paired")?);
    }
    if is_asked("published") {
        let dir = lay_out()?;
        let mut published = cargo::command();
        published
            .args(["build", "--release"])
            .current_dir(&dir)
            .env("CARGO_TARGET_DIR", dir.join("target"));
        programs.push(build(&mut published, "published-benches")?);
    }
    let modes: Vec<_> = match &args.modes[..] {
        [] => vec!["off", "record", "replay"],
        some => some.iter().map(String::as_str).collect(),
    };
    for _ in 0..args.rounds {
        for program in &programs {
            let log = program.with_extension("recording");
            for mode in &modes {
                if *mode == "record" {
                    crate::tree::remove(&log)?;
                }
                println!("{mode}:");
                let status = Command::new(program)
                    .env("RR_CHANNEL", mode)
                    .env("RR_CHANNEL_LOG", &log)
                    .status()
                    .with_context(|| format!("starting {}", program.display()))?;
                ensure!(status.success(), "{} failed: {status}", program.display());
            }
        }
    }
    Ok(ExitCode::SUCCESS)
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
    let output = cargo::command()
        .args(["metadata", "--format-version=1"])
        .output()
        .context("starting `cargo metadata`")?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let manifest = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|package| package["name"] == "crossbeam-channel")
        .and_then(|package| package["manifest_path"].as_str())
        .context("cargo does not say where it keeps crossbeam-channel")?;
    let source = Path::new(manifest).with_file_name("benches/crossbeam.rs");
    let source =
        fs::read_to_string(&source).with_context(|| format!("reading {}", source.display()))?;
    let root = metadata["workspace_root"].as_str().unwrap_or_default();
    let target = metadata["target_directory"].as_str().unwrap_or_default();
    let dir = Path::new(target).join("published-benches");
    fs::create_dir_all(dir.join("src"))?;
    let ours = format!(
        "rr-channel = {{ path = {:?} }}\n",
        Path::new(root).join("rr-channel")
    );
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
