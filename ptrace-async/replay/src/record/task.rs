//! What is done at each stop of a task while recording.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;

use ptrace_async::event::Tid;
use ptrace_async::memory::Memory;
use ptrace_async::process::read_proc;
use ptrace_async::runtime::{
    Exec, Posthook, PreExit, Prehook, Running, Signal, Spawned, Started, Stop, Stopped, Tracee,
};
use ptrace_async::syscall::{Invocation, effects, error_of};
use xxhash_rust::xxh3::xxh3_64;

use super::calls::{self, Plan};
use super::group::{self, Group};
use super::session::{Birth, Session};
use super::sites::Sites;
use super::{image, robust, search, ticker};
use crate::trace::Task;
use crate::trace::event::{
    self, At, Call, Ending, Event, Instruction, InstructionKind, More, Registers, Return, State,
    Write,
};
use crate::{buffer, maps, memory, os};

/// A task as the recorder knows it.
struct Recorded {
    session: Rc<Session>,
    task: Task,
    group: Rc<Group>,
    /// Nothing is logged before the first program has begun.
    logs: bool,
    call: Option<Begun>,
    /// A call that a signal interrupted, and `restart_syscall` continues.
    interrupted: Option<Invocation>,
    /// Signals that came where no replay could find the place again.
    deferred: VecDeque<libc::siginfo_t>,
    /// Those that have been sent again, to be delivered now.
    sent_again: Vec<libc::siginfo_t>,
    /// The registers at the last event, if nothing has run since.
    at_event: Option<(At, Registers)>,
    /// How often it had to be stopped since its last syscall: it waits for another task,
    /// in a loop that a replay has to run through as well, and it is given less time.
    spins: u32,
    clear_tid: u64,
    /// How many handlers of signals have begun and not returned.
    handlers: u32,
    sites: Rc<Sites>,
    ended: Option<Ending>,
    /// It has the id of the first process.
    leads_first: bool,
}

/// See [`Recorded::spins`]: a thirty-second part of the time is the least.
const MOST_SPINS: u32 = 5;

/// A call that has begun.
struct Begun {
    invocation: Invocation,
    /// What the program has in its registers, if that is something else.
    original: Option<Invocation>,
    before: effects::Before,
    stream: Option<u8>,
}

/// The registers that a call preserves, in one number.
pub(crate) fn check(regs: &libc::user_regs_struct) -> u32 {
    let kept = [
        regs.rbx,
        regs.rbp,
        regs.r12,
        regs.r13,
        regs.r14,
        regs.r15,
        regs.rsp,
        regs.fs_base,
        regs.gs_base,
    ];
    let mut bytes = [0; 72];
    for (word, to) in kept.iter().zip(bytes.chunks_exact_mut(8)) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    xxh3_64(&bytes) as u32
}

/// Follows a task from its first stop to its end.
pub(super) async fn follow(tracee: Tracee<Started>, session: Rc<Session>) {
    let birth = session.birth(tracee.tid());
    let logs = birth.is_some();
    let (task, group, clear_tid, sites, handlers, told) = match birth {
        Some(Birth {
            task,
            group,
            clear_tid,
            sites,
            handlers,
            told,
        }) => (task, group, clear_tid, sites, handlers, told),
        None => {
            let task = session.new_task();
            session.first.set(tracee.tid());
            let group = session.new_group(task, None);
            (task, group, 0, Rc::default(), 0, Vec::new())
        }
    };
    let leads_first = tracee.tid() == session.first.get();
    let mut recorded = Recorded {
        session,
        task,
        group,
        logs,
        call: None,
        interrupted: None,
        deferred: VecDeque::new(),
        sent_again: Vec::new(),
        at_event: None,
        spins: 0,
        clear_tid,
        handlers,
        sites,
        ended: None,
        leads_first,
    };
    let mut next = recorded.start(tracee, &told).await.into();
    loop {
        let stop = match next {
            Next::Running(running) => recorded.wait(running).await,
            Next::Stop(stop) => stop,
        };
        next = match recorded.at(stop).await {
            ControlFlow::Continue(next) => next,
            ControlFlow::Break(()) => break,
        };
    }
}

/// What comes after a stop has been dealt with.
enum Next {
    /// The task goes on.
    Running(Tracee<Running>),
    /// It has stopped again meanwhile.
    Stop(Stop),
}

impl From<Tracee<Running>> for Next {
    fn from(running: Tracee<Running>) -> Self {
        Self::Running(running)
    }
}

