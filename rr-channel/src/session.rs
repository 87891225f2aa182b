//! What this process does: nothing, record, or replay. Decided once, at first use.
//!
//! `RR_CHANNEL` chooses (`record`, `replay`, `off`; unset means off), and
//! `RR_CHANNEL_LOG` names the recording's directory. Which process of a recording this is
//! `RR_CHANNEL_PROCESS` says, which is set for those that a recorded process starts
//! ([`process`](crate::process)). A child made by fork(2) that uses this crate begins a
//! session of its own then, by what its parent [left](Fork) for it.
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
use std::sync::{Mutex, Once, OnceLock, PoisonError};
use std::time::Instant;

use rustc_hash::FxHashMap;

use crate::chaos;
use crate::context;
use crate::current::Current;
use crate::identity::{ChannelId, Dti, ProcessPath, ThreadId};
use crate::interpose;
use crate::log::{
    PAYLOADS_FILE, PAYLOADS_TITLE, Payload, Recording, RecordingError, SESSION_FILE,
    StartedProcess, Writer, file_name, places_name, process_line, session_header,
};
use crate::payload;
use crate::places;
use crate::pool;
use crate::process::{Home, Tie, Variables};
use crate::random;
use crate::replay::{self, Draws, Engine, ReportFile};
use crate::sys;
use crate::tag::Tag;

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
#[expect(clippy::large_enum_variant, reason = "there is one in a process")]
pub(crate) enum Session {
    Off,
    Record(Recorder),
    Replay(Box<Engine>),
}

/// A session that began, and which process it is of.
#[derive(Debug)]
struct Started {
    session: Session,
    /// `None` of one that no log is about.
    home: Option<Home>,
    report: Option<ReportFile>,
}

static CURRENT: Current<Started> = Current::none();
/// In a child made by fork(2) that has not begun a session: its parent's.
static PARENT: Current<Started> = Current::none();
/// What the parent left for it.
static LEFT: Current<Fork> = Current::none();

/// The session, started if this is its first use.
#[inline(always)]
pub(crate) fn session() -> &'static Session {
    match CURRENT.get() {
        Some(started) => &started.session,
        None => &begin().session,
    }
}

#[cold]
#[inline(never)]
fn begin() -> &'static Started {
    if let Some(parent) = PARENT.get() {
        return begin_in_child(parent);
    }
    static BEGINNING: Mutex<()> = Mutex::new(());
    let _beginning = lock(&BEGINNING);
    if let Some(started) = CURRENT.get() {
        return started;
    }
    interpose::link();
    random::link();
    let (mode, seed) = (env::var_os("RR_CHANNEL"), env::var_os("RR_CHANNEL_CHAOS"));
    let started = Started::start(mode.as_deref(), DEFAULT_DIR, seed.as_deref());
    CURRENT.set(started.unwrap_or_else(|error| {
        complain(&error);
        Started::off()
    }))
}

/// Where a recording is if nothing is said.
const DEFAULT_DIR: &str = "rr-channel-log";

/// Which process of a recording this is; `None` if there is no recording.
pub(crate) fn home() -> Option<&'static Home> {
    session();
    CURRENT.get()?.home.as_ref()
}

/// Where this process's replay reports to.
pub(crate) fn report_file() -> Option<&'static ReportFile> {
    CURRENT.get()?.report.as_ref()
}

// Processes that this one starts.

/// What a child made by fork(2) needs to begin a session.
#[derive(Debug)]
pub(crate) struct Fork {
    home: Home,
    /// The first number that no thread of the parent has.
    next: u32,
    /// For a program that it executes.
    pub(crate) variables: Variables,
}

/// What the next process that the calling thread starts is to be told; `None` if it is not
/// to be part of a recording.
pub(crate) fn next_process() -> Option<Variables> {
    Some(next_home()?.variables(Tie::Below))
}

/// The process with this number has this id.
pub(crate) fn started(number: u32, pid: i32) {
    if let (Some(recorder), Ok(pid)) = (session().recorder(), u32::try_from(pid)) {
        lock(&recorder.children).push((number, pid));
    }
}

/// The same of a program in place of this one. (`std` has replaced the environment by then,
/// so it is too late to begin a session; if there is none, the program may be what was meant.)
pub(crate) fn next_program() -> Option<Variables> {
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
pub(crate) fn forking(fork: impl FnOnce() -> i32) -> i32 {
    let left = next_home().map(|home| Fork {
        next: match session() {
            Session::Record(recorder) => lock(&recorder.names).next,
            _ => 0,
        },
        variables: home.variables(Tie::Below),
        home,
    });
    // Whoever holds these does not exist in the child.
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
            // A child that executes a program must not do much more than this.
            LEFT.set(left);
        }
        (Some(left), pid) => started(left.variables.number, pid),
        (None, _) => {}
    }
    result
}

/// What a program that the calling process executes is to be told, if this is a child that
/// has begun no session. Does nothing that is not safe after a fork in a threaded process.
pub(crate) fn left_for_program() -> Option<&'static Variables> {
    LEFT.get().map(|left| &left.variables)
}

