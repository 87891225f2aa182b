//! Real programs run under a plain ptrace loop that shows the process model
//! exactly the syscalls that [`watch`] asks for; after every syscall of a
//! single-threaded process the model must equal `/proc`.

#![expect(
    unsafe_code,
    reason = "ptrace(2) and waitpid(2) have no safe interface here"
)]

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::ptr;

use ptrace_async::event::{FileRef, IoEvent, PathRef, Tid};
use ptrace_async::memory::Memory;
use ptrace_async::process::{Invocation, Pending, Processes, clone_flags, watch};
use ptrace_async::syscall::Syscall;
use smallvec::SmallVec;

/// Memory of a stopped task, through `/proc`.
struct TaskMemory(File);

impl TaskMemory {
    fn of(tid: Tid) -> Option<Self> {
        File::open(format!("/proc/{tid}/mem")).ok().map(Self)
    }
}

impl Memory for TaskMemory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> usize {
        self.0.read_at(buffer, address).unwrap_or(0)
    }
}

fn ptrace(request: u32, tid: Tid, address: usize, data: usize) -> i64 {
    // SAFETY: the requests made here take a tracee, and either plain numbers
    // or (in the two callers below) pointers to live values of the right size.
    unsafe { libc::ptrace(request, tid, address, data) }
}

fn event_message(tid: Tid) -> u64 {
    let mut message: libc::c_ulong = 0;
    ptrace(
        libc::PTRACE_GETEVENTMSG,
        tid,
        0,
        ptr::from_mut(&mut message) as usize,
    );
    message
}

/// The beginning of `struct ptrace_syscall_info` with its first union member.
#[repr(C)]
#[derive(Default)]
struct SyscallInfo {
    op: u8,
    padding: [u8; 3],
    arch: u32,
    ip: u64,
    sp: u64,
    /// Entry: the number and six arguments. Exit: the result, then a flag.
    words: [u64; 8],
}

fn syscall_info(tid: Tid) -> Option<SyscallInfo> {
    let mut info = SyscallInfo::default();
    let size = size_of::<SyscallInfo>();
    let address = ptr::from_mut(&mut info) as usize;
    let got = ptrace(libc::PTRACE_GET_SYSCALL_INFO, tid, size, address);
    (got > 0).then_some(info)
}

/// Whether the tree bears out what an event claims right after it.
fn holds(event: &IoEvent) -> bool {
    let exists = |path: &PathRef| path.path.symlink_metadata().is_ok();
    match event {
        IoEvent::Open {
            path,
            error: None,
            mode,
            ..
        } if !mode.tmpfile => {
            let own = |directory: &&str| path.path.starts_with(directory);
            ["/proc", "/dev/fd"].iter().any(own) || exists(path)
        }

        IoEvent::MakeDir { path, .. }
        | IoEvent::MakeNode { path, .. }
        | IoEvent::Symlink { path, .. }
        | IoEvent::Link { to: path, .. } => exists(path),
        IoEvent::Unlink { path } | IoEvent::RemoveDir { path } => !exists(path),
        IoEvent::Rename { from, to, exchange } => exists(to) && exists(from) == *exchange,
        IoEvent::Chmod {
            file: FileRef::Path(path),
            ..
        }
        | IoEvent::Chown {
            file: FileRef::Path(path),
        }
        | IoEvent::Truncate {
            file: FileRef::Path(path),
            ..
        }
        | IoEvent::SetTimes {
            file: FileRef::Path(path),
            ..
        } => exists(path),
        _ => true,
    }
}

/// The observations of one run of a program.
#[derive(Default)]
struct Report {
    events: Vec<IoEvent>,
    mismatches: Vec<String>,
    syscalls: u64,
    stops: u64,
    status: i32,
}

struct Run {
    model: Processes,
    calls: HashMap<Tid, Invocation>,
    pending: HashMap<Tid, Pending>,
    /// Children that stopped before their parent announced them.
    early: HashSet<Tid>,
    report: Report,
}

impl Run {
    fn entry(&mut self, tid: Tid, call: Invocation) {
        self.report.syscalls += 1;
        self.calls.insert(tid, call);
        if !watch(call.nr).stops(&call.args) {
            return;
        }
        self.report.stops += 1;
        let Some(memory) = TaskMemory::of(tid) else {
            return;
        };
        let mut out = SmallVec::new();
        let entry = self.model.entry(tid, &call, &memory, &mut out);
        self.report.events.extend(out);
        if let Some(pending) = entry.pending {
            self.report.stops += 1;
            self.pending.insert(tid, pending);
        }
    }

