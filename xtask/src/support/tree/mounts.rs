//! Mounts that a run left in its tree.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use nix::mount::{MntFlags, umount2};

/// Unmounts everything that is mounted in a tree, for the namespace of this thread.
///
/// # Errors
///
/// When something stays mounted.
pub(crate) fn unmount_in(root: &Path) -> anyhow::Result<()> {
    // The last mount hides the others.
    for path in mounted_in(root)?.iter().rev() {
        // Lazily: a process that was left behind may still be in it.
        let _ = umount2(path, MntFlags::MNT_DETACH);
    }
    if let Some(path) = mounted_in(root)?.first() {
        bail!("{} stays mounted", path.display());
    }
    Ok(())
}

fn mounted_in(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mounts =
        std::fs::read("/proc/thread-self/mountinfo").context("reading this thread's mounts")?;
    let points = mounts.split(|&byte| byte == b'\n').filter_map(mount_point);
    Ok(points.filter(|path| path.starts_with(root)).collect())
}

/// Returns the mount point of a line of mountinfo (proc_pid_mountinfo(5)).
fn mount_point(line: &[u8]) -> Option<PathBuf> {
    let field = line.split(|&byte| byte == b' ').nth(4)?;
    let mut path = Vec::new();
    let mut bytes = field.iter();
    while let Some(&byte) = bytes.next() {
        path.push(match byte {
            b'\\' => {
                let digits = bytes.by_ref().take(3);
                digits.fold(0, |value: u8, digit| {
                    value.wrapping_mul(8).wrapping_add(digit.wrapping_sub(b'0'))
                })
            }
            _ => byte,
        });
    }
    Some(OsString::from_vec(path).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_may_have_a_space() {
        let line = br"36 35 98:0 /mnt1 /mnt\0402/a rw,noatime - ext3 /dev/root rw";
        assert_eq!(mount_point(line), Some("/mnt 2/a".into()));
        assert_eq!(mount_point(b"36 35"), None);
    }

    #[test]
    fn a_tree_without_mounts_is_left_alone() {
        let tree = tempfile::tempdir().unwrap();
        unmount_in(tree.path()).unwrap();
    }
}
