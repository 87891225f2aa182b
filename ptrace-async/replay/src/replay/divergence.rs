//! Divergences: a program did not do what its recording did, with facts that help to find out
//! why.

use std::collections::VecDeque;
use std::fmt;

use super::backtrace::{self, Frame};
use crate::code::registers::Registers;
use crate::trace::event::Event;
use crate::trace::{Directory, Reader, Task, line};

/// How many records of the task are shown that came before.
const BEFORE: usize = 10;

/// A replayed program did something else than its recording.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{task} diverged at record {record}:\n  recorded {recorded}\n  replayed {replayed}")]
pub struct Divergence {
    /// The task.
    pub task: Task,
    /// The number of the record, counted from 0.
    pub record: u64,
    /// The recorded behaviour.
    pub recorded: String,
    /// The replayed behaviour.
    pub replayed: String,
    /// The registers of the replayed task, if it is still there.
    pub registers: Option<Registers>,
    /// Registers that the record has, as index and value.
    pub recorded_registers: Vec<(usize, u64)>,
    /// The functions that the replayed task is in, the innermost first.
    pub frames: Vec<Frame>,
    /// The records of the task before that one, the last ones, with their numbers.
    pub before: Vec<(u64, String)>,
}

impl Divergence {
    /// At this record; the task is in a stop, or gone.
    pub(super) fn new(
        (task, record): (Task, u64),
        recorded: String,
        replayed: String,
        here: backtrace::Here<'_>,
    ) -> Self {
        Self {
            task,
            record,
            recorded,
            replayed,
            registers: here.task.registers().ok().map(|regs| (&regs).into()),
            recorded_registers: Vec::new(),
            frames: backtrace::take(&here),
            before: Vec::new(),
        }
    }

    /// Reads once more what the trace says about it.
    pub(super) fn add_history(&mut self, directory: &Directory) {
        let Ok(reader) = Reader::open(directory) else {
            return;
        };
        let mut before = VecDeque::with_capacity(BEFORE + 1);
        for (number, record) in (0..=self.record).zip(reader.map_while(Result::ok)) {
            if number == self.record {
                self.recorded_registers = registers(&record.event);
            } else if record.task == self.task {
                before.push_back((number, line::of(&record)));
                if before.len() > BEFORE {
                    before.pop_front();
                }
            }
        }
        self.before = before.into();
    }

    /// A report with all facts, for people.
    pub fn report(&self) -> impl fmt::Display + '_ {
        Report(self)
    }
}

/// The indices in [`Registers`] that hold a call's arguments, in their order.
const ARGUMENTS: [usize; 6] = [14, 13, 12, 7, 9, 8];
const ORIG_RAX: usize = 15;
const RIP: usize = 16;
const RSP: usize = 19;

/// The registers that a record tells.
fn registers(event: &Event) -> Vec<(usize, u64)> {
    let all = |registers: &Registers| (0..).zip(registers.0).collect();
    match event {
        Event::Call(call) => {
            let arguments = ARGUMENTS.into_iter().zip(call.args);
            let others = [(ORIG_RAX, call.nr), (RIP, call.ip), (RSP, call.sp)];
            arguments.chain(others).collect()
        }
        Event::Point(point) => all(&point.registers),
        Event::Signal(signal) => vec![(RIP, signal.ip)],
        Event::Instruction(answer) => vec![(RIP, answer.ip)],
        _ => Vec::new(),
    }
}

struct Report<'a>(&'a Divergence);

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let divergence = self.0;
        write!(f, "{divergence}")?;
        if let Some(registers) = &divergence.registers {
            write!(f, "\n  registers of the replayed task:")?;
            for (row, words) in registers.0.chunks(4).enumerate() {
                write!(f, "\n   ")?;
                for (column, word) in words.iter().enumerate() {
                    let name = Registers::NAMES[row * 4 + column];
                    write!(f, " {name:>8} {word:016x}")?;
                }
            }
            let known = divergence.recorded_registers.iter();
            let differing = known.filter(|(index, word)| registers.0[*index] != *word);
            for (index, word) in differing {
                let name = Registers::NAMES[*index];
                let now = registers.0[*index];
                write!(f, "\n    {name} was recorded as {word:#x}, and is {now:#x}")?;
            }
        }
        if !divergence.frames.is_empty() {
            write!(f, "\n  the replayed task is in:")?;
            for (depth, frame) in divergence.frames.iter().enumerate() {
                write!(f, "\n    #{depth} {frame}")?;
            }
        }
        if !divergence.before.is_empty() {
            write!(f, "\n  its last records before that:")?;
            for (number, line) in &divergence.before {
                write!(f, "\n    {number:>8} {line}")?;
            }
        }
        Ok(())
    }
}
