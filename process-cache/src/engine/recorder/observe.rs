//! A unit's observations: metadata, links, listings, permissions, and calls that fail.

use super::errno;
use super::explain::{Named, makes_name};
use crate::engine::session::Session;
use crate::engine::unit::{Change, Observed, TimeState};
use crate::model::fact::{Answer, Query, TimeUse};
use crate::model::path::FilePath;
use crate::model::path_kind::{Class, classify, is_for_devices, is_standard_stream, is_zone};
use crate::model::unit_id::UnitId;
use crate::platform::defect::{Defect, planted};
use crate::world::World;
use crate::world::locate::{Link, Located, Way, is_directory, is_regular, modified};
use crate::world::lookup_cache::Kind;
use ptrace_async::event::{FileKind, OpenFile, PathRef};
use rustix::fs::Stat;
use rustix::io::Errno;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

impl Session {
    /// Notes an observation now.
    pub fn note(&mut self, unit: UnitId, query: Query, observed: Observed, resource: FilePath) {
        // A call that changes something has looked at it before.
        if self.call.began().is_none() {
            self.compare_output(&resource);
        }
        let seq = match self.call.looking_back() {
            None => self.tick(),
            Some(then) => {
                if self.changed_since(then, &resource, &observed) {
                    let reason = format!("{} changed while it was looked at", resource.display());
                    self.mark_uncacheable(unit, reason, true);
                }
                then
            }
        };
        if let (
            Query::Stat {
                time: TimeUse::Order,
                ..
            },
            Observed::Metadata { stat, .. },
        ) = (&query, &observed)
        {
            self.note_given_time(unit, &resource, stat);
        }
        self.call.set_noted(match &observed {
            Observed::Answer(Answer::Error(error)) => Err(*error),
            _ => Ok(()),
        });
        self.unit(unit).observe(seq, query, observed, resource);
    }

    /// Notes that a program compares a time that this unit, or one above it, has set.
    fn note_given_time(&mut self, unit: UnitId, resource: &FilePath, stat: &Stat) {
        let mut at = Some(unit);
        while let Some(id) = at {
            let unit = &mut self.units[id.0 as usize];
            let change = unit.changes.get(resource);
            match change.map(|change| change.time) {
                Some(TimeState::Set(_, Some(_))) => {
                    let time = modified(stat);
                    return unit.compare((time, time));
                }
                Some(TimeState::Present) => return,
                _ => at = unit.parent,
            }
        }
    }

    /// Whether another process changed a name after `then`, so that `observed` may be from before
    /// or after that. For an absent name the order is known.
    fn changed_since(&self, then: u64, resource: &FilePath, observed: &Observed) -> bool {
        let missing = matches!(observed, Observed::Answer(Answer::Error(_)));
        let told_apart = |who: UnitId| {
            let change = self.change_of(who, resource);
            change.is_some_and(|change| {
                change.was_absent() && (missing || change.made(then, observed))
            })
        };
        let touched = self.shared_files.changes(resource).iter();
        touched
            .filter(|(seq, _)| *seq > then)
            .any(|(_, who)| !told_apart(*who))
    }

    /// Returns a unit's change of a name, if it is still known. A unit that has ended has passed
    /// it to its parent.
    fn change_of(&self, unit: UnitId, resource: &FilePath) -> Option<&Change> {
        let mut at = Some(unit);
        while let Some(id) = at {
            let unit = &self.units[id.0 as usize];
            if let Some(change) = unit.changes.get(resource) {
                return Some(change);
            }
            at = unit.parent;
        }
        None
    }

    /// Returns the error of the lookup that is being applied, if it found nothing.
    pub(super) fn told_missing(&self) -> Option<i32> {
        let error = self
            .call
            .returned()
            .and_then(|told| i32::try_from(-told).ok());
        error.filter(|error| matches!(*error, libc::ENOENT | libc::ENOTDIR))
    }

    /// Notes the result of a lookup by name: the lookup's own error if it found nothing, otherwise
    /// the present answer of the world.
    pub(super) fn ask_name(&mut self, unit: UnitId, query: Query, resource: FilePath) {
        match self.told_missing() {
            Some(error) => {
                let observed = Observed::Answer(Answer::Error(error));
                self.note(unit, query, observed, resource);
            }
            None => self.ask(unit, query, resource),
        }
    }

    /// Asks the world what a lookup asked, and notes the answer.
    pub(super) fn ask(&mut self, unit: UnitId, query: Query, resource: FilePath) {
        self.ask_and(unit, query, resource, true);
    }

