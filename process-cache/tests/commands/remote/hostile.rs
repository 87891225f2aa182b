//! A hostile remote cache: its results are refused with a reason, and the command runs.

use std::fs;
use std::path::PathBuf;

use process_cache::model::outcome::{Effect, StreamChunk, StreamData, Time};
use process_cache::model::path::FilePath;
use process_cache::remote::codec::{self, PathSet, Sets, Stored};

use super::sandbox;
use super::server::{FakeServer, PLAIN};
use crate::support::{Run, Sandbox};

const COMMAND: &str = "sort f > g; cat g";

/// Changes a result by `harm`. Checks that another machine refuses it for a reason that contains
/// `why`, and that the command behaves as the plain one.
#[track_caller]
fn check_refused(why: &str, harm: impl Fn(&Sandbox, &mut Stored)) {
    let (plain, run) = elsewhere(harm);
    run.assert_like(&plain, why);
    assert_refused(&run, why);
}

/// Returns the plain run, and the run on another machine with a result changed by `harm`.
fn elsewhere(harm: impl Fn(&Sandbox, &mut Stored)) -> (Run, Run) {
    let server = FakeServer::start(PLAIN);
    let sandbox = sandbox("seq 3000 > f; mkdir sub; ln -s .. up", &server.url());
    let plain = sandbox.plain(COMMAND);
    sandbox.reset();
    sandbox.cached(COMMAND);
    server.poison(|stored| harm(&sandbox, stored));
    sandbox.elsewhere();
    (plain, sandbox.cached(COMMAND))
}

#[track_caller]
fn assert_refused(run: &Run, why: &str) {
    assert_ne!(run.whole().result, "hit");
    let miss = &run.whole().miss;
    assert!(miss.contains("refused") && miss.contains(why), "{miss}");
}

fn write(like: &Stored, path: PathBuf) -> Effect {
    let content = like.contents.first().expect("a content");
    Effect::Write {
        path: path.into(),
        content: content.digest,
        length: content.length,
        holes: false,
        mode: None,
        create_mode: 0o644,
        fresh: true,
        time: Time::Present,
    }
}

#[test]
fn files_elsewhere_are_not_written() {
    let victim = tempfile::tempdir().expect("a directory");
    let path = victim.path().join("planted");
    check_refused("outside", |_, stored| {
        let effect = write(stored, path.clone());
        stored.outcome.effects.push(effect);
    });
    check_refused("no plain path", |sandbox, stored| {
        let effect = write(stored, sandbox.dir().join("../../planted"));
        stored.outcome.effects.push(effect);
    });
    assert!(!path.exists());
}

#[test]
fn links_do_not_lead_out() {
    let victim = tempfile::tempdir().expect("a directory");
    let target: FilePath = victim.path().into();
    check_refused("a directory elsewhere", |sandbox, stored| {
        let link = sandbox.path("sub/link");
        let effects = &mut stored.outcome.effects;
        effects.push(Effect::Symlink {
            path: link.clone().into(),
            target: target.clone(),
        });
        let effect = write(stored, link.join("planted"));
        stored.outcome.effects.push(effect);
    });
    check_refused("behind a symbolic link", |sandbox, stored| {
        let effect = write(stored, sandbox.path("up/planted"));
        stored.outcome.effects.push(effect);
    });
    check_refused("outside", |sandbox, stored| {
        stored.outcome.effects.push(Effect::HardLink {
            path: sandbox.path("mine").into(),
            to: "/etc/passwd".into(),
        });
    });
    assert_eq!(fs::read_dir(victim.path()).expect("a directory").count(), 0);
}

#[test]
fn a_directory_is_not_exchanged_for_a_link_while_it_is_restored() {
    // Each step is inside and harmless by itself; the combined path is not.
    let harm = |sandbox: &Sandbox, stored: &mut Stored| {
        let sub = sandbox.path("sub");
        stored.outcome.effects.push(Effect::RemoveDir {
            path: sub.clone().into(),
        });
        stored.outcome.effects.push(Effect::Symlink {
            path: sub.clone().into(),
            target: "f".into(),
        });
        let effect = write(stored, sub.join("planted"));
        stored.outcome.effects.push(effect);
    };
    let (plain, run) = elsewhere(harm);
    run.assert_like(&plain, "a way through a link");
    let miss = &run.whole().miss;
    assert!(miss.contains("has no directory by then"), "{miss}");
}

