//! Follows each traced task.
//!
//! A task's stops become events of the process model, and those become observations and changes of
//! its unit. At an execve the program is looked up. On a hit its files are restored, and a
//! stand-in is executed in its place. On a miss a new unit begins.

mod ending;
mod execution;
mod settle;
mod skip;

use std::cell::RefCell;
use std::rc::Rc;

use ptrace_async::event::{IoEvent, Tid};
use ptrace_async::invocation::Invocation;
use ptrace_async::memory::Memory;
use ptrace_async::process::Pending;
use ptrace_async::runtime::{Handle, Posthook, Prehook, Running, Signal, Started, Stop, Tracee};
use smallvec::SmallVec;

use self::execution::{Attempt, Next};
use crate::engine::recorder::{can_be_full, makes_task};
use crate::engine::session::{AwaitedCall, Before, Session, Task};
use crate::engine::unit::Unit;
use crate::engine::unit::{OUTSIDE, UNHEARD};
use crate::key::{KeyError, Keyed};
use crate::model::fact::Digest;
use crate::model::miss::Missed;
use crate::model::outcome::Ending;
use crate::platform::defect::{Defect, planted};
use crate::platform::os;

/// A message to the process that waits for the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The id of the command's first process.
    Started(Tid),
    /// Job control stopped it.
    Stopped,
    /// It has ended.
    Ended(Ending),
    /// A warning for the user.
    Warning(String),
}

/// State that all tasks share.
#[derive(Clone)]
pub struct Tracer {
    /// The session.
    pub session: Rc<RefCell<Session>>,
    /// The runtime.
    pub handle: Handle,
    /// [`crate::key::machine::digest`].
    pub machine: Digest,
    /// The key of the command itself, computed before tracing, and the reason of its miss.
    pub root: Rc<(Result<Keyed, KeyError>, Missed)>,
    /// Shorter units are not stored (µs).
    pub min_us: u64,
    /// Receives notices about the command.
    pub notify: Rc<dyn Fn(Notice)>,
    /// Whether a seccomp filter is installed; without one, set-uid programs are detached.
    pub filtered: bool,
}

/// Whether a call reads from a descriptor, at its position.
fn reads(call: &Invocation) -> bool {
    matches!(call.nr.cast_signed(), libc::SYS_read | libc::SYS_readv)
}

/// Whether a call gives a file another name.
fn makes_link(call: &Invocation) -> bool {
    matches!(call.nr.cast_signed(), libc::SYS_link | libc::SYS_linkat)
}

impl Tracer {
    /// Follows one task from its first stop to its end.
    pub async fn follow(self, tracee: Tracee<Started>) {
        let tid = tracee.tid();
        let is_first = tracee.parent().is_none();
        if is_first {
            self.adopt(tid);
        }
        let mut next: Option<Next> = None;
        // The call that is about to make a task.
        let mut making: Option<Invocation> = None;
        let mut running = tracee.resume();
        if is_first {
            // The task installs its filter meanwhile, on another CPU if there is one. A notice
            // would wake the front process on that CPU.
            self.prepare();
            (self.notify)(Notice::Started(tid));
        }
        loop {
            let tid = running.tid();
            let mut stop = running.stop().await;
            self.catch_up(tid);
            if let Some(call) = making.take() {
                self.made(tid, &call, &stop);
            }
            self.settle(tid, &stop);
            running = loop {
                break match stop {
                    Stop::Prehook(tracee) => {
                        match self.prehook(tracee, &mut next, &mut making).await {
                            Onward::Running(running) => running,
                            Onward::Stopped(instead) => {
                                stop = instead;
                                continue;
                            }
                            Onward::Detached => return,
                        }
                    }
                    Stop::Posthook(tracee) => self.posthook(tracee),
                    Stop::Exec(tracee) => self.executed(tracee, tid, next.take()),
                    Stop::Spawned(tracee) => {
                        self.spawned(tracee.tid(), tracee.child(), tracee.flags());
                        tracee.resume()
                    }
                    Stop::PreExit(tracee) => self.leaving(tracee).await,
                    Stop::Signal(tracee) => self.signal(tracee),
                    Stop::GroupStop(tracee) => {
                        self.stopped(tid, tracee.signal());
                        tracee.listen()
                    }
                    Stop::Interrupted(tracee) => {
                        self.continued(tid);
                        tracee.resume()
                    }
                    Stop::Exited(status) => {
                        self.gone(tid, status << 8).await;
                        return;
                    }
                    Stop::Killed { signal, core } => {
                        self.gone(tid, signal | if core { 0x80 } else { 0 }).await;
                        return;
                    }
                    Stop::Superseded => return,
                };
            };
        }
    }

