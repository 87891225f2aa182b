//! Scripts with gates, at which others disturb them.
//!
//! A few statements work on a few files, so that what others do meets them. Between them
//! stand gates: a program that waits for the lock of a file. A run that nobody disturbs finds
//! the lock free.

use crate::trials::differential::case::{Aftermath, Case, Edit, Run, Step};
use crate::trials::differential::dice::Dice;
use crate::trials::differential::disturb::{Act, Condition, Disturbance, Lock, Moment, Signal};
use crate::trials::differential::select::{Selection, Trouble};
use crate::trials::errors::injectable;

use super::descriptors;
use super::{Node, PROGRAMS, Project, Tools, common_files, entry, run, script, snippet};

/// Files that the statements work on.
const FILES: &[&str] = &["out/a", "out/b", "work/c"];

/// Statements on `{o}` and `{p}`, which are among [`FILES`], and a source `{i}`.
const STATEMENTS: &[&str] = &[
    "echo {w} > {o}",
    "echo {w} >> {o}",
    "cat {i} > {o}",
    "cat {i} >> {o}",
    "cat {o} > {p}",
    "cat {o} >> {p}",
    "cat {o}",
    "cp {i} {o}",
    "cp -p {o} {p}",
    "mv {o} {p}",
    "cat {i} >> {o}; cat {o} > {p}; echo {w} > {o}",
    ": >> {o}; wc -c < {o} >> {p}; cp {i} {o}",
    "echo {w} >> {o}; truncate -s 3 {o}",
    "cat {i} > {o}.new; mv {o}.new {o}",
    "rm -f {o}",
    "[ -e {o} ] && echo there >> {p} || echo none >> {p}",
    "[ -x {o} ] && echo x > {p} || echo - > {p}",
    "sed -i 's/a/{w}/' {o}",
    "chmod 600 {o}",
    "stat -c '%a %s' {o} > {p}",
    "ls work out > {p}.list",
    "sort {i} {o} > {p}",
    "ln -f {o} {p}",
    "ln -sf ../{i} {o}.link; cat {o}.link > {p}",
    "mkdir -p work/d; cat {i} > work/d/e",
    "rm -rf work/d",
    "wc -c < {o} > {p}",
    "[ -s {i} ] && head -n 1 {i} > {o} || echo empty > {o}",
    "cat < {i} | sort > {p}",
    "cmp -s {i} {o} || cp {i} {o}",
    "truncate -s 5 {o}",
    "perl -pi -e 's/e/{w}/' {o}",
];

/// Statements whose working directory somebody else may move at a gate.
const STANDING: &[&str] = &[
    "(cd work && perl ../lib/gate ../{g}; cp ../{i} k; cat k)",
    "(cd work && perl ../lib/gate ../{g}; cat a b c > k 2> /dev/null; ls)",
    "(cd out && perl ../lib/gate ../{g}; cat ../{i} > k; sort k)",
];

/// Statements that try to get locks which others may hold.
const LOCKS: &[&str] = &[
    "perl lib/lock {l} > {o}",
    "perl lib/lock {l} || echo busy > {o}",
    "perl lib/lock {l} > /dev/null && cat {i} > {o}; true",
    "perl lib/lock {l}; cat {i} > {o}",
    "flock -n {l} cat {i} > {o}; true",
    "sh -c 'perl lib/lock {l}; exit 0' > {o}",
    "perl lib/record {l} > {o}",
    "perl lib/record {l} || echo busy > {o}",
    "perl lib/record {l} > /dev/null && cat {i} > {o}; true",
];

/// Statements that execute or write what others may be using.
const BUSY: &[&str] = &[
    "lib/prog {i} > {o}",
    "lib/prog {i} > {o} 2> /dev/null || cat {i} > {o}",
    "perl -e 'exec \"lib/prog\", \"{i}\"; print \"no\\n\"' > {o} 2> /dev/null",
    "perl -e 'system(\"lib/prog\", \"{i}\"); print $?' > {o} 2> /dev/null; true",
    "cat {i} >> lib/prog; echo $? > {o}",
    "cp {i} lib/other; mv lib/other lib/prog2; cat lib/prog2 > {o}",
    "perl -e 'open F, \">>\", \"lib/prog\" and print \"opened\\n\" or print \"no: $!\\n\"' > {o}",
];

