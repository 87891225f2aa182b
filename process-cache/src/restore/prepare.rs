//! Prepares effects: verifies every content before any file is changed.

use std::fs::File;
use std::io::{self, Write};
use std::mem::take;

use super::files::{BUDGET, SMALL};
use super::planned_tree::{Kind, PlannedTree, Step};
use super::undo::{DirTimes, removed_dirs};
use super::unnamed_file::NewFile;
use super::{RestoreError, Result, content_of};
use crate::model::fact::Digest;
use crate::model::outcome::Effect;
use crate::model::path::FilePath;
use crate::store::{Shared, Store, StoreError, copy};
use crate::world::World;
use crate::world::attributes;

/// The prepared form of an effect's content.
pub(super) enum PreparedStep {
    /// The effect has no content.
    Nothing,
    /// The file has the content already.
    InPlace,
    /// In a file on the same file system, which only needs its name.
    NewFile(NewFile),
    /// In memory.
    Bytes(Shared),
    /// In the store, verified. It is opened again when needed, because a process may have few
    /// descriptors and an outcome many files.
    Verified,
}

/// The prepared forms of all effects. If dropped early, it restores the times of directories.
pub(super) struct PreparedSteps {
    list: Vec<PreparedStep>,
    /// Directories in which temporary files were made.
    touched: DirTimes,
}

impl Drop for PreparedSteps {
    fn drop(&mut self) {
        self.list.clear();
        self.touched.restore();
    }
}

impl PreparedSteps {
    /// Returns the prepared steps for the commit, with the earlier times of directories.
    pub(super) fn commit(&mut self) -> (Vec<PreparedStep>, DirTimes) {
        (take(&mut self.list), take(&mut self.touched))
    }
}

/// Verifies all effects; see the module documentation.
pub(super) fn prepare(
    store: &Store,
    effects: &[Effect],
    world: Option<&World>,
) -> Result<PreparedSteps> {
    let mut sketch = PlannedTree::default();
    let mut stages = PreparedSteps {
        list: Vec::with_capacity(effects.len()),
        touched: DirTimes::default(),
    };
    // A temporary file must not prevent the removal of a directory.
    let removed = removed_dirs(effects);
    let mut waiting = 0;
    for effect in effects {
        let step = sketch.step(effect)?;
        let Some((digest, length)) = content_of(effect) else {
            stages.list.push(PreparedStep::Nothing);
            continue;
        };
        let path = effect.path();
        let stage = if is_in_place(effect, &step, world) {
            PreparedStep::InPlace
        } else if is_new(effect, &step)
            && step.parent_ready
            && !path.ancestors().any(|dir| removed.contains(dir))
        {
            if let Some(dir) = path.parent() {
                stages.touched.remember(dir);
            }
            let holes = super::has_holes(effect);
            PreparedStep::NewFile(stage_file(store, path, (digest, length), holes)?)
        } else if length <= SMALL && waiting + length <= BUDGET {
            waiting += length;
            PreparedStep::Bytes(verified_bytes(store, digest, length)?)
        } else if let Some(held) = store.pending_content(digest, length) {
            PreparedStep::Bytes(held)
        } else {
            verify(store, digest, length, |_| Ok(())).map_err(|error| error.at(path))?;
            PreparedStep::Verified
        };
        stages.list.push(stage);
    }
    Ok(stages)
}

/// Whether the effect makes a new inode.
fn is_new(effect: &Effect, step: &Step) -> bool {
    matches!(effect, Effect::Write { fresh: true, .. }) || step.before == Kind::Absent
}

/// Whether the existing file has the content already. The check costs at most one read, less than
/// a copy.
fn is_in_place(effect: &Effect, step: &Step, world: Option<&World>) -> bool {
    let (
        Effect::Write {
            content,
            length,
            fresh: false,
            ..
        },
        Some(world),
        Some(stat),
    ) = (effect, world, &step.stat)
    else {
        return false;
    };
    // Writing would take these bits and the capabilities away.
    let loses_rights = stat.st_mode & (libc::S_ISUID | libc::S_ISGID) != 0
        || stat.st_mode & 0o111 != 0
            && attributes::value(effect.path(), attributes::CAPABILITY) != Ok(None);
    step.before == Kind::File
        && !loses_rights
        && u64::try_from(stat.st_size) == Ok(*length)
        && world.has_content(effect.path(), stat, content)
}

/// A failure while a content is copied.
enum Failure {
    Store(StoreError),
    Io(&'static str, io::Error),
}

impl Failure {
    fn at(self, path: &FilePath) -> RestoreError {
        match self {
            Self::Store(StoreError::Io { what, path, source }) => RestoreError::Io {
                what,
                path,
                source,
                established: None,
            },
            Self::Store(error) => RestoreError::Incomplete(error),
            Self::Io(what, source) => RestoreError::io(what, path)(source),
        }
    }
}

/// Reads a content, passes it to `sink`, and checks its digest.
fn verify(
    store: &Store,
    digest: &Digest,
    length: u64,
    sink: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), Failure> {
    let file = store.open_blob(digest, length).map_err(Failure::Store)?;
    verify_open(store, &file, digest, length, sink)
}

fn verify_open(
    store: &Store,
    file: &File,
    digest: &Digest,
    length: u64,
    sink: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), Failure> {
    match copy::hash_range(file, 0, length, sink) {
        Ok(Some(found)) if found == *digest => Ok(()),
        Ok(_) => Err(Failure::Store(store.discard(digest))),
        Err(error) => Err(Failure::Io("write", error)),
    }
}

fn verified_bytes(store: &Store, digest: &Digest, length: u64) -> Result<Shared> {
    if let Some(held) = store.pending_content(digest, length) {
        return Ok(held);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
    let sink = |piece: &[u8]| {
        bytes.extend_from_slice(piece);
        Ok(())
    };
    verify(store, digest, length, sink).map_err(|error| error.at(&FilePath::from(store.dir())))?;
    Ok(bytes.into())
}

/// Creates a verified copy next to its destination, still without its permissions.
fn stage_file(
    store: &Store,
    path: &FilePath,
    (digest, length): (&Digest, u64),
    holes: bool,
) -> Result<NewFile> {
    let mut draft = NewFile::new(path)?;
    let Some(file) = draft.file() else {
        return Ok(draft);
    };
    if let Some(held) = store.pending_content(digest, length) {
        let written = if holes {
            let mut to = copy::Sparse::new(file);
            to.write(&held).and_then(|()| to.finish())
        } else {
            file.write_all(&held)
        };
        written.map_err(RestoreError::io("write", path))?;
        return Ok(draft.close_until_placed());
    }
    let blob = store
        .open_blob(digest, length)
        .map_err(|error| Failure::Store(error).at(path))?;
    let cloned = length > SMALL && rustix::fs::ioctl_ficlone(&*file, &blob).is_ok();
    let verified = if cloned {
        verify_open(store, file, digest, length, |_| Ok(()))
    } else if holes {
        let mut to = copy::Sparse::new(file);
        verify_open(store, &blob, digest, length, |piece| to.write(piece))
            .and_then(|()| to.finish().map_err(|error| Failure::Io("write", error)))
    } else {
        verify_open(store, &blob, digest, length, |piece| file.write_all(piece))
    };
    verified.map_err(|error| error.at(path))?;
    Ok(draft.close_until_placed())
}
