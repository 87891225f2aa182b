//! A recording as a whole: the directory, its `session` file, the threads it names.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::event::{Event, Op, Outcome};
use crate::identity::{ChannelId, Dti, ProcessPath, ThreadId};
use crate::payload::{self, PAYLOADS_FILE, Payload};
use crate::reading::{ClockLog, LogError, ThreadLog, read};

/// The name of the file that names the program and all threads.
pub const SESSION_FILE: &str = "session";
const TITLE: &str = "rr-channel ";
/// The version of the recordings that are written.
pub const VERSION: u8 = 6;
/// The oldest version that is read. Version 5 did not have what is read from clocks; version 4 did
/// not have processes that are started, nor threads of other processes, either; version 3 did not say what channels carry, either. They are
/// otherwise the same.
pub const OLDEST_VERSION: u8 = 3;

/// The first lines of a session's file.
pub fn session_header(program: &str) -> String {
    format!("{TITLE}{VERSION}\nprogram {program}\n")
}

/// The line that names the thread which started a process.
pub fn process_line(process: &StartedProcess) -> String {
    let (number, thread, count) = (process.number, process.thread.0, process.count);
    format!("process {number} {thread} {count}\n")
}

/// The name of a thread's log file.
pub fn file_name(thread: ThreadId) -> String {
    format!("thread-{}.rrlog", thread.0)
}

/// The name of the file that says where a thread's operations are.
pub fn places_name(thread: ThreadId) -> String {
    format!("thread-{}.places", thread.0)
}

/// The name of the file with what a thread read from clocks.
pub fn clocks_name(thread: ThreadId) -> String {
    format!("thread-{}.clocks", thread.0)
}

/// The directory of the log of a process, within that of the one that started it.
pub fn dir_name(number: u32) -> String {
    format!("process-{number}")
}

/// One step of a thread: an event, or a message that was recorded besides its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// An event of its log.
    Event {
        /// The event.
        event: Event,
        /// Its source position, for [`Recording::place`]; `None` if that was not recorded.
        place: Option<u32>,
    },
    /// It came to a send. That may have failed, which is an event, and in a bounded
    /// channel its success is an event, too.
    Message {
        /// The operation.
        op: Op,
        /// The channel.
        channel: Option<ChannelId>,
        /// The message's position among all messages of the thread.
        number: u64,
        /// Its source position.
        place: u32,
    },
}

/// Why a directory is no recording that can be read.
#[derive(Debug)]
pub enum RecordingError {
    /// A file of it cannot be read at all.
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file of it is damaged.
    Log {
        /// The file.
        path: PathBuf,
        /// The damage.
        source: LogError,
    },
    /// Its `session` file is not one.
    NotARecording(PathBuf),
    /// It was made by another version of this crate.
    Version {
        /// The directory.
        path: PathBuf,
        /// The version that the recording has.
        found: String,
    },
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordingError::Io { path, source } => {
                write!(f, "cannot read {}: {source}", path.display())
            }
            RecordingError::Log { path, source } => write!(f, "{}: {source}", path.display()),
            RecordingError::NotARecording(path) => {
                write!(f, "{}: not a recording", path.display())
            }
            RecordingError::Version { path, found } => write!(
                f,
                "{}: the recording has version {found}, this build reads {OLDEST_VERSION} to \
                 {VERSION}: record again",
                path.display()
            ),
        }
    }
}

impl std::error::Error for RecordingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // These are in the message.
            RecordingError::Io { source, .. } => source.source(),
            RecordingError::Log { source, .. } => source.source(),
            RecordingError::NotARecording(_) | RecordingError::Version { .. } => None,
        }
    }
}

/// A recorded thread, as the `session` file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedThread {
    /// Its number within the recording.
    pub id: ThreadId,
    /// Its name.
    pub dti: Dti,
    /// Whether it is known to have ended without logging anything.
    ended_silent: bool,
}

/// A process that a recorded one started, and that may have a part of the recording of its
/// own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartedProcess {
    /// Its number among those that this process started.
    pub number: u32,
    /// The thread that started it.
    pub thread: ThreadId,
    /// Which of that thread's processes it is, from 1.
    pub count: u32,
    /// Whether this process has waited for its end.
    pub reaped: bool,
}

/// A recording of a process: which program it is of, and its threads. The logs of the threads are
/// read when they are asked for.
#[derive(Debug, Clone)]
pub struct Recording {
    dir: PathBuf,
    program: String,
    threads: Vec<RecordedThread>,
    /// Places in the source, by number.
    places: BTreeMap<u32, String>,
    /// Threads that had a name when they were recorded.
    names: BTreeMap<ThreadId, String>,
    /// The types of messages.
    carried: BTreeMap<ChannelId, String>,
    processes: Vec<StartedProcess>,
    has_exited: bool,
    was_reaped: bool,
}

