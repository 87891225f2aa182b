//! Signals, and instructions that a signal traps.

use std::collections::VecDeque;

use ptrace_async::event::Tid;
use ptrace_async::memory::Memory;
use ptrace_async::process::read_proc;
use ptrace_async::runtime::{Running, Signal, Stop, Stopped, Tracee};
use ptrace_async::syscall::Invocation;

use super::{Next, RecordedTask};
use crate::buffer;
use crate::code::registers::Registers;
use crate::platform::os;
use crate::record::calls;
use crate::trace::event::{
    self, Event, Instruction, InstructionKind, RegisterState, SignalPosition, Write,
};
use crate::tracee::trapped::{apply, instruction, is_fault, is_trap_of};

/// `SIGRTMIN` of the kernel.
const FIRST_REAL_TIME: i32 = 32;

impl RecordedTask {
    pub(super) async fn signal(&mut self, tracee: Tracee<Signal>) -> Next {
        self.take_turn(&tracee).await;
        let (Ok(mut info), Ok(regs)) = (tracee.info(), tracee.registers()) else {
            return tracee.resume().into();
        };
        let signal = tracee.signal();
        if !self.logs {
            return tracee.deliver().into();
        }
        let is_in_stub = buffer::contains(regs.rip);
        let is_trap = match signal {
            libc::SIGSEGV => info.si_code == libc::SI_KERNEL,
            libc::SIGILL => self.sites.is_random(regs.rip),
            _ => false,
        };
        if is_trap
            && let Some(kind) = instruction(&tracee, regs.rip)
            && is_trap_of(kind, signal)
        {
            self.drain(&tracee);
            return self.answered(tracee, kind, regs).into();
        }
        let mut at = None;
        if is_fault(&info) {
            at = Some(SignalPosition::Fault);
        } else {
            let again = self
                .sent_again
                .iter()
                .position(|sent| sent.si_signo == signal && is_from_us(&info));
            if let Some(again) = again {
                info = self.sent_again.remove(again);
                let _ = tracee.set_info(&info);
            }
            if let Some((event, registers)) = &self.at_event
                && *registers == Registers::from(&regs)
            {
                at = Some(*event);
            }
        }
        if !is_handled(tracee.tid(), signal) {
            if is_in_stub && gives_up(&regs) {
                self.leave_stub(&tracee, regs);
            }
            return tracee.deliver().into();
        }
        let Some(at) = at else {
            if is_in_stub && self.leave_stub(&tracee, regs) {
                // It is to interrupt the call once more.
                self.interrupting.push(info);
            } else {
                defer(&mut self.deferred, info);
            }
            return tracee.resume().into();
        };
        self.drain(&tracee);
        let ip = regs.rip;
        match tracee.deliver_and_step().stop().await {
            Stop::Signal(tracee) if tracee.signal() == libc::SIGTRAP => {
                self.handler(&tracee, signal, at, ip);
                self.go(tracee, SignalPosition::Event).into()
            }
            stop => Next::Stop(stop),
        }
    }

    /// If a call that the stub performs was interrupted, it is left to the program, which stops
    /// for it, and gets its signal there, or gives its turn away. Whether it was.
    pub(super) fn leave_stub<S: Stopped>(
        &self,
        tracee: &Tracee<S>,
        mut regs: libc::user_regs_struct,
    ) -> bool {
        let Some(stub) = self.session.stub() else {
            return false;
        };
        let restarts = (-516..=-512).contains(&regs.rax.cast_signed());
        if regs.rip != stub.after || !(restarts || gives_up(&regs)) {
            return false;
        }
        regs.rip = stub.leave;
        regs.rax = regs.orig_rax;
        regs.orig_rax = u64::MAX;
        tracee.set_registers(&regs).is_ok()
    }

    /// A handler is about to begin.
    fn handler(&mut self, tracee: &Tracee<Signal>, signal: i32, at: SignalPosition, ip: u64) {
        let (Ok(regs), Ok(extended)) = (tracee.registers(), tracee.extended_state()) else {
            return;
        };
        let mut bytes = vec![0; frame_length(tracee, regs.rsp)];
        let got = tracee.read(regs.rsp, &mut bytes);
        bytes.truncate(got);
        self.sites.handler_began();
        self.log(Event::Signal(Box::new(event::Signal {
            signal,
            at,
            ip,
            state: RegisterState {
                registers: (&regs).into(),
                extended,
            },
            frame: Write {
                address: regs.rsp,
                bytes,
            },
        })));
    }