impl Recorded {
    fn log(&self, event: Event) {
        if self.logs {
            self.session.log(self.task, event);
        }
    }

    /// Takes the calls that the task has performed by itself since its last stop. It is
    /// not in the stub.
    fn drain<S: Stopped>(&self, tracee: &Tracee<S>) {
        if let Some(buffered) = self.sites.drain(tracee) {
            for entry in buffer::entries(&buffered.0) {
                if entry.number == Some(libc::SYS_openat as u64) {
                    self.sites
                        .note_descriptor(tracee, &self.session, entry.result);
                }
            }
            self.log(Event::Buffered(buffered));
        }
    }

    fn group(&self) -> Rc<Group> {
        group::root(&self.group)
    }

    async fn turn<S: Stopped>(&self, tracee: &Tracee<S>) {
        self.group().take(self.task, tracee).await;
    }

    /// Lets the program go on from its last event.
    fn go<S: Stopped>(&mut self, tracee: Tracee<S>, at: At) -> Tracee<Running> {
        let mut closed = 0;
        if self.group().is_shared() {
            closed |= buffer::WAITS;
        }
        if self.session.has_shared_files() {
            closed |= buffer::WRITES;
        }
        self.sites.close(&tracee, closed);
        self.at_event = tracee.registers().ok().map(|regs| (at, (&regs).into()));
        tracee.park().resume()
    }

    async fn start(&mut self, tracee: Tracee<Started>, told: &[u64]) -> Tracee<Running> {
        if !self.logs {
            return tracee.resume();
        }
        self.turn(&tracee).await;
        let cpu = self.group().cpu();
        tracee.bind(cpu);
        if let Ok(regs) = tracee.registers() {
            let mut writes = Vec::new();
            // It is the address that the kernel writes to at the start as well, where it
            // writes to one at all.
            if self.clear_tid != 0 {
                keep(&tracee, self.clear_tid, 4, &mut writes);
            }
            for &address in told {
                keep(&tracee, address, 4, &mut writes);
            }
            self.log(Event::Started(Box::new(event::Started {
                registers: (&regs).into(),
                cpu,
                writes,
            })));
        }
        self.go(tracee, At::Event)
    }

    async fn at(&mut self, stop: Stop) -> ControlFlow<(), Next> {
        let next = match stop {
            Stop::Prehook(tracee) => self.entry(tracee).await,
            Stop::Posthook(tracee) => self.exit(tracee).await.into(),
            Stop::Exec(tracee) => self.executed(tracee).into(),
            Stop::Spawned(tracee) => self.spawned(tracee).into(),
            Stop::Signal(tracee) => self.signal(tracee).await,
            Stop::PreExit(tracee) => self.ending(tracee).into(),
            Stop::GroupStop(tracee) => {
                let in_stub = tracee
                    .registers()
                    .is_ok_and(|regs| buffer::contains(regs.rip));
                if !in_stub {
                    // The next task has the same log.
                    self.drain(&tracee);
                }
                self.group().release(self.task);
                tracee.listen().into()
            }
            Stop::Interrupted(tracee) => self.interrupted(tracee).await,
            Stop::Exited(status) => return self.end(Ending::Exited(status)),
            Stop::Killed { signal, .. } => return self.end(Ending::Killed(signal)),
            Stop::Superseded => return self.end(Ending::Superseded),
        };
        ControlFlow::Continue(next)
    }

