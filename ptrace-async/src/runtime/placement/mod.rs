//! On which CPUs the tracer and its tracees run.
//!
//! A stop costs about 9 µs when tracer and tracee share a CPU, and 35 to 55 µs when they
//! run on two. The scheduler keeps them on two: whichever of them wakes the other finds the
//! other CPU idle and picks that one. Pinning the tracer alone does not help, because the
//! tracee is then woken elsewhere. And a tracee must not see its affinity change.
//!
//! So the tracer pins *itself* to a CPU, and narrows the affinity of each task that it
//! wakes to that CPU, as long as the task cannot look. A shell, its children and the
//! programs of its pipelines run one at a time, and stay there together. Two tasks that
//! both have work for long contend for the CPU. Then all get their own affinity back, no
//! task is narrowed while another is awake, and after some such stops the tracer is
//! unpinned and the scheduler decides. The thread in `narrowed` detects contention and
//! widens tasks that run for long.
//!
//! A task that asks for its affinity or opens a file of `/proc` gets its own affinity back
//! first, and is never narrowed again. The policy is off unless the filter names
//! sched_getaffinity and sched_setaffinity. While some task may look at the affinity of
//! others, these are narrowed only for the moment of their wake-up. Children inherit an
//! affinity, so each child's is compared with its parent's at its first stop. A task that
//! sets an affinity resets the policy, so that no older value is ever restored. A host sees
//! a task's own affinity where the task is about to execute a program, and not at other
//! stops.
//!
//! A task that executes a program is narrowed even while others are awake. It stops again
//! before the program runs, and the kernel would move it to another CPU at the execve,
//! which takes 130 µs.
//!
//! Measured with `./configure` of xz (3,300 processes, most of them one after another) on
//! two CPUs, five rounds side by side: plain 8.06 s of CPU time, 10.40 s with tasks
//! narrowed for the moment of each wake-up (6,000 migrations), 9.49 s with tasks that stay
//! narrowed (1,900 migrations; plain has 1,600).
//!
//! These designs lost:
//!
//! - Unpinning at every stop of another task: in a `configure`, a fifth of the tracer's
//!   time went into finding CPUs and pinning anew.
//! - Always pinning the tracer: 55 µs a stop.
//! - Narrowing in parallel phases too: it runs two busy tracees on one CPU until the next
//!   balance.
//! - Detecting parallel phases by how often the next stop is another task's: two compilers
//!   that rarely stop look like one task, a shell and its children like two.
//! - Detecting them by the tasks that were woken and have not stopped since: a shell waits
//!   for its children, and the programs of a pipeline for each other.
//!
//! In parallel phases, `benches`' `stops` was measured on two CPUs of a busy machine (two
//! loops at a time, 18 to 25 µs a call of each). Asking with `WNOHANG` 2, 5 or 30 times
//! before blocking was within the noise and burns up to 10 µs a stop. Yielding before
//! asking (23 to 35 µs) and `SCHED_BATCH` for the tracer (24 to 33 µs, and up to 20 instead
//! of 13 alone) were worse; `SCHED_IDLE` was no better. Emptying the kernel's list before
//! blocking gains nothing: a wait that finds a stop does not block.

mod cpus;
mod exposure;
mod host_threads;
mod narrowed;
mod policy;

pub(crate) use self::cpus::widen_self;
pub(crate) use self::exposure::{Exposure, exposure, may_show};
pub use self::host_threads::{HostThread, HostThreads};
pub(crate) use self::policy::Placement;
