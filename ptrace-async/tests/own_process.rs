//! Every call that makes, copies or closes descriptors or changes a process's directories.
//! This process performs each call on itself and shows it to the model, which must then
//! equal `/proc/self`.
//!
//! There is one test only: a second would open files in the same table at the same time.

#![expect(
    unsafe_code,
    reason = "raw syscalls with made-up arguments are the test"
)]

use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;

use ptrace_async::event::{IoEvent, Tid};
use ptrace_async::memory::Memory;
use ptrace_async::process::{Invocation, Processes, watch};
use ptrace_async::syscall::Syscall;
use smallvec::SmallVec;

struct OwnMemory(File);

impl Memory for OwnMemory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> usize {
        self.0.read_at(buffer, address).unwrap_or(0)
    }
}

struct Own {
    model: Processes,
    memory: OwnMemory,
    tid: Tid,
    events: Vec<IoEvent>,
    /// Strings and structures that arguments point to.
    kept: Vec<Box<[u8]>>,
    failed: Vec<&'static str>,
}

const CWD: i64 = libc::AT_FDCWD as i64;

impl Own {
    fn new() -> Self {
        let memory = OwnMemory(File::open("/proc/self/mem").unwrap());
        // SAFETY: these take no arguments and cannot fail.
        let (tid, tgid) = unsafe { (libc::gettid(), libc::getpid()) };
        let mut model = Processes::new();
        model.adopt(tid, tgid).unwrap();
        let own = Self {
            model,
            memory,
            tid,
            events: Vec::new(),
            kept: Vec::new(),
            failed: Vec::new(),
        };
        assert_eq!(own.model.verify(tid), []);
        own
    }

    fn text(&mut self, text: &str) -> i64 {
        let text = CString::new(text).unwrap();
        self.bytes(text.as_bytes_with_nul())
    }

    fn words(&mut self, words: &[u64]) -> i64 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.bytes(&bytes)
    }

    fn bytes(&mut self, bytes: &[u8]) -> i64 {
        self.kept.push(bytes.into());
        self.kept
            .last_mut()
            .map_or(0, |kept| kept.as_mut_ptr() as i64)
    }

    /// Performs a syscall between what the model sees of it, and compares.
    #[track_caller]
    fn call(&mut self, nr: i64, args: &[i64]) -> i64 {
        let mut all = [0; 6];
        for (word, argument) in all.iter_mut().zip(args) {
            *word = *argument as u64;
        }
        let invocation = Invocation {
            nr: nr as u64,
            args: all,
        };
        let name = Syscall::of(nr as u64).name();
        let mut out = SmallVec::new();
        let shown = watch(nr as u64).stops(&all);
        let pending = shown.then(|| {
            let entry = self
                .model
                .entry(self.tid, &invocation, &self.memory, &mut out);
            entry.pending
        });
        let [a, b, c, d, e, f] = all;
        // SAFETY: the arguments are numbers, or point into `kept`, whose boxes
        // stay where they are and are as long as the callers below promise. No
        // call touches other memory of this process.
        let result = unsafe { libc::syscall(nr, a, b, c, d, e, f) };
        let result = if result == -1 {
            self.failed.push(name);
            -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
        } else {
            result
        };
        if let Some(pending) = pending.flatten() {
            self.model
                .exit(self.tid, pending, result, &self.memory, &mut out);
        }
        self.events.extend(out);
        assert_eq!(
            self.model.verify(self.tid),
            [],
            "{name} {all:x?} = {result}"
        );
        result
    }

    /// As [`call`](Self::call), for what must succeed on every kernel.
    #[track_caller]
    fn must(&mut self, nr: i64, args: &[i64]) -> i64 {
        let result = self.call(nr, args);
        assert!(result >= 0, "{} {result}", Syscall::of(nr as u64).name());
        result
    }

    fn cwd(&self) -> String {
        self.model.cwd(self.tid).unwrap().display().to_string()
    }
}

fn flags(flags: i32) -> i64 {
    i64::from(flags)
}

fn copies(own: &mut Own, file: i64) {
    let one = own.must(libc::SYS_dup, &[file]);
    own.must(libc::SYS_dup2, &[file, one]);
    own.must(libc::SYS_dup2, &[file, file]);
    own.must(libc::SYS_dup2, &[file, 40]);
    own.must(libc::SYS_dup3, &[file, 41, flags(libc::O_CLOEXEC)]);
    own.must(libc::SYS_dup3, &[file, 41, 0]);
    own.call(libc::SYS_dup3, &[file, file, 0]);
    own.call(libc::SYS_dup2, &[file, 1 << 30]);
    own.call(libc::SYS_dup, &[999]);
    own.must(libc::SYS_fcntl, &[file, flags(libc::F_DUPFD), 60]);
    own.must(libc::SYS_fcntl, &[file, flags(libc::F_DUPFD_CLOEXEC), 60]);
    own.must(libc::SYS_fcntl, &[60, flags(libc::F_SETFD), 1]);
    own.must(libc::SYS_ioctl, &[60, 0x5450]);
    own.must(libc::SYS_ioctl, &[60, 0x5451]);
    let append = flags(libc::O_APPEND | libc::O_NONBLOCK);
    own.must(libc::SYS_fcntl, &[60, flags(libc::F_SETFL), append]);
    let off = own.words(&[0]);
    own.must(libc::SYS_ioctl, &[61, 0x5421, off]);
    own.must(libc::SYS_close_range, &[50, 60, 4]);
    own.must(libc::SYS_close_range, &[50, 60, 0]);
    own.must(libc::SYS_close_range, &[40, u32::MAX.into(), 0]);
    own.call(libc::SYS_close_range, &[9, 8, 0]);
    own.must(libc::SYS_close, &[one]);
    own.call(libc::SYS_close, &[one]);
}

