//! Programs that make their calls in process from their first instruction on.
//!
//! Most processes of a build live a few milliseconds, too shortly for patching
//! them to be worth it. So what they run is patched beforehand, once (`patch`):
//! the text of the loader, and the C library. When an execve has succeeded, the
//! task is about to enter the loader. A few instructions are written there,
//! which map our code and go on in it; that maps the logs and the patched text
//! of the loader, in place of the text (and of those instructions), and enters the
//! loader as the kernel would have. When the loader opens a C library of which
//! there is a copy, the code gives it the copy under the same number. All this
//! takes no stop.
//!
//! What a program can notice: the names and numbers of other files in
//! `/proc/self/maps`, where the loader's text and the library are mapped, and 2 MiB
//! that count if it locks all its memory. A program whose address space is limited
//! is left alone. Programs that open the library themselves, to read or to copy
//! it, get the real one, because only the loader's opens are answered so; and
//! when the loader asks what it opened, the copy has the real one's identity,
//! so that it takes both for the same.
//!
//! **Why it is safe.** A text is replaced only by a patched copy of itself: the
//! build's number that lies in the tracee's memory, a hash of the contents, is
//! compared. A library is known by device, inode, length and times of the very
//! file that was opened, and the copy by device and inode of the file that was
//! opened instead, since a path in `/proc` may lead elsewhere in another
//! namespace. The same holds for the memory of logs: it has a number in it
//! that nobody else knows. A fresh program has no signal handlers, so nobody
//! returns into the instructions. If anything fails (no `/proc`, a limit of
//! memory or descriptors), the task stops with a breakpoint, gets back what it
//! had, and starts as ever.

use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustc_hash::FxHashSet;

use super::code;
use super::files::{can_be_executed, memory_file, path_of};
use super::layout::{BASE, FILE_LEN, LIBRARIES, LIBRARY_LEN, MAX_LIBRARIES, PAGE};
use super::patch::{PatchedText, patch};
use crate::event::Tid;
use crate::sys;
use crate::unstopped as calls;

/// Loaders that are looked for at most: a static program looks like an unknown one.
const MAX_ATTEMPTS: u32 = 16;
/// Raised when copies are made otherwise than by the same code before.
const VERSION: u32 = 3;
/// How long ago a library must have changed for its copy to be kept.
const SETTLED: Duration = Duration::from_secs(3);
/// Copies that are kept at most.
const MAX_KEPT: usize = 8;
/// A file that is longer is no loader or C library.
const MAX_LEN: u64 = 64 << 20;

/// What there are patched copies of.
#[derive(Debug, Default)]
pub(crate) struct Images {
    loaders: Vec<Loader>,
    libraries: Vec<File>,
    /// Where copies of libraries are kept for the next time.
    pub(crate) dir: Option<PathBuf>,
    /// Paths that were considered, and files that were found there.
    seen: FxHashSet<Vec<u8>>,
    known: FxHashSet<Vec<u8>>,
    attempts: u32,
    pub(crate) failures: u32,
}

/// A loader whose patched text is in the file of the arena.
#[derive(Debug, Clone)]
pub(crate) struct Loader {
    pub(crate) text: PatchedText,
    pub(crate) at: u64,
    /// What stands where it is entered, in whole words.
    pub(crate) entered: Vec<u8>,
}

impl Loader {
    /// Whether it is what a task is about to enter here.
    fn is_at(&self, tid: Tid, entry: u64) -> bool {
        let base = entry.wrapping_sub(self.text.entry);
        let place = base.wrapping_add(self.text.build_id_at);
        let mut found = vec![0; self.text.build_id.len()];
        base.is_multiple_of(PAGE)
            && sys::read_memory(tid, place, &mut found) == found.len()
            && found == self.text.build_id
    }
}

