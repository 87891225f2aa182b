//! The logs of address spaces: memory that tracees write and the tracer reads.
//!
//! The tracee appends entries under a lock in the log (see `code`). The tracer reads the
//! entries below `head` at any time, and empties the log only while it holds the lock. The
//! tracee may write anything into this memory: reading checks all lengths and follows no
//! pointers, and yields calls or an error.
#![expect(unsafe_code, reason = "a mapping that another process writes")]

use std::cell::{Cell, OnceCell, RefCell};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::call::{SharedBytes, UnstoppedCall};
use super::code;
use super::copies::Images;
use super::files::memory_file;
use super::layout::{
    ARENA_LEN, DATA, ENTRY, FILE_LEN, Header, LEN, LOG_COUNT, LOGS, LOGS_AT, WITHOUT_BYTES,
};
use super::vdso::Vdso;
use crate::invocation::Invocation;
use crate::sys;
use crate::unstopped::{self as calls, MOST_WRITTEN};

/// The bit of an entry's number that says that the loader made the call.
const BY_LOADER: u32 = 1 << 31;
/// The usual length of an entry in bytes.
const USUAL: usize = 96;
/// The other tasks in an address space, which decide what may be logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// There is one task, and everything is logged.
    Alone = 0,
    /// There are threads. Calls that may block are performed only if they do not.
    Threads = 1,
    /// There is a task whose calls could not be attributed, and nothing is logged.
    PartialSharers = 2,
}

/// The state that the code in the tracee saves while it holds the lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Saved {
    pub(crate) from: u64,
    pub(crate) nr: u64,
    pub(crate) rdi: u64,
    pub(crate) rsi: u64,
    pub(crate) rdx: u64,
    pub(crate) value: u64,
    pub(crate) stamp: u64,
    pub(crate) changed: u64,
}

/// The memory of all logs of a runtime. Tracees map all of it, so that a forked child needs
/// only the address of its own log.
#[derive(Debug)]
pub(crate) struct LogMemory {
    /// The code, the page that each address space has a private copy of, the logs, and the
    /// texts of loaders.
    file: File,
    address: *mut u8,
    /// The indexes of free logs.
    free: RefCell<Vec<usize>>,
    /// The loaders and libraries that have patched copies.
    pub(crate) images: RefCell<Images>,
    /// The changes of the vdso, if clock reads can be counted.
    vdso: OnceCell<Option<Vdso>>,
}

impl LogMemory {
    /// Memory that holds this token.
    pub(crate) fn new(token: u64) -> io::Result<Rc<Self>> {
        let file = memory_file(c"ptrace-async")?;
        file.set_len(FILE_LEN)?;
        file.write_all_at(&code::image(token), 0)?;
        // SAFETY: a new mapping of a file that is long enough; only `drop` unmaps it.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                ARENA_LEN,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                LOGS_AT.cast_signed(),
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let arena = Rc::new(Self {
            file,
            address: address.cast(),
            free: RefCell::new((1..LOG_COUNT).rev().collect()),
            images: RefCell::default(),
            vdso: OnceCell::new(),
        });
        let nobodys = Log::at(&arena, 0);
        nobodys.set_sharing(Sharing::PartialSharers);
        nobodys.never_reuse();
        Ok(arena)
    }

    /// The changes of the vdso, if clock reads can be counted.
    pub(crate) fn vdso(&self) -> Option<&Vdso> {
        self.vdso.get_or_init(Vdso::find).as_ref()
    }

    /// The file that tracees map.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for LogMemory {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nothing refers to any more.
        unsafe { libc::munmap(self.address.cast(), ARENA_LEN) };
    }
}

/// The tracer's view of one address space's log.
#[derive(Debug)]
pub(crate) struct Log {
    arena: Rc<LogMemory>,
    index: usize,
    address: *mut u8,
    /// Entries read so far, in bytes.
    consumed: u64,
    /// An untraced task may still write into it, so it is not used again.
    shared: Cell<bool>,
}

impl Log {
    /// An empty log; `None` if all are in use.
    pub(crate) fn new(arena: &Rc<LogMemory>) -> Option<Self> {
        let index = arena.free.borrow_mut().pop()?;
        Some(Self::at(arena, index))
    }

    fn at(arena: &Rc<LogMemory>, index: usize) -> Self {
        let log = Self {
            arena: arena.clone(),
            index,
            // SAFETY: within the mapping, which has `LOG_COUNT` of them.
            address: unsafe { arena.address.add(index * LEN) },
            consumed: 0,
            shared: Cell::new(false),
        };
        let header = log.header();
        header.head.store(0, Ordering::Relaxed);
        header.sharing.store(0, Ordering::Relaxed);
        header.observed.store(0, Ordering::Relaxed);
        header.closing.store(0, Ordering::Relaxed);
        header.unneeded.store(0, Ordering::Relaxed);
        log.take_clock_reads().for_each(drop);
        log.forget_descriptors();
        header.begun.store(sys::file_time(), Ordering::Relaxed);
        let room = LEN - DATA - ENTRY - MOST_WRITTEN - 8;
        header.limit.store(room as u64, Ordering::Relaxed);
        header.lock.store(0, Ordering::Release);
        log
    }

