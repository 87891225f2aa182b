//! Calls by which a task can look at affinities.

use crate::runtime::slot::PathPrefix;

/// Whether a call can show the task its affinity, at once or later.
pub(crate) enum Exposure {
    None,
    Certain,
    /// If the path at this address is in `/proc`.
    OfPath(u64),
}

/// Whether a call asks for an affinity, opens what may be a file of `/proc`, or changes the
/// directory to there (if the filter names chdir).
pub(crate) fn exposure(nr: u64, args: &[u64; 6]) -> Exposure {
    match nr.cast_signed() {
        libc::SYS_sched_getaffinity => Exposure::Certain,
        libc::SYS_open | libc::SYS_chdir => Exposure::OfPath(args[0]),
        libc::SYS_openat | libc::SYS_openat2 => Exposure::OfPath(args[1]),
        // The code in the tracee announces an opened file of `/proc` this way (see
        // `in_process`).
        libc::SYS_dup2 if args[0] as u32 == args[1] as u32 => Exposure::Certain,
        _ => Exposure::None,
    }
}

/// Whether a file whose path begins so may show an affinity. Every file of `/proc` may,
/// except two that programs read as they start. `/proc/filesystems`, the only name with
/// this beginning, is read by libselinux; `/proc/self/maps` lists a program's own mappings.
pub(crate) fn may_show(path: &PathPrefix) -> bool {
    let harmless = path.starts_with(b"/proc/fi") || path.starts_with(b"/proc/self/maps");
    path.starts_with(b"/proc") && !harmless
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_read_at_program_start_show_no_affinity() {
        let tracer_allowed = std::process::id().cast_signed();
        let may_show = |path: &std::ffi::CStr| {
            may_show(&PathPrefix::read(tracer_allowed, path.as_ptr() as u64))
        };
        for shows in [
            c"/proc",
            c"/proc/self/status",
            c"/proc/self/map_files",
            c"/proc/1/stat",
        ] {
            assert!(may_show(shows), "{shows:?}");
        }
        for shows_not in [
            c"/proc/filesystems",
            c"/proc/self/maps",
            c"/etc/passwd",
            c"",
        ] {
            assert!(!may_show(shows_not), "{shows_not:?}");
        }
    }
}
