//! The tests of a cargo project.
//!
//! Cargo itself is asked for the environment and directory of each test executable: it is
//! called with this program as its target runner, which writes down how it was called
//! instead of running anything.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use super::{Cargo, Digests, Search, Test, libtest};
use crate::sandbox::Job;
use crate::sandbox::guard::{self, Take};

/// The first argument of a call as cargo's runner.
pub(crate) const COLLECT: &str = "__collect";

/// The project as it is.
pub(super) struct Plain;

impl Cargo for Plain {
    fn test(&self, args: &[String], runner: &[String]) -> anyhow::Result<Command> {
        let mut command = cargo();
        let runner = serde_json::to_string(runner)?;
        command
            .arg("test")
            .arg("--config")
            .arg(format!("target.{}.runner={runner}", host()?))
            .args(args);
        Ok(command)
    }

    fn nextest_list(&self, options: &[&str], args: &[String]) -> Command {
        let mut command = cargo();
        command.args(["nextest", "list"]).args(options).args(args);
        command
    }
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}

/// The platform that cargo builds for.
fn host() -> anyhow::Result<String> {
    let output = cargo().arg("-vV").output().context("cannot start cargo")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host
        .context("`cargo -vV` does not name its host")?
        .to_owned())
}

/// How cargo called the runner.
#[derive(Debug, Serialize, Deserialize)]
struct Called {
    executable: PathBuf,
    args: Vec<String>,
    dir: PathBuf,
    env: BTreeMap<String, String>,
}

/// Writes down how cargo called this program: `DIR EXECUTABLE ARGS...`.
pub(crate) fn collect(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let write = || -> anyhow::Result<()> {
        let dir = PathBuf::from(args.next().context("there is no directory")?);
        let executable = PathBuf::from(args.next().context("there is no executable")?);
        let called = Called {
            args: args.map(|arg| arg.to_string_lossy().into_owned()).collect(),
            dir: std::env::current_dir()?,
            env: std::env::vars_os()
                .filter_map(|(name, value)| {
                    Some((name.into_string().ok()?, value.into_string().ok()?))
                })
                .collect(),
            executable,
        };
        // The order of cargo's calls is that of the file names.
        let number = fs::read_dir(&dir)?.count();
        fs::write(
            dir.join(format!("{number:06}.json")),
            serde_json::to_vec(&called)?,
        )?;
        Ok(())
    };
    match { write }() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell!("servo-harness: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Builds and lists the tests of a project; documentation tests are left out.
///
/// # Errors
/// If the project does not build, or its executables do not list their tests.
pub(super) fn tests(
    cargo: &dyn Cargo,
    args: &[String],
    search: Search<'_>,
) -> anyhow::Result<Vec<Test>> {
    let dir = search.scratch.join("collected");
    match fs::remove_dir_all(&dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", dir.display()));
        }
        _ => {}
    }
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let own = std::env::current_exe().context("cannot find the path of this program")?;
    let text = |path: &Path| path.to_str().map(str::to_owned);
    let runner = [text(&own), Some(COLLECT.to_owned()), text(&dir)];
    let runner: Option<Vec<String>> = runner.into_iter().collect();
    let runner = runner.context("a path is no UTF-8, as cargo's options must be")?;
    let args = with_targets(args);
    // Its own reports are those of tests that did not run.
    let built = guard::output(
        &cargo.test(&args, &runner)?,
        Take::Nothing,
        search.interrupt,
    );
    let status = built.context("cannot start cargo")?.status;
    ensure!(status.success(), "cargo cannot build the tests ({status})");
    let mut files: Vec<PathBuf> = fs::read_dir(&dir)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    let known: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    let mut digests = Digests::default();
    let mut found = Vec::new();
    for file in files {
        let called: Called = serde_json::from_slice(&fs::read(&file)?)
            .with_context(|| format!("reading {}", file.display()))?;
        let mut job = Job::new(&called.executable, Vec::<OsString>::new());
        job.dir = Some(called.dir);
        let env = called
            .env
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        job.env = env
            .filter(|(name, value)| known.get(name) != Some(value))
            .collect();
        let package = variable(&job, "CARGO_PKG_NAME");
        let prefix = format!("{package}::{}$", target(&called.executable));
        found.extend(libtest(
            &mut digests,
            &job,
            &called.args,
            &prefix,
            search.interrupt,
        )?);
    }
    // The same test in two executables of one name, as of a library and a program.
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    for test in &mut found {
        let count = times.entry(test.name.clone()).or_insert(0);
        *count += 1;
        if *count > 1 {
            test.name = format!("{}#{count}", test.name);
        }
    }
    fs::remove_dir_all(&dir)?;
    Ok(found)
}

/// Cargo's options so that no documentation test is built, unless the user chose targets.
fn with_targets(args: &[String]) -> Vec<String> {
    let own = args.iter().take_while(|arg| *arg != "--");
    let chosen = [
        "--lib",
        "--bins",
        "--bin",
        "--tests",
        "--test",
        "--examples",
        "--example",
        "--benches",
        "--bench",
        "--all-targets",
        "--doc",
    ];
    let is_chosen = own
        .map(|arg| arg.split('=').next().unwrap_or_default())
        .any(|arg| chosen.contains(&arg));
    let first = (!is_chosen).then(|| "--tests".to_owned());
    first.into_iter().chain(args.iter().cloned()).collect()
}

fn variable(job: &Job, name: &str) -> String {
    let found = job.env.iter().find(|(key, _)| key == name);
    found.map_or_else(String::new, |(_, value)| {
        value.to_string_lossy().into_owned()
    })
}

/// The name of the target that an executable was made of: without cargo's digest.
fn target(executable: &Path) -> String {
    let stem = executable.file_stem().unwrap_or_default().to_string_lossy();
    match stem.rsplit_once('-') {
        Some((name, digest))
            if digest.len() == 16 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            name.to_owned()
        }
        _ => stem.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_named_without_digests() {
        assert_eq!(
            target(Path::new("d/some-crate-0123456789abcdef")),
            "some-crate"
        );
        assert_eq!(target(Path::new("d/some-crate")), "some-crate");
    }

    #[test]
    fn documentation_tests_are_left_out_unless_targets_are_chosen() {
        let check = |args: &str, expected: &str| {
            let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
            assert_eq!(with_targets(&args).join(" "), expected);
        };
        check("", "--tests");
        check("--release filter", "--tests --release filter");
        check("--test=one", "--test=one");
        check("-- --lib", "--tests -- --lib");
    }
}
