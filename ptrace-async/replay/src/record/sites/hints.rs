//! Hints about the code of system files, kept for later recordings.
//!
//! A recording would find everything in a hint by itself, but later: hints save time and
//! decide nothing. A file is identified as in a replay. A hint that is missing, damaged or of
//! another version is computed again.

use std::cell::RefCell;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::known::KnownSites;
use super::random::{RandomInstruction, RandomInstructions};
use crate::trace::event::{File, FileNumber, Identity};
use crate::trace::files::is_settled;

/// Another one whenever a recorder finds something else in the same code.
pub const VERSION: u32 = 1;
const MAGIC: &[u8; 4] = b"rpsl";
const HEAD: usize = MAGIC.len() + size_of::<u64>();

/// Hints about one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FileHints {
    version: u32,
    identity: Identity,
    /// Its instructions that give random numbers.
    randoms: Vec<RandomInstruction>,
    /// The offsets behind calls that are worth patching, in order.
    sites: Vec<u64>,
}

/// A file with code that this recording has met.
#[derive(Debug)]
struct HintedFile {
    number: FileNumber,
    path: PathBuf,
    hints: FileHints,
    is_saved: bool,
}

/// The hints of a recording, loaded and to be saved.
#[derive(Debug)]
pub(in crate::record) struct HintStore {
    /// Where it is kept, if anywhere.
    directory: Option<PathBuf>,
    met: RefCell<Vec<HintedFile>>,
}

impl HintStore {
    /// With what is kept in a directory, which is made. Nothing is kept where that fails, or
    /// where others could say what is known.
    pub(in crate::record) fn new(directory: Option<PathBuf>) -> Self {
        Self {
            directory: directory.filter(|directory| open(directory).is_ok()),
            met: RefCell::default(),
        }
    }

    /// A file is met for the first time; it is open at `open`.
    pub(in crate::record) fn load_or_scan(
        &self,
        file: &File,
        open: &Path,
        known: &KnownSites,
        random_instructions: &RandomInstructions,
    ) {
        let (number, identity) = (file.number, file.identity);
        let place = self.directory.as_ref().filter(|_| {
            // What is stored with a trace may be anybody's, and change.
            file.stored.is_none() && is_settled(&identity)
        });
        let Some(directory) = place else {
            random_instructions.look_through(number, open);
            return;
        };
        let path = directory.join(format!("{:016x}", xxh3_64(&file.path)));
        let kept = fs::read(&path).ok().and_then(|bytes| decode(&bytes));
        let kept = kept.filter(|kept| (kept.version, kept.identity) == (VERSION, identity));
        let is_saved = kept.is_some();
        let hints = match kept {
            Some(hints) => {
                random_instructions.add(number, &hints.randoms);
                known.add(number, &hints.sites);
                hints
            }
            None if random_instructions.look_through(number, open) => FileHints {
                version: VERSION,
                identity,
                randoms: random_instructions.of(number),
                sites: Vec::new(),
            },
            // There is no code in it, or it cannot be read.
            None => return,
        };
        self.met.borrow_mut().push(HintedFile {
            number,
            path,
            hints,
            is_saved,
        });
    }

    /// Keeps what is new. What fails is learnt again.
    pub(in crate::record) fn keep(&self, known: &KnownSites) {
        for mut met in self.met.take() {
            let sites = known.of(met.number);
            if met.is_saved && met.hints.sites == sites {
                continue;
            }
            met.hints.sites = sites;
            let _ = write(&met.path, &met.hints);
        }
    }
}

