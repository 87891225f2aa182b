//! Packing: makes a trace independent of the system files of its machine.
//!
//! A recording names system files and does not copy them. Packing copies them if they are
//! still what they were, and writes their digests to `packed.json`; the records stay
//! unchanged. The contents are written before the digests.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::event::{Event, File, FileNumber, Identity};
use super::{Directory, Error, Reader, files, replace};

/// The format of the note.
pub const FORMAT: u32 = 1;
const NAME: &str = "packed.json";

/// Which files of the system have been copied, as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packed {
    format: u32,
    /// Digests by the files' numbers, in hexadecimal.
    files: BTreeMap<u32, String>,
}

impl Packed {
    /// Reads what a trace has.
    ///
    /// # Errors
    /// When it cannot be read, or makes no sense.
    pub(super) fn read(trace: &Path) -> Result<Self, Error> {
        let path = trace.join(NAME);
        match fs::read(&path) {
            Ok(text) => Self::parse(&text).map_err(|reason| Error::NotATrace { path, reason }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Error::Io { path, error }),
        }
    }

    /// Reads the note.
    ///
    /// # Errors
    /// A description of the damage.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let packed: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if packed.format != FORMAT {
            return Err(format!(
                "it has format {}, expected {FORMAT}",
                packed.format
            ));
        }
        for digest in packed.files.values() {
            blake3::Hash::from_hex(digest).map_err(|error| error.to_string())?;
        }
        Ok(packed)
    }

    /// The digest of a file that has been copied.
    pub fn digest(&self, number: FileNumber) -> Option<[u8; 32]> {
        let digest = self.files.get(&number.0)?;
        Some(*blake3::Hash::from_hex(digest).ok()?.as_bytes())
    }
}

/// The result of packing.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How many files were copied.
    pub files: u64,
    /// How large they are together, in bytes.
    pub bytes: u64,
    /// Files that are not what they were, or cannot be read.
    pub missing: Vec<Error>,
}

/// Makes a trace self-contained, as far as its files are what they were.
///
/// # Errors
/// When the trace cannot be read or written to.
pub fn pack(directory: &mut Directory) -> Result<Outcome, Error> {
    let mut outcome = Outcome::default();
    let mut packed = directory.packed.clone();
    packed.format = FORMAT;
    for record in Reader::open(directory)? {
        let Event::File(file) = record?.event else {
            continue;
        };
        if file.digest(directory).is_some() {
            continue;
        }
        match take(&file, directory)? {
            Ok(digest) => {
                outcome.files += 1;
                outcome.bytes += file.identity.size;
                let digest = blake3::Hash::from_bytes(digest).to_hex().to_string();
                packed.files.insert(file.number.0, digest);
            }
            Err(missing) => outcome.missing.push(missing),
        }
    }
    let text = serde_json::to_vec_pretty(&packed).map_err(|error| Error::NotATrace {
        path: directory.path.clone(),
        reason: error.to_string(),
    })?;
    replace(&directory.path.join(NAME), &text)?;
    directory.packed = packed;
    Ok(outcome)
}

/// Copies a file; what is inside says whether it was still what it had been.
fn take(file: &File, directory: &Directory) -> Result<Result<[u8; 32], Error>, Error> {
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(&file.path));
    let is_it = || match fs::metadata(&path) {
        Ok(metadata) if file.identity.holds_the_same(&Identity::of(&metadata)) => None,
        Ok(_) => Some(Error::Changed { path: path.clone() }),
        Err(error) => Some(Error::io(&path)(error)),
    };
    if let Some(missing) = is_it() {
        return Ok(Err(missing));
    }
    let digest = match files::store(directory, &path) {
        Err(Error::Io { path: at, error }) if at == path => return Ok(Err(Error::io(&at)(error))),
        other => other?,
    };
    // The file may have been replaced meanwhile.
    Ok(match is_it() {
        Some(missing) => Err(missing),
        None => Ok(digest),
    })
}
