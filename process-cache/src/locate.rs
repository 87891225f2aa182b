//! From a path as a program names it to the thing it means.
//!
//! Facts are asked by the path as given; but whether a unit looks at something
//! that it made itself is decided by the *resource*: the canonical path. The
//! canonical form of a directory is remembered until a traced process makes
//! or removes a link, or moves something.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use crate::path::FilePath;

/// What a path means at present.
#[derive(Debug)]
pub struct Located {
    /// The canonical path; of what is missing, as far as it can be told.
    pub resource: FilePath,
    /// What stat (or lstat) says of it.
    pub stat: Result<Stat, Errno>,
    /// The directory part as given, where it is not canonical, and what it is.
    pub indirect: Option<(FilePath, FilePath)>,
}

/// Remembers canonical directories.
#[derive(Debug, Default)]
pub struct Locator {
    directories: FxHashMap<Vec<u8>, FilePath>,
}

/// Whether this is a symbolic link.
pub fn is_link(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

/// Whether this is a regular file.
pub fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// Whether this is a directory.
pub fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

impl Locator {
    /// Forgets everything: the tree's shape has changed.
    pub fn forget(&mut self) {
        self.directories.clear();
    }

    /// The canonical form of a directory, if it exists.
    pub fn directory(&mut self, directory: &Path) -> Option<FilePath> {
        let bytes = directory.as_os_str().as_bytes();
        if let Some(known) = self.directories.get(bytes) {
            return Some(known.clone());
        }
        let canonical = FilePath::from(std::fs::canonicalize(directory).ok()?);
        self.directories.insert(bytes.to_vec(), canonical.clone());
        Some(canonical)
    }

    /// The canonical path of a name whose last component is not followed.
    pub fn name(&mut self, path: &Path) -> FilePath {
        let Some((directory, name)) = parts(path) else {
            return std::fs::canonicalize(path).map_or_else(|_| path.into(), FilePath::from);
        };
        match self.directory(directory) {
            Some(canonical) => FilePath::from(canonical.join(OsStr::from_bytes(name))),
            None => path.into(),
        }
    }

    /// The canonical path of a name whose last component is not followed, and
    /// its directory as given, where that is not canonical, with what it is.
    pub fn place(&mut self, path: &Path) -> (FilePath, Option<(FilePath, FilePath)>) {
        let Some((directory, name)) = parts(path) else {
            return (self.name(path), None);
        };
        let Some(canonical) = self.directory(directory) else {
            return (path.into(), None);
        };
        if canonical.as_os_str() == directory.as_os_str() {
            return (path.into(), None);
        }
        let resource = FilePath::from(canonical.join(OsStr::from_bytes(name)));
        (resource, Some((FilePath::from(directory), canonical)))
    }

    /// Looks at a path.
    pub fn look(&mut self, path: &Path, follow: bool) -> Located {
        let follow = follow || path.as_os_str().as_bytes().ends_with(b"/");
        let mut stat = rustix::fs::lstat(path);
        let indirect = parts(path).and_then(|(directory, _)| {
            let canonical = self.directory(directory)?;
            (canonical.as_os_str() != directory.as_os_str())
                .then(|| (FilePath::from(directory), canonical))
        });
        let resource = match &stat {
            Ok(found) if follow && is_link(found) => {
                stat = rustix::fs::stat(path);
                self.target(path)
            }
            _ => self.name(path),
        };
        Located {
            resource,
            stat,
            indirect,
        }
    }

    /// Where a link leads in the end, also when nothing is there.
    fn target(&mut self, path: &Path) -> FilePath {
        let mut at = PathBuf::from(path);
        for _ in 0..40 {
            if let Ok(canonical) = std::fs::canonicalize(&at) {
                return canonical.into();
            }
            match std::fs::read_link(&at) {
                Ok(target) => {
                    at = at.parent().unwrap_or(Path::new("/")).join(target);
                }
                Err(_) => break,
            }
        }
        self.name(&at)
    }
}

/// Directory and name; `None` where the last component is no plain name.
fn parts(path: &Path) -> Option<(&Path, &[u8])> {
    let name = path.file_name()?.as_bytes();
    let bytes = path.as_os_str().as_bytes();
    // `file_name` looks through a trailing `/.`, which follows like `/`.
    if bytes.ends_with(b"/.") || bytes.ends_with(b"/") {
        return None;
    }
    Some((path.parent()?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_on_the_way_is_told_and_the_resource_is_canonical() {
        let dir = tempfile::tempdir().expect("a directory");
        let base = dir.path().canonicalize().expect("its path");
        std::fs::create_dir(base.join("real")).expect("mkdir");
        std::os::unix::fs::symlink("real", base.join("alias")).expect("symlink");
        let mut locator = Locator::default();
        let found = locator.look(&base.join("alias/file"), true);
        assert_eq!(found.resource, FilePath::from(base.join("real/file")));
        assert_eq!(found.stat.err(), Some(Errno::NOENT));
        let (given, canonical) = found.indirect.expect("an indirection");
        assert_eq!(given, FilePath::from(base.join("alias")));
        assert_eq!(canonical, FilePath::from(base.join("real")));
    }

    #[test]
    fn a_dangling_link_leads_to_what_it_would_create() {
        let dir = tempfile::tempdir().expect("a directory");
        let base = dir.path().canonicalize().expect("its path");
        std::os::unix::fs::symlink("later", base.join("link")).expect("symlink");
        let mut locator = Locator::default();
        let found = locator.look(&base.join("link"), true);
        assert_eq!(found.resource, FilePath::from(base.join("later")));
        assert_eq!(found.stat.err(), Some(Errno::NOENT));
        let found = locator.look(&base.join("link"), false);
        assert_eq!(found.resource, FilePath::from(base.join("link")));
        assert!(found.stat.is_ok_and(|stat| is_link(&stat)));
    }
}
