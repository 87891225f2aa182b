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
    version: 3,
};

/// The contents of the journal.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// All readable runs, oldest first.
    pub runs: Vec<Vec<u8>>,
    /// The number of unreadable positions.
    pub damaged: u64,
    /// The number of runs that another version of `pcache` wrote.
    pub foreign: u64,
}

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

    /// Reads the journal.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn journal(&self) -> Result<Runs> {
        let mut all = Runs::default();
        for name in ["previous", "current"] {
            let path = self.journal_path(name);
            let bytes = match fs::read(&path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(StoreError::io("read", &path)(error)),
            };
            let found = split(&bytes);
            all.damaged += found.gaps;
            all.foreign += found.foreign;
            for body in found.bodies {
                match unpack(body) {
                    Some(run) => all.runs.push(run),
                    None => all.damaged += 1,
                }
            }
        }
        Ok(all)
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

/// The frames of a file.
#[derive(Debug, Default)]
struct Frames<'b> {
    /// The bodies of all complete frames.
    bodies: Vec<&'b [u8]>,
    /// The number of other items between them.
    gaps: u64,
    /// The number of complete frames of another version.
    foreign: u64,
}

fn split(mut bytes: &[u8]) -> Frames<'_> {
    let mut frames = Frames::default();
    let mut in_gap = false;
    while !bytes.is_empty() {
        let version = bytes.get(RUN.magic.len());
        let kind = Kind {
            version: version.copied().unwrap_or(RUN.version),
            ..RUN
        };
        let frame = kind
            .len(bytes)
            .ok()
            .and_then(|length| bytes.get(..usize::try_from(length).ok()?));
        match frame.map(|frame| (frame, kind.unseal(frame))) {
            Some((frame, Ok(body))) => {
                match kind.version == RUN.version {
                    true => frames.bodies.push(body),
                    false => frames.foreign += 1,
                }
                bytes = &bytes[frame.len()..];
                in_gap = false;
            }
            _ => {
                frames.gaps += u64::from(!in_gap);
                in_gap = true;
                let next = memchr::memmem::find(&bytes[1..], &RUN.magic);
                bytes = next.map_or(&[], |at| &bytes[at + 1..]);
            }
        }
    }
    frames
}

/// Returns the runs in untrusted bytes; never panics.
#[doc(hidden)]
pub fn runs_in(bytes: &[u8]) -> Vec<Vec<u8>> {
    // The part that a fuzzer cannot reach behind the checksum.
    let _ = bytes.get(HEADER..).map(unpack);
    split(bytes).bodies.into_iter().filter_map(unpack).collect()
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
        let found = store.journal().unwrap();
        assert_eq!(found.runs, [&b"one"[..], b"two", b"three"]);
        assert_eq!((found.damaged, found.foreign), (0, 0));
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
            let found = store.journal().unwrap();
            let runs = vec![b"two".to_vec()];
            assert_eq!((found.runs, found.damaged), (runs, 1), "{cut}");
        }
        for at in 0..one.len() {
            let mut bytes = one.clone();
            bytes[at] ^= 1;
            fs::write(&path, &bytes).unwrap();
            store.add_to_journal(b"two").unwrap();
            // A changed version byte looks like another version.
            let foreign = u64::from(at == RUN.magic.len());
            let expected = Runs {
                runs: vec![b"two".to_vec()],
                damaged: 1 - foreign,
                foreign,
            };
            assert_eq!(store.journal().unwrap(), expected, "{at}");
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
        let found = store.journal().unwrap();
        assert_eq!(found.damaged, 0);
        let count = found.runs.len();
        assert!((8..=20).contains(&count), "{count}");
    }

    #[test]
    fn random_bytes_are_no_journal() {
        for bytes in [&b""[..], b"pcj", b"pcj\x01pcj\x01", &[0; 100]] {
            assert!(runs_in(bytes).is_empty());
        }
    }
}
