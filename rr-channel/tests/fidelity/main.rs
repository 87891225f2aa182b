//! Programs whose outcome differs from run to run, recorded and replayed.
//!
//! Each program runs in a process of its own: this executable again, asked for one
//! test that is the program. Its outcome is what its threads saw, in their order.

#[path = "../common/mod.rs"]
mod common;
mod harness;
mod inputs;
mod ipc;
mod lock_diverging;
mod locks;
mod parking_lots;
mod processes;
mod programs;
mod random;
mod random_locks;

use harness::{Run, check, check_processes, events, off, record, record_again, replay};
use rr_channel::log::{Outcome, Recording};

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

#[test]
fn a_mutex() {
    check("mutex");
}

#[test]
fn a_mutex_in_a_static() {
    check("static_mutex");
}

#[test]
fn nested_mutexes_that_have_moved() {
    check("many_mutexes");
}

#[test]
fn polling_with_try_lock() {
    check("try_lock");
}

#[test]
fn readers_and_writers() {
    check("rwlock");
}

#[test]
fn polling_readers_and_writers() {
    check("try_rwlock");
}

#[test]
fn notify_one_with_several_waiters() {
    check("notify_one");
}

#[test]
fn notify_all_with_several_waiters() {
    check("notify_all");
}

#[test]
fn notifications_of_what_no_mutex_guards() {
    check("unguarded_notify");
}

#[test]
fn timed_waits_that_race_with_notifications() {
    check("wait_timeout");
}

#[test]
fn timed_waits_for_a_condition() {
    check("wait_timeout_while");
}

#[test]
fn a_semaphore_of_mutex_and_condvar() {
    check("semaphore");
}

#[test]
fn leaders_at_a_barrier() {
    check("barrier");
}

#[test]
fn pairs_at_a_crowded_barrier() {
    check("crowded_barrier");
}

#[test]
fn races_for_an_initialization() {
    check("once");
}

#[test]
fn initializations_that_panic() {
    check("once_panics");
}

#[test]
fn races_for_a_cell() {
    check("once_lock");
}

#[test]
fn races_for_a_lazy_value() {
    check("lazy_lock");
}

#[test]
fn mutexes_that_are_poisoned() {
    check("poison");
}

#[test]
fn parked_threads() {
    check("park");
}

#[test]
fn threads_parked_with_a_timeout() {
    check("park_timeout");
}

#[test]
fn threads_that_are_seen_finished() {
    check("is_finished");
}

#[test]
fn locks_in_thread_local_destructors() {
    check("locking_destructors");
}

#[test]
fn locks_of_a_forked_child_are_its_own() {
    check("forked");
}

#[cfg(feature = "interpose")]
#[test]
fn locks_of_threads_that_others_spawned() {
    check("foreign_lockers");
}

#[test]
fn mutexes_of_parking_lot() {
    check("parking_lot mutex");
}

#[test]
fn attempts_at_locks_of_parking_lot() {
    check("parking_lot try_lock");
}

#[test]
fn fair_mutexes() {
    check("parking_lot fair");
}

#[test]
fn reentrant_mutexes() {
    check("parking_lot reentrant");
}

#[test]
fn readers_and_writers_of_parking_lot() {
    check("parking_lot rwlock");
}

#[test]
fn readers_that_become_writers() {
    check("parking_lot upgrades");
}

#[test]
fn condition_variables_of_parking_lot() {
    check("parking_lot condvar");
}

#[test]
fn waits_of_parking_lot_that_race_with_their_deadlines() {
    check("parking_lot wait_for");
}

#[test]
fn initializations_of_parking_lot() {
    check("parking_lot once");
}

#[test]
fn mutexes_of_parking_lot_13() {
    check("parking_lot_13 mutex");
}

#[test]
fn attempts_at_locks_of_parking_lot_13() {
    check("parking_lot_13 try_lock");
}

#[test]
fn fair_mutexes_of_13() {
    check("parking_lot_13 fair");
}

#[test]
fn reentrant_mutexes_of_13() {
    check("parking_lot_13 reentrant");
}

#[test]
fn readers_and_writers_of_parking_lot_13() {
    check("parking_lot_13 rwlock");
}

#[test]
fn readers_that_become_writers_of_13() {
    check("parking_lot_13 upgrades");
}

#[test]
fn condition_variables_of_parking_lot_13() {
    check("parking_lot_13 condvar");
}

#[test]
fn waits_of_parking_lot_that_race_with_their_deadlines_of_13() {
    check("parking_lot_13 wait_for");
}

#[test]
fn initializations_of_parking_lot_13() {
    check("parking_lot_13 once");
}

#[test]
fn waits_for_initializations_of_parking_lot_13() {
    check("parking_lot_13 once_wait");
}

