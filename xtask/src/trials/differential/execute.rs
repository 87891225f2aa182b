//! Running one command with chosen streams, and collecting what it says.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};

use super::case::{Input, Output};
use super::hang;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// By itself, with this status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
    /// It was still running, or somebody still held its output, at the
    /// deadline.
    Hang,
    /// We killed it early, as asked.
    Killed,
    /// The program could not be started.
    NotStarted,
}

/// All that can be seen of a run from outside its tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// How it ended.
    pub(crate) end: End,
    /// Standard output, or both streams where they are one.
    pub(crate) out: Vec<u8>,
    /// Standard error where it is separate.
    pub(crate) err: Vec<u8>,
    /// Bytes left in standard input.
    pub(crate) left: Vec<u8>,
    /// Where the description of an output file points afterwards.
    pub(crate) offset: u64,
}

/// When to stop waiting.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Patience {
    /// A run that takes longer hangs.
    Deadline(Duration),
    /// Kill the run after this time, and that is fine.
    Kill(Duration),
}

static APART: Mutex<()> = Mutex::new(());

/// Held while files that may be executed are written, and while a process is started. One
/// that another thread starts has all our files open until it executes its program, and what
/// is open for writing cannot be executed (`ETXTBSY`, execve(2)).
pub(super) fn apart() -> MutexGuard<'static, ()> {
    APART.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a process while nobody writes a file; it executes its program when this returns.
pub(super) fn start(command: &mut Command) -> std::io::Result<Child> {
    let _apart = apart();
    command.spawn()
}

/// Runs `command` with the streams that `input` and `output` describe.
///
/// Paths in `input` and `output` are relative to `tree`; output files that are
/// not the command's business lie in `io`. `started` gets the id of the process.
///
/// # Errors
///
/// When the streams cannot be set up, or the command cannot be waited for.
pub(crate) fn execute(
    mut command: Command,
    input: &Input,
    output: &Output,
    tree: &Path,
    io: &Path,
    patience: Patience,
    started: &dyn Fn(i32),
) -> anyhow::Result<Outcome> {
    let stdin = Stdin::open(input, tree)?;
    command.stdin(stdin.stdio()?);
    let mut pipes: Vec<(PipeReader, Vec<u8>)> = Vec::new();
    let mut files: Vec<File> = Vec::new();
    match output {
        Output::Pipes => {
            for set in [Command::stdout::<PipeWriter>, Command::stderr] {
                let (reader, writer) = std::io::pipe().context("a pipe for the output")?;
                set(&mut command, writer);
                pipes.push((reader, Vec::new()));
            }
        }
        Output::OnePipe => {
            let (reader, writer) = std::io::pipe().context("a pipe for the output")?;
            command.stdout(writer.try_clone()?);
            command.stderr(writer);
            pipes.push((reader, Vec::new()));
        }
        Output::Files => {
            files = vec![fresh(&io.join("out"))?, fresh(&io.join("err"))?];
            command.stdout(files[0].try_clone()?);
            command.stderr(files[1].try_clone()?);
        }
        Output::OneFile => {
            files = vec![fresh(&io.join("both"))?];
            command.stdout(files[0].try_clone()?);
            command.stderr(files[0].try_clone()?);
        }
        Output::Append | Output::TwoAppends => {
            let path = io.join("log");
            std::fs::write(&path, "before\n")?;
            let open = || File::options().read(true).append(true).open(&path);
            files = vec![open()?];
            command.stdout(files[0].try_clone()?);
            command.stderr(match output {
                Output::Append => files[0].try_clone()?,
                _ => open()?,
            });
        }
        Output::Tree(path) => {
            // A path that cannot be written (a directory) is the step's problem,
            // on both sides alike.
            match File::create(tree.join(path)) {
                Ok(file) => command.stdout(file),
                Err(_) => command.stdout(Stdio::null()),
            };
            let (reader, writer) = std::io::pipe().context("a pipe for the output")?;
            command.stderr(writer);
            pipes.push((reader, Vec::new()));
        }
    }
    command.process_group(0);
    let child = start(&mut command);
    drop(command); // closes our ends of the writers
    let end = match child {
        Ok(mut child) => {
            started(i32::try_from(child.id()).context("the command's process id")?);
            wait(&mut child, &mut pipes, patience)?
        }
        Err(_) => End::NotStarted,
    };
    let offset = match files.first_mut() {
        Some(file) => file.stream_position()?,
        None => 0,
    };
    let mut streams = pipes
        .into_iter()
        .map(|(_, bytes)| bytes)
        .collect::<Vec<_>>();
    for mut file in files {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        file.read_to_end(&mut bytes)?;
        streams.push(bytes);
    }
    let mut streams = streams.into_iter();
    let first = streams.next().unwrap_or_default();
    let (out, err) = match output {
        Output::Tree(_) => (Vec::new(), first),
        _ => (first, streams.next().unwrap_or_default()),
    };
    Ok(Outcome {
        end,
        out,
        err,
        left: stdin.rest()?,
        offset,
    })
}

