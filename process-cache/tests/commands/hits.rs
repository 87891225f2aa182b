//! Hits, which programs cannot tell from runs.

use std::fs::File;
use std::process::Stdio;

use crate::support::{Sandbox, check_hit, check_hit_in, ending, program};

#[test]
fn an_unchanged_command_is_skipped() {
    check_hit("echo text > f", "cat f; echo done");
}

#[test]
fn a_leaf_is_skipped_inside_a_tree_that_runs() {
    let sandbox = Sandbox::new("echo 1 > a; echo 2 > b");
    sandbox.cached("sort a; sort b");
    sandbox.reset();
    sandbox.edit("echo 3 > b");
    let run = sandbox.cached("sort a; sort b");
    assert_eq!(run.out, "1\n3\n");
    assert_eq!(run.whole().result, "stored");
    assert_eq!(run.unit("sort a").result, "hit");
    assert_eq!(run.unit("sort b").result, "stored");
}

/// A skipped tree saves the time of its last full run, not the time of a run in which most of it
/// was skipped.
#[test]
fn the_time_saved_by_a_hit_is_that_of_its_last_full_run() {
    let sandbox =
        Sandbox::new(r"printf '#!/bin/sh\nsleep 0.5\n' > slow; chmod +x slow; echo 1 > a");
    for change in ["", "echo 2 > a", ""] {
        sandbox.edit(change);
        sandbox.cached("./slow; sort a");
    }
    let report = std::fs::read(sandbox.report()).expect("a report");
    let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
    let whole = &report["units"][0];
    assert_eq!(whole["result"], "hit", "{report:#}");
    let recorded_us = whole["recorded_us"].as_u64().expect("a time");
    assert!(recorded_us >= 500_000, "{report:#}");
}

#[test]
fn a_subtree_is_skipped_as_one_inside_a_tree_that_runs() {
    let command = "sh -c 'sort a; sort a | tr 1 2; :'; sort b";
    let sandbox = Sandbox::new("echo 1 > a; echo 2 > b");
    sandbox.cached(command);
    sandbox.reset();
    sandbox.edit("echo 3 > b");
    let run = sandbox.cached(command);
    assert_eq!(run.out, "1\n2\n3\n");
    assert_eq!(run.unit("sh -c 'sort a").result, "hit");
    assert_eq!(
        run.units.len(),
        3,
        "nothing below it is started: {:#?}",
        run.units
    );
}

#[test]
fn a_result_stored_by_another_command_hits() {
    let sandbox = Sandbox::new("seq 100 > f");
    sandbox.cached("sort f > g");
    let run = sandbox.cached("echo first; sort f > g");
    assert_eq!(run.unit("sort").result, "hit");
}

#[test]
fn an_exit_status_is_replayed() {
    check_hit("", "exit 7");
}

#[test]
fn a_fatal_signal_is_replayed() {
    let sandbox = Sandbox::new("");
    sandbox.cached("kill -TERM $$");
    let run = sandbox.cached("kill -TERM $$");
    run.assert_hit();
    assert_eq!(ending(run.status), (None, Some(libc::SIGTERM)));
}

#[test]
fn a_replayed_crash_dumps_no_core() {
    use std::os::unix::process::ExitStatusExt;
    let sandbox = Sandbox::new("");
    sandbox.cached("kill -SEGV $$");
    let run = sandbox.cached("kill -SEGV $$");
    run.assert_hit();
    assert_eq!(ending(run.status), (None, Some(libc::SIGSEGV)));
    assert!(!run.status.core_dumped());
}

#[test]
fn a_parent_sees_the_fatal_signal_of_a_skipped_child() {
    let command = "sh -c 'kill -KILL $$'; echo $?; cat f";
    let sandbox = Sandbox::new("echo 1 > f");
    sandbox.cached(command);
    sandbox.edit("echo 2 > f");
    let run = sandbox.cached(command);
    assert_eq!(run.unit("sh -c 'kill").result, "hit");
    assert_eq!(run.out, "137\n2\n");
}

#[test]
fn a_command_that_fails_to_start_another_is_skipped() {
    check_hit("", "no-such-program-anywhere");
}

#[test]
fn a_script_is_skipped() {
    check_hit(
        "printf '#!/bin/sh\\necho $0 $1\\n' > s; chmod +x s",
        "./s one",
    );
}

#[test]
fn a_pipeline_is_skipped_as_a_whole() {
    check_hit("seq 1000 > f", "sort < f | uniq | head -2");
}

#[test]
fn an_early_end_of_a_pipeline_is_skipped_as_a_whole() {
    check_hit("", "yes | head -3");
}

