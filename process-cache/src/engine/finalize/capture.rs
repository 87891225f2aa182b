//! Captures the effects of a tree of units on each name that it changed.

use super::Finished;
use super::directory_times::DirectoryTimes;
use crate::engine::linked::Linked;
use crate::engine::unit::{Change, TimeState, changes_linked};
use crate::model::outcome::{Effect, Time, present_times};
use crate::model::path::FilePath;
use crate::platform::defect::{Defect, planted};
use crate::store::{Store, copy};
use crate::world::World;
use crate::world::attributes;
use crate::world::locate::{is_directory, is_link, is_regular, modified};
use rustix::fs::{FileType, Stat};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

/// Reads the final state of each changed name: returns the effects and their
/// [`crate::model::outcome::Outcome::ages`].
pub(super) fn capture(
    store: &Store,
    world: &World,
    finished: &Finished,
) -> Result<(Vec<Effect>, Vec<u32>), String> {
    let Finished {
        changes,
        left,
        directories,
        linked,
        ..
    } = finished;
    let mut captured = Capture {
        of_older: links_to_older(changes),
        linked: linked.clone(),
        ..Capture::default()
    };
    for (path, change) in changes {
        captured.add(store, world, path, change)?;
    }
    // What was captured is what the unit left only if nobody has changed it until now.
    for ((path, _), left) in changes.iter().zip(left) {
        left.check(path)?;
    }
    captured.add_times_of_directories(directories);
    let Capture {
        mut effects,
        mut links,
        ..
    } = captured;
    effects.sort_by_key(|(seq, _)| *seq);
    let mut effects: Vec<Effect> = effects.into_iter().map(|(_, effect)| effect).collect();
    effects.append(&mut links);
    let ages = ages(&effects, directories);
    Ok((effects, ages))
}

/// Collects effects of the changes processed so far.
#[derive(Default)]
struct Capture {
    /// Effects with their sequence numbers.
    effects: Vec<(u64, Effect)>,
    /// Hard links, which come last.
    links: Vec<Effect>,
    /// Directories in which a temporary file was made and removed, which changed their times.
    passing: Vec<(u64, FilePath)>,
    /// Files with several names whose metadata changed, each with the name of one change.
    several: HashMap<(u64, u64), FilePath>,
    /// Captured files (device, inode) with several names, each with the name that has its content.
    written: HashMap<(u64, u64), FilePath>,
    /// New names of files that were there before the unit.
    of_older: HashSet<FilePath>,
    /// The files that were there before the unit and got another name.
    linked: Linked,
}

/// Returns the names that were made as links to files which the unit had not made, or as links to
/// such names.
fn links_to_older(changes: &[(FilePath, Change)]) -> HashSet<FilePath> {
    let links = changes.iter().filter_map(|(path, change)| {
        let source = change.linked_to.as_ref()?;
        Some((path, source))
    });
    let mut links: Vec<(&FilePath, &FilePath)> = links.collect();
    if links.is_empty() {
        return HashSet::new();
    }
    let made = changes.iter().filter(|(_, change)| change.was_absent());
    let made: HashSet<&FilePath> = made.map(|(path, _)| path).collect();
    let mut older = HashSet::new();
    loop {
        let known = older.len();
        links.retain(|(path, source)| {
            let is_older = !made.contains(source) || older.contains(*source);
            if is_older {
                older.insert((*path).clone());
            }
            !is_older
        });
        if older.len() == known {
            return older;
        }
    }
}

