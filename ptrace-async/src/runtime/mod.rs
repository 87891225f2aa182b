//! The executor: one thread that waits for tracees and runs their functions.
//!
//! Every task that is traced is handled by one async function, which lives as
//! long as the task does (libptrace, section 5.2.2). The executor is not a
//! general one: it blocks in `waitid(P_ALL, __WALL | __WNOTHREAD)`, which
//! reports only children and tracees of its own thread, so that it never
//! steals a host application's children and several can coexist. Work that
//! blocks (hashing, copying, reading a store) goes to worker threads through
//! [`Handle::blocking`]; their completion interrupts the wait.
//!
//! **Invariants.** A stop is routed to exactly one function, in the order of
//! arrival. A task starts only after its parent's function has seen the fork
//! event that made it, whichever of the two the kernel reported first. A
//! function that ends early leaves its task running, unobserved but never
//! stuck.

mod launch;
mod placement;
mod pool;
mod stop;
mod tracee;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use rustc_hash::FxHashMap;

pub use self::launch::{Program, SETUP_FAILED};
use self::placement::Placement;
use self::pool::Pool;
use self::stop::Raw;
pub use self::stop::{SpawnKind, Stop};
pub use self::tracee::{
    Exec, GroupStop, Posthook, PreExit, Prehook, Running, Signal, Spawned, Started, State, Stopped,
    Tracee,
};
use crate::event::Tid;
use crate::filter::Filter;
use crate::sys::{self, Resume, SyscallInfo, Waited};

/// How syscalls are made to stop.
#[derive(Debug, Clone)]
pub enum Interception {
    /// By a seccomp filter in the tracee: only what the filter names stops.
    /// Needs no_new_privs (which disarms set-uid programs) or `CAP_SYS_ADMIN`.
    Seccomp(Filter),
    /// Every syscall stops twice, and those the filter does not name go on at
    /// once: slow, but leaves privileges alone and needs nothing installed.
    Ptrace(Filter),
}

impl Interception {
    fn filter(&self) -> &Filter {
        match self {
            Self::Seccomp(filter) | Self::Ptrace(filter) => filter,
        }
    }
}

/// Options of a [`Runtime`].
#[derive(Debug, Clone)]
pub struct Options {
    /// How syscalls are made to stop.
    pub interception: Interception,
    /// Kill all tracees when the tracer dies (`PTRACE_O_EXITKILL`). Tracees
    /// with a filter cannot live without their tracer: filtered syscalls
    /// would fail with `ENOSYS`.
    pub exit_kill: bool,
}

/// One traced task as the runtime knows it.
#[derive(Debug)]
struct Slot {
    key: u64,
    tid: Cell<Tid>,
    tgid: Cell<Tid>,
    parent: Option<Tid>,
    mailbox: RefCell<VecDeque<Raw>>,
    /// Reaped or replaced: no ptrace request makes sense any more.
    gone: Cell<bool>,
    /// In a stop that nobody resumed yet.
    stopped: Cell<bool>,
    /// The function asked for the exit stop of the current syscall.
    wants_exit: Cell<bool>,
    /// Its function has ended: stops are resumed at once.
    unattended: Cell<bool>,
    /// In a group stop entered with `PTRACE_LISTEN`.
    listening: Cell<bool>,
}

/// What other threads may touch.
struct Remote {
    tracer: Tid,
    flag: std::sync::atomic::AtomicU32,
    woken: std::sync::Mutex<Vec<u64>>,
    ready: std::sync::Condvar,
}

impl Remote {
    fn push(&self, key: u64) {
        let mut woken = self
            .woken
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        woken.push(key);
        self.flag.store(1, std::sync::atomic::Ordering::SeqCst);
        drop(woken);
        self.ready.notify_one();
        if sys::own_tid() != self.tracer {
            sys::wake(self.tracer);
        }
    }

    fn take(&self) -> Vec<u64> {
        let mut woken = self
            .woken
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        self.flag.store(0, std::sync::atomic::Ordering::SeqCst);
        std::mem::take(&mut *woken)
    }

