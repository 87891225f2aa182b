//! Directories in which commands run plainly and under `pcache`.
//!
//! A [`Sandbox`] has a directory that is created anew for each run, always at the same path and
//! with the same content and times, and a store next to it. The `check` functions reduce a test to
//! a set-up, a command, and the expected result.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use tempfile::TempDir;

/// The program under test.
pub(crate) const PCACHE: &str = env!("CARGO_BIN_EXE_pcache");

/// The time of all files of a set-up, in seconds.
pub(crate) const LONG_AGO: u64 = 1_500_000_000;

/// A directory to run in, and a store.
pub(crate) struct Sandbox {
    root: TempDir,
    setup: String,
    /// Options of `pcache` in addition to the usual ones.
    pub(crate) options: Vec<String>,
    /// Variables set in addition to the usual few.
    pub(crate) variables: Vec<(String, String)>,
    /// The command's standard input; `/dev/null` if `None`.
    pub(crate) input: Option<Vec<u8>>,
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) tree: BTreeMap<PathBuf, Entry>,
    /// Units of the `--json` report; empty for plain runs.
    pub(crate) units: Vec<Unit>,
}

/// One name in a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    mode: u32,
    links: u64,
    /// File content or link target.
    content: Vec<u8>,
    /// Exact, unless it is a time of the run itself.
    modified: Option<(i64, i64)>,
}

/// One unit of a report.
#[derive(Debug, Clone)]
pub(crate) struct Unit {
    pub(crate) command: String,
    pub(crate) result: String,
    pub(crate) reason: String,
    pub(crate) miss: String,
}

impl Sandbox {
    /// Creates a sandbox whose directory is filled by a shell script.
    pub(crate) fn new(setup: &str) -> Self {
        Self::below(&std::env::temp_dir(), setup)
    }

    /// Same as [`Sandbox::new`], in a subdirectory of `dir`.
    pub(crate) fn below(dir: &Path, setup: &str) -> Self {
        let root = tempfile::tempdir_in(dir).expect("a temporary directory");
        let sandbox = Self {
            root,
            setup: setup.to_owned(),
            options: Vec::new(),
            variables: Vec::new(),
            input: None,
        };
        sandbox.reset();
        sandbox
    }

