//! The source of everything that is shown: a recording, or one thread's log.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rr_channel_log::identity::{ChannelId, Dti, ThreadId};
use rr_channel_log::{Content, Event, Outcome, Payload, Recording, StartedProcess, ThreadLog};
use serde::Serialize;

use crate::plural::counted;

/// Threads and their logs.
#[derive(Debug)]
pub(super) struct Source {
    /// The recorded program; `None` for a single log.
    pub(super) program: Option<String>,
    /// Where the recording is; `None` for a single log.
    pub(super) dir: Option<PathBuf>,
    pub(super) threads: Vec<Thread>,
    /// The types of messages, by channel, where they are known.
    pub(super) carried: Vec<(ChannelId, String)>,
    /// The processes that it started, and where their parts of the recording are.
    pub(super) processes: Vec<(StartedProcess, Option<PathBuf>)>,
    /// The contents of messages, where they were recorded.
    pub(super) payloads: BTreeMap<(ThreadId, u64), Payload>,
    /// The parts that could not be read.
    pub(super) problems: Vec<String>,
}

/// One thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) id: ThreadId,
    pub(super) dti: Dti,
    pub(super) log: Option<ThreadLog>,
}

/// How a thread's log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum End {
    /// The thread ended.
    Ended,
    /// The thread was still there when the process ended.
    CutOff,
    /// Recording stopped before the thread did.
    Incomplete,
    /// The log cannot be read, or not to its end.
    Damaged,
}

impl End {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            End::Ended => "ended",
            End::CutOff => "cut off",
            End::Incomplete => "incomplete",
            End::Damaged => "damaged",
        }
    }
}

impl Source {
    /// Opens a recording's directory, a directory with one below it, or a log.
    ///
    /// # Errors
    /// If there is no such thing. Damage to single logs is a [problem](Source::problems).
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let meta = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        if meta.is_dir() {
            return Source::recording(&find(path)?);
        }
        if path.file_name().is_some_and(|name| name == "session") {
            return Source::recording(path.parent().unwrap_or(Path::new(".")));
        }
        let log = ThreadLog::open(path).with_context(|| path.display().to_string())?;
        Ok(Source {
            program: None,
            dir: None,
            threads: vec![Thread {
                id: log.thread(),
                dti: log.dti().clone(),
                log: Some(log),
            }],
            carried: Vec::new(),
            processes: Vec::new(),
            payloads: BTreeMap::new(),
            problems: Vec::new(),
        })
    }

    fn recording(dir: &Path) -> anyhow::Result<Self> {
        let recording = Recording::open(dir)?;
        let mut source = Source {
            program: Some(recording.program().to_owned()),
            dir: Some(dir.to_owned()),
            threads: Vec::new(),
            carried: recording
                .carried()
                .map(|(channel, of)| (channel, of.to_owned()))
                .collect(),
            processes: recording
                .processes()
                .iter()
                .map(|process| (*process, recording.dir_of(*process)))
                .collect(),
            payloads: BTreeMap::new(),
            problems: Vec::new(),
        };
        match recording.payloads() {
            Ok(payloads) => source.payloads = payloads,
            Err(error) => source.problems.push(error.to_string()),
        }
        for thread in recording.threads() {
            let log = match recording.log(thread) {
                Ok(log) => Some(log),
                Err(error) => {
                    source.problems.push(error.to_string());
                    None
                }
            };
            source.threads.push(Thread {
                id: thread.id,
                dti: thread.dti.clone(),
                log,
            });
        }
        Ok(source)
    }

    /// Goes through the events of the thread at `index`, up to damage if there is any;
    /// how its log ends.
    ///
    /// # Errors
    /// Those of `see`.
    pub(super) fn for_each(
        &mut self,
        index: usize,
        mut see: impl FnMut(Event) -> anyhow::Result<()>,
    ) -> anyhow::Result<End> {
        let thread = &self.threads[index];
        let Some(log) = &thread.log else {
            return Ok(End::Damaged);
        };
        for event in log.events() {
            match event {
                Ok(event) => see(event)?,
                Err(error) => {
                    let problem = format!("{} ({}): {error}", thread.id, thread.dti);
                    if !self.problems.contains(&problem) {
                        self.problems.push(problem);
                    }
                    return Ok(End::Damaged);
                }
            }
        }
        Ok(if log.is_incomplete() {
            End::Incomplete
        } else if log.is_sealed() {
            End::Ended
        } else {
            End::CutOff
        })
    }

    /// The names of the threads, by number.
    pub(super) fn names(&self) -> BTreeMap<ThreadId, String> {
        self.threads
            .iter()
            .map(|thread| (thread.id, thread.dti.to_string()))
            .collect()
    }
}

