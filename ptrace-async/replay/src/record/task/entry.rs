//! Syscall entry of a recorded task.

use std::time::{Duration, Instant};

use ptrace_async::event::Tid;
use ptrace_async::memory::Memory;
use ptrace_async::process::read_proc;
use ptrace_async::runtime::{Prehook, Running, Tracee};
use ptrace_async::syscall::{Invocation, effects};

use super::files::{Change, Mapping};
use super::{Next, PendingCall, RecordedTask, files, readable};
use crate::buffer;
use crate::record::calls::{self, Plan};
use crate::record::{descriptors, scratch};
use crate::trace::event::{Call, CallEffect, Event, Return, SignalPosition, Write};
use crate::tracee::trapped::check;

/// A call that a task is about to make, while it is decided what becomes of it.
struct EnteredCall {
    /// The call that is going to be performed.
    invocation: Invocation,
    /// The call that the program asked for, if that is another one.
    original: Option<Invocation>,
}

/// The files that a call maps or changes.
struct FileEffects {
    mapping: Option<Mapping>,
    change: Option<Change>,
    /// Whether the call may map a file or change one.
    is_about_files: bool,
}

/// A step towards performing a call: the task goes on to the next step, or it has been dealt
/// with, by an answer of the recorder's or by a stop that came instead.
type Step<T = ()> = Result<(Tracee<Prehook>, T), Next>;

impl RecordedTask {
    /// Handles a syscall entry: logs the call, decides whether it is performed, and prepares
    /// whatever has to be known or arranged before it is.
    pub(super) async fn entry(&mut self, tracee: Tracee<Prehook>) -> Next {
        if !self.logs {
            return self.before_first_program(tracee).await;
        }
        let Ok(regs) = tracee.registers() else {
            return tracee.resume().into();
        };
        self.drain(&tracee);
        if let Some(info) = self.deferred.pop_front() {
            return self.deliver_before_call(tracee, regs, info).into();
        }
        self.spins = 0;
        let invocation = tracee.invocation();
        self.log(Event::Call(Call {
            nr: invocation.nr,
            args: invocation.args,
            ip: tracee.instruction_pointer(),
            sp: tracee.stack_pointer(),
            check: check(&regs),
        }));
        match self.prepare_and_perform(tracee, invocation).await {
            Ok(running) => running.into(),
            Err(next) => next,
        }
    }

    async fn prepare_and_perform(
        &mut self,
        tracee: Tracee<Prehook>,
        invocation: Invocation,
    ) -> Result<Tracee<Running>, Next> {
        let (tracee, call) = self.decide(tracee, invocation)?;
        let (tracee, ()) = self.prepare_code(tracee, &call).await?;
        let (tracee, files) = self.prepare_files(tracee, &call.invocation).await?;
        self.perform(tracee, call, files).await
    }

    /// The process that is going to execute the first program: its time stamp counter is
    /// trapped from there on.
    async fn before_first_program(&self, tracee: Tracee<Prehook>) -> Next {
        let invocation = tracee.invocation();
        if invocation.nr != libc::SYS_execve as u64 {
            return tracee.resume().into();
        }
        let (option, mode) = (libc::PR_SET_TSC as u64, libc::PR_TSC_SIGSEGV as u64);
        let trap = Invocation {
            nr: libc::SYS_prctl as u64,
            args: [option, mode, 0, 0, 0, 0],
        };
        let trapped = match tracee.inject(trap).await {
            Ok((tracee, _)) => readable::is_readable(tracee, &invocation).await,
            Err(stop) => Err(stop),
        };
        match trapped {
            Ok((tracee, true)) => tracee.resume().into(),
            Ok((tracee, false)) => {
                self.session.refuse("execve", readable::HIDDEN);
                let _ = tracee.put_result(-i64::from(libc::EACCES));
                tracee.resume().into()
            }
            Err(stop) => Next::Stop(stop),
        }
    }

    /// Delivers a deferred signal as if it had come right before the syscall instruction.
    fn deliver_before_call(
        &mut self,
        tracee: Tracee<Prehook>,
        regs: libc::user_regs_struct,
        info: libc::siginfo_t,
    ) -> Tracee<Running> {
        let mut back = regs;
        back.rip -= 2;
        back.rax = regs.orig_rax;
        back.orig_rax = u64::MAX;
        let _ = tracee.set_registers(&back);
        let _ = tracee.send_signal(info.si_signo);
        self.sent_again.push(info);
        self.go(tracee, SignalPosition::Call)
    }

