#![expect(
    unsafe_code,
    reason = "mmap(2) and its relatives have no safe interface"
)]
//! A file that is written through shared memory.
//!
//! Stores into a shared mapping belong to the kernel's page cache at once. They reach the file
//! even if the process dies of SIGKILL in the next instruction, and need no system call. Space is
//! allocated before it is mapped. So a full disk is an error from [`Mapping::grow`] and not a
//! SIGBUS, and a limit of file sizes is no SIGXFSZ.
//!
//! **Safety** rests on: `ptr` and `len` describe one live mapping, changed together only by
//! [`Mapping::grow`]. All access is bounds-checked in this file. The mapping is private to its
//! owner (`Mapping` is not `Clone`), and it never hands out references into the mapped memory.
//! Callers that get a pointer argue for its use themselves. If another process truncates the file
//! meanwhile, this process dies of SIGBUS; this module cannot prevent that.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// A growable, writable, shared file mapping.
#[derive(Debug)]
pub(super) struct Mapping {
    ptr: NonNull<u8>,
    len: usize,
    file: File,
}

// SAFETY: the mapping is plain memory that only this value refers to; nothing
// about it is tied to the thread that made it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Creates `path`, which must not exist, with `bytes`.
    pub(super) fn create(path: &Path, bytes: &[u8]) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        may_be_as_long(bytes.len() as u64)?;
        // Written bytes have their place on the disk, or a promise of one.
        file.write_all(bytes)?;
        let len = bytes.len();
        // SAFETY: a fresh mapping at an address of the kernel's choice, of a
        // descriptor that is open; the result is checked below.
        let ptr = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if ptr == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let ptr = NonNull::new(ptr.cast()).ok_or(io::ErrorKind::Other)?;
        Ok(Mapping { ptr, len, file })
    }

    /// The size of the mapping, in bytes.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Extends file and mapping with zeros to `len` bytes.
    pub(super) fn grow(&mut self, len: usize) -> io::Result<()> {
        assert!(len >= self.len, "a mapping only grows");
        allocate(&self.file, len)?;
        // SAFETY: `ptr` and `self.len` are exactly the live mapping, and no
        // reference into it exists; it may move, and `ptr` follows below.
        let ptr = unsafe {
            libc::mremap(
                self.ptr.as_ptr().cast(),
                self.len,
                len,
                libc::MREMAP_MAYMOVE,
            )
        };
        if ptr == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        self.ptr = NonNull::new(ptr.cast()).ok_or(io::ErrorKind::Other)?;
        self.len = len;
        Ok(())
    }

    /// Copies `bytes` to offset `at`.
    ///
    /// # Panics
    /// If they do not fit.
    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(
            at <= self.len && bytes.len() <= self.len - at,
            "write beyond the mapping"
        );
        // SAFETY: the assertion keeps the target within the live mapping, and
        // `bytes`, an outside reference, cannot overlap it.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.ptr.as_ptr().add(at), bytes.len());
        }
    }

    /// Stores a word at `at`, a multiple of 8, after all bytes written before.
    ///
    /// # Panics
    /// If `at` is not aligned or lies beyond the end.
    #[inline]
    pub(super) fn store(&mut self, at: usize, word: u64) {
        assert!(
            at.is_multiple_of(8) && at < self.len && self.len - at >= 8,
            "no such word"
        );
        // SAFETY: in bounds and aligned (mappings start on a page) by the
        // assertion; other access to the word goes through `&mut self` too.
        let target = unsafe { AtomicU64::from_ptr(self.ptr.as_ptr().add(at).cast()) };
        target.store(word.to_le(), Ordering::Release);
    }

    /// The address of the word at `at`, a multiple of 8, until the mapping grows or is closed.
    ///
    /// # Panics
    /// If `at` is not aligned or lies beyond the end.
    #[inline]
    pub(super) fn place(&self, at: usize) -> *const AtomicU64 {
        assert!(
            at.is_multiple_of(8) && at < self.len && self.len - at >= 8,
            "no such word"
        );
        self.ptr.as_ptr().wrapping_add(at).cast_const().cast()
    }

    /// Copies out the bytes from `at` on.
    ///
    /// # Panics
    /// If there are fewer than `len`.
    pub(super) fn read(&self, at: usize, len: usize) -> Vec<u8> {
        assert!(
            at <= self.len && len <= self.len - at,
            "read beyond the mapping"
        );
        let mut bytes = vec![0; len];
        // SAFETY: as in `write`, the other way round.
        unsafe {
            std::ptr::copy_nonoverlapping(self.ptr.as_ptr().add(at), bytes.as_mut_ptr(), len);
        }
        bytes
    }

    /// Cuts the file to `len` bytes, and unmaps.
    pub(super) fn close(self, len: usize) -> io::Result<()> {
        // The removed pages are not accessed any more: the mapping ends here.
        self.file.set_len(len as u64)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the live mapping, to which no references exist.
        unsafe { libc::munmap(self.ptr.as_ptr().cast(), self.len) };
    }
}

/// Makes the file `len` bytes long, with room on the disk for each of them.
fn allocate(file: &File, len: usize) -> io::Result<()> {
    may_be_as_long(len as u64)?;
    let len = libc::off_t::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
    loop {
        // SAFETY: takes an open descriptor and two numbers.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, len) } {
            0 => return Ok(()),
            libc::EINTR => {}
            errno => return Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

/// Whether files may be `len` bytes long. A process that writes beyond the limit (`ulimit -f`) is
/// killed by SIGXFSZ, unless it asks before.
///
/// # Errors
/// If they may not.
pub fn may_be_as_long(len: u64) -> io::Result<()> {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: fills in the structure. If it cannot, there is no limit that we know of.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    match len <= limit.rlim_cur {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::EFBIG)),
    }
}
