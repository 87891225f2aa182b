//! Upstream's own test suites, run through the drop-ins.
//!
//! The tests are those of the published crossbeam-channel and ipc-channel of the version in use,
//! taken from where cargo keeps it. They are copied to a scratch package next to crates that carry
//! upstream's names and re-export ours, and run in each mode. Nothing of them is kept in this
//! repository. Of ipc-channel there are all tests but those of its platform layer, which is not
//! replaced.
//!
//! It takes some minutes and a crates registry, so it is asked for explicitly:
//!
//! ```text
//! cargo test -p rr-channel --test conformance -- --ignored --nocapture
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The dependencies of crossbeam-channel's published tests besides the crate itself.
const MANIFEST: &str = r#"
[package]
name = "conformance"
version = "0.0.0"
edition = "2021"

[lib]
path = "lib.rs"

[dev-dependencies]
crossbeam-channel = { path = "shim" }
crossbeam-utils = "0.8"
num_cpus = "1"
rand = "0.8"
signal-hook = "0.3"

[workspace]
members = ["shim"]

[profile.dev]
opt-level = 1
"#;

/// The same of ipc-channel, whose tests are a part of it, or start a program of it.
const IPC_MANIFEST: &str = r#"
[package]
name = "conformance-ipc"
version = "0.0.0"
edition = "2021"
autobins = false

[lib]
path = "lib.rs"
test = false

[[bin]]
name = "spawn_client_test_helper"
path = "helper.rs"
test = false

[features]
default = ["async"]
async = []

[dependencies]
ipc-channel = { path = "shim" }

[dev-dependencies]
crossbeam-channel = { path = "shim-crossbeam" }
futures-core = "0.3"
futures-test = "0.3"
libc = "0.2"
serde = { version = "1", features = ["rc"] }
static_assertions = "1"

[workspace]
members = ["shim", "shim-crossbeam"]

[profile.dev]
opt-level = 1
"#;

/// The surroundings that the tests inside ipc-channel expect.
const IPC_SUITE: &str = r#"
#![allow(unused_imports, unexpected_cfgs, deprecated)]
use ipc_channel::{ipc, router, IpcError, SerDeError, TryRecvError, TrySelectError};

#[path = "../test.rs"]
mod test;
"#;

/// Tests that choose random numbers, which is no order of messages: upstream calls
/// each of them `drops`. They pass, and need not replay.
const RANDOM: &str = " thread drops";

/// The suite whose tests count the whole process's allocations: run alone, each.
const COUNTS_ALLOCATIONS: &str = "golang";

fn json_lines(output: &[u8]) -> impl Iterator<Item = serde_json::Value> {
    output
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
}

fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("RR_CHANNEL");
    cargo
}

/// The directory where cargo keeps the published crate, and its version.
fn published(name: &str) -> (PathBuf, String) {
    let output = cargo()
        .args(["metadata", "--format-version=1", "--all-features"])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata = json_lines(&output.stdout).next().unwrap();
    let package = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .find(|package| package["name"] == name)
        .unwrap();
    let manifest = Path::new(package["manifest_path"].as_str().unwrap());
    (
        manifest.parent().unwrap().to_owned(),
        package["version"].as_str().unwrap().to_owned(),
    )
}

/// A crate below `dir` that has a published one's name and version, and is `module`.
fn shim(dir: &Path, name: &str, version: &str, module: &str) {
    fs::create_dir_all(dir.join("src")).unwrap();
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"{version}\"\nedition = \"2021\"\n\n\
         [dependencies]\nrr-channel = {{ path = {:?}, features = [\"ipc_channel_async\"] }}\n",
        env!("CARGO_MANIFEST_DIR")
    );
    fs::write(dir.join("Cargo.toml"), manifest).unwrap();
    let code = format!("pub use rr_channel::{module}::*;\n");
    fs::write(dir.join("src/lib.rs"), code).unwrap();
}

fn copy_tests(source: &Path, dir: &Path) {
    fs::create_dir_all(dir.join("tests")).unwrap();
    for entry in fs::read_dir(source.join("tests")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, dir.join("tests").join(path.file_name().unwrap())).unwrap();
    }
}

/// A package with the published tests of crossbeam-channel, below `dir`.
fn lay_out(dir: &Path) {
    let (source, version) = published("crossbeam-channel");
    fs::write(dir.join("Cargo.toml"), MANIFEST).unwrap();
    fs::write(dir.join("lib.rs"), "").unwrap();
    shim(
        &dir.join("shim"),
        "crossbeam-channel",
        &version,
        "crossbeam_channel",
    );
    copy_tests(&source, dir);
}

