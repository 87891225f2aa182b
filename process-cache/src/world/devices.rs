//! Properties of files that depend on their file system.

use std::path::Path;
use std::sync::Mutex;

use rustc_hash::FxHashMap;
use rustix::fs::{Stat, StatFs};

use super::World;
use crate::platform::lock::lock;

/// Properties of file systems by device number.
#[derive(Debug, Default)]
pub(super) struct Devices {
    /// Whether files are computed when they are read.
    volatile: Mutex<FxHashMap<u64, bool>>,
    /// Whether times of files may change after the call that changed the file.
    late: Mutex<FxHashMap<u64, bool>>,
}

impl World {
    /// Whether the kernel computes the content and times of the file.
    pub(crate) fn is_made_up(&self, path: &Path) -> bool {
        rustix::fs::stat(path)
            .is_ok_and(|stat| self.is_volatile(&stat, || rustix::fs::statfs(path)))
    }

    /// Whether the file's content can change without a change of its times, because the kernel
    /// computes it when it is read.
    pub(super) fn is_volatile(
        &self,
        stat: &Stat,
        file_system: impl FnOnce() -> rustix::io::Result<StatFs>,
    ) -> bool {
        // Such file systems have anonymous devices.
        if rustix::fs::major(stat.st_dev) != 0 {
            return false;
        }
        let mut known = lock(&self.devices.volatile);
        if let Some(volatile) = known.get(&stat.st_dev) {
            return *volatile;
        }
        let Ok(found) = file_system() else {
            return true;
        };
        let volatile = VOLATILE.contains(&(found.f_type as u32));
        known.insert(stat.st_dev, volatile);
        volatile
    }
}

impl World {
    /// Whether the file system may change a file's times after the call that changed the file, as
    /// those of a network do when the server answers.
    pub(crate) fn sets_times_later(&self, device: u64, path: &Path) -> bool {
        let mut known = lock(&self.devices.late);
        if let Some(late) = known.get(&device) {
            return *late;
        }
        let at = path.parent().unwrap_or(path);
        let Ok(found) = rustix::fs::statfs(at) else {
            return true;
        };
        let late = !AT_ONCE.contains(&(found.f_type as u32));
        known.insert(device, late);
        late
    }
}

/// Magic numbers (linux/magic.h) of file systems that set times during the call.
const AT_ONCE: [u32; 14] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x794c_7630, // overlayfs
    0x2fc1_2fc1, // zfs
    0xf2f5_2010, // f2fs
    0xca45_1a4e, // bcachefs
    0x5265_4973, // reiserfs
    0x3153_464a, // jfs
    0x3434,      // nilfs2
    0x4d44,      // fat
    0x2011_bab0, // exfat
];

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
