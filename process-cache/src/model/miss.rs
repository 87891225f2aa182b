//! Why a unit is not skipped.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::fact::{Answer, Part, Query, TimeUse};
use crate::model::path::FilePath;

/// Why a lookup found no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Miss {
    /// The unit has not been recorded.
    NoEntry,
    /// A fact differs from the recorded result that came closest.
    Changed {
        /// The query.
        query: Query,
        /// The answer that the recorded result needs.
        recorded: Answer,
        /// The answer now.
        found: Answer,
    },
    /// A result would have matched, but part of it is missing or damaged.
    Incomplete(String),
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEntry => {
                f.write_str("no earlier run with the same program, arguments and environment")
            }
            Self::Incomplete(what) => write!(f, "its stored result is incomplete: {what}"),
            Self::Changed {
                query,
                recorded,
                found,
            } => f.write_str(&change(query, recorded, found)),
        }
    }
}

/// Why a unit was not skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Missed {
    /// It was skipped.
    #[default]
    Not,
    /// There was no lookup.
    NotLookedUp,
    /// Nothing is recorded under its weak key.
    New,
    /// A fact differs from a recorded result.
    Changed {
        /// The query.
        query: Query,
        /// The answer that the recorded result needs.
        recorded: Answer,
        /// The answer at the lookup.
        found: Answer,
    },
    /// A result would have matched, but could not be used.
    Unusable(String),
}

impl From<Miss> for Missed {
    fn from(miss: Miss) -> Self {
        match miss {
            Miss::NoEntry => Self::New,
            Miss::Changed {
                query,
                recorded,
                found,
            } => Self::Changed {
                query,
                recorded,
                found,
            },
            incomplete @ Miss::Incomplete(_) => Self::Unusable(incomplete.to_string()),
        }
    }
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Not => Ok(()),
            Self::NotLookedUp => f.write_str("not looked up"),
            Self::New => Miss::NoEntry.fmt(f),
            Self::Changed {
                query,
                recorded,
                found,
            } => f.write_str(&change(query, recorded, found)),
            Self::Unusable(why) => f.write_str(why),
        }
    }
}

/// Describes a differing fact in words.
pub fn change(query: &Query, recorded: &Answer, found: &Answer) -> String {
    let (what, path): (&str, &FilePath) = match query {
        Query::Content(path) => ("content of", path),
        Query::Stat {
            path,
            time: TimeUse::Order,
            ..
        } => ("content or permissions of", path),
        Query::Stat { path, .. } => ("metadata of", path),
        Query::Access { path, .. } => ("permission for", path),
        Query::Link(path) => ("link", path),
        Query::List(path) => ("directory listing of", path),
        Query::RealPath(path) => ("symbolic links on the way to", path),
        Query::Target(path) | Query::Replaced(path) | Query::Kind { path, .. } => {
            ("file or directory at", path)
        }
        Query::Permissions(path) => ("permissions of", path),
        Query::Inode { path, .. } => ("inode number of", path),
        Query::Order(_) => return "the order of modification times differs".to_owned(),
        Query::OneMount {
            paths: [one, other],
            ..
        } => {
            let (one, other) = (one.display(), other.display());
            return match recorded {
                Answer::Granted => format!("{one} and {other} are on different mounts"),
                _ => format!("{one} and {other} are on one mount"),
            };
        }
        Query::LeftOut(part) => {
            return match part {
                Part::Input => "standard input is of another kind",
                Part::Output => "standard output or error is of another kind",
                Part::Size => "its terminal has another size",
                Part::Nesting => "MAKEFLAGS, MFLAGS, MAKELEVEL or SHLVL differs",
            }
            .to_owned();
        }
        Query::StatFs(path) => ("file system of", path),
        Query::Xattr { path, .. } | Query::Attributes(path) => ("attributes of", path),
        Query::Inherited(path) => ("default access list or group of", path),
    };
    let missing = |answer: &Answer| matches!(answer, Answer::Error(libc::ENOENT));
    let how = match (missing(recorded), missing(found)) {
        (true, false) => "appeared",
        (false, true) => "is gone",
        _ => "differs",
    };
    format!("{what} {} {how}", path.display())
}
