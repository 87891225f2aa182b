//! Mounts over the working directory, over a directory that is open, and over an inherited file.
//!
//! They are made before a run (in its preparation), by a command of the run, or by somebody else
//! while a command waits at its gate. All are gone after the run. Files have one of two contents,
//! so that what was recorded for the file above often holds for the one below.

use crate::trials::differential::case::{Aftermath, Case, Edit, Entry, Input, Run, Step};
use crate::trials::differential::dice::Dice;
use crate::trials::differential::disturb::{Act, Cover, Disturbance, Moment};

use super::descriptors::programs;
use super::{Node, Tools, entry, run, script};

/// The usual contents of files.
const CONTENTS: &[&str] = &["one\n", "two\n"];

/// Files that edits change.
const FILES: &[&str] = &["work/f", "out/f", "work/k", "out/k"];

/// Commands in `work`.
const INSIDE: &[&str] = &[
    "cat f",
    "cat f",
    "cp f k",
    "cp f k",
    "sort f",
    "ls",
    "mv f k",
    "rm -f f",
    "touch k",
    "mkdir n",
    "ln -s x l",
    "ln f l",
    "sh ../s1.sh",
    "make -s -f ../lib/m.mk",
    "../lib/call 'open 5 f rdonly' 'read 5 20'",
    "../bin/truncate 'open 5 f rdonly' 'read 5 20'",
    "../bin/truncate 'open 5 k wronly,creat,trunc' 'write 5 one'",
    "../bin/truncate 'chdir .' 'open 5 f rdonly' 'read 5 20'",
    "../bin/truncate 'chdir d' 'open 5 ../f rdonly' 'read 5 20'",
    "cat f > k",
    "cat < f; echo one > k",
    "(cd d && cat ../f)",
    "cd ../work && cat f",
    "cd . && cat f",
    "cat \"$PWD/f\"; cat f",
    "[ -e f ] && echo there || echo none",
    "cat ../work/f; cat f",
];

/// Preparations of a run in `work`.
const BEFORE_INSIDE: &[&str] = &[
    "mount --bind ../out \"$PWD\";",
    "mount --bind ../out \"$PWD\";",
    "mount -t tmpfs none \"$PWD\";",
    "mount -t tmpfs none \"$PWD\"; echo one > \"$PWD/f\";",
    "mount --bind \"$PWD\" \"$PWD\";",
    "cd ..; mount --bind out work; cd work;",
    "mount --bind ../out d;",
    "mount --bind ../out/f f;",
];

/// Commands that have `work` open.
const WITH_DIRECTORY: &[&str] = &[
    "cat /proc/self/fd/5/f",
    "cat /dev/fd/5/f > out/log",
    "ls /dev/fd/5/",
    "find /proc/self/fd/5/ -name f",
    "cp /proc/self/fd/5/f /proc/self/fd/5/k",
    "lib/call 'openat 6 5 f rdonly' 'read 6 20'",
    "bin/truncate 'openat 6 5 f rdonly' 'read 6 20'",
    "bin/truncate 'fchdir 5' 'open 6 f rdonly' 'read 6 20'",
    "bin/truncate 'openat 6 5 k wronly,creat,trunc' 'write 6 one'",
    "lib/call 'openat 6 5 . directory,path' 'openat 7 6 f rdonly' 'read 7 20'",
];

/// Commands that have `work/f` open.
const WITH_FILE: &[&str] = &[
    "cat <&5",
    "cat <&5 > out/log",
    "read -r x <&5; echo \"$x\"",
    "cat /dev/fd/5",
    "sort /proc/self/fd/5",
    "bin/truncate 'read 5 20'",
    "bin/truncate 'pread 5 20 0'",
    "lib/call 'size 5'",
    "lib/call 'mode 5' 'read 5 20'",
    "[ -s /dev/fd/5 ] && echo full || echo empty",
    "stat -L -c %s /dev/fd/5",
];

/// Commands that add to `work/f`, which is open.
const WITH_OUTPUT: &[&str] = &[
    "echo more >&5",
    "cat src/s0.txt >&5",
    "bin/truncate 'write 5 more'",
    "lib/call 'write 5 more'",
    "echo more >&5; cat work/f",
];

