//! Operations on a task at a syscall's entry and exit.

use std::io;

use super::states::{Posthook, Prehook, Running, Tracee};
use super::stop::Stop;
use crate::filter::ARCH_X86_64;
use crate::invocation::Invocation;
use crate::sys::{self, Resume};

impl Tracee<Prehook> {
    /// The syscall and its arguments.
    pub fn invocation(&self) -> Invocation {
        self.state.call
    }

    /// Whether the call is of a foreign kind: a 32-bit call (`int 0x80` or a
    /// 32-bit program) or an x32 one. Its number then has another meaning.
    pub fn is_foreign(&self) -> bool {
        self.state.arch != ARCH_X86_64 || self.state.call.nr & 0x4000_0000 != 0
    }

    /// The address after the syscall instruction.
    pub fn instruction_pointer(&self) -> u64 {
        self.state.ip
    }

    /// The stack pointer.
    pub fn stack_pointer(&self) -> u64 {
        self.state.sp
    }

    /// Resumes the task and asks for the exit stop of its call. Events in between (exec,
    /// fork, death) come first, as stops of their own.
    pub fn resume_to_exit(self) -> Tracee<Running> {
        self.slot.wants_exit.set(true);
        self.go(Resume::ToSyscall, 0)
    }

    /// Waits for the exit of the call.
    ///
    /// # Errors
    /// The stop that came instead (exec, spawn, death).
    pub async fn posthook(self) -> Result<Tracee<Posthook>, Stop> {
        match self.resume_to_exit().stop().await {
            Stop::Posthook(after) => Ok(after),
            other => Err(other),
        }
    }

    /// Changes the call that is about to run.
    ///
    /// # Errors
    /// `ESRCH` when the task was killed in its stop.
    pub fn modify(&mut self, call: Invocation) -> io::Result<()> {
        let mut regs = self.registers()?;
        put_call(&mut regs, call);
        regs.orig_rax = call.nr;
        self.set_registers(&regs)?;
        self.state.call = call;
        Ok(())
    }

    /// Emulates the call: it does not run, and the tracee sees `value` (a
    /// result or a negative errno).
    ///
    /// # Errors
    /// `ESRCH` when the task was killed in its stop.
    pub fn skip(self, value: i64) -> io::Result<Tracee<Running>> {
        self.put_result(value)?;
        Ok(self.resume())
    }

    /// Makes the call not run, and return `value` (a result or a negative errno) once the
    /// tracee is resumed.
    ///
    /// # Errors
    /// `ESRCH` when the task was killed in its stop.
    pub fn put_result(&self, value: i64) -> io::Result<()> {
        let mut regs = self.registers()?;
        regs.orig_rax = u64::MAX;
        regs.rax = value.cast_unsigned();
        self.set_registers(&regs)
    }

    /// Runs another syscall in the tracee before this one, and returns to this stop. The
    /// original call has not run.
    ///
    /// Signals are blocked meanwhile, so that the tracee sees one long stop; only SIGSTOP
    /// may stop it in between. Do not inject calls that create a task or execute a program.
    ///
    /// # Errors
    /// The stop that came instead: the task was killed, or another thread
    /// executed a program.
    pub async fn inject(self, call: Invocation) -> Result<(Self, i64), Stop> {
        let (slot, state) = (self.slot.clone(), self.state);
        let (Ok(original), Ok(mask)) = (self.registers(), self.living().and_then(sys::signal_mask))
        else {
            return Err(self.resume().stop().await);
        };
        let mut regs = original;
        put_call(&mut regs, call);
        regs.orig_rax = call.nr;
        // Errors mean that the task has ended; the next stop reports that.
        let _ = sys::set_signal_mask(slot.tid.get(), u64::MAX);
        let _ = self.set_registers(&regs);
        let after = self.posthook().await?;
        let value = after.value();
        let mut stop = match after.rewind(&original).await {
            Ok(before) => Stop::Prehook(before),
            Err(stop) => stop,
        };
        loop {
            stop = match stop {
                Stop::Prehook(mut before) => {
                    let _ = before
                        .living()
                        .and_then(|tid| sys::set_signal_mask(tid, mask));
                    // The state of the original stop, not that of the rewound call.
                    before.state = state;
                    return Ok((before, value));
                }
                Stop::Signal(t) => t.deliver().stop().await,
                Stop::GroupStop(t) => t.listen().stop().await,
                Stop::Interrupted(t) => t.resume().stop().await,
                other => return Err(other),
            };
        }
    }
}

/// Puts a call's number and arguments where the kernel looks for them.
fn put_call(regs: &mut libc::user_regs_struct, call: Invocation) {
    let [a, b, c, d, e, f] = call.args;
    (regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9) = (a, b, c, d, e, f);
    regs.rax = call.nr;
}

impl Tracee<Posthook> {
    /// The syscall's return value: a result, or a negative errno.
    pub fn value(&self) -> i64 {
        self.state.value
    }

    /// Changes the result that the tracee sees.
    ///
    /// # Errors
    /// `ESRCH` when the task was killed in its stop.
    pub fn set_value(&mut self, value: i64) -> io::Result<()> {
        let mut regs = self.registers()?;
        regs.rax = value.cast_unsigned();
        self.set_registers(&regs)?;
        self.state.value = value;
        Ok(())
    }

    /// Moves the task back over the two-byte syscall instruction, so that the call of
    /// `entry` (the registers of its entry stop) runs again. Waits for that entry stop.
    ///
    /// # Errors
    /// The stop that came instead (the task died).
    pub async fn rewind(self, entry: &libc::user_regs_struct) -> Result<Tracee<Prehook>, Stop> {
        let mut regs = *entry;
        regs.rip = entry.rip - 2;
        regs.rax = entry.orig_rax;
        let _ = self.set_registers(&regs);
        match self.resume().stop().await {
            Stop::Prehook(before) => Ok(before),
            other => Err(other),
        }
    }
}
