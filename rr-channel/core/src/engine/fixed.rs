//! Outcomes that are bytes: logged as they are, and given again in a replay.

use rr_channel_log::{Event, Op, Outcome};

use crate::engine::context;
use crate::engine::fork;
use crate::engine::session::{Session, session};

/// Bytes, or the number of the error that there was instead.
pub type Fixed = Result<Vec<u8>, u64>;

/// Returns what `accept` makes of the entry for `op` in the calling thread's log. `None` if the
/// log has no entry. If it is not accepted, the thread leaves its log.
pub fn recall<R>(op: Op, accept: impl FnOnce(Fixed) -> Option<R>) -> Option<R> {
    match session() {
        Session::Replay(engine) if !fork::is_fork() => engine.recall_bytes(op, accept),
        _ => None,
    }
}

/// Returns the recorded bytes for the calling thread's draw by `op`, of `length` bytes. `is_early`
/// if the caller is the main thread before its first use of this crate.
pub fn draw(op: Op, length: usize, is_early: bool) -> Option<Fixed> {
    match session() {
        Session::Replay(engine) if !fork::is_fork() => engine.draw(op, length, is_early),
        _ => None,
    }
}

/// Whether the outcome of an operation is logged.
pub fn is_logged() -> bool {
    !fork::is_fork() && session().recorder().is_some()
}

/// Logs the outcome of `op`, where the calling thread records.
#[track_caller]
pub fn log(op: Op, fixed: Result<&[u8], u64>) {
    match fixed {
        Err(code) => log_outcome(op, Outcome::Failed { code }),
        Ok(bytes) => {
            // No closure, which would hide where this was called from.
            for piece in Outcome::pieces(bytes) {
                log_outcome(op, piece);
            }
        }
    }
}

#[track_caller]
fn log_outcome(op: Op, outcome: Outcome) {
    context::log(Event {
        op,
        channel: None,
        outcome,
    });
}
