//! The rest of one thread's log.

use std::collections::VecDeque;

use rr_channel_log::{Ahead, Event, Events, Op, Outcome, ThreadLog};

/// The remaining events of a thread.
#[derive(Debug)]
pub struct Cursor {
    events: Events,
    /// Events that were looked at in advance.
    early: VecDeque<Event>,
    total: u64,
    complete: bool,
}

impl Cursor {
    /// A cursor before the first of the log's `total` events, without those that are
    /// [apart](Op::is_apart).
    pub(super) fn new(log: &ThreadLog, total: u64) -> Self {
        Cursor {
            events: log.events(),
            early: VecDeque::new(),
            total,
            complete: log.is_sealed() && !log.is_incomplete(),
        }
    }

    /// Moves the next events into `ahead`, which has none left.
    pub(super) fn unpack(&mut self, ahead: &Ahead) {
        match self.early.pop_front() {
            Some(event) => ahead.show(&event),
            None => ahead.unpack(&mut self.events),
        }
    }

    /// The event `distance` after the next one.
    fn peek(&mut self, distance: usize) -> Option<Event> {
        while self.early.len() <= distance {
            // Logs are read through when they are loaded: no errors are left.
            let event = self.events.next()?.ok()?;
            if !event.op.is_apart() {
                self.early.push_back(event);
            }
        }
        Some(self.early[distance])
    }

    /// The event that completes the next selection: the operation's own outcome. Between the two
    /// lie the events of the program's code that made the message, further selections included.
    pub(super) fn completion(&mut self, ahead: &Ahead) -> Option<Event> {
        let mut open = 0;
        let mut completes = |event: Event| {
            match event.op {
                Op::Select | Op::TrySelect | Op::SelectDeadline
                    if matches!(event.outcome, Outcome::Arm(_)) =>
                {
                    open += 1;
                }
                Op::SelectedSend | Op::SelectedRecv => open -= 1,
                _ => return false,
            }
            open == 0
        };
        if let Some(event) = ahead.events().find(|event| completes(*event)) {
            return Some(event);
        }
        for distance in 0.. {
            let event = self.peek(distance)?;
            if completes(event) {
                return Some(event);
            }
        }
        None
    }

    /// The events of `op` that come next, up to one that nothing belongs to that follows.
    pub(super) fn pieces(&mut self, ahead: &Ahead, op: Op) -> Vec<Event> {
        let mut pieces: Vec<Event> = Vec::new();
        let mut take = |event: Event| {
            let is_open = pieces
                .last()
                .is_none_or(|event| matches!(event.outcome, Outcome::Bytes { last: false, .. }));
            let is_next = is_open && event.op == op;
            if is_next {
                pieces.push(event);
            }
            is_next
        };
        if ahead.events().all(&mut take) {
            for distance in 0.. {
                if !self.peek(distance).is_some_and(&mut take) {
                    break;
                }
            }
        }
        pieces
    }

    /// All events of the log.
    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// Whether the recorded thread is known to have done nothing after its last event.
    pub(super) const fn is_complete(&self) -> bool {
        self.complete
    }
}
