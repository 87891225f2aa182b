//! Which writes go where the recorder's own output goes: a replay prints them again.

use ptrace_async::event::Tid;

use crate::os;

/// The recorder's output.
#[derive(Debug)]
pub(super) struct Stdio {
    own: Tid,
}

impl Stdio {
    pub(super) fn new() -> Self {
        Self {
            own: std::process::id() as Tid,
        }
    }

    /// 1 or 2, when the descriptor of a tracee is that stream, or an equal of it.
    pub(super) fn stream(&self, tid: Tid, fd: u64) -> Option<u8> {
        let fd = fd as u32 as u64;
        // The usual descriptor first: both are often the same terminal.
        let order: [u8; 2] = if fd == 2 { [2, 1] } else { [1, 2] };
        order
            .into_iter()
            .find(|&stream| os::same_file(self.own, u64::from(stream), tid, fd))
    }
}