impl Capture {
    /// Adds the final state of one name.
    fn add(
        &mut self,
        store: &Store,
        world: &World,
        path: &FilePath,
        change: &Change,
    ) -> Result<(), String> {
        let stat = match rustix::fs::lstat(path.as_path()) {
            Ok(stat) => stat,
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => {
                return self.add_removed(path, change);
            }
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        if self.linked.has_changed(&stat) {
            return Err(changes_linked(path));
        }
        if change.content.is_none() {
            self.check_only_name(path, &stat)?;
            metadata_effects(path, change, &stat, &mut self.effects);
            return self.add_attributes(path, change, false);
        }
        // A file of another kind existed there: it is removed first.
        if let Some(initial) = change.initial.as_deref()
            && FileType::from_raw_mode(initial.st_mode) != FileType::from_raw_mode(stat.st_mode)
        {
            let first = change.content.unwrap_or(change.last);
            let effect = if is_directory(initial) {
                Effect::RemoveDir { path: path.clone() }
            } else {
                Effect::Remove { path: path.clone() }
            };
            self.effects.push((first, effect));
        }
        if self.add_link(path, change, &stat) {
            if change.meta.is_some() {
                return Err(format!("links {} and changes it", path.display()));
            }
            return Ok(());
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                if let Some(source) = &change.linked_to
                    && self.of_older.contains(path)
                {
                    let (path, source) = (path.display(), source.display());
                    return Err(format!(
                        "links {path} to {source}, which was there before and is replaced or gone"
                    ));
                }
                if change.fresh && self.linked.has(&stat) {
                    let path = path.display();
                    return Err(format!(
                        "gives {path} to a file that was there before and got another name"
                    ));
                }
                check_owner(path, change, &stat)?;
                if let Some(to) = self.other_name(path, &stat) {
                    let path = path.clone();
                    self.links.push(Effect::HardLink { path, to });
                    return Ok(());
                }
                if let Some(effect) = file_effect(store, world, path, change, &stat)? {
                    let appends = matches!(effect, Effect::Append { .. });
                    self.effects.push((change.last, effect));
                    if appends {
                        self.effects.extend(mode_effect(path, change, &stat));
                    }
                }
                self.add_attributes(path, change, change.fresh || change.was_absent())
            }
            FileType::Symlink => self.add_symlink(path, change),
            FileType::Directory => {
                self.add_directory(path, change, &stat);
                self.add_attributes(path, change, true)
            }
            _ => Err(format!("{} is no plain file", path.display())),
        }
    }

    /// Returns the name under which a file with several names was captured before. Links to a name
    /// that is gone have only one another.
    fn other_name(&mut self, path: &FilePath, stat: &Stat) -> Option<FilePath> {
        if stat.st_nlink < 2 {
            return None;
        }
        match self.written.entry((stat.st_dev, stat.st_ino)) {
            Entry::Occupied(known) => Some(known.get().clone()),
            Entry::Vacant(entry) => {
                entry.insert(path.clone());
                None
            }
        }
    }

    /// Checks that the metadata of a file changed under one name only: an effect has the final
    /// state, and the names may belong to different files at another run.
    fn check_only_name(&mut self, path: &FilePath, stat: &Stat) -> Result<(), String> {
        if stat.st_nlink < 2 || is_directory(stat) {
            return Ok(());
        }
        let name = self.several.entry((stat.st_dev, stat.st_ino));
        let name = name.or_insert_with(|| path.clone());
        match name == path {
            true => Ok(()),
            false => Err(format!(
                "changes {} under another name of the same file as well",
                path.display()
            )),
        }
    }

    /// Adds a name that no longer exists.
    fn add_removed(&mut self, path: &FilePath, change: &Change) -> Result<(), String> {
        match change.initial.as_deref() {
            Some(initial) if is_directory(initial) => {
                if !planted(Defect::RemoveEffect) {
                    self.effects
                        .push((change.last, Effect::RemoveDir { path: path.clone() }));
                }
            }
            Some(_) => {
                if !planted(Defect::RemoveEffect) {
                    self.effects
                        .push((change.last, Effect::Remove { path: path.clone() }));
                }
            }
            // The file was made in another directory than the one at its path.
            None if !change.gone => {
                return Err(format!(
                    "makes {}, which is not there any more, and which it did not remove",
                    path.display()
                ));
            }
            None => {
                // The name was made and removed, which changed the time of its directory.
                if let Some(parent) = path.parent() {
                    self.passing.push((change.last, FilePath::from(parent)));
                }
            }
        }
        Ok(())
    }

    /// Whether `path` is another name of a changed file or symbolic link.
    fn add_link(&mut self, path: &FilePath, change: &Change, stat: &Stat) -> bool {
        if let Some(target) = &change.linked_to
            && !self.links.iter().any(|link| links(link, target, path))
            && let Ok(other) = rustix::fs::lstat(target.as_path())
            && (other.st_ino, other.st_dev) == (stat.st_ino, stat.st_dev)
        {
            if let Some(parent) = path.parent() {
                self.passing.push((change.last, FilePath::from(parent)));
            }
            self.links.push(Effect::HardLink {
                path: path.clone(),
                to: target.clone(),
            });
            return true;
        }
        false
    }

