//! Exports a store to one stream of bytes, and imports it.
//!
//! The stream is a header, contents and results, compressed with zstd. Each item is a letter, a
//! digest, a length, and that many bytes; a final letter marks the end. Imported items are
//! verified as in the store: contents by their digest, results by the checksums of their frames.
//! The stream must be trusted: its author decides which programs are skipped and which files are
//! written, anywhere.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use super::error::{Result, StoreError};
use super::{Incoming, Store, codec};
use crate::model::fact::Digest;
use crate::model::weak_key::WeakKey;

pub(super) const HEADER: &[u8; 16] = b"pcache export 1\n";
const CONTENT: u8 = b'c';
const RESULTS: u8 = b'r';
const END: u8 = b'e';
/// The maximal length of the results under one key, in bytes.
const LONGEST: u64 = 64 << 20;

/// Numbers of copied items.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Contents.
    pub contents: u64,
    /// Keys with results.
    pub keys: u64,
}

impl Store {
    /// Writes all contents and results.
    ///
    /// # Errors
    /// Errors of reading and writing.
    pub fn export(&self, into: impl Write) -> Result<Moved> {
        let pack = || -> io::Result<Moved> {
            let mut count = Moved::default();
            let mut out = zstd::stream::write::Encoder::new(into, 3)?;
            out.write_all(HEADER)?;
            for (dir, letter) in [("blobs", CONTENT), ("units", RESULTS)] {
                let files = self.files(dir).map_err(io::Error::other)?;
                for path in files {
                    let (Some(digest), Ok(mut file)) =
                        (self.digest_of(&path, dir), File::open(&path))
                    else {
                        // Removed meanwhile, or not a file of the store.
                        continue;
                    };
                    // Data appended meanwhile is not exported.
                    let length = file.metadata()?.len();
                    out.write_all(&[letter])?;
                    out.write_all(&digest.0)?;
                    out.write_all(&length.to_le_bytes())?;
                    let written = io::copy(&mut Read::by_ref(&mut file).take(length), &mut out)?;
                    if written != length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    match letter {
                        CONTENT => count.contents += 1,
                        _ => count.keys += 1,
                    }
                }
            }
            out.write_all(&[END])?;
            out.finish()?.flush()?;
            Ok(count)
        };
        pack().map_err(StoreError::io("export", &self.root))
    }

    /// Imports a stream of [`Store::export`]. Items before a defect stay imported.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], and [`StoreError::Io`] for a foreign, damaged or truncated
    /// stream.
    pub fn import(self: &Arc<Self>, from: impl Read) -> Result<Moved> {
        if self.read_only {
            return Err(StoreError::ReadOnly);
        }
        self.unpack(from)
            .map_err(StoreError::io("import into", &self.root))
    }

    fn unpack(self: &Arc<Self>, from: impl Read) -> io::Result<Moved> {
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let mut input = zstd::stream::read::Decoder::new(from)?;
        let mut header = [0; HEADER.len()];
        input.read_exact(&mut header)?;
        if header != *HEADER {
            return Err(wrong("it is no export of this version"));
        }
        let mut count = Moved::default();
        loop {
            let mut letter = [0];
            input.read_exact(&mut letter)?;
            if letter[0] == END {
                return Ok(count);
            }
            let (mut digest, mut length) = ([0; 32], [0; 8]);
            input.read_exact(&mut digest)?;
            input.read_exact(&mut length)?;
            let (digest, length) = (Digest(digest), u64::from_le_bytes(length));
            let mut piece = Read::by_ref(&mut input).take(length);
            match letter[0] {
                CONTENT => {
                    let mut incoming =
                        Incoming::new(self, digest, length).map_err(io::Error::other)?;
                    io::copy(&mut piece, &mut incoming)?;
                    incoming.finish().map_err(io::Error::other)?;
                    count.contents += 1;
                }
                RESULTS if length <= LONGEST => {
                    let mut bytes = Vec::new();
                    piece.read_to_end(&mut bytes)?;
                    if bytes.len() as u64 != length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    let (frames, _) = codec::frames(&bytes);
                    for frame in frames {
                        let tree = codec::decode_tree(frame).map_err(io::Error::other)?;
                        self.absorb(&WeakKey(digest), &tree)
                            .map_err(io::Error::other)?;
                    }
                    count.keys += 1;
                }
                _ => return Err(wrong("it is damaged")),
            }
        }
    }
}

