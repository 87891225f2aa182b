//! Projects that make builds.

use std::fmt::Write as _;

use crate::trials::differential::case::{Entry, Run};
use crate::trials::differential::dice::Dice;

use super::{Project, Tools, common_files, entry, file, run, script, snippet};

/// Pieces that use what make itself does with files, as templates of whole
/// pieces; `{o}` is a new target and `{i}`, `{j}` its inputs.
const FEATURES: &[&str] = &[
    "LINES := $(shell cat {i} | wc -l)\nall: {o}\n{o}: {i}\n\techo $(LINES) lines > $@\n",
    "LATE = $(shell head -n 1 {i} | tr -d '#$$')\nall: {o}\n{o}: {j}\n\techo '$(LATE)' > $@\n",
    "SRCS := $(sort $(wildcard src/*.txt))\nall: {o}\n{o}: $(SRCS)\n\tcat $^ > $@\n",
    "all: {o}\n{o}: $(wildcard opt/*) {i}\n\techo $^ > $@\n",
    "-include {o}.mk\n{o}.mk: {i}\n\techo \"GENERATED := `wc -c < {i}`\" > $@\nall: {o}\n{o}: {j}\n\techo '$(GENERATED)' > $@\n",
    "export VAR_D := {w}\nall: {o}\n{o}: {i}\n\techo \"$$VAR_D $$VAR_A\" > $@\n",
    "all: {o}\n{o}: {i}\n\techo '$(VAR_A) $(origin VAR_A)' > $@\n",
    "%.up: %.txt\n\ttr a-z A-Z < $< > $@\nall: src/s0.up src/s1.up\n",
    "out/%.low: src/%.txt | out\n\ttr A-Z a-z < $< > $@\nout:\n\tmkdir -p $@\nall: out/s0.low out/s1.low\n",
    "all: {o}\n{o}: {i} FORCE\n\tcat {i} > $@.new; cmp -s $@.new $@ && rm $@.new || mv $@.new $@\nFORCE:\n",
    "all: {o}\n{o}: {i}\n\t@echo making $@\n\t-false\n\t@cp $< $@\n",
    "all: {o}\n{o}: {i}\n\tcat $< > $@\n\t@echo \"$(words $^) $(notdir $<) $(CURDIR)\"\n",
    ".DELETE_ON_ERROR:\nall: {o}\n{o}: {i}\n\tcat $< > $@; grep -q a $<\n",
    "all: {o}.1 {o}.2\n{o}.1 {o}.2 &: {i}\n\tsort {i} > {o}.1; sort -r {i} > {o}.2\n",
    "all: {o}\n{o}: src {i}\n\tls src > $@\n",
    "VPATH = inc/a:inc/b:inc/c\nall: {o}\n{o}: h.txt\n\tcat $< > $@; echo $< >> $@\n",
    "ifneq ($(wildcard inc/a/h.txt),)\nFOUND = yes\nelse\nFOUND = no\nendif\nall: {o}\n{o}: {i}\n\techo $(FOUND) > $@\n",
    "all: sub-build\nsub-build:\n\t$(MAKE) -C sub\n.PHONY: sub-build\n",
    "all: {o}\n{o}: {i}\n\t$(MAKE) -f lib/other.mk OUT=$@ IN=$<\n",
    "$(info reading $(words $(MAKEFILE_LIST)))\n",
    "$(warning careful)\n",
    "all: check\ncheck:\n\t@test -s {i} && echo full || echo empty\n.PHONY: check\n",
    ".INTERMEDIATE: {o}.mid\n{o}.mid: {i}\n\tsort $< > $@\nall: {o}\n{o}: {o}.mid\n\tuniq $< > $@\n",
    "all: {o}\n{o}: {i} | work\n\tcp $< work/ && ls work > $@\nwork:\n\tmkdir work\n",
    "define RECIPE\necho one >> $@\necho two >> $@\nendef\nall: {o}\n{o}: {i}\n\trm -f $@\n\t$(RECIPE)\n",
    "all: {o}\n{o}: {i}\n\ttouch -r $< $@\n",
    "all: log\nlog:\n\techo built >> log.txt\n.PHONY: log\n",
];