/// Statements that need descriptors, processes, memory or room in files.
const LIMITED: &[&str] = &[
    "perl -e 'my @f; for (1..40) { open my $f, \"<\", \"{i}\" or do { print \"no: $!\\n\"; last }; push @f, $f } print scalar(@f), \"\\n\"' > {o}",
    "perl -e 'open F, \">\", \"{o}\"; $SIG{XFSZ} = \"IGNORE\"; print F \"x\" x 9000; close F or print \"no: $!\\n\"' > {p}",
    "perl -e 'my $x = eval { \"x\" x 30000000 }; print length($x), \"\\n\"' > {o} 2> /dev/null || echo small > {o}",
    "seq 1 3000 > {o} || echo small > {p}",
    "perl -e 'pipe(A, B) && pipe(C, D) && pipe(E, F) or print \"no: $!\\n\"; print \"done\\n\"' > {o}",
    "sh -c 'ulimit -c unlimited' 2> /dev/null; cat {i} > {o}",
    "perl -e 'defined(my $p = fork) or print \"no: $!\\n\"; exit if defined $p && !$p; wait; print \"forked\\n\"' > {o}",
];

/// Statements that need room on the small disk.
const DISK: &[&str] = &[
    "cat {i} > \"${SMALL:-work}/t\" && cp \"${SMALL:-work}/t\" {o} || echo full > {o}",
    "head -c 20000 lib/prog > \"${SMALL:-work}/t\"; wc -c < \"${SMALL:-work}/t\" > {o}",
    "head -c 20000 lib/prog > \"${SMALL:-work}/t\" 2> /dev/null || echo full; cat {i} > {o}",
    "cp lib/prog \"${SMALL:-work}/p\" 2> /dev/null; \"${SMALL:-work}/p\" {i} > {o} 2> /dev/null; true",
    "mkdir -p \"${SMALL:-work}/d\" && echo made > {o} || echo full > {o}",
    "ln -sf x \"${SMALL:-work}/l\" && echo made > {o} || echo full > {o}",
    "perl -e 'open F, \">\", ($ENV{SMALL} || \"work\").\"/x\"; print F \"x\" x 5000; close F and print \"room\\n\" or print \"no\\n\"' > {o}",
    "perl -e 'open F, \">\", ($ENV{SMALL} || \"work\").\"/x\"; print truncate(F, 9) ? 1 : 0, syscall(285, fileno(F), 0, 0, 90000)' > {o}",
    "bash -c 'cat <<< \"$(seq 1 20000)\" | wc -c' > {o} 2> /dev/null",
    "TMPDIR=\"${SMALL:-work}\" sort -S 1k -T \"${SMALL:-work}\" {i} > {o}",
    "tee \"${SMALL:-work}/t\" < {i} > {o} 2> /dev/null; true",
    "dd if={i} of=\"${SMALL:-work}/t\" 2> /dev/null; echo $? > {o}",
];

