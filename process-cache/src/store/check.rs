//! Checks everything in a store.
//!
//! Damaged data is never used: the check only finds it earlier. Remains of an interrupted writer
//! (an incomplete frame at the end of a file, a temporary file) and of a collection (results
//! without their contents) are no damage.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::error::{Result, StoreError};
use super::frame::DecodeError;
use super::{Store, codec};
use crate::model::fact::Digest;
use crate::model::weak_key::WeakKey;

/// The findings of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// Contents with the right digest.
    pub blobs: u64,
    /// Files of results that are intact.
    pub entries: u64,
    /// Results in them.
    pub results: u64,
    /// Results without all their contents.
    pub incomplete: u64,
    /// Runs in the journal.
    pub runs: u64,
    /// Runs in it that another version of `pcache` wrote.
    pub foreign_runs: u64,
    /// Places where a writer was interrupted.
    pub interrupted: u64,
    /// Damaged files.
    pub damaged: Vec<Damage>,
}

/// A damaged file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// Its path.
    pub path: PathBuf,
    /// The kind of damage.
    pub what: String,
}

impl Store {
    /// Checks everything; with `repair`, removes damaged files.
    ///
    /// # Errors
    /// [`StoreError::Io`] if a directory cannot be read, [`StoreError::ReadOnly`] if nothing can
    /// be removed.
    pub fn check(&self, repair: bool) -> Result<Findings> {
        if repair && self.read_only {
            return Err(StoreError::ReadOnly);
        }
        let mut found = Findings::default();
        for path in self.files("blobs")? {
            match self.check_blob(&path) {
                Ok(true) => found.blobs += 1,
                // The file was removed meanwhile.
                Ok(false) => {}
                Err(what) => found.damage(path, what),
            }
        }
        for path in self.files("units")? {
            self.check_entry_file(&path, &mut found);
        }
        let journal = self.journal()?;
        found.runs = journal.runs.len() as u64;
        found.foreign_runs = journal.foreign;
        found.interrupted += journal.damaged;
        let temporary = fs::read_dir(self.root.join("tmp"));
        found.interrupted += temporary.map_or(0, |files| files.count() as u64);
        if repair {
            for damage in &found.damaged {
                let _ = fs::remove_file(&damage.path);
            }
        }
        Ok(found)
    }

    fn check_blob(&self, path: &Path) -> Result<bool, String> {
        let Some(name) = self.digest_of(path, "blobs") else {
            return Err("its name is no digest".to_owned());
        };
        let mut hasher = blake3::Hasher::new();
        let read = fs::File::open(path).and_then(|mut file| io::copy(&mut file, &mut hasher));
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.to_string()),
            Ok(_) if hasher.finalize().as_bytes() == &name.0 => Ok(true),
            Ok(_) => Err("its content has another digest".to_owned()),
        }
    }

    fn check_entry_file(&self, path: &Path, found: &mut Findings) {
        let Some(name) = self.digest_of(path, "units") else {
            return found.damage(path.to_owned(), "its name is no digest".to_owned());
        };
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return found.damage(path.to_owned(), error.to_string()),
        };
        let (frames, rest) = codec::frames(&bytes);
        for frame in &frames {
            if let Err(error) = codec::decode_tree(frame) {
                return found.damage(path.to_owned(), error.to_string());
            }
        }
        match rest {
            None => {}
            // A frame that ends too early was being written.
            Some(DecodeError::Damaged(_)) => found.interrupted += 1,
            Some(_) if is_start(&bytes[frames.iter().map(|frame| frame.len()).sum()..]) => {
                found.interrupted += 1;
            }
            Some(error) => return found.damage(path.to_owned(), error.to_string()),
        }
        found.entries += 1;
        for result in self.results(&WeakKey(name)).unwrap_or_default() {
            found.results += 1;
            found.incomplete += u64::from(result.outcome.is_none());
        }
    }

    /// Returns all files of a sharded directory.
    pub(super) fn files(&self, name: &str) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for shard in super::maintenance::read_dir(&self.root.join(name))? {
            let inside = super::maintenance::read_dir(&shard.path())?;
            files.extend(inside.into_iter().map(|file| file.path()));
        }
        files.sort();
        Ok(files)
    }

    /// Returns the digest that a file's path encodes.
    pub(super) fn digest_of(&self, path: &Path, dir: &str) -> Option<Digest> {
        let name = path.strip_prefix(self.root.join(dir)).ok()?;
        let hex: String = name.to_str()?.split('/').collect();
        let mut digest = [0; 32];
        if hex.len() != 64 || !hex.is_ascii() {
            return None;
        }
        for (byte, pair) in digest.iter_mut().zip(hex.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        let digest = Digest(digest);
        (super::sharded(&self.root.join(dir), &digest) == path).then_some(digest)
    }
}