    /// Asks the world about something else than the result of the call, and notes the answer.
    pub(super) fn ask_besides(&mut self, unit: UnitId, query: Query, resource: FilePath) {
        self.ask_and(unit, query, resource, false);
    }

    fn ask_and(&mut self, unit: UnitId, query: Query, resource: FilePath, compares: bool) {
        let answer = self.world.ask(&query);
        if let Answer::Unknown(reason) = answer {
            self.mark_uncacheable(unit, reason, true);
            return;
        }
        if compares && self.call.returned().is_some() {
            let found = match &answer {
                Answer::Error(error) => Err(*error),
                _ => Ok(()),
            };
            self.compare(unit, &resource, found);
        }
        self.note(unit, query, Observed::Answer(answer), resource);
    }

    /// Compares the result of an unstopped lookup with the present state.
    pub(super) fn compare(&mut self, unit: UnitId, path: &Path, found: Result<(), i32>) {
        let same = match (self.call.returned(), found) {
            (None, _) => true,
            (Some(told), Ok(())) => told >= 0,
            (Some(told), Err(error)) => told == -i64::from(error),
        };
        if !same {
            let reason = format!("{} changed while it was looked at", path.display());
            self.mark_uncacheable(unit, reason, true);
        }
    }

    /// Looks up a path and notes the links on the way.
    pub fn look(&mut self, unit: UnitId, path: &Path, follow: bool) -> Located {
        let nothing = self.told_missing() == Some(libc::ENOENT);
        let vacant = nothing.then(|| self.locator.absent(path.into())).flatten();
        let located = vacant.unwrap_or_else(|| self.locator.locate(path, follow));
        self.pass_links(unit, located, follow)
    }

    /// Notes the links on the way to a located path. If a traced process may have made one of
    /// them, returns the file under its canonical path: before the unit, the path as given leads
    /// elsewhere.
    pub fn pass_links(&mut self, unit: UnitId, located: Located, follow: bool) -> Located {
        let through = located.indirect.is_some() || located.steps.is_some();
        let names = (&located.given, &located.resource);
        let Some(way) = self.note_made_links(unit, names, through, follow) else {
            self.note_way(unit, &located);
            return located;
        };
        let spelled = located.given.as_bytes();
        let is_directory = spelled.ends_with(b"/") || spelled.ends_with(b"/.");
        let given = match &located.stat {
            Err(_) if is_directory => {
                FilePath::from([way.end.as_bytes(), b"/"].concat().as_slice())
            }
            _ => way.end.clone(),
        };
        Located {
            given,
            resource: way.end.clone(),
            stat: located.stat,
            indirect: None,
            steps: None,
        }
    }

    /// Notes each link on a way on its own and returns the way, if a traced process may have made
    /// one of them; see [`Locator::way`](crate::world::locate::Locator::way).
    pub(crate) fn note_made_links(
        &mut self,
        unit: UnitId,
        names: (&FilePath, &FilePath),
        through: bool,
        follow: bool,
    ) -> Option<Rc<Way>> {
        if planted(Defect::LinkedResource) {
            return None;
        }
        let way = self.locator.way(names, through, follow)?;
        let mut links = way.links.iter();
        if !links.any(|link| self.shared_files.is_changed(&link.resource)) {
            return None;
        }
        for link in &way.links {
            self.note_link(unit, link);
        }
        for directory in &way.left {
            let query = Query::Kind {
                path: directory.clone(),
                follow: false,
            };
            let answer = Observed::Answer(Answer::Directory);
            self.note(unit, query, answer, directory.clone());
        }
        Some(way)
    }

    fn note_link(&mut self, unit: UnitId, link: &Link) {
        let query = Query::Link(link.path.clone());
        if !self.unit(unit).observations.contains_key(&query) {
            let answer = Observed::Answer(Answer::Path(link.target.clone()));
            self.note(unit, query, answer, link.resource.clone());
        }
    }

    /// Notes the links on the way to a located path.
    fn note_way(&mut self, unit: UnitId, located: &Located) {
        self.note_indirect(unit, located.indirect.clone());
        for step in located.steps.iter().flat_map(|steps| steps.iter()) {
            self.note_indirect(unit, step.indirect.clone());
            if let Some(link) = &step.link {
                self.note_link(unit, link);
            }
        }
    }

    /// Notes links on the way to a directory.
    pub fn note_indirect(&mut self, unit: UnitId, indirect: Option<(FilePath, FilePath)>) {
        if let Some((given, canonical)) = indirect {
            let query = Query::RealPath(given.clone());
            if !self.unit(unit).observations.contains_key(&query) {
                let answer = Observed::Answer(Answer::Path(canonical));
                self.note(unit, query, answer, given);
            }
        }
    }

