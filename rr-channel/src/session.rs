//! What this process does: nothing, record, or replay. Decided once, at first use.
//!
//! `RR_CHANNEL` chooses (`record`, `replay`, `off`; unset means off), and
//! `RR_CHANNEL_LOG` names the recording's directory. A process that a tool started for
//! its sake is told from those that it starts itself by `RR_CHANNEL_PROCESS`.
//! `RR_CHANNEL_CHAOS` perturbs a run that is recorded, and one that is not: to that end it
//! is run as if recorded, into no log. `RR_CHANNEL_PLACES` has a recording say more.
//! `RR_CHANNEL_PATIENCE` has a replay wait so many times as long as usual before it takes
//! itself for stuck where only time can tell, `RR_CHANNEL_DESYNC=stop` has it end when a thread
//! leaves its log, and `RR_CHANNEL_FAST_TIMEOUTS` not wait for deadlines. Trouble with any of
//! them never stops the program: a line on standard error says what was wrong, and the program
//! runs as if off.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use rustc_hash::FxHashMap;

use crate::chaos;
use crate::identity::{ChannelId, Dti, ThreadId};
use crate::interpose;
use crate::log::{
    Recording, RecordingError, SESSION_FILE, Writer, file_name, places_name, session_header,
};
use crate::places;
use crate::pool;
use crate::random;
use crate::replay::{self, Draws, Engine};
use crate::sys;

/// What this process does with its nondeterminism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Channels are the plain ones.
    Off,
    /// Outcomes are logged.
    Record,
    /// Outcomes are made those of a log.
    Replay,
}

/// What this process does, as decided by `RR_CHANNEL` when it was first asked.
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

/// The process's one session.
#[derive(Debug)]
pub(crate) enum Session {
    Off,
    Record(Recorder),
    Replay(Box<Engine>),
}

/// The session, started if this is its first use.
#[inline]
pub(crate) fn session() -> &'static Session {
    static SESSION: OnceLock<Session> = OnceLock::new();
    SESSION.get_or_init(|| {
        interpose::link();
        random::link();
        let (mode, seed) = (env::var_os("RR_CHANNEL"), env::var_os("RR_CHANNEL_CHAOS"));
        Session::start(mode.as_deref(), &log_dir(), seed.as_deref()).unwrap_or_else(|error| {
            complain(&error);
            Session::Off
        })
    })
}

fn log_dir() -> PathBuf {
    env::var_os("RR_CHANNEL_LOG").map_or_else(|| PathBuf::from("rr-channel-log"), PathBuf::from)
}

/// One line on standard error. Errors in writing it are ignored: there is nowhere
/// left to report them.
pub(crate) fn complain(message: &dyn std::fmt::Display) {
    let _ = writeln!(io::stderr(), "rr-channel: {message}");
}

/// Why a session cannot start.
#[derive(Debug)]
pub(crate) enum StartError {
    Mode(String),
    Seed(String),
    Occupied(PathBuf),
    Create {
        dir: PathBuf,
        source: io::Error,
    },
    Recording(RecordingError),
    Program {
        dir: PathBuf,
        recorded: String,
        running: String,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Mode(mode) => write!(
                f,
                "unknown mode RR_CHANNEL={mode}: use record, replay or off"
            ),
            StartError::Seed(seed) => {
                write!(
                    f,
                    "RR_CHANNEL_CHAOS={seed} is no seed: use a whole number, or two as SEED:LENGTH"
                )
            }
            StartError::Occupied(dir) => write!(
                f,
                "{} already holds a recording: remove it, or name another directory",
                dir.display()
            ),
            StartError::Create { dir, source } => {
                write!(f, "cannot record to {}: {source}", dir.display())
            }
            StartError::Recording(error) => write!(f, "cannot replay {error}"),
            StartError::Program {
                dir,
                recorded,
                running,
            } => write!(
                f,
                "cannot replay {}: it is a recording of `{recorded}`, and this is `{running}`",
                dir.display()
            ),
        }?;
        f.write_str("; running as if off")
    }
}

impl From<RecordingError> for StartError {
    fn from(error: RecordingError) -> Self {
        StartError::Recording(error)
    }
}

