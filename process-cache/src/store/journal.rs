//! The files of the journal: one frame per run, appended.
//!
//! A frame is added by one `write` to a file opened for appending, without a lock. Readers skip an
//! incomplete frame (after a full disk, or a killed writer) and continue at the next magic word.
//! When `journal/current` has grown, it is renamed to `journal/previous`, which it replaces. So
//! the journal is bounded, and costs a run one small write.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use super::Store;
use super::error::{Result, StoreError};
use super::frame::{HEADER, Kind};

/// The directory of the journal.
pub(super) const JOURNAL: &str = "journal";
/// Maximal length of `current` (bytes).
const LIMIT: u64 = 8 << 20;
/// Maximal decompressed size of one run (bytes).
const MAX_RUN: usize = 256 << 20;

/// Runs.
pub(super) const RUN: Kind = Kind {
    magic: *b"pcj",
    version: 1,
};

impl Store {
    /// Adds a run.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], [`StoreError::Io`].
    pub fn add_to_journal(&self, run: &[u8]) -> Result<()> {
        if self.read_only {
            return Err(StoreError::ReadOnly);
        }
        let path = self.journal_path("current");
        let frame = RUN
            .seal(|mut bytes| {
                zstd::stream::copy_encode(run, &mut bytes, 1)?;
                Ok(bytes)
            })
            .map_err(StoreError::io::<io::Error>("write", &path))?;
        let open = || {
            OpenOptions::new()
                .append(true)
                .create(true)
                .mode(self.mode & 0o666 | 0o600)
                .open(&path)
        };
        let mut file = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_dir(&self.root.join(JOURNAL))?;
                open()
            }
            opened => opened,
        }
        .map_err(StoreError::io("write", &path))?;
        self.share(&file);
        file.write_all(&frame)
            .map_err(StoreError::io("write", &path))?;
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        if length > LIMIT
            && let Some(_lock) = self.try_lock(JOURNAL)?
        {
            // Another process may have renamed it: then `current` is short.
            if fs::metadata(&path).is_ok_and(|metadata| metadata.len() > LIMIT) {
                fs::rename(&path, self.journal_path("previous"))
                    .map_err(StoreError::io("write", &path))?;
            }
        }
        Ok(())
    }

    /// Returns all readable runs, oldest first, and the number of unreadable positions.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn journal(&self) -> Result<(Vec<Vec<u8>>, u64)> {
        let mut runs = Vec::new();
        let mut damaged = 0;
        for name in ["previous", "current"] {
            let path = self.journal_path(name);
            let bytes = match fs::read(&path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(StoreError::io("read", &path)(error)),
            };
            let (found, gaps) = split(&bytes);
            damaged += gaps;
            for body in found {
                match unpack(body) {
                    Some(run) => runs.push(run),
                    None => damaged += 1,
                }
            }
        }
        Ok((runs, damaged))
    }

    fn journal_path(&self, name: &str) -> PathBuf {
        self.root.join(JOURNAL).join(name)
    }
}

fn unpack(body: &[u8]) -> Option<Vec<u8>> {
    let mut run = Vec::new();
    let decoder = zstd::stream::read::Decoder::new(body).ok()?;
    let most = MAX_RUN as u64 + 1;
    io::Read::read_to_end(&mut io::Read::take(decoder, most), &mut run).ok()?;
    (run.len() <= MAX_RUN).then_some(run)
}

/// Returns the bodies of all complete frames, and the number of other items between them.
fn split(mut bytes: &[u8]) -> (Vec<&[u8]>, u64) {
    let mut bodies = Vec::new();
    let mut gaps = 0;
    let mut in_gap = false;
    while !bytes.is_empty() {
        let frame = RUN
            .len(bytes)
            .ok()
            .and_then(|length| bytes.get(..usize::try_from(length).ok()?));
        match frame.map(|frame| (frame, RUN.unseal(frame))) {
            Some((frame, Ok(body))) => {
                bodies.push(body);
                bytes = &bytes[frame.len()..];
                in_gap = false;
            }
            _ => {
                gaps += u64::from(!in_gap);
                in_gap = true;
                let next = memchr::memmem::find(&bytes[1..], &RUN.magic);
                bytes = next.map_or(&[], |at| &bytes[at + 1..]);
            }
        }
    }
    (bodies, gaps)
}

/// Returns the runs in untrusted bytes; never panics.
#[doc(hidden)]
pub fn runs_in(bytes: &[u8]) -> Vec<Vec<u8>> {
    // The part that a fuzzer cannot reach behind the checksum.
    let _ = bytes.get(HEADER..).map(unpack);
    split(bytes).0.into_iter().filter_map(unpack).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        (dir, store)
    }

    #[test]
    fn runs_come_back_in_their_order() {
        let (_dir, store) = store();
        for text in ["one", "two", "three"] {
            store.add_to_journal(text.as_bytes()).unwrap();
        }
        let (runs, damaged) = store.journal().unwrap();
        assert_eq!(runs, [&b"one"[..], b"two", b"three"]);
        assert_eq!(damaged, 0);
    }

    #[test]
    fn a_frame_that_was_cut_or_changed_hides_no_other() {
        let (_dir, store) = store();
        let path = store.journal_path("current");
        store.add_to_journal(b"one").unwrap();
        let one = fs::read(&path).unwrap();
        for cut in 1..one.len() {
            fs::write(&path, &one[..cut]).unwrap();
            store.add_to_journal(b"two").unwrap();
            let (runs, damaged) = store.journal().unwrap();
            assert_eq!((runs, damaged), (vec![b"two".to_vec()], 1), "{cut}");
        }
        for at in 0..one.len() {
            let mut bytes = one.clone();
            bytes[at] ^= 1;
            fs::write(&path, &bytes).unwrap();
            store.add_to_journal(b"two").unwrap();
            let (runs, damaged) = store.journal().unwrap();
            assert_eq!((runs, damaged), (vec![b"two".to_vec()], 1), "{at}");
        }
    }

    #[test]
    fn the_journal_is_bounded() {
        let (_dir, store) = store();
        let mut state = 1_u64;
        let noise: Vec<u8> = (0..1 << 20)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        for _ in 0..40 {
            store.add_to_journal(&noise).unwrap();
        }
        let (runs, damaged) = store.journal().unwrap();
        assert_eq!(damaged, 0);
        assert!((8..=20).contains(&runs.len()), "{}", runs.len());
    }

    #[test]
    fn random_bytes_are_no_journal() {
        for bytes in [&b""[..], b"pcj", b"pcj\x01pcj\x01", &[0; 100]] {
            assert!(runs_in(bytes).is_empty());
        }
    }
}
