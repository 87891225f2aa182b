//! Facts: queries about files and the system, with their answers.
//!
//! A [`Query`] contains all that is needed to ask it at any time; an [`Answer`] is the result. A
//! precondition is a query with its required answer. Paths are stored as the program named them
//! (made absolute), not resolved. The same query to the kernel by the same path is what a new run
//! of the program would make, including symbolic links on the way.

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

/// How strongly a reader may depend on a file's timestamps and identity.
///
/// Ordered from weak to strong; a stronger use implies the weaker one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TimeUse {
    /// Not at all (compilers).
    None,
    /// Only by comparing them with each other (make, test -nt): the order among all of them is a
    /// separate [`Query::Order`], and the content of the file counts instead of its time.
    Order,
    /// The modification time exactly (Python's bytecode).
    Modified,
    /// Modification and change time and inode number exactly: the default.
    Exact,
}

/// One query.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Query {
    /// The result of opening the path (links are followed): the content of a regular file, or the
    /// kind of anything else.
    Content(FilePath),
    /// Metadata as returned by stat (or lstat, if `follow` is false).
    Stat {
        /// The file.
        path: FilePath,
        /// Whether a link in the last component is followed (stat, not lstat).
        follow: bool,
        /// How strongly its times count.
        time: TimeUse,
    },
    /// The answer of faccessat with `mode`; `effective` as `AT_EACCESS`.
    Access {
        /// The file.
        path: FilePath,
        /// `R_OK`, `W_OK`, `X_OK`, or `F_OK`.
        mode: i32,
        /// Whether effective ids count (`AT_EACCESS`) instead of real ones.
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
    /// The target of a write without an earlier lookup: absent, a regular writable file with one
    /// link, or another kind.
    Target(FilePath),
    /// The file type at a path, if a file exists.
    Kind {
        /// The file.
        path: FilePath,
        /// Whether a link in the last component is followed.
        follow: bool,
    },
    /// Inode and device number of the file.
    Inode {
        /// The file.
        path: FilePath,
        /// Whether a link in the last component is followed.
        follow: bool,
    },
    /// Permission bits and owner of the file (links are not followed).
    Permissions(FilePath),
    /// The order of the modification times of these paths (following links).
    Order(Vec<FilePath>),
    /// File system statistics.
    StatFs(FilePath),
    /// An extended attribute; if the name is empty, the list of all.
    Xattr {
        /// The file.
        path: FilePath,
        /// Whether a link in the last component is followed.
        follow: bool,
        /// The attribute's name with its namespace (`user.x`), or empty.
        name: Vec<u8>,
    },
    /// Same as [`Query::Target`], for a program that removes an existing non-empty file before it
    /// writes (GNU as and ld). An empty file keeps its inode and permissions.
    Replaced(FilePath),
    /// A part omitted from the program's key, as a digest. Only the context of its execve can
    /// answer ([`ExecContext`](crate::key::exec_context::ExecContext)).
    LeftOut(Part),
    /// Properties that a directory passes on to the files made in it: its group, if its
    /// set-group-ID bit is set, and its default access list.
    Inherited(FilePath),
    /// All extended attributes of the file, access lists included (links are not followed). Labels
    /// that the system sets itself do not count.
    Attributes(FilePath),
    /// Whether two files are on one mount, as rename(2) and link(2) need it.
    OneMount {
        /// The files, usually directories.
        paths: [FilePath; 2],
        /// Whether several mounts of one device count as one (copy_file_range(2)).
        device: bool,
    },
}

/// A part that the keys of some programs omit, since it counts for few of their runs
/// ([`Streams`](crate::policy::Streams)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Part {
    /// The kind of standard input.
    Input,
    /// The kinds of standard output and standard error.
    Output,
    /// The variables with the nesting of makes and shells above the program.
    Nesting,
    /// The sizes of inherited terminals.
    Size,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Input, Self::Output, Self::Nesting, Self::Size];
}

/// A set of parts that keys omit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parts([bool; Part::ALL.len()]);

impl Parts {
    /// Adds a part.
    pub fn insert(&mut self, part: Part) {
        self.0[part as usize] = true;
    }

    /// Whether the set contains a part.
    pub fn contains(self, part: Part) -> bool {
        self.0[part as usize]
    }
}

impl Query {
    /// Returns the paths of the query.
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
            | Self::Inherited(path)
            | Self::Attributes(path)
            | Self::Stat { path, .. }
            | Self::Access { path, .. }
            | Self::Kind { path, .. }
            | Self::Inode { path, .. }
            | Self::Xattr { path, .. } => std::slice::from_ref(path),
            Self::Order(paths) => paths,
            Self::OneMount { paths, .. } => paths,
            Self::LeftOut(_) => &[],
        }
    }

    /// Returns the paths of the query for changes.
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
            | Self::Inherited(path)
            | Self::Attributes(path)
            | Self::Stat { path, .. }
            | Self::Access { path, .. }
            | Self::Kind { path, .. }
            | Self::Inode { path, .. }
            | Self::Xattr { path, .. } => std::slice::from_mut(path),
            Self::Order(paths) => paths,
            Self::OneMount { paths, .. } => paths,
            Self::LeftOut(_) => &mut [],
        }
    }

    /// Returns the same query about another path.
    pub(crate) fn about(&self, path: &FilePath) -> Self {
        let mut query = self.clone();
        if let [asked] = query.paths_mut() {
            asked.clone_from(path);
        }
        query
    }

    /// Returns a query that fails as this one does, and otherwise returns the file type without
    /// reading the file. A file that was absent and exists now need not be digested.
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
    /// Whether this is the form of [`Query::presence`] for an existing file.
    pub(crate) fn is_presence(&self) -> bool {
        matches!(self, Self::Directory | Self::Special { .. })
    }
}

/// The answer to a query. Answers are compared for equality, and digested into the edges of the
/// decision tree.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Answer {
    /// The query failed with this errno (`ENOENT`: absent).
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
    /// Metadata; fields that the query's [`TimeUse`] omits are zero.
    Metadata(Box<Metadata>),
    /// Permission granted.
    Granted,
    /// A link target or a canonical path.
    Path(FilePath),
    /// A digest over a list, an attribute or statistics.
    Summary(Digest),
    /// [`Query::Target`] and [`Query::Replaced`]: absent, or a regular file that can be rewritten.
    Writable,
    /// The answer is unknown for this reason; never equal to a stored answer, because such an
    /// answer is never stored.
    Unknown(String),
}

/// The metadata of one file on which a reader may depend.
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
    /// Modification time in ns since the epoch, if it counts.
    pub modified: i128,
    /// Change time in ns since the epoch, if it counts.
    pub changed: i128,
    /// Inode and device number, if they count.
    pub inode: (u64, u64),
    /// Content, if it counts instead of the timestamp ([`TimeUse::Order`]).
    pub content: Option<Digest>,
}

/// A query with its answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fact {
    /// The query.
    pub query: Query,
    /// Its answer.
    pub answer: Answer,
}