#[test]
fn a_command_with_a_file_on_standard_input_is_skipped() {
    check_hit("seq 100 > f", "sort -r < f");
}

#[test]
fn a_here_document_is_skipped() {
    check_hit("", "cat <<END\none\ntwo\nEND\n");
}

#[test]
fn a_skipped_child_advances_the_position_of_a_shared_file() {
    let command = "(head -c 5 > /dev/null; tail -n +2 | head -n 1; cat other)< f";
    let sandbox = Sandbox::new("seq 1000 > f; echo 1 > other");
    sandbox.cached(command);
    sandbox.edit("echo 2 > other");
    let second = sandbox.cached(command);
    assert_eq!(second.unit("head -c").result, "hit");
    assert_eq!(second.out, "4\n2\n");
}

#[test]
fn the_next_command_reads_at_the_position_of_a_skipped_one() {
    let sandbox = Sandbox::new("seq 1000 > f");
    let rest = |sandbox: &Sandbox, cached: bool| {
        let shared = File::open(sandbox.path("f")).expect("the file");
        let again = || Stdio::from(shared.try_clone().expect("a descriptor"));
        let mut head = if cached {
            let mut head = sandbox.pcache();
            head.args(["--", "head", "-c", "10"]);
            head
        } else {
            let mut head = std::process::Command::new("head");
            sandbox.environment(head.args(["-c", "10"]));
            head
        };
        let run = sandbox.run(head.stdin(again()));
        let mut cat = std::process::Command::new("head");
        sandbox.environment(cat.args(["-c", "10"]));
        (run.out, sandbox.run(cat.stdin(again())).out)
    };
    let plain = rest(&sandbox, false);
    assert_eq!(rest(&sandbox, true), plain);
    assert_eq!(rest(&sandbox, true), plain);
}

#[test]
fn a_parent_that_reads_its_childs_output_is_skipped() {
    check_hit("echo text > f", "x=$(cat f; echo aside >&2); echo \"<$x>\"");
}

#[test]
fn a_parent_reads_the_output_of_a_skipped_child() {
    let command = "x=$(cat a); y=$(cat b); echo \"$x $y\"";
    let sandbox = Sandbox::new("echo 1 > a; echo 2 > b");
    sandbox.cached(command);
    sandbox.edit("echo 3 > b");
    let run = sandbox.cached(command);
    assert_eq!(run.unit("cat a").result, "hit");
    assert_eq!(run.out, "1 3\n");
}

#[test]
fn the_shell_function_of_make_is_skipped() {
    check_hit(
        "printf 'X := $(shell cat f)\\nall:\\n\\t@echo $(X) > o\\n' > Makefile; echo 7 > f",
        "make",
    );
}

#[test]
fn children_of_vfork_are_skipped() {
    // make starts its children by vfork or posix_spawn.
    let sandbox = Sandbox::new(
        "printf 'all:\\n\\t@sort a\\n\\t@sort b\\n' > Makefile; echo 1 > a; echo 2 > b",
    );
    sandbox.cached("make");
    sandbox.edit("echo 3 > b");
    let run = sandbox.cached("make");
    assert_eq!(run.unit("sort a").result, "hit");
    assert_eq!(run.out, "1\n3\n");
}

#[test]
fn a_changed_order_of_commands_hits_each_of_them() {
    let sandbox = Sandbox::new("echo 1 > a; echo 2 > b");
    sandbox.cached("sort a; sort b; :");
    let run = sandbox.cached("sort b; sort a; :");
    assert_eq!(run.unit("sort a").result, "hit");
    assert_eq!(run.unit("sort b").result, "hit");
    assert_eq!(run.out, "2\n1\n");
}

#[test]
fn a_compilation_is_skipped() {
    check_hit(
        "echo '#include \"h.h\"\nint main(void) { return H; }' > a.c; echo '#define H 1' > h.h",
        "cc -c a.c -o a.o",
    );
}

#[test]
fn the_diagnostics_of_a_compiler_are_replayed() {
    check_hit("echo 'int main(void) { return }' > a.c", "cc -c a.c -o a.o");
}

#[test]
fn a_variable_of_the_session_makes_no_difference() {
    let mut sandbox = Sandbox::new("echo 1 > f");
    sandbox.cached("cat f");
    for name in ["_", "SSH_TTY", "SSH_CONNECTION", "OLDPWD", "TMUX"] {
        sandbox.variables = vec![(name.to_owned(), "else".to_owned())];
        sandbox.cached("cat f").assert_hit();
    }
}