    fn wait(&self) {
        let mut woken = self
            .woken
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        while woken.is_empty() {
            woken = self
                .ready
                .wait(woken)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}

struct TaskWaker {
    key: u64,
    remote: Arc<Remote>,
}

impl std::task::Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.remote.push(self.key);
    }
}

type Function = Pin<Box<dyn Future<Output = ()>>>;

/// Shared between the runtime and the tracees it handed out.
struct Shared {
    options: Options,
    slots: RefCell<FxHashMap<Tid, Rc<Slot>>>,
    functions: RefCell<FxHashMap<u64, (Function, Rc<Slot>, Waker)>>,
    /// Children announced by their parent's event, not yet seen.
    expected: RefCell<FxHashMap<Tid, (Tid, u64)>>,
    /// First stops of children whose parent has not reported yet.
    held: RefCell<FxHashMap<Tid, Waited>>,
    next_key: Cell<u64>,
    remote: Arc<Remote>,
    pool: RefCell<Option<Pool>>,
    stops: Cell<u64>,
    placement: Placement,
}

/// The executor. It must be created and run on the same thread.
pub struct Runtime {
    shared: Rc<Shared>,
}

/// Access to the runtime from within tracee functions.
#[derive(Clone)]
pub struct Handle {
    shared: Rc<Shared>,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime")
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl Handle {
    /// Runs `work` on a worker thread; the calling function sleeps meanwhile,
    /// other tracees go on.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let receiver = {
            let mut pool = self.shared.pool.borrow_mut();
            pool.get_or_insert_with(Pool::new).submit(work)
        };
        receiver.await
    }

    /// The number of stops handled so far.
    pub fn stops(&self) -> u64 {
        self.shared.stops.get()
    }
}

impl Runtime {
    /// Makes a runtime for the calling thread.
    pub fn new(options: Options) -> Self {
        sys::install_wake_handler();
        let remote = Arc::new(Remote {
            tracer: sys::own_tid(),
            flag: std::sync::atomic::AtomicU32::new(0),
            woken: std::sync::Mutex::default(),
            ready: std::sync::Condvar::new(),
        });
        Self {
            shared: Rc::new(Shared {
                options,
                slots: RefCell::default(),
                functions: RefCell::default(),
                expected: RefCell::default(),
                held: RefCell::default(),
                next_key: Cell::new(1),
                remote,
                pool: RefCell::new(None),
                stops: Cell::new(0),
                placement: Placement::new(),
            }),
        }
    }

    /// A handle for use inside tracee functions.
    pub fn handle(&self) -> Handle {
        Handle {
            shared: self.shared.clone(),
        }
    }

    /// Starts a program under trace. Its function runs once [`Runtime::run`]
    /// does; its first stop comes before the program's own execve.
    ///
    /// # Errors
    /// When forking or `PTRACE_SEIZE` fails (`EPERM` where ptrace is forbidden).
    pub fn spawn(&self, program: &Program) -> io::Result<Tid> {
        let tid = launch::launch(program, &self.shared.options)?;
        self.shared.expected.borrow_mut().insert(tid, (0, 0));
        Ok(tid)
    }

    /// Attaches to all threads of a running process. Only syscall stops of
    /// [`Interception::Ptrace`] are seen, because no filter is installed in it.
    ///
    /// # Errors
    /// As `PTRACE_SEIZE` (`EPERM`, `ESRCH`) and reading `/proc/PID/task`.
    pub fn attach(&self, pid: Tid) -> io::Result<()> {
        // Threads made while we look are caught by looking until nothing new
        // appears; those made by seized threads are traced from birth.
        loop {
            let mut found = false;
            for entry in std::fs::read_dir(format!("/proc/{pid}/task"))? {
                let Some(tid) = entry?
                    .file_name()
                    .to_str()
                    .and_then(|s| s.parse::<Tid>().ok())
                else {
                    continue;
                };
                if self.shared.expected.borrow().contains_key(&tid) {
                    continue;
                }
                match sys::seize(tid, trace_options(&self.shared.options)) {
                    Ok(()) => {
                        sys::interrupt(tid)?;
                        let flags = if tid == pid {
                            0
                        } else {
                            libc::CLONE_THREAD as u64
                        };
                        self.shared.expected.borrow_mut().insert(tid, (pid, flags));
                        found = true;
                    }
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    // A thread that a seized sibling has just made is ours already.
                    Err(error) if error.raw_os_error() == Some(libc::EPERM) && tid != pid => {}
                    Err(error) => return Err(error),
                }
            }
            if !found {
                return Ok(());
            }
        }
    }

