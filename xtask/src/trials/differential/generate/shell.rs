//! Shell scripts: sequences of statements with every kind of side effect.

use crate::trials::differential::case::{Entry, Input, Run};
use crate::trials::differential::dice::Dice;

use super::{Project, Tools, common_files, entry, run, script, snippet};

/// Statements that print, consume, change or end something.
const EFFECTS: &[&str] = &[
    "echo {w}",
    "echo {w} >&2",
    "printf no-newline",
    "cat {i}",
    "cat {i} >&2",
    "(echo a; echo b >&2; echo c)",
    "echo piped | cat >&2",
    "ls work out",
    "cat missing.txt",
    "sh -c 'echo in; echo err >&2; exit 3'; echo \"status $?\"",
    "echo {w} >> log.txt",
    "cat {i} >> log.txt",
    "cat {i} >> work/log.txt; wc -l work/log.txt",
    "cp {i} work/a.txt",
    "[ -e work/a.txt ] && mv work/a.txt work/b.txt",
    "mv work/b.txt work/c.txt 2> /dev/null",
    // Else a link of an earlier copy is written through, in the order of inodes.
    "cp -r --remove-destination src work/copy{n}",
    "rm -rf work/copy{n}",
    "mkdir -p work/d/e/f; echo {w} > work/d/e/f/g",
    "rm -f work/d/e/f/g; rmdir work/d/e/f",
    "mv work/d work/moved{n} 2>&1",
    "(mkdir work/in; cd work/in && mv ../in ../in{n} && mkdir ../in; cp ../../{i} f; cat f)",
    "ln -sfn ../src work/dirlink; cat work/dirlink/s0.txt",
    "ln -f {i} work/hard.txt",
    "ln -sf \"$PWD\"/{i} work/soft.txt; cat work/soft.txt",
    "ln work/hard.txt work/hard{n}.txt",
    "echo {w} > work/hard.txt",
    "chmod 600 work/* 2> /dev/null",
    "chmod -R go-rx work; ls -l work | cut -c1-10",
    "sed -i 's/a/{w}/' work/*.txt",
    "sed -i.bak '1d' work/a.txt",
    "echo {w} | tee -a work/tee.txt work/tee2.txt",
    "rm -f out/*",
    "rm -f work/*.txt",
    "find work -type f | sort",
    "find work -name '*.bak' -delete",
    "find . -type l | sort | xargs -r readlink",
    "[ -d work/d ] && echo directory || echo none",
    "ls -a . | head -n 20",
    "for f in work/*; do echo \"$f\"; done",
    "touch -d '2019-05-06 07:08:09' work/old.txt; stat -c '%Y' work/old.txt",
    "mkdir work/once || echo again",
    "cat <<END > work/here.txt\nhere {w} $VAR_A\nEND",
    "cat <<'END'\nquoted $VAR_A\nEND",
    "read -r line; echo \"got $line\"",
    "head -n 1",
    "cat",
    "wc -c",
    "sh -c 'read -r x; echo \"inner $x\"'",
    "(read -r x; echo \"sub $x\") < {i}",
    "sort < {i} | while read -r x; do echo \"- $x\"; done",
    "x=$(cat {i}; echo err >&2); echo \"${#x}\"",
    "x=`sh lib/helper.sh {i}`; echo \"$x\"",
    "echo \"args $# $1 $2\"",
    "echo \"$0\"",
    "cd src; ls; cd ..",
    "(cd work && pwd)",
    "exec 4>> log.txt; echo four >&4; exec 4>&-",
    "exec 2>&1",
    "exec 4< {i}; read -r a <&4; sh -c 'head -c 3 <&4; cat <&4'; exec 4<&-; echo \"$a\"",
    "exec 4> work/shared.txt; echo one >&4; sh -c 'echo two >&4'; echo three >&4; exec 4>&-",
    "{ echo one; sh -c 'echo two'; echo three; } > work/shared2.txt",
    "sh -c 'echo again >> work/shared2.txt'; cat work/shared2.txt",
    "rm -f work/p; mkfifo work/p; echo through > work/p & cat work/p; wait",
    "seq 1 30000 | sh -c 'head -n 2; echo rest'",
    "sh -c 'sh -c \"kill -TERM \\$\\$\"; echo \"signalled $?\"'",
    "sh -c 'trap \"echo caught\" USR1; kill -USR1 $$; echo after'",
    "(sleep 0.02; echo late >> log.txt) & wait",
    "set -- $(ls src); echo \"$#\"",
    "test -t 1 && echo tty || echo no tty",
    "cp lib/tool.sh work/mytool; chmod +x work/mytool; work/mytool {i} mine",
    "echo 'echo sourced' > work/s.sh; . ./work/s.sh",
    "umask; ulimit -n",
    "export VAR_C={w}; sh -c 'echo $VAR_C'",
    "env -i sh -c 'echo bare'",
    "truncate -s 5 work/a.txt; cat work/a.txt",
    "dd if={i} of=work/dd.txt bs=2 skip=1 seek=2 conv=notrunc 2> /dev/null; cat work/dd.txt",
    "cmp {i} work/a.txt; echo \"cmp $?\"",
    "cat {i} > work/a.txt; cat work/a.txt > work/b.txt; rm work/a.txt",
    "echo {w} > work/x.tmp; mv work/x.tmp work/x; rm -f work/y.tmp",
    "gzip -nkf {i} -c > work/z.gz; gzip -dc work/z.gz | wc -c",
    "cat {i} | sh -c 'cat > work/q.txt; cat work/q.txt' | sort -r",
    "for k in 1 2 3; do sh -c \"echo $k; echo e$k >&2\"; done",
    "python3 -S -c 'import sys; print(len(sys.stdin.read()))' < {i}",
    "bash -c 'exec 3<&0; read -ru3 x; echo \"three $x\"' < {i}",
    "bash -c 'exec 5<&0; read -ru5 x; echo \"five $x\"'",
    "bash -c 'read -ru4 x; echo \"four $x\"' 4< {i}",
    "cat {i} | bash -c 'exec 4<&0; read -ru4 x; echo \"piped $x\"'",
    "python3 -S -c 'import os; print(len(os.pread(0, 99, 1)))' < {i}",
    "python3 -S -c 'import os; print(os.pread(7, 99, 2))' 7< {i}",
];

