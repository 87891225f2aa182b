//! Files and directories with extended attributes and access lists, and what commands make of
//! them.

use crate::trials::differential::case::{Case, Edit, Entry, Run, Step};
use crate::trials::differential::dice::Dice;

use super::{Node, Tools, entry, run, script, snippet};

/// The attribute that holds a file's access list (acl(5)).
pub(super) const ACCESS: &str = "system.posix_acl_access";
/// The attribute that holds what files made in a directory get.
pub(super) const DEFAULT: &str = "system.posix_acl_default";

/// Commands on sources `{i}`, `{j}` and names `{o}` in directories that may have lists.
const COMMANDS: &[&str] = &[
    "mv {i} {o}",
    "mv {i} {o}",
    "mv -n {i} {o}",
    "cp {i} {o}",
    "cp -a {i} {o}",
    "cp -p {i} {o}",
    "cp --preserve=xattr {i} {o}",
    "cp --preserve=mode {i} {o}",
    "cp -r src out/copy",
    "cp -a src out/copy",
    "cp -al src out/linked",
    "install -m 640 {i} {o}",
    "install -D {i} out/n/deep/er",
    "install -d out/n out/m",
    "ln {i} {o}",
    "ln -f {i} {o}",
    "mkdir -p out/n/m",
    "mkdir out/n && echo 1 > out/n/f",
    "mkdir -m 700 out/n; echo 1 > out/n/f",
    "umask 077; mkdir -p out/n; echo 1 > out/n/f",
    "echo {w} > {o}",
    "cat {i} > {o}",
    "cat {i} > {o}; chmod 600 {o}",
    "chmod 640 {i}",
    "chmod g+w {i}",
    "chmod u+x,o-r {i}",
    "sed -i 's/a/b/' {i}",
    "perl -pi -e 's/a/b/' {i}",
    "sed -i.old 's/a/b/' {i}; mv {i}.old {o}",
    "touch {o}",
    "mkfifo out/fifo",
    "ln -s x out/soft",
    "mv src out/moved",
    "mv out/n out/m; mkdir -p out/n; cat {i} > out/n/f",
    "cat {i} > {o}; mv {o} out/last",
    "cp {i} {o}; mv {o} {i}",
    "stat -c '%A %a' {i} > {o}",
    "ls -l src | cut -c1-11",
    "find src -perm -020 | sort",
    "[ -w {i} ] && echo w; [ -x {i} ] && echo x; [ -r {i} ] && echo r",
    "tar cf - src | tar xf - -C out",
    "tar --xattrs --acls -cf - src | tar --xattrs --acls -xf - -C out 2> /dev/null; true",
    "rm -f {i}; cp {j} {i}",
    "mv {i} {o}; mv {j} {i}",
    "mv -T --exchange {i} {j} 2> /dev/null; cat {i}",
    "python3 -S -c 'import os; print(sorted((a, os.getxattr(\"{i}\", a)) for a in os.listxattr(\"{i}\")))' > {o}",
    "python3 -S -c 'import os; print(os.getxattr(\"{i}\", \"user.a\"))' > {o} 2> /dev/null || echo none",
    "python3 -S -c 'import os; os.setxattr(\"{i}\", \"user.c\", b\"3\")'; mv {i} {o}",
    "python3 -S -c 'import os; os.setxattr(\"{i}\", \"user.a\", b\"3\", os.XATTR_CREATE)' 2> /dev/null; cat {i}",
    "python3 -S -c 'import os; os.removexattr(\"{i}\", \"user.a\")' 2> /dev/null; echo $?",
    "python3 -S -c 'import os; os.makedirs(\"out/n/m\", exist_ok=True); open(\"out/n/f\", \"w\").write(\"x\")'",
];

