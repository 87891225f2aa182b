//! The results of a survey, appended to a file that survives being killed.
//!
//! A line is a checksum, a space and JSON; the first one says which format it is. A line
//! is written by one call and nothing is ever overwritten, so that a file that was cut off
//! at any byte holds all that was finished before: what is left of the last line is removed
//! when the file is opened again. Lines whose checksum is wrong are left out, and counted.
//!
//! **Invariant:** what [`Journal::append`] has returned `Ok` for is read by every later
//! [`Journal::open`]. (After a power failure, what the file system has kept.)

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::model::outcome::{Counts, Outcome};

/// The number of the format.
pub const VERSION: u32 = 3;

/// When a run was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// As it is.
    Plain,
    /// As it is, in turn with [`Replay`](Phase::Replay), which is compared with it in time.
    Beside,
    /// From a recording, on a machine that does nothing else.
    Replay,
    /// From a recording, while all processors are busy and threads are delayed at random.
    Loaded,
    /// From a recording, while all processors are busy with what comes first.
    Squeezed,
}

impl Phase {
    /// Those of replays.
    pub const REPLAYS: [Phase; 3] = [Phase::Replay, Phase::Loaded, Phase::Squeezed];

    /// Whether nothing was recorded or replayed.
    pub const fn is_plain(self) -> bool {
        matches!(self, Phase::Plain | Phase::Beside)
    }
}

/// One thing that was found out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Record {
    /// The first line.
    Journal {
        /// Of the format.
        version: u32,
    },
    /// A run of a test.
    Run(Run),
    /// A recording that was made of a test.
    Tamed(Tamed),
    /// A run of many tests in one process.
    Together(Together),
    /// The failures of a test in such runs.
    Disturbed(Disturbed),
}

/// A run of a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The test's name.
    pub test: String,
    /// The digest of what was run, of a replay that of the recording; runs of something else
    /// do not count.
    pub subject: String,
    /// How it was run.
    pub phase: Phase,
    /// Its outcome.
    pub outcome: Outcome,
    /// How it ended, in words.
    pub ending: String,
    /// How long it took.
    pub seconds: f64,
    /// Processes that it left behind.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left: u64,
    /// Of a replay: whether it went the recorded way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faithful: Option<bool>,
    /// The end of its output, if it is among the first of the test that are not as expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// The result of recording a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tamed {
    /// The test's name.
    pub test: String,
    /// The digest of what was recorded.
    pub subject: String,
    /// The engine's name.
    pub engine: String,
    /// The digest of the recording, which its replays have as their subject.
    pub recording: String,
    /// The file with the recording, if there is one.
    pub artefact: Option<PathBuf>,
    /// How large it is, in bytes.
    pub bytes: u64,
    /// The number of events in it, where the engine counts them.
    pub events: u64,
    /// Runs until it came.
    pub attempts: u32,
    /// Whether a run as expected was wanted, or another one.
    pub of_expected: bool,
    /// Why there is none, or what is known against it.
    pub problem: Option<String>,
    /// The engines that were tried before this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<Tried>,
}

/// An engine that does not cure a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    /// The engine's name.
    pub engine: String,
    /// Why it does not.
    pub why: String,
}

/// How the tests of an executable are run in one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// So many at the same time.
    pub threads: usize,
    /// In this random order, or else by name.
    pub seed: Option<u64>,
}

/// A run of an executable's tests in one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Together {
    /// The digest of the executable and of the tests.
    pub subject: String,
    /// How they were run.
    pub order: Order,
    /// The tests that failed, or did not end when the process did.
    pub failed: Vec<String>,
}

