//! Checks whether a result from a remote cache may be restored here.
//!
//! The result is untrusted data: it may name any file, any descriptor and any permission. Effects
//! must stay below the directories to which a command writes (its working directory, unless the
//! user configures others), under the given names. No effect may go through a symbolic link,
//! neither an existing one nor one that the result itself makes. A client with write access to the
//! cache still decides what a build produces below those directories; no cache can prevent that.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustc_hash::{FxHashMap, FxHashSet};

use super::bundle::Bundle;
use super::codec::{self, MAX_ITEMS, Stored};
use crate::model::fact::Digest;
use crate::model::inherited::Inherited;
use crate::model::outcome::{Effect, Ending, Outcome, StreamData, Time};
use crate::model::path::FilePath;
use crate::policy::base_dirs::BaseDirs;
use crate::relocation::Relocation;
use crate::world::attributes;

/// The largest accepted result, in bytes of all its contents.
pub const MAX_BYTES: u64 = 4 << 30;
/// Longer paths cannot be opened (`PATH_MAX`, `NAME_MAX`).
const MAX_PATH: usize = 4095;
const MAX_NAME: usize = 255;
/// A year in µs: claimed durations are added up.
const MAX_TIME: u64 = 365 * 24 * 3600 * 1_000_000;
const MAX_UNITS: u32 = 1 << 20;

/// The reason why a result is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A path outside the allowed directories.
    #[error("{} {wrong}", path.display())]
    Path {
        /// The path.
        path: FilePath,
        /// Its defect.
        wrong: &'static str,
    },
    /// Permission bits that grant rights.
    #[error("{} would get the permissions {mode:o}", path.display())]
    Mode {
        /// The file.
        path: FilePath,
        /// Its mode.
        mode: u32,
    },
    /// A descriptor that the program does not inherit, or not in this mode.
    #[error("it uses descriptor {0}, which the program does not have")]
    Descriptor(i32),
    /// An impossible end of a program.
    #[error("no program ends like this: {0:?}")]
    Ending(Ending),
    /// The result exceeds a limit.
    #[error("it is too large: {0}")]
    Large(&'static str),
    /// A content without a location, or with two.
    #[error("it is inconsistent about content {0}")]
    Content(Digest),
    /// The parts of the result are inconsistent.
    #[error("{0}")]
    Shape(&'static str),
}

/// Where results may write.
#[derive(Debug, Clone)]
pub struct Bounds {
    roots: Vec<PathBuf>,
    /// Directories for temporary files, whose times change with these.
    temporary: Vec<PathBuf>,
    /// See [`MAX_BYTES`].
    pub max_bytes: u64,
}

impl Bounds {
    /// Allows effects below these directories, as far as they exist.
    pub fn new(roots: Vec<PathBuf>) -> Self {
        let temporary = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()];
        let real = |dirs: &[PathBuf]| {
            let dirs = dirs.iter().filter_map(|dir| dir.canonicalize().ok());
            dirs.collect()
        };
        Self {
            roots: real(&roots),
            temporary: real(&temporary),
            max_bytes: MAX_BYTES,
        }
    }

    /// Checks a result for a program that inherits these descriptors.
    ///
    /// # Errors
    /// The first defect.
    pub fn check(&self, stored: &Stored, inherited: &[Inherited]) -> Result<(), Refusal> {
        let outcome = &stored.outcome;
        check_ending(outcome.ending)?;
        check_descriptors(outcome, inherited)?;
        if outcome.effects.len() > MAX_ITEMS {
            return Err(Refusal::Large("it changes too many files"));
        }
        if outcome.cpu_us > MAX_TIME || outcome.wall_us > MAX_TIME || outcome.units > MAX_UNITS {
            return Err(Refusal::Large("it ran for too long"));
        }
        if !outcome.ages.is_empty() && outcome.ages.len() != outcome.effects.len() {
            return Err(Refusal::Shape("its files have other ages"));
        }
        self.check_contents(stored)?;
        let mut places = Places {
            bounds: self,
            checked: FxHashSet::default(),
        };
        outcome
            .effects
            .iter()
            .try_for_each(|effect| places.check(effect))
    }

    fn is_inside(&self, path: &Path) -> bool {
        let below = |root: &PathBuf| path.starts_with(root) && path != root;
        self.roots.iter().any(below)
    }

    /// Whether an effect may set the time of this directory, which only shows that files were made
    /// in it.
    fn may_be_touched(&self, path: &Path) -> bool {
        let mut known = self.roots.iter().chain(&self.temporary);
        known.any(|dir| dir == path)
    }

    /// Checks that each content has one location, and the right length.
    fn check_contents(&self, stored: &Stored) -> Result<(), Refusal> {
        let mut lengths = FxHashMap::default();
        let mut total: u64 = 0;
        for content in &stored.contents {
            if lengths.insert(content.digest, content.length).is_some() {
                return Err(Refusal::Content(content.digest));
            }
            total = total.saturating_add(content.length);
        }
        // Effects may write a content several times.
        let mut written: u64 = 0;
        for (digest, length) in contents(&stored.outcome) {
            if lengths.get(&digest) != Some(&length) {
                return Err(Refusal::Content(digest));
            }
            written = written.saturating_add(length);
        }
        if total.max(written) > self.max_bytes {
            return Err(Refusal::Large("its contents"));
        }
        Ok(())
    }
}