impl Images {
    /// The loader that a task is about to enter at `entry`, and where it lies.
    pub(crate) fn loader_at(
        &mut self,
        arena: &File,
        tid: Tid,
        entry: u64,
    ) -> Option<(Loader, u64)> {
        let known = self.loaders.iter().find(|loader| loader.is_at(tid, entry));
        let known = known.cloned();
        let loader = match known {
            Some(loader) => loader,
            None if self.attempts < MAX_ATTEMPTS => {
                self.attempts += 1;
                let loader = self.find_loader(arena, tid, entry)?;
                self.loaders.push(loader.clone());
                loader
            }
            None => return None,
        };
        let base = entry.wrapping_sub(loader.text.entry);
        Some((loader, base))
    }

    /// Makes a copy of what is mapped at `entry` if it is a loader, and of the
    /// library that lies beside it.
    fn find_loader(&mut self, arena: &File, tid: Tid, entry: u64) -> Option<Loader> {
        let maps = std::fs::read_to_string(format!("/proc/{tid}/maps")).ok()?;
        let path = maps.lines().find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (from, to) = range.split_once('-')?;
            let from = u64::from_str_radix(from, 16).ok()?;
            let to = u64::from_str_radix(to, 16).ok()?;
            let path = rest.find('/').map(|at| &rest[at..])?;
            (from..to).contains(&entry).then_some(path)
        })?;
        let loader = self.copy_loader(arena, Path::new(path))?;
        Some(loader).filter(|loader| loader.is_at(tid, entry))
    }

    /// Puts a patched copy of a loader into the arena, and makes one of the library
    /// that lies beside it.
    fn copy_loader(&mut self, arena: &File, path: &Path) -> Option<Loader> {
        let file = open_plain(path.as_os_str()).ok()?;
        let mut patched = read_file(&file)?;
        let text = patch(&mut patched, true).filter(|text| text.sites > 0)?;
        let mut entered = vec![0; code::entry().len().next_multiple_of(8)];
        let entry = text.entry.checked_sub(text.address)?;
        file.read_exact_at(&mut entered, text.offset.checked_add(entry)?)
            .ok()?;
        let range = text.offset as usize..(text.offset + text.len) as usize;
        let at = self
            .loaders
            .last()
            .map_or(FILE_LEN, |last| last.at + last.text.len);
        arena.set_len(at + text.len).ok()?;
        arena.write_all_at(&patched[range], at).ok()?;
        let library = path.with_file_name("libc.so.6");
        self.consider(arena, library.as_os_str().as_bytes());
        Some(Loader { text, at, entered })
    }

    /// Makes a copy of the loader that the first program is going to need.
    pub(crate) fn prepare(&mut self, arena: &File, path: &Path) {
        if self.loaders.is_empty()
            && let Ok(path) = path.canonicalize()
            && let Some(loader) = self.copy_loader(arena, &path)
        {
            self.loaders.push(loader);
        }
    }

    /// Makes a copy of a library that somebody has opened, if it is the C library.
    pub(super) fn consider(&mut self, arena: &File, path: &[u8]) {
        let index = self.libraries.len() as u64;
        if index >= MAX_LIBRARIES
            || !path.starts_with(b"/")
            || !path.ends_with(b"/libc.so.6")
            || !self.seen.insert(path.to_vec())
        {
            return;
        }
        // It will do without.
        let Ok(Some((entry, copy))) = copy_library(path, self.dir.as_deref()) else {
            return;
        };
        // By another name it may be known.
        if !self.known.insert(entry[8..64].to_vec()) {
            return;
        }
        let at = LIBRARIES - BASE + index * LIBRARY_LEN;
        let put = arena
            .write_all_at(&entry[8..], at + 8)
            .and_then(|()| arena.write_all_at(&entry[..8], at));
        if put.is_ok() {
            self.libraries.push(copy);
        }
    }
}

/// Opens what may be anything, without waiting for anybody.
fn open_plain(path: &OsStr) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags).open(path)
}

