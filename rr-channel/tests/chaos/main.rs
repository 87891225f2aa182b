//! Chaos finds bugs of order that plain runs hardly ever show, and does not change programs'
//! guarantees.
//!
//! Each program runs in a process of its own: this executable again. How often each bug
//! shows is what `cargo test --release --test chaos -- --ignored --nocapture` prints.

#[path = "../common/mod.rs"]
mod common;
mod programs;

use std::path::Path;
use std::process::Output;
use std::time::Instant;

use common::program;

/// Far more than the tens that are needed.
const SEEDS: u64 = 10_000;

fn record(name: &str, chaos: &str, dir: &Path) -> Output {
    let mut command = program(name);
    command
        .env("RR_CHANNEL_CHAOS", chaos)
        .env("RR_CHANNEL", "record")
        .env("RR_CHANNEL_LOG", dir);
    command.output().unwrap()
}

fn replay(name: &str, dir: &Path) -> Output {
    let mut command = program(name);
    command
        .env("RR_CHANNEL", "replay")
        .env("RR_CHANNEL_LOG", dir);
    command.output().unwrap()
}

/// Whether the bug showed in a run that ended as it should.
fn has_bug(output: &Output) -> bool {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    match text.lines().find_map(|line| line.split_once("outcome: ")) {
        Some((_, "bug")) => true,
        Some((_, "fine")) => false,
        other => panic!("{other:?}"),
    }
}

/// Chaos finds the bug while recording, and the recording has it from then on.
fn finds(name: &str, length: Option<u64>) {
    for seed in 0..SEEDS {
        let dir = tempfile::tempdir().unwrap();
        let chaos = match length {
            Some(length) => format!("{seed}:{length}"),
            None => seed.to_string(),
        };
        if !has_bug(&record(name, &chaos, dir.path())) {
            continue;
        }
        eprintln!("{name}: found with seed {chaos}");
        for _ in 0..5 {
            let replayed = replay(name, dir.path());
            assert!(has_bug(&replayed));
            let text = String::from_utf8_lossy(&replayed.stdout);
            assert!(text.contains("desyncs: []"), "{text}");
        }
        return;
    }
    panic!("{name}: not found with {SEEDS} seeds");
}

#[test]
fn a_message_that_nearly_always_comes_first() {
    finds("early_use", None);
}

#[test]
fn an_update_between_a_read_and_a_write() {
    finds("lost_update", None);
}

#[test]
fn a_state_that_lasts_for_one_of_many_steps() {
    finds("late_change", Some(20));
}

#[test]
fn a_selection_of_the_last_message() {
    finds("stop_overtakes", None);
}

#[test]
fn a_receiver_that_is_nearly_always_there() {
    finds("late_to_meet", None);
}

/// Programs without a bug end, with none.
fn stays_fine(name: &str) {
    for seed in 0..10 {
        let mut command = program(name);
        command.env("RR_CHANNEL_CHAOS", seed.to_string());
        assert!(!has_bug(&command.output().unwrap()));
    }
}

#[test]
fn threads_that_spin_are_not_waited_for() {
    stays_fine("spinning");
}

#[test]
fn threads_that_wait_elsewhere_are_not_waited_for() {
    stays_fine("foreign_wait");
}

#[test]
fn a_message_that_is_left_is_heard_of() {
    stays_fine("completed_later");
}

#[test]
fn chaos_alone_records_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut command = program("foreign_wait");
    command
        .env("RR_CHANNEL_CHAOS", "1")
        .env("RR_CHANNEL_LOG", &log);
    assert!(!has_bug(&command.output().unwrap()));
    assert!(!log.exists());
}

#[test]
#[ignore = "a measurement"]
fn rates() {
    let runs = std::env::var("RR_CHANNEL_TEST_RUNS").map_or(100, |runs| runs.parse().unwrap());
    for (name, length) in [
        ("early_use", ""),
        ("lost_update", ""),
        ("late_change", ":20"),
        ("stop_overtakes", ""),
        ("spinning", ""),
        ("foreign_wait", ""),
    ] {
        let mut modes = [(0, 0.0); 3];
        for seed in 0..runs {
            let chaos = format!("{seed}{length}");
            let dir = tempfile::tempdir().unwrap();
            for (mode, (found, seconds)) in modes.iter_mut().enumerate() {
                let start = Instant::now();
                let output = match mode {
                    0 => program(name).output().unwrap(),
                    1 => program(name)
                        .env("RR_CHANNEL_CHAOS", &chaos)
                        .output()
                        .unwrap(),
                    _ => record(name, &chaos, dir.path()),
                };
                *seconds += start.elapsed().as_secs_f64();
                *found += i32::from(has_bug(&output));
            }
        }
        let texts = modes.map(|(found, seconds)| {
            let ms = seconds * 1000.0 / f64::from(runs);
            format!("{found:4} ({ms:4.1} ms each)")
        });
        println!(
            "{name:14} of {runs}: plain {}, chaos {}, chaos and recorded {}",
            texts[0], texts[1], texts[2]
        );
    }
}
