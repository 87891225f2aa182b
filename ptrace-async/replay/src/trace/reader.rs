//! Reading records.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};

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
    input: Box<dyn io::Read>,
    path: PathBuf,
    offset: u64,
    number: u64,
    bytes: Vec<u8>,
    at: usize,
    left: u32,
    ended: bool,
    tail: Option<Tail>,
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
    pub fn of(input: impl io::Read + 'static, path: &Path) -> Self {
        Self {
            input: Box::new(input),
            path: path.to_owned(),
            offset: 0,
            number: 0,
            bytes: Vec::new(),
            at: 0,
            left: 0,
            ended: false,
            tail: None,
        }
    }

    /// Another reader at the same place: its next record is this one's.
    ///
    /// # Errors
    /// When the file cannot be opened, or this is a reader of something else.
    pub fn reopen(&self) -> Result<Self, Error> {
        let mut file = File::open(&self.path).map_err(Error::io(&self.path))?;
        file.seek(io::SeekFrom::Start(self.offset))
            .map_err(Error::io(&self.path))?;
        Ok(Self {
            input: Box::new(file),
            path: self.path.clone(),
            offset: self.offset,
            number: self.number,
            bytes: self.bytes.clone(),
            at: self.at,
            left: self.left,
            ended: self.ended,
            tail: self.tail,
        })
    }

    /// How the trace ended, once it has been read to its end.
    pub fn tail(&self) -> Option<Tail> {
        self.tail
    }

    /// Where in the file the next block begins, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// How many blocks have been read.
    pub fn blocks(&self) -> u64 {
        self.number
    }

    fn record(&mut self) -> Result<Option<Record>, Error> {
        while self.left == 0 {
            if self.at != self.bytes.len() {
                return Err(self.damaged("more is in it than it says".to_owned()));
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
        Error::Damaged {
            path: self.path.clone(),
            offset: self.offset,
            reason,
        }
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

    /// Reads the next block; false at the end.
    fn block(&mut self) -> Result<bool, Error> {
        let mut bytes = [0; HEAD];
        let got = self.fill(&mut bytes)?;
        if got < HEAD {
            self.tail = Some(match got {
                0 if self.ended => Tail::Whole,
                0 => Tail::Open,
                _ => Tail::Cut(got as u64),
            });
            return Ok(false);
        }
        if self.ended {
            return Err(self.damaged("it comes after the end".to_owned()));
        }
        let Some(head) = Head::parse(&bytes) else {
            return Err(self.damaged("it is no block".to_owned()));
        };
        // A length that somebody made up is not believed before it is there.
        let mut packed = Vec::new();
        let wanted = u64::from(head.packed);
        (&mut self.input)
            .take(wanted)
            .read_to_end(&mut packed)
            .map_err(Error::io(&self.path))?;
        if (packed.len() as u64) < wanted {
            self.tail = Some(Tail::Cut((HEAD + packed.len()) as u64));
            return Ok(false);
        }
        if head.number != self.number {
            return Err(self.damaged(format!(
                "it is block {} and not {}",
                head.number, self.number
            )));
        }
        self.bytes = head
            .unpack(&bytes, &packed)
            .map_err(|reason| self.damaged(reason))?;
        self.at = 0;
        self.left = head.records;
        self.ended = head.records == 0;
        self.number += 1;
        self.offset += HEAD as u64 + wanted;
        Ok(true)
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
