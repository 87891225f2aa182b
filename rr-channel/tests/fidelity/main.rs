//! Programs whose outcome differs from run to run, recorded and replayed.
//!
//! Each program runs in a process of its own: this executable again, asked for one
//! test that is the program. Its outcome is what its threads saw, in their order.

mod harness;
mod programs;
mod random;

use harness::{Run, check, off, record, replay};

#[test]
fn many_senders() {
    check("many_senders");
}

#[test]
fn many_consumers_of_an_unbounded_channel() {
    check("many_consumers");
}

#[test]
fn many_consumers_of_a_bounded_channel() {
    check("bounded_consumers");
}

#[test]
fn many_consumers_of_a_channel_without_capacity() {
    check("rendezvous");
}

#[test]
fn a_bounded_channel_as_a_mutex() {
    check("channel_mutex");
}

#[test]
fn a_bounded_channel_as_a_semaphore() {
    check("channel_semaphore");
}

#[test]
fn polling_with_try_recv() {
    check("try_recv");
}

#[test]
fn polling_with_try_send() {
    check("try_send");
}

#[test]
fn selecting_over_several_channels() {
    check("select_recv");
}

#[test]
fn selecting_sends_into_bounded_channels() {
    check("select_send");
}

#[test]
fn selecting_with_a_nested_receive_in_the_message() {
    check("select_nested");
}

#[test]
fn waiting_for_readiness() {
    check("ready");
}

#[test]
fn timeouts_that_race_with_messages() {
    check("timeouts");
}

#[test]
fn timers_that_race_with_messages() {
    check("timers");
}

#[test]
fn disconnection_that_races_with_polling() {
    check("disconnect");
}

#[test]
fn sends_that_race_with_the_last_receiver() {
    check("refused");
}

#[test]
fn observed_lengths() {
    check("lengths");
}

#[test]
fn a_tree_of_scoped_threads() {
    check("scoped_tree");
}

#[cfg(feature = "interpose")]
#[test]
fn threads_that_others_spawned() {
    check("foreign_threads");
}

#[test]
fn messages_from_thread_local_destructors() {
    check("destructors");
}

#[test]
fn threads_that_panic() {
    check("panics");
}

#[test]
fn channels_with_the_face_of_stds() {
    check("mpsc");
}

/// `RR_CHANNEL_TEST_SEEDS` says how many.
#[test]
fn random_programs() {
    let count = std::env::var("RR_CHANNEL_TEST_SEEDS")
        .ok()
        .and_then(|n| n.parse().ok());
    for seed in 0..count.unwrap_or(16_u64) {
        check(&format!("random {seed}"));
    }
}

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

#[test]
fn off_leaves_no_trace() {
    let run = off("many_senders");
    assert!(
        run.status.success() && run.stderr.is_empty(),
        "{}",
        run.stderr
    );
}

/// The run that crashes is the one that matters: its log must hold every event up
/// to the crash, and replay must come to the same place.
#[test]
fn a_recording_survives_sigkill() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = record("killed", dir.path());
    assert!(!recorded.status.success());
    assert!(!recorded.outcome.is_empty());
    for _ in 0..3 {
        let replayed = replay("killed", dir.path());
        assert!(!replayed.status.success());
        assert_eq!(replayed.outcome, recorded.outcome);
    }
}

#[test]
fn a_thread_that_does_other_things_leaves_its_log_and_the_rest_stays() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = record("diverging", dir.path());
    let replayed = Run::of("diverging")
        .env("RR_CHANNEL", "replay")
        .env("RR_CHANNEL_LOG", dir.path())
        .env("DIVERGE", "1")
        .finish();
    assert!(replayed.status.success(), "{}", replayed.stderr);
    let of = |run: &Run, name: &str| {
        run.outcome
            .iter()
            .find(|line| line.starts_with(name))
            .cloned()
            .unwrap()
    };
    assert_eq!(of(&replayed, "faithful"), of(&recorded, "faithful"));
    assert!(
        replayed.stderr.contains(
            "thread programs::run/2 desynchronised at event 0: recorded `recv on t0.c2: message 0 of t0`, \
             replayed `try_recv on t0.c2`"
        ),
        "{}",
        replayed.stderr
    );
}

/// The recorded message never comes, and nobody else moves.
#[test]
fn a_replay_that_cannot_go_on_goes_live() {
    let dir = tempfile::tempdir().unwrap();
    record("withheld", dir.path());
    let replayed = Run::of("withheld")
        .env("RR_CHANNEL", "replay")
        .env("RR_CHANNEL_LOG", dir.path())
        .env("DIVERGE", "1")
        .finish();
    assert!(replayed.status.success(), "{}", replayed.stderr);
    assert!(
        replayed
            .stderr
            .contains("which nobody is left to bring about"),
        "{}",
        replayed.stderr
    );
    assert_eq!(replayed.outcome, ["got the other message"]);
}
