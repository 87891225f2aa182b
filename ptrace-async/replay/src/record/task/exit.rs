//! Syscall exit of a recorded task.

use ptrace_async::event::Tid;
use ptrace_async::runtime::{Posthook, Running, Tracee};
use ptrace_async::syscall::{Invocation, effects, error_of};

use super::files::{self, Mapping};
use super::{RecordedTask, keep};
use crate::record::mappings::address_space::AddressSpace;
use crate::record::scratch::Redirected;
use crate::record::{calls, descriptors};
use crate::trace::event::{CallEffect, Event, RegisterState, Return, SignalPosition, Write};
use crate::tracee::output;

/// So much of what a call may have written before it failed is looked at.
const MOST_BEFORE_A_FAULT: u64 = 1 << 20;

impl RecordedTask {
    pub(super) async fn exit(&mut self, tracee: Tracee<Posthook>) -> Tracee<Running> {
        let Some(begun) = self.call.take() else {
            return tracee.resume();
        };
        let output = begun.stream.filter(|_| tracee.value() > 0);
        let output = output.map(|stream| (stream, self.next_output()));
        // It still has its turn.
        self.after_change(&tracee, &begun, tracee.value());
        // The next task to write may be of this scheduler, and has no turn meanwhile.
        self.session.output.release_turn(self.task);
        self.take_turn(&tracee).await;
        self.unsuspend();
        if tracee.has_pending_stop() {
            // It is being killed, but what it has printed is printed.
            if let Some((stream, number)) = output {
                self.log_last_output(stream, number, tracee.value());
            }
            return tracee.resume();
        }
        restore_arguments(&tracee, begun.original);
        let value = restart_if_interrupted(&tracee, &begun.invocation);
        let restarts = (-516..=-512).contains(&value);
        let (invocation, redirected) = self.continued(begun.invocation, begun.redirected);
        if let Some(redirected) = &redirected {
            redirected.bring_changes(&tracee);
        }
        let mut writes = Vec::new();
        let done = (&begun.before, &invocation, value);
        let value = self.keep_writes(&tracee, done, redirected.as_ref(), &mut writes);
        if begun.own_memory
            && value > 0
            && let Some((address, length)) =
                written(tracee.tid(), &invocation, value.cast_unsigned())
        {
            keep(&tracee, address, length, &mut writes);
        }
        self.interrupted = restarts.then_some((invocation, redirected));
        let more = match output {
            Some((stream, number)) => {
                let bytes = output::bytes(&tracee, &invocation, value);
                CallEffect::Output {
                    stream,
                    number,
                    check: Some(output::check(&bytes)),
                }
            }
            None => self.more(&tracee, &invocation, value, begun.mapping),
        };
        self.log(Event::Return(Return {
            value,
            writes,
            more,
        }));
        if let Some(code) = self.new_code.take() {
            let random_instructions = &self.session.random_instructions;
            let replaced = self
                .sites
                .replace_randoms(&tracee, random_instructions, &code);
            if let Some(patched) = replaced {
                self.log(Event::Patched(patched));
            }
        }
        if self.session.chaos.is_some() && calls::wakes(&begun.invocation) && value > 0 {
            self.let_woken_go_first(&tracee).await;
        }
        // A mapping may have made it one of others, who take turns.
        self.take_turn(&tracee).await;
        self.go(tracee, SignalPosition::Event)
    }

    /// The call whose effects a return has: that of the call that `restart_syscall` continues,
    /// instead of its own.
    fn continued(
        &mut self,
        invocation: Invocation,
        redirected: Option<Redirected>,
    ) -> (Invocation, Option<Redirected>) {
        if invocation.nr == libc::SYS_restart_syscall as u64
            && let Some(continued) = self.interrupted.take()
        {
            return continued;
        }
        (invocation, redirected)
    }

