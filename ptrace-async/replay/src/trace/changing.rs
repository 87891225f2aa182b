//! The list of a trace's files that change while programs have them mapped.
//!
//! A replay that maps a file has to know in advance whether it changes, but its records say so
//! only later. So the recorder keeps this list beside the records: a line with the number of
//! each file, written before the first record that depends on it. A line that was cut short
//! belongs to no record.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::event::FileNumber;
use super::{Directory, Error};

const NAME: &str = "changing";

/// The files that change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changing(BTreeSet<u32>);

impl Changing {
    /// Reads what a trace has.
    ///
    /// # Errors
    /// When it cannot be read, or makes no sense.
    pub(super) fn read(trace: &Path) -> Result<Self, Error> {
        let path = at(trace);
        match fs::read(&path) {
            Ok(text) => Self::parse(&text).map_err(|reason| Error::NotATrace { path, reason }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Error::Io { path, error }),
        }
    }

    /// Reads the note.
    ///
    /// # Errors
    /// A description of the damage.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let whole = memchr::memrchr(b'\n', text).map_or(&[][..], |end| &text[..end]);
        let lines = whole.split(|&byte| byte == b'\n');
        let numbers = lines.filter(|line| !line.is_empty()).map(|line| {
            let number = std::str::from_utf8(line).ok();
            number.and_then(|line| line.parse().ok()).ok_or_else(|| {
                format!(
                    "a line is not a number: {:?}",
                    String::from_utf8_lossy(line)
                )
            })
        });
        numbers.collect::<Result<_, _>>().map(Self)
    }

    /// Whether a file changes.
    pub fn has(&self, number: FileNumber) -> bool {
        self.0.contains(&number.0)
    }

    /// Notes that a file changes.
    ///
    /// # Errors
    /// When that cannot be written.
    pub(super) fn add(trace: &Path, number: FileNumber) -> Result<(), Error> {
        let path = at(trace);
        let mut options = fs::File::options();
        options
            .append(true)
            .create(true)
            .open(&path)
            .and_then(|mut file| file.write_all(format!("{}\n", number.0).as_bytes()))
            .map_err(Error::io(&path))
    }
}

fn at(trace: &Path) -> PathBuf {
    trace.join(NAME)
}

impl Directory {
    /// Notes that a file changes: before the first record that depends on it.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn note_changing(&self, number: FileNumber) -> Result<(), Error> {
        Changing::add(&self.path, number)
    }

    /// The files that change, as was noted when the trace was opened.
    pub fn changing(&self) -> impl Iterator<Item = FileNumber> + '_ {
        self.changing.0.iter().copied().map(FileNumber)
    }

    /// Whether a file changes, as was noted when the trace was opened.
    pub fn is_changing(&self, number: FileNumber) -> bool {
        self.changing.has(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_numbers_are_read() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(Changing::read(home.path()).unwrap(), Changing::default());
        Changing::add(home.path(), FileNumber(7)).unwrap();
        Changing::add(home.path(), FileNumber(12)).unwrap();
        let read = Changing::read(home.path()).unwrap();
        assert!(read.has(FileNumber(7)) && read.has(FileNumber(12)));
        assert!(!read.has(FileNumber(1)));
    }

    #[test]
    fn a_line_that_was_cut_short_is_ignored() {
        let read = Changing::parse(b"1\n23").unwrap();
        assert!(read.has(FileNumber(1)) && !read.has(FileNumber(23)) && !read.has(FileNumber(2)));
        assert!(Changing::parse(b"").is_ok());
        assert!(Changing::parse(b"x\n1").is_err());
        assert!(Changing::parse(b"99999999999\n").is_err());
    }
}
