//! `docs/pcache-costs.md`: what pcache costs programs that do one thing often.
//!
//! `cargo xtask cliffs --json benches/cliffs.json` measures it. The reasons of the calls above
//! the goal stand here.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::MARK;
use crate::measure::cliffs::results::{
    CallCost, CommandCost, MOST_MORE, MOST_START, MOST_TIMES, Results,
};
use crate::measure::cliffs::{Reason, left_out};
use crate::support::median::median;
use crate::support::workspace;

const RESULTS: &str = "benches/cliffs.json";

/// Rows of the table of calls that are made seldom.
const SELDOM: usize = 40;

/// Why a loop is above the goal: by the beginning of its name, the first that fits.
const WHY_CALLS: &[(&str, &str)] = &[
    ("read: a byte of standard input", INPUT),
    ("lseek: standard input", ASKED),
    ("read", WAITS),
    ("write", WAITS),
    ("readv", NOT_LOGGED),
    ("pread64", NOT_LOGGED),
    ("openat, getdents64", ASKED),
    ("openat, fstat, read", WAITS),
    ("openat, close: a file to write", CHANGES),
    ("openat, write", CHANGES),
    ("openat", CLOSES),
    ("close_range", NOT_LOGGED),
    ("close", CLOSES),
    ("dup", CLOSES),
    ("pipe2", CLOSES),
    ("fcntl: F_DUPFD", CLOSES),
    ("fcntl", NOT_LOGGED),
    ("creat", CHANGES),
    ("mkdir", CHANGES),
    ("rename", CHANGES),
    ("unlink", CHANGES),
    ("link", CHANGES),
    ("symlink", CHANGES),
    ("chmod", CHANGES),
    ("chown", CHANGES),
    ("utimensat", CHANGES),
    ("ftruncate", CHANGES),
    (
        "chdir",
        "later paths depend on it, so its result is awaited",
    ),
    ("umask", NOT_LOGGED),
    ("ioctl", ASKED),
    (
        "mmap, munmap: a file, shared",
        "others may change what is mapped",
    ),
    ("poll", "the tracer looks at what is awaited"),
    ("select", "the tracer looks at what is awaited"),
    ("epoll_ctl", "the tracer notes what is awaited"),
    ("sendto", SOCKET),
    ("sendmsg", SOCKET),
    ("socket", SOCKET),
    ("request and answer", SOCKET),
    ("hand-off between processes", ORDER),
    ("hand-off between threads: a pipe", WAITS),
    ("fork", TASK),
    ("thread", TASK),
    ("start of", "a program: its key, a lookup, its result"),
    ("execve", "the program is looked up before it runs"),
    ("tgkill", SIGNAL),
    ("kill", SIGNAL),
    (
        "sched_getaffinity",
        "the answer hides where the tracer keeps the task",
    ),
    ("stat", ASKED),
    ("lstat", ASKED),
    ("fstatat", ASKED),
    ("statx", ASKED),
    ("statfs", ASKED),
    ("access", ASKED),
    ("faccessat", ASKED),
    ("readlink", ASKED),
];

const INPUT: &str = "another thread may replace the descriptor, so each read stops";
const WAITS: &str = "it may wait, and with a second thread it would hold the log meanwhile";
const CLOSES: &str = "another thread may get the descriptor before the log is read";
const CHANGES: &str = "what is there is looked at before it changes";
const NOT_LOGGED: &str = "not logged in the process: it stops";
const SOCKET: &str = "sockets lead outside: each call stops";
const ORDER: &str = "output has an order among processes: a stop on each side";
const TASK: &str = "the tracer meets the new task";
const SIGNAL: &str = "a signal may reach others";
const ASKED: &str = "logged; the tracer asks the same question once more";

/// The same for commands.
const WHY_COMMANDS: &[(&str, &str)] = &[
    ("touch", CHANGES),
    ("chmod", CHANGES),
    ("chown", CHANGES),
    ("rm", CHANGES),
    ("mkdir", CHANGES),
    ("mv", CHANGES),
    ("ln", CHANGES),
    ("cp", CHANGES),
    ("tar -x", CHANGES),
    ("split", CHANGES),
    ("sed -i", CHANGES),
    ("sqlite3", CHANGES),
    ("python: sqlite3", CHANGES),
    ("python: open, write", CHANGES),
    ("python: tempfile", CHANGES),
    ("git clone", CHANGES),
    ("git add", CHANGES),
    ("bash: here strings", CHANGES),
    ("sh: append lines", CHANGES),
    ("mktemp", UNITS),
    ("100 starts", UNITS),
    ("xargs", UNITS),
    ("find -exec", UNITS),
    ("awk system", UNITS),
    ("sh: pipelines", UNITS),
    ("sh: command substitution", UNITS),
    ("bash: command substitution", UNITS),
    ("python: subprocess", UNITS),
    ("ps", "files of /proc, which stop"),
    ("du", FACTS),
    ("find", FACTS),
    ("ls", FACTS),
    ("diff", FACTS),
    ("tar -c", FACTS),
    ("cksum", FACTS),
    ("md5sum", FACTS),
    ("grep", FACTS),
    ("head", FACTS),
    ("git", FACTS),
    ("sh: test of files", FACTS),
    ("bash: tests of files", FACTS),
    ("python: os.stat", FACTS),
    ("python: os.walk", FACTS),
    ("python: stat in two threads", FACTS),
    ("perl: -e", FACTS),
];