impl Recording {
    /// Opens the recording in `dir`.
    ///
    /// A last line of the `session` file that was cut off, as by a crash, is ignored.
    ///
    /// # Errors
    /// If there is no recording there, or it is damaged or of another version.
    ///
    /// ```
    /// use std::path::Path;
    /// use rr_channel_log::Recording;
    ///
    /// let error = Recording::open(Path::new("/nonexistent")).unwrap_err();
    /// assert!(error.to_string().contains("/nonexistent/session"));
    /// ```
    pub fn open(dir: &Path) -> Result<Self, RecordingError> {
        let path = dir.join(SESSION_FILE);
        let text = fs::read(&path).map_err(|source| RecordingError::Io { path, source })?;
        Self::parse(dir, &String::from_utf8_lossy(&text))
    }

    fn parse(dir: &Path, text: &str) -> Result<Self, RecordingError> {
        let not_a_recording = || RecordingError::NotARecording(dir.to_owned());
        // Text after the last line's end is a line that was cut off.
        let (text, _) = text.rsplit_once('\n').ok_or_else(not_a_recording)?;
        let mut lines = text.lines();
        let version = lines
            .next()
            .and_then(|line| line.strip_prefix(TITLE))
            .ok_or_else(not_a_recording)?;
        let is_known = |known: u8| version == known.to_string();
        if !(OLDEST_VERSION..=VERSION).any(is_known) {
            return Err(RecordingError::Version {
                path: dir.to_owned(),
                found: version.chars().take(20).collect(),
            });
        }
        let program = lines
            .next()
            .and_then(|line| line.strip_prefix("program "))
            .ok_or_else(not_a_recording)?;
        let mut threads = BTreeMap::new();
        let (mut places, mut names) = (BTreeMap::new(), BTreeMap::new());
        let mut carried = BTreeMap::new();
        let mut processes = Vec::new();
        let mut has_exited = false;
        for line in lines {
            let known = match line.split_once(' ') {
                None if line == "exited" => {
                    has_exited = true;
                    Some(())
                }
                Some(("thread", rest)) => rest.split_once(' ').and_then(|(id, dti)| {
                    let id = id.parse().ok().filter(|id| *id < ThreadId::LIMIT);
                    let id = ThreadId(id?);
                    let thread = RecordedThread {
                        id,
                        dti: dti.parse().ok()?,
                        ended_silent: false,
                    };
                    threads.insert(id, thread);
                    Some(())
                }),
                Some(("ended", id)) => (|| {
                    threads.get_mut(&ThreadId(id.parse().ok()?))?.ended_silent = true;
                    Some(())
                })(),
                Some(("place", rest)) => rest.split_once(' ').and_then(|(number, place)| {
                    places.insert(number.parse().ok()?, place.to_owned());
                    Some(())
                }),
                Some(("named", rest)) => rest.split_once(' ').and_then(|(id, name)| {
                    names.insert(ThreadId(id.parse().ok()?), name.to_owned());
                    Some(())
                }),
                Some(("process", rest)) => (|| {
                    let (number, rest) = rest.split_once(' ')?;
                    let (thread, count) = rest.split_once(' ')?;
                    processes.push(StartedProcess {
                        number: number.parse().ok()?,
                        thread: ThreadId(thread.parse().ok()?),
                        count: count.parse().ok()?,
                        reaped: false,
                    });
                    Some(())
                })(),
                Some(("reaped", number)) => (|| {
                    let number: u32 = number.parse().ok()?;
                    let mut known = processes.iter_mut();
                    known.find(|process| process.number == number)?.reaped = true;
                    Some(())
                })(),
                Some(("carries", rest)) => (|| {
                    let (creator, rest) = rest.split_once(' ')?;
                    let (number, of) = rest.split_once(' ')?;
                    let channel = ChannelId {
                        creator: ThreadId(creator.parse().ok()?),
                        number: number.parse().ok()?,
                    };
                    carried.insert(channel, of.to_owned());
                    Some(())
                })(),
                _ => None,
            };
            known.ok_or_else(not_a_recording)?;
        }
        Ok(Recording {
            dir: dir.to_owned(),
            program: program.to_owned(),
            threads: threads.into_values().collect(),
            places,
            names,
            carried,
            processes,
            has_exited,
            was_reaped: false,
        })
    }

    /// Opens the recording in `dir`, and those of all processes that were started, each
    /// behind the one that started it.
    ///
    /// # Errors
    /// As [`open`](Recording::open), of any of them.
    pub fn tree(dir: &Path) -> Result<Vec<(ProcessPath, Self)>, RecordingError> {
        let mut all = Vec::new();
        let mut next = vec![(ProcessPath::first(), dir.to_owned(), false)];
        while let Some((path, dir, was_reaped)) = next.pop() {
            let mut recording = Recording::open(&dir)?;
            recording.was_reaped = was_reaped;
            // Deeper ones are not recorded.
            if path.numbers().len() < ProcessPath::DEEPEST {
                let below = recording.processes.iter().rev();
                next.extend(below.filter_map(|process| {
                    let dir = recording.dir_of(*process)?;
                    Some((path.child(process.number), dir, process.reaped))
                }));
            }
            all.push((path, recording));
        }
        Ok(all)
    }

