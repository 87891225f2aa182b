//! Explains why a unit ran: the facts that differ from an earlier run, and the causes of the
//! changes.
//!
//! Nothing of this is computed while a command runs. Afterwards a unit that ran is compared with
//! an earlier one. Under the same weak key, its facts are compared with those of the nearest
//! earlier result ([`facts`]). Under a new key, the inputs of the key are compared with those of
//! the nearest earlier unit ([`keys`]). A difference was caused by a unit of a run in the history,
//! which ran for its own reason, or by an outside process ([`cause`]). [`overview()`] combines the
//! reasons of a whole run.
//!
//! **Invariant:** an explanation changes nothing in the store, and reports an unknown cause as
//! unknown instead of guessing.

pub mod advice;
mod before;
pub mod cause;
pub mod facts;
pub mod keys;
pub mod overview;
pub mod reason;
mod touched;

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::journal::{Entry, History, Run};
use crate::model::fact::{Answer, Digest, Query};
use crate::model::fate::Fate;
use crate::model::miss::Missed;
use crate::model::weak_key::WeakKey;
use crate::store::{Recorded, Store};

pub use self::cause::Cause;
pub use self::overview::{Overview, overview};
pub use self::reason::{Kind, Reason};

/// Maximal length of a chain of causes; the rest is not shown.
const MAX_CAUSES: u32 = 8;

/// The position of a unit: the index of its run in the history, and its number there.
pub type Place = (usize, u32);

/// The explanation why one unit ran, or that it did not.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The explained unit.
    pub place: Place,
    /// The earlier unit with which it is compared.
    pub against: Option<Place>,
    /// The reasons, the most informative first. Empty for a skipped unit.
    pub reasons: Vec<Reason>,
}

/// Explains units of runs in the history.
pub struct Explainer<'a> {
    store: &'a Store,
    /// The runs.
    pub history: &'a History,
    results: RefCell<FxHashMap<Digest, Rc<Vec<Recorded>>>>,
    known: RefCell<FxHashMap<Place, Rc<Explanation>>>,
    written: cause::Index,
    by_key: FxHashMap<Digest, Vec<Place>>,
    before: RefCell<FxHashMap<usize, Rc<FxHashSet<Place>>>>,
}

impl<'a> Explainer<'a> {
    /// Creates an explainer of these runs, whose results are in this store.
    pub fn new(store: &'a Store, history: &'a History) -> Self {
        let mut by_key: FxHashMap<Digest, Vec<Place>> = FxHashMap::default();
        for (at, run) in history.runs.iter().enumerate() {
            for (number, unit) in run.numbered() {
                if let Some(key) = unit.key {
                    by_key.entry(key).or_default().push((at, number));
                }
            }
        }
        Self {
            store,
            history,
            results: RefCell::default(),
            known: RefCell::default(),
            written: cause::Index::new(history),
            by_key,
            before: RefCell::default(),
        }
    }

    /// Returns the run and the unit at a position.
    pub fn at(&self, place: Place) -> Option<(&'a Run, &'a Entry)> {
        let run = self.history.runs.get(place.0)?;
        Some((run, run.unit(place.1)?))
    }

    /// Explains why the unit ran.
    pub fn explain(&self, place: Place) -> Rc<Explanation> {
        self.explain_within(place, 0)
    }

    fn explain_within(&self, place: Place, depth: u32) -> Rc<Explanation> {
        if let Some(known) = self.known.borrow().get(&place) {
            return known.clone();
        }
        let mut explanation = Explanation {
            place,
            against: None,
            reasons: Vec::new(),
        };
        if let Some((run, unit)) = self.at(place) {
            self.reasons(run, unit, &mut explanation);
            if depth < MAX_CAUSES {
                let since = explanation.against.map_or(0, |(run, _)| run);
                for reason in &mut explanation.reasons {
                    self.find_cause(reason, place, since, depth);
                }
            }
        }
        let explanation = Rc::new(explanation);
        if depth == 0 {
            let known = &mut self.known.borrow_mut();
            known.insert(place, explanation.clone());
        }
        explanation
    }

    fn reasons(&self, run: &Run, unit: &Entry, explanation: &mut Explanation) {
        let place = explanation.place;
        let reasons = &mut explanation.reasons;
        match &unit.miss {
            Missed::Not => return,
            Missed::NotLookedUp => {
                let why = match (run.mode.refresh, &unit.fate) {
                    (true, _) => "--refresh was given",
                    (false, Some(Fate::NotStored { .. })) => "",
                    (false, _) => "nobody knew what it would do",
                };
                if !why.is_empty() {
                    reasons.push(Reason::new(Kind::NotLookedUp, why));
                }
            }
            Missed::Unusable(why) => reasons.push(Reason::new(Kind::Unusable, why)),
            Missed::New => self.reasons_of_new(run, unit, explanation),
            Missed::Changed {
                query,
                recorded,
                found,
            } => {
                if let Some((at, reason)) = self.not_stored_before(unit, place) {
                    explanation.against = Some(at);
                    explanation.reasons.push(unstored(unit, reason));
                } else {
                    let changed = self.changed(unit, (query, recorded, found), explanation);
                    explanation.reasons.extend(changed);
                }
            }
        }
        if let Some(Fate::NotStored { reason }) = &unit.fate {
            let kind = Kind::of_uncacheable(reason);
            let known = |other: &Reason| other.kind == kind && other.subject == *reason;
            if !explanation.reasons.iter().any(known) {
                explanation.reasons.push(Reason::new(kind, reason));
            }
        }
        self.name_touched(run, unit, explanation);
        let reasons = &mut explanation.reasons;
        reasons.sort_by_key(Reason::rank);
        // A script that serves as a tool is both a program and a file that is read.
        let mut places = FxHashSet::default();
        reasons.retain(|reason| !reason.is_about_a_file() || places.insert(reason.subject.clone()));
    }

