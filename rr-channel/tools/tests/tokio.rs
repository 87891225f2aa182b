//! `cargo reprise` on programs whose tasks tokio polls: those of the package in `spawned`.

mod common;

use std::collections::BTreeSet;

use common::{Project, run};

const PROGRAMS: &[&str] = &[
    "tasks_send",
    "tasks_read_clocks",
    "tasks_of_one_thread_send",
    "tasks_share",
    "tasks_lock",
    "tasks_block",
    "tasks_of_one_thread_block",
    "tasks_wait",
    "tasks_spawn",
    "tasks_ask",
    "tasks_of_one_thread_ask",
    "all_send",
    "tasks_reply",
    "tasks_fork",
    "tasks_of_one_thread_fork",
];

#[test]
fn tokio_tasks_replay() {
    let project = Project::copy_of("spawned");
    // It is built once.
    operations_have_the_lines_that_led_there(&project);
    project.check_each(PROGRAMS, |project, program| {
        project.replay_each(&[program], true)
    });
    // A task also sees that nothing is there yet, or that somebody is gone.
    let others = EXCHANGES.iter().map(|program| (*program).to_owned());
    let others: Vec<_> = observed().into_iter().chain(others).collect();
    project.check_each(&others, Project::replay_in_chaos);

    // Tasks that leave their logs do what there is to do.
    for program in ["diverges", "diverges_on_one_thread"] {
        run(&mut project.reprise(&["test", "-q", "--", "--exact", program]));
        assert_eq!(project.take_outcomes(), ["(40, 780)"]);
        let said = run(project.reprise(&["replay"]).env("DIVERGE", "1"));
        for told in [
            "1 desynchronised",
            "reprise: first desynchronisation: thread ",
            "the environment (env::var",
        ] {
            assert!(said.contains(told), "{told}: {said}");
        }
        assert_eq!(project.take_outcomes(), ["(25, 300)"]);

        let mut stopped = project.reprise(&["replay", "--stop"]);
        let stopped = stopped.env("DIVERGE", "1").output().unwrap();
        assert!(!stopped.status.success(), "{}", common::stderr(&stopped));
        assert!(project.take_outcomes().is_empty());
    }
}

/// In a recording with places, operations inside of tokio name the line of the program.
fn operations_have_the_lines_that_led_there(project: &Project) {
    let program = "observed::many::batches_are_drained";
    run(&mut project.reprise(&["test", "--places", "-q", "--", "--exact", program]));
    project.take_outcomes();
    let session = project.last_log(program).join("session");
    let session = std::fs::read_to_string(session).unwrap();
    let source = std::fs::read_to_string(project.path().join("src/observed.rs")).unwrap();
    let lines: Vec<_> = source.lines().collect();
    // The program's lines that led into this file of tokio's.
    let leading_to = |file: &str| -> BTreeSet<&str> {
        let inside = format!(", in tokio/src/{file}:");
        let places = session.lines().filter(|line| line.contains(&inside));
        let led = places.filter_map(|line| line.split_once("src/observed.rs:"));
        let numbers = led.map(|(_, rest)| rest.split(':').next().unwrap().parse().unwrap());
        numbers
            .map(|number: usize| lines[number - 1].trim())
            .collect()
    };
    let receives = "while receiver.recv().await.is_some() {";
    let drains = "match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {";
    let sends = "sender.send(m).unwrap();";
    let channel = leading_to("sync/mpsc/chan.rs");
    for line in [receives, drains, sends] {
        assert!(channel.contains(line), "{line}: {channel:#?} {session}");
    }
    let joins = leading_to("runtime/task/join.rs");
    assert!(joins.is_empty(), "{joins:#?}"); // They are the program's own.
    assert!(
        !session.contains("target/reprise/patch/tokio/src/sync"),
        "{session}"
    );
}

const EXCHANGES: &[&str] = &[
    "exchanged::many_do_anything",
    "exchanged::others_do_anything",
    "exchanged::one_does_anything",
    "exchanged::tasks_meet",
    "exchanged::threads_and_tasks_exchange",
];

const OBSERVED: &[&str] = &[
    "branches_make_timers",
    "batches_are_drained",
    "notifications_are_enabled",
    "receivers_close",
    "servers_go",
    "capacities_are_seen",
    "statics_are_told_apart",
    "answers_are_late",
    "timers_are_tried",
    "tasks_are_aborted",
    "sets_are_dropped",
    "sets_are_tried",
    "tokens_are_cancelled",
    "runtimes_end",
];

/// The names of programs that run on several threads, and on one.
fn observed() -> Vec<String> {
    let on = |on| move |program| format!("observed::{on}::{program}");
    let many = OBSERVED.iter().map(on("many"));
    many.chain(OBSERVED.iter().map(on("one"))).collect()
}

/// Programs that no one has chosen; `RR_CHANNEL_TEST_SEEDS` says how many.
#[test]
#[ignore = "thorough, and takes long"]
fn what_any_tokio_tasks_exchange_replays() {
    let mut project = Project::copy_of("spawned");
    let seeds = std::env::var("RR_CHANNEL_TEST_SEEDS");
    let seeds: u64 = seeds.map_or(100, |seeds| seeds.parse().unwrap());
    for seed in 100..100 + seeds {
        project.set_seed(seed);
        project.replay_each(EXCHANGES, true);
        for program in observed() {
            project.replay_each(&[&program], true);
        }
    }
}

/// Whichever of the covered versions the workspace does not have: this one is downloaded.
#[test]
#[ignore = "downloads"]
fn tasks_of_an_earlier_tokio_replay() {
    let mut project = Project::copy_of("spawned");
    let manifest = std::fs::read_to_string(project.path().join("Cargo.toml")).unwrap();
    let earlier = manifest.replace("version = \"1.54\"", "version = \"=1.53.1\"");
    assert_ne!(manifest, earlier);
    project.write("Cargo.toml", &earlier);
    project.go_online();
    project.replay_each(PROGRAMS, true);
}
