//! Facts: questions about the world, and the answers they had.
//!
//! A [`Query`] can be asked at any time with [`Query`]'s path alone; an
//! [`Answer`] is what the world said. A precondition is a query with the answer
//! it must have. Paths are stored as the program named them (made absolute),
//! not resolved: asking the kernel the same question about the same path is
//! what re-running the program would do, symlinks on the way included.

use crate::model::path::FilePath;

use serde::{Deserialize, Serialize};

/// A BLAKE3 digest (32 bytes).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// How much of a file's timestamps and identity its reader may depend on.
///
/// Ordered from weak to strong; a stronger use implies the weaker one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TimeUse {
    /// Not at all (compilers).
    None,
    /// Only by comparing them with each other (make, test -nt): the order
    /// among all of them is a separate [`Query::Order`], and the content of
    /// the file counts in their place.
    Order,
    /// The modification time exactly (Python's bytecode).
    Modified,
    /// Modification and change time and inode number exactly: the default.
    Exact,
}

/// One question about the world.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Query {
    /// The result of opening the path (links are followed): the content of a regular file, or the
    /// kind of anything else.
    Content(FilePath),
    /// Metadata as stat (or lstat, when `follow` is false) tells it.
    Stat {
        /// Which file.
        path: FilePath,
        /// Whether a link in the last component is followed (stat, not lstat).
        follow: bool,
        /// How much of its times counts.
        time: TimeUse,
    },
    /// The answer of faccessat with `mode`; `effective` as `AT_EACCESS`.
    Access {
        /// Which file.
        path: FilePath,
        /// `R_OK`, `W_OK`, `X_OK`, or `F_OK`.
        mode: i32,
        /// By effective ids (`AT_EACCESS`) instead of real ones.
        effective: bool,
        /// Whether a link in the last component is followed.
        follow: bool,
    },
    /// The target of a symbolic link.
    Link(FilePath),
    /// The names in a directory.
    List(FilePath),
    /// The canonical form of a directory that was reached through links or `..`.
    RealPath(FilePath),
    /// The target of a write without a look: nothing, a plain writable file with one link, or
    /// something else.
    Target(FilePath),
    /// The kind of file at a path, if there is one.
    Kind {
        /// Which file.
        path: FilePath,
        /// Whether a link in the last component is followed.
        follow: bool,
    },
    /// Inode and device number of what is there.
    Inode {
        /// Which file.
        path: FilePath,
        /// Whether a link in the last component is followed.
        follow: bool,
    },
    /// Permission bits and owner of what is there (links are not followed).
    Permissions(FilePath),
    /// The order of the modification times of these paths (following links).
    Order(Vec<FilePath>),
    /// File system statistics.
    StatFs(FilePath),
    /// An extended attribute; the list of them when the name is empty.
    Xattr {
        /// Which file.
        path: FilePath,
        /// Whether a link in the last component is followed.
        follow: bool,
        /// The attribute's name with its namespace (`user.x`), or nothing.
        name: Vec<u8>,
    },
    /// As [`Query::Target`], of a program that removes what stands there before it
    /// writes, unless that is empty (GNU as and ld): an empty file keeps its inode
    /// and permissions.
    Replaced(FilePath),
    /// A part that the program's key leaves out, as a digest. Only the context of its execve can
    /// answer ([`ExecContext`](crate::key::exec_context::ExecContext)).
    LeftOut(Part),
}

/// Something that the keys of some programs say nothing of, since it means something to few of
/// their runs ([`Streams`](crate::policy::Streams)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Part {
    /// The kind of standard input.
    Input,
    /// The kinds of standard output and standard error.
    Output,
    /// The variables that say how makes and shells are nested above the program.
    Nesting,
    /// How large the terminals are that it inherits.
    Size,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Input, Self::Output, Self::Nesting, Self::Size];
}

/// Some of the parts that keys leave out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parts([bool; Part::ALL.len()]);

impl Parts {
    /// Adds one.
    pub fn insert(&mut self, part: Part) {
        self.0[part as usize] = true;
    }

