//! A tracee as a value whose type says what may be asked of it.
//!
//! `Tracee<Running>` can only be waited for. Each kind of stop has its own
//! state; methods that let the task go on consume the value and give back a
//! running one, so that a running task's registers cannot be read by mistake.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::rc::Rc;
use std::task::Poll;
use std::{fmt, io};

use super::scratch::Space;
use super::slot::Peeked;
use super::stop::{Raw, SpawnKind, Stop};
use super::{Handle, Shared, Slot};
use crate::event::Tid;
use crate::invocation::Invocation;
use crate::memory::Memory;
use crate::sys::{self, Resume};

/// `NT_X86_XSTATE` of linux/elf.h.
const NT_X86_XSTATE: u32 = 0x202;

/// A state of a tracee.
pub trait State: fmt::Debug {}

/// A state in which the task waits for the tracer.
pub trait Stopped: State {}

/// Not stopped.
#[derive(Debug)]
pub struct Running;
/// In its first stop, or stopped by request.
#[derive(Debug)]
pub struct Started;
/// Before a syscall.
#[derive(Debug, Clone, Copy)]
pub struct Prehook {
    arch: u32,
    call: Invocation,
    ip: u64,
    sp: u64,
}
/// After a syscall.
#[derive(Debug, Clone, Copy)]
pub struct Posthook {
    value: i64,
}
/// After a successful execve.
#[derive(Debug, Clone, Copy)]
pub struct Exec {
    former: Tid,
}
/// After the making of a child.
#[derive(Debug, Clone, Copy)]
pub struct Spawned {
    kind: SpawnKind,
    child: Tid,
    flags: u64,
}
/// Before the end.
#[derive(Debug, Clone, Copy)]
pub struct PreExit {
    status: i32,
}
/// Before the delivery of a signal.
#[derive(Debug, Clone, Copy)]
pub struct Signal {
    signal: i32,
}
/// In a group stop.
#[derive(Debug, Clone, Copy)]
pub struct GroupStop {
    signal: i32,
}
/// In a stop of whatever kind: nothing of it is left to be asked, and a signal
/// that it is stopped for will not be delivered.
#[derive(Debug, Clone, Copy)]
pub struct Parked;

macro_rules! states {
    ($($name:ident)*) => { $(impl State for $name {} impl Stopped for $name {})* };
}
impl State for Running {}
states!(Started Prehook Posthook Exec Spawned PreExit Signal GroupStop Parked);

/// One traced task.
pub struct Tracee<S: State> {
    shared: Rc<Shared>,
    slot: Rc<Slot>,
    state: S,
    /// Not Send: ptrace requests are valid on the tracer's thread alone.
    thread: PhantomData<*const ()>,
}

impl<S: State> fmt::Debug for Tracee<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tracee({}, {:?})", self.tid(), self.state)
    }
}

impl<S: State> Tracee<S> {
    /// The task's id. It changes when a thread other than the leader executes
    /// a program.
    pub fn tid(&self) -> Tid {
        self.slot.tid.get()
    }

    /// The id of the process the task belongs to.
    pub fn tgid(&self) -> Tid {
        self.slot.tgid.get()
    }

    /// The task that made this one; `None` for the first and for attached ones.
    pub fn parent(&self) -> Option<Tid> {
        self.slot.parent
    }

    /// The runtime.
    pub fn handle(&self) -> Handle {
        Handle {
            shared: self.shared.clone(),
        }
    }

    /// Its id, for a request of ptrace.
    fn living(&self) -> io::Result<Tid> {
        if self.slot.gone.get() {
            Err(io::Error::from_raw_os_error(libc::ESRCH))
        } else {
            Ok(self.tid())
        }
    }

    pub(super) fn slot(&self) -> &Rc<Slot> {
        &self.slot
    }

    pub(super) fn shared(&self) -> &Rc<Shared> {
        &self.shared
    }

    pub(super) fn space(&self) -> Rc<Space> {
        self.slot.space.borrow().clone()
    }

    /// Lets the task be looked at where whoever follows it has not kept it.
    pub fn observer(&self) -> Observer {
        Observer {
            slot: self.slot.clone(),
            thread: PhantomData,
        }
    }

    fn with<T: State>(self, state: T) -> Tracee<T> {
        Tracee {
            shared: self.shared,
            slot: self.slot,
            state,
            thread: PhantomData,
        }
    }
}

