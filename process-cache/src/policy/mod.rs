//! Assumptions about programs: their use of time, random numbers and file times.
//!
//! By default a program may depend on everything that it could observe. The table in [`programs`]
//! lists programs about which more is known. For example, the results of compilers do not depend
//! on file times, and `make` may query the time of day. Each row is an assumption about its
//! programs; `--strict` empties the table. The page `docs/assumptions.md` is generated from it
//! ([`assumptions`]).

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
    /// Whether it may read clocks, because this has no effect on results (names of temporary
    /// files, progress, "clock skew" warnings).
    pub clock: bool,
    /// Whether it may read the running clock (`CLOCK_MONOTONIC`, also the coarse one), which does
    /// not reveal the present.
    pub running_clock: bool,
    /// Whether it may request random bytes beyond a hash seed at start-up.
    pub random: bool,
    /// Whether it may query the usage of resources by its process or the machine (usage, load, the
    /// bounds of its stack).
    pub usage: bool,
    /// Whether it reads files about its own usage, and random bytes, for its own use only: it
    /// never shows the contents of a file.
    pub reads_own_statistics: bool,
    /// Whether it queries the bounds of its stack once, in `/proc/self/maps`, and is not told to
    /// show that file.
    pub stack: bool,
    /// Number of clock reads at its start-up: the first ones (of the time of day, for Python).
    pub clock_reads_at_start: u32,
    /// Number of position queries of its standard input, output and error (each) at its start-up,
    /// which detect the start of a file.
    pub seeks_at_start: u8,
    /// Whether it only waits. It is skipped only as a part of other units; otherwise polling loops
    /// would not wait.
    pub waits: bool,
    /// Why it is never cached, if its behaviour cannot be recorded.
    pub unknown: Option<&'static str>,
    /// Which of its scripts are scanned for uses of time and random numbers, if its system calls
    /// do not distinguish these from its own.
    pub scripts: Scripts,
    /// Whether it reads its program from its standard input.
    pub from_input: bool,
    /// Whether it shows or compares inode numbers.
    pub inodes: bool,
    /// Whether its output is only the inode number of its working directory (`ls -di .`).
    pub shows_own_inode: bool,
    /// Whether it only compares the outputs of such programs below it with each other
    /// (`configure`).
    pub compares_own_inode: bool,
    /// Whether it looks at directories without comparing their times.
    pub ignores_directory_times: bool,
    /// How existing files at its output paths influence it.
    pub outputs: Outputs,
    /// Whether its outputs get the permissions of its inputs.
    pub permissions: bool,
    /// Whether it prints a random name (mktemp), which may be used, but must not remain in a
    /// result.
    pub names: bool,
    /// Whether it queries the name of its terminal for programs that it starts, whose keys omit
    /// that (`MAKE_TERMOUT`).
    pub terminal: bool,
    /// How it depends on the kinds of its standard input, output and error.
    pub streams: Streams,
    /// Whether the calls and nesting of makes and shells above it do not count (`lto-wrapper`
    /// looks for the jobserver there).
    pub ignores_nesting: bool,
    /// Whether it sets file times from its arguments, and shows none.
    pub sets_given_times: bool,
    /// Whether it runs code of the project, which may use what it learns of a file to which it
    /// appends.
    pub runs_own_code: bool,
}

impl Policy {
    /// The policy of an unknown program.
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
        runs_own_code: false,
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

    /// The policy of a tool that prints nothing on success, and that checks for a terminal on its
    /// standard input only before it prompts.
    const fn quiet(time: TimeUse) -> Self {
        Self {
            streams: Streams::Written,
            ignores_nesting: true,
            ..Self::tool(time)
        }
    }

    /// The policy of a tool that never prompts.
    const fn compiler(time: TimeUse) -> Self {
        Self {
            streams: Streams::Used,
            ..Self::quiet(time)
        }
    }
}

/// Returns the policy for a program, by the name of its executable (of its interpreter for a
/// script) and its arguments.
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
    /// It may depend on the file.
    Observed,
    /// It does not depend on the file if that is regular with one name, or missing.
    Written,
    /// It removes a regular file first; otherwise as `Written`.
    Removed,
}

/// How a program depends on the kinds of its standard input, output and error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// On all their observable properties.
    Observed,
    /// On its output and error only if it writes there: it queries whether they are terminals, and
    /// how wide, only for that.
    Written,
    /// On its input, too, only if it reads from it.
    Used,
}

/// Whether a request for random bytes is a seed for hash tables or allocators at start-up: glibc's
/// malloc (8 bytes, once), CPython (24 bytes), Rust's std (16 bytes, `GRND_INSECURE`). Such seeds
/// do not affect results of otherwise deterministic programs.
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