/// The content of a message, in words.
pub(super) fn payload(payload: &Payload) -> String {
    let size = counted(payload.size, "byte");
    match &payload.content {
        Content::Unknown => size,
        Content::Hash(hash) => format!("{size} with the hash {hash:016x}"),
        Content::Bytes(bytes) => {
            let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let more = if (bytes.len() as u64) < payload.size {
                ".."
            } else {
                ""
            };
            let shown = bytes.iter().map(|byte| match byte {
                b' '..=b'~' => char::from(*byte),
                _ => '.',
            });
            format!("{size} {text}{more} \"{}\"", shown.collect::<String>())
        }
    }
}

/// A process that was started, in words.
pub(super) fn process((process, dir): &(StartedProcess, Option<PathBuf>)) -> String {
    let (number, thread, count) = (process.number, process.thread, process.count);
    let log = match dir {
        Some(dir) => dir.display().to_string(),
        None => "recorded nothing".to_owned(),
    };
    format!("process {number}  number {count} of those that {thread} started: {log}")
}

/// The directory of the one recording in or below `dir`.
fn find(dir: &Path) -> anyhow::Result<PathBuf> {
    let mut found = Vec::new();
    collect(dir, 0, &mut found);
    found.sort();
    match &found[..] {
        [one] => Ok(one.clone()),
        [] => bail!("{} contains no recording", dir.display()),
        several => {
            let names: Vec<_> = several
                .iter()
                .map(|path| format!("\n  {}", path.display()))
                .collect();
            bail!(
                "{} has recordings of several processes, name one:{}",
                dir.display(),
                names.concat()
            )
        }
    }
}

/// Recordings are at most as deep below a recording of `cargo reprise`.
const DEPTH: usize = 5;

fn collect(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if dir.join("session").is_file() {
        found.push(dir.to_owned());
        return;
    }
    if depth == DEPTH {
        return;
    }
    // What cannot be listed holds nothing that could be read.
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&entry.path(), depth + 1, found);
        }
    }
}

/// A channel or a lock as it is written.
pub(super) fn object(event: &Event) -> Option<String> {
    event
        .channel
        .map(|channel| name(channel, event.op.is_on_lock()))
}

pub(super) fn name(channel: ChannelId, is_lock: bool) -> String {
    if is_lock {
        return format!("{}.l{}", channel.creator, channel.number);
    }
    channel.to_string()
}

/// The kind of an outcome, as one word.
pub(super) const fn kind(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Message { .. } => "message",
        Outcome::Tick => "tick",
        Outcome::Sent { .. } => "sent",
        Outcome::Refused { .. } => "refused",
        Outcome::Disconnected => "disconnected",
        Outcome::Empty => "empty",
        Outcome::Full => "full",
        Outcome::Timeout => "timeout",
        Outcome::Arm(_) => "arm",
        Outcome::NoArm => "no_arm",
        Outcome::Value(_) => "value",
        Outcome::First => "first",
        Outcome::Again => "again",
        Outcome::Turn { .. } => "turn",
        Outcome::Busy => "busy",
        Outcome::Woken { .. } => "woken",
        Outcome::Done => "done",
        Outcome::Poisoned => "poisoned",
        Outcome::Failed { .. } => "failed",
        Outcome::Bytes { .. } => "bytes",
    }
}

/// The thread that an outcome names.
pub(super) const fn sender(outcome: &Outcome) -> Option<ThreadId> {
    match outcome {
        Outcome::Message { sender, .. } | Outcome::Woken { sender, .. } => Some(*sender),
        _ => None,
    }
}

/// The bytes that an outcome carries, in hexadecimal digits, and whether more follow.
pub(super) fn bytes(outcome: &Outcome) -> Option<(String, bool)> {
    let Outcome::Bytes { len, last, bytes } = *outcome else {
        return None;
    };
    let bytes = bytes.to_le_bytes();
    let digits = bytes.iter().take(len.into());
    Some((digits.map(|byte| format!("{byte:02x}")).collect(), !last))
}

/// The number that an outcome carries.
pub(super) const fn number(outcome: &Outcome) -> Option<u64> {
    match *outcome {
        Outcome::Message { number, .. }
        | Outcome::Refused { number }
        | Outcome::Woken { number, .. }
        | Outcome::Sent { slot: number }
        | Outcome::Value(number)
        | Outcome::Failed { code: number }
        | Outcome::Turn { ticket: number } => Some(number),
        Outcome::Arm(arm) => Some(arm as u64),
        _ => None,
    }
}