    async fn entry(&mut self, mut tracee: Tracee<Prehook>) -> Next {
        let mut invocation = tracee.invocation();
        if !self.logs {
            // The process that is going to execute the program.
            if invocation.nr == libc::SYS_execve as u64 {
                let trap = Invocation {
                    nr: libc::SYS_prctl as u64,
                    args: [
                        libc::PR_SET_TSC as u64,
                        libc::PR_TSC_SIGSEGV as u64,
                        0,
                        0,
                        0,
                        0,
                    ],
                };
                return match tracee.inject(trap).await {
                    Ok((tracee, _)) => tracee.resume().into(),
                    Err(stop) => Next::Stop(stop),
                };
            }
            return tracee.resume().into();
        }
        let Ok(regs) = tracee.registers() else {
            return tracee.resume().into();
        };
        self.drain(&tracee);
        if let Some(info) = self.deferred.pop_front() {
            // As if it had come right before the instruction.
            let mut back = regs;
            back.rip -= 2;
            back.rax = regs.orig_rax;
            back.orig_rax = u64::MAX;
            let _ = tracee.set_registers(&back);
            let _ = tracee.send_signal(info.si_signo);
            self.sent_again.push(info);
            return self.go(tracee, At::Call).into();
        }
        self.spins = 0;
        self.log(Event::Call(Call {
            nr: invocation.nr,
            args: invocation.args,
            ip: tracee.instruction_pointer(),
            sp: tracee.stack_pointer(),
            check: check(&regs),
        }));
        if tracee.is_foreign() {
            let reason = "a call of another kind of program (32-bit)";
            self.session.refuse("int80", reason);
            return self
                .answer(tracee, -i64::from(libc::ENOSYS), Vec::new())
                .into();
        }
        let mut original = None;
        match calls::plan(&invocation, &tracee) {
            Plan::Perform => {}
            Plan::Modify(other) => {
                original = Some(invocation);
                let _ = tracee.modify(other);
                invocation = other;
            }
            Plan::Answer(value) => return self.answer(tracee, value, Vec::new()).into(),
            Plan::ChooseProcessors => return self.choose(tracee).into(),
            Plan::TellProcessors => return self.tell(tracee).into(),
            Plan::Refuse(value, reason) => {
                self.session.refuse(invocation.syscall().name(), reason);
                return self.answer(tracee, value, Vec::new()).into();
            }
        }
        if self.is_unseen_output(&tracee, &invocation) {
            // Programs know this answer, and write what they have read instead.
            let reason = "what it writes to the output is seen by nobody";
            self.session.refuse(invocation.syscall().name(), reason);
            let value = -i64::from(libc::EINVAL);
            return self.answer(tracee, value, Vec::new()).into();
        }
        if original.is_none() {
            let is_alone = self.handlers == 0 && !self.group().is_shared();
            tracee = match self.sites.visit(tracee, &self.session, is_alone).await {
                Ok((tracee, patched)) => {
                    if let Some(patched) = patched {
                        self.log(Event::Patched(patched));
                    }
                    tracee
                }
                Err(stop) => return Next::Stop(stop),
            };
        }
        if let Some(reason) = unmappable(&tracee, &invocation) {
            self.session.refuse("mmap", reason);
            let value = -i64::from(libc::ENODEV);
            return self.answer(tracee, value, Vec::new()).into();
        }
        // What calls of other threads write is there before it is recorded.
        let is_quiet = !self.group().is_shared();
        if self.session.digests && is_quiet && invocation.nr == libc::SYS_exit_group as u64 {
            self.digest(&tracee);
        }
        self.announce_waiter(&tracee, &invocation);
        let group = self.group();
        if calls::may_wait(&invocation) {
            group.release(self.task);
        } else if group.is_due(self.task) {
            group.release(self.task);
            self.turn(&tracee).await;
        }
        if invocation.nr == libc::SYS_set_tid_address as u64 {
            self.clear_tid = invocation.args[0];
        }
        self.call = Some(Begun {
            before: effects::Before::capture(&invocation, &tracee),
            stream: self.stream(&tracee, &invocation),
            original,
            invocation,
        });
        if self.call.as_ref().is_some_and(|call| call.stream.is_some()) {
            let output = self.session.output.clone();
            output.take(self.task, &tracee).await;
        }
        tracee.resume_to_exit().into()
    }

    /// Waits for the next stop; for one between syscalls, if the task runs for long while
    /// somebody waits for it.
    async fn wait(&mut self, running: Tracee<Running>) -> Stop {
        let group = self.group();
        if self.call.is_some() || (self.deferred.is_empty() && !group.is_shared()) {
            return running.stop().await;
        }
        let interrupter = running.interrupter();
        let mut stop = pin!(running.stop());
        let begun = Instant::now();
        let patience = ticker::LONG / (1 << self.spins.min(MOST_SPINS));
        let mut asked = false;
        let stop = poll_fn(|context| {
            if let Poll::Ready(stop) = stop.as_mut().poll(context) {
                return Poll::Ready(stop);
            }
            let is_late = begun.elapsed() >= patience;
            if is_late && !asked && self.is_wanted() {
                interrupter.interrupt();
                asked = true;
            }
            self.session
                .ticker
                .watch(self.task, context.waker(), patience);
            Poll::Pending
        })
        .await;
        self.session.ticker.forget(self.task);
        stop
    }

    /// Whether somebody waits for the task to stop.
    fn is_wanted(&self) -> bool {
        let slice = group::SLICE / (1 << self.spins.min(MOST_SPINS));
        !self.deferred.is_empty() || self.group().is_due_after(self.task, slice)
    }

