//! What is known about programs: how they use time, chance and file times.
//!
//! By default a program may depend on everything it could look at. The tables
//! here list programs of which more is known, so that compilers are not held
//! to file times they never look at, and `make` may ask for the time of day.
//! Each entry is an assumption about that program; `--strict` empties the
//! tables.

use crate::fact::TimeUse;
use crate::script::{Scripts, compares_times, from_input};

/// What a program may do and still be skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How it depends on timestamps and inode numbers of files.
    pub time: TimeUse,
    /// It may read clocks: what it does with them leaves no trace in results
    /// (names of temporary files, progress, "clock skew" warnings).
    pub clock: bool,
    /// It may read the running clock (`CLOCK_MONOTONIC`, also the coarse one), which says nothing
    /// about the present.
    pub running_clock: bool,
    /// It may ask for random bytes beyond a hash seed at start-up.
    pub random: bool,
    /// It may ask how its process or the machine is doing (usage, load, the
    /// bounds of its stack).
    pub usage: bool,
    /// It reads files about how it is doing, and random bytes, for its own use
    /// only: it is no program that shows the contents of any file.
    pub meters: bool,
    /// It asks once for the bounds of its stack, in `/proc/self/maps`, and is
    /// not told to show that file.
    pub stack: bool,
    /// Clock reads that belong to its start-up: the first ones (of the time of
    /// day, for Python).
    pub start_clock: u32,
    /// How often it asks for the position of its standard input, output and error (of each)
    /// when it starts, to know whether that is the start of a file.
    pub start_seeks: u8,
    /// It does nothing but wait. It is skipped as a part of others only, or loops that wait for
    /// something would not.
    pub waits: bool,
    /// What it does cannot be noted: it is never stored, for this reason.
    pub unknown: Option<&'static str>,
    /// Its scripts are looked through for uses of time and chance that its
    /// system calls do not tell from its own.
    pub scripts: Scripts,
    /// It reads its program from its standard input.
    pub from_input: bool,
    /// It shows inode numbers.
    pub inodes: bool,
    /// It looks at directories without comparing their times.
    pub plain_directories: bool,
    /// What it makes of a file it is going to write.
    pub outputs: Outputs,
    /// It gives what it makes the permissions of what it opened.
    pub permissions: bool,
    /// What it makes is a random name (mktemp): the name may be used, but not
    /// be left anywhere.
    pub names: bool,
    /// It asks for the name of its terminal, to tell programs that it starts, whose keys
    /// leave that out (`MAKE_TERMOUT`).
    pub terminal: bool,
    /// How it depends on what its standard input, output and error are.
    pub streams: Streams,
    /// How makes and shells were called and nested above it is nothing to it (`lto-wrapper` looks
    /// for the jobserver there).
    pub unnested: bool,
}

impl Policy {
    /// That of a program of which nothing is known.
    pub const STRICT: Self = Self {
        time: TimeUse::Exact,
        clock: false,
        running_clock: false,
        random: false,
        usage: false,
        meters: false,
        stack: false,
        start_clock: 0,
        start_seeks: 0,
        waits: false,
        unknown: None,
        scripts: Scripts::Any,
        from_input: false,
        plain_directories: false,
        inodes: false,
        outputs: Outputs::Observed,
        permissions: false,
        names: false,
        terminal: false,
        streams: Streams::Observed,
        unnested: false,
    };

    const fn time(time: TimeUse) -> Self {
        Self {
            time,
            ..Self::STRICT
        }
    }

    const fn tool(time: TimeUse) -> Self {
        Self {
            time,
            clock: true,
            random: true,
            usage: true,
            ..Self::STRICT
        }
    }

    /// A tool that has nothing to say while all is well, and asks whether its standard input is a
    /// terminal if it has a question.
    const fn quiet(time: TimeUse) -> Self {
        Self {
            streams: Streams::Written,
            unnested: true,
            ..Self::tool(time)
        }
    }

