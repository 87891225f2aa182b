//! Digests of files, each file read only when it has to be.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Mode, OFlags, Stat};

use super::{World, is, readable};
use crate::model::fact::Digest;
use crate::model::file_key::FileKey;
use crate::store::{Trust, copy};

/// Looks at the bytes of a file that is being hashed, piece by piece, and says
/// in a byte of flags what it found; the flags of all pieces are united. The
/// last [`OVERLAP`] bytes of a piece are repeated at the beginning of the next,
/// so nothing of that length is missed. Bit 7 is the table's own.
pub type Scanner = fn(&[u8]) -> u8;

/// How many bytes a [`Scanner`] sees twice.
const OVERLAP: usize = 32;
/// Set in the table where a scanner has looked.
const SCANNED: u8 = 0x80;
/// Pseudo files that are longer are not understood.
const MAX_PSEUDO: u64 = 4 << 20;
/// How often a file that changes while it is hashed is tried again.
const ATTEMPTS: usize = 3;

/// The properties of a content that a caller needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Digest,
    /// The scanner's flags as well.
    Flags,
}

impl World {
    /// The digest, flags and stat of the regular file at a path.
    pub(super) fn digest_path(&self, path: &Path, need: Need) -> io::Result<(Digest, u8, Stat)> {
        self.digest_at(path, &rustix::fs::stat(path)?, need)
    }

    /// The same for a path that has been looked at already.
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
        // What stands there may be another thing by now: never wait for a FIFO,
        // never acquire a terminal.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        self.digest_fd(&file, need)
    }

    /// The digest, flags and stat of an open regular file.
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

/// Shows a piece to a scanner, and what lies across the border to the one
/// before.
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

/// The real-time clock in ns since the epoch; `None` where 64 bits do not do.
fn clock() -> Option<i64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_nanos()).ok()
}
