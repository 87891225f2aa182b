//! Writes to the recorder's own output streams, which a replay prints again.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use ptrace_async::event::Tid;
use ptrace_async::syscall::Invocation;
use rustix::event::{PollFd, PollFlags};

use crate::platform::os;

/// The recorder's output.
#[derive(Debug)]
pub(super) struct Stdio {
    own: Tid,
    /// Device and inode of its two streams.
    files: [Option<(u64, u64)>; 2],
}

/// The open files there.
fn file(path: &str) -> Option<(u64, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    // /dev/null is shared by everything, and never output.
    if metadata.rdev() == libc::makedev(1, 3) {
        return None;
    }
    Some((metadata.dev(), metadata.ino()))
}

impl Stdio {
    pub(super) fn new() -> Self {
        Self {
            own: std::process::id() as Tid,
            files: [file("/proc/self/fd/1"), file("/proc/self/fd/2")],
        }
    }

    /// Whether a stream accepts the data of a call at once, as far as that is known.
    pub(super) fn takes(&self, stream: u8, call: &Invocation) -> bool {
        /// Bytes that a ready pipe accepts at once (`PIPE_BUF` of pipe(7)).
        const PIECE: u64 = 4096;
        let (out, error) = (std::io::stdout(), std::io::stderr());
        let own = if stream == 1 {
            out.as_fd()
        } else {
            error.as_fd()
        };
        let writes = call.nr == libc::SYS_write as u64 && call.args[2] <= PIECE;
        let is_file = || {
            rustix::fs::fstat(own)
                .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file())
        };
        let is_ready = || {
            let mut polled = [PollFd::new(&own, PollFlags::OUT)];
            let now = rustix::time::Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            rustix::event::poll(&mut polled, Some(&now)) == Ok(1)
        };
        (writes || is_file()) && is_ready()
    }

    /// 1 or 2, when the descriptor of a tracee is that stream, or an equal of it.
    pub(super) fn stream(&self, tid: Tid, fd: u64) -> Option<u8> {
        let fd = fd as u32 as u64;
        // The usual descriptor first: both are often the same terminal.
        let order: [u8; 2] = if fd == 2 { [2, 1] } else { [1, 2] };
        let is_same = |stream: &u8| os::same_file(self.own, u64::from(*stream), tid, fd);
        if let Some(stream) = order.into_iter().find(is_same) {
            return Some(stream);
        }
        // Opened once more, as /dev/stderr or by the terminal's name.
        let file = file(&format!("/proc/{tid}/fd/{fd}"))?;
        order
            .into_iter()
            .find(|&stream| self.files[usize::from(stream) - 1] == Some(file))
    }
}
