//! Base directories: directories whose location does not count.
//!
//! A user names them (`--root`), such as the checkout. A path below one of them has another
//! form in which the path of the directory is replaced by its name: `/\0NAME/src/x.c`, which
//! is no path of any file.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::model::path::FilePath;

/// Prefix of a base directory's name in a path.
pub(crate) const MARK: &[u8] = b"/\0";

/// A directory whose place does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseDir {
    /// Its name, which is the same in every checkout.
    pub name: String,
    /// Where it is: absolute, without links, dots or a slash at its end.
    pub(crate) path: Vec<u8>,
}

impl BaseDir {
    /// Its components, outermost first.
    pub(crate) fn parts(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.path[1..].split(|&byte| byte == b'/')
    }

    /// The number of its components.
    pub(crate) fn depth(&self) -> usize {
        self.parts().count()
    }

    /// The directories that it is in, but for `/`.
    pub(crate) fn above(&self) -> impl Iterator<Item = &[u8]> {
        let ends = memchr::memchr_iter(b'/', &self.path).skip(1);
        ends.map(|end| &self.path[..end])
    }

    /// Whether a path leads to it or below it, and what follows it there.
    pub(crate) fn below<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        path.strip_prefix(self.path.as_slice())
            .filter(|rest| rest.first().is_none_or(|&byte| byte == b'/'))
    }
}

/// All base directories of a run.
#[derive(Debug, Default)]
pub struct BaseDirs {
    /// Those within others first.
    dirs: Vec<BaseDir>,
}

/// Why directories are no base directories.
#[derive(Debug, thiserror::Error)]
pub enum BaseDirError {
    /// It is not there, for example.
    #[error("{} cannot be a root: {error}", path.display())]
    Absent {
        /// Which directory.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// It holds everything.
    #[error("/ cannot be a root")]
    All,
    /// A name that is used twice, or is none.
    #[error("`{0}` is no name of a root, or of two: use letters, digits, `-` and `_`")]
    Name(String),
}

impl BaseDirs {
    /// Base directories from what a user writes: `worktree`, `NAME=DIRECTORY`, or a directory.
    ///
    /// # Errors
    /// Why something is none.
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

    /// These.
    pub(crate) fn of(mut dirs: Vec<BaseDir>) -> Self {
        dirs.sort_by(|a, b| (b.path.len(), &a.path).cmp(&(a.path.len(), &b.path)));
        Self { dirs }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.dirs.is_empty()
    }

    /// All of them, those within others first.
    pub(crate) fn all(&self) -> &[BaseDir] {
        &self.dirs
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.dirs.iter().map(|root| root.name.as_str())
    }

    /// A path with the name of the base directory that it lies in.
    pub(crate) fn path(&self, path: &[u8]) -> Option<FilePath> {
        let (root, rest) = self.dir_of(path)?;
        let mut named = MARK.to_vec();
        named.extend_from_slice(root.name.as_bytes());
        named.extend_from_slice(rest);
        Some(FilePath::from(named.as_slice()))
    }

    /// The directory that a path lies in, and what follows its path there.
    pub(crate) fn dir_of<'p>(&self, path: &'p [u8]) -> Option<(&BaseDir, &'p [u8])> {
        self.dirs
            .iter()
            .find_map(|root| Some((root, root.below(path)?)))
    }

    /// A path with the name of the directory that it lies in, if it lies in one.
    pub(crate) fn named(&self, path: &FilePath) -> FilePath {
        self.path(path.as_bytes()).unwrap_or_else(|| path.clone())
    }

    /// The path that a named one is here; `None` where there is no such base directory.
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

    /// A text with the names of base directories in place of their paths, as far as these are told
    /// from their surroundings; `None` where there are none. What is a path only perhaps is left as
    /// it is.
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

    /// A path as it goes into a key.
    pub fn place(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.path(path).map(|path| path.as_bytes().to_vec())
    }

    /// Whether a prefix map of a compiler (`OLD=NEW`) replaces a whole base directory.
    pub(crate) fn is_mapped(&self, map: &[u8]) -> bool {
        let old = map.split(|&byte| byte == b'=').next().unwrap_or_default();
        self.dirs.iter().any(|root| root.path == old)
    }
}

/// Whether what follows this text is the beginning of a path: the text ends, or an option
/// of one letter or a word does (`-I/x`, `A=/x`).
fn begins_path(before: &[u8]) -> bool {
    const ENDS: &[u8] = b"=:;,\"'(@ \t\n[{<";
    let ends = |byte: Option<&u8>| byte.is_none_or(|byte| ENDS.contains(byte));
    match before {
        [rest @ .., b'-', letter] if letter.is_ascii_alphabetic() => ends(rest.last()),
        before => ends(before.last()),
    }
}

/// Whether a path, or its component, ends before this text.
fn ends_path(after: &[u8]) -> bool {
    after
        .first()
        .is_none_or(|byte| b"/:;,\"')= \t\n]}>".contains(byte))
}

/// The checkout that the working directory is in: the directory with `.git`, or the
/// working directory itself.
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
