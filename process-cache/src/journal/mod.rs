//! Past runs, to explain misses and for reports.
//!
//! A run writes one [`Run`] at its end. It lists the units in the order in which they began, with
//! the inputs of their weak keys, the reasons of misses, their results, and the names that they
//! wrote. Each text is stored once. The facts of a unit are not here: they are in the store, under
//! its key, by [`Entry::serial`].
//!
//! **Invariant:** secrets are not stored ([`secrets`]). Of a variable or an option that may
//! contain one, only the name and four bytes of a digest are stored, which reveal a change but not
//! the value.

mod collect;
pub mod secrets;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use self::collect::{Begun, Collector};
use crate::model::abbreviate;
use crate::model::fact::Digest;
use crate::model::fate::Fate;
use crate::model::miss::Missed;
use crate::model::outcome::Ending;
use crate::store::{Result, Store};

/// One run of pcache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Start time: µs since the epoch.
    pub began: u64,
    /// Duration in µs.
    pub wall_us: u64,
    /// The front process.
    pub pid: u32,
    /// Options that decide what is looked up.
    pub mode: Mode,
    /// How the command ended.
    pub ending: Ending,
    /// All texts, each once.
    pub texts: Vec<Vec<u8>>,
    /// Environments, as indices of texts.
    pub environments: Vec<Vec<u32>>,
    /// The units in the order in which they began; the command is the first.
    pub units: Vec<Entry>,
}

/// Options of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mode {
    /// `--strict`
    pub strict: bool,
    /// `--refresh`
    pub refresh: bool,
}

/// One unit of a run. Texts are indices, see [`Run::text`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Number of the unit that executed it, from 1; 0 for the command itself.
    pub above: u32,
    /// The program whose policy counts.
    pub program: u32,
    /// Arguments.
    pub argv: Vec<u32>,
    /// Working directory.
    pub cwd: u32,
    /// Index of its environment.
    pub environment: u32,
    /// Files from which it was started, with prefixes of their digests.
    pub images: Vec<(u32, [u8; 8])>,
    /// Prefix of [`crate::key::machine::digest`].
    pub machine: [u8; 8],
    /// Lines of `/proc/PID/status` in the key.
    pub process: u32,
    /// Resource limits, as 8-byte words.
    pub limits: u32,
    /// Inherited descriptors, in words.
    pub descriptors: Vec<u32>,
    /// Its weak key, if it has one.
    pub key: Option<Digest>,
    /// Its start in µs since the start of the run.
    pub began_us: u64,
    /// Its duration in µs.
    pub wall_us: u64,
    /// Why it was not skipped.
    pub miss: Missed,
    /// Its result; `None` if the command ended before.
    pub fate: Option<Fate>,
    /// The serial number of its result, if it was stored.
    pub serial: u64,
    /// Names that it wrote, made or removed itself.
    pub outputs: Vec<u32>,
}

impl Run {
    /// Decodes a run.
    ///
    /// # Errors
    /// Fails if the bytes are no valid run.
    pub fn decode(bytes: &[u8]) -> postcard::Result<Self> {
        postcard::from_bytes(bytes)
    }

    /// Returns six hexadecimal digits that identify the run.
    pub fn id(&self) -> String {
        let mut bytes = self.began.to_le_bytes().to_vec();
        bytes.extend(self.pid.to_le_bytes());
        format!("{:06x}", xxhash_rust::xxh3::xxh3_64(&bytes) & 0xff_ffff)
    }

    /// Returns the text with this index; empty if there is none.
    pub fn text(&self, number: u32) -> &[u8] {
        self.texts.get(number as usize).map_or(&[], |text| text)
    }

    /// Returns the unit with this number, from 1.
    pub fn unit(&self, number: u32) -> Option<&Entry> {
        self.units.get((number as usize).checked_sub(1)?)
    }

    /// Returns all units with their numbers.
    pub fn numbered(&self) -> impl Iterator<Item = (u32, &Entry)> {
        (1..).zip(&self.units)
    }

