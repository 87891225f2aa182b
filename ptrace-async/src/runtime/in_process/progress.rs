//! The progress of a task in the code, by its instruction pointer.

use super::code::{
    offset, ptrace_async_in_process_again, ptrace_async_in_process_asked,
    ptrace_async_in_process_asking, ptrace_async_in_process_end, ptrace_async_in_process_left,
    ptrace_async_in_process_loader, ptrace_async_in_process_loader_saved,
    ptrace_async_in_process_loader_taken, ptrace_async_in_process_logged,
    ptrace_async_in_process_logged_nonsense, ptrace_async_in_process_noted,
    ptrace_async_in_process_performed, ptrace_async_in_process_published,
    ptrace_async_in_process_released, ptrace_async_in_process_saved,
    ptrace_async_in_process_spinning, ptrace_async_in_process_start,
    ptrace_async_in_process_stopping, ptrace_async_in_process_taken,
    ptrace_async_in_process_trying,
};
use super::layout::BASE;

/// The progress of a task in the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// It holds no lock, and `rcx` holds the address where it continues.
    Outside,
    /// It tries to get the lock; `rcx` has the origin, and the lower half of `eax` the number.
    Trying,
    /// It has just tried the lock; the carry flag is set if another thread holds it.
    Tried,
    /// It holds the lock; `rcx` and `rax` still have the origin and the number.
    Locked,
    /// They are saved in the header; the call was not made, or will be repeated.
    Saved,
    /// It also asks whether the call would block. The arguments are in the header only.
    Asking,
    /// The call was made, and `rax` has its result.
    Performed,
    /// The result is in the header, the call not in the log.
    Noted,
    /// The entry is complete; only the return to the site remains.
    Published,
}

/// The progress of a task at this address. `None` outside of the code, and in the start of
/// fresh programs, which have no handlers yet.
pub(super) fn progress(address: u64) -> Option<Progress> {
    use Progress::*;
    let at = usize::try_from(address.checked_sub(BASE)?).ok()?;
    let tried = [
        &raw const ptrace_async_in_process_taken,
        &raw const ptrace_async_in_process_loader_taken,
    ];
    if tried.iter().any(|symbol| at == offset(*symbol)) {
        return Some(Tried);
    }
    // From there they jump to where the same is done for all.
    let published = [
        &raw const ptrace_async_in_process_logged,
        &raw const ptrace_async_in_process_logged_nonsense,
    ];
    if published.iter().any(|symbol| at == offset(*symbol)) {
        return Some(Published);
    }
    let borders = [
        (&raw const ptrace_async_in_process_trying, Some(Outside)),
        (&raw const ptrace_async_in_process_taken, Some(Trying)),
        (&raw const ptrace_async_in_process_saved, Some(Locked)),
        (&raw const ptrace_async_in_process_loader, Some(Saved)),
        (
            &raw const ptrace_async_in_process_loader_taken,
            Some(Outside),
        ),
        (
            &raw const ptrace_async_in_process_loader_saved,
            Some(Locked),
        ),
        (&raw const ptrace_async_in_process_asking, Some(Saved)),
        (&raw const ptrace_async_in_process_asked, Some(Asking)),
        (&raw const ptrace_async_in_process_performed, Some(Saved)),
        (&raw const ptrace_async_in_process_noted, Some(Performed)),
        (&raw const ptrace_async_in_process_published, Some(Noted)),
        (&raw const ptrace_async_in_process_released, Some(Published)),
        (&raw const ptrace_async_in_process_again, Some(Outside)),
        (&raw const ptrace_async_in_process_left, Some(Saved)),
        (&raw const ptrace_async_in_process_spinning, Some(Outside)),
        (&raw const ptrace_async_in_process_start, Some(Trying)),
        (&raw const ptrace_async_in_process_stopping, None),
        (&raw const ptrace_async_in_process_end, Some(Noted)),
    ];
    let before = borders.iter().find(|(end, _)| at < offset(*end));
    before.and_then(|(_, progress)| *progress)
}

#[cfg(test)]
mod tests {
    use super::super::code::{bytes, performed_at, ptrace_async_in_process_started, starts};
    use super::super::layout::Header;
    use super::*;
    use crate::unstopped::PASSING;

    #[test]
    fn logged_calls_are_not_logged_again() {
        // add %rdi, head(%r11) and addq $64, head(%r11)
        let head = std::mem::offset_of!(Header, head) as u8;
        let code = bytes();
        let mut seen = 0;
        for advance in [&[0x49, 0x01, 0x7b, head][..], &[0x49, 0x83, 0x43, head, 64]] {
            for at in 0..code.len() - advance.len() {
                if code[at..].starts_with(advance) {
                    seen += 1;
                    let after = BASE + (at + advance.len()) as u64;
                    assert!(matches!(progress(after - 1), Some(Progress::Noted)));
                    assert!(matches!(progress(after), Some(Progress::Published)));
                }
            }
        }
        assert_eq!(seen, 2);
    }

    /// Between what passes the filter and what does not.
    fn is_filling(address: u64) -> bool {
        let from = offset(&raw const ptrace_async_in_process_started) as u64;
        (BASE + from..BASE + PASSING).contains(&address)
    }

    #[test]
    fn every_address_of_the_code_has_its_progress() {
        let mut seen = Vec::new();
        for at in BASE..BASE + bytes().len() as u64 {
            let progress = progress(at);
            assert_eq!(progress.is_none(), starts(at) || is_filling(at));
            if let Some(progress) = progress
                && seen.last() != Some(&progress)
            {
                seen.push(progress);
            }
        }
        use Progress::*;
        let all = [
            Outside, Trying, Tried, Locked, Saved, Outside, Tried, Locked, Saved, Asking, Saved,
            Performed, Noted, Published, Noted, Published, Noted, Published, Outside, Saved,
            Outside, Trying, Noted,
        ];
        assert_eq!(seen, all);
        assert_eq!(progress(performed_at()), Some(Progress::Performed));
        assert_eq!(progress(BASE - 1), None);
        assert_eq!(progress(BASE + bytes().len() as u64), None);
    }
}