impl Tracee<Started> {
    pub(super) fn new(shared: Rc<Shared>, slot: Rc<Slot>) -> Self {
        Self {
            shared,
            slot,
            state: Started,
            thread: PhantomData,
        }
    }
}

impl Tracee<Running> {
    /// Waits for the next stop.
    pub async fn stop(self) -> Stop {
        let slot = self.slot.clone();
        let raw = poll_fn(|_| match slot.mailbox.borrow_mut().pop_front() {
            Some(raw) => Poll::Ready(raw),
            // The executor polls after each delivery, so no waker is kept.
            None => Poll::Pending,
        })
        .await;
        match raw {
            Raw::Prehook {
                arch,
                nr,
                args,
                ip,
                sp,
            } => Stop::Prehook(self.with(Prehook {
                arch,
                call: Invocation { nr, args },
                ip,
                sp,
            })),
            Raw::Posthook(value) => Stop::Posthook(self.with(Posthook { value })),
            Raw::Exec { former } => Stop::Exec(self.with(Exec { former })),
            Raw::Spawned { kind, child, flags } => {
                Stop::Spawned(self.with(Spawned { kind, child, flags }))
            }
            Raw::PreExit(status) => Stop::PreExit(self.with(PreExit { status })),
            Raw::Signal(signal) => Stop::Signal(self.with(Signal { signal })),
            Raw::GroupStop(signal) => Stop::GroupStop(self.with(GroupStop { signal })),
            Raw::Interrupted => Stop::Interrupted(self.with(Started)),
            Raw::Exited(status) => Stop::Exited(status),
            Raw::Killed(signal, core) => Stop::Killed { signal, core },
            Raw::Superseded => Stop::Superseded,
        }
    }

    /// Asks the task to stop (`PTRACE_INTERRUPT`); it reports
    /// [`Stop::Interrupted`] unless another stop comes first.
    ///
    /// # Errors
    /// `ESRCH` when it is gone.
    pub fn interrupt(&self) -> io::Result<()> {
        sys::interrupt(self.living()?)
    }

    /// The same for later, while its next stop is waited for.
    pub fn interrupter(&self) -> Interrupter {
        Interrupter {
            slot: self.slot.clone(),
            thread: PhantomData,
        }
    }
}

/// Stops a task that runs.
#[derive(Debug)]
pub struct Interrupter {
    slot: Rc<Slot>,
    thread: PhantomData<*const ()>,
}

impl Interrupter {
    /// As [`Tracee::interrupt`]; nothing when the task is stopped or gone.
    pub fn interrupt(&self) {
        if !self.slot.gone.get() && !self.slot.stopped.get() {
            // ESRCH: it is ending.
            let _ = sys::interrupt(self.slot.tid.get());
        }
    }
}

/// Looks at a task, and changes nothing of it.
#[derive(Debug)]
pub struct Observer {
    slot: Rc<Slot>,
    thread: PhantomData<*const ()>,
}

impl Observer {
    /// The id of the process the task belongs to.
    pub fn tgid(&self) -> Tid {
        self.slot.tgid.get()
    }

    /// The general registers.
    ///
    /// # Errors
    /// `ESRCH` when the task is gone, or not in a stop.
    pub fn registers(&self) -> io::Result<libc::user_regs_struct> {
        if self.slot.gone.get() {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        sys::registers(self.slot.tid.get())
    }
}

impl Memory for Observer {
    fn read(&self, address: u64, buffer: &mut [u8]) -> usize {
        if self.slot.gone.get() {
            return 0;
        }
        sys::read_memory(self.slot.tid.get(), address, buffer)
    }
}

impl<S: Stopped> Tracee<S> {
    fn go(self, how: Resume, signal: i32) -> Tracee<Running> {
        // Something may already wait in the mailbox (a death while stopped).
        if !self.slot.gone.get() && self.slot.mailbox.borrow().is_empty() {
            let how = match how {
                // The exit that was asked for is still to come.
                Resume::Continue if self.slot.wants_exit.get() => Resume::ToSyscall,
                how => how,
            };
            self.shared.resume(&self.slot, how, signal);
        }
        self.with(Running)
    }

    /// Lets the task go on to its next filtered syscall, event or signal.
    pub fn resume(self) -> Tracee<Running> {
        let how = self.shared.usual_resume();
        self.go(how, 0)
    }

