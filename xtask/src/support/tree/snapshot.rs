//! The state of a tree, in a form that can be compared.
//!
//! Two trees are equal when they have the same paths, types, contents, modes, owners,
//! extended attributes (access lists are some), link targets and hard links, and when each file was modified at the same
//! *point of the story*: exactly, for times outside the lifetime of the case
//! (they were set explicitly), and otherwise in the same step or edit. Files in
//! which programs record the times of the run itself are reduced to what they
//! claim: see [`normalise`].

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::clock::{self, Nanos};
use super::unstable::{Part, Unstable};

/// When a file was last modified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// At this very time, which someone set.
    Exactly(Nanos),
    /// After this many of the story's boundaries.
    After(usize),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    kind: &'static str,
    mode: u32,
    owner: (u32, u32),
    /// Content or link target.
    content: Vec<u8>,
    attributes: BTreeMap<String, Vec<u8>>,
    when: When,
    /// Link count, and the first path that names the same file.
    links: Option<(u64, PathBuf)>,
}

/// All paths below a root, with their states.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    items: BTreeMap<PathBuf, Item>,
}

/// The boundaries of a side's story: when each edit and each run began.
#[derive(Debug, Clone, Default)]
pub(crate) struct Story {
    boundaries: Vec<Nanos>,
}

impl Story {
    /// Begins the next chapter: what is written from here on is later than
    /// `boundary`, what was written before is not.
    pub(crate) fn begin(&mut self, boundary: Nanos) {
        self.boundaries.push(boundary);
    }

    fn place(&self, time: Nanos, now: Nanos) -> When {
        match self.boundaries.partition_point(|&boundary| boundary < time) {
            0 => When::Exactly(time),
            _ if time > now + 1_000_000_000 => When::Exactly(time),
            n => When::After(n),
        }
    }
}

/// A file or directory that is readable for a while.
struct Opened {
    path: PathBuf,
    /// The permissions to go back to.
    mode: Option<u32>,
}

impl Opened {
    fn new(path: &Path, metadata: &fs::Metadata) -> Self {
        let mode = metadata.mode() & 0o7777;
        let needed = match metadata.file_type() {
            kind if kind.is_dir() => 0o500,
            kind if kind.is_file() => 0o400,
            _ => 0,
        };
        let closed = mode & needed != needed && !rustix::process::geteuid().is_root();
        let changed =
            closed && fs::set_permissions(path, fs::Permissions::from_mode(mode | needed)).is_ok();
        Self {
            path: path.to_owned(),
            mode: changed.then_some(mode),
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(mode) = self.mode {
            // It was ours a moment ago.
            let _ = fs::set_permissions(&self.path, fs::Permissions::from_mode(mode));
        }
    }
}

impl Snapshot {
    /// Reads the tree below `root`.
    ///
    /// # Errors
    ///
    /// When something below `root` cannot be read.
    pub(crate) fn take(root: &Path, story: &Story, now: Nanos) -> io::Result<Self> {
        let mut snapshot = Self::default();
        let mut names = BTreeMap::new();
        snapshot.walk(root, Path::new(""), story, now, &mut names)?;
        Ok(snapshot)
    }

