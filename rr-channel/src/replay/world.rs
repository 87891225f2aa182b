//! The state of a replay: who waits for what, and which messages are there.
//!
//! A *world* knows channels by the tags of the messages in them; the messages
//! themselves stay with their typed channel. Every operation is a selection (a
//! plain send or receive has one arm), and a selection either [attempts](World::attempt)
//! what its log says ([`Want`]) or, once its thread is live, whatever can be done.
//! One lock guards the whole world, so a look at it is consistent: rendezvous,
//! selections over many channels and the search for stalls need no further protocol.
//!
//! **Invariant:** no I/O, no clock (the caller passes `now`), no user code: nothing
//! here drops, clones or compares a message.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::cursor::Cursor;
use super::report::{Attempt, Cause, Desync, Progress, Report};
use crate::identity::{ChannelId, Dti, ThreadId};
use crate::log::{Event, Op, Outcome};
use crate::tag::Tag;

/// A channel's place in the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChanKey(usize);

/// One operation of a selection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arm {
    /// Its position as the log numbers it.
    pub(crate) index: usize,
    pub(crate) chan: ChanKey,
    pub(crate) id: ChannelId,
    /// The message's tag if this sends, `None` if it receives.
    pub(crate) send: Option<Tag>,
}

/// How the operation behaves where no log applies.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Native {
    Block,
    Try,
    Until(Instant),
}

/// What came of an arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Got {
    Message(Tag),
    Tick(Instant),
    Disconnected,
    Sent,
    /// Sent, as recorded, and by now there is nobody to receive it.
    Lost,
    Refused,
    /// The arm would not block; nothing was done.
    Ready,
}

/// The arm that was taken, by position in the arms given, and what came of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pick {
    pub(crate) position: usize,
    pub(crate) got: Got,
}

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// Whatever arm can be taken.
    Any,
    /// Exactly this outcome, of this arm.
    Exactly(usize, Need),
    /// Only for time to pass, or to be released.
    Nothing,
}

/// The outcome that an arm must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Message(Tag),
    Tick,
    Disconnected,
    /// A place in the channel: the recorded one, if that is known.
    Slot(Option<u64>),
    Refused,
    Ready,
}

/// What the log says about an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    /// Nothing: the thread is live.
    Native,
    /// It has this outcome; `logged` if that is an event to move past.
    Outcome {
        position: usize,
        need: Need,
        logged: bool,
    },
    /// It finds nothing.
    Nothing,
    /// It finds nothing until its deadline.
    Expire,
    /// The log ends here, and it is unknown whether the thread did.
    EndOfLog,
}

#[derive(Debug, Clone, Copy)]
struct Timer {
    due: Option<Instant>,
    period: Option<Duration>,
}

#[derive(Debug, Default)]
struct Chan {
    capacity: Option<usize>,
    timer: Option<Timer>,
    /// Messages by sender, each with its order of arrival.
    queues: FxHashMap<ThreadId, VecDeque<(Tag, u64)>>,
    len: usize,
    arrivals: u64,
    /// Whether anything was ever received from it.
    taken: bool,
    senders: usize,
    receivers: usize,
    waiters: Vec<ThreadId>,
}

impl Chan {
    fn push(&mut self, tag: Tag) {
        self.queues
            .entry(tag.sender())
            .or_default()
            .push_back((tag, self.arrivals));
        self.arrivals += 1;
        self.len += 1;
    }

    fn take(&mut self, tag: Tag) -> bool {
        let Some(queue) = self.queues.get_mut(&tag.sender()) else {
            return false;
        };
        let Some(at) = queue.iter().position(|(t, _)| *t == tag) else {
            return false;
        };
        queue.remove(at);
        shrink(queue);
        self.len -= 1;
        self.taken = true;
        true
    }

    fn take_oldest(&mut self) -> Option<Tag> {
        let queue = self
            .queues
            .values_mut()
            .filter(|queue| !queue.is_empty())
            .min_by_key(|queue| queue.front().map(|(_, arrival)| *arrival))?;
        let (tag, _) = queue.pop_front()?;
        shrink(queue);
        self.len -= 1;
        self.taken = true;
        Some(tag)
    }

    /// Takes all messages, oldest first.
    fn take_all(&mut self) -> Vec<Tag> {
        let mut all: Vec<_> = self.queues.drain().flat_map(|(_, queue)| queue).collect();
        all.sort_unstable_by_key(|(_, arrival)| *arrival);
        self.len = 0;
        all.into_iter().map(|(tag, _)| tag).collect()
    }

    fn has_room(&self) -> bool {
        self.capacity.is_none_or(|capacity| self.len < capacity)
    }

    fn is_due(&self, now: Instant) -> bool {
        self.timer
            .is_some_and(|timer| timer.due.is_some_and(|due| due <= now))
    }
}

