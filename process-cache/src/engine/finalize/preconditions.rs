//! Computes the preconditions of a tree of units.

use crate::engine::unit::{Change, Listing, Observation, Observed, TimeState, Unit};
use crate::model::fact::{Answer, Query, TimeUse};
use crate::model::path::{Asked, FilePath};
use crate::platform::defect::{Defect, planted};
use crate::world::World;
use crate::world::attributes;
use crate::world::locate::{is_directory, is_link, is_regular, modified};
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::{FileType, Stat};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// The changes of a tree by directory, to correct directory listings.
#[derive(Default)]
pub(super) struct Shape<'c> {
    by_directory: FxHashMap<&'c [u8], Vec<(&'c [u8], &'c Change)>>,
}

impl<'c> Shape<'c> {
    pub(super) fn of(changes: &'c FxHashMap<FilePath, Change>) -> Self {
        let mut by_directory: FxHashMap<_, Vec<_>> = FxHashMap::default();
        for (path, change) in changes {
            if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
                by_directory
                    .entry(parent.as_os_str().as_bytes())
                    .or_default()
                    .push((name.as_bytes(), change));
            }
        }
        Self { by_directory }
    }

    /// Returns the listing of a directory observed at `seq`, without the tree's own changes.
    pub(super) fn without(&self, directory: &FilePath, names: &Listing, seq: u64) -> Listing {
        let mut names = names.clone();
        let changes = self.by_directory.get(directory.as_bytes());
        for (name, change) in changes.into_iter().flatten() {
            if change.content.is_some() && change.begun < seq {
                match change.initial.as_deref() {
                    None => {
                        names.remove(*name);
                    }
                    Some(stat) => {
                        names.insert(name.to_vec(), directory_type(stat));
                    }
                }
            }
        }
        names
    }
}

fn directory_type(stat: &Stat) -> u8 {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => libc::DT_DIR,
        FileType::Symlink => libc::DT_LNK,
        FileType::RegularFile => libc::DT_REG,
        FileType::Fifo => libc::DT_FIFO,
        FileType::Socket => libc::DT_SOCK,
        FileType::CharacterDevice => libc::DT_CHR,
        FileType::BlockDevice => libc::DT_BLK,
        FileType::Unknown => libc::DT_UNKNOWN,
    }
}

/// Computes the preconditions of the tree: facts from which its observations follow.
///
/// # Errors
/// Returns the reason why they cannot be determined.
pub fn preconditions(unit: &Unit) -> Result<Vec<(Query, Observed)>, String> {
    let shape = if unit
        .observations
        .keys()
        .any(|query| matches!(query, Query::List(_)))
    {
        Shape::of(&unit.changes)
    } else {
        Shape::default()
    };
    let mut facts: Vec<(u64, Query, Observed)> = Vec::with_capacity(unit.observations.len());
    // Whether a query may occur several times among the facts.
    let mut several = false;
    let mut reasons = Vec::new();
    for (query, observation) in &unit.observations {
        if dropped(query, &observation.observed) {
            continue;
        }
        let precondition = match precondition(unit, &shape, query, observation) {
            Ok(precondition) => precondition,
            Err(reason) => {
                reasons.push(((observation.seq, query), reason));
                continue;
            }
        };
        match precondition {
            Precondition::Holds(observed) => {
                facts.push((observation.seq, query.clone(), observed));
            }
            Precondition::Made(promoted) => {
                several |= !promoted.is_empty();
                facts.extend(
                    promoted
                        .into_iter()
                        .map(|(query, o)| (observation.seq, query, o)),
                );
            }
        }
    }
    if let Some(reason) = earliest(reasons) {
        return Err(reason);
    }
    facts.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    let mut facts: Vec<(Query, Observed)> = facts
        .into_iter()
        .map(|(_, query, observed)| (query, observed))
        .collect();
    if several {
        keep_first(&mut facts);
    }
    if let Some(path) = later_than_its_beginning(unit, &facts) {
        return Err(format!(
            "compares the time of {}, which is later than its own start",
            path.display()
        ));
    }
    if let Some(order) = order(&facts)? {
        facts.push(order);
    }
    facts.extend(mounts(unit)?);
    if unit.compares_with_constants() {
        count_exactly(unit, &mut facts);
    }
    Ok(facts)
}

