//! Emulation of `ptrace` calls that a tracee makes, as far as LeakSanitizer needs.
//!
//! At the exit of a sanitized program LeakSanitizer clones a task that shares the program's
//! memory. The task attaches to every thread, reads the registers, scans for leaks, and
//! detaches. A thread has one tracer only, which is this runtime. So the calls of that task
//! are answered here from the runtime's own requests:
//!
//! | call | answer |
//! |---|---|
//! | `PTRACE_ATTACH` | the target is interrupted; its function does not see the stop |
//! | `wait4(target)` | returns when the target has stopped, as if by SIGSTOP |
//! | `PTRACE_GETREGS`, `PTRACE_GETREGSET`, `PTRACE_PEEKDATA` | the kernel's answer |
//! | `PTRACE_CONT`, `PTRACE_DETACH` | the target is resumed |
//! | anything else | `EIO`, as for a request that the kernel does not know |
//!
//! The clone asks not to be traced. Under a filter its filtered calls would then fail with
//! `ENOSYS`, so [`Tracee::keep_traced`] clears that flag.
//!
//! **Invariant:** a target stays stopped only while the task that attached to it is alive.
//! Detaching, or the end of that task, resumes the target.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::Poll;

use super::states::{Prehook, Running, Tracee};
use crate::event::Tid;
use crate::invocation::Invocation;
use crate::memory::Memory;
use crate::runtime::slot::Slot;
use crate::sys;

/// The outcome of a call that may be part of nested tracing.
#[derive(Debug)]
pub enum Emulation {
    /// The call was answered, and the task runs on.
    Answered(Tracee<Running>),
    /// The call is not part of nested tracing.
    NotOurs(Tracee<Prehook>),
}

/// The status that `wait4` reports for a task stopped by SIGSTOP.
const STOPPED: i32 = libc::SIGSTOP << 8 | 0x7f;

impl Tracee<Prehook> {
    /// Before a `clone` or `clone3`: has the new task traced even if it asks not
    /// to be (`CLONE_UNTRACED`). A task with our filter and without a tracer
    /// would get `ENOSYS` from every call that the filter names.
    ///
    /// # Errors
    /// `ESRCH` when the task was killed in its stop.
    pub fn keep_traced(&mut self) -> io::Result<()> {
        const UNTRACED: u64 = libc::CLONE_UNTRACED as u64;
        let mut call = self.invocation();
        if call.nr == libc::SYS_clone as u64 && call.args[0] & UNTRACED != 0 {
            call.args[0] &= !UNTRACED;
            return self.modify(call);
        }
        if call.nr == libc::SYS_clone3 as u64
            && let Ok(flags) = self.read_u64(call.args[0])
            && flags & UNTRACED != 0
        {
            return self.write(call.args[0], &(flags & !UNTRACED).to_ne_bytes());
        }
        Ok(())
    }

    /// Before a `ptrace` or `wait4` of a tracee: answers it if it is part
    /// of tracing another of our tracees, as LeakSanitizer does it (see the
    /// module's table). `PTRACE_TRACEME` and targets that are not ours are left
    /// to the kernel.
    ///
    /// The filter must name `ptrace`, and `clone` and `clone3` where they have
    /// `CLONE_UNTRACED`; from its first attaching on, a task's `wait4` stops
    /// whether the filter names it or not.
    pub async fn emulate_ptrace(self) -> Emulation {
        let Invocation { nr, args } = self.invocation();
        match i64::try_from(nr) {
            Ok(libc::SYS_ptrace) => {
                let (request, target) = (args[0] as u32, args[1] as Tid);
                match self.traced_task(target) {
                    Some(target) if request != libc::PTRACE_TRACEME => {
                        let value = self.nested_request(request, &target, args[2], args[3]);
                        Emulation::Answered(self.answer(value))
                    }
                    _ => Emulation::NotOurs(self),
                }
            }
            Ok(libc::SYS_wait4) if self.slot().nested.has_attached() => {
                let target = self.traced_task(args[0] as Tid);
                let key = self.slot().key;
                let target = target.filter(|target| target.nested.tracer.get() == Some(key));
                match target {
                    Some(target) => self.nested_wait(&target, args[1], args[2] as i32).await,
                    None => Emulation::NotOurs(self),
                }
            }
            _ => Emulation::NotOurs(self),
        }
    }

