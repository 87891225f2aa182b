//! Runs a command: looks it up, or traces it.
//!
//! Two processes serve a traced command. The shell started the *front process*, which waits, stops
//! and ends as the command does. The *tracer* is its child and the parent of the command. The
//! tracer stays until the last orphan of the command has ended, while the front process ends with
//! the command.

use std::cell::RefCell;
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use ptrace_async::event::{FileKind, Tid};
use ptrace_async::process::{self, Processes};
use ptrace_async::runtime::{Interception, Options, Program, Runtime};
use serde::{Deserialize, Serialize};

use crate::engine::report::Report;
use crate::engine::session::{Session, Settings};
use crate::engine::tracer::{Notice, Tracer};
use crate::journal::{Begun, Mode};
use crate::key::exec_context::ExecContext;
use crate::key::machine;
use crate::key::{Descriptor, Execution, KeyError, KeyMaker, Keyed, Limits, Texts, jobserver};
use crate::model::abbreviate;
use crate::model::fate::{Fate, Line};
use crate::model::miss::Missed;
use crate::model::outcome::{Ending, Outcome};
use crate::model::path::FilePath;
use crate::platform::defect::{Defect, planted};
use crate::platform::fault::Fault;
use crate::platform::place::is_own_in_place;
use crate::platform::{clock, os};
use crate::remote::{self, Remote};
use crate::restore;
use crate::store::stream::{Chunks, stream};
use crate::store::{Lookup, Store};
use crate::world::World;

/// How a command is run.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The command and its arguments.
    pub argv: Vec<std::ffi::OsString>,
    /// Session settings.
    pub settings: Settings,
    /// Shorter units are not stored (µs).
    pub min_us: u64,
    /// Whether to trace without a seccomp filter.
    pub no_seccomp: bool,
    /// Whether to run the plain command where tracing is impossible.
    pub fallback: bool,
    /// Whether to print no summary.
    pub quiet: bool,
    /// Whether standard error is a terminal.
    pub at_terminal: bool,
    /// Whether to print the result of each unit.
    pub explain: bool,
    /// The file for the report.
    pub json: Option<PathBuf>,
    /// The limits of the store.
    pub limits: crate::model::limits::Limits,
    /// The remote cache.
    pub remote: Option<remote::settings::Settings>,
}

/// A message from the tracer to the front process.
#[derive(Debug, Serialize, Deserialize)]
enum Message {
    Started(Tid),
    Stopped,
    Warning(String),
    Ended(Ending, String),
    Failed(String),
    CannotTrace(String),
    NotStarted(String),
}

/// Runs the command. Returns only if the command cannot be run at all; otherwise the process ends
/// as the command does.
pub fn run(plan: &Plan, mut store: Store) -> anyhow::Error {
    let begun = clock::window().1;
    store.explains = plan.explain;
    let store = Arc::new(store);
    let world = Arc::new(World::new(store.digest_table()));
    let asked = Instant::now();
    if let Some(relocation) = &plan.settings.relocation {
        relocation.recall(&store);
    }
    let sharing = plan.remote.clone();
    let sharing = sharing.map(|settings| Arc::new(Remote::new(settings, store.clone())));
    if let Some(remote) = sharing.as_deref().filter(|_| !plan.settings.refresh) {
        remote.begin();
    }
    let mut program = match Program::new(&plan.argv) {
        Ok(program) => program,
        Err(error) => return error.into(),
    };
    program.skip_missing();
    let mut model = Processes::new();
    let machine = machine::digest();
    let execution = execution(&program, machine, plan.settings.strict, &mut model);
    if let Err(error) = can_execute(&execution.path) {
        os::exit_for_missing(&plan.argv[0], &error);
    }
    let keys = plan.settings.key_maker();
    let keyed = keys.weak_key(&execution, &world);
    let report = Report::with(sharing.clone());
    let mut miss = Missed::NotLookedUp;
    if let Ok(keyed) = &keyed
        && !plan.settings.refresh
        && (is_own_in_place(&execution.cwd) || planted(Defect::DirectoryPlace))
    {
        if let Some(remote) = &sharing {
            remote.hold();
        }
        let begins = ExecContext::of(keyed);
        let mut ask = |query: &_| begins.ask(&world, query);
        let elsewhere = (sharing.as_deref(), plan.settings.relocation.as_deref());
        match remote::lookup(elsewhere, &store, keyed, &mut ask) {
            Ok(Lookup::Hit(outcome)) => {
                match skip(plan, (&store, &world), &report, &outcome, keyed, asked) {
                    Ok(never) => match never {},
                    Err(reason) => {
                        miss = Missed::Unusable(reason);
                        // The restore may have replaced open files.
                        model = Processes::new();
                    }
                }
            }
            Ok(Lookup::Miss(reason)) => miss = reason.into(),
            Err(error) => miss = Missed::Unusable(error.to_string()),
        }
    }
    if let (true, Err(KeyError::Privileged(name))) = (plan.no_seccomp, &keyed) {
        let reason = format!("runs {name} untraced (set-uid)");
        report.add(whole(plan, Fate::NotStored { reason }, miss.to_string()));
        tell(plan, &report, None);
        return Untraced.into();
    }
    // Changes made before pcache started must have earlier change times than the command.
    clock::tick_after(begun);
    let found = Found {
        keys,
        keyed,
        miss,
        machine: execution.machine,
        model,
        report,
        sharing,
    };
    trace(plan, program, store, world, found)
}