/// Returns the reason that belongs to the earliest observation, of several in any order.
pub(super) fn earliest<'q>(
    reasons: impl IntoIterator<Item = ((u64, &'q Query), String)>,
) -> Option<String> {
    let first = reasons.into_iter().min_by(|one, other| one.0.cmp(&other.0));
    first.map(|(_, reason)| reason)
}

/// Keeps only the first answer to each query.
fn keep_first(facts: &mut Vec<(Query, Observed)>) {
    let mut seen = FxHashSet::default();
    facts.retain(|(query, _)| seen.insert(query.clone()));
}

/// Returns the files whose times were only compared, with their observed metadata.
fn compared(facts: &[(Query, Observed)]) -> impl Iterator<Item = (&FilePath, &Stat)> {
    facts
        .iter()
        .filter_map(|(query, observed)| match (query, observed) {
            (
                Query::Stat {
                    path,
                    time: TimeUse::Order,
                    ..
                },
                Observed::Metadata { stat, .. },
            ) => Some((path, &**stat)),
            _ => None,
        })
}

/// Finds a file that the tree has not made and whose time may be later than those of its outputs.
/// A restored output would be newer than that file.
fn later_than_its_beginning<'f>(
    unit: &Unit,
    facts: &'f [(Query, Observed)],
) -> Option<&'f FilePath> {
    let is_later = |stat| is_regular(stat) && modified(stat) > i128::from(unit.window.1);
    compared(facts)
        .find(|(_, stat)| is_later(stat))
        .map(|(path, _)| path)
}

/// Makes compared times count exactly, because the times to compare with belong to no file that
/// can be queried. Times of directories that the tree changed itself are excluded, like those of
/// its outputs.
fn count_exactly(unit: &Unit, facts: &mut Vec<(Query, Observed)>) {
    let changed: FxHashSet<&[u8]> = unit
        .changes
        .keys()
        .filter_map(|path| path.parent())
        .map(|directory| directory.as_os_str().as_bytes())
        .collect();
    for (query, observed) in facts.iter_mut() {
        if let (Query::Stat { path, time, .. }, Observed::Metadata { content, .. }) =
            (query, observed)
            && *time == TimeUse::Order
            && !changed.contains(path.as_bytes())
        {
            *time = TimeUse::Modified;
            *content = None;
        }
    }
    // A lookup may have asked for the exact time before.
    keep_first(facts);
}

fn moves_changed_attributes(resource: &FilePath) -> String {
    let resource = resource.display();
    format!("moves or links {resource}, whose attributes it changed")
}

/// Whether a lookup found nothing, with this error, because of what the tree had made or removed on
/// the way: something that is no directory, or what had been none.
fn is_missing_below_change(unit: &Unit, resource: &FilePath, error: i32, seq: u64) -> bool {
    if !matches!(error, libc::ENOENT | libc::ENOTDIR) || unit.changes.is_empty() {
        return false;
    }
    let above = resource.ancestors().skip(1);
    let mut changes = above.filter_map(|above| unit.changes.get(Asked::from(above).key()));
    let is_changed = |change: &Change| change.content.is_some_and(|at| at < seq);
    let was_no_directory = |change: &Change| {
        change
            .initial
            .as_deref()
            .is_some_and(|it| !is_directory(it))
    };
    let is_reason = |change: &Change| error == libc::ENOTDIR || was_no_directory(change);
    changes.any(|change| is_changed(change) && is_reason(change))
}

enum Precondition {
    /// The observation is a precondition as it is.
    Holds(Observed),
    /// The tree made what it saw; these facts about the state before may matter for that.
    Made(Vec<(Query, Observed)>),
}