/// Makes a directory for this user.
fn open(directory: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    let metadata = fs::metadata(directory)?;
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    if is_own && metadata.mode() & 0o022 == 0 {
        Ok(())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

fn write(path: &Path, hints: &FileHints) -> io::Result<()> {
    let bytes = encode(hints).map_err(io::Error::other)?;
    let new = path.with_extension(std::process::id().to_string());
    let written = fs::write(&new, bytes).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

fn encode(hints: &FileHints) -> Result<Vec<u8>, postcard::Error> {
    let content = postcard::to_allocvec(hints)?;
    let mut bytes = Vec::with_capacity(HEAD + content.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&xxh3_64(&content).to_le_bytes());
    bytes.extend_from_slice(&content);
    Ok(bytes)
}

fn decode(bytes: &[u8]) -> Option<FileHints> {
    let (head, content) = bytes.split_at_checked(HEAD)?;
    let (magic, sum) = head.split_at(MAGIC.len());
    let is_whole = magic == MAGIC && sum == xxh3_64(content).to_le_bytes();
    postcard::from_bytes(content).ok().filter(|_| is_whole)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hints() -> FileHints {
        FileHints {
            version: VERSION,
            identity: Identity {
                device: 1,
                inode: 2,
                size: 3,
                modified: -4,
                changed: 5,
            },
            randoms: vec![RandomInstruction {
                offset: 6,
                opcode: 1,
            }],
            sites: vec![7, 1 << 40],
        }
    }

    #[test]
    fn hints_are_read_back_and_damaged_ones_are_not() {
        let bytes = encode(&hints()).unwrap();
        assert_eq!(decode(&bytes), Some(hints()));
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_eq!(decode(&other), None, "byte {at}");
            assert_eq!(decode(&bytes[..at]), None, "{at} bytes");
        }
    }

    /// A file of code that has an instruction that gives random numbers at its end.
    fn executable() -> (Vec<u8>, RandomInstruction) {
        const SIZE: u64 = 300;
        let header = [
            &b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0"[..],
            &[0; 8],
            &64_u64.to_le_bytes(),
            &[0; 12],
            &[64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0],
            &[1, 0, 0, 0, 5, 0, 0, 0],
            &[0; 24],
            &SIZE.to_le_bytes(),
            &SIZE.to_le_bytes(),
            &[0; 8],
        ];
        let mut bytes = header.concat();
        assert_eq!(bytes.len(), 120);
        bytes.resize(SIZE as usize - 3, 0x90);
        bytes.extend_from_slice(&[0x0f, 0xc7, 0xf0]);
        let offset = SIZE - 3;
        (bytes, RandomInstruction { offset, opcode: 0 })
    }

    #[test]
    fn hints_serve_the_next_recording_while_the_file_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("code");
        let (bytes, found) = executable();
        fs::write(&open, bytes).unwrap();
        let number = FileNumber(0);
        let mut identity = Identity::of(&fs::metadata(&open).unwrap());
        // Long ago: it is settled.
        identity.changed = 1;
        let file = |identity| File {
            number,
            path: b"/usr/bin/code".to_vec(),
            identity,
            stored: None,
        };
        let learn = |file: &File, sites: &[u64]| {
            let (known, random_instructions) =
                (KnownSites::default(), RandomInstructions::default());
            let learnt = HintStore::new(Some(dir.path().join("cache")));
            learnt.load_or_scan(file, &open, &known, &random_instructions);
            let met = (known.of(number), random_instructions.of(number));
            known.add(number, sites);
            learnt.keep(&known);
            met
        };
        assert_eq!(learn(&file(identity), &[7, 9]), (vec![], vec![found]));
        // Nobody looks through the file any more.
        fs::write(&open, "").unwrap();
        assert_eq!(learn(&file(identity), &[8]), (vec![7, 9], vec![found]));
        assert_eq!(learn(&file(identity), &[]), (vec![7, 8, 9], vec![found]));
        let stored = File {
            stored: Some([0; 32]),
            ..file(identity)
        };
        assert_eq!(learn(&stored, &[]), (vec![], vec![]));
        let changed = Identity {
            size: 1,
            ..identity
        };
        assert_eq!(learn(&file(changed), &[]), (vec![], vec![]));
    }

    #[test]
    fn a_directory_that_other_users_may_write_is_not_used() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("a/b");
        assert!(HintStore::new(Some(own.clone())).directory.is_some());
        fs::set_permissions(&own, fs::Permissions::from_mode(0o770)).unwrap();
        assert!(HintStore::new(Some(own)).directory.is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_decode_to_hints_or_nothing(content in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut bytes = MAGIC.to_vec();
            bytes.extend_from_slice(&xxh3_64(&content).to_le_bytes());
            bytes.extend_from_slice(&content);
            let _ = decode(&bytes);
            prop_assert_eq!(decode(&content), None);
        }
    }
}
