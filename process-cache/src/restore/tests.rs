//! Compares restored effects with the changes that a program would have made.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

use super::*;
use crate::store::{DigestTable, copy};

struct Place {
    dir: tempfile::TempDir,
    store: Store,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("store")).unwrap();
        fs::create_dir(dir.path().join("tree")).unwrap();
        Self { dir, store }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("tree").join(name)
    }

    fn write(&self, name: &str, bytes: &[u8], fresh: bool, time: Time) -> Effect {
        Effect::Write {
            path: self.path(name).into(),
            content: self.store.put_bytes(bytes).unwrap(),
            length: bytes.len() as u64,
            holes: false,
            mode: None,
            create_mode: 0o640,
            fresh,
            time,
        }
    }

    fn append(&self, name: &str, bytes: &[u8]) -> Effect {
        Effect::Append {
            path: self.path(name).into(),
            data: self.store.put_bytes(bytes).unwrap(),
            length: bytes.len() as u64,
            create_mode: 0o600,
            time: Time::Present,
        }
    }

    fn make_dir(&self, name: &str, time: Time) -> Effect {
        Effect::MakeDir {
            path: self.path(name).into(),
            mode: 0o750,
            time,
        }
    }

    fn remove(&self, name: &str) -> Effect {
        let path = self.path(name).into();
        Effect::Remove { path }
    }

    fn remove_dir(&self, name: &str) -> Effect {
        let path = self.path(name).into();
        Effect::RemoveDir { path }
    }

    fn symlink(&self, name: &str, target: &str) -> Effect {
        Effect::Symlink {
            path: self.path(name).into(),
            target: target.into(),
        }
    }

    fn hard_link(&self, name: &str, to: &str) -> Effect {
        Effect::HardLink {
            path: self.path(name).into(),
            to: self.path(to).into(),
        }
    }

    fn apply(&self, effects: &[Effect]) -> Result<Restored> {
        apply(&self.store, effects)
    }

    fn inode(&self, name: &str) -> u64 {
        fs::symlink_metadata(self.path(name)).unwrap().ino()
    }

    fn mode(&self, name: &str) -> u32 {
        fs::symlink_metadata(self.path(name)).unwrap().mode() & 0o7777
    }

    fn time(&self, name: &str) -> SystemTime {
        fs::symlink_metadata(self.path(name))
            .unwrap()
            .modified()
            .unwrap()
    }

    /// The names in a directory of the tree.
    fn names(&self, name: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path(name))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Returns all names with inode, mode, time and content.
    fn tree(&self) -> Vec<(PathBuf, u64, u32, SystemTime, Vec<u8>)> {
        let mut left = vec![self.path("")];
        let mut found = Vec::new();
        while let Some(path) = left.pop() {
            let metadata = fs::symlink_metadata(&path).unwrap();
            let holds = if metadata.is_dir() {
                left.extend(fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
                Vec::new()
            } else if metadata.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                target.into_os_string().into_encoded_bytes()
            } else {
                fs::read(&path).unwrap()
            };
            // A directory that is made again has another inode.
            let inode = if metadata.is_dir() { 0 } else { metadata.ino() };
            let time = metadata.modified().unwrap();
            found.push((path, inode, metadata.mode(), time, holds));
        }
        found.sort();
        found
    }

    /// Damages a content's blob without changing its length.
    fn damage(&self, bytes: &[u8]) {
        let name = copy::digest(bytes).to_string();
        let path = self
            .store
            .dir()
            .join("blobs")
            .join(&name[..1])
            .join(&name[1..]);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(path, vec![b'x'; bytes.len()]).unwrap();
    }
}

/// Too long to be prepared in memory.
fn long() -> Vec<u8> {
    (0..600_000u32).map(|n| (n % 253) as u8).collect()
}

#[test]
fn a_file_in_place_keeps_its_inode_and_permissions() {
    let place = Place::new();
    for bytes in [&b"longer than before"[..], b"short", b"", &long()] {
        fs::write(place.path("a"), "before, some").unwrap();
        let inode = place.inode("a");
        let mode = place.mode("a");
        let restored = place
            .apply(&[place.write("a", bytes, false, Time::Present)])
            .unwrap();
        assert_eq!(fs::read(place.path("a")).unwrap(), bytes);
        assert_eq!((place.inode("a"), place.mode("a")), (inode, mode));
        assert_eq!(restored.bytes, bytes.len() as u64);
    }
}

