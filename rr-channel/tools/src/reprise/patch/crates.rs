//! The crates that can be replaced, and their replacements.

use super::copy::Edit;
use super::{rayon, tokio};

/// A crate that can be replaced.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::reprise) struct Crate {
    pub(in crate::reprise) name: &'static str,
    /// How its versions begin.
    series: &'static [&'static str],
    pub(super) by: By,
    /// Dependencies of `rr-channel` where this is replaced, instead of those in its manifest.
    pub(super) needs: &'static [(&'static str, &'static str)],
}

/// The replacement of a crate.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum By {
    /// A crate that re-exports ours.
    Face {
        /// Its source.
        code: &'static str,
        /// Whether upstream's features matter: they are passed on to it.
        passes_features: bool,
        /// The name by which `rr-channel` depends on upstream.
        upstream: &'static str,
    },
    /// Upstream's source, edited: what is done to versions that begin so.
    Edited(&'static [(&'static str, &'static [Edit])]),
}

impl Crate {
    /// The name by which `rr-channel` depends on it, if it does.
    pub(super) fn upstream(&self) -> Option<&'static str> {
        match &self.by {
            By::Face { upstream, .. } => Some(upstream),
            By::Edited(_) => None,
        }
    }

    /// Whether one of its versions is asked for by this requirement, as in a manifest.
    pub(super) fn is_asked_for_by(&self, requirement: &str) -> bool {
        let wanted = format!("{}.", requirement.trim_start_matches(['^', '=', '~', ' ']));
        self.series.iter().any(|series| wanted.starts_with(series))
    }
}

/// The source of the replacement of parking_lot, by the name of our module.
macro_rules! face_of_locks {
    ($module:literal) => {
        concat!(
            "pub use rr_channel::",
            $module,
            "::*;\n\n\
             #[cfg(feature = \"arc_lock\")]\n\
             pub use rr_channel::",
            $module,
            "::lock_api::{\n    \
                 ArcMutexGuard, ArcReentrantMutexGuard, ArcRwLockReadGuard,\n    \
                 ArcRwLockUpgradableReadGuard, ArcRwLockWriteGuard,\n\
             };\n\n\
             #[cfg(feature = \"deadlock_detection\")]\n\
             pub use upstream::deadlock;\n"
        )
    };
}

/// The crates that can be replaced. Of several with one name only the first is, if the
/// project has more than one of them.
const CRATES: [Crate; 8] = [
    Crate {
        name: CHANNEL,
        series: &["0.5."],
        by: By::Face {
            code: "pub use rr_channel::crossbeam_channel::*;\n",
            passes_features: false,
            upstream: CHANNEL,
        },
        needs: &[],
    },
    locks(&["0.13."], LOCKS_13, face_of_locks!("parking_lot_13"), &[]),
    locks(&["0.12."], LOCKS, face_of_locks!("parking_lot"), &[]),
    locks(
        &["0.11."],
        LOCKS,
        face_of_locks!("parking_lot"),
        &[("parking_lot_core", "0.8")],
    ),
    Crate {
        name: PROCESSES,
        series: &["0.23."],
        by: By::Face {
            code: "pub use rr_channel::ipc_channel::*;\n",
            passes_features: true,
            upstream: PROCESSES,
        },
        needs: &[],
    },
    Crate {
        name: "rayon-core",
        series: &["1.12.", "1.13."],
        by: By::Edited(&[("1.", rayon::EDITS)]),
        needs: &[],
    },
    Crate {
        name: EXECUTOR,
        series: &["1.53.", "1.54."],
        by: By::Edited(tokio::EDITS),
        needs: &[],
    },
    Crate {
        name: UTILITIES,
        series: &[
            "0.7.10", "0.7.11", "0.7.12", "0.7.13", "0.7.14", "0.7.15", "0.7.16", "0.7.17",
            "0.7.18", "0.7.19", "0.7.20",
        ],
        by: By::Edited(&[]),
        needs: &[],
    },
];

const fn locks(
    series: &'static [&'static str],
    upstream: &'static str,
    code: &'static str,
    needs: &'static [(&'static str, &'static str)],
) -> Crate {
    Crate {
        name: LOCKS,
        series,
        by: By::Face {
            code,
            passes_features: true,
            upstream,
        },
        needs,
    }
}

pub(super) const CHANNEL: &str = "crossbeam-channel";

pub(super) const LOCKS: &str = "parking_lot";

/// Its releases since 0.13, which have another interface.
pub(super) const LOCKS_13: &str = "parking_lot_13";

pub(super) const PROCESSES: &str = "ipc-channel";

/// Its tasks have names, and what they wait for is recorded.
pub(in crate::reprise) const EXECUTOR: &str = "tokio";

/// Waits of tasks of the replaced tokio are recorded in it.
pub(in crate::reprise) const UTILITIES: &str = "tokio-util";

/// The crate of this name, if this version can be replaced.
pub(in crate::reprise) fn replaceable(name: &str, version: &str) -> Option<&'static Crate> {
    CRATES.iter().find(|known| {
        let is_of = |series: &&str| version.starts_with(*series);
        known.name == name && known.series.iter().any(is_of)
    })
}

/// Whether `one` is to be replaced rather than `other`, where a project has both.
pub(in crate::reprise) fn comes_before(one: &Crate, other: &Crate) -> bool {
    let at = |of: &Crate| CRATES.iter().position(|known| known == of);
    one.name == other.name && at(one) < at(other)
}

/// The crates that can be replaced, in words.
pub(in crate::reprise) fn what() -> String {
    let names = CRATES.each_ref().map(|known| {
        let series = known
            .series
            .iter()
            .map(|series| series.trim_end_matches('.'));
        format!("{} {}", known.name, series.collect::<Vec<_>>().join(" or "))
    });
    names.join(" or ")
}

/// Whether some version of the crate can be replaced.
pub(in crate::reprise) fn is_known(name: &str) -> bool {
    CRATES.iter().any(|known| known.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_versions_one_is_replaced() {
        let of = |version| replaceable(LOCKS, version).unwrap();
        assert!(comes_before(of("0.12.5"), of("0.11.2")));
        assert!(!comes_before(of("0.11.2"), of("0.12.5")));
        let channel = replaceable(CHANNEL, "0.5.15").unwrap();
        assert!(!comes_before(channel, of("0.11.2")));
        assert!(comes_before(of("0.13.0"), of("0.12.5")));
        assert_eq!(replaceable(LOCKS, "0.14.0"), None);
    }
}
