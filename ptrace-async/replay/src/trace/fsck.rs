//! The check of a trace: its blocks, the order of its records, its files, and its list of
//! changing files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde::Serialize;

use super::event::{CallEffect, Event, File, FileNumber, Record, Task};
use super::{Directory, Error, Reader, Tail};

/// How many problems are described; more are counted.
const DESCRIBED: usize = 100;

/// The result of a check.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Blocks that are as they were written.
    pub blocks: u64,
    /// Records in them.
    pub records: u64,
    /// How long they are together in the file, in bytes.
    pub bytes: u64,
    /// Whether the recording was not cut short.
    pub whole: bool,
    /// How many files programs had mapped.
    pub files: u64,
    /// How many of them the trace has.
    pub stored: u64,
    /// How many of them are taken from this machine, and are what they were.
    pub of_the_system: u64,
    /// The problem, in words.
    pub problems: Vec<Problem>,
    /// How much more is.
    pub more_problems: u64,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// At which record, counted from 0; `None` where that is not the question.
    pub record: Option<u64>,
    /// The problem, in words.
    pub what: String,
}

impl Report {
    /// Whether nothing is wrong. A trace that was cut short may well be sound.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    fn object(&mut self, record: Option<u64>, what: String) {
        if self.problems.len() < DESCRIBED {
            self.problems.push(Problem { record, what });
        } else {
            self.more_problems += 1;
        }
    }
}

/// Checks a trace.
///
/// # Errors
/// When its file of records cannot be opened.
pub fn check(directory: &Directory) -> Result<Report, Error> {
    let (mut report, files) = records(Reader::open(directory)?);
    let noted: BTreeSet<FileNumber> = directory.changing().collect();
    for number in files.changed.difference(&noted) {
        let what = format!(
            "file {} changes, but the list `changing` lacks it",
            number.0
        );
        report.object(None, what);
    }
    // A recorder that was killed may have noted one that no record names.
    let unknown = noted
        .iter()
        .filter(|number| report.whole && !files.known.contains_key(number));
    let unknown: Vec<_> = unknown.collect();
    for number in unknown {
        let what = format!(
            "the list `changing` has file {}, which no record describes",
            number.0
        );
        report.object(None, what);
    }
    for file in files.known.into_values() {
        report.files += 1;
        match content(&file, directory) {
            Ok(true) => report.stored += 1,
            Ok(false) => report.of_the_system += 1,
            Err(what) => report.object(None, what),
        }
    }
    Ok(report)
}

/// The files of a trace, as its records say.
#[derive(Debug, Default)]
pub struct Files {
    /// All files, by number.
    pub known: BTreeMap<FileNumber, File>,
    /// Files that change.
    pub changed: BTreeSet<FileNumber>,
}

/// Checks blocks and records; also the files that are named there.
pub fn records(mut reader: Reader) -> (Report, Files) {
    let mut report = Report::default();
    let mut order = Order::default();
    for record in reader.by_ref() {
        match record {
            Ok(record) => {
                for what in order.next(record) {
                    report.object(Some(report.records), what);
                }
                report.records += 1;
            }
            Err(error) => report.object(Some(report.records), error.to_string()),
        }
    }
    report.blocks = reader.blocks();
    report.bytes = reader.offset();
    report.whole = reader.tail() == Some(Tail::Whole);
    if report.whole {
        for task in order.alive() {
            report.object(None, format!("no record says how {task} ended"));
        }
    }
    (report, order.files)
}

/// Whether the trace has the content of a file, and not the system; or what is wrong with it.
fn content(file: &File, directory: &Directory) -> Result<bool, String> {
    let path = file.locate(directory).map_err(|error| error.to_string())?;
    let Some(digest) = file.digest(directory) else {
        return Ok(false);
    };
    let mut hasher = blake3::Hasher::new();
    fs::File::open(&path)
        .and_then(|file| hasher.update_reader(file).map(drop))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    if *hasher.finalize().as_bytes() != digest {
        return Err(format!(
            "{}: this is not the content of {}",
            path.display(),
            String::from_utf8_lossy(&file.path)
        ));
    }
    Ok(true)
}