    /// One that asks nobody anything.
    const fn compiler(time: TimeUse) -> Self {
        Self {
            streams: Streams::Used,
            ..Self::quiet(time)
        }
    }
}

/// The policy for a program, by the name of its executable (of its
/// interpreter for a script) and its arguments.
pub fn policy(program: &[u8], argv: &[Vec<u8>], strict: bool) -> Policy {
    if strict {
        return Policy::STRICT;
    }
    let name = plain_name(program);
    if !is_distinct(name) && !is_installed(program) {
        // A test of the project's own may be called `test`.
        return Policy::STRICT;
    }
    // The GNU tools that can overflow their stack watch for that.
    let shows =
        |arg: &Vec<u8>| memchr::memmem::find(arg, b"/proc").is_some() || arg.ends_with(b"maps");
    let stack = matches!(
        name,
        b"grep"
            | b"egrep"
            | b"fgrep"
            | b"diff"
            | b"diff3"
            | b"sdiff"
            | b"cmp"
            | b"m4"
            | b"gawk"
            | b"bison"
            | b"sed"
    ) && !argv.iter().skip(1).any(shows);
    Policy {
        stack,
        from_input: from_input(name, argv),
        ..by_name(name, argv)
    }
}

/// Whether a program of this name is hardly anything else, wherever it is.
fn is_distinct(name: &[u8]) -> bool {
    let names: &[&[u8]] = &[
        b"gcc",
        b"g++",
        b"cc",
        b"c++",
        b"cpp",
        b"c89",
        b"c99",
        b"cc1",
        b"cc1plus",
        b"collect2",
        b"as",
        b"ld",
        b"ld.bfd",
        b"ld.gold",
        b"ld.lld",
        b"rust-lld",
        b"lto1",
        b"lto-wrapper",
        b"gfortran",
        b"f951",
        b"clang",
        b"clang++",
        b"ar",
        b"gcc-ar",
        b"ranlib",
        b"gcc-ranlib",
        b"strip",
        b"objcopy",
        b"objdump",
        b"readelf",
        b"make",
        b"gmake",
        b"cmake",
        b"ninja",
        b"cargo",
        b"rustc",
        b"sh",
        b"dash",
        b"bash",
        b"perl",
        b"mawk",
        b"gawk",
    ];
    names.contains(&name) || name.starts_with(b"python")
}

/// Whether a program is where such are installed.
fn is_installed(program: &[u8]) -> bool {
    let mut directories = program.rsplit(|&b| b == b'/').skip(1);
    [&b"/usr/"[..], b"/opt/", b"/nix/", b"/gnu/"]
        .iter()
        .any(|place| program.starts_with(place))
        || directories.any(|name| matches!(name, b"bin" | b"sbin" | b"libexec"))
        // Named by a test, or looked up.
        || !program.contains(&b'/')
}

