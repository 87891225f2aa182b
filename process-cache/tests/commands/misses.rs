//! Differences that cause a miss, and the names under which they are reported.

use std::path::Path;

use crate::support::{Sandbox, after_edit, check_hit, check_miss, check_still_hit};

#[test]
fn changed_content_is_a_difference() {
    check_miss("echo 1 > f", "cat f", "echo 2 > f", "content of");
}

#[test]
fn content_of_the_same_length_and_time_is_a_difference() {
    check_miss(
        "echo 1 > f; touch -d @1000000000 f",
        "cat f",
        "echo 2 > f; touch -d @1000000000 f",
        "content of",
    );
}

#[test]
fn a_file_that_has_gone_is_a_difference() {
    check_miss("echo 1 > f", "cat f; echo $?", "rm f", "content of");
}

#[test]
fn a_missing_file_that_appears_is_a_difference() {
    check_miss(
        "mkdir a b; echo 1 > b/x",
        "cat a/x 2> /dev/null || cat b/x",
        "echo 2 > a/x",
        "appeared",
    );
}

#[test]
fn a_header_that_appears_earlier_in_the_include_path_is_a_difference() {
    check_miss(
        "mkdir i j; echo 'int x;' > j/h.h; echo '#include <h.h>' > a.c",
        "cc -Ii -Ij -E -P a.c",
        "echo 'int y;' > i/h.h",
        "appeared",
    );
}

/// Compilers that read one header, which all of them look for elsewhere first.
const COMPILERS: &str = "mkdir i j; echo 'int x;' > j/h.h; \
     for n in 1 2 3; do echo '#include <h.h>' > $n.c; done";

#[test]
fn a_file_missed_by_several_units_is_a_difference_for_each() {
    let sandbox = Sandbox::new(COMPILERS);
    let command = "for n in 1 2 3; do cc -Ii -Ij -E -P $n.c -o $n.i; done";
    let again = after_edit(&sandbox, command, "echo 'int y;' > i/h.h");
    again.assert_miss("appeared");
    for n in 1..=3 {
        let unit = again.unit(&format!("cc -Ii -Ij -E -P {n}.c"));
        assert!(unit.miss.contains("appeared"), "{unit:?}");
    }
}

#[test]
fn a_later_unit_reads_the_content_changed_by_an_earlier_one() {
    let command =
        "for n in 1 2 3; do cc -Ii -Ij -E -P $n.c -o $n.i; echo \"int x$n;\" > j/h.h; done";
    check_hit(COMPILERS, command);
    let sandbox = Sandbox::new(COMPILERS);
    let first = sandbox.cached(command);
    for n in 1..=3 {
        let unit = first.unit(&format!("cc -Ii -Ij -E -P {n}.c"));
        assert_eq!(unit.result, "stored", "{unit:?}");
    }
}

#[test]
fn a_directory_that_appears_in_the_include_path_is_a_difference() {
    check_miss(
        "mkdir j; echo 'int x;' > j/h.h; echo '#include <h.h>' > a.c",
        "cc -Ii -Ij -E -P a.c",
        "mkdir i; echo 'int y;' > i/h.h",
        "i",
    );
}

#[test]
fn a_changed_mode_is_a_difference() {
    check_miss(
        "echo 'echo hi' > f",
        "test -x f && echo yes || echo no",
        "chmod +x f",
        "f",
    );
}

#[test]
fn a_changed_mode_is_a_difference_for_programs_that_copy_it() {
    for command in ["sed -i s/1/2/ f", "gzip -nk f", "xz -k f"] {
        check_miss("echo 1 > f; chmod 600 f", command, "chmod 644 f", "of ");
    }
}

#[test]
fn a_changed_link_target_is_a_difference() {
    check_miss("ln -s a l", "readlink l", "ln -sfn b l", "link");
}

#[test]
fn a_link_that_leads_to_another_file_is_a_difference() {
    check_miss(
        "echo 1 > a; echo 2 > b; ln -s a l",
        "cat l",
        "ln -sfn b l",
        "l differs",
    );
}