    /// Returns a unit's arguments.
    pub fn argv(&self, unit: &Entry) -> Vec<Vec<u8>> {
        let text = |number: &u32| self.text(*number).to_vec();
        unit.argv.iter().map(text).collect()
    }

    /// Returns a unit's command in at most about `limit` characters.
    pub fn command(&self, unit: &Entry, limit: usize) -> String {
        abbreviate::command(&secrets::shown(self.argv(unit)), limit)
    }

    /// Returns the directory of the command.
    pub fn directory(&self) -> &Path {
        let cwd = self.unit(1).map_or(&[][..], |unit| self.text(unit.cwd));
        Path::new(OsStr::from_bytes(cwd))
    }

    /// Returns the depth of a unit below the command.
    pub fn depth(&self, number: u32) -> u32 {
        let above = |number| self.unit(number).map_or(0, |unit| unit.above);
        let mut depth = 0;
        let mut at = above(number);
        // Guards against damaged data, in which a unit may be its own ancestor.
        while at != 0 && depth < self.units.len() as u32 {
            depth += 1;
            at = above(at);
        }
        depth
    }

    /// Returns the time saved by skipping, in µs: the recorded durations minus the time that
    /// skipping took.
    pub fn saved_us(&self) -> i64 {
        let saved = |unit: &Entry| match unit.fate {
            Some(Fate::Hit {
                recorded_us,
                took_us,
                ..
            }) => (recorded_us as i64).saturating_sub(took_us as i64),
            _ => 0,
        };
        self.units.iter().map(saved).fold(0, i64::saturating_add)
    }
}

/// All runs in the journal, oldest first.
#[derive(Debug, Default)]
pub struct History {
    /// The runs.
    pub runs: Vec<Run>,
    /// Number of unreadable positions in the journal.
    pub damaged: u64,
}

impl History {
    /// Reads the journal of a store.
    ///
    /// # Errors
    /// Fails if it cannot be read at all.
    pub fn read(store: &Store) -> Result<Self> {
        let found = store.journal()?;
        let mut damaged = found.damaged + found.foreign;
        let mut runs: Vec<Run> = Vec::with_capacity(found.runs.len());
        for body in found.runs {
            match Run::decode(&body) {
                Ok(run) => runs.push(run),
                Err(_) => damaged += 1,
            }
        }
        runs.sort_by_key(|run| run.began);
        Ok(Self { runs, damaged })
    }

    /// Returns the index of the run that a user in the directory `here` names: the prefix of an
    /// id, `-N` for the Nth before the last one there, or nothing for the last one there. If no
    /// command ran there, runs of all directories count.
    ///
    /// # Errors
    /// The reason why there is no such run.
    pub fn find(&self, name: Option<&str>, here: &Path) -> std::result::Result<usize, String> {
        let last = self.runs.len().checked_sub(1).ok_or(
            "no run is remembered: pcache writes down what it does as soon as it runs something",
        )?;
        let back = match name {
            None => Some(0),
            Some(name) => name.strip_prefix('-').and_then(|n| n.parse().ok()),
        };
        if let Some(back) = back {
            let is_here = |at: &usize| {
                let there = self.runs[*at].directory();
                there.starts_with(here) || here.starts_with(there)
            };
            let mut places: Vec<usize> = (0..=last).filter(is_here).collect();
            if places.is_empty() {
                places = (0..=last).collect();
            }
            return places
                .iter()
                .rev()
                .nth(back)
                .copied()
                .ok_or(format!("only {} runs are remembered", places.len()));
        }
        let name = name.unwrap_or_default();
        let mut found = (0..=last).rev().filter(|&at| {
            let id = self.runs[at].id();
            !name.is_empty() && id.starts_with(name)
        });
        match (found.next(), found.next()) {
            (Some(at), None) => Ok(at),
            (Some(_), Some(_)) => Err(format!("several runs begin with {name}")),
            (None, _) => Err(format!(
                "no run {name}: pcache log lists those that are remembered"
            )),
        }
    }
}

