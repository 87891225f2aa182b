//! Times of restored files and links: newer than all inputs, in the order of the first run.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use crate::support::{Sandbox, check_hit};

/// Returns when the file or link was modified.
fn modified(sandbox: &Sandbox, name: &str) -> (i64, i64) {
    let found = fs::symlink_metadata(sandbox.path(name)).expect("a file");
    (found.mtime(), found.mtime_nsec())
}

/// Checks that these names have times in this order, in a first run and after a skip.
fn check_order(command: &str, names: &[&str]) {
    let sandbox = Sandbox::new("");
    for run in ["stored", "hit", "hit"] {
        sandbox.reset();
        let done = sandbox.cached(command);
        assert_eq!(done.whole().result, run, "{:#?}", done.units);
        let times: Vec<_> = names.iter().map(|name| modified(&sandbox, name)).collect();
        assert!(times.is_sorted_by(|a, b| a < b), "{run}: {times:?}");
    }
}

/// Checks that outputs are newer than an input that changes right before the command runs.
fn check_newer(setup: &str, command: &str, inputs: &[&str], change: impl Fn(&Sandbox, usize)) {
    let sandbox = Sandbox::new(setup);
    let mut hits = 0;
    for round in 0..16 {
        change(&sandbox, round % 2);
        hits += usize::from(sandbox.cached(command).is_hit());
        let made = modified(&sandbox, "out");
        for input in inputs {
            assert!(made > modified(&sandbox, input), "{command}, round {round}");
        }
    }
    assert!(hits > 10, "{command}: {hits} hits");
}

#[test]
fn links_have_their_place_among_files() {
    check_order(
        "echo 1 > a; sleep 0.02; ln -s a l; sleep 0.02; echo 2 > b; sleep 0.02; mkdir d",
        &["a", "l", "b", "d"],
    );
    check_order(
        "ln -s x k; sleep 0.02; ln -s x l; sleep 0.02; ln -s x m",
        &["k", "l", "m"],
    );
}

#[test]
fn a_directory_has_the_time_of_what_changed_it_last() {
    check_order(
        "echo 1 > a; sleep 0.02; mkdir d; touch -d @1000000000 d; echo 2 > d/b; sleep 0.02; echo 3 > c",
        &["a", "d", "c"],
    );
    check_order(
        "mkdir d; echo 1 > d/a; touch -d @1000000000 d; echo 2 > b",
        &["d", "b"],
    );
}

#[test]
fn a_link_keeps_a_time_that_is_set() {
    check_hit(
        "",
        "echo 1 > a; ln -s a l; touch -h -d @1000000000 l; echo 2 > b",
    );
}

#[test]
fn outputs_are_newer_than_a_source_that_was_just_written() {
    let write = |sandbox: &Sandbox, round: usize| {
        fs::write(sandbox.path("in"), format!("{round}\n")).expect("a source");
    };
    check_newer("", "sort in > out", &["in"], write);
    check_newer(":", "cp in out", &["in"], write);
    check_newer(":", "rm -f out; ln -s in out", &["in"], |sandbox, round| {
        write(sandbox, round);
    });
}

#[test]
fn outputs_are_newer_than_a_link_that_was_just_made() {
    check_newer("", "readlink in > out", &["in"], |sandbox, round| {
        let _ = fs::remove_file(sandbox.path("in"));
        symlink(format!("{round}"), sandbox.path("in")).expect("a link");
    });
}

#[test]
fn outputs_are_newer_than_a_directory_that_just_changed() {
    check_newer("mkdir in", "ls in > out", &["in"], |sandbox, round| {
        let path = sandbox.path("in/x");
        match round {
            0 => fs::write(path, "").expect("a file"),
            _ => fs::remove_file(path).expect("a file"),
        }
    });
}

/// The stand-in of a skipped program writes to what its parent opened.
#[test]
fn a_skipped_program_that_appends_renews_a_set_time() {
    let sandbox = Sandbox::new("echo 1 > a; echo 1 > b; echo 1 > input");
    let command = "cat input; touch -d @1000000000 a; cat b >> a";
    for edit in [":", "echo 2 > input", "echo 3 > input"] {
        sandbox.reset();
        sandbox.edit_then(edit);
        sandbox.cached(command);
        sandbox.reset();
        sandbox.edit_then(edit);
        sandbox.cached(command).assert_hit();
        assert_ne!(modified(&sandbox, "a").0, 1_000_000_000, "after {edit}");
    }
}

#[test]
fn names_that_pass_in_a_directory_that_a_skipped_program_made_are_no_interference() {
    let sandbox = Sandbox::new("echo 1 > f");
    let child = "sh -c 'mkdir d; echo 1 > d/a; echo 2 > d/b'";
    let pass = "[ -d d ] || {child}; cp f d/new; rm d/new";
    let command = pass.replace("{child}", child);
    sandbox.cached(&command);
    sandbox.edit("rm -r d; echo 2 > f");
    let second = sandbox.cached(&command);
    assert_eq!(
        second.unit("sh -c 'mkdir").result,
        "hit",
        "{:#?}",
        second.units
    );
    sandbox.edit("rm -r d");
    sandbox.cached(&command).assert_hit();
}
