//! The header that a thread's log and its reads of clocks begin with.

use std::ops::RangeInclusive;

use super::error::LogError;
use crate::format::{CHECKSUM_AT, FLAGS_AT, HEADER_LEN, SEALED, STATE_AT, checksum};
use crate::identity::ThreadId;

/// A header whose kind and version are known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header<'a>(&'a [u8; HEADER_LEN]);

impl<'a> Header<'a> {
    /// The header of a file, and what follows it.
    ///
    /// # Errors
    /// If the file is of another kind or version.
    pub(super) fn split(
        bytes: &'a [u8],
        magic: [u8; 7],
        versions: RangeInclusive<u8>,
    ) -> Result<(Self, &'a [u8]), LogError> {
        let (header, rest) = bytes.split_first_chunk().ok_or(LogError::NotALog)?;
        let header = Header(header);
        if header.0[..7] != magic {
            return Err(LogError::NotALog);
        }
        let found = header.0[7];
        if !versions.contains(&found) {
            return Err(LogError::Version { found });
        }
        Ok((header, rest))
    }

    pub(super) fn u32_at(self, at: usize) -> u32 {
        u32::from_le_bytes([0, 1, 2, 3].map(|i| self.0[at + i]))
    }

    pub(super) fn u64_at(self, at: usize) -> u64 {
        u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| self.0[at + i]))
    }

    /// The thread whose file it is.
    pub(super) fn thread(self) -> Result<ThreadId, LogError> {
        let thread = self.u32_at(8);
        if thread >= ThreadId::LIMIT {
            return Err(LogError::Header("impossible thread number"));
        }
        Ok(ThreadId(thread))
    }

    /// The committed bytes at the beginning of `room`, which match their checksum if there is one.
    pub(super) fn body(self, room: &'a [u8]) -> Result<&'a [u8], LogError> {
        let len = self.u64_at(STATE_AT) >> 24;
        let body = usize::try_from(len)
            .ok()
            .and_then(|len| room.get(..len))
            .ok_or(LogError::Truncated {
                promised: len,
                found: room.len() as u64,
            })?;
        if self.is_sealed() && checksum(body) != self.u64_at(CHECKSUM_AT) {
            return Err(LogError::Checksum);
        }
        Ok(body)
    }

    /// Whether the thread ended, and the file was closed.
    pub(super) fn is_sealed(self) -> bool {
        self.u32_at(FLAGS_AT) & SEALED != 0
    }
}
