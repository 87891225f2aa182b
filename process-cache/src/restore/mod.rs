//! Restores an outcome's effects on the file tree.
//!
//! Restoring has two phases. *Prepare* checks the effects against a plan of the tree at each step.
//! It verifies every content (in a temporary file next to its destination, or in memory). It
//! checks that directories exist or will be made, that no file of another kind is in the way, and
//! that writing is allowed. Prepare changes no existing file, and removes its temporary files on
//! failure. *Commit* then applies the effects in order; if one fails, it undoes the earlier ones
//! (see `undo`).
//!
//! A new inode is a temporary file, complete with permissions and time, renamed to its name. A
//! reader, or a crash, finds the old file or the new one. A file written in place keeps its inode
//! and so passes through intermediate states, as it did when the program wrote it.
//!
//! **Times.** An effect with [`Time::Present`] takes the kernel's clock when it is applied. So a
//! later effect is never older than an earlier one, and no time is in the future. All effects
//! together may take less than one tick of that clock, and build tools compare times. Files and
//! symbolic links therefore get times later than those of the inputs, and different times in the
//! same order where their times differed in the original run (see `time_order`). So do directories
//! in which names change, where they were younger than a file ([`Time::WithNames`]). Explicit
//! times of directories are set last, because new entries change them. So are permissions under
//! which the owner cannot make entries (see `directories`).

mod commit;
mod directories;
mod files;
mod planned_tree;
mod prepare;
mod time_order;
mod undo;
mod unnamed_file;

use std::io;
use std::path::PathBuf;

use crate::model::fact::{Digest, Fact};
use crate::model::outcome::{Effect, Time};
use crate::model::path::FilePath;
use crate::store::{Store, StoreError};
use crate::world::World;

/// Why effects could not be established.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// A content is missing or damaged: the hit is a miss. Nothing was changed.
    #[error("a content is not available: {0}")]
    Incomplete(#[source] StoreError),
    /// A file at the path prevents the effect. Nothing was changed.
    #[error("{} {found}", path.display())]
    Obstacle {
        /// The path.
        path: PathBuf,
        /// The obstacle that was found.
        found: &'static str,
    },
    /// A system call failed.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The operation that failed, as a verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system error.
        source: io::Error,
        /// Number of effects that were established before and could not all be undone; `None` if
        /// the tree is unchanged.
        established: Option<usize>,
    },
}

impl RestoreError {
    /// Whether the tree is unchanged.
    pub fn is_clean(&self) -> bool {
        !matches!(
            self,
            Self::Io {
                established: Some(_),
                ..
            }
        )
    }

    fn io<E: Into<io::Error>>(what: &'static str, path: &FilePath) -> impl FnOnce(E) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io {
            what,
            path,
            source: source.into(),
            established: None,
        }
    }

    fn obstacle(path: &FilePath, found: &'static str) -> Self {
        Self::Obstacle {
            path: path.to_path_buf(),
            found,
        }
    }
}

type Result<T, E = RestoreError> = std::result::Result<T, E>;

/// The result of applying effects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restored {
    /// Bytes of content written.
    pub bytes: u64,
    /// Bytes that were in place and not written again.
    pub kept: u64,
}

/// Receives (bytes done, total bytes) from time to time.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// How effects are established.
#[derive(Default)]
pub struct Options<'a> {
    /// Cache of digests. A file that is to be written in place and already has its content is not
    /// written again (its time still changes). Digests of written files are added.
    pub world: Option<&'a World>,
    /// Receives the progress.
    pub progress: Option<Progress<'a>>,
    /// See [`crate::model::outcome::Outcome::ages`].
    pub ages: &'a [u32],
    /// Facts about the files that the program looked at: outputs become newer than these files.
    pub inputs: &'a [Fact],
}

/// Establishes effects in order.
///
/// # Errors
/// See [`RestoreError`]; [`RestoreError::is_clean`] tells whether the tree is unchanged.
pub fn apply(store: &Store, effects: &[Effect]) -> Result<Restored> {
    apply_with(store, effects, Options::default())
}

/// Same as [`apply`], with options.
///
/// # Errors
/// As [`apply`].
pub fn apply_with(store: &Store, effects: &[Effect], options: Options<'_>) -> Result<Restored> {
    let stages = prepare::prepare(store, effects, options.world)?;
    commit::run(store, effects, stages, options)
}

/// Returns the content that an effect writes, with its length.
fn content_of(effect: &Effect) -> Option<(&Digest, u64)> {
    match effect {
        Effect::Write {
            content, length, ..
        } => Some((content, *length)),
        Effect::Append { data, length, .. } => Some((data, *length)),
        _ => None,
    }
}

/// Whether zero pages of an effect's content become holes.
fn has_holes(effect: &Effect) -> bool {
    matches!(effect, Effect::Write { holes: true, .. })
}

/// Whether a time has to be set again after all other effects.
fn is_explicit(time: Time) -> bool {
    matches!(time, Time::Set(..))
}

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;
