//! Calls about processes and the system: execution, places, identity, time,
//! signals, credentials, limits.

use std::path::PathBuf;

use super::decode::{AT_FDCWD, Context, Step};
use super::{nr, proc};
use crate::event::{Identity, IoEvent, PathRef, Place};

const CLONE_UNTRACED: u64 = 0x0080_0000;
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
/// Every `CLONE_NEW*`, `CLONE_NEWTIME` (which only clone3 and unshare know) apart.
pub(super) const NEW_NAMESPACES: u32 = 0x7e02_0000;
const CLONE_NEWTIME: u64 = 0x80;

pub(super) const PR_SET_VMA: u32 = 0x5356_4d41;
const PR_SET_PTRACER: i32 = 0x5961_6d61;
const PR_CAP_AMBIENT_IS_SET: i32 = 1;
const SECCOMP_SET_MODE_FILTER: u32 = 1;
const SECCOMP_FILTER_FLAG_NEW_LISTENER: u32 = 8;

impl Context<'_> {
    #[expect(clippy::too_many_lines, reason = "a table")]
    pub(super) fn dispatch_process(&mut self) -> Option<Step> {
        let a = self.args;
        match self.nr {
            nr::execve => self.exec(AT_FDCWD, a[0], (a[1], a[2]), 0),
            nr::execveat => self.exec(self.int(0), a[1], (a[2], a[3]), self.int(4)),
            nr::clone => self.clone(self.args[0] & 0xffff_ff00, a[2]),
            nr::clone3 => self.clone3(),
            nr::unshare => Some(Step::Unshare { flags: a[0] }),
            nr::setns => Some(Step::Relocated {
                what: "namespaces",
                everyone: false,
            }),

            nr::chdir => self.chdir(),
            nr::fchdir => self.fchdir(),
            nr::chroot => self.chroot(),
            nr::pivot_root => Some(Step::Relocated {
                what: "mounts",
                everyone: true,
            }),
            nr::umask => self.umask(),

            nr::clock_gettime => self.clock(self.int(0)),
            nr::gettimeofday | nr::time => self.clock(-1),
            nr::getrandom => self.random(),
            nr::uname => self.identity(Identity::Uname),
            nr::sched_getaffinity => self.identity(Identity::Affinity),
            nr::getcpu => self.identity(Identity::Cpu),
            nr::sysinfo => self.identity(Identity::Sysinfo),
            nr::getpriority
            | nr::ioprio_get
            | nr::sched_getscheduler
            | nr::sched_getparam
            | nr::sched_getattr
            | nr::sched_rr_get_interval => self.identity(Identity::Scheduling),
            nr::kcmp => self.identity(Identity::OtherProcess),
            nr::process_vm_readv if self.is_own_process(self.int(0)) => None,
            nr::process_vm_readv => self.identity(Identity::OtherProcess),

            nr::kill => self.kill(self.int(0), self.int(1)),
            nr::tgkill => self.kill(self.int(0), self.int(2)),
            nr::tkill => self.tkill(),
            nr::rt_sigqueueinfo => self.kill(self.int(0), self.int(1)),
            nr::rt_tgsigqueueinfo => self.kill(self.int(0), self.int(2)),
            nr::pidfd_send_signal => self.pidfd_send_signal(),

            nr::setrlimit => self.limit(),
            nr::prlimit64 if a[2] != 0 => self.limit_of(),
            nr::prlimit64 if self.int(0) == 0 || self.is_own_process(self.int(0)) => None,
            nr::prlimit64 => self.identity(Identity::OtherProcess),
            nr::prctl => self.prctl(),
            nr::personality if self.uint(0) == u32::MAX => None,
            nr::personality => self.state("personality"),
            nr::seccomp => self.seccomp(),
            nr::landlock_restrict_self => self.state("landlock restrictions"),
            nr::landlock_add_rule => None,

            nr::setuid
            | nr::setgid
            | nr::setreuid
            | nr::setregid
            | nr::setresuid
            | nr::setresgid
            | nr::setfsuid
            | nr::setfsgid
            | nr::setgroups => self.state("credentials"),
            nr::capset => self.state("capabilities"),
            nr::setpgid => self.state("process group"),
            nr::setsid => self.state("session"),
            nr::setpriority => self.state("priority"),
            nr::ioprio_set => self.state("input and output priority"),
            nr::sched_setscheduler | nr::sched_setparam | nr::sched_setattr => {
                self.state("scheduling policy")
            }
            nr::sched_setaffinity => self.state("processor affinity"),
            nr::mount | nr::umount2 | nr::move_mount | nr::mount_setattr | nr::fsconfig => {
                self.state("mounts")
            }
            nr::swapon | nr::swapoff => self.state("swap space"),
            nr::sethostname | nr::setdomainname => self.state("host name"),
            nr::clock_settime | nr::settimeofday | nr::adjtimex | nr::clock_adjtime => {
                self.state("system clock")
            }
            nr::reboot | nr::kexec_load | nr::kexec_file_load => self.state("the machine"),
            nr::init_module | nr::finit_module | nr::delete_module => self.state("kernel modules"),
            nr::acct | nr::quotactl | nr::quotactl_fd => self.state("accounting and quotas"),
            nr::iopl | nr::ioperm => self.state("port permissions"),
            nr::vhangup => self.state("terminal"),
            nr::lsm_set_self_attr => self.state("security attributes"),

            nr::shmget | nr::shmat | nr::shmctl => self.shared("System V shared memory"),
            nr::semget | nr::semop | nr::semtimedop | nr::semctl => {
                self.shared("System V semaphore")
            }
            nr::msgget | nr::msgsnd | nr::msgrcv | nr::msgctl => {
                self.shared("System V message queue")
            }
            nr::mq_unlink
            | nr::mq_timedsend
            | nr::mq_timedreceive
            | nr::mq_notify
            | nr::mq_getsetattr => self.shared("POSIX message queue"),

            nr::ptrace => self.unsupported("a tracee cannot trace"),
            nr::process_vm_writev => self.unsupported("memory of another process is written"),
            nr::process_madvise | nr::process_mrelease => {
                self.unsupported("memory of another process is managed")
            }
            nr::move_pages | nr::migrate_pages if self.int(0) == 0 => None,
            nr::move_pages | nr::migrate_pages => {
                self.unsupported("memory of another process is managed")
            }
            nr::io_submit => self.unsupported("asynchronous input and output is not followed"),
            nr::io_uring_enter | nr::io_uring_register => {
                self.unsupported("operations through io_uring are not seen")
            }
            nr::fanotify_mark => self.unsupported("fanotify watches files of other processes"),
            nr::name_to_handle_at => self.unsupported("file handles are not modelled"),
            nr::add_key | nr::request_key | nr::keyctl => {
                self.unsupported("key rings are not modelled")
            }
            nr::syslog => self.unsupported("the kernel's log"),
            nr::ustat | nr::sysfs => self.unsupported("file system tables are not modelled"),
            nr::statmount | nr::listmount | nr::listns => {
                self.unsupported("mount and namespace tables are not modelled")
            }
            nr::file_getattr | nr::file_setattr => self.unsupported("inode flags are not modelled"),
            nr::cachestat => self.unsupported("the state of the page cache"),
            nr::lsm_get_self_attr | nr::lsm_list_modules => {
                self.unsupported("security modules are not modelled")
            }
            nr::uretprobe | nr::uprobe => self.unsupported("a probe watches the program"),
            nr::lookup_dcookie
            | nr::uselib
            | nr::_sysctl
            | nr::nfsservctl
            | nr::getpmsg
            | nr::putpmsg
            | nr::afs_syscall
            | nr::tuxcall
            | nr::security
            | nr::vserver
            | nr::epoll_ctl_old
            | nr::epoll_wait_old
            | nr::create_module
            | nr::get_kernel_syms
            | nr::query_module => self.unsupported("kernels have only the number"),

            _ => self.unclaimed(),
        }
    }

    fn identity(&mut self, what: Identity) -> Option<Step> {
        self.push(IoEvent::Identity { what });
        None
    }

    fn shared(&mut self, what: &'static str) -> Option<Step> {
        self.push(IoEvent::SharedMemory { what });
        None
    }

    /// A piece of state that changes if the call succeeds.
    fn state(&mut self, what: &'static str) -> Option<Step> {
        Some(Step::Report(IoEvent::StateChange { what }))
    }

    fn clock(&mut self, clock: i32) -> Option<Step> {
        let processor_time =
            clock == libc::CLOCK_PROCESS_CPUTIME_ID || clock == libc::CLOCK_THREAD_CPUTIME_ID;
        if self.nr != nr::clock_gettime || !processor_time {
            self.push(IoEvent::Clock { clock });
        }
        None
    }

    fn random(&mut self) -> Option<Step> {
        self.push(IoEvent::Random {
            length: self.args[1],
            flags: self.uint(2),
        });
        None
    }

    fn limit(&mut self) -> Option<Step> {
        let resource = self.int(0);
        Some(Step::Report(IoEvent::SetLimit { resource }))
    }

    fn limit_of(&mut self) -> Option<Step> {
        let (process, resource) = (self.int(0), self.int(1));
        if process != 0 && !self.is_own_process(process) {
            return self.state("limits of another process");
        }
        Some(Step::Report(IoEvent::SetLimit { resource }))
    }

    fn is_own_process(&self, process: i32) -> bool {
        self.model.tgid(self.tid) == Some(process)
    }
}

