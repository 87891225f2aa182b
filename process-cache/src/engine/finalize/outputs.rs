//! Removes lookups of output files that a program replaces regardless of their old state.
//!
//! Compilers look at the file that they are about to write: whether it exists, is a link, or may
//! be removed. The result is the same for a plain file and for no file. A result stored when the
//! file was missing must hit when the file exists; otherwise no incremental build would ever hit.
//! For programs listed by [`Policy::outputs`](crate::policy::Policy), such lookups become one
//! query: whether the name can be written.

use crate::engine::unit::{Change, Observation, Observed, Unit};
use crate::model::fact::{Answer, Query};
use crate::model::path::FilePath;
use crate::policy::Outputs;
use crate::world::attributes;
use crate::world::locate::is_regular;

/// Drops the observations that a unit made of files before it replaced them.
pub(super) fn forget_outputs(unit: &mut Unit) {
    let outputs = unit.policy.outputs;
    if outputs == Outputs::Observed {
        return;
    }
    let replaced: Vec<(FilePath, u64)> = unit
        .changes
        .iter()
        .filter(|(_, change)| is_replaced(change))
        .filter_map(|(path, change)| Some((path.clone(), change.content?)))
        .collect();
    for (path, at) in replaced {
        let before: Vec<Query> = unit
            .observations
            .iter()
            .filter(|(_, seen)| seen.resource == path && seen.seq <= at)
            .map(|(query, _)| query.clone())
            .collect();
        let reads = |query: &Query| {
            !matches!(
                query,
                Query::Stat { .. }
                    | Query::Link(_)
                    | Query::Kind { .. }
                    | Query::Access { .. }
                    | Query::Target(_)
                    | Query::Replaced(_)
            )
        };
        if before.iter().any(reads) || attributes::gets_list(&path) {
            continue;
        }
        // A write through a link goes to another name than the one that was looked up, and a
        // program that removes the old file removes the link.
        if !before.iter().all(|query| names(unit, query, &path)) {
            continue;
        }
        // The lookup reported that the program has no permission.
        let refused = |query: &Query| {
            let seen = unit.observations.get(query).map(|seen| &seen.observed);
            matches!(
                seen,
                Some(Observed::Answer(Answer::Error(
                    libc::EACCES | libc::EPERM | libc::EROFS | libc::ETXTBSY
                )))
            )
        };
        if before.iter().any(refused) {
            continue;
        }
        let first = before
            .iter()
            .filter_map(|query| unit.observations.remove(query))
            .map(|seen| seen.seq)
            .min();
        let is_removal = |query: &Query| matches!(query, Query::Replaced(_));
        let removes = outputs == Outputs::Removed;
        if let Some(seq) = first {
            let target = Observation {
                seq,
                observed: Observed::Answer(Answer::Writable),
                resource: path.clone(),
                carried: false,
                later: None,
            };
            let query = if removes || before.iter().any(is_removal) {
                Query::Replaced
            } else {
                Query::Target
            };
            unit.observations.insert(query(path.clone()), target);
        }
        if removes && let Some(change) = unit.changes.get_mut(&path) {
            // An existing file would have been removed first.
            change.fresh = true;
            change.would_remove = true;
        }
    }
}

/// Whether a query used the canonical name of `path`, or one that differs only in links to its
/// directory.
fn names(unit: &Unit, query: &Query, path: &FilePath) -> bool {
    let (Query::Stat { path: given, .. }
    | Query::Link(given)
    | Query::Kind { path: given, .. }
    | Query::Access { path: given, .. }
    | Query::Target(given)
    | Query::Replaced(given)) = query
    else {
        return false;
    };
    if given == path {
        return !unit.observations.values().any(|seen| leads_to(seen, path));
    }
    let (Some(above), Some(canonical)) = (given.parent(), path.parent()) else {
        return false;
    };
    let seen = unit.observations.get(&Query::RealPath(above.into()));
    given.file_name() == path.file_name()
        && seen.is_some_and(|seen| {
            matches!(&seen.observed, Observed::Answer(Answer::Path(found)) if found.as_path() == canonical)
        })
}

/// Whether this is a link to `path`.
fn leads_to(seen: &Observation, path: &FilePath) -> bool {
    let above = seen.resource.parent();
    matches!((&seen.observed, above), (Observed::Answer(Answer::Path(target)), Some(above))
        if above.join(target) == **path)
}

