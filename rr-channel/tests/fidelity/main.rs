//! Programs whose outcome differs from run to run, recorded and replayed.
//!
//! Each program runs in a process of its own: this executable again, asked for one
//! test that is the program. Its outcome is what its threads saw, in their order.

mod bad_input;
#[path = "../common/mod.rs"]
mod common;
mod harness;
mod inputs;
mod ipc;
mod leaving;
mod lock_diverging;
mod locks;
mod parking_lots;
mod processes;
mod programs;
mod random;
mod random_locks;

use harness::{Run, check, check_processes, off, record, record_again, replay};
use rr_channel::log::Recording;

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
fn notifications_without_a_guarded_condition() {
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

#[cfg(feature = "interpose")]
#[test]
fn clocks_of_std() {
    check("input clocks");
}

#[cfg(feature = "interpose")]
#[test]
fn deadlines_that_the_program_computes() {
    check("input deadlines");
}

#[cfg(feature = "interpose")]
#[test]
fn deadlines_of_waits_that_are_not_recorded() {
    check("input unrecorded_deadlines");
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

/// A replay delivers the messages that another process had received, though no thread waits for
/// them here.
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

/// A shell cannot be told the identity of its children.
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
fn processes_in_different_modes_understand_each_other() {
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
fn a_process_outside_the_recording_is_left_alone() {
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