/// The policy for a program of this name.
fn by_name(name: &[u8], argv: &[Vec<u8>]) -> Policy {
    let option = |letter: u8| {
        argv.iter().skip(1).any(|arg| {
            arg.first() == Some(&b'-') && arg.get(1) != Some(&b'-') && arg.contains(&letter)
        })
    };
    let long = |name: &[u8]| argv.iter().any(|arg| arg.starts_with(name));
    let mention = |word: &[u8]| {
        let mut arguments = argv.iter().skip(1);
        arguments.any(|arg| memchr::memmem::find(arg, word).is_some())
    };
    // A linker draws one, which shows.
    let drawn = || mention(b"build-id=uuid") || mention(b"build-id,uuid");
    match name {
        // Compilers, assemblers, linkers: names of temporary files come from
        // the clock; file times do not matter (__TIMESTAMP__ is looked for).
        b"gcc" | b"g++" | b"cc" | b"c++" | b"cpp" | b"c89" | b"c99" | b"cc1" | b"cc1plus"
        | b"collect2" => Policy {
            outputs: Outputs::Written,
            meters: true,
            random: !drawn(),
            // These can name variables.
            unnested: !long(b"-specs") && !long(b"--specs"),
            ..Policy::compiler(TimeUse::None)
        },
        b"as" | b"ld" | b"ld.bfd" => Policy {
            outputs: Outputs::Removed,
            meters: true,
            random: !drawn(),
            ..Policy::compiler(TimeUse::None)
        },
        b"gfortran" | b"f951" | b"ld.gold" => Policy {
            meters: true,
            ..Policy::compiler(TimeUse::None)
        },
        // clang hands on whether it has a terminal, as an argument that can be embedded.
        b"clang" | b"clang++" | b"ld.lld" => Policy {
            meters: true,
            unnested: true,
            ..Policy::tool(TimeUse::None)
        },
        b"rust-lld" | b"lto1" | b"lto-wrapper" => Policy {
            meters: true,
            ..Policy::tool(TimeUse::None)
        },
        b"ar" | b"gcc-ar" | b"ranlib" | b"gcc-ranlib" => {
            // `D` is the default of the distribution's binutils; `U` undoes it.
            let undone = option(b'U')
                || argv.get(1).is_some_and(|arg| arg.contains(&b'U'))
                || argv.iter().any(|arg| arg.starts_with(b"@"));
            Policy::compiler(if undone {
                TimeUse::Exact
            } else {
                TimeUse::None
            })
        }
        // They give what they make the permissions of what it is made from.
        b"strip" | b"objcopy" => Policy {
            permissions: true,
            ..Policy::compiler(if option(b'p') || long(b"--p") {
                TimeUse::Modified
            } else {
                TimeUse::None
            })
        },
        b"sed" | b"ed" | b"patch" => Policy {
            permissions: true,
            ..Policy::tool(TimeUse::None)
        },
        // What they make of a file gets its time as well.
        b"xz" | b"bzip2" | b"zstd" => Policy {
            permissions: true,
            ..Policy::tool(if names_input(argv) {
                TimeUse::Modified
            } else {
                TimeUse::None
            })
        },
        b"nm" | b"objdump" | b"readelf" => Policy {
            unnested: true,
            ..Policy::tool(TimeUse::None)
        },
        b"size" | b"strings" | b"pkg-config" | b"m4" | b"flex" | b"bison" | b"yacc" | b"lex" => {
            Policy::tool(TimeUse::None)
        }
        // Builders and shells compare times with each other.
        b"make" | b"gmake" => Policy {
            meters: true,
            terminal: true,
            ..Policy::tool(if option(b'L') || long(b"--check-s") {
                TimeUse::Exact
            } else {
                TimeUse::Order
            })
        },
        b"sh" | b"dash" => Policy {
            scripts: Scripts::Shell,
            plain_directories: true,
            ..Policy::time(TimeUse::Order)
        },
        b"test" | b"[" => Policy {
            plain_directories: !argv.iter().any(|arg| compares_times(arg)),
            ..Policy::time(TimeUse::Order)
        },
        // bash notes the time and seeds $RANDOM when it starts; scripts that use
        // $RANDOM are looked for.
        b"bash" => Policy {
            start_clock: 3,
            scripts: Scripts::Bash,
            plain_directories: true,
            ..Policy::time(TimeUse::Order)
        },
        b"mktemp" => Policy {
            names: true,
            ..Policy::tool(TimeUse::None)
        },
        // Without a header there is no date in it.
        b"xgettext" if long(b"--omit-header") => Policy::tool(TimeUse::None),
        b"cmake" => Policy {
            random: false,
            meters: true,
            ..Policy::tool(TimeUse::Order)
        },
        // These record times they saw, and compare them later.
        b"ninja" | b"cargo" => Policy {
            meters: true,
            ..Policy::tool(TimeUse::Modified)
        },
        // Procedural macros run in the compiler, and may ask for the date.
        b"rustc" => Policy {
            clock: false,
            running_clock: true,
            random: false,
            meters: true,
            ..Policy::tool(TimeUse::None)
        },
        // Python's locks read the running clock all the time; scripts that read
        // it themselves are looked for. Its module `time` asks once, when it is
        // imported, which year it is, to name the time zones; the versions
        // listed import it before any script.
        _ if name.starts_with(b"python") => {
            let asks_the_year = matches!(name, b"python3.10" | b"python3.11" | b"python3.12");
            Policy {
                start_clock: u32::from(asks_the_year),
                start_seeks: if name.starts_with(b"python3") { 2 } else { 0 },
                running_clock: true,
                scripts: Scripts::Python,
                ..Policy::time(TimeUse::Modified)
            }
        }
        // mawk seeds itself when it starts; programs that draw numbers are looked
        // for.
        b"awk" | b"mawk" | b"gawk" => Policy {
            scripts: Scripts::Awk,
            ..Policy::tool(TimeUse::None)
        },
        // Perl notes when it started; scripts that may use that are looked for.
        b"perl" => Policy {
            start_clock: 1,
            scripts: Scripts::Perl,
            ..Policy::time(TimeUse::Modified)
        },
        // Small tools that read contents and names only; where they make
        // temporary files, clock and chance give those their names.
        b"chmod" | b"ln" | b"mkdir" | b"rm" => Policy::quiet(TimeUse::None),
        b"mv" => Policy::quiet(if option(b'u') || long(b"--u") {
            TimeUse::Modified
        } else {
            TimeUse::None
        }),
        b"cat" | b"cut" | b"grep" | b"head" | b"tail" | b"tr" | b"uniq" | b"wc" => Policy {
            unnested: true,
            ..Policy::tool(TimeUse::None)
        },
        b"basename" | b"base64" | b"cksum" | b"cmp" | b"comm" | b"dirname" | b"echo" | b"egrep"
        | b"env" | b"expand" | b"expr" | b"false" | b"fgrep" | b"fold" | b"id" | b"join"
        | b"md5sum" | b"nl" | b"nproc" | b"file" | b"sha224sum" | b"sha384sum" | b"sha512sum"
        | b"b2sum" | b"sum" | b"truncate" | b"fmt" | b"factor" | b"numfmt" | b"csplit" | b"bc"
        | b"dc" | b"getconf" | b"getopt" | b"gettext" | b"msgfmt" | b"msgmerge" | b"locale"
        | b"nohup" | b"stdbuf" | b"tput" | b"sync" | b"chgrp" | b"chown" | b"od" | b"paste"
        | b"printf" | b"pwd" | b"readlink" | b"realpath" | b"rmdir" | b"seq" | b"sha1sum"
        | b"sha256sum" | b"split" | b"tac" | b"tee" | b"true" | b"tsort" | b"uname"
        | b"unexpand" | b"unlink" | b"xargs" | b"xzcat" | b"zcat" | b"which" | b"hostname"
        | b"arch" | b"tty" | b"mkfifo" => Policy::tool(TimeUse::None),
        b"sleep" => Policy {
            waits: true,
            ..Policy::tool(TimeUse::None)
        },
        b"nice" if argv.len() > 1 => Policy::tool(TimeUse::None),
        b"flock" => Policy {
            unknown: Some("takes a lock"),
            ..Policy::STRICT
        },
        b"sort" => Policy {
            // A random order is the point of -R, also in keys.
            random: !argv.iter().skip(1).any(|arg| match arg.as_slice() {
                [b'-', b'-', ..] => {
                    arg.starts_with(b"--r") || arg.starts_with(b"--s") || arg.contains(&b'R')
                }
                [b'-' | b'0'..=b'9', ..] => arg.contains(&b'R'),
                _ => arg == b"random",
            }),
            unnested: true,
            ..Policy::tool(TimeUse::None)
        },
        b"dd" => Policy::time(TimeUse::None),
        // The head of a unified or context diff shows the files' times.
        b"diff" => {
            let shows = b"ucUCpF0123456789".iter().copied().any(option) || long(b"--");
            let time = if shows {
                TimeUse::Modified
            } else {
                TimeUse::None
            };
            Policy {
                usage: true,
                ..Policy::time(time)
            }
        }
        b"tar" if archives_more(argv) => Policy::STRICT,
        b"tar" => Policy::tool(TimeUse::Modified),
        // gzip stores the time of the file it compresses by name.
        b"gzip" => Policy {
            permissions: true,
            ..Policy::time(if (option(b'n') || option(b'd')) && !names_input(argv) {
                TimeUse::None
            } else {
                TimeUse::Modified
            })
        },
        b"gunzip" => Policy::time(TimeUse::Modified),
        b"cp" | b"install" => {
            let keeps = option(b'p') || option(b'a') || option(b'u') || long(b"--");
            Policy::quiet(if keeps {
                TimeUse::Modified
            } else {
                TimeUse::None
            })
        }
        b"touch" => {
            let reference = option(b'r') || long(b"--r");
            let time = if reference {
                TimeUse::Modified
            } else {
                TimeUse::None
            };
            Policy {
                clock: argv
                    .iter()
                    .zip(std::iter::once(None).chain(argv.iter().map(Some)))
                    .any(|(arg, before)| {
                        let is_value = before.is_some_and(|it| it == b"-d" || it == b"--date");
                        is_dated(arg) || is_value && is_complete(arg)
                    }),
                unnested: true,
                ..Policy::time(time)
            }
        }
        b"ls" | b"dir" => {
            let shows = b"lsogncu".iter().copied().any(option) || long(b"--");
            let time = match (shows, option(b't')) {
                (true, _) => TimeUse::Exact,
                (false, true) => TimeUse::Order,
                (false, false) => TimeUse::None,
            };
            let read = option(b'u') || long(b"--time=a") || long(b"--time=u");
            Policy {
                unknown: read.then_some("asks when files were read"),
                inodes: option(b'i'),
                usage: true,
                ..Policy::time(time)
            }
        }
        b"find" => {
            let plain = argv.iter().all(|arg| {
                ![
                    &b"-printf"[..],
                    b"-fprintf",
                    b"-ls",
                    b"-fls",
                    b"-mtime",
                    b"-mmin",
                    b"-atime",
                    b"-amin",
                    b"-ctime",
                    b"-cmin",
                    b"-inum",
                    b"-samefile",
                    b"-used",
                    b"-newer",
                    b"-anewer",
                    b"-cnewer",
                ]
                .iter()
                .any(|flag| arg.starts_with(flag))
            });
            // It notes when it started, to compare times with that.
            Policy {
                unknown: if long(b"-links") {
                    Some("asks how many names directories have")
                } else if long(b"-a") && !plain || long(b"-used") {
                    Some("asks when files were read")
                } else {
                    None
                },
                clock: plain,
                usage: plain,
                ..Policy::time(if plain { TimeUse::None } else { TimeUse::Exact })
            }
        }
        _ => Policy::STRICT,
    }
}

