//! The log's entry for an operation: a thread follows it, or leaves the log.

use rr_channel_log::identity::ChannelId;
use rr_channel_log::{Event, Op, Outcome};

use super::follow::{self, Next};
use super::operation::{Arm, Need, Plan};
use super::report::{Attempt, Cause};
use super::{Engine, ThreadId};
use crate::recorder::tag::Tag;

impl Engine {
    /// Returns the log's entry for `op`; the thread desynchronises if the entry is for another
    /// operation.
    pub(super) fn plan(&self, id: ThreadId, op: Op, arms: &[Arm<'_>]) -> Plan {
        let next = follow::next();
        if let (Some(tag), Next::Event(_) | Next::End | Next::Beyond) =
            (silent_send(op, arms), next)
        {
            return plan_silent(op, arms[0].id, tag);
        }
        let actual = Attempt {
            op,
            channel: channel_of(op, arms),
        };
        let cause = match next {
            Next::Live => return Plan::Native,
            Next::End => return Plan::EndOfLog,
            Next::Beyond => Cause::Beyond { actual },
            Next::Event(event) => {
                let matches = event.op == op && event.channel == actual.channel;
                if let Some(plan) = matches.then(|| plan_for(event, arms)).flatten() {
                    return plan;
                }
                Cause::Mismatch {
                    expected: event,
                    actual,
                }
            }
        };
        self.desync(id, cause);
        Plan::Native
    }

    /// The thread observes a number or truth value: the recorded one, if there is one.
    pub(super) fn recall_value(&self, id: ThreadId, op: Op, channel: ChannelId) -> Option<u64> {
        // Past the end of a log, observing is harmless: no waiting.
        let Next::Event(event) = follow::next() else {
            return None;
        };
        match event {
            Event {
                op: o,
                channel: Some(c),
                outcome: Outcome::Value(value),
            } if o == op && c == channel => {
                follow::advance();
                Some(value)
            }
            expected => {
                let actual = Attempt {
                    op,
                    channel: Some(channel),
                };
                self.desync(id, Cause::Mismatch { expected, actual });
                None
            }
        }
    }
}

/// The tag of an unbounded send, whose success is not logged.
const fn silent_send(op: Op, arms: &[Arm<'_>]) -> Option<Tag> {
    match (op, arms) {
        (Op::Send | Op::TrySend | Op::SendDeadline, [arm]) if !arm.flow.is_bounded() => arm.send,
        _ => None,
    }
}

/// Only a refusal is logged, under the number of the message refused.
fn plan_silent(op: Op, channel: ChannelId, tag: Tag) -> Plan {
    let event = Event {
        op,
        channel: Some(channel),
        outcome: Outcome::Refused {
            number: tag.number(),
        },
    };
    let refused = follow::shows(&event);
    Plan::Outcome {
        position: 0,
        need: if refused {
            Need::Refused
        } else {
            Need::Slot(None)
        },
        event: refused.then_some(event),
    }
}

/// The channel that an operation is on, if it is on one.
pub(super) const fn channel_of(op: Op, arms: &[Arm<'_>]) -> Option<ChannelId> {
    match (op, arms) {
        (
            Op::Select
            | Op::TrySelect
            | Op::SelectDeadline
            | Op::Ready
            | Op::TryReady
            | Op::ReadyDeadline,
            _,
        )
        | (_, []) => None,
        (_, [arm, ..]) => Some(arm.id),
    }
}

/// The plan of an event that matches the operation; `None` if it does not match after all.
fn plan_for(event: Event, arms: &[Arm<'_>]) -> Option<Plan> {
    let need_of = |outcome| match outcome {
        Outcome::Message { sender, number } => Some(Need::Message(Tag::new(sender, number))),
        Outcome::Tick => Some(Need::Tick),
        Outcome::Sent { slot } => Some(Need::Slot(Some(slot))),
        Outcome::Refused { .. } => Some(Need::Refused),
        Outcome::Disconnected => Some(Need::Disconnected),
        _ => None,
    };
    let (position, need) = match event.outcome {
        Outcome::Empty | Outcome::Full | Outcome::NoArm => return Some(Plan::Nothing),
        Outcome::Timeout => return Some(Plan::Expire(event)),
        Outcome::Arm(index) => {
            let position = arms.iter().position(|arm| arm.index == index as usize)?;
            if matches!(event.op, Op::Ready | Op::TryReady | Op::ReadyDeadline) {
                (position, Need::Ready)
            } else {
                // Cut off between selection and completion: the log ends here.
                let Some(completion) = follow::completion() else {
                    return Some(Plan::EndOfLog);
                };
                if completion.channel != Some(arms[position].id) {
                    return None;
                }
                (position, need_of(completion.outcome)?)
            }
        }
        outcome => (0, need_of(outcome)?),
    };
    Some(Plan::Outcome {
        position,
        need,
        event: Some(event),
    })
}
