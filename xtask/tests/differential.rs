//! The differential test itself, tried on programs that pose as pcache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs whatever comes after `--`, and nothing else, in the given environment: a shell would change
/// it.
const FAITHFUL: &str = r#"
#include <string.h>
#include <unistd.h>
int main(int count, char **arguments) {
    while (strcmp(*arguments, "--") != 0)
        arguments++;
    execvp(arguments[1], arguments + 1);
    return 127;
}
"#;

/// Remembers standard output by the arguments alone.
const FORGETFUL: &str = r#"#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
key=$PCACHE_DIR/$(printf '%s ' "$@" | cksum | tr ' ' -)
if [ -e "$key" ]; then
    cat "$key"
    exit
fi
"$@" > "$key.new"
status=$?
mv "$key.new" "$key"
cat "$key"
exit $status
"#;

/// Compiles [`FAITHFUL`].
fn faithful(dir: &Path) -> PathBuf {
    let (source, program) = (dir.join("faithful.c"), dir.join("faithful"));
    fs::write(&source, FAITHFUL).unwrap();
    let mut compiler = Command::new("cc");
    let compiled = compiler.arg("-o").args([&program, &source]).status();
    assert!(compiled.unwrap().success());
    program
}

/// Installs a script as a program.
fn fake(dir: &Path, name: &str, script: &str) -> PathBuf {
    let path = dir.join(name);
    let written = path.with_extension("written");
    fs::write(&written, script).unwrap();
    // By another process: a descriptor that is open for writing in a child of another test
    // would make it busy.
    let installed = Command::new("install")
        .args(["-m", "755"])
        .args([&written, &path])
        .status();
    assert!(installed.unwrap().success());
    path
}

fn differential(pcache: &Path, corpus: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask"))
        .arg("differential")
        .arg("--pcache")
        .arg(pcache)
        .arg("--corpus")
        .arg(corpus)
        .args(["--seed", "1"])
        .args(more)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_program_that_only_runs_the_command_shows_no_difference() {
    let dir = tempfile::tempdir().unwrap();
    let faithful = faithful(dir.path());
    let output = differential(&faithful, dir.path(), &["--seeds", "25", "--steps", "5"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("no difference"), "{}", said(&output));
}

#[test]
fn a_cache_that_ignores_inputs_is_caught_and_its_case_shrunk_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let corpus = dir.path().join("corpus");
    let forgetful = fake(dir.path(), "forgetful", FORGETFUL);
    let output = differential(
        &forgetful,
        &corpus,
        &[
            "--seeds",
            "20",
            "--steps",
            "6",
            "--failures",
            "1",
            "--jobs",
            "1",
            "--shrink-time",
            "15",
        ],
    );
    assert!(!output.status.success(), "{}", said(&output));
    assert!(
        said(&output).contains("differs under pcache"),
        "{}",
        said(&output)
    );

    // The stored case is replayed first, and shows the same again.
    let stored: Vec<_> = fs::read_dir(&corpus)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(stored.len(), 1, "{}", said(&output));
    let none = ["--seeds", "0", "--no-shrink"];
    let again = differential(&forgetful, &corpus, &none);
    assert!(!again.status.success(), "{}", said(&again));
    let faithful = faithful(dir.path());
    let mended = differential(&faithful, &corpus, &none);
    assert!(mended.status.success(), "{}", said(&mended));
    assert!(said(&mended).contains("1 cases"), "{}", said(&mended));
}
