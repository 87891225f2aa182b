//! A recorded run, with names that another run of the same program shares.

use std::collections::{BTreeMap, HashMap};
use std::mem::{Discriminant, discriminant};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rr_channel_log::identity::{ChannelId, Dti, ThreadId};
use rr_channel_log::{ClockRead, Event, Op, Outcome, Recording, StartedProcess, Step};

/// One action of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Something that its log has.
    Event(Event),
    /// It came to a send.
    Message {
        channel: Option<ChannelId>,
        number: u64,
    },
}

/// One action, and where in the source it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) action: Action,
    /// For [`Run::place`].
    pub(super) place: Option<u32>,
}

#[derive(Debug, Clone)]
pub(super) struct Thread {
    pub(super) id: ThreadId,
    pub(super) dti: Dti,
    /// Its name in the program.
    pub(super) name: Option<String>,
    /// Whether it is known to have done nothing else.
    pub(super) ended: bool,
    /// How long the run had lasted when it was last seen.
    pub(super) lasted: Duration,
    pub(super) items: Vec<Item>,
    pub(super) units: Vec<Unit>,
    pub(super) clocks: Vec<ClockRead>,
}

/// One outcome of a thread (a message, that there is none, that it may go on), and all
/// that it did upon that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) key: Key,
    pub(super) from: usize,
    pub(super) to: usize,
    /// The item that has the outcome: the completion, of a selection.
    pub(super) outcome: usize,
}

impl Thread {
    /// The event that has the outcome of a unit.
    pub(super) fn event_of(&self, unit: usize) -> Option<&Event> {
        match &self.items[self.units[unit].outcome].action {
            Action::Event(event) => Some(event),
            Action::Message { .. } => None,
        }
    }
}

/// By what a unit of one run is found in another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// The thread's beginning.
    Start,
    /// A message, whoever received it and in whatever way.
    Message(ThreadId, u64),
    /// Something else that came of an operation.
    Other(Op, Option<ChannelId>, Discriminant<Outcome>, u64),
}

#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) program: String,
    pub(super) threads: Vec<Thread>,
    /// The processes that it started, and where their parts of the recording are.
    pub(super) processes: Vec<(StartedProcess, Option<PathBuf>)>,
    places: BTreeMap<u32, String>,
}

/// Numbers of threads that several runs share, by their names.
#[derive(Debug, Default)]
pub(super) struct Numbers(HashMap<Dti, ThreadId>);

impl Numbers {
    fn get(&mut self, dti: &Dti) -> ThreadId {
        let next = ThreadId(self.0.len() as u32);
        *self.0.entry(dti.clone()).or_insert(next)
    }
}

impl Run {
    /// Reads a recording.
    ///
    /// # Errors
    /// If it is damaged.
    pub(super) fn read(dir: &Path, numbers: &mut Numbers) -> anyhow::Result<Run> {
        let recording = Recording::open(dir)?;
        let ids: HashMap<ThreadId, ThreadId> = recording
            .threads()
            .iter()
            .map(|thread| (thread.id, numbers.get(&thread.dti)))
            .collect();
        // Those of other processes keep theirs.
        let shared = |id: ThreadId| ids.get(&id).copied().unwrap_or(id);
        let channel = |channel: ChannelId| ChannelId {
            creator: shared(channel.creator),
            ..channel
        };
        let mut run = Run {
            program: recording.program().to_owned(),
            threads: Vec::new(),
            processes: Vec::new(),
            places: BTreeMap::new(),
        };
        for process in recording.processes() {
            let started = StartedProcess {
                thread: shared(process.thread),
                ..*process
            };
            run.processes.push((started, recording.dir_of(*process)));
        }
        for thread in recording.threads() {
            let log = recording.log(thread)?;
            let mut items = Vec::new();
            for step in recording.steps(thread)? {
                items.push(match step {
                    Step::Event { event, place } => Item {
                        action: Action::Event(Event {
                            op: event.op,
                            channel: event.channel.map(channel),
                            outcome: with_sender(event.outcome, shared),
                        }),
                        place,
                    },
                    Step::Message {
                        channel: on,
                        number,
                        place,
                        ..
                    } => Item {
                        action: Action::Message {
                            channel: on.map(channel),
                            number,
                        },
                        place: Some(place),
                    },
                });
            }
            for place in items.iter().filter_map(|item| item.place) {
                let text = recording.place(place).unwrap_or("an unknown place");
                run.places.insert(place, text.to_owned());
            }
            run.threads.push(Thread {
                id: shared(thread.id),
                dti: thread.dti.clone(),
                name: recording.name(thread.id).map(str::to_owned),
                ended: log.is_sealed() && !log.is_incomplete(),
                lasted: log.lasted(),
                units: units(&items),
                items,
                clocks: match recording.clocks(thread)? {
                    Some(log) => log.reads().collect::<Result<_, _>>()?,
                    None => Vec::new(),
                },
            });
        }
        run.threads.sort_by_key(|thread| thread.id);
        Ok(run)
    }

    /// Where an item is; nothing, if that was not recorded, or lies in a library of the
    /// compiler's.
    pub(super) fn place(&self, item: Item) -> Option<&str> {
        let place = self.places.get(&item.place?)?;
        (!place.starts_with("/rustc/")).then_some(place)
    }