/// Commands that mount by themselves.
const MOUNTING: &[&str] = &[
    "mount --bind out work; cat work/f",
    "cat work/f; mount --bind out work; cat work/f",
    "mount --bind out work; cp work/f work/k; umount work; cat work/f",
    "cd work; mount --bind ../out \"$PWD\"; cat f; cp f k",
    "cd work; mount --bind ../out \"$PWD\"; sh ../s1.sh",
    "cd work; mount -t tmpfs none \"$PWD\"; cp f k; cat k",
    "cd work; mount -t tmpfs none \"$PWD\"; echo one > \"$PWD/f\"; cat f",
    "(cd work; mount --bind ../out ../work; cp f k); cat work/f",
    "exec 5< work; mount --bind out work; cat /proc/self/fd/5/f",
    "exec 5< work; mount --bind out work; lib/call 'openat 6 5 f rdonly' 'read 6 20'",
    "exec 5< work; mount --bind out work; bin/truncate 'fchdir 5' 'open 6 f rdonly' 'read 6 20'",
    "exec 5< work/f; mount --bind out/f work/f; cat <&5; cat work/f",
    "exec 5< work/f; mount --bind out work; bin/truncate 'read 5 20'",
    "mount -t tmpfs none work; echo one > work/f; cat work/f; umount work; cat work/f",
    "mount --bind out/f work/f; cat work/f; umount work/f; cat work/f",
    "unshare -m sh -c 'mount --bind out work; cat work/f'; cat work/f",
    "unshare -m sh -c 'cd work; mount --bind ../out ../work; cat f; cp f k'; cat work/f",
];

/// Commands that wait at a gate.
const GATED: &[&str] = &[
    "(cd work && perl ../lib/gate ../g0; cat f; cp f k)",
    "(cd work && perl ../lib/gate ../g0; cp f k)",
    "(cd work && perl ../lib/gate ../g0; sh ../s1.sh)",
    "(cd work && perl ../lib/gate ../g0; cat < f; echo one > k)",
    "(cd work && perl ../lib/gate ../g0; cat ../work/f)",
    "exec 5< work; perl lib/gate g0; cat /dev/fd/5/f",
    "exec 5< work; perl lib/gate g0; bin/truncate 'openat 6 5 f rdonly' 'read 6 20'",
    "exec 5< work; perl lib/gate g0; bin/truncate 'fchdir 5' 'open 6 f rdonly' 'read 6 20'",
    "exec 5< work/f; perl lib/gate g0; cat <&5",
    "exec 5< work/f; perl lib/gate g0; lib/call 'size 5'",
    "exec 5>> work/f; perl lib/gate g0; cat src/s0.txt >&5",
    "cat work/f; perl lib/gate g0; cat work/f",
    "perl lib/gate g0; cat work/f; cp work/f work/k",
];

/// A command with the preparations that fit it.
struct Command {
    run: Run,
    preludes: Vec<&'static str>,
}

/// A directory with files, over which something is mounted now and then.
pub(super) fn case(dice: &mut Dice, seed: u64, steps: usize, tools: Tools) -> Case {
    let commands: Vec<Command> = (0..dice.range(1, 3))
        .map(|_| command(dice, tools))
        .collect();
    let steps = (0..steps)
        .map(|index| step(dice, &commands, index))
        .collect();
    Case {
        kind: "mounts".into(),
        seed,
        note: String::new(),
        pin_times: false,
        files: files(dice),
        steps,
    }
}

fn files(dice: &mut Dice) -> Vec<Entry> {
    let content = |dice: &mut Dice| script(vec![(*dice.pick(CONTENTS)).to_owned()]);
    let mut files = vec![
        entry("work/d", Node::Dir(0o755)),
        entry("out/d", Node::Dir(0o755)),
        entry("work/f", content(dice)),
        entry("out/f", content(dice)),
        entry("src/s0.txt", content(dice)),
    ];
    for (path, text) in [
        ("s1.sh", "cat f\ncp f k\n"),
        ("lib/m.mk", "all:\n\tcat f\n\tcp f k\n"),
        ("lib/gate", "open G, '<', $ARGV[0] or exit 9; flock G, 2;\n"),
    ] {
        files.push(entry(path, script(vec![text.to_owned()])));
    }
    files.push(entry("g0", script(Vec::new())));
    files.extend(programs());
    files
}

