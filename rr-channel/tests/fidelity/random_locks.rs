//! Random programs made of locks, wake-ups and a channel.
//!
//! As in [`random`](crate::random), a seed decides the operations of each thread, and the run
//! decides their outcomes. No operation waits forever, and a second lock is only tried for while
//! the first is held, so no program hangs by itself.

use std::time::Duration;

use rr_channel::crossbeam_channel::{Receiver, Sender, bounded};
use rr_channel::sync::{Arc, Barrier, Condvar, Mutex, OnceLock, RwLock};
use rr_channel::thread::{self, Thread};

use crate::random::Seeded;

const BRIEF: Duration = Duration::from_micros(200);

struct Shared {
    mutexes: Vec<(Mutex<Vec<u64>>, Condvar)>,
    rwlocks: Vec<RwLock<u64>>,
    cells: Vec<OnceLock<u64>>,
    start: Barrier,
    channel: (Sender<u64>, Receiver<u64>),
    threads: Mutex<Vec<Thread>>,
}

struct Script {
    who: u64,
    random: Seeded,
    shared: Arc<Shared>,
    seen: Vec<String>,
}

impl Script {
    fn saw(&mut self, what: &impl std::fmt::Debug) {
        self.seen.push(format!("{what:?}"));
    }

    fn pick(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn step(&mut self, n: u64) {
        let shared = Arc::clone(&self.shared);
        let (mutex, changed) = &shared.mutexes[self.pick(shared.mutexes.len())];
        let (other, _) = &shared.mutexes[self.pick(shared.mutexes.len())];
        let rwlock = &shared.rwlocks[self.pick(shared.rwlocks.len())];
        let cell = &shared.cells[self.pick(shared.cells.len())];
        match self.random.below(13) {
            0 | 1 => {
                let mut guard = mutex.lock().unwrap();
                guard.push(self.who);
                self.saw(&guard.len());
            }
            2 => {
                let mut guard = mutex.lock().unwrap();
                guard.push(self.who);
                // The same one, perhaps.
                let second = other.try_lock().map(|other| other.len());
                self.saw(&(guard.len(), second.ok()));
            }
            3 => {
                let guard = mutex.lock().unwrap();
                let (guard, timeout) = changed.wait_timeout(guard, BRIEF).unwrap();
                let last = guard.last().copied();
                drop(guard);
                self.saw(&(timeout.timed_out(), last));
            }
            4 => {
                mutex.lock().unwrap().push(n);
                changed.notify_one();
            }
            5 => changed.notify_all(),
            6 => {
                let value = *rwlock.read().unwrap();
                self.saw(&value);
            }
            7 => {
                let mut guard = rwlock.write().unwrap();
                *guard = *guard * 3 + self.who;
                self.saw(&*guard);
            }
            8 => {
                let read = rwlock.try_read().map(|value| *value).ok();
                let written = rwlock.try_write().map(|mut value| *value += 1).is_ok();
                self.saw(&(read, written));
            }
            9 => {
                let before = cell.get().copied();
                let value = *cell.get_or_init(|| n * 10 + self.who);
                self.saw(&(before, value));
            }
            10 => thread::park_timeout(BRIEF),
            11 => {
                let threads = shared.threads.lock().unwrap();
                if !threads.is_empty() {
                    threads[self.pick(threads.len())].unpark();
                }
            }
            _ => {
                let sent = shared.channel.0.send_timeout(n, BRIEF).is_ok();
                self.saw(&(sent, shared.channel.1.try_recv().ok()));
            }
        }
        if self.random.below(4) == 0 {
            thread::yield_now();
        }
    }
}

/// Runs the program that `seed` stands for.
pub(crate) fn run(seed: u64) -> Vec<String> {
    let mut random = Seeded(seed);
    random.below(2);
    let count = 2 + random.below(3);
    let shared = Arc::new(Shared {
        mutexes: (0..1 + random.below(3))
            .map(|_| Default::default())
            .collect(),
        rwlocks: (0..1 + random.below(2)).map(|_| RwLock::new(1)).collect(),
        cells: (0..10).map(|_| OnceLock::new()).collect(),
        start: Barrier::new(count as usize),
        channel: bounded(2),
        threads: Mutex::default(),
    });
    let threads: Vec<_> = (0..count)
        .map(|who| {
            let mut script = Script {
                who,
                random: Seeded(seed ^ (who + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
                shared: Arc::clone(&shared),
                seen: Vec::new(),
            };
            let handle = thread::spawn(move || {
                let leads = script.shared.start.wait().is_leader();
                script.saw(&leads);
                for n in 0..60 {
                    script.step(n);
                }
                format!("thread {who} {:?}", script.seen)
            });
            let thread = handle.thread().clone();
            shared.threads.lock().unwrap().push(thread);
            handle
        })
        .collect();
    threads
        .into_iter()
        .map(|handle| handle.join().unwrap())
        .collect()
}