    /// Lets the task go on untraced, for ever. A signal that it is stopped for
    /// is delivered, a group stop lasts.
    ///
    /// # Errors
    /// `ESRCH` when it is gone.
    pub fn detach(self) -> io::Result<()> {
        let tid = self.living()?;
        self.shared.slots.borrow_mut().remove(&tid);
        self.space().let_go();
        self.slot.unattended.set(true);
        self.slot.stopped.set(false);
        self.slot.gone.set(true);
        self.shared.placement.shown(tid);
        sys::resume(tid, Resume::Detach, self.slot.at.get().signal())
    }

    /// Whether something has happened to the task in its stop: it is being killed, and
    /// resuming it leads to the news at once.
    pub fn has_news(&self) -> bool {
        self.slot.gone.get() || !self.slot.mailbox.borrow().is_empty()
    }

    /// Forgets what kind of stop it is. Resumed from there, a call that has not
    /// begun runs, and a signal is not delivered.
    pub fn park(self) -> Tracee<Parked> {
        self.with(Parked)
    }

    /// Lets the task go on for one instruction; it then reports a `SIGTRAP`
    /// ([`Stop::Signal`]) whose code is `TRAP_TRACE`, unless something else stops it.
    pub fn step(self) -> Tracee<Running> {
        self.go(Resume::Step, 0)
    }

    /// Sends a signal to the task itself, as `tgkill` by the tracer does.
    ///
    /// # Errors
    /// `ESRCH` when the task was killed in its stop.
    pub fn send_signal(&self, signal: i32) -> io::Result<()> {
        let tid = self.living()?;
        sys::send_signal(self.tgid(), tid, signal)
    }

    /// Keeps the task, and those that it makes, on one CPU; whether that is possible.
    /// The task can see it, unless its calls about affinity are answered.
    pub fn bind(&self, cpu: u32) -> bool {
        self.living()
            .is_ok_and(|tid| self.shared.placement.bind(tid, cpu as usize))
    }

    /// The extended registers (floating point, vectors) in the format of XSAVE.
    ///
    /// # Errors
    /// `ESRCH` when the task was killed in its stop.
    pub fn extended_state(&self) -> io::Result<Vec<u8>> {
        // Larger than any that there is (Intel's tiles need 11 KiB).
        sys::register_set(self.living()?, NT_X86_XSTATE, 16 << 10)
    }

    /// Sets the extended registers.
    ///
    /// # Errors
    /// `ESRCH` when the task was killed in its stop; `EINVAL` when this processor
    /// does not have them.
    pub fn set_extended_state(&self, state: &[u8]) -> io::Result<()> {
        sys::set_register_set(self.living()?, NT_X86_XSTATE, state)
    }

    /// The general registers.
    ///
    /// # Errors
    /// `ESRCH` when the task was killed in its stop.
    pub fn registers(&self) -> io::Result<libc::user_regs_struct> {
        let tid = self.living()?;
        if let Some(registers) = self.slot.registers.get() {
            return Ok(registers);
        }
        let registers = sys::registers(tid).inspect_err(|error| self.failed(error))?;
        self.slot.registers.set(Some(registers));
        Ok(registers)
    }

    /// Nothing can be done in this stop any more if the task was killed in it.
    fn failed(&self, error: &io::Error) {
        if error.raw_os_error() == Some(libc::ESRCH) {
            self.slot.killed.set(true);
        }
    }

    /// Sets the general registers.
    ///
    /// # Errors
    /// `ESRCH` when the task was killed in its stop.
    pub fn set_registers(&self, regs: &libc::user_regs_struct) -> io::Result<()> {
        // The kernel may not take all of them as they are.
        self.slot.registers.set(None);
        sys::set_registers(self.living()?, regs).inspect_err(|error| self.failed(error))
    }

    /// Has the processor stop this task, and no other one, right before it executes the
    /// instruction at an address, whatever stands there by then; or no more. The stop is a
    /// `SIGTRAP` of the kind `TRAP_HWBKPT` (sigaction(2)). One address at a time.
    ///
    /// # Errors
    /// What the kernel says of addresses that are none of a program, and where there are no
    /// debug registers.
    pub fn set_hardware_breakpoint(&self, address: Option<u64>) -> io::Result<()> {
        /// `DR7`: the first breakpoint, for this task, of an instruction.
        const CONTROL: usize = 7;
        const FIRST: u64 = 1;
        let tid = self.living()?;
        let Some(address) = address else {
            return sys::set_debug_register(tid, CONTROL, 0);
        };
        sys::set_debug_register(tid, 0, address)?;
        sys::set_debug_register(tid, CONTROL, FIRST)
    }

