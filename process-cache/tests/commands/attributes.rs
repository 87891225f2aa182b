//! Extended attributes and access lists: what a file or directory has, and what new files get from
//! their directory.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rustix::fs::XattrFlags;

use crate::support::{Run, Sandbox, check_uncacheable, program};

const LIST: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// A name with an attribute and its value.
type Attribute = (&'static str, &'static str, Vec<u8>);

/// Returns an access list that gives user 1 these permissions.
fn list(permissions: u8) -> Vec<u8> {
    let entry = |tag: u8, permissions: u8, id: u32| {
        let mut entry = vec![tag, 0, permissions, 0];
        entry.extend(id.to_le_bytes());
        entry
    };
    let mut list = vec![2, 0, 0, 0];
    for (tag, permissions, id) in [
        (1, 6, u32::MAX),
        (2, permissions, 1),
        (4, 4, u32::MAX),
        (16, 6, u32::MAX),
        (32, 0, u32::MAX),
    ] {
        list.extend(entry(tag, permissions, id));
    }
    list
}

/// Starts anew, with these attributes; returns whether the file system has them.
fn prepare(sandbox: &Sandbox, attributes: &[Attribute]) -> bool {
    sandbox.reset();
    attributes.iter().all(|(path, name, value)| {
        let set = rustix::fs::setxattr(sandbox.path(path), *name, value, XattrFlags::empty());
        if let Err(error) = set {
            eprintln!("skipped: {name} cannot be set here: {error}");
        }
        set.is_ok()
    })
}

/// Returns all attributes below the sandbox.
fn attributes(sandbox: &Sandbox, run: &Run) -> BTreeMap<(PathBuf, String), Vec<u8>> {
    let mut found = BTreeMap::new();
    for name in run.tree.keys() {
        let path = sandbox.dir().join(name);
        for attribute in ["user.a", "user.b", LIST, DEFAULT] {
            let mut value = [0; 256];
            if let Ok(length) = rustix::fs::lgetxattr(&path, attribute, &mut value[..]) {
                let key = (name.clone(), attribute.to_owned());
                found.insert(key, value[..length].to_vec());
            }
        }
    }
    found
}

/// Checks that a command does what it does plainly for each of these attributes, whichever came
/// before. Returns how often it was skipped the second time.
fn check(setup: &str, command: &str, states: &[&[Attribute]]) -> usize {
    let sandbox = Sandbox::new(setup);
    let mut hits = 0;
    for state in states {
        if !prepare(&sandbox, state) {
            return states.len();
        }
        let plain = sandbox.plain(command);
        let expected = attributes(&sandbox, &plain);
        for _ in 0..2 {
            prepare(&sandbox, state);
            let run = sandbox.cached(command);
            let what = format!("{command} with {state:?}");
            run.assert_like(&plain, &what);
            assert_eq!(attributes(&sandbox, &run), expected, "{what}");
            hits += usize::from(run.is_hit());
        }
    }
    hits
}

/// [`check`] with attributes of the file `x`.
fn check_file(command: &str) {
    let setup = "echo hi > x; mkdir out";
    check(
        setup,
        command,
        &[
            &[],
            &[("x", "user.a", b"1".to_vec())],
            &[("x", "user.a", b"2".to_vec())],
            &[("x", LIST, list(6))],
            &[("x", LIST, list(4))],
        ],
    );
}

/// [`check`] with default access lists of the directory `out`.
fn check_directory(command: &str) -> usize {
    let setup = "echo hi > x; mkdir out; echo old > out/old";
    check(
        setup,
        command,
        &[
            &[],
            &[("out", DEFAULT, list(6))],
            &[("out", DEFAULT, list(4))],
        ],
    )
}

#[test]
fn a_moved_file_keeps_its_attributes() {
    check_file("mv x n");
    check_file("mv x out/n");
    check_file("mv x n; mv n out/m");
    check_file("echo more >> x; mv x n");
    check_file("echo new > x; mv x n");
}

