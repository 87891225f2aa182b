//! The surroundings of a process: its namespaces and its root directory.
//!
//! Facts are asked by the tracer. They are facts of a traced process only if both see the same
//! files, ids and processes. A stand-in is executed through `/proc`, which only a process with the
//! same namespaces and the same root directory can be trusted to reach.

use ptrace_async::event::Tid;

use super::place::Place;

/// All namespaces (namespaces(7)).
const NAMESPACES: [&str; 10] = [
    "user",
    "mnt",
    "pid",
    "pid_for_children",
    "net",
    "uts",
    "ipc",
    "cgroup",
    "time",
    "time_for_children",
];

/// The namespaces of a process and its root directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surroundings {
    /// Device and inode of each namespace; `None` if the kernel does not have its kind.
    namespaces: [Option<(u64, u64)>; NAMESPACES.len()],
    /// The root directory.
    root: Place,
}

impl Surroundings {
    /// Returns the surroundings of a process (`None`: this process). Unknown surroundings are
    /// `None`: the process has ended, or this process may not look.
    pub fn of(process: Option<Tid>) -> Option<Self> {
        let base = process.map_or_else(|| "/proc/self".to_owned(), |tid| format!("/proc/{tid}"));
        let mut namespaces = [None; NAMESPACES.len()];
        for (found, name) in namespaces.iter_mut().zip(NAMESPACES) {
            *found = match rustix::fs::stat(format!("{base}/ns/{name}")) {
                Ok(stat) => Some((stat.st_dev, stat.st_ino)),
                Err(rustix::io::Errno::NOENT) => None,
                Err(_) => return None,
            };
        }
        namespaces[0]?;
        let root = format!("{base}/root");
        let root = Place::of(format!("{root}/."))?;
        Some(Self { namespaces, root })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_its_own_surroundings() {
        let own = Surroundings::of(None).expect("this process exists");
        let same = Surroundings::of(Some(std::process::id().cast_signed()));
        assert_eq!(same, Some(own));
        assert_eq!(Surroundings::of(Some(i32::MAX)), None);
    }
}