    fn add_symlink(&mut self, path: &FilePath, change: &Change) -> Result<(), String> {
        // A hard link has the time of the file that it links to.
        if change.linked_to.is_some() && change.time == TimeState::Kept {
            let path = path.display();
            return Err(format!(
                "{path} is another name of a link that was replaced"
            ));
        }
        let target = std::fs::read_link(path).map_err(|e| format!("{}: {e}", path.display()))?;
        if !planted(Defect::SymlinkEffect) {
            let target = FilePath::from(target);
            self.effects.push((
                change.last,
                Effect::Symlink {
                    path: path.clone(),
                    target,
                },
            ));
        }
        if let TimeState::Set(..) = change.time {
            let (path, time) = (path.clone(), time_of(change));
            self.effects
                .push((change.last, Effect::SetTimes { path, time }));
        }
        Ok(())
    }

    fn add_directory(&mut self, path: &FilePath, change: &Change, stat: &Stat) {
        if planted(Defect::DirectoryEffect) {
            return;
        }
        // A directory that was removed and made again is another directory.
        let again = change
            .initial
            .as_deref()
            .is_some_and(|initial| is_directory(initial) && change.fresh);
        if again {
            let first = change.content.unwrap_or(change.last);
            self.effects
                .push((first, Effect::RemoveDir { path: path.clone() }));
        }
        let effect = Effect::MakeDir {
            path: path.clone(),
            // The kernel sets this bit itself below a set-gid directory.
            mode: stat.st_mode & 0o7777 & !libc::S_ISGID,
            time: match change.time {
                TimeState::Set(a, m) if has_time(stat, m) => Time::Set(a, m),
                _ => Time::Present,
            },
        };
        // Other tasks may create entries before the tracer sees the end of the call that makes the
        // directory.
        let seq = if change.was_absent() {
            change.begun
        } else {
            change.content.unwrap_or(change.last)
        };
        self.effects.push((seq, effect));
        if change.mode_set && !planted(Defect::ModeEffect) {
            let (path, mode) = (path.clone(), stat.st_mode & 0o7777);
            self.effects
                .push((change.last, Effect::Chmod { path, mode }));
        }
    }

    /// Adds the attributes that were set or removed; of a new file, all that it has.
    fn add_attributes(
        &mut self,
        path: &FilePath,
        change: &Change,
        is_new: bool,
    ) -> Result<(), String> {
        let shown = |error: rustix::io::Errno| format!("{}: {error}", path.display());
        if planted(Defect::AttributeFact) {
            return Ok(());
        }
        let mut names = match is_new {
            true => attributes::names(path).map_err(shown)?,
            false => change.attributes.clone(),
        };
        names.sort_unstable();
        for name in names {
            let text = || String::from_utf8_lossy(&name).into_owned();
            if name == attributes::CAPABILITY {
                let path = path.display();
                return Err(format!(
                    "gives file capabilities to {path}, which are not restored"
                ));
            }
            if !attributes::is_restorable(&name) {
                if change.attributes.contains(&name) {
                    let (name, path) = (text(), path.display());
                    return Err(format!(
                        "sets the attribute {name} of {path}, which is not restored"
                    ));
                }
                // A label that the system sets itself.
                continue;
            }
            let value = attributes::value(path, &name).map_err(shown)?;
            let effect = Effect::Attribute {
                path: path.clone(),
                name,
                value,
            };
            self.effects.push((change.last, effect));
        }
        Ok(())
    }