    fn walk(
        &mut self,
        root: &Path,
        relative: &Path,
        story: &Story,
        now: Nanos,
        names: &mut BTreeMap<u64, PathBuf>,
    ) -> io::Result<()> {
        let mut children: Vec<_> = fs::read_dir(root.join(relative))?
            .map(|entry| entry.map(|entry| relative.join(entry.file_name())))
            .collect::<io::Result<_>>()?;
        children.sort();
        for path in children {
            let full = root.join(&path);
            let metadata = fs::symlink_metadata(&full)?;
            let file_type = metadata.file_type();
            let time = clock::modified(&metadata);
            // What its owner may not read can be read after all by its owner.
            let _open = Opened::new(&full, &metadata);
            let (kind, content) = if file_type.is_file() {
                ("file", normalise(&path, fs::read(&full)?, &full))
            } else if file_type.is_symlink() {
                (
                    "link",
                    fs::read_link(&full)?.into_os_string().into_encoded_bytes(),
                )
            } else if file_type.is_dir() {
                ("directory", Vec::new())
            } else if file_type.is_fifo() {
                ("fifo", Vec::new())
            } else {
                ("other", Vec::new())
            };
            let links = (!file_type.is_dir() && metadata.nlink() > 1).then(|| {
                let first = names.entry(metadata.ino()).or_insert_with(|| path.clone());
                (metadata.nlink(), first.clone())
            });
            self.items.insert(
                path.clone(),
                Item {
                    kind,
                    mode: metadata.mode() & 0o7777,
                    owner: (metadata.uid(), metadata.gid()),
                    content,
                    attributes: attributes(&full),
                    when: story.place(time, now),
                    links,
                },
            );
            if file_type.is_dir() {
                self.walk(root, &path, story, now, names)?;
            }
        }
        Ok(())
    }

    /// Forgets the content of `path`, which is allowed to differ.
    pub(crate) fn forget(&mut self, path: &str) {
        if let Some(item) = self.items.get_mut(Path::new(path)) {
            item.content.clear();
        }
    }

    /// The differences from `other`, without times.
    pub(crate) fn parts(&self, other: &Self) -> Unstable {
        let part = |path: &PathBuf| match (self.items.get(path), other.items.get(path)) {
            (Some(ours), Some(theirs)) => {
                let rest = |item: &Item| {
                    let attributes = item.attributes.clone();
                    (
                        item.kind,
                        item.mode,
                        item.owner,
                        attributes,
                        item.links.clone(),
                    )
                };
                if rest(ours) != rest(theirs) {
                    Some(Part::More)
                } else {
                    (ours.content != theirs.content).then_some(Part::Content)
                }
            }
            _ => Some(Part::More),
        };
        let paths = self.items.keys().chain(other.items.keys());
        paths
            .filter_map(|path| Some((path.clone(), part(path)?)))
            .collect()
    }

    /// Forgets what is `unstable`, and nothing else.
    pub(crate) fn leave_out(&mut self, unstable: &Unstable) {
        self.items.retain(|path, item| match unstable.part(path) {
            Some(Part::More) => false,
            Some(Part::Content) => {
                item.content.clear();
                true
            }
            None => true,
        });
    }

    /// Lists what `other` has differently, one line each; empty when equal.
    pub(crate) fn differences(&self, other: &Self) -> Vec<(Aspect, String)> {
        let mut found = Vec::new();
        for (path, item) in &self.items {
            match other.items.get(path) {
                None => found.push((
                    Aspect::Tree,
                    format!("{}: missing under pcache", path.display()),
                )),
                Some(theirs) => compare(path, item, theirs, &mut found),
            }
        }
        for path in other
            .items
            .keys()
            .filter(|path| !self.items.contains_key(*path))
        {
            found.push((
                Aspect::Tree,
                format!("{}: exists only under pcache", path.display()),
            ));
        }
        found
    }
}

/// Which part of a result differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Aspect {
    /// Paths, types, contents, modes, links.
    Tree,
    /// When a file was modified.
    Times,
    /// Standard output or error.
    Streams,
    /// The rest of standard input, and the offsets of the streams.
    Offsets,
    /// Exit status or signal.
    Status,
    /// The next actions of the build tool.
    Conclusion,
    /// Something random came out the same twice.
    Chance,
    /// The command did not end.
    Hang,
    /// pcache had something to say.
    Message,
}