#[test]
fn upgrades_of_parking_lot_13_that_race_with_their_deadlines() {
    check("parking_lot_13 upgrades_for");
}

#[test]
fn values_that_the_program_wants_fixed() {
    check("input value");
}

#[cfg(feature = "interpose")]
#[test]
fn orders_in_hash_maps() {
    check("input hash_maps");
}

#[cfg(feature = "interpose")]
#[test]
fn generators_that_the_kernel_seeds() {
    check("input thread_rng");
}

#[cfg(feature = "interpose")]
#[test]
fn random_bytes() {
    check("input getrandom");
}

#[test]
fn a_value_of_another_type_is_made_anew() {
    let (_, replayed) = diverge("input diverging_value");
    assert_eq!(replayed.outcome, ["long [7, 7]"]);
    for text in [
        "what was recorded of a value is no [u64; 2]",
        "desynchronised at event 0: recorded `value: bytes 07`, replayed `value`",
    ] {
        assert!(replayed.stderr.contains(text), "{}", replayed.stderr);
    }
}

#[test]
fn senders_of_an_ipc_channel() {
    check("ipc senders");
}

#[test]
fn polling_an_ipc_channel() {
    check("ipc try_recv");
}

#[test]
fn timeouts_that_race_with_ipc_messages() {
    check("ipc timeouts");
}

#[test]
fn sends_that_race_with_the_end_of_an_ipc_receiver() {
    check("ipc refused");
}

#[test]
fn ipc_channels_of_bytes() {
    check("ipc bytes");
}

#[test]
fn ipc_messages_that_are_big_or_many() {
    check("ipc big");
}

#[test]
fn sets_of_ipc_receivers() {
    check("ipc set");
}

#[test]
fn polling_a_set_of_ipc_receivers() {
    check("ipc try_select");
}

#[test]
fn streams_of_ipc_messages() {
    check("ipc streams");
}

#[test]
fn the_router_that_threads_start_and_use() {
    check("ipc router");
}

#[test]
fn routers_that_send_on() {
    check("ipc routers");
}

#[test]
fn ipc_senders_in_messages() {
    check("ipc channels_in_messages");
}

#[test]
fn ipc_receivers_in_messages() {
    check("ipc receivers_in_messages");
}

#[test]
fn servers_for_one_connection() {
    check("ipc server");
}

#[test]
fn messages_of_another_process() {
    check("ipc other_process");
}

#[test]
fn messages_of_threads_to_another_process() {
    check("ipc to_another_process");
}

#[test]
fn processes_that_send_to_their_parents() {
    check_processes("processes gathered", 6);
}

#[test]
fn processes_that_are_copies() {
    check_processes("processes forked", 3);
}

#[test]
fn processes_that_become_others() {
    check_processes("processes replaced", 4);
}

#[test]
fn processes_that_are_killed() {
    check_processes("processes killed_child", 2);
}

/// What another process had received comes in a replay, too, though nobody waits for it here.
#[test]
fn processes_that_exit_while_they_send() {
    for _ in 0..4 {
        let dir = tempfile::tempdir().unwrap();
        let recorded = record("processes hasty", dir.path());
        assert!(recorded.status.success(), "{}", recorded.stderr);
        for _ in 0..4 {
            let replayed = replay("processes hasty", dir.path());
            let left = replayed.stderr.contains("desynchronised at");
            assert!(!left, "{}", replayed.stderr);
            assert_eq!(replayed.outcome, recorded.outcome);
        }
    }
}

/// A shell cannot be told who its children are.
#[test]
fn a_process_behind_a_shell_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = record("processes behind_a_shell", dir.path());
    assert!(
        recorded.status.success() && recorded.stderr.is_empty(),
        "{}",
        recorded.stderr
    );
    let recording = Recording::open(dir.path()).unwrap();
    let [process] = recording.processes() else {
        panic!("{recording:?}");
    };
    assert_eq!(recording.dir_of(*process), None);
    assert!(!dir.path().join("process-1").exists());
}

/// `RR_CHANNEL_TEST_SEEDS` says how many.
fn check_seeds(program: &str) {
    let count = std::env::var("RR_CHANNEL_TEST_SEEDS")
        .ok()
        .and_then(|n| n.parse().ok());
    for seed in 0..count.unwrap_or(16_u64) {
        check(&format!("{program} {seed}"));
    }
}

#[test]
fn random_programs() {
    check_seeds("random");
}

#[test]
fn random_programs_with_locks() {
    check_seeds("random_locks");
}