// Execution and places.
impl Context<'_> {
    fn exec(
        &mut self,
        dirfd: i32,
        address: u64,
        (argv, envp): (u64, u64),
        flags: i32,
    ) -> Option<Step> {
        let path = match self.place(dirfd, address, flags)? {
            Place::Path(path) => path,
            Place::File(file) => {
                let path = file.path.clone().unwrap_or_else(|| {
                    self.unsupported("the program that is executed has no path");
                    PathBuf::from(format!("/proc/self/fd/{dirfd}"))
                });
                PathRef { path, follow: true }
            }
        };
        self.push(IoEvent::ExecAttempt {
            path: path.clone(),
            argv,
            envp,
        });
        Some(Step::Exec { path })
    }

    /// The task itself is announced by `Processes::spawned`; here is only what
    /// the flags do besides.
    fn clone(&mut self, flags: u64, pidfd: u64) -> Option<Step> {
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
        pidfd_wanted.then_some(Step::ClonePidfd { address: pidfd })
    }

    /// `struct clone_args { u64 flags, pidfd, child_tid, parent_tid, .. }`
    fn clone3(&mut self) -> Option<Step> {
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
    fn chdir(&mut self) -> Option<Step> {
        let path = self.path(AT_FDCWD, self.args[0], true)?;
        self.push(IoEvent::Stat { path: path.clone() });
        Some(Step::ChangeDir { path: Some(path) })
    }

    fn fchdir(&mut self) -> Option<Step> {
        let file = self.file(self.int(0))?;
        let path = file.path.clone();
        let path = path.map(|path| PathRef { path, follow: true });
        Some(Step::ChangeDir { path })
    }

    fn chroot(&mut self) -> Option<Step> {
        let path = self.path(AT_FDCWD, self.args[0], true)?;
        self.push(IoEvent::Stat { path: path.clone() });
        Some(Step::ChangeRoot { path })
    }

    /// Cannot fail.
    fn umask(&mut self) -> Option<Step> {
        let mask = self.uint(0) & 0o777;
        if let Some(location) = self.model.location_mut(self.tid) {
            location.umask = mask;
        }
        self.push(IoEvent::Umask { mask });
        None
    }
}

