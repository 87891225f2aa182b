//! Folds events that continue in the same way into one run.

use rr_channel_log::{Event, Outcome};

use super::source::{kind, number, sender};

/// Events that follow each other: the same, or each with the next number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// The position of the first, from 0.
    pub(super) at: u64,
    pub(super) first: Event,
    pub(super) last: Event,
    pub(super) count: u64,
}

/// Makes runs of events.
#[derive(Debug, Default)]
pub(super) struct Fold {
    at: u64,
    open: Option<Run>,
}

impl Fold {
    /// Takes the next event; the run that it ends.
    pub(super) fn push(&mut self, event: Event) -> Option<Run> {
        let at = self.at;
        self.at += 1;
        if let Some(run) = &mut self.open
            && continues(run, &event)
        {
            run.last = event;
            run.count += 1;
            return None;
        }
        self.open.replace(Run {
            at,
            first: event,
            last: event,
            count: 1,
        })
    }

    /// The last run.
    pub(super) fn finish(self) -> Option<Run> {
        self.open
    }
}

fn continues(run: &Run, event: &Event) -> bool {
    let last = run.last;
    if (last.op, last.channel) != (event.op, event.channel)
        || kind(&last.outcome) != kind(&event.outcome)
        || sender(&last.outcome) != sender(&event.outcome)
    {
        return false;
    }
    match (number(&last.outcome), number(&event.outcome)) {
        (None, None) => last == *event,
        (Some(last), Some(next)) => {
            // The run's second event decides whether numbers grow or stay.
            let grows = number(&run.first.outcome) != Some(last);
            let step = match event.outcome {
                Outcome::Arm(_) | Outcome::Value(_) | Outcome::Failed { .. } => 0,
                _ if run.count == 1 || grows => 1,
                _ => 0,
            };
            last.checked_add(step) == Some(next)
        }
        _ => false,
    }
}

impl Run {
    /// The event, or the first with the last one's number.
    pub(super) fn text(&self) -> String {
        let first = self.first.to_string();
        match (number(&self.first.outcome), number(&self.last.outcome)) {
            (Some(from), Some(to)) if from != to => {
                // Written once, after the colon.
                let (head, tail) = first.split_once(": ").unwrap_or((&first, ""));
                let (from, to) = (from.to_string(), format!("{from}..{to}"));
                format!("{head}: {}", tail.replacen(&from, &to, 1))
            }
            _ => first,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rr_channel_log::Op;
    use rr_channel_log::identity::{ChannelId, ThreadId};

    fn event(op: Op, outcome: Outcome) -> Event {
        let channel = Some(ChannelId {
            creator: ThreadId(0),
            number: 1,
        });
        Event {
            op,
            channel,
            outcome,
        }
    }

    fn message(sender: u32, number: u64) -> Event {
        let sender = ThreadId(sender);
        event(Op::Recv, Outcome::Message { sender, number })
    }

    #[track_caller]
    fn check(events: &[Event], expected: &[&str]) {
        let mut fold = Fold::default();
        let mut runs: Vec<_> = events
            .iter()
            .filter_map(|event| fold.push(*event))
            .collect();
        runs.extend(fold.finish());
        let texts: Vec<_> = runs
            .iter()
            .map(|run| format!("{} {}x {}", run.at, run.count, run.text()))
            .collect();
        assert_eq!(texts, expected);
        assert_eq!(
            runs.iter().map(|run| run.count).sum::<u64>(),
            events.len() as u64
        );
    }

    #[test]
    fn messages_that_follow_each_other_are_one_run() {
        check(
            &[
                message(1, 7),
                message(1, 8),
                message(1, 9),
                message(1, 11),
                message(2, 12),
            ],
            &[
                "0 3x recv on t0.c1: message 7..9 of t1",
                "3 1x recv on t0.c1: message 11 of t1",
                "4 1x recv on t0.c1: message 12 of t2",
            ],
        );
    }

    #[test]
    fn equal_events_are_one_run() {
        let empty = event(Op::TryRecv, Outcome::Empty);
        let arm = event(Op::Select, Outcome::Arm(1));
        let len = event(Op::Len, Outcome::Value(3));
        let more = event(Op::Len, Outcome::Value(4));
        check(
            &[empty, empty, arm, arm, arm, len, len, more],
            &[
                "0 2x try_recv on t0.c1: empty",
                "2 3x select on t0.c1: arm 1",
                "5 2x len on t0.c1: 3",
                "7 1x len on t0.c1: 4",
            ],
        );
    }

    #[test]
    fn bytes_are_one_run_if_they_are_the_same() {
        let bytes = |bytes| Event {
            op: Op::Random,
            channel: None,
            outcome: Outcome::Bytes {
                len: 2,
                last: true,
                bytes,
            },
        };
        check(
            &[bytes(1), bytes(1), bytes(2)],
            &["0 2x getrandom: bytes 01 00", "2 1x getrandom: bytes 02 00"],
        );
    }

    #[test]
    fn a_number_that_stays_does_not_grow_later() {
        let turn = |ticket| {
            event(
                Op::Wait,
                Outcome::Woken {
                    sender: ThreadId(1),
                    number: ticket,
                },
            )
        };
        check(
            &[turn(2), turn(3), turn(3)],
            &[
                "0 2x wait on t0.l1: woken by notification 2..3 of t1",
                "2 1x wait on t0.l1: woken by notification 3 of t1",
            ],
        );
    }

    #[test]
    fn the_last_number_is_followed_by_none() {
        check(
            &[message(1, u64::MAX), message(1, 0)],
            &[
                "0 1x recv on t0.c1: message 18446744073709551615 of t1",
                "1 1x recv on t0.c1: message 0 of t1",
            ],
        );
    }
}