    /// Prepares data that the start of the command needs.
    fn prepare(&self) {
        if let (Ok(keyed), _) = &*self.root
            && let Some(loader) = keyed.images.last().filter(|last| **last != keyed.program)
            && !self.session.borrow().settings.stops_only
        {
            self.handle.prepare_copies(loader.as_path());
        }
    }

    /// Adopts the first task: its open files belong to the outside.
    fn adopt(&self, tid: Tid) {
        let mut session = self.session.borrow_mut();
        // The task is a copy of the front process in everything that it keeps at an execve.
        let front = session.front;
        if session.model.tasks().any(|task| task == front) {
            let _ = session.model.spawned(front, tid, 0);
            session.model.exited(front);
        } else {
            // The child is stopped, so this can fail only if it was killed; then no event follows.
            let mut same = |one, other| crate::platform::os::same_description(tid, one, other);
            let _ = session.model.adopt_comparing(tid, tid, &mut same);
        }
        session.first = tid;
        let outside = Unit::new(OUTSIDE, None, 0, 0);
        session.units.push(outside);
        session.tasks.insert(tid, Task::new(OUTSIDE, tid));
        session.tasks.process_or_new(tid).threads = 1;
    }

    /// Handles a job-control stop of a task. The front process is notified for the first thread of
    /// the command. Other threads follow, perhaps after the command was continued.
    fn stopped(&self, tid: Tid, signal: i32) {
        let mut session = self.session.borrow_mut();
        let command = session.command_process();
        let process = match session.tasks.get(tid) {
            Some(task) if !task.stop_reported => task.process,
            _ => return,
        };
        let sent = session.tasks.process(process);
        let sent = sent.is_some_and(|process| process.kernel_signal == Some(signal));
        session.tasks.set_stop_reported(process);
        drop(session);
        if process == command {
            let same_job = os::process_group(0) == os::process_group(process);
            let from_terminal = sent && same_job;
            let mut session = self.session.borrow_mut();
            session.front_stop = Some((signal, from_terminal));
            if !from_terminal {
                os::send_signal(session.front, signal);
            }
            drop(session);
            (self.notify)(Notice::Stopped);
        }
    }

    /// Continues the front process if it stopped as the command did. A shell continues the whole
    /// job, but others continue the command alone.
    ///
    /// A stop that the front process has not yet taken is taken back. One from the terminal may
    /// belong to a stop that follows, and is left.
    fn continue_front(&self) {
        let mut session = self.session.borrow_mut();
        let Some((signal, from_terminal)) = session.front_stop.take() else {
            return;
        };
        if os::is_stopped(session.front, (!from_terminal).then_some(signal)) {
            os::send_signal(session.front, libc::SIGCONT);
        }
    }

    /// Handles a continued task: each thread gets this event when its process is continued.
    fn continued(&self, tid: Tid) {
        let mut session = self.session.borrow_mut();
        let command = session.command_process();
        let Some(task) = session.tasks.get_mut(tid) else {
            return;
        };
        task.stop_reported = false;
        let is_command = task.process == command;
        drop(session);
        if is_command {
            self.continue_front();
        }
    }

