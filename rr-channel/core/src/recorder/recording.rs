//! The recording side of a session: where logs go, and which thread has which number.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use rr_channel_log::identity::{ChannelId, Dti, ThreadId};
use rr_channel_log::{
    ClockWriter, PAYLOADS_FILE, PAYLOADS_TITLE, Payload, SESSION_FILE, StartedProcess, Writer,
    clocks_name, file_name, may_be_as_long, places_name, process_line, session_header,
};
use rustc_hash::FxHashMap;

use super::callers;
use super::names::{Names, Who};
use super::places;
use super::process::{complain, program};
use super::start_error::StartError;
use super::tag::Tag;
use crate::platform::clock;
use crate::platform::lock::lock;

/// The recording side: where logs go, and which thread has which number.
#[derive(Debug)]
pub struct Recorder {
    pub names: Mutex<Names>,
    places: Mutex<Places>,
    /// The processes that were started, and their ids.
    pub children: Mutex<Vec<(u32, u32)>>,
    /// The recording's directory; `None` if there is to be none.
    pub sink: Option<Sink>,
}

/// The numbers of places.
#[derive(Debug, Default)]
struct Places {
    /// By the operation, and the stack that led there, where it matters.
    numbers: FxHashMap<(&'static Location<'static>, Option<u64>), u32>,
    by_text: FxHashMap<String, u32>,
}

/// A recording in the making.
#[derive(Debug)]
pub struct Sink {
    dir: PathBuf,
    /// The session's file, to which a line is appended for each thread.
    session: File,
    /// The contents of messages, if they are recorded and can be.
    payloads: OnceLock<Option<File>>,
    began: Instant,
}

