//! Where recorded programs make their syscalls, and which of these places are patched
//! ([`crate::buffer`]).

use std::cell::{Cell, RefCell};

use ptrace_async::memory::Memory;
use ptrace_async::runtime::{Prehook, Stop, Stopped, Tracee};
use ptrace_async::syscall::{Invocation, error_of};
use rustc_hash::FxHashMap;

use super::session::Session;
use crate::buffer::{self, Site};
use crate::maps;
use crate::trace::event::{Buffered, Patched, Write};

/// A site is patched when a program has come by so often: less, and it is not worth it.
const OFTEN: u32 = 4;
/// A site that cannot be patched.
const NEVER: u32 = u32::MAX;
const PAGE: u64 = 4096;

/// The sites of one address space.
#[derive(Debug, Default, Clone)]
pub(super) struct Sites {
    /// There is a stub, and a log.
    mapped: Cell<bool>,
    /// How often calls have ended at these addresses.
    visits: RefCell<FxHashMap<u64, u32>>,
    /// Pages of trampolines, and how much of them is used.
    trampolines: RefCell<Vec<(u64, u64)>>,
    /// What the stub does not perform at the moment.
    closed: Cell<u64>,
}

fn call(number: i64, args: [u64; 6]) -> Invocation {
    Invocation {
        nr: number.cast_unsigned(),
        args,
    }
}

impl Sites {
    /// Counts a visit; patches the site when it is time to. Whoever is in a call at the site,
    /// or has been interrupted there, would return into the middle of a jump:
    /// `is_alone` says that it is only this task, and only once.
    ///
    /// # Errors
    /// The stop that came instead.
    pub(super) async fn visit(
        &self,
        tracee: Tracee<Prehook>,
        session: &Session,
        is_alone: bool,
    ) -> Result<(Tracee<Prehook>, Option<Patched>), Stop> {
        let number = tracee.invocation().nr;
        let end = tracee.instruction_pointer();
        if !buffer::performs(number) {
            return Ok((tracee, None));
        }
        {
            let mut visits = self.visits.borrow_mut();
            let count = visits.entry(end).or_default();
            *count = count.saturating_add(1);
            if *count != OFTEN {
                return Ok((tracee, None));
            }
            *count = NEVER;
        }
        let mut code = [0; buffer::BEFORE + buffer::BEHIND];
        let start = end.wrapping_sub(buffer::BEFORE as u64);
        if tracee.read_exact(start, &mut code).is_err() {
            return Ok((tracee, None));
        }
        let Some(site) = Site::of(&code, number, end) else {
            return Ok((tracee, None));
        };
        if !is_alone && matches!(site, Site::Compared { .. }) {
            self.visits.borrow_mut().remove(&end);
            return Ok((tracee, None));
        }
        let Ok(areas) = maps::read(tracee.tgid()) else {
            return Ok((tracee, None));
        };
        // Code that programs make may be made again.
        let is_of_a_file = areas.iter().any(|area| {
            (area.start..area.end).contains(&site.at()) && area.inode != 0 && !area.shared
        });
        if !is_of_a_file {
            return Ok((tracee, None));
        }
        let (tracee, is_first) = match self.prepare(tracee, session).await? {
            (tracee, Some(is_first)) => (tracee, is_first),
            (tracee, None) => return Ok((tracee, None)),
        };
        let (tracee, trampoline) = self.trampoline(tracee, &areas, site.at()).await?;
        let Some((trampoline, page)) = trampoline else {
            // What has been made is not used; a replay does without it.
            self.mapped.set(self.mapped.get() && !is_first);
            return Ok((tracee, None));
        };
        let (trampoline_code, jump) = site.patch(trampoline);
        let writes = vec![
            Write {
                address: trampoline,
                bytes: trampoline_code,
            },
            Write {
                address: site.at(),
                bytes: jump,
            },
        ];
        for write in &writes {
            // An error means that the task is gone.
            let _ = tracee.write(write.address, &write.bytes);
        }
        let patched = Patched {
            is_first,
            page,
            end: site.end(trampoline),
            writes,
        };
        if let Ok(mut regs) = tracee.registers() {
            regs.rip = patched.end;
            let _ = tracee.set_registers(&regs);
        }
        Ok((tracee, Some(patched)))
    }