fn channels_and_sockets(own: &mut Own, file: i64) {
    let pair = own.words(&[0]);
    own.must(libc::SYS_pipe, &[pair]);
    own.must(
        libc::SYS_pipe2,
        &[pair, flags(libc::O_CLOEXEC | libc::O_NONBLOCK)],
    );
    let kind = flags(libc::SOCK_STREAM | libc::SOCK_CLOEXEC);
    own.must(libc::SYS_socketpair, &[1, kind, 0, pair]);
    let sockets = own.kept.last().unwrap();
    let word = |at: usize| i32::from_le_bytes(sockets[at..at + 4].try_into().unwrap());
    let (left, right) = (i64::from(word(0)), i64::from(word(4)));

    // A descriptor travels from one end to the other.
    let data = own.bytes(b"x");
    let vector = own.words(&[data as u64, 1]);
    let control = own.words(&[24, 1 << 32 | 1, (file as u64) << 32 | file as u64]);
    let header = own.words(&[0, 0, vector as u64, 1, control as u64, 24, 0]);
    own.must(libc::SYS_sendmsg, &[left, header, 0]);
    let control = own.words(&[0; 8]);
    let header = own.words(&[0, 0, vector as u64, 1, control as u64, 64, 0]);
    own.must(
        libc::SYS_recvmsg,
        &[right, header, flags(libc::MSG_CMSG_CLOEXEC)],
    );
    let received = own
        .events
        .iter()
        .filter(|event| matches!(event, IoEvent::Received { .. }));
    assert_eq!(received.count(), 2);

    let server = own.must(libc::SYS_socket, &[1, flags(libc::SOCK_STREAM), 0]);
    let address = own.bytes(b"\x01\0sock\0");
    own.must(libc::SYS_bind, &[server, address, 7]);
    own.must(libc::SYS_listen, &[server, 1]);
    let client = own.must(libc::SYS_socket, &[1, kind, 0]);
    own.must(libc::SYS_connect, &[client, address, 7]);
    own.must(
        libc::SYS_accept4,
        &[server, 0, 0, flags(libc::SOCK_NONBLOCK)],
    );
    let absent = own.bytes(b"\x01\0absent\0");
    let other = own.must(libc::SYS_socket, &[1, kind, 0]);
    own.call(libc::SYS_connect, &[other, absent, 9]);
    assert!(matches!(
        own.events.last(),
        Some(IoEvent::Failed {
            call: "connect",
            error: libc::ENOENT,
            ..
        })
    ));
}

/// Calls that the machine may refuse are compared, too.
fn anonymous(own: &mut Own) {
    let both = flags(libc::O_CLOEXEC | libc::O_NONBLOCK);
    let mask = own.words(&[0]);
    let name = own.text("n");
    own.must(libc::SYS_eventfd, &[0]);
    own.must(libc::SYS_eventfd2, &[0, both]);
    own.must(libc::SYS_timerfd_create, &[1, both]);
    own.must(libc::SYS_epoll_create, &[1]);
    own.must(libc::SYS_epoll_create1, &[flags(libc::O_CLOEXEC)]);
    let signals = own.must(libc::SYS_signalfd4, &[-1, mask, 8, both]);
    own.must(libc::SYS_signalfd4, &[signals, mask, 8, both]);
    own.must(libc::SYS_signalfd, &[-1, mask, 8]);
    own.must(libc::SYS_inotify_init, &[]);
    own.must(libc::SYS_inotify_init1, &[both]);
    own.must(libc::SYS_memfd_create, &[name, 1]);
    own.must(libc::SYS_memfd_create, &[name, 0]);
    let process = i64::from(std::process::id());
    let pidfd = own.must(libc::SYS_pidfd_open, &[process, 0]);
    own.call(libc::SYS_pidfd_getfd, &[pidfd, 1, 0]);
    own.call(libc::SYS_memfd_secret, &[flags(libc::O_CLOEXEC)]);
    own.call(libc::SYS_landlock_create_ruleset, &[0, 0, 1]);
    let rules = own.words(&[1, 0, 0]);
    own.call(libc::SYS_landlock_create_ruleset, &[rules, 8, 0]);
    own.call(libc::SYS_userfaultfd, &[1 | both]);
    let parameters = own.words(&[0; 15]);
    own.call(libc::SYS_io_uring_setup, &[1, parameters]);
    own.call(libc::SYS_fanotify_init, &[1, 0]);
    let tmpfs = own.text("tmpfs");
    own.call(libc::SYS_fsopen, &[tmpfs, 1]);
    let here = own.text(".");
    own.call(libc::SYS_open_tree, &[CWD, here, flags(libc::O_CLOEXEC)]);
    let create = flags(libc::O_RDWR | libc::O_CREAT);
    let queue = own.text("ptrace-async-own-process");
    own.call(libc::SYS_mq_open, &[queue, create, 0o600, 0]);
    own.call(libc::SYS_mq_unlink, &[queue]);
    // BPF_MAP_CREATE of an array with one element.
    let attributes = own.words(&[4 << 32 | 2, 1 << 32 | 4, 0, 0, 0, 0, 0, 0, 0]);
    own.call(libc::SYS_bpf, &[0, attributes, 72]);
    // A software event: the CPU clock.
    let mut attributes = [0_u64; 17];
    attributes[0] = 136 << 32 | 1;
    let attributes = own.words(&attributes);
    own.call(libc::SYS_perf_event_open, &[attributes, 0, -1, -1, 8]);
}

