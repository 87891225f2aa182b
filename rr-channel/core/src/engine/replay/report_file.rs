//! The report of a replay as a file, for the tool that started it.
//!
//! Lines of text. The first names the replayed log. Each desynchronisation is written when it is
//! found, so that it is there however the process ends. At the exit follow the threads whose logs
//! were not used up, and a last line with the sums. The second process that this one starts has a
//! file of its own, with `.2` behind the name.
//!
//! ```text
//! log /path/of/the/recording
//! desync thread main/1 desynchronised at event 3: ...
//! left main/~2 5 of 8
//! end 1017 of 1020
//! ```

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::Once;
use std::thread;
use std::time::Duration;

use super::{CURRENT, Desync, Report};
use crate::platform::sys;
use crate::recorder::process::{Home, complain};

/// A file to which events of the replay are appended.
#[derive(Debug)]
pub struct ReportFile(File);

impl ReportFile {
    /// That of a process, if one is asked for.
    pub fn open(home: &Home) -> Option<ReportFile> {
        static AT_EXIT: Once = Once::new();
        let path = home.report.as_ref()?;
        match OpenOptions::new().append(true).create(true).open(path) {
            Ok(mut file) => {
                AT_EXIT.call_once(|| sys::at_exit(at_exit));
                let _ = file.write_all(format!("log {}\n", home.dir.display()).as_bytes());
                Some(ReportFile(file))
            }
            Err(error) => {
                complain(&format_args!(
                    "cannot report to {}: {error}",
                    path.display()
                ));
                None
            }
        }
    }
}

/// A thread left its log.
pub(super) fn desynchronised(desync: &Desync) {
    write(&format!("desync {desync}\n"));
}

/// The replay ends here.
pub(super) fn ended(report: &Report) {
    write(&summary(report));
}

/// By one system call, so that lines of several threads stay apart.
fn write(text: &str) {
    let file = CURRENT.get().and_then(|engine| engine.report.as_ref());
    if let Some(ReportFile(file)) = file {
        let mut file = file;
        // Nowhere is left to say that this failed; the missing last line says so.
        let _ = file.write_all(text.as_bytes());
    }
}

extern "C" fn at_exit() {
    if sys::is_forked() {
        return;
    }
    let Some(engine) = CURRENT.get() else {
        return;
    };
    // The other threads go on, and one may hold the lock; the exit does not wait long.
    let report = (0..1000).find_map(|_| {
        let report = engine.try_report();
        if report.is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        report
    });
    if let Some(report) = report {
        ended(&report);
    }
}

fn summary(report: &Report) -> String {
    let mut text = String::new();
    let (mut consumed, mut total) = (0, 0);
    for thread in &report.threads {
        consumed += thread.consumed;
        total += thread.total;
        if thread.consumed != thread.total {
            text += &format!(
                "left {} {} of {}\n",
                thread.thread, thread.consumed, thread.total
            );
        }
    }
    text + &format!("end {consumed} of {total}\n")
}

#[cfg(test)]
mod tests {
    use super::super::Progress;
    use super::*;
    use rr_channel_log::identity::Dti;

    #[test]
    fn the_summary_names_the_unused_logs() {
        let progress = |thread, consumed| Progress {
            thread,
            consumed,
            total: 8,
            live: false,
        };
        let report = Report {
            desyncs: Vec::new(),
            threads: vec![
                progress(Dti::main(), 8),
                progress(Dti::main().foreign_child(2), 5),
            ],
        };
        assert_eq!(summary(&report), "left main/~2 5 of 8\nend 13 of 16\n");
    }
}
