//! A unit's result is never stored under inputs that another process changed while the unit ran.
//!
//! The unit opens a gate, a regular file, between its reads. Another process holds a lease on the
//! gate (fcntl(2), `F_SETLEASE`) and is notified of the open, and the unit waits until the lease
//! is released. So the change is made at a known position of the unit, and nothing depends on
//! time. The unit uses only regular files, for which its result is stored if nothing changes.
//!
//! The reads of a shell stop. The program in C makes only unstopped calls until it opens its
//! output, so that the tracer examines its input after the change.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::support::{Sandbox, check_hit, program};

const SETUP: &str = "printf 'old 1\\nold 2\\n' > input; ln -s input link; mkdir full; \
                     touch full/1 full/2 full/3 full/4 full/5 full/6 full/7 full/8; \
                     touch gate0 gate1 gate2 gate3 start wrote begin";

/// Reads a part, another part through the same open file, then the file again, and writes.
const SHELL: &str = "read x < gate0; exec 4< input; read a <&4; read x < gate1; read b <&4; \
                     read c < input; [ -e other ] && d=other; read x < gate2; \
                     echo $a $b $c $d > out; read x < gate3";

/// Reads in the same way, or in other ways, or writes at a gate.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char out[4096];
static int length;

static void gate(const char *name) { close(open(name, O_RDONLY)); }
static void add(const char *bytes, int count)
{
    if (count > 0 && count + length < (int)sizeof out) {
        memcpy(out + length, bytes, count);
        length += count;
    }
}
static void some(int fd, int count)
{
    char bytes[64];
    add(bytes, read(fd, bytes, count));
}
static void metadata(const char *path)
{
    struct stat found;
    int there = stat(path, &found);
    length += sprintf(out + length, "%d %ld %d\n", there, there ? 0 : (long)found.st_size,
                      access("other", F_OK));
}
static void target(void)
{
    char bytes[64];
    add(bytes, readlink("link", bytes, sizeof bytes));
}
static void names(int fd, int all)
{
    char bytes[96];
    long count;
    while ((count = syscall(SYS_getdents64, fd, bytes, sizeof bytes)) > 0) {
        for (long at = 0; at < count; at += ((struct dirent64 *)(bytes + at))->d_reclen)
            for (const char *c = ((struct dirent64 *)(bytes + at))->d_name; *c; c++)
                out[0] += *c, length = 1;
        if (!all)
            return;
    }
}

int main(int count, char **args)
{
    const char *how = args[1];
    if (count > 2) {
        int fd = strcmp(how, "inherited") ? open("input", O_RDWR) : 7;
        int later = !strcmp(how, "later"), early = !strcmp(how, "early");
        char *mapped = 0;
        if (later || early || !strcmp(how, "mapped"))
            mapped = mmap(0, 4096, later ? PROT_READ : 3, MAP_SHARED, fd, 0);
        if (later)
            mprotect(mapped, 4096, 3);
        if (later || early)
            close(fd), memcpy(mapped, "old 1\nold 2\n", 12);
        static char bytes[8192] = "new 1\nnew 2\n";
        gate("start");
        if (mapped)
            memcpy(mapped, bytes, 12);
        else if (write(fd, bytes, strcmp(how, "long") ? 12 : sizeof bytes) < 0)
            return 1;
        gate("wrote");
        return 0;
    }
    gate("gate0");
    int fd = open(strcmp(how, "list") ? "input" : "full", O_RDONLY);
    char *mapped = strcmp(how, "map") ? 0 : mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    switch (how[0]) {
    case 'r': some(fd, 6); break;
    case 'o': some(fd, 60); break;
    case 'm': if (mapped != MAP_FAILED) add(mapped, 6); break;
    case 's': metadata("input"); break;
    case 't': target(); break;
    case 'l': names(fd, 0);
    }
    gate("gate1");
    switch (how[0]) {
    case 'r': some(fd, 60); some(open("input", O_RDONLY), 60); break;
    case 'm': if (mapped != MAP_FAILED) add(mapped + 6, 6); break;
    case 's': metadata("link"); break;
    case 't': target(); break;
    case 'l': names(fd, 1);
    }
    gate("gate2");
    if (write(open("out", O_WRONLY | O_CREAT | O_TRUNC, 0644), out, length) != length)
        return 1;
    if (strstr(how, "rewrite") && write(open("input", O_WRONLY | O_TRUNC), "mine\n", 5) < 0)
        return 1;
    gate("gate3");
    return 0;
}
"#;

