//! Kinds of processes and of trees of them.

use std::process::{Command, Stdio};

use crate::support::{PCACHE, Sandbox, Unit, check_hit, check_hit_in, program};

#[test]
fn a_parallel_make_with_a_jobserver_is_skipped() {
    check_hit(
        "printf 'all: 1 2 3 4\\n%%: i\\n\\t@sort -r i > $@\\n' > Makefile; seq 100 > i",
        "make -j4",
    );
}

#[test]
fn the_job_of_make_with_standard_input_does_not_matter() {
    let Some(_) = program(&["make"]) else { return };
    // The other one has a pipe without a writer.
    let sandbox = Sandbox::new(
        "printf 'a b:\\n\\tcat in-$@ > out-$@; sleep 0.05\\n' > Makefile; echo 1 > in-a; echo 2 > in-b",
    );
    sandbox.cached("make -j2 a b");
    sandbox.edit("rm out-a out-b");
    let run = sandbox.cached("make -j2 b a");
    for name in ["a", "b"] {
        let unit = run.unit(&format!("sh -c 'cat in-{name} > out-{name}; sleep 0.05'"));
        assert_eq!(unit.result, "hit", "{name}");
    }
}

#[test]
fn units_of_a_parallel_make_are_skipped() {
    let sandbox = Sandbox::new(
        "printf 'all: 1.o 2.o 3.o 4.o\\n%%.o: %%.i\\n\\t@sort -r $< > $@\\n' > Makefile; \
         for i in 1 2 3 4; do seq $i > $i.i; done",
    );
    sandbox.cached("make -j4");
    sandbox.reset();
    sandbox.edit("echo 9 > 3.i");
    let run = sandbox.cached("make -j4");
    for i in [1, 2, 4] {
        let unit = format!("sort -r {i}.i");
        let hit = |of: &Unit| of.command.contains(&unit) && of.result == "hit";
        assert!(run.units.iter().any(hit), "{unit}: {:#?}", run.units);
    }
    assert_eq!(sandbox.text("3.o"), "9\n");
    assert_eq!(sandbox.text("4.o"), "4\n3\n2\n1\n");
}

#[test]
fn options_of_make_do_not_count_for_its_tools() {
    let Some(_) = program(&["make"]) else { return };
    let sandbox = Sandbox::new(
        "printf 'all: sorted said\\nsorted: in\\n\\tsort -r in -o sorted\\nsaid:\\n\\techo \"$$MAKEFLAGS\" > said\\n' > Makefile; \
         seq 9 > in",
    );
    sandbox.cached("make -j2");
    let said = sandbox.text("said");
    sandbox.edit("rm sorted said");
    let run = sandbox.cached("make -j3 -k");
    assert_eq!(run.unit("sort -r in -o sorted").result, "hit");
    assert_ne!(sandbox.text("said"), said);
}

#[test]
fn a_recursive_make_is_skipped() {
    check_hit(
        "mkdir s; printf 'all:\\n\\t$(MAKE) -C s\\n' > Makefile; \
         printf 'all: x\\nx:\\n\\techo hi > x\\n' > s/Makefile",
        "make",
    );
}

#[test]
fn a_recursive_parallel_make_is_skipped() {
    check_hit(
        "mkdir s; printf 'all:\\n\\t@$(MAKE) --no-print-directory -C s\\n' > Makefile; \
         printf 'all: x y\\nx y:\\n\\t@echo hi > $@\\n' > s/Makefile",
        "make -j3",
    );
}

/// Signals that pcache ignores are not ignored in the command.
#[test]
fn a_command_is_skipped_where_another_one_starts_it() {
    let sandbox = Sandbox::new("");
    let run = |words: &[&str]| sandbox.run(sandbox.pcache().arg("--").args(words));
    assert!(run(&["cksum", "/etc/passwd"]).status.success());
    let within = run(&["nice", "-n", "0", "cksum", "/etc/passwd"]);
    assert_eq!(within.unit("cksum").result, "hit", "{within:#?}");
}

/// Make does not compare the time of a directory that it enters.
#[test]
fn a_recursive_make_is_skipped_after_its_outputs_were_removed() {
    let sandbox = Sandbox::new(
        "mkdir s; printf 'all:\\n\\tmkdir -p gen\\n\\t$(MAKE) -C s\\n' > Makefile; \
         printf 'all: x\\nx: ../gen\\n\\techo hi > x\\n' > s/Makefile",
    );
    let make = || sandbox.run(sandbox.pcache().args(["--", "make"]));
    let first = make();
    for removed in ["rm -r gen; rm s/x", "rm s/x; rm -r gen"] {
        sandbox.edit(removed);
        let again = make();
        again.assert_hit();
        assert_eq!(
            (again.out, &again.err),
            (first.out.clone(), &first.err),
            "{removed}"
        );
    }
}

