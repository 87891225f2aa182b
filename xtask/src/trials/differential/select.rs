//! Which sources of trouble the cases have: the switches `--only` and `--without`.

use std::collections::BTreeSet;

use clap::ValueEnum;

/// One kind of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Trouble {
    /// Projects of make, ninja, shell and Python, with edits between the runs.
    Projects,
    /// Others change inputs and outputs while a step runs.
    Outsiders,
    /// Calls fail for reasons of the moment: busy programs, resource limits.
    Errors,
    /// A call of a step fails with an error that pcache injects (builds with planted defects).
    Injected,
    /// Processes of a step get signals from others.
    Signals,
    /// A disk is full while a step runs.
    Disks,
    /// Directories are read-only or mount points while a step runs.
    Places,
    /// Commands run in other namespaces and roots.
    Namespaces,
    /// Files have attributes and access lists.
    Attributes,
    /// Others hold locks while a step runs.
    Locks,
    /// Single calls on names in any state.
    Calls,
    /// The order of times, with edits right before a step.
    Times,
    /// Files are opened for appending, and for reading as well.
    Appends,
    /// Opens fail because of their flags.
    Opens,
    /// Calls move fewer bytes than they are asked to, as a disk is full.
    Transfers,
    /// File systems and files are mounted over what a step uses.
    Mounts,
}

/// The kinds for which something is mounted, in opens if that is possible.
const MOUNTING: &[Trouble] = &[
    Trouble::Disks,
    Trouble::Places,
    Trouble::Opens,
    Trouble::Transfers,
    Trouble::Mounts,
];

/// The kinds that a run has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selection {
    chosen: BTreeSet<Trouble>,
}

impl Selection {
    /// `only` these kinds, all if there are none, and none of `without`.
    pub(crate) fn new(only: &[Trouble], without: &[Trouble]) -> Self {
        let all = Trouble::value_variants().iter().copied();
        Self {
            chosen: all
                .filter(|kind| only.is_empty() || only.contains(kind))
                .filter(|kind| !without.contains(kind))
                .collect(),
        }
    }

    /// Whether this kind is chosen.
    pub(crate) fn has(&self, kind: Trouble) -> bool {
        self.chosen.contains(&kind)
    }

    /// Whether something is mounted for the cases.
    pub(crate) fn mounts(&self) -> bool {
        MOUNTING.iter().any(|kind| self.has(*kind))
    }

    /// Leaves out a kind that is not possible here, and says so.
    pub(crate) fn skip(&mut self, kind: Trouble, reason: &str) {
        if self.chosen.remove(&kind) {
            let name = kind.to_possible_value();
            let name = name
                .as_ref()
                .map_or("", clap::builder::PossibleValue::get_name);
            println!("without {name}: {reason}");
        }
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.chosen.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_wins_over_only() {
        let both = [Trouble::Calls, Trouble::Locks];
        let selection = Selection::new(&both, &[Trouble::Locks]);
        assert!(selection.has(Trouble::Calls));
        assert!(!selection.has(Trouble::Locks) && !selection.has(Trouble::Projects));
        assert!(Selection::new(&[Trouble::Calls], &both).is_empty());
    }

    #[test]
    fn all_kinds_are_chosen_by_default() {
        let selection = Selection::new(&[], &[]);
        assert!(
            Trouble::value_variants()
                .iter()
                .all(|&kind| selection.has(kind))
        );
    }
}
