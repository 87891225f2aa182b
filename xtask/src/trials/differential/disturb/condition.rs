//! Conditions that hold during a whole run.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::super::execute::start;
use super::{Scene, inside};

/// A circumstance of a run that is no part of the tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Condition {
    /// Somebody else holds a lock of the file.
    Locked(String, Lock),
    /// Somebody else has the file open for writing.
    OpenForWriting(String),
    /// Somebody else executes the program.
    Running(String),
    /// The small disk has room for this many pages only.
    FullDisk(u64),
    /// The directory is mounted read-only.
    ReadOnly(String),
    /// The directory is a mount point, of itself.
    MountPoint(String),
    /// The command has these resource limits (`nofile=9`).
    Limited(Vec<String>),
    /// pcache makes calls fail (`PCACHE_INJECT`); needs one with planted defects.
    Injected(String),
}

/// A kind of lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Lock {
    /// flock(2), exclusive.
    Whole,
    /// fcntl(2), exclusive.
    Record,
}

/// Something held until it is dropped.
#[derive(Debug)]
pub(super) enum Held {
    /// An open file, with its locks.
    File { _file: File },
    /// A process that waits for its standard input to end.
    Process(Child),
    /// A file that fills a disk.
    Fill(PathBuf),
    /// A mount, by its path, and its root.
    Mount(PathBuf, File),
}

impl Condition {
    /// Makes it so; `None` where that is not possible.
    pub(super) fn hold(&self, scene: &Scene<'_>) -> Option<Held> {
        match self {
            Self::Locked(path, lock) => {
                let file = File::options()
                    .read(true)
                    .write(true)
                    .open(inside(scene.tree, path)?)
                    .ok()?;
                let operation = FlockOperation::NonBlockingLockExclusive;
                match lock {
                    Lock::Whole => rustix::fs::flock(&file, operation).ok()?,
                    Lock::Record => rustix::fs::fcntl_lock(&file, operation).ok()?,
                }
                Some(Held::File { _file: file })
            }
            Self::OpenForWriting(path) => {
                let file = File::options()
                    .append(true)
                    .open(inside(scene.tree, path)?)
                    .ok()?;
                Some(Held::File { _file: file })
            }
            Self::Running(path) => {
                let mut command = Command::new(inside(scene.tree, path)?);
                command.stdin(Stdio::piped()).stdout(Stdio::null());
                Some(Held::Process(start(&mut command).ok()?))
            }
            Self::FullDisk(pages) => {
                let fill = scene.small?.join(".fill");
                let size = fill_up(&fill).ok()?;
                let file = File::options().write(true).open(&fill).ok()?;
                file.set_len(size.saturating_sub(pages * 4096)).ok()?;
                Some(Held::Fill(fill))
            }
            Self::ReadOnly(path) => {
                let path = inside(scene.tree, path)?;
                let held = bind(&path)?;
                let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
                mount(None::<&Path>, &path, None::<&str>, flags, None::<&str>).ok()?;
                Some(held)
            }
            Self::MountPoint(path) => bind(&inside(scene.tree, path)?),
            Self::Limited(_) | Self::Injected(_) => None,
        }
    }
}

/// Writes until there is no room left; gives back how much that was.
fn fill_up(path: &Path) -> std::io::Result<u64> {
    let mut file = File::create(path)?;
    while file.write(&[0; 4096]).is_ok_and(|count| count > 0) {}
    Ok(file.metadata()?.len())
}

fn bind(path: &Path) -> Option<Held> {
    let none = None::<&str>;
    mount(Some(path), path, none, MsFlags::MS_BIND, none).ok()?;
    let opened = File::options()
        .read(true)
        .custom_flags(rustix::fs::OFlags::PATH.bits() as i32)
        .open(path);
    match opened {
        Ok(root) => Some(Held::Mount(path.to_owned(), root)),
        Err(_) => {
            let _ = umount2(path, MntFlags::MNT_DETACH);
            None
        }
    }
}

impl Held {
    /// Changes the first byte of a file through a mapping that stays.
    pub(super) fn mapping(path: &Path) -> Option<Self> {
        const PROGRAM: &str = "import mmap, sys\n\
            f = open(sys.argv[1], 'r+b')\n\
            m = mmap.mmap(f.fileno(), 0)\n\
            m[0:1] = b'#'\n\
            print(flush=True)\n\
            sys.stdin.read()\n";
        let mut command = Command::new("/usr/bin/python3");
        command
            .args(["-S", "-c", PROGRAM])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = start(&mut command).ok()?;
        // It has changed the file when it has said something, and never will when it ends.
        let mut byte = [0];
        let _ = child.stdout.as_mut()?.read(&mut byte);
        Some(Self::Process(child))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        match self {
            Self::File { .. } => {}
            Self::Process(child) => {
                drop(child.stdin.take());
                let _ = child.wait();
            }
            Self::Fill(path) => drop(fs::remove_file(path)),
            // Lazily: a process that was left behind may still be in it. A command may have moved a
            // directory above it; then only the descriptor leads there.
            Self::Mount(path, root) => {
                if umount2(path.as_path(), MntFlags::MNT_DETACH).is_err() {
                    let root = format!("/proc/self/fd/{}", root.as_raw_fd());
                    let _ = umount2(root.as_str(), MntFlags::MNT_DETACH);
                }
            }
        }
    }
}
