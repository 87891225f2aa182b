//! Starting programs so that their calls are performed in process from the first one on.
//!
//! `in_process/copies.rs` describes the patched copies that such a program runs.

use std::io;
use std::path::Path;
use std::rc::Rc;

use super::auxiliary::CODE_SEGMENT;
use super::states::{Exec, Tracee};
use crate::event::Tid;
use crate::runtime::in_process::layout::{BASE, CODE_LEN, START_WORDS};
use crate::runtime::in_process::{Log, Mapped, Starting, Trampolines, code, path_of};
use crate::runtime::options::Interception;
use crate::runtime::shared::{Handle, Shared};
use crate::runtime::slot::Slot;
use crate::sys;

/// After so many programs failed to start this way, no more are started so.
const MAX_FAILURES: u32 = 8;
impl Handle {
    /// Makes patched copies ahead of time: of this loader and of the C library beside it. A
    /// program that starts with [`Tracee::perform_in_process`] then needs not wait for
    /// them.
    pub fn prepare_copies(&self, loader: &Path) {
        if let Interception::Seccomp(filter) = &self.shared.options.interception
            && filter.token().is_some()
            && let Ok(arena) = self.shared.arena()
        {
            arena.images.borrow_mut().prepare(arena.file(), loader);
        }
    }
}

impl Tracee<Exec> {
    /// Has the calls of the program that was just executed performed and logged in process,
    /// from the first one on. This works for programs whose loader is known or can be
    /// found. In others single sites are patched later, where they stop. Ask
    /// [`Handle::unstopped_calls`](crate::runtime::Handle::unstopped_calls) at every stop
    /// from then on.
    ///
    /// Returns whether the program's clock reads through the vdso are logged, too, as
    /// `clock_gettime` and `gettimeofday`. Only the first few between two stops are. If they
    /// are not logged, [`hide_vdso`](Self::hide_vdso) makes them system calls.
    pub fn perform_in_process(&self) -> bool {
        // `None` means that the program starts as usual.
        self.start_in_process().unwrap_or(false)
    }

