//! The store: contents by digest, results by weak key, digests by file.
//!
//! ```text
//! <root>/format        "format 1"
//!        blobs/a/…     contents, named by their BLAKE3 digest
//!        units/a/…     one decision tree per weak key
//!        locks/a       serialise writers of units/a
//!        digests       file identity -> content digest
//!        usage         estimate of the bytes held
//!        journal/      what past runs did, for explanations
//!        roots/        contents that do not mention some directories
//!        images/       patched copies of C libraries, made by `ptrace-async`
//!        tmp/          files being written; renamed into place
//! ```
//!
//! **Invariants.** A name below `blobs/` and `units/` appears by rename only. So a reader never
//! sees an incomplete file, and a killed writer leaves at most files in `tmp/`. All data read is
//! verified (blobs against their name, trees against their checksum). So a power failure or a bad
//! disk costs a miss, never a wrong result, and the store needs no fsync. Any number of processes
//! may use one store at once.

mod blobs;
mod check;
mod codec;
pub(crate) mod copy;
mod digest_table;
mod entries;
mod error;
mod export;
mod frame;
mod incoming;
mod journal;
mod maintenance;
mod path_free;
pub mod stream;
mod table_file;
mod tree;
mod write_behind;

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use rustix::fs::{Access, FlockOperation, Mode, OFlags};

pub use check::{Damage, Findings};
pub use digest_table::{DigestTable, Trust};
pub use entries::{Lookup, Recorded};
#[doc(hidden)]
pub use entries::{check_entry, check_entry_body};
pub use error::{Result, StoreError};
pub use export::{Moved, export_file};
pub use incoming::Incoming;
pub use journal::Runs;
#[doc(hidden)]
pub use journal::runs_in;
pub use maintenance::{GcReport, Stats};
#[doc(hidden)]
pub use table_file::check_table;
pub use write_behind::Shared;

/// Content of the file `format` in a store of this version.
const FORMAT: &str = "format 1";
/// The names and versions of the formats in a store.
pub(crate) fn formats() -> [(&'static str, u32); 6] {
    let last_number = |text: &str| {
        let digits = text.trim_end().rsplit(' ').next();
        digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
    };
    let exports = std::str::from_utf8(export::HEADER).unwrap_or_default();
    [
        ("store", last_number(FORMAT)),
        ("entries", codec::ENTRY.version.into()),
        ("digest table", table_file::MAGIC[7].into()),
        ("journal", journal::RUN.version.into()),
        ("exports", last_number(exports)),
        ("path lists", (path_free::HEADER[7] - b'0').into()),
    ]
}

/// The directory of [`Store::images`].
const IMAGES: &str = "images";

/// A store in a directory. Cheap to open; shared by reference among threads.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    read_only: bool,
    /// Whether misses name the difference from the closest result, not only from some result.
    pub explains: bool,
    /// Permission bits of the root, which all files inside inherit.
    mode: u32,
    /// Bytes this process added, for the estimate in `usage`.
    written: AtomicU64,
    /// Contents that are stored later.
    pending: write_behind::WriteBehind,
}

impl Store {
    /// Returns `$PCACHE_DIR`, or `$XDG_CACHE_HOME/pcache`, or `~/.cache/pcache`; `None` if none of
    /// the variables is set. A relative `XDG_CACHE_HOME` is ignored, as its specification demands.
    pub fn default_dir() -> Option<PathBuf> {
        let var = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        var("PCACHE_DIR").map(PathBuf::from).or_else(|| {
            var("XDG_CACHE_HOME")
                .map(PathBuf::from)
                .filter(|dir| dir.is_absolute())
                .or_else(|| var("HOME").map(|home| Path::new(&home).join(".cache")))
                .map(|dir| dir.join("pcache"))
        })
    }

