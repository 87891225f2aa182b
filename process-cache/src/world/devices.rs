//! What the times of a file say about its content, by file system.

use std::sync::{Mutex, OnceLock, PoisonError};

use rustc_hash::FxHashMap;
use rustix::fs::{Stat, StatFs};

use super::World;

/// What is known of the file systems behind device numbers.
#[derive(Debug, Default)]
pub(super) struct Devices(Mutex<FxHashMap<u64, Device>>);

/// One of them.
#[derive(Debug, Clone, Copy)]
struct Device {
    /// Its files are made up when they are read.
    volatile: bool,
    /// Of its files, no two states that somebody looked at have the same times.
    tells_changes: bool,
}

impl Devices {
    fn of(
        &self,
        stat: &Stat,
        file_system: impl FnOnce() -> rustix::io::Result<StatFs>,
    ) -> Option<Device> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = known.get(&stat.st_dev) {
            return Some(*device);
        }
        let magic = file_system().ok()?.f_type as u32;
        let device = Device {
            volatile: VOLATILE.contains(&magic),
            tells_changes: MULTIGRAIN.contains(&magic) && multigrain(),
        };
        known.insert(stat.st_dev, device);
        Some(device)
    }
}

impl World {
    /// Whether the file's content can change without its times telling: where
    /// the kernel makes it up when it is read.
    pub(super) fn is_volatile(
        &self,
        stat: &Stat,
        file_system: impl FnOnce() -> rustix::io::Result<StatFs>,
    ) -> bool {
        // Such file systems have anonymous devices.
        rustix::fs::major(stat.st_dev) == 0
            && self
                .devices
                .of(stat, file_system)
                .is_none_or(|device| device.volatile)
    }

    /// Whether a change of the file after it was looked at always gives it other
    /// times, however soon. (Where they are whole seconds, who knows.)
    pub(super) fn tells_changes(
        &self,
        stat: &Stat,
        file_system: impl FnOnce() -> rustix::io::Result<StatFs>,
    ) -> bool {
        !(stat.st_mtime_nsec == 0 && stat.st_ctime_nsec == 0)
            && self
                .devices
                .of(stat, file_system)
                .is_some_and(|device| device.tells_changes)
    }
}

/// Whether the kernel gives a file that was looked at a time of its own when it
/// changes (since Linux 6.13; its documentation, filesystems/multigrain-ts).
fn multigrain() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let uname = rustix::system::uname();
        version(uname.release().to_bytes()).is_some_and(|version| version >= (6, 13))
    })
}

/// The first two numbers of a kernel's release.
fn version(release: &[u8]) -> Option<(u32, u32)> {
    let release = std::str::from_utf8(release).ok()?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?))
}

/// Magic numbers (linux/magic.h) of file systems whose files are computed.
const VOLATILE: [u32; 12] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x7363_6673, // securityfs
    0x6265_6570, // configfs
    0xde5e_81e4, // efivarfs
    0xcafe_4a11, // bpf
    0x1cd1,      // devpts
    0xf97c_ff8c, // selinux
];

/// Of those that have `FS_MGTIME`. (ext2 has the number of ext4, but whole
/// seconds.)
const MULTIGRAIN: [u32; 4] = [
    0xef53,      // ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0x0102_1994, // tmpfs
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_a_version() {
        assert_eq!(version(b"6.13.0-rc1-generic"), Some((6, 13)));
        assert_eq!(version(b"6.6-custom"), Some((6, 6)));
        assert_eq!(version(b"10.2"), Some((10, 2)));
        assert_eq!(version(b"unknown"), None);
        assert!(version(b"6.13").unwrap() > version(b"6.9.1").unwrap());
    }

    /// What the digest table relies on, where it does.
    #[test]
    fn a_file_that_was_looked_at_changes_its_times() {
        let world = World::new(crate::store::DigestTable::in_memory());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut file = std::fs::File::create(&path).unwrap();
        let stat = || rustix::fs::stat(&path).unwrap();
        if !world.tells_changes(&stat(), || rustix::fs::statfs(&path)) {
            return;
        }
        for n in 0..1000_u32 {
            let before = stat();
            std::io::Seek::rewind(&mut file).unwrap();
            std::io::Write::write_all(&mut file, &n.to_le_bytes()).unwrap();
            let after = stat();
            assert_ne!(
                (before.st_mtime, before.st_mtime_nsec),
                (after.st_mtime, after.st_mtime_nsec)
            );
        }
    }
}
