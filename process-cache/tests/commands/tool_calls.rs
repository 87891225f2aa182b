//! Single system calls of a program whose file times do not count: what it did in one state of a
//! name is not repeated in another.
//!
//! The program makes the calls that its arguments name, and prints each result. It is known as
//! autoconf's `conftest`, for which few facts are recorded.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use crate::support::Sandbox;

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

static int flags(const char *letters)
{
    int found = 0;
    for (; *letters; letters++)
        switch (*letters) {
        case 'w': found |= O_WRONLY; break;
        case 'b': found |= O_RDWR; break;
        case 'c': found |= O_CREAT; break;
        case 't': found |= O_TRUNC; break;
        case 'a': found |= O_APPEND; break;
        case 'd': found |= O_DIRECTORY; break;
        case 'D': found |= O_DIRECT; break;
        case 'n': found |= O_NOATIME; break;
        }
    return found;
}

int main(int count, char **args)
{
    static char bytes[4096];
    for (int at = 1; at < count; at++) {
        char *word = strtok(args[at], ","), *one = strtok(0, ","), *two = strtok(0, ",");
        char *three = strtok(0, ",");
        long first = one ? atol(one) : 0, result = -1;
        struct stat found;
        int ends[2];
        errno = 0;
        if (!strcmp(word, "open"))
            result = open(one, flags(two), 0644);
        else if (!strcmp(word, "write"))
            result = write(first, two, strlen(two));
        else if (!strcmp(word, "read") && (result = pread(first, bytes, sizeof bytes, 0)) > 0)
            printf("%.*s ", (int)result, bytes);
        else if (!strcmp(word, "fstat") && !(result = fstat(first, &found)))
            printf("%ld %o ", (long)found.st_size, found.st_mode);
        else if (!strcmp(word, "end"))
            result = lseek(first, 0, SEEK_END);
        else if (!strcmp(word, "close"))
            result = close(first);
        else if (!strcmp(word, "fchdir"))
            result = fchdir(first);
        else if (!strcmp(word, "link"))
            result = link(one, two);
        else if (!strcmp(word, "unlink"))
            result = unlink(one);
        else if (!strcmp(word, "rename"))
            result = rename(one, two);
        else if (!strcmp(word, "sendfile"))
            result = sendfile(first, atol(two), 0, atol(three));
        else if (!strcmp(word, "copy"))
            result = copy_file_range(atol(two), 0, first, 0, atol(three), 0);
        else if (!strcmp(word, "splice") && !pipe(ends)) {
            long taken = splice(atol(two), 0, ends[1], 0, atol(three), 0);
            result = splice(ends[0], 0, first, 0, taken, 0);
        }
        printf("%s=%ld %s\n", word, result, errno ? strerror(errno) : "");
    }
    return 0;
}
"#;

/// The compiled program.
pub(crate) struct Tool(TempDir);

impl Tool {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let source = dir.path().join("conftest.c");
        fs::write(&source, SOURCE).expect("written");
        let compiled = Command::new("cc")
            .args(["-O1", "-w", "-o"])
            .arg(dir.path().join("conftest"))
            .arg(&source)
            .status();
        assert!(compiled.is_ok_and(|status| status.success()), "cc failed");
        Self(dir)
    }

    /// Returns the command that makes these calls. The descriptors of opened files begin at 3.
    pub(crate) fn makes(&self, calls: &str) -> String {
        format!("{}/conftest {calls}", self.0.path().display())
    }
}

/// Checks that calls do in each state of the name `a` what they do plainly, whichever state came
/// before. Returns whether a run was skipped.
fn check_states(states: &[&str], calls: &str) -> bool {
    let tool = Tool::new();
    check_command(states, &tool.makes(calls))
}

/// As [`check_states`], of a command.
fn check_command(states: &[&str], command: &str) -> bool {
    let sandbox = Sandbox::new("");
    let mut is_skipped = false;
    for state in states {
        sandbox.reset();
        sandbox.edit_then(state);
        let plain = sandbox.plain(command);
        for _ in 0..2 {
            sandbox.reset();
            sandbox.edit_then(state);
            let run = sandbox.cached(command);
            run.assert_like(&plain, &format!("{command} after {state}"));
            is_skipped |= run.is_hit();
        }
    }
    is_skipped
}

/// The file `a` is absent, or has contents of several lengths.
const CONTENTS: [&str; 4] = [
    ":",
    ": > a",
    "echo precious > a",
    "echo other > a; chmod 600 a",
];

#[test]
fn appending_to_a_file_that_can_be_read_depends_on_its_content() {
    assert!(check_states(&CONTENTS, "open,a,bca write,3,x"));
    assert!(check_states(&CONTENTS, "open,a,bca write,3,x read,3"));
    assert!(check_states(&CONTENTS, "open,a,bcat write,3,x read,3"));
}

#[test]
fn an_open_without_the_page_cache_depends_on_the_kind_of_file() {
    let states = ["mkdir a", "head -c 8192 /dev/zero > a", ":"];
    check_states(&states, "open,a,D");
}

#[test]
fn a_file_that_is_changed_after_it_got_another_name_and_its_own_back_is_changed_again() {
    for calls in [
        "link,a,h unlink,a open,h,wa write,3,x rename,h,a",
        "link,a,h unlink,a link,h,a open,a,wa write,3,x",
        "link,a,h unlink,a link,h,a unlink,h open,a,wa write,3,x",
        "link,a,h unlink,a rename,h,a open,a,wa write,3,x",
        "link,a,h open,h,w write,3,x",
    ] {
        check_states(&CONTENTS, calls);
    }
}

#[test]
fn a_new_file_that_gets_its_first_name_back_is_skipped() {
    let calls = "open,n,wct write,3,x link,n,m unlink,n rename,m,n";
    assert!(check_states(&[":"], calls));
}

#[test]
fn the_size_of_a_file_that_a_program_of_the_project_appends_to_counts() {
    assert!(check_states(&CONTENTS, "open,a,wca fstat,3"));
    assert!(check_states(&CONTENTS, "open,a,wca end,3 write,3,x"));
}

#[test]
fn the_length_of_an_inherited_file_counts_for_a_program_that_seeks_its_end() {
    let tool = Tool::new();
    check_command(
        &CONTENTS,
        &format!("sh -c '{} 1>> a; :'", tool.makes("end,1")),
    );
    check_command(
        &CONTENTS,
        &format!("sh -c '{} 2>> a; :'", tool.makes("end,2 write,2,x")),
    );
    // On descriptors from 3 up, the changed offset shows it.
    let contents = &CONTENTS[2..];
    check_command(
        contents,
        &format!("sh -c 'exec 5>> a; {}; :'", tool.makes("end,5")),
    );
}

#[test]
fn the_permissions_of_a_file_count_for_a_program_of_the_project() {
    let states = ["echo x > a; chmod 644 a", "echo x > a; chmod 600 a"];
    assert!(check_states(&states, "open,a,r fstat,3"));
}

/// Needs root, to change owners; the program has not the capability that makes them irrelevant.
#[test]
fn an_open_that_leaves_the_access_time_depends_on_the_owner() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can change owners");
        return;
    }
    let tool = Tool::new();
    let states = ["echo x > a; chown 0 a", "echo x > a; chown 1 a"];
    let without = "setpriv --inh-caps=-fowner --bounding-set=-fowner";
    check_command(&states, &format!("{without} {}", tool.makes("open,a,rn")));
}