fn precondition(
    unit: &Unit,
    shape: &Shape<'_>,
    query: &Query,
    observation: &Observation,
) -> Result<Precondition, String> {
    let resource = &observation.resource;
    let change = unit.changes.get(resource);
    let made = |seq: u64, observed: &Observed| change.is_some_and(|c| c.made(seq, observed));
    // A restored file has a new time.
    let own_time = |seq: u64, observed: &Observed| {
        made(seq, observed)
            && matches!(query, Query::Stat { time, .. } if *time >= TimeUse::Modified)
            && matches!(observed, Observed::Metadata { .. })
            && change.is_some_and(|c| c.time == TimeState::Present)
            && !observation.carried
    };
    let later = observation.later.as_deref();
    if own_time(observation.seq, &observation.observed)
        || later.is_some_and(|(seq, observed)| own_time(*seq, observed))
    {
        return Err(format!(
            "reads the time of {}, which it made itself",
            resource.display()
        ));
    }
    if let Some(change) = change.filter(|_| made(observation.seq, &observation.observed)) {
        if matches!(query, Query::Inode { .. }) {
            return Err(format!(
                "shows the inode number of {}, which it made itself",
                resource.display()
            ));
        }
        // Its length has that of the earlier content in it, which is no fact.
        let is_longer = change.initial.is_some()
            && change.initial_content.is_none()
            && change.had_appends_only(observation.seq);
        if is_longer && matches!(query, Query::Stat { .. }) {
            return Err(format!(
                "asks for the length of {}, to which it has appended",
                resource.display()
            ));
        }
        let mut promoted = Vec::new();
        let in_place = change.initial.is_some() && !change.was_fresh(observation.seq);
        if matches!(query, Query::Attributes(_)) && in_place {
            let Observed::Answer(answer) = &observation.observed else {
                return Ok(Precondition::Made(Vec::new()));
            };
            // Writing keeps attributes; changing permissions makes none.
            let kept = !change.mode_set || attributes::is_none(answer);
            return match kept && change.attributes.is_empty() {
                true => Ok(Precondition::Holds(observation.observed.clone())),
                false => Err(moves_changed_attributes(resource)),
            };
        }
        if let (Query::Xattr { name, .. }, true) = (query, in_place) {
            return attribute_of_changed(change, name, observation);
        }
        let removed = matches!(
            observation.observed,
            Observed::Answer(Answer::Error(libc::ENOENT | libc::ENOTDIR))
        );
        if let (Some(initial), false) = (change.initial.as_deref(), removed) {
            if let Some(content) = &change.initial_content {
                let content = Observed::Content(content.clone());
                promoted.push((Query::Content(resource.clone()), content));
            }
            if !change.was_fresh(observation.seq) && !matches!(query, Query::Content(_)) {
                let answer = Observed::Answer(World::permissions_of(initial));
                promoted.push((Query::Permissions(resource.clone()), answer));
            }
        }
        // Made without a check for an existing file: later observations would have been different
        // if a file had existed.
        let soft = change.was_absent() && !change.was_fresh(observation.seq) && !removed;
        let rests_on_absence =
            change.had_appends_only(observation.seq) || !matches!(query, Query::Content(_));
        if soft && rests_on_absence {
            let absent = Observed::Answer(Answer::Error(libc::ENOENT));
            promoted.push((
                Query::Kind {
                    path: resource.clone(),
                    follow: false,
                },
                absent,
            ));
        }
        return Ok(Precondition::Made(promoted));
    }
    if let (Query::RealPath(given), Observed::Answer(Answer::Path(canonical))) =
        (query, &observation.observed)
        && let Some(above) = above_what_was_made(unit, given, canonical, observation.seq)
    {
        return Ok(Precondition::Made(above.into_iter().collect()));
    }
    let has_own_attributes = |change: &Change| {
        !change.attributes.is_empty() && change.meta.is_some_and(|at| at < observation.seq)
    };
    if matches!(query, Query::Attributes(_)) && change.is_some_and(has_own_attributes) {
        return Err(moves_changed_attributes(resource));
    }
    if let Observed::Answer(Answer::Error(error)) = observation.observed
        && is_missing_below_change(unit, resource, error, observation.seq)
    {
        return Ok(Precondition::Made(Vec::new()));
    }
    // A directory made by the tree was empty.
    if matches!(query, Query::Target(_) | Query::Replaced(_)) {
        let made_above = resource.parent().is_some_and(|parent| {
            let above = unit.changes.get(&FilePath::from(parent));
            above.is_some_and(|c| c.was_absent() && c.made(observation.seq, &observation.observed))
        });
        if made_above {
            return Ok(Precondition::Made(Vec::new()));
        }
    }
    let before = |seq: u64, observed: &Observed| match (query, observed) {
        (Query::List(_), Observed::Listing(names)) => {
            Observed::Listing(Arc::new(shape.without(resource, names, seq)))
        }
        (Query::Stat { .. }, Observed::Metadata { content, .. }) => {
            let touched = change.filter(|c| c.meta.is_some_and(|at| at < seq));
            match touched.and_then(|c| c.initial.clone()) {
                Some(stat) => Observed::Metadata {
                    stat,
                    content: content.clone(),
                },
                None => observed.clone(),
            }
        }
        _ => observed.clone(),
    };
    let first = before(observation.seq, &observation.observed);
    if let Some((seq, later)) = observation.later.as_deref() {
        let explained = made(*seq, later)
            || made_on_the_way(unit, resource, *seq)
            || change.is_some_and(|c| c.meta.is_some_and(|at| at < *seq))
            // The times of a directory change with its entries.
            || matches!(
                later,
                Observed::Metadata { stat, .. } if is_directory(stat)
            );
        if !explained && first.differs(&before(*seq, later)) {
            return Err(format!("{} changed while it ran", resource.display()));
        }
    }
    Ok(Precondition::Holds(first))
}

