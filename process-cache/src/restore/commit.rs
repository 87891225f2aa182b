//! Commits effects in order, each with its permissions and time.

use std::fs::{self, File, Metadata};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use tempfile::TempPath;

use super::directories::Directories;
use super::files::{chmod, open_for_writing, put_over, set_attribute, set_times, temporary};
use super::prepare::{PreparedStep, PreparedSteps};
use super::undo::{Before, Undo, removed_dirs};
use super::unnamed_file::NewFile;
use super::{Options, RestoreError, Restored, Result, content_of, is_explicit};
use crate::model::outcome::{Effect, Time};
use crate::model::path::FilePath;
use crate::store::{Store, copy};
use crate::world::attributes::{self, ACCESS_LIST};

/// Establishes prepared effects, or undoes those that were established.
pub(super) fn run(
    store: &Store,
    effects: &[Effect],
    mut stages: PreparedSteps,
    options: Options<'_>,
) -> Result<Restored> {
    let (list, times) = stages.commit();
    let mut commit = Commit {
        store,
        directories: Directories::default(),
        undo: Undo::new(removed_dirs(effects), times),
        names: Vec::new(),
    };
    let mut established = 0;
    let restored = commit.all(effects, list, options, &mut established);
    restored.map_err(|error| {
        commit.directories.reopen();
        match commit.undo.take_back() {
            true => error,
            false => after(error, established),
        }
    })
}

/// Returns the value that effects give to an attribute of a file.
fn attribute<'e>(effects: &'e [Effect], of: &FilePath, asked: &[u8]) -> Option<&'e [u8]> {
    effects.iter().rev().find_map(|effect| match effect {
        Effect::Attribute { path, name, value } if path == of && name == asked => value.as_deref(),
        _ => None,
    })
}

/// Marks an error as one that came after `index` effects.
fn after(mut error: RestoreError, index: usize) -> RestoreError {
    if let RestoreError::Io { established, .. } = &mut error {
        *established = Some(index);
    }
    error
}

/// Effects on their way into the tree.
struct Commit<'a> {
    store: &'a Store,
    directories: Directories,
    undo: Undo<'a>,
    /// Names that were made, replaced or removed.
    names: Vec<FilePath>,
}