#[test]
fn two_hundred_processes_are_skipped_as_one() {
    let sandbox = Sandbox::new("");
    check_hit_in(
        &sandbox,
        "i=0; while [ $i -lt 200 ]; do /bin/echo $i; i=$((i+1)); done",
    );
}

#[test]
fn parallel_processes_are_waited_for() {
    check_hit(
        "",
        "for i in 1 2 3 4 5 6 7 8; do (/bin/echo $i > f$i) & done; wait; cat f?",
    );
}

/// As libtool does in a parallel make.
#[test]
fn processes_that_make_the_same_directories_at_once_are_skipped() {
    let job = "for n in 1 2 3 4 5 6 7 8 9 10; do
            [ -d d$1.$n ] || mkdir d$1.$n 2> /dev/null
            [ -d d$1.$n ] || exit 1
            : > d$1.$n/f.$2
        done";
    check_hit(
        &format!("cat > job <<'END'\n{job}\nEND"),
        "for i in 1 2 3 4 5; do sh job $i a & sh job $i b & wait; done; ls d?.*",
    );
}

const THREADS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *work(void *argument) {
    char name[8];
    snprintf(name, sizeof name, "f%ld", (long)argument);
    FILE *file = fopen(name, "w");
    fprintf(file, "%s\n", name);
    fclose(file);
    return NULL;
}
int main(void) {
    pthread_t threads[8];
    for (long i = 0; i < 8; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (long i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    return 0;
}
"#;

#[test]
fn threads_that_write_files_are_skipped() {
    let setup = format!("cat > t.c <<'END'\n{THREADS}END\ncc -pthread -o t t.c");
    check_hit(&setup, "./t");
}

const EXEC_FROM_THREAD: &str = r#"
#include <pthread.h>
#include <unistd.h>
static void *work(void *argument) {
    execl("/bin/cat", "cat", "f", (char *)0);
    return argument;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    for (;;) pause();
}
"#;

#[test]
fn an_exec_by_a_thread_is_followed() {
    let setup =
        format!("cat > t.c <<'END'\n{EXEC_FROM_THREAD}END\ncc -pthread -o t t.c; echo 1 > f");
    let sandbox = Sandbox::new(&setup);
    for text in ["1", "2", "2"] {
        sandbox.edit(&format!("echo {text} > f"));
        let run = sandbox.cached("./t");
        assert_eq!(run.out, format!("{text}\n"));
    }
}

#[test]
fn a_static_program_is_skipped() {
    let sandbox = Sandbox::new(
        "cat > s.c <<'END'\n#include <stdio.h>\nint main(void) { char l[9]; FILE *f = fopen(\"f\", \"r\"); \
         fputs(fgets(l, 9, f), stdout); return 0; }\nEND\ncc -static -o s s.c || cc -o s s.c; echo 1 > f",
    );
    sandbox.cached("./s");
    sandbox.cached("./s").assert_hit();
    sandbox.edit("echo 2 > f");
    assert_eq!(sandbox.cached("./s").out, "2\n");
}

#[test]
fn a_go_program_behaves_as_without_pcache() {
    let Some(go) = program(&["go"]) else { return };
    let sandbox = Sandbox::new("");
    let build = format!(
        "cat > main.go <<'END'\npackage main\nimport (\"fmt\"; \"os\")\nfunc main() {{ b, _ := os.ReadFile(\"f\"); \
         c := make(chan int); for i := 0; i < 9; i++ {{ go func() {{ c <- i }}() }}; \
         s := 0; for i := 0; i < 9; i++ {{ s += <-c }}; fmt.Print(s, \" \", string(b)) }}\nEND\n\
         GOCACHE=$PWD/cache GOFLAGS=-mod=mod {go} build -o g main.go"
    );
    sandbox.edit(&build);
    for text in ["1", "2", "2"] {
        sandbox.edit(&format!("echo {text} > f"));
        assert_eq!(sandbox.cached("./g").out, format!("36 {text}\n"));
    }
}

#[test]
fn scripts_that_run_scripts_are_skipped() {
    check_hit(
        "printf '#!/bin/sh\\n./b $1\\n' > a; printf '#!/bin/cat\\ntext\\n' > b; chmod +x a b",
        "./a f",
    );
}

#[test]
fn a_pcache_inside_runs_its_command_directly() {
    let sandbox = Sandbox::new("echo 1 > f");
    let command = format!("'{PCACHE}' --quiet -- cat f");
    let first = sandbox.cached(&command);
    assert_eq!(first.out, "1\n");
    sandbox.edit("echo 2 > f");
    assert_eq!(sandbox.cached(&command).out, "2\n");
}

#[test]
fn a_command_with_orphans_ends_at_once() {
    let sandbox = Sandbox::new("mkfifo gate left");
    // The orphan waits for a gate that opens only after pcache has ended.
    let run = sandbox.cached("(read x < gate; echo $x > left) < /dev/null > /dev/null 2>&1 & :");
    assert!(run.status.success());
    assert_eq!(sandbox.plain("echo alive > gate; cat left").out, "alive\n");
}

#[test]
fn the_affinity_of_a_command_is_its_own() {
    let sandbox = Sandbox::new("");
    assert_eq!(sandbox.cached("nproc").out, sandbox.plain("nproc").out);
}

#[test]
fn no_process_is_left_when_pcache_is_killed() {
    let sandbox = Sandbox::new("mkfifo begun");
    let mut pcache = sandbox.pcache();
    pcache.args([
        "--",
        "sh",
        "-c",
        "echo $$ > begun; while :; do sleep 1; done",
    ]);
    let mut child = pcache.stdout(Stdio::null()).spawn().expect("pcache starts");
    let pid = sandbox.plain("cat begun").out.trim().to_owned();
    child.kill().expect("a signal");
    child.wait().expect("it ends");
    // `tail --pid` waits for the end of a process that is no child.
    let mut wait = Command::new("tail");
    let ended = wait
        .args(["--pid", &pid, "-s", "0.01", "-f", "/dev/null"])
        .status();
    assert!(ended.expect("tail runs").success());
    assert_eq!(sandbox.cached("echo still works").out, "still works\n");
}

#[test]
fn an_exec_by_the_shell_is_skipped() {
    check_hit("echo 1 > f", "exec sh -c 'echo a; exec cat f'");
}

#[test]
fn a_child_in_the_background_that_is_waited_for_is_skipped() {
    let script = "coproc { read x; echo second > f; }; pid=$!; echo first; \
                  echo go >&${COPROC[1]}; wait $pid; cat f";
    check_hit("", &format!("exec bash -c '{script}'"));
}

#[test]
fn the_exit_status_of_a_process_ignores_its_threads() {
    let Some(_) = program(&["cc"]) else { return };
    // The threads return while the process ends.
    let source = "#include <pthread.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
                  static void *thread(void *gate) { char byte; read(*(int *)gate, &byte, 1); return 0; }\n\
                  int main(int argc, char **argv) {\n\
                      int gate[2]; pipe(gate);\n\
                      for (int i = 0; i < 8; i++) { pthread_t id; pthread_create(&id, 0, thread, gate); }\n\
                      close(gate[1]);\n\
                      if (argc > 1) exit(3);\n\
                      abort();\n\
                  }\n";
    let sandbox = Sandbox::new("");
    std::fs::write(sandbox.path("p.c"), source).expect("a source");
    sandbox.plain("ulimit -c 0; cc -pthread -o p p.c");
    for round in 0..30 {
        let mut command = sandbox.pcache();
        command.args(["--refresh", "--", "./p"]);
        let run = sandbox.run(&mut command);
        assert_eq!(
            crate::support::ending(run.status),
            (None, Some(6)),
            "{round}"
        );
        let mut command = sandbox.pcache();
        command.args(["--refresh", "--", "sh", "-c", "./p 1; echo $?"]);
        assert_eq!(sandbox.run(&mut command).out, "3\n", "{round}");
    }
    // Skipped, it ends so too.
    for _ in 0..3 {
        let mut command = sandbox.pcache();
        command.args(["--", "./p"]);
        let run = sandbox.run(&mut command);
        assert_eq!(crate::support::ending(run.status), (None, Some(6)));
    }
}

#[test]
fn a_pipe_with_a_number_of_the_jobserver_is_no_jobserver() {
    let Some(_) = program(&["make"]) else { return };
    // Without a standard input, make's tokens get its number.
    let sandbox = Sandbox::new(
        "echo data > in; printf 'all: a b\\na b:\\n\\t@cat in | tee $@ | wc -l; sleep 0.01\\n' > Makefile",
    );
    let pcache = format!("'{PCACHE}' -q --min-time 0 --");
    for _ in 0..3 {
        sandbox.plain(&format!("{pcache} sh -c 'make -j2 | sort' <&-"));
        assert_eq!(
            (sandbox.text("a"), sandbox.text("b")),
            ("data\n".into(), "data\n".into())
        );
        sandbox.edit("rm a b");
    }
}
