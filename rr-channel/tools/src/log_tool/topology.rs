//! The threads that send to each other, by channel, and the threads that share locks.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use rr_channel_log::Outcome;
use rr_channel_log::identity::{ChannelId, ThreadId};
use serde::Serialize;

use super::source::{Source, name};
use crate::plural::counted;

#[derive(Debug, Serialize)]
pub(super) struct Topology {
    threads: BTreeMap<String, String>,
    channels: Vec<Channel>,
    locks: Vec<Lock>,
    /// Threads that send to each other, directly or through others.
    cycles: Vec<Vec<String>>,
}

#[derive(Debug, Serialize)]
struct Channel {
    channel: String,
    messages: u64,
    edges: Vec<Edge>,
}

#[derive(Debug, Serialize)]
struct Edge {
    from: String,
    to: String,
    messages: u64,
}

/// A lock, as far as it has a name: that is where it changed hands.
#[derive(Debug, Serialize)]
struct Lock {
    lock: String,
    /// Acquisitions after another thread, by who acquired it.
    handovers: BTreeMap<String, u64>,
}

type Messages = BTreeMap<(ThreadId, ThreadId), u64>;

impl Topology {
    pub(super) fn of(source: &mut Source) -> anyhow::Result<Self> {
        let mut channels: BTreeMap<ChannelId, Messages> = BTreeMap::new();
        let mut locks: BTreeMap<ChannelId, BTreeMap<ThreadId, u64>> = BTreeMap::new();
        for index in 0..source.threads.len() {
            let receiver = source.threads[index].id;
            source.for_each(index, |event| {
                let Some(object) = event.channel else {
                    return Ok(());
                };
                if let Outcome::Message { sender, .. } = event.outcome {
                    let messages = channels.entry(object).or_default();
                    *messages.entry((sender, receiver)).or_default() += 1;
                } else if event.op.is_on_lock() && matches!(event.outcome, Outcome::Turn { .. }) {
                    let handovers = locks.entry(object).or_default();
                    *handovers.entry(receiver).or_default() += 1;
                }
                Ok(())
            })?;
        }
        let cycles = cycles(channels.values().flat_map(BTreeMap::keys).copied());
        Ok(Topology {
            threads: source
                .names()
                .into_iter()
                .map(|(id, name)| (id.to_string(), name))
                .collect(),
            channels: channels
                .into_iter()
                .map(|(channel, messages)| Channel {
                    channel: name(channel, false),
                    messages: messages.values().sum(),
                    edges: messages
                        .into_iter()
                        .map(|((from, to), messages)| Edge {
                            from: from.to_string(),
                            to: to.to_string(),
                            messages,
                        })
                        .collect(),
                })
                .collect(),
            locks: locks
                .into_iter()
                .map(|(lock, handovers)| Lock {
                    lock: name(lock, true),
                    handovers: handovers
                        .into_iter()
                        .map(|(thread, count)| (thread.to_string(), count))
                        .collect(),
                })
                .collect(),
            cycles: cycles
                .into_iter()
                .map(|cycle| cycle.iter().map(ThreadId::to_string).collect())
                .collect(),
        })
    }

    pub(super) fn text(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut threads: Vec<_> = self.threads.iter().collect();
        threads.sort_by_key(|(id, _)| id[1..].parse::<u32>().unwrap_or(u32::MAX));
        for (id, name) in threads {
            writeln!(out, "{id:>4}  {name}")?;
        }
        for channel in &self.channels {
            writeln!(
                out,
                "\nchannel {}: {}",
                channel.channel,
                counted(channel.messages, "message")
            )?;
            for edge in &channel.edges {
                writeln!(
                    out,
                    "{:>10} -> {:4} {:>8}",
                    edge.from, edge.to, edge.messages
                )?;
            }
        }
        for lock in &self.locks {
            let total: u64 = lock.handovers.values().sum();
            writeln!(
                out,
                "\nlock {}: handed over {}",
                lock.lock,
                counted(total, "time")
            )?;
            for (thread, count) in &lock.handovers {
                writeln!(out, "        to {thread:4} {count:>8}")?;
            }
        }
        for cycle in &self.cycles {
            writeln!(
                out,
                "\nthreads that send to each other: {}",
                cycle.join(", ")
            )?;
        }
        Ok(())
    }
}

/// The strongly connected sets of more than one thread, each sorted.
fn cycles(edges: impl Iterator<Item = (ThreadId, ThreadId)>) -> Vec<Vec<ThreadId>> {
    let mut next: BTreeMap<ThreadId, BTreeSet<ThreadId>> = BTreeMap::new();
    let mut previous = next.clone();
    for (from, to) in edges {
        next.entry(from).or_default().insert(to);
        next.entry(to).or_default();
        previous.entry(to).or_default().insert(from);
    }
    // Kosaraju: by the order in which a search leaves them, then against the edges.
    let mut left = Vec::new();
    let mut seen = BTreeSet::new();
    for start in next.keys() {
        visit(*start, &next, &mut seen, &mut left);
    }
    let mut found = Vec::new();
    seen.clear();
    for start in left.into_iter().rev() {
        let mut set = Vec::new();
        visit(start, &previous, &mut seen, &mut set);
        if set.len() > 1 {
            set.sort();
            found.push(set);
        }
    }
    found.sort();
    found
}

/// Visits what can be reached from `start` and is not `seen`; in the order in which the
/// search leaves it.
fn visit(
    start: ThreadId,
    edges: &BTreeMap<ThreadId, BTreeSet<ThreadId>>,
    seen: &mut BTreeSet<ThreadId>,
    left: &mut Vec<ThreadId>,
) {
    if !seen.insert(start) {
        return;
    }
    let empty = BTreeSet::new();
    // Not recursive: a log may have a chain of any length.
    let mut path = vec![(start, edges.get(&start).unwrap_or(&empty).iter())];
    while let Some((thread, rest)) = path.last_mut() {
        match rest.next() {
            Some(to) if seen.insert(*to) => {
                path.push((*to, edges.get(to).unwrap_or(&empty).iter()));
            }
            Some(_) => {}
            None => {
                left.push(*thread);
                path.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(edges: &[(u32, u32)], expected: &[&[u32]]) {
        let edges = edges
            .iter()
            .map(|(from, to)| (ThreadId(*from), ThreadId(*to)));
        let found: Vec<Vec<u32>> = cycles(edges)
            .into_iter()
            .map(|cycle| cycle.into_iter().map(|id| id.0).collect())
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn threads_that_send_to_each_other_are_found() {
        check(&[(0, 1), (1, 2)], &[]);
        check(&[(0, 1), (1, 0)], &[&[0, 1]]);
        check(
            &[(0, 1), (1, 2), (2, 0), (2, 3), (4, 5), (5, 4)],
            &[&[0, 1, 2], &[4, 5]],
        );
        check(&[(0, 0)], &[]);
    }

    #[test]
    fn a_long_chain_is_no_trouble() {
        let chain: Vec<_> = (0..100_000).map(|n| (n, n + 1)).collect();
        check(&chain, &[]);
    }
}