    fn exit(&mut self, tid: Tid, result: i64) {
        let Some(memory) = TaskMemory::of(tid) else {
            return;
        };
        if let Some(pending) = self.pending.remove(&tid) {
            let mut out = SmallVec::new();
            self.model.exit(tid, pending, result, &memory, &mut out);
            let contradicted = out.iter().filter(|event| !holds(event));
            let contradicted = contradicted.map(|event| format!("{tid}: {event:?}"));
            self.report.mismatches.extend(contradicted);
            self.report.events.extend(out);
        }
        let process = self.model.tgid(tid);
        let threads = self
            .model
            .tasks()
            .filter(|task| self.model.tgid(*task) == process);
        if threads.count() == 1 {
            for mismatch in self.model.verify(tid) {
                let call = self.calls.get(&tid);
                let call = call.map(|call| (Syscall::of(call.nr).name(), call.args));
                let line = format!("{tid} after {call:?} = {result}: {mismatch:?}");
                if self.report.mismatches.len() < 20 {
                    self.report.mismatches.push(line);
                }
            }
        }
    }

    fn spawned(&mut self, parent: Tid) {
        let child = event_message(parent) as Tid;
        let memory = TaskMemory::of(parent).expect("the parent is stopped");
        let flags = self
            .calls
            .get(&parent)
            .and_then(|call| clone_flags(call, &memory))
            .expect("a clone made the child");
        let event = self.model.spawned(parent, child, flags);
        self.report.events.push(event);
        if self.early.remove(&child) {
            ptrace(libc::PTRACE_SYSCALL, child, 0, 0);
        }
    }

    /// Handles a stop; returns the signal to deliver, `None` to leave it.
    fn stopped(&mut self, tid: Tid, status: i32) -> Option<i32> {
        let signal = libc::WSTOPSIG(status);
        if signal == libc::SIGTRAP | 0x80 {
            let info = syscall_info(tid)?;
            match info.op {
                1 => {
                    let mut args = [0; 6];
                    args.copy_from_slice(&info.words[1..7]);
                    let nr = info.words[0];
                    self.entry(tid, Invocation { nr, args });
                }
                _ => self.exit(tid, info.words[0] as i64),
            }
            return Some(0);
        }
        match status >> 16 {
            0 => {}
            libc::PTRACE_EVENT_EXEC => {
                let former = event_message(tid) as Tid;
                if let Some(pending) = self.pending.remove(&former) {
                    self.pending.insert(tid, pending);
                }
                self.model.exec(tid, former);
                return Some(0);
            }
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                self.spawned(tid);
                return Some(0);
            }
            _ => return Some(0),
        }
        if signal == libc::SIGSTOP && !self.calls.contains_key(&tid) {
            // A new child's first stop.
            if self.model.tgid(tid).is_none() {
                self.early.insert(tid);
                return None;
            }
            return Some(0);
        }
        Some(signal)
    }
}

/// Runs a command to its end and all its descendants to theirs.
fn follow(command: &mut Command) -> Report {
    let traced = || {
        if ptrace(libc::PTRACE_TRACEME, 0, 0, 0) == -1 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(())
    };
    // SAFETY: the closure makes one syscall and allocates nothing.
    unsafe { command.pre_exec(traced) };
    // The handle is not waited for: the loop below reaps every child.
    #[expect(clippy::zombie_processes, reason = "reaped below")]
    let child = command.spawn().expect("the program starts");
    let leader = child.id() as Tid;
    let mut run = Run {
        model: Processes::new(),
        calls: HashMap::new(),
        pending: HashMap::new(),
        early: HashSet::new(),
        report: Report::default(),
    };
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_EXITKILL;
    let mut started = false;
    loop {
        let mut status = 0;
        // SAFETY: `status` is a live integer. Only children of this thread are
        // waited for, so tests do not take each other's.
        let tid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        if tid == -1 {
            break;
        }
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            run.model.exited(tid);
            run.pending.remove(&tid);
            run.calls.remove(&tid);
            if tid == leader {
                run.report.status = status;
            }
            continue;
        }
        if !started {
            // The stop that follows the first execve.
            assert_eq!(tid, leader);
            ptrace(libc::PTRACE_SETOPTIONS, tid, 0, options as usize);
            run.model.adopt(tid, tid).expect("the command is stopped");
            assert_eq!(run.model.verify(tid), []);
            started = true;
            ptrace(libc::PTRACE_SYSCALL, tid, 0, 0);
            continue;
        }
        if let Some(signal) = run.stopped(tid, status) {
            ptrace(libc::PTRACE_SYSCALL, tid, 0, signal as usize);
        }
    }
    run.report
}

