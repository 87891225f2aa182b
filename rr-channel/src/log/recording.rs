//! A recording as a whole: the directory, its `session` file, the threads it names.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{LogError, ThreadLog};
use crate::identity::{Dti, ThreadId};

pub(crate) const SESSION_FILE: &str = "session";
const TITLE: &str = "rr-channel ";
const VERSION: u8 = 2;

/// The first lines of a session's file.
pub(crate) fn session_header(program: &str) -> String {
    format!("{TITLE}{VERSION}\nprogram {program}\n")
}

/// The name of a thread's log file.
pub(crate) fn file_name(thread: ThreadId) -> String {
    format!("thread-{}.rrlog", thread.0)
}

/// Why a directory is no recording that can be read.
#[derive(Debug)]
pub enum RecordingError {
    /// A file of it cannot be read at all.
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file of it is damaged.
    Log {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
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
                write!(f, "{}: it is no recording", path.display())
            }
            RecordingError::Version { path, found } => write!(
                f,
                "{}: the recording has version {found}, this build reads {VERSION}: record again",
                path.display()
            ),
        }
    }
}

impl std::error::Error for RecordingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RecordingError::Io { source, .. } => Some(source),
            RecordingError::Log { source, .. } => Some(source),
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

/// A recording: which program it is of, and its threads. The logs of the threads are
/// read when they are asked for.
#[derive(Debug, Clone)]
pub struct Recording {
    dir: PathBuf,
    program: String,
    threads: Vec<RecordedThread>,
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
    /// use rr_channel::log::Recording;
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
        // What follows the last line's end is a line that was cut off.
        let (text, _) = text.rsplit_once('\n').ok_or_else(not_a_recording)?;
        let mut lines = text.lines();
        let version = lines
            .next()
            .and_then(|line| line.strip_prefix(TITLE))
            .ok_or_else(not_a_recording)?;
        if version != VERSION.to_string() {
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
        for line in lines {
            let known = match line.split_once(' ') {
                Some(("thread", rest)) => rest.split_once(' ').and_then(|(id, dti)| {
                    let id = ThreadId(id.parse().ok()?);
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
                _ => None,
            };
            known.ok_or_else(not_a_recording)?;
        }
        Ok(Recording {
            dir: dir.to_owned(),
            program: program.to_owned(),
            threads: threads.into_values().collect(),
        })
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
    /// Only the file's header is checked: [`Events`](super::Events) may still find
    /// damage.
    ///
    /// # Errors
    /// If the file is there and is no log, or not this thread's.
    pub fn log(&self, thread: &RecordedThread) -> Result<ThreadLog, RecordingError> {
        let path = self.dir.join(file_name(thread.id));
        // A thread that was cut off while it created its log has logged nothing.
        if fs::metadata(&path).map_or(0, |meta| meta.len()) == 0 {
            let (id, dti) = (thread.id, thread.dti.clone());
            return Ok(ThreadLog::empty(id, dti, thread.ended_silent));
        }
        ThreadLog::open(&path)
            .and_then(|log| {
                if log.thread() == thread.id && *log.dti() == thread.dti {
                    Ok(log)
                } else {
                    Err(LogError::Header("the log of another thread"))
                }
            })
            .map_err(|error| match error {
                LogError::Io { path, source } => RecordingError::Io { path, source },
                source => RecordingError::Log { path, source },
            })
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
    fn another_version_is_named() {
        insta::assert_snapshot!(
            check("rr-channel 1\nprogram p\n").unwrap_err(),
            @"dir: the recording has version 1, this build reads 2: record again"
        );
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        for text in [
            "",
            "shopping list",
            "shopping list\n",
            "rr-channel 2\n",
            "rr-channel 2\nx\n",
        ] {
            assert_eq!(
                check(text).unwrap_err(),
                "dir: it is no recording",
                "{text:?}"
            );
        }
        let header = session_header("p");
        for line in ["thread", "thread x main", "thread 1 /", "ended 3", "milk"] {
            assert!(check(&format!("{header}{line}\n")).is_err(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(rr-channel 2\nprogram p\n)?(thread|ended|[ 0-9]|main|\n|.)*") {
            let _ = check(&text);
        }
    }
}