impl Session {
    /// Who records, if anybody does.
    pub(crate) fn recorder(&self) -> Option<&Recorder> {
        match self {
            Session::Off => None,
            Session::Record(recorder) => Some(recorder),
            Session::Replay(engine) => engine.recorder(),
        }
    }

    fn start(
        mode: Option<&OsStr>,
        dir: &Path,
        seed: Option<&OsStr>,
    ) -> Result<Session, StartError> {
        let meant = env::var("RR_CHANNEL_PROCESS");
        if meant.is_ok_and(|pid| pid != std::process::id().to_string()) {
            return Ok(Session::Off);
        }
        let seed = seed
            .filter(|seed| !seed.is_empty())
            .map(|seed| {
                let text = seed.to_string_lossy();
                text.parse()
                    .map_err(|_| StartError::Seed(text.into_owned()))
            })
            .transpose()?;
        let session = match mode.map(|mode| mode.to_string_lossy()).as_deref() {
            None | Some("" | "off") if seed.is_none() => return Ok(Session::Off),
            None | Some("" | "off") => Session::Record(Recorder::into_nowhere()),
            Some("record") => {
                let recorder = Recorder::create(dir)?;
                if env::var_os("RR_CHANNEL_PLACES").is_some_and(|value| value == "1") {
                    places::start();
                }
                Session::Record(recorder)
            }
            Some("replay") => {
                let again = env::var_os("RR_CHANNEL_NEW_LOG").filter(|dir| !dir.is_empty());
                let engine = load(dir, again.as_deref().map(Path::new))?;
                return Ok(Session::Replay(Box::new(engine)));
            }
            Some(other) => return Err(StartError::Mode(other.to_owned())),
        };
        if let Some(seed) = seed {
            chaos::start(seed);
        }
        Ok(session)
    }
}

