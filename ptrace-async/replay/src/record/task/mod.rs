//! A recorded task: handles each of its stops.

mod entry;
mod exit;
mod files;
mod image;
mod new_tasks;
mod readable;
mod robust_list;
mod signals;

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use ptrace_async::event::Tid;
use ptrace_async::memory::Memory;
use ptrace_async::runtime::{Running, Started, Stop, Stopped, Tracee};
use ptrace_async::syscall::{Invocation, effects};

use self::files::{Change, Mapping};
use super::mappings::address_space::AddressSpace;
use super::scheduler::{self, Scheduler};
use super::scratch::Redirected;
use super::search;
use super::session::{NewTask, Session};
use super::sites::known::MappedCode;
use super::sites::{Sites, UnknownFile};
use crate::buffer;
use crate::code::registers::Registers;
use crate::memory::{digest, maps};
use crate::trace::event::{Ending, Event, SignalPosition, Write};
use crate::trace::{self, Task};

/// A task while it is recorded.
struct RecordedTask {
    session: Rc<Session>,
    task: Task,
    scheduler: Rc<Scheduler>,
    /// Nothing is logged before the first program has begun.
    logs: bool,
    call: Option<PendingCall>,
    /// A call that a signal interrupted, and `restart_syscall` continues.
    interrupted: Option<(Invocation, Option<Redirected>)>,
    /// Signals that came where no replay could find the place again.
    deferred: VecDeque<libc::siginfo_t>,
    /// Signals that interrupted a call of the stub's: the program is about to make it.
    interrupting: Vec<libc::siginfo_t>,
    /// Signals that have been sent again, to be delivered now.
    sent_again: Vec<libc::siginfo_t>,
    /// The registers at the last event, if nothing has run since.
    at_event: Option<(SignalPosition, Registers)>,
    /// Since when it has only been stopped by signals, if by any.
    since: Option<Instant>,
    /// How often it had to be stopped since its last syscall: it waits for another task,
    /// in a loop that a replay has to run through as well, and it is given less time.
    spins: u32,
    clear_tid: u64,
    /// The task may wait in the stub, and keeps the turn until another task wants it.
    keeps_turn: bool,
    /// The task was stopped while it waits in the stub, because another task wants the turn.
    gives_turn: bool,
    /// The address where the program is suspended while other tasks may run.
    suspended_at: Option<u64>,
    sites: Rc<Sites>,
    space: Rc<AddressSpace>,
    /// Code that the current call has mapped.
    new_code: Option<MappedCode>,
    ended: Option<Ending>,
    /// The task has the id of the first process.
    leads_first: bool,
}

/// See [`RecordedTask::spins`]: a thirty-second part of the time is the least.
const MOST_SPINS: u32 = 5;
/// A task that is woken comes to its stop within this time, if its processor is free.
const ARRIVAL: Duration = Duration::from_millis(1);

/// A syscall between its entry and its exit.
struct PendingCall {
    invocation: Invocation,
    /// The arguments in the program's registers, if they are others.
    original: Option<Invocation>,
    before: effects::Before,
    /// The scratch memory that it writes to.
    redirected: Option<Redirected>,
    stream: Option<u8>,
    /// Whether it writes to the memory of its own process by `/proc/PID/mem`.
    own_memory: bool,
    /// The file that it maps.
    mapping: Option<Mapping>,
    /// The file that it changes.
    change: Option<Change>,
    /// Whether the task that it has made is known already.
    has_noted_child: bool,
}

/// Follows a task from its first stop to its end.
pub(super) async fn follow(tracee: Tracee<Started>, session: Rc<Session>) {
    let process = tracee.tgid();
    session.loss.begin(process);
    let new_task = session.take_new_task(tracee.tid());
    let logs = new_task.is_some();
    let (task, scheduler, clear_tid, sites, space, tid_addresses) = match new_task {
        Some(NewTask {
            task,
            scheduler,
            clear_tid,
            sites,
            space,
            tid_addresses,
        }) => (task, scheduler, clear_tid, sites, space, tid_addresses),
        None => {
            let task = session.new_task();
            if session.has_begun() {
                let reason = "its parent was killed before it could report the new task";
                let error = trace::Error::io(Path::new("a task"))(io::Error::other(reason));
                session.fail(tracee.tid(), error);
            } else {
                session.first.set(tracee.tid());
            }
            let scheduler = session.new_scheduler(task, None);
            let sites = Rc::new(Sites::default());
            let space = Rc::new(AddressSpace::new(scheduler.clone(), sites.clone()));
            session.live_files.begin(&space);
            (task, scheduler, 0, sites, space, Vec::new())
        }
    };
    space.enter(task, process, tracee.tid());
    let leads_first = tracee.tid() == session.first.get();
    let mut recorded = RecordedTask {
        session,
        task,
        scheduler,
        logs,
        call: None,
        interrupted: None,
        deferred: VecDeque::new(),
        interrupting: Vec::new(),
        sent_again: Vec::new(),
        at_event: None,
        since: None,
        spins: 0,
        clear_tid,
        keeps_turn: false,
        gives_turn: false,
        suspended_at: None,
        new_code: None,
        sites,
        space,
        ended: None,
        leads_first,
    };
    let mut next = recorded.start(tracee, &tid_addresses).await.into();
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
    recorded.session.loss.end(process);
}