    /// Its address in tracees.
    pub(crate) fn place(&self) -> u64 {
        LOGS + (self.index * LEN) as u64
    }

    /// Never gives this log to another address space: a task that is not traced any more
    /// keeps it.
    pub(crate) fn never_reuse(&self) {
        self.shared.set(true);
    }

    /// The memory of all logs.
    pub(crate) fn arena(&self) -> &Rc<LogMemory> {
        &self.arena
    }

    fn header(&self) -> &Header {
        // SAFETY: the log is page-aligned, longer than a header and its mapping
        // lives as long as `self`; all fields are atomics, which others may write.
        unsafe { &*self.address.cast::<Header>() }
    }

    /// Copies bytes of the entries.
    fn copy(&self, from: u64, to: &mut [u8]) {
        // SAFETY: callers stay within the log.
        let at = unsafe { self.address.add(DATA + from as usize) };
        // Entries have whole words, unless the tracee has written over them.
        let whole = if at.addr() % 8 == 0 { to.len() / 8 } else { 0 };
        let (words, rest) = to.split_at_mut(8 * whole);
        for (index, word) in words.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            // SAFETY: as above, and aligned; the tracee may write there, hence
            // volatile: any value will do.
            let value = unsafe { at.cast::<u64>().add(index).read_volatile() };
            *word = value.to_le_bytes();
        }
        for (index, byte) in rest.iter_mut().enumerate() {
            // SAFETY: as above.
            *byte = unsafe { at.add(8 * whole + index).read_volatile() };
        }
    }

    /// Whether a call may be in flight.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.header().lock.load(Ordering::Acquire) != 0
    }

    /// Sets what may be logged from now on.
    pub(crate) fn set_sharing(&self, sharing: Sharing) {
        let sharing = sharing as u32;
        self.header().sharing.store(sharing, Ordering::Release);
    }

    /// From now on, calls that only look at something are performed and not logged.
    pub(crate) fn forgo_lookups(&self) {
        self.header().unneeded.store(1, Ordering::Relaxed);
    }

    /// From now on, this much is known of a descriptor, until it is closed or replaced.
    pub(crate) fn know(&self, descriptor: i32, what: u8) {
        let known = &self.header().known;
        if let Some(known) = usize::try_from(descriptor)
            .ok()
            .and_then(|at| known.get(at))
        {
            known.fetch_or(what, Ordering::Relaxed);
        }
    }

    /// Nothing is known of any descriptor any more.
    pub(crate) fn forget_descriptors(&self) {
        for known in &self.header().known {
            known.store(0, Ordering::Relaxed);
        }
    }

    /// Releases the lock of a stopped task that holds it.
    pub(crate) fn release(&self) {
        self.header().closing.store(0, Ordering::Relaxed);
        self.header().lock.store(0, Ordering::Release);
    }

    /// The descriptor that a call in flight closes, and the stamp of the call.
    pub(crate) fn closing(&self) -> Option<(u32, u64)> {
        let header = self.header();
        let stamp = header.stamp.load(Ordering::Acquire);
        let closing = header.closing.load(Ordering::Acquire);
        // The same call in both.
        let same = header.stamp.load(Ordering::Acquire) == stamp;
        let descriptor = closing.checked_sub(1).filter(|_| same)?;
        Some((descriptor, stamp))
    }

    /// Acts like a task that has taken the lock and saved this state.
    #[cfg(test)]
    pub(crate) fn hold(&self, saved: Saved) {
        let header = self.header();
        header.lock.store(1, Ordering::Relaxed);
        for (word, value) in [
            (&header.from, saved.from),
            (&header.nr, saved.nr),
            (&header.rdi, saved.rdi),
            (&header.rsi, saved.rsi),
            (&header.rdx, saved.rdx),
            (&header.value, saved.value),
            (&header.stamp, saved.stamp),
            (&header.changed, saved.changed),
        ] {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// The saved state of a stopped task that holds the lock.
    pub(crate) fn saved(&self) -> Saved {
        let header = self.header();
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
        Saved {
            from: word(&header.from),
            nr: word(&header.nr),
            rdi: word(&header.rdi),
            rsi: word(&header.rsi),
            rdx: word(&header.rdx),
            value: word(&header.value),
            stamp: word(&header.stamp),
            changed: word(&header.changed),
        }
    }

    /// Takes the counts of clock reads that are not zero, with the indexes of their counters.
    pub(crate) fn take_clock_reads(&self) -> impl Iterator<Item = (usize, u32)> {
        let counters = self.header().clocks.iter().enumerate();
        let reads = counters.filter(|(_, counter)| counter.load(Ordering::Relaxed) != 0);
        reads.map(|(index, counter)| (index, counter.swap(0, Ordering::Relaxed)))
    }

    /// Takes the new entries; `None` if they are invalid, because the tracee has
    /// overwritten them.
    pub(crate) fn take(&mut self) -> Option<Vec<UnstoppedCall>> {
        let head = self.header().head.load(Ordering::Acquire);
        if head <= self.consumed {
            return Some(Vec::new());
        }
        if head > (LEN - DATA) as u64 {
            return None;
        }
        let mut all = vec![0; (head - self.consumed) as usize];
        self.copy(self.consumed, &mut all);
        let all = Rc::new(all);
        let mut calls = Vec::with_capacity(all.len() / USUAL);
        let mut at = 0;
        while at < all.len() {
            let entry = &all[at..];
            if entry.len() < ENTRY {
                return None;
            }
            let half = |at: usize| {
                u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]])
            };
            let word = |at: usize| u64::from(half(at)) | u64::from(half(at + 4)) << 32;
            let len = half(0) as usize;
            if len <= ENTRY || len > entry.len() {
                return None;
            }
            let text = &entry[ENTRY..len];
            let nr = u64::from(half(4) & !(BY_LOADER | WITHOUT_BYTES));
            let value = word(8).cast_signed();
            let used = if half(4) & WITHOUT_BYTES != 0 {
                0
            } else if calls::writes(nr) {
                usize::try_from(value).ok()?
            } else {
                let path = memchr::memchr(0, text)? + 1;
                match calls::names_attribute(nr) {
                    true => path + memchr::memchr(0, &text[path..])? + 1,
                    false => path,
                }
            };
            if used > text.len() {
                return None;
            }
            calls.push(UnstoppedCall {
                call: Invocation {
                    nr,
                    args: [word(16), word(24), word(32), word(40), 0, 0],
                },
                value,
                text: SharedBytes {
                    all: Rc::clone(&all),
                    from: (at + ENTRY) as u32,
                    len: used as u32,
                },
                stamp: word(48),
                mark: None,
                by_loader: half(4) & BY_LOADER != 0,
            });
            at += len;
        }
        self.consumed = head;
        Some(calls)
    }

    /// Empties the log if all of it was taken and no call is in flight.
    pub(crate) fn empty(&mut self) {
        if self.consumed == 0 {
            return;
        }
        let header = self.header();
        if header
            .lock
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            return;
        }
        if header.head.load(Ordering::Relaxed) == self.consumed {
            header.head.store(0, Ordering::Relaxed);
            header.observed.store(0, Ordering::Relaxed);
            header.lock.store(0, Ordering::Release);
            self.consumed = 0;
        } else {
            header.lock.store(0, Ordering::Release);
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if !self.shared.get() {
            self.arena.free.borrow_mut().push(self.index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    fn log() -> Log {
        Log::new(&LogMemory::new(7).expect("memory")).expect("a log")
    }

    fn append(log: &Log, nr: u32, value: i64, path: &[u8]) {
        let head = log.header().head.load(Ordering::Relaxed);
        let len = (ENTRY + path.len() + 1).next_multiple_of(8);
        let mut entry = vec![0; len];
        entry[..4].copy_from_slice(&(len as u32).to_le_bytes());
        entry[4..8].copy_from_slice(&nr.to_le_bytes());
        entry[8..16].copy_from_slice(&value.to_le_bytes());
        entry[16..24].copy_from_slice(&0x1234_u64.to_le_bytes());
        entry[ENTRY..ENTRY + path.len()].copy_from_slice(path);
        for (index, byte) in entry.iter().enumerate() {
            // SAFETY: as in `Log::copy`.
            unsafe { log.address.add(DATA + head as usize + index).write(*byte) };
        }
        log.header()
            .head
            .store(head + len as u64, Ordering::Release);
    }

    #[test]
    fn appended_entries_are_taken_once() {
        let mut log = log();
        assert_eq!(log.take(), Some(Vec::new()));
        append(&log, libc::SYS_readlink as u32, -22, b"/usr/include");
        let calls = log.take().expect("entries");
        assert_eq!(calls.len(), 1);
        assert_eq!(calls[0].value(), -22);
        assert_eq!(
            calls[0].read_c_string(0x1234, 4096).as_deref(),
            Ok(&b"/usr/include"[..])
        );
        assert_eq!(calls[0].read(0x1233, &mut [0; 4]), 0);
        append(&log, libc::SYS_access as u32, 0, b"x");
        assert_eq!(log.take().map(|calls| calls.len()), Some(1));
        log.empty();
        assert_eq!(log.header().head.load(Ordering::Relaxed), 0);
        append(&log, libc::SYS_access as u32, 0, b"x");
        assert_eq!(log.take().map(|calls| calls.len()), Some(1));
    }

    #[test]
    fn a_log_in_use_is_not_emptied() {
        let mut log = log();
        append(&log, 21, 0, b"x");
        log.take();
        log.header().lock.store(1, Ordering::Relaxed);
        log.empty();
        assert_ne!(log.header().head.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_write_without_its_bytes_is_taken_as_such() {
        let mut log = log();
        append(&log, libc::SYS_write as u32 | WITHOUT_BYTES, 1 << 20, b"");
        append(&log, libc::SYS_write as u32, 2, b"xy");
        let calls = log.take().expect("entries");
        let bytes: Vec<_> = calls
            .iter()
            .map(|call| (call.value(), &*call.text))
            .collect();
        assert_eq!(bytes, [(1 << 20, &b""[..]), (2, b"xy")]);
    }

    #[test]
    fn an_attribute_has_its_path_and_its_name() {
        let mut log = log();
        append(&log, libc::SYS_lgetxattr as u32, -61, b"/a/path\0user.name");
        let calls = log.take().expect("entries");
        let [call] = &calls[..] else {
            panic!("one call, not {calls:?}")
        };
        assert_eq!(call.path(), Some(&b"/a/path"[..]));
        let mut call = call.clone();
        // The addresses are anywhere, also next to each other.
        for name in [0x1234 + 8, 0x1234 - 20, 0x9999] {
            call.call.args[1] = name;
            assert_eq!(
                call.read_c_string(0x1234, 4096).as_deref(),
                Ok(&b"/a/path"[..])
            );
            assert_eq!(
                call.read_c_string(name, 256).as_deref(),
                Ok(&b"user.name"[..])
            );
        }
        // Without an end of the name.
        let mut log = Log::new(&LogMemory::new(7).expect("memory")).expect("a log");
        append(
            &log,
            libc::SYS_lgetxattr as u32,
            -61,
            b"/a/path\0abcdefghijklmno",
        );
        let last = DATA + log.header().head.load(Ordering::Relaxed) as usize - 8;
        // SAFETY: as in `Log::copy`.
        unsafe { log.address.add(last).write_bytes(b'x', 8) };
        assert_eq!(log.take(), None);
    }

    #[test]
    fn what_is_known_of_descriptors_is_forgotten() {
        let log = log();
        for (descriptor, what) in [(0, 1), (0, 2), (255, 4), (256, 1), (-1, 1)] {
            log.know(descriptor, what);
        }
        let known = || {
            let known = log.header().known.iter();
            let known: Vec<u8> = known.map(|known| known.load(Ordering::Relaxed)).collect();
            (
                known[0],
                known[255],
                known.iter().map(|it| u32::from(*it)).sum::<u32>(),
            )
        };
        assert_eq!(known(), (3, 4, 7));
        log.forget_descriptors();
        assert_eq!(known(), (0, 0, 0));
    }

    #[test]
    fn invalid_entries_are_recognised() {
        for (head, len) in [
            (8_u64, 8_u32),
            (4096, 1 << 30),
            (u64::MAX, 64),
            (1 << 20, 64),
            (256, 40),
        ] {
            let mut log = log();
            append(&log, 21, 0, &[b'x'; 200]);
            // SAFETY: as in `Log::copy`.
            unsafe { log.address.add(DATA).cast::<u32>().write(len) };
            log.header().head.store(head, Ordering::Relaxed);
            assert_eq!(log.take(), None, "{head} {len}");
        }
    }

    #[test]
    fn logs_are_given_out_once_and_come_back_empty() {
        let arena = LogMemory::new(7).expect("memory");
        let mut logs: Vec<Log> = std::iter::from_fn(|| Log::new(&arena)).collect();
        assert_eq!(logs.len(), LOG_COUNT - 1);
        let mut places: Vec<u64> = logs.iter().map(Log::place).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), LOG_COUNT - 1);
        assert_eq!(places[0], LOGS + LEN as u64);
        let log = logs.pop().expect("one");
        append(&log, 21, 0, b"x");
        log.set_sharing(Sharing::PartialSharers);
        log.header().lock.store(1, Ordering::Relaxed);
        let place = log.place();
        drop(log);
        let mut log = Log::new(&arena).expect("it is back");
        assert_eq!(log.place(), place);
        assert!(!log.is_in_flight());
        assert_eq!(log.header().sharing.load(Ordering::Relaxed), 0);
        assert_eq!(log.take(), Some(Vec::new()));
        log.never_reuse();
        drop(log);
        assert!(Log::new(&arena).is_none());
    }
}