    /// Reads a plain value of the tracee's memory.
    ///
    /// # Errors
    /// [`crate::memory::Fault`] when it is not readable.
    pub fn read_value<T: Plain>(&self, address: u64) -> Result<T, crate::memory::Fault> {
        let mut bytes = vec![0; size_of::<T>()];
        self.read_exact(address, &mut bytes)?;
        Ok(T::from_bytes(&bytes))
    }

    /// Reads `count` values that lie one after the other.
    ///
    /// # Errors
    /// [`crate::memory::Fault`] when part of them is not readable.
    pub fn read_slice<T: Plain>(
        &self,
        address: u64,
        count: usize,
    ) -> Result<Vec<T>, crate::memory::Fault> {
        let fault = crate::memory::Fault { address };
        let len = size_of::<T>().checked_mul(count).ok_or(fault)?;
        let mut bytes = Vec::new();
        // A length that the tracee made up.
        bytes.try_reserve_exact(len).map_err(|_| fault)?;
        bytes.resize(len, 0);
        self.read_exact(address, &mut bytes)?;
        Ok(bytes
            .chunks_exact(size_of::<T>())
            .map(T::from_bytes)
            .collect())
    }

    /// Reads many ranges with as few calls as possible, one after the other
    /// into one buffer, which is cut at the first fault.
    pub fn read_ranges(&self, ranges: &[(u64, u64)]) -> Vec<u8> {
        /// Reading so many is quicker in the one way or the other.
        const FEW: usize = 3;
        let total = ranges
            .iter()
            .fold(0_u64, |sum, range| sum.saturating_add(range.1));
        let mut buffer = vec![0; total as usize];
        let got = self.living().map_or(0, |tid| {
            match self.slot.copied.get() && ranges.len() > FEW {
                true => sys::read_shared_ranges(tid, ranges, &mut buffer),
                false => sys::read_ranges(tid, ranges, &mut buffer),
            }
        });
        buffer.truncate(got);
        buffer
    }

    /// Writes the tracee's memory, read-only pages included.
    ///
    /// # Errors
    /// When the range is not mapped or the task is gone.
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.slot.peeked.set(Peeked::NOTHING);
        sys::write_memory(self.living()?, address, bytes)
    }

    /// Writes the tracee's memory where it could do so itself: how many bytes.
    ///
    /// # Errors
    /// `ESRCH` when it was killed in its stop.
    pub fn write_writable(&self, address: u64, bytes: &[u8]) -> io::Result<usize> {
        self.slot.peeked.set(Peeked::NOTHING);
        Ok(sys::write_writable(self.living()?, address, bytes))
    }

    /// Writes to several places of the tracee's memory, whatever its protection: code.
    ///
    /// # Errors
    /// `ESRCH` when it was killed in its stop; a place that is not there. What comes after
    /// that is not written.
    pub fn write_protected<'a>(
        &self,
        writes: impl Iterator<Item = (u64, &'a [u8])>,
    ) -> io::Result<()> {
        self.slot.peeked.set(Peeked::NOTHING);
        sys::write_protected(self.living()?, writes)
    }
}

impl<S: Stopped> Memory for Tracee<S> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> usize {
        let Ok(tid) = self.living() else { return 0 };
        if self.slot.peeked.get().copy(address, buffer) {
            return buffer.len();
        }
        sys::read_memory(tid, address, buffer)
    }
}

/// Values that any bytes of the right length make.
pub trait Plain: Copy {
    /// Makes the value from exactly `size_of::<Self>()` bytes.
    fn from_bytes(bytes: &[u8]) -> Self;
}

macro_rules! plain {
    ($($name:ty)*) => { $(impl Plain for $name {
        fn from_bytes(bytes: &[u8]) -> Self {
            let mut exact = [0; size_of::<$name>()];
            exact.copy_from_slice(bytes);
            <$name>::from_ne_bytes(exact)
        }
    })* };
}
plain!(u8 i8 u16 i16 u32 i32 u64 i64 usize isize u128 i128);

