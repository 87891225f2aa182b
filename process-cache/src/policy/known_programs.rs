//! The tables: programs by their names.

use super::{Outputs, Policy};
use crate::model::fact::TimeUse;
use crate::policy::script::{Scripts, compares_times};

/// The policy for a program whose name is hardly used for anything else, wherever it is.
pub(super) fn distinct(name: &[u8], argv: &[Vec<u8>]) -> Option<Policy> {
    Some(match name {
        // Compilers, assemblers, linkers: names of temporary files come from
        // the clock; file times do not matter (__TIMESTAMP__ is looked for).
        b"gcc" | b"g++" | b"cc" | b"c++" | b"cpp" | b"c89" | b"c99" | b"cc1" | b"cc1plus"
        | b"collect2" => Policy {
            outputs: Outputs::Written,
            meters: true,
            random: !draws_build_id(argv),
            // These can name variables.
            unnested: !has_long(argv, b"-specs") && !has_long(argv, b"--specs"),
            ..Policy::compiler(TimeUse::None)
        },
        b"as" | b"ld" | b"ld.bfd" => Policy {
            outputs: Outputs::Removed,
            meters: true,
            random: !draws_build_id(argv),
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
            // `D` is the default of the distribution's binutils; `U` undoes it. What follows on the
            // operation in a file (`ar cr lib.a @objects`) are members.
            let unknown =
                |operation: &Vec<u8>| operation.contains(&b'U') || operation.starts_with(b"@");
            let undone = has_letter(argv, b'U') || argv.get(1).is_some_and(unknown);
            Policy::compiler(if undone {
                TimeUse::Exact
            } else {
                TimeUse::None
            })
        }
        // They give what they make the permissions of what it is made from.
        b"strip" | b"objcopy" => Policy {
            permissions: true,
            ..Policy::compiler(if has_letter(argv, b'p') || has_long(argv, b"--p") {
                TimeUse::Modified
            } else {
                TimeUse::None
            })
        },
        b"nm" | b"objdump" | b"readelf" => Policy {
            unnested: true,
            ..Policy::tool(TimeUse::None)
        },
        // Builders and shells compare times with each other.
        b"make" | b"gmake" => Policy {
            meters: true,
            terminal: true,
            ..Policy::tool(if has_letter(argv, b'L') || has_long(argv, b"--check-s") {
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
        // bash notes the time and seeds $RANDOM when it starts; scripts that use
        // $RANDOM are looked for.
        b"bash" => Policy {
            start_clock: 3,
            scripts: Scripts::Bash,
            plain_directories: true,
            ..Policy::time(TimeUse::Order)
        },
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
        // What autoconf compiles to ask about the machine: it answers with its status, and what it
        // makes of times and chance on the way is a property of the machine as well.
        b"conftest" => Policy {
            told_times: true,
            ..Policy::tool(TimeUse::None)
        },
        // Perl notes when it started; scripts that may use that are looked for.
        b"perl" => Policy {
            start_clock: 1,
            scripts: Scripts::Perl,
            ..Policy::time(TimeUse::Modified)
        },
        _ => return None,
    })
}

/// The policy for a program of this name that is where such are installed.
pub(super) fn installed(name: &[u8], argv: &[Vec<u8>]) -> Policy {
    match name {
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
        b"size" | b"strings" | b"pkg-config" | b"m4" | b"flex" | b"bison" | b"yacc" | b"lex" => {
            Policy::tool(TimeUse::None)
        }
        b"test" | b"[" => Policy {
            plain_directories: !argv.iter().any(|arg| compares_times(arg)),
            inodes: argv.iter().any(|arg| arg == b"-ef"),
            unknown: argv
                .iter()
                .any(|arg| arg == b"-N")
                .then_some("asks when files were read"),
            ..Policy::time(TimeUse::Order)
        },
        b"mktemp" => Policy {
            names: true,
            ..Policy::tool(TimeUse::None)
        },
        // Without a header there is no date in it.
        b"xgettext" if has_long(argv, b"--omit-header") => Policy::tool(TimeUse::None),
        // Small tools that read contents and names only; where they make
        // temporary files, clock and chance give those their names.
        b"chmod" | b"ln" | b"mkdir" | b"rm" => Policy::quiet(TimeUse::None),
        b"mv" => Policy::quiet(if has_letter(argv, b'u') || has_long(argv, b"--u") {
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
            let shows = b"ucUCpF0123456789"
                .iter()
                .copied()
                .any(|it| has_letter(argv, it))
                || has_long(argv, b"--");
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
            ..Policy::time(
                if (has_letter(argv, b'n') || has_letter(argv, b'd')) && !names_input(argv) {
                    TimeUse::None
                } else {
                    TimeUse::Modified
                },
            )
        },
        b"gunzip" => Policy::time(TimeUse::Modified),
        b"cp" | b"install" => {
            let keeps = has_letter(argv, b'p')
                || has_letter(argv, b'a')
                || has_letter(argv, b'u')
                || has_long(argv, b"--");
            Policy::quiet(if keeps {
                TimeUse::Modified
            } else {
                TimeUse::None
            })
        }
        b"touch" => {
            let reference = has_letter(argv, b'r') || has_long(argv, b"--r");
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
                told_times: true,
                ..Policy::time(time)
            }
        }
        b"ls" | b"dir" => {
            let shows =
                b"lsogncu".iter().copied().any(|it| has_letter(argv, it)) || has_long(argv, b"--");
            let time = match (shows, has_letter(argv, b't')) {
                (true, _) => TimeUse::Exact,
                (false, true) => TimeUse::Order,
                (false, false) => TimeUse::None,
            };
            let read = has_letter(argv, b'u')
                || has_long(argv, b"--time=a")
                || has_long(argv, b"--time=u");
            Policy {
                unknown: read.then_some("asks when files were read"),
                inodes: has_letter(argv, b'i'),
                shows_place: matches!(argv, [_, option, place] if option == b"-di" && place == b"."),
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
                unknown: if has_long(argv, b"-links") {
                    Some("asks how many names directories have")
                } else if has_long(argv, b"-a") && !plain || has_long(argv, b"-used") {
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

/// Whether an option of one letter is given.
fn has_letter(argv: &[Vec<u8>], letter: u8) -> bool {
    argv.iter()
        .skip(1)
        .any(|arg| arg.first() == Some(&b'-') && arg.get(1) != Some(&b'-') && arg.contains(&letter))
}

/// Whether an argument begins with this, as the long options are told from each other.
fn has_long(argv: &[Vec<u8>], name: &[u8]) -> bool {
    argv.iter().any(|arg| arg.starts_with(name))
}

/// Whether a linker is told to draw an identity, which shows in what it makes.
fn draws_build_id(argv: &[Vec<u8>]) -> bool {
    argv.iter().skip(1).any(|arg| {
        [&b"build-id=uuid"[..], b"build-id,uuid"]
            .iter()
            .any(|word| memchr::memmem::find(arg, word).is_some())
    })
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
