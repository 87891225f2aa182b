//! Kinds of paths: ordinary files, and files with a special meaning.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ptrace_async::process::proc_number;

/// The meaning of a path for the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// An ordinary file. This includes `/proc` and `/sys` files that are the same for all
    /// processes and change only with the machine's configuration.
    Ordinary,
    /// Determined by the weak key, or constant.
    Determined,
    /// Yields random bytes.
    Random,
    /// Usage of resources by the process or the machine: changes all the time, and most results do
    /// not depend on it.
    Usage,
    /// Changes all the time, or differs in each process.
    Volatile,
}

/// Classifies an absolute path.
pub fn classify(path: &Path) -> Class {
    let bytes = path.as_os_str().as_bytes();
    if bytes == b"/proc" {
        return Class::Determined;
    }
    if let Some(rest) = bytes.strip_prefix(b"/proc/") {
        return process_file(rest);
    }
    if let Some(rest) = bytes.strip_prefix(b"/dev/") {
        return match rest {
            b"null" | b"zero" | b"full" => Class::Determined,
            b"random" | b"urandom" => Class::Random,
            b"stdin" | b"stdout" | b"stderr" | b"tty" | b"ptmx" | b"kmsg" => Class::Volatile,
            _ if rest == b"fd" || rest.starts_with(b"fd/") => Class::Volatile,
            _ if rest.starts_with(b"pts/") => Class::Volatile,
            _ => Class::Ordinary,
        };
    }
    Class::Ordinary
}

/// Whether a path is a time zone file.
pub fn is_zone(path: &Path) -> bool {
    let path = path.as_os_str().as_bytes();
    path == b"/etc/localtime" || memchr::memmem::find(path, b"/zoneinfo/").is_some()
}

/// Whether opening an absolute path depends only on the file there.
pub fn is_plain(path: &Path) -> bool {
    let is_system = path.starts_with("/proc") || is_for_devices(path);
    !is_system && classify(path) == Class::Ordinary && !is_zone(path)
}

/// Whether this is a directory for devices, whose times change with their use. That is `/dev`
/// without its shared memory file system, in which builds may run as well.
pub fn is_for_devices(path: &Path) -> bool {
    path.starts_with("/dev") && !path.starts_with("/dev/shm")
}

/// Whether a link in /proc leads to a standard stream of a process.
pub fn is_standard_stream(path: &Path) -> bool {
    path.starts_with("/proc") && matches!(descriptor(path), Some(0..=2))
}

/// Returns the descriptor of the calling process that a path names.
pub fn descriptor(path: &Path) -> Option<i32> {
    let path = path.as_os_str().as_bytes();
    let number = match path {
        b"/dev/stdin" => return Some(0),
        b"/dev/stdout" => return Some(1),
        b"/dev/stderr" => return Some(2),
        _ => path.strip_prefix(b"/dev/fd/").or_else(|| {
            let rest = path.strip_prefix(b"/proc/")?;
            let at = memchr::memmem::find(rest, b"/fd/")?;
            Some(&rest[at + 4..])
        }),
    };
    proc_number(number?)
}

/// Whether a path goes through a link of a process to a file behind it. Such paths of the calling
/// process itself are resolved before they come here.
pub fn leads_through(path: &Path) -> bool {
    let links = ["cwd", "root", "exe"];
    let mut above = path.ancestors().skip(1).filter_map(Path::file_name);
    let behind_link = above.any(|name| links.iter().any(|link| name == *link));
    let path = path.as_os_str().as_bytes();
    let begins = path.starts_with(b"/proc/") || path.starts_with(b"/dev/fd/");
    let after_descriptor = || {
        let at = memchr::memmem::find(path, b"/fd/")?;
        memchr::memchr(b'/', &path[at + 4..])
    };
    begins && (behind_link || after_descriptor().is_some())
}

