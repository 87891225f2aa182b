//! Hostile results, one by one: each is refused with a reason.

use std::fs;
use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;
use crate::model::outcome::StreamChunk;
use crate::remote::codec::Content;

/// A tree to which results may write, and one to which they may not.
struct World {
    _root: tempfile::TempDir,
    inside: PathBuf,
    outside: PathBuf,
}

impl World {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let base = root.path().canonicalize().unwrap();
        let (inside, outside) = (base.join("tree"), base.join("secret"));
        fs::create_dir_all(inside.join("dir/sub")).unwrap();
        fs::create_dir_all(outside.join("sub")).unwrap();
        fs::write(outside.join("file"), "").unwrap();
        symlink(&outside, inside.join("out")).unwrap();
        symlink("nothing", inside.join("dangling")).unwrap();
        Self {
            _root: root,
            inside,
            outside,
        }
    }

    fn path(&self, name: &str) -> FilePath {
        // Not joined, so that a hostile name stays unchanged.
        format!("{}/{name}", self.inside.display()).as_str().into()
    }

    fn check(&self, effects: Vec<Effect>) -> Result<(), Refusal> {
        self.check_all(&stored(effects))
    }

    fn check_all(&self, stored: &Stored) -> Result<(), Refusal> {
        Bounds::new(vec![self.inside.clone()]).check(stored, &inherited())
    }

    #[track_caller]
    fn refuses(&self, effect: Effect, why: &str) {
        let refusal = self.check(vec![effect.clone()]);
        let text = refusal.expect_err(&format!("{effect:?}")).to_string();
        assert!(text.contains(why), "{effect:?}: {text}");
    }

    #[track_caller]
    fn takes(&self, effect: Effect) {
        assert_eq!(self.check(vec![effect.clone()]), Ok(()), "{effect:?}");
    }
}

fn inherited() -> Vec<Inherited> {
    let one = |fd, position| Inherited {
        fd,
        written_as: fd,
        file: ptrace_async::event::OfdId(fd as u64),
        position,
        path: None,
        inode: None,
        device: None,
        output: None,
        flags: 0,
    };
    vec![one(0, Some(0)), one(1, None)]
}

fn outcome(effects: Vec<Effect>) -> Outcome {
    Outcome {
        ending: Ending::Exited(0),
        stream: Vec::new(),
        positions: Vec::new(),
        flags: Vec::new(),
        effects,
        ages: Vec::new(),
        facts: Vec::new(),
        conditions: None,
        cpu_us: 0,
        wall_us: 0,
        units: 1,
    }
}

fn stored(effects: Vec<Effect>) -> Stored {
    Stored {
        outcome: outcome(effects),
        contents: vec![Content {
            digest: Digest([1; 32]),
            hash: [1; 32],
            length: 5,
        }],
    }
}

fn write(path: FilePath) -> Effect {
    Effect::Write {
        path,
        content: Digest([1; 32]),
        length: 5,
        holes: false,
        mode: None,
        create_mode: 0o644,
        fresh: false,
        time: Time::Present,
    }
}

fn link(path: FilePath, target: &str) -> Effect {
    Effect::Symlink {
        path,
        target: target.into(),
    }
}

#[test]
fn ordinary_build_effects_are_accepted() {
    let world = World::new();
    world.takes(write(world.path("file")));
    world.takes(write(world.path("dir/sub/file")));
    world.takes(write(world.path("new/dir/file")));
    world.takes(Effect::MakeDir {
        path: world.path("new"),
        mode: 0o2755,
        time: Time::Present,
    });
    world.takes(link(world.path("liba.so"), "liba.so.1"));
    world.takes(link(world.path("dir/link"), "../file"));
    world.takes(link(
        world.path("install-sh"),
        &format!("{}/file", world.outside.display()),
    ));
    world.takes(Effect::HardLink {
        path: world.path("a"),
        to: world.path("b"),
    });
    world.takes(Effect::SetTimes {
        path: world.inside.as_path().into(),
        time: Time::Present,
    });
    world.takes(Effect::SetTimes {
        path: "/tmp".into(),
        time: Time::Present,
    });
}

#[test]
fn paths_that_lead_elsewhere_are_refused() {
    let world = World::new();
    for name in [
        "../secret/file",
        "dir/../../secret/file",
        "./file",
        "dir//file",
        "dir/",
        "a\0b",
    ] {
        world.refuses(write(world.path(name)), "no plain path");
    }
    world.refuses(write(world.path(&"x".repeat(256))), "no plain path");
    world.refuses(write(world.path(&"x/".repeat(2500))), "no plain path");
    for path in ["", "file", "~/file"] {
        world.refuses(write(path.into()), "no plain path");
    }
    let secret = world.outside.join("file");
    world.refuses(write(secret.as_path().into()), "outside");
    world.refuses(write("/etc/passwd".into()), "outside");
    // A directory that only shares a prefix of its name.
    let beside = format!("{}2/file", world.inside.display());
    world.refuses(write(beside.as_str().into()), "outside");
    // The base directory itself is not below itself.
    world.refuses(
        Effect::RemoveDir {
            path: world.inside.as_path().into(),
        },
        "outside",
    );
}

