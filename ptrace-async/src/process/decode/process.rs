//! Calls about processes and the system: execution, directories, identity, time,
//! credentials, limits.

use std::path::PathBuf;

use super::context::{AT_FDCWD, EntryContext};
use super::step::ExitStep;
use crate::event::{FileRef, Identity, IoEvent, PathRef};
use crate::process::commands::NEW_NAMESPACES;
use crate::process::nr;

const CLONE_UNTRACED: u64 = 0x0080_0000;
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
const CLONE_NEWTIME: u64 = 0x80;

impl EntryContext<'_> {
    pub(super) fn identity(&mut self, what: Identity) -> Option<ExitStep> {
        self.push(IoEvent::Identity { what });
        None
    }

    pub(super) fn shared(&mut self, what: &'static str) -> Option<ExitStep> {
        self.push(IoEvent::SharedMemory { what });
        None
    }

    /// A piece of state that changes if the call succeeds.
    pub(super) fn state(&mut self, what: &'static str) -> Option<ExitStep> {
        Some(ExitStep::Report(IoEvent::StateChange { what }))
    }

    pub(super) fn clock(&mut self, clock: i32) -> Option<ExitStep> {
        let processor_time =
            clock == libc::CLOCK_PROCESS_CPUTIME_ID || clock == libc::CLOCK_THREAD_CPUTIME_ID;
        if self.nr != nr::clock_gettime || !processor_time {
            self.push(IoEvent::Clock { clock });
        }
        None
    }

    pub(super) fn random(&mut self) -> Option<ExitStep> {
        self.push(IoEvent::Random {
            length: self.args[1],
            flags: self.uint(2),
        });
        None
    }

    pub(super) fn limit(&mut self) -> Option<ExitStep> {
        let resource = self.int(0);
        Some(ExitStep::Report(IoEvent::SetLimit { resource }))
    }

    pub(super) fn limit_of(&mut self) -> Option<ExitStep> {
        let (process, resource) = (self.int(0), self.int(1));
        if process != 0 && !self.is_own_process(process) {
            return self.state("limits of another process");
        }
        Some(ExitStep::Report(IoEvent::SetLimit { resource }))
    }

    pub(super) fn is_own_process(&self, process: i32) -> bool {
        self.model.tgid(self.tid) == Some(process)
    }
}

