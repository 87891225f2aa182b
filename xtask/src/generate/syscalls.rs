//! `docs/syscalls.md`: what `reprise` does about each syscall, made from what decides it.
//!
//! The columns about recording and replaying come from the recorder itself
//! ([`reprise::record::decisions`]) and the syscall table; what covers a call comes from a
//! file that `cargo xtask corpus --coverage` writes, because finding out takes a run of the
//! corpus.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::ensure;
use ptrace_async::syscall::table;
use reprise::record::decisions::{self, Decision, Recorded};

use super::MARK;
use crate::support::workspace;
use crate::trials::corpus;
use crate::trials::corpus::coverage::Coverage;

const COVERAGE: &str = "ptrace-async/replay/corpus/coverage.json";

/// Makes the page.
///
/// # Errors
/// When the file about the corpus cannot be read, or names what does not exist.
pub(super) fn page() -> anyhow::Result<String> {
    let coverage = Coverage::read(&workspace::root().join(COVERAGE))?;
    check_coverage(&coverage)?;
    page_with(&coverage)
}

/// Checks that the coverage names only syscalls and cases that exist.
fn check_coverage(coverage: &Coverage) -> anyhow::Result<()> {
    let cases: BTreeSet<String> = corpus::names()?.into_iter().collect();
    for (call, covered) in &coverage.0 {
        ensure!(
            table::by_name(call).is_some() || call == "unknown",
            "{COVERAGE}: there is no syscall {call}"
        );
        for case in &covered.named {
            ensure!(
                cases.contains(case),
                "{COVERAGE}: there is no case {case}: run `cargo xtask corpus --coverage {COVERAGE}`"
            );
        }
    }
    Ok(())
}

fn page_with(coverage: &Coverage) -> anyhow::Result<String> {
    let mut page = format!("{MARK}\n{HEAD}");
    let mut counts: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    let mut rows = String::new();
    for spec in table::all() {
        let decision = decisions::decision(spec);
        let covered = coverage.0.get(spec.name);
        let kind = kind(&decision, decisions::is_gone(spec));
        let count = counts.entry(kind).or_default();
        count[0] += 1;
        count[1] += usize::from(covered.is_some());
        let covered = covered.map_or_else(String::new, |covered| {
            let named = covered.named.join(", ");
            match covered.cases - covered.named.len() {
                0 => named,
                more => format!("{named} and {more} more"),
            }
        });
        writeln!(
            rows,
            "| {} | `{}` | {} | {} | {covered} |",
            spec.number,
            spec.name,
            recorded(&decision, decisions::is_gone(spec)),
            decision.replayed.unwrap_or_default(),
        )?;
    }
    writeln!(page, "| | calls | covered by the corpus |\n|---|---|---|")?;
    for (kind, [calls, covered]) in counts {
        writeln!(page, "| {kind} | {calls} | {covered} |")?;
    }
    page.push_str(TABLE);
    page.push_str(&rows);
    Ok(page)
}

const HEAD: &str = "# What `reprise` does about each syscall

This page is made from the syscall table and from the recorder's decisions. Which programs of the
[corpus](../ptrace-async/replay/corpus) cover a call is what their traces say
(`cargo xtask corpus --coverage ptrace-async/replay/corpus/coverage.json`).

- **Logged**: the call stops the program and is performed; its result and the memory that it
  changed go to the trace.
- **In process**: code in the program performs and logs it, without a stop, where its
  arguments and the other threads allow.
- **Answered**: it is not performed; the recorder says what it returns.
- **Refused**: it is not performed and fails with the error that is given, because a replay
  could not know what it does; a recording names such calls at its end.

A replay performs none of them. It gives programs the recorded results and memory, unless
the fourth column says that there is more to it. Beyond the table: calls that write what is
in no memory of the program to the recorder's own output (`sendfile`, `splice`, `tee`,
`copy_file_range`) get EINVAL, and so does `splice` to a file that somebody has mapped;
calls of 32-bit programs and numbers that no kernel has given out get ENOSYS, and files
whose mappings change by themselves are not mapped.

";

const TABLE: &str = "
| number | call | recorded | replayed | covered by |
|---|---|---|---|---|
";

fn kind(decision: &Decision, is_gone: bool) -> &'static str {
    match &decision.recorded {
        _ if is_gone => "not in the kernel any more",
        Recorded::Refused(..) => "refused",
        Recorded::Answered(_) => "answered",
        Recorded::Performed | Recorded::Modified if decision.in_process => "logged in process",
        Recorded::Performed | Recorded::Modified => "logged",
    }
}

fn recorded(decision: &Decision, is_gone: bool) -> String {
    if is_gone {
        return "the kernel answers ENOSYS".to_owned();
    }
    let mut text = words(&decision.recorded);
    if decision.in_process {
        text.push_str(", in process");
    }
    for (outcome, values) in &decision.except {
        let values: Vec<String> = values
            .iter()
            .map(|value| match value.strip_prefix("another ") {
                Some(argument) => format!("any other `{argument}`"),
                None => format!("`{value}`"),
            })
            .collect();
        text = format!("{text}; {}: {}", values.join(", "), words(outcome));
    }
    text
}

fn words(outcome: &Recorded) -> String {
    match outcome {
        Recorded::Performed => "logged".to_owned(),
        Recorded::Modified => "logged, with other arguments".to_owned(),
        Recorded::Answered(what) => format!("answered: {what}"),
        Recorded::Refused(error, reason) => format!("refused with {error}: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_syscall_has_a_row() {
        let page = page_with(&Coverage::default()).unwrap();
        for spec in table::all() {
            assert!(
                page.contains(&format!("| `{}` |", spec.name)),
                "{}",
                spec.name
            );
        }
        assert!(
            page.contains("| `io_uring_setup` | refused with ENOSYS"),
            "{page}"
        );
        assert!(page.contains("| `read` | logged, in process |"), "{page}");
    }
}
