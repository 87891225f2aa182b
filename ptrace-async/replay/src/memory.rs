//! A digest of all that a process has in memory.

use ptrace_async::memory::Memory;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::maps::Area;

/// The mappings that tracers make for themselves lie in this range.
const OURS: std::ops::Range<u64> = 0x7ea0_0000_0000..0x7eb0_0000_0000;
const PAGE: usize = 4096;

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
    let live = sp.saturating_sub(128);
    let mut sum = 0_u64;
    let mut buffer = vec![0_u8; 256 * PAGE];
    for area in areas {
        let writable = i32::from(area.prot) & libc::PROT_WRITE != 0;
        let code = i32::from(area.prot) & libc::PROT_EXEC != 0;
        let readable = i32::from(area.prot) & libc::PROT_READ != 0;
        if area.is_kernels() || is_ours(area) || !readable || !(writable || !area.shared && !code) {
            continue;
        }
        let mut at = area.start;
        let is_stack = (area.start..area.end).contains(&live);
        if is_stack {
            at = live & !(PAGE as u64 - 1);
        }
        while at < area.end {
            let want = buffer.len().min((area.end - at) as usize);
            let got = memory.read(at, &mut buffer[..want]) / PAGE * PAGE;
            if is_stack && live > at {
                let dead = ((live - at) as usize).min(got);
                buffer[..dead].fill(0);
            }
            for (index, page) in buffer[..got].chunks_exact(PAGE).enumerate() {
                if page.iter().any(|&byte| byte != 0) {
                    let address = at + (index * PAGE) as u64;
                    sum = sum.wrapping_add(xxh3_64_with_seed(page, address));
                }
            }
            // A page that cannot be read (behind the end of a file) is skipped.
            at += got.max(PAGE) as u64;
        }
    }
    sum
}
