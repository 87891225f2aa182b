//! Replays in steps, which are restored to checkpoints.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use ptrace_async::memory::Memory as _;
use reprise::replay::{Error, Options, Output, Printed, Replayer};
use reprise::trace::event::{CallEffect, Event, ExecutionPoint, Registers};
use reprise::trace::{Directory, Record, Task};

#[path = "common/command.rs"]
mod command;
mod common;
use common::{records, rewrite};

#[path = "../examples/step.rs"]
#[expect(dead_code, reason = "the example's main")]
mod step;

const ORIG_RAX: usize = 15;
const RAX: usize = 10;
const RSP: usize = 19;

/// Records a command, with digests.
fn record(home: &Path, command: &[&str]) -> PathBuf {
    let trace = home.join("trace");
    let output = command::reprise(home)
        .args(["record", "--quiet", "--digests", "-o"])
        .arg(&trace)
        .arg("--")
        .args(command)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    trace
}

/// Changes the points of a trace.
fn change_points(trace: &Path, to: impl Fn(&mut ExecutionPoint)) {
    rewrite(trace, |_, mut record| {
        if let Event::Point(point) = &mut record.event {
            to(point);
        }
        vec![record]
    });
}

/// Records a program in C.
fn record_c(home: &Path, source: &str) -> PathBuf {
    let file = home.join("program.c");
    let program = home.join("program");
    std::fs::write(&file, source).unwrap();
    let compiled = Command::new("cc")
        .args(["-O1", "-pthread", "-Wl,-z,now", "-I"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/corpus"))
        .arg("-o")
        .args([&program, &file])
        .status()
        .unwrap();
    assert!(compiled.success());
    record(home, &[program.to_str().unwrap()])
}

fn open(trace: &Path) -> Replayer {
    let (directory, _) = Directory::open(trace).unwrap();
    let output = Output::Keep;
    Replayer::open(directory, Options { output }).unwrap()
}

/// The output so far, one stream after the other.
fn text(printed: Vec<Printed>) -> BTreeMap<u8, String> {
    let mut text: BTreeMap<u8, String> = BTreeMap::new();
    for some in printed {
        let bytes = String::from_utf8_lossy(&some.bytes).into_owned();
        text.entry(some.stream).or_default().push_str(&bytes);
    }
    text
}

/// Whether registers are what a record left.
#[track_caller]
fn check_registers(record: &Record, number: u64, now: &Registers, before: Option<u64>) {
    match &record.event {
        Event::Image(image) => assert_eq!(now.ip(), image.registers.ip()),
        Event::Started(started) => assert_eq!(now.ip(), started.registers.ip()),
        Event::Call(call) => {
            assert_eq!(now.0[ORIG_RAX], call.nr, "record {number}");
            assert_eq!(now.ip(), call.ip, "record {number}");
            assert_eq!(now.0[RSP], call.sp, "record {number}");
        }
        Event::Return(done) => match &done.more {
            CallEffect::State(state) => assert_eq!(now.ip(), state.registers.ip()),
            _ => {
                assert_eq!(now.0[RAX], done.value.cast_unsigned(), "record {number}");
                assert_eq!(Some(now.ip()), before, "record {number}");
            }
        },
        Event::Signal(signal) => assert_eq!(now.ip(), signal.state.registers.ip()),
        Event::Point(point) => assert_eq!(now.ip(), point.registers.ip()),
        _ => {}
    }
}

/// Steps through a recording, and compares with what it says.
fn check_steps(trace: &Path) -> Replayer {
    let records = records(trace);
    let mut replayer = open(trace);
    let mut counts: BTreeMap<Task, u64> = BTreeMap::new();
    let mut calls: BTreeMap<Task, u64> = BTreeMap::new();
    let mut pids: BTreeMap<Task, i32> = BTreeMap::new();
    for (number, record) in (0..).zip(&records) {
        assert_eq!(replayer.position(), number);
        assert!(replayer.step().unwrap(), "record {number}");
        if matches!(record.event, Event::File(_) | Event::Ended(_)) {
            continue;
        }
        *counts.entry(record.task).or_default() += 1;
        let tasks = replayer.tasks();
        let here = tasks.iter().find(|here| here.task == record.task);
        if let Event::Exit(_) = record.event {
            assert_eq!(here, None, "record {number}");
            continue;
        }
        let here = here.unwrap_or_else(|| panic!("{} at record {number}", record.task));
        assert_eq!(here.events, counts[&record.task]);
        let before = calls.get(&record.task).copied();
        check_registers(record, number, &here.registers, before);
        match &record.event {
            Event::Call(call) => drop(calls.insert(record.task, call.ip)),
            Event::Patched(patched) => {
                if let Some(end) = patched.end {
                    calls.insert(record.task, end);
                }
            }
            Event::Image(image) => drop(pids.insert(record.task, image.pid)),
            _ => {}
        }
        if let Some(pid) = pids.get(&record.task) {
            assert_eq!(here.pid, Some(*pid), "record {number}");
        }
        // Its stack can be read, and is mapped.
        let memory = replayer.memory(record.task).unwrap();
        let sp = here.registers.0[RSP];
        assert!(memory.read_u64(sp).is_ok(), "record {number}");
        let areas = replayer.mappings(record.task).unwrap();
        let is_mapped = areas
            .iter()
            .any(|area| (area.start..area.end).contains(&sp));
        assert!(is_mapped, "record {number}");
    }
    assert!(!replayer.step().unwrap());
    assert!(replayer.is_at_end());
    assert_eq!(replayer.tasks(), []);
    replayer
}

/// Takes checkpoints at these positions, and goes on from each of them twice, in any order: the
/// same is printed, and memory is what it was.
fn check_checkpoints(trace: &Path, positions: &[u64]) {
    let mut replayer = open(trace);
    let mut checkpoints = Vec::new();
    let mut whole = Vec::new();
    for &position in positions {
        assert!(replayer.run_to(position).unwrap());
        whole.extend(replayer.take_output());
        let state = state(&replayer);
        let checkpoint = replayer.checkpoint().unwrap();
        assert_eq!(checkpoint.position(), position);
        assert_eq!(self::state(&replayer), state, "at {position}");
        checkpoints.push((checkpoint, state, whole.len()));
    }
    replayer.run_to_end().unwrap();
    whole.extend(replayer.take_output());
    let digests = records(trace)
        .iter()
        .filter(|record| matches!(record.event, Event::Digest(_)))
        .count();
    for (checkpoint, state, printed) in checkpoints.iter().rev().chain(&checkpoints) {
        replayer.restore(checkpoint).unwrap();
        let position = checkpoint.position();
        assert_eq!(replayer.position(), position);
        assert_eq!(self::state(&replayer), *state, "at {position}");
        replayer.run_to_end().unwrap();
        assert_eq!(
            text(replayer.take_output()),
            text(whole[*printed..].to_vec()),
            "from {position}"
        );
    }
    let outcome = replayer.finish();
    assert_eq!(outcome.digests, digests as u64);
    assert!(digests > 0);
    assert!(outcome.ending.is_some());
}

/// All that can be seen of a replay.
fn state(replayer: &Replayer) -> Vec<String> {
    let tasks = replayer.tasks().into_iter();
    tasks
        .map(|here| format!("{here:x?} {:x?}", replayer.digest(here.task)))
        .collect()
}

/// Positions all over a trace.
fn positions(trace: &Path) -> Vec<u64> {
    let count = records(trace).len() as u64;
    (0..=5).map(|part| count * part / 5).collect()
}

const SHELL: &[&str] = &[
    "sh",
    "-c",
    "echo one; echo two >&2; read line < /etc/passwd; echo $line; exit 0",
];
const PROCESSES: &[&str] = &[
    "sh",
    "-c",
    "od -An -N8 -tx1 /dev/urandom | tr -d ' '; (echo inner; date); ls / | sort -r | head -n 3; wait",
];

#[test]
fn steps_through_a_program_match_the_trace() {
    let home = tempfile::tempdir().unwrap();
    let trace = record(home.path(), SHELL);
    let mut replayer = check_steps(&trace);
    let printed = text(replayer.take_output());
    assert!(printed[&1].starts_with("one\n"), "{printed:?}");
    assert_eq!(printed[&2], "two\n");
}

#[test]
fn steps_through_processes_match_the_trace() {
    let home = tempfile::tempdir().unwrap();
    check_steps(&record(home.path(), PROCESSES));
}

#[test]
fn steps_through_threads_match_the_trace() {
    let home = tempfile::tempdir().unwrap();
    check_steps(&record_c(home.path(), THREADS));
}

#[test]
fn a_replay_goes_to_a_certain_event_of_a_task() {
    let home = tempfile::tempdir().unwrap();
    let trace = record(home.path(), PROCESSES);
    let mut replayer = open(&trace);
    assert!(replayer.run_to_event_of(Task(1), 4).unwrap());
    let here = replayer.tasks();
    let here = here.iter().find(|here| here.task == Task(1)).unwrap();
    assert_eq!(here.events, 5);
    assert!(replayer.run_to_event_of(Task(1), 0).unwrap());
    let here = replayer.tasks();
    let here = here.iter().find(|here| here.task == Task(1)).unwrap();
    assert_eq!(here.events, 6);
    let position = replayer.position();
    assert!(!replayer.run_to_event_of(Task(1000), 0).unwrap());
    assert_eq!(replayer.position(), position);
}

#[test]
fn a_program_repeats_itself_from_a_checkpoint() {
    let home = tempfile::tempdir().unwrap();
    let trace = record(home.path(), SHELL);
    check_checkpoints(&trace, &positions(&trace));
}

#[test]
fn a_checkpoint_can_be_taken_between_any_two_records() {
    let home = tempfile::tempdir().unwrap();
    let trace = record(home.path(), &["sh", "-c", "echo a; (echo b); echo c"]);
    let count = records(&trace).len() as u64;
    let mut replayer = open(&trace);
    replayer.run_to_end().unwrap();
    let whole = text(replayer.take_output());
    for position in 0..=count {
        let mut replayer = open(&trace);
        assert!(replayer.run_to(position).unwrap());
        let before = replayer.take_output();
        let checkpoint = replayer.checkpoint().unwrap();
        // Nothing of what it goes on from is in the present.
        replayer.run_to_end().unwrap();
        replayer.restore(&checkpoint).unwrap();
        drop(checkpoint);
        replayer.run_to_end().unwrap();
        let after = replayer.take_output();
        let all = text(before.into_iter().chain(after).collect());
        assert_eq!(all, whole, "at {position}");
    }
}

#[test]
fn processes_repeat_themselves_from_a_checkpoint() {
    let home = tempfile::tempdir().unwrap();
    let trace = record(home.path(), PROCESSES);
    check_checkpoints(&trace, &positions(&trace));
}

const THREADS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local double mine;
static double all;
static void *work(void *argument)
{
    for (int i = 0; i < 6; i++) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        mine = mine * 1.25 + now.tv_nsec % 1000 / 8.0;
        pthread_mutex_lock(&lock);
        all += mine;
        pthread_mutex_unlock(&lock);
        struct timespec pause = { 0, 100000 };
        nanosleep(&pause, NULL);
    }
    printf("%ld: %.17g\n", (long)argument, mine);
    return NULL;
}
int main(void)
{
    pthread_t threads[4];
    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (long i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("%.17g\n", all);
}
"#;

#[test]
fn threads_repeat_themselves_from_a_checkpoint() {
    let home = tempfile::tempdir().unwrap();
    let trace = record_c(home.path(), THREADS);
    check_checkpoints(&trace, &positions(&trace));
}

#[test]
fn a_checkpoint_restores_shared_memory() {
    let home = tempfile::tempdir().unwrap();
    // Both write all the time; one of the mappings cannot be written when the checkpoint is
    // taken.
    let source = r#"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
    int flags = MAP_SHARED | MAP_ANONYMOUS;
    int *shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, flags, -1, 0);
    int *sealed = mmap(NULL, 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
    sealed[7] = 1;
    mprotect(sealed, 4096, PROT_READ);
    pid_t child = fork();
    for (int i = 0; i < 30; i++) {
        __atomic_add_fetch(&shared[i], child ? 3 : 5, __ATOMIC_SEQ_CST);
        __atomic_add_fetch(&shared[1024], i, __ATOMIC_SEQ_CST);
        usleep(200);
    }
    mprotect(sealed, 4096, PROT_READ | PROT_WRITE);
    __atomic_add_fetch(&sealed[7], 10, __ATOMIC_SEQ_CST);
    if (!child)
        _exit(0);
    waitpid(child, NULL, 0);
    int sum = 0;
    for (int i = 0; i < 2048; i++)
        sum += shared[i];
    printf("%d %d\n", sum, sealed[7]);
}
"#;
    let trace = record_c(home.path(), source);
    check_checkpoints(&trace, &positions(&trace));
    let mut replayer = open(&trace);
    replayer.run_to_end().unwrap();
    assert_eq!(text(replayer.take_output())[&1], "1110 21\n");
}

#[test]
fn a_checkpoint_keeps_memory_that_forks_do_not_copy() {
    let home = tempfile::tempdir().unwrap();
    let source = r#"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *pages = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
    memset(pages, 9, 4 * 4096);
    madvise(pages, 4096, MADV_WIPEONFORK);
    madvise(pages + 2 * 4096, 4096, MADV_DONTFORK);
    for (int i = 0; i < 10; i++) {
        pages[0]++;
        pages[2 * 4096]++;
        usleep(100);
    }
    pid_t child = fork();
    if (!child)
        _exit(pages[0] != 0 || pages[4096] != 9);
    int status;
    waitpid(child, &status, 0);
    printf("%d %d %d\n", pages[0], pages[2 * 4096], status);
}
"#;
    let trace = record_c(home.path(), source);
    check_checkpoints(&trace, &positions(&trace));
    let mut replayer = open(&trace);
    replayer.run_to_end().unwrap();
    assert_eq!(text(replayer.take_output())[&1], "19 19 0\n");
}

