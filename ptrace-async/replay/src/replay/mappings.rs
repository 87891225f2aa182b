//! Mappings of a recording, repeated at the same addresses.

use super::remote_calls::RemoteCalls;
use crate::trace::event::Mapping;

const PAGE: u64 = 4096;
const ANONYMOUS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
const NO_FILE: u64 = u64::MAX;

fn page_up(address: u64) -> u64 {
    address.saturating_add(PAGE - 1) & !(PAGE - 1)
}

/// Maps a file, whose descriptor is 0 meanwhile.
fn of_file(batch: &mut RemoteCalls, path: &[u8], args: [u64; 6], writes_back: bool) {
    let path = batch.string(path);
    let access = if writes_back {
        libc::O_RDWR
    } else {
        libc::O_RDONLY
    };
    let at = i64::from(libc::AT_FDCWD).cast_unsigned();
    batch.call(libc::SYS_openat, [at, path, access as u64, 0, 0, 0]);
    batch.call(libc::SYS_mmap, args);
    batch.call(libc::SYS_close, [0; 6]);
}

/// A mapping of a fresh program.
pub(super) fn fresh(batch: &mut RemoteCalls, mapping: &Mapping, path: Option<&[u8]>) {
    let length = mapping.end - mapping.start;
    let prot = u64::from(mapping.prot);
    match (mapping.file, path) {
        (Some((_, offset)), Some(path)) => {
            let flags = (libc::MAP_PRIVATE | libc::MAP_FIXED) as u64;
            of_file(
                batch,
                path,
                [mapping.start, length, prot, flags, 0, offset],
                false,
            );
        }
        _ => {
            let grows = if mapping.grows_down {
                libc::MAP_GROWSDOWN | libc::MAP_STACK
            } else {
                0
            };
            let flags = (ANONYMOUS | libc::MAP_FIXED | grows) as u64;
            batch.call(
                libc::SYS_mmap,
                [mapping.start, length, prot, flags, NO_FILE, 0],
            );
        }
    }
}

/// An `mmap` with these arguments, that returned `address`; of the file at `path`, which
/// is ours to write if it is shared.
pub(super) fn map_again(
    batch: &mut RemoteCalls,
    args: &[u64; 6],
    address: u64,
    path: Option<(&[u8], bool)>,
) {
    let [_, length, prot, flags, _, offset] = *args;
    let mut kept = flags as i32 & (libc::MAP_GROWSDOWN | libc::MAP_STACK);
    let fills = flags as i32 & (libc::MAP_POPULATE | libc::MAP_LOCKED) != 0;
    if fills && path.is_some() {
        // Who may write such a page has one of its own, from now on.
        kept |= libc::MAP_POPULATE;
    }
    let kind = if flags as i32 & libc::MAP_SHARED != 0 {
        libc::MAP_SHARED
    } else {
        libc::MAP_PRIVATE
    };
    let flags = kept | kind | libc::MAP_FIXED | libc::MAP_NORESERVE;
    match path {
        Some((path, writes_back)) => {
            let args = [address, length, prot, flags as u64, 0, offset];
            of_file(batch, path, args, writes_back);
        }
        None => {
            let flags = (flags | libc::MAP_ANONYMOUS) as u64;
            batch.call(libc::SYS_mmap, [address, length, prot, flags, NO_FILE, 0]);
        }
    }
}

/// A move of the program break; the first call only tells where it is.
pub(super) fn program_break(batch: &mut RemoteCalls, old: u64, new: u64) {
    let (from, to) = (page_up(old), page_up(new));
    if old == 0 {
        return;
    }
    if to > from {
        let prot = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let flags = (ANONYMOUS | libc::MAP_FIXED) as u64;
        batch.call(libc::SYS_mmap, [from, to - from, prot, flags, NO_FILE, 0]);
    } else if to < from {
        batch.call(libc::SYS_munmap, [to, from - to, 0, 0, 0, 0]);
    }
}

/// Advice that changes what is in memory, or what a child gets of it.
pub(super) fn advise(batch: &mut RemoteCalls, args: &[u64; 6]) {
    let advice = args[2] as i32;
    let mut args = *args;
    match advice {
        libc::MADV_FREE => args[2] = libc::MADV_DONTNEED as u64,
        libc::MADV_DONTNEED
        | libc::MADV_REMOVE
        | libc::MADV_DONTFORK
        | libc::MADV_DOFORK
        | libc::MADV_WIPEONFORK
        | libc::MADV_KEEPONFORK => {}
        _ => return,
    }
    batch.call(libc::SYS_madvise, args);
}

/// An `mremap` with these arguments, that returned `address`.
pub(super) fn moved(batch: &mut RemoteCalls, args: &[u64; 6], address: u64) {
    let [old, old_length, length, flags, _, _] = *args;
    let kept = flags as i32 & libc::MREMAP_DONTUNMAP;
    if address == old && kept == 0 {
        batch.call(libc::SYS_mremap, [old, old_length, length, 0, 0, 0]);
    } else {
        let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | kept) as u64;
        batch.call(
            libc::SYS_mremap,
            [old, old_length, length, flags, address, 0],
        );
    }
}
