//! `docs/pcache-errors.md`: what each error of a system call means for pcache, from the syscall
//! table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ptrace_async::process::{Watch, watch};
use ptrace_async::syscall::errno;
use ptrace_async::syscall::{Failure, Spec, table};

use super::MARK;

/// The meanings, in the order of the columns.
const COLUMNS: [Failure; 4] = [
    Failure::Fact,
    Failure::Retried,
    Failure::Moment,
    Failure::Resource,
];

/// Makes the page.
///
/// # Errors
/// Never: text is written to a string.
pub(super) fn page() -> anyhow::Result<String> {
    let mut page = format!("{MARK}\n{HEAD}");
    // Calls with the same errors share a row.
    let mut rows: BTreeMap<[String; 4], Vec<&str>> = BTreeMap::new();
    for spec in table::all().filter(|spec| watch(u64::from(spec.number)) != Watch::Never) {
        rows.entry(columns(spec)).or_default().push(spec.name);
    }
    let mut rows: Vec<([String; 4], Vec<&str>)> = rows.into_iter().collect();
    rows.sort_by(|(_, one), (_, two)| one.cmp(two));
    for (columns, calls) in rows {
        writeln!(page, "| {} | {} |", calls.join(", "), columns.join(" | "))?;
    }
    Ok(page)
}

/// Returns the names of a call's errors, by their meaning.
fn columns(spec: &Spec) -> [String; 4] {
    let failures = spec.failures();
    COLUMNS.map(|column| {
        let errors = failures.iter().filter(|(_, failure)| *failure == column);
        let names = errors.map(|(error, _)| errno::name(*error).unwrap_or("?"));
        names.collect::<Vec<&str>>().join(" ")
    })
}

const HEAD: &str = "# Errors of system calls

A failing call may say something about the machine at that moment. pcache then stores neither the
unit nor those above it, whatever its exit status: `pcache why` names the call and its error. This
page is made from the syscall table. It has the calls that pcache watches, and the errors that
their manual pages and the kernel name for them.

- **Fact**: the error follows from what pcache observes: a file that is absent, a missing right.
  The unit is stored.
- **Repeated**: programs repeat the call until it succeeds. The unit is stored.
- **Moment**: another process was in the way. The unit is not stored.
- **Resource**: space, memory, processes or descriptors had run out, or a device failed. The unit is
  not stored.

A fact that nothing explains counts as a failure of the moment: `EEXIST` of a name that is absent,
say, or `EXDEV` of two directories on one mount. `cargo xtask errors` checks the table. It injects
each error of each call once and compares the run after that with a plain one.

An error that the table does not name for a call has the meaning that it has for most calls; one
that it does not know at all belongs to the moment. `open` with `O_WRONLY` and `ENXIO` (a named
pipe that no process reads) belongs to the moment. `fcntl` that only asks for a lock
(`F_GETLK`) counts as a failure if another process holds it, and so does a `write` to a disk that
takes fewer bytes than it was given.

| calls | fact | repeated | moment | resource |
|---|---|---|---|---|
";
