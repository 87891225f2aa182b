//! What can be expected of files, by file system.

use std::sync::{Mutex, PoisonError};

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
    /// Reading its files waits for nobody else, and nobody sees them open.
    local: bool,
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
            local: LOCAL.contains(&magic),
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

    /// Whether reading the file waits for nobody else, and nobody sees that it is
    /// open: a server of files might be one of the traced programs, and on some
    /// file systems a directory cannot be removed while a file is open that was
    /// in it.
    pub(super) fn is_local(
        &self,
        stat: &Stat,
        file_system: impl FnOnce() -> rustix::io::Result<StatFs>,
    ) -> bool {
        self.devices
            .of(stat, file_system)
            .is_some_and(|device| device.local)
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

/// Of those that are on a disk of this machine.
const LOCAL: [u32; 3] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
];
