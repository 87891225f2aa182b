//! Generates the page of assumptions from the tables of policies.
//!
//! `cargo xtask docs` writes it to `docs/assumptions.md` and checks that it is fresh. The text
//! about a program follows from its policy without options; the note of its row adds the effects
//! of options.

use std::fmt::Write as _;

use super::programs::{Location, PROGRAMS, PathRule, Program};
use super::script::Scripts;
use super::variables::{IGNORED, IGNORED_BY_SOME};
use super::{Outputs, Policy, Streams};
use crate::model::fact::TimeUse;

/// An assumption about every program, with the reason why it is safe.
struct Universal {
    what: &'static str,
    why: &'static str,
}

/// Assumptions about every program. They hold under `--strict` too.
const UNIVERSAL: &[Universal] = &[
    Universal {
        what: "the first 8 random bytes of glibc's malloc, 24 bytes of CPython, 16 bytes of Rust's std (`GRND_INSECURE`)",
        why: "they seed hash tables",
    },
    Universal {
        what: "process ids",
        why: "a program that writes its own id into a result is skipped all the same",
    },
    Universal {
        what: "when a file was read last",
        why: "reading changes it; `ls -u` and `find -atime` are not cached",
    },
    Universal {
        what: "locks (flock, fcntl)",
        why: "a skipped unit takes no lock and waits for none; the program `flock` is not cached",
    },
    Universal {
        what: "the order in which a directory lists its names, its size and its link count",
        why: "they are the file system's own",
    },
    Universal {
        what: "CPU time, `getrusage`, `times`; free memory, load and uptime in `sysinfo`",
        why: "how a process or the machine is doing is noise",
    },
    Universal {
        what: "`rdtsc`, `rdrand`, `cpuid`",
        why: "instructions cannot be observed; the CPU's features are part of the key",
    },
    Universal {
        what: "reads on descriptors 3 to 5",
        why: "they are not observed; a pipe, terminal or socket inherited there makes a unit \
              uncacheable, and files were observed when they were opened",
    },
    Universal {
        what: "`fstat` of an inherited file that is open for writing only",
        why: "C libraries ask for its kind, which is part of the key",
    },
    Universal {
        what: "the length of an inherited file that is open for writing only, by `lseek` on a \
               descriptor from 3 up",
        why: "it is not observed; an offset that changed without a write makes a unit uncacheable",
    },
    Universal {
        what: "whether an empty standard input is `/dev/null` or a pipe that nobody can write to",
        why: "`make -j` gives either to its children, by chance",
    },
    Universal {
        what: "the position in a file that standard output or standard error goes to",
        why: "only whether it is the start counts, and with `>>` not even that",
    },
];

/// Returns the page as Markdown, without the mark of a generated page.
pub fn page() -> String {
    let mut page = String::from(
        "# Assumptions about programs\n\
         \n\
         By default a unit depends on everything that it could observe. For the programs below, \
         pcache assumes more, so that compilers are not held to file times that they never look \
         at. `--strict` drops the first three tables. Programs are known by their names without \
         directory, target triple and version. Those marked *installed* are known only under \
         `/usr`, `/opt`, `/nix`, `/gnu` or in a directory `bin`, `sbin` or `libexec`: nothing is \
         assumed of a project's own `./test`.\n\
         \n\
         ## Programs\n\
         \n\
         The columns say what counts, if the program is called without options:\n\
         \n\
         - **times**: *none* (file times and inode numbers do not count, nor does \
           the size of a file that is only appended to), *order* (times are only \
           compared with each other), *modified* (modification times count exactly, inode numbers \
           do not), *all* (everything that `stat` shows counts exactly).\n\
         - **clock, chance**: *free* (clocks and randomness only name temporary files), *clock \
           free* (randomness counts), *monotonic* (only the monotonic clock is free), *start* (the \
           first reads belong to the start of the program), *counts*.\n\
         - **process**: *free* (CPU use, load, and statistics of file systems do not count), \
           *files too* (nor do `/proc/self/stat`, `/proc/self/maps`, `/proc/loadavg` and the like, \
           and `/dev/urandom`, which it reads for its own use), *counts*.\n\
         - **streams**: whether the kinds of standard input, output and error (a terminal of any \
           size, a pipe, a file, `/dev/null`) count *always*, only *once used*, or of the outputs \
           only *once written*.\n\
         - **nesting**: whether `MAKEFLAGS`, `MFLAGS`, `MAKELEVEL` and `SHLVL` count.\n\
         \n\
         | programs | times | clock, chance | process | streams | nesting | also |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for (names, cells) in rows() {
        let _ = writeln!(page, "| {names} | {cells} |");
    }
    page.push_str(
        "| all others | all | counts: not cached | counts | always | counts | |\n\
         \n\
         `bash`, `perl`, `python` and `awk` that read their program from a pipe are not cached, \
         nor is the unit that starts them, except through a pipe between a shell and a `bash`, \
         whose contents are searched.\n\
         \n\
         ## Paths\n\
         \n\
         A result is reused in another directory (`--root`) only if the programs of the unit \
         leave paths whole, or in recognizable parts:\n\
         \n\
         | use of paths | programs |\n\
         |---|---|\n",
    );
    for (rule, words) in [
        (PathRule::Whole, "whole, or not shown"),
        (
            PathRule::Compiler,
            "whole, if `-ffile-prefix-map` or relative names keep the directory out of hashes",
        ),
        (
            PathRule::Parts,
            "in parts, unless the arguments count letters or cut text (`${#`, `substr`, `head -c`)",
        ),
    ] {
        let programs = PROGRAMS.iter().filter(|program| program.paths == rule);
        let names: Vec<String> = programs
            .flat_map(|it| it.names)
            .map(|it| quoted(it))
            .collect();
        let _ = writeln!(page, "| {words} | {} |", names.join(", "));
    }
    page.push_str("| unknown: not reused elsewhere if they saw the directory | all others |\n");
    let _ = write!(
        page,
        "\n## Environment variables\n\
         \n\
         | not part of the key | of |\n\
         |---|---|\n\
         | `PCACHE_*`, {} | all programs but `env` and `printenv` |\n\
         | {} | programs above for which nesting is *free* |\n\
         | make's jobserver in `MAKEFLAGS` | all programs |\n\
         \n\
         A unit that contains an `env` or `printenv` that shows the whole environment is not \
         skipped as a whole.\n\
         \n\
         ## Every program\n\
         \n\
         | does not count | reason |\n\
         |---|---|\n",
        list(IGNORED),
        list(IGNORED_BY_SOME),
    );
    for Universal { what, why } in UNIVERSAL {
        let _ = writeln!(page, "| {what} | {why} |");
    }
    page
}

