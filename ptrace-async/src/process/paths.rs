//! From the strings of syscalls to absolute paths.
//!
//! **Invariant:** the ordinary case costs one read of the tracee's memory and
//! one allocation (that of the result), and looks at no file system.

use std::ffi::OsString;
use std::ops::Deref;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::event::{PathRef, Tid};
use crate::memory::{Fault, Memory};

/// The kernel's limit of a path, its NUL included.
const PATH_MAX: usize = 4096;

/// A string of a tracee.
#[expect(clippy::large_enum_variant, reason = "short strings stay off the heap")]
pub(super) enum PathText {
    Short([u8; 256], usize),
    Long(Vec<u8>),
}

impl PathText {
    /// Reads the path at `address`.
    ///
    /// # Errors
    /// [`Fault`] where the kernel would answer `EFAULT` or `ENAMETOOLONG`.
    pub(super) fn read(memory: &dyn Memory, address: u64) -> Result<Self, Fault> {
        if address == 0 {
            return Err(Fault { address });
        }
        let mut bytes = [0; 256];
        let got = memory.read(address, &mut bytes);
        match memchr::memchr(0, &bytes[..got]) {
            Some(end) => Ok(Self::Short(bytes, end)),
            None if got == 0 => Err(Fault { address }),
            None => memory.read_c_string(address, PATH_MAX).map(Self::Long),
        }
    }
}

impl Deref for PathText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Short(bytes, length) => &bytes[..*length],
            Self::Long(bytes) => bytes,
        }
    }
}

/// Joins `given` to the absolute `base` (for an absolute `given`, the base is
/// the process's root). Empty and `.` components vanish, `..` stays.
pub(super) fn join(base: &Path, given: &[u8], follow: bool) -> PathRef {
    let mut joined = Vec::with_capacity(base.as_os_str().len() + given.len() + 1);
    join_into(base, given, &mut joined);
    PathRef {
        path: PathBuf::from(OsString::from_vec(joined)),
        follow: follow || names_directory(given),
        as_directory: names_directory(given),
    }
}

/// As [`join`], into memory that is there.
pub(super) fn join_into(base: &Path, given: &[u8], joined: &mut Vec<u8>) {
    let base = base.as_os_str().as_bytes();
    joined.clear();
    joined.extend_from_slice(base.strip_suffix(b"/").unwrap_or(base));
    for part in given.split(|byte| *byte == b'/') {
        if !part.is_empty() && part != b"." {
            joined.push(b'/');
            joined.extend_from_slice(part);
        }
    }
    if joined.is_empty() {
        joined.push(b'/');
    }
}

/// Whether a path can lead to a directory only, by its end.
pub(super) fn names_directory(given: &[u8]) -> bool {
    given == b"." || given.ends_with(b"/") || given.ends_with(b"/.")
}

/// Whether the name of a directory stops leading to it when a directory before
/// a `..` is removed. (A name that only begins with two dots counts too.)
pub(super) fn has_dot_dot(path: &Path) -> bool {
    memchr::memmem::find(path.as_os_str().as_bytes(), b"/..").is_some()
}

/// Moves `path` along when `from` (or a directory above it) became `to`.
pub(super) fn moved(path: &Path, from: &Path, to: &Path) -> Option<PathBuf> {
    let rest = path.strip_prefix(from).ok()?;
    if rest.as_os_str().is_empty() {
        return Some(to.to_owned());
    }
    Some(to.join(rest))
}

/// The descriptor that `/proc/self/fd/N` and its other spellings name.
pub(super) fn own_descriptor(path: &Path) -> Option<i32> {
    let bytes = path.as_os_str().as_bytes();
    if !bytes.starts_with(b"/dev/") && !bytes.starts_with(b"/proc/") {
        return None;
    }
    let text = path.to_str()?;
    match text {
        "/dev/stdin" => return Some(0),
        "/dev/stdout" => return Some(1),
        "/dev/stderr" => return Some(2),
        _ => {}
    }
    let number = ["/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"]
        .iter()
        .find_map(|prefix| text.strip_prefix(prefix))?;
    proc_number(number.as_bytes())
}

/// A directory of a process that a link in `/proc` leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessLink {
    Cwd,
    Root,
    Descriptor(i32),
}

/// Parses the name of a process or descriptor in `/proc`, which has no sign and no zero in front.
pub fn proc_number(name: &[u8]) -> Option<i32> {
    let is_plain =
        name.iter().all(u8::is_ascii_digit) && (name.len() == 1 || name.first() != Some(&b'0'));
    let text = std::str::from_utf8(name).ok().filter(|_| is_plain)?;
    text.parse().ok()
}