    /// Decides by the call's number and arguments whether it is performed, and as what.
    fn decide(&mut self, mut tracee: Tracee<Prehook>, invocation: Invocation) -> Step<EnteredCall> {
        if tracee.is_foreign() {
            let reason = "32-bit system calls are not recorded";
            self.session.refuse("int80", reason);
            return Err(self
                .answer(tracee, -i64::from(libc::ENOSYS), Vec::new())
                .into());
        }
        if calls::is_vsyscall(tracee.instruction_pointer()) {
            return Err(self.emulated(tracee, &invocation).into());
        }
        let mut call = EnteredCall {
            invocation,
            original: None,
        };
        match calls::plan(&invocation, &tracee) {
            Plan::Perform => {}
            Plan::Modify(other) => {
                let _ = tracee.modify(other);
                call = EnteredCall {
                    invocation: other,
                    original: Some(invocation),
                };
            }
            Plan::Answer(value) => return Err(self.answer(tracee, value, Vec::new()).into()),
            Plan::SetAffinity => return Err(self.answer_setaffinity(tracee).into()),
            Plan::GetAffinity => return Err(self.answer_getaffinity(tracee).into()),
            Plan::SetDumpable => {
                let value = match invocation.args[1] {
                    chosen @ 0..=1 => {
                        self.space.set_dumpable(chosen == 1);
                        0
                    }
                    _ => -i64::from(libc::EINVAL),
                };
                return Err(self.answer(tracee, value, Vec::new()).into());
            }
            Plan::GetDumpable => {
                let value = i64::from(self.space.is_dumpable());
                return Err(self.answer(tracee, value, Vec::new()).into());
            }
            Plan::Refuse(value, reason) => {
                return Err(self.refuse(tracee, &invocation, value, reason));
            }
        }
        if self.is_unseen_output(&tracee, &call.invocation) {
            // Programs know this answer, and write what they have read instead.
            let reason = "the kernel would copy data to the recorder's output that the recorder does not see";
            let value = -i64::from(libc::EINVAL);
            return Err(self.refuse(tracee, &call.invocation, value, reason));
        }
        Ok((tracee, call))
    }

    /// Patches the call's site when it is due, and refuses code and memory that cannot be
    /// recorded.
    async fn prepare_code(&mut self, mut tracee: Tracee<Prehook>, call: &EnteredCall) -> Step {
        let invocation = &call.invocation;
        if call.original.is_none() {
            let (known, stub) = (&self.session.known_sites, self.session.stub());
            let patched;
            (tracee, patched) = self.sites.visit(tracee, known, stub).await?;
            if let Some(patched) = patched {
                self.log(Event::Patched(patched));
            }
        }
        if readable::executes(invocation) {
            let is_readable;
            (tracee, is_readable) = readable::is_readable(tracee, invocation).await?;
            if !is_readable {
                let value = -i64::from(libc::EACCES);
                return Err(self.refuse(tracee, invocation, value, readable::HIDDEN));
            }
        }
        if let Some(reason) = unmappable(&tracee, invocation) {
            return Err(self.refuse(tracee, invocation, -i64::from(libc::ENODEV), reason));
        }
        // What calls of other threads write is there before it is recorded.
        let is_quiet = !self.scheduler().is_shared();
        if self.session.digests && is_quiet && invocation.nr == libc::SYS_exit_group as u64 {
            self.digest(&tracee);
        }
        Ok((tracee, ()))
    }

    /// Orders the call with others that map the same file, or change it.
    async fn prepare_files(
        &mut self,
        tracee: Tracee<Prehook>,
        invocation: &Invocation,
    ) -> Step<FileEffects> {
        self.suspend_at(tracee.instruction_pointer());
        let scheduler = self.scheduler();
        let is_about_files = files::is_about_files(invocation, &tracee);
        if is_about_files && scheduler.is_due(self.task) {
            // Later it cannot: what is mapped then is as it was found.
            scheduler.release_turn(self.task);
            self.take_turn(&tracee).await;
        }
        let mapping = self.before_mapping(&tracee, invocation).await;
        let change = self.before_change(&tracee, invocation).await;
        if change.is_some_and(|change| change.is_live && change.waits) {
            // Programs know this answer, and write what they have read instead.
            let reason = "the call may block, and changes a file that is mapped";
            return Err(self.refuse(tracee, invocation, -i64::from(libc::EINVAL), reason));
        }
        let effects = FileEffects {
            mapping,
            change,
            is_about_files,
        };
        Ok((tracee, effects))
    }