// Signals and the process's own state.
impl Context<'_> {
    /// A signal to the process itself stays inside; the attempt is what is
    /// reported, because that a target does not exist is an observation too.
    fn kill(&mut self, target: i32, signal: i32) -> Option<Step> {
        if !self.is_own_process(target) {
            self.push(IoEvent::SignalSent { target, signal });
        }
        None
    }

    fn tkill(&mut self) -> Option<Step> {
        let thread = self.int(0);
        let target = self.model.tgid(thread).unwrap_or(thread);
        self.kill(target, self.int(1))
    }

    fn pidfd_send_signal(&mut self) -> Option<Step> {
        let fd = self.int(0);
        let target = proc::pidfd_target(self.tid, fd).unwrap_or(-1);
        self.kill(target, self.int(1))
    }

    fn seccomp(&mut self) -> Option<Step> {
        if self.uint(0) == SECCOMP_SET_MODE_FILTER {
            if self.uint(1) & SECCOMP_FILTER_FLAG_NEW_LISTENER != 0 {
                return self.fetch("another process answers syscalls");
            }
            return self.state("seccomp filter");
        }
        None
    }

    /// What ends with the process, concerns only how it runs, or merely asks,
    /// is no event.
    fn prctl(&mut self) -> Option<Step> {
        match self.int(0) {
            libc::PR_SET_NAME | libc::PR_GET_NAME => None,
            option if option as u32 == PR_SET_VMA => None,
            // Who may trace or dump the process, and how it dies: its own affair.
            libc::PR_SET_DUMPABLE
            | libc::PR_SET_PDEATHSIG
            | PR_SET_PTRACER
            | libc::PR_MCE_KILL
            | libc::PR_SET_KEEPCAPS => None,
            // Orphans stay below the process, where they are traced as before.
            libc::PR_SET_CHILD_SUBREAPER => None,
            // The tracer's filter has set it already.
            libc::PR_SET_NO_NEW_PRIVS => None,
            // How code and memory are executed and managed, not what it computes.
            libc::PR_SET_TIMERSLACK
            | libc::PR_SET_THP_DISABLE
            | libc::PR_SET_TSC
            | libc::PR_SET_TIMING
            | libc::PR_SET_UNALIGN
            | libc::PR_SET_FPEXC
            | libc::PR_SET_FPEMU
            | libc::PR_SET_SPECULATION_CTRL
            | libc::PR_TASK_PERF_EVENTS_DISABLE
            | libc::PR_TASK_PERF_EVENTS_ENABLE
            | libc::PR_SET_MDWE
            | 67 // PR_SET_MEMORY_MERGE
            => None,
            libc::PR_GET_DUMPABLE
            | libc::PR_GET_PDEATHSIG
            | libc::PR_GET_KEEPCAPS
            | libc::PR_GET_SECCOMP
            | libc::PR_CAPBSET_READ
            | libc::PR_GET_SECUREBITS
            | libc::PR_GET_TIMERSLACK
            | libc::PR_MCE_KILL_GET
            | libc::PR_GET_CHILD_SUBREAPER
            | libc::PR_GET_NO_NEW_PRIVS
            | libc::PR_GET_TID_ADDRESS
            | libc::PR_GET_THP_DISABLE
            | libc::PR_GET_TSC
            | libc::PR_GET_TIMING
            | libc::PR_GET_UNALIGN
            | libc::PR_GET_FPEXC
            | libc::PR_GET_FPEMU
            | libc::PR_GET_ENDIAN
            | libc::PR_GET_SPECULATION_CTRL
            | libc::PR_GET_MDWE
            | 56 // PR_GET_TAGGED_ADDR_CTRL
            | 58 // PR_GET_IO_FLUSHER
            | 68 // PR_GET_MEMORY_MERGE
            | 0x4155_5856 // PR_GET_AUXV
            => None,
            libc::PR_CAP_AMBIENT if self.int(1) == PR_CAP_AMBIENT_IS_SET => None,
            libc::PR_CAP_AMBIENT | libc::PR_CAPBSET_DROP | libc::PR_SET_SECUREBITS => {
                self.state("capabilities")
            }
            libc::PR_SET_SECCOMP => self.state("seccomp filter"),
            libc::PR_SET_MM => self.state("the process's memory layout as /proc shows it"),
            57 /* PR_SET_IO_FLUSHER */ | 62 /* PR_SCHED_CORE */ => self.state("scheduling policy"),
            59 /* PR_SET_SYSCALL_USER_DISPATCH */ => {
                self.unsupported("the program dispatches its own syscalls")
            }
            _ => self.unsupported("a prctl option that is not modelled"),
        }
    }
}
