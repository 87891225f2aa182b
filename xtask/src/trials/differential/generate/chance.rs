//! Commands whose result must never be reused: they ask for the time or for
//! something random and keep the answer.

use crate::trials::differential::case::{Case, Edit, Run, Step};
use crate::trials::differential::dice::Dice;

use super::{Tools, common_files, entry, script, words};

/// Programs that answer differently each time, fine enough for runs that
/// follow each other closely. Process ids are not among them: every shell asks
/// for its own when it starts, and what it does with it cannot be seen.
const SOURCES: &[&str] = &[
    "date +%N",
    "date +%s.%N",
    "head -c 8 /dev/urandom | od -An -tx1",
    "head -c 8 /dev/random | od -An -tx1",
    "cat /proc/sys/kernel/random/uuid",
    "bash -c 'echo $RANDOM$RANDOM$RANDOM'",
    "bash -c 'echo $EPOCHREALTIME'",
    "bash -c 'echo $SRANDOM'",
    "mktemp -u XXXXXXXXXX",
    "shuf -i 1-1000000000 -n 2",
    "python3 -S -c 'import time; print(time.time_ns())'",
    "python3 -S -c 'import time; print(time.monotonic_ns())'",
    "python3 -S -c 'import random; print(random.random())'",
    "python3 -S -c 'import os; print(os.urandom(8))'",
    "python3 -S -c 'import uuid; print(uuid.uuid4())'",
    "perl -MTime::HiRes=time -e 'printf \"%.6f\", time'",
    "perl -e 'print rand'",
];

/// Ways to keep the answer in `x.txt`.
const WRAPPINGS: &[&str] = &[
    "{c} > x.txt",
    "v=$({c}); echo \"$v\" > x.txt",
    "{c} | cat > x.txt",
    "{c} | tee x.txt > /dev/null",
    "({c}) > x.tmp; mv x.tmp x.txt",
    "rm -f x.txt; {c} >> x.txt",
    "sh one.sh > x.txt",
    "sh one.sh | sh -c 'cat > x.txt'",
    "cat src/s0.txt > y.txt; {c} > x.txt; wc -c < y.txt",
];

/// A directory with a script, run several times over.
pub(super) fn case(dice: &mut Dice, seed: u64, _tools: Tools) -> Case {
    let (mut files, sources) = common_files(dice, false);
    let source = *dice.pick(SOURCES);
    let command = dice.pick(WRAPPINGS).replace("{c}", source);
    // Files with random names would differ between the sides.
    let command = format!("{command}; rm -f tmp.*");
    files.push(entry("one.sh", script(vec![format!("{source}\n")])));
    files.push(entry("probe.sh", script(vec![format!("{command}\n")])));
    files.push(entry(
        "Makefile",
        script(vec!["x.txt: FORCE\n\t@sh probe.sh\nFORCE:\n".into()]),
    ));
    let argv: &[&str] = match dice.below(4) {
        0 => &["sh", "-c", &command],
        1 => &["sh", "probe.sh"],
        2 => &["make", "-s"],
        _ => &["sh", "-c", "sort src/s0.txt > z.txt; sh probe.sh"],
    };
    let run = Run {
        argv: words(argv),
        chance: Some("x.txt".into()),
        ..Run::default()
    };
    let edit = match dice.below(3) {
        0 => Edit::Touch(dice.pick(&sources).clone()),
        1 => Edit::Delete("x.txt".into()),
        _ => Edit::Reset(None),
    };
    let steps = vec![
        Step {
            edits: Vec::new(),
            run: run.clone(),
            ..Step::default()
        },
        Step {
            edits: vec![edit],
            run,
            ..Step::default()
        },
    ];
    Case {
        kind: "chance".into(),
        seed,
        note: String::new(),
        pin_times: false,
        files,
        steps,
    }
}