#[test]
fn a_directory_link_that_leads_elsewhere_is_a_difference() {
    check_miss(
        "mkdir a b; echo 1 > a/x; echo 2 > b/x; ln -s a l",
        "cat l/x",
        "ln -sfn b l",
        "l/x",
    );
}

#[test]
fn a_file_replaced_by_a_link_is_a_difference_for_lstat() {
    check_miss(
        "echo 1 > f; echo 1 > g",
        "test -L f; echo $?",
        "rm f; ln -s g f",
        "f",
    );
}

#[test]
fn a_name_added_to_a_listed_directory_is_a_difference() {
    check_miss(
        "mkdir d; touch d/a",
        "echo d/*",
        "touch d/b",
        "directory listing of",
    );
}

#[test]
fn a_name_removed_from_a_listed_directory_is_a_difference() {
    check_miss(
        "mkdir d; touch d/a d/b",
        "echo d/*",
        "rm d/a",
        "directory listing of",
    );
}

#[test]
fn a_name_added_deep_below_is_a_difference_for_recursive_listings() {
    check_miss(
        "mkdir -p d/e/f",
        "ls -R d",
        "touch d/e/f/new",
        "directory listing of",
    );
}

#[test]
fn a_name_added_to_an_unread_directory_is_no_difference() {
    check_still_hit("mkdir d e; touch d/a", "echo d/*", "touch e/b; touch x");
}

#[test]
fn a_changed_unread_file_is_no_difference() {
    check_still_hit("echo 1 > f; echo 1 > g", "cat f", "echo 2 > g");
}

#[test]
fn a_touched_file_is_no_difference_for_readers() {
    check_still_hit("echo 1 > f", "cat f", "touch f");
}

#[test]
fn a_touched_source_is_no_difference_to_a_compiler() {
    check_still_hit("echo 'int x;' > a.c", "cc -c a.c", "touch a.c");
}

#[test]
fn an_older_source_is_no_difference_to_a_compiler() {
    check_still_hit(
        "echo 'int x;' > a.c",
        "cc -c a.c",
        "touch -d @1000000000 a.c",
    );
}

#[test]
fn a_changed_size_is_a_difference_for_stat() {
    check_miss(
        "touch f",
        "test -s f && echo some || echo none",
        "echo x > f",
        "f",
    );
}

#[test]
fn a_reversed_order_of_times_is_a_difference_for_comparisons() {
    check_miss(
        "touch -d @1000 b; touch -d @2000 a",
        "test a -nt b && echo newer || echo older",
        "touch -d @1000 a; touch -d @2000 b",
        "order of modification times",
    );
}

#[test]
fn other_times_in_the_same_order_are_no_difference() {
    check_still_hit(
        "touch -d @1000 b; touch -d @2000 a",
        "test a -nt b && echo newer || echo older",
        "touch -d @3000 b; touch -d @4000 a",
    );
}

/// Whether `c` is newer than a file with an explicitly set time.
const COMPARE: &str = "[ c -nt p ] && echo newer || echo older";

#[test]
fn an_explicitly_set_time_is_compared_exactly() {
    let setup = "echo b > b; echo c > c; touch -d @3000 b; touch -d @2000 c";
    for give in [
        "cp b p; touch -r b p",
        "cp -p b p",
        "touch -d @3000 p",
        "touch -d @3000 q; mv q p",
        "sh -c 'cp -p b p'",
    ] {
        check_miss(
            setup,
            &format!("{give}; {COMPARE}"),
            "touch -d @4000 c",
            "c",
        );
        let child = format!("{give}; sh -c '{COMPARE}'; :");
        check_miss(setup, &child, "touch -d @4000 c", "c");
    }
    // Its later content makes no difference.
    let writes = format!("cp -p b p; {COMPARE}; echo other > p");
    check_miss(setup, &writes, "touch -d @4000 c", "c");
    let before = format!("{setup}; echo p > p; touch -d @1000 p");
    check_miss(
        &before,
        &format!("touch -r b p; {COMPARE}"),
        "touch -d @4000 c",
        "c",
    );
    let to_come = format!("touch -d 2100-01-01 p; {COMPARE}");
    check_miss(setup, &to_come, "touch -d 2101-01-01 c", "c");
}