#[derive(Debug)]
struct Wait {
    arms: Vec<Arm>,
    want: Want,
    /// Only asks for readiness, so it is nobody's partner.
    probe: bool,
    end_of_log: bool,
    timed: bool,
    notified: bool,
    picked: Option<Pick>,
}

#[derive(Debug)]
struct Thread {
    dti: Dti,
    tid: i32,
    cursor: Option<Cursor>,
    live: bool,
    ended: bool,
    wait: Option<Wait>,
    wake: Arc<Condvar>,
}

/// A thread that waits in the world, as the search for stalls sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) tid: i32,
    /// It will go on by itself: it was told to, or it has a deadline.
    pub(super) will_move: bool,
}

/// All channels and threads of a replay.
#[derive(Debug, Default)]
pub(super) struct World {
    threads: FxHashMap<ThreadId, Thread>,
    /// Recorded threads that have not appeared yet.
    absent: FxHashMap<ThreadId, (Dti, Cursor)>,
    chans: Vec<Chan>,
    free: Vec<usize>,
    waiting: usize,
    steps: u64,
    desyncs: Vec<Desync>,
}

impl World {
    /// A world in which `recorded` threads may appear.
    pub(super) fn new(recorded: impl IntoIterator<Item = (ThreadId, Dti, Cursor)>) -> Self {
        let absent = recorded
            .into_iter()
            .map(|(id, dti, cursor)| (id, (dti, cursor)))
            .collect();
        World {
            absent,
            ..World::default()
        }
    }

    // Threads.

    /// The calling thread appears; one that the recording lacks has an empty log.
    pub(super) fn thread_started(&mut self, id: ThreadId, dti: Dti, tid: i32) {
        let cursor = self.absent.remove(&id).map(|(_, cursor)| cursor);
        let wake = Arc::new(Condvar::new());
        let thread = Thread {
            dti,
            tid,
            cursor,
            live: false,
            ended: false,
            wait: None,
            wake,
        };
        self.threads.insert(id, thread);
    }

    /// The calling thread ends; what it still does, it does live.
    pub(super) fn thread_ended(&mut self, id: ThreadId) {
        self.steps += 1;
        let Some(thread) = self.threads.get_mut(&id) else {
            return;
        };
        thread.ended = true;
        if !thread.live {
            let left = thread.cursor.as_mut().and_then(|cursor| cursor.peek(0));
            thread.live = true;
            if let Some(expected) = left {
                self.desync(id, Cause::EndedEarly { expected });
            }
        }
    }

    fn thread(&mut self, id: ThreadId) -> &mut Thread {
        self.threads.entry(id).or_insert_with(|| Thread {
            // Only threads that are past their destructors come here unannounced.
            dti: Dti::foreign("late".to_owned(), 1),
            tid: 0,
            cursor: None,
            live: true,
            ended: true,
            wait: None,
            wake: Arc::default(),
        })
    }

    fn desync(&mut self, id: ThreadId, cause: Cause) {
        let thread = self.thread(id);
        thread.live = true;
        let event = thread.cursor.as_ref().map_or(0, Cursor::consumed);
        let desync = Desync {
            thread: thread.dti.clone(),
            event,
            cause,
        };
        self.desyncs.push(desync);
    }

    /// Whether the thread runs natively.
    pub(super) fn is_live(&mut self, id: ThreadId) -> bool {
        self.thread(id).live
    }

    /// Moves past the thread's next event.
    pub(super) fn advance(&mut self, id: ThreadId) {
        if let Some(cursor) = &mut self.thread(id).cursor {
            cursor.advance();
        }
    }

    // What the log says.

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

    // Channels.

    /// A new channel, or a timer, with one handle on each side.
    pub(super) fn open(
        &mut self,
        capacity: Option<usize>,
        timer: Option<(Option<Instant>, Option<Duration>)>,
    ) -> ChanKey {
        let timer = timer.map(|(due, period)| Timer { due, period });
        let chan = Chan {
            capacity,
            timer,
            senders: 1,
            receivers: 1,
            ..Chan::default()
        };
        match self.free.pop() {
            Some(at) => {
                self.chans[at] = chan;
                ChanKey(at)
            }
            None => {
                self.chans.push(chan);
                ChanKey(self.chans.len() - 1)
            }
        }
    }

    /// A handle was cloned.
    pub(super) fn cloned(&mut self, key: ChanKey, sends: bool) {
        let chan = &mut self.chans[key.0];
        let side = if sends {
            &mut chan.senders
        } else {
            &mut chan.receivers
        };
        *side += 1;
    }

