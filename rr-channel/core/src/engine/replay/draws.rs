//! The random bytes of a recording, for the threads that ask for them.
//!
//! A thread is given its own draws, in their order. But some are drawn once for all threads (the
//! seed behind a static, say), by the thread that happens to come first. Operations that are not
//! recorded may decide which thread that is. So a thread that draws more than in the recording is
//! given another thread's draw of the same kind.

use std::collections::{BTreeMap, VecDeque};

use rr_channel_log::identity::ThreadId;
use rr_channel_log::{Event, Op, Outcome};
use rustc_hash::FxHashMap;

use crate::engine::fixed::Fixed;

/// A draw: its operation, and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Draw {
    op: Op,
    fixed: Fixed,
}

impl Draw {
    fn is_for(&self, op: Op, length: usize) -> bool {
        let fits = self.fixed.as_ref().is_ok_and(|bytes| bytes.len() == length);
        self.op == op && (fits || self.fixed.is_err())
    }
}

/// The remaining draws of all threads.
#[derive(Debug, Default)]
pub struct Draws {
    threads: BTreeMap<ThreadId, VecDeque<Draw>>,
    /// The beginnings of draws, while their events are collected.
    open: FxHashMap<ThreadId, Vec<u8>>,
    /// Whether a thread drew more than the recording has.
    pub(super) exceeded: bool,
}

impl Draws {
    /// Takes over an event of a thread's log that is [apart](Op::is_apart).
    pub fn collect(&mut self, thread: ThreadId, event: &Event) {
        let fixed = match event.outcome {
            Outcome::Bytes { len, last, bytes } => {
                let open = self.open.entry(thread).or_default();
                open.extend_from_slice(&bytes.to_le_bytes()[..usize::from(len.min(8))]);
                if !last {
                    return;
                }
                Ok(std::mem::take(open))
            }
            Outcome::Failed { code } => Err(code),
            _ => return,
        };
        let draw = Draw {
            op: event.op,
            fixed,
        };
        self.threads.entry(thread).or_default().push_back(draw);
    }

    /// Takes a draw of `length` bytes by `op` for `thread`: one of its own, or else another
    /// thread's.
    pub(super) fn take(&mut self, thread: ThreadId, op: Op, length: usize) -> Option<Fixed> {
        self.take_own(thread, op, length).or_else(|| {
            let threads: Vec<_> = self.threads.keys().copied().collect();
            let mut others = threads.into_iter();
            others.find_map(|other| self.take_own(other, op, length))
        })
    }

    /// Takes a draw of `length` bytes by `op` from those of `thread` itself.
    pub(super) fn take_own(&mut self, thread: ThreadId, op: Op, length: usize) -> Option<Fixed> {
        let draws = self.threads.get_mut(&thread)?;
        let at = draws.iter().position(|draw| draw.is_for(op, length))?;
        draws.remove(at).map(|draw| draw.fixed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(of: &[(u32, Op, &[u8])]) -> Draws {
        let mut draws = Draws::default();
        for (thread, op, bytes) in of {
            for outcome in Outcome::pieces(bytes) {
                let event = Event {
                    op: *op,
                    channel: None,
                    outcome,
                };
                draws.collect(ThreadId(*thread), &event);
            }
        }
        draws
    }

    #[test]
    fn a_thread_gets_its_own_draws_first() {
        let mut draws = draws(&[
            (0, Op::Random, &[1; 16]),
            (1, Op::Random, &[2; 16]),
            (1, Op::Random, &[3; 16]),
        ]);
        let mut take = |thread| draws.take(ThreadId(thread), Op::Random, 16);
        assert_eq!(take(1), Some(Ok(vec![2; 16])));
        assert_eq!(take(1), Some(Ok(vec![3; 16])));
        assert_eq!(take(1), Some(Ok(vec![1; 16])));
        assert_eq!(take(1), None);
    }

    #[test]
    fn draws_of_another_kind_are_left() {
        let mut draws = draws(&[(0, Op::RandomSeed, &[1; 16]), (0, Op::Random, &[2; 9])]);
        let mut take = |op, length| draws.take(ThreadId(0), op, length);
        assert_eq!(take(Op::Random, 16), None);
        assert_eq!(take(Op::Random, 9), Some(Ok(vec![2; 9])));
        assert_eq!(take(Op::RandomSeed, 16), Some(Ok(vec![1; 16])));
    }

    #[test]
    fn a_truncated_draw_is_ignored() {
        let mut draws = Draws::default();
        let event = Event {
            op: Op::Random,
            channel: None,
            outcome: Outcome::Bytes {
                len: 8,
                last: false,
                bytes: 7,
            },
        };
        draws.collect(ThreadId(0), &event);
        assert_eq!(draws.take(ThreadId(0), Op::Random, 8), None);
    }
}
