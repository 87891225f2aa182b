//! `cargo reprise` on programs that let rayon do their work: those of the package in
//! `pooled`.

mod common;

use std::collections::HashSet;

use common::{Project, run};

const PROGRAMS: &[&str] = &[
    "par_iter_sends",
    "par_iter_locks",
    "splits",
    "joins",
    "joins_that_panic",
    "scopes",
    "scopes_in_order",
    "spawns",
    "nested",
    "across_pools",
    "waits",
    "yields",
];

/// How often is set by `RR_CHANNEL_TEST_RUNS` (recordings by replays of each).
#[test]
fn work_of_a_pool_is_replayed() {
    let runs = std::env::var("RR_CHANNEL_TEST_RUNS").unwrap_or_default();
    let (recordings, replays) = runs
        .split_once('x')
        .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)))
        .unwrap_or((2, 3));
    let project = Project::copy_of("pooled");
    for program in PROGRAMS {
        let mut outcomes = HashSet::new();
        for number in 0..recordings {
            let mut args = vec!["test", "-q", "--", "--exact", program];
            if number % 2 == 1 {
                args.insert(1, "--chaos");
            }
            run(&mut project.reprise(&args));
            let recorded = project.take_outcomes();
            assert_eq!(recorded.len(), 1);
            let said = run(&mut project.reprise(&["replay", "--times", &replays.to_string()]));
            // Whether every event was used is not asked: nobody waits for the threads of a
            // pool that was dropped, so the process may end before the last one of them.
            let faithful =
                format!("{replays} of {replays} replays ended as recorded, 0 desynchronised");
            assert!(said.contains(&faithful), "{program}: {said}");
            let outcome = recorded[0].clone();
            assert_eq!(
                project.take_outcomes(),
                vec![outcome.clone(); replays],
                "{program}"
            );
            outcomes.insert(outcome);
        }
        eprintln!(
            "{program}: {} outcomes in {recordings} recordings",
            outcomes.len()
        );
    }

    // Threads of a pool that leave their logs do what there is to do.
    run(&mut project.reprise(&["test", "-q", "--", "--exact", "diverges"]));
    assert_eq!(project.take_outcomes(), ["(220, 20090)"]);
    let said = run(project.reprise(&["replay"]).env("DIVERGE", "1"));
    assert!(said.contains("1 desynchronised"), "{said}");
    assert_eq!(project.take_outcomes(), ["(77, 2436)"]);
}
