//! Reading the records of a trace.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};

use super::block::{HEAD, Head};
use super::{Directory, Error, Record};

/// How a trace ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// With the mark of its end.
    Whole,
    /// After a block, because the recorder could not go on.
    Open,
    /// With a block that was not written to its end: so many bytes of it are there.
    Cut(u64),
}

/// The records of a trace, in order. An error, after which there is nothing more, says
/// that a block is damaged; a last block that was cut short is none.
pub struct Reader {
    source: Source,
    path: PathBuf,
    /// Behind the block that `bytes` is.
    position: Position,
    bytes: Vec<u8>,
    at: usize,
    left: u32,
    tail: Option<Tail>,
}

/// Where the next block begins.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    offset: u64,
    number: u64,
    /// The last one was the mark of the end.
    ended: bool,
}

/// The source of blocks: this thread, or one that reads ahead.
enum Source {
    Here(Blocks),
    /// A thread, which ends when its receiver is gone.
    Ahead(Receiver<Result<Step, Error>>),
}

/// The blocks of a trace, in order.
struct Blocks {
    input: Box<dyn io::Read + Send>,
    path: PathBuf,
    position: Position,
}

/// The next block, or the end.
enum Step {
    Block {
        bytes: Vec<u8>,
        records: u32,
        /// Behind it.
        position: Position,
    },
    End(Tail),
}

impl Source {
    fn here(input: impl io::Read + Send + 'static, path: &Path, position: Position) -> Self {
        Source::Here(Blocks {
            input: Box::new(input),
            path: path.to_owned(),
            position,
        })
    }
}

/// How many blocks a thread reads ahead.
const AHEAD: usize = 2;

impl Blocks {
    fn damaged(&self, reason: String) -> Error {
        damaged(&self.path, self.position, reason)
    }

    /// Reads as much as there is; how much that was.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.input.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io(&self.path)(error)),
            }
        }
        Ok(filled)
    }

    fn next(&mut self) -> Result<Step, Error> {
        let mut bytes = [0; HEAD];
        let got = self.fill(&mut bytes)?;
        if got < HEAD {
            return Ok(Step::End(match got {
                0 if self.position.ended => Tail::Whole,
                0 => Tail::Open,
                _ => Tail::Cut(got as u64),
            }));
        }
        if self.position.ended {
            return Err(self.damaged("it follows the end mark".to_owned()));
        }
        let Some(head) = Head::parse(&bytes) else {
            return Err(self.damaged("it has no block header".to_owned()));
        };
        // A declared length may be wrong: memory is allocated as data comes.
        let mut packed = Vec::new();
        let wanted = u64::from(head.packed);
        (&mut self.input)
            .take(wanted)
            .read_to_end(&mut packed)
            .map_err(Error::io(&self.path))?;
        if (packed.len() as u64) < wanted {
            return Ok(Step::End(Tail::Cut((HEAD + packed.len()) as u64)));
        }
        if head.number != self.position.number {
            return Err(self.damaged(format!(
                "it has number {}, expected {}",
                head.number, self.position.number
            )));
        }
        let unpacked = head
            .unpack(&bytes, &packed)
            .map_err(|reason| self.damaged(reason))?;
        self.position = Position {
            offset: self.position.offset + HEAD as u64 + wanted,
            number: self.position.number + 1,
            ended: head.records == 0,
        };
        Ok(Step::Block {
            bytes: unpacked,
            records: head.records,
            position: self.position,
        })
    }
}

fn damaged(path: &Path, position: Position, reason: String) -> Error {
    Error::Damaged {
        path: path.to_owned(),
        offset: position.offset,
        reason,
    }
}

impl Reader {
    /// Opens the file of records.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(directory: &Directory) -> Result<Self, Error> {
        let path = directory.events();
        let file = File::open(&path).map_err(Error::io(&path))?;
        Ok(Self::of(file, &path))
    }

    /// Reads records from anywhere; errors name `path`.
    pub fn of(input: impl io::Read + Send + 'static, path: &Path) -> Self {
        Self {
            source: Source::here(input, path, Position::default()),
            path: path.to_owned(),
            position: Position::default(),
            bytes: Vec::new(),
            at: 0,
            left: 0,
            tail: None,
        }
    }

    /// Has a thread read ahead from here on, which calls `in_thread` first.
    ///
    /// # Errors
    /// When no thread can be made.
    pub fn ahead(self, in_thread: impl FnOnce() + Send + 'static) -> Result<Self, Error> {
        let Source::Here(mut blocks) = self.source else {
            return Ok(self);
        };
        let (steps, source) = sync_channel(AHEAD);
        let work = move || {
            in_thread();
            loop {
                let step = blocks.next();
                let is_last = !matches!(step, Ok(Step::Block { .. }));
                if steps.send(step).is_err() || is_last {
                    break;
                }
            }
        };
        std::thread::Builder::new()
            .name("trace".to_owned())
            .spawn(work)
            .map_err(Error::io(&self.path))?;
        Ok(Self {
            source: Source::Ahead(source),
            ..self
        })
    }

    /// Another reader at the same place: its next record is this one's.
    ///
    /// # Errors
    /// When the file cannot be opened, or this is a reader of something else.
    pub fn reopen(&self) -> Result<Self, Error> {
        let mut file = File::open(&self.path).map_err(Error::io(&self.path))?;
        file.seek(io::SeekFrom::Start(self.position.offset))
            .map_err(Error::io(&self.path))?;
        Ok(Self {
            source: Source::here(file, &self.path, self.position),
            path: self.path.clone(),
            bytes: self.bytes.clone(),
            ..*self
        })
    }

    /// How the trace ended, once it has been read to its end.
    pub fn tail(&self) -> Option<Tail> {
        self.tail
    }

    /// Where in the file the next block begins, in bytes.
    pub fn offset(&self) -> u64 {
        self.position.offset
    }

    /// How many blocks have been read.
    pub fn blocks(&self) -> u64 {
        self.position.number
    }

    fn record(&mut self) -> Result<Option<Record>, Error> {
        while self.left == 0 {
            if self.at != self.bytes.len() {
                return Err(self.damaged("it holds more than its header says".to_owned()));
            }
            if self.tail.is_some() || !self.block()? {
                return Ok(None);
            }
        }
        match postcard::take_from_bytes::<Record>(&self.bytes[self.at..]) {
            Ok((record, rest)) => {
                self.at = self.bytes.len() - rest.len();
                self.left -= 1;
                Ok(Some(record))
            }
            Err(error) => Err(self.damaged(error.to_string())),
        }
    }

    fn damaged(&self, reason: String) -> Error {
        damaged(&self.path, self.position, reason)
    }

    /// Takes the next block; false at the end.
    fn block(&mut self) -> Result<bool, Error> {
        let step = match &mut self.source {
            Source::Here(blocks) => blocks.next(),
            // Nothing is requested after an end or an error.
            Source::Ahead(steps) => steps.recv().unwrap_or_else(|_| {
                let error = io::Error::other("the thread that reads the trace has ended");
                Err(Error::io(&self.path)(error))
            }),
        };
        match step? {
            Step::Block {
                bytes,
                records,
                position,
            } => {
                self.bytes = bytes;
                self.at = 0;
                self.left = records;
                self.position = position;
                Ok(true)
            }
            Step::End(tail) => {
                self.tail = Some(tail);
                Ok(false)
            }
        }
    }
}

impl Iterator for Reader {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.record().transpose();
        if matches!(record, Some(Err(_))) {
            self.left = 0;
            self.at = self.bytes.len();
            self.tail.get_or_insert(Tail::Cut(0));
        }
        record
    }
}