#[test]
fn a_fresh_file_is_a_new_inode() {
    let place = Place::new();
    for bytes in [&b"new"[..], &long()] {
        fs::write(place.path("a"), "old").unwrap();
        fs::hard_link(place.path("a"), place.path("b")).unwrap();
        let inode = place.inode("a");
        place
            .apply(&[place.write("a", bytes, true, Time::Present)])
            .unwrap();
        assert_eq!(fs::read(place.path("a")).unwrap(), bytes);
        assert_eq!(fs::read(place.path("b")).unwrap(), b"old");
        assert_ne!(place.inode("a"), inode);
        assert_eq!(place.mode("a"), 0o640);
        assert_eq!(place.names(""), ["a", "b"]);
        fs::remove_file(place.path("b")).unwrap();
    }
}

#[test]
fn permissions_are_exact_under_any_umask() {
    let place = Place::new();
    let mut effect = place.write("a", b"x", false, Time::Present);
    if let Effect::Write { mode, .. } = &mut effect {
        *mode = Some(0o4777);
    }
    let path = place.path("b").into();
    let effects = [
        effect,
        place.write("b", b"", true, Time::Present),
        Effect::Chmod { path, mode: 0o602 },
        place.make_dir("c", Time::Present),
    ];
    place.apply(&effects).unwrap();
    assert_eq!(
        ["a", "b", "c"].map(|name| place.mode(name)),
        [0o4777, 0o602, 0o750]
    );
}

#[test]
fn later_effects_are_never_older() {
    let place = Place::new();
    fs::write(place.path("in place"), "xx").unwrap();
    let names = ["z", "in place", "y", "dir", "x", "appended", "w", "link"];
    fs::write(place.path("appended"), "xx").unwrap();
    let before = SystemTime::now() - Duration::from_millis(50);
    place
        .apply(&[
            place.write("z", &long(), true, Time::Present),
            place.write("in place", &long(), false, Time::Present),
            place.write("y", b"", true, Time::Present),
            place.make_dir("dir", Time::Present),
            place.write("x", b"1", true, Time::Present),
            place.append("appended", b"1"),
            place.write("w", b"2", false, Time::Present),
            place.symlink("link", "z"),
        ])
        .unwrap();
    let times = names.map(|name| place.time(name));
    assert!(times.is_sorted(), "{times:?}");
    assert!(times[0] >= before && times[7] <= SystemTime::now());
}

#[test]
fn explicit_times_are_exact_also_of_directories() {
    let place = Place::new();
    let time = |n: i128| Time::Set(Some(n * 7), Some(n * 1_000_000_007));
    let path = place.path("b").into();
    place
        .apply(&[
            place.make_dir("dir", time(1)),
            place.write("dir/a", b"1", false, time(2)),
            place.write("b", b"1", true, Time::Present),
            Effect::SetTimes {
                path,
                time: time(-3),
            },
        ])
        .unwrap();
    for (name, n) in [("dir", 1), ("dir/a", 2), ("b", -3)] {
        let found = fs::metadata(place.path(name)).unwrap();
        let ns = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
        assert_eq!(ns, n * 1_000_000_007, "{name}");
    }
}

#[test]
fn a_kept_time_survives_writing() {
    let place = Place::new();
    fs::write(place.path("a"), "x").unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::new(12345, 678);
    fs::File::options()
        .write(true)
        .open(place.path("a"))
        .unwrap()
        .set_modified(old)
        .unwrap();
    place
        .apply(&[place.write("a", b"y", false, Time::Kept)])
        .unwrap();
    assert_eq!(place.time("a"), old);
}

#[test]
fn a_file_that_has_its_content_is_only_touched() {
    let place = Place::new();
    fs::write(place.path("a"), "same").unwrap();
    let old = SystemTime::UNIX_EPOCH;
    fs::File::options()
        .write(true)
        .open(place.path("a"))
        .unwrap()
        .set_modified(old)
        .unwrap();
    let world = World::new(DigestTable::in_memory());
    let options = || Options {
        world: Some(&world),
        ..Options::default()
    };
    let effects = [place.write("a", b"same", false, Time::Present)];
    let restored = apply_with(&place.store, &effects, options()).unwrap();
    assert_eq!((restored.bytes, restored.kept), (0, 4));
    assert!(place.time("a") > old);
    // Allowed only if another effect writes it first.
    let effects = [
        place.write("a", b"else", false, Time::Present),
        place.write("a", b"same", false, Time::Present),
    ];
    apply_with(&place.store, &effects, options()).unwrap();
    assert_eq!(fs::read(place.path("a")).unwrap(), b"same");
    fs::hard_link(place.path("a"), place.path("b")).unwrap();
    let effects = [
        place.write("a", b"else", false, Time::Present),
        place.write("b", b"same", false, Time::Present),
    ];
    // The program may have written two files, and would write one here.
    let error = apply_with(&place.store, &effects, options()).unwrap_err();
    assert!(error.is_clean());
    assert_eq!(fs::read(place.path("a")).unwrap(), b"same");
}