/// Returns all contents that an outcome names, with their lengths.
pub(super) fn contents(outcome: &Outcome) -> impl Iterator<Item = (Digest, u64)> {
    let files = outcome.effects.iter().filter_map(|effect| match effect {
        Effect::Write {
            content, length, ..
        } => Some((*content, *length)),
        Effect::Append { data, length, .. } => Some((*data, *length)),
        _ => None,
    });
    let stream = outcome.stream.iter().filter_map(|chunk| match &chunk.data {
        StreamData::Stored(digest, length) => Some((*digest, *length)),
        StreamData::Inline(_) | StreamData::Place(_) => None,
    });
    files.chain(stream)
}

/// Whether other clients would accept this outcome: none accepts files that grant rights.
pub(super) fn is_shareable(outcome: &Outcome) -> bool {
    outcome
        .effects
        .iter()
        .all(|effect| check_modes(effect).is_ok())
}

fn check_ending(ending: Ending) -> Result<(), Refusal> {
    // Signals that stop or continue a process, or are ignored.
    const HARMLESS: [i32; 8] = [
        libc::SIGCHLD,
        libc::SIGCONT,
        libc::SIGSTOP,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
        libc::SIGURG,
        libc::SIGWINCH,
    ];
    match ending {
        Ending::Exited(0..=255) => Ok(()),
        Ending::Killed(signal @ 1..=64) if !HARMLESS.contains(&signal) => Ok(()),
        _ => Err(Refusal::Ending(ending)),
    }
}

fn check_descriptors(outcome: &Outcome, inherited: &[Inherited]) -> Result<(), Refusal> {
    let find = |fd: i32| {
        let mut all = inherited.iter();
        all.find(|inherited| inherited.fd == fd || inherited.written_as == fd)
    };
    for chunk in &outcome.stream {
        find(chunk.fd).ok_or(Refusal::Descriptor(chunk.fd))?;
    }
    for (fd, _) in &outcome.positions {
        find(*fd)
            .filter(|inherited| inherited.position.is_some())
            .ok_or(Refusal::Descriptor(*fd))?;
    }
    for (fd, flags) in &outcome.flags {
        find(*fd)
            .filter(|_| flags & !(libc::O_APPEND | libc::O_NONBLOCK) == 0)
            .ok_or(Refusal::Descriptor(*fd))?;
    }
    Ok(())
}

/// The paths of effects, many of which share a directory.
struct Places<'a> {
    bounds: &'a Bounds,
    /// Directories whose paths contain no links.
    checked: FxHashSet<PathBuf>,
}

impl Places<'_> {
    fn check(&mut self, effect: &Effect) -> Result<(), Refusal> {
        let path = effect.path();
        if let Effect::SetTimes {
            time: Time::Present | Time::WithNames,
            ..
        } = effect
            && self.bounds.may_be_touched(path)
        {
            return Ok(());
        }
        self.check_place(path)?;
        check_modes(effect)?;
        match effect {
            Effect::HardLink { to, .. } => self.check_place(to),
            Effect::Symlink { target, .. } => self.check_target(path, target),
            Effect::Attribute { name, .. } if !attributes::is_restorable(name) => {
                Err(Refusal::Path {
                    path: path.clone(),
                    wrong: "would get an attribute that pcache does not restore",
                })
            }
            _ => Ok(()),
        }
    }

    /// Checks that a path is below a base directory and reached without links.
    fn check_place(&mut self, path: &FilePath) -> Result<(), Refusal> {
        let wrong = |wrong| {
            Err(Refusal::Path {
                path: path.clone(),
                wrong,
            })
        };
        if !is_plain(path.as_bytes()) {
            return wrong("is no plain path");
        }
        if !self.bounds.is_inside(path) {
            return wrong("is outside of where results of others may write");
        }
        let dir = path.parent().unwrap_or(Path::new("/"));
        if self.checked.contains(dir) {
            return Ok(());
        }
        if !is_itself(dir) {
            return wrong("is behind a symbolic link");
        }
        self.checked.insert(dir.to_owned());
        Ok(())
    }

    /// Checks the target of a link. A link out of the tree is harmless as long as no program
    /// writes through it. Later results are never written through a link to a file. For a link to
    /// a directory, this cannot be guaranteed.
    fn check_target(&self, path: &FilePath, target: &FilePath) -> Result<(), Refusal> {
        let wrong = |wrong| {
            Err(Refusal::Path {
                path: path.clone(),
                wrong,
            })
        };
        let bytes = target.as_bytes();
        if bytes.is_empty() || bytes.len() > MAX_PATH || bytes.contains(&0) {
            return wrong("would be a link to nowhere");
        }
        let Some(lexical) = resolve(path.parent().unwrap_or(Path::new("/")), target) else {
            return wrong("would be a link that goes down and up again");
        };
        let leads_to = lexical.canonicalize();
        let roots = &self.bounds.roots;
        let inside = |path: &Path| roots.iter().any(|root| path.starts_with(root));
        let harmless = match &leads_to {
            Ok(found) => inside(found) || !found.is_dir(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => inside(&lexical),
            Err(_) => false,
        };
        if harmless {
            Ok(())
        } else {
            wrong("would be a link to a directory elsewhere")
        }
    }
}

