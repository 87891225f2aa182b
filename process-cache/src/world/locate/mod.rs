//! Resolves paths as programs name them.
//!
//! Facts are queried by the path as given, and behind a link that a traced process made by the
//! canonical path: see [`Way`]. The *resource*, the canonical path, decides whether a unit looks at
//! a file that it made itself. Canonical forms of directories are cached until a
//! traced process makes or removes a link, or moves a file. The same holds for resolved paths,
//! absent files, and contents that were read. The target of a link is cached as long as the link
//! and its final target are the same files. If an untraced process changes links in between, the
//! former targets are noted as facts, and the next lookup finds that they differ.

use std::cell::Cell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use crate::model::file_key::FileKey;
use crate::model::path::{Asked, FilePath};
use crate::model::path_kind::is_plain;
use crate::platform::clock;
use crate::world::pending_digest::PendingDigest;

/// The file that a path names now.
#[derive(Debug)]
pub struct Located {
    /// The path as given.
    pub given: FilePath,
    /// The canonical path; for a missing file, as far as it can be resolved.
    pub resource: FilePath,
    /// The result of stat or lstat.
    pub stat: Result<Stat, Errno>,
    /// The directory part as given, if it is not canonical, with its canonical path.
    pub indirect: Option<(FilePath, FilePath)>,
    /// The links that were followed, if the last component is a link.
    pub steps: Option<Rc<[Step]>>,
}

/// One step from a link to its target.
#[derive(Debug)]
pub struct Step {
    /// The directory part as in [`Located::indirect`].
    pub indirect: Option<(FilePath, FilePath)>,
    /// `None` at the end.
    pub link: Option<Link>,
}

/// A link.
#[derive(Debug, Clone)]
pub struct Link {
    /// Its path.
    pub path: FilePath,
    /// Its path with a canonical directory.
    pub resource: FilePath,
    /// The target as it was read.
    pub target: FilePath,
}

/// The way from a path to the file that it names.
#[derive(Debug)]
pub struct Way {
    /// All links that were followed, in order. Their paths are canonical.
    pub links: Vec<Link>,
    /// The directories that `..` led out of. Their paths are canonical.
    pub left: Vec<FilePath>,
    /// The canonical path; for a missing file, as far as it can be resolved.
    pub end: FilePath,
}

/// A link with its known final target.
#[derive(Debug)]
struct CachedLink {
    /// Device, inode and change time of the link.
    from: (u64, u64, i64, i64),
    /// Device and inode of the final target.
    to: (u64, u64),
    resource: FilePath,
    steps: Rc<[Step]>,
}

/// Caches canonical directories, missing directories, and targets of links.
#[derive(Debug, Default)]
pub struct Locator {
    directories: FxHashMap<Vec<u8>, FilePath>,
    missing: FxHashSet<Vec<u8>>,
    links: FxHashMap<Vec<u8>, CachedLink>,
    /// Ways by the path as given, and by whether a link at its end is followed.
    ways: FxHashMap<(FilePath, bool), Rc<Way>>,
    /// Whether [`Locator::forget`] was called: a traced process may have made a link.
    is_reshaped: bool,
    /// Cache by the path as given.
    paths: FxHashMap<FilePath, CachedPath>,
    /// Contents of regular files, by canonical path; see [`Locator::remember_content`].
    cached: FxHashMap<FilePath, Rc<CachedContent>>,
    /// Counts changes that may invalidate all of that.
    shape: u64,
    /// Directories in which files have been opened.
    checked: FxHashMap<FilePath, Rc<Directory>>,
    /// Counts [`Locator::revalidate_directories`].
    epoch: u64,
    /// A path led through a link in `/proc` to a file of a process. That is another file in each
    /// process, so nothing of it is cached.
    passed_process_link: bool,
}

/// Device and inode.
type Identity = (u64, u64);

/// A directory under its path.
#[derive(Debug)]
struct Directory {
    path: FilePath,
    /// Its identity at the last check, and the epoch of that check.
    checked: Cell<(u64, Option<Identity>)>,
}

impl Directory {
    /// Returns its identity.
    fn identity(&self, epoch: u64) -> Option<Identity> {
        if self.checked.get().0 != epoch {
            let stat = rustix::fs::stat(self.path.as_path()).ok();
            let identity = stat.map(|stat| (stat.st_dev, stat.st_ino));
            self.checked.set((epoch, identity));
        }
        self.checked.get().1
    }
}