/// A package with the published tests of ipc-channel, below `dir`.
fn lay_out_ipc(dir: &Path) {
    let (source, version) = published("ipc-channel");
    let (_, of_crossbeam) = published("crossbeam-channel");
    fs::write(dir.join("Cargo.toml"), IPC_MANIFEST).unwrap();
    fs::write(dir.join("lib.rs"), "").unwrap();
    shim(&dir.join("shim"), "ipc-channel", &version, "ipc_channel");
    shim(
        &dir.join("shim-crossbeam"),
        "crossbeam-channel",
        &of_crossbeam,
        "crossbeam_channel",
    );
    copy_tests(&source, dir);
    fs::copy(source.join("src/test.rs"), dir.join("test.rs")).unwrap();
    fs::write(dir.join("tests/suite.rs"), IPC_SUITE).unwrap();
    let helper = source.join("src/bin/spawn_client_test_helper.rs");
    fs::copy(helper, dir.join("helper.rs")).unwrap();
}

/// Builds the tests: each suite's name and executable.
fn build(dir: &Path) -> Vec<(String, PathBuf)> {
    let output = cargo()
        .current_dir(dir)
        .env(
            "CARGO_TARGET_DIR",
            Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance"),
        )
        .args(["test", "--tests", "--no-run", "--message-format=json"])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut suites: Vec<_> = json_lines(&output.stdout)
        .filter(|message| message["target"]["kind"][0] == "test")
        .filter_map(|message| {
            let name = message["target"]["name"].as_str()?.to_owned();
            Some((name, PathBuf::from(message["executable"].as_str()?)))
        })
        .collect();
    suites.sort();
    suites
}

/// One suite in one mode.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    desyncs: usize,
}

/// The modes; the last one is a replay that is recorded again.
const MODES: [&str; 4] = ["off", "record", "replay", "again"];

fn run(executable: &Path, name: &str, mode: &str, log: &Path) -> Counts {
    let mut command = Command::new(executable);
    command
        .env("RR_CHANNEL", mode)
        .env("RR_CHANNEL_LOG", log)
        .env_remove("RR_CHANNEL_NEW_LOG")
        .env("RUST_BACKTRACE", "0");
    if mode == "again" {
        command
            .env("RR_CHANNEL", "replay")
            .env("RR_CHANNEL_NEW_LOG", log.with_extension("again"));
    }
    if name == COUNTS_ALLOCATIONS {
        command.arg("--test-threads=1");
    }
    let output = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let number_before = |word: &str| {
        let summary = stdout.rsplit("test result:").next()?;
        summary
            .split(word)
            .next()?
            .split_whitespace()
            .next_back()?
            .parse()
            .ok()
    };
    if !output.status.success() {
        println!("{name}, {mode}: {stdout}{stderr}");
    }
    let said = |text: &str| {
        let desyncs = text
            .lines()
            .filter(|line| line.contains(" desynchronised at event "));
        desyncs
            .filter(|line| !line.contains(RANDOM))
            .inspect(|line| println!("{line}"))
            .count()
    };
    Counts {
        passed: number_before(" passed").unwrap_or(0),
        failed: number_before(" failed").unwrap_or(u64::MAX),
        desyncs: said(&stdout) + said(&stderr),
    }
}

/// Runs the tests of the package in `dir` in each mode; how many desynchronised.
fn check(dir: &Path) -> usize {
    let mut total = [0; MODES.len()];
    let mut failed = 0;
    let mut desyncs = 0;
    println!(
        "{:16} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "suite", "off", "record", "replay", "again", "desyncs"
    );
    for (name, executable) in build(dir) {
        let log = dir.join(format!("{name}.log"));
        let counts = MODES.map(|mode| run(&executable, &name, mode, &log));
        let [off, record, replay, again] = &counts;
        println!(
            "{name:16} {:>8} {:>8} {:>8} {:>8} {:>8}",
            off.passed,
            record.passed,
            replay.passed,
            again.passed,
            replay.desyncs + again.desyncs
        );
        for (total, counts) in total.iter_mut().zip(&counts) {
            *total += counts.passed;
            failed += counts.failed;
            desyncs += counts.desyncs;
        }
    }
    let [off, record, replay, again] = total;
    println!(
        "{:16} {off:>8} {record:>8} {replay:>8} {again:>8} {desyncs:>8}",
        "all"
    );
    assert!(off > 0);
    assert_eq!((failed, record, replay, again), (0, off, off, off));
    desyncs
}

#[test]
#[ignore = "takes minutes, and a crates registry"]
fn upstreams_tests_pass_in_every_mode() {
    let dir = tempfile::tempdir().unwrap();
    lay_out(dir.path());
    check(dir.path());
}

#[test]
#[ignore = "takes minutes, and a crates registry"]
fn the_tests_of_ipc_channel_pass_in_every_mode() {
    let dir = tempfile::tempdir().unwrap();
    lay_out_ipc(dir.path());
    assert_eq!(check(dir.path()), 0);
}
