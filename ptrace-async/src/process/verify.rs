//! Comparing the model with `/proc`.

use std::path::{Path, PathBuf};

use super::model::Processes;
use super::proc::{self, Descriptor};
use crate::event::{FileKind, OpenFile, Tid};

/// A difference between the model of a process and `/proc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mismatch {
    /// The model does not know the task.
    UnknownTask,
    /// The process has a descriptor that the model does not know.
    Missing {
        /// The descriptor.
        fd: i32,
        /// The actual object.
        actual: String,
    },
    /// The model has a descriptor that the process does not have.
    Stale {
        /// The descriptor.
        fd: i32,
    },
    /// A descriptor refers to something else.
    Object {
        /// The descriptor.
        fd: i32,
        /// The model's value.
        model: String,
        /// The actual object.
        actual: String,
    },
    /// The close-on-exec flag differs.
    CloseOnExec {
        /// The descriptor.
        fd: i32,
        /// The model's flag.
        model: bool,
    },
    /// The access mode, `O_APPEND` or `O_NONBLOCK` differs.
    Flags {
        /// The descriptor.
        fd: i32,
        /// The actual flags of the description.
        actual: i32,
    },
    /// The working directory differs.
    Directory {
        /// The model's value.
        model: PathBuf,
        /// The kernel's value.
        actual: PathBuf,
    },
    /// The file-creation mask differs.
    Umask {
        /// The model's value.
        model: u32,
        /// The kernel's value.
        actual: u32,
    },
}

impl Processes {
    /// Compares the model of a process with `/proc`: for tests, and as a self
    /// check. The process must be stopped, or the caller's own. Empty when all
    /// is well, and when the process is gone.
    #[must_use]
    pub fn verify(&self, tid: Tid) -> Vec<Mismatch> {
        verify(self, tid)
    }
}

fn verify(model: &Processes, tid: Tid) -> Vec<Mismatch> {
    let mut found = Vec::new();
    if model.task(tid).is_none() {
        return vec![Mismatch::UnknownTask];
    }
    let Ok(actual) = proc::descriptors(tid) else {
        return found;
    };
    // A process that reads its own `/proc/self/fd` had a descriptor for that, which is
    // closed by now.
    let actual: Vec<(i32, Descriptor)> = actual
        .into_iter()
        .filter_map(|fd| Some((fd, Descriptor::read(tid, fd).ok()?)))
        .collect();
    for (fd, descriptor) in &actual {
        match model.table(tid).and_then(|table| table.get(*fd)) {
            None => found.push(Mismatch::Missing {
                fd: *fd,
                actual: describe(descriptor),
            }),
            Some(slot) => {
                compare(*fd, &slot.file, descriptor, &mut found);
                if slot.cloexec != descriptor.cloexec {
                    found.push(Mismatch::CloseOnExec {
                        fd: *fd,
                        model: slot.cloexec,
                    });
                }
            }
        }
    }
    for (fd, _, _) in model.descriptors(tid) {
        if actual.binary_search_by_key(&fd, |(fd, _)| *fd).is_err() {
            found.push(Mismatch::Stale { fd });
        }
    }
    compare_location(model, tid, &mut found);
    found
}

fn compare_location(model: &Processes, tid: Tid, found: &mut Vec<Mismatch>) {
    let cwd = model.cwd(tid).unwrap_or(Path::new("")).to_owned();
    if let Ok(actual) = proc::cwd(tid)
        && actual != cwd
        && !proc::is_deleted(&actual)
    {
        found.push(Mismatch::Directory { model: cwd, actual });
    }
    let umask = model.umask(tid);
    if let Ok(actual) = proc::umask(tid)
        && actual != umask
    {
        found.push(Mismatch::Umask {
            model: umask,
            actual,
        });
    }
}

fn compare(fd: i32, file: &OpenFile, actual: &Descriptor, found: &mut Vec<Mismatch>) {
    if !same_object(file, actual) {
        found.push(Mismatch::Object {
            fd,
            model: match &file.path {
                Some(path) => path.display().to_string(),
                None => format!("{:?}", file.kind),
            },
            actual: describe(actual),
        });
    }
    let access = actual.flags & libc::O_ACCMODE;
    let path_only = actual.flags & libc::O_PATH != 0;
    let same = path_only == file.path_only
        && (path_only
            || (file.readable == (access != libc::O_WRONLY)
                && file.writable == (access != libc::O_RDONLY)
                && file.append.get() == (actual.flags & libc::O_APPEND != 0)
                && file.nonblocking.get() == (actual.flags & libc::O_NONBLOCK != 0)));
    if !same {
        found.push(Mismatch::Flags {
            fd,
            actual: actual.flags,
        });
    }
}

fn same_object(file: &OpenFile, actual: &Descriptor) -> bool {
    match (&file.kind, &actual.kind) {
        (FileKind::Pipe { pipe }, FileKind::Pipe { pipe: inode }) => {
            pipe >> 63 == 1 || pipe == inode
        }
        (FileKind::Socket(_), FileKind::Socket(_)) | (FileKind::MemFd, FileKind::MemFd) => true,
        (FileKind::Opened | FileKind::Regular | FileKind::Directory, _) => {
            same_path(file.path.as_deref(), actual)
        }
        (model, actual) => model == actual,
    }
}

/// A path that now leads to another file is no mismatch: the file may have been removed or
/// replaced, or be a link of `/proc`.
fn same_path(model: Option<&Path>, actual: &Descriptor) -> bool {
    let (Some(model), Some(now)) = (model, actual.path.as_deref()) else {
        return true;
    };
    model == now
        || proc::is_deleted(now)
        || model.starts_with("/proc")
        || model.starts_with("/dev") && !model.starts_with("/dev/shm")
        || model.canonicalize().is_ok_and(|canonical| canonical == now)
}

fn describe(descriptor: &Descriptor) -> String {
    match &descriptor.path {
        Some(path) => path.display().to_string(),
        None => format!("{:?}", descriptor.kind),
    }
}