    /// Whether the process is known to have come to its exit, and the process that started it is
    /// known to have waited for that. (A process does not come to its exit if it was killed,
    /// executed another program in its place, or left by `_exit`.) Known for recordings that
    /// [`tree`](Recording::tree) returns.
    pub const fn has_ended(&self) -> bool {
        self.has_exited && self.was_reaped
    }

    /// The processes that it started, in the order in which it did.
    pub fn processes(&self) -> &[StartedProcess] {
        &self.processes
    }

    /// The directory of the part of the recording that one of the
    /// [`processes`](Recording::processes) made. It does not exist if that process did nothing
    /// that is recorded.
    pub fn dir_of(&self, process: StartedProcess) -> Option<PathBuf> {
        let dir = self.dir.join(dir_name(process.number));
        dir.join(SESSION_FILE).exists().then_some(dir)
    }

    /// Whether it says where in the source operations are.
    pub fn has_places(&self) -> bool {
        !self.places.is_empty()
    }

    /// A place in the source, as `FILE:LINE:COLUMN`.
    pub fn place(&self, number: u32) -> Option<&str> {
        self.places.get(&number).map(String::as_str)
    }

    /// The name that the thread had in the program, if that was recorded.
    pub fn name(&self, thread: ThreadId) -> Option<&str> {
        self.names.get(&thread).map(String::as_str)
    }

    /// The known types of messages: each channel with its type, by creator and number.
    pub fn carried(&self) -> impl Iterator<Item = (ChannelId, &str)> {
        let all = self.carried.iter();
        all.map(|(channel, of)| (*channel, of.as_str()))
    }

