//! The arguments of a program, for queries by its rule.

/// A program's plain name and its arguments.
#[derive(Debug, Clone, Copy)]
pub struct Arguments<'a> {
    /// Its name without directory, target triple and version.
    pub name: &'a [u8],
    /// Its arguments, with its invoked name first.
    pub argv: &'a [Vec<u8>],
}

impl<'a> Arguments<'a> {
    /// Returns the arguments without the program's name.
    pub fn given(&self) -> &'a [Vec<u8>] {
        self.argv.get(1..).unwrap_or_default()
    }

    /// Whether a one-letter option is given, alone or among others (`-xp`).
    pub fn has_letter(&self, letter: u8) -> bool {
        self.given().iter().any(|arg| {
            arg.first() == Some(&b'-') && arg.get(1) != Some(&b'-') && arg.contains(&letter)
        })
    }

    /// Whether one of these one-letter options is given.
    pub fn has_letter_of(&self, letters: &[u8]) -> bool {
        letters.iter().any(|&letter| self.has_letter(letter))
    }

    /// Whether an argument starts with `start`. Long options can be abbreviated.
    pub fn has_start(&self, start: &[u8]) -> bool {
        self.argv.iter().any(|arg| arg.starts_with(start))
    }

    /// Whether an argument equals this word.
    pub fn has(&self, word: &[u8]) -> bool {
        self.argv.iter().any(|arg| arg == word)
    }

    /// Whether a linker must generate a random build id, which is part of its output.
    pub fn draw_build_id(&self) -> bool {
        self.given().iter().any(|arg| {
            [&b"build-id=uuid"[..], b"build-id,uuid"]
                .iter()
                .any(|word| memchr::memmem::find(arg, word).is_some())
        })
    }

    /// Whether a compressor gets a file name, so that it creates another file next to it.
    pub fn name_input(&self) -> bool {
        let to_output = |arg: &Vec<u8>| match arg.as_slice() {
            [b'-', b'-', ..] => arg.starts_with(b"--stdout") || arg.starts_with(b"--to-stdout"),
            [b'-', ..] => arg.contains(&b'c'),
            _ => false,
        };
        let given = self.given();
        !given.iter().any(to_output) && given.iter().any(|arg| !arg.starts_with(b"-"))
    }
}

/// Whether an option contains a complete date, which does not depend on the present.
pub(super) fn is_dated(arg: &[u8]) -> bool {
    let options = [&b"--date="[..], b"--mtime=", b"-d"];
    let mut dates = options.iter().filter_map(|name| arg.strip_prefix(*name));
    dates.any(is_complete_date)
}

/// Whether this is a complete date: seconds since the epoch, or one that begins with a year.
pub(super) fn is_complete_date(date: &[u8]) -> bool {
    date.starts_with(b"@")
        || date.len() >= 10 && date[..4].iter().all(u8::is_ascii_digit) && date[4] == b'-'
}