    /// The task was stopped by us, or a group stop has ended.
    async fn interrupted(&mut self, tracee: Tracee<Started>) -> Next {
        self.turn(&tracee).await;
        if !self.is_wanted() || self.call.is_some() || !self.logs {
            return tracee.resume().into();
        }
        let Ok(regs) = tracee.registers() else {
            return tracee.resume().into();
        };
        let registers = Registers::from(&regs);
        let is_marked = self
            .at_event
            .is_some_and(|(_, at)| is_same_place(&at, &registers));
        let mut tracee = tracee.park();
        if !is_marked {
            match search::search(tracee).await {
                search::Found::Point(found, point) => {
                    self.drain(&found);
                    self.log(Event::Point(point));
                    self.spins += 1;
                    self.at_event = found
                        .registers()
                        .ok()
                        .map(|regs| (At::Event, (&regs).into()));
                    tracee = found;
                }
                search::Found::Mark(stop) => return Next::Stop(stop),
                search::Found::Soon(tracee) => return tracee.resume().into(),
            }
        }
        if let Some(info) = self.deferred.pop_front() {
            let _ = tracee.send_signal(info.si_signo);
            self.sent_again.push(info);
        } else {
            self.group().release(self.task);
            self.turn(&tracee).await;
        }
        tracee.resume().into()
    }

    /// Which of the recorder's streams a call writes to.
    fn stream(&self, tracee: &Tracee<Prehook>, invocation: &Invocation) -> Option<u8> {
        let writes = matches!(
            invocation.nr.cast_signed(),
            libc::SYS_write
                | libc::SYS_writev
                | libc::SYS_pwrite64
                | libc::SYS_pwritev
                | libc::SYS_pwritev2
                | libc::SYS_sendto
                | libc::SYS_sendmsg
        );
        if writes {
            self.session.stdio.stream(tracee.tid(), invocation.args[0])
        } else {
            None
        }
    }

    /// Whether a call writes to one of the recorder's streams what is in no memory.
    fn is_unseen_output(&self, tracee: &Tracee<Prehook>, invocation: &Invocation) -> bool {
        let to = match invocation.nr.cast_signed() {
            libc::SYS_sendfile => 0,
            libc::SYS_splice | libc::SYS_copy_file_range => 2,
            libc::SYS_tee => 1,
            _ => return false,
        };
        let stream = self.session.stdio.stream(tracee.tid(), invocation.args[to]);
        stream.is_some()
    }

    /// Who is going to wait for a lock with priority inheritance has the kernel say so in
    /// its word, at a time that no record tells. So it is said here, while nobody of the
    /// group runs; the kernel finds it said.
    fn announce_waiter(&self, tracee: &Tracee<Prehook>, call: &Invocation) {
        const LOCK_PI2: i32 = 13;
        let operation = (call.args[1] & 0x7f) as i32;
        if call.nr != libc::SYS_futex as u64 || !matches!(operation, libc::FUTEX_LOCK_PI | LOCK_PI2)
        {
            return;
        }
        let Ok(word) = tracee.read_value::<u32>(call.args[0]) else {
            return;
        };
        let owner = word & libc::FUTEX_TID_MASK;
        if owner == 0 || owner == tracee.tid().cast_unsigned() || word & libc::FUTEX_WAITERS != 0 {
            return;
        }
        let bytes = (word | libc::FUTEX_WAITERS).to_le_bytes().to_vec();
        let address = call.args[0];
        if tracee.write(address, &bytes).is_ok() {
            self.log(Event::Written(vec![Write { address, bytes }]));
        }
    }

    /// Returns from a call that is not performed.
    fn answer(
        &mut self,
        tracee: Tracee<Prehook>,
        value: i64,
        writes: Vec<Write>,
    ) -> Tracee<Running> {
        self.log(Event::Return(Return {
            value,
            writes,
            more: More::Nothing,
        }));
        if let Ok(mut regs) = tracee.registers() {
            regs.orig_rax = u64::MAX;
            regs.rax = value.cast_unsigned();
            let _ = tracee.set_registers(&regs);
        }
        self.go(tracee, At::Event)
    }

    /// The task chooses where it runs: it is told that it does.
    fn choose(&mut self, tracee: Tracee<Prehook>) -> Tracee<Running> {
        let args = tracee.invocation().args;
        let mut mask = vec![0; args[1].min(1024) as usize];
        let value = if tracee.read_exact(args[2], &mut mask).is_err() {
            -i64::from(libc::EFAULT)
        } else {
            self.session.choose(whose(&tracee), mask)
        };
        self.answer(tracee, value, Vec::new())
    }

