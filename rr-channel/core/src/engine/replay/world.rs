//! The waits of a replay's threads, and how each wait ends.
//!
//! A thread that can go on does so without this module: it follows its own [log](super::follow),
//! and other threads see its changes at the channel or the lock ([`Flow`],
//! [`Order`](crate::engine::order::Order)). A thread comes here only if it has to wait, or if
//! another thread waits for its change. Timers and channels without capacity, where threads meet,
//! are handled here entirely.
//!
//! One lock guards the world, so a look at it is consistent: rendezvous and the search for stalls
//! need no further protocol. No thread waits while it holds this lock.
//!
//! **Invariant:** no I/O, no clock (the caller passes `now`), no user code: nothing
//! here drops, clones or compares a message.

use std::sync::{Arc, Condvar};
use std::task::Waker;
use std::time::{Duration, Instant};

use rr_channel_log::Event;
use rr_channel_log::identity::{Dti, ThreadId};
use rustc_hash::FxHashMap;

use super::cursor::Cursor;
use super::flow::{Awaited, Flow};
use super::follow::Place;
use super::listen::Wake;
use super::operation::{Arm, Change, Need, Pick, Want};
use super::parked::ParkedOperations;
use super::queue::{Chan, Timer};
use super::report::{Cause, Desync};
use super::waiter_counts;
use crate::recorder::tag::Tag;

/// A channel's place in the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChanKey(pub(super) usize);

/// An arm of a selection that waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watched {
    pub(super) chan: ChanKey,
    pub(super) send: Option<Tag>,
}

#[derive(Debug)]
pub(super) struct Wait {
    pub(super) arms: Vec<Watched>,
    pub(super) want: Want,
    /// The event of its log that the thread waits for, if it follows that.
    pub(super) expected: Option<Event>,
    /// Only asks for readiness, so it is no thread's partner.
    pub(super) probe: bool,
    pub(super) end_of_log: bool,
    pub(super) timed: bool,
    /// Another watched object, and the count that it has to reach.
    pub(super) watch: Option<(Watch, u64)>,
    /// Waits for others as the program says, not for its log: leaving that would not
    /// help.
    pub(super) stays: bool,
    /// Waits [elsewhere](super::listen), for this.
    pub(super) listens: Option<Source>,
    /// Wakes it there. If it has none, the thread looks at intervals: the value of
    /// [`World::moves`] when it last began to, and when it began to look the last time in vain.
    pub(super) wake: Option<Wake>,
    pub(super) looks_since: u64,
    pub(super) looked_in_vain: Option<u64>,
    pub(super) notified: bool,
    pub(super) picked: Option<Pick>,
}

impl Wait {
    pub(super) const fn new(want: Want) -> Self {
        Wait {
            arms: Vec::new(),
            want,
            expected: None,
            probe: false,
            end_of_log: false,
            timed: false,
            watch: None,
            stays: false,
            listens: None,
            wake: None,
            looks_since: 0,
            looked_in_vain: None,
            notified: false,
            picked: None,
        }
    }

    /// The arms that are waited at.
    fn watched(&self) -> &[Watched] {
        match self.want {
            Want::Any => &self.arms,
            Want::Exactly(position, _) => self.arms.get(position..=position).unwrap_or(&[]),
            Want::Nothing => &[],
        }
    }

    /// The one message that is waited for, and where.
    fn message(&self) -> Option<(ChanKey, Tag)> {
        match self.want {
            Want::Exactly(position, Need::Message(tag)) => {
                Some((self.arms.get(position)?.chan, tag))
            }
            _ => None,
        }
    }

    /// The message or slot that is awaited at one of them.
    fn awaited(&self, arm: &Watched) -> Awaited {
        match (self.want, arm.send) {
            (Want::Exactly(_, Need::Message(tag)), None) => Awaited::message(tag),
            (Want::Exactly(_, Need::Slot(Some(slot))), Some(_)) => Awaited::slot(slot),
            (Want::Any, None) if !self.probe => Awaited::ARRIVAL,
            _ => Awaited::CHANGE,
        }
    }