/// A regular file in the cache.
#[derive(Debug)]
struct CachedContent {
    inode: Identity,
    /// The directory in which it was found.
    directory: Identity,
    content: Arc<PendingDigest>,
    /// The value of [`Locator::shape`] at that time.
    shape: u64,
    /// Whether it has left the cache.
    former: Cell<bool>,
}

/// A regular file opened for reading, as far as the cache knows.
#[derive(Debug)]
pub struct CachedOpen {
    /// The path that was opened.
    pub given: FilePath,
    /// As [`Located::resource`].
    pub resource: FilePath,
    /// As [`Located::indirect`].
    pub indirect: Option<(FilePath, FilePath)>,
    /// Device and inode number of the file.
    pub inode: (u64, u64),
    /// Its content.
    pub content: Arc<PendingDigest>,
}

/// The result for a path whose last component is no link, or is not followed; see [`Located`].
#[derive(Debug)]
struct CachedPath {
    resource: FilePath,
    indirect: Option<(FilePath, FilePath)>,
    /// Whether no file was there, not even a link.
    absent: Cell<bool>,
    /// See [`is_plain`].
    plain: bool,
    /// The cached content, and the directory in which it was found.
    cached: Option<(Rc<Directory>, Rc<CachedContent>)>,
}

impl CachedPath {
    fn located(&self, given: &FilePath, stat: Result<Stat, Errno>) -> Located {
        Located {
            given: given.clone(),
            resource: self.resource.clone(),
            stat,
            indirect: self.indirect.clone(),
            steps: None,
        }
    }
}

/// Maximal number of cached paths.
const MAX_CACHED_PATHS: usize = 1 << 16;

/// Maximal number of links followed in a path (path_resolution(7)).
pub const MAX_LINKS: u32 = 40;

/// Whether this is a symbolic link.
pub fn is_link(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

/// Whether this is a regular file.
pub fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// Whether this is a directory.
pub fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

/// Returns the modification time (ns since the epoch).
pub fn modified(stat: &Stat) -> i128 {
    i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec)
}

impl Locator {
    /// Clears all caches: links or directories may have changed.
    pub fn forget(&mut self) {
        self.directories.clear();
        self.missing.clear();
        self.links.clear();
        self.ways.clear();
        self.is_reshaped = true;
        self.paths.clear();
        self.checked.clear();
        self.forget_contents();
    }

    /// Handles a new directory.
    pub fn forget_absent(&mut self) {
        self.forget_missing();
        self.ways.clear();
        self.paths.clear();
    }

    /// Handles a new file that is neither link nor directory.
    pub fn forget_missing(&mut self) {
        self.missing.clear();
    }

    /// Returns the canonical form of a directory (an absolute path), if it exists.
    pub fn directory(&mut self, directory: &Path) -> Option<FilePath> {
        self.resolve(directory.as_os_str().as_bytes(), MAX_LINKS)
    }

    /// Resolves from the parent directory, which is often known: compilers look in few
    /// directories, many of them missing.
    fn resolve(&mut self, directory: &[u8], links: u32) -> Option<FilePath> {
        if let Some(known) = self.directories.get(directory) {
            return Some(known.clone());
        }
        if self.missing.contains(directory) {
            return None;
        }
        let passed = std::mem::take(&mut self.passed_process_link);
        let found = self.resolve_last(directory, links);
        let passes = std::mem::replace(&mut self.passed_process_link, passed);
        self.passed_process_link |= passes;
        match &found {
            _ if passes => {}
            Some(canonical) => {
                self.directories
                    .insert(directory.to_vec(), canonical.clone());
            }
            None => {
                self.missing.insert(directory.to_vec());
            }
        }
        found
    }

