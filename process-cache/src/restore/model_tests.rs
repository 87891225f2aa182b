//! Compares random effects with a reference that applies them one by one, as a program would.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use proptest::prelude::*;

use super::*;

/// Effects on names of a small tree; its location is filled in later.
#[derive(Debug, Clone)]
enum Small {
    Write {
        name: u8,
        content: u8,
        fresh: bool,
        mode: Option<u32>,
    },
    Append(u8, u8),
    MakeDir(u8),
    Symlink(u8),
    HardLink(u8, u8),
    Remove(u8),
    RemoveDir(u8),
    Chmod(u8),
    SetTimes(u8),
    Attribute(u8),
}

const NAMES: [&str; 8] = ["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "l"];

fn content(n: u8) -> Vec<u8> {
    match n {
        0 => Vec::new(),
        // Too long to be prepared in memory.
        3 => vec![3; 300_000],
        n => vec![n; usize::from(n) * 10],
    }
}

fn small() -> impl Strategy<Value = Small> {
    let name = || 0..NAMES.len() as u8;
    let mode = prop::option::of(prop_oneof![Just(0o600u32), Just(0o755)]);
    prop_oneof![
        6 => (name(), 0..4u8, any::<bool>(), mode)
            .prop_map(|(name, content, fresh, mode)| Small::Write { name, content, fresh, mode }),
        2 => (name(), 0..4u8).prop_map(|(name, content)| Small::Append(name, content)),
        3 => name().prop_map(Small::MakeDir),
        1 => name().prop_map(Small::Symlink),
        2 => (name(), name()).prop_map(|(name, to)| Small::HardLink(name, to)),
        3 => name().prop_map(Small::Remove),
        1 => name().prop_map(Small::RemoveDir),
        1 => name().prop_map(Small::Chmod),
        1 => name().prop_map(Small::SetTimes),
        1 => name().prop_map(Small::Attribute),
    ]
}

fn effect(small: &Small, root: &Path, store: &Store) -> Effect {
    let at = |name: u8| FilePath::from(root.join(NAMES[usize::from(name)]));
    match *small {
        Small::Write {
            name,
            content: number,
            fresh,
            mode,
        } => {
            let bytes = content(number);
            Effect::Write {
                path: at(name),
                content: store.put_bytes(&bytes).unwrap(),
                length: bytes.len() as u64,
                holes: false,
                mode,
                create_mode: 0o644,
                fresh,
                time: Time::Present,
            }
        }
        Small::Append(name, number) => {
            let bytes = content(number);
            Effect::Append {
                path: at(name),
                data: store.put_bytes(&bytes).unwrap(),
                length: bytes.len() as u64,
                create_mode: 0o600,
                time: Time::Present,
            }
        }
        Small::MakeDir(name) => Effect::MakeDir {
            path: at(name),
            mode: 0o755,
            time: Time::Present,
        },
        Small::Symlink(name) => Effect::Symlink {
            path: at(name),
            target: "a".into(),
        },
        Small::HardLink(name, to) => Effect::HardLink {
            path: at(name),
            to: at(to),
        },
        Small::Remove(name) => Effect::Remove { path: at(name) },
        Small::RemoveDir(name) => Effect::RemoveDir { path: at(name) },
        Small::Chmod(name) => Effect::Chmod {
            path: at(name),
            mode: 0o711,
        },
        Small::SetTimes(name) => Effect::SetTimes {
            path: at(name),
            time: Time::Set(None, Some(1_000_000_000)),
        },
        // Removed: file systems without attributes have none either.
        Small::Attribute(name) => Effect::Attribute {
            path: at(name),
            name: b"user.a".to_vec(),
            value: None,
        },
    }
}

/// Applies one effect with plain calls; `None` if that is impossible.
fn reference(store: &Store, effect: &Effect) -> Option<()> {
    let path = effect.path().as_path();
    // Effects name files in directories, not through links.
    let parent = fs::symlink_metadata(path.parent()?).is_ok_and(|parent| parent.is_dir());
    let found = match fs::symlink_metadata(path) {
        // Links in a circle cannot be resolved.
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return None,
        found => found.ok(),
    };
    let is_dir = found.as_ref().is_some_and(fs::Metadata::is_dir);
    let is_file = found.as_ref().is_some_and(fs::Metadata::is_file);
    let removing = matches!(effect, Effect::Remove { .. } | Effect::RemoveDir { .. });
    if !(parent || removing && found.is_none()) {
        return None;
    }
    let chmod = |mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).ok();
    match effect {
        Effect::Write {
            content,
            mode,
            create_mode,
            fresh,
            ..
        } => {
            if is_dir || (found.is_some() && !is_file && !fresh) {
                return None;
            }
            if *fresh && found.is_some() {
                fs::remove_file(path).ok()?;
            }
            let made = *fresh || found.is_none();
            fs::write(path, store.get_bytes(content).ok()?).ok()?;
            match (mode, made) {
                (Some(mode), _) => chmod(*mode),
                (None, true) => chmod(*create_mode),
                (None, false) => Some(()),
            }
        }
        Effect::Append {
            data, create_mode, ..
        } => {
            if found.is_some() && !is_file {
                return None;
            }
            let mut file = fs::File::options()
                .append(true)
                .create(true)
                .open(path)
                .ok()?;
            file.write_all(&store.get_bytes(data).ok()?).ok()?;
            if found.is_none() {
                chmod(*create_mode)
            } else {
                Some(())
            }
        }
        Effect::MakeDir { mode, .. } => {
            if !is_dir {
                fs::create_dir(path).ok()?;
            }
            chmod(*mode)
        }
        Effect::Symlink { target, .. } => {
            if is_dir {
                return None;
            }
            let _ = fs::remove_file(path);
            symlink(target.as_path(), path).ok()
        }
        Effect::HardLink { to, .. } => {
            let source = fs::symlink_metadata(to.as_path()).ok()?;
            if is_dir || source.is_dir() {
                return None;
            }
            if path != to.as_path() {
                let _ = fs::remove_file(path);
                fs::hard_link(to.as_path(), path).ok()?;
            }
            Some(())
        }
        Effect::Remove { .. } => {
            if is_dir {
                return None;
            }
            let _ = fs::remove_file(path);
            Some(())
        }
        Effect::RemoveDir { .. } => match found {
            Some(_) => fs::remove_dir(path).ok(),
            None => Some(()),
        },
        Effect::Chmod { mode, .. } => {
            if !is_dir && !is_file {
                return None;
            }
            chmod(*mode)
        }
        Effect::SetTimes { .. } => found.map(|_| ()),
        Effect::Attribute { .. } => (is_dir || is_file).then_some(()),
    }
}

