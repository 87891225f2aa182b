//! Recording and replaying process trees, without hardware counters.
//!
//! A program is deterministic except for its inputs from outside. [`record`] traces a command
//! and every process that it starts, and writes these inputs down: results of syscalls with
//! the memory that they changed, the time stamp counter, signals and their positions, the
//! order in which tasks that share memory ran, and the files that were mapped. [`replay`] runs
//! the same programs in processes of its own and gives them the same inputs. It performs none
//! of their syscalls, except those that shape their own memory. So a replay has no effect
//! outside, and the same output, end and memory.
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
//! The ideas are those of rr (O'Callahan et al., 2017: one task at a time, emulated syscalls,
//! the syscall buffer) and Scribe (Laadan, Viennot, Nieh, 2010: events wait for points that
//! recur). rr counts branches in hardware to find a place between two syscalls again. Here
//! such an execution point is identified by its state, and found by a check that the replayed
//! program carries itself (`replay::execution_points::check`).
//!
//! # What is not recorded
//!
//! | input | treatment |
//! |---|---|
//! | `io_uring`, Linux AIO, `userfaultfd`, `ptrace`, `bpf`, `perf_event_open`, System V shared memory, seccomp filters of the program, 32-bit calls, ioctls that the syscall table does not know | refused with the error of a kernel without them, and reported at the end |
//! | `rseq` | refused without a report: the C library works without it |
//! | programs that are executable but not readable, and scripts with such an interpreter | not executed (EACCES) if the recorder is unprivileged; reported at the end |
//! | a process that hides its memory (`PR_SET_DUMPABLE`) | the call succeeds, but the memory stays visible |
//! | memory shared with processes that are not recorded | noticed only by what the program does with it |
//! | mapped files that unrecorded processes change | reported at the end, by size, time and content; neither the time nor the change is known |
//! | `splice` from a pipe to a mapped file | refused with EINVAL, and reported at the end |
//! | `rdrand`, `rdseed` | replaced in the code of files; in generated code, shared mappings and memory that is made executable later they are noticed only when a replay does something else |
//! | `cpuid` | not trapped; a replay compares the processor first, and each task runs on the processor of the same number |
//! | the work of a thread since its last stop when it is killed, as seen by a vfork child in the same memory | noticed only by what that child does with it |
//! | memory that a call of one thread fills while others run | present in a replay when the call returns |

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