#[test]
fn skipped_units_compare_explicitly_set_times() {
    let sandbox = Sandbox::new("echo c > c; touch -d @2000 c");
    let compare = format!("touch -d @3000 p; sh -c '{COMPARE}'; sh -c '{COMPARE}'");
    let first = sandbox.cached(&compare);
    assert_eq!(first.out, "older\nolder\n");
    let second = sandbox.cached(&format!("{compare}; :"));
    assert_eq!(second.out, "older\nolder\n");
    assert!(
        second.units.iter().any(|unit| unit.result == "hit"),
        "{:#?}",
        second.units
    );
    sandbox.edit("touch -d @4000 c");
    for again in [&compare, &format!("{compare}; :")] {
        assert_eq!(sandbox.cached(again).out, "newer\nnewer\n");
    }
}

#[test]
fn a_new_file_is_later_than_all_others() {
    check_still_hit(
        "echo c > c; touch -d @2000 c",
        &format!("cp c p; {COMPARE}; touch p; {COMPARE}"),
        "touch -d @4000 c",
    );
}

#[test]
fn a_future_time_is_later_than_new_files_only_for_a_while() {
    let sandbox = Sandbox::new("echo c > c");
    sandbox.edit("touch -d 2100-01-01 c");
    let script = format!("echo p > p; {COMPARE}");
    let run = sandbox.cached(&script);
    assert_eq!(run.out, "newer\n");
    run.assert_uncacheable("the time of");
    sandbox.edit("touch -d @2000 c");
    assert_eq!(sandbox.cached(&script).out, "older\n");
}

#[test]
fn a_touched_prerequisite_makes_make_run() {
    check_miss(
        "printf 'o: i\\n\\tcp i o\\n' > Makefile; echo 1 > i; echo 1 > o; touch -d @1500000100 o",
        "make",
        "touch i",
        "order of modification times",
    );
}

#[test]
fn times_count_in_dev_shm() {
    let memory = Path::new("/dev/shm");
    if tempfile::tempdir_in(memory).is_err() {
        eprintln!("skipped: nothing can be made in {}", memory.display());
        return;
    }
    let setup =
        "printf 'o: i\n\tcp i o\n' > Makefile; echo 1 > i; echo 1 > o; touch -d @1500000100 o";
    let make = after_edit(&Sandbox::below(memory, setup), "make", "touch i");
    make.assert_miss("order of modification times");
    let stat = after_edit(
        &Sandbox::below(memory, "echo 1 > i"),
        "stat -c %Y i",
        "touch -d @1500000100 i",
    );
    stat.assert_miss("i");
}

#[test]
fn an_older_prerequisite_of_other_content_is_a_difference_to_make() {
    check_miss(
        "printf 'o: i\\n\\tcp i o\\n' > Makefile; echo 1 > i",
        "make; cat o",
        "echo 2 > i; touch -d @1000000000 i",
        "i",
    );
}

#[test]
fn a_changed_executable_is_a_difference() {
    check_miss("cp /bin/true t", "./t; echo $?", "cp /bin/false t", "t");
}

#[test]
fn a_program_without_execute_permission_is_not_skipped() {
    let command = "./t; echo $?";
    check_miss("cp /bin/true t", command, "chmod -x t", "permission for");
    check_miss(
        "cp /bin/true interpreter; echo '#!./interpreter' > t; chmod +x t",
        command,
        "chmod -x interpreter",
        "permission for",
    );
}

#[test]
fn a_changed_script_is_a_difference() {
    let script = "printf '#!/bin/sh\\necho %s\\n'";
    check_miss(
        &format!("{script} 1 > s; chmod +x s"),
        "./s",
        &format!("{script} 2 > s"),
        "s",
    );
}