    /// A handle was dropped. The last receiver takes the messages in the channel
    /// with it: these (not those that senders still wait with).
    pub(super) fn dropped(&mut self, key: ChanKey, sends: bool) -> Vec<Tag> {
        self.steps += 1;
        let chan = &mut self.chans[key.0];
        let side = if sends {
            &mut chan.senders
        } else {
            &mut chan.receivers
        };
        *side -= 1;
        if *side > 0 {
            return Vec::new();
        }
        let discarded = if sends { Vec::new() } else { chan.take_all() };
        self.changed(key, None);
        discarded
    }

    /// Whether nobody is left to receive from the channel.
    pub(super) fn is_orphaned(&self, key: ChanKey) -> bool {
        self.chans[key.0].receivers == 0
    }

    /// The channel is gone, with all its handles.
    pub(super) fn close(&mut self, key: ChanKey) {
        self.chans[key.0] = Chan::default();
        self.free.push(key.0);
    }

    /// The number of messages in the channel; a timer that is due has one.
    pub(super) fn len(&self, key: ChanKey, now: Instant) -> usize {
        let chan = &self.chans[key.0];
        chan.len + usize::from(chan.is_due(now))
    }

    /// Tells those who wait at the channel that it changed: by the arrival of
    /// `pushed`, or otherwise.
    fn changed(&mut self, key: ChanKey, pushed: Option<Tag>) {
        for id in &self.chans[key.0].waiters {
            let Some(thread) = self.threads.get_mut(id) else {
                continue;
            };
            let Some(wait) = &mut thread.wait else {
                continue;
            };
            if let (Want::Exactly(_, Need::Message(wanted)), Some(tag)) = (wait.want, pushed)
                && wanted != tag
            {
                continue;
            }
            wait.notified = true;
            thread.wake.notify_one();
        }
    }

    // Operations.