    /// Whether it is one of them.
    pub fn contains(self, part: Part) -> bool {
        self.0[part as usize]
    }
}

impl Query {
    /// The paths that the question is about.
    pub fn paths(&self) -> &[FilePath] {
        match self {
            Self::Content(path)
            | Self::Link(path)
            | Self::List(path)
            | Self::RealPath(path)
            | Self::Target(path)
            | Self::Replaced(path)
            | Self::Permissions(path)
            | Self::StatFs(path)
            | Self::Stat { path, .. }
            | Self::Access { path, .. }
            | Self::Kind { path, .. }
            | Self::Inode { path, .. }
            | Self::Xattr { path, .. } => std::slice::from_ref(path),
            Self::Order(paths) => paths,
            Self::LeftOut(_) => &[],
        }
    }

    /// The same, to be changed.
    pub fn paths_mut(&mut self) -> &mut [FilePath] {
        match self {
            Self::Content(path)
            | Self::Link(path)
            | Self::List(path)
            | Self::RealPath(path)
            | Self::Target(path)
            | Self::Replaced(path)
            | Self::Permissions(path)
            | Self::StatFs(path)
            | Self::Stat { path, .. }
            | Self::Access { path, .. }
            | Self::Kind { path, .. }
            | Self::Inode { path, .. }
            | Self::Xattr { path, .. } => std::slice::from_mut(path),
            Self::Order(paths) => paths,
            Self::LeftOut(_) => &mut [],
        }
    }

    /// A question that fails as this one does, and otherwise says what kind of
    /// thing is there, without looking into it: a file that was absent and is there
    /// now need not be digested.
    pub(crate) fn presence(&self) -> Option<Self> {
        let (path, follow) = match self {
            Self::Content(path) => (path, true),
            Self::Stat {
                path,
                follow,
                time: TimeUse::Order,
            } => (path, *follow),
            _ => return None,
        };
        Some(Self::Kind {
            path: path.clone(),
            follow,
        })
    }
}

impl Answer {
    /// Whether this is how [`Query::presence`] says that something is there.
    pub(crate) fn is_presence(&self) -> bool {
        matches!(self, Self::Directory | Self::Special { .. })
    }
}

/// The answer to a query. Answers are compared for equality, and digested into the edges of the
/// decision tree.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Answer {
    /// The question failed with this errno (`ENOENT`: absent).
    Error(i32),
    /// A regular file with this content.
    File(Digest),
    /// A directory.
    Directory,
    /// A device with this number (as `st_rdev`), or FIFO or socket (0).
    Special {
        /// The type bits of `st_mode` (`S_IFMT`).
        kind: u32,
        /// `st_rdev`.
        device: u64,
    },
    /// Metadata; what the query's [`TimeUse`] leaves out is zero.
    Metadata(Box<Metadata>),
    /// Permission granted.
    Granted,
    /// A link target or a canonical path.
    Path(FilePath),
    /// A digest over a list, an attribute or statistics.
    Summary(Digest),
    /// [`Query::Target`] and [`Query::Replaced`]: nothing there, or a plain file that
    /// can be rewritten.
    Writable,
    /// It cannot be known (the reason says why); never equal to what was
    /// stored, because such an answer is never stored.
    Unknown(String),
}

/// The metadata of one file, as far as a reader may depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Metadata {
    /// `st_mode`: type and permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes (0 for directories, whose size is the file system's own).
    pub size: u64,
    /// Number of hard links (0 for directories).
    pub links: u64,
    /// Modification time in ns since the epoch, where it counts.
    pub modified: i128,
    /// Change time in ns since the epoch, where it counts.
    pub changed: i128,
    /// Inode and device number, where they count.
    pub inode: (u64, u64),
    /// Content, where it stands in for the timestamp ([`TimeUse::Order`]).
    pub content: Option<Digest>,
}

/// A question with the answer it had.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fact {
    /// The query.
    pub query: Query,
    /// Its answer.
    pub answer: Answer,
}