    /// Keeps the memory that a call has written; its result, which is an error if that cannot
    /// be brought from scratch memory to where the program wants it.
    fn keep_writes(
        &self,
        tracee: &Tracee<Posthook>,
        (before, invocation, value): (&effects::Before, &Invocation, i64),
        redirected: Option<&Redirected>,
        writes: &mut Vec<Write>,
    ) -> i64 {
        let mut value = value;
        if let Ok(ranges) = effects::writes_since(before, invocation, value, tracee)
            && !is_discarded_again(&self.space, invocation, value)
        {
            for range in ranges {
                if let Some(redirected) = redirected
                    && !redirected.bring(tracee, &range)
                    && let Ok(mut regs) = tracee.registers()
                {
                    // It would have found that the program cannot write there.
                    value = -i64::from(libc::EFAULT);
                    regs.rax = value.cast_unsigned();
                    let _ = tracee.set_registers(&regs);
                }
                keep(tracee, range.start, range.len, writes);
            }
        }
        if value == -i64::from(libc::EFAULT) && redirected.is_none() {
            // It may have written up to where there was nothing to write to.
            for output in effects::outputs(invocation, tracee) {
                let length = output.range.len.min(MOST_BEFORE_A_FAULT);
                keep(tracee, output.range.start, length, writes);
            }
        }
        if value == 0 {
            files::keep_own(tracee, invocation, writes);
        }
        value
    }

    /// The number of an output: the next of all.
    pub(super) fn next_output(&self) -> u64 {
        let number = self.session.outputs.get();
        self.session.outputs.set(number + 1);
        number
    }

    /// Logs that a task has printed that is being killed. It has no turn any more, so others
    /// may change what it printed.
    pub(super) fn log_last_output(&self, stream: u8, number: u64, value: i64) {
        self.log(Event::Return(Return {
            value,
            writes: Vec::new(),
            more: CallEffect::Output {
                stream,
                number,
                check: None,
            },
        }));
    }

    /// The effect of a call beyond its result and memory.
    fn more(
        &mut self,
        tracee: &Tracee<Posthook>,
        invocation: &Invocation,
        value: i64,
        mapping: Option<Mapping>,
    ) -> CallEffect {
        let failed = error_of(value).is_some();
        match invocation.nr.cast_signed() {
            libc::SYS_rt_sigreturn => {
                self.sites.handler_returned();
                let (Ok(regs), Ok(extended)) = (tracee.registers(), tracee.extended_state()) else {
                    return CallEffect::Nothing;
                };
                CallEffect::State(Box::new(RegisterState {
                    registers: (&regs).into(),
                    extended,
                }))
            }
            libc::SYS_mmap => {
                if !failed {
                    self.sites.forget(value.cast_unsigned(), invocation.args[1]);
                }
                let more = self.mapped(invocation, value, mapping);
                if let CallEffect::Mapped {
                    file,
                    shared: false,
                } = more
                {
                    let (start, args) = (value.cast_unsigned(), &invocation.args);
                    self.new_code = self.sites.note_code(file, start, args);
                    let is_library = args[3] as i32 & libc::MAP_DENYWRITE != 0;
                    if is_library && !self.session.random_instructions.has(file) {
                        let key = mapping.and_then(|mapping| mapping.key);
                        self.sites.note_library(tracee, (file, key), start, args);
                    }
                }
                more
            }
            libc::SYS_munmap | libc::SYS_mremap if !failed => {
                let args = &invocation.args;
                self.sites.forget(args[0], args[1]);
                let gone = if invocation.nr == libc::SYS_munmap as u64 {
                    self.space.forget(args[0], args[1])
                } else {
                    self.space.moved(args, value.cast_unsigned())
                };
                self.session.release_unmapped(self.task, gone);
                CallEffect::Nothing
            }
            libc::SYS_close => {
                self.sites.forget_library(tracee);
                self.sites
                    .forget_descriptor(tracee, Some(invocation.args[0]));
                CallEffect::Nothing
            }
            libc::SYS_dup2 | libc::SYS_dup3 => {
                self.sites.forget_library(tracee);
                self.sites
                    .forget_descriptor(tracee, Some(value.cast_unsigned()));
                CallEffect::Nothing
            }
            libc::SYS_fcntl => {
                let fd = match invocation.args[1] as i32 {
                    libc::F_SETFL => invocation.args[0],
                    libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => value.cast_unsigned(),
                    _ => return CallEffect::Nothing,
                };
                self.sites.forget_descriptor(tracee, Some(fd));
                CallEffect::Nothing
            }
            libc::SYS_ioctl if invocation.args[1] == libc::FIONBIO => {
                self.sites
                    .forget_descriptor(tracee, Some(invocation.args[0]));
                CallEffect::Nothing
            }
            libc::SYS_dup
            | libc::SYS_open
            | libc::SYS_openat
            | libc::SYS_openat2
            | libc::SYS_creat
            | libc::SYS_open_by_handle_at
            | libc::SYS_pidfd_getfd => {
                self.sites
                    .forget_descriptor(tracee, Some(value.cast_unsigned()));
                CallEffect::Nothing
            }
            // With descriptors, maybe.
            libc::SYS_recvmsg | libc::SYS_recvmmsg => {
                self.sites.forget_descriptor(tracee, None);
                CallEffect::Nothing
            }
            libc::SYS_close_range => {
                self.sites.forget_library(tracee);
                self.sites.forget_descriptor(tracee, None);
                CallEffect::Nothing
            }
            _ => CallEffect::Nothing,
        }
    }