const UNITS: &str = "0.2 ms for each program, and the start of pcache";
const FACTS: &str = "each file is a condition, applied in 1 µs and stored";

/// Makes the page.
///
/// # Errors
///
/// When the results cannot be read.
pub(super) fn page() -> anyhow::Result<String> {
    let path = workspace::root().join(RESULTS);
    let results = match path.exists() {
        true => Some(Results::read(&path)?),
        false => None,
    };
    page_with(results.as_ref())
}

fn page_with(results: Option<&Results>) -> anyhow::Result<String> {
    let mut page = format!("{MARK}\n{HEAD}");
    let Some(results) = results else {
        writeln!(page, "No measurements are kept in `{RESULTS}` yet.\n")?;
        left_out_table(&mut page)?;
        return Ok(page);
    };
    let machine = &results.machine;
    writeln!(
        page,
        "Measured on {}: {} processors ({}), Linux {}, commit {}, up to {} rounds.\n",
        results.date,
        machine.processors,
        machine.processor.trim(),
        machine.kernel,
        machine.commit,
        results.rounds
    )?;
    calls(&mut page, &results.calls)?;
    commands(&mut page, &results.commands)?;
    if !results.absent.is_empty() {
        page.push_str("## Not measured on that machine\n\n");
        for (name, why) in &results.absent {
            writeln!(page, "- {name}: {}", why.lines().next().unwrap_or_default())?;
        }
        page.push('\n');
    }
    left_out_table(&mut page)?;
    Ok(page)
}

const HEAD: &str = "# pcache: the cost of each call

`cargo xtask cliffs` measures what a first run under `pcache` costs programs that do one thing
often. It makes each call of the syscall table in a loop, in a process with one thread and in one
with a second thread that waits, and runs common commands and programs of some ecosystems. Plain
runs and runs under a `pcache` whose store has only seen `true` take turns.

The files of the commands lie in a tmpfs, where plain changes of files take a few µs; on a disk the
factors of commands that change files are far smaller.

There are two goals. A call that programs make often takes at most a microsecond more than plainly.
A command takes at most 1.3 times its plain time and 5 ms. Nothing fails where a goal is missed:
this page says which ones are, and why.

```sh
cargo xtask cliffs --json benches/cliffs.json    # about ten minutes
cargo xtask docs --write                         # makes this page
cargo xtask cliffs --only stat --calls           # a part, on the terminal
```

[How interception works](interception.md) explains stops, unstopped calls and patched sites.

";

fn calls(page: &mut String, calls: &[CallCost]) -> anyhow::Result<()> {
    let mut rows: BTreeMap<&str, [Option<&CallCost>; 2]> = BTreeMap::new();
    for call in calls {
        rows.entry(&call.name).or_default()[usize::from(call.threads)] = Some(call);
    }
    let mut rows: Vec<_> = rows.into_values().collect();
    let worst = |row: &[Option<&CallCost>; 2]| {
        let costs = row.iter().flatten().map(|call| call.more());
        costs.fold(f64::MIN, f64::max)
    };
    rows.sort_by(|a, b| worst(b).total_cmp(&worst(a)));
    let (often, seldom): (Vec<_>, Vec<_>) = rows
        .into_iter()
        .partition(|row| row.iter().flatten().any(|call| call.often));
    let (above, below): (Vec<_>, Vec<_>) = often
        .into_iter()
        .partition(|row| row.iter().flatten().any(|call| call.is_above()));
    writeln!(
        page,
        "## Calls that programs make often\n\n{} of {} loops are above the goal of {MOST_MORE} ns. \
         Numbers are nanoseconds for each call of a loop: plainly, and how many more under `pcache`, \
         with one thread and with two.\n",
        above.len(),
        above.len() + below.len()
    )?;
    if !above.is_empty() {
        page.push_str("### Above the goal\n\n| calls | plain | one thread | two | reason |\n|---|---|---|---|---|\n");
        for row in &above {
            let name = name(row);
            writeln!(page, "{} {} |", cells(row), why(WHY_CALLS, name))?;
        }
        page.push_str("\n### Within the goal\n\n");
    }
    page.push_str(COLUMNS);
    for row in &below {
        writeln!(page, "{}", cells(row))?;
    }
    writeln!(
        page,
        "\n## Other calls\n\nThe {SELDOM} most expensive of the {} other loops. Most of them stop, \
         because few programs make them.\n\n{COLUMNS}",
        seldom.len()
    )?;
    // The heading of the table ends with a line of its own.
    page.truncate(page.trim_end().len());
    page.push('\n');
    for row in seldom.iter().take(SELDOM) {
        writeln!(page, "{}", cells(row))?;
    }
    page.push('\n');
    Ok(())
}

