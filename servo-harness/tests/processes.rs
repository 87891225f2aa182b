//! `servo-harness tame --engine reprise`: whole processes are recorded.
//!
//! The test that is tamed has no channels; it takes turns at passing and failing by a
//! directory that is there or not. No replay of messages would cure it, one of the process does.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

mod common;

use common::can_record;

const HARNESS: &str = env!("CARGO_BIN_EXE_servo-harness");

const SCRIPT: &str = r#"
case $2 in
turns) if mkdir "$1/turn" 2>/dev/null; then exit 0; else rmdir "$1/turn"; exit 1; fi ;;
good) exit 0 ;;
esac
"#;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
fn recording_the_process_cures_a_test_that_no_message_decides() {
    if !can_record() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("test.sh"), SCRIPT).unwrap();
    fs::write(path("names"), "turns\ngood").unwrap();
    let harness = |args: &[&str]| {
        Command::new(HARNESS)
            .args(args)
            .arg("--state")
            .arg(path("state"))
            .arg("--recordings")
            .arg(path("recordings"))
            .args(["--json", "--tests"])
            .arg(path("names"))
            .args(["--", "sh"])
            .arg(path("test.sh"))
            .arg(dir.path())
            .arg("{}")
            .output()
            .unwrap()
    };
    let tame = [
        "tame",
        "--engine",
        "reprise",
        "-n12",
        "--precision",
        "0",
        "--timeout",
        "600",
    ];
    let output = harness(&tame);
    let summary: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    let tests = summary["tests"].as_array().unwrap();
    let turns = tests.iter().find(|row| row["test"] == "turns").unwrap();
    assert_eq!(turns["plain"]["expected"], 6, "{turns:#}");
    assert_eq!(turns["replay"]["expected"], 12, "{}", said(&output));
    assert_eq!(turns["replay"]["unfaithful"], 0, "{}", said(&output));
    assert!(turns["p"].as_f64().unwrap() < 0.05);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));

    let output = harness(&["check", "--locked", "--timeout", "600"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let checked: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(checked[0]["verdict"], "holds", "{checked:#}");
    // A replay touches nothing: it is still as the twelve plain turns, the recorded one and
    // those beside the replays have left it.
    assert_eq!(fs::read_dir(path("recordings")).unwrap().count(), 2);

    // A run of the other kind takes its place, and is replaced again.
    let ending = || {
        let files = fs::read_dir(path("recordings")).unwrap();
        let mut files = files.map(|entry| entry.unwrap().path());
        let toml = files.find(|path| path.extension().is_some_and(|name| name == "toml"));
        let text = fs::read_to_string(toml.expect("a recording is kept")).unwrap();
        let line = text.lines().find(|line| line.starts_with("ending"));
        line.unwrap().to_owned()
    };
    for (keep, expected) in [("unexpected", 1), ("expected", 0)] {
        let output = harness(&[&tame[..], &["--keep", keep]].concat());
        let ending = ending();
        assert_eq!(
            ending,
            format!("ending = \"exit status {expected}\""),
            "{}",
            said(&output)
        );
    }
}
