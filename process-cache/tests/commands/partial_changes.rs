//! Calls that change a file in part, or only in some state of its name: what was recorded for one
//! state is not repeated in another.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use crate::support::{Sandbox, check_uncacheable, program};

/// States of the names `a` and `b`.
const STATES: &[&str] = &[
    ":",
    ": > a",
    "echo hi > a",
    "echo something longer > a",
    "echo hi > a; echo hi > b",
    "echo hi > a; ln a b",
    "echo hi > b; ln -s b a",
    "ln -s b a",
    "mkdir a",
    "echo hi > a; chmod 400 a",
    "echo hi > a; chmod 4755 a",
];

/// Checks that a command does in each state what it does plainly, whichever state came before.
fn check_states(command: &str) {
    let sandbox = Sandbox::new("");
    for state in STATES {
        sandbox.reset();
        sandbox.edit_then(state);
        let plain = sandbox.plain(command);
        for _ in 0..2 {
            sandbox.reset();
            sandbox.edit_then(state);
            let run = sandbox.cached(command);
            run.assert_like(&plain, &format!("{command} after {state}"));
        }
    }
}

/// Returns a command that makes a call of Perl and prints how it ended.
fn perl(call: &str) -> Option<String> {
    let perl = program(&["perl"])?;
    Some(format!("{perl} -e 'print {call} ? \"done\" : \"$!\"'"))
}

fn check_call(call: &str) {
    if let Some(command) = perl(call) {
        check_states(&command);
    }
}

/// truncate(2), which Perl's own function does not call.
fn truncate(length: u32) -> String {
    let number = libc::SYS_truncate;
    format!("syscall({number}, ($name = \"a\"), {length}) == 0")
}

#[test]
fn truncation_by_name_depends_on_the_file() {
    check_call(&truncate(3));
    check_call(&truncate(0));
}

#[test]
fn truncation_to_the_same_length_treats_the_time_as_the_file_system_does() {
    let empty = format!("utime(1, 1, \"a\") && {}", truncate(0));
    let open = "open(F, \"+<\", \"a\") && utime(1, 1, \"a\") && truncate(F, 0)";
    let (Some(by_name), Some(open)) = (perl(&empty), perl(open)) else {
        return;
    };
    // The usual directory, and one in memory where there is one.
    let memory = Path::new("/dev/shm");
    let places = [None, Some(memory)].into_iter();
    for place in places.filter(|place| place.is_none_or(Path::is_dir)) {
        let dir = place.map(|memory| tempfile::tempdir_in(memory).unwrap());
        for command in [&by_name, &open] {
            let sandbox = Sandbox::new(": > a");
            let dir = dir
                .as_ref()
                .map_or_else(|| sandbox.path("."), |dir| dir.path().to_owned());
            let command = format!("cd {} && : > a && {command}", dir.display());
            let modified = || {
                std::fs::metadata(dir.join("a"))
                    .unwrap()
                    .modified()
                    .unwrap()
            };
            let is_old = || modified() == UNIX_EPOCH + Duration::from_secs(1);
            sandbox.plain(&command);
            let plain = is_old();
            for _ in 0..2 {
                sandbox.cached(&command);
                assert_eq!(is_old(), plain, "{command}");
            }
        }
    }
}

#[test]
fn truncation_of_an_open_file_depends_on_the_file() {
    check_call("open(F, \"+<\", \"a\") && truncate(F, 3)");
    check_call("open(F, \">>\", \"a\") && truncate(F, 5)");
}

#[test]
fn a_write_into_the_middle_depends_on_the_file() {
    check_call("open(F, \"+<\", \"a\") && seek(F, 1, 0) && print(F \"x\") && close(F)");
}

#[test]
fn appending_depends_on_the_name() {
    check_states("echo more >> a");
    check_call("open(F, \">>\", \"a\") && print(F \"x\") && close(F)");
}

#[test]
fn a_file_that_is_read_between_appending_and_replacing_depends_on_the_name() {
    check_states(": >> a; cat a; echo x > a");
    check_states("echo more >> a; wc -c a; rm a");
    check_states("echo more >> a; truncate -s 3 a");
    check_call("open(F, \">>\", \"a\") && syswrite(F, \"more\") && truncate(F, 3)");
}

#[test]
fn a_slash_behind_a_name_demands_a_directory() {
    check_call("rename(\"a/\", \"c\")");
    check_call("rename(\"a\", \"b/\")");
    check_call("!syscall(84, my $rmdir = \"a/\")");
    check_call("!syscall(87, my $unlink = \"a/\")");
    check_call("!syscall(83, my $mkdir = \"a/\", 0755)");
    check_call("link(\"a/\", \"c\")");
    check_call("readlink(\"a/\")");
    check_call("!syscall(21, my $access = \"a/\", 0)");
    check_call("!syscall(137, my $statfs = \"a/\", my $room = \" \" x 200)");
    check_call("syscall(191, my $getxattr = \"a/\", my $name = \"user.a\", 0, 0) >= 0");
}

