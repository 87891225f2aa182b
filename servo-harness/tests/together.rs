//! `servo-harness survey` on tests that disturb each other in one process.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const TESTS: &str = r#"
use std::sync::atomic::{AtomicBool, Ordering};

static USED: AtomicBool = AtomicBool::new(false);

#[test]
fn a_uses() {
    USED.store(true, Ordering::SeqCst);
}

#[test]
fn b_other() {}

#[test]
fn c_wants_it_unused() {
    assert!(!USED.load(Ordering::SeqCst));
}

#[test]
fn d_other() {}
"#;

#[test]
fn a_test_that_fails_beside_another_one_is_reported_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir(path("src")).unwrap();
    fs::write(path("src/lib.rs"), TESTS).unwrap();
    fs::write(
        path("Cargo.toml"),
        "[package]\nname = \"shared\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n",
    )
    .unwrap();
    let survey = |options: &[&str], of_tests: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_servo-harness"))
            .args(["survey", "--json", "-n2"])
            .args(options)
            .arg("--state")
            .arg(path("state"))
            .args(["--", "cargo", "test", "--offline", "--"])
            .args(of_tests)
            .current_dir(dir.path())
            .env(
                "CARGO_TARGET_DIR",
                Path::new(env!("CARGO_TARGET_TMPDIR")).join("together"),
            )
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let summary = serde_json::from_slice::<Value>(&output.stdout);
        let summary = summary.unwrap_or_else(|error| panic!("{error}: {said}"));
        let disturbed = |row: &Value| {
            let found = row["disturbed"].as_object()?;
            Some((row["test"].as_str()?.to_owned(), found["beside"].clone()))
        };
        let tests = summary["tests"].as_array().unwrap();
        assert_eq!(tests.len(), 4);
        let found: Vec<_> = tests.iter().filter_map(disturbed).collect();
        (output.status.code(), found)
    };
    assert_eq!(survey(&["--together", "0"], &[]), (Some(0), Vec::new()));
    let found = vec![(
        "shared::shared$c_wants_it_unused".to_owned(),
        Value::from(vec!["shared::shared$a_uses"]),
    )];
    assert_eq!(survey(&[], &[]), (Some(1), found.clone()));
    // All is known, and nothing is run again.
    let journal = fs::read(path("state/journal")).unwrap();
    assert_eq!(survey(&[], &[]), (Some(1), found.clone()));
    assert!(fs::read(path("state/journal")).unwrap() == journal);
    // With other threads it is another question, and has the same answer here.
    let threads = ["--test-threads=1"];
    assert_eq!(survey(&[], &threads), (Some(1), found));
    assert!(fs::read(path("state/journal")).unwrap() != journal);
}
