//! Finds a small set of changes that still fails: delta debugging (Zeller and Hildebrandt
//! 2002), with outcomes that may be unknown.
//!
//! Delta debugging ends where no part can be left out. That set is not the smallest one if the
//! oracle was wrong once, or if changes contradict each other unless they are made together. So
//! all groupings of the changes are tried again until none leaves anything out. A set whose
//! outcome stayed unknown is tried once more before it counts as needed.

use std::collections::HashMap;

use super::trial::Finding;

/// How many changes are left out to see whether all are needed.
const SAMPLES: usize = 8;
/// So many sets may contradict themselves for each set that may be tried: a contradiction
/// costs no replay, and is not free.
const CONTRADICTIONS: u32 = 20;
/// How often a set is tried of which nothing becomes known.
const ATTEMPTS: u32 = 2;

/// A way to put changes into groups that are likely to be needed together.
pub(super) type Grouping<'a> = &'a dyn Fn(&[usize]) -> Vec<Vec<usize>>;

/// Tries sets of changes, and knows which it has tried.
pub(super) struct Tries<F> {
    test: F,
    /// The finding of each set, and how often it was tried.
    known: HashMap<Vec<usize>, (Finding, u32)>,
    /// How many more may be tried.
    pub(super) left: u32,
    /// How many more may contradict themselves.
    contradictions: u32,
    /// Whether a set stayed unknown that may be tried again.
    has_unknown: bool,
    /// Whether unknown sets are tried again.
    repeats: bool,
}

impl<F: FnMut(&[usize]) -> anyhow::Result<Finding>> Tries<F> {
    /// Tries up to `most` sets with `test`.
    pub(super) fn new(most: u32, test: F) -> Self {
        Tries {
            test,
            known: HashMap::new(),
            left: most,
            contradictions: most.saturating_mul(CONTRADICTIONS),
            has_unknown: false,
            repeats: false,
        }
    }

    /// Whether there are no tries left.
    pub(super) const fn is_over(&self) -> bool {
        self.left == 0 || self.contradictions == 0
    }

    /// The finding of `set`; [`Finding::Unknown`] if there are no tries left.
    pub(super) fn finding(&mut self, set: &[usize]) -> anyhow::Result<Finding> {
        let mut set = set.to_vec();
        set.sort_unstable();
        let mut attempts = 0;
        if let Some(&(finding, tried)) = self.known.get(&set) {
            let is_open = finding == Finding::Unknown && tried < ATTEMPTS;
            self.has_unknown |= is_open;
            if !is_open || !self.repeats {
                return Ok(finding);
            }
            attempts = tried;
        }
        if self.is_over() {
            return Ok(Finding::Unknown);
        }
        let finding = (self.test)(&set)?;
        match finding {
            Finding::Contradiction => self.contradictions -= 1,
            _ => self.left -= 1,
        }
        self.has_unknown |= finding == Finding::Unknown && attempts + 1 < ATTEMPTS;
        self.known.insert(set, (finding, attempts + 1));
        Ok(finding)
    }

    fn fails(&mut self, set: &[usize]) -> anyhow::Result<bool> {
        Ok(self.finding(set)? == Finding::Fails)
    }

