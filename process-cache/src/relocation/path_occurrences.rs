//! Finds mentions of a directory in bytes.
//!
//! A path can be written in many ways: literally, with slashes escaped, doubled or replaced, in
//! capitals, in 16-bit characters. All its components in order, with little between them, count as
//! a mention. This finds too much rather than too little. It cannot find a path in a digest or in
//! compressed data.

use memchr::memmem::Finder;

/// The maximal distance between two components, in bytes.
const GAP: usize = 6;
/// Shorter names occur in other words by chance (bytes).
const SHORT: usize = 8;
/// Escape sequences for a slash.
const ESCAPES: [&[u8]; 7] = [b"2F", b"2f", b"x2F", b"x2f", b"u002F", b"u002f", b"057"];

/// Finds mentions of some directories.
#[derive(Debug, Default)]
pub struct PathOccurrences(Vec<Pattern>);

/// A search pattern for one directory.
#[derive(Debug)]
struct Pattern {
    parts: Vec<Vec<u8>>,
    /// Index of the component that is searched first: the longest.
    anchor: usize,
    /// Finders for its spellings.
    finders: Vec<Finder<'static>>,
    /// Finder for its spelling in 16-bit characters.
    wide: Option<Finder<'static>>,
    /// Whether the components have few letters, so that words must begin and end with them.
    is_short: bool,
}

impl PathOccurrences {
    /// Creates patterns for directories, given by their components.
    pub fn new<'p>(directories: impl Iterator<Item = Vec<&'p [u8]>>) -> Self {
        Self(directories.map(|parts| Pattern::new(&parts)).collect())
    }

    /// Whether one of them is mentioned.
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        self.0.iter().any(|one| one.is_in(bytes))
    }
}

/// Whether a component is mentioned: inside a word, unless it is short.
pub fn is_part_in(part: &[u8], bytes: &[u8]) -> bool {
    let one = Pattern::new(&[part]);
    if part.len() >= 3 {
        let longer = Pattern {
            is_short: false,
            ..one
        };
        return longer.is_in(bytes);
    }
    one.is_in(bytes)
}

impl Pattern {
    fn new(parts: &[&[u8]]) -> Self {
        let anchor = (0..parts.len())
            .max_by_key(|&at| parts[at].len())
            .unwrap_or_default();
        let longest = parts.get(anchor).copied().unwrap_or_default();
        let mut forms = vec![
            longest.to_vec(),
            longest.to_ascii_lowercase(),
            longest.to_ascii_uppercase(),
        ];
        forms.sort();
        forms.dedup();
        let wide: Vec<u8> = longest.iter().flat_map(|&byte| [byte, 0]).collect();
        let letters: usize = parts.iter().map(|part| part.len()).sum();
        Self {
            parts: parts.iter().map(|part| part.to_vec()).collect(),
            anchor,
            finders: forms
                .iter()
                .map(|form| Finder::new(form).into_owned())
                .collect(),
            wide: (longest.len() >= 3).then(|| Finder::new(&wide).into_owned()),
            is_short: letters < SHORT,
        }
    }

    fn is_in(&self, bytes: &[u8]) -> bool {
        let wide = self.wide.as_ref();
        if wide.is_some_and(|finder| finder.find(bytes).is_some()) {
            return true;
        }
        self.finders.iter().any(|finder| {
            // Includes overlapping matches.
            let mut from = 0;
            while let Some(found) = finder.find(&bytes[from..]) {
                let at = from + found;
                if self.is_at(bytes, at) {
                    return true;
                }
                from = at + 1;
            }
            false
        })
    }

    /// Whether the anchor at this position is part of a mention.
    fn is_at(&self, bytes: &[u8], at: usize) -> bool {
        let end = at + self.parts[self.anchor].len();
        let mut starts = vec![at];
        for part in self.parts[..self.anchor].iter().rev() {
            starts = self.before(bytes, &starts, part);
        }
        let mut ends = vec![end];
        for part in &self.parts[self.anchor + 1..] {
            ends = self.after(bytes, &ends, part);
        }
        if !self.is_short {
            return !starts.is_empty() && !ends.is_empty();
        }
        let is_word = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let begins = |&start: &usize| start == 0 || !is_word(bytes.get(start - 1));
        starts.iter().any(begins) && ends.iter().any(|&end| !is_word(bytes.get(end)))
    }

    /// Returns where a component begins that ends before one of these positions.
    fn before(&self, bytes: &[u8], places: &[usize], part: &[u8]) -> Vec<usize> {
        let mut found = Vec::new();
        for &place in places {
            for gap in self.gaps() {
                let Some(end) = place.checked_sub(gap) else {
                    continue;
                };
                let Some(start) = end.checked_sub(part.len()) else {
                    continue;
                };
                if bytes[start..end].eq_ignore_ascii_case(part)
                    && separates(&bytes[end..place])
                    && !found.contains(&start)
                {
                    found.push(start);
                }
            }
        }
        found
    }

    /// Returns where a component ends that begins behind one of these positions.
    fn after(&self, bytes: &[u8], places: &[usize], part: &[u8]) -> Vec<usize> {
        let mut found = Vec::new();
        for &place in places {
            for gap in self.gaps() {
                let start = place + gap;
                let end = start + part.len();
                let Some(here) = bytes.get(start..end) else {
                    continue;
                };
                if here.eq_ignore_ascii_case(part)
                    && separates(&bytes[place..start])
                    && !found.contains(&end)
                {
                    found.push(end);
                }
            }
        }
        found
    }

    fn gaps(&self) -> std::ops::RangeInclusive<usize> {
        usize::from(self.is_short)..=GAP
    }
}