#[test]
fn a_checkpoint_restores_a_file_that_changes() {
    let home = tempfile::tempdir().unwrap();
    let source = |shrinks: bool| {
        let last = if shrinks { "ftruncate(fd, 100);" } else { "" };
        r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void)
{
    char name[] = "/tmp/reprise-XXXXXX";
    int fd = mkstemp(name);
    unlink(name);
    ftruncate(fd, 8192);
    char *shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char *own = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    own[4096] = 77;
    int sum = 0;
    for (int i = 0; i < 20; i++) {
        char byte = i;
        pwrite(fd, &byte, 1, i);
        shared[100 + i] += own[i] + 1;
        sum += own[100 + i] * i + shared[i];
        usleep(100);
    }
    LAST
    printf("%d %d\n", sum, own[0]);
}
"#
        .replace("LAST", last)
    };
    let trace = record_c(home.path(), &source(false));
    check_checkpoints(&trace, &positions(&trace));
    std::fs::remove_dir_all(&trace).unwrap();
    // A file that has been shorter since has lost what belongs to the checkpoint alone.
    let trace = record_c(home.path(), &source(true));
    let mut replayer = open(&trace);
    replayer.run_to(records(&trace).len() as u64 - 40).unwrap();
    let checkpoint = replayer.checkpoint().unwrap();
    replayer.run_to_end().unwrap();
    let refused = replayer.restore(&checkpoint).unwrap_err();
    assert!(matches!(refused, Error::Truncated), "{refused}");
}

