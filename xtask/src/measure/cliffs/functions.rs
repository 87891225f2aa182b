//! The functions of the C library that loops call, by name.
#![expect(unsafe_code, reason = "functions called with arguments that are data")]

/// A function of the C library, whatever its real arguments are.
pub(super) type Function = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64) -> i64;

macro_rules! functions {
    ($($name:ident)*) => {
        /// The function of this name.
        pub(super) fn function(name: &str) -> Option<Function> {
            let address = match name {
                $(stringify!($name) => libc::$name as *const (),)*
                _ => return None,
            };
            // SAFETY: the address of a function. That its arguments are passed in registers,
            // of which it uses as many as it needs, is the C ABI of x86-64. Callers argue
            // about their values.
            Some(unsafe { std::mem::transmute::<*const (), Function>(address) })
        }
    };
}

functions! {
    accept accept4 access alarm bind brk chdir chmod chown clock_getres clock_gettime
    clock_nanosleep close connect copy_file_range creat dup dup2 dup3 epoll_create1 epoll_ctl
    epoll_pwait epoll_wait execve faccessat fallocate fchdir fchmod fchown fchownat fcntl
    fdatasync fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstatat fstatfs fsync
    ftruncate getcwd getegid geteuid getgid getgroups getitimer getpeername getpgid getpgrp
    getpid getppid getpriority getrandom getresgid getresuid getrlimit getrusage getsid
    getsockname getsockopt gettid gettimeofday getuid getxattr inotify_add_watch
    inotify_rm_watch ioctl kill lchown lgetxattr link linkat listen listxattr llistxattr
    lremovexattr lseek lsetxattr lstat madvise memfd_create mincore mkdir mkdirat mlock mlock2
    mlockall mmap mprotect mremap msgctl msgget msgrcv msgsnd msync munlock munlockall munmap
    nanosleep open personality pipe2 poll posix_fadvise ppoll prctl pread preadv preadv2
    process_vm_readv process_vm_writev pwrite pwritev pwritev2 raise read readahead readlink
    readlinkat readv recvfrom recvmmsg recvmsg removexattr rename renameat renameat2 rmdir
    sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getcpu sched_getparam
    sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setparam sched_setscheduler
    sched_yield select semctl semget semop sendfile sendmmsg sendmsg sendto setitimer setns
    setpgid setpriority setsid setsockopt setxattr shmat shmctl shmdt shmget shutdown sigaction
    sigaltstack signal sigprocmask socket socketpair splice stat statfs statx symlink symlinkat
    sync_file_range sysinfo tee tgkill time timerfd_create timerfd_gettime timerfd_settime times
    truncate umask uname unlink unlinkat unshare utimensat vmsplice waitid waitpid write writev
}