    /// Answers an instruction that was trapped.
    fn answered(
        &mut self,
        tracee: Tracee<Signal>,
        kind: InstructionKind,
        mut regs: libc::user_regs_struct,
    ) -> Tracee<Running> {
        let value = match kind {
            InstructionKind::Rdtsc | InstructionKind::Rdtscp => os::time_stamp(),
            InstructionKind::Random { .. } => os::random(),
        };
        let instruction = Instruction {
            kind,
            ip: regs.rip,
            value,
            aux: 0,
        };
        self.log(Event::Instruction(instruction));
        apply(&instruction, &mut regs);
        let _ = tracee.set_registers(&regs);
        self.go(tracee, SignalPosition::Event)
    }
}

/// Keeps a signal that has come where no replay finds the place again, if it is one that can
/// come later.
pub(super) fn keep(deferred: &mut VecDeque<libc::siginfo_t>, tracee: &Tracee<Signal>) -> bool {
    let Ok(info) = tracee.info() else {
        return false;
    };
    let is_saved =
        !is_fault(&info) && !is_from_us(&info) && is_handled(tracee.tid(), tracee.signal());
    if is_saved {
        defer(deferred, info);
    }
    is_saved
}

/// As the kernel does while a signal is blocked: one that is not of the real-time signals is
/// pending or not, however often it has come (signal(7)).
fn defer(deferred: &mut VecDeque<libc::siginfo_t>, info: libc::siginfo_t) {
    let is_pending = |other: &libc::siginfo_t| other.si_signo == info.si_signo;
    if info.si_signo >= FIRST_REAL_TIME || !deferred.iter().any(is_pending) {
        deferred.push_back(info);
    }
}

/// Whether a call has given up that would not have been disturbed without us
/// ([`calls::gives_up`]).
fn gives_up(regs: &libc::user_regs_struct) -> bool {
    let call = Invocation {
        nr: regs.orig_rax,
        args: [0; 6],
    };
    regs.rax.cast_signed() == -i64::from(libc::EINTR) && calls::gives_up(&call)
}

/// The value of `orig_rax` of a resumed task that is in no call. The kernel takes it for no
/// call (`syscall_get_nr` takes 32 bits of it).
const NOT_RUN: u64 = 0x5245_5052_ffff_ffff;

/// Marks the registers so that they show whether the task has run since. Every entry to the
/// kernel except a call sets `orig_rax` to -1 (arch/x86/entry/entry_64.S). General registers
/// alone do not show it: a loop may have gone round.
pub(super) fn mark<S: Stopped>(tracee: &Tracee<S>) -> Option<Registers> {
    let mut regs = tracee.registers().ok()?;
    if regs.orig_rax as u32 == u32::MAX {
        regs.orig_rax = NOT_RUN;
        tracee.set_registers(&regs).ok()?;
    }
    Some((&regs).into())
}

fn is_from_us(info: &libc::siginfo_t) -> bool {
    info.si_code == libc::SI_TKILL && os::sender(info) == std::process::id() as Tid
}

/// Whether a process has a handler for a signal (`SigCgt` of proc(5)).
fn is_handled(tid: Tid, signal: i32) -> bool {
    let Ok(text) = read_proc(format!("/proc/{tid}/status")) else {
        return false;
    };
    let text = String::from_utf8_lossy(&text);
    let caught = text
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask >> (signal - 1) & 1 != 0)
}

/// The length of the frame that the kernel has made for a handler, from the stack
/// pointer (`struct rt_sigframe` and what lies behind it, in
/// arch/x86/kernel/signal_64.c).
fn frame_length<S: Stopped>(tracee: &Tracee<S>, sp: u64) -> usize {
    // The return address, ucontext, siginfo.
    const FIXED: u64 = 8 + 304 + 128;
    /// Where the ucontext points to the floating-point state.
    const STATE: u64 = 8 + 40 + 23 * 8;
    /// `struct _fpx_sw_bytes` in it: its magic number, and the whole length.
    const SOFTWARE: u64 = 464;
    const MAGIC: u32 = 0x4650_5853;
    let mut end = sp + FIXED;
    if let Ok(state) = tracee.read_u64(sp + STATE)
        && state != 0
    {
        let word = |address| tracee.read_value::<u32>(address).unwrap_or(0);
        let length = if word(state + SOFTWARE) == MAGIC {
            u64::from(word(state + SOFTWARE + 4))
        } else {
            512
        };
        end = end.max(state.saturating_add(length.min(64 << 10)));
    }
    (end - sp).min(128 << 10) as usize
}
