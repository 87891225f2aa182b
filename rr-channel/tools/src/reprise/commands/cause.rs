//! The first desynchronisation of a replay, and its possible causes, in words.

use std::path::{Path, PathBuf};

use rr_channel_log::identity::ProcessPath;
use rr_channel_log::{Recording, Step};

use crate::reprise::project::cargo::Project;
use crate::reprise::project::coverage;
use crate::reprise::runner::left;

/// Explains the first desynchronisation in a replay of the recording in
/// `log`: a line of its report.
pub(crate) fn explain(project: &Project, log: &Path, desync: &str, rebuilt: bool) -> Vec<String> {
    let mut lines = vec![match place(log, desync) {
        Some(Place::Known(place)) => format!("first desynchronisation, at {place}: {desync}"),
        Some(Place::NotRecorded) => {
            format!("first desynchronisation: {desync} (record with --places for the source line)")
        }
        None => format!("first desynchronisation: {desync}"),
    }];
    if rebuilt {
        lines.push("likely cause: the executable was rebuilt since it was recorded".to_owned());
        return lines;
    }
    let Ok(plain) = project.plain() else {
        // Cargo has said why.
        return lines;
    };
    let inputs: Vec<_> = coverage::inputs(&plain)
        .into_iter()
        .map(|(what, names)| {
            let names: Vec<_> = names.into_iter().collect();
            format!("{what} ({})", names.join(", "))
        })
        .collect();
    let uncovered = project.coverage(&plain).summary();
    if inputs.is_empty() && uncovered.is_empty() {
        lines.push(
            "likely cause: unknown; the source of the project names no input of std that is not \
             recorded"
                .to_owned(),
        );
        return lines;
    }
    lines.push("likely causes, none of which is recorded:".to_owned());
    if !inputs.is_empty() {
        lines.push(format!(
            "  the source of the project uses {}",
            inputs.join(", ")
        ));
    }
    lines.extend(uncovered.into_iter().map(|line| format!("  {line}")));
    lines
}

/// Where in the source an event is.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Known(String),
    NotRecorded,
}

/// The part of a recording that something is said of, and what is said.
fn in_process<'a>(log: &Path, said: &'a str) -> (PathBuf, &'a str) {
    let found = said.strip_prefix("process ").and_then(|rest| {
        let (process, rest) = rest.split_once(": ")?;
        let process: ProcessPath = process.parse().ok()?;
        let dir = |dir: PathBuf, number: &u32| dir.join(format!("process-{number}"));
        Some((process.numbers().iter().fold(log.to_owned(), dir), rest))
    });
    found.unwrap_or_else(|| (log.to_owned(), said))
}

/// Where the event is that did not come about; `None` if the thread was not recorded, or
/// nothing more was recorded of it.
fn place(log: &Path, desync: &str) -> Option<Place> {
    let (log, desync) = in_process(log, desync);
    let (name, number) = left(desync)?;
    let recording = Recording::open(&log).ok()?;
    let mut threads = recording.threads().iter();
    let thread = threads.find(|thread| thread.dti.to_string() == name)?;
    let steps = recording.steps(thread).ok()?;
    let mut events = steps.iter().filter_map(|step| match step {
        Step::Event { event, place } if !event.op.is_apart() => Some(place),
        _ => None,
    });
    let place = *events.nth(usize::try_from(number).ok()?)?;
    if !recording.has_places() {
        return Some(Place::NotRecorded);
    }
    let place = recording.place(place?)?;
    Some(Place::Known(place.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::slice;
    use std::time::Duration;

    use rr_channel_log::identity::{Dti, ThreadId};
    use rr_channel_log::{EditedThread, Event, Op, Outcome, write_recording};

    use super::*;

    #[test]
    fn an_event_has_no_place_where_none_was_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let event = Event {
            op: Op::IsLocked,
            channel: None,
            outcome: Outcome::Value(7),
        };
        let thread = EditedThread {
            id: ThreadId(0),
            dti: Dti::main(),
            events: vec![event; 3],
            ended: true,
            clocks: Vec::new(),
            lasted: Duration::ZERO,
        };
        write_recording(dir.path(), "p", slice::from_ref(&thread)).unwrap();
        let place = |line: &str| place(dir.path(), line);
        let last = "thread main desynchronised at event 2: x";
        assert_eq!(place(last), Some(Place::NotRecorded));
        assert_eq!(place("thread main desynchronised at event 3: x"), None);
        assert_eq!(place("thread main/1 desynchronised at event 0: x"), None);
        assert_eq!(place("nonsense"), None);
        let part = dir.path().join("process-2/process-1");
        write_recording(&part, "p", &[thread]).unwrap();
        let last = format!("process 0.2.1: {last}");
        assert_eq!(place(&last), Some(Place::NotRecorded));
        assert_eq!(
            place("process 0.3: thread main desynchronised at event 0: x"),
            None
        );
    }
}