/// The state after a stop has been handled.
enum Next {
    /// The task runs.
    Running(Tracee<Running>),
    /// The task has stopped again.
    Stop(Stop),
}

impl From<Tracee<Running>> for Next {
    fn from(running: Tracee<Running>) -> Self {
        Self::Running(running)
    }
}

impl From<Stop> for Next {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

impl RecordedTask {
    fn log(&self, event: Event) {
        if self.logs {
            self.session.log(self.task, event);
        }
    }

    /// Takes the calls that the task has performed by itself since its last stop. It is
    /// not in the stub, or never goes on there. Who is killed while it waits has performed none:
    /// what is logged then is of the task that has the turn, and may be in the stub.
    fn drain<S: Stopped>(&self, tracee: &Tracee<S>) {
        if !self.scheduler().is_turn_of(self.task) {
            return;
        }
        self.take_log(tracee.tid(), tracee, |at, bytes| tracee.write(at, bytes));
    }

    /// As [`RecordedTask::drain`], of a task that has ended, and only if its memory is that of
    /// others. The last stop of a task that is killed is missed when it comes while the task
    /// is let go on from the stop before.
    fn drain_of_dead(&self) {
        if !self.scheduler().is_turn_of(self.task) {
            return;
        }
        for (tid, memory) in self.space.memory_for_others_than(self.task) {
            self.take_log(tid, &memory, |at, bytes| memory.write(at, bytes));
        }
    }

    fn take_log(
        &self,
        tid: Tid,
        memory: &impl Memory,
        write: impl FnOnce(u64, &[u8]) -> io::Result<()>,
    ) {
        match self.sites.drain(memory, write) {
            Ok(None) => {}
            Ok(Some((buffered, changes))) => {
                let gone = self.space.apply(&changes);
                self.log(Event::Buffered(buffered));
                self.session.release_unmapped(self.task, gone);
            }
            Err(UnknownFile) => self.session.fail(
                tid,
                trace::Error::io(Path::new("a library"))(io::Error::other(
                    "it was mapped from an unknown file",
                )),
            ),
        }
    }

    fn scheduler(&self) -> Rc<Scheduler> {
        scheduler::root(&self.scheduler)
    }

    /// Notes where the program is suspended while other tasks may run.
    fn suspend_at(&mut self, ip: u64) {
        self.unsuspend();
        self.sites.add_suspended(ip);
        self.suspended_at = Some(ip);
    }

    fn unsuspend(&mut self) {
        if let Some(ip) = self.suspended_at.take() {
            self.sites.remove_suspended(ip);
        }
    }

    async fn take_turn<S: Stopped>(&self, tracee: &Tracee<S>) {
        self.scheduler().take_turn(self.task, tracee).await;
    }

    /// Lets a task that this one has just woken go first, if the random scheduler has it so. It
    /// comes to its stop in a moment, if it was not waiting for its turn already.
    async fn let_woken_go_first<S: Stopped>(&mut self, tracee: &Tracee<S>) {
        let scheduler = self.scheduler();
        let begun = Instant::now();
        poll_fn(|context| {
            if scheduler.is_wanted() || begun.elapsed() >= ARRIVAL {
                return Poll::Ready(());
            }
            scheduler.watch(context.waker());
            self.session
                .ticker
                .watch(self.task, context.waker(), ARRIVAL);
            Poll::Pending
        })
        .await;
        self.session.ticker.forget(self.task);
        if scheduler.is_due(self.task)
            && let Ok(registers) = tracee.registers()
        {
            self.suspend_at(registers.rip);
            scheduler.release_turn(self.task);
            self.take_turn(tracee).await;
            self.unsuspend();
        }
    }

    /// Lets the program go on from its last event.
    fn go<S: Stopped>(&mut self, tracee: Tracee<S>, at: SignalPosition) -> Tracee<Running> {
        let mut closed = 0;
        let scheduler = self.scheduler();
        self.keeps_turn = scheduler.is_shared() && scheduler.is_uncontended();
        if scheduler.is_shared() {
            closed |= buffer::TRUNCATES;
            if !self.keeps_turn {
                closed |= buffer::WAITS;
            }
        }
        if self.session.chaos.is_some() {
            // Those that are woken may go first.
            closed |= buffer::WAKES;
        }
        // Only this task can create a process, or map a file, before it stops again.
        if !self.session.live_files.is_empty() {
            closed |= buffer::TRUNCATES;
        }
        self.sites.set_disabled(&tracee, closed);
        self.at_event = signals::mark(&tracee).map(|registers| (at, registers));
        tracee.park().resume()
    }