fn process_file(rest: &[u8]) -> Class {
    let mut parts = rest.splitn(2, |&b| b == b'/');
    let (first, rest) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    match first {
        b"self" | b"thread-self" => match rest {
            b"" | b"exe" | b"cmdline" | b"environ" | b"comm" | b"cgroup" | b"limits" | b"cwd"
            | b"root" | b"auxv" | b"loginuid" | b"attr/current" | b"attr/fscreate"
            | b"attr/exec" | b"fd" | b"fd/" | b"task" => Class::Determined,
            b"maps" | b"stat" | b"statm" | b"status" | b"io" | b"schedstat" => Class::Usage,
            _ => Class::Volatile,
        },
        b"stat" | b"loadavg" | b"uptime" | b"meminfo" | b"vmstat" => Class::Usage,
        b"sys" => match rest {
            _ if rest.starts_with(b"kernel/random/") => Class::Random,
            _ if rest.starts_with(b"fs/") && rest.ends_with(b"-nr") => Class::Volatile,
            _ if rest.starts_with(b"fs/") && rest.ends_with(b"-state") => Class::Volatile,
            _ => Class::Ordinary,
        },
        b"cpuinfo" | b"filesystems" | b"version" | b"cmdline" | b"devices" | b"config.gz" => {
            Class::Ordinary
        }
        _ => Class::Volatile,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, class: Class) {
        assert_eq!(classify(Path::new(path)), class, "{path}");
    }

    #[test]
    fn proc_self_and_standard_streams_are_volatile() {
        check("/proc/self/mountinfo", Class::Volatile);
        check("/proc/1234/stat", Class::Volatile);
        check("/proc/self/fd/3", Class::Volatile);
        check("/proc/1234/statm", Class::Volatile);
        check("/dev/stdout", Class::Volatile);
    }

    #[test]
    fn special_file_systems_and_time_zones_are_not_plain() {
        for plain in [
            "/usr/include/time.h",
            "/dev/shm/a.h",
            "/process",
            "/etc/localtime.h",
        ] {
            assert!(is_plain(Path::new(plain)), "{plain}");
        }
        for other in [
            "/etc/localtime",
            "/usr/share/zoneinfo/UTC",
            "/proc/cpuinfo",
            "/proc/self/fd/3",
            "/dev/fd/3",
            "/dev/null",
        ] {
            assert!(!is_plain(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn dev_shm_is_no_device_directory() {
        for devices in ["/dev", "/dev/null", "/dev/pts/3"] {
            assert!(is_for_devices(Path::new(devices)), "{devices}");
        }
        for others in ["/dev/shm", "/dev/shm/a/main.c", "/devices", "/home/dev/x"] {
            assert!(!is_for_devices(Path::new(others)), "{others}");
        }
    }

    #[test]
    fn paths_behind_links_of_processes_are_recognised() {
        for behind in [
            "/proc/1/cwd/a",
            "/proc/self/fd/4/a",
            "/dev/fd/4/a",
            "/proc/1/exe/a",
        ] {
            assert!(leads_through(Path::new(behind)), "{behind}");
        }
        for other in [
            "/proc/1/cwd",
            "/proc/self/fd/4",
            "/dev/fd/4",
            "/proc/1/stat",
            "/a/fd/4/a",
        ] {
            assert!(!leads_through(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn memory_maps_and_uptime_are_usage() {
        check("/proc/self/maps", Class::Usage);
        check("/proc/self/statm", Class::Usage);
        check("/proc/uptime", Class::Usage);
    }

    #[test]
    fn kernel_settings_are_files_and_random_devices_are_random() {
        check("/proc/sys/vm/overcommit_memory", Class::Ordinary);
        check("/proc/sys/kernel/random/uuid", Class::Random);
        check("/dev/urandom", Class::Random);
        check("/dev/null", Class::Determined);
        check("/home/proc/x", Class::Ordinary);
        check("/processes", Class::Ordinary);
    }
}
