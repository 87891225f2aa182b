//! A tiny search engine: shards are searched by threads, and answers are merged.
//!
//! It works. Its tests do not always pass: some take for granted what the scheduler or the
//! clock decides, as tests of real programs do.

use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};

/// The result of a shard: its number, and how many documents it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The shard's number.
    pub shard: usize,
    /// The documents that match.
    pub found: usize,
}

/// Searches each shard in a thread of its own; answers come as they are ready.
pub fn search(shards: Vec<Vec<&'static str>>, word: &'static str) -> Receiver<Answer> {
    let (answers, all) = unbounded();
    for (shard, documents) in shards.into_iter().enumerate() {
        let answers = answers.clone();
        thread::spawn(move || {
            let found = documents.iter().filter(|text| text.contains(word)).count();
            // Nobody may want the answer any more.
            let _ = answers.send(Answer { shard, found });
        });
    }
    all
}

/// A cache that a thread keeps; `get` and `put` are messages to it.
#[derive(Debug, Clone)]
pub struct Counter {
    get: Sender<Sender<u32>>,
    put: Sender<u32>,
}

impl Counter {
    /// Starts the thread.
    pub fn start() -> Counter {
        let (get, gets) = unbounded::<Sender<u32>>();
        let (put, puts) = unbounded();
        thread::spawn(move || {
            let mut value = 0;
            loop {
                select! {
                    recv(gets) -> reply => match reply {
                        Ok(reply) => { let _ = reply.send(value); }
                        Err(_) => return,
                    },
                    recv(puts) -> new => match new {
                        Ok(new) => value = new,
                        Err(_) => return,
                    },
                }
            }
        });
        Counter { get, put }
    }

    /// The value.
    pub fn get(&self) -> u32 {
        let (reply, answer) = bounded(1);
        let _ = self.get.send(reply);
        answer.recv().unwrap_or(0)
    }

    /// Changes the value.
    pub fn put(&self, value: u32) {
        let _ = self.put.send(value);
    }

    /// Adds one, in two steps: two threads may do so at the same time and add one only.
    pub fn increment(&self) {
        let value = self.get();
        self.put(value + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    fn library() -> Vec<Vec<&'static str>> {
        vec![
            vec!["the quick brown fox", "jumps over", "the lazy dog"],
            vec!["a fox in the henhouse", "no dogs allowed"],
            vec!["nothing of the kind"],
        ]
    }

    #[test]
    fn every_shard_answers() {
        let mut shards: Vec<_> = search(library(), "fox")
            .iter()
            .map(|answer| answer.shard)
            .collect();
        shards.sort_unstable();
        assert_eq!(shards, [0, 1, 2]);
    }

    #[test]
    fn all_matches_are_counted() {
        let found: usize = search(library(), "the")
            .iter()
            .map(|answer| answer.found)
            .sum();
        assert_eq!(found, 4);
    }

    #[test]
    fn an_empty_library_has_no_answers() {
        assert_eq!(search(Vec::new(), "fox").iter().count(), 0);
    }

    #[test]
    fn one_increment_after_the_other_is_counted() {
        let counter = Counter::start();
        for expected in 0..3 {
            while counter.get() != expected {}
            counter.increment();
        }
    }

    /// Takes for granted that answers come in the order of the shards.
    #[test]
    fn answers_come_in_order() {
        let shards: Vec<_> = search(library(), "fox")
            .iter()
            .map(|answer| answer.shard)
            .collect();
        assert_eq!(shards, [0, 1, 2]);
    }

    /// Takes for granted that a message that was sent first is received first, though it
    /// went through another channel.
    #[test]
    fn what_is_put_is_got() {
        let counter = Counter::start();
        counter.put(7);
        assert_eq!(counter.get(), 7);
    }

    /// Takes for granted that an increment is not interrupted by another one.
    #[test]
    fn increments_add_up() {
        let counter = Counter::start();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    counter.increment();
                    counter.get()
                });
            }
        });
        while counter.get() == 0 {}
        assert_eq!(counter.get(), 2);
    }

    /// Takes for granted what the clock says: no order of messages decides this.
    #[test]
    fn the_clock_is_even() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        assert_eq!(now.unwrap_or_default().as_micros() % 2, 0);
    }
}
