//! Where the tracer runs.
//!
//! A stop costs about 9 µs when tracer and tracee share a CPU and 35 to 55 µs
//! when the scheduler keeps them apart, and it does keep them apart: whichever
//! of the two wakes the other finds the other CPU idle and picks that one.
//! Pinning the tracer alone does not help (the tracee is then woken
//! elsewhere), and a tracee's affinity may not change under its eyes.
//!
//! So: the tracer pins *itself* to a CPU, and narrows the affinity of whoever it wakes to that
//! CPU, where it cannot look. A shell, its children and the programs of its pipelines take
//! turns, and stay there together. Where two tasks have work for long they are in each other's
//! way: then all have what they are allowed, nobody is narrowed while another is awake, and
//! after some stops of that the tracer is free again and the scheduler decides. Who finds that
//! out, and lets go of a task that runs on and on, is in `narrowed`.
//!
//! A task that asks for its affinity or opens a file of `/proc` is given what it is allowed
//! before it does, and never narrowed from then on (and the policy is off unless the filter
//! names sched_getaffinity and sched_setaffinity). While there is one that may look at the
//! affinity of others, these are narrowed for the moment of their wake-up only, while they are
//! stopped. Children inherit; each child's affinity is compared with its parent's at its first
//! stop. A task that sets an affinity ends the phase, so that nothing but what it set is ever
//! restored. Hosts find a task with all that it is allowed where it is about to execute a
//! program, and not where it stops otherwise.
//!
//! A task that executes a program is narrowed whoever is awake: it stops before the program
//! runs, and the kernel looks for a better CPU at an execve, and the way to it takes 130 µs.
//!
//! Measured with `./configure` of xz (3,300 processes, most of them one after another) on two
//! CPUs, five rounds side by side: plain 8.06 s of CPU time, 10.40 s with tasks narrowed for
//! the moment of each wake-up (6,000 migrations), 9.49 s with tasks held (1,900; plain 1,600).
//!
//! What lost: being free again at every stop of another task (in a `configure`,
//! a fifth of the tracer's time went into finding CPUs and pinning anew); always pinning the tracer (55 µs a stop), narrowing in parallel
//! phases too (serialises two busy tracees on one CPU until the next balance); telling parallel
//! phases by how often the next stop is another task's (two compilers that stop now and then
//! look like one task that takes turns, a shell and its children like two), or by who was woken
//! and has not stopped since (a shell waits, and its pipelines' programs wait for each other).
//! In parallel phases, measured with `benches`' `stops` on two CPUs of a busy
//! machine (two loops at a time, 18 to 25 µs a call of each): asking with `WNOHANG` 2, 5 or 30
//! times before blocking was within the noise and burns up to 10 µs a stop;
//! yielding before asking (23 to 35 µs) and `SCHED_BATCH` for the tracer (24 to
//! 33 µs, and up to 20 instead of 13 alone) were worse; `SCHED_IDLE` no better.
//! Emptying the kernel's list before blocking has nothing to gain: a wait that
//! finds a stop does not block.

mod cpus;
mod exposure;
mod host_threads;
mod narrowed;
mod policy;

pub(crate) use self::cpus::widen_self;
pub(crate) use self::exposure::{Exposure, exposure, may_show};
pub use self::host_threads::{HostThread, HostThreads};
pub(crate) use self::policy::Placement;
