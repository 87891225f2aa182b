//! Random programs made of channel operations.
//!
//! A seed decides the number of threads, their channels, and the operations of each thread; the
//! run decides the outcomes of the operations. No operation waits forever, so no program hangs by
//! itself.

use std::time::Duration;

use rr_channel::crossbeam_channel::{Receiver, Select, Sender, bounded, select, tick, unbounded};
use rr_channel::thread;

/// A small generator (Knuth's constants), so that a seed is a program for good.
#[derive(Clone)]
pub(crate) struct Seeded(pub(crate) u64);

impl Seeded {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

type Message = (u64, u64);

struct Script {
    who: u64,
    random: Seeded,
    ends: Vec<(Sender<Message>, Receiver<Message>)>,
    seen: Vec<String>,
}

const BRIEF: Duration = Duration::from_micros(200);

impl Script {
    fn saw(&mut self, what: &impl std::fmt::Debug) {
        self.seen.push(format!("{what:?}"));
    }

    fn step(&mut self, n: u64) {
        let pick = |script: &mut Script| {
            let at = script.random.below(script.ends.len() as u64) as usize;
            script.ends[at].clone()
        };
        let message = (self.who, n);
        let (s, r) = pick(self);
        let (s2, r2) = pick(self);
        match self.random.below(11) {
            0 | 1 => self.saw(&s.send_timeout(message, BRIEF)),
            2 => self.saw(&s.try_send(message)),
            3 | 4 => self.saw(&r.recv_timeout(BRIEF)),
            5 => self.saw(&r.try_recv()),
            6 => {
                let got = select! {
                    recv(r) -> got => Some(got),
                    recv(r2) -> got => Some(got),
                    default(BRIEF) => None,
                };
                self.saw(&got);
            }
            7 => {
                let done = select! {
                    send(s, message) -> sent => format!("{sent:?}"),
                    recv(r2) -> got => format!("{got:?}"),
                    default(BRIEF) => "nothing".to_owned(),
                };
                self.saw(&done);
            }
            8 => {
                let mut select = Select::new();
                select.send(&s);
                select.send(&s2);
                match select.select_timeout(BRIEF) {
                    Ok(operation) if operation.index() == 0 => {
                        self.saw(&(0, operation.send(&s, message)));
                    }
                    Ok(operation) => self.saw(&(1, operation.send(&s2, message))),
                    Err(error) => self.saw(&error),
                }
            }
            9 => {
                let mut select = Select::new_biased();
                select.recv(&r);
                select.send(&s2);
                let ready = select.ready_timeout(BRIEF);
                self.saw(&(ready, r.try_recv(), s2.try_send(message)));
            }
            _ => self.saw(&(s.len(), r.is_empty(), s2.is_full())),
        }
        if self.random.below(12) == 0 && self.ends.len() > 1 {
            let at = self.random.below(self.ends.len() as u64) as usize;
            self.ends.swap_remove(at);
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
    let channels: Vec<_> = (0..1 + random.below(4))
        .map(|_| match random.below(4) {
            0 => unbounded(),
            capacity => bounded(capacity as usize - 1),
        })
        .collect();
    let pulse = tick(BRIEF);
    let threads: Vec<_> = (0..2 + random.below(3))
        .map(|who| {
            let random = Seeded(seed ^ (who + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut script = Script {
                who,
                random,
                ends: channels.clone(),
                seen: Vec::new(),
            };
            thread::spawn(move || {
                for n in 0..40 {
                    script.step(n);
                }
                format!("thread {who} {:?}", script.seen)
            })
        })
        .collect();
    drop(channels);
    let ticked = pulse.recv().is_ok();
    let mut outcome: Vec<_> = threads
        .into_iter()
        .map(|handle| handle.join().unwrap())
        .collect();
    outcome.push(format!("main {ticked}"));
    outcome
}