impl Commit<'_> {
    fn all(
        &mut self,
        effects: &[Effect],
        list: Vec<PreparedStep>,
        mut options: Options<'_>,
        established: &mut usize,
    ) -> Result<Restored> {
        let total = effects
            .iter()
            .filter_map(content_of)
            .map(|(_, length)| length)
            .sum();
        let mut restored = Restored::default();
        for (effect, stage) in effects.iter().zip(list) {
            let length = content_of(effect).map_or(0, |(_, length)| length);
            let kept = matches!(stage, PreparedStep::InPlace);
            self.apply(effect, effects, stage)?;
            *established += 1;
            *(if kept {
                &mut restored.kept
            } else {
                &mut restored.bytes
            }) += length;
            if length > 0
                && let Some(progress) = &mut options.progress
            {
                progress(restored.bytes + restored.kept, total);
            }
        }
        // Files moved aside are removed first: that changes the times of directories.
        self.undo.settle();
        super::time_order::apply(effects, options.ages, options.inputs, &self.names);
        if let Some(world) = options.world {
            for effect in effects {
                if let Effect::Write { path, content, .. } = effect {
                    world.learn(path, *content);
                }
            }
        }
        self.directories.finish()?;
        Ok(restored)
    }

    /// Establishes one of `effects`.
    fn apply(&mut self, effect: &Effect, effects: &[Effect], stage: PreparedStep) -> Result<()> {
        let path = effect.path();
        let before = self.undo.look(path);
        let content = Content {
            store: self.store,
            effect,
            stage,
        };
        match effect {
            Effect::Write {
                mode,
                create_mode,
                fresh,
                time,
                ..
            } => match (&content.stage, *fresh, &before) {
                (PreparedStep::NewFile(_), ..) | (_, true, _) | (_, _, None) => {
                    let mode = mode.unwrap_or(*create_mode);
                    self.create(path, before, |path| create(path, content, mode, *time))
                }
                (_, false, Some(before)) => {
                    if matches!(content.stage, PreparedStep::InPlace) {
                        self.undo.change(path, before, Before::Same);
                    } else {
                        self.undo.overwrite(path, before);
                    }
                    overwrite(path, before, content, *mode, *time)
                }
            },
            Effect::Append {
                create_mode, time, ..
            } => match (&content.stage, &before) {
                (PreparedStep::NewFile(_), _) | (_, None) => self.create(path, before, |path| {
                    create(path, content, *create_mode, *time)
                }),
                (_, Some(before)) => {
                    self.undo.change(path, before, Before::Start);
                    append(path, content, *time)
                }
            },
            Effect::MakeDir { mode, time, .. } => {
                let before = before.as_ref();
                self.names.extend(before.is_none().then(|| path.clone()));
                let list = |list: &[u8]| attribute(effects, path, list);
                self.directories
                    .make(path, *mode, before, &list, &mut self.undo)?;
                if is_explicit(*time) {
                    self.directories.date(path, *time);
                }
                Ok(())
            }
            Effect::Symlink { target, .. } => self.create(path, before, |path| {
                replace(path, |name| {
                    rustix::fs::symlinkat(target.as_path(), CWD, name)
                })
            }),
            Effect::HardLink { to, .. } => self.create(path, before, |path| {
                replace(path, |name| {
                    rustix::fs::linkat(CWD, to.as_path(), CWD, name, AtFlags::empty())
                })
            }),
            Effect::Remove { .. } => {
                self.names.extend(before.is_some().then(|| path.clone()));
                self.undo.remove(path, before.as_ref())
            }
            Effect::RemoveDir { .. } => {
                self.names.extend(before.is_some().then(|| path.clone()));
                self.undo.remove_dir(path, before.as_ref())?;
                self.directories.forget(path);
                Ok(())
            }
            Effect::Chmod { mode, .. } => match &before {
                Some(before) if before.is_dir() => {
                    self.directories.chmod(path, *mode, before, &mut self.undo)
                }
                _ => {
                    self.note_change(path, before);
                    chmod(path, *mode)
                }
            },
            // A directory that already has this list may lose its set-group-ID bit if it is set.
            Effect::Attribute { name, value, .. }
                if name == ACCESS_LIST && attributes::value(path, name).as_ref() == Ok(value) =>
            {
                Ok(())
            }
            Effect::Attribute { name, value, .. } => {
                self.undo.attribute(path, name)?;
                set_attribute(path, name, value.as_deref())
            }
            // Its place in time comes with the names in it.
            Effect::SetTimes {
                time: Time::WithNames,
                ..
            } => Ok(()),
            Effect::SetTimes { time, .. } => {
                let directory = before.as_ref().is_some_and(Metadata::is_dir);
                if directory && is_explicit(*time) {
                    self.directories.date(path, *time);
                    return Ok(());
                }
                self.note_change(path, before);
                set_times(path, *time)
            }
        }
    }

    /// Makes a new inode under a name, and replaces an existing file.
    fn create(
        &mut self,
        path: &FilePath,
        before: Option<Metadata>,
        make: impl FnOnce(&FilePath) -> Result<Option<TempPath>>,
    ) -> Result<()> {
        if before.as_ref().is_some_and(Metadata::is_dir) {
            let error = std::io::Error::from(std::io::ErrorKind::IsADirectory);
            return Err(RestoreError::io("create", path)(error));
        }
        let old = make(path)?;
        self.names.push(path.clone());
        self.undo.made(path, before.as_ref(), old);
        Ok(())
    }

    /// Notes that the metadata of this file is about to change.
    fn note_change(&mut self, path: &FilePath, before: Option<Metadata>) {
        if let Some(before) = before {
            self.undo.change(path, &before, Before::Same);
        }
    }
}

/// A content to be written into a file.
struct Content<'a> {
    store: &'a Store,
    effect: &'a Effect,
    stage: PreparedStep,
}

impl Content<'_> {
    fn write(&self, to: &mut File, path: &FilePath) -> Result<()> {
        let written = match &self.stage {
            PreparedStep::Bytes(bytes) if super::has_holes(self.effect) => {
                let mut sparse = copy::Sparse::new(to);
                sparse.write(bytes).and_then(|()| sparse.finish())
            }
            PreparedStep::Bytes(bytes) => to.write_all(bytes),
            PreparedStep::Verified => {
                let Some((digest, length)) = content_of(self.effect) else {
                    return Ok(());
                };
                match self.store.open_blob(digest, length) {
                    Ok(blob) if super::has_holes(self.effect) => {
                        let mut sparse = copy::Sparse::new(to);
                        let copied =
                            copy::hash_range(&blob, 0, length, |piece| sparse.write(piece));
                        copied.and_then(|_| sparse.finish())
                    }
                    Ok(blob) => copy::copy_all(&blob, to, length),
                    Err(error) => Err(std::io::Error::other(error)),
                }
            }
            PreparedStep::Nothing | PreparedStep::InPlace | PreparedStep::NewFile(_) => Ok(()),
        };
        written.map_err(RestoreError::io("write", path))
    }
}

