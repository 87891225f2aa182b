//! The code that performs calls inside a tracee.
//!
//! A patched site jumps to a trampoline of its own near by. The trampoline puts its origin
//! into `rcx` (a syscall destroys `rcx` and `r11`, so they are free) and jumps to the code.
//! The code lies at a fixed address, so that the seccomp filter knows the instruction whose
//! calls pass. It uses no stack, so red zones and alternate stacks do not matter. It keeps
//! its state in the log's header, under a lock that it tries a few times. A thread that does
//! not get the lock makes the call at its trampoline, where it stops as usual. So does every
//! call that needs more than one entry in the log: in doubt, a call stops.
//!
//! The code performs these calls (see `unstopped`): lookups of paths (links, permissions,
//! metadata, file systems, absent attributes); opening files and directories for reading;
//! listing directories that have not changed lately; creating and closing descriptors; reading
//! the time, random bytes and facts of the machine; reads, and writes that fit into the log with
//! their bytes, or go to a file of which the bytes are not needed. Calls that block (reads, writes, opening a
//! named pipe) hold the lock meanwhile. Where there are threads, a read or write is performed
//! only if poll(2) says that it does not block. A call is repeated only if it failed, which
//! is harmless.
//!
//! A write is performed only if the log holds no observation of a file's content, or if its file
//! has no other name and is known to be changed by the process. Otherwise the write may change the
//! file that was observed, and the reader of the log would see the new content.
#![expect(unsafe_code, reason = "the symbols around the assembly")]

use super::layout::{BASE, CLASSES, CODE_LEN, LOG, LOGS, PAGE, TOKEN};
use crate::unstopped::classes;

unsafe extern "C" {
    pub(crate) safe static ptrace_async_in_process_begin: [u8; 0];
    pub(crate) safe static ptrace_async_in_process_trying: [u8; 0];
    pub(crate) safe static ptrace_async_in_process_taken: [u8; 0];
    pub(crate) safe static ptrace_async_in_process_saved: [u8; 0];
    pub(crate) safe static ptrace_async_in_process_loader: [u8; 0];
    pub(crate) safe static ptrace_async_in_process_loader_taken: [u8; 0];
    pub(crate) safe static ptrace_async_in_process_loader_saved: [u8; 0];
    pub(crate) safe static ptrace_async_in_process_asking: [u8; 0];
    pub(crate) safe static ptrace_async_in_process_asked: [u8; 0];
    pub(crate) safe static ptrace_async_in_process_performed: [u8; 0];
    pub(crate) safe static ptrace_async_in_process_noted: [u8; 0];
    pub(crate) safe static ptrace_async_in_process_logged: [u8; 0];
    pub(crate) safe static ptrace_async_in_process_logged_nonsense: [u8; 0];
    pub(crate) safe static ptrace_async_in_process_published: [u8; 0];
    pub(crate) safe static ptrace_async_in_process_released: [u8; 0];
    pub(crate) safe static ptrace_async_in_process_again: [u8; 0];
    pub(crate) safe static ptrace_async_in_process_left: [u8; 0];
    pub(crate) safe static ptrace_async_in_process_spinning: [u8; 0];
    pub(crate) safe static ptrace_async_in_process_start: [u8; 0];
    pub(crate) safe static ptrace_async_in_process_started: [u8; 0];
    pub(crate) safe static ptrace_async_in_process_stopping: [u8; 0];
    pub(crate) safe static ptrace_async_in_process_end: [u8; 0];
    pub(crate) safe static ptrace_async_in_process_entry: [u8; 0];
    pub(crate) safe static ptrace_async_in_process_entry_end: [u8; 0];
}

/// The code as it is mapped at [`BASE`].
pub(crate) fn bytes() -> &'static [u8] {
    between(
        &raw const ptrace_async_in_process_begin,
        &raw const ptrace_async_in_process_end,
    )
}

/// The instructions that a fresh program begins with; they run at any address.
pub(crate) fn entry() -> &'static [u8] {
    between(
        &raw const ptrace_async_in_process_entry,
        &raw const ptrace_async_in_process_entry_end,
    )
}

fn between(begin: *const [u8; 0], end: *const [u8; 0]) -> &'static [u8] {
    // SAFETY: the bytes between two symbols of the assembly above, which is one
    // read-only section.
    unsafe { std::slice::from_raw_parts(begin.cast::<u8>(), end.addr() - begin.addr()) }
}

pub(crate) fn offset(symbol: *const [u8; 0]) -> usize {
    symbol.addr() - (&raw const ptrace_async_in_process_begin).addr()
}

/// The first part of the file that tracees map at [`BASE`]: code, tables and `token`. The
/// logs follow it.
pub(crate) fn image(token: u64) -> Vec<u8> {
    let mut image = vec![0; (CODE_LEN + PAGE) as usize];
    let mut put = |at: u64, bytes: &[u8]| {
        let at = (at - BASE) as usize;
        image[at..at + bytes.len()].copy_from_slice(bytes);
    };
    put(BASE, bytes());
    put(CLASSES, &classes());
    put(TOKEN, &token.to_le_bytes());
    // Valid until the address space gets a log of its own.
    put(LOG, &LOGS.to_le_bytes());
    image
}

/// The instruction pointer of the calls that the code performs, as a filter sees it.
#[cfg(test)]
pub(crate) fn performed_at() -> u64 {
    BASE + offset(&raw const ptrace_async_in_process_performed) as u64
}

/// The entry for the loader's opens and metadata calls.
pub(crate) fn loader() -> u64 {
    BASE + offset(&raw const ptrace_async_in_process_loader) as u64
}

/// The entry for fresh programs once the code is mapped.
pub(crate) fn start() -> u64 {
    BASE + offset(&raw const ptrace_async_in_process_start) as u64
}

/// Whether an address belongs to the start of fresh programs.
pub(crate) fn starts(address: u64) -> bool {
    (start()..BASE + offset(&raw const ptrace_async_in_process_started) as u64).contains(&address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unstopped::PASSING;

    #[test]
    fn a_program_is_started_by_six_words() {
        assert_eq!(entry().len().div_ceil(8), 6);
    }

    #[test]
    fn the_code_fits_and_its_syscall_is_at_the_declared_address() {
        let code = bytes();
        assert!(code.len() as u64 <= CLASSES - BASE);
        let after = (performed_at() - BASE) as usize;
        assert_eq!(code[after - 2..after], [0x0f, 0x05]);
        // The filter lets all but the last pass.
        let calls: Vec<usize> = (2..=code.len())
            .filter(|end| code[end - 2..*end] == [0x0f, 0x05])
            .collect();
        let stopping = calls.iter().filter(|end| **end > PASSING as usize);
        assert_eq!(stopping.count(), 1);
    }
}