/// Runs a script and checks that the model stayed true and that every syscall
/// was understood, apart from those named in `unsupported`.
#[track_caller]
fn check(program: &str, arguments: &[&str], unsupported: &[&str]) -> Report {
    let directory = tempfile::tempdir().unwrap();
    let stderr = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(directory.path())
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        // A description of its own: make sets O_APPEND on the streams that it inherits.
        .stdout(tempfile::tempfile().unwrap())
        .stderr(stderr.reopen().unwrap());
    let report = follow(&mut command);
    println!(
        "{program}: {} syscalls, {} stops",
        report.syscalls, report.stops
    );
    assert_eq!(report.mismatches, Vec::<String>::new());
    for event in &report.events {
        if let IoEvent::Unsupported { name, reason, .. } = event {
            assert!(unsupported.contains(name), "{name}: {reason}");
        }
    }
    let said = std::fs::read_to_string(stderr.path()).unwrap();
    assert_eq!(report.status, 0, "{said}");
    report
}

fn exists(program: &str) -> bool {
    let found = Path::new(program).exists();
    if !found {
        println!("{program} is not installed, nothing is checked");
    }
    found
}

#[test]
fn a_shell_script_with_redirections_and_pipes_is_followed() {
    let script = r#"
        echo one > a; echo two >> a; cat < a | sort | uniq > b
        mkdir -p x/y && cd x/y && pwd > ../out && cd - > /dev/null
        ( cd x; umask 077; : > private; exec 7<../a 8>&1; read line <&7; echo "$line" >&8 )
        exec 3>c 4<a; echo three >&3; exec 3>&- 4<&-
        for i in 1 2 3; do echo $i; done | while read n; do echo "n $n"; done > d
        ln -s a link; ln a hard; mv x z; mv z/y/ z/w; rm -r z; rm hard
        mkdir -p t/u/v t/w/x && touch t/u/v/f t/w/g t/h && rm -r t
        cat <<END > here
text
END
        kill -0 $$; test -e nothing; true &
        wait
    "#;
    let report = check("/bin/sh", &["-c", script], &[]);
    let has = |test: fn(&IoEvent) -> bool| report.events.iter().any(test);
    assert!(has(|event| matches!(event, IoEvent::Channel { .. })));
    assert!(has(|event| matches!(event, IoEvent::Umask { mask: 0o77 })));
    assert!(has(|event| matches!(event, IoEvent::Rename { .. })));
    assert!(has(|event| matches!(event, IoEvent::Symlink { .. })));
    assert!(has(|event| matches!(event, IoEvent::RemoveDir { .. })));
    assert!(has(|event| matches!(event, IoEvent::ExecAttempt { .. })));
}

