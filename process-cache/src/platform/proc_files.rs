//! Files below `/proc`.

use ptrace_async::event::Tid;

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
    i32::from_str_radix(&fdinfo(tid, fd, "flags:")?, 8).ok()
}

/// The position of a descriptor.
pub fn position(tid: Tid, fd: i32) -> Option<u64> {
    fdinfo(tid, fd, "pos:")?.parse().ok()
}

/// Reads one field of `/proc/TID/fdinfo` for a descriptor.
fn fdinfo(tid: Tid, fd: i32, name: &str) -> Option<String> {
    let info = std::fs::read_to_string(format!("/proc/{tid}/fdinfo/{fd}")).ok()?;
    let value = info.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().to_owned())
}
