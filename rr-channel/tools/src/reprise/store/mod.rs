//! Where recordings are, and what is known about them.
//!
//! ```text
//! target/reprise/recordings/3/recording.json        the call of cargo
//!     PACKAGE/EXECUTABLE/process.json               one process that it ran
//!     PACKAGE/EXECUTABLE/log/                       what that process recorded, if anything
//!     PACKAGE/EXECUTABLE/TEST/...                   the same, of a process with one test
//! ```

pub(super) mod chaos;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use rr_channel_log::Recording as Log;

use self::chaos::Chaos;
use crate::plural::counted;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ending {
    /// With this exit status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ending::Exit(code) => write!(f, "exit status {code}"),
            Ending::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// A recorded call of cargo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Call {
    /// Cargo's subcommand.
    pub(super) subcommand: String,
    /// Its arguments, as they were given.
    pub(super) args: Vec<String>,
    /// The directory in which it was called.
    pub(super) dir: PathBuf,
    /// The chaos in which it ran, if any.
    #[serde(default)]
    pub(super) chaos: Option<Chaos>,
    /// Whether it never ran: it was made of another one's log.
    #[serde(default)]
    pub(super) edited: bool,
    /// How it ended; `None` while it runs, or if it was cut off.
    pub(super) ending: Option<Ending>,
    /// The size of the recording, if that was looked at.
    #[serde(default)]
    pub(super) size: Option<Size>,
}

/// A process that cargo ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    /// The executable.
    pub(super) executable: PathBuf,
    /// The digest of its content.
    pub(super) digest: String,
    /// Its arguments.
    pub(super) args: Vec<String>,
    /// How it ended; `None` if that was not seen.
    pub(super) ending: Option<Ending>,
}

/// The size of the logs of some processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Size {
    pub(super) processes: u64,
    pub(super) threads: u64,
    pub(super) events: u64,
    /// Of the thread with the most.
    pub(super) most: u64,
    pub(super) bytes: u64,
}

impl Size {
    fn add(&mut self, recording: &Log) -> anyhow::Result<()> {
        self.processes += 1;
        for thread in recording.threads() {
            if thread.dti.is_elsewhere() {
                continue;
            }
            let log = recording.log(thread)?;
            self.threads += 1;
            self.bytes += log.body_len() as u64;
            let mut events = 0;
            for event in log.events() {
                event.with_context(|| format!("the log of {}", thread.dti))?;
                events += 1;
            }
            self.events += events;
            self.most = self.most.max(events);
        }
        Ok(())
    }
}

/// The directory with all recordings of a project.
#[derive(Debug)]
pub(super) struct Store(PathBuf);

/// One recording's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) number: u32,
    pub(super) dir: PathBuf,
}

impl Store {
    pub(super) fn below(project: &Path) -> Self {
        Store(project.join("recordings"))
    }

    /// All recordings, the oldest first.
    ///
    /// # Errors
    /// If the directory is there and cannot be read.
    pub(super) fn list(&self) -> anyhow::Result<Vec<Entry>> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", self.0.display()));
            }
        };
        let mut numbers: Vec<u32> = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        numbers.sort_unstable();
        Ok(numbers.into_iter().map(|n| self.entry(n)).collect())
    }

    fn entry(&self, number: u32) -> Entry {
        Entry {
            number,
            dir: self.0.join(number.to_string()),
        }
    }

    /// The recording with this number, or the last one.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn find(&self, number: Option<u32>) -> anyhow::Result<Entry> {
        let mut all = self.list()?;
        let Some(number) = number else {
            return all
                .pop()
                .with_context(|| format!("there is no recording in {}", self.0.display()));
        };
        match all.into_iter().find(|entry| entry.number == number) {
            Some(entry) => Ok(entry),
            None => bail!("there is no recording {number} in {}", self.0.display()),
        }
    }

    /// A new recording's directory, after the last one.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(super) fn create(&self) -> anyhow::Result<Entry> {
        fs::create_dir_all(&self.0).with_context(|| format!("cannot make {}", self.0.display()))?;
        let last = self.list()?.last().map_or(0, |entry| entry.number);
        for number in last + 1.. {
            let entry = self.entry(number);
            match fs::create_dir(&entry.dir) {
                Ok(()) => return Ok(entry),
                // Somebody else's.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(error)
                        .with_context(|| format!("cannot make {}", entry.dir.display()));
                }
            }
        }
        bail!("there are too many recordings in {}", self.0.display())
    }
}