    /// Reads the recorded contents of messages, by sender and number.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn payloads(&self) -> Result<BTreeMap<(ThreadId, u64), Payload>, RecordingError> {
        let path = self.dir.join(PAYLOADS_FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(source) => return Err(RecordingError::Io { path, source }),
        };
        let damaged = |path| RecordingError::Log {
            path,
            source: LogError::Header("not a payloads file"),
        };
        payload::parse(&String::from_utf8_lossy(&text)).ok_or_else(|| damaged(path))
    }

    /// Reads the steps of one of the [`threads`](Recording::threads): its events, with their
    /// places and its messages if those were recorded.
    ///
    /// # Errors
    /// If its log is damaged.
    pub fn steps(&self, thread: &RecordedThread) -> Result<Vec<Step>, RecordingError> {
        let damaged = |path: PathBuf| move |source| RecordingError::Log { path, source };
        let mut events = self.log(thread)?.events();
        let mut next = || {
            let event = events.next().transpose();
            event.map_err(damaged(self.dir.join(file_name(thread.id))))
        };
        let mut steps = Vec::new();
        let path = self.dir.join(places_name(thread.id));
        if fs::metadata(&path).is_ok_and(|meta| meta.len() > 0) {
            let noted = ThreadLog::open(&path).map_err(damaged(path.clone()))?;
            for noted in noted.events() {
                let noted = noted.map_err(damaged(path.clone()))?;
                steps.push(match noted.outcome {
                    Outcome::Message { sender, number } => Step::Message {
                        op: noted.op,
                        channel: noted.channel,
                        number,
                        place: sender.0,
                    },
                    Outcome::Arm(place) => {
                        // The last one may have been cut off before it was logged.
                        let Some(event) = next()? else { break };
                        let place = Some(place);
                        Step::Event { event, place }
                    }
                    _ => return Err(damaged(path)(LogError::Header("not a places file"))),
                });
            }
        }
        while let Some(event) = next()? {
            let place = None;
            steps.push(Step::Event { event, place });
        }
        Ok(steps)
    }

    /// The name of the recorded program's executable, without the hash that cargo appends
    /// to those of tests.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// All threads that used this crate, by number.
    pub fn threads(&self) -> &[RecordedThread] {
        &self.threads
    }

    /// The log of one of the [`threads`](Recording::threads); an empty one if it logged
    /// nothing.
    ///
    /// Only the file's header is checked: [`Events`](crate::Events) may still find
    /// damage.
    ///
    /// # Errors
    /// If the file is there and is no log, or not this thread's.
    pub fn log(&self, thread: &RecordedThread) -> Result<ThreadLog, RecordingError> {
        let path = self.dir.join(file_name(thread.id));
        let bytes = match read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(RecordingError::Io { path, source }),
        };
        // A thread that was cut off before or while it created its log has logged nothing.
        if bytes.is_empty() {
            let (id, dti) = (thread.id, thread.dti.clone());
            return Ok(ThreadLog::empty(id, dti, thread.ended_silent));
        }
        let log = ThreadLog::from_bytes(&bytes).and_then(|log| {
            if log.thread() == thread.id && *log.dti() == thread.dti {
                Ok(log)
            } else {
                Err(LogError::Header("the log of another thread"))
            }
        });
        log.map_err(|source| RecordingError::Log { path, source })
    }

    /// The reads of clocks of one of the [`threads`](Recording::threads); `None` if it made none.
    ///
    /// Only the file's header is checked: [`ClockReads`](crate::ClockReads) may still find damage.
    ///
    /// # Errors
    /// If the file is there and has no reads, or not this thread's.
    pub fn clocks(&self, thread: &RecordedThread) -> Result<Option<ClockLog>, RecordingError> {
        let path = self.dir.join(clocks_name(thread.id));
        let bytes = match read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(RecordingError::Io { path, source }),
        };
        // It was cut off while it created the file.
        if bytes.is_empty() {
            return Ok(None);
        }
        let log = ClockLog::from_bytes(&bytes).and_then(|log| {
            if log.thread() == thread.id {
                Ok(Some(log))
            } else {
                Err(LogError::Header("the clocks of another thread"))
            }
        });
        log.map_err(|source| RecordingError::Log { path, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str) -> Result<Recording, String> {
        Recording::parse(Path::new("dir"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_line_that_was_cut_off_is_ignored() {
        let text = session_header("p") + "thread 0 main\nthread 1 main/1\nended 1\nthread 2 ma";
        let recording = check(&text).unwrap();
        let threads = recording.threads();
        assert_eq!(threads.len(), 2);
        assert_eq!(threads[1].dti.to_string(), "main/1");
        assert!(threads[1].ended_silent && !threads[0].ended_silent);
    }

    #[test]
    fn an_earlier_version_is_read() {
        let recording = check("rr-channel 3\nprogram p\nthread 0 main\n").unwrap();
        assert_eq!(recording.threads().len(), 1);
    }

    #[test]
    fn message_types_of_channels_are_read() {
        let text = session_header("p") + "thread 0 main\ncarries 0 1 (u8, &str)\n";
        let recording = check(&text).unwrap();
        let channel = ChannelId {
            creator: ThreadId(0),
            number: 1,
        };
        let carried: Vec<_> = recording.carried().collect();
        assert_eq!(carried, [(channel, "(u8, &str)")]);
    }

    #[test]
    fn processes_are_read() {
        let text = session_header("p") + "thread 0 main\nprocess 2 0 1\nprocess 1 0 2\nreaped 1\n";
        let recording = check(&text).unwrap();
        let read = recording.processes().iter();
        let read: Vec<_> = read
            .map(|process| (process.number, process.count, process.reaped))
            .collect();
        assert_eq!(read, [(2, 1, false), (1, 2, true)]);
        assert!(!recording.has_exited && check(&(text + "exited\n")).unwrap().has_exited);
    }

    #[test]
    fn another_version_is_named() {
        insta::assert_snapshot!(
            check("rr-channel 1\nprogram p\n").unwrap_err(),
            @"dir: the recording has version 1, this build reads 3 to 6: record again"
        );
    }

    #[test]
    fn an_error_says_its_cause_once() {
        use std::error::Error as _;

        let missing = Recording::open(Path::new("/nonexistent")).unwrap_err();
        assert!(missing.to_string().ends_with("(os error 2)"), "{missing}");
        assert!(missing.source().is_none());
        let source = ThreadLog::open(Path::new("/nonexistent")).unwrap_err();
        assert!(source.source().is_none());
        let path = PathBuf::from("/nonexistent");
        assert!(RecordingError::Log { path, source }.source().is_none());
    }

    #[test]
    fn an_invalid_recording_is_refused() {
        for text in [
            "",
            "shopping list",
            "shopping list\n",
            "rr-channel 3\n",
            "rr-channel 3\nx\n",
        ] {
            assert_eq!(check(text).unwrap_err(), "dir: not a recording", "{text:?}");
        }
        let header = session_header("p");
        for line in [
            "thread",
            "thread x main",
            "thread 1 /",
            "thread 8388608 main",
            "thread 4294967295 main",
            "ended 3",
            "milk",
            "carries 1 u8",
            "process 1 0",
            "reaped 1",
        ] {
            assert!(check(&format!("{header}{line}\n")).is_err(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(rr-channel 6\nprogram p\n)?(thread|ended|carries|process|reaped|exited|[ 0-9]|main|\n|.)*") {
            let _ = check(&text);
        }
    }
}
