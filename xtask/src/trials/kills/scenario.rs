//! Programs that are recorded and killed in the midst of it: programs that read much that no
//! compression makes smaller, so that their traces have many blocks.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

/// A command to record. It ends by itself, whichever of its processes is killed.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) command: Vec<String>,
}

const PIPELINE: &str = "for i in 1 2 3; do
    head -c 3000000 /dev/urandom | tail -c 100000 | od -An -tx1 | sort -r | gzip -n | gunzip | tail -n 2
    echo line $i
done; exit 3";

const PYTHON: &str = "import os, subprocess, threading, time
def work(name):
    for n in range(40):
        print(name, n, sum(os.urandom(100000)), time.monotonic_ns(), flush=True)
threads = [threading.Thread(target=work, args=(name,)) for name in 'abc']
for thread in threads: thread.start()
print(subprocess.run(['od', '-An', '-N16', '-tx1', '/dev/urandom'], capture_output=True).stdout)
for thread in threads: thread.join()
if os.fork() == 0:
    print('child', os.getpid(), flush=True)
    os._exit(0)
os.wait()
";

const MAKEFILE: &str = "all: $(foreach n,1 2 3 4 5 6 7 8,out-$(n))
\t@cat out-*
out-%:
\t@echo making $@; (date +%s.%N; seq 300 | awk '{s += $$1 * $$1} END {print s}'; head -c 800000 /dev/urandom | cksum) > $@.new
\t@mv $@.new $@
";

/// Threads that take turns at a lock, allocate and print.
const THREADS: &str = r#"#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long total;
static void *work(void *number) {
    for (long i = 0; i < 150; i++) {
        size_t length = 100 + (size_t) (i * 977 % 40000);
        char *memory = malloc(length);
        getrandom(memory, length, 0);
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        pthread_mutex_lock(&lock);
        total += memory[length / 2];
        if (i % 10 == 0) {
            printf("%ld %ld %ld %ld\n", (long) number, i, total, now.tv_nsec);
            fflush(stdout);
        }
        pthread_mutex_unlock(&lock);
        free(memory);
    }
    return NULL;
}
int main(void) {
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, (void *) i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    printf("%ld\n", total);
}
"#;

/// A program that maps files of its own, which are copied to the trace.
const COPY: &str = "cp \"$1\" own; chmod +x own; for i in 1 2 3; do ./own; done; rm own";

/// All that can be run here. Their files are put into `home`.
///
/// # Errors
/// When files cannot be written, or a program does not compile.
pub(super) fn all(home: &Path) -> anyhow::Result<Vec<Scenario>> {
    let write = |name: &str, text: &str| -> anyhow::Result<String> {
        let path = home.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        Ok(path.to_string_lossy().into_owned())
    };
    let threads = home.join("threads");
    let source = write("threads.c", THREADS)?;
    let compiled = Command::new("cc")
        .args(["-O1", "-pthread", "-o"])
        .args([&threads, Path::new(&source)])
        .status()
        .context("starting the C compiler")?;
    ensure!(compiled.success(), "{source} does not compile");
    let threads = threads.to_string_lossy().into_owned();
    let mut all = vec![
        scenario("pipeline", &["sh", "-c", PIPELINE]),
        scenario("threads", &[&threads]),
        scenario("copy", &["sh", "-c", COPY, "sh", &threads]),
    ];
    if exists("make") {
        let makefile = write("Makefile", MAKEFILE)?;
        all.push(scenario("make", &["make", "-j2", "-f", &makefile]));
    }
    if exists("python3") {
        let script = write("script.py", PYTHON)?;
        all.push(scenario("python", &["python3", &script]));
    }
    Ok(all)
}

fn scenario(name: &'static str, command: &[&str]) -> Scenario {
    let command = command.iter().map(|&word| word.to_owned()).collect();
    Scenario { name, command }
}

fn exists(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).exists())
}