impl Entry {
    pub(super) fn call(&self) -> anyhow::Result<Call> {
        read(&self.dir.join("recording.json"))
    }

    pub(super) fn set_call(&self, call: &Call) -> anyhow::Result<()> {
        write(&self.dir.join("recording.json"), call)
    }

    /// The directories of all processes, by key.
    ///
    /// # Errors
    /// If one cannot be read.
    pub(super) fn processes(&self) -> anyhow::Result<BTreeMap<String, PathBuf>> {
        let mut found = BTreeMap::new();
        collect(&self.dir, &mut String::new(), &mut found)?;
        Ok(found)
    }

    /// Whether some process's recording says where in the source things happened.
    ///
    /// # Errors
    /// If a log cannot be read.
    pub(super) fn has_places(&self) -> anyhow::Result<bool> {
        for dir in self.processes()?.values() {
            let dir = log_dir(dir);
            if dir.join("session").exists() && Log::open(&dir)?.has_places() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Checks that all is there that was recorded: a process that cannot replay runs as if
    /// nothing were.
    ///
    /// # Errors
    /// If a log cannot be read, is of another program, or is not what it was.
    pub(super) fn check(&self, call: &Call) -> anyhow::Result<()> {
        let size = self.size()?;
        for dir in self.processes()?.values() {
            let log = log_dir(dir);
            if !log.join("session").exists() {
                continue;
            }
            let process: Process = read(&dir.join("process.json"))?;
            let recording = Log::open(&log)?;
            let name = name_of(&process.executable);
            ensure!(
                recording.program() == name,
                "{} is the log of `{}`, not of `{name}`",
                log.display(),
                recording.program()
            );
        }
        let Some(recorded) = call.size else {
            return Ok(());
        };
        ensure!(
            (size.processes, size.threads, size.events)
                == (recorded.processes, recorded.threads, recorded.events),
            "{} is damaged: {} of {} in {} were recorded, and there are {} of {} in {}",
            self.dir.display(),
            counted(recorded.events, "event"),
            counted(recorded.threads, "thread"),
            counted(recorded.processes, "log"),
            counted(size.events, "event"),
            counted(size.threads, "thread"),
            counted(size.processes, "log"),
        );
        Ok(())
    }

    /// The size of the recording.
    ///
    /// # Errors
    /// If a log cannot be read.
    pub(super) fn size(&self) -> anyhow::Result<Size> {
        let mut size = Size::default();
        for dir in self.processes()?.values() {
            let dir = log_dir(dir);
            if !dir.join("session").exists() {
                continue;
            }
            for (_, recording) in Log::tree(&dir)? {
                size.add(&recording)?;
            }
        }
        Ok(size)
    }
}

fn collect(
    dir: &Path,
    key: &mut String,
    found: &mut BTreeMap<String, PathBuf>,
) -> anyhow::Result<()> {
    if dir.join("process.json").exists() {
        found.insert(key.clone(), dir.to_owned());
    }
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if name == LOG || !entry.file_type()?.is_dir() {
            continue;
        }
        let len = key.len();
        if len > 0 {
            key.push('/');
        }
        key.push_str(&name.to_string_lossy());
        collect(&entry.path(), key, found)?;
        key.truncate(len);
    }
    Ok(())
}

const LOG: &str = "log";
/// The longest part of a path that is a name as it is, in bytes: file systems take 255, and there may be
/// a number after it.
const LONGEST: usize = 200;

/// Where a process's log is.
pub(super) fn log_dir(process: &Path) -> PathBuf {
    process.join(LOG)
}

/// By what a process is found again: its package, its executable and, if it runs one test,
/// that test; the path below a recording's directory.
pub(super) fn key(package: &str, executable: &Path, args: &[String]) -> PathBuf {
    let mut path = PathBuf::from(plain(package));
    path.push(plain(&name_of(executable)));
    if let Some(test) = only_test(args) {
        path.push(plain(test));
    }
    path
}

/// The name of an executable, as `rr-channel` has it in a log.
fn name_of(executable: &Path) -> String {
    let name = executable.file_name().unwrap_or_default().to_string_lossy();
    // Cargo appends a hash to the names of test executables.
    match name.rsplit_once('-') {
        Some((stem, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => {
            stem.to_owned()
        }
        _ => name.into_owned(),
    }
}

/// The one test that a harness is told to run.
fn only_test(args: &[String]) -> Option<&str> {
    if !args.iter().any(|arg| arg == "--exact") {
        return None;
    }
    let mut names = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--test-threads" | "--skip" | "--format" | "--color" | "--logfile"
            | "--shuffle-seed" | "-Z" => {
                args.next();
            }
            arg if arg.starts_with('-') => {}
            name => names.push(name),
        }
    }
    match names[..] {
        [name] => Some(name),
        _ => None,
    }
}

/// A name as one part of a path that is none of our own names.
fn plain(name: &str) -> String {
    let mut safe = name.replace(['/', '\0'], "_");
    if safe.len() > LONGEST {
        let hash = blake3::hash(name.as_bytes()).to_hex();
        safe.truncate(safe.floor_char_boundary(LONGEST - 17));
        safe += "-";
        safe += &hash[..16];
    }
    match safe.as_str() {
        "" | "." | ".." | LOG | "process.json" | "recording.json" => format!("_{safe}"),
        _ => safe,
    }
}

/// Reads a file that [`write`] wrote.
///
/// # Errors
/// If it cannot be read or is none.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("{} is damaged", path.display()))
}

