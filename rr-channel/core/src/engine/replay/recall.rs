//! Outcomes that are bytes, read from the log.

use rr_channel_log::identity::Dti;
use rr_channel_log::{Event, Op, Outcome};

use super::Engine;
use super::follow;
use super::lock_order::Next;
use super::report::{Attempt, Cause};
use crate::engine::context;
use crate::engine::executor;
use crate::engine::fixed::Fixed;
use crate::platform::lock::lock;
use crate::recorder::names::Who;
use crate::recorder::process::complain;

impl Engine {
    /// Returns what `accept` makes of the bytes, or the error, that the calling thread's log has
    /// for `op`. `None` if the log has none, or if they are not accepted; the thread is live then.
    pub fn recall_bytes<R>(&self, op: Op, accept: impl FnOnce(Fixed) -> Option<R>) -> Option<R> {
        let id = context::thread_or_last();
        // At the end of an unfinished log, there is no reason to wait.
        let Next::Event(expected) = self.next_event(id, op, None) else {
            return None;
        };
        let mut all = Vec::new();
        let pieces = follow::pieces(op);
        for event in &pieces {
            match event.outcome {
                Outcome::Bytes { len, bytes, .. } => {
                    all.extend_from_slice(&bytes.to_le_bytes()[..usize::from(len.min(8))]);
                }
                Outcome::Failed { code } => {
                    let result = accept(Err(code));
                    return self.settle(op, expected, 1, result);
                }
                // The log of a program that did something else.
                _ => return self.settle(op, expected, 0, None),
            }
        }
        match pieces.last()?.outcome {
            Outcome::Bytes { last: true, .. } => {
                let result = accept(Ok(all));
                self.settle(op, expected, pieces.len(), result)
            }
            // The process died when it wrote them.
            _ => {
                self.lock().thread(id).place.go_live();
                follow::sync();
                None
            }
        }
    }

    /// Returns `length` of the recording's random bytes for the calling thread; `None` if there
    /// are none left. `is_early` if it is the main thread before it has registered, which it may
    /// never do. The main thread then gets only its own bytes. So do the threads of an executor,
    /// because there may be more of them than in the recording.
    pub fn draw(&self, op: Op, length: usize, is_early: bool) -> Option<Fixed> {
        if is_early {
            let (id, _) = lock(&self.names).intern(Who::Known(Dti::main()));
            return lock(&self.draws).take_own(id, op, length);
        }
        let id = context::thread_or_last();
        let mut draws = lock(&self.draws);
        if executor::is_serving() {
            return draws.take_own(id, op, length);
        }
        let draw = draws.take(id, op, length);
        if draw.is_none() && !std::mem::replace(&mut draws.exceeded, true) {
            drop(draws);
            complain(&"the program drew random bytes that the recording does not have");
        }
        draw
    }

    /// Moves past `count` events if they gave a result, and out of the log if not.
    fn settle<R>(&self, op: Op, expected: Event, count: usize, result: Option<R>) -> Option<R> {
        if result.is_some() {
            (0..count).for_each(|_| follow::advance());
        } else {
            let actual = Attempt { op, channel: None };
            let cause = Cause::Mismatch { expected, actual };
            self.desync(context::thread_or_last(), cause);
        }
        result
    }
}