/// Reads untrusted bytes as a journal; never panics.
#[doc(hidden)]
pub fn check_journal(bytes: &[u8]) {
    for run in crate::store::runs_in(bytes) {
        let _ = Run::decode(&run);
    }
    // The part that a fuzzer cannot reach behind the checksum.
    let _ = Run::decode(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fact::{Answer, Query};

    #[test]
    fn runs_are_found_by_id_and_by_directory() {
        let run = |began| Run {
            began,
            wall_us: 0,
            pid: 7,
            mode: Mode::default(),
            ending: Ending::Exited(0),
            texts: Vec::new(),
            environments: Vec::new(),
            units: Vec::new(),
        };
        let history = History {
            runs: vec![run(1), run(2), run(3)],
            damaged: 0,
        };
        let first = history.runs[0].id();
        let find = |name| history.find(name, Path::new("/work"));
        assert_eq!(find(None), Ok(2));
        assert_eq!(find(Some("-1")), Ok(1));
        assert!(find(Some("-3")).is_err());
        assert_eq!(find(Some(&first)), Ok(0));
        assert!(find(Some("")).is_err());
        assert!(History::default().find(None, Path::new("/")).is_err());
    }

    #[test]
    fn the_last_run_is_that_of_the_working_directory() {
        let run = |dir: &str| {
            let mut collector = Collector::new();
            collector.begin(0, &[], Begun::default(), Missed::New);
            let mut run = collector.finish(Mode::default(), Ending::Exited(0));
            run.texts.push(dir.into());
            run.units[0].cwd = run.texts.len() as u32 - 1;
            run
        };
        let history = History {
            runs: ["/a", "/a/sub", "/b", "/ab"].map(run).into(),
            damaged: 0,
        };
        let find = |name, here: &str| history.find(name, Path::new(here));
        assert_eq!(find(None, "/a"), Ok(1));
        assert_eq!(find(Some("-1"), "/a"), Ok(0));
        assert!(find(Some("-2"), "/a").is_err());
        assert_eq!(find(None, "/a/other"), Ok(0), "of a subdirectory as well");
        assert_eq!(find(None, "/b/sub"), Ok(2));
        assert_eq!(find(None, "/elsewhere"), Ok(3), "nothing ran there");
        assert_eq!(find(Some("-3"), "/elsewhere"), Ok(0));
    }

    #[test]
    fn a_run_comes_back_as_it_was_written() {
        let mut collector = Collector::new();
        let argv = [b"cc".to_vec(), b"-c".to_vec(), vec![0xff]];
        let changed = Missed::Changed {
            query: Query::Content("/x".into()),
            recorded: Answer::Error(2),
            found: Answer::Directory,
        };
        let fates = [
            Fate::Stored,
            Fate::NotStored { reason: "x".into() },
            Fate::Hit {
                recorded_us: 1,
                took_us: 2,
                units: 3,
            },
        ];
        for (fate, miss) in fates.into_iter().zip([changed, Missed::New, Missed::Not]) {
            let unit = collector.begin(0, &argv, Begun::default(), miss);
            collector.end(unit, 5, fate, 7);
            collector.output(unit, &"/made".into());
        }
        let run = collector.finish(Mode::default(), Ending::Killed(9));
        let bytes = postcard::to_stdvec(&run).unwrap();
        assert_eq!(Run::decode(&bytes), Ok(run));
    }

    #[test]
    fn units_above_each_other_in_a_circle_have_a_depth() {
        let mut collector = Collector::new();
        collector.begin(2, &[], Begun::default(), Missed::New);
        collector.begin(1, &[], Begun::default(), Missed::New);
        let run = collector.finish(Mode::default(), Ending::Exited(0));
        assert!(run.depth(1) <= 2);
    }
}