/// Whether an option gives a complete date, which does not depend on the present.
fn is_dated(arg: &[u8]) -> bool {
    let options = [&b"--date="[..], b"--mtime=", b"-d"];
    let mut dates = options.iter().filter_map(|name| arg.strip_prefix(*name));
    dates.any(is_complete)
}

/// Whether this is a complete date.
fn is_complete(date: &[u8]) -> bool {
    date.starts_with(b"@")
        || date.len() >= 10 && date[..4].iter().all(u8::is_ascii_digit) && date[4] == b'-'
}

/// Whether tar is told to ask more of files, and of the present, than when they were changed.
fn archives_more(argv: &[Vec<u8>]) -> bool {
    const LETTERS: [u8; 4] = *b"gNSH";
    const NAMES: [&[u8]; 7] = [
        b"--listed",
        b"--newer",
        b"--after",
        b"--format=p",
        b"--posix",
        b"--sparse",
        b"--mtime",
    ];
    argv.iter().enumerate().skip(1).any(|(at, arg)| {
        if arg.starts_with(b"--") {
            NAMES.iter().any(|name| arg.starts_with(name)) && !is_dated(arg)
        } else {
            // The first needs no dash.
            (at == 1 || arg.starts_with(b"-")) && LETTERS.iter().any(|it| arg.contains(it))
        }
    })
}

