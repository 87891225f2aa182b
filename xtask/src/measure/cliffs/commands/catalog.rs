//! The commands.

/// A command, or a program of an ecosystem.
pub(super) struct Command {
    /// The name that the tables show.
    pub(super) name: &'static str,
    /// Lines of a shell.
    pub(super) line: &'static str,
    /// Whether it is a program of an ecosystem.
    pub(super) ecosystem: bool,
    /// Programs without which it is not measured.
    pub(super) needs: &'static [&'static str],
    /// Lines of a shell before each run, plainly.
    pub(super) before: &'static str,
    /// Lines of a shell before all runs, plainly.
    pub(super) once: &'static str,
}

/// A common command: its name is that of the program.
const fn common(name: &'static str, line: &'static str) -> Command {
    Command {
        name,
        line,
        ecosystem: false,
        needs: &[],
        before: "",
        once: "",
    }
}

/// A program of an ecosystem.
const fn program(
    name: &'static str,
    needs: &'static [&'static str],
    line: &'static str,
) -> Command {
    let mut command = common(name, line);
    command.ecosystem = true;
    command.needs = needs;
    command
}

impl Command {
    const fn needs(mut self, needs: &'static [&'static str]) -> Self {
        self.needs = needs;
        self
    }

    const fn before(mut self, lines: &'static str) -> Self {
        self.before = lines;
        self
    }

    const fn once(mut self, lines: &'static str) -> Self {
        self.once = lines;
        self
    }
}