    fn spawned(&self, parent: Tid, child: Tid, flags: u64) {
        let mut session = self.session.borrow_mut();
        let _ = session.model.spawned(parent, child, flags);
        let Some((unit, process, skipped, place)) = session
            .tasks
            .get(parent)
            .map(|task| (task.unit, task.process, task.skipped, task.place))
        else {
            return;
        };
        let thread = flags & libc::CLONE_THREAD as u64 != 0;
        let above = session.tasks.process(process).filter(|_| !thread);
        let restricted = above.is_some_and(|above| above.restricted);
        let limits = above.map(|above| above.limits.clone());
        let process = if thread { process } else { child };
        session.tasks.insert(
            child,
            Task {
                skipped,
                place,
                ..Task::new(unit, process)
            },
        );
        let unseen = session.is_unseen(parent);
        let entry = session.tasks.process_or_new(process);
        entry.threads += 1;
        entry.unseen |= unseen;
        entry.restricted |= restricted;
        if let Some(limits) = limits {
            entry.limits = limits;
        }
        if !thread {
            session.count_alive(unit, 1);
        }
    }

    /// Handles the stop after a call that makes a task: the kernel reports the new task first.
    fn made(&self, tid: Tid, call: &Invocation, stop: &Stop) {
        let result = |regs: std::io::Result<libc::user_regs_struct>| {
            regs.ok().map(|regs| regs.rax.cast_signed())
        };
        let result = match stop {
            Stop::Spawned(_) => return self.session.borrow_mut().made_task(call),
            Stop::Exited(_) | Stop::Killed { .. } | Stop::Superseded => return,
            Stop::Posthook(tracee) => Some(tracee.value()),
            Stop::Signal(tracee) => result(tracee.registers()),
            Stop::GroupStop(tracee) => result(tracee.registers()),
            Stop::Interrupted(tracee) => result(tracee.registers()),
            // Calls without a stop may have followed.
            Stop::Prehook(_) | Stop::Exec(_) | Stop::PreExit(_) => None,
        };
        let memory = match stop {
            Stop::Posthook(tracee) => Some(tracee as &dyn Memory),
            _ => None,
        };
        let mut session = self.session.borrow_mut();
        session.made_no_task(tid, call, result, memory);
    }