/// Whether the tree made a directory or a link on the path before `seq`.
fn made_on_the_way(unit: &Unit, resource: &FilePath, seq: u64) -> bool {
    resource.ancestors().skip(1).any(|above| {
        let change = unit.changes.get(Asked::from(above).key());
        change.is_some_and(|change| change.content.is_some_and(|at| at < seq))
    })
}

/// Reduces a link lookup below a directory that the tree made before `seq` to the parent
/// directory. Returns `None` if the tree did not make the directory, or reached it through a link.
fn above_what_was_made(
    unit: &Unit,
    given: &FilePath,
    canonical: &FilePath,
    seq: u64,
) -> Option<Option<(Query, Observed)>> {
    let (mut given, mut canonical) = (given.as_path(), canonical.as_path());
    let mut made = false;
    while unit
        .changes
        .get(Asked::from(canonical).key())
        .is_some_and(|change| change.content.is_some_and(|at| at < seq))
    {
        made = true;
        if given.file_name() != canonical.file_name() {
            return None;
        }
        given = given.parent()?;
        canonical = canonical.parent()?;
    }
    let fact = || {
        (
            Query::RealPath(given.into()),
            Observed::Answer(Answer::Path(canonical.into())),
        )
    };
    made.then(|| (given.as_os_str() != canonical.as_os_str()).then(fact))
}

/// Ranks all times that were only compared.
fn order(facts: &[(Query, Observed)]) -> Result<Option<(Query, Observed)>, String> {
    let mut times: Vec<(FilePath, i128)> = compared(facts)
        .filter(|(_, stat)| !is_link(stat))
        .map(|(path, stat)| (path.clone(), modified(stat)))
        .collect();
    if times.is_empty() || planted(Defect::OrderFact) {
        return Ok(None);
    }
    times.sort();
    times.dedup_by(|a, b| a.0 == b.0);
    let ranks: Vec<Result<i128, i32>> = times.iter().map(|(_, time)| Ok(*time)).collect();
    let answer = World::order_answer(&ranks);
    if let Answer::Unknown(reason) = answer {
        return Err(reason);
    }
    let paths = times.into_iter().map(|(path, _)| path).collect();
    Ok(Some((Query::Order(paths), Observed::Answer(answer))))
}

