//! Recording and replaying process trees, without hardware counters.
//!
//! A program is deterministic but for what comes to it from outside. [`record`] traces a
//! command and all that it starts and writes down what does: the results of syscalls with
//! the memory that they changed, the time stamp counter, signals and where they came, the
//! order in which tasks that share memory ran, the files that were mapped. [`replay`] runs
//! the same programs again in processes of its own, gives them the same, and performs none
//! of their syscalls but those that shape their own memory: no effect outside, same output,
//! same end, same memory.
//!
//! # Layers
//!
//! From the ground up; a module imports only from rows above its own in this table.
//!
//! | layer | modules | purpose |
//! |---|---|---|
//! | 1 | `platform` | the processor; system calls without a safe wrapper |
//! | 2 | `memory`, `code` | a process's mappings and memory; machine instructions |
//! | 3 | `buffer` | calls that are performed and logged in the process, without a stop |
//! | 4 | `trace` | the records of a recording, in blocks and files |
//! | 5 | `tracee` | operations on a stopped task that recorder and replay share |
//! | 6 | `record`, `replay` | the recorder; the replay, at once or in steps with checkpoints |
//! | 7 | `doctor` | checks of what this machine allows |
//! | 8 | `cli` | the command `reprise` |
//!
//! The ideas are those of rr (O'Callahan et al., 2017: one task at a time, emulated
//! syscalls, the buffer) and Scribe (Laadan, Viennot, Nieh, 2010: events wait for points
//! that recur). rr counts branches in hardware to find a place between two syscalls again;
//! here such a place is known by its state, and found by a check that the replayed program
//! carries itself (`replay::execution_points::check`).
//!
//! # What is not recorded
//!
//! | | |
//! |---|---|
//! | `io_uring`, Linux AIO, `userfaultfd`, `ptrace`, `bpf`, `perf_event_open`, System V shared memory, seccomp filters of the program's own, 32-bit calls, ioctls that the syscall table does not know | refused with the error of a kernel that has no such thing, and told at the end |
//! | `rseq` | refused silently: the C library does without |
//! | programs that may be executed and not read, and scripts that they interpret | not executed (EACCES), where the recorder has no rights beyond a user's; told at the end |
//! | a process that hides its memory (`PR_SET_DUMPABLE`) | is told that it has, which keeps its memory from nobody |
//! | memory shared with processes that are not recorded | not noticed but by what the program does with it |
//! | files that processes which are not recorded change while they are mapped | told at the end, by size, time and content; not when, nor what |
//! | `splice` from a pipe to a file that is mapped | refused with EINVAL, and told at the end |
//! | `rdrand`, `rdseed` | replaced where files have them in their code; in code that is made at run time, in shared mappings, and in what is made executable later, not noticed until a replay prints or does something else |
//! | `cpuid` | not trapped; the processor is compared before a replay, and each task runs on the processor of the same number |
//! | what a thread did since its last stop when it is killed, as a child of vfork sees it that goes on in the same memory | not noticed but by what that child does with it |
//! | memory that a call of one thread fills while others run | is there, in a replay, when the call's return is |

pub mod buffer;
pub mod cli;
mod code;
pub mod doctor;
mod memory;
pub mod platform;
pub mod record;
pub mod replay;
pub mod trace;
mod tracee;