/// The calling process is a child made by fork(2), and has no session so far. Does nothing
/// that is not safe after a fork in a threaded process.
pub(crate) fn leave_to_parent() {
    PARENT.take_from(&CURRENT);
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
        return parent;
    };
    LEFT.take_from(&Current::none());
    PARENT.take_from(&Current::none());
    let own = CURRENT.set(own);
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
            report: None,
        }
    }

    /// The session of a child made by fork(2); `None` if there is nothing to be done.
    fn in_child(&self, left: &Fork) -> Result<Option<Started>, StartError> {
        let home = left.home.clone();
        let (session, report) = match &self.session {
            Session::Off => return Ok(None),
            Session::Record(_) => {
                let recorder = Recorder::create(&home.dir)?;
                lock(&recorder.names).next = left.next;
                (Session::Record(recorder), None)
            }
            // One that did nothing when it was recorded has no log.
            Session::Replay(_) if !home.dir.join(SESSION_FILE).exists() => return Ok(None),
            Session::Replay(parent) => {
                let mut engine = load(&home)?;
                engine.take_over(parent);
                (Session::Replay(Box::new(engine)), ReportFile::open(&home))
            }
        };
        Ok(Some(Started {
            session,
            home: Some(home),
            report,
        }))
    }
}

/// One line on standard error. Errors in writing it are ignored: there is nowhere
/// left to report them.
pub(crate) fn complain(message: &dyn std::fmt::Display) {
    let home = CURRENT.get().and_then(|started| started.home.as_ref());
    let _ = match home.map(|home| &home.path) {
        Some(path) if !path.numbers().is_empty() => {
            writeln!(io::stderr(), "rr-channel: process {path}: {message}")
        }
        _ => writeln!(io::stderr(), "rr-channel: {message}"),
    };
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
}

impl Started {
    fn start(
        mode: Option<&OsStr>,
        default: &str,
        seed: Option<&OsStr>,
    ) -> Result<Started, StartError> {
        let Some(home) = Home::of_environment(default) else {
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
            None | Some("" | "off") => Session::Record(Recorder::into_nowhere()),
            Some("record") => {
                let recorder = Recorder::create(&home.dir)?;
                if env::var_os("RR_CHANNEL_PLACES").is_some_and(|value| value == "1") {
                    places::start();
                    start_payloads();
                }
                Session::Record(recorder)
            }
            Some("replay") => {
                let engine = load(&home)?;
                ask_for_replays();
                started.report = ReportFile::open(&home);
                Session::Replay(Box::new(engine))
            }
            Some(other) => return Err(StartError::Mode(other.to_owned())),
        };
        let has_log =
            !matches!(&started.session, Session::Record(recorder) if recorder.sink.is_none());
        if let Session::Record(_) = started.session
            && let Some(seed) = seed
        {
            chaos::start(seed);
        }
        started.home = has_log.then_some(home);
        Ok(started)
    }
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
    /// The processes that were started, and their ids.
    children: Mutex<Vec<(u32, u32)>>,
    /// Where the recording is; `None` if there is to be none.
    sink: Option<Sink>,
}