const COLUMNS: &str = "| calls | plain | one thread | two |\n|---|---|---|---|\n";

fn name<'a>(row: &[Option<&'a CallCost>; 2]) -> &'a str {
    row.iter().flatten().next().map_or("", |call| &call.name)
}

fn cells(row: &[Option<&CallCost>; 2]) -> String {
    let plain = row.iter().flatten().next();
    let plain = plain.map_or(0.0, |call| median(call.plain.clone()));
    let more = |call: Option<&CallCost>| match call {
        Some(call) => format!("{:+.0}", call.more()),
        None => String::new(),
    };
    format!(
        "| {} | {plain:.0} | {} | {} |",
        name(row),
        more(row[0]),
        more(row[1])
    )
}

fn why(reasons: &[(&str, &'static str)], name: &str) -> &'static str {
    let mut reasons = reasons.iter();
    reasons
        .find(|(beginning, _)| name.starts_with(beginning))
        .map_or("", |(_, why)| why)
}

fn commands(page: &mut String, commands: &[CommandCost]) -> anyhow::Result<()> {
    let above = commands.iter().filter(|one| one.is_above()).count();
    writeln!(
        page,
        "## Commands and programs\n\n{above} of {} are above the goal of {MOST_TIMES}x and {MOST_START} s. \
         Times are medians of wall time, and the factors are of wall time and of CPU time.\n",
        commands.len()
    )?;
    for (heading, ecosystem) in [("Common commands", false), ("Programs of ecosystems", true)] {
        writeln!(
            page,
            "### {heading}\n\n| command | plain | under pcache | CPU time | above the goal |\n|---|---|---|---|---|"
        )?;
        for one in commands.iter().filter(|one| one.ecosystem == ecosystem) {
            let above = match one.is_above() {
                true => match why(WHY_COMMANDS, &one.name) {
                    "" => "stops, and the start of pcache",
                    why => why,
                },
                false => "",
            };
            writeln!(
                page,
                "| {} | {:.3} s | {:.2}x | {:.2}x | {above} |",
                one.name,
                median(one.plain.clone()),
                one.ratio(),
                median(one.pcache_cpu.clone()) / median(one.plain_cpu.clone()),
            )?;
        }
        page.push('\n');
    }
    Ok(())
}

fn left_out_table(page: &mut String) -> anyhow::Result<()> {
    let mut reasons: BTreeMap<Reason, Vec<&str>> = BTreeMap::new();
    for (call, reason) in left_out() {
        reasons.entry(*reason).or_default().push(call);
    }
    page.push_str("## Calls without a loop\n\n");
    for (reason, calls) in reasons {
        writeln!(page, "- {}: {}.", reason.words(), calls.join(", "))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::machine::Machine;

    fn call(name: &str, often: bool, threads: bool, pcache: f64) -> CallCost {
        CallCost {
            name: name.into(),
            often,
            threads,
            calls: 1,
            errors: Vec::new(),
            differs: false,
            plain: vec![100.0],
            pcache: vec![pcache],
        }
    }

    #[test]
    fn a_call_above_the_goal_with_threads_only_is_in_the_first_table() {
        let results = Results {
            date: "2026-01-02".into(),
            machine: Machine {
                processor: "P".into(),
                processors: 2,
                kernel: "6.1".into(),
                commit: "abc".into(),
            },
            rounds: 1,
            calls: vec![
                call("read", true, false, 200.0),
                call("read", true, true, 5100.0),
                call("stat", true, false, 700.0),
                call("mount", false, false, 9100.0),
            ],
            commands: Vec::new(),
            absent: Vec::new(),
        };
        let page = page_with(Some(&results)).unwrap();
        let (above, rest) = page.split_once("### Within the goal").unwrap();
        assert!(above.contains("| read | 100 | +100 | +5000 |"), "{page}");
        assert!(rest.contains("| stat | 100 | +600 |  |"), "{page}");
        assert!(rest.contains("| mount | 100 | +9000 |  |"), "{page}");
        assert!(page_with(None).unwrap().contains("No measurements"));
    }
}