/// Writes a file as JSON; its name appears when it is complete.
///
/// # Errors
/// If it cannot be written.
pub(super) fn write<T: Serialize>(path: &Path, value: &T) -> anyhow::Result<()> {
    let new = path.with_extension("new");
    let text = serde_json::to_string_pretty(value)? + "\n";
    fs::write(&new, text)
        .and_then(|()| fs::rename(&new, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(executable: &str, args: &str, expected: &str) {
        let args: Vec<_> = args.split_whitespace().map(str::to_owned).collect();
        let key = key("package", Path::new(executable), &args);
        assert_eq!(key, Path::new(expected));
    }

    #[test]
    fn a_process_is_found_by_package_executable_and_test() {
        check("/t/deps/lib-0123456789abcdef", "", "package/lib");
        check("/t/debug/tool", "a b", "package/tool");
        check("/t/deps/lib-0123456789abcdef", "some", "package/lib");
        check("lib", "--exact a::b --test-threads 1", "package/lib/a::b");
        check("lib", "--exact a::b c", "package/lib");
        check("lib", "--exact ../x", "package/lib/.._x");
        check("lib", "--exact log", "package/lib/_log");
    }

    #[test]
    fn a_long_name_of_a_test_is_shortened_and_stays_its_own() {
        let name = |test: &str| {
            let args = ["--exact".to_owned(), test.to_owned()];
            let key = key("package", Path::new("lib"), &args);
            key.file_name().unwrap().to_str().unwrap().to_owned()
        };
        let dir = tempfile::tempdir().unwrap();
        for part in ["a", "ä", "€"] {
            let long = part.repeat(300);
            let (first, second) = (name(&(long.clone() + "1")), name(&(long.clone() + "2")));
            assert!(first != second && first.starts_with(&part.repeat(30)));
            assert_eq!(name(&(long + "1")), first);
            // With the number of a process that ran again.
            fs::create_dir(dir.path().join(first + "-1000000")).unwrap();
        }
        let fits = "a".repeat(LONGEST);
        assert_eq!(name(&fits), fits);
    }

    #[test]
    fn recordings_are_numbered() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::below(dir.path());
        assert!(store.find(None).is_err());
        let first = store.create().unwrap();
        let second = store.create().unwrap();
        assert_eq!((first.number, second.number), (1, 2));
        assert_eq!(store.find(None).unwrap(), second);
        assert_eq!(store.find(Some(1)).unwrap(), first);
        assert!(store.find(Some(3)).is_err());
        fs::remove_dir(&first.dir).unwrap();
        assert_eq!(store.create().unwrap().number, 3);
    }

    #[test]
    fn processes_are_found_wherever_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let entry = Store::below(dir.path()).create().unwrap();
        for key in ["p/lib", "p/lib/a::b", "q/lib"] {
            let dir = entry.dir.join(key);
            fs::create_dir_all(log_dir(&dir)).unwrap();
            fs::write(dir.join("process.json"), "").unwrap();
        }
        let keys: Vec<_> = entry.processes().unwrap().into_keys().collect();
        assert_eq!(keys, ["p/lib", "p/lib/a::b", "q/lib"]);
    }
}
