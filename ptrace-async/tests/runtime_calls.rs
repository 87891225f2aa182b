//! Operations at a stop: calls changed, skipped, injected, repeated; memory read and
//! written.

mod common;

use std::cell::RefCell;
use std::rc::Rc;

use common::{Seen, c, seccomp};
use ptrace_async::invocation::Invocation;
use ptrace_async::memory::Memory;
use ptrace_async::runtime::{
    Interception, Options, Posthook, Prehook, Program, Running, Runtime, Started, Stop, Tracee,
};

type Handled = Result<Tracee<Running>, Stop>;

/// Runs a program whose `getppid` calls are given to `handle`; its end.
fn handled(
    program: &str,
    options: Options,
    handle: impl AsyncFn(Tracee<Prehook>, u32) -> Handled + Copy + 'static,
) -> Seen {
    let runtime = Runtime::new(options);
    let program = Program::new(&[program]).expect("no NUL");
    runtime.spawn(&program).expect("ptrace is allowed");
    let end = Rc::new(RefCell::new(None));
    let told = end.clone();
    runtime
        .run(move |tracee: Tracee<Started>| {
            let end = told.clone();
            async move {
                let mut running = tracee.resume();
                let mut number = 0;
                loop {
                    let mut stop = running.stop().await;
                    if let Stop::Prehook(call) = stop {
                        number += 1;
                        match handle(call, number).await {
                            Ok(next) => {
                                running = next;
                                continue;
                            }
                            Err(instead) => stop = instead,
                        }
                    }
                    *end.borrow_mut() = Some(Seen::of(&stop));
                    match stop.resume() {
                        Some(next) => running = next,
                        None => return,
                    }
                }
            }
        })
        .expect("waiting works");
    end.take().expect("it ended")
}

/// The same with and without a filter in the tracee.
fn both(source: &str, handle: impl AsyncFn(Tracee<Prehook>, u32) -> Handled + Copy + 'static) {
    const CALLS: &[i64] = &[libc::SYS_getppid];
    let program = c(source, &[]);
    let filtered = handled(program.path(), seccomp(CALLS), handle);
    assert_eq!(filtered, Seen::Exited(0), "with a filter");
    let every = Interception::Ptrace(common::filter(CALLS));
    let unfiltered = handled(program.path(), common::options(every), handle);
    assert_eq!(unfiltered, Seen::Exited(0), "without a filter");
}

fn call(nr: i64, args: [u64; 6]) -> Invocation {
    let nr = nr.cast_unsigned();
    Invocation { nr, args }
}

async fn done(tracee: Tracee<Prehook>) -> Result<Tracee<Posthook>, Stop> {
    tracee.posthook().await
}

#[test]
fn a_skipped_call_returns_the_tracers_value() {
    both(
        "int main() {
            if (syscall(SYS_getppid) != 42) return 1;
            return syscall(SYS_getppid) == -1 && errno == EPERM ? 0 : 2;
        }",
        async |tracee: Tracee<Prehook>, number| {
            let value = if number == 1 { 42 } else { -1 };
            Ok(tracee.skip(value).expect("alive"))
        },
    );
}

#[test]
fn a_modified_call_runs_as_modified() {
    both(
        "int main() { return syscall(SYS_getppid) == getpid() ? 0 : 1; }",
        async |mut tracee: Tracee<Prehook>, _| {
            let instead = call(libc::SYS_getpid, [0; 6]);
            tracee.modify(instead).expect("alive");
            assert_eq!(tracee.invocation(), instead);
            Ok(tracee.resume())
        },
    );
}

#[test]
fn the_result_of_a_call_can_be_replaced() {
    both(
        "int main() { return syscall(SYS_getppid) == 77 ? 0 : 1; }",
        async |tracee: Tracee<Prehook>, _| {
            let mut after = done(tracee).await?;
            assert!(after.value() > 0);
            after.set_value(77).expect("alive");
            Ok(after.resume())
        },
    );
}