/// One name of a tree: mode, content or target, and the first name of the same
/// inode.
type Seen = (u32, Vec<u8>, String);

fn look(root: &Path) -> BTreeMap<String, Seen> {
    let mut seen = BTreeMap::new();
    let mut inodes: BTreeMap<u64, String> = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    let mut all = Vec::new();
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if fs::symlink_metadata(&path).unwrap().is_dir() {
                left.push(path.clone());
            }
            all.push(path);
        }
    }
    all.sort();
    for path in all {
        let found = fs::symlink_metadata(&path).unwrap();
        let name = path
            .strip_prefix(root)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let first = inodes
            .entry(found.ino())
            .or_insert_with(|| name.clone())
            .clone();
        let bytes = if found.is_dir() {
            Vec::new()
        } else if found.is_symlink() {
            fs::read_link(&path)
                .unwrap()
                .into_os_string()
                .into_encoded_bytes()
        } else {
            fs::read(&path).unwrap()
        };
        seen.insert(name, (found.mode(), bytes, first));
    }
    seen
}

/// Whether effects are on two names that a file has before: they may be refused, since the unit may
/// have changed two files.
fn change_one_file_by_two_names(
    effects: &[Effect],
    before: &BTreeMap<String, Seen>,
    root: &Path,
) -> bool {
    let names: BTreeSet<&str> = effects
        .iter()
        .filter_map(|effect| effect.path().strip_prefix(root).ok()?.to_str())
        .collect();
    let mut files = BTreeSet::new();
    let firsts = names.iter().filter_map(|name| before.get(*name));
    firsts
        .map(|(.., first)| first)
        .any(|first| !files.insert(first))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn effects_change_what_the_program_changed_or_nothing(
        start in prop::collection::vec(small(), 0..12),
        effects in prop::collection::vec(small(), 0..10),
        knowing in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("store")).unwrap();
        let roots = ["expected", "found"].map(|name| dir.path().join(name));
        for root in &roots {
            fs::create_dir(root).unwrap();
            for small in &start {
                let _ = reference(&store, &effect(small, root, &store));
            }
        }
        let before = look(&roots[1]);
        prop_assert_eq!(&look(&roots[0]), &before);
        let possible = effects
            .iter()
            .all(|small| reference(&store, &effect(small, &roots[0], &store)).is_some());
        let effects: Vec<Effect> = effects.iter().map(|s| effect(s, &roots[1], &store)).collect();
        let world = World::new(crate::store::DigestTable::in_memory());
        let options = Options { world: knowing.then_some(&world), ..Options::default() };
        match apply_with(&store, &effects, options) {
            Ok(_) => {
                prop_assert!(possible);
                prop_assert_eq!(look(&roots[1]), look(&roots[0]));
            }
            Err(error) => {
                let refused = change_one_file_by_two_names(&effects, &before, &roots[1]);
                prop_assert!(!possible || refused, "{}", error);
                prop_assert!(error.is_clean(), "{}", error);
                prop_assert_eq!(look(&roots[1]), before);
            }
        }
    }

    #[test]
    fn effects_before_a_failing_one_are_undone(
        start in prop::collection::vec(small(), 0..12),
        effects in prop::collection::vec(small(), 0..10),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("store")).unwrap();
        let root = dir.path().join("tree");
        fs::create_dir(&root).unwrap();
        for small in &start {
            let _ = reference(&store, &effect(small, &root, &store));
        }
        let mut effects: Vec<Effect> = effects.iter().map(|s| effect(s, &root, &store)).collect();
        let last = root.join("late/last");
        fs::create_dir(root.join("late")).unwrap();
        effects.push(Effect::MakeDir {
            path: last.as_path().into(),
            mode: 0o755,
            time: Time::Present,
        });
        let Ok(stages) = prepare::prepare(&store, &effects, None) else {
            return Ok(());
        };
        fs::write(&last, "").unwrap();
        let seen = || {
            let seen = look(&root);
            let time = |name: &String| fs::symlink_metadata(root.join(name))?.modified();
            let times: Vec<_> = seen.keys().map(|name| time(name).unwrap()).collect();
            (seen, times, fs::metadata(&root).unwrap().modified().unwrap())
        };
        let before = seen();
        let error = commit::run(&store, &effects, stages, Options::default()).unwrap_err();
        let removes_dirs = effects.iter().any(|e| matches!(e, Effect::RemoveDir { .. }));
        let has_long = start.iter().any(|small| {
            matches!(small, Small::Write { content: 3, .. } | Small::Append(_, 3))
        }) || effects.iter().any(|e| content_of(e).is_some_and(|(_, length)| length > 1000));
        prop_assert!(error.is_clean() || removes_dirs || has_long, "{}", error);
        if error.is_clean() {
            prop_assert_eq!(seen(), before);
        }
    }
}