/// Whether nothing of the old file is left. An empty file keeps its inode and permissions, since
/// assemblers and linkers do not remove it.
fn is_replaced(change: &Change) -> bool {
    let plain = change
        .initial
        .as_deref()
        .is_none_or(|stat| is_regular(stat) && stat.st_nlink == 1 && stat.st_size != 0);
    // Created with `O_EXCL`, which requires that the name was absent.
    let exclusive = change.was_absent() && change.fresh && !change.would_remove;
    let whole = change.fresh || change.appended_from.is_none() && change.initial_content.is_none();
    plain && whole && !exclusive && change.linked_to.is_none() && change.moved_from.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fact::TimeUse;
    use crate::model::unit_id::UnitId;
    use crate::policy::policy;

    const ABSENT: Observed = Observed::Answer(Answer::Error(libc::ENOENT));

    /// A program that looks up `/w/o` and then creates it.
    fn unit(program: &[u8]) -> Unit {
        let mut unit = Unit::new(UnitId(0), None, 0, 0);
        unit.policy = policy(program, &[], false);
        let path = FilePath::from("/w/o");
        let stat = Query::Stat {
            path: path.clone(),
            follow: true,
            time: TimeUse::None,
        };
        unit.observe(1, stat, ABSENT, path.clone());
        unit.observe(2, Query::Link(path.clone()), ABSENT, path.clone());
        unit.change(3, &path, None).content = Some(3);
        unit
    }

    fn queries(unit: &Unit) -> Vec<&Query> {
        unit.observations.keys().collect()
    }

    #[test]
    fn an_output_that_a_compiler_replaces_may_exist_before() {
        let (target, replaced) = (Query::Target("/w/o".into()), Query::Replaced("/w/o".into()));
        for (program, query, removed) in [(&b"cc1"[..], target, false), (b"as", replaced, true)] {
            let mut unit = unit(program);
            forget_outputs(&mut unit);
            assert_eq!(queries(&unit), [&query]);
            assert_eq!(unit.changes[&FilePath::from("/w/o")].fresh, removed);
        }
    }

    #[test]
    fn an_output_removed_by_a_child_is_removed_on_a_hit() {
        let path = FilePath::from("/w/o");
        let mut unit = unit(b"gcc");
        let answer = Observed::Answer(Answer::Writable);
        unit.observe(2, Query::Replaced(path.clone()), answer, path.clone());
        forget_outputs(&mut unit);
        assert_eq!(queries(&unit), [&Query::Replaced(path)]);
    }

    #[test]
    fn an_empty_file_is_not_removed() {
        for program in [&b"gcc"[..], b"as"] {
            let mut unit = unit(program);
            let file = tempfile::tempfile().unwrap();
            let change = unit.changes.get_mut(&FilePath::from("/w/o")).unwrap();
            change.initial = Some(Box::new(rustix::fs::fstat(&file).unwrap()));
            forget_outputs(&mut unit);
            assert_eq!(unit.observations.len(), 2);
            assert!(!unit.changes[&FilePath::from("/w/o")].fresh);
        }
    }

    #[test]
    fn an_output_behind_a_link_stays_a_precondition() {
        let mut unit = unit(b"as");
        let path = FilePath::from("/w/o");
        unit.observe(1, Query::Link("/w/link".into()), ABSENT, path);
        forget_outputs(&mut unit);
        assert_eq!(unit.observations.len(), 3);
        assert!(!unit.changes[&FilePath::from("/w/o")].fresh);
    }

    #[test]
    fn links_to_the_directory_make_no_difference() {
        let mut unit = unit(b"as");
        let path = FilePath::from("/w/o");
        unit.observe(1, Query::Link("/v/o".into()), ABSENT, path);
        let real = Observed::Answer(Answer::Path("/w".into()));
        unit.observe(1, Query::RealPath("/v".into()), real, "/v".into());
        forget_outputs(&mut unit);
        assert!(
            unit.observations
                .contains_key(&Query::Replaced("/w/o".into()))
        );
        assert_eq!(unit.observations.len(), 2);
    }

    #[test]
    fn other_programs_depend_on_their_old_outputs() {
        let mut unit = unit(b"cp");
        forget_outputs(&mut unit);
        assert_eq!(unit.observations.len(), 2);
    }

    #[test]
    fn an_output_read_or_created_exclusively_stays_a_precondition() {
        let path = FilePath::from("/w/o");
        let mut read = unit(b"as");
        read.observe(1, Query::Content(path.clone()), ABSENT, path.clone());
        forget_outputs(&mut read);
        assert_eq!(read.observations.len(), 3);
        let mut exclusive = unit(b"as");
        exclusive.change(4, &path, None).fresh = true;
        forget_outputs(&mut exclusive);
        assert_eq!(exclusive.observations.len(), 2);
    }
}
