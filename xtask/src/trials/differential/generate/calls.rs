//! Single calls on names in any state.
//!
//! A small program makes one to three calls on a few names; before each step edits bring the
//! names into random states. The same calls meet other states later, so that what was recorded
//! for one state is tried in another.

use crate::support::seen::CALL;
use crate::trials::differential::case::{Case, Edit, Run, Step};
use crate::trials::differential::dice::Dice;

use super::attributes::{ACCESS, DEFAULT, access_list};
use super::{Node, Tools, entry, script, snippet, words};

/// Calls with `{a}` and `{b}`, two names, and `{n}`, a small number.
const CALLS: &[&str] = &[
    "truncate {a} 0",
    "truncate {a} 3",
    "truncate {a} 3",
    "truncate {a} 5000",
    "ftruncate {a} 0",
    "ftruncate {a} 3",
    "ftruncate {a} 5000",
    "append {a} more",
    "append {a} more",
    "append-existing {a} more",
    "write-at {a} 0 xy",
    "write-at {a} 2 xy",
    "write-at {a} 4096 xy",
    "write-made {a} 2 xy",
    "overwrite {a} fresh",
    "exclusive {a} fresh",
    "create {a}",
    "open-truncate {a}",
    "read-truncate {a}",
    "fallocate {a} 0 0 {n}000",
    "fallocate {a} 0 2 100",
    "fallocate {a} 1 0 9000",
    "fallocate {a} 3 0 4096",
    "fallocate {a} 3 1 2",
    "fallocate {a} 8 0 4096",
    "fallocate {a} 16 1 3",
    "fallocate {a} 32 0 4096",
    "copy-range {a} {b} 3",
    "copy-range {a} {b} 100000",
    "sendfile {a} {b} 3",
    "sendfile-append {a} {b} 100",
    "rename {a} {b}",
    "rename {a} {b}",
    "rename2 {a} {b} 1",
    "rename2 {a} {b} 2",
    "rename2 {a} {b} 2",
    "link {a} {b}",
    "link-follow {a} {b}",
    "symlink {a} {b}",
    "symlink ../src {b}",
    "unlink {a}",
    "rmdir {a}",
    "unlinkat-dir {a}",
    "mkdir {a} 755",
    "mkdir {a} 700",
    "mkfifo {a}",
    "mknod {a}",
    "chmod {a} 600",
    "chmod {a} 755",
    "chmod-nofollow {a} 640",
    "fchmod {a} 640",
    "setxattr {a} user.a one 0",
    "setxattr {a} user.a one 1",
    "setxattr {a} user.a two 2",
    "lsetxattr {a} user.a one 0",
    "removexattr {a} user.a",
    "getxattr {a} user.a",
    "listxattr {a}",
    "utimens {a} 1000000000 1000000000 0",
    "utimens {a} now now 0",
    "utimens {a} omit 1000000001 0",
    "utimens {a} 1000000002 omit 0",
    "utimens {a} omit omit 0",
    "utimens {a} 1000000003 1000000003 256",
    "utimens {a} now now 256",
    "utimens-null {a}",
    "futimens {a} 1000000004",
    "tmpfile-link work {b}",
    "touch-mtime-of {a} {b}",
    "readlink {a}",
    "list {a}",
    "read {a}",
    "size {a}",
    "mode {a}",
];

/// Calls on names behind links.
const THROUGH: &[&str] = &[
    "read {a}",
    "read {a}",
    "getxattr {a} user.a",
    "listxattr {a}",
    "list {a}",
    "size {a}",
    "mode {a}",
    "readlink {a}",
    "access {a} 2",
    "access {a} 1",
    "overwrite {a} fresh",
    "overwrite {a} fresh",
    "append {a} more",
    "exclusive {a} fresh",
    "truncate {a} 3",
    "setxattr {a} user.a one 0",
    "chmod {a} 640",
    "mkdir {a} 755",
    "unlink {a}",
    "rmdir {a}",
    "link {a} {b}",
    "rename {a} {b}",
    "utimens {a} 1000000000 1000000000 0",
];

