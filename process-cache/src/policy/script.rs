//! Scans programs of interpreters: for properties that make results depend on time or random
//! numbers without a distinguishable system call, and whether they can be scanned at all.

/// Which scripts are scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scripts {
    /// None.
    Any,
    /// Those of bash, for `$RANDOM`.
    Bash,
    /// Those of other shells, which may pass one to a bash.
    Shell,
    /// Those of awk, for random numbers and times.
    Awk,
    /// Those of Python outside its own library, for clocks.
    Python,
    /// Those of Perl, for the time of its start.
    Perl,
}

/// Properties found in a script.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// Why results depend on time or random numbers, if they do.
    pub uncacheable: Option<&'static str>,
    /// Whether it may compare the times of files: [`compares_times`].
    pub compares_times: bool,
    /// Whether it may compare two names for the same file.
    pub compares_inodes: bool,
    /// Whether it is a script of autoconf, which compares `ls -di .` with `$PWD`.
    pub compares_own_inode: bool,
}

impl Found {
    /// Combines the properties of two parts of a script.
    pub fn and(self, other: Self) -> Self {
        Self {
            uncacheable: self.uncacheable.or(other.uncacheable),
            compares_times: self.compares_times || other.compares_times,
            compares_inodes: self.compares_inodes || other.compares_inodes,
            compares_own_inode: self.compares_own_inode || other.compares_own_inode,
        }
    }
}

impl Scripts {
    /// Whether a script of any length is scanned, such as a self-extracting archive. Long files of
    /// other interpreters are data.
    pub fn may_be_long(self) -> bool {
        matches!(self, Self::Bash | Self::Shell)
    }

    /// Scans a script for uses of time and random numbers.
    pub fn look(self, path: Option<&std::path::Path>, script: &[u8]) -> Found {
        let of_shell = matches!(self, Self::Bash | Self::Shell);
        Found {
            uncacheable: self.reason(path, script),
            compares_times: of_shell && compares_times(script),
            compares_inodes: of_shell && has_operator(script, b"-ef"),
            compares_own_inode: of_shell
                && memchr::memmem::find(script, b"\nac_pwd_ls_di=`cd \"$ac_pwd\" && ls -di .`")
                    .is_some(),
        }
    }

    /// Returns why a script (or an argument that may be one) makes results depend on time or
    /// random numbers, if it does.
    fn reason(self, path: Option<&std::path::Path>, script: &[u8]) -> Option<&'static str> {
        if script.starts_with(b"\x7fELF") {
            return None;
        }
        match self {
            Self::Any => None,
            Self::Bash | Self::Shell if uses_chance(script) => Some("uses $RANDOM"),
            Self::Bash => asks_reads(script).then_some("asks when files were read"),
            Self::Shell => None,
            Self::Awk => awk_uses_chance(script).then_some("may draw random numbers"),
            Self::Perl => perl_uses_start(script).then_some("may use the time of its start"),
            Self::Python => {
                let library = path.is_some_and(|path| {
                    let text = path.to_string_lossy();
                    text.contains("/lib/python3") && !text.contains("-packages/")
                });
                let words = [
                    &b"monotonic"[..],
                    b"perf_counter",
                    b"timeit",
                    b"clock_gettime",
                    b"importtime",
                    // Names that may involve the year.
                    b"tzname",
                    b"altzone",
                    b"time.timezone",
                ];
                let found = |word: &&[u8]| memchr::memmem::find(script, word).is_some();
                (!library && words.iter().any(found)).then_some("reads a clock or the time zone")
            }
        }
    }
}

/// Whether a shell script, or an argument of `test`, may compare the times of files. The times of
/// directories then count as well (`[ package.json -nt node_modules ]`).
pub fn compares_times(text: &[u8]) -> bool {
    has_operator(text, b"-nt") || has_operator(text, b"-ot")
}

/// Whether a bash script may test whether files were read since they were changed, which digests
/// would affect: `-N` at the start of a test.
fn asks_reads(script: &[u8]) -> bool {
    let begins: [&[u8]; 8] = [b"[", b"[[", b"test", b"!", b"(", b"&&", b"||", b"-a"];
    memchr::memmem::find_iter(script, b"-N").any(|at| {
        let last = script[..at].trim_ascii_end();
        let word = last.rsplit(u8::is_ascii_whitespace).next().unwrap_or(last);
        let ends = script.get(at + 2).is_none_or(u8::is_ascii_whitespace);
        last.len() < at && ends && begins.contains(&word)
    })
}