fn compare(path: &Path, ours: &Item, theirs: &Item, found: &mut Vec<(Aspect, String)>) {
    let path = path.display();
    if ours.kind != theirs.kind {
        found.push((
            Aspect::Tree,
            format!(
                "{path}: {} plainly, {} under pcache",
                ours.kind, theirs.kind
            ),
        ));
        return;
    }
    if ours.content != theirs.content {
        let (ours, theirs) = excerpts(&ours.content, &theirs.content);
        found.push((
            Aspect::Tree,
            format!("{path}: content {ours} plainly, {theirs} under pcache"),
        ));
    }
    if ours.mode != theirs.mode {
        found.push((
            Aspect::Tree,
            format!(
                "{path}: mode {:o} plainly, {:o} under pcache",
                ours.mode, theirs.mode
            ),
        ));
    }
    if ours.owner != theirs.owner {
        found.push((
            Aspect::Tree,
            format!(
                "{path}: owner {:?} plainly, {:?} under pcache",
                ours.owner, theirs.owner
            ),
        ));
    }
    if ours.attributes != theirs.attributes {
        found.push((
            Aspect::Tree,
            format!(
                "{path}: attributes {:?} plainly, {:?} under pcache",
                ours.attributes, theirs.attributes
            ),
        ));
    }
    if ours.links != theirs.links {
        found.push((
            Aspect::Tree,
            format!(
                "{path}: links {:?} plainly, {:?} under pcache",
                ours.links, theirs.links
            ),
        ));
    }
    if ours.when != theirs.when {
        found.push((
            Aspect::Times,
            format!(
                "{path} ({}): modified {:?} plainly, {:?} under pcache",
                ours.kind, ours.when, theirs.when
            ),
        ));
    }
}

/// The extended attributes of a path itself, access lists among them. What the security
/// modules of the kernel attach to every file is theirs.
fn attributes(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut names = vec![0; 4096];
    // A file system without attributes has none, and their list is short.
    let length = rustix::fs::llistxattr(path, names.as_mut_slice()).unwrap_or(0);
    names[..length]
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty() && !name.starts_with(b"security.selinux"))
        .filter_map(|name| {
            let name = String::from_utf8_lossy(name).into_owned();
            let mut value = vec![0; 4096];
            let length = rustix::fs::lgetxattr(path, name.as_str(), value.as_mut_slice()).ok()?;
            value.truncate(length);
            Some((name, value))
        })
        .collect()
}

/// Two byte strings, quoted, from a little before where they part.
pub(crate) fn excerpts(ours: &[u8], theirs: &[u8]) -> (String, String) {
    const BEFORE: usize = 40;
    let equal = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    let start = if equal > 2 * BEFORE {
        equal - BEFORE
    } else {
        0
    };
    (excerpt(ours, start), excerpt(theirs, start))
}

/// Some output from `start` on, quoted, for a message.
pub(crate) fn excerpt(bytes: &[u8], start: usize) -> String {
    const LONGEST: usize = 200;
    let end = bytes.len().min(start + LONGEST);
    let mut text = String::new();
    if start > 0 {
        text.push_str("...");
    }
    let _ = write!(text, "{:?}", String::from_utf8_lossy(&bytes[start..end]));
    if bytes.len() > end {
        let _ = write!(text, "... ({} bytes)", bytes.len());
    }
    text
}

/// Reduces files that hold times of the run to what they claim by them.
///
/// - `*.pyc`: the recorded time of the source becomes whether it is the
///   source's time;
/// - `.ninja_log`: outputs and command hashes of the newest entries, without
///   the times (what ninja concludes from them is compared separately);
/// - `.ninja_deps`: nothing; `ninja -t deps` is compared instead.
fn normalise(path: &Path, content: Vec<u8>, full: &Path) -> Vec<u8> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.ends_with(".pyc") {
        return normalise_pyc(content, full);
    }
    match &*name {
        ".ninja_log" => {
            let text = String::from_utf8_lossy(&content);
            let newest: BTreeMap<&str, &str> = text
                .lines()
                .filter_map(|line| {
                    let fields: Vec<_> = line.split('\t').collect();
                    Some((*fields.get(3)?, *fields.get(4)?))
                })
                .collect();
            format!("{newest:?}").into_bytes()
        }
        ".ninja_deps" => Vec::new(),
        _ => content,
    }
}

