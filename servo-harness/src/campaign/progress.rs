//! Shows the progress of a campaign on a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::store::journal::Phase;

#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar for so many runs, where standard error is a terminal.
    pub(crate) fn new(runs: u64, phase: Phase) -> Progress {
        let bar = ProgressBar::new(runs);
        let style = ProgressStyle::with_template(
            "{prefix} {wide_bar:.dim} {pos} of {len} runs, {eta} left{msg}",
        );
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.set_prefix(match phase {
            Phase::Plain => "plain",
            Phase::Beside => "plain, beside replays",
            Phase::Replay => "replay",
            Phase::Loaded => "replay, all processors busy",
            Phase::Squeezed => "replay, at low priority",
        });
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress(bar)
    }

    /// A run has ended; so many are left, and so many tests are intermittent.
    pub(crate) fn ran(&self, left: u64, flaky: usize) {
        self.0.set_length(self.0.position() + 1 + left);
        self.0.inc(1);
        if flaky > 0 {
            self.0.set_message(format!("; {flaky} intermittent"));
        }
    }

    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