    /// Gives locks the names that they have in `other`: a lock is named after who acquires
    /// it first, so that a thread's operations tell which one is meant, as long as it does
    /// the same in both runs.
    pub(super) fn name_locks_as(&mut self, other: &Run) {
        let mut votes: HashMap<ChannelId, HashMap<ChannelId, u32>> = HashMap::new();
        for thread in &self.threads {
            let Some(known) = other.threads.iter().find(|known| known.id == thread.id) else {
                continue;
            };
            for (ours, theirs) in locks(thread).zip(locks(known)) {
                if (ours.0, self.place(ours.2)) != (theirs.0, other.place(theirs.2)) {
                    break;
                }
                let votes = votes.entry(ours.1).or_default();
                *votes.entry(theirs.1).or_default() += 1;
            }
        }
        let mut pairs: Vec<_> = votes
            .into_iter()
            .flat_map(|(ours, votes)| votes.into_iter().map(move |(theirs, n)| (n, ours, theirs)))
            .collect();
        let order = |id: ChannelId| (id.creator, id.number);
        pairs
            .sort_by_key(|(n, ours, theirs)| (std::cmp::Reverse(*n), order(*ours), order(*theirs)));
        let (mut names, mut taken) = (HashMap::new(), HashMap::new());
        for (_, ours, theirs) in pairs {
            if !names.contains_key(&ours) && !taken.contains_key(&theirs) {
                names.insert(ours, theirs);
                taken.insert(theirs, ours);
            }
        }
        for thread in &mut self.threads {
            for item in &mut thread.items {
                if let Action::Event(event) = &mut item.action
                    && event.op.is_on_lock()
                    && let Some(lock) = event.channel
                {
                    // One that only this run knows must not be taken for another.
                    let unknown = ChannelId {
                        creator: lock.creator,
                        number: lock.number | 1 << 31,
                    };
                    event.channel = Some(names.get(&lock).copied().unwrap_or(unknown));
                }
            }
            thread.units = units(&thread.items);
        }
    }
}

/// The thread's operations on locks that it names.
fn locks(thread: &Thread) -> impl Iterator<Item = (Op, ChannelId, Item)> {
    thread.items.iter().filter_map(|item| match item.action {
        Action::Event(Event {
            op,
            channel: Some(lock),
            ..
        }) if op.is_on_lock() => Some((op, lock, *item)),
        _ => None,
    })
}

fn with_sender(outcome: Outcome, shared: impl Fn(ThreadId) -> ThreadId) -> Outcome {
    match outcome {
        Outcome::Message { sender, number } => Outcome::Message {
            sender: shared(sender),
            number,
        },
        Outcome::Woken { sender, number } => Outcome::Woken {
            sender: shared(sender),
            number,
        },
        other => other,
    }
}

/// Cuts what a thread did into units.
fn units(items: &[Item]) -> Vec<Unit> {
    let mut units = vec![Unit {
        key: Key::Start,
        from: 0,
        to: 0,
        outcome: 0,
    }];
    for (at, item) in items.iter().enumerate() {
        if let Action::Event(event) = item.action
            && is_outcome(&event)
        {
            let outcome = match event.outcome {
                Outcome::Arm(_) => completion(items, at).unwrap_or(at),
                _ => at,
            };
            units.push(Unit {
                key: key(&items[outcome], &event),
                from: at,
                to: at,
                outcome,
            });
        }
        if let Some(unit) = units.last_mut() {
            unit.to = at + 1;
        }
    }
    units
}

/// Whether the thread learns something by it that it did not bring about itself.
const fn is_outcome(event: &Event) -> bool {
    match event.op {
        Op::SelectedRecv | Op::SelectedSend | Op::Notify => false,
        // Random bytes stay those of the run that passed.
        op if op.is_apart() => false,
        Op::Job => true,
        _ => !matches!(
            event.outcome,
            Outcome::Sent { .. } | Outcome::First | Outcome::Again | Outcome::Turn { .. }
        ),
    }
}

fn key(outcome: &Item, event: &Event) -> Key {
    let event = match outcome.action {
        Action::Event(completion) => completion,
        Action::Message { .. } => *event,
    };
    let extra = match event.outcome {
        Outcome::Message { sender, number } => return Key::Message(sender, number),
        Outcome::Value(value) | Outcome::Bytes { bytes: value, .. } => value,
        _ => 0,
    };
    Key::Other(event.op, event.channel, discriminant(&event.outcome), extra)
}

/// The item that completes the selection at `at`; between the two lies what the program
/// did while it made a message, further selections included.
fn completion(items: &[Item], at: usize) -> Option<usize> {
    let mut open = 0;
    for (at, item) in items.iter().enumerate().skip(at) {
        let Action::Event(event) = item.action else {
            continue;
        };
        match event.op {
            Op::Select | Op::TrySelect | Op::SelectDeadline
                if matches!(event.outcome, Outcome::Arm(_)) =>
            {
                open += 1;
            }
            Op::SelectedSend | Op::SelectedRecv => {
                open -= 1;
                if open == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}