#[test]
fn a_linked_file_keeps_its_attributes() {
    check_file("ln x n");
    check_file("ln x n; rm x");
}

#[test]
fn a_file_written_in_place_keeps_its_attributes() {
    check_file("echo new > x");
    check_file("echo more >> x");
    check_file("cp out/../x n; cat n > x");
}

#[test]
fn attributes_that_are_read_after_a_write_are_those_of_the_file() {
    let Some(perl) = program(&["perl"]) else {
        return;
    };
    for change in [
        "open(F, \">>\", \"x\"); syswrite(F, \"more\")",
        "open(F, \">\", \"x\"); syswrite(F, \"new\")",
        "truncate(\"x\", 1)",
        "chmod(0640, \"x\")",
    ] {
        let list = "my ($name, $room) = (\"x\", \" \" x 99); print syscall(194, $name, $room, 99)";
        check_file(&format!("{perl} -e '{change}; {list}'"));
    }
}

#[test]
fn copies_have_the_attributes_that_the_program_copies() {
    check_file("cp x n");
    check_file("cp -a x n");
    check_file("cp --preserve=mode x n");
    check_file("sed -i s/i/o/ x");
}

#[test]
fn changed_permissions_change_the_access_list() {
    check_file("chmod 640 x");
    check_file("chmod g-w x");
}

#[test]
fn new_files_get_the_default_access_list_of_their_directory() {
    assert_eq!(check_directory("echo 1 > out/f"), 3);
    check_directory("mkdir out/n; echo 1 > out/n/f");
    check_directory("mkdir -p out/n/m; echo 1 > out/n/m/f; chmod 600 out/n/m/f");
    check_directory("umask 077; mkdir out/n; echo 1 > out/f");
    check_directory("cp x out/f; cp -r out other");
    check_directory("mv x out/f");
    check_directory("echo 1 > f; mv f out/f");
    check_directory("ln -s x out/l; ln x out/h");
}

#[test]
fn old_files_keep_their_permissions_in_a_directory_with_a_list() {
    check_directory("echo 1 > out/old");
    check_directory("echo 1 >> out/old");
    check_directory("echo 1 > out/old; echo 1 > out/f");
    check_directory("cp x out/old");
}

#[test]
fn attributes_that_a_program_sets_are_restored() {
    let Some(python) = program(&["python3"]) else {
        return;
    };
    let python = |body: &str| format!("{python} -c 'import os; {body}'");
    let states: &[&[Attribute]] = &[&[], &[("x", "user.a", b"1".to_vec())]];
    let set = python("os.setxattr(\"x\", \"user.a\", b\"3\")");
    assert_eq!(check("echo hi > x", &set, states), 3);
    let made = python(
        "open(\"n\", \"w\").close(); os.setxattr(\"n\", \"user.b\", b\"4\"); \
         os.removexattr(\"n\", \"user.b\"); os.setxattr(\"n\", \"user.a\", b\"5\")",
    );
    assert_eq!(check("echo hi > x", &made, states), 3);
    let once = python(
        "\ntry: os.setxattr(\"x\", \"user.a\", b\"3\", os.XATTR_CREATE)\n\
         except OSError as error: print(error)\n",
    );
    check("echo hi > x", &once, states);
    let removed =
        python("\ntry: os.removexattr(\"x\", \"user.a\")\nexcept OSError as error: print(error)\n");
    check("echo hi > x", &removed, states);
}

#[test]
fn a_program_that_replaces_an_attribute_runs_again() {
    let Some(python) = program(&["python3"]) else {
        return;
    };
    let set = "os.setxattr(\"x\", \"user.a\", b\"1\")";
    check_uncacheable(
        "echo hi > x",
        &format!(
            "{python} -c 'import os; {set}'; {python} -c 'import os; os.removexattr(\"x\", \"user.a\")'"
        ),
        "removes the attribute user.a",
    );
}
