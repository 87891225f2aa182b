//! The recorded threads' reads of clocks, at their positions in their logs.

use std::collections::VecDeque;

use rr_channel_log::identity::ThreadId;
use rr_channel_log::{Clock, ClockLog, ClockRead, ClockReads, LogError};
use rustc_hash::FxHashMap;

use crate::engine::shown::Shown;

/// The reads of all threads, until these appear.
#[derive(Debug, Default)]
pub struct Clocks {
    threads: FxHashMap<ThreadId, ClockCursor>,
    first: [Option<i64>; Clock::COUNT],
}

impl Clocks {
    /// Takes over what `thread` has read.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn collect(&mut self, thread: ThreadId, log: &ClockLog) -> Result<(), LogError> {
        for read in log.reads() {
            let read = read?;
            let first = &mut self.first[read.clock.number()];
            *first = Some(first.map_or(read.nanoseconds, |first| first.min(read.nanoseconds)));
        }
        self.threads.insert(thread, ClockCursor::new(log.reads()));
        Ok(())
    }

    /// The least that each clock shows.
    pub const fn first(&self) -> [Option<i64>; Clock::COUNT] {
        self.first
    }

    /// The reads of a thread that appears.
    pub(super) fn of(&mut self, thread: ThreadId) -> Option<ClockCursor> {
        self.threads.remove(&thread)
    }

    /// The time for a thread that has not appeared, and may never do.
    pub(super) fn read_early(
        &mut self,
        thread: ThreadId,
        clock: Clock,
        site: u64,
    ) -> Option<Shown> {
        Some(self.threads.get_mut(&thread)?.read(clock, site, 0))
    }
}

/// Recorded reads of one clock at one site.
#[derive(Debug)]
struct Reads {
    clock: Clock,
    site: u64,
    /// Each with its number among all reads of the thread.
    left: VecDeque<(u64, i64)>,
}

/// The remaining reads of a thread.
#[derive(Debug)]
pub struct ClockCursor {
    reads: ClockReads,
    next: Option<ClockRead>,
    /// How many reads were taken from the log.
    taken: u64,
    /// The thread's position when it last read a clock.
    position: u64,
    /// The recorded reads there that are left.
    here: Vec<Reads>,
}

impl ClockCursor {
    /// A cursor before the first of `reads`.
    pub(super) fn new(mut reads: ClockReads) -> Self {
        // Files are read through when they are loaded: no errors are left.
        let next = reads.next().and_then(Result::ok);
        ClockCursor {
            reads,
            next,
            taken: 0,
            position: 0,
            here: Vec::new(),
        }
    }

    /// The time for a thread at `position` that reads `clock` at `site`.
    pub(crate) fn read(&mut self, clock: Clock, site: u64, position: u64) -> Shown {
        let mut passed = None;
        if position > self.position {
            self.position = position;
            let left = self.here.iter().filter(|reads| reads.clock == clock);
            let last = left.filter_map(|reads| reads.left.back()).max();
            passed = last.map(|(_, time)| *time);
            self.here.clear();
            while let Some(read) = self.take(|next| next.position < position) {
                if read.clock == clock {
                    passed = Some(read.nanoseconds);
                }
            }
        }
        let left = self.here.iter_mut();
        let mut left = left.filter(|reads| (reads.clock, reads.site) == (clock, site));
        if let Some((_, time)) = left.next().and_then(|reads| reads.left.pop_front()) {
            return Shown::Recorded(time);
        }
        while let Some(read) = self.take(|next| next.position <= position) {
            if (read.clock, read.site) == (clock, site) {
                return Shown::Recorded(read.nanoseconds);
            }
            self.put_here(&read);
        }
        let next = self.next.filter(|next| next.clock == clock);
        Shown::Between {
            passed,
            next: next.map(|next| next.nanoseconds),
        }
    }

    fn put_here(&mut self, read: &ClockRead) {
        let entry = (self.taken, read.nanoseconds);
        let mut known = self.here.iter_mut();
        match known.find(|reads| (reads.clock, reads.site) == (read.clock, read.site)) {
            Some(reads) => reads.left.push_back(entry),
            None => self.here.push(Reads {
                clock: read.clock,
                site: read.site,
                left: VecDeque::from([entry]),
            }),
        }
    }

    fn take(&mut self, if_so: impl FnOnce(&ClockRead) -> bool) -> Option<ClockRead> {
        let read = self.next.filter(if_so)?;
        self.next = self.reads.next().and_then(Result::ok);
        self.taken += 1;
        Some(read)
    }
}