/// Parses a path that begins with a link of a process: the task, if it is named by its number; the
/// link; and the rest of the path, which is empty or begins with `/`.
pub(super) fn process_link(path: &[u8]) -> Option<(Option<Tid>, ProcessLink, &[u8])> {
    /// The first component, and what follows it.
    fn component(path: &[u8]) -> (&[u8], &[u8]) {
        path.split_at(memchr::memchr(b'/', path).unwrap_or(path.len()))
    }
    if let Some(rest) = path.strip_prefix(b"/dev/fd/") {
        let (fd, rest) = component(rest);
        return Some((None, ProcessLink::Descriptor(proc_number(fd)?), rest));
    }
    let (process, mut rest) = component(path.strip_prefix(b"/proc/")?);
    let mut task = match process {
        b"self" | b"thread-self" => None,
        process => Some(proc_number(process)?),
    };
    if let Some(thread) = rest.strip_prefix(b"/task/") {
        let (thread, after) = component(thread);
        (task, rest) = (Some(proc_number(thread)?), after);
    }
    let (name, rest) = component(rest.strip_prefix(b"/")?);
    Some(match name {
        b"cwd" => (task, ProcessLink::Cwd, rest),
        b"root" => (task, ProcessLink::Root, rest),
        b"fd" => {
            let (fd, rest) = component(rest.strip_prefix(b"/")?);
            (task, ProcessLink::Descriptor(proc_number(fd)?), rest)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(base: &str, given: &str, expected: &str) {
        let joined = join(Path::new(base), given.as_bytes(), false);
        assert_eq!(joined.path.as_os_str(), expected);
    }

    #[test]
    fn joins_collapse_slashes_and_dots_and_keep_dot_dot() {
        check("/a", "b", "/a/b");
        check("/a", "./b//c/./d", "/a/b/c/d");
        check("/a", "../b/../c", "/a/../b/../c");
        check("/a", ".", "/a");
        check("/", ".", "/");
        check("/", "b", "/b");
        check("/", "//usr//lib/.", "/usr/lib");
        check("/", "/", "/");
        check("/jail", "/etc/passwd", "/jail/etc/passwd");
        check("/a", ".hidden/...", "/a/.hidden/...");
    }

    #[test]
    fn a_final_slash_follows_a_link() {
        assert!(join(Path::new("/a"), b"link/", false).follow);
        assert!(join(Path::new("/a"), b"link/.", false).follow);
        assert!(!join(Path::new("/a"), b"link", false).follow);
        assert!(join(Path::new("/a"), b"link", true).follow);
    }

    #[test]
    fn paths_below_a_renamed_directory_move_with_it() {
        let moved = |path: &str| moved(Path::new(path), Path::new("/a/b"), Path::new("/c"));
        assert_eq!(moved("/a/b/d/e"), Some("/c/d/e".into()));
        assert_eq!(moved("/a/b"), Some("/c".into()));
        assert_eq!(moved("/a/bc"), None);
    }

    #[test]
    fn links_of_processes_are_parsed() {
        use ProcessLink::{Cwd, Descriptor, Root};
        let parsed = |path: &'static str| process_link(path.as_bytes());
        assert_eq!(parsed("/proc/self/cwd"), Some((None, Cwd, &b""[..])));
        assert_eq!(parsed("/proc/12/root"), Some((Some(12), Root, &b""[..])));
        let fd = Some((None, Descriptor(5), &b"/x"[..]));
        assert_eq!(parsed("/proc/thread-self/fd/5/x"), fd);
        assert_eq!(parsed("/dev/fd/5/x"), fd);
        let thread = Some((Some(13), Descriptor(5), &b"/x"[..]));
        assert_eq!(parsed("/proc/self/task/13/fd/5/x"), thread);
        for other in [
            "/proc/self/cwds/x",
            "/proc/self/fd",
            "/proc/x/cwd/x",
            "/dev/fd",
            "/dev/fd/+5",
            "/dev/fd/05",
            "/dev/fd/-1",
            "/a",
        ] {
            assert_eq!(parsed(other), None, "{other}");
        }
    }

    #[test]
    fn descriptor_links_are_recognised() {
        assert_eq!(own_descriptor(Path::new("/proc/self/fd/7")), Some(7));
        assert_eq!(own_descriptor(Path::new("/dev/fd/12")), Some(12));
        assert_eq!(own_descriptor(Path::new("/dev/stdout")), Some(1));
        assert_eq!(own_descriptor(Path::new("/proc/12/fd/7")), None);
        assert_eq!(own_descriptor(Path::new("/proc/self/fd/7/x")), None);
    }
}