    /// Adds the times of directories in which temporary files were made and removed, if no other
    /// effect changes these times, and those of directories that are younger than a file of the unit.
    fn add_times_of_directories(&mut self, directories: &DirectoryTimes) {
        // Effects that certainly change the time of the directory.
        let shaped = |directory: &FilePath| {
            self.effects.iter().any(|(_, effect)| {
                effect.path().parent() == Some(directory.as_path())
                    && matches!(
                        effect,
                        Effect::MakeDir { .. }
                            | Effect::Symlink { .. }
                            | Effect::Remove { .. }
                            | Effect::RemoveDir { .. }
                            | Effect::Write { fresh: true, .. }
                    )
            })
        };
        self.passing.sort_by(|a, b| (&a.1, b.0).cmp(&(&b.1, a.0)));
        self.passing.dedup_by(|a, b| a.1 == b.1);
        self.passing.retain(|(_, directory)| {
            !shaped(directory)
                && rustix::fs::lstat(directory.as_path())
                    .is_ok_and(|stat| stat.st_uid == rustix::process::geteuid().as_raw())
        });
        let set = self.effects.iter().filter_map(|(_, effect)| match effect {
            Effect::SetTimes { path, .. } => Some(path.clone()),
            _ => None,
        });
        let mut set: HashSet<FilePath> = set.collect();
        let passing = std::mem::take(&mut self.passing).into_iter();
        let passing = passing.map(|(seq, path)| (seq, path, Time::Present));
        let younger = directories.younger.iter();
        let younger = younger.map(|(path, seq)| (*seq, path.clone(), Time::WithNames));
        for (seq, path, time) in passing.chain(younger) {
            if set.insert(path.clone()) {
                self.effects.push((seq, Effect::SetTimes { path, time }));
            }
        }
    }
}

/// Whether an effect makes `path` another name of `to`.
fn links(effect: &Effect, path: &FilePath, to: &FilePath) -> bool {
    let made = effect.path() == path;
    made && matches!(effect, Effect::HardLink { to: source, .. } if source == to)
}

/// See [`crate::model::outcome::Outcome::ages`].
fn ages(effects: &[Effect], directories: &DirectoryTimes) -> Vec<u32> {
    let time = |(effect, is_present): (&Effect, bool)| {
        if !is_present {
            return None;
        }
        let stat = rustix::fs::lstat(effect.path().as_path()).ok()?;
        let counts = is_regular(&stat)
            || is_directory(&stat)
            || is_link(&stat) && !planted(Defect::LinkTimeEffect);
        let at_end = directories.at_end(effect.path());
        counts.then(|| at_end.unwrap_or_else(|| modified(&stat)))
    };
    let present = present_times(effects);
    let times: Vec<Option<i128>> = effects.iter().zip(present).map(time).collect();
    let mut distinct: Vec<i128> = times.iter().flatten().copied().collect();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() < 2 {
        return Vec::new();
    }
    let rank = |time: &Option<i128>| {
        time.and_then(|time| distinct.binary_search(&time).ok())
            .map_or(0, |index| index as u32 + 1)
    };
    times.iter().map(rank).collect()
}

/// Checks that a moved file has the owner and group that a new file gets at its place.
fn check_owner(path: &FilePath, change: &Change, stat: &Stat) -> Result<(), String> {
    let is_moved = change.moved_from.is_some();
    // Renamed files count as files whose permissions were set.
    if !change.fresh || !is_moved && !change.mode_set {
        return Ok(());
    }
    let Ok(above) = rustix::fs::lstat(path.parent().unwrap_or(path)) else {
        return Ok(());
    };
    let expected = match above.st_mode & libc::S_ISGID {
        0 => rustix::process::getegid().as_raw(),
        _ => above.st_gid,
    };
    // A file system may decide itself whose files are.
    let is_right = match is_moved {
        true => stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_gid == expected,
        false => stat.st_gid == expected || stat.st_gid == above.st_gid,
    };
    match is_right {
        true => Ok(()),
        false => Err(format!(
            "moves {}, whose owner or group is not restored",
            path.display()
        )),
    }
}

fn time_of(change: &Change) -> Time {
    if planted(Defect::TimeEffect) {
        return Time::Present;
    }
    match change.time {
        TimeState::Kept => Time::Kept,
        TimeState::Present => Time::Present,
        TimeState::Set(accessed, modified) => Time::Set(accessed, modified),
    }
}

/// Whether a directory still has the modification time that it was given: entries that are made
/// or removed later change it. Some file systems store whole seconds, or every second one.
fn has_time(stat: &Stat, set: Option<i128>) -> bool {
    const SECOND: i128 = 1_000_000_000;
    let has = modified(stat);
    set.is_none_or(|set| has == set || has % SECOND == 0 && (0..2 * SECOND).contains(&(set - has)))
}

