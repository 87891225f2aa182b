//! How programs use the paths that they are given.
//!
//! A row of [`programs::PROGRAMS`] gives the default; arguments can make it worse.

use crate::policy::base_dirs::BaseDirs;
use crate::policy::plain_name;
use crate::policy::programs::{self, PathRule, PathUse};

/// Returns how a program uses paths, by its name, arguments and environment.
pub fn path_use(
    program: &[u8],
    argv: &[Vec<u8>],
    environment: &[Vec<u8>],
    base_dirs: &BaseDirs,
) -> PathUse {
    let rule = programs::program(plain_name(program)).map_or(PathRule::Any, |it| it.paths);
    match rule {
        PathRule::Whole => PathUse::Whole,
        PathRule::Compiler => compiler(argv, environment, base_dirs),
        PathRule::Parts if !counts(argv) => PathUse::Parts,
        PathRule::Parts | PathRule::Any => PathUse::Any,
    }
}

/// Whether arguments tell a program to count characters or to select them by position. A script in
/// a file may do so undetected.
fn counts(argv: &[Vec<u8>]) -> bool {
    const WORDS: [&[u8]; 3] = [b"${#", b"length", b"substr"];
    let is_meant = |arg: &Vec<u8>| {
        arg.starts_with(b"-c")
            || (arg.starts_with(b"--c") && !arg.starts_with(b"--colo"))
            || WORDS
                .iter()
                .any(|word| memchr::memmem::find(arg, word).is_some())
            || memchr::memmem::find_iter(arg, b"printf")
                .any(|at| !formats_whole(&arg[at + b"printf".len()..]))
    };
    let is_shell = argv.first().is_some_and(|name| name.ends_with(b"sh"));
    argv.iter()
        .skip(1)
        // The commands are in the next argument.
        .filter(|arg| !(is_shell && *arg == b"-c"))
        .any(is_meant)
}

/// Whether a literal format follows `printf` that prints each string as a whole: without widths,
/// which reveal its length, and precisions, which cut it.
fn formats_whole(rest: &[u8]) -> bool {
    let rest = rest.trim_ascii_start();
    let (Some(&quote @ (b'\'' | b'"')), Some(rest)) = (rest.first(), rest.get(1..)) else {
        return false;
    };
    let mut bytes = rest.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'%' => match bytes.next() {
                Some(b's' | b'b' | b'd' | b'i' | b'u' | b'x' | b'%') => {}
                _ => return false,
            },
            // A different character would be part of the word.
            byte if byte == quote => {
                let next = bytes.next();
                return next.is_none_or(|next| b" \t\n,;)".contains(next));
            }
            b'\\' if quote == b'"' => {
                bytes.next();
            }
            b'$' | b'`' if quote == b'"' => return false,
            _ => {}
        }
    }
    false
}

