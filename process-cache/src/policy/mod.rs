//! Assumptions about programs: how they use time, chance and file times.
//!
//! By default a program may depend on everything that it could observe. The table in
//! [`programs`] lists programs of which more is known, so that compilers are not held to file
//! times that they never look at, and `make` may ask for the time of day. Each row is an
//! assumption about its programs; `--strict` empties the table. The page `docs/assumptions.md` is
//! made from it ([`assumptions`]).

use crate::model::fact::TimeUse;

mod arguments;
pub mod assumptions;
pub mod base_dirs;
pub mod config;
mod names;
pub mod programs;
mod rules;
pub mod script;
mod variables;

pub use names::plain_name;
pub use variables::{ignores_variable, shows_environment, tells_nesting};

use arguments::Arguments;
use names::is_installed;
use programs::{Location, program};
use script::{Scripts, from_input};

/// The assumptions under which a program can be skipped.
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
    pub reads_own_statistics: bool,
    /// It asks once for the bounds of its stack, in `/proc/self/maps`, and is
    /// not told to show that file.
    pub stack: bool,
    /// Clock reads that belong to its start-up: the first ones (of the time of
    /// day, for Python).
    pub clock_reads_at_start: u32,
    /// How often it asks for the position of its standard input, output and error (of each)
    /// when it starts, to know whether that is the start of a file.
    pub seeks_at_start: u8,
    /// It only waits. It is skipped as a part of others only, or loops that wait for
    /// something would not.
    pub waits: bool,
    /// The reason why it is never cached, where its behaviour cannot be recorded.
    pub unknown: Option<&'static str>,
    /// Its scripts are looked through for uses of time and chance that its
    /// system calls do not tell from its own.
    pub scripts: Scripts,
    /// It reads its program from its standard input.
    pub from_input: bool,
    /// It shows or compares inode numbers.
    pub inodes: bool,
    /// Its output is the inode number of the directory it stands in, and no more (`ls -di .`).
    pub shows_own_inode: bool,
    /// It compares the output of such programs below it with each other only (`configure`).
    pub compares_own_inode: bool,
    /// It looks at directories without comparing their times.
    pub ignores_directory_times: bool,
    /// How existing files at its output paths influence it.
    pub outputs: Outputs,
    /// It gives what it makes the permissions of what it opened.
    pub permissions: bool,
    /// It prints a random name (mktemp), which may be used, but not be left anywhere.
    pub names: bool,
    /// It asks for the name of its terminal, to tell programs that it starts, whose keys
    /// leave that out (`MAKE_TERMOUT`).
    pub terminal: bool,
    /// How it depends on what its standard input, output and error are.
    pub streams: Streams,
    /// How makes and shells were called and nested above it is nothing to it (`lto-wrapper` looks
    /// for the jobserver there).
    pub ignores_nesting: bool,
    /// It gives files the times that it is told, and shows none.
    pub sets_given_times: bool,
}

impl Policy {
    /// That of a program of which nothing is known.
    pub const STRICT: Self = Self {
        time: TimeUse::Exact,
        clock: false,
        running_clock: false,
        random: false,
        usage: false,
        reads_own_statistics: false,
        stack: false,
        clock_reads_at_start: 0,
        seeks_at_start: 0,
        waits: false,
        unknown: None,
        scripts: Scripts::Any,
        from_input: false,
        ignores_directory_times: false,
        inodes: false,
        shows_own_inode: false,
        compares_own_inode: false,
        outputs: Outputs::Observed,
        permissions: false,
        names: false,
        terminal: false,
        streams: Streams::Observed,
        ignores_nesting: false,
        sets_given_times: false,
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
            ignores_nesting: true,
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

/// The policy for a program, by the name of its executable (of its interpreter for a script) and
/// its arguments.
pub fn policy(executable: &[u8], argv: &[Vec<u8>], strict: bool) -> Policy {
    let name = plain_name(executable);
    let Some(program) = program(name).filter(|_| !strict) else {
        return Policy::STRICT;
    };
    if program.location == Location::Installed && !is_installed(executable) {
        return Policy::STRICT;
    }
    let shows_own_maps =
        |arg: &Vec<u8>| memchr::memmem::find(arg, b"/proc").is_some() || arg.ends_with(b"maps");
    Policy {
        stack: program.asks_stack_bounds && !argv.iter().skip(1).any(shows_own_maps),
        from_input: from_input(name, argv),
        ..(program.policy)(&Arguments { name, argv })
    }
}

/// How an existing file at an output path influences a program.
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
    fn an_unknown_program_has_the_strict_policy() {
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