fn command(dice: &mut Dice, tools: Tools) -> Command {
    let pick = |dice: &mut Dice, lines: &[&'static str]| *dice.pick(lines);
    match dice.below(20) {
        0..7 => {
            let line = pick(dice, INSIDE);
            Command {
                run: Run {
                    cwd: "work".into(),
                    ..shell(line)
                },
                preludes: [&[""; 6][..], BEFORE_INSIDE].concat(),
            }
        }
        7..10 => Command {
            run: shell(pick(dice, WITH_DIRECTORY)),
            preludes: vec![
                "exec 5< work;",
                "exec 5< work; mount --bind out work;",
                "exec 5< work; mount -t tmpfs none work; echo one > work/f;",
                "exec 5< work; mount --bind work work;",
            ],
        },
        10..12 => Command {
            run: shell(pick(dice, WITH_FILE)),
            preludes: vec![
                "exec 5< work/f;",
                "exec 5< work/f; mount --bind out/f work/f;",
                "exec 5< work/f; mount --bind out work;",
            ],
        },
        12 => Command {
            run: Run {
                input: Input::File("work/f".into(), 0),
                ..shell(pick(dice, &["cat", "wc -c", "sort", "cat work/f -"]))
            },
            preludes: vec!["", "mount --bind out/f work/f;", "mount --bind out work;"],
        },
        13 => Command {
            run: shell(pick(dice, WITH_OUTPUT)),
            preludes: vec![
                "exec 5>> work/f;",
                "exec 5>> work/f; mount --bind out/f work/f;",
            ],
        },
        14..17 if tools.perl => Command {
            run: shell(pick(dice, GATED)),
            preludes: vec!["", "", "", "mount --bind out work;"],
        },
        _ => Command {
            run: shell(pick(dice, MOUNTING)),
            preludes: vec!["", "", "", "mount --bind out work;"],
        },
    }
}

/// A command alone is the same without a shell around.
fn shell(line: &str) -> Run {
    if line.contains(['\'', '"', ';', '|', '>', '<', '$', '&', '(']) {
        run(&["sh", "-c", line])
    } else {
        run(&line.split(' ').collect::<Vec<_>>())
    }
}

fn step(dice: &mut Dice, commands: &[Command], index: usize) -> Step {
    let mut edits = Vec::new();
    if index > 0 && dice.chance(30) {
        edits.push(Edit::Reset(None));
    }
    for _ in 0..dice.weighted(&[(30, 0), (40, 1), (30, 2)]) {
        let path = (*dice.pick(FILES)).to_owned();
        edits.push(match dice.below(8) {
            0..5 => Edit::Write(path, vec![(*dice.pick(CONTENTS)).to_owned()]),
            5..7 => Edit::Delete(path),
            _ => Edit::Swap("work".into(), "out".into()),
        });
    }
    let command = dice.pick(commands);
    let mut run = command.run.clone();
    run.prelude = (*dice.pick(&command.preludes)).into();
    let is_disturbed = run.argv.iter().any(|word| word.contains("lib/gate")) && dice.chance(60);
    Step {
        edits,
        disturbances: match is_disturbed {
            true => vec![Disturbance::Act(Moment::Gate("g0".into()), act(dice))],
            false => Vec::new(),
        },
        refreshed: is_disturbed && dice.chance(75),
        aftermath: match is_disturbed && dice.chance(30) {
            true => Aftermath::Kept,
            false => Aftermath::Restored,
        },
        run,
        ..Step::default()
    }
}

/// Makes up a mount by somebody else.
fn act(dice: &mut Dice) -> Act {
    let bind = |path: &str, over: &str| Act::Mount(path.into(), Cover::Bind(over.into()));
    match dice.below(10) {
        0..5 => bind("work", "out"),
        5 => bind("work", "work"),
        6 => bind("work/f", "out/f"),
        7 => Act::Mount("work".into(), Cover::Empty),
        8 => Act::Unmount("work".into()),
        _ => bind("out", "work"),
    }
}