impl Findings {
    fn damage(&mut self, path: PathBuf, what: String) {
        self.damaged.push(Damage { path, what });
    }
}

/// Whether these bytes are the beginning of a header.
fn is_start(bytes: &[u8]) -> bool {
    bytes.len() < codec::HEADER && bytes.iter().zip(b"pcu").all(|(one, other)| one == other)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::model::outcome::{Ending, Outcome, StreamChunk, StreamData};

    fn store() -> (tempfile::TempDir, Store, Digest, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let digest = store.put_bytes(b"content").unwrap();
        let outcome = Outcome {
            ending: Ending::Exited(0),
            stream: vec![StreamChunk {
                fd: 1,
                data: StreamData::Stored(digest, 7),
            }],
            positions: Vec::new(),
            flags: Vec::new(),
            effects: Vec::new(),
            ages: Vec::new(),
            facts: Vec::new(),
            conditions: None,
            cpu_us: 0,
            wall_us: 0,
            units: 1,
        };
        let key = WeakKey(super::super::copy::digest(b"key"));
        store.record(&key, vec![], &outcome).unwrap();
        store.add_to_journal(b"run").unwrap();
        let entry = super::super::sharded(&store.root.join("units"), &key.0);
        (dir, store, digest, entry)
    }

    #[test]
    fn a_sound_store_has_no_findings() {
        let (_dir, store, ..) = store();
        let expected = Findings {
            blobs: 1,
            entries: 1,
            results: 1,
            runs: 1,
            ..Findings::default()
        };
        assert_eq!(store.check(false).unwrap(), expected);
    }

    #[test]
    fn each_byte_that_changed_is_noticed_and_can_be_removed() {
        let (_dir, store, digest, entry) = store();
        let blob = super::super::sharded(&store.root.join("blobs"), &digest);
        for path in [&blob, &entry] {
            let sound = fs::read(path).unwrap();
            // Blobs are read-only.
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
            for at in 0..sound.len() {
                let mut bytes = sound.clone();
                bytes[at] ^= 0x40;
                fs::write(path, &bytes).unwrap();
                let found = store.check(false).unwrap();
                // With a longer length, it looks like an unfinished frame.
                let noticed = !found.damaged.is_empty() || found.interrupted > 0;
                assert!(noticed, "{} at {at}: {found:?}", path.display());
                assert!(found.damaged.iter().all(|damage| damage.path == *path));
            }
            fs::write(path, &sound).unwrap();
        }
        fs::write(&blob, "other").unwrap();
        assert_eq!(store.check(true).unwrap().damaged.len(), 1);
        let found = store.check(false).unwrap();
        assert_eq!(
            (found.blobs, found.damaged.len(), found.incomplete),
            (0, 0, 1)
        );
    }

    #[test]
    fn an_interrupted_write_is_no_damage() {
        let (_dir, store, _, entry) = store();
        let whole = fs::read(&entry).unwrap();
        for cut in 1..whole.len() {
            let bytes = [&whole[..], &whole[..cut]].concat();
            fs::write(&entry, bytes).unwrap();
            let found = store.check(false).unwrap();
            assert_eq!((found.damaged.len(), found.interrupted), (0, 1), "{cut}");
            assert_eq!(found.results, 1);
        }
    }

    #[test]
    fn a_foreign_file_is_named() {
        let (dir, store, ..) = store();
        let path = dir.path().join("blobs/0/README");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "hello").unwrap();
        assert_eq!(store.check(false).unwrap().damaged[0].path, path);
    }
}
