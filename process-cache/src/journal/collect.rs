//! Collects the journal entry of a run.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustc_hash::FxHashMap;

use super::{Entry, Fate, Missed, Mode, Run, secrets};
use crate::key::Keyed;
use crate::model::fact::Digest;
use crate::model::outcome::Ending;
use crate::model::path::FilePath;

/// Collects the results of a run's units.
#[derive(Debug)]
pub struct Collector {
    clock: Instant,
    began: u64,
    texts: Vec<Vec<u8>>,
    numbers: FxHashMap<Vec<u8>, u32>,
    environments: Vec<Vec<u32>>,
    /// Environments so far, to store repeated ones once.
    known: FxHashMap<Arc<[Vec<u8>]>, u32>,
    /// The last one of them.
    last: Option<(Arc<[Vec<u8>]>, u32)>,
    units: Vec<Entry>,
}

/// A unit that begins.
#[derive(Debug, Default)]
pub struct Begun<'k> {
    /// Its program, if its key could not be computed.
    pub path: Option<&'k FilePath>,
    /// Its key and the key's inputs.
    pub keyed: Option<&'k Keyed>,
}

impl Default for Collector {
    fn default() -> Self {
        Self::new()
    }
}

impl Collector {
    /// Creates a collector for a run that begins now.
    pub fn new() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            clock: Instant::now(),
            began: since.map_or(0, |since| since.as_micros() as u64),
            texts: Vec::new(),
            numbers: FxHashMap::default(),
            environments: Vec::new(),
            known: FxHashMap::default(),
            last: None,
            units: Vec::new(),
        }
    }

    /// Notes a unit that begins, started by the one with the number `above`, and returns its
    /// number, from 1.
    pub fn begin(&mut self, above: u32, argv: &[Vec<u8>], begun: Begun<'_>, miss: Missed) -> u32 {
        let argv = secrets::masked_argv(argv);
        let argv: Vec<u32> = argv.iter().map(|text| self.number(text)).collect();
        let short = |digest: &Digest| {
            let mut short = [0; 8];
            short.copy_from_slice(&digest.0[..8]);
            short
        };
        let mut entry = Entry {
            above,
            program: 0,
            argv,
            cwd: 0,
            environment: 0,
            images: Vec::new(),
            machine: [0; 8],
            process: 0,
            limits: 0,
            descriptors: Vec::new(),
            key: None,
            began_us: self.clock.elapsed().as_micros() as u64,
            wall_us: 0,
            miss,
            fate: None,
            serial: 0,
            outputs: Vec::new(),
        };
        if let Some(path) = begun.path {
            entry.program = self.number(path.as_bytes());
        }
        if let Some(keyed) = begun.keyed {
            let key_parts = &keyed.key_parts;
            entry.program = self.number(keyed.program.as_bytes());
            entry.cwd = self.number(key_parts.cwd.as_bytes());
            entry.environment = self.environment(&key_parts.environment);
            for (path, digest) in keyed.images.iter().zip(&key_parts.digests) {
                let path = self.number(path.as_bytes());
                entry.images.push((path, short(digest)));
            }
            entry.machine = short(&key_parts.machine);
            entry.process = self.number(&key_parts.process);
            entry.limits = self.number(&key_parts.limits);
            for text in &key_parts.descriptors {
                let number = self.number(text);
                entry.descriptors.push(number);
            }
            entry.key = Some(keyed.key.0);
        }
        self.units.push(entry);
        self.units.len() as u32
    }

    /// Notes the end of the unit with this number.
    pub fn end(&mut self, unit: u32, wall_us: u64, fate: Fate, serial: u64) {
        let index = (unit as usize).wrapping_sub(1);
        if let Some(entry) = self.units.get_mut(index) {
            entry.wall_us = wall_us;
            entry.fate = Some(fate);
            entry.serial = serial;
        }
    }

    /// Moves the beginning of a unit to an earlier time.
    pub fn backdate(&mut self, unit: u32, by_us: u64) {
        if let Some(entry) = self.units.get_mut((unit as usize).wrapping_sub(1)) {
            entry.began_us = entry.began_us.saturating_sub(by_us);
        }
    }

    /// Notes a name that a unit wrote, made or removed.
    pub fn output(&mut self, unit: u32, path: &FilePath) {
        let number = self.number(path.as_bytes());
        if let Some(entry) = self.units.get_mut((unit as usize).wrapping_sub(1)) {
            entry.outputs.push(number);
        }
    }

    /// Returns the run, which has ended.
    pub fn finish(&mut self, mode: Mode, ending: Ending) -> Run {
        for unit in &mut self.units {
            unit.outputs.sort_unstable();
            unit.outputs.dedup();
        }
        Run {
            began: self.began,
            wall_us: self.clock.elapsed().as_micros() as u64,
            pid: std::process::id(),
            mode,
            ending,
            texts: std::mem::take(&mut self.texts),
            environments: std::mem::take(&mut self.environments),
            units: std::mem::take(&mut self.units),
        }
    }

    fn environment(&mut self, environment: &Arc<[Vec<u8>]>) -> u32 {
        if let Some((last, number)) = &self.last
            && Arc::ptr_eq(last, environment)
        {
            return *number;
        }
        let number = match self.known.get(environment) {
            Some(number) => *number,
            None => {
                let masked: Vec<u32> = environment
                    .iter()
                    .map(|text| self.number(&secrets::masked(text)))
                    .collect();
                let number = self.environments.len() as u32;
                self.environments.push(masked);
                self.known.insert(environment.clone(), number);
                number
            }
        };
        self.last = Some((environment.clone(), number));
        number
    }

    fn number(&mut self, text: &[u8]) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.texts.len() as u32;
        self.texts.push(text.to_vec());
        self.numbers.insert(text.to_vec(), number);
        number
    }
}