/// Whether a path is absolute, without `.`, `..`, doubled slashes or NUL, and not too long.
fn is_plain(path: &[u8]) -> bool {
    let Some(names) = path.strip_prefix(b"/") else {
        return false;
    };
    let is_name =
        |name: &[u8]| !name.is_empty() && name.len() <= MAX_NAME && name != b"." && name != b"..";
    path.len() <= MAX_PATH && !path.contains(&0) && names.split(|byte| *byte == b'/').all(is_name)
}

/// Whether no existing part of a directory's path is a link.
fn is_itself(dir: &Path) -> bool {
    for ancestor in dir.ancestors() {
        match ancestor.canonicalize() {
            Ok(found) => return found.as_os_str().as_bytes() == ancestor.as_os_str().as_bytes(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A dangling link is a link.
                if ancestor.is_symlink() {
                    return false;
                }
            }
            Err(_) => return false,
        }
    }
    false
}

/// Resolves the target of a link in `dir` by its text alone; `None` if the result depends on
/// existing files (`a/..`).
fn resolve(dir: &Path, target: &Path) -> Option<PathBuf> {
    let mut resolved = if target.is_absolute() {
        PathBuf::from("/")
    } else {
        dir.to_owned()
    };
    let mut is_down = target.is_absolute();
    for part in target.components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir if is_down => return None,
            Component::ParentDir => drop(resolved.pop()),
            Component::Normal(name) => {
                is_down = true;
                resolved.push(name);
            }
            Component::Prefix(_) => return None,
        }
    }
    Some(resolved)
}

/// Checks that permission bits grant no rights of other users.
fn check_modes(effect: &Effect) -> Result<(), Refusal> {
    let (mode, allowed) = match effect {
        Effect::Write {
            mode, create_mode, ..
        } => (mode.unwrap_or_default() | create_mode, 0o777),
        Effect::Append { create_mode, .. } => (*create_mode, 0o777),
        // The other bits of a directory concern its names only.
        Effect::MakeDir { mode, .. } => (*mode, 0o3777),
        Effect::Chmod { mode, .. } => (*mode, 0o777),
        _ => return Ok(()),
    };
    if mode & !allowed == 0 {
        Ok(())
    } else {
        Err(Refusal::Mode {
            path: effect.path().clone(),
            mode,
        })
    }
}

/// Decodes and checks untrusted bytes, for fuzzing. Also decodes them without decompression, which
/// a fuzzer cannot get past.
#[doc(hidden)]
pub fn check_remote(bytes: &[u8]) {
    let _ = codec::decode_sets(bytes);
    let stored = match codec::decode_result(bytes) {
        Ok(stored) => Some(stored),
        Err(_) => postcard::from_bytes(bytes).ok(),
    };
    if let Some(stored) = stored {
        let _ = Bounds::new(vec!["/tmp".into()]).check(&stored, &[]);
        if let Ok(base_dirs) = BaseDirs::new(&["r=/tmp".to_owned()]) {
            let _ = Relocation::new(base_dirs).effects_here(&stored.outcome);
        }
        let _ = codec::encode_result(&stored).map(|bytes| codec::decode_result(&bytes));
    }
    if let Ok(bundle) = Bundle::decode(bytes.to_vec()) {
        let length = bytes.first().copied().map_or(0, u64::from);
        let _ = bundle.contents(&[length, 0, length]);
        let _ = codec::decode_result(&bundle.result);
    }
    if let Ok(sets) = postcard::from_bytes::<codec::Sets>(bytes) {
        let _ = codec::encode_sets(&sets).map(|bytes| codec::decode_sets(&bytes));
    }
}

#[cfg(test)]
mod tests;
