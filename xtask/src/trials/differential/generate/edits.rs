//! Random changes between two runs.

use crate::trials::differential::case::{Edit, Node};
use crate::trials::differential::dice::Dice;

use super::{PROGRAMS, Project, snippet};

/// One to three edits.
pub(super) fn edits(dice: &mut Dice, project: &Project) -> Vec<Edit> {
    let count = dice.weighted(&[(70, 1), (22, 2), (8, 3)]);
    (0..count).map(|_| edit(dice, project)).collect()
}

fn edit(dice: &mut Dice, project: &Project) -> Edit {
    let source = dice.pick(&project.sources).clone();
    let output = dice.pick(&project.outputs).clone();
    let either = if dice.chance(50) {
        source.clone()
    } else {
        output.clone()
    };
    match dice.below(120) {
        0..10 => Edit::Write(source, snippet::text(dice)),
        10..15 => Edit::Replace(source, snippet::text(dice)),
        15..19 => Edit::Append(source, "appended\n".into()),
        // Back to what it was, with a new time: results of then hold again.
        19..29 => original(dice, project),
        29..34 => Edit::Sneak(source),
        34..40 => Edit::Touch(source),
        40..43 => Edit::Touch(output),
        43..47 => Edit::TouchAge(either, *dice.pick(&[5, 86_400, 200_000_000])),
        47..56 => Edit::Delete(output),
        56..63 => Edit::Delete("out".into()),
        63..66 => Edit::Write(output, vec!["by hand\n".into()]),
        66..68 => Edit::Sneak(output),
        68..72 => Edit::Write(
            "inc/a/h.txt".into(),
            vec![format!("earlier {}\n", dice.below(3))],
        ),
        72..74 => Edit::Delete("inc/a/h.txt".into()),
        74..76 => Edit::Write("opt/extra.txt".into(), snippet::text(dice)),
        76..78 => Edit::Write(format!("src/new{}.txt", dice.below(3)), snippet::text(dice)),
        78..80 => Edit::Delete(source),
        80..83 => Edit::Chmod(either, *dice.pick(&[0o644, 0o755, 0o600, 0o444])),
        83..84 => Edit::Chmod("out".into(), *dice.pick(&[0o755, 0o700])),
        // A source that is written through a link gets the time of that; so
        // not where times are shown.
        84..86 if !project.pin_times => Edit::Symlink(
            either,
            (*dice.pick(&["s0.txt", "nowhere", "../src/s1.txt", "../inc/b/h.txt"])).into(),
        ),
        // Not where rules run at the same time: whoever writes the output
        // then writes what others read, in whatever order. And not where times
        // are shown: a source gets that of its other name.
        86..87 if project.kind != "make" && !project.pin_times => Edit::HardLink(output, source),
        87..88 => Edit::Rename(source.clone(), format!("{source}.old")),
        88..89 => Edit::Rename(format!("{source}.old"), source),
        89..91 => Edit::Swap(source, dice.pick(&project.sources).clone()),
        91..94 => rearrange(dice, project),
        94..95 => Edit::MakeDir((*dice.pick(&["out", "opt", "inc/a/h.txt", "work/dir"])).into()),
        95..96 => Edit::Crash(dice.range(1, 60) as u64),
        // The same names, and something else behind them.
        96..100 => Edit::Install("lib/prog".into(), (*dice.pick(PROGRAMS)).into()),
        100..103 => Edit::Chmod(source, *dice.pick(&[0o644, 0o755])),
        103..106 => Edit::Symlink(
            "src/link.txt".into(),
            (*dice.pick(&["s0.txt", "s1.txt"])).into(),
        ),
        106..109 if !project.pin_times => Edit::Symlink(
            output,
            (*dice.pick(&["../src/s1.txt", "elsewhere.txt"])).into(),
        ),
        109..111 if project.kind != "make" && !project.pin_times => Edit::HardLink(output, source),
        111..113 => tool(dice),
        _ => Edit::Reset(*dice.pick(&[None, Some(1000), Some(50_000_000)])),
    }
}

/// Another script where the helper was.
fn tool(dice: &mut Dice) -> Edit {
    let line = *dice.pick(&[
        "echo other; head -n 1 \"$1\"\n",
        "echo \"tool $2\"; cat \"$1\"\n",
    ]);
    let path = *dice.pick(&["lib/tool.sh", "lib/helper.sh"]);
    Edit::Write(path.into(), vec!["#!/bin/sh\n".into(), line.into()])
}

/// Writes a starting file's own content again.
fn original(dice: &mut Dice, project: &Project) -> Edit {
    let entry = dice.pick(&project.entries);
    match &entry.node {
        Node::File { blocks, .. } => Edit::Write(entry.path.clone(), blocks.clone()),
        _ => Edit::Reset(None),
    }
}

/// Changes a script or build file: a piece less, twice, or elsewhere.
fn rearrange(dice: &mut Dice, project: &Project) -> Edit {
    let path = dice.pick(&project.scripts).clone();
    let blocks = project
        .entries
        .iter()
        .find(|entry| entry.path == path)
        .map(|entry| &entry.node);
    let Some(Node::File { blocks, .. }) = blocks else {
        return Edit::Touch(path);
    };
    let mut blocks = blocks.clone();
    if blocks.len() > 2 {
        // The first piece holds what all others need.
        let at = dice.range(1, blocks.len() - 1);
        let block = blocks.remove(at);
        match dice.below(3) {
            0 => {}
            1 => blocks.push(block),
            _ => blocks.insert(1, block),
        }
    }
    if dice.chance(50) {
        Edit::Write(path, blocks)
    } else {
        Edit::Replace(path, blocks)
    }
}
