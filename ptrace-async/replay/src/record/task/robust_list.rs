//! Robust futexes: locks whose holder may die.
//!
//! When a task ends, the kernel walks a list that the task keeps, and marks the locks that it
//! still holds (`exit_robust_list` in kernel/futex/core.c). This module walks the list in the
//! same way right before, to record the writes.

use ptrace_async::memory::Memory;
use ptrace_async::runtime::{PreExit, Tracee};

use crate::platform::os;
use crate::trace::event::Write;

/// As many entries as the kernel looks at.
const LIMIT: usize = 2048;

/// Collects the writes of the kernel at the end of a task.
pub(in crate::record) fn died(tracee: &Tracee<PreExit>, writes: &mut Vec<Write>) {
    let Some(head) = os::robust_list(tracee.tid()) else {
        return;
    };
    // struct robust_list_head: the first entry, where an entry's futex is, and the entry
    // that is being put in or taken out.
    let word = |address: u64| tracee.read_u64(address).ok();
    let (Some(first), Some(offset), Some(pending)) = (
        word(head),
        word(head.wrapping_add(8)),
        word(head.wrapping_add(16)),
    ) else {
        return;
    };
    // The lowest bit says that it has priority inheritance.
    let entry = |link: u64| link & !1;
    let mut at = entry(first);
    for _ in 0..LIMIT {
        if at == head {
            break;
        }
        let next = word(at);
        if at != entry(pending) {
            mark(tracee, at.wrapping_add(offset), writes);
        }
        let Some(next) = next else { break };
        at = entry(next);
    }
    if entry(pending) != 0 {
        mark(tracee, entry(pending).wrapping_add(offset), writes);
    }
}

fn mark(tracee: &Tracee<PreExit>, address: u64, writes: &mut Vec<Write>) {
    let Ok(word) = tracee.read_value::<u32>(address) else {
        return;
    };
    if word & libc::FUTEX_TID_MASK == tracee.tid().cast_unsigned() {
        let word = word & libc::FUTEX_WAITERS | libc::FUTEX_OWNER_DIED;
        writes.push(Write {
            address,
            bytes: word.to_le_bytes().to_vec(),
        });
    }
}
