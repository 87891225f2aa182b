//! Shell commands that make one file from others, as templates.
//!
//! A template names its parts in braces: `{i}` and `{j}` are inputs, `{o}` is
//! the output, `{n}` a small number, `{w}` a word. Each is deterministic: none
//! prints a time, a process id, or an order that the scheduler decides.

use crate::trials::differential::dice::Dice;

/// Words that files are filled with.
pub(crate) const WORDS: &[&str] = &[
    "alpha",
    "beta",
    "gamma",
    "delta",
    "apple",
    "banana",
    "cherry",
    "a",
    "b",
    "zebra",
    "Xylophone",
    "tab\there",
    "",
];

/// Templates whose only effect is `{o}` (and files named after it), and which
/// look at nothing but their inputs and directories that no rule writes to.
const PURE: &[&str] = &[
    "cat {i} {j} > {o}",
    "sed 's/a/{w}/g' {i} > {o}",
    "sort {i} > {o}",
    "sort -u {i} {j} > {o}",
    "sort -o {o} {i}",
    "tr a-z A-Z < {i} > {o}",
    "head -n {n} {i} > {o}",
    "tail -n {n} {i} > {o}",
    "awk '{print NR, $0}' {i} > {o}",
    "awk '{n += length($0)} END {print n}' {i} {j} > {o}",
    "awk -v w={w} '{print w, $1 > \"{o}\"}' {i}",
    "cp {i} {o}",
    "cp -p {i} {o}",
    "cp -f {i} {o}",
    "cat {i} | sort | uniq -c > {o}",
    "cat {i} 2> /dev/null | tee {o} | wc -l",
    "tee {o} {o}.copy < {i} > /dev/null",
    "tee -a {o} < {i} | head -n 1 > /dev/null",
    "(cat {i}; echo {w}; cat {j}) > {o}",
    "{ cat {i}; echo {w}; } > {o}",
    "cat {i} > {o}.tmp && mv {o}.tmp {o}",
    "cp {i} {o}.tmp; mv -f {o}.tmp {o}",
    "x=$(wc -c < {i}); echo \"size $x\" > {o}",
    "x=`head -n 1 {i}`; echo \"$x {w}\" > {o}",
    "cmp -s {i} {o} || cp {i} {o}",
    "cat {i} {j} > {o}.tmp; if cmp -s {o}.tmp {o}; then rm {o}.tmp; else mv {o}.tmp {o}; fi",
    "rm -f {o}; ln {i} {o}",
    "ln -f {i} {o}.hard; cat {o}.hard > {o}.copy; mv {o}.copy {o}",
    "ln -sf {w} {o}.link; touch {o}",
    // To an output the link would be as old as that, which may be as old as
    // what make wants it to be younger than.
    "rm -f {o}; ln -s \"$PWD\"/{s} {o}",
    "grep -c a {i} > {o} || true",
    "grep a {i} > {o}",
    "grep -l a {i} {j} > {o}; true",
    "wc -l {i} {j} > {o}",
    "od -c {i} | head -n {n} > {o}",
    "cksum {i} > {o}",
    "md5sum < {i} > {o}",
    "gzip -nc {i} > {o}",
    "gzip -nc {i} | gzip -dc > {o}",
    "dd if={i} of={o} bs=3 count={n} 2> /dev/null",
    "[ {i} -ef {o} ] || dd if={i} of={o} bs=4 seek={n} conv=notrunc 2> /dev/null",
    "printf %s {w} | dd of={o} conv=notrunc bs=1 seek={n} 2> /dev/null",
    "paste {i} {j} > {o}",
    "diff {i} {j} > {o}; true",
    "tac {i} > {o}",
    "nl {i} | cut -c1-1{n} > {o}",
    "fold -w 5 {i} > {o}",
    "install -m 640 {i} {o}",
    "install -D -m 755 {i} {o}.d/deep/er; cp {o}.d/deep/er {o}",
    "cat {i} > {o}; chmod 600 {o}",
    "cp {i} {o}; chmod u+x,go-r {o}",
    "rm -f {o}; cp {i} {o}; chmod 444 {o}",
    "printf '%s\\n' \"$VAR_A\" > {o}; cat {i} >> {o}",
    "echo \"${VAR_B-unset}\" > {o}",
    "touch {o}",
    "[ -e {o} ] || cp {i} {o}",
    "[ -s {i} ] && echo full > {o} || echo empty > {o}",
    "if [ -x {i} ]; then echo x > {o}; else echo - > {o}; fi",
    "ln -sf \"$PWD\"/{s} {o}.l; if [ -x {o}.l ]; then echo x > {o}; else echo - > {o}; fi",
    "if [ -w {i} ] && [ ! -L {i} ]; then echo w > {o}; else echo - > {o}; fi",
    "stat -c '%s %a %F %h' {i} > {o}",
    "test -f opt/extra.txt && cat opt/extra.txt > {o} || cat {i} > {o}",
    "for d in inc/a inc/b inc/c; do if [ -f $d/h.txt ]; then cat $d/h.txt > {o}; break; fi; done; touch {o}",
    "cat inc/a/h.txt 2> /dev/null > {o} || cat inc/b/h.txt > {o}",
    "readlink {i} > {o}; true",
    "readlink src/link.txt > {o}; true",
    "ls -l src/link.txt | sed 's/.*->//' > {o}",
    "find src -executable -type f | sort > {o}",
    "readlink -f {i} > {o}",
    "ls src > {o}",
    "ls -a inc | cat > {o}",
    "echo src/* > {o}",
    "find src inc -type f | sort > {o}",
    "find src -name '*.txt' -size +0 | wc -l > {o}",
    "find src -perm -100 | sort > {o}",
    "wc -c src/*.txt | tail -n 1 > {o}",
    "cat src/*.txt | sort > {o}",
    "sh -c 'cat {i}' > {o}",
    "sh -c 'exec cat {i}' > {o}",
    "sh lib/helper.sh {i} > {o}",
    "lib/tool.sh {i} {w} > {o}",
    "lib/prog {i} > {o}",
    "./lib/prog < {i} | cat > {o}",
    "PATH=lib:$PATH prog {i} {j} > {o}",
    "(echo one; echo two >&2; echo three) >> {o} 2>> {o}",
    "sh -c 'echo one; echo two >&2; echo three; echo four >&2' > {o} 2> {o}.err",
    "sh -c 'cat {i}; cat {i} missing.txt >&2; cat {i}' >> {o} 2>> {o}; true",
    "PATH=lib:$PATH tool.sh {i} > {o}",
    ". lib/vars.sh; echo \"$CONF\" > {o}",
    "echo {i} {j} | xargs cat > {o}",
    "xargs -n 1 echo < {i} > {o}",
    "yes {w} | head -n {n} > {o}",
    "seq 1 20000 | head -n {n} > {o}",
    "seq 1 3000 > {o}; truncate -s {n}00 {o}",
    "exec 3> {o}; cat {i} >&3; echo {w} >&3; exec 3>&-",
    "cat {i} 1<> {o}",
    ": > {o}; for k in 1 2 3; do echo $k >> {o}; done",
    "rm -f {o}; set -C; cat {i} > {o}",
    "set -C; cat {i} > {o}",
    "rm -f {o}.fifo; mkfifo {o}.fifo; (cat lib/vars.sh > {o}.fifo) 2> /dev/null & cat {o}.fifo > {o}; wait; rm {o}.fifo",
    "(sleep 0.01; cat {i} > {o}) & wait",
    "(cat {i} > {o}.1 & cat {j} > {o}.2 & wait) 2> /dev/null; cat {o}.1 {o}.2 > {o}",
    "tar cf - --sort=name --mtime=@0 --owner=0 --group=0 src inc | tar tf - > {o}",
    "rm -rf {o}.d; mkdir {o}.d; tar cf - --mtime=@1000000000 src | tar xf - -C {o}.d; cat {o}.d/src/*.txt > {o}",
    "rm -rf {o}.m; mkdir {o}.m; tar cf - inc | tar xmf - -C {o}.m; ls {o}.m > {o}",
    "split -l 2 {i} {o}.part.; cat {o}.part.* > {o}",
    "mkdir -p {o}.dir && cp {i} {o}.dir/ && ls {o}.dir > {o}",
    "rm -rf {o}.dir; mkdir {o}.dir; cp -r src {o}.dir/; ls {o}.dir/src > {o}",
    "mkdir {o}.dir 2> /dev/null && echo new > {o} || echo old > {o}",
    "rmdir {o}.dir 2> /dev/null; mkdir -p {o}.dir; touch {o}",
    "umask 027; cp {i} {o}; cat {i} > {o}.new",
    "cat {i} missing.txt > {o} 2> {o}.err; true",
    "cat {i} missing.txt > {o} 2>&1; true",
    "ulimit -n > {o}",
    "umask > {o}",
    "pwd > {o}",
    "id -u > {o}",
    "nproc > {o}",
    "uname -srn > {o}",
    "env | grep ^VAR_ | sort > {o}; true",
    "env | sort > {o}",
    "ls /proc/self/fd | wc -l > {o}",
    "grep -E '^Sig(Ign|Blk|Cgt)' /proc/self/status > {o}",
    "tr '\\000' ' ' < /proc/self/cmdline > {o}",
    "trap 'echo bye' EXIT; cat {i} > {o}",
    "cp -a {i} {o}",
    "cp --reflink=auto --preserve=mode {i} {o}",
    "[ ! -e {o} ] || mv {o} {o}.bak; cp {i} {o}",
    "cp {i} {o}; touch -d '2021-03-04 05:06:07.25' {o}",
    "cp {i} {o}; touch -r {i} {o}",
    "flock {o}.lock sh -c 'cat {i} > {o}'",
    "timeout 20 cat {i} > {o}",
    "nice cat {i} > {o}",
    "setsid -w cat {i} > {o}",
    "if [ {i} -nt {o} ]; then cat {i} > {o}; fi",
    "cp -u {i} {o}",
    "perl -pe 's/a/{w}/' {i} > {o}",
    "cp {i} {o}; perl -i -pe 's/b/{w}/' {o}",
    "cp {i} {o}; sed -i 's/b/{w}/' {o}",
    "cp {i} {o}; echo {w} >> {o}",
    "echo {w} >> {o}",
    "cat {o} {i} > {o}.tmp 2> /dev/null; mv {o}.tmp {o}",
    "rm -f {o}; [ -e {i} ] && echo there > {o}",
    "> {o}",
    "cd src && cat *.txt > ../{o}",
    "cat < {i} | (read -r first; echo \"first $first\"; cat) > {o}",
    "while read -r line; do echo \"<$line>\"; done < {i} > {o}",
    "cat {i} | while read -r line; do sh -c \"echo '$line'\" 2> /dev/null; done > {o}",
    // Descriptors that lead elsewhere after a while, or under another name.
    "exec < {i}; read -r a; exec < {j}; read -r b; echo \"$a $b\" > {o}",
    "{ read -r a; read -r b <&3; read -r c; } < {i} 3< {j}; echo \"$a $b $c\" > {o}",
    "exec 4> {o}; echo {w} >&4; rm -f {o}.name; ln {o} {o}.name; wc -c < {o}.name; echo {w} >&4; cat {o}.name",
    "exec 4>> {o}; echo {w} >&4; wc -c < {o}; exec 4> {o}.next; echo {w} >&4; cat {o}.next >> {o}",
    "head -c 20000 /dev/zero | tr '\\0' x > {o}; cat {i} >> {o}; cksum {o}",
    "python3 -S -c 'import os; f = os.open(\"{o}\", os.O_CREAT | os.O_RDWR); os.write(f, b\"x\" * 20000); os.writev(f, [b\"a\", b\"{w}\"]); os.pwrite(f, b\"p\", {n}); print(os.fstat(f).st_size, os.listdir(\"src\") != [])'",
    // Paths that lead through links of processes.
    "cat /proc/self/cwd/{i} > {o}; ls -l /proc/$$/cwd/{j} 2> /dev/null | wc -l >> {o}",
    "exec 5< .; if [ -s /proc/self/fd/5/{i} ]; then echo some; else echo none; fi > {o}",
    "exec 5< src; ls /dev/fd/5/ > {o}",
    "ln -sfn /proc/self/cwd {o}.here; if [ -s {o}.here/{i} ]; then echo some; else echo none; fi > {o}; rm {o}.here",
    "(exit {n}); echo $? > {o}",
    "sh -c 'sh -c \"kill -USR1 \\$\\$\"; echo $?' > {o} 2> /dev/null",
    "python3 -S -c 'print(open(\"{i}\").read().upper())' > {o}",
    "bash -c 'set -o pipefail; seq 100000 | head -n 1; echo \"${PIPESTATUS[@]}\"' > {o}",
    "bash -c 'diff <(sort {i}) <(sort {j})' > {o} 2> /dev/null; true",
    "bash -c 'mapfile -t x < {i}; echo \"${#x[@]}\"' > {o}",
];