#[test]
fn the_result_of_one_state_is_found_again_after_another() {
    let sandbox = Sandbox::new("echo 1 > f");
    sandbox.cached("sort f");
    sandbox.edit("echo 2 > f");
    sandbox.cached("sort f").assert_miss("content");
    sandbox.edit("echo 1 > f");
    let run = sandbox.cached("sort f");
    run.assert_hit();
    assert_eq!(run.out, "1\n");
}

#[test]
fn a_fresh_checkout_with_other_times_is_a_hit() {
    let sandbox = Sandbox::new("seq 10 > f");
    sandbox.cached("sort -r f > g; wc -l < g");
    sandbox.reset();
    sandbox.edit("touch f");
    sandbox.cached("sort -r f > g; wc -l < g").assert_hit();
}

#[test]
fn a_data_tool_in_a_directory_of_many_files_is_skipped() {
    let sandbox = Sandbox::new("mkdir d; for i in $(seq 30); do seq $i > d/$i; done");
    check_hit_in(
        &sandbox,
        "for f in d/*; do gzip -n < $f > $f.gz; done; cat d/*.gz | cksum",
    );
}

#[test]
fn threads_that_write_files_are_skipped() {
    if program(&["xz"]).is_some() {
        check_hit("seq 100000 > f", "xz -T2 -k f");
    }
}

/// A slash at the end of a name, and a name that must be a directory, ask for its kind.
#[test]
fn lookups_of_directories_that_are_files_are_skipped() {
    check_hit("touch file", "test -e file/ || echo no");
    check_hit("touch file", "test -r file/ || echo no");
    check_hit("mkdir d; touch d/x.c file", "echo */*.c");
    check_hit("mkdir d; ln -s d l", "readlink l/ || readlink . || echo no");
    if let Some(perl) = program(&["perl"]) {
        let looks = "-e \"file/\"; opendir(D, \"file\"); readlink(\".\"); print \"$!\"";
        check_hit("touch file", &format!("{perl} -e '{looks}'"));
        // Calls that are made without a stop.
        let many = format!("for (1 .. 64) {{ -e \"none\" }} {looks}");
        check_hit("touch file", &format!("{perl} -e '{many}'"));
    }
}

#[test]
fn removing_a_file_after_a_change_of_its_permissions_is_skipped() {
    check_hit("echo 1 > a", "chmod 600 a; rm a");
}

#[test]
fn the_entries_of_a_directory_do_not_count_for_mkdir() {
    let sandbox = Sandbox::new("mkdir d");
    let command = "mkdir -p d; mkdir d; ln -s x d/l; ln -s x d/l; echo done";
    sandbox.cached(command);
    sandbox.reset();
    sandbox.edit("echo > d/new");
    let run = sandbox.cached(command);
    assert!(run.is_hit(), "{:#?}", run.units);
}

#[test]
fn paths_follow_the_changes_of_skipped_programs() {
    for step in [
        "ln -sfn b l",
        "rm l; ln -s b l",
        "rm l; mkdir l; cp b/x l/x",
        "ln -f b/x a/x",
        "mv b/x a/x",
        "rm a/x; cp b/x a/x",
        "cp b/x a/x",
        "rm -r a; mkdir a; ln b/x a/x",
        "rm -r a; cp -r b a",
        "mkdir a/c; rm l; ln -s a/c l; mv b/x a/c/x",
    ] {
        let sandbox = Sandbox::new(
            "mkdir a b; echo 1 > a/x; echo 2 > b/x; echo y > a/y; ln -s a l; echo 0 > more; : > new",
        );
        let command = format!("cat l/y; echo 9 > a/x; {step}; cat l/x l/z; cat more");
        sandbox.cached(&command);
        let edited = |edit: &str| {
            let edit = format!("echo 1 > more; {edit}; touch -hd @1000000000 a a/* b b/* more new");
            sandbox.reset();
            sandbox.edit(&edit);
            let run = sandbox.cached(&command);
            sandbox.reset();
            sandbox.edit(&edit);
            run.assert_like(&sandbox.plain(&command), &format!("{step}, {edit}"));
            run
        };
        // The whole command runs, and its parts are skipped.
        let run = edited(":");
        let skipped = run.units.iter().filter(|unit| unit.result == "hit");
        assert!(!run.is_hit() && skipped.count() >= 2, "{:#?}", run.units);
        edited(":");
        // The command inherits the facts of its parts.
        for edit in ["echo 3 > b/x", "echo 3 > a/x", "cp new b/z", "cp new a/z"] {
            edited(edit);
        }
    }
}
