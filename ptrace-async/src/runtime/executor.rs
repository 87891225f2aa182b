//! The executor: one thread that waits for tracees and runs their functions.
//!
//! One async function handles each traced task and lives as long as the task does
//! (libptrace, section 5.2.2). The executor is not a general one: it blocks in
//! `waitid(P_ALL, __WALL | __WNOTHREAD)`. That call reports only children and tracees of
//! the calling thread. The executor therefore never steals a host application's children,
//! and several executors can coexist. Work that blocks (hashing, copying, reading a store)
//! goes to worker threads through [`Handle::blocking`]; their completion interrupts the
//! wait.
//!
//! **Invariants.** A stop is routed to exactly one function, in the order of arrival. The
//! function of a new task starts only after its parent's function has seen the fork event,
//! in whichever order the kernel reported the two. A function that ends early leaves its
//! task running, unobserved but never stuck. A request about a task that has ended, or
//! whose id now belongs to another thread, fails with `ESRCH` and is not sent.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::launch::{self, Launched, Launches, Program};
use super::new_tasks::{NewTask, NewTasks};
use super::options::{Options, trace_options};
use super::placement::Placement;
use super::raw::RawStop;
use super::remote::{Remote, TaskWaker};
use super::shared::{Function, Handle, Shared};
use super::slot::{Slot, StopPoint};
use super::tracee::{Started, Tracee};
use crate::event::Tid;
use crate::sys::{self, Resume, Waited};

/// The executor. It must be created and run on the same thread.
pub struct Runtime {
    pub(super) shared: Rc<Shared>,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime")
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}

impl Runtime {
    /// Makes a runtime for the calling thread.
    pub fn new(options: Options) -> Self {
        sys::install_wake_handler();
        let placement = Placement::new(options.interception.filter());
        Self {
            shared: Rc::new(Shared {
                options,
                slots: RefCell::default(),
                functions: RefCell::default(),
                new_tasks: NewTasks::default(),
                next_key: Cell::new(1),
                launches: Launches::default(),
                remote: Arc::new(Remote::new()),
                pool: RefCell::new(None),
                stops: Cell::new(0),
                placement,
                affinity_observers: RefCell::default(),
                patched: RefCell::default(),
                arena: RefCell::default(),
                copies: RefCell::default(),
            }),
        }
    }

    /// A handle for use inside tracee functions.
    pub fn handle(&self) -> Handle {
        Handle {
            shared: self.shared.clone(),
        }
    }

    /// Sets the directory where the patched copies of C libraries are kept that
    /// [`Tracee::perform_in_process`] makes (2 MB each, eight at most). The directory is
    /// created when it is needed, and only this user may write there. Without it each
    /// runtime makes copies in memory, which takes some milliseconds.
    pub fn keep_copies_in(&self, dir: impl Into<PathBuf>) {
        *self.shared.copies.borrow_mut() = Some(dir.into());
    }

    /// Starts a program under trace. Its function runs once [`Runtime::run`] does, and its
    /// first stop comes before the program's own execve. Until that execve has succeeded,
    /// the task shares this process's memory: injected calls and writes act on this
    /// process.
    ///
    /// # Errors
    /// When cloning or `PTRACE_SEIZE` fails (`EPERM` where ptrace is forbidden).
    pub fn spawn(&self, program: &Program) -> io::Result<Tid> {
        let launched = launch::launch(program, &self.shared.options)?;
        Ok(self.expect(launched))
    }

    pub(super) fn expect(&self, launched: Launched) -> Tid {
        let tid = self.shared.launches.add(launched);
        self.shared.new_tasks.expect(tid, NewTask::default());
        tid
    }

