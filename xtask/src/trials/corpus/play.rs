//! One case: run plainly, recorded, replayed, and compared.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::case::{Case, Ending};

/// The words before a command so that it runs as nobody, without a privilege.
const AS_NOBODY: &[&str] = &[
    "setpriv",
    "--reuid=nobody",
    "--regid=nogroup",
    "--clear-groups",
    "--bounding-set=-all",
    "--inh-caps=-all",
];

/// How cases are played.
#[derive(Debug)]
pub(super) struct Stage {
    /// Where `reprise` is.
    pub(super) reprise: PathBuf,
    /// Where the compiled cases are.
    pub(super) programs: PathBuf,
    /// Where runs leave what they leave.
    pub(super) scratch: PathBuf,
    /// How often a recording is replayed.
    pub(super) replays: u32,
    /// After how long a run counts as one that hangs.
    pub(super) patience: Duration,
    /// Whether all runs are nobody's.
    pub(super) unprivileged: bool,
}

/// The result of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All as it should be.
    Passed {
        /// Whether the recorded run printed something else than the plain one, so that a
        /// replay cannot be mistaken for a third run.
        differs: bool,
        /// The syscalls that it made.
        calls: Vec<String>,
    },
    /// It could not be tried.
    Skipped(String),
    /// Something was not as it should be.
    Failed(String),
}

/// A run that has ended.
struct Run {
    /// `None` if it was not over in time.
    ending: Option<Ending>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Run {
    fn end(&self) -> String {
        match self.ending {
            Some(ending) => ending.to_string(),
            None => "hangs".to_owned(),
        }
    }

    /// The recorder's lines, and the program's own output without them.
    fn split(&mut self) -> Vec<String> {
        const OURS: &[u8] = b"reprise: ";
        let mut lines = Vec::new();
        let mut rest = Vec::new();
        for line in self.stderr.split_inclusive(|&byte| byte == b'\n') {
            if line.starts_with(OURS) {
                lines.push(
                    String::from_utf8_lossy(&line[OURS.len()..])
                        .trim()
                        .to_owned(),
                );
            } else {
                rest.extend_from_slice(line);
            }
        }
        self.stderr = rest;
        lines
    }
}

impl Stage {
    /// Plays a case.
    ///
    /// # Errors
    /// When something cannot be started, or files cannot be made.
    pub(super) fn play(&self, case: &Case) -> anyhow::Result<Outcome> {
        let own = self.scratch.join(case.name.replace('/', "."));
        if own.exists() {
            fs::remove_dir_all(&own).with_context(|| format!("removing {}", own.display()))?;
        }
        self.directory(&own)?;
        let outcome = self.judge(case, &own)?;
        if matches!(outcome, Outcome::Passed { .. }) {
            fs::remove_dir_all(&own).with_context(|| format!("removing {}", own.display()))?;
        }
        Ok(outcome)
    }

    fn judge(&self, case: &Case, own: &Path) -> anyhow::Result<Outcome> {
        let failed = |what: String| Ok(Outcome::Failed(what));
        let program = self.programs.join(&case.name);
        let plain = self.run(own, "plain", vec![program.clone()])?;
        if plain.ending != Some(case.ending) {
            return failed(format!(
                "plainly: {}, and not {}: {}",
                plain.end(),
                case.ending,
                last_line(&plain)
            ));
        }
        let trace = own.join("trace");
        let mut record = vec![self.reprise.clone()];
        record.extend(["record", "--digests", "--output"].map(PathBuf::from));
        record.extend([trace.clone(), "--".into(), program]);
        let mut recorded = self.run(own, "recorded", record)?;
        let lines = recorded.split();
        if recorded.ending != Some(case.ending) {
            return failed(format!(
                "recording: {}, and not {}: {}",
                recorded.end(),
                case.ending,
                lines
                    .last()
                    .cloned()
                    .unwrap_or_else(|| last_line(&recorded))
            ));
        }
        let is_user = self.unprivileged || !rustix::process::geteuid().is_root();
        if let Some(objection) = refusals(case, is_user, &lines) {
            return failed(format!("recording: {objection}"));
        }
        if let Some(line) = lines.iter().find(|line| line.starts_with("the recording")) {
            return failed(format!("recording: {line}"));
        }
        let check = vec![self.reprise.clone(), "fsck".into(), trace.clone()];
        let checked = self.run(own, "checked", check)?;
        if checked.ending != Some(Ending::Status(0)) {
            let text = String::from_utf8_lossy(&checked.stdout);
            return failed(format!("the trace is not sound: {}", text.trim_end()));
        }
        for number in 1..=self.replays {
            let mut replay = vec![self.reprise.clone()];
            replay.extend(["replay", "--quiet"].map(PathBuf::from));
            replay.push(trace.clone());
            let replayed = self.run(own, "replayed", replay)?;
            if let Some(what) = difference(&recorded, &replayed) {
                return failed(format!("replay {number}: {what}"));
            }
            let directory = own.join("replayed");
            let mut left = fs::read_dir(&directory)?;
            if let Some(left) = left.next() {
                let name = left?.file_name();
                return failed(format!("replay {number}: it makes files: {name:?}"));
            }
        }
        Ok(Outcome::Passed {
            differs: plain.stdout != recorded.stdout || plain.stderr != recorded.stderr,
            calls: self.calls(own, trace)?,
        })
    }