    /// Whether `change` of a channel may be the awaited one.
    fn is_concerned(&self, flow: &Flow, change: Change) -> bool {
        match (self.want, change) {
            (_, Change::Abandoned) => true,
            (Want::Exactly(_, Need::Message(wanted)), Change::Arrived(tag)) => wanted == tag,
            (Want::Exactly(_, Need::Message(_)), _) => false,
            (Want::Exactly(_, Need::Slot(Some(slot))), _) => flow.arrivals() >= slot,
            _ => true,
        }
    }
}

/// The origin of an event that a thread waits for elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A thread of this process.
    Here,
    /// Perhaps another process.
    Anywhere,
}

/// The objects besides channels that threads wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Watch {
    /// A lock or the like, by its address, which stays while a thread waits there.
    Object(usize),
    /// The notifications of a thread.
    Signals(ThreadId),
    /// The end of a thread.
    End(ThreadId),
}

#[derive(Debug)]
pub(super) struct Thread {
    pub(super) dti: Dti,
    pub(super) tid: i32,
    pub(super) place: &'static Place,
    pub(super) ended: bool,
    pub(super) wait: Option<Wait>,
    pub(super) wake: Arc<Condvar>,
}

impl Thread {
    /// Notifies the thread to look again at the object that it waits for, if it waits for one.
    fn tell(&mut self, told: &mut Vec<Arc<Condvar>>) {
        if let Some(wait) = &mut self.wait
            && !wait.notified
        {
            wait.notified = true;
            told.push(Arc::clone(&self.wake));
        }
    }
}