    /// Has the kernel perform the call. Where it may wait, others have the turn meanwhile, and
    /// what it writes goes to scratch memory.
    async fn perform(
        &mut self,
        mut tracee: Tracee<Prehook>,
        call: EnteredCall,
        files: FileEffects,
    ) -> Result<Tracee<Running>, Next> {
        let EnteredCall {
            invocation,
            mut original,
        } = call;
        let change = files.change;
        let is_live = change.is_some_and(|change| change.is_live);
        let (stream, memory) = self.written(&tracee, &invocation, is_live);
        if memory.is_some_and(|owner| owner != tracee.tgid()) {
            let reason = "the call writes to the memory of another process";
            return Err(self.refuse(tracee, &invocation, -i64::from(libc::EIO), reason));
        }
        if stream.is_some() {
            let output = self.session.output.clone();
            output.take_turn(self.task, &tracee).await;
        }
        // While others run, they may change what is being written, and nobody would know
        // what it was.
        let waits = match stream {
            Some(stream) => !self.session.stdio.takes(stream, &invocation),
            // A mapping must not see a call in the middle of its write.
            None => calls::may_wait(&invocation) && change.is_none_or(|change| change.waits),
        };
        let scheduler = self.scheduler();
        let mut redirected = None;
        if waits && scheduler.is_shared() {
            let scratch = self.sites.scratch.clone();
            (tracee, redirected) = scratch::redirect(&scratch, tracee, &invocation).await?;
            if redirected.is_some() {
                original.get_or_insert(invocation);
            }
        }
        self.announce_waiter(&tracee, &invocation);
        let locks = calls::locks_with_inheritance(&invocation);
        if waits && !locks {
            scheduler.release_turn(self.task);
        } else if stream.is_none() && !locks && !files.is_about_files && scheduler.is_due(self.task)
        {
            // Not with what others may wait for while they have the turn.
            scheduler.release_turn(self.task);
            self.take_turn(&tracee).await;
        }
        if invocation.nr == libc::SYS_set_tid_address as u64 {
            self.clear_tid = invocation.args[0];
        }
        self.call = Some(PendingCall {
            before: effects::Before::capture(&invocation, &tracee),
            redirected,
            stream,
            own_memory: memory.is_some(),
            mapping: files.mapping,
            change,
            has_noted_child: false,
            original,
            invocation,
        });
        for info in std::mem::take(&mut self.interrupting) {
            let _ = tracee.send_signal(info.si_signo);
            self.sent_again.push(info);
        }
        let running = tracee.resume_to_exit();
        if locks {
            // The holder of the lock passes it on to waiters. A task that came too late would
            // take it, and change its word, while others run.
            await_sleep(running.tid());
            scheduler.release_turn(self.task);
        }
        Ok(running)
    }

    /// The recorder's stream that a call writes to, or the process whose memory it writes
    /// (`/proc/PID/mem`). `is_live` says whether its target is a live file.
    fn written(
        &self,
        tracee: &Tracee<Prehook>,
        invocation: &Invocation,
        is_live: bool,
    ) -> (Option<u8>, Option<Tid>) {
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
        let fd = invocation.args[0];
        if self.scheduler().is_shared()
            && calls::is_on_stream(invocation)
            && self.sites.should_probe_descriptor(fd)
            && is_quick(tracee.tid(), fd)
        {
            self.sites.mark_descriptor(tracee, fd, buffer::QUICK);
        }
        let resizes = invocation.nr == libc::SYS_ftruncate as u64;
        if !writes && !resizes {
            return (None, None);
        }
        let stream = self.session.stdio.stream(tracee.tid(), fd);
        let memory = match stream {
            Some(_) => None,
            None => owner_of_memory(tracee.tid(), fd),
        };
        if stream.is_none()
            && memory.is_none()
            && !is_live
            && self.sites.has_one_table(self.scheduler().is_shared())
        {
            self.sites.mark_descriptor(tracee, fd, buffer::HIDDEN);
        }
        if resizes {
            return (None, None);
        }
        (stream, memory)
    }

    /// Whether a call copies data to one of the recorder's streams without passing memory.
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

