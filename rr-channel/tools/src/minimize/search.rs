//! The smallest of many sets of changes that still fails: delta debugging (Zeller and
//! Hildebrandt 2002), with outcomes that say nothing.

use std::collections::HashMap;

use super::Verdict;

/// How many changes are left out to see whether all are needed.
const SAMPLES: usize = 8;
/// How many sets may contradict themselves, for each that may be tried: to find that out
/// costs no replay, but it is not free.
const CONTRADICTIONS: u32 = 20;

/// Tries sets of changes, and knows which it has tried.
pub(super) struct Tries<F> {
    test: F,
    /// What is known of sets; `None` if they contradict themselves.
    known: HashMap<Vec<usize>, Option<Verdict>>,
    /// How many more may be tried.
    pub(super) left: u32,
    /// How many more may contradict themselves.
    contradictions: u32,
}

impl<F: FnMut(&[usize]) -> anyhow::Result<Option<Verdict>>> Tries<F> {
    /// Of up to `most` sets, `test` says what comes of them; `None` if that was plain
    /// without a try.
    pub(super) fn new(most: u32, test: F) -> Self {
        Tries {
            test,
            known: HashMap::new(),
            left: most,
            contradictions: most.saturating_mul(CONTRADICTIONS),
        }
    }

    /// Whether there are no tries left.
    pub(super) const fn is_over(&self) -> bool {
        self.left == 0 || self.contradictions == 0
    }

    /// What comes of `set`: `None` if it contradicts itself; nothing is known if there are
    /// no tries left.
    pub(super) fn verdict(&mut self, set: &[usize]) -> anyhow::Result<Option<Verdict>> {
        let mut set = set.to_vec();
        set.sort_unstable();
        if let Some(verdict) = self.known.get(&set) {
            return Ok(*verdict);
        }
        if self.is_over() {
            return Ok(Some(Verdict::Unresolved));
        }
        let verdict = (self.test)(&set)?;
        match verdict {
            Some(_) => self.left -= 1,
            None => self.contradictions -= 1,
        }
        self.known.insert(set, verdict);
        Ok(verdict)
    }

    fn fails(&mut self, set: &[usize]) -> anyhow::Result<bool> {
        Ok(self.verdict(set)? == Some(Verdict::Fails))
    }

    /// Whether it looks as if none of many changes, which together fail, could be left out:
    /// a thread that gets nothing is one decision, and hundreds of changes. Asked of some;
    /// a set that contradicts itself says nothing of the one that was left out.
    ///
    /// # Errors
    /// Those of the test.
    pub(super) fn are_all_needed(&mut self, set: &[usize]) -> anyhow::Result<bool> {
        if set.len() <= SAMPLES {
            return Ok(false);
        }
        for sample in 0..SAMPLES {
            let mut rest = set.to_vec();
            rest.remove(sample * (set.len() - 1) / (SAMPLES - 1));
            if matches!(self.verdict(&rest)?, None | Some(Verdict::Fails)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Which of the `groups`, which together fail, are needed for that: none of those
    /// that are returned can be left out, as far as tries went.
    ///
    /// # Errors
    /// Those of the test.
    pub(super) fn reduce(&mut self, groups: Vec<Vec<usize>>) -> anyhow::Result<Vec<Vec<usize>>> {
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
    use super::*;

    /// The smallest set in 0..`of` for which `fails`, and how many were tried.
    fn check(of: usize, most: u32, fails: impl Fn(&[usize]) -> Verdict) -> (Vec<usize>, u32) {
        let mut tries = Tries::new(most, |set: &[usize]| Ok(Some(fails(set))));
        let single = (0..of).map(|n| vec![n]).collect();
        let mut found = tries.reduce(single).unwrap().concat();
        found.sort_unstable();
        (found, most - tries.left)
    }

    fn fails_with(needed: &'static [usize]) -> impl Fn(&[usize]) -> Verdict {
        |set| match needed.iter().all(|n| set.contains(n)) {
            true => Verdict::Fails,
            false => Verdict::Passes,
        }
    }

    #[test]
    fn what_is_not_needed_is_left_out() {
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
                Verdict::Unresolved
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
        let all_needed = |needed: &'static [usize]| {
            let mut tries = Tries::new(1000, |set: &[usize]| {
                let is_whole = needed.iter().all(|n| set.contains(n));
                Ok(Some(if is_whole {
                    Verdict::Fails
                } else {
                    Verdict::Passes
                }))
            });
            (tries.are_all_needed(&set).unwrap(), 1000 - tries.left)
        };
        static ALL: [usize; 100] = {
            let mut all = [0; 100];
            let mut n = 0;
            while n < 100 {
                all[n] = n;
                n += 1;
            }
            all
        };
        assert_eq!(all_needed(&ALL), (true, 8));
        assert_eq!(all_needed(&[0, 50]), (false, 2));
    }

    #[test]
    fn a_set_is_tried_once() {
        let mut count = 0;
        let mut tries = Tries::new(10, |_: &[usize]| {
            count += 1;
            Ok(Some(Verdict::Passes))
        });
        for set in [[1, 2], [2, 1]] {
            assert_eq!(tries.verdict(&set).unwrap(), Some(Verdict::Passes));
        }
        assert_eq!(count, 1);
    }

    #[test]
    fn changes_that_hold_together_are_not_all_needed_for_that() {
        // A block of twenty that moves as a whole, and the one that counts.
        let mut tries = Tries::new(100, |set: &[usize]| {
            let moved = set.iter().filter(|n| **n < 20).count();
            Ok(
                (moved == 0 || moved == 20).then_some(match set.contains(&25) {
                    true => Verdict::Fails,
                    false => Verdict::Passes,
                }),
            )
        });
        let all: Vec<usize> = (0..26).collect();
        assert!(!tries.are_all_needed(&all).unwrap());
        let single = all.into_iter().map(|n| vec![n]).collect();
        assert_eq!(tries.reduce(single).unwrap(), [[25]]);
    }
}
