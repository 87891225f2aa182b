//! The function of each traced task.
//!
//! A task's stops become events of the process model, which become
//! observations and changes of its unit. At an execve the program is looked up:
//! on a hit its files are restored and a stand-in is executed in its place; on
//! a miss a new unit begins.

use std::cell::RefCell;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::mpsc::channel;

use ptrace_async::event::{FileKind, IoEvent, Tid};
use ptrace_async::invocation::Invocation;
use ptrace_async::memory::Memory;
use ptrace_async::runtime::{
    Exec, Handle, Posthook, PreExit, Prehook, Running, Signal, Started, Stop, Tracee,
};
use smallvec::SmallVec;

use crate::fact::{Answer, Digest, Query, TimeUse};
use crate::finish::{Finished, store};
use crate::hit::Applied;
use crate::key::{Descriptor, Execution, Keyed, Unkeyed, jobserver, weak_key};
use crate::outcome::Ending;
use crate::path::FilePath;
use crate::place::{Class, classify};
use crate::policy::policy;
use crate::report::{Fate, Line};
use crate::session::{Before, Process, Session, Task};
use crate::store::{Lookup, Miss};
use crate::unit::{Unit, UnitId, display_argv};

/// What is told to whoever waits for the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The command's first process has this id.
    Started(Tid),
    /// Job control stopped it.
    Stopped {
        /// By this signal.
        signal: i32,
        /// Its terminal sent that to its whole job.
        from_terminal: bool,
    },
    /// It has ended.
    Ended(Ending),
    /// Something the user should know.
    Warning(String),
}

/// What all tasks share.
#[derive(Clone)]
pub struct Tracer {
    /// The session.
    pub session: Rc<RefCell<Session>>,
    /// The runtime.
    pub handle: Handle,
    /// [`crate::machine::digest`].
    pub machine: Digest,
    /// The key of the command itself, computed before tracing began, and why
    /// it was not found.
    pub root: Rc<(Result<Keyed, Unkeyed>, String)>,
    /// Units that take less are not stored.
    pub min_us: u64,
    /// Told about the command.
    pub notify: Rc<dyn Fn(Notice)>,
    /// Whether there is a filter; without one set-uid programs are let go.
    pub filtered: bool,
}

/// A unit that begins when an execve succeeds.
struct Next {
    keyed: Result<Keyed, Unkeyed>,
    argv: Vec<Vec<u8>>,
    path: FilePath,
    miss: String,
    temporary: bool,
    lookup: bool,
}

/// The unit that stands for the world outside.
pub const OUTSIDE: UnitId = UnitId(0);