/// Writes an export to a file, which appears when it is complete.
///
/// # Errors
/// Same as [`Store::export`].
pub fn export_file(store: &Store, path: &Path) -> Result<Moved> {
    let failed = || StoreError::io("write", path);
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let file = tempfile::NamedTempFile::new_in(dir).map_err(failed())?;
    let moved = store.export(io::BufWriter::new(file.as_file()))?;
    let placed = file.into_temp_path();
    fs::rename(&placed, path).map_err(failed())?;
    // The temporary name is gone: the guard has nothing to remove.
    let _ = placed.keep();
    Ok(moved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fact::{Answer, Fact, Query};
    use crate::model::outcome::{Ending, Outcome, StreamChunk, StreamData};
    use crate::store::Lookup;

    fn store() -> (tempfile::TempDir, Arc<Store>) {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(dir.path()).unwrap());
        (dir, store)
    }

    fn record(store: &Store, key: u8, target: &str) {
        let digest = store.put_bytes(target.as_bytes()).unwrap();
        let outcome = Outcome {
            ending: Ending::Exited(0),
            stream: vec![StreamChunk {
                fd: 1,
                data: StreamData::Stored(digest, target.len() as u64),
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
        let fact = Fact {
            query: Query::Link("/l".into()),
            answer: Answer::Path(target.into()),
        };
        let key = WeakKey(Digest([key; 32]));
        store.record(&key, vec![vec![fact]], &outcome).unwrap();
    }

    fn finds(store: &Store, key: u8, target: &str) -> bool {
        let mut ask = |_: &Query| Answer::Path(target.into());
        let found = store.lookup(&WeakKey(Digest([key; 32])), &mut ask).unwrap();
        matches!(found, Lookup::Hit(_))
    }

    #[test]
    fn imported_results_join_the_existing_ones() {
        let ((_one, from), (_other, to)) = (store(), store());
        record(&from, 1, "a");
        record(&from, 2, "b");
        record(&to, 1, "c");
        let mut bytes = Vec::new();
        let moved = from.export(&mut bytes).unwrap();
        assert_eq!(
            moved,
            Moved {
                contents: 2,
                keys: 2
            }
        );
        for _ in 0..2 {
            assert_eq!(to.import(bytes.as_slice()).unwrap(), moved);
            assert!(finds(&to, 1, "a") && finds(&to, 2, "b") && finds(&to, 1, "c"));
            assert!(!finds(&to, 2, "a"));
            assert!(to.check(false).unwrap().damaged.is_empty());
        }
        assert_eq!(to.results(&WeakKey(Digest([1; 32]))).unwrap().len(), 2);
    }

    #[test]
    fn a_damaged_export_is_an_error_and_the_store_stays_sound() {
        let (_dir, from) = store();
        record(&from, 1, "a");
        let mut packed = Vec::new();
        from.export(&mut packed).unwrap();
        let plain = zstd::stream::decode_all(packed.as_slice()).unwrap();
        let check = |plain: &[u8]| {
            let (_dir, to) = store();
            let packed = zstd::stream::encode_all(plain, 1).unwrap();
            let result = to.import(packed.as_slice());
            assert!(to.check(false).unwrap().damaged.is_empty());
            result.is_ok()
        };
        assert!(check(&plain));
        for end in 0..plain.len() {
            assert!(!check(&plain[..end]), "cut at {end}");
        }
        // Lengths and contents, but not the bytes after the end of the last frame.
        for at in [0, 16, 20, 50, 57, plain.len() - 1] {
            let mut wrong = plain.clone();
            wrong[at] ^= 1;
            assert!(!check(&wrong), "changed at {at}");
        }
        assert!(from.import(&b"nonsense"[..]).is_err());
    }
}