/// Names of which a part is a link: `work/l` and `work/m` lead to directories.
pub(super) const BEHIND: &[&str] = &[
    "work/l/n2",
    "work/l/n2",
    "work/l/n2",
    "work/m/n2",
    "work/l/../n0",
    "work/l/",
    "work/l/.",
    "work/l/..",
    "work/m/",
    "work/l",
];

/// Targets of `work/m`, and, with it, of `work/l`.
const DIRECTORIES: &[&str] = &["d", "e", "d/", "d/../e", "nowhere"];

/// The same for root.
const OWNERS: &[&str] = &[
    "chown {a} 1 1",
    "chown {a} -1 2",
    "lchown {a} 1 -1",
    "fchown {a} 3 3",
];

/// Names that calls are made on.
pub(super) const NAMES: &[&str] = &["work/n0", "work/n1", "work/d/n2"];

/// Names that edits bring into random states.
pub(super) const CHANGED: &[&str] = &["work/n0", "work/n1", "work/d/n2", "work/e/n2"];

/// A directory with a few names.
pub(super) fn case(dice: &mut Dice, seed: u64, steps: usize, _tools: Tools) -> Case {
    let files = vec![
        entry("src/s0.txt", script(snippet::text(dice))),
        entry("work/d", Node::Dir(0o755)),
        entry("work/e", Node::Dir(0o755)),
        entry("call.pl", script(vec![CALL.into()])),
    ];
    let is_root = rustix::process::geteuid().is_root();
    // Few programs, so that each meets many states.
    let programs: Vec<Vec<String>> = (0..dice.range(1, 3))
        .map(|_| {
            if dice.chance(35) {
                return through_links(dice);
            }
            if dice.chance(8) {
                return there_and_back(dice);
            }
            let count = dice.weighted(&[(60, 1), (28, 2), (12, 3)]);
            (0..count).map(|_| call(dice, is_root)).collect()
        })
        .collect();
    let steps = (0..steps)
        .map(|_| {
            let mut argv = words(&["perl", "call.pl"]);
            argv.extend(dice.pick(&programs).iter().cloned());
            Step {
                edits: states(dice, is_root),
                run: Run {
                    argv,
                    prelude: (*dice.pick(&["", "", "", "", "umask 027;"])).into(),
                    ..Run::default()
                },
                ..Step::default()
            }
        })
        .collect();
    Case {
        kind: "calls".into(),
        seed,
        note: String::new(),
        pin_times: false,
        files,
        steps,
    }
}

fn call(dice: &mut Dice, is_root: bool) -> String {
    let template = if is_root && dice.chance(5) {
        *dice.pick(OWNERS)
    } else {
        *dice.pick(CALLS)
    };
    let first = dice.below(NAMES.len());
    let second = (first + dice.range(1, NAMES.len() - 1)) % NAMES.len();
    template
        .replace("{a}", NAMES[first])
        .replace("{b}", NAMES[second])
        .replace("{n}", &dice.range(1, 9).to_string())
}

/// Calls by which a file gets another name, loses its own, and gets that back.
fn there_and_back(dice: &mut Dice) -> Vec<String> {
    let back = *dice.pick(&["rename {b} {a}", "link {b} {a}"]);
    let change = *dice.pick(&[
        "append {a} more",
        "append {b} more",
        "chmod {b} 640",
        "size {a}",
    ]);
    let calls = match dice.chance(50) {
        true => ["link {a} {b}", "unlink {a}", back, change],
        false => ["link {a} {b}", "unlink {a}", change, back],
    };
    let [a, b] = [NAMES[0], NAMES[1]];
    calls
        .map(|call| call.replace("{a}", a).replace("{b}", b))
        .into()
}

/// Calls on names behind a link, which is often made first.
fn through_links(dice: &mut Dice) -> Vec<String> {
    if dice.chance(15) {
        // The link is made here, and the file is there before it.
        return ["relink n0 work/l", "getxattr work/l user.a"]
            .map(String::from)
            .into();
    }
    let mut calls = Vec::new();
    if dice.chance(70) {
        calls.push(format!("relink {} work/l", link_target(dice)));
    }
    let name = *dice.pick(BEHIND);
    for _ in 0..dice.weighted(&[(40, 1), (45, 2), (15, 3)]) {
        let name = match dice.chance(75) {
            true => name,
            false => *dice.pick(BEHIND),
        };
        let call = dice.pick(THROUGH).replace("{a}", name);
        let other = *dice.pick(&["work/n1", "work/l/n1"]);
        calls.push(call.replace("{b}", other));
    }
    calls
}

