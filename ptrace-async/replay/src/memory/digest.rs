//! Digests of the memory of a process.

use std::ops::Range;

use ptrace_async::event::Tid;
use ptrace_async::memory::Memory;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::maps::Area;
use super::pages::Pages;
use super::task_position;

/// Range of the mappings that tracers make for themselves.
const OURS: Range<u64> = 0x7ea0_0000_0000..0x7eb0_0000_0000;
const PAGE: usize = 4096;
/// Most pages that are read where a task is stopped (64 MiB).
const MOST: usize = 1 << 14;
/// Bytes below a stack pointer that count as unused stack.
const STACK: u64 = 8 << 20;

/// Whether a mapping is a tracer's own.
pub(crate) fn is_ours(area: &Area) -> bool {
    OURS.contains(&area.start)
}

/// A number that differs when memory differs: of all pages that programs write, in
/// whatever pieces they are mapped. Pages of zeros count like pages that are not there, and
/// so does what lies below the stack pointer `sp` and its red zone.
///
/// There the loader leaves vector registers that it has saved with XSAVEC, and whether the
/// processor takes registers of zeros for unused depends on whether the kernel has reloaded
/// them meanwhile: no two runs need agree, and no program can tell. On stacks other than that
/// of `sp` (other threads', alternate ones) this counts all the same, so programs whose
/// functions are bound when they are first called may have other digests.
pub(crate) fn digest(memory: &dyn Memory, areas: &[Area], sp: u64) -> u64 {
    let mut sum = Sum::new(memory, usize::MAX);
    for area in areas {
        let writable = i32::from(area.prot) & libc::PROT_WRITE != 0;
        let code = i32::from(area.prot) & libc::PROT_EXEC != 0;
        if is_digested(area) && (writable || !area.shared && !code) {
            let dead = dead(area, sp, u64::MAX);
            sum.add(area.start..area.end, dead.as_slice());
        }
    }
    sum.sum
}

/// The same, to compare states of a running program by: of the memory that belongs to it
/// alone, of the pages that it has written, and of the first [`MOST`] of these; of files that
/// it has mapped to write to its own copies, those that are no larger than a quarter of that.
/// What lies below each of `stacks` counts like zeros. Nothing if it cannot be told.
///
/// Code does not count: recordings and replays change it.
pub(crate) fn contents(
    memory: &dyn Memory,
    process: Tid,
    areas: &[Area],
    stacks: &[u64],
) -> Option<u64> {
    let pages = Pages::of(process).ok()?;
    let mut sum = Sum::new(memory, MOST);
    for area in areas {
        let writable = i32::from(area.prot) & libc::PROT_WRITE != 0;
        let code = i32::from(area.prot) & libc::PROT_EXEC != 0;
        if !is_digested(area) || !writable || area.shared || code {
            continue;
        }
        let dead: Vec<Range<u64>> = stacks
            .iter()
            .filter_map(|&sp| dead(area, sp, STACK))
            .collect();
        let whole = area.start..area.end;
        if area.inode == 0 || area.name.starts_with(b"/dev/zero") {
            for part in pages.written(whole).ok()? {
                sum.add(part, &dead);
            }
        } else if (whole.end - whole.start) / PAGE as u64 <= MOST as u64 / 4 {
            sum.add(whole, &dead);
        }
    }
    Some(sum.sum)
}

fn is_digested(area: &Area) -> bool {
    let readable = i32::from(area.prot) & libc::PROT_READ != 0;
    !area.is_kernels() && !is_ours(area) && readable
}

/// The unused part of a stack below its red zone.
fn dead(area: &Area, sp: u64, most: u64) -> Option<Range<u64>> {
    let live = sp.saturating_sub(128);
    let is_here = (area.start..area.end).contains(&live);
    is_here.then(|| area.start.max(live.saturating_sub(most))..live)
}

/// A sum over pages.
struct Sum<'a> {
    memory: &'a dyn Memory,
    sum: u64,
    /// How many pages may still be added.
    left: usize,
    buffer: Vec<u8>,
}

impl<'a> Sum<'a> {
    fn new(memory: &'a dyn Memory, most: usize) -> Self {
        Self {
            memory,
            sum: 0,
            left: most,
            buffer: vec![0; 256 * PAGE],
        }
    }

    /// Adds the pages of a range, in which what is dead counts like zeros.
    fn add(&mut self, range: Range<u64>, dead: &[Range<u64>]) {
        let mut at = range.start;
        while at < range.end && self.left > 0 {
            let end = range.end.min(at + self.buffer.len() as u64);
            // Of a page that is all dead nothing needs to be there.
            let whole = dead.iter().find(|dead| dead.contains(&at));
            if let Some(dead) = whole.filter(|dead| dead.end - at >= PAGE as u64) {
                at = range.end.min(dead.end & !(PAGE as u64 - 1));
                continue;
            }
            let buffer = &mut self.buffer[..(end - at) as usize];
            let got = self.memory.read(at, buffer) / PAGE * PAGE;
            let buffer = &mut buffer[..got];
            for dead in dead {
                let from = dead.start.clamp(at, at + got as u64) - at;
                let to = dead.end.clamp(at, at + got as u64) - at;
                buffer[from as usize..to as usize].fill(0);
            }
            for (page, address) in buffer.chunks_exact(PAGE).zip((at..).step_by(PAGE)) {
                if self.left > 0 && page.iter().any(|&byte| byte != 0) {
                    let digest = xxh3_64_with_seed(page, address);
                    self.sum = self.sum.wrapping_add(digest);
                    self.left -= 1;
                }
            }
            // A page that cannot be read (behind the end of a file) is skipped.
            at += got.max(PAGE) as u64;
        }
    }
}

/// Where the stacks of a process's threads end: the stack pointers of those that stand still.
pub(crate) fn stacks(process: Tid) -> Vec<u64> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else {
        return Vec::new();
    };
    threads
        .flatten()
        .filter_map(|thread| Some(task_position::of(&thread.path())?.sp))
        .collect()
}