    fn resolve_last(&mut self, directory: &[u8], links: u32) -> Option<FilePath> {
        let slash = memchr::memrchr(b'/', directory)?;
        let (above, name) = (&directory[..slash], &directory[slash + 1..]);
        if above.is_empty() && matches!(name, b"" | b"." | b"..") {
            return Some(FilePath::from("/"));
        }
        let above = if above.is_empty() { b"/" } else { above };
        let parent = self.resolve(above, links)?;
        match name {
            b"" | b"." => return Some(parent),
            b".." if !is_passable(&parent) => return None,
            b".." => return Some(parent.parent().map_or_else(|| parent.clone(), Into::into)),
            _ => {}
        }
        let here = parent.join(OsStr::from_bytes(name));
        match rustix::fs::readlink(&here, Vec::new()) {
            Ok(target) => {
                self.passed_process_link |= is_process_link(&here);
                let target = parent.join(OsStr::from_bytes(target.as_bytes()));
                self.resolve(target.as_os_str().as_bytes(), links.checked_sub(1)?)
            }
            // The file exists and is no link (readlink(2)).
            Err(Errno::INVAL) => Some(here.into()),
            Err(_) => None,
        }
    }

    /// Whether a path was resolved, since the last call, through a link in `/proc` to a file of a
    /// process.
    pub fn take_process_link(&mut self) -> bool {
        std::mem::take(&mut self.passed_process_link)
    }

    /// Returns the canonical path of a name whose last component is not followed.
    pub fn name(&mut self, path: &Path) -> FilePath {
        let Some((directory, name)) = parts(path) else {
            return std::fs::canonicalize(path).map_or_else(|_| path.into(), FilePath::from);
        };
        match self.directory(directory) {
            Some(canonical) => FilePath::from(canonical.join(OsStr::from_bytes(name))),
            None => path.into(),
        }
    }

    /// Returns the canonical path of a name whose last component is not followed. If its directory
    /// as given is not canonical, returns that too, with its canonical path.
    pub fn place(&mut self, path: &Path) -> (FilePath, Option<(FilePath, FilePath)>) {
        let Some((directory, name)) = parts(path) else {
            // It is a directory, or none.
            let Some(canonical) = self.directory(path) else {
                return (self.name(path), None);
            };
            return (canonical.clone(), elsewhere(path, canonical));
        };
        let Some(canonical) = self.directory(directory) else {
            return (path.into(), None);
        };
        if canonical.as_os_str() == directory.as_os_str() {
            return (path.into(), None);
        }
        let resource = FilePath::from(canonical.join(OsStr::from_bytes(name)));
        (resource, Some((FilePath::from(directory), canonical)))
    }

    /// Returns the way from a path to its resource (see [`Located`]), if it leads through links
    /// and a traced process may have made some; `through` if a link was found on the way.
    pub fn way(
        &mut self,
        (given, resource): (&FilePath, &FilePath),
        through: bool,
        follow: bool,
    ) -> Option<Rc<Way>> {
        if !self.is_reshaped {
            return None;
        }
        if through {
            let follow = follow || without_end(given).is_some();
            return Some(self.walk(given.clone(), follow));
        }
        if given != resource {
            return None;
        }
        // Without a name, the end is a directory as well (`..`).
        let (directory, name) = match parts(given) {
            Some((directory, name)) => (directory, Some(name)),
            None => (given.as_path(), None),
        };
        if self.directory(directory).is_some() {
            return None;
        }
        let way = self.walk(directory.into(), true);
        let end = match name {
            Some(name) => way.end.join(OsStr::from_bytes(name)).into(),
            None => way.end.clone(),
        };
        let (links, left) = (way.links.clone(), way.left.clone());
        (!links.is_empty()).then(|| Rc::new(Way { links, left, end }))
    }

    fn walk(&mut self, path: FilePath, follow: bool) -> Rc<Way> {
        let ways = self.ways.entry((path, follow));
        let way = ways.or_insert_with_key(|(path, follow)| Rc::new(walk(path, *follow)));
        way.clone()
    }