    pub(super) fn stat(&mut self, unit: UnitId, path: &Path, follow: bool) {
        let time = self.unit(unit).policy.time;
        self.stat_as(unit, path, follow, time);
    }

    pub(super) fn stat_as(&mut self, unit: UnitId, path: &Path, follow: bool, time: TimeUse) {
        if classify(path) != Class::Ordinary {
            self.looked_past(unit, path);
            return;
        }
        let mut located = self.look(unit, path, follow);
        if let (Some(error), Ok(_)) = (self.told_missing(), &located.stat) {
            // The file appeared after the call.
            located.stat = Err(Errno::from_raw_os_error(error));
            self.metadata_as(unit, path, follow, &located, time);
            return;
        }
        let found = located.stat.as_ref().map(|_| ());
        self.compare(unit, path, found.map_err(|error| error.raw_os_error()));
        if located.stat.is_err() && time == self.unit(unit).policy.time {
            let given = located.given.clone();
            self.lookups.learn(
                unit,
                &given,
                Kind::no_metadata(follow),
                self.call.returned(),
            );
        }
        self.metadata_as(unit, path, follow, &located, time);
    }

    /// Notes the metadata of a file that was inherited for reading.
    pub(super) fn stat_inherited(&mut self, unit: UnitId, file: &OpenFile) {
        if file.readable {
            self.measured_inherited(unit, file);
        }
    }

    /// Notes the metadata of a file that was inherited, whose length was asked for.
    pub(super) fn measured_inherited(&mut self, unit: UnitId, file: &OpenFile) {
        if !self.is_own(unit, file)
            && matches!(file.kind, FileKind::Opened | FileKind::Regular)
            && let Some(path) = &file.path
        {
            // Where the unit replaced the file itself, its fact is about its own one.
            let name = self.locator.name(path);
            if !self.unit(unit).changes.contains_key(&name) {
                let found = rustix::fs::stat(&**path).ok();
                self.compare_inherited(unit, file, found.as_ref());
            }
            self.stat(unit, path, true);
        }
    }

    /// Marks a unit as uncacheable if the file that it inherited is another one than `found`, which
    /// is at the file's path now.
    pub(super) fn compare_inherited(
        &mut self,
        unit: UnitId,
        file: &OpenFile,
        found: Option<&Stat>,
    ) {
        if planted(Defect::InheritedPlace) {
            return;
        }
        let mut inherited = self.units[unit.0 as usize].inherited.iter();
        let known = inherited.find(|entry| entry.file == file.id);
        let differs = known
            .and_then(|entry| entry.inode)
            .is_some_and(|inode| found.map(|found| (found.st_dev, found.st_ino)) != Some(inode));
        if differs {
            let path = file.path.as_deref().unwrap_or(Path::new("?"));
            let reason = format!(
                "uses an inherited file that is not at {} any more (replaced, or covered by a \
                 mount)",
                path.display()
            );
            self.mark_uncacheable_outside(unit, file, &reason);
        }
    }

    /// Notes metadata in the form that the program's policy requires.
    pub(super) fn metadata(&mut self, unit: UnitId, path: &Path, follow: bool, located: &Located) {
        let time = self.unit(unit).policy.time;
        self.metadata_as(unit, path, follow, located, time);
    }

    pub(super) fn metadata_as(
        &mut self,
        unit: UnitId,
        path: &Path,
        follow: bool,
        located: &Located,
        mut time: TimeUse,
    ) {
        let plain = self.unit(unit).policy.ignores_directory_times
            && located.stat.as_ref().is_ok_and(is_directory);
        if is_for_devices(path) || time == TimeUse::Order && plain {
            time = TimeUse::None;
        }
        let query = Query::Stat {
            path: located.given.clone(),
            follow,
            time,
        };
        let observed = match &located.stat {
            Err(error) => Observed::Answer(errno(*error)),
            Ok(stat) => {
                let content =
                    (time == TimeUse::Order && is_regular(stat)).then(|| self.content(path, stat));
                Observed::Metadata {
                    stat: Box::new(*stat),
                    content,
                }
            }
        };
        self.note(unit, query, observed, located.resource.clone());
        if let (true, Ok(stat)) = (self.unit(unit).policy.inodes, &located.stat) {
            let query = Query::Inode {
                path: located.given.clone(),
                follow,
            };
            let answer = Observed::Answer(World::inode_of(stat));
            self.note(unit, query, answer, located.resource.clone());
        }
    }

