//! Why a log cannot be read.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::format::{FORMAT_VERSION, OLDEST_VERSION};

/// Why a file is no log that can be read.
#[derive(Debug)]
pub enum LogError {
    /// The file could not be read at all.
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file does not start as a log does.
    NotALog,
    /// The log has another format version.
    Version {
        /// The version in the file.
        found: u8,
    },
    /// The file ends before the data that its header promises.
    Truncated {
        /// The length according to the header.
        promised: u64,
        /// The length that the file has room for.
        found: u64,
    },
    /// The header's fields contradict each other.
    Header(&'static str),
    /// The bytes do not match the checksum of a sealed log.
    Checksum,
    /// The bytes at some event are no event.
    Body {
        /// Offset within the body.
        at: usize,
        /// Events read before it.
        events: u64,
    },
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Io { path, source } => {
                write!(f, "cannot read {}: {source}", path.display())
            }
            LogError::NotALog => f.write_str("not an rr-channel log"),
            LogError::Version { found } => write!(
                f,
                "log has format version {found}, this build reads {OLDEST_VERSION} to \
                 {FORMAT_VERSION}: record again"
            ),
            LogError::Truncated { promised, found } => write!(
                f,
                "log is truncated: {promised} bytes of events promised, {found} there"
            ),
            LogError::Header(what) => write!(f, "log header is damaged: {what}"),
            LogError::Checksum => f.write_str("log is damaged: its checksum does not match"),
            LogError::Body { at, events } => {
                write!(f, "log is damaged at byte {at}, after {events} events")
            }
        }
    }
}

impl std::error::Error for LogError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // It is in the message.
            LogError::Io { source, .. } => source.source(),
            _ => None,
        }
    }
}
