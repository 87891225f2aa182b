//! Prints every event of a recording.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use rr_channel_log::{Content, Event, Payload};
use serde::Serialize;

use super::fold::{Fold, Run};
use super::source::{End, Source, bytes, kind, number, object, payload, process, sender};

/// For people: runs of events in one line each.
pub(super) fn text(source: &mut Source, out: &mut dyn Write) -> anyhow::Result<()> {
    for index in 0..source.threads.len() {
        let thread = &source.threads[index];
        if index > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}  {}", thread.id, thread.dti)?;
        events(source, index, |_| true, str::to_owned, out)?;
    }
    if !source.carried.is_empty() {
        writeln!(out, "\nchannels")?;
    }
    for (channel, of) in &source.carried {
        writeln!(out, "  {:>8}  carries {of}", channel.to_string())?;
    }
    if !source.payloads.is_empty() {
        writeln!(out, "\nmessages")?;
    }
    for ((sender, number), held) in &source.payloads {
        writeln!(out, "  {number:>8}  of {sender}: {}", payload(held))?;
    }
    if !source.processes.is_empty() {
        writeln!(out, "\nprocesses")?;
    }
    for started in &source.processes {
        writeln!(out, "  {}", process(started))?;
    }
    Ok(())
}

/// The same in words that two recordings have in common: threads by their names, in the order
/// of these, and no random bytes.
pub(super) fn text_by_name(source: &mut Source, out: &mut dyn Write) -> anyhow::Result<()> {
    let names: BTreeMap<String, String> = source
        .names()
        .into_iter()
        .map(|(id, name)| (id.to_string(), name))
        .collect();
    source.threads.sort_by(|a, b| a.dti.cmp(&b.dti));
    for index in 0..source.threads.len() {
        if index > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}", source.threads[index].dti)?;
        let is_shown = |event: &Event| !event.op.is_apart();
        events(source, index, is_shown, |text| named(text, &names), out)?;
    }
    Ok(())
}

/// An event's text with the names of threads in place of their numbers.
fn named(text: &str, names: &BTreeMap<String, String>) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric();
    let mut named = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_word) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c| !is_word(c)).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        named.push_str(before);
        named.push_str(names.get(word).map_or(word, |name| name));
        rest = after;
    }
    named + rest
}

/// The events of a thread that are `shown`, in words that are changed by `say`, and how its log
/// ends.
fn events(
    source: &mut Source,
    index: usize,
    is_shown: impl Fn(&Event) -> bool,
    say: impl Fn(&str) -> String,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut fold = Fold::default();
    let mut total = 0;
    let end = source.for_each(index, |event| {
        if !is_shown(&event) {
            return Ok(());
        }
        total += 1;
        fold.push(event).map_or(Ok(()), |run| line(&run, &say, out))
    })?;
    if let Some(run) = fold.finish() {
        line(&run, &say, out)?;
    }
    let what = match end {
        End::Ended => "the thread ended",
        End::CutOff => "the thread was cut off",
        End::Incomplete => "recording stopped here",
        End::Damaged => "the log is damaged here",
    };
    writeln!(out, "  {total:>8}  {what}")?;
    Ok(())
}

fn line(run: &Run, say: impl Fn(&str) -> String, out: &mut dyn Write) -> anyhow::Result<()> {
    write!(out, "  {:>8}  {}", run.at, say(&run.text()))?;
    if run.count > 1 {
        write!(out, "  ({} times)", run.count)?;
    }
    writeln!(out)?;
    Ok(())
}

#[derive(Serialize)]
struct ThreadLine<'a> {
    thread: u32,
    name: &'a str,
}

#[derive(Serialize)]
struct ChannelLine<'a> {
    channel: String,
    carries: &'a str,
}

#[derive(Serialize)]
struct MessageLine {
    sender: u32,
    message: u64,
    size: u64,
    /// Hexadecimal digits, of the first bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<String>,
    /// Hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
}

impl MessageLine {
    fn new(sender: u32, message: u64, payload: &Payload) -> Self {
        let (bytes, hash) = match &payload.content {
            Content::Unknown => (None, None),
            Content::Hash(hash) => (None, Some(format!("{hash:016x}"))),
            Content::Bytes(bytes) => {
                let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
                (Some(digits.collect()), None)
            }
        };
        MessageLine {
            sender,
            message,
            size: payload.size,
            bytes,
            hash,
        }
    }
}

#[derive(Serialize)]
struct ProcessLine<'a> {
    process: u32,
    /// The thread that started it.
    thread: u32,
    /// Which of the thread's processes it is, from 1.
    count: u32,
    log: Option<&'a Path>,
}

#[derive(Serialize)]
struct EventLine {
    thread: u32,
    event: u64,
    op: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<String>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    /// Hexadecimal digits, of eight bytes at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<String>,
    /// Whether the next event has more of the same bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<bool>,
}

#[derive(Serialize)]
struct EndLine {
    thread: u32,
    events: u64,
    end: End,
}

/// For programs: a line of JSON for each thread, each event, each end of a log, each channel
/// and each message of which it is known what it carries, and each process that was started.
pub(super) fn json(source: &mut Source, out: &mut dyn Write) -> anyhow::Result<()> {
    for index in 0..source.threads.len() {
        let thread = source.threads[index].id.0;
        let name = &source.threads[index].dti.to_string();
        json_line(&ThreadLine { thread, name }, out)?;
        let mut events = 0;
        let end = source.for_each(index, |event| {
            let line = EventLine::new(thread, events, &event);
            events += 1;
            json_line(&line, out)
        })?;
        let line = EndLine {
            thread,
            events,
            end,
        };
        json_line(&line, out)?;
    }
    for (channel, carries) in &source.carried {
        let channel = channel.to_string();
        json_line(&ChannelLine { channel, carries }, out)?;
    }
    for ((sender, number), payload) in &source.payloads {
        json_line(&MessageLine::new(sender.0, *number, payload), out)?;
    }
    for (process, log) in &source.processes {
        let line = ProcessLine {
            process: process.number,
            thread: process.thread.0,
            count: process.count,
            log: log.as_deref(),
        };
        json_line(&line, out)?;
    }
    Ok(())
}

impl EventLine {
    fn new(thread: u32, at: u64, event: &Event) -> Self {
        let (bytes, more) = bytes(&event.outcome).unzip();
        EventLine {
            thread,
            event: at,
            op: event.op.as_str(),
            object: object(event),
            outcome: kind(&event.outcome),
            sender: sender(&event.outcome).map(|sender| sender.0),
            number: number(&event.outcome),
            bytes,
            more,
        }
    }
}

fn json_line(line: &impl Serialize, out: &mut dyn Write) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    writeln!(out)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_their_names_and_nothing_else_has() {
        let names = [("t1", "main"), ("t12", "main/~5")];
        let names = names.map(|(id, name)| (id.to_owned(), name.to_owned()));
        let names = BTreeMap::from(names);
        assert_eq!(
            named("recv on t12.c1: message 1 of t1", &names),
            "recv on main/~5.c1: message 1 of main"
        );
        assert_eq!(
            named("lock on t2.l1: first", &names),
            "lock on t2.l1: first"
        );
        assert_eq!(named("select: arm 1 (t1)", &names), "select: arm 1 (main)");
    }
}
