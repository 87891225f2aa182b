//! Signals, and `prctl` and `seccomp` state.

use super::context::EntryContext;
use super::step::ExitStep;
use crate::event::IoEvent;
use crate::process::commands::PR_SET_VMA;
use crate::process::proc;

const PR_SET_PTRACER: i32 = 0x5961_6d61;
const PR_CAP_AMBIENT_IS_SET: i32 = 1;
const SECCOMP_SET_MODE_FILTER: u32 = 1;
const SECCOMP_FILTER_FLAG_NEW_LISTENER: u32 = 8;

impl EntryContext<'_> {
    /// Reports a signal to another process. It is reported at entry, because a missing
    /// target is an observation, too.
    pub(super) fn kill(&mut self, target: i32, signal: i32) -> Option<ExitStep> {
        if !self.is_own_process(target) {
            self.push(IoEvent::SignalSent { target, signal });
        }
        None
    }

    pub(super) fn tkill(&mut self) -> Option<ExitStep> {
        let thread = self.int(0);
        let target = self.model.tgid(thread).unwrap_or(thread);
        self.kill(target, self.int(1))
    }

    pub(super) fn pidfd_send_signal(&mut self) -> Option<ExitStep> {
        let fd = self.int(0);
        let target = proc::pidfd_target(self.tid, fd).unwrap_or(-1);
        self.kill(target, self.int(1))
    }

    pub(super) fn seccomp(&mut self) -> Option<ExitStep> {
        if self.uint(0) == SECCOMP_SET_MODE_FILTER {
            if self.uint(1) & SECCOMP_FILTER_FLAG_NEW_LISTENER != 0 {
                return self.fetch("another process answers syscalls");
            }
            return self.state("seccomp filter");
        }
        None
    }

    /// Options that end with the process, that only concern how it runs, or that only read
    /// state are no events.
    pub(super) fn prctl(&mut self) -> Option<ExitStep> {
        match self.int(0) {
            libc::PR_SET_NAME | libc::PR_GET_NAME => None,
            option if option as u32 == PR_SET_VMA => None,
            libc::PR_SET_DUMPABLE if self.int(1) == 0 => {
                self.unsupported("the program hides its memory, also from the tracer")
            }
            // These decide which processes may trace or dump this one, and how it ends.
            libc::PR_SET_DUMPABLE
            | libc::PR_SET_PDEATHSIG
            | PR_SET_PTRACER
            | libc::PR_MCE_KILL
            | libc::PR_SET_KEEPCAPS => None,
            // Orphans stay below the process, where they are traced as before.
            libc::PR_SET_CHILD_SUBREAPER => None,
            // The tracer's filter has set it already.
            libc::PR_SET_NO_NEW_PRIVS => None,
            // These change how code runs and memory is managed, not the result.
            libc::PR_SET_TIMERSLACK
            | libc::PR_SET_THP_DISABLE
            | libc::PR_SET_TSC
            | libc::PR_SET_TIMING
            | libc::PR_SET_UNALIGN
            | libc::PR_SET_FPEXC
            | libc::PR_SET_FPEMU
            | libc::PR_SET_SPECULATION_CTRL
            | libc::PR_TASK_PERF_EVENTS_DISABLE
            | libc::PR_TASK_PERF_EVENTS_ENABLE
            | libc::PR_SET_MDWE
            | 67 // PR_SET_MEMORY_MERGE
            => None,
            libc::PR_GET_DUMPABLE
            | libc::PR_GET_PDEATHSIG
            | libc::PR_GET_KEEPCAPS
            | libc::PR_GET_SECCOMP
            | libc::PR_CAPBSET_READ
            | libc::PR_GET_SECUREBITS
            | libc::PR_GET_TIMERSLACK
            | libc::PR_MCE_KILL_GET
            | libc::PR_GET_CHILD_SUBREAPER
            | libc::PR_GET_NO_NEW_PRIVS
            | libc::PR_GET_TID_ADDRESS
            | libc::PR_GET_THP_DISABLE
            | libc::PR_GET_TSC
            | libc::PR_GET_TIMING
            | libc::PR_GET_UNALIGN
            | libc::PR_GET_FPEXC
            | libc::PR_GET_FPEMU
            | libc::PR_GET_ENDIAN
            | libc::PR_GET_SPECULATION_CTRL
            | libc::PR_GET_MDWE
            | 56 // PR_GET_TAGGED_ADDR_CTRL
            | 58 // PR_GET_IO_FLUSHER
            | 68 // PR_GET_MEMORY_MERGE
            | 0x4155_5856 // PR_GET_AUXV
            => None,
            libc::PR_CAP_AMBIENT if self.int(1) == PR_CAP_AMBIENT_IS_SET => None,
            libc::PR_CAP_AMBIENT | libc::PR_CAPBSET_DROP | libc::PR_SET_SECUREBITS => {
                self.state("capabilities")
            }
            libc::PR_SET_SECCOMP => self.state("seccomp filter"),
            libc::PR_SET_MM => self.state("the process's memory layout as /proc shows it"),
            57 /* PR_SET_IO_FLUSHER */ | 62 /* PR_SCHED_CORE */ => self.state("scheduling policy"),
            59 /* PR_SET_SYSCALL_USER_DISPATCH */ => {
                self.unsupported("the program dispatches its own syscalls")
            }
            _ => self.unsupported("a prctl option that is not modelled"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::process::nr;
    use crate::process::testing::{Case, TID};

    #[test]
    fn a_signal_to_the_own_process_is_not_reported() {
        let mut case = Case::new();
        let (own, thread) = (TID as u64, TID as u64 + 1);
        case.model.spawned(TID, TID + 1, libc::CLONE_THREAD as u64);
        case.check(nr::kill, &[own, 15], 0, &[]);
        case.check(nr::tgkill, &[own, thread, 6], 0, &[]);
        case.check(nr::tkill, &[thread, 6], 0, &[]);
        case.check(nr::kill, &[1, 0], -1, &["signal 0 to 1"]);
        case.check(nr::kill, &[-5_i32 as u32 as u64, 9], 0, &["signal 9 to -5"]);
        case.check(nr::tgkill, &[1, 1, 9], 0, &["signal 9 to 1"]);
    }
}
