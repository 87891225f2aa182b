//! Replays of programs that do something else than was recorded: threads leave their logs.

use rr_channel::log::Outcome;

use crate::harness::{Run, events, record, record_again, replay};

/// A replay of `program` that does something else; its own recording can be replayed in turn.
fn diverge(program: &str) -> (Run, Run) {
    let dir = tempfile::tempdir().unwrap();
    let recorded = record(program, dir.path());
    let again = dir.path().join("again");
    let replayed = record_again(program, dir.path(), &again)
        .env("DIVERGE", "1")
        .finish();
    assert!(replayed.status.success(), "{}", replayed.stderr);
    let faithful = Run::of(program)
        .env("RR_CHANNEL", "replay")
        .env("RR_CHANNEL_LOG", again)
        .env("DIVERGE", "1")
        .finish();
    assert!(faithful.status.success(), "{}", faithful.stderr);
    assert_eq!(faithful.outcome, replayed.outcome, "{}", faithful.stderr);
    assert_eq!(
        faithful.report.as_deref(),
        Some("faithful"),
        "{}",
        faithful.stderr
    );
    (recorded, replayed)
}

fn outcome_of(run: &Run, name: &str) -> String {
    let line = run.outcome.iter().find(|line| line.starts_with(name));
    line.cloned().unwrap()
}

#[test]
fn one_diverging_thread_leaves_its_log_and_the_others_stay() {
    let (recorded, replayed) = diverge("diverging");
    assert_eq!(
        outcome_of(&replayed, "faithful"),
        outcome_of(&recorded, "faithful")
    );
    for text in [
        "thread programs::run/2 desynchronised at event 0: recorded `recv on t",
        ".c2: message 0 of t",
        "`, replayed `try_recv on t",
    ] {
        assert!(replayed.stderr.contains(text), "{}", replayed.stderr);
    }
}

/// The recorded message never comes, and no other thread moves.
#[test]
fn a_replay_that_cannot_go_on_goes_live() {
    let (_, replayed) = diverge("withheld");
    assert!(
        replayed
            .stderr
            .contains("which no thread is left to bring about"),
        "{}",
        replayed.stderr
    );
    assert_eq!(replayed.outcome, ["got the other message"]);
}

/// The recorded message never comes, and others go on without end: only time tells.
#[test]
fn a_replay_beside_threads_that_never_rest_goes_live() {
    for program in ["withheld_ticking", "withheld_computing"] {
        let dir = tempfile::tempdir().unwrap();
        let recorded = record(program, dir.path());
        assert_eq!(recorded.outcome, ["got the recorded message"]);
        let replayed = replay(program, dir.path());
        assert_eq!(replayed.outcome, recorded.outcome);
        assert_eq!(replayed.report.as_deref(), Some("faithful"));

        let diverged = Run::of(program)
            .env("RR_CHANNEL", "replay")
            .env("RR_CHANNEL_LOG", dir.path())
            .env("RR_CHANNEL_PATIENCE", "0.01")
            .env("DIVERGE", "1")
            .finish();
        assert!(diverged.status.success(), "{}", diverged.stderr);
        assert_eq!(diverged.outcome, ["got the other message"]);
        let late = "and no recorded event came about for";
        assert!(diverged.stderr.contains(late), "{}", diverged.stderr);
    }
}

#[test]
fn a_replay_that_is_to_stop_ends_where_a_thread_leaves_its_log() {
    let dir = tempfile::tempdir().unwrap();
    record("withheld", dir.path());
    let replayed = |asked: &str, diverge: bool| {
        let run = Run::of("withheld")
            .env("RR_CHANNEL", "replay")
            .env("RR_CHANNEL_LOG", dir.path())
            .env("RR_CHANNEL_DESYNC", asked);
        if diverge {
            run.env("DIVERGE", "1").finish()
        } else {
            run.finish()
        }
    };
    let report = dir.path().join("report");
    let stopped = Run::of("withheld")
        .env("RR_CHANNEL", "replay")
        .env("RR_CHANNEL_LOG", dir.path())
        .env("RR_CHANNEL_DESYNC", "stop")
        .env("RR_CHANNEL_REPORT", &report)
        .env("DIVERGE", "1")
        .finish();
    assert_eq!(stopped.status.code(), Some(86), "{}", stopped.stderr);
    assert!(stopped.stderr.contains("desynchronised at event"));
    assert!(stopped.outcome.is_empty(), "{:?}", stopped.outcome);
    let report = std::fs::read_to_string(report).unwrap();
    let last = report.lines().last().unwrap();
    assert!(last.starts_with("end "), "{report}");

    assert_eq!(replayed("stop", false).report.as_deref(), Some("faithful"));
    assert_eq!(replayed("go-on", true).outcome, ["got the other message"]);
    let odd = replayed("halt", true);
    assert_eq!(odd.outcome, ["got the other message"]);
    assert!(
        odd.stderr.contains("neither stop nor go-on"),
        "{}",
        odd.stderr
    );
}