    /// The task asks where it runs.
    fn tell(&mut self, tracee: Tracee<Prehook>) -> Tracee<Running> {
        let args = tracee.invocation().args;
        let mask = self.session.chosen(whose(&tracee));
        let length = mask.len() as u64;
        if args[1] < length || !args[1].is_multiple_of(8) {
            return self.answer(tracee, -i64::from(libc::EINVAL), Vec::new());
        }
        if tracee.write(args[2], &mask).is_err() {
            return self.answer(tracee, -i64::from(libc::EFAULT), Vec::new());
        }
        let write = Write {
            address: args[2],
            bytes: mask,
        };
        self.answer(tracee, length.cast_signed(), vec![write])
    }

    async fn exit(&mut self, tracee: Tracee<Posthook>) -> Tracee<Running> {
        let Some(begun) = self.call.take() else {
            return tracee.resume();
        };
        let output = begun.stream.filter(|_| tracee.value() > 0);
        let output = output.map(|stream| More::Output {
            stream,
            number: self.session.outputs.replace(self.session.outputs.get() + 1),
        });
        // Whoever is next in line may be of this group, and has no turn meanwhile.
        self.session.output.release(self.task);
        self.turn(&tracee).await;
        if tracee.has_news() {
            return tracee.resume();
        }
        if let (Some(original), Ok(mut regs)) = (begun.original, tracee.registers()) {
            let [a, b, c, d, e, f] = original.args;
            (regs.rdi, regs.rsi, regs.rdx) = (a, b, c);
            (regs.r10, regs.r8, regs.r9) = (d, e, f);
            let _ = tracee.set_registers(&regs);
        }
        let mut value = tracee.value();
        if value == -i64::from(libc::EINTR) && calls::gives_up(&begun.invocation) {
            // A signal that nobody handles disturbs a task only because it is traced. The
            // kernel makes this EINTR again if a handler runs, and else repeats the call.
            const WITHOUT_HANDLER: i64 = -514;
            if let Ok(mut regs) = tracee.registers() {
                value = WITHOUT_HANDLER;
                regs.rax = value.cast_unsigned();
                let _ = tracee.set_registers(&regs);
            }
        }
        let mut invocation = begun.invocation;
        let restarts = (-516..=-512).contains(&value);
        if invocation.nr == libc::SYS_restart_syscall as u64 {
            // It has the effects of the call that it continues.
            invocation = self.interrupted.unwrap_or(invocation);
        }
        self.interrupted = restarts.then_some(invocation);
        let mut writes = Vec::new();
        if let Ok(ranges) = effects::writes_since(&begun.before, &invocation, value, &tracee) {
            for range in ranges {
                keep(&tracee, range.start, range.len, &mut writes);
            }
        }
        if value > 0 || invocation.nr == libc::SYS_ftruncate as u64 && value == 0 {
            self.note_change(tracee.tid(), &invocation, value.cast_unsigned());
        }
        let more = match output {
            Some(output) => output,
            None => self.more(&tracee, &invocation, value),
        };
        self.log(Event::Return(Return {
            value,
            writes,
            more,
        }));
        // A mapping may have made it one of others, who take turns.
        self.turn(&tracee).await;
        self.go(tracee, At::Event)
    }

    /// What a call did beyond a result and memory.
    fn more(&mut self, tracee: &Tracee<Posthook>, invocation: &Invocation, value: i64) -> More {
        let failed = error_of(value).is_some();
        match invocation.nr.cast_signed() {
            libc::SYS_rt_sigreturn => {
                self.handlers = self.handlers.saturating_sub(1);
                let (Ok(regs), Ok(extended)) = (tracee.registers(), tracee.extended_state()) else {
                    return More::Nothing;
                };
                More::State(Box::new(State {
                    registers: (&regs).into(),
                    extended,
                }))
            }
            libc::SYS_mmap if !failed => {
                self.sites.forget(value.cast_unsigned(), invocation.args[1]);
                self.mapped(tracee.tid(), invocation)
            }
            libc::SYS_munmap | libc::SYS_mremap if !failed => {
                self.sites.forget(invocation.args[0], invocation.args[1]);
                More::Nothing
            }
            libc::SYS_dup
            | libc::SYS_dup2
            | libc::SYS_dup3
            | libc::SYS_fcntl
            | libc::SYS_openat => {
                self.sites.note_descriptor(tracee, &self.session, value);
                More::Nothing
            }
            _ => More::Nothing,
        }
    }

