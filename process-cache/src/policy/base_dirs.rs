//! Base directories: directories whose location does not count.
//!
//! A user names them (`--root`), such as the checkout. A path below one of them has a second form
//! in which the base directory's name replaces its path: `/\0NAME/src/x.c`, which is no path of
//! any file.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::model::path::FilePath;

/// Prefix of a base directory's name in a path.
pub(crate) const MARK: &[u8] = b"/\0";

/// A directory whose location does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseDir {
    /// Its name, the same in every checkout.
    pub name: String,
    /// Its path: absolute, without links, dots or a final slash.
    pub(crate) path: Vec<u8>,
}

impl BaseDir {
    /// Returns its components, outermost first.
    pub(crate) fn parts(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.path[1..].split(|&byte| byte == b'/')
    }

    /// Returns the number of its components.
    pub(crate) fn depth(&self) -> usize {
        self.parts().count()
    }

    /// Returns its ancestors, except `/`.
    pub(crate) fn above(&self) -> impl Iterator<Item = &[u8]> {
        let ends = memchr::memchr_iter(b'/', &self.path).skip(1);
        ends.map(|end| &self.path[..end])
    }

    /// Returns the rest of a path that equals this directory or is below it.
    pub(crate) fn below<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        path.strip_prefix(self.path.as_slice())
            .filter(|rest| rest.first().is_none_or(|&byte| byte == b'/'))
    }
}

/// All base directories of a run.
#[derive(Debug, Default)]
pub struct BaseDirs {
    /// Nested ones come before the directories that contain them.
    dirs: Vec<BaseDir>,
}

/// Why a directory cannot be a base directory.
#[derive(Debug, thiserror::Error)]
pub enum BaseDirError {
    /// It does not exist, for example.
    #[error("{} cannot be a root: {error}", path.display())]
    Absent {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// It is the root directory.
    #[error("/ cannot be a root")]
    All,
    /// An invalid or repeated name.
    #[error("`{0}` is no name of a root, or of two: use letters, digits, `-` and `_`")]
    Name(String),
}

impl BaseDirs {
    /// Parses base directories from arguments: `worktree`, `NAME=DIRECTORY`, or a directory.
    ///
    /// # Errors
    /// The reason why an argument is invalid.
    pub fn new(words: &[String]) -> Result<Self, BaseDirError> {
        let mut roots: Vec<BaseDir> = Vec::new();
        for word in words {
            let (name, place) = match word.split_once('=') {
                Some((name, place)) => (name, PathBuf::from(place)),
                None if word == "worktree" => ("worktree", worktree()),
                None => ("root", PathBuf::from(word)),
            };
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            if name.is_empty()
                || !name.chars().all(is_name)
                || roots.iter().any(|root| root.name == name)
            {
                return Err(BaseDirError::Name(name.to_owned()));
            }
            let path = place
                .canonicalize()
                .map_err(|error| BaseDirError::Absent { path: place, error })?;
            if path.parent().is_none() {
                return Err(BaseDirError::All);
            }
            roots.push(BaseDir {
                name: name.to_owned(),
                path: path.as_os_str().as_bytes().to_vec(),
            });
        }
        Ok(Self::of(roots))
    }

    /// Creates a set of these directories.
    pub(crate) fn of(mut dirs: Vec<BaseDir>) -> Self {
        dirs.sort_by(|a, b| (b.path.len(), &a.path).cmp(&(a.path.len(), &b.path)));
        Self { dirs }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.dirs.is_empty()
    }

    /// Returns all of them, nested ones first.
    pub(crate) fn all(&self) -> &[BaseDir] {
        &self.dirs
    }

    /// Returns their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.dirs.iter().map(|root| root.name.as_str())
    }

    /// Returns a path with the name of its base directory, if it is in one.
    pub(crate) fn path(&self, path: &[u8]) -> Option<FilePath> {
        let (root, rest) = self.dir_of(path)?;
        let mut named = MARK.to_vec();
        named.extend_from_slice(root.name.as_bytes());
        named.extend_from_slice(rest);
        Some(FilePath::from(named.as_slice()))
    }

