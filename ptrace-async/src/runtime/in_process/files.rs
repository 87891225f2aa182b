//! Files that tracees map.
#![expect(unsafe_code, reason = "memfd_create and a mapping that is tried")]

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A new file that exists only in memory.
pub(crate) fn memory_file(name: &CStr) -> io::Result<File> {
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that was just made and has no other owner.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Whether a file may be mapped executable, which a mount can forbid.
pub(crate) fn can_be_executed(file: &File) -> bool {
    const LEN: usize = 4096;
    let (protection, fd) = (libc::PROT_READ | libc::PROT_EXEC, file.as_raw_fd());
    let nowhere = std::ptr::null_mut();
    // SAFETY: a new mapping at an address that the kernel chooses.
    let address = unsafe { libc::mmap(nowhere, LEN, protection, libc::MAP_PRIVATE, fd, 0) };
    if address == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: the mapping from above.
    unsafe { libc::munmap(address, LEN) };
    true
}

/// The path by which tracees open a file of ours, with its NUL.
pub(crate) fn path_of(file: &File) -> Vec<u8> {
    let (process, fd) = (std::process::id(), file.as_raw_fd());
    format!("/proc/{process}/fd/{fd}\0").into_bytes()
}
