//! Sequences of calls on descriptors, by programs about which pcache assumes different things.
//!
//! Files are opened in unusual ways: for reading and appending, or with flags for which an open
//! fails. As for [single calls](super::calls), edits bring the names into random states before
//! each step.

use crate::trials::differential::case::{Case, Edit, Entry, Run, Step};
use crate::trials::differential::dice::Dice;
use crate::trials::differential::select::Trouble;

use super::calls::{BEHIND, CHANGED, NAMES, states};
use super::{Node, Tools, entry, run, script, snippet};

/// A known tool. It is assumed that the size of a file to which it only appends does not count.
pub(super) const TOOL: &str = "bin/truncate";
/// A program that is known everywhere, and runs code of the project.
pub(super) const OWN_CODE: &str = "./conftest";
/// A program that is not known.
pub(super) const UNKNOWN: &str = "lib/call";

/// Calls that do not show the size of an opened file.
const BLIND: &[&str] = &[
    "write 5 more",
    "write 5 more",
    "fill 5 100",
    "writev 5 100",
    "truncate 5 3",
    "pwrite 5 20 1",
    "-seek 5 0 2",
    "-size 5",
];

/// Calls on an opened file. A program that is known may show no permissions.
const CALLS: &[&str] = &[
    "write 5 more",
    "write 5 more",
    "size 5",
    "size 5",
    "seek 5 0 2",
    "seek 5 0 2",
    "seek 5 0 1",
    "seek 5 0 0",
    "read 5 20",
    "read 5 20",
    "pread 5 20 0",
    "pwrite 5 20 1",
    "truncate 5 3",
    "allocate 5 0 0 100",
    "allocate 5 1 0 100",
];

/// Calls on what was opened in another way, a directory perhaps.
const ON_ANYTHING: &[&str] = &[
    "read 5 20",
    "pread 5 4096 0",
    "write 5 more",
    "fill 5 4096",
    "size 5",
    "truncate 5 3",
    "openat 6 5 n2 rdonly",
    "openat 6 5 n2 wronly,creat",
    "fchdir 5",
];

/// Commands that append to `{a}`; `{p}` is a program of calls, which does not ask for the size of
/// a file that it inherits for appending only.
const APPENDING: &[&str] = &[
    "echo more >> {a}; wc -c < {a}",
    "[ -s {a} ] && echo full; echo more >> {a}",
    "{ echo more; wc -c < {a}; } >> {a}",
    "exec 5>> {a}; {p} 'write 5 more'; cat {a}",
    "exec 5<> {a}; {p} 'size 5' 'read 5 20' 'write 5 more'",
    "exec 5<> {a}; read -r x <&5; echo \"$x\"; echo more >&5",
    "tee -a {a} < src/s0.txt",
    "dd if=src/s0.txt of={a} oflag=append conv=notrunc 2> /dev/null; cat {a}",
    "awk '{ print >> \"{a}\" }' src/s0.txt; cat {a}",
    "perl -e 'open F, \"+>>\", \"{a}\" or die; print -s F, \"\\n\"; seek F, 0, 0; print <F>; print F \"more\"'",
    "perl -e 'open F, \">>\", \"{a}\" or die; print tell(F), \" \", -s F, \"\\n\"; print F \"more\"'",
    "python3 -S -c 'f = open(\"{a}\", \"a+\"); print(f.tell()); f.seek(0); print(f.read()); f.write(\"more\")'",
    "python3 -S -c 'print(open(\"{a}\", \"a\").tell())'",
    "exec 5>> {a}; echo more >&5; stat -L -c %s /dev/fd/5",
];

/// Flags that are added to those of an open, by how often.
const FLAGS: &[(usize, &str)] = &[
    (14, "creat"),
    (6, "excl"),
    (6, "trunc"),
    (6, "append"),
    (20, "direct"),
    (12, "nofollow"),
    (12, "directory"),
    (6, "path"),
    (10, "noatime"),
    (8, "tmpfile"),
    (4, "sync"),
];

/// Preparations of a run that has another file system in `work/d`. One has no `O_DIRECT`, the
/// other has no `O_TMPFILE` either.
const FILE_SYSTEMS: &[&str] = &[
    "mount -t ramfs none work/d;",
    "mount -t ramfs none work/d; echo hello > work/d/n2;",
    "mount -t mqueue none work/d;",
    "mount -t tmpfs none work/d; echo hello > work/d/n2;",
];

/// The preparation of a run that may not open the files of others with `O_NOATIME`.
const UNPRIVILEGED: &str = "exec setpriv --bounding-set=-fowner --inh-caps=-fowner \"$@\";";

/// The files of the program of calls, under its names.
pub(super) fn programs() -> Vec<Entry> {
    [TOOL, OWN_CODE, UNKNOWN]
        .map(|path| entry(path.trim_start_matches("./"), Node::Descriptors))
        .into()
}