    /// Resolves a path and reads its metadata.
    pub fn locate(&mut self, path: &Path, follow: bool) -> Located {
        if let Some(name) = without_end(path) {
            // The end follows a link.
            let located = self.locate(name, true);
            return Located {
                given: FilePath::from(path),
                stat: rustix::fs::stat(path),
                ..located
            };
        }
        let stat = rustix::fs::lstat(path);
        let leads_on = follow && stat.as_ref().is_ok_and(is_link);
        let nothing = matches!(stat, Err(Errno::NOENT));
        let known = self.paths.get_key_value(Asked::from(path).key());
        if let Some((given, place)) = known.filter(|_| !leads_on) {
            place.absent.set(nothing);
            return place.located(given, stat);
        }
        let parts = parts(path);
        let place = parts.and_then(|(directory, name)| {
            let canonical = self.directory(directory)?;
            Some((directory, name, canonical))
        });
        if let (Ok(link), true) = (&stat, leads_on) {
            let indirect =
                place.and_then(|(directory, _, canonical)| elsewhere(directory, canonical));
            return self.follow(path, link, indirect);
        }
        let (resource, indirect) = match place {
            Some((directory, name, canonical)) => {
                let resource = below(&canonical, name, path);
                (resource, elsewhere(directory, canonical))
            }
            None => self.place(path),
        };
        let given = resource.or_same(path);
        let place = CachedPath {
            resource,
            indirect,
            absent: Cell::new(nothing),
            plain: is_plain(path),
            cached: None,
        };
        let located = place.located(&given, stat);
        if parts.is_some() && !self.passed_process_link {
            if self.paths.len() == MAX_CACHED_PATHS {
                self.paths.clear();
            }
            self.paths.insert(given, place);
        }
        located
    }

    /// Returns the cached absence of a path: a lookup found no file there, and no traced process
    /// has made a name since.
    pub fn absent(&self, path: Asked<'_>) -> Option<Located> {
        let (given, place) = self.paths.get_key_value(path.key())?;
        let absent = place.absent.get();
        absent.then(|| place.located(given, Err(Errno::NOENT)))
    }

    /// Same, for a plain path.
    pub fn absent_plain(&self, path: Asked<'_>) -> Option<Located> {
        let is_plain = self.paths.get(path.key())?.plain;
        is_plain.then(|| self.absent(path)).flatten()
    }

    /// Caches the content of the `located` regular file, which has only one name. While no traced
    /// process changes it and the path leads to the same directory, an open is assumed to find the
    /// same content. A change by an untraced process is noticed at the next examination (see
    /// [`PendingDigest::invalidate`]): before a traced change, at another kind of open, or when a
    /// unit that read the file ends.
    pub fn remember_content(&mut self, located: &Located, content: &Arc<PendingDigest>) {
        let (Ok(stat), None) = (&located.stat, &located.steps) else {
            return;
        };
        if content.key().is_none() || stat.st_nlink != 1 {
            return;
        }
        let Some(directory) = self.directory_of(&located.given) else {
            return;
        };
        let Some(identity) = directory.identity(self.epoch) else {
            return;
        };
        let cached = Rc::new(CachedContent {
            inode: (stat.st_dev, stat.st_ino),
            directory: identity,
            content: content.clone(),
            shape: self.shape,
            former: Cell::new(false),
        });
        content.assume_unchanged();
        if let Some(place) = self.paths.get_mut(&located.given) {
            place.cached = Some((directory, cached.clone()));
        }
        if let Some(former) = self.cached.insert(located.resource.clone(), cached) {
            former.former.set(true);
            if former.content.key() != content.key() {
                // Units may rely on content that was no longer there.
                former.content.invalidate();
            }
        }
    }

    /// Returns the cached content for a path that is opened for reading.
    pub fn cached_open(&mut self, path: Asked<'_>) -> Option<CachedOpen> {
        let known = self.paths.get(path.key())?;
        let current = known.cached.as_ref();
        if current.is_none_or(|(_, it)| it.former.get()) {
            self.cache_path(path)?;
        }
        let (given, place) = self.paths.get_key_value(path.key())?;
        let (directory, it) = place.cached.as_ref()?;
        let holds = place.plain
            && it.shape == self.shape
            && !it.former.get()
            && !it.content.is_invalidated()
            && !it.content.has_failed()
            && directory.identity(self.epoch) == Some(it.directory);
        holds.then(|| CachedOpen {
            given: given.clone(),
            resource: place.resource.clone(),
            indirect: place.indirect.clone(),
            inode: it.inode,
            content: it.content.clone(),
        })
    }

    /// Adds another path to the same cached content.
    fn cache_path(&mut self, path: Asked<'_>) -> Option<()> {
        let (given, place) = self.paths.get_key_value(path.key())?;
        let cached = self.cached.get(&place.resource)?.clone();
        let directory = self.directory_of(&given.clone())?;
        self.paths.get_mut(path.key())?.cached = Some((directory, cached));
        Some(())
    }