/// Makes a new file under a name; returns the replaced file.
fn create(
    path: &FilePath,
    content: Content<'_>,
    mode: u32,
    time: Time,
) -> Result<Option<TempPath>> {
    let time = match time {
        Time::Set(..) => time,
        Time::Present | Time::Kept | Time::WithNames => Time::Present,
    };
    let draft = match content.stage {
        PreparedStep::NewFile(draft) => draft,
        _ => {
            let mut draft = NewFile::new(path)?;
            if let Some(file) = draft.file() {
                content.write(file, path)?;
            }
            draft
        }
    };
    draft.place(path, mode, time)
}

/// Writes a file in place.
fn overwrite(
    path: &FilePath,
    before: &Metadata,
    content: Content<'_>,
    mode: Option<u32>,
    time: Time,
) -> Result<()> {
    let keeps = matches!(content.stage, PreparedStep::InPlace);
    let kept = if time == Time::Kept {
        use std::os::unix::fs::MetadataExt;
        let ns = i128::from(before.mtime()) * 1_000_000_000 + i128::from(before.mtime_nsec());
        Time::Set(None, Some(ns))
    } else {
        time
    };
    let mut stamped = false;
    // The program would fail to open an append-only file, or one that is being executed.
    let mut file = open_for_writing(path, mode.is_some())?;
    if !keeps {
        let length = content_of(content.effect).map_or(0, |(_, length)| length);
        // Truncating it first would make ext4 allocate and write out anew, which costs a hundred
        // times as much as overwriting.
        let before = before.len();
        let keep = if super::has_holes(content.effect) {
            0
        } else {
            length
        };
        if before > keep {
            file.set_len(keep)
                .map_err(RestoreError::io("write", path))?;
        }
        content.write(&mut file, path)?;
        stamped = before > 0 || length > 0;
    }
    if let Some(mode) = mode {
        chmod(path, mode)?;
    }
    match kept {
        // The write has set the time.
        Time::Present if stamped => Ok(()),
        Time::Present => touch(path),
        _ => set_times(path, kept),
    }
}

fn append(path: &FilePath, content: Content<'_>, time: Time) -> Result<()> {
    let mut options = File::options();
    options
        .append(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let mut file = options
        .open(path.as_path())
        .map_err(RestoreError::io("append to", path))?;
    // The kernel copies no ranges into a file opened for appending.
    match content.stage {
        PreparedStep::Verified => {
            let bytes = content_of(content.effect)
                .map(|(digest, _)| content.store.get_bytes(digest))
                .transpose()
                .map_err(|error| {
                    RestoreError::io("append to", path)(std::io::Error::other(error))
                })?;
            file.write_all(&bytes.unwrap_or_default())
                .map_err(RestoreError::io("append to", path))?;
        }
        _ => content.write(&mut file, path)?,
    }
    if time == Time::Kept {
        Ok(())
    } else {
        set_times(path, time)
    }
}

/// Makes a file under a name; returns the replaced file.
fn replace(
    path: &FilePath,
    make: impl Fn(&std::path::Path) -> rustix::io::Result<()>,
) -> Result<Option<TempPath>> {
    let attempt = make(path);
    if attempt != Err(rustix::io::Errno::EXIST) {
        return attempt
            .map(|()| None)
            .map_err(RestoreError::io("create", path));
    }
    // Its name is unique; the new file is made in its place.
    let name = temporary(path)?.into_temp_path();
    fs::remove_file(&name).map_err(RestoreError::io("create", path))?;
    make(&name).map_err(RestoreError::io("create", path))?;
    put_over(name, path).map_err(RestoreError::io("create", path))
}

/// Sets the modification time to the present, as a write would.
fn touch(path: &FilePath) -> Result<()> {
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        },
    };
    rustix::fs::utimensat(CWD, path.as_path(), &times, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(RestoreError::io("set the times of", path))
}
