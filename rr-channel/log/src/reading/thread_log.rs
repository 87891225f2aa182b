//! Reads a thread's log from any bytes, damaged ones too.
//!
//! **Invariant:** no input makes this module panic, loop without end per byte
//! read, or allocate more than in proportion to the file's size.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::error::LogError;
use super::header::Header;
use crate::event::{Event, Symbol};
use crate::format::{
    FLAGS_AT, FORMAT_VERSION, INCOMPLETE, LASTED_AT, MAGIC, MAX_RUN, OLDEST_VERSION, STATE_AT,
};
use crate::identity::{Dti, ThreadId};
use crate::prediction::{Model, Ring, take_varint};

/// All of a file. A replay reads many short ones, so its size is not asked for first.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(4096);
    File::open(path)?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// One thread's log, header checked, events still packed.
#[derive(Debug, Clone)]
pub struct ThreadLog {
    thread: ThreadId,
    dti: Dti,
    sealed: bool,
    incomplete: bool,
    lasted: Duration,
    open_run: u64,
    body: Arc<[u8]>,
}

impl ThreadLog {
    /// Reads the log in `path`.
    ///
    /// # Errors
    /// If the file cannot be read, or is no log of this version.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let bytes = read(path).map_err(|source| LogError::Io {
            path: path.to_owned(),
            source,
        })?;
        ThreadLog::from_bytes(&bytes)
    }

    /// Reads a log from memory.
    ///
    /// # Errors
    /// If the bytes are no log of this version.
    ///
    /// ```
    /// use rr_channel_log::{LogError, ThreadLog};
    ///
    /// assert!(matches!(ThreadLog::from_bytes(b"hello"), Err(LogError::NotALog)));
    /// ```
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LogError> {
        let versions = OLDEST_VERSION..=FORMAT_VERSION;
        let (header, rest) = Header::split(bytes, MAGIC, versions)?;
        let thread = header.thread()?;
        let name_len = header.u32_at(12) as usize;
        let name = rest
            .get(..name_len)
            .ok_or(LogError::Header("name beyond the file"))?;
        let dti = std::str::from_utf8(name)
            .ok()
            .and_then(|name| name.parse().ok())
            .ok_or(LogError::Header("no thread name"))?;

        let body = header.body(&rest[name_len..])?;
        Ok(ThreadLog {
            thread,
            dti,
            sealed: header.is_sealed(),
            incomplete: header.u32_at(FLAGS_AT) & INCOMPLETE != 0,
            lasted: Duration::from_millis(header.u64_at(LASTED_AT)),
            open_run: header.u64_at(STATE_AT) & MAX_RUN,
            body: body.into(),
        })
    }

    /// The log of a thread that logged nothing.
    pub(crate) fn empty(thread: ThreadId, dti: Dti, sealed: bool) -> Self {
        ThreadLog {
            thread,
            dti,
            sealed,
            incomplete: false,
            lasted: Duration::ZERO,
            open_run: 0,
            body: Arc::default(),
        }
    }

    /// The thread's number within its recording.
    pub const fn thread(&self) -> ThreadId {
        self.thread
    }

    /// The thread's name.
    pub const fn dti(&self) -> &Dti {
        &self.dti
    }

    /// Whether the thread ended and closed its log. If not, it was still running,
    /// or was cut off, when the process ended.
    pub const fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Whether recording stopped before the thread did, as on a full disk.
    pub const fn is_incomplete(&self) -> bool {
        self.incomplete
    }

    /// How long the run had lasted when that was last noted in this log: when the thread
    /// ended, if the log is sealed. Zero if it is unknown, as in recordings made by earlier
    /// releases.
    pub const fn lasted(&self) -> Duration {
        self.lasted
    }

    /// The size of the packed events, in bytes.
    pub fn body_len(&self) -> usize {
        self.body.len()
    }

    /// The events in order. After an error there are no more.
    pub fn events(&self) -> Events {
        Events {
            body: Arc::clone(&self.body),
            at: 0,
            run: 0,
            open_run: self.open_run,
            read: 0,
            failed: false,
            model: Model::default(),
        }
    }
}

/// The events of a [`ThreadLog`], unpacked one by one.
#[derive(Debug)]
pub struct Events {
    body: Arc<[u8]>,
    at: usize,
    run: u64,
    open_run: u64,
    read: u64,
    failed: bool,
    model: Model,
}

impl Iterator for Events {
    type Item = Result<Event, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let start = self.at;
        let event = self.step();
        match event {
            Some(Ok(_)) => self.read += 1,
            Some(Err(())) => self.failed = true,
            None => {}
        }
        event.map(|event| {
            event.map_err(|()| LogError::Body {
                at: start,
                events: self.read,
            })
        })
    }
}

/// The next item in the body of a log.
enum Unpacked {
    Event(Event),
    /// As many predicted events as [`Events::run`] says, at least one.
    Run,
}

impl Events {
    fn step(&mut self) -> Option<Result<Event, ()>> {
        match self.unpack()? {
            Ok(Unpacked::Event(event)) => Some(Ok(event)),
            Err(()) => Some(Err(())),
            Ok(Unpacked::Run) => {
                self.run -= 1;
                let Some((symbol, number)) = self.model.predicted() else {
                    return Some(Err(()));
                };
                self.model.observe_predicted();
                Some(symbol.join(number).ok_or(()))
            }
        }
    }

    fn unpack(&mut self) -> Option<Result<Unpacked, ()>> {
        if self.run > 0 {
            return Some(Ok(Unpacked::Run));
        }
        let mut input = &self.body[self.at..];
        if input.is_empty() {
            self.run = std::mem::take(&mut self.open_run);
            return (self.run > 0).then_some(Ok(Unpacked::Run));
        }
        let Some(token) = take_varint(&mut input) else {
            return Some(Err(()));
        };
        if token & 1 == 0 {
            let event = self.model.decode(token >> 1, &mut input);
            self.at = self.body.len() - input.len();
            return Some(event.ok_or(()).map(Unpacked::Event));
        }
        self.run = token >> 1;
        // The writer never writes an empty run, nor one beyond its counter.
        if self.run == 0 || self.run > MAX_RUN {
            return Some(Err(()));
        }
        self.at = self.body.len() - input.len();
        Some(Ok(Unpacked::Run))
    }

    /// Unpacks the next events into `ring`, as many at once as follow from the last one, and
    /// returns their number. Events that are [apart](crate::Op::is_apart) are left out. Only for
    /// logs that have been read through without an error.
    pub(super) fn unpack_into(&mut self, ring: &Ring) -> u64 {
        let count = loop {
            match self.unpack() {
                None | Some(Err(())) => break 0,
                Some(Ok(Unpacked::Event(event))) => {
                    self.read += 1;
                    if !event.op.is_apart() {
                        let (symbol, number) = Symbol::split(&event);
                        ring.expect(0, symbol, number, 0, 0);
                        break 1;
                    }
                }
                Some(Ok(Unpacked::Run)) => {
                    let foreseen = self.model.foresee(ring);
                    let certain = foreseen.certain(self.run);
                    let count = certain.min(self.model.before_apart(&foreseen));
                    self.model.observe_foreseen(&foreseen, count.max(1));
                    self.run -= count.max(1);
                    self.read += count.max(1);
                    if count > 0 {
                        break count;
                    }
                }
            }
        };
        if count == 0 {
            ring.cool();
        } else {
            ring.begin();
        }
        count
    }
}