#[test]
fn a_missing_program_that_appears_is_a_difference() {
    // env(1) tries each directory with an execve.
    check_miss(
        "mkdir a b; printf '#!/bin/sh\\necho b\\n' > b/prog; chmod +x b/prog",
        "env PATH=a:b:$PATH prog",
        "printf '#!/bin/sh\\necho a\\n' > a/prog; chmod +x a/prog",
        "a/prog",
    );
}

#[test]
fn a_program_that_appears_earlier_in_the_path_is_a_difference() {
    let script = "printf '#!/bin/sh\\necho %s\\n'";
    check_miss(
        &format!("mkdir a b; {script} 1 > b/prog; chmod +x b/prog"),
        "PATH=a:b:$PATH; prog",
        &format!("{script} 2 > a/prog; chmod +x a/prog"),
        "a/prog",
    );
}

#[test]
fn a_changed_variable_is_a_difference() {
    let mut sandbox = Sandbox::new("");
    sandbox.variables = vec![("COLOUR".into(), "red".into())];
    sandbox.cached("echo $COLOUR");
    sandbox.variables = vec![("COLOUR".into(), "blue".into())];
    let run = sandbox.cached("echo $COLOUR");
    run.assert_miss("no earlier run");
    assert_eq!(run.out, "blue\n");
}

#[test]
fn an_ignored_variable_counts_under_strict() {
    let mut sandbox = Sandbox::new("echo 1 > f");
    sandbox.options = vec!["--strict".into()];
    sandbox.cached("cat f");
    sandbox.variables = vec![("SSH_TTY".into(), "else".into())];
    sandbox.cached("cat f").assert_miss("no earlier run");
}

#[test]
fn a_session_variable_counts_for_programs_that_print_all_variables() {
    let mut sandbox = Sandbox::new("");
    let env = |sandbox: &Sandbox| sandbox.run(sandbox.pcache().args(["--", "env"]));
    env(&sandbox);
    sandbox.variables = vec![("SSH_TTY".into(), "else".into())];
    assert!(env(&sandbox).out.contains("SSH_TTY=else"));
}

#[test]
fn another_argument_is_a_difference() {
    let sandbox = Sandbox::new("");
    sandbox.cached("echo 1");
    let run = sandbox.cached("echo 2");
    run.assert_miss("no earlier run");
    assert_eq!(run.out, "2\n");
}

#[test]
fn another_directory_is_a_difference() {
    let sandbox = Sandbox::new("mkdir d e; echo 1 > d/f; echo 2 > e/f");
    let inside = |dir: &str| {
        sandbox.run(
            sandbox
                .pcache()
                .current_dir(sandbox.path(dir))
                .args(["--", "cat", "f"]),
        )
    };
    assert_eq!(inside("d").out, "1\n");
    let run = inside("e");
    run.assert_miss("no earlier run");
    assert_eq!(run.out, "2\n");
}

#[test]
fn another_mask_for_new_files_is_a_difference() {
    let sandbox = Sandbox::new("");
    let masked = |mask: &str| {
        let script = format!("umask {mask}; exec \"$@\"");
        let pcache = sandbox.pcache();
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-c", &script, "sh"])
            .arg(pcache.get_program())
            .args(pcache.get_args());
        shell.args(["--", "sh", "-c", "rm -f f; : > f; ls -l f | cut -c 1-10"]);
        sandbox.run(sandbox.environment(&mut shell))
    };
    assert_eq!(masked("022").out, "-rw-r--r--\n");
    assert_eq!(masked("077").out, "-rw-------\n");
}

#[test]
fn changed_content_on_standard_input_is_a_difference() {
    use std::fs::File;
    let sandbox = Sandbox::new("echo 1 > f");
    let sorted = || {
        let input = File::open(sandbox.path("f")).expect("the file");
        sandbox.run(sandbox.pcache().stdin(input).args(["--", "sort"]))
    };
    sorted();
    sandbox.edit("echo 2 > f");
    let run = sorted();
    assert!(!run.is_hit());
    assert_eq!(run.out, "2\n");
}