/// Statements whose calls move fewer bytes than they are asked to when the small disk is full, or
/// below a limit. `{c}` makes calls, and `{t}` is the small disk.
const TRANSFERS: &[&str] = &[
    "{c} 'open 5 lib/prog rdonly' \"open 6 {t}/t wronly,creat,trunc\" '-sendfile 5 6 20000'; wc -c < \"{t}/t\" > {o}",
    "{c} 'open 5 lib/prog rdonly' \"open 6 {t}/t wronly,creat,trunc\" 'sendfile 5 6 20000' > {o}; cp \"{t}/t\" {p}",
    "{c} 'open 5 lib/prog rdonly' \"open 6 {t}/t wronly,creat,trunc\" '-splice-through 5 6 20000'; wc -c < \"{t}/t\" > {o}",
    "{c} '-fill 1 8000' | {c} \"open 6 {t}/t wronly,creat,trunc\" '-splice 0 6 8000'; wc -c < \"{t}/t\" > {o}",
    "head -c 8000 lib/prog > \"{t}/s\"; {c} \"open 5 {t}/s rdonly\" \"open 6 {t}/t wronly,creat,trunc\" '-copy-range 5 6 8000'; wc -c < \"{t}/t\" > {o}",
    "{c} \"open 6 {t}/t wronly,creat,trunc\" '-fill 6 20000'; wc -c < \"{t}/t\" > {o}",
    "{c} \"open 6 {t}/t wronly,creat,append\" '-fill 6 20000'; wc -c < \"{t}/t\" > {o}",
    "{c} \"open 6 {t}/t wronly,creat,trunc\" '-writev 6 20000'; wc -c < \"{t}/t\" > {o}",
    "{c} \"open 6 {t}/t wronly,creat,trunc\" '-pwrite 6 20000 0'; wc -c < \"{t}/t\" > {o}",
    "{c} \"open 6 {t}/t wronly,creat,trunc\" '-pwritev 6 20000 0'; wc -c < \"{t}/t\" > {o}",
    "{c} \"open 6 {t}/t wronly,creat,trunc\" '-allocate 6 0 0 20000'; wc -c < \"{t}/t\" > {o}",
    "{c} \"open 6 {t}/t wronly,creat,trunc\" '-allocate 6 1 0 20000' '-fill 6 100'; cp \"{t}/t\" {o}",
    "{c} \"open 6 {t}/t wronly,creat,trunc\" '-truncate 6 100000' '-fill 6 20000'; wc -c < \"{t}/t\" > {o}",
    "{c} '-fill 1 20000' > \"{t}/t\"; wc -c < \"{t}/t\" > {o}",
    "{c} '-sendfile 0 1 20000' < lib/prog > \"{t}/t\"; wc -c < \"{t}/t\" > {o}",
    "{c} '-limit 3000' 'open 6 {o} wronly,creat,trunc' '-fill 6 20000'; wc -c < {o}",
    "{c} '-limit 3000' 'open 5 lib/prog rdonly' 'open 6 {o} wronly,creat,trunc' '-sendfile 5 6 20000'; wc -c < {o}",
    "(ulimit -f 5; {c} 'open 6 {o} wronly,creat,trunc' '-writev 6 20000'); wc -c < {o}",
    "(ulimit -f 5; {c} 'open 5 lib/prog rdonly' 'open 6 {o} wronly,creat,trunc' '-copy-range 5 6 20000'); wc -c < {o}",
    "cp lib/prog \"{t}/p\" 2> /dev/null; wc -c < \"{t}/p\" > {o}",
    "cat lib/prog > \"{t}/p\" 2> /dev/null; wc -c < \"{t}/p\" > {o}",
    "dd if=lib/prog of=\"{t}/p\" bs=20000 count=1 2> /dev/null; wc -c < \"{t}/p\" > {o}",
    "perl -e 'open F, \">\", $ARGV[0]; syswrite F, \"x\" x 20000' \"{t}/p\"; wc -c < \"{t}/p\" > {o}",
];

/// The same, with a compiler.
const DISK_GCC: &[&str] = &[
    "TMPDIR=\"${SMALL:-work}\" gcc -c csrc/util.c -Iinc/b -o {o}",
    "TMPDIR=\"${SMALL:-work}\" gcc -c csrc/util.c -Iinc/b -o {o} 2> /dev/null || echo failed > {p}",
    "gcc -S csrc/util.c -Iinc/b -o \"${SMALL:-work}/s\" 2> /dev/null; wc -l < \"${SMALL:-work}/s\" > {o}",
];

/// Statements whose commands make calls of many kinds.
const COMMANDS: &[&str] = &[
    "tar cf - src 2> /dev/null | tar tf - 2> /dev/null | sort > {o}",
    "find src -type f 2> /dev/null | sort > {o}",
    "cp -r src work/copy 2> /dev/null; ls work/copy > {o} 2> /dev/null",
    "install -m 755 {i} {o} 2> /dev/null || echo no > {p}",
    "split -l 1 {i} work/part 2> /dev/null; cat work/part* > {o} 2> /dev/null",
    "sort -o {o} {i} 2> /dev/null; echo $?",
    "awk '{ print NR, $0 }' {i} > {o} 2> /dev/null || echo failed > {p}",
    "xargs -n 1 echo < {i} > {o} 2> /dev/null; true",
    "tee {o} < {i} > /dev/null 2>&1; [ -s {o} ] && echo full >> {p}",
    "(cat {i} & wait) > {o} 2> /dev/null",
    "dd if={i} of={o} 2> /dev/null; echo $?",
    "ln {i} {o}.hard 2> /dev/null || cp {i} {o}.hard 2> /dev/null; true",
    "touch -r {i} {o} 2> /dev/null; [ {o} -ot src ] && echo older > {p}",
    "mkdir work/d 2> /dev/null && echo made > {o} || echo there > {o}",
    "(cd work 2> /dev/null && ls > ../{o}) || echo nowhere > {o}",
    "x=$(cat {i} 2> /dev/null | wc -c); echo $x > {o}",
    "perl -e 'opendir D, \"src\" or print \"no\\n\"; print join(\" \", sort readdir D), \"\\n\"' > {o}",
    "perl -e 'print rename(\"{p}\", \"{o}\") ? 1 : 0, unlink(\"{p}\") ? 1 : 0, symlink(\"x\", \"{p}\") ? 1 : 0' > /dev/null",
    "perl -e 'my $t = -s \"{i}\"; print defined $t ? $t : \"none\"' > {o}",
];