    fn traced_task(&self, tid: Tid) -> Option<Rc<Slot>> {
        self.shared().slots.borrow().get(&tid).cloned()
    }

    fn answer(self, value: i64) -> Tracee<Running> {
        match self.put_result(value) {
            // An error means that the task was killed; its next stop reports that.
            Ok(()) | Err(_) => self.resume(),
        }
    }

    fn nested_request(&self, request: u32, target: &Rc<Slot>, address: u64, data: u64) -> i64 {
        let error = |errno: i32| i64::from(-errno);
        let mine = Some(self.slot().key);
        if request == libc::PTRACE_ATTACH {
            if target.nested.tracer.get().is_some() || target.key == self.slot().key {
                return error(libc::EPERM);
            }
            self.slot().nested.has_attached.set(true);
            target.nested.tracer.set(mine);
            target.nested.interrupt_pending.set(true);
            return match sys::interrupt(target.tid.get()) {
                Ok(()) => 0,
                Err(_) => error(libc::ESRCH),
            };
        }
        if target.nested.tracer.get() != mine || !target.nested.is_stopped_for.get() {
            return error(libc::ESRCH);
        }
        let tid = target.tid.get();
        let put = |address: u64, bytes: &[u8]| match self.write(address, bytes) {
            Ok(()) => 0,
            Err(_) => error(libc::EFAULT),
        };
        match request {
            libc::PTRACE_GETREGS => match sys::register_set(tid, libc::NT_PRSTATUS as u32, 4096) {
                Ok(set) => put(data, &set),
                Err(_) => error(libc::ESRCH),
            },
            libc::PTRACE_GETREGSET => {
                let (Ok(base), Ok(len)) = (self.read_u64(data), self.read_u64(data + 8)) else {
                    return error(libc::EFAULT);
                };
                let len = usize::try_from(len).unwrap_or(usize::MAX).min(1 << 16);
                match sys::register_set(tid, address as u32, len) {
                    Ok(set) => match put(base, &set) {
                        0 => put(data + 8, &(set.len() as u64).to_ne_bytes()),
                        fault => fault,
                    },
                    Err(refused) => error(refused.raw_os_error().unwrap_or(libc::EIO)),
                }
            }
            libc::PTRACE_PEEKDATA | libc::PTRACE_PEEKTEXT => {
                let mut word = [0; 8];
                match sys::read_memory(tid, address, &mut word) {
                    8 => put(data, &word),
                    _ => error(libc::EIO),
                }
            }
            libc::PTRACE_CONT => {
                // The target stays attached, but reports nothing more.
                self.shared().resume_target(target);
                target.nested.tracer.set(mine);
                0
            }
            libc::PTRACE_DETACH => {
                self.shared().resume_target(target);
                0
            }
            _ => error(libc::EIO),
        }
    }

    /// Waits until the target has stopped or ended.
    async fn nested_wait(self, target: &Rc<Slot>, status: u64, options: i32) -> Emulation {
        let own = self.slot().clone();
        poll_fn(|_| {
            let over = target.nested.is_stopped_for.get()
                || target.gone.get()
                || options & libc::WNOHANG != 0
                || own.gone.get()
                || !own.mailbox.borrow().is_empty();
            if over { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let tid = i64::from(target.tid.get());
        let value = if target.gone.get() {
            i64::from(-libc::ECHILD)
        } else if !target.nested.is_stopped_for.get()
            || target.nested.is_stop_reported.replace(true)
        {
            0
        } else if status != 0 && self.write(status, &STOPPED.to_ne_bytes()).is_err() {
            i64::from(-libc::EFAULT)
        } else {
            tid
        };
        Emulation::Answered(self.answer(value))
    }
}
