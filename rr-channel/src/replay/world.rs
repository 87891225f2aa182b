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

use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::cursor::Cursor;
use super::operation::{Arm, Need, Pick, Want};
use super::queue::{Chan, Timer};
use super::report::{Cause, Desync};
use crate::identity::{Dti, ThreadId};
use crate::tag::Tag;

/// A channel's place in the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChanKey(pub(super) usize);

#[derive(Debug)]
pub(super) struct Wait {
    pub(super) arms: Vec<Arm>,
    pub(super) want: Want,
    /// Only asks for readiness, so it is nobody's partner.
    pub(super) probe: bool,
    pub(super) end_of_log: bool,
    pub(super) timed: bool,
    /// What else is watched, and how far it has to come to be of interest.
    pub(super) watch: Option<(Watch, u64)>,
    /// Waits for others as the program says, not for its log: leaving that would not
    /// help.
    pub(super) stays: bool,
    /// Waits in the kernel, and looks from time to time whether it was released.
    pub(super) listens: Option<Source>,
    pub(super) notified: bool,
    pub(super) picked: Option<Pick>,
}

impl Wait {
    pub(super) const fn new(want: Want) -> Self {
        Wait {
            arms: Vec::new(),
            want,
            probe: false,
            end_of_log: false,
            timed: false,
            watch: None,
            stays: false,
            listens: None,
            notified: false,
            picked: None,
        }
    }
}

/// Who sends what a thread waits for in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "ipc_channel"),
    expect(dead_code, reason = "only these channels are in the kernel")
)]
pub(crate) enum Source {
    /// A thread of this process.
    Here,
    /// Perhaps another process.
    Anywhere,
}

/// What threads wait for besides channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Watch {
    /// A lock or the like, by its address, which stays while somebody waits there.
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
    pub(super) cursor: Option<Cursor>,
    pub(super) live: bool,
    pub(super) ended: bool,
    pub(super) wait: Option<Wait>,
    pub(super) wake: Arc<Condvar>,
}

/// All channels and threads of a replay.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) threads: FxHashMap<ThreadId, Thread>,
    /// Recorded threads that have not appeared yet.
    pub(super) absent: FxHashMap<ThreadId, (Dti, Cursor)>,
    pub(super) chans: Vec<Chan>,
    pub(super) free: Vec<usize>,
    /// Who watches what, from which number on.
    watchers: FxHashMap<Watch, Vec<(ThreadId, u64)>>,
    /// The last notification of each thread.
    pub(super) signals: FxHashMap<ThreadId, u64>,
    pub(super) waiting: usize,
    pub(super) steps: u64,
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
        self.touch(Watch::End(id), 1);
        let thread = self.thread(id);
        if !thread.live {
            let left = thread.cursor.as_mut().and_then(|cursor| cursor.peek(0));
            thread.live = true;
            if let Some(expected) = left {
                self.desync(id, Cause::EndedEarly { expected });
            }
        }
    }

    pub(super) fn thread(&mut self, id: ThreadId) -> &mut Thread {
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

    pub(super) fn desync(&mut self, id: ThreadId, cause: Cause) {
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

    /// Something happens.
    pub(super) const fn step(&mut self) {
        self.steps += 1;
    }

    /// Moves past the thread's next event.
    pub(super) fn advance(&mut self, id: ThreadId) {
        if let Some(cursor) = &mut self.thread(id).cursor {
            cursor.advance();
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
    pub(super) fn changed(&mut self, key: ChanKey, pushed: Option<Tag>) {
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

    // Waiting.

    /// The calling thread is about to wait; what to wait on.
    pub(super) fn begin_wait(&mut self, id: ThreadId, wait: Wait) -> Arc<Condvar> {
        self.waiting += 1;
        if let Some((watch, from)) = wait.watch {
            self.watchers.entry(watch).or_default().push((id, from));
        }
        for arm in &wait.arms {
            let chan = &mut self.chans[arm.chan.0];
            if !chan.waiters.contains(&id) {
                let meets = chan.capacity == Some(0) && !wait.probe;
                chan.waiters.push(id);
                if meets {
                    self.wake_probes(arm.chan);
                }
            }
        }
        let thread = self.thread(id);
        thread.wait = Some(wait);
        Arc::clone(&thread.wake)
    }

    /// What is watched has come to `reached`: tells those for whom that is enough.
    pub(super) fn touch(&mut self, watch: Watch, reached: u64) {
        let Some(watchers) = self.watchers.get(&watch) else {
            return;
        };
        for (id, _) in watchers.iter().filter(|(_, from)| *from <= reached) {
            let Some(thread) = self.threads.get_mut(id) else {
                continue;
            };
            if let Some(wait) = &mut thread.wait {
                wait.notified = true;
                thread.wake.notify_one();
            }
        }
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
        if let Some((watch, _)) = wait.watch
            && let Some(watchers) = self.watchers.get_mut(&watch)
        {
            watchers.retain(|(watcher, _)| *watcher != id);
            if watchers.is_empty() {
                self.watchers.remove(&watch);
            }
        }
        for arm in &wait.arms {
            self.chans[arm.chan.0]
                .waiters
                .retain(|waiter| *waiter != id);
        }
        wait.picked
    }

    /// Whether one of the channels is a timer.
    pub(super) fn has_timer(&self, arms: &[Arm]) -> bool {
        arms.iter()
            .any(|arm| self.chans[arm.chan.0].timer.is_some())
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
}
