//! Joins the reports of a replay's processes (`RR_CHANNEL_REPORT`) into one.
//!
//! Each process that a replayed process starts writes a report beside that one's: `report.2.1`
//! belongs to process 0.2.1. Its lines are added with the name of the process in front. A
//! recorded process without a report is added as a desynchronisation.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rr_channel_log::Recording;
use rr_channel_log::identity::ProcessPath;

/// All that was reported, in lines; nothing if there is no report.
pub(crate) fn collect(path: &Path) -> String {
    let Ok(first) = fs::read_to_string(path) else {
        return String::new();
    };
    let mut all = Collected::default();
    all.add(&first, "");
    let parts = log_of(&first).map(Recording::tree);
    let parts = parts.and_then(Result::ok).unwrap_or_default();
    for (process, recording) in parts.iter().skip(1) {
        let name = format!("process {process}: ");
        let report = fs::read_to_string(beside(path, process));
        let has_end = match &report {
            Ok(report) => all.add(report, &name),
            Err(_) => false,
        };
        // One that was killed may be so here at any moment, and one that nobody waited for may
        // still be there.
        if !has_end && recording.has_ended() {
            let what = match report {
                Ok(_) => "did not come to its exit",
                Err(_) => "was not started, or did nothing",
            };
            all.lines += &format!("desync process {process} {what}\n");
        }
    }
    all.text()
}

/// Removes all reports that [`collect`] looks at.
///
/// # Errors
/// If one is there and cannot be removed.
pub(crate) fn remove(path: &Path) -> std::io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let dir = path.parent().unwrap_or(Path::new("."));
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let found = entry.file_name();
        let rest = found.to_str().and_then(|found| found.strip_prefix(&*name));
        if rest.is_some_and(|rest| rest.is_empty() || is_path(rest)) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn is_path(rest: &str) -> bool {
    format!("0{rest}").parse::<ProcessPath>().is_ok()
}

/// The report of a process, where the first one's is at `path`.
fn beside(path: &Path, process: &ProcessPath) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    for number in process.numbers() {
        path.push(format!(".{number}"));
    }
    path.into()
}

/// The log that a report is about.
fn log_of(report: &str) -> Option<&Path> {
    report
        .lines()
        .find_map(|line| line.strip_prefix("log "))
        .map(Path::new)
}

#[derive(Debug, Default)]
struct Collected {
    lines: String,
    /// The events that came about again, and all; `None` if the first process was cut off.
    events: Option<(u64, u64)>,
}

impl Collected {
    /// Adds a report, of the process with this name if it is not the first; whether it has
    /// its end.
    fn add(&mut self, report: &str, name: &str) -> bool {
        let mut end = None;
        for line in report.lines() {
            if let Some(rest) = line.strip_prefix("end ") {
                end = events(rest);
            } else if let Some((kind @ ("desync" | "left"), rest)) = line.split_once(' ') {
                self.lines += &format!("{kind} {name}{rest}\n");
            }
        }
        self.events = match (name, self.events, end) {
            ("", _, end) => end,
            (_, Some((came, all)), Some((more, of))) => Some((came + more, all + of)),
            (_, events, _) => events,
        };
        end.is_some()
    }

    fn text(self) -> String {
        match self.events {
            Some((came, all)) => format!("{}end {came} of {all}\n", self.lines),
            None => self.lines,
        }
    }
}

fn events(text: &str) -> Option<(u64, u64)> {
    let (came, all) = text.split_once(" of ")?;
    Some((came.parse().ok()?, all.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recording of two processes, the second of which came to its exit or did not.
    fn recording(dir: &Path, exited: bool) -> String {
        let part = dir.join("process-3");
        fs::create_dir_all(&part).unwrap();
        let head = "rr-channel 5\nprogram p\nthread 0 main\n";
        let first = format!("{head}process 3 0 1\nreaped 3\nexited\n");
        fs::write(dir.join("session"), first).unwrap();
        let exit = if exited { "exited\n" } else { "" };
        fs::write(part.join("session"), format!("{head}{exit}")).unwrap();
        format!("log {}\n", dir.display())
    }

    #[test]
    fn reports_of_all_processes_are_one() {
        let dir = tempfile::tempdir().unwrap();
        let log = recording(dir.path(), true);
        let path = dir.path().join("report");
        let first = format!("{log}left main/1 1 of 2\nend 3 of 4\n");
        fs::write(&path, &first).unwrap();
        let second = "log x\ndesync thread main y\nleft main 5 of 6\nend 5 of 6\n";
        fs::write(dir.path().join("report.3"), second).unwrap();
        assert_eq!(
            collect(&path),
            "left main/1 1 of 2\n\
             desync process 0.3: thread main y\n\
             left process 0.3: main 5 of 6\n\
             end 8 of 10\n"
        );
        fs::write(dir.path().join("report.txt"), "").unwrap();
        remove(&path).unwrap();
        assert_eq!(collect(&path), "");
        assert!(!dir.path().join("report.3").exists());
        assert!(dir.path().join("report.txt").exists());
    }

    #[test]
    fn a_process_that_is_missing_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report");
        let first = recording(dir.path(), true) + "end 3 of 4\n";
        fs::write(&path, &first).unwrap();
        let missing = "desync process 0.3 was not started, or did nothing\nend 3 of 4\n";
        assert_eq!(collect(&path), missing);
        fs::write(dir.path().join("report.3"), "").unwrap();
        let cut_off = "desync process 0.3 did not come to its exit\nend 3 of 4\n";
        assert_eq!(collect(&path), cut_off);
        recording(dir.path(), false);
        assert_eq!(collect(&path), "end 3 of 4\n");
    }

    #[test]
    fn the_first_process_s_end_is_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report");
        fs::write(&path, recording(dir.path(), true)).unwrap();
        fs::write(dir.path().join("report.3"), "end 5 of 6\n").unwrap();
        assert_eq!(collect(&path), "");
    }
}