    async fn prehook(
        &self,
        mut tracee: Tracee<Prehook>,
        next: &mut Option<Next>,
        making: &mut Option<Invocation>,
    ) -> Onward {
        // An error means that the tracee is gone, which its next stop reports.
        let _ = tracee.keep_traced();
        let tracee = match tracee.emulate_ptrace().await {
            ptrace_async::runtime::Emulation::Answered(running) => return Onward::Running(running),
            ptrace_async::runtime::Emulation::NotOurs(tracee) => tracee,
        };
        let mut tracee = match self.hasten(tracee).await {
            Ok(tracee) => tracee,
            Err(stop) => return Onward::Stopped(stop),
        };
        let tid = tracee.tid();
        let call = tracee.invocation();
        let mut events: SmallVec<[IoEvent; 2]> = SmallVec::new();
        let fault = {
            let session = self.session.borrow();
            let task = session.tasks.get(tid).filter(|task| !task.skipped);
            let fault = session.fault.as_ref().filter(|_| task.is_some());
            fault.and_then(|fault| fault.strikes(&call))
        };
        let mut shows_result = self.session.borrow().closes_file(tid, &call);
        let entry = {
            let mut session = self.session.borrow_mut();
            let session = &mut *session;
            let Some(task) = session.tasks.get(tid) else {
                return Onward::Running(tracee.resume());
            };
            if task.skipped {
                return Onward::Running(tracee.resume());
            }
            let (unit, process) = (task.unit, task.process);
            if tracee.is_foreign() {
                session.mark_uncacheable(unit, "makes 32-bit system calls", true);
                if let Some(entry) = session.tasks.process_mut(process) {
                    entry.unseen = true;
                }
                return Onward::Running(tracee.resume());
            }
            if fault.is_none() && session.keeps_ids(unit, &call) {
                return Onward::Running(tracee.resume());
            }
            session.may_set_limits(tid, &call);
            session.note_suicide(tid, &call);
            session.check_left_directory(tid, &call, true);
            session.locator.revalidate_directories();
            session.model.entry(tid, &call, &tracee, &mut events)
        };
        let mut wait = Vec::new();
        let mut before = Before::new();
        if !entry.about_to_change.is_empty() {
            self.catch_up_all();
            let mut session = self.session.borrow_mut();
            if let Some(unit) = session.unit_of(tid) {
                let began = session.tick();
                session.lookups.begin_change(tid, began);
                (before, wait) = session.before(unit, &entry.about_to_change);
            }
        }
        let execution = events.iter().find_map(|event| match event {
            IoEvent::ExecAttempt { path, argv, envp } => Some((path.path.clone(), *argv, *envp)),
            _ => None,
        });
        let pending;
        let noted;
        {
            let mut session = self.session.borrow_mut();
            session.call.take_noted();
            let read = |ranges: &[(u64, u64)]| tracee.read_ranges(ranges);
            for event in events {
                session.apply(tid, &before, event, &read);
            }
            noted = session.call.take_noted();
            let own = session.written_own(tid, &call, entry.pending.as_ref());
            shows_result |= own.is_some_and(|file| can_be_full(&file));
            if makes_task(&call) {
                *making = Some(call);
                shows_result |= session.awaits_task(&call, &tracee);
            }
            if reads(&call) && session.model.file(tid, call.args[0] as i32).is_some() {
                // It has been recorded what can be read there.
                self.handle.forgo_reads(tid, call.args[0] as i32);
            }
            if makes_link(&call) {
                // From now on, writes to one name can be seen under the other.
                self.handle.report_all_transfers();
            }
            pending = session.write_own(tid, &call, entry.pending, &tracee);
            shows_result |= session.must_see_result(tid, &call);
        }
        if pending
            .as_ref()
            .is_some_and(|pending| pending.writes_to().is_some())
        {
            // Earlier writes of other tasks come first.
            self.catch_up_all();
        }
        if !wait.is_empty() {
            // The change waits for the digest of the present content.
            self.handle
                .blocking(move || {
                    for content in wait {
                        let _ = content.wait();
                    }
                })
                .await;
        }
        let is_execution = execution.is_some();
        if let Some(error) = fault {
            // An error means that the tracee is gone, which its next stop reports.
            let _ = tracee.put_result(-i64::from(error));
        } else if let Some((path, argv, envp)) = execution {
            // Others may have changed flags of descriptions that the program inherits.
            self.catch_up_all();
            match self.execution(tracee, path.into(), argv, envp).await {
                Attempt::Run(same, new) => {
                    tracee = same;
                    *next = new.map(|new| *new);
                }
                Attempt::Fails(same, error) => {
                    // No process waits for this. If the file appears just now, the executed file
                    // is unknown.
                    self.failed(&same, pending, &before, error);
                    return Onward::Running(same.resume());
                }
                Attempt::Instead(stop) => return Onward::Stopped(stop),
                Attempt::Detached => return Onward::Detached,
            }
        }
        let mut session = self.session.borrow_mut();
        if let Some(task) = session.tasks.get_mut(tid) {
            let is_awaited = pending.is_some() || shows_result || is_execution;
            task.pending = is_awaited.then_some(AwaitedCall {
                call,
                pending,
                before,
                noted,
            });
            if is_awaited {
                return Onward::Running(tracee.resume_to_exit());
            }
        }
        Onward::Running(tracee.resume())
    }

    /// Applies the failure of a call that has not been made yet.
    fn failed(
        &self,
        tracee: &Tracee<Prehook>,
        pending: Option<Pending>,
        before: &Before,
        error: i32,
    ) {
        let Some(pending) = pending else { return };
        let mut session = self.session.borrow_mut();
        let session = &mut *session;
        let mut events: SmallVec<[IoEvent; 2]> = SmallVec::new();
        let (tid, value) = (tracee.tid(), -i64::from(error));
        session.model.exit(tid, pending, value, tracee, &mut events);
        let read = |ranges: &[(u64, u64)]| tracee.read_ranges(ranges);
        for event in events {
            session.apply(tid, before, event, &read);
        }
    }

