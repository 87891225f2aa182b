//! The table of known programs: one row for each group of programs with the same assumptions.
//!
//! All assumptions about a program by its name come from [`PROGRAMS`]: the policy of its units,
//! its possible uses of given paths (for results in other directories), and the page
//! `docs/assumptions.md`. A row is an assumption about those programs; a program without a row may
//! depend on everything that it could observe.
//!
//! To add a program, add its name to the row whose assumptions hold for it, or add a row. Then add
//! a test to `tests/commands/assumed.rs` that shows a hit, and one for each option that weakens an
//! assumption, and run `cargo xtask docs --write`.

use super::Policy;
use super::arguments::Arguments;
use super::rules;

/// Required location of a program for its row to apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// Any: other programs rarely have that name.
    Anywhere,
    /// A directory of installed programs. A project's own program may be called `test` or `sum`.
    Installed,
}

/// How a program may use a path that it is given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathUse {
    /// It does not change the path, or does not show it (compilers, `cp`).
    #[default]
    Whole,
    /// It may split the path and show some of its components (shells, make, sed).
    Parts,
    /// It may use the path in any way: count its characters, hash it, sort by it.
    Any,
}

/// How [`PathUse`] follows from a program and its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathRule {
    /// [`PathUse::Whole`], for any arguments.
    Whole,
    /// [`PathUse::Parts`], unless the arguments count characters or cut text.
    Parts,
    /// [`PathUse::Whole`] unless a path can become part of a hash that the compiler computes.
    Compiler,
    /// [`PathUse::Any`].
    Any,
}

/// A group of programs with the same assumptions.
#[derive(Debug)]
pub struct Program {
    /// Names without directory, target triple and version. A trailing `*` matches any rest.
    pub names: &'static [&'static str],
    /// Their required location.
    pub location: Location,
    /// Returns their policy for given arguments.
    pub policy: fn(&Arguments<'_>) -> Policy,
    /// Their use of paths.
    pub paths: PathRule,
    /// Whether they query the bounds of their stack at their start, in `/proc/self/maps`, as GNU
    /// tools do that can overflow it.
    pub asks_stack_bounds: bool,
    /// Additional text for the page of assumptions: options that weaken the assumption, and why it
    /// holds.
    pub note: &'static str,
}

impl Program {
    const fn new(
        names: &'static [&'static str],
        location: Location,
        policy: fn(&Arguments<'_>) -> Policy,
    ) -> Self {
        Self {
            names,
            location,
            policy,
            paths: PathRule::Any,
            asks_stack_bounds: false,
            note: "",
        }
    }

    const fn anywhere(
        names: &'static [&'static str],
        policy: fn(&Arguments<'_>) -> Policy,
    ) -> Self {
        Self::new(names, Location::Anywhere, policy)
    }

    const fn installed(
        names: &'static [&'static str],
        policy: fn(&Arguments<'_>) -> Policy,
    ) -> Self {
        Self::new(names, Location::Installed, policy)
    }

    const fn paths(mut self, rule: PathRule) -> Self {
        self.paths = rule;
        self
    }

    const fn asks_stack_bounds(mut self) -> Self {
        self.asks_stack_bounds = true;
        self
    }

    const fn note(mut self, note: &'static str) -> Self {
        self.note = note;
        self
    }

    /// Returns the policy of the first of these programs, without arguments.
    pub(super) fn policy_without_options(&self) -> Policy {
        let name = self
            .names
            .first()
            .map_or("", |name| name.trim_end_matches('*'));
        let argv = [name.as_bytes().to_vec()];
        (self.policy)(&Arguments {
            name: name.as_bytes(),
            argv: &argv,
        })
    }

    /// Whether a name belongs to this row.
    fn has(&self, name: &[u8]) -> bool {
        self.names.iter().any(|own| match own.strip_suffix('*') {
            Some(start) => name.starts_with(start.as_bytes()),
            None => name == own.as_bytes(),
        })
    }
}

/// Returns the row of a program, by its name without directory, target triple and version.
pub fn program(name: &[u8]) -> Option<&'static Program> {
    PROGRAMS.iter().find(|program| program.has(name))
}