    /// A call may have changed a file that is mapped somewhere.
    fn note_change(&self, tid: Tid, call: &Invocation, written: u64) {
        let (fd, offset, length) = match call.nr.cast_signed() {
            libc::SYS_write | libc::SYS_writev => (call.args[0], None, written),
            libc::SYS_pwrite64 | libc::SYS_pwritev => (call.args[0], Some(call.args[3]), written),
            libc::SYS_pwritev2 if call.args[3] == u64::MAX => (call.args[0], None, written),
            libc::SYS_pwritev2 => (call.args[0], Some(call.args[3]), written),
            // Some of these say where they write by a pointer.
            libc::SYS_ftruncate | libc::SYS_fallocate | libc::SYS_sendfile => {
                (call.args[0], Some(0), u64::MAX)
            }
            libc::SYS_copy_file_range | libc::SYS_splice => (call.args[2], Some(0), u64::MAX),
            _ => return,
        };
        let open = descriptor(tid, fd);
        if !self.session.is_shared(&open) {
            return;
        }
        let offset = offset.unwrap_or_else(|| {
            // The position is behind what was written.
            let text = read_proc(format!("/proc/{tid}/fdinfo/{}", fd as i32)).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let position = text.lines().find_map(|line| line.strip_prefix("pos:"));
            let position = position.and_then(|position| position.trim().parse::<u64>().ok());
            position.unwrap_or(0).saturating_sub(written)
        });
        self.session.file_changed(self.task, &open, offset, length);
    }

    /// A mapping was made.
    fn mapped(&mut self, tid: Tid, call: &Invocation) -> More {
        let flags = call.args[3] as i32;
        let shared = flags & libc::MAP_SHARED != 0;
        let open = descriptor(tid, call.args[4]);
        if flags & libc::MAP_ANONYMOUS != 0 || is_zeros(&open) {
            if shared {
                self.group().note_shared_memory();
            }
            return More::Nothing;
        }
        let path = std::fs::read_link(&open)
            .map(|path| path.into_os_string().into_encoded_bytes())
            .unwrap_or_default();
        let Some((file, is_of_the_system)) = self.session.file(self.task, &open, &path, shared)
        else {
            return More::Nothing;
        };
        if shared && !is_of_the_system {
            let group = self.group();
            group.note_shared_memory();
            if let Some(other) = self.session.sharer(file, &group) {
                self.log(Event::Joined(other.number()));
                group.merge(&other, self.task);
            }
        }
        let shared = shared && !is_of_the_system;
        More::Mapped { file, shared }
    }

    fn executed(&mut self, tracee: Tracee<Exec>) -> Tracee<Running> {
        tracee.hide_vdso();
        self.call = None;
        self.deferred.clear();
        self.clear_tid = 0;
        self.sites = Rc::default();
        self.handlers = 0;
        self.leads_first = tracee.tid() == self.session.first.get();
        let old = self.group();
        old.leave(self.task);
        self.group = self.session.new_group(self.task, Some(&old));
        tracee.bind(self.group.cpu());
        self.logs = true;
        if let Some(image) = image::capture(&tracee, &self.session, self.task, &self.group) {
            self.log(Event::Image(Box::new(image)));
        }
        self.go(tracee, At::Event)
    }

    fn spawned(&mut self, tracee: Tracee<Spawned>) -> Tracee<Running> {
        let flags = tracee.flags();
        let group = self.group();
        let shares = flags & libc::CLONE_VM as u64 != 0 || group.shares_memory();
        let child = self.session.new_task();
        let theirs = if shares {
            group.join();
            group.clone()
        } else {
            self.session.new_group(child, Some(&group))
        };
        let mut clear_tid = 0;
        let wanted = (libc::CLONE_CHILD_CLEARTID | libc::CLONE_CHILD_SETTID) as u64;
        if let Some(begun) = self.call.as_ref().filter(|_| flags & wanted != 0) {
            let call = &begun.invocation;
            clear_tid = if call.nr == libc::SYS_clone3 as u64 {
                // The third word of struct clone_args.
                tracee.read_u64(call.args[0] + 16).unwrap_or(0)
            } else {
                call.args[3]
            };
        }
        let number = theirs.number();
        let birth = Birth {
            task: child,
            group: theirs,
            clear_tid,
            handlers: self.handlers,
            sites: if flags & libc::CLONE_VM as u64 != 0 {
                self.sites.clone()
            } else {
                Rc::new(Sites::clone(&self.sites))
            },
            told: self.told(&tracee, flags),
        };
        self.session.bear(tracee.child(), birth);
        self.log(Event::Spawned(event::Spawned {
            child,
            flags,
            group: number,
        }));
        if flags & libc::CLONE_VFORK as u64 != 0 {
            group.release(self.task);
        }
        tracee.resume()
    }

