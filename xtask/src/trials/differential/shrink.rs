//! Making a failing case small.
//!
//! Parts are taken away one after another, large ones first, as long as what
//! remains still shows a difference of the same aspect under pcache and none
//! when both sides run plainly. Passes repeat until one changes nothing or the
//! time is up.

use std::time::{Duration, Instant};

use super::case::{Aftermath, Case, Input, Node, Output, Run, Step};
use super::check::{Difference, Pcache, Subject, Tally, check};
use super::disturb;
use crate::support::tree::arena::Arena;

/// Shrinks `case`, which failed with `difference`.
///
/// # Errors
///
/// When the machinery fails while a candidate is tried.
pub(crate) fn shrink(
    arena: &Arena,
    case: &Case,
    difference: &Difference,
    pcache: &Pcache,
    limit: Duration,
) -> anyhow::Result<(Case, Difference)> {
    let mut shrinking = Shrinking {
        arena,
        pcache,
        best: case.clone(),
        difference: difference.clone(),
        deadline: Instant::now() + limit,
    };
    // What comes after the difference cannot matter.
    let mut first = case.clone();
    first.steps.truncate(difference.step + 1);
    shrinking.attempt(first)?;
    while shrinking.pass()? && !shrinking.expired() {}
    Ok((shrinking.best, shrinking.difference))
}

struct Shrinking<'a> {
    arena: &'a Arena,
    pcache: &'a Pcache,
    best: Case,
    difference: Difference,
    deadline: Instant,
}

impl Shrinking<'_> {
    fn expired(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Keeps `candidate` when it still fails in the same way.
    fn attempt(&mut self, candidate: Case) -> anyhow::Result<bool> {
        if candidate == self.best || candidate.steps.is_empty() || self.expired() {
            return Ok(false);
        }
        let mut tally = Tally::default();
        let Some(found) = check(
            self.arena,
            &candidate,
            Subject::Pcache(self.pcache),
            &mut tally,
        )?
        else {
            return Ok(false);
        };
        if found.aspect != self.difference.aspect
            || check(self.arena, &candidate, Subject::Plain, &mut tally)?.is_some()
        {
            return Ok(false);
        }
        self.best = candidate;
        self.best.steps.truncate(found.step + 1);
        self.difference = found;
        Ok(true)
    }

    /// Tries each removal once; says whether any succeeded.
    fn pass(&mut self) -> anyhow::Result<bool> {
        let mut changed = false;
        changed |= self.each(
            |case| case.steps.len(),
            |case, at| drop(case.steps.remove(at)),
        )?;
        changed |= self.each(
            |case| case.files.len(),
            |case, at| drop(case.files.remove(at)),
        )?;
        for step in 0..self.best.steps.len() {
            changed |= self.each(
                |case| case.steps.get(step).map_or(0, |step| step.edits.len()),
                |case, at| drop(case.steps[step].edits.remove(at)),
            )?;
            changed |= self.each(
                |case| {
                    let step = case.steps.get(step);
                    step.map_or(0, |step| step.disturbances.len())
                },
                |case, at| drop(case.steps[step].disturbances.remove(at)),
            )?;
            changed |= self.plainer_disturbances(step)?;
            changed |= self.each(
                |case| {
                    let step = case.steps.get(step);
                    step.map_or(0, |step| step.run.argv.len().saturating_sub(1))
                },
                |case, at| drop(case.steps[step].run.argv.remove(at + 1)),
            )?;
            for simplify in SIMPLER_STEPS {
                let mut candidate = self.best.clone();
                if let Some(step) = candidate.steps.get_mut(step) {
                    simplify(step);
                    changed |= self.attempt(candidate)?;
                }
            }
            for simplify in SIMPLER_RUNS {
                let mut candidate = self.best.clone();
                if let Some(step) = candidate.steps.get_mut(step) {
                    simplify(&mut step.run);
                    changed |= self.attempt(candidate)?;
                }
            }
        }
        for file in (0..self.best.files.len()).rev() {
            changed |= self.each(
                |case| match case.files.get(file).map(|entry| &entry.node) {
                    Some(Node::File { blocks, .. }) => blocks.len(),
                    _ => 0,
                },
                |case, at| {
                    if let Some(Node::File { blocks, .. }) =
                        case.files.get_mut(file).map(|entry| &mut entry.node)
                    {
                        blocks.remove(at);
                    }
                },
            )?;
            let mut candidate = self.best.clone();
            if let Some(entry) = candidate.files.get_mut(file) {
                entry.age = None;
                changed |= self.attempt(candidate)?;
            }
        }
        // One line of a piece at a time, for recipes and scripts.
        for file in 0..self.best.files.len() {
            changed |= self.each(
                |case| lines(case, file),
                |case, at| remove_line(case, file, at),
            )?;
        }
        Ok(changed)
    }

    /// Tries plainer forms of each disturbance of a step.
    fn plainer_disturbances(&mut self, step: usize) -> anyhow::Result<bool> {
        let mut changed = false;
        let count = |case: &Case| {
            case.steps
                .get(step)
                .map_or(0, |step| step.disturbances.len())
        };
        for at in 0..count(&self.best) {
            let Some(current) = self
                .best
                .steps
                .get(step)
                .and_then(|step| step.disturbances.get(at))
            else {
                break;
            };
            for plainer in disturb::plainer(current) {
                let mut candidate = self.best.clone();
                candidate.steps[step].disturbances[at] = plainer;
                changed |= self.attempt(candidate)?;
            }
        }
        Ok(changed)
    }

    /// Tries to remove `count` parts, half of them at once at first, then
    /// smaller runs, from the last to the first.
    fn each(
        &mut self,
        count: impl Fn(&Case) -> usize,
        remove: impl Fn(&mut Case, usize),
    ) -> anyhow::Result<bool> {
        let mut changed = false;
        let mut size = count(&self.best).div_ceil(2);
        while size > 0 {
            let mut end = count(&self.best);
            while end > 0 {
                let start = end.saturating_sub(size);
                let mut candidate = self.best.clone();
                for at in (start..end).rev() {
                    remove(&mut candidate, at);
                }
                changed |= self.attempt(candidate)?;
                // A success may have dropped more than was asked for.
                end = start.min(count(&self.best));
            }
            size /= 2;
        }
        Ok(changed)
    }
}

