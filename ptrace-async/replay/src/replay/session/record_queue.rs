//! The queue of records: hands each record to its task, in the order of each group.
//!
//! Records can be held back from a number on ([`RecordQueue::limit`]). The tasks then rest
//! where they ask for their next record, and can be given a [`Request`] instead.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::trace::event::{Ending, File, FileNumber, Group};
use crate::trace::{Error, Event, Reader, Record, Task};

/// The next step of a task.
pub(in crate::replay) enum NextStep {
    /// To come to this record, which is this one of the trace, and which came so long after
    /// the one of the same task before it.
    Record(u64, Event, Duration),
    /// A request of the replayer.
    Request(Request),
}

/// A request to a task at rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::replay) enum Request {
    /// Describe itself.
    Describe,
    /// Describe itself, and make a frozen copy of its process.
    Freeze,
    /// Write to shared memory.
    WriteShared,
    /// Go on from its execution point to the next visit like it.
    GoOn,
}

/// How far records have been handed out, when all of them have been replayed.
pub(in crate::replay) struct QueuePosition {
    reader: Reader,
    reading: FxHashMap<Task, Group>,
    playing: FxHashMap<Task, Group>,
    times: FxHashMap<Task, u64>,
    moved: Vec<(Group, Group)>,
    read: u64,
    ended: Option<Ending>,
    empty: bool,
}

/// The records that are still to come.
pub(in crate::replay) struct RecordQueue {
    inner: RefCell<Inner>,
}

struct Inner {
    reader: Reader,
    queues: FxHashMap<Group, GroupQueue>,
    /// The groups of tasks as far as has been read, and as far as has been replayed.
    reading: FxHashMap<Task, Group>,
    playing: FxHashMap<Task, Group>,
    waiting: FxHashMap<Task, Waker>,
    /// When the last record of each task came, in milliseconds.
    times: FxHashMap<Task, u64>,
    /// Requests that wait, and tasks that answer one.
    requests: FxHashMap<Task, Request>,
    answering: FxHashSet<Task>,
    files: FxHashMap<FileNumber, File>,
    read: u64,
    /// Records from this one on are kept back.
    limit: u64,
    ended: Option<Ending>,
    /// Whether the trace has been read to its end.
    empty: bool,
    /// Whether nothing more is handed out.
    over: bool,
    error: Option<Error>,
}

#[derive(Default)]
struct GroupQueue {
    records: VecDeque<(u64, Record)>,
    /// The task that has the turn.
    busy: Option<Task>,
    /// The group that this one has become part of.
    moved: Option<Group>,
}

impl RecordQueue {
    pub(in crate::replay) fn new(reader: Reader) -> Self {
        let mut reading = FxHashMap::default();
        reading.insert(Task(0), Group(0));
        Self {
            inner: RefCell::new(Inner {
                reader,
                queues: FxHashMap::default(),
                playing: reading.clone(),
                reading,
                waiting: FxHashMap::default(),
                times: FxHashMap::default(),
                requests: FxHashMap::default(),
                answering: FxHashSet::default(),
                files: FxHashMap::default(),
                read: 0,
                limit: 0,
                ended: None,
                empty: false,
                over: false,
                error: None,
            }),
        }
    }

    /// The next record of a task, with its number, when it is its turn, which it has until
    /// it asks again; or an order. `None` when there is none, or the replay is over.
    pub(in crate::replay) async fn next(&self, task: Task) -> Option<NextStep> {
        self.pass(task);
        poll_fn(|context| {
            let mut inner = self.inner.borrow_mut();
            inner.poll(task, context.waker())
        })
        .await
    }

    /// Gives up the turn, if the task has it.
    pub(in crate::replay) fn pass(&self, task: Task) {
        let mut inner = self.inner.borrow_mut();
        inner.answering.remove(&task);
        inner.pass(task);
    }

    /// Hands out records up to this one, which is the first that is kept back.
    pub(in crate::replay) fn limit(&self, limit: u64) {
        let mut inner = self.inner.borrow_mut();
        inner.limit = limit;
        inner.wake_all();
    }

    /// How many records have been read.
    pub(in crate::replay) fn read(&self) -> u64 {
        self.inner.borrow().read
    }

    /// Whether the trace has been read to its end.
    pub(in crate::replay) fn is_empty(&self) -> bool {
        self.inner.borrow().empty
    }

    /// Whether all of so many tasks wait, and nobody is about to wake any: all that was to be
    /// handed out has been replayed, or what comes next is for none of them.
    pub(in crate::replay) fn is_at_rest(&self, live: usize) -> bool {
        let inner = self.inner.borrow();
        inner.requests.is_empty()
            && inner.answering.is_empty()
            && inner.waiting.len() == live
            && inner.queues.values().all(|queue| queue.busy.is_none())
    }