    /// Where the kernel has told this task of the one that it has made, if that one can see
    /// it before the call returns.
    fn told(&self, tracee: &Tracee<Spawned>, flags: u64) -> Vec<u64> {
        let tells = (libc::CLONE_PIDFD | libc::CLONE_PARENT_SETTID) as u64;
        let Some(begun) = self
            .call
            .as_ref()
            .filter(|_| flags & libc::CLONE_VM as u64 != 0 && flags & tells != 0)
        else {
            return Vec::new();
        };
        let [first, _, third, ..] = begun.invocation.args;
        if begun.invocation.nr != libc::SYS_clone3 as u64 {
            return vec![third];
        }
        // The second and the fourth word of struct clone_args.
        [
            (libc::CLONE_PIDFD, first + 8),
            (libc::CLONE_PARENT_SETTID, first + 24),
        ]
        .into_iter()
        .filter(|&(flag, _)| flags & flag as u64 != 0)
        .filter_map(|(_, word)| tracee.read_u64(word).ok())
        .collect()
    }

    async fn signal(&mut self, tracee: Tracee<Signal>) -> Next {
        self.turn(&tracee).await;
        let (Ok(mut info), Ok(regs)) = (tracee.info(), tracee.registers()) else {
            return tracee.resume().into();
        };
        let signal = tracee.signal();
        if !self.logs {
            return tracee.deliver().into();
        }
        let is_in_stub = buffer::contains(regs.rip);
        if signal == libc::SIGSEGV
            && info.si_code == libc::SI_KERNEL
            && let Some(kind) = instruction(&tracee, regs.rip)
        {
            self.drain(&tracee);
            return self.answered(tracee, kind, regs).into();
        }
        let faults = [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGFPE,
            libc::SIGILL,
            libc::SIGTRAP,
        ];
        let mut at = None;
        if info.si_code > 0 && faults.contains(&signal) {
            at = Some(At::Fault);
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
                && is_same_place(registers, &Registers::from(&regs))
            {
                at = Some(*event);
            }
        }
        if !is_handled(tracee.tid(), signal) {
            return tracee.deliver().into();
        }
        let Some(at) = at else {
            if is_in_stub {
                self.leave_stub(&tracee, regs);
            }
            self.deferred.push_back(info);
            return tracee.resume().into();
        };
        self.drain(&tracee);
        let ip = regs.rip;
        match tracee.deliver_and_step().stop().await {
            Stop::Signal(tracee) if tracee.signal() == libc::SIGTRAP => {
                self.handler(&tracee, signal, at, ip);
                self.go(tracee, At::Event).into()
            }
            stop => Next::Stop(stop),
        }
    }

    /// A call that the stub performs was interrupted: it is left to the program, which stops
    /// for it, and gets its signal there.
    fn leave_stub(&self, tracee: &Tracee<Signal>, mut regs: libc::user_regs_struct) {
        let interrupted = (-516..=-512).contains(&regs.rax.cast_signed());
        if let Some(stub) = self.session.stub()
            && regs.rip == stub.after
            && interrupted
        {
            regs.rip = stub.leave;
            regs.rax = regs.orig_rax;
            regs.orig_rax = u64::MAX;
            let _ = tracee.set_registers(&regs);
        }
    }

