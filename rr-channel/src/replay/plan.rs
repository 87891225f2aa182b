//! What the log says about an operation: a thread follows it, or leaves it.

use super::operation::{Arm, Need, Plan};
use super::report::{Attempt, Cause};
use super::world::{Thread, World};
use crate::identity::{ChannelId, ThreadId};
use crate::log::{Event, Op, Outcome};
use crate::tag::Tag;

impl World {
    /// What the log says about `op`; the thread desynchronises if it says other.
    pub(super) fn plan(&mut self, id: ThreadId, op: Op, arms: &[Arm]) -> Plan {
        self.steps += 1;
        if self.thread(id).live {
            return Plan::Native;
        }
        let silent = self.is_silent_send(op, arms);
        let thread = self.thread(id);
        let next = thread.cursor.as_mut().and_then(|cursor| cursor.peek(0));
        if let Some(tag) = silent {
            // Only a refusal is logged, under the number of the message refused.
            let refused = next.is_some_and(|event| {
                event.op == op
                    && event.channel == Some(arms[0].id)
                    && event.outcome
                        == Outcome::Refused {
                            number: tag.number(),
                        }
            });
            let need = if refused {
                Need::Refused
            } else {
                Need::Slot(None)
            };
            return Plan::Outcome {
                position: 0,
                need,
                logged: refused,
            };
        }
        let actual = Attempt {
            op,
            channel: channel_of(op, arms),
        };
        let Some(event) = next else {
            return match &thread.cursor {
                Some(cursor) if cursor.is_complete() => {
                    self.desync(id, Cause::Beyond { actual });
                    Plan::Native
                }
                _ => Plan::EndOfLog,
            };
        };
        let matches = event.op == op && event.channel == actual.channel;
        let plan = if matches {
            plan_for(thread, event, arms)
        } else {
            None
        };
        plan.unwrap_or_else(|| {
            self.desync(
                id,
                Cause::Mismatch {
                    expected: event,
                    actual,
                },
            );
            Plan::Native
        })
    }

    /// The thread observes a number or truth value: the recorded one, if there is one.
    pub(super) fn recall(&mut self, id: ThreadId, op: Op, channel: ChannelId) -> Option<u64> {
        self.steps += 1;
        let thread = self.thread(id);
        if thread.live {
            return None;
        }
        let cursor = thread.cursor.as_mut()?;
        // Past the end of an unfinished log, observing is harmless: no waiting.
        let event = cursor.peek(0)?;
        match event {
            Event {
                op: o,
                channel: Some(c),
                outcome: Outcome::Value(value),
            } if o == op && c == channel => {
                cursor.advance();
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

    /// The thread completes a selection: it moves past that event.
    pub(super) fn complete(&mut self, id: ThreadId, op: Op, channel: ChannelId) {
        self.steps += 1;
        let thread = self.thread(id);
        if thread.live {
            return;
        }
        let Some(cursor) = thread.cursor.as_mut() else {
            return;
        };
        match cursor.peek(0) {
            Some(event) if event.op == op && event.channel == Some(channel) => cursor.advance(),
            Some(expected) => {
                let actual = Attempt {
                    op,
                    channel: Some(channel),
                };
                self.desync(id, Cause::Mismatch { expected, actual });
            }
            None => {}
        }
    }

    /// The tag of an unbounded send, whose success is not logged.
    fn is_silent_send(&self, op: Op, arms: &[Arm]) -> Option<Tag> {
        match (op, arms) {
            (Op::Send | Op::TrySend | Op::SendDeadline, [Arm { chan, send, .. }])
                if self.chans[chan.0].capacity.is_none() =>
            {
                *send
            }
            _ => None,
        }
    }
}

const fn channel_of(op: Op, arms: &[Arm]) -> Option<ChannelId> {
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

/// What an event that matches the operation says; `None` if it does not match after all.
fn plan_for(thread: &mut Thread, event: Event, arms: &[Arm]) -> Option<Plan> {
    let need_of = |outcome| match outcome {
        Outcome::Message { sender, number } => Some(Need::Message(Tag::new(sender, number))),
        Outcome::Tick => Some(Need::Tick),
        Outcome::Sent { slot } => Some(Need::Slot(Some(slot))),
        Outcome::Refused { .. } => Some(Need::Refused),
        Outcome::Disconnected => Some(Need::Disconnected),
        _ => None,
    };
    match event.outcome {
        Outcome::Empty | Outcome::Full | Outcome::NoArm => Some(Plan::Nothing),
        Outcome::Timeout => Some(Plan::Expire),
        Outcome::Arm(index) => {
            let position = arms.iter().position(|arm| arm.index == index as usize)?;
            if matches!(event.op, Op::Ready | Op::TryReady | Op::ReadyDeadline) {
                return Some(Plan::Outcome {
                    position,
                    need: Need::Ready,
                    logged: true,
                });
            }
            // Cut off between selection and completion: the log ends here.
            let Some(completion) = thread.cursor.as_mut()?.completion() else {
                return Some(Plan::EndOfLog);
            };
            if completion.channel != Some(arms[position].id) {
                return None;
            }
            let need = need_of(completion.outcome)?;
            Some(Plan::Outcome {
                position,
                need,
                logged: true,
            })
        }
        outcome => {
            let need = need_of(outcome)?;
            Some(Plan::Outcome {
                position: 0,
                need,
                logged: true,
            })
        }
    }
}