    /// Returns the directory in which commands run.
    pub(crate) fn dir(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// Returns the path of a file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// Returns the text of a file in it.
    pub(crate) fn text(&self, name: &str) -> String {
        let bytes = fs::read(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the directory of the store.
    pub(crate) fn store(&self) -> PathBuf {
        self.root.path().join("store")
    }

    /// Returns the path of the report.
    pub(crate) fn report(&self) -> PathBuf {
        self.root.path().join("report.json")
    }

    /// Restores the initial directory, with old times unless the set-up chose them.
    pub(crate) fn reset(&self) {
        let dir = self.dir();
        if dir.exists() {
            make_removable(&dir);
            fs::remove_dir_all(&dir).expect("the directory can be removed");
        }
        fs::create_dir(&dir).expect("the directory can be made");
        let begun = SystemTime::now() - Duration::from_secs(3600);
        self.edit(&self.setup);
        age(&dir, begun, LONG_AGO);
    }

    /// Runs a shell script in the directory, not under `pcache`, some time after the previous run.
    pub(crate) fn edit(&self, script: &str) {
        self.next_tick();
        let output = self
            .environment(Command::new("sh").arg("-c").arg(script))
            .output();
        let output = output.expect("sh runs");
        assert!(output.status.success(), "set-up {script:?}: {output:?}");
    }

    /// Runs an edit that always gives changed files the same time: one after the set-up.
    pub(crate) fn edit_then(&self, script: &str) {
        let begun = self.next_tick();
        self.edit(script);
        age(&self.dir(), begun, LONG_AGO + 1000);
    }

    /// Sets a fixed environment, the directory, and an empty standard input.
    pub(crate) fn environment<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command
            .env_clear()
            .current_dir(self.dir())
            .stdin(Stdio::null());
        for name in ["PATH", "TMPDIR"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
            .env("LC_ALL", "C")
            .env("HOME", self.root.path())
            .env("PCACHE_DIR", self.store());
        command.envs(self.variables.iter().map(|(k, v)| (k, v)))
    }

    /// Returns `pcache` with the usual options and those of the sandbox, ready for `--` and a
    /// command.
    pub(crate) fn pcache(&self) -> Command {
        let mut command = Command::new(PCACHE);
        command
            .args(["--quiet", "--min-time", "0", "--json"])
            .arg(self.report());
        command.args(&self.options);
        self.environment(&mut command);
        command
    }

    /// Runs a shell command plainly.
    pub(crate) fn plain(&self, command: &str) -> Run {
        let mut shell = Command::new("sh");
        self.environment(shell.arg("-c").arg(command));
        self.run(&mut shell)
    }

    /// Runs a shell command under `pcache`.
    pub(crate) fn cached(&self, command: &str) -> Run {
        self.run(self.pcache().args(["--", "sh", "-c", command]))
    }

    /// Waits for the next tick and returns the first time of files made from now on: older files
    /// have earlier times, and earlier runs have ended before. A file's own time may be ahead of
    /// the coarse clock (multigrain timestamps, Linux 6.13), so that clock must pass it.
    fn next_tick(&self) -> SystemTime {
        let path = self.root.path().join("clock");
        fs::write(&path, "").expect("a file");
        let last = fs::metadata(&path).and_then(|file| file.modified());
        let last = last.expect("a time").max(SystemTime::now());
        loop {
            let tick = clock_gettime(ClockId::RealtimeCoarse);
            let since = Duration::new(tick.tv_sec as u64, tick.tv_nsec as u32);
            let now = SystemTime::UNIX_EPOCH + since;
            if now > last {
                return now;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Returns the units of the last report.
    pub(crate) fn last(&self) -> Vec<Unit> {
        units(&self.report())
    }

    /// Runs a prepared command.
    pub(crate) fn run(&self, command: &mut Command) -> Run {
        // Remains of the previous run.
        let _ = fs::remove_file(self.report());
        let begun = self.next_tick();
        let output = collect(command, self.input.as_deref());
        Run {
            status: output.status,
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            tree: tree(&self.dir(), begun),
            units: units(&self.report()),
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        make_removable(&self.dir());
    }
}

impl Run {
    /// Returns the unit of the whole command.
    pub(crate) fn whole(&self) -> &Unit {
        self.units
            .first()
            .unwrap_or_else(|| panic!("no report: {self:?}"))
    }

    /// Returns the unit whose command has this prefix.
    pub(crate) fn unit(&self, command: &str) -> &Unit {
        let found = self
            .units
            .iter()
            .find(|unit| unit.command.starts_with(command));
        found.unwrap_or_else(|| panic!("no {command}: {:#?}", self.units))
    }

    /// Whether the whole command was skipped.
    pub(crate) fn is_hit(&self) -> bool {
        self.whole().result == "hit"
    }

    /// Panics unless both runs left the same results.
    #[track_caller]
    pub(crate) fn assert_like(&self, plain: &Run, what: &str) {
        assert_eq!(self.status, plain.status, "status, {what}: {self:?}");
        assert_eq!(self.out, plain.out, "standard output, {what}");
        assert_eq!(self.err, plain.err, "standard error, {what}");
        let names = |run: &Run| run.tree.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(self), names(plain), "names, {what}");
        for (name, entry) in &plain.tree {
            assert_eq!(&self.tree[name], entry, "{}, {what}", name.display());
        }
    }

    #[track_caller]
    pub(crate) fn assert_hit(&self) {
        assert_eq!(self.whole().result, "hit", "{:#?}", self.units);
    }

    #[track_caller]
    pub(crate) fn assert_miss(&self, difference: &str) {
        assert_ne!(self.whole().result, "hit", "nothing seemed to differ");
        let miss = &self.whole().miss;
        assert!(
            miss.contains(difference),
            "missed because of {miss:?}, not {difference:?}"
        );
    }

    #[track_caller]
    pub(crate) fn assert_uncacheable(&self, reason: &str) {
        let whole = self.whole();
        assert_eq!(whole.result, "not_stored", "{:#?}", self.units);
        assert!(
            whole.reason.contains(reason),
            "not stored: {:?}, not {reason:?}",
            whole.reason
        );
    }
}

/// Checks that, from the same start, the plain command and the first and second run under `pcache`
/// leave the same results, and that the second one is skipped.
#[track_caller]
pub(crate) fn check_hit(setup: &str, command: &str) {
    check_hit_in(&Sandbox::new(setup), command);
}

/// [`check_hit`] in a given sandbox.
#[track_caller]
pub(crate) fn check_hit_in(sandbox: &Sandbox, command: &str) {
    let plain = sandbox.plain(command);
    sandbox.reset();
    let first = sandbox.cached(command);
    first.assert_like(&plain, "first run");
    assert_eq!(first.whole().result, "stored", "{:#?}", first.units);
    sandbox.reset();
    let second = sandbox.cached(command);
    second.assert_like(&plain, "second run");
    second.assert_hit();
}

/// Checks that after the edit, a run misses because of this difference and leaves the same results
/// as the plain command.
#[track_caller]
pub(crate) fn check_miss(setup: &str, command: &str, edit: &str, difference: &str) {
    let sandbox = Sandbox::new(setup);
    let again = after_edit(&sandbox, command, edit);
    again.assert_miss(difference);
}

/// Checks that after the edit, a run hits and leaves the same results as the plain command.
#[track_caller]
pub(crate) fn check_still_hit(setup: &str, command: &str, edit: &str) {
    let sandbox = Sandbox::new(setup);
    let again = after_edit(&sandbox, command, edit);
    again.assert_hit();
}

/// Runs a command, resets, edits, and runs again; compares that run with the plain one.
#[track_caller]
pub(crate) fn after_edit(sandbox: &Sandbox, command: &str, edit: &str) -> Run {
    sandbox.edit_then(edit);
    let plain = sandbox.plain(command);
    sandbox.reset();
    let first = sandbox.cached(command);
    assert_eq!(first.whole().result, "stored", "{:#?}", first.units);
    sandbox.reset();
    sandbox.edit_then(edit);
    let again = sandbox.cached(command);
    again.assert_like(&plain, "after the edit");
    again
}

/// Checks that the command behaves twice under `pcache` as it does plainly, and is not stored, for
/// this reason.
#[track_caller]
pub(crate) fn check_uncacheable(setup: &str, command: &str, reason: &str) {
    let sandbox = Sandbox::new(setup);
    let plain = sandbox.plain(command);
    for _ in 0..2 {
        sandbox.reset();
        let run = sandbox.cached(command);
        run.assert_like(&plain, "under pcache");
        run.assert_uncacheable(reason);
    }
}

/// Checks that a command runs twice, with any output, and is not stored, for this reason.
#[track_caller]
pub(crate) fn check_runs_again(command: &str, reason: &str) {
    check_runs_again_in(&Sandbox::new("echo 1 > f"), command, reason);
}

/// [`check_runs_again`] in a given sandbox.
#[track_caller]
pub(crate) fn check_runs_again_in(sandbox: &Sandbox, command: &str, reason: &str) {
    for _ in 0..2 {
        let run = sandbox.cached(command);
        assert!(run.status.success(), "{run:?}");
        run.assert_uncacheable(reason);
    }
}

/// Copies a file that will be executed, in another process. A child that another test starts
/// meanwhile would inherit a writable descriptor of it for a moment, and its execution would fail
/// (`ETXTBSY`).
pub(crate) fn copy_program(from: impl AsRef<Path>, to: &Path) {
    let copied = Command::new("cp").arg(from.as_ref()).arg(to).status();
    assert!(copied.is_ok_and(|status| status.success()), "cp to {to:?}");
}

/// Returns the first of these programs that is installed and no script; prints a note if there is
/// none.
pub(crate) fn program(names: &[&str]) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain([PathBuf::from("/usr/bin")]);
    let found = directories
        .flat_map(|dir| names.iter().map(move |name| dir.join(name)))
        .find(|candidate| {
            let mut magic = [0; 4];
            let read = fs::File::open(candidate).and_then(|mut file| file.read_exact(&mut magic));
            read.is_ok() && magic == *b"\x7fELF"
        });
    if found.is_none() {
        eprintln!("skipped: there is none of {names:?}");
    }
    Some(found?.to_str()?.to_owned())
}

/// Feeds a command, waits for it, and returns its output.
pub(crate) fn collect(command: &mut Command, input: Option<&[u8]>) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    if input.is_some() {
        command.stdin(Stdio::piped());
    }
    let mut child = command.spawn().expect("the command starts");
    if let (Some(mut pipe), Some(input)) = (child.stdin.take(), input) {
        // A command that does not read all input closes the pipe.
        let _ = pipe.write_all(input);
    }
    child.wait_with_output().expect("the command ends")
}

/// Converts a status for comparisons.
pub(crate) fn ending(status: ExitStatus) -> (Option<i32>, Option<i32>) {
    (status.code(), status.signal())
}

pub(crate) fn units(report: &Path) -> Vec<Unit> {
    let Ok(bytes) = fs::read(report) else {
        return Vec::new();
    };
    let json: Value = serde_json::from_slice(&bytes).expect("the report is JSON");
    let text = |unit: &Value, name: &str| unit[name].as_str().unwrap_or_default().to_owned();
    let units = json["units"].as_array().expect("the report lists units");
    units
        .iter()
        .map(|unit| Unit {
            command: text(unit, "command"),
            result: text(unit, "result"),
            reason: text(unit, "reason"),
            miss: text(unit, "miss"),
        })
        .collect()
}

/// Returns all files below a directory, including itself.
fn tree(dir: &Path, begun: SystemTime) -> BTreeMap<PathBuf, Entry> {
    let mut found = BTreeMap::new();
    walk(dir, &mut |path, metadata| {
        let content = if metadata.is_symlink() {
            fs::read_link(path)
                .expect("a link")
                .as_os_str()
                .as_bytes()
                .to_vec()
        } else if metadata.is_file() {
            fs::read(path).unwrap_or_default()
        } else {
            Vec::new()
        };
        let old = metadata.modified().is_ok_and(|time| time < begun);
        let entry = Entry {
            mode: metadata.mode(),
            links: metadata.nlink(),
            content,
            modified: old.then(|| (metadata.mtime(), metadata.mtime_nsec())),
        };
        let name = path.strip_prefix(dir).expect("it is below").to_owned();
        found.insert(name, entry);
    });
    found
}

/// Gives files made after `begun` another time.
fn age(dir: &Path, begun: SystemTime, seconds: u64) {
    let then = rustix::fs::Timespec {
        tv_sec: seconds as i64,
        tv_nsec: 0,
    };
    let times = rustix::fs::Timestamps {
        last_access: then,
        last_modification: then,
    };
    walk(dir, &mut |path, metadata| {
        if metadata.modified().is_ok_and(|time| time >= begun) {
            let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::utimensat(rustix::fs::CWD, path, &times, flags).expect("times are set");
        }
    });
}

fn make_removable(dir: &Path) {
    walk(dir, &mut |path, metadata| {
        if metadata.is_dir() {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            // The removal reports a failure.
            let _ = fs::set_permissions(path, mode);
        }
    });
}

/// Visits a directory and everything below it: directories before their entries.
fn walk(path: &Path, visit: &mut dyn FnMut(&Path, &fs::Metadata)) {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return;
    };
    visit(path, &metadata);
    if metadata.is_dir() {
        let Ok(entries) = fs::read_dir(path) else {
            return;
        };
        let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        for name in names {
            walk(&path.join(OsStr::new(&name)), visit);
        }
    }
}
