//! The mode of this process: off, record or replay. Decided once, at first use.
//!
//! `RR_CHANNEL` chooses the mode (`record`, `replay`, `off`; unset means off), and
//! `RR_CHANNEL_LOG` names the recording's directory. `RR_CHANNEL_PROCESS` says which process of a
//! recording this is; a recorded process sets it for those that it starts
//! ([`process`](crate::recorder::process)). A child made by fork(2) that uses this crate begins a
//! session of its own then, from the data that its parent [left](Fork) for it.
//!
//! `RR_CHANNEL_CHAOS` perturbs a run, recorded or not; a run that is not recorded is then treated
//! as recorded, but into no log. `RR_CHANNEL_PLACES` adds source positions to a recording.
//! `RR_CHANNEL_PATIENCE` is a factor: where only time can tell that a replay is stuck, the replay
//! waits that many times as long as usual. `RR_CHANNEL_DESYNC=stop` ends a replay when a thread
//! leaves its log. `RR_CHANNEL_FAST_TIMEOUTS` makes a replay not wait for deadlines. An error in
//! any of them never stops the program: a line on standard error says what was wrong, and the
//! program runs as if off.

use std::env;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Mutex, Once};

use rr_channel_log::identity::ProcessPath;
use rr_channel_log::{Recording, RecordingError, SESSION_FILE, clocks_name, file_name};

use crate::engine::allocator;
use crate::engine::chaos;
use crate::engine::context;
use crate::engine::fork;
use crate::engine::interpose;
use crate::engine::payload;
use crate::engine::replay::{self, Clocks, Draws, Engine, Report, ReportFile};
use crate::engine::system_calls;
use crate::platform::apart::apart;
use crate::platform::current::Current;
use crate::platform::lock::lock;
use crate::platform::sys;
use crate::recorder::Recorder;
use crate::recorder::callers;
use crate::recorder::names::Names;
use crate::recorder::places;
use crate::recorder::process::{self, Home, Tie, Variables, complain, program};
use crate::recorder::start_error::StartError;

/// The treatment of this process's nondeterminism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Channels are the plain ones.
    Off,
    /// Outcomes are logged.
    Record,
    /// Outcomes are made those of a log.
    Replay,
}

/// Returns the mode of this process, as decided by `RR_CHANNEL` at its first use.
///
/// [`Mode::Off`] also where recording or replay was asked for and could not start, and
/// where `RR_CHANNEL_CHAOS` alone is set.
///
/// ```
/// // Documentation examples run without `RR_CHANNEL`.
/// assert_eq!(rr_channel::mode(), rr_channel::Mode::Off);
/// ```
pub fn mode() -> Mode {
    match session() {
        Session::Off => Mode::Off,
        Session::Record(recorder) if recorder.sink.is_some() => Mode::Record,
        Session::Record(_) => Mode::Off,
        Session::Replay(_) => Mode::Replay,
    }
}

/// The state of this process's replay so far; `None` if it is not one.
///
/// Threads that have not ended may still go on, so the end of `main` is a good
/// place to ask.
///
/// ```
/// // Documentation examples run without `RR_CHANNEL`.
/// assert_eq!(rr_channel::replay_report(), None);
/// ```
pub fn replay_report() -> Option<Report> {
    match session() {
        Session::Replay(engine) => Some(engine.report()),
        _ => None,
    }
}

/// The process's one session.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one in a process")]
pub enum Session {
    Off,
    Record(Recorder),
    Replay(&'static Engine),
}

/// A session that began, and which process it is of.
#[derive(Debug)]
struct Started {
    session: Session,
    /// `None` of one that no log is about.
    home: Option<Home>,
}

static CURRENT: Current<Started> = Current::none();
/// In a child made by fork(2) that has not begun a session: its parent's.
static PARENT: Current<Started> = Current::none();
/// The information that the parent left for this process.
static LEFT: Current<Fork> = Current::none();

/// The session, started if this is its first use.
#[inline(always)]
pub fn session() -> &'static Session {
    match CURRENT.get() {
        Some(started) => &started.session,
        // Its draws and reads are its own.
        None => &apart(begin).session,
    }
}

