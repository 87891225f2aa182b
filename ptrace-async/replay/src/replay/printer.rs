//! What the recorded programs printed, printed again in the order in which they did.

use std::collections::BTreeMap;
use std::io::Write as _;

/// Outputs that wait for earlier ones.
#[derive(Debug, Default)]
pub(super) struct Printer {
    next: u64,
    early: BTreeMap<u64, (u8, Vec<u8>)>,
    /// Nothing is printed.
    quiet: bool,
}

impl Printer {
    pub(super) fn new(quiet: bool) -> Self {
        Self {
            quiet,
            ..Self::default()
        }
    }

    /// Prints an output when all before it have been.
    pub(super) fn print(&mut self, number: u64, stream: u8, bytes: Vec<u8>) {
        self.early.insert(number, (stream, bytes));
        while let Some((stream, bytes)) = self.early.remove(&self.next) {
            self.next += 1;
            self.put(stream, &bytes);
        }
    }

    /// Prints what was left, where earlier outputs are missing.
    pub(super) fn finish(&mut self) {
        for (_, (stream, bytes)) in std::mem::take(&mut self.early) {
            self.put(stream, &bytes);
        }
    }

    fn put(&self, stream: u8, bytes: &[u8]) {
        if self.quiet {
            return;
        }
        // Whoever reads it may have gone; the replay goes on for what it shows.
        let _ = if stream == 2 {
            std::io::stderr().write_all(bytes)
        } else {
            let mut out = std::io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        };
    }
}