#[test]
fn bash_with_process_substitution_and_coprocesses_is_followed() {
    if !exists("/bin/bash") {
        return;
    }
    let script = r#"
        diff <(printf 'a\nb\n') <(printf 'a\nc\n') > difference
        coproc CAT { cat; }
        echo hello >&"${CAT[1]}"; read -r reply <&"${CAT[0]}"
        exec {CAT[1]}>&-
        wait
        exec {number}>file; echo x >&$number; exec {number}>&-
        mapfile -t lines < difference; printf '%s\n' "${lines[@]}" > copy
        shopt -s globstar; : **/*
        ulimit -c 0
        true
    "#;
    check("/bin/bash", &["-c", script], &[]);
}

#[test]
fn python_with_subprocesses_threads_and_odd_descriptors_is_followed() {
    if !exists("/usr/bin/python3") {
        return;
    }
    let script = r"
import os, socket, subprocess, sys, threading, select, fcntl, tempfile, shutil, mmap, array, signal, time
os.makedirs('a/b/c')
d = os.open('a', os.O_RDONLY | os.O_DIRECTORY)
os.mkdir('n', dir_fd=d); os.rename('a', 'z'); f = os.open('n/file', os.O_CREAT | os.O_RDWR, dir_fd=d)
os.write(f, b'hello'); os.ftruncate(f, 2); os.fsync(f); os.pread(f, 2, 0); os.lseek(f, 0, 0)
os.fchdir(d); os.chdir('n'); os.chdir('..'); os.chdir('..')
os.symlink('z', 'link'); e = os.open('link/n', os.O_RDONLY)
os.rename('z/n', 'z/m'); os.stat('file', dir_fd=e)
fcntl.fcntl(f, fcntl.F_SETFD, 0); g = fcntl.fcntl(f, fcntl.F_DUPFD_CLOEXEC, 40)
os.dup2(g, 50); os.dup2(g, 51, inheritable=False); os.closerange(48, 60)
fcntl.fcntl(f, fcntl.F_SETFL, os.O_APPEND | os.O_NONBLOCK); os.set_blocking(g, True)
fcntl.flock(f, fcntl.LOCK_EX); fcntl.lockf(f, fcntl.LOCK_UN)
m = os.memfd_create('m'); ev = os.eventfd(0); ep = select.epoll(); r, w = os.pipe()
os.set_inheritable(r, True); ep.register(r, select.EPOLLIN); select.select([r], [], [], 0)
p = select.poll(); p.register(r); p.poll(0)
a, b = socket.socketpair(); a.set_inheritable(True)
socket.send_fds(a, [b'x'], [f, m]); _, fds, _, _ = socket.recv_fds(b, 10, 4)
for x in fds: os.set_inheritable(x, True)
os.sendfile(m, f, 0, 2)
try: os.copy_file_range(f, m, 1)
except OSError: pass
pid = os.fork()
if pid == 0: os.execv('/bin/true', ['true'])
os.waitpid(pid, 0)
print(subprocess.run(['cat'], input=b'in', capture_output=True).stdout, file=open('o', 'w'))
subprocess.run('echo x; exit 0', shell=True, stdout=subprocess.DEVNULL, close_fds=False)
subprocess.run(['/bin/true'], pass_fds=[f, w])
subprocess.run(['/bin/true'], cwd='z', start_new_session=True)
pd = os.pidfd_open(os.getpid()) if hasattr(os, 'pidfd_open') else 0
t = [threading.Thread(target=lambda: open('o').read()) for _ in range(3)]
[x.start() for x in t]; [x.join() for x in t]
l = socket.socket(socket.AF_UNIX); l.bind('sock'); l.listen()
c = socket.socket(socket.AF_UNIX); c.connect('sock'); s, _ = l.accept(); c.send(b'1'); s.recv(1)
try: socket.socket(socket.AF_UNIX).connect('nobody')
except OSError: pass
mm = mmap.mmap(f, 2); mm[0:1] = b'j'; mm.close()
tf = tempfile.TemporaryFile(dir='.'); tf.write(b'1')
try:
    fd = os.open('.', os.O_TMPFILE | os.O_RDWR); os.link(f'/proc/self/fd/{fd}', 'named')
except OSError: pass
os.utime('o', (1, 2)); os.utime(f, ns=(5, 6)); os.chmod('o', 0o600); os.truncate('o', 1)
for name in os.scandir('.'): name.stat()
list(os.walk('z')); os.statvfs('.'); os.access('o', os.R_OK)
try: os.setxattr('o', 'user.x', b'1'); os.getxattr('o', 'user.x'); os.listxattr('o')
except OSError: pass
os.kill(os.getpid(), 0); os.umask(0o27); os.mkfifo('fifo')
try: os.mkdir('z')
except FileExistsError: pass
try: os.rmdir('z')
except OSError: pass
shutil.copyfile('o', 'o2'); shutil.rmtree('z'); time.time(); os.urandom(4)
program = [sys.executable, '-S', '-c', 'import os; os.fstat(%d); os.close(%d)' % (f, f)]
x = threading.Thread(target=lambda: os.execv(sys.executable, program)); x.start(); x.join()
";
    let report = check("/usr/bin/python3", &["-c", script], &[]);
    let failed = |name: &str, errno: i32| {
        report.events.iter().any(|event| {
            matches!(event, IoEvent::Failed { call, error, .. } if *call == name && *error == errno)
        })
    };
    assert!(failed("mkdir", libc::EEXIST));
    assert!(failed("rmdir", libc::ENOTEMPTY));
    assert!(failed("connect", libc::ENOENT));
    let received = report
        .events
        .iter()
        .filter(|event| matches!(event, IoEvent::Received { .. }));
    assert_eq!(received.count(), 2);
}

#[test]
fn a_compiler_and_make_are_followed() {
    if !exists("/usr/bin/cc") || !exists("/usr/bin/make") {
        return;
    }
    let script = r"
        printf 'int f(void) { return 0; }\n' > f.c
        printf '#include <stdio.h>\nint f(void);\nint main(void) { return f(); }\n' > m.c
        printf 'p: f.o m.o\n\tcc -o $@ $^\n' > Makefile
        make -j2 p > log && ./p > out && ar rc lib.a f.o && tar cf t.tar --exclude t.tar .
    ";
    check("/bin/sh", &["-c", script], &[]);
}

#[test]
fn git_is_followed() {
    if !exists("/usr/bin/git") {
        return;
    }
    let script = r"
        export HOME=$PWD
        git init -q . && echo a > a && git add a
        git -c user.name=n -c user.email=e commit -qm m && git log > log
        git branch b && git checkout -q b && git status > status && git gc -q
    ";
    check("/bin/sh", &["-c", script], &[]);
}
