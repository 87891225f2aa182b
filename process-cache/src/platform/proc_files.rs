//! Files below `/proc`.

use ptrace_async::event::Tid;
use ptrace_async::process::FdInfo;

/// Files with the answers of uname(2), except those common to all Linux systems on this
/// architecture.
pub const NAMES: [&str; 4] = [
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/domainname",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/version",
];
/// The control groups of a process. Those of a run are those of pcache.
pub const GROUP: &str = "/proc/self/cgroup";

/// Returns the status flags of a descriptor.
pub fn open_flags(tid: Tid, fd: i32) -> Option<i32> {
    FdInfo::read(tid, fd).ok()?.flags()
}

/// Returns the position of a descriptor.
pub fn position(tid: Tid, fd: i32) -> Option<u64> {
    FdInfo::read(tid, fd).ok()?.position()
}
