//! Frames: the container of all stored data.
//!
//! A magic word of three bytes, a version byte, half a BLAKE3 digest of the rest,
//! the length of the body (8 bytes, little endian), and the body.
//!
//! **Invariant:** a damaged or truncated body is an error, whatever its bytes.

const CHECKSUM: usize = 16;
const LENGTH: usize = 8;
const MAGIC: usize = 3;
/// Start of the part covered by the checksum.
const CHECKED: usize = MAGIC + 1 + CHECKSUM;
/// Length of the part before a body (bytes).
pub(crate) const HEADER: usize = CHECKED + LENGTH;

/// Why bytes are no valid frame.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("not a cache entry")]
    Magic,
    #[error("an entry of version {0}")]
    Version(u8),
    #[error("a damaged entry: {0}")]
    Damaged(&'static str),
    #[error("a damaged entry: {0}")]
    Postcard(#[from] postcard::Error),
}

use DecodeError::Damaged;

/// A kind of frame.
pub(crate) struct Kind {
    pub(crate) magic: [u8; MAGIC],
    pub(crate) version: u8,
}

impl Kind {
    /// Prepends the header to a body.
    pub(crate) fn seal<E>(
        &self,
        body: impl FnOnce(Vec<u8>) -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, E> {
        let mut bytes = Vec::with_capacity(1024);
        bytes.extend_from_slice(&self.magic);
        bytes.push(self.version);
        bytes.extend_from_slice(&[0; HEADER - MAGIC - 1]);
        let mut bytes = body(bytes)?;
        let length = (bytes.len() - HEADER) as u64;
        bytes[CHECKED..HEADER].copy_from_slice(&length.to_le_bytes());
        let sum = blake3::hash(&bytes[CHECKED..]);
        bytes[CHECKED - CHECKSUM..CHECKED].copy_from_slice(&sum.as_bytes()[..CHECKSUM]);
        Ok(bytes)
    }

    /// Returns the length of the frame with this header, header included.
    ///
    /// # Errors
    /// Fails if no frame of this kind and version begins here.
    pub(crate) fn len(&self, header: &[u8]) -> Result<u64, DecodeError> {
        let header = header.get(..HEADER).ok_or(DecodeError::Magic)?;
        if header[..MAGIC] != self.magic {
            return Err(DecodeError::Magic);
        }
        if header[MAGIC] != self.version {
            return Err(DecodeError::Version(header[MAGIC]));
        }
        let mut length = [0; LENGTH];
        length.copy_from_slice(&header[CHECKED..]);
        u64::from_le_bytes(length)
            .checked_add(HEADER as u64)
            .ok_or(Damaged("its length is out of range"))
    }

    /// Checks a frame and returns its body.
    ///
    /// # Errors
    /// Returns its defect.
    pub(crate) fn unseal<'f>(&self, frame: &'f [u8]) -> Result<&'f [u8], DecodeError> {
        if self.len(frame)? != frame.len() as u64 {
            return Err(Damaged("its length differs"));
        }
        let sum = blake3::hash(&frame[CHECKED..]);
        if frame[CHECKED - CHECKSUM..CHECKED] != sum.as_bytes()[..CHECKSUM] {
            return Err(Damaged("its checksum differs"));
        }
        Ok(&frame[HEADER..])
    }
}
