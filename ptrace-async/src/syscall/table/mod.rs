//! The rows of the syscall table, in groups, and their index by number.
//!
//! The table holds every call of the x86-64 table of Linux up to
//! [`LAST_NUMBER`]; numbers that the kernel never gave out are in
//! [`NEVER_ASSIGNED`]. Both are checked while compiling: a number that occurs
//! twice, or that is neither in the table nor named as a gap, is a build error.

mod events;
mod files;
mod ipc;
mod memory;
mod network;
mod paths;
mod prelude;
mod process;
mod signals;
mod system;
mod time;

use std::ops::RangeInclusive;

use super::model::Spec;

/// The highest number in the table (`listns`, Linux 6.19).
pub const LAST_NUMBER: u16 = 470;

/// Numbers below [`LAST_NUMBER`] that no x86-64 kernel has used: the table was
/// joined with those of the other architectures at 424.
pub const NEVER_ASSIGNED: RangeInclusive<u16> = 337..=423;

const GROUPS: [&[Spec]; 10] = [
    files::CALLS,
    paths::CALLS,
    memory::CALLS,
    process::CALLS,
    signals::CALLS,
    time::CALLS,
    network::CALLS,
    ipc::CALLS,
    events::CALLS,
    system::CALLS,
];

static INDEX: [Option<&Spec>; LAST_NUMBER as usize + 1] = index();

/// Sorts the groups into an array by number.
const fn index() -> [Option<&'static Spec>; LAST_NUMBER as usize + 1] {
    let mut index: [Option<&'static Spec>; LAST_NUMBER as usize + 1] =
        [None; LAST_NUMBER as usize + 1];
    let mut group = 0;
    while group < GROUPS.len() {
        let mut row = 0;
        while row < GROUPS[group].len() {
            let spec = &GROUPS[group][row];
            assert!(
                index[spec.number as usize].is_none(),
                "a number occurs twice"
            );
            index[spec.number as usize] = Some(spec);
            row += 1;
        }
        group += 1;
    }
    let mut number = 0;
    while number < index.len() {
        let gap =
            number >= *NEVER_ASSIGNED.start() as usize && number <= *NEVER_ASSIGNED.end() as usize;
        assert!(
            index[number].is_some() != gap,
            "a number is missing, or is no gap"
        );
        number += 1;
    }
    index
}

/// The row of a number; `None` for numbers that the table does not know.
#[must_use]
pub fn lookup(number: u64) -> Option<&'static Spec> {
    INDEX.get(usize::try_from(number).ok()?).copied().flatten()
}

/// All rows, by number.
pub fn all() -> impl Iterator<Item = &'static Spec> {
    INDEX.iter().copied().flatten()
}

/// The row of a name. Searches the table: for set-up, not for each call.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Spec> {
    all().find(|spec| spec.name == name)
}