#[test]
fn a_damaged_content_changes_nothing() {
    for (bytes, fresh) in [
        (b"new".to_vec(), true),
        (b"new".to_vec(), false),
        (long(), true),
        (long(), false),
    ] {
        let place = Place::new();
        fs::write(place.path("a"), "old").unwrap();
        fs::write(place.path("b"), "old").unwrap();
        let dir_time = place.time("");
        let effects = [
            place.write("a", b"good", true, Time::Present),
            place.write("b", &bytes, fresh, Time::Present),
        ];
        place.damage(&bytes);
        let error = place.apply(&effects).unwrap_err();
        assert!(
            matches!(error, RestoreError::Incomplete(StoreError::Damaged(_))),
            "{error}"
        );
        assert!(error.is_clean());
        assert_eq!(fs::read(place.path("a")).unwrap(), b"old");
        assert_eq!(fs::read(place.path("b")).unwrap(), b"old");
        assert_eq!(place.names(""), ["a", "b"]);
        assert_eq!(place.time(""), dir_time);
        // The blob was removed, so the next time it is missing.
        let error = place.apply(&effects).unwrap_err();
        assert!(
            matches!(error, RestoreError::Incomplete(StoreError::Missing(_))),
            "{error}"
        );
    }
}

#[test]
fn obstacles_are_found_before_anything_changes() {
    let place = Place::new();
    fs::create_dir(place.path("dir")).unwrap();
    fs::write(place.path("dir/entry"), "").unwrap();
    symlink("dir", place.path("link")).unwrap();
    let present = Time::Present;
    let cases = [
        place.write("dir", b"x", false, present),
        place.write("link", b"x", false, present),
        place.write("none/x", b"x", false, present),
        place.write("dir/entry/x", b"x", false, present),
        place.remove("dir"),
        place.remove_dir("dir"),
        place.remove_dir("link"),
        place.make_dir("link", present),
        place.make_dir("none/below", present),
        place.hard_link("new", "none"),
        place.symlink("dir", "x"),
        Effect::Chmod {
            path: place.path("none").into(),
            mode: 0,
        },
    ];
    for case in cases {
        let effects = [place.write("first", b"x", false, present), case.clone()];
        let error = place.apply(&effects).unwrap_err();
        assert!(
            matches!(error, RestoreError::Obstacle { .. }),
            "{case:?}: {error}"
        );
        assert_eq!(place.names(""), ["dir", "link"], "{case:?}");
    }
}

#[test]
fn names_can_change_their_kind() {
    let place = Place::new();
    fs::create_dir_all(place.path("other")).unwrap();
    fs::write(place.path("other/f"), "other").unwrap();
    symlink("other", place.path("link")).unwrap();
    place
        .apply(&[
            // The new file does not replace the target of the link.
            place.remove("link"),
            place.make_dir("link", Time::Present),
            place.write("link/f", b"1", false, Time::Present),
            place.remove("other/f"),
            place.remove_dir("other"),
            place.symlink("other", "link"),
        ])
        .unwrap();
    assert_eq!(fs::read(place.path("other/f")).unwrap(), b"1");
    assert_eq!(place.names(""), ["link", "other"]);
}

#[test]
fn obstacles_in_a_directory_with_a_changed_mode_are_found() {
    let place = Place::new();
    fs::create_dir_all(place.path("dir/sub")).unwrap();
    let chmod = Effect::Chmod {
        path: place.path("dir").as_path().into(),
        mode: 0o755,
    };
    let write = place.write("dir/sub", b"1", false, Time::Present);
    let error = place.apply(&[chmod, write]).expect_err("a directory");
    assert!(error.is_clean(), "{error}");
}

