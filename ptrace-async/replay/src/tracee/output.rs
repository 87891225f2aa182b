//! Bytes that a call printed, read from the memory of its program when it returns.

use ptrace_async::memory::Memory;
use ptrace_async::runtime::{Stopped, Tracee};
use ptrace_async::syscall::Invocation;
use xxhash_rust::xxh3::xxh3_64;

/// A digest of an output.
pub(crate) fn check(bytes: &[u8]) -> u32 {
    xxh3_64(bytes) as u32
}

/// The bytes that a call has written.
pub(crate) fn bytes<S: Stopped>(tracee: &Tracee<S>, call: &Invocation, value: i64) -> Vec<u8> {
    let mut left = value.max(0) as usize;
    let mut out = Vec::new();
    let mut take = |address: u64, len: u64| {
        let mut bytes = vec![0; left.min(len as usize)];
        let got = tracee.read(address, &mut bytes);
        left -= got;
        out.extend_from_slice(&bytes[..got]);
    };
    let vectors = |address: u64, count: u64| {
        let words = tracee.read_slice::<u64>(address, 2 * count.min(1024) as usize);
        words.unwrap_or_default()
    };
    let pieces = match call.nr.cast_signed() {
        libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => {
            vectors(call.args[1], call.args[2])
        }
        libc::SYS_sendmsg => {
            // struct msghdr: the name and its length, then the vectors and their count.
            let word = |at| tracee.read_u64(call.args[1] + at).unwrap_or(0);
            vectors(word(16), word(24))
        }
        _ => vec![call.args[1], call.args[2]],
    };
    for piece in pieces.chunks_exact(2) {
        take(piece[0], piece[1]);
    }
    out
}
