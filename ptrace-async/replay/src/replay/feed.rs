//! Records, handed to the tasks that they happened to, in the order of each group.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use rustc_hash::FxHashMap;

use crate::trace::event::{Ending, File, FileNumber, Group};
use crate::trace::{Error, Event, Reader, Record, Task};

/// The records that are still to come.
pub(super) struct Feed {
    inner: RefCell<Inner>,
}

struct Inner {
    reader: Reader,
    queues: FxHashMap<Group, Queue>,
    /// The groups of tasks as far as has been read, and as far as has been replayed.
    reading: FxHashMap<Task, Group>,
    playing: FxHashMap<Task, Group>,
    waiting: FxHashMap<Task, Waker>,
    files: FxHashMap<FileNumber, File>,
    read: u64,
    ended: Option<Ending>,
    /// All has been read.
    empty: bool,
    /// Nothing more is handed out.
    over: bool,
    error: Option<Error>,
}

#[derive(Default)]
struct Queue {
    records: VecDeque<(u64, Record)>,
    /// Whose turn it is.
    busy: Option<Task>,
    /// The group that this one has become part of.
    moved: Option<Group>,
}

impl Feed {
    pub(super) fn new(reader: Reader) -> Self {
        let mut reading = FxHashMap::default();
        reading.insert(Task(0), Group(0));
        Self {
            inner: RefCell::new(Inner {
                reader,
                queues: FxHashMap::default(),
                playing: reading.clone(),
                reading,
                waiting: FxHashMap::default(),
                files: FxHashMap::default(),
                read: 0,
                ended: None,
                empty: false,
                over: false,
                error: None,
            }),
        }
    }

    /// The next record of a task, with its number, when it is its turn, which it has until
    /// it asks again. `None` when there is none, or the replay is over.
    pub(super) async fn next(&self, task: Task) -> Option<(u64, Event)> {
        self.pass(task);
        poll_fn(|context| {
            let mut inner = self.inner.borrow_mut();
            inner.poll(task, context.waker())
        })
        .await
    }

    /// Gives up the turn, if the task has it.
    pub(super) fn pass(&self, task: Task) {
        self.inner.borrow_mut().pass(task);
    }

    /// A file that a record has named.
    pub(super) fn file(&self, number: FileNumber) -> Option<File> {
        self.inner.borrow().files.get(&number).cloned()
    }

    /// Nobody gets anything more.
    pub(super) fn end(&self) {
        let mut inner = self.inner.borrow_mut();
        inner.over = true;
        for (_, waker) in inner.waiting.drain() {
            waker.wake();
        }
    }

    /// How the first process ended, where the records of its first task do not say it.
    pub(super) fn ended(&self) -> Option<Ending> {
        let mut inner = self.inner.borrow_mut();
        // It is the last record, which nobody may have asked for.
        while !inner.over && !inner.empty {
            inner.read();
        }
        inner.ended
    }

    /// How many records have been read, and what went wrong.
    pub(super) fn finish(&self) -> (u64, Option<crate::trace::Tail>, Option<Error>) {
        let mut inner = self.inner.borrow_mut();
        (inner.read, inner.reader.tail(), inner.error.take())
    }
}

impl Inner {
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
            // Whoever is next has to read on.
            None => {
                for (_, waker) in self.waiting.drain() {
                    waker.wake();
                }
            }
        }
    }

    fn poll(&mut self, task: Task, waker: &Waker) -> Poll<Option<(u64, Event)>> {
        loop {
            if self.over {
                return Poll::Ready(None);
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
                    return Poll::Ready(Some((number, record.event)));
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
                for place in self.reading.values_mut().filter(|place| **place == group) {
                    *place = *other;
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
        for (_, waker) in self.waiting.drain() {
            waker.wake();
        }
    }
}
