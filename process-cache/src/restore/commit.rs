//! Committing: effects in order, each with its permissions and time.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

use super::draft::Draft;
use super::stage::{Stage, Stages, temporary};
use super::{Options, RestoreError, Restored, Result, content_of, is_explicit};
use crate::outcome::{Effect, Time};
use crate::path::FilePath;
use crate::store::{Store, copy};

/// Establishes prepared effects.
pub(super) fn run(
    store: &Store,
    effects: &[Effect],
    mut stages: Stages,
    mut options: Options<'_>,
) -> Result<Restored> {
    stages.committed = true;
    let total = effects
        .iter()
        .filter_map(content_of)
        .map(|(_, length)| length)
        .sum();
    let mut restored = Restored::default();
    let mut late = Vec::new();
    let list = std::mem::take(&mut stages.list);
    for (index, (effect, stage)) in effects.iter().zip(list).enumerate() {
        let length = content_of(effect).map_or(0, |(_, length)| length);
        let kept = matches!(stage, Stage::InPlace);
        establish(store, effect, stage, &mut late).map_err(|error| after(error, index))?;
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
    super::ages::apply(effects, options.ages);
    if let Some(world) = options.world {
        for effect in effects {
            if let Effect::Write { path, content, .. } = effect {
                world.learn(path, *content);
            }
        }
    }
    for (path, time) in late {
        // It may have been removed again.
        if fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
            set_times(&path, time).map_err(|error| after(error, effects.len()))?;
        }
    }
    Ok(restored)
}

pub(super) fn timespec(ns: i128) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(ns.div_euclid(1_000_000_000)).unwrap_or(i64::MAX),
        tv_nsec: ns.rem_euclid(1_000_000_000) as _,
    }
}

/// Marks an error as one that came after `index` effects.
fn after(mut error: RestoreError, index: usize) -> RestoreError {
    if let RestoreError::Io { established, .. } = &mut error {
        *established = Some(index);
    }
    error
}

fn establish(
    store: &Store,
    effect: &Effect,
    stage: Stage,
    late: &mut Vec<(FilePath, Time)>,
) -> Result<()> {
    match effect {
        Effect::Write {
            path,
            mode,
            create_mode,
            fresh,
            time,
            ..
        } => {
            let content = Content {
                store,
                effect,
                stage,
            };
            let new_mode = mode.unwrap_or(*create_mode);
            match (&content.stage, *fresh) {
                (Stage::Draft(_), _) | (_, true) => create(path, content, new_mode, *time),
                _ => overwrite(path, content, *mode, *create_mode, *time),
            }
        }
        Effect::Append {
            path,
            create_mode,
            time,
            ..
        } => {
            let content = Content {
                store,
                effect,
                stage,
            };
            match content.stage {
                Stage::Draft(_) => create(path, content, *create_mode, *time),
                _ => append(path, content, *create_mode, *time),
            }
        }
        Effect::MakeDir { path, mode, time } => {
            make_dir(path, *mode)?;
            if is_explicit(*time) {
                late.push((path.clone(), *time));
            }
            Ok(())
        }
        Effect::Symlink { path, target } => replace(path, |temporary| {
            rustix::fs::symlinkat(target.as_path(), CWD, temporary)
        }),
        Effect::HardLink { path, to } => replace(path, |temporary| {
            rustix::fs::linkat(CWD, to.as_path(), CWD, temporary, AtFlags::empty())
        }),
        Effect::Remove { path } => {
            gone(fs::remove_file(path.as_path())).map_err(RestoreError::io("remove", path))
        }
        Effect::RemoveDir { path } => {
            gone(fs::remove_dir(path.as_path())).map_err(RestoreError::io("remove", path))
        }
        Effect::Chmod { path, mode } => chmod(path, *mode),
        Effect::SetTimes { path, time } => {
            let directory = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
            if directory && is_explicit(*time) {
                late.push((path.clone(), *time));
                return Ok(());
            }
            set_times(path, *time)
        }
    }
}

/// A content on its way into a file.
struct Content<'a> {
    store: &'a Store,
    effect: &'a Effect,
    stage: Stage,
}

impl Content<'_> {
    fn write(&self, to: &mut File, path: &FilePath) -> Result<()> {
        let written = match &self.stage {
            Stage::Bytes(bytes) if super::has_holes(self.effect) => {
                let mut sparse = copy::Sparse::new(to);
                sparse.write(bytes).and_then(|()| sparse.finish())
            }
            Stage::Bytes(bytes) => to.write_all(bytes),
            Stage::Verified => {
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
            Stage::Nothing | Stage::InPlace | Stage::Draft(_) => Ok(()),
        };
        written.map_err(RestoreError::io("write", path))
    }
}

