//! Paths that lead through symbolic links: facts are about the file at the end, and about each link
//! on the way that the unit did not make itself.

use crate::support::{Sandbox, after_edit, check_hit, check_miss, check_still_hit, program};

/// A command, a set-up before it, and an edit after which it does something else.
struct Case {
    setup: &'static str,
    command: &'static str,
    edit: &'static str,
    /// The reported difference.
    difference: &'static str,
}

/// Checks that a command is skipped without the edit, and misses with it.
#[track_caller]
fn check(cases: &[Case]) {
    for case in cases {
        check_hit(case.setup, case.command);
        check_miss(case.setup, case.command, case.edit, case.difference);
    }
}

#[test]
fn a_file_behind_a_link_that_the_unit_made_is_an_input() {
    check(&[
        Case {
            setup: "echo 1 > file",
            command: "ln -s file link; cat link",
            edit: "echo 2 > file",
            difference: "content of",
        },
        Case {
            setup: "echo 1 > file; touch other",
            command: "ln -s other first; ln -sf file first; ln -s first second; cat < second",
            edit: "echo 2 > file",
            difference: "content of",
        },
        Case {
            setup: "mkdir -p tree/sub; echo 1 > tree/sub/file",
            command: "ln -s tree link; sh -c 'cat link/sub/file; cat link/sub/../sub/file'",
            edit: "echo 2 > tree/sub/file",
            difference: "content of",
        },
        Case {
            setup: "mkdir tree",
            command: "ln -s tree link; cd link; ls",
            edit: "echo > tree/new",
            difference: "directory listing",
        },
        Case {
            setup: "echo 1 > file",
            command: "ln -s file link; test -x link || echo plain",
            edit: "chmod +x file",
            difference: "permission for",
        },
        Case {
            setup: "mkdir tree; ln -s there tree/inner",
            command: "ln -s tree link; readlink link/inner",
            edit: "ln -sf elsewhere tree/inner",
            difference: "link ",
        },
        Case {
            setup: "mkdir tree; echo 'int one;' > tree/h.h; echo '#include <h.h>' > a.c",
            command: "ln -s tree link; cc -Ilink -E -P a.c",
            edit: "echo 'int two;' > tree/h.h",
            difference: "content of",
        },
        Case {
            setup: "mkdir tree; printf '#!/bin/sh\\necho one' > tree/program; chmod +x tree/program",
            command: "ln -s tree link; link/program",
            edit: "printf '#!/bin/sh\\necho two' > tree/program",
            difference: "content of",
        },
    ]);
}

#[test]
fn a_file_that_is_missing_behind_a_link_that_the_unit_made_is_an_input() {
    let command = "ln -s tree link; cat link/file 2> /dev/null || echo none";
    check(&[
        Case {
            setup: "mkdir tree",
            command,
            edit: "echo text > tree/file",
            difference: "appeared",
        },
        Case {
            setup: "",
            command,
            edit: "mkdir tree; echo text > tree/file",
            difference: "appeared",
        },
        Case {
            setup: "",
            command: "ln -s file link; cat link 2> /dev/null || echo none",
            edit: "echo text > file",
            difference: "appeared",
        },
    ]);
}

#[test]
fn links_behind_a_link_that_the_unit_made_are_inputs() {
    let difference = "link ";
    check(&[
        Case {
            setup: "mkdir one two; ln -s one tree",
            command: "ln -s tree link; echo text > link/file; cat link/file",
            edit: "ln -sfn two tree",
            difference,
        },
        Case {
            setup: "mkdir -p one/sub two/sub; ln -s $PWD/one tree",
            command: "ln -s tree/sub link; sh -c 'echo text > link/file; cat link/file'",
            edit: "ln -sfn two tree",
            difference,
        },
        Case {
            setup: "mkdir -p one/sub two/sub; ln -s one/sub tree",
            command: "ln -s tree/.. link; echo text > link/file; cat link/file",
            edit: "ln -sfn two/sub tree",
            difference,
        },
        Case {
            setup: "ln -s one name",
            command: "ln -s name link; echo text > link; cat link",
            edit: "ln -sf two name",
            difference,
        },
    ]);
}