    /// Makes the stub and the log; whether they are new, or nothing where it is impossible.
    async fn prepare(
        &self,
        tracee: Tracee<Prehook>,
        session: &Session,
    ) -> Result<(Tracee<Prehook>, Option<bool>), Stop> {
        if self.mapped.get() {
            return Ok((tracee, Some(false)));
        }
        let Some(stub) = session.stub() else {
            return Ok((tracee, None));
        };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let (tracee, mapped) = tracee
            .inject(call(
                libc::SYS_mmap,
                [
                    buffer::BASE,
                    buffer::LENGTH,
                    prot as u64,
                    flags as u64,
                    u64::MAX,
                    0,
                ],
            ))
            .await?;
        if error_of(mapped).is_some() {
            return Ok((tracee, None));
        }
        let _ = tracee.write(buffer::BASE, &stub.code);
        let prot = libc::PROT_READ | libc::PROT_EXEC;
        let (tracee, _) = tracee
            .inject(call(
                libc::SYS_mprotect,
                [buffer::BASE, buffer::CODE_LENGTH, prot as u64, 0, 0, 0],
            ))
            .await?;
        let _ = tracee.write(buffer::cursor(), &buffer::LOG.to_le_bytes());
        let mut shown = 0_u64;
        for fd in 0..64 {
            shown |= u64::from(session.stdio.stream(tracee.tid(), fd).is_some()) << fd;
        }
        let _ = tracee.write(buffer::shown(), &shown.to_le_bytes());
        self.closed.set(0);
        self.mapped.set(true);
        Ok((tracee, Some(true)))
    }

    /// Room for a trampoline near a site, and the page if it is a new one.
    async fn trampoline(
        &self,
        tracee: Tracee<Prehook>,
        areas: &[maps::Area],
        site: u64,
    ) -> Result<(Tracee<Prehook>, Option<(u64, Option<u64>)>), Stop> {
        let free = {
            let mut pages = self.trampolines.borrow_mut();
            let free = pages.iter_mut().find(|(page, used)| {
                buffer::reaches(*page, site) && used + buffer::TRAMPOLINE <= PAGE
            });
            free.map(|(page, used)| {
                *used += buffer::TRAMPOLINE;
                *page + *used - buffer::TRAMPOLINE
            })
        };
        if let Some(address) = free {
            return Ok((tracee, Some((address, None))));
        }
        let Some(page) = maps::gap(areas, site, PAGE) else {
            return Ok((tracee, None));
        };
        if !buffer::reaches(page, site) {
            return Ok((tracee, None));
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let prot = libc::PROT_READ | libc::PROT_EXEC;
        let (tracee, mapped) = tracee
            .inject(call(
                libc::SYS_mmap,
                [page, PAGE, prot as u64, flags as u64, u64::MAX, 0],
            ))
            .await?;
        if error_of(mapped).is_some() {
            return Ok((tracee, None));
        }
        self.trampolines
            .borrow_mut()
            .push((page, buffer::TRAMPOLINE));
        Ok((tracee, Some((page, Some(page)))))
    }

    /// Takes what has been logged since the last stop. The task is not in the stub.
    pub(super) fn drain<S: Stopped>(&self, tracee: &Tracee<S>) -> Option<Buffered> {
        if !self.mapped.get() {
            return None;
        }
        let cursor = tracee.read_u64(buffer::cursor()).ok()?;
        let length = cursor.checked_sub(buffer::LOG)?;
        if length == 0 || length > buffer::LENGTH {
            return None;
        }
        let mut log = vec![0; length as usize];
        tracee.read_exact(buffer::LOG, &mut log).ok()?;
        tracee
            .write(buffer::cursor(), &buffer::LOG.to_le_bytes())
            .ok()?;
        Some(Buffered(log))
    }

    /// Says what the stub is not to perform.
    pub(super) fn close<S: Stopped>(&self, tracee: &Tracee<S>, closed: u64) {
        if self.mapped.get() && self.closed.get() != closed {
            let _ = tracee.write(buffer::closed(), &closed.to_le_bytes());
            self.closed.set(closed);
        }
    }

    /// A descriptor may be the recorder's output from now on. Unless the task `is_alone` in
    /// its memory, another one may have another descriptor of this number (a child of vfork),
    /// and what is seen of one stays seen.
    pub(super) fn note_descriptor<S: Stopped>(
        &self,
        tracee: &Tracee<S>,
        session: &Session,
        fd: i64,
        is_alone: bool,
    ) {
        if !self.mapped.get() || !(0..64).contains(&fd) {
            return;
        }
        let is_shown = session
            .stdio
            .stream(tracee.tid(), fd.cast_unsigned())
            .is_some();
        if let Ok(shown) = tracee.read_u64(buffer::shown()) {
            let kept = if is_alone { shown & !(1 << fd) } else { shown };
            let shown = kept | u64::from(is_shown) << fd;
            let _ = tracee.write(buffer::shown(), &shown.to_le_bytes());
        }
    }

    /// Memory was unmapped, or something else is mapped there.
    pub(super) fn forget(&self, start: u64, length: u64) {
        let end = start.saturating_add(length);
        self.visits
            .borrow_mut()
            .retain(|site, _| !(start..=end).contains(site));
        self.trampolines
            .borrow_mut()
            .retain(|(page, _)| !(start..end).contains(page));
    }
}
