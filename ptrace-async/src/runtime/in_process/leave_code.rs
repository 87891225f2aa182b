//! Moving a task out of the code before a signal handler runs.
//!
//! A handler may jump out of the code that it interrupted, fork, or make lookups of its
//! own. So no handler is ever entered from the code. Before a signal is delivered, the task
//! is moved to the syscall instruction of its site or its trampoline. It is placed before the
//! instruction if its call was not made or can be repeated, and after it if the call must
//! not be made twice. A call that was not logged yet is recorded here. The kernel then
//! restarts or ends an interrupted call at the trampoline, as `SA_RESTART` says.

use super::call::{UnstoppedCall, path_address};
use super::log::Saved;
use super::progress::{Progress, progress};
use super::site::TAIL;
use super::state::Mapped;
use crate::invocation::Invocation;
use crate::memory::Memory;
use crate::unstopped::{self as calls, MOST_WRITTEN, PATH_MAX, lists};

/// The carry flag.
const CARRY: u64 = 1;
/// The kernel's `ERESTART*` results: whether the call comes again is decided
/// when the signal is delivered.
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;

impl Mapped {
    /// Moves a task that is about to handle a signal out of the code. Returns whether its
    /// registers changed.
    pub(crate) fn leave_code(
        &mut self,
        regs: &mut libc::user_regs_struct,
        memory: &dyn Memory,
    ) -> bool {
        if let Some((trampoline, site)) = self.trampoline_at(regs.rip) {
            // On its way into the code, which a child forked by the handler must not enter.
            let number = site.and_then(|site| site.number());
            let is_before = number.is_some() || regs.rip - trampoline < TAIL;
            if is_before {
                regs.rip = site.map_or(trampoline + TAIL, |site| site.origin(trampoline));
                regs.rax = number.unwrap_or(regs.rax);
            }
            return is_before;
        }
        let Some(progress) = progress(regs.rip) else {
            return false;
        };
        match progress {
            Progress::Outside => regs.rip = regs.rcx,
            Progress::Trying | Progress::Tried | Progress::Locked => {
                let failed = regs.eflags & CARRY != 0;
                if progress == Progress::Locked || progress == Progress::Tried && !failed {
                    self.log.release();
                }
                // The upper half counts attempts.
                (regs.rip, regs.rax) = (regs.rcx, regs.rax & 0xffff);
            }
            Progress::Asking => {
                let saved = self.log.saved();
                (regs.rdi, regs.rsi, regs.rdx) = (saved.rdi, saved.rsi, saved.rdx);
                (regs.rip, regs.rax) = (saved.from, saved.nr);
                self.log.release();
            }
            Progress::Saved => {
                let saved = self.log.saved();
                (regs.rip, regs.rax) = (saved.from, saved.nr);
                self.log.release();
            }
            Progress::Performed | Progress::Noted | Progress::Published => {
                let saved = self.log.saved();
                (regs.rdi, regs.rsi, regs.rdx) = (saved.rdi, saved.rsi, saved.rdx);
                let value = match progress {
                    Progress::Performed => regs.rax,
                    _ => saved.value,
                };
                let must_not_repeat = progress == Progress::Published
                    || self.must_not_repeat(&saved, regs.r10, value.cast_signed(), memory);
                (regs.rip, regs.rax) = if must_not_repeat {
                    (saved.from + 2, value)
                } else {
                    (saved.from, saved.nr)
                };
                self.log.release();
            }
        }
        true
    }

