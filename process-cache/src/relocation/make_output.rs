//! Messages of make that name a directory in a known form.
//!
//! For two kinds of output, it is known what make would write in another directory. A movable
//! result has the base directory's name there:
//!
//! - `make[1]: Entering directory '/home/ann/w/src'`: one line in one call, of the
//!   directory that it works in as the kernel calls it (`log_working_directory` in GNU
//!   make's `output.c`, getcwd(3)).
//! - The commands that it is about to run, if the only mention of a base directory in them is a
//!   compiler's option that make itself was given, word for word, in an argument or a variable
//!   (`CFLAGS=-ffile-prefix-map=/home/ann/w=.`).
//!
//! **Invariant:** only what make itself wrote counts; the same bytes of another program, and
//! of a make that was not given the option, are output like any other.

use std::ops::Range;

use super::Relocation;
use crate::policy::base_dirs::{BaseDir, MARK};
use crate::policy::plain_name;

/// End of a line about a directory.
const END: &[u8] = b"'\n";
/// Options that replace a directory by something else: `OPTION=OLD=NEW`.
const MAPS: [&[u8]; 3] = [
    b"-ffile-prefix-map=",
    b"-fmacro-prefix-map=",
    b"-fdebug-prefix-map=",
];
/// Longer writes are not examined, in bytes.
const LONGEST: usize = 64 << 10;

/// Whether a program is make.
pub(crate) fn is_make(program: &[u8]) -> bool {
    matches!(plain_name(program), b"make" | b"gmake")
}

/// Whether these bytes, written in one call by make in the directory `cwd`, say that make enters
/// or leaves this directory.
pub(crate) fn names_directory(cwd: &[u8], bytes: &[u8]) -> bool {
    parts(bytes).is_some_and(|(_, directory)| directory == cwd)
}

/// Splits such a line into the text before the directory, and the directory; `None` for other
/// lines.
fn parts(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let names = [&b"gmake"[..], b"make"];
    let rest = names.iter().find_map(|name| line.strip_prefix(*name))?;
    let rest = match rest.strip_prefix(b"[") {
        Some(level) => {
            let end = level.iter().position(|byte| !byte.is_ascii_digit())?;
            level[end..].strip_prefix(b"]").filter(|_| end > 0)?
        }
        None => rest,
    };
    let directory = rest
        .strip_prefix(b": Entering directory '")
        .or_else(|| rest.strip_prefix(b": Leaving directory '"))?;
    let directory = directory.strip_suffix(END)?;
    let head = line.len() - END.len() - directory.len();
    (directory.first() == Some(&b'/')).then_some((&line[..head], directory))
}

/// Whether `byte` may precede or follow a word.
fn is_between(byte: Option<&u8>) -> bool {
    byte.is_none_or(|byte| b" \t\n\"'=\\".contains(byte))
}