/// A directory of files for commands that move and copy them.
pub(super) fn case(dice: &mut Dice, seed: u64, steps: usize, tools: Tools) -> Case {
    // The same times whenever the tree is brought back: a command that looks at a file's time
    // is skipped all the same.
    let mut files = vec![
        Entry {
            path: "src".into(),
            node: Node::Dir(0o755),
            age: Some(4000),
        },
        Entry {
            path: "out".into(),
            node: Node::Dir(*dice.pick(&[0o755, 0o755, 0o775, 0o2775])),
            age: Some(4000),
        },
    ];
    let sources: Vec<String> = (0..3).map(|index| format!("src/s{index}.txt")).collect();
    for path in &sources {
        files.push(Entry {
            path: path.clone(),
            node: Node::File {
                blocks: snippet::text(dice),
                mode: *dice.pick(&[0o644, 0o644, 0o664, 0o600, 0o755]),
            },
            age: Some(5000),
        });
    }
    let commands: Vec<Run> = (0..dice.range(1, 2))
        .map(|_| command(dice, &sources, tools))
        .collect();
    if let [first, ..] = &commands[..] {
        files.push(entry("s0.sh", script(vec![format!("{}\n", first.argv[2])])));
    }
    let steps = (0..steps)
        .map(|index| {
            let mut edits = Vec::new();
            if index > 0 {
                edits.push(Edit::Reset(None));
            }
            for _ in 0..dice.weighted(&[(25, 0), (45, 1), (30, 2)]) {
                edits.push(edit(dice, &sources));
            }
            // A change of an attribute is none of the content or of its time.
            Step {
                edits,
                run: if dice.chance(80) {
                    dice.pick(&commands).clone()
                } else {
                    run(&["sh", "s0.sh"])
                },
                ..Step::default()
            }
        })
        .collect();
    Case {
        kind: "attributes".into(),
        seed,
        note: String::new(),
        pin_times: false,
        files,
        steps,
    }
}

fn command(dice: &mut Dice, sources: &[String], tools: Tools) -> Run {
    let mut line = String::new();
    for index in 0..dice.weighted(&[(70, 1), (30, 2)]) {
        let template = loop {
            let template = *dice.pick(COMMANDS);
            if tools.python || !template.contains("python3") {
                break template;
            }
        };
        if index > 0 {
            line.push_str("; ");
        }
        let output = *dice.pick(&["out/a", "out/b", "out/s0.txt"]);
        line.push_str(&snippet::fill(dice, template, sources, sources, output));
    }
    run(&["sh", "-c", &line])
}

/// A change of attributes or modes alone.
pub(super) fn edit(dice: &mut Dice, sources: &[String]) -> Edit {
    let source = dice.pick(sources).clone();
    let directory = (*dice.pick(&["out", "src", "out"])).to_owned();
    match dice.below(10) {
        0..4 => {
            let name = *dice.pick(&["user.a", "user.a", "user.b"]);
            let value = *dice.pick(&[Some("31"), Some("3232"), Some(""), None]);
            Edit::Attribute(source, name.into(), value.map(String::from))
        }
        4..6 => Edit::Attribute(source, ACCESS.into(), Some(access_list(dice))),
        6..8 => Edit::Attribute(directory, DEFAULT.into(), Some(access_list(dice))),
        8 => Edit::Attribute(directory, ACCESS.into(), Some(access_list(dice))),
        _ => Edit::Attribute(directory, "user.dir".into(), Some("39".into())),
    }
}

/// An access list in the kernel's form, in hexadecimal: a version, then entries of a tag,
/// permissions and an id.
pub(super) fn access_list(dice: &mut Dice) -> String {
    const NOBODY: u32 = u32::MAX;
    let group = dice.range(4, 7) as u16;
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    let mut add = |tag: u16, permissions: u16, id: u32| {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    };
    add(0x01, 7, NOBODY); // the owner
    add(0x02, *dice.pick(&[6, 7, 0]), 1); // another user
    add(0x04, group, NOBODY); // the group
    add(0x10, *dice.pick(&[7, 6, 4]), NOBODY); // the mask
    add(0x20, *dice.pick(&[0, 4, 5]), NOBODY); // others
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_list_has_a_version_and_five_entries() {
        let list = access_list(&mut Dice::new(1));
        assert!(list.starts_with("02000000" /* version */) && list.len() == 2 * (4 + 5 * 8));
    }
}