/// The table, compilers first.
pub static PROGRAMS: &[Program] = &[
    Program::anywhere(&["gcc", "g++", "cc", "c++", "cpp", "c89", "c99", "cc1", "cc1plus"], rules::gcc)
        .paths(PathRule::Compiler)
        .note(
            "a source that uses `__DATE__`, `__TIME__` or `__TIMESTAMP__` is not cached, as gcc then \
             reads the time zone; with `--build-id=uuid`, randomness counts. Copies of a header \
             with `#pragma once`, of equal content, are assumed to have equal times if they had \
             (gcc takes them for one file only then)",
        ),
    Program::anywhere(&["collect2"], rules::gcc)
        .paths(PathRule::Whole)
        .note("with `--build-id=uuid`, randomness counts"),
    Program::anywhere(&["as", "ld", "ld.bfd"], rules::binutils)
        .paths(PathRule::Whole)
        .note("with `--build-id=uuid`, randomness counts"),
    Program::anywhere(&["ld.gold"], rules::gold).paths(PathRule::Whole),
    Program::anywhere(&["gfortran", "f951"], rules::gold),
    Program::anywhere(&["clang", "clang++"], rules::clang)
        .paths(PathRule::Compiler)
        .note(
            "the kinds of its streams count: clang hands on whether it has a terminal, as an \
             argument that can be embedded",
        ),
    Program::anywhere(&["ld.lld"], rules::clang).paths(PathRule::Whole),
    Program::anywhere(&["lld", "gcc-nm"], rules::unknown).paths(PathRule::Whole),
    Program::anywhere(&["rust-lld", "lto1", "lto-wrapper"], rules::link_time)
        .note("the jobserver counts: lto-wrapper looks for it"),
    Program::anywhere(&["ar", "gcc-ar", "ranlib", "gcc-ranlib"], rules::archiver)
        .paths(PathRule::Whole)
        .note(
            "with `U`, archives have times, and all metadata counts; a file of arguments after the \
             operation (`ar cr lib.a @list`) holds members",
        ),
    Program::anywhere(&["strip", "objcopy"], rules::strip)
        .paths(PathRule::Whole)
        .note("with `-p`, times of files count"),
    Program::anywhere(&["nm"], rules::object_reader).paths(PathRule::Whole),
    Program::anywhere(&["objdump", "readelf"], rules::object_reader),
    Program::anywhere(&["make", "gmake"], rules::make)
        .paths(PathRule::Parts)
        .note(
            "with `-L` or `--check-symlink-times`, times count exactly; the name of its terminal \
             only goes to programs that it starts, whose keys leave it out (`MAKE_TERMOUT`)",
        ),
    Program::anywhere(&["sh", "dash"], rules::sh)
        .paths(PathRule::Parts)
        .note(
            "times of directories count if the script has a `-nt` or `-ot`, inode numbers if it \
             has an `-ef`; of what `ls -di .` shows, autoconf's `configure` keeps nothing",
        ),
    Program::anywhere(&["bash"], rules::bash)
        .paths(PathRule::Parts)
        .note(
            "as `sh`; bash reads the clock and seeds `$RANDOM` when it starts. A script that uses \
             `$RANDOM` is not cached, whether it comes as a file, an argument, a function in the \
             environment or through a pipe (a name that is put together from pieces is not seen)",
        ),
    Program::anywhere(&["cmake"], rules::cmake).note("it makes random names, and randomness counts"),
    Program::anywhere(&["ninja", "cargo"], rules::recording_builder)
        .note("they record times that they saw, and compare them later"),
    Program::anywhere(&["rustc"], rules::rustc)
        .note("procedural macros run in the compiler, and may ask for the date: clocks and randomness count"),
    Program::anywhere(&["python*"], rules::python).note(
        "its locks read the monotonic clock; scripts outside its own library that mention such a \
         clock are not cached. 3.10 to 3.12 read the clock once when they start, to name the time \
         zones of the year; scripts that ask for these names are not cached. It asks twice where \
         each standard stream stands, to know whether that is the start of a file",
    ),
    Program::anywhere(&["gawk"], rules::awk)
        .paths(PathRule::Parts)
        .asks_stack_bounds()
        .note("programs that draw random numbers or tell the time are not cached"),
    Program::anywhere(&["awk", "mawk"], rules::awk)
        .paths(PathRule::Parts)
        .note(
            "mawk seeds itself when it starts; programs that draw random numbers or tell the time \
             are not cached",
        ),
    Program::anywhere(&["conftest"], rules::conftest).note(
        "autoconf compiles it to ask about the machine: it answers with its status, and times and \
         clocks do not matter",
    ),
    Program::anywhere(&["perl"], rules::perl).note(
        "it seeds its hashes and notes the time when it starts; scripts that use `$^T`, `-M`, `-A` \
         or `-C` are not cached",
    ),
    Program::installed(&["sed"], rules::editor)
        .paths(PathRule::Parts)
        .asks_stack_bounds(),
    Program::installed(&["ed", "patch"], rules::editor),
    Program::installed(&["xz", "bzip2", "zstd"], rules::compressor)
        .note("if they put a file beside the one that they read, it gets that one's time: then times count"),
    Program::installed(&["m4", "bison"], rules::tool).asks_stack_bounds(),
    Program::installed(&["size", "strings", "pkg-config", "flex", "yacc", "lex"], rules::tool),
    Program::installed(&["test", "["], rules::test)
        .paths(PathRule::Whole)
        .note(
            "times of directories count with `-nt` or `-ot`, inode numbers with `-ef`; `-N` is not \
             cached",
        ),
    Program::installed(&["mktemp"], rules::mktemp)
        .note("its random name may be used, but not be left anywhere"),
    Program::installed(&["xgettext"], rules::xgettext)
        .note("only with `--omit-header`, as the header has a date"),
    Program::installed(&["chmod", "ln", "mkdir", "rm"], rules::quiet)
        .paths(PathRule::Whole)
        .note("the kind of standard input counts: a terminal may be asked a question"),
    Program::installed(&["mv"], rules::mv)
        .paths(PathRule::Whole)
        .note("with `-u`, modification times count"),
    Program::installed(&["cat"], rules::filter).paths(PathRule::Whole),
    Program::installed(&["grep"], rules::filter)
        .paths(PathRule::Parts)
        .asks_stack_bounds(),
    Program::installed(&["cut", "head", "tail", "tr"], rules::filter).paths(PathRule::Parts),
    Program::installed(&["uniq", "wc"], rules::filter),
    Program::installed(&["cmp"], rules::tool)
        .paths(PathRule::Whole)
        .asks_stack_bounds(),
    Program::installed(&["egrep", "fgrep"], rules::tool)
        .paths(PathRule::Parts)
        .asks_stack_bounds(),
    Program::installed(&["true", "false", "echo", "uname", "env", "tee", "rmdir"], rules::tool)
        .paths(PathRule::Whole),
    Program::installed(&["expr", "basename", "dirname", "xargs"], rules::tool).paths(PathRule::Parts),
    Program::installed(
        &[
            "base64", "cksum", "comm", "expand", "fold", "id", "join", "md5sum", "nl", "nproc",
            "file", "sha224sum", "sha384sum", "sha512sum", "b2sum", "sum", "truncate", "fmt",
            "factor", "numfmt", "csplit", "bc", "dc", "getconf", "getopt", "gettext", "msgfmt",
            "msgmerge", "locale", "nohup", "stdbuf", "tput", "sync", "chgrp", "chown", "od",
            "paste", "printf", "pwd", "readlink", "realpath", "seq", "sha1sum", "sha256sum",
            "split", "tac", "tsort", "unexpand", "unlink", "xzcat", "zcat", "which", "hostname",
            "arch", "tty", "mkfifo",
        ],
        rules::tool,
    )
,
    Program::installed(&["sleep"], rules::sleep)
        .paths(PathRule::Whole)
        .note("it is skipped as part of a larger unit only: a loop that waits for something waits"),
    Program::installed(&["nice"], rules::nice).note("only with arguments"),
    Program::installed(&["flock"], rules::flock).note("it takes a lock, and is not cached"),
    Program::installed(&["sort"], rules::sort)
        .note("with `-R`, also in a key, or `--sort=random`, randomness counts"),
    Program::installed(&["dd"], rules::dd)
        .note("it reads the clock for its statistics: it is cached where nobody reads its standard error"),
    Program::installed(&["diff"], rules::diff)
        .asks_stack_bounds()
        .note("options that show the files' times (`-u`, `-c`, `-p`) make modification times count"),
    Program::installed(&["diff3", "sdiff"], rules::unknown).asks_stack_bounds(),
    Program::installed(&["tar"], rules::tar)
        .note("all metadata counts with `--newer`, `--sparse`, `--listed-incremental`, `--mtime=now` and the like"),
    Program::installed(&["gzip"], rules::gzip)
        .note("times count unless `-n` or `-d` is given and no file is named"),
    Program::installed(&["gunzip"], rules::gunzip),
    Program::installed(&["cp", "install"], rules::copy)
        .paths(PathRule::Whole)
        .note("with `-p`, `-a`, `-u` or a long option, modification times count"),
    Program::installed(&["touch"], rules::touch)
        .paths(PathRule::Whole)
        .note("the clock counts unless a complete date is given; with `-r`, modification times count"),
    Program::installed(&["ls", "dir"], rules::ls)
        .note("times count where they are shown or sorted by; `-u` is not cached"),
    Program::installed(&["find"], rules::find)
        .paths(PathRule::Parts)
        .note(
            "tests and actions that use metadata (`-newer`, `-mtime`, `-ls`, `-printf`) make it \
             count; it notes when it started, which matters only for those. `-links`, and tests \
             of when files were read, are not cached",
        ),
];
