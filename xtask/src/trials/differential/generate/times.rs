//! Commands that make files one after another, and the order of their times.

use crate::trials::differential::case::{Case, Edit, Entry, Step};
use crate::trials::differential::dice::Dice;

use super::{Node, Tools, entry, run, script};

/// Commands that make `{o}`, whose time is then the present, from `{i}`. Those that stand twice are
/// chosen more often.
const MAKERS: &[&str] = &[
    "cat {i} > {o}",
    "cp {i} {o}",
    "echo made > {o}",
    "ln -s x {o}",
    "ln -s x {o}",
    "ln -sfn x {o}",
    "touch {o}",
    "mkdir {o}",
    "mkfifo {o}",
    "cat {i} > {o}.new; mv {o}.new {o}",
    "cp -a {i} {o}; touch {o}",
    "ln -s x {o}; touch -h {o}",
    "sort {i} | cat > {o}",
    "sh -c 'cat {i} > {o}'",
    "mkdir -p {o}; touch {o}/in",
    ": > {o}; echo more >> {o}",
    "cat {i} > {o}; sleep 0.02; mv {o} {o}.new; mv {o}.new {o}",
    "cat {i} > {o}; sleep 0.02; mv {o} {o}.new; mv {o}.new {o}",
    "cat {i} > {o}; sleep 0.02; rm -f out/gone; echo made > out/late",
    "cat {i} > {o}; sleep 0.02; rm -f out/gone; echo made > out/late",
];

/// Between two commands: longer than the clock of the file system ticks apart.
const PAUSE: &str = "sleep 0.02\n";

/// A directory with a script that makes a chain of files.
pub(super) fn case(dice: &mut Dice, seed: u64, steps: usize, _tools: Tools) -> Case {
    let source = "src/s0.txt";
    // A command that makes one file in a directory that was there has no order of its own.
    let is_kept = dice.chance(50);
    let mut blocks = match is_kept {
        true => vec![PAUSE.to_owned()],
        false => vec!["mkdir -p out\n".to_owned(), PAUSE.to_owned()],
    };
    let count = match is_kept && dice.chance(60) {
        true => 1,
        false => dice.range(1, 3),
    };
    let mut order = vec![source.to_owned()];
    for index in 0..count {
        let output = format!("out/t{index}");
        let template = *dice.pick(MAKERS);
        let made = template.replace("{i}", source).replace("{o}", &output);
        blocks.push(match dice.below(4) {
            0 if index > 0 => format!("[ {output} -nt {} ] || {{ {made}; }}\n", order[index]),
            1 => format!("(\n{made}\n)\n"),
            _ => format!("{made}\n"),
        });
        blocks.push(PAUSE.to_owned());
        order.push(output);
    }
    // Names that are made or removed in it change its time.
    order.push("out".to_owned());
    let contents = ["one\n", "two\n", "three\n"];
    let mut files = vec![
        Entry {
            path: source.into(),
            node: Node::File {
                blocks: vec![contents[0].into()],
                mode: 0o644,
            },
            age: None,
        },
        entry("s0.sh", script(blocks)),
        entry(
            "Makefile",
            script(vec![format!(
                "all:\n\t@sh s0.sh\n\t@[ {} -nt {source} ] && echo newer\n",
                order[1]
            )]),
        ),
    ];
    if is_kept {
        files.push(entry("out", Node::Dir(0o755)));
    }
    let removed: Vec<Edit> = match is_kept {
        true => order[1..=count].iter().cloned().map(Edit::Delete).collect(),
        false => vec![Edit::Delete("out".into())],
    };
    let command = if dice.chance(30) {
        run(&["make"])
    } else {
        run(&["sh", "s0.sh"])
    };
    let steps = (0..steps.min(5))
        .map(|index| {
            let write = Edit::Write(source.into(), vec![contents[index % 2].into()]);
            // Outputs go first: what was edited last is what a run's outputs are newer than.
            let mut edits = removed.clone();
            match dice.below(6) {
                0..4 => edits.push(write),
                4 => edits.push(Edit::Touch(source.into())),
                _ => edits = vec![write],
            }
            Step {
                edits,
                hasty: dice.chance(75),
                run: command.clone(),
                order: order.clone(),
                ..Step::default()
            }
        })
        .collect();
    Case {
        kind: "times".into(),
        seed,
        note: String::new(),
        pin_times: false,
        files,
        steps,
    }
}