#[cfg(test)]
mod tests {
    use rr_channel_log::ClockWriter;

    use super::*;

    const DAY: Clock = Clock::Realtime;
    const MONOTONIC: Clock = Clock::Monotonic;

    /// One of reads by position, clock and time, all at one site.
    fn cursor(reads: &[(u64, Clock, i64)]) -> ClockCursor {
        let reads = reads
            .iter()
            .map(|(position, clock, time)| (*position, *clock, 5, *time));
        cursor_at(&reads.collect::<Vec<_>>())
    }

    /// The same, with sites.
    fn cursor_at(reads: &[(u64, Clock, u64, i64)]) -> ClockCursor {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("clocks");
        let mut writer = ClockWriter::create(&path, ThreadId(0)).unwrap();
        for (position, clock, site, nanoseconds) in reads {
            let read = ClockRead {
                position: *position,
                clock: *clock,
                site: *site,
                nanoseconds: *nanoseconds,
            };
            writer.push(&read).unwrap();
        }
        writer.seal().unwrap();
        let log = ClockLog::from_bytes(&std::fs::read(path).unwrap()).unwrap();
        ClockCursor::new(log.reads())
    }

    #[test]
    fn reads_are_shown_where_they_were_made() {
        let mut cursor = cursor(&[(0, MONOTONIC, 10), (0, MONOTONIC, 11), (2, MONOTONIC, 20)]);
        assert_eq!(cursor.read(MONOTONIC, 5, 0), Shown::Recorded(10));
        assert_eq!(cursor.read(MONOTONIC, 5, 0), Shown::Recorded(11));
        assert_eq!(cursor.read(MONOTONIC, 5, 2), Shown::Recorded(20));
        let none = Shown::Between {
            passed: None,
            next: None,
        };
        assert_eq!(cursor.read(MONOTONIC, 5, 2), none);
    }

    #[test]
    fn a_read_too_many_lies_between_two() {
        let mut cursor = cursor(&[(0, MONOTONIC, 10), (2, MONOTONIC, 20)]);
        cursor.read(MONOTONIC, 5, 0);
        let before = Shown::Between {
            passed: None,
            next: Some(20),
        };
        assert_eq!(cursor.read(MONOTONIC, 5, 0), before);
        assert_eq!(cursor.read(MONOTONIC, 5, 1), before);
        assert_eq!(cursor.read(MONOTONIC, 5, 2), Shown::Recorded(20));
    }

    #[test]
    fn reads_that_are_not_made_are_passed() {
        let mut cursor = cursor(&[
            (0, MONOTONIC, 10),
            (0, MONOTONIC, 11),
            (1, MONOTONIC, 15),
            (3, MONOTONIC, 20),
        ]);
        assert_eq!(cursor.read(MONOTONIC, 5, 0), Shown::Recorded(10));
        let after = Shown::Between {
            passed: Some(15),
            next: Some(20),
        };
        assert_eq!(cursor.read(MONOTONIC, 5, 2), after);
        assert_eq!(cursor.read(MONOTONIC, 5, 3), Shown::Recorded(20));
    }

    #[test]
    fn clocks_are_read_in_any_order() {
        let mut cursor = cursor(&[(0, MONOTONIC, 10), (0, DAY, 100), (0, MONOTONIC, 11)]);
        assert_eq!(cursor.read(DAY, 5, 0), Shown::Recorded(100));
        assert_eq!(cursor.read(MONOTONIC, 5, 0), Shown::Recorded(10));
        assert_eq!(cursor.read(MONOTONIC, 5, 0), Shown::Recorded(11));
    }

    #[test]
    fn a_read_of_other_code_is_left_to_it() {
        let mut cursor = cursor_at(&[
            (0, MONOTONIC, 5, 10),
            (0, MONOTONIC, 6, 11),
            (0, MONOTONIC, 5, 12),
        ]);
        assert_eq!(cursor.read(MONOTONIC, 6, 0), Shown::Recorded(11));
        assert_eq!(cursor.read(MONOTONIC, 5, 0), Shown::Recorded(10));
        let none = Shown::Between {
            passed: None,
            next: None,
        };
        assert_eq!(cursor.read(MONOTONIC, 6, 0), none);
        assert_eq!(cursor.read(MONOTONIC, 5, 0), Shown::Recorded(12));
    }
}