/// Each of two processes records, or is off.
#[test]
fn processes_understand_each_other_in_whatever_mode() {
    for (ours, theirs) in [(false, false), (false, true), (true, false), (true, true)] {
        let dir = tempfile::tempdir().unwrap();
        let mut run = Run::of("ipc converse");
        if ours {
            run = run
                .env("RR_CHANNEL", "record")
                .env("RR_CHANNEL_LOG", dir.path().join("ours"));
        }
        if theirs {
            run = run.env("RR_CHANNEL_TEST_CHILD_LOG", dir.path().join("theirs"));
        }
        let run = run.finish();
        assert_eq!(run.outcome, ["understood"], "{}", run.stderr);
        assert_eq!(dir.path().join("ours").exists(), ours);
        assert_eq!(dir.path().join("theirs").exists(), theirs);
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

/// The limit of a file's size stands for the size of a disk: to whoever writes it is an error
/// as well, and everybody may set it.
#[test]
fn when_a_disk_is_full_the_program_goes_on_without_its_recording() {
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
        // What there is can be replayed as far as it goes.
        let replayed = replay("input many_values", &log);
        assert!(replayed.status.success(), "{blocks}: {}", replayed.stderr);
        assert!(!replayed.stderr.contains("panicked"), "{}", replayed.stderr);
    }
}

/// Whatever bytes there are: an error and a plain run, or a replay that may desynchronise.
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

#[test]
fn a_process_that_is_not_meant_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let run = Run::of("many_senders")
        .env("RR_CHANNEL", "record")
        .env("RR_CHANNEL_LOG", dir.path().join("log"))
        .env("RR_CHANNEL_PROCESS", std::process::id().to_string())
        .finish();
    assert!(
        run.status.success() && run.stderr.is_empty(),
        "{}",
        run.stderr
    );
    assert!(!dir.path().join("log").exists());
}

#[test]
fn a_replay_reports_to_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    record("diverging", &log);
    let report = |diverges: bool| {
        let path = dir.path().join(format!("report-{diverges}"));
        let mut run = Run::of("diverging")
            .env("RR_CHANNEL", "replay")
            .env("RR_CHANNEL_LOG", &log)
            .env("RR_CHANNEL_REPORT", &path);
        if diverges {
            run = run.env("DIVERGE", "1");
        }
        assert!(run.finish().status.success());
        let text = std::fs::read_to_string(path).unwrap();
        let (first, rest) = text.split_once('\n').unwrap();
        assert_eq!(first, format!("log {}", log.display()));
        rest.to_owned()
    };
    let faithful = report(false);
    let words: Vec<_> = faithful.split_whitespace().collect();
    assert!(
        matches!(words[..], ["end", consumed, "of", total] if consumed == total),
        "{faithful}"
    );
    let diverged = report(true);
    assert!(
        diverged.starts_with("desync thread programs::run/2 desynchronised at event 0: "),
        "{diverged}"
    );
    assert!(
        diverged.contains("\nleft programs::run/2 0 of "),
        "{diverged}"
    );
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
    for program in ["killed", "killed_with_locks", "ipc killed"] {
        let dir = tempfile::tempdir().unwrap();
        let recorded = record(program, dir.path());
        assert!(!recorded.status.success());
        assert!(!recorded.outcome.is_empty());
        for _ in 0..3 {
            let replayed = replay(program, dir.path());
            assert!(!replayed.status.success());
            assert_eq!(replayed.outcome, recorded.outcome);
        }
    }
}

#[test]
fn a_replay_is_not_recorded_into_a_recording() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = record("many_senders", dir.path());
    assert!(recorded.status.success(), "{}", recorded.stderr);
    let replayed = record_again("many_senders", dir.path(), dir.path()).finish();
    assert!(replayed.status.success());
    assert!(
        replayed.stderr.contains("already holds a recording"),
        "{}",
        replayed.stderr
    );
    // It ran as if off, and the recording is as it was.
    assert_eq!(replayed.report, None);
    let replayed = replay("many_senders", dir.path());
    assert_eq!(replayed.outcome, recorded.outcome);
    assert_eq!(replayed.report.as_deref(), Some("faithful"));
}

/// A replay of `program` that does something else; what it does can be replayed in turn.
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
fn a_thread_that_does_other_things_leaves_its_log_and_the_rest_stays() {
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

/// The recorded message never comes, and nobody else moves.
#[test]
fn a_replay_that_cannot_go_on_goes_live() {
    let (_, replayed) = diverge("withheld");
    assert!(
        replayed
            .stderr
            .contains("which nobody is left to bring about"),
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
        let late = "and nothing that was recorded came about for";
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

/// What waits an hour in the replay timed out when it was recorded.
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
            .contains("RR_CHANNEL_PATIENCE=-1 is no positive number"),
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
        let stalled = "which nobody is left to bring about";
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

/// What a replay writes down of itself is when a lock was acquired, not when it should have
/// been.
#[test]
fn a_turn_that_others_overtake_is_recorded_where_it_came() {
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
    let stalled = "which nobody is left to bring about";
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