/// How many processes this thread has.
fn children() -> usize {
    let id = rustix::thread::gettid().as_raw_nonzero();
    let path = format!("/proc/self/task/{id}/children");
    let text = std::fs::read_to_string(path).unwrap();
    text.split_whitespace().count()
}

#[test]
fn dropped_checkpoints_leave_no_process() {
    let home = tempfile::tempdir().unwrap();
    let trace = record(home.path(), SHELL);
    let mut replayer = open(&trace);
    for position in 10..30 {
        replayer.run_to(position).unwrap();
        let checkpoint = replayer.checkpoint().unwrap();
        assert_eq!(checkpoint.processes(), 1);
        replayer.restore(&checkpoint).unwrap();
        replayer.restore(&checkpoint).unwrap();
    }
    assert!(replayer.run_to(40).unwrap());
    drop(replayer);
    assert_eq!(children(), 0);
}

#[test]
fn a_diverged_replay_can_be_restored() {
    let home = tempfile::tempdir().unwrap();
    let trace = record(home.path(), SHELL);
    // Another recording, of which a call late in it is another one.
    let records = records(&trace);
    let is_call = |record: &Record| matches!(record.event, Event::Call(_));
    let wrong = records.iter().rposition(is_call).unwrap() as u64;
    rewrite(&trace, |at, mut record| {
        if let Event::Call(call) = &mut record.event
            && at == wrong
        {
            call.args[0] ^= 1;
        }
        vec![record]
    });
    let mut replayer = open(&trace);
    replayer.run_to(wrong - 5).unwrap();
    let checkpoint = replayer.checkpoint().unwrap();
    for _ in 0..2 {
        match replayer.run_to_end().unwrap_err() {
            Error::Diverged(divergence) => assert_eq!(divergence.record, wrong),
            other => panic!("{other}"),
        }
        assert!(matches!(replayer.run_to_end(), Err(Error::Over)));
        assert!(matches!(replayer.checkpoint(), Err(Error::Over)));
        assert_eq!(replayer.tasks(), []);
        replayer.restore(&checkpoint).unwrap();
        assert!(replayer.run_to(wrong).unwrap());
        assert_eq!(replayer.tasks().len(), 1);
    }
}