/// Ways to make a step plainer.
const SIMPLER_STEPS: &[fn(&mut Step)] = &[
    |step| step.hasty = false,
    |step| step.order.clear(),
    |step| drop(step.order.pop()),
    |step| step.aftermath = Aftermath::Restored,
    |step| step.refreshed = !step.disturbances.is_empty(),
];

/// Ways to make a run plainer.
const SIMPLER_RUNS: &[fn(&mut Run)] = &[
    |run| run.options.clear(),
    |run| run.prelude.clear(),
    |run| run.input = Input::Null,
    |run| run.output = Output::Pipes,
    |run| run.env.clear(),
    |run| run.cwd.clear(),
    |run| {
        run.argv.truncate(run.argv.len().saturating_sub(1).max(1));
    },
];

fn lines(case: &Case, file: usize) -> usize {
    match case.files.get(file).map(|entry| &entry.node) {
        Some(Node::File { blocks, .. }) => blocks.iter().map(|block| block.lines().count()).sum(),
        _ => 0,
    }
}

fn remove_line(case: &mut Case, file: usize, mut at: usize) {
    let Some(Node::File { blocks, .. }) = case.files.get_mut(file).map(|entry| &mut entry.node)
    else {
        return;
    };
    for block in blocks {
        let count = block.lines().count();
        if at < count {
            *block = block
                .split_inclusive('\n')
                .enumerate()
                .filter_map(|(index, line)| (index != at).then_some(line))
                .collect();
            return;
        }
        at -= count;
    }
}