fn places(own: &mut Own, root: &str) {
    let (directory, link, moved) = (own.text("d/e"), own.text("link"), own.text("m"));
    let (d, up) = (own.text("d"), own.text(".."));
    own.must(libc::SYS_mkdir, &[d, 0o755]);
    own.must(libc::SYS_mkdir, &[directory, 0o755]);
    own.must(libc::SYS_symlink, &[directory, link]);
    own.must(libc::SYS_chdir, &[link]);
    assert_eq!(own.cwd(), format!("{root}/d/e"));
    own.must(libc::SYS_chdir, &[up]);
    own.must(libc::SYS_chdir, &[up]);
    assert_eq!(own.cwd(), root);
    let through = own.must(libc::SYS_open, &[link, flags(libc::O_DIRECTORY)]);
    own.must(libc::SYS_fchdir, &[through]);
    let root_path = own.text(root);
    own.call(libc::SYS_chdir, &[moved]);
    let (from, to) = (
        own.text(&format!("{root}/d")),
        own.text(&format!("{root}/m")),
    );
    // Both the working directory and the descriptor, which was opened through
    // the link, move along.
    own.must(libc::SYS_rename, &[from, to]);
    assert_eq!(own.cwd(), format!("{root}/m/e"));
    let file = own.model.file(own.tid, through as i32).unwrap();
    assert_eq!(file.path.as_deref(), Some(format!("{root}/m/e").as_ref()));
    own.must(libc::SYS_chdir, &[root_path]);
    own.must(libc::SYS_umask, &[0o27]);
    own.must(libc::SYS_umask, &[0o22]);
}

#[test]
fn the_model_equals_proc_after_every_call() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let root = root.to_str().unwrap();
    let log = tempfile::tempfile().unwrap();
    let mut own = Own::new();
    assert!(own.model.file(own.tid, log.as_raw_fd()).unwrap().writable);
    let path = own.text(root);
    own.must(libc::SYS_chdir, &[path]);
    let name = own.text("file");
    let create = flags(libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC);
    let file = own.must(libc::SYS_open, &[name, create, 0o600]);
    own.must(
        libc::SYS_openat,
        &[CWD, name, flags(libc::O_WRONLY | libc::O_APPEND)],
    );
    own.must(libc::SYS_openat, &[CWD, name, flags(libc::O_PATH)]);
    own.must(libc::SYS_creat, &[name, 0o600]);
    let how = own.words(&[libc::O_NONBLOCK as u64, 0, 0]);
    own.call(libc::SYS_openat2, &[CWD, name, how, 24]);
    let here = own.text(".");
    let unnamed = own.call(
        libc::SYS_open,
        &[here, flags(libc::O_TMPFILE | libc::O_RDWR), 0o600],
    );
    if unnamed >= 0 {
        let from = own.text(&format!("/proc/self/fd/{unnamed}"));
        let to = own.text("named");
        own.must(
            libc::SYS_linkat,
            &[CWD, from, CWD, to, flags(libc::AT_SYMLINK_FOLLOW)],
        );
    }

    copies(&mut own, file);
    channels_and_sockets(&mut own, file);
    places(&mut own, root);
    anonymous(&mut own);

    // The thread's table becomes its own; the process keeps the other.
    own.must(libc::SYS_unshare, &[flags(libc::CLONE_FILES)]);
    own.must(libc::SYS_close_range, &[file, i64::from(u32::MAX), 4]);
    println!("refused here: {:?}", own.failed);
}
