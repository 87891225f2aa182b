//! A unit's result is never stored with what another process made of the files that the unit wrote.
//!
//! The unit opens a gate between its writes, and the change is made while it waits there, as in
//! `races`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::races::{compare, run_beside, sandbox};
use crate::support::program;

/// Writes, reads and appends by name.
const BY_NAME: &str = "echo a > o; read x < gate0; cat o > out; echo b >> o; read x < gate1";
/// Keeps the file open.
const HELD: &str = "{ echo a; read x < gate0; echo b; read x < gate1; } > o";
/// Children write.
const CHILDREN: &str = "sh -c 'echo a > o'; read x < gate0; sh -c 'cat o > out; echo b >> o'; \
                        read x < gate1; sort o > sorted";
/// Writes through another name, which replaces the file.
const RENAMED: &str = "echo a > t; mv t o; read x < gate0; cat o > out; read x < gate1";

/// Ways to change the output.
const CHANGES: &[&str] = &[
    "echo x > o",
    "echo longer > o",
    "echo x >> o",
    "echo x > fresh; mv fresh o",
    "rm o",
    "mv o away",
    "rm o; echo a > o",
    "chmod 600 o",
    "truncate -s 0 o",
    "printf x | dd of=o conv=notrunc status=none",
];

/// Writes in process, with no stop before a gate.
const SOURCE: &str = r#"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void gate(const char *name) { close(open(name, O_RDONLY)); }

int main(int count, char **args)
{
    const char *how = args[1];
    char bytes[64] = "";
    int warm = 0;
    while (warm++ < 64)
        access("none", F_OK);
    int fd = open("o", O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (!strcmp(how, "mapped")) {
        if (ftruncate(fd, 4) < 0)
            return 1;
        memcpy(mmap(0, 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), "a\nb\n", 4);
        close(fd);
        gate("gate0");
        gate("gate1");
        return 0;
    }
    if (write(fd, "a\n", 2) < 0)
        return 1;
    if (!strcmp(how, "closed"))
        close(fd);
    gate("gate0");
    if (!strcmp(how, "closed")) {
        fd = open("o", O_RDONLY);
        long got = read(fd, bytes, sizeof bytes);
        int out = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0644);
        if (got > 0 && write(out, bytes, got) < 0)
            return 1;
    } else if (write(fd, "b\n", 2) < 0)
        return 1;
    gate("gate1");
    return count - 2;
}
"#;

/// The compiled program, under the name of a program that is known not to look at times.
struct Program(TempDir);

impl Program {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::write(dir.path().join("unit.c"), SOURCE).expect("a file");
        fs::create_dir(dir.path().join("bin")).expect("a directory");
        let compiled = Command::new("cc")
            .args(["-O1", "-o", "bin/cat", "unit.c"])
            .current_dir(dir.path())
            .status();
        assert!(compiled.is_ok_and(|status| status.success()), "cc");
        Self(dir)
    }

    fn does(&self, how: &str) -> String {
        let path: PathBuf = self.0.path().join("bin/cat");
        format!("'{}' {how}", path.display())
    }
}

/// Checks that after a run with this change at a gate, an undisturbed run does what the plain
/// command does.
fn check(interception: &str, unit: &str, gate: usize, change: &str) -> bool {
    let Some(python) = program(&["python3"]) else {
        return false;
    };
    let sandbox = sandbox(interception);
    let gate = format!("gate{gate}");
    let steps = [
        &format!("await {gate}"),
        &format!("run {change}"),
        &format!("open {gate}"),
    ];
    if !run_beside(&python, &sandbox, &gate, &steps.map(String::as_str), unit) {
        return false;
    }
    let what = format!("{unit:?}, {interception}, after {change:?} at {gate}");
    compare(&sandbox, unit, "", &what);
    true
}

fn check_everywhere(unit: &str, changes: &[&str]) {
    for interception in ["auto", "stops"] {
        for change in changes {
            for gate in 0..2 {
                if !check(interception, unit, gate, change) {
                    return;
                }
            }
        }
    }
}

