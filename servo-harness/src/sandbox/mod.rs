//! Runs one test so that whatever it does ends with it.
//!
//! Between the harness and the test stand one or two processes of this same program
//! ([`inside`]): they know the harness by a socket, start the test, and say over it how the
//! test ended. When the socket closes, because the harness wants the test to end or is gone
//! itself, they end the test and all that it started. With a namespace of processes
//! ([`Isolation::Namespace`]) the kernel does that and nothing escapes; without
//! ([`Isolation::Group`]) orphans are adopted and ended one by one, which is as good as it
//! gets where a test kills the process that looks after it.
//!
//! **Invariant:** [`Sandbox::run`] returns within the time limit and [`GRACE`], whatever the test
//! does, and holds a bounded part of its output.

mod capture;
pub(crate) mod guard;
pub(crate) mod inside;

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

pub use self::capture::Captured;
use crate::platform::interrupt::Interrupt;

/// How long the processes around a test may take to end it, before they are killed too.
pub const GRACE: Duration = Duration::from_secs(10);

/// The name of [`Isolation::Network`].
const NETWORK: &str = "network";

/// The isolation of a test's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// A namespace of processes for each run: none outlives it.
    Namespace,
    /// That, and a network of its own, which reaches nothing but itself.
    Network,
    /// A process group, and the adoption of orphans: best effort.
    Group,
}

impl Isolation {
    const fn as_str(self) -> &'static str {
        match self {
            Isolation::Namespace => "namespace",
            Isolation::Network => NETWORK,
            Isolation::Group => "group",
        }
    }

    /// The best that this machine allows: a namespace is tried, not asked about.
    ///
    /// # Errors
    /// If no process can be started at all.
    pub fn best(scratch: &Scratch) -> io::Result<Isolation> {
        let can = Isolation::Namespace.is_possible(scratch)?;
        Ok(if can {
            Isolation::Namespace
        } else {
            Isolation::Group
        })
    }

    /// Whether this machine allows it, which is tried.
    ///
    /// # Errors
    /// If no process can be started at all.
    pub fn is_possible(self, scratch: &Scratch) -> io::Result<bool> {
        let job = Job::new("/proc/self/exe", [inside::NOTHING]);
        let sandbox = Sandbox {
            isolation: self,
            limit: Duration::from_secs(30),
            scratch: scratch.slot(0)?,
            number: 0,
        };
        let ran = sandbox.run(&job, &Interrupt::never())?;
        Ok(ran.ending == Ending::Exit(0))
    }
}

/// A command to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its working directory, if not this process's.
    pub dir: Option<PathBuf>,
    /// Variables that are set for it.
    pub env: Vec<(OsString, OsString)>,
}

impl Job {
    /// A job in the current directory and environment.
    pub fn new<A: Into<OsString>>(
        program: impl Into<PathBuf>,
        args: impl IntoIterator<Item = A>,
    ) -> Job {
        Job {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            dir: None,
            env: Vec::new(),
        }
    }