/// Whether these bytes may represent a slash.
fn separates(gap: &[u8]) -> bool {
    let sign = |byte: &u8| !byte.is_ascii_alphanumeric();
    let signs = gap.iter().take_while(|byte| sign(byte)).count();
    let rest = &gap[signs..];
    rest.is_empty() || ESCAPES.contains(&rest)
}

/// Whether contents are compressed, so that mentions cannot be found: compressed files, and object
/// files with compressed sections or intermediate code.
pub fn is_packed(bytes: &[u8]) -> bool {
    const PACKED: [&[u8]; 8] = [
        b"\x1f\x8b",
        b"\x28\xb5\x2f\xfd",
        b"\xfd7zXZ",
        b"BZh",
        b"PK\x03\x04",
        b"\x04\x22\x4d\x18",
        b"7z\xbc\xaf",
        b"\x89PNG",
    ];
    if PACKED.iter().any(|magic| bytes.starts_with(magic)) {
        return true;
    }
    if let Some(members) = bytes.strip_prefix(b"!<arch>\n") {
        return members_of(members).is_none_or(|members| members.into_iter().any(is_packed));
    }
    bytes.starts_with(b"\x7fELF") && is_packed_elf(bytes) != Some(false)
}

/// Returns the members of an archive of ar(1); `None` if it cannot be parsed.
fn members_of(mut bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut members = Vec::new();
    while !bytes.is_empty() {
        let (head, rest) = bytes.split_at_checked(60)?;
        let size = std::str::from_utf8(&head[48..58]).ok()?.trim_end();
        let (member, rest) = rest.split_at_checked(size.parse().ok()?)?;
        members.push(member);
        bytes = if member.len() % 2 == 1 {
            rest.get(1..).unwrap_or_default()
        } else {
            rest
        };
    }
    Some(members)
}

/// Whether an ELF file has compressed sections; `None` if it cannot be parsed.
fn is_packed_elf(bytes: &[u8]) -> Option<bool> {
    const COMPRESSED: u64 = 0x800;
    let number = |at: usize, length: usize| {
        let mut word = [0; 8];
        word[..length].copy_from_slice(bytes.get(at..at.checked_add(length)?)?);
        usize::try_from(u64::from_le_bytes(word)).ok()
    };
    if memchr::memmem::find(bytes, b".gnu.lto_").is_some()
        || memchr::memmem::find(bytes, b".zdebug").is_some()
        // 64-bit files only.
        || *bytes.get(4)? != 2
    {
        return Some(true);
    }
    let (table, size, count) = (number(0x28, 8)?, number(0x3a, 2)?, number(0x3c, 2)?);
    // There are more sections than this field can count.
    if table != 0 && count == 0 {
        return None;
    }
    for index in 0..count {
        let at = table.checked_add(index.checked_mul(size)?)?;
        if number(at.checked_add(8)?, 8)? as u64 & COMPRESSED != 0 {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(directory: &str, bytes: impl AsRef<[u8]>, expected: bool) {
        let parts = directory[1..].split('/').map(str::as_bytes).collect();
        let mention = PathOccurrences::new(std::iter::once(parts));
        let bytes = bytes.as_ref();
        assert_eq!(
            mention.is_in(bytes),
            expected,
            "{directory} in {:?}",
            String::from_utf8_lossy(bytes)
        );
    }

    #[test]
    fn a_directory_is_found_however_it_is_written() {
        for written in [
            "/home/ann/project",
            "x=/home/ann/project/src/a.c",
            r"\/home\/ann\/project",
            r"\\home\\ann\\project",
            "//home//ann/./project",
            "%2Fhome%2fann%2Fproject",
            r"\x2fhome\x2fann\x2fproject",
            r"\u002Fhome\u002Fann\u002Fproject",
            r"\057home\057ann\057project",
            "_home_ann_project.gcda",
            "-home-ann-project",
            "HOME_ANN_PROJECT_H",
            "homeannproject",
            "home ann project",
            "project is in /home/ann/project",
            "/home/ann/project/home/ann/project",
        ] {
            check("/home/ann/project", written, true);
        }
        let wide: Vec<u8> = "project"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        check("/home/ann/project", wide, true);
        for other in [
            "/home/ann/projec",
            "/home/bob/project",
            "ann/home/project",
            "/home/project/ann",
            "",
        ] {
            check("/home/ann/project", other, false);
        }
    }

    #[test]
    fn short_names_are_words() {
        check("/w/a", "gcc /w/a/x.c", true);
        check("/w/a", "w_a", true);
        check("/w/a", "raw-array /w/ab /xw/a", false);
        check("/b", "a /b c", true);
        check("/b", "abc", false);
    }

    #[test]
    fn compressed_sections_are_recognised() {
        let mut elf = vec![0; 64];
        elf[..4].copy_from_slice(b"\x7fELF");
        elf[4] = 2;
        elf[0x28] = 64;
        elf[0x3a] = 64;
        elf[0x3c] = 1;
        let mut section = vec![0; 64];
        assert!(!is_packed(&[elf.clone(), section.clone()].concat()));
        section[9] = 0x08;
        let packed = [elf.clone(), section].concat();
        assert!(is_packed(&packed));
        // A truncated section table.
        assert!(is_packed(&elf));
        let archive = |member: &[u8]| {
            let head = format!("{:<48}{:<10}`\n", "a.o/", member.len());
            [b"!<arch>\n", head.as_bytes(), member].concat()
        };
        assert!(is_packed(&archive(&packed)));
        assert!(!is_packed(&archive(b"text")));
        assert!(is_packed(b"!<arch>\nnonsense"));
        assert!(is_packed(b"\x1f\x8b\x08"));
        assert!(!is_packed(b"int x;"));
    }
}
