//! Recordings whose trace cannot be written any more.
//!
//! The limit of a file's size stands for the size of a disk: to whoever writes it is an
//! error as well, and everybody may set it.

use std::path::Path;
use std::process::{Command, Output};

#[path = "common/command.rs"]
mod command;
#[path = "common/install.rs"]
mod install;

/// Prints and ends as it likes, having read more than the limit allows to write and what
/// may wait to be written.
const SCRIPT: &str = "echo begin
    for i in 1 2 3 4 5 6; do dd if=/dev/urandom of=/dev/null bs=65536 count=100 2>&-; echo $i; done
    echo end; exit 7";

/// Records a command while no file may be larger than so many KiB.
fn record(home: &Path, limit: u32, policy: &str, command: &[&str]) -> Output {
    command::with(&mut Command::new("sh"), home)
        .args(["-c", "ulimit -f $1; shift; exec \"$@\"", "sh"])
        .arg((limit * 2).to_string())
        .arg(env!("CARGO_BIN_EXE_reprise"))
        .args(["record", "--disk-full", policy, "--"])
        .args(command)
        .output()
        .unwrap()
}

fn reprise(home: &Path, words: &[&str]) -> Output {
    command::reprise(home).args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The beginning of what was printed is replayed, and nothing else.
#[track_caller]
fn check_replay(home: &Path, recorded: &Output) -> String {
    let replayed = reprise(home, &["replay"]);
    let message = text(&replayed.stderr);
    assert_eq!(replayed.status.code(), Some(123), "{message}");
    assert!(message.contains("the recording ends here"), "{message}");
    let printed = text(&replayed.stdout);
    assert!(text(&recorded.stdout).starts_with(&printed), "{printed}");
    assert!(reprise(home, &["dump"]).status.success());
    printed
}

#[test]
fn a_command_goes_on_after_its_recording_failed() {
    let home = tempfile::tempdir().unwrap();
    let recorded = record(home.path(), 2500, "go-on", &["sh", "-c", SCRIPT]);
    let message = text(&recorded.stderr);
    assert_eq!(recorded.status.code(), Some(7), "{message}");
    assert_eq!(text(&recorded.stdout), "begin\n1\n2\n3\n4\n5\n6\nend\n");
    assert!(message.contains("File too large"), "{message}");
    assert!(message.contains("goes on without it"), "{message}");
    assert!(check_replay(home.path(), &recorded).starts_with("begin\n"));
}

#[test]
fn a_command_is_killed_when_its_recording_fails() {
    let home = tempfile::tempdir().unwrap();
    let recorded = record(home.path(), 2500, "stop", &["sh", "-c", SCRIPT]);
    let message = text(&recorded.stderr);
    assert_eq!(recorded.status.code(), Some(125), "{message}");
    assert!(!text(&recorded.stdout).contains("end"), "{recorded:?}");
    assert!(message.contains("File too large"), "{message}");
    check_replay(home.path(), &recorded);
}

#[test]
fn a_program_that_cannot_be_stored_ends_the_recording() {
    let home = tempfile::tempdir().unwrap();
    let own = home.path().join("own");
    let written = home.path().join("written");
    let mut program = std::fs::read("/bin/sh").unwrap();
    // What lies behind a program is no part of it.
    program.resize(program.len().max(400 << 10), 0);
    std::fs::write(&written, program).unwrap();
    install::install(&written, &own);
    let script = format!("echo begin; {} -c 'exit 5'; echo $?", own.display());
    let recorded = record(home.path(), 300, "go-on", &["sh", "-c", &script]);
    let message = text(&recorded.stderr);
    assert_eq!(text(&recorded.stdout), "begin\n5\n", "{message}");
    assert!(message.contains("File too large"), "{message}");
    assert_eq!(check_replay(home.path(), &recorded), "begin\n");
}

#[test]
fn a_trace_that_cannot_be_created_is_an_error_and_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let recorded = record(home.path(), 0, "go-on", &["echo", "x"]);
    assert_eq!(recorded.status.code(), Some(125), "{recorded:?}");
    assert!(
        text(&recorded.stderr).contains("File too large"),
        "{recorded:?}"
    );
    assert_eq!(text(&recorded.stdout), "");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}