/// Templates that look for many files in one process, which pcache sees in
/// another way than a few.
const MANY: &[&str] = &[
    "k=0; while [ $k -lt 70 ]; do k=$((k+1)); [ -e src/new$((k%4)).txt ] && echo $k; done > {o}; true",
    "k=0; while [ $k -lt 60 ]; do k=$((k+1)); [ -f opt/$k ] || [ -d inc/$k ] || [ -h src/$k ]; done; [ -f inc/a/h.txt ] && cat inc/a/h.txt > {o} || cat inc/b/h.txt > {o}",
    "k=0; while [ $k -lt 60 ]; do k=$((k+1)); [ -e {o}.$k ]; done; [ -e {o}.m ] && x=old || x=new; touch {o}.m; [ -e {o}.m ] && echo $x there > {o}",
    "k=0; while [ $k -lt 60 ]; do k=$((k+1)); [ -s {i} ]; [ -x {j} ]; done; [ -x {j} ] && echo x > {o} || echo - > {o}",
    "k=0; rm -f {o}.k; while [ $k -lt 60 ]; do k=$((k+1)); [ $k -eq 55 ] && : > {o}.k; [ -e {o}.k ] && echo $k; done > {o}",
    "k=0; while [ $k -lt 55 ]; do k=$((k+1)); [ -e opt/extra.txt ]; done; (cd src; [ -e s1.txt ] && cat s1.txt) > {o}; [ -e opt/extra.txt ] && cat opt/extra.txt >> {o}; true",
    "perl -e 'for (1..80) { -e \"src/new$_.txt\" and print \"$_\\n\" } print -s \"{i}\", readlink(\"src/link.txt\") // \"\", \"\\n\"' > {o}",
    "python3 -S -c 'import os; print([os.path.exists(\"src/new%d.txt\" % k) for k in range(70)], os.path.isfile(\"inc/a/h.txt\"), os.access(\"{i}\", os.X_OK))' > {o}",
    "bash -c 'for k in {1..60}; do [[ -e src/new$k.txt ]] && echo $k; done; [[ -L src/link.txt ]] && echo link; for f in src/*; do [[ -x $f ]] && echo $f; done' > {o}; true",
    "find src inc lib opt -newer missing.txt 2> /dev/null; find src inc lib opt -type f -size +0 | sort > {o}",
];