#[test]
fn another_position_in_standard_input_is_a_difference() {
    use std::fs::File;
    use std::io::{Seek, SeekFrom};
    let sandbox = Sandbox::new("seq 5 > f");
    let from = |offset: u64| {
        let mut input = File::open(sandbox.path("f")).expect("the file");
        input.seek(SeekFrom::Start(offset)).expect("a position");
        sandbox.run(sandbox.pcache().stdin(input).args(["--", "sort", "-r"]))
    };
    assert_eq!(from(0).out, "5\n4\n3\n2\n1\n");
    assert_eq!(from(4).out, "5\n4\n3\n");
}

#[test]
fn an_edit_is_found_between_two_edits() {
    let sandbox = Sandbox::new("echo 'int f(void) { return 1; }' > a.c");
    for number in [1, 2, 3, 2, 1] {
        sandbox.edit(&format!("echo 'int f(void) {{ return {number}; }}' > a.c"));
        let run = sandbox.cached("cc -S -o - a.c");
        assert!(
            run.out.contains(&format!("${number}, %eax")),
            "{number}: {}",
            run.out
        );
    }
}

#[test]
fn a_product_changed_by_hand_is_made_again() {
    let sandbox = Sandbox::new("seq 10 > f");
    sandbox.cached("sort f > g");
    let sorted = sandbox.text("g");
    sandbox.edit("echo changed > g");
    sandbox.cached("sort f > g").assert_hit();
    assert_eq!(sandbox.text("g"), sorted);
}

#[test]
fn a_deleted_product_is_made_again() {
    let sandbox = Sandbox::new("seq 10 > f");
    sandbox.cached("sort f > g");
    let sorted = sandbox.text("g");
    sandbox.edit("rm g");
    sandbox.cached("sort f > g").assert_hit();
    assert_eq!(sandbox.text("g"), sorted);
}

#[test]
fn the_output_file_differs_from_other_inputs() {
    // First `b` is empty, then the output goes there.
    let sandbox = Sandbox::new("echo 1 > a; : > b");
    let command = "cat a b > out";
    sandbox.cached(command);
    for link in ["ln -sf b out", "ln -f b out"] {
        sandbox.edit(&format!("rm -f out; {link}"));
        let cached = sandbox.cached(command);
        assert_eq!(cached.status.code(), Some(1), "{link}");
        assert!(cached.err.contains("input file is output file"), "{link}");
        sandbox.edit(": > b");
    }
}

#[test]
fn each_link_that_something_is_written_through_counts() {
    // To a new file, and to an existing one; through another link, and through a directory.
    for (links, other) in [
        ("ln -s b a; ln -s new b", "rm -f b; echo 1 > b"),
        (
            "echo 0 > new; ln -s b a; ln -s new b",
            "rm -f b; echo 1 > b",
        ),
        ("mkdir d e; ln -s d l; ln -s l/x a", "ln -sfn e l"),
        (
            "mkdir d e; ln -s d l; ln -s ../new d/x; ln -s ../other e/x; ln -s l/x a",
            "ln -sfn e l",
        ),
        (
            "mkdir d e; ln -s d l; ln -s ../new d/a; ln -s ../other e/a; ln -s l/a a",
            "ln -sfn e l",
        ),
    ] {
        let command = "echo written > a; sleep 0.01";
        let sandbox = Sandbox::new(links);
        sandbox.cached(command);
        sandbox.reset();
        sandbox.edit(other);
        sandbox.plain(command);
        let contents = || sandbox.plain("find . -type f | sort | xargs grep .").out;
        let plain = contents();
        sandbox.reset();
        sandbox.edit(other);
        sandbox.cached(command);
        assert_eq!(contents(), plain, "{links}; {other}");
    }
    // The directory of the link itself is a link.
    let sandbox = Sandbox::new("mkdir d; ln -s d l; ln -s ../new d/a");
    let command = "echo written > l/a; sleep 0.01";
    sandbox.cached(command);
    sandbox.reset();
    sandbox.edit("rm d/a; ln -s ../other d/a");
    sandbox.cached(command);
    assert_eq!(sandbox.text("other"), "written\n");
}