    /// Makes the next open check directories again: an untraced process may have replaced them.
    pub fn revalidate_directories(&mut self) {
        self.epoch += 1;
    }

    /// Returns the directory part of a path.
    fn directory_of(&mut self, path: &Path) -> Option<Rc<Directory>> {
        let (path, _) = parts(path)?;
        if let Some(known) = self.checked.get(Asked::from(path).key()) {
            return Some(known.clone());
        }
        let path = FilePath::from(path);
        let directory = Rc::new(Directory {
            path: path.clone(),
            // A value that is no epoch.
            checked: Cell::new((u64::MAX, None)),
        });
        self.checked.insert(path, directory.clone());
        Some(directory)
    }

    /// Handles a traced process that is about to change a name with metadata `found`. If the file
    /// has other names, these change as well.
    pub fn forget_content(&mut self, resource: &FilePath, found: Option<&Stat>) {
        if let Some(it) = self.cached.remove(resource) {
            it.former.set(true);
            match found.and_then(FileKey::of).as_ref() == it.content.key() {
                // The content was valid until now for units that have ended.
                true => it.content.confirm(clock::running()),
                false => it.content.invalidate(),
            }
        }
        if found.is_some_and(|stat| stat.st_nlink > 1 && !is_directory(stat)) {
            self.forget_contents();
        }
    }

    /// Handles a possible change of cached files through other names.
    pub fn forget_contents(&mut self) {
        self.shape += 1;
    }

    /// Resolves a path that leads to this link.
    fn follow(
        &mut self,
        path: &Path,
        link: &Stat,
        indirect: Option<(FilePath, FilePath)>,
    ) -> Located {
        let stat = rustix::fs::stat(path);
        let from = (
            link.st_dev,
            link.st_ino,
            link.st_ctime,
            link.st_ctime_nsec as i64,
        );
        let to = stat.as_ref().ok().map(|stat| (stat.st_dev, stat.st_ino));
        let bytes = path.as_os_str().as_bytes();
        let known = self.links.get(bytes);
        let known = known.filter(|way| way.from == from && Some(way.to) == to);
        let (resource, steps) = match known {
            Some(way) => (way.resource.clone(), way.steps.clone()),
            None => {
                let (resource, steps) = (self.target(path), self.steps(path));
                if let Some(to) = to.filter(|_| !self.passed_process_link) {
                    let way = CachedLink {
                        from,
                        to,
                        resource: resource.clone(),
                        steps: steps.clone(),
                    };
                    self.links.insert(bytes.to_vec(), way);
                }
                (resource, steps)
            }
        };
        Located {
            given: resource.or_same(path),
            resource,
            stat,
            indirect,
            steps: Some(steps),
        }
    }

    /// Returns the steps from a link to its target, which count for writes through the link.
    fn steps(&mut self, path: &Path) -> Rc<[Step]> {
        let mut steps = Vec::new();
        let mut at = FilePath::from(path);
        for _ in 0..MAX_LINKS {
            let (resource, indirect) = self.place(&at);
            let target = std::fs::read_link(&at).ok();
            let next = target.as_ref().zip(at.parent());
            let next = next.map(|(target, parent)| {
                let next = parent.join(target);
                FilePath::from(without_end(&next).unwrap_or(&next))
            });
            let link = target.map(|target| Link {
                path: at.clone(),
                resource,
                target: target.into(),
            });
            steps.push(Step { indirect, link });
            match next {
                Some(next) => at = next,
                None => break,
            }
        }
        steps.into()
    }

    /// Returns the final target of a path, even if it does not exist.
    pub fn target(&mut self, path: &Path) -> FilePath {
        let mut at = PathBuf::from(path);
        for _ in 0..MAX_LINKS {
            if let Some(name) = without_end(&at) {
                at = name.to_owned();
            }
            let Some((directory, name)) = parts(&at) else {
                break;
            };
            let Some(directory) = self.directory(directory) else {
                return at.into();
            };
            let here = directory.join(OsStr::from_bytes(name));
            match rustix::fs::readlink(&here, Vec::new()) {
                Ok(target) => {
                    self.passed_process_link |= is_process_link(&here);
                    at = directory.join(OsStr::from_bytes(target.as_bytes()));
                }
                Err(_) => return here.into(),
            }
        }
        self.name(&at)
    }
}