#[test]
fn every_kind_of_effect_is_confined() {
    let world = World::new();
    let outside: FilePath = world.outside.join("file").as_path().into();
    let effects = [
        write(outside.clone()),
        Effect::Append {
            path: outside.clone(),
            data: Digest([1; 32]),
            length: 5,
            create_mode: 0o644,
            time: Time::Present,
        },
        Effect::MakeDir {
            path: outside.clone(),
            mode: 0o755,
            time: Time::Present,
        },
        link(outside.clone(), "x"),
        Effect::HardLink {
            path: outside.clone(),
            to: world.path("file"),
        },
        // A write to a link of a file changes the file.
        Effect::HardLink {
            path: world.path("file"),
            to: outside.clone(),
        },
        Effect::Remove {
            path: outside.clone(),
        },
        Effect::RemoveDir {
            path: outside.clone(),
        },
        Effect::Chmod {
            path: outside.clone(),
            mode: 0o644,
        },
        Effect::SetTimes {
            path: outside.clone(),
            time: Time::Present,
        },
        Effect::SetTimes {
            path: "/tmp".into(),
            time: Time::Set(None, Some(0)),
        },
    ];
    for effect in effects {
        world.refuses(effect, "outside");
    }
}

#[test]
fn nothing_is_reached_through_links() {
    let world = World::new();
    for name in ["out/file", "out/sub/file", "out/new/file", "dangling/file"] {
        world.refuses(write(world.path(name)), "behind a symbolic link");
    }
    // The name itself may be a link: it is replaced, or the restore refuses it.
    world.takes(Effect::Remove {
        path: world.path("out"),
    });
}

#[test]
fn links_to_directories_elsewhere_are_refused() {
    let world = World::new();
    let elsewhere = "a directory elsewhere";
    let outside = world.outside.display().to_string();
    world.refuses(link(world.path("a"), &outside), elsewhere);
    world.refuses(link(world.path("a"), "../secret"), elsewhere);
    world.refuses(link(world.path("a"), "../secret/not/there/yet"), elsewhere);
    world.refuses(link(world.path("a"), "out"), elsewhere);
    world.refuses(link(world.path("a"), "/"), elsewhere);
    world.refuses(link(world.path("a"), "dir/../../secret"), "down and up");
    world.refuses(link(world.path("a"), ""), "nowhere");
    world.refuses(link(world.path("a"), "x\0"), "nowhere");
}

#[test]
fn links_in_a_circle_are_refused_or_lead_nowhere() {
    let world = World::new();
    // Neither exists yet: each is a link to a missing file inside.
    assert_eq!(
        world.check(vec![link(world.path("a"), "b"), link(world.path("b"), "a")]),
        Ok(())
    );
    symlink("q", world.inside.join("p")).unwrap();
    symlink("p", world.inside.join("q")).unwrap();
    world.refuses(link(world.path("r"), "p/x"), "elsewhere");
    world.refuses(write(world.path("p/x")), "behind a symbolic link");
}

#[test]
fn effects_that_grant_rights_are_refused() {
    let world = World::new();
    let path = world.path("file");
    for mode in [0o4755, 0o2755, 0o1644, 0o6777, 0o100_644, u32::MAX] {
        let Effect::Write {
            path,
            content,
            length,
            ..
        } = write(path.clone())
        else {
            panic!("it is a write")
        };
        let with = |exact: bool| Effect::Write {
            path: path.clone(),
            content,
            length,
            holes: false,
            mode: exact.then_some(mode),
            create_mode: if exact { 0o644 } else { mode },
            fresh: true,
            time: Time::Present,
        };
        world.refuses(with(true), "permissions");
        world.refuses(with(false), "permissions");
        world.refuses(
            Effect::Chmod {
                path: path.clone(),
                mode,
            },
            "permissions",
        );
        assert!(!is_shareable(&outcome(vec![with(true)])));
    }
    world.refuses(
        Effect::MakeDir {
            path,
            mode: 0o4755,
            time: Time::Present,
        },
        "permissions",
    );
}