/// Whether a compressor is given a file, beside which it puts another.
fn names_input(argv: &[Vec<u8>]) -> bool {
    let to_output = |arg: &Vec<u8>| match arg.as_slice() {
        [b'-', b'-', ..] => arg.starts_with(b"--stdout") || arg.starts_with(b"--to-stdout"),
        [b'-', ..] => arg.contains(&b'c'),
        _ => false,
    };
    let given = argv.get(1..).unwrap_or_default();
    !given.iter().any(to_output) && given.iter().any(|arg| !arg.starts_with(b"-"))
}

/// The name without directory, target triple and version
/// (`/usr/bin/x86_64-linux-gnu-gcc-12` is `gcc`).
pub(crate) fn plain_name(program: &[u8]) -> &[u8] {
    let mut name = program.rsplit(|&b| b == b'/').next().unwrap_or(program);
    for prefix in [&b"x86_64-linux-gnu-"[..], b"x86_64-pc-linux-gnu-"] {
        name = name.strip_prefix(prefix).unwrap_or(name);
    }
    if let Some(dash) = name.iter().rposition(|&b| b == b'-') {
        let version = &name[dash + 1..];
        if !version.is_empty() && version.iter().all(|b| b.is_ascii_digit() || *b == b'.') {
            name = &name[..dash];
        }
    }
    name
}

