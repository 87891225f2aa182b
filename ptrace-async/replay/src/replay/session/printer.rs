//! Output of the recorded programs, printed again in the recorded order.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

/// Treatment of the output of the replayed programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Output {
    /// It goes where it went: to this process's standard output and error. What has been
    /// printed once is not printed again when the replay goes back to a checkpoint.
    #[default]
    Print,
    /// Discard it.
    Discard,
    /// It is kept until it is asked for ([`Replayer::take_output`](crate::replay::Replayer::take_output)).
    Keep,
}

/// Something that a program printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    /// Standard output (1) or standard error (2).
    pub stream: u8,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Outputs that wait for earlier ones.
#[derive(Debug, Default)]
pub(in crate::replay) struct Printer {
    at: Position,
    /// Up to where outputs have been printed.
    printed: u64,
    output: Output,
    kept: Vec<Printed>,
    /// The first error.
    failed: Option<io::Error>,
}

/// How far printing has come.
#[derive(Debug, Clone, Default)]
pub(in crate::replay) struct Position {
    next: u64,
    early: BTreeMap<u64, Printed>,
}

impl Printer {
    pub(in crate::replay) fn new(output: Output) -> Self {
        Self {
            output,
            ..Self::default()
        }
    }

    /// Prints an output when all before it have been.
    pub(in crate::replay) fn print(&mut self, number: u64, stream: u8, bytes: Vec<u8>) {
        self.at.early.insert(number, Printed { stream, bytes });
        while let Some(printed) = self.at.early.remove(&self.at.next) {
            self.put(self.at.next, printed);
            self.at.next += 1;
        }
    }

    /// Prints what was left, where earlier outputs are missing. The first error of all.
    pub(in crate::replay) fn finish(&mut self) -> Option<io::Error> {
        for (number, printed) in std::mem::take(&mut self.at.early) {
            self.put(number, printed);
        }
        self.failed.take()
    }

    pub(in crate::replay) fn position(&self) -> Position {
        self.at.clone()
    }

    /// Goes back, or forward. What follows is kept once more, if it is wanted again.
    pub(in crate::replay) fn go_to(&mut self, position: &Position, again: bool) {
        self.at = position.clone();
        if again && self.output == Output::Keep {
            self.kept.clear();
            self.printed = self.at.next;
        }
    }

    pub(in crate::replay) fn take(&mut self) -> Vec<Printed> {
        std::mem::take(&mut self.kept)
    }

    fn put(&mut self, number: u64, printed: Printed) {
        let is_new = number >= self.printed;
        self.printed = self.printed.max(number + 1);
        match self.output {
            Output::Discard => {}
            _ if !is_new => {}
            Output::Keep => self.kept.push(printed),
            Output::Print => {
                let written = if printed.stream == 2 {
                    io::stderr().write_all(&printed.bytes)
                } else {
                    let mut out = io::stdout().lock();
                    out.write_all(&printed.bytes).and_then(|()| out.flush())
                };
                // The reader of the output may have gone; the replay goes on all the same.
                if let Err(error) = written
                    && error.kind() != io::ErrorKind::BrokenPipe
                {
                    self.failed.get_or_insert(error);
                }
            }
        }
    }
}
