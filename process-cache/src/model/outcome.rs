//! The outcome of an exec-unit: the postconditions that a hit establishes.

use std::collections::HashSet;

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
    /// Final positions of inherited regular-file descriptors that the unit read from: (descriptor
    /// number, offset relative to the initial position).
    #[serde(deserialize_with = "crate::platform::bounded::list::<_, _, MANY>")]
    pub positions: Vec<(i32, u64)>,
    /// Changed status flags (`O_APPEND`, `O_NONBLOCK`) of inherited descriptors: (descriptor
    /// number, flags).
    #[serde(deserialize_with = "crate::platform::bounded::list::<_, _, MANY>")]
    pub flags: Vec<(i32, i32)>,
    /// Changes of the file tree, in the order of production.
    #[serde(deserialize_with = "crate::platform::bounded::list::<_, _, MANY>")]
    pub effects: Vec<Effect>,
    /// For each effect whose file gets the present time ([`present_times`]), the rank of that time
    /// among all of them, from 1; 0 for other effects. Empty if all ranks are equal.
    #[serde(deserialize_with = "crate::platform::bounded::list::<_, _, MANY>")]
    pub ages: Vec<u32>,
    /// Facts that a parent inherits when this unit is skipped. (They are the facts along the path
    /// in the decision tree; a lookup fills them in, so that they are stored once.)
    #[serde(skip)]
    pub facts: Vec<Fact>,
    /// Further conditions of a result that may come from another directory; `None` for one that was
    /// recorded here.
    #[serde(skip)]
    pub conditions: Option<Vec<Fact>>,
    /// Wall time of this run, regardless of skipped units in it, in µs.
    pub cpu_us: u64,
    /// Wall time of the run, plus the recorded time of units skipped in it, in µs.
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
    /// Converts a wait status (wait(2)).
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

/// The location of a chunk's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamData {
    /// In the outcome itself.
    Inline(Vec<u8>),
    /// In the content store (digest, length in bytes).
    Stored(Digest, u64),
    /// In the outcome itself: a directory message of make, written in one call. In another
    /// directory, the message names that directory ([`crate::relocation`]).
    Place(Vec<u8>),
}

/// The modification time that a hit gives a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Time {
    /// Set by writing: it becomes the present, in production order.
    Present,
    /// It was set explicitly: (accessed, modified) in ns since the epoch are
    /// restored exactly; an absent one becomes the present.
    Set(Option<i128>, Option<i128>),
    /// Unchanged.
    Kept,
    /// Of a directory that was there before: the present if effects make or remove names in it.
    WithNames,
}

/// One change of the file tree. Paths are absolute, and their directory part
/// is canonical (no symlinks).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// The file has this content: written in place if a regular file exists (which keeps its
    /// inode), created otherwise.
    Write {
        /// The file.
        path: FilePath,
        /// Digest of its content.
        content: Digest,
        /// Its length in bytes.
        length: u64,
        /// Whether its zero pages are holes.
        holes: bool,
        /// Permission bits: `Some` sets them exactly (chmod, or a new file).
        mode: Option<u32>,
        /// Permission bits if it has to be created.
        create_mode: u32,
        /// Whether the name gets a new inode even if a file exists: unlinked and created again, or
        /// renamed over.
        fresh: bool,
        /// Its modification time.
        time: Time,
    },
    /// Bytes were appended to the file (created with `create_mode` if absent).
    Append {
        /// The file.
        path: FilePath,
        /// Digest of the appended bytes.
        data: Digest,
        /// The number of bytes appended.
        length: u64,
        /// Permission bits if it has to be created.
        create_mode: u32,
        /// Its modification time.
        time: Time,
    },
    /// A directory exists with these permission bits.
    MakeDir {
        /// The directory.
        path: FilePath,
        /// Its permission bits.
        mode: u32,
        /// Its modification time, set after all its entries are made.
        time: Time,
    },
    /// A symbolic link (replaces an existing non-directory).
    Symlink {
        /// The path of the link.
        path: FilePath,
        /// The target as given.
        target: FilePath,
    },
    /// A hard link to a file that the unit did not write or wrote before.
    HardLink {
        /// The new name.
        path: FilePath,
        /// The name of the file that is linked.
        to: FilePath,
    },
    /// The name is removed (a file, link or other non-directory).
    Remove {
        /// The name.
        path: FilePath,
    },
    /// The directory is removed; it is empty by then.
    RemoveDir {
        /// The directory.
        path: FilePath,
    },
    /// Permission bits were set on a file or directory whose content was not written.
    Chmod {
        /// The file or directory.
        path: FilePath,
        /// Its permission bits.
        mode: u32,
    },
    /// Timestamps were set on a file or directory whose content was not written.
    SetTimes {
        /// The file or directory.
        path: FilePath,
        /// Its times.
        time: Time,
    },
    /// An extended attribute of a file or directory was set or removed. A new file has none that
    /// no effect sets, also below a directory with a default access list.
    Attribute {
        /// The file or directory.
        path: FilePath,
        /// The attribute's name with its namespace (`user.x`, `system.posix_acl_access`).
        name: Vec<u8>,
        /// Its value; `None` if it was removed.
        value: Option<Vec<u8>>,
    },
}

impl Effect {
    /// Returns the path of the effect.
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
            | Self::SetTimes { path, .. }
            | Self::Attribute { path, .. } => path,
        }
    }

    /// Whether it only says at which time other effects change a directory.
    pub fn follows_from_others(&self) -> bool {
        matches!(self, Self::SetTimes { time, .. } if *time == Time::WithNames)
    }
}

/// Tells for each effect whether its file, directory or symbolic link gets the present time. A time
/// that another effect sets explicitly stays.
pub fn present_times(effects: &[Effect]) -> Vec<bool> {
    let dated: HashSet<&FilePath> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::SetTimes {
                path,
                time: Time::Set(..),
            } => Some(path),
            _ => None,
        })
        .collect();
    let of = |effect: &Effect| match effect {
        Effect::Write { path, time, .. }
        | Effect::Append { path, time, .. }
        | Effect::MakeDir { path, time, .. }
        | Effect::SetTimes { path, time } => {
            matches!(time, Time::Present | Time::WithNames) && !dated.contains(path)
        }
        Effect::Symlink { path, .. } => !dated.contains(path),
        Effect::HardLink { .. }
        | Effect::Remove { .. }
        | Effect::RemoveDir { .. }
        | Effect::Chmod { .. }
        | Effect::Attribute { .. } => false,
    };
    effects.iter().map(of).collect()
}
