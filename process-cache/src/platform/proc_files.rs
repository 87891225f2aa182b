//! Files below `/proc`.

use ptrace_async::event::Tid;
use ptrace_async::process::FdInfo;

/// Files that say what uname(2) says, apart from what all Linux systems on this
/// architecture have in common.
pub const NAMES: [&str; 4] = [
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/domainname",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/version",
];
/// The control groups of a process. Those of a run are ours.
pub const GROUP: &str = "/proc/self/cgroup";

/// The status flags of a descriptor.
pub fn open_flags(tid: Tid, fd: i32) -> Option<i32> {
    FdInfo::read(tid, fd).ok()?.flags()
}

/// The position of a descriptor.
pub fn position(tid: Tid, fd: i32) -> Option<u64> {
    FdInfo::read(tid, fd).ok()?.position()
}