/// Returns the rows of the table of programs: names, and the other cells. Programs with the same
/// text share a row.
fn rows() -> Vec<(String, String)> {
    let mut rows: Vec<(Location, String, Vec<&str>)> = Vec::new();
    for program in PROGRAMS {
        let policy = program.policy_without_options();
        // Such rows only describe the use of paths.
        if policy == Policy::STRICT && program.note.is_empty() {
            continue;
        }
        let cells = cells(program, &policy);
        let same = rows
            .iter_mut()
            .find(|(location, other, _)| (*location, other) == (program.location, &cells));
        match same {
            Some((_, _, names)) => names.extend(program.names),
            None => rows.push((program.location, cells, program.names.to_vec())),
        }
    }
    rows.into_iter()
        .map(|(location, cells, names)| {
            let installed = match location {
                Location::Anywhere => "",
                Location::Installed => " (*installed*)",
            };
            (list(&names) + installed, cells)
        })
        .collect()
}

/// Returns the cells of a program's row, without its name.
fn cells(program: &Program, policy: &Policy) -> String {
    let times = match policy.time {
        TimeUse::None => "none",
        TimeUse::Order => "order",
        TimeUse::Modified => "modified",
        TimeUse::Exact => "all",
    };
    let clock = match (policy.clock, policy.random) {
        (true, true) => "free",
        (true, false) => "clock free",
        _ if policy.running_clock && policy.clock_reads_at_start > 0 => "monotonic, start",
        _ if policy.running_clock => "monotonic",
        _ if policy.clock_reads_at_start > 0 => "start",
        _ => "counts",
    };
    let process = match (policy.usage, policy.reads_own_statistics) {
        (_, true) => "files too",
        (true, false) => "free",
        (false, false) => "counts",
    };
    let streams = match policy.streams {
        Streams::Observed => "always",
        Streams::Written => "outputs once written",
        Streams::Used => "once used",
    };
    let nesting = if policy.ignores_nesting {
        "free"
    } else {
        "counts"
    };
    let notes: Vec<&str> = [
        (
            policy.outputs != Outputs::Observed,
            "an existing plain file at an output path does not count",
        ),
        (
            policy.ignores_directory_times,
            "times of directories do not count",
        ),
        (
            policy.permissions,
            "permissions of inputs count, as outputs get them",
        ),
        (
            policy.scripts != Scripts::Any,
            "its scripts are searched for uses of time and chance",
        ),
        (
            program.asks_stack_bounds,
            "it may ask once for the bounds of its stack (`/proc/self/maps`)",
        ),
        (!program.note.is_empty(), program.note),
    ]
    .into_iter()
    .filter_map(|(holds, text)| holds.then_some(text))
    .collect();
    format!(
        "{times} | {clock} | {process} | {streams} | {nesting} | {}",
        notes.join("; ")
    )
}

fn quoted(name: &str) -> String {
    format!("`{name}`")
}

fn list(names: &[&str]) -> String {
    names
        .iter()
        .map(|name| quoted(name))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_every_program_of_the_table() {
        let page = page();
        for name in PROGRAMS.iter().flat_map(|program| program.names) {
            // For some programs, the only assumption is that they query the bounds of their stack.
            if !["diff3", "sdiff"].contains(name) {
                assert!(page.contains(&quoted(name)), "{name}");
            }
        }
    }
}
