//! `cargo reprise` on a test that starts processes.

mod common;

use std::path::Path;

use common::Project;
use rr_channel_log::Recording;

const MANIFEST: &str = r#"
[package]
name = "started"
edition = "2024"
[dependencies]
crossbeam-channel = "0.5"
"#;

/// The test's processes are its executable again, and say what they saw.
const LIB: &str = r#"
#![cfg(test)]

use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::Command;
use std::{env, thread};

use crossbeam_channel::unbounded;

fn race(count: usize) -> Vec<usize> {
    let (s, r) = unbounded();
    for who in 0..3 {
        let s = s.clone();
        thread::spawn(move || {
            for _ in 0..10 {
                let _ = s.send(who);
                thread::yield_now();
            }
        });
    }
    drop(s);
    r.iter().take(count).collect()
}

#[test]
fn child() {
    let Some(path) = env::var_os("CHILD") else { return };
    let diverge = env::var_os("DIVERGE").is_some_and(|what| what == "child");
    let seen = race(if diverge { 3 } else { 30 });
    std::fs::write(path, format!("{seen:?}")).unwrap();
}

#[test]
fn starts() {
    let outcomes = env::var_os("OUTCOMES").unwrap();
    let mut seen = vec![format!("{:?}", race(30))];
    let none = env::var_os("DIVERGE").is_some_and(|what| what == "none");
    for number in 0..if none { 1 } else { 2 } {
        let mut path = outcomes.clone();
        path.push(format!("-{number}"));
        let status = Command::new(env::current_exe().unwrap())
            .args(["--exact", "child", "-q"])
            .env("CHILD", &path)
            .status();
        assert!(status.unwrap().success());
        seen.push(std::fs::read_to_string(&path).unwrap());
        std::fs::remove_file(path).unwrap();
    }
    let mut file = OpenOptions::new().append(true).create(true).open(outcomes).unwrap();
    file.write_all(format!("{seen:?}\n").as_bytes()).unwrap();
}
"#;

#[test]
fn started_processes_replay() {
    let project = Project::new(&[("Cargo.toml", MANIFEST), ("src/lib.rs", LIB)]);
    project.replay_each(&["starts"], true);

    let replay = |diverge: &str| {
        let output = project
            .reprise(&["replay"])
            .env("DIVERGE", diverge)
            .output();
        common::stderr(&output.unwrap())
    };
    let said = replay("child");
    for told in [
        "1 desynchronised",
        "reprise: first desynchronisation: process 0.1: thread child",
    ] {
        assert!(said.contains(told), "{told}: {said}");
    }
    // What it did instead is there to be compared.
    let (_, path) = said.split_once("that replay was recorded in ").unwrap();
    let instead = Path::new(path.lines().next().unwrap());
    let recorded = Recording::tree(instead.parent().unwrap()).unwrap();
    assert_eq!(Recording::tree(instead).unwrap().len(), recorded.len());

    let said = replay("none");
    assert!(said.contains("process 0.2 was not started"), "{said}");
}