fn normalise_pyc(mut content: Vec<u8>, full: &Path) -> Vec<u8> {
    let Some(recorded) = content
        .get(8..12)
        .and_then(|bytes| bytes.try_into().ok())
        .map(u32::from_le_bytes)
    else {
        return content;
    };
    let source = full
        .file_stem()
        .and_then(|stem| stem.to_str()?.split('.').next())
        .and_then(|module| Some(full.parent()?.parent()?.join(format!("{module}.py"))));
    let current = source
        .and_then(|source| fs::metadata(source).ok())
        .map(|metadata| metadata.mtime() as u32);
    let claim: &[u8; 4] = if current == Some(recorded) {
        b"same"
    } else {
        b"old "
    };
    content[8..12].copy_from_slice(claim);
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(build: impl FnOnce(&Path)) -> Snapshot {
        let dir = tempfile::tempdir().unwrap();
        build(dir.path());
        let mut story = Story::default();
        story.begin(0);
        Snapshot::take(dir.path(), &story, Nanos::MAX / 2).unwrap()
    }

    #[test]
    fn equal_trees_have_no_differences() {
        let build = |root: &Path| {
            fs::create_dir(root.join("d")).unwrap();
            fs::write(root.join("d/f"), "x").unwrap();
            std::os::unix::fs::symlink("d/f", root.join("l")).unwrap();
        };
        assert_eq!(snapshot(build).differences(&snapshot(build)), []);
    }

    #[test]
    fn each_kind_of_difference_is_seen() {
        let ours = snapshot(|root| {
            for name in ["content", "gone", "kind", "linked"] {
                fs::write(root.join(name), "x").unwrap();
            }
            fs::hard_link(root.join("linked"), root.join("linked2")).unwrap();
        });
        let theirs = snapshot(|root| {
            for name in ["new", "linked", "linked2"] {
                fs::write(root.join(name), "x").unwrap();
            }
            fs::write(root.join("content"), "y").unwrap();
            std::os::unix::fs::symlink("content", root.join("kind")).unwrap();
        });
        let text: Vec<_> = ours
            .differences(&theirs)
            .into_iter()
            .map(|(_, text)| text)
            .collect();
        assert_eq!(
            text,
            [
                r#"content: content "x" plainly, "y" under pcache"#,
                "gone: missing under pcache",
                "kind: file plainly, link under pcache",
                r#"linked: links Some((2, "linked")) plainly, None under pcache"#,
                r#"linked2: links Some((2, "linked")) plainly, None under pcache"#,
                "new: exists only under pcache",
            ]
        );
    }

    #[test]
    fn of_what_is_unstable_the_rest_is_compared() {
        let build = |stamp: &'static str| {
            snapshot(move |root| {
                for name in ["stamp", "gone"] {
                    fs::write(root.join(name), stamp).unwrap();
                }
                fs::write(root.join("stable"), "x").unwrap();
                fs::write(root.join(stamp), "x").unwrap();
            })
        };
        let (mut first, second) = (build("1"), build("2"));
        let unstable = first.parts(&second);
        assert_eq!(
            unstable.lines(),
            [
                "1 (not only its content)",
                "2 (not only its content)",
                "gone",
                "stamp"
            ]
        );
        let mut cached = snapshot(|root| {
            fs::write(root.join("stamp"), "3").unwrap();
            fs::write(root.join("stable"), "y").unwrap();
            fs::write(root.join("3"), "x").unwrap();
        });
        first.leave_out(&unstable);
        cached.leave_out(&unstable);
        let lines: Vec<_> = first
            .differences(&cached)
            .into_iter()
            .map(|d| d.1)
            .collect();
        assert_eq!(
            lines,
            [
                "gone: missing under pcache",
                r#"stable: content "x" plainly, "y" under pcache"#,
                "3: exists only under pcache",
            ]
        );
    }

    #[test]
    fn a_time_is_placed_by_the_boundaries() {
        let mut story = Story::default();
        story.begin(100);
        story.begin(200);
        let now = 300;
        assert_eq!(story.place(100, now), When::Exactly(100));
        assert_eq!(story.place(101, now), When::After(1));
        assert_eq!(story.place(250, now), When::After(2));
        assert_eq!(
            story.place(2_000_000_000, now),
            When::Exactly(2_000_000_000)
        );
    }
}
