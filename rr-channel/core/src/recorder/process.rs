//! Identifies this process within a recording, and passes identities to the processes that it
//! starts.
//!
//! A process that records or replays numbers those that it starts ([`ProcessPath`]) and
//! tells each one by its environment which one it is, and where its own log is: in
//! `process-N` below this one's. `RR_CHANNEL_PROCESS` is
//!
//! - not set, or the process's id: the one that somebody wanted recorded;
//! - `0.2 RUN below PID`: process 0.2 of a recording, started by the process with this id
//!   (which may be gone);
//! - `0.2 RUN in PID`: the same, executed in place of the program that the process with
//!   this id was before.
//!
//! `RUN` is a number that tells the processes of one run from all others, so that messages say
//! where they are from. A process for which the variable does not hold (for example, a shell
//! stands between it and the one that was told) is left alone.
//!
//! A process is told only what it would have inherited: if the program gives a child another
//! `RR_CHANNEL_LOG`, or none, that choice is kept.

use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rr_channel_log::dir_name;
use rr_channel_log::identity::ProcessPath;

use crate::platform::apart::apart;
use crate::platform::current::Current;
use crate::platform::sys;

/// The name of this program's executable, without its directory and, for test
/// executables, without the hash that cargo appends.
pub fn program() -> String {
    let path = env::current_exe().unwrap_or_default();
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    match name.rsplit_once('-') {
        Some((stem, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => {
            stem.to_owned()
        }
        _ => name,
    }
}

/// The calling process's path in its recording, once it has a session.
static OWN: Current<ProcessPath> = Current::none();

/// Complaints name this process from here on; or none, until it has a session.
pub fn complain_as(path: Option<&ProcessPath>) {
    match path {
        Some(path) => {
            OWN.set(path.clone());
        }
        None => OWN.take_from(&Current::none()),
    }
}

/// One line on standard error. Errors in writing it are ignored: there is nowhere
/// left to report them.
pub fn complain(message: &dyn fmt::Display) {
    let _ = match OWN.get() {
        Some(path) if !path.numbers().is_empty() => {
            writeln!(io::stderr(), "rr-channel: process {path}: {message}")
        }
        _ => writeln!(io::stderr(), "rr-channel: {message}"),
    };
}

pub const LOG: &str = "RR_CHANNEL_LOG";
pub const NEW_LOG: &str = "RR_CHANNEL_NEW_LOG";
pub const REPORT: &str = "RR_CHANNEL_REPORT";
pub const PROCESS: &str = "RR_CHANNEL_PROCESS";
/// The unsent messages of the processes of a replay; the starting process has read them.
const UNSENT: &str = "RR_CHANNEL_OWED";
/// No execve(2) fails for a variable of this length; a process that is not told reads the logs
/// itself.
const MOST_UNSENT: usize = 8192;

/// This process's place in a recording.
#[derive(Debug, Clone)]
pub struct Home {
    pub path: ProcessPath,
    /// Tells this run's processes from others.
    pub run: u64,
    /// The directory of the log that is written, or followed.
    pub dir: PathBuf,
    /// The directory in which a replay's own events are recorded.
    pub again: Option<PathBuf>,
    /// The file to which a replay reports.
    pub report: Option<PathBuf>,
    /// The log's directory as the environment has it.
    pub given: Option<OsString>,
    /// The unsent messages of the processes of a replay, if they are known.
    pub unsent: Option<String>,
}

impl Home {
    /// That of the calling process, by its environment; `None` if it is not meant.
    pub fn of_environment(default: &str) -> Option<Home> {
        let (path, run) = match env::var(PROCESS) {
            Err(_) => (ProcessPath::first(), new_run()),
            Ok(text) => Claim::parse(&text)?.check()?,
        };
        let given = env::var_os(LOG);
        let is_told = !path.numbers().is_empty();
        let place = |name| env::var_os(name).filter(|path| !path.is_empty());
        Some(Home {
            path,
            run,
            dir: absolute(Path::new(given.as_deref().unwrap_or(OsStr::new(default)))),
            again: place(NEW_LOG).map(|path| absolute(Path::new(&path))),
            report: place(REPORT).map(|path| absolute(Path::new(&path))),
            given,
            unsent: is_told.then(|| env::var(UNSENT).ok()).flatten(),
        })
    }

    /// The place of the process with this number among those that this one starts.
    pub fn child(&self, number: u32) -> Home {
        let dir = |dir: &PathBuf| dir.join(dir_name(number));
        Home {
            path: self.path.child(number),
            run: self.run,
            dir: dir(&self.dir),
            again: self.again.as_ref().map(dir),
            report: self.report.as_ref().map(|report| {
                let mut report = report.clone().into_os_string();
                report.push(format!(".{number}"));
                report.into()
            }),
            given: self.given.clone(),
            unsent: self.unsent.clone(),
        }
    }

    /// Returns the variables for a new process with this home, which has this `tie` to the calling
    /// one.
    pub fn variables(&self, tie: Tie) -> Variables {
        let claim = Claim {
            path: self.path.clone(),
            run: self.run,
            tie,
            pid: std::process::id(),
        };
        let mut set = vec![
            variable(PROCESS, OsStr::new(&claim.to_string())),
            variable(LOG, self.dir.as_os_str()),
        ];
        let place = |name, path: &Option<PathBuf>| Some(variable(name, path.as_ref()?.as_os_str()));
        set.extend(place(NEW_LOG, &self.again));
        set.extend(place(REPORT, &self.report));
        let unsent = self.unsent.as_deref();
        let unsent = unsent.filter(|unsent| unsent.len() <= MOST_UNSENT);
        set.extend(unsent.map(|unsent| variable(UNSENT, OsStr::new(unsent))));
        Variables {
            number: self.path.numbers().last().copied().unwrap_or(0),
            set: set.into_iter().flatten().collect(),
            given: self.given.as_deref().and_then(|dir| variable(LOG, dir)),
        }
    }
}

fn absolute(path: &Path) -> PathBuf {
    // The program may change its working directory.
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// `NAME=value`; there are no values with a zero in them.
fn variable(name: &str, value: &OsStr) -> Option<CString> {
    CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
}

/// How a process comes from the one that names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tie {
    /// It is its child.
    Below,
    /// It is the same, with another program.
    In,
}

/// Variables that make a new process one of a recording.
#[derive(Debug)]
pub struct Variables {
    /// The new process's number.
    pub number: u32,
    /// Each as `NAME=value`.
    pub set: Vec<CString>,
    /// The value that the environment must have for these to apply; `None` if it must have no such
    /// variable.
    given: Option<CString>,
}

impl Variables {
    /// Whether an environment that has this variable for the log's directory, or none, is
    /// one that was not made for something else.
    pub fn are_meant(&self, found: Option<&[u8]>) -> bool {
        found == self.given.as_deref().map(std::ffi::CStr::to_bytes)
    }
}

/// The content of [`PROCESS`].
#[derive(Debug, Clone, PartialEq, Eq)]
struct Claim {
    path: ProcessPath,
    run: u64,
    tie: Tie,
    pid: u32,
}

impl Claim {
    fn parse(text: &str) -> Option<Claim> {
        if let Ok(pid) = text.parse() {
            return Some(Claim {
                path: ProcessPath::first(),
                run: new_run(),
                tie: Tie::In,
                pid,
            });
        }
        let mut words = text.split(' ');
        let claim = Claim {
            path: words.next()?.parse().ok()?,
            run: u64::from_str_radix(words.next()?, 16).ok()?,
            tie: match words.next()? {
                "below" => Tie::Below,
                "in" => Tie::In,
                _ => return None,
            },
            pid: words.next()?.parse().ok()?,
        };
        words.next().is_none().then_some(claim)
    }

    /// Returns the identity that this claim gives the calling process; `None` if the claim is
    /// about another process.
    fn check(self) -> Option<(ProcessPath, u64)> {
        let holds = match self.tie {
            Tie::In => self.pid == std::process::id(),
            Tie::Below => self.pid == sys::parent() || !sys::exists(self.pid),
        };
        holds.then_some((self.path, self.run))
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tie = match self.tie {
            Tie::Below => "below",
            Tie::In => "in",
        };
        write!(f, "{} {:x} {tie} {}", self.path, self.run, self.pid)
    }
}

/// A number that no other run has. (Not by random bytes, which may be recorded ones.)
fn new_run() -> u64 {
    let now = apart(SystemTime::now).duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap_or_default().as_nanos() as u64;
    (now ^ u64::from(std::process::id()) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> Home {
        Home {
            path: ProcessPath::first(),
            run: 0xbeef,
            dir: "/logs".into(),
            again: Some("/again".into()),
            report: Some("/report".into()),
            given: Some("logs".into()),
            unsent: Some("0.2.1 3 7".into()),
        }
    }

    fn told(home: &Home, tie: Tie) -> Vec<String> {
        let set = home.variables(tie).set;
        let text = |variable: CString| variable.into_string().unwrap();
        set.into_iter().map(text).collect()
    }

    #[test]
    fn a_child_gets_its_identity_and_the_place_of_its_log() {
        let pid = std::process::id();
        let child = home().child(2).child(1);
        assert_eq!(
            told(&child, Tie::Below),
            [
                format!("RR_CHANNEL_PROCESS=0.2.1 beef below {pid}"),
                "RR_CHANNEL_LOG=/logs/process-2/process-1".to_owned(),
                "RR_CHANNEL_NEW_LOG=/again/process-2/process-1".to_owned(),
                "RR_CHANNEL_REPORT=/report.2.1".to_owned(),
                "RR_CHANNEL_OWED=0.2.1 3 7".to_owned(),
            ]
        );
        let home = Home {
            unsent: Some("x".repeat(MOST_UNSENT + 1)),
            ..home()
        };
        let all = told(&home, Tie::Below).join(" ");
        assert!(!all.contains("OWED"), "{all}");
    }

    #[test]
    fn an_environment_made_for_something_else_is_left_alone() {
        let variables = home().child(1).variables(Tie::Below);
        assert!(variables.are_meant(Some(b"RR_CHANNEL_LOG=logs")));
        assert!(!variables.are_meant(Some(b"RR_CHANNEL_LOG=other")));
        assert!(!variables.are_meant(None));
    }

    #[test]
    fn a_claim_reads_back() {
        for tie in [Tie::Below, Tie::In] {
            let claim = Claim {
                path: ProcessPath::first().child(7),
                run: u64::MAX,
                tie,
                pid: 12,
            };
            assert_eq!(Claim::parse(&claim.to_string()), Some(claim));
        }
        for text in [
            "",
            "0",
            "x",
            "0.1 f below",
            "0.1 f beside 3",
            "0.1 f in 3 4",
        ] {
            let first = Claim::parse(text).map(|claim| claim.pid);
            assert_eq!(first, (text == "0").then_some(0), "{text:?}");
        }
    }

    #[test]
    fn a_claim_holds_only_for_the_named_process() {
        let check = |text: String| Claim::parse(&text).unwrap().check().map(|(path, _)| path);
        let (pid, parent) = (std::process::id(), sys::parent());
        assert_eq!(check(pid.to_string()), Some(ProcessPath::first()));
        assert_eq!(check(parent.to_string()), None);
        let child = Some(ProcessPath::first().child(1));
        assert_eq!(check(format!("0.1 f in {pid}")), child);
        assert_eq!(check(format!("0.1 f in {parent}")), None);
        assert_eq!(check(format!("0.1 f below {parent}")), child);
        assert_eq!(check(format!("0.1 f below {pid}")), None);
        // No process has this id.
        assert_eq!(check(format!("0.1 f below {}", i32::MAX)), child);
    }
}