/// Timeouts of an hour that expired in the recording are not waited for in the replay.
#[test]
fn recorded_timeouts_need_not_be_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = record("long_timeouts", dir.path());
    assert!(recorded.status.success(), "{}", recorded.stderr);
    let replayed = Run::of("long_timeouts")
        .env("RR_CHANNEL", "replay")
        .env("RR_CHANNEL_LOG", dir.path())
        .env("RR_CHANNEL_FAST_TIMEOUTS", "1")
        .env("DIVERGE", "1")
        .finish();
    assert_eq!(replayed.outcome, recorded.outcome, "{}", replayed.stderr);
    assert_eq!(replayed.report.as_deref(), Some("faithful"));
    assert!(
        !recorded.outcome[0].contains("false"),
        "{:?}",
        recorded.outcome
    );
}

#[test]
fn a_patience_that_is_no_number_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    record("withheld", dir.path());
    let replayed = Run::of("withheld")
        .env("RR_CHANNEL", "replay")
        .env("RR_CHANNEL_LOG", dir.path())
        .env("RR_CHANNEL_PATIENCE", "-1")
        .finish();
    assert!(
        replayed
            .stderr
            .contains("RR_CHANNEL_PATIENCE=-1 is not a positive number"),
        "{}",
        replayed.stderr
    );
    assert_eq!(replayed.report.as_deref(), Some("faithful"));
}

#[test]
fn a_replay_whose_ipc_message_does_not_come_goes_live() {
    for (program, outcome) in [
        ("ipc withheld", "got (2, 2)"),
        ("ipc withheld_from_set", "got [(1, Some((3, 3)))]"),
    ] {
        let (_, replayed) = diverge(program);
        let stalled = "which no thread is left to bring about";
        assert!(replayed.stderr.contains(stalled), "{}", replayed.stderr);
        assert_eq!(replayed.outcome, [outcome]);
    }
}

/// Threads that leave their logs take locks as they like, and those that still follow
/// theirs find their turn missed, or never come.
#[test]
fn a_replay_with_other_lock_acquisitions_goes_on() {
    let (recorded, replayed) = diverge("lock_diverging acquisitions");
    assert_eq!(
        outcome_of(&replayed, "faithful"),
        outcome_of(&recorded, "faithful")
    );
    assert_eq!(outcome_of(&replayed, "shared"), "shared 110");
    for text in [
        "thread programs::run/5 desynchronised at event 0: recorded `lock",
        "replayed `try_lock",
    ] {
        assert!(
            replayed.stderr.contains(text),
            "{text}: {}",
            replayed.stderr
        );
    }
}

/// The new recording of a replay notes when a lock was acquired, not when it should have been.
#[test]
fn an_overtaken_acquisition_is_recorded_at_its_actual_position() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = record("lock_diverging overtaken", dir.path());
    assert_eq!(recorded.outcome, ["order [1, 2]"]);
    let again = dir.path().join("again");
    let replayed = record_again("lock_diverging overtaken", dir.path(), &again)
        .env("DIVERGE", "1")
        .finish();
    let order = outcome_of(&replayed, "order");
    let others = order.split('2').next().unwrap().matches('1').count();
    // The attempt, which wrote nothing, came before them all.
    let ticket = others as u64 + 1;
    let events = &events(&again)["programs::run/2"];
    let last = events.last().map(|event| event.outcome);
    assert_eq!(last, Some(Outcome::Turn { ticket }), "{order}");
}

#[test]
fn a_wait_whose_notifier_left_its_log_ends() {
    let (_, replayed) = diverge("lock_diverging unnotified");
    assert_eq!(replayed.outcome, ["woken"]);
    assert!(
        replayed.stderr.contains(
            "thread programs::run/1 desynchronised at event 1: recorded `wait: woken by \
             notification 1 of t"
        ),
        "{}",
        replayed.stderr
    );
    let stalled = "which no thread is left to bring about";
    assert!(replayed.stderr.contains(stalled), "{}", replayed.stderr);
}

#[test]
fn a_barrier_lets_live_and_replayed_threads_through() {
    let (_, replayed) = diverge("lock_diverging barrier");
    assert_eq!(replayed.outcome, ["through", "through"]);
    assert!(
        replayed
            .stderr
            .contains("thread programs::run/1 desynchronised at event 0: recorded `arrive"),
        "{}",
        replayed.stderr
    );
}

#[test]
fn a_value_of_another_type_is_made_anew() {
    let (_, replayed) = diverge("input diverging_value");
    assert_eq!(replayed.outcome, ["long [7, 7]"]);
    for text in [
        "the recorded value is not a [u64; 2]",
        "desynchronised at event 0: recorded `value: bytes 07`, replayed `value`",
    ] {
        assert!(replayed.stderr.contains(text), "{}", replayed.stderr);
    }
}