    /// Runs until the last tracee has gone and the last function has ended.
    /// `handler` makes the function of each new task.
    ///
    /// # Errors
    /// When waitid fails in an unexpected way.
    pub fn run<H, F>(self, handler: H) -> io::Result<()>
    where
        H: Fn(Tracee<Started>) -> F,
        F: Future<Output = ()> + 'static,
    {
        let make = |tracee: Tracee<Started>| -> Function { Box::pin(handler(tracee)) };
        loop {
            for key in self.shared.remote.take() {
                self.poll(key);
            }
            match sys::wait(&self.shared.remote.flag, true) {
                Ok(Some(waited)) => {
                    self.shared.stops.set(self.shared.stops.get() + 1);
                    self.dispatch(waited, &make);
                }
                Ok(None) => {}
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {
                    if self.shared.functions.borrow().is_empty() {
                        return Ok(());
                    }
                    self.shared.remote.wait();
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn poll(&self, key: u64) {
        let Some((mut function, slot, waker)) = self.shared.functions.borrow_mut().remove(&key)
        else {
            return;
        };
        let poll = function.as_mut().poll(&mut Context::from_waker(&waker));
        match poll {
            Poll::Pending => {
                self.shared
                    .functions
                    .borrow_mut()
                    .insert(key, (function, slot, waker));
            }
            Poll::Ready(()) => {
                // Dropping the function may itself resume a tracee.
                drop(function);
                slot.unattended.set(true);
                self.release(&slot);
            }
        }
    }

    /// Lets a task go on whose function does not care any more.
    fn release(&self, slot: &Rc<Slot>) {
        let pending: Vec<Raw> = slot.mailbox.borrow_mut().drain(..).collect();
        if slot.gone.get() || !slot.stopped.get() {
            return;
        }
        let (how, signal) = match pending.last() {
            Some(Raw::Signal(signal)) => (self.shared.usual_resume(), *signal),
            Some(Raw::GroupStop(_)) => (Resume::Listen, 0),
            _ => (self.shared.usual_resume(), 0),
        };
        slot.stopped.set(false);
        // A task that died meanwhile reports its death by itself.
        let _ = sys::resume(slot.tid.get(), how, signal);
    }

    fn dispatch(&self, waited: Waited, make: &dyn Fn(Tracee<Started>) -> Function) {
        let shared = &self.shared;
        if matches!(
            waited.code,
            libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED
        ) {
            self.died(waited, make);
            return;
        }
        let slot = shared.slots.borrow().get(&waited.tid).cloned();
        let Some(slot) = slot else {
            let announced = shared.expected.borrow_mut().remove(&waited.tid);
            match announced {
                Some((parent, flags)) => self.start(waited, parent, flags, make),
                None => {
                    shared.held.borrow_mut().insert(waited.tid, waited);
                }
            }
            return;
        };
        if let Some(raw) = shared.interpret(&slot, waited) {
            let spawned = match raw {
                Raw::Spawned { child, flags, .. } => Some((child, flags)),
                _ => None,
            };
            self.deliver(&slot, raw);
            if let Some((child, flags)) = spawned {
                let held = shared.held.borrow_mut().remove(&child);
                match held {
                    Some(first) => self.start(first, slot.tid.get(), flags, make),
                    None => {
                        shared
                            .expected
                            .borrow_mut()
                            .insert(child, (slot.tid.get(), flags));
                    }
                }
            }
        }
    }

    fn deliver(&self, slot: &Rc<Slot>, raw: Raw) {
        slot.mailbox.borrow_mut().push_back(raw);
        if slot.unattended.get() {
            self.release(slot);
        } else {
            self.poll(slot.key);
        }
    }

    fn start(
        &self,
        first: Waited,
        parent: Tid,
        flags: u64,
        make: &dyn Fn(Tracee<Started>) -> Function,
    ) {
        let shared = &self.shared;
        if parent != 0 {
            shared.placement.started(parent, first.tid);
        }
        let thread = flags & libc::CLONE_THREAD as u64 != 0;
        let tgid = if thread {
            shared
                .slots
                .borrow()
                .get(&parent)
                .map_or(parent, |slot| slot.tgid.get())
        } else {
            first.tid
        };
        let key = shared.next_key.get();
        shared.next_key.set(key + 1);
        let slot = Rc::new(Slot {
            key,
            tid: Cell::new(first.tid),
            tgid: Cell::new(tgid),
            parent: (parent != 0).then_some(parent),
            mailbox: RefCell::default(),
            gone: Cell::new(false),
            stopped: Cell::new(true),
            wants_exit: Cell::new(false),
            unattended: Cell::new(false),
            listening: Cell::new(false),
        });
        shared.slots.borrow_mut().insert(first.tid, slot.clone());
        // The first stop of a seized task is PTRACE_EVENT_STOP; anything else
        // (a signal, an exit) is kept as the stop that follows the start.
        let event = first.status >> 8;
        if event != libc::PTRACE_EVENT_STOP {
            match shared.interpret(&slot, first) {
                Some(raw) => slot.mailbox.borrow_mut().push_back(raw),
                None => slot.stopped.set(false),
            }
        } else if first.status & 0xff != libc::SIGTRAP {
            slot.mailbox
                .borrow_mut()
                .push_back(Raw::GroupStop(first.status & 0xff));
        }
        let function = make(Tracee::new(shared.clone(), slot.clone()));
        let waker = Waker::from(Arc::new(TaskWaker {
            key,
            remote: shared.remote.clone(),
        }));
        shared
            .functions
            .borrow_mut()
            .insert(key, (function, slot, waker));
        self.poll(key);
    }

    fn died(&self, waited: Waited, make: &dyn Fn(Tracee<Started>) -> Function) {
        let shared = &self.shared;
        shared.held.borrow_mut().remove(&waited.tid);
        let slot = shared.slots.borrow_mut().remove(&waited.tid);
        if let Some(slot) = slot {
            slot.gone.set(true);
            let raw = match waited.code {
                libc::CLD_EXITED => Raw::Exited(waited.status),
                code => Raw::Killed(waited.status, code == libc::CLD_DUMPED),
            };
            self.deliver(&slot, raw);
        } else {
            shared.expected.borrow_mut().remove(&waited.tid);
        }
        // A parent that was killed in its fork event never announces the
        // child; the child's first stop would be held forever.
        let held: Vec<(Tid, Waited)> = shared
            .held
            .borrow()
            .iter()
            .map(|(&tid, &first)| (tid, first))
            .collect();
        for (tid, first) in held {
            let (tgid, ppid) = launch::family(tid);
            let known = |id: Tid| shared.slots.borrow().values().any(|s| s.tgid.get() == id);
            let announced_later = if tgid == tid {
                known(ppid)
            } else {
                known(tgid)
            };
            if !announced_later {
                shared.held.borrow_mut().remove(&tid);
                let flags = if tgid == tid {
                    0
                } else {
                    libc::CLONE_THREAD as u64
                };
                self.start(first, waited.tid, flags, make);
            }
        }
    }
}

/// The ptrace options of every tracee.
fn trace_options(options: &Options) -> i32 {
    libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACEEXIT
        | libc::PTRACE_O_TRACESECCOMP
        | if options.exit_kill {
            libc::PTRACE_O_EXITKILL
        } else {
            0
        }
}

impl Shared {
    /// How a task is resumed when nobody asked for more.
    fn usual_resume(&self) -> Resume {
        match self.options.interception {
            Interception::Seccomp(_) => Resume::Continue,
            Interception::Ptrace(_) => Resume::ToSyscall,
        }
    }

    /// What a wait status means; `None` when it was dealt with here.
    fn interpret(&self, slot: &Rc<Slot>, waited: Waited) -> Option<Raw> {
        let tid = waited.tid;
        let (signal, event) = (waited.status & 0xff, waited.status >> 8);
        slot.stopped.set(true);
        self.placement.stopped(tid);
        let raw = match event {
            0 if signal == libc::SIGTRAP | 0x80 => self.syscall_stop(slot, tid, false)?,
            0 => Raw::Signal(signal),
            libc::PTRACE_EVENT_SECCOMP => self.syscall_stop(slot, tid, true)?,
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                let child = sys::event_message(tid).unwrap_or(0) as Tid;
                Raw::Spawned {
                    kind: match event {
                        libc::PTRACE_EVENT_FORK => SpawnKind::Fork,
                        libc::PTRACE_EVENT_VFORK => SpawnKind::Vfork,
                        _ => SpawnKind::Clone,
                    },
                    child,
                    flags: launch::clone_flags(tid, event),
                }
            }
            libc::PTRACE_EVENT_EXEC => {
                let former = sys::event_message(tid).unwrap_or(0) as Tid;
                if former != 0 && former != tid {
                    return self.exec_from_thread(slot, former);
                }
                slot.wants_exit.set(false);
                Raw::Exec { former: tid }
            }
            libc::PTRACE_EVENT_EXIT => Raw::PreExit(sys::event_message(tid).unwrap_or(0) as i32),
            libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => Raw::Interrupted,
            libc::PTRACE_EVENT_STOP => Raw::GroupStop(signal),
            _ => Raw::Interrupted,
        };
        Some(raw)
    }

    /// A thread other than the leader executed a program: it takes over the
    /// leader's id, and the leader is gone without a report (ptrace(2),
    /// "execve(2) under ptrace").
    fn exec_from_thread(&self, leader: &Rc<Slot>, former: Tid) -> Option<Raw> {
        let tid = leader.tid.get();
        let caller = self.slots.borrow_mut().remove(&former);
        let Some(caller) = caller else {
            return Some(Raw::Exec { former });
        };
        leader.gone.set(true);
        leader.mailbox.borrow_mut().push_back(Raw::Superseded);
        self.remote.push(leader.key);
        caller.tid.set(tid);
        caller.stopped.set(true);
        caller.wants_exit.set(false);
        caller.mailbox.borrow_mut().push_back(Raw::Exec { former });
        self.remote.push(caller.key);
        self.slots.borrow_mut().insert(tid, caller);
        None
    }

    fn syscall_stop(&self, slot: &Rc<Slot>, tid: Tid, seccomp: bool) -> Option<Raw> {
        match sys::syscall_info(tid) {
            Ok(SyscallInfo::Entry {
                arch,
                nr,
                args,
                ip,
                sp,
            }) => {
                if !seccomp {
                    let filtered = matches!(self.options.interception, Interception::Seccomp(_));
                    // An entry stop that ToSyscall brought, of a call whose
                    // filter stop follows or that nobody asked for.
                    if filtered || !self.options.interception.filter().stops(arch, nr, &args) {
                        let how = if filtered {
                            Resume::Continue
                        } else {
                            Resume::ToSyscall
                        };
                        slot.stopped.set(false);
                        let _ = sys::resume(tid, how, 0);
                        return None;
                    }
                }
                Some(Raw::Prehook {
                    arch,
                    nr,
                    args,
                    ip,
                    sp,
                })
            }
            Ok(SyscallInfo::Exit { value }) => {
                if slot.wants_exit.replace(false) {
                    Some(Raw::Posthook(value))
                } else {
                    slot.stopped.set(false);
                    let _ = sys::resume(tid, self.usual_resume(), 0);
                    None
                }
            }
            // ESRCH: it died in the stop; the death is reported next.
            Ok(SyscallInfo::None) | Err(_) => {
                slot.stopped.set(false);
                let _ = sys::resume(tid, self.usual_resume(), 0);
                None
            }
        }
    }
}