/// Takes leases on gates, and then performs steps: waits for an open of a gate, opens one, or runs
/// a command.
const OUTSIDER: &str = r#"
import fcntl, os, signal, subprocess, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGIO})
gates = {}
try:
    for name in sys.argv[1].split():
        gates[name] = os.open(name, os.O_RDWR)
        fcntl.fcntl(gates[name], fcntl.F_SETLEASE, fcntl.F_WRLCK)
except OSError as error:
    print("no lease:", error, flush=True)
    sys.exit()
print("ready", flush=True)
for step in sys.argv[2:]:
    what, _, rest = step.partition(" ")
    if what == "await":
        while fcntl.fcntl(gates[rest], fcntl.F_GETLEASE) == fcntl.F_WRLCK:
            signal.sigwait({signal.SIGIO})
    elif what == "open":
        fcntl.fcntl(gates[rest], fcntl.F_SETLEASE, fcntl.F_UNLCK)
    else:
        subprocess.run(["sh", "-c", rest], check=True)
"#;

/// Ways to change the input.
const CHANGES: &[&str] = &[
    "printf 'new 1\\nnew 2\\n' > input",
    "printf 'new 1\\nnew 2\\n' > fresh; mv fresh input",
    "printf 'new 3\\n' >> input",
    "printf 'new\\n' > input",
    "rm input",
    // Size and time stay the same.
    "touch -r input stamp; printf 'new 1\\nnew 2\\n' > input; touch -r stamp input; rm stamp",
    "echo > other",
    // The final state is the same, but the content that was read differs.
    "cp -p input saved; printf 'new 1\\nnew 2\\n' > input; rm input; mv saved input",
];

/// The compiled program. It has the name of a program known not to look at times and inode
/// numbers, which differ in every new sandbox.
struct Program {
    dir: TempDir,
}

impl Program {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::write(dir.path().join("unit.c"), SOURCE).expect("a file");
        // In other directories, the name of a program is not trusted.
        fs::create_dir(dir.path().join("bin")).expect("a directory");
        let compiled = Command::new("cc")
            .args(["-O1", "-o", "bin/cat", "unit.c"])
            .current_dir(dir.path())
            .status();
        assert!(compiled.is_ok_and(|status| status.success()), "cc");
        Self { dir }
    }

    /// Returns the command for this kind of access.
    fn does(&self, how: &str) -> String {
        let path: PathBuf = self.dir.path().join("bin/cat");
        format!("'{}' {how}", path.display())
    }
}

/// Creates a sandbox with one of the two kinds of interception.
pub(crate) fn sandbox(interception: &str) -> Sandbox {
    let mut sandbox = Sandbox::new(SETUP);
    sandbox.options = vec![format!("--interception={interception}")];
    sandbox
}

/// Starts a process that waits at gates; `None` if leases are not available.
fn outsider(python: &str, sandbox: &Sandbox, gates: &str, steps: &[&str]) -> Option<Child> {
    let mut command = Command::new(python);
    command.args(["-c", OUTSIDER, gates]).args(steps);
    let mut child = sandbox
        .environment(&mut command)
        .stdout(Stdio::piped())
        .spawn()
        .expect("python starts");
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    out.read_line(&mut line).expect("a line");
    if line != "ready\n" {
        eprintln!("skipped: {line}");
        child.wait().expect("it ends");
        return None;
    }
    Some(child)
}

/// Checks, with the original input and after an edit, that a command behaves under pcache as it
/// does without.
pub(crate) fn compare(sandbox: &Sandbox, command: &str, edit: &str, what: &str) {
    for edit in ["", edit] {
        sandbox.reset();
        sandbox.edit_then(edit);
        let plain = sandbox.plain(command);
        sandbox.reset();
        sandbox.edit_then(edit);
        let run = sandbox.cached(command);
        run.assert_like(&plain, &format!("{what}, with {edit:?}"));
    }
}

/// Runs a command while another process performs steps at gates; returns whether that was
/// possible.
pub(crate) fn run_beside(
    python: &str,
    sandbox: &Sandbox,
    gates: &str,
    steps: &[&str],
    run: &str,
) -> bool {
    let Some(mut child) = outsider(python, sandbox, gates, steps) else {
        return false;
    };
    sandbox.cached(run);
    let status = child.wait().expect("it ends");
    assert!(status.success(), "{run:?}, {steps:?}: {status:?}");
    true
}

/// Runs the unit while the change is made at one gate. Afterwards it must behave as without
/// pcache, with the original and with the changed input.
fn check(python: &str, interception: &str, unit: &str, gate: usize, change: &str) -> bool {
    let sandbox = sandbox(interception);
    let gate = format!("gate{gate}");
    let steps = [
        &format!("await {gate}"),
        &format!("run {change}"),
        &format!("open {gate}"),
    ];
    if !run_beside(python, &sandbox, &gate, &steps.map(String::as_str), unit) {
        return false;
    }
    let what = format!("{unit:?}, {interception}, after {change:?} at {gate}");
    compare(&sandbox, unit, change, &what);
    true
}

