//! Finds files whose compared times have changed.
//!
//! A result only stores the order of times. The changed file is found from the present times: it
//! was modified after the compared run and before the end of this one, and no unit of this run
//! made it.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustc_hash::FxHashSet;

use super::cause::{modified, plain};
use super::reason::{Kind, Reason};
use super::{Explainer, Explanation};
use crate::journal::{Entry, Run};
use crate::model::fact::Query;
use crate::model::miss::Missed;
use crate::model::path::FilePath;

impl Explainer<'_> {
    /// Names newer files if the only known difference is the order of times, or the presence of
    /// the unit's own products.
    pub(super) fn name_touched(&self, run: &Run, unit: &Entry, explanation: &mut Explanation) {
        let reasons = &mut explanation.reasons;
        let is_order = |it: &Reason| it.kind == Kind::Order;
        let since = if reasons.iter().any(is_order) {
            // Changes before the last run are not reported.
            let against = explanation.against.map(|(run, _)| run);
            against.max(self.last_there(explanation.place.0))
        } else if !reasons.is_empty() && reasons.iter().all(|it| it.own_product) {
            self.last_there(explanation.place.0)
        } else {
            return;
        };
        let Some(former) = since.and_then(|run| self.history.runs.get(run)) else {
            return;
        };
        let between = former.began + former.wall_us..=run.began + run.wall_us;
        let known: FxHashSet<&str> = reasons.iter().map(|it| it.subject.as_str()).collect();
        let below = run.numbered();
        let below = below.filter(|(number, _)| self.is_above(explanation.place, *number));
        let own = below.flat_map(|(_, unit)| unit.outputs.iter().map(|name| run.text(*name)));
        let own: FxHashSet<&[u8]> = own.collect();
        let is_touched = |path: &FilePath| {
            path.is_file()
                && modified(path).is_some_and(|time| between.contains(&time))
                && !known.contains(&*path.to_string_lossy())
                && !own.contains(plain(path).as_os_str().as_bytes())
        };
        let paths = self.compared(unit);
        let touched = paths.iter().filter(|path| is_touched(path));
        // A file may have been looked up by several names.
        let touched: BTreeSet<PathBuf> = touched.map(|path| plain(path)).collect();
        let touched = touched.iter().map(|path| path.to_string_lossy());
        let touched = touched.map(|path| Reason::new(Kind::Touched, path));
        let touched: Vec<Reason> = touched.collect();
        if !touched.is_empty() {
            reasons.retain(|it| !is_order(it) && !it.own_product);
            reasons.extend(touched);
        }
    }

    /// Returns the paths whose times the unit compares.
    fn compared(&self, unit: &Entry) -> Vec<FilePath> {
        if let Missed::Changed { query, .. } = &unit.miss
            && let Query::Order(paths) = query
        {
            return paths.clone();
        }
        let results = unit.key.map(|key| self.results(key));
        let results = results.iter().flat_map(|list| list.iter());
        let facts = results.filter(|it| it.serial == unit.serial);
        let mut facts = facts.flat_map(|it| &it.facts);
        let paths = facts.find_map(|fact| match &fact.query {
            Query::Order(paths) => Some(paths.clone()),
            _ => None,
        });
        paths.unwrap_or_default()
    }
}