#[test]
fn a_file_that_is_only_opened_for_writing_must_be_writable() {
    check_call("open(F, \"+<\", \"a\") && close(F)");
}

#[test]
fn a_rename_depends_on_both_names() {
    check_call("rename(\"a\", \"b\")");
    check_states("mv a b");
    check_states("echo x > a && mv a b");
}

#[test]
fn changes_of_metadata_depend_on_the_name() {
    check_states("chmod 640 a");
    check_states("touch -c a");
    check_states("touch -ca a");
    check_call("chown(-1, -1, \"a\")");
}

#[test]
fn two_files_that_become_one_are_changed_as_one() {
    check_states("chmod 640 a; chmod 600 b");
    check_states("touch -c a; touch -c -d @1000000000 b");
    check_states("echo x >> a; echo y >> b");
    check_states("printf x 1<> a; printf yy 1<> b");
}

#[test]
fn a_rename_of_two_names_of_one_file_is_not_stored() {
    if let Some(command) = perl("rename(\"a\", \"b\")") {
        check_uncacheable(
            "echo hi > a; ln a b",
            &command,
            "another name of the same file",
        );
    }
}

#[test]
fn a_file_that_is_changed_under_two_names_is_not_stored() {
    check_uncacheable(
        "echo hi > a; ln a b",
        "chmod 600 a; chmod 640 b",
        "under another name",
    );
    check_uncacheable("echo hi > a", "ln a b; chmod 600 b", "gave another name");
}

#[test]
fn metadata_that_changes_before_the_name_is_replaced_depends_on_other_names() {
    for change in ["chmod(0600, \"a\")", "utime(1, 1000000000, \"a\")"] {
        check_call(&format!("{change} && rename(\"b\", \"a\")"));
        check_call(&format!("{change} && unlink(\"a\")"));
        check_call(&format!("{change} && rename(\"a\", \"c\")"));
    }
}

#[test]
fn a_set_time_stays_where_a_file_is_opened_and_not_written() {
    let early = "touch -c -h -d @1000000000 a";
    check_states(&format!("{early}; : >> a"));
    check_states(&format!("{early}; : 1<> a"));
    check_states(&format!("{early}; sh -c 'exec 3>> a'"));
    // The child is skipped, and its parent is not.
    let sandbox = Sandbox::new("echo 1 > a; echo 1 > input");
    let command = format!("cat input; {early}; sh -c 'exec 3>> a'");
    for edit in [":", "echo 2 > input", "echo 2 > input; touch a"] {
        sandbox.reset();
        sandbox.edit_then(edit);
        let plain = sandbox.plain(&command);
        sandbox.reset();
        sandbox.edit_then(edit);
        sandbox.cached(&command).assert_like(&plain, edit);
    }
}

#[test]
fn a_name_made_through_another_one_depends_on_the_first() {
    check_states("ln a c; ln c d; rm c");
    check_states("ln a c; echo new > d; mv d a");
    check_call("link(\"a\", \"c\") && open(F, \">\", \"c\") && print(F \"x\") && close(F)");
    check_call("link(\"a\", \"c\") && open(F, \"<\", \"c\") && print(<F>)");
    check_call("mkdir(\"a/x\") && rename(\"a/x\", \"c\")");
}

#[test]
fn names_of_a_new_file_stay_together() {
    check_states("echo new > c; ln c d; ln c e; rm c");
    check_states("echo new > c; ln c d; ln d e; rm c");
}

/// Changes of the file `a`, each of another part of its state.
const CHANGES: &[&str] = &[
    "chmod 600 a",
    "echo more >> a",
    "truncate -s +3 a",
    "printf Z | dd of=a bs=1 seek=2 conv=notrunc status=none",
    "touch -d \"2001-02-03 04:05:06\" a",
    "mv a c; mv c a",
    "rm -f a; echo new > a",
];

#[test]
fn two_changes_of_one_file_are_both_repeated() {
    let sandbox = Sandbox::new("echo hi > a");
    for (first, second) in CHANGES
        .iter()
        .flat_map(|first| CHANGES.iter().map(move |second| (first, second)))
    {
        let command = format!("{first}; {second}");
        let plain = sandbox.plain(&command);
        for _ in 0..2 {
            sandbox.reset();
            let run = sandbox.cached(&command);
            run.assert_like(&plain, &command);
        }
        sandbox.reset();
    }
}