/// What a program makes of what stands where it is going to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outputs {
    /// It may depend on it.
    Observed,
    /// Nothing, if it is a plain file with one name, or missing.
    Written,
    /// It removes it first, if it is a plain file; else as `Written`.
    Removed,
}

/// How a program depends on what its standard input, output and error are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// On all that can be known of them.
    Observed,
    /// On what its output and error are only if it writes there: it asks whether, and how wide,
    /// terminals they are for the sake of that alone.
    Written,
    /// On its input, too, only if it reads from it.
    Used,
}

/// Environment variables that belong to the session and not to the work, or to the builder and
/// not to this program. One that shows them all (`env`) is keyed by them all the same.
pub fn ignores_variable(name: &[u8], program: &[u8], policy: &Policy) -> bool {
    if matches!(plain_name(program), b"env" | b"printenv") {
        return false;
    }
    if says_how_nested(name) {
        return policy.unnested;
    }
    // Ours: where the store is says nothing about the work.
    if name.starts_with(b"PCACHE_") {
        return true;
    }
    matches!(
        name,
        b"_" | b"OLDPWD"
            | b"SSH_CLIENT"
            | b"SSH_CONNECTION"
            | b"SSH_TTY"
            | b"SSH_AUTH_SOCK"
            | b"WINDOWID"
            | b"XDG_SESSION_ID"
            | b"INVOCATION_ID"
            | b"JOURNAL_STREAM"
            | b"TMUX"
            | b"TMUX_PANE"
            | b"STY"
            | b"GPG_TTY"
            | b"MAKE_TERMOUT"
            | b"MAKE_TERMERR"
    )
}

/// Whether a variable says how makes and shells are called or nested.
pub fn says_how_nested(name: &[u8]) -> bool {
    matches!(name, b"MAKEFLAGS" | b"MFLAGS" | b"MAKELEVEL" | b"SHLVL")
}