    async fn at(&mut self, stop: Stop) -> ControlFlow<(), Next> {
        if !matches!(stop, Stop::Signal(_)) {
            self.since = None;
        }
        let next = match stop {
            Stop::Prehook(tracee) => self.entry(tracee).await,
            Stop::Posthook(tracee) => self.exit(tracee).await.into(),
            Stop::Exec(tracee) => self.executed(tracee).await.into(),
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
                if let Ok(regs) = tracee.registers() {
                    self.suspend_at(regs.rip);
                }
                self.scheduler().release_turn(self.task);
                tracee.listen().into()
            }
            Stop::Interrupted(tracee) => self.interrupted(tracee).await,
            Stop::Exited(status) => return self.end(Ending::Exited(status)),
            Stop::Killed { signal, .. } => return self.end(Ending::Killed(signal)),
            Stop::Superseded => return self.end(Ending::Superseded),
        };
        ControlFlow::Continue(next)
    }

    /// Waits for the next stop. Interrupts the task if it runs for long while another task
    /// waits for it.
    async fn wait(&mut self, running: Tracee<Running>) -> Stop {
        if self.call.is_some() {
            return running.stop().await;
        }
        let tid = running.tid();
        let interrupter = running.interrupter();
        let mut stop = pin!(running.stop());
        let begun = *self.since.get_or_insert_with(Instant::now);
        // To run takes no less than to look where the task was.
        let patience = scheduler::LONG / (1 << self.spins.min(MOST_SPINS));
        let patience = patience.max(self.space.point_hints().borrow().took());
        let mut asked = false;
        let stop = poll_fn(|context| {
            if let Poll::Ready(stop) = stop.as_mut().poll(context) {
                return Poll::Ready(stop);
            }
            let scheduler = self.scheduler();
            if self.deferred.is_empty() && !scheduler.is_shared() {
                scheduler.watch(context.waker());
                return Poll::Pending;
            }
            if self.keeps_turn {
                scheduler.watch(context.waker());
                if scheduler.is_wanted() && self.sites.disable_waiting_calls(tid) && !asked {
                    interrupter.interrupt();
                    asked = true;
                    self.gives_turn = true;
                }
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

    /// Whether another task waits for this one to stop.
    fn is_wanted(&self) -> bool {
        let less = self.spins.min(MOST_SPINS);
        !self.deferred.is_empty() || self.scheduler().is_overdue(self.task, less)
    }

    /// The task was stopped by us, or a group stop has ended.
    async fn interrupted(&mut self, tracee: Tracee<Started>) -> Next {
        self.take_turn(&tracee).await;
        if self.call.is_none() {
            self.unsuspend();
        }
        let gives_turn = std::mem::take(&mut self.gives_turn);
        let is_wanted = self.is_wanted();
        if !(is_wanted || gives_turn) || self.call.is_some() || !self.logs {
            return tracee.resume().into();
        }
        let Ok(regs) = tracee.registers() else {
            return tracee.resume().into();
        };
        if buffer::contains(regs.rip) {
            self.leave_stub(&tracee, regs);
            return tracee.resume().into();
        }
        if !is_wanted {
            // What it waited for has come.
            return tracee.resume().into();
        }
        let registers = Registers::from(&regs);
        let is_marked = self.at_event.is_some_and(|(_, at)| at == registers);
        let mut tracee = tracee.park();
        if !is_marked {
            let closely = !self.deferred.is_empty() || self.spins == 0;
            let found = search::search(tracee, closely, self.space.point_hints(), |tracee| {
                signals::keep(&mut self.deferred, tracee)
            });
            match found.await {
                search::Outcome::Point(found, mut point) => {
                    self.drain(&found);
                    point.contents = self.space.point_hints().borrow_mut().contents(&found);
                    self.log(Event::Point(point));
                    self.spins += 1;
                    self.at_event =
                        signals::mark(&found).map(|registers| (SignalPosition::Event, registers));
                    tracee = found;
                }
                search::Outcome::Stopped(stop) => return Next::Stop(stop),
                search::Outcome::AtSyscall(tracee) => return tracee.resume().into(),
            }
        }
        if let Some(info) = self.deferred.pop_front() {
            let _ = tracee.send_signal(info.si_signo);
            self.sent_again.push(info);
        } else {
            if let Ok(regs) = tracee.registers() {
                self.suspend_at(regs.rip);
            }
            self.scheduler().release_turn(self.task);
            self.take_turn(&tracee).await;
            self.unsuspend();
        }
        tracee.resume().into()
    }

    fn digest<S: Stopped>(&self, tracee: &Tracee<S>) {
        if let (Ok(areas), Ok(regs)) = (maps::read(tracee.tid()), tracee.registers()) {
            self.log(Event::Digest(digest::digest(tracee, &areas, regs.rsp)));
        }
    }
}

fn keep<S: Stopped>(tracee: &Tracee<S>, address: u64, len: u64, writes: &mut Vec<Write>) {
    let mut bytes = vec![0; len as usize];
    let got = tracee.read(address, &mut bytes);
    bytes.truncate(got);
    if !bytes.is_empty() {
        writes.push(Write { address, bytes });
    }
}