/// Checks a unit with each of these changes at each gate.
fn check_everywhere(interception: &str, unit: &str, changes: &[&str]) {
    let Some(python) = program(&["python3"]) else {
        return;
    };
    for change in changes {
        for gate in 0..4 {
            if !check(&python, interception, unit, gate, change) {
                return;
            }
        }
    }
}

#[test]
fn an_input_that_changes_while_a_unit_runs_is_not_published() {
    check_everywhere("auto", SHELL, CHANGES);
}

#[test]
fn an_input_that_changes_between_stops_is_not_published() {
    check_everywhere("stops", SHELL, CHANGES);
}

#[test]
fn a_change_before_an_unstopped_read_is_processed_is_not_published() {
    let program = Program::new();
    check_everywhere("auto", &program.does("read"), CHANGES);
}

#[test]
fn a_change_between_two_reads_is_not_published() {
    let program = Program::new();
    check_everywhere("stops", &program.does("read"), CHANGES);
}

/// Another program has read the input before, so that its content is cached.
#[test]
fn a_change_after_an_earlier_reader_is_not_published() {
    let program = Program::new();
    let unit = format!("cat input > seen; {}", program.does("read"));
    for interception in ["auto", "stops"] {
        check_everywhere(interception, &unit, CHANGES);
    }
}

/// A program that begins after the change reads the input and then changes it, so that the content
/// it read is unknown at its end.
#[test]
fn a_change_before_a_rewriting_program_is_not_published() {
    let Some(python) = program(&["python3"]) else {
        return;
    };
    let program = Program::new();
    let rewrite = program.does("rewrite");
    for interception in ["auto", "stops"] {
        for change in [CHANGES[0], CHANGES[1], CHANGES[5]] {
            let sandbox = sandbox(interception);
            let run = format!("run {change}");
            let steps = ["await gate0", &run, "open gate0"];
            let first = format!("cat input > seen; read x < gate0; {rewrite}; :");
            if !run_beside(&python, &sandbox, "gate0", &steps, &first) {
                return;
            }
            let what = format!("{interception}, after {change:?}");
            compare(&sandbox, &format!("{rewrite}; :"), change, &what);
        }
    }
}

/// Another program reads it again in between.
#[test]
fn a_change_noticed_by_another_reader_is_not_published() {
    let Some(python) = program(&["python3"]) else {
        return;
    };
    let program = Program::new();
    let rewrite = program.does("'once and rewrite'");
    for change in [CHANGES[0], CHANGES[1], CHANGES[5]] {
        let sandbox = sandbox("stops");
        let run = format!("run {change}");
        let steps = [
            "await gate0",
            &run,
            "open gate0",
            "await gate1",
            "await begin",
            "open begin",
            "await wrote",
            "open gate1",
            "open wrote",
        ];
        let gates = "gate0 gate1 begin wrote";
        let first = format!(
            "cat input > seen; read x < gate0; {rewrite} & read x < begin; read y < input; \
             read x < wrote; wait"
        );
        if !run_beside(&python, &sandbox, gates, &steps, &first) {
            return;
        }
        compare(&sandbox, &format!("{rewrite} & wait"), change, change);
    }
}

#[test]
fn mapped_files_that_change_are_not_published() {
    let program = Program::new();
    for interception in ["auto", "stops"] {
        check_everywhere(interception, &program.does("map"), &CHANGES[..3]);
    }
}

#[test]
fn metadata_that_changes_is_not_published() {
    let program = Program::new();
    let changes = [CHANGES[1], CHANGES[2], CHANGES[4], CHANGES[6]];
    for interception in ["auto", "stops"] {
        check_everywhere(interception, &program.does("stat"), &changes);
    }
}

#[test]
fn a_link_that_changes_is_not_published() {
    let program = Program::new();
    let changes = ["ln -sfn other link", "rm link", "rm link; echo > link"];
    for interception in ["auto", "stops"] {
        check_everywhere(interception, &program.does("target"), &changes);
    }
}

#[test]
fn names_that_change_while_they_are_listed_are_not_published() {
    let program = Program::new();
    let changes = ["rm full/[2-7]", "cd full; touch a b c d e f g"];
    for interception in ["auto", "stops"] {
        check_everywhere(interception, &program.does("list"), &changes);
    }
}