    /// Returns the facts that differ from those of the nearest earlier result.
    fn changed(
        &self,
        unit: &Entry,
        (query, recorded, found): (&Query, &Answer, &Answer),
        explanation: &mut Explanation,
    ) -> Vec<Reason> {
        let results = unit.key.map(|key| self.results(key));
        let results = results.as_deref().map_or(&[][..], |list| list);
        let last = self.stored_before(unit, explanation.place);
        match facts::against(results, unit.serial, last) {
            Some((earlier, list)) if !list.is_empty() => {
                explanation.against = self.stored_as(unit.key, earlier, explanation.place);
                list
            }
            _ => vec![facts::reason(query, recorded, found)],
        }
    }

    /// Returns why the same unit was not stored at its last run, and its position there. Its
    /// stored results are older, and changes since then are not reported.
    fn not_stored_before(&self, unit: &Entry, place: Place) -> Option<(Place, &'a str)> {
        let places = self.by_key.get(&unit.key?)?;
        let last = places.iter().rev().find(|other| **other < place).copied()?;
        match &self.at(last)?.1.fate {
            Some(Fate::NotStored { reason })
                if Kind::of_uncacheable(reason) == Kind::Uncacheable =>
            {
                Some((last, reason))
            }
            _ => None,
        }
    }

    fn reasons_of_new(&self, run: &Run, unit: &Entry, explanation: &mut Explanation) {
        let place = explanation.place;
        // The same unit ran before, but its result is missing.
        let earlier = unit.key.and_then(|key| {
            let places = self.by_key.get(&key)?;
            places.iter().rev().find(|other| **other < place).copied()
        });
        if let Some(earlier) = earlier
            && let Some((_, former)) = self.at(earlier)
        {
            explanation.against = Some(earlier);
            explanation.reasons.push(match &former.fate {
                Some(Fate::NotStored { reason }) => unstored(unit, reason),
                _ => Reason::new(Kind::Lost, "its result is no longer in the store"),
            });
            return;
        }
        let Some(nearest) = keys::nearest(self, place, run, unit) else {
            explanation
                .reasons
                .push(Reason::new(Kind::New, "nothing like it ran before"));
            return;
        };
        explanation.against = Some(nearest);
        let Some((former_run, former)) = self.at(nearest) else {
            return;
        };
        explanation
            .reasons
            .extend(keys::differences((former_run, former), (run, unit)));
        // Facts may differ as well, which the new key hides. Changes since a run before the last
        // one are not reported.
        let is_past = !self.before(place.0).contains(&nearest);
        if !explanation.reasons.is_empty() && is_past && self.ran_since(nearest.0, place.0) {
            return;
        }
        let mine = unit.key.map(|key| self.results(key));
        let theirs = former.key.map(|key| self.results(key));
        if let (Some(mine), Some(theirs)) = (mine, theirs)
            && let Some(mine) = mine.iter().find(|result| result.serial == unit.serial)
            && let Some(theirs) = theirs.iter().find(|result| result.serial == former.serial)
        {
            explanation.reasons.extend(facts::differences(theirs, mine));
        }
        if explanation.reasons.is_empty() {
            let what = "something in its key that is not recorded: --strict, or `uncacheable` or `constant_paths` of the configuration";
            explanation.reasons.push(Reason::new(Kind::Process, what));
        }
    }

    /// Whether the command of the run `now` ran between the runs `then` and `now`.
    fn ran_since(&self, then: usize, now: usize) -> bool {
        let command = |at: usize| {
            let run = self.history.runs.get(at)?;
            let (_, unit) = run.numbered().next()?;
            Some((run.argv(unit), run.text(unit.cwd)))
        };
        let ours = command(now);
        (then + 1..now).any(|at| command(at) == ours)
    }

    fn results(&self, key: Digest) -> Rc<Vec<Recorded>> {
        if let Some(known) = self.results.borrow().get(&key) {
            return known.clone();
        }
        // Unreadable results cannot be compared.
        let results = self.store.results(&WeakKey(key)).unwrap_or_default();
        let results = Rc::new(results);
        self.results.borrow_mut().insert(key, results.clone());
        results
    }

    /// Returns the unit whose result has this serial number.
    fn stored_as(&self, key: Option<Digest>, serial: u64, before: Place) -> Option<Place> {
        let places = self.by_key.get(&key?)?;
        let is_it = |place: &&Place| {
            **place < before
                && self
                    .at(**place)
                    .is_some_and(|(_, unit)| unit.serial == serial)
        };
        places.iter().rev().find(is_it).copied()
    }
}

/// Returns the reason that a unit was not stored at its last run.
fn unstored(unit: &Entry, reason: &str) -> Reason {
    let kind = Kind::of_uncacheable(reason);
    if kind == Kind::Uncacheable && matches!(unit.fate, Some(Fate::Stored)) {
        let what = format!("not cached when it ran last: {reason}");
        return Reason::new(Kind::Lost, what);
    }
    Reason::new(kind, reason)
}
