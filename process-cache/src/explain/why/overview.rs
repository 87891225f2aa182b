//! Combines the reasons of a whole run: each once, with the units that ran for it.

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use super::Explainer;
use super::reason::{Kind, Reason};
use crate::model::fate::Fate;

/// A reason with the units that ran for it.
#[derive(Debug, Clone, Serialize)]
pub struct Group {
    /// The root cause of their reasons.
    #[serde(flatten)]
    pub reason: Reason,
    /// Numbers of the units: those that start no other unit of the group first.
    pub units: Vec<u32>,
    /// Time of these units, in µs: a unit counts only if no descendant ran for a reason.
    pub wall_us: u64,
}

/// Why a run's units ran.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Overview {
    /// The reasons, the most expensive first.
    pub reasons: Vec<Group>,
    /// Units that ran and are explained by the reasons.
    pub ran: u32,
    /// Units that were skipped.
    pub skipped: u32,
    /// Units that are too short to cache.
    pub short: u32,
    /// Units that belong to their parent.
    pub internal: u32,
}

impl Overview {
    /// Returns the part about one file, program or variable.
    pub fn about(self, name: &str) -> Option<Self> {
        let end = format!("/{}", name.trim_start_matches("./"));
        let is_it = |group: &Group| {
            let subject = &group.reason.subject;
            subject == name || subject.ends_with(&end)
        };
        let reasons: Vec<Group> = self.reasons.into_iter().filter(is_it).collect();
        let units: FxHashSet<u32> = reasons
            .iter()
            .flat_map(|group| group.units.iter().copied())
            .collect();
        (!reasons.is_empty()).then(|| Self {
            reasons,
            ran: units.len() as u32,
            ..Self::default()
        })
    }
}

/// Combines the reasons of a run.
pub fn overview(all: &Explainer<'_>, at: usize) -> Overview {
    let mut found = Overview::default();
    let Some(run) = all.history.runs.get(at) else {
        return found;
    };
    // Units with reported reasons, and ancestors of such units.
    let mut told: Vec<(u32, Vec<Reason>)> = Vec::new();
    let mut has_below: FxHashSet<u32> = FxHashSet::default();
    for (number, unit) in run.numbered() {
        if let Some(Fate::Hit { .. }) = unit.fate {
            found.skipped += 1;
            continue;
        }
        let explanation = all.explain((at, number));
        let is = |kind| explanation.reasons.iter().any(|reason| reason.kind == kind);
        if is(Kind::Internal) {
            found.internal += 1;
        } else if is(Kind::Short) {
            found.short += 1;
        } else {
            found.ran += 1;
            told.push((number, explanation.reasons.clone()));
            let mut above = unit.above;
            while above != 0 && has_below.insert(above) {
                above = run.unit(above).map_or(0, |unit| unit.above);
            }
        }
    }
    let mut groups: Vec<Group> = Vec::new();
    let mut places: FxHashMap<(Kind, String), usize> = FxHashMap::default();
    // Units without children come first: their parents ran because they did, and further reasons
    // of the parents come after.
    told.sort_by_key(|(number, _)| match has_below.contains(number) {
        false => (false, i64::from(*number)),
        true => (true, -i64::from(*number)),
    });
    for (number, reasons) in &told {
        let is_last = !has_below.contains(number);
        let wall_us = run.unit(*number).map_or(0, |unit| unit.wall_us);
        let mut mine: FxHashSet<usize> = FxHashSet::default();
        for (place, reason) in reasons.iter().enumerate() {
            let root = reason.root();
            // One unit may run a file as a program that another one reads.
            let kind = match root.kind {
                Kind::Program => Kind::Content,
                kind => kind,
            };
            let key = (kind, root.subject.clone());
            let known = places.get(&key).copied();
            let follows = root.own_product || root.kind == Kind::Order || root.kind == Kind::New;
            // A reason about the unit's own products, or about times, follows from another reason
            // if there is one.
            if known.is_none() && follows && (place > 0 || (!is_last && !groups.is_empty())) {
                continue;
            }
            let group = known.unwrap_or_else(|| {
                places.insert(key, groups.len());
                groups.push(Group {
                    reason: root.clone(),
                    units: Vec::new(),
                    wall_us: 0,
                });
                groups.len() - 1
            });
            if mine.insert(group) {
                groups[group].units.push(*number);
                // Time is counted once, for the first reported reason.
                if is_last && mine.len() == 1 {
                    groups[group].wall_us += wall_us;
                }
            }
        }
    }
    groups.sort_by_key(|group| {
        // Less informative reasons come last.
        let is_vague = group.reason.kind == Kind::New || group.reason.own_product;
        (is_vague, std::cmp::Reverse(group.wall_us))
    });
    found.reasons = groups;
    found
}
