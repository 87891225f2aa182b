//! Misses in words.

use crate::model::fact::{Answer, Part, Query, TimeUse};
use crate::model::path::FilePath;
use crate::store::Miss;

/// A miss in words.
pub fn describe(miss: &Miss) -> String {
    match miss {
        Miss::NoEntry => "not seen like this before".to_owned(),
        Miss::Incomplete(what) => format!("its result is incomplete: {what}"),
        Miss::Changed {
            query,
            recorded,
            found,
        } => change(query, recorded, found),
    }
}

/// A fact that differs, in words.
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
        Query::List(path) => ("names in", path),
        Query::RealPath(path) => ("links on the way to", path),
        Query::Target(path) | Query::Replaced(path) | Query::Kind { path, .. } => {
            ("what stands at", path)
        }
        Query::Permissions(path) => ("permissions of", path),
        Query::Inode { path, .. } => ("inode number of", path),
        Query::Order(_) => return "the order of file times differs".to_owned(),
        Query::LeftOut(part) => {
            return match part {
                Part::Input => "standard input is something else",
                Part::Output => "standard output or error is something else",
                Part::Size => "its terminal has another size",
                Part::Nesting => "MAKEFLAGS, MFLAGS, MAKELEVEL or SHLVL is another",
            }
            .to_owned();
        }
        Query::StatFs(path) => ("file system of", path),
        Query::Xattr { path, .. } => ("attributes of", path),
    };
    let missing = |answer: &Answer| matches!(answer, Answer::Error(libc::ENOENT));
    let how = match (missing(recorded), missing(found)) {
        (true, false) => "appeared",
        (false, true) => "is gone",
        _ => "differs",
    };
    format!("{what} {} {how}", path.display())
}