/// A target of `work/l`.
fn link_target(dice: &mut Dice) -> &'static str {
    match dice.below(3) {
        0 => dice.pick::<&str>(DIRECTORIES),
        1 => "m",
        _ => dice.pick::<&str>(&["m/", "m/../d", "d/../m", "m/n2"]),
    }
}

/// Edits that bring some of the names into random states.
pub(super) fn states(dice: &mut Dice, is_root: bool) -> Vec<Edit> {
    let mut edits = Vec::new();
    if dice.chance(60) {
        let target = *dice.pick(DIRECTORIES);
        edits.push(Edit::Delete("work/m".into()));
        edits.push(Edit::Symlink("work/m".into(), target.into()));
    }
    if dice.chance(60) {
        edits.push(Edit::Delete("work/l".into()));
        if dice.chance(60) {
            edits.push(Edit::Symlink("work/l".into(), link_target(dice).into()));
        }
    }
    if is_root && dice.chance(20) {
        // New names get the directory's group, and moved ones keep their own.
        let mode = *dice.pick(&[0o755, 0o2755]);
        edits.push(Edit::Own("work/d".into(), 0, dice.below(3) as u32));
        edits.push(Edit::Chmod("work/d".into(), mode));
    }
    for &name in CHANGED {
        if dice.chance(70) {
            state(dice, name, is_root, &mut edits);
        }
    }
    edits
}

fn state(dice: &mut Dice, name: &str, is_root: bool, edits: &mut Vec<Edit>) {
    let path = name.to_owned();
    edits.push(Edit::Delete(path.clone()));
    let other = (*dice.pick(NAMES)).to_owned();
    let text = |text: &str| vec![text.to_owned()];
    match dice.below(20) {
        0..3 => return,
        3..5 => edits.push(Edit::Write(path.clone(), Vec::new())),
        5..9 => edits.push(Edit::Write(path.clone(), text("hello\n"))),
        9 => edits.push(Edit::Write(path.clone(), text("me"))),
        10 => edits.push(Edit::Write(
            path.clone(),
            vec!["a long line of text\n".repeat(500)],
        )),
        11 => {
            edits.push(Edit::Write(path.clone(), text("sparse")));
            edits.push(Edit::Resize(path.clone(), 20_000));
        }
        12..14 => {
            // Relative to `work` or to `work/d`.
            let target = *dice.pick(&["n0", "n1", "nowhere", "d", "../n0", "../src/s0.txt"]);
            edits.push(Edit::Symlink(path, target.into()));
            return;
        }
        14..16 if other != path => edits.push(Edit::HardLink(path.clone(), other)),
        16 => edits.push(Edit::MakeDir(path.clone())),
        17 => {
            edits.push(Edit::MakeDir(path.clone()));
            edits.push(Edit::Write(format!("{path}/inside"), text("x\n")));
        }
        18 => edits.push(Edit::Fifo(path.clone())),
        _ => edits.push(Edit::Write(path.clone(), text("hello\n"))),
    }
    match dice.below(12) {
        0..2 => edits.push(Edit::Chmod(path, *dice.pick(&[0o600, 0o444, 0o755, 0o000]))),
        2..4 => edits.push(Edit::Attribute(
            path,
            "user.a".into(),
            Some((*dice.pick(&["31", "3232", ""])).into()),
        )),
        4 => edits.push(Edit::Attribute(
            path,
            ACCESS.into(),
            Some(access_list(dice)),
        )),
        5 => edits.push(Edit::Attribute(
            path,
            DEFAULT.into(),
            Some(access_list(dice)),
        )),
        6..8 => edits.push(Edit::TouchAge(path, *dice.pick(&[5, 86_400]))),
        8 if is_root => edits.push(Edit::Own(path, dice.below(2) as u32, dice.below(3) as u32)),
        _ => {}
    }
}