#[test]
fn a_temporary_file_does_not_keep_a_directory() {
    let place = Place::new();
    fs::create_dir(place.path("dir")).unwrap();
    place
        .apply(&[
            place.write("dir/a", b"1", true, Time::Present),
            place.remove("dir/a"),
            place.remove_dir("dir"),
        ])
        .unwrap();
    assert!(place.names("").is_empty());
}

#[test]
fn links_replace_existing_files() {
    let place = Place::new();
    for name in ["a", "b", "c"] {
        fs::write(place.path(name), name).unwrap();
    }
    let effects = [
        place.symlink("a", "nowhere"),
        place.hard_link("b", "c"),
        place.hard_link("b", "c"),
    ];
    for _ in 0..2 {
        place.apply(&effects).unwrap();
        assert_eq!(
            fs::read_link(place.path("a")).unwrap(),
            PathBuf::from("nowhere")
        );
        assert_eq!(place.inode("b"), place.inode("c"));
        assert_eq!(place.names(""), ["a", "b", "c"]);
    }
}

#[test]
fn nothing_is_shared_with_the_store() {
    let place = Place::new();
    place
        .apply(&[place.write("a", &long(), true, Time::Present)])
        .unwrap();
    assert_eq!(fs::metadata(place.path("a")).unwrap().nlink(), 1);
    fs::write(place.path("a"), "changed").unwrap();
    assert_eq!(
        place.store.get_bytes(&copy::digest(&long())).unwrap(),
        long()
    );
}

#[test]
fn progress_ends_at_the_total() {
    let place = Place::new();
    let mut told = Vec::new();
    let mut progress = |done, total| told.push((done, total));
    let options = Options {
        world: None,
        progress: Some(&mut progress),
        ..Options::default()
    };
    let effects = [
        place.write("a", b"123", true, Time::Present),
        place.append("a", b"45"),
    ];
    apply_with(&place.store, &effects, options).unwrap();
    assert_eq!(told, [(3, 5), (5, 5)]);
    assert_eq!(fs::read(place.path("a")).unwrap(), b"12345");
}

#[test]
fn more_files_than_descriptors_can_be_restored() {
    let place = Place::new();
    let effects: Vec<Effect> = (0..3000)
        .map(|n| place.write(&n.to_string(), b"x", true, Time::Present))
        .collect();
    place.apply(&effects).unwrap();
    assert_eq!(place.names("").len(), 3000);
}

#[test]
fn times_that_differed_differ() {
    let place = Place::new();
    std::fs::write(place.path("before"), b"").unwrap();
    let effects = [
        place.write("c", b"3", true, Time::Present),
        place.write("a", b"1", true, Time::Present),
        place.write("b", b"2", false, Time::Present),
        place.write("set", b"0", true, Time::Set(None, Some(5))),
        place.append("b too", b"2"),
    ];
    let options = Options {
        ages: &[3, 1, 2, 0, 2],
        ..Options::default()
    };
    apply_with(&place.store, &effects, options).unwrap();
    std::fs::write(place.path("after"), b"").unwrap();
    let time = |name: &str| {
        let found = std::fs::symlink_metadata(place.path(name)).unwrap();
        found.modified().unwrap()
    };
    assert!(time("before") < time("a"));
    assert!(time("a") < time("b"));
    assert_eq!(time("b"), time("b too"));
    assert!(time("b") < time("c"));
    assert!(time("c") <= time("after"));
    let five = std::time::Duration::from_nanos(5);
    assert_eq!(time("set"), std::time::UNIX_EPOCH + five);
}

