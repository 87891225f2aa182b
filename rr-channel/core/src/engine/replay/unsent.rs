//! Messages that other processes received in the recording, and this one has not sent yet.
//!
//! A process may exit while some of its threads still send, and their sends are not logged. In a
//! replay the exit might come first, and another process would wait in vain for a message that it
//! received in the recorded run. That message is in the other process's log. So an exit waits
//! until the message has been sent, though not for long: a thread that has left its log may never
//! send it.
//!
//! The logs of all processes contain these messages. The first process reads them, and tells each
//! of the others its unsent messages.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use rr_channel_log::identity::{ProcessPath, Root, ThreadId};
use rr_channel_log::{Outcome, Recording};
use rustc_hash::FxHashMap;

use super::CURRENT;
use crate::platform::lock::lock;
use crate::platform::sys;
use crate::recorder::process::Home;
use crate::recorder::tag::Tag;

/// Processes whose logs are looked at, at most.
const MOST: usize = 32;
/// How often an exit looks, a millisecond apart.
const LOOKS: usize = 1000;

#[derive(Debug, Default)]
pub struct Unsent {
    is_left: AtomicBool,
    /// For each thread, the number of the last message that another process received.
    left: Mutex<FxHashMap<ThreadId, u64>>,
}

/// For each process, by thread, the number of the last message that another process received.
type All = FxHashMap<(ProcessPath, ThreadId), u64>;

impl Unsent {
    /// The unsent messages of the process at `home`. From here on `home` has those of all
    /// processes.
    pub fn of(home: &mut Home) -> Self {
        let path = home.path.clone();
        let all = home.unsent.get_or_insert_with(|| {
            let depth = path.numbers().len();
            in_words(home.dir.ancestors().nth(depth).map(all).unwrap_or_default())
        });
        let left: FxHashMap<_, _> = read(all, &path).collect();
        Unsent {
            is_left: AtomicBool::new(!left.is_empty()),
            left: Mutex::new(left),
        }
    }

    /// A message was sent.
    pub fn sent(&self, tag: Tag) {
        if !self.is_left.load(Relaxed) {
            return;
        }
        let mut left = lock(&self.left);
        left.retain(|sender, number| *sender != tag.sender() || *number > tag.number());
        self.is_left.store(!left.is_empty(), Relaxed);
    }
}

/// The unsent messages of all processes of a recording.
fn all(dir: &Path) -> All {
    // A damaged recording is reported by the process that replays it.
    let recordings = Recording::tree(dir).unwrap_or_default();
    let mut last = All::default();
    if (2..=MOST).contains(&recordings.len()) {
        for (_, recording) in &recordings {
            received(recording, &mut last);
        }
    }
    last
}

/// Adds the messages that a process has received from others.
fn received(recording: &Recording, last: &mut All) {
    let threads = recording.threads().iter();
    let senders: FxHashMap<ThreadId, (&ProcessPath, ThreadId)> = threads
        .filter_map(|thread| match thread.dti.root() {
            Root::Elsewhere {
                process,
                thread: id,
            } => Some((thread.id, (process, *id))),
            _ => None,
        })
        .collect();
    if senders.is_empty() {
        return;
    }
    let logs = recording.threads().iter();
    let logs = logs.filter(|thread| !thread.dti.is_elsewhere());
    for log in logs.filter_map(|thread| recording.log(thread).ok()) {
        for event in log.events().map_while(Result::ok) {
            if let Outcome::Message { sender, number } = event.outcome
                && let Some((process, sender)) = senders.get(&sender)
            {
                let last = last.entry(((*process).clone(), *sender)).or_default();
                *last = number.max(*last);
            }
        }
    }
}

/// Each as `PROCESS THREAD NUMBER`.
fn in_words(all: All) -> String {
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort();
    let all = all.iter();
    let all: Vec<_> = all
        .map(|((process, thread), number)| format!("{process} {} {number}", thread.0))
        .collect();
    all.join(",")
}

/// The unsent messages of the process `path`, among those of all.
fn read<'a>(all: &'a str, path: &'a ProcessPath) -> impl Iterator<Item = (ThreadId, u64)> + 'a {
    all.split(',').filter_map(move |one| {
        let mut words = one.split(' ');
        let process: ProcessPath = words.next()?.parse().ok()?;
        let thread = ThreadId(words.next()?.parse().ok()?);
        let number = words.next()?.parse().ok()?;
        (process == *path).then_some((thread, number))
    })
}

/// Waits until this process has sent all messages that others received.
pub(super) extern "C" fn wait_at_exit() {
    if sys::is_forked() {
        return;
    }
    if let Some(engine) = CURRENT.get() {
        for _ in 0..LOOKS {
            if !engine.unsent.is_left.load(Relaxed) {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_is_told_its_unsent_messages() {
        let (first, second) = (ProcessPath::first(), ProcessPath::first().child(2));
        let all = [
            ((second.clone(), ThreadId(3)), 7),
            ((first.clone(), ThreadId(0)), 1),
            ((second.clone(), ThreadId(12)), 0),
        ];
        let words = in_words(all.into_iter().collect());
        let unsent = |path: &ProcessPath| read(&words, path).collect::<Vec<_>>();
        assert_eq!(unsent(&second), [(ThreadId(3), 7), (ThreadId(12), 0)]);
        assert_eq!(unsent(&first), [(ThreadId(0), 1)]);
        assert_eq!(unsent(&first.child(1)), []);
        assert!(read("", &first).next().is_none());
        assert!(read("nonsense,0 1", &first).next().is_none());
    }
}