    /// Whether a call that was made must not be repeated. If so, it is recorded.
    fn must_not_repeat(
        &mut self,
        saved: &Saved,
        r10: u64,
        value: i64,
        memory: &dyn Memory,
    ) -> bool {
        if RESTARTS.contains(&value) {
            return true;
        }
        if !calls::must_not_repeat(saved.nr, value) {
            return false;
        }
        let opens = [libc::SYS_open, libc::SYS_openat].contains(&saved.nr.cast_signed());
        if opens && value < 0 {
            // An interrupted open has observed nothing.
            return true;
        }
        let mut fourth = match lists(saved.nr) {
            true => saved.changed,
            false => r10,
        };
        if calls::makes_pair(saved.nr) {
            match memory.read_u64(saved.rdi) {
                Ok(pair) => fourth = pair,
                Err(_) => self.mark_corrupt(),
            }
        }
        let call = Invocation {
            nr: saved.nr,
            args: [saved.rdi, saved.rsi, saved.rdx, fourth, 0, 0],
        };
        if calls::writes(saved.nr) {
            let mut bytes = vec![0; usize::try_from(value).unwrap_or(0).min(MOST_WRITTEN)];
            if memory.read(saved.rsi, &mut bytes) == bytes.len() {
                self.add_unlogged(UnstoppedCall::new(call, value, bytes, saved.stamp));
            } else {
                self.mark_corrupt();
            }
            return true;
        }
        let path = path_address(&call).map_or(Ok(Vec::new()), |address| {
            memory.read_c_string(address, PATH_MAX)
        });
        match path {
            Ok(mut path) => {
                path.push(0);
                self.add_unlogged(UnstoppedCall::new(call, value, path, saved.stamp));
            }
            // The path was unmapped after the kernel had read it.
            Err(_) => self.mark_corrupt(),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::UnstoppedCalls;
    use super::super::code;
    use super::super::layout::{BASE, PAGE};
    use super::super::log::{Log, LogMemory};
    use super::super::site::{Site, TRAMPOLINE_LEN};
    use super::super::state::Trampolines;
    use super::*;

    const TRAMPOLINES: Trampolines = Trampolines {
        address: 0x7000_0000,
        len: PAGE,
    };
    const FROM: u64 = TRAMPOLINES.address + TAIL;
    const PATH: u64 = 0x5000;

    fn a_log() -> Log {
        Log::new(&LogMemory::new(7).expect("memory")).expect("a log")
    }

    /// Memory with a path in it.
    struct Path;

    impl Memory for Path {
        fn read(&self, address: u64, buffer: &mut [u8]) -> usize {
            let text = b"/a/path\0";
            let len = text.len().min(buffer.len());
            buffer[..len].copy_from_slice(&text[..len]);
            if address == PATH { len } else { 0 }
        }
    }

    fn registers() -> libc::user_regs_struct {
        // SAFETY: a plain structure of integers.
        #[expect(unsafe_code, reason = "it has no other constructor")]
        unsafe {
            std::mem::zeroed()
        }
    }

    /// Checks, for each address of the code, where a task with this call and result is
    /// moved, its `rax`, and the number of recorded calls.
    #[track_caller]
    fn check(
        nr: i64,
        value: i64,
        after: Progress,
        address_and_rax: (u64, i64),
        unlogged_calls: usize,
    ) {
        let mut seen = 0;
        for rip in BASE..BASE + code::bytes().len() as u64 {
            if progress(rip) != Some(after) {
                continue;
            }
            seen += 1;
            let log = a_log();
            let mut mapped = Mapped::new(log, Some(TRAMPOLINES), 1);
            let nr = nr.cast_unsigned();
            let (rdi, rsi, rdx) = (PATH, PATH, 7);
            let value = value.cast_unsigned();
            let from = FROM;
            mapped.log.hold(Saved {
                from,
                nr,
                rdi,
                rsi,
                rdx,
                value,
                stamp: 9,
                changed: 5,
            });
            let mut regs = registers();
            regs.rip = rip;
            match after {
                Progress::Outside => (regs.rcx, regs.rax) = (FROM, nr),
                Progress::Trying | Progress::Tried | Progress::Locked => {
                    (regs.rcx, regs.rax) = (FROM, nr | 3 << 16);
                }
                Progress::Performed => regs.rax = value,
                _ => {}
            }
            assert!(mapped.leave_code(&mut regs, &Path));
            assert_eq!(
                (regs.rip, regs.rax.cast_signed()),
                address_and_rax,
                "{after:?}"
            );
            let free = !mapped.log.is_in_flight();
            let outside = [Progress::Outside, Progress::Trying].contains(&after);
            assert_eq!(free, !outside, "{after:?}");
            match mapped.take() {
                UnstoppedCalls::Made(calls) => assert_eq!(calls.len(), unlogged_calls, "{after:?}"),
                UnstoppedCalls::Lost => panic!("nothing is lost"),
            }
        }
        assert!(seen > 0);
    }

    #[test]
    fn a_call_that_was_not_made_is_made_where_it_stops() {
        let nr = libc::SYS_openat;
        for progress in [
            Progress::Outside,
            Progress::Trying,
            Progress::Tried,
            Progress::Locked,
            Progress::Saved,
            Progress::Asking,
        ] {
            check(nr, 0, progress, (FROM, nr), 0);
        }
    }

    #[test]
    fn calls_that_must_not_be_repeated_are_recorded_once() {
        for (nr, value) in [
            (libc::SYS_openat, 3),
            (libc::SYS_open, 0),
            (libc::SYS_close, 0),
            (libc::SYS_close, -9),
            (libc::SYS_dup2, 1),
            (libc::SYS_fcntl, -24),
            (libc::SYS_pipe2, 0),
            (libc::SYS_getrandom, 8),
            (libc::SYS_read, 10),
            (libc::SYS_read, -11),
            (libc::SYS_write, 5),
            // Its signal has come.
            (libc::SYS_write, -32),
        ] {
            check(nr, value, Progress::Performed, (FROM + 2, value), 1);
            check(nr, value, Progress::Noted, (FROM + 2, value), 1);
            // It is in the log, if it was to be.
            check(nr, value, Progress::Published, (FROM + 2, value), 0);
        }
    }

    #[test]
    fn repeatable_calls_are_repeated() {
        for (nr, value) in [
            (libc::SYS_openat, -2),
            (libc::SYS_openat, -13),
            (libc::SYS_access, 0),
            (libc::SYS_readlink, 12),
            (libc::SYS_fstat, 0),
            (libc::SYS_pipe2, -24),
        ] {
            check(nr, value, Progress::Performed, (FROM, nr), 0);
            check(nr, value, Progress::Noted, (FROM, nr), 0);
        }
    }

    #[test]
    fn the_kernel_decides_whether_an_interrupted_call_is_repeated() {
        for value in [-4, -512, -516] {
            let after = (FROM + 2, value);
            check(libc::SYS_openat, value, Progress::Performed, after, 0);
        }
    }

    #[test]
    fn a_lock_that_another_thread_has_is_left_to_it() {
        let log = a_log();
        let mut mapped = Mapped::new(log, Some(TRAMPOLINES), 1);
        let (from, nr, rdi, rsi, rdx, value) = (1, 2, 3, 4, 5, 6);
        mapped.log.hold(Saved {
            from,
            nr,
            rdi,
            rsi,
            rdx,
            value,
            stamp: 9,
            changed: 5,
        });
        let mut regs = registers();
        regs.rcx = FROM;
        regs.eflags = CARRY;
        let tried = |at: &u64| progress(*at) == Some(Progress::Tried);
        regs.rip = (BASE..).find(tried).expect("an address");
        assert!(mapped.leave_code(&mut regs, &Path));
        assert_eq!(regs.rip, FROM);
        assert!(mapped.log.is_in_flight());
    }

    #[test]
    fn a_task_on_its_way_into_the_code_is_kept_out_of_it() {
        let log = a_log();
        let mut mapped = Mapped::new(log, Some(TRAMPOLINES), 1);
        let second = TRAMPOLINES.address + TRAMPOLINE_LEN;
        let tail = second + TAIL;
        for (from, to) in [
            (second, tail),
            (second + 7, tail),
            (tail, tail),
            (tail + 2, tail + 2),
            (BASE - 1, BASE - 1),
        ] {
            let mut regs = registers();
            regs.rip = from;
            assert_eq!(mapped.leave_code(&mut regs, &Path), from != to);
            assert_eq!(regs.rip, to);
        }
    }
    #[test]
    fn a_task_whose_site_keeps_its_call_goes_back_there() {
        let mut text = vec![0x90, 0xb8];
        text.extend((libc::SYS_openat as u32).to_le_bytes());
        text.extend([0x0f, 0x05]);
        let site = Site::numbered(0x6000_0000, &text, 6).expect("a site");
        let mut mapped = Mapped::new(a_log(), Some(TRAMPOLINES), 1);
        mapped.sites.push((site, TRAMPOLINES.address));
        let code = site.trampoline(TRAMPOLINES.address).expect("near");
        for at in 0..code.len() as u64 {
            let mut regs = registers();
            regs.rip = TRAMPOLINES.address + at;
            assert!(mapped.leave_code(&mut regs, &Path));
            assert_eq!((regs.rip, regs.rax), (0x6000_0006, 257));
        }
    }
}
