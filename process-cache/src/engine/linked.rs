//! Files that were there before a unit, and that it gave another name.
//!
//! Names come and go, and a file may lose the name under which the unit found it, or get it back.
//! So these files are known by their inodes. A hit makes the new names again, and leaves the file
//! itself alone.
//!
//! **Invariant:** a unit is not stored if such a file has another content, owner or permissions at
//! its end than when it got its first new name, whatever name it has.

use rustc_hash::FxHashMap;
use rustix::fs::Stat;

use crate::model::path::FilePath;
use crate::world::locate::modified;

/// The state of a file that a unit leaves alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    size: i64,
    mode: u32,
    owner: (u32, u32),
    modified: i128,
}

impl State {
    fn of(stat: &Stat) -> Self {
        Self {
            size: stat.st_size,
            mode: stat.st_mode,
            owner: (stat.st_uid, stat.st_gid),
            modified: modified(stat),
        }
    }
}

#[derive(Debug, Clone)]
struct Known {
    /// The name to which it was linked.
    source: FilePath,
    /// Its state when it was linked; `None` if the unit had written to it before.
    state: Option<State>,
}

/// Files that got another name, by device and inode.
#[derive(Debug, Clone, Default)]
pub struct Linked(FxHashMap<(u64, u64), Known>);

impl Linked {
    /// Adds a file in the state in which it was linked. `is_written` is whether the unit had
    /// written to it before.
    pub(crate) fn add(&mut self, source: &FilePath, stat: &Stat, is_written: bool) {
        let known = || Known {
            source: source.clone(),
            state: (!is_written).then(|| State::of(stat)),
        };
        let inode = (stat.st_dev, stat.st_ino);
        self.0.entry(inode).or_insert_with(known);
    }

    /// Whether this file is one of them.
    pub(crate) fn has(&self, stat: &Stat) -> bool {
        !self.0.is_empty() && self.0.contains_key(&(stat.st_dev, stat.st_ino))
    }

    /// Whether this file is one that must stay in its state.
    pub(crate) fn must_stay(&self, stat: &Stat) -> bool {
        self.state(stat).is_some()
    }

    /// Whether this file must stay in its state, and is in another one.
    pub(crate) fn has_changed(&self, stat: &Stat) -> bool {
        let then = self.state(stat);
        then.is_some_and(|then| then != State::of(stat))
    }

    fn state(&self, stat: &Stat) -> Option<State> {
        self.0.get(&(stat.st_dev, stat.st_ino))?.state
    }

    /// Absorbs the files of a child, except those that the parent had made.
    pub(crate) fn absorb(&mut self, child: Self, is_made: impl Fn(&FilePath) -> bool) {
        for (inode, known) in child.0 {
            if !is_made(&known.source) {
                self.0.entry(inode).or_insert(known);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_under_any_name() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| dir.path().join(name));
        std::fs::write(&a, "old").unwrap();
        let mut linked = Linked::default();
        linked.add(
            &FilePath::from(a.as_path()),
            &rustix::fs::lstat(&a).unwrap(),
            false,
        );
        std::fs::rename(&a, &b).unwrap();
        let moved = rustix::fs::lstat(&b).unwrap();
        assert!(linked.has(&moved) && linked.must_stay(&moved) && !linked.has_changed(&moved));
        std::fs::write(&b, "longer").unwrap();
        assert!(linked.has_changed(&rustix::fs::lstat(&b).unwrap()));
    }

    #[test]
    fn a_file_that_the_parent_made_is_no_older_one_for_the_parent() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stat = rustix::fs::lstat(file.path()).unwrap();
        let mut child = Linked::default();
        child.add(&FilePath::from(file.path()), &stat, false);
        let (mut parent, mut above) = (Linked::default(), Linked::default());
        parent.absorb(child.clone(), |_| true);
        above.absorb(child, |_| false);
        assert!(!parent.has(&stat) && above.has(&stat));
    }
}