#[test]
fn an_output_that_is_changed_by_name_is_not_published() {
    check_everywhere(BY_NAME, CHANGES);
}

#[test]
fn an_output_that_is_changed_while_it_is_open_is_not_published() {
    check_everywhere(HELD, CHANGES);
}

#[test]
fn an_output_of_a_child_that_is_changed_is_not_published() {
    check_everywhere(CHILDREN, CHANGES);
}

#[test]
fn an_output_that_was_moved_into_place_is_not_published() {
    check_everywhere(RENAMED, CHANGES);
}

#[test]
fn an_output_written_without_stops_is_not_published() {
    let program = Program::new();
    check_everywhere(&program.does("closed"), CHANGES);
    check_everywhere(&program.does("held"), CHANGES);
}

/// A file that was written through mapped memory is compared by identity until its unit ends.
#[test]
fn a_mapped_output_that_is_changed_is_not_published() {
    let program = Program::new();
    check_everywhere(
        &program.does("mapped"),
        &[
            "rm o",
            "mv o away",
            "echo x > fresh; mv fresh o",
            "chmod 600 o",
            "echo longer > o",
        ],
    );
}

#[test]
fn directories_and_links_that_are_changed_are_not_published() {
    let unit = "mkdir d; echo a > d/f; ln -s f d/l; read x < gate0; ls d > out; cat d/l >> out; \
                read x < gate1";
    let changes = [
        "rm d/f",
        "mv d e",
        "chmod 700 d",
        "ln -sfn g d/l",
        "rm -r d",
        "rm d/l; echo a > d/l",
        "echo x > d/g",
        "mv d e; mkdir d; mv e/f e/l d; rmdir e",
    ];
    check_everywhere(unit, &changes);
}

#[test]
fn attributes_that_others_set_are_not_published() {
    let Some(perl) = program(&["perl"]) else {
        return;
    };
    let unit = "echo a > o; ln o p; mkdir d; read x < gate0; cat o > out; read x < gate1";
    let set = |path: &str| {
        let call = "my ($path, $name) = @ARGV; syscall(188, $path, $name, $name, 4, 0)";
        format!("{perl} -e '{call}' {path} user.other")
    };
    let changes = [set("o"), set("p"), set("d")];
    check_everywhere(unit, &changes.each_ref().map(String::as_str));
    let linked = "echo a > o; read x < gate0; ln o p; read x < gate1";
    check_everywhere(linked, &[&set("o")]);
}

#[test]
fn a_removed_file_that_comes_back_is_not_published() {
    let unit = "rm input; read x < gate0; [ -e input ] && echo there > out; read x < gate1; :";
    check_everywhere(unit, &["echo x > input", "mkdir input"]);
}

/// Another pcache in the same directory is an outsider.
#[test]
fn two_runs_that_write_the_same_file_are_not_published() {
    let other = format!("'{}' -q -- sh -c 'echo other > o'", crate::support::PCACHE);
    check_everywhere(BY_NAME, &[&other]);
    check_everywhere(HELD, &[&other]);
}

/// Readers and hard links leave the content as it is.
#[test]
fn readers_and_links_of_outputs_are_no_interference() {
    let Some(python) = program(&["python3"]) else {
        return;
    };
    let reads = ["cat o > /dev/null", "ls -l . > /dev/null", "exec 3< o"];
    let all = [BY_NAME, HELD, CHILDREN, RENAMED];
    let readers = all.iter().flat_map(|unit| reads.map(|read| (*unit, read)));
    // A file with several names is not written in place.
    let links = [(RENAMED, "ln o other"), (HELD, "ln o other")];
    for (unit, change) in readers.chain(links) {
        for interception in ["auto", "stops"] {
            let sandbox = sandbox(interception);
            let steps = ["await gate0", &format!("run {change}"), "open gate0"];
            if !run_beside(&python, &sandbox, "gate0", &steps, unit) {
                return;
            }
            let units = sandbox.last();
            let what = format!("{unit:?}, {interception}, {change:?}: {units:#?}");
            assert_eq!(units[0].result, "stored", "{what}");
        }
    }
}