    /// Attaches to all threads of a running process. Only syscall stops of
    /// [`Interception::Ptrace`](super::Interception::Ptrace) are seen, because no filter is installed in it.
    ///
    /// # Errors
    /// As `PTRACE_SEIZE` (`EPERM`, `ESRCH`) and reading `/proc/PID/task`.
    pub fn attach(&self, pid: Tid) -> io::Result<()> {
        // The directory is read again until no new thread appears, because threads may be
        // created meanwhile. Threads that seized threads create are traced from their
        // start.
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
                if self.shared.new_tasks.is_expected(tid) {
                    continue;
                }
                match sys::seize(tid, trace_options(&self.shared.options)) {
                    Ok(()) => {
                        let flags = if tid == pid { 0 } else { libc::CLONE_THREAD };
                        let new_task = NewTask {
                            parent: None,
                            inherited: None,
                            tgid: Some(pid),
                            flags: flags as u64,
                        };
                        self.shared.new_tasks.expect(tid, new_task);
                        // ESRCH: the task is ending, and its end will be reported.
                        let _ = sys::interrupt(tid);
                        found = true;
                    }
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    // A thread that a seized sibling has just created is traced already.
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
        self.run_until(&handler, || false).map(drop)
    }

    /// As [`run`](Self::run), but returns `true` as soon as `is_enough` does. It is asked
    /// whenever all woken functions wait again, and the tasks stay as they are until the
    /// next call. Returns `false` when the last task has ended.
    ///
    /// The next call reports everything that tasks do in between.
    ///
    /// # Errors
    /// When waitid fails in an unexpected way.
    pub fn run_until<H, F>(&self, handler: &H, is_enough: impl Fn() -> bool) -> io::Result<bool>
    where
        H: Fn(Tracee<Started>) -> F,
        F: Future<Output = ()> + 'static,
    {
        let make = |tracee: Tracee<Started>| -> Function { Box::pin(handler(tracee)) };
        sys::unblock_wake_signal();
        loop {
            loop {
                let woken = self.shared.remote.take();
                if woken.is_empty() {
                    break;
                }
                for key in woken {
                    self.poll(key);
                }
            }
            if is_enough() {
                return Ok(true);
            }
            let mut waited = if self.shared.new_tasks.nobody_waits() {
                Ok(None)
            } else {
                // Reports that are already there may announce the waiting tasks, so they
                // are handled first.
                let waited = sys::wait(&self.shared.remote.flag, false);
                if matches!(waited, Ok(None)) {
                    self.start_unannounced(&make);
                }
                waited
            };
            if matches!(waited, Ok(None)) {
                waited = sys::wait(&self.shared.remote.flag, true);
            }
            match waited {
                Ok(Some(waited)) => {
                    self.shared.stops.set(self.shared.stops.get() + 1);
                    self.dispatch(waited, &make);
                }
                Ok(None) => {}
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {
                    // No tracee is left, even if some were announced.
                    self.shared.slots.borrow_mut().clear();
                    self.shared.new_tasks.forget();
                    if self.shared.functions.borrow().is_empty() {
                        return Ok(false);
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

    /// Resumes a task whose function has ended.
    fn release(&self, slot: &Rc<Slot>) {
        slot.mailbox.borrow_mut().clear();
        if slot.gone.get() || !slot.stopped.get() {
            return;
        }
        let (how, signal) = match slot.stop_point.get() {
            StopPoint::Signal(signal) => (Resume::Continue, signal),
            StopPoint::GroupStop => (Resume::Listen, 0),
            StopPoint::Other => (Resume::Continue, 0),
        };
        self.shared.resume(slot, how, signal);
    }

    fn dispatch(&self, waited: Waited, make: &dyn Fn(Tracee<Started>) -> Function) {
        let shared = &self.shared;
        if waited.is_end() || waited.status >> 8 == libc::PTRACE_EVENT_EXEC {
            shared.launches.finished(waited.tid);
        }
        let slot = shared.slots.borrow().get(&waited.tid).cloned();
        match slot {
            Some(slot) if waited.is_end() => {
                slot.gone.set(true);
                shared.placement.ended(waited.tid);
                slot.leave_space();
                shared.end_nested(&slot);
                // Its function may still ask for its unstopped calls.
                self.deliver(&slot, RawStop::end(waited));
                shared.slots.borrow_mut().remove(&waited.tid);
            }
            Some(slot) if shared.is_nested_stop(&slot, waited) => {}
            Some(slot) => {
                if let Some(raw) = shared.interpret(&slot, waited) {
                    // Read while the parent is stopped: it may execute another program once
                    // it runs.
                    let inherited = match raw {
                        RawStop::Spawned { flags, child, .. } => {
                            shared.placement.child_created(waited.tid, child);
                            Some(slot.child_inherits(flags))
                        }
                        _ => None,
                    };
                    self.deliver(&slot, raw);
                    if let RawStop::Spawned { child, flags, .. } = raw {
                        let new_task = NewTask {
                            parent: Some(waited.tid),
                            inherited,
                            tgid: None,
                            flags,
                        };
                        if let Some(first) = shared.new_tasks.announced(child, &new_task) {
                            self.start(first, new_task, make);
                        }
                    }
                }
            }
            None => {
                if let Some(new_task) = shared.new_tasks.reported(waited) {
                    self.start(waited, new_task, make);
                }
            }
        }
    }

    /// Starts the tasks whose parents cannot announce them any more.
    fn start_unannounced(&self, make: &dyn Fn(Tracee<Started>) -> Function) {
        let running: Vec<(Tid, Tid)> = self
            .shared
            .slots
            .borrow()
            .values()
            .filter(|slot| !slot.stopped.get())
            .map(|slot| (slot.tid.get(), slot.tgid.get()))
            .collect();
        for (first, new_task) in self.shared.new_tasks.lost(&running) {
            self.start(first, new_task, make);
        }
    }

    fn deliver(&self, slot: &Rc<Slot>, raw: RawStop) {
        slot.mailbox.borrow_mut().push_back(raw);
        if slot.unattended.get() {
            self.release(slot);
        } else {
            self.poll(slot.key);
        }
    }

    /// Makes the function of a new task, whose first stop (or end) came.
    fn start(&self, first: Waited, new_task: NewTask, make: &dyn Fn(Tracee<Started>) -> Function) {
        let shared = &self.shared;
        if let Some(parent) = new_task.parent {
            shared.placement.started(parent, first.tid);
        }
        let slot = shared.new_slot(first.tid, new_task);
        if first.is_end() {
            slot.gone.set(true);
            slot.leave_space();
            slot.mailbox.borrow_mut().push_back(RawStop::end(first));
        } else {
            shared.slots.borrow_mut().insert(first.tid, slot.clone());
            // The first stop of a seized task is PTRACE_EVENT_STOP; anything
            // else (a signal, an exit) is kept as the stop that follows.
            match shared.interpret(&slot, first) {
                Some(RawStop::Interrupted) => {}
                Some(raw) => slot.mailbox.borrow_mut().push_back(raw),
                None => {}
            }
        }
        let key = slot.key;
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
}

impl Drop for Runtime {
    /// Ends tracing, so that no task stays in a stop for ever. Under [`Options::exit_kill`]
    /// all tracees are killed. Otherwise stopped tasks are detached, and the kernel
    /// detaches the rest when the thread ends.
    fn drop(&mut self) {
        let shared = &self.shared;
        // The thread does other work from here on, on any of its CPUs.
        shared.placement.reset();
        // Functions own the tracees, which own references to the shared state.
        let functions = std::mem::take(&mut *shared.functions.borrow_mut());
        drop(functions);
        let slots: Vec<Rc<Slot>> = shared.slots.borrow_mut().drain().map(|(_, s)| s).collect();
        let mut left: Vec<Tid> = shared.new_tasks.unseen();
        left.extend(slots.iter().map(|slot| slot.tid.get()));
        if !shared.options.exit_kill {
            for slot in slots.iter().filter(|slot| slot.stopped.get()) {
                let signal = slot.stop_point.get().signal();
                // ESRCH: it is gone.
                let _ = sys::resume(slot.tid.get(), Resume::Detach, signal);
            }
            return;
        }
        for &tid in &left {
            sys::kill(tid);
        }
        // SIGKILL does not end the stop of a task at its exit.
        for slot in slots.iter().filter(|slot| slot.stopped.get()) {
            let _ = sys::resume(slot.tid.get(), Resume::Continue, 0);
        }
        // Waits until all have ended, or no child is left.
        while !left.is_empty() {
            match sys::wait(&shared.remote.flag, true) {
                Ok(Some(waited)) if waited.is_end() => left.retain(|&tid| tid != waited.tid),
                Ok(Some(waited)) => {
                    // A stop on the way to the end, or of a child created meanwhile.
                    sys::kill(waited.tid);
                    let _ = sys::resume(waited.tid, Resume::Continue, 0);
                }
                Ok(None) => drop(shared.remote.take()),
                Err(_) => break,
            }
        }
    }
}
