//! The command line's form of chaos: `SEED`, or `SEED:LENGTH`.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher as _;
use std::num::ParseIntError;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The chaos of one run (`rr_channel`, `RR_CHANNEL_CHAOS`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Chaos {
    seed: u64,
    /// About how many operations a thread performs, if that is known.
    length: Option<u64>,
}

impl fmt::Display for Chaos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.length {
            None => write!(f, "{}", self.seed),
            Some(length) => write!(f, "{}:{length}", self.seed),
        }
    }
}

impl Chaos {
    /// The chaos of the run that comes so many runs later.
    pub(crate) const fn after(self, runs: u64) -> Chaos {
        Chaos {
            seed: self.seed.wrapping_add(runs),
            ..self
        }
    }
}

impl FromStr for Chaos {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let (seed, length) = match text.split_once(':') {
            None => (text, None),
            Some((seed, length)) => (seed, Some(length.parse()?)),
        };
        Ok(Chaos {
            seed: seed.parse()?,
            length,
        })
    }
}

/// The chaos of several runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seeds {
    /// Each has a seed of its own.
    Random,
    /// The first has this one, and each other one the next seed.
    From(Chaos),
}

impl FromStr for Seeds {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        match text {
            "" => Ok(Seeds::Random),
            first => Ok(Seeds::From(first.parse()?)),
        }
    }
}

impl Seeds {
    /// The chaos of the `run`th run, from 1, where threads perform up to `length`
    /// operations as far as is known.
    pub(crate) fn nth(self, run: u32, length: Option<u64>) -> Chaos {
        match self {
            // Small ones, for people to type.
            Seeds::Random => Chaos {
                seed: RandomState::new().hash_one(run) >> 40,
                length,
            },
            Seeds::From(first) => Chaos {
                length: first.length.or(length),
                ..first.after(u64::from(run) - 1)
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_chaos_reads_back() {
        for text in ["7", "7:100"] {
            assert_eq!(text.parse::<Chaos>().unwrap().to_string(), text);
        }
        assert!("".parse::<Chaos>().is_err());
        assert!("7:".parse::<Chaos>().is_err());
    }

    #[test]
    fn seeds_go_on_from_the_first() {
        let seeds: Seeds = "7".parse().unwrap();
        assert_eq!(seeds.nth(1, None).to_string(), "7");
        assert_eq!(seeds.nth(3, Some(50)).to_string(), "9:50");
        let seeds: Seeds = "7:20".parse().unwrap();
        assert_eq!(seeds.nth(1, Some(50)).to_string(), "7:20");
        assert_eq!("".parse(), Ok(Seeds::Random));
    }
}
