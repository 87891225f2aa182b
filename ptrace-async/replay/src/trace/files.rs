//! Files that programs map.
//!
//! A system file is named by its identity: nobody changes it in place, and a replay reports if
//! it has been replaced. Every other file is stored in the trace under the digest of its
//! content, as a clone where the file system supports that.

use std::fs;
use std::io::{self, Seek as _};
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

    /// Whether a file that is never changed in place has the content that it had when it was `self`.
    /// That it got another name does not matter: `perf record` gives one to each program and
    /// library that it has met.
    pub fn holds_the_same(&self, now: &Self) -> bool {
        let changed = self.changed;
        Self { changed, ..*now } == *self
    }
}

/// Whether a file with this name belongs to the system, and is never changed in place.
pub fn is_of_the_system(metadata: &fs::Metadata, path: &[u8]) -> bool {
    metadata.uid() == 0
        && metadata.mode() & 0o022 == 0
        && OF_THE_SYSTEM
            .iter()
            .any(|prefix| path.starts_with(prefix.as_bytes()))
}

/// The kernel's clock for the times of files may stand still for so long: who has changed
/// since cannot be told.
const TICK: i64 = 50_000_000;

/// The files of a recording.
#[derive(Debug, Default)]
pub struct Files {
    known: FxHashMap<Identity, FileNumber>,
    /// The digests of all, by their numbers.
    stored: Vec<Option<[u8; 32]>>,
}

/// A file that has a number.
#[derive(Debug, Clone)]
pub struct Numbered {
    /// It.
    pub number: FileNumber,
    /// The record of the file, if it is new.
    pub new: Option<File>,
}

impl Files {
    /// The number of a file that is open at `open` (a path of `/proc`, say) and called
    /// `path`, as it is now.
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
        if let Some(&number) = self.known.get(&identity) {
            let new = None;
            return Ok(Numbered { number, new });
        }
        let is_of_the_system = is_of_the_system(&metadata, path);
        let stored = if is_of_the_system {
            None
        } else {
            Some(store(directory, open)?)
        };
        let number = FileNumber(self.stored.len() as u32);
        self.stored.push(stored);
        if is_of_the_system || is_settled(&identity) {
            self.known.insert(identity, number);
        }
        let file = File {
            number,
            path: path.to_vec(),
            identity,
            stored,
        };
        let new = Some(file);
        Ok(Numbered { number, new })
    }

    /// Whether a file has the content that was stored by this number.
    pub fn is_what_it_was(&self, number: FileNumber, file: &fs::File) -> bool {
        let stored = self.stored.get(number.0 as usize).copied().flatten();
        let mut hasher = blake3::Hasher::new();
        let mut file = file;
        file.seek(io::SeekFrom::Start(0)).is_ok()
            && hasher.update_reader(file).is_ok()
            && stored == Some(*hasher.finalize().as_bytes())
    }

    /// A file has changed, or may without its times saying so: where it is met again, it gets
    /// another number.
    pub fn forget(&mut self, number: FileNumber) {
        self.known.retain(|_, known| *known != number);
    }
}

/// Whether a file that changes from now on has another identity.
pub(crate) fn is_settled(identity: &Identity) -> bool {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_nanos() as i64);
    (TICK..).contains(&now.saturating_sub(identity.changed))
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
                    reason: "its length differs from that of the recorded file".to_owned(),
                })
            };
        }
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(&self.path));
        let metadata = fs::metadata(&path).map_err(Error::io(&path))?;
        if self.identity.holds_the_same(&Identity::of(&metadata)) {
            Ok(path)
        } else {
            Err(Error::Changed { path })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_another_name_has_the_same_content() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("library");
        let identity = || Identity::of(&fs::metadata(&path).unwrap());
        fs::write(&path, "code").unwrap();
        let then = identity();
        // Until the clock of files has gone on.
        while identity().changed == then.changed {
            let link = directory.path().join("link");
            fs::hard_link(&path, &link).unwrap();
            fs::remove_file(&link).unwrap();
        }
        assert!(then.holds_the_same(&identity()));
        while identity().modified == then.modified {
            fs::write(&path, "Code").unwrap();
        }
        assert!(!then.holds_the_same(&identity()));
        let now = identity();
        let other = directory.path().join("other");
        fs::write(&other, "Code").unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(!now.holds_the_same(&identity()));
    }
}