    /// A set of `changes`, which together fail, of which nothing can be left out: no change
    /// and no group of one of the `groupings`, as far as tries went.
    ///
    /// # Errors
    /// Those of the test.
    pub(super) fn minimize(
        &mut self,
        changes: Vec<usize>,
        groupings: &[Grouping<'_>],
    ) -> anyhow::Result<Vec<usize>> {
        let mut minimum = changes;
        loop {
            let before = minimum.len();
            self.has_unknown = false;
            for grouping in groupings {
                let groups = grouping(&minimum);
                minimum = self.reduce(groups)?.concat();
                if self.are_all_needed(&minimum)? {
                    return Ok(minimum);
                }
            }
            let is_smaller = minimum.len() < before;
            if self.is_over() || !(is_smaller || self.has_unknown && !self.repeats) {
                return Ok(minimum);
            }
            self.repeats = !is_smaller;
        }
    }

    /// Whether it looks as if none of many changes, which together fail, could be left out:
    /// a thread that gets nothing is one decision, and hundreds of changes. A sample of them
    /// is asked; a set that contradicts itself or stays unknown says nothing of the change
    /// that was left out.
    ///
    /// # Errors
    /// Those of the test.
    fn are_all_needed(&mut self, set: &[usize]) -> anyhow::Result<bool> {
        if set.len() <= SAMPLES {
            return Ok(false);
        }
        let mut needed = 0;
        for sample in 0..SAMPLES {
            let mut rest = set.to_vec();
            rest.remove(sample * (set.len() - 1) / (SAMPLES - 1));
            match self.finding(&rest)? {
                Finding::Fails | Finding::Contradiction => return Ok(false),
                Finding::Passes | Finding::Chance => needed += 1,
                Finding::Unknown => {}
            }
        }
        Ok(needed > SAMPLES / 2)
    }

    /// Those of the `groups`, which together fail, that are needed for that: none of them
    /// can be left out, as far as tries went.
    ///
    /// # Errors
    /// Those of the test.
    fn reduce(&mut self, groups: Vec<Vec<usize>>) -> anyhow::Result<Vec<Vec<usize>>> {
        let mut groups = groups;
        let mut parts = 2;
        while groups.len() > 1 {
            let size = groups.len().div_ceil(parts);
            let chunks: Vec<Vec<Vec<usize>>> = groups.chunks(size).map(<[_]>::to_vec).collect();
            let mut next = None;
            for chunk in &chunks {
                if self.fails(&chunk.concat())? {
                    next = Some((chunk.clone(), 2));
                    break;
                }
            }
            if next.is_none() && chunks.len() > 2 {
                for skipped in 0..chunks.len() {
                    let rest: Vec<Vec<usize>> = chunks
                        .iter()
                        .enumerate()
                        .filter(|(at, _)| *at != skipped)
                        .flat_map(|(_, chunk)| chunk.clone())
                        .collect();
                    if self.fails(&rest.concat())? {
                        next = Some((rest, (chunks.len() - 1).max(2)));
                        break;
                    }
                }
            }
            match next {
                Some(fewer) => (groups, parts) = fewer,
                None if size == 1 || self.is_over() => break,
                None => parts = (parts * 2).min(groups.len()),
            }
        }
        Ok(groups)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::minimize::trial::{Evidence, decide};
    use Finding::{Contradiction, Fails, Passes, Unknown};

    fn one_by_one(set: &[usize]) -> Vec<Vec<usize>> {
        set.iter().map(|n| vec![*n]).collect()
    }

    /// Groups of eight neighbours each.
    fn by_eight(set: &[usize]) -> Vec<Vec<usize>> {
        set.chunk_by(|a, b| a / 8 == b / 8)
            .map(<[_]>::to_vec)
            .collect()
    }

    /// The smallest set found in 0..`of`, and how many were tried.
    fn check(of: usize, most: u32, test: impl Fn(&[usize]) -> Finding) -> (Vec<usize>, u32) {
        let mut tries = Tries::new(most, |set: &[usize]| Ok(test(set)));
        let all = (0..of).collect();
        let mut found = tries.minimize(all, &[&one_by_one]).unwrap();
        found.sort_unstable();
        (found, most - tries.left)
    }

    fn fails_with(needed: &[usize]) -> impl Fn(&[usize]) -> Finding {
        move |set| match needed.iter().all(|n| set.contains(n)) {
            true => Fails,
            false => Passes,
        }
    }

    #[test]
    fn changes_that_are_not_needed_are_left_out() {
        for needed in [&[][..], &[0], &[99], &[3, 97], &[10, 11, 50, 51]] {
            let (found, tries) = check(100, 1000, fails_with(needed));
            // One is left where none is needed: none at all was tried before.
            if !needed.is_empty() {
                assert_eq!(found, needed);
            }
            assert!(tries < 150, "{tries} tries for {needed:?}");
        }
    }

    #[test]
    fn sets_that_contradict_themselves_do_not_mislead() {
        // Pairs must be changed together.
        let fails = |set: &[usize]| {
            if set.iter().any(|n| !set.contains(&(n ^ 1))) {
                Unknown
            } else {
                fails_with(&[6, 7])(set)
            }
        };
        assert_eq!(check(32, 1000, fails).0, [6, 7]);
    }

    #[test]
    fn without_tries_left_the_last_set_that_failed_is_returned() {
        let (found, tries) = check(64, 9, fails_with(&[3, 60]));
        assert_eq!(tries, 9);
        assert!([3, 60].iter().all(|n| found.contains(n)), "{found:?}");
        assert!(found.len() < 64);
    }

    #[test]
    fn many_changes_that_are_one_are_not_taken_apart() {
        let set: Vec<usize> = (0..100).collect();
        let all_needed = |needed: &[usize]| {
            let test = fails_with(needed);
            let mut tries = Tries::new(1000, |set: &[usize]| Ok(test(set)));
            (tries.are_all_needed(&set).unwrap(), 1000 - tries.left)
        };
        assert_eq!(all_needed(&set), (true, 8));
        assert_eq!(all_needed(&[0, 50]), (false, 2));
    }

    #[test]
    fn unknown_samples_do_not_show_that_all_changes_are_needed() {
        let set: Vec<usize> = (0..100).collect();
        let mut tries = Tries::new(1000, |_: &[usize]| Ok(Unknown));
        assert!(!tries.are_all_needed(&set).unwrap());
    }

    #[test]
    fn a_set_whose_outcome_is_known_is_tried_once() {
        let mut count = 0;
        let mut tries = Tries::new(10, |_: &[usize]| {
            count += 1;
            Ok(Passes)
        });
        for set in [[1, 2], [2, 1]] {
            assert_eq!(tries.finding(&set).unwrap(), Passes);
        }
        assert_eq!(count, 1);
    }

    #[test]
    fn changes_that_hold_together_are_not_all_needed_for_that() {
        // A block of twenty that moves as a whole, and the one that counts.
        let mut tries = Tries::new(100, |set: &[usize]| {
            let moved = set.iter().filter(|n| **n < 20).count();
            Ok(match moved == 0 || moved == 20 {
                true => fails_with(&[25])(set),
                false => Contradiction,
            })
        });
        let all: Vec<usize> = (0..26).collect();
        assert!(!tries.are_all_needed(&all).unwrap());
        assert_eq!(tries.minimize(all, &[&one_by_one]).unwrap(), [25]);
    }

    #[test]
    fn a_set_that_was_unknown_at_first_is_tried_again() {
        // What decides is alone in its group, and the first answer on each set is lost.
        let seen = RefCell::new(Vec::new());
        let test = |set: &[usize]| {
            if seen.borrow().iter().any(|known| known == set) {
                return fails_with(&[16])(set);
            }
            seen.borrow_mut().push(set.to_vec());
            match set.len() {
                ..4 => Unknown,
                _ => fails_with(&[16])(set),
            }
        };
        assert_eq!(check(23, 1000, test).0, [16]);
    }

    #[test]
    fn a_block_that_holds_together_goes_when_its_group_is_tried_again() {
        // The changes 16 and 17 decide. Those below 8 move as a whole; the answers on sets of
        // groups are lost at first, so that changes are left out one by one.
        let asked = RefCell::new(0);
        let mut tries = Tries::new(1000, |set: &[usize]| {
            *asked.borrow_mut() += 1;
            let moved = set.iter().filter(|n| **n < 8).count();
            Ok(match moved {
                1..8 => Contradiction,
                _ if *asked.borrow() < 6 => Unknown,
                _ => fails_with(&[16, 17])(set),
            })
        });
        let all = (0..23).collect();
        let mut found = tries.minimize(all, &[&by_eight, &one_by_one]).unwrap();
        found.sort_unstable();
        assert_eq!(found, [16, 17]);
    }

    /// An oracle of which a share of the replays does not do what was composed, and how many
    /// changes of 23 are left of those that are needed, for many seeds.
    fn with_strays(percent: u64, needed: &[usize]) -> Vec<Vec<usize>> {
        let test = fails_with(needed);
        let search = |seed: u64| {
            let mut random = seed;
            let mut next = move || {
                // Knuth's MMIX generator.
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                random >> 33
            };
            let mut tries = Tries::new(1000, |set: &[usize]| {
                decide(|| {
                    Ok(if next() % 100 < percent {
                        Evidence::Strayed(vec![("main".to_owned(), next() % 60)])
                    } else if test(set) == Fails {
                        Evidence::Fails
                    } else {
                        Evidence::Passes
                    })
                })
            });
            let all = (0..23).collect();
            let mut found = tries.minimize(all, &[&by_eight, &one_by_one]).unwrap();
            found.sort_unstable();
            found
        };
        (0..200).map(search).collect()
    }

    #[test]
    fn replays_that_leave_their_recording_do_not_make_the_answer_larger() {
        for needed in [&[16][..], &[3, 20]] {
            for percent in [0, 10, 30] {
                let found = with_strays(percent, needed);
                let larger = found.iter().filter(|found| *found != needed).count();
                assert_eq!(larger, 0, "{percent} % of the replays strayed: {found:?}");
            }
        }
    }
}