/// Features that look at what other rules write, or write where they do: not
/// for parallel builds.
const SERIAL_ONLY: &[&str] = &[
    "opt/*",
    "sub-build",
    "work",
    "log.txt\n",
    "ln ",
    "%.",
    ".INTERMEDIATE",
];

/// A project of up to a dozen rules, some of them compiling C.
pub(super) fn project(dice: &mut Dice, tools: Tools) -> Project {
    let pin_times = dice.chance(30);
    let parallel = dice.chance(25);
    let (mut entries, sources) = common_files(dice, pin_times);
    let mut inputs = sources.clone();
    let mut outputs = Vec::new();
    let mut blocks = vec!["all:\n.PHONY: all clean\nclean:\n\trm -rf out log.txt\n".to_owned()];
    if dice.chance(15) {
        blocks[0].insert_str(0, "SHELL := /bin/bash\n");
    }
    if dice.chance(10) {
        blocks[0].insert_str(0, ".SILENT:\n");
    }
    if parallel {
        // Rules that need the directory must not race with those that make it.
        blocks[0].push_str("$(shell mkdir -p out)\n");
    }
    for index in 0..dice.range(2, 9) {
        let output = format!("out/t{index}.txt");
        let block = if dice.chance(30) {
            let feature = dice.pick(FEATURES);
            let inputs = if parallel { &sources } else { &inputs };
            snippet::fill(dice, feature, inputs, &sources, &output)
        } else {
            rule(dice, &inputs, &sources, &output, pin_times, parallel)
        };
        if parallel && SERIAL_ONLY.iter().any(|part| block.contains(part)) {
            continue;
        }
        inputs.push(output.clone());
        outputs.push(output);
        blocks.push(block);
    }
    outputs.push("out/t0.txt".into());
    if tools.gcc && dice.chance(20) {
        compile(dice, &mut entries, &mut blocks, &mut outputs);
    }
    entries.push(Entry {
        path: "Makefile".into(),
        ..entry("", file(blocks, dice))
    });
    entries.push(entry(
        "sub/Makefile",
        script(vec![
            "all: made.txt\n".into(),
            "made.txt: ../src/s0.txt\n\tsort $< > $@\n".into(),
            "all: again.txt\nagain.txt: made.txt\n\ttac $< > $@; echo sub >&2\n".into(),
        ]),
    ));
    entries.push(entry(
        "lib/other.mk",
        script(vec![
            "$(OUT): $(IN)\n\tcat $< > $@\n\techo other >> $@\n".into(),
        ]),
    ));
    let commands = commands(dice, parallel, &outputs);
    Project {
        kind: "make",
        entries,
        sources,
        outputs,
        scripts: vec!["Makefile".into()],
        commands,
        pin_times,
    }
}

fn commands(dice: &mut Dice, parallel: bool, outputs: &[String]) -> Vec<Run> {
    if parallel {
        let build = |argv: &[&str]| Run {
            unordered: true,
            ..run(argv)
        };
        return vec![
            build(&["make", "-j3", "-k"]),
            build(&["make", "-j2", "-k"]),
            build(&["make", "-j4", "-k", "-Otarget"]),
            build(&["sh", "-c", "make -j3 -k 2> /dev/null | sort"]),
            run(&["make", "clean"]),
            run(&["make", "-k"]),
            run(&["make", "-n"]),
        ];
    }
    vec![
        run(&["make"]),
        run(&["make", "clean"]),
        run(&["make", "all", "-s"]),
        run(&["make", "-B"]),
        run(&["make", "-k"]),
        run(&["make", "-n"]),
        run(&["make", "-q"]),
        run(&["make", "-t"]),
        run(&["make", "-j1", "--no-builtin-rules"]),
        run(&["make", "VAR_A=argument"]),
        run(&["make", dice.pick(outputs).as_str()]),
        run(&["make", "-W", "src/s0.txt"]),
        run(&["sh", "-c", "make 2>&1 | cat"]),
        run(&["sh", "-c", "make clean && make"]),
        run(&["sh", "-c", "make; echo \"status $?\""]),
        Run {
            cwd: "src".into(),
            ..run(&["make", "-C", ".."])
        },
        run(&["make", "missing-target"]),
    ]
}