/// Statements that end the script, rarely used.
const ENDS: &[&str] = &[
    "exit 0",
    "exit {n}",
    "exec cat {i}",
    "false",
    "sh -c 'exit 7'",
    "exec sh lib/helper.sh {i}",
    "kill -TERM $$",
    "kill -KILL $$",
];

/// How many of them leave no signal behind.
const INNER_ENDS: usize = 6;

/// A command whose outcome depends on where it runs.
const ELSEWHERE: &[&str] = &["sh", "-c", "pwd; echo $((1 + 1)) > here.txt; cat h.txt"];

/// A statement for a script.
pub(super) fn statement(
    dice: &mut Dice,
    inputs: &[String],
    sources: &[String],
    pin_times: bool,
) -> String {
    if dice.chance(45) {
        let output = format!("out/p{}.txt", dice.below(4));
        let made = snippet::make_file(dice, inputs, sources, &output, pin_times);
        // Some templates change the shell they run in; in a script that would
        // end everything after them.
        format!("({made})\n")
    } else {
        let template = dice.pick(EFFECTS);
        format!(
            "{}\n",
            snippet::fill(dice, template, inputs, sources, "out/p0.txt")
        )
    }
}

/// A directory with one to three scripts that call each other.
pub(super) fn project(dice: &mut Dice, _tools: Tools) -> Project {
    let pin_times = dice.chance(30);
    let (mut entries, sources) = common_files(dice, pin_times);
    let outputs: Vec<String> = [
        "out/p0.txt",
        "out/p1.txt",
        "work/a.txt",
        "log.txt",
        "work/x",
        "out/p2.txt",
    ]
    .map(String::from)
    .to_vec();
    let mut inputs = sources.clone();
    inputs.extend(["out/p0.txt".into(), "out/p1.txt".into()]);
    let mut scripts = Vec::new();
    let count = dice.range(1, 3);
    for index in 0..count {
        let mut blocks = vec![
            if dice.chance(30) {
                "#!/bin/bash\n"
            } else {
                "#!/bin/sh\n"
            }
            .to_owned(),
        ];
        if dice.chance(15) {
            blocks.push("set -e\n".into());
        }
        blocks.push("mkdir -p out work\n".into());
        for _ in 0..dice.range(2, 9) {
            if index + 1 < count && dice.chance(20) {
                let how = dice.pick(&[
                    "sh s{r}.sh",
                    "./s{r}.sh x",
                    ". ./s{r}.sh",
                    "(sh s{r}.sh; true) 2>&1 | cat",
                    // Not into another name of a file that it reads, and none
                    // that it truncates while `cat` above still writes to it.
                    "rm -f out/s{r}.txt; sh s{r}.sh > out/s{r}.txt 2>&1",
                ]);
                blocks.push(format!(
                    "{}\n",
                    how.replace("{r}", &(index + 1).to_string())
                ));
            } else {
                blocks.push(statement(dice, &inputs, &sources, pin_times));
            }
        }
        if dice.chance(20) {
            // bash tells the process id of a script that it saw killed.
            let ends = if index == 0 {
                ENDS
            } else {
                &ENDS[..INNER_ENDS]
            };
            let template = dice.pick(ends);
            blocks.push(format!(
                "{}\n",
                snippet::fill(dice, template, &inputs, &sources, "")
            ));
        }
        let path = format!("s{index}.sh");
        entries.push(Entry {
            path: path.clone(),
            ..entry("", script(blocks))
        });
        scripts.push(path);
    }
    let mut commands = vec![
        run(&["sh", "s0.sh"]),
        run(&["sh", "s0.sh", "one", "two"]),
        run(&["./s0.sh"]),
        run(&["bash", "s0.sh", "one"]),
        run(&["sh", "-e", "s0.sh"]),
        // Who tells that it was killed does so before sort prints.
        run(&["sh", "-c", "{ sh s0.sh; echo $?; } | sort"]),
        run(&["sh", "-c", "sh s0.sh > work/all.log 2>&1; echo $?"]),
        run(&["sh", "-c", "rm -rf out work log.txt; mkdir out work"]),
        run(&["missing-program"]),
        run(&["./lib/vars.sh"]),
        Run {
            cwd: "src".into(),
            ..run(&["sh", "../lib/helper.sh", "s0.txt"])
        },
        // The same words elsewhere.
        Run {
            cwd: "src".into(),
            ..run(ELSEWHERE)
        },
        Run {
            cwd: "inc/b".into(),
            ..run(ELSEWHERE)
        },
        run(ELSEWHERE),
        Run {
            cwd: "work".into(),
            ..run(&["sh", "-c", "cd .. && sh s0.sh"])
        },
        Run {
            input: Input::Pipe("line one\nline two\nline three\n".into()),
            ..run(&["sh", "s0.sh"])
        },
        Run {
            input: Input::File("src/s0.txt".into(), 0),
            ..run(&["sh", "-c", "read -r x; sh s0.sh; echo \"$x\""])
        },
        Run {
            prelude: "exec 4< src/s0.txt;".into(),
            ..run(&["bash", "-c", "read -ru4 x; echo \"four $x\"; sh s0.sh"])
        },
        Run {
            input: Input::Pipe("line four\nline five\n".into()),
            ..run(&["bash", "-c", "exec 3<&0; read -ru3 x; echo \"three $x\""])
        },
    ];
    for argv in [
        &["sort", "src/s0.txt", "src/s1.txt"][..],
        &["cp", "src/s0.txt", "work/a.txt"],
        &["cat"],
        &["sed", "-i", "s/a/b/", "work/a.txt"],
        &["mv", "work/a.txt", "work/b.txt"],
        &["rm", "-rf", "work"],
        &["ln", "-s", "src", "srclink"],
        &["tee", "-a", "log.txt"],
        &["head", "-n", "1"],
        &["false"],
        &["sh", "-c", "kill -KILL $$"],
    ] {
        if dice.chance(30) {
            commands.push(run(argv));
        }
    }
    Project {
        kind: "shell",
        entries,
        sources,
        outputs,
        scripts,
        commands,
        pin_times,
    }
}
