//! Random cases.

mod attributes;
mod calls;
mod chance;
mod descriptors;
mod disturbed;
mod edits;
mod make;
mod mounts;
mod namespaces;
mod ninja;
mod python;
mod shell;
mod snippet;
mod times;

use std::path::Path;
use std::process::{Command, Stdio};

use super::case::{Case, Entry, Input, Node, Output, Run, Step};
use super::check::search_path;
use super::dice::Dice;
use super::mount_apart;
use super::select::{Selection, Trouble};

/// Which programs the generated projects may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tools {
    gcc: bool,
    ninja: bool,
    python: bool,
    /// Whether there is Perl.
    pub(super) perl: bool,
    /// Whether user namespaces can be made.
    pub(super) namespaces: bool,
    /// Whether a thread can have mounts of its own.
    pub(super) mounts: bool,
}

impl Tools {
    /// Looks for the optional programs where the commands will find them.
    pub(crate) fn find() -> Self {
        let there = |name: &str| {
            search_path()
                .split(':')
                .any(|dir| Path::new(dir).join(name).exists())
        };
        Self {
            gcc: there("gcc"),
            ninja: there("ninja"),
            python: there("python3"),
            perl: there("perl"),
            namespaces: Command::new("unshare")
                .args(["-rm", "true"])
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success()),
            // In a thread of its own, which takes the attempt with it.
            mounts: matches!(std::thread::spawn(mount_apart).join(), Ok(Ok(()))),
        }
    }
}

/// A generator.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Make,
    Ninja,
    Shell,
    Python,
    Chance,
    Disturbed(Trouble),
    Namespaces,
    Attributes,
    Calls,
    Times,
    Descriptors(Trouble),
    Mounts,
}

/// The files of a generator, for the edits to choose from.
struct Project {
    kind: &'static str,
    entries: Vec<Entry>,
    /// Files that commands only read.
    sources: Vec<String>,
    /// Files that commands make.
    outputs: Vec<String>,
    /// Files with pieces that edits may drop, exchange or double.
    scripts: Vec<String>,
    /// The commands that make sense here, the usual one first.
    commands: Vec<Run>,
    pin_times: bool,
}

/// Generates the case of `seed` with at most `steps` steps, of the kinds of trouble that are
/// selected.
pub(crate) fn case(seed: u64, steps: usize, tools: Tools, selection: &Selection) -> Case {
    let mut dice = Dice::new(seed);
    let dice = &mut dice;
    let mut kinds = Vec::new();
    if selection.has(Trouble::Projects) {
        kinds.extend([
            (35, Kind::Make),
            (if tools.ninja { 18 } else { 0 }, Kind::Ninja),
            (32, Kind::Shell),
            (if tools.python { 15 } else { 0 }, Kind::Python),
            (7, Kind::Chance),
        ]);
    }
    let themes = disturbed::themes(selection);
    kinds.extend(
        themes
            .iter()
            .map(|&(weight, theme)| (weight / 2, Kind::Disturbed(theme))),
    );
    for (weight, trouble, kind) in [
        (10, Trouble::Namespaces, Kind::Namespaces),
        (18, Trouble::Attributes, Kind::Attributes),
        (24, Trouble::Calls, Kind::Calls),
        (14, Trouble::Times, Kind::Times),
        (12, Trouble::Appends, Kind::Descriptors(Trouble::Appends)),
        (14, Trouble::Opens, Kind::Descriptors(Trouble::Opens)),
        (14, Trouble::Mounts, Kind::Mounts),
    ] {
        if selection.has(trouble) {
            kinds.push((weight, kind));
        }
    }
    let project = match dice.weighted(&kinds) {
        Kind::Make => make::project(dice, tools),
        Kind::Ninja => ninja::project(dice, tools),
        Kind::Shell => shell::project(dice, tools),
        Kind::Python => python::project(dice),
        Kind::Chance => return chance::case(dice, seed, tools),
        Kind::Disturbed(theme) => return disturbed::case(dice, seed, steps, tools, theme),
        Kind::Namespaces => return namespaces::case(dice, seed, steps, tools),
        Kind::Attributes => return attributes::case(dice, seed, steps, tools),
        Kind::Calls => return calls::case(dice, seed, steps, tools),
        Kind::Times => return times::case(dice, seed, steps, tools),
        Kind::Descriptors(kind) => return descriptors::case(dice, seed, steps, tools, kind),
        Kind::Mounts => return mounts::case(dice, seed, steps, tools),
    };
    // Most steps have the same surroundings, or nothing would ever be a hit.
    let mut usual = Run::default();
    vary(dice, &project, &mut usual);
    usual.options.clear();
    let steps = (0..steps)
        .map(|index| step(dice, &project, &usual, index))
        .collect();
    Case {
        kind: project.kind.into(),
        seed,
        note: String::new(),
        pin_times: project.pin_times,
        files: project.entries,
        steps,
    }
}

