//! Mounts over paths of the tree, which are made during a run.

use std::path::Path;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde::{Deserialize, Serialize};

use super::{Scene, inside};

/// The file system that covers a path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Cover {
    /// Another file or directory of the tree.
    Bind(String),
    /// An empty file system.
    Empty,
}

impl Cover {
    /// Mounts it; a mount that is not possible is left out. The test unmounts it after the run.
    pub(super) fn mount(&self, scene: &Scene<'_>, path: &str) {
        let Some(path) = inside(scene.tree, path) else {
            return;
        };
        let none = None::<&str>;
        let _ = match self {
            Self::Bind(source) => match inside(scene.tree, source) {
                Some(source) => mount(Some(&source), &path, none, MsFlags::MS_BIND, none),
                None => Ok(()),
            },
            Self::Empty => mount(none, &path, Some("tmpfs"), MsFlags::empty(), none),
        };
    }
}

/// Unmounts what covers a path, if something does.
pub(super) fn unmount(scene: &Scene<'_>, path: &str) {
    if let Some(path) = inside(scene.tree, path) {
        let _ = umount2(&path as &Path, MntFlags::MNT_DETACH);
    }
}
