//! Properties of files that depend on their file system.

use std::path::Path;
use std::sync::Mutex;

use rustc_hash::FxHashMap;
use rustix::fs::{Stat, StatFs};

use super::World;
use crate::platform::lock::lock;

/// For each file system by its device number, whether its files are computed when they are read.
#[derive(Debug, Default)]
pub(super) struct Devices(Mutex<FxHashMap<u64, bool>>);

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
        let mut known = lock(&self.devices.0);
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
