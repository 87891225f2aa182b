//! Stack and instruction pointer of a task that does not run: `/proc/TID/syscall` (proc(5)).

use std::path::Path;

use ptrace_async::process::read_proc;

/// A task that waits in the kernel, or is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskPosition {
    /// The stack pointer.
    pub(crate) sp: u64,
    /// The instruction pointer: behind the `syscall` of a call.
    pub(crate) ip: u64,
}

/// Where a task is, given its directory in `/proc`; nothing if it runs or is gone.
pub(crate) fn of(task: &Path) -> Option<TaskPosition> {
    parse(&read_proc(task.join("syscall")).ok()?)
}

fn parse(line: &[u8]) -> Option<TaskPosition> {
    // The call, its arguments, the stack pointer, the instruction pointer; or "running".
    let text = std::str::from_utf8(line).ok()?;
    let mut fields = text.split_whitespace().rev();
    let mut address = || u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok();
    let (ip, sp) = (address()?, address()?);
    Some(TaskPosition { sp, ip })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_task_has_a_position() {
        let waits = b"0 0x3 0x7f00 0x20000 0x22 0xffffffff 0x0 0x7ffc10 0x7f20\n";
        let there = TaskPosition {
            sp: 0x7f_fc10,
            ip: 0x7f20,
        };
        assert_eq!(parse(waits), Some(there));
        let is_stopped = b"-1 0x7ffc10 0x7f20\n";
        assert_eq!(parse(is_stopped), Some(there));
        assert_eq!(parse(b"running\n"), None);
        assert_eq!(parse(b""), None);
    }
}