/// A loop in registers that looks the same in each round of an outer one, which counts in
/// memory: the first round that a replay comes to is like the one where the signal came.
const ROUNDS: &str = include_str!("../corpus/signals/loop_in_a_loop.c");

#[test]
fn a_wrong_visit_of_an_execution_point_is_corrected() {
    let home = tempfile::tempdir().unwrap();
    let trace = record_c(home.path(), ROUNDS);
    change_points(&trace, |point| point.contents = None);
    let records = records(&trace);
    let is_point = |record: &Record| matches!(record.event, Event::Point(_));
    let point = records.iter().position(is_point).unwrap() as u64;
    let mut replayer = open(&trace);
    // Before and behind it.
    replayer.run_to(point).unwrap();
    let before = replayer.checkpoint().unwrap();
    let mut printed = replayer.take_output();
    replayer.run_to(point + 1).unwrap();
    let behind = replayer.checkpoint().unwrap();
    replayer.run_to_end().unwrap();
    printed.extend(replayer.take_output());
    let printed = text(printed);
    assert!(printed[&1].contains(" at the signal\n"), "{printed:?}");
    // What is printed is printed once, and from checkpoints the replay comes to the same end;
    // also from one of what was not the recorded run.
    for checkpoint in [&before, &behind, &before] {
        replayer.restore(checkpoint).unwrap();
        replayer.run_to_end().unwrap();
        let last = text(replayer.take_output());
        assert!(printed[&1].ends_with(&last[&1]), "{last:?}");
        assert!(last[&1].contains(" at the signal\n"), "{last:?}");
    }
    let outcome = replayer.finish();
    assert!(outcome.mistaken > 0);
    assert!(outcome.ending.is_some());
}