impl Tracer {
    /// Follows one task from its first stop to its end.
    pub async fn follow(self, tracee: Tracee<Started>) {
        let tid = tracee.tid();
        if tracee.parent().is_none() {
            self.adopt(tid);
        }
        let mut next: Option<Next> = None;
        let mut running = tracee.resume();
        loop {
            let tid = running.tid();
            let mut stop = running.stop().await;
            self.catch_up(tid);
            running = loop {
                break match stop {
                    Stop::Prehook(tracee) => match self.prehook(tracee, &mut next).await {
                        Onward::Running(running) => running,
                        Onward::Stopped(instead) => {
                            stop = instead;
                            continue;
                        }
                        Onward::Detached => return,
                    },
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

    /// The first task: what it has open belongs to the outside.
    fn adopt(&self, tid: Tid) {
        let mut session = self.session.borrow_mut();
        // The child is ours and stopped, so this can only fail if it was
        // killed; then nothing follows.
        let mut same = |one, other| crate::os::same_description(tid, one, other);
        let _ = session.model.adopt_comparing(tid, tid, &mut same);
        session.first = tid;
        let outside = Unit::new(OUTSIDE, None, 0, 0);
        session.units.push(outside);
        session.tasks.insert(tid, Task::new(OUTSIDE, tid));
        session.processes.insert(
            tid,
            Process {
                threads: 1,
                ..Process::default()
            },
        );
        drop(session);
        (self.notify)(Notice::Started(tid));
    }

    /// A task is stopped by job control. Whoever waits is told of the first
    /// thread of the command; the others follow, and may do so after the
    /// command was continued already.
    fn stopped(&self, tid: Tid, signal: i32) {
        let mut session = self.session.borrow_mut();
        let command = session
            .units
            .get(1)
            .map_or(session.first, |unit| unit.process);
        let process = match session.tasks.get(&tid) {
            Some(task) if !task.stop_told => task.process,
            _ => return,
        };
        let sent = session.processes.get(&process);
        let sent = sent.is_some_and(|process| process.kernel_signal == Some(signal));
        for task in session.tasks.values_mut() {
            task.stop_told |= task.process == process;
        }
        drop(session);
        if process == command {
            let job = |process| rustix::process::getpgid(process).ok();
            let same_job = job(None) == job(rustix::process::Pid::from_raw(process));
            (self.notify)(Notice::Stopped {
                signal,
                from_terminal: sent && same_job,
            });
        }
    }

    /// Each thread is interrupted when its process is continued.
    fn continued(&self, tid: Tid) {
        if let Some(task) = self.session.borrow_mut().tasks.get_mut(&tid) {
            task.stop_told = false;
        }
    }

    fn spawned(&self, parent: Tid, child: Tid, flags: u64) {
        let mut session = self.session.borrow_mut();
        let _ = session.model.spawned(parent, child, flags);
        let Some((unit, process, skipped)) = session
            .tasks
            .get(&parent)
            .map(|task| (task.unit, task.process, task.skipped))
        else {
            return;
        };
        let thread = flags & libc::CLONE_THREAD as u64 != 0;
        let process = if thread { process } else { child };
        session.tasks.insert(
            child,
            Task {
                skipped,
                ..Task::new(unit, process)
            },
        );
        let unseen = session.is_unseen(parent);
        let entry = session.processes.entry(process).or_default();
        entry.threads += 1;
        entry.unseen |= unseen;
        if !thread {
            session.count_alive(unit, 1);
        }
    }

    async fn prehook(&self, mut tracee: Tracee<Prehook>, next: &mut Option<Next>) -> Onward {
        // An error means that the tracee is gone, which its next stop says.
        let _ = tracee.keep_in_sight();
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
        let entry = {
            let mut session = self.session.borrow_mut();
            let session = &mut *session;
            let Some(task) = session.tasks.get(&tid) else {
                return Onward::Running(tracee.resume());
            };
            if task.skipped {
                return Onward::Running(tracee.resume());
            }
            let (unit, process) = (task.unit, task.process);
            if tracee.is_foreign() {
                session.doubt(unit, "makes 32-bit system calls", true);
                if let Some(entry) = session.processes.get_mut(&process) {
                    entry.unseen = true;
                }
                return Onward::Running(tracee.resume());
            }
            session.model.entry(tid, &call, &tracee, &mut events)
        };
        let mut wait = Vec::new();
        let mut before = Before::new();
        if !entry.about_to_change.is_empty() {
            self.catch_up_all();
            let mut session = self.session.borrow_mut();
            if let Some(unit) = session.unit_of(tid) {
                session.lookups.begin_change(tid);
                (before, wait) = session.before(unit, &entry.about_to_change);
            }
        }
        let execution = events.iter().find_map(|event| match event {
            IoEvent::ExecAttempt { path, argv, envp } => Some((path.path.clone(), *argv, *envp)),
            _ => None,
        });
        {
            let mut session = self.session.borrow_mut();
            let read = |ranges: &[(u64, u64)]| tracee.read_ranges(ranges);
            for event in events {
                session.apply(tid, &before, event, &read);
            }
        }
        if !wait.is_empty() {
            // The present content is still being digested: the change waits.
            self.handle
                .blocking(move || {
                    for content in wait {
                        let _ = content.wait();
                    }
                })
                .await;
        }
        let is_execution = execution.is_some();
        if let Some((path, argv, envp)) = execution {
            match self.execution(tracee, path.into(), argv, envp).await {
                Attempt::Run(same, new) => {
                    tracee = same;
                    *next = new.map(|new| *new);
                }
                Attempt::Instead(stop) => return Onward::Stopped(stop),
                Attempt::Detached => return Onward::Detached,
            }
        }
        let mut session = self.session.borrow_mut();
        if let Some(task) = session.tasks.get_mut(&tid) {
            task.pending = entry.pending.map(|pending| (pending, before));
            if task.pending.is_some() || is_execution {
                return Onward::Running(tracee.resume_to_exit());
            }
        }
        Onward::Running(tracee.resume())
    }

    fn posthook(&self, tracee: Tracee<Posthook>) -> Tracee<Running> {
        let tid = tracee.tid();
        let changes = {
            let session = self.session.borrow();
            let pending = session.tasks.get(&tid).map(|task| &task.pending);
            matches!(pending, Some(Some((_, before))) if !before.is_empty())
        };
        if changes {
            self.catch_up_all();
        }
        let mut session = self.session.borrow_mut();
        let session = &mut *session;
        if let Some((pending, before)) = session
            .tasks
            .get_mut(&tid)
            .and_then(|task| task.pending.take())
        {
            let mut events: SmallVec<[IoEvent; 2]> = SmallVec::new();
            let written = pending.writes_to();
            session
                .model
                .exit(tid, pending, tracee.value(), &tracee, &mut events);
            let read = |ranges: &[(u64, u64)]| tracee.read_ranges(ranges);
            for event in events {
                session.apply(tid, &before, event, &read);
            }
            session.lookups.end_change(tid);
            if tracee.value() == -i64::from(libc::EPIPE)
                && let (Some(unit), Some(file)) = (session.unit_of(tid), written)
            {
                session.doubt_outside(unit, &file, "writes to a pipe that nobody reads any more");
            }
        }
        tracee.resume()
    }

    /// An execve is about to happen.
    async fn execution(
        &self,
        tracee: Tracee<Prehook>,
        path: FilePath,
        argv: u64,
        envp: u64,
    ) -> Attempt {
        let tid = tracee.tid();
        // What is not there fails by itself, and the failure is a fact.
        if classify(&path) != Class::Ordinary || rustix::fs::stat(path.as_path()).is_err() {
            return Attempt::Run(tracee, None);
        }
        let (argv, envp) = (strings(&tracee, argv), strings(&tracee, envp));
        let (execution, unit, lookup, temporary) = {
            let mut session = self.session.borrow_mut();
            let Some(unit) = session.unit_of(tid) else {
                return Attempt::Run(tracee, None);
            };
            let tokens = jobserver(&envp);
            let mut found = Vec::new();
            let descriptors: Vec<Descriptor> = session
                .model
                .descriptors(tid)
                .filter(|(_, _, cloexec)| !cloexec)
                .map(|(fd, file, _)| {
                    let is_token =
                        tokens.contains(&fd) && matches!(file.kind, FileKind::Pipe { .. });
                    if let (true, FileKind::Pipe { pipe }) = (is_token, &file.kind) {
                        found.push((file.id, *pipe));
                    }
                    Descriptor {
                        fd,
                        file: file.id,
                        kind: file.kind.clone(),
                        path: file.path.clone(),
                        modes: [
                            file.readable,
                            file.writable,
                            file.append.get(),
                            file.nonblocking.get(),
                        ],
                        jobserver: is_token,
                    }
                })
                .collect();
            for (file, pipe) in found {
                session.jobserver.insert(file);
                session.jobserver_pipes.insert(pipe);
            }
            let temporary = argv.iter().any(|arg| session.temporary.contains(arg));
            let execution = Execution {
                tid,
                path: path.clone(),
                argv: argv.clone(),
                envp,
                cwd: session
                    .model
                    .cwd(tid)
                    .map(std::path::Path::to_path_buf)
                    .unwrap_or_default(),
                descriptors,
                machine: self.machine,
                strict: session.settings.strict,
            };
            let lookup = unit != OUTSIDE
                && !session.settings.refresh
                && !temporary
                && !session.is_unseen(tid);
            (execution, unit, lookup, temporary)
        };
        if unit == OUTSIDE {
            let (keyed, miss) = (*self.root).clone();
            self.note_images(OUTSIDE, &keyed, &path);
            self.warn_of_lost_rights(tid, &keyed);
            let next = Next {
                keyed,
                argv,
                path,
                miss,
                temporary,
                lookup: true,
            };
            return Attempt::Run(tracee, Some(Box::new(next)));
        }
        let asked = std::time::Instant::now();
        let (world, results) = {
            let session = self.session.borrow();
            (session.world.clone(), session.store.clone())
        };
        let (keyed, found) = self
            .handle
            .blocking(move || {
                let keyed = weak_key(&execution, &world);
                let found = match &keyed {
                    Ok(keyed) if lookup => {
                        Some(results.lookup(&keyed.key, &mut |query| world.ask(query)))
                    }
                    _ => None,
                };
                (keyed, found)
            })
            .await;
        self.note_images(unit, &keyed, &path);
        let miss = match found {
            Some(Ok(Lookup::Hit(outcome))) => {
                let applied = self.skip(tracee, unit, *outcome, &argv, asked).await;
                match applied {
                    Applied::Skipped(stop) => return Attempt::Instead(stop),
                    Applied::Refused(same, reason) => {
                        let next = Next {
                            keyed,
                            argv,
                            path,
                            miss: reason,
                            temporary,
                            lookup,
                        };
                        return Attempt::Run(same, Some(Box::new(next)));
                    }
                }
            }
            Some(Ok(Lookup::Miss(miss))) => describe(&miss),
            Some(Err(error)) => error.to_string(),
            None => String::from("not looked up"),
        };
        self.warn_of_lost_rights(tid, &keyed);
        if let Err(Unkeyed::Privileged(name)) = &keyed
            && !self.filtered
        {
            let reason = format!("runs {name} untraced (set-uid)");
            self.session.borrow_mut().doubt(unit, reason, true);
            let _ = tracee.detach();
            return Attempt::Detached;
        }
        let next = Next {
            keyed,
            argv,
            path,
            miss,
            temporary,
            lookup,
        };
        Attempt::Run(tracee, Some(Box::new(next)))
    }

    /// Who may install a filter only by giving up new privileges runs set-uid
    /// programs as if they were none.
    fn warn_of_lost_rights(&self, tid: Tid, keyed: &Result<Keyed, Unkeyed>) {
        let Err(Unkeyed::Privileged(name)) = keyed else {
            return;
        };
        let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
        if self.filtered && status.lines().any(|line| line == "NoNewPrivs:\t1") {
            (self.notify)(Notice::Warning(format!(
                "{name} is set-uid and runs without its rights here; --no-seccomp lets it run"
            )));
        }
    }

    /// The files a program is started from are facts to whoever starts it.
    fn note_images(&self, unit: UnitId, keyed: &Result<Keyed, Unkeyed>, path: &FilePath) {
        let mut session = self.session.borrow_mut();
        let images = match keyed {
            Ok(keyed) => keyed.images.clone(),
            Err(_) => vec![path.clone()],
        };
        for image in images {
            let located = session.look(unit, &image, true);
            session.executable(unit, &image, &located);
        }
    }

    /// The execve succeeded.
    fn executed(&self, tracee: Tracee<Exec>, tid: Tid, next: Option<Next>) -> Tracee<Running> {
        let (former, now) = (tracee.former(), tracee.tid());
        let mut session = self.session.borrow_mut();
        let session = &mut *session;
        session.model.exec(now, former);
        let former = if former == 0 { tid } else { former };
        if former != now
            && let Some(task) = session.tasks.remove(&former)
        {
            session.tasks.insert(now, task);
        }
        let Some(task) = session.tasks.get_mut(&now) else {
            return tracee.resume();
        };
        task.pending = None;
        let (process, above, skipped) = (task.process, task.unit, task.skipped);
        session
            .tasks
            .retain(|&other, task| task.process != process || other == now);
        session.processes.entry(process).or_default().threads = 1;
        if skipped {
            return tracee.resume();
        }
        hide_vdso(&tracee);
        let id = UnitId(session.units.len() as u32);
        let started = session.tick();
        let mut unit = Unit::new(id, Some(above), process, started);
        match next {
            Some(next) => {
                unit.argv = next.argv;
                unit.miss = next.miss;
                if !next.lookup {
                    unit.miss = "not looked up".to_owned();
                }
                match next.keyed {
                    Ok(keyed) => {
                        let real = std::fs::canonicalize(&keyed.program)
                            .map_or_else(|_| keyed.program.clone(), FilePath::from);
                        unit.policy = policy(real.as_bytes(), &unit.argv, session.settings.strict);
                        let scripts = unit.policy.scripts;
                        let reason = unit
                            .argv
                            .iter()
                            .skip(1)
                            .find_map(|arg| scripts.doubt(None, arg));
                        if let Some(reason) = reason {
                            unit.doubt(reason, true);
                        }
                        // dd tells its speed on descriptor 2, if anybody listens.
                        let unheard = session.model.file(now, 2).is_none_or(|file| {
                            matches!(file.kind, FileKind::CharDevice(0x103))
                                || file
                                    .path
                                    .as_deref()
                                    .is_some_and(|p| p.as_os_str() == "/dev/null")
                        });
                        if unheard && keyed.program.ends_with("dd") {
                            unit.policy.clock = true;
                        }
                        unit.program = keyed.program;
                        unit.key = Some(keyed.key);
                        unit.inherited = keyed.inherited;
                        if above == OUTSIDE {
                            // The key was computed before the session knew
                            // these descriptions.
                            for inherited in &mut unit.inherited {
                                if let Some(file) = session.model.file(now, inherited.fd) {
                                    inherited.file = file.id;
                                }
                            }
                        }
                    }
                    Err(reason) => {
                        unit.program = next.path;
                        unit.doubt(reason.to_string(), true);
                    }
                }
                if next.temporary {
                    unit.doubt(
                        "is given a temporary file of the program that started it",
                        false,
                    );
                }
            }
            None => unit.doubt("was executed in an unusual way", true),
        }
        if session.is_unseen(now) {
            unit.doubt(
                "was started by a program that makes 32-bit system calls",
                true,
            );
        }
        // Descriptors on which reads are not seen.
        for (fd, file, _) in session.model.descriptors(now) {
            if (3..=5).contains(&fd)
                && file.readable
                && !session.jobserver.contains(&file.id)
                && matches!(
                    file.kind,
                    FileKind::Pipe { .. } | FileKind::Terminal | FileKind::Socket(_)
                )
            {
                unit.doubt(
                    format!("inherits a pipe or terminal as descriptor {fd}"),
                    false,
                );
            }
        }
        session.units.push(unit);
        session.processes.entry(process).or_default().units.push(id);
        if let Some(task) = session.tasks.get_mut(&now) {
            task.unit = id;
        }
        tracee.resume()
    }

    fn signal(&self, tracee: Tracee<Signal>) -> Tracee<Running> {
        let signal = tracee.signal();
        let tid = tracee.tid();
        let mut session = self.session.borrow_mut();
        let session = &mut *session;
        let Some((unit, process)) = session
            .tasks
            .get(&tid)
            .map(|task| (task.unit, task.process))
        else {
            return tracee.deliver();
        };
        let Ok(info) = tracee.info() else {
            return tracee.deliver();
        };
        let from_process = info.si_code <= 0 && info.si_code != libc::SI_TIMER;
        if let Some(entry) = session.processes.get_mut(&process) {
            entry.kernel_signal = (info.si_code == libc::SI_KERNEL).then_some(signal);
        }
        match signal {
            libc::SIGCHLD | libc::SIGWINCH | libc::SIGURG => {}
            libc::SIGPIPE => {
                let file = tracee
                    .registers()
                    .ok()
                    .and_then(|regs| session.model.file(tid, regs.rdi as i32).cloned());
                match file {
                    Some(file) => session.doubt_outside(
                        unit,
                        &file,
                        "writes to a pipe that nobody reads any more",
                    ),
                    None => session.doubt(unit, "gets SIGPIPE", true),
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
                let sender = crate::hit::sender(&info);
                if sender != process {
                    let other = session.tasks.get(&sender).map(|task| task.unit);
                    let mut at = Some(unit);
                    while let Some(id) = at {
                        if other.is_some_and(|other| session.is_within(other, id)) {
                            break;
                        }
                        session
                            .unit(id)
                            .doubt(format!("gets signal {signal} from outside"), false);
                        at = session.unit(id).parent;
                    }
                }
            }
            _ => session.doubt(
                unit,
                format!("gets signal {signal} from a timer or terminal"),
                true,
            ),
        }
        tracee.deliver()
    }

    /// A task is about to go; with the last of its process, units end.
    async fn leaving(&self, tracee: Tracee<PreExit>) -> Tracee<Running> {
        let (tid, status) = (tracee.tid(), tracee.status());
        self.left(tid, status).await;
        tracee.resume()
    }

    async fn left(&self, tid: Tid, status: i32) {
        let ended = {
            let mut session = self.session.borrow_mut();
            let session = &mut *session;
            let Some(task) = session.tasks.get_mut(&tid) else {
                return;
            };
            if std::mem::replace(&mut task.left, true) {
                return;
            }
            let (process, unit) = (task.process, task.unit);
            let Some(entry) = session.processes.get_mut(&process) else {
                return;
            };
            entry.threads = entry.threads.saturating_sub(1);
            if entry.threads > 0 {
                return;
            }
            let units = std::mem::take(&mut entry.units);
            session.processes.remove(&process);
            (units, unit, process)
        };
        let (units, unit, process) = ended;
        for id in units.iter().rev() {
            self.conclude(*id, status).await;
        }
        // What the innermost unit's own count held is over with it.
        let mut session = self.session.borrow_mut();
        session.count_alive(unit, -1);
        let is_command = session
            .units
            .get(1)
            .is_some_and(|root| root.process == process)
            && units.contains(&UnitId(1));
        drop(session);
        if is_command {
            let ending = Ending::from_wait(status);
            self.session.borrow_mut().command_ended = Some(ending);
        }
    }

    async fn conclude(&self, id: UnitId, status: i32) {
        let (finished, line, saving) = {
            let mut session = self.session.borrow_mut();
            let finished = session.conclude(id, status);
            let saving = !session.settings.read_only;
            let depth = session.depth(id);
            let unit = session.unit(id);
            let wall_us = unit.clock.elapsed().as_micros() as u64;
            let line = Line {
                unit: id.0,
                depth,
                command: display_argv(&unit.argv, 100),
                miss: unit.miss.clone(),
                fate: Fate::Stored,
                wall_us,
            };
            let finished = finished.and_then(|finished: Finished| {
                let short = finished.units == 1 && wall_us < self.min_us && id.0 != 1;
                if short {
                    Err("too short to be worth it".to_owned())
                } else {
                    Ok(finished)
                }
            });
            (finished, line, saving)
        };
        let report = self.session.borrow().report.clone();
        let finished = match finished {
            Ok(finished) if saving => finished,
            Ok(_) => {
                report.add(Line {
                    fate: Fate::NotStored {
                        reason: "the store is read-only".to_owned(),
                    },
                    ..line
                });
                return;
            }
            Err(reason) => {
                report.add(Line {
                    fate: Fate::NotStored { reason },
                    ..line
                });
                return;
            }
        };
        let changes = !finished.changes.is_empty();
        let (sender, secured) = channel::<()>();
        {
            let mut session = self.session.borrow_mut();
            let (results, world) = (session.store.clone(), session.world.clone());
            session.jobs.submit(move || {
                let told = store(&results, &world, &finished, || {
                    // Nobody may be waiting.
                    let _ = sender.send(());
                });
                let fate = match told {
                    Ok(()) => Fate::Stored,
                    Err(reason) => Fate::NotStored { reason },
                };
                report.add(Line { fate, ..line });
            });
        }
        if changes {
            // Whoever waits for the process must not see it go before its
            // results are safe.
            self.handle.blocking(move || secured.recv()).await.ok();
        }
    }

    /// A task is gone.
    async fn gone(&self, tid: Tid, status: i32) {
        let killed_at_once = {
            let mut session = self.session.borrow_mut();
            let session = &mut *session;
            match session.tasks.get(&tid) {
                Some(task) if !task.left => {
                    let unit = task.unit;
                    session.doubt(unit, "was killed", true);
                    true
                }
                _ => false,
            }
        };
        if killed_at_once {
            self.left(tid, status).await;
        }
        let ended = {
            let mut session = self.session.borrow_mut();
            session.model.exited(tid);
            session.lookups.end_change(tid);
            session.tasks.remove(&tid);
            let root = session
                .units
                .get(1)
                .map_or(session.first, |unit| unit.process);
            if root == tid {
                session.command_ended.take().or_else(|| {
                    // It never became a program.
                    (session.units.len() <= 1).then_some(Ending::from_wait(status))
                })
            } else {
                None
            }
        };
        if let Some(ending) = ended {
            let wait = self.session.borrow().jobs.drained();
            self.handle.blocking(wait).await;
            (self.notify)(Notice::Ended(ending));
        }
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

enum Attempt {
    Run(Tracee<Prehook>, Option<Box<Next>>),
    Instead(Stop),
    Detached,
}

/// Reads a NULL-terminated array of strings.
fn strings(memory: &dyn Memory, address: u64) -> Vec<Vec<u8>> {
    let mut strings = Vec::new();
    let mut at = address;
    let mut words = [0_u8; 1024];
    if address == 0 {
        return strings;
    }
    'all: loop {
        let got = memory.read(at, &mut words) / 8 * 8;
        if got == 0 {
            break;
        }
        for word in words[..got].chunks_exact(8) {
            let pointer = u64::from_le_bytes(word.try_into().unwrap_or_default());
            if pointer == 0 {
                break 'all;
            }
            strings.push(memory.read_c_string(pointer, 1 << 20).unwrap_or_default());
        }
        at += got as u64;
    }
    strings
}

/// Takes the vdso out of the auxiliary vector of a fresh program, so that its
/// clock reads become system calls (getauxval(3), `AT_SYSINFO_EHDR`).
fn hide_vdso(tracee: &Tracee<Exec>) {
    const AT_NULL: u64 = 0;
    const AT_IGNORE: u64 = 1;
    const AT_SYSINFO_EHDR: u64 = 33;
    /// The code segment of 64-bit programs; the stack of others looks otherwise.
    const CODE: u64 = 0x33;
    let Ok(regs) = tracee.registers() else { return };
    if regs.cs != CODE {
        return;
    }
    let Ok(argc) = tracee.read_u64(regs.rsp) else {
        return;
    };
    // After the count and the arguments with their end.
    let after = argc.checked_mul(8).and_then(|size| size.checked_add(16));
    let Some(mut at) = after.and_then(|size| regs.rsp.checked_add(size)) else {
        return;
    };
    let mut words = [0_u8; 2048];
    let mut in_environment = true;
    let mut is_key = true;
    loop {
        let got = tracee.read(at, &mut words) / 8 * 8;
        if got == 0 {
            return;
        }
        for (index, word) in words[..got].chunks_exact(8).enumerate() {
            let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
            if in_environment {
                in_environment = word != 0;
                continue;
            }
            if is_key {
                match word {
                    AT_NULL => return,
                    AT_SYSINFO_EHDR => {
                        // An error means that the tracee is gone.
                        let _ = tracee.write(at + 8 * index as u64, &AT_IGNORE.to_le_bytes());
                        return;
                    }
                    _ => {}
                }
            }
            is_key = !is_key;
        }
        at += got as u64;
    }
}

/// A miss in words.
pub fn describe(miss: &Miss) -> String {
    match miss {
        Miss::NoEntry => "never seen before".to_owned(),
        Miss::Incomplete(what) => format!("its result is incomplete: {what}"),
        Miss::Changed {
            query,
            recorded,
            found,
        } => change(query, recorded, found),
    }
}

fn change(query: &Query, recorded: &Answer, found: &Answer) -> String {
    let (what, path): (&str, &FilePath) = match query {
        Query::Content(path) => ("content of", path),
        Query::Stat {
            path,
            time: TimeUse::Order,
            ..
        } => ("content or permissions of", path),
        Query::Stat { path, .. } => ("metadata of", path),
        Query::Access { path, .. } => ("permission for", path),
        Query::Link(path) => ("link", path),
        Query::List(path) => ("names in", path),
        Query::RealPath(path) => ("links on the way to", path),
        Query::Target(path) | Query::Kind { path, .. } => ("what stands at", path),
        Query::Permissions(path) => ("permissions of", path),
        Query::Inode { path, .. } => ("inode number of", path),
        Query::Order(_) => return "the order of file times differs".to_owned(),
        Query::StatFs(path) => ("file system of", path),
        Query::Xattr { path, .. } => ("attributes of", path),
    };
    let missing = |answer: &Answer| matches!(answer, Answer::Error(libc::ENOENT));
    let how = match (missing(recorded), missing(found)) {
        (true, false) => "appeared",
        (false, true) => "is gone",
        _ => "differs",
    };
    format!("{what} {} {how}", path.display())
}

/// Redirects an execve: the call's path becomes `/proc/PID/fd/N`, written below
/// the stack pointer, where nothing lives.
///
/// # Errors
/// When the tracee's stack cannot be written.
pub fn redirect(tracee: &mut Tracee<Prehook>, file: &std::fs::File) -> std::io::Result<()> {
    let path = format!("/proc/{}/fd/{}\0", std::process::id(), file.as_raw_fd());
    // 128 bytes below the stack pointer belong to the running function.
    let address = (tracee.stack_pointer() - 128 - path.len() as u64) & !15;
    tracee.write(address, path.as_bytes())?;
    let call = tracee.invocation();
    let args = if call.nr == libc::SYS_execveat as u64 {
        [
            libc::AT_FDCWD as u64,
            address,
            call.args[2],
            call.args[3],
            0,
            0,
        ]
    } else {
        [address, call.args[1], call.args[2], 0, 0, 0]
    };
    tracee.modify(Invocation { nr: call.nr, args })
}