/// Returns the effects of a change that left the content alone.
fn metadata_effects(
    path: &FilePath,
    change: &Change,
    stat: &Stat,
    effects: &mut Vec<(u64, Effect)>,
) {
    if !is_link(stat) {
        effects.extend(mode_effect(path, change, stat));
    }
    if change.time != TimeState::Kept {
        let time = match change.time {
            TimeState::Set(_, set) if is_directory(stat) && !has_time(stat, set) => Time::Present,
            _ => time_of(change),
        };
        effects.push((
            change.last,
            Effect::SetTimes {
                path: path.clone(),
                time,
            },
        ));
    }
}

/// The effect of a change of the permissions of a file, which other effects do not restore.
fn mode_effect(path: &FilePath, change: &Change, stat: &Stat) -> Option<(u64, Effect)> {
    let is_set = change.mode_set && !planted(Defect::ModeEffect);
    let (path, mode) = (path.clone(), stat.st_mode & 0o7777);
    is_set.then_some((change.last, Effect::Chmod { path, mode }))
}

/// The effect of a change of a regular file's content.
fn file_effect(
    store: &Store,
    world: &World,
    path: &FilePath,
    change: &Change,
    stat: &Stat,
) -> Result<Option<Effect>, String> {
    let shown = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let length = stat.st_size as u64;
    let permissions = stat.st_mode & 0o7777;
    let create_mode = if change.was_absent() || change.mode_set {
        permissions
    } else {
        change.create_mode.unwrap_or(permissions)
    };
    let initial = change.initial.as_deref();
    let opened_only = !change.fresh
        && initial.is_some_and(|initial| {
            initial.st_size == stat.st_size
                && initial.st_ino == stat.st_ino
                && modified(initial) == modified(stat)
        });
    // The truncation of an empty file may leave no trace within one tick of the clock. A file that
    // was only opened for appending may be missing at the next run.
    let opened_only = opened_only && change.initial_content.is_some();
    let creates = change.appended_from.is_some() && change.create_mode.is_some();
    if opened_only && !creates && change.time == TimeState::Present && !change.dated {
        return Ok(mode_effect(path, change, stat).map(|(_, chmod)| chmod));
    }
    if planted(Defect::WriteEffect) && !change.fresh && initial.is_some() {
        return Ok(None);
    }
    let file = std::fs::File::open(path).map_err(|error| shown(&error))?;
    if let Some(from) = change.appended_from.filter(|from| *from <= length)
        && !planted(Defect::AppendEffect)
    {
        let data = store
            .put_range(&file, from, length - from)
            .map_err(|error| shown(&error))?;
        let (length, time) = (length - from, time_of(change));
        // Appending nothing keeps the time of an existing file.
        let time = match time {
            Time::Present if length == 0 && !change.dated => Time::Kept,
            time => time,
        };
        let path = path.clone();
        return Ok(Some(Effect::Append {
            path,
            data,
            length,
            create_mode,
            time,
        }));
    }
    let content = store
        .put_file(&file, length)
        .map_err(|error| shown(&error))?;
    world.table().resume(stat.st_dev, stat.st_ino);
    world.learn(path, content);
    // Writing the same bytes would clear set-uid rights of a file that was only opened.
    let is_kept = change.initial_content.as_ref();
    let is_kept = is_kept.is_some_and(|initial| initial.wait() == Ok(content));
    if is_kept && !change.fresh && !change.mode_set && matches!(change.time, TimeState::Set(..)) {
        let (path, time) = (path.clone(), time_of(change));
        return Ok(Some(Effect::SetTimes { path, time }));
    }
    let mode = (change.fresh || change.mode_set).then_some(permissions);
    Ok(Some(Effect::Write {
        path: path.clone(),
        content,
        length,
        holes: copy::has_holes(stat.st_blocks, length),
        mode: if planted(Defect::ModeEffect) {
            None
        } else {
            mode
        },
        create_mode: if planted(Defect::ModeEffect) {
            0o644
        } else {
            create_mode
        },
        fresh: change.fresh,
        time: time_of(change),
    }))
}