/// A directory with a few names, and programs that open them.
pub(super) fn case(dice: &mut Dice, seed: u64, steps: usize, tools: Tools, kind: Trouble) -> Case {
    let mut files = vec![
        entry("src/s0.txt", script(snippet::text(dice))),
        entry("work/d", Node::Dir(0o755)),
        entry("work/e", Node::Dir(0o755)),
    ];
    files.extend(programs());
    let is_root = rustix::process::geteuid().is_root();
    let commands: Vec<Run> = (0..dice.range(1, 3))
        .map(|_| match kind {
            Trouble::Appends if dice.chance(25) => appending_command(dice, tools),
            Trouble::Appends => appending_calls(dice),
            _ => opening_calls(dice),
        })
        .collect();
    let is_unprivileged = kind == Trouble::Opens && is_root && dice.chance(25);
    let steps = (0..steps)
        .map(|_| {
            let mut edits = states(dice, is_root);
            // A shell that opens one would wait.
            edits.retain(|edit| !matches!(edit, Edit::Fifo(_)));
            if is_unprivileged {
                let owner = dice.below(2) as u32;
                edits.push(Edit::Own((*dice.pick(CHANGED)).into(), owner, 0));
            }
            let mut step = Step {
                edits,
                run: dice.pick(&commands).clone(),
                ..Step::default()
            };
            if kind == Trouble::Opens && tools.mounts && dice.chance(20) {
                step.run.prelude = (*dice.pick(FILE_SYSTEMS)).into();
            }
            if is_unprivileged {
                step.run.prelude.push_str(UNPRIVILEGED);
            }
            step
        })
        .collect();
    Case {
        kind: match kind {
            Trouble::Appends => "appends".into(),
            _ => "opens".into(),
        },
        seed,
        note: String::new(),
        pin_times: false,
        files,
        steps,
    }
}

/// A command of a shell that appends to a file.
fn appending_command(dice: &mut Dice, tools: Tools) -> Run {
    let template = loop {
        let template = *dice.pick(APPENDING);
        let is_possible = (tools.python || !template.contains("python3"))
            && (tools.perl || !template.contains("perl"));
        if is_possible {
            break template;
        }
    };
    let line = template
        .replace("{a}", dice.pick::<&str>(NAMES))
        .replace("{p}", dice.pick::<&str>(&[OWN_CODE, UNKNOWN]));
    run(&[*dice.pick(&["sh", "sh", "bash"]), "-c", &line])
}

/// Opens a file for appending, and for reading perhaps.
fn appending_calls(dice: &mut Dice) -> Run {
    let program = *dice.pick(&[TOOL, TOOL, OWN_CODE, OWN_CODE, UNKNOWN]);
    let is_read = dice.chance(55);
    let mut flags = format!("{},append", if is_read { "rdwr" } else { "wronly" });
    for (percent, flag) in [(80, ",creat"), (10, ",trunc"), (10, ",excl")] {
        if dice.chance(percent) {
            flags.push_str(flag);
        }
    }
    let mut line = vec![program.to_owned()];
    line.push(format!("open 5 {} {flags}", dice.pick(NAMES)));
    let is_blind = program == TOOL && !is_read;
    for _ in 0..dice.range(1, 4) {
        let calls = if is_blind { BLIND } else { CALLS };
        line.push((*dice.pick(calls)).into());
    }
    Run {
        argv: line,
        ..Run::default()
    }
}

/// Opens a file with flags for which that may fail.
fn opening_calls(dice: &mut Dice) -> Run {
    let program = *dice.pick(&[TOOL, OWN_CODE, UNKNOWN]);
    let mut line = vec![program.to_owned()];
    for _ in 0..dice.weighted(&[(75, 1), (25, 2)]) {
        let mut flags = (*dice.pick(&["rdonly", "rdonly", "rdwr", "rdwr", "wronly"])).to_owned();
        for _ in 0..dice.weighted(&[(55, 1), (35, 2), (10, 3)]) {
            flags.push(',');
            flags.push_str(dice.weighted(FLAGS));
        }
        let path = match dice.below(10) {
            0..5 => *dice.pick(NAMES),
            5..8 => *dice.pick(&["work/d", "work/e", "work"]),
            _ => *dice.pick(BEHIND),
        };
        line.push(format!("open 5 {path} {flags}"));
        let is_blind = program == TOOL && flags.starts_with("wronly") && flags.contains("append");
        for _ in 0..dice.below(3) {
            let calls = if is_blind { BLIND } else { ON_ANYTHING };
            line.push((*dice.pick(calls)).into());
        }
    }
    Run {
        argv: line,
        ..Run::default()
    }
}
