//! Servo's own crates, as they are published, on `rr-channel`.
//!
//! A crate is fetched and its tests are built by `cargo reprise`, which replaces what the
//! engine talks by (crossbeam-channel, ipc-channel, rayon). They run without recording some
//! times, then recorded, and the recording is replayed: each replay must end as the recording
//! did, without a desynchronisation.
//!
//! The locks of `parking_lot` stay upstream's: Servo's style engine checks while compiling
//! that nodes with such locks have the size that they have with upstream's.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use rr_channel_tools::reprise::PatchedProject;

use crate::support::published::{self, build, fetch};
use crate::support::totals::Totals;

/// The crate that is not replaced.
const EXCEPT: &str = "parking_lot";

/// Options of `cargo xtask servo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which of Servo's crates.
    #[arg(long, default_value = "servo-background-hang-monitor")]
    package: String,
    /// Its version.
    #[arg(long, default_value = "0.7.0")]
    version: String,
    /// Runs without recording.
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// How often the recording is replayed.
    #[arg(long, default_value_t = 20)]
    replays: u32,
    /// How many jobs cargo builds with.
    #[arg(short, long)]
    jobs: Option<usize>,
    /// Where the source is, and what is built: some gigabytes.
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Options of the tests.
    #[arg(last = true)]
    tests: Vec<String>,
}

/// A crate of Servo's, and what is called for it.
struct Servo<'a> {
    args: &'a Args,
    reprise: PathBuf,
    source: PathBuf,
    target: PathBuf,
}

/// Builds, runs, records and replays, and says what came of it.
///
/// # Errors
///
/// When the source cannot be had or built, or no run can be recorded.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let work = published::work(args.work.as_ref(), "servo")?;
    let servo = Servo {
        args,
        reprise: build(&["rr-channel-tools"], "cargo-reprise")?,
        source: fetch(&work, &args.package, &args.version)?,
        target: work.join("target"),
    };
    println!("replaced: {}", servo.replaced()?.join(", "));
    let project = PatchedProject::find(&servo.options(), &[EXCEPT.to_owned()], false)?;
    println!("mode      runs  tests");
    let mut totals = Totals::default();
    for _ in 0..args.runs {
        // As cargo would run them, but for the crates that they are built with.
        let mut command = project.test(&servo.jobs(), &["env".to_owned()])?;
        command.current_dir(&servo.source).arg("--");
        counted(command.args(&args.tests), &mut totals)?;
    }
    println!("{:8}  {:>4}  {totals}", "off", args.runs);

    let mut totals = Totals::default();
    let mut record = servo.reprise("test");
    record
        .args(["--except", EXCEPT])
        .args(servo.options())
        .args(servo.jobs())
        .arg("--")
        .args(&args.tests);
    let output = counted(&mut record, &mut totals)?;
    println!("{:8}  {:>4}  {totals}", "record", 1);
    let said = String::from_utf8_lossy(&output.stderr);
    let recorded = said
        .lines()
        .find(|line| line.contains("reprise: recording "));
    println!("{}", recorded.context("nothing was recorded")?);

    let start = Instant::now();
    let json = work.join("replays.json");
    let replays = published::replay(servo.reprise("replay"), &json, args.replays)?;
    println!(
        "{:8}  {:>4}  {} ended as recorded, {} desynchronised, {} used every event, {:.0} s",
        "replay",
        replays.replays,
        replays.as_recorded,
        replays.desynchronised,
        replays.faithful,
        start.elapsed().as_secs_f64()
    );
    let is_good = replays.replays >= u64::from(args.replays)
        && replays.as_recorded == replays.replays
        && replays.desynchronised == 0;
    Ok(match is_good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

impl Servo<'_> {
    fn reprise(&self, subcommand: &str) -> Command {
        let mut command = Command::new(&self.reprise);
        command
            .args(["reprise", subcommand])
            .current_dir(&self.source)
            .env("CARGO_TARGET_DIR", &self.target)
            .stderr(Stdio::piped());
        command
    }

    /// The options of cargo for the project.
    fn options(&self) -> Vec<String> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let manifest = text(&self.source.join("Cargo.toml"));
        let target = text(&self.target);
        [
            "--locked",
            "--manifest-path",
            &manifest,
            "--target-dir",
            &target,
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn jobs(&self) -> Vec<String> {
        let jobs = self.args.jobs.map(|jobs| format!("-j{jobs}"));
        jobs.into_iter().collect()
    }

    /// The crates that are replaced, with their versions.
    fn replaced(&self) -> anyhow::Result<Vec<String>> {
        let output = self
            .reprise("coverage")
            .arg("--json")
            .arg(format!("--except={EXCEPT}"))
            .args(self.options())
            .stderr(Stdio::inherit())
            .output()
            .context("starting cargo-reprise")?;
        ensure!(output.status.success(), "the project cannot be recorded");
        let parts: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout)?;
        let text = |part: &serde_json::Value, key| part[key].as_str().unwrap_or("?").to_owned();
        Ok(parts
            .iter()
            .filter(|part| part["recorded"] == true)
            .map(|part| format!("{} {}", text(part, "package"), text(part, "version")))
            .collect())
    }
}

/// Runs tests and adds them up; what they say is shown if they do not come to an end.
fn counted(command: &mut Command, totals: &mut Totals) -> anyhow::Result<Output> {
    let output = command.output().context("starting cargo")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let is_summed_up = text.lines().any(|line| line.starts_with("test result: "));
    ensure!(
        is_summed_up,
        "no test has run:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for line in text.lines() {
        if line.ends_with(" ... FAILED") {
            println!("{line}");
        }
        totals.add_line(line);
    }
    Ok(output)
}
