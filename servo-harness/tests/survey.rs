//! `servo-harness survey` on tests that misbehave, and on a harness that is ended.
//!
//! The tests are shell scripts. Each has a directory of its own, whose path is in the
//! arguments of every process that it starts, so that those that are left can be found.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const HARNESS: &str = env!("CARGO_BIN_EXE_servo-harness");

/// Says what the tests of these names do.
const SCRIPT: &str = r#"
dir=$1
case $2 in
good*) exit 0 ;;
bad) echo "it is bad"; exit 3 ;;
crash) kill -SEGV $$ ;;
turns) if mkdir "$dir/turn" 2>/dev/null; then exit 0; else rmdir "$dir/turn"; exit 1; fi ;;
daemon) setsid sh -c 'sh "$0" "$1" wait & sh "$0" "$1" wait' "$0" "$dir" >/dev/null 2>&1 & exit 0 ;;
holds) setsid sh "$0" "$dir" wait & exit 0 ;;
flood) while :; do echo "$0 floods floods floods floods floods floods floods floods floods floods"; done ;;
stubborn) trap '' TERM INT HUP; while :; do sleep 1000 & wait; done ;;
loaded)
    pid=$$ threads=0
    while [ "$pid" -gt 1 ]; do
        threads=$((threads + $(cat /proc/$pid/task/*/comm | grep -c '^load$')))
        pid=$(sed -n 's/^PPid:[^0-9]*//p' /proc/$pid/status)
    done
    [ "$threads" = 3 ] ;;
wait) trap '' TERM INT HUP; while :; do sleep 1000 & wait; done ;;
esac
"#;

struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    fn new(names: &[&str]) -> Site {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("test.sh"), SCRIPT).unwrap();
        fs::write(dir.path().join("names"), names.join("\n")).unwrap();
        Site { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A survey of the tests; `shell` comes before the harness's name.
    fn survey_by(&self, shell: &str, options: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                &format!("{shell} exec \"$@\""),
                "sh",
                HARNESS,
                "survey",
            ])
            .args(["--json", "--state"])
            .arg(self.path("state"))
            .args(options)
            .arg("--tests")
            .arg(self.path("names"))
            .args(["--", "sh"])
            .arg(self.path("test.sh"))
            .arg(self.dir.path())
            .arg("{}")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn survey(&self, options: &[&str]) -> Output {
        self.survey_by("", options).output().unwrap()
    }

    fn journal(&self) -> String {
        fs::read_to_string(self.path("state/journal")).unwrap_or_default()
    }

    /// Waits until so many runs are written down.
    fn wait_for_runs(&self, count: usize, harness: &mut Child) {
        while self.journal().matches(r#""is":"run""#).count() < count {
            assert_eq!(harness.try_wait().unwrap(), None, "it ended before");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Processes that have to do with these tests.
    fn left(&self) -> Vec<String> {
        let own = self.dir.path().to_str().unwrap().to_owned();
        let entries = fs::read_dir("/proc").unwrap();
        let lines = entries.filter_map(|entry| {
            let line = fs::read(entry.ok()?.path().join("cmdline")).ok()?;
            Some(String::from_utf8_lossy(&line).replace('\0', " "))
        });
        lines.filter(|line| line.contains(&own)).collect()
    }

    /// Waits until nothing is left: what is ended takes a moment to be gone.
    fn wait_for_nothing(&self) {
        while !self.left().is_empty() {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
        panic!(
            "no JSON; it says: {}",
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The runs of a test, by outcome.
fn outcomes(summary: &Value, test: &str) -> [u64; 4] {
    let tests = summary["tests"].as_array().unwrap();
    let row = tests.iter().find(|row| row["test"] == test).unwrap();
    ["expected", "unexpected", "crash", "timeout"].map(|kind| row["plain"][kind].as_u64().unwrap())
}

/// The ways to keep processes together that work here.
fn isolations() -> Vec<&'static str> {
    let site = Site::new(&["good"]);
    let namespace = site.survey(&["-n1", "--isolation", "namespace"]);
    match namespace.status.code() {
        Some(0) => vec!["namespace", "group"],
        _ => vec!["group"],
    }
}

#[test]
fn under_load_other_runs_are_made_than_without() {
    let site = Site::new(&["loaded"]);
    // A namespace hides the harness from the test, which looks for its threads.
    for (load, outcome) in [
        ("0", [0, 2, 0, 0]),
        ("3", [2, 0, 0, 0]),
        ("2", [0, 2, 0, 0]),
    ] {
        let output = site.survey(&["-n2", "--isolation", "group", "--load", load]);
        assert_eq!(
            outcomes(&json(&output), "loaded"),
            outcome,
            "{}",
            said(&output)
        );
    }
    assert_eq!(site.journal().matches(r#""is":"run""#).count(), 6);
}

#[test]
fn every_test_has_an_outcome_and_leaves_no_process() {
    for isolation in isolations() {
        // These never end by themselves, those below always do.
        let site = Site::new(&["flood", "stubborn"]);
        let output = site.survey(&["-n2", "-j2", "--timeout", "1", "--isolation", isolation]);
        assert_eq!(
            outcomes(&json(&output), "flood"),
            [0, 0, 0, 2],
            "{}",
            said(&output)
        );
        assert_eq!(
            outcomes(&json(&output), "stubborn"),
            [0, 0, 0, 2],
            "{}",
            said(&output)
        );
        site.wait_for_nothing();
        assert!(site.journal().len() < 100_000, "a flood is kept");

        let site = Site::new(&["good", "bad", "crash", "turns", "daemon", "holds"]);
        let output = site.survey(&["-n2", "-j2", "--timeout", "600", "--isolation", isolation]);
        let summary = json(&output);
        let check = |test: &str, expected: [u64; 4]| {
            assert_eq!(
                outcomes(&summary, test),
                expected,
                "{test} in a {isolation}: {}",
                said(&output)
            );
        };
        check("good", [2, 0, 0, 0]);
        check("bad", [0, 2, 0, 0]);
        check("crash", [0, 0, 2, 0]);
        check("turns", [1, 1, 0, 0]);
        check("daemon", [2, 0, 0, 0]);
        check("holds", [2, 0, 0, 0]);
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(summary["complete"], true);
        assert_eq!(summary["isolated"], isolation == "namespace");
        site.wait_for_nothing();
        let bad = summary["tests"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["test"] == "bad");
        assert_eq!(bad.unwrap()["outputs"][0], "it is bad\n");
    }
}

#[test]
fn a_suite_without_surprises_is_a_success_and_stops_early() {
    let site = Site::new(&["good1", "good2"]);
    let output = site.survey(&["-n500", "--precision", "0.3"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let summary = json(&output);
    // The interval of 9 of 9 is 0.299 wide; another run may have begun by then.
    let runs = outcomes(&summary, "good1")[0];
    assert!((9..20).contains(&runs), "{runs}");
    // Nothing is left to do, and nothing is done.
    let before = site.journal();
    assert_eq!(
        site.survey(&["-n500", "--precision", "0.3"]).status.code(),
        Some(0)
    );
    assert_eq!(site.journal(), before);
}

#[test]
fn a_harness_that_is_killed_goes_on_where_it_was_and_leaves_no_processes() {
    for isolation in isolations() {
        let site = Site::new(&["good", "turns", "stubborn"]);
        let options = [
            "-n40",
            "-j3",
            "--precision",
            "0",
            "--timeout",
            "600",
            "--isolation",
            isolation,
        ];
        let mut written = 0;
        for round in 1..=4 {
            let mut harness = site.survey_by("", &options).spawn().unwrap();
            // The third test never ends, so there is always something that is under way.
            site.wait_for_runs(written + 5 * round, &mut harness);
            harness.kill().unwrap();
            harness.wait().unwrap();
            site.wait_for_nothing();
            written = site.journal().matches(r#""is":"run""#).count();
        }
        let before = site.journal();
        fs::write(site.path("names"), "good\nturns").unwrap();
        let output = site.survey(&options);
        let summary = json(&output);
        assert_eq!(outcomes(&summary, "good"), [40, 0, 0, 0]);
        assert_eq!(outcomes(&summary, "turns").iter().sum::<u64>(), 40);
        let whole = &before[..=before.rfind('\n').unwrap()];
        assert!(
            site.journal().starts_with(whole),
            "a finished result was lost"
        );
        let lines = site.journal().lines().count();
        assert_eq!(lines, 81, "one line for each run, and the first");
    }
}

#[test]
fn an_interrupted_harness_ends_cleanly_and_can_go_on() {
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let site = Site::new(&["good", "stubborn"]);
        let mut harness = site
            .survey_by("", &["-n50", "-j2", "--timeout", "600"])
            .spawn()
            .unwrap();
        site.wait_for_runs(3, &mut harness);
        let pid = Pid::from_child(&harness);
        kill_process(pid, signal).unwrap();
        let output = harness.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{}", said(&output));
        assert!(said(&output).contains("run the same command to continue"));
        let summary = json(&output);
        assert_eq!(summary["complete"], false);
        assert_eq!(
            outcomes(&summary, "stubborn"),
            [0; 4],
            "what was interrupted has no outcome"
        );
        assert!(outcomes(&summary, "good")[0] >= 3);
        assert_eq!(site.left(), Vec::<String>::new());
    }
}

#[test]
fn on_a_full_disk_what_was_finished_is_kept() {
    let site = Site::new(&["good", "turns"]);
    // A limit of 512 bytes times four, and an error instead of a signal: as if the disk was full.
    let full = "trap '' XFSZ; ulimit -f 4;";
    let output = site
        .survey_by(full, &["-n40", "--precision", "0"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(
        said(&output).contains("finished results are kept"),
        "{}",
        said(&output)
    );
    let before = site.journal();
    assert!(
        before.ends_with('\n') && before.lines().count() > 2,
        "{before}"
    );
    let output = site.survey(&["-n40", "--precision", "0"]);
    assert_eq!(outcomes(&json(&output), "good"), [40, 0, 0, 0]);
    assert!(site.journal().starts_with(&before));
}

#[test]
fn a_harness_whose_errors_cannot_be_written_ends_as_ever() {
    let site = Site::new(&["good"]);
    fs::remove_file(site.path("names")).unwrap();
    let output = site.survey_by("exec 2>/dev/full;", &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
}

#[test]
fn runs_of_a_program_that_has_changed_do_not_count() {
    let site = Site::new(&["one"]);
    let program = site.path("program");
    let survey = |status: &str| {
        common::write_program(&program, &format!("#!/bin/sh\nexit {status}\n"));
        let state = site.path("state");
        let output = Command::new(HARNESS)
            .args(["survey", "--json", "-n3", "--state"])
            .arg(state)
            .arg("--")
            .arg(&program)
            .output()
            .unwrap();
        outcomes(&json(&output), program.to_str().unwrap())
    };
    assert_eq!(survey("0"), [3, 0, 0, 0]);
    assert_eq!(survey("1"), [0, 3, 0, 0]);
    assert_eq!(survey("0"), [3, 0, 0, 0]);
}

#[test]
fn the_tests_of_a_cargo_project_run_as_cargo_runs_them() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("src")).unwrap();
    fs::create_dir_all(dir.path().join("tests")).unwrap();
    fs::write(
        dir.path().join("Cargo.toml"),
        "[package]\nname = \"p\"\nversion = \"1.2.3\"\nedition = \"2021\"\n[workspace]\n",
    )
    .unwrap();
    let library = r#"
        /// ```
        /// panic!("documentation tests are left out");
        /// ```
        pub fn f() {}

        #[cfg(test)]
        mod tests {
            #[test]
            fn environment() {
                assert_eq!(std::env::var("CARGO_PKG_VERSION").unwrap(), "1.2.3");
                let dir = std::env::var("CARGO_MANIFEST_DIR").unwrap();
                assert_eq!(std::env::current_dir().unwrap(), std::path::Path::new(&dir));
            }
            #[test]
            #[ignore]
            fn ignored() {
                panic!();
            }
        }"#;
    fs::write(dir.path().join("src/lib.rs"), library).unwrap();
    let other = "#[test] fn fails() { panic!(\"as it should\"); }";
    fs::write(dir.path().join("tests/other.rs"), other).unwrap();
    let output = Command::new(HARNESS)
        .args([
            "survey",
            "--json",
            "-n2",
            "--",
            "cargo",
            "test",
            "--offline",
        ])
        .current_dir(dir.path())
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("SERVO_HARNESS_STATE")
        .output()
        .unwrap();
    let summary = json(&output);
    assert_eq!(outcomes(&summary, "p::p$tests::environment"), [2, 0, 0, 0]);
    assert_eq!(outcomes(&summary, "p::other$fails"), [0, 2, 0, 0]);
    assert_eq!(
        summary["tests"].as_array().unwrap().len(),
        2,
        "what is ignored is left out"
    );
    assert!(Path::new(&dir.path().join("target/servo-harness/journal")).exists());
}