    /// Opens the store in `dir`, and creates it (mode 0700) if it is missing. A store without
    /// write permission is opened read-only. If other users may use the root, they may use new
    /// files inside as well, regardless of the umask, which applies to files of programs.
    ///
    /// # Errors
    /// [`StoreError::UnknownFormat`] if a different version wrote it, and [`StoreError::Io`] if it
    /// can neither be read nor created.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self> {
        let root = dir.into();
        let mut store = Self::at(root, false);
        if let Ok(metadata) = fs::metadata(&store.root) {
            store.mode = metadata.permissions().mode() & 0o777;
        }
        if !store.check_format()? {
            store.create()?;
        }
        store.read_only =
            rustix::fs::access(&store.root, Access::WRITE_OK | Access::EXEC_OK).is_err();
        Ok(store)
    }

    /// Opens an existing store read-only: lookups leave no trace in it, and every write returns
    /// [`StoreError::ReadOnly`].
    ///
    /// # Errors
    /// Same as [`Store::open`]; also if there is no store.
    pub fn open_read_only(dir: impl Into<PathBuf>) -> Result<Self> {
        let store = Self::at(dir.into(), true);
        if store.check_format()? {
            Ok(store)
        } else {
            let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
            Err(StoreError::io("read", &store.root.join("format"))(missing))
        }
    }

    /// Returns the directory of the store.
    pub fn dir(&self) -> &Path {
        &self.root
    }

    /// Returns the directory for copies of C libraries, see
    /// [`keep_copies_in`](ptrace_async::runtime::Runtime::keep_copies_in).
    pub fn images(&self) -> PathBuf {
        self.root.join(IMAGES)
    }

    /// Whether nothing can be added.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Returns this store's table of known digests.
    pub fn digest_table(&self) -> DigestTable {
        DigestTable::open(self.root.join("digests"), self.read_only)
    }

    fn at(root: PathBuf, read_only: bool) -> Self {
        Self {
            root,
            read_only,
            explains: false,
            mode: 0o700,
            written: AtomicU64::new(0),
            pending: write_behind::WriteBehind::default(),
        }
    }

    /// Whether a store of this format exists; `false` if there is none.
    fn check_format(&self) -> Result<bool> {
        let path = self.root.join("format");
        match fs::read(&path) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                let found = text.lines().next().unwrap_or_default();
                // A power failure can leave the file empty.
                if found == FORMAT || found.is_empty() {
                    Ok(!found.is_empty())
                } else {
                    Err(StoreError::UnknownFormat {
                        dir: self.root.clone(),
                        found: found.chars().take(80).collect(),
                    })
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(StoreError::io("read", &path)(error)),
        }
    }

    fn create(&self) -> Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.root)
            .map_err(StoreError::io("create", &self.root))?;
        for dir in ["tmp", "blobs", "units", "locks"] {
            self.make_dir(&self.root.join(dir))?;
        }
        let mut file = self.temporary()?;
        let path = self.root.join("format");
        std::io::Write::write_all(&mut file, format!("{FORMAT}\n").as_bytes())
            .map_err(StoreError::io("write", &path))?;
        self.publish(file.into_temp_path(), &path)
    }

    /// Creates a file in `tmp/`, removed when dropped.
    fn temporary(&self) -> Result<tempfile::NamedTempFile> {
        if self.read_only {
            return Err(StoreError::ReadOnly);
        }
        let dir = self.root.join("tmp");
        let make = || {
            tempfile::Builder::new()
                .prefix("")
                .rand_bytes(16)
                .permissions(fs::Permissions::from_mode(self.mode & 0o666 | 0o600))
                .tempfile_in(&dir)
        };
        match make() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.make_dir(&dir)?;
                make()
            }
            made => made,
        }
        .map_err(StoreError::io("create a file in", &dir))
        .inspect(|file| self.share(file.as_file()))
    }

    /// Renames a complete temporary file to its final path.
    fn publish(&self, temporary: tempfile::TempPath, path: &Path) -> Result<()> {
        match copy::replace(&temporary, path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if let Some(parent) = path.parent() {
                    self.make_dir(parent)?;
                }
                copy::replace(&temporary, path)
            }
            replaced => replaced,
        }
        .map_err(StoreError::io("write", path))?;
        // The temporary name is gone: the guard has nothing to remove.
        let _ = temporary.keep();
        Ok(())
    }

    /// Makes a directory inside the store, with its parents.
    fn make_dir(&self, dir: &Path) -> Result<()> {
        let error = StoreError::io("create", dir);
        match DirBuilder::new().mode(self.mode).create(dir) {
            Ok(()) => {}
            Err(found) if found.kind() == std::io::ErrorKind::AlreadyExists => return Ok(()),
            Err(found) if found.kind() == std::io::ErrorKind::NotFound && dir != self.root => {
                if let Some(parent) = dir.parent() {
                    self.make_dir(parent)?;
                }
                return self.make_dir_in(dir);
            }
            Err(found) => return Err(error(found)),
        }
        self.share_dir(dir);
        Ok(())
    }

    /// Same as [`Store::make_dir`], if its parent exists.
    fn make_dir_in(&self, dir: &Path) -> Result<()> {
        match DirBuilder::new().mode(self.mode).create(dir) {
            Ok(()) => self.share_dir(dir),
            // Another process was first.
            Err(found) if found.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(found) => return Err(StoreError::io("create", dir)(found)),
        }
        Ok(())
    }

    /// Gives the users of the root access to a directory; failures are ignored.
    fn share_dir(&self, dir: &Path) {
        if self.mode & 0o077 != 0
            && let Ok(found) = fs::metadata(dir)
        {
            // New files inside keep its group, if the root has that bit.
            let mode = found.permissions().mode() & 0o7000 | self.mode;
            let _ = fs::set_permissions(dir, fs::Permissions::from_mode(mode));
        }
    }

    /// Gives the users of the root access to a file that may be new, as [`Store::share_dir`] does.
    fn share(&self, file: &File) {
        if self.mode & 0o077 != 0 {
            share_file(file, self.mode);
        }
    }

    /// Waits for the lock with this name. The lock ends when the file is closed, also by SIGKILL.
    fn lock(&self, name: &str) -> Result<File> {
        let file = self.lock_file(name)?;
        rustix::io::retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive))
            .map_err(StoreError::io("lock", &self.root.join("locks").join(name)))?;
        Ok(file)
    }

    /// Takes the lock with this name if it is free.
    fn try_lock(&self, name: &str) -> Result<Option<File>> {
        let file = self.lock_file(name)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(_) => Ok(None),
        }
    }

    fn lock_file(&self, name: &str) -> Result<File> {
        if self.read_only {
            return Err(StoreError::ReadOnly);
        }
        let path = self.root.join("locks").join(name);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(self.mode & 0o666 | 0o600);
        let open = || rustix::fs::open(&path, flags, mode);
        match open() {
            Err(rustix::io::Errno::NOENT) => {
                self.make_dir(&self.root.join("locks"))?;
                open()
            }
            opened => opened,
        }
        .map(File::from)
        .inspect(|file| self.share(file))
        .map_err(StoreError::io("lock", &path))
    }
}

