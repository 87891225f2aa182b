//! A remote cache in a directory that several machines or users share.
//!
//! ```text
//! <root>/entries/ab/…    what stands under a key: the blob's digest and length
//!        contents/ab/…   blobs and contents, named by their BLAKE3 digest
//!        tmp/            files being written; renamed into place
//! ```
//!
//! A name appears by rename only, and all data read is verified, so that any number of processes
//! may read and write at once. pcache removes nothing: the owner of the directory does this (for
//! example with `find -atime`).

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::codec::{Key, MAX_PACKED};
use super::digest::{Function, Wire};
use super::protocol::{Backend, Entry, Failure, Offer, Reply, Result, Want};
use crate::model::fact::Digest;

/// Length of an entry: a blob's digest and length (bytes).
const ENTRY: usize = 40;

/// A directory used as a remote cache.
#[derive(Debug, Clone)]
pub struct Directory {
    root: PathBuf,
}

impl Directory {
    /// Uses this directory, which must exist.
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    fn find_entry(&self, key: Key) -> Result<Option<Entry>> {
        let mut bytes = Vec::new();
        match File::open(self.entry_path(key)) {
            Ok(file) => file.take(ENTRY as u64 + 1).read_to_end(&mut bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A missing directory differs from an empty one.
                fs::metadata(&self.root).map_err(unreachable)?;
                return Ok(None);
            }
            Err(error) => return Err(unreachable(error)),
        }
        .map_err(unreachable)?;
        let wrong = || Failure::Wrong("an entry is damaged".to_owned());
        let (hash, size) = bytes.split_first_chunk::<32>().ok_or_else(wrong)?;
        let size = u64::from_le_bytes(size.try_into().map_err(|_| wrong())?);
        Ok(Some(Entry {
            blob: Wire { hash: *hash, size },
            inlined: None,
            contents: Vec::new(),
            beside: None,
        }))
    }

    fn put_entry(&self, key: Key, entry: &Entry) -> Result<()> {
        let mut bytes = entry.blob.hash.to_vec();
        bytes.extend_from_slice(&entry.blob.size.to_le_bytes());
        self.publish(&self.entry_path(key), &mut &bytes[..])
    }

    fn retain_missing(&self, mut wires: Vec<Wire>) -> Vec<Wire> {
        wires.retain(|wire| {
            !fs::metadata(self.content_path(*wire)).is_ok_and(|found| found.len() == wire.size)
        });
        wires
    }

    fn read_blob(&self, wire: Wire) -> Result<Vec<u8>> {
        if wire.size > MAX_PACKED {
            return Err(Failure::Wrong("a blob is too large".to_owned()));
        }
        let mut bytes = Vec::new();
        self.open(wire)?
            .take(wire.size + 1)
            .read_to_end(&mut bytes)
            .map_err(unreachable)?;
        Ok(bytes)
    }

    fn copy_out(&self, wants: Vec<Want>) -> Result<()> {
        for Want { wire, mut into } in wants {
            let mut file = self.open(wire)?.take(wire.size.saturating_add(1));
            io::copy(&mut file, &mut into).map_err(|error| Failure::Wrong(error.to_string()))?;
            into.finish()?;
        }
        Ok(())
    }

    fn copy_in(&self, offers: Vec<Offer>) -> Result<()> {
        offers.into_iter().try_for_each(|offer| {
            let path = self.content_path(offer.wire);
            self.publish(&path, &mut offer.open()?)
        })
    }

    fn open(&self, wire: Wire) -> Result<File> {
        File::open(self.content_path(wire)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::Missing,
            _ => unreachable(error),
        })
    }

    fn publish(&self, path: &Path, from: &mut impl Read) -> Result<()> {
        let mut write = || -> io::Result<()> {
            let tmp = self.root.join("tmp");
            make_dir(&tmp)?;
            let mut file = tempfile::Builder::new()
                .permissions(fs::Permissions::from_mode(0o666))
                .tempfile_in(tmp)?;
            io::copy(from, &mut file)?;
            file.flush()?;
            // The root itself is not created: a file system may not be mounted there yet.
            if let Some(shard) = path.parent() {
                shard.parent().map_or(Ok(()), make_dir)?;
                make_dir(shard)?;
            }
            file.persist(path)?;
            Ok(())
        };
        write().map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Failure::Full(error.to_string())
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Failure::Forbidden(error.to_string())
            }
            _ => unreachable(error),
        })
    }

    fn entry_path(&self, key: Key) -> PathBuf {
        self.path("entries", key.0)
    }

    fn content_path(&self, wire: Wire) -> PathBuf {
        self.path("contents", wire.hash)
    }

    fn path(&self, kind: &str, hash: [u8; 32]) -> PathBuf {
        let name = Digest(hash).to_string();
        let (shard, rest) = name.split_at(2);
        self.root.join(kind).join(shard).join(rest)
    }
}

impl Backend for Directory {
    fn function(&self) -> Reply<'_, Function> {
        Box::pin(async { Ok(Function::Blake3) })
    }

    fn entry(&self, key: Key, _beside: bool) -> Reply<'_, Option<Entry>> {
        Box::pin(async move { self.find_entry(key) })
    }

    fn has_beside(&self) -> bool {
        false
    }

    fn set_entry(&self, key: Key, entry: Entry) -> Reply<'_, ()> {
        Box::pin(async move { self.put_entry(key, &entry) })
    }

    fn missing(&self, wires: Vec<Wire>) -> Reply<'_, Vec<Wire>> {
        Box::pin(async move { Ok(self.retain_missing(wires)) })
    }

    fn read(&self, wire: Wire) -> Reply<'_, Vec<u8>> {
        Box::pin(async move { self.read_blob(wire) })
    }

    fn fetch(&self, wants: Vec<Want>) -> Reply<'_, ()> {
        Box::pin(async move { self.copy_out(wants) })
    }

    fn store(&self, offers: Vec<Offer>) -> Reply<'_, ()> {
        Box::pin(async move { self.copy_in(offers) })
    }

    fn is_writable(&self) -> Reply<'_, bool> {
        Box::pin(async { Ok(true) })
    }
}

fn make_dir(dir: &Path) -> io::Result<()> {
    match fs::create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn unreachable(error: io::Error) -> Failure {
    Failure::Unreachable(error.to_string())
}