#[test]
fn memory_distinguishes_visits_with_the_same_registers() {
    let home = tempfile::tempdir().unwrap();
    let trace = record_c(home.path(), ROUNDS);
    let replayed = || {
        let mut replayer = open(&trace);
        replayer.run_to_end().unwrap();
        let printed = text(replayer.take_output());
        assert!(printed[&1].contains(" at the signal\n"), "{printed:?}");
        replayer.finish()
    };
    assert_eq!(replayed().mistaken, 0);
    // Where it differs from run to run, what comes later does.
    change_points(&trace, |point| {
        if let Some(contents) = &mut point.contents {
            contents.digest ^= 1;
        }
    });
    assert!(replayed().mistaken > 0);
}

#[test]
fn a_replay_that_never_reaches_a_point_ends() {
    let home = tempfile::tempdir().unwrap();
    let trace = record_c(home.path(), ROUNDS);
    // RDX is not used there.
    change_points(&trace, |point| point.registers.0[12] ^= 1 << 40);
    match open(&trace).run_to_end().unwrap_err() {
        Error::Diverged(divergence) => {
            assert!(divergence.replayed.contains("runs on"), "{divergence}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_checkpoint_of_another_replay_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let trace = record(home.path(), SHELL);
    let (mut one, mut other) = (open(&trace), open(&trace));
    one.run_to(20).unwrap();
    let checkpoint = one.checkpoint().unwrap();
    let refused = other.restore(&checkpoint).unwrap_err();
    assert!(matches!(refused, Error::Foreign), "{refused}");
    assert!(other.run_to(20).unwrap());
}

#[test]
fn a_record_of_a_missing_task_is_an_error() {
    let home = tempfile::tempdir().unwrap();
    let trace = record(home.path(), SHELL);
    rewrite(&trace, |at, record| {
        let nobodys = Record {
            task: Task(7),
            time: record.time,
            event: Event::Written(Vec::new()),
        };
        let follows = (at == 20).then_some(nobodys);
        [record].into_iter().chain(follows).collect()
    });
    let refused = open(&trace).run_to_end().unwrap_err();
    assert!(refused.to_string().contains("task 7"), "{refused}");
}

#[test]
fn the_example_steps_through_a_recording() {
    let home = tempfile::tempdir().unwrap();
    let trace = record(home.path(), SHELL);
    let (text, printed) = step::walk(trace.clone()).unwrap();
    assert_eq!(text.lines().count(), records(&trace).len());
    assert!(text.contains(" at 0x"), "{text}");
    let printed = String::from_utf8(printed).unwrap();
    assert!(printed.contains('\n'), "{printed}");
}