/// Where a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TaskState {
    /// Created, and not started.
    Made,
    /// Its program runs.
    Runs,
    /// In a call.
    Calls,
    /// Ended.
    Ended,
}

/// State of the check after the records so far.
#[derive(Debug, Default)]
struct Order {
    tasks: BTreeMap<Task, TaskState>,
    files: Files,
    outputs: BTreeSet<u64>,
    /// Outputs below this have all come.
    complete: u64,
}

impl Order {
    fn alive(&self) -> Vec<Task> {
        let alive = self
            .tasks
            .iter()
            .filter(|(_, state)| **state != TaskState::Ended);
        alive.map(|(task, _)| *task).collect()
    }

    /// Problems of a record after all records before it.
    fn next(&mut self, record: Record) -> Vec<String> {
        let mut wrong = Vec::new();
        let task = record.task;
        if self.tasks.is_empty() && task == Task(0) {
            self.tasks.insert(task, TaskState::Made);
        }
        let state = self.tasks.get(&task).copied();
        let Some(state) = state else {
            return vec![format!("no record creates {task}")];
        };
        let next = match &record.event {
            Event::File(_)
            | Event::FileChanged(_)
            | Event::Joined(_)
            | Event::ChangedOutside(_) => state,
            // Nothing else may come of a task that has ended.
            Event::Ended(_) if matches!(state, TaskState::Ended | TaskState::Runs) => state,
            _ if state == TaskState::Ended => {
                wrong.push(format!("{task} has ended already"));
                state
            }
            Event::Exit(_) => TaskState::Ended,
            Event::Image(_) | Event::Started(_) => TaskState::Runs,
            _ if state == TaskState::Made => {
                wrong.push(format!("{task} has not started"));
                state
            }
            // A task that is killed in a call does not return from it.
            Event::Call(_) => TaskState::Calls,
            Event::Return(_) if state == TaskState::Calls => TaskState::Runs,
            Event::Return(_) => {
                wrong.push(format!("{task} returns from a call that it did not make"));
                state
            }
            Event::Patched(_)
            | Event::Buffered(_)
            | Event::Spawned(_)
            | Event::Signal(_)
            | Event::Point(_)
            | Event::Instruction(_)
            | Event::Digest(_)
            | Event::Ended(_)
            | Event::Written(_) => state,
        };
        self.tasks.insert(task, next);
        self.names(record.event, &mut wrong);
        wrong
    }

    /// Checks that everything a record names was described before, or is new.
    fn names(&mut self, event: Event, wrong: &mut Vec<String>) {
        let mut known = |files: &Files, number: FileNumber| {
            if !files.known.contains_key(&number) {
                wrong.push(format!("no record describes file {}", number.0));
            }
        };
        match event {
            Event::File(file) => {
                let number = file.number;
                if self.files.known.insert(number, *file).is_some() {
                    wrong.push(format!("file {} is described already", number.0));
                }
            }
            Event::FileChanged(changed) => {
                known(&self.files, changed.number);
                self.files.changed.insert(changed.number);
            }
            Event::ChangedOutside(number) => known(&self.files, number),
            Event::Buffered(buffered) => {
                let files = buffered.files.into_iter();
                files.for_each(|number| known(&self.files, number));
            }
            Event::Image(image) => {
                let files = image.mappings.iter().filter_map(|mapping| mapping.file);
                files.for_each(|(number, _)| known(&self.files, number));
            }
            Event::Return(done) => match done.more {
                CallEffect::Mapped { file, .. } => known(&self.files, file),
                CallEffect::Output { number, .. } => {
                    if number < self.complete || !self.outputs.insert(number) {
                        wrong.push(format!("output {number} exists already"));
                    }
                    while self.outputs.remove(&self.complete) {
                        self.complete += 1;
                    }
                }
                CallEffect::Nothing | CallEffect::State(_) => {}
            },
            Event::Spawned(spawned) => {
                let made = self.tasks.insert(spawned.child, TaskState::Made);
                if made.is_some() {
                    wrong.push(format!("{} exists already", spawned.child));
                }
            }
            _ => {}
        }
    }
}