impl Relocation {
    /// Returns the options that replace a base directory, among a program's arguments and
    /// variables.
    pub(crate) fn maps_given<'t>(&self, texts: impl Iterator<Item = &'t [u8]>) -> Vec<Vec<u8>> {
        let mut given: Vec<Vec<u8>> = Vec::new();
        for text in texts {
            for (place, _) in self.mapped(text) {
                let begin = MAPS.iter().find_map(|map| {
                    let begin = place.start.checked_sub(map.len())?;
                    text[begin..].starts_with(map).then_some(begin)
                });
                let Some(begin) = begin.filter(|begin| is_between(text[..*begin].last())) else {
                    continue;
                };
                // Up to the end of the word.
                let new = &text[place.end + 1..];
                let length = new.iter().position(|byte| is_between(Some(byte)));
                let end = place.end + 1 + length.unwrap_or(new.len());
                let word = text[begin..end].to_vec();
                if !given.contains(&word) {
                    given.push(word);
                }
            }
        }
        given
    }

    /// Returns where options in a text contain a base directory's path, and which base directory.
    fn mapped<'r>(&'r self, text: &[u8]) -> Vec<(Range<usize>, &'r BaseDir)> {
        let mut found = Vec::new();
        for map in MAPS {
            for begin in memchr::memmem::find_iter(text, map) {
                let at = begin + map.len();
                let root = self.base_dirs.all().iter().find(|root| {
                    let rest = text[at..].strip_prefix(root.path.as_slice());
                    rest.is_some_and(|rest| rest.first() == Some(&b'='))
                });
                found.extend(root.map(|root| (at..at + root.path.len(), root)));
            }
        }
        found.sort_by_key(|(place, _)| place.start);
        found
    }

    /// Whether make's output mentions base directories only in options that make was given.
    pub(crate) fn repeats_arguments(&self, given: &[Vec<u8>], bytes: &[u8]) -> bool {
        if given.is_empty() || bytes.len() > LONGEST || bytes.contains(&0) {
            return false;
        }
        let mut rest = bytes.to_vec();
        for word in given {
            let places: Vec<usize> = memchr::memmem::find_iter(bytes, word).collect();
            for at in places {
                let end = at + word.len();
                if is_between(bytes[..at].last()) && is_between(bytes.get(end)) {
                    rest[at..end].fill(b' ');
                }
            }
        }
        rest != bytes && !self.mention.is_in(&rest)
    }

    /// Returns the positions of base directories' paths in make's output.
    fn places<'r>(&'r self, said: &[u8]) -> Vec<(Range<usize>, &'r BaseDir)> {
        let Some((head, directory)) = parts(said) else {
            return self.mapped(said);
        };
        let root = self.base_dirs.dir_of(directory).map(|(root, _)| root);
        let place = root.map(|root| (head.len()..head.len() + root.path.len(), root));
        place.into_iter().collect()
    }

    /// Returns the message with each base directory replaced.
    fn with(&self, said: &[u8], instead: impl Fn(&BaseDir) -> Vec<u8>) -> Vec<u8> {
        let mut changed = Vec::with_capacity(said.len());
        let mut copied = 0;
        for (place, root) in self.places(said) {
            changed.extend_from_slice(&said[copied..place.start]);
            changed.extend(instead(root));
            copied = place.end;
        }
        changed.extend_from_slice(&said[copied..]);
        changed
    }

    /// Returns the rest of the message.
    pub(super) fn without_directories(&self, said: &[u8]) -> Vec<u8> {
        self.with(said, |_| Vec::new())
    }

    /// Returns the message with names of base directories; `None` unless the reverse replacement
    /// here gives the same bytes.
    pub(super) fn with_names(&self, said: &[u8]) -> Option<Vec<u8>> {
        let named = self.with(said, |root| [MARK, root.name.as_bytes()].concat());
        (self.with_local_directories(&named)? == said).then_some(named)
    }

    /// Returns the message that make would write here; `None` if there is no such base directory.
    pub(super) fn with_local_directories(&self, named: &[u8]) -> Option<Vec<u8>> {
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
        let mut said = Vec::with_capacity(named.len());
        let mut rest = named;
        while let Some(at) = memchr::memmem::find(rest, MARK) {
            said.extend_from_slice(&rest[..at]);
            rest = &rest[at + MARK.len()..];
            let end = rest.iter().position(|byte| !is_name(byte));
            let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
            let root = self
                .base_dirs
                .all()
                .iter()
                .find(|root| root.name.as_bytes() == name)?;
            said.extend_from_slice(&root.path);
            rest = after;
        }
        said.extend_from_slice(rest);
        Some(said)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::base_dirs::BaseDirs;
    use crate::relocation::BaseDir;

    fn at(path: &str) -> Relocation {
        Relocation::new(BaseDirs::of(vec![BaseDir {
            name: "r".to_owned(),
            path: path.as_bytes().to_vec(),
        }]))
    }

    const HERE: &str = "/home/ann/w";
    const MAP: &str = "-ffile-prefix-map=/home/ann/w=.";

    #[test]
    fn directory_messages_of_make_name_the_new_base_directory() {
        for (said, there) in [
            (
                "make: Entering directory '/home/ann/w'\n",
                "make: Entering directory '/p'\n",
            ),
            (
                "make[12]: Leaving directory '/home/ann/w/a b/it's'\n",
                "make[12]: Leaving directory '/p/a b/it's'\n",
            ),
            (
                "gmake[1]: Entering directory '/home/ann/w/src'\n",
                "gmake[1]: Entering directory '/p/src'\n",
            ),
            (
                "cc -ffile-prefix-map=/home/ann/w=. -fdebug-prefix-map=/home/ann/w=/x -c a.c\n",
                "cc -ffile-prefix-map=/p=. -fdebug-prefix-map=/p=/x -c a.c\n",
            ),
            // Outside all base directories.
            (
                "make: Entering directory '/home/ann/w2'\n",
                "make: Entering directory '/home/ann/w2'\n",
            ),
        ] {
            let named = at(HERE).with_names(said.as_bytes()).unwrap();
            let said = at("/p").with_local_directories(&named).unwrap();
            assert_eq!(String::from_utf8(said).unwrap(), there);
        }
        let unknown = b"make: Entering directory '/\0q/src'\n";
        assert_eq!(at(HERE).with_local_directories(unknown), None);
    }

    #[test]
    fn a_line_is_about_the_directory_that_make_is_in() {
        let says = |cwd: &str, line: &str| names_directory(cwd.as_bytes(), line.as_bytes());
        assert!(says(HERE, "make[1]: Entering directory '/home/ann/w'\n"));
        for other in [
            "make[1]: Entering directory '/home/ann/w/src'\n",
            "make[]: Entering directory '/home/ann/w'\n",
            "make[1: Entering directory '/home/ann/w'\n",
            "make[1]: Entering directory '/home/ann/w'",
            "make[1]: Entering directory '/home/ann/w\n",
            "make[1]: Entering directory `/home/ann/w'\n",
            "make[1]: entering directory '/home/ann/w'\n",
            " make[1]: Entering directory '/home/ann/w'\n",
            "make[1]: Entering directory '/home/ann/w'\nmore\n",
            "x make: Entering directory '/home/ann/w'\n",
            "make: Entering directory ''\n",
            "",
        ] {
            assert!(!says(HERE, other), "{other}");
        }
        assert!(is_make(b"/usr/bin/gmake-4.3") && is_make(b"make") && !is_make(b"/bin/sh"));
    }

    #[test]
    fn an_option_is_given_as_a_word() {
        let given = |texts: &[&str]| at(HERE).maps_given(texts.iter().map(|text| text.as_bytes()));
        let map = vec![MAP.as_bytes().to_vec()];
        assert_eq!(given(&["make", &format!("CFLAGS=-O2 {MAP}")]), map);
        assert_eq!(
            given(&[&format!("MAKEFLAGS= -- CFLAGS=-O2\\ {MAP}\\ -g")]),
            map
        );
        assert_eq!(given(&[MAP, MAP, &format!("A={MAP}")]), map);
        for none in [
            "-ffile-prefix-map=/home/ann/w",
            "-ffile-prefix-map=/home/ann/w/src=.",
            "-ffile-prefix-map=/home/ann=.",
            "x-ffile-prefix-map=/home/ann/w=.",
            "PWD=/home/ann/w",
        ] {
            assert!(given(&[none]).is_empty(), "{none}");
        }
    }

    #[test]
    fn output_may_repeat_given_arguments_but_no_other_path() {
        let given = [MAP.as_bytes().to_vec()];
        let says = |bytes: &str| at(HERE).repeats_arguments(&given, bytes.as_bytes());
        assert!(says(&format!("cc {MAP} -c a.c\n")));
        assert!(says(&format!("cc CFLAGS='{MAP}' -c a.c\n{MAP}\n")));
        for other in [
            "cc -c a.c\n".to_owned(),
            format!("cc {MAP} -c /home/ann/w/a.c\n"),
            format!("cc {MAP}x -c a.c\n"),
            format!("cc x{MAP} -c a.c\n"),
            "cc -ffile-prefix-map=/home/ann/w=x\n".to_owned(),
            format!("cc {MAP}\0\n"),
        ] {
            assert!(!says(&other), "{other}");
        }
        assert!(!at(HERE).repeats_arguments(&[], MAP.as_bytes()));
    }

    proptest! {
        #[test]
        fn relocation_round_trips_or_is_refused(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "make", "gmake", "[1]", "[", ": Entering directory '", ": Leaving directory '",
                    HERE, "/", "src", "'", "\n", "'\n", "/\0r", "/\0", " ", "=", ".", MAP,
                    "-ffile-prefix-map=", "-fdebug-prefix-map=",
                ]),
                0..10,
            ),
        ) {
            let said = parts.concat().into_bytes();
            let here = at(HERE);
            if let Some(named) = here.with_names(&said) {
                prop_assert_eq!(here.with_local_directories(&named).unwrap(), said.clone());
            }
            let given = here.maps_given([said.as_slice()].into_iter());
            let _ = here.repeats_arguments(&given, &said);
            let _ = (here.with_local_directories(&said), here.without_directories(&said));
        }
    }
}
