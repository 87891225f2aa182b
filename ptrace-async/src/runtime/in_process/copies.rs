//! Patched copies of the loader and of the C library, for programs that perform their calls
//! in process from the first one on.
//!
//! Most processes of a build live a few milliseconds, too shortly for patching them to pay.
//! So the loader's text and the C library are patched once, beforehand (`patch`). After a
//! successful execve the task is about to enter the loader. The tracer writes a few
//! instructions there, which map the code and jump to it. The code maps the logs, and the
//! patched text over the loader's text and those instructions. Then it enters the loader as
//! the kernel would have. When the loader opens a C library that has a copy, the code gives
//! it the copy under the same descriptor. All this takes no stop.
//!
//! A program can notice two differences. `/proc/self/maps` names other files where the
//! loader's text and the library are mapped. And 8 MiB more count if it locks all its
//! memory. A program whose address space is limited is left alone. A program that opens the
//! library itself, to read or to copy it, gets the real one, because only the loader's
//! opens get the copy. When the loader asks for the metadata of the copy, it gets the
//! identity of the original, so that it takes both for the same file.
//!
//! **Why it is safe.** A text is replaced only by a patched copy of itself: the build id in
//! the tracee's memory, a hash of the contents, is compared. A library is identified by
//! device, inode, length and times of the file that was opened. The copy is identified by
//! device and inode of the file that was opened instead, because a path in `/proc` may lead
//! elsewhere in another namespace. The file of the logs holds a secret token for the same
//! reason. A fresh program has no signal handlers, so no handler returns into the
//! instructions. If anything fails (no `/proc`, a limit of memory or descriptors), the task
//! stops at a breakpoint, is restored, and starts as usual.

use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use rustc_hash::{FxHashMap, FxHashSet};

use super::code;
use super::files::{can_be_executed, memory_file, path_of};
use super::layout::{BASE, FILE_LEN, LIBRARIES, LIBRARY_LEN, MAX_LIBRARIES, PAGE};
use super::patch::{PatchedText, patch};
use super::program::{LoadedProgram, Program};
use crate::event::Tid;
use crate::sys;
use crate::unstopped as calls;

/// The number of searches for a loader at most: a static program looks like one with an
/// unknown loader.
const MAX_ATTEMPTS: u32 = 16;
/// The version of the way in which copies of libraries are made. Raise it when that changes.
pub const VERSION: u32 = 4;
/// A library must have been unchanged for so long that its copy is kept.
const SETTLED: Duration = Duration::from_secs(3);
/// The number of copies that are kept at most.
const MAX_KEPT: usize = 8;
/// A longer file is neither a loader nor a C library.
const MAX_LEN: u64 = 64 << 20;

/// The loaders and libraries that have patched copies.
#[derive(Debug, Default)]
pub(crate) struct Images {
    loaders: Vec<Loader>,
    libraries: Vec<File>,
    /// The directory where copies of libraries are kept for later runs.
    pub(crate) dir: Option<PathBuf>,
    /// Paths that were considered, and the identities of the files found there.
    seen: FxHashSet<Vec<u8>>,
    known: FxHashSet<Vec<u8>>,
    attempts: u32,
    /// The call sites of programs, by the identities of their files.
    programs: FxHashMap<[u64; 7], Option<Rc<Program>>>,
    /// The number of bytes that were appended to the file that tracees map.
    appended: u64,
    pub(crate) failures: u32,
}

/// A loader whose patched text is in the file that tracees map.
#[derive(Debug, Clone)]
pub(crate) struct Loader {
    pub(crate) text: PatchedText,
    pub(crate) at: u64,
    /// The original bytes at its entry point, in whole words.
    pub(crate) entered: Vec<u8>,
}

impl Loader {
    /// Whether this is the loader that a task is about to enter at `entry`.
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
    /// The loader that a task is about to enter at `entry`, and its base address.
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

