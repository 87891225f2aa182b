//! Projects that ninja builds.

use crate::trials::differential::case::{Entry, Run};
use crate::trials::differential::dice::Dice;

use super::{Project, Tools, common_files, entry, file, make, run, snippet};

/// Whole pieces that use what ninja does with files and times.
const FEATURES: &[&str] = &[
    "rule r{r}\n  command = cat $in > $out.new; cmp -s $out.new $out && rm $out.new || mv $out.new $out\n  restat = 1\nbuild {o}: r{r} {i}\n",
    "rule r{r}\n  command = cat {i} inc/b/h.txt > $out; echo \"$out: inc/b/h.txt\" > $out.d\n  depfile = $out.d\n  deps = gcc\nbuild {o}: r{r} {i}\n",
    "rule r{r}\n  command = cat {i} inc/b/h.txt > $out; echo \"$out: inc/b/h.txt {j}\" > $out.d\n  depfile = $out.d\nbuild {o}: r{r} {i}\n",
    "rule r{r}\n  command = cp $in $out\n  description = COPY $out\nbuild {o}: r{r} {i} | {j}\n",
    "rule r{r}\n  command = sort $in > $out; echo sorted; echo warning >&2\nbuild {o}: r{r} {i} || {j}\n",
    "rule r{r}\n  command = sort {i} > {o}; sort -r {i} > {o}.rev\nbuild {o} | {o}.rev: r{r} {i}\n",
    "rule r{r}\n  command = tr ' ' '\\n' < $rspfile > $out\n  rspfile = $out.rsp\n  rspfile_content = $in {w}\nbuild {o}: r{r} {i} {j}\n",
    "build phony{r}: phony {i}\nrule r{r}\n  command = wc -l {i} > $out\nbuild {o}: r{r} phony{r}\n",
    "rule r{r}\n  command = touch $out\nbuild {o}: r{r} {i}\n",
    "rule r{r}\n  command = [ -e $out ] || cp {i} $out\n  restat = 1\n  generator = 1\nbuild {o}: r{r} {i}\n",
    "rule r{r}\n  command = cp -p {i} $out\nbuild {o}: r{r} {i}\n",
];

/// A project of up to nine rules.
pub(super) fn project(dice: &mut Dice, tools: Tools) -> Project {
    let pin_times = dice.chance(30);
    let (mut entries, sources) = common_files(dice, pin_times);
    let mut inputs = sources.clone();
    let mut outputs = Vec::new();
    let mut blocks = vec!["ninja_required_version = 1.8\n".to_owned()];
    if dice.chance(20) {
        blocks[0].push_str("builddir = work\n");
    }
    for index in 0..dice.range(2, 8) {
        let output = format!("out/t{index}.txt");
        let block = if dice.chance(55) {
            let feature = dice.pick(FEATURES).replace("{r}", &index.to_string());
            snippet::fill(dice, &feature, &inputs, &sources, &output)
        } else {
            let command =
                snippet::make_file(dice, &inputs, &sources, &output, pin_times).replace('$', "$$");
            format!(
                "rule r{index}\n  command = {command}\nbuild {output}: r{index} {}\n",
                dice.pick(&inputs)
            )
        };
        inputs.push(output.clone());
        outputs.push(output);
        blocks.push(block);
    }
    if tools.gcc && dice.chance(20) {
        make::c_sources(dice, &mut entries);
        blocks.push(
            "rule cc\n  command = gcc -Iinc/a -Iinc/b -Iinc/c -MMD -MF $out.d -c $in -o $out\n  depfile = $out.d\n  deps = gcc\nbuild out/main.o: cc csrc/main.c\nbuild out/util.o: cc csrc/util.c\n"
                .into(),
        );
        outputs.extend(["out/main.o", "out/util.o"].map(String::from));
    }
    entries.push(Entry {
        path: "build.ninja".into(),
        ..entry("", file(blocks, dice))
    });
    let target = dice.pick(&outputs).clone();
    let mut commands = vec![
        run(&["ninja", "-j1"]),
        run(&["ninja", "-j1", "-v"]),
        run(&["ninja", "-j1", "-k0"]),
        run(&["ninja", "-j1", "--quiet"]),
        run(&["ninja", "-j1", &target]),
        run(&["ninja", "-t", "clean"]),
        run(&["ninja", "-n"]),
        run(&["ninja", "-t", "restat"]),
        run(&["sh", "-c", "ninja -t clean > /dev/null; ninja -j1"]),
        run(&["sh", "-c", "ninja -j1 | cat"]),
        Run {
            cwd: "src".into(),
            ..run(&["ninja", "-j1", "-C", ".."])
        },
    ];
    for run in &mut commands {
        // The default status counts finished steps.
        run.env.insert("NINJA_STATUS".into(), String::new());
    }
    Project {
        kind: "ninja",
        entries,
        sources,
        outputs,
        scripts: vec!["build.ninja".into()],
        commands,
        pin_times,
    }
}
