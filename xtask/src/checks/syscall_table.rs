//! Compares the syscall table with the kernel's own list.
//!
//! The kernel's list is `asm/unistd_64.h` of the installed headers. It may be
//! older than the table, never the other way round: a number that the headers
//! have and the table lacks fails the check, and so does a name that differs.
//! Numbers above those of the headers are held against [`NEWER`].

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use ptrace_async::syscall::{Return, table};

/// Where distributions put the header.
const HEADERS: [&str; 2] = [
    "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    "/usr/include/asm/unistd_64.h",
];

/// Calls that the kernel gained after the oldest headers this check is run
/// with (Linux 6.1), copied from the kernel's documentation of each release.
const NEWER: [(u64, &str); 22] = [
    (335, "uretprobe"),
    (336, "uprobe"),
    (451, "cachestat"),
    (452, "fchmodat2"),
    (453, "map_shadow_stack"),
    (454, "futex_wake"),
    (455, "futex_wait"),
    (456, "futex_requeue"),
    (457, "statmount"),
    (458, "listmount"),
    (459, "lsm_get_self_attr"),
    (460, "lsm_set_self_attr"),
    (461, "lsm_list_modules"),
    (462, "mseal"),
    (463, "setxattrat"),
    (464, "getxattrat"),
    (465, "listxattrat"),
    (466, "removexattrat"),
    (467, "open_tree_attr"),
    (468, "file_getattr"),
    (469, "file_setattr"),
    (470, "listns"),
];

/// Checks the table against the installed kernel headers.
///
/// # Errors
/// When there are no headers, and when the table and the kernel disagree; the
/// error lists every disagreement.
pub(crate) fn check() -> Result<()> {
    let path = HEADERS
        .iter()
        .map(Path::new)
        .find(|path| path.exists())
        .context("no asm/unistd_64.h found: install the Linux headers (linux-libc-dev)")?;
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let kernel = parse(&text);
    if kernel.len() < 300 {
        bail!(
            "{} holds only {} syscalls: is it complete?",
            path.display(),
            kernel.len()
        );
    }
    let differences = compare(&kernel);
    if differences.is_empty() {
        Ok(())
    } else {
        bail!(
            "the syscall table and {} disagree:\n  {}",
            path.display(),
            differences.join("\n  ")
        )
    }
}

/// The `#define __NR_name number` lines of the header.
fn parse(header: &str) -> BTreeMap<u64, String> {
    header
        .lines()
        .filter_map(|line| {
            let mut words = line.strip_prefix("#define __NR_")?.split_whitespace();
            let name = words.next()?.to_owned();
            Some((words.next()?.parse().ok()?, name))
        })
        .collect()
}

/// Every disagreement between the table and the kernel's numbers.
fn compare(kernel: &BTreeMap<u64, String>) -> Vec<String> {
    let mut expected: BTreeMap<u64, &str> = NEWER.into_iter().collect();
    expected.extend(kernel.iter().map(|(&number, name)| (number, name.as_str())));
    let mut differences = Vec::new();
    for (&number, &name) in &expected {
        match table::lookup(number) {
            None => differences.push(format!("{number} {name} is not in the table")),
            Some(spec) if spec.name != name => {
                differences.push(format!("{number} is {name}, the table says {}", spec.name));
            }
            Some(_) => {}
        }
    }
    let mut names = BTreeMap::new();
    for spec in table::all() {
        let number = u64::from(spec.number);
        // The headers keep the names of calls that left the kernel.
        if !expected.contains_key(&number) && spec.returns != Return::NoSys {
            differences.push(format!("{number} {} is unknown to the kernel", spec.name));
        }
        if let Some(other) = names.insert(spec.name, number) {
            differences.push(format!("{} is both {other} and {number}", spec.name));
        }
    }
    for number in 0..=u64::from(table::LAST_NUMBER) {
        let gap = u16::try_from(number).is_ok_and(|n| table::NEVER_ASSIGNED.contains(&n));
        if gap == table::lookup(number).is_some() {
            differences.push(format!(
                "{number} is neither a syscall nor a named gap, or both"
            ));
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_agrees_with_the_installed_headers() {
        check().unwrap();
    }

    #[test]
    fn a_call_that_the_table_lacks_is_reported() {
        let kernel = parse("#define __NR_frobnicate 999\n#define __NR_read 1\n#define X 3\n");
        let differences = compare(&kernel);
        assert!(differences.contains(&"999 frobnicate is not in the table".to_owned()));
        assert!(differences.contains(&"1 is read, the table says write".to_owned()));
    }
}