    /// The same with one more variable.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Job {
        self.env.push((name.into(), value.into()));
        self
    }

    /// The same job, after which others come where processors are busy. (On fewer processors
    /// it would not be the same job: programs ask for their number.)
    #[must_use]
    pub fn behind_others(self) -> Job {
        self.through([inside::BEHIND.into()])
    }

    /// The same job, in which the variable `name` holds the id of the process that becomes
    /// the program.
    #[must_use]
    pub fn knowing_itself(self, name: &str) -> Job {
        // Nobody on the way there is meant.
        self.with(name, "0")
            .through([inside::BECOME.into(), name.into()])
    }

    /// The same job by way of this program, which becomes the job's.
    fn through<const N: usize>(self, by: [OsString; N]) -> Job {
        let args = by.into_iter().chain([self.program.into()]).chain(self.args);
        Job {
            program: "/proc/self/exe".into(),
            args: args.collect(),
            ..self
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// With this exit status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
    /// It was ended because its time was up.
    TimedOut,
    /// It was ended because the harness was asked to stop.
    Interrupted,
    /// It could not be started, and why.
    NotStarted(String),
    /// The process that supervises it ended first.
    Lost,
}

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Ran {
    /// How it ended.
    pub ending: Ending,
    /// The time between the program's start and its end, without what surrounds it.
    pub time: Duration,
    /// Processes that it left behind, and that were ended then.
    pub left: u64,
    /// Its standard output.
    pub stdout: Captured,
    /// Its standard error.
    pub stderr: Captured,
}

/// The directory for the temporary files of runs, emptied when it is opened.
#[derive(Debug)]
pub struct Scratch(PathBuf);

/// Permissions of directories for temporary files: a test may start programs of other users, who
/// find a file there if they know its name, as below `/tmp`.
const SEARCHABLE: u32 = 0o711;

impl Scratch {
    /// The directory that belongs to whatever is named by `owner`. Its path is short, as
    /// sockets want it.
    ///
    /// # Errors
    /// If it cannot be made, or is somebody else's.
    pub fn of(owner: &Path) -> io::Result<Scratch> {
        use std::os::unix::ffi::OsStrExt as _;
        let name = xxhash_rust::xxh3::xxh3_64(owner.as_os_str().as_bytes());
        let dir = std::env::temp_dir().join(format!("harness-{:08x}", name as u32));
        match DirBuilder::new().mode(SEARCHABLE).create(&dir) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let found = fs::symlink_metadata(&dir)?;
                if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
                    return Err(io::Error::new(
                        ErrorKind::AlreadyExists,
                        format!("{} is somebody else's", dir.display()),
                    ));
                }
                empty(&dir)?;
            }
            Err(error) => return Err(error),
        }
        Ok(Scratch(dir))
    }

    /// A new directory, for a run that knows nothing of others.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new() -> io::Result<Scratch> {
        let id = std::process::id();
        loop {
            // In another namespace, another process has the same id; and not for long.
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let part = now.map_or(0, |now| now.subsec_nanos());
            let dir = std::env::temp_dir().join(format!("harness-{id:x}-{part:x}"));
            match DirBuilder::new().mode(SEARCHABLE).create(&dir) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Scratch(dir)),
            }
        }
    }

    /// An empty directory for one of the runs that go on at the same time.
    ///
    /// # Errors
    /// If it cannot be made or emptied.
    pub fn slot(&self, number: usize) -> io::Result<PathBuf> {
        let dir = self.0.join(number.to_string());
        fs::create_dir_all(&dir)?;
        empty(&dir)?;
        Ok(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now is removed the next time.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn empty(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Where a job runs.
#[derive(Debug, Clone)]
pub struct Sandbox {
    /// The isolation of its processes.
    pub isolation: Isolation,
    /// How long it may take.
    pub limit: Duration,
    /// Its directory for temporary files.
    pub scratch: PathBuf,
    /// A number that sandboxes at the same time have not in common: in a namespace, process
    /// ids begin there, so that file names made of them do not collide.
    pub number: u32,
}

impl Sandbox {
    /// Runs the job, to its end or that of its time.
    ///
    /// # Errors
    /// If this program cannot be started again, or the kernel refuses what it hardly ever
    /// refuses.
    pub fn run(&self, job: &Job, interrupt: &Interrupt) -> io::Result<Ran> {
        self.run_with(job, interrupt, Stdio::piped, capture::HALF)
    }

    /// The same, with more of its output: so much of each end, in bytes.
    ///
    /// # Errors
    /// As [`run`](Sandbox::run).
    pub fn run_keeping(&self, job: &Job, interrupt: &Interrupt, half: usize) -> io::Result<Ran> {
        self.run_with(job, interrupt, Stdio::piped, half)
    }

    /// The same, with this process's output for the job.
    ///
    /// # Errors
    /// As [`run`](Sandbox::run).
    pub fn run_in_sight(&self, job: &Job, interrupt: &Interrupt) -> io::Result<Ran> {
        self.run_with(job, interrupt, Stdio::inherit, capture::HALF)
    }

    fn run_with(
        &self,
        job: &Job,
        interrupt: &Interrupt,
        output: fn() -> Stdio,
        half: usize,
    ) -> io::Result<Ran> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("servo-harness")
            .args([inside::SANDBOX, self.isolation.as_str()])
            .arg(self.number.to_string())
            .arg(&job.program)
            .args(&job.args)
            .env("TMPDIR", &self.scratch)
            .envs(job.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(output())
            .stderr(output())
            .process_group(0);
        if let Some(dir) = &job.dir {
            command.current_dir(dir);
        }
        let mut child = match command.spawn() {
            Ok(child) => child,
            // Of a job in a directory that is gone: that says nothing about this program.
            Err(error) if job.dir.as_ref().is_some_and(|dir| !dir.is_dir()) => {
                return Ok(Ran::not_started(&error));
            }
            Err(error) => return Err(error),
        };
        // It holds the other end of the socket.
        drop(command);
        let ran = Watched::new(&mut child, ours, self.limit, half)?.until_its_end(interrupt);
        if ran.is_err() {
            let _ = child.kill();
        }
        child.wait()?;
        ran
    }
}

impl Ran {
    fn not_started(error: &io::Error) -> Ran {
        Ran {
            ending: Ending::NotStarted(error.to_string()),
            time: Duration::ZERO,
            left: 0,
            stdout: Captured::default(),
            stderr: Captured::default(),
        }
    }
}

/// A sandbox from outside.
struct Watched<'a> {
    child: &'a mut Child,
    socket: UnixStream,
    stdout: Captured,
    stderr: Captured,
    start: Instant,
    deadline: Instant,
    /// Why it was told to end, if it was.
    told: Option<Ending>,
}

impl<'a> Watched<'a> {
    fn new(
        child: &'a mut Child,
        socket: UnixStream,
        limit: Duration,
        half: usize,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        for fd in [
            child.stdout.as_ref().map(AsFd::as_fd),
            child.stderr.as_ref().map(AsFd::as_fd),
        ]
        .into_iter()
        .flatten()
        {
            rustix::io::ioctl_fionbio(fd, true)?;
        }
        Ok(Watched {
            child,
            socket,
            stdout: Captured::keeping(half),
            stderr: Captured::keeping(half),
            start: Instant::now(),
            deadline: Instant::now() + limit,
            told: None,
        })
    }

    /// Reads what it writes and says until it has ended.
    fn until_its_end(mut self, interrupt: &Interrupt) -> io::Result<Ran> {
        let mut said = Vec::new();
        loop {
            self.wait(interrupt)?;
            self.drain();
            if read_all(&mut self.socket, &mut |bytes| said.extend_from_slice(bytes)) {
                break;
            }
            if self.told.is_none() && interrupt.is_set() {
                self.tell(Ending::Interrupted)?;
            }
            if Instant::now() >= self.deadline {
                if self.told.is_none() {
                    self.tell(Ending::TimedOut)?;
                } else {
                    // The next round finds the socket closed, or looks again in a while.
                    self.deadline = Instant::now() + GRACE;
                    self.child.kill()?;
                }
            }
        }
        // Whoever could write more has ended by now, or is none of ours.
        self.child.wait()?;
        self.drain();
        let (ending, time, left) = inside::SupervisorMessage::parse(&said)
            .map_or((Ending::Lost, Duration::ZERO, 0), |said| {
                (said.ending, said.time, said.left)
            });
        let (ending, time) = match self.told {
            // It may have ended by itself in the last moment; then that is what counts.
            Some(told) if ending == Ending::Lost => (told, self.start.elapsed()),
            _ => (ending, time),
        };
        Ok(Ran {
            ending,
            time,
            left,
            stdout: self.stdout,
            stderr: self.stderr,
        })
    }

    fn tell(&mut self, why: Ending) -> io::Result<()> {
        self.told = Some(why);
        self.deadline = Instant::now() + GRACE;
        match self.socket.shutdown(Shutdown::Write) {
            Err(error) if error.kind() != ErrorKind::NotConnected => Err(error),
            _ => Ok(()),
        }
    }

    fn wait(&self, interrupt: &Interrupt) -> io::Result<()> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let mut fds = vec![PollFd::new(&self.socket, PollFlags::IN)];
        if let Some(fd) = &self.child.stdout {
            fds.push(PollFd::new(fd, PollFlags::IN));
        }
        if let Some(fd) = &self.child.stderr {
            fds.push(PollFd::new(fd, PollFlags::IN));
        }
        if self.told.is_none()
            && let Some(fd) = interrupt.fd()
        {
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        }
        let timeout = Timespec::try_from(left + Duration::from_millis(1)).ok();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes what the pipes hold; those at their end are closed.
    fn drain(&mut self) {
        let Watched {
            child,
            stdout,
            stderr,
            ..
        } = self;
        if let Some(pipe) = &mut child.stdout
            && read_all(pipe, &mut |bytes| stdout.push(bytes))
        {
            child.stdout = None;
        }
        if let Some(pipe) = &mut child.stderr
            && read_all(pipe, &mut |bytes| stderr.push(bytes))
        {
            child.stderr = None;
        }
    }
}

/// Reads what is there now, at most as much as a pipe holds; whether that was the end.
fn read_all(from: &mut impl io::Read, take: &mut dyn FnMut(&[u8])) -> bool {
    let mut buffer = [0; 16 * 1024];
    for _ in 0..8 {
        match from.by_ref().read(&mut buffer) {
            Ok(0) => return true,
            Ok(count) => take(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return true,
        }
    }
    false
}