    /// Whether two tasks take turns.
    pub(in crate::replay) fn are_together(&self, one: Task, other: Task) -> bool {
        let inner = self.inner.borrow();
        let group = |task| {
            let mut group = inner.playing.get(&task).copied().unwrap_or_default();
            while let Some(to) = inner.queues.get(&group).and_then(|queue| queue.moved) {
                group = to;
            }
            group
        };
        group(one) == group(other)
    }

    /// A record that has been read and is nobody's, if there is one; to be asked at rest.
    pub(in crate::replay) fn left(&self) -> Option<(u64, Task)> {
        let inner = self.inner.borrow();
        let first =
            |queue: &GroupQueue| queue.records.front().map(|(at, record)| (*at, record.task));
        inner.queues.values().filter_map(first).min()
    }

    /// Whether nothing more is handed out.
    pub(in crate::replay) fn is_over(&self) -> bool {
        self.inner.borrow().over
    }

    /// The tasks that wait for a record.
    pub(in crate::replay) fn waiting(&self) -> Vec<Task> {
        let mut tasks: Vec<Task> = self.inner.borrow().waiting.keys().copied().collect();
        tasks.sort_unstable();
        tasks
    }

    /// Asks a waiting task for something.
    pub(in crate::replay) fn request(&self, task: Task, request: Request) {
        let mut inner = self.inner.borrow_mut();
        if let Some(waker) = inner.waiting.remove(&task) {
            inner.requests.insert(task, request);
            waker.wake();
        }
    }

    /// Where it is; to be asked at rest.
    ///
    /// # Errors
    /// When the records cannot be opened once more.
    pub(in crate::replay) fn position(&self) -> Result<QueuePosition, Error> {
        let inner = self.inner.borrow();
        let moved = |(from, queue): (&Group, &GroupQueue)| Some((*from, queue.moved?));
        Ok(QueuePosition {
            reader: inner.reader.reopen()?,
            reading: inner.reading.clone(),
            playing: inner.playing.clone(),
            times: inner.times.clone(),
            moved: inner.queues.iter().filter_map(moved).collect(),
            read: inner.read,
            ended: inner.ended,
            empty: inner.empty,
        })
    }

    /// Moves to a position, back or forward, while no task waits.
    ///
    /// # Errors
    /// When the records cannot be opened once more.
    pub(in crate::replay) fn go_to(&self, position: &QueuePosition) -> Result<(), Error> {
        let reader = position.reader.reopen()?;
        let mut inner = self.inner.borrow_mut();
        inner.reader = reader;
        inner.queues = FxHashMap::default();
        for &(from, to) in &position.moved {
            inner.queues.entry(from).or_default().moved = Some(to);
        }
        inner.reading.clone_from(&position.reading);
        inner.playing.clone_from(&position.playing);
        inner.requests.clear();
        inner.answering.clear();
        inner.times.clone_from(&position.times);
        (inner.read, inner.limit) = (position.read, position.read);
        (inner.ended, inner.empty) = (position.ended, position.empty);
        inner.over = false;
        inner.error = None;
        Ok(())
    }

    /// The number of the record that is the next of a task but `skipped`; nothing if there is
    /// none.
    ///
    /// # Errors
    /// When the records cannot be read.
    pub(in crate::replay) fn find(&self, task: Task, skipped: u64) -> Result<Option<u64>, Error> {
        let inner = self.inner.borrow();
        let mut left = skipped;
        for (number, record) in (inner.read..).zip(inner.reader.reopen()?) {
            let record = record?;
            if record.task == task && !is_read_aside(&record.event) {
                if left == 0 {
                    return Ok(Some(number));
                }
                left -= 1;
            }
        }
        Ok(None)
    }

    /// A file that a record has named.
    pub(in crate::replay) fn file(&self, number: FileNumber) -> Option<File> {
        self.inner.borrow().files.get(&number).cloned()
    }

    /// Ends the queue: nothing more is handed out.
    pub(in crate::replay) fn end(&self) {
        let mut inner = self.inner.borrow_mut();
        inner.over = true;
        inner.wake_all();
    }

    /// Reads on up to the limit, past records that belong to no task.
    pub(in crate::replay) fn drain(&self) {
        let mut inner = self.inner.borrow_mut();
        while !inner.over && !inner.empty && inner.read < inner.limit {
            inner.read();
        }
    }

    /// How the first process ended, where the records of its first task do not say it, as far
    /// as has been read.
    pub(in crate::replay) fn ended(&self) -> Option<Ending> {
        self.inner.borrow().ended
    }

    /// How the trace ends, once it has been read to its end.
    pub(in crate::replay) fn tail(&self) -> Option<crate::trace::Tail> {
        self.inner.borrow().reader.tail()
    }