    /// Sets the waiters bit of a lock with priority inheritance. The kernel would set it for a
    /// task that is going to wait, at a time that no record tells. So it is set here, while no
    /// task of the scheduler runs.
    fn announce_waiter(&self, tracee: &Tracee<Prehook>, call: &Invocation) {
        if !calls::locks_with_inheritance(call) {
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

    /// Returns an error from a call that cannot be recorded, and notes why.
    fn refuse(
        &mut self,
        tracee: Tracee<Prehook>,
        call: &Invocation,
        value: i64,
        reason: &'static str,
    ) -> Next {
        self.session.refuse(call.syscall().name(), reason);
        self.answer(tracee, value, Vec::new()).into()
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
            more: CallEffect::Nothing,
        }));
        // An error means that the task is gone.
        let _ = tracee.put_result(value);
        self.go(tracee, SignalPosition::Event)
    }

    /// Answers a call of the vsyscall page, which the kernel emulates and which stops only
    /// before it is made (`emulate_vsyscall` in arch/x86/entry/vsyscall/vsyscall_64.c). A call
    /// that is not to be made returns at once.
    fn emulated(&mut self, tracee: Tracee<Prehook>, call: &Invocation) -> Tracee<Running> {
        let now = std::time::SystemTime::now();
        let now = now.duration_since(std::time::UNIX_EPOCH);
        let now = now.unwrap_or_default();
        let seconds = now.as_secs();
        let [first, second, ..] = call.args;
        let write = |address: u64, bytes: Vec<u8>| Write { address, bytes };
        let (value, mut writes) = match call.nr.cast_signed() {
            libc::SYS_time => (
                seconds.cast_signed(),
                vec![write(first, seconds.to_le_bytes().to_vec())],
            ),
            libc::SYS_gettimeofday => {
                let micros = u64::from(now.subsec_micros());
                let time = [seconds, micros].map(u64::to_le_bytes).concat();
                // The kernel's own time zone is not used by anything.
                (0, vec![write(first, time), write(second, vec![0; 8])])
            }
            libc::SYS_getcpu => {
                let cpu = self.scheduler().cpu().to_le_bytes().to_vec();
                (0, vec![write(first, cpu), write(second, vec![0; 4])])
            }
            _ => (-i64::from(libc::ENOSYS), Vec::new()),
        };
        writes.retain(|write| write.address != 0);
        let mut is_written = true;
        // What was written before one of them failed is there all the same.
        for write in &mut writes {
            let written = tracee.write_writable(write.address, &write.bytes);
            let written = written.unwrap_or(0);
            is_written &= written == write.bytes.len();
            write.bytes.truncate(written);
        }
        writes.retain(|write| !write.bytes.is_empty());
        let value = if is_written {
            value
        } else {
            -i64::from(libc::EFAULT)
        };
        self.answer(tracee, value, writes)
    }

    /// Answers sched_setaffinity(2): the mask is kept, and the task runs where the scheduler
    /// wants.
    fn answer_setaffinity(&mut self, tracee: Tracee<Prehook>) -> Tracee<Running> {
        let args = tracee.invocation().args;
        let mut mask = vec![0; args[1].min(1024) as usize];
        let value = if tracee.read_exact(args[2], &mut mask).is_err() {
            -i64::from(libc::EFAULT)
        } else {
            self.session.set_affinity(whose(&tracee), mask)
        };
        self.answer(tracee, value, Vec::new())
    }

    /// Answers sched_getaffinity(2) with the mask that was kept.
    fn answer_getaffinity(&mut self, tracee: Tracee<Prehook>) -> Tracee<Running> {
        let args = tracee.invocation().args;
        let mask = self.session.affinity(whose(&tracee));
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
}

/// Waits until a resumed task sleeps or has stopped again, which takes some microseconds; at
/// most 20 ms.
fn await_sleep(task: Tid) {
    const LONG: Duration = Duration::from_millis(20);
    let begun = Instant::now();
    while begun.elapsed() < LONG {
        let text = read_proc(format!("/proc/{task}/stat")).unwrap_or_default();
        // Behind the name, which is in parentheses and may be anything.
        let end = memchr::memrchr(b')', &text);
        if end.and_then(|end| text.get(end + 2)) != Some(&b'R') {
            return;
        }
        std::thread::yield_now();
    }
}

/// Whether calls on a descriptor do not wait: it is a file, or does not block.
fn is_quick(tid: Tid, fd: u64) -> bool {
    let is_file =
        std::fs::metadata(descriptors::path(tid, fd)).is_ok_and(|metadata| metadata.is_file());
    let blocks = || descriptors::flags(tid, fd).is_none_or(|flags| flags & libc::O_NONBLOCK == 0);
    is_file || !blocks()
}

/// The reason why a mapping cannot be recorded, if it cannot.
fn unmappable(tracee: &Tracee<Prehook>, call: &Invocation) -> Option<&'static str> {
    if call.nr != libc::SYS_mmap as u64 || call.args[3] as i32 & libc::MAP_ANONYMOUS != 0 {
        return None;
    }
    let open = descriptors::path(tracee.tid(), call.args[4]);
    let metadata = std::fs::metadata(&open).ok()?;
    if metadata.is_file() || metadata.is_dir() || descriptors::is_zeros(&open) {
        return None;
    }
    Some("memory of a device changes without a recorded call")
}

/// The task that a call about affinity means.
fn whose(tracee: &Tracee<Prehook>) -> Tid {
    match tracee.invocation().args[0] as Tid {
        0 => tracee.tid(),
        other => other,
    }
}

/// The process whose memory a descriptor refers to, if it is a `mem` file.
fn owner_of_memory(tid: Tid, fd: u64) -> Option<Tid> {
    let path = std::fs::read_link(descriptors::path(tid, fd)).ok()?;
    let mut parts = path.to_str()?.strip_prefix("/proc/")?.split('/');
    let owner = parts.next()?.parse::<Tid>().ok()?;
    (parts.next_back()? == "mem").then_some(owner)
}
