//! The outcome of an exec-unit: the postconditions that a hit establishes.

use crate::model::path::FilePath;
use crate::platform::bounded::MANY;

use serde::{Deserialize, Serialize};

use crate::model::fact::{Digest, Fact};

/// The result of one exec-unit (with all units below it).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// How the unit's main process ended.
    pub ending: Ending,
    /// Bytes written to inherited descriptors, in order.
    #[serde(deserialize_with = "crate::platform::bounded::list::<_, _, MANY>")]
    pub stream: Vec<StreamChunk>,
    /// Final positions of inherited regular-file descriptors that the unit
    /// read from: (descriptor number, offset relative to where it began).
    #[serde(deserialize_with = "crate::platform::bounded::list::<_, _, MANY>")]
    pub positions: Vec<(i32, u64)>,
    /// Status flags (`O_APPEND`, `O_NONBLOCK`) that inherited descriptors are
    /// left with, where they changed: (descriptor number, flags).
    #[serde(deserialize_with = "crate::platform::bounded::list::<_, _, MANY>")]
    pub flags: Vec<(i32, i32)>,
    /// Changes of the file tree, in the order of production.
    #[serde(deserialize_with = "crate::platform::bounded::list::<_, _, MANY>")]
    pub effects: Vec<Effect>,
    /// For each effect that leaves a plain file or a directory with [`Time::Present`], the
    /// rank of that time among all of them, from 1; 0 for the others. Empty
    /// when they are all the same.
    #[serde(deserialize_with = "crate::platform::bounded::list::<_, _, MANY>")]
    pub ages: Vec<u32>,
    /// Facts a parent inherits when this unit is skipped inside it. (They are
    /// the facts along the path of the decision tree and are filled in on
    /// lookup, not stored twice.)
    #[serde(skip)]
    pub facts: Vec<Fact>,
    /// Further conditions of a result that may come from another directory; `None` for one that was
    /// recorded here.
    #[serde(skip)]
    pub conditions: Option<Vec<Fact>>,
    /// Wall time of this very run, whatever was skipped in it, in µs.
    pub cpu_us: u64,
    /// Wall time the run took, in µs; with what skipped units in it took when they ran.
    pub wall_us: u64,
    /// The number of exec-units in the subtree, this one included.
    pub units: u32,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// Exit status (0 to 255).
    Exited(i32),
    /// Killed by this signal.
    Killed(i32),
}

impl Ending {
    /// From a wait status (wait(2)).
    pub fn from_wait(status: i32) -> Self {
        if status & 0x7f == 0 {
            Self::Exited((status >> 8) & 0xff)
        } else {
            Self::Killed(status & 0x7f)
        }
    }
}

/// Bytes that the unit wrote into an inherited descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamChunk {
    /// The lowest inherited descriptor number of that open file description.
    pub fd: i32,
    /// The bytes: inline up to 4 KiB in one chunk, otherwise in the store.
    pub data: StreamData,
}

/// Where a chunk's bytes are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamData {
    /// In the outcome itself.
    Inline(Vec<u8>),
    /// In the content store (digest, length in bytes).
    Stored(Digest, u64),
    /// In the outcome itself: what make says of the place in a known way, in one call. At
    /// other places it says the same of that place ([`crate::relocation`]).
    Place(Vec<u8>),
}

/// The modification time that a hit gives a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Time {
    /// It was made by writing: it becomes the present, in production order.
    Present,
    /// It was set explicitly: (accessed, modified) in ns since the epoch are
    /// restored exactly; an absent one becomes the present.
    Set(Option<i128>, Option<i128>),
    /// It is left alone.
    Kept,
}

/// One change of the file tree. Paths are absolute, and their directory part
/// is canonical (no symlinks).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// The file has this content: written in place when a plain file is there
    /// (keeping its inode), created otherwise.
    Write {
        /// Which file.
        path: FilePath,
        /// Digest of its content.
        content: Digest,
        /// Its length in bytes.
        length: u64,
        /// Its pages of zeros take no room on the disk.
        holes: bool,
        /// Permission bits: `Some` sets them exactly (chmod, or a new file).
        mode: Option<u32>,
        /// Permission bits for the case that it has to be created.
        create_mode: u32,
        /// The name is a new inode even if a file is there: unlinked and
        /// created again, or renamed over.
        fresh: bool,
        /// Its modification time.
        time: Time,
    },
    /// Bytes were appended to the file (created with `create_mode` if absent).
    Append {
        /// Which file.
        path: FilePath,
        /// Digest of the appended bytes.
        data: Digest,
        /// The number of bytes appended.
        length: u64,
        /// Permission bits for the case that it has to be created.
        create_mode: u32,
        /// Its modification time.
        time: Time,
    },
    /// A directory exists with these permission bits.
    MakeDir {
        /// Which directory.
        path: FilePath,
        /// Its permission bits.
        mode: u32,
        /// Its modification time, set after all its entries are made.
        time: Time,
    },
    /// A symbolic link (replacing a non-directory that is there).
    Symlink {
        /// Where the link is.
        path: FilePath,
        /// The target, as it was written.
        target: FilePath,
    },
    /// A hard link to a file that the unit did not write or wrote before.
    HardLink {
        /// The new name.
        path: FilePath,
        /// The name of the file that is linked.
        to: FilePath,
    },
    /// The name is gone (a file, link or other non-directory).
    Remove {
        /// Which name.
        path: FilePath,
    },
    /// The directory is gone; by then it is empty.
    RemoveDir {
        /// Which directory.
        path: FilePath,
    },
    /// Permission bits were set on something whose content was not written.
    Chmod {
        /// Which file or directory.
        path: FilePath,
        /// Its permission bits.
        mode: u32,
    },
    /// Timestamps were set on something whose content was not written.
    SetTimes {
        /// Which file or directory.
        path: FilePath,
        /// Its times.
        time: Time,
    },
}

impl Effect {
    /// The path that it is about.
    pub fn path(&self) -> &FilePath {
        match self {
            Self::Write { path, .. }
            | Self::Append { path, .. }
            | Self::MakeDir { path, .. }
            | Self::Symlink { path, .. }
            | Self::HardLink { path, .. }
            | Self::Remove { path }
            | Self::RemoveDir { path }
            | Self::Chmod { path, .. }
            | Self::SetTimes { path, .. } => path,
        }
    }
}
