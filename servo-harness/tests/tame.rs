//! `servo-harness tame`, `check`, `explain` and `report` on a project of cargo's.
//!
//! Its tests take turns at passing and failing, so that nothing here depends on chance: which
//! thread is first is said by a directory that is there or not. One of them is decided by
//! the order of messages that follows from that, and a replay cures it; another one by the
//! directory itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

mod common;

use common::can_record;

/// Each test takes turns: half of its runs pass.
const TAME: [&str; 5] = ["tame", "--json", "-n12", "--precision", "0"];

const LIBRARY: &str = r#"
#[cfg(test)]
mod tests {
    use crossbeam_channel::unbounded;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    /// Another answer each time.
    fn turn(name: &str) -> bool {
        let path = std::path::Path::new(&std::env::var_os("TURNS").unwrap()).join(name);
        std::fs::create_dir(&path).is_ok() || { std::fs::remove_dir(&path).unwrap(); false }
    }

    #[test]
    fn order() {
        static SENT: AtomicBool = AtomicBool::new(false);
        if SENDERS == 0 {
            return;
        }
        let first = u32::from(!turn("order"));
        let (s, r) = unbounded();
        let threads: Vec<_> = (0..SENDERS).map(|who| {
            let s = s.clone();
            thread::spawn(move || {
                while who != first && !SENT.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
                s.send(who).unwrap();
                SENT.store(true, Ordering::SeqCst);
            })
        }).collect();
        let got: Vec<u32> = r.iter().take(SENDERS as usize).collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(got[0], 0);
    }

    #[test]
    fn directory() {
        let (s, r) = unbounded();
        s.send(1).unwrap();
        r.recv().unwrap();
        assert!(turn("directory"));
    }

    #[test]
    fn stable() {}
}
"#;

/// A project, with what was built for it before.
struct Project {
    dir: tempfile::TempDir,
}

impl Project {
    /// One that uses nothing but `std`.
    fn of_std() -> Project {
        let project = Project::new();
        let manifest = project.path("Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        let text = text.replace("crossbeam-channel = \"0.5\"\n", "");
        fs::write(&manifest, text).unwrap();
        let library = project.path("src/lib.rs");
        let text = fs::read_to_string(&library).unwrap();
        let text = text.replace(
            "crossbeam_channel::unbounded",
            "std::sync::mpsc::channel as unbounded",
        );
        fs::write(&library, text).unwrap();
        project
    }

    fn new() -> Project {
        let dir = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        fs::create_dir(dir.path().join("src")).unwrap();
        fs::create_dir(dir.path().join("turns")).unwrap();
        fs::write(
            dir.path().join("Cargo.toml"),
            "[package]\nname = \"turns\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\
             [dependencies]\ncrossbeam-channel = \"0.5\"\n[workspace]\n",
        )
        .unwrap();
        fs::copy(root.join("Cargo.lock"), dir.path().join("Cargo.lock")).unwrap();
        let project = Project { dir };
        project.write(2);
        project
    }

    fn write(&self, senders: u32) {
        let text = LIBRARY.replace("SENDERS as", &format!("{senders} as"));
        let text = text.replace("SENDERS", &senders.to_string());
        fs::write(self.dir.path().join("src/lib.rs"), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, args: &[&str]) -> Output {
        self.run_by(args, &["test", "--offline"])
    }

    /// With these arguments of cargo's.
    fn run_by(&self, args: &[&str], cargo: &[&str]) -> Output {
        let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tame");
        let mut command = Command::new(env!("CARGO_BIN_EXE_servo-harness"));
        command.args(args);
        if args[0] != "report" {
            command.args(["-j1", "--", "cargo"]).args(cargo);
        }
        command
            .current_dir(self.dir.path())
            .env("CARGO_TARGET_DIR", built)
            .env(
                "XDG_CACHE_HOME",
                Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"),
            )
            .env("SERVO_HARNESS_STATE", self.path("state"))
            .env("TURNS", self.path("turns"))
            .output()
            .unwrap()
    }

    /// A line for each result, short enough to be shown.
    fn journal(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("state/journal")).unwrap();
        let short = |line: &str| line.chars().take(200).collect();
        text.lines().map(short).collect()
    }

