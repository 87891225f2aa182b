//! Damage to a recording, its directory or its disk does not harm the program.

use crate::harness::{Run, record, replay};

#[test]
fn an_unknown_mode_runs_as_if_off() {
    let run = Run::of("many_senders").env("RR_CHANNEL", "on").finish();
    assert!(run.status.success());
    assert!(
        run.stderr.contains("unknown mode RR_CHANNEL=on"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_missing_recording_runs_as_if_off() {
    let dir = tempfile::tempdir().unwrap();
    let run = replay("many_senders", &dir.path().join("none"));
    assert!(run.status.success());
    assert!(run.stderr.contains("cannot replay"), "{}", run.stderr);
    assert_eq!(run.report, None);
}

#[test]
fn an_unwritable_directory_runs_as_if_off() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let run = record("many_senders", &file.join("below"));
    assert!(run.status.success());
    assert!(run.stderr.contains("cannot record to"), "{}", run.stderr);
}

/// The limit of a file's size stands for the size of a disk: exceeding it is a write error as
/// well, and any user may set it.
#[test]
fn a_full_disk_ends_the_recording_and_not_the_program() {
    for (blocks, says) in [
        (0, "cannot record to"),
        (4, "cannot record thread"),
        (8, "its log cannot grow"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let run = Run::of("input many_values")
            .env("RR_CHANNEL", "record")
            .env("RR_CHANNEL_LOG", &log)
            .limited(blocks)
            .finish();
        assert!(run.status.success(), "{blocks}: {}", run.stderr);
        assert_eq!(run.outcome.len(), 1, "{blocks}: {}", run.stderr);
        assert!(run.stderr.contains(says), "{blocks}: {}", run.stderr);
        // The existing part can be replayed as far as it goes.
        let replayed = replay("input many_values", &log);
        assert!(replayed.status.success(), "{blocks}: {}", replayed.stderr);
        assert!(!replayed.stderr.contains("panicked"), "{}", replayed.stderr);
    }
}

/// Any bytes lead to an error and a plain run, or to a replay that may desynchronise.
#[test]
fn a_damaged_recording_does_a_program_no_harm() {
    for program in ["many_senders", "mutex"] {
        let dir = tempfile::tempdir().unwrap();
        let whole = dir.path().join("whole");
        assert!(record(program, &whole).status.success());
        let files: Vec<_> = std::fs::read_dir(&whole)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        let mut x = 7_u64;
        let mut dice = |below: usize| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (x >> 33) as usize % below
        };
        for round in 0..24 {
            let damaged = dir.path().join(format!("damaged-{round}"));
            std::fs::create_dir(&damaged).unwrap();
            let chosen = dice(files.len());
            for (at, name) in files.iter().enumerate() {
                let mut bytes = std::fs::read(whole.join(name)).unwrap();
                if at == chosen {
                    match round % 4 {
                        0 => bytes.truncate(dice(bytes.len())),
                        1 => bytes.clear(),
                        2 => bytes = bytes.iter().rev().copied().collect(),
                        _ => {
                            let place = dice(bytes.len().min(160));
                            bytes[place] ^= 1 << dice(8);
                        }
                    }
                }
                if at != chosen || round % 6 != 5 {
                    std::fs::write(damaged.join(name), bytes).unwrap();
                }
            }
            let run = Run::of(program)
                .env("RR_CHANNEL", "replay")
                .env("RR_CHANNEL_LOG", &damaged)
                .env("RR_CHANNEL_PATIENCE", "0.1")
                .finish();
            let what = format!("{program}, round {round}, {:?}", files[chosen]);
            assert!(run.status.success(), "{what}: {}", run.stderr);
            assert!(!run.stderr.contains("panicked"), "{what}: {}", run.stderr);
            assert!(!run.outcome.is_empty(), "{what}: {}", run.stderr);
        }
    }
}