/// All channels and threads of a replay.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) threads: FxHashMap<ThreadId, Thread>,
    /// Recorded threads that have not appeared yet.
    pub(super) absent: FxHashMap<ThreadId, (Dti, Cursor)>,
    pub(super) chans: Vec<Chan>,
    pub(super) free: Vec<usize>,
    /// The watching threads of each object, each with the number that it waits for.
    watchers: FxHashMap<Watch, Vec<(ThreadId, u64)>>,
    pub(super) waiting: usize,
    /// Whether the search for stalls sleeps until a thread waits.
    pub(super) is_watch_idle: bool,
    /// The threads to wake.
    told: Vec<Arc<Condvar>>,
    /// The operations of each task that are not ready, and tasks to wake.
    pub(super) parked: ParkedOperations,
    pub(super) woken: Vec<Waker>,
    pub(super) steps: u64,
    /// How often a live thread looked for something, and it was not there.
    pub(super) spins: u64,
    /// How often the search for stalls saw anything move.
    pub(super) moves: u64,
    pub(super) desyncs: Vec<Desync>,
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

    /// Takes the channels over from a world whose threads are no more.
    pub(super) fn take_over(&mut self, old: &mut World) {
        self.chans = std::mem::take(&mut old.chans);
        self.free = std::mem::take(&mut old.free);
        for chan in &mut self.chans {
            chan.waiters.clear();
        }
    }

    // Threads.

    /// The calling thread appears; one that the recording lacks has an empty log. Its
    /// place, and the log that it is to follow.
    pub(super) fn thread_started(
        &mut self,
        id: ThreadId,
        dti: Dti,
        tid: i32,
    ) -> (&'static Place, Option<Cursor>) {
        let cursor = self.absent.remove(&id).map(|(_, cursor)| cursor);
        let place = Place::new(cursor.as_ref());
        if cursor.is_none() && !self.desyncs.is_empty() {
            // A thread that left its log made it. To wait for what it never did takes long.
            place.go_live();
        }
        let thread = Thread {
            dti,
            tid,
            place,
            ended: false,
            wait: None,
            wake: Arc::new(Condvar::new()),
        };
        self.threads.insert(id, thread);
        (place, cursor)
    }

    /// The calling thread has ended, with `left` next in its log.
    pub(super) fn thread_ended(&mut self, id: ThreadId, left: Option<Event>) {
        self.steps += 1;
        self.unpark(id, None);
        let Some(thread) = self.threads.get_mut(&id) else {
            return;
        };
        thread.ended = true;
        self.touch(Watch::End(id), 1);
        if let Some(expected) = left {
            self.desync(id, Cause::EndedEarly { expected });
        }
    }

    pub(super) fn thread(&mut self, id: ThreadId) -> &mut Thread {
        self.threads.entry(id).or_insert_with(|| {
            // Only threads that are past their destructors come here unannounced.
            let place = Place::new(None);
            place.go_live();
            Thread {
                dti: Dti::foreign("late".to_owned(), 1),
                tid: 0,
                place,
                ended: true,
                wait: None,
                wake: Arc::default(),
            }
        })
    }

    pub(super) fn desync(&mut self, id: ThreadId, cause: Cause) {
        let thread = self.thread(id);
        thread.place.go_live();
        let desync = Desync {
            thread: thread.dti.clone(),
            event: thread.place.consumed(),
            cause,
        };
        self.desyncs.push(desync);
    }

    /// Whether the thread runs natively.
    pub(super) fn is_live(&mut self, id: ThreadId) -> bool {
        self.thread(id).place.is_live()
    }

    /// Something happens.
    pub(super) const fn step(&mut self) {
        self.steps += 1;
    }

    /// A live thread looked for something that is not there.
    pub(super) const fn found_nothing(&mut self) {
        self.spins += 1;
    }

    /// A thread that waits elsewhere looked there, and begins to look again.
    pub(super) fn has_looked_in_vain(&mut self, id: ThreadId) {
        let moves = self.moves;
        if let Some(wait) = &mut self.thread(id).wait {
            let since = std::mem::replace(&mut wait.looks_since, moves);
            wait.looked_in_vain = Some(since);
        }
    }

    // Channels.

    /// A new channel, or a timer.
    pub(super) fn open(
        &mut self,
        flow: Arc<Flow>,
        timer: Option<(Option<Instant>, Option<Duration>)>,
    ) -> ChanKey {
        let timer = timer.map(|(due, period)| Timer { due, period });
        let chan = Chan {
            flow,
            timer,
            waiters: Vec::new(),
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

    /// The channel is gone, with all its handles.
    pub(super) fn close(&mut self, key: ChanKey) {
        let chan = &mut self.chans[key.0];
        chan.timer = None;
        chan.waiters = Vec::new();
        self.free.push(key.0);
    }

    /// Notifies threads that wait at the channel of a change that may concern them. A notified
    /// thread needs no further notification.
    pub(super) fn changed(&mut self, key: ChanKey, change: Change) {
        let chan = &self.chans[key.0];
        for id in &chan.waiters {
            let Some(thread) = self.threads.get_mut(id) else {
                continue;
            };
            let wait = thread.wait.as_ref();
            if wait.is_some_and(|wait| wait.is_concerned(&chan.flow, change)) {
                thread.tell(&mut self.told);
            }
        }
        self.announce(key);
    }

    /// Announces at the channel what its waiting threads wait for, except threads that have been
    /// notified.
    fn announce(&self, key: ChanKey) {
        let chan = &self.chans[key.0];
        let awaited = chan
            .waiters
            .iter()
            .filter_map(|id| self.threads.get(id)?.wait.as_ref())
            .filter(|wait| !wait.notified)
            .flat_map(|wait| {
                let here = wait.watched().iter().filter(|arm| arm.chan == key);
                here.map(|arm| wait.awaited(arm))
            })
            .fold(Awaited::NOTHING, Awaited::and);
        chan.flow.announce(awaited);
    }

    // Waiting.

    /// The calling thread is about to wait; returns the condition variable to wait on. The awaited
    /// event may have happened just before it was announced here, so the thread has to look again.
    pub(super) fn begin_wait(&mut self, id: ThreadId, wait: Wait) -> Arc<Condvar> {
        self.waiting += 1;
        if let Some((watch, from)) = wait.watch {
            self.watchers.entry(watch).or_default().push((id, from));
            waiter_counts::begin(watch);
        }
        let mut met = Vec::new();
        for arm in wait.watched() {
            let chan = &mut self.chans[arm.chan.0];
            if !chan.waiters.contains(&id) {
                chan.waiters.push(id);
                met.push(arm.chan);
            }
        }
        let probe = wait.probe;
        let unlogged = self.unlogged_sender(&wait);
        let thread = self.thread(id);
        thread.wait = Some(wait);
        let wake = Arc::clone(&thread.wake);
        if let Some(sender) = unlogged {
            self.tell(sender);
        }
        for key in met {
            self.announce(key);
            if self.chans[key.0].flow.is_meeting() && !probe {
                self.wake_probes(key);
            }
        }
        wake
    }

    /// Whether a thread waits for this very message to be sent into the channel.
    ///
    /// A send is logged after it happened, and the message's receiver may have ended the process
    /// in between. So if another thread's log names the message that a thread at the end of its
    /// own log is about to send, it was sent.
    pub(super) fn awaits_message(&self, chan: ChanKey, tag: Tag) -> bool {
        self.chans[chan.0].waiters.iter().any(|waiter| {
            let thread = self.threads.get(waiter);
            let wait = thread.and_then(|thread| thread.wait.as_ref());
            wait.and_then(Wait::message) == Some((chan, tag))
        })
    }

    /// The thread that waits at the end of its log and still has the awaited message to send.
    fn unlogged_sender(&self, wait: &Wait) -> Option<ThreadId> {
        let (chan, tag) = wait.message()?;
        let wait = self.threads.get(&tag.sender())?.wait.as_ref()?;
        let sends = wait.end_of_log
            && matches!(&wait.arms[..], [arm] if arm.chan == chan && arm.send == Some(tag));
        sends.then_some(tag.sender())
    }

    /// Notes that the watched object has come to `reached`, and tells the threads that wait for
    /// that.
    pub(super) fn touch(&mut self, watch: Watch, reached: u64) {
        self.parked.remove_reached(watch, reached, &mut self.woken);
        let Some(watchers) = self.watchers.get(&watch) else {
            return;
        };
        for (id, _) in watchers.iter().filter(|(_, from)| *from <= reached) {
            let Some(thread) = self.threads.get_mut(id) else {
                continue;
            };
            thread.tell(&mut self.told);
        }
    }

    /// Threads that wait for readiness have a partner now. (To wake all waiting threads would
    /// never end: each would look, wait again, and wake the others.)
    fn wake_probes(&mut self, key: ChanKey) {
        for id in &self.chans[key.0].waiters {
            let Some(thread) = self.threads.get_mut(id) else {
                continue;
            };
            if thread.wait.as_ref().is_some_and(|wait| wait.probe) {
                thread.tell(&mut self.told);
            }
        }
    }

    /// The waiting thread is to look again.
    pub(super) fn tell(&mut self, id: ThreadId) {
        if let Some(thread) = self.threads.get_mut(&id) {
            thread.tell(&mut self.told);
        }
    }

    /// The threads to wake, for the code that unlocks the world.
    pub(super) fn take_told(&mut self) -> Vec<Arc<Condvar>> {
        std::mem::take(&mut self.told)
    }

    /// The tasks to wake, for the code that unlocks the world.
    pub(super) fn take_woken(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.woken)
    }

    /// Whether there are tasks to wake.
    pub(super) fn has_woken(&self) -> bool {
        !self.woken.is_empty()
    }

    /// Whether the waiting thread has been told to look again.
    pub(super) fn is_notified(&mut self, id: ThreadId) -> bool {
        self.thread(id)
            .wait
            .as_ref()
            .is_none_or(|wait| wait.notified)
    }

    /// The calling thread no longer waits; returns the outcome that a partner brought about for it
    /// meanwhile.
    pub(super) fn end_wait(&mut self, id: ThreadId) -> Option<Pick> {
        self.steps += 1;
        self.waiting -= 1;
        let wait = self.thread(id).wait.take()?;
        if let Some((watch, _)) = wait.watch
            && let Some(watchers) = self.watchers.get_mut(&watch)
        {
            waiter_counts::end(watch);
            watchers.retain(|(watcher, _)| *watcher != id);
            if watchers.is_empty() {
                self.watchers.remove(&watch);
            }
        }
        for arm in wait.watched() {
            let waiters = &mut self.chans[arm.chan.0].waiters;
            if let Some(at) = waiters.iter().position(|waiter| *waiter == id) {
                waiters.remove(at);
                self.announce(arm.chan);
            }
        }
        wait.picked
    }

    /// Whether one of the channels is a timer.
    pub(super) fn has_timer(&self, arms: &[Arm<'_>]) -> bool {
        arms.iter()
            .any(|arm| self.chans[arm.chan.0].timer.is_some())
    }

    /// When the first timer is due among those `arms` that are wanted. (A timer that
    /// is due and not wanted is nothing to wake up for, again and again.)
    pub(super) fn next_due(&self, arms: &[Arm<'_>], want: Want) -> Option<Instant> {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENDER: ThreadId = ThreadId(1);
    const RECEIVER: ThreadId = ThreadId(2);

    fn wait(want: Want, chan: ChanKey, send: Option<Tag>) -> Wait {
        let mut wait = Wait::new(want);
        wait.arms = vec![Watched { chan, send }];
        wait.end_of_log = want == Want::Nothing;
        wait
    }

    /// Whether a sender at the end of its log, which is about to send its third message, is
    /// notified when another thread waits for message `number` of it.
    fn is_told(number: u64) -> bool {
        let mut world = World::default();
        let chan = world.open(Arc::new(Flow::new(Some(1))), None);
        for id in [SENDER, RECEIVER] {
            world.thread_started(id, Dti::main().child(id.0), 0);
        }
        let sent = Tag::new(SENDER, 3);
        world.begin_wait(SENDER, wait(Want::Nothing, chan, Some(sent)));
        assert!(!world.is_notified(SENDER) && !world.awaits_message(chan, sent));
        let need = Need::Message(Tag::new(SENDER, number));
        world.begin_wait(RECEIVER, wait(Want::Exactly(0, need), chan, None));
        assert!(!world.is_notified(RECEIVER));
        assert_eq!(world.is_notified(SENDER), world.awaits_message(chan, sent));
        world.is_notified(SENDER)
    }

    #[test]
    fn a_vain_look_counts_if_it_began_after_the_last_move() {
        let mut world = World::default();
        world.thread_started(RECEIVER, Dti::main(), 0);
        let mut wait = Wait::new(Want::Nothing);
        wait.listens = Some(Source::Here);
        world.begin_wait(RECEIVER, wait);
        let heard_nothing = |world: &World| world.waiting()[0].heard_nothing;
        assert!(!heard_nothing(&world));
        world.moves += 1;
        world.has_looked_in_vain(RECEIVER);
        assert!(!heard_nothing(&world), "it began before");
        world.has_looked_in_vain(RECEIVER);
        assert!(heard_nothing(&world));
        world.moves += 1;
        assert!(!heard_nothing(&world));
    }

    #[test]
    fn a_sender_past_its_log_goes_on_when_its_message_is_awaited() {
        assert!(is_told(3));
        assert!(!is_told(4));
        assert!(!is_told(2));
    }
}