    /// A handler is about to begin.
    fn handler(&mut self, tracee: &Tracee<Signal>, signal: i32, at: At, ip: u64) {
        let (Ok(regs), Ok(extended)) = (tracee.registers(), tracee.extended_state()) else {
            return;
        };
        let mut bytes = vec![0; frame_length(tracee, regs.rsp)];
        let got = tracee.read(regs.rsp, &mut bytes);
        bytes.truncate(got);
        self.handlers += 1;
        self.log(Event::Signal(Box::new(event::Signal {
            signal,
            at,
            ip,
            state: State {
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
        let value = os::time_stamp();
        let instruction = Instruction {
            kind,
            ip: regs.rip,
            value,
            aux: 0,
        };
        self.log(Event::Instruction(instruction));
        apply(&instruction, &mut regs);
        let _ = tracee.set_registers(&regs);
        self.go(tracee, At::Event)
    }

    fn digest<S: Stopped>(&self, tracee: &Tracee<S>) {
        if let (Ok(areas), Ok(regs)) = (maps::read(tracee.tid()), tracee.registers()) {
            self.log(Event::Digest(memory::digest(tracee, &areas, regs.rsp)));
        }
    }

    fn ending(&mut self, tracee: Tracee<PreExit>) -> Tracee<Running> {
        let leads = tracee.tid() == tracee.tgid();
        if tracee
            .registers()
            .is_ok_and(|regs| !buffer::contains(regs.rip))
        {
            self.drain(&tracee);
        }
        let mut writes = Vec::new();
        let group = self.group();
        if self.clear_tid != 0 && group.is_shared() {
            writes.push(Write {
                address: self.clear_tid,
                bytes: vec![0; 4],
            });
        }
        if group.is_shared() {
            robust::died(&tracee, &mut writes);
        }
        let status = tracee.status();
        let ending = if libc::WIFEXITED(status) {
            Ending::Exited(libc::WEXITSTATUS(status))
        } else {
            Ending::Killed(libc::WTERMSIG(status))
        };
        self.log(Event::Exit(event::Exit { ending, writes }));
        self.ended = Some(ending);
        if leads {
            // It is reported when its threads have ended, which need the turn.
            group.release(self.task);
        }
        tracee.resume()
    }

    fn end(&mut self, ending: Ending) -> ControlFlow<(), Next> {
        if self.ended.is_none() {
            self.log(Event::Exit(event::Exit {
                ending,
                writes: Vec::new(),
            }));
        }
        self.group().leave(self.task);
        self.session.output.release(self.task);
        if self.leads_first && ending != Ending::Superseded {
            if self.task != Task(0) || self.ended.is_some_and(|ended| ended != ending) {
                self.log(Event::Ended(ending));
            }
            self.session.end(ending);
        }
        ControlFlow::Break(())
    }
}

/// A path that leads to what a descriptor of a task refers to.
fn descriptor(tid: Tid, fd: u64) -> PathBuf {
    PathBuf::from(format!("/proc/{tid}/fd/{}", fd as i32))
}

/// Whether it is `/dev/zero`, whose mappings have no file.
fn is_zeros(open: &Path) -> bool {
    std::fs::metadata(open).is_ok_and(|metadata| {
        metadata.file_type().is_char_device() && metadata.rdev() == libc::makedev(1, 5)
    })
}

/// Why memory of this kind cannot be recorded.
fn unmappable(tracee: &Tracee<Prehook>, call: &Invocation) -> Option<&'static str> {
    if call.nr != libc::SYS_mmap as u64 || call.args[3] as i32 & libc::MAP_ANONYMOUS != 0 {
        return None;
    }
    let open = descriptor(tracee.tid(), call.args[4]);
    let metadata = std::fs::metadata(&open).ok()?;
    if metadata.is_file() || metadata.is_dir() || is_zeros(&open) {
        return None;
    }
    Some("a device's memory changes by itself")
}

/// The task that a call about affinity means.
fn whose(tracee: &Tracee<Prehook>) -> Tid {
    match tracee.invocation().args[0] as Tid {
        0 => tracee.tid(),
        other => other,
    }
}

/// Puts the answer where the program expects it.
pub(crate) fn apply(instruction: &Instruction, regs: &mut libc::user_regs_struct) {
    regs.rax = instruction.value & 0xffff_ffff;
    regs.rdx = instruction.value >> 32;
    if instruction.kind == InstructionKind::Rdtscp {
        regs.rcx = u64::from(instruction.aux);
    }
    regs.rip += instruction.kind.length();
}

/// The trapped instruction at an address.
pub(crate) fn instruction<S: Stopped>(tracee: &Tracee<S>, ip: u64) -> Option<InstructionKind> {
    let mut bytes = [0; 3];
    let got = tracee.read(ip, &mut bytes);
    InstructionKind::of(&bytes[..got])
}

fn keep<S: Stopped>(tracee: &Tracee<S>, address: u64, len: u64, writes: &mut Vec<Write>) {
    let mut bytes = vec![0; len as usize];
    let got = tracee.read(address, &mut bytes);
    bytes.truncate(got);
    if !bytes.is_empty() {
        writes.push(Write { address, bytes });
    }
}

/// Whether the registers say that nothing has run. A handler or a restart may have
/// changed the result of a call.
fn is_same_place(one: &Registers, other: &Registers) -> bool {
    one.0
        .iter()
        .zip(&other.0)
        .enumerate()
        .all(|(index, (a, b))| a == b || Registers::NAMES[index] == "orig_rax")
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