    fn artefacts(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("tests/recordings"));
        let mut names: Vec<String> = entries
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

fn row<'a>(summary: &'a Value, test: &str) -> &'a Value {
    let tests = summary["tests"].as_array().unwrap();
    tests.iter().find(|row| row["test"] == test).unwrap()
}

#[test]
fn tests_decided_by_messages_are_tamed_and_others_are_named() {
    let project = Project::new();
    let output = project.run(&[&TAME[..], &["--engine", "rr-channel"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let order = row(&summary, "turns::turns$tests::order");
    assert_eq!(order["plain"]["expected"], 6, "{order}");
    assert_eq!(order["replay"]["expected"], 12, "{}", said(&output));
    assert_eq!(order["replay"]["unfaithful"], 0);
    assert!(order["p"].as_f64().unwrap() < 0.05);
    let directory = row(&summary, "turns::turns$tests::directory");
    assert_eq!(directory["plain"]["expected"], 6);
    let problem = directory["tamed"]["problem"].as_str().unwrap();
    assert!(
        problem.contains("something else than its messages decides"),
        "{problem}"
    );
    let artefacts = project.artefacts();
    assert_eq!(artefacts.len(), 2, "{artefacts:?}");
    let toml = project.path("tests/recordings").join(&artefacts[1]);
    let text = fs::read_to_string(&toml).unwrap();
    assert!(
        text.contains("before = [\n    6,\n    12,\n]") || text.contains("before = [6, 12]"),
        "{text}"
    );
    assert!(text.contains("message 0 of tests::order/~1"), "{text}");

    // All is known, and nothing is run again.
    let journal = project.journal();
    project.run(&[&TAME[..], &["--engine", "rr-channel"]].concat());
    assert_eq!(project.journal(), journal);

    // A recording that is gone is made again.
    fs::remove_dir_all(project.path("tests/recordings")).unwrap();
    project.run(&[&TAME[..], &["--engine", "rr-channel"]].concat());
    assert_eq!(project.artefacts(), artefacts);

    let output = project.run(&["check"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("holds   turns::turns$tests::order\n"));

    let output = project.run(&["explain", "order"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(
        said(&output).contains("turns::turns$tests::order fails when\n"),
        "{}",
        said(&output)
    );
    assert!(said(&output).contains("5 of 5 replays with only those fail"));
    let output = project.run(&["explain", "--engine", "rr-channel", "directory"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("the order of messages does not explain it"),
        "{}",
        said(&output)
    );

    let output = project.run(&["report", "--html", "r.html", "--junit", "r.xml"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let html = fs::read_to_string(project.path("r.html")).unwrap();
    assert_eq!(html.matches("<svg").count(), 2, "two figures");
    // How often the plain runs failed decides whether so few of them prove it.
    let is_cured = ["cured by replay", "perhaps cured"]
        .iter()
        .any(|verdict| html.contains(&format!("<b>1</b><span>{verdict}</span>")));
    assert!(is_cured, "{html}");
    assert!(
        !html.contains("src=") && !html.contains("<link"),
        "it needs nothing else"
    );
    let xml = fs::read_to_string(project.path("r.xml")).unwrap();
    // Of each test three outputs are kept.
    assert_eq!(xml.matches("<flakyFailure").count(), 6, "{xml}");
    assert!(xml.contains(r#"failures="0" flakes="2">"#), "{xml}");

    // A thread more, and the recording does not apply any more.
    project.write(3);
    let output = project.run(&["check", "--locked"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("stale   turns::turns$tests::order (another build)\n"));
    let output = project.run(&["check"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(
        said(&output).contains("renewed turns::turns$tests::order"),
        "{}",
        said(&output)
    );
    assert!(
        said(&output).contains("only in the second"),
        "{}",
        said(&output)
    );
    let output = project.run(&["check", "--locked"]);
    assert!(
        said(&output).contains("holds   turns::turns$tests::order\n"),
        "{}",
        said(&output)
    );
    assert_eq!(project.artefacts(), artefacts);

    // Nothing contradicts a recording of which nothing comes about; it does not hold.
    project.write(0);
    let output = project.run(&["check"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(
        said(&output).contains(
            "stale   turns::turns$tests::order (another build)\n        nothing of what was \
             recorded came about; recording it anew: it uses nothing any more"
        ),
        "{}",
        said(&output)
    );
    assert_eq!(project.artefacts(), artefacts);

    tests_that_nextest_lists_are_tamed_as_well(&project);
}

#[test]
fn tests_decided_by_channels_of_std_are_tamed() {
    let project = Project::of_std();
    let output = project.run(&[&TAME[..], &["--only", "order", "--std"]].concat());
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let order = row(&summary, "turns::turns$tests::order");
    assert_eq!(order["plain"]["expected"], 6, "{order}");
    assert_eq!(order["replay"]["expected"], 12, "{}", said(&output));
    assert_eq!(order["replay"]["unfaithful"], 0, "{order}");
}

#[test]
fn each_engine_gets_the_tests_that_the_one_before_it_does_not_cure() {
    if !can_record() {
        return;
    }
    // Packages of one name would have one executable in the directory that they share.
    let project = Project::new();
    let manifest = project.path("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"turns\"", "\"engines\"")).unwrap();
    let output = project.run(&TAME);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let order = row(&summary, "engines::engines$tests::order");
    assert_eq!(order["tamed"]["engine"], "rr-channel");
    let directory = row(&summary, "engines::engines$tests::directory");
    assert_eq!(directory["replay"]["expected"], 12, "{}", said(&output));
    assert_eq!(directory["tamed"]["engine"], "reprise");
    let tried = directory["tamed"]["tried"].as_array().unwrap();
    let engines: Vec<&Value> = tried.iter().map(|tried| &tried["engine"]).collect();
    assert_eq!(engines, ["rr-channel", "rr-channel-std"]);
    let why = tried[0]["why"].as_str().unwrap();
    assert!(
        why.contains("something else than its messages decides"),
        "{why}"
    );

    // All is known, and nothing is run again.
    let journal = project.journal();
    project.run(&TAME);
    assert_eq!(project.journal(), journal);

    let output = project.run(&["check", "--locked"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("holds   engines::engines$tests::directory\n"));

    let output = project.run(&["explain", "directory"]);
    assert_eq!(output.status.code(), Some(1));
    let trace = "a failing run, which replays as it was: reprise replay ";
    assert!(said(&output).contains(trace), "{}", said(&output));
}

/// On a project that is built.
fn tests_that_nextest_lists_are_tamed_as_well(project: &Project) {
    let nextest = ["nextest", "run", "--offline"];
    let version = Command::new("cargo")
        .args(["nextest", "--version"])
        .output();
    if !version.unwrap().status.success() {
        eprintln!("skipped: there is no cargo-nextest here");
        return;
    }
    project.write(2);
    let lock = || fs::read_to_string(project.path("Cargo.lock")).unwrap();
    project.run_by(&["survey", "-n2", "--fresh"], &nextest);
    let before = lock();
    let output = project.run_by(&[&TAME[..], &["--engine", "rr-channel"]].concat(), &nextest);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let order = row(&summary, "turns$tests::order");
    assert_eq!(order["plain"]["expected"], 6, "{order}");
    assert_eq!(order["replay"]["expected"], 12, "{}", said(&output));
    assert_eq!(lock(), before, "the project is left as it is");
}