/// Templates that print a modification time, so only for files whose times are
/// set to the same value on both sides.
const TIMES: &[&str] = &[
    "stat -c %Y {s} > {o}",
    "date -u -r {s} > {o}",
    "find src -newermt '2015-01-01' ! -newermt '2022-01-01' | sort > {o}",
    "find src -newer {s} | sort > {o}",
    "ls -l --time-style=+%s {s} | cut -d' ' -f6- > {o}",
    "tar cf {o} --sort=name --owner=0 --group=0 --pax-option=delete=atime,delete=ctime {s}",
];

/// A file's lines.
pub(crate) fn text(dice: &mut Dice) -> Vec<String> {
    let mut blocks: Vec<String> = (0..dice.range(0, 6))
        .map(|_| format!("{} {}\n", dice.pick(WORDS), dice.below(10)))
        .collect();
    if dice.chance(10) {
        blocks.push("no newline at the end".into());
    }
    blocks
}

/// A command that makes `output` from two of `inputs`; `sources` are files
/// that no command changes.
pub(crate) fn make_file(
    dice: &mut Dice,
    inputs: &[String],
    sources: &[String],
    output: &str,
    with_times: bool,
) -> String {
    let template = if with_times && dice.chance(10) {
        dice.pick(TIMES)
    } else if dice.chance(7) {
        dice.pick(MANY)
    } else {
        dice.pick(PURE)
    };
    // Whoever writes to a second name of a source gives the source a time of its own.
    let template = if with_times && template.contains("; ln ") {
        "rm -f {o}; cp -p {i} {o}"
    } else {
        template
    };
    fill(dice, template, inputs, sources, output)
}

/// Puts chosen parts into a template.
pub(crate) fn fill(
    dice: &mut Dice,
    template: &str,
    inputs: &[String],
    sources: &[String],
    output: &str,
) -> String {
    // A comparison of times needs inputs that were not made a moment ago.
    let inputs = if template.contains("-nt") || template.contains("-u {i}") {
        sources
    } else {
        inputs
    };
    // A pipeline that reads and truncates one file is a race.
    let inputs: Vec<&String> = inputs
        .iter()
        .filter(|input| input.as_str() != output)
        .collect();
    // So is one whose input is another name of the output.
    let apart = if template.contains(" | ") && template.contains("{o}") {
        "rm -f {o}; "
    } else {
        ""
    };
    let word = dice.pick(&["alpha", "beta", "x", "a.b", "long-word"]);
    format!("{apart}{template}")
        .replace("{i}", dice.pick(&inputs).as_str())
        .replace("{j}", dice.pick(&inputs).as_str())
        .replace("{s}", dice.pick(sources).as_str())
        .replace("{o}", output)
        .replace("{n}", &dice.range(1, 4).to_string())
        .replace("{w}", word)
}
