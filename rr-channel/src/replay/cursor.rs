//! One thread's place in its log.

use std::collections::VecDeque;

use crate::log::{Event, Events, Op, ThreadLog};

/// Hands out a thread's events in order, with lookahead.
#[derive(Debug)]
pub(super) struct Cursor {
    events: Events,
    ahead: VecDeque<Event>,
    consumed: u64,
    total: u64,
    /// Whether the thread is known to have done nothing after its last event.
    complete: bool,
}

impl Cursor {
    /// A cursor before the first of the log's `total` events.
    pub(super) fn new(log: &ThreadLog, total: u64) -> Self {
        let complete = log.is_sealed() && !log.is_incomplete();
        Cursor {
            events: log.events(),
            ahead: VecDeque::new(),
            consumed: 0,
            total,
            complete,
        }
    }

    /// The event `distance` after the next one.
    pub(super) fn peek(&mut self, distance: usize) -> Option<Event> {
        while self.ahead.len() <= distance {
            // Logs are read through when they are loaded: no errors are left.
            self.ahead.push_back(self.events.next()?.ok()?);
        }
        Some(self.ahead[distance])
    }

    /// Moves past the next event.
    pub(super) fn advance(&mut self) {
        if self.peek(0).is_some() {
            self.ahead.pop_front();
            self.consumed += 1;
        }
    }

    /// The event that completes the selection that comes next: the operation's own
    /// outcome. Between the two lie the events of whatever the program did while
    /// it made the message, further selections included.
    pub(super) fn completion(&mut self) -> Option<Event> {
        let mut open = 0;
        for distance in 0.. {
            let event = self.peek(distance)?;
            match event.op {
                Op::Select | Op::TrySelect | Op::SelectDeadline
                    if matches!(event.outcome, crate::log::Outcome::Arm(_)) =>
                {
                    open += 1;
                }
                Op::SelectedSend | Op::SelectedRecv => {
                    open -= 1;
                    if open == 0 {
                        return Some(event);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Events passed so far, which is also the next one's number.
    pub(super) const fn consumed(&self) -> u64 {
        self.consumed
    }

    /// All events of the log.
    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// Whether the recorded thread is known to have ended after its last event.
    pub(super) const fn is_complete(&self) -> bool {
        self.complete
    }
}
