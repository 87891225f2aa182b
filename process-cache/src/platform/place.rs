//! Identities of directories, which distinguish a directory from another one at the same path.

use rustix::fs::{AtFlags, CWD, StatxFlags};
use std::path::Path;

use ptrace_async::event::Tid;

/// The identity of a directory, with the mount through which it is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    mount: u64,
    device: u64,
    inode: u64,
}

impl Place {
    /// Returns the identity of the directory to which a path leads.
    pub fn of(path: impl AsRef<Path>) -> Option<Self> {
        let flags = StatxFlags::INO | StatxFlags::MNT_ID;
        let found = rustix::fs::statx(CWD, path.as_ref(), AtFlags::empty(), flags).ok()?;
        Some(Self {
            mount: found.stx_mnt_id,
            device: u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor),
            inode: found.stx_ino,
        })
    }

    /// Returns the identity of a task's working directory.
    pub fn of_task(tid: Tid) -> Option<Self> {
        Self::of(format!("/proc/{tid}/cwd"))
    }
}

/// Whether this process works in the directory to which its working directory's path leads now.
/// A directory that was removed has no path.
pub fn is_own_in_place(path: &Path) -> bool {
    path.as_os_str().is_empty() || Place::of(".") == Place::of(path)
}

/// Whether a link in `/proc` leads to a file that was removed.
pub fn is_removed(link: &str) -> bool {
    let target = std::fs::read_link(link);
    target.is_ok_and(|target| {
        target
            .as_os_str()
            .as_encoded_bytes()
            .ends_with(b" (deleted)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_made_again_is_another_one() {
        let above = tempfile::tempdir().unwrap();
        let [path, other] = ["a", "b"].map(|name| above.path().join(name));
        std::fs::create_dir(&path).unwrap();
        let before = Place::of(&path);
        assert!(before.is_some());
        assert_eq!(Place::of(path.join("../a/.")), before);
        std::fs::rename(&path, &other).unwrap();
        assert_eq!(Place::of(&path), None);
        std::fs::create_dir(&path).unwrap();
        assert_ne!(Place::of(&path), before);
        assert_eq!(Place::of(&other), before);
    }

    #[test]
    fn the_working_directory_is_in_place() {
        let own = std::process::id().cast_signed();
        let path = std::env::current_dir().unwrap();
        assert_eq!(Place::of_task(own), Place::of(&path));
        assert!(is_own_in_place(&path));
        assert!(!is_own_in_place(&path.join("..")));
    }
}