#[test]
fn links_count_in_paths_that_end_in_slashes_and_dots() {
    check(&[
        Case {
            setup: "mkdir one two; ln -s one/ tree; ln -s tree/ link",
            command: "rmdir one; mkdir one; test -d link && echo directory",
            edit: "rm tree",
            difference: "link ",
        },
        Case {
            setup: "mkdir one two; ln -s one link; touch two/other",
            command: "touch one/file; ls link/",
            edit: "ln -sfn two link",
            difference: "link ",
        },
        Case {
            setup: "mkdir one two; ln -s one link; touch two/other",
            command: "touch one/file; ls link/.",
            edit: "ln -sfn two link",
            difference: "link ",
        },
        Case {
            setup: "mkdir -p one/sub two/sub; ln -s one/sub link",
            command: "mkdir one/new; ls link/..",
            edit: "ln -sfn two/sub link",
            difference: "symbolic links on the way",
        },
        Case {
            setup: "mkdir -p one/sub; echo 1 > one/file",
            command: "ln -s one/sub link; cat link/../file",
            edit: "rmdir one/sub; touch one/sub",
            difference: "file or directory at",
        },
    ]);
}

#[test]
fn a_link_that_the_unit_replaced_is_an_input_until_then() {
    let setup = "mkdir one two; echo 1 > one/file; echo 2 > two/file; ln -s one link";
    let command = "readlink link; ln -sfn two link; cat link/file";
    check(&[
        Case {
            setup,
            command,
            edit: "echo 3 > two/file",
            difference: "content of",
        },
        Case {
            setup,
            command,
            edit: "ln -sfn other link",
            difference: "link ",
        },
    ]);
    check_still_hit(setup, command, "echo 3 > one/file");
}

/// A Perl program with functions for extended attributes and file systems.
const CALLS: &str = r#"sub set { syscall(188, "$_[0]", "user.$_[1]", "$_[2]", length $_[2], 0) == 0 or die $! }
    sub get { my $b = "\0" x 99; my $n = syscall($_[2] // 191, "$_[0]", "user.$_[1]", $b, 99);
        print $n < 0 ? "none\n" : substr($b, 0, $n) . "\n" }
    sub all { my $b = "\0" x 99; my $n = syscall(194, "$_[0]", $b, 99);
        print join(" ", grep { /^user/ } split /\0/, substr $b, 0, $n) . "\n" }
"#;

/// Returns the command that runs such a program.
fn perl(program: &str) -> String {
    format!("perl -e '{CALLS}{program}'")
}

#[test]
fn an_attribute_behind_a_link_is_an_input() {
    if program(&["perl"]).is_none() {
        return;
    }
    let sandbox = Sandbox::new("touch file");
    let set = |name: &str, value: &str| perl(&format!(r#"set("file", "{name}", "{value}")"#));
    if sandbox.plain(&set("a", "one")).status.code() != Some(0) {
        eprintln!("skipped: files have no attributes here");
        return;
    }
    let setup = format!("echo 1 > file; {}", set("a", "one"));
    let difference = "attributes of";
    for link in ["ln -s file link", "ln -s file first; ln -s first link"] {
        let make = format!("{link}; ");
        for (before, within) in [(format!("{setup}; {link}"), ""), (setup.clone(), &*make)] {
            for (program, name) in [(r#"get("link", "a")"#, "a"), (r#"all("link")"#, "b")] {
                let command = format!("{within}{}", perl(program));
                check_hit(&before, &command);
                check_miss(&before, &command, &set(name, "two"), difference);
            }
            // The attributes of a link are its own.
            let command = format!("{within}{}", perl(r#"get("link", "a", 192)"#));
            check_still_hit(&before, &command, &set("a", "two"));
        }
    }
    // A file that the unit made has the attributes that it made.
    let command = format!("echo 1 > new; {}", perl(r#"get("link", "a")"#));
    check_hit("ln -s new link", &command);
}

#[test]
fn a_right_behind_a_link_is_an_input() {
    let is_root = rustix::process::geteuid().is_root();
    let setup = "mkdir tree; chmod 555 tree; echo 1 > file; chmod 400 file";
    for (link, command, edit) in [
        (
            "ln -s tree link",
            "mkdir link/new || echo no",
            "chmod 755 tree",
        ),
        (
            "ln -s tree/new link",
            "echo text > link || echo no",
            "chmod 755 tree",
        ),
        (
            "ln -s file link",
            "echo text >> link || echo no",
            "chmod 600 file",
        ),
        (
            "ln -s file link",
            "test -w link || echo no",
            "chmod 600 file",
        ),
    ] {
        let in_unit = format!("{link}; {command}");
        for (before, command) in [
            (format!("{setup}; {link}"), command),
            (setup.to_owned(), &*in_unit),
        ] {
            let again = after_edit(&Sandbox::new(&before), command, edit);
            if !is_root {
                again.assert_miss("permission");
            }
        }
    }
}