/// Reads all of a file that does not change meanwhile.
fn read_file(file: &File) -> Option<Vec<u8>> {
    let before = file.metadata().ok()?;
    if !before.is_file() || before.len() > MAX_LEN {
        return None;
    }
    let mut bytes = Vec::with_capacity(before.len() as usize);
    file.take(MAX_LEN).read_to_end(&mut bytes).ok()?;
    let after = file.metadata().ok()?;
    (identity(&before) == identity(&after) && bytes.len() as u64 == after.len()).then_some(bytes)
}

/// A patched copy, and what the code in tracees is to know of it.
fn copy_library(path: &[u8], dir: Option<&Path>) -> io::Result<Option<(Vec<u8>, File)>> {
    let file = open_plain(OsStr::from_bytes(path))?;
    let it = file.metadata()?;
    // What changed just now may change again within the same tick.
    let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(it.ctime().max(0).cast_unsigned());
    let settled = changed.elapsed().is_ok_and(|age| age > SETTLED);
    let dir = dir.filter(|_| settled);
    let kept = dir.map(|dir| dir.join(name_of_copy(&it)));
    let known = kept.as_deref().and_then(|path| open_copy(path, &it));
    let copy = match known {
        Some(copy) => copy,
        None => {
            let Some(mut bytes) = read_file(&file) else {
                return Ok(None);
            };
            if patch(&mut bytes, false).is_none_or(|text| text.sites == 0) {
                return Ok(None);
            }
            let kept = kept.and_then(|path| keep_copy(&path, &bytes).ok());
            match kept.filter(can_be_executed) {
                Some(copy) => copy,
                None => {
                    let copy = memory_file(c"libc.so.6")?;
                    copy.write_all_at(&bytes, 0)?;
                    copy
                }
            }
        }
    };
    if !can_be_executed(&copy) {
        return Ok(None);
    }
    let its = copy.metadata()?;
    let mut words = vec![1];
    words.extend(identity(&it));
    words.extend([its.dev(), its.ino()]);
    let mut entry: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    entry.extend(path_of(&copy));
    Ok((entry.len() as u64 <= LIBRARY_LEN).then_some((entry, copy)))
}

/// What tells a file, and this content of it, from all others.
fn identity(file: &Metadata) -> [u64; 7] {
    [
        file.dev(),
        file.ino(),
        file.len(),
        file.mtime().cast_unsigned(),
        file.mtime_nsec().cast_unsigned(),
        file.ctime().cast_unsigned(),
        file.ctime_nsec().cast_unsigned(),
    ]
}

/// Under which a copy is kept: by what it is a copy of, and what was patched in.
fn name_of_copy(file: &Metadata) -> String {
    let mut hasher = DefaultHasher::new();
    (identity(file), code::bytes(), calls::PERFORMED, VERSION).hash(&mut hasher);
    format!("libc.so.6-{:016x}", hasher.finish())
}

/// Opens a copy that we keep.
fn open_copy(path: &Path, original: &Metadata) -> Option<File> {
    let copy = File::open(path).ok()?;
    let its = copy.metadata().ok()?;
    // Nobody else may have put it there.
    let owner = std::fs::metadata("/proc/self").ok()?.uid();
    let is_ours = its.uid() == owner && its.mode() & 0o022 == 0;
    let is_whole = its.is_file() && its.len() == original.len();
    (is_ours && is_whole && can_be_executed(&copy)).then_some(copy)
}

/// Keeps a copy; it is complete when it has its name, whatever happens.
fn keep_copy(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    std::fs::create_dir_all(dir)?;
    let old = std::fs::read_dir(dir)?.filter_map(Result::ok);
    let old: Vec<_> = old.map(|entry| entry.path()).collect();
    if old.len() >= MAX_KEPT {
        for path in old {
            // What is mapped or open stays so.
            let _ = std::fs::remove_file(path);
        }
    }
    let draft = path.with_extension(std::process::id().to_string());
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&draft)?;
    let written = file
        .write_all_at(bytes, 0)
        .and_then(|()| file.sync_data())
        .and_then(|()| std::fs::rename(&draft, path))
        .and_then(|()| File::open(path));
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    written
}
