//! Traces: the records and files of a recording.
//!
//! A trace is a directory:
//!
//! | name | holds |
//! |---|---|
//! | `trace.json` | the [`Header`]: format, command, machine |
//! | `events` | [`Record`]s in blocks ([`block`]) |
//! | `files/` | contents of mapped files, by digest ([`files`]) |
//! | `changing` | the list of files that change while they are mapped ([`changing`]); optional |
//! | `packed.json` | the list of system files that were copied later ([`pack`]); optional |
//!
//! Blocks are compressed and checksummed one by one, and written in order: a recording that is
//! cut short is complete up to its last whole block. Contents are written before their names:
//! a directory is a trace once it has a `trace.json`, and a record names a content only after
//! it has been stored.

pub mod block;
pub mod changing;
pub mod event;
pub mod files;
pub mod fsck;
pub(crate) mod line;
pub mod pack;
#[doc(hidden)]
pub mod probe;
mod reader;
mod writer;

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use self::changing::Changing;
pub use self::event::{Event, Record, Task};
use self::pack::Packed;
pub use self::reader::{Reader, Tail};
pub use self::writer::Writer;

/// The format of what is written now.
pub const FORMAT: u32 = 7;

/// A trace cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be used.
    #[error("{}: {error}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The directory is not a trace.
    #[error("{} is not a trace: {reason}", path.display())]
    NotATrace {
        /// The path.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The trace has the format of another version.
    #[error("{} has trace format {found}, and this reprise reads format {FORMAT}: use the version that recorded it", path.display())]
    Format {
        /// The path.
        path: PathBuf,
        /// The format of the trace.
        found: u32,
    },
    /// A file that programs had mapped has changed.
    #[error("{}: the file has been changed or replaced since the recording: restore it, or record again (`reprise pack` keeps copies)", path.display())]
    Changed {
        /// The path.
        path: PathBuf,
    },
    /// A block is damaged.
    #[error("{}: the block at byte {offset} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The byte where the block begins.
        offset: u64,
        /// A description of the damage.
        reason: String,
    },
}

impl Error {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Io { path, error }
    }
}

/// Writes a file atomically: it has the whole content, or does not exist.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let new = path.with_extension("new");
    std::fs::write(&new, bytes).map_err(Error::io(&new))?;
    std::fs::rename(&new, path).map_err(Error::io(path))
}

/// Facts about a recording that are known at its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The format ([`FORMAT`]).
    pub format: u32,
    /// The command and its arguments; bytes that are not UTF-8 are replaced.
    pub command: Vec<String>,
    /// The working directory of the command.
    pub directory: String,
    /// The start, in seconds since 1970.
    pub started: u64,
    /// The machine that it ran on.
    pub machine: crate::platform::machine::Machine,
    /// Whether memory was digested at the ends of processes.
    pub digests: bool,
    /// The seed, if turns were given by chance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chaos: Option<u64>,
}

/// A trace's directory.
#[derive(Debug, Clone)]
pub struct Directory {
    path: PathBuf,
    packed: Packed,
    changing: Changing,
}

impl Directory {
    /// Makes the directory, which must not exist, and writes the header.
    ///
    /// # Errors
    /// When it exists, or cannot be made.
    pub fn create(path: impl Into<PathBuf>, header: &Header) -> Result<Self, Error> {
        let path = path.into();
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(Error::io(parent))?;
        }
        // What a program read may be secret.
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path).map_err(Error::io(&path))?;
        let this = Self {
            path,
            packed: Packed::default(),
            changing: Changing::default(),
        };
        if let Err(error) = this.fill(header) {
            // An incomplete directory is of no use.
            let _ = std::fs::remove_dir_all(&this.path);
            return Err(error);
        }
        Ok(this)
    }

    fn fill(&self, header: &Header) -> Result<(), Error> {
        let files = self.path.join("files");
        std::fs::create_dir(&files).map_err(Error::io(&files))?;
        let events = self.events();
        std::fs::File::create_new(&events).map_err(Error::io(&events))?;
        let json = self.path.join("trace.json");
        let text = serde_json::to_vec_pretty(header).map_err(|error| Error::NotATrace {
            path: json.clone(),
            reason: error.to_string(),
        })?;
        replace(&json, &text)
    }

    /// An existing trace.
    ///
    /// # Errors
    /// When there is none, or one of another format.
    pub fn open(path: impl Into<PathBuf>) -> Result<(Self, Header), Error> {
        let path = path.into();
        let json = path.join("trace.json");
        let not = |reason: String| Error::NotATrace {
            path: path.clone(),
            reason,
        };
        let text = match std::fs::read(&json) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let reason = if path.is_dir() {
                    "it has no trace.json"
                } else {
                    "there is no such directory"
                };
                return Err(not(reason.to_owned()));
            }
            Err(error) => return Err(Error::Io { path: json, error }),
        };
        #[derive(Deserialize)]
        struct Versioned {
            format: u32,
        }
        let Versioned { format } =
            serde_json::from_slice(&text).map_err(|error| not(error.to_string()))?;
        if format != FORMAT {
            let found = format;
            return Err(Error::Format { path, found });
        }
        let header = serde_json::from_slice(&text).map_err(|error| not(error.to_string()))?;
        let packed = Packed::read(&path)?;
        let changing = Changing::read(&path)?;
        let this = Self {
            path,
            packed,
            changing,
        };
        Ok((this, header))
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file of its records.
    pub fn events(&self) -> PathBuf {
        self.path.join("events")
    }

    /// The file that holds this content.
    pub fn content(&self, digest: &[u8; 32]) -> PathBuf {
        let name = blake3::Hash::from_bytes(*digest).to_hex();
        self.path.join("files").join(name.as_str())
    }
}
