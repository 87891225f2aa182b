//! Tests queries on a small directory tree.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::*;
use crate::store::copy;

struct Tree {
    dir: tempfile::TempDir,
    world: World,
}

impl Tree {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            world: World::new(DigestTable::in_memory()),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn at(&self, name: &str) -> FilePath {
        self.path(name).into()
    }

    /// Writes a file and sets its modification time, in seconds before now.
    fn write(&self, name: &str, bytes: &str, age: u64) {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        let time = SystemTime::now() - Duration::from_secs(age);
        fs::File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_modified(time)
            .unwrap();
    }

    fn ask(&self, query: impl Fn(FilePath) -> Query, name: &str) -> Answer {
        self.world.ask(&query(self.at(name)))
    }

    fn stat(&self, name: &str, time: TimeUse) -> Metadata {
        let query = Query::Stat {
            path: self.at(name),
            follow: true,
            time,
        };
        match self.world.ask(&query) {
            Answer::Metadata(metadata) => *metadata,
            other => panic!("{other:?}"),
        }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

const NONE: Answer = Answer::Error(libc::ENOENT);

#[test]
fn a_content_query_answers_as_open_would() {
    let tree = Tree::new();
    tree.write("file", "abc", 0);
    fs::create_dir(tree.path("dir")).unwrap();
    symlink("file", tree.path("link")).unwrap();
    symlink("loop", tree.path("loop")).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(CWD, tree.path("fifo"), fifo, 0o600.into(), 0).unwrap();
    let file = Answer::File(copy::digest(b"abc"));
    assert_eq!(tree.ask(Query::Content, "file"), file);
    assert_eq!(tree.ask(Query::Content, "link"), file);
    assert_eq!(tree.ask(Query::Content, "dir"), Answer::Directory);
    assert_eq!(tree.ask(Query::Content, "none"), NONE);
    assert_eq!(tree.ask(Query::Content, "loop"), Answer::Error(libc::ELOOP));
    assert_eq!(
        tree.ask(Query::Content, "file/x"),
        Answer::Error(libc::ENOTDIR)
    );
    // An open would wait for a writer.
    let fifo = Answer::Special {
        kind: libc::S_IFIFO,
        device: 0,
    };
    assert_eq!(tree.ask(Query::Content, "fifo"), fifo);
    let null = tree.world.ask(&Query::Content("/dev/null".into()));
    assert!(matches!(
        null,
        Answer::Special {
            kind: libc::S_IFCHR,
            device: 0x103
        }
    ));
}

#[test]
fn pseudo_files_are_read_each_time() {
    let tree = Tree::new();
    let version = fs::read("/proc/version").unwrap();
    symlink("/proc/version", tree.path("link")).unwrap();
    for path in ["/proc/version".into(), tree.at("link")] {
        let answer = tree.world.ask(&Query::Content(path));
        assert_eq!(answer, Answer::File(copy::digest(&version)));
    }
    for private in ["/proc/self/maps", "/proc/1/maps", "/dev/fd/0", "/dev/stdin"] {
        let answer = tree.world.ask(&Query::Content(private.into()));
        assert!(
            matches!(answer, Answer::Unknown(_)),
            "{private}: {answer:?}"
        );
    }
}

#[test]
fn a_changed_file_has_another_answer_even_within_a_tick() {
    let tree = Tree::new();
    for n in 0..200 {
        let text = format!("{n:03}");
        fs::write(tree.path("file"), &text).unwrap();
        let expected = Answer::File(copy::digest(text.as_bytes()));
        assert_eq!(tree.ask(Query::Content, "file"), expected);
    }
}

#[test]
fn a_cached_digest_is_used_until_the_file_changes() {
    let tree = Tree::new();
    tree.write("file", "abc", 0);
    let other = copy::digest(b"other");
    tree.world.learn(&tree.path("file"), other);
    assert_eq!(tree.ask(Query::Content, "file"), Answer::File(other));
    tree.write("file", "abcd", 0);
    let answer = tree.ask(Query::Content, "file");
    assert_eq!(answer, Answer::File(copy::digest(b"abcd")));
}

#[test]
fn no_digest_of_a_suspended_file_is_trusted() {
    let tree = Tree::new();
    tree.write("file", "abc", 0);
    let stat = rustix::fs::stat(tree.path("file")).unwrap();
    tree.world.learn(&tree.path("file"), copy::digest(b"other"));
    tree.world.table().suspend(stat.st_dev, stat.st_ino);
    tree.world.learn(&tree.path("file"), copy::digest(b"other"));
    let abc = Answer::File(copy::digest(b"abc"));
    assert_eq!(tree.ask(Query::Content, "file"), abc);
    tree.world.table().resume(stat.st_dev, stat.st_ino);
    assert_eq!(tree.ask(Query::Content, "file"), abc);
}

#[test]
fn metadata_omits_times_that_do_not_count() {
    let tree = Tree::new();
    tree.write("file", "abc", 100);
    let none = tree.stat("file", TimeUse::None);
    assert_eq!(
        (none.size, none.links, none.modified, none.changed),
        (3, 1, 0, 0)
    );
    assert_eq!((none.inode, none.content), ((0, 0), None));
    let order = tree.stat("file", TimeUse::Order);
    assert_eq!(order.content, Some(copy::digest(b"abc")));
    assert_eq!((order.modified, order.inode), (0, (0, 0)));
    let modified = tree.stat("file", TimeUse::Modified);
    assert!(modified.modified > 0 && modified.changed == 0 && modified.inode == (0, 0));
    let exact = tree.stat("file", TimeUse::Exact);
    assert!(exact.changed > exact.modified && exact.inode.0 > 0);
}

#[test]
fn a_directory_counts_by_its_times_only_where_they_count() {
    let tree = Tree::new();
    fs::create_dir(tree.path("dir")).unwrap();
    let before = [TimeUse::None, TimeUse::Order, TimeUse::Exact].map(|time| tree.stat("dir", time));
    assert_eq!(
        (before[0].size, before[0].links, before[0].modified),
        (0, 0, 0)
    );
    fs::create_dir(tree.path("dir/sub")).unwrap();
    let past = SystemTime::UNIX_EPOCH;
    fs::File::open(tree.path("dir"))
        .unwrap()
        .set_modified(past)
        .unwrap();
    let after = [TimeUse::None, TimeUse::Order, TimeUse::Exact].map(|time| tree.stat("dir", time));
    assert_eq!(before[..2], after[..2]);
    assert_ne!(before[2], after[2]);
}

#[test]
fn links_and_real_paths_are_answered() {
    let tree = Tree::new();
    fs::create_dir(tree.path("dir")).unwrap();
    symlink("dir", tree.path("link")).unwrap();
    assert_eq!(tree.ask(Query::Link, "link"), Answer::Path("dir".into()));
    assert_eq!(tree.ask(Query::Link, "dir"), Answer::Error(libc::EINVAL));
    let real = fs::canonicalize(tree.path("dir")).unwrap();
    assert_eq!(
        tree.ask(Query::RealPath, "link/../link"),
        Answer::Path(real.into())
    );
    assert_eq!(tree.ask(Query::RealPath, "none"), NONE);
}

#[test]
fn a_listing_depends_on_names_and_types_alone() {
    let tree = Tree::new();
    fs::create_dir(tree.path("dir")).unwrap();
    let list = || tree.ask(Query::List, "dir");
    let empty = list();
    tree.write("dir/b", "", 0);
    tree.write("dir/a", "", 0);
    let two = list();
    assert_ne!(empty, two);
    tree.write("dir/a", "longer", 0);
    assert_eq!(list(), two);
    fs::remove_file(tree.path("dir/a")).unwrap();
    fs::create_dir(tree.path("dir/a")).unwrap();
    assert_ne!(list(), two);
    assert_eq!(tree.ask(Query::List, "none"), NONE);
    assert_eq!(tree.ask(Query::List, "dir/b"), Answer::Error(libc::ENOTDIR));
}

#[test]
fn own_changes_can_be_taken_out_of_a_listing() {
    let tree = Tree::new();
    fs::create_dir(tree.path("dir")).unwrap();
    tree.write("dir/kept", "", 0);
    tree.write("dir/removed", "", 0);
    let before = tree.ask(Query::List, "dir");
    fs::remove_file(tree.path("dir/removed")).unwrap();
    tree.write("dir/added", "", 0);
    let added = [OsString::from("added")].into();
    let removed = [(OsString::from("removed"), libc::DT_REG)].into();
    let without = tree.world.list_answer(&tree.path("dir"), &added, &removed);
    assert_eq!(without, before);
}

#[test]
fn missing_and_ordinary_targets_have_the_same_answer() {
    let tree = Tree::new();
    let target = |name| tree.ask(Query::Target, name);
    assert_eq!(target("none"), Answer::Writable);
    tree.write("file", "abc", 0);
    assert_eq!(target("file"), Answer::Writable);
    assert_eq!(target("none/below"), NONE);
    assert_eq!(target("file/below"), Answer::Error(libc::ENOTDIR));
    fs::hard_link(tree.path("file"), tree.path("second")).unwrap();
    assert!(matches!(target("file"), Answer::Metadata(_)));
    symlink("file", tree.path("link")).unwrap();
    assert_eq!(target("link"), Answer::Path("file".into()));
    fs::create_dir(tree.path("dir")).unwrap();
    assert_eq!(target("dir"), Answer::Directory);
    if !is_root() {
        tree.write("locked", "", 0);
        let locked = fs::Permissions::from_mode(0o444);
        fs::set_permissions(tree.path("locked"), locked).unwrap();
        assert!(matches!(target("locked"), Answer::Metadata(_)));
        fs::set_permissions(tree.path("dir"), fs::Permissions::from_mode(0o555)).unwrap();
        assert_eq!(target("dir/new"), Answer::Error(libc::EACCES));
    }
}

#[test]
fn the_order_of_times_is_told_without_the_times() {
    let tree = Tree::new();
    let order = || {
        let names = ["a", "b", "c"].map(|name| tree.at(name));
        tree.world.ask(&Query::Order(names.to_vec()))
    };
    tree.write("a", "", 300);
    tree.write("b", "", 200);
    let without_c = order();
    tree.write("a", "", 250);
    assert_eq!(order(), without_c);
    tree.write("a", "", 100);
    assert_ne!(order(), without_c);
    tree.write("a", "", 300);
    tree.write("c", "", 100);
    assert_ne!(order(), without_c);
}

#[test]
fn equal_times_are_not_an_order() {
    let tree = Tree::new();
    for name in ["a", "b"] {
        tree.write(name, "", 0);
        let file = fs::File::options()
            .write(true)
            .open(tree.path(name))
            .unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(5))
            .unwrap();
    }
    let order = |names: [&str; 2]| {
        tree.world
            .ask(&Query::Order(names.map(|n| tree.at(n)).to_vec()))
    };
    let tie = order(["a", "b"]);
    assert_eq!(tie, order(["b", "a"]));
    tree.write("b", "", 0);
    assert_ne!(tie, order(["a", "b"]));
    assert_ne!(tie, order(["b", "a"]));
}

#[test]
fn access_and_attributes_have_the_kernels_answers() {
    let tree = Tree::new();
    tree.write("file", "", 0);
    let access = |name, mode| {
        tree.world.ask(&Query::Access {
            path: tree.at(name),
            mode,
            effective: true,
            follow: true,
        })
    };
    assert_eq!(access("file", libc::R_OK), Answer::Granted);
    assert_eq!(access("file", libc::X_OK), Answer::Error(libc::EACCES));
    assert_eq!(access("none", libc::F_OK), NONE);
    assert_eq!(access("file", 0x100), Answer::Error(libc::EINVAL));
    let xattr = |name: &[u8]| {
        tree.world.ask(&Query::Xattr {
            path: tree.at("file"),
            follow: false,
            name: name.to_vec(),
        })
    };
    // File systems without attributes return EOPNOTSUPP.
    assert!(matches!(
        xattr(b"user.none"),
        Answer::Error(libc::ENODATA | libc::EOPNOTSUPP)
    ));
    assert!(matches!(
        xattr(b""),
        Answer::Summary(_) | Answer::Error(libc::EOPNOTSUPP)
    ));
    assert!(matches!(tree.ask(Query::StatFs, ""), Answer::Summary(_)));
}

#[test]
fn a_scanner_finds_text_across_piece_boundaries() {
    fn scanner(piece: &[u8]) -> u8 {
        u8::from(piece.windows(13).any(|window| window == b"__TIMESTAMP__"))
    }
    let tree = Tree {
        dir: tempfile::tempdir().unwrap(),
        world: World::with_scanner(DigestTable::in_memory(), scanner),
    };
    for (before, expected) in [(0, 1), (128 * 1024 - 5, 1), (128 * 1024, 1), (300_000, 1)] {
        let text = "x".repeat(before) + "__TIMESTAMP__";
        tree.write("file", &text, 0);
        let (digest, flags) = tree.world.digest_and_flags(&tree.path("file")).unwrap();
        assert_eq!(
            (digest, flags),
            (copy::digest(text.as_bytes()), expected),
            "{before}"
        );
    }
    tree.write("file", "__TIME__", 0);
    tree.world
        .learn(&tree.path("file"), copy::digest(b"__TIME__"));
    assert_eq!(
        tree.world.digest_and_flags(&tree.path("file")).unwrap().1,
        0
    );
}

#[test]
fn only_regular_files_have_digests() {
    let tree = Tree::new();
    assert!(tree.world.digest_file(tree.dir.path()).is_err());
    tree.write("file", "abc", 0);
    let file = fs::File::open(tree.path("file")).unwrap();
    let (digest, metadata) = tree.world.digest_open(&file).unwrap();
    assert_eq!((digest, metadata.size), (copy::digest(b"abc"), 3));
}

#[test]
fn files_of_one_mount_are_on_one_mount() {
    let tree = Tree::new();
    tree.write("file", "abc", 0);
    fs::create_dir(tree.path("dir")).unwrap();
    let ask = |one: &str, other: &str, device: bool| {
        let paths = [tree.at(one), other.into()];
        tree.world.ask(&Query::OneMount { paths, device })
    };
    let directory = tree.path("dir");
    let directory = directory.to_str().unwrap();
    let apart = Answer::Error(libc::EXDEV);
    for device in [false, true] {
        assert_eq!(ask("file", directory, device), Answer::Granted);
        assert_eq!(ask("file", "/proc", device), apart);
        assert_eq!(ask("file", "/absent", device), NONE);
        let differs = ask("file", "/proc/self", device);
        assert!(matches!(differs, Answer::Unknown(_)));
    }
}