fn step(dice: &mut Dice, project: &Project, usual: &Run, index: usize) -> Step {
    // Sometimes the same again, untouched: nothing to do must do nothing.
    let edits = if index == 0 || dice.chance(15) {
        Vec::new()
    } else {
        edits::edits(dice, project)
    };
    let mut run = if dice.chance(65) {
        project.commands[0].clone()
    } else {
        dice.pick(&project.commands).clone()
    };
    if dice.chance(8) {
        let inputs = [project.sources.as_slice(), &project.outputs].concat();
        let output = dice.pick(&project.outputs).clone();
        let one = snippet::make_file(dice, &inputs, &project.sources, &output, project.pin_times);
        run = Run {
            argv: words(&["sh", "-c", &format!("mkdir -p out work; {one}")]),
            ..Run::default()
        };
    }
    if dice.chance(30) {
        vary(dice, project, &mut run);
    } else {
        run.env.extend(usual.env.clone());
        run.prelude.clone_from(&usual.prelude);
        if run.input == Input::Null {
            run.input = usual.input.clone();
        }
        if !run.unordered {
            run.output = usual.output.clone();
        }
    }
    Step {
        edits,
        run,
        ..Step::default()
    }
}

/// Varies what surrounds a command: environment, streams, options.
fn vary(dice: &mut Dice, project: &Project, run: &mut Run) {
    if dice.chance(30) {
        run.env
            .insert("VAR_A".into(), (*dice.pick(&["one", "two", ""])).into());
    }
    if dice.chance(10) {
        run.env
            .insert("VAR_B".into(), (*dice.pick(&["x", "y z"])).into());
    }
    if dice.chance(4) {
        run.env.insert("PCACHE_DISABLE".into(), "1".into());
    }
    if run.input == Input::Null && dice.chance(20) {
        run.input = if dice.chance(50) {
            Input::Pipe(snippet::text(dice).concat())
        } else {
            Input::File(
                dice.pick(&project.sources).clone(),
                if dice.chance(30) { 3 } else { 0 },
            )
        };
    }
    run.output = match dice.below(100) {
        _ if run.unordered => Output::Pipes,
        0..55 => Output::Pipes,
        55..75 => Output::OnePipe,
        75..83 => Output::Files,
        83..91 => Output::OneFile,
        91..94 => Output::Append,
        94..97 => Output::TwoAppends,
        _ => Output::Tree("captured.log".into()),
    };
    if dice.chance(6) {
        run.prelude = (*dice.pick(&[
            "umask 027;",
            "umask 077;",
            "ulimit -n 100;",
            "exec <&-;",
            "exec 5> extra.log;",
            "exec 6< src/s0.txt;",
            "exec 3< src/s0.txt;",
            "trap '' PIPE;",
        ]))
        .into();
    }
    if dice.chance(5) {
        run.options
            .push((*dice.pick(&["--refresh", "--read-only"])).into());
    }
}