#[test]
fn circular_links_are_refused() {
    type Harm = fn(&Sandbox, &Stored) -> Vec<Effect>;
    fn link(sandbox: &Sandbox, path: &str, target: &str) -> Effect {
        Effect::Symlink {
            path: sandbox.path(path).into(),
            target: target.into(),
        }
    }
    fn name(sandbox: &Sandbox, path: &str, to: &str) -> Effect {
        Effect::HardLink {
            path: sandbox.path(path).into(),
            to: sandbox.path(to).into(),
        }
    }
    let circles: [(Harm, &str); 4] = [
        // Two links to each other, and a path through them.
        (
            |s, stored| {
                let planted = write(stored, s.path("a/planted"));
                vec![link(s, "a", "b"), link(s, "b", "a"), planted]
            },
            "has no directory by then",
        ),
        (
            |s, stored| vec![link(s, "sub/a", "a"), write(stored, s.path("sub/a/a/a"))],
            "is not in a directory",
        ),
        // Names of each other, and of themselves.
        (
            |s, _| vec![name(s, "a", "b"), name(s, "b", "a")],
            "is not there",
        ),
        (|s, _| vec![name(s, "a", "a")], "is not there"),
    ];
    for (circle, why) in circles {
        let harm = |sandbox: &Sandbox, stored: &mut Stored| {
            let effects = circle(sandbox, stored);
            stored.outcome.effects.extend(effects);
        };
        let (plain, run) = elsewhere(harm);
        run.assert_like(&plain, why);
        assert_ne!(run.whole().result, "hit");
        let miss = &run.whole().miss;
        assert!(miss.contains(why), "{miss}");
    }
}

#[test]
fn set_id_bits_are_refused() {
    for bits in [0o4000, 0o2000] {
        check_refused("permissions", |sandbox, stored| {
            stored.outcome.effects.push(Effect::Chmod {
                path: sandbox.path("f").into(),
                mode: 0o755 | bits,
            });
        });
    }
}

#[test]
fn descriptors_of_pcache_are_not_written() {
    check_refused("descriptor", |_, stored| {
        stored.outcome.stream.push(StreamChunk {
            fd: 5,
            data: StreamData::Inline(b"planted".to_vec()),
        });
    });
}

#[test]
fn sizes_are_bounded() {
    check_refused("too large", |_, stored| {
        for content in &mut stored.contents {
            content.length = 1 << 50;
        }
        for effect in &mut stored.outcome.effects {
            if let Effect::Write { length, .. } = effect {
                *length = 1 << 50;
            }
        }
        stored.outcome.stream.clear();
    });
}

#[test]
fn a_content_must_match_its_digest() {
    check_refused("inconsistent", |_, stored| {
        for content in &mut stored.contents {
            content.length += 1;
        }
    });
    // The remote digest leads to other bytes of the same length.
    check_refused("has another digest", |_, stored| {
        for content in &mut stored.contents {
            content.digest.0[0] ^= 1;
        }
        for effect in &mut stored.outcome.effects {
            if let Effect::Write { content, .. } = effect {
                content.0[0] ^= 1;
            }
        }
        for chunk in &mut stored.outcome.stream {
            if let StreamData::Stored(digest, _) = &mut chunk.data {
                digest.0[0] ^= 1;
            }
        }
    });
}

#[test]
fn malformed_results_are_refused() {
    let relative = PathSet::new(vec![process_cache::model::fact::Query::Content("f".into())]);
    let relative = Sets {
        sets: vec![relative],
        hints: Vec::new(),
    };
    let relative = codec::encode_sets(&relative).expect("path sets");
    let head = &relative[..4];
    let bomb = {
        let zeros = vec![0; 64 << 20];
        let packed = zstd::bulk::compress(&zeros, 1).expect("zstd");
        [head, &packed].concat()
    };
    let damaged = [head, b"rubbish"].concat();
    for (bytes, why) in [
        (&b"rubbish"[..], "not one of pcache's"),
        (b"", "not one of pcache's"),
        (&damaged, "damaged"),
        (b"pcq\xff", "version 255"),
        (&bomb, "too large"),
        (&relative, "it asks"),
    ] {
        let server = FakeServer::start(PLAIN);
        let sandbox = sandbox("seq 3000 > f", &server.url());
        let plain = sandbox.plain(COMMAND);
        sandbox.reset();
        sandbox.cached(COMMAND);
        server.replace_blobs(bytes);
        sandbox.elsewhere();
        let run = sandbox.cached(COMMAND);
        run.assert_like(&plain, why);
        assert_refused(&run, why);
        // The local result has replaced it.
        sandbox.elsewhere();
        sandbox.cached(COMMAND).assert_hit();
    }
}