#[test]
fn read_only_modes_are_set_after_the_entries_are_made() {
    let place = Place::new();
    fs::create_dir(place.path("old")).unwrap();
    fs::create_dir(place.path("opened")).unwrap();
    fs::set_permissions(place.path("opened"), fs::Permissions::from_mode(0o500)).unwrap();
    let make_dir = |name: &str, mode| Effect::MakeDir {
        path: place.path(name).into(),
        mode,
        time: Time::Set(None, Some(7)),
    };
    let chmod = |name: &str, mode| Effect::Chmod {
        path: place.path(name).into(),
        mode,
    };
    let present = Time::Present;
    let effects = [
        make_dir("new", 0o500),
        make_dir("new/below", 0),
        place.write("new/below/a", &long(), true, present),
        place.symlink("new/l", "a"),
        chmod("old", 0o500),
        place.write("old/a", b"1", true, present),
        chmod("opened", 0o700),
        place.write("opened/a", b"1", true, present),
        place.write("opened/long", &long(), false, present),
        make_dir("passing", 0o500),
        place.write("passing/a", b"1", true, present),
        place.remove("passing/a"),
        place.remove_dir("passing"),
        make_dir("passing", 0o711),
    ];
    place.apply(&effects).unwrap();
    let modes = ["new", "old", "opened", "passing"].map(|name| place.mode(name));
    assert_eq!(modes, [0o500, 0o500, 0o700, 0o711]);
    assert_eq!(place.mode("new/below"), 0);
    let seven = SystemTime::UNIX_EPOCH + Duration::from_nanos(7);
    assert_eq!(
        ["new", "new/below"].map(|name| place.time(name)),
        [seven; 2]
    );
    for name in ["new", "new/below"] {
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(0o700)).unwrap();
    }
    assert_eq!(fs::read(place.path("new/below/a")).unwrap(), long());
    assert_eq!(place.names("opened"), ["a", "long"]);
    assert!(place.names("passing").is_empty());
    fs::set_permissions(place.path("old"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_directory_takes_its_group_from_its_parent() {
    let place = Place::new();
    let make_dir = |name: &str, mode| Effect::MakeDir {
        path: place.path(name).into(),
        mode,
        time: Time::Present,
    };
    let path = place.path("handed").into();
    place
        .apply(&[
            make_dir("handed", 0o2755),
            make_dir("handed/down", 0o755),
            make_dir("handed/closed", 0o555),
            make_dir("not", 0o755),
            make_dir("handed/not", 0o755),
            Effect::Chmod {
                path: place.path("handed/not").into(),
                mode: 0o755,
            },
            Effect::Chmod { path, mode: 0o755 },
            make_dir("handed/late", 0o755),
        ])
        .unwrap();
    let names = ["down", "closed", "not", "late"];
    let modes = names.map(|name| place.mode(&format!("handed/{name}")));
    assert_eq!(modes, [0o2755, 0o2555, 0o755, 0o755]);
}

#[test]
fn effects_before_a_failing_one_are_undone() {
    let place = Place::new();
    for name in ["gone", "dir", "late"] {
        fs::create_dir(place.path(name)).unwrap();
    }
    for name in ["removed", "written", "replaced", "appended", "gone/a"] {
        fs::write(place.path(name), name).unwrap();
    }
    symlink("written", place.path("link")).unwrap();
    let chmod = |name: &str, mode| Effect::Chmod {
        path: place.path(name).into(),
        mode,
    };
    let present = Time::Present;
    let effects = [
        place.remove("removed"),
        place.write("written", b"longer than before", false, present),
        place.write("replaced", &long(), true, present),
        place.append("appended", b" and more"),
        place.remove("gone/a"),
        place.remove_dir("gone"),
        place.symlink("gone", "link"),
        place.symlink("link", "elsewhere"),
        place.hard_link("hard", "written"),
        place.make_dir("new", present),
        place.write("new/a", b"1", true, present),
        chmod("dir", 0o500),
        place.write("dir/a", b"1", true, present),
        chmod("appended", 0o400),
        place.make_dir("late/fails", present),
    ];
    let options = Options::default;
    let stages = prepare::prepare(&place.store, &effects, None).unwrap();
    fs::write(place.path("late/fails"), "").unwrap();
    let before = place.tree();
    let error = commit::run(&place.store, &effects, stages, options()).unwrap_err();
    assert!(error.is_clean(), "{error}");
    assert_eq!(place.tree(), before);
    fs::remove_file(place.path("late/fails")).unwrap();
    place.apply(&effects).unwrap();
    assert_ne!(place.tree(), before);
}

#[test]
fn an_overwritten_long_content_is_not_undone() {
    let place = Place::new();
    fs::write(place.path("long"), long()).unwrap();
    fs::create_dir(place.path("late")).unwrap();
    let effects = [
        place.make_dir("new", Time::Present),
        place.write("long", b"1", false, Time::Present),
        place.make_dir("late/fails", Time::Present),
    ];
    let stages = prepare::prepare(&place.store, &effects, None).unwrap();
    fs::write(place.path("late/fails"), "").unwrap();
    let error = commit::run(&place.store, &effects, stages, Options::default()).unwrap_err();
    assert!(!error.is_clean(), "{error}");
    assert_eq!(place.names(""), ["late", "long"]);
}