/// A test that fails in the same process as others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disturbed {
    /// The test's name.
    pub test: String,
    /// The digest of what was run.
    pub subject: String,
    /// The digest of the executable, of the tests, and of how they are run.
    pub group: String,
    /// Runs of all tests in one process in which it failed, and all.
    pub failed: (u64, u64),
    /// Few others beside which it fails more often than alone; empty if there is no proof of such.
    pub beside: Vec<String>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The command with which it fails sometimes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl Disturbed {
    /// The failures for people: a few lines.
    pub fn lines(&self) -> Vec<String> {
        let (failed, runs) = self.failed;
        let often = format!("failed in {failed} of {runs} runs of all tests in one process");
        let mut lines = vec![match &self.why {
            None => format!("fails beside {}; {often}", self.beside.join(" and ")),
            Some(why) => format!("{often}: {why}"),
        }];
        lines.extend(self.command.iter().map(|command| format!("try: {command}")));
        lines
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The operating system refused something.
    #[error("cannot {what} {}: {error}", path.display())]
    Io {
        /// What.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// Another harness uses it.
    #[error("{} is in use by another servo-harness", .0.display())]
    InUse(PathBuf),
    /// It is something else, or of another version.
    #[error("{} is no journal of version {VERSION}: {found}; --fresh begins a new one", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Its first line.
        found: String,
    },
}

/// The file, locked.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    /// Up to here it is known to be whole.
    len: u64,
}

/// The content of a file that is opened.
#[derive(Debug, Default)]
pub struct JournalContents {
    /// Everything, in its order.
    pub records: Vec<Record>,
    /// Lines that were damaged.
    pub damaged: u64,
}

