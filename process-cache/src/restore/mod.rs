//! Establishing an outcome's effects on the file tree.
//!
//! Two phases. *Prepare* walks the effects against a sketch of the tree as it
//! will be at each step: it verifies every content (into a temporary file next
//! to its destination, or in memory), checks that directories are there or are
//! made, that nothing of another kind stands in the way, and that writing is
//! allowed. Until it has succeeded, nothing that is there has been touched, and
//! on failure its temporary files are removed. *Commit* then goes through the
//! effects in order; if one of them fails, it takes back those before (see
//! `undo`).
//!
//! A new inode is a temporary file, complete with permissions and time, renamed
//! over the name: whoever looks, or kills us, sees the old file or the new one.
//! A file written in place keeps its inode and so passes through states in
//! between, as it did when the program wrote it.
//!
//! **Times.** What is [`Time::Present`] gets the kernel's clock when its turn
//! comes, so a later effect is never older than an earlier one and nothing lies
//! in the future. All effects together may take less than a tick of that clock,
//! and build tools compare times: files whose times differed when the program
//! made them get times that differ, in the same order (see `time_order`). Explicit
//! times of directories are set last, because making entries changes them, and
//! so are permissions that do not let their owner make any (see `directories`).

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

use crate::model::fact::Digest;
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
    /// Something stands at the path that the effect cannot deal with. Nothing
    /// was changed.
    #[error("{} {found}", path.display())]
    Obstacle {
        /// Where.
        path: PathBuf,
        /// The obstacle that was found.
        found: &'static str,
    },
    /// A system call failed.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The operation that failed, as a verb.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
        /// Effects that were established before and could not all be taken back;
        /// `None` if the tree is as it was.
        established: Option<usize>,
    },
}

impl RestoreError {
    /// Whether the tree is as it was before.
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
    /// Bytes that were in place already and were not written again.
    pub kept: u64,
}

/// Told (bytes done, bytes in all) now and then.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// How effects are established.
#[derive(Default)]
pub struct Options<'a> {
    /// Knows digests: a file that is to be written in place and has its content
    /// already is not written again (its time still changes), and what is
    /// written is remembered.
    pub world: Option<&'a World>,
    /// Told about progress.
    pub progress: Option<Progress<'a>>,
    /// See [`crate::model::outcome::Outcome::ages`].
    pub ages: &'a [u32],
}

/// Establishes effects in order.
///
/// # Errors
/// See [`RestoreError`]; [`RestoreError::is_clean`] says whether the tree is
/// still as it was.
pub fn apply(store: &Store, effects: &[Effect]) -> Result<Restored> {
    apply_with(store, effects, Options::default())
}

/// As [`apply`], with options.
///
/// # Errors
/// As [`apply`].
pub fn apply_with(store: &Store, effects: &[Effect], options: Options<'_>) -> Result<Restored> {
    let stages = prepare::prepare(store, effects, options.world)?;
    commit::run(store, effects, stages, options)
}

/// The content that an effect writes, with its length.
fn content_of(effect: &Effect) -> Option<(&Digest, u64)> {
    match effect {
        Effect::Write {
            content, length, ..
        } => Some((content, *length)),
        Effect::Append { data, length, .. } => Some((data, *length)),
        _ => None,
    }
}

/// Whether the pages of zeros of what an effect writes take no room.
fn has_holes(effect: &Effect) -> bool {
    matches!(effect, Effect::Write { holes: true, .. })
}

/// Whether a time has to be set again after everything else.
fn is_explicit(time: Time) -> bool {
    matches!(time, Time::Set(..))
}

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;