    /// The error of the trace, if there is one.
    pub(in crate::replay) fn error(&self) -> Option<Error> {
        self.inner.borrow_mut().error.take()
    }
}

/// Whether a record is for no task to reach.
fn is_read_aside(event: &Event) -> bool {
    matches!(event, Event::File(_) | Event::Ended(_))
}

impl Inner {
    fn wake_all(&mut self) {
        for (_, waker) in self.waiting.drain() {
            waker.wake();
        }
    }

    fn pass(&mut self, task: Task) {
        let Some(group) = self.playing.get(&task) else {
            return;
        };
        let Some(queue) = self.queues.get_mut(group) else {
            return;
        };
        if queue.busy != Some(task) {
            return;
        }
        queue.busy = None;
        match queue.records.front() {
            Some((_, record)) => {
                if let Some(waker) = self.waiting.remove(&record.task) {
                    waker.wake();
                }
            }
            // The next task has to read on.
            None => self.wake_all(),
        }
    }

    fn poll(&mut self, task: Task, waker: &Waker) -> Poll<Option<NextStep>> {
        loop {
            if self.over {
                return Poll::Ready(None);
            }
            if let Some(request) = self.requests.remove(&task) {
                self.answering.insert(task);
                return Poll::Ready(Some(NextStep::Request(request)));
            }
            let group = self.playing.get(&task).copied().unwrap_or_default();
            let queue = self.queues.entry(group).or_default();
            if queue.busy.is_some_and(|other| other != task) {
                break;
            }
            match queue.records.front() {
                Some((_, record)) if record.task == task => {
                    let Some((number, record)) = queue.records.pop_front() else {
                        return Poll::Ready(None);
                    };
                    queue.busy = Some(task);
                    self.play(task, &record.event);
                    let before = self.times.insert(task, record.time).unwrap_or_default();
                    let took = record.time.saturating_sub(before).saturating_add(1);
                    let took = Duration::from_millis(took);
                    return Poll::Ready(Some(NextStep::Record(number, record.event, took)));
                }
                Some((_, record)) => {
                    let other = record.task;
                    if let Some(waker) = self.waiting.remove(&other) {
                        waker.wake();
                    }
                    break;
                }
                None => match queue.moved {
                    Some(to) => {
                        self.playing.insert(task, to);
                    }
                    None if self.empty => {
                        if self.is_drained() {
                            return Poll::Ready(None);
                        }
                        break;
                    }
                    None if self.read >= self.limit => break,
                    None => self.read(),
                },
            }
        }
        self.waiting.insert(task, waker.clone());
        Poll::Pending
    }

    /// Whether the last record has been replayed.
    fn is_drained(&self) -> bool {
        self.empty
            && self
                .queues
                .values()
                .all(|queue| queue.records.is_empty() && queue.busy.is_none())
    }

    /// Groups change when records that say so are handed out.
    fn play(&mut self, task: Task, event: &Event) {
        match event {
            Event::Spawned(spawned) => {
                self.playing.insert(spawned.child, spawned.group);
            }
            Event::Image(image) => {
                // It has the turn of its new group, and gives up that of the old one.
                self.pass(task);
                self.playing.insert(task, image.group);
                self.queues.entry(image.group).or_default().busy = Some(task);
            }
            _ => {}
        }
    }

    /// Reads one record, and puts it where it belongs.
    fn read(&mut self) {
        let record = match self.reader.next() {
            Some(Ok(record)) => record,
            None => return self.stop(),
            Some(Err(error)) => {
                self.error = Some(error);
                return self.stop();
            }
        };
        let record = match record {
            Record {
                event: Event::File(file),
                ..
            } => {
                self.read += 1;
                self.files.insert(file.number, *file);
                return;
            }
            // Its task may be gone by then.
            Record {
                event: Event::Ended(ending),
                ..
            } => {
                self.read += 1;
                self.ended = Some(ending);
                return;
            }
            other => other,
        };
        let number = self.read;
        self.read += 1;
        let task = record.task;
        let group = self.reading.get(&task).copied().unwrap_or_default();
        match &record.event {
            Event::Spawned(spawned) => {
                self.reading.insert(spawned.child, spawned.group);
            }
            Event::Image(image) => {
                self.reading.insert(task, image.group);
            }
            Event::Joined(other) => {
                for member in self.reading.values_mut().filter(|member| **member == group) {
                    *member = *other;
                }
                let queue = self.queues.entry(group).or_default();
                queue.moved = Some(*other);
            }
            _ => {}
        }
        let queue = self.queues.entry(group).or_default();
        queue.records.push_back((number, record));
        if queue.busy.is_none()
            && let Some(waker) = self.waiting.remove(&task)
        {
            waker.wake();
        }
    }

    fn stop(&mut self) {
        self.empty = true;
        self.wake_all();
    }
}
