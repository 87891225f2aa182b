//! Takes an arm of an operation, if one can be taken.
//!
//! An arm of a channel that messages are put into needs the channel only
//! ([`Arm::take`]); to send there is to take a place, and the message follows. Where
//! messages meet their receivers, and for timers, the [world](World::attempt) is needed.

use std::time::Instant;

use rr_channel_log::identity::ThreadId;

use super::operation::{Arm, Change, Got, Need, Pick, Want};
use super::world::{ChanKey, Watched, World};
use crate::recorder::tag::Tag;

/// The outcome of an arm, and the change that other threads may wait for.
pub(super) type Taken = (Got, Option<Change>);

impl Arm<'_> {
    /// Takes the arm of a channel with messages in it, if `need` is there; if there is no `need`,
    /// takes any possible outcome.
    pub(super) fn take(&self, need: Option<Need>, probe: bool) -> Option<Taken> {
        match need {
            Some(need) => self.take_exactly(need),
            None if probe => self.is_ready().then_some((Got::Ready, None)),
            None => self.take_any(),
        }
    }

    fn take_any(&self) -> Option<Taken> {
        if self.send.is_some() {
            if self.flow.has_no_receivers() {
                return Some((Got::Refused, None));
            }
            let slot = self.flow.enter(None)?;
            return Some((Got::Sent(slot), Some(Change::Entered)));
        }
        // Asked first: what was sent before they went is found below.
        let no_senders = self.flow.has_no_senders();
        match self.messages?.set_aside(None) {
            Some(tag) => Some((Got::Message(tag), Some(Change::Left))),
            None => no_senders.then_some((Got::Disconnected, None)),
        }
    }

    fn take_exactly(&self, need: Need) -> Option<Taken> {
        match (need, self.send) {
            (Need::Message(tag), None) => {
                let tag = self.messages?.set_aside(Some(tag))?;
                Some((Got::Message(tag), Some(Change::Left)))
            }
            (Need::Disconnected, None) => {
                let gone = self.flow.has_no_senders() && self.messages?.len() == 0;
                gone.then_some((Got::Disconnected, None))
            }
            // The recorded message found a receiver; that this one does not is
            // nothing its sender may see.
            (Need::Slot(_), Some(_)) if self.flow.has_no_receivers() => Some((Got::Lost, None)),
            (Need::Slot(slot), Some(_)) => {
                let slot = self.flow.enter(slot)?;
                Some((Got::Sent(slot), Some(Change::Entered)))
            }
            (Need::Refused, Some(_)) => {
                self.flow.has_no_receivers().then_some((Got::Refused, None))
            }
            (Need::Ready, send) => {
                // Other threads may have used up by now what the recorded thread saw: the message
                // taken, the room filled. Readiness reserves nothing, and programs must reckon
                // with that.
                //
                // The messages are looked at first (see `Flow`). A thread that takes one is seen
                // here then, or has seen the waiting thread.
                let spent = || match send {
                    Some(_) => self.flow.arrivals() > 0,
                    None => self.flow.was_used(),
                };
                (self.is_ready() || spent()).then_some((Got::Ready, None))
            }
            _ => None,
        }
    }

    fn is_ready(&self) -> bool {
        if self.send.is_some() {
            return self.flow.has_no_receivers() || self.flow.has_room();
        }
        self.flow.has_no_senders() || self.messages.is_some_and(|messages| messages.len() > 0)
    }
}