/// Returns the facts about mounts, for the places that were there before the tree. A directory
/// that the tree made is on the mount of the one above it.
fn mounts(unit: &Unit) -> Result<Vec<(Query, Observed)>, String> {
    let there_before = |path: &FilePath| {
        let mut highest = path.as_path();
        for place in path.ancestors() {
            let change = unit.changes.get(Asked::from(place).key());
            if change.is_some_and(Change::was_absent) {
                highest = place.parent().unwrap_or(place);
            }
        }
        FilePath::from(highest)
    };
    let mut facts: BTreeMap<Query, &Answer> = BTreeMap::new();
    for (query, answer) in &unit.mounts {
        let Query::OneMount { paths, device } = query else {
            continue;
        };
        let mut paths = paths.each_ref().map(there_before);
        paths.sort_unstable();
        if planted(Defect::MountFact) || paths[0] == paths[1] {
            continue;
        }
        let device = *device;
        let known = facts.insert(Query::OneMount { paths, device }, answer);
        if known.is_some_and(|known| known != answer) {
            return Err("a file system was mounted or unmounted while it ran".to_owned());
        }
    }
    let facts = facts.into_iter();
    Ok(facts
        .map(|(query, answer)| (query, Observed::Answer(answer.clone())))
        .collect())
}

/// The precondition of an attribute that was read from a file that the unit had written in place.
/// Writing keeps attributes, and changing permissions makes none.
fn attribute_of_changed(
    change: &Change,
    name: &[u8],
    observation: &Observation,
) -> Result<Precondition, String> {
    let is_absent = matches!(observation.observed, Observed::Answer(Answer::Error(_)));
    let is_listing = name.is_empty();
    let is_list = is_listing || name.starts_with(b"system.posix_acl");
    let is_changed = change
        .attributes
        .iter()
        .any(|own| is_listing || own == name)
        || change.mode_set && is_list && !is_absent;
    if is_changed {
        let resource = observation.resource.display();
        return Err(format!(
            "reads attributes of {resource}, which it may have changed itself"
        ));
    }
    Ok(Precondition::Holds(observation.observed.clone()))
}

/// Whether the planted defect drops this fact.
fn dropped(query: &Query, observed: &Observed) -> bool {
    let absent = matches!(observed, Observed::Answer(Answer::Error(_)));
    match query {
        _ if absent && planted(Defect::AbsenceFact) => true,
        Query::Content(_) => planted(Defect::ContentFact) && !absent,
        Query::Stat { .. } => planted(Defect::StatFact) && !absent,
        Query::List(_) => planted(Defect::ListFact),
        Query::Link(_) => planted(Defect::LinkFact),
        Query::Access { .. } => planted(Defect::AccessFact),
        _ => false,
    }
}

