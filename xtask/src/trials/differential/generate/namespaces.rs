//! Commands in other namespaces and below other roots.

use crate::trials::differential::case::{Case, Edit, Step};
use crate::trials::differential::dice::Dice;

use super::{Node, Tools, common_files, entry, run, script, snippet};

/// Ways to start `{c}`, which has no apostrophe, elsewhere.
const WRAPPINGS: &[&str] = &[
    "unshare -r {c}",
    "unshare -r {c}",
    "unshare -r sh -c '{c}'",
    "unshare -r sh -c 'id -u; {c}'",
    "unshare -U {c}",
    "unshare -rm {c}",
    "unshare -rm sh -c 'mount --bind src opt; ls opt; {c}'",
    "unshare -rm sh -c 'mount --bind inc/b src; cat src/h.txt; {c}'; ls src",
    "unshare -rm sh -c 'mount -t tmpfs none opt; echo inside > opt/f; cat opt/f; {c}'; ls opt",
    "unshare -rm sh -c 'mount --bind src src; mount -o remount,bind,ro src; echo x > src/new1.txt; {c}' 2> /dev/null",
    "unshare -rn {c}",
    "unshare -ru sh -c 'hostname elsewhere; hostname; {c}'",
    "unshare -ri {c}",
    "unshare -rp --fork {c}",
    "unshare -rp --fork sh -c 'echo $$; {c}'",
    "unshare -rpm --fork --mount-proc sh -c 'ls -d /proc/1; {c}'",
    "unshare -rC {c}",
    "unshare -r unshare -r {c}",
    "unshare -r unshare -m {c}",
    "unshare -r chroot / sh -c 'cd $PWD; {c}'",
    "unshare -r sh -c 'chroot / sh -c \"cd $PWD; {c}\"'",
    "unshare -rm sh -c 'mkdir -p work/root; mount --rbind / work/root && exec chroot work/root sh -c \"cd $PWD; {c}\"'",
    "unshare -r make -s -f lib/inner.mk",
    "make -s -f lib/outer.mk",
    "unshare -r sh s0.sh",
    "unshare -r --map-user=65534 {c}",
    "setpriv --no-new-privs {c}",
    "setpriv --reuid 65534 --clear-groups {c}",
    "{c}; unshare -r {c}",
    "unshare -r {c}; {c}",
    "nsenter --user=/proc/self/ns/user --preserve-credentials {c} 2>&1 | head -n 0",
];

/// Commands that are started in another namespace.
const COMMANDS: &[&str] = &[
    "cat {i}",
    "sort {i}",
    "cp {i} out/a",
    "sh lib/helper.sh {i}",
    "lib/tool.sh {i} x",
    "lib/prog {i}",
    "sh s0.sh",
    "ls -l src/link.txt inc | wc -l",
    "head -n 1 {i}",
    "mkdir -p out/d",
    "touch out/t",
    "ln -sf x out/l",
    "id -u",
    "stat -c %u {i}",
    "gcc -c csrc/util.c -Iinc/b -o out/util.o",
    "env",
    "readlink src/link.txt",
    "perl -e \"print 1+1\"",
];

/// A directory with a script that runs commands elsewhere.
pub(super) fn case(dice: &mut Dice, seed: u64, steps: usize, tools: Tools) -> Case {
    let (mut files, sources) = common_files(dice, false);
    super::make::c_sources(dice, &mut files);
    let text = |text: &str| script(vec![text.to_owned()]);
    files.push(entry(
        "s0.sh",
        text("cat src/s0.txt; cat src/s1.txt > out/s\n"),
    ));
    files.push(entry(
        "lib/inner.mk",
        text("all:\n\tcat src/s0.txt > out/i\n\tsort src/s1.txt\n"),
    ));
    files.push(entry(
        "lib/outer.mk",
        text("all:\n\tunshare -r cat src/s0.txt > out/i\n\tunshare -r sort src/s1.txt\n"),
    ));
    files.push(entry("empty", Node::Dir(0o755)));
    let commands: Vec<_> = (0..dice.range(1, 2))
        .map(|_| {
            let command = loop {
                let command = *dice.pick(COMMANDS);
                if tools.gcc || !command.starts_with("gcc") {
                    break command;
                }
            };
            let wrapped = dice.pick(WRAPPINGS).replace("{c}", command);
            let line = snippet::fill(dice, &wrapped, &sources, &sources, "out/a");
            // A command alone is the same without a shell around.
            if line.contains(['\'', '"', ';', '|', '>', '$']) {
                run(&["sh", "-c", &line])
            } else {
                run(&line.split(' ').collect::<Vec<_>>())
            }
        })
        .collect();
    let steps = (0..steps.min(6))
        .map(|index| {
            let edits = match dice.below(6) {
                _ if index == 0 => Vec::new(),
                0..2 => vec![Edit::Reset(None)],
                2 => vec![Edit::Delete("out".into()), Edit::MakeDir("out".into())],
                3 => vec![Edit::Write(
                    dice.pick(&sources).clone(),
                    snippet::text(dice),
                )],
                _ => Vec::new(),
            };
            Step {
                edits,
                run: dice.pick(&commands).clone(),
                ..Step::default()
            }
        })
        .collect();
    Case {
        kind: "namespaces".into(),
        seed,
        note: String::new(),
        pin_times: false,
        files,
        steps,
    }
}