    /// Returns the base directory of a path, and the rest of the path.
    pub(crate) fn dir_of<'p>(&self, path: &'p [u8]) -> Option<(&BaseDir, &'p [u8])> {
        self.dirs
            .iter()
            .find_map(|root| Some((root, root.below(path)?)))
    }

    /// Returns a path with the name of its base directory, or unchanged if it is in none.
    pub(crate) fn named(&self, path: &FilePath) -> FilePath {
        self.path(path.as_bytes()).unwrap_or_else(|| path.clone())
    }

    /// Returns the local path for a named one; `None` if there is no such base directory.
    pub(crate) fn here(&self, path: &FilePath) -> Option<FilePath> {
        let Some(rest) = path.as_bytes().strip_prefix(MARK) else {
            return Some(path.clone());
        };
        let end = rest.iter().position(|&byte| byte == b'/');
        let (name, rest) = rest.split_at(end.unwrap_or(rest.len()));
        let name = name.strip_prefix(b"+").unwrap_or(name);
        let root = self.dirs.iter().find(|root| root.name.as_bytes() == name)?;
        Some(FilePath::from([&root.path, rest].concat().as_slice()))
    }

    /// Replaces paths of base directories in a text by their names, if they are clearly separated
    /// from the surrounding text; `None` if there are none. Text that may not be a path stays
    /// unchanged.
    pub fn text(&self, text: &[u8]) -> Option<Vec<u8>> {
        let mut named: Option<Vec<u8>> = None;
        let mut copied = 0;
        for at in memchr::memchr_iter(b'/', text) {
            if at < copied || !begins_path(&text[..at]) {
                continue;
            }
            let found = self.dirs.iter().find(|root| {
                text[at..].starts_with(&root.path) && ends_path(&text[at + root.path.len()..])
            });
            if let Some(root) = found {
                let named = named.get_or_insert_default();
                named.extend_from_slice(&text[copied..at]);
                named.extend_from_slice(MARK);
                named.extend_from_slice(root.name.as_bytes());
                copied = at + root.path.len();
            }
        }
        if let Some(named) = &mut named {
            named.extend_from_slice(&text[copied..]);
        }
        named
    }

    /// Returns a path in the form for a key.
    pub fn place(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.path(path).map(|path| path.as_bytes().to_vec())
    }

    /// Whether a prefix map of a compiler (`OLD=NEW`) replaces a whole base directory.
    pub(crate) fn is_mapped(&self, map: &[u8]) -> bool {
        let old = map.split(|&byte| byte == b'=').next().unwrap_or_default();
        self.dirs.iter().any(|root| root.path == old)
    }
}

/// Whether a path may begin after this text: at the start, or after a one-letter option or a word
/// (`-I/x`, `A=/x`).
fn begins_path(before: &[u8]) -> bool {
    const ENDS: &[u8] = b"=:;,\"'(@ \t\n[{<";
    let ends = |byte: Option<&u8>| byte.is_none_or(|byte| ENDS.contains(byte));
    match before {
        [rest @ .., b'-', letter] if letter.is_ascii_alphabetic() => ends(rest.last()),
        before => ends(before.last()),
    }
}

/// Whether a path, or a component, ends before this text.
fn ends_path(after: &[u8]) -> bool {
    after
        .first()
        .is_none_or(|byte| b"/:;,\"')= \t\n]}>".contains(byte))
}

/// Returns the checkout of the working directory: the directory with `.git`, or the working
/// directory itself.
fn worktree() -> PathBuf {
    let cwd = std::env::current_dir().unwrap_or_default();
    let found = cwd.ancestors().find(|above| above.join(".git").exists());
    found.unwrap_or(&cwd).to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base_dirs(places: &[(&str, &str)]) -> BaseDirs {
        let dir = |(name, path): &(&str, &str)| BaseDir {
            name: (*name).to_owned(),
            path: path.as_bytes().to_vec(),
        };
        BaseDirs::of(places.iter().map(dir).collect())
    }

    fn text(roots: &BaseDirs, text: &str) -> String {
        let named = roots.text(text.as_bytes());
        let named = named.unwrap_or_else(|| text.as_bytes().to_vec());
        String::from_utf8(named).unwrap().replace('\0', "@")
    }

    #[test]
    fn paths_in_texts_get_names() {
        let roots = base_dirs(&[("home", "/home/ann"), ("work", "/home/ann/work")]);
        for (given, named) in [
            ("/home/ann/work", "/@work"),
            ("/home/ann/work/a.c", "/@work/a.c"),
            ("-I/home/ann/work/i", "-I/@work/i"),
            ("CFLAGS=-O2 -I/home/ann/work -g", "CFLAGS=-O2 -I/@work -g"),
            (
                "-ffile-prefix-map=/home/ann/work=.",
                "-ffile-prefix-map=/@work=.",
            ),
            (
                "PATH=/home/ann/bin:/home/ann/work/bin:/bin",
                "PATH=/@home/bin:/@work/bin:/bin",
            ),
            ("cd '/home/ann/work' && x", "cd '/@work' && x"),
            ("/home/ann/work2/a", "/@home/work2/a"),
        ] {
            assert_eq!(text(&roots, given), named);
        }
    }

    #[test]
    fn text_that_may_not_be_a_path_is_not_abbreviated() {
        let roots = base_dirs(&[("work", "/home/ann/work")]);
        for stays in [
            "/home/ann/work2",
            "/home/ann/work.old/x",
            "/chroot/home/ann/work",
            "x/home/ann/work",
            "-isysroot/home/ann/work",
            "/home/ann//work",
            "/home/ann",
            "//home/ann/work",
        ] {
            assert_eq!(text(&roots, stays), stays);
        }
    }

    #[test]
    fn names_of_base_directories_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().display();
        let words = |words: &[String]| BaseDirs::new(words).map(|roots| roots.all().len());
        assert!(matches!(words(&[format!("a={place}")]), Ok(1)));
        for wrong in [
            vec![format!("a={place}"), format!("a={place}")],
            vec![format!("={place}")],
            vec![format!("a/b={place}")],
            vec!["a=/".to_owned()],
            vec![format!("a={place}/missing")],
        ] {
            assert!(BaseDirs::new(&wrong).is_err(), "{wrong:?}");
        }
    }
}