/// The same, with a compiler.
const COMPILED: &[&str] = &[
    "gcc -c csrc/util.c -Iinc/b -o {o} 2> /dev/null || echo failed > {p}",
    "gcc -E csrc/util.c -Iinc/b 2> /dev/null | wc -l > {o}",
    "gcc -c csrc/util.c -Iinc/b -o work/u.o 2> /dev/null && ar rcD {o} work/u.o 2> /dev/null; echo $?",
];

/// Calls that fail, by how often they are chosen. Reads are not among them, as those of pipes
/// have no errors that pass, nor close(2), which has closed a descriptor also where it fails.
const FAILING: &[(usize, &str)] = &[
    (14, "openat"),
    (8, "newfstatat"),
    (4, "pread64"),
    (8, "write"),
    (6, "execve"),
    (4, "clone"),
    (4, "vfork"),
    (4, "mmap"),
    (4, "mkdir"),
    (4, "rename"),
    (3, "renameat2"),
    (4, "unlink"),
    (4, "unlinkat"),
    (3, "access"),
    (3, "faccessat2"),
    (3, "readlink"),
    (3, "chdir"),
    (3, "pipe2"),
    (3, "dup2"),
    (3, "fcntl"),
    (2, "ftruncate"),
    (2, "truncate"),
    (2, "fchmod"),
    (2, "chmod"),
    (2, "fchmodat"),
    (2, "utimensat"),
    (2, "linkat"),
    (2, "symlink"),
    (2, "symlinkat"),
    (2, "rmdir"),
    (2, "copy_file_range"),
    (2, "statx"),
    (2, "wait4"),
    (1, "getrandom"),
    (1, "statfs"),
];

/// Statements that write to places which may be read-only, or remove them.
const PLACES: &[&str] = &[
    "cat {i} > {o} 2> /dev/null || echo no",
    "mkdir work/d 2> /dev/null; cat {i} > work/d/e 2> /dev/null; echo $?",
    "rmdir work/d 2> /dev/null; echo $?",
    "mv work/d work/moved 2> /dev/null; ls work",
    "rm -rf out 2> /dev/null; mkdir -p out; echo {w} > {o}",
    "rm -rf work/d 2> /dev/null; ls work > {o}",
    "mv out work/out2 2> /dev/null; mkdir -p out; ls work",
    "touch {o} 2> /dev/null; echo $?",
    "chmod 640 {o} 2> /dev/null; echo $?",
    "ln -s x out/link 2> /dev/null; echo $?",
    "[ -w out ] && echo writable || echo not",
    "perl -e 'print unlink(\"{o}\"), rename(\"{p}\", \"{o}\"), \"\\n\"'",
    "perl -e 'open F, \">\", \"{o}\" or print \"no: $!\\n\"'; cat {i}",
    "truncate -s 3 {o} 2> /dev/null; echo $?",
    "touch -d 2020-02-02 {o} 2> /dev/null; echo $?",
];