#[cold]
#[inline(never)]
fn begin() -> &'static Started {
    static NESTED: Started = Started::off();
    if allocator::is_at_work() {
        // The session begins, and allocates for that.
        return &NESTED;
    }
    allocator::at_work(begin_now)
}

fn begin_now() -> &'static Started {
    if let Some(parent) = PARENT.get() {
        return begin_in_child(parent);
    }
    // Where threads are interposed, there is only one so far: the session begins before the first
    // one is created.
    static BEGINNING: Mutex<()> = Mutex::new(());
    let _beginning = lock(&BEGINNING);
    if let Some(started) = CURRENT.get() {
        return started;
    }
    interpose::link();
    system_calls::link();
    let (mode, seed) = (env::var_os("RR_CHANNEL"), env::var_os("RR_CHANNEL_CHAOS"));
    let started = Started::start(mode.as_deref(), DEFAULT_DIR, seed.as_deref());
    let started = started.unwrap_or_else(|error| {
        complain(&error);
        Started::off()
    });
    set_current(started)
}

fn set_current(started: Started) -> &'static Started {
    // First: a thread that sees the session knows that it is on.
    system_calls::begun(&started.session);
    let started = CURRENT.set(started);
    process::complain_as(started.home.as_ref().map(|home| &home.path));
    started
}

/// In a child made by fork(2): begins its session, if it has none.
fn begin_in_forked() {
    session();
}

/// The directory of a recording if none is given.
const DEFAULT_DIR: &str = "rr-channel-log";

/// Which process of a recording this is; `None` if there is no recording.
pub fn home() -> Option<&'static Home> {
    session();
    CURRENT.get()?.home.as_ref()
}

// Processes that this one starts.

/// The data from which a child made by fork(2) begins a session.
#[derive(Debug)]
pub struct Fork {
    home: Home,
    /// The first number that no thread of the parent has.
    next: u32,
    /// For a program that it executes.
    pub variables: Variables,
}

/// Returns the variables for the next process that the calling thread starts; `None` if that
/// process is not part of a recording.
pub fn next_process() -> Option<Variables> {
    Some(next_home()?.variables(Tie::Below))
}

/// The process with this number has this id.
pub fn started(number: u32, pid: i32) {
    if let (Some(recorder), Ok(pid)) = (session().recorder(), u32::try_from(pid)) {
        lock(&recorder.children).push((number, pid));
    }
}

/// The same for a program in place of this one. (`std` has replaced the environment by then, so it
/// is too late to begin a session. If there is no session, the program may be the one to be
/// recorded.)
pub fn next_program() -> Option<Variables> {
    CURRENT.get()?;
    Some(next_home()?.variables(Tie::In))
}

fn next_home() -> Option<Home> {
    let session = session();
    if sys::is_forked() {
        return None;
    }
    let home = home()?;
    if home.path.numbers().len() == ProcessPath::DEEPEST {
        return None;
    }
    let (thread, count) = context::next_process()?;
    let number = match session {
        Session::Off => return None,
        Session::Record(recorder) => recorder.starts(thread, count)?,
        Session::Replay(engine) => engine.starts(thread, count),
    };
    Some(home.child(number))
}

/// Calls `fork`, which returns zero in a child, that can then begin a session of its own, and
/// the child's id in this process.
pub fn forking(fork: impl FnOnce() -> i32) -> i32 {
    // In a box by now: the child must not allocate before it executes a program.
    let left = next_home().map(|home| {
        Box::new(Fork {
            next: match session() {
                Session::Record(recorder) => lock(&recorder.names).next,
                _ => 0,
            },
            variables: home.variables(Tie::Below),
            home,
        })
    });
    // The holder of these locks does not exist in the child.
    let result = match (&left, session()) {
        (Some(_), Session::Record(recorder)) => {
            let _names = lock(&recorder.names);
            fork()
        }
        (Some(_), Session::Replay(engine)) => engine.holding_still(fork),
        _ => fork(),
    };
    match (left, result) {
        (Some(left), 0) => {
            LEFT.set_boxed(left);
        }
        (Some(left), pid) => started(left.variables.number, pid),
        (None, _) => {}
    }
    result
}