/// All of them.
pub(super) const COMMANDS: &[Command] = &[
    // Starts: what a shell does with small programs.
    common("100 starts: true", "for i in $(seq 100); do /bin/true; done"),
    common("100 starts: basename", "for i in $(seq 100); do basename tree/part-$i/a.c .c; done"),
    common("100 starts: dirname", "for i in $(seq 100); do dirname tree/part-$i/a.c; done"),
    common("100 starts: expr", "for i in $(seq 100); do expr $i + 1; done"),
    common("100 starts: date", "for i in $(seq 100); do date; done"),
    common("100 starts: uname", "for i in $(seq 100); do uname -a; done"),
    common("100 starts: id", "for i in $(seq 100); do id -u; done"),
    common("100 starts: pwd", "for i in $(seq 100); do /bin/pwd; done"),
    common("100 starts: echo", "for i in $(seq 100); do /bin/echo $i; done"),
    common("100 starts: printf", "for i in $(seq 100); do /usr/bin/printf '%s\\n' $i; done"),
    common("100 starts: test", "for i in $(seq 100); do /usr/bin/test -e text; done"),
    common("100 starts: sleep", "for i in $(seq 100); do sleep 0; done"),
    common("100 starts: env", "for i in $(seq 100); do env A=$i true; done"),
    common("100 starts: mktemp", "for i in $(seq 100); do mktemp out/XXXXXX; done"),
    common("100 starts: readlink", "for i in $(seq 100); do readlink -f tree/part-01/file-01.txt; done"),
    common("100 starts: realpath", "for i in $(seq 100); do realpath tree/part-01/file-01.txt; done"),
    common("100 starts: which", "for i in $(seq 100); do which sort; done").needs(&["which"]),
    common("100 starts: grep", "for i in $(seq 100); do grep -q quick tree/part-01/file-01.txt; done"),
    common("100 starts: sed", "for i in $(seq 100); do echo $i | sed s/1/2/; done"),
    common("100 starts: mkdir", "for i in $(seq 100); do mkdir -p out/$i/a; done"),
    common("100 starts: touch", "for i in $(seq 100); do touch out/$i; done"),
    common("100 starts: ln", "for i in $(seq 100); do ln -s text out/$i; done"),
    common("100 starts: cat", "for i in $(seq 100); do cat tree/part-01/file-01.txt; done"),
    common("100 starts: rm", "for i in $(seq 100); do rm out/$i; done")
        .before("for i in $(seq 100); do : > out/$i; done"),
    common("100 starts: mv", "for i in $(seq 100); do mv out/$i out/to-$i; done")
        .before("for i in $(seq 100); do : > out/$i; done"),
    common("100 starts: cp", "for i in $(seq 100); do cp text out/a; done"),
    common("100 starts: chmod", "for i in $(seq 100); do chmod 644 out/a; done").before(": > out/a"),
    // Many files.
    common("ls", "for i in 1 2 3 4 5 6 7 8; do ls -lR tree /usr/include; done"),
    common("find", "for i in 1 2 3 4 5; do find tree /usr/include -type f -name '*.h'; done"),
    common("find -exec", "find tree -name 'file-0[0-4].txt' -exec cat {} ';'"),
    common("find, xargs", "find tree -type f | xargs -n 20 cat"),
    common("grep -r", "for i in 1 2 3 4 5; do grep -r 'fox 13$' tree; done"),
    common("cat", "for i in 1 2 3 4 5; do cat tree/*/*; done"),
    common("wc", "for i in 1 2 3; do wc tree/*/*; done"),
    common("head", "for i in 1 2 3 4 5; do head -n 3 tree/*/*; done"),
    common("stat", "for i in 1 2 3 4 5; do stat tree/*/*; done"),
    common("du", "for i in 1 2 3 4 5 6 7 8 9 10; do du -a tree /usr/include; done"),
    common("file", "file tree/part-0*/*").needs(&["file"]),
    common("cksum", "for i in 1 2 3; do cksum tree/*/*; done"),
    common("md5sum", "for i in 1 2 3; do md5sum tree/*/*; done"),
    common("sha256sum", "for i in 1 2 3; do sha256sum tree/*/*; done"),
    common("diff -r", "diff -r tree out/tree; diff -r tree out/tree").before("cp -r tree out/tree"),
    common("cp -r", "cp -r tree out/tree"),
    common("cp -a", "cp -a tree out/tree"),
    common("rm -r", "rm -r out/tree").before("cp -r tree out/tree"),
    common("mv", "for d in out/tree/*; do mv $d/* out; done").before("cp -r tree out/tree"),
    common("chmod -R", "for i in 1 2 3 4 5 6; do chmod -R u+x out/tree; chmod -R u-x out/tree; done")
        .before("cp -r tree out/tree"),
    common("chown -R", "for i in 1 2 3 4 5 6; do chown -R $(id -u) out/tree; done")
        .before("cp -r tree out/tree"),
    common("touch", "for i in 1 2 3 4 5 6; do touch out/tree/*/*; done")
        .before("cp -r tree out/tree"),
    common("ln -s", "cp -rs $PWD/tree out/tree"),
    common("mkdir -p", "mkdir -p $(seq -f out/a/%g 3000)"),
    common("rmdir", "cd out; rmdir $(seq 3000)").before("cd out; mkdir $(seq 3000)"),
    common("tar -c", "tar -cf out/tree.tar tree; tar -cf out/again.tar tree"),
    common("tar -x", "tar -xf tree.tar -C out"),
    common("split", "split -l 200 text out/part-"),
    common("mktemp -d", "mktemp -d $(pwd)/out/XXXXXX"),
    // Much text.
    common("sort", "sort -k2n text"),
    common("uniq", "for i in 1 2 3 4 5; do uniq -c sorted; done"),
    common("cut", "for i in 1 2 3 4 5; do cut -d' ' -f2 text; done"),
    common("tr", "for i in 1 2 3 4 5; do tr a-z A-Z < text; done"),
    common("sed", "sed -e 's/fox/dog/' -e 's/word\\([0-9]*\\)/\\1/' text"),
    common("sed -i", "sed -i s/fox/dog/ out/tree/*/*").before("cp -r tree out/tree"),
    common("awk", "awk '{n[$1] += $2} END {for (w in n) print w, n[w]}' text"),
    common("awk system", "awk '{system(\"true \" $1)} NR == 100 {exit}' text"),
    common("tail", "for i in $(seq 40); do tail -n 100000 text; done"),
    common("paste", "for i in 1 2 3; do paste text sorted; done"),
    common("join", "join sorted sorted | head -n 200000"),
    common("comm", "comm -12 sorted other"),
    common("tee", "for i in 1 2 3 4 5; do tee out/a out/b < text; done"),
    common("dd bs=512", "dd if=text of=out/a bs=512"),
    common("dd bs=1", "dd if=text of=out/a bs=1 count=100000"),
    common("od", "od -c text | tail -n 1"),
    common("gzip", "gzip -c text > out/a.gz"),
    common("gunzip", "for i in 1 2 3; do gunzip -c text.gz > out/a; done"),
    common("xz", "head -n 20000 text | xz -1 > out/a.xz").needs(&["xz"]),
    common("seq", "seq 3000000"),
    common("xargs -n 1", "seq 100 | xargs -n 1 true"),
    common("cmp", "for i in $(seq 40); do cmp text out/a; done").before("cp text out/a"),
    common("df", "for i in $(seq 100); do df .; done"),
    common("ps", "for i in 1 2 3 4 5; do ps -ef; done").needs(&["ps"]),
    // Shells.
    program("sh: read lines", &[], "while read -r a b; do :; done < numbers"),
    program("sh: test of files", &[], "for i in 1 2 3 4 5 6 7 8 9 10; do for f in tree/*/*; do [ -f $f ]; done; done"),
    program("sh: append lines", &[], "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo $i >> out/a; done"),
    program("sh: print lines", &[], "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); echo $i; done"),
    program("sh: command substitution", &[], "i=0; while [ $i -lt 300 ]; do i=$((i+1)); a=$(echo $i); done"),
    program("sh: pipelines", &[], "i=0; while [ $i -lt 50 ]; do i=$((i+1)); echo $i | cat | cat > /dev/null; done"),
    program("bash: read lines", &["bash"], "bash -c 'while read -r a b; do :; done < numbers'"),
    program("bash: read lines of a pipe", &["bash"], "cat numbers | bash -c 'while read -r a b; do :; done'"),
    program("bash: tests of files", &["bash"], "bash -c 'for i in {1..10}; do for f in tree/*/*; do [[ -f $f ]]; done; done'"),
    program("bash: command substitution", &["bash"], "bash -c 'for i in {1..300}; do a=$(echo $i); done'"),
    program("bash: printf", &["bash"], "bash -c 'for i in {1..50000}; do printf \"%s\\n\" $i; done'"),
    program("bash: here strings", &["bash"], "bash -c 'for i in {1..3000}; do read -r a <<< $i; done'"),
    // Python.
    program("python: time.time", &["python3"], "$PYTHON -c 'import time
for i in range(300000): time.time()'"),
    program("python: time.sleep(0)", &["python3"], "$PYTHON -c 'import time
for i in range(2000): time.sleep(0)'"),
    program("python: os.stat", &["python3"], "$PYTHON -c 'import os
for i in range(50000): os.stat(\"text\")'"),
    program("python: os.path.exists of missing files", &["python3"], "$PYTHON -c 'import os
for i in range(50000): os.path.exists(\"missing%d\" % (i % 100))'"),
    program("python: open, read", &["python3"], "$PYTHON -c 'import glob
for i in range(3):
  for f in glob.glob(\"tree/*/*\"): open(f).read()'"),
    program("python: open, write", &["python3"], "$PYTHON -c '
for i in range(3000): open(\"out/%d\" % i, \"w\").write(\"text\")'"),
    program("python: os.walk", &["python3"], "$PYTHON -c 'import os
for i in range(10):
  for d, _, names in os.walk(\"tree\"):
    for n in names: os.stat(os.path.join(d, n))'"),
    program("python: os.getpid", &["python3"], "$PYTHON -c 'import os
for i in range(300000): os.getpid()'"),
    program("python: os.urandom", &["python3"], "$PYTHON -c 'import os
for i in range(100000): os.urandom(8)'"),
    program("python: flushed output", &["python3"], "$PYTHON -c '
for i in range(50000): print(i, flush=True)'"),
    program("python: mmap", &["python3"], "$PYTHON -c 'import mmap
for i in range(20000): mmap.mmap(-1, 4096).close()'"),
    program("python: threads", &["python3"], "$PYTHON -c 'import threading
for i in range(2000):
  t = threading.Thread(target=int); t.start(); t.join()'"),
    program("python: a queue between threads", &["python3"], "$PYTHON -c 'import threading, queue
q, r = queue.Queue(), queue.Queue()
def f():
  for i in range(20000): r.put(q.get())
t = threading.Thread(target=f); t.start()
for i in range(20000): q.put(i); r.get()
t.join()'"),
    program("python: stat in two threads", &["python3"], "$PYTHON -c 'import threading, os
def f():
  for i in range(20000): os.stat(\"text\")
t = [threading.Thread(target=f) for i in range(2)]
[x.start() for x in t]; [x.join() for x in t]'"),
    program("python: files in two threads", &["python3"], "$PYTHON -c 'import threading
def f():
  for i in range(5000): open(\"text\", \"rb\", 0).read(64)
t = [threading.Thread(target=f) for i in range(2)]
[x.start() for x in t]; [x.join() for x in t]'"),
    program("python: subprocess", &["python3"], "$PYTHON -c 'import subprocess
for i in range(50): subprocess.run([\"true\"])'"),
    program("python: multiprocessing", &["python3"], "$PYTHON -c 'from multiprocessing import Pool
def f(x): return x
if __name__ == \"__main__\":
  with Pool(2) as p: [p.map(f, range(100)) for i in range(100)]'"),
    program("python: asyncio", &["python3"], "$PYTHON -c 'import asyncio
async def f():
  for i in range(20000): await asyncio.sleep(0)
asyncio.run(f())'"),
    program("python: logging", &["python3"], "$PYTHON -c 'import logging
logging.basicConfig(filename=\"out/log\", format=\"%(asctime)s %(message)s\")
for i in range(5000): logging.warning(i)'"),
    program("python: imports", &["python3"], "$PYTHON -c 'import json, re, argparse, logging, http.client, unittest, email, decimal, xml.dom.minidom, asyncio'"),
    program("python: json", &["python3"], "$PYTHON -c 'import json
d = json.dumps([{str(i): i} for i in range(50000)])
for i in range(3): json.loads(d)'"),
    program("python: zipfile", &["python3"], "$PYTHON -c 'import zipfile, glob
z = zipfile.ZipFile(\"out/z\", \"w\")
for f in glob.glob(\"tree/*/*\"): z.write(f)'"),
    program("python: sqlite3", &["python3"], "$PYTHON -c 'import sqlite3
d = sqlite3.connect(\"out/d\", isolation_level=None); d.execute(\"create table t(a)\"); d.execute(\"pragma synchronous=off\")
for i in range(500): d.execute(\"insert into t values(?)\", (i,))'"),
    program("python: tempfile", &["python3"], "$PYTHON -c 'import tempfile
for i in range(2000): tempfile.TemporaryFile(dir=\"out\").close()'"),
    // Perl and others.
    program("perl: time", &["perl"], "perl -e 'time for 1..1000000'"),
    program("perl: Time::HiRes", &["perl"], "perl -MTime::HiRes=time -e 'time() for 1..500000'"),
    program("perl: -e", &["perl"], "perl -e '-e \"text\" for 1..100000'"),
    program("perl: open", &["perl"], "perl -e 'for (1..20000) { open F, \"<text\"; <F>; close F }'"),
    program("perl: lines", &["perl"], "perl -ne 'print if /fox 13$/' text"),
    program("node: Date.now", &["node"], "node -e 'for (let i = 0; i < 3000000; i++) Date.now()'"),
    program("node: performance.now", &["node"], "node -e 'for (let i = 0; i < 1000000; i++) performance.now()'"),
    program("node: statSync", &["node"], "node -e 'const fs = require(\"fs\"); for (let i = 0; i < 50000; i++) fs.statSync(\"text\")'"),
    program("node: readFileSync", &["node"], "node -e 'const fs = require(\"fs\"); for (let i = 0; i < 10000; i++) fs.readFileSync(\"tree/part-01/file-01.txt\")'"),
    program("node: readFile", &["node"], "node -e 'const fs = require(\"fs\").promises; (async () => { for (let i = 0; i < 3000; i++) await fs.readFile(\"tree/part-01/file-01.txt\") })()'"),
    program("node: timers", &["node"], "node -e 'let i = 0; (function f() { if (i++ < 30000) setImmediate(f) })()'"),
    program("node: start", &["node"], "node -e 0"),
    program("jq", &["jq"], "seq 100000 | jq -c '{a: .}'"),
    program("sqlite3", &["sqlite3"], "seq 300 | sed 's/.*/insert into t values(&);/' | sqlite3 -cmd 'create table t(a); pragma synchronous=off;' out/d"),
    // git.
    program("git status", &["git"], "for i in 1 2 3 4 5; do git -C repo status; done").once(GIT),
    program("git log", &["git"], "for i in $(seq 20); do git -C repo log -p; done").once(GIT),
    program("git diff", &["git"], "for i in $(seq 20); do git -C repo diff; done").once(GIT),
    program("git add, commit", &["git"], "cd out/repo && git add -A && git commit -qm a")
        .before("mkdir out/repo; cp -r tree out/repo; git -C out/repo init -q"),
    program("git clone", &["git"], "git clone -q repo out/clone").once(GIT),
    // Compilers.
    program("gcc", &["gcc"], "for i in 1 2 3 4; do gcc -O1 -c -o out/a.o c/a.c; done").once(C),
    program("make, ten files", &["gcc", "make"], "make -s -C c -f make.txt").once(C),
    program("make, nothing to do", &["make"], "for i in $(seq 40); do make -s -C c -f nothing.txt; done").once(C),
    program("rustc", &["rustc"], "rustc --edition 2021 -o out/a rust/a.rs").once(RUST),
    program("javac", &["javac"], "javac -d out java/A.java").once(JAVA),
    program("java: System.nanoTime", &["java", "javac"], "java -cp java/classes A time").once(JAVA),
    program("java: Files.exists", &["java", "javac"], "java -cp java/classes A files").once(JAVA),
    program("java: threads", &["java", "javac"], "java -cp java/classes A threads").once(JAVA),
    program("go: time.Now", &["go"], "go/cliffs clock").once(GO),
    program("go: os.Stat", &["go"], "go/cliffs stat").once(GO),
    program("go: os.ReadFile", &["go"], "go/cliffs file").once(GO),
    program("go: a channel", &["go"], "go/cliffs channel").once(GO),
    program("go: a read of /dev/zero", &["go"], "go/cliffs read").once(GO),
    program("go: goroutines that sleep", &["go"], "go/cliffs sleep").once(GO),
    program("go build, nothing to do", &["go"], "cd go && go build -o ../out/x .").once(GO),
    program("go build, an empty cache", &["go"], "cd go && GOCACHE=$PWD/../out/gocache go build -o ../out/x ./http").once(GO),
];

const GIT: &str = "
if [ ! -d repo ]; then
git init -q repo; cp -r tree repo; git -C repo add -A; git -C repo commit -qm one
echo change >> repo/tree/part-01/file-01.txt
fi";

const C: &str = "
mkdir -p c
cat > c/a.c <<'X'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
int main(void) { puts(\"a\"); return 0; }
X
for i in 0 1 2 3 4 5 6 7 8 9; do echo \"#include <stdio.h>
int f$i(void) { return puts(\\\"$i\\\"); }\" > c/f$i.c; done
printf 'all: $(patsubst %%,../out/f%%.o,0 1 2 3 4 5 6 7 8 9)\\n../out/%%.o: %%.c\\n\\tgcc -c -o $@ $<\\n' > c/make.txt
printf 'all: a.c\\n' > c/nothing.txt";

const RUST: &str = "
mkdir -p rust
echo 'fn main() { println!(\"{}\", std::env::args().count()); }' > rust/a.rs";

const JAVA: &str = "
mkdir -p java
cat > java/A.java <<'X'
import java.nio.file.*;
public class A {
  static int x;
  public static void main(String[] a) throws Exception {
    switch (a[0]) {
      case \"time\": for (int i = 0; i < 2000000; i++) x += (int) System.nanoTime(); break;
      case \"files\": for (int i = 0; i < 30000; i++) Files.exists(Path.of(\"text\")); break;
      default: for (int i = 0; i < 2000; i++) { Thread t = new Thread(() -> x++); t.start(); t.join(); }
    }
  }
}
X
javac -d java/classes java/A.java";

const GO: &str = "
if [ ! -x go/cliffs ]; then
mkdir -p go/http
printf 'module x\\ngo 1.20\\n' > go/go.mod
cat > go/main.go <<'X'
package main

import (
	\"os\"
	\"sync\"
	\"time\"
)

func main() {
	switch os.Args[1] {
	case \"clock\":
		for i := 0; i < 1000000; i++ { _ = time.Now() }
	case \"stat\":
		for i := 0; i < 100000; i++ { os.Stat(\"/etc/x\") }
	case \"file\":
		for i := 0; i < 20000; i++ { os.ReadFile(\"tree/part-01/file-01.txt\") }
	case \"channel\":
		c := make(chan int)
		go func() { for i := 0; i < 300000; i++ { c <- i }; close(c) }()
		for range c { }
	case \"sleep\":
		var w sync.WaitGroup
		for i := 0; i < 100; i++ {
			w.Add(1)
			go func() { for i := 0; i < 20; i++ { time.Sleep(time.Microsecond) }; w.Done() }()
		}
		w.Wait()
	default:
		b := make([]byte, 1)
		f, _ := os.Open(\"/dev/zero\")
		for i := 0; i < 100000; i++ { f.Read(b) }
	}
}
X
cat > go/http/main.go <<'X'
package main

import \"net/http\"

func main() { http.ListenAndServe(\"127.0.0.1:0\", nil) }
X
cd go; go build -o cliffs .
fi";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn commands_have_names_of_their_own() {
        let names: BTreeSet<&str> = COMMANDS.iter().map(|command| command.name).collect();
        assert_eq!(names.len(), COMMANDS.len());
    }
}
