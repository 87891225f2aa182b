//! Dependency files of compilers (`gcc -MD`), which make and ninja read.
//!
//! A compiler that gets absolute paths lists absolute paths, and so the list mentions the base
//! directory. It is stored as a template, in which the base directory's name replaces its path. In
//! another directory the list is written again, with lines wrapped as gcc would wrap them (gcc's
//! `mkdeps.cc`, `make_write_name`).
//!
//! **Invariant:** a list becomes a template only if writing the template here gives the same
//! bytes.

use super::Relocation;
use crate::model::outcome::Effect;
use crate::policy::base_dirs::{BaseDir, MARK};
use crate::store::Store;

/// The line width of gcc, in bytes.
const WIDTH: usize = 72;
/// Separator of wrapped lines.
const WRAP: &[u8] = b" \\\n ";
/// Longer lists are not converted, in bytes.
const LONGEST: usize = 4 << 20;
/// Prefix of a base directory's name in the path of an effect whose content is a template.
const PLUS: &[u8] = b"/\0+";

impl Relocation {
    /// Returns the template of a list; `None` if it is no list, or mentions a base directory in
    /// another way.
    pub(super) fn template(&self, list: &[u8]) -> Option<Vec<u8>> {
        if list.len() > LONGEST || !self.base_dirs.all().iter().all(is_plain) {
            return None;
        }
        let lines = list.strip_suffix(b"\n")?;
        let mut template = Vec::with_capacity(list.len());
        let mut rest = lines;
        while let Some(at) = memchr::memmem::find(rest, WRAP) {
            template.extend_from_slice(&rest[..at]);
            template.push(b' ');
            rest = &rest[at + WRAP.len()..];
        }
        template.extend_from_slice(rest);
        // Names that are escaped in the list.
        if template.iter().any(|byte| b"\\$#\t\0".contains(byte)) {
            return None;
        }
        let words = template.split(|byte| b" \n".contains(byte));
        let mut named = Vec::with_capacity(template.len());
        let mut done = 0;
        for word in words {
            let (name, rest) = match self.base_dirs.dir_of(word) {
                Some((root, rest)) => (Some(&root.name), rest),
                None => (None, word),
            };
            if self.mention.is_in(rest) {
                return None;
            }
            if let Some(name) = name {
                named.extend_from_slice(MARK);
                named.extend_from_slice(name.as_bytes());
            }
            named.extend_from_slice(rest);
            done += word.len();
            // The separator that ended the word.
            named.extend(template.get(done));
            done += 1;
        }
        named.push(b'\n');
        (self.written(&named)? == list).then_some(named)
    }

    /// Returns the list that a template gives here.
    fn written(&self, template: &[u8]) -> Option<Vec<u8>> {
        if template.len() > LONGEST || !self.base_dirs.all().iter().all(is_plain) {
            return None;
        }
        let lines = template.strip_suffix(b"\n")?;
        let mut list = Vec::with_capacity(2 * template.len());
        for line in lines.split(|&byte| byte == b'\n') {
            let mut column = 0;
            for word in line.split(|&byte| byte == b' ') {
                let here = self.base_dirs.here(&word.into())?;
                let word = here.as_bytes();
                if column > 0 {
                    if column + word.len() > WIDTH {
                        list.extend_from_slice(&WRAP[..WRAP.len() - 1]);
                        column = 0;
                    }
                    list.push(b' ');
                    column += 1;
                }
                list.extend_from_slice(word);
                column += word.len();
            }
            list.push(b'\n');
            if list.len() > 8 * LONGEST {
                return None;
            }
        }
        Some(list)
    }

    /// Replaces an effect's content by a template and marks this in the effect's path, which
    /// already contains the base directory's name.
    ///
    /// # Errors
    /// Errors of the store.
    pub(super) fn keep_template(
        store: &Store,
        effect: &mut Effect,
        template: &[u8],
    ) -> Result<(), String> {
        let (path, content, length) = match effect {
            Effect::Write {
                path,
                content,
                length,
                ..
            } => (path, content, length),
            _ => return Err("a list is no file".to_owned()),
        };
        let rest = path.as_bytes().strip_prefix(MARK);
        let rest = rest.ok_or("a list is in no root")?;
        *path = [PLUS, rest].concat().as_slice().into();
        *content = store
            .put_bytes(template)
            .map_err(|error| error.to_string())?;
        *length = template.len() as u64;
        Ok(())
    }