#[test]
fn only_open_descriptors_are_accepted() {
    let world = World::new();
    let with = |change: fn(&mut Outcome)| {
        let mut stored = stored(Vec::new());
        change(&mut stored.outcome);
        world.check_all(&stored)
    };
    let chunk = |fd| StreamChunk {
        fd,
        data: StreamData::Inline(b"x".to_vec()),
    };
    assert_eq!(with(|outcome| outcome.positions = vec![(0, 5)]), Ok(()));
    assert_eq!(
        with(|outcome| outcome.flags = vec![(1, libc::O_APPEND)]),
        Ok(())
    );
    for (fd, right) in [(1, true), (2, false), (-1, false), (7, false)] {
        let mut stored = stored(Vec::new());
        stored.outcome.stream = vec![chunk(fd)];
        assert_eq!(world.check_all(&stored).is_ok(), right, "{fd}");
    }
    let pipe = with(|outcome| outcome.positions = vec![(1, 5)]);
    assert_eq!(pipe, Err(Refusal::Descriptor(1)));
    let flags = with(|outcome| outcome.flags = vec![(1, libc::O_ASYNC)]);
    assert_eq!(flags, Err(Refusal::Descriptor(1)));
}

#[test]
fn only_possible_exit_statuses_are_accepted() {
    let world = World::new();
    let with = |ending| {
        let mut stored = stored(Vec::new());
        stored.outcome.ending = ending;
        world.check_all(&stored).is_ok()
    };
    assert!(with(Ending::Exited(255)) && with(Ending::Killed(libc::SIGKILL)));
    for ending in [
        Ending::Exited(256),
        Ending::Exited(-1),
        Ending::Killed(0),
        Ending::Killed(65),
        Ending::Killed(libc::SIGSTOP),
        Ending::Killed(libc::SIGCHLD),
    ] {
        assert!(!with(ending), "{ending:?}");
    }
}

#[test]
fn oversized_results_are_refused() {
    let world = World::new();
    let mut large = stored(Vec::new());
    large.contents[0].length = MAX_BYTES + 1;
    assert!(matches!(world.check_all(&large), Err(Refusal::Large(_))));
    large.contents[0].length = u64::MAX;
    large.contents.push(Content {
        digest: Digest([2; 32]),
        ..large.contents[0]
    });
    assert!(matches!(world.check_all(&large), Err(Refusal::Large(_))));
    // One content, written many times.
    let mut often = stored(vec![write(world.path("f")); 3]);
    often.contents[0].length = MAX_BYTES / 2;
    for effect in &mut often.outcome.effects {
        if let Effect::Write { length, .. } = effect {
            *length = MAX_BYTES / 2;
        }
    }
    assert!(matches!(world.check_all(&often), Err(Refusal::Large(_))));
    let mut long = stored(Vec::new());
    long.outcome.wall_us = u64::MAX;
    assert!(matches!(world.check_all(&long), Err(Refusal::Large(_))));
    long.outcome.wall_us = 0;
    long.outcome.units = u32::MAX;
    assert!(matches!(world.check_all(&long), Err(Refusal::Large(_))));
}

#[test]
fn references_to_contents_are_validated() {
    let world = World::new();
    let mut other = stored(vec![write(world.path("f"))]);
    other.contents[0].length = 6;
    assert!(matches!(world.check_all(&other), Err(Refusal::Content(_))));
    other.contents.clear();
    assert!(matches!(world.check_all(&other), Err(Refusal::Content(_))));
    let mut twice = stored(Vec::new());
    twice.contents.push(twice.contents[0]);
    assert!(matches!(world.check_all(&twice), Err(Refusal::Content(_))));
    let mut ages = stored(vec![write(world.path("f"))]);
    ages.outcome.ages = vec![1, 2];
    assert!(matches!(world.check_all(&ages), Err(Refusal::Shape(_))));
}

#[test]
fn without_a_writable_directory_effects_are_refused() {
    let world = World::new();
    let nowhere = Bounds::new(vec![world.inside.join("not/there")]);
    assert_eq!(nowhere.check(&stored(Vec::new()), &[]), Ok(()));
    let write = stored(vec![write(world.path("file"))]);
    assert!(matches!(
        nowhere.check(&write, &[]),
        Err(Refusal::Path { .. })
    ));
}

proptest! {
    /// An accepted link leads inside, as resolved by the kernel.
    #[test]
    fn an_accepted_link_does_not_lead_outside(
        parts in prop::collection::vec(
            prop::sample::select(vec!["..", ".", "dir", "sub", "out", "tree", "secret", "new", ""]),
            1..6,
        ),
        below in prop::sample::select(vec!["", "dir/", "dir/sub/"]),
    ) {
        let world = World::new();
        let name = format!("{below}link");
        let target = parts.join("/");
        if world.check(vec![link(world.path(&name), &target)]).is_ok() {
            symlink(&target, world.inside.join(&name)).unwrap();
            let found = world.inside.join(&name).canonicalize().unwrap_or_default();
            prop_assert!(
                !found.is_dir() || found.starts_with(&world.inside),
                "{} -> {}", name, found.display()
            );
        }
    }
}