// Execution and places.
impl EntryContext<'_> {
    pub(super) fn exec(
        &mut self,
        dirfd: i32,
        address: u64,
        (argv, envp): (u64, u64),
        flags: i32,
    ) -> Option<ExitStep> {
        let path = match self.file_ref(dirfd, address, flags)? {
            FileRef::Path(path) => path,
            FileRef::File(file) => {
                let path = file.path.clone().unwrap_or_else(|| {
                    self.unsupported("the program that is executed has no path");
                    PathBuf::from(format!("/proc/self/fd/{dirfd}"))
                });
                PathRef::followed(path)
            }
        };
        self.push(IoEvent::ExecAttempt {
            path: path.clone(),
            argv,
            envp,
        });
        Some(ExitStep::Exec { path })
    }

    /// The task itself is announced by `Processes::spawned`; here is only what
    /// the flags do besides.
    pub(super) fn clone(&mut self, flags: u64, pidfd: u64) -> Option<ExitStep> {
        if flags & CLONE_UNTRACED != 0 {
            self.unsupported("the child asks not to be traced");
        }
        if flags & libc::CLONE_PARENT as u64 != 0 {
            self.unsupported("the child becomes a sibling");
        }
        if flags & u64::from(NEW_NAMESPACES) != 0 {
            self.push(IoEvent::StateChange { what: "namespaces" });
        }
        let pidfd_wanted = flags & libc::CLONE_PIDFD as u64 != 0;
        pidfd_wanted.then_some(ExitStep::ClonePidfd { address: pidfd })
    }

    /// `struct clone_args { u64 flags, pidfd, child_tid, parent_tid, .. }`
    pub(super) fn clone3(&mut self) -> Option<ExitStep> {
        let flags = self.memory.read_u64(self.args[0]).ok()?;
        let pidfd = self.memory.read_u64(self.args[0].wrapping_add(8)).ok()?;
        if flags & CLONE_NEWTIME != 0 {
            self.push(IoEvent::StateChange { what: "namespaces" });
        }
        if flags & CLONE_INTO_CGROUP != 0 {
            self.push(IoEvent::StateChange {
                what: "control group",
            });
        }
        self.clone(flags, pidfd)
    }

    /// The path as it was given is a lookup; where the kernel ends up is known
    /// after it.
    pub(super) fn chdir(&mut self) -> Option<ExitStep> {
        let path = self.path(AT_FDCWD, self.args[0], true)?;
        self.push(IoEvent::Find { path: path.clone() });
        Some(ExitStep::ChangeDir { path: Some(path) })
    }

    pub(super) fn fchdir(&mut self) -> Option<ExitStep> {
        let file = self.file(self.int(0))?;
        let path = file.path.clone();
        let path = path.map(PathRef::followed);
        Some(ExitStep::ChangeDir { path })
    }

    pub(super) fn chroot(&mut self) -> Option<ExitStep> {
        let path = self.path(AT_FDCWD, self.args[0], true)?;
        self.push(IoEvent::Find { path: path.clone() });
        Some(ExitStep::ChangeRoot { path })
    }

    /// Cannot fail.
    pub(super) fn umask(&mut self) -> Option<ExitStep> {
        let mask = self.uint(0) & 0o777;
        if let Some(location) = self.model.location_mut(self.tid) {
            location.umask = mask;
        }
        self.push(IoEvent::Umask { mask });
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::testing::{CWD, Case, TID};

    #[test]
    fn executions_are_reported_before_and_when_they_fail() {
        let mut case = Case::new();
        case.open("/bin", libc::O_PATH, 3);
        let (path, empty) = (case.text("prog"), case.text(""));
        let failed = ["exec /base/prog", "exec /base/prog fails 2"];
        case.check(nr::execve, &[path, 1, 2], -2, &failed);
        case.check(nr::execve, &[path, 1, 2], 0, &["exec /base/prog"]);
        case.check(nr::execveat, &[3, path, 1, 2, 0], 0, &["exec /bin/prog"]);
        let flags = libc::AT_EMPTY_PATH as u64;
        case.check(nr::execveat, &[3, empty, 1, 2, flags], 0, &["exec /bin"]);
        case.call(nr::memfd_create, &[0, 0], 4);
        let expected = [
            "unsupported execveat: the program that is executed has no path",
            "exec /proc/self/fd/4",
        ];
        case.check(nr::execveat, &[4, empty, 1, 2, flags], 0, &expected);
        case.check(nr::execve, &[0, 1, 2], -14, &[]);
    }

    #[test]
    fn a_change_of_directory_moves_relative_paths() {
        let mut case = Case::new();
        case.check_path(
            nr::chdir,
            "sub/",
            &[],
            &["find /base/sub", "chdir /base/sub"],
        );
        case.check_path(nr::stat, "x", &[], &["stat /base/sub/x"]);
        let path = case.text("no");
        let expected = ["find /base/sub/no", "chdir /base/sub/no fails 2"];
        case.check(nr::chdir, &[path], -2, &expected);
        assert_eq!(case.model.cwd(TID), Some("/base/sub".as_ref()));
        case.open("/etc", libc::O_PATH, 3);
        case.check(nr::fchdir, &[3], 0, &["chdir /etc"]);
    }

    #[test]
    fn clone_flags_decide_which_state_is_shared() {
        let mut case = Case::new();
        let thread =
            (libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_THREAD) as u64;
        case.model.spawned(TID, TID + 1, thread);
        case.model.spawned(TID, TID + 2, 0);
        assert_eq!(case.model.tgid(TID + 1), Some(TID));
        assert_eq!(case.model.tgid(TID + 2), Some(TID + 2));
        case.call_by(TID + 1, nr::close, &[0], 0);
        case.call_by(TID + 1, nr::umask, &[0o77], 0);
        let path = case.text("/x");
        case.call_by(TID + 1, nr::chdir, &[path], 0);
        assert_eq!(case.descriptors(TID), "1 2");
        assert_eq!(case.model.cwd(TID), Some("/x".as_ref()));
        assert_eq!(case.model.umask(TID), 0o77);
        assert_eq!(case.descriptors(TID + 2), "0 1 2");
        assert_eq!(case.model.cwd(TID + 2), Some("/base".as_ref()));
        assert_eq!(case.model.umask(TID + 2), 0o22);
        // Descriptions stay common after a fork.
        let (parent, child) = (
            case.model.file(TID, 1).unwrap(),
            case.model.file(TID + 2, 1).unwrap(),
        );
        assert_eq!(parent.id, child.id);
        case.check(nr::unshare, &[libc::CLONE_FILES as u64], 0, &[]);
        case.call(nr::close, &[1], 0);
        assert_eq!(case.descriptors(TID + 1), "1 2");
        let namespace = libc::CLONE_NEWNS as u64;
        case.check(nr::unshare, &[namespace], 0, &["state namespaces"]);
    }

    #[test]
    fn exec_by_any_thread_leaves_the_leader_with_the_callers_table() {
        let mut case = Case::new();
        let thread = (libc::CLONE_FILES | libc::CLONE_FS | libc::CLONE_THREAD) as u64;
        case.model.spawned(TID, TID + 1, thread);
        case.model.spawned(TID, TID + 2, thread);
        // A process that shares the table without being a thread keeps the table.
        case.model.spawned(TID, TID + 3, libc::CLONE_FILES as u64);
        case.call(nr::fcntl, &[2, libc::F_SETFD as u64, 1], 0);
        case.model.exec(TID, TID + 1);
        assert_eq!(case.model.tasks().count(), 2);
        assert_eq!(case.model.tgid(TID), Some(TID));
        assert_eq!(case.descriptors(TID), "0 1");
        assert_eq!(case.descriptors(TID + 3), "0 1 2*");
        case.model.exited(TID + 3);
        case.model.exited(TID);
        assert_eq!(case.model.tables.len(), 0);
        assert_eq!(case.model.locations.len(), 0);
    }

    #[test]
    fn clones_report_their_other_effects() {
        let mut case = Case::new();
        case.check(nr::clone, &[0x11], 5, &[]);
        let pidfd = case.ints(&[7]);
        case.check(nr::clone, &[0x1011, 0, pidfd], 5, &[]);
        assert_eq!(case.descriptors(TID), "0 1 2 7*");
        let block = case.words(&[libc::CLONE_NEWUSER as u64, 0]);
        case.check(nr::clone3, &[block, 88], 5, &["state namespaces"]);
        let pidfd = case.ints(&[8]);
        let block = case.words(&[libc::CLONE_PIDFD as u64, pidfd]);
        case.check(nr::clone3, &[block, 88], 5, &[]);
        assert_eq!(case.descriptors(TID), "0 1 2 7* 8*");
        let expected = "unsupported clone: the child asks not to be traced";
        case.check(nr::clone, &[CLONE_UNTRACED], 5, &[expected]);
    }

    #[test]
    fn time_randomness_and_identity_are_reported() {
        let mut case = Case::new();
        case.check(nr::clock_gettime, &[0], 0, &["clock 0"]);
        case.check(nr::clock_gettime, &[2], 0, &[]);
        case.check(nr::gettimeofday, &[0], 0, &["clock -1"]);
        case.check(nr::time, &[3], 0, &["clock -1"]);
        case.check(nr::getrandom, &[0, 8, 1], 8, &["random 8 1"]);
        case.check(nr::uname, &[0], 0, &["identity Uname"]);
        case.check(nr::sched_getaffinity, &[0], 0, &["identity Affinity"]);
        case.check(nr::getpriority, &[0], 0, &["identity Scheduling"]);
        case.check(nr::process_vm_readv, &[TID as u64], 0, &[]);
        case.check(nr::process_vm_readv, &[1], 0, &["identity OtherProcess"]);
        assert!(!case.exited);
    }

    #[test]
    fn limits_and_state_changes_are_reported() {
        let mut case = Case::new();
        case.check(nr::prlimit64, &[0, 7, 0, 0x1000], 0, &[]);
        case.check(nr::prlimit64, &[0, 7, 0x1000, 0], 0, &["limit 7"]);
        case.check(
            nr::prlimit64,
            &[1, 7, 0, 0x1000],
            0,
            &["identity OtherProcess"],
        );
        case.check(nr::setrlimit, &[4, 0x1000], -1, &[]);
        case.check(nr::setuid, &[0], 0, &["state credentials"]);
        case.check(nr::mount, &[0], 0, &["state mounts"]);
        case.check(nr::setsid, &[], 5, &["state session"]);
        case.check(nr::umask, &[0o1077], 0o22, &["umask 77"]);
        case.check(nr::personality, &[0xffff_ffff], 0, &[]);
        case.check(nr::personality, &[0x0004_0000], 0, &["state personality"]);
        case.check(nr::shmget, &[0], 0, &["shared System V shared memory"]);
        case.check(nr::seccomp, &[1, 0], 0, &["state seccomp filter"]);
        case.check(nr::prctl, &[15], 0, &[]);
        case.check(nr::prctl, &[1, 9], 0, &[]);
        case.check(nr::prctl, &[24, 1], 0, &["state capabilities"]);
        let expected = "unsupported prctl: a prctl option that is not modelled";
        case.check(nr::prctl, &[12345], 0, &[expected]);
    }

    #[test]
    fn every_syscall_is_decoded_with_any_arguments() {
        let values = [0, 1, 3, 9, 0x10_000, 0xffff_ffff, u64::MAX, CWD];
        for number in (0..nr::END + 3).chain([0x4000_0000, u64::MAX]) {
            for value in values {
                for result in [-512, -22, 0, 5, i64::from(i32::MAX), i64::MAX, i64::MIN] {
                    let mut case = Case::new();
                    case.words(&[value; 16]);
                    let events = case.call(number, &[value; 6], result);
                    let guessed = events.iter().any(|event| {
                        matches!(
                            event,
                            IoEvent::Unsupported {
                                reason: "not modelled",
                                ..
                            }
                        )
                    });
                    assert_eq!(guessed, nr::name(number) == "unknown", "{number}");
                }
            }
        }
    }

    #[test]
    fn an_unknown_task_is_reported_and_not_followed() {
        let mut case = Case::new();
        let events = case.call_by(TID + 9, nr::close, &[0], 0);
        assert!(matches!(events[..], [IoEvent::Unsupported { .. }]));
        case.model.spawned(TID + 9, TID + 10, 0);
        case.model.exec(TID + 11, TID + 11);
        case.model.exited(TID + 12);
        assert_eq!(case.model.cwd(TID + 9), None);
        assert_eq!(case.descriptors(TID + 9), "");
    }
}