    /// Writes the lists that a result of another directory contains as templates.
    ///
    /// # Errors
    /// The reason why one cannot be written.
    pub(super) fn write_lists(
        &self,
        store: &Store,
        named: &[Effect],
        here: &mut [Effect],
    ) -> Result<(), String> {
        for (named, here) in named.iter().zip(here) {
            let (
                Effect::Write { path, .. },
                Effect::Write {
                    content, length, ..
                },
            ) = (named, here)
            else {
                continue;
            };
            if !path.as_bytes().starts_with(PLUS) {
                continue;
            }
            let template = store
                .get_bytes(content)
                .map_err(|error| error.to_string())?;
            let list = self
                .written(&template)
                .ok_or("a list of dependencies cannot be written here")?;
            *content = store.put_bytes(&list).map_err(|error| error.to_string())?;
            *length = list.len() as u64;
        }
        Ok(())
    }
}

/// Whether such a list contains the base directory's path without escapes.
fn is_plain(root: &BaseDir) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+,@".contains(byte);
    root.path.iter().all(is_plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::base_dirs::BaseDirs;

    fn at(path: &str) -> Relocation {
        Relocation::new(BaseDirs::of(vec![BaseDir {
            name: "r".to_owned(),
            path: path.as_bytes().to_vec(),
        }]))
    }

    const HERE: &str = "/home/somebody/project";
    /// The output of gcc 12.
    const LIST: &str = "\
a.o: /home/somebody/project/src/a.c /usr/include/stdc-predef.h \\
 /home/somebody/project/src/a.h local.h b.h \\
 /home/somebody/project/include/a_long_name_that_is_too_long_for_a_line_of_gcc.h
/home/somebody/project/src/a.h:
local.h:
";

    #[test]
    fn a_dependency_file_is_rewritten_as_the_compiler_would() {
        let template = at(HERE).template(LIST.as_bytes()).unwrap();
        assert_eq!(at(HERE).written(&template).unwrap(), LIST.as_bytes());
        let there = "\
a.o: /p/src/a.c /usr/include/stdc-predef.h /p/src/a.h local.h b.h \\
 /p/include/a_long_name_that_is_too_long_for_a_line_of_gcc.h
/p/src/a.h:
local.h:
";
        let written = at("/p").written(&template).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), there);
    }

    #[test]
    fn text_that_no_compiler_writes_is_no_dependency_file() {
        let here = at(HERE);
        for other in [
            // Lines are wrapped at another width.
            "a.o: b.h \\\n /home/somebody/project/a.h\n",
            // Escaped in another way than gcc does.
            "a.o: /home/somebody/project/a\\ b.h\n",
            "a.o: /home/somebody/project/a$$b.h\n",
            // A mention that is no file name.
            "a.o: x/home/somebody/project/a.h\n",
            "a.o: /home/somebody/project/a.h",
            "",
        ] {
            assert_eq!(here.template(other.as_bytes()), None, "{other}");
        }
        let odd = at("/home/some body");
        assert_eq!(odd.template(b"a.o: /home/some body/a.h\n"), None);
    }

    #[test]
    fn a_base_directory_absent_here_gives_no_dependency_file() {
        assert_eq!(at(HERE).written(b"/\0q/x\n"), None);
    }

    proptest! {
        #[test]
        fn relocation_round_trips_or_is_refused(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    " ", "\n", " \\\n ", HERE, "/", "a.h", "a_rather_long_name_of_a_file.h", ":",
                    "/\0r", "/\0+r", "/\0", "\\", "$$", "\t",
                ]),
                0..20,
            ),
        ) {
            let bytes = parts.concat().into_bytes();
            let here = at(HERE);
            if let Some(template) = here.template(&bytes) {
                prop_assert_eq!(here.written(&template).unwrap(), bytes.clone());
                prop_assert!(memchr::memmem::find(&template, HERE.as_bytes()).is_none());
            }
            let _ = here.written(&bytes);
        }
    }
}