/// Statements that end by signals, or see others end.
const SIGNALLED: &[&str] = &[
    "(perl lib/gate {g}; cat {i}) > {o}; echo $? >> {p}",
    "perl lib/gate {g} || echo failed > {o}",
    "sh -c 'perl lib/gate {g}; cat {i} > {o}'",
    "sh -c 'trap \"echo caught > {o}\" TERM INT USR1; perl lib/gate {g}; cat {i} > {p}'",
    "perl lib/gate {g} & wait $! && echo fine > {o} || echo not > {o}",
    "{ cat {i}; perl lib/gate {g}; cat {i}; } | sort > {o}",
    "perl -e '$SIG{TERM} = sub { print \"term\\n\" }; system(\"perl lib/gate {g}\"); print $? ? \"bad\" : \"good\"' > {o}",
    "timeout 30 perl lib/gate {g}; echo $? > {o}",
    "perl -e 'open G, \"<\", \"{g}\"; flock G, 2 or print \"interrupted\\n\"; print \"done\\n\"' > {o}",
    "perl -e '$SIG{USR1} = sub {}; open G, \"<\", \"{g}\"; sysseek G, 0, 0; print flock(G, 2) ? \"got\\n\" : \"no: $!\\n\"' > {o}",
    "setsid -w perl lib/gate {g}; echo $? > {o}",
    "sh -c 'perl lib/gate {g}; exit 0'; cat {i} > {o}",
];

const SIGNALS: &[(usize, Signal)] = &[
    (50, Signal::Kill),
    (20, Signal::Terminate),
    (5, Signal::Interrupt),
    (5, Signal::Segment),
    (8, Signal::User),
    (12, Signal::Pause),
];

/// Whether a generated case of this kind is possible with the selection.
pub(super) fn themes(selection: &Selection) -> Vec<(usize, Trouble)> {
    [
        (30, Trouble::Outsiders),
        (18, Trouble::Errors),
        (14, Trouble::Injected),
        (20, Trouble::Signals),
        (12, Trouble::Disks),
        (12, Trouble::Places),
        (14, Trouble::Locks),
        (14, Trouble::Transfers),
    ]
    .into_iter()
    .filter(|(_, kind)| selection.has(*kind))
    .collect()
}

/// A directory with a script, or two, and perhaps a makefile above them.
pub(super) fn case(dice: &mut Dice, seed: u64, steps: usize, tools: Tools, theme: Trouble) -> Case {
    let (mut entries, sources) = common_files(dice, false);
    if tools.gcc {
        super::make::c_sources(dice, &mut entries);
    }
    for (path, text) in [
        ("lib/gate", "open G, '<', $ARGV[0] or exit 9; flock G, 2;\n"),
        (
            "lib/lock",
            "open L, '>>', $ARGV[0] or exit 9; flock L, 6 or do { print \"busy\\n\"; exit 3 }; print \"got it\\n\";\n",
        ),
        (
            "lib/record",
            "open L, '+<', $ARGV[0] or exit 9; my $l = pack('s s x4 q q i x4', 1, 0, 0, 0, 0); fcntl L, 6, $l or do { print \"busy\\n\"; exit 3 }; print \"got it\\n\";\n",
        ),
    ] {
        entries.push(entry(path, script(vec![text.into()])));
    }
    if theme == Trouble::Transfers {
        entries.extend(descriptors::programs());
    }
    for path in ["g0", "g1", "g2", "work/lock"] {
        entries.push(entry(
            path,
            Node::File {
                blocks: Vec::new(),
                mode: 0o644,
            },
        ));
    }
    let mut author = Author {
        theme,
        sources: &sources,
        tools,
        gates: 0,
    };
    let main = author.script(dice, true);
    let inner = author.script(dice, false);
    let below_make = dice.chance(25);
    entries.push(entry("s0.sh", script(main)));
    entries.push(entry("s1.sh", script(inner)));
    entries.push(entry(
        "Makefile",
        script(vec![
            "all:\n\tsh s0.sh\n".into(),
            "\tcat out/a > out/made; true\n".into(),
        ]),
    ));
    let command = if below_make {
        run(&["make", "-s"])
    } else {
        dice.pick(&[
            run(&["sh", "s0.sh"]),
            run(&["sh", "s0.sh"]),
            run(&["bash", "s0.sh"]),
            run(&["sh", "-c", "sh s0.sh; echo $?"]),
            run(&["sh", "-c", "sh s0.sh | sort"]),
        ])
        .clone()
    };
    let project = Project {
        kind: "disturbed",
        entries,
        outputs: FILES.iter().map(|&path| path.to_owned()).collect(),
        scripts: vec!["s0.sh".into()],
        commands: vec![command],
        sources,
        pin_times: false,
    };
    let steps = (0..steps.min(6))
        .map(|index| step(dice, &project, theme, tools, index))
        .collect();
    Case {
        kind: project.kind.into(),
        seed,
        note: String::new(),
        pin_times: false,
        files: project.entries,
        steps,
    }
}