impl Tracee<Prehook> {
    /// The syscall and its arguments.
    pub fn invocation(&self) -> Invocation {
        self.state.call
    }

    /// Whether the call is of a foreign kind: a 32-bit call (`int 0x80` or a
    /// 32-bit program) or an x32 one. Its number then has another meaning.
    pub fn is_foreign(&self) -> bool {
        self.state.arch != crate::filter::ARCH_X86_64 || self.state.call.nr & 0x4000_0000 != 0
    }

    /// The address after the syscall instruction.
    pub fn instruction_pointer(&self) -> u64 {
        self.state.ip
    }

    /// The stack pointer.
    pub fn stack_pointer(&self) -> u64 {
        self.state.sp
    }

    /// Lets the call run and asks for its exit stop. Events in between (exec,
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

    /// Has the call not run, and return `value` (a result or a negative errno), once the tracee
    /// goes on.
    ///
    /// # Errors
    /// `ESRCH` when the task was killed in its stop.
    pub fn put_result(&self, value: i64) -> io::Result<()> {
        let mut regs = self.registers()?;
        regs.orig_rax = u64::MAX;
        regs.rax = value.cast_unsigned();
        self.set_registers(&regs)
    }

    /// Runs another syscall in the tracee's place before this one, and comes
    /// back to this stop. The original call has not run.
    ///
    /// Signals wait meanwhile (they are blocked), so that the tracee cannot tell
    /// it from one long stop; SIGSTOP alone may stop it in between. Not for
    /// calls that make a task or execute a program.
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
        // Errors mean the task is gone; the next stop says so.
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
                    // What the registers say, and not the rewound call's echo.
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
    /// What the syscall returned: a result, or a negative errno.
    pub fn value(&self) -> i64 {
        self.state.value
    }

    /// Changes what the tracee sees as the result.
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

    /// Steps back over the two-byte syscall instruction so that the call in
    /// `entry` (registers of its entry stop) runs again, and waits for that
    /// entry stop.
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

impl Tracee<Exec> {
    /// The id of the thread that executed the program, where it was another
    /// one than the leader.
    pub fn former(&self) -> Tid {
        self.state.former
    }
}

impl Tracee<Spawned> {
    /// How.
    pub fn kind(&self) -> SpawnKind {
        self.state.kind
    }

    /// The new task.
    pub fn child(&self) -> Tid {
        self.state.child
    }

    /// The `CLONE_*` flags that made it.
    pub fn flags(&self) -> u64 {
        self.state.flags
    }
}

impl Tracee<PreExit> {
    /// The status as wait(2) will report it.
    pub fn status(&self) -> i32 {
        self.state.status
    }
}

impl Tracee<Signal> {
    /// Which signal.
    pub fn signal(&self) -> i32 {
        self.state.signal
    }

    /// Everything about it.
    ///
    /// # Errors
    /// `ESRCH` when the task was killed in its stop.
    pub fn info(&self) -> io::Result<libc::siginfo_t> {
        sys::signal_info(self.living()?)
    }

    /// Changes what the handler is going to be told about it.
    ///
    /// # Errors
    /// `ESRCH` when the task was killed in its stop; `EINVAL` for another signal.
    pub fn set_info(&self, info: &libc::siginfo_t) -> io::Result<()> {
        sys::set_signal_info(self.living()?, info)
    }

    /// Lets the signal through, and stops again ([`Stop::Signal`] with `SIGTRAP`)
    /// before the first instruction of its handler, when its frame is there. Without
    /// a handler an instruction of the program runs first.
    pub fn deliver_and_step(self) -> Tracee<Running> {
        let signal = self.state.signal;
        self.go(Resume::Step, signal)
    }

    /// Lets the signal through.
    pub fn deliver(self) -> Tracee<Running> {
        self.note_frame();
        let (how, signal) = (self.shared.usual_resume(), self.state.signal);
        self.go(how, signal)
    }
}

impl Tracee<GroupStop> {
    /// The stopping signal.
    pub fn signal(&self) -> i32 {
        self.state.signal
    }

    /// Leaves the task in its group stop, as job control wants it; SIGCONT
    /// ends it with [`Stop::Interrupted`].
    pub fn listen(self) -> Tracee<Running> {
        self.go(Resume::Listen, 0)
    }
}