/// Completes an answer at the end of the unit.
pub(super) fn answer(query: &Query, observed: &Observed) -> Answer {
    match observed {
        Observed::Answer(answer) => answer.clone(),
        Observed::Content(content) => content.answer(),
        Observed::Listing(names) => World::listing_answer(names),
        Observed::Metadata { stat, content } => {
            let time = match query {
                Query::Stat { time, .. } => *time,
                _ => TimeUse::Exact,
            };
            let mut metadata = World::metadata(stat, time);
            if let Some(content) = content {
                match content.answer() {
                    Answer::File(digest) => metadata.content = Some(digest),
                    // A file can be examined without read permission.
                    _ if stat.st_mode & 0o444 != 0o444 => {}
                    other => return other,
                }
            }
            Answer::Metadata(Box::new(metadata))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::unit_id::UnitId;
    use crate::world::pending_digest::PendingDigests;

    fn regular(path: &str) -> Box<Stat> {
        let mut stat = rustix::fs::stat("/").expect("the root exists");
        stat.st_mode = libc::S_IFREG | 0o644;
        stat.st_ino = path.len() as u64;
        Box::new(stat)
    }

    fn unit() -> Unit {
        Unit::new(UnitId(0), None, 0, 0)
    }

    fn queries(unit: &Unit) -> Vec<Query> {
        preconditions(unit)
            .expect("preconditions")
            .into_iter()
            .map(|(query, _)| query)
            .collect()
    }

    #[test]
    fn a_read_before_a_write_is_a_precondition() {
        let mut unit = unit();
        let path = FilePath::from("/w/x");
        let absent = || Observed::Answer(Answer::Error(libc::ENOENT));
        unit.observe(1, Query::Content(path.clone()), absent(), path.clone());
        unit.change(2, &path, None).content = Some(2);
        assert_eq!(queries(&unit), [Query::Content(path)]);
    }

    #[test]
    fn a_read_after_a_write_is_no_precondition() {
        let mut unit = unit();
        let path = FilePath::from("/w/x");
        unit.change(1, &path, None).content = Some(1);
        let seen = Observed::Answer(Answer::Directory);
        unit.observe(2, Query::Content(path.clone()), seen, path);
        assert_eq!(queries(&unit), []);
    }

    #[test]
    fn a_unit_that_reads_the_time_of_its_own_file_is_not_stored() {
        let path = FilePath::from("/w/x");
        let query = |time| Query::Stat {
            path: path.clone(),
            follow: true,
            time,
        };
        let seen = || Observed::Metadata {
            stat: regular("/w/x"),
            content: None,
        };
        for (time, stored) in [(TimeUse::Modified, false), (TimeUse::None, true)] {
            for looked_before in [false, true] {
                let mut unit = unit();
                if looked_before {
                    let absent = Observed::Answer(Answer::Error(libc::ENOENT));
                    unit.observe(1, query(time), absent, path.clone());
                }
                let change = unit.change(2, &path, None);
                change.content = Some(2);
                change.time = TimeState::Present;
                unit.observe(3, query(time), seen(), path.clone());
                assert_eq!(preconditions(&unit).is_ok(), stored, "{time:?}");
            }
        }
    }

    #[test]
    fn reading_after_an_append_needs_the_content_before() {
        let mut unit = unit();
        let path = FilePath::from("/w/log");
        let table = crate::store::DigestTable::in_memory();
        let world = World::new(table);
        let stat = regular("/w/log");
        let (content, _) = PendingDigests::default().get(&world, &path, &stat);
        content.compute(&world);
        let change = unit.change(1, &path, Some(stat));
        change.content = Some(1);
        change.appended_from = Some(10);
        change.initial_content = Some(content);
        let seen = Observed::Answer(Answer::Directory);
        unit.observe(2, Query::Content(path.clone()), seen, path.clone());
        assert_eq!(queries(&unit), [Query::Content(path)]);
    }

    #[test]
    fn an_attribute_that_is_read_after_a_write_is_a_precondition() {
        let path = FilePath::from("/w/o");
        let query = || Query::Xattr {
            path: path.clone(),
            follow: true,
            name: b"user.a".to_vec(),
        };
        let mut in_place = unit();
        let change = in_place.change(1, &path, Some(regular("/w/o")));
        change.content = Some(1);
        let absent = Observed::Answer(Answer::Error(libc::ENODATA));
        in_place.observe(2, query(), absent.clone(), path.clone());
        assert_eq!(queries(&in_place), [query()]);
        in_place.change(3, &path, None).set_attribute(b"user.a");
        assert!(preconditions(&in_place).is_err());

        // A file that exists at another run has attributes of its own.
        let mut made = unit();
        made.change(1, &path, None).content = Some(1);
        made.observe(2, query(), absent, path.clone());
        let (path, follow) = (path.clone(), false);
        assert_eq!(queries(&made), [Query::Kind { path, follow }]);
    }

    #[test]
    fn a_listing_is_taken_back_to_before_the_units_own_changes() {
        let mut unit = unit();
        let (made, gone) = (FilePath::from("/w/made"), FilePath::from("/w/gone"));
        let change = unit.change(1, &made, None);
        change.content = Some(1);
        let change = unit.change(2, &gone, Some(regular("/w/gone")));
        change.content = Some(2);
        let names = Listing::from([
            (b"made".to_vec(), libc::DT_REG),
            (b"old".to_vec(), libc::DT_REG),
        ]);
        let directory = FilePath::from("/w");
        unit.observe(
            3,
            Query::List(directory.clone()),
            Observed::Listing(Arc::new(names)),
            directory,
        );
        let facts = preconditions(&unit).expect("preconditions");
        let [(_, Observed::Listing(names))] = facts.as_slice() else {
            panic!("one listing, not {facts:?}")
        };
        let names: Vec<_> = names
            .keys()
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect();
        assert_eq!(names, ["gone", "old"]);
    }

    #[test]
    fn a_file_found_during_its_creation_is_no_precondition() {
        let absent = || Observed::Answer(Answer::Error(libc::ENOENT));
        let found = || Observed::Answer(Answer::Directory);
        let path = FilePath::from("/w/d");
        let kind = Query::Kind {
            path: path.clone(),
            follow: false,
        };
        // The file is visible from 2 on; the call runs from 1 to 4.
        for seen in [
            vec![found()],
            vec![found(), found()],
            vec![absent(), found()],
        ] {
            let mut unit = unit();
            unit.observe(1, kind.clone(), absent(), path.clone());
            for (seq, observed) in (2..).zip(seen.clone()) {
                unit.observe(seq, kind.clone(), observed.clone(), path.clone());
                let access = Query::Content(path.clone());
                unit.observe(seq, access, observed, path.clone());
            }
            let change = unit.change(4, &path, None);
            change.content = Some(4);
            change.begun = 1;
            let facts = preconditions(&unit).expect("preconditions");
            let all_absent = facts
                .iter()
                .all(|(_, observed)| !observed.differs(&absent()));
            assert!(all_absent && !facts.is_empty(), "{seen:?}: {facts:?}");
        }
        // The program may have seen the earlier file.
        let mut unit = unit();
        unit.observe(2, kind.clone(), found(), path.clone());
        let change = unit.change(4, &path, Some(regular("/w/d")));
        change.content = Some(4);
        change.begun = 1;
        assert_eq!(queries(&unit), [kind]);
    }

    #[test]
    fn real_paths_of_own_files_depend_only_on_the_directory() {
        let mut unit = unit();
        let made = FilePath::from("/w/lib/made");
        unit.change(1, &made, None).content = Some(1);
        let given = FilePath::from("/w/bin/../lib/made");
        let seen = Observed::Answer(Answer::Path(made));
        unit.observe(2, Query::RealPath(given.clone()), seen, given);
        assert_eq!(queries(&unit), [Query::RealPath("/w/bin/../lib".into())]);
    }

    #[test]
    fn the_reason_is_that_of_the_earliest_observation() {
        let mut unit = unit();
        for n in 1..50 {
            let path = FilePath::from(format!("/w/{}", 100 - n).as_str());
            for (seq, target) in [(n, "a"), (n + 100, "b")] {
                let seen = Observed::Answer(Answer::Path(target.into()));
                unit.observe(seq, Query::Link(path.clone()), seen, path.clone());
            }
        }
        let reason = preconditions(&unit).expect_err("many reasons");
        assert_eq!(reason, "/w/99 changed while it ran");
    }

    #[test]
    fn facts_about_mounts_are_about_what_was_there_before() {
        let mut unit = unit();
        let made = FilePath::from("/w/made");
        unit.change(1, &made, None).content = Some(1);
        let ask = |one: &str, other: &str| Query::OneMount {
            paths: [one.into(), other.into()],
            device: false,
        };
        for (query, answer) in [
            (ask("/w/made", "/x"), Answer::Granted),
            (ask("/w", "/x"), Answer::Granted),
            (ask("/w", "/w/made/in"), Answer::Granted),
            (ask("/w", "/w/made"), Answer::Granted),
            (ask("/w", "/y"), Answer::Error(libc::EXDEV)),
        ] {
            unit.note_mounts(query, answer);
        }
        assert_eq!(queries(&unit), [ask("/w", "/x"), ask("/w", "/y")]);
        unit.note_mounts(ask("/w/made", "/y"), Answer::Granted);
        assert!(preconditions(&unit).is_err());
    }

    #[test]
    fn two_answers_to_one_query_make_a_unit_uncacheable() {
        let mut unit = unit();
        let path = FilePath::from("/w/x");
        let query = Query::Link(path.clone());
        unit.observe(
            1,
            query.clone(),
            Observed::Answer(Answer::Path("a".into())),
            path.clone(),
        );
        unit.observe(2, query, Observed::Answer(Answer::Path("b".into())), path);
        assert!(preconditions(&unit).is_err());
    }
}