#[test]
fn a_call_can_be_made_to_run_again() {
    // write(1, ..) to a pipe: how often it ran can be counted.
    both(
        "int main() {
            int ends[2];
            char bytes[16];
            pipe(ends);
            syscall(SYS_getppid, ends[1], bytes, 1);
            return read(ends[0], bytes, 16) == 3 ? 0 : 1;
        }",
        async |mut tracee: Tracee<Prehook>, _| {
            let args = tracee.invocation().args;
            let write = call(libc::SYS_write, args);
            for _ in 0..2 {
                tracee.modify(write).expect("alive");
                let entry = tracee.registers().expect("alive");
                let parent = call(libc::SYS_getppid, args);
                let after = done(tracee).await?;
                assert_eq!(after.value(), 1);
                // The call that comes again must be one that stops.
                let mut entry = entry;
                entry.orig_rax = parent.nr;
                tracee = after.rewind(&entry).await?;
            }
            tracee.modify(write).expect("alive");
            Ok(tracee.resume())
        },
    );
}

#[test]
fn injected_calls_run_before_the_call_which_then_runs_as_it_was() {
    both(
        "int main() {
            int ends[2];
            char byte = 'x';
            pipe(ends);
            long parent = getppid();
            long got = syscall(SYS_getppid, ends[1], &byte, 1);
            return got == parent && read(ends[0], &byte, 1) == 1 ? 0 : 1;
        }",
        async |tracee: Tracee<Prehook>, _| {
            let original = tracee.invocation();
            if original.args[2] != 1 {
                return Ok(tracee.resume());
            }
            let write = call(libc::SYS_write, original.args);
            let (tracee, written) = tracee.inject(write).await?;
            assert_eq!(written, 1);
            let (tracee, failed) = tracee.inject(call(libc::SYS_close, [999; 6])).await?;
            assert_eq!(failed, i64::from(-libc::EBADF));
            assert_eq!(tracee.invocation(), original);
            Ok(tracee.resume())
        },
    );
}

#[test]
fn signals_are_deferred_while_a_call_is_injected() {
    both(
        "volatile int got;
        void handler(int signal) { got = signal; }
        int main() {
            signal(SIGUSR1, handler);
            long parent = syscall(SYS_getppid);
            sigset_t blocked;
            sigprocmask(0, 0, &blocked);
            if (sigismember(&blocked, SIGUSR2)) return 3;
            return got != SIGUSR1 ? 1 : parent > 0 ? 0 : 2;
        }",
        async |tracee: Tracee<Prehook>, _| {
            common::kill(tracee.tid(), "USR1");
            // Even a call that a signal would interrupt.
            let nap = call(libc::SYS_poll, [0, 0, 1, 0, 0, 0]);
            let (tracee, value) = tracee.inject(nap).await?;
            assert_eq!(value, 0);
            Ok(tracee.resume())
        },
    );
}

#[test]
fn an_injection_into_a_killed_tracee_gives_its_end() {
    let program = c("int main() { syscall(SYS_getppid); }", &[]);
    let end = handled(
        program.path(),
        seccomp(&[libc::SYS_getppid]),
        async |tracee: Tracee<Prehook>, _| {
            common::kill(tracee.tid(), "KILL");
            let (tracee, _) = tracee.inject(call(libc::SYS_getpid, [0; 6])).await?;
            Ok(tracee.resume())
        },
    );
    assert_eq!(end, Seen::Killed(libc::SIGKILL));
}

/// Heap and stack as the kernel shows them.
fn heap_and_stack(tid: i32) -> Vec<String> {
    let maps = std::fs::read_to_string(format!("/proc/{tid}/maps")).expect("alive");
    let wanted = |line: &&str| line.ends_with("[heap]") || line.ends_with("[stack]");
    maps.lines().filter(wanted).map(str::to_owned).collect()
}

#[test]
fn scratch_memory_is_reused_disjoint_and_leaves_heap_and_stack_alone() {
    both(
        "int main() { malloc(1); syscall(SYS_getppid); syscall(SYS_getppid); return 0; }",
        async |tracee: Tracee<Prehook>, _| {
            let before = heap_and_stack(tracee.tid());
            let (tracee, one) = tracee.scratch(100).await?;
            let (tracee, two) = tracee.scratch(5000).await?;
            let (one, two) = (one.expect("memory"), two.expect("memory"));
            assert!(one.address() + 4096 <= two.address() || two.address() + 8192 <= one.address());
            tracee
                .write(two.address() + 4090, b"across a border")
                .expect("writable");
            let text: Vec<u8> = tracee
                .read_slice(two.address() + 4090, 15)
                .expect("readable");
            assert_eq!(text, b"across a border");
            let address = one.address();
            drop(one);
            let (tracee, again) = tracee.scratch(4096).await?;
            assert_eq!(again.expect("memory").address(), address);
            assert_eq!(heap_and_stack(tracee.tid()), before);
            drop(two);
            let tracee = tracee.release_scratch().await?;
            assert!(tracee.read_value::<u8>(address).is_err());
            Ok(tracee.resume())
        },
    );
}