/// Choices that the scripts of a case are written from.
struct Author<'a> {
    theme: Trouble,
    sources: &'a [String],
    tools: Tools,
    /// Gates that have been placed.
    gates: usize,
}

impl Author<'_> {
    fn script(&mut self, dice: &mut Dice, is_main: bool) -> Vec<String> {
        let mut blocks = vec!["mkdir -p out work\n".to_owned()];
        if dice.chance(15) {
            blocks.push("exec 3>> work/c\n".into());
        }
        for _ in 0..if is_main { dice.range(3, 7) } else { 2 } {
            let statement = if is_main && dice.chance(15) {
                (*dice.pick(&[
                    "sh s1.sh",
                    "(sh s1.sh)",
                    "sh s1.sh > out/all",
                    "sh s1.sh; true",
                ]))
                .to_owned()
            } else if self.is_gated() && dice.chance(35) {
                format!("perl lib/gate {}", self.gate())
            } else {
                self.statement(dice)
            };
            blocks.push(format!("{statement}\n"));
        }
        blocks
    }

    /// Whether gates are the moments of the theme.
    fn is_gated(&self) -> bool {
        matches!(self.theme, Trouble::Outsiders | Trouble::Signals)
    }

    fn gate(&mut self) -> &'static str {
        self.gates += 1;
        ["g0", "g1", "g2"][(self.gates - 1) % 3]
    }

    fn statement(&mut self, dice: &mut Dice) -> String {
        let own: &[&str] = match self.theme {
            Trouble::Locks => LOCKS,
            Trouble::Errors if dice.chance(67) => BUSY,
            Trouble::Errors => LIMITED,
            Trouble::Injected if self.tools.gcc && dice.chance(15) => COMPILED,
            Trouble::Injected => COMMANDS,
            Trouble::Disks if self.tools.gcc && dice.chance(20) => DISK_GCC,
            Trouble::Disks => DISK,
            Trouble::Transfers => TRANSFERS,
            Trouble::Places => PLACES,
            Trouble::Signals => SIGNALLED,
            Trouble::Outsiders if dice.chance(25) => STANDING,
            _ => STATEMENTS,
        };
        let template = if dice.chance(60) {
            dice.pick(own)
        } else {
            dice.pick(STATEMENTS)
        };
        let output = *dice.pick(FILES);
        let other = *dice.pick(FILES);
        let other = if other == output { "out/d" } else { other };
        let gated = if template.contains("{g}") {
            template.replace("{g}", self.gate())
        } else {
            (*template).to_owned()
        };
        let program = [
            descriptors::TOOL,
            descriptors::OWN_CODE,
            descriptors::UNKNOWN,
        ];
        let filled = gated
            .replace("{l}", "work/lock")
            .replace("{p}", other)
            .replace("{t}", "${SMALL:-work}")
            .replace("{c}", dice.pick::<&str>(&program));
        snippet::fill(dice, &filled, self.sources, self.sources, output)
    }
}

fn step(dice: &mut Dice, project: &Project, theme: Trouble, tools: Tools, index: usize) -> Step {
    let source = dice.pick(&project.sources).clone();
    let mut edits = Vec::new();
    if index > 0 {
        edits.push(match dice.below(10) {
            0..3 => Edit::Reset(Some(1000)),
            3..5 => Edit::Write(source.clone(), snippet::text(dice)),
            5 => Edit::Delete("out".into()),
            6 => Edit::Delete((*dice.pick(FILES)).into()),
            _ => Edit::Reset(None),
        });
    }
    // What has not run before runs under the disturbance.
    let is_disturbed = index == 0 || dice.chance(50);
    let disturbances = if is_disturbed {
        (0..dice.weighted(&[(80, 1), (20, 2)]))
            .map(|_| disturbance(dice, project, theme, tools))
            .collect()
    } else {
        Vec::new()
    };
    Step {
        edits,
        refreshed: is_disturbed && dice.chance(75),
        aftermath: if is_disturbed && dice.chance(30) {
            Aftermath::Kept
        } else {
            Aftermath::Restored
        },
        disturbances,
        run: Run {
            ..project.commands[0].clone()
        },
        ..Step::default()
    }
}