    /// Notes the properties of a program file that count for its execution; `granted` if the
    /// execute permission has just been verified.
    pub fn executable(&mut self, unit: UnitId, given: &FilePath, located: &Located, granted: bool) {
        if planted(Defect::ExecutableFact) {
            return;
        }
        if let Ok(stat) = &located.stat
            && is_regular(stat)
        {
            let content = Observed::Content(self.content(given, stat));
            self.note(
                unit,
                Query::Content(given.clone()),
                content,
                located.resource.clone(),
            );
        }
        let query = Query::Access {
            path: given.clone(),
            mode: libc::X_OK,
            effective: true,
            follow: true,
        };
        let resource = located.resource.clone();
        match granted {
            true => self.note(unit, query, Observed::Answer(Answer::Granted), resource),
            false => self.ask(unit, query, resource),
        }
    }

    /// Notes the file type (by canonical path) before the change that is being applied.
    pub(super) fn expect_kind(&mut self, unit: UnitId, path: &FilePath, initial: Option<&Stat>) {
        let seq = self.at_beginning();
        self.note_kind(seq, unit, path, initial);
    }

    /// Notes the present file type (by canonical path).
    pub(super) fn note_kind(
        &mut self,
        seq: u64,
        unit: UnitId,
        path: &FilePath,
        found: Option<&Stat>,
    ) {
        let answer = Observed::Answer(found.map_or(errno(Errno::NOENT), World::kind_of));
        let query = Query::Kind {
            path: path.clone(),
            follow: false,
        };
        self.unit(unit).observe(seq, query, answer, path.clone());
    }

    /// Whether a program shows a date although its clock reads do not count, as they usually do
    /// not affect its results. A date as text needs the time zone (`__DATE__` and `__TIMESTAMP__`
    /// of compilers, `make -p`).
    pub(super) fn shows_time(&mut self, unit: UnitId, path: &Path) -> bool {
        let policy = self.unit(unit).policy;
        is_zone(path) && policy.clock && policy.time < TimeUse::Modified && !policy.sets_given_times
    }

    pub(super) fn read_link(&mut self, unit: UnitId, path: &Path) {
        if self
            .lookups
            .knows(unit, path, Kind::LINK, self.call.returned())
        {
            return;
        }
        match classify(path) {
            Class::Ordinary => {}
            Class::Determined => return,
            Class::Random | Class::Usage | Class::Volatile => {
                let names_terminal = self.unit(unit).policy.terminal && is_standard_stream(path);
                if !names_terminal {
                    self.mark_uncacheable(unit, format!("reads the link {}", path.display()), true);
                }
                return;
            }
        }
        // The most frequent call of compilers: a single query suffices.
        let (mut resource, indirect) = self.locator.place(path);
        let mut given = resource.or_same(path);
        if self.told_missing().is_none() {
            self.lookups
                .learn(unit, &given, Kind::LINK, self.call.returned());
        }
        match self.note_made_links(unit, (&given, &resource), indirect.is_some(), false) {
            Some(way) => (given, resource) = (way.end.clone(), way.end.clone()),
            None => self.note_indirect(unit, indirect),
        }
        let query = Query::Link(given);
        if self.call.returned() == Some(-i64::from(libc::EINVAL)) {
            // The file exists and is no link.
            let observed = Observed::Answer(Answer::Error(libc::EINVAL));
            self.note(unit, query, observed, resource);
        } else {
            self.ask_name(unit, query, resource);
        }
    }

    pub(super) fn list(&mut self, unit: UnitId, file: &OpenFile) {
        if !self.descriptions.is_listed_first(file.id) {
            return;
        }
        let Some(path) = &file.path else {
            self.mark_uncacheable(unit, "lists a directory without a name", true);
            return;
        };
        match classify(path) {
            Class::Ordinary => {}
            Class::Determined if path.as_os_str() != "/proc" => return,
            _ => {
                self.mark_uncacheable(unit, format!("lists {}", path.display()), true);
                return;
            }
        }
        let located = self.look(unit, path, true);
        self.list_path(unit, &located.given, located.resource);
    }

    pub(super) fn list_path(&mut self, unit: UnitId, path: &FilePath, resource: FilePath) {
        match self.world.listing(path) {
            Ok(names) => {
                self.note(
                    unit,
                    Query::List(path.clone()),
                    Observed::Listing(Arc::new(names)),
                    resource,
                );
            }
            Err(error) => {
                self.note(
                    unit,
                    Query::List(path.clone()),
                    Observed::Answer(errno(error)),
                    resource,
                );
            }
        }
    }