    /// Takes an arm if one can be taken as `want` says.
    ///
    /// `first` is the arm that a free choice begins with.
    pub(super) fn attempt(
        &mut self,
        id: ThreadId,
        arms: &[Arm],
        want: Want,
        probe: bool,
        first: usize,
        now: Instant,
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

    fn attempt_any(&mut self, id: ThreadId, arm: &Arm, probe: bool, now: Instant) -> Option<Got> {
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
        now: Instant,
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
            // What the recorded thread saw may by now be taken: readiness reserves
            // nothing, and the program must reckon with that.
            (Need::Ready, _) => (chan.taken || self.is_ready(id, arm, now)).then_some(Got::Ready),
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

    fn fire(&mut self, key: ChanKey, now: Instant) -> Option<Got> {
        let chan = &mut self.chans[key.0];
        if !chan.is_due(now) {
            return None;
        }
        chan.taken = true;
        let timer = chan.timer.as_mut()?;
        let due = timer.due?;
        timer.due = timer.period.and_then(|period| now.checked_add(period));
        Some(Got::Tick(due))
    }

    fn is_ready(&mut self, id: ThreadId, arm: &Arm, now: Instant) -> bool {
        let chan = &self.chans[arm.chan.0];
        match arm.send {
            Some(_) if chan.capacity == Some(0) => {
                chan.receivers == 0 || self.partner(id, arm, None).is_some()
            }
            Some(_) => chan.receivers == 0 || chan.has_room(),
            None => {
                chan.len > 0
                    || chan.is_due(now)
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

    // Waiting.

    /// The calling thread is about to wait; what to wait on.
    pub(super) fn begin_wait(
        &mut self,
        id: ThreadId,
        arms: &[Arm],
        want: Want,
        probe: bool,
        end_of_log: bool,
        timed: bool,
    ) -> Arc<Condvar> {
        let wait = Wait {
            arms: arms.to_vec(),
            want,
            probe,
            end_of_log,
            timed,
            notified: false,
            picked: None,
        };
        let thread = self.thread(id);
        thread.wait = Some(wait);
        let wake = Arc::clone(&thread.wake);
        self.waiting += 1;
        for arm in arms {
            let chan = &mut self.chans[arm.chan.0];
            if !chan.waiters.contains(&id) {
                let meets = chan.capacity == Some(0) && !probe;
                chan.waiters.push(id);
                if meets {
                    self.wake_probes(arm.chan);
                }
            }
        }
        wake
    }

    /// Those who wait for readiness have a partner now. (To wake all who wait would
    /// never end: each would look, wait again, and wake the others.)
    fn wake_probes(&mut self, key: ChanKey) {
        for id in &self.chans[key.0].waiters {
            let Some(thread) = self.threads.get_mut(id) else {
                continue;
            };
            if let Some(wait) = &mut thread.wait
                && wait.probe
            {
                wait.notified = true;
                thread.wake.notify_one();
            }
        }
    }

    /// Whether the waiting thread has been told to look again.
    pub(super) fn is_notified(&mut self, id: ThreadId) -> bool {
        self.thread(id)
            .wait
            .as_ref()
            .is_none_or(|wait| wait.notified)
    }

    /// The calling thread no longer waits; what a partner did for it meanwhile.
    pub(super) fn end_wait(&mut self, id: ThreadId) -> Option<Pick> {
        self.steps += 1;
        self.waiting -= 1;
        let wait = self.thread(id).wait.take()?;
        for arm in &wait.arms {
            self.chans[arm.chan.0]
                .waiters
                .retain(|waiter| *waiter != id);
        }
        wait.picked
    }

    /// When the first timer is due among those `arms` that are wanted. (A timer that
    /// is due and not wanted is nothing to wake up for, again and again.)
    pub(super) fn next_due(&self, arms: &[Arm], want: Want) -> Option<Instant> {
        let wanted = match want {
            Want::Any => arms,
            Want::Exactly(position, _) => arms.get(position..=position)?,
            Want::Nothing => &[],
        };
        wanted
            .iter()
            .filter_map(|arm| self.chans[arm.chan.0].timer?.due)
            .min()
    }

    // Stalls.

    /// Counts everything that happens: if it stands still, so does the replay.
    pub(super) const fn steps(&self) -> u64 {
        self.steps
    }

    /// The threads that wait here.
    pub(super) fn waiting(&self) -> Vec<Waiting> {
        let waiting = |thread: &Thread| {
            let wait = thread.wait.as_ref()?;
            Some(Waiting {
                tid: thread.tid,
                will_move: wait.notified || wait.timed,
            })
        };
        self.threads.values().filter_map(waiting).collect()
    }

    /// Whether any thread waits here.
    pub(super) const fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Whether the thread with this kernel id has used a channel.
    pub(super) fn knows(&self, tid: i32) -> bool {
        self.threads
            .values()
            .any(|thread| thread.tid == tid && !thread.ended)
    }

    /// Nobody can move: lets someone leave the log. `false` if nobody is left who
    /// follows one.
    ///
    /// Threads at the end of a log that a crash cut short go first: the recorded
    /// run went on there, unseen. Of the others one is chosen, preferably one that
    /// waits for a thread that has ended or has itself left its log.
    pub(super) fn resolve_stall(&mut self) -> bool {
        self.steps += 1;
        let mut at_end: Vec<_> = self
            .threads
            .iter()
            .filter(|(_, t)| !t.live && t.wait.as_ref().is_some_and(|wait| wait.end_of_log))
            .map(|(id, _)| *id)
            .collect();
        if at_end.is_empty() {
            let mut stuck: Vec<_> = self
                .threads
                .iter()
                .filter(|(_, thread)| !thread.live && thread.wait.is_some())
                .map(|(id, thread)| (!self.is_hopeless(thread), &thread.dti, *id))
                .collect();
            stuck.sort();
            let Some((_, _, id)) = stuck.first() else {
                return false;
            };
            let id = *id;
            if let Some(expected) = self.thread(id).cursor.as_mut().and_then(|c| c.peek(0)) {
                self.desync(id, Cause::Stalled { expected });
            }
            at_end.push(id);
        }
        for id in at_end {
            let thread = self.thread(id);
            thread.live = true;
            if let Some(wait) = &mut thread.wait {
                wait.notified = true;
            }
            thread.wake.notify_one();
        }
        true
    }

    fn is_hopeless(&self, thread: &Thread) -> bool {
        let Some(Wait {
            want: Want::Exactly(_, Need::Message(tag)),
            ..
        }) = thread.wait
        else {
            return false;
        };
        self.threads
            .get(&tag.sender())
            .is_some_and(|sender| sender.ended || sender.live)
    }

    // Reports.

    /// The desynchronisations found so far.
    pub(super) fn desyncs(&self) -> &[Desync] {
        &self.desyncs
    }

    /// The state of the replay.
    pub(super) fn report(&self) -> Report {
        let seen = self.threads.values().map(|thread| {
            let (consumed, total) = thread
                .cursor
                .as_ref()
                .map_or((0, 0), |c| (c.consumed(), c.total()));
            Progress {
                thread: thread.dti.clone(),
                consumed,
                total,
                live: thread.live,
            }
        });
        let absent = self.absent.values().map(|(dti, cursor)| Progress {
            thread: dti.clone(),
            consumed: 0,
            total: cursor.total(),
            live: false,
        });
        let mut threads: Vec<_> = seen.chain(absent).collect();
        threads.sort_by(|a, b| a.thread.cmp(&b.thread));
        Report {
            desyncs: self.desyncs.clone(),
            threads,
        }
    }
}

/// Gives memory back that a burst of messages needed.
fn shrink<T>(queue: &mut VecDeque<T>) {
    if queue.capacity() > 1024 && queue.len() < queue.capacity() / 8 {
        queue.shrink_to(queue.len() * 2);
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