    /// Appends a loader's patched text to the file, and makes a copy of the library beside
    /// the loader.
    fn copy_loader(&mut self, arena: &File, path: &Path) -> Option<Loader> {
        let file = open_plain(path.as_os_str()).ok()?;
        let mut patched = read_file(&file)?;
        let text = patch(&mut patched, true).filter(|text| text.sites > 0)?;
        let mut entered = vec![0; code::entry().len().next_multiple_of(8)];
        let entry = text.entry.checked_sub(text.address)?;
        file.read_exact_at(&mut entered, text.offset.checked_add(entry)?)
            .ok()?;
        let range = text.offset as usize..(text.offset + text.len) as usize;
        let at = append(arena, &mut self.appended, &patched[range])?;
        let library = path.with_file_name("libc.so.6");
        self.consider(arena, library.as_os_str().as_bytes());
        Some(Loader { text, at, entered })
    }

    /// The call sites of the program that a task is about to start. `entry` is the address of
    /// its entry point.
    pub(crate) fn program_of(
        &mut self,
        arena: &File,
        tid: Tid,
        entry: u64,
        is_static: bool,
    ) -> Option<LoadedProgram> {
        let path = PathBuf::from(format!("/proc/{tid}/exe"));
        let identity = identity(&path.metadata().ok()?);
        let Self {
            programs, appended, ..
        } = self;
        let program = programs.entry(identity).or_insert_with(|| {
            let file = open_plain(path.as_os_str()).ok()?;
            let append = |bytes: &[u8]| append(arena, appended, bytes);
            let found = Program::find(&file, is_static, append)?;
            Some(Rc::new(found))
        });
        LoadedProgram::new(program.as_ref()?, entry)
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

    /// Makes a copy of a library that a loader has opened, if it is the C library.
    pub(super) fn consider(&mut self, arena: &File, path: &[u8]) {
        let index = self.libraries.len() as u64;
        if index >= MAX_LIBRARIES
            || !path.starts_with(b"/")
            || !path.ends_with(b"/libc.so.6")
            || !self.seen.insert(path.to_vec())
        {
            return;
        }
        // Programs use the original then.
        let Ok(Some((entry, copy))) = copy_library(path, self.dir.as_deref()) else {
            return;
        };
        // The file may be known under another path.
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

/// Appends whole pages to the file that tracees map. Returns their offset.
fn append(arena: &File, appended: &mut u64, bytes: &[u8]) -> Option<u64> {
    let at = FILE_LEN + *appended;
    let len = bytes.len() as u64;
    arena.set_len(at + len).ok()?;
    arena.write_all_at(bytes, at).ok()?;
    *appended += len;
    Some(at)
}

/// Opens a file without blocking, also if it is a FIFO or a terminal.
fn open_plain(path: &OsStr) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags).open(path)
}

/// Reads a whole file; `None` if it changes meanwhile.
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

/// Makes or opens a patched copy. Returns its entry for the table of the code in tracees.
fn copy_library(path: &[u8], dir: Option<&Path>) -> io::Result<Option<(Vec<u8>, File)>> {
    let file = open_plain(OsStr::from_bytes(path))?;
    let it = file.metadata()?;
    // A file that changed just now may change again within the same clock tick.
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

/// The numbers that identify a file and its content.
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

/// The name of a kept copy: a hash of the original's identity and of the code that was
/// patched in.
fn name_of_copy(file: &Metadata) -> String {
    let mut hasher = DefaultHasher::new();
    (identity(file), code::bytes(), calls::PERFORMED, VERSION).hash(&mut hasher);
    format!("libc.so.6-{:016x}", hasher.finish())
}

/// Opens a copy that we keep.
fn open_copy(path: &Path, original: &Metadata) -> Option<File> {
    let copy = File::open(path).ok()?;
    let its = copy.metadata().ok()?;
    // Only our own user may have written it.
    let owner = std::fs::metadata("/proc/self").ok()?.uid();
    let is_ours = its.uid() == owner && its.mode() & 0o022 == 0;
    let is_whole = its.is_file() && its.len() == original.len();
    (is_ours && is_whole && can_be_executed(&copy)).then_some(copy)
}

/// Keeps a copy. It is renamed when it is complete, so that a crash leaves no partial copy.
fn keep_copy(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    std::fs::create_dir_all(dir)?;
    let old = std::fs::read_dir(dir)?.filter_map(Result::ok);
    let old: Vec<_> = old.map(|entry| entry.path()).collect();
    if old.len() >= MAX_KEPT {
        for path in old {
            // Copies that are mapped or open stay usable.
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