/// Runs the unit while another unit of the same command writes, at one gate, to its input.
fn check_sibling(python: &str, program: &Program, how: &str, gate: usize, first: bool) -> bool {
    for interception in ["auto", "stops"] {
        let sandbox = sandbox(interception);
        let gate = format!("gate{gate}");
        let early = ["early", "later"].contains(&how);
        let gates = format!("start wrote {gate}{}", if early { " begin" } else { "" });
        let arrive = format!("await {gate}");
        let go_on = format!("open {gate}");
        let mut steps = match early {
            false => vec![&*arrive, "await start"],
            // The writer has written to its memory before the reader begins.
            true => vec!["await start", "await begin", "open begin", &arrive],
        };
        steps.extend(["open start", "await wrote"]);
        match first {
            false => steps.extend([&*go_on, "open wrote"]),
            // The writer exits before the reader continues.
            true => steps.extend(["open wrote", &go_on]),
        }
        let unit = program.does("read");
        let writer = program.does(&format!("{how} writes"));
        let fds = if how == "inherited" {
            "exec 7<> input;"
        } else {
            ""
        };
        let both = match early {
            false => format!("{fds} {unit} 7<&- & {writer} & wait"),
            true => format!("{writer} & read x < begin; {unit} & wait"),
        };
        if !run_beside(python, &sandbox, &gates, &steps, &both) {
            return false;
        }
        let what = format!("{how}, {interception}, at {gate}, writer first: {first}");
        let bytes = if how == "long" { 8192 } else { 12 };
        let edit = format!(
            "{{ printf 'new 1\\nnew 2\\n'; head -c {} /dev/zero; }} > input",
            bytes - 12
        );
        compare(&sandbox, &format!("{unit} 7<&- & wait"), &edit, &what);
    }
    true
}

fn check_siblings(how: &str) {
    let Some(python) = program(&["python3"]) else {
        return;
    };
    let program = Program::new();
    for gate in 0..4 {
        for first in [false, true] {
            if !check_sibling(&python, &program, how, gate, first) {
                return;
            }
        }
    }
}

#[test]
fn a_write_of_a_sibling_to_an_inherited_file_is_not_published() {
    check_siblings("inherited");
}

#[test]
fn a_write_of_a_sibling_to_its_own_file_is_not_published() {
    check_siblings("own");
}

#[test]
fn a_write_of_a_sibling_during_a_stop_is_not_published() {
    check_siblings("long");
}

#[test]
fn a_write_of_a_sibling_to_mapped_memory_is_not_published() {
    check_siblings("mapped");
}

#[test]
fn memory_that_becomes_writable_later_is_not_published() {
    check_siblings("later");
}

#[test]
fn a_write_to_a_dirty_page_is_not_published() {
    // No time of the file shows the write.
    check_siblings("early");
}

#[test]
fn a_unit_that_waits_at_gates_is_stored_when_nothing_changes() {
    // Without this hit the tests above would prove nothing.
    check_hit(SETUP, SHELL);
    let program = Program::new();
    for how in ["read", "map", "stat", "target", "list"] {
        check_hit(SETUP, &program.does(how));
    }
    let Some(python) = crate::support::program(&["python3"]) else {
        return;
    };
    for unit in [SHELL, &program.does("read")] {
        let sandbox = sandbox("auto");
        let steps = ["await gate1", "open gate1"];
        let Some(mut child) = outsider(&python, &sandbox, "gate1", &steps) else {
            return;
        };
        let run = sandbox.cached(unit);
        assert_eq!(run.whole().result, "stored", "{:#?}", run.units);
        assert!(child.wait().expect("it ends").success());
        sandbox.reset();
        sandbox.cached(unit).assert_hit();
    }
    // And as one of several.
    let sandbox = sandbox("auto");
    let unit = program.does("read");
    let run = sandbox.cached(&format!("exec 7<> input; {unit} 7<&- & wait"));
    assert_eq!(run.unit("cat read").result, "stored", "{:#?}", run.units);
    sandbox.reset();
    let run = sandbox.cached(&format!("{unit} 7<&- & wait"));
    assert_eq!(run.unit("cat read").result, "hit", "{:#?}", run.units);
}

#[test]
fn a_directory_made_by_a_sibling_after_a_lookup_does_not_affect_the_unit_above() {
    let looks = "sh -c \"test -w made; echo looked; read answer\"";
    let makes = "sh -c \"read looked; mkdir made; echo made\"";
    check_hit(
        "",
        &format!("bash -c 'coproc {makes}; {looks} <&${{COPROC[0]}} >&${{COPROC[1]}}; wait'"),
    );
}