/// Our end of the command's standard input.
enum Stdin {
    Null,
    File(File),
    Pipe(PipeReader),
}

impl Stdin {
    fn open(input: &Input, tree: &Path) -> anyhow::Result<Self> {
        Ok(match input {
            Input::Null => Self::Null,
            Input::File(path, offset) => match File::open(tree.join(path)) {
                Ok(mut file) if file.metadata()?.is_file() => {
                    file.seek(SeekFrom::Start(*offset))?;
                    Self::File(file)
                }
                // Gone since an edit, on both sides alike.
                _ => Self::Null,
            },
            Input::Pipe(text) => {
                let (reader, mut writer) = std::io::pipe().context("a pipe for the input")?;
                writer
                    .write_all(text.as_bytes())
                    .context("filling the input pipe")?;
                Self::Pipe(reader)
            }
        })
    }

    fn stdio(&self) -> anyhow::Result<Stdio> {
        Ok(match self {
            Self::Null => Stdio::null(),
            Self::File(file) => file.try_clone()?.into(),
            Self::Pipe(pipe) => pipe.try_clone()?.into(),
        })
    }

    /// The bytes that a later reader of the same description would still get.
    fn rest(self) -> anyhow::Result<Vec<u8>> {
        let mut rest = Vec::new();
        match self {
            Self::Null => {}
            Self::File(mut file) => rest = file.stream_position()?.to_string().into_bytes(),
            Self::Pipe(mut pipe) => drop(
                pipe.read_to_end(&mut rest)
                    .context("reading what is left of the input")?,
            ),
        }
        Ok(rest)
    }
}

fn fresh(path: &Path) -> anyhow::Result<File> {
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .with_context(|| format!("creating {}", path.display()))
}

/// The longest piece of waiting that counts as such: when the whole machine
/// stands still for a while, as virtual ones do, no run has hung.
const SLICE: Duration = Duration::from_secs(1);

/// Reads the pipes until the command has ended and nobody holds them any more.
fn wait(
    child: &mut Child,
    pipes: &mut [(PipeReader, Vec<u8>)],
    patience: Patience,
) -> anyhow::Result<End> {
    let pid = i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .context("the command's process id")?;
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())
        .context("opening the command's pidfd")?;
    let (Patience::Deadline(limit) | Patience::Kill(limit)) = patience;
    let mut left = limit;
    let mut status: Option<ExitStatus> = None;
    let mut open = vec![true; pipes.len()];
    let mut buffer = vec![0; 1 << 16];
    while status.is_none() || open.contains(&true) {
        if left.is_zero() {
            let family = hang::family(pid.as_raw_nonzero().get());
            if let Patience::Deadline(_) = patience {
                let ended = if status.is_some() { "ended" } else { "runs" };
                println!("a run hangs; its command, {pid:?}, {ended}:");
                for member in &family {
                    println!("  {}", member.describe());
                }
            }
            // The group is ours: we made it, and its leader was not waited for
            // or left members behind.
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
            // What it started in other groups would run on for ever.
            for member in family.iter().filter_map(|member| Pid::from_raw(member.pid)) {
                let _ = rustix::process::kill_process(member, Signal::KILL);
            }
            child.wait().context("waiting for the killed command")?;
            return Ok(match patience {
                Patience::Deadline(_) => End::Hang,
                Patience::Kill(_) => End::Killed,
            });
        }
        let mut descriptors = Vec::new();
        if status.is_none() {
            descriptors.push(PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN));
        }
        for (index, (pipe, _)) in pipes.iter().enumerate() {
            if open[index] {
                descriptors.push(PollFd::new(pipe, PollFlags::IN));
            }
        }
        let slice = left.min(SLICE);
        let timeout = Timespec {
            tv_sec: i64::try_from(slice.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: slice.subsec_nanos().into(),
        };
        let began = Instant::now();
        match rustix::event::poll(&mut descriptors, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("waiting for the command"),
        }
        left = left.saturating_sub(began.elapsed().min(slice));
        let mut ready: Vec<bool> = descriptors
            .iter()
            .map(|fd| !fd.revents().is_empty())
            .collect();
        if status.is_none() && ready.remove(0) {
            status = Some(child.wait().context("waiting for the command")?);
        }
        let mut ready = ready.into_iter();
        for (index, (pipe, bytes)) in pipes.iter_mut().enumerate() {
            if open[index] && ready.next() == Some(true) {
                let count = pipe
                    .read(&mut buffer)
                    .context("reading the command's output")?;
                open[index] = count > 0;
                bytes.extend_from_slice(&buffer[..count]);
            }
        }
    }
    let status = status.context("a command that ended has a status")?;
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => End::Exit(code),
        (None, Some(signal)) => End::Signal(signal),
        (None, None) => End::Hang,
    })
}