impl Recorder {
    pub fn create(dir: &Path) -> Result<Self, StartError> {
        let fail = |source| StartError::Create {
            dir: dir.to_owned(),
            source,
        };
        fs::create_dir_all(dir).map_err(fail)?;
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(dir.join(SESSION_FILE));
        let file = match file {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(StartError::Occupied(dir.to_owned()));
            }
            Err(error) => return Err(fail(error)),
        };
        append(&file, &session_header(&program())).map_err(fail)?;
        Ok(Recorder {
            names: Mutex::default(),
            places: Mutex::default(),
            children: Mutex::default(),
            sink: Some(Sink {
                dir: dir.to_owned(),
                session: file,
                payloads: OnceLock::new(),
                began: clock::now(),
            }),
        })
    }

    /// A recorder that names threads, and records nothing.
    pub fn into_nowhere() -> Self {
        Recorder {
            names: Mutex::default(),
            places: Mutex::default(),
            children: Mutex::default(),
            sink: None,
        }
    }

    /// Numbers the calling thread; whether it can be recorded.
    pub fn register(&self, who: Who) -> (ThreadId, Dti, bool) {
        let (id, dti) = lock(&self.names).intern(who);
        let is_recorded = self.appeared(id, &dti);
        (id, dti, is_recorded)
    }

    /// A thread appeared that has this number; whether it can be recorded.
    pub fn appeared(&self, id: ThreadId, dti: &Dti) -> bool {
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
    pub fn elsewhere(&self, dti: Dti) -> ThreadId {
        let (id, is_new) = lock(&self.names).intern_new(dti.clone());
        if is_new {
            self.appeared_elsewhere(id, &dti);
        }
        id
    }

    /// A thread of another process has this number.
    pub fn appeared_elsewhere(&self, id: ThreadId, dti: &Dti) {
        if let Some(sink) = &self.sink {
            // Without the line, a replay finds its messages missing, and says so.
            let _ = sink.note(&format!("thread {} {dti}\nended {}\n", id.0, id.0));
        }
    }

    /// The thread starts its `count`th process; which of this process's that is. `None` if
    /// nothing is recorded.
    pub fn starts(&self, thread: ThreadId, count: u32) -> Option<u32> {
        self.sink.as_ref()?;
        let number = lock(&self.names).intern_process(thread, count);
        self.started(number, thread, count).ok()?;
        Some(number)
    }

    /// The thread starts its `count`th process, which has this number.
    pub fn started(&self, number: u32, thread: ThreadId, count: u32) -> io::Result<()> {
        let sink = self.sink.as_ref().ok_or(io::ErrorKind::NotFound)?;
        sink.note(&process_line(&StartedProcess {
            number,
            thread,
            count,
            reaped: false,
        }))
    }

    /// A thread ended that has logged nothing.
    pub fn ended(&self, id: ThreadId) {
        if let Some(sink) = &self.sink {
            // Without the line, a replay takes the thread for one that was cut off.
            let _ = sink.note(&format!("ended {}\n", id.0));
        }
    }

    /// Creates the log of a thread that [can be recorded](Recorder::register).
    pub fn open_log(&self, id: ThreadId, dti: &Dti) -> io::Result<Writer> {
        let sink = self.sink.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let log = Writer::create(&sink.dir.join(file_name(id)), id, dti)?;
        Ok(log.timed(sink.began))
    }

    /// Creates the log of where a thread's operations are.
    pub fn open_places(&self, id: ThreadId, dti: &Dti) -> io::Result<Writer> {
        let sink = self.sink.as_ref().ok_or(io::ErrorKind::NotFound)?;
        Writer::create(&sink.dir.join(places_name(id)), id, dti)
    }

    /// Creates the log of what a thread reads from clocks.
    pub fn open_clocks(&self, id: ThreadId) -> io::Result<ClockWriter> {
        let sink = self.sink.as_ref().ok_or(io::ErrorKind::NotFound)?;
        ClockWriter::create(&sink.dir.join(clocks_name(id)), id)
    }

    /// The messages of a channel are of this type.
    pub fn carries(&self, channel: ChannelId, of: &str) {
        if let Some(sink) = &self.sink {
            // Without the line, the channel is called by its name only.
            let (creator, number) = (channel.creator.0, channel.number);
            let _ = sink.note(&format!("carries {creator} {number} {of}\n"));
        }
    }

    /// A message holds this.
    pub fn holds(&self, tag: Tag, payload: &Payload) {
        let Some(sink) = &self.sink else { return };
        let file = sink.payloads.get_or_init(|| {
            let path = sink.dir.join(PAYLOADS_FILE);
            let file = OpenOptions::new().append(true).create_new(true).open(path);
            let begun = file.and_then(|file| {
                append(&file, PAYLOADS_TITLE)?;
                Ok(file)
            });
            if let Err(error) = &begun {
                complain(&format_args!(
                    "cannot record the content of messages: {error}"
                ));
            }
            begun.ok()
        });
        if let Some(file) = file.as_ref() {
            let line = format!("{} {} {payload}\n", tag.sender().0, tag.number());
            // As far as they go, payloads are good.
            let _ = append(file, &line);
        }
    }

    /// The number of a place.
    pub fn place(&self, place: &'static Location<'static>) -> Option<u32> {
        let sink = self.sink.as_ref()?;
        let stack = callers::stack_at(place);
        let mut places = lock(&self.places);
        let Places { numbers, by_text } = &mut *places;
        Some(*numbers.entry((place, stack)).or_insert_with(|| {
            let next = by_text.len() as u32;
            let text = callers::describe(place);
            *by_text.entry(text).or_insert_with_key(|text| {
                let _ = sink.note(&format!("place {next} {text}\n"));
                next
            })
        }))
    }
}

impl Sink {
    /// Appends a line, by one system call: a process that dies leaves whole lines, except
    /// perhaps for the last one.
    pub fn note(&self, line: &str) -> io::Result<()> {
        append(&self.session, line)
    }
}

/// Appends text to a file, if it may be so long.
fn append(mut file: &File, text: &str) -> io::Result<()> {
    let len = file.metadata()?.len();
    may_be_as_long(len + text.len() as u64)?;
    file.write_all(text.as_bytes())
}