/// Whether these arguments make a program show its whole environment, with the
/// variables that [`ignores_variable`] leaves out elsewhere.
pub fn shows_environment(program: &[u8], argv: &[Vec<u8>]) -> bool {
    match plain_name(program) {
        b"printenv" => true,
        b"env" => {
            let mut arguments = argv.iter().skip(1);
            while let Some(argument) = arguments.next() {
                match argument.as_slice() {
                    b"-u" | b"--unset" | b"-C" | b"--chdir" => drop(arguments.next()),
                    b"--" => return arguments.all(|argument| argument.contains(&b'=')),
                    option
                        if option.starts_with(b"-S") || option.starts_with(b"--split-string") =>
                    {
                        return false;
                    }
                    option if option.starts_with(b"-") => {}
                    assignment if assignment.contains(&b'=') => {}
                    _command => return false,
                }
            }
            true
        }
        _ => false,
    }
}

/// Random bytes that seed hash tables or allocators at start-up: glibc's
/// malloc (8 bytes, once), CPython (24 bytes), Rust's std (16 bytes,
/// `GRND_INSECURE`). They do not reach results of programs that are
/// deterministic otherwise.
pub fn is_hash_seed(length: u64, flags: u32, earlier: u32) -> bool {
    const NONBLOCK: u32 = 1;
    const INSECURE: u32 = 4;
    match (length, flags) {
        (8, NONBLOCK) => earlier == 0,
        (24, NONBLOCK) => true,
        (16, INSECURE) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(list: &[&str]) -> Vec<Vec<u8>> {
        list.iter().map(|s| s.as_bytes().to_vec()).collect()
    }

    #[test]
    fn env_shows_the_environment_unless_it_has_a_command() {
        for shown in [
            &["env"][..],
            &["env", "A=b"],
            &["env", "-i", "A=b"],
            &["env", "-u", "A"],
            &["env", "-0", "-C", "dir", "A=b"],
            &["env", "--", "A=b"],
        ] {
            assert!(
                shows_environment(b"/usr/bin/env", &args(shown)),
                "{shown:?}"
            );
        }
        for hidden in [
            &["env", "make"][..],
            &["env", "A=b", "make"],
            &["env", "-u", "A", "-i", "make", "C=d"],
            &["env", "--", "A=b", "make"],
            &["env", "-S", "make all"],
        ] {
            assert!(
                !shows_environment(b"/usr/bin/env", &args(hidden)),
                "{hidden:?}"
            );
        }
        assert!(shows_environment(
            b"/usr/bin/printenv",
            &args(&["printenv", "A"])
        ));
        assert!(!shows_environment(b"/bin/sh", &args(&["sh"])));
    }

    #[test]
    fn triples_and_versions_are_no_part_of_a_name() {
        assert_eq!(plain_name(b"/usr/bin/x86_64-linux-gnu-gcc-12"), b"gcc");
        assert_eq!(plain_name(b"gcc-ar"), b"gcc-ar");
        assert_eq!(plain_name(b"python3.11"), b"python3.11");
    }

    #[test]
    fn a_program_nobody_knows_is_held_to_everything() {
        assert_eq!(policy(b"/opt/x", &args(&["x"]), false), Policy::STRICT);
        assert_eq!(
            policy(b"/usr/bin/gcc", &args(&["gcc"]), true),
            Policy::STRICT
        );
    }

    #[test]
    fn a_search_by_age_depends_on_the_present() {
        let find = |list: &[&str]| policy(b"find", &args(list), false);
        assert!(find(&["find", ".", "-name", "x"]).clock);
        for test in ["-mmin", "-newer", "-newerat", "-atime", "-ls", "-printf"] {
            let policy = find(&["find", ".", test, "1"]);
            assert_eq!(
                (policy.clock, policy.time),
                (false, TimeUse::Exact),
                "{test}"
            );
        }
    }

    #[test]
    fn a_listing_with_times_depends_on_times() {
        assert_eq!(
            policy(b"ls", &args(&["ls", "-l"]), false).time,
            TimeUse::Exact
        );
        assert_eq!(
            policy(b"ls", &args(&["ls", "-t"]), false).time,
            TimeUse::Order
        );
        assert_eq!(
            policy(b"cp", &args(&["cp", "-p", "a", "b"]), false).time,
            TimeUse::Modified
        );
    }
}
