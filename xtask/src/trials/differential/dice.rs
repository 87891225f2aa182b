//! A small generator of pseudo-random choices.
//!
//! The sequence for a seed is fixed by this file alone, so a seed printed by
//! one version of the toolchain and its crates means the same case in another.

/// A source of choices, reproducible from its seed.
#[derive(Debug, Clone)]
pub(crate) struct Dice {
    state: u64,
}

impl Dice {
    /// Starts the sequence of `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits (SplitMix64).
    pub(crate) fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 when `n` is 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        if n == 0 {
            0
        } else {
            (self.bits() % n as u64) as usize
        }
    }

    /// A number from `low` up to and including `high`.
    pub(crate) fn range(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high + 1 - low)
    }

    /// True in `percent` of a hundred cases.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`.
    ///
    /// # Panics
    ///
    /// When there are none.
    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        assert!(!choices.is_empty(), "nothing to choose from");
        &choices[self.below(choices.len())]
    }

    /// One of `choices`, each as likely as its weight says.
    pub(crate) fn weighted<T: Copy>(&mut self, choices: &[(usize, T)]) -> T {
        let total: usize = choices.iter().map(|(weight, _)| weight).sum();
        let mut rest = self.below(total);
        for &(weight, choice) in choices {
            if rest < weight {
                return choice;
            }
            rest -= weight;
        }
        choices[0].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_means_the_same_sequence() {
        let mut dice = Dice::new(7);
        assert_eq!(
            [dice.below(100), dice.below(100), dice.below(100)],
            [87, 4, 46]
        );
    }

    #[test]
    fn weights_of_zero_are_never_drawn() {
        let mut dice = Dice::new(1);
        assert!((0..200).all(|_| dice.weighted(&[(0, 'a'), (3, 'b')]) == 'b'));
    }
}