/// Directories and files that every project has: sources, an include path of
/// three directories, and helpers.
fn common_files(dice: &mut Dice, pin_times: bool) -> (Vec<Entry>, Vec<String>) {
    let mut entries = Vec::new();
    let mut sources = Vec::new();
    let dated = |dice: &mut Dice| {
        (pin_times || dice.chance(40))
            .then(|| *dice.pick(&[0, 60, 3600, 86_400, 100_000_000, 300_000_000]))
    };
    for index in 0..dice.range(2, 5) {
        let path = format!("src/s{index}.txt");
        let age = dated(dice);
        entries.push(Entry {
            path: path.clone(),
            node: file(snippet::text(dice), dice),
            age,
        });
        sources.push(path);
    }
    if dice.chance(40) {
        let to = dice.pick(&sources).trim_start_matches("src/").to_owned();
        entries.push(Entry {
            path: "src/link.txt".into(),
            node: Node::Symlink(to),
            age: dated(dice),
        });
        sources.push("src/link.txt".into());
    }
    if dice.chance(12) {
        let to = dice.pick(&sources[..2]).clone();
        entries.push(Entry {
            path: "src/hard.txt".into(),
            node: Node::HardLink(to),
            age: None,
        });
        sources.push("src/hard.txt".into());
    }
    for dir in ["inc/a", "inc/b", "inc/c", "opt", "out", "work"] {
        entries.push(Entry {
            path: dir.into(),
            node: Node::Dir(0o755),
            age: None,
        });
    }
    for dir in ["inc/b", "inc/c"] {
        let path = format!("{dir}/h.txt");
        entries.push(Entry {
            path: path.clone(),
            node: file(vec![format!("header of {dir}\n")], dice),
            age: dated(dice),
        });
        sources.push(path);
    }
    for (path, text, mode) in [
        ("lib/helper.sh", "echo helped; sort \"$1\"\n", 0o644),
        (
            "lib/tool.sh",
            "#!/bin/sh\necho \"tool $2\"; cat \"$1\"\n",
            0o755,
        ),
        ("lib/vars.sh", "CONF=${VAR_A:-none}\n", 0o644),
    ] {
        let node = Node::File {
            blocks: vec![text.into()],
            mode,
        };
        entries.push(Entry {
            path: path.into(),
            node,
            age: dated(dice),
        });
    }
    let program = (*dice.pick(PROGRAMS)).to_owned();
    entries.push(Entry {
        path: "lib/prog".into(),
        node: Node::Program(program),
        age: dated(dice),
    });
    (entries, sources)
}

/// Programs that `lib/prog` is a copy of, each in its turn.
const PROGRAMS: &[&str] = &["/usr/bin/sort", "/usr/bin/tac", "/usr/bin/cat"];

fn file(blocks: Vec<String>, dice: &mut Dice) -> Node {
    Node::File {
        blocks,
        mode: *dice.pick(&[0o644, 0o644, 0o644, 0o600, 0o755, 0o664]),
    }
}

fn script(blocks: Vec<String>) -> Node {
    Node::File {
        blocks,
        mode: 0o755,
    }
}

fn entry(path: &str, node: Node) -> Entry {
    Entry {
        path: path.into(),
        node,
        age: None,
    }
}

fn run(argv: &[&str]) -> Run {
    Run {
        argv: words(argv),
        ..Run::default()
    }
}

fn words(argv: &[&str]) -> Vec<String> {
    argv.iter().map(|&word| word.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOLS: Tools = Tools {
        gcc: true,
        ninja: true,
        python: true,
        perl: true,
        namespaces: true,
        mounts: true,
    };

    #[test]
    fn only_the_selected_kinds_are_generated() {
        let kinds = |selection: &Selection| {
            let kinds = (0..100).map(|seed| case(seed, 3, TOOLS, selection).kind);
            kinds.collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(
            kinds(&Selection::new(&[Trouble::Calls, Trouble::Locks], &[])),
            ["calls", "disturbed"].map(String::from).into()
        );
        assert_eq!(
            kinds(&Selection::new(&[Trouble::Times], &[])),
            ["times".to_owned()].into()
        );
    }

    #[test]
    fn a_disturbed_case_has_disturbances_of_its_kind_alone() {
        let signals = Selection::new(&[Trouble::Signals], &[]);
        for seed in 0..50 {
            let case = case(seed, 4, TOOLS, &signals);
            let all = case.steps.iter().flat_map(|step| &step.disturbances);
            for disturbance in all {
                assert!(
                    matches!(
                        disturbance,
                        super::super::disturb::Disturbance::Act(
                            _,
                            super::super::disturb::Act::Signal(..)
                        )
                    ),
                    "{disturbance:?}"
                );
            }
            assert!(!case.steps[0].disturbances.is_empty());
        }
    }

    #[test]
    fn a_seed_makes_one_case_that_survives_json() {
        let all = Selection::new(&[], &[]);
        for seed in 0..200 {
            let made = case(seed, 4, TOOLS, &all);
            assert_eq!(made, case(seed, 4, TOOLS, &all));
            let json = serde_json::to_string(&made).unwrap();
            assert_eq!(serde_json::from_str::<Case>(&json).unwrap(), made);
        }
    }

    #[test]
    fn no_template_is_left_unfilled() {
        let all = Selection::new(&[], &[]);
        for seed in 0..500 {
            let json = serde_json::to_string(&case(seed, 3, TOOLS, &all)).unwrap();
            for part in [
                "{i}", "{j}", "{o}", "{n}", "{w}", "{s}", "{r}", "{p}", "{l}", "{g}", "{c}", "{a}",
                "{b}", "{t}",
            ] {
                assert!(!json.contains(part), "{part} in the case of seed {seed}");
            }
        }
    }
}