impl Drop for Journal {
    /// A process that is being started by another thread has the file as well, until it
    /// executes its program: closing alone would leave it locked for that long.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

impl Journal {
    /// Opens a journal, or begins one.
    ///
    /// # Errors
    /// If the file cannot be used, is in use, or is something else.
    pub fn open(path: &Path) -> Result<(Journal, JournalContents), JournalError> {
        let failed = |what| {
            move |error| JournalError::Io {
                what,
                path: path.to_owned(),
                error,
            }
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed("open"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(JournalError::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(failed("lock")(error)),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed("read"))?;
        let (found, len) = read(&bytes).map_err(|found| JournalError::Foreign {
            path: path.to_owned(),
            found,
        })?;
        file.set_len(len).map_err(failed("shorten"))?;
        file.seek(SeekFrom::Start(len)).map_err(failed("seek in"))?;
        let mut journal = Journal {
            file,
            path: path.to_owned(),
            len,
        };
        if len == 0 {
            journal.append(&Record::Journal { version: VERSION })?;
        }
        Ok((journal, found))
    }

    /// Appends a record. If it fails, the file is as it was.
    ///
    /// # Errors
    /// If it could not be written, for instance because the disk is full.
    pub fn append(&mut self, record: &Record) -> Result<(), JournalError> {
        let line = line(record);
        let written = self.file.write_all(line.as_bytes());
        if let Err(error) = written {
            // A part of a line would be removed the next time; but not if more follows it.
            let _ = self.file.set_len(self.len);
            let _ = self.file.seek(SeekFrom::Start(self.len));
            return Err(JournalError::Io {
                what: "write to",
                path: self.path.clone(),
                error,
            });
        }
        self.len += line.len() as u64;
        Ok(())
    }
}

fn line(record: &Record) -> String {
    // No map with keys that are no strings, and nothing else that could fail.
    let json = serde_json::to_string(record).unwrap_or_default();
    format!("{:016x} {json}\n", xxh3_64(json.as_bytes()))
}

/// Reads what is whole, and how long that is; or the first line, if it is that of something
/// else.
pub(crate) fn read(bytes: &[u8]) -> Result<(JournalContents, u64), String> {
    let mut found = JournalContents::default();
    let mut len = 0;
    let mut is_first = true;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let Some(text) = line.strip_suffix(b"\n") else {
            // Cut off. A first line like that may be the beginning of ours or not.
            if is_first && !is_beginning(line) {
                return Err(shown(line));
            }
            break;
        };
        let record = parse(text);
        if is_first {
            match record {
                Some(Record::Journal { version: VERSION }) => {}
                _ => return Err(shown(text)),
            }
            is_first = false;
        } else {
            match record {
                Some(record) => found.records.push(record),
                None => found.damaged += 1,
            }
        }
        len += line.len() as u64;
    }
    Ok((found, len))
}

fn is_beginning(text: &[u8]) -> bool {
    line(&Record::Journal { version: VERSION })
        .as_bytes()
        .starts_with(text)
}

fn shown(line: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(line).chars().take(60).collect();
    format!("it begins with {text:?}")
}

fn parse(line: &[u8]) -> Option<Record> {
    let text = std::str::from_utf8(line).ok()?;
    let (sum, json) = text.split_once(' ')?;
    let sum = u64::from_str_radix(sum, 16).ok()?;
    if sum != xxh3_64(json.as_bytes()) {
        return None;
    }
    serde_json::from_str(json).ok()
}

/// The subject of plain runs beside replays of an engine, of a test with this subject.
pub fn beside(subject: &str, engine: &str) -> String {
    format!("{subject}-{engine}")
}

/// The runs among records, of one test as it is now.
pub fn counts<'a>(
    records: impl IntoIterator<Item = &'a Record>,
    test: &str,
    subject: &str,
    phase: Phase,
) -> Counts {
    let runs = records.into_iter().filter_map(|record| match record {
        Record::Run(run) => Some(run),
        _ => None,
    });
    runs.filter(|run| run.test == test && run.subject == subject && run.phase == phase)
        .map(|run| run.outcome)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(number: u32) -> Record {
        Record::Run(Run {
            test: format!("t\n{number}"),
            subject: "s".to_owned(),
            phase: Phase::Plain,
            outcome: Outcome::Unexpected,
            ending: "exit status 1".to_owned(),
            seconds: 0.5,
            left: u64::from(number),
            faithful: None,
            output: None,
        })
    }

    fn written(count: u32) -> Vec<u8> {
        let first = line(&Record::Journal { version: VERSION });
        (0..count)
            .fold(first, |text, n| text + &line(&run(n)))
            .into_bytes()
    }

    #[test]
    fn a_journal_that_is_cut_off_anywhere_goes_on_with_what_was_whole() {
        let bytes = written(3);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        for cut in 0..=bytes.len() {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let whole = bytes[..cut].iter().filter(|byte| **byte == b'\n').count();
            let (mut journal, found) = Journal::open(&path).unwrap();
            assert_eq!(found.records.len(), whole.saturating_sub(1), "cut at {cut}");
            assert_eq!(found.damaged, 0);
            journal.append(&run(9)).unwrap();
            drop(journal);
            let (_, found) = Journal::open(&path).unwrap();
            assert_eq!(found.records.len(), whole.saturating_sub(1) + 1);
            assert_eq!(found.records.last(), Some(&run(9)));
        }
    }

    #[test]
    fn a_damaged_line_is_left_out_and_the_others_are_kept() {
        let mut bytes = written(3);
        let at = bytes.len() - 5;
        bytes[at] ^= 1;
        let (found, len) = read(&bytes).unwrap();
        assert_eq!((found.records, found.damaged), (vec![run(0), run(1)], 1));
        assert_eq!(len, bytes.len() as u64);
    }

    #[test]
    fn something_else_is_refused_and_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        for text in ["fn main() {}\n", "x", "0123456789abcdef {}\n"] {
            std::fs::write(&path, text).unwrap();
            assert!(matches!(
                Journal::open(&path),
                Err(JournalError::Foreign { .. })
            ));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        let later = Record::Journal {
            version: VERSION + 1,
        };
        std::fs::write(&path, line(&later)).unwrap();
        assert!(matches!(
            Journal::open(&path),
            Err(JournalError::Foreign { .. })
        ));
    }

    #[test]
    fn two_harnesses_do_not_share_a_journal() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let _first = Journal::open(&path).unwrap();
        assert!(matches!(Journal::open(&path), Err(JournalError::InUse(_))));
    }

    proptest! {
        #[test]
        fn any_journal_is_read_or_refused(
            noise in prop::collection::vec(any::<u8>(), 0..200),
            at in 0..400usize,
        ) {
            let mut bytes = written(2);
            let at = at.min(bytes.len());
            bytes.splice(at..at, noise);
            if let Ok((found, len)) = read(&bytes) {
                prop_assert!(len <= bytes.len() as u64);
                prop_assert!(found.records.len() <= bytes.len());
            }
        }
    }
}
