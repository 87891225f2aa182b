//! Digests of files; each file is read only if necessary.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Mode, OFlags, Stat};

use super::{World, is, readable};
use crate::model::fact::Digest;
use crate::model::file_key::FileKey;
use crate::store::{Trust, copy};

/// Scans a file while it is hashed, piece by piece, and returns a byte of flags; the flags of all
/// pieces are united. The last [`OVERLAP`] bytes of a piece are repeated at the beginning of the
/// next, so that no match of that length is missed. Bit 7 is reserved for the table.
pub type Scanner = fn(&[u8]) -> u8;

/// Bytes that a [`Scanner`] sees twice.
const OVERLAP: usize = 32;
/// Set in the table after a scan.
const SCANNED: u8 = 0x80;
/// Longer pseudo files are not read (bytes).
const MAX_PSEUDO: u64 = 4 << 20;
/// Attempts to hash a file that changes meanwhile.
const ATTEMPTS: usize = 3;

/// The properties of a content that a caller needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Digest,
    /// The scanner's flags too.
    Flags,
}

impl World {
    /// Returns the digest, flags and metadata of the regular file at a path.
    pub(super) fn digest_path(&self, path: &Path, need: Need) -> io::Result<(Digest, u8, Stat)> {
        self.digest_at(path, &rustix::fs::stat(path)?, need)
    }

    /// Same, for a path whose metadata is known.
    pub(super) fn digest_at(
        &self,
        path: &Path,
        stat: &Stat,
        need: Need,
    ) -> io::Result<(Digest, u8, Stat)> {
        if !is(stat, FileType::RegularFile) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if !self.is_volatile(stat, || rustix::fs::statfs(path))
            && let Some((digest, flags)) = self.lookup(stat, need)
        {
            readable(path, stat, 0o444)?;
            return Ok((digest, flags, *stat));
        }
        // The file may have been replaced by another kind: never wait for a FIFO, never acquire a
        // terminal.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        self.digest_fd(&file, need)
    }

    /// Returns the digest, flags and metadata of an open regular file.
    pub(super) fn digest_fd(&self, file: &File, need: Need) -> io::Result<(Digest, u8, Stat)> {
        let mut before = rustix::fs::fstat(file)?;
        if !is(&before, FileType::RegularFile) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if self.is_volatile(&before, || rustix::fs::fstatfs(file)) {
            let (digest, flags) = self.hash(file, MAX_PSEUDO)?;
            return Ok((digest, flags, before));
        }
        for _ in 0..ATTEMPTS {
            if let Some((digest, flags)) = self.lookup(&before, need) {
                return Ok((digest, flags, before));
            }
            let started = clock();
            let (digest, flags) = self.hash(file, u64::MAX)?;
            let after = rustix::fs::fstat(file)?;
            let key = FileKey::of(&after);
            if key == FileKey::of(&before) {
                if let (Some(key), Some(started)) = (key, started) {
                    let known = flags | if self.scanner.is_some() { SCANNED } else { 0 };
                    let trust = Trust::HashedAt(started);
                    self.table().insert(&key, digest, known, trust);
                }
                return Ok((digest, flags, after));
            }
            before = after;
        }
        Err(io::Error::other("it changes while it is read"))
    }

    fn lookup(&self, stat: &Stat, need: Need) -> Option<(Digest, u8)> {
        let (digest, flags) = self.table.get(&FileKey::of(stat)?)?;
        if need == Need::Flags && self.scanner.is_some() && flags & SCANNED == 0 {
            return None;
        }
        Some((digest, flags & !SCANNED))
    }

    fn hash(&self, file: &File, limit: u64) -> io::Result<(Digest, u8)> {
        let mut flags = 0;
        let mut carried = Vec::new();
        let hashed = copy::hash_whole(file, limit, |piece| {
            if let Some(scanner) = self.scanner {
                flags |= scan(scanner, &mut carried, piece);
            }
        })?;
        match hashed {
            Some((digest, _)) => Ok((digest, flags & !SCANNED)),
            None => Err(io::Error::other("a pseudo file of unusual length")),
        }
    }
}

/// Passes a piece to a scanner, together with the end of the previous one.
fn scan(scanner: Scanner, carried: &mut Vec<u8>, piece: &[u8]) -> u8 {
    let mut flags = scanner(piece);
    if !carried.is_empty() {
        carried.extend_from_slice(&piece[..piece.len().min(OVERLAP)]);
        flags |= scanner(carried);
    }
    if piece.len() >= OVERLAP {
        carried.clear();
        carried.extend_from_slice(&piece[piece.len() - OVERLAP..]);
    } else {
        carried.extend_from_slice(if carried.is_empty() { piece } else { &[] });
        let surplus = carried.len().saturating_sub(OVERLAP);
        carried.drain(..surplus);
    }
    flags
}

/// Returns the real-time clock in ns since the epoch; `None` if it does not fit in 64 bits.
fn clock() -> Option<i64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_nanos()).ok()
}