    fn posthook(&self, tracee: Tracee<Posthook>) -> Tracee<Running> {
        let tid = tracee.tid();
        let changes = {
            let session = self.session.borrow();
            let pending = session.tasks.get(tid).map(|task| &task.pending);
            matches!(pending, Some(Some(awaited)) if !awaited.before.is_empty())
        };
        if changes {
            self.catch_up_all();
        }
        let mut session = self.session.borrow_mut();
        let session = &mut *session;
        let awaited = session
            .tasks
            .get_mut(tid)
            .and_then(|task| task.pending.take());
        if let Some(awaited) = &awaited {
            session.returned(tid, &awaited.call, tracee.value(), &tracee);
            if awaited.pending.is_none() {
                let (call, noted) = (&awaited.call, awaited.noted);
                session.compare_lookup(tid, call, tracee.value(), noted, &tracee);
            }
        }
        if let Some(AwaitedCall {
            call,
            pending: Some(pending),
            before,
            ..
        }) = awaited
        {
            let mut events: SmallVec<[IoEvent; 2]> = SmallVec::new();
            let written = pending.writes_to();
            session.locator.revalidate_directories();
            session
                .model
                .exit(tid, pending, tracee.value(), &tracee, &mut events);
            let read = |ranges: &[(u64, u64)]| tracee.read_ranges(ranges);
            for event in events {
                session.apply(tid, &before, event, &read);
            }
            if session.has_made_output(tid, &call, tracee.value(), &before) {
                self.handle.forgo_written_bytes(tid, tracee.value() as i32);
            }
            session.lookups.end_change(tid);
            session.settle_outputs();
            if tracee.value() < 0
                && let (Some(unit), Some(file)) = (session.unit_of(tid), written)
            {
                session.could_not_write(unit, &file, tracee.value());
            }
        }
        tracee.resume()
    }

    fn signal(&self, tracee: Tracee<Signal>) -> Tracee<Running> {
        let signal = tracee.signal();
        let tid = tracee.tid();
        let mut session = self.session.borrow_mut();
        let session = &mut *session;
        let Some((unit, process)) = session.tasks.get(tid).map(|task| (task.unit, task.process))
        else {
            return tracee.deliver();
        };
        let Ok(info) = tracee.info() else {
            return tracee.deliver();
        };
        let from_process = info.si_code <= 0 && info.si_code != libc::SI_TIMER;
        if let Some(entry) = session.tasks.process_mut(process) {
            entry.kernel_signal = (info.si_code == libc::SI_KERNEL).then_some(signal);
        }
        session.tasks.note_signal(process, signal);
        match signal {
            // A mapped file was shortened, its disk was full, or memory failed. Only a misaligned
            // access is the program's own.
            libc::SIGBUS
                if (1..libc::SI_KERNEL).contains(&info.si_code)
                    && info.si_code != libc::BUS_ADRALN
                    && !planted(Defect::KilledOutside) =>
            {
                session.mark_uncacheable_upwards(
                    unit,
                    "received SIGBUS: a mapped file was shortened, or its disk is full",
                );
            }
            libc::SIGCHLD | libc::SIGWINCH | libc::SIGURG => {}
            libc::SIGPIPE => {
                let file = tracee
                    .registers()
                    .ok()
                    .and_then(|regs| session.model.file(tid, regs.rdi as i32).cloned());
                match file {
                    Some(file) => session.mark_uncacheable_outside(unit, &file, UNHEARD),
                    None => session.mark_uncacheable(unit, "received SIGPIPE", true),
                }
            }
            _ if !from_process && info.si_code > 0 && info.si_code != libc::SI_KERNEL => {}
            libc::SIGSEGV
            | libc::SIGBUS
            | libc::SIGFPE
            | libc::SIGILL
            | libc::SIGTRAP
            | libc::SIGSYS
                if !from_process => {}
            _ if from_process => {
                let sender = crate::platform::os::signal_sender(&info);
                if sender != process {
                    let other = session.tasks.get(sender).map(|task| task.unit);
                    let mut at = Some(unit);
                    while let Some(id) = at {
                        if other.is_some_and(|other| session.is_within(other, id)) {
                            break;
                        }
                        session.unit(id).mark_uncacheable(
                            format!("received signal {signal} from another process"),
                            false,
                        );
                        at = session.unit(id).parent;
                    }
                }
            }
            _ => session.mark_uncacheable(
                unit,
                format!("received signal {signal} from a timer or the terminal"),
                true,
            ),
        }
        tracee.deliver()
    }
}

/// How a task goes on after an entry stop.
enum Onward {
    Running(Tracee<Running>),
    /// It is in another stop already.
    Stopped(Stop),
    /// It is not traced any more.
    Detached,
}
