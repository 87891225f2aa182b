//! A project of a test's own, and `cargo reprise` in it.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;

/// The start of a manifest, which a table of dependencies can follow.
pub(crate) const PACKAGE: &str = r#"
[workspace]

[package]
name = "project"
version = "0.0.0"
edition = "2021"
"#;

/// `say` for a project's tests, which include it.
const SAY: &str = r#"
fn say(line: &str) {
    use std::io::Write as _;

    let path = std::env::var_os("OUTCOMES").unwrap();
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}
"#;

/// A project in a directory of its own, which goes when this is dropped. It is built with
/// what the workspace's lock file names, so nothing is downloaded that building the tests
/// did not need.
#[derive(Clone)]
pub(crate) struct Project {
    dir: Arc<tempfile::TempDir>,
    /// The file in which its programs say what they see.
    outcomes: String,
    offline: bool,
    /// The seed of its programs, if they have one and it is not their own.
    seed: Option<u64>,
}

impl Project {
    /// One with these files, and with `src/say.rs`, by which its tests say what they saw.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let project = Project {
            dir: Arc::new(dir),
            outcomes: "outcomes".to_owned(),
            offline: true,
            seed: None,
        };
        for (path, text) in files.iter().chain(&[("src/say.rs", SAY)]) {
            project.write(path, text);
        }
        let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
        fs::copy(lock, project.path().join("Cargo.lock")).unwrap();
        fs::create_dir(project.target()).unwrap();
        project
    }

    /// A copy of the package `name` that lies beside the tests.
    pub(crate) fn copy_of(name: &str) -> Self {
        let source = package(name).join("src");
        let sources = fs::read_dir(source).unwrap().map(|entry| entry.unwrap());
        let sources = sources.map(|entry| format!("src/{}", entry.file_name().display()));
        let files: Vec<String> = sources.chain(["Cargo.toml".to_owned()]).collect();
        let read = |file: &String| fs::read_to_string(package(name).join(file)).unwrap();
        let texts: Vec<String> = files.iter().map(read).collect();
        let files = files.iter().map(String::as_str);
        let files: Vec<_> = files.zip(texts.iter().map(String::as_str)).collect();
        Project::new(&files)
    }

    /// The one whose manifest asks for what the workspace's lock file does not name.
    pub(crate) fn go_online(&mut self) {
        self.offline = false;
    }

    pub(crate) fn set_seed(&mut self, seed: u64) {
        self.seed = Some(seed);
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn target(&self) -> PathBuf {
        self.path().join("target")
    }

    /// `cargo reprise` with `args`, whose runs say what they see in a file.
    pub(crate) fn reprise(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-reprise"));
        command
            .arg("reprise")
            .args(args)
            .current_dir(self.path())
            .env("CARGO", env!("CARGO"))
            .env("CARGO_NET_OFFLINE", self.offline.to_string())
            .env("CARGO_TARGET_DIR", self.target())
            // Dependencies are built once for all projects.
            .env("CARGO_BUILD_BUILD_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("projects"))
            // The std that records is built once, too.
            .env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"))
            .env("OUTCOMES", self.outcomes())
            .env_remove("RR_CHANNEL")
            .env_remove("DIVERGE");
        if let Some(seed) = self.seed {
            command.env("SEED", seed.to_string());
        }
        command
    }

    /// Records each program, every other time in chaos, and replays that, half of the times in
    /// chaos. All replays must come to what the recording came to, and use `every_event`, if so
    /// wanted.
    ///
    /// How often is set by `RR_CHANNEL_TEST_RUNS` (recordings by replays of each).
    pub(crate) fn replay_each(&self, programs: &[&str], every_event: bool) {
        let runs = std::env::var("RR_CHANNEL_TEST_RUNS").unwrap_or_default();
        let (recordings, replays) = runs
            .split_once('x')
            .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)))
            .unwrap_or((2, 4));
        for program in programs {
            let mut outcomes = HashSet::new();
            for number in 0..recordings {
                let mut args = vec!["test", "-q", "--", "--exact", program];
                if number % 2 == 1 {
                    args.insert(1, "--chaos");
                }
                let recording = recording_of(&run(&mut self.reprise(&args)));
                let recorded = self.take_outcomes();
                assert_eq!(recorded.len(), 1);
                let in_chaos: usize = replays / 2;
                for (replays, option) in [(replays - in_chaos, None), (in_chaos, Some("--chaos"))] {
                    if replays == 0 {
                        continue;
                    }
                    let times = replays.to_string();
                    let mut args = vec!["replay", &recording, "--times", &times];
                    args.extend(option);
                    let said = run(&mut self.reprise(&args));
                    let mut faithful = format!(
                        "{replays} of {replays} replays ended as recorded, 0 desynchronised"
                    );
                    if every_event {
                        faithful += &format!(", {replays} used every event");
                    }
                    assert!(said.contains(&faithful), "{program}: {said}");
                }
                let outcome = recorded[0].clone();
                assert_eq!(
                    self.take_outcomes(),
                    vec![outcome.clone(); replays],
                    "{program}"
                );
                outcomes.insert(outcome);
            }
            eprintln!(
                "{program}: {} outcomes in {recordings} recordings",
                outcomes.len()
            );
        }
    }

    /// Records a program in chaos; three replays see what it saw, and use every event.
    pub(crate) fn replay_in_chaos(&self, program: &str) {
        let test = ["test", "--chaos", "-q", "--", "--exact", program];
        let recording = recording_of(&run(&mut self.reprise(&test)));
        let recorded = self.take_outcomes();
        assert_eq!(recorded.len(), 1, "{program}");
        let said = run(&mut self.reprise(&["replay", &recording, "--times", "3"]));
        assert!(said.contains(", 3 used every event"), "{program}: {said}");
        let replayed = self.take_outcomes();
        assert_eq!(replayed, vec![recorded[0].clone(); 3], "{program}");
    }

    /// Checks each of these programs by `check`, on two threads: a call of `cargo reprise` is for
    /// the most part one of cargo, which waits.
    pub(crate) fn check_each<P: AsRef<str> + Sync>(
        &self,
        programs: &[P],
        check: impl Fn(&Project, &str) + Sync,
    ) {
        let (first, second) = programs.split_at(programs.len() / 2);
        thread::scope(|scope| {
            for (number, programs) in [first, second].into_iter().enumerate() {
                let mut project = self.clone();
                project.outcomes = format!("outcomes-{number}");
                let check = &check;
                scope.spawn(move || {
                    for program in programs {
                        check(&project, program.as_ref());
                    }
                });
            }
        });
    }

    /// The log of the test `name` in the last recording.
    pub(crate) fn last_log(&self, name: &str) -> PathBuf {
        let recordings = self.target().join("reprise/recordings");
        let numbers = fs::read_dir(&recordings).unwrap();
        let numbers = numbers.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        let last: u64 = numbers.max().unwrap();
        let dir = recordings.join(last.to_string());
        let mut found = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let package = found.find(|path| path.is_dir()).unwrap();
        let program = fs::read_dir(package).unwrap().next().unwrap().unwrap();
        program.path().join(name).join("log")
    }

    fn outcomes(&self) -> PathBuf {
        self.target().join(&self.outcomes)
    }

    /// The outcomes of the runs since this was last asked.
    pub(crate) fn take_outcomes(&self) -> Vec<String> {
        let text = fs::read_to_string(self.outcomes()).unwrap_or_default();
        let _ = fs::remove_file(self.outcomes());
        text.lines().map(str::to_owned).collect()
    }
}

/// The package `name` that lies beside the tests.
pub(crate) fn package(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name)
}

/// The number of the recording that `cargo reprise` says that it made.
fn recording_of(said: &str) -> String {
    let (_, rest) = said.rsplit_once("reprise: recording ").unwrap();
    rest.chars().take_while(char::is_ascii_digit).collect()
}

/// The standard error of a command that succeeds.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    said
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
