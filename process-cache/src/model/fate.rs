//! The results of the units of a run: skipped, stored or not cached.

use serde::{Deserialize, Serialize};

/// The result of a unit in this run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    /// Skipped.
    Hit {
        /// Wall time of the recorded run, in µs.
        recorded_us: u64,
        /// Time that checking and restoring took, in µs.
        took_us: u64,
        /// Units in the recorded tree.
        units: u32,
    },
    /// Run and stored.
    Stored,
    /// Run and not stored, for this reason.
    NotStored {
        /// In words.
        reason: String,
    },
}

/// A [`Fate`] with a tag for JSON. The journal's format is not self-describing and has no tag.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Fate", rename_all = "snake_case", tag = "result")]
enum TaggedFate {
    /// Skipped; the run it repeats took this long, and skipping this.
    Hit {
        /// Wall time of the recorded run, µs.
        recorded_us: u64,
        /// Time that checking and restoring took, µs.
        took_us: u64,
        /// Units in the recorded tree.
        units: u32,
    },
    /// Run and stored.
    Stored,
    /// Run and not stored, for this reason.
    NotStored {
        /// In words.
        reason: String,
    },
}

/// One unit in the report.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Line {
    /// The unit's number.
    pub unit: u32,
    /// Depth in the tree of units.
    pub depth: u32,
    /// Its command.
    pub command: String,
    /// Why it was not skipped (empty for a hit).
    pub miss: String,
    /// Its result.
    #[serde(flatten, with = "TaggedFate")]
    pub fate: Fate,
    /// Wall time of this run, µs.
    pub wall_us: u64,
    /// The unit's number in the journal; 0 for none.
    #[serde(skip)]
    pub record: u32,
    /// The serial number of its result in the store.
    #[serde(skip)]
    pub serial: u64,
    /// Why it is not found in other directories, if base directories are configured (`--root`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bound: Option<String>,
    /// Its differences from the stored result, if they were compared (`pcache verify`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub differences: Option<Vec<String>>,
}

/// Totals of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Units that ran or were skipped at the top of a skipped tree.
    pub units: u64,
    /// Skipped ones.
    pub hits: u64,
    /// Units inside skipped trees.
    pub skipped_units: u64,
    /// Units that were run and stored.
    pub stored: u64,
    /// Units that were run and not stored.
    pub not_stored: u64,
    /// Time saved: recorded durations of skipped trees minus the time that skipping took, µs.
    /// Parallel trees are all counted.
    pub saved_us: i64,
}
