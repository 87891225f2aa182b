//! `cargo reprise` on programs that let rayon do their work: those of the package in
//! `pooled`.

mod common;

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

#[test]
fn work_of_a_pool_is_replayed() {
    let project = Project::copy_of("pooled");
    // Whether every event was used is not asked: nobody waits for the threads of a pool that
    // was dropped, so the process may end before the last one of them.
    project.replay_each(PROGRAMS, false);

    // Threads of a pool that leave their logs do what there is to do.
    run(&mut project.reprise(&["test", "-q", "--", "--exact", "diverges"]));
    assert_eq!(project.take_outcomes(), ["(220, 20090)"]);
    let said = run(project.reprise(&["replay"]).env("DIVERGE", "1"));
    assert!(said.contains("1 desynchronised"), "{said}");
    assert_eq!(project.take_outcomes(), ["(77, 2436)"]);
}
