//! Counts events by kind, thread and channel.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Serialize;

use super::source::{End, Source, kind, name, process};

#[derive(Debug, Serialize)]
pub(super) struct Stats {
    program: Option<String>,
    events: u64,
    bytes: u64,
    threads: Vec<Thread>,
    /// Events by operation and kind of outcome.
    operations: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    /// Events by channel or lock.
    objects: BTreeMap<String, u64>,
    /// Processes that were started, in words.
    processes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Thread {
    thread: u32,
    name: String,
    events: u64,
    bytes: u64,
    end: End,
}

/// Objects and threads with a line of their own, at most.
const LINES: usize = 20;

impl Stats {
    pub(super) fn of(source: &mut Source) -> anyhow::Result<Self> {
        let mut stats = Stats {
            program: source.program.clone(),
            events: 0,
            bytes: 0,
            threads: Vec::new(),
            operations: BTreeMap::new(),
            objects: BTreeMap::new(),
            processes: source.processes.iter().map(process).collect(),
        };
        // Counted by what is compared quickly, and named afterwards.
        let mut operations = BTreeMap::new();
        let mut objects: BTreeMap<_, u64> = BTreeMap::new();
        for index in 0..source.threads.len() {
            let mut events = 0;
            let end = source.for_each(index, |event| {
                events += 1;
                let key = (event.op.as_str(), kind(&event.outcome));
                *operations.entry(key).or_insert(0) += 1;
                if let Some(channel) = event.channel {
                    *objects.entry((channel, event.op.is_on_lock())).or_default() += 1;
                }
                Ok(())
            })?;
            let thread = &source.threads[index];
            let bytes = thread.log.as_ref().map_or(0, |log| log.body_len() as u64);
            stats.events += events;
            stats.bytes += bytes;
            stats.threads.push(Thread {
                thread: thread.id.0,
                name: thread.dti.to_string(),
                events,
                bytes,
                end,
            });
        }
        for ((op, outcome), count) in operations {
            let op: &mut BTreeMap<_, _> = stats.operations.entry(op).or_default();
            op.insert(outcome, count);
        }
        for ((channel, is_lock), count) in objects {
            stats.objects.insert(name(channel, is_lock), count);
        }
        Ok(stats)
    }

    pub(super) fn text(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        if let Some(program) = &self.program {
            writeln!(out, "program  {program}")?;
        }
        writeln!(out, "threads  {}", self.threads.len())?;
        writeln!(out, "events   {}", self.events)?;
        write!(out, "bytes    {}", self.bytes)?;
        if self.events > 0 {
            write!(
                out,
                " ({:.3} per event)",
                self.bytes as f64 / self.events as f64
            )?;
        }
        writeln!(out)?;

        if !self.operations.is_empty() {
            writeln!(out, "\n  events  operation")?;
        }
        for (op, outcomes) in &self.operations {
            for (outcome, count) in outcomes {
                writeln!(out, "{count:>8}  {op}: {}", outcome.replace('_', " "))?;
            }
        }

        let mut objects: Vec<_> = self.objects.iter().collect();
        objects.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        if !objects.is_empty() {
            writeln!(out, "\n  events  channel (c) or lock (l)")?;
        }
        for (object, count) in objects.iter().take(LINES) {
            writeln!(out, "{count:>8}  {object}")?;
        }
        more(objects.len(), out)?;

        let mut threads: Vec<_> = self.threads.iter().collect();
        threads.sort_by_key(|thread| std::cmp::Reverse(thread.events));
        if !threads.is_empty() {
            writeln!(out, "\n  events     bytes  end         thread")?;
        }
        for thread in threads.iter().take(LINES) {
            writeln!(
                out,
                "{:>8}  {:>8}  {:10}  t{} {}",
                thread.events,
                thread.bytes,
                thread.end.as_str(),
                thread.thread,
                thread.name
            )?;
        }
        more(threads.len(), out)?;

        if !self.processes.is_empty() {
            writeln!(out)?;
        }
        for process in self.processes.iter().take(LINES) {
            writeln!(out, "{process}")?;
        }
        more(self.processes.len(), out)
    }
}

fn more(len: usize, out: &mut dyn Write) -> anyhow::Result<()> {
    if len > LINES {
        writeln!(out, "          and {} more", len - LINES)?;
    }
    Ok(())
}
