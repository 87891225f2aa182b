//! The syscall table's memory effects, held against the kernel.
//!
//! Each case runs one real syscall in a process of its own. All its buffers lie in an arena
//! that is filled with a pattern, with guard zones around each buffer. Afterwards every
//! changed byte must lie in a range that the table declares. Each case runs with two
//! patterns, so that a byte that the kernel overwrites with the same value is seen in the
//! other run. A third run inverts every byte that the call is not declared to read.

mod arena;
mod cases;
mod child;
mod live;

use std::collections::{BTreeMap, BTreeSet};

use cases::{Case, Expect};
use child::{Report, Tampering, Trouble};
use ptrace_async::syscall::{Return, error_of, table};

/// Errors of a kernel without the feature, of a user without the permission, or of an
/// exhausted resource.
const REFUSALS: [i32; 6] = [
    libc::ENOSYS,
    libc::EPERM,
    libc::EACCES,
    libc::EOPNOTSUPP,
    libc::EMFILE,
    libc::ENOSPC,
];

/// How one case ended.
enum Verdict {
    /// As expected, and within the declared ranges.
    Held(Report),
    /// This kernel, or this user, may not do it.
    Refused(i32),
    /// A violation, or a result that was not expected.
    Failed(String),
}

/// Runs a case with two patterns, and once with all memory inverted that the
/// call is not declared to read: that must not make a difference to it.
fn run(case: &Case) -> Verdict {
    let poisoned = Tampering {
        poison: true,
        ..Tampering::default()
    };
    let mut last = None;
    for (pattern, tampering) in [
        (0x5a, &poisoned),
        (0xa5, &Tampering::default()),
        (0x5a, &Tampering::default()),
    ] {
        let how = if tampering.poison { ", poisoned," } else { "" };
        let report = match child::run_with(case, pattern, tampering) {
            Ok(report) => report,
            Err(Trouble::Setup { error, .. }) if REFUSALS.contains(&error) => {
                return Verdict::Refused(error);
            }
            Err(trouble) => return Verdict::Failed(format!("{}{how}: {trouble}", case.label())),
        };
        let ended = format!("{}{how} = {}", case.label(), report.result);
        if !report.undeclared.is_empty() {
            let bytes = &report.undeclared;
            return Verdict::Failed(format!("{ended}: wrote undeclared bytes {bytes:?}"));
        }
        let error = error_of(report.result);
        let expected = match case.expect {
            Expect::Success => error.is_none(),
            Expect::Error(number) => error == Some(number),
            Expect::Anything => error != Some(libc::ENOSYS),
        };
        if !expected {
            return match error {
                Some(number) if REFUSALS.contains(&number) => Verdict::Refused(number),
                _ => Verdict::Failed(ended),
            };
        }
        last = Some(report);
    }
    last.map_or_else(|| Verdict::Failed("no run".to_owned()), Verdict::Held)
}

#[test]
fn every_byte_that_a_syscall_changes_is_declared() {
    let mut succeeded = BTreeSet::new();
    let mut held = BTreeSet::new();
    let mut refused = BTreeMap::new();
    let mut failures = Vec::new();
    let (mut declared, mut changed) = (0, 0);
    let cases = cases::all();
    for case in &cases {
        assert!(
            table::by_name(case.name).is_some(),
            "{} is no syscall",
            case.name
        );
        match run(case) {
            Verdict::Held(report) => {
                declared += report.declared;
                changed += report.changed;
                held.insert(case.name);
                if error_of(report.result).is_none() {
                    succeeded.insert(case.name);
                }
            }
            Verdict::Refused(error) => {
                refused.insert(case.name, error);
            }
            Verdict::Failed(why) => failures.push(why),
        }
    }
    println!(
        "{} cases: {} syscalls held ({} with success), {changed} bytes changed of {declared} \
         declared; refused here with (errno): {refused:?}; not run: {}",
        cases.len(),
        held.len(),
        succeeded.len(),
        cases::NOT_RUN.len(),
    );
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(
        held.len() + refused.len() >= 250,
        "only {} syscalls have cases",
        held.len()
    );
    assert!(
        succeeded.len() >= 150,
        "only {} syscalls succeeded: {refused:?}",
        succeeded.len()
    );
}

#[test]
fn every_syscall_has_a_case_or_a_reason_for_having_none() {
    let cases: BTreeSet<_> = cases::all().iter().map(|case| case.name).collect();
    let reasons: BTreeMap<_, _> = cases::NOT_RUN.iter().copied().collect();
    for spec in table::all() {
        let named = reasons.contains_key(spec.name);
        let run = cases.contains(spec.name);
        assert!(
            !(named && run),
            "{} has a case and a reason for having none",
            spec.name
        );
        let absent = spec.returns == Return::NoSys || !spec.is_modelled();
        assert!(
            named || run || absent,
            "{} has neither a case nor a reason",
            spec.name
        );
    }
}

#[test]
fn a_wrong_declaration_of_writes_is_caught() {
    // `uname` declared one byte short, and `read` declared to write nothing.
    for (name, shrink_writes) in [("uname", 1), ("read", u64::MAX)] {
        let case = cases::all()
            .into_iter()
            .find(|case| case.name == name)
            .unwrap();
        let tampering = Tampering {
            shrink_writes,
            ..Tampering::default()
        };
        let report = child::run_with(&case, 0xa5, &tampering).unwrap();
        assert!(
            !report.undeclared.is_empty(),
            "{name}: the wrong declaration went unnoticed"
        );
    }
}

#[test]
fn a_wrong_declaration_of_reads_is_caught() {
    let case = cases::all()
        .into_iter()
        .find(|case| case.name == "nanosleep")
        .unwrap();
    let tampering = Tampering {
        poison: true,
        forget_reads: true,
        ..Tampering::default()
    };
    let report = child::run_with(&case, 0xa5, &tampering).unwrap();
    assert_eq!(
        error_of(report.result),
        Some(libc::EINVAL),
        "the poison went unnoticed"
    );
}

#[test]
fn real_programs_show_no_undeclared_write() {
    let script = "for f in /etc/p*; do [ -r $f ] && read line < $f; done; cd /; pwd; trap : USR1; \
                  kill -USR1 $$; /bin/true; /bin/true | /bin/true; exit 3";
    let programs: [(&str, &[&str]); 5] = [
        ("ls", &["-lan", "/", "/proc/self/fd"]),
        ("sh", &["-c", script]),
        ("find", &["/etc", "-maxdepth", "1", "-newer", "/etc/passwd"]),
        ("sort", &["-r", "/etc/passwd"]),
        (
            "perl",
            &[
                "-e",
                "print time, rand; opendir D, '/'; print readdir D; print `true`",
            ],
        ),
    ];
    let (mut calls, mut changed) = (0, 0);
    let mut syscalls = BTreeSet::new();
    for (program, arguments) in programs {
        // A machine need not have every one of them.
        let Some(seen) = live::watch(program, arguments) else {
            continue;
        };
        assert_eq!(seen.undeclared, [""; 0], "{program}");
        assert_eq!(seen.unmodelled, [""; 0], "{program}");
        calls += seen.calls;
        changed += seen.changed;
        syscalls.extend(seen.syscalls.into_keys());
    }
    println!(
        "{calls} calls of {} syscalls changed {changed} bytes",
        syscalls.len()
    );
    assert!(calls > 100, "only {calls} calls were seen");
}
