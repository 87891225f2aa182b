//! Takes an arm of an operation, if one can be taken.

use std::time::Instant;

use super::operation::{Arm, Got, Need, Pick, Want};
use super::world::{ChanKey, World};
use crate::identity::ThreadId;
use crate::tag::Tag;

impl World {
    /// Takes an arm if one can be taken as `want` says.
    ///
    /// `first` is the arm that a free choice begins with. `now` is needed where there are
    /// [timers](World::has_timer) only.
    pub(super) fn attempt(
        &mut self,
        id: ThreadId,
        arms: &[Arm],
        want: Want,
        probe: bool,
        first: usize,
        now: Option<Instant>,
    ) -> Option<Pick> {
        match want {
            Want::Nothing => None,
            Want::Exactly(position, need) => {
                let got = self.attempt_exactly(id, arms.get(position)?, need, now)?;
                Some(Pick { position, got })
            }
            Want::Any => (0..arms.len())
                .map(|i| (first + i) % arms.len())
                .find_map(|position| {
                    let got = self.attempt_any(id, &arms[position], probe, now)?;
                    Some(Pick { position, got })
                }),
        }
    }

    fn attempt_any(
        &mut self,
        id: ThreadId,
        arm: &Arm,
        probe: bool,
        now: Option<Instant>,
    ) -> Option<Got> {
        let chan = &mut self.chans[arm.chan.0];
        if probe {
            return self.is_ready(id, arm, now).then_some(Got::Ready);
        }
        match arm.send {
            Some(_) if chan.receivers == 0 => Some(Got::Refused),
            Some(tag) if chan.capacity == Some(0) => self.offer(id, arm, tag),
            Some(tag) => chan.has_room().then(|| self.put(arm.chan, tag)),
            None if chan.timer.is_some() => self.fire(arm.chan, now),
            None => {
                if let Some(tag) = chan.take_oldest() {
                    self.changed(arm.chan, None);
                    return Some(Got::Message(tag));
                }
                if let Some(tag) = self.accept(id, arm, None) {
                    return Some(Got::Message(tag));
                }
                (self.chans[arm.chan.0].senders == 0).then_some(Got::Disconnected)
            }
        }
    }

    fn attempt_exactly(
        &mut self,
        id: ThreadId,
        arm: &Arm,
        need: Need,
        now: Option<Instant>,
    ) -> Option<Got> {
        let chan = &mut self.chans[arm.chan.0];
        match (need, arm.send) {
            (Need::Message(tag), None) => {
                if chan.take(tag) {
                    self.changed(arm.chan, None);
                    return Some(Got::Message(tag));
                }
                self.accept(id, arm, Some(tag)).map(Got::Message)
            }
            (Need::Tick, None) => self.fire(arm.chan, now),
            (Need::Disconnected, None) => {
                (chan.senders == 0 && chan.len == 0).then_some(Got::Disconnected)
            }
            // The recorded message found a receiver; that this one does not is
            // nothing its sender may see.
            (Need::Slot(_), Some(_)) if chan.receivers == 0 => Some(Got::Lost),
            (Need::Slot(_), Some(tag)) if chan.capacity == Some(0) => self.offer(id, arm, tag),
            (Need::Slot(slot), Some(tag)) => {
                let in_turn = chan.capacity.is_none() || slot.is_none_or(|s| s == chan.arrivals);
                (in_turn && chan.has_room()).then(|| self.put(arm.chan, tag))
            }
            (Need::Refused, Some(_)) => (chan.receivers == 0).then_some(Got::Refused),
            (Need::Ready, send) => {
                // What the recorded thread saw may be used up by now, by others: the
                // message taken, the room filled, the partner's time run out.
                // Readiness reserves nothing, and programs must reckon with that.
                let spent = match (chan.capacity, send) {
                    (Some(0), _) => true,
                    (_, Some(_)) => chan.arrivals > 0,
                    (_, None) => chan.taken,
                };
                (spent || self.is_ready(id, arm, now)).then_some(Got::Ready)
            }
            _ => None,
        }
    }

    fn put(&mut self, key: ChanKey, tag: Tag) -> Got {
        let chan = &mut self.chans[key.0];
        chan.push(tag);
        let ordered = chan.capacity.is_some();
        // Other senders of a bounded channel may wait for their turn.
        self.changed(key, (!ordered).then_some(tag));
        Got::Sent
    }

    fn fire(&mut self, key: ChanKey, now: Option<Instant>) -> Option<Got> {
        let chan = &mut self.chans[key.0];
        let now = now.filter(|now| chan.is_due(*now))?;
        chan.taken = true;
        let timer = chan.timer.as_mut()?;
        let due = timer.due?;
        timer.due = timer.period.and_then(|period| now.checked_add(period));
        Some(Got::Tick(due))
    }

    fn is_ready(&mut self, id: ThreadId, arm: &Arm, now: Option<Instant>) -> bool {
        let chan = &self.chans[arm.chan.0];
        match arm.send {
            Some(_) if chan.capacity == Some(0) => {
                chan.receivers == 0 || self.partner(id, arm, None).is_some()
            }
            Some(_) => chan.receivers == 0 || chan.has_room(),
            None => {
                chan.len > 0
                    || now.is_some_and(|now| chan.is_due(now))
                    || (chan.timer.is_none() && chan.senders == 0)
                    || self.partner(id, arm, None).is_some()
            }
        }
    }

    /// A thread that waits on the other side of a channel without capacity, and
    /// the position of its arm. `tag` is the message wanted, or offered.
    fn partner(&self, id: ThreadId, arm: &Arm, tag: Option<Tag>) -> Option<(ThreadId, usize)> {
        let chan = &self.chans[arm.chan.0];
        if chan.capacity != Some(0) {
            return None;
        }
        chan.waiters
            .iter()
            .filter(|other| **other != id)
            .find_map(|other| {
                let wait = self.threads.get(other)?.wait.as_ref()?;
                if wait.probe || wait.picked.is_some() {
                    return None;
                }
                let position = wait
                    .arms
                    .iter()
                    .enumerate()
                    .position(|(position, theirs)| {
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
                    })?;
                Some((*other, position))
            })
    }

    fn settle(&mut self, id: ThreadId, position: usize, got: Got) {
        let thread = self.thread(id);
        if let Some(wait) = &mut thread.wait {
            wait.picked = Some(Pick { position, got });
            wait.notified = true;
        }
        thread.wake.notify_one();
    }

    /// Hands a message to a receiver that waits for it.
    fn offer(&mut self, id: ThreadId, arm: &Arm, tag: Tag) -> Option<Got> {
        let (other, position) = self.partner(id, arm, Some(tag))?;
        self.chans[arm.chan.0].taken = true;
        self.settle(other, position, Got::Message(tag));
        Some(Got::Sent)
    }

    /// Takes a message from a sender that waits with it.
    fn accept(&mut self, id: ThreadId, arm: &Arm, tag: Option<Tag>) -> Option<Tag> {
        let (other, position) = self.partner(id, arm, tag)?;
        let tag = self.threads.get(&other)?.wait.as_ref()?.arms[position].send?;
        self.chans[arm.chan.0].taken = true;
        self.settle(other, position, Got::Sent);
        Some(tag)
    }
}