/// Gives a file the permissions of a directory with this mode, unless another user owns it.
fn share_file(file: &File, mode: u32) {
    let wanted = mode & 0o666 | 0o600;
    let is_other = |found: fs::Metadata| found.permissions().mode() & 0o777 != wanted;
    if file.metadata().is_ok_and(is_other) {
        let _ = file.set_permissions(fs::Permissions::from_mode(wanted));
    }
}

/// Reads `length` bytes of a file, passes them on, and returns their digest; `None` if the file is
/// shorter.
pub(crate) fn hash_file(
    file: &File,
    length: u64,
    mut sink: impl FnMut(&[u8]),
) -> std::io::Result<Option<crate::model::fact::Digest>> {
    copy::hash_range(file, 0, length, |piece| {
        sink(piece);
        Ok(())
    })
}

/// Number of hexadecimal digits that name a part of the store. A part is a directory that is made
/// once. More than 16 of them slowed down first runs, and file systems handle many names well.
const SHARD: usize = 1;

/// Returns the sharded path of a digest's file: `<dir>/a/bcdef…`.
fn sharded(dir: &Path, digest: &crate::model::fact::Digest) -> PathBuf {
    let name = digest.to_string();
    let (shard, rest) = name.split_at(SHARD);
    let mut path = PathBuf::with_capacity(dir.as_os_str().len() + name.len() + 2);
    path.push(dir);
    path.push(shard);
    path.push(rest);
    path
}

/// Returns seconds since the epoch; 0 for an earlier clock.
fn now() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// One day in seconds: how stale a use mark may be before a hit renews it.
const DAY: u64 = 24 * 60 * 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_of_an_unknown_format_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("format"), "format 99\n").unwrap();
        let error = Store::open(dir.path()).unwrap_err();
        assert!(
            matches!(&error, StoreError::UnknownFormat { found, .. } if found == "format 99"),
            "{error}"
        );
    }

    #[test]
    fn a_new_store_belongs_to_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("a/b");
        Store::open(&root).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&root), 0o700);
        assert_eq!(mode(&root.join("blobs")), 0o700);
        Store::open(&root).unwrap();
        Store::open_read_only(&root).unwrap();
    }

    #[test]
    fn a_group_store_is_open_to_its_group_under_any_umask() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o770)).unwrap();
        let store = Store::open(dir.path()).unwrap();
        let digest = store.put_bytes(b"x").unwrap();
        drop(store.lock("a").unwrap());
        store.add_to_journal(b"run").unwrap();
        for name in ["blobs", "units", "tmp", "locks", "journal"] {
            assert_eq!(mode(&dir.path().join(name)), 0o770, "{name}");
        }
        for name in ["format", "locks/a", "journal/current"] {
            assert_eq!(mode(&dir.path().join(name)), 0o660, "{name}");
        }
        let blob = sharded(&dir.path().join("blobs"), &digest);
        assert_eq!(mode(&blob), 0o440);
        assert_eq!(mode(blob.parent().unwrap()), 0o770);
    }

    #[test]
    fn a_missing_store_is_not_made_by_a_reader() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Store::open_read_only(dir.path()).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_in_the_way_is_an_error_value() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("file");
        fs::write(&root, "").unwrap();
        assert!(matches!(Store::open(&root), Err(StoreError::Io { .. })));
    }

    #[test]
    fn readers_may_not_write() {
        let dir = tempfile::tempdir().unwrap();
        Store::open(dir.path()).unwrap();
        let store = Store::open_read_only(dir.path()).unwrap();
        assert!(matches!(store.put_bytes(b"x"), Err(StoreError::ReadOnly)));
    }
}