fn disturbance(dice: &mut Dice, project: &Project, theme: Trouble, tools: Tools) -> Disturbance {
    let gate = Moment::Gate((*dice.pick(&["g0", "g0", "g1", "g2"])).into());
    match theme {
        Trouble::Outsiders => Disturbance::Act(gate, outsider(dice, project, tools)),
        Trouble::Signals => {
            let signal = dice.weighted(SIGNALS);
            let generations = dice.weighted(&[(55, 0), (25, 1), (12, 2), (8, 3)]);
            let moment = if dice.chance(85) {
                gate
            } else {
                Moment::Program((*dice.pick(&["sort", "cat", "perl", "sh"])).into())
            };
            Disturbance::Act(moment, Act::Signal(signal, generations))
        }
        Trouble::Locks => {
            let lock = *dice.pick(&[Lock::Whole, Lock::Record]);
            Disturbance::During(Condition::Locked("work/lock".into(), lock))
        }
        Trouble::Transfers if dice.chance(20) => Disturbance::During(Condition::Limited(vec![
            (*dice.pick(&["fsize=3000", "fsize=4096", "fsize=8192"])).into(),
        ])),
        Trouble::Transfers => {
            Disturbance::During(Condition::FullDisk(*dice.pick(&[0, 1, 1, 2, 3, 3])))
        }
        Trouble::Disks => Disturbance::During(Condition::FullDisk(*dice.pick(&[0, 0, 1, 3]))),
        Trouble::Places => {
            let place = (*dice.pick(&["out", "work", "out", "work/d", "src"])).to_owned();
            Disturbance::During(if dice.chance(60) {
                Condition::ReadOnly(place)
            } else {
                Condition::MountPoint(place)
            })
        }
        Trouble::Injected => Disturbance::During(Condition::Injected(fault(dice))),
        _ => Disturbance::During(match dice.below(10) {
            0..5 => Condition::OpenForWriting("lib/prog".into()),
            5..7 => Condition::Running("lib/prog".into()),
            _ => Condition::Limited(vec![
                (*dice.pick(&[
                    "nofile=8",
                    "nofile=16",
                    "fsize=4096",
                    "as=40000000",
                    "nproc=1",
                    "memlock=0",
                    "stack=200000",
                ]))
                .into(),
            ]),
        }),
    }
}

/// Makes up a call that fails, and how: `openat:EIO:7` is the seventh that stops.
fn fault(dice: &mut Dice) -> String {
    let call = dice.weighted(FAILING);
    let errors = injectable(call);
    let which = dice.weighted(&[(30, 1), (20, 2), (20, 4), (20, 10), (10, 40)]);
    let which = dice.range(which, 2 * which);
    format!("{call}:{}:{which}", dice.pick(&errors))
}

/// Makes up an act of somebody else on an output or an input.
fn outsider(dice: &mut Dice, project: &Project, tools: Tools) -> Act {
    let path = if dice.chance(75) {
        (*dice.pick(FILES)).to_owned()
    } else {
        dice.pick(&project.sources).clone()
    };
    let other = (*dice.pick(FILES)).to_owned();
    let by_hand = || vec!["by somebody else\n".to_owned(), "more\n".to_owned()];
    Act::Edit(match dice.below(19) {
        0..3 => Edit::Write(path, by_hand()),
        3..5 => Edit::Replace(path, by_hand()),
        5 => Edit::Append(path, "appended\n".into()),
        6 => Edit::Sneak(path),
        7 => Edit::Touch(path),
        8 => Edit::TouchAge(path, *dice.pick(&[5, 86_400])),
        9 => Edit::Delete(path),
        10 => Edit::Chmod(path, *dice.pick(&[0o755, 0o600, 0o444])),
        11 => Edit::Rename(path, other),
        12 => Edit::Symlink(path, (*dice.pick(&["../src/s0.txt", "nowhere"])).into()),
        13 if tools.python => return Act::Map(path),
        13 => Edit::Install("lib/prog".into(), (*dice.pick(PROGRAMS)).into()),
        14..18 => Edit::Swap("work".into(), "out".into()),
        _ => Edit::Attribute(path, "user.other".into(), Some("31".into())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_that_fails_has_an_error_to_fail_with() {
        let without: Vec<&str> = FAILING
            .iter()
            .map(|(_, call)| *call)
            .filter(|call| injectable(call).is_empty())
            .collect();
        assert_eq!(without, [""; 0]);
    }
}