#[test]
fn scratch_memory_follows_forks_and_ends_with_an_execve() {
    let program = c(
        r#"int main() {
            syscall(SYS_getppid);
            int status;
            if (fork() == 0) { syscall(SYS_getppid); _exit(0); }
            wait(&status);
            if (getenv("AGAIN")) return status;
            setenv("AGAIN", "1", 1);
            execl("/proc/self/exe", "again", (char *)0);
        }"#,
        &[],
    );
    let end = handled(
        program.path(),
        seccomp(&[libc::SYS_getppid]),
        async |tracee: Tracee<Prehook>, _| {
            let (tracee, memory) = tracee.scratch(8).await?;
            let memory = memory.expect("memory");
            // An address that was only remembered would not be writable.
            tracee.write(memory.address(), b"12345678").expect("mapped");
            assert_eq!(
                tracee.read_u64(memory.address()).expect("mapped"),
                u64::from_le_bytes(*b"12345678")
            );
            Ok(tracee.resume())
        },
    );
    assert_eq!(end, Seen::Exited(0));
}

#[test]
fn memory_is_read_up_to_the_border_of_what_is_mapped() {
    both(
        r#"int main() {
            char *pages = mmap(0, 5 * 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0);
            char *border = pages + 3 * 4096;
            munmap(border, 4096);
            memset(pages, 'a', 3 * 4096);
            strcpy(border - 4, "end");
            syscall(SYS_getppid, border - 4, border, pages);
            border[-1] = 'x';
            syscall(SYS_getppid, border - 4, border, pages);
            return 0;
        }"#,
        async |tracee: Tracee<Prehook>, number| {
            let [text, border, pages, ..] = tracee.invocation().args;
            let whole = tracee.read_c_string(text, 100);
            if number == 1 {
                assert_eq!(whole.expect("ends in its page"), b"end");
                assert_eq!(
                    tracee
                        .read_c_string(pages, 3 * 4096)
                        .expect("three pages")
                        .len(),
                    3 * 4096 - 1
                );
                assert!(
                    tracee.read_c_string(pages, 100).is_err(),
                    "longer than the limit"
                );
            } else {
                assert!(whole.is_err(), "no NUL before the border");
            }
            let mut buffer = [0; 4 * 4096];
            assert_eq!(tracee.read(text, &mut buffer), 4);
            assert_eq!(tracee.read(pages, &mut buffer), 3 * 4096);
            assert_eq!(tracee.read(pages + 5, &mut buffer), 3 * 4096 - 5);
            assert_eq!(tracee.read(border, &mut buffer), 0);
            assert!(tracee.read_value::<u64>(border - 4).is_err());
            assert_eq!(
                tracee.read_value::<u16>(border - 4).expect("mapped"),
                u16::from_le_bytes(*b"en")
            );
            assert!(tracee.read_slice::<u64>(pages, usize::MAX).is_err());
            let ranges = [(text, 2), (pages, 3), (border, 8), (pages, 1)];
            assert_eq!(tracee.read_ranges(&ranges), b"enaaa");
            let many = vec![(pages, 1); 1500];
            assert_eq!(tracee.read_ranges(&many), vec![b'a'; 1500]);
            Ok(tracee.resume())
        },
    );
}

#[test]
fn writes_reach_read_only_pages_and_fail_on_unmapped_ones() {
    both(
        r#"const char text[] = "before";
        int main() {
            syscall(SYS_getppid, text);
            return strcmp(*(const char *volatile[]){text}, "after!");
        }"#,
        async |tracee: Tracee<Prehook>, _| {
            let address = tracee.invocation().args[0];
            tracee.write(address, b"after!").expect("mapped");
            assert!(tracee.write(8, b"x").is_err());
            Ok(tracee.resume())
        },
    );
}