/// Returns the variables for a program that the calling process executes, if this is a child that
/// has begun no session. Does only what is safe after a fork in a threaded process.
pub fn left_for_program() -> Option<&'static Variables> {
    LEFT.get().map(|left| &left.variables)
}

/// The calling process is a child made by fork(2), and has no session so far. Does nothing
/// that is not safe after a fork in a threaded process.
pub fn leave_to_parent() {
    PARENT.take_from(&CURRENT);
    process::complain_as(None);
    LEFT.take_from(&Current::none());
}

/// A child made by fork(2) uses this crate for the first time.
fn begin_in_child(parent: &'static Started) -> &'static Started {
    let own = LEFT.get().and_then(|left| {
        let started = parent.in_child(left);
        started.unwrap_or_else(|error| {
            complain(&error);
            None
        })
    });
    let Some(own) = own else {
        CURRENT.take_from(&PARENT);
        process::complain_as(parent.home.as_ref().map(|home| &home.path));
        return parent;
    };
    LEFT.take_from(&Current::none());
    PARENT.take_from(&Current::none());
    let own = set_current(own);
    chaos::stop();
    sys::is_no_fork();
    context::begin_anew();
    own
}

impl Started {
    const fn off() -> Self {
        Started {
            session: Session::Off,
            home: None,
        }
    }

    /// The session of a child made by fork(2); `None` if there is nothing to be done.
    fn in_child(&self, left: &Fork) -> Result<Option<Started>, StartError> {
        let mut home = left.home.clone();
        let session = match &self.session {
            Session::Off => return Ok(None),
            Session::Record(_) => {
                let recorder = create(&home.dir)?;
                lock(&recorder.names).next = left.next;
                Session::Record(recorder)
            }
            // One that did nothing when it was recorded has no log.
            Session::Replay(_) if !home.dir.join(SESSION_FILE).exists() => return Ok(None),
            Session::Replay(parent) => {
                let mut engine = load(&mut home)?;
                engine.take_over(parent);
                engine.report_to(ReportFile::open(&home));
                Session::Replay(replay::hand_in(engine, begin_in_forked))
            }
        };
        Ok(Some(Started {
            session,
            home: Some(home),
        }))
    }
}

impl Session {
    /// The recorder, if this session records.
    pub fn recorder(&self) -> Option<&Recorder> {
        match self {
            Session::Off => None,
            Session::Record(recorder) => Some(recorder),
            Session::Replay(engine) => engine.recorder(),
        }
    }
}

impl Started {
    fn start(
        mode: Option<&OsStr>,
        default: &str,
        seed: Option<&OsStr>,
    ) -> Result<Started, StartError> {
        let Some(mut home) = Home::of_environment(default) else {
            return Ok(Started::off());
        };
        let seed = seed
            .filter(|seed| !seed.is_empty())
            .map(|seed| {
                let text = seed.to_string_lossy();
                text.parse()
                    .map_err(|_| StartError::Seed(text.into_owned()))
            })
            .transpose()?;
        let mut started = Started::off();
        started.session = match mode.map(|mode| mode.to_string_lossy()).as_deref() {
            None | Some("" | "off") if seed.is_none() => return Ok(started),
            None | Some("" | "off") => {
                fork::watch();
                Session::Record(Recorder::into_nowhere())
            }
            Some("record") => {
                let recorder = create(&home.dir)?;
                if env::var_os("RR_CHANNEL_PLACES").is_some_and(|value| value == "1") {
                    places::start();
                    if let Some(paths) = env::var_os("RR_CHANNEL_PROJECT") {
                        callers::look_for(&paths);
                    }
                    start_payloads();
                }
                Session::Record(recorder)
            }
            Some("replay") => {
                let mut engine = load(&mut home)?;
                ask_for_replays();
                engine.report_to(ReportFile::open(&home));
                Session::Replay(replay::hand_in(engine, begin_in_forked))
            }
            Some(other) => return Err(StartError::Mode(other.to_owned())),
        };
        let has_log =
            !matches!(&started.session, Session::Record(recorder) if recorder.sink.is_none());
        match (&started.session, seed) {
            (Session::Record(_), Some(seed)) => chaos::start(seed),
            (Session::Replay(_), Some(seed)) => chaos::start_shaking(seed),
            _ => {}
        }
        started.home = has_log.then_some(home);
        Ok(started)
    }
}

/// A recorder into `dir`, which is told of forks and of the exit.
fn create(dir: &Path) -> Result<Recorder, StartError> {
    static AT_EXIT: Once = Once::new();
    let recorder = Recorder::create(dir)?;
    fork::watch();
    AT_EXIT.call_once(|| sys::at_exit(note_exit));
    Ok(recorder)
}

/// Notes that the process comes to its exit, and for which of its children it has waited.
/// Without that, these are taken for processes that were killed, or went on.
extern "C" fn note_exit() {
    let started = CURRENT.get().filter(|_| !sys::is_forked());
    let recorder = started.and_then(|started| started.session.recorder());
    let Some((recorder, sink)) = recorder.and_then(|r| Some((r, r.sink.as_ref()?))) else {
        return;
    };
    // Others go on, and one may hold the lock.
    if let Ok(children) = recorder.children.try_lock() {
        for (number, pid) in &*children {
            if !sys::exists(*pid) {
                let _ = sink.note(&format!("reaped {number}\n"));
            }
        }
    }
    let _ = sink.note("exited\n");
}

/// An engine that replays a process's recording.
fn load(home: &mut Home) -> Result<Engine, StartError> {
    let dir = home.dir.clone();
    let dir = &dir;
    let recording = Recording::open(dir)?;
    let running = program();
    if recording.program() != running {
        return Err(StartError::Program {
            dir: dir.clone(),
            recorded: recording.program().to_owned(),
            running,
        });
    }
    let mut names = Names::default();
    let mut logs = Vec::new();
    let mut draws = Draws::default();
    let mut clocks = Clocks::default();
    for process in recording.processes() {
        names.preset_process(*process);
    }
    for thread in recording.threads() {
        names.preset(thread.id, thread.dti.clone());
        if thread.dti.is_elsewhere() {
            continue;
        }
        let log = recording.log(thread)?;
        let mut total = 0;
        for event in log.events() {
            let event = event.map_err(|source| RecordingError::Log {
                path: dir.join(file_name(thread.id)),
                source,
            })?;
            if event.op.is_apart() {
                draws.collect(thread.id, &event);
            } else {
                total += 1;
            }
        }
        logs.push((log, total));
        if let Some(reads) = recording.clocks(thread)? {
            let collected = clocks.collect(thread.id, &reads);
            collected.map_err(|source| RecordingError::Log {
                path: dir.join(clocks_name(thread.id)),
                source,
            })?;
        }
    }
    fork::watch();
    let again = home.again.as_deref().map(create).transpose()?;
    system_calls::replay_begins(clocks.first());
    let mut engine = Engine::new(names, logs, draws, clocks, patience(), again);
    if !recording.processes().is_empty() || !home.path.numbers().is_empty() {
        engine.waits_for(replay::Unsent::of(home));
    }
    Ok(engine)
}

/// Records what messages hold, if the environment asks for it.
fn start_payloads() {
    let asked = env::var_os("RR_CHANNEL_PAYLOAD").unwrap_or_default();
    match &*asked.to_string_lossy() {
        "" => {}
        "hash" => payload::start(payload::Kind::Hash),
        "bytes" => payload::start(payload::Kind::Bytes),
        asked => complain(&format_args!(
            "RR_CHANNEL_PAYLOAD={asked} is neither bytes nor hash: none are recorded"
        )),
    }
}

/// Applies the environment's settings for replays.
fn ask_for_replays() {
    if env::var_os("RR_CHANNEL_FAST_TIMEOUTS").is_some_and(|value| value == "1") {
        replay::time_out_at_once();
    }
    let asked = env::var_os("RR_CHANNEL_DESYNC").unwrap_or_default();
    match &*asked.to_string_lossy() {
        "" | "go-on" => {}
        "stop" => replay::stop_at_desync(),
        asked => complain(&format_args!(
            "RR_CHANNEL_DESYNC={asked} is neither stop nor go-on: going on"
        )),
    }
}

/// How many times as long as usual a replay waits where only time can tell.
fn patience() -> f64 {
    let Some(text) = env::var_os("RR_CHANNEL_PATIENCE").filter(|text| !text.is_empty()) else {
        return 1.0;
    };
    let text = text.to_string_lossy();
    match text.parse() {
        Ok(factor) if factor > 0.0 => factor,
        _ => {
            complain(&format_args!(
                "RR_CHANNEL_PATIENCE={text} is not a positive number: waiting as long as usual"
            ));
            1.0
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::recorder::names::Who;
    use rr_channel_log::LogError;
    use rr_channel_log::identity::Dti;

    fn home(dir: &Path) -> Home {
        Home {
            dir: dir.to_owned(),
            again: None,
            ..Home::of_environment("unused").unwrap()
        }
    }

    #[test]
    fn an_unknown_mode_is_named() {
        let err = Started::start(Some(OsStr::new("rec")), "unused", None).unwrap_err();
        insta::assert_snapshot!(err, @"unknown mode RR_CHANNEL=rec: use record, replay or off; running as if off");
    }

    #[test]
    fn an_invalid_seed_is_named() {
        let seed = Some(OsStr::new("dice"));
        let err = Started::start(None, "unused", seed).unwrap_err();
        insta::assert_snapshot!(err, @"RR_CHANNEL_CHAOS=dice is not a seed: use a whole number, or two as SEED:LENGTH; running as if off");
    }

    #[test]
    fn a_second_recording_does_not_touch_the_first() {
        let dir = tempfile::tempdir().unwrap();
        Recorder::create(dir.path()).unwrap();
        let before = fs::read(dir.path().join(SESSION_FILE)).unwrap();
        let err = Recorder::create(dir.path()).unwrap_err();
        assert!(matches!(err, StartError::Occupied(_)));
        assert_eq!(fs::read(dir.path().join(SESSION_FILE)).unwrap(), before);
    }

    #[test]
    fn an_invalid_recording_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let missing = load(&mut home(dir.path())).unwrap_err();
        assert!(matches!(
            missing,
            StartError::Recording(RecordingError::Io { .. })
        ));

        fs::write(dir.path().join(SESSION_FILE), "shopping list").unwrap();
        let err = load(&mut home(dir.path())).unwrap_err();
        assert!(matches!(
            err,
            StartError::Recording(RecordingError::NotARecording(_))
        ));

        fs::write(
            dir.path().join(SESSION_FILE),
            "rr-channel 3\nprogram other\n",
        )
        .unwrap();
        let err = load(&mut home(dir.path())).unwrap_err();
        assert!(matches!(err, StartError::Program { recorded, .. } if recorded == "other"));
    }

    #[test]
    fn a_damaged_thread_log_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(dir.path()).unwrap();
        recorder.register(Who::Known(Dti::main()));
        fs::write(dir.path().join("thread-0.rrlog"), [0; 200]).unwrap();
        let err = load(&mut home(dir.path())).unwrap_err();
        assert!(matches!(
            err,
            StartError::Recording(RecordingError::Log {
                source: LogError::NotALog,
                ..
            })
        ));
    }
}