/// Whether this operator occurs as a word.
fn has_operator(text: &[u8], operator: &[u8]) -> bool {
    memchr::memmem::find_iter(text, operator).any(|at| {
        let before = at.checked_sub(1).map(|at| text[at]);
        let after = text.get(at + operator.len());
        !before.as_ref().is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// Whether a bash script (or `-c` string) may use `$RANDOM` for more than a temporary name
/// (`conf$$-$RANDOM`, next to the process id).
fn uses_chance(script: &[u8]) -> bool {
    let comments = script
        .split_inclusive(|&b| b == b'\n')
        .take_while(|line| matches!(line.trim_ascii_start().first(), None | Some(b'#')));
    let start = comments.map(<[u8]>::len).sum();
    names_chance(&script[start..])
}

/// Same, for a text that may be part of a script.
pub fn names_chance(text: &[u8]) -> bool {
    // `printf '%(%s)T' -2` prints the start time of the shell.
    let prints_time = |at| {
        let line = text[at..].split(|&b| b == b'\n').next();
        line.is_some_and(|line| memchr::memmem::find(line, b")T").is_some())
    };
    memchr::memmem::find_iter(text, b"%(").any(prints_time)
        || memchr::memmem::find_iter(text, NAME).any(|at| {
            let before = memchr::memrchr(b'\n', &text[..at]).map_or(0, |newline| newline + 1);
            uses_name(&text[before..at], &text[at + NAME.len()..])
        })
}

/// Whether the name is used as a variable, given the rest of its line before and after it.
fn uses_name(before: &[u8], after: &[u8]) -> bool {
    // `$SRANDOM` is another variable.
    let prefix = before.strip_suffix(b"S").unwrap_or(before).last();
    let beside_pid = before.ends_with(b"$$-$") || after.starts_with(b"-$$");
    let in_name = before.ends_with(b"{") && after.starts_with(b"-0}$$");
    let only_asked = before.ends_with(b"-n \"$") || before.ends_with(b"-z \"$");
    let is_part = prefix.is_some_and(is_word) || after.first().is_some_and(is_word);
    !(is_part || beside_pid || in_name || only_asked || is_remark(before, after))
}

/// The variable.
const NAME: &[u8] = b"RANDOM";

/// Number of bytes of adjacent writes into a pipe that are scanned together.
pub const SEAM: usize = NAME.len() + 1;

/// Whether this is the usual remark about the variable in scripts of autotools. A line that begins
/// with `#` is a comment only outside here-documents and strings, which only a shell can tell:
/// `cat > seed.h <<EOF` may be followed by `#define SEED $RANDOM`.
fn is_remark(before: &[u8], after: &[u8]) -> bool {
    before.trim_ascii_start().starts_with(b"#")
        && ([
            &b" variable is not portable (e.g., dash)."[..],
            b" is bash specific and expands to empty",
            b" to avoid a race",
        ]
        .iter()
        .any(|remark| after.starts_with(remark)))
}

/// Whether a byte may be part of a variable's name.
fn is_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_'
}

/// Whether an awk program may draw random numbers or query the time.
fn awk_uses_chance(program: &[u8]) -> bool {
    [&b"rand"[..], b"systime", b"strftime"].iter().any(|call| {
        memchr::memmem::find_iter(program, call).any(|at| {
            let after = &program[at + call.len()..];
            after.trim_ascii_start().starts_with(b"(")
        })
    })
}

/// Whether a Perl script may use the time when Perl started: as `$^T`, or as the reference for the
/// ages of `-M`, `-A` and `-C`. These are file tests if no word continues after them.
fn perl_uses_start(script: &[u8]) -> bool {
    if memchr::memchr(0, script).is_some() {
        // Locale files and other data.
        return false;
    }
    [&b"^T"[..], b"BASETIME"]
        .iter()
        .any(|name| memchr::memmem::find(script, name).is_some())
        || memchr::memchr_iter(b'-', script).any(|at| {
            let rest = &script[at + 1..];
            matches!(rest.first(), Some(b'M' | b'A' | b'C')) && !rest.get(1).is_some_and(is_word)
        })
}

/// Whether an interpreter of this name, with these arguments, reads its program from its standard
/// input. If that is unclear, the answer is yes.
pub fn from_input(name: &[u8], argv: &[Vec<u8>]) -> bool {
    let mut arguments = argv.iter().skip(1).map(Vec::as_slice);
    if name == b"awk" || name == b"mawk" || name == b"gawk" {
        let mut file_next = false;
        return arguments.any(|argument| {
            let is_file = std::mem::take(&mut file_next);
            file_next = matches!(argument, b"-f" | b"--file");
            matches!(argument, b"-f-" | b"--file=-") || (is_file && argument == b"-")
        });
    }
    // Options that contain a program or a module; options with the value in the next argument;
    // options with the value in the rest of the argument.
    let (holds, takes, ends): (&[u8], &[u8], &[u8]) = match name {
        b"bash" => (b"c", b"oO", b""),
        b"perl" => (b"eE", b"I", b"IMmixFCDVd"),
        _ if name.starts_with(b"python") => (b"cm", b"XW", b"XW"),
        _ => return false,
    };
    while let Some(argument) = arguments.next() {
        match argument {
            b"-" => return name != b"bash" || arguments.next().is_none(),
            b"--" => return arguments.next().is_none_or(|argument| argument == b"-"),
            b"--rcfile" | b"--init-file" | b"--check-hash-based-pycs" => drop(arguments.next()),
            _ if argument.starts_with(b"--") => {}
            [b'-' | b'+', letters @ ..] => {
                for (at, letter) in letters.iter().enumerate() {
                    if argument[0] == b'-' && holds.contains(letter) {
                        return false;
                    }
                    if name == b"bash" && *letter == b's' {
                        return true;
                    }
                    if takes.contains(letter) && (name == b"bash" || at + 1 == letters.len()) {
                        let _ = arguments.next();
                    }
                    if ends.contains(letter) {
                        break;
                    }
                }
            }
            _operand => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_read_from_the_input_unless_they_are_given() {
        let from_input = |command: &str| {
            let argv: Vec<Vec<u8>> = command.split(' ').map(|word| word.into()).collect();
            from_input(&argv[0], &argv)
        };
        for command in [
            "bash",
            "bash -s a",
            "bash -ex",
            "bash -o pipefail",
            "bash -eo pipefail -u",
            "bash -",
            "bash --norc --rcfile f",
            "bash -es x",
            "bash --",
            "perl",
            "perl -w",
            "perl -I dir",
            "perl -MCarp -",
            "perl -Mre -i.e",
            "perl -w -- -",
            "python3",
            "python3 -u -",
            "python3 -X dev",
            "python3.11 -W error -",
            "awk -v a=b -f -",
            "mawk -f- x",
            "gawk --file=-",
        ] {
            assert!(from_input(command), "{command}");
        }
        for command in [
            "bash -c x",
            "bash -ec x",
            "bash script",
            "bash -o pipefail script",
            "bash - script",
            "bash -- script",
            "bash +x script",
            "perl -e 1",
            "perl -ne 1",
            "perl -w0777 script",
            "perl -lane 1",
            "perl -pi -e 1",
            "perl -I dir script",
            "perl -Idire script",
            "perl -- script -",
            "python3 -c x",
            "python3 -um mod",
            "python3 -Xdev script",
            "python3 -X dev script -",
            "awk -f prog -",
            "awk { -f x",
            "make -f -",
            "sed -f -",
        ] {
            assert!(!from_input(command), "{command}");
        }
    }

    #[test]
    fn another_name_with_random_in_it_is_no_chance() {
        assert!(!uses_chance(
            b"GL_GNULIB_RANDOM=0\nS[\"RANDOM_R\"]=1\nRANDOMS=2"
        ));
        assert!(uses_chance(b"echo $SRANDOM"));
        assert!(uses_chance(b"x[1]=RANDOM"));
    }

    #[test]
    fn a_comment_in_a_here_document_is_text() {
        assert!(!uses_chance(
            b"#!/bin/bash\n\n # $RANDOM is used nowhere\necho 1\n"
        ));
        assert!(uses_chance(b"cat <<E\n#define SEED $RANDOM\nE\n"));
        assert!(!names_chance(
            b"echo\n\t# The $RANDOM variable is not portable (e.g., dash).  Use it\n"
        ));
        assert!(names_chance(b"#define SEED $RANDOM"));
    }

    #[test]
    fn a_random_number_beside_the_process_id_is_a_name() {
        assert!(!uses_chance(
            b"# echo $RANDOM\n  # $RANDOM\ntmp=./conf$$-$RANDOM\n"
        ));
        assert!(!uses_chance(
            b"{ test -n \"$RANDOM\" && tmp=$TMPDIR/cg$$-$RANDOM; }"
        ));
        assert!(uses_chance(b"echo $RANDOM > x"));
        assert!(uses_chance(b"x=${RANDOM}"));
    }

    #[test]
    fn a_test_for_files_that_were_read_is_told_from_options() {
        assert!(asks_reads(b"[ -N f ] && echo new"));
        assert!(asks_reads(b"if [[ -e f && -N f ]]; then"));
        assert!(asks_reads(b"test ! -N f"));
        assert!(!asks_reads(
            b"diff -urN a b; grep -N x; diff -N a b; [ -Nt ]"
        ));
    }

    #[test]
    fn an_awk_program_that_calls_rand_draws_a_number() {
        assert!(awk_uses_chance(b"BEGIN { srand(); print 1 }"));
        assert!(awk_uses_chance(b"{ x = rand () }"));
        assert!(!awk_uses_chance(b"{ print brand, $1 }"));
    }

    #[test]
    fn a_perl_script_that_tells_the_age_of_files_uses_the_time_of_its_start() {
        assert!(perl_uses_start(b"print $^T"));
        assert!(perl_uses_start(b"print if -M $file > 1"));
        assert!(perl_uses_start(b"print -A \"f\""));
        assert!(!perl_uses_start(b"-MList::Util"));
        assert!(!perl_uses_start(b"print if -f $file; $x - 1; '--All'"));
    }

    #[test]
    fn a_python_script_that_names_time_zones_is_looked_for() {
        let reason = |script: &[u8]| Scripts::Python.reason(None, script);
        assert!(reason(b"import time; print(time.tzname)").is_some());
        assert!(reason(b"from datetime import timezone; timezone.utc").is_none());
    }
}
