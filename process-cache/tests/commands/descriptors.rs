//! Reads of inherited descriptors, other than `read` on standard input.

use crate::support::{PCACHE, Sandbox, program};

/// Checks that output about an inherited file is repeated only while the file has the same content.
#[track_caller]
fn check_inherited(command: &str) {
    let sandbox = Sandbox::new("echo one > f");
    let cached = format!("'{PCACHE}' -q --min-time 0 -- {command}");
    for content in ["one", "one", "two"] {
        // The same length, written in place.
        sandbox.edit(&format!(
            "printf {content} | dd of=f conv=notrunc 2> /dev/null"
        ));
        let run = sandbox.plain(&cached);
        assert_eq!(run.out.trim(), content, "{command}: {}", run.err);
    }
}

#[test]
fn a_file_is_read_on_any_number() {
    for fd in [3, 4, 5, 6, 9] {
        check_inherited(&format!("bash -c 'read -u{fd} v; echo $v' {fd}< f"));
    }
}

#[test]
fn a_file_is_read_on_another_number_than_it_was_inherited_on() {
    check_inherited("bash -c 'exec 3<&0; read -u3 v; echo $v' < f");
    check_inherited("bash -c 'exec 5<&7; read -u5 v; echo $v' 7< f");
}

#[test]
fn a_pipe_is_read_on_another_number_than_it_was_inherited_on() {
    for fd in [3, 5, 255] {
        let command = format!("bash -c 'exec {fd}<&0; read -u{fd} v; echo $v'");
        let mut sandbox = Sandbox::new("");
        for input in ["one", "one", "two"] {
            sandbox.input = Some(format!("{input}\n").into_bytes());
            let run = sandbox.cached(&command);
            assert_eq!(run.out.trim(), input, "{command}");
            run.assert_uncacheable("pipe");
        }
    }
}

#[test]
fn a_file_is_read_at_a_position_or_mapped() {
    let Some(python) = program(&["python3.12", "python3.11", "python3.10"]) else {
        return;
    };
    for fd in [0, 4, 8] {
        check_inherited(&format!(
            "{python} -Sc 'import os; print(os.pread({fd}, 3, 0).decode())' {fd}< f"
        ));
        check_inherited(&format!(
            "{python} -Sc 'import mmap; print(mmap.mmap({fd}, 3, prot=1)[:3].decode())' {fd}< f"
        ));
    }
}

#[test]
fn a_file_of_the_process_that_opened_it_is_read_again() {
    let sandbox = Sandbox::new("");
    let inner = "tr '\\000' ' ' < /proc/self/cmdline";
    for outer in [
        format!("({inner})"),
        format!("{inner}; true"),
        inner.to_owned(),
    ] {
        for shell in ["sh", "bash"] {
            let plain = sandbox.plain(&format!("{shell} -c \"{outer}\""));
            assert!(!plain.out.is_empty());
            let run = sandbox.cached(&format!("{shell} -c \"{outer}\""));
            assert_eq!(run.out, plain.out, "{shell}: {outer}");
        }
    }
}