/// Returns the path use of a compiler. Names of source files in a base directory can become part
/// of a hash that the program computes (of `__FILE__`), unless an option replaces them.
fn compiler(argv: &[Vec<u8>], environment: &[Vec<u8>], base_dirs: &BaseDirs) -> PathUse {
    // Paths become part of check sums there, or are compressed.
    const HIDING: [&[u8]; 10] = [
        b"-flto",
        b"-fprofile",
        b"--coverage",
        b"-coverage",
        b"-ftest-coverage",
        b"-gsplit-dwarf",
        b"-fdebug-types-section",
        b"-fplugin",
        b"-wrapper",
        b"-Xclang",
    ];
    const MAPS: [&[u8]; 2] = [b"-ffile-prefix-map=", b"-fmacro-prefix-map="];
    const DEBUG_MAP: &[u8] = b"-fdebug-prefix-map=";
    const PATHS: [&[u8]; 3] = [b"CPATH=", b"C_INCLUDE_PATH=", b"CPLUS_INCLUDE_PATH="];
    let begins = |arg: &[u8], with: &[&[u8]]| with.iter().any(|with| arg.starts_with(with));
    if argv.iter().any(|arg| begins(arg, &HIDING)) {
        return PathUse::Any;
    }
    let maps = |arg: &Vec<u8>| {
        let mapped = MAPS.iter().find_map(|map| arg.strip_prefix(*map));
        mapped.is_some_and(|mapped| base_dirs.is_mapped(mapped))
    };
    let named = argv.iter().any(|arg| {
        !begins(arg, &MAPS) && !arg.starts_with(DEBUG_MAP) && base_dirs.text(arg).is_some()
    }) || environment
        .iter()
        .any(|entry| begins(entry, &PATHS) && base_dirs.text(entry).is_some());
    if named && !argv.iter().any(maps) {
        PathUse::Any
    } else {
        PathUse::Whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::base_dirs::BaseDir;

    fn check(words: &str, environment: &[&str], expected: PathUse) {
        let base_dirs = BaseDirs::of(vec![BaseDir {
            name: "w".into(),
            path: b"/home/ann/w".to_vec(),
        }]);
        let argv: Vec<Vec<u8>> = words.split(' ').map(|word| word.into()).collect();
        let environment: Vec<Vec<u8>> = environment.iter().map(|entry| (*entry).into()).collect();
        let found = path_use(&argv[0], &argv, &environment, &base_dirs);
        assert_eq!(found, expected, "{words}");
    }

    #[test]
    fn a_compiler_given_a_base_directory_must_map_it() {
        check(
            "/usr/bin/gcc -g -c a.c",
            &["PWD=/home/ann/w"],
            PathUse::Whole,
        );
        check("gcc -c /home/ann/w/a.c", &[], PathUse::Any);
        check("gcc -I/home/ann/w/i -c a.c", &[], PathUse::Any);
        check("gcc -c a.c", &["CPATH=/home/ann/w/i"], PathUse::Any);
        check(
            "gcc -ffile-prefix-map=/home/ann/w=. -c /home/ann/w/a.c",
            &[],
            PathUse::Whole,
        );
        check(
            "gcc -ffile-prefix-map=/home/ann/w/src=. -c /home/ann/w/a.c",
            &[],
            PathUse::Any,
        );
        check(
            "gcc -fdebug-prefix-map=/home/ann/w=. -c a.c",
            &[],
            PathUse::Whole,
        );
        check(
            "gcc -fdebug-prefix-map=/home/ann/w=. -c /home/ann/w/a.c",
            &[],
            PathUse::Any,
        );
        check("gcc -flto -c a.c", &[], PathUse::Any);
    }

    #[test]
    fn a_format_uses_whole_strings_or_their_lengths() {
        for (script, expected) in [
            (
                r#"printf '    %b %b\n' "\033[34m"CC"\033[0m" a.o; cc -c a.c"#,
                true,
            ),
            (r#"printf "%s: 100%%\n" "$PWD""#, true),
            (r#"{ printf("%s\n", $1) }"#, false),
            (r#"{ printf "%s %d\n", $1, 5 }"#, true),
            ("printf '%s'", true),
            ("printf '%5s'", false),
            ("printf '%.3s'", false),
            ("printf '%*s'", false),
            ("printf '%-s'", false),
            ("printf '%c'", false),
            ("printf '%s", false),
            ("printf '%s'$more", false),
            ("printf '%s'\"$more\"", false),
            ("printf \"%s$more\"", false),
            ("printf \"\\$%s\"", true),
            ("printf \"`f`\"", false),
            ("printf \"$format\" a", false),
            ("printf $format a", false),
            ("printf %s a", false),
            ("printf '%s'; printf '%9s'", false),
            ("printf", false),
        ] {
            let argv = [b"sh".to_vec(), b"-c".to_vec(), script.into()];
            assert_eq!(!counts(&argv), expected, "{script}");
        }
    }

    #[test]
    fn an_unknown_program_may_use_paths_in_any_way() {
        check("/opt/x a", &[], PathUse::Any);
        check("python3 a", &[], PathUse::Any);
        check("sh -c x", &[], PathUse::Parts);
        check("x86_64-linux-gnu-ar rc a", &[], PathUse::Whole);
    }

    #[test]
    fn programs_that_count_characters_may_use_paths_in_any_way() {
        for counts in [
            "sh -c echo;echo;${#PWD}",
            "expr length /home/ann/w",
            "awk {print;length}",
            "head -c3",
            "cut --characters=1",
        ] {
            check(counts, &[], PathUse::Any);
        }
        check("sh -c echo", &[], PathUse::Parts);
        check("/bin/bash -c make", &[], PathUse::Parts);
        check("make -C src", &[], PathUse::Parts);
        check("grep --color=never a", &[], PathUse::Parts);
    }
}
