//! Copies of a tree that live, one at a time, at the same absolute path.
//!
//! Programs write their paths into their output, so all sides of a
//! comparison must run at one path. The copy whose turn it is is renamed to
//! that path and renamed away afterwards. This needs no privilege and no
//! namespace, works on every file system, and changes no time in the tree (a
//! bind mount in a user namespace would change the uids that programs see, and
//! is forbidden in many containers). The directory around the live tree holds
//! nothing else, so that even a listing of `..` is the same.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// One of the copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Where commands run by themselves.
    Plain,
    /// Where commands run under pcache.
    Cached,
    /// Where commands run under another cache, for comparison.
    Other,
}

/// The directories of one worker.
#[derive(Debug)]
pub(crate) struct Arena {
    base: PathBuf,
    /// Which of [`PLACES`] the live tree is at.
    place: Cell<usize>,
    moves: bool,
    /// Where a small file system is mounted, if one is.
    small: Option<PathBuf>,
}

/// The size of the small file system, in bytes.
const SMALL: u32 = 256 << 10;

/// Where the live tree can be.
const PLACES: [&str; 4] = ["live/tree", "live/copy", "moved/further/away", "moved/tree"];

impl Arena {
    /// Makes the directories below `base`, with two empty trees and an empty
    /// store; what was there before is removed.
    ///
    /// # Errors
    ///
    /// When the directories cannot be made.
    pub(crate) fn new(base: PathBuf) -> anyhow::Result<Self> {
        let arena = Self {
            base,
            place: Cell::new(0),
            moves: false,
            small: None,
        };
        arena.reset()?;
        Ok(arena)
    }

    /// Empties both trees and the store.
    ///
    /// # Errors
    ///
    /// When the old content cannot be removed.
    pub(crate) fn reset(&self) -> anyhow::Result<()> {
        for entry in self.base.read_dir().into_iter().flatten() {
            let path = entry?.path();
            if Some(&path) != self.small.as_ref() {
                super::remove(&path).with_context(|| format!("removing {}", path.display()))?;
            }
        }
        self.place.set(0);
        for dir in [
            "live",
            "moved/further",
            "parked/plain",
            "parked/cached",
            "store",
            "home",
            "io",
        ] {
            fs::create_dir_all(self.base.join(dir))
                .context("making the directories of a worker")?;
        }
        Ok(())
    }

    /// Where the live tree is.
    pub(crate) fn tree(&self) -> PathBuf {
        self.base.join(PLACES[self.place.get()])
    }

    /// The same, with a live tree that [moves](Self::move_on).
    pub(crate) fn moving(self, moves: bool) -> Self {
        Self { moves, ..self }
    }

    /// The same, with a file system of a few pages, which lasts as long as the mount namespace
    /// of the caller.
    ///
    /// # Errors
    ///
    /// When it cannot be mounted.
    pub(crate) fn with_small_disk(self) -> anyhow::Result<Self> {
        let path = self.base.join("small");
        fs::create_dir_all(&path).context("making the directory of the small disk")?;
        let options = format!("size={SMALL},mode=1777");
        nix::mount::mount(
            Some("small"),
            &path,
            Some("tmpfs"),
            nix::mount::MsFlags::empty(),
            Some(options.as_str()),
        )
        .context("mounting the small disk")?;
        Ok(Self {
            small: Some(path),
            ..self
        })
    }

    /// The small file system, if there is one.
    pub(crate) fn small(&self) -> Option<&Path> {
        self.small.as_deref()
    }

    /// Whether it does.
    pub(crate) fn moves(&self) -> bool {
        self.moves
    }

    /// From now on the live tree is at the next place, if it moves.
    pub(crate) fn move_on(&self) {
        if self.moves {
            self.place.set((self.place.get() + 1) % PLACES.len());
        }
    }

    /// The store that pcache uses.
    pub(crate) fn store(&self) -> PathBuf {
        self.base.join("store")
    }

    /// The home directory of the commands, empty at first.
    pub(crate) fn home(&self) -> PathBuf {
        self.base.join("home")
    }

    /// Where a copy of a tree is kept for a while.
    pub(crate) fn saved(&self) -> PathBuf {
        self.base.join("saved")
    }

    /// Room for files that belong to neither tree.
    pub(crate) fn io(&self) -> PathBuf {
        self.base.join("io")
    }

    /// Where a side's tree is while it is not live.
    pub(crate) fn parked(&self, side: Side) -> PathBuf {
        self.base.join(match side {
            Side::Plain => "parked/plain",
            Side::Cached => "parked/cached",
            Side::Other => "parked/other",
        })
    }

    /// Makes `side` live while `work` runs on it.
    ///
    /// # Errors
    ///
    /// Those of `work`, and of the renames.
    pub(crate) fn live<T>(
        &self,
        side: Side,
        work: impl FnOnce(&Path) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let (parked, tree) = (self.parked(side), self.tree());
        fs::rename(&parked, &tree).context("making a tree live")?;
        let result = work(&tree);
        fs::rename(&tree, &parked).context("parking a tree")?;
        result
    }
}