    /// The syscalls in a trace.
    fn calls(&self, own: &Path, trace: PathBuf) -> anyhow::Result<Vec<String>> {
        let words = ["stats", "--json"].map(PathBuf::from);
        let words = [&[self.reprise.clone()][..], &words, &[trace]].concat();
        let stats = self.run(own, "counted", words)?;
        let stats: serde_json::Value =
            serde_json::from_slice(&stats.stdout).context("reading what `reprise stats` says")?;
        let calls = stats["calls"].as_object().context("there are no calls")?;
        Ok(calls.keys().cloned().collect())
    }

    /// A directory in which whoever runs the case can do what it wants.
    fn directory(&self, path: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))?;
        let mode = if self.unprivileged { 0o777 } else { 0o755 };
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        Ok(())
    }

    /// Runs a command in a directory of its own, which it finds empty.
    fn run(&self, own: &Path, name: &str, words: Vec<PathBuf>) -> anyhow::Result<Run> {
        let directory = own.join(name);
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        self.directory(&directory)?;
        let cache = self.scratch.join("cache");
        self.directory(&cache)?;
        let prefix = if self.unprivileged { AS_NOBODY } else { &[] };
        let mut words = prefix.iter().map(PathBuf::from).chain(words);
        let mut command = Command::new(words.next().context("no command")?);
        command.args(words).current_dir(&directory);
        let (stdout, stderr) = (
            own.join(format!("{name}.out")),
            own.join(format!("{name}.err")),
        );
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LANG", "C")
            .env("TMPDIR", &directory)
            .env("CORPUS", &self.programs)
            .env("REPRISE_DIR", own.join("home"))
            // As a user has it: what one case teaches of the system's files, others know.
            .env("XDG_CACHE_HOME", &cache)
            .stdin(Stdio::null())
            .stdout(File::create(&stdout)?)
            .stderr(File::create(&stderr)?)
            .process_group(0);
        let mut child = command
            .spawn()
            .with_context(|| format!("starting {command:?}"))?;
        let status = wait(&mut child, self.patience)?;
        let run = Run {
            ending: status.map(ending),
            stdout: fs::read(&stdout)?,
            stderr: fs::read(&stderr)?,
        };
        if name == "recorded" {
            // A replay needs nothing of what it left.
            fs::remove_dir_all(&directory)?;
        }
        Ok(run)
    }
}

/// Waits for a process, or ends it and all that it has started when it takes too long.
fn wait(child: &mut Child, patience: Duration) -> anyhow::Result<Option<ExitStatus>> {
    let pid = Pid::from_child(child);
    let process = pidfd_open(pid, PidfdFlags::empty()).context("opening a process")?;
    let timeout = Timespec::try_from(patience)?;
    let mut events = [PollFd::new(&process, PollFlags::IN)];
    if poll(&mut events, Some(&timeout))? == 0 {
        kill_process_group(pid, Signal::KILL)?;
        child.wait()?;
        return Ok(None);
    }
    Ok(Some(child.wait()?))
}

fn ending(status: ExitStatus) -> Ending {
    match status.signal() {
        Some(signal) => Ending::Signal(signal),
        None => Ending::Status(status.code().unwrap_or(-1)),
    }
}

fn last_line(run: &Run) -> String {
    let text = String::from_utf8_lossy(&run.stderr);
    text.trim_end()
        .lines()
        .next_back()
        .unwrap_or_default()
        .to_owned()
}

/// Checks the refusals of a recorder that has no rights beyond a user's, or has.
fn refusals(case: &Case, is_user: bool, lines: &[String]) -> Option<String> {
    let to_users = case.refused_to_users.iter().filter(|_| is_user);
    let expected: Vec<&String> = case.refused.iter().chain(to_users).collect();
    let refused: Vec<(&str, &str)> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("refused ")?.split_once(' '))
        .collect();
    let surplus = refused
        .iter()
        .find(|(name, _)| !expected.iter().any(|expected| expected == name));
    if let Some((name, why)) = surplus {
        return Some(format!("{name} is refused {why}"));
    }
    let silent = expected
        .iter()
        .find(|expected| !refused.iter().any(|(name, _)| name == *expected));
    silent.map(|name| format!("{name} is not said to be refused"))
}

/// In what a replay differs from its recording.
fn difference(recorded: &Run, replayed: &Run) -> Option<String> {
    if replayed.ending != recorded.ending {
        let text = String::from_utf8_lossy(&replayed.stderr);
        let lines: Vec<&str> = text
            .lines()
            .skip_while(|line| !line.starts_with("reprise: "))
            .map(str::trim)
            .collect();
        return Some(format!(
            "{}, and not {}: {}",
            replayed.end(),
            recorded.end(),
            lines.join(" / ")
        ));
    }
    for (name, one, other) in [
        ("output", &recorded.stdout, &replayed.stdout),
        ("error output", &recorded.stderr, &replayed.stderr),
    ] {
        if one != other {
            let same = one.iter().zip(other).take_while(|(a, b)| a == b).count();
            return Some(format!(
                "the {name} differs at byte {same} ({} bytes recorded, {} replayed)",
                one.len(),
                other.len()
            ));
        }
    }
    None
}
