//! Edited recordings: made of events, to see how a replay treats them.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use super::open::{
    SESSION_FILE, StartedProcess, clocks_name, file_name, process_line, session_header,
};
use crate::clock::ClockRead;
use crate::event::Event;
use crate::identity::{Dti, ThreadId};
use crate::writing::{ClockWriter, Writer};

/// A thread of a recording that is written as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditedThread {
    /// Its number within the recording.
    pub id: ThreadId,
    /// Its name.
    pub dti: Dti,
    /// The events of the thread.
    pub events: Vec<Event>,
    /// Its reads of clocks, by position.
    pub clocks: Vec<ClockRead>,
    /// Whether these are all its events. A replayed thread that does more goes on natively, at
    /// once if this is set. Otherwise it waits until no other thread can move.
    pub ended: bool,
    /// How long the run lasted, as far as this thread's log knows.
    pub lasted: Duration,
}

/// Writes a recording of `program` to `dir`, which is made and holds none yet.
///
/// # Errors
/// If it cannot be written.
///
/// ```
/// use rr_channel_log::{Recording, write_recording};
///
/// let dir = std::env::temp_dir().join(format!("recording-{}", std::process::id()));
/// write_recording(&dir, "program", &[])?;
/// assert_eq!(Recording::open(&dir).unwrap().program(), "program");
/// std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write_recording(dir: &Path, program: &str, threads: &[EditedThread]) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let mut session = session_header(program);
    for thread in threads {
        let (id, dti) = (thread.id, &thread.dti);
        session += &format!("thread {} {dti}\n", id.0);
        if !thread.clocks.is_empty() {
            let mut writer = ClockWriter::create(&dir.join(clocks_name(id)), id)?;
            for read in &thread.clocks {
                writer.push(read)?;
            }
            writer.seal()?;
        }
        if thread.events.is_empty() {
            if thread.ended {
                session += &format!("ended {}\n", id.0);
            }
            continue;
        }
        let mut writer = Writer::create(&dir.join(file_name(id)), id, dti)?;
        for event in &thread.events {
            writer.push(event)?;
        }
        writer.lasted(thread.lasted);
        if thread.ended {
            writer.seal()?;
        }
    }
    fs::write(dir.join(SESSION_FILE), session)
}

/// Adds the processes that its threads started to a recording that was [written](write_recording).
/// [`Recording::dir_of`](crate::Recording::dir_of) of a recording with these processes says where
/// their recordings belong.
///
/// # Errors
/// If it is not there, or cannot be written.
pub fn write_processes(dir: &Path, processes: &[StartedProcess]) -> io::Result<()> {
    let mut session = OpenOptions::new()
        .append(true)
        .open(dir.join(SESSION_FILE))?;
    let lines = processes.iter().map(process_line).collect::<String>();
    session.write_all(lines.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::event::{Op, Outcome};
    use crate::reading::ClockLog;
    use crate::recording::Recording;

    #[test]
    fn edited_events_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let event = Event {
            op: Op::IsLocked,
            channel: None,
            outcome: Outcome::Value(7),
        };
        let thread = |id, events, ended| EditedThread {
            id: ThreadId(id),
            dti: Dti::main().child(id + 1),
            events,
            clocks: (0..id)
                .map(|n| ClockRead {
                    position: n.into(),
                    clock: Clock::Monotonic,
                    site: 3,
                    nanoseconds: 7,
                })
                .collect(),
            ended,
            lasted: Duration::from_millis(1234),
        };
        let threads = [
            thread(0, vec![event; 3], true),
            thread(1, vec![event], false),
            thread(2, Vec::new(), true),
            thread(5, Vec::new(), false),
        ];
        write_recording(dir.path(), "p", &threads).unwrap();
        let recording = Recording::open(dir.path()).unwrap();
        for (thread, read) in threads.iter().zip(recording.threads()) {
            let log = recording.log(read).unwrap();
            assert_eq!((&read.id, &read.dti), (&thread.id, &thread.dti));
            assert_eq!(log.is_sealed(), thread.ended);
            if !thread.events.is_empty() {
                assert_eq!(log.lasted(), thread.lasted);
            }
            let events: Result<Vec<_>, _> = log.events().collect();
            assert_eq!(events.unwrap(), thread.events);
            let clocks = recording.clocks(read).unwrap();
            let reads = clocks.iter().flat_map(ClockLog::reads);
            let reads: Result<Vec<_>, _> = reads.collect();
            assert_eq!(reads.unwrap(), thread.clocks);
        }
    }
}