/// Takes an arm as `want` says, if none but channels with messages in them matter to it
/// and one can be taken. See [`World::attempt`].
pub(super) fn attempt_alone(
    arms: &[Arm<'_>],
    want: Want,
    probe: bool,
    first: usize,
) -> Option<(Pick, Option<Change>)> {
    let alone = |arm: &Arm<'_>| arm.messages.is_some();
    match want {
        Want::Nothing => None,
        Want::Exactly(position, need) => {
            let arm = arms.get(position).filter(|arm| alone(arm))?;
            let (got, change) = arm.take(Some(need), probe)?;
            Some((Pick { position, got }, change))
        }
        Want::Any if !arms.iter().all(alone) => None,
        Want::Any => (0..arms.len())
            .map(|i| (first + i) % arms.len())
            .find_map(|position| {
                let (got, change) = arms[position].take(None, probe)?;
                Some((Pick { position, got }, change))
            }),
    }
}

impl World {
    /// Takes an arm if one can be taken as `want` says.
    ///
    /// `first` is the arm that a free choice begins with. `now` is needed where there are
    /// [timers](World::has_timer) only.
    pub(super) fn attempt(
        &mut self,
        id: ThreadId,
        arms: &[Arm<'_>],
        want: Want,
        probe: bool,
        first: usize,
        now: Option<Instant>,
    ) -> Option<Pick> {
        let mut attempt = |position: usize, need| {
            let got = self.attempt_arm(id, &arms[position], need, probe, now)?;
            Some(Pick { position, got })
        };
        match want {
            Want::Nothing => None,
            Want::Exactly(position, _) if position >= arms.len() => None,
            Want::Exactly(position, need) => attempt(position, Some(need)),
            Want::Any => (0..arms.len())
                .map(|i| (first + i) % arms.len())
                .find_map(|position| attempt(position, None)),
        }
    }

    fn attempt_arm(
        &mut self,
        id: ThreadId,
        arm: &Arm<'_>,
        need: Option<Need>,
        probe: bool,
        now: Option<Instant>,
    ) -> Option<Got> {
        if let Some(messages) = arm.messages {
            if arm.send.is_some() {
                // A thread that waits for room must look at the messages before it looks for room
                // (see `Flow`).
                messages.len();
            }
            let (got, change) = arm.take(need, probe)?;
            if let Some(change) = change {
                self.changed(arm.chan, change);
            }
            return Some(got);
        }
        match need {
            Some(need) => self.attempt_exactly(id, arm, need, now),
            None if probe => self.is_ready(id, arm, now).then_some(Got::Ready),
            None => self.attempt_any(id, arm, now),
        }
    }

    fn attempt_any(&mut self, id: ThreadId, arm: &Arm<'_>, now: Option<Instant>) -> Option<Got> {
        match arm.send {
            Some(_) if arm.flow.has_no_receivers() => Some(Got::Refused),
            Some(tag) => self.offer(id, arm, tag),
            None if !arm.flow.is_meeting() => self.fire(arm, now),
            None => self
                .accept(id, arm, None)
                .map(Got::Message)
                .or_else(|| arm.flow.has_no_senders().then_some(Got::Disconnected)),
        }
    }

    fn attempt_exactly(
        &mut self,
        id: ThreadId,
        arm: &Arm<'_>,
        need: Need,
        now: Option<Instant>,
    ) -> Option<Got> {
        match (need, arm.send) {
            (Need::Message(tag), None) => self.accept(id, arm, Some(tag)).map(Got::Message),
            (Need::Tick, None) => self.fire(arm, now),
            (Need::Disconnected, None) => arm.flow.has_no_senders().then_some(Got::Disconnected),
            // See `Arm::take_exactly`.
            (Need::Slot(_), Some(_)) if arm.flow.has_no_receivers() => Some(Got::Lost),
            (Need::Slot(_), Some(tag)) => self.offer(id, arm, tag),
            (Need::Refused, Some(_)) => arm.flow.has_no_receivers().then_some(Got::Refused),
            (Need::Ready, _) => {
                // The partner's time may have run out by now.
                let spent = arm.flow.is_meeting() || arm.flow.was_used();
                (spent || self.is_ready(id, arm, now)).then_some(Got::Ready)
            }
            _ => None,
        }
    }

    fn fire(&mut self, arm: &Arm<'_>, now: Option<Instant>) -> Option<Got> {
        let chan = &mut self.chans[arm.chan.0];
        let now = now.filter(|now| chan.is_due(*now))?;
        arm.flow.count_out();
        let timer = chan.timer.as_mut()?;
        let due = timer.due?;
        timer.due = timer.period.and_then(|period| now.checked_add(period));
        Some(Got::Tick(due))
    }

    fn is_ready(&self, id: ThreadId, arm: &Arm<'_>, now: Option<Instant>) -> bool {
        let chan = &self.chans[arm.chan.0];
        if chan.timer.is_some() {
            return now.is_some_and(|now| chan.is_due(now));
        }
        let abandoned = match arm.send {
            Some(_) => arm.flow.has_no_receivers(),
            None => arm.flow.has_no_senders(),
        };
        abandoned || self.partner(id, arm, None).is_some()
    }

    /// A thread that waits on the other side of a channel without capacity, and
    /// the position of its arm. `tag` is the message wanted, or offered.
    fn partner(&self, id: ThreadId, arm: &Arm<'_>, tag: Option<Tag>) -> Option<(ThreadId, usize)> {
        self.chans[arm.chan.0]
            .waiters
            .iter()
            .filter(|other| **other != id)
            .find_map(|other| {
                let wait = self.threads.get(other)?.wait.as_ref()?;
                if wait.probe || wait.picked.is_some() {
                    return None;
                }
                let meets = |position: usize, theirs: &Watched| {
                    let opposite =
                        theirs.chan == arm.chan && theirs.send.is_some() != arm.send.is_some();
                    let theirs_wanted = match wait.want {
                        Want::Any => true,
                        Want::Nothing => false,
                        Want::Exactly(p, need) => {
                            p == position
                                && match need {
                                    Need::Message(wanted) => arm.send == Some(wanted),
                                    Need::Slot(_) => true,
                                    _ => false,
                                }
                        }
                    };
                    let ours_wanted = arm.send.is_some() || tag.is_none() || theirs.send == tag;
                    opposite && theirs_wanted && ours_wanted
                };
                let position = wait
                    .arms
                    .iter()
                    .enumerate()
                    .position(|(position, theirs)| meets(position, theirs))?;
                Some((*other, position))
            })
    }

    fn settle(&mut self, id: ThreadId, position: usize, got: Got) {
        let thread = self.thread(id);
        if let Some(wait) = &mut thread.wait {
            wait.picked = Some(Pick { position, got });
        }
        self.tell(id);
    }

    /// Hands a message to a receiver that waits for it.
    fn offer(&mut self, id: ThreadId, arm: &Arm<'_>, tag: Tag) -> Option<Got> {
        let (other, position) = self.partner(id, arm, Some(tag))?;
        arm.flow.count_out();
        self.settle(other, position, Got::Message(tag));
        Some(Got::Sent(0))
    }

    /// Takes a message from a sender that waits with it.
    fn accept(&mut self, id: ThreadId, arm: &Arm<'_>, tag: Option<Tag>) -> Option<Tag> {
        let (other, position) = self.partner(id, arm, tag)?;
        let tag = self.threads.get(&other)?.wait.as_ref()?.arms[position].send?;
        arm.flow.count_out();
        self.settle(other, position, Got::Sent(0));
        Some(tag)
    }

    /// The number of messages that the timer has: one, if it is due.
    pub(super) fn len(&self, key: ChanKey, now: Instant) -> usize {
        usize::from(self.chans[key.0].is_due(now))
    }
}

#[cfg(test)]
mod tests {
    use std::hint;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::thread;

    use super::super::early_messages::EarlyMessages;
    use super::super::flow::{Awaited, Flow};
    use super::super::operation::Messages;
    use super::super::sender_queues::SenderQueues;
    use super::*;
    use crate::platform::spin_lock::SpinLock;
    use rr_channel_log::identity::ChannelId;

    /// A channel with one message in it.
    struct Queue {
        flow: Flow,
        early_messages: SpinLock<EarlyMessages<()>>,
    }

    const MESSAGE: Tag = Tag::new(ThreadId(1), 0);

    impl Queue {
        fn new() -> Queue {
            let queues = Arc::new(SenderQueues::new());
            queues.put(MESSAGE, ()).unwrap();
            Queue {
                flow: Flow::new(None),
                early_messages: SpinLock::new(EarlyMessages::new(queues)),
            }
        }

        fn take(&self, need: Need) -> bool {
            let arm = Arm {
                index: 0,
                chan: ChanKey(0),
                id: ChannelId {
                    creator: ThreadId(0),
                    number: 1,
                },
                flow: &self.flow,
                messages: Some(self),
                send: None,
            };
            arm.take(Some(need), need == Need::Ready).is_some()
        }
    }

    impl Messages for Queue {
        fn set_aside(&self, tag: Option<Tag>) -> Option<Tag> {
            let mut early_messages = self.early_messages.take();
            early_messages.take(tag?)?;
            self.flow.count_out();
            tag
        }

        fn len(&self) -> usize {
            self.early_messages.take().len()
        }
    }

    /// Errors in this protocol show in a release build, or under miri.
    #[test]
    fn a_wait_for_readiness_sees_the_message_or_is_notified() {
        let count = if cfg!(miri) { 50 } else { 20_000 };
        let queues: Vec<_> = (0..count).map(|_| Queue::new()).collect();
        let rounds = [AtomicUsize::new(0), AtomicUsize::new(0)];
        let begin = |me: usize, round: usize| {
            rounds[me].store(round + 1, SeqCst);
            let mut looks = 0;
            while rounds[1 - me].load(SeqCst) <= round {
                looks += 1;
                if looks < 1000 {
                    hint::spin_loop();
                } else {
                    thread::yield_now();
                }
            }
        };
        let (told, seen): (Vec<_>, Vec<_>) = thread::scope(|scope| {
            let taker = scope.spawn(|| {
                let take = |(round, queue): (usize, &Queue)| {
                    begin(0, round);
                    assert!(queue.take(Need::Message(MESSAGE)));
                    queue.flow.awaits_room()
                };
                queues.iter().enumerate().map(take).collect()
            });
            let wait = |(round, queue): (usize, &Queue)| {
                begin(1, round);
                (0..round % 64).for_each(|_| hint::spin_loop());
                queue.flow.announce(Awaited::CHANGE);
                queue.take(Need::Ready)
            };
            let seen = queues.iter().enumerate().map(wait).collect();
            (taker.join().unwrap(), seen)
        });
        let sleep = told
            .iter()
            .zip(&seen)
            .filter(|both| *both == (&false, &false));
        assert_eq!(sleep.count(), 0);
    }
}