/// The result of the lookup before the command is traced.
struct Found {
    keys: Arc<KeyMaker>,
    keyed: Result<Keyed, KeyError>,
    /// Why the lookup found no result.
    miss: Missed,
    machine: crate::model::fact::Digest,
    /// The model of this process, of which the command's process is a copy.
    model: Processes,
    report: Report,
    sharing: Option<Arc<Remote>>,
}

/// Returns the report line of a command that is not traced.
fn whole(plan: &Plan, fate: Fate, miss: String) -> Line {
    let argv: Vec<Vec<u8>> = plan
        .argv
        .iter()
        .map(|arg| arg.as_bytes().to_vec())
        .collect();
    Line {
        unit: 1,
        depth: 0,
        command: abbreviate::command(&argv, 100),
        miss,
        fate,
        wall_us: 0,
        record: 0,
        serial: 0,
        bound: None,
        differences: None,
    }
}

/// Checks that a file can be executed at all.
fn can_execute(path: &FilePath) -> io::Result<()> {
    let found = std::fs::metadata(path)?;
    rustix::fs::access(path.as_path(), rustix::fs::Access::EXEC_OK)?;
    if found.is_file() {
        Ok(())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// The error if the kernel does not permit tracing.
#[derive(Debug, thiserror::Error)]
#[error("the command cannot be traced: {0}")]
pub struct CannotTrace(String);

/// The error if the system lacked something before the command started.
#[derive(Debug, thiserror::Error)]
#[error("no process can be traced now: {0}")]
pub struct NotStarted(#[source] io::Error);

/// Whether the system lacks processes, memory or descriptors.
fn is_shortage(error: &io::Error) -> bool {
    let lacking = [libc::EAGAIN, libc::ENOMEM, libc::EMFILE, libc::ENFILE];
    error.raw_os_error().is_some_and(|it| lacking.contains(&it))
}

/// The error if the command must run plainly, as it would lose its rights under trace.
#[derive(Debug, thiserror::Error)]
#[error("the command runs with other rights (set-uid)")]
pub struct Untraced;

enum Never {}

/// Establishes the outcome of the whole command, and ends as the command did.
fn skip(
    plan: &Plan,
    (store, world): (&Store, &World),
    report: &Report,
    outcome: &Outcome,
    keyed: &Keyed,
    asked: Instant,
) -> Result<Never, String> {
    let stream = stream(store, outcome)?;
    let total: u64 = outcome.effects.iter().map(effect_length).sum();
    let mut bar = Progress::new(total, plan.quiet);
    let mut progress = |done: u64, all: u64| bar.show(done, all);
    let options = restore::Options {
        world: Some(world),
        progress: Some(&mut progress),
        ages: &outcome.ages,
        inputs: &outcome.facts,
    };
    let keeping = report.remote().filter(|remote| remote.holds());
    let restored = restore::apply_with(store, &outcome.effects, options);
    restored.map_err(|error| error.to_string())?;
    if let Some(remote) = keeping.filter(|remote| !remote.keeps_behind()) {
        remote.keep();
    }
    bar.clear();
    os::ignore(libc::SIGPIPE, os::pipe_was_ignored());
    let written = write_stream(&stream);
    os::ignore(libc::SIGPIPE, true);
    written?;
    // The command is finished from here on.
    let took_us = asked.elapsed().as_micros() as u64;
    let fate = Fate::Hit {
        recorded_us: outcome.wall_us,
        took_us,
        units: outcome.units,
    };
    let argv: Vec<Vec<u8>> = plan
        .argv
        .iter()
        .map(|arg| arg.as_bytes().to_vec())
        .collect();
    let begun = Begun {
        path: None,
        keyed: Some(keyed),
    };
    let record = report.journal().begin(0, &argv, begun, Missed::Not);
    report.add(Line {
        wall_us: took_us,
        record,
        ..whole(plan, fate, String::new())
    });
    for &(fd, by) in &outcome.positions {
        os::advance(fd, by);
    }
    for &(fd, flags) in &outcome.flags {
        os::set_flags(fd, flags);
    }
    // Lost digests cost only time.
    let _ = world.table().flush();
    if let Some(relocation) = &plan.settings.relocation {
        relocation.keep(store);
    }
    write_down(plan, store, report, outcome.ending, took_us);
    tell(plan, report, None);
    if let Some(remote) = keeping {
        keep_behind(plan, store, remote);
    }
    end(outcome.ending)
}

/// Writes the text of a skipped command. If that fails, the command runs after all and meets the
/// error itself. A pipe that nobody reads is an exception if something has been written: the rest
/// is left out, as the text would come twice.
///
/// # Errors
/// When a write fails. Positions that can be moved are then back where they were.
fn write_stream(stream: &Chunks) -> Result<(), String> {
    for (index, (fd, bytes)) in stream.iter().enumerate() {
        match os::write_all(*fd, bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe && index > 0 => {}
            Err(error) => {
                for (fd, bytes) in &stream[..index] {
                    os::take_back(*fd, bytes.len());
                }
                return Err(format!("its text cannot be written: {error}"));
            }
        }
    }
    Ok(())
}

/// Stores downloaded contents and makes room in the store; in a background process if
/// configured.
fn keep_behind(plan: &Plan, store: &Store, remote: &Remote) {
    if store.is_read_only() {
        return;
    }
    let keep = || {
        remote.keep();
        if store.account(plan.limits).unwrap_or(false) {
            // The next run can do it as well.
            let _ = store.tidy(plan.limits);
        }
    };
    if remote.keeps_behind() {
        remote.disconnect();
        if os::leave_behind(keep).is_ok() {
            return;
        }
    }
    keep();
}

fn effect_length(effect: &crate::model::outcome::Effect) -> u64 {
    use crate::model::outcome::Effect;
    match effect {
        Effect::Write { length, .. } | Effect::Append { length, .. } => *length,
        _ => 0,
    }
}

/// A progress bar for long restores, on terminals only.
struct Progress {
    bar: Option<indicatif::ProgressBar>,
}

impl Progress {
    fn new(total: u64, quiet: bool) -> Self {
        let shown = !quiet && total > 64 << 20 && io::stderr().is_terminal();
        let bar = shown.then(|| {
            let bar = indicatif::ProgressBar::new(total);
            let style = "pcache: restoring {bytes}/{total_bytes} {bar:30} {eta}";
            if let Ok(style) = indicatif::ProgressStyle::with_template(style) {
                bar.set_style(style);
            }
            bar
        });
        Self { bar }
    }

    fn show(&mut self, done: u64, total: u64) {
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_position(done);
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Adds the run to the journal. The run began `before_us` before the collector was created.
fn write_down(plan: &Plan, store: &Store, report: &Report, ending: Ending, before_us: u64) {
    if store.is_read_only() {
        return;
    }
    let mode = Mode {
        strict: plan.settings.strict,
        refresh: plan.settings.refresh,
    };
    let mut run = report.journal().finish(mode, ending);
    run.began = run.began.saturating_sub(before_us);
    run.wall_us += before_us;
    // A failed journal entry must not fail the command.
    if let Ok(bytes) = postcard::to_stdvec(&run) {
        let _ = store.add_to_journal(&bytes);
    }
}

/// Prints the final lines on standard error, and writes the report file.
fn tell(plan: &Plan, report: &Report, text: Option<&str>) {
    let mut out = String::new();
    match text {
        Some(text) => out.push_str(text),
        None => out = told(plan, report),
    }
    // Standard error may be closed, which must not fail the command.
    let _ = io::stderr().write_all(out.as_bytes());
}

/// Returns the final message and writes the report file.
fn told(plan: &Plan, report: &Report) -> String {
    let mut out = String::new();
    if plan.explain {
        out.push_str(&report.explain());
    }
    if plan.settings.verify {
        out.push_str(&report.verified());
    } else if !plan.quiet {
        out.push_str(&report.one_line());
        if plan.at_terminal {
            out.push_str(report.hint().unwrap_or_default());
        }
        out.push('\n');
        let complaints = report.remote().map(|remote| remote.complaints());
        out.push_str(&complaints.unwrap_or_default());
    }
    if let Some(path) = &plan.json {
        #[derive(Serialize)]
        struct Json {
            version: u32,
            summary: crate::model::fate::Summary,
            units: Vec<Line>,
            #[serde(skip_serializing_if = "Option::is_none")]
            remote: Option<remote::Summary>,
        }
        let json = Json {
            version: 1,
            summary: report.summary(),
            units: report.lines(),
            remote: report.remote().map(|remote| remote.summary()),
        };
        let written = serde_json::to_vec_pretty(&json)
            .map_err(io::Error::from)
            .and_then(|bytes| std::fs::write(path, bytes));
        if let Err(error) = written {
            out.push_str(&format!(
                "pcache: cannot write {}: {error}\n",
                path.display()
            ));
        }
    }
    out
}

/// Ends this process in the same way as a command.
fn end(ending: Ending) -> ! {
    match ending {
        Ending::Exited(status) => std::process::exit(status),
        Ending::Killed(signal) => {
            os::kill_self(signal);
            std::process::exit(128 + signal)
        }
    }
}

/// Describes the command's execve before it happens. `model` adopts this process.
fn execution(
    program: &Program,
    machine: crate::model::fact::Digest,
    strict: bool,
    model: &mut Processes,
) -> Execution {
    let cwd = std::env::current_dir().unwrap_or_default();
    let chosen = program.candidates.iter().find(|candidate| {
        let path = Path::new(std::ffi::OsStr::from_bytes(candidate.as_bytes()));
        let access = rustix::fs::Access::EXEC_OK;
        path.is_file() && rustix::fs::access(path, access).is_ok()
    });
    let chosen = chosen
        .or(program.candidates.first())
        .map(|c| c.as_bytes())
        .unwrap_or_default();
    let chosen = Path::new(std::ffi::OsStr::from_bytes(chosen));
    let mut path = cwd.clone();
    for part in chosen.components() {
        match part {
            std::path::Component::CurDir => {}
            other => path.push(other),
        }
    }
    let argv = program.argv.iter().map(|arg| arg.as_bytes().to_vec());
    let argv: Vec<Vec<u8>> = argv.collect();
    let envp: Texts = program.envp.iter().map(|entry| entry.as_bytes()).collect();
    let own = std::process::id() as Tid;
    let mut descriptors = Vec::new();
    let mut same = |one, other| os::same_description(own, one, other);
    if model.adopt_comparing(own, own, &mut same).is_ok() {
        let tokens = jobserver(&envp, |fd| match model.file(own, fd)?.kind {
            FileKind::Pipe { pipe } => Some(pipe),
            _ => None,
        });
        for (fd, file, cloexec) in model.descriptors(own) {
            if !cloexec {
                descriptors.push(Descriptor {
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
                    jobserver: tokens.contains(&fd),
                });
            }
        }
    }
    Execution {
        tid: 0,
        path: FilePath::from(path),
        argv,
        envp,
        cwd,
        descriptors,
        limits: Limits::of(0).into(),
        machine,
        strict,
    }
}

/// Runs the command under trace.
fn trace(
    plan: &Plan,
    mut program: Program,
    store: Arc<Store>,
    world: Arc<World>,
    found: Found,
) -> anyhow::Error {
    let (from_tracer, to_front) = match io::pipe() {
        Ok(pipe) => pipe,
        Err(error) => return NotStarted(error).into(),
    };
    if let Some(remote) = &found.sharing {
        remote.suspend();
    }
    os::keep_memory();
    program.default_signals.clear();
    program.ignored_signals.clear();
    let quiet = [libc::SIGINT, libc::SIGQUIT];
    let own = [libc::SIGXFSZ];
    for signal in quiet.into_iter().chain(os::TERMINAL_STOPS).chain(own) {
        if os::is_ignored(signal) {
            program.ignored_signals.push(signal);
        } else {
            program.default_signals.push(signal);
        }
    }
    if os::pipe_was_ignored() {
        program.ignored_signals.push(libc::SIGPIPE);
    } else {
        program.default_signals.push(libc::SIGPIPE);
    }
    for signal in quiet {
        os::ignore(signal, true);
    }
    let forwarded = [libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];
    for signal in forwarded {
        if os::is_ignored(signal) {
            program.ignored_signals.push(signal);
        } else {
            program.default_signals.push(signal);
        }
    }
    os::forward(&forwarded, 0);
    let front = std::process::id();
    // The command may still be run plainly, with the original signal handling.
    let was_ignored = program.ignored_signals.clone();
    let restore_signals = || {
        for signal in quiet {
            os::ignore(signal, was_ignored.contains(&signal));
        }
        os::admit_stops();
    };
    os::hold_stops();
    match os::fork() {
        Err(error) => {
            restore_signals();
            NotStarted(error).into()
        }
        Ok(Some(tracer)) => {
            drop(to_front);
            let error = wait_as_front(plan, from_tracer, tracer, &forwarded);
            restore_signals();
            error
        }
        Ok(None) => {
            drop(from_tracer);
            // A store that reaches a size limit must not end the process.
            for signal in os::TERMINAL_STOPS.into_iter().chain(own) {
                os::ignore(signal, true);
            }
            os::admit_stops();
            os::die_with_parent(true);
            if std::os::unix::process::parent_id() != front {
                std::process::exit(1);
            }
            let tell = Rc::new(RefCell::new(to_front));
            let result = serve(plan, &program, store, world, found, tell.clone());
            if let Err(error) = result {
                send(&tell, &Message::Failed(error.to_string()));
            }
            std::process::exit(0)
        }
    }
}

fn send(to_front: &RefCell<io::PipeWriter>, message: &Message) {
    // The front process may have ended, which is no error.
    if let Ok(bytes) = postcard::to_stdvec(message) {
        let mut framed = (bytes.len() as u32).to_le_bytes().to_vec();
        framed.extend_from_slice(&bytes);
        let _ = to_front.borrow_mut().write_all(&framed);
    }
}

fn receive(from_tracer: &mut io::PipeReader) -> Option<Message> {
    let mut length = [0; 4];
    from_tracer.read_exact(&mut length).ok()?;
    let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
    from_tracer.read_exact(&mut bytes).ok()?;
    postcard::from_bytes(&bytes).ok()
}

/// The main loop of the front process.
fn wait_as_front(
    plan: &Plan,
    mut from_tracer: io::PipeReader,
    tracer: Tid,
    forwarded: &[i32],
) -> anyhow::Error {
    loop {
        match receive(&mut from_tracer) {
            Some(Message::Started(pid)) => os::forward(forwarded, pid),
            Some(Message::Stopped) => os::stop_self(),
            Some(Message::Warning(text)) => {
                let _ = writeln!(io::stderr(), "pcache: {text}");
            }
            Some(Message::Ended(ending, text)) => {
                tell(plan, &Report::default(), Some(&text));
                end(ending)
            }
            Some(Message::CannotTrace(text)) => {
                os::wait_for(tracer);
                return CannotTrace(text).into();
            }
            Some(Message::NotStarted(text)) => {
                os::wait_for(tracer);
                return NotStarted(io::Error::other(text)).into();
            }
            Some(Message::Failed(text)) => {
                os::wait_for(tracer);
                return anyhow::Error::msg(text);
            }
            None => {
                os::wait_for(tracer);
                return anyhow::Error::msg("the tracer has died; the command was killed with it");
            }
        }
    }
}

/// Closes the tracer's copies of descriptors that the command inherits: who waits for the end of a
/// pipe, or for a lock, waits for the command only.
fn release_inherited(plan: &Plan, model: &Processes) {
    let report = plan.json.as_deref();
    let is_named = report.is_some_and(|path| path.starts_with("/dev") || path.starts_with("/proc"));
    if is_named {
        // The report may go to one of them.
        return;
    }
    let front = std::os::unix::process::parent_id() as Tid;
    for (fd, _, cloexec) in model.descriptors(front) {
        if fd > 2 && !cloexec {
            os::close_inherited(fd);
        }
    }
}

/// The main loop of the tracer.
fn serve(
    plan: &Plan,
    program: &Program,
    store: Arc<Store>,
    world: Arc<World>,
    found: Found,
    to_front: Rc<RefCell<io::PipeWriter>>,
) -> io::Result<()> {
    let fault = Fault::of_environment();
    let filter = process::watching_with(fault.as_ref().and_then(Fault::in_process));
    let interception = if plan.no_seccomp {
        Interception::Ptrace(filter)
    } else {
        Interception::Seccomp(filter)
    };
    let runtime = Runtime::new(Options {
        interception,
        exit_kill: true,
    });
    if !store.is_read_only() {
        runtime.keep_copies_in(store.images());
    }
    if let Err(error) = runtime.spawn(program) {
        let text = error.to_string();
        let message = match is_shortage(&error) {
            true => Message::NotStarted(text),
            false => Message::CannotTrace(text),
        };
        send(&to_front, &message);
        return Ok(());
    }
    os::let_go_of_streams();
    release_inherited(plan, &found.model);
    let mut session = Session::new(plan.settings.clone(), store.clone(), world.clone());
    session.jobs.background = runtime.handle().host_threads();
    session.keys = found.keys;
    session.model = found.model;
    session.fault = fault;
    session.report = found.report;
    session.remote = found.sharing.clone();
    if let Some(remote) = &found.sharing {
        remote.enter(runtime.handle().host_threads());
    }
    let report = session.report.clone();
    let session = Rc::new(RefCell::new(session));
    let told_plan = plan.clone();
    let (table, results) = (world.clone(), store.clone());
    let ended = session.clone();
    let sharing = found.sharing;
    let notify = move |notice: Notice| {
        let mut is_time = false;
        let message = match notice {
            Notice::Started(pid) => Message::Started(pid),
            Notice::Stopped => Message::Stopped,
            Notice::Warning(text) => Message::Warning(text),
            Notice::Ended(ending) => {
                // Lost digests and postponed clean-up cost only time.
                let _ = table.table().flush();
                if let Some(relocation) = &told_plan.settings.relocation {
                    relocation.keep(&results);
                }
                is_time = results.account(told_plan.limits).unwrap_or(false);
                ended.borrow().write_outputs();
                write_down(&told_plan, &results, &report, ending, 0);
                if let Some(remote) = &sharing {
                    remote.finish();
                }
                let text = told(&told_plan, &report);
                os::die_with_parent(false);
                Message::Ended(ending, text)
            }
        };
        send(&to_front, &message);
        if is_time {
            // No process waits any more.
            let _ = results.tidy(told_plan.limits);
        }
    };
    let tracer = Tracer {
        session: session.clone(),
        handle: runtime.handle(),
        machine: found.machine,
        root: Rc::new((found.keyed, found.miss)),
        min_us: plan.min_us,
        notify: Rc::new(notify),
        filtered: !plan.no_seccomp,
    };
    runtime.run(move |tracee| tracer.clone().follow(tracee))?;
    session.borrow_mut().jobs.finish();
    Ok(())
}