    /// Follows a call that maps memory, whether it succeeded or not.
    fn mapped(&self, invocation: &Invocation, value: i64, mapping: Option<Mapping>) -> CallEffect {
        if error_of(value).is_some() {
            if let Some(key) = mapping.and_then(|mapping| mapping.key) {
                self.space.expected(key);
                self.session.release_unmapped(self.task, vec![key]);
            }
            return CallEffect::Nothing;
        }
        let (start, length) = (value.cast_unsigned(), invocation.args[1]);
        let gone = self.space.forget(start, length);
        let shared = invocation.args[3] as i32 & libc::MAP_SHARED != 0;
        let Some(mapping) = mapping else {
            if shared {
                self.scheduler().note_shared_memory();
            }
            self.session.release_unmapped(self.task, gone);
            return CallEffect::Nothing;
        };
        if let Some(key) = mapping.key {
            self.space.add(start, length, key);
            self.space.expected(key);
            if mapping.writes {
                self.scheduler().note_shared_memory();
                self.session.live_files.note_written(key, &self.space);
            }
        }
        self.session.release_unmapped(self.task, gone);
        CallEffect::Mapped {
            file: mapping.file,
            shared: shared && mapping.key.is_some(),
        }
    }
}

/// Gives a program its own arguments back, where the call was made with others.
fn restore_arguments(tracee: &Tracee<Posthook>, original: Option<Invocation>) {
    if let (Some(original), Ok(mut regs)) = (original, tracee.registers()) {
        let [a, b, c, d, e, f] = original.args;
        (regs.rdi, regs.rsi, regs.rdx) = (a, b, c);
        (regs.r10, regs.r8, regs.r9) = (d, e, f);
        let _ = tracee.set_registers(&regs);
    }
}

/// The result of a call. Where only the recorder's stop has interrupted it, the kernel is made
/// to repeat it.
fn restart_if_interrupted(tracee: &Tracee<Posthook>, call: &Invocation) -> i64 {
    /// `ERESTARTNOHAND`: EINTR again if a handler runs, and else the call is repeated.
    const WITHOUT_HANDLER: i64 = -514;
    let mut value = tracee.value();
    if value == -i64::from(libc::EINTR)
        && calls::gives_up(call)
        && let Ok(mut regs) = tracee.registers()
    {
        // A signal without a handler interrupts a task only because it is traced.
        value = WITHOUT_HANDLER;
        regs.rax = value.cast_unsigned();
        let _ = tracee.set_registers(&regs);
    }
    value
}

/// Whether a call has discarded memory, and it is not recorded what is there now, since a replay
/// discards it as well: much, or what has become that of a file again, which may change.
fn is_discarded_again(space: &AddressSpace, call: &Invocation, value: i64) -> bool {
    const MUCH: u64 = 256 << 10;
    let [start, length, advice, ..] = call.args;
    let discards =
        call.nr == libc::SYS_madvise as u64 && value == 0 && advice as i32 == libc::MADV_DONTNEED;
    discards && (length >= MUCH || space.has_files(start, length))
}

/// Address and length of the memory that a call has written in its own process by
/// `/proc/PID/mem`.
fn written(tid: Tid, call: &Invocation, written: u64) -> Option<(u64, u64)> {
    let start = match call.nr.cast_signed() {
        libc::SYS_write | libc::SYS_writev => None,
        libc::SYS_pwrite64 | libc::SYS_pwritev => Some(call.args[3]),
        libc::SYS_pwritev2 => Some(call.args[3]).filter(|&start| start != u64::MAX),
        _ => return None,
    };
    let start = start.unwrap_or_else(|| {
        // The position is behind what was written.
        descriptors::position(tid, call.args[0]).saturating_sub(written)
    });
    Some((start, written))
}
