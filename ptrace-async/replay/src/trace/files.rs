//! Files that programs map.
//!
//! What belongs to the system is named by its identity: nobody changes it in place, and
//! a replay says so if it has been replaced since. Everything else is stored with the
//! trace, by the digest of its content, as a clone where the file system has such.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use super::event::{File, FileNumber, Identity};
use super::{Directory, Error};

/// Where files belong to the system, if they are root's and nobody else may write them.
const OF_THE_SYSTEM: &[&str] = &[
    "/usr/",
    "/bin/",
    "/lib/",
    "/lib64/",
    "/sbin/",
    "/etc/",
    "/opt/",
    "/nix/store/",
    "/gnu/store/",
];

impl Identity {
    /// From a file's metadata.
    pub fn of(metadata: &fs::Metadata) -> Self {
        let time = |seconds: i64, nanoseconds: i64| {
            seconds
                .saturating_mul(1_000_000_000)
                .saturating_add(nanoseconds)
        };
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: time(metadata.mtime(), metadata.mtime_nsec()),
            changed: time(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// The files of a recording.
#[derive(Debug, Default)]
pub struct Files {
    known: FxHashMap<Identity, (FileNumber, bool)>,
    /// Files that are mapped and written through mappings, by device and inode. They are
    /// kept open, so that no other file gets the same.
    shared: FxHashMap<(u64, u64), (FileNumber, fs::File)>,
    next: u32,
}

/// A file that has a number.
#[derive(Debug, Clone)]
pub struct Numbered {
    /// It.
    pub number: FileNumber,
    /// Whether it belongs to the system: nobody changes it in place.
    pub is_of_the_system: bool,
    /// What a trace says of it, if it is new.
    pub new: Option<File>,
}

impl Files {
    /// The number of a file that is open at `open` (a path of `/proc`, say) and called
    /// `path`.
    ///
    /// # Errors
    /// When it cannot be opened, or not copied.
    pub fn number(
        &mut self,
        directory: &Directory,
        open: &Path,
        path: &[u8],
    ) -> Result<Numbered, Error> {
        let metadata = fs::metadata(open).map_err(Error::io(open))?;
        let identity = Identity::of(&metadata);
        if let Some(&(number, is_of_the_system)) = self.known.get(&identity) {
            return Ok(Numbered {
                number,
                is_of_the_system,
                new: None,
            });
        }
        let is_of_the_system = metadata.uid() == 0
            && metadata.mode() & 0o022 == 0
            && OF_THE_SYSTEM
                .iter()
                .any(|prefix| path.starts_with(prefix.as_bytes()));
        let stored = if is_of_the_system {
            None
        } else {
            Some(store(directory, open)?)
        };
        let number = FileNumber(self.next);
        self.next += 1;
        self.known.insert(identity, (number, is_of_the_system));
        let file = File {
            number,
            path: path.to_vec(),
            identity,
            stored,
        };
        Ok(Numbered {
            number,
            is_of_the_system,
            new: Some(file),
        })
    }
}

impl Files {
    /// The number of a file that is mapped so that writes are seen by all who map it: the
    /// same whatever its content is at that time.
    ///
    /// # Errors
    /// As [`Files::number`].
    pub fn shared(
        &mut self,
        directory: &Directory,
        open: &Path,
        path: &[u8],
    ) -> Result<Numbered, Error> {
        let metadata = fs::metadata(open).map_err(Error::io(open))?;
        let key = (metadata.dev(), metadata.ino());
        if let Some((number, _)) = self.shared.get(&key) {
            return Ok(Numbered {
                number: *number,
                is_of_the_system: false,
                new: None,
            });
        }
        // What was mapped otherwise stays as it was then.
        self.known.remove(&Identity::of(&metadata));
        let numbered = self.number(directory, open, path)?;
        self.known.remove(&Identity::of(&metadata));
        if !numbered.is_of_the_system {
            let file = fs::File::open(open).map_err(Error::io(open))?;
            self.shared.insert(key, (numbered.number, file));
        }
        Ok(numbered)
    }

    /// Whether there are any.
    pub fn has_shared(&self) -> bool {
        !self.shared.is_empty()
    }

    /// The file that is open at `open`, if it is one of those.
    pub fn find_shared(&self, open: &Path) -> Option<(FileNumber, &fs::File)> {
        if self.shared.is_empty() {
            return None;
        }
        let metadata = fs::metadata(open).ok()?;
        let (number, file) = self.shared.get(&(metadata.dev(), metadata.ino()))?;
        Some((*number, file))
    }
}

/// Copies `from` to the trace's contents: its digest.
pub(super) fn store(directory: &Directory, from: &Path) -> Result<[u8; 32], Error> {
    let temporary = directory.path().join("files").join("new");
    let stored = store_by(&temporary, directory, from);
    if stored.is_err() {
        // Room may be what is missing.
        let _ = fs::remove_file(&temporary);
    }
    stored
}

fn store_by(temporary: &Path, directory: &Directory, from: &Path) -> Result<[u8; 32], Error> {
    let mut source = fs::File::open(from).map_err(Error::io(from))?;
    let mut target = fs::OpenOptions::new()
        .write(true)
        .read(true)
        .create(true)
        .truncate(true)
        // Programs are mapped from it, by the same user.
        .mode(0o700)
        .open(temporary)
        .map_err(Error::io(temporary))?;
    if rustix::fs::ioctl_ficlone(target.as_fd(), source.as_fd()).is_err() {
        io::copy(&mut source, &mut target).map_err(Error::io(temporary))?;
    }
    let mut hasher = blake3::Hasher::new();
    let again = fs::File::open(temporary).map_err(Error::io(temporary))?;
    hasher.update_reader(again).map_err(Error::io(temporary))?;
    let digest = *hasher.finalize().as_bytes();
    let content = directory.content(&digest);
    fs::rename(temporary, &content).map_err(Error::io(&content))?;
    Ok(digest)
}

impl File {
    /// The digest of its content, if the trace has it.
    pub fn digest(&self, directory: &Directory) -> Option<[u8; 32]> {
        self.stored.or_else(|| directory.packed.digest(self.number))
    }

    /// Where a replay finds what it was.
    ///
    /// # Errors
    /// When it is not what it was.
    pub fn locate(&self, directory: &Directory) -> Result<PathBuf, Error> {
        if let Some(digest) = self.digest(directory) {
            let path = directory.content(&digest);
            let metadata = fs::metadata(&path).map_err(Error::io(&path))?;
            return if metadata.len() == self.identity.size {
                Ok(path)
            } else {
                Err(Error::NotATrace {
                    path,
                    reason: "the content is not as long as it was".to_owned(),
                })
            };
        }
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(&self.path));
        let metadata = fs::metadata(&path).map_err(Error::io(&path))?;
        if Identity::of(&metadata) == self.identity {
            Ok(path)
        } else {
            Err(Error::Changed { path })
        }
    }
}