/// Returns a directory as given with its canonical path, if they differ.
fn elsewhere(directory: &Path, canonical: FilePath) -> Option<(FilePath, FilePath)> {
    (canonical.as_os_str() != directory.as_os_str()).then(|| (FilePath::from(directory), canonical))
}

/// Returns a name in a canonical directory; the result is often `path` itself.
fn below(canonical: &FilePath, name: &[u8], path: &Path) -> FilePath {
    let (bytes, above) = (path.as_os_str().as_bytes(), canonical.as_bytes());
    let is_same =
        above != b"/" && bytes.len() == above.len() + 1 + name.len() && bytes.starts_with(above);
    match is_same {
        true => FilePath::from(path),
        false => FilePath::from(canonical.join(OsStr::from_bytes(name))),
    }
}

/// Returns a path without the slashes and dots at its end, if it has some.
fn without_end(path: &Path) -> Option<&Path> {
    let bytes = path.as_os_str().as_bytes();
    let mut rest = bytes;
    while let Some(shorter) = rest
        .strip_suffix(b"/")
        .or_else(|| rest.strip_suffix(b"/."))
        .filter(|shorter| !shorter.is_empty())
    {
        rest = shorter;
    }
    (rest.len() < bytes.len()).then(|| Path::new(OsStr::from_bytes(rest)))
}

/// Resolves a path (an absolute one) from the root, like path_resolution(7).
fn walk(path: &Path, follow: bool) -> Way {
    let components = |bytes: &[u8]| -> Vec<Vec<u8>> {
        let all = bytes.split(|&byte| byte == b'/');
        let named = all.filter(|name| !name.is_empty() && *name != b".");
        named.rev().map(<[u8]>::to_vec).collect()
    };
    let (mut links, mut left) = (Vec::new(), Vec::new());
    let mut at = PathBuf::from("/");
    // The next component is the last element.
    let mut rest = components(path.as_os_str().as_bytes());
    while let Some(name) = rest.pop() {
        let here = at.join(OsStr::from_bytes(&name));
        let is_up = name == b"..";
        if is_up && is_passable(&at) {
            left.push(at.as_path().into());
            at.pop();
            continue;
        }
        if !is_up && rest.is_empty() && !follow {
            at = here;
            break;
        }
        match rustix::fs::readlink(&here, Vec::new()) {
            Ok(target) if links.len() < MAX_LINKS as usize => {
                let target = target.as_bytes();
                if target.starts_with(b"/") {
                    at = PathBuf::from("/");
                }
                rest.extend(components(target));
                links.push(Link {
                    path: here.as_path().into(),
                    resource: here.into(),
                    target: target.into(),
                });
            }
            // The file exists and is no link (readlink(2)).
            Err(Errno::INVAL) if !is_up => at = here,
            _ => {
                at = here;
                at.extend(rest.iter().rev().map(|name| OsStr::from_bytes(name)));
                break;
            }
        }
    }
    Way {
        links,
        left,
        end: at.into(),
    }
}

/// Whether a link is one of those in `/proc` that lead to files of a process.
fn is_process_link(link: &Path) -> bool {
    let (Ok(below), Some(name)) = (link.strip_prefix("/proc"), link.file_name()) else {
        return false;
    };
    let above = below.parent().and_then(Path::file_name);
    let above = above.map(OsStr::as_bytes);
    matches!(name.as_bytes(), b"cwd" | b"root" | b"exe")
        || matches!(above, Some(b"fd" | b"map_files" | b"ns"))
}

/// Whether `..` may follow a canonical path: it is a directory.
fn is_passable(path: &Path) -> bool {
    rustix::fs::lstat(path).is_ok_and(|stat| is_directory(&stat))
}

/// Splits a path into directory and name; `None` if the last component is no plain name.
fn parts(path: &Path) -> Option<(&Path, &[u8])> {
    let name = path.file_name()?.as_bytes();
    let bytes = path.as_os_str().as_bytes();
    // `file_name` ignores a trailing `/.`, which follows links like `/`.
    if bytes.ends_with(b"/.") || bytes.ends_with(b"/") {
        return None;
    }
    Some((path.parent()?, name))
}

#[cfg(test)]
mod tests;
