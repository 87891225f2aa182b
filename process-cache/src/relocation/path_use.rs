//! What is known of programs and the paths they are given.
//!
//! Each entry is an assumption about that program, as those in [`crate::policy`] are.

use crate::policy::plain_name;
use crate::relocation::Roots;

/// What a program may do with a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Manner {
    /// It leaves it as it is, or not at all (compilers, `cp`).
    #[default]
    Whole,
    /// It may take it apart and leave some of its components (shells, make, sed).
    Parts,
    /// Anything: count its letters, hash it, sort by it.
    Any,
}

/// The manner of a program, by its name, arguments and environment.
pub fn manner(program: &[u8], argv: &[Vec<u8>], environment: &[Vec<u8>], roots: &Roots) -> Manner {
    match plain_name(program) {
        b"gcc" | b"g++" | b"cc" | b"c++" | b"c89" | b"c99" | b"cpp" | b"cc1" | b"cc1plus"
        | b"clang" | b"clang++" => compiler(argv, environment, roots),
        b"collect2" | b"as" | b"ld" | b"ld.bfd" | b"ld.gold" | b"ld.lld" | b"lld" | b"ar"
        | b"ranlib" | b"gcc-ar" | b"gcc-ranlib" | b"nm" | b"gcc-nm" | b"objcopy" | b"strip"
        | b"install" | b"cp" | b"mv" | b"ln" | b"rm" | b"mkdir" | b"rmdir" | b"touch"
        | b"chmod" | b"cat" | b"true" | b"false" | b"echo" | b"test" | b"[" | b"uname"
        | b"sleep" | b"cmp" | b"env" | b"tee" => Manner::Whole,
        _ if counts(argv) => Manner::Any,
        b"sh" | b"dash" | b"bash" | b"make" | b"gmake" | b"sed" | b"awk" | b"gawk" | b"mawk"
        | b"expr" | b"basename" | b"dirname" | b"cut" | b"tr" | b"grep" | b"egrep" | b"fgrep"
        | b"head" | b"tail" | b"find" | b"xargs" => Manner::Parts,
        _ => Manner::Any,
    }
}

/// Whether a program is told to count letters, or to take some by their number, as far as
/// that is seen in its arguments. (A script in a file may do so unseen.)
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
        // Its commands follow.
        .filter(|arg| !(is_shell && *arg == b"-c"))
        .any(is_meant)
}

/// Whether what follows `printf` is a format that is written there, and of which each text is
/// put in as a whole: without widths, which show how long it is, and precisions, which cut it.
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
            // Nothing else is part of it.
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

/// A compiler's. Names of files that it is given with a root can end up in a hash that the
/// program itself computes (of `__FILE__`), unless the compiler is told to replace them.
fn compiler(argv: &[Vec<u8>], environment: &[Vec<u8>], roots: &Roots) -> Manner {
    // Paths go into check sums there, or are packed.
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
        return Manner::Any;
    }
    let maps = |arg: &Vec<u8>| {
        let mapped = MAPS.iter().find_map(|map| arg.strip_prefix(*map));
        mapped.is_some_and(|mapped| roots.is_mapped(mapped))
    };
    let named = argv
        .iter()
        .any(|arg| !begins(arg, &MAPS) && !arg.starts_with(DEBUG_MAP) && roots.text(arg).is_some())
        || environment
            .iter()
            .any(|entry| begins(entry, &PATHS) && roots.text(entry).is_some());
    if named && !argv.iter().any(maps) {
        Manner::Any
    } else {
        Manner::Whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relocation::Root;

    fn check(words: &str, environment: &[&str], expected: Manner) {
        let roots = Roots::of(vec![Root {
            name: "w".into(),
            path: b"/home/ann/w".to_vec(),
        }]);
        let argv: Vec<Vec<u8>> = words.split(' ').map(|word| word.into()).collect();
        let environment: Vec<Vec<u8>> = environment.iter().map(|entry| (*entry).into()).collect();
        let found = manner(&argv[0], &argv, &environment, &roots);
        assert_eq!(found, expected, "{words}");
    }

    #[test]
    fn a_compiler_that_is_given_a_root_has_to_replace_it() {
        check(
            "/usr/bin/gcc -g -c a.c",
            &["PWD=/home/ann/w"],
            Manner::Whole,
        );
        check("gcc -c /home/ann/w/a.c", &[], Manner::Any);
        check("gcc -I/home/ann/w/i -c a.c", &[], Manner::Any);
        check("gcc -c a.c", &["CPATH=/home/ann/w/i"], Manner::Any);
        check(
            "gcc -ffile-prefix-map=/home/ann/w=. -c /home/ann/w/a.c",
            &[],
            Manner::Whole,
        );
        check(
            "gcc -ffile-prefix-map=/home/ann/w/src=. -c /home/ann/w/a.c",
            &[],
            Manner::Any,
        );
        check(
            "gcc -fdebug-prefix-map=/home/ann/w=. -c a.c",
            &[],
            Manner::Whole,
        );
        check(
            "gcc -fdebug-prefix-map=/home/ann/w=. -c /home/ann/w/a.c",
            &[],
            Manner::Any,
        );
        check("gcc -flto -c a.c", &[], Manner::Any);
    }

    #[test]
    fn a_format_takes_texts_as_wholes_or_measures_them() {
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
    fn nobody_knows_what_an_unknown_program_does() {
        check("/opt/x a", &[], Manner::Any);
        check("python3 a", &[], Manner::Any);
        check("sh -c x", &[], Manner::Parts);
        check("x86_64-linux-gnu-ar rc a", &[], Manner::Whole);
    }

    #[test]
    fn whoever_counts_letters_is_unknown() {
        for counts in [
            "sh -c echo;echo;${#PWD}",
            "expr length /home/ann/w",
            "awk {print;length}",
            "head -c3",
            "cut --characters=1",
        ] {
            check(counts, &[], Manner::Any);
        }
        check("sh -c echo", &[], Manner::Parts);
        check("/bin/bash -c make", &[], Manner::Parts);
        check("make -C src", &[], Manner::Parts);
        check("grep --color=never a", &[], Manner::Parts);
    }
}
