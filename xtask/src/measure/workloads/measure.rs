//! Wall and CPU time of a command and everything it starts.
//!
//! CPU time is that of all descendants, those that outlive the command
//! included: this process makes itself their reaper, and waits for them after
//! the clock for the wall time has stopped. Its first thread, to which orphans go,
//! must therefore have no other children meanwhile; those of other threads (a server)
//! are not waited for.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rustix::process::WaitOptions;
use serde::Serialize;

/// The cost of one run, in seconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Cost {
    /// From start to the end of the command.
    pub(crate) wall: f64,
    /// User and system time of the command and all its descendants.
    pub(crate) cpu: f64,
}

/// Longest time to wait for what a command left behind.
const STRAGGLERS: Duration = Duration::from_secs(30);

/// `__WNOTHREAD` of the kernel: no children of other threads.
const OWN_CHILDREN: WaitOptions = WaitOptions::from_bits_retain(0x2000_0000);

/// Runs `command`, from the first thread; also says whether it succeeded.
///
/// # Errors
///
/// When it cannot be started.
pub(crate) fn measure(command: &mut Command) -> anyhow::Result<(Cost, bool)> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .context("becoming a reaper")?;
    let before = children_cpu()?;
    let start = Instant::now();
    let status = command
        .status()
        .with_context(|| format!("starting {:?}", command.get_program()))?;
    let wall = start.elapsed();
    while start.elapsed() < wall + STRAGGLERS {
        match rustix::process::wait(WaitOptions::NOHANG | OWN_CHILDREN) {
            Ok(None) => std::thread::sleep(Duration::from_millis(1)),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    Ok((
        Cost {
            wall: wall.as_secs_f64(),
            cpu: children_cpu()? - before,
        },
        status.success(),
    ))
}

/// Has what was written go to the disk, and what is going to be read (files, and
/// directories with all below them) come into memory: what a disk takes, and what
/// the kernel forgot meanwhile, says nothing about the sides.
pub(super) fn settle(mut open: Vec<PathBuf>) {
    rustix::fs::sync();
    while let Some(path) = open.pop() {
        // What cannot be read is not read.
        match std::fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => {
                let entries = std::fs::read_dir(&path).into_iter().flatten();
                open.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
            }
            Ok(found) if found.is_file() => {
                let file = std::fs::File::open(&path);
                let _ = file.and_then(|mut file| std::io::copy(&mut file, &mut std::io::sink()));
            }
            _ => {}
        }
    }
}

fn children_cpu() -> anyhow::Result<f64> {
    let usage =
        getrusage(UsageWho::RUSAGE_CHILDREN).context("asking for the time children took")?;
    let microseconds =
        usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(microseconds as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;
    use std::sync::mpsc::channel;

    #[test]
    fn children_of_other_threads_are_left_alone() {
        let ((started, starts), (measured, ends)) = (channel(), channel());
        let other = std::thread::spawn(move || {
            let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
            started.send(()).unwrap();
            ends.recv().unwrap();
            let running = child.try_wait().unwrap().is_none();
            drop(child.stdin.take());
            (running, child.wait().unwrap().success())
        });
        starts.recv().unwrap();
        let start = Instant::now();
        let (_, succeeded) = measure(&mut Command::new("true")).unwrap();
        let took = start.elapsed();
        measured.send(()).unwrap();
        assert!(succeeded);
        assert!(took < STRAGGLERS, "it waited for them: {took:?}");
        assert_eq!(other.join().unwrap(), (true, true));
    }
}