/// The name of this program's executable, without its directory and, for test
/// executables, without the hash that cargo appends.
fn program() -> String {
    let path = env::current_exe().unwrap_or_default();
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    match name.rsplit_once('-') {
        Some((stem, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => {
            stem.to_owned()
        }
        _ => name,
    }
}

/// The recording side: where logs go, and which thread has which number.
#[derive(Debug)]
pub(crate) struct Recorder {
    names: Mutex<Names>,
    places: Mutex<FxHashMap<&'static Location<'static>, u32>>,
    /// Where the recording is; `None` if there is to be none.
    sink: Option<Sink>,
}

/// A recording in the making.
#[derive(Debug)]
struct Sink {
    dir: PathBuf,
    /// The session's file, to which a line is appended for each thread.
    session: File,
    began: Instant,
}

impl Recorder {
    fn create(dir: &Path) -> Result<Self, StartError> {
        let fail = |source| StartError::Create {
            dir: dir.to_owned(),
            source,
        };
        fs::create_dir_all(dir).map_err(fail)?;
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(dir.join(SESSION_FILE));
        let mut file = match file {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(StartError::Occupied(dir.to_owned()));
            }
            Err(error) => return Err(fail(error)),
        };
        file.write_all(session_header(&program()).as_bytes())
            .map_err(fail)?;
        sys::watch_forks();
        // The program may change its working directory before its next thread.
        let dir = std::path::absolute(dir).map_err(fail)?;
        Ok(Recorder {
            names: Mutex::default(),
            places: Mutex::default(),
            sink: Some(Sink {
                dir,
                session: file,
                began: Instant::now(),
            }),
        })
    }

    /// A recorder that names threads, and records nothing.
    fn into_nowhere() -> Self {
        sys::watch_forks();
        Recorder {
            names: Mutex::default(),
            places: Mutex::default(),
            sink: None,
        }
    }

    /// Numbers the calling thread; whether it can be recorded.
    pub(crate) fn register(&self, who: Who) -> (ThreadId, Dti, bool) {
        let (id, dti) = lock(&self.names).intern(who);
        let is_recorded = self.appeared(id, &dti);
        (id, dti, is_recorded)
    }

    /// A thread appeared that has this number; whether it can be recorded.
    pub(crate) fn appeared(&self, id: ThreadId, dti: &Dti) -> bool {
        let Some(sink) = &self.sink else {
            return false;
        };
        let noted = sink.note(&format!("thread {} {dti}\n", id.0));
        if places::is_on()
            && let Some(name) = std::thread::current().name()
        {
            // Without it, the thread is called by its place in the tree.
            let name = name.replace('\n', " ");
            let _ = sink.note(&format!("named {} {name}\n", id.0));
        }
        if let Err(error) = &noted {
            complain(&format_args!("cannot record thread {dti}: {error}"));
        }
        noted.is_ok()
    }

    /// A thread ended that has logged nothing.
    pub(crate) fn ended(&self, id: ThreadId) {
        if let Some(sink) = &self.sink {
            // Without the line, a replay takes the thread for one that was cut off.
            let _ = sink.note(&format!("ended {}\n", id.0));
        }
    }

    /// Creates the log of a thread that [can be recorded](Recorder::register).
    pub(crate) fn open_log(&self, id: ThreadId, dti: &Dti) -> io::Result<Writer> {
        let sink = self.sink.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let log = Writer::create(&sink.dir.join(file_name(id)), id, dti)?;
        Ok(log.timed(sink.began))
    }

    /// Creates the log of where a thread's operations are.
    pub(crate) fn open_places(&self, id: ThreadId, dti: &Dti) -> io::Result<Writer> {
        let sink = self.sink.as_ref().ok_or(io::ErrorKind::NotFound)?;
        Writer::create(&sink.dir.join(places_name(id)), id, dti)
    }

    /// The messages of a channel are of this type.
    pub(crate) fn carries(&self, channel: ChannelId, of: &str) {
        if let Some(sink) = &self.sink {
            // Without the line, the channel is called by its name only.
            let (creator, number) = (channel.creator.0, channel.number);
            let _ = sink.note(&format!("carries {creator} {number} {of}\n"));
        }
    }

    /// The number of a place.
    pub(crate) fn place(&self, place: &'static Location<'static>) -> Option<u32> {
        let sink = self.sink.as_ref()?;
        let mut known = lock(&self.places);
        let next = known.len() as u32;
        Some(*known.entry(place).or_insert_with(|| {
            let _ = sink.note(&format!("place {next} {place}\n"));
            next
        }))
    }
}

impl Sink {
    /// Appends a line, by one system call: a process that dies leaves whole lines, except
    /// perhaps for the last one.
    fn note(&self, line: &str) -> io::Result<()> {
        (&self.session).write_all(line.as_bytes())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who registers: a thread of known path, or one that came from elsewhere.
#[derive(Debug)]
pub(crate) enum Who {
    Known(Dti),
    Foreign(String),
}

/// The interned threads of a session.
#[derive(Debug, Default)]
pub(crate) struct Names {
    ids: FxHashMap<Dti, ThreadId>,
    next: u32,
    foreign: FxHashMap<String, u32>,
}

impl Names {
    /// Takes over a recorded thread's number.
    pub(crate) fn preset(&mut self, id: ThreadId, dti: Dti) {
        self.next = self.next.max(id.0 + 1);
        self.ids.insert(dti, id);
    }

    /// The thread's number and name, the same ones for the same path.
    pub(crate) fn intern(&mut self, who: Who) -> (ThreadId, Dti) {
        let dti = match who {
            Who::Known(dti) => dti,
            Who::Foreign(name) => {
                let occurrence = self.foreign.entry(name.clone()).or_default();
                *occurrence += 1;
                Dti::foreign(name, *occurrence)
            }
        };
        if let Some(id) = self.ids.get(&dti) {
            return (*id, dti);
        }
        // Threads beyond the limit share the last number; their messages mix.
        let id = ThreadId(self.next.min(ThreadId::LIMIT - 1));
        self.next = id.0 + 1;
        self.ids.insert(dti.clone(), id);
        (id, dti)
    }
}

impl Who {
    /// The calling thread, if nobody said who it is.
    pub(crate) fn current() -> Who {
        if let Some(task) = pool::task() {
            return Who::Known(task);
        }
        if sys::is_main_thread() {
            return Who::Known(Dti::main());
        }
        let thread = std::thread::current();
        let name = thread.name();
        match interpose::seat() {
            Some(seat) if !(seat.name_wins && name.is_some()) => Who::Known(seat.dti),
            _ => Who::Foreign(name.unwrap_or_default().to_owned()),
        }
    }
}

/// An engine that replays the recording in `dir`, and records what happens in `again`.
fn load(dir: &Path, again: Option<&Path>) -> Result<Engine, StartError> {
    let recording = Recording::open(dir)?;
    let running = program();
    if recording.program() != running {
        return Err(StartError::Program {
            dir: dir.to_owned(),
            recorded: recording.program().to_owned(),
            running,
        });
    }
    let mut logs = Vec::new();
    let mut draws = Draws::default();
    for thread in recording.threads() {
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
    }
    sys::watch_forks();
    if let Some(path) = env::var_os("RR_CHANNEL_REPORT") {
        replay::report_to(path.into());
    }
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
    let again = again.map(Recorder::create).transpose()?;
    Ok(Engine::new(logs, draws, patience(), again))
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
                "RR_CHANNEL_PATIENCE={text} is no positive number: waiting as long as usual"
            ));
            1.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogError;

    #[test]
    fn a_thread_keeps_its_number() {
        let mut names = Names::default();
        let main = names.intern(Who::Known(Dti::main()));
        let child = names.intern(Who::Known(Dti::main().child(1)));
        assert_ne!(main.0, child.0);
        assert_eq!(names.intern(Who::Known(Dti::main())), main);
    }

    #[test]
    fn recorded_numbers_are_handed_out_again() {
        let mut names = Names::default();
        names.preset(ThreadId(5), Dti::main());
        assert_eq!(names.intern(Who::Known(Dti::main())).0, ThreadId(5));
        assert_eq!(
            names.intern(Who::Known(Dti::main().child(1))).0,
            ThreadId(6)
        );
    }

    #[test]
    fn foreign_threads_of_one_name_are_counted() {
        let mut names = Names::default();
        let names: Vec<_> = ["w", "w", ""]
            .map(|name| names.intern(Who::Foreign(name.to_owned())).1.to_string())
            .into();
        assert_eq!(names, ["w", "w#2", "#1"]);
    }

    #[test]
    fn an_unknown_mode_is_named() {
        let err = Session::start(Some(OsStr::new("rec")), Path::new("unused"), None).unwrap_err();
        insta::assert_snapshot!(err, @"unknown mode RR_CHANNEL=rec: use record, replay or off; running as if off");
    }

    #[test]
    fn what_is_no_seed_is_named() {
        let seed = Some(OsStr::new("dice"));
        let err = Session::start(None, Path::new("unused"), seed).unwrap_err();
        insta::assert_snapshot!(err, @"RR_CHANNEL_CHAOS=dice is no seed: use a whole number, or two as SEED:LENGTH; running as if off");
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
    fn what_is_no_recording_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let missing = load(dir.path(), None).unwrap_err();
        assert!(matches!(
            missing,
            StartError::Recording(RecordingError::Io { .. })
        ));

        fs::write(dir.path().join(SESSION_FILE), "shopping list").unwrap();
        let err = load(dir.path(), None).unwrap_err();
        assert!(matches!(
            err,
            StartError::Recording(RecordingError::NotARecording(_))
        ));

        fs::write(
            dir.path().join(SESSION_FILE),
            "rr-channel 3\nprogram other\n",
        )
        .unwrap();
        let err = load(dir.path(), None).unwrap_err();
        assert!(matches!(err, StartError::Program { recorded, .. } if recorded == "other"));
    }

    #[test]
    fn a_damaged_thread_log_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(dir.path()).unwrap();
        recorder.register(Who::Known(Dti::main()));
        fs::write(dir.path().join("thread-0.rrlog"), [0; 200]).unwrap();
        let err = load(dir.path(), None).unwrap_err();
        assert!(matches!(
            err,
            StartError::Recording(RecordingError::Log {
                source: LogError::NotALog,
                ..
            })
        ));
    }
}