/// A rule whose recipe comes from the templates. In a serial build it may read
/// what it does not declare; in a parallel one that would be a race.
fn rule(
    dice: &mut Dice,
    inputs: &[String],
    sources: &[String],
    output: &str,
    pin_times: bool,
    parallel: bool,
) -> String {
    let declared: Vec<String> = (0..dice.range(1, 3))
        .map(|_| dice.pick(inputs).clone())
        .collect();
    let inputs = if parallel { &declared } else { inputs };
    let mut block = format!("all: {output}\n{output}: {}", declared.join(" "));
    block.push_str("\n\t@mkdir -p out\n");
    for _ in 0..dice.weighted(&[(70, 1), (25, 2), (5, 3)]) {
        let command = snippet::make_file(dice, inputs, sources, output, pin_times);
        let silent = if dice.chance(30) { "@" } else { "" };
        let _ = writeln!(block, "\t{silent}{}", command.replace('$', "$$"));
    }
    if dice.chance(20) {
        block.push_str("\t@echo done $@\n");
    }
    if dice.chance(10) {
        block.push_str("\t@echo warning: $@ >&2\n");
    }
    if dice.chance(5) {
        block.push_str("\t@exit 3\n");
    }
    block
}

/// A few C files with an include path, linked and run.
fn compile(
    dice: &mut Dice,
    entries: &mut Vec<Entry>,
    blocks: &mut Vec<String>,
    outputs: &mut Vec<String>,
) {
    c_sources(dice, entries);
    let flags = *dice.pick(&["-O0", "-g", "-O1 -Wall", "-pipe"]);
    blocks.push(format!(
        "CFLAGS = {flags} -Iinc/a -Iinc/b -Iinc/c\nout/%.o: csrc/%.c\n\t@mkdir -p out\n\tgcc $(CFLAGS) -MMD -c $< -o $@\n-include $(wildcard out/*.d)\n"
    ));
    blocks.push("all: out/prog\nout/prog: out/main.o out/util.o\n\tgcc -o $@ $^\n".into());
    blocks.push("all: out/run.txt\nout/run.txt: out/prog\n\t./out/prog > $@\n".into());
    outputs.extend(["out/main.o", "out/util.o", "out/prog", "out/main.d"].map(String::from));
}

/// The C files themselves.
pub(super) fn c_sources(dice: &mut Dice, entries: &mut Vec<Entry>) {
    let number = dice.below(100);
    for (path, blocks) in [
        (
            "csrc/main.c",
            vec![
                "#include <stdio.h>\n#include \"conf.h\"\nint util(int);\n".to_owned(),
                "int main(void) { printf(\"%d %s\\n\", util(CONF), __FILE__); return 0; }\n".into(),
            ],
        ),
        (
            "csrc/util.c",
            vec![
                "#include \"conf.h\"\n".to_owned(),
                "int util(int x) { return x + CONF; }\n".into(),
            ],
        ),
        (
            "inc/b/conf.h",
            vec![
                format!("#define CONF {number}\n"),
                "#if __has_include(\"opt.h\")\n#include \"opt.h\"\n#endif\n".into(),
            ],
        ),
        ("inc/c/conf.h", vec!["#define CONF 7\n".to_owned()]),
    ] {
        entries.push(entry(path, file(blocks, dice)));
    }
}
