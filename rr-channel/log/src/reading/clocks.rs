//! Reads what a thread read from clocks, from any bytes, damaged ones too.
//!
//! **Invariant:** as in [`thread_log`](super::thread_log): no input makes this module panic, loop
//! without end per byte read, or allocate more than in proportion to the file's size.

use std::sync::Arc;

use super::error::LogError;
use super::header::Header;
use crate::clock::{Clock, ClockRead};
use crate::format::{CLOCKS_MAGIC, CLOCKS_VERSION};
use crate::identity::ThreadId;
use crate::prediction::{take_varint, unzigzag};

/// One thread's reads of clocks, header checked, reads still packed.
#[derive(Debug, Clone)]
pub struct ClockLog {
    thread: ThreadId,
    body: Arc<[u8]>,
}

impl ClockLog {
    /// Reads them from memory.
    ///
    /// # Errors
    /// If the bytes are no such file of this version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LogError> {
        let versions = CLOCKS_VERSION..=CLOCKS_VERSION;
        let (header, rest) = Header::split(bytes, CLOCKS_MAGIC, versions)?;
        Ok(ClockLog {
            thread: header.thread()?,
            body: header.body(rest)?.into(),
        })
    }

    /// The thread's number within its recording.
    pub const fn thread(&self) -> ThreadId {
        self.thread
    }

    /// The reads in order. After an error there are no more.
    pub fn reads(&self) -> ClockReads {
        ClockReads {
            body: Arc::clone(&self.body),
            at: 0,
            read: 0,
            before: Before {
                position: 0,
                site: 0,
                last: [0; Clock::COUNT],
            },
        }
    }
}

/// The reads of a [`ClockLog`], unpacked one by one.
#[derive(Debug, Clone)]
pub struct ClockReads {
    body: Arc<[u8]>,
    at: usize,
    read: u64,
    before: Before,
}

/// The last read, which the next one is relative to.
#[derive(Debug, Clone)]
struct Before {
    position: u64,
    site: u64,
    last: [i64; Clock::COUNT],
}

impl Iterator for ClockReads {
    type Item = Result<ClockRead, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut input = self.body.get(self.at..)?;
        if input.is_empty() {
            return None;
        }
        let Some(read) = self.before.unpack(&mut input) else {
            let at = std::mem::replace(&mut self.at, self.body.len());
            let events = self.read;
            return Some(Err(LogError::Body { at, events }));
        };
        self.at = self.body.len() - input.len();
        self.read += 1;
        Some(Ok(read))
    }
}

impl Before {
    fn unpack(&mut self, input: &mut &[u8]) -> Option<ClockRead> {
        let token = take_varint(input)?;
        let clock = Clock::new((token & 15) as i32)?;
        self.position = self.position.checked_add(token >> 5)?;
        if token & 16 != 0 {
            self.site = take_varint(input)?;
        }
        let last = &mut self.last[clock.number()];
        *last = last.wrapping_add(unzigzag(take_varint(input)?));
        Some(ClockRead {
            position: self.position,
            clock,
            site: self.site,
            nanoseconds: *last,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{HEADER_LEN, STATE_AT};
    use crate::writing::ClockWriter;
    use proptest::prelude::*;

    fn written(reads: &[ClockRead], seal: bool) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("clocks");
        let mut writer = ClockWriter::create(&path, ThreadId(7)).unwrap();
        for read in reads {
            writer.push(read).unwrap();
        }
        if seal {
            writer.seal().unwrap();
        }
        std::fs::read(path).unwrap()
    }

    fn reads() -> impl Strategy<Value = Vec<ClockRead>> {
        let gap = prop_oneof![6 => 0..3_u64, 1 => 0..(1_u64 << 49)];
        let clock = prop::sample::select(&Clock::ALL);
        let read = (gap, clock, 0..4_u64, any::<i64>());
        prop::collection::vec(read, 0..500).prop_map(|reads| {
            let mut position = 0;
            let read = |(gap, clock, site, nanoseconds)| {
                position += gap;
                ClockRead {
                    position,
                    clock,
                    site,
                    nanoseconds,
                }
            };
            reads.into_iter().map(read).collect()
        })
    }

    #[test]
    fn a_read_shortly_after_another_takes_three_bytes() {
        let clock = Clock::Monotonic;
        let reads: Vec<_> = (0..10_000)
            .map(|n| ClockRead {
                position: n,
                clock,
                site: 0,
                nanoseconds: 50 * n as i64,
            })
            .collect();
        let bytes = written(&reads, true);
        assert!(bytes.len() <= HEADER_LEN + 3 * reads.len());
    }

    #[test]
    fn a_file_of_another_kind_or_version_is_refused() {
        let mut bytes = written(&[], true);
        bytes[7] = CLOCKS_VERSION + 1;
        let error = ClockLog::from_bytes(&bytes).unwrap_err();
        assert!(matches!(error, LogError::Version { .. }));
        bytes[0] = 0;
        let error = ClockLog::from_bytes(&bytes).unwrap_err();
        assert!(matches!(error, LogError::NotALog));
    }

    proptest! {
        #[test]
        fn reads_read_back(reads in reads(), seal in any::<bool>()) {
            let log = ClockLog::from_bytes(&written(&reads, seal)).unwrap();
            prop_assert_eq!(log.thread(), ThreadId(7));
            let back: Result<Vec<_>, _> = log.reads().collect();
            prop_assert_eq!(back.unwrap(), reads);
        }

        #[test]
        fn any_body_is_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut bytes = written(&[], false);
            bytes.truncate(HEADER_LEN);
            bytes[STATE_AT..STATE_AT + 8].copy_from_slice(&((body.len() as u64) << 24).to_le_bytes());
            bytes.extend(&body);
            let log = ClockLog::from_bytes(&bytes).unwrap();
            prop_assert!(log.reads().count() <= body.len());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(log) = ClockLog::from_bytes(&bytes) {
                log.reads().for_each(drop);
            }
        }
    }
}