/// A recording in the making.
#[derive(Debug)]
struct Sink {
    dir: PathBuf,
    /// The session's file, to which a line is appended for each thread.
    session: File,
    /// What messages hold, if that is recorded and can be.
    payloads: OnceLock<Option<File>>,
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
        static AT_EXIT: Once = Once::new();
        AT_EXIT.call_once(|| sys::at_exit(note_exit));
        Ok(Recorder {
            names: Mutex::default(),
            places: Mutex::default(),
            children: Mutex::default(),
            sink: Some(Sink {
                dir: dir.to_owned(),
                session: file,
                payloads: OnceLock::new(),
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
            children: Mutex::default(),
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

    /// The number of a thread of another process.
    #[cfg(feature = "ipc_channel")]
    pub(crate) fn elsewhere(&self, dti: Dti) -> ThreadId {
        let (id, is_new) = lock(&self.names).intern_new(dti.clone());
        if is_new {
            self.appeared_elsewhere(id, &dti);
        }
        id
    }

    /// A thread of another process has this number.
    #[cfg(feature = "ipc_channel")]
    pub(crate) fn appeared_elsewhere(&self, id: ThreadId, dti: &Dti) {
        if let Some(sink) = &self.sink {
            // Without the line, a replay finds its messages missing, and says so.
            let _ = sink.note(&format!("thread {} {dti}\nended {}\n", id.0, id.0));
        }
    }

    /// The thread starts its `count`th process; which of this process's that is. `None` if
    /// nothing is recorded.
    fn starts(&self, thread: ThreadId, count: u32) -> Option<u32> {
        self.sink.as_ref()?;
        let number = lock(&self.names).intern_process(thread, count);
        self.started(number, thread, count).ok()?;
        Some(number)
    }

    /// The thread starts its `count`th process, which has this number.
    pub(crate) fn started(&self, number: u32, thread: ThreadId, count: u32) -> io::Result<()> {
        let sink = self.sink.as_ref().ok_or(io::ErrorKind::NotFound)?;
        sink.note(&process_line(&StartedProcess {
            number,
            thread,
            count,
            reaped: false,
        }))
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

    /// A message holds this.
    pub(crate) fn holds(&self, tag: Tag, payload: &Payload) {
        let Some(sink) = &self.sink else { return };
        let file = sink.payloads.get_or_init(|| {
            let path = sink.dir.join(PAYLOADS_FILE);
            let file = OpenOptions::new().append(true).create_new(true).open(path);
            let begun = file.and_then(|mut file| {
                file.write_all(PAYLOADS_TITLE.as_bytes())?;
                Ok(file)
            });
            if let Err(error) = &begun {
                complain(&format_args!("cannot record what messages hold: {error}"));
            }
            begun.ok()
        });
        if let Some(mut file) = file.as_ref() {
            let line = format!("{} {} {payload}\n", tag.sender().0, tag.number());
            // As far as they go, payloads are good.
            let _ = file.write_all(line.as_bytes());
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
    /// Processes, by the thread that starts them and which one of its that is.
    processes: FxHashMap<(ThreadId, u32), u32>,
    last_process: u32,
}

impl Names {
    /// Takes over a recorded process's number.
    pub(crate) fn preset_process(&mut self, process: StartedProcess) {
        self.last_process = self.last_process.max(process.number);
        let who = (process.thread, process.count);
        self.processes.insert(who, process.number);
    }

    /// The threads of other processes.
    #[cfg(feature = "ipc_channel")]
    pub(crate) fn elsewhere(&self) -> rustc_hash::FxHashSet<ThreadId> {
        let elsewhere = self.ids.iter().filter(|(dti, _)| dti.is_elsewhere());
        elsewhere.map(|(_, id)| *id).collect()
    }

    /// The number of the thread's `count`th process.
    pub(crate) fn intern_process(&mut self, thread: ThreadId, count: u32) -> u32 {
        let next = self.last_process + 1;
        let number = *self.processes.entry((thread, count)).or_insert(next);
        self.last_process = self.last_process.max(number);
        number
    }

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
        let (id, _) = self.intern_new(dti.clone());
        (id, dti)
    }

    /// A thread's number, and whether it is new.
    pub(crate) fn intern_new(&mut self, dti: Dti) -> (ThreadId, bool) {
        if let Some(id) = self.ids.get(&dti) {
            return (*id, false);
        }
        // Threads beyond the limit share the last number; their messages mix.
        let id = ThreadId(self.next.min(ThreadId::LIMIT - 1));
        self.next = id.0 + 1;
        self.ids.insert(dti, id);
        (id, true)
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

/// An engine that replays a process's recording.
fn load(home: &Home) -> Result<Engine, StartError> {
    let dir = &home.dir;
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
    }
    sys::watch_forks();
    let again = home.again.as_deref().map(Recorder::create).transpose()?;
    #[cfg_attr(not(feature = "ipc_channel"), expect(unused_mut))]
    let mut engine = Engine::new(names, logs, draws, patience(), again);
    #[cfg(feature = "ipc_channel")]
    if !recording.processes().is_empty() || !home.path.numbers().is_empty() {
        engine.owes(replay::Owed::of(home));
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

/// What the environment asks of replays.
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

    fn home(dir: &Path) -> Home {
        Home {
            dir: dir.to_owned(),
            again: None,
            ..Home::of_environment("unused").unwrap()
        }
    }

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
        let err = Started::start(Some(OsStr::new("rec")), "unused", None).unwrap_err();
        insta::assert_snapshot!(err, @"unknown mode RR_CHANNEL=rec: use record, replay or off; running as if off");
    }

    #[test]
    fn what_is_no_seed_is_named() {
        let seed = Some(OsStr::new("dice"));
        let err = Started::start(None, "unused", seed).unwrap_err();
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
        let missing = load(&home(dir.path())).unwrap_err();
        assert!(matches!(
            missing,
            StartError::Recording(RecordingError::Io { .. })
        ));

        fs::write(dir.path().join(SESSION_FILE), "shopping list").unwrap();
        let err = load(&home(dir.path())).unwrap_err();
        assert!(matches!(
            err,
            StartError::Recording(RecordingError::NotARecording(_))
        ));

        fs::write(
            dir.path().join(SESSION_FILE),
            "rr-channel 3\nprogram other\n",
        )
        .unwrap();
        let err = load(&home(dir.path())).unwrap_err();
        assert!(matches!(err, StartError::Program { recorded, .. } if recorded == "other"));
    }

    #[test]
    fn a_damaged_thread_log_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(dir.path()).unwrap();
        recorder.register(Who::Known(Dti::main()));
        fs::write(dir.path().join("thread-0.rrlog"), [0; 200]).unwrap();
        let err = load(&home(dir.path())).unwrap_err();
        assert!(matches!(
            err,
            StartError::Recording(RecordingError::Log {
                source: LogError::NotALog,
                ..
            })
        ));
    }
}