    /// Notes the right to change the directory that has the located name, and to pass it.
    pub(super) fn parent_access(&mut self, unit: UnitId, located: &Located) {
        let path = match planted(Defect::LinkedResource) {
            true => &located.given,
            false => &located.resource,
        };
        if let Some(parent) = path.parent() {
            let parent = FilePath::from(parent);
            let query = Query::Access {
                path: parent.clone(),
                mode: libc::W_OK | libc::X_OK,
                effective: true,
                follow: true,
            };
            self.ask_besides(unit, query, parent);
        }
    }

    /// Asks whether the located file may be written.
    fn ask_whether_writable(
        &mut self,
        unit: UnitId,
        path: FilePath,
        follow: bool,
        located: &Located,
    ) {
        let query = Query::Access {
            path,
            mode: libc::W_OK,
            effective: true,
            follow,
        };
        self.ask_besides(unit, query, located.resource.clone());
    }

    /// Notes owners and permission bits of the located name and of its directory, after a call
    /// that was not permitted. In a sticky directory, names belong to their owners.
    pub(super) fn owners(&mut self, unit: UnitId, located: &Located) {
        let name = match planted(Defect::LinkedResource) {
            true => located.given.clone(),
            false => located.resource.clone(),
        };
        let parent = name.parent().map(FilePath::from);
        for path in parent.into_iter().chain([name]) {
            self.ask_besides(unit, Query::Permissions(path.clone()), path);
        }
    }

    pub(super) fn failed(&mut self, unit: UnitId, call: &str, paths: &[PathRef], error: i32) {
        match error {
            libc::EFAULT | libc::ENAMETOOLONG | libc::EBADF | libc::EINTR => {}
            // The attribute exists already.
            libc::EEXIST if call.contains("xattr") => {
                self.mark_uncacheable(unit, format!("{call} finds an attribute"), true);
            }
            // Truncating a FIFO, moving a directory into itself.
            libc::EINVAL
            | libc::ENOENT
            | libc::ENOTDIR
            | libc::EEXIST
            | libc::EISDIR
            | libc::ENOTEMPTY
            | libc::EACCES
            | libc::EPERM
            | libc::EROFS
            | libc::ELOOP
            | libc::EXDEV => {
                let mut named = Vec::with_capacity(paths.len());
                for path in paths {
                    if classify(&path.path) != Class::Ordinary {
                        continue;
                    }
                    let located = self.look(unit, &path.path, path.follow);
                    named.push(Named::new(path, &located));
                    let given = located.given.clone();
                    let follow = path.follow;
                    if path.as_directory {
                        // The slash follows a link, but the call may not.
                        let located = self.look(unit, &path.path, false);
                        let query = Query::Kind {
                            path: located.given,
                            follow: false,
                        };
                        self.ask_besides(unit, query, located.resource);
                    }
                    self.ask_besides(
                        unit,
                        Query::Kind {
                            path: given.clone(),
                            follow,
                        },
                        located.resource.clone(),
                    );
                    match error {
                        // Creating a name does not depend on the entries of a directory.
                        libc::ENOTEMPTY | libc::EEXIST
                            if !makes_name(call)
                                && located.stat.is_ok_and(|stat| is_directory(&stat)) =>
                        {
                            self.list_path(unit, &given, located.resource.clone());
                        }
                        // An immutable file is another error.
                        libc::ENOTDIR if call.starts_with("rmdir") && located.stat.is_ok() => {
                            self.ask_whether_writable(unit, given.clone(), follow, &located);
                        }
                        libc::EACCES | libc::EPERM | libc::EROFS => {
                            self.ask_whether_writable(unit, given.clone(), follow, &located);
                            self.owners(unit, &located);
                        }
                        _ => {}
                    }
                    self.parent_access(unit, &located);
                }
                let is_explained = match named.as_slice() {
                    [one, other] if error == libc::EXDEV => {
                        let names = [one.resource().as_path(), other.resource().as_path()];
                        self.need_one_mount(unit, names, true)
                    }
                    named if named.len() == paths.len() => Self::explains(call, error, named),
                    _ => error != libc::EXDEV,
                };
                if !is_explained {
                    self.fails_for_now(unit, call, error);
                }
            }
            _ => {
                let error = std::io::Error::from_raw_os_error(error);
                self.mark_uncacheable(unit, format!("{call} fails: {error}"), true);
            }
        }
    }
}
