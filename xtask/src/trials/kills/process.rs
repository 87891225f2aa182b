//! Running a command until nothing is left of it, and killing parts of it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// A command, and what it has started.
pub(super) struct Tree {
    child: Child,
    output: Receiver<Vec<u8>>,
    name: String,
}

/// The end of a process tree.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
}

impl Tree {
    /// Starts a command in a directory. Its error output goes to a file there.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start(words: &[PathBuf], directory: &Path) -> anyhow::Result<Self> {
        let stderr = directory.join("stderr");
        // Descriptor 9 is left alone by whoever redirects its output.
        let mut child = Command::new("sh")
            .args(["-c", "exec 9>&1; exec \"$@\"", "sh"])
            .args(words)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(stderr)?)
            .process_group(0)
            .spawn()
            .context("starting a command")?;
        let mut stdout = child.stdout.take().context("no output")?;
        let (send, output) = channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // It ends when nobody is left who could write.
            let _ = stdout.read_to_end(&mut bytes);
            let _ = send.send(bytes);
        });
        let name = words.iter().take(2).map(|word| word.to_string_lossy());
        let name = name.collect::<Vec<_>>().join(" ");
        Ok(Self {
            child,
            output,
            name,
        })
    }

    /// Lets it run for so long. What it has printed, if it has ended by then.
    pub(super) fn run_for(&self, time: Duration) -> Option<Vec<u8>> {
        self.output.recv_timeout(time).ok()
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until all of it has ended.
    ///
    /// # Errors
    /// When something is left after `patience`; it is killed.
    pub(super) fn end(
        mut self,
        printed: Option<Vec<u8>>,
        patience: Duration,
        directory: &Path,
    ) -> anyhow::Result<Ended> {
        let stdout = match printed {
            Some(stdout) => stdout,
            None => match self.output.recv_timeout(patience) {
                Ok(stdout) => stdout,
                Err(RecvTimeoutError::Disconnected) => bail!("its output cannot be read"),
                Err(RecvTimeoutError::Timeout) => {
                    let left = descendants(self.id());
                    let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
                    for &process in left.keys() {
                        kill(process);
                    }
                    let _ = self.child.wait();
                    bail!("{} hangs, or left something behind: {left:?}", self.name);
                }
            },
        };
        let status = self.child.wait()?;
        let stderr = std::fs::read(directory.join("stderr"))?;
        Ok(Ended {
            status,
            stdout,
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
        })
    }
}

/// Kills a process, if it is still there.
pub(super) fn kill(process: u32) -> bool {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
}

/// The processes below this one, and their names.
pub(super) fn descendants(root: u32) -> BTreeMap<u32, String> {
    let mut parents = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        // The name is in parentheses, and may hold anything.
        let (Some(open), Some(close)) = (stat.find('('), stat.rfind(')')) else {
            continue;
        };
        let parent = stat[close + 1..].split_whitespace().nth(1);
        if let Some(parent) = parent.and_then(|parent| parent.parse::<u32>().ok()) {
            parents.insert(pid, (parent, stat[open + 1..close].to_owned()));
        }
    }
    let mut found = BTreeMap::new();
    let mut wanted = vec![root];
    while let Some(parent) = wanted.pop() {
        for (&pid, (its, name)) in &parents {
            if *its == parent && found.insert(pid, name.clone()).is_none() {
                wanted.push(pid);
            }
        }
    }
    found
}