/// Makes a new inode under a name, whatever had it.
fn create(path: &FilePath, content: Content<'_>, mode: u32, time: Time) -> Result<()> {
    let time = match time {
        Time::Set(..) => time,
        Time::Present | Time::Kept => Time::Present,
    };
    let draft = match content.stage {
        Stage::Draft(draft) => draft,
        _ => {
            let mut draft = Draft::new(path)?;
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
    content: Content<'_>,
    mode: Option<u32>,
    create_mode: u32,
    time: Time,
) -> Result<()> {
    let keeps = matches!(content.stage, Stage::InPlace);
    let before = fs::symlink_metadata(path).ok();
    if before.is_none() {
        return create(path, content, mode.unwrap_or(create_mode), time);
    }
    let kept = match (time, &before) {
        (Time::Kept, Some(before)) => {
            use std::os::unix::fs::MetadataExt;
            let ns = i128::from(before.mtime()) * 1_000_000_000 + i128::from(before.mtime_nsec());
            Time::Set(None, Some(ns))
        }
        _ => time,
    };
    let mut stamped = false;
    if !keeps {
        let mut file = open_for_writing(path, mode.is_some())?;
        let length = content_of(content.effect).map_or(0, |(_, length)| length);
        // Emptying it first would make ext4 allocate and write out anew, a
        // hundred times the cost of writing over what is there.
        let before = before.as_ref().map_or(0, fs::Metadata::len);
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
        // Writing has stamped it.
        Time::Present if stamped => Ok(()),
        Time::Present => touch(path),
        _ => set_times(path, kept),
    }
}

/// Opens an existing file.
fn open_for_writing(path: &FilePath, may_chmod: bool) -> Result<File> {
    let mut options = File::options();
    options
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    match options.open(path.as_path()) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied && may_chmod => {
            chmod(path, 0o600)?;
            options.open(path.as_path())
        }
        opened => opened,
    }
    .map_err(RestoreError::io("write", path))
}

fn append(path: &FilePath, content: Content<'_>, create_mode: u32, time: Time) -> Result<()> {
    let mut options = File::options();
    options
        .append(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let mut file = match options.open(path.as_path()) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return create(path, content, create_mode, time);
        }
        opened => opened.map_err(RestoreError::io("append to", path))?,
    };
    // The kernel copies no ranges into a file that is open for appending.
    match content.stage {
        Stage::Verified => {
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

fn make_dir(path: &FilePath, mode: u32) -> Result<()> {
    match fs::create_dir(path.as_path()) {
        Ok(()) => chmod(path, mode),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let found = fs::symlink_metadata(path).map_err(RestoreError::io("look at", path))?;
            if !found.is_dir() {
                return Err(RestoreError::io("create", path)(error));
            }
            if found.permissions().mode() & 0o7777 == mode & 0o7777 {
                return Ok(());
            }
            chmod(path, mode)
        }
        Err(error) => Err(RestoreError::io("create", path)(error)),
    }
}

/// Makes something under a temporary name and renames it over `path`.
fn replace(
    path: &FilePath,
    make: impl Fn(&std::path::Path) -> rustix::io::Result<()>,
) -> Result<()> {
    let attempt = make(path);
    if attempt != Err(rustix::io::Errno::EXIST) {
        return attempt.map_err(RestoreError::io("create", path));
    }
    // Its name is unique; what it stands for is made in its place.
    let name = temporary(path)?.into_temp_path();
    fs::remove_file(&name).map_err(RestoreError::io("create", path))?;
    make(&name).map_err(RestoreError::io("create", path))?;
    // Renaming one link of a file over another does nothing: the guard then
    // removes the temporary name.
    fs::rename(&name, path.as_path()).map_err(RestoreError::io("create", path))
}

fn gone(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(())
        }
        result => result,
    }
}

fn chmod(path: &FilePath, mode: u32) -> Result<()> {
    fs::set_permissions(path.as_path(), fs::Permissions::from_mode(mode & 0o7777))
        .map_err(RestoreError::io("set the permissions of", path))
}

fn set_times(path: &FilePath, time: Time) -> Result<()> {
    if time == Time::Kept {
        return Ok(());
    }
    rustix::fs::utimensat(
        CWD,
        path.as_path(),
        &timestamps(time),
        AtFlags::SYMLINK_NOFOLLOW,
    )
    .map_err(RestoreError::io("set the times of", path))
}

/// Makes the modification time the present, as writing would.
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

pub(super) fn timestamps(time: Time) -> Timestamps {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    let exact = |time: Option<i128>| match time {
        None => special(UTIME_NOW),
        Some(ns) => timespec(ns),
    };
    match time {
        Time::Set(accessed, modified) => Timestamps {
            last_access: exact(accessed),
            last_modification: exact(modified),
        },
        Time::Present => Timestamps {
            last_access: special(UTIME_NOW),
            last_modification: special(UTIME_NOW),
        },
        Time::Kept => Timestamps {
            last_access: special(UTIME_OMIT),
            last_modification: special(UTIME_OMIT),
        },
    }
}