    fn start_in_process(&self) -> Option<bool> {
        let Interception::Seccomp(filter) = &self.shared().options.interception else {
            return None;
        };
        let token = filter.token()?;
        let space = self.space();
        let state = &space.in_process;
        if state.disabled.get() || self.slot().confined.get() || space.in_process.logs() {
            return None;
        }
        let tid = self.tid();
        let arena = self.shared().arena().ok()?;
        let mut images = arena.images.borrow_mut();
        if images.failures > MAX_FAILURES {
            return None;
        }
        let original = self.registers().ok()?;
        if original.cs != CODE_SEGMENT || sys::limits_memory(tid) {
            return None;
        }
        let auxiliary = self.auxiliary();
        let vdso = arena.vdso().zip(auxiliary.vdso);
        let loader = match auxiliary.loader {
            // A static program.
            Some(0) => None,
            _ => images.loader_at(arena.file(), tid, original.rip),
        };
        if vdso.is_none() && loader.is_none() {
            return None;
        }
        let log = Log::new(&arena)?;
        let program = auxiliary.entry.and_then(|entry| {
            let is_static = auxiliary.loader == Some(0);
            images.program_of(arena.file(), tid, entry, is_static)
        });

        let text = match &loader {
            Some((loader, base)) => {
                let address = base.wrapping_add(loader.text.address);
                [address, loader.text.len, loader.at]
            }
            None => [0; 3],
        };
        let with_sites = program.as_ref().filter(|program| program.count() > 0);
        let trampolines = with_sites.map(|program| {
            let (address, len) = program.trampolines();
            (Trampolines { address, len }, program.offset())
        });
        let [address, len, offset] = trampolines.map_or([0; 3], |(trampolines, offset)| {
            [trampolines.address, trampolines.len, offset]
        });
        let [text, text_len, text_at] = text;
        let (log_at, rip) = (log.place(), original.rip);
        let words = [text, text_len, text_at, log_at, rip, address, len, offset];
        let mut block = words.map(u64::to_le_bytes).concat();
        let path_at = block.len() as u64;
        block.extend(path_of(arena.file()));
        block.resize(START_WORDS as usize * 8, 0);
        // The code pushes one word into the last word of the block, and clears the block in
        // the end.
        let block_at = original.rsp.checked_sub(START_WORDS * 8)?;
        sys::write_memory(tid, block_at, &block).ok()?;

        let (entry, replaced) = match (vdso, loader) {
            (Some((vdso, found)), _) => {
                vdso.write(tid, found.address).ok()?;
                (found.address + vdso.entry, Vec::new())
            }
            (None, Some((loader, _))) => {
                put_code(tid, original.rip, code::entry(), &loader.entered).ok()?;
                (original.rip, loader.entered)
            }
            (None, None) => return None,
        };
        let mut registers = original;
        registers.rip = entry;
        // The first argument of openat is ignored, because the path is absolute.
        registers.rdi = BASE;
        registers.rsi = block_at + path_at;
        let flags = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK;
        registers.rdx = flags as u64;
        registers.r10 = token;
        registers.r9 = libc::SYS_openat.cast_unsigned();
        registers.rbp = token;
        registers.rbx = code::start();
        registers.r12 = CODE_LEN;
        registers.r13 = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        registers.r14 = (libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE) as u64;
        registers.r15 = block_at;
        // Last, because a patched program must not start without its trampolines.
        let program = program.filter(|program| program.patch(tid));
        self.set_registers(&registers).ok()?;
        self.slot().starting.replace(Some(Box::new(Starting {
            registers: original,
            entry,
            original: replaced,
            vdso: auxiliary.vdso,
        })));
        let mut mapped = Mapped::new(log, trampolines.map(|(trampolines, _)| trampolines), tid);
        mapped.program = program;
        *state.mapped.borrow_mut() = Some(mapped);
        space.in_process.update_sharing();
        self.shared().note_patched(&space);
        Some(vdso.is_some())
    }
}

/// Writes whole words, which is quicker than opening the task's memory. `before` holds
/// their present content.
fn put_code(tid: Tid, address: u64, code: &[u8], before: &[u8]) -> io::Result<()> {
    let mut bytes = before.to_vec();
    bytes[..code.len()].copy_from_slice(code);
    for (index, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
        sys::poke(tid, address + 8 * index as u64, u64::from_le_bytes(*word))?;
    }
    Ok(())
}

impl Shared {
    /// Whether a task that stopped with SIGTRAP failed to start in process. If so, it is
    /// restored and starts as usual.
    pub(crate) fn restore_if_start_failed(&self, slot: &Rc<Slot>) -> bool {
        let tid = slot.tid.get();
        let Ok(registers) = sys::registers(tid) else {
            return false;
        };
        let Some(at) = registers.rip.checked_sub(1) else {
            return false;
        };
        let starting = slot.starting.take();
        let is_ours = |starting: &Starting| {
            let from = starting.entry;
            (from..from + code::entry().len() as u64).contains(&at) || code::starts(at)
        };
        let Some(starting) = starting.filter(|starting| is_ours(starting)) else {
            return false;
        };
        // Errors mean that the task is gone.
        let _ = sys::write_memory(tid, starting.entry, &starting.original);
        if let Some(vdso) = starting.vdso {
            vdso.hide(tid);
        }
        let _ = sys::set_registers(tid, &starting.registers);
        let space = slot.space.borrow().clone();
        space.in_process.restore(tid);
        if let Some(program) = space.in_process.program() {
            program.mark_unusable();
        }
        space.in_process.disabled.set(true);
        *space.in_process.mapped.borrow_mut() = None;
        if let Ok(arena) = self.arena() {
            arena.images.borrow_mut().failures += 1;
        }
        self.resume(slot, self.usual_resume(), 0);
        true
    }
}
